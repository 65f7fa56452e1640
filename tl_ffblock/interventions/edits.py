"""Many edits in few forward passes, and the metrics that read them.

An `Edit` adds one vector at one position of one HookPoint. Edits of the same prompt, at whatever
layers, run side by side as rows of a batch; every row is a run of its own. In a causal model an edit
changes nothing before its position: where a bridge can go on from Hugging Face's cache of keys and
values, only the rest of the prompt is run, ten times faster at the last position. That it can is
checked on every prompt with a run without edits; otherwise whole prompts are run.
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from tl_ffblock.errors import InputError
from tl_ffblock.interventions.contribution_hooks import Contributions, HookFunction
from tl_ffblock.interventions.edit_points import place_of

Token: TypeAlias = str | int

_RESUMED = 1e-4
"""How well a run that goes on from the cache must give the clean run's logits, relative to the largest."""


@dataclass(frozen=True)
class Outcome:
    """What a metric reads."""

    logits: Float[Tensor, "batch read d_vocab"]
    """Of runs of one prompt, each edited in its own way; the last positions only, where these are all that is read."""
    clean: Float[Tensor, "1 pos d_vocab"]
    """Of the prompt's run without edits."""
    tokens: Int[Tensor, "1 pos"]
    """The prompt."""
    prompt: int
    """Its number."""


@dataclass(frozen=True)
class Metric:
    """A number for every run, and the position it is read at."""

    name: str
    read: Callable[[Outcome], Float[Tensor, " batch"]]
    position: int | None = -1
    """Where the logits are read; None means at more than one position."""

    def __call__(self, outcome: Outcome) -> Float[Tensor, " batch"]:
        return self.read(outcome)


def logit_difference(model: Any, right: Sequence[Token], wrong: Sequence[Token], *, position: int = -1) -> Metric:
    """`logit(right) - logit(wrong)` at one position, in nats of log-odds.

    Args:
        model: Its tokenizer reads the words.
        right: One token a prompt, as id or as text; of a longer text the first token counts.
        wrong: The tokens to compare with.
        position: Where to read, the last position by default.

    Raises:
        InputError: if there are not as many right as wrong tokens, or a pair is the same token.
    """
    if len(right) != len(wrong) or not right:
        raise InputError(f"{len(right)} right and {len(wrong)} wrong tokens: expected one pair a prompt.")
    pairs = [(_token(model, a), _token(model, b)) for a, b in zip(right, wrong, strict=True)]
    same = next((number for number, (a, b) in enumerate(pairs) if a == b), None)
    if same is not None:
        raise InputError(f"prompt {same}: {right[same]!r} and {wrong[same]!r} begin with the same token.")

    def read(outcome: Outcome) -> Tensor:
        if outcome.prompt >= len(pairs):
            raise InputError(f"the metric has {len(pairs)} pairs, there is a prompt number {outcome.prompt}.")
        a, b = pairs[outcome.prompt]
        logits = outcome.logits[:, position]
        return logits[:, a] - logits[:, b]

    return Metric("logit difference", read, position)


def kl_divergence(*, position: int = -1) -> Metric:
    """`KL(clean || edited)` of the next token's distribution at one position, in nats."""

    def read(outcome: Outcome) -> Tensor:
        clean = outcome.clean[:, position].double().log_softmax(dim=-1)
        edited = outcome.logits[:, position].double().log_softmax(dim=-1)
        return (clean.exp() * (clean - edited)).sum(dim=-1)

    return Metric("KL divergence", read, position)


def loss() -> Metric:
    """Mean next-token cross-entropy over the prompt, in nats."""

    def read(outcome: Outcome) -> Tensor:
        following = outcome.tokens[:, 1:].expand(len(outcome.logits), -1)
        log_probabilities = outcome.logits[:, :-1].double().log_softmax(dim=-1)
        return -log_probabilities.gather(-1, following[..., None])[..., 0].mean(dim=-1)

    return Metric("loss", read, None)


@dataclass(frozen=True)
class Edit:
    """A vector added at one position of one HookPoint's tensor."""

    name: str
    query: int
    vector: Float[Tensor, " d"]


def removal(run: Contributions, layer: int, scope: str, query: int, source: int) -> Edit:
    """Take one contribution of a run's first sequence out."""
    place = place_of(run.model, layer, scope)
    vector = run.decomposition(layer)[0].parts(scope)[query, source]
    norm = None if place.norm is None else getattr(run.records[layer].block, place.norm)
    return Edit(place.name, query, -place.onto(vector, norm))


