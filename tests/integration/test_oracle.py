"""Whole models against the slow oracle of `tests.oracle`, which reads Hugging Face modules and knows no closed form."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import oracle, tiny
from tests.tolerances import CAPTUM, ORACLE, ORACLE_FLOAT32_WITHIN, ROADS_FLOAT32, ROADS_FLOAT64

Oracle = Callable[..., dict[str, Tensor]]
Models = Callable[..., Any]


def _tolerance(family: str) -> float:
    modules = [type(module).__name__ for module in tiny.hf_model(family).modules()]
    return ORACLE_FLOAT32_WITHIN if any("RMSNorm" in m or "Rotary" in m for m in modules) else ORACLE


def compare(maps: Any, expected: dict[str, Tensor], tolerance: float) -> None:
    """Every scope and layer that either side has, maps and bias, each cell relative to itself."""
    assert {f"L{layer}.{scope}" for layer in maps.layers for scope in maps.scopes} == set(expected)
    for key, cells in expected.items():
        layer, scope = int(key[1:].split(".")[0]), key.split(".")[1]
        found = torch.cat([maps[scope, layer], maps.bias[scope, layer][:, None]], dim=1)
        assert (found[cells == 0] == 0).all(), key
        error = ((found - cells).abs() / cells)[cells != 0].max()
        assert error < tolerance, f"{key}: {error:.1e}"


def test_maps_are_the_oracles(ffb: ModuleType, model_of: Models, oracle_of: Oracle, any_family: str) -> None:
    """For every family there is, in float64, cell by cell."""
    maps = ffb.contribution_maps(model_of(any_family, torch.float64), tiny.tokens(any_family, 7))
    compare(maps, oracle_of(any_family, 7), _tolerance(any_family))


def test_value_bias_with_the_token_is_the_oracles(
    ffb: ModuleType, model_of: Models, oracle_of: Oracle, family: str
) -> None:
    """The other placement of the value bias."""
    maps = ffb.contribution_maps(model_of(family, torch.float64), tiny.tokens(family, 7), value_bias="token")
    compare(maps, oracle_of(family, 7, "token"), _tolerance(family))


@pytest.mark.parametrize("n", [1, 2, 13])
def test_maps_are_the_oracles_at_any_length(
    ffb: ModuleType, model_of: Models, oracle_of: Oracle, family: str, n: int
) -> None:
    """One token, two, and more than one block of source tokens."""
    maps = ffb.contribution_maps(model_of(family, torch.float64), tiny.tokens(family, n))
    compare(maps, oracle_of(family, n), _tolerance(family))


VARIANTS = [
    ("gpt2", {"activation_function": "relu"}),
    ("gpt2", {"activation_function": "gelu"}),
    ("gpt2", {"activation_function": "tanh"}),
    ("gpt2", {"activation_function": "quick_gelu"}),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": False}),
    ("opt", {"activation_function": "gelu"}),
    ("opt", {"enable_bias": False}),
    ("llama", {"hidden_act": "gelu_pytorch_tanh"}),
    ("llama", {"hidden_act": "relu2"}),
    ("llama", {"num_key_value_heads": 1}),
    ("llama", {"num_key_value_heads": 4}),
    ("llama", {"head_dim": 6, "num_attention_heads": 4, "num_key_value_heads": 2}),
    ("llama", {"tie_word_embeddings": True}),
    ("mistral", {"sliding_window": 2}),
    ("mistral", {"sliding_window": None, "head_dim": 16}),
    ("qwen2", {"num_key_value_heads": 1}),
    ("bert", {"hidden_act": "relu"}),
    ("bert", {"hidden_act": "gelu_new"}),
    ("bert", {"layer_norm_eps": 0.1}),
    ("gpt2", {"layer_norm_epsilon": 0.1}),
    ("llama", {"rms_norm_eps": 0.1}),
]


@pytest.mark.parametrize(("family", "overrides"), VARIANTS, ids=[f"{f} {o}" for f, o in VARIANTS])
def test_variants_within_a_family_are_read_from_the_modules(
    ffb: ModuleType, family: str, overrides: dict[str, Any]
) -> None:
    """Activations, head widths, group sizes, windows, missing biases and epsilons are the model's, not the family's."""
    tokens = tiny.tokens(family, 6)
    maps = ffb.contribution_maps(tiny.bridge(family, dtype=torch.float64, **overrides), tokens)
    expected = oracle.oracle_maps(tiny.hf_model(family, **overrides), tokens, patch_float64=False)
    compare(maps, expected, _tolerance(family))


def test_repeated_tokens(ffb: ModuleType, model_of: Models, family: str) -> None:
    """A sequence of one and the same token is decomposed as any other."""
    tokens = torch.full((6,), 9)
    maps = ffb.contribution_maps(model_of(family, torch.float64), tokens)
    compare(maps, oracle.oracle_maps(tiny.hf_model(family), tokens, patch_float64=False), _tolerance(family))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_maps_are_the_norms_of_the_vectors(
    ffb: ModuleType, model_of: Models, any_family: str, dtype: torch.dtype
) -> None:
    """`contribution_maps` gives the norms of what `decompose` gives, in a real run of every any_family."""
    model, tokens = model_of(any_family, dtype), tiny.tokens(any_family, 11)
    maps = ffb.contribution_maps(model, tokens)
    layer = maps.layers[-1]
    vectors = ffb.decompose(model, tokens, layer=layer)
    assert vectors.scopes == maps.scopes
    for scope in maps.scopes:
        expected = vectors.parts(scope).norm(dim=-1)
        error = (maps[scope, layer] - expected).abs() / expected.amax(dim=-1, keepdim=True)
        assert error.max() < (ROADS_FLOAT32 if dtype == torch.float32 else ROADS_FLOAT64)


def test_exact_is_captum_at_fifty_steps(ffb: ModuleType, model_of: Models, family: str) -> None:
    """The paper's own way gives the same maps, relative to each map's maximum."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, 4)
    exact, captum = (ffb.contribution_maps(model, tokens, layers=-1, method=m) for m in ("exact", "captum"))
    for scope in exact.scopes:
        assert (exact[scope] - captum[scope]).abs().max() <= CAPTUM * exact[scope].max()
        assert (exact.bias[scope] - captum.bias[scope]).abs().max() <= CAPTUM * exact.bias[scope].max()
    assert captum.provenance["method"] == "captum, 50 steps"


def test_few_captum_steps_are_worse(ffb: ModuleType, model_of: Models) -> None:
    """`n_steps` is really used: two steps miss the closed form by more than fifty do, and are refused as incomplete."""
    model, tokens = model_of("gpt2", torch.float64), tiny.tokens("gpt2", 4)
    exact = ffb.contribution_maps(model, tokens, layers=0)
    few = ffb.contribution_maps(model, tokens, layers=0, method="captum", n_steps=2, rtol=1.0)
    assert (few["AtbLnFf"] - exact["AtbLnFf"]).abs().max() > 1e-4 * exact["AtbLnFf"].max()
    with pytest.raises(ArithmeticError, match="AtbLnFf: parts and bias miss the model's own tensor"):
        ffb.contribution_maps(model, tokens, layers=0, method="captum", n_steps=2)
