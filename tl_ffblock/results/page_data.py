"""A result as the page takes it: which steps can be compared, how much each changed, where to open."""

import math
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.layer.positions import layer_number
from tl_ffblock.layer.scopes import STEPS, Order
from tl_ffblock.page import PageCertificate, PageData, PageStart, PageStep
from tl_ffblock.results.ranks import rank_change
from tl_ffblock.results.scope_table import ScopeTable
from tl_ffblock.results.tokens import visible

Changes = dict[str, Float[Tensor, " layer"]]


@runtime_checkable
class Result(Protocol):
    """What a page reads of a result (`ContributionMaps`, which can so call the page itself)."""

    @property
    def tokens(self) -> tuple[str, ...]: ...
    @property
    def layers(self) -> tuple[int, ...]: ...
    @property
    def order(self) -> Order: ...
    @property
    def queries(self) -> tuple[int, ...]: ...
    @property
    def causal(self) -> bool: ...
    @property
    def values(self) -> ScopeTable: ...
    @property
    def bias(self) -> ScopeTable: ...
    @property
    def remainder(self) -> ScopeTable: ...
    @property
    def completeness(self) -> ScopeTable: ...
    @property
    def model(self) -> str: ...
    @property
    def signed(self) -> bool: ...
    @property
    def provenance(self) -> Mapping[str, str]: ...
    def reachable(self) -> Bool[Tensor, "query key"]: ...
    def worst_completeness(self) -> tuple[float, str, int, int]: ...


def page_data(maps: Result, *, layer: int | None = None, scope: str | None = None) -> PageData:
    """Labels, measures and numbers of a result, and where its page opens.

    Args:
        maps: The result.
        layer: Layer to open at, negative ones from the end; None means the one the step changed most.
        scope: Step to open at, named by the scope it ends in; None means the feed-forward block.

    Raises:
        InputError: if `layer` or `scope` is not in the result.
    """
    if scope is not None and scope not in maps.values:
        raise InputError(f"scope={scope!r}: these maps hold {', '.join(maps.values)}.")
    steps = _steps(maps)
    changes = _changes(maps, steps)
    edited = any(bool(torch.count_nonzero(rows)) for rows in maps.remainder.values())
    return PageData(
        model=maps.model,
        order=maps.order,
        causal=maps.causal,
        signed=maps.signed,
        tokens=tuple(visible(token) for token in maps.tokens),
        layers=maps.layers,
        queries=maps.queries,
        steps=steps,
        start=_start(maps, steps, changes, layer, scope),
        changes=changes,
        values=maps.values,
        bias=maps.bias,
        remainder=maps.remainder if edited else None,
        completeness=maps.completeness,
        worst=_worst(maps),
        provenance=maps.provenance,
    )


def _steps(maps: Result) -> tuple[PageStep, ...]:
    """The steps whose scope is there, each with its before-scope where the two can be compared."""
    comparable = () if maps.signed else tuple(maps.values)
    return tuple(
        PageStep(step.scope, step.component, step.before if step.before in comparable else None, step.shows)
        for step in STEPS[maps.order]
        if step.scope in maps.values
    )


def _changes(maps: Result, steps: tuple[PageStep, ...]) -> Changes:
    cells = maps.reachable()

    def change(before: str, after: str) -> Float[Tensor, " layer"]:
        pairs = zip(maps.values[before].cpu(), maps.values[after].cpu(), strict=True)
        return torch.tensor([rank_change(first, second, cells) for first, second in pairs], dtype=torch.float64)

    return {step.scope: change(step.before, step.scope) for step in steps if step.before is not None}


def _start(
    maps: Result, steps: tuple[PageStep, ...], changes: Changes, layer: int | None, scope: str | None
) -> PageStart:
    """The step asked for, else the feed-forward block; the layer asked for, else the one it changed most."""
    scope = scope or _feed_forward(steps)
    if layer is not None:
        return PageStart(layer_number(layer, maps.layers, "in these maps"), scope)
    sizes = changes.get(scope, torch.zeros(len(maps.layers))).nan_to_num(-math.inf)
    return PageStart(maps.layers[int(sizes.argmax())], scope)


def _feed_forward(steps: tuple[PageStep, ...]) -> str:
    """The last feed-forward step that can be compared, else the last one, else the last step."""
    feed_forward = [step for step in steps if step.component == "FF"]
    compared = [step for step in feed_forward if step.before is not None]
    return (compared or feed_forward or steps)[-1].scope


def _worst(maps: Result) -> PageCertificate | None:
    error, scope, layer, query = maps.worst_completeness()
    return PageCertificate(error, scope, layer, query) if math.isfinite(error) and scope else None
