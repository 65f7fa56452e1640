"""The page as a document: self-contained, and closed to everything but its own scripts."""

import base64
import hashlib
import html
import re
from html.parser import HTMLParser

import pytest


class Elements(HTMLParser):
    """Collects the tags of a page, and the text of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.raw = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Remember a tag; for scripts and styles start collecting text."""
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.raw.append((tag, dict(attrs).get("type"), ""))

    def handle_data(self, data):
        """Text of the script or style that is open."""
        if self.cdata_elem and self.raw:
            tag, kind, text = self.raw[-1]
            self.raw[-1] = (tag, kind, text + data)


@pytest.mark.parametrize("n", [4, 40])
def test_nothing_is_loaded_from_anywhere(build, n):
    """No element has an address to load from, with CircuitsVis in the page or without."""
    from tl_ffblock.page import page

    for tag, attributes in Elements(page(build(n))).tags:
        assert not {"src", "href", "srcset", "data", "action"} & set(attributes), tag


@pytest.mark.parametrize("n", [4, 40])
def test_the_policy_names_exactly_the_scripts_of_the_page(build, n):
    """Every script and style of the page stands in the policy by hash; nothing else may run or load."""
    from tl_ffblock.page import page

    elements = Elements(page(build(n)))
    policy = next(
        a["content"] for t, a in elements.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    allowed = set(re.findall(r"sha256-([^']+)", policy))
    code = [text for _, kind, text in elements.raw if kind != "application/json"]
    assert allowed == {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in code}
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy and "http" not in policy


def test_circuitsvis_is_inlined_once_and_only_where_it_draws(build):
    """Square maps up to the limit carry its bundle once; larger or partial ones do not carry it."""
    from tl_ffblock.page import page
    from tl_ffblock.page.bundle import LARGEST

    counts = [
        page(maps).count("var CircuitsVis=") for maps in (build(LARGEST), build(LARGEST + 1), build(9, queries=(3, 8)))
    ]
    assert counts == [1, 0, 0]


def test_tokens_do_not_reach_the_markup(build):
    """A hostile token appears nowhere in the page's text but escaped inside the data block."""
    from tl_ffblock.page import page

    token = "</script><script>window.hostile=1</script>"
    assert token not in page(build(2, tokens=(token, "<img src=x onerror=hostile>")))
    assert "<img" not in page(build(40, tokens=("<img src=x>",) * 40))


def test_a_large_run_stays_small(build):
    """128 tokens, 12 layers, 6 scopes, no causal mask: below 6 MB, well under the 8 that were asked."""
    from tl_ffblock.page import page

    assert len(page(build(128, layers=range(12), causal=False))) < 6e6


def test_the_frame_holds_the_page_and_nothing_more(build):
    """The notebook frame's srcdoc is the page, escaped; it may run scripts and save files only."""
    from tl_ffblock.page import iframe, page

    text = page(build(3))
    frame = Elements(iframe(text, height=500).data).tags[1]
    assert frame[0] == "iframe" and frame[1]["srcdoc"] == text
    assert frame[1]["sandbox"] == "allow-scripts allow-downloads" and "500px" in frame[1]["style"]
    assert html.escape(text) in iframe(text).data


def test_a_frame_needs_a_height():
    """A height that is no height is an InputError."""
    from tl_ffblock.errors import InputError
    from tl_ffblock.page import iframe

    with pytest.raises(InputError, match="height=0"):
        iframe("", height=0)


def test_missing_packages_are_named(build, monkeypatch):
    """Without CircuitsVis or IPython the error says what to install."""
    import importlib.metadata
    import sys

    from tl_ffblock.page import iframe, page

    def absent(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    with pytest.raises(ModuleNotFoundError, match="pip install circuitsvis"):
        page(build(3))
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(ModuleNotFoundError, match="pip install ipython"):
        iframe("")
