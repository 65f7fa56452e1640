"""How large a page of 12 x 12 heads at 128 tokens is, and how long its views of heads take to draw.

1. Attention of random scores, causal and of both directions, and the patterns of a GPT-2-small-sized model of random weights.
2. Each page is opened in headless Chromium with the lines of a layer's twelve heads, and with all 144 heads as small maps: from
   navigation until the lines are painted, or the last small map is; then another layer is chosen, until its lines are there.

    python benchmarks/heads_page.py [--repeats 3]
"""

import argparse
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch
from page import CHANGE
from speed import GPT2, build, machine

from tl_ffblock.attention import attention_maps
from tl_ffblock.results.token_maps import TokenMaps

LAYERS, HEADS, TOKENS = 12, 12, 128
GRID = """async () => { const painted = () => document.querySelectorAll('.grid-cell canvas').length;
    while (painted() < 144) await new Promise((resolve) => setTimeout(resolve)); return performance.now(); }"""


def random_attention(causal: bool) -> TokenMaps:
    """The softmax of scores of unit spread, a tensor [1, head, query, key] a layer as other tools have it."""
    scores = torch.randn(LAYERS, 1, HEADS, TOKENS, TOKENS, generator=torch.Generator().manual_seed(0))
    if causal:
        scores = scores.masked_fill(torch.ones(TOKENS, TOKENS).triu(1).bool(), -torch.inf)
    return TokenMaps.from_attention(list(scores.softmax(-1)), [f" token{i}" for i in range(TOKENS)])


def gpt2_sized() -> TokenMaps:
    """The patterns of a model of GPT-2 small's sizes on random tokens."""
    tokens = torch.randint(0, 50000, (TOKENS,), generator=torch.Generator().manual_seed(0))
    return attention_maps(build(GPT2), tokens)


def time_views(browser: Any, html: str, folder: Path, repeats: int) -> dict[str, float]:
    """Medians in ms: the first lines, another layer's lines, all small maps."""
    path = folder / "heads.html"
    path.write_text(html, encoding="utf-8")
    times: dict[str, list[float]] = {"lines": [], "another layer": [], "all heads": []}
    for _ in range(repeats):
        for view in ("heads", "all"):
            tab = browser.new_page(viewport={"width": 1400, "height": 900})
            tab.goto(f"{path.as_uri()}#view={view}&layer=3")
            tab.locator("body[data-state=drawn]").wait_for()
            if view == "all":
                times["all heads"].append(tab.evaluate(GRID))
            else:
                times["lines"].append(tab.evaluate("performance.getEntriesByName('picture')[0].startTime"))
                times["another layer"].append(tab.evaluate(CHANGE, ["layer", "11"])[0])
            tab.close()
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Measure and print a table."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    pages = {
        "random, causal": random_attention(True).to_html(),
        "random, both directions": random_attention(False).to_html(),
        "GPT-2 small in size": gpt2_sized().to_html(),
    }
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as name:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        print(f"{machine()}, Chromium {browser.version}; medians of {repeats}, ms\n", flush=True)
        for attention, html in pages.items():
            times = time_views(browser, html, Path(name), repeats)
            shown = "".join(f"  {view} {milliseconds:.0f}" for view, milliseconds in times.items())
            print(f"{attention:24}  {len(html) / 1e6:.2f} MB{shown}", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
