"""The report: one file, everything escaped, readable without a network."""

import html
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tl_ffblock.corpus.runs import CorpusRun
from tl_ffblock.experiments import Config, run_studies
from tl_ffblock.numerals import scientific

EVIL = 'the <script>alert(1)</script> cat & "dog" <img src=x onerror=alert(1)>'


@pytest.fixture
def finished(config_of: Callable[..., Config], loaded: Callable[[str], Any], tmp_path: Path) -> CorpusRun:
    path = tmp_path / "<b>data.txt"
    path.write_bytes(f"{EVIL}\nthe cat sat on the mat .\n".encode() + b"\xff\n" + b"[SEP]\n")
    return run_studies("contextualization,bypass", config_of(data=str(path), examples=2), model=loaded("bert"))


def test_everything_from_outside_is_escaped(finished: CorpusRun) -> None:
    """Texts, file names and messages reach the page as text; no script, no address of another place."""
    page = finished.outputs.report.read_text(encoding="utf-8")
    assert "<script" not in page and "<img src=x" not in page and "<b>data" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "&lt;b&gt;data.txt" in page
    assert "http://" not in page and "https://" not in page


def test_the_page_tells_what_was_run(finished: CorpusRun) -> None:
    """Title in words, command, versions, settings with their texts, fingerprint, problems, links to maps, scopes in words."""
    page = finished.outputs.report.read_text(encoding="utf-8")
    for part in (
        "shard_size",
        "model.weights",
        "python",
        "transformer-lens",
        "2 problems",
        "maps/example-1.html",
        "0.12",
        "<h1>How much each component changes the mixing of tokens · The feed-forward&#39;s output beside its bypass</h1>",
        "tl-ffblock run contextualization,bypass --model ",
        " --shard-size 4",
        "residual around feed-forward",
        "The model read [MASK] in place of ",
    ):
        assert part in page


def test_the_result_is_said_from_the_tables(finished: CorpusRun) -> None:
    """Every study has its sentence in the contents, with the largest change of the table in it; maps' errors are said."""
    page = html.unescape(finished.outputs.report.read_text(encoding="utf-8"))
    changes = finished.tables["contextualization_changes"].query("component == 'FF'").set_index("layer")["change"]
    assert f"The feed-forward changes the mixing most in layer {changes.idxmax()}: {changes.max():.3f}" in page
    ratio = finished.tables["bypass_norms"].query("tokens == 'not special'").set_index("layer")["ratio"]
    assert f"to {ratio.max():.2f} times in layer {ratio.idxmax()})." in page
    error = finished.outputs.summary["completeness"]
    assert 0 < error < 1e-4 and f"is {scientific(error)}." in page


def test_examples_say_how_many_of_their_tokens_were_masked(
    config_of: Callable[..., Config], loaded: Callable[[str], Any]
) -> None:
    """A page whose text was read with masks says so beside the text."""
    finished = run_studies("contextualization", config_of(mask_fraction=0.9, examples=1), model=loaded("bert"))
    first = (finished.tables["masked"]["sequence"] == 0).sum()
    page = html.unescape(finished.outputs.report.read_text(encoding="utf-8"))
    assert first > 0 and f"({first} of its tokens read as [MASK])" in page


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_every_figure_has_its_caption(
    family: str, config_of: Callable[..., Config], loaded: Callable[[str], Any]
) -> None:
    """Below each figure stand words about it and not the name of its file, and no two figures have the same."""
    names = "contextualization,amplification,bypass,outliers,memories"
    finished = run_studies(names, config_of(family=family, limit=4), model=loaded(family))
    page = html.unescape(finished.outputs.report.read_text(encoding="utf-8"))
    captions = re.findall(r'<figcaption>(.*?) \(<a href="figures/(.*?)\.svg">', page)
    assert {name for _, name in captions} == {path.stem for path in finished.outputs.figures}
    assert all(caption != name and caption.endswith(".") for caption, name in captions)
    assert len({caption for caption, _ in captions}) == len(captions) == (11 if family == "bert" else 14)


@pytest.mark.browser
def test_the_page_opens_without_a_network(finished: CorpusRun) -> None:
    """In a real browser: figures are drawn, tables are there, nothing is requested, no complaint in the console."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        requests: list[str] = []
        complaints: list[str] = []
        page.on("request", lambda request: requests.append(request.url[:60]))
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(finished.outputs.report.as_uri())
        widths = page.locator("figure img").evaluate_all("images => images.map(image => image.naturalWidth)")
        assert len(widths) == 4 and min(widths) > 300
        assert page.locator("table").count() >= 5
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
        assert complaints == []
        page.set_viewport_size({"width": 350, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        browser.close()
