"""Reasons why a model cannot be decomposed that are known from its configuration and modules, as sentences of errors.

Reasons in the table of families, in missing HookPoints or in weights are found where these are read. Reasons that need a forward
pass are found by the identities (selfcheck.py).
"""

# Noun: unsupported architectures (TransformerLens, supported_models)
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from tl_ffblock.bridge.families import FAMILIES, supported
from tl_ffblock.bridge.mixers import MIXERS
from tl_ffblock.bridge.offloaded import has_lost_weights, weight_on_device
from tl_ffblock.errors import InputError, UnsupportedModelError

# Beginning of the architecture's name, an option in words, and a test of a Hugging Face configuration for it.
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


def _option(config: Any, name: str) -> Any:
    return getattr(config, name, None)


# Test of (model, its Hugging Face configuration, architecture), and the sentence of the error.
_REASONS: tuple[tuple[Callable[[Any, Any, str], bool], str], ...] = (
    (
        lambda model, config, _: hasattr(model, "encoder_blocks") or bool(_option(config, "is_encoder_decoder")),
        "{architecture} is an encoder-decoder: cross-attention mixes tokens of two sequences, for which no scope is "
        "defined. Supported are decoders and encoders.",
    ),
    (
        lambda model, *_: bool(_option(model.cfg, "is_audio_model") or _option(model.cfg, "is_visual_model")),
        "{architecture} reads audio or images, expected a model of text.",
    ),
    (
        lambda model, *_: not hasattr(model, "blocks"),
        "{architecture} has no `blocks`, so its block form is not known. Supported are {supported}.",
    ),
)
_REASONS_OF_OPTIONS: tuple[tuple[Callable[[Any, Any, str], bool], str], ...] = (
    (
        lambda _, config, name: name.startswith("OPT") and _option(config, "do_layer_norm_before") is False,
        "OPT with do_layer_norm_before=False (OPT-350m) is Post-LN, which TransformerLens cannot run with hooks. "
        "Every other OPT size is supported.",
    ),
    *(
        (
            lambda _, config, name, start=start, is_set=is_set: (
                config is not None and name.startswith(start) and is_set(config)
            ),
            f"{{architecture}} with {option} is not supported: TransformerLens ignores this option, so its model differs from "
            "Hugging Face's.",
        )
        for start, option, is_set in _IGNORED_OPTIONS
    ),
    (
        lambda _, config, name: name.startswith("Gemma3") and bool(_option(config, "use_bidirectional_attention")),
        "{architecture} with use_bidirectional_attention=True is not supported: its tokens attend to later ones, but "
        "this family is decomposed as causal.",
    ),
    (
        lambda _, config, name: name.startswith("Gemma4") and _option(config, "use_bidirectional_attention") == "all",
        '{architecture} with use_bidirectional_attention="all" is not supported: its tokens attend to later ones, but this family is '
        "decomposed as causal.",
    ),
    (
        lambda _, config, __: bool(_option(config, "num_kv_shared_layers")),
        "{architecture} with num_kv_shared_layers > 0 is not supported: its last layers attend to keys and values of an earlier layer, "
        "so that their contributions are those of another layer's input.",
    ),
    (
        lambda _, config, __: bool(_option(config, "hidden_size_per_layer_input")),
        "{architecture} with hidden_size_per_layer_input > 0 is not supported: after the feed-forward, a third branch multiplies each "
        "layer's own embedding of the token, which is not a known block form.",
    ),
    (
        lambda _, config, name: name.startswith("Gemma4") and bool(_option(config, "enable_moe_block")),
        "{architecture} with enable_moe_block=True is not supported: a dense feed-forward and experts read the stream side by side, each "
        "with norms of its own, which is not a known block form.",
    ),
    (
        lambda _, config, __: bool(_option(config, "new_decoder_architecture")),
        "Falcon with new_decoder_architecture=True (40B, 180B, Falcon-2) is not supported: TransformerLens splits its "
        "queries, keys and values wrongly, so its model is not Falcon. Falcon-7B and Falcon-RW are supported.",
    ),
    (
        lambda _, config, name: name.startswith(("Bert", "Roberta")) and bool(_option(config, "is_decoder")),
        "{architecture} with is_decoder=True is not supported: expected the bidirectional encoder.",
    ),
    *(
        (
            lambda model, _, name, family=family: name in family.architectures and not _option(model.cfg, family.needs),
            f"{{architecture}}: this TransformerLens ignores {family.needs}, so its model differs from Hugging Face's (its residual "
            "stream by more than its own norm). Use TransformerLens 4.3.",
        )
        for family in FAMILIES
        if family.needs
    ),
    (
        lambda model, *_: has_lost_weights(model),
        "{architecture} has weights on no device (meta), and no hook of accelerate that loads them. Load the model with its "
        "weights, or with a device_map of CPU and disk.",
    ),
    (
        lambda model, *_: bool(_option(model.cfg, "use_attention_sinks")) and hasattr(model.blocks[0].mlp, "experts"),
        "{architecture} as a HookedTransformer is not supported: its clamped experts have no known form there. Use a "
        "TransformerBridge.",
    ),
)
_FORMER_DISABLE = "gradient_checkpointing_disable"
# Modules of layers that mix tokens in a form that is not known.
_FOREIGN = {"ssm", "time_mix", "short_conv"}


