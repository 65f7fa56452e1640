"""Makes faithfulness_dev.csv: the candidates of faithfulness_rule.py on BLiMP, where the rule of faithfulness.md was chosen.

    python -m docs.results.faithfulness_dev --data DATA --work WORK       # from the root of the repository

DATA holds blimp/blimp_67x100.jsonl (github.com/alexwarstadt/blimp, the first hundred pairs of each paradigm). No set of
faithfulness.md is read here. A run that was stopped goes on where it stopped.
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

import tl_ffblock as ffb
from docs.results.faithfulness import HERE, Grown, summary
from docs.results.faithfulness_rule import CANDIDATES, RULES, pattern_of
from docs.results.faithfulness_sets import Example, blimp
from tl_ffblock.results.ranks import spearman

TARGETS = ("right minus wrong", "most probable")
REMOVALS = ("mask", "mean")
COLUMNS = ["target", "removal", "candidate"]


def correlations(model: Any, example: Example, scores: Mapping[str, Tensor]) -> Iterator[tuple[str, str, float]]:
    """By removal and candidate: rank correlation with the effects of leaving one token out."""
    given = dict(scores)
    for removal in REMOVALS:
        measured = ffb.faithfulness(model, example.tokens, example.target, given, removal=removal)
        (effects,) = measured.effects
        there = ~effects.isnan()
        for name, of_name in given.items():
            yield removal, name, float(torch.nan_to_num(torch.as_tensor(spearman(of_name[there], effects[there]))))


def run(model: Any, data: Path, file: Grown) -> None:
    """Prompt by prompt."""
    for number, (_, *examples) in enumerate(blimp(model, data)):
        rows: list[tuple[Any, ...]] = []
        for target, example in zip(TARGETS, examples, strict=True) if number not in file.done else ():
            results = {
                rules: ffb.attribute(model, example.tokens, example.target, rules=rules, of=("heads", "edges"))
                for rules in RULES
            }
            pattern = pattern_of(model, example)
            scores = {name: candidate(results, pattern) for name, candidate in CANDIDATES.items()}
            rows += [(target, *row) for row in correlations(model, example, scores)]
        if rows:
            file.add(number, rows)


def table(stored: pd.DataFrame) -> pd.DataFrame:
    """Of every candidate its mean over prompts, and that of its difference from the tokens of `path`, with intervals."""
    by_prompt = stored.pivot_table(index="prompt", columns=COLUMNS, values="correlation", sort=False)
    rows = []
    for target, removal, candidate in by_prompt.columns:
        own, first = by_prompt[target, removal, candidate], by_prompt[target, removal, next(iter(CANDIDATES))]
        difference = summary((own - first).to_numpy())[:3]
        rows.append((target, removal, candidate, *summary(own.to_numpy()), *difference))
    numbers = ["mean", "low", "high", "n", "difference", "difference low", "difference high"]
    return pd.DataFrame(rows, columns=COLUMNS + numbers).round(3)


def main() -> None:
    """Run what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    file = Grown(options.work / "dev.csv", "prompt,target,removal,candidate,correlation")
    run(ffb.load_model("smollm2"), options.data, file)
    table(file.table()).to_csv(HERE / "faithfulness_dev.csv", index=False)


if __name__ == "__main__":
    main()
