"""Tiny random-weight models of every supported family, built offline from a config.

1. `FAMILIES` names the Hugging Face classes and the config of each family (d_model 32, 4 heads, 2 or 3 layers,
   context 48).
2. `hf_model` builds one and overwrites every parameter: zero biases and unit gains hide mistakes. The value of a
   parameter depends on the seed and its name alone, so two classes that share a name (BertForMaskedLM and
   BertForPreTraining) share its value, and float64 models hold the float32 numbers.
3. `bridge` and `hooked` wrap a fresh copy, since TransformerLens changes the model it is given.

No network and no `tl_ffblock` here: this is the independent side of the tests.
"""

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from torch import Tensor, nn

D_MODEL, N_HEADS, N_KV, D_HEAD, D_MLP, N_CTX, VOCAB = 32, 4, 2, 8, 48, 48, 64
N_SPECIAL = 5  # ids below this are left to padding, BOS, EOS, CLS, SEP in every family


@dataclass(frozen=True)
class Family:
    """How to build the tiny model of one family."""

    name: str
    model_class: str
    """Class in `transformers`."""
    config_class: str
    config: Mapping[str, Any] = field(repr=False)
    architecture: str = ""
    """Name by which TransformerLens picks its adapter; by default that of the model class."""

    def __post_init__(self) -> None:
        """Freeze the config and fill in the architecture."""
        object.__setattr__(self, "config", MappingProxyType(dict(self.config)))
        object.__setattr__(self, "architecture", self.architecture or self.model_class)


_IDS = {"vocab_size": VOCAB, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_GPT2 = dict(n_embd=D_MODEL, n_head=N_HEADS, n_layer=3, n_positions=N_CTX, n_inner=D_MLP, **_IDS)
_SHAPE = dict(hidden_size=D_MODEL, num_attention_heads=N_HEADS, num_hidden_layers=2, **_IDS)
_CTX = {"max_position_embeddings": N_CTX}
_BASE = dict(intermediate_size=D_MLP, **_CTX, **_SHAPE)
_GQA = dict(num_key_value_heads=N_KV, **_BASE)
_BERT = {**_BASE, "num_hidden_layers": 3, "hidden_act": "gelu"}
_OPT = {"ffn_dim": D_MLP, "word_embed_proj_dim": D_MODEL, "do_layer_norm_before": True, "activation_function": "relu"}
_WIDE_HEAD = {"head_dim": 16}  # n_heads * d_head != d_model, as in Gemma and Qwen3
_SANDWICH = {
    **_GQA,
    **_WIDE_HEAD,
    "num_hidden_layers": 3,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "sliding_window": 4,
    "query_pre_attn_scalar": 24,  # not head_dim, as in the 27B models
}
_QWEN_MOE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, **_GQA)
_MIXTRAL = dict(num_local_experts=4, num_experts_per_tok=2, **_GQA)
_GPT_OSS = dict(
    head_dim=D_HEAD,
    sliding_window=4,
    swiglu_limit=2.0,  # low, so that the clamps of the gated FF act
    rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    **_MIXTRAL,
)

_GRANITE = {
    "embedding_multiplier": 3.0,
    "attention_multiplier": 0.2,
    "logits_scaling": 2.0,
    "residual_multiplier": 0.4,
}  # 12, 1/64, 8 and 0.22 at Granite 3

_LATENT = {  # values narrower than queries, and another rank
    **_BASE,
    **dict(
        num_key_value_heads=N_HEADS,
        q_lora_rank=10,
        kv_lora_rank=12,
        qk_nope_head_dim=8,
        qk_rope_head_dim=4,
        v_head_dim=6,
    ),
    **dict(
        n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, n_shared_experts=1, first_k_dense_replace=1
    ),
    **dict(n_group=2, topk_group=1, routed_scaling_factor=1.7),
}

_DELTA = {
    "layer_types": ["linear_attention", "full_attention"],
    **dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6, linear_value_head_dim=8),
    "linear_conv_kernel_dim": 3,
}
_STATES = dict(
    hidden_size=D_MODEL, num_hidden_layers=2, state_size=5, conv_kernel=3, use_bias=True, chunk_size=4, **_IDS
)
_MAMBA_2 = dict(mamba_n_heads=4, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=5, mamba_d_conv=3, mamba_chunk_size=4)
_MAMBA_1 = dict(
    mamba_d_state=5, mamba_d_conv=3, mamba_dt_rank=4, attn_layer_period=2, attn_layer_offset=1, num_experts=4
)

