"""Everything that CI checks: `python -m tests`, or some steps of it: `python -m tests lint types`.

Run by hand and before a release: `python -m tests mutants` (tests/mutants.py), `python -m tests size` (tests/size.py),
`python -m tests lower` (tests/lower.py), `python -m tests release` (tests/release.py).
"""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from tests import lower, mutants, release, size

ROOT = Path(__file__).resolve().parent.parent
PARALLEL = ["-n", "auto", "--dist", "loadgroup"]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""As many processes as cores, so one thread each: two threads of each would wait for one another."""
SHAPES = [
    "tests/unit",
    "tests/integration/test_laws.py",
    "tests/integration/test_golden.py",
    "tests/interventions/test_activation_patching.py",
    "tests/interventions/test_patched.py",
    "tests/attribution/test_attribution_patching.py",
    "tests/attribution/test_continuation.py",
    "tests/attribution/test_edges.py",
    "tests/attribution/test_hooks.py",
]
"""Tests that reach every code path (tests/cases.py) of both implementations, of attribution and of hooks: they run once, in the
step "shapes", with annotated types and shapes checked at every call, which doubles their time; those that touch models run
without the check on the oldest TransformerLens."""
STEPS = {
    "format": ["-m", "ruff", "format", "--check", "."],
    "lint": ["-m", "ruff", "check", "."],
    "types": ["-m", "mypy"],
    "layers": ["-c", "from importlinter.cli import lint_imports_command as check; check()"],
    "words": ["-m", "codespell_lib"],
    "test": ["-m", "pytest", "-m", "not slow and not site", *PARALLEL, *(f"--ignore={path}" for path in SHAPES)],
    "shapes": [
        "-m",
        "pytest",
        "-m",
        "not slow",
        *PARALLEL,
        "--jaxtyping-packages=tl_ffblock,beartype.beartype",
        *SHAPES,
    ],
    "slow": ["-m", "pytest", "-m", "slow", "--sample", "2", *PARALLEL],
    "docs": ["-m", "pytest", "-m", "site", "tests/site"],
    "notebooks": ["-m", "pytest", "--nbmake", "--nbmake-timeout=600", *PARALLEL, "notebooks"],
}


def main(names: list[str]) -> int:
    """Run the named steps, or all, until one fails; returns its status."""
    if names[:1] == ["mutants"]:
        return mutants.main(names[1:])
    if names[:1] == ["release"]:
        return release.main(names[1:])
    if names in (["size"], ["lower"]):
        return {"size": size.main, "lower": lower.main}[names[0]]()
    unknown = [name for name in names if name not in STEPS]
    if unknown:
        print(f"unknown step {', '.join(unknown)}; there are {', '.join(STEPS)}", file=sys.stderr)
        return 2
    for name in names or STEPS:
        print(f"== {name}: python {shlex.join(STEPS[name])}", flush=True)
        start = time.monotonic()
        environment = os.environ | ONE_THREAD
        status = subprocess.run([sys.executable, *STEPS[name]], cwd=ROOT, env=environment, check=False).returncode
        print(
            f"== {name}: {'ok' if status == 0 else f'failed ({status})'}, {time.monotonic() - start:.0f} s", flush=True
        )
        if status:
            return status
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
