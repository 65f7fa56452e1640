"""`ffb.faithfulness`: what happens to a target when tokens are removed, and which method said so.

1. Of every prompt each candidate token is left out by itself: effects.
2. Of every method the tokens with the most, and with the least score are left out together, more and more of them: curves.
3. Beside the methods stand the effects themselves as scores, scores at random, and the last token first.

Sets of tokens that several methods choose are run once.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, SupportsIndex

import torch
from jaxtyping import Bool, Float, Int
from scipy.stats import rankdata
from torch import Tensor

from tl_ffblock.attribution.attribute import open_attribution_run
from tl_ffblock.attribution.faithfulness_result import Faithfulness, Measure
from tl_ffblock.attribution.method_scores import LEAVE_ONE_OUT, RANDOM, RECENCY, CleanTarget, Results, read_results
from tl_ffblock.attribution.tables import VANISHED
from tl_ffblock.attribution.targets import Direction, Target, answers_of, for_prompts, in_words, name_of_direction
from tl_ffblock.bridge.edited import RemovalName, Removals
from tl_ffblock.bridge.inputs import RunSequence, special_ids
from tl_ffblock.bridge.runs import Ids, Run, Texts, Tokens
from tl_ffblock.bridge.traced import with_gradients
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import Positions, layer_number, one_per_prompt, one_position, positions, whole_number
from tl_ffblock.metrics import CleanRun, Metric, as_metric, run_by_run
from tl_ffblock.progress import Progress
from tl_ffblock.results.ranks import spearman
from tl_ffblock.signatures import strict

SHARES = (0.1, 0.25, 0.5)
"""How much of a prompt the curves remove."""
_NOISE = 16
"""How many eps of the largest summand batches of other shapes may put a number apart: matrix products add in another order."""


@dataclass(frozen=True)
class _Prompt:
    """One prompt, its target and the runs without some of its tokens."""

    sequence: RunSequence
    removals: Removals
    read: Callable[[Tensor], Float[Tensor, " run"]]
    target: CleanTarget
    candidates: Int[Tensor, " candidate"]

    def falls(self, removed: Sequence[frozenset[int]]) -> Float[Tensor, " run"]:
        """What the target falls by without each of these sets of candidates, numbered from 0."""
        table = torch.zeros(len(removed), len(self.sequence.tokens), dtype=torch.bool)
        for row, numbers in enumerate(removed):
            table[row, self.candidates[sorted(numbers)]] = True
        runs = [self.read(output).cpu().double() for output in self.removals.outputs(table)]
        return self.target.value - torch.cat(runs)


@strict
def faithfulness(
    model: Any,
    prompts: str | Texts | Ids | Tokens,
    target: Target,
    results: Results,
    *,
    removal: RemovalName = "mask",
    cause: SupportsIndex | Sequence[SupportsIndex] | None = None,
    keys: Positions = None,
    seed: int = 0,
    progress: bool = True,
) -> Faithfulness:
    """Do a method's scores say what the model does without a token? Tokens are removed, one by one and together.

    With `removal="mask"` no other position attends to the token, as if it had been padding: what is left may be no text, the
    positions behind it keep their numbers, and what attention had put on it goes to the others. With `"mean"` its embedding
    is the mean of the vocabulary's, which no text has. Every removal has faults, and methods rank otherwise by another:
    report which one it was. (Replacing by a separator token is none: it cuts off all text before it, so that recency wins.)

    Measures of each prompt: "correlation", Spearman's rho of the scores with what the target falls by when one token is removed;
    "MoRF" (most relevant first), what it falls by without the 10, 25 and 50 % of candidates with the largest scores, the mean of
    the three; "LeRF" (least relevant first), the same of the smallest; "area", MoRF - LeRF; "cause", 1 / rank of the token at
    `cause`, 1 where a method puts it first.

    An attribution whose shares of tokens vanish (`Attribution.vanishes`) has no order: its measures are NaN, and the printed
    table says why.

    Candidates are all tokens but the special ones, those at which the target is read and those that cannot reach it.

    Beside the given methods are "leave one out" (the effects of single tokens as scores), "recency" (the last token first) and
    "random": one draw of scores per prompt, not an expectation. Its expectation is 0 for the correlation and the area, and
    (1 + 1/2 + ... + 1/n) / n for the cause among n candidates. The draw depends on the seed and the prompt's tokens alone, so
    that prompts one by one have the numbers of a list.

    Args:
        model: As in `ffb.attribute`.
        prompts: A text, texts, or token ids [pos] or [batch pos].
        target: As in `ffb.attribute`.
        results: By a method's name what it says of each prompt: `Attribution`s (tokens, with their positions and types) of this
            target, or tensors [pos] of any other method. A list of attributions goes by the name of their rules.
        removal: "mask" or "mean".
        cause: Position of the token that is known to be the cause, one for all prompts or one a prompt.
        keys: Candidates, where they are to be others, the same in all prompts.
        seed: Of the random scores and the order of equal scores of each prompt.
        progress: Whether a long call shows a bar at a terminal or in a notebook.

    Raises:
        InputError: for input, results or options that cannot be used, attributions of another target, text or model among them.
        UnsupportedModelError: for models that are not decomposed, or from which tokens cannot be removed so.
    """
    whole_number(seed, "seed", at_least=0)
    run = open_attribution_run(model, prompts)
    target = for_prompts(target, len(run.sequences))
    methods = read_results(results, run)
    causes = None if cause is None else one_per_prompt(cause, [len(s.tokens) for s in run.sequences], "cause")
    measured = []
    with (
        Progress(run.model.name, len(run.sequences), "prompts", shown=progress) as bar,
        torch.no_grad(),
    ):
        for number in range(len(run.sequences)):
            prompt = _prompt(run, number, target, removal, keys)
            own = {of.name: of.of_prompt(number, prompt.target)[prompt.candidates] for of in methods}
            measured.append(_Measured.of(prompt, own, None if causes is None else causes[number], seed))
            bar.step()
    return _gathered(run, measured, target, removal)


@dataclass(frozen=True)
class _Measured:
    """What one prompt says."""

    prompt: _Prompt
    effects: Float[Tensor, " candidate"]
    scores: dict[str, Float[Tensor, " candidate"]]
    curves: Float[Tensor, "method order share"]
    cause: int | None
    """The candidate that is known to be the cause."""

    @classmethod
    def of(
        cls, prompt: _Prompt, own: dict[str, Float[Tensor, " candidate"]], cause: int | None, seed: int
    ) -> "_Measured":
        n, generator = len(prompt.candidates), _generator_of(prompt.sequence.tokens, seed)
        effects = prompt.falls([frozenset({number}) for number in range(n)])
        random, shuffle = torch.rand(n, generator=generator), torch.randperm(n, generator=generator)
        scores = {**own, LEAVE_ONE_OUT: effects, RANDOM: random, RECENCY: torch.arange(n, dtype=torch.float64)}
        sets = [
            frozenset(order[: max(1, math.ceil(share * n))])
            for of_method in scores.values()
            if not bool(of_method.isnan().any())
            for order in (_order(-of_method, shuffle), _order(of_method, shuffle))
            for share in SHARES
        ]
        distinct = sorted(set(sets), key=sorted)
        by_set = dict(zip(distinct, prompt.falls(distinct).tolist(), strict=True))
        curves = torch.full((len(scores), 2, len(SHARES)), math.nan, dtype=torch.float64)
        curves[_ranked(scores)] = torch.tensor([by_set[chosen] for chosen in sets]).double().reshape(-1, 2, len(SHARES))
        candidates = prompt.candidates.tolist()
        if cause is not None and cause not in candidates:
            raise InputError(f"cause={cause}: expected one of the candidates, positions {brief(candidates)}.")
        known = None if cause is None else candidates.index(cause)
        return cls(prompt, effects, scores, curves, known)

    def measures(self) -> dict[Measure, Float[Tensor, " method"]]:
        """Every measure of every method; NaN of a method whose scores have no order."""
        apart, areas = float(self.effects.max() - self.effects.min()), self.curves.mean(dim=-1)
        moved = apart > self.prompt.target.noise
        correlations = [spearman(scores, self.effects) for scores in self.scores.values()]
        ranks = [math.nan if self.cause is None else 1 / rankdata(-s.numpy())[self.cause] for s in self.scores.values()]
        found: dict[Measure, Tensor] = {
            "correlation": torch.tensor(correlations).nan_to_num(0.0) if moved else torch.full((len(ranks),), math.nan),
            "MoRF": areas[:, 0],
            "LeRF": areas[:, 1],
            "area": areas[:, 0] - areas[:, 1],
            "cause": torch.tensor(ranks, dtype=torch.float64),
        }
        return {measure: of.where(_ranked(self.scores), math.nan) for measure, of in found.items()}


def _ranked(scores: dict[str, Float[Tensor, " candidate"]]) -> Bool[Tensor, " method"]:
    """Which methods say something of the tokens."""
    return torch.tensor([not bool(of_method.isnan().any()) for of_method in scores.values()])


def _generator_of(tokens: Int[Tensor, " pos"], seed: int) -> torch.Generator:
    """Random numbers of one prompt, whichever prompts are measured with it: seeded by a digest, which is that of any process."""
    digest = blake2b(repr((seed, tokens.tolist())).encode(), digest_size=7).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little"))


def _order(scores: Float[Tensor, " candidate"], shuffle: Int[Tensor, " candidate"]) -> list[int]:
    """Candidates from the lowest score, equal ones in a random order: their place in the text says nothing."""
    return shuffle[scores[shuffle].argsort(stable=True)].tolist()


def _prompt(run: Run, number: int, target: Target, removal: RemovalName, keys: Positions) -> _Prompt:
    sequence, model = run.sequences[number], run.model
    length = len(sequence.tokens)
    read: Callable[[Tensor], Float[Tensor, " run"]]
    if isinstance(target, Direction):
        layer = layer_number(target.layer, model.n_layers + 1, f"in {model.name}")
        removals = Removals(model, sequence.tokens, removal, layer)
    else:
        model.refuse_untrained_head()
        removals = Removals(model, sequence.tokens, removal, None)
    (output,) = removals.outputs(torch.zeros(1, length, dtype=torch.bool))
    if isinstance(target, Direction):
        at, vector = one_position(target.at, length, "at"), target.vector.to(output)
        read, derivative = lambda stream: stream[:, at] @ vector, torch.zeros_like(output[0])
        derivative[at] = vector
        quantity, answers = name_of_direction(layer, model.n_layers), ""
    else:
        metric = as_metric(target, "target").bound_to(model).of_prompt(CleanRun(number, sequence.tokens, output[0]))
        read, derivative = partial(run_by_run, metric), _derivative(metric, output)
        quantity, answers = metric.name, answers_of(model, metric)
    size = float(derivative.double().norm(p=1) * output[0][derivative != 0].abs().max())
    words, value = in_words(quantity, answers), float(read(output))
    noise = _NOISE * torch.finfo(output.dtype).eps * size
    clean = CleanTarget(quantity, words, value, run.settings.rtol * size, noise, model.name)
    read_at = derivative.any(dim=-1).cpu()
    return _Prompt(sequence, removals, read, clean, _candidates(run, sequence, read_at, keys))


def _derivative(metric: Metric, logits: Float[Tensor, "1 pos d_vocab"]) -> Float[Tensor, "pos d_vocab"]:
    """A metric's derivative, which is zero where it does not read."""
    with with_gradients():
        leaf = logits.detach().clone().requires_grad_()
        value = metric(leaf).sum()
        gradient = torch.autograd.grad(value, leaf, allow_unused=True)[0] if value.requires_grad else None
    if gradient is None or not bool(gradient.any()):
        raise InputError(
            f"target {metric.name}: its number has no derivative by the logits, or one of zero, so nothing attributes it."
        )
    return gradient[0]


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


def _gathered(run: Run, measured: Sequence[_Measured], target: Target, removal: RemovalName) -> Faithfulness:
    by_prompt = [of_prompt.measures() for of_prompt in measured]
    effects = []
    for of_prompt in measured:
        places = of_prompt.prompt.candidates
        everywhere = torch.full((len(of_prompt.prompt.sequence.tokens),), math.nan, dtype=torch.float64)
        effects.append(everywhere.index_copy(0, places, of_prompt.effects))
    return Faithfulness(
        methods=tuple(measured[0].scores),
        by_prompt={measure: torch.stack([row[measure] for row in by_prompt], dim=1) for measure in by_prompt[0]},
        curves=torch.stack([of_prompt.curves for of_prompt in measured], dim=2),
        shares=SHARES,
        effects=tuple(effects),
        labels=tuple(sequence.labels for sequence in run.sequences),
        values=torch.tensor([of_prompt.prompt.target.value for of_prompt in measured], dtype=torch.float64),
        target="direction" if isinstance(target, Direction) else as_metric(target, "target").name,
        removal=removal,
        model=run.model.name,
        unranked={name: VANISHED for name in measured[0].scores if any(m.scores[name].isnan().any() for m in measured)},
    )
