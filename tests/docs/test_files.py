"""Files of the repository that documents name are there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "tl_ffblock" / "README.md"]


def test_files_in_documents_exist() -> None:
    """A file that is written as code is there, by its path or the end of it; the changelog may tell of files that were."""
    files = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")]
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in PAGES
        if page.name != "CHANGELOG.md"
        for name in re.findall(r"`([\w/.-]+\.py)`", page.read_text(encoding="utf-8"))
        if not any(f"/{path}".endswith(f"/{name}") for path in files)
    ]
    assert missing == []
