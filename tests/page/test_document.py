"""The page as a document: self-contained, and closed to everything but its own scripts."""

import base64
import hashlib
import re
import zlib
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests import tiny
from tests.page.screen import Builder, Shower
from tl_ffblock.errors import InputError, ScopeKeyError
from tl_ffblock.page import document, iframe
from tl_ffblock.page.document import LARGEST


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


@pytest.mark.parametrize("n", [4, 70])
def test_nothing_is_loaded_from_anywhere(build: Builder, n: int) -> None:
    """No element has an address to load from, with CircuitsVis in the page or without."""
    for tag, attributes in Elements(build(n, layers=(0,)).to_html()).tags:
        assert not {"src", "href", "srcset", "data", "action"} & set(attributes), tag


@pytest.mark.parametrize(("n", "bundles"), [(4, 1), (70, 0)])
def test_the_policy_names_exactly_the_scripts_of_the_page(build: Builder, n: int, bundles: int) -> None:
    """Script and style of the page stand in the policy by hash, the deflated bundle by its script's; nothing else may run."""
    elements = Elements(build(n, layers=(0,)).to_html())
    policy = next(
        a["content"] for t, a in elements.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    allowed = set(re.findall(r"sha256-([^']+)", str(policy)))
    packed = [text for _, kind, text in elements.raw if kind == "text/plain"]
    code = [text for _, kind, text in elements.raw if kind is None]
    code += [zlib.decompress(base64.b64decode(text)).decode() for text in packed]
    assert len(packed) == bundles and len(code) == 2 + bundles
    assert allowed == {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in code}
    assert str(policy).startswith("default-src 'none'") and "unsafe" not in str(policy) and "http" not in str(policy)


def test_circuitsvis_is_carried_once_and_only_where_it_can_draw(build: Builder) -> None:
    """Square maps up to the limit carry its bundle, deflated; larger or partial ones and notebook cells do not, and are little more than our scripts."""
    maps = (build(LARGEST, layers=(0,)), build(LARGEST + 1, layers=(0,)), build(9, queries=(3, 8)))
    assert [m.to_html().count('id="circuitsvis-bundle"') for m in maps] == [1, 0, 0]
    ours = len(document.script_of())
    bundle = base64.b64encode(zlib.compress(document.bundle().encode(), 9))
    assert ours < len(maps[2].to_html()) < ours + 4e4 and len(build(9).to_html()) < 3.5e5 + len(bundle)
    assert 'id="circuitsvis-bundle"' not in maps[0].show().html


def test_tokens_do_not_reach_the_markup(build: Builder) -> None:
    """A hostile token appears nowhere in a page's text but escaped inside the data block, nor in CircuitsVis's own view."""
    token = "</script><script>window.hostile=1</script>"
    maps = build(2, tokens=(token, "<img src=x onerror=hostile>"), model="</title><b>")
    view = maps.to_circuitsvis("Atb", 0)
    for text in (maps.to_html(), view.html, view._repr_html_(), maps.show()._repr_html_()):
        assert token not in text and "<img src=x" not in text and "</title><b>" not in text


def test_a_large_run_stays_small(build: Builder) -> None:
    """128 tokens, 12 layers, 6 scopes, no causal mask, random numbers, which deflate worst: below 4 MB."""
    assert len(build(128, layers=range(12), causal=False).to_html()) < 4e6


@pytest.mark.parametrize("heads", [False, True])
def test_a_short_text_has_a_small_page(ffb: ModuleType, model_of: Callable[..., Any], heads: bool) -> None:
    """Nine tokens, six layers, all scopes, twelve heads: below 350 kB beside CircuitsVis's own bundle."""
    maps = ffb.contribution_maps(ffb.load_model("minilm"), "the capital of japan is tokyo.", heads=heads)
    assert len(maps.tokens) == 9
    carried = base64.b64encode(zlib.compress(document.bundle().encode(), 9))
    assert len(maps.to_html()) - len(carried) < 350_000


def test_the_frame_holds_the_page_and_nothing_more(build: Builder) -> None:
    """The notebook frame has the page, deflated, a third as large; it may run scripts and save files only."""
    page = build(3).show().html
    view = iframe(page, height=500, title="<maps>")
    (frame,) = (element for element in Elements(view._repr_html_()).tags if element[0] == "iframe")
    assert zlib.decompress(base64.b64decode(str(frame[1]["data-tl-ffblock"]))).decode() == page
    assert frame[1]["title"] == "<maps>" and len(view._repr_html_()) < 0.6 * len(page)
    assert frame[1]["sandbox"] == "allow-scripts allow-downloads" and "500px" in str(frame[1]["style"])


def test_a_view_can_be_kept(build: Builder, tmp_path: Path) -> None:
    """Outside a notebook the view says what it is and writes its page."""
    view = build(3).show()
    assert view.save(tmp_path / "view.html").read_text(encoding="utf-8") == view.html
    assert "shown in a notebook" in repr(view)


def still_in(view: Any) -> bytes:
    """The picture that a view leaves in an untrusted notebook, which strips frame and script; it is the one for a PDF, too."""
    bundle = view._repr_mimebundle_()
    sources = [attributes["src"] for name, attributes in Elements(bundle["text/html"]).tags if name == "img"]
    assert sources == [f"data:image/png;base64,{bundle['image/png']}"]
    assert "Run this cell, or trust the notebook" in bundle["text/html"] and "<iframe" in bundle["text/html"]
    return base64.b64decode(bundle["image/png"])


def test_a_notebook_keeps_a_still_picture_beside_the_frame(build: Builder) -> None:
    """Readers that show no frames find a PNG of before, after and difference, or of a lone map."""
    pytest.importorskip("matplotlib")
    for maps, widest in ((build(5), 600), (build(5, scopes=("Atb",)), 300)):
        picture = still_in(maps.show())
        assert picture[:8] == b"\x89PNG\r\n\x1a\n" and int.from_bytes(picture[16:20], "big") > widest


def test_every_view_has_a_small_still(ffb: ModuleType, model_of: Callable[..., Any]) -> None:
    """Maps, heads, attention and its scores, shares of a target, by position and of a continuation, flow and routes."""
    pytest.importorskip("matplotlib")
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 6, seed=0)
    parts = ("heads", "graph")
    result = ffb.attribute(model, tokens, ffb.logit(7), of=parts)
    rest = ffb.attribute_continuation(model, tokens[:4].tolist(), tokens[4:].tolist())
    views = {
        "heads": ffb.contribution_maps(model, tokens, heads=True).show(view="heads"),
        "attention": ffb.attention_maps(model, tokens).show(view="all"),
        "scores": ffb.attention_scores(model, tokens).show(),
        "attribution": result.show(),
        "shares alone": ffb.attribute(model, tokens, ffb.logit(7), of=()).show(),
        "by position": result.token_maps("heads").show(),
        "continuation": rest.show(),
        "continuation's maps": rest.token_maps().show(),
        "flow": ffb.flow_graph(model, tokens, layers=-1, target=ffb.logit(7)).show(),
        "flow without a target": ffb.flow_graph(model, tokens, layers=-1).show(),
        "paths": result.graph(0.8).show(),
    }
    for name, view in views.items():
        picture = still_in(view)
        assert picture[:8] == b"\x89PNG\r\n\x1a\n" and 1_000 < len(picture) < 60_000, name


