"""What turned the memories of a finished run of the study `memories` on, and what the model does without them.

    python docs/results/memories_causes.py RUN --data sentences.txt --max-tokens 64 --out RUN-causes

Of every layer some memories of the run, drawn at random, with their first triggers (positive ones):

- `tokens-LAYER.csv`, one row per trigger: the token that brought most of the coefficient by the closed-form shares, and the
  token whose removal lowers it most, each by its distance from the trigger token; the change when the first, the last and a
  random token is removed (Geva et al. 2021, 3.3); how shares and removals rank the tokens (Spearman).
- `effects-LAYER.csv`, one row per memory: what knocking it out at its triggers does to the prediction there, at the first and
  the last five ranks and at the triggers of another memory of the layer, and how rank and effect go together (Spearman).

A layer that is finished is not done again: after a stop, start the same command once more. `--layers` shares the layers out
to several processes.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import spearmanr

from tl_ffblock import load_model, memories
from tl_ffblock.bridge.labels import label
from tl_ffblock.bridge.model import identify
from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.texts import CorpusText, read_texts
from tl_ffblock.corpus.tokenised import Tokeniser

RANKS_OF_TOKENS = 5
"""Triggers of a memory whose tokens are removed one by one."""
FEWEST_TOKENS = 3
"""Tokens that a trigger must have, so that there is something to choose from."""
EFFECTS = ("top_logit", "next_log_probability", "kl")


def triggers_of(run: Path, model: Any, config: Config, layer: int, n_memories: int) -> memories.Triggers:
    """The stored triggers of some memories of a layer, with the texts they are in."""
    table = pd.read_csv(run / "tables" / "memories_triggers.csv", keep_default_na=False)
    table = table[(table["layer"] == layer) & (table["sign"] == "positive")]
    ranks = int(table["rank"].max())
    full = np.array(sorted(neuron for neuron, rows in table.groupby("neuron") if len(rows) == ranks))
    drawn = np.sort(np.random.default_rng([config.seed, layer]).permutation(full)[:n_memories])
    rows = table[table["neuron"].isin(drawn)].sort_values(["neuron", "rank"])
    shape = (len(drawn), ranks)
    numbers = set(rows["sequence"])
    tokenise = Tokeniser(identify(model), config)
    texts = (text for text in read_texts(config) if isinstance(text, CorpusText))
    tokens = {number: tokenise(text).ids for number, text in enumerate(texts) if number in numbers}
    return memories.Triggers(
        memories=tuple(memories.MemoryName(layer, int(neuron)) for neuron in drawn),
        sign="positive",
        coefficient=rows["coefficient"].to_numpy(np.float32).reshape(shape),
        sequence=rows["sequence"].to_numpy(np.int32).reshape(shape),
        position=rows["position"].to_numpy(np.int32).reshape(shape),
        tokens=tokens,
        labels={number: label(identify(model), torch.as_tensor(ids)) for number, ids in tokens.items()},
        causal=identify(model).family.causal,
    )


def tokens_of_triggers(model: Any, triggers: memories.Triggers) -> pd.DataFrame:
    """One row per trigger: where the decisive token is, by shares and by removal."""
    removals = memories.remove_tokens(model, triggers, where=("random", "each"), ranks=RANKS_OF_TOKENS)
    rows = []
    for (name, rank), of_trigger in removals.groupby(["memory", "rank"], sort=False):
        each = of_trigger[of_trigger["where"] == "each"].sort_values("removed")
        if len(each) < FEWEST_TOKENS:
            continue
        trigger = triggers.of(name)[rank - 1]
        ids = triggers.tokens[trigger.sequence][: trigger.position + 1].tolist()
        parts = memories.token_parts(model, ids, [name])
        coefficient = float(parts.coefficient[0])
        if not np.isclose(coefficient, trigger.coefficient, rtol=1e-3, atol=1e-4):
            raise SystemExit(
                f"memory {name}: {coefficient} here, {trigger.coefficient} in the run: other texts or model."
            )
        places = each["removed"].to_numpy()
        brought = parts.parts[0].numpy()[places]
        lost = -each["change"].to_numpy()
        rows.append(
            dict(
                layer=trigger.memory.layer,
                neuron=trigger.memory.neuron,
                rank=rank,
                tokens=len(each),
                by_shares=int(places[-1] - places[brought.argmax()]),
                by_removal=int(places[-1] - places[lost.argmax()]),
                share_of_last=brought[-1] / coefficient,
                share_of_marks=float(parts.parts[0].sum() - brought.sum()) / coefficient,
                share_of_bias=float(parts.bias[0]) / coefficient,
                spearman=spearmanr(brought, lost).statistic,
                change_first=-lost[0],
                change_last=-lost[-1],
                change_random=float(of_trigger.loc[of_trigger["where"] == "random", "change"].iloc[0]),
            )
        )
    return pd.DataFrame(rows)


def effects_of_knock_outs(model: Any, triggers: memories.Triggers) -> pd.DataFrame:
    """One row per memory: effects at its triggers and elsewhere, and whether the rank says how large they are."""
    values = memories.value_tokens(model, memories=triggers.memories)
    own = memories.neuron_ablation_effects(model, triggers, values)
    shifted = replace(
        triggers, sequence=np.roll(triggers.sequence, 1, axis=0), position=np.roll(triggers.position, 1, axis=0)
    )
    elsewhere = memories.neuron_ablation_effects(model, shifted, values, ranks=RANKS_OF_TOKENS)
    rows = []
    for name, of_memory in own.groupby("memory", sort=False):
        memory = memories.MemoryName.read(name)
        row: dict[str, float] = dict(layer=memory.layer, neuron=memory.neuron)
        for effect in EFFECTS:
            seen = of_memory.dropna(subset=effect)
            row[f"{effect}_spearman"] = spearmanr(-seen["rank"], seen[effect]).statistic
            row[f"{effect}_first"] = seen.nsmallest(RANKS_OF_TOKENS, "rank")[effect].mean()
            row[f"{effect}_last"] = seen.nlargest(RANKS_OF_TOKENS, "rank")[effect].mean()
            row[f"{effect}_elsewhere"] = elsewhere.loc[elsewhere["memory"] == name, effect].mean()
        rows.append(row)
    return pd.DataFrame(rows)


def parts_of_run(options: argparse.Namespace, model: Any) -> Iterator[tuple[Path, pd.DataFrame]]:
    """The files that are still to be written, and what goes into them."""
    config = Config(model=options.model, data=options.data, out="", max_tokens=options.max_tokens, mask_fraction=0.0)
    for layer in range(model.cfg.n_layers) if options.layers is None else options.layers:
        files = {kind: options.out / f"{kind}-{layer:02}.csv" for kind in ("tokens", "effects")}
        if all(file.is_file() for file in files.values()):
            continue
        triggers = triggers_of(options.run, model, config, layer, options.memories)
        yield files["tokens"], tokens_of_triggers(model, triggers)
        yield files["effects"], effects_of_knock_outs(model, triggers)


def main() -> None:
    """Read the arguments, and write a file when its layer is finished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", required=True, help="what the run read")
    parser.add_argument("--max-tokens", type=int, help="as in the run")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--memories", type=int, default=8, help="of every layer (default 8)")
    parser.add_argument("--layers", type=int, nargs="+")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    model = load_model(options.model, device=options.device)
    for file, table in parts_of_run(options, model):
        unfinished = file.with_suffix(".part")
        table.to_csv(unfinished, index=False)
        unfinished.rename(file)
        print(file, flush=True)


if __name__ == "__main__":
    main()
