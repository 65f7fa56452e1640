"""An attribution beside maps of the same run: what the page gets is what flows."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from tests import tiny
from tl_ffblock.page import DataBlock, MapsBlock
from tl_ffblock.views.maps import page_data


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert"])
def test_columns_of_the_signed_map_sum_to_what_flows_in(
    ffb: ModuleType, model_of_any: Callable[..., Any], family: str
) -> None:
    """Through a whole layer every token's contributions carry to the target what its residual stream brings there.

    Up to 1e-6 of the sizes: means along gates' paths are by quadrature.
    """
    model = model_of_any(family, dtype=torch.float64)
    tokens = tiny.tokens(family, 6, 0)
    vector = torch.randn(model.cfg.d_model, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    target = ffb.direction(vector, layer=-1, at=2) if family == "bert" else ffb.logit(7, minus=11)
    result = ffb.attribute(model, tokens, target, of=("heads", "maps"))
    maps = ffb.contribution_maps(model, tokens)
    blocks = page_data({"run": maps}, beside=(result,)).runs[0].blocks
    shares, signed = blocks["logit"], blocks["logit maps"]
    assert isinstance(shares, DataBlock) and isinstance(signed, MapsBlock)
    whole = signed.values[str(signed.channels[-1]["name"])]
    torch.testing.assert_close(whole.sum(dim=1), result.residual[:-1], rtol=1e-6, atol=1e-6)
    for row, flowing in enumerate(shares.json["residual"]):
        later = sum(share for _, layer, share in shares.json["biases"] if layer >= row)
        assert sum(flowing) + later == pytest.approx(result.first_order, abs=1e-5)
    assert sum(share for _, share in shares.json["sums"]) == pytest.approx(result.value, abs=1e-5)


def test_rules_that_are_not_complete_say_so(ffb: ModuleType, model_of_any: Callable[..., Any]) -> None:
    """Their page does not claim that rows sum to the target."""
    model, tokens = model_of_any("gpt2"), tiny.tokens("gpt2", 5, 0)
    result = ffb.attribute(model, tokens, ffb.logit(7), rules="gradient", of="heads")
    block = page_data({"run": ffb.contribution_maps(model, tokens)}, beside=(result,)).runs[0].blocks["logit"]
    assert isinstance(block, DataBlock)
    assert not block.json["complete"] and "not complete" in block.json["certificate"]
    assert "not attributed" in dict(block.json["sums"]) and block.json["maps"] == ""


def test_rows_of_signed_maps_are_the_pages(ffb: ModuleType, model_of_any: Callable[..., Any]) -> None:
    """A page of some queries in an order of its own has the signed map's rows of those, layer by layer."""
    model, tokens, queries = model_of_any("gpt2"), tiny.tokens("gpt2", 6, 0), [4, 1]
    result = ffb.attribute(model, tokens, ffb.logit(7), of="maps")
    maps = ffb.contribution_maps(model, tokens, queries=queries, layers=[2, 0])
    signed = page_data({"run": maps}, beside=(result,)).runs[0].blocks["logit maps"]
    assert isinstance(signed, MapsBlock)
    for scope, values in signed.values.items():
        torch.testing.assert_close(values[1], result.maps[scope, 2][queries], rtol=0, atol=0)
        torch.testing.assert_close(values[0], result.maps[scope, 0][queries], rtol=0, atol=0)
