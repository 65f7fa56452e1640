"""Heads and the residual as channels: every family, every scope, both homes of the value bias."""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tests.tolerances import BATCH_FLOAT64, REBUILT
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.settings import Settings
from tl_ffblock.layer.vectors import decompose_record

Bridges = Callable[..., Any]
N = 5
LEAVING_OUT = dict(rtol=1e-9, atol=1e-9)
"""float64 parts of size 1 to 30, as a difference of two runs of the slow road."""


@pytest.fixture(scope="module", params=tuple(tiny.ALL_FAMILIES))
def family(request: pytest.FixtureRequest) -> str:
    """Every family in turn, all tests of one before the next."""
    return request.param


@pytest.fixture(scope="module")
def model(bridge_of: Bridges, family: str) -> Any:
    """A float32 model: what is asked here is of the decomposition, in float64, whatever its run was."""
    return bridge_of(family)


def record_of(ffb: ModuleType, model: Any, tokens: Tensor, layer: int) -> LayerRecord:
    """One layer's record of a run."""
    with ffb.capture(model, layers=[layer], dtype=torch.float64) as records, torch.no_grad():
        model(tokens[None])
    return records[layer].sequence(0)


@pytest.mark.parametrize("value_bias", ["bias", "token"])
def test_heads_and_residual_sum_to_the_part(ffb: ModuleType, model: Any, family: str, value_bias: str) -> None:
    """As vectors, at every scope, query and key; what the residual brings is its own token's alone."""
    tokens = tiny.tokens(family, N)
    for layer in range(model.cfg.n_layers):
        part = ffb.decompose(model, tokens, layer=layer, heads=True, value_bias=value_bias, precision="float64")
        assert part.channels == (*(f"head {head}" for head in range(model.cfg.n_heads)), "residual")
        for scope in part.scopes:
            torch.testing.assert_close(part.heads(scope).sum(0), part.parts(scope), **REBUILT)
            assert not part.heads(scope)[-1][~torch.eye(N, dtype=torch.bool)].any()
        assert part.heads(part.scopes[-1])[0].norm() > 1e-2


@pytest.mark.parametrize("value_bias", ["bias", "token"])
def test_norms_are_those_of_the_vectors(ffb: ModuleType, model: Any, family: str, value_bias: str) -> None:
    """The fast form and the slow one agree for every channel; maps of tokens are what they are without heads."""
    tokens = tiny.tokens(family, N)
    maps = ffb.contribution_maps(model, tokens, heads=True, value_bias=value_bias, precision="float64")
    assert replace(maps, heads=type(maps.heads)()) == ffb.contribution_maps(
        model, tokens, value_bias=value_bias, precision="float64"
    )
    for layer in maps.layers:
        part = ffb.decompose(model, tokens, layer=layer, heads=True, value_bias=value_bias, precision="float64")
        assert maps.heads.channels == part.channels
        for scope in maps.scopes:
            torch.testing.assert_close(maps.heads[scope, layer], part.heads(scope).norm(dim=-1), **BATCH_FLOAT64)


def test_a_head_is_what_goes_missing_without_it(ffb: ModuleType, model: Any, family: str) -> None:
    """Its pattern set to zero in the record, all else as in the run: the token's part loses the head's vector."""
    tokens = tiny.tokens(family, N)
    record, settings = record_of(ffb, model, tokens, 1), Settings(precision="float64")
    part, everything = (
        ffb.decompose(model, tokens, layer=1, heads=True, precision="float64"),
        decompose_record(record, settings),
    )
    for head in range(len(record.pattern)):
        others = record.pattern.clone()
        others[head] = 0
        without = decompose_record(replace(record, pattern=others), settings)
        for scope in part.scopes:
            missing = everything.parts(scope) - without.parts(scope)
            torch.testing.assert_close(part.heads(scope)[head], missing, **LEAVING_OUT)


@pytest.mark.parametrize("family", ["gpt2", "bert", "gemma2", "phi", "olmo2", "mixtral"], scope="module")
def test_an_edited_run_has_heads_too(ffb: ModuleType, model: Any, family: str) -> None:
    """An edit inside the block is the remainder's and no head's: heads and residual still sum to the part."""
    tokens = tiny.tokens(family, N)

    def edit(tensor: Tensor, hook: Any) -> Tensor:
        return 1.5 * tensor + 0.3

    hooks = [(f"blocks.1.{name}", edit) for name in ("attn.hook_out", "mlp.hook_out")]
    part = ffb.decompose(model, tokens, layer=1, heads=True, fwd_hooks=hooks, precision="float64")
    maps = ffb.contribution_maps(model, tokens, layers=1, heads=True, fwd_hooks=hooks, precision="float64")
    assert part.remainder(part.scopes[-1]).norm() > 1e-2
    for scope in part.scopes:
        torch.testing.assert_close(part.heads(scope).sum(0), part.parts(scope), **REBUILT)
        torch.testing.assert_close(maps.heads[scope, 1], part.heads(scope).norm(dim=-1), **BATCH_FLOAT64)