_LIST = (
    Family("gpt2", "GPT2LMHeadModel", "GPT2Config", {**_GPT2, "activation_function": "gelu_new"}),
    Family("gpt2_relu", "GPT2LMHeadModel", "GPT2Config", {**_GPT2, "activation_function": "relu"}),
    Family("opt", "OPTForCausalLM", "OPTConfig", {**_OPT, **_CTX, **_SHAPE}),
    Family(
        "llama",
        "LlamaForCausalLM",
        "LlamaConfig",
        {**_GQA, "num_hidden_layers": 3, "attention_bias": True, "mlp_bias": True},
    ),
    Family("llama_nobias", "LlamaForCausalLM", "LlamaConfig", _GQA),
    Family("mistral", "MistralForCausalLM", "MistralConfig", dict(sliding_window=4, **_GQA)),
    Family("qwen2", "Qwen2ForCausalLM", "Qwen2Config", _GQA),
    Family("qwen3", "Qwen3ForCausalLM", "Qwen3Config", {**_GQA, **_WIDE_HEAD}),
    Family("gemma", "GemmaForCausalLM", "GemmaConfig", {**_GQA, **_WIDE_HEAD, "num_key_value_heads": 1}),
    Family("gemma2", "Gemma2ForCausalLM", "Gemma2Config", _SANDWICH),
    Family("gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", _SANDWICH),
    Family("gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXConfig", _BASE),
    Family("gpt_neox_serial", "GPTNeoXForCausalLM", "GPTNeoXConfig", dict(use_parallel_residual=False, **_BASE)),
    Family("phi", "PhiForCausalLM", "PhiConfig", _BASE),
    Family("gptj", "GPTJForCausalLM", "GPTJConfig", {**_GPT2, "n_layer": 2, "rotary_dim": 4}),
    Family("falcon", "FalconForCausalLM", "FalconConfig", dict(ffn_hidden_size=D_MLP, **_CTX, **_SHAPE)),
    Family("bloom", "BloomForCausalLM", "BloomConfig", dict(hidden_size=D_MODEL, n_head=N_HEADS, n_layer=2, **_IDS)),
    Family("olmo2", "Olmo2ForCausalLM", "Olmo2Config", _GQA),
    Family("mixtral", "MixtralForCausalLM", "MixtralConfig", _MIXTRAL),
    Family("qwen2_moe", "Qwen2MoeForCausalLM", "Qwen2MoeConfig", dict(shared_expert_intermediate_size=40, **_QWEN_MOE)),
    Family("qwen3_moe", "Qwen3MoeForCausalLM", "Qwen3MoeConfig", {**_QWEN_MOE, **_WIDE_HEAD}),
    Family("gpt_oss", "GptOssForCausalLM", "GptOssConfig", _GPT_OSS),
    Family(
        "ernie4_5_moe",
        "Ernie4_5_MoeForCausalLM",
        "Ernie4_5_MoeConfig",
        dict(moe_num_experts=4, moe_k=2, moe_intermediate_size=24, moe_num_shared_experts=1, **_GQA),
    ),
    Family(
        "glm4_moe",
        "Glm4MoeForCausalLM",
        "Glm4MoeConfig",
        dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, n_group=2, **_GQA, **_WIDE_HEAD),
    ),
    Family("minimax_m2", "MiniMaxM2ForCausalLM", "MiniMaxM2Config", {**_MIXTRAL, **_WIDE_HEAD}),
    Family(
        "phimoe", "PhimoeForCausalLM", "PhimoeConfig", dict(router_jitter_noise=0.4, **_MIXTRAL), "PhiMoEForCausalLM"
    ),
    Family("deepseek_v2", "DeepseekV2ForCausalLM", "DeepseekV2Config", {**_LATENT, "q_lora_rank": None}),
    Family("deepseek_v3", "DeepseekV3ForCausalLM", "DeepseekV3Config", _LATENT),
    Family("glm4_moe_lite", "Glm4MoeLiteForCausalLM", "Glm4MoeLiteConfig", _LATENT),
    Family("youtu", "YoutuForCausalLM", "YoutuConfig", _LATENT),
    Family(
        "afmoe",
        "AfmoeForCausalLM",
        "AfmoeConfig",
        dict(
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=24,
            num_dense_layers=1,
            sliding_window=4,
            **_GQA,
            **_WIDE_HEAD,
        ),
    ),
    Family(
        "laguna",
        "LagunaForCausalLM",
        "LagunaConfig",
        dict(head_dim=D_HEAD, moe_routed_scaling_factor=1.6, mlp_layer_types=["dense", "sparse"], **_QWEN_MOE),
    ),
    Family(
        "qwen3_next",
        "Qwen3NextForCausalLM",
        "Qwen3NextConfig",
        dict(layer_types=["full_attention"] * 2, shared_expert_intermediate_size=40, **_QWEN_MOE, **_WIDE_HEAD),
    ),
    Family("bitnet", "BitNetForCausalLM", "BitNetConfig", {**_GQA, "hidden_act": "relu2"}),
    Family(
        "modernbert_decoder",
        "ModernBertDecoderForCausalLM",
        "ModernBertDecoderConfig",
        dict(mlp_bias=True, attention_bias=True, classifier_bias=True, norm_bias=True, local_attention=4, **_BASE),
    ),
    Family(
        "llama4",
        "Llama4ForCausalLM",
        "Llama4TextConfig",
        {
            **_MIXTRAL,
            **_WIDE_HEAD,
            "intermediate_size": 24,
            "intermediate_size_mlp": D_MLP,
            "moe_layers": [1],
            "no_rope_layers": [1, 0],
            "attention_chunk_size": 4,
            "floor_scale": 2,
        },
    ),
    Family(
        "gemma4",
        "Gemma4ForCausalLM",
        "Gemma4TextConfig",
        dict(
            head_dim=16,
            global_head_dim=24,
            num_global_key_value_heads=1,
            attention_k_eq_v=True,
            hidden_size_per_layer_input=0,
            layer_types=["sliding_attention", "full_attention"],
            sliding_window=4,
            **_GQA,
        ),
    ),
    Family("qwen3_5", "Qwen3_5ForCausalLM", "Qwen3_5TextConfig", {**_DELTA, **_GQA, **_WIDE_HEAD}),
    Family("bamba", "BambaForCausalLM", "BambaConfig", {**_MAMBA_2, "attn_layer_indices": [1], **_GQA}),
    Family("mamba2", "Mamba2ForCausalLM", "Mamba2Config", {**_STATES, "num_heads": 4, "head_dim": 16, "n_groups": 2}),
    Family("mamba", "MambaForCausalLM", "MambaConfig", _STATES),
    Family("falcon_mamba", "FalconMambaForCausalLM", "FalconMambaConfig", _STATES),
    Family("jamba", "JambaForCausalLM", "JambaConfig", {**_MAMBA_1, **_GQA}),
    Family("granite_moe", "GraniteMoeForCausalLM", "GraniteMoeConfig", {**_MIXTRAL, **_GRANITE}),
    Family("bert", "BertForMaskedLM", "BertConfig", _BERT),
    Family("roberta", "RobertaForMaskedLM", "RobertaConfig", {**_BERT, "pad_token_id": 1, "bos_token_id": 0}),
)
FAMILIES: dict[str, Family] = {family.name: family for family in _LIST}
"""Families that `tests.oracle` decomposes on its own."""

