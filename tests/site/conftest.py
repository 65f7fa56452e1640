"""The site, built once as `python -m docs.site` builds it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built site: any warning or broken link fails here."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed (extra docs)")
    built = subprocess.run([sys.executable, "-m", "docs.site"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return ROOT / "build" / "site"
