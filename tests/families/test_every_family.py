"""Every family of the table: the oracle where there is one, else Hugging Face's outputs, captum and completeness."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from tests import oracle, tiny
from tests.tolerances import BATCH_FLOAT32, CAPTUM, COMPLETE_FLOAT32, GOLDEN_FLOAT32

Bridges = Callable[..., Any]
LOGITS = 1e-4
"""float32 logits of size 10 to 30 against Hugging Face's: the worst seen is 1e-5."""
HALF = {torch.bfloat16: 2e-2, torch.float16: 2e-3}
"""Completeness with 8 and 11 bits: the worst seen are 1.2e-2 and 1.3e-3."""
QUICK = ("gpt2", "llama", "gemma2", "gpt_neox", "olmo2", "qwen2_moe", "gpt_oss", "bert")
"""One of each block form; the others are slow tests."""
ORACLE_FLOAT64 = 1e-9
"""float64 model with norms and softmax in float64, relative, every cell."""
ROTARY = 2e-6
"""The same where rotary tables (and a router's softmax) are float32 in the bridge and in Hugging Face."""


def errors(maps: Any, expected: dict[str, torch.Tensor]) -> float:
    """Largest error of a cell or bias, relative to itself (to a millionth of the map's maximum where it is smaller)."""
    assert {f"L{layer}.{scope}" for layer in maps.layers for scope in maps.scopes} == set(expected)
    worst = 0.0
    for key, cells in expected.items():
        layer, scope = int(key[1:].split(".")[0]), key.split(".")[1]
        found = torch.cat([maps[scope, layer], maps.bias[scope, layer][:, None]], dim=1).double()
        floor = cells.abs().clamp(min=1e-6 * float(cells.max()))
        # Where nothing is biased both biases are rounding.
        floor[:, -1] = floor[:, -1].clamp(min=1e-2 * float(cells.max()))
        worst = max(worst, float(((found - cells).abs() / floor).max()))
    return worst


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_float32_maps_are_the_oracles(ffb: ModuleType, bridge_of: Bridges, family: str) -> None:
    """Issue 3: within 2e-5, every cell; the oracle reads Hugging Face modules in float64."""
    tokens = tiny.tokens(family, 6)
    maps = ffb.contribution_maps(bridge_of(family), tokens)
    assert errors(maps, oracle.oracle_maps(tiny.hf_model(family), tokens)) < GOLDEN_FLOAT32


@pytest.mark.slow
@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_float64_maps_are_the_oracles(ffb: ModuleType, bridge_of: Bridges, family: str) -> None:
    """With everything in float64 nothing but rounding is left."""
    tokens = tiny.tokens(family, 9)
    maps = ffb.contribution_maps(bridge_of(family, dtype=torch.float64), tokens)
    found = errors(maps, oracle.oracle_maps(tiny.hf_model(family), tokens))
    assert found < (ORACLE_FLOAT64 if family in ("gpt2", "gpt2_relu", "opt", "bert", "roberta") else ROTARY)


def test_the_bridge_is_hugging_faces_model(bridge_of: Bridges, every_family: str) -> None:
    """The maps are of the model that the user means: the bridge's logits are Hugging Face's."""
    tokens = tiny.tokens(every_family, 9)[None]
    with torch.no_grad():
        found, expected = bridge_of(every_family)(tokens), tiny.hf_model(every_family)(tokens).logits
    assert (found - expected).abs().max() < LOGITS


def test_what_stands_behind_a_causal_models_tokens_changes_nothing(
    ffb: ModuleType, bridge_of: Bridges, every_family: str
) -> None:
    """Why texts of unequal length may share a forward pass: a longer sequence begins as the shorter one does."""
    model, tokens = bridge_of(every_family), tiny.tokens(every_family, 7)
    alone = ffb.contribution_maps(model, tokens)
    if not alone.causal:
        pytest.skip("sees what stands behind")
    (longer,) = ffb.contribution_maps(model, torch.cat([tokens, tokens[-1:], tokens[-1:]])[None])
    for scope in alone.scopes:
        torch.testing.assert_close(longer[scope][:, :7, :7], alone[scope], **BATCH_FLOAT32)
        torch.testing.assert_close(longer.bias[scope][:, :7], alone.bias[scope], **BATCH_FLOAT32)


@pytest.mark.parametrize("family", tiny.MORE_FAMILIES)
def test_families_without_an_oracle(
    ffb: ModuleType, bridge_of: Bridges, identify: Callable[[Any], Any], family: str
) -> None:
    """Listed, complete at every scope, and at each the same as the paper's own quadrature."""
    model, tokens = bridge_of(family), tiny.tokens(family, 9)
    assert identify(model).family.listed
    maps = ffb.contribution_maps(model, tokens)
    assert maps.worst_completeness()[0] < COMPLETE_FLOAT32 / 10
    exact, captum = (ffb.contribution_maps(model, tokens[:3], layers=-1, method=way) for way in ("exact", "captum"))
    for scope in exact.scopes:
        assert (exact[scope] - captum[scope]).abs().max() <= 10 * CAPTUM * exact[scope].max()  # float32


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize(
    "family", [pytest.param(f, marks=() if f in QUICK else pytest.mark.slow) for f in tiny.ALL_FAMILIES]
)
def test_half_precision_weights(ffb: ModuleType, bridge_of: Bridges, family: str, dtype: torch.dtype) -> None:
    """A bfloat16 or float16 run is decomposed in float32 (or float64 if asked), complete to its own rounding."""
    model, tokens = bridge_of(family, dtype=dtype), tiny.tokens(family, 5)
    for precision, arithmetic in ((None, torch.float32), ("float64", torch.float64)):
        maps = ffb.contribution_maps(model, tokens, precision=precision)
        assert maps.values[maps.scopes[0]].dtype == arithmetic
        assert maps.worst_completeness()[0] < HALF[dtype]


def test_every_family_of_the_table_has_a_tiny_model(families: ModuleType) -> None:
    """No family is listed that is not tested."""
    tested = {family.architecture for family in tiny.ALL_FAMILIES.values()}
    for family in families.FAMILIES:
        assert tested & set(family.architectures), family.name
