"""Which architectures are decomposed, in which order their norms stand, and why the others are refused.

1. An architecture in `FAMILIES` has the order the table says. Adding a family is one line here, when its
   block is one of the known forms.
2. Any other TransformerBridge whose layers are attention and feed-forward gets its order from the
   structure of its blocks (`_structural`). The reading is a guess until the identities of every layer hold
   on captured tensors (selfcheck.py); where one fails the model is refused, naming it.
3. Whatever is known not to fit is refused here, before anything runs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import torch

from tl_ffblock.errors import InputError, UnsupportedModelError
from tl_ffblock.layer.scopes import Order

Api: TypeAlias = Literal["TransformerBridge", "HookedTransformer", "HookedEncoder"]


@dataclass(frozen=True)
class Family:
    """Architectures that share one block form."""

    name: str
    order: Order
    architectures: tuple[str, ...]
    """Hugging Face class names, as the model's configuration gives them."""
    causal: bool = True
    listed: bool = True
    """False where the order was read off the structure of the blocks."""
    needs: str | None = None
    """Entry of `model.cfg` without which TransformerLens runs another model than Hugging Face (it did in 3.9)."""


FAMILIES: tuple[Family, ...] = (
    Family("GPT-2", "pre_ln", ("GPT2LMHeadModel",)),
    Family("GPT-Neo", "pre_ln", ("GPTNeoForCausalLM",)),
    Family("GPT-BigCode", "pre_ln", ("GPTBigCodeForCausalLM",)),
    Family("OPT", "pre_ln", ("OPTForCausalLM",)),
    Family("XGLM", "pre_ln", ("XGLMForCausalLM",)),
    Family("Bloom", "pre_ln", ("BloomForCausalLM",)),
    Family("MPT", "pre_ln", ("MptForCausalLM", "MPTForCausalLM")),
    Family("Llama", "pre_ln", ("LlamaForCausalLM",)),
    Family("Mistral", "pre_ln", ("MistralForCausalLM", "Ministral3ForCausalLM")),
    Family("Qwen2", "pre_ln", ("Qwen2ForCausalLM",)),
    Family("Qwen3", "pre_ln", ("Qwen3ForCausalLM",)),
    Family("Gemma", "pre_ln", ("GemmaForCausalLM",)),
    Family("Phi-3", "pre_ln", ("Phi3ForCausalLM",)),
    Family("GLM", "pre_ln", ("GlmForCausalLM",)),
    Family("OLMo", "pre_ln", ("OlmoForCausalLM",)),
    Family("SmolLM3", "pre_ln", ("SmolLM3ForCausalLM",)),
    Family("StableLM", "pre_ln", ("StableLmForCausalLM",)),
    Family("StarCoder2", "pre_ln", ("Starcoder2ForCausalLM",)),
    Family("Nemotron", "pre_ln", ("NemotronForCausalLM",)),
    Family("Apertus", "pre_ln", ("ApertusForCausalLM",)),
    Family("Arcee", "pre_ln", ("ArceeForCausalLM",)),
    Family("ERNIE-4.5", "pre_ln", ("Ernie4_5ForCausalLM",)),
    Family("Granite", "pre_ln", ("GraniteForCausalLM",)),
    Family("HunYuan", "pre_ln", ("HunYuanDenseV1ForCausalLM",), needs="qk_norm_after_rope"),
    Family("Jais-2", "pre_ln", ("Jais2ForCausalLM",)),
    Family("nanochat", "pre_ln", ("NanoChatForCausalLM",)),
    Family("Seed-OSS", "pre_ln", ("SeedOssForCausalLM",)),
    Family("VaultGemma", "pre_ln", ("VaultGemmaForCausalLM",)),
    Family("Mixtral", "pre_ln", ("MixtralForCausalLM",)),
    Family("OLMoE", "pre_ln", ("OlmoeForCausalLM",)),
    Family("Qwen-MoE", "pre_ln", ("Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM")),
    Family("gpt_oss", "pre_ln", ("GptOssForCausalLM",)),
    Family("GPT-NeoX", "parallel", ("GPTNeoXForCausalLM",)),
    Family("GPT-J", "parallel", ("GPTJForCausalLM",)),
    Family("CodeGen", "parallel", ("CodeGenForCausalLM",)),
    Family("Phi", "parallel", ("PhiForCausalLM",)),
    Family("Falcon", "parallel", ("FalconForCausalLM",)),
    Family("Cohere", "parallel", ("CohereForCausalLM", "Cohere2ForCausalLM"), needs="rotary_interleaved_cos_sin"),
    Family("Gemma-2", "sandwich", ("Gemma2ForCausalLM",)),
    Family("Gemma-3", "sandwich", ("Gemma3ForCausalLM",)),
    Family("GLM-4", "sandwich", ("Glm4ForCausalLM",)),
    Family("OLMo-2", "norm_after", ("Olmo2ForCausalLM", "Olmo3ForCausalLM")),
    Family("FlexOLMo", "norm_after", ("FlexOlmoForCausalLM",)),
    Family("EXAONE-4", "norm_after", ("Exaone4ForCausalLM",)),
    Family("BERT", "post_ln", ("BertForMaskedLM", "BertLMHeadModel"), causal=False),
    Family("RoBERTa", "post_ln", ("RobertaForMaskedLM",), causal=False),
    Family("GPT", "post_ln", ("OpenAIGPTLMHeadModel",)),
)


