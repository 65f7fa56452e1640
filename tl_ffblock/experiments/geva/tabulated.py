"""What shards keep of triggers, and the tables that are made of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from tl_ffblock.corpus.statistics.arrays import ShardArrays
from tl_ffblock.corpus.statistics.moments import Moments
from tl_ffblock.experiments.geva.measured import READINGS, RULES, SIGNS
from tl_ffblock.memories.triggers import BestPositions
from tl_ffblock.memories.values import OUTCOMES, agreeing, chance_agreement
from tl_ffblock.results.figures import Spread
from tl_ffblock.results.tokens import visible

RANDOM = "random"
CONTEXT = 12
"""Tokens of a prefix that are kept, the trigger token last."""
ENDINGS = (1, 2, 3)
ALIKE = 3
"""Triggers that have to end alike to be a pattern, as in the paper's annotation."""
CONFIDENT = 100
"""Values with the largest top probability, as in the paper."""

Names: TypeAlias = Int[np.ndarray, "cell 3"]
Values: TypeAlias = tuple[Int[np.ndarray, "reading cell"], Float[np.ndarray, "reading cell"]]


@dataclass(frozen=True)
class TriggerShard:
    """The best positions of some sequences, with the tokens around them."""

    best: BestPositions
    context: Int[np.ndarray, "cell rank token"]
    """The last tokens of the prefix; -1 before its start."""
    following: Int[np.ndarray, "cell rank"]
    """The token behind it; -1 for none."""

    @classmethod
    def of(cls, best: BestPositions, ids: Mapping[int, Int[np.ndarray, " token"]]) -> "TriggerShard":
        """Look up the tokens of best positions."""
        context = np.full((*best.sequence.shape, CONTEXT), -1, dtype=np.int32)
        following = np.full_like(best.sequence, -1)
        for cell in zip(*np.nonzero(best.sequence >= 0), strict=True):
            tokens, position = ids[int(best.sequence[cell])], int(best.position[cell])
            prefix = tokens[max(0, position + 1 - CONTEXT) : position + 1]
            context[cell][CONTEXT - len(prefix) :] = prefix
            following[cell] = tokens[position + 1] if position + 1 < len(tokens) else -1
        return cls(best, context, following)

    def merged(self, more: "TriggerShard") -> "TriggerShard":
        """The best of both, each with its tokens."""
        best = BestPositions(*(getattr(self.best, name).copy() for name in ("magnitude", "sequence", "position")))
        best.take(more.best)
        # A sequence is in one of the two: what is kept of the newcomers are the ranks they come from.
        ours = (best.sequence[..., None] == self.best.sequence[:, None]) & (best.sequence >= 0)[..., None]
        theirs = (best.sequence[..., None] == more.best.sequence[:, None]) & (best.sequence >= 0)[..., None]
        own, index, other = ours.any(-1), ours.argmax(-1), theirs.argmax(-1)

        def chosen(mine: np.ndarray, new: np.ndarray) -> np.ndarray:
            shape = own.shape + (1,) * (mine.ndim - 2)
            first = np.take_along_axis(mine, index.reshape(shape), axis=1)
            second = np.take_along_axis(new, other.reshape(shape), axis=1)
            kept = np.where(own.reshape(shape), first, second)
            return np.where((best.sequence >= 0).reshape(shape), kept, -1)

        return TriggerShard(best, chosen(self.context, more.context), chosen(self.following, more.following))

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """Name the arrays as a shard keeps them."""
        best = {field: getattr(self.best, field) for field in ("magnitude", "sequence", "position")}
        arrays = {**best, "context": self.context, "following": self.following}
        return {f"{name}.{field}": array for field, array in arrays.items()}

    @classmethod
    def read(cls, shard: ShardArrays, name: str) -> "TriggerShard":
        """Read what `arrays` named so."""
        best = BestPositions(*(shard[f"{name}.{field}"] for field in ("magnitude", "sequence", "position")))
        return cls(best, shard[f"{name}.context"], shard[f"{name}.following"])


