"""What is refused, and that the message says why: an FFBlockError that is a NotImplementedError."""

from collections.abc import Callable
from importlib.metadata import version
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from tests import tiny
from tl_ffblock.errors import UnsupportedModelError

pytestmark = pytest.mark.filterwarnings("ignore:Hooked.* is deprecated:DeprecationWarning")  # TransformerLens 3 says so

_SMALL = {**tiny._GQA, "head_dim": 8}
_LATENT = dict(kv_lora_rank=16, q_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=8)
_EXPERTS = dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, n_group=1, topk_group=1)


def boot(architecture: str, config: str, entries: dict[str, Any]) -> Any:
    """A bridge of an architecture without a place in `tests.tiny`."""
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    cfg = getattr(transformers, config)(**entries)
    cfg.architectures = [architecture]
    with torch.random.fork_rng(devices=[]):
        hf = getattr(transformers, architecture)._from_config(cfg, attn_implementation="eager")
    return build_bridge_from_module(hf.eval(), architecture, hf_config=cfg).eval()


REFUSED = [
    (
        "MambaForCausalLM",
        "MambaConfig",
        {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 64},
        "state-space, recurrent",
    ),
    (
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        {**_SMALL, **_EXPERTS, "num_experts": 4, "layer_types": ["linear_attention", "full_attention"]},
        "linear_attn mixes tokens without an attention pattern",
    ),
    (
        "RwkvForCausalLM",
        "RwkvConfig",
        {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 64},
        "time_mix mixes tokens",
    ),
    ("DeepseekV3ForCausalLM", "DeepseekV3Config", {**_SMALL, **_LATENT, **_EXPERTS}, r"latent attention \(MLA\)"),
    (
        "T5ForConditionalGeneration",
        "T5Config",
        {"d_model": 32, "num_layers": 2, "num_heads": 4, "d_kv": 8, "d_ff": 48, "vocab_size": 64},
        "encoder-decoder",
    ),
    (
        "BartForConditionalGeneration",
        "BartConfig",
        {"d_model": 32, "vocab_size": 64, "max_position_embeddings": 48}
        | {
            f"{side}_{entry}": n
            for side in ("encoder", "decoder")
            for entry, n in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))
        },
        "encoder-decoder",
    ),
    (
        "ViTModel",
        "ViTConfig",
        {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48},
        "sounds or images",
    ),
    (
        "OPTForCausalLM",
        "OPTConfig",
        {**tiny.FAMILIES["opt"].config, "do_layer_norm_before": False},
        r"OPT-350m\) is Post-LN",
    ),
    (
        "BertForMaskedLM",
        "BertConfig",
        {**tiny.FAMILIES["bert"].config, "is_decoder": True},
        "expected the bidirectional encoder",
    ),
    (
        "GraniteForCausalLM",
        "GraniteConfig",
        {**tiny._GQA, "residual_multiplier": 0.5},
        r"multiplied by 0.5 .* Attn \+ resid_pre = Atb does not hold",
    ),
    (
        "FalconForCausalLM",
        "FalconConfig",
        {**tiny.FAMILIES["falcon"].config, "new_decoder_architecture": True, "num_kv_heads": 4, "multi_query": False},
        "new_decoder_architecture",
    ),
    ("OlmoForCausalLM", "OlmoConfig", {**tiny._GQA, "clip_qkv": 0.01}, "pattern x value W_O"),
    ("Glm4MoeForCausalLM", "Glm4MoeConfig", {**_SMALL, **_EXPERTS, "first_k_dense_replace": 1}, "sum over experts"),
    (
        "Llama4ForCausalLM",
        "Llama4TextConfig",
        {**_SMALL, "num_local_experts": 4, "intermediate_size_mlp": 48},
        "router of its experts has no HookPoint",
    ),
]


@pytest.mark.parametrize(("architecture", "config", "entries", "reason"), REFUSED, ids=[r[0] for r in REFUSED])
def test_refused_with_the_reason(
    ffb: ModuleType, architecture: str, config: str, entries: dict[str, Any], reason: str
) -> None:
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


@pytest.mark.parametrize("family", ["cohere", "cohere2", "hunyuan", "gpt_oss"])
def test_what_transformer_lens_3_runs_wrongly(ffb: ModuleType, family: str) -> None:
    """Its bridge of these is another model than Hugging Face's, or hides the router: refused, with the version that helps."""
    if not version("transformer-lens").startswith("3."):
        pytest.skip("TransformerLens 4 runs it rightly")
    with pytest.raises(NotImplementedError, match=r"TransformerLens 4"):
        ffb.contribution_maps(tiny.bridge(family), tiny.tokens(family, 5))


def quantised() -> Any:
    """Integers in place of a matrix."""
    model = tiny.bridge("llama_nobias")
    linear = model.blocks[1].mlp.original_component.down_proj
    linear = getattr(linear, "original_component", linear)
    linear.weight = nn.Parameter((linear.weight * 10).to(torch.int8), requires_grad=False)
    return model


