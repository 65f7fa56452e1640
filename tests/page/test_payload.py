"""What Python puts into a page."""

import base64
import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import torch

from tests.page.screen import Builder
from tl_ffblock.errors import InputError
from tl_ffblock.page import PageData, PageStart
from tl_ffblock.page.document import to_json
from tl_ffblock.page.numbers import PRECISION, pack
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.measures import contextualization_change
from tl_ffblock.results.page_data import page_data


def unpack(text: str) -> np.ndarray:
    """The inverse of `pack`, as the page does it."""
    low = np.frombuffer(base64.b64decode(text), np.uint8).reshape(-1, 3)
    return np.pad(low, ((0, 0), (1, 0))).copy().view("<f4").reshape(-1)


def sent(maps: ContributionMaps) -> dict[str, Any]:
    """The payload of a result's page, through JSON and back."""
    return json.loads(to_json(page_data(maps).payload()))


def test_packed_numbers_keep_four_digits() -> None:
    """Packing changes no number by more than 2**-16 of itself, at any size and sign."""
    numbers = torch.randn(5000, generator=torch.Generator().manual_seed(0)) * 10 ** torch.linspace(-30, 30, 5000)
    error = np.abs(unpack(pack(numbers)) / numbers.numpy() - 1)
    assert error.max() <= PRECISION * (1 + 1e-6)


def test_packing_keeps_the_special_numbers() -> None:
    """Zero, NaN and the infinities come back as they were."""
    special = torch.tensor([0.0, torch.nan, torch.inf, -torch.inf, 1.0, -2.0])
    np.testing.assert_array_equal(unpack(pack(special)), special.numpy())


def test_a_causal_map_sends_reachable_cells_only(build: Builder) -> None:
    """Three bytes for each cell on or below the diagonal, in reading order."""
    maps = build(5)
    cells = unpack(sent(maps)["values"]["AtbLn"][1])
    kept = maps["AtbLn", 1][torch.ones(5, 5).tril().bool()]
    np.testing.assert_allclose(cells, kept.numpy(), rtol=1.6e-5)


def test_the_page_opens_where_feed_forward_changed_most(build: Builder) -> None:
    """Default: the feed-forward step, at the layer with its largest contextualization change."""
    maps = build(7, layers=(2, 3, 5))
    best = maps.layers[int(contextualization_change(maps, "AtbLn", "AtbLnFf").argmax())]
    assert sent(maps)["start"] == {"layer": best, "scope": "AtbLnFf"}
    assert sent(build(4, order="parallel"))["start"]["scope"] == "AtbLnFfRes"


def test_one_token_has_no_change_but_a_page(build: Builder) -> None:
    """Where the change is undefined (one cell) it is null, and the page opens at the first layer."""
    read = sent(build(1))
    assert read["changes"]["AtbLnFf"] == [None, None]
    assert read["start"] == {"layer": 0, "scope": "AtbLnFf"}


def test_a_step_without_its_before_scope_is_not_compared(build: Builder) -> None:
    """With a choice of scopes, only steps with both sides present have a before and a change."""
    read = sent(build(4, scopes=("Atb", "AtbLnFf", "AtbLnFfRes")))
    assert [(step["scope"], step["before"]) for step in read["steps"]] == [
        ("Atb", None),
        ("AtbLnFf", None),
        ("AtbLnFfRes", "AtbLnFf"),
    ]
    assert list(read["changes"]) == ["AtbLnFfRes"]


def test_a_difference_compares_no_steps(build: Builder) -> None:
    """A difference of two results has neither before-scopes nor changes."""
    maps = build(4)
    read = sent(maps - maps)
    assert read["signed"] and not read["changes"]
    assert all(step["before"] is None for step in read["steps"])


def test_no_text_can_leave_the_data_block(build: Builder) -> None:
    """Whatever tokens and names hold, the JSON has no angle bracket, ampersand or line separator."""
    hostile = ("</script><script>x=1</script>", "<!--", "&lt;", "\u2028", "\ud800", "a\u202eb")
    text = to_json(page_data(build(6, tokens=hostile, model="</script>")).payload())
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text)["tokens"][0] == hostile[0]


@pytest.mark.parametrize(("argument", "value"), [("layer", 7), ("layer", -3), ("scope", "AtbFf")])
def test_unknown_places_are_refused(build: Builder, argument: str, value: object) -> None:
    """A layer or scope that the result does not hold is an InputError naming what there is."""
    with pytest.raises(InputError, match=rf"{argument}.*{value}.*these maps"):
        page_data(build(3), **{argument: value})


def test_a_layer_to_open_at_is_counted_from_the_end(build: Builder) -> None:
    """`layer=-1` opens at the last layer held."""
    assert page_data(build(3, layers=(1, 5)), layer=-1).start == PageStart(5, "AtbLnFf")


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"tokens": ("a", "b")}, r"values of Attn have shape \(2, 3, 3\), the page's labels say .* \(2, 3, 2\)"),
        ({"layers": (0,)}, "values of Attn have shape"),
        ({"start": PageStart(7, "Atb")}, "cannot open at PageStart"),
        ({"start": PageStart(0, "AtbFf")}, "cannot open at PageStart"),
        ({"values": {}}, "lacks the values of Attn, "),
    ],
)
def test_a_page_that_contradicts_itself_is_refused(build: Builder, change: dict[str, Any], text: str) -> None:
    """Labels must fit the numbers, and the page opens at what it holds."""
    data: PageData = page_data(build(3))
    with pytest.raises(InputError, match=text):
        dataclasses.replace(data, **change)
