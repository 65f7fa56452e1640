"""Do two commits give the same numbers, to the bit, and which words changed? Digests of every result of many families.

    python -m benchmarks.digests make OUT.json [--families gpt2 llama ...]     # in a checkout of each commit
    python -m benchmarks.digests make OUT.json --api hooked                    # with TransformerLens 3
    python -m benchmarks.digests compare OLD.json NEW.json

Numbers are the tensors, arrays and numeric columns of every result, each under the place where it stands, with the sum of
their sizes, so that another order of additions can be told from another number. Words are what `print` shows, the names of
columns, and the data of pages. Measured errors and times are left out: they differ from machine to machine.
"""

import argparse
import hashlib
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.numbers import numbers

FAMILIES = ("gpt2", "llama", "bert", "gemma2", "phi", "olmo2", "mixtral", "opt", "bloom", "gpt_oss")
HOOKED = ("gpt2", "llama_nobias", "bert", "gemma2", "phi")
"""Families as HookedTransformer, and "bert" as HookedEncoder."""
N = 7
ROUNDING = 1e-6
"""Up to this relative difference of the sum of sizes two tables may differ by the order of additions alone."""


def calls(model: Any, ids: Tensor, causal: bool) -> dict[str, Callable[[], Any]]:
    """Every kind of result of a text, by name."""
    other, target = ids.flip(0), ffb.logit(7, minus=9)
    scope = ffb.contribution_maps(model, ids, layers=0).scopes[-2]
    made: dict[str, Callable[[], Any]] = {
        "maps": lambda: ffb.contribution_maps(model, ids, heads=True),
        "difference": lambda: ffb.contribution_maps(model, ids) - ffb.contribution_maps(model, other),
        "decomposition": lambda: ffb.decompose(model, ids, layer=1),
        "attention": lambda: ffb.attention_maps(model, ids, kind="value-weighted"),
        "scores": lambda: ffb.attention_scores(model, ids),
        "cell": lambda: ffb.neurons(model, ids, layer=1, query=-1, key=2),
        "average": lambda: ffb.average(ffb.contribution_maps(model, torch.stack([ids, other])), {"A": 1, "END": -1}),
        "attribution": lambda: ffb.attribute(model, ids, target, of=("heads", "edges", "neurons", "maps")),
        "gradient": lambda: ffb.attribute(model, ids, target, rules="gradient"),
        "patching rule": lambda: ffb.attribute(model, ids, target, rules="patching"),
        "estimates": lambda: ffb.attribution_patching(model, ids, other, target, maps=True, edges=True),
        "shares": lambda: ffb.average_shares(ffb.attribute(model, torch.stack([ids, other]), target)),
        "graph": lambda: ffb.attribute(model, ids, target, of=("heads", "edges")).graph(),
        "flow": lambda: ffb.flow_graph(model, ids, target=7),
        "sweep": lambda: ffb.contribution_sweep(ffb.Contributions(model, ids), target, scope, layers=1, queries=-1),
        "parts": lambda: ffb.memories.token_parts(model, ids, ["1:3", "0:5"]),
        "values": lambda: ffb.memories.value_tokens(model, memories=["1:3"], k=3),
        "triggers": lambda: ffb.memories.find_triggers(model, [ids, other], memories=["1:3"], k=2),
        "card": lambda: ffb.memories.memory_card(model, [ids, other], "1:3", k=2),
        "gradients": lambda: ffb.heads.attention_gradients(model, ids, target),
        "summary": lambda: ffb.heads.summary(
            maps := ffb.attention_maps(model, ids), ffb.heads.token_groups(maps.tokens)
        ),
    }
    if causal:
        made["continuation"] = lambda: ffb.attribute_continuation(model, ids.tolist(), generate=3)
    return made


