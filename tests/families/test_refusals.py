"""What is refused, and that the message says why: an FFBlockError that is a NotImplementedError."""

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from torch import nn

import tl_ffblock as ffb
from tests import tiny
from tests.cases import TL_3, Case, bridge_of, processed, wrapped
from tl_ffblock.errors import UnsupportedModelError

_SMALL = {**tiny._GQA, "head_dim": 8}
_LATENT = dict(kv_lora_rank=16, q_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=8)
_EXPERTS = dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, n_group=1, topk_group=1)


def boot(architecture: str, config: str, entries: dict[str, Any]) -> Any:
    """A bridge of an architecture without a place in `tests.tiny`."""
    cfg = getattr(transformers, config)(**entries)
    cfg.architectures = [architecture]
    with torch.random.fork_rng(devices=[]):
        return wrapped(getattr(transformers, architecture)._from_config(cfg, attn_implementation="eager"), architecture)


_TINY = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 64}
_T5 = {"d_model": 32, "num_layers": 2, "num_heads": 4, "d_kv": 8, "d_ff": 48, "vocab_size": 64}
_SIDES = [(f"{side}_{name}", n) for side in ("encoder", "decoder") for name, n in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))]  # fmt: skip
_BART = {"d_model": 32, "vocab_size": 64, "max_position_embeddings": 48, **dict(_SIDES)}
_VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
_FALCON_H1 = {**_SMALL, "mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8}
_MAMBA_2 = {"mamba_num_heads": 4, "mamba_head_dim": 16, "n_groups": 1, "ssm_state_size": 8}
_NEMOTRON = {**_SMALL, **_MAMBA_2, "layers_block_type": ["mamba", "attention", "mlp"], "num_hidden_layers": 3}
_FALCON = {**tiny.FAMILIES["falcon"].config, "new_decoder_architecture": True, "num_kv_heads": 4, "multi_query": False}
_JETMOE = {**tiny._BASE, "num_key_value_heads": 2, "kv_channels": 8, "num_local_experts": 4, "num_experts_per_tok": 2}
_GEMMA4 = dict(tiny.FAMILIES["gemma4"].config)
_GEMMA4_MOE = {**_GEMMA4, "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 24}
_GEMMA4_SHARED = {
    **_GEMMA4,
    "num_hidden_layers": 4,
    "num_kv_shared_layers": 2,
    "layer_types": 2 * _GEMMA4["layer_types"],
}
_GEMMA4_INPUTS = {**_GEMMA4, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": tiny.VOCAB}
# fmt: off
REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    ("FalconH1ForCausalLM", "FalconH1Config", _FALCON_H1, "attn and mamba in parallel"),
    ("NemotronHForCausalLM", "NemotronHConfig", _NEMOTRON, r"layer \d: its token mixer \(NemotronHAttention\) has no known form"),
    ("RwkvForCausalLM", "RwkvConfig", _TINY, "time_mix"),
    ("T5ForConditionalGeneration", "T5Config", _T5, "encoder-decoder"),
    ("BartForConditionalGeneration", "BartConfig", _BART, "encoder-decoder"),
    ("ViTModel", "ViTConfig", _VIT, "audio or images"),
    ("OPTForCausalLM", "OPTConfig", {**tiny.FAMILIES["opt"].config, "do_layer_norm_before": False}, "do_layer_norm_before=False.*Post-LN"),
    ("BertForMaskedLM", "BertConfig", {**tiny.FAMILIES["bert"].config, "is_decoder": True}, "is_decoder=True.*bidirectional"),
    ("FalconForCausalLM", "FalconConfig", _FALCON, "new_decoder_architecture"),
    ("OlmoForCausalLM", "OlmoConfig", {**tiny._GQA, "clip_qkv": 0.01}, "pattern x value W_O"),
    ("Gemma4ForCausalLM", "Gemma4TextConfig", _GEMMA4_SHARED, "num_kv_shared_layers > 0 .* keys and values of an earlier layer"),
    ("Gemma4ForCausalLM", "Gemma4TextConfig", _GEMMA4_INPUTS, "hidden_size_per_layer_input > 0 .* third branch"),
    ("Gemma4ForCausalLM", "Gemma4TextConfig", _GEMMA4_MOE, "enable_moe_block=True .* side by side"),
    ("Gemma4ForCausalLM", "Gemma4TextConfig", {**_GEMMA4, "use_bidirectional_attention": "all"}, "attend to later ones"),
    ("JetMoeForCausalLM", "JetMoeConfig", _JETMOE, r"layer 0: its mixture of experts \(JetMoeMoE\) has no module `experts`"),
]
# fmt: on


@pytest.mark.parametrize(("architecture", "config", "entries", "reason"), REFUSED, ids=[r[0] for r in REFUSED])
def test_refused_with_the_reason(architecture: str, config: str, entries: dict[str, Any], reason: str) -> None:
    """No number appears, and the message names what the block does."""
    try:
        model = boot(architecture, config, entries)
    except (TypeError, AttributeError) as error:
        pytest.skip(f"cannot be built tiny with this transformers: {error}")
    with pytest.raises(ffb.FFBlockError, match=reason) as refused:
        ffb.contribution_maps(model, torch.arange(5, 12))
    assert (
        isinstance(refused.value, NotImplementedError) or architecture == "OlmoForCausalLM"
    )  # listed: an IdentityError


@pytest.mark.parametrize("family", ["cohere", "cohere2", "hunyuan"])
def test_what_transformer_lens_3_runs_wrongly(family: str) -> None:
    """Its bridge of these is another model than Hugging Face's: refused, with the version that helps."""
    if not TL_3:
        pytest.skip("TransformerLens 4 knows the option")
    with pytest.raises(NotImplementedError, match=r"TransformerLens 4"):
        ffb.contribution_maps(tiny.bridge(family), tiny.tokens(family, 5))


def test_a_final_norm_without_a_hook_point_is_refused() -> None:
    """OPT with an embedding of another width: the bridge has no component for the norm, which would be left out of the last scope."""
    from tl_ffblock.check import check_model

    model, tokens = tiny.bridge("opt", word_embed_proj_dim=16), tiny.tokens("opt", 5)
    refusal = (
        r"(?s)the input of project_out is not .* AtbLnFfResLn .*final_layer_norm \(LayerNorm\).* layers=range\(1\)"
    )
    for call in (
        lambda: ffb.contribution_maps(model, tokens),
        lambda: ffb.contribution_maps(model, tokens, layers=-1),
        lambda: ffb.attribute(model, tokens, ffb.logit(7)),
    ):
        with pytest.raises(UnsupportedModelError, match=refusal):
            call()
    result = check_model(model, tokens)
    assert not result.ok
    assert "final_layer_norm" in result.verdict()
    assert ffb.contribution_maps(model, tokens, layers=range(1)).worst_completeness()[0] < 1e-5
    without = tiny.bridge("opt", word_embed_proj_dim=16, _remove_final_layer_norm=True)
    maps = ffb.contribution_maps(without, tokens)
    assert torch.equal(maps["AtbLnFfResLn", 1], maps["AtbLnFfRes", 1])


def test_check_model_holds_what_enters_the_unembedding() -> None:
    """Something between the final norm and the unembedding, which no scope has."""
    from tl_ffblock.check import check_model

    def turned(module: nn.Module, args: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state.flip(-1)
        return output

    hf = tiny.hf_model("llama")
    hf.model.register_forward_hook(turned)
    result = check_model(wrapped(hf, "LlamaForCausalLM"), tiny.tokens("llama", 5))
    assert not result.ok
    assert "the input of unembed is not the last layer's AtbLnFfResLn" in result.verdict()


def quantised() -> Any:
    """Integers in place of a matrix."""
    model = tiny.bridge("llama_nobias")
    linear = model.blocks[1].mlp.original_component.down_proj
    linear = getattr(linear, "original_component", linear)
    linear.weight = nn.Parameter((linear.weight * 10).to(torch.int8), requires_grad=False)
    return model


def remote() -> Any:
    """Weights on a server."""
    return type("RemoteBridge", (), {"training": False, "cfg": SimpleNamespace()})()


def hooked(act_fn: str) -> Any:
    """TransformerLens 3: a HookedTransformer as it is made, with gains of one."""
    if not TL_3:
        pytest.skip("HookedTransformer left TransformerLens in 4.0")
    import transformer_lens

    entries = dict(n_layers=2, d_model=16, n_ctx=16, d_head=8, d_vocab=40, act_fn=act_fn, normalization_type="LN")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return transformer_lens.HookedTransformer(transformer_lens.HookedTransformerConfig(**entries)).eval()


REFUSED_MODELS: dict[str, tuple[Callable[[], Any], str]] = {
    "epsilon that does not run": (lambda: bridge_of("starcoder2", norm_epsilon=1.1e-5), r"layer 0: ln1 .*1\.1e-05.*1e-05"),
    "both directions": (lambda: bridge_of("gemma3", use_bidirectional_attention=True), "use_bidirectional_attention=True"),
    "processed sinks": (lambda: processed(bridge_of("gpt_oss")), "attention sinks.*no_processing=True"),
    "quantised": (quantised, "layer 1: .*torch.int8.*torchao"),
    "offloaded": (lambda: tiny.bridge("gpt2").to("meta"), "weights on no device"),
    "remote": (remote, "weights on a server"),
    "SoLU": (lambda: hooked("solu"), "layer 0, act_fn='solu': .*elementwise"),
    "SoLU with its norm": (lambda: hooked("solu_ln"), "layer 0"),
    "hooked experts": (lambda: Case("gpt_oss", "hooked").fresh(swiglu_limit=7.0), "as a HookedTransformer"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_MODELS)
def test_a_model_that_no_map_can_be_read_of_is_refused(name: str) -> None:
    """By an error that one `except` of either kind catches."""
    make, reason = REFUSED_MODELS[name]
    with pytest.raises(NotImplementedError, match=reason) as refused:
        ffb.contribution_maps(make(), torch.arange(5, 10))
    assert isinstance(refused.value, UnsupportedModelError) and isinstance(refused.value, ffb.FFBlockError)


def test_neighbours_of_what_is_refused_are_not() -> None:
    """The usual epsilon; gains of one, as initialisation gives, are no processing."""
    ffb.contribution_maps(bridge_of("starcoder2", norm_epsilon=1e-5), tiny.tokens("starcoder2", 5))
    assert ffb.contribution_maps(hooked("gelu"), torch.arange(5, 12)).provenance["weights"] == "raw"
