"""The scopes of each order: how far into a layer a map reaches.

A layer is a chain of steps; a scope is named by the chain up to and including its last step
(`Atb` = attention block). Comparing the scopes on both sides of a step shows what that step's
component did to the mixing of tokens (section 3 of Kobayashi et al. 2024; section 6 for the norm
after the layer).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tl_ffblock.errors import InputError

Order: TypeAlias = Literal["post_ln", "pre_ln", "sandwich", "parallel"]
Component: TypeAlias = Literal["ATTN", "RES", "LN", "FF"]


@dataclass(frozen=True)
class Step:
    """One step of a layer."""

    scope: str
    """The scope that ends with this step."""
    component: Component
    """The kind of step."""
    before: str | None
    """The scope this step starts from; None for the first step of a chain."""
    shows: str
    """What the component is, in words for a reader of the map."""


STEPS: dict[Order, tuple[Step, ...]] = {
    "post_ln": (
        Step("Attn", "ATTN", None, "attention"),
        Step("AttnRes", "RES", "Attn", "residual around attention"),
        Step("Atb", "LN", "AttnRes", "LayerNorm after attention"),
        Step("AtbFf", "FF", "Atb", "feed-forward"),
        Step("AtbFfRes", "RES", "AtbFf", "residual around feed-forward"),
        Step("AtbFfResLn", "LN", "AtbFfRes", "LayerNorm after feed-forward (layer output)"),
    ),
    "pre_ln": (
        Step("Attn", "ATTN", None, "norm and attention"),
        Step("Atb", "RES", "Attn", "residual around attention"),
        Step("AtbLn", "LN", "Atb", "norm before feed-forward"),
        Step("AtbLnFf", "FF", "AtbLn", "feed-forward"),
        Step("AtbLnFfRes", "RES", "AtbLnFf", "residual around feed-forward (layer output)"),
        Step("AtbLnFfResLn", "LN", "AtbLnFfRes", "next layer's norm"),
    ),
    "sandwich": (
        Step("Attn", "ATTN", None, "norm and attention"),
        Step("Atb", "RES", "Attn", "norm after attention and residual"),
        Step("AtbLn", "LN", "Atb", "norm before feed-forward"),
        Step("AtbLnFf", "FF", "AtbLn", "feed-forward"),
        Step("AtbLnFfLn", "LN", "AtbLnFf", "norm after feed-forward"),
        Step("AtbLnFfRes", "RES", "AtbLnFfLn", "residual around feed-forward (layer output)"),
        Step("AtbLnFfResLn", "LN", "AtbLnFfRes", "next layer's norm"),
    ),
    "parallel": (
        Step("Attn", "ATTN", None, "norm and attention"),
        Step("Atb", "RES", "Attn", "residual plus attention"),
        Step("AtbLn", "LN", None, "norm of the residual before feed-forward"),
        Step("AtbLnFf", "FF", None, "feed-forward branch (reads its own position only)"),
        Step("AtbLnFfRes", "FF", "Atb", "feed-forward branch added (layer output)"),
        Step("AtbLnFfResLn", "LN", "AtbLnFfRes", "next layer's norm"),
    ),
}


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
    asked = (scopes,) if isinstance(scopes, str) else tuple(scopes)
    unknown = [scope for scope in asked if scope not in names]
    if unknown or not asked:
        wrong = f"unknown scope {', '.join(map(repr, unknown))}" if unknown else "no scope given"
        raise InputError(f"scopes={list(asked)!r}: {wrong}. A {order} model has {', '.join(names)}.")
    return tuple(name for name in names if name in asked)