def trigger_table(names: Names, best: Mapping[str, TriggerShard], label: Callable[[int], str]) -> pd.DataFrame:
    """A row a trigger: where it is, what it ends in, what follows."""
    rows = []
    for sign, factor in zip(SIGNS, (1, -1), strict=True):
        found = best[sign]
        for cell, rank in zip(*np.nonzero(found.best.sequence >= 0), strict=True):
            layer, expert, neuron = names[cell].tolist()
            context = [label(int(token)) for token in found.context[cell, rank] if token >= 0]
            following = int(found.following[cell, rank])
            rows.append(
                dict(
                    layer=layer,
                    expert=expert,
                    neuron=neuron,
                    sign=sign,
                    rank=rank + 1,
                    coefficient=factor * float(found.best.magnitude[cell, rank]),
                    sequence=int(found.best.sequence[cell, rank]),
                    position=int(found.best.position[cell, rank]),
                    prefix=" ".join(visible(token) for token in context),
                    following="" if following < 0 else visible(label(following)),
                )
            )
    columns = [
        "layer",
        "expert",
        "neuron",
        "sign",
        "rank",
        "coefficient",
        "sequence",
        "position",
        "prefix",
        "following",
    ]
    return pd.DataFrame(rows, columns=columns)


def ngram_table(names: Names, best: Mapping[str, TriggerShard]) -> pd.DataFrame:
    """By layer and length of ending: memories whose triggers end alike; layer -1 are the random ones."""
    rows = []
    layers = np.unique(names[:, 0]).tolist()
    groups: list[tuple[str, int, Bool[np.ndarray, " cell"]]] = [
        (sign, layer, names[:, 0] == layer) for sign in SIGNS for layer in layers
    ]
    groups.append((RANDOM, -1, np.ones(len(best[RANDOM].following), dtype=bool)))
    for sign, layer, cells in groups:
        found = best[sign]
        enough = cells & ((found.best.sequence >= 0).sum(axis=1) >= ALIKE)
        for n in ENDINGS:
            counts = [_commonest(found.context[cell], n) for cell in np.flatnonzero(enough)]
            alike, of = (np.array(column, dtype=float) for column in zip(*counts, strict=True)) if counts else ([], [])
            rows.append(
                dict(
                    sign=sign,
                    layer=layer,
                    n=n,
                    memories=len(counts),
                    shared=float(np.mean(np.asarray(alike) >= ALIKE)) if counts else np.nan,
                    largest=float(np.mean(np.asarray(alike) / np.asarray(of))) if counts else np.nan,
                )
            )
    return pd.DataFrame(rows)


def _commonest(context: Int[np.ndarray, "rank token"], n: int) -> tuple[int, int]:
    """How many of a memory's triggers have its commonest ending of n tokens, and how many triggers there are."""
    kept = context[context[:, -1] >= 0]
    endings = kept[(kept[:, -n:] >= 0).all(axis=1)][:, -n:]
    counts = np.unique(endings, axis=0, return_counts=True)[1] if len(endings) else np.zeros(1, dtype=int)
    return int(counts.max()), len(kept)


def agreement_table(names: Names, best: Mapping[str, TriggerShard], values: Mapping[str, Values]) -> pd.DataFrame:
    """By sign, reading and layer: how often the token behind a trigger is the value's top token."""
    rows = []
    for sign in SIGNS:
        for index, reading in enumerate(READINGS):
            for layer in np.unique(names[:, 0]).tolist():
                cells = names[:, 0] == layer
                following, tops = best[sign].following[cells], values[sign][0][index, cells]
                followed, agrees = agreeing(following, tops)
                rows.append(
                    dict(
                        sign=sign,
                        reading=reading,
                        layer=layer,
                        memories=int(followed[:, 0].sum()),
                        first=_share(agrees[:, 0].sum(), followed[:, 0].sum()),
                        all=_share(agrees.sum(), followed.sum()),
                        any=_share(agrees.any(axis=1).sum(), followed.any(axis=1).sum()),
                        chance=chance_agreement(following[:, 0], tops),
                        probability=float(values[sign][1][index, cells].mean()),
                    )
                )
    return pd.DataFrame(rows)


