"""`ffb.faithfulness`: a masking test of attributions, what happens to a target when tokens are removed.

1. Of every prompt each candidate token is left out by itself: effects.
2. Of every method the tokens with the most, and with the least score are left out together, more and more of them: curves.
3. Baselines beside the methods are the effects themselves as scores, scores at random, and the last token first.

Sets of tokens that several methods choose are run once.
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
from tl_ffblock.metrics import CleanRun, Metric, run_by_run
from tl_ffblock.progress import Progress
from tl_ffblock.result import Result
from tl_ffblock.results.intervals import mean_interval
from tl_ffblock.results.ranks import spearman
from tl_ffblock.signatures import strict

Measure: TypeAlias = Literal["correlation", "MoRF", "LeRF", "area", "cause"]
"""correlation: Spearman's rho of a method's scores with the effects of leaving one token out, within a prompt. MoRF, LeRF: what
the target falls by, in the mean over shares, when the tokens with the most or the least (signed) score are removed together.
area: MoRF - LeRF. cause: 1 / rank of the token that is known to be the cause."""
MEASURES: tuple[Measure, ...] = get_args(Measure)
ORDERS = ("MoRF", "LeRF")
SHARES = (0.1, 0.25, 0.5)
"""How much of a prompt the curves remove."""
BASELINES = ("leave one out", "random", "recency")
_NOISE = 16
"""How many eps of the largest term batches of other shapes may put a number apart: matrix products add in another order."""

Scores: TypeAlias = Attribution | Shaped[Tensor, " pos"]
"""What a method says of a prompt's tokens."""
MethodScores: TypeAlias = (
    Mapping[str, Scores | Sequence[Scores] | Shaped[Tensor, "prompt pos"]] | Sequence[Attribution] | Attribution
)
"""By a method's name what it says of each prompt; attributions alone go by the name of their rules."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class Faithfulness(Result):
    """How well each method's scores say what happens when tokens are removed, prompt by prompt."""

    methods: tuple[str, ...]
    """Those that were given, then "leave one out", which knows the effects of single tokens, "random" and "recency"."""
    by_prompt: Mapping[Measure, Float[Tensor, "method prompt"]]
    """NaN in prompts where no method can have it: all effects equal, or no cause known; and where a method's scores vanish."""
    curves: Float[Tensor, "method order prompt share"]
    """What the target falls by without that share of the tokens: order 0 is MoRF, 1 is LeRF."""
    shares: tuple[float, ...]
    effects: tuple[Float[Tensor, " pos"], ...]
    """By prompt: what the target falls by without each token; NaN where none was removed."""
    labels: tuple[tuple[str, ...], ...]
    """By prompt its tokens."""
    values: Float[Tensor, " prompt"]
    """The target itself."""
    target: str
    removal: str
    model: str = "model"
    unranked: Mapping[str, str] = field(default_factory=dict)
    """By method whose scores have no order in a prompt: why."""

    def mean(self, measure: Measure, method: str) -> tuple[float, float, float]:
        """The mean over prompts and its 95 % interval (percentile bootstrap over prompts).

        Raises:
            InputError: for names that are not in this result.
        """
        return _summary(self._row(measure, method))

    def compare(self, measure: Measure, method: str, against: str) -> tuple[float, float, float]:
        """How much more one method has than another: the mean of the prompts' differences with its paired interval.

        Raises:
            InputError: for names that are not in this result.
        """
        return _summary(self._row(measure, method) - self._row(measure, against))

    def to_dataframe(self, *, by_prompt: bool = False) -> pd.DataFrame:
        """One row per method and measure: value (the mean), low, high, n (prompts); measures that no prompt has are left out.

        Args:
            by_prompt: Whether each prompt has a row of its own: `prompt` and `value` in place of mean and interval.
        """
        measures = [measure for measure in MEASURES if not bool(self.by_prompt[measure].isnan().all())]
        cells = [(method, measure, self._row(measure, method)) for method in self.methods for measure in measures]
        if by_prompt:
            rows = [(*names, number, value) for *names, row in cells for number, value in enumerate(row.tolist())]
            return pd.DataFrame(rows, columns=["method", "measure", "prompt", "value"]).dropna(ignore_index=True)
        summaries = [(*names, *_summary(row), int((~row.isnan()).sum())) for *names, row in cells]
        return pd.DataFrame(summaries, columns=["method", "measure", "value", "low", "high", "n"])

    def curves_dataframe(self) -> pd.DataFrame:
        """One row per method, order ("MoRF", "LeRF") and share of removed tokens: value (the mean), low, high."""
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
            cells = ("{:6.2f} [{:5.2f}, {:5.2f}]".format(*self.mean(measure, method)) for measure in shown)
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
    """Do a method's scores say what the model does without a token? Tokens are removed, one by one and together.

    With `removal="mask"` no other position attends to the token, as if it had been padding: the remaining text may be none, the
    positions after it keep their numbers, and the attention that it had goes to the others. With `"mean"` its embedding is the
    mean of the vocabulary's, which no text has. Every removal has faults, and methods rank otherwise by another: report which
    one it was. (Do not replace by a separator token: it cuts off all text before it, so that recency wins.)

    Measures of each prompt: "correlation", Spearman's rho of the scores with what the target falls by when one token is removed;
    "MoRF" (most relevant first), what it falls by without the 10, 25 and 50 % of candidates with the largest scores, the mean of
    the three; "LeRF" (least relevant first), the same of the smallest; "area", MoRF - LeRF; "cause", 1 / rank of the token at
    `cause`, 1 where a method puts it first.

    An attribution whose shares of tokens vanish (`Attribution.vanishes`) has no order: its measures are NaN, and the printed
    table says why.

    Candidates are all tokens but the special ones, those at which the target is read and those that cannot reach it.

    Baselines beside the given methods are "leave one out" (the effects of single tokens as scores), "recency" (the last token
    first) and "random": one draw of scores per prompt, not an expectation. Its expectation is 0 for the correlation and the
    area, and (1 + 1/2 + ... + 1/n) / n for the cause among n candidates. The draw depends on the seed and the prompt's tokens
    alone, so that prompts one by one have the numbers of a list.

    Args:
        model: As in `ffb.attribute`.
        prompts: A text, texts, or token ids [pos] or [batch pos].
        target: As in `ffb.attribute`.
        results: By a method's name what it says of each prompt: `Attribution`s (tokens, with their positions and types) of this
            target, or tensors [pos] of any other method. A list of attributions goes by the name of their rules.
        removal: "mask" or "mean".
        cause: Position of the token that is known to be the cause, one for all prompts or one per prompt.
        keys: Candidates, where they are to be others, the same in all prompts.
        seed: Of the random scores and the order of equal scores of each prompt.
        progress: Whether a long call shows a bar at a terminal or in a notebook.

    Raises:
        InputError: for input, results or options that cannot be used, attributions of another target, text or model among them.
        UnsupportedModelError: for models that are not decomposed, or from which tokens cannot be removed so.
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
    """The scores of each method, one entry for each prompt of a run.

    Raises:
        InputError: if they are not of these prompts.
    """
    if not isinstance(results, Mapping):
        given = list(results) if isinstance(results, Sequence) else [results]
        rules = sorted({result.rules for result in given if isinstance(result, Attribution)})
        if len(rules) != 1:
            kinds = ", ".join(sorted({type(result).__name__ for result in given})) or type(results).__name__
            raise InputError(
                f"results holds {kinds} by rules {', '.join(map(repr, rules)) or 'of no name'}: expected Attributions by the same "
                "rules, as ffb.attribute makes them, or a mapping, by a method's name one for each prompt."
            )
        results = {rules[0]: given}
    if others := [name for name in results if not isinstance(name, str)]:
        raise InputError(f"results has the key {others[0]!r}: expected a method's name as text.")
    taken = set(BASELINES) & set(results)
    if not results or taken:
        raise InputError(f"results: {', '.join(map(repr, taken)) or 'no method'}; expected methods of other names.")
    return {name: _of_method(f"results[{name!r}]", of_method, run) for name, of_method in results.items()}


def _of_method(place: str, given: Any, run: Run) -> list[Scores]:
    several = isinstance(given, list | tuple) or (isinstance(given, Tensor | np.ndarray) and given.ndim > 1)
    by_prompt = list(given) if several else [given]
    if len(by_prompt) != len(run.sequences):
        raise InputError(f"{place} has scores of {len(by_prompt)} prompts, there are {len(run.sequences)}.")
    for number, (scores, sequence) in enumerate(zip(by_prompt, run.sequences, strict=True)):
        if not isinstance(scores, Attribution | Tensor | np.ndarray | list | tuple):
            raise InputError(
                f"{place}[{number}] is a {type(scores).__name__}: expected an Attribution of ffb.attribute, or scores [pos]."
            )
        if isinstance(scores, Attribution) and scores.labels != sequence.labels:
            raise InputError(f"{place}[{number}] is of another text: {brief(''.join(scores.labels))}.")
        tensor = _on_tokens(scores)
        if tuple(tensor.shape) != (len(sequence.tokens),) or not bool(tensor.isfinite().all()):
            held = "NaN or infinity" if not bool(tensor.isfinite().all()) else f"shape {tuple(tensor.shape)}"
            raise InputError(
                f"{place}[{number}] has {held}: expected a finite score for each of {len(sequence.tokens)} tokens."
            )
    return by_prompt


def _on_tokens(scores: Any) -> Float[Tensor, " pos"]:
    return torch.as_tensor(scores.entering if isinstance(scores, Attribution) else scores).detach().cpu().double()


class _Prompt:
    """One prompt, its target without any removal, and forward passes without some of its tokens.

    `rounding` is how far the same target of the same model may be from `value`, `noise` how far apart batches of other shapes put
    the same number.
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
                derivative = gradient_of(metric(leaf), leaf, metric.name)[0][0]
            self.read, self.quantity, self.words = partial(run_by_run, metric), metric.name, words_of(model, metric)
        size = float(derivative.double().norm(p=1) * output[0][derivative != 0].abs().max())
        self.value, self.rounding = float(self.read(output)), run.settings.rtol * size
        self.noise = _NOISE * torch.finfo(output.dtype).eps * size
        self.candidates = _candidates(run, self.sequence, derivative.any(dim=-1).cpu(), keys)

    def falls(self, removed: Sequence[frozenset[int]]) -> Float[Tensor, " run"]:
        """What the target falls by without each of these sets of candidates, numbered from 0."""
        table = torch.zeros(len(removed), len(self.sequence.tokens), dtype=torch.bool)
        for row, numbers in enumerate(removed):
            table[row, self.candidates[sorted(numbers)]] = True
        return self.value - torch.cat([self.read(output).cpu().double() for output in self.removals.outputs(table)])

    def scores(self, place: str, scores: Scores) -> Float[Tensor, " candidate"]:
        """Those of the candidates; NaN of an attribution that is nothing but rounding.

        Raises:
            InputError: if they attribute another target.
        """
        numbers = _on_tokens(scores)[self.candidates]
        if not isinstance(scores, Attribution):
            return numbers
        same = scores.quantity != self.quantity or scores.target == self.words
        if not (same and abs(scores.value - self.value) <= self.rounding):  # NaN is refused too
            raise InputError(
                f"{place} attributes {scores.target} = {scores.value:.6g} of {scores.model}; what tokens are removed from is "
                f"{self.words} = {self.value:.6g} of {self.run.model.name}. Expected attributions of the same target, of the same "
                "model without hooks; those of another one can be given as numbers, result.tokens."
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
                f"keys={brief(keys)}: position {int((asked & ~free).nonzero()[0])} is one at which the target is read, or cannot reach it; "
                "expected others."
            )
        free = asked
    if int(free.sum()) < 2:
        raise InputError(
            f"the prompt {brief(''.join(sequence.labels))} has {int(free.sum())} tokens to remove beside special ones and those at "
            f"which the target is read, {int(read_at.sum())} of its {length}; expected two at least, whose order can be right or wrong."
        )
    return free.nonzero()[:, 0]


def _measured(
    prompt: _Prompt, own: dict[str, Float[Tensor, " candidate"]], cause: int | None, seed: int
) -> tuple[dict[str, Tensor], dict[Measure, Tensor], Tensor, Tensor, float]:
    """Of one prompt: scores by method, measures [method], curves [method order share], effects at positions, the target."""
    candidates = prompt.candidates.tolist()
    if cause is not None and cause not in candidates:
        raise InputError(f"cause={cause}: expected one of the candidates, positions {brief(candidates)}.")
    n = len(candidates)
    # Seeded by a digest, which is that of any process: numbers of one prompt, whichever prompts are measured with it.
    digest = blake2b(repr((seed, prompt.sequence.tokens.tolist())).encode(), digest_size=7).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest, "little"))
    effects = prompt.falls([frozenset({number}) for number in range(n)])
    random, shuffle = torch.rand(n, generator=generator), torch.randperm(n, generator=generator)
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
    """What the target falls by without the tokens of the largest, and of the smallest scores; each set of tokens is run once."""
    sets = [
        # Equal scores in a random order: their place in the text says nothing.
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
