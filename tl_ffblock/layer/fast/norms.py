"""A record -> the norms of all its parts, without ever holding the parts: the fast road.

1. The layer's program is followed once (`_plan`): linear scopes are mixes of the heads (mixes.py), and
   from the feed-forward on there are rows, one a pair (packing.py).
2. All pairs are gone through in groups of source tokens: Gram norms for the linear scopes, packed rows
   for the others.
3. The bias part, the remainder and the sum over source tokens go through `decomposition.walk` as three
   vectors a query. The completeness error holds the sum of the packed rows against the model's tensor.

`norms_of_vectors` does the same by making every vector.
"""

from dataclasses import dataclass, replace

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.fast.buffers import Buffers
from tl_ffblock.layer.fast.head_sums import HeadSum, ReachablePairs, gram_norms
from tl_ffblock.layer.fast.pair_rows import PairRows
from tl_ffblock.layer.fast.products import HeadProducts
from tl_ffblock.layer.parts import Parts, attention_bias, token_values
from tl_ffblock.layer.records import LayerRecord, Norm
from tl_ffblock.layer.scopes import INPUT, PROGRAMS, Add, Attend, Feed, Normalise
from tl_ffblock.layer.settings import Settings
from tl_ffblock.layer.vectors import LayerWalk, decompose_record, walk


@dataclass(frozen=True)
class LayerNorms:
    """The norms of one layer of one sequence, by scope."""

    values: dict[str, Float[Tensor, "query key"]]
    bias: dict[str, Float[Tensor, " query"]]
    remainder: dict[str, Float[Tensor, " query"]]
    completeness: dict[str, Float[Tensor, " query"]]


def contribution_norms(
    record: LayerRecord,
    settings: Settings,
    scopes: tuple[str, ...],
    *,
    buffers: Buffers | None = None,
    products: HeadProducts | None = None,
) -> LayerNorms:
    """Norms of all parts of one sequence's record, for the asked scopes.

    Args:
        record: One layer of one sequence; its queries ascend.
        settings: How the decomposition is made.
        scopes: Scopes of the block's order.
        buffers: Memory to work in. Layers that follow one another go faster with the same for all; None takes new memory.
        products: Products of the weights that were made before, kept by the caller with the model; None makes them anew.
    """
    if settings.method == "captum":
        return norms_of_vectors(record, settings, scopes)
    values, packed_sum = _LayerOfPairs(record, settings, scopes, buffers or Buffers(), products or HeadProducts()).run()
    sums: dict[str, Parts] = {}
    for scope, part in walk(_Aggregate(record, settings, packed_sum)):
        sums[scope] = part
        if all(asked in sums for asked in scopes):
            break
    return LayerNorms(
        values=values,
        bias={scope: sums[scope].bias.norm(dim=-1) for scope in scopes},
        remainder={scope: _remainder_norm(sums[scope]) for scope in scopes},
        completeness={s: sums[s].error(record.whole[s]) for s in scopes},
    )


def norms_of_vectors(record: LayerRecord, settings: Settings, scopes: tuple[str, ...], rows: int = 8) -> LayerNorms:
    """The same by making every vector, `rows` queries at a time: captum's road, and the check of the fast one."""
    chunks = []
    for start in range(0, len(record.queries), rows):
        part = decompose_record(record.rows(slice(start, start + rows)), settings)
        tables = (
            {s: part.parts(s).norm(dim=-1) for s in scopes},
            {s: part.bias(s).norm(dim=-1) for s in scopes},
            {s: part.remainder(s).norm(dim=-1) for s in scopes},
            {s: part.completeness(s) for s in scopes},
        )
        chunks.append(tables)
    return LayerNorms(*({s: torch.cat([t[s] for t in tables]) for s in scopes} for tables in zip(*chunks, strict=True)))


def _remainder_norm(parts: Parts) -> Float[Tensor, " query"]:
    return parts.bias.new_zeros(len(parts.bias)) if parts.remainder is None else parts.remainder.norm(dim=-1)


class _Aggregate(LayerWalk):
    """A layer's run with all source tokens as one player: what their parts sum to."""

    def __init__(self, record: LayerRecord, settings: Settings, packed_sum: Tensor | None) -> None:
        super().__init__(record, settings)
        self.packed_sum = packed_sum

    def attend(self) -> Parts:
        value, constant = token_values(self.record, self.settings.value_bias)
        z = einsum(self.record.pattern, value, "head query key, key head e -> query head e")
        tokens = einsum(z, self.block.attention.w_o, "query head e, head e d -> query d")
        return Parts(tokens[:, None], attention_bias(self.record, constant))

    def input(self) -> Parts:
        x = self.record.tensor(INPUT)
        return Parts(x[:, None], torch.zeros_like(x))

    def feed_forward(self, parts: Parts, x: Tensor) -> Parts:
        """The sum of the rows that were really computed stands for the tokens; only an edit needs theirs before."""
        if self.packed_sum is None:
            return super().feed_forward(parts, x)
        players = parts if self.record.edited else replace(parts, tokens=parts.tokens[:, :0])
        return replace(super().feed_forward(players, x), tokens=self.packed_sum[:, None])


