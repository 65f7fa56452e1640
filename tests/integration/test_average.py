"""The average of maps is numpy's of the maps' own cells, whatever names align them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tl_ffblock.results.average import AverageMaps
from tl_ffblock.results.intervals import mean_interval

LENGTHS = (4, 6, 5)
PLACES = {"first": 0, "name": [2, 1, 3], "END": -1}


@pytest.fixture
def several() -> list[Any]:
    """Maps of prompts of different lengths."""
    return [
        ffb.contribution_maps(model_of("gpt2"), tiny.tokens("gpt2", n, seed=seed)) for seed, n in enumerate(LENGTHS)
    ]


def test_named_cells_are_averaged_wherever_they_stand(several: list[Any]) -> None:
    """Each cell is numpy's mean of the prompts' cells of that name; a cell behind its query exists in no causal map."""
    found = ffb.average(several, PLACES)
    assert (found.queries, found.keys, found.channels) == (tuple(PLACES), tuple(PLACES), several[0].scopes)
    at = {"first": [0, 0, 0], "name": [2, 1, 3], "END": [3, 5, 4]}
    for scope in several[0].scopes:
        for row, query in enumerate(PLACES):
            for column, key in enumerate(PLACES):
                cells = [maps[scope][:, at[query][n], at[key][n]].numpy() for n, maps in enumerate(several)]
                mean = found[scope][:, row, column].numpy()
                if row < column:  # "name" comes after "first", "END" after both
                    assert np.isnan(mean).all()
                    continue
                np.testing.assert_allclose(mean, np.mean(cells, axis=0), rtol=1e-6)
                assert found[scope, -1][row, column] == found[scope][-1, row, column]
    expected = mean_interval(found.values[:, 1, 2, 2, 1])
    assert float(found.interval.low[1, 2, 2, 1]) == pytest.approx(float(expected.low))
    assert found.token_maps().tokens == tuple(PLACES)


def test_equal_lengths_are_averaged_by_position() -> None:
    """Without names: `ContributionMaps.mean`, beside it the interval; rows are the queries asked for."""
    prompts = torch.stack([tiny.tokens("gpt2", 5, seed=seed) for seed in range(3)])
    maps = ffb.contribution_maps(model_of("gpt2"), prompts, queries=[-1, 2])
    found = ffb.average(maps)
    mean = type(maps[0]).mean(maps)
    assert (found.queries, found.keys) == (("2", "4"), ("0", "1", "2", "3", "4"))
    for scope in mean.scopes:
        expected = mean[scope][:, [1, 0]].double()
        known = ~found[scope].isnan()
        torch.testing.assert_close(found[scope][known], expected[known], rtol=1e-6, atol=1e-6)
        assert (expected[~known] == 0).all()
    assert found.labels == mean.tokens


def test_heads_are_averaged_too() -> None:
    """Any TokenMaps: attention by head, named and not."""
    prompts = [tiny.tokens("gpt2", n, seed=n) for n in (4, 5)]
    patterns = [ffb.attention_maps(model_of("gpt2"), tokens) for tokens in prompts]
    found = ffb.average(patterns, {"END": -1, "first": 0})
    by_hand = np.mean([maps["head 1", 2][-1, 0].numpy() for maps in patterns])
    assert float(found["head 1", 2][0, 1]) == pytest.approx(by_hand)
    assert found.kind == patterns[0].kind


def test_a_difference_is_of_each_prompt(several: list[Any]) -> None:
    """Cell by cell and prompt by prompt, with the interval of the differences."""
    first, second = ffb.average(several, PLACES), ffb.average([maps * 0.5 for maps in several], PLACES)
    apart = first - second
    torch.testing.assert_close(apart.values, first.values / 2, equal_nan=True)
    torch.testing.assert_close(apart.interval.high, first.interval.high / 2, equal_nan=True)
    assert apart.signed and apart.prompts == first.prompts
    assert apart.kind == f"difference of {first.kind}"
    assert f"AverageMaps: {apart.kind} of " in repr(apart)
    table = apart.to_dataframe().query("query != key")
    largest = table.loc[table["value"].abs().idxmax()]
    named = f"layer {largest.layer} {largest.channel}, {largest['query']} from {largest.key} "
    assert repr(apart).split("largest of two positions")[1].strip().startswith(named)


def test_prompts_that_are_no_pairs_have_no_paired_interval(several: list[Any]) -> None:
    """Other prompts, or the same in another order, are refused as one difference unless the caller says that they are pairs."""
    first = ffb.average(several, {"END": -1})
    for others in (several[::-1], [several[0], several[2], several[2]]):
        second = ffb.average(others, {"END": -1})
        with pytest.raises(ValueError, match=r"different prompts: prompt \d is .* against .*a\.paired_difference\(b\)"):
            first - second
        pairs = first.paired_difference(second)
        torch.testing.assert_close(pairs.values, first.values - second.values)
        assert pairs.prompts != first.prompts


def test_its_table_has_every_cell(several: list[Any], tmp_path: Path) -> None:
    """One row a cell that exists, or one a prompt and cell; the file says the same."""
    found = ffb.average(several, PLACES)
    table, by_prompt = found.to_dataframe(), found.to_dataframe(by_prompt=True)
    n_cells = 6 * len(found.layers) * len(found.channels)
    assert (len(table), len(by_prompt)) == (n_cells, 3 * n_cells)
    assert (table["n"] == 3).all()
    assert table["value"].between(table["low"], table["high"]).all()
    columns = ["layer", "channel", "query", "key"]
    means = by_prompt.groupby(columns)["value"].mean()
    np.testing.assert_allclose(table.set_index(columns)["value"].loc[means.index], means, rtol=1e-9)
    assert set(table["query_token"]) == set(found.labels)
    read = pd.read_csv(found.to_csv(tmp_path / "average.csv"))
    np.testing.assert_allclose(read["value"], table["value"])


@pytest.mark.wrong_types
def test_what_cannot_be_averaged_is_refused(several: list[Any]) -> None:
    """Errors name the prompt, the name and what to do."""
    last = [ffb.contribution_maps(model_of("gpt2"), torch.tensor([5, 6, 7]), queries=q) for q in (-1, 1)]
    layers = [ffb.contribution_maps(model_of("gpt2"), torch.tensor([5, 6, 7]), layers=n) for n in (0, 1)]
    whole = ffb.average(several, PLACES)
    assert isinstance(whole, AverageMaps)
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: ffb.average(several), r"the maps have 4, 5, 6 tokens\. Align them by name"),
        (lambda: ffb.average(several, {"name": [1, 2]}), r"positions\['name'\]=\[1, 2\]: 2 positions of 3 prompts"),
        (
            lambda: ffb.average(several, {"name": [4, 4, 4]}),
            r"positions\['name'\] of prompt 0=4: expected one position, from -4 to 3",
        ),
        (lambda: ffb.average(several, {}), "expected positions by name"),
        (lambda: ffb.average(last, {"END": -1}), "position 2 .'END'. is not a query of maps 1"),
        (lambda: ffb.average(last, {"first": 0}), "none of 'first' is a query of the maps"),
        (lambda: ffb.average(layers), "different layers"),
        (
            lambda: whole - ffb.average(several[:2], {"first": 0, "name": [2, 1], "END": -1}),
            "averages of 3 and of 2 prompts",
        ),
        (lambda: whole - ffb.average(several, {"END": -1}), "different queries"),
    ]
    for call, said in refused:
        with pytest.raises(ValueError, match=said):
            call()
