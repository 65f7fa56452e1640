"""The view of scores: query and key, their products, the sum and its softmax, of one head and one query."""

import dataclasses

import pytest
import torch

from tests.page.screen import Builder, Shower
from tl_ffblock.errors import InputError
from tl_ffblock.page import PageText
from tl_ffblock.results.token_maps import AttentionScores
from tl_ffblock.views import panel_of

HOSTILE = ("<img src=x onerror=window.x=1>", "is", "the", "cat", "</script>")


def made(tokens: tuple[str, ...], layers: tuple[int, ...] = (0, 2), heads: tuple[int, ...] = (0, 3)) -> AttentionScores:
    """Scores of random vectors, causal."""
    generator = torch.Generator().manual_seed(1)
    n = len(tokens)
    query, key = (torch.randn(len(layers), len(heads), n, 8, generator=generator) for _ in range(2))
    scores = (query @ key.transpose(-1, -2) / 8**0.5).masked_fill(torch.ones(n, n).triu(1) > 0, -torch.inf)
    return AttentionScores(
        query=query,
        key=key,
        pattern=scores.softmax(dim=-1),
        scale=(8**-0.5,) * len(layers),
        error=1e-7,
        tokens=tokens,
        layers=layers,
        heads=heads,
        queries=tuple(range(n)),
        causal=True,
        model="tiny",
        value_norms=torch.rand(len(layers), len(heads), n, generator=generator) + 0.5,
    )


@pytest.mark.browser
def test_a_row_of_scores_is_drawn_with_its_terms(show: Shower) -> None:
    """Numbers are those of the result; a dimension is read under the pointer; later keys have no score; a click selects a key."""
    scores = made(HOSTILE)
    screen = show(html=scores.to_html(layer=2), address="#view=scores&to=3&from=1")
    screen.settle()
    screen.page.locator("#figure select").select_option(label="head 3")
    screen.settle()
    assert screen.selection()["scope"] == "head 3"
    words = screen.page.locator(".scores text").all_text_contents()
    row, weights = scores.score[1, 1, 3], scores.pattern[1, 1, 3]
    for key in range(4):
        shown = f"{float(row[key]):+.3g}".replace("-", "−")
        assert any(word.startswith(shown[:4]) for word in words), shown
        assert any(word.startswith(f"{100 * float(weights[key]):.2g}") for word in words)
    assert len([word for word in words if word.endswith("\u00a0%")]) == 4
    assert scores.value_norms is not None and "weight × ‖v W_O‖" in words
    for number in (*scores.value_norms[1, 1, :4].tolist(), *scores.value_weighted[1, 1, 3, :4].tolist()):
        assert any(word.isascii() and word.startswith(f"{number:.3g}"[:4]) for word in words), number
    picture = screen.page.locator(".scores canvas").nth(2).bounding_box()
    screen.page.mouse.move(
        picture["x"] + 2.5 * picture["width"] / 8, picture["y"] + 1.5 * picture["height"] / len(HOSTILE)
    )
    product = float(scores.products(2, 3, 3, 1)[2])
    tip = screen.page.locator("#tooltip").inner_text()
    assert "dimension 2:" in tip and f"{abs(product):.2g}"[:4] in tip
    screen.page.mouse.click(picture["x"] + picture["width"] / 2, picture["y"] + 2.5 * picture["height"] / len(HOSTILE))
    screen.settle()
    assert screen.page.locator(".chip.cell bdi").inner_text() == "the"
    again = show(html=scores.to_html(layer=2), address=screen.page.evaluate("location.hash"))
    again.settle()
    assert screen.places() == again.places()
    screen.page.set_viewport_size({"width": 370, "height": 800})
    screen.page.wait_for_timeout(200)
    screen.settle()
    assert screen.overflow() <= 0 and screen.page.evaluate("window.x") is None
    assert screen.problems == [] and again.problems == []


def test_scores_stand_beside_maps_of_the_same_text(build: Builder, show: Shower) -> None:
    """Of a layer that they do not hold the view says which they have; other texts are refused."""
    maps = build(5, layers=(0, 1, 2), tokens=HOSTILE)
    screen = show(maps, beside=made(HOSTILE), view="scores", layer=1)
    assert "of layers 0, 2 only" in screen.page.locator("#figure").inner_text()
    screen.choose(layer=2)
    assert screen.page.locator(".scores canvas").count() == 3
    assert screen.problems == []
    with pytest.raises(InputError, match="Use the same text for both"):
        build(4, layers=(0, 2)).to_html(beside=made(HOSTILE))


def test_what_is_sent_is_what_there_is() -> None:
    """Precision is told; a result says of itself what it holds."""
    scores = made(tuple("abcd"))
    text = PageText(scores.queries, scores.layers, True, (0, 1, 2, 3))
    (block,) = panel_of(scores, scores.token_maps(), text, str, ()).values()
    assert 0 < block.precision < 1e-3
    assert "softmax of scores = pattern to 1.0e-7" in repr(scores)
    former = dataclasses.replace(scores, value_norms=None)  # of a file of version 0.2
    (without,) = panel_of(former, scores.token_maps(), text, str, ()).values()
    assert block.json.keys() - without.json.keys() == {"value"} and "value_weighted" not in former.to_dataframe()
    with pytest.raises(InputError, match="version 0.2"):
        former.value_weighted  # noqa: B018
    with pytest.raises(InputError, match="Use the same text for both"):
        panel_of(dataclasses.replace(scores, layers=(0, 5)), scores.token_maps(), text, str, ())