class _LayerOfPairs:
    """The norms of all pairs of one layer."""

    def __init__(
        self,
        record: LayerRecord,
        settings: Settings,
        scopes: tuple[str, ...],
        buffers: Buffers,
        products: HeadProducts,
    ) -> None:
        self.record = record
        self.settings = settings
        self.scopes = scopes
        self.pairs = ReachablePairs(record, token_values(record, settings.value_bias)[0], buffers, products)
        self.mixes: dict[str, HeadSum] = {}
        self.packed: PairRows | None = None
        self._plan()

    def run(self) -> tuple[dict[str, Float[Tensor, "query key"]], Float[Tensor, "query d"] | None]:
        """The norms by scope, and the sum over source tokens of the feed-forward's rows, where there were any."""
        asked = [self.mixes[scope] for scope in self.scopes if scope in self.mixes]
        gram = {mix.norms: torch.zeros_like(self.record.pattern[0]) for mix in asked if mix.scale is not None}
        width = max(self.record.resid_pre.shape[1], 0 if self.packed is None else self.packed.width)
        for group in self.pairs.groups(width):
            for norms, table in gram.items():
                table[group.first_row :, group.keys] = gram_norms(group.basis(norms), group.pattern).T
            if self.packed is not None:
                self.packed.add(group)
        if self.packed is not None:
            self.packed.flush()
        values = {scope: self._norms(scope, gram) for scope in self.scopes}
        return values, None if self.packed is None else self.packed.sum

    def _norms(self, scope: str, gram: dict[tuple[Norm, ...], Tensor]) -> Float[Tensor, "query key"]:
        if scope not in self.mixes:
            assert self.packed is not None
            return self.packed.norms[scope]
        mix = self.mixes[scope]
        own = mix.own
        if mix.scale is None:
            norms = torch.zeros_like(self.record.pattern[0])
        else:
            norms = gram[mix.norms] * mix.scale
            heads = mix.scale * self.pairs.own_values(mix.norms)
            own = heads if own is None else own + heads
        assert own is not None
        norms[range(self.pairs.n_queries), self.pairs.positions] = own.norm(dim=-1)
        return norms

    def _plan(self) -> None:
        """Follow the layer's program up to the last scope asked for."""
        program = PROGRAMS[self.record.block.order]
        last = max(number for number, step in enumerate(program) if step.scope in self.scopes)
        for step in program[: last + 1]:
            if step.at_keys:
                continue
            wanted = step.scope in self.scopes
            match step.operation:
                case Attend():
                    self.mixes[step.scope] = HeadSum(scale=torch.ones_like(self.record.tensor(INPUT)[:, :1]))
                case Add(left, right):
                    self._add(step.scope, self._mix(left), self._mix(right), wanted=wanted)
                case Normalise(of, name):
                    norm, mix = self.record.block.norm(name), self._mix(of)
                    scale = norm.scale(self.record.tensor(of))
                    if mix is not None:
                        self.mixes[step.scope] = mix.normalised(norm, scale)
                    else:
                        self._rows().step(step.scope, (norm, scale), wanted=wanted)
                case Feed(of):
                    self._feed(step.scope, self.mixes[of], self.record.tensor(of), wanted=wanted)

    def _mix(self, operand: str) -> HeadSum | None:
        """A linear scope or the layer's input; None from the feed-forward on."""
        return HeadSum(own=self.record.tensor(INPUT)) if operand == INPUT else self.mixes.get(operand)

    def _rows(self) -> PairRows:
        assert self.packed is not None
        return self.packed

    def _add(self, scope: str, left: HeadSum | None, right: HeadSum | None, *, wanted: bool) -> None:
        assert right is not None
        if left is None:
            self._rows().step(scope, right, wanted=wanted)
        else:
            self.mixes[scope] = left + right

    def _feed(self, scope: str, mix: HeadSum, x: Float[Tensor, "query d"], *, wanted: bool) -> None:
        if mix.scale is not None:
            self.packed = PairRows(self.pairs, mix, x, self.settings)
            self.packed.step(scope, None, wanted=wanted)
            return
        # A parallel block's feed-forward reads its own position only.
        assert mix.own is not None
        run = LayerWalk(replace(self.record, edited=False), self.settings)
        alone = run.feed_forward(Parts(mix.own[:, None], torch.zeros_like(mix.own)), x)
        self.mixes[scope] = HeadSum(own=alone.tokens[:, 0])
