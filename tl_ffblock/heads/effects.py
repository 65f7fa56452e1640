"""What a head does to an output: by taking it out, and by the gradient along its attention (Clark et al. 2019, section 3.2).

    ablation   the metric with the head's z put to zero, or to its mean over positions, minus the metric as it is
    gradient   d metric / d alpha_ij = (d metric / d z_i) . v_j, since z_i = sum_j alpha_ij v_j

The gradient is along one weight alone: rows need not sum to 1 then, and scores do not move. Summed over a row with its
weights it is `z_i . d metric / d z_i`, to first order what taking the head out at this position takes from the metric.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.edited import logits_with_heads_replaced, slopes_at_values
from tl_ffblock.bridge.inputs import one_sequence
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.bridge.runs import Tokens, kept_records, open_run
from tl_ffblock.errors import InputError
from tl_ffblock.layer.heads import head_names
from tl_ffblock.metrics import CleanRun, LogitFunction, Metric, as_metric, run_by_run
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.signatures import strict

Replacement: TypeAlias = Literal["zero", "mean"]
"""What stands in a head's place: nothing, or its mean over the prompt's positions."""


@strict
def ablation_effects(
    model: Any, input: str | Tokens, metric: Metric | LogitFunction, *, replacement: Replacement = "zero"
) -> Float[Tensor, "layer head"]:
    """What the metric changes by when a head is taken out, for every head: one run a head, those of a layer side by side.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        input: One text, or token ids.
        metric: What is read of each run's logits, such as `metrics.loss()`.
        replacement: What stands in the head's place.

    Raises:
        InputError: for several texts, or another replacement.
        UntrainedHeadError: for a model whose unembedding was never trained.
        UnsupportedModelError: for models whose layers are not decomposed.
    """
    if replacement not in get_args(Replacement):
        raise InputError(f'replacement={replacement!r}: expected "zero" or "mean".')
    observed = _ObservedRun.of(model, input, metric)
    effects = []
    for layer in range(observed.model.n_layers):
        logits = logits_with_heads_replaced(observed.model, observed.tokens, layer, mean=replacement == "mean")
        effects.append(run_by_run(observed.metric, logits) - observed.clean)
    return torch.stack(effects).float().cpu()


@strict
def attention_gradients(model: Any, input: str | Tokens, metric: Metric | LogitFunction) -> TokenMaps:
    """The derivative of a metric by every weight of every head's attention, signed; Clark et al. average its size.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        input: One text, or token ids.
        metric: What is read of the logits, such as `metrics.loss()`.

    Raises:
        InputError: for several texts.
        UntrainedHeadError: for a model whose unembedding was never trained.
        UnsupportedModelError: for models whose layers are not decomposed.
    """
    observed = _ObservedRun.of(model, input, metric)
    slopes = slopes_at_values(observed.model, observed.tokens, observed.metric)
    gradient = torch.einsum("lqhe,lkhe->lhqk", slopes.to(observed.values), observed.values)
    causal, n_layers, n_heads = observed.model.family.causal, *observed.pattern.shape[:2]
    return TokenMaps(
        values=gradient.tril() if causal else gradient,
        tokens=observed.labels,
        layers=tuple(range(n_layers)),
        channels=head_names(range(n_heads)),
        queries=tuple(range(len(observed.labels))),
        causal=causal,
        model=observed.model.name,
        signed=True,
        kind=f"gradient of {observed.metric.name} along attention",
        provenance={"fingerprint": observed.model.fingerprint},
    )


@dataclass(frozen=True, eq=False)
class _ObservedRun:
    """One text's run, with what is read of it."""

    model: Model
    tokens: Int[Tensor, "1 pos"]
    labels: tuple[str, ...]
    pattern: Float[Tensor, "layer head query key"]
    values: Float[Tensor, "layer key head d_head"]
    metric: Metric
    clean: Float[Tensor, ""]
    """The metric of the run as it is."""

    @classmethod
    def of(cls, model: Any, input: str | Tokens, metric: Metric | LogitFunction) -> "_ObservedRun":
        known = identify(model)
        known.refuse_untrained_head()
        tokens = one_sequence(known, input, "input")
        run = open_run(known, tokens, keeps_logits=True)
        (records,) = kept_records(run)
        read = (
            as_metric(metric)
            .for_prompts(1)
            .bound_to(known)
            .of_prompt(CleanRun(0, run.batches[0].tokens[0], run.logits[0][0]))
        )
        return cls(
            model=known,
            tokens=tokens[None],
            labels=run.sequences[0].labels,
            pattern=torch.stack([records[layer].pattern for layer in run.layers]).cpu(),
            values=torch.stack([records[layer].head_values for layer in run.layers]).cpu(),
            metric=read,
            clean=read(run.logits[0]).detach().reshape(()),
        )
