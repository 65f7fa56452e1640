"""`ffb.faithfulness`: a masking test of attributions, which compares scores of tokens with the effect of masking them.

1. Effects: each candidate token of a prompt is masked alone.
2. Curves: the tokens with the largest, or the smallest, scores of a method are masked together, in several fractions.
3. Baselines: the effects themselves as scores, random scores, and the last token first.

A set of tokens that several methods choose has one forward pass.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, Literal, SupportsIndex, TypeAlias, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int, Shaped
from scipy.stats import rankdata
from torch import Tensor

from tl_ffblock.attribution.attribute import open_attribution_run
from tl_ffblock.attribution.attribution import Attribution
from tl_ffblock.attribution.certificate import VANISHED
from tl_ffblock.attribution.targets import Direction, Target, for_prompts, gradient_of, words_of
from tl_ffblock.bridge.edited import RemovalName, Removals
from tl_ffblock.bridge.inputs import RunSequence, special_ids
from tl_ffblock.bridge.runs import Ids, Run, Texts, Tokens
from tl_ffblock.bridge.traced import with_gradients
from tl_ffblock.errors import InputError, brief, did_you_mean
from tl_ffblock.layer.positions import Positions, one_per_prompt, positions, whole_number
from tl_ffblock.metrics import CleanRun, Metric, one_number, run_by_run
from tl_ffblock.progress import Progress
from tl_ffblock.result import Result
from tl_ffblock.results.intervals import mean_interval
from tl_ffblock.results.ranks import spearman
from tl_ffblock.signatures import strict

Measure: TypeAlias = Literal["correlation", "MoRF", "LeRF", "area", "cause"]
"""Measures of a method within a prompt.

correlation: Spearman's rho of scores with the effects of masking single tokens. MoRF, LeRF: mean fall of the target over masked
fractions, with the largest or the smallest (signed) scores masked. area: MoRF - LeRF. cause: 1 / rank of the known cause."""
MEASURES: tuple[Measure, ...] = get_args(Measure)
ORDERS = ("MoRF", "LeRF")
SHARES = (0.1, 0.25, 0.5)
"""Fractions of a prompt's candidates that the curves mask."""
BASELINES = ("leave one out", "random", "recency")
_NOISE = 16
"""Rounding between batches of different shapes, in eps of the largest term: matrix products add in another order."""

