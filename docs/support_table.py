"""Writes the table of docs/models.md: no row by hand.

1. `python docs/support_table.py measure` boots a tiny random model of every family of `tests/tiny.py`, runs it,
   decomposes it and records, by scope, the largest completeness error, and how far the bridge's logits are from
   Hugging Face's. Run it in an environment of each TransformerLens version; it writes
   docs/support/VERSION.json.
2. `python docs/support_table.py write` merges these files into docs/models.md, between the markers.
"""

import json
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tl_ffblock.numerals import scientific

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "support"
PAGE = ROOT / "docs" / "models.md"
START, END = "<!-- table: docs/support_table.py -->", "<!-- end of table -->"
N_TOKENS = 16
ORDERS = {
    "pre_ln": "Pre-LN: norms before attention and feed-forward",
    "parallel": "Parallel: both branches read the layer's input",
    "sandwich": "Sandwich: norms before and after, inside the branches",
    "norm_after": "Norm after: norms at the end of the branches only",
    "post_ln": "Post-LN: norms after the residual sums",
}


def measure() -> dict[str, Any]:
    """Every tiny family under this environment's TransformerLens."""
    sys.path.insert(0, str(ROOT))
    import torch

    from tests import tiny

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found = {name: _family(name, tiny) for name in tiny.ALL_FAMILIES}
    packages = {name: version(name) for name in ("transformer-lens", "transformers", "torch")}
    return {"packages": packages, "tokens": N_TOKENS, "families": found}


def _family(name: str, tiny: Any) -> dict[str, Any]:
    import torch

    import tl_ffblock as ffb

    tokens = tiny.tokens(name, N_TOKENS)
    row: dict[str, Any] = {"architecture": tiny.ALL_FAMILIES[name].architecture}
    try:
        model = tiny.bridge(name)
        with torch.no_grad():
            logits = model(tokens[None]) - tiny.hf_model(name)(tokens[None]).logits
        row["logits"] = float(logits.abs().max())
        maps = ffb.contribution_maps(model, tokens)
        row |= {"family": maps.provenance["family"], "order": maps.order, "completeness": _completeness(maps)}
    except (ffb.FFBlockError, ValueError) as error:
        row["refused"] = str(error)
    try:
        row["hooked"] = _completeness(ffb.contribution_maps(tiny.hooked(name), tokens))
    except (ffb.FFBlockError, RuntimeError):
        row["hooked"] = None
    return row


def _completeness(maps: Any) -> dict[str, float]:
    return {scope: float(maps.completeness[scope].max()) for scope in maps.scopes}


def table(results: list[dict[str, Any]]) -> str:
    """One table an order; a family's row holds the worst of all versions."""
    results = sorted(results, key=lambda result: result["packages"]["transformer-lens"], reverse=True)
    versions = [result["packages"]["transformer-lens"] for result in results]
    parts = [
        f"Tiny random models, float32, {results[0]['tokens']} tokens. Columns of scopes: largest relative completeness error over layers, "
        f"positions and TransformerLens {' and '.join(versions)} (transformers {results[0]['packages']['transformers']}). "
        "\"logits\": the bridge's distance from Hugging Face's logits (size 10 to 30). Columns of versions: the models that run there, "
        '"bridge", "hooked" (HookedTransformer or HookedEncoder), or a dash.'
    ]
    newest = results[0]["families"]
    for order, title in ORDERS.items():
        names = [name for name, row in newest.items() if row.get("order") == order]
        scopes = list(newest[names[0]]["completeness"])
        head = ["family", "Hugging Face class", *(f"`{scope}`" for scope in scopes), "logits", *versions]
        lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
        lines += [f"| {' | '.join(_row(name, scopes, results))} |" for name in names]
        parts.append(f"### {title}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def _row(name: str, scopes: list[str], results: list[dict[str, Any]]) -> list[str]:
    rows = [result["families"][name] for result in results]
    errors = [kind for row in rows for kind in (row.get("completeness"), row["hooked"]) if kind]
    worst = [scientific(max(error[scope] for error in errors), 1) for scope in scopes]
    logits = max(row["logits"] for row in rows if "completeness" in row)
    runs = [
        ", ".join([*(["bridge"] if "completeness" in row else []), *(["hooked"] if row["hooked"] else [])]) or "–"
        for row in rows
    ]
    twice = sum(row.get("architecture") == rows[0]["architecture"] for row in results[0]["families"].values()) > 1
    return [
        rows[0]["family"] + (f" ({name})" if twice else ""),
        f"`{rows[0]['architecture']}`",
        *worst,
        scientific(logits, 1),
        *runs,
    ]


def read() -> list[dict[str, Any]]:
    """What was measured."""
    return [json.loads(file.read_text()) for file in sorted(RESULTS.glob("*.json"))]


def main(command: str) -> None:
    """`measure` or `write`."""
    if command == "measure":
        RESULTS.mkdir(exist_ok=True)
        file = RESULTS / f"{version('transformer-lens')}.json"
        file.write_text(json.dumps(measure(), indent=1) + "\n")
        print(file)
    elif command == "write":
        before, rest = PAGE.read_text().split(START)
        PAGE.write_text(f"{before}{START}\n\n{table(read())}\n\n{END}{rest.split(END)[1]}")
        print(PAGE)
    else:
        raise SystemExit("usage: python docs/support_table.py measure | write")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) == 2 else "")
