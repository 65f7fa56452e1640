"""Synthetic results and a real headless browser whose every request is recorded and, but for the page's file, refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.page.screen import Builder, Screen, Shower, build_result
from tl_ffblock.results.maps import ContributionMaps


@pytest.fixture(scope="session")
def build() -> Builder:
    """Makes a seeded random result: `build(n, layers=(0, 1), order="pre_ln", causal=True, ...)`."""
    return build_result


@pytest.fixture
def show(chromium: Any, tmp_path: Path) -> Iterator[Shower]:
    """Opens a result's maps, or another view (or given HTML), from a file: `show(maps, layer=0)` or `show(html=text)`."""
    contexts = []

    def open_page(
        maps: ContributionMaps | None = None,
        *,
        html: str | None = None,
        width: int = 1400,
        address: str = "",
        context: dict[str, Any] | None = None,
        **options: Any,
    ) -> Screen:
        path = tmp_path / "page.html"
        written = html if maps is None else maps.to_html(**{"view": "maps", **options})
        path.write_text(str(written), encoding="utf-8")
        window = chromium.new_context(
            **{"viewport": {"width": width, "height": 1000}, "accept_downloads": True, **(context or {})}
        )
        contexts.append(window)
        requests: list[str] = []
        problems: list[str] = []

        def refuse(route: Any) -> None:
            route.continue_() if route.request.url.partition("#")[0] == path.as_uri() else route.abort()

        window.route("**/*", refuse)
        tab = window.new_page()
        tab.on("request", lambda request: requests.append(request.url.partition(",")[0]))
        tab.on("console", lambda message: problems.append(message.text))
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.goto(path.as_uri() + address)
        screen = Screen(tab, requests, problems)
        if html is None:
            screen.settle()
        return screen

    yield open_page
    for window in contexts:
        window.close()
