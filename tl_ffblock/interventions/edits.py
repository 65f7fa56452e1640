"""Many edits in few forward passes.

An `Edit` adds one vector at one position of one HookPoint. Edits of the same prompt, at whatever
layers, run side by side as rows of a batch; every row is a run of its own, from its edit on where the
model can go on from cached keys and values (bridge/resume.py).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.facts import refuse_untrained_head
from tl_ffblock.bridge.resume import ResumedRuns
from tl_ffblock.bridge.sites import values_name
from tl_ffblock.interventions.contribution_hooks import Contributions
from tl_ffblock.interventions.edit_points import edit_point
from tl_ffblock.interventions.hooks import Hook, adding_rows
from tl_ffblock.layer.positions import positions
from tl_ffblock.metrics import CleanRun, LogitFunction, Metric, PlainMetric, as_metric, run_by_run

NOTHING_LEFT = 1e-6
"""A head that attends to one token with all but this weight has no other weights that could grow in its place."""


@dataclass(frozen=True)
class Edit:
    """A vector that is added at one position of one HookPoint's tensor, in every forward pass of a run."""

    name: str
    """HookPoint, as `run_with_hooks` takes it."""
    query: int
    """Position, counted from the end if negative."""
    vector: Float[Tensor, " d"]
    """What is added there; d is the width of the tensor, heads of z side by side."""


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
        InputError: if there is no such scope or position.
        UnsupportedModelError: if the scope's tensor cannot be changed in this model.
    """
    point = edit_point(contributions.model, layer, scope)
    query, key = (_position(at, contributions.lengths[0], name) for at, name in ((query, "query"), (key, "key")))
    part = contributions.decomposition(layer)[0].parts(scope)[query, key]
    return Edit(point.name, query, point.onto(-part, contributions.record(layer).block))


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
        InputError: if there is no such position.
    """
    query, key = (_position(at, contributions.lengths[0], name) for at, name in ((query, "query"), (key, "key")))
    record = contributions.record(layer)
    alpha = record.pattern[:, query, key, None]
    if bool((alpha > 1 - NOTHING_LEFT).any()):
        return None
    value = record.head_values
    z = torch.einsum("hk,khe->he", record.pattern[:, query], value)
    cut = (z - alpha * value[key]) / (1 - alpha)
    return Edit(values_name(record.layer), query, (cut - z).flatten())


def measure_unedited(contributions: Contributions, metric: Metric | LogitFunction, *, prompt: int = 0) -> float:
    """The metric of a run as it is; `prompt` is its number in the list of prompts that the metric has answers for."""
    return float(_of_run(metric, contributions, prompt)(contributions.logits))


@torch.no_grad()
def measure_edits(
    contributions: Contributions,
    edits: Sequence[Edit],
    metric: Metric | LogitFunction,
    *,
    prompt: int = 0,
    batch_size: int = 32,
    resume: bool = True,
    advance: Callable[[int], object] | None = None,
) -> Float[Tensor, " edit"]:
    """The metric under each edit of a one-sequence run; what an edit changed is this minus `measure_unedited`.

    Args:
        contributions: The run to edit.
        edits: One edit a run; they do not see each other.
        metric: What to read of each run.
        prompt: The run's number in the list of prompts that the metric has answers for.
        batch_size: Edited runs at a time.
        resume: Whether runs may begin at their edit, where this gives the same logits; False runs whole prompts.
        advance: Called with a number of edits when they are done, as `tqdm.update` wants it.

    Returns:
        Float32, on the CPU, in the order of the edits.

    Raises:
        InputError: if an edit's position does not exist, or the metric cannot be read.
    """
    read = _of_run(metric, contributions, prompt)
    measured = torch.empty(len(edits))
    for rows, logits in _edited_logits(contributions, edits, read.at, batch_size=batch_size, resume=resume):
        measured[rows] = run_by_run(read, logits).float().cpu()
        if advance is not None:
            advance(len(rows))
    return measured


