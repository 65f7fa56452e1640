"""Targets and numbers by component in a browser: hostile tokens, a chosen row, files, no request and no overflow."""

import re
from dataclasses import replace

import pytest
import torch

from tests.integration.test_results import made
from tests.page.screen import Screen, Shower
from tests.page.test_scores import made as scores
from tl_ffblock.attribution import Attribution, ContinuationAttribution
from tl_ffblock.numerals import significant, typographic
from tl_ffblock.page import NumbersBlock, numbers_page, page, shares_map
from tl_ffblock.results.tokens import visible

pytestmark = pytest.mark.browser

HOSTILE = ("</script><script>window.x=1</script>", "<img src=x onerror=window.x=1>", "\n", "", "\u05e9", "${alert(1)}")
N, LAYERS, HEADS = len(HOSTILE), 3, 2


def attribution(**changes: object) -> Attribution:
    """Random shares of hostile tokens; without edges, so that no maps of tokens are on its page."""
    draw = torch.Generator().manual_seed(0)
    fields = {
        "labels": HOSTILE,
        "target": "<b onclick=x>",
        "rules": "path",
        "value": 2.5,
        "first_order": 2.5,
        "tokens": torch.randn(N, generator=draw),
        "positions": torch.zeros(N),
        "token_types": torch.zeros(N),
        "residual": torch.randn(LAYERS + 1, N, generator=draw),
        "bias_names": ("blocks.0.<i>b",),
        "bias_layers": (0,),
        "bias_shares": torch.randn(1, N, generator=draw),
        "edits": {},
        "edit_layers": {},
        "parts": {
            "heads": torch.randn(LAYERS, HEADS, N, generator=draw),
            "neurons.1": torch.randn(N, 5, generator=draw),
        },
        "model": "<u>",
    }
    return Attribution(**(fields | changes))


PIXEL = """async ([row, column]) => {
    const image = new Image();
    image.src = document.querySelector(".share-map svg image").getAttribute("href");
    await image.decode();
    const pen = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height }).getContext("2d");
    pen.drawImage(image, 0, 0);
    return Array.from(pen.getImageData(column, row, 1, 1).data);
}"""
"""The colour of a cell of the first map."""


def opened(show: Shower, html: str, width: int = 1400, view: str = "") -> Screen:
    """The page, drawn, in one of its views."""
    screen = show(html=html, width=width)
    screen.settle()
    if view:
        screen.see(view)
    return screen


def number(text: str) -> float:
    """As the page writes it."""
    return float(text.replace("\u2212", "-").replace("+", ""))


@pytest.mark.parametrize("width", [380, 1400])
def test_the_page_shows_the_shares_and_runs_nothing_of_the_tokens(show: Shower, width: int) -> None:
    """Every token is text with its own share; a head says where it writes most; nothing is requested, nothing is too wide."""
    result = attribution()
    screen = opened(show, result.to_html(), width)
    chips = screen.page.locator(".shared .chip")
    assert chips.locator("bdi").all_inner_texts() == [visible(token) for token in HOSTILE]
    shown = [number(text) for text in chips.locator("span").all_inner_texts()]
    assert shown == pytest.approx(result.tokens.tolist(), rel=6e-3)
    assert screen.page.locator("h1").inner_text() == "What makes the <b onclick=x>? +2.5"
    assert screen.overflow() <= 0
    screen.see("numbers")
    screen.page.locator(".share-map svg").first.focus()
    screen.page.keyboard.press("ArrowDown")
    screen.page.keyboard.press("ArrowRight")
    said = screen.page.locator(".share-said").first.inner_text()
    layer, head = LAYERS - 1, 1
    strongest = HOSTILE[int(result.heads[layer, head].abs().argmax())]
    assert said.startswith(f"layer {layer} · head {head}: ")
    assert number(said.split(": ")[1].split(" ")[0]) == pytest.approx(float(result.heads[layer, head].sum()), rel=6e-3)
    assert f"at {visible(strongest)}" in said
    assert screen.page.evaluate("window.x") is None
    assert screen.page.locator("img, b, u, i:has(i), i:not(:empty), main script").count() == 0
    assert screen.overflow() <= 0
    assert screen.problems == []
    assert len(screen.requests) == 1


def test_equal_tokens_are_told_apart(show: Shower) -> None:
    """By position, on axes and in tables; both axes of a map say what they count."""
    result = attribution(labels=(" John", "b", " John", "c", "d", "e"))
    result = replace(result, parts={**result.parts, "mlps": torch.randn(LAYERS, N)})
    screen = opened(show, result.to_html(), view="numbers")
    names = ["·John@0", "b", "·John@2", "c", "d", "e"]
    drawn = screen.page.locator(".share-map svg").nth(1).locator("text").all_text_contents()
    assert {*names, "layer ↓", "position →"} <= set(drawn)
    shares = result.neurons(1).abs()
    position, neuron = divmod(int(shares.argmax()), shares.shape[1])
    first = screen.page.locator(".share-table", has_text="Neurons").locator("bdi").first.inner_text()
    assert first == f"layer 1, neuron {neuron}, at {names[position]}"


