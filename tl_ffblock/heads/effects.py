"""What a head does to an output: by taking it out, and by the gradient along its attention (Clark et al. 2019, section 3.2).

    ablation   the metric with the head's z put to zero, or to its mean over positions, minus the metric as it is
    gradient   d metric / d alpha_ij = (d metric / d z_i) . v_j, since z_i = sum_j alpha_ij v_j

The gradient is along one weight alone: rows need not sum to 1 then, and scores do not move. Summed over a row with its
weights it is `z_i . d metric / d z_i`, to first order what taking the head out at this position takes from the metric.
"""

from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.edited import logits_with_heads_replaced, slopes_at_values
from tl_ffblock.bridge.inputs import one_sequence
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.bridge.runs import Run, Tokens, kept_records, open_run
from tl_ffblock.layer.heads import head_names
from tl_ffblock.layer.records import LayerRecord
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
    known, tokens, read, run, _ = _observed(model, input, metric)
    clean, effects = read(run.logits[0]).detach().reshape(()), []
    for layer in range(known.n_layers):
        logits = logits_with_heads_replaced(known, tokens, layer, mean=replacement == "mean")
        effects.append(run_by_run(read, logits) - clean)
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
    known, tokens, read, run, records = _observed(model, input, metric)
    values = torch.stack([records[layer].head_values for layer in run.layers]).cpu()
    slopes = slopes_at_values(known, tokens, read)
    gradient = torch.einsum("lqhe,lkhe->lhqk", slopes.to(values), values)
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
        kind=f"gradient of {read.name} along attention",
        provenance={"fingerprint": known.fingerprint},
    )


def _observed(
    model: Any, input: str | Tokens, metric: Metric | LogitFunction
) -> tuple[Model, Int[Tensor, "1 pos"], Metric, Run, dict[int, LayerRecord]]:
    """The model, one text's tokens, the metric of its runs, and its run with the records by layer."""
    known = identify(model)
    known.refuse_untrained_head()
    tokens = one_sequence(known, input, "input")
    run = open_run(known, tokens, keeps_logits=True)
    (records,) = kept_records(run)
    clean = CleanRun(0, run.batches[0].tokens[0], run.logits[0][0])
    return known, tokens[None], as_metric(metric).for_prompts(1).bound_to(known).of_prompt(clean), run, records
