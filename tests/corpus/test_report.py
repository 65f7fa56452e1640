"""The report: one file, everything escaped, readable without a network."""

import html
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from tl_ffblock.corpus.outputs import linked, shown_table
from tl_ffblock.corpus.runs import CorpusRun
from tl_ffblock.numerals import scientific
from tl_ffblock.page import document

EVIL = 'the <script>alert(1)</script> cat & "dog" <img src=x onerror=alert(1)>'
Run = Callable[..., CorpusRun]


@pytest.fixture(scope="module")
def finished(shared_run: Run, tmp_path_factory: pytest.TempPathFactory) -> CorpusRun:
    """A run of two studies over evil, unreadable and good texts; tests read its page."""
    path = tmp_path_factory.mktemp("evil") / "<b>data.txt"
    path.write_bytes(f"{EVIL}\nthe cat sat on the mat .\n".encode() + b"\xff\n" + b"[SEP]\n")
    return shared_run("contextualization,bypass", data=str(path), examples=2)


@pytest.fixture(scope="module")
def page(finished: CorpusRun) -> str:
    """The report's text."""
    return finished.outputs.report.read_text(encoding="utf-8")


def test_everything_from_outside_is_escaped(page: str) -> None:
    """Texts, file names and messages reach the page as text; no script, no address of another place."""
    assert "<script" not in page and "<img src=x" not in page and "<b>data" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "&lt;b&gt;data.txt" in page
    assert "http://" not in page and "https://" not in page


def test_layers_of_findings_lead_to_the_example_at_that_layer(page: str) -> None:
    """A sentence's layer is a link to the first page of maps, escaped like everything; without one it is text."""
    assert re.search(r'<p class="result">.*<a href="maps/example-1\.html#layer=\d">layer \d</a>', page)
    evil = linked("in layer 5 of <b>", 'maps/"x.html')
    assert evil == 'in <a href="maps/&quot;x.html#layer=5">layer 5</a> of &lt;b&gt;'
    assert linked("layer 5 <", "") == "layer 5 &lt;"
    assert linked("in the median layer 0.040, 12.", "x.html") == "in the median layer 0.040, 12.", (
        "a number, not a layer"
    )
    assert linked("next in layer 12.", "x.html").endswith('<a href="x.html#layer=12">layer 12</a>.')


def test_tables_of_zeros_are_folded() -> None:
    """Whatever stands in their counts; one number that is not zero opens them."""
    frame = pd.DataFrame({"layer": [0, 1], "share": [0.0, float("nan")], "sequences": [3, 3]})
    assert shown_table("x", frame)["zeros"] and not shown_table("x", frame.assign(share=[0.0, 1e-9]))["zeros"]
    assert not shown_table("x", frame[["layer", "sequences"]])["zeros"]


def test_the_page_tells_what_was_run(page: str) -> None:
    """Title in words, command, versions, settings with their texts, fingerprint, problems, links to maps, scopes in words."""
    for part in (
        "shard_size",
        "model.weights",
        "python",
        "transformer-lens",
        "2 problems",
        "maps/example-1.html",
        "0.12",
        "<h1>Contextualization change by component (",
        ") · The feed-forward&#39;s output and its skip connection (Fig. 7, 24-27)</h1>",
        "tl-ffblock run contextualization,bypass --model ",
        " --shard-size 4",
        "residual around feed-forward",
        "The model read [MASK] in place of ",
    ):
        assert part in page


def test_the_result_is_said_from_the_tables(finished: CorpusRun, page: str) -> None:
    """Every study has its sentence in the contents, with the largest change of the table in it; maps' errors are said."""
    page = html.unescape(page)
    changes = finished.tables["contextualization_changes"].query("component == 'FF'").set_index("layer")["change"]
    assert f"The feed-forward changes contextualization most in layer {changes.idxmax()}: {changes.max():.3f}" in page
    ratio = finished.tables["bypass_norms"].query("tokens == 'not special'").set_index("layer")["ratio"]
    assert f"to {ratio.max():.2f} times in layer {ratio.idxmax()})." in page
    error = finished.outputs.summary["completeness"]
    assert 0 < error < 1e-4 and f"is {scientific(error)}." in page