def test_a_share_is_rounded_once(show: Shower) -> None:
    """3.554711 is +3.55 on every page as in what is printed: rounded to four digits first it would be +3.56."""
    tokens = torch.full((N,), 3.554711)
    parts = {"mlps": tokens.expand(LAYERS, N)}
    result = attribution(tokens=tokens, residual=tokens.expand(LAYERS + 1, N), parts=parts)
    screen = opened(show, result.to_html())
    assert set(screen.page.locator(".shared .chip span").all_inner_texts()) == {"+3.55"}
    screen.see("numbers")
    screen.page.locator(".share-map svg").first.focus()
    screen.page.keyboard.press("ArrowDown")
    assert screen.page.locator(".share-said").first.inner_text().endswith(": +3.55")
    assert "+3.55" in repr(result)


def test_what_sums_to_what_stands_where_heads_and_neurons_are(show: Shower) -> None:
    """Heads and neurons say what all of them sum to and that this is no share; of how many neurons the largest are named."""
    result = attribution()
    screen = opened(show, result.to_html(), view="numbers")
    heads = (
        screen.page.locator(".number-blocks > section", has_text="Attribution of each head")
        .locator(".note")
        .inner_text()
    )
    neurons = screen.page.locator(".share-table", has_text="Neurons")
    assert f"Sum of all: {typographic(significant(float(result.heads.sum())))}." in heads
    assert f"All of them sum to {typographic(significant(float(result.neurons(1).sum())))}." in neurons.inner_text()
    assert neurons.locator("h2").inner_text() == f"Neurons, each at its position: the 20 largest of {5 * N}"
    assert all("another decomposition of the same total" in words for words in (heads, neurons.inner_text()))


def continuation(**changes: object) -> ContinuationAttribution:
    """Four tokens after a prompt of two; what flows sums to each value at every layer."""
    nan = torch.nan
    shares = torch.tensor(
        [[1.0, 2, nan, nan, nan, nan], [-1, 3, 4, nan, nan, nan], [5, 0, 7, 8, nan, nan], [1, 1, 1, 1, 1, nan]]
    )
    zeros, values = torch.zeros(4), shares.nansum(dim=1)
    residual = shares.nan_to_num()[:, None].repeat(1, LAYERS + 1, 1)
    residual[2, 1] = torch.tensor([6.0, 0, 6, 8, 0, 0])
    heads, constants = torch.ones(4, LAYERS, HEADS), torch.zeros(4, LAYERS + 2)
    fields = {"residual": residual, "heads": heads, "constants": constants} | changes
    return ContinuationAttribution(HOSTILE, 2, "logit", "path", values, values, shares, zeros, zeros, zeros, **fields)


def test_a_token_of_a_continuation_opens_its_overview(show: Shower) -> None:
    """Chosen in the text, or by its row of the matrix: the question, what each earlier token brings, and the flow of that token."""
    screen = opened(show, continuation().to_html())
    chips = screen.page.locator(".shared .chip")
    said = lambda: chips.locator("span").all_inner_texts()  # noqa: E731
    assert said() == ["+1", "+2", "this", "why?", "why?", "why?"]
    assert screen.page.locator("h1").inner_text() == f"Why “{visible(HOSTILE[2])}”? +3 logits"
    hatched = screen.page.locator(".logit > svg > rect[fill^='url(#not']")
    assert hatched.count() == 4, "what was not read yet"
    assert screen.page.locator("main select:visible").count() == 0, "tokens are chosen in the text"
    chips.nth(4).click()
    screen.settle()
    assert screen.page.locator("h1").inner_text() == f"Why “{visible(HOSTILE[4])}”? +20 logits"
    assert said() == ["+5", "0", "+7", "+8", "this", "why?"]
    assert hatched.count() == 2
    hatched.first.hover(force=True)
    assert screen.page.locator("#tooltip").inner_text().endswith("after the target's position")
    _, table = screen.save("csv")
    assert [line for line in table.decode().splitlines() if '"residual stream","1"' in line and line.endswith(",6")]
    assert "contributes +8 of 20 logits" in screen.page.locator("#card").inner_text()
    screen.page.go_back()
    screen.settle()
    assert said()[2] == "this", "Back undoes the choice"
    screen.see("numbers")
    picture = screen.page.locator(".share-map svg image").bounding_box()
    own, zero = (screen.page.evaluate(PIXEL, [2, column]) for column in (4, 1))
    assert own != zero, "what cannot be is no zero"
    screen.page.mouse.move(picture["x"] + 4.5 * picture["width"] / 6, picture["y"] + 2.5 * picture["height"] / 4)
    assert screen.page.locator(".share-said").first.inner_text().endswith(": –")
    corner = screen.page.locator(".share-names text", has_text="target ↓").bounding_box()
    assert corner["x"] >= screen.page.locator(".share-map svg").bounding_box()["x"]
    screen.page.mouse.click(picture["x"] + 5, picture["y"] + 1.5 * picture["height"] / 4)
    screen.settle()
    assert said() == ["−1", "+3", "+4", "this", "why?", "why?"]
    assert screen.problems == []
    older = opened(show, continuation(residual=None, heads=None, constants=None).to_html())
    assert older.page.locator(".share-map").count() == 1 and older.problems == [], "files without flows have the matrix"


