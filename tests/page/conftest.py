"""Synthetic results and a real headless browser whose every request is recorded and, but for the page's file, refused."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.page.screen import Builder, Screen, Shower, build_result
from tl_ffblock.results.maps import ContributionMaps

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def build() -> Builder:
    """Makes a seeded random result: `build(n, layers=(0, 1), order="pre_ln", causal=True, ...)`."""
    return build_result


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Headless Chromium as installed on this machine."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def show(chromium: Any, tmp_path: Path) -> Iterator[Shower]:
    """Opens a result's page (or given HTML) from a file: `show(maps, layer=0)` or `show(html=text)`."""
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
        path.write_text(maps.to_html(**options) if maps is not None else str(html), encoding="utf-8")
        window = chromium.new_context(
            viewport={"width": width, "height": 1000}, accept_downloads=True, **(context or {})
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