@dataclass(frozen=True)
class Model:
    """What the rest of the package needs to know of a TransformerLens model."""

    hooked: Any
    """The model itself."""
    api: Api
    family: Family
    name: str
    n_layers: int

    @cached_property
    def hook_points(self) -> Mapping[str, Any]:
        """Every HookPoint by name; a bridge collects them anew at each look, which takes milliseconds."""
        return dict(self.hooked.hook_dict)


def supported() -> str:
    """The supported families in one line."""
    return ", ".join(family.name for family in FAMILIES)


def identify(model: Any) -> Model:
    """Recognise a TransformerLens model by its class, architecture and the structure of its blocks.

    Raises:
        InputError: if it is no TransformerLens model, or is in training mode.
        UnsupportedModelError: if it is not decomposed, with the reason.
    """
    names = {c.__name__ for c in type(model).__mro__}
    if "RemoteBridge" in names:
        raise UnsupportedModelError("a RemoteBridge has its weights on a server; load the model here to decompose it.")
    api: Api | None = next((known for known in get_args(Api) if known in names), None)
    if api is None:
        raise InputError(
            f"model is a {type(model).__name__}; expected a TransformerLens model: TransformerBridge "
            "(TransformerBridge.boot_transformers(name)), HookedTransformer or HookedEncoder."
        )
    if model.training:
        raise InputError("model is in training mode: dropout would change every number. Call model.eval() first.")
    family = _family(model, api)
    cfg = model.cfg
    return Model(model, api, family, str(getattr(cfg, "model_name", None) or family.name), int(cfg.n_layers))


def _family(model: Any, api: Api) -> Family:
    cfg = model.cfg
    architecture = getattr(cfg, "architecture", None) or getattr(cfg, "original_architecture", None)
    for reason in _refusals(model, architecture or type(model).__name__):
        raise UnsupportedModelError(reason)
    if architecture is None and api == "HookedTransformer":
        return _own_configuration(cfg)
    if architecture is None and api == "HookedEncoder":
        architecture = "BertForMaskedLM"
    for family in FAMILIES:
        if architecture in family.architectures:
            if family.needs is not None and not getattr(cfg, family.needs, False):
                raise UnsupportedModelError(
                    f"{architecture}: this TransformerLens does not know {family.needs} and runs another model than Hugging "
                    "Face does (its residual stream differs by more than its own size). TransformerLens 4.3 runs it rightly."
                )
            return _as_configured(family, parallel=bool(getattr(cfg, "parallel_attn_mlp", False)))
    if api == "TransformerBridge":
        return _structural(model, str(architecture))
    raise UnsupportedModelError(
        f"{architecture} as a {api} is not supported: its maps could not be certified. Supported are {supported()}; "
        "a TransformerBridge of it may be of a known form."
    )


def _as_configured(family: Family, *, parallel: bool) -> Family:
    """Some families have both forms: GPT-NeoX and StableLM by use_parallel_residual, Falcon by parallel_attn."""
    if family.order == "parallel" and not parallel:
        return replace(family, name=f"{family.name}, serial", order="pre_ln")
    if family.order == "pre_ln" and parallel:
        return replace(family, name=f"{family.name}, parallel", order="parallel")
    return family


def _own_configuration(cfg: Any) -> Family:
    """A HookedTransformer that was made from a configuration, not from a published architecture."""
    if cfg.normalization_type not in ("LN", "LNPre", "RMS", "RMSPre"):
        raise UnsupportedModelError(
            f"normalization_type={cfg.normalization_type!r}: expected LN, LNPre, RMS or RMSPre."
        )
    order: Order = "parallel" if cfg.parallel_attn_mlp else "pre_ln"
    return Family("HookedTransformer", order, (), causal=cfg.attention_dir == "causal")


def _structural(model: Any, architecture: str) -> Family:
    """An architecture outside the table: the order that its norms say. Only the identities can confirm it."""
    orders = {_order_of(block) for block in model.blocks}
    if len(orders) != 1 or None in orders:
        norms = sorted({name for block in model.blocks for name, _ in block.named_children() if "ln" in name})
        raise UnsupportedModelError(
            f"{architecture} is not supported: the norms of its layers ({', '.join(norms) or 'none'}) are not those of one "
            f"known block form. Supported are {supported()}."
        )
    order: Order = orders.pop() or "pre_ln"
    causal = not architecture.endswith(("ForMaskedLM", "Model"))
    return Family(architecture, order, (architecture,), causal=causal, listed=False)