_NEO = {"num_heads": N_HEADS, "num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 4}
_D_MODEL = dict(d_model=D_MODEL, **_IDS)
_SLIDING = {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}
_MORE = (
    Family("gpt_neo", "GPTNeoForCausalLM", "GPTNeoConfig", {**_NEO, **_CTX, **_SHAPE, "intermediate_size": D_MLP}),
    Family("gpt_bigcode", "GPTBigCodeForCausalLM", "GPTBigCodeConfig", {**_GPT2, "n_layer": 2}),
    Family(
        "xglm",
        "XGLMForCausalLM",
        "XGLMConfig",
        dict(attention_heads=N_HEADS, num_layers=2, ffn_dim=D_MLP, **_CTX, **_D_MODEL),
    ),
    Family("mpt", "MptForCausalLM", "MptConfig", dict(n_heads=N_HEADS, n_layers=2, max_seq_len=N_CTX, **_D_MODEL)),
    Family(
        "ministral3", "Ministral3ForCausalLM", "Ministral3Config", {**_GQA, "head_dim": D_HEAD, "sliding_window": 4}
    ),
    Family("phi3", "Phi3ForCausalLM", "Phi3Config", _GQA),
    Family("glm", "GlmForCausalLM", "GlmConfig", {**_GQA, "head_dim": D_HEAD}),
    Family("olmo", "OlmoForCausalLM", "OlmoConfig", _GQA),
    Family("smollm3", "SmolLM3ForCausalLM", "SmolLM3Config", _GQA),
    Family("stablelm", "StableLmForCausalLM", "StableLmConfig", {**_GQA, "use_qkv_bias": True}),
    Family("stablelm_parallel", "StableLmForCausalLM", "StableLmConfig", {**_GQA, "use_parallel_residual": True}),
    Family("starcoder2", "Starcoder2ForCausalLM", "Starcoder2Config", {**_GQA, "sliding_window": 4}),
    Family("nemotron", "NemotronForCausalLM", "NemotronConfig", {**_GQA, "head_dim": D_HEAD}),
    Family("apertus", "ApertusForCausalLM", "ApertusConfig", _GQA),
    Family("arcee", "ArceeForCausalLM", "ArceeConfig", _GQA),
    Family("ernie4_5", "Ernie4_5ForCausalLM", "Ernie4_5Config", {**_GQA, "head_dim": D_HEAD, "use_bias": True}),
    Family("granite", "GraniteForCausalLM", "GraniteConfig", {**_GQA, **_GRANITE}),
    Family("hunyuan", "HunYuanDenseV1ForCausalLM", "HunYuanDenseV1Config", {**_GQA, "head_dim": D_HEAD}),
    Family("jais2", "Jais2ForCausalLM", "Jais2Config", {**_GQA, "head_dim": D_HEAD}),
    Family("nanochat", "NanoChatForCausalLM", "NanoChatConfig", {**_GQA, "head_dim": D_HEAD}),
    Family("seed_oss", "SeedOssForCausalLM", "SeedOssConfig", {**_GQA, **_WIDE_HEAD}),
    Family("vaultgemma", "VaultGemmaForCausalLM", "VaultGemmaConfig", {**_GQA, **_WIDE_HEAD, **_SLIDING}),
    Family("olmoe", "OlmoeForCausalLM", "OlmoeConfig", dict(num_experts=4, num_experts_per_tok=2, **_GQA)),
    Family("codegen", "CodeGenForCausalLM", "CodeGenConfig", {**_GPT2, "n_layer": 2, "rotary_dim": 4}),
    Family("cohere", "CohereForCausalLM", "CohereConfig", _GQA),
    Family("cohere2", "Cohere2ForCausalLM", "Cohere2Config", {**_GQA, **_SLIDING, "head_dim": D_HEAD}),
    Family("glm4", "Glm4ForCausalLM", "Glm4Config", {**_GQA, "head_dim": D_HEAD}),
    Family("olmo3", "Olmo3ForCausalLM", "Olmo3Config", {**_GQA, **_SLIDING}),
    Family("flex_olmo", "FlexOlmoForCausalLM", "FlexOlmoConfig", dict(num_experts=4, num_experts_per_tok=2, **_GQA)),
    Family("exaone4", "Exaone4ForCausalLM", "Exaone4Config", {**_GQA, **_SLIDING, "head_dim": D_HEAD}),
    Family("openai_gpt", "OpenAIGPTLMHeadModel", "OpenAIGPTConfig", {**_GPT2, "n_layer": 2}),
)
MORE_FAMILIES: dict[str, Family] = {family.name: family for family in _MORE}
"""Families without an oracle of their own: checked against Hugging Face's outputs and captum."""
ALL_FAMILIES: dict[str, Family] = {**FAMILIES, **MORE_FAMILIES}


def hf_model(family: str, seed: int = 0, dtype: torch.dtype = torch.float32, **config_overrides: Any) -> nn.Module:
    """The Hugging Face model of a family with every parameter perturbed, in eval mode, with eager attention.

    Args:
        family: A key of `ALL_FAMILIES`.
        seed: Same seed, same weights, whatever the dtype.
        dtype: Weights are drawn in float32 and then cast.
        **config_overrides: Entries of the config that differ from the family's.
    """
    return _build(ALL_FAMILIES[family], ALL_FAMILIES[family].model_class, seed, dtype, config_overrides)


def bridge(family: str, seed: int = 0, dtype: torch.dtype = torch.float32, **config_overrides: Any) -> Any:
    """A TransformerBridge over a fresh `hf_model` of the same arguments, without a tokenizer."""
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    model = hf_model(family, seed, dtype, **config_overrides)
    return build_bridge_from_module(model, ALL_FAMILIES[family].architecture, hf_config=model.config).eval()


def hooked(family: str, seed: int = 0, dtype: torch.dtype = torch.float32, **config_overrides: Any) -> Any:
    """The same model as a HookedTransformer or HookedEncoder, raw weights; TransformerLens 3 only.

    Raises:
        RuntimeError: on TransformerLens 4, and for a family that these classes cannot hold.
    """
    if family not in HOOKED:
        raise RuntimeError(f"HookedTransformer cannot hold {family!r} (its biases or norms); it can {sorted(HOOKED)}")
    try:
        from transformer_lens import HookedEncoder, HookedTransformer, HookedTransformerConfig
        from transformer_lens.pretrained import weight_conversions
    except ImportError as error:
        raise RuntimeError("HookedTransformer left TransformerLens in 4.0: use transformer-lens<4 here") from error
    model_class, converter, rest = HOOKED[family]
    model = _build(FAMILIES[family], model_class or FAMILIES[family].model_class, seed, dtype, config_overrides)
    config = HookedTransformerConfig(**_hooked_config(model.config), **rest(model.config), dtype=dtype)
    weights = getattr(weight_conversions, f"convert_{converter}_weights")(model, config)
    weights = {name: value.detach().clone() for name, value in weights.items()}
    kind = HookedEncoder if family == "bert" else HookedTransformer
    wrapped = kind(config, tokenizer=None, move_to_device=False)
    if family == "bert":
        wrapped.load_state_dict(weights, strict=False)
    else:
        raw = {"fold_ln": False, "center_writing_weights": False, "center_unembed": False, "fold_value_biases": False}
        wrapped.load_and_process_state_dict(weights, **raw)
    return wrapped.to(dtype).eval()


TOYS: dict[str, dict[str, Any]] = {
    "no_norms": {"normalization_type": None, "act_fn": "gelu"},
    "no_norms_gated": {"normalization_type": None, "act_fn": "silu", "gated_mlp": True},
    "attn_only": {"normalization_type": "LN", "attn_only": True, "act_fn": "gelu"},
    "attn_only_no_norms": {"normalization_type": None, "attn_only": True, "act_fn": "gelu"},
}
"""TransformerLens' own toy models, by what a configuration of them leaves out."""
_TOY = dict(n_layers=2, d_model=D_MODEL, n_heads=N_HEADS, d_head=D_HEAD, d_mlp=D_MLP, n_ctx=N_CTX, d_vocab=VOCAB)


def toy(name: str, api: str, seed: int = 0, **changes: Any) -> Any:
    """A perturbed toy model as a native bridge or a HookedTransformer (TransformerLens 3), in eval mode.

    Raises:
        RuntimeError: for a HookedTransformer on TransformerLens 4.
    """
    entries = {**_TOY, **TOYS[name], **changes}
    if api == "bridge":
        from transformer_lens.config import TransformerBridgeConfig
        from transformer_lens.model_bridge import TransformerBridge

        with torch.random.fork_rng(devices=[]):
            model = TransformerBridge.boot_native(TransformerBridgeConfig(**entries))
        perturb(model.original_model, seed)
        return model.eval()
    try:
        from transformer_lens import HookedTransformer, HookedTransformerConfig
    except ImportError as error:
        raise RuntimeError("HookedTransformer left TransformerLens in 4.0: use transformer-lens<4 here") from error
    with torch.random.fork_rng(devices=[]):
        model = HookedTransformer(HookedTransformerConfig(**entries))
    perturb(model, seed)
    if entries.get("gated_mlp"):  # it adds b_in behind the gate, as no published model does: refused if it is not zero
        for block in model.blocks:
            block.mlp.b_in.data.zero_()
    return model.eval()


def tokens(family: str, n: int, seed: int = 0) -> Tensor:
    """`n` random token ids (LongTensor [n]) none of which is special in the family."""
    if family not in ALL_FAMILIES:
        raise KeyError(f"unknown family {family!r}; there are {', '.join(ALL_FAMILIES)}")
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(N_SPECIAL, VOCAB, (n,), generator=generator)


def save_local(
    family: str,
    folder: str | Path,
    texts_vocab: Sequence[str] | None = None,
    seed: int = 0,
    **config_overrides: Any,
) -> Path:
    """Save the model of a family and a word-level tokenizer, ready for `TransformerBridge.boot_transformers(folder)`.

    Args:
        family: gpt2, llama and bert are tested; BERT gets [CLS] and [SEP], the others <bos>.
        folder: Made if it is missing.
        texts_vocab: Texts whose words (and punctuation marks) become the vocabulary, in order of appearance.
        seed: As for `hf_model`.
        **config_overrides: As for `hf_model`.

    Returns:
        The folder, as a Path.
    """
    tokenizer = word_tokenizer(texts_vocab or _TEXTS, masked=FAMILIES[family].model_class.endswith("MaskedLM"))
    hf_model(family, seed, vocab_size=max(VOCAB, len(tokenizer)), **config_overrides).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return Path(folder)


# --- Hugging Face -----------------------------------------------------------------------------------------------


def _build(family: Family, model_class: str, seed: int, dtype: torch.dtype, overrides: Mapping[str, Any]) -> nn.Module:
    """The model of `model_class`; its config names the family's own architecture, as TransformerLens needs."""
    config = getattr(transformers, family.config_class)(**{**family.config, **overrides})
    config.architectures = [family.architecture]
    return built(getattr(transformers, model_class), config, seed, dtype)


def built(model_class: Any, config: Any, seed: int, dtype: torch.dtype) -> nn.Module:
    """A model of a class of `transformers` with every parameter perturbed, in eval mode, with eager attention."""
    chosen = {"attn_implementation": "eager"}
    if hasattr(config, "num_experts_per_tok"):
        chosen["experts_implementation"] = "eager"  # the grouped kernel refuses float64
    with torch.random.fork_rng(devices=[]):
        model = model_class._from_config(config, **chosen)
    perturb(model, seed)
    return model.to(dtype).eval()


_INPUT_AXIS_FIRST = (
    "Conv1D",
    "GptOssExperts",
    "Llama4TextExperts",
)  # these hold [..., in, out]; everything else holds [..., out, in]


@torch.no_grad()
def perturb(model: nn.Module, seed: int) -> None:
    """Overwrite every parameter by a value that depends on `seed` and the parameter's name alone.

    Embeddings 0.5 z; norm gains their initial constant + 0.25 z; biases and attention sinks 0.3 z; matrices
    1.5 z / sqrt(fan in); z standard normal, drawn in float32. Trained numbers in buffers, the biases of routers and
    Gemma-4's scalar of a layer, their initial constant + 0.25 z.
    """
    owners, trained = dict(model.named_modules()), ("_bias", "_scalar")
    for name, buffer in model.named_buffers():
        if buffer.is_floating_point() and name.endswith(trained):
            buffer.add_(0.25 * _noise(buffer, f"{seed}/{name}"))
    for name, parameter in model.named_parameters():
        noise = _noise(parameter, f"{seed}/{name}")
        owner_name, _, kind = name.rpartition(".")
        if isinstance(owners[owner_name], nn.Embedding):
            parameter.copy_(0.5 * noise)
        elif kind == "weight" and parameter.ndim == 1:
            parameter.add_(0.25 * noise)
        elif parameter.ndim <= 1 or kind.endswith("bias"):
            parameter.copy_(0.3 * noise)
        else:
            fan_in = parameter.shape[-2 if type(owners[owner_name]).__name__ in _INPUT_AXIS_FIRST else -1]
            parameter.copy_(1.5 * noise / math.sqrt(fan_in))


def _noise(like: Tensor, key: str) -> Tensor:
    generator = torch.Generator().manual_seed(zlib.crc32(key.encode()))
    return torch.randn(like.shape, generator=generator, dtype=torch.float32)


# --- tokenizers -------------------------------------------------------------------------------------------------

CHAT = (
    "{{ bos_token }}{% for message in messages %}{{ '<|' + message['role'] + '|>' }}{{ message['content'] | trim }}"
    "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
"""A chat template that writes the BOS itself, as those of Llama 3, Gemma and Mistral."""
_TEXTS = (
    "the cat sat on the mat .",
    "a dog and the bird saw her , but they did not move !",
    "He said he would not . Why ?",
)


def word_tokenizer(texts: Sequence[str], masked: bool) -> transformers.PreTrainedTokenizerBase:
    """One token per word; ids 0 to 4 are padding, start, end, unknown and mask, as in the configs."""
    brackets = "[PAD] [CLS] [SEP] [UNK] [MASK]" if masked else "<pad> <bos> <eos> <unk> <mask>"
    splitter = pre_tokenizers.Whitespace()
    words = [word for text in texts for word, _ in splitter.pre_tokenize_str(text)]
    vocabulary = {word: index for index, word in enumerate(dict.fromkeys([*brackets.split(), *words]))}
    if masked:  # TransformerLens rewrites the post-processor of any other class and so drops [CLS] and [SEP]
        return transformers.BertTokenizer(vocab=vocabulary, do_lower_case=False)
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = splitter
    raw.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos>:1 $B:1", special_tokens=[("<bos>", vocabulary["<bos>"])]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw,
        name_or_path="tiny",  # TransformerLens fails without it ...
        add_bos_token=True,  # ... and asks the hub for the tokenizer again without this
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        mask_token="<mask>",
        chat_template=CHAT,
    )


_PIECES = (
    "▁When",
    "▁Mary",
    "▁and",
    "▁John",
    "▁Tom",
    "▁gave",
    "▁went",
    "▁to",
    "▁the",
    "▁un",
    "believable",
    "ly",
    "hot",
    "cold",
)
READERS = ("llama2", "mistral", "gemma", "gpt2", "olmo", "bert")
"""Kinds of tokenizers of `piece_tokenizer`."""


def piece_tokenizer(kind: str) -> transformers.PreTrainedTokenizerBase:
    """A tokenizer of word pieces with the parts of a published one; every character has a token or bytes.

    "llama2" puts a space before a text, and its decoder strips one; "mistral" does both by Metaspace; "gemma" does neither. "gpt2"
    is byte-level and adds no BOS, "olmo" is such a one that appends an EOS. "bert" has `##`.
    """
    marks = ["<unk>", "<s>", "</s>", "<pad>", "<|user|>", "<|assistant|>", "<|system|>"]
    if kind == "bert":
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?", *(piece.strip("▁") for piece in _PIECES)]
        letters = [mark + letter for letter in "abcdefghijklmnopqrstuvwxyzMJTW" for mark in ("", "##")]
        vocabulary = [*words, *letters, "##believable", "##ly", "→", "/"]
        return transformers.BertTokenizer(vocab={word: at for at, word in enumerate(vocabulary)}, do_lower_case=False)
    bytewise = kind in ("gpt2", "olmo")
    space = "Ġ" if bytewise else "▁"
    pieces = [piece.replace("▁", space) for piece in _PIECES]
    merges = list(dict.fromkeys((piece[:end], piece[end]) for piece in pieces for end in range(1, len(piece))))
    letters = sorted(pre_tokenizers.ByteLevel.alphabet()) if bytewise else [f"<0x{byte:02X}>" for byte in range(256)]
    letters += [] if bytewise else sorted({*"".join(pieces), *"abcdefghijklmnopqrstuvwxyz→/.?"})
    vocabulary = [*marks, *letters, *(first + last for first, last in merges)]
    numbers = {word: at for at, word in enumerate(dict.fromkeys(vocabulary))}
    raw = Tokenizer(models.BPE(numbers, merges, unk_token="<unk>", byte_fallback=not bytewise))
    _as_published(raw, kind)
    if kind not in ("gpt2", "olmo"):
        raw.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
        )
    elif kind == "olmo":
        raw.post_processor = processors.TemplateProcessing(
            single="$A </s>", pair="$A $B:1 </s>", special_tokens=[("</s>", 2)]
        )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw,
        name_or_path="tiny",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        pad_token="<pad>",
        extra_special_tokens=marks[4:],
        chat_template=CHAT,
    )
    # Without it TransformerLens asks the hub; as an argument it replaces the post-processor.
    tokenizer.init_kwargs["add_bos_token"] = True
    return tokenizer


