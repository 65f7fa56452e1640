"""What Python puts into a page."""

import base64
import json

import numpy as np
import pytest
import torch


def unpack(text: str) -> np.ndarray:
    """The inverse of `pack`, as the page does it."""
    low = np.frombuffer(base64.b64decode(text), np.uint8).reshape(-1, 3)
    return np.pad(low, ((0, 0), (1, 0))).copy().view("<f4").reshape(-1)


@pytest.fixture
def data(build):
    """The payload of a result, through JSON and back."""
    from tl_ffblock.results.page_data import payload, to_json

    return lambda maps, layer=None, scope=None: json.loads(to_json(payload(maps, layer=layer, scope=scope)))


def test_packed_numbers_keep_four_digits():
    """Packing changes no number by more than 2**-16 of itself, at any size and sign."""
    from tl_ffblock.page.numbers import PRECISION, pack

    numbers = torch.randn(5000, generator=torch.Generator().manual_seed(0)) * 10 ** torch.linspace(-30, 30, 5000)
    error = np.abs(unpack(pack(numbers)) / numbers.numpy() - 1)
    assert error.max() <= PRECISION * (1 + 1e-6)


def test_packing_keeps_the_special_numbers():
    """Zero, NaN and the infinities come back as they were."""
    from tl_ffblock.page.numbers import pack

    special = torch.tensor([0.0, torch.nan, torch.inf, -torch.inf, 1.0, -2.0])
    np.testing.assert_array_equal(unpack(pack(special)), special.numpy())


def test_a_causal_map_sends_reachable_cells_only(build, data):
    """Three bytes for each cell on or below the diagonal, in reading order."""
    maps = build(5)
    sent = unpack(data(maps)["values"]["AtbLn"][1])
    kept = maps["AtbLn", 1][torch.ones(5, 5).tril().bool()]
    np.testing.assert_allclose(sent, kept.numpy(), rtol=1.6e-5)


def test_the_page_opens_where_feed_forward_changed_most(build, data):
    """Default: the feed-forward step, at the layer with its largest contextualization change."""
    from tl_ffblock.results.measures import contextualization_change

    maps = build(7, layers=(2, 3, 5))
    best = maps.layers[int(contextualization_change(maps, "AtbLn", "AtbLnFf").argmax())]
    assert data(maps)["start"] == {"layer": best, "scope": "AtbLnFf"}
    assert data(build(4, order="parallel"))["start"]["scope"] == "AtbLnFfRes"


def test_one_token_has_no_change_but_a_page(build, data):
    """Where the change is undefined (one cell) it is null, and the page opens at the first layer."""
    sent = data(build(1))
    assert sent["changes"]["AtbLnFf"] == [None, None]
    assert sent["start"] == {"layer": 0, "scope": "AtbLnFf"}


def test_a_step_without_its_before_scope_is_not_compared(build, data):
    """With a choice of scopes, only steps with both sides present have a before and a change."""
    sent = data(build(4, scopes=("Atb", "AtbLnFf", "AtbLnFfRes")))
    assert [(step["scope"], step["before"]) for step in sent["steps"]] == [
        ("Atb", None),
        ("AtbLnFf", None),
        ("AtbLnFfRes", "AtbLnFf"),
    ]
    assert list(sent["changes"]) == ["AtbLnFfRes"]


def test_a_difference_compares_no_steps(build, data):
    """A difference of two results has neither before-scopes nor changes."""
    maps = build(4)
    sent = data(maps - maps)
    assert sent["signed"] and not sent["changes"]
    assert all(step["before"] is None for step in sent["steps"])


def test_no_text_can_leave_the_data_block(build):
    """Whatever tokens and names hold, the JSON has no angle bracket, ampersand or line separator."""
    from tl_ffblock.results.page_data import payload, to_json

    hostile = ("</script><script>x=1</script>", "<!--", "&lt;", "\u2028", "\ud800", "a\u202eb")
    text = to_json(payload(build(6, tokens=hostile, model="</script>"), layer=None, scope=None))
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text)["tokens"][0] == hostile[0]


@pytest.mark.parametrize(("argument", "value"), [("layer", 7), ("scope", "AtbFf")])
def test_unknown_places_are_refused(build, argument, value):
    """A layer or scope that the result does not hold is an InputError naming what there is."""
    from tl_ffblock.errors import InputError
    from tl_ffblock.page import page

    with pytest.raises(InputError, match=f"{argument}=.*these maps hold"):
        page(build(3), **{argument: value})
