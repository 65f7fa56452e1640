"""A release is refused until everything agrees, and its wheel is that of the commit."""

import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests import release

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A commit of a small package that is ready for release 1.0."""
    files = {
        "tl_ffblock/_version.py": '__version__ = "1.0"\n',
        "tl_ffblock/__init__.py": "",
        "CHANGELOG.md": "# Changes\n\n## 1.0 (2026-01-01)\n",
        "CITATION.cff": "version: 1.0\n",
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "b"\nbackend-path = ["."]\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "-m", "one"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_a_repository_that_agrees_is_ready(repository: Path) -> None:
    """One version in three files, everything committed, no such tag."""
    assert release.version(repository) == "1.0"
    release.refuse_unfinished(repository, "v1.0")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("CHANGELOG.md", "# Changes\n\n## Unreleased\n\n## 1.0 (2026-01-01)\n", "begins with"),
        ("CITATION.cff", "version: 0.9\n", "CITATION.cff"),
        ("tl_ffblock/_version.py", '__version__ = "1.1"\n', "give 1.1 its entry"),
    ],
)
def test_a_version_that_is_not_everywhere_is_refused(repository: Path, name: str, text: str, said: str) -> None:
    """The file is named."""
    (repository / name).write_text(text, encoding="utf-8")
    with pytest.raises(release.NotReady, match=said):
        release.version(repository)


def test_what_is_not_committed_or_tagged_already_is_refused(repository: Path) -> None:
    """A release is of one commit, once."""
    (repository / "new.py").write_text("", encoding="utf-8")
    with pytest.raises(release.NotReady, match=r"not committed: new\.py"):
        release.refuse_unfinished(repository, "v1.0")
    (repository / "new.py").unlink()
    subprocess.run(["git", "tag", "v1.0"], cwd=repository, check=True)
    with pytest.raises(release.NotReady, match=r"the tag v1\.0 exists"):
        release.refuse_unfinished(repository, "v1.0")


@pytest.mark.slow
def test_the_wheel_is_of_the_commit(tmp_path: Path) -> None:
    """With its scripts and styles, without tests."""
    names = zipfile.ZipFile(release.wheel(ROOT, tmp_path)).namelist()
    assert "tl_ffblock/__init__.py" in names and any(name.endswith("page.js") for name in names)
    assert not any(name.startswith(("tests/", "docs/")) for name in names)


def test_the_conda_recipe_requires_what_the_package_requires() -> None:
    """Name by name, with bounds; conda calls two of them otherwise."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = (ROOT / "packaging/conda/meta.yaml").read_text(encoding="utf-8")
    run = recipe.partition("  run:\n")[2].partition("\n\n")[0]
    stated = {line.removeprefix("    - ").replace(" ", "") for line in run.splitlines()}
    other = {"torch": "pytorch", "xxhash": "python-xxhash"}
    expected = {f"python{project['requires-python']}"}
    for requirement in project["dependencies"]:
        name = requirement.partition(">")[0]
        expected.add(requirement.replace(name, other.get(name, name), 1))
    assert stated == expected