def knockout(run: Contributions, layer: int, query: int, source: int) -> Edit | None:
    """Cut one attention edge in all heads, the others' weights growing in proportion: a masked score.

    Done at `attn.hook_z`, `z' = (z - alpha v) / (1 - alpha)`, which every bridge obeys. None where a
    head attends to this source alone: nothing would be left.
    """
    record = run.records[layer].sequence(0)
    alpha = record.pattern[:, query, source, None]
    if bool((alpha > 1 - 1e-6).any()):
        return None
    value = record.value.repeat_interleave(len(alpha) // record.value.shape[1], dim=1)
    z = torch.einsum("hk,khe->he", record.pattern[:, query], value)
    cut = (z - alpha * value[source]) / (1 - alpha)
    return Edit(f"blocks.{layer}.attn.hook_z", query, (cut - z).flatten())


@torch.no_grad()
def effects(
    run: Contributions,
    edits: Sequence[Edit],
    metric: Metric,
    *,
    prompt: int = 0,
    batch_size: int = 32,
    progress: "tqdm[Any] | None" = None,
) -> Float[Tensor, " edit"]:
    """The metric under every edit of a one-sequence run, `batch_size` edited runs at a time."""
    runs = _Runs(run, min((edit.query for edit in edits), default=0))
    rows_by_start: dict[int, list[int]] = defaultdict(list)
    for row, edit in enumerate(edits):
        rows_by_start[edit.query if runs.resume else 0].append(row)
    found = torch.empty(len(edits))
    for start, rows in rows_by_start.items():
        for first in range(0, len(rows), batch_size):
            some = rows[first : first + batch_size]
            logits = runs.logits([edits[row] for row in some], start, metric.position)
            found[some] = metric(Outcome(logits, run.logits, run.tokens, prompt)).float().cpu()
            if progress is not None:
                progress.update(len(some))
    return found


class _Runs:
    """Edited runs of one prompt, from the edited position on where the model can."""

    def __init__(self, run: Contributions, first: int) -> None:
        self._run = run
        self._caches: dict[int, Any] = {}
        self.resume = run.model.family.causal and run.model.api == "TransformerBridge" and self._resumes(first)

    def logits(self, edits: Sequence[Edit], start: int, position: int | None) -> Float[Tensor, "edit pos d_vocab"]:
        """Every edit's logits; before `start` they are the clean run's, and left out where only the end is read."""
        rest = self._from(start, len(edits), _hooks(edits, start))
        if start == 0 or (position is not None and -rest.shape[1] <= position < 0):
            return rest
        return torch.cat([self._run.logits[:, :start].expand(len(edits), -1, -1), rest], dim=1)

    def _from(self, start: int, n_rows: int, hooks: list[tuple[str, HookFunction]]) -> Tensor:
        model, tokens = self._run.model.hooked, self._run.tokens[:, start:].expand(n_rows, -1)
        if start == 0:
            return model.run_with_hooks(tokens, fwd_hooks=hooks)
        cache = copy.deepcopy(self._cache(start))
        cache.batch_repeat_interleave(n_rows)
        return model.run_with_hooks(tokens, fwd_hooks=hooks, past_key_values=cache, use_cache=True)

    def _cache(self, start: int) -> Any:
        if start not in self._caches:
            prefix = self._run.tokens[:, :start]
            given = self._run.model.hooked(prefix, return_type="logits_and_cache", use_cache=True)
            self._caches = {start: given[1]}
        return self._caches[start]

    def _resumes(self, first: int) -> bool:
        """Whether an unedited run from there gives the clean run's logits."""
        start = max(first, 1)
        clean = self._run.logits[:, start:]
        if clean.shape[1] == 0:
            return False
        try:
            resumed = self._from(start, 1, [])
        except Exception:  # whatever this version or architecture cannot do, the whole prompt can
            return False
        return resumed.shape == clean.shape and torch.allclose(
            resumed, clean, rtol=_RESUMED, atol=_RESUMED * float(clean.abs().max())
        )


def _hooks(edits: Sequence[Edit], start: int) -> list[tuple[str, HookFunction]]:
    """One function a HookPoint, for all rows that edit there; the run begins at position `start`."""
    rows: dict[str, list[int]] = defaultdict(list)
    for row, edit in enumerate(edits):
        rows[edit.name].append(row)
    return [(name, _adder([edits[row] for row in own], own, len(edits), start)) for name, own in rows.items()]


def _adder(edits: Sequence[Edit], rows: list[int], batch: int, start: int) -> HookFunction:
    queries = [edit.query - start for edit in edits]
    vectors = torch.stack([edit.vector for edit in edits])

    def hook(tensor: Tensor, hook: Any = None) -> Tensor:
        changed = tensor.clone(memory_format=torch.contiguous_format)
        own = changed.view(batch, -1, vectors.shape[-1])
        own[rows, queries] += vectors.to(tensor)
        return changed

    return hook


def _token(model: Any, word: Token) -> int:
    if isinstance(word, int):
        return word
    tokenizer = getattr(model, "tokenizer", None)
    if tokenizer is None:
        raise InputError(f"the model has no tokenizer to read {word!r}: give token ids.")
    ids = tokenizer(word, add_special_tokens=False)["input_ids"]
    if not ids:
        raise InputError(f"{word!r} has no tokens.")
    return int(ids[0])
