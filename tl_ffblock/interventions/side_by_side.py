"""Many edits in few forward passes.

Edits at whatever layers, of one prompt or of several of equally many tokens, run side by side as rows of a batch; every row
is a run of its own, from its edit on where the model can go on from cached keys and values (bridge/resume.py). Where hooks
took part in the run to be edited, each edit is a forward pass of its own, in which they see the batch that they saw before.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.edited import ResumedRuns
from tl_ffblock.errors import InputError, brief
from tl_ffblock.interventions.contribution_hooks import Contributions
from tl_ffblock.interventions.edits import Edit
from tl_ffblock.interventions.hooks import Hook, adding_rows
from tl_ffblock.layer.positions import one_position, whole_number
from tl_ffblock.metrics import CleanRun, LogitFunction, Metric, PlainMetric, as_metric, run_by_run
from tl_ffblock.signatures import strict


@dataclass(frozen=True)
class PromptEdit:
    """An edit and the run that it is made in."""

    prompt: int
    """Its number among the prompts that run side by side."""
    edit: Edit


class SideBySide:
    """Prompts of equally many tokens whose edited runs share forward passes."""

    def __init__(
        self,
        runs: Sequence[Contributions],
        *,
        starts: Sequence[Collection[int]],
        batch_size: int,
        resume: bool = True,
    ) -> None:
        """Find out whether runs may begin at their edit.

        Args:
            runs: One run of one prompt each.
            starts: By prompt, the positions from 0 at which it will be edited.
            batch_size: Edited runs at a time.
            resume: Whether runs may begin at their edit, where this gives the same logits; False runs whole prompts.

        Raises:
            InputError: if the model's weights or hooks are not those of the runs.
        """
        runs[0].refuse_changed_model(*runs[1:])
        self._runs = runs
        self._hooked = runs[0].is_hooked
        self._batch_size = batch_size
        self._length = runs[0].shape[1]
        self._clean = [run.logits[0] for run in runs]
        tokens = torch.cat([run.tokens for run in runs])
        self._resumed = ResumedRuns(
            runs[0].model, tokens, self._clean, starts=starts, resume=resume and not self._hooked
        )
        n_starts = len(set().union(*starts)) if self._resumed.resumes else 1
        self.enough: int = batch_size * n_starts
        """How many edits fill the batches, if they stand evenly at all starts."""

    def measure(
        self,
        edits: Sequence[PromptEdit],
        metrics: Sequence[Metric],
        advance: Callable[[int], object] | None = None,
    ) -> Float[Tensor, " edit"]:
        """A number under each edit, float32 on the CPU.

        Args:
            edits: One edit a run; they do not see each other.
            metrics: By prompt, the metric of its runs; all read the same position.
            advance: Called with a number of edits when they are done.

        Raises:
            InputError: if an edit's position does not exist, or the metric cannot be read.
        """
        measured = torch.empty(len(edits))
        for rows, logits in self.logits(edits, metrics[0].at):
            done = 0
            for prompt, of_prompt in groupby(rows, key=lambda row: edits[row].prompt):
                numbers = list(of_prompt)
                measured[numbers] = run_by_run(metrics[prompt], logits[done : done + len(numbers)]).float().cpu()
                done += len(numbers)
            if advance is not None:
                advance(len(rows))
        return measured

    def logits(
        self, edits: Sequence[PromptEdit], at: int | None
    ) -> Iterator[tuple[list[int], Float[Tensor, "edit read d_vocab"]]]:
        """Numbers of edits with their runs' logits, at every position or from the end as far as `at`."""
        placed = [replace(edit, edit=self._counted_from_0(edit.edit)) for edit in edits]
        if self._hooked:
            for row, made in enumerate(placed):
                run, alone = self._runs[made.prompt], made.edit
                yield [row], run.logits_of_edit(alone.name, alone.vector, alone.query)[None]
            return
        rows_by_start: dict[int, list[int]] = defaultdict(list)
        for row, edit in enumerate(placed):
            rows_by_start[edit.edit.query if self._resumed.resumes else 0].append(row)
        for start, rows in rows_by_start.items():
            for begin in range(0, len(rows), self._batch_size):
                batch = rows[begin : begin + self._batch_size]
                prompts = [placed[row].prompt for row in batch]
                rest = self._resumed.logits(start, prompts, _hooks([placed[row].edit for row in batch], start))
                yield batch, self._as_far_as_read(rest, prompts, at)

    def _counted_from_0(self, edit: Edit) -> Edit:
        return replace(edit, query=one_position(edit.query, self._length, "query"))

    def _as_far_as_read(
        self, rest: Float[Tensor, "run rest d_vocab"], prompts: Sequence[int], at: int | None
    ) -> Float[Tensor, "run read d_vocab"]:
        """The clean logits before the edit are put in front, unless the metric reads behind them, counted from the end."""
        start = self._length - rest.shape[1]
        read_behind = at is not None and -rest.shape[1] <= at < 0
        if read_behind or start == 0:
            return rest
        return torch.cat([torch.stack([self._clean[prompt][:start] for prompt in prompts]), rest], dim=1)


def metric_of(run: Contributions, metric: Metric | LogitFunction, number: int) -> Metric:
    """The metric of runs of one prompt, the first of the contributions; `number` is its number among the metric's answers.

    Raises:
        UntrainedHeadError: if logits of the model say nothing.
    """
    run.model.refuse_untrained_head()
    clean = CleanRun(number, run.tokens[0], run.logits[0])
    return as_metric(metric).bound_to(run.model).of_prompt(clean)


@strict
def measure_unedited(contributions: Contributions, metric: Metric | LogitFunction, *, prompt: int = 0) -> float:
    """The metric of a run as it is; `prompt` is its number in the list of prompts that the metric has answers for."""
    return float(metric_of(contributions, metric, prompt)(contributions.logits.clone()))


@strict
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
    whole_number(batch_size, "batch_size", at_least=1)
    if not isinstance(edits, Sequence) or not all(isinstance(edit, Edit) for edit in edits):
        raise InputError(f"edits={brief(edits)}: expected a list of edits, as removal and knockout make them.")
    read = metric_of(contributions, metric, prompt)
    length = contributions.shape[1]
    starts = {one_position(edit.query, length, "query") for edit in edits}
    alone = SideBySide([contributions], starts=[starts], batch_size=batch_size, resume=resume)
    return alone.measure([PromptEdit(0, edit) for edit in edits], [read], advance)


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
    whole = SideBySide(runs, starts=[()] * len(runs), batch_size=batch_size, resume=False)
    values: list[Tensor] = []
    at_a_time = max(1, batch_size // len(runs))
    for begin in range(0, len(edits[0]), at_a_time):
        of_prompts = zip(*(of_run[begin : begin + at_a_time] for of_run in edits), strict=True)
        flat = [PromptEdit(prompt, edit) for same in of_prompts for prompt, edit in enumerate(same)]
        logits = torch.cat([edited for _, edited in whole.logits(flat, None)])
        values += [metric(of_edit).reshape(-1).float().cpu() for of_edit in torch.split(logits, len(runs))]
        if advance is not None:
            advance(len(flat))
    return torch.stack(values)


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
