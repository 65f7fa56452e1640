"""Does a map say which contributions matter? Remove or exchange some, measure, correlate.

1. Cells are drawn of every prompt; each is predicted, taken out or exchanged for a corrupted run's, and measured (sampling.py).
2. A placebo stands beside the predictors: the map of what is removed, shuffled within its layer.
3. Spearman's rho between predictor and |effect| within every layer, its mean over layers, and 95 %
   intervals by bootstrap over prompts.

The effects do not enter the maps, and an edge that is cut is an intervention on the pattern, not on
the vectors the maps are made of.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from torch import Tensor

from tl_ffblock.bridge.inputs import one_sequence
from tl_ffblock.bridge.model import Model, identify, select_layers
from tl_ffblock.bridge.runs import Layers
from tl_ffblock.errors import InputError, brief
from tl_ffblock.interventions.pairs import PromptList, equally_long, refuse_unpaired
from tl_ffblock.interventions.sampling import PromptSample, PromptTokens, SamplePlan, Sampler
from tl_ffblock.interventions.validation_result import CausalValidation, one_after_the_other
from tl_ffblock.layer.scopes import select_scopes
from tl_ffblock.metrics import LogitFunction, Metric, as_metric, kl_divergence, loss
from tl_ffblock.progress import Progress
from tl_ffblock.signatures import strict

BY_NAME: dict[str, Callable[[], Metric]] = {"kl": kl_divergence, "loss": loss}
"""Metrics that need no answers, by the names a caller may give."""


@strict
def causal_validation(
    model: Any,
    prompts: PromptList,
    metric: Metric | LogitFunction | Literal["kl", "loss"] = "kl",
    *,
    corrupted: PromptList | None = None,
    scope: str | Sequence[str] | None = None,
    layers: Layers = None,
    edge_knockout: bool = True,
    plan: SamplePlan | None = None,
) -> CausalValidation:
    """Correlate maps with what happens when contributions are removed, or exchanged for a corrupted run's.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        prompts: Texts, or token ids [pos], one entry a prompt; lengths may differ.
        metric: What the edits may change: `ffb.logit(...)`, "kl" (of the last position's distribution against the
            clean run's), "loss", or any function of logits [batch pos d_vocab]. A list of answers has one entry a prompt.
        corrupted: Another prompt for each, of equally many tokens, whose run's contributions of the same cells are put in the
            place of this one's; None takes them out.
        scope: Scopes whose contributions are removed or exchanged; None means all. Maps of all scopes are predictors.
        layers: Layers to sample; None means all.
        edge_knockout: Whether to cut attention edges too.
        plan: Sample sizes and seed.

    Returns:
        Cells, predictors, effects and correlations. Deterministic for a seed, up to the rounding of
        batched matrix products.

    Raises:
        InputError: for input or options that cannot be used.
        UnsupportedModelError: if a scope's tensor cannot be changed in this model.
        CompletenessError: if parts do not sum to the model's tensor.
    """
    plan = plan or SamplePlan()
    known = identify(model)
    if isinstance(metric, str) and metric not in BY_NAME:
        raise InputError(f'metric={metric!r}: expected "kl", "loss" or a function of logits such as ffb.logit(...).')
    tokens = _tokens(known, prompts, corrupted)
    given = BY_NAME[metric]() if isinstance(metric, str) else as_metric(metric)
    read = given.for_prompts(len(tokens)).bound_to(known)
    sampler = Sampler(known, read, select_scopes(known.family.order, scope), edge_knockout, plan)
    chosen = select_layers(known, layers)
    generator = np.random.default_rng(plan.seed)
    total = len(tokens) * len(chosen) * plan.n_cells * len(sampler.effects)
    with Progress("edited runs", total, "run") as progress:
        samples = [sampler.sample(prompt, chosen, generator, progress.step) for prompt in tokens]
    return _result(known.name, read.name, samples, plan)


def _tokens(model: Model, prompts: PromptList, corrupted: PromptList | None) -> list[PromptTokens]:
    """The prompts, each with its corrupted one where there is one.

    Raises:
        InputError: if they are no lists of as many prompts, or the two of a pair differ in length.
    """
    for given, name in ((prompts, "prompts"), (corrupted, "corrupted")):
        alone = isinstance(given, str) or (isinstance(given, Tensor) and given.ndim < 2)
        listed = [] if alone or not isinstance(given, Iterable) else list(given)
        if not listed and (given is not None or name == "prompts"):
            raise InputError(
                f"{name}={brief(given)}: expected a list of texts or of token tensors [pos], at least one."
            )
    if corrupted is None:
        return [
            PromptTokens(number, one_sequence(model, prompt, f"prompts[{number}]"))
            for number, prompt in enumerate(prompts)
        ]
    refuse_unpaired(prompts, corrupted)
    pairs = enumerate(zip(prompts, corrupted, strict=True))
    return [PromptTokens(number, *equally_long(model, pair, f"[{number}]")) for number, pair in pairs]


def _result(model: str, metric: str, samples: Sequence[PromptSample], plan: SamplePlan) -> CausalValidation:
    """The prompts' samples as columns."""
    rows = [
        (prompt, cell.layer, cell.query, cell.key, cell.reads)
        for prompt, sample in enumerate(samples)
        for cell in sample.cells
    ]
    table = np.array(rows, dtype=np.float64).reshape(-1, 5)
    return CausalValidation(
        model=model,
        metric=metric,
        tokens=tuple(sample.tokens for sample in samples),
        clean=np.array([sample.clean for sample in samples]),
        corrupted=None
        if any(sample.corrupted is None for sample in samples)
        else np.array([sample.corrupted for sample in samples]),
        columns=dict(zip(("prompt", "layer", "query", "key", "reads"), table.T.copy(), strict=True)),
        predictions=one_after_the_other([sample.predictions for sample in samples]),
        effects=one_after_the_other([sample.effects for sample in samples]),
        plan=plan,
    )
