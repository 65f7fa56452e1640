"""Switches and processing of TransformerLens' classes; that each gives the maps of the bridge is a law (test_laws)."""

import warnings
from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.cases import Case
from tests.tolerances import COMPLETE_FLOAT32
from tl_ffblock.errors import ProcessedWeightsWarning

SWITCHES = ["set_use_split_qkv_input", "set_use_attn_in", "set_use_attn_result", "set_use_hook_mlp_in"]


def _switched(case: Case, switch: str) -> Any:
    model = case.fresh()
    if not hasattr(model, switch):
        pytest.skip(f"this bridge has no {switch}")
    getattr(model, switch)(True)
    return model


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize(
    "case", [Case(name, api) for name in ("gpt2", "gpt_neox") for api in ("bridge", "hooked")], ids=str
)
def test_switches_of_path_patching(case: Case, switch: str) -> None:
    """Inputs and results of single heads at HookPoints of their own change no map, of a run or of its cache."""
    model, tokens = _switched(case, switch), case.tokens(7)
    expected, (_, cache) = ffb.contribution_maps(case.model(), tokens), model.run_with_cache(tokens[None])
    for maps in (ffb.contribution_maps(model, tokens), ffb.contribution_maps(model, tokens, cache=cache)):
        for scope in expected.scopes:
            torch.testing.assert_close(maps[scope], expected[scope], rtol=1e-4, atol=1e-4)
        assert float(maps.remainder["AtbLnFfResLn", 0].max()) < 1e-4


@pytest.mark.parametrize(("switch", "point"), [(SWITCHES[0], "hook_q_input"), (SWITCHES[1], "hook_attn_in")])
@pytest.mark.parametrize("heads", [slice(2, 3), slice(None)], ids=["one head", "all heads"])
def test_an_edit_of_heads_inputs_is_a_remainder(switch: str, point: str, heads: slice) -> None:
    """Path patching in layer 1 leaves layer 0 as it was, but for what layer 1's norm made of the heads' own inputs."""
    model, tokens = _switched(Case("gpt2", "hooked"), switch), tiny.tokens("gpt2", 7)

    def edit(tensor: torch.Tensor, hook: Any) -> torch.Tensor:
        tensor = tensor.clone()
        tensor[:, :, heads] += torch.linspace(-1, 1, tensor.shape[-1])
        return tensor

    clean, edited = (ffb.contribution_maps(model, tokens, fwd_hooks=h) for h in ([], [(f"blocks.1.{point}", edit)]))
    for scope in clean.scopes:
        torch.testing.assert_close(edited[scope, 0], clean[scope, 0], rtol=1e-4, atol=1e-5)
        touched = scope == "AtbLnFfResLn"
        assert bool((edited.remainder[scope, 0] > 0.01).all()) == touched
    assert not torch.allclose(edited["Attn", 1], clean["Attn", 1], rtol=1e-2)
    assert edited.worst_completeness()[0] < COMPLETE_FLOAT32


def test_processed_hooked_transformer_is_warned_about() -> None:
    """`fold_ln` and `center_writing_weights` make another model of it."""
    model = Case("gpt2", "hooked").fresh()
    assert ffb.contribution_maps(model, tiny.tokens("gpt2", 4)).provenance["weights"] == "raw"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.process_weights_(fold_ln=True, center_writing_weights=True)
    with pytest.warns(ProcessedWeightsWarning, match="from_pretrained_no_processing"):
        ffb.contribution_maps(model, tiny.tokens("gpt2", 4))
