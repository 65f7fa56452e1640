"""Edits: a vector that is added at one position of one HookPoint, and which ones take a contribution out or cut an edge."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.interventions.contribution_hooks import Contributions, refuse_absent
from tl_ffblock.interventions.edit_points import edit_point
from tl_ffblock.layer.positions import one_position
from tl_ffblock.signatures import strict

NOTHING_LEFT = 1e-6
"""A head that attends to one token with all but this weight has no other weights that could grow in its place."""


@strict
@dataclass(frozen=True)
class Edit:
    """A vector that is added at one position of one HookPoint's tensor, in every forward pass of a run."""

    name: str
    """HookPoint, as `run_with_hooks` takes it."""
    query: int
    """Position, counted from the end if negative."""
    vector: Float[Tensor, " d"]
    """What is added there; d is the width of the tensor, heads of z side by side."""


@strict
def removal(contributions: Contributions, layer: int, scope: str, query: int, key: int) -> Edit:
    """The edit that takes one contribution of a run's first prompt out.

    Args:
        contributions: The run.
        layer: Layer, counted from the end if negative.
        scope: Which contribution: its vector at this scope is subtracted from this scope's tensor.
        query: Position that receives.
        key: Position that gives.

    Raises:
        LayerError: if the model has no such layer.
        InputError: if there is no such scope, position or contribution.
        UnsupportedModelError: if the scope's tensor cannot be changed in this model.
    """
    query, key = _existing(contributions, layer, query, key)
    return _removal(contributions, layer, scope, query, key)


def _removal(contributions: Contributions, layer: int, scope: str, query: int, key: int) -> Edit:
    """The same of a cell by positions from 0, which may be empty."""
    point = edit_point(contributions.model, layer, scope)
    part = contributions.decomposition(layer)[0].parts(scope)[query, key]
    return Edit(point.name, query, point.onto(-part, contributions.record(layer).block))


def exchange(contributions: Contributions, donor: Contributions, layer: int, scope: str, query: int, key: int) -> Edit:
    """The edit that puts another run's contribution in the place of this run's, of the same cell of their first prompts.

    What it adds is what taking out this run's adds less what taking out the donor's would. Arguments and errors are those of
    `removal`; the contribution exists in one of the runs at least.
    """
    refuse_absent(layer, {"query": query, "key": key}, contributions.prompt(0), donor.prompt(0))
    length = contributions.lengths[0]
    query, key = one_position(query, length, "query"), one_position(key, length, "key")
    out, into = (_removal(run, layer, scope, query, key) for run in (contributions, donor))
    return replace(out, vector=out.vector - into.vector)


def changes(
    contributions: Contributions,
    donor: Contributions | None,
    layer: int,
    scope: str,
    cells: Sequence[tuple[int, int]],
    *,
    head: int | None = None,
) -> list[Edit]:
    """One edit a cell (query, key) of a layer, of the runs' first prompts.

    Args:
        contributions: The run to change.
        donor: The run whose contribution of the same cell is put in the place of this run's; None takes it out.
        layer: Layer, counted from the end if negative.
        scope: Which contributions.
        cells: Pairs of positions from 0: which receives, which gives.
        head: Only what comes through this attention head.

    Raises:
        LayerError: if the model has no such layer.
        InputError: if there is no such scope.
        UnsupportedModelError: if the scope's tensor cannot be changed in this model.
    """
    point = edit_point(contributions.model, layer, scope)
    block = contributions.record(layer).block
    vectors = -contributions.cells(layer, scope, cells, head=head)
    if donor is not None:
        vectors = vectors + donor.cells(layer, scope, cells, head=head)
    vectors = point.onto(vectors, block)
    return [Edit(point.name, query, vector) for (query, _), vector in zip(cells, vectors, strict=True)]


@strict
def knockout(contributions: Contributions, layer: int, query: int, key: int) -> Edit | None:
    """Cut one attention edge in all heads, the others' weights growing in proportion: a masked score.

    Done at z, `z' = (z - alpha v) / (1 - alpha)`, which every model obeys. None where a head attends to
    this key alone: nothing would be left.

    Args:
        contributions: The run; its first prompt counts.
        layer: Layer, counted from the end if negative.
        query: Position that attends.
        key: Position that is attended to.

    Raises:
        LayerError: if the model has no such layer.
        InputError: if there is no such position, or attention gives the key no weight.
    """
    query, key = _existing(contributions, layer, query, key)
    record = contributions.record(layer)
    alpha = record.pattern[:, query, key, None]
    if bool((alpha > 1 - NOTHING_LEFT).any()):
        return None
    value = record.head_values
    z = torch.einsum("hk,khe->he", record.pattern[:, query], value)
    cut = (z - alpha * value[key]) / (1 - alpha)
    return Edit(contributions.model.layers[record.layer].values_name, query, (cut - z).flatten())


def _existing(contributions: Contributions, layer: int, query: int, key: int) -> tuple[int, int]:
    """The cell as positions from 0."""
    first = contributions.prompt(0)
    places = tuple(one_position(at, first.lengths[0], name) for at, name in ((query, "query"), (key, "key")))
    refuse_absent(layer, {"query": query, "key": key}, first)
    return places[0], places[1]