@torch.no_grad()
def measure_together(
    runs: Sequence[Contributions],
    edits: Sequence[Sequence[Edit]],
    metric: PlainMetric,
    *,
    batch_size: int = 32,
    advance: Callable[[int], object] | None = None,
) -> Float[Tensor, "edit value"]:
    """Somebody else's function of all prompts' logits, under as many edits of each prompt: the n-th of all at a time.

    Args:
        runs: The prompts' runs, of equally many tokens.
        edits: By prompt as many edits.
        metric: What to read; it gets logits [prompt pos d_vocab].
        batch_size: Edited runs at a time.
        advance: Called with a number of edits when they are done.

    Returns:
        One value for all prompts, or one a prompt, as the function gives them.
    """
    values: list[Tensor] = []
    at_a_time = max(1, batch_size // len(runs))
    for begin in range(0, len(edits[0]), at_a_time):
        logits = []
        for run, of_run in zip(runs, edits, strict=True):
            some = of_run[begin : begin + at_a_time]
            ((_, edited),) = _edited_logits(run, some, None, batch_size=len(some), resume=False)
            logits.append(edited)
        values += [metric(of_edit).reshape(-1).float().cpu() for of_edit in torch.stack(logits, dim=1)]
        if advance is not None:
            advance(sum(map(len, logits)))
    return torch.stack(values)


def _edited_logits(
    contributions: Contributions, edits: Sequence[Edit], at: int | None, *, batch_size: int, resume: bool
) -> Iterator[tuple[list[int], Float[Tensor, "edit pos d_vocab"]]]:
    """Numbers of edits with their runs' logits, at every position or from the end as far as `at`."""
    length = contributions.shape[1]
    edits = [replace(edit, query=_position(edit.query, length, "query")) for edit in edits]
    first = min((edit.query for edit in edits), default=0)
    runs = ResumedRuns(
        contributions.model, contributions.tokens, contributions.logits, first=first, resume=resume and bool(edits)
    )
    rows_by_start: dict[int, list[int]] = defaultdict(list)
    for row, edit in enumerate(edits):
        rows_by_start[edit.query if runs.resumes else 0].append(row)
    for start, rows in rows_by_start.items():
        for begin in range(0, len(rows), batch_size):
            batch = rows[begin : begin + batch_size]
            rest = runs.logits(start, len(batch), _hooks([edits[row] for row in batch], start))
            yield batch, _as_far_as_read(rest, contributions.logits[:, :start], at)


def _of_run(metric: Metric | LogitFunction, contributions: Contributions, prompt: int) -> Metric:
    """The metric of runs of one prompt, the first of the contributions.

    Raises:
        UntrainedHeadError: if logits of the model say nothing.
    """
    refuse_untrained_head(contributions.model)
    clean = CleanRun(prompt, contributions.tokens[0], contributions.logits[0])
    return as_metric(metric).bound_to(contributions.model).of_prompt(clean)


def _position(asked: int, length: int, name: str) -> int:
    (position,) = positions(asked, length, name)
    return position


def _as_far_as_read(
    rest: Float[Tensor, "run rest d_vocab"], before: Float[Tensor, "1 start d_vocab"], position: int | None
) -> Float[Tensor, "run read d_vocab"]:
    """The clean logits before the edit are put in front, unless the metric reads behind them, counted from the end."""
    read_behind = position is not None and -rest.shape[1] <= position < 0
    if read_behind or before.shape[1] == 0:
        return rest
    return torch.cat([before.expand(len(rest), -1, -1), rest], dim=1)


def _hooks(edits: Sequence[Edit], start: int) -> list[Hook]:
    """One function a HookPoint, for all rows that edit there; the run begins at position `start`."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, edit in enumerate(edits):
        rows[edit.name].append(row)
    return [
        (
            name,
            adding_rows(
                torch.stack([edits[row].vector for row in edited]),
                edited,
                [edits[row].query - start for row in edited],
                len(edits),
            ),
        )
        for name, edited in rows.items()
    ]
