"""What is attributed: a function of the logits, or a direction in the residual stream, of every sequence of a batch."""

import warnings
from dataclasses import dataclass
from typing import SupportsIndex, TypeAlias, cast

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from tl_ffblock.bridge.inputs import first_tokens, quoted
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.runs import Run
from tl_ffblock.bridge.traced import Traced
from tl_ffblock.errors import InputError, MissingSpaceWarning
from tl_ffblock.layer.positions import layer_number, one_position, whole_number
from tl_ffblock.metrics import AnswerMetric, CleanRun, KLDivergence, LogitFunction, Metric, as_metric, logit
from tl_ffblock.numerals import significant
from tl_ffblock.signatures import strict, whole


@strict
@dataclass(frozen=True)
class Direction:
    """The residual stream at one position, projected on a vector: `<vector, x_at>`."""

    vector: Float[Tensor, " d_model"]
    layer: int
    """The layer whose input is read; the number of layers means the last one's output, as does -1."""
    at: int = -1

    def place_in(self, model: Model) -> tuple[int, str]:
        """The layer at whose input it is read, as a number from 0, and what it is called.

        Raises:
            LayerError: if there is no such layer.
        """
        layer = layer_number(self.layer, model.n_layers + 1, f"in {model.name}, whose last one's output is the last")
        return (
            layer,
            f"direction {'behind the last layer' if layer == model.n_layers else f'at the input of layer {layer}'}",
        )


_NO_DIVERGENCE = 1e-9
"""Divergences below this are rounding, in nats: that of two runs whose logits differ by 1e-4 is 1e-9 to 1e-8."""
_EXPECTED = 10
"""A token is expected where its logit is one of so many largest."""

Target: TypeAlias = Metric | LogitFunction | Direction | str | SupportsIndex
"""A metric, any differentiable function of logits to one number a prompt, a direction in the residual stream, or a token, as
text or id, whose logit at the last position is read."""


@strict
def direction(vector: Float[Tensor, " d_model"], *, layer: SupportsIndex, at: SupportsIndex = -1) -> Direction:
    """A target that reads the residual stream: what a head's query, a probe or a sparse autoencoder's latent reads.

    Args:
        vector: What the residual stream is projected on.
        layer: The layer whose input is read; -1 is the last layer's output.
        at: Position to read, negative ones from the end.

    Raises:
        InputError: if the vector is none, is zero, or holds NaN or infinity.
    """
    if not isinstance(vector, Tensor) or vector.ndim != 1 or not vector.is_floating_point():
        raise InputError(f"vector is {vector!r:.80}: expected a tensor of floats [d_model].")
    if not bool(vector.isfinite().all()):
        raise InputError("vector holds NaN or infinity.")
    if not bool(vector.any()):
        raise InputError("vector is zero: it has no direction, and its target would be 0 whatever the model does.")
    return Direction(vector.detach(), whole_number(layer, "layer"), whole_number(at, "at"))


@dataclass(frozen=True)
class Cotangents:
    """The targets of a batch and their derivatives, from which a backward pass begins (`grad_outputs` of autograd).

    `name` is what kind of number they are, `words` by prompt the same with the tokens that it reads. They are read at the input of
    `layer`, whose number is that of the layers for the last one's output and for logits, off `tensor`; `gradient` are their
    derivatives by it. `first_order` is `<tensor, gradient>`, which is attributed: the value, where it is linear in the logits.
    """

    name: str
    words: tuple[str, ...]
    layer: int
    tensor: Tensor
    gradient: Tensor
    values: Float[Tensor, " batch"]
    first_order: Float[Tensor, " batch"]


def for_prompts(target: Target, number: int) -> Metric | Direction:
    """A target of so many prompts.

    Raises:
        InputError: if it is none, or has answers for another number of prompts.
    """
    if isinstance(target, Direction):
        return target
    token = isinstance(target, str) or whole(target) is not None
    return (logit(cast("str", target)) if token else as_metric(cast("Metric", target), "target")).for_prompts(number)


def of_logits(target: Target, model: Model, number: int) -> Metric:
    """A target of so many prompts that is a function of logits, for a model that has them.

    Raises:
        InputError: if it is none, a direction, or has answers for another number of prompts.
        UntrainedHeadError: for an encoder whose head was never trained.
    """
    metric = for_prompts(target, number)
    if isinstance(metric, Direction):
        raise InputError(
            "target is a direction in the residual stream: this call reads logits. Use a function of logits, such as ffb.logit(...)."
        )
    model.refuse_untrained_head()
    return metric.bound_to(model)