def test_numbers_are_saved_as_files(show: Shower) -> None:
    """CSV has every cell and line; SVG and PNG have the maps."""
    result = attribution()
    screen = opened(show, result.to_html(), view="numbers")
    screen.page.locator("#figure-mode").click()
    lines = screen.save("csv")[1].decode().splitlines()
    assert lines[0] == '"part","row","column","value"'
    assert sum(line.startswith('"Heads"') for line in lines) == LAYERS * HEADS
    assert b"Heads" in screen.save("svg")[1]
    assert screen.save("png")[1].startswith(b"\x89PNG")
    assert screen.problems == []


@pytest.mark.parametrize("width", [380, 1280, 1800, 2200])
@pytest.mark.parametrize("count", [2, 5])
def test_every_column_of_a_map_is_in_sight(show: Shower, width: int, count: int) -> None:
    """Maps of fifteen tokens are drawn for the columns that they are laid out in, however wide the window."""
    places = tuple(f" word{at}@{at}" for at in range(15))
    values = torch.randn(12, 15, generator=torch.Generator().manual_seed(0))
    rows = ("layer", tuple(map(str, range(12))))
    maps = tuple(shares_map(f"map {at}", "", rows, ("position", places), values) for at in range(count))
    screen = opened(show, page(numbers_page("tiny", NumbersBlock("many", maps=maps)), circuitsvis=False), width)
    beyond = "Array.from(document.querySelectorAll('.share-map'), (host) => host.scrollWidth - host.clientWidth)"
    assert max(screen.page.evaluate(beyond)) <= 0 and screen.overflow() <= 0
    blocks = screen.page.locator(".number-blocks > section")
    tops = {round(blocks.nth(at).bounding_box()["y"]) for at in range(count)}
    assert len(tops) < count or width < 1100, "beside each other where there is room"


def test_numbers_without_signs_have_one_colour_and_no_plus(show: Shower) -> None:
    """A logit lens: probabilities begin at zero, and are as dark as they are large; scores of heads have no sign either."""
    screen = opened(show, made("LogitLens").to_html())
    ends = screen.page.locator(".logit svg text:has-text('%')").all_text_contents()
    assert [end.replace("\u00a0", " ") for end in ends] == ["100 %", "0 %", "50 %"]
    assert not re.search(r"[+−]\d", screen.page.locator(".listed").inner_text())
    screen = opened(show, made("AttentionHeadScores").to_html())
    assert not re.search(r"[+−]\d", screen.page.locator("#why").inner_text()) and screen.problems == []


def test_correlations_and_falls_of_a_masking_test_have_scales_of_their_own(show: Shower) -> None:
    """Spearman's rho at most 1, logits as large as they are; no heading has an interval that is not there."""
    result = made("Faithfulness")
    screen = opened(show, result.to_html())
    ends = {}
    for title, measures in (("Rank correlation", ["correlation"]), ("Fall of the target", ["MoRF", "LeRF", "area"])):
        frame = result.to_dataframe()
        ends[title] = frame[frame["measure"].isin(measures)]["value"].abs().max()
        said = (
            screen.page.locator(f".number-blocks > section:has(h2:text-is('{title}'))")
            .locator(".share-scale")
            .inner_text()
        )
        assert number(said.split("+")[1]) == pytest.approx(ends[title], rel=6e-3)
    assert len(set(ends.values())) == 2
    assert "nan" not in screen.page.locator("body").inner_text() and "nan" not in str(result)


def test_what_stands_over_the_rail_is_whole(show: Shower) -> None:
    """Of few heads, whose columns are narrower than the words above them."""
    tokens = ("a", "b", "c", "d")
    screen = opened(show, scores(tokens).to_html(layer=2))
    beyond = """() => {
        const rail = document.querySelector(".rail svg");
        return Math.max(...Array.from(rail.querySelectorAll("text"), (text) => text.getBoundingClientRect().right - rail.getBoundingClientRect().right));
    }"""
    assert screen.page.evaluate(beyond) <= 0