def _as_published(raw: Tokenizer, kind: str) -> None:
    """Set how a published tokenizer splits a text and joins its pieces."""
    spaced = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if kind in ("gpt2", "olmo"):
        raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    elif kind == "gemma":
        raw.normalizer, raw.decoder = normalizers.Replace(" ", "▁"), decoders.Sequence(spaced)
        raw.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    elif kind == "mistral":
        raw.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        raw.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    else:
        raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        raw.decoder = decoders.Sequence([*spaced, decoders.Strip(" ", 1, 0)])


def reader(kind: str, seed: int = 0, *, late: bool = False) -> Any:
    """A tiny model with a `piece_tokenizer`, an encoder for "bert"; with `late`, its tokenizer is set after it was made."""
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    tokenizer = piece_tokenizer(kind)
    family = {"bert": "bert", "gpt2": "gpt2", "gemma": "gemma"}.get(kind, "llama_nobias")
    model = hf_model(family, seed, vocab_size=len(tokenizer))
    given = {} if late else {"tokenizer": tokenizer}
    made = build_bridge_from_module(model, FAMILIES[family].architecture, hf_config=model.config, **given).eval()
    if late:
        made.tokenizer = tokenizer
    return made


# --- HookedTransformer, HookedEncoder ---------------------------------------------------------------------------


