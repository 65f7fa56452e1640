"""One selection in every view: clicks, keys, the address, the browser's Back."""

from pathlib import Path

import pytest
import torch

from tests.page.screen import COLLIDING, Builder, Screen, Shower
from tl_ffblock.errors import InputError
from tl_ffblock.interventions.patched import PatchedMaps
from tl_ffblock.results.token_maps import TokenMaps

pytestmark = pytest.mark.browser


def chosen(screen: Screen) -> list[str]:
    """The tokens that the sentence marks: whose sources are shown, and the selected cell's other end."""
    return screen.page.locator(".chip[aria-selected=true] bdi, .chip.cell bdi").all_inner_texts()


def test_back_undoes_and_an_address_opens_the_same_picture(build: Builder, show: Shower) -> None:
    """Controls, marks and drawing agree after Back; a page opened at the address of another shows its very pixels."""
    screen = show(build(9, layers=(0, 2, 5)), layer=0)
    opening, pictures = screen.selection(), screen.pictures()
    screen.choose(layer=5)
    screen.page.wait_for_timeout(750)  # quick changes of one field are one step
    screen.choose(scope="AtbLnFfRes", cells="none", range="all")
    changed, drawn = screen.selection(), screen.pictures()
    assert changed["layer"] == "5" and drawn != pictures
    address = screen.page.evaluate("location.hash")
    screen.page.reload()
    screen.settle()
    assert (screen.selection(), screen.pictures()) == (changed, drawn)
    again = show(build(9, layers=(0, 2, 5)), layer=0, address=address)
    assert (again.selection(), again.pictures()) == (changed, drawn)
    for _ in range(4):
        screen.page.go_back()
        screen.page.wait_for_timeout(60)
        screen.settle()
    assert (screen.selection(), screen.pictures()) == (opening, pictures)
    screen.page.go_forward()
    screen.page.wait_for_timeout(60)
    screen.settle()
    assert screen.selection()["layer"] == "5"
    assert screen.problems == []


def test_what_is_kept_from_one_selection_to_the_next_is_what_a_new_page_shows(build: Builder, show: Shower) -> None:
    """A page taken from address to address, each field changed once or more, stands as one that is opened there."""
    tokens = ("[CLS]", "un", "##do", "it", "now", "[SEP]")
    maps = build(6, layers=(0, 2, 5), tokens=tokens, order="post_ln", causal=True)
    runs = PatchedMaps(*(maps * factor for factor in (1.0, 2.0, 3.0)))
    addresses = [
        "#to=4&from=2&layer=2&each=1",
        "#to=3&from=1&layer=5&scope=AtbFf&ref=Attn&each=1&range=percentile",
        "#to=3&from=1&scope=AtbFf&ref=&cells=row&root=1&neuron=3&pairs=token&mass=50&find=un",
        "#to=5&from=4&scope=AtbFf&ref=AtbFf&run=0&refRun=1&cells=none&range=all&words=1",
        "#to=5&from=4&read=column&hide=special&zoom=1-4,0-3&sort=distance&panel=after",
        "#to=5&from=3&read=column&hide=special&zoom=1-4,0-3&sort=share&panel=after&layer=0",
    ]
    screen = show(html=runs.to_html(layer=0, scope="Atb"))
    screen.settle()
    for address in addresses:
        screen.go(address)
        again = show(html=runs.to_html(layer=0, scope="Atb"), address=address)
        again.settle()
        assert screen.places() == again.places(), address
    assert screen.problems == []


