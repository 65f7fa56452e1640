"""Makes known_circuits_seeds.csv, and adds methods of other papers to known_circuits.csv.

    python -m docs.results.known_circuits_methods seeds --work WORK    # from the root of the repository; goes on where it stopped
    python -m docs.results.known_circuits_methods grid --work WORK

The seeds of `seeds` were used for nothing else.
"""

import argparse
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from docs.results.gradient_rules import ATTNLRP, GIM, BackwardRules
from tl_ffblock.known_circuits import CONTROLS, Settings, grid, package_method, package_methods, score_grid
from tl_ffblock.metrics import Metric

HERE = Path(__file__).resolve().parent
SEEDS = range(101, 113)


def by_rules(
    rules: BackwardRules, model: Any, clean: Tensor, corrupted: Tensor, target: Metric
) -> dict[tuple[str, str], float]:
    """Edge attribution patching with the derivatives of other rules."""
    return package_method(model, clean, corrupted, target, rules=rules.rules, fwd_hooks=rules.hooks(model))


def corrected(model: Any, clean: Tensor, corrupted: Tensor, target: Metric) -> dict[tuple[str, str], float]:
    """AtP with the query and key correction of AtP* (Kramár et al. 2024): patterns are evaluated, all else has its gradient."""
    linear, exact = (
        package_method(model, clean, corrupted, target, rules="gradient", receivers=receivers)
        for receivers in ("linear", "exact")
    )
    return {edge: (exact if edge[1].endswith((".q", ".k")) else linear)[edge] for edge in linear}


METHODS: Mapping[str, Any] = {
    **package_methods(),
    "AtP, query and key correction": corrected,
    "GIM": partial(by_rules, GIM),
    "AttnLRP": partial(by_rules, ATTNLRP),
}


def completed(work: Path) -> pd.DataFrame:
    """The grid's stored table with the rows of methods that it lacks, which are run on the same known circuits.

    Raises:
        AssertionError: if exact effects are no longer those of the stored rows.
    """
    stored = pd.read_csv(HERE / "known_circuits.csv", dtype={"seed": str, "pairs": str})
    lacking = {name: method for name, method in METHODS.items() if name not in set(stored["method"])}
    scores, _ = score_grid(lacking, grid(), store=work / "lacking.csv")
    more = scores.to_dataframe().round(4)
    keys = ["program", "kind", "settings", "seed", "method"]
    both = stored.merge(more, on=keys, suffixes=("", " again"))
    assert len(both) == len(CONTROLS) * len(stored) / stored["method"].nunique(), "other known circuits survive"
    exact = both[both["method"] != "shuffled"]  # effects that are rounding alone are shuffled otherwise
    assert np.allclose(exact["AUROC"], exact["AUROC again"]), "exact patching has other scores"
    return pd.concat([stored, more[more["method"].isin(lacking)]], ignore_index=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["grid", "seeds"])
    parser.add_argument("--work", type=Path, default=HERE, help="where the tables grow")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    file = options.work / f"known_circuits_{options.what}.csv"
    if options.what == "grid":
        table = completed(options.work)
        file = HERE / "known_circuits.csv"
    else:
        sharp = [Settings(norm=norm, noise=0.05, seed=seed) for seed in SEEDS for norm in ("none", "RMS")]
        cells = tuple(("induction", kind, settings) for settings in sharp for kind in ("value", "key", "query"))
        table = score_grid(METHODS, cells, store=file)[0].to_dataframe()
    table.round(4).to_csv(HERE / file.name, index=False)
