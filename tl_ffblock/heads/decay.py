"""Distance decay: query and key dimensions whose product falls with distance (Vig 2019, the neuron view).

    score_ij = scale * sum_e q_ie k_je        ln alpha_ij = score_ij - ln sum_k exp score_ik
    slope(y) = sum_ij w_ij y_ij / sum_ij w_ij^2        w_ij = |i - j| less its mean over the keys of query i

The slope is that of least squares within rows, since a constant of a row has no effect on the softmax. It is linear in y:
slopes of all dimensions sum to that of the logarithm of attention. Two dimensions that a rotary embedding rotates together are
one group, since each alone changes with the position.
"""

# Noun: distance-decaying attention (Vig 2019)

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Unpack

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.attention import attention_scores
from tl_ffblock.bridge.inputs import ordinary_ids
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.bridge.runs import DEFAULTS, Layers, RunOptions, Texts, Tokens, kept_records, open_run
from tl_ffblock.errors import IdentityError, InputError, UnsupportedModelError
from tl_ffblock.layer.heads import AskedHeads
from tl_ffblock.layer.positions import positions
from tl_ffblock.result import Result, long_form
from tl_ffblock.results.intervals import MeanInterval, mean_interval
from tl_ffblock.results.token_maps import AttentionScores
from tl_ffblock.signatures import spelled_out, strict

LARGEST_SHOWN = 5
_PROBED = 64
"""Number of positions at which a rotation is tested."""
_TURNED = 1e-4
"""Relative change of a length above which dimensions are not rotated together: rounding is 1e-6 in float32, other pairs have 1e-1."""
_ERROR = 1e-3
"""Largest error of the sum of slopes, relative to the sum of absolute values: weights of 1e-30 have few digits."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class DistanceDecay(Result):
    """Change of the logarithm of attention per token of distance, by dimension: `values` [layer head group].

    A group is one dimension, or two that a rotary embedding rotates together. Negative slopes mean decay.
    """

    by_text: Float[Tensor, "text layer head group"]
    correlation: Float[Tensor, "layer head group"]
    """Correlation of the group's term with distance, within rows, over all texts: -1 for a linear fall."""
    whole: Float[Tensor, "text layer head"]
    """Slope of ln attention of the model's pattern; it is the sum of the groups' slopes."""
    error: float
    """Largest difference of both, relative to the sum of absolute slopes."""
    dimensions: tuple[tuple[int, ...], ...]
    """Dimensions of each group."""
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    tokens: tuple[tuple[str, ...], ...]
    """Tokens of the texts."""
    model: str = "model"
    fingerprint: str = ""
    """Fingerprint of the model's weights; empty if it is not known."""

    @property
    def values(self) -> Float[Tensor, "layer head group"]:
        """Slope of each group, mean over texts."""
        return self.by_text.mean(dim=0)

    @cached_property
    def interval(self) -> MeanInterval:
        """Mean with its 95 % interval (percentile bootstrap over texts)."""
        return mean_interval(self.by_text)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per head and group: kind ("dimension"), layer, head, dimensions ("3" or "3+35"), value, correlation, of_head.

        `of_head` is the slope of the head. For several texts there are low, high and n.
        """
        names = ["+".join(map(str, group)) for group in self.dimensions]
        frame = long_form(self.values, {"layer": self.layers, "head": self.heads, "dimensions": names})
        frame.insert(0, "kind", "dimension")
        of_heads = self.whole.mean(dim=0)[..., None].expand_as(self.correlation)
        columns = {"correlation": self.correlation, "of_head": of_heads}
        if len(self.by_text) > 1:
            columns |= {"low": self.interval.low, "high": self.interval.high, "n": self.interval.counts}
        return frame.assign(**{name: table.flatten().numpy() for name, table in columns.items()})

    def summary(self) -> tuple[str, Mapping[str, object]]:
        frame = self.to_dataframe().nsmallest(LARGEST_SHOWN, "value")
        steepest = ", ".join(f"L{row.layer}H{row.head} {row.dimensions} {row.value:+.3f}" for row in frame.itertuples())
        of = "one text" if len(self.tokens) == 1 else f"mean over {len(self.tokens)} texts"
        return f"change of ln attention per token of distance, {self.model}, {of}", {"steepest": steepest}


@spelled_out(RunOptions, DEFAULTS)
@torch.no_grad()
def distance_decay(
    model: Any,
    texts: str | Texts | Tokens,
    *,
    layers: Layers = None,
    heads: AskedHeads = True,
    special: Sequence[int] = (),
    **options: Unpack[RunOptions],
) -> DistanceDecay:
    """Slope of attention with distance, for each query and key dimension of every head (Vig 2019).

    Pairs of a token with itself are excluded. Costs one forward pass per text, and for rotary embeddings a short one to find
    the dimensions that are rotated together.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        texts: A text, a list of texts, or token ids.
        layers: Layer numbers, negative ones from the end; None means all.
        heads: Head numbers, negative ones from the end; True means all.
        special: Positions to exclude, negative ones from the end, such as those of [CLS] and [SEP], or a causal model's first
            token. Attention to them does not depend on distance.
        **options: As in `attention_scores`; with `fwd_hooks` the slopes are those of the edited model.

    Raises:
        InputError: for texts in which no query has two keys at different distances.
        UnsupportedModelError: as in `attention_scores`, and for other kinds of rotations.
        IdentityError: if slopes do not sum to that of the logarithm of attention.
    """
    known = identify(model)
    found: Any = attention_scores(known, texts, layers=layers, heads=heads, **options)
    scores: list[AttentionScores] = [found] if isinstance(found, AttentionScores) else list(found)
    groups = _groups(known, scores[0].query.shape[-1])
    sums = [_sums(one, groups, special) for one in scores]
    covariance, whole, distance, variance = (torch.stack(part) for part in zip(*sums, strict=True))
    by_text, whole = covariance / distance[..., None], whole / distance
    size = by_text.abs().sum(dim=-1).clamp(min=torch.finfo(torch.float64).tiny)
    error = float(((by_text.sum(dim=-1) - whole).abs() / size).max())
    if not error <= _ERROR:
        raise IdentityError(
            f"{known.name}: the sum of all dimensions' slopes differs from that of the logarithm of attention by {error:.1e} of "
            f"the sum of absolute values (tolerance {_ERROR:.0e}). With half precision, use float32."
        )
    lengths = (distance.sum(dim=0)[..., None] * variance.sum(dim=0)).sqrt()
    return DistanceDecay(
        by_text=by_text,
        correlation=(covariance.sum(dim=0) / lengths).nan_to_num(0.0),
        whole=whole,
        error=error,
        dimensions=groups,
        layers=scores[0].layers,
        heads=scores[0].heads,
        tokens=tuple(one.tokens for one in scores),
        model=known.name,
        fingerprint=known.fingerprint,
    )


def _sums(
    scores: AttentionScores, groups: Sequence[Sequence[int]], special: Sequence[int]
) -> tuple[
    Float[Tensor, "layer head group"],
    Float[Tensor, "layer head"],
    Float[Tensor, "layer head"],
    Float[Tensor, "layer head group"],
]:
    """Products within rows: of distance with each group's term and with ln attention; of distance, and of each term, with itself."""
    n_tokens = len(scores.tokens)
    counted = torch.ones(n_tokens, dtype=torch.bool)
    counted[list(positions(list(special), n_tokens, "special") if len(special) else ())] = False
    queries = torch.tensor(scores.queries)
    distance = (queries[:, None] - torch.arange(n_tokens)).abs().double()
    pairs = counted[queries][:, None] & counted & (distance > 0) & (scores.pattern > 0)
    within = partial(_within_rows, pairs)
    w = within(distance.expand_as(scores.pattern))
    squares = (w * w).sum(dim=(-2, -1))
    if not bool((squares > 0).all()):
        raise InputError(
            f"a text of {n_tokens} tokens, {int((~counted).sum())} of them special: expected a query with two keys at different "
            "distances, in every head."
        )
    scale = torch.tensor(scores.scale, dtype=torch.float64)[:, None, None, None]
    query, key = scale * scores.query.double(), scores.key.double().transpose(-1, -2)
    terms = [within(query[..., list(group)] @ key[..., list(group), :]) for group in groups]
    covariance, variance = (
        torch.stack([(a * b).sum(dim=(-2, -1)) for a, b in with_terms], dim=-1)
        for with_terms in ([(w, term) for term in terms], [(term, term) for term in terms])
    )
    logarithm = within(torch.where(pairs, scores.pattern.double(), 1.0).log())
    return covariance, (w * logarithm).sum(dim=(-2, -1)), squares, variance


