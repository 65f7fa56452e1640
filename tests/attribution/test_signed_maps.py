"""Layer maps with a sign: projections of `decompose`'s vectors on the target's derivative, which they sum up to."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.attribution.conftest import DIFFERENCE, direction, double
from tests.cases import ORDERS, model_of
from tests.tolerances import ALGEBRA
from tl_ffblock.errors import CompletenessError, InputError, ScopeKeyError
from tl_ffblock.layer.linear import LinearLayer
from tl_ffblock.layer.records import Settings
from tl_ffblock.page import DataBlock, MapsBlock
from tl_ffblock.views.maps import page_data

N = 6


def record_of(model: Any, tokens: Tensor, layer: int) -> Any:
    """A layer's tensors of the run."""
    with torch.no_grad(), ffb.capture(model, layers=layer) as records:
        model(tokens[None])
    return records[layer].sequence(0)


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", [*ORDERS, "qwen2_moe"])
def test_vjp_and_jvp_agree(family: str) -> None:
    """`<F_i(x_j), g_i>` by the vjp of g and by the vectors of `decompose`, at every scope; at the layer's input by source token.

    That g is the target's derivative is checked with autograd through Hugging Face's model (test_frozen_autograd).
    """
    model, tokens = double(family), tiny.tokens(family, N)
    record = record_of(model, tokens, 0)
    g = torch.randn(N, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    layer = LinearLayer(record, Settings())
    part, by = ffb.decompose(model, tokens, layer=0), layer.vjp(g)
    for scope in part.scopes if layer.steps[-1].scope == part.scopes[-1] else part.scopes[:-1]:
        expected = torch.einsum("qkd,qd->qk", part.parts(scope), by[scope])
        torch.testing.assert_close(layer.vjp_cells(scope, by[scope]), expected, **ALGEBRA)
    of_tokens = (record.resid_pre * by["resid_pre"]).sum(-1)
    torch.testing.assert_close(of_tokens, expected.sum(0), rtol=1e-9, atol=1e-11)


def test_maps_of_an_edit_inside_a_layer_are_refused() -> None:
    """Its contributions would not be those of the run; maps that were not asked for are not there, nor in a difference."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", N)
    hooks = [("blocks.1.mlp.hook_post", lambda tensor, hook: tensor * 0.5)]
    with pytest.raises(CompletenessError, match="omit .maps. from"):
        ffb.attribute(model, tokens, DIFFERENCE, of="maps", fwd_hooks=hooks)
    with pytest.raises(ScopeKeyError, match="no maps"):
        _ = ffb.attribute(model, tokens, DIFFERENCE).maps
    result = ffb.attribute(model, tokens, DIFFERENCE, of="maps")
    assert not (result - result).maps["Atb"].any()


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert"])
def test_columns_beside_maps_sum_to_what_flows_in(family: str) -> None:
    """Through a whole layer every token's contributions carry to the target what its residual stream brings there.

    Up to 1e-6 of the sizes: means along gates' paths are by quadrature.
    """
    model, tokens = double(family), tiny.tokens(family, N)
    target = direction(-1, at=2, seed=3) if family == "bert" else DIFFERENCE
    result = ffb.attribute(model, tokens, target, of=("heads", "maps"))
    blocks = page_data({"run": ffb.contribution_maps(model, tokens)}, beside=(result,)).runs[0].blocks
    shares, signed = blocks["logit"], blocks["logit maps"]
    assert isinstance(shares, DataBlock) and isinstance(signed, MapsBlock)
    whole = signed.values[str(signed.channels[-1]["name"])]
    torch.testing.assert_close(whole.sum(dim=1), result.residual[:-1], rtol=1e-6, atol=1e-6)
    for row, flowing in enumerate(shares.json["residual"]):
        later = sum(share for _, layer, share in shares.json["biases"] if layer >= row)
        assert sum(flowing) + later == pytest.approx(result.first_order, abs=1e-5)
    assert sum(share for _, share in shares.json["sums"]) == pytest.approx(result.value, abs=1e-5)


def test_rules_that_are_not_complete_say_so_beside_maps() -> None:
    """Their page does not claim that rows sum to the target."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", N)
    result = ffb.attribute(model, tokens, ffb.logit(7), rules="gradient", of="heads")
    block = page_data({"run": ffb.contribution_maps(model, tokens)}, beside=(result,)).runs[0].blocks["logit"]
    assert isinstance(block, DataBlock)
    assert not block.json["complete"] and "not complete" in block.json["certificate"]
    assert "not attributed" in dict(block.json["sums"]) and block.json["maps"] == ""


def test_rows_beside_maps_are_the_pages() -> None:
    """A page of some queries and layers in an order of its own has the rows of those, of signed maps and of edges."""
    model, tokens, queries = model_of("gpt2"), tiny.tokens("gpt2", N), [4, 1]
    result = ffb.attribute(model, tokens, ffb.logit(7), of=("maps", "edges"))
    edges = result.token_maps("edges")
    maps = ffb.contribution_maps(model, tokens, queries=queries, layers=[2, 0])
    blocks = page_data({"run": maps}, beside=(result, edges)).runs[0].blocks
    signed, of_edges = blocks["logit maps"], blocks[edges.kind]
    assert isinstance(signed, MapsBlock) and isinstance(of_edges, MapsBlock)
    for row, layer in ((1, 2), (0, 0)):
        for scope, values in signed.values.items():
            torch.testing.assert_close(values[row], result.maps[scope, layer][queries], rtol=0, atol=0)
        torch.testing.assert_close(of_edges.values["head 1"][row], edges["head 1", layer][queries], rtol=0, atol=0)
    few = dataclasses.replace(edges, values=edges.values[:2], layers=(0, 1))
    with pytest.raises(InputError, match="do not have layers 2, only 0, 1"):
        maps.to_html(beside=few)