Scores: TypeAlias = Attribution | Shaped[Tensor, " pos"]
"""A method's scores of a prompt's tokens."""
MethodScores: TypeAlias = (
    Mapping[str, Scores | Sequence[Scores] | Shaped[Tensor, "prompt pos"]] | Sequence[Attribution] | Attribution
)
"""By method name: scores of each prompt. The name of attributions alone is that of their rules."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class Faithfulness(Result):
    """Result of a masking test: measures of each method in each prompt, curves, and effects of single tokens."""

    methods: tuple[str, ...]
    """The given methods, then "leave one out" (the effects themselves as scores), "random" and "recency"."""
    by_prompt: Mapping[Measure, Float[Tensor, "method prompt"]]
    """Values by measure. NaN in prompts with equal effects, without a known cause, or if a method's scores vanish."""
    curves: Float[Tensor, "method order prompt share"]
    """Fall of the target with a fraction of the tokens masked: order 0 is MoRF, 1 is LeRF."""
    shares: tuple[float, ...]
    """Masked fractions of the candidates."""
    effects: tuple[Float[Tensor, " pos"], ...]
    """By prompt: fall of the target with each token masked; NaN at tokens that are not candidates."""
    labels: tuple[tuple[str, ...], ...]
    """By prompt: its tokens."""
    values: Float[Tensor, " prompt"]
    """Target of each prompt, without masking."""
    target: str
    removal: str
    model: str = "model"
    unranked: Mapping[str, str] = field(default_factory=dict)
    """By method whose scores vanish in a prompt: the reason."""

    def mean(self, measure: Measure, method: str) -> tuple[float, float, float]:
        """Mean over prompts, with the ends of its 95 % interval (percentile bootstrap over prompts).

        Raises:
            InputError: for an unknown measure or method.
        """
        return _summary(self._row(measure, method))

    def compare(self, measure: Measure, method: str, against: str) -> tuple[float, float, float]:
        """Mean over prompts of `method` minus `against`, with the ends of its 95 % interval (paired).

        Raises:
            InputError: for an unknown measure or method.
        """
        return _summary(self._row(measure, method) - self._row(measure, against))

    def to_dataframe(self, *, by_prompt: bool = False) -> pd.DataFrame:
        """One row per method and measure: value (the mean), low, high, n (prompts). Measures without values are omitted.

        Args:
            by_prompt: Whether each prompt has its own row, with columns `prompt` and `value` instead of mean and interval.
        """
        measures = [measure for measure in MEASURES if not bool(self.by_prompt[measure].isnan().all())]
        cells = [(method, measure, self._row(measure, method)) for method in self.methods for measure in measures]
        if by_prompt:
            rows = [(*names, number, value) for *names, row in cells for number, value in enumerate(row.tolist())]
            return pd.DataFrame(rows, columns=["method", "measure", "prompt", "value"]).dropna(ignore_index=True)
        summaries = [(*names, *_summary(row), int((~row.isnan()).sum())) for *names, row in cells]
        return pd.DataFrame(summaries, columns=["method", "measure", "value", "low", "high", "n"])

    def curves_dataframe(self) -> pd.DataFrame:
        """One row per method, order ("MoRF", "LeRF") and share (fraction of masked tokens): value (the mean), low, high."""
        rows = [
            (method, order, share, *_summary(self.curves[number, at, :, column]))
            for number, method in enumerate(self.methods)
            for at, order in enumerate(ORDERS)
            for column, share in enumerate(self.shares)
        ]
        return pd.DataFrame(rows, columns=["method", "order", "share", "value", "low", "high"])

    def summary(self) -> tuple[str, Mapping[str, object]]:
        causes = not bool(self.by_prompt["cause"].isnan().all())
        shown: list[Measure] = ["correlation", "area", *(("cause",) if causes else ())]
        lines = {"": "  ".join(f"{measure:>20}" for measure in shown)}
        for method in self.methods:
            cells = (_with_interval(*self.mean(measure, method)) for measure in shown)
            lines[method] = "  ".join(f"{cell:>20}" for cell in cells)
        for method, reason in self.unranked.items():
            without = int(self._row("area", method).isnan().sum())
            lines["not ranked"] = f"{method} in {without} of {len(self.labels)} prompts: {reason}"
        prompts = f"{len(self.labels)} prompt{'s' * (len(self.labels) > 1)}"
        return f"{self.target} of {self.model} · {prompts} · removal={self.removal!r}", lines

    def _row(self, measure: Measure, method: str) -> Float[Tensor, " prompt"]:
        if method not in self.methods:
            meant = did_you_mean(method, self.methods)
            raise InputError(
                f"method={brief(method)}: expected one of {', '.join(map(repr, self.methods))}. {meant}".rstrip()
            )
        return self.by_prompt[measure][self.methods.index(method)]


def _with_interval(value: float, low: float, high: float) -> str:
    """The number with the ends of its interval, which one prompt does not have."""
    return f"{value:6.2f}" if math.isnan(low) else f"{value:6.2f} [{low:5.2f}, {high:5.2f}]"


def _summary(values: Float[Tensor, " prompt"]) -> tuple[float, float, float]:
    interval = mean_interval(values[:, None])
    return float(interval.mean), float(interval.low), float(interval.high)


