"""Pages as they looked when somebody last looked at them: fourteen pages at three widths, compared by the share of pixels that differ.

Pictures lie in `tests/page/pictures`, half as large as the page, in 32 colours. Letters differ between machines: where a line of
text has another width than where the pictures were made, they cannot be compared. After a change that is meant:

    python -m tests.page.test_pictures             # all, or some by name
"""

import io
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.conftest import CHROMIUM
from tests.page.screen import build_result
from tests.page.test_graph_page import drawn
from tests.page.test_logit_view import LAYERS, attribution
from tests.page.test_memories import card
from tests.page.test_overview import patching, sweep
from tests.page.test_scores import made
from tl_ffblock.page import graph_page, page
from tl_ffblock.results.average import average
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.tables import HeadTable

FOLDER = Path(__file__).with_name("pictures")
LETTERS = FOLDER / "letters.json"
WIDTHS = (380, 768, 1280)
HEIGHT = 900
COLOURS = 32
APART = 48
"""Of 255, by which one of a pixel's three colours differs from another's."""
MOST = 0.002
"""Share of pixels that may differ: an edge that falls on the other side of a pixel, not a word or a cell."""
WIDTH_OF_LETTERS = """() => { const pen = document.createElement("canvas").getContext("2d"); pen.font = getComputedStyle(document.body).font;
    return pen.measureText("What does each layer's feed-forward change? 0123456789").width; }"""
WORDS = ("The", "capital", "of", "France", "is", "Paris", "and", "that", "of")


def maps(n: int = 9, **options: Any) -> ContributionMaps:
    """Seeded maps of words, with two heads."""
    tokens = tuple(f" {WORDS[at % len(WORDS)]}" for at in range(n))
    found = build_result(n, tokens=tokens, layers=range(LAYERS), **options)
    cells = {scope: torch.stack([values, values.roll(1, -1).tril()], 1) for scope, values in found.values.items()}
    return ContributionMaps(**{**vars(found), "heads": HeadTable(cells, found.layers, ("head 0", "head 1"))})


def of_target(n: int = 9) -> str:
    """A target with what was measured beside it."""
    found = maps(n)
    return found.to_html(beside=(attribution(found.tokens), patching(found.tokens), sweep(found)))


def of_two_runs() -> str:
    """Two runs of one text and their difference."""
    first = maps()
    html: str = first.to_html(
        against=ContributionMaps(**{**vars(first), "values": first.values.each(lambda rows: rows.roll(1, 0))})
    )
    return html


def of_average() -> str:
    """Three prompts by named positions."""
    prompts = [build_result(n, layers=(3, 8)) for n in (6, 7, 8)]
    html: str = average(prompts, {"IO": [1, 2, 3], "S2": [3, 4, 5], "END": -1}).to_html()
    return html


PAGES: dict[str, Callable[[], str]] = {
    "overview": of_target,
    "overview-long": lambda: of_target(70),
    "overview-maps": lambda: maps().to_html(),
    "overview-average": of_average,
    "two-runs": of_two_runs,
    "encoder": lambda: maps(causal=False).to_html(),
    "patching": lambda: patching(maps().tokens).to_html(),
    "maps": lambda: maps().to_html(view="maps"),
    "maps-long": lambda: maps(70).to_html(view="maps"),
    "heads": lambda: maps().to_html(view="heads"),
    "all-heads": lambda: maps().to_html(view="all"),
    "scores": lambda: made(maps().tokens).to_html(layer=2),
    "memory": lambda: build_result(4, tokens=("a", "b", "c", "d")).to_html(
        beside=card(tokens=("a", "b", "c", "d")), view="memories"
    ),
    "graph": lambda: page(graph_page("tiny", drawn(), ("a", "b"), {}), circuitsvis=False),
}


def picture(browser: Any, html: str, width: int) -> tuple[Image.Image, float]:
    """The page's first screen, half as large, and how wide letters are in this browser."""
    context = browser.new_context(viewport={"width": width, "height": HEIGHT}, color_scheme="light")
    tab = context.new_page()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(html, encoding="utf-8")
        tab.goto(path.as_uri())
    tab.locator("body[data-state=drawn]").wait_for(timeout=60_000)
    tab.wait_for_timeout(400)  # small maps are painted a few at a time
    letters = float(tab.evaluate(WIDTH_OF_LETTERS))
    shown = Image.open(io.BytesIO(tab.screenshot())).convert("RGB")
    context.close()
    half = shown.resize((width // 2, HEIGHT // 2), Image.Resampling.BOX)
    return half, letters


def differing(one: Image.Image, other: Image.Image) -> float:
    """Share of pixels that differ visibly; 1 where sizes do."""
    if one.size != other.size:
        return 1.0
    apart = np.abs(np.asarray(one.convert("RGB"), dtype=int) - np.asarray(other.convert("RGB"), dtype=int))
    return float((apart.max(axis=-1) > APART).mean())


def stored(name: str, width: int) -> Path:
    """Where the picture lies."""
    return FOLDER / f"{name}-{width}.png"


@pytest.fixture(scope="module")
def letters() -> float:
    """How wide the line of letters was where the pictures were made."""
    return float(json.loads(LETTERS.read_text(encoding="utf-8"))["width"])


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("name", PAGES)
def test_pages_look_as_they_did(chromium: Any, letters: float, name: str, tmp_path: Path) -> None:
    """At three widths; what differs is written beside the others."""
    html, problems = PAGES[name](), []
    for width in WIDTHS:
        now, wide = picture(chromium, html, width)
        if abs(wide - letters) > 0.01 * letters:
            pytest.skip(f"letters are {wide:.0f} pixels wide here, {letters:.0f} where the pictures were made")
        share = differing(now.quantize(COLOURS), Image.open(stored(name, width)))  # in few colours as well
        if share > MOST:
            now.save(tmp_path / stored(name, width).name)
            problems.append(f"{name} at {width}: {share:.1%} of its pixels differ, see {tmp_path}")
    assert problems == []


def test_pictures_are_small_and_complete() -> None:
    """Each page at each width, none of a page that is gone, all together below two megabytes."""
    files = {path.name for path in FOLDER.glob("*.png")}
    assert files == {stored(name, width).name for name in PAGES for width in WIDTHS}
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 2e6


def test_a_missing_word_is_noticed() -> None:
    """One word that is gone, or one cell of another colour, is more than what may differ; a shade is not."""
    drawn_now = Image.open(stored("overview", 1280)).convert("RGB")
    changed = drawn_now.copy()
    changed.paste((255, 255, 255), (9, 5, 240, 20))
    assert differing(drawn_now, drawn_now) == 0 and differing(changed, drawn_now) > MOST
    assert differing(drawn_now.point(lambda value: max(0, value - 20)), drawn_now) == 0
    assert differing(drawn_now.crop((0, 0, 600, 450)), drawn_now) == 1


def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, CHROMIUM)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def main(names: list[str]) -> None:
    """Make the pictures anew, all or some by name."""
    FOLDER.mkdir(exist_ok=True)
    for browser in _browser():
        for name in names or PAGES:
            for width in WIDTHS:
                now, letters = picture(browser, PAGES[name](), width)
                now.quantize(COLOURS).save(stored(name, width), optimize=True)
        LETTERS.write_text(json.dumps({"width": letters}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
