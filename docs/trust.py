"""The generated blocks of docs/trust.md: how often each promise was tried, and what came of faults that were put in on purpose."""

import json
from pathlib import Path

from docs.markdown import claim, table
from docs.result_classes import classes
from tests.mutants import MUTANTS
from tl_ffblock.numerals import scientific

ROOT = Path(__file__).resolve().parent
AREAS = {
    "corpora": "a byte of a corpus changed, inserted or deleted, or its end cut off: five formats",
    "results": "the same of a file of every class of results",
    "models": "the same of the header of a model's weights",
    "folders": "each of a run's files replaced by a folder, a pipe, a device, a link or noise",
    "disk": "a system call fails from some moment on; another process starts the run again",
    "kills": "a run ended by SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT or a full disk, then started again",
    "ray": "the same on a Ray cluster",
}
"""What was tried, by part of benchmarks/faults.py."""
OUTCOMES = ("survived", "refused", "lost", "wrong", "no sentence")


def tried() -> str:
    """A row per kind of fault: how many, and what came of them."""
    rows = json.loads((ROOT / "faults.json").read_text(encoding="utf-8"))["rows"]
    said = [
        [AREAS[name], *(f"{rows[name].get(word, 0):,}" for word in ("cases", *OUTCOMES))]
        for name in AREAS
        if name in rows
    ]
    failed = sum(row.get(word, 0) for row in rows.values() for word in OUTCOMES[2:])
    return (
        table(["fault", "cases", *OUTCOMES], said)
        + "\n\n"
        + claim("No work was lost, and no wrong number was shown.", failed == 0)
    )


def numbers() -> str:
    """How the promises about numbers are tested, with figures."""
    families = json.loads((ROOT / "support" / "4.3.0.json").read_text(encoding="utf-8"))["families"].values()
    worst = max(error for family in families for error in (family["completeness"] or {}).values())
    return "\n".join(
        [
            f"- {len(families)} architectures with random weights: contribution vectors of a layer sum to the model's vector, worst "
            f"relative error {scientific(worst, 1)} ([models](models.md)).",
            f"- More than {len(MUTANTS) // 10 * 10} deliberate faults are put into the package one by one; the tests of their area "
            "have to fail (`python -m tests mutants`).",
            f"- {sum(1 for _ in classes())} classes of results are saved, changed and loaded again, 500 changes of each.",
        ]
    )


BLOCKS = {"figures": numbers, "tried": tried}