def test_a_click_anywhere_selects_everywhere(build: Builder, show: Shower) -> None:
    """Cell, token, rail, band of the overview, the list: each sets its field, and all others show it."""
    maps = build(7, layers=(0, 3, 4), causal=False)
    screen = show(maps, layer=0)
    screen.page.mouse.click(*screen.point("after", 4, 1, (7, 7)))
    screen.settle()
    assert set(chosen(screen)) == {"t4", "t1"}
    assert "the share of “t1” in other tokens' contributions to “t4”" in screen.page.locator("#headline").inner_text()
    screen.page.locator(".chip").nth(5).click()
    screen.settle()
    assert set(chosen(screen)) == {"t5", "t1"}
    screen.page.locator("#rail rect[data-layer='3'][data-channel=AtbLn]").first.click()
    screen.settle()
    assert screen.selection() | {"range": "", "cells": ""} == dict(
        scope="AtbLn", ref="Atb", layer="3", cells="", range=""
    )
    screen.page.locator("#views button", has_text="Overview").click()
    screen.settle()
    screen.page.locator(".logit [data-share='2,3']").click(force=True)
    screen.settle()
    assert screen.selection()["layer"] == "4" and set(chosen(screen)) == {"t5", "t3"}
    screen.page.locator("#views button", has_text="Maps").click()
    screen.settle()
    screen.page.locator(".pairs button").first.click()
    screen.settle()
    line = screen.page.locator(".pairs tr.current button").inner_text()
    assert set(chosen(screen)) == set(line.split(" → "))
    screen.page.locator("#read").click()
    screen.settle()
    words = screen.page.locator("#sentence-words").inner_text()
    assert words.startswith("Destinations of “")
    assert screen.problems == []


def test_the_list_of_pairs_shows_distances_and_saves_all_cells(build: Builder, show: Shower) -> None:
    """Sorted by distance it says how far apart two tokens are; its button saves the maps' table whatever view is seen."""
    screen = show(build(8, causal=False), layer=0)
    heads = screen.page.locator(".pairs th")
    assert "distance" not in heads.all_inner_texts()
    screen.choose(sort="distance")
    assert heads.nth(1).inner_text() == "distance"
    distances = [int(text) for text in screen.page.locator(".pairs td:nth-child(2)").all_inner_texts()]
    assert distances == sorted((abs(r - c) for r in range(8) for c in range(8) if r != c), reverse=True)[:40]
    assert screen.page.locator("#pairs-note").inner_text() == "the first 40 of 56"
    with screen.page.expect_download() as download:
        screen.page.locator("#pairs-csv").click()
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert sum(',"token",' in line for line in lines) == 64
    assert screen.problems == []


@pytest.mark.parametrize("width", [380, 1000, 1400])
def test_labels_of_many_layers_keep_their_distance(build: Builder, show: Shower, width: int) -> None:
    """Of thirty layers no label lies over another, in the rail and in the overview, whichever layer is selected."""
    screen = show(build(12, layers=range(30)), width=width, layer=15)
    for layer in (15, 16, 17, 29):
        screen.choose(layer=layer)
        assert screen.page.evaluate(COLLIDING, ".rail > svg") == [], layer
        screen.go(f"#layer={layer}&view=overview")
        assert screen.page.evaluate(COLLIDING, ".logit > svg") == [], layer
        screen.go(f"#layer={layer}")


def test_the_keyboard_does_it_all(build: Builder, show: Shower) -> None:
    """Arrows walk cells, Enter selects; arrows move in the sentence and the rail; search jumps; focus stays."""
    screen = show(build(8, layers=(0, 1, 2), causal=False), layer=0)
    keys = screen.page.keyboard
    screen.page.locator(".panel[data-role=before]").focus()
    for key in ["ArrowUp"] * 8 + ["ArrowLeft"] * 8 + ["ArrowDown", "ArrowDown", "ArrowRight"]:
        keys.press(key)
    assert screen.tooltip()["tokens"] == ["t2 (position 2)", "t1 (position 1)"]
    keys.press("Enter")
    screen.settle()
    assert set(chosen(screen)) == {"t2", "t1"}
    screen.page.locator("#sentence").focus()
    keys.press("End")
    screen.settle()
    assert (
        "t7" in chosen(screen) and screen.page.locator("#sentence").get_attribute("aria-activedescendant") == "token-7"
    )
    screen.page.locator(".rail").focus()
    keys.press("ArrowDown")
    screen.settle()
    keys.press("ArrowDown")
    screen.settle()
    assert screen.selection()["layer"] == "2"
    screen.page.locator("#search").fill("T5")
    keys.press("Enter")
    screen.settle()
    assert "t5" in chosen(screen)
    screen.page.locator("h1").click()
    keys.press("]")
    screen.settle()
    assert screen.selection()["scope"] == "AtbLnFfRes"