def words_of(model: Model, metric: Metric) -> str:
    """The metric of one prompt with the tokens that it reads, and where, unless at the end: `logit difference ' Mary' − ' John'`."""
    words = f"{metric.name} {metric.answers_in_words(lambda ids: quoted(model, torch.tensor(ids)))}".rstrip()
    return words if metric.at in (None, -1) else f"{words} at {metric.at}"


def bound_to_run(run: Run, traced: Traced, target: Target, number: int = 0, of: int = 1) -> Metric | Direction:
    """The target of a forward pass of one prompt, to be read in others, too, which are compared with this one.

    Args:
        run: Of the prompt.
        traced: Its forward pass.
        target: As a caller gave it.
        number: The prompt's number in the caller's list.
        of: Prompts in that list.

    Raises:
        InputError: if it is no target, or has answers for another number of prompts.
        UntrainedHeadError: for logits of an encoder whose head was never trained.
    """
    metric = for_prompts(target, of)
    if isinstance(metric, Direction):
        return metric
    run.model.refuse_untrained_head()
    clean = CleanRun(number, traced.batch.sequence(0), traced.logits[0].detach())
    bound = metric.bound_to(run.model).of_prompt(clean)
    _warn_of_missing_spaces(run.model, traced, metric.of_prompt(clean))
    return bound


def values_of(
    run: Run, traced: Traced, target: Metric | Direction, logits: Float[Tensor, "batch pos d_vocab"] | None = None
) -> tuple[Float[Tensor, " batch"], tuple[str, ...]]:
    """The targets of a batch, each read off its own sequence without padding, and what each is in words.

    Args:
        run: The model and its prompts.
        traced: The forward pass of the batch.
        target: What is read.
        logits: In place of the forward pass's own.

    Raises:
        InputError: for a target that cannot be read, or is not finite.
        LayerError: for a direction in a layer that does not exist.
    """
    if isinstance(target, Direction):
        known = _of_direction(run, traced, target)
        return known.values, known.words
    metric, values, words = target.bound_to(run.model), [], []
    for index, number in enumerate(traced.batch.numbers):
        own = _without_padding(traced, index, traced.logits.detach() if logits is None else logits)
        with torch.enable_grad():
            of_prompt = metric.of_prompt(CleanRun(number, traced.batch.sequence(index), own.detach()))
            values.append(of_prompt(own[None]).reshape(()))
        if not bool(values[-1].isfinite()):
            raise InputError(f"target {metric.name} is {float(values[-1].detach())}: expected a finite number.")
        words.append(words_of(run.model, of_prompt))
    return torch.stack(values), tuple(words)


def gradient_of(
    values: Float[Tensor, " batch"], logits: Float[Tensor, "batch pos d_vocab"], name: str
) -> tuple[Float[Tensor, "batch pos d_vocab"], Float[Tensor, "batch pos"]]:
    """The derivatives of metrics by logits, and the sums of their sizes at each position.

    Raises:
        InputError: if there is none, or one is zero or not finite.
    """
    gradient = torch.autograd.grad(values.sum(), logits, allow_unused=True)[0] if values.requires_grad else None
    if gradient is None:
        raise InputError(
            f"target {name}: its number has no derivative by the logits (a rank, an argmax, a value taken out with .item() or "
            ".detach(), or read under no_grad). Expected a differentiable function of them, such as ffb.logit(...)."
        )
    wide = torch.promote_types(gradient.dtype, torch.float32)
    sizes = torch.linalg.vector_norm(gradient, ord=1, dim=-1, dtype=wide)  # with no copy of all logits
    if not bool(sizes.isfinite().all()) or not bool(sizes.any(dim=1).all()):
        raise InputError(
            f"target {name}: its derivative by the logits of a prompt is zero or not finite, so there is nothing to attribute. "
            "Expected a number that changes with the logits, such as ffb.logit(...); a rank or an argmax does not."
        )
    return gradient, sizes