def test_examples_say_how_many_of_their_tokens_were_masked(run: Run) -> None:
    """A page whose text was read with masks says so beside the text."""
    finished = run("contextualization", limit=8, mask_fraction=0.9, examples=1)
    first = (finished.tables["masked"]["sequence"] == 0).sum()
    page = html.unescape(finished.outputs.report.read_text(encoding="utf-8"))
    assert first > 0 and f"({first} of its tokens read as [MASK])" in page


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_every_figure_has_its_caption(family: str, run: Run) -> None:
    """Below each figure stand words about it, how far its numbers are known among them, and no two figures have the same."""
    names = "contextualization,amplification,bypass,outliers,memories"
    finished = run(names, family=family, limit=4, mask_fraction=0.0)
    page = html.unescape(finished.outputs.report.read_text(encoding="utf-8"))
    captions = re.findall(r'<figcaption>(.*?) \(<a href="figures/(.*?)\.svg">', page)
    assert {name for _, name in captions} == {path.stem for path in finished.outputs.figures}
    assert all(caption != name and caption.endswith(".") for caption, name in captions)
    assert all("standard error" in caption for caption, _ in captions)  # drawn, or why there is none
    assert len({caption for caption, _ in captions}) == len(captions) == (11 if family == "bert" else 15)


@pytest.fixture
def opened(finished: CorpusRun, chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens the report in a window: `opened(width=1200, color_scheme="dark")`; three times as many pixels, for thin letters."""
    windows = []

    def open_page(width: int = 1200, **options: Any) -> Any:
        windows.append(chromium.new_context(viewport={"width": width, "height": 900}, device_scale_factor=3, **options))
        page = windows[-1].new_page()
        page.requests, page.complaints = [], []
        page.on("request", lambda request: page.requests.append(request.url[:60]))
        page.on("console", lambda message: page.complaints.append(message.text))
        page.goto(finished.outputs.report.as_uri())
        return page

    yield open_page
    for window in windows:
        window.close()


@pytest.mark.browser
def test_the_page_opens_without_a_network(opened: Callable[..., Any]) -> None:
    """In a real browser: figures are drawn, tables are there, nothing is requested, no complaint in the console."""
    page = opened()
    widths = page.locator("figure svg").evaluate_all("all => all.map(svg => svg.getBoundingClientRect().width)")
    assert len(widths) == 4 and min(widths) > 300
    assert page.locator("table").count() >= 5
    assert all(url.startswith(("file:", "data:")) for url in page.requests)
    assert page.complaints == []
    for width in (1200, 1000, 380, 350):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    least = page.locator("figure svg text").evaluate_all(
        "all => Math.min(...all.map(text => text.getBoundingClientRect().height))"
    )
    assert least > 7  # a narrow screen scrolls figures rather than making them too small to be read


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_follow_the_scheme(scheme: str, opened: Callable[..., Any]) -> None:
    """As drawn, a figure's ground is the page's, and every text, axis and line of it stands out from it."""
    page = opened(color_scheme=scheme)
    paper, ink = (
        np.array(
            [int(part) for part in re.findall(r"\d+", page.evaluate(f"getComputedStyle(document.body).{name}"))[:3]]
        )
        for name in ("backgroundColor", "color")
    )
    assert (paper.mean() < 60) == (scheme == "dark")
    for figure in page.locator("figure svg").all():
        figure.scroll_into_view_if_needed()
        picture = np.asarray(Image.open(io.BytesIO(figure.screenshot())).convert("RGB"))
        colours, counts = np.unique(picture @ [1 << 16, 1 << 8, 1], return_counts=True)
        assert colours[counts.argmax()] == paper @ [1 << 16, 1 << 8, 1]
        box, texts, lines = figure.evaluate(
            """svg => {
                const boxes = nodes => nodes.map(node => node.getBoundingClientRect().toJSON())
                const all = path => [...svg.querySelectorAll(path)]
                return [svg.getBoundingClientRect().toJSON(), boxes(all("text").filter(text => text.textContent.trim())),
                    boxes(all("g[clip-path] path, path[clip-path]"))]
            }"""
        )
        assert len(texts) > 5 and lines
        assert all(_largest_contrast(picture, box, text, paper) > 4.5 for text in texts)
        least = 3 if scheme == "dark" else 2
        assert all(_largest_contrast(picture, box, line, paper) > least for line in lines)
        assert (np.abs(picture.astype(int) - ink).sum(axis=2) < 12).sum() > 100  # axes, in the page's ink


def _largest_contrast(picture: np.ndarray, figure: dict[str, float], box: dict[str, float], paper: np.ndarray) -> float:
    """WCAG's contrast with the paper of the pixel in a box that has most of it; the picture has three pixels for one."""
    # Playwright's picture of an element begins at a whole pixel of the page.
    left, top = (round(3 * (box[axis] - int(figure[axis] + 1e-3))) for axis in ("x", "y"))
    right, bottom = left + round(3 * box["width"]) + 1, top + round(3 * box["height"]) + 1
    inside = picture[max(top, 0) : bottom, max(left, 0) : right].reshape(-1, 3)
    light, ground = _luminance(inside), _luminance(paper[None])[0]
    return float(np.max((np.maximum(light, ground) + 0.05) / (np.minimum(light, ground) + 0.05)))


def _luminance(rgb: np.ndarray) -> np.ndarray:
    part = rgb / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


@pytest.mark.browser
def test_print_is_light_and_whole(opened: Callable[..., Any]) -> None:
    """On paper the dark scheme is left, and no figure or table is wider than the page, were it as narrow as A6."""
    page = opened(width=397, color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('figure svg text')).fill") == "rgb(23, 32, 42)"
    right = "all => Math.max(...all.map(node => node.getBoundingClientRect().right))"
    assert page.locator("figure svg").evaluate_all(right) <= 397
    assert page.locator("details[open] table").evaluate_all(right) <= 397


def test_colours_are_the_workbenchs(page: str) -> None:
    """Paper, ink, greys and accent are those of the page of maps, in every scheme; every colour of a figure has its variable."""
    workbench = (Path(document.__file__).parent / "assets" / "page.css").read_text(encoding="utf-8")
    found = [re.findall(r":root\S* \{(.*?)\}", text, re.DOTALL) for text in (page, workbench)]
    schemes = [(of_text[0], of_text[1], of_text[-1]) for of_text in found]  # light, dark, print
    for ours, theirs in zip(*schemes, strict=True):
        mine, its = (
            dict(re.findall(r"(--(?:paper|ink|grey|line|edge|ground|accent)): (\S+);", css)) for css in (ours, theirs)
        )
        assert mine == its and len(mine) == 7
    drawings = re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    assert len(drawings) == 4 and all("#" not in re.sub(r"[(\"]#[\w-]+", "", drawing) for drawing in drawings)


def test_a_figures_names_are_its_own(page: str) -> None:
    """Figures share one document: no name stands twice, and every reference leads to a name of the same figure."""
    names = re.findall(r' id="([^"]+)"', page)
    assert len(names) == len(set(names))
    for drawing in re.findall(r"<svg .*?</svg>", page, re.DOTALL):
        referred = set(re.findall(r'(?:href="|url\()#([^")]+)', drawing))
        assert referred and referred <= set(re.findall(r' id="([^"]+)"', drawing))


def test_a_signature_is_text_and_not_mathematics(run: Run, tmp_path: Path) -> None:
    """Dollars in the name of a corpus stay dollars, and its angle brackets are no markup."""
    path = tmp_path / "a$_b$ <i>.txt"
    path.write_text("the cat sat on the mat .\n")
    page = run("bypass", data=str(path)).outputs.report.read_text("utf-8")
    assert "a$_b$ &lt;i&gt;.txt · " in page
    assert "1 sequence (of one text: no standard error)" in re.sub(r"\s*<[^>]+>\s*", " ", page)
