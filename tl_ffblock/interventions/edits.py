"""Edits: a vector added at one position of one HookPoint, and measurements of many edits in few forward passes.

Edits of prompts of equally many tokens are rows of a batch. Each row starts at its edit if the model can continue from cached
keys and values (bridge/edited.py). If hooks took part in the original forward pass, each edit has its own forward pass. The hooks
then see the same batch as before.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.edited import ResumedRuns
from tl_ffblock.errors import InputError, UnsupportedModelError, brief
from tl_ffblock.interventions.contributions import Contributions, Hook, adding_rows, edit_point, refuse_absent
from tl_ffblock.layer.positions import one_position, whole_number
from tl_ffblock.metrics import CleanRun, LogitFunction, Metric, as_metric, one_number, run_by_run
from tl_ffblock.signatures import strict

NOTHING_LEFT = 1e-6
"""If a head attends to one token with more than 1 minus this weight, no other weights are left to renormalise."""


@strict
@dataclass(frozen=True)
class Edit:
    """A vector that is added at one position of one HookPoint's tensor."""

    name: str
    """HookPoint name, as in `run_with_hooks`."""
    query: int
    """Position, negative ones from the end."""
    vector: Float[Tensor, " d"]
    """Vector to add; d is the width of the tensor, with heads of z concatenated."""


PromptEdit: TypeAlias = tuple[int, Edit]
"""Index of a prompt in the batch, and an edit of it."""
Advance: TypeAlias = Callable[[int], object]
"""Callback with a number of finished edits, as `tqdm.update`."""


@strict
def removal(contributions: Contributions, layer: int, scope: str, query: int, key: int) -> Edit:
    """Edit that removes one contribution of the first prompt.

    Args:
        contributions: The contributions.
        layer: Layer, negative ones from the end.
        scope: Scope; its contribution vector is subtracted from its own tensor.
        query: Query position (destination).
        key: Key position (source).

    Raises:
        LayerError: if the model has no such layer.
        InputError: if there is no such scope, position or contribution.
        UnsupportedModelError: if the scope's tensor cannot be changed in this model.
    """
    return _removal(contributions, layer, scope, *_existing(layer, query, key, contributions))


def _removal(contributions: Contributions, layer: int, scope: str, query: int, key: int) -> Edit:
    point = edit_point(contributions.model, layer, scope)
    part = contributions.decomposition(layer)[0].parts(scope)[query, key]
    return Edit(point.name, query, point.onto(-part, contributions.record(layer).block))


def exchange(contributions: Contributions, donor: Contributions, layer: int, scope: str, query: int, key: int) -> Edit:
    """Edit that replaces a contribution of the first prompt by that of the donor's first prompt in the same cell.

    Its vector is that of removing this contribution minus that of removing the donor's. Arguments and errors are those of
    `removal`; the contribution has to exist in at least one of both.
    """
    at = _existing(layer, query, key, contributions, donor)
    out, into = (_removal(run, layer, scope, *at) for run in (contributions, donor))
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
    """One edit per cell (query, key) of a layer, for first prompts.

    Args:
        contributions: The contributions to change.
        donor: Contributions that replace them in the same cells; None removes them.
        layer: Layer, negative ones from the end.
        scope: Scope of the contributions.
        cells: Pairs of positions from 0: query, key.
        head: Only the part of this attention head.

    Raises:
        LayerError: if the model has no such layer.
        InputError: if there is no such scope.
        UnsupportedModelError: if the scope's tensor cannot be changed in this model.
    """
    point = edit_point(contributions.model, layer, scope)
    vectors = -contributions.cells(layer, scope, cells, head=head)
    if donor is not None:
        vectors = vectors + donor.cells(layer, scope, cells, head=head)
    vectors = point.onto(vectors, contributions.record(layer).block)
    return [Edit(point.name, query, vector) for (query, _), vector in zip(cells, vectors, strict=True)]


