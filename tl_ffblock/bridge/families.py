"""Which architectures are decomposed, in which order their norms stand, and why the others are refused.

Adding a family starts here: one line in `FAMILIES` when its block is one of the known forms.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from tl_ffblock.errors import InputError, UnsupportedModelError
from tl_ffblock.scopes import Order

Api: TypeAlias = Literal["TransformerBridge", "HookedTransformer", "HookedEncoder"]


@dataclass(frozen=True)
class Family:
    """Architectures that share one block form."""

    name: str
    order: Order
    architectures: tuple[str, ...]
    """Hugging Face class names, as the model's configuration gives them."""
    causal: bool = True


FAMILIES: tuple[Family, ...] = (
    Family("GPT-2", "pre_ln", ("GPT2LMHeadModel",)),
    Family("OPT", "pre_ln", ("OPTForCausalLM",)),
    Family("Llama", "pre_ln", ("LlamaForCausalLM",)),
    Family("Mistral", "pre_ln", ("MistralForCausalLM",)),
    Family("Qwen2", "pre_ln", ("Qwen2ForCausalLM",)),
    Family("Qwen3", "pre_ln", ("Qwen3ForCausalLM",)),
    Family("Gemma", "pre_ln", ("GemmaForCausalLM",)),
    Family("Bloom", "pre_ln", ("BloomForCausalLM",)),
    Family("Mixtral", "pre_ln", ("MixtralForCausalLM",)),
    Family("Qwen-MoE", "pre_ln", ("Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM")),
    Family("gpt_oss", "pre_ln", ("GptOssForCausalLM",)),
    Family("GPT-NeoX", "parallel", ("GPTNeoXForCausalLM",)),
    Family("GPT-J", "parallel", ("GPTJForCausalLM",)),
    Family("Phi", "parallel", ("PhiForCausalLM",)),
    Family("Falcon", "parallel", ("FalconForCausalLM",)),
    Family("Gemma-2", "sandwich", ("Gemma2ForCausalLM",)),
    Family("Gemma-3", "sandwich", ("Gemma3ForCausalLM",)),
    Family("OLMo-2", "norm_after", ("Olmo2ForCausalLM",)),
    Family("BERT", "post_ln", ("BertForMaskedLM",), causal=False),
    Family("RoBERTa", "post_ln", ("RobertaForMaskedLM",), causal=False),
)


@dataclass(frozen=True)
class Model:
    """What the rest of the package needs to know of a TransformerLens model."""

    lens: Any
    """The model itself."""
    api: Api
    family: Family
    name: str
    n_layers: int


def supported() -> str:
    """The supported families in one line."""
    return ", ".join(family.name for family in FAMILIES)


def identify(model: Any) -> Model:
    """Recognise a TransformerLens model by its class and architecture.

    Raises:
        InputError: if it is no TransformerLens model, or is in training mode.
        UnsupportedModelError: if its architecture is not decomposed, with what is.
    """
    names = {c.__name__ for c in type(model).__mro__}
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
    if architecture is None and api == "HookedTransformer":
        return _own_configuration(cfg)
    if architecture is None and api == "HookedEncoder":
        architecture = "BertForMaskedLM"
    for family in FAMILIES:
        if architecture in family.architectures:
            _refuse_variants(model, family)
            return _serial(family) if family.order == "parallel" and not cfg.parallel_attn_mlp else family
    raise UnsupportedModelError(
        f"{architecture} is not supported: its maps could not be certified. Supported are {supported()}. "
        "A model of your own with the same block form can be added; see the architecture page."
    )


def _serial(family: Family) -> Family:
    """A family of parallel blocks whose configuration says otherwise (GPT-NeoX, use_parallel_residual=False)."""
    return replace(family, name=f"{family.name}, serial", order="pre_ln")


def _own_configuration(cfg: Any) -> Family:
    """A HookedTransformer that was made from a configuration, not from a published architecture."""
    if getattr(cfg, "attn_only", False):
        raise UnsupportedModelError("an attention-only HookedTransformer has no feed-forward block to decompose.")
    if cfg.normalization_type not in ("LN", "LNPre", "RMS", "RMSPre"):
        raise UnsupportedModelError(
            f"normalization_type={cfg.normalization_type!r}: expected LN, LNPre, RMS or RMSPre."
        )
    order: Order = "parallel" if cfg.parallel_attn_mlp else "pre_ln"
    return Family("HookedTransformer", order, (), causal=cfg.attention_dir == "causal")


def _refuse_variants(model: Any, family: Family) -> None:
    """Models of a supported architecture whose configuration gives another block form."""
    config = getattr(getattr(model, "original_model", None), "config", None)
    if family.name == "OPT" and getattr(config, "do_layer_norm_before", True) is False:
        raise UnsupportedModelError(
            "OPT with do_layer_norm_before=False (OPT-350m) is Post-LN, which TransformerLens cannot run with hooks. "
            "Every other OPT size is supported."
        )
    if getattr(config, "is_decoder", False) and not family.causal:
        raise UnsupportedModelError(
            f"{family.name} with is_decoder=True is not supported: expected the bidirectional encoder."
        )
