"""Measures what vig.md is about, on MiniLM and SmolLM2-135M-Instruct: gender in coreference, pairs of sentences, decay.

    python docs/results/vig_sample.py bias
    python docs/results/vig_sample.py pairs
    python docs/results/vig_sample.py decay --data wiki.test.txt

Every part writes tables to vig/ beside this file. Texts are our own, but for those of "decay".
"""

import argparse
import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import tl_ffblock as ffb
from tl_ffblock import heads
from tl_ffblock.results.intervals import mean_interval
from tl_ffblock.results.token_maps import TokenMaps

OUT = Path(__file__).resolve().parent / "vig"
SEED, N_TEXTS, N_WORDS = 0, 12, 24
FEMALE = (
    "nurse",
    "secretary",
    "receptionist",
    "hairdresser",
    "librarian",
    "cashier",
    "housekeeper",
    "teacher",
    "cleaner",
    "baker",
)
MALE = ("carpenter", "mechanic", "driver", "janitor", "farmer", "sheriff", "lawyer", "developer", "guard", "manager")
"""Occupations with mostly women and mostly men in statistics of labour (WinoBias, Zhao et al. 2018)."""
NEUTRAL = "person"
PROMPTS = (
    "The {} said that",
    "The {} went home early because",
)
SENTENCE = "The {} asked the {} a question because {}"
PAIRS = (
    ("The boy bought a new bicycle.", "A young lad purchased a bike."),
    ("The meeting was put off until Friday.", "They postponed the meeting to the end of the week."),
    ("She is very happy with her results.", "Her results make her really glad."),
    ("The film was far too long.", "That movie lasted much longer than it should."),
    ("He lost his keys on the way home.", "While returning home he dropped his keys somewhere."),
    ("The company fired fifty workers.", "Fifty employees were dismissed by the firm."),
    ("It rained all day in the city.", "In town there was rain from morning to night."),
    ("The doctor examined the old man.", "The elderly patient was checked by the physician."),
    ("Prices have gone up again this year.", "This year things became more expensive once more."),
    ("The children are playing in the garden.", "Kids play outside in the yard."),
    ("The train to London leaves at nine.", "At nine o'clock the London train departs."),
    ("Nobody answered the phone.", "The telephone was not picked up by anyone."),
    ("My sister cooks excellent soup.", "The soup that my sister makes is delicious."),
    ("The river is too dangerous for swimming.", "It is not safe to swim in this river."),
    ("The author wrote her last book in Paris.", "Her final novel was written by the writer in Paris."),
    ("Police arrested two men after the robbery.", "Following the theft two suspects were caught by officers."),
    ("The new phone is cheaper than the old one.", "The older phone costs more than the recent model."),
    ("He forgot to close the window.", "The window was left open by him."),
    ("The team won the match easily.", "It was a simple victory for the team."),
    ("Many people fear spiders.", "A lot of persons are afraid of spiders."),
)
"""Sentences that say the same in other words; each first one with the next pair's second one is the control."""


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """One table."""
    OUT.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv(OUT / f"{name}.csv", index=False, float_format="%.4g", lineterminator="\n")


def ends(values: Tensor) -> dict[str, Any]:
    """Mean of numbers with the ends of its interval, and their number."""
    mean = mean_interval(values)
    return dict(mean=float(mean.mean), low=float(mean.low), high=float(mean.high), n=len(values))


def places(model: Any, text: str, word: str) -> list[int]:
    """Positions of a word's tokens; of a word that stands twice those of the last."""
    spans = model.tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    begin, before = (
        text.rindex(word),
        model.to_tokens(text).shape[1] - len(spans),
    )  # a token that TransformerLens prepends
    found = [at + before for at, (a, b) in enumerate(spans) if a < begin + len(word) and b > begin and b > a]
    assert model.tokenizer.decode(model.to_tokens(text)[0, found]).strip() == word
    return found


