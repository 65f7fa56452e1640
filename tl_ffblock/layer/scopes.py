"""Layer orders as sequences of steps, and the scopes that they define.

A layer is a sequence of steps: normalise, attend, add, feed forward. A scope is the part of the layer up to and including one
step, named by the components in it (`Atb` = attention block). Comparing the scopes before and after a step shows how its
component changes the mixing of tokens (section 3 of Kobayashi et al. 2024; section 6 for the norm after the layer).

This module is the only definition of an order. These read their steps here: value, jvp and vjp (linear.py), norms
(fast/vector_norms.py), the HookPoint of a step's tensor and the module of a norm (bridge/layers.py, which names the
exceptions), and the hook point of an edit (interventions/contributions.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tl_ffblock.errors import InputError, UnsupportedModelError, brief, did_you_mean

__all__ = ["PROGRAMS", "STEPS", "Add", "Attend", "Feed", "Normalise", "Order", "Step", "scope_names"]

Order: TypeAlias = Literal["post_ln", "pre_ln", "sandwich", "parallel", "norm_after", "attn_only"]
Component: TypeAlias = Literal["ATTN", "RES", "LN", "FF"]
NormName: TypeAlias = Literal["attn_norm", "ff_norm", "attn_out_norm", "ff_out_norm", "mid_norm", "out_norm"]

INPUT = "resid_pre"
"""Operand name of the layer's input x."""


@dataclass(frozen=True)
class Attend:
    """Attention over all keys, output bias included; `of` is the input of the value projection."""

    of: str


Branch: TypeAlias = Literal["attn", "mlp"]


@dataclass(frozen=True)
class Add:
    """Sum of two vectors, each of a scope or the layer's input; the left one is that of a branch."""

    left: str
    right: str

    @property
    def branch(self) -> Branch:
        """The branch that is added."""
        return "attn" if self.left in ("Attn", "AttnLn") else "mlp"


@dataclass(frozen=True)
class Normalise:
    """LayerNorm or RMSNorm of a scope or the layer's input."""

    of: str
    norm: NormName


@dataclass(frozen=True)
class Feed:
    """Feed-forward of a scope."""

    of: str


Operation: TypeAlias = Attend | Add | Normalise | Feed


@dataclass(frozen=True)
class Step:
    """One step of a layer: its operation, the scope that it ends, and the scope to compare with."""

    scope: str
    """The scope that ends with this step."""
    component: Component
    """Component: attention, residual connection, norm or feed-forward."""
    before: str | None
    """Scope before the step, to compare with; None if the step's input is not a map of several tokens."""
    shows: str
    """The component in words, for readers of a map."""
    operation: Operation
    """Operation that makes the scope's vector."""
    at_keys: bool = False
    """True for the norm before attention, which is applied at every key and not at the queries. It has no scope, since it does not
    mix tokens; values are captured after it."""

    @property
    def operands(self) -> tuple[str, ...]:
        """Operands of the step, each a scope or the layer's input: two of a sum, else one."""
        operation = self.operation
        return (operation.left, operation.right) if isinstance(operation, Add) else (operation.of,)


_INPUT_NORM = Step("InputLn", "LN", None, "norm before attention", Normalise(INPUT, "attn_norm"), at_keys=True)
_ATTEND = Step("Attn", "ATTN", None, "attention", Attend("InputLn"))
_ATTEND_INPUT = Step("Attn", "ATTN", None, "attention", Attend(INPUT))
_BRANCH_NORM = Step("AttnLn", "LN", "Attn", "norm after attention", Normalise("Attn", "attn_out_norm"))
_BRANCH_RES = Step("Atb", "RES", "AttnLn", "residual around attention and its norm", Add("AttnLn", INPUT))
_NEXT_NORM = Step("AtbLnFfResLn", "LN", "AtbLnFfRes", "next layer's norm", Normalise("AtbLnFfRes", "out_norm"))
_FF_NORM = Step("AtbLn", "LN", "Atb", "norm before feed-forward", Normalise("Atb", "ff_norm"))
_FF = Step("AtbLnFf", "FF", "AtbLn", "feed-forward", Feed("AtbLn"))

