# Noun: attention knockout (Geva et al. 2023).
"""Attention knockout: attention from some positions to others is blocked in a window of layers.

Geva et al. 2023, "Dissecting recall of factual associations in auto-regressive language models", section 4. Blocked scores are
masked before the softmax: their weight is 0, and the other weights of the row grow in proportion. A layer without a softmax loses
what the source token writes: the coefficient C_ij of each masked pair is 0, and decays, gates and all other writes are as in the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, SupportsIndex, TypeAlias

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.attribution.targets import Target, of_logits, words_of
from tl_ffblock.bridge.edited import RUN_BYTES, Hidden, ResumedRuns, RunHook, masking_hooks
from tl_ffblock.bridge.inputs import Batch, forward
from tl_ffblock.bridge.model import Model, identify, select_layers
from tl_ffblock.bridge.runs import Ids, Layers, Run, Texts, Tokens, open_run
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.heads import head_numbers
from tl_ffblock.layer.positions import Positions, positions, several, spans, whole_number
from tl_ffblock.metrics import CleanRun, Metric, run_by_run
from tl_ffblock.numerals import significant
from tl_ffblock.progress import Progress
from tl_ffblock.result import Result
from tl_ffblock.results.intervals import MeanInterval, mean_interval
from tl_ffblock.results.tokens import joined, shortened
from tl_ffblock.signatures import strict, whole

ByPrompt: TypeAlias = Positions | Sequence[Positions]
"""Positions of one prompt; for a list of prompts one position for all, or a list with an entry per prompt."""
AskedOfHeads: TypeAlias = Sequence[SupportsIndex] | SupportsIndex | None
CALLED = "attention knockout"
LARGEST_SHOWN = 3


@strict
@dataclass(frozen=True, repr=False, eq=False)
class AttentionKnockout(Result):
    """A target with attention to one source blocked in one window of layers; means over prompts are [layer source]."""

    by_prompt: Float[Tensor, "prompt layer source"]
    """Target of every prompt under each knockout, in its units."""
    baselines: Float[Tensor, " prompt"]
    """Target of every prompt without a knockout."""
    target: str
    """The target in words."""
    layers: tuple[int, ...]
    """Centre of each window."""
    windows: tuple[tuple[int, ...], ...]
    """Layers of each window, in which attention is blocked."""
    sources: tuple[str, ...]
    """Names of the keys to which attention is blocked."""
    source_tokens: tuple[str, ...]
    """Tokens of each source, joined where prompts differ."""
    query_tokens: str
    """Tokens of the queries, joined where prompts differ; "all others" if every position that is not a key is a query."""
    heads: tuple[int, ...] | None
    """Heads in which attention is blocked; None means all."""
    tokens: tuple[tuple[str, ...], ...]
    """Tokens of the prompts."""
    model: str = "model"
    fingerprint: str = ""
    """Fingerprint of the model's weights; empty if it is not known."""

    @property
    def baseline(self) -> float:
        """Mean target over prompts without a knockout."""
        return float(self.baselines.double().mean())

    @property
    def values(self) -> Float[Tensor, "layer source"]:
        """Mean target over prompts under each knockout."""
        return self.by_prompt.double().mean(dim=0).to(self.by_prompt)

    @property
    def effect(self) -> Float[Tensor, "layer source"]:
        """Mean change of the target over prompts: values - baseline. Geva et al. plot effect / baseline of a probability."""
        return self.interval.mean.to(self.by_prompt)

    @cached_property
    def interval(self) -> MeanInterval:
        """Mean change with its 95 % interval (percentile bootstrap over prompts) and the number of prompts."""
        changes = self.by_prompt - self.baselines[:, None, None]
        return mean_interval(changes)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per window and source: kind ("pattern"), layer, window, source, token, value, effect, and for prompts low, high, n."""
        rows = [
            {"kind": "pattern", "layer": layer, "window": spans(window), "source": source, "token": token}
            for layer, window in zip(self.layers, self.windows, strict=True)
            for source, token in zip(self.sources, self.source_tokens, strict=True)
        ]
        columns = {"value": self.values, "effect": self.effect}
        if len(self.by_prompt) > 1:
            columns |= {"low": self.interval.low, "high": self.interval.high, "n": self.interval.counts}
        return pd.DataFrame(rows).assign(**{name: table.flatten().numpy() for name, table in columns.items()})

    def summary(self) -> tuple[str, Mapping[str, object]]:
        frame, several_prompts = self.to_dataframe(), len(self.tokens) > 1
        lines: dict[str, object] = {} if several_prompts else {"text": shortened(self.tokens[0])}
        lines |= {"attention from": self.query_tokens, "baseline": significant(self.baseline, 4, "-")}
        lines |= {} if self.heads is None else {"heads": spans(self.heads)}
        for row in frame.loc[frame["effect"].abs().nlargest(LARGEST_SHOWN).index].itertuples():
            interval = f" [{row.low:.4g}, {row.high:.4g}]" if several_prompts else ""
            lines[f"layers {row.window} to {row.source}"] = f"{row.effect:+.4g}{interval}"
        prompts = f" · mean over {len(self.tokens)} prompts" if several_prompts else ""
        windows = f"{len(self.layers)} windows x {len(self.sources)} sources"
        return f"{self.target} of {self.model} under {CALLED} · {windows}{prompts}", lines


@strict
def attention_knockout_hooks(
    model: Any, *, keys: Positions, queries: Positions = None, layers: Layers = None, heads: AskedOfHeads = None
) -> list[RunHook]:
    """Hooks that block attention, for `run_with_hooks` and for every `fwd_hooks` of this package (Geva et al. 2023).

    Scores are masked before the softmax, in every model. Each forward pass checks that masked keys have no weight. In layers without
    a softmax the write of a masked key is removed; decays and other writes are as in the run, and no weight grows.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        keys: Positions to which attention is blocked, negative ones from the end.
        queries: Positions from which it is blocked; None means all that are not keys.
        layers: Layers in which it is blocked; None means all.
        heads: Heads in which it is blocked, the same in each of the layers; None means all.

    Raises:
        InputError: if a layer or head does not exist. In the forward pass: if a position does not exist, or a query has no other key.
        UnsupportedModelError: for models that cannot be decomposed. In the forward pass: if attention cannot be masked.
    """
    known = identify(model)
    chosen = select_layers(known, layers)
    numbers = _chosen_heads(known, heads, chosen)

    def hidden(length: int) -> Bool[Tensor, "1 head pos pos"]:
        at = [positions(keys, length, "keys")], [] if queries is None else positions(queries, length, "queries")
        return _of_heads(_pairs(known, length, *at), numbers)

    return masking_hooks(known, dict.fromkeys(chosen, hidden), CALLED)


@strict
def attention_knockout(
    model: Any,
    inputs: str | Texts | Ids | Tokens,
    target: Target,
    *,
    keys: Mapping[str, Any] | ByPrompt,
    queries: ByPrompt = -1,
    layers: Layers = None,
    window: SupportsIndex | None = None,
    heads: AskedOfHeads = None,
    progress: bool = True,
) -> AttentionKnockout:
    """Attention knockout: change of a target when attention to each source is blocked in a window of layers (Geva et al. 2023).

    Every number is measured by a forward pass with masked scores. Forward passes of one prompt run in batches. In layers without a
    softmax (delta nets, state-space models) the write of a source token is removed, `C_ij v_j` for every masked pair; decays, gates
    and other writes are as in the run, and no weight grows. `v_j` is the value after the layer's convolution.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        inputs: A text, a list of texts, or token ids.
        target: A function of logits, as in `ffb.attribute`; Geva et al. use `ffb.probability(answer)`.
        keys: Sources by name, `{"subject": [2, 3], "last": -1}`, or positions of a single source. For a list of prompts, a source
            is one position for all, or a list with an entry per prompt: `{"subject": [[2, 3], [2, 3, 4]], "last": -1}`.
        queries: Positions from which attention is blocked, in the same format; None means all that are not keys.
        layers: The layers of one window; with `window`, the centres of the windows. None means all.
        window: Number of layers around each centre; None means that `layers` is one window.
        heads: Heads in which attention is blocked; None means all.
        progress: Whether a long call shows a progress bar in a terminal or notebook.

    Returns:
        An `AttentionKnockout` with `effect` [layer source]; for several prompts it has means and 95 % intervals.

    Raises:
        InputError: for positions, layers, heads or a target that cannot be used, or a query without another key.
        UntrainedHeadError: for logits of an encoder whose head was never trained.
        UnsupportedModelError: for models that cannot be decomposed, or whose attention cannot be masked.
    """
    run = open_run(model, inputs)
    known, tokens = run.model, tuple(sequence.labels for sequence in run.sequences)
    lengths = [len(labels) for labels in tokens]
    metric = of_logits(target, known, len(lengths))
    centres, windows = _windows(known, layers, window)
    numbers = _chosen_heads(known, heads, sorted({layer for window in windows for layer in window}))
    places = _sources(keys, lengths, run.single)
    from_ = _by_prompt(queries, lengths, "queries", run.single)
    at = zip(lengths, zip(*places.values(), strict=True), from_, strict=True)
    masked = [_of_heads(_pairs(known, *of_prompt), numbers) for of_prompt in at]
    with Progress(CALLED, len(lengths) * len(windows) * len(places), "runs", shown=progress) as bar:
        baselines, values = _of_all_prompts(run, metric, windows, masked, bar)
    return AttentionKnockout(
        values,
        baselines,
        words_of(known, metric),
        centres,
        windows,
        tuple(places),
        source_tokens=tuple(_tokens(at, tokens) for at in places.values()),
        query_tokens=_tokens(from_, tokens) or "all others",
        heads=None if numbers is None else tuple(numbers.nonzero().flatten().tolist()),
        tokens=tokens,
        model=known.name,
        fingerprint=known.fingerprint,
    )


def _of_all_prompts(
    run: Run, metric: Metric, windows: Sequence[Sequence[int]], masked: Sequence[Tensor], bar: Progress
) -> tuple[Float[Tensor, " prompt"], Float[Tensor, "prompt layer source"]]:
    """Target of every prompt without a knockout, and with each."""
    measured = {
        number: _measured(run, batch, index, metric, windows, masked[number], bar)
        for batch in run.batches
        for index, number in enumerate(batch.numbers)
    }
    clean, values = zip(*(measured[number] for number in range(len(masked))), strict=True)
    return torch.stack(clean), torch.stack(values)


def _measured(
    run: Run,
    batch: Batch,
    index: int,
    metric: Metric,
    windows: Sequence[Sequence[int]],
    masked: Bool[Tensor, "source head pos pos"],
    bar: Progress,
) -> tuple[Float[Tensor, ""], Float[Tensor, "layer source"]]:
    """Target of one prompt without a knockout, and with each; positions before the first query are not computed again."""
    model, tokens = run.model, batch.sequence(index).to(run.model.device)
    types = None if batch.token_types is None else batch.own(index, batch.token_types)
    clean = forward(model, Batch(tokens[None], token_types=None if types is None else types[None]))
    start = int(masked.any(dim=-1).any(dim=1).any(dim=0).nonzero()[0])
    resumed = ResumedRuns(model, tokens[None], [clean[0]], starts=[[start] if start else []], resume=not run.is_hooked)

    def logits(n_runs: int, hooks: Sequence[RunHook]) -> Float[Tensor, "run pos d_vocab"]:
        if resumed.resumes:
            rest = resumed.logits(start, [0] * n_runs, hooks)
            return torch.cat([clean[:, :start].expand(n_runs, -1, -1), rest], dim=1)
        with replace(run, fwd_hooks=hooks).hooks():
            several = None if types is None else types.expand(n_runs, -1)
            return forward(model, Batch(tokens.expand(n_runs, -1), token_types=several))

    read = metric.of_prompt(CleanRun(batch.numbers[index], tokens, clean[0]))
    runs = list(product(range(len(windows)), range(len(masked))))
    at_once = model.at_once(RUN_BYTES, len(tokens) * max(clean.shape[-1], model.n_heads * len(tokens)))
    values = []
    for begin in range(0, len(runs), at_once):
        rows = runs[begin : begin + at_once]
        hidden: dict[int, Hidden] = {}
        for layer in sorted({layer for row, _ in rows for layer in windows[row]}):
            inside = torch.tensor([layer in windows[row] for row, _ in rows])
            pairs = masked[[source for _, source in rows]] & inside[:, None, None, None]
            hidden[layer] = lambda _, pairs=pairs: pairs  # type: ignore[misc]  # mypy reads no default
        values.append(run_by_run(read, logits(len(rows), masking_hooks(model, hidden, CALLED))).float().cpu())
        bar.step(len(rows))
    return run_by_run(read, clean)[0].float().cpu(), torch.cat(values).reshape(len(windows), len(masked))


def _windows(
    model: Model, layers: Layers, window: SupportsIndex | None
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Centres and windows: w layers from `l - w // 2` to `l + ceil(w / 2) - 1`, as in the code of Geva et al., within the model."""
    chosen = select_layers(model, layers)
    if window is None:
        return (chosen[len(chosen) // 2],), (chosen,)
    size = whole_number(window, "window", at_least=1)
    around = (range(max(0, layer - size // 2), min(model.n_layers, layer + -(-size // 2))) for layer in chosen)
    return chosen, tuple(map(tuple, around))


def _sources(keys: Any, lengths: Sequence[int], single: bool) -> dict[str, list[list[int]]]:
    """By source name: positions of every prompt."""
    named = keys if isinstance(keys, Mapping) else {"keys": keys}
    if not named or not all(isinstance(name, str) and at is not None for name, at in named.items()):
        raise InputError(
            f'keys={brief(keys)}: expected positions, or sources by name, {{"subject": [2, 3], "last": -1}}.'
        )
    return {name: _by_prompt(at, lengths, f"keys[{name!r}]", single) for name, at in named.items()}


def _by_prompt(given: Any, lengths: Sequence[int], name: str, single: bool) -> list[list[int]]:
    """Positions of every prompt, from 0; empty for None."""
    if given is None:
        return [[] for _ in lengths]
    if single or whole(given) is not None:
        return [positions(given, length, name) for length in lengths]
    listed = [] if isinstance(given, str) else several(given)
    if len(listed) != len(lengths):
        raise InputError(
            f"{name}={brief(given)}: expected one position for all of {len(lengths)} prompts, or a list with an entry per prompt, "
            "each a position or several."
        )
    return [
        positions(at, length, f"{name} of prompt {number}")
        for number, (at, length) in enumerate(zip(listed, lengths, strict=True))
    ]


def _pairs(
    model: Model, length: int, sources: Sequence[Sequence[int]], queries: Sequence[int]
) -> Bool[Tensor, "source query key"]:
    """Masked pairs of each source. Without queries, all positions that are not keys are queries.

    Raises:
        InputError: if a query has no other key, or if there is no query.
    """
    masked = torch.zeros(len(sources), length, length, dtype=torch.bool)
    reached = masked.new_ones(length, length).tril(0 if model.family.causal else length)
    for keys, pairs in zip(sources, masked, strict=True):
        rows = list(queries) or sorted(set(range(length)) - set(keys))
        if not rows:
            raise InputError(
                f"{CALLED}: keys={brief(list(keys))} are all positions, so that there is no query. Pass queries=, or fewer keys."
            )
        pairs[torch.tensor(rows, dtype=torch.long)[:, None], torch.tensor(keys)] = True
        alone = (pairs | ~reached).all(dim=1).nonzero().flatten().tolist()
        if alone:
            raise InputError(
                f"{CALLED}: the query at position {alone[0]} attends to no other position than those of keys={brief(list(keys))}, so "
                "all its weights would be masked. Omit the query or one of its keys."
            )
    return masked


def _of_heads(
    masked: Bool[Tensor, "run query key"], heads: Bool[Tensor, " head"] | None
) -> Bool[Tensor, "run head query key"]:
    """Masked pairs in some heads; one head stands for all."""
    return masked[:, None] if heads is None else masked[:, None] & heads[:, None, None]


def _chosen_heads(model: Model, heads: AskedOfHeads, layers: Sequence[int]) -> Bool[Tensor, " head"] | None:
    """Mask of the chosen heads of layers with one number of heads; None means all."""
    if heads is None:
        return None
    number = model.heads_of(layers)
    return torch.isin(torch.arange(number), torch.tensor(head_numbers(heads, number, switch=False)))


def _tokens(places: Sequence[Sequence[int]], labels: Sequence[Sequence[str]]) -> str:
    """Tokens at positions, joined where prompts differ."""
    return joined(["".join(of[at] for at in here) for here, of in zip(places, labels, strict=True)], "|")
