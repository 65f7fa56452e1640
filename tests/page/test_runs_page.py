"""The page of clean, corrupted and patched runs in a real browser with the network off."""

import pytest

from tests.page.screen import Builder, Shower
from tl_ffblock.interventions.patched import PatchedMaps

pytestmark = pytest.mark.browser
TABS = ["clean", "corrupted", "patched", "patched − corrupted", "clean − patched"]


def test_every_tab_draws_its_own_maps(build: Builder, show: Shower) -> None:
    """Five tabs, each a drawn page of its own run or difference; nothing is asked of a network, nothing fails."""
    n = 6
    runs = PatchedMaps(*(build(n, tokens=tuple(f"{name}{i}" for i in range(n))) for name in "abc"))
    for maps, value in ((runs.clean, 11.75), (runs.corrupted, 23.5), (runs.patched, 58.25)):
        maps["Atb"][:, 3, 1] = value
    screen = show(html=runs.to_html(layer=0, scope="Atb"))
    expected = dict(zip(TABS, ["11.75", "23.50", "58.25", "34.75", "−46.50"], strict=True))
    assert screen.page.locator("nav label").all_inner_texts() == TABS
    for number, name in enumerate(TABS):
        screen.page.locator("nav label").nth(number).click()
        frames = screen.page.locator("iframe")
        assert [frame.is_visible() for frame in frames.all()] == [other == number for other in range(len(TABS))]
        inner = screen.page.frame_locator(f"iframe:nth-of-type({number + 1})")
        inner.locator("body[data-state=drawn]").wait_for(timeout=20_000)
        role = "only" if "−" in name else "after"
        panel = inner.locator(f".panel[data-role={role}] .cells")
        panel.scroll_into_view_if_needed()
        box = panel.bounding_box()
        screen.page.mouse.move(box["x"] + 1.5 / n * box["width"], box["y"] + 3.5 / n * box["height"])
        assert expected[name] in inner.locator("#tooltip").inner_text()
    assert all(request.startswith(("file:", "about:")) for request in screen.requests), screen.requests
    assert screen.problems == []
