"""A release: `python -m tests release` builds the wheel and tries it in a clean environment; `--tag` then tags the commit.

By hand, after `python -m tests`, `python -m tests mutants` and `python -m tests lower`. Nothing is uploaded.
"""

import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class NotReady(Exception):
    """What has to be done before a release."""


def version(root: Path) -> str:
    """The version that the package, the citation and the newest entry of the list of changes agree on.

    Raises:
        NotReady: naming the file that says something else, or an entry that is not released.
    """
    own = re.search(r'"([^"]+)"', (root / "tl_ffblock/_version.py").read_text(encoding="utf-8"))
    assert own is not None
    changes = re.findall(r"(?m)^## (\S+)", (root / "CHANGELOG.md").read_text(encoding="utf-8"))
    cited = re.findall(r"(?m)^version: (\S+)$", (root / "CITATION.cff").read_text(encoding="utf-8"))
    if changes[:1] != [own[1]]:
        raise NotReady(f"CHANGELOG.md begins with {changes[:1]}: give {own[1]} its entry, with the date.")
    if cited != [own[1]]:
        raise NotReady(f"CITATION.cff has the version {cited}: expected {own[1]}.")
    return own[1]


def refuse_unfinished(root: Path, tag: str) -> None:
    """A release is of a commit, and of one.

    Raises:
        NotReady: for changes that are not committed, or a tag that exists.
    """
    if changed := _git(root, "status", "--porcelain").strip():
        raise NotReady(f"not committed: {', '.join(line[3:] for line in changed.splitlines())}.")
    if _git(root, "tag", "--list", tag).strip():
        raise NotReady(f"the tag {tag} exists: a released version does not change. Raise tl_ffblock/_version.py.")


def wheel(root: Path, folder: Path) -> Path:
    """The wheel of the last commit: files that are not committed are not in it."""
    archive = folder / "source.tar"
    _git(root, "archive", "--output", str(archive), "HEAD")
    with tarfile.open(archive) as files:
        files.extractall(folder / "source", filter="data")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(folder / "source")]
    subprocess.run(pip, check=True)
    (built,) = folder.glob("tl_ffblock-*.whl")
    return built


def try_out(built: Path, folder: Path) -> None:
    """Install the wheel with its requirements into a new environment, away from the checkout, and use it."""
    python = folder / "environment" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", str(folder / "environment")], check=True)
    constraints = str(folder / "source" / "constraints.txt")
    subprocess.run([str(python), "-m", "pip", "install", "-q", "-c", constraints, f"{built}[demo]"], check=True)
    page = folder / "map.html"
    command = [str(python.with_name("tl-ffblock")), "map", "Tokyo is the capital of [MASK] .", "--out", str(page)]
    subprocess.run(command, cwd=folder, check=True)
    if not page.is_file():
        raise NotReady("the installed wheel wrote no page.")


def main(options: list[str]) -> int:
    """Build, try, tag; returns 1 with a sentence where something has to be done first."""
    if options not in ([], ["--tag"]):
        print(f"unknown option {' '.join(options)}; there is --tag", file=sys.stderr)
        return 2
    try:
        number = version(ROOT)
        refuse_unfinished(ROOT, f"v{number}")
        with tempfile.TemporaryDirectory(prefix="release") as folder:
            built = wheel(ROOT, Path(folder))
            try_out(built, Path(folder))
            print(f"{built.name}: {built.stat().st_size / 1e6:.2f} MB, built from the commit, installed and used")
    except NotReady as error:
        print(f"not ready: {error}", file=sys.stderr)
        return 1
    if options:
        _git(ROOT, "tag", "--annotate", f"v{number}", "--message", f"tl_ffblock {number}")
        print(f"tagged v{number}; to publish, push the tag and upload the wheel")
    return 0


def _git(root: Path, *command: str) -> str:
    return subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=True).stdout