def _first(config: Any, *names: str, default: Any = None) -> Any:
    """The first of the named entries that the config fills in."""
    return next((value for name in names if (value := getattr(config, name, None)) is not None), default)


def _d_head(config: Any) -> int:
    """Width of a head, which some configs leave to be computed."""
    return _first(config, "head_dim", default=config.hidden_size // config.num_attention_heads)


def _hooked_config(config: Any) -> dict[str, Any]:
    """What every HookedTransformerConfig needs, read off the Hugging Face config."""
    return {
        "d_model": config.hidden_size,
        "n_heads": config.num_attention_heads,
        "d_head": _d_head(config),
        "n_layers": config.num_hidden_layers,
        "n_ctx": _first(config, "max_position_embeddings", default=N_CTX),
        "d_vocab": config.vocab_size,
        "eps": _first(config, "layer_norm_epsilon", "layer_norm_eps", "rms_norm_eps", default=1e-5),
        "original_architecture": config.architectures[0],
        "model_name": f"tiny-{config.model_type}",
        "device": "cpu",
    }


def _dense(config: Any) -> dict[str, Any]:
    """LayerNorm, no gate."""
    width = _first(config, "ffn_dim", "n_inner", "intermediate_size")
    return {"normalization_type": "LN", "act_fn": _first(config, "activation_function", "hidden_act"), "d_mlp": width}


def _rotary(config: Any, *, parallel: bool, dims: int, adjacent: bool = False) -> dict[str, Any]:
    """LayerNorm, no gate, `dims` rotary dimensions per head."""
    rotary = {"positional_embedding_type": "rotary", "rotary_dim": dims, "rotary_adjacent_pairs": adjacent}
    return {**_dense(config), **rotary, "parallel_attn_mlp": parallel}


def _gated(config: Any, **extra: Any) -> dict[str, Any]:
    """RMSNorm, rotary, gated FF, grouped keys and values."""
    act = "gelu_pytorch_tanh" if config.model_type == "gemma" else _first(config, "hidden_activation", "hidden_act")
    return dict(
        normalization_type="RMS",
        act_fn=act,
        d_mlp=config.intermediate_size,
        n_key_value_heads=config.num_key_value_heads,
        positional_embedding_type="rotary",
        rotary_adjacent_pairs=False,
        rotary_dim=_d_head(config),
        rotary_base=config.rope_parameters.get("rope_theta", 10000.0),
        final_rms=True,
        gated_mlp=True,
        **extra,
    )


def _windowed(config: Any) -> dict[str, Any]:
    """Sliding windows, in all layers or in those that the config names."""
    kinds = _first(config, "layer_types", default=["sliding_attention"] * config.num_hidden_layers)
    local = ["local" if kind == "sliding_attention" else "global" for kind in kinds]
    return {"use_local_attn": True, "window_size": config.sliding_window, "attn_types": local}


def _attn_scale(config: Any) -> dict[str, Any]:
    """What Gemma's scores are divided by."""
    return {"use_attn_scale": True, "attn_scale": math.sqrt(config.query_pre_attn_scalar)}


def _gemma2(config: Any) -> dict[str, Any]:
    """Norms on both sides, soft caps on scores and logits."""
    caps = {
        "attn_scores_soft_cap": config.attn_logit_softcapping,
        "output_logits_soft_cap": config.final_logit_softcapping,
    }
    return _gated(config, use_normalization_before_and_after=True, **caps, **_windowed(config), **_attn_scale(config))


def _gemma3(config: Any) -> dict[str, Any]:
    """Norms on both sides, normed queries and keys, another rotary base in local layers."""
    base = _gated(config, use_normalization_before_and_after=True, use_qk_norm=True, **_windowed(config))
    base |= _attn_scale(config)
    return {**base, "rotary_base": 1000000, "rotary_base_local": 10000}


def _bloom(config: Any) -> dict[str, Any]:
    """ALiBi, a norm after the embedding, TransformerLens' name for the tanh-GELU."""
    shape = {"normalization_type": "LN", "act_fn": "gelu_fast", "d_mlp": 4 * config.hidden_size}
    return dict(positional_embedding_type="alibi", post_embedding_ln=True, **shape)


def _experts(config: Any) -> dict[str, Any]:
    """Mixture of gated experts whose chosen weights sum to 1."""
    moe = {"num_experts": config.num_local_experts, "experts_per_token": config.num_experts_per_tok}
    return _gated(config, norm_topk_prob=True, **moe)


def _gpt_oss(config: Any) -> dict[str, Any]:
    """Experts as in Mixtral, windows, attention sinks."""
    if config.swiglu_limit != 7.0:
        raise RuntimeError(f"HookedTransformer clamps at 7, not {config.swiglu_limit}: pass swiglu_limit=7.0")
    return {**_experts(config), **_windowed(config), "use_attention_sinks": True}


HOOKED: dict[str, tuple[str, str, Callable[[Any], dict[str, Any]]]] = {
    "gpt2": ("", "gpt2", _dense),
    "gpt2_relu": ("", "gpt2", _dense),
    "opt": ("", "opt", _dense),
    "llama_nobias": ("", "llama", _gated),
    "mistral": ("", "mistral", lambda config: _gated(config, **_windowed(config))),
    "qwen2": ("", "qwen2", _gated),
    "qwen3": ("", "qwen3", lambda config: _gated(config, use_qk_norm=True)),
    "gemma": ("", "gemma", _gated),
    "gemma2": ("", "gemma", _gemma2),
    "gemma3": ("", "gemma", _gemma3),
    "gpt_neox": ("", "neox", lambda config: _rotary(config, parallel=True, dims=2)),
    "gpt_neox_serial": ("", "neox", lambda config: _rotary(config, parallel=False, dims=2)),
    "phi": ("", "phi", lambda config: _rotary(config, parallel=True, dims=4)),
    "gptj": ("", "gptj", lambda config: _rotary(config, parallel=True, dims=config.rotary_dim, adjacent=True)),
    "bloom": ("", "bloom", _bloom),
    "mixtral": ("", "mixtral", _experts),
    "gpt_oss": ("", "gpt_oss", _gpt_oss),
    "bert": ("BertForPreTraining", "bert", lambda config: {**_dense(config), "attention_dir": "bidirectional"}),
}
"""Family -> (class the converter reads, "" for the family's own; converter; the rest of the config).

`llama` is missing because the converter drops its biases, `olmo2` because it knows no grouped keys and values."""
