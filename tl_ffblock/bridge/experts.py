"""A mixture of experts as a linear form of its input: the router's weights and each expert's path shares are the run's own.

The experts' insides have no HookPoint on a bridge, so the form is made from the layer's weights, where the experts'
output passes.

Where experts keep their own slopes the same serves for the slopes of their biases, which have no other place to be read at.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.assembly import routing_weights
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.sites import branch_output_name, routing_names
from tl_ffblock.bridge.tape import Fittings, Place, Tape
from tl_ffblock.bridge.weights import read_experts, router_bias, working_dtype
from tl_ffblock.layer.local_forms import added, shared
from tl_ffblock.layer.records import FeedForward


def fit_experts(model: Model, shares: bool, tape: Tape, fittings: Fittings, layer: int) -> None:
    """Give a layer's experts the slope of their linear form, and dials to their biases.

    Args:
        model: The model.
        shares: Whether experts get the slope of their path shares, with the router frozen. Otherwise they keep their own, and
            their biases and the router's get dials alone.
        tape: Where dials are kept.
        fittings: The run's callbacks.
        layer: The layer.
    """
    if not shares and not _has_biases(model, layer):
        return
    read: dict[str, Tensor] = {}
    for site, name in routing_names(model, layer).items():
        fittings.after(name, partial(read.__setitem__, site))
    mlp = f"blocks.{layer}.mlp"

    def form(y: Tensor) -> Tensor:
        x = read["x"].reshape(-1, read["x"].shape[-1]).to(working_dtype(model))
        with torch.no_grad():
            routing = routing_weights(model, layer, read)
        assert routing is not None, "a layer with experts has a router"
        weights, experts = routing.reshape(len(x), -1).to(x.dtype), read_experts(model, layer, x.dtype).experts
        if shares:
            return tape.carry(mlp, y, _sum_of_experts(experts, x, weights, tape, layer, of_expert=_form_of_expert))
        weights = _with_dial_on_router(weights, router_bias(model, layer), tape, layer)
        total = _sum_of_experts(experts, x.detach(), weights, tape, layer, of_expert=_expert_itself)
        tape.compare(mlp, y, total)
        return y + (total - total.detach()).reshape(y.shape).to(y)  # y itself, with the slopes of the biases' dials too

    if model.api == "TransformerBridge":
        fittings.after(f"{mlp}.hook_in", partial(read.__setitem__, "x"))
        fittings.before(branch_output_name(model, layer, "mlp"), form)
    else:
        fittings.input_of(mlp, partial(read.__setitem__, "x"))
        fittings.output_of(mlp, form)


def _has_biases(model: Model, layer: int) -> bool:
    named: Iterator[tuple[str, Tensor]] = model.hooked.blocks[layer].mlp.named_parameters()
    return any(name.endswith("bias") and bool(parameter.any()) for name, parameter in named)


def _sum_of_experts(
    experts: Sequence[FeedForward],
    x: Float[Tensor, "row d"],
    weights: Float[Tensor, "row expert"],
    tape: Tape,
    layer: int,
    of_expert: "Callable[[FeedForward, Tensor, _Dials], Tensor]",
) -> Float[Tensor, "row d"]:
    """What experts make of the rows that chose them, times the router's weights."""
    total = torch.zeros_like(x)
    for number, expert in enumerate(experts):
        chosen = weights[:, number].nonzero()[:, 0]
        if len(chosen):
            part = of_expert(expert, x[chosen], _Dials(tape, layer, chosen))
            total = total.index_add(0, chosen, weights[chosen, number, None] * part)
    return total


def _with_dial_on_router(
    weights: Float[Tensor, "row expert"], bias: Float[Tensor, " expert"] | None, tape: Tape, layer: int
) -> Float[Tensor, "row expert"]:
    """Weights that are the softmax of the chosen experts' logits, with a dial on the bias in these logits."""
    if bias is None or not bool(bias.any()):
        return weights
    dial = tape.dial(Place("bias", layer, f"blocks.{layer}.mlp.router.b"), weights).reshape(-1)
    return added(weights.log(), dial, bias).softmax(
        dim=-1
    )  # up to a constant of each row their logarithms are the logits


class _Dials:
    """Dials of a layer's experts, at the positions that chose one of them; all experts' biases of a name are one."""

    def __init__(self, tape: Tape, layer: int, chosen: Tensor) -> None:
        self._tape = tape
        self._layer = layer
        self._chosen = chosen

    def on(self, name: str, y: Float[Tensor, "row width"], bias: Float[Tensor, " width"] | None) -> Tensor:
        """What came out with a dial on a bias that is in it."""
        if bias is None or not bool(bias.any()):
            return y
        place = Place("bias", self._layer, f"blocks.{self._layer}.mlp.experts.{name}")
        return added(y, self._tape.dial(place, y).reshape(-1)[self._chosen], bias)


def _pre_activations(expert: FeedForward, x: Float[Tensor, "row d"], dials: _Dials) -> tuple[Tensor, Tensor | None]:
    pre, linear = expert.pre_activations(x)
    if linear is None:
        return dials.on("b_in", pre, expert.b_in), None
    return dials.on("b_gate", pre, expert.b_gate), dials.on("b_in", linear, expert.b_in)


def _form_of_expert(expert: FeedForward, x: Float[Tensor, "row d"], dials: _Dials) -> Float[Tensor, "row d"]:
    pre, linear = _pre_activations(expert, x, dials)
    coefficients = expert.activation.coefficients(pre.detach(), None if linear is None else linear.detach())
    post = shared(coefficients, pre, linear)
    return dials.on("b_out", post @ expert.w_out + expert.b_out, expert.b_out)


def _expert_itself(expert: FeedForward, x: Float[Tensor, "row d"], dials: _Dials) -> Float[Tensor, "row d"]:
    post = expert.activation.output(*_pre_activations(expert, x, dials))
    return dials.on("b_out", post @ expert.w_out + expert.b_out, expert.b_out)
