"""`ffb.attribute`: a model, prompts and a target become attributions.

One forward pass with linearised rules and one backward pass per batch of prompts (bridge/slopes.py). Shares that do not sum to
the target are refused.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack, overload

from jaxtyping import Integer, Shaped
from torch import Tensor

from tl_ffblock.attribution.attribution import Attribution
from tl_ffblock.attribution.shares import KEEPS, PARTS, Part, Shares
from tl_ffblock.attribution.signed_maps import PREFIX, signed_maps
from tl_ffblock.attribution.targets import Target, cotangents, for_prompts
from tl_ffblock.bridge.checkpoints import layers_run_twice
from tl_ffblock.bridge.runs import Hooks, Ids, Run, Texts, Tokens, open_run
from tl_ffblock.bridge.slopes import RULES, RuleName
from tl_ffblock.bridge.traced import batches_to_trace, difference_of_logits, trace, with_gradients
from tl_ffblock.errors import InputError, ProcessedWeightsWarning, brief, did_you_mean
from tl_ffblock.layer.positions import several
from tl_ffblock.progress import Progress
from tl_ffblock.result import Results
from tl_ffblock.signatures import spelled_out


class ForwardOptions(TypedDict, total=False):
    """How the model is run on a prompt without padding and segments."""

    fwd_hooks: Hooks
    """Hooks for this forward pass, as in `run_with_hooks`: what they add has a share of its own."""
    rtol: float | None
    """Largest relative error accepted; None means 1e-4 for float32 models, 1e-6 for float64, more for half precision."""


class AttributeOptions(ForwardOptions, total=False):
    """How the model is run."""

    attention_mask: Shaped[Tensor, "*batch pos"] | None
    """1 at real tokens of a padded batch; what comes out is that of each sequence alone."""
    token_type_ids: Integer[Tensor, "*batch pos"] | None
    """The segment of each token, for BERT."""


USUAL: tuple[Part, ...] = ("heads", "edges", "neurons")
"""Parts that come with the backward pass."""

DEFAULTS: dict[str, Any] = {"attention_mask": None, "token_type_ids": None, "fwd_hooks": (), "rtol": None}
"""The options where they are not given."""


@overload
def attribute(
    model: Any,
    prompts: str | Ids,
    target: Target,
    *,
    rules: RuleName = "path",
    of: Sequence[Part] | Part = USUAL,
    checkpoint: bool | None = None,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> Attribution: ...
@overload
def attribute(
    model: Any,
    prompts: Texts,
    target: Target,
    *,
    rules: RuleName = "path",
    of: Sequence[Part] | Part = USUAL,
    checkpoint: bool | None = None,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> Results[Attribution]: ...
@overload
def attribute(
    model: Any,
    prompts: Tokens,
    target: Target,
    *,
    rules: RuleName = "path",
    of: Sequence[Part] | Part = USUAL,
    checkpoint: bool | None = None,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> Any: ...
@spelled_out(AttributeOptions, DEFAULTS)
def attribute(
    model: Any,
    prompts: str | Texts | Ids | Tokens,
    target: Target,
    *,
    rules: RuleName = "path",
    of: Sequence[Part] | Part = USUAL,
    checkpoint: bool | None = None,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> Attribution | Results[Attribution]:
    """Which tokens and biases contribute to a logit, through which heads and neurons: signed shares through all layers.

    With `rules="path"` attention patterns, norm scales and routers are frozen and activations are attributed by Integrated
    Gradients from zero (eq. 12-14), as in the layer maps: the model is then linear in embeddings and biases, and the shares
    sum to the target, in its units. `"patching"` lets queries and keys take part with their gradient: better for what happens
    when a prompt is changed, not complete. `"gradient"` is gradient x input. Costs one forward and one backward pass.

    Tokens, positions, token types and biases (with edits, and the nonlinear part) sum to the target. Do not add shares of heads
    or neurons to them: they are another decomposition of the same total. Within a layer, heads, residual stream and later
    biases sum to the target; shares of different layers, and of heads and neurons, overlap.

    Completeness does not imply faithfulness: shares that sum up do not say what the model would do without a token.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        prompts: A text, a list of texts, or token ids.
        target: `ffb.logit(" Mary", minus=" John")`; a token as text or id, whose logit at the last position is read; any
            differentiable function of logits [batch pos d_vocab] to one number per prompt; or `ffb.direction(vector, layer=...)`
            in the residual stream. What is not linear in the logits is attributed to first order; the remaining part is
            `Attribution.nonlinear`.
        rules: "path", "patching" or "gradient".
        of: Parts beside tokens, residual stream and biases: "heads" [layer head pos], "edges" [layer head query key],
            "neurons" [pos d_mlp] of each layer, and "maps", the layer maps of `contribution_maps` with a sign: what every
            contribution contributes to the target (`rules="path"`; one more forward pass, and one vjp through each layer per scope),
            and "graph", for `Attribution.graph`.
        checkpoint: Whether layers keep their inputs alone and run again in the backward pass, which takes a forward pass more
            and much less memory; the numbers are the same to the bit. None means beyond 1024 tokens, where no hook of yours
            would see a tensor twice.
        progress: Whether a long call shows a bar at a terminal or in a notebook.
        attention_mask: 1 at real tokens of a padded batch. The result is that of each sequence alone.
        token_type_ids: The segment of each token, for BERT.
        fwd_hooks: Hooks for this forward pass, as in `run_with_hooks`.
        rtol: Largest relative error accepted in the certificate.

    Returns:
        One result for a text or [pos] tokens; `ffb.Results`, a list, for a list of texts or a [batch, pos] tensor.

    Raises:
        InputError: for input, a target or options that cannot be used.
        UnsupportedModelError: for models that are not decomposed.
        IdentityError: if the model is not read rightly.
        CompletenessError: if linearised modules miss the model's tensors, or shares the target where rules are complete.
    """
    chosen, parts = RULES[rules], _read_parts(of)
    if "maps" in parts and not chosen.complete:
        raise InputError(f'of="maps" with rules={rules!r}: layer maps are linear, so are only those of rules="path".')
    run = open_attribution_run(model, prompts, **options)
    metric = for_prompts(target, len(run.sequences))
    difference = difference_of_logits(run.model, chosen.name)
    keeps = frozenset(name for part in parts for name in KEEPS[part])
    results: dict[int, Attribution] = {}
    by_stream: dict[int, Tensor] = {}
    batches = list(batches_to_trace(run))
    with Progress(run.model.name, len(batches), "batches", shown=progress) as bar, with_gradients():
        for batch in batches:
            traced = trace(run, batch, chosen, keeps, twice=layers_run_twice(run, batch, checkpoint))
            begin = cotangents(run, traced, metric)
            back = traced.backward(begin.tensor, begin.gradient)
            for index, number in enumerate(batch.numbers):
                shares = Shares(run, traced, back, begin, parts, index)
                results[number] = shares.attribution(difference)
                if "maps" in parts:
                    by_stream[number] = shares.by_stream()
            bar.step()
    for number, maps in signed_maps(run, by_stream, run.settings.rtol).items() if "maps" in parts else ():
        named = {PREFIX + scope: cells for scope, cells in maps.items()}
        results[number] = replace(results[number], parts={**results[number].parts, **named})
    return results[0] if run.single else Results(results[number] for number in range(len(run.sequences)))


def open_attribution_run(model: Any, prompts: str | Texts | Ids | Tokens, **options: Any) -> Run:
    """A model and its prompts, checked and ready; processed weights are as good as others here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProcessedWeightsWarning)
        return open_run(model, prompts, **options)


def _read_parts(of: Sequence[Part] | Part) -> tuple[Part, ...]:
    asked = several(of)
    unknown = [part for part in asked if part not in PARTS]
    if unknown:
        raise InputError(
            f"of={brief(of)}: expected some of {', '.join(map(repr, PARTS))}; tokens and biases are always there. "
            f"{did_you_mean(unknown[0], PARTS)}".rstrip()
        )
    return tuple(asked)
