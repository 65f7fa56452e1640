"""How long a page takes from opening to its first picture, and CircuitsVis beside our canvas.

1. Pages of seeded random results (12 layers, all six scopes) of 9, 32, 64 and 128 tokens are written, opened in
   headless Chromium, and timed in real time: to the first picture, and to the picture after a change of layer.
2. CircuitsVis's component alone draws three maps of each size, first cold (fresh page), then warm.

    python benchmarks/page.py [--json FILE] [--repeats 3]
"""

import argparse
import json
import platform
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from tl_ffblock.layer.scopes import scope_names
from tl_ffblock.page.bundle import circuitsvis
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.scope_table import ScopeTable

SIZES = (9, 16, 32, 64, 128)
LAYERS = 12
CHANGE_LAYER = """async () => {
    const start = performance.now();
    document.querySelector('#layers input:not(:checked)').click();
    while (document.body.dataset.state !== 'drawn') await new Promise((resolve) => setTimeout(resolve, 1));
    return performance.now() - start;
}"""
DRAW_THREE = """async (n) => {
    const start = performance.now();
    const tokens = Array.from({ length: n }, (_, i) => `t${i}`);
    for (const id of ['a', 'b', 'c']) {
        const host = document.getElementById(id);
        host.replaceChildren(Object.assign(document.createElement('div'), { id: `${id}-host` }));
        const attention = tokens.map(() => tokens.map(() => 0.1 + Math.random()));
        CircuitsVis.render(`${id}-host`, CircuitsVis.AttentionPattern, { tokens, attention, showAxisLabels: false, maskUpperTri: false });
    }
    const middle = (canvas) => canvas.width && canvas.getContext('2d').getImageData(canvas.width >> 1, canvas.height >> 1, 1, 1).data[3];
    const drawn = () => { const all = Array.from(document.querySelectorAll('canvas')); return all.length === 3 && all.every(middle); };
    while (!drawn()) await new Promise((resolve) => setTimeout(resolve, 1));
    return performance.now() - start;
}"""


def result(n: int, causal: bool) -> ContributionMaps:
    """A random result of the usual size."""
    generator = torch.Generator().manual_seed(n)
    order = "pre_ln" if causal else "post_ln"

    def table(*shape: int) -> ScopeTable:
        tables = {scope: torch.rand(LAYERS, *shape, generator=generator) for scope in scope_names(order)}
        return ScopeTable({s: t.tril() if causal and len(shape) == 2 else t for s, t in tables.items()}, range(LAYERS))

    return ContributionMaps(
        tokens=tuple(f"token{i}" for i in range(n)),
        layers=tuple(range(LAYERS)),
        order=order,
        queries=tuple(range(n)),
        causal=causal,
        values=table(n, n),
        bias=table(n),
        remainder=ScopeTable({s: torch.zeros(LAYERS, n) for s in scope_names(order)}, range(LAYERS)),
        completeness=table(n),
    )


def time_page(browser: Any, n: int, causal: bool, folder: Path, repeats: int) -> dict[str, Any]:
    """Make one page and open it several times."""
    maps = result(n, causal)
    start = time.perf_counter()
    html = maps.to_html()
    made = time.perf_counter() - start
    path = folder / f"{n}.html"
    path.write_text(html, encoding="utf-8")
    first, change = [], []
    for _ in range(repeats):
        tab = browser.new_page(viewport={"width": 1400, "height": 900})
        tab.goto(path.as_uri())
        tab.locator("body[data-state=drawn]").wait_for()
        first.append(tab.evaluate("performance.getEntriesByName('first-picture')[0].startTime") / 1000)
        change.append(tab.evaluate(CHANGE_LAYER) / 1000)
        tab.close()
    return {
        "tokens": n,
        "causal": causal,
        "drawn_by": "CircuitsVis" if "var CircuitsVis=" in html else "canvas",
        "megabytes": len(html) / 1e6,
        "make_s": made,
        "first_picture_s": statistics.median(first),
        "change_layer_s": statistics.median(change),
    }


def time_circuitsvis(browser: Any, n: int, folder: Path, repeats: int) -> dict[str, Any]:
    """Three maps by CircuitsVis's own component: cold, then again on the same page."""
    boxes = "".join(f"<div id={name} style='width:400px;height:400px'></div>" for name in "abc")
    path = folder / "circuitsvis.html"
    path.write_text(
        f"<!doctype html><meta charset=utf-8>{boxes}<script>{circuitsvis().script}</script>", encoding="utf-8"
    )
    cold, warm = [], []
    for _ in range(repeats):
        tab = browser.new_page(viewport={"width": 1400, "height": 900})
        tab.goto(path.as_uri())
        cold.append(tab.evaluate(DRAW_THREE, n) / 1000)
        warm.append(tab.evaluate(DRAW_THREE, n) / 1000)
        tab.close()
    return {"tokens": n, "three_maps_cold_s": statistics.median(cold), "three_maps_warm_s": statistics.median(warm)}


def measure(repeats: int) -> dict[str, Any]:
    """All timings on this machine."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as name:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        folder = Path(name)
        report = {
            "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
            "chromium": browser.version,
            "pages": [time_page(browser, n, causal, folder, repeats) for n in SIZES for causal in (True, False)],
            "circuitsvis": [time_circuitsvis(browser, n, folder, repeats) for n in SIZES],
        }
        browser.close()
    return report


def main() -> None:
    """Measure, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    report = measure(options.repeats)
    print(f"{report['machine']}, Chromium {report['chromium']}; medians of {options.repeats}\n")
    print("tokens  causal  drawn by     page MB  make s  first picture s  change layer s")
    for row in report["pages"]:
        print(
            f"{row['tokens']:6}  {row['causal']!s:6}  {row['drawn_by']:11}  {row['megabytes']:7.2f}  {row['make_s']:6.2f}"
            f"  {row['first_picture_s']:15.2f}  {row['change_layer_s']:14.2f}"
        )
    print("\ntokens  CircuitsVis, three maps: cold s  warm s")
    for row in report["circuitsvis"]:
        print(f"{row['tokens']:6}  {row['three_maps_cold_s']:30.2f}  {row['three_maps_warm_s']:6.2f}")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
