"""Pages of token maps that are no single layer's, and of averages: what they name, and what they leave out."""

import dataclasses
import json
import re
from typing import Any

import pytest
import torch

from tests.page.screen import Builder, Shower
from tl_ffblock.errors import InputError
from tl_ffblock.results.average import average
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.views.maps import token_maps_page


def shares(*, layered: bool = False) -> TokenMaps:
    """Shares of the last two of four tokens; the largest goes from `b` to `d`."""
    values = torch.tensor([[0.5, -1.0, 0.0, 0.0], [0.25, 3.0, -0.5, 0.0]])[None, None]
    return TokenMaps(
        values=values,
        tokens=("a", "b", "c", "d"),
        layers=(0,),
        channels=("share",),
        queries=(2, 3),
        causal=True,
        signed=True,
        kind="attributions of the next token's logit",
        layered=layered,
    )


def test_a_page_of_the_whole_model_speaks_of_no_layer(show: Shower) -> None:
    """Neither in the headline nor in card, facts, caption or file name; controls with one choice are not there."""
    screen = show(html=shares().to_html())
    screen.settle()
    body = screen.page.locator("body").inner_text()
    assert screen.page.locator("#headline").inner_text() == "“b” brings +3 to “d”."
    assert "ayer" not in body
    assert "what the column's token brings to the row's (attributions of the next token's logit)" in body
    assert screen.page.locator("#sort").input_value() == "share", (
        "nothing changed, so that pairs are not sorted by change"
    )
    assert screen.page.locator("#sort [value=change]").is_hidden()
    for name in ("#where", "#scope-group", "#ref-group", "#layer-group"):
        assert not screen.page.locator(name).is_visible()
    screen.page.locator("#figure-mode").click()
    screen.settle()
    assert "”: attributions of the next token's logit, share." in screen.page.locator("#caption").inner_text()
    name, _ = screen.save("csv")
    assert "layer" not in name and "__" not in name
    assert not screen.problems


@pytest.mark.parametrize(
    ("signed", "given", "expected"),
    [
        (True, {}, (9, "head 1")),
        (True, {"layer": 5}, (5, "head 0")),
        (True, {"channel": "head 0"}, (5, "head 0")),
        (False, {}, (5, "head 0")),
    ],
)
def test_signed_maps_open_at_their_largest_cell(signed: bool, given: dict[str, Any], expected: tuple[int, str]) -> None:
    """Of the layers and channels that may be chosen; others at the first layer and channel."""
    values = torch.full((2, 2, 3, 3), 0.1).tril()
    values[0, 0, 2, 1], values[1, 1, 2, 0] = 2.0, 5.0 if not signed else -5.0
    maps = TokenMaps(values, ("a", "b", "c"), (5, 9), ("head 0", "head 1"), (0, 1, 2), True, signed=signed)
    start = token_maps_page({"": maps}, **given).start
    assert (start.layer, start.scope) == expected


def test_an_average_keeps_whether_its_numbers_are_of_layers() -> None:
    """Means of shares of logits are of no layer either; such maps have no mean with a layer's."""
    assert not average([shares(), shares()]).token_maps().layered
    assert average([shares(layered=True)]).token_maps().layered
    with pytest.raises(InputError, match="different layered"):
        average([shares(), shares(layered=True)])


def test_an_average_names_its_rows_as_they_were_named(show: Shower, build: Builder) -> None:
    """By names, whose tokens the page has for its tooltips; it opens behind the feed-forward and says of how many prompts it is."""
    maps = [build(4, tokens=("a", " Mary", "b", " to")), build(4, tokens=("a", " Anna", "b", " to"))]
    page = average(maps, {"IO": 1, "END": -1}).to_html(view="maps")
    (details,) = re.findall(r'"details":(\[.*?\])', page)
    assert json.loads(details) == ["·Mary|·Anna", "·to"]
    screen = show(html=page)
    screen.settle()
    assert screen.page.locator("#words-read").inner_text() == "“IO END”"
    assert screen.selection()["scope"] == "AtbLnFf"
    assert "Mean of 2 prompts" in screen.page.locator("#certificate").inner_text()
    by_position = average([build(4), build(4) * 2.0]).to_html()
    assert '"t0"' in by_position and '"0:t0"' not in by_position


