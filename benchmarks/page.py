"""How large a page is, how long it takes to its first picture and to a selection, and CircuitsVis beside our canvas.

1. Pages of seeded results (all six scopes) are written, opened in headless Chromium, and timed in real time: navigation to the
   first picture; a change of layer, of step and of token until sentence and maps are there and a frame later ("layer"), and
   until all places are ("all"); the PNG of what is seen. "CPU" is the main thread's own time for the change, all places
   drawn, which a busy machine lengthens less.
   Numbers are random products of what tokens give and take, so that neighbouring scopes are alike as real ones are.
2. CircuitsVis's component alone draws three maps of each size, first cold (fresh page), then warm.

    python benchmarks/page.py [--json FILE] [--repeats 3] [--sizes 10x6,128x30]
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from speed import machine

from tl_ffblock.layer.scopes import scope_names
from tl_ffblock.page.document import bundle
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.tables import ScopeTable

SIZES = "10x6,40x6,40x30,128x6,128x30,300x6,512x6"
COMPONENT_SIZES = (9, 16, 32, 64, 128)
CONTROLS = {"layer": "layer", "step": "scope", "token": "sentence"}
TIMES = ("first", *(name + part for name in CONTROLS for part in ("", "_all", "_cpu")), "png")
CHANGE = """async (change) => {
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    const start = performance.now();
    const [id, value] = change;
    const control = document.getElementById(id);
    if (control.tagName === 'SELECT') { control.value = value; control.dispatchEvent(new Event('change')); }
    else control.children[value].click();
    const past = async (state) => { while (document.body.dataset.state === state) await new Promise((resolve) => setTimeout(resolve)); };
    await past('waiting');
    await frame();
    const seen = performance.now() - start;
    await past('picture');
    await frame();
    return [seen, performance.now() - start];
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


def result(n: int, n_layers: int) -> ContributionMaps:
    """A random causal result: log-normal cells, each scope the one before it with a tenth of noise."""
    generator = torch.Generator().manual_seed(n)
    layers = range(n_layers)
    values: dict[str, torch.Tensor] = {}
    cells = torch.randn(n_layers, n, n, generator=generator)
    for scope in scope_names("pre_ln"):
        cells = cells + 0.1 * torch.randn(n_layers, n, n, generator=generator)
        values[scope] = cells.exp().tril()

    def rows(scale: float) -> ScopeTable:
        return ScopeTable({s: scale * torch.rand(n_layers, n, generator=generator) for s in values}, layers)

    return ContributionMaps(
        tokens=tuple(f" token{i}" for i in range(n)),
        layers=tuple(layers),
        order="pre_ln",
        queries=tuple(range(n)),
        causal=True,
        values=ScopeTable(values, layers),
        bias=rows(1.0),
        remainder=rows(0.0),
        completeness=rows(1e-6),
    )


def main_thread(session: Any) -> float:
    """Milliseconds that the page's main thread has worked so far."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(1000 * metric["value"] for metric in metrics if metric["name"] == "TaskDuration")


def time_page(browser: Any, n: int, n_layers: int, folder: Path, repeats: int) -> dict[str, Any]:
    """Make one page and open it several times."""
    maps = result(n, n_layers)
    start = time.process_time()
    html = maps.to_html(layer=0)
    made = time.process_time() - start
    path = folder / f"{n}.html"
    path.write_text(html, encoding="utf-8")
    times: dict[str, list[float]] = {name: [] for name in TIMES}
    for _ in range(repeats):
        context = browser.new_context(viewport={"width": 1400, "height": 900}, accept_downloads=True)
        tab = context.new_page()
        session = context.new_cdp_session(tab)
        session.send("Performance.enable")
        tab.goto(path.as_uri())
        tab.locator("body[data-state=drawn]").wait_for()
        times["first"].append(tab.evaluate("performance.getEntriesByName('picture')[0].startTime"))
        changes = {"layer": str(n_layers - 1), "step": "AtbLnFfRes", "token": n // 2}
        for name, value in changes.items():
            tab.wait_for_timeout(200)
            start = main_thread(session)
            seen, drawn = tab.evaluate(CHANGE, [CONTROLS[name], value])
            for column, time_ms in (
                (name, seen),
                (f"{name}_all", drawn),
                (f"{name}_cpu", main_thread(session) - start),
            ):
                times[column].append(time_ms)
        tab.locator("#figure-mode").click()
        begun = time.perf_counter()
        with tab.expect_download() as download:
            tab.locator("#save-png").click()
        download.value.path()
        times["png"].append(1000 * (time.perf_counter() - begun))
        context.close()
    row = {f"{name}_ms": statistics.median(values) for name, values in times.items()}
    return {"tokens": n, "layers": n_layers, "megabytes": len(html) / 1e6, "make_cpu_s": made, **row}


def time_circuitsvis(browser: Any, n: int, folder: Path, repeats: int) -> dict[str, Any]:
    """Three maps by CircuitsVis's own component: cold, then again on the same page."""
    boxes = "".join(f"<div id={name} style='width:400px;height:400px'></div>" for name in "abc")
    path = folder / "circuitsvis.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{boxes}<script>{bundle()}</script>", encoding="utf-8")
    cold, warm = [], []
    for _ in range(repeats):
        tab = browser.new_page(viewport={"width": 1400, "height": 900})
        tab.goto(path.as_uri())
        cold.append(tab.evaluate(DRAW_THREE, n) / 1000)
        warm.append(tab.evaluate(DRAW_THREE, n) / 1000)
        tab.close()
    return {"tokens": n, "three_maps_cold_s": statistics.median(cold), "three_maps_warm_s": statistics.median(warm)}


def measure(sizes: list[tuple[int, int]], repeats: int) -> dict[str, Any]:
    """All timings on this machine."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as name:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        folder = Path(name)
        report = machine() | {
            "repeats": repeats,
            "chromium": browser.version,
            "pages": [time_page(browser, n, layers, folder, repeats) for n, layers in sizes],
            "circuitsvis": [time_circuitsvis(browser, n, folder, repeats) for n in COMPONENT_SIZES],
        }
        browser.close()
    return report


def main() -> None:
    """Measure, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sizes", default=SIZES, help="tokens x layers, such as 10x6,128x30")
    options = parser.parse_args()
    sizes = [(int(n), int(layers)) for n, layers in (size.split("x") for size in options.sizes.split(","))]
    report = measure(sizes, options.repeats)
    print(f"{report['machine']}, Chromium {report['chromium']}; medians of {options.repeats}, ms unless said\n")
    heads = "".join(f"  {name.replace('_', ' '):>9}" for name in TIMES)
    print(f"tokens  layers     MB  made CPU s{heads}")
    for row in report["pages"]:
        times = "".join(f"  {row[f'{name}_ms']:9.0f}" for name in TIMES)
        print(f"{row['tokens']:6}  {row['layers']:6}  {row['megabytes']:5.2f}  {row['make_cpu_s']:10.2f}{times}")
    print("\ntokens  CircuitsVis, three maps: cold s  warm s")
    for row in report["circuitsvis"]:
        print(f"{row['tokens']:6}  {row['three_maps_cold_s']:30.2f}  {row['three_maps_warm_s']:6.2f}")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
