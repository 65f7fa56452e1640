"""The architecture page (tl_ffblock/README.md) is the table of contents of the package."""

import re

from tests.house.conftest import PACKAGE, Source

PAGE = (PACKAGE / "README.md").read_text(encoding="utf-8")
ENTRY = re.compile(r"^- `(\w+\.py)` (.+)$", re.MULTILINE)


def entries(page: str) -> list[tuple[str, str]]:
    """Files with their sentences. A heading that begins with a folder is of its files, others leave the folder as it is.

    Headings of the second level without a folder lead back to the root.
    """
    folder, found = "", []
    for line in page.splitlines():
        if line.startswith("#"):
            named = re.match(r"^#+ `([\w/]+/)`", line)
            if named or line.startswith("## "):
                folder = named[1] if named else ""
        elif entry := ENTRY.match(line):
            found.append((folder + entry[1], entry[2]))
    return found


def test_the_page_names_every_file_once(sources: list[Source]) -> None:
    """One sentence a file; no file that is not there."""
    named = [path for path, _ in entries(PAGE)]
    assert len(named) == len(set(named))
    assert set(named) == {source.path for source in sources if not source.path.endswith("__init__.py")}


def test_sentences_say_something() -> None:
    """Three words or more, to the full stop."""
    assert [
        path for path, sentence in entries(PAGE) if len(sentence.split()) < 3 or not sentence.endswith((".", "?"))
    ] == []
