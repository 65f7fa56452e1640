"""Synthetic results, and what a test can see and do of a page in a browser."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import torch

from tl_ffblock.layer.scopes import scope_names
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.tables import ScopeTable

Builder: TypeAlias = Callable[..., ContributionMaps]
"""`build(n, layers=(0, 1), order="pre_ln", causal=True, ...)`: the fixture around `build_result`."""

Shower: TypeAlias = Callable[..., "Screen"]
"""`show(maps, layer=0)` or `show(html=text)`: opens a page."""

COLLIDING = """(selector) => Array.from(document.querySelectorAll(selector), (drawing) => {
    const shown = Array.from(drawing.querySelectorAll("text")).filter((node) => node.textContent && !node.closest("[visibility=hidden]"));
    const boxes = shown.map((node) => [node.textContent, node.getBoundingClientRect()]);
    const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3;
    return boxes.flatMap(([words, box], at) => boxes.slice(at + 1).filter(([, next]) => meet(box, next)).map(([next]) => [words, next]));
}).flat()"""
"""Of the drawings that a selector finds, the pairs of texts that lie over each other."""


def build_result(
    n: int,
    *,
    layers: Sequence[int] = (0, 1),
    order: Any = "pre_ln",
    causal: bool = True,
    scopes: Sequence[str] | None = None,
    queries: Sequence[int] | None = None,
    remainder: float = 0.0,
    **fields: Any,
) -> ContributionMaps:
    """A seeded random result; `fields` go to `ContributionMaps`."""
    generator = torch.Generator().manual_seed(n)
    rows = list(range(n) if queries is None else queries)

    def cells() -> torch.Tensor:
        values = torch.rand(len(layers), n, n, generator=generator) + 2 * torch.eye(n)
        return (values.tril() if causal else values)[:, rows]

    def table(make_one: Callable[[], torch.Tensor]) -> ScopeTable:
        return ScopeTable({scope: make_one() for scope in scopes or scope_names(order)}, layers)

    def column(scale: float) -> Callable[[], torch.Tensor]:
        return lambda: scale * torch.rand(len(layers), len(rows), generator=generator)

    defaults = {"tokens": tuple(f"t{i}" for i in range(n)), "model": "tiny"}
    return ContributionMaps(
        layers=tuple(layers),
        order=order,
        queries=tuple(rows),
        causal=causal,
        values=table(cells),
        bias=table(column(1.0)),
        remainder=table(column(remainder)),
        completeness=table(column(1e-7)),
        **{**defaults, **fields},
    )


@dataclasses.dataclass
class Screen:
    """A drawn page and what happened while it was drawn."""

    page: Any
    requests: list[str]
    problems: list[str]

    def settle(self) -> None:
        """Wait until the maps of the current choice are drawn."""
        self.page.locator("body[data-state=drawn]").wait_for(timeout=20_000)

    def choose(self, **choices: object) -> None:
        """Choose in lists by the id of each: `choose(layer=1, scope="Atb")`; underscores stand for hyphens."""
        menus = "open => document.querySelectorAll('details').forEach((menu) => { menu.open = open; })"
        self.page.evaluate(menus, True)
        for name, value in choices.items():
            self.page.locator(f"#{name.replace('_', '-')}").select_option(str(value))
            self.settle()
        self.page.evaluate(menus, False)

    def see(self, view: str) -> None:
        """Go to a view, whose tab may be in the list of further ones."""
        tab = self.page.locator(f"#views [data-view={view}]")
        if tab.count():
            tab.click()
        else:
            self.page.locator("#further").select_option(view)
        self.settle()

    def tick(self, name: str) -> None:
        """Click a box in the menu "more", by its id."""
        self.page.locator("#colours summary").click()
        self.page.locator(f"#{name}").click()
        self.page.locator("#colours summary").click()
        self.settle()

    def selection(self) -> dict[str, str]:
        """What the lists say."""
        names = ("scope", "ref", "layer", "cells", "range")
        return {name: self.page.locator(f"#{name}").input_value() for name in names}

    def pictures(self) -> list[str]:
        """The canvases of maps as they are painted."""
        script = "Array.from(document.querySelectorAll('#what canvas'), (canvas) => canvas.toDataURL())"
        return list(self.page.evaluate(script))

    def go(self, address: str) -> None:
        """Change the address of the page that is open."""
        self.page.evaluate("hash => { document.body.dataset.state = 'asked'; location.hash = hash; }", address)
        self.settle()

    def places(self) -> list[str]:
        """All that the page shows: markup of its places and their canvases; names and empty attributes that differ by history left out."""
        script = """() => {
            for (const node of document.querySelectorAll("[id^=ramp], [fill^='url(#ramp']")) { node.removeAttribute("id"); node.removeAttribute("fill"); }
            for (const name of ["class", "style"]) for (const node of document.querySelectorAll(`[${name}='']`)) node.removeAttribute(name);
            const places = Array.from(document.querySelectorAll("#bench, #headline, #meaning"), (place) => place.innerHTML);
            return [...places, ...Array.from(document.querySelectorAll("canvas"), (canvas) => canvas.toDataURL())];
        }"""
        seen: list[str] = []
        now = list(self.page.evaluate(script))
        while seen != now:  # small pictures are painted a few at a time
            self.page.wait_for_timeout(150)
            seen, now = now, list(self.page.evaluate(script))
        return now

    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))

    def point(self, role: str, row: int, column: int, shape: tuple[int, int]) -> tuple[float, float]:
        """The middle of a cell on the screen."""
        box = self.page.locator(f".panel[data-role={role}] .cells").bounding_box()
        return box["x"] + (column + 0.5) * box["width"] / shape[1], box["y"] + (row + 0.5) * box["height"] / shape[0]

    def hover(self, role: str, row: int, column: int, shape: tuple[int, int]) -> dict[str, Any]:
        """Point at a cell; the tooltip as its two token lines and its table of numbers."""
        self.page.locator(f".panel[data-role={role}]").scroll_into_view_if_needed()
        self.page.mouse.move(*self.point(role, row, column, shape))
        return self.tooltip()

    def tooltip(self) -> dict[str, Any]:
        """What the tooltip says now."""
        tip = self.page.locator("#tooltip")
        rows = tip.locator("tr").all()
        table = {row.locator("th").first.inner_text(): row.locator("td").all_inner_texts() for row in rows[1:]}
        return {"tokens": tip.locator("bdi").all_inner_texts(), "numbers": table, "text": tip.inner_text()}

    def colour(self, role: str, row: int, column: int, shape: tuple[int, int]) -> list[int]:
        """Red, green and blue of the middle of a cell, from the canvas that was drawn."""
        script = """([role, x, y]) => {
            const canvas = document.querySelector(`.panel[data-role=${role}] canvas`);
            const at = [Math.floor(x * canvas.width), Math.floor(y * canvas.height)];
            return Array.from(canvas.getContext('2d').getImageData(...at, 1, 1).data).slice(0, 3);
        }"""
        place = [role, (column + 0.5) / shape[1], (row + 0.5) / shape[0]]
        return list(self.page.evaluate(script, place))

    def save(self, kind: str) -> tuple[str, bytes]:
        """Press an export button; the file's name and content."""
        if self.page.locator("#figure-tools").is_hidden():
            self.page.locator("#figure-mode").click()
            self.settle()
        with self.page.expect_download() as download:
            self.page.locator(f"#save-{kind}").click()
        return download.value.suggested_filename, Path(download.value.path()).read_bytes()