def refuse(model: Any, architecture: str) -> None:
    """Refuse a model for the first reason that applies.

    Raises:
        UnsupportedModelError: with the reason, and a remedy if there is one.
    """
    for reason in _reasons(model, architecture):
        raise UnsupportedModelError(reason)


def refuse_modes(model: Any) -> None:
    """Refuse modes of torch and of the model in which its numbers change, or its layers run twice.

    Raises:
        InputError: for autocast, and for training mode with active dropout or checkpointed layers.
    """
    first = weight_on_device(model)
    devices = {"cpu"} | (set() if first is None or first.is_meta else {first.device.type})
    if any(torch.is_autocast_enabled(device) for device in devices):
        raise InputError("autocast is on: expected a single dtype. Call outside of torch.autocast.")
    dropout = _active_dropout(model)
    if dropout is not None:
        raise InputError(
            f"model is in training mode: its dropout ({dropout}) would change every number. Call model.eval() first."
        )
    for name, module in _wrapped_modules(model):
        if module.training and vars(module).get("gradient_checkpointing", False):
            disable = "activation_checkpointing_disable"  # the name since transformers 5
            known = disable if hasattr(getattr(model, "original_model", model), disable) else _FORMER_DISABLE
            raise InputError(
                f"model is in training mode with gradient checkpointing (on {name or 'the model'}): its layers would run again in the "
                f"backward pass, without the callbacks of this call. Call model.eval(), or model.original_model.{known}() first."
            )


def _wrapped_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Modules of the model that a bridge wraps, or of the model itself, with their names there."""
    for name, module in getattr(model, "original_model", model).named_modules():
        yield name.replace("._original_component", ""), module


def _active_dropout(model: nn.Module) -> str | None:
    """First module with active dropout or noise, with its setting; None if there is none.

    Training mode is not enough: many models have no dropout, or one of 0.
    """
    for place, module in _wrapped_modules(model):
        if not module.training:
            continue
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
    said = {"architecture": architecture, "supported": supported()}
    yield from (text.format(**said) for holds, text in _REASONS if holds(model, config, architecture))
    attn_only = bool(getattr(model.cfg, "attn_only", False))
    for layer, block in enumerate(model.blocks):
        reasons = _reasons_of_block(block, attn_only=attn_only)
        yield from (f"{architecture}, layer {layer}: {reason}" for reason in reasons)
    yield from (text.format(**said) for holds, text in _REASONS_OF_OPTIONS if holds(model, config, architecture))
    yield from _unused_epsilons(model, architecture)
    if _processed_sinks(model):
        yield (
            f"{architecture} has attention sinks, and its weights were processed: folding b_V into b_O assumes that rows of the "
            "pattern sum to 1, so the model was changed (log-probabilities by 0.8). Omit enable_compatibility_mode(), or pass "
            "no_processing=True."
        )


def _reasons_of_block(block: Any, *, attn_only: bool) -> Iterator[str]:
    children = {name for name, _ in block.named_children()}
    foreign, mixers = sorted(children & _FOREIGN), children & {"attn", *MIXERS}
    if foreign or not mixers:
        yield (
            f"a {', '.join(foreign) or 'layer without attention'} mixes tokens in a form that is not known; expected attention, a gated "
            "delta net, Mamba, Mamba-2 or a short convolution."
        )
    if len(mixers) > 1:
        yield f"it has {' and '.join(sorted(mixers))} in parallel, which is not a known block form."
    if not children & {"mlp", "moe", "shared_mlp"} and not attn_only and mixers == {"attn"}:
        yield "it has no feed-forward, but the model is not configured as attention-only (attn_only)."
    experts = getattr(getattr(block, "mlp", None), "original_component", None)
    if hasattr(experts, "router") and not hasattr(experts, "experts"):
        yield f"its mixture of experts ({type(experts).__name__}) has no module `experts`, so their weights are not known."
    for name, parameter in block.named_parameters():
        if parameter.dtype not in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
            yield (
                f"{name} is {parameter.dtype}: quantised weights of this format cannot be read exactly (bitsandbytes packs them in a "
                "format that depends on the machine, and with 8 bits rounds inputs). Load the model in bfloat16, float16 or float32, "
                "use model.dequantize(), or weight-only quantisation of torchao."
            )


def _unused_epsilons(model: Any, architecture: str) -> Iterator[str]:
    """Sentences for norms that a bridge computes with another epsilon than the module's."""
    for layer, block in enumerate(model.blocks):
        for name, norm in block.named_children():
            if getattr(norm, "use_native_layernorm_autograd", True) or getattr(
                norm.config, "layer_norm_folding", False
            ):
                continue  # Hugging Face's module runs, or this is not a norm
            epsilon, runs = getattr(norm.original_component, "eps", None), getattr(norm.config, "eps", None)
            if epsilon is not None and epsilon != runs:
                yield (
                    f"{architecture}, layer {layer}: {name} has an epsilon of {epsilon:g}, but TransformerLens uses "
                    f"{runs:g}, so its model differs from Hugging Face's."
                )


def _processed_sinks(model: Any) -> bool:
    # gpt_oss in compatibility mode with processing, or as a HookedTransformer with folded weights.
    cfg, attention = model.cfg, next((block.attn for block in model.blocks if hasattr(block, "attn")), None)
    folded = getattr(model, "_weights_processed", False) or str(getattr(cfg, "normalization_type", "")).endswith("Pre")
    sinks = hasattr(getattr(attention, "original_component", attention), "sinks") or _option(cfg, "use_attention_sinks")
    return bool(folded and sinks)