def test_the_search_is_empty_once_another_token_is_read(build: Builder, show: Shower) -> None:
    """It keeps its text while Enter goes on and while layers change; then a token is clicked."""
    screen = show(build(6, layers=(0, 1, 2), causal=False), layer=0, query=2)
    search, note = screen.page.locator("#search"), screen.page.locator("#search-note")
    search.fill("t4")
    search.press("Enter")
    screen.settle()
    assert (search.input_value(), note.inner_text()) == ("t4", "position 4")
    screen.choose(layer=2)
    assert search.input_value() == "t4"
    screen.page.locator("#sentence .chip", has_text="t1").click()
    screen.settle()
    assert (search.input_value(), note.inner_text()) == ("", "")


def test_a_rectangle_zooms_and_words_join(build: Builder, show: Shower) -> None:
    """A drag shows its cells alone, on the same scale; pieces of words become words; hidden tokens lose their columns."""
    tokens = ("[CLS]", "un", "##do", "it", "now", "[SEP]", "a", "b")
    maps = build(8, tokens=tokens, causal=False, order="post_ln")
    screen = show(maps, layer=0, scope="AtbFf")
    start, end = screen.point("after", 1, 2, (8, 8)), screen.point("after", 3, 5, (8, 8))
    screen.page.mouse.move(*start)
    screen.page.mouse.down()
    screen.page.mouse.move(*end, steps=4)
    screen.page.mouse.up()
    screen.settle()
    tip = screen.hover("after", 0, 3, (3, 4))
    assert tip["tokens"] == ["un (position 1)", "[SEP] (position 5)"]
    screen.page.locator("#whole").click()
    screen.tick("words")
    assert screen.page.locator(".chip bdi").all_inner_texts() == ["[CLS]", "undo", "it", "now", "[SEP]", "a", "b"]
    screen.tick("hide-special")
    assert screen.hover("after", 1, 0, (7, 7))["numbers"]["share of others"][0] == "–"
    assert screen.problems == []


def test_a_touch_shows_numbers(build: Builder, show: Shower) -> None:
    """A tap selects the cell, whose numbers stay in the card after the finger has gone."""
    screen = show(build(5, causal=False), width=400, context={"has_touch": True})
    screen.page.locator(".panel[data-role=after]").scroll_into_view_if_needed()
    screen.page.touchscreen.tap(*screen.point("after", 3, 1, (5, 5)))
    screen.settle()
    assert "t1 → t3" in screen.page.locator("#card h3").first.inner_text()


def test_attention_is_one_more_scope_and_heads_stand_in_the_card(build: Builder, show: Shower) -> None:
    """Maps given beside a result can be shown and compared; any token maps have a page of their own."""
    maps = build(6)
    attention = TokenMaps(
        values=torch.rand(2, 2, 6, 6).tril(),
        tokens=maps.tokens,
        layers=maps.layers,
        channels=("head 0", "head 1"),
        queries=maps.queries,
        causal=True,
        kind="attention",
    )
    screen = show(maps, layer=1, beside=attention)
    screen.choose(ref="attention: head 1", cells="none")
    shown = screen.hover("before", 4, 2, (6, 6))["numbers"]["norm"][0]
    assert float(shown) == pytest.approx(float(attention["head 1", 1][4, 2]), rel=6e-3)
    alone = show(html=attention.to_html(layer=1, channel="head 1"))
    alone.settle()
    assert "the attention weight of the row's token to the column's" in alone.page.locator("#meaning").inner_text()
    assert alone.problems == [] and screen.problems == []


def test_a_page_opens_in_the_view_asked_for(build: Builder, show: Shower) -> None:
    """`view="heads"` opens with lines; where there is nothing that a view could show, it is refused."""
    maps = build(4)
    heads = TokenMaps(
        maps.token_maps().values[:, :2], maps.tokens, maps.layers, ("head 0", "head 1"), maps.queries, True
    )
    screen = show(html=heads.to_html(view="heads"))
    screen.settle()
    assert screen.page.locator(".lines canvas").count() == 1
    for view, lacking in (("heads", "maps by head"), ("all", "maps by head"), ("memories", "a memory's card")):
        with pytest.raises(InputError, match=f'view="{view}": this page lacks {lacking}'):
            maps.to_html(view=view)