def preferred(maps: TokenMaps, first: Sequence[int], second: Sequence[int]) -> Tensor:
    """Of what the one row takes from two words the part of the first: [layer channel]."""
    row = maps.values[:, :, 0].double()
    ones = [row[..., list(word)].sum(dim=-1) for word in (first, second)]
    return ones[0] / (ones[0] + ones[1])


def chosen_elsewhere(numbers: Tensor) -> tuple[int, int, Tensor]:
    """The layer and channel of the largest mean over every second case, and its numbers on the other cases: [case layer channel]."""
    layer, channel = np.unravel_index(int(numbers[::2].mean(dim=0).argmax()), numbers.shape[1:])
    return int(layer), int(channel), numbers[1::2, layer, channel]


def maps_of(model: Any, text: Any, queries: list[int] | None = None) -> dict[str, TokenMaps]:
    """Attention by head, and the maps after attention, after the feed-forward and of the layer's output."""
    contributions = ffb.contribution_maps(model, text, queries=queries)
    scopes = [scope for scope in contributions.scopes if scope in ("Atb", "AtbFf", "AtbLnFf", contributions.scopes[-1])]
    named = {"Atb": "after attention", "AtbFf": "after FF", "AtbLnFf": "after FF"}
    return {"attention": ffb.attention_maps(model, text, queries=queries)} | {
        named.get(scope, "layer output"): contributions.token_maps(scope) for scope in scopes
    }


def measure_logits(model: Any) -> None:
    """The logit of "she" over that of "he" after an occupation, what its tokens contribute, and the same of a neutral word."""
    rows = []
    target = ffb.logit(" she", minus=" he")
    for prompt in PROMPTS:
        neutral = ffb.attribute(model, prompt.format(NEUTRAL), target, of=()).value
        for side, words in (("female", FEMALE), ("male", MALE)):
            for word in words:
                text = prompt.format(word)
                result = ffb.attribute(model, text, target, of=())
                own = float(result.tokens[places(model, text, word)].sum())
                rows.append(
                    dict(prompt=prompt, side=side, word=word, value=result.value, neutral=neutral, contributed=own)
                )
    write("bias_logits", rows)


def measure_bias(name: str, model: Any) -> None:
    """How much more of a pronoun's row is on the occupation of its stereotype than of the other pronoun's row, by map."""
    cases: dict[str, list[Tensor]] = {}
    channels: dict[str, tuple[str, ...]] = {}
    for female, male in zip(FEMALE, MALE, strict=True):
        found: dict[str, list[Tensor]] = {}
        for (first, second), pronoun in product(((female, male), (male, female)), ("she", "he")):
            text = SENTENCE.format(first, second, pronoun)
            at = {word: places(model, text, word) for word in (female, male, pronoun)}
            for kind, maps in maps_of(model, text, queries=at[pronoun][-1:]).items():
                part = preferred(maps, at[female], at[male])
                found.setdefault(kind, []).append(part if pronoun == "she" else -part)
                channels[kind] = maps.channels
        for kind, parts in found.items():
            cases.setdefault(kind, []).append(torch.stack(parts).sum(dim=0) / 2)  # two orders, she less he
    rows = []
    for kind, each in cases.items():
        numbers = torch.stack(each)
        of_layers = numbers.mean(dim=2)
        rows += [
            dict(model=name, map=kind, layer=layer, channel="mean", **ends(of_layers[:, layer]))
            for layer in range(numbers.shape[1])
        ]
        layer, channel, others = chosen_elsewhere(numbers)
        rows.append(
            dict(model=name, map=kind, layer=layer, channel=f"chosen {channels[kind][channel]}", **ends(others))
        )
    append("bias_maps", rows)


