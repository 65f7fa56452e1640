"""Targets of attribution: functions of the logits, or directions in the residual stream."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, SupportsIndex, TypeAlias, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.bridge.inputs import Batch, first_tokens, quoted, tokens_of
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.runs import Run
from tl_ffblock.bridge.traced import Traced
from tl_ffblock.errors import InputError, MissingSpaceWarning, warn
from tl_ffblock.layer.positions import layer_number, one_position, whole_number
from tl_ffblock.layer.records import on_cpu
from tl_ffblock.metrics import AnswerMetric, CleanRun, KLDivergence, LogitFunction, Metric, as_metric, logit, one_number
from tl_ffblock.numerals import significant
from tl_ffblock.signatures import strict, whole


@strict
@dataclass(frozen=True)
class Direction:
    """Target: inner product of a vector with the residual stream at one position, or with its mean over positions."""

    vector: Float[Tensor, " d_model"]
    layer: int
    """The layer whose input is read; -1, like the number of layers, means the output of the last layer."""
    at: int | Literal["mean"] = -1

    def place_in(self, model: Model) -> tuple[int, str]:
        """The layer at whose input the target is read, as a number from 0, and the target in words.

        Raises:
            LayerError: if there is no such layer.
        """
        layer = layer_number(self.layer, model.n_layers + 1, f"in {model.name}, whose last one's output is the last")
        place = "after the last layer" if layer == model.n_layers else f"at the input of layer {layer}"
        return layer, f"direction {place}{', mean over positions' if self.at == 'mean' else ''}"

    def derivative(self, stream: Float[Tensor, "pos d_model"]) -> Float[Tensor, "pos d_model"]:
        """Derivative of the target by one prompt's residual stream; its product with the stream is the target.

        Raises:
            InputError: if the stream has another width, or no such position.
        """
        if len(self.vector) != stream.shape[-1]:
            raise InputError(f"the direction has {len(self.vector)} numbers: expected d_model = {stream.shape[-1]}.")
        weights = torch.zeros_like(stream[:, :1])
        if self.at == "mean":
            weights += 1 / len(stream)
        else:
            weights[one_position(self.at, len(stream), "at")] = 1
        return weights * self.vector.to(stream)


_NO_DIVERGENCE = 1e-9
"""Divergences below this are rounding, in nats: if logits differ by 1e-4, the divergence is 1e-9 to 1e-8."""
_EXPECTED = 10
"""A token counts as probable if its rank is at most this."""

Target: TypeAlias = Metric | LogitFunction | Direction | str | SupportsIndex
"""A metric, any differentiable function of logits to one number per prompt, a direction in the residual stream, or a token, as
text or id, whose logit at the last position is read."""


@strict
def direction(
    vector: Float[Tensor, " d_model"], *, layer: SupportsIndex, at: SupportsIndex | Literal["mean"] = -1
) -> Direction:
    """Target `<vector, residual stream>`, such as the input of a head's query, a probe or a sparse autoencoder's latent.

    Args:
        vector: Vector [d_model] of the inner product.
        layer: The layer whose input is read; -1 is the last layer's output.
        at: Position to read, negative ones from the end. "mean" reads the mean over all positions, including special tokens, as
            sentence encoders do. With another sentence's embedding as vector, the target is the similarity of both.

    Returns:
        A target for `ffb.attribute`, in units of the vector times the residual stream.

    Raises:
        InputError: if the vector has another shape, is zero, or has NaN or infinity.
    """
    if not isinstance(vector, Tensor) or vector.ndim != 1 or not vector.is_floating_point():
        raise InputError(f"vector is {vector!r:.80}: expected a tensor of floats [d_model].")
    if not bool(vector.isfinite().all()):
        raise InputError("vector has NaN or infinity: expected finite numbers.")
    if not bool(vector.any()):
        raise InputError("vector is zero: expected a vector with a direction.")
    if isinstance(at, str) and at != "mean":
        raise InputError(f'at={at!r}: expected a position, or "mean" for the mean over all positions.')
    read: int | Literal["mean"] = "mean" if isinstance(at, str) else whole_number(at, "at")
    return Direction(vector.detach(), whole_number(layer, "layer"), read)


@dataclass(frozen=True)
class Cotangents:
    """Targets of a batch with their derivatives, which start the backward pass (`grad_outputs` of autograd).

    `name` is the kind of the target, and `words` has, per prompt, the target with its tokens. `tensor` is the tensor that is
    read: the logits, or the residual stream at the input of `layer`. For logits and the last layer's output, `layer` is the
    number of layers. `gradient` has the derivatives by `tensor`. `first_order` is `<tensor, gradient>`, the attributed number;
    it equals the value if the target is linear in the logits.
    """

    name: str
    words: tuple[str, ...]
    layer: int
    tensor: Tensor
    gradient: Tensor
    values: Float[Tensor, " batch"]
    first_order: Float[Tensor, " batch"]
    read: Bool[Tensor, "batch pos"] | None = None
    """Positions at which derivatives by logits are not zero, on the CPU."""


def for_prompts(target: Target, number: int, name: str = "target") -> Metric | Direction:
    """Checked target for a number of prompts; `name` is the caller's argument, for the error.

    Raises:
        InputError: if it is not a target, or has answers for another number of prompts.
    """
    if isinstance(target, Direction):
        return target
    token = isinstance(target, str) or whole(target) is not None
    return (logit(cast("str", target)) if token else as_metric(cast("Metric", target), name)).for_prompts(number)


def positions_read(target: Metric | Direction, batch: Batch) -> int | None:
    """Number of positions, from the end, whose logits a target reads; None if unknown, or if the batch has padding."""
    if batch.mask is not None or batch.lengths:
        return None
    if isinstance(target, Direction):
        return 1
    return -target.at if isinstance(target, AnswerMetric) and target.at < 0 else None


def of_logits(target: Target, model: Model, number: int) -> Metric:
    """Checked target that is a function of logits, for a number of prompts of a model with logits.

    Raises:
        InputError: if it is not a target, is a direction, or has answers for another number of prompts.
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
    """A metric with its tokens, and its position unless it is the last: `logit difference ' Mary' - ' John'`."""
    words = f"{metric.name} {metric.answers_in_words(lambda ids: quoted(model, torch.tensor(ids)))}".rstrip()
    return words if metric.at in (None, -1) else f"{words} at {metric.at}"


