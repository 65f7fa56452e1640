"""Averages of shares summed over positions are numpy's of the attributions' own, whatever the prompts' lengths."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.attribution.conftest import DIFFERENCE, Refused, assert_refused, double
from tests.tolerances import ALGEBRA
from tl_ffblock.errors import InputError, ScopeKeyError
from tl_ffblock.numerals import significant
from tl_ffblock.result import Results
from tl_ffblock.results.intervals import mean_interval

LENGTHS = (4, 7, 5)


@cache
def several() -> list[Any]:
    """Attributions of prompts of different lengths, by a model that has biases."""
    return [ffb.attribute(double("gpt2"), tiny.tokens("gpt2", n, seed=n), DIFFERENCE) for n in LENGTHS]


@cache
def estimates() -> list[Any]:
    """Estimates of patching of as many pairs."""
    clean = torch.stack([tiny.tokens("gpt2", 5, seed=n) for n in (0, 1, 2)])
    corrupted = clean.clone()
    corrupted[:, 2] = 40
    return ffb.attribution_patching(double("gpt2"), clean, corrupted, ffb.logit([7, 8, 9], minus=11))


@pytest.mark.parametrize("made", [several, estimates])
def test_means_are_of_sums_over_positions(made: Any) -> None:
    """Of every head, neuron, bias and feed-forward; what they bring on average is in them whole."""
    results = made()
    heads, neurons = ffb.average_shares(results), ffb.average_shares(results, "neurons")
    by_hand = np.stack([result.heads.sum(-1).numpy() for result in results])
    np.testing.assert_allclose(heads.mean, by_hand.mean(axis=0), **ALGEBRA)
    np.testing.assert_allclose(heads.values, by_hand, **ALGEBRA)
    expected = mean_interval(torch.from_numpy(by_hand))
    torch.testing.assert_close(heads.interval.low, expected.low)
    torch.testing.assert_close(heads.interval.high, expected.high)
    layer = np.mean([result.neurons(1).sum(0).numpy() for result in results], axis=0)
    np.testing.assert_allclose(neurons.mean[1], layer, **ALGEBRA)
    if made is several:
        biases = ffb.average_shares(results, "biases")
        for number, name in enumerate(results[0].bias_names):
            assert float(biases.mean[number]) == pytest.approx(np.mean([result.biases[name] for result in results]))
        assert results[0].bias_names[0] in set(biases.to_dataframe()["bias"])
    else:
        mlps = ffb.average_shares(results, "mlps")
        np.testing.assert_allclose(mlps.mean, np.mean([e.mlps.sum(-1).numpy() for e in results], axis=0), **ALGEBRA)
        assert list(mlps.to_dataframe()) == ["layer", "value", "low", "high", "n"]
        assert {result.quantity for result in results} == {"logit difference"}


PLACES = {"IO": [1, 3, 2], "S": 2, "END": -1}
AT = [[1, 2, LENGTHS[0] - 1], [3, 2, LENGTHS[1] - 1], [2, 2, LENGTHS[2] - 1]]
"""The same, by prompt."""
FURTHER = ("q", "k", "v", "attention", "residual_mid")


@cache
def of_pairs() -> Any:
    """Estimates of pairs of different lengths, by a model with grouped keys and values."""
    results = []
    for n in LENGTHS:
        clean = tiny.tokens("llama", n, seed=n)
        corrupted = torch.cat([clean[:2], torch.tensor([40]), clean[3:]])
        asked = {"of": FURTHER, "edges": "positions"}
        results.append(ffb.attribution_patching(double("llama"), clean, corrupted, DIFFERENCE, **asked))
    return Results(results)


def by_hand(of_prompt: Any) -> torch.Tensor:
    """Each prompt's numbers at the named positions."""
    return torch.stack([of_prompt(result)[..., at] for result, at in zip(of_pairs(), AT, strict=True)]).double()