def confident_table(names: Names, best: Mapping[str, TriggerShard], values: Mapping[str, Values]) -> pd.DataFrame:
    """The values with the largest top probability: where they are, and whether a trigger agrees."""
    rows = []
    upper = names[:, 0] >= (names[:, 0].max() + 1) * 2 / 3
    for sign in SIGNS:
        for index, reading in enumerate(READINGS):
            tops, probability = values[sign][0][index], values[sign][1][index]
            chosen = np.argsort(-probability, kind="stable")[:CONFIDENT]
            _, agrees = agreeing(best[sign].following, tops)
            rows.append(
                dict(
                    sign=sign,
                    reading=reading,
                    values=len(chosen),
                    least_probability=float(probability[chosen].min()),
                    upper_third=float(upper[chosen].mean()),
                    agreeing_trigger=float(agrees[chosen].any(axis=1).mean()),
                    agreeing_trigger_of_all=float(agrees.any(axis=1).mean()),
                )
            )
    return pd.DataFrame(rows)


def composition_table(moments: Moments) -> pd.DataFrame:
    """By layer and rule: share of active memories; share of positions at which none of them says the layer's token."""
    rows = []
    for layer, by_rule in enumerate(moments.value):
        for index, rule in enumerate(RULES):
            active, feed_forward, output = by_rule[index].tolist()
            positions = int(moments.count[layer, index, 0])
            rows.append(
                dict(
                    layer=layer,
                    rule=rule,
                    positions=positions,
                    active=active,
                    zero_agreement=feed_forward,
                    zero_agreement_with_sum=output,
                )
            )
    return pd.DataFrame(rows)


def refinement_table(moments: Moments) -> pd.DataFrame:
    """By layer and reading: the residual's top token against the model's, and whose top token the output has."""
    rows = []
    for layer, by_reading in enumerate(moments.value):
        for index, reading in enumerate(READINGS):
            final, probability, *shares = by_reading[index].tolist()
            measured = dict(positions=int(moments.count[layer, index, 0]), final=final, probability=probability)
            rows.append(dict(layer=layer, reading=reading) | measured | dict(zip(OUTCOMES, shares, strict=True)))
    return pd.DataFrame(rows)


def ngram_lines(ngrams: pd.DataFrame) -> dict[str, Spread]:
    """Lines of the figure: by layer, for each length of ending."""
    positive = ngrams.query("sign == 'positive'")
    return {
        f"{n} token{'s' * (n > 1)}": Spread.of_shares(positive.query("n == @n"), "shared", count="memories")
        for n in ENDINGS
    }


def agreement_lines(agreement: pd.DataFrame) -> dict[str, Spread | np.ndarray]:
    """Lines of the figure: both readings, and chance, which is computed and not counted."""
    positive = agreement.query("sign == 'positive'")
    lines: dict[str, Spread | np.ndarray] = {
        reading: Spread.of_shares(positive.query("reading == @reading"), "first", count="memories")
        for reading in READINGS
    }
    return lines | {"chance": positive.query("reading == 'final_norm'")["chance"].to_numpy()}


def refinement_lines(refinement: pd.DataFrame) -> dict[str, Spread]:
    """Lines of the figure: outcomes, and the residual's top token being the model's."""
    table = refinement.query("reading == 'final_norm'")
    names = {"residual is final": "final"} | {name: name for name in OUTCOMES}
    return {label: Spread.of_shares(table, name, count="positions") for label, name in names.items()}


def _share(part: np.integer, whole: np.integer) -> float:
    return float(part / whole) if whole else float("nan")