@strict
def knockout(contributions: Contributions, layer: int, query: int, key: int) -> Edit | None:
    """Attention knockout of one edge in all heads; the other weights grow in proportion, as with a masked score.

    The edit is at z, `z' = (z - alpha v) / (1 - alpha)`, which is possible in every model. None if a head attends only to this
    key.

    Args:
        contributions: The contributions; the first prompt is edited.
        layer: Layer, negative ones from the end.
        query: Position that attends.
        key: Position that is attended to.

    Raises:
        LayerError: if the model has no such layer.
        InputError: if there is no such position, or attention gives the key no weight.
        UnsupportedModelError: for a layer without a softmax.
    """
    query, key = _existing(layer, query, key, contributions)
    record = contributions.record(layer)
    if (bound := contributions.model.layers[record.layer]).is_recurrent:
        raise UnsupportedModelError(
            f"{bound.where} mixes tokens without a softmax: its weights do not grow in proportion. Use ffb.attention_knockout, which "
            "removes what a token writes (edge_knockout=False in ffb.causal_validation)."
        )
    alpha = record.pattern[:, query, key, None]
    if bool((alpha > 1 - NOTHING_LEFT).any()):
        return None
    value = record.head_values
    z = torch.einsum("hk,khe->he", record.pattern[:, query], value)
    cut = (z - alpha * value[key]) / (1 - alpha)
    attention = record.block.attention
    if attention.norm is not None:  # its scale follows
        change = attention.normed(cut) - attention.normed(z)
    else:
        change = cut - z if record.gate is None else (cut - z) * record.gate[query]
    return Edit(contributions.model.layers[record.layer].values_name, query, change.flatten())


def _existing(layer: int, query: int, key: int, *runs: Contributions) -> tuple[int, int]:
    """A cell of the first prompts, with positions from 0; it has to exist in at least one of the contributions."""
    firsts = [run.prompt(0) for run in runs]
    length = firsts[0].lengths[0]
    at = one_position(query, length, "query"), one_position(key, length, "key")
    refuse_absent(layer, {"query": query, "key": key}, *firsts)
    return at


class SideBySide:
    """Prompts of equally many tokens whose edits share forward passes."""

    def __init__(
        self,
        runs: Sequence[Contributions],
        *,
        starts: Sequence[Collection[int]],
        batch_size: int,
        resume: bool = True,
    ) -> None:
        """Check whether forward passes may start at an edit.

        Args:
            runs: Contributions of one prompt each.
            starts: By prompt, the positions from 0 that will be edited.
            batch_size: Edits per forward pass.
            resume: Whether a forward pass may start at its edit, if this gives the same logits; False runs whole prompts.

        Raises:
            InputError: if the model's weights or hooks changed.
        """
        runs[0].refuse_changed_model(*runs[1:])
        self._runs, self._batch_size, self._length = runs, batch_size, runs[0].shape[1]
        self._clean = [run.logits[0] for run in runs]
        self._resumed = ResumedRuns(
            runs[0].model,
            torch.cat([run.tokens for run in runs]),
            self._clean,
            starts=starts,
            resume=resume and not runs[0].is_hooked,
        )
        n_starts = len(set().union(*starts)) if self._resumed.resumes else 1
        self.enough: int = batch_size * n_starts
        """Number of edits that fill the batches, if they are spread evenly over all starts."""

    def measure(
        self, edits: Sequence[PromptEdit], metrics: Sequence[Metric], advance: Advance | None = None
    ) -> Float[Tensor, " edit"]:
        """The metric under each edit [edit], float32 on the CPU.

        Args:
            edits: Edits, each in a row of its own.
            metrics: By prompt, its metric; all read the same position.
            advance: Callback with a number of finished edits.

        Raises:
            InputError: if an edit's position does not exist, or the metric cannot be read.
        """
        measured = torch.empty(len(edits), dtype=torch.float32)
        for rows, logits in self.logits(edits, metrics[0].at):
            done = 0
            for prompt, of_prompt in groupby(rows, key=lambda row: edits[row][0]):
                numbers = list(of_prompt)
                measured[numbers] = run_by_run(metrics[prompt], logits[done : done + len(numbers)]).float().cpu()
                done += len(numbers)
            if advance is not None:
                advance(len(rows))
        return measured

    def logits(
        self, edits: Sequence[PromptEdit], at: int | None
    ) -> Iterator[tuple[list[int], Float[Tensor, "edit read d_vocab"]]]:
        """Indices of edits with their logits, at every position or from the end as far as `at`."""
        placed = [replace(edit, query=one_position(edit.query, self._length, "query")) for _, edit in edits]
        rows_by_start: dict[int, list[int]] = defaultdict(list)
        for row, ((prompt, _), edit) in enumerate(zip(edits, placed, strict=True)):
            if self._runs[0].is_hooked:
                yield [row], self._runs[prompt].logits_of_edit(edit.name, edit.vector, edit.query)[None]
            else:
                rows_by_start[edit.query if self._resumed.resumes else 0].append(row)
        for start, rows in rows_by_start.items():
            for begin in range(0, len(rows), self._batch_size):
                batch = rows[begin : begin + self._batch_size]
                prompts = [edits[row][0] for row in batch]
                rest = self._resumed.logits(start, prompts, _hooks([placed[row] for row in batch], start))
                read_after = at is not None and -rest.shape[1] <= at < 0
                if start and not read_after:  # positions before the edit are unchanged
                    rest = torch.cat([torch.stack([self._clean[prompt][:start] for prompt in prompts]), rest], dim=1)
                yield batch, rest


