"""Pages that lie outside docs/, and links that lead there.

A page's links are written for the repository, where they work on disk. On the site the README is the start, the
architecture page, the changelog and notebooks are pages, and a source file that a page links to is a page that shows it.
"""

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TAKEN = {
    "tl_ffblock/README.md": "architecture/index.md",
    "tl_ffblock/layer/fast/README.md": "architecture/optimised_implementation.md",
    "CONTRIBUTING.md": "architecture/contributing.md",
    "CHANGELOG.md": "architecture/changelog.md",
}
"""Documents of the repository that are pages of the site, and their places there."""
_LINK = re.compile(r"(\]\()(?!https?:|#)([^)#\s]+)((?:#[^)\s]*)?\))")
_FOLDER_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)#\s]+)\)")
_FLOWCHART = re.compile(r"```mermaid\n(.*?)```", re.DOTALL)
_PACKAGE = re.compile(r'^  (\w+)\["(.+)"\]$', re.MULTILINE)
_ARROWS = re.compile(r"^  (\w+) --> (.+)$", re.MULTILINE)
_LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml"}


def site_page(path: str) -> str:
    """Where a file of the repository is on the site: `docs/a.md` is `a.md`, a notebook is in the gallery."""
    if path == "README.md":
        return "index.md"
    if path in TAKEN:
        return TAKEN[path]
    if path.startswith("notebooks/") and path.endswith(".ipynb"):
        return f"gallery/{Path(path).stem}.md"
    if path.startswith("docs/") and not path.endswith(".py"):
        return path.removeprefix("docs/")
    return f"source/{path}.md"


def linked_files(markdown: str, path: str) -> set[str]:
    """Files of the repository that a page at `path` links to."""
    targets = (posixpath.normpath(posixpath.join(posixpath.dirname(path), link[1])) for link in _LINK.findall(markdown))
    return {target for target in targets if (ROOT / target).is_file()}


def with_links(markdown: str, path: str, place: str) -> str:
    """The page at `path` of the repository as the page at `place` of the site: links to files lead to their pages.

    A folder has no page: what linked to it stays as text.
    """

    def relinked(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), match[2]))
        if not (ROOT / target).is_file():
            return match[0]
        return match[1] + posixpath.relpath(site_page(target), posixpath.dirname(place)) + match[3]

    def unlinked(match: re.Match[str]) -> str:
        return match[1] if (ROOT / posixpath.dirname(path) / match[2]).is_dir() else match[0]

    return _LINK.sub(relinked, _FOLDER_LINK.sub(unlinked, markdown))


def without_flowcharts(markdown: str) -> str:
    """Flowcharts of imports as tables: drawing them would take a script from a network."""
    return _FLOWCHART.sub(lambda match: _as_table(match[1]), markdown)


def _as_table(chart: str) -> str:
    titles = dict(_PACKAGE.findall(chart))
    if not titles:
        return f"```text\n{chart}```"
    rows = [
        f"| `{titles[source]}` | {', '.join(f'`{titles[target]}`' for target in targets.split(' & '))} |"
        for source, targets in _ARROWS.findall(chart)
    ]
    return "\n".join(["| package | imports |", "|---|---|", *rows])


def source_page(path: str) -> str:
    """A page that shows a file."""
    language = _LANGUAGES.get(Path(path).suffix, "text")
    text = (ROOT / path).read_text(encoding="utf-8")
    return f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n~~~~{language}\n{text}~~~~\n"