def words(result: Any, folder: Path) -> Iterator[tuple[str, str]]:
    """What a result shows: its short form, the names of its columns, the data of its page."""
    yield "repr", re.sub(r"\d\.\d+(e[-−]\d+)", r"#\1", repr(result))
    if hasattr(result, "select_dtypes"):  # a table is its columns
        yield "columns", ", ".join(map(str, result.columns))
        return
    if hasattr(result, "to_dataframe"):
        yield "columns", ", ".join(result.to_dataframe().columns)
    if hasattr(result, "to_html"):
        page = folder / "page.html"
        try:
            result.to_html(page)
        except ffb.errors.InputError:  # no page of such a result
            return
        data = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"), re.S)
        held = re.sub(r'("(?:rtol|torch|tl_ffblock|transformer_lens)"):"[^"]*"', r'\1:""', *data)
        yield "page", hashlib.sha256(json.dumps(json.loads(held), sort_keys=True).encode()).hexdigest()


def made(families: tuple[str, ...], api: str) -> dict[str, Any]:
    """By family and kind of result: digests of numbers, and words."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for family in families:
            model = tiny.bridge(family) if api == "bridge" else tiny.hooked(family)
            ids = tiny.tokens(family, N)
            for name, call in calls(model, ids, family not in ("bert", "roberta")).items():
                try:
                    result = call()
                except Exception as error:  # a refusal is a result, too
                    found[f"{family} {name}"] = {"refused": f"{type(error).__name__}: {error}"}
                    continue
                tables = {
                    path: [_digest(table), float(table.double().nan_to_num().abs().sum())]
                    for path, table in numbers(result)
                }
                found[f"{family} {name}"] = {"numbers": tables, "words": dict(words(result, Path(folder)))}
            print(f"{family}: done", file=sys.stderr)
    return found


def _digest(table: Tensor) -> str:
    described = f"{table.dtype} {tuple(table.shape)}".encode()
    return hashlib.sha256(described + table.contiguous().numpy().tobytes()).hexdigest()[:16]


def compare(old: dict[str, Any], new: dict[str, Any]) -> int:
    """Print what differs; returns how many tables do."""
    changed = 0
    for case in sorted(old.keys() | new.keys()):
        before, after = old.get(case, {}), new.get(case, {})
        if before.get("refused") != after.get("refused"):
            print(f"{case}: refused {before.get('refused')!r} -> {after.get('refused')!r}")
        mine, theirs = before.get("numbers", {}), after.get("numbers", {})
        for path in sorted(mine.keys() & theirs.keys()):
            if mine[path][0] != theirs[path][0]:
                sizes = mine[path][1], theirs[path][1]
                gap = abs(sizes[0] - sizes[1]) / max(*sizes, 1e-300)
                print(
                    f"{case}{path}: NUMBERS differ, sum of sizes {sizes[0]:.9g} -> {sizes[1]:.9g}"
                    + " (rounding)" * (gap < ROUNDING)
                )
                changed += 1
        for kind, paths in (("gone", mine.keys() - theirs.keys()), ("new", theirs.keys() - mine.keys())):
            if paths and mine and theirs:
                print(f"{case}: {kind} {', '.join(sorted(paths))}")
        for name in before.get("words", {}).keys() & after.get("words", {}).keys():
            texts = before["words"][name], after["words"][name]
            if texts[0] != texts[1]:
                print(f"{case} {name}:\n    old {texts[0]!r}\n    new {texts[1]!r}")
    print(f"{len(old)} results before, {len(new)} now; {changed} tables of numbers differ.")
    return changed


def main() -> int:
    """Run one of the two commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("out", type=Path)
    making.add_argument("--families", nargs="+")
    making.add_argument("--api", choices=("bridge", "hooked"), default="bridge")
    comparing = commands.add_parser("compare")
    comparing.add_argument("files", nargs=2, type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if options.command == "make":
        families = options.families or (FAMILIES if options.api == "bridge" else HOOKED)
        options.out.write_text(json.dumps(made(tuple(families), options.api), indent=1), encoding="utf-8")
        return 0
    old, new = (json.loads(path.read_text(encoding="utf-8")) for path in options.files)
    return int(compare(old, new) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