def test_named_positions_have_no_numbers(show: Shower, build: Builder) -> None:
    """On a page of an average by name the first column is no position 0; one by position keeps its numbers."""
    maps = [build(4, tokens=("a", " Mary", "b", " to")), build(5, tokens=("a", "c", " Anna", "b", " to"))]
    screen = show(html=average(maps, {"IO": [1, 2], "END": -1}).to_html())
    screen.settle()
    assert "position" not in screen.page.locator(".card").first.inner_text()
    assert "position" not in screen.page.locator("#sentence-words").inner_text()
    titles = [
        node.get_attribute("title") or "" for node in screen.page.locator("#sentence .chip, #pair-list button").all()
    ]
    assert titles and not any("position" in title for title in titles)
    screen = show(html=average([build(4), build(4) * 2.0]).to_html(view="maps"))
    screen.settle()
    assert "from position" in screen.page.locator(".card").first.inner_text()


def test_an_average_of_what_heads_write_says_so(show: Shower) -> None:
    """Its headline is of the largest cell, each cell says its interval, and no token takes from another."""
    values = torch.tensor([[[0.5, -1.0, 0.25]], [[0.5, 3.0, 0.25]]])[None]
    maps = [
        TokenMaps(values * factor, ("a", "b", "c"), (9,), ("head 0", "head 1"), (2,), False, column="written at")
        for factor in (1.0, 2.0)
    ]
    screen = show(html=average(maps, {"IO": 1, "END": -1}).to_html())
    body = screen.page.locator("body")
    assert screen.page.locator("h1").inner_text() == "Layer 9, head 1: +4.5 written at “IO”"
    assert screen.page.locator("section h2").all_inner_texts() == ["Written at IO", "Written at END"]
    ordered = show(html=average(maps, {"END": 0, "IO": 1}).to_html()).page.locator("section h2").all_inner_texts()
    assert ordered == ["Written at IO", "Written at END"], "the largest first"
    drawing = screen.page.locator(".share-map svg").first
    for _ in range(2):
        drawing.press("ArrowRight")
    said = screen.page.locator(".share-said").first.inner_text()
    assert said == "layer 9 · head 1: +4.5 · low +3 · high +6"
    assert (
        "Mean of 2 prompts" in body.inner_text()
        and "interval (bootstrap over prompts). IO:b, END:c." in body.inner_text()
        and "takes" not in body.inner_text()
    )
    assert not screen.problems


def test_a_continuation_has_no_cell_from_a_token_to_itself(show: Shower) -> None:
    """It is no zero: in the headline, in the tooltip and in the file there is no number."""
    maps = dataclasses.replace(shares(), values=shares().values.where(torch.ones(2, 4).tril(1).bool(), torch.nan))
    screen = show(html=maps.to_html())
    screen.settle()
    screen.go("#to=2&from=2")
    assert "these maps have no such cell" in screen.page.locator("#headline").inner_text()
    assert screen.hover("only", 0, 2, (2, 4))["numbers"]["value"] == ["–"]
    assert screen.colour("only", 0, 2, (2, 4)) != screen.colour("only", 1, 2, (2, 4))
    _, written = screen.save("csv")
    lines = [line for line in written.decode().splitlines() if '"c",2,"c"' in line]
    assert len(lines) == 1 and lines[0].endswith('"c",')


def test_hostile_names_are_text(show: Shower, build: Builder) -> None:
    """A name of a position reaches the page as tokens do."""
    name = "<img src=x onerror=\"document.title='owned'\">"
    html = average([build(3)], {name: 0, "b": 1}).to_html()
    screen = show(html=html)
    screen.settle()
    assert screen.page.locator("h1 img").count() == 0 and screen.page.title() != "owned"
    assert json.dumps(name)[1:-1] in html or "\\u003c" in html