def metric_of(run: Contributions, metric: Metric | LogitFunction, number: int) -> Metric:
    """Metric of the first prompt of contributions; `number` is its index in the metric's list of answers.

    Raises:
        UntrainedHeadError: for an encoder with an untrained head.
    """
    run.model.refuse_untrained_head()
    return as_metric(metric).bound_to(run.model).of_prompt(CleanRun(number, run.tokens[0], run.logits[0]))


@strict
def measure_unedited(contributions: Contributions, metric: Metric | LogitFunction, *, prompt: int = 0) -> float:
    """The metric without an edit; `prompt` is the index in the metric's list of answers."""
    return float(one_number(metric_of(contributions, metric, prompt), contributions.logits.clone()))


@strict
@torch.no_grad()
def measure_edits(
    contributions: Contributions,
    edits: Sequence[Edit],
    metric: Metric | LogitFunction,
    *,
    prompt: int = 0,
    resume: bool = True,
    advance: Advance | None = None,
    batch_size: int = 32,
) -> Float[Tensor, " edit"]:
    """The metric under each edit of one prompt [edit]; the effect of an edit is this minus `measure_unedited`.

    Args:
        contributions: The contributions to edit, of one prompt.
        edits: Edits, each in a row of its own.
        metric: The metric.
        prompt: Index of the prompt in the metric's list of answers.
        resume: Whether a forward pass may start at its edit, if this gives the same logits; False runs whole prompts.
        advance: Callback with a number of finished edits, as `tqdm.update`.
        batch_size: Edits per forward pass.

    Returns:
        Float32, on the CPU, in the order of the edits.

    Raises:
        InputError: if an edit's position does not exist, or the metric cannot be read.
    """
    whole_number(batch_size, "batch_size", at_least=1)
    if not isinstance(edits, Sequence) or not all(isinstance(edit, Edit) for edit in edits):
        raise InputError(f"edits={brief(edits)}: expected a list of edits, as removal and knockout return them.")
    read = metric_of(contributions, metric, prompt)
    starts = {one_position(edit.query, contributions.shape[1], "query") for edit in edits}
    alone = SideBySide([contributions], starts=[starts], batch_size=batch_size, resume=resume)
    return alone.measure([(0, edit) for edit in edits], [read], advance)


def _hooks(edits: Sequence[Edit], start: int) -> list[Hook]:
    """One hook function per HookPoint, for all rows with an edit there; the forward pass starts at position `start`."""
    hooks = []
    for name in dict.fromkeys(edit.name for edit in edits):
        edited = [row for row, edit in enumerate(edits) if edit.name == name]
        vectors = torch.stack([edits[row].vector for row in edited])
        places = [edits[row].query - start for row in edited]
        hooks.append((name, adding_rows(vectors, edited, places, len(edits))))
    return hooks
