"""Layer maps with a sign: projections of `decompose`'s vectors on the target's derivative, which they sum up to."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tests.tolerances import ALGEBRA
from tl_ffblock.layer.linear import LinearLayer
from tl_ffblock.layer.records import Settings

Models = Callable[..., Any]
N = 6
ORDERS = ["gpt2", "llama", "bert", "gemma2", "gpt_neox", "olmo2", "qwen2_moe"]


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", ORDERS)
def test_cells_are_projections_of_the_layers_vectors(
    ffb: ModuleType, model_of_any: Models, difference: Any, family: str
) -> None:
    """`<F_i(x_j), g_i>` with the vectors of `decompose`; g by autograd at the layer's output, by the vjp at other scopes."""
    model, tokens = model_of_any(family, dtype=torch.float64), tiny.tokens(family, N)
    result = ffb.attribute(model, tokens, difference, of="maps")
    for layer in range(result.n_layers):
        part = ffb.decompose(model, tokens, layer=layer)
        output = list(result.maps)[-1]
        with torch.no_grad(), ffb.capture(model, layers=layer) as records:
            model(tokens[None])
        by_output = _by_output(ffb, model, tokens, difference, layer)
        by = LinearLayer(records[layer].sequence(0), Settings()).vjp(by_output)
        for scope in result.maps:
            expected = torch.einsum("qkd,qd->qk", part.parts(scope), by[scope])
            size = float(expected.abs().max())
            assert (result.maps[scope, layer] - expected).abs().max() <= 1e-7 * size, (scope, layer)
        flowing = result.maps[output, layer].sum() + (part.bias(output) * by[output]).sum()
        torch.testing.assert_close(flowing, result.residual[layer + 1].sum(), rtol=1e-6, atol=1e-9)


def _by_output(ffb: ModuleType, model: Any, tokens: Tensor, target: Any, layer: int) -> Tensor:
    """The derivative by a layer's output, from the backward pass."""
    from tl_ffblock.bridge.linearised import RULES
    from tl_ffblock.bridge.runs import open_run
    from tl_ffblock.bridge.traced import trace, with_gradients

    run = open_run(model, tokens)
    with with_gradients():
        traced = trace(run, run.batches[0], RULES["path"], frozenset({"residual"}))
        logits = traced.logits.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(target(logits).sum(), logits)
        return traced.backward(traced.logits, gradient).kept["residual", layer + 1][0].detach()


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", ["gpt2", "bert", "gpt_neox"])
def test_vjp_and_jvp_agree(ffb: ModuleType, model_of_any: Models, family: str) -> None:
    """`<F_i(x_j), g_i>` by the vjp of g and by the vectors of the jvp; at the layer's input summed by source token."""
    model, tokens = model_of_any(family, dtype=torch.float64), tiny.tokens(family, N)
    with torch.no_grad(), ffb.capture(model, layers=0) as records:
        model(tokens[None])
    record = records[0].sequence(0)
    g = torch.randn(N, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    layer = LinearLayer(record, Settings())
    part = ffb.decompose(model, tokens, layer=0)
    output = layer.steps[-1].scope
    expected = torch.einsum("qkd,qd->qk", part.parts(output), g)
    torch.testing.assert_close(layer.vjp_cells(output, g), expected, **ALGEBRA)
    by_input = layer.vjp(g)["resid_pre"]
    torch.testing.assert_close((record.resid_pre * by_input).sum(-1), expected.sum(0), rtol=1e-9, atol=1e-11)


def test_padded_and_saved(ffb: ModuleType, model_of_any: Models, difference: Any, tmp_path: Any) -> None:
    """Of a padded batch as of each alone; kept by save, difference and mean."""
    model = model_of_any("gpt2", dtype=torch.float64)
    tokens = torch.stack([tiny.tokens("gpt2", N), tiny.tokens("gpt2", N, 1)])
    mask = torch.tensor([[1] * 4 + [0] * 2, [1] * 6])
    short, _ = ffb.attribute(model, tokens, difference, of="maps", attention_mask=mask)
    alone = ffb.attribute(model, tokens[0, :4], difference, of="maps")
    torch.testing.assert_close(short.maps["AtbLnFf"], alone.maps["AtbLnFf"], rtol=1e-9, atol=1e-11)
    loaded = ffb.Attribution.load(alone.save(tmp_path / "x"))
    assert loaded.maps == alone.maps
    assert not (loaded - alone).maps["Atb"].any()


def test_maps_that_cannot_be_are_refused(ffb: ModuleType, model_of: Models, difference: Any) -> None:
    """Other rules, edits inside a layer, maps that were not asked for."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", N)
    with pytest.raises(ffb.errors.InputError, match="only those of rules"):
        ffb.attribute(model, tokens, difference, of="maps", rules="patching")
    with pytest.raises(ffb.errors.ScopeKeyError, match="no maps here"):
        _ = ffb.attribute(model, tokens, difference).maps
    hooks = [("blocks.1.mlp.hook_post", lambda tensor, hook: tensor * 0.5)]
    with pytest.raises(ffb.errors.CompletenessError, match="No signed maps are made"):
        ffb.attribute(model, tokens, difference, of="maps", fwd_hooks=hooks)
