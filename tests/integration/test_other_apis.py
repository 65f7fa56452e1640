"""HookedTransformer and HookedEncoder of TransformerLens 3: the same weights give the same maps as the bridge."""

import warnings
from types import ModuleType
from typing import Any

import pytest
import torch

from tests import tiny
from tests.tolerances import COMPLETE_FLOAT32
from tl_ffblock.errors import ProcessedWeightsWarning

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*HookedTransformer.*:DeprecationWarning", "ignore:.*HookedEncoder.*:DeprecationWarning"
)

FAMILIES = ("gpt2", "opt", "llama_nobias", "mistral", "qwen2", "bert")


def _hooked(family: str, **options: Any) -> Any:
    try:
        return tiny.hooked(family, **options)
    except RuntimeError as error:
        pytest.skip(f"no HookedTransformer here: {error}")


@pytest.mark.parametrize("family", FAMILIES)
def test_both_apis_give_the_same_maps(ffb: ModuleType, family: str) -> None:
    """Maps, bias and completeness, by scope and layer; the result says which API ran."""
    model, tokens = _hooked(family), tiny.tokens(family, 7)
    found, expected = ffb.contribution_maps(model, tokens), ffb.contribution_maps(tiny.bridge(family), tokens)
    assert found.scopes == expected.scopes
    assert found.provenance["api"] == ("HookedEncoder" if family == "bert" else "HookedTransformer")
    assert found.worst_completeness()[0] < COMPLETE_FLOAT32
    for scope in expected.scopes:
        torch.testing.assert_close(found[scope], expected[scope], rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(found.bias[scope], expected.bias[scope], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_padded_batches(ffb: ModuleType, family: str) -> None:
    """Right padding changes nothing."""
    model, sequence = _hooked(family), tiny.tokens(family, 4)
    batch, mask = torch.zeros(2, 6, dtype=torch.long), torch.zeros(2, 6, dtype=torch.long)
    batch[0, :4], mask[0, :4] = sequence, 1
    batch[1], mask[1] = tiny.tokens(family, 6, seed=1), 1
    found, alone = ffb.contribution_maps(model, batch, attention_mask=mask)[0], ffb.contribution_maps(model, sequence)
    for scope in alone.scopes:
        torch.testing.assert_close(found[scope], alone[scope], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_edits_become_the_remainder(ffb: ModuleType, family: str) -> None:
    """As with the bridge."""
    model, tokens = _hooked(family), tiny.tokens(family, 4)
    hooks = [("blocks.0.mlp.hook_post", lambda tensor, hook: tensor * 2)]
    part = ffb.decompose(model, tokens, layer=0, fwd_hooks=hooks)
    scope = part.scopes[3]
    total = part.parts(scope).sum(1) + part.bias(scope) + part.remainder(scope)
    torch.testing.assert_close(total, part.whole(scope), rtol=1e-4, atol=1e-4)
    assert part.remainder(scope).norm() > 0.1


SWITCHES = ["set_use_split_qkv_input", "set_use_attn_in", "set_use_attn_result", "set_use_hook_mlp_in"]


def _switched(family: str, switch: str, api: str) -> Any:
    model = tiny.bridge(family) if api == "bridge" else _hooked(family)
    if api == "bridge" and not hasattr(model, switch):
        pytest.skip(f"this bridge has no {switch}")
    getattr(model, switch)(True)
    return model


@pytest.mark.parametrize("api", ["bridge", "hooked"])
@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("family", ["gpt2", "gpt_neox"])
@pytest.mark.parametrize("from_cache", [False, True], ids=["run", "cache"])
def test_switches_of_path_patching(ffb: ModuleType, family: str, switch: str, api: str, from_cache: bool) -> None:
    """Inputs and results of single heads at HookPoints of their own change no map."""
    model, tokens = _switched(family, switch, api), tiny.tokens(family, 7)
    expected = ffb.contribution_maps(tiny.bridge(family) if api == "bridge" else _hooked(family), tokens)
    cache = model.run_with_cache(tokens[None])[1] if from_cache else None
    maps = ffb.contribution_maps(model, tokens, cache=cache)
    for scope in expected.scopes:
        torch.testing.assert_close(maps[scope], expected[scope], rtol=1e-4, atol=1e-4)
    assert float(maps.remainder["AtbLnFfResLn", 0].max()) < 1e-4


@pytest.mark.parametrize(("switch", "point"), [(SWITCHES[0], "hook_q_input"), (SWITCHES[1], "hook_attn_in")])
@pytest.mark.parametrize("heads", [slice(2, 3), slice(None)], ids=["one head", "all heads"])
def test_an_edit_of_heads_inputs_is_a_remainder(ffb: ModuleType, switch: str, point: str, heads: slice) -> None:
    """Path patching in layer 1 leaves layer 0 as it was, but for what layer 1's norm made of the heads' own inputs."""
    model, tokens = _switched("gpt2", switch, "hooked"), tiny.tokens("gpt2", 7)

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


def test_processed_hooked_transformer_is_warned_about(ffb: ModuleType) -> None:
    """`fold_ln` and `center_writing_weights` make another model of it."""
    model = _hooked("gpt2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.process_weights_(fold_ln=True, center_writing_weights=True)
    with pytest.warns(ProcessedWeightsWarning, match="from_pretrained_no_processing"):
        ffb.contribution_maps(model, tiny.tokens("gpt2", 4))


def test_sdpa_in_a_bridge_is_explained(ffb: ModuleType) -> None:
    """TransformerLens 3 leaves BERT with sdpa, which gives no pattern; 4 forces eager attention, which does."""
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    hf = tiny.hf_model("bert")
    hf.set_attn_implementation("sdpa")
    model = build_bridge_from_module(hf, "BertForMaskedLM", hf_config=hf.config).eval()
    tokens = tiny.tokens("bert", 4)
    _, cache = model.run_with_cache(tokens[None])
    if "blocks.0.attn.hook_pattern" in cache:
        assert len(ffb.contribution_maps(model, tokens).tokens) == 4
    else:
        with pytest.raises(NotImplementedError, match=r'no attention pattern.*attn_implementation="eager"'):
            ffb.contribution_maps(model, tokens)