@strict
def faithfulness(
    model: Any,
    prompts: str | Texts | Ids | Tokens,
    target: Target,
    results: MethodScores,
    *,
    removal: RemovalName = "mask",
    cause: SupportsIndex | Sequence[SupportsIndex] | None = None,
    keys: Positions = None,
    seed: int = 0,
    progress: bool = True,
) -> Faithfulness:
    """Masking test: compare scores of tokens with the fall of the target when tokens are masked, one by one and together.

    With `removal="mask"` no other position attends to the token. Later positions keep their numbers, and the other tokens get
    its attention. With `"mean"` its embedding is the mean of the vocabulary, which no token has. Both are unnatural inputs, and
    they may rank methods differently: report `removal`. Do not replace a token by a separator: it cuts off the text before it,
    which favours "recency".

    Measures of each prompt:

    - "correlation": Spearman's rho of the scores with the fall of the target when each token alone is masked.
    - "MoRF" (most relevant first): mean fall of the target with the 10, 25 and 50 % of candidates with the largest scores masked.
    - "LeRF" (least relevant first): the same with the smallest scores.
    - "area": MoRF - LeRF.
    - "cause": 1 / rank of the token at `cause`; 1 if a method ranks it first.

    If an attribution vanishes (`Attribution.vanishes`), its measures are NaN, and the printed table gives the reason.

    Candidates are all tokens except special ones, those at which the target is read, and those that cannot reach it.

    Baselines are "leave one out" (the effects of single tokens as scores), "recency" (the last token first) and "random" (one draw
    of scores per prompt). The expectation of "random" is 0 for correlation and area, and (1 + 1/2 + ... + 1/n) / n for the cause
    among n candidates. The draw depends only on the seed and the prompt's tokens, not on other prompts.

    Args:
        model: As in `ffb.attribute`.
        prompts: A text, texts, or token ids [pos] or [batch pos].
        target: As in `ffb.attribute`.
        results: By method name, one entry per prompt: `Attribution`s of this target, whose `token_attributions` are the scores, or tensors
            [pos] of any other method. The name of a list of attributions is that of their rules.
        removal: "mask" or "mean".
        cause: Position of the token that is known to be the cause, one for all prompts or one per prompt.
        keys: Other candidates, the same in all prompts.
        seed: Seed of random scores and of the order of equal scores.
        progress: Whether a long call shows a progress bar in a terminal or notebook.

    Returns:
        `Faithfulness`: a number per measure, method and prompt.

    Raises:
        InputError: for input, results or options that cannot be used, such as attributions of another target, text or model.
        UnsupportedModelError: for models that cannot be decomposed, or in which tokens cannot be masked.
    """
    whole_number(seed, "seed", at_least=0)
    run = open_attribution_run(model, prompts)
    metric = for_prompts(target, len(run.sequences))
    methods = _read_methods(results, run)
    causes = None if cause is None else one_per_prompt(cause, [len(s.tokens) for s in run.sequences], "cause")
    measured = []
    with Progress(run.model.name, len(run.sequences), "prompts", shown=progress) as bar, torch.no_grad():
        for number in range(len(run.sequences)):
            prompt = _Prompt(run, number, metric, removal, keys)
            own = {name: prompt.scores(f"results[{name!r}][{number}]", of[number]) for name, of in methods.items()}
            measured.append(_measured(prompt, own, None if causes is None else causes[number], seed))
            bar.step()
    scores, by_prompt, curves, effects, values = zip(*measured, strict=True)
    return Faithfulness(
        methods=tuple(scores[0]),
        by_prompt={measure: torch.stack([row[measure] for row in by_prompt], dim=1) for measure in by_prompt[0]},
        curves=torch.stack(curves, dim=2),
        shares=SHARES,
        effects=effects,
        labels=tuple(sequence.labels for sequence in run.sequences),
        values=torch.tensor(values, dtype=torch.float64),
        target="direction" if isinstance(metric, Direction) else metric.name,
        removal=removal,
        model=run.model.name,
        unranked={name: VANISHED for name in scores[0] if any(of[name].isnan().any() for of in scores)},
    )


def _read_methods(results: MethodScores, run: Run) -> dict[str, Sequence[Scores]]:
    """By method: its scores, one entry per prompt.

    Raises:
        InputError: if they are for other prompts.
    """
    if not isinstance(results, Mapping):
        given = list(results) if isinstance(results, Sequence) else [results]
        rules = sorted({result.rules for result in given if isinstance(result, Attribution)})
        if len(rules) != 1:
            kinds = ", ".join(sorted({type(result).__name__ for result in given})) or type(results).__name__
            raise InputError(
                f"results has {kinds} with rules {', '.join(map(repr, rules)) or 'of no name'}: expected Attributions with the same "
                "rules, as ffb.attribute returns them, or a mapping from method names to one entry per prompt."
            )
        results = {rules[0]: given}
    if others := [name for name in results if not isinstance(name, str)]:
        raise InputError(f"results has the key {others[0]!r}: expected a method's name as text.")
    taken = set(BASELINES) & set(results)
    if not results or taken:
        raise InputError(f"results: {', '.join(map(repr, taken)) or 'no method'}; expected methods with other names.")
    return {name: _of_method(f"results[{name!r}]", of_method, run) for name, of_method in results.items()}