def measure_pairs(name: str, model: Any, causal: bool) -> None:
    """The share of rows on the other sentence: of paraphrases less that of two sentences of different pairs."""
    shares: dict[str, list[Tensor]] = {}
    channels: dict[str, tuple[str, ...]] = {}
    for number, (first, second) in enumerate(PAIRS):
        for other in (second, PAIRS[(number + 1) % len(PAIRS)][1]):
            text: Any = f"{first} {other}" if causal else (first, other)
            segments = {"A": 0, "B": places(model, text, other)[0]} if causal else None
            for kind, maps in maps_of(model, text).items():
                special = [at for at, token in enumerate(maps.tokens) if token in ("[CLS]", "[SEP]")]
                groups = heads.token_groups(maps.tokens, special=special)
                share = heads.means(heads.target_shares(maps, groups, segments))["other segment"]
                shares.setdefault(kind, []).append(torch.from_numpy(share))
                channels[kind] = maps.channels
    rows = []
    for kind, each in shares.items():
        same, different = torch.stack(each[::2]), torch.stack(each[1::2])
        layer, channel, others = chosen_elsewhere(same - different)
        both = dict(paraphrase=float(same.mean()), control=float(different.mean()))
        rows.append(
            dict(
                model=name,
                map=kind,
                layer=-1,
                channel="mean",
                **both,
                **ends((same - different).flatten(1).mean(dim=1)),
            )
        )
        both = dict(
            paraphrase=float(same[1::2, layer, channel].mean()), control=float(different[1::2, layer, channel].mean())
        )
        rows.append(
            dict(model=name, map=kind, layer=layer, channel=f"chosen {channels[kind][channel]}", **both, **ends(others))
        )
    append("pairs", rows)


def measure_decay(name: str, model: Any, texts: list[str], special: list[int]) -> None:
    """The steepest dimensions, and the slope of their head as predicted without them, and as it is."""
    decay = heads.distance_decay(model, texts, special=special)
    frame = decay.to_dataframe()
    rows = []
    for row in frame.nsmallest(5, "value").itertuples():
        dimensions = [int(one) for one in str(row.dimensions).split("+")]

        def cut(query: Tensor, hook: Any, head: int = row.head, dimensions: list[int] = dimensions) -> Tensor:
            query[:, :, head, dimensions] = 0
            return query

        hooks = [(f"blocks.{row.layer}.attn.hook_q", cut)]
        edited = heads.distance_decay(
            model, texts, layers=[row.layer], heads=[row.head], special=special, fwd_hooks=hooks
        )
        measured = dict(predicted=row.of_head - row.value, edited=float(edited.whole.mean()))
        rows.append(
            dict(model=name, **{key: value for key, value in row._asdict().items() if key != "Index"}, **measured)
        )
    of_heads = frame.drop_duplicates(["layer", "head"])
    falls = mean_interval(decay.whole)
    counts = dict(heads=len(of_heads), falls=int((falls.high < 0).sum()), rises=int((falls.low > 0).sum()))
    append("decay", rows)
    append("decay_heads", [dict(model=name, texts=len(texts), dimensions=len(decay.dimensions), **counts)])


def append(name: str, rows: list[dict[str, Any]]) -> None:
    """One model's rows of a table, in place of its earlier ones."""
    path = OUT / f"{name}.csv"
    old = pd.read_csv(path).to_dict("records") if path.is_file() else []
    write(name, [row for row in old if row["model"] != rows[0]["model"]] + rows)


def main() -> None:
    """Measure one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["bias", "pairs", "decay"])
    parser.add_argument("--data", type=Path)
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    models = {"MiniLM": ffb.load_model("minilm"), "SmolLM2": ffb.load_model("smollm2")}
    if options.part == "bias":
        measure_logits(models["SmolLM2"])
    lines = options.data.read_text(encoding="utf-8").splitlines() if options.data else []
    long = [line.split()[:N_WORDS] for line in lines if len(line.split()) > N_WORDS]
    random.Random(SEED).shuffle(long)
    for name, model in models.items():
        if options.part == "bias":
            measure_bias(name, model)
        elif options.part == "pairs":
            measure_pairs(name, model, causal=name == "SmolLM2")
        else:
            special = [0] if name == "SmolLM2" else [0, -1]
            measure_decay(name, model, [" ".join(line) for line in long[:N_TEXTS]], special)


if __name__ == "__main__":
    main()
