"""The page in Firefox with the network off: what it shows and does is what it shows and does in Chromium."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.page.firefox import PROGRAM, Firefox, started
from tests.page.screen import Builder
from tests.page.test_heads import planted_heads
from tl_ffblock.results.tokens import visible

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PROGRAM is None, reason="no Firefox is installed"),
]

HOSTILE = ("<img src=x onerror=window.x=1>", "</script>", "שלום", "🙂", "=1+1", "d")
CELL = """const [role, row, column, n] = arguments;
    const canvas = document.querySelector(`.panel[data-role=${role}] .cells canvas`);
    const at = [(column + 0.5) / n * canvas.width, (row + 0.5) / n * canvas.height].map(Math.floor);
    return Array.from(canvas.getContext("2d").getImageData(...at, 1, 1).data).slice(0, 3);"""
DARKEST = [0x00, 0x3F, 0x5C]


@pytest.fixture(scope="module")
def firefox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    """One Firefox for all tests."""
    with started(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def written(tmp_path: Path, html: str) -> Path:
    """A page as a file."""
    path = tmp_path / "page-of-maps.html"
    path.write_text(html, encoding="utf-8")
    return path


def test_planted_cells_are_seen(firefox: Firefox, build: Builder, tmp_path: Path) -> None:
    """At two widths the largest cell of each row is as dark as colours go, its neighbour is not; the console is silent."""
    n = 6
    maps = build(n, causal=False, tokens=HOSTILE)
    maps["AtbLnFf"][:] = 0.1
    for row in range(n):
        maps["AtbLnFf"][:, row, (row + 2) % n] = 9.0
    path = written(tmp_path, maps.to_html(layer=1, scope="AtbLnFf"))
    firefox.open(path, "#cells=none&range=all")
    assert firefox.evaluate("return performance.getEntriesByType('resource').length") == 0
    for width in (1400, 700):
        firefox.resize(width)
        for row in range(n):
            seen = firefox.evaluate(CELL, "after", row, (row + 2) % n, n)
            assert all(abs(a - b) <= 3 for a, b in zip(seen, DARKEST, strict=True))
            assert min(firefox.evaluate(CELL, "after", row, (row + 3) % n, n)) > 200
    chips = firefox.evaluate("return Array.from(document.querySelectorAll('.chip bdi'), (node) => node.textContent)")
    assert chips == [visible(token) for token in HOSTILE]
    assert firefox.evaluate("return window.x ?? null") is None
    assert firefox.evaluate("return document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert firefox.problems(path) == []


def test_every_view_and_file_is_there(firefox: Firefox, tmp_path: Path) -> None:
    """Lines and small maps of heads are drawn, SVG and PNG of them are made, and nothing reaches the console."""
    path = written(tmp_path, planted_heads(6, 2, 3, HOSTILE).to_html())
    firefox.of_browser(
        f'Services.prefs.setIntPref("browser.download.folderList", 2); Services.prefs.setStringPref("browser.download.dir", "{tmp_path}");'
    )
    for view in ("heads", "all", "maps"):
        firefox.open(path, f"#view={view}")
        inked = """return Array.from(document.querySelectorAll("#figure canvas")).some((canvas) => {
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            return data.some((part, at) => at % 4 === 3 && part > 60); });"""
        assert any(firefox.evaluate(inked) for _ in range(100)), view  # small maps are painted a few at a time
        firefox.evaluate("document.getElementById('figure-mode').click()")
        for kind in ("svg", "png", "csv"):
            firefox.evaluate(f"document.getElementById('save-{kind}').click()")
            told = "return document.getElementById('copied').textContent"
            for _ in range(100):
                if str(firefox.evaluate(told)).split(",")[0].endswith(f".{kind}"):
                    break
            assert str(firefox.evaluate(told)).split(",")[0].endswith(f".{kind}"), (view, kind)
    assert firefox.evaluate("return window.x ?? null") is None
    assert firefox.problems(path) == []
