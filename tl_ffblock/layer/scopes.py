"""The orders of a layer as short programs, and the scopes they define.

A layer is a chain of steps: normalise, attend, add, feed forward. A scope is named by the chain up to
and including its last step (`Atb` = attention block): how far into the layer a map reaches. Comparing
the scopes on both sides of a step shows what that step's component did to the mixing of tokens
(section 3 of Kobayashi et al. 2024; section 6 for the norm after the layer).

An order is written here and nowhere else as a whole. Everything that follows a layer reads its program here:
value, jvp and vjp of its steps (linear.py), norms (fast/vector_norms.py), which HookPoint carries a step's tensor
and which module a norm is (bridge/layers.py, which names the exceptions), where an edit goes
(interventions/contributions.py).
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
"""The layer's input x, as an operand of a step."""


@dataclass(frozen=True)
class Attend:
    """Attention over all keys, output bias included; `of` is what its values are made of."""

    of: str


@dataclass(frozen=True)
class Add:
    """Sum of two vectors, each a scope or the layer's input."""

    left: str
    right: str


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
    """One step of a layer."""

    scope: str
    """The scope that ends with this step."""
    component: Component
    """The kind of step."""
    before: str | None
    """The scope to compare with, to see what the step did; None for the first of a chain."""
    shows: str
    """What the component is, in words for a reader of the map."""
    operation: Operation
    """How the scope's vector is made."""
    at_keys: bool = False
    """True for the norm before attention, which is taken at every key and not at the queries: no scope of its own,
    since a token there is still alone; the values that attention read are captured after it."""

    @property
    def operands(self) -> tuple[str, ...]:
        """What the step's vector is made of, each a scope or the layer's input: two of a sum, one of all else."""
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
"""Every step of a layer, in the model's order."""

STEPS: dict[Order, tuple[Step, ...]] = {
    order: tuple(step for step in program if not step.at_keys) for order, program in PROGRAMS.items()
}
"""The steps that end in a scope of their own: all but the norm before attention."""


def feed_step(order: Order) -> Step:
    """The step that is the feed-forward.

    Raises:
        UnsupportedModelError: if layers of this order have none.
    """
    for step in PROGRAMS[order]:
        if isinstance(step.operation, Feed):
            return step
    raise UnsupportedModelError(f"a layer of order {order} has no feed-forward, so it has no neurons.")


def feed_sum(order: Order) -> Add:
    """The sum that takes the feed-forward into the residual: `left` is what it adds, behind its own norm if it has one."""
    program = PROGRAMS[order]
    behind = program[program.index(feed_step(order)) :]
    return next(step.operation for step in behind if isinstance(step.operation, Add))


def output_step(order: Order) -> Step:
    """The step whose vector is the layer's output: its last sum, in Post-LN the norm of that."""
    kind = Normalise if order == "post_ln" else Add
    return [step for step in PROGRAMS[order] if isinstance(step.operation, kind)][-1]


def steps_to_output(order: Order) -> tuple[Step, ...]:
    """The steps of a layer up to its output: without the norm after it, but in Post-LN, where that is the output."""
    program = PROGRAMS[order]
    return program[: program.index(output_step(order)) + 1]


def scope_names(order: Order) -> tuple[str, ...]:
    """All scopes of an order, in sequence."""
    return tuple(step.scope for step in STEPS[order])


def select_scopes(order: Order, scopes: str | Sequence[str] | None) -> tuple[str, ...]:
    """The asked scopes in the order's own sequence; None means all.

    Raises:
        InputError: if a scope does not exist in this order.
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
    """What an error says where there is no such scope: what there is, and which one was meant."""
    known = list(names)
    said = f"no {kind} {asked!r} here; there are {', '.join(known)}"
    return ". ".join(filter(None, [said, nearest_scope(asked, known)]))


def nearest_scope(asked: object, names: Iterable[str]) -> str:
    """A sentence for an error: the scope of other orders' name that a model has under another, or the one that was meant."""
    known = list(names)
    if not isinstance(asked, str):
        return ""
    if any({asked, *known} <= set(scope_names(order)) for order in STEPS):  # maps that were made without it
        return ""
    same = [name for name in known if _components(name) == _components(asked)]
    return f"`{asked}` of other models is `{same[-1]}` here." if same else did_you_mean(asked, known)


def _components(scope: str) -> str:
    """The components that a scope has passed, norms aside: "AtbFf" and "AtbLnFf" are one."""
    return scope.replace("Ln", "").replace("AttnRes", "Atb")