def cotangents(run: Run, traced: Traced, target: Metric | Direction) -> Cotangents:
    """Evaluate a batch's targets and their derivatives.

    Raises:
        InputError: for a target that cannot be read, has no derivative or is not finite.
        LayerError: for a direction in a layer that does not exist.
        UntrainedHeadError: for logits of an encoder whose head was never trained.

    Warns:
        MissingSpaceWarning: of a word that is not expected, while it is with a space before it.
    """
    if isinstance(target, Direction):
        return _of_direction(run, traced, target)
    run.model.refuse_untrained_head()
    logits = traced.logits.detach().requires_grad_()
    values, words = values_of(run, traced, target, logits)
    if isinstance(target, KLDivergence) and bool((values.detach() < _NO_DIVERGENCE).any()):
        raise InputError(
            "target KL divergence: a run is compared with itself here, where the divergence is 0, its minimum, and its derivative "
            "is rounding. Give the logits of another run, ffb.kl_divergence(logits); in attribution_patching take steps=2 or more."
        )
    gradient, sizes = gradient_of(values, logits, target.name)
    read = sizes.any(dim=0)
    first_order = (gradient[:, read] * logits.detach()[:, read]).flatten(1).sum(dim=1)
    _warn_of_missing_spaces(run.model, traced, target)
    return Cotangents(target.name, words, run.model.n_layers, traced.logits, gradient, values.detach(), first_order)


def _without_padding(traced: Traced, index: int, tensor: Shaped[Tensor, "batch pos d"]) -> Shaped[Tensor, "real d"]:
    real = traced.batch.real(index)
    return tensor[index] if real is None else tensor[index][real.to(tensor.device)]


def _of_direction(run: Run, traced: Traced, target: Direction) -> Cotangents:
    layer, name = target.place_in(run.model)
    stream = traced.tape.kept["residual", layer]
    if len(target.vector) != stream.shape[-1]:
        raise InputError(
            f"the direction has {len(target.vector)} numbers, the residual stream of {run.model.name} {stream.shape[-1]}."
        )
    gradient = torch.zeros_like(stream)
    for index in range(len(stream)):
        places = _without_padding(traced, index, torch.arange(stream.shape[1]).expand(stream.shape[:2])[..., None])
        gradient[index, places[one_position(target.at, len(places), "at"), 0]] = target.vector.to(stream)
    values = (gradient * stream.detach()).flatten(1).sum(dim=1)
    return Cotangents(name, (name,) * len(stream), layer, stream, gradient, values, values)


def _warn_of_missing_spaces(model: Model, traced: Traced, target: Metric) -> None:
    """Warn, once a batch, of a word that is not expected where it is read, while it is with a space before it.

    Nothing is said of token ids, of words that begin with white space, and where one of an answer's several tokens is expected.
    """
    if not isinstance(target, AnswerMetric):
        return
    for index, number in enumerate(traced.batch.numbers):
        own = _without_padding(traced, index, traced.logits.detach())
        row = own[one_position(target.at, len(own), "at")]
        for answers in (
            side.of_prompt(number).prompts[0] for side in (target.answers, target.minus) if side is not None
        ):
            if len(answers) == 1 and warn_of_missing_space(model, row, answers[0], stacklevel=6):
                return


def warn_of_missing_space(model: Model, row: Float[Tensor, " d_vocab"], word: object, stacklevel: int) -> bool:
    """Whether a word's first token is not expected, but that with a space before it is; if so, warn.

    Args:
        model: Its tokenizer reads the word.
        row: Logits of the position at which the word is predicted.
        word: A text; nothing is said of anything else.
        stacklevel: Of the warning.
    """
    if not isinstance(word, str) or word[:1].isspace() or (first := first_tokens(model, word, f" {word}")) is None:
        return False
    given, spaced = first
    ranks = [1 + int((row > row[token]).sum()) for token in (given, spaced)]
    if ranks[1] > _EXPECTED or ranks[0] <= _EXPECTED:
        return False
    seen = [
        f"(logit {significant(float(row[token]))}, rank {rank})"
        for token, rank in zip((given, spaced), ranks, strict=True)
    ]
    said = (
        f"target {word!r}: the model does not expect its first token here {seen[0]}, but the one with a space before it, "
        f"{f' {word}'!r} {seen[1]}. They are two tokens: was a space forgotten?"
    )
    warnings.warn(said, MissingSpaceWarning, stacklevel=stacklevel)
    return True
