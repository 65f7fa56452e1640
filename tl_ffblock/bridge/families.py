"""Supported architectures, and the order of norms and branches in their blocks.

1. An architecture in `FAMILIES` has the order of the table. To add a family with a known block form, add one line.
2. For any other TransformerBridge with attention and feed-forward layers, the order is inferred from the structure of its blocks
   (`_structural`). It has to be confirmed by the identities of every layer on cached tensors (selfcheck.py). If one fails, the
   model is refused with the identity.

Models that are known not to fit are refused before (refusals.py).
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from tl_ffblock.errors import InputError, UnsupportedModelError
from tl_ffblock.layer.scopes import Order

Api: TypeAlias = Literal["TransformerBridge", "HookedTransformer", "HookedEncoder"]


@dataclass(frozen=True)
class Family:
    """Architectures that share one block form."""

    name: str
    order: Order
    architectures: tuple[str, ...]
    """Hugging Face class names, as in the model's configuration."""
    causal: bool = True
    listed: bool = True
    """False if the order was inferred from the structure of the blocks."""
    needs: str | None = None
    """Entry of `model.cfg` without which TransformerLens computes other numbers than Hugging Face (as version 3.9 does)."""


FAMILIES: list[Family] = [
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
    Family("ERNIE-4.5-MoE", "pre_ln", ("Ernie4_5_MoeForCausalLM",)),
    Family("GLM-4-MoE", "pre_ln", ("Glm4MoeForCausalLM",)),
    Family("MiniMax-M2", "pre_ln", ("MiniMaxM2ForCausalLM",)),
    Family("Phi-MoE", "pre_ln", ("PhiMoEForCausalLM", "PhimoeForCausalLM")),
    Family("Granite-MoE", "pre_ln", ("GraniteMoeForCausalLM",)),
    Family("BitNet", "pre_ln", ("BitNetForCausalLM",)),
    Family("ModernBERT-decoder", "pre_ln", ("ModernBertDecoderForCausalLM",)),
    Family("Llama-4", "pre_ln", ("Llama4ForCausalLM",)),
    Family("gpt_oss", "pre_ln", ("GptOssForCausalLM",)),
    Family("DeepSeek-V2", "pre_ln", ("DeepseekV2ForCausalLM",)),
    Family("DeepSeek-V3", "pre_ln", ("DeepseekV3ForCausalLM",)),
    Family("GLM-4.7-Flash", "pre_ln", ("Glm4MoeLiteForCausalLM",)),
    Family("Youtu", "pre_ln", ("YoutuForCausalLM",)),
    Family("Laguna", "pre_ln", ("LagunaForCausalLM",)),
    Family("Qwen3-Next", "pre_ln", ("Qwen3NextForCausalLM",)),
    Family("AFMoE", "sandwich", ("AfmoeForCausalLM",)),
    Family("Qwen3.5", "pre_ln", ("Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM")),
    Family("Bamba", "pre_ln", ("BambaForCausalLM",)),
    Family("Jamba", "pre_ln", ("JambaForCausalLM",)),
    Family("Mamba", "attn_only", ("MambaForCausalLM", "FalconMambaForCausalLM")),
    Family("Mamba-2", "attn_only", ("Mamba2ForCausalLM",)),
    Family("GPT-NeoX", "parallel", ("GPTNeoXForCausalLM",)),
    Family("GPT-J", "parallel", ("GPTJForCausalLM",)),
    Family("CodeGen", "parallel", ("CodeGenForCausalLM",)),
    Family("Phi", "parallel", ("PhiForCausalLM",)),
    Family("Falcon", "parallel", ("FalconForCausalLM",)),
    Family("Cohere", "parallel", ("CohereForCausalLM", "Cohere2ForCausalLM"), needs="rotary_interleaved_cos_sin"),
    Family("Gemma-2", "sandwich", ("Gemma2ForCausalLM",)),
    Family("Gemma-3", "sandwich", ("Gemma3ForCausalLM",)),
    Family("Gemma-4", "sandwich", ("Gemma4ForCausalLM",)),
    Family("GLM-4", "sandwich", ("Glm4ForCausalLM",)),
    Family("OLMo-2", "norm_after", ("Olmo2ForCausalLM", "Olmo3ForCausalLM")),
    Family("FlexOLMo", "norm_after", ("FlexOlmoForCausalLM",)),
    Family("EXAONE-4", "norm_after", ("Exaone4ForCausalLM",)),
    Family("BERT", "post_ln", ("BertForMaskedLM", "BertLMHeadModel"), causal=False),
    Family("RoBERTa", "post_ln", ("RobertaForMaskedLM",), causal=False),
    Family("GPT", "post_ln", ("OpenAIGPTLMHeadModel",)),
]