def test_a_still_is_of_numbers_that_the_result_has(build: Builder) -> None:
    """The map that the page opens with, as the page shows it; what is not there is grey and no number."""
    pytest.importorskip("matplotlib")
    maps = build(5, scopes=("Atb",)).token_maps()
    figure = maps.figure(layer=1)
    (image,) = figure.axes[0].get_images()
    cells = maps["Atb", 1].double().numpy().copy()
    np.fill_diagonal(cells, 0.0)
    drawn = np.ma.filled(image.get_array(), np.nan)
    for row in range(1, 5):
        np.testing.assert_allclose(drawn[row, :row], cells[row, :row] / cells[row].sum(), rtol=1e-6)
    assert np.isnan(drawn[np.triu_indices(5)]).all()


def test_the_still_goes_where_the_script_runs(show: Shower, build: Builder) -> None:
    """In a trusted notebook the page alone is seen; where scripts are stripped, the picture and why there is no page."""
    pytest.importorskip("matplotlib")
    written = build(5).show()._repr_html_()
    trusted = show(html=f"<!doctype html><body>{written}")
    trusted.page.frame_locator("iframe").locator("body[data-state=drawn]").wait_for()
    assert trusted.page.locator("img").count() == 0 and "trust the notebook" not in trusted.page.inner_text("body")
    stripped = re.sub(r"<(script|iframe).*?</\1>", "", written, flags=re.DOTALL)
    untrusted = show(html=f"<!doctype html><body>{stripped}")
    assert untrusted.page.locator("img").evaluate("image => image.complete && image.naturalWidth > 300")
    assert "Run this cell, or trust the notebook, to use the page." in untrusted.page.inner_text("body")


def test_a_frame_needs_a_height() -> None:
    """A height that is no height is an InputError."""
    with pytest.raises(InputError, match="height=0"):
        iframe("", height=0)


@pytest.mark.wrong_types
def test_circuitsvis_is_asked_for_what_there_is(build: Builder) -> None:
    """Unknown scopes, layers and kinds, maps without heads or with a choice of rows are refused in words."""
    maps = build(4)
    with pytest.raises(InputError, match="kind='x'"):
        maps.to_circuitsvis("Atb", 0, kind="x")  # type: ignore[arg-type]
    with pytest.raises(ScopeKeyError, match="no heads"):
        maps.to_circuitsvis("Atb", 0, kind="heads")
    with pytest.raises(InputError, match="layer 7"):
        maps.to_circuitsvis("Atb", 7)
    with pytest.raises(InputError, match="square maps, these have 1 queries of 4"):
        build(4, queries=(1,)).to_circuitsvis("Atb", 0)


def test_missing_packages_are_named(build: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without CircuitsVis the error says what to install; what does not need it works."""
    import importlib.metadata

    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    with pytest.raises(ModuleNotFoundError, match="pip install circuitsvis"):
        build(3).to_html()
    assert build(3).show().html


def test_a_still_figure_has_the_shares_of_the_page(build: Builder) -> None:
    """Matplotlib's panels hold shares of the others before, after and in difference; an unknown scope is refused."""
    pytest.importorskip("matplotlib")
    maps = build(5, causal=False)
    figure = maps.figure(layer=1, scope="AtbLnFf", against="AtbLn")
    images = [np.ma.filled(axis.get_images()[0].get_array(), np.nan) for axis in figure.axes if axis.get_images()]
    assert len(images) == 3
    cells = maps["AtbLnFf", 1].numpy().copy()
    np.fill_diagonal(cells, np.nan)
    np.testing.assert_allclose(images[1], cells / np.nansum(cells, 1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(images[2], images[1] - images[0], atol=1e-7)
    with pytest.raises(ScopeKeyError, match="no scope 'AtbFf'"):
        maps.figure(layer=1, scope="AtbFf")
