"""Averages of shares summed over positions are numpy's of the attributions' own, whatever the prompts' lengths."""

import dataclasses
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from tests import tiny
from tests.tolerances import ALGEBRA
from tl_ffblock.numerals import significant
from tl_ffblock.results.intervals import mean_interval

LENGTHS = (4, 7, 5)


@pytest.fixture(scope="module")
def model() -> Any:
    """A float64 GPT-2, which has biases."""
    return tiny.bridge("gpt2", dtype=torch.float64)


@pytest.fixture(scope="module")
def several(ffb: ModuleType, model: Any) -> list[Any]:
    """Attributions of prompts of different lengths."""
    return [ffb.attribute(model, tiny.tokens("gpt2", n, seed=n), ffb.logit(7, minus=11)) for n in LENGTHS]


def test_means_are_of_sums_over_positions(ffb: ModuleType, several: list[Any]) -> None:
    """Of every head, neuron and bias; what heads, feed-forwards and biases bring on average is in them whole."""
    heads, neurons, biases = (ffb.average_shares(several, of) for of in ("heads", "neurons", "biases"))
    by_hand = np.stack([result.heads.sum(-1).numpy() for result in several])
    np.testing.assert_allclose(heads.mean, by_hand.mean(axis=0), **ALGEBRA)
    np.testing.assert_allclose(heads.values, by_hand, **ALGEBRA)
    layer = np.mean([result.neurons(1).sum(0).numpy() for result in several], axis=0)
    np.testing.assert_allclose(neurons.mean[1], layer, **ALGEBRA)
    for number, name in enumerate(several[0].bias_names):
        assert float(biases.mean[number]) == pytest.approx(np.mean([result.biases[name] for result in several]))
    expected = mean_interval(torch.from_numpy(by_hand))
    torch.testing.assert_close(heads.interval.low, expected.low)
    torch.testing.assert_close(heads.interval.high, expected.high)


def test_its_table_begins_with_the_largest(ffb: ModuleType, several: list[Any]) -> None:
    """Sorted by size of the mean; a few rows have the numbers that they have among all, and prompts average to them."""
    heads = ffb.average_shares(several)
    table, three, each = heads.to_dataframe(), heads.to_dataframe(3), heads.to_dataframe(3, by_prompt=True)
    assert list(table) == ["layer", "head", "value", "low", "high", "n"]
    assert len(table) == heads.mean.numel() and table["value"].abs().is_monotonic_decreasing
    np.testing.assert_allclose(three.to_numpy(float), table[:3].to_numpy(float), **ALGEBRA)
    for row in table.itertuples():
        assert float(heads.mean[row.layer, row.head]) == row.value
        assert float(heads.interval.low[row.layer, row.head]) == pytest.approx(row.low)
    assert list(each) == ["prompt", "layer", "head", "value"] and len(each) == 3 * len(LENGTHS)
    means = each.groupby(["layer", "head"], sort=False)["value"].mean()
    np.testing.assert_allclose(sorted(means), sorted(three["value"]), **ALGEBRA)
    first = (
        f"L{three['layer'][0]}H{three['head'][0]}  {significant(three['value'][0])}  [{significant(three['low'][0])}, "
    )
    assert first in repr(heads) and "mean of 3 prompts" in repr(heads)
    assert several[0].bias_names[0] in set(ffb.average_shares(several, "biases").to_dataframe()["bias"])


def test_one_prompt_has_no_interval(ffb: ModuleType, several: list[Any]) -> None:
    """It says nothing of others; the mean is its own."""
    alone = ffb.average_shares(several[:1])
    torch.testing.assert_close(alone.mean, several[0].heads.sum(-1))
    assert alone.interval.low.isnan().all()
    assert "nan" not in repr(alone) and "no intervals" in repr(alone)


@pytest.mark.wrong_types
def test_what_has_no_common_mean_is_refused(ffb: ModuleType, model: Any, several: list[Any]) -> None:
    """Other units, rules, models or parts; errors name what differs."""
    tokens = tiny.tokens("gpt2", 5)
    with pytest.raises(
        ffb.errors.InputError, match=r"0 and 1, which differ in quantity: 'logit difference' against 'logit'"
    ):
        ffb.average_shares([several[0], ffb.attribute(model, tokens, ffb.logit(7))])
    with pytest.raises(ffb.errors.InputError, match="differ in rules"):
        ffb.average_shares([several[0], ffb.attribute(model, tokens, ffb.logit(7, minus=11), rules="gradient")])
    with pytest.raises(ffb.errors.InputError, match="one attribution or more"):
        ffb.average_shares(several[0])
    with pytest.raises(ffb.errors.InputError, match="one attribution or more"):
        ffb.average_shares([])
    with pytest.raises(ffb.errors.InputError, match='"heads", "neurons", "biases" or "mlps"'):
        ffb.average_shares(several, "tokens")
    with pytest.raises(ffb.errors.ScopeKeyError, match="ask with"):
        ffb.average_shares([ffb.attribute(model, tokens, ffb.logit(7), of=())])


def test_estimates_of_patching_are_averaged_over_pairs(ffb: ModuleType, model: Any) -> None:
    """Heads, neurons and feed-forwards, summed over positions; attributions have biases and no such estimates, and the two do not mix."""
    clean = torch.stack([tiny.tokens("gpt2", 5, seed=n) for n in (0, 1, 2)])
    corrupted = clean.clone()
    corrupted[:, 2] = 40
    estimates = ffb.attribution_patching(model, clean, corrupted, ffb.logit([7, 8, 9], minus=11))
    assert {result.quantity for result in estimates} == {"logit difference"}
    heads, mlps, neurons = (ffb.average_shares(estimates, of) for of in ("heads", "mlps", "neurons"))
    np.testing.assert_allclose(heads.mean, np.mean([e.heads.sum(-1).numpy() for e in estimates], axis=0), **ALGEBRA)
    np.testing.assert_allclose(mlps.mean, np.mean([e.mlps.sum(-1).numpy() for e in estimates], axis=0), **ALGEBRA)
    np.testing.assert_allclose(
        neurons.mean[1], np.mean([e.neurons(1).sum(0).numpy() for e in estimates], axis=0), **ALGEBRA
    )
    assert list(mlps.to_dataframe()) == ["layer", "value", "low", "high", "n"]
    with pytest.raises(ffb.errors.InputError, match="attributions have biases, these results have not"):
        ffb.average_shares(estimates, "biases")
    attribution = ffb.attribute(model, clean[0], ffb.logit(7, minus=11))
    with pytest.raises(ffb.errors.InputError, match="estimates of patching have mlps, these results have not"):
        ffb.average_shares([attribution], "mlps")
    with pytest.raises(ffb.errors.InputError, match="one attribution or more"):
        ffb.average_shares([attribution, estimates[0]])


def test_neurons_have_the_numbers_of_their_layers(ffb: ModuleType, several: list[Any]) -> None:
    """Where the first layer has no neurons of its own, as a mixture of experts, the others keep their numbers."""
    without = [
        dataclasses.replace(one, parts={name: part for name, part in one.parts.items() if name != "neurons.0"})
        for one in several
    ]
    neurons = ffb.average_shares(without, "neurons")
    assert neurons.places["layer"] == (1, 2)
    for row, layer in enumerate(neurons.places["layer"]):
        by_hand = torch.stack([one.neurons(layer).sum(dim=0) for one in several]).mean(dim=0)
        torch.testing.assert_close(neurons.mean[row], by_hand)
    assert set(neurons.to_dataframe()["layer"]) == {1, 2}