def test_every_kind_is_averaged_at_named_positions() -> None:
    """Of pairs of any lengths, with the interval of each place, in one table with the tokens that are there."""
    averages = of_pairs().mean(PLACES)
    assert list(averages.kinds) == ["residual", "mlp", "head", *FURTHER]
    for kind in averages.kinds:
        expected = by_hand(lambda result, kind=kind: result[kind])
        torch.testing.assert_close(averages[kind].values, expected)
        torch.testing.assert_close(averages[kind].interval.high, mean_interval(expected).high)
    table = averages.to_dataframe()
    assert list(table) == ["kind", "layer", "head", "position", "token", "value", "low", "high", "n"]
    at_end = {"|".join(result.labels[-1] for result in of_pairs())}
    assert set(table["token"][table["position"] == "END"]) == at_end and "END '" in repr(averages)
    for row in table[table["kind"] == "k"].itertuples():
        assert averages["k"].mean[row.layer, row.head, list(PLACES).index(row.position)] == row.value
    heat = averages.figure(of="residual").axes[0].images[0].get_array()
    np.testing.assert_allclose(sorted(heat.flatten()), sorted(averages["residual"].mean.flatten()), **ALGEBRA)


def test_without_names_positions_are_summed() -> None:
    """Over each prompt's own; a figure of them is [layer head]."""
    averages = type(of_pairs()[0]).mean(of_pairs(), n_draws=50, seed=3)
    for kind, average in averages.kinds.items():
        torch.testing.assert_close(average.mean, torch.stack([result[kind].sum(-1) for result in of_pairs()]).mean(0))
        assert (average.n_draws, average.seed) == (50, 3)
    np.testing.assert_allclose(averages.figure(of="q").axes[0].images[0].get_array(), averages["q"].mean, **ALGEBRA)
    assert len(averages.to_dataframe(2)) == 2 * len(averages.kinds)
    assert list(averages.to_dataframe(1, by_prompt=True)) == ["prompt", "kind", "layer", "head", "value"]


def test_edges_and_neurons_are_averaged_at_named_positions() -> None:
    """Edges by source and target."""
    edges = ffb.average_shares(of_pairs(), "edges", PLACES)
    torch.testing.assert_close(edges.values, by_hand(lambda result: result.edges.at_positions))
    for row in edges.to_dataframe(20).itertuples():
        of_edge = by_hand(lambda result, row=row: result.edges[row.source, row.target])
        assert float(of_edge.mean(0)[list(PLACES).index(row.position)]) == pytest.approx(row.value)
    summed = ffb.average_shares(of_pairs(), "edges").to_dataframe(3)
    assert list(summed) == ["source", "target", "value", "low", "high", "n"]
    neurons = ffb.average_shares(of_pairs(), "neurons", PLACES)
    torch.testing.assert_close(neurons.values[:, 1], by_hand(lambda result: result.neurons(1).T))


@pytest.mark.parametrize("of", ["residual", "heads", "biases", "neurons"])
def test_attributions_are_averaged_at_named_positions(of: Any) -> None:
    """Of prompts of any lengths; the names are the last axis."""
    mean = ffb.average_shares(several(), of, PLACES)
    of_one = {
        "biases": lambda result: result.bias_shares,
        "neurons": lambda result: torch.stack([result.neurons(layer).T for layer in range(result.n_layers)]),
    }.get(of, lambda result: getattr(result, of))
    expected = [of_one(result)[..., at] for result, at in zip(several(), AT, strict=True)]
    torch.testing.assert_close(mean.values, torch.stack(expected).double())
    assert mean.places["position"] == ("IO", "S", "END")


def test_its_table_begins_with_the_largest() -> None:
    """Sorted by size of the mean; a few rows have the numbers that they have among all, and prompts average to them."""
    heads = ffb.average_shares(several())
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
    largest = next(three.itertuples())
    first = f"L{largest.layer}H{largest.head}  {significant(largest.value)}  [{significant(largest.low)}, "
    assert first in repr(heads) and "mean of 3 prompts" in repr(heads)


def test_one_prompt_has_no_interval() -> None:
    """It says nothing of others; the mean is its own."""
    alone = ffb.average_shares(several()[:1])
    assert ffb.average_shares(several()[0]) == alone
    torch.testing.assert_close(alone.mean, several()[0].heads.sum(-1))
    assert alone.interval.low.isnan().all()
    assert "nan" not in repr(alone) and "no intervals" in repr(alone)


