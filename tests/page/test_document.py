"""The page as a document: self-contained, and closed to everything but its own scripts."""

import base64
import hashlib
import html
import re
from html.parser import HTMLParser

import pytest

from tests.page.screen import Builder
from tl_ffblock.errors import InputError
from tl_ffblock.page import iframe
from tl_ffblock.page.bundle import LARGEST


class Elements(HTMLParser):
    """Collects the tags of a page, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, str | None, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember a tag; for scripts and styles start collecting text."""
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.raw.append((tag, dict(attrs).get("type"), ""))

    def handle_data(self, data: str) -> None:
        """Text of the script or style that is open."""
        if self.cdata_elem and self.raw:
            tag, kind, text = self.raw[-1]
            self.raw[-1] = (tag, kind, text + data)


@pytest.mark.parametrize("n", [4, 40])
def test_nothing_is_loaded_from_anywhere(build: Builder, n: int) -> None:
    """No element has an address to load from, with CircuitsVis in the page or without."""
    for tag, attributes in Elements(build(n).to_html()).tags:
        assert not {"src", "href", "srcset", "data", "action"} & set(attributes), tag


@pytest.mark.parametrize("n", [4, 40])
def test_the_policy_names_exactly_the_scripts_of_the_page(build: Builder, n: int) -> None:
    """Every script and style of the page stands in the policy by hash; nothing else may run or load."""
    elements = Elements(build(n).to_html())
    policy = next(
        a["content"] for t, a in elements.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    allowed = set(re.findall(r"sha256-([^']+)", policy))
    code = [text for _, kind, text in elements.raw if kind != "application/json"]
    assert allowed == {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in code}
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy and "http" not in policy


def test_circuitsvis_is_inlined_once_and_only_where_it_draws(build: Builder) -> None:
    """Square maps up to the limit carry its bundle once; larger or partial ones do not carry it."""
    counts = [
        maps.to_html().count("var CircuitsVis=")
        for maps in (build(LARGEST), build(LARGEST + 1), build(9, queries=(3, 8)))
    ]
    assert counts == [1, 0, 0]


def test_tokens_do_not_reach_the_markup(build: Builder) -> None:
    """A hostile token appears nowhere in the page's text but escaped inside the data block."""
    token = "</script><script>window.hostile=1</script>"
    assert token not in build(2, tokens=(token, "<img src=x onerror=hostile>")).to_html()
    assert "<img" not in build(40, tokens=("<img src=x>",) * 40).to_html()


def test_a_large_run_stays_small(build: Builder) -> None:
    """128 tokens, 12 layers, 6 scopes, no causal mask: below 6 MB, well under the 8 that were asked."""
    assert len(build(128, layers=range(12), causal=False).to_html()) < 6e6


def test_the_frame_holds_the_page_and_nothing_more(build: Builder) -> None:
    """The notebook frame's srcdoc is the page, escaped; it may run scripts and save files only."""
    text = build(3).to_html()
    frame = Elements(iframe(text, height=500).data).tags[1]
    assert frame[0] == "iframe" and frame[1]["srcdoc"] == text
    assert frame[1]["sandbox"] == "allow-scripts allow-downloads" and "500px" in frame[1]["style"]
    assert html.escape(text) in iframe(text).data


def test_a_frame_needs_a_height() -> None:
    """A height that is no height is an InputError."""
    with pytest.raises(InputError, match="height=0"):
        iframe("", height=0)


def test_missing_packages_are_named(build: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without CircuitsVis or IPython the error says what to install."""
    import importlib.metadata
    import sys

    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    with pytest.raises(ModuleNotFoundError, match="pip install circuitsvis"):
        build(3).to_html()
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(ModuleNotFoundError, match="pip install ipython"):
        iframe("")
