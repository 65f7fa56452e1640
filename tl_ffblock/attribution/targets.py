"""What is attributed: a function of the logits, or a direction in the residual stream, of every sequence of a batch."""

from dataclasses import dataclass
from typing import NamedTuple, SupportsIndex, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.spaces import warn_of_missing_spaces
from tl_ffblock.bridge.inputs import quoted
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.runs import Run
from tl_ffblock.bridge.traced import Traced
from tl_ffblock.errors import InputError
from tl_ffblock.layer.positions import layer_number, one_position, whole_number
from tl_ffblock.metrics import CleanRun, KLDivergence, LogitFunction, Metric, as_metric
from tl_ffblock.signatures import strict


@strict
@dataclass(frozen=True)
class Direction:
    """The residual stream at one position, projected on a vector: `<vector, x_at>`."""

    vector: Float[Tensor, " d_model"]
    layer: int
    """The layer whose input is read; the number of layers means the last one's output, as does -1."""
    at: int = -1


_NO_DIVERGENCE = 1e-9
"""Divergences below this are rounding, in nats: that of two runs whose logits differ by 1e-4 is 1e-9 to 1e-8."""

Target: TypeAlias = Metric | LogitFunction | Direction
"""A metric, any differentiable function of logits to one number a run, or a direction in the residual stream."""


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
class Seeds:
    """Where the backward pass of a batch begins."""

    name: str
    """What kind of number the targets are."""
    answers: tuple[str, ...]
    """By prompt, the tokens that its target reads, in words; empty where none in particular."""
    layer: int
    """The layer at whose input it is read; the number of layers is the last one's output, and so are the logits."""
    tensor: Tensor
    """A tensor of the run on which the targets depend, and all else through it."""
    gradient: Tensor
    """The targets' derivatives by it."""
    values: Float[Tensor, " batch"]
    """The targets."""
    first_order: Float[Tensor, " batch"]
    """`<tensor, gradient>`: what there is to share out. A target that is linear in the logits is this."""

    def in_words(self, index: int) -> str:
        """One prompt's target: `logit difference ' Mary' − ' John'`."""
        return in_words(self.name, self.answers[index])


def answers_of(model: Model, metric: Metric) -> str:
    """The tokens that the metric of one prompt reads, in words; empty where none in particular."""
    return metric.answers_in_words(lambda ids: quoted(model, torch.tensor(ids)))


def in_words(name: str, answers: str) -> str:
    """A target's kind with the tokens that it reads: `logit difference ' Mary' − ' John'`."""
    return f"{name} {answers}".rstrip()


def name_of_direction(layer: int, n_layers: int) -> str:
    """What a direction is called, by the layer at whose input it is read."""
    return f"direction at the input of layer {layer}" if layer < n_layers else "direction behind the last layer"


def for_prompts(target: Target, number: int) -> Target:
    """A target of so many prompts.

    Raises:
        InputError: if it is none, or has answers for another number of prompts.
    """
    return target if isinstance(target, Direction) else as_metric(target, "target").for_prompts(number)


def bound_to_run(run: Run, traced: Traced, target: Target, number: int = 0, of: int = 1) -> Target:
    """The target of a run of one prompt, to be read in other runs, too: what is compared is compared with this run.

    Args:
        run: The clean run.
        traced: The same with local rules.
        target: For all prompts.
        number: Which of them this is.
        of: How many there are.

    Raises:
        InputError: if it has answers for another number of prompts, or its words are no tokens.
        UntrainedHeadError: for logits of an encoder whose head was never trained.
    """
    if isinstance(target, Direction):
        return target
    run.model.refuse_untrained_head()
    clean = CleanRun(number, traced.batch.sequence(0), traced.logits[0].detach())
    metric = as_metric(target, "target").for_prompts(of)
    bound = metric.bound_to(run.model).of_prompt(clean)
    warn_of_missing_spaces(run.model, traced, metric.of_prompt(clean))
    return bound


class ReadTarget(NamedTuple):
    """What a target is in one run."""

    quantity: str
    """What kind of number it is: "logit difference"."""
    in_words: str
    """The same with the tokens that it reads: "logit difference ' Mary' − ' John'"."""
    value: float


