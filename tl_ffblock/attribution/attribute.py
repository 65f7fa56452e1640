"""`ffb.attribute`: a model, prompts and a target become attributions.

One forward pass with local rules and one backward pass a batch of prompts (bridge/slopes.py says how). What does not sum
up is refused.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypedDict, Unpack, get_args, overload

from jaxtyping import Integer, Shaped
from torch import Tensor

from tl_ffblock.attribution.attribution import Attribution
from tl_ffblock.attribution.shares import KEEPS, PARTS, Part, Shares
from tl_ffblock.attribution.signed_maps import PREFIX, signed_maps
from tl_ffblock.attribution.targets import Target, for_prompts, seeds
from tl_ffblock.bridge.linearised import RULES, RuleName, Rules
from tl_ffblock.bridge.runs import Hooks, Ids, Run, Texts, Tokens, open_run
from tl_ffblock.bridge.traced import batches_to_trace, difference_of_logits, layers_run_twice, trace, with_gradients
from tl_ffblock.errors import InputError, ProcessedWeightsWarning, brief, did_you_mean
from tl_ffblock.layer.positions import several
from tl_ffblock.progress import Progress
from tl_ffblock.signatures import spelled_out


class ForwardOptions(TypedDict, total=False):
    """How the model is run on a prompt without padding and segments."""

    fwd_hooks: Hooks
    """Hooks for this run, as in `run_with_hooks`: what they bring has a share of its own."""
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
) -> list[Attribution]: ...
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
) -> Attribution | list[Attribution]:
    """Which tokens and biases made a logit, through which heads and neurons: shares through all layers, signed, in its units.

    With `rules="path"` patterns, norm scales and routers are those of the run and activations are shared by Integrated
    Gradients from zero (eq. 12-14), as in the layer maps: the model is then linear in embeddings and biases, and the shares
    sum to the target. `"patching"` lets queries and keys take part with their gradient: better for what happens when a
    prompt is changed, not complete. `"gradient"` is gradient x input. Costs one forward and one backward pass.

    Tokens, positions, token types and biases (with edits, and what is not linear) are the target, each counted once. Heads and
    neurons are no further summands: in one layer the heads and what goes past them, with the biases that enter later, are the
    whole target again; later layers read earlier ones and neurons read heads, so that their shares overlap.

    That shares sum up says that nothing is missing, not that the model would do without a token what its share says.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        prompts: A text, a list of texts, or token ids.
        target: `ffb.logit(" Mary", minus=" John")`, any differentiable function of logits [batch pos d_vocab] to one number
            a prompt, or `ffb.direction(vector, layer=...)` in the residual stream. What is not linear in the logits is shared
            out to first order; the rest is `Attribution.nonlinear`.
        rules: "path", "patching" or "gradient".
        of: Parts beside tokens, residual stream and biases: "heads" [layer head pos], "edges" [layer head query key],
            "neurons" [pos d_mlp] of each layer, and "maps", the layer maps of `contribution_maps` with a sign: what every
            contribution carries to the target (`rules="path"`; one more forward pass and a walk through each layer a scope), and "graph", for `Attribution.graph`.
        checkpoint: Whether layers keep their inputs alone and run again in the backward pass, which takes a forward pass more
            and much less memory; the numbers are the same to the bit. None means beyond 1024 tokens, where no hook of yours
            would see a tensor twice.
        progress: Whether a long call shows a bar at a terminal or in a notebook.
        attention_mask: 1 at real tokens of a padded batch. The result is that of each sequence alone.
        token_type_ids: The segment of each token, for BERT.
        fwd_hooks: Hooks for this run, as in `run_with_hooks`.
        rtol: Largest relative error accepted in the certificate.

    Returns:
        One result for a text or [pos] tokens; a list for a list of texts or a [batch, pos] tensor.

    Raises:
        InputError: for input, a target or options that cannot be used.
        UnsupportedModelError: for models that are not decomposed.
        IdentityError: if the model is not read rightly.
        CompletenessError: if local forms miss the model's tensors, or shares the target where rules are complete.
    """
    chosen, parts = read_rules(rules), _read_parts(of)
    if "maps" in parts and not chosen.complete:
        raise InputError(f'of="maps" with rules={rules!r}: layer maps are linear, so are only those of rules="path".')
    run = open_attribution_run(model, prompts, **options)
    target = for_prompts(target, len(run.sequences))
    difference = difference_of_logits(run.model, chosen.name)
    keeps = frozenset(name for part in parts for name in KEEPS[part])
    results: dict[int, Attribution] = {}
    by_stream: dict[int, Tensor] = {}
    batches = list(batches_to_trace(run))
    with Progress(run.model.name, len(batches), "batches", shown=progress) as bar, with_gradients():
        for batch in batches:
            traced = trace(run, batch, chosen, keeps, twice=layers_run_twice(run, batch, checkpoint))
            begin = seeds(run, traced, target)
            back = traced.backward(begin.tensor, begin.gradient)
            shares = Shares(run, traced, back, begin, parts)
            for index, (number, result) in enumerate(shares.results(difference)):
                assert result.certificate is not None, "every result of a run has one"
                result.certificate.refuse(run.model.name, chosen.name)
                results[number] = result
                if "maps" in parts:
                    by_stream[number] = shares.by_stream(index)
            bar.step()
    for number, maps in signed_maps(run, by_stream, run.settings.rtol).items() if "maps" in parts else ():
        named = {PREFIX + scope: cells for scope, cells in maps.items()}
        results[number] = replace(results[number], parts={**results[number].parts, **named})
    return run.as_asked(results[number] for number in range(len(run.sequences)))


def open_attribution_run(model: Any, prompts: str | Texts | Ids | Tokens, **options: Any) -> Run:
    """A model and its prompts, checked and ready; processed weights are as good as others here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProcessedWeightsWarning)
        return open_run(model, prompts, **options)


def read_rules(rules: RuleName) -> Rules:
    """The rules of a name.

    Raises:
        InputError: if there are none of this name.
    """
    if rules not in get_args(RuleName):
        raise InputError(f'rules={rules!r}: expected "path", "patching" or "gradient".')
    return RULES[rules]


def _read_parts(of: Sequence[Part] | Part) -> tuple[Part, ...]:
    asked = several(of)
    unknown = [part for part in asked if part not in PARTS]
    if unknown:
        raise InputError(
            f"of={brief(of)}: expected some of {', '.join(map(repr, PARTS))}; tokens and biases are always there. "
            f"{did_you_mean(unknown[0], PARTS)}".rstrip()
        )
    return tuple(asked)