def _order_of(block: Any) -> Order | None:
    before = hasattr(block, "ln1"), hasattr(block, "ln2")
    after = hasattr(block, "ln1_post"), hasattr(block, "ln2_post")
    if any(base.__name__ == "ParallelBlockBridge" for base in type(block).__mro__):
        return "parallel" if before[0] and not any(after) else None
    known: dict[tuple[bool, ...], Order] = {
        (True, True, False, False): "pre_ln",
        (True, True, True, True): "sandwich",
        (False, False, True, True): "norm_after",
    }
    return known.get((*before, *after))


def _refusals(model: Any, architecture: str) -> Iterator[str]:
    """Why a model cannot be decomposed, as far as can be said without running it."""
    config = getattr(getattr(model, "original_model", None), "config", None)
    if hasattr(model, "encoder_blocks") or getattr(config, "is_encoder_decoder", False):
        yield (
            f"{architecture} is an encoder-decoder: cross-attention mixes tokens of two sequences, for which no scope is "
            "defined here. Supported are decoders and encoders alone."
        )
    if getattr(model.cfg, "is_audio_model", False) or getattr(model.cfg, "is_visual_model", False):
        yield f"{architecture} reads sounds or images; maps are of tokens of a text."
    if not hasattr(model, "blocks"):
        yield f"{architecture} has no list of blocks: no known block form. Supported are {supported()}."
    for layer, block in enumerate(model.blocks):
        yield from (f"{architecture}, layer {layer}: {reason}" for reason in _refusals_of_block(block))
    if architecture.startswith("OPT") and getattr(config, "do_layer_norm_before", True) is False:
        yield (
            "OPT with do_layer_norm_before=False (OPT-350m) is Post-LN, which TransformerLens cannot run with hooks. "
            "Every other OPT size is supported."
        )
    if getattr(config, "new_decoder_architecture", False):
        yield (
            "Falcon with new_decoder_architecture=True (40B, 180B, Falcon-2) is not supported: TransformerLens splits its "
            "queries, keys and values wrongly, so what runs is not Falcon. Falcon-7B and Falcon-RW are supported."
        )
    if getattr(config, "is_decoder", False) and architecture.startswith(("Bert", "Roberta")):
        yield f"{architecture} with is_decoder=True is not supported: expected the bidirectional encoder."
    if any(parameter.is_meta for parameter in model.parameters()):
        yield (
            f"{architecture} has weights on no device (offloaded by accelerate): they cannot be read. Give device_map "
            "devices that hold the whole model."
        )
    if getattr(model.cfg, "use_attention_sinks", False) and hasattr(model.blocks[0].mlp, "experts"):
        yield (
            f"{architecture} as a HookedTransformer is not supported: its clamped experts are of no known form there. A "
            "TransformerBridge of it is, on TransformerLens 4."
        )
    if _processed_sinks(model):
        yield (
            f"{architecture} has attention sinks, and its weights were processed: folding b_V into b_O takes rows of the "
            "pattern to sum to 1, so what ran is no longer the model (log-probabilities off by 0.8). Leave out "
            "enable_compatibility_mode(), or give it no_processing=True."
        )


def _refusals_of_block(block: Any) -> Iterator[str]:
    parts = {name for name, _ in block.named_children()}
    foreign = sorted(parts & {"linear_attn", "mixer", "mamba", "ssm", "time_mix", "short_conv", "conv"})
    if foreign or "attn" not in parts:
        yield (
            f"a {', '.join(foreign) or 'layer without attention'} mixes tokens without an attention pattern (state-space, "
            "recurrent and hybrid models); only layers of attention and feed-forward are decomposed."
        )
    if "mlp" not in parts:
        yield "there is no feed-forward block (attn_only) to decompose."
    attention = {base.__name__ for base in type(block.attn).__mro__} if "attn" in parts else set()
    if any("MLA" in name for name in attention):
        yield "multi-head latent attention (MLA) has no values per head at a HookPoint; its parts cannot be certified."
    if getattr(block, "residual_contribution_scale", 1.0) != 1.0:
        yield (
            f"branches are multiplied by {block.residual_contribution_scale:g} before they are added (residual_multiplier), "
            "which is no known block form: Attn + resid_pre = Atb does not hold."
        )
    quantised = _quantised(block)
    if quantised:
        yield f"{quantised}: quantised weights cannot be read exactly. Load the model in bfloat16, float16 or float32."


def _quantised(block: Any) -> str | None:
    """The first parameter that is no plain float, with its dtype."""
    for name, parameter in block.named_parameters():
        if parameter.dtype not in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
            return f"{name} is {parameter.dtype}"
    return None


def _processed_sinks(model: Any) -> bool:
    """gpt_oss in compatibility mode with processing, or a HookedTransformer of it with folded weights."""
    cfg = model.cfg
    folded = getattr(model, "_weights_processed", False) or str(getattr(cfg, "normalization_type", "")).endswith("Pre")
    if not folded:
        return False
    attention = model.blocks[0].attn
    inner = getattr(attention, "original_component", attention)
    return hasattr(inner, "sinks") or bool(getattr(cfg, "use_attention_sinks", False))
