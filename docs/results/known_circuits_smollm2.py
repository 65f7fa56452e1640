"""Makes known_circuits_smollm2.csv and known_circuits_smollm2_edges.csv: estimates of edges against exact patching in a real model.

    python -m docs.results.known_circuits_smollm2 exact estimates tables --work WORK   # from the root of the repository

Exact patching takes some 15 minutes of a core and goes on where it stopped; so do the estimates, pair by pair.

SmolLM2-135M-Instruct has 70 651 edges. `N_EDGES` of them, drawn at random with `SEED`, are patched one by one in `N_PAIRS` pairs of
indirect-object prompts of two sentences; in each pair the other name is at the second mention, and what is read is the
difference of the two names' logits.
"""

import argparse
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd

import tl_ffblock as ffb
from docs.results.faithfulness_components import TEMPLATES, pairs
from docs.results.gradient_rules import ATTNLRP, GIM, BackwardRules
from tl_ffblock.known_circuits.known import auroc
from tl_ffblock.results.ranks import spearman

HERE = Path(__file__).resolve().parent
N_EDGES, N_PAIRS, SEED, AT_ONCE = 2000, 4, 0, 200
LARGEST = 100
"""How many of the edges with the largest exact effects signs, errors and AUROC are of."""
EXACT = "gradient, exact receivers"
METHODS: Mapping[str, Mapping[str, Any]] = {
    "gradient": {"rules": "gradient"},
    "gradient, 5 steps": {"rules": "gradient", "steps": 5},
    "patching": {"rules": "patching"},
    "patching, 5 steps": {"rules": "patching", "steps": 5},
    "path": {"rules": "path"},
    "GIM": {"rules": GIM},
    "AttnLRP": {"rules": ATTNLRP},
    EXACT: {"rules": "gradient", "receivers": "exact"},
}
QK = "AtP, query and key correction"
"""The gradient's estimates but for edges into queries and keys, which are those of exact receivers."""


def sample(model: Any) -> list[tuple[str, str]]:
    """The edges that are measured."""
    return Random(SEED).sample(tuple(ffb.Circuit.full(model)), N_EDGES)


def chosen_pairs(model: Any) -> list[tuple[Any, Any, Any]]:
    """As many pairs of each sentence."""
    each = N_PAIRS // len(TEMPLATES)
    return [pair for template in TEMPLATES for pair in islice(pairs(model, (template,)), each)]


def by_edge(edges: Any) -> dict[tuple[str, str], float]:
    """The number of every edge of a graph of edges."""
    names = [node.name for node in edges.nodes]
    return {
        (names[a], names[b]): weight
        for (a, b), weight in zip(edges.ends.tolist(), edges.weights[:, 0].tolist(), strict=True)
    }


def exact(model: Any, work: Path) -> None:
    """Patch the edges, some at a time in every pair, and add them to a file per pair."""
    edges, prompts = sample(model), chosen_pairs(model)
    for first in range(0, N_EDGES, AT_ONCE):
        asked = edges[first : first + AT_ONCE]
        for number, (clean, corrupted, target) in enumerate(prompts):
            file = work / f"exact_{number}.csv"
            if (len(pd.read_csv(file)) if file.is_file() else 0) > first:
                continue
            found = by_edge(ffb.edge_patching(model, clean, corrupted, target, asked, progress=False))
            rows = pd.DataFrame([(*edge, found[edge]) for edge in asked], columns=["sender", "receiver", "exact"])
            rows.to_csv(file, mode="a", header=not first, index=False)
            print(f"pair {number}: {first + len(asked)} edges", flush=True)


def estimates(model: Any, work: Path) -> None:
    """Each method's numbers of the sample, in a file per pair and method."""
    edges, prompts = sample(model), chosen_pairs(model)
    for name, options in METHODS.items():
        for number, (clean, corrupted, target) in enumerate(prompts):
            file = work / f"{name} {number}.csv"
            if file.is_file():
                continue
            given = dict(options)
            if isinstance(rules := given["rules"], BackwardRules):
                given |= {"rules": rules.rules, "fwd_hooks": rules.hooks(model)}
            made = ffb.attribution_patching(model, clean, corrupted, target, edges=True, progress=False, **given)
            found = by_edge(made.edges)
            pd.DataFrame({"estimate": [found[edge] for edge in edges]}).to_csv(file, index=False)
            print(f"pair {number}: {name}", flush=True)


def measured(exact_effects: np.ndarray, estimated: np.ndarray) -> dict[str, float]:
    """How well one pair's estimates say the exact effects."""
    sizes = np.abs(exact_effects)
    largest = np.argsort(-sizes)[:LARGEST]
    top = np.zeros(len(sizes), dtype=bool)
    top[largest] = True
    return {
        "r": float(np.corrcoef(exact_effects, estimated)[0, 1]),
        "rho": spearman(exact_effects, estimated),
        "AUROC": auroc(top, np.abs(estimated)),
        "sign": float((np.sign(exact_effects) == np.sign(estimated))[largest].mean()),
        "error": float(np.abs(estimated - exact_effects)[largest].sum() / sizes[largest].sum()),
        "slope": float(exact_effects @ estimated / (estimated @ estimated)),
    }


def tables(work: Path) -> None:
    """The exact effects of all pairs, and each method's measures."""
    effects = [pd.read_csv(work / f"exact_{number}.csv") for number in range(N_PAIRS)]
    stored = effects[0][["sender", "receiver"]]
    for number, of_pair in enumerate(effects):
        stored = stored.assign(**{f"pair {number}": of_pair["exact"].map(lambda value: float(f"{value:.4g}"))})
    stored.to_csv(HERE / "known_circuits_smollm2_edges.csv", index=False)
    rows = []
    for number, of_pair in enumerate(effects):
        files = {name: work / f"{name} {number}.csv" for name in METHODS}
        found = {name: pd.read_csv(file)["estimate"].to_numpy() for name, file in files.items() if file.is_file()}
        into = of_pair["receiver"].str.endswith((".q", ".k")).to_numpy()
        if EXACT in found:
            found[QK] = np.where(into, found[EXACT], found["gradient"])
        for name, estimated in found.items():
            of_method = measured(of_pair["exact"].to_numpy(), estimated)
            rows += [(name, measure, number, round(value, 4)) for measure, value in of_method.items()]
    pd.DataFrame(rows, columns=["method", "measure", "pair", "value"]).to_csv(
        HERE / "known_circuits_smollm2.csv", index=False
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", choices=["exact", "estimates", "tables"])
    parser.add_argument("--work", type=Path, required=True)
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    loaded = ffb.load_model("smollm2") if {"exact", "estimates"} & {*asked.what} else None
    if "exact" in asked.what:
        exact(loaded, asked.work)
    if "estimates" in asked.what:
        estimates(loaded, asked.work)
    if "tables" in asked.what:
        tables(asked.work)
