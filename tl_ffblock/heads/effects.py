"""Effect of a head on an output: by ablation, and by the gradient along its attention (Clark et al. 2019, section 3.2).

    ablation   the metric with the head's z set to zero, or to its mean over positions, minus the metric without a change
    gradient   d metric / d alpha_ij = (d metric / d z_i) . v_j, since z_i = sum_j alpha_ij v_j

The gradient is along a single weight: rows need not sum to 1, and scores do not change. Its sum over a row, weighted by attention,
is `z_i . d metric / d z_i`. This estimates the fall of the metric when the head is ablated at this position.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.attribution.targets import Direction, Target, for_prompts
from tl_ffblock.bridge.edited import outputs_under, outputs_with_heads_replaced, slopes_at_values
from tl_ffblock.bridge.inputs import one_sequence
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.bridge.runs import Run, Tokens, kept_records, open_run
from tl_ffblock.layer.heads import head_names
from tl_ffblock.metrics import CleanRun, run_by_run
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.signatures import strict

HeadReplacement: TypeAlias = Literal["zero", "mean"]
"""Replacement of a head's output: zero, or its mean over the prompt's positions."""


@strict
def ablation_effects(
    model: Any, input: str | Tokens, metric: Target, *, replacement: HeadReplacement = "zero"
) -> Float[Tensor, "layer head"]:
    """Head ablation: change of a target when a head is ablated [layer head]. One forward pass per head, in batches by layer.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        input: One text, or token ids.
        metric: A function of logits such as `metrics.loss()`, a token, or an `ffb.direction` of the residual stream, which needs no
            language-model head.
        replacement: Replacement of the head's output, "zero" or "mean".

    Raises:
        InputError: for several texts, another replacement, or layers with different numbers of heads.
        UntrainedHeadError: for logits of a model whose unembedding was never trained.
        UnsupportedModelError: for models that cannot be decomposed.
    """
    seen, effects = _observed(model, input, metric), []
    seen.model.heads_of(range(seen.model.n_layers), 'Use ffb.attribute(model, input, target, of="heads").')
    for layer in range(seen.model.n_layers):
        outputs = outputs_with_heads_replaced(seen.model, seen.tokens, layer, seen.layer, mean=replacement == "mean")
        effects.append(seen.read(outputs) - seen.clean)
    return torch.stack(effects).float().cpu()


@strict
def attention_gradients(model: Any, input: str | Tokens, metric: Target) -> TokenMaps:
    """Derivative of a target by every attention weight, signed, as maps by head. Clark et al. average its absolute value.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        input: One text, or token ids.
        metric: A function of logits such as `metrics.loss()`, a token, or an `ffb.direction` of the residual stream, which needs no
            language-model head. Layers after that of the direction have zeros.

    Raises:
        InputError: for several texts.
        UntrainedHeadError: for logits of a model whose unembedding was never trained.
        UnsupportedModelError: for models that cannot be decomposed, or with layers without a softmax.
    """
    seen = _observed(model, input, metric)
    seen.model.refuse_recurrent("derivatives are those by attention weights. Use `edges` of ffb.attribute")
    known, run, (records,) = seen.model, seen.run, kept_records(seen.run)
    slopes = slopes_at_values(known, seen.tokens, seen.read, seen.layer)
    by_layer = [records[layer].gated(slopes[layer].to(records[layer].value)) for layer in run.layers]
    values = (records[layer].head_values for layer in run.layers)  # whose width may differ by layer
    pairs = zip(by_layer, values, strict=True)
    gradient = torch.stack([torch.einsum("qhe,khe->hqk", by_z, value).cpu() for by_z, value in pairs])
    labels, causal = run.sequences[0].labels, known.family.causal
    return TokenMaps(
        values=gradient.tril() if causal else gradient,
        tokens=labels,
        layers=run.layers,
        channels=head_names(range(gradient.shape[1])),
        queries=tuple(range(len(labels))),
        causal=causal,
        model=known.name,
        signed=True,
        kind=f"gradient of {seen.name} along attention",
        provenance={"fingerprint": known.fingerprint},
    )


@dataclass(frozen=True)
class _Observed:
    """A model with one text and a target: `read` takes logits, or the residual stream at the input of `layer`."""

    model: Model
    tokens: Int[Tensor, "1 pos"]
    run: Run
    name: str
    layer: int | None
    read: Callable[[Float[Tensor, "run pos d"]], Float[Tensor, " run"]]
    clean: Float[Tensor, ""]
    """The target without a change."""


def _observed(model: Any, input: str | Tokens, target: Target) -> _Observed:
    known = identify(model)
    tokens = one_sequence(known, input, "input")
    asked, run = for_prompts(target, 1, "metric"), open_run(known, tokens)
    layer, name = asked.place_in(known) if isinstance(asked, Direction) else (None, asked.name)
    if layer is None:
        known.refuse_untrained_head()
    with torch.no_grad():
        clean = outputs_under(known, tokens[None], (), layer)
    if isinstance(asked, Direction):
        derivative = asked.derivative(clean[0])
        read: Callable[[Tensor], Tensor] = lambda stream: (stream * derivative).flatten(1).sum(dim=1)  # noqa: E731
    else:
        read = partial(run_by_run, asked.bound_to(known).of_prompt(CleanRun(0, tokens, clean[0])))
    return _Observed(known, tokens[None], run, name, layer, read, read(clean).detach().reshape(()))