def _within_rows(
    pairs: Bool[Tensor, "layer head query key"], values: Float[Tensor, "layer head query key"]
) -> Float[Tensor, "layer head query key"]:
    """Values minus their mean over the pairs of their row, zero elsewhere."""
    held = torch.where(pairs, values, 0.0)
    mean = held.sum(dim=-1, keepdim=True) / pairs.sum(dim=-1, keepdim=True).clamp(min=1)
    return torch.where(pairs, held - mean, 0.0)


def _groups(model: Model, width: int) -> tuple[tuple[int, ...], ...]:
    """Each dimension alone, or with the one that a rotary embedding rotates it with.

    A repeated token has the same input to the first layer at every position, so there only the rotation changes its query.

    Raises:
        UnsupportedModelError: if dimensions are not rotated in pairs.
    """
    if not model.rotates:
        return tuple((dimension,) for dimension in range(width))
    n_positions = min(_PROBED, model.longest_input or _PROBED)
    repeated = ordinary_ids(model)[:1].expand(n_positions)
    mask = torch.ones_like(repeated)  # none of them is padding
    run = open_run(model, repeated, layers=[0], extra=("query", "key"), attention_mask=mask)
    ((record,),) = (records.values() for records in kept_records(run))
    assert record.query is not None, "the run was opened with queries"
    groups = turned_together(record.query)
    if groups is None:
        raise UnsupportedModelError(
            f"{model.name} ({model.family.name}) rotates queries in unknown pairs: expected adjacent dimensions, or those half of the "
            "rotated ones apart."
        )
    return groups


def turned_together(query: Float[Tensor, "pos head d_head"]) -> tuple[tuple[int, ...], ...] | None:
    """Dimensions of a query that are rotated together: pairs whose length is the same at all positions.

    All or the first dimensions are rotated, and paired with those half of the rotated ones apart (Llama) or with adjacent ones
    (GPT-J). None means neither.
    """
    squares, width = query.double() ** 2, query.shape[-1]
    for turned in range(0, width + 1, 2):
        every = torch.arange(turned)
        for pairs in (every.view(2, -1).T, every.view(-1, 2)):
            groups = (*map(tuple, pairs.tolist()), *((dimension,) for dimension in range(turned, width)))
            lengths = torch.stack([squares[..., list(group)].sum(dim=-1) for group in groups])
            if bool(((lengths - lengths[:, :1]).abs() <= _TURNED * lengths.amax()).all()):
                return groups
    return None