def test_neurons_have_the_numbers_of_their_layers() -> None:
    """Where the first layer has no neurons of its own, as a mixture of experts, the others keep their numbers."""
    kept = [{name: part for name, part in one.parts.items() if name != "neurons.0"} for one in several()]
    without = [dataclasses.replace(one, parts=parts) for one, parts in zip(several(), kept, strict=True)]
    neurons = ffb.average_shares(without, "neurons")
    assert neurons.places["layer"] == (1, 2)
    for row, layer in enumerate(neurons.places["layer"]):
        by_hand = torch.stack([one.neurons(layer).sum(dim=0) for one in several()]).mean(dim=0)
        torch.testing.assert_close(neurons.mean[row], by_hand)
    assert set(neurons.to_dataframe()["layer"]) == {1, 2}


def beside(target: Any, **options: Any) -> list[Any]:
    """The first attribution and one of another kind."""
    return [several()[0], ffb.attribute(double("gpt2"), tiny.tokens("gpt2", 5), target, **options)]


TWO_PAIRS = torch.tensor([[3, 4, 5], [6, 7, 8]]), torch.tensor([[3, 9, 5], [6, 9, 8]])
REFUSED: dict[str, Refused] = {
    "quantity": (
        lambda: ffb.average_shares(beside(ffb.logit(7))),
        InputError,
        "0 and 1, which differ in quantity: 'logit difference' against 'logit'",
    ),
    "rules": (lambda: ffb.average_shares(beside(DIFFERENCE, rules="gradient")), InputError, "differ in rules"),
    "nothing": (lambda: ffb.average_shares([]), InputError, "average_shares of an empty list: expected results"),
    "two kinds": (
        lambda: ffb.average_shares([several()[0], estimates()[0]]),
        InputError,
        "average_shares of Attribution and PatchingEstimates: expected results of one kind",
    ),
    "biases": (
        lambda: ffb.average_shares(estimates(), "biases"),
        InputError,
        "of=.biases.: estimates of patching have no biases",
    ),
    "no heads": (
        lambda: ffb.average_shares([ffb.attribute(double("gpt2"), tiny.tokens("gpt2", 5), DIFFERENCE, of=())]),
        ScopeKeyError,
        r"no heads, but none",
    ),
    "mlps": (lambda: ffb.average_shares(several(), "mlps"), ScopeKeyError, "no mlps"),
    "too few positions": (lambda: of_pairs().mean({"IO": [1, 2]}), InputError, "2 positions of 3 prompts"),
    "no such position": (lambda: of_pairs().mean({"IO": 4}), InputError, "expected one position, from -4 to 3"),
    "positions of maps": (
        lambda: Results([ffb.contribution_maps(double("gpt2"), tiny.tokens("gpt2", 5))]).mean({"IO": 1}),
        TypeError,
        "mean of ContributionMaps has no argument `positions`",
    ),
    "edges of attributions": (
        lambda: ffb.average_shares(several(), "edges"),
        InputError,
        r"For edges use ffb.average\(\[result.token_maps\('edges'\)",
    ),
    "edges without positions": (
        lambda: ffb.average_shares(
            ffb.attribution_patching(double("gpt2"), *TWO_PAIRS, DIFFERENCE, edges=True), "edges", {"END": -1}
        ),
        InputError,
        "Use edges='positions'",
    ),
    "kind of one pair alone": (
        lambda: Results([of_pairs()[0], *ffb.attribution_patching(double("llama"), *TWO_PAIRS, DIFFERENCE)]).mean(),
        ScopeKeyError,
        "no 'q' here: pass of='q'",
    ),
    "kind of the mean": (
        lambda: of_pairs().mean()["pattern"],
        ScopeKeyError,
        "no 'pattern' here. There are residual, mlp",
    ),
    "several": (lambda: ffb.attribution.PatchingEstimates.mean([]), InputError, "expected one result or more"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_common_mean_is_refused(name: str) -> None:
    """Other units, rules, classes or parts; errors name what differs."""
    assert_refused(*REFUSED[name])