def register_family(family: Family) -> None:
    """Add a family to the table. A model is refused if its layers do not have the family's order.

    Raises:
        InputError: if one of its architectures is in the table.
    """
    for known in FAMILIES:
        if taken := sorted({*family.architectures} & {*known.architectures}):
            raise InputError(
                f"{', '.join(taken)} is of the family {known.name}, expected architectures without a family."
            )
    FAMILIES.append(family)


def supported() -> str:
    """Names of the supported families, in one line."""
    return ", ".join(family.name for family in FAMILIES)


def family_of(model: Any, api: Api, architecture: str | None) -> Family:
    """Family of a model that refusals.py does not refuse.

    Raises:
        UnsupportedModelError: if the order is neither in the table nor known from the structure of the blocks.
    """
    cfg = model.cfg
    if architecture in (None, "neel") and api == "HookedTransformer":  # TransformerLens's name for its own toy models
        return _own_configuration(cfg)
    if architecture is None and api == "HookedEncoder":
        architecture = "BertForMaskedLM"
    listed = next((family for family in FAMILIES if architecture in family.architectures), None)
    if listed is not None:
        return _as_configured(listed, parallel=bool(getattr(cfg, "parallel_attn_mlp", False)))
    if api == "TransformerBridge":
        return _structural(model, str(architecture))
    raise UnsupportedModelError(
        f"{architecture} as a {api} is not supported: its maps could not be certified. Supported are {supported()}. "
        "Try it as a TransformerBridge."
    )


def _as_configured(family: Family, *, parallel: bool) -> Family:
    # GPT-NeoX and StableLM have both forms by use_parallel_residual, Falcon by parallel_attn.
    if family.order == "parallel" and not parallel:
        return replace(family, name=f"{family.name}, serial", order="pre_ln")
    if family.order == "pre_ln" and parallel:
        return replace(family, name=f"{family.name}, parallel", order="parallel")
    return family


def _own_configuration(cfg: Any) -> Family:
    if cfg.normalization_type not in ("LN", "LNPre", "RMS", "RMSPre", None):
        raise UnsupportedModelError(
            f"normalization_type={cfg.normalization_type!r}: expected LN, LNPre, RMS, RMSPre or None."
        )
    order: Order = "attn_only" if cfg.attn_only else "parallel" if cfg.parallel_attn_mlp else "pre_ln"
    return Family("HookedTransformer", order, (), causal=cfg.attention_dir == "causal")


def _structural(model: Any, architecture: str) -> Family:
    """Family of an architecture that is not in the table, with the order of its norms; the identities have to confirm it."""
    orders = {_order_of(block) for block in model.blocks}
    if orders == {"pre_ln", "norm_after"}:
        orders = {"sandwich"}  # of which each layer has two of the four norms
    if len(orders) != 1 or None in orders:
        norms = sorted({name for block in model.blocks for name, _ in block.named_children() if "ln" in name})
        raise UnsupportedModelError(
            f"{architecture} is not supported: the norms of its layers ({', '.join(norms) or 'none'}) are not those of one "
            f"known block form. Supported are {supported()}."
        )
    order: Order = orders.pop() or "pre_ln"
    one_way = getattr(model.cfg, "attention_dir", "causal") == "causal"
    causal = one_way and not architecture.endswith(("ForMaskedLM", "Model"))
    return Family(architecture, order, (architecture,), causal=causal, listed=False)


def _order_of(block: Any) -> Order | None:
    before = hasattr(block, "ln1") or hasattr(block, "norm"), hasattr(block, "ln2")
    after = hasattr(block, "ln1_post"), hasattr(block, "ln2_post")
    if any(base.__name__ == "ParallelBlockBridge" for base in type(block).__mro__):
        return "parallel" if before[0] and not any(after) else None
    if not {"mlp", "moe", "shared_mlp"} & {*block._modules}:
        return "attn_only" if (*before, *after) == (True, False, False, False) else None
    known: dict[tuple[bool, ...], Order] = {
        (True, True, False, False): "pre_ln",
        (True, True, True, True): "sandwich",
        (False, False, True, True): "norm_after",
    }
    return known.get((*before, *after))
