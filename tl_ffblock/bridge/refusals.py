"""Why a model is not decomposed, as far as its configuration and modules say without a run, in sentences.

What the table of families, a missing HookPoint or a weight shows is refused where it is read.

What only a run can show is found by the identities (selfcheck.py).
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from tl_ffblock.bridge.families import FAMILIES, supported
from tl_ffblock.errors import UnsupportedModelError

_IGNORED_OPTIONS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("GPT2", "scale_attn_weights=False", lambda config: not config.scale_attn_weights),
    ("GPTBigCode", "scale_attn_weights=False", lambda config: not config.scale_attn_weights),
    ("Gemma3", "attn_logit_softcapping", lambda config: getattr(config, "attn_logit_softcapping", None) is not None),
    (
        "Bloom",
        "slow_but_exact=True with pretraining_tp > 1",
        lambda config: config.slow_but_exact and config.pretraining_tp > 1,
    ),
)
"""Beginning of the architecture's name, an option in words, and whether a Hugging Face configuration has it."""


def refuse(model: Any, architecture: str) -> None:
    """Refuse a model for the first reason that speaks against it.

    Raises:
        UnsupportedModelError: with the reason, and what helps where anything does.
    """
    for reason in _reasons(model, architecture):
        raise UnsupportedModelError(reason)


def active_dropout(model: nn.Module) -> str | None:
    """The first place where a model drops or disturbs activations at random; None where it does nowhere.

    Training mode alone changes nothing: many models have no dropout, or one of 0.
    """
    for name, module in getattr(model, "original_model", model).named_modules():
        if not module.training:
            continue
        place = name.replace("._original_component", "")
        if isinstance(module, _DropoutNd):
            if module.p > 0:
                return f"{place}, p={module.p:g}"
            continue
        settings = [*vars(module).items()]  # of functional dropout and of routers' noise
        settings.append(("hidden_dropout", getattr(vars(module).get("config"), "hidden_dropout", None)))
        for setting, value in settings:
            if ("drop" in setting or "jitter" in setting) and isinstance(value, float) and value > 0:
                return f"{place}.{setting}={value:g}"
    return None


def _reasons(model: Any, architecture: str) -> Iterator[str]:
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
    attn_only = bool(getattr(model.cfg, "attn_only", False))
    for layer, block in enumerate(model.blocks):
        reasons = _reasons_of_block(block, attn_only=attn_only)
        yield from (f"{architecture}, layer {layer}: {reason}" for reason in reasons)
    yield from _reasons_of_options(config, architecture)
    for family in FAMILIES:
        if architecture in family.architectures and family.needs and not getattr(model.cfg, family.needs, False):
            yield (
                f"{architecture}: this TransformerLens does not know {family.needs} and runs another model than Hugging "
                "Face does (its residual stream differs by more than its own size). TransformerLens 4.3 runs it rightly."
            )
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
    yield from _unused_epsilons(model, architecture)
    if _processed_sinks(model):
        yield (
            f"{architecture} has attention sinks, and its weights were processed: folding b_V into b_O takes rows of the "
            "pattern to sum to 1, so what ran is no longer the model (log-probabilities off by 0.8). Leave out "
            "enable_compatibility_mode(), or give it no_processing=True."
        )


def _reasons_of_options(config: Any, architecture: str) -> Iterator[str]:
    """Options of a Hugging Face configuration that make another model than the family's."""
    if architecture.startswith("OPT") and getattr(config, "do_layer_norm_before", True) is False:
        yield (
            "OPT with do_layer_norm_before=False (OPT-350m) is Post-LN, which TransformerLens cannot run with hooks. "
            "Every other OPT size is supported."
        )
    for start, option, is_set in _IGNORED_OPTIONS:
        if config is not None and architecture.startswith(start) and is_set(config):
            yield (
                f"{architecture} with {option} is not supported: TransformerLens does not know the option and runs the model "
                "without it, so what runs is another model than Hugging Face's."
            )
    if architecture.startswith("Gemma3") and getattr(config, "use_bidirectional_attention", False):
        yield (
            f"{architecture} with use_bidirectional_attention=True is not supported: its tokens attend to later ones, and "
            "the family is decomposed as a causal one."
        )
    if getattr(config, "new_decoder_architecture", False):
        yield (
            "Falcon with new_decoder_architecture=True (40B, 180B, Falcon-2) is not supported: TransformerLens splits its "
            "queries, keys and values wrongly, so what runs is not Falcon. Falcon-7B and Falcon-RW are supported."
        )
    if getattr(config, "is_decoder", False) and architecture.startswith(("Bert", "Roberta")):
        yield f"{architecture} with is_decoder=True is not supported: expected the bidirectional encoder."


def _reasons_of_block(block: Any, *, attn_only: bool) -> Iterator[str]:
    children = {name for name, _ in block.named_children()}
    foreign = sorted(children & {"linear_attn", "mixer", "mamba", "ssm", "time_mix", "short_conv", "conv"})
    if foreign or "attn" not in children:
        yield (
            f"a {', '.join(foreign) or 'layer without attention'} mixes tokens without an attention pattern (state-space, "
            "recurrent and hybrid models); only layers of attention and feed-forward are decomposed."
        )
    if "mlp" not in children and not attn_only:
        yield "there is no feed-forward block in it, though the model is not one of attention alone (attn_only)."
    attention = {base.__name__ for base in type(block.attn).__mro__} if "attn" in children else set()
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


def _unused_epsilons(model: Any, architecture: str) -> Iterator[str]:
    """Norms that a bridge computes itself, with the epsilon of its own configuration in place of the module's."""
    for layer, block in enumerate(model.blocks):
        for name, norm in block.named_children():
            if getattr(norm, "use_native_layernorm_autograd", True) or getattr(
                norm.config, "layer_norm_folding", False
            ):
                continue  # Hugging Face's module runs, or this is no norm
            epsilon, runs = getattr(norm.original_component, "eps", None), getattr(norm.config, "eps", None)
            if epsilon is not None and epsilon != runs:
                yield (
                    f"{architecture}, layer {layer}: {name} has an epsilon of {epsilon:g}, and TransformerLens runs it with "
                    f"{runs:g}, so what runs is another model than Hugging Face's."
                )


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