def processed(family: str) -> Any:
    """With processed weights."""
    model = tiny.bridge(family)
    model.enable_compatibility_mode()
    return model


class RemoteBridge:
    """Weights on a server."""

    training = False
    cfg = SimpleNamespace()


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        # StarCoder2's bridge computes its norms with 1e-5, whatever the module says: too little for any tolerance to see.
        (
            lambda: tiny.bridge("starcoder2", norm_epsilon=1.1e-5),
            r"layer 0: ln1 has an epsilon of 1\.1e-05, .* runs it with 1e-05",
        ),
        (lambda: tiny.bridge("gemma3", use_bidirectional_attention=True), "use_bidirectional_attention=True"),
        (lambda: processed("gpt_oss"), "attention sinks, and its weights were processed.*no_processing=True"),
        (quantised, r"layer 1: .*torch.int8: quantised weights cannot be read exactly"),
        (lambda: tiny.bridge("gpt2").to("meta"), "weights on no device"),
        (RemoteBridge, "weights on a server"),
    ],
    ids=["epsilon", "bidirectional", "sinks", "quantised", "offloaded", "remote"],
)
def test_a_model_of_a_family_that_is_another(ffb: ModuleType, make: Callable[[], Any], reason: str) -> None:
    """An option, an edit or a place of its weights makes another model of it."""
    with pytest.raises(NotImplementedError, match=reason):
        ffb.contribution_maps(make(), tiny.tokens("gpt2", 5))


def test_an_epsilon_that_runs(ffb: ModuleType) -> None:
    """The same option with the number that TransformerLens computes with."""
    ffb.contribution_maps(tiny.bridge("starcoder2", norm_epsilon=1e-5), tiny.tokens("starcoder2", 5))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"act_fn": "solu"}, "layer 0, act_fn='solu': the activation .* is not elementwise"),
        ({"act_fn": "solu_ln"}, "activation|layer 0"),
    ],
    ids=str,
)
def test_hooked_transformers_of_another_form(ffb: ModuleType, changes: dict[str, Any], reason: str) -> None:
    """TransformerLens 3: SoLU (its softmax mixes neurons), with and without its norm."""
    try:
        from transformer_lens import HookedTransformer, HookedTransformerConfig
    except ImportError:
        pytest.skip("HookedTransformer left TransformerLens in 4.0")
    entries = (
        dict(n_layers=2, d_model=16, n_ctx=16, d_head=8, d_vocab=40, act_fn="gelu", normalization_type="LN") | changes
    )
    model = HookedTransformer(HookedTransformerConfig(**entries)).eval()
    with pytest.raises(NotImplementedError, match=reason):
        ffb.contribution_maps(model, torch.arange(5, 12))


@pytest.mark.parametrize("processed", [False, True])
def test_hooked_gpt_oss(ffb: ModuleType, processed: bool) -> None:
    """TransformerLens 3: its experts are of another form there, processed or not."""
    try:
        model = tiny.hooked("gpt_oss", swiglu_limit=7.0)
    except RuntimeError as error:
        pytest.skip(f"no HookedTransformer of gpt_oss here: {error}")
    if processed:
        model.process_weights_()
    with pytest.raises(ffb.FFBlockError) as refused:
        ffb.contribution_maps(model, tiny.tokens("gpt_oss", 5))
    assert isinstance(refused.value, NotImplementedError)
    assert "as a HookedTransformer is not supported" in str(refused.value)


def test_the_error_is_both(ffb: ModuleType) -> None:
    """One `except` of either kind catches every refusal."""
    assert issubclass(UnsupportedModelError, (ffb.FFBlockError,))
    assert issubclass(UnsupportedModelError, (NotImplementedError,))


def test_bridges_of_transformer_lens_4_are_recognised_by_name_only(identify: Callable[[Any], Any]) -> None:
    """Nothing is imported to recognise a model: a class of that name and form is enough, another is no model."""
    with pytest.raises(ValueError, match="expected a TransformerLens model"):
        identify(nn.Linear(2, 2))


def test_a_final_norm_without_a_hook_point_is_refused(ffb: ModuleType) -> None:
    """OPT with an embedding of another width: the bridge has no component for the norm, which would be left out of the last scope."""
    from tl_ffblock.check import check_model

    model, tokens = tiny.bridge("opt", word_embed_proj_dim=16), tiny.tokens("opt", 5)
    refusal = r"(?s)enters project_out is not .* AtbLnFfResLn .*final_layer_norm \(LayerNorm\).* layers=range\(1\)"
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
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    from tl_ffblock.check import check_model

    def turned(module: nn.Module, args: Any, output: Any) -> Any:
        output.last_hidden_state = output.last_hidden_state.flip(-1)
        return output

    hf = tiny.hf_model("llama")
    hf.model.register_forward_hook(turned)
    result = check_model(
        build_bridge_from_module(hf, "LlamaForCausalLM", hf_config=hf.config).eval(), tiny.tokens("llama", 5)
    )
    assert not result.ok
    assert "what enters unembed is not the last layer's AtbLnFfResLn" in result.verdict()