def _of_method(place: str, given: Any, run: Run) -> list[Scores]:
    several = isinstance(given, list | tuple) or (isinstance(given, Tensor | np.ndarray) and given.ndim > 1)
    by_prompt = list(given) if several else [given]
    if len(by_prompt) != len(run.sequences):
        raise InputError(
            f"{place} has scores of {len(by_prompt)} prompts: expected {len(run.sequences)}, one per prompt."
        )
    for number, (scores, sequence) in enumerate(zip(by_prompt, run.sequences, strict=True)):
        if not isinstance(scores, Attribution | Tensor | np.ndarray | list | tuple):
            raise InputError(
                f"{place}[{number}] is of type {type(scores).__name__}: expected an Attribution of ffb.attribute, or scores [pos]."
            )
        if isinstance(scores, Attribution) and scores.labels != sequence.labels:
            raise InputError(
                f"{place}[{number}] is of another text, {brief(''.join(scores.labels))}: expected {brief(''.join(sequence.labels))}."
            )
        tensor = _on_tokens(scores)
        if tuple(tensor.shape) != (len(sequence.tokens),) or not bool(tensor.isfinite().all()):
            held = "NaN or infinity" if not bool(tensor.isfinite().all()) else f"shape {tuple(tensor.shape)}"
            raise InputError(
                f"{place}[{number}] has {held}: expected a finite score for each of {len(sequence.tokens)} tokens."
            )
    return by_prompt


def _on_tokens(scores: Any) -> Float[Tensor, " pos"]:
    return (
        torch.as_tensor(scores.token_attributions if isinstance(scores, Attribution) else scores)
        .detach()
        .cpu()
        .double()
    )


class _Prompt:
    """One prompt, its target without masking, and forward passes with masked tokens.

    `rounding` is the largest accepted difference of a result's target from `value`. `noise` is the rounding between batches of
    different shapes.
    """

    read: Callable[[Tensor], Float[Tensor, " run"]]

    def __init__(
        self, run: Run, number: int, target: Metric | Direction, removal: RemovalName, keys: Positions
    ) -> None:
        self.run, self.sequence, model = run, run.sequences[number], run.model
        length = len(self.sequence.tokens)
        layer, self.words = target.place_in(model) if isinstance(target, Direction) else (None, "")
        if layer is None:
            model.refuse_untrained_head()
        self.removals = Removals(model, self.sequence.tokens, removal, layer)
        (output,) = self.removals.outputs(torch.zeros(1, length, dtype=torch.bool))
        if isinstance(target, Direction):
            derivative, self.quantity = target.derivative(output[0]), self.words
            read = derivative.any(dim=-1)
            self.read = lambda stream: stream[:, read].flatten(1) @ derivative[read].flatten()
        else:
            metric = target.bound_to(model).of_prompt(CleanRun(number, self.sequence.tokens, output[0]))
            with with_gradients():
                leaf = output.detach().clone().requires_grad_()
                derivative = gradient_of(one_number(metric, leaf), leaf, metric.name)[0][0]
            self.read, self.quantity, self.words = partial(run_by_run, metric), metric.name, words_of(model, metric)
        size = float(derivative.double().norm(p=1) * output[0][derivative != 0].abs().max())
        self.value, self.rounding = float(self.read(output)), run.settings.rtol * size
        self.noise = _NOISE * torch.finfo(output.dtype).eps * size
        self.candidates = _candidates(run, self.sequence, derivative.any(dim=-1).cpu(), keys)

    def falls(self, removed: Sequence[frozenset[int]]) -> Float[Tensor, " run"]:
        """Fall of the target with each of these sets of candidates masked; candidates are numbered from 0."""
        table = torch.zeros(len(removed), len(self.sequence.tokens), dtype=torch.bool)
        for row, numbers in enumerate(removed):
            table[row, self.candidates[sorted(numbers)]] = True
        return self.value - torch.cat([self.read(output).cpu().double() for output in self.removals.outputs(table)])

    def scores(self, place: str, scores: Scores) -> Float[Tensor, " candidate"]:
        """Scores of the candidates; NaN for an attribution that vanishes.

        Raises:
            InputError: for attributions of another target.
        """
        numbers = _on_tokens(scores)[self.candidates]
        if not isinstance(scores, Attribution):
            return numbers
        same = scores.quantity != self.quantity or scores.target == self.words
        if not (same and abs(scores.value - self.value) <= self.rounding):  # also refuses NaN
            raise InputError(
                f"{place} attributes {scores.target} = {scores.value:.6g} of {scores.model}; the masking test reads {self.words} = "
                f"{self.value:.6g} of {self.run.model.name}. Expected attributions of the same target, of the same model without "
                "hooks. For another target pass numbers, such as result.token_attributions."
            )
        return torch.full_like(numbers, torch.nan) if scores.vanishes else numbers