def bound_to_run(run: Run, traced: Traced, target: Target, number: int = 0, of: int = 1) -> Metric | Direction:
    """The target of one prompt, for this forward pass and for others that are compared with it.

    Args:
        run: Model and prompt.
        traced: Its forward pass.
        target: The caller's target.
        number: Index of the prompt in the caller's list.
        of: Number of prompts in that list.

    Raises:
        InputError: if it is not a target, or has answers for another number of prompts.
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
    """Targets of a batch, each of its own sequence without padding, and each in words.

    Args:
        run: The model and its prompts.
        traced: The forward pass of the batch.
        target: The target.
        logits: Logits to use instead of those of the forward pass.

    Raises:
        InputError: for a target that cannot be read, or is not finite.
        LayerError: for a direction in a layer that does not exist.
    """
    if isinstance(target, Direction):
        known = _of_direction(run, traced, target)
        return known.values, known.words
    values, words = _evaluated(run, traced, target, traced.logits.detach() if logits is None else logits)
    _refuse_infinite(values.detach().tolist(), target.bound_to(run.model).name)
    return values, words


def _evaluated(
    run: Run, traced: Traced, target: Metric, logits: Float[Tensor, "batch pos d_vocab"]
) -> tuple[Float[Tensor, " batch"], tuple[str, ...]]:
    metric, values, words = target.bound_to(run.model), [], []
    for index, number in enumerate(traced.batch.numbers):
        own = traced.batch.own(index, logits)
        with torch.enable_grad():
            of_prompt = metric.of_prompt(CleanRun(number, traced.batch.sequence(index), own.detach()))
            values.append(one_number(of_prompt, own[None]))
        words.append(words_of(run.model, of_prompt))
    return torch.stack(values), tuple(words)


def _refuse_infinite(values: Sequence[float], name: str) -> None:
    for value in values:
        if not math.isfinite(value):
            raise InputError(f"target {name} is {value}: expected a finite number.")


def gradient_of(
    values: Float[Tensor, " *batch"], logits: Float[Tensor, "batch pos d_vocab"], name: str
) -> tuple[Float[Tensor, "batch pos d_vocab"], Float[Tensor, "batch pos"]]:
    """Derivatives of metrics by logits, and the sums of their absolute values at each position.

    Raises:
        InputError: if there is no derivative, or one is zero or not finite.
    """
    gradient, sizes = _derivatives(values, logits, name)
    _refuse_no_gradient(sizes, name)
    return gradient, sizes


def _derivatives(
    values: Float[Tensor, " *batch"], logits: Float[Tensor, "batch pos d_vocab"], name: str
) -> tuple[Float[Tensor, "batch pos d_vocab"], Float[Tensor, "batch pos"]]:
    gradient = torch.autograd.grad(values.sum(), logits, allow_unused=True)[0] if values.requires_grad else None
    if gradient is None:
        raise InputError(
            f"target {name}: it has no derivative by the logits. A rank, an argmax, .item(), .detach() and no_grad have none. "
            "Expected a differentiable function of the logits, such as ffb.logit(...)."
        )
    wide = torch.promote_types(gradient.dtype, torch.float32)
    return gradient, torch.linalg.vector_norm(gradient, ord=1, dim=-1, dtype=wide)  # without a copy of all logits


def _refuse_no_gradient(sizes: Float[Tensor, "batch pos"], name: str) -> None:
    if not bool(sizes.isfinite().all()) or not bool(sizes.any(dim=1).all()):
        raise InputError(
            f"target {name}: its derivative by the logits of a prompt is zero or not finite. "
            "Expected a differentiable function of the logits, such as ffb.logit(...), not a rank or an argmax."
        )


def cotangents(run: Run, traced: Traced, target: Metric | Direction) -> Cotangents:
    """Evaluate a batch's targets and their derivatives.

    Raises:
        InputError: for a target that cannot be read, has no derivative or is not finite.
        LayerError: for a direction in a layer that does not exist.
        UntrainedHeadError: for logits of an encoder whose head was never trained.

    Warns:
        MissingSpaceWarning: if a word's first token is improbable, and probable with a space before it.
    """
    if isinstance(target, Direction):
        traced.refuse_nan(float(traced.sum_of_logits()))
        return _of_direction(run, traced, target)
    run.model.refuse_untrained_head()
    logits = traced.logits.detach().requires_grad_()
    values, words = _evaluated(run, traced, target, logits)
    gradient, sizes = _derivatives(values, logits, target.name)
    # One transfer for all numbers that the checks need.
    total, on_host, sizes = on_cpu([each.detach().double() for each in (traced.sum_of_logits(), values, sizes)])
    traced.refuse_nan(float(total))
    _refuse_infinite(on_host.tolist(), target.bound_to(run.model).name)
    if isinstance(target, KLDivergence) and bool((on_host < _NO_DIVERGENCE).any()):
        raise InputError(
            "target KL divergence: it compares the forward pass with itself, where the divergence and its derivative are 0. "
            "Pass the logits of another forward pass, ffb.kl_divergence(logits). In attribution_patching use steps=2 or more."
        )
    _refuse_no_gradient(sizes, target.name)
    at = sizes.any(dim=0).nonzero()[:, 0].to(gradient.device, non_blocking=True)
    first_order = (gradient[:, at] * logits.detach()[:, at]).flatten(1).sum(dim=1)
    _warn_of_missing_spaces(run.model, traced, target)
    layer, read = run.model.n_layers, sizes != 0
    return Cotangents(target.name, words, layer, traced.logits, gradient, on_host, first_order, read)


def _of_direction(run: Run, traced: Traced, target: Direction) -> Cotangents:
    layer, name = target.place_in(run.model)
    stream = traced.cache.kept["residual", layer]
    gradient = torch.zeros_like(stream)
    for index, of_prompt in enumerate(stream.detach()):
        places = traced.batch.own(index, torch.arange(stream.shape[1]).expand(stream.shape[:2]))
        gradient[index, places] = target.derivative(of_prompt[places])
    values = (gradient * stream.detach()).flatten(1).sum(dim=1)
    return Cotangents(name, (name,) * len(stream), layer, stream, gradient, values, values)


def _warn_of_missing_spaces(model: Model, traced: Traced, target: Metric) -> None:
    """Warn, once per batch, if a word's first token is improbable and probable with a space before it.

    Token ids and words that begin with white space are not checked. One probable token of several is enough.
    """
    if not isinstance(target, AnswerMetric):
        return
    for index, number in enumerate(traced.batch.numbers):
        own = traced.batch.own(index, traced.logits.detach())
        row = own[one_position(target.at, len(own), "at")]
        for answers in (
            side.of_prompt(number).prompts[0] for side in (target.answers, target.minus) if side is not None
        ):
            if len(answers) == 1 and warn_of_missing_space(model, row, answers[0]):
                return


def warn_of_missing_space(
    model: Model,
    row: Float[Tensor, " d_vocab"],
    word: object,
    read: Callable[[Any, str], list[int]] = tokens_of,
) -> bool:
    """Warn if a word's first token is improbable and probable with a space before it; returns whether it warned.

    Args:
        model: The model with its tokenizer.
        row: Logits at the position that predicts the word.
        word: A text; other types are not checked.
        read: Function from model and text to token ids.
    """
    first = None if not isinstance(word, str) or word[:1].isspace() else first_tokens(read, model, word, f" {word}")
    if first is None:
        return False
    given, spaced = first
    logits = row[given], row[spaced]
    *said_logits, first_rank, second_rank = torch.stack([*logits, *((row > one).sum() for one in logits)]).tolist()
    ranks = [1 + int(first_rank), 1 + int(second_rank)]
    if ranks[1] > _EXPECTED or ranks[0] <= _EXPECTED:
        return False
    seen = [f"(logit {significant(value)}, rank {rank})" for value, rank in zip(said_logits, ranks, strict=True)]
    said = (
        f"target {word!r}: its first token is improbable {seen[0]}. With a space before it, {f' {word}'!r}, it is probable "
        f"{seen[1]}. The two are different tokens: was a space forgotten?"
    )
    warn(said, MissingSpaceWarning)
    return True
