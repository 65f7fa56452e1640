"""What the page knows of a result, as JSON that is safe inside a script element."""

import json
import math
from typing import Any

import torch

from tl_ffblock.errors import InputError
from tl_ffblock.layer.scopes import STEPS, Step
from tl_ffblock.page.numbers import PRECISION, finite, pack
from tl_ffblock.results.maps import ContributionMaps, ScopeTable
from tl_ffblock.results.measures import contextualization_change, reachable
from tl_ffblock.results.tokens import visible

Changes = dict[str, list[float | None]]


def payload(maps: ContributionMaps, *, layer: int | None, scope: str | None) -> dict[str, Any]:
    """Labels, measures and packed numbers of a result, and where the page opens.

    Raises:
        InputError: if `layer` or `scope` is not in the result.
    """
    _refuse_unknown("layer", layer, maps.layers)
    _refuse_unknown("scope", scope, maps.scopes)
    changes = _changes(maps)
    return {
        "model": maps.model,
        "order": maps.order,
        "causal": maps.causal,
        "signed": maps.signed,
        "tokens": [visible(token) for token in maps.tokens],
        "layers": list(maps.layers),
        "queries": list(maps.queries),
        "steps": _steps(maps),
        "changes": changes,
        "start": _start(maps, changes, layer, scope),
        "worst": _worst(maps),
        "precision": PRECISION,
        "provenance": dict(maps.provenance),
        "values": _pack_reachable(maps),
        "bias": _pack(maps.bias),
        "remainder": _pack(maps.remainder) if _any(maps.remainder) else None,
        "completeness": _pack(maps.completeness),
    }


def to_json(data: dict[str, Any]) -> str:
    """JSON that cannot end or open a script element, whatever the tokens say."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _refuse_unknown(name: str, asked: object, present: tuple[object, ...]) -> None:
    if asked is not None and asked not in present:
        raise InputError(f"{name}={asked!r}: these maps hold {', '.join(map(str, present))}.")


def _present(maps: ContributionMaps) -> list[tuple[Step, str | None]]:
    """The steps whose scope is there, each with its before-scope where the two can be compared."""
    comparable = () if maps.signed else maps.scopes
    steps = [step for step in STEPS[maps.order] if step.scope in maps.scopes]
    return [(step, step.before if step.before in comparable else None) for step in steps]


def _steps(maps: ContributionMaps) -> list[dict[str, str | None]]:
    return [
        {"scope": step.scope, "component": step.component, "before": before, "shows": step.shows}
        for step, before in _present(maps)
    ]


def _changes(maps: ContributionMaps) -> Changes:
    pairs = [(step.scope, before) for step, before in _present(maps)]
    return {
        scope: finite(contextualization_change(maps, before, scope)) for scope, before in pairs if before is not None
    }


def _start(maps: ContributionMaps, changes: Changes, layer: int | None, scope: str | None) -> dict[str, Any]:
    """The step asked for, else the feed-forward block; the layer asked for, else the one it changed most."""
    scope = scope or _feed_forward(maps)
    if layer is None:
        sizes = [size if size is not None else -math.inf for size in changes.get(scope, [None])]
        layer = maps.layers[sizes.index(max(sizes))]
    return {"layer": layer, "scope": scope}


def _feed_forward(maps: ContributionMaps) -> str:
    """The last feed-forward step that can be compared, else the last one, else the last scope."""
    steps = _present(maps)
    feed_forward = [(step, before) for step, before in steps if step.component == "FF"]
    compared = [(step, before) for step, before in feed_forward if before is not None]
    return (compared or feed_forward or steps)[-1][0].scope


def _worst(maps: ContributionMaps) -> dict[str, Any] | None:
    error, scope, layer, query = maps.worst_completeness()
    return {"error": error, "scope": scope, "layer": layer, "query": query} if math.isfinite(error) and scope else None


def _pack_reachable(maps: ContributionMaps) -> dict[str, list[str]]:
    cells = reachable(maps)
    return {scope: [pack(matrix.cpu()[cells]) for matrix in maps[scope]] for scope in maps.scopes}


def _pack(table: ScopeTable) -> dict[str, list[str]]:
    return {scope: [pack(row) for row in rows] for scope, rows in table.items()}


def _any(table: ScopeTable) -> bool:
    return any(bool(torch.count_nonzero(rows)) for rows in table.values())