PROGRAMS: dict[Order, tuple[Step, ...]] = {
    "post_ln": (
        _ATTEND_INPUT,
        Step("AttnRes", "RES", "Attn", "residual around attention", Add("Attn", INPUT)),
        Step("Atb", "LN", "AttnRes", "LayerNorm after attention", Normalise("AttnRes", "mid_norm")),
        Step("AtbFf", "FF", "Atb", "feed-forward", Feed("Atb")),
        Step("AtbFfRes", "RES", "AtbFf", "residual around feed-forward", Add("AtbFf", "Atb")),
        Step(
            "AtbFfResLn",
            "LN",
            "AtbFfRes",
            "LayerNorm after feed-forward (layer output)",
            Normalise("AtbFfRes", "out_norm"),
        ),
    ),
    "pre_ln": (
        _INPUT_NORM,
        _ATTEND,
        Step("Atb", "RES", "Attn", "residual around attention", Add("Attn", INPUT)),
        _FF_NORM,
        _FF,
        Step("AtbLnFfRes", "RES", "AtbLnFf", "residual around feed-forward (layer output)", Add("AtbLnFf", "Atb")),
        _NEXT_NORM,
    ),
    "sandwich": (
        _INPUT_NORM,
        _ATTEND,
        _BRANCH_NORM,
        _BRANCH_RES,
        _FF_NORM,
        _FF,
        Step("AtbLnFfLn", "LN", "AtbLnFf", "norm after feed-forward", Normalise("AtbLnFf", "ff_out_norm")),
        Step("AtbLnFfRes", "RES", "AtbLnFfLn", "residual around feed-forward (layer output)", Add("AtbLnFfLn", "Atb")),
        _NEXT_NORM,
    ),
    "parallel": (
        _INPUT_NORM,
        _ATTEND,
        Step("Atb", "RES", "Attn", "residual plus attention", Add("Attn", INPUT)),
        Step(
            "AtbLn",
            "LN",
            None,
            "norm of the layer's input x, not of Atb: what feed-forward reads",
            Normalise(INPUT, "ff_norm"),
        ),
        Step("AtbLnFf", "FF", None, "feed-forward branch (reads its own position only)", Feed("AtbLn")),
        Step("AtbLnFfRes", "FF", "Atb", "feed-forward branch added (layer output)", Add("AtbLnFf", "Atb")),
        _NEXT_NORM,
    ),
    "norm_after": (
        _ATTEND_INPUT,
        _BRANCH_NORM,
        _BRANCH_RES,
        Step("AtbFf", "FF", "Atb", "feed-forward", Feed("Atb")),
        Step("AtbFfLn", "LN", "AtbFf", "norm after feed-forward", Normalise("AtbFf", "ff_out_norm")),
        Step("AtbFfRes", "RES", "AtbFfLn", "residual around feed-forward (layer output)", Add("AtbFfLn", "Atb")),
        Step(
            "AtbFfResLn",
            "LN",
            "AtbFfRes",
            "final norm (last layer; none before the others)",
            Normalise("AtbFfRes", "out_norm"),
        ),
    ),
    "attn_only": (
        _INPUT_NORM,
        _ATTEND,
        Step("Atb", "RES", "Attn", "residual around attention (layer output)", Add("Attn", INPUT)),
        Step("AtbLn", "LN", "Atb", "next layer's norm", Normalise("Atb", "out_norm")),
    ),
}
"""All steps of a layer by order, in the model's sequence."""

STEPS: dict[Order, tuple[Step, ...]] = {
    order: tuple(step for step in program if not step.at_keys) for order, program in PROGRAMS.items()
}
"""The steps that end a scope: all but the norm before attention."""


def feed_step(order: Order) -> Step:
    """The step of the feed-forward.

    Raises:
        UnsupportedModelError: if layers of this order have no feed-forward.
    """
    for step in PROGRAMS[order]:
        if isinstance(step.operation, Feed):
            return step
    raise UnsupportedModelError(f"a layer of order {order} has no feed-forward, so it has no neurons.")


def feed_sum(order: Order) -> Add:
    """The sum that adds the feed-forward to the residual stream; `left` is the added branch, after its own norm if it has one.

    Raises:
        UnsupportedModelError: if layers of this order have no feed-forward.
    """
    program = PROGRAMS[order]
    behind = program[program.index(feed_step(order)) :]
    return next(step.operation for step in behind if isinstance(step.operation, Add))


def output_step(order: Order) -> Step:
    """The step whose vector is the layer's output: the last sum, in Post-LN the norm after it."""
    kind = Normalise if order == "post_ln" else Add
    return [step for step in PROGRAMS[order] if isinstance(step.operation, kind)][-1]


def steps_to_output(order: Order) -> tuple[Step, ...]:
    """The steps of a layer up to its output: without the norm after it, except in Post-LN, where that norm's output is the layer's."""
    program = PROGRAMS[order]
    return program[: program.index(output_step(order)) + 1]


def scope_names(order: Order) -> tuple[str, ...]:
    """Names of all scopes of an order, in sequence."""
    return tuple(step.scope for step in STEPS[order])


def select_scopes(order: Order, scopes: str | Sequence[str] | None) -> tuple[str, ...]:
    """The named scopes in the order's sequence; None means all.

    Raises:
        InputError: if a scope does not exist in this order, or no scope is given.
    """
    names = scope_names(order)
    if scopes is None:
        return names
    asked = tuple(scopes) if isinstance(scopes, Iterable) and not isinstance(scopes, str) else (scopes,)
    unknown = [scope for scope in asked if scope not in names]
    if unknown or not asked:
        wrong = f"unknown scope {', '.join(map(repr, unknown))}" if unknown else "no scope given"
        meant = nearest_scope(unknown[0], names) if unknown else ""
        raise InputError(f"scopes={brief(scopes)}: {wrong}. A {order} model has {', '.join(names)}. {meant}".rstrip())
    return tuple(name for name in names if name in asked)


def missing_scope(asked: object, names: Iterable[str], kind: str = "scope") -> str:
    """Text of an error for a scope that does not exist: the existing ones, and the nearest of them."""
    known = list(names)
    said = f"no {kind} {asked!r} here; there are {', '.join(known)}"
    return ". ".join(filter(None, [said, nearest_scope(asked, known)]))


def nearest_scope(asked: object, names: Iterable[str]) -> str:
    """Sentence for an error: this model's name of a scope of other orders, or the nearest name; empty if there is none."""
    known = list(names)
    if not isinstance(asked, str):
        return ""
    if any({asked, *known} <= set(scope_names(order)) for order in STEPS):  # the maps were made without this scope
        return ""
    same = [name for name in known if _components(name) == _components(asked)]
    return f"`{asked}` of other models is `{same[-1]}` here." if same else did_you_mean(asked, known)


def _components(scope: str) -> str:
    """Components of a scope without its norms: the same for "AtbFf" and "AtbLnFf"."""
    return scope.replace("Ln", "").replace("AttnRes", "Atb")