def read_target(run: Run, traced: Traced, target: Target) -> ReadTarget:
    """A run's target: of the batch's first prompt.

    Raises:
        InputError: for a target that cannot be read, or is not finite.
        LayerError: for a direction in a layer that does not exist.
    """
    if isinstance(target, Direction):
        begin = _of_direction(run, traced, target)
        return ReadTarget(begin.name, begin.in_words(0), float(begin.values[0]))
    metric = as_metric(target, "target").bound_to(run.model)
    values, answers = _read(run, traced, metric, traced.logits.detach())
    return ReadTarget(metric.name, in_words(metric.name, answers[0]), float(values[0]))


def seeds(run: Run, traced: Traced, target: Target) -> Seeds:
    """Evaluate a batch's targets, each on its own sequence without padding.

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
    metric = as_metric(target, "target")
    begin = _of_logits(run, traced, metric.bound_to(run.model))
    warn_of_missing_spaces(run.model, traced, metric)
    return begin


def _of_logits(run: Run, traced: Traced, metric: Metric) -> Seeds:
    logits = traced.logits.detach().requires_grad_()
    total, answers = _read(run, traced, metric, logits)
    if isinstance(metric, KLDivergence) and bool((total.detach() < _NO_DIVERGENCE).any()):
        raise InputError(
            "target KL divergence: a run is compared with itself here, where the divergence is 0, its minimum, and its derivative "
            "is rounding. Give the logits of another run, ffb.kl_divergence(logits); in attribution_patching take steps=2 or more."
        )
    gradient = torch.autograd.grad(total.sum(), logits, allow_unused=True)[0] if total.requires_grad else None
    if gradient is None:
        raise InputError(
            f"target {metric.name}: its number has no derivative by the logits (a rank, an argmax, a value taken out with "
            ".item() or .detach(), or read under no_grad). Expected a differentiable function of them, such as ffb.logit(...)."
        )
    wide = torch.promote_types(gradient.dtype, torch.float32)
    sizes = torch.linalg.vector_norm(gradient, ord=1, dim=-1, dtype=wide)  # with no copy of all logits
    if not bool(sizes.isfinite().all()) or not bool(sizes.any(dim=1).all()):
        raise InputError(
            f"target {metric.name}: its derivative by the logits of a prompt is zero or not finite, so there is nothing to "
            "attribute. Expected a number that changes with the logits, such as ffb.logit(...); a rank or an argmax does not."
        )
    read = sizes.any(dim=0)
    first_order = (gradient[:, read] * logits.detach()[:, read]).flatten(1).sum(dim=1)
    return Seeds(metric.name, answers, run.model.n_layers, traced.logits, gradient, total.detach(), first_order)


def _read(
    run: Run, traced: Traced, metric: Metric, logits: Float[Tensor, "batch pos d_vocab"]
) -> tuple[Float[Tensor, " batch"], tuple[str, ...]]:
    """Each sequence's number, read without padding, and its answers in words."""
    values, answers = [], []
    for index, number in enumerate(traced.batch.numbers):
        real = traced.batch.real(index)
        own = logits[index] if real is None else logits[index][real.to(logits.device)]
        with torch.enable_grad():
            of_prompt = metric.of_prompt(CleanRun(number, traced.batch.sequence(index), own.detach()))
            values.append(_checked(of_prompt(own[None]), metric.name).reshape(()))
        answers.append(answers_of(run.model, of_prompt))
    return torch.stack(values), tuple(answers)


def _checked(value: object, name: str) -> Tensor:
    if not isinstance(value, Tensor) or value.numel() != 1:
        shape = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise InputError(
            f"target {name} gave {shape} for the logits [1 pos d_vocab] of one prompt; expected one number."
        )
    if not bool(value.isfinite()):
        raise InputError(f"target {name} is {float(value.detach())}: expected a finite number.")
    return value


def _of_direction(run: Run, traced: Traced, target: Direction) -> Seeds:
    layer = layer_number(
        target.layer, run.model.n_layers + 1, f"in {run.model.name}, whose last one's output is the last"
    )
    stream = traced.tape.kept["residual", layer]
    if len(target.vector) != stream.shape[-1]:
        raise InputError(
            f"the direction has {len(target.vector)} numbers, the residual stream of {run.model.name} {stream.shape[-1]}."
        )
    gradient = torch.zeros_like(stream)
    for index in range(len(stream)):
        real = traced.batch.real(index)
        length = stream.shape[1] if real is None else len(real)
        position = one_position(target.at, length, "at")
        gradient[index, position if real is None else real[position]] = target.vector.to(stream)
    values = (gradient * stream.detach()).flatten(1).sum(dim=1)
    name = name_of_direction(layer, run.model.n_layers)
    return Seeds(name, ("",) * len(stream), layer, stream, gradient, values, values)