def _candidates(
    run: Run, sequence: RunSequence, read_at: Bool[Tensor, " pos"], keys: Positions
) -> Int[Tensor, " candidate"]:
    length, places = len(sequence.tokens), torch.arange(len(sequence.tokens))
    free = ~read_at
    if run.model.family.causal:
        free &= places < int(read_at.nonzero().max())
    if keys is None:
        free &= ~torch.isin(sequence.tokens, torch.tensor(special_ids(run.model), dtype=sequence.tokens.dtype))
    else:
        asked = torch.isin(places, torch.tensor(positions(keys, length, "keys")))
        if bool((asked & ~free).any()):
            raise InputError(
                f"keys={brief(keys)}: at position {int((asked & ~free).nonzero()[0])} the target is read, or the position cannot reach it. "
                "Expected other positions."
            )
        free = asked
    if int(free.sum()) < 2:
        raise InputError(
            f"the prompt {brief(''.join(sequence.labels))} has {int(free.sum())} tokens to mask: special tokens and those at which the "
            f"target is read, {int(read_at.sum())} of {length}, are excluded. Expected at least two."
        )
    return free.nonzero()[:, 0]


def _measured(
    prompt: _Prompt, own: dict[str, Float[Tensor, " candidate"]], cause: int | None, seed: int
) -> tuple[dict[str, Tensor], dict[Measure, Tensor], Tensor, Tensor, float]:
    """For one prompt: scores by method, measures [method], curves [method order share], effects [pos], the target."""
    candidates = prompt.candidates.tolist()
    if cause is not None and cause not in candidates:
        raise InputError(f"cause={cause}: expected one of the candidates, positions {brief(candidates)}.")
    n = len(candidates)
    # Seeded by a digest (equal in all processes, unlike `hash`), so that other prompts do not change the numbers.
    digest = blake2b(repr((seed, prompt.sequence.tokens.tolist())).encode(), digest_size=7).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "little"))
    effects = prompt.falls([frozenset({number}) for number in range(n)])
    random, shuffle = torch.rand(n, generator=generator, dtype=torch.float32), torch.randperm(n, generator=generator)
    recency = torch.arange(n, dtype=torch.float64)
    scores = {**own, **dict(zip(BASELINES, (effects, random, recency), strict=True))}
    ranked = torch.tensor([not bool(of_method.isnan().any()) for of_method in scores.values()])
    curves = _curves(prompt, [of for of, known in zip(scores.values(), ranked, strict=True) if known], shuffle)
    everywhere = torch.full((len(ranked), 2, len(SHARES)), math.nan, dtype=torch.float64)
    everywhere[ranked] = curves
    moved = float(effects.max() - effects.min()) > prompt.noise
    correlations = torch.tensor([spearman(of_method, effects) for of_method in scores.values()])
    known = None if cause is None else candidates.index(cause)
    ranks = [math.nan if known is None else 1 / rankdata(-of.numpy())[known] for of in scores.values()]
    first, last = everywhere.mean(dim=-1).unbind(dim=1)
    found: dict[Measure, Tensor] = {
        "correlation": correlations.nan_to_num(0.0) if moved else torch.full_like(correlations, math.nan),
        "MoRF": first,
        "LeRF": last,
        "area": first - last,
        "cause": torch.tensor(ranks, dtype=torch.float64),
    }
    measures = {measure: numbers.where(ranked, math.nan) for measure, numbers in found.items()}
    at_positions = torch.full((len(prompt.sequence.tokens),), math.nan, dtype=torch.float64)
    return scores, measures, everywhere, at_positions.index_copy(0, prompt.candidates, effects), prompt.value


def _curves(
    prompt: _Prompt, scores: Sequence[Float[Tensor, " candidate"]], shuffle: Int[Tensor, " candidate"]
) -> Float[Tensor, "method order share"]:
    """Fall of the target with the largest, and with the smallest, scores masked; one forward pass per set of tokens."""
    sets = [
        # Equal scores are in random order, not in the order of the text.
        frozenset(
            shuffle[(sign * of_method)[shuffle].argsort(stable=True)][
                : max(1, math.ceil(share * len(shuffle)))
            ].tolist()
        )
        for of_method in scores
        for sign in (-1, 1)
        for share in SHARES
    ]
    distinct = sorted(set(sets), key=sorted)
    by_set = dict(zip(distinct, prompt.falls(distinct).tolist(), strict=True))
    return torch.tensor([by_set[chosen] for chosen in sets]).double().reshape(-1, 2, len(SHARES))
