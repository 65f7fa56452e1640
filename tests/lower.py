"""Whether the oldest versions that pyproject.toml declares still work: `python -m tests lower`.

A new virtual environment gets the package's dependencies at their lower bounds, and a covering sample of the tests runs
there. By hand and before a release: it downloads an old torch.
"""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SAMPLE = [
    *("tests/integration/test_laws.py", "tests/integration/test_golden.py", "tests/integration/test_results.py"),
    *("tests/unit/test_maps.py", "tests/unit/test_intervals.py", "tests/unit/test_activations.py", "tests/attribution"),
]
TOOLS = ["beartype", "hypothesis", "mpmath", "networkx", "pytest", "scikit-learn", "anywidget", "matplotlib"]
"""What tests need besides; in any version."""


def lowest(requirements: list[str]) -> list[str]:
    """Every requirement at its lower bound: `numpy>=1.26` as `numpy==1.26`."""
    found = [re.match(r"([\w.-]+)(?:\[[\w,]+\])?>=([\w.]+)", requirement) for requirement in requirements]
    return [f"{match[1]}=={match[2]}" for match in found if match is not None]


def main() -> int:
    """Make the environment, install, run; returns the status of the first that fails."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with tempfile.TemporaryDirectory(prefix="lower") as folder:
        python = f"{folder}/bin/python"
        commands = [
            [sys.executable, "-m", "venv", folder],
            [python, "-m", "pip", "install", "-q", *lowest(project["dependencies"]), *TOOLS],
            [python, "-m", "pip", "install", "-q", "--no-deps", str(ROOT)],
            [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow and not site", *SAMPLE],
        ]
        for command in commands:
            status = subprocess.run(
                command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
            ).returncode
            if status:
                return status
    return 0
