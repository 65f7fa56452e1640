"""Makes causal_validation_SET.csv and its differences: does a map say which contributions matter to SmolLM2-135M?

    python docs/results/causal_validation.py ioi   --data ioi.json
    python docs/results/causal_validation.py sva   --data nounpp_test.json
    python docs/results/causal_validation.py blimp --data distractor.jsonl regular_plural.jsonl gender.jsonl

Data: indirect-object prompts (github.com/lab-paper-code/dual_path_attribution, data/ioi.json), subject-verb
agreement across a noun (github.com/saprmarks/feature-circuits, data/nounpp_test.json), BLiMP paradigms with a
common prefix (github.com/alexwarstadt/blimp, data). About 15 minutes a data set on one free core.
"""

import argparse
import dataclasses
import json
import pickle
import random
import re
import time
from pathlib import Path
from typing import get_args

import pandas as pd
import torch

import tl_ffblock as ffb
from tl_ffblock.interventions import CausalValidation, SamplePlan, causal_validation
from tl_ffblock.interventions.validation import CellChoice

CHUNK = 10
"""Prompts a call; the seed of each is the number of its first prompt."""
LAYERS = (1, 5, 9, 13, 17, 21, 25, 29)
HERE = Path(__file__).resolve().parent
Example = tuple[str, str, str]


def ioi(paths: list[Path]) -> list[Example]:
    """Prompt, the indirect object, the subject."""
    found = []
    for entry in json.loads(paths[0].read_text()):
        names = re.search(r"([A-Z][a-z]+) and ([A-Z][a-z]+)", entry["prompt"])
        if names and entry["answer"] in names.groups():
            wrong = next(name for name in names.groups() if name != entry["answer"])
            found.append((entry["prompt"], f" {entry['answer']}", f" {wrong}"))
    return found


def sva(paths: list[Path]) -> list[Example]:
    """Subject with a noun behind it, the verb that agrees, the one that does not."""
    entries = [json.loads(line) for line in paths[0].read_text().splitlines()]
    by_prefix = {entry["clean_prefix"]: entry for entry in entries}
    return [(prefix, entry["clean_answer"], entry["patch_answer"]) for prefix, entry in by_prefix.items()]


def blimp(paths: list[Path]) -> list[Example]:
    """Common prefix, the grammatical word, the other one."""
    entries = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    return [
        (entry["one_prefix_prefix"], f" {entry['one_prefix_word_good']}", f" {entry['one_prefix_word_bad']}")
        for entry in entries
        if entry["one_prefix_method"] and len(entry["one_prefix_prefix"].split()) > 1
    ]


def main() -> None:
    """Sample, validate, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("set", choices=["ioi", "sva", "blimp"])
    parser.add_argument("--data", type=Path, nargs="+", required=True)
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--out", type=Path, default=HERE)
    parser.add_argument("--work", type=Path, help="folder for finished samples, so that a run can be taken up again")
    parser.add_argument("--cells", type=Path, help="also write every cell to this CSV file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.work:
        options.work.mkdir(parents=True, exist_ok=True)
    model = ffb.load_model("smollm2")
    read = {"ioi": ioi, "sva": sva, "blimp": blimp}[options.set]

    def first(word: str) -> int:
        return int(model.tokenizer(word, add_special_tokens=False)["input_ids"][0])

    examples = [example for example in read(options.data) if first(example[1]) != first(example[2])]
    examples = random.Random(0).sample(examples, options.prompts)
    prompts, right, wrong = (list(column) for column in zip(*examples, strict=True))
    start = time.monotonic()
    result = None
    for begin in range(0, len(prompts), CHUNK):
        part = slice(begin, begin + CHUNK)
        kept = options.work / f"{options.set}-{begin}.pickle" if options.work else None
        if kept and kept.is_file():
            sample = pickle.loads(kept.read_bytes())
        else:
            metric = ffb.logit([first(word) for word in right[part]], minus=[first(word) for word in wrong[part]])
            sample = causal_validation(model, prompts[part], metric, layers=LAYERS, plan=SamplePlan(seed=begin))
            if kept:
                kept.write_bytes(pickle.dumps(sample))
        result = sample if result is None else result + sample
        print(f"{len(result.tokens)} prompts, {(time.monotonic() - start) / 60:.1f} min", flush=True)
    assert result is not None
    result = dataclasses.replace(result, plan=SamplePlan())
    minutes = (time.monotonic() - start) / 60
    accuracy = float((result.clean > 0).mean())
    print(f"{options.set}: {len(prompts)} prompts, {minutes:.1f} min, clean accuracy {accuracy:.2f}\n{result}")
    if options.cells:
        result.cells_dataframe().to_csv(options.cells, index=False)
    table = result.to_dataframe()
    table.insert(0, "set", options.set)
    table = table[(table["layer"] == "mean") | (table["cells"] == "off-diagonal")]
    table.round(3).to_csv(options.out / f"causal_validation_{options.set}.csv", index=False)
    differences = compared(result)
    differences.insert(0, "set", options.set)
    differences.round(3).to_csv(options.out / f"causal_validation_{options.set}_differences.csv", index=False)
    means = table[(table["layer"] == "mean")].pivot_table(index=["cells", "predictor"], columns="effect", values="rho")
    print(means.round(2).to_string())
    print(differences[differences["cells"] == "off-diagonal"].round(3).to_string())


def compared(result: CausalValidation) -> pd.DataFrame:
    """How much better maps are than attention: of every removal its own map, of the knockout the maps of all scopes."""
    rows = [
        (cells, effect, scope, attention, *result.compare(effect, scope, attention, cells=cells))
        for cells in get_args(CellChoice)
        for effect in result.effects
        for scope in (
            [effect] if effect in result.predictions else [s for s in result.effects if s in result.predictions]
        )
        for attention in ("attention", "attention x value norm")
    ]
    return pd.DataFrame(rows, columns=["cells", "effect", "map", "minus", "difference", "low", "high"])


if __name__ == "__main__":
    main()
