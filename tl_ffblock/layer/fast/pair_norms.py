"""A layer's program followed for all pairs: sums over heads up to the feed-forward, rows from there on."""

from dataclasses import replace

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.activations import PathCoefficients
from tl_ffblock.layer.fast.bias_factors import BiasFactors
from tl_ffblock.layer.fast.buffers import Buffers
from tl_ffblock.layer.fast.experts import FeedForwardInput
from tl_ffblock.layer.fast.head_sums import HeadSum, ReachablePairs
from tl_ffblock.layer.fast.pair_rows import PairRows
from tl_ffblock.layer.fast.part_norms import as_one_head, part_norms
from tl_ffblock.layer.fast.products import Products
from tl_ffblock.layer.fast.stacks import Stack
from tl_ffblock.layer.parts import Parts, token_values
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import INPUT, PROGRAMS, Add, Attend, Feed, Normalise, NormName
from tl_ffblock.layer.settings import Settings
from tl_ffblock.layer.vectors import LayerWalk


def pairs_of(stack: Stack, settings: Settings, buffers: Buffers) -> ReachablePairs:
    """The pairs of a stack; where one row sees every source token its heads count as one."""
    record = stack.record
    values = token_values(record, settings.value_bias)[0]
    if len(record.queries) == stack.n_sequences:
        record, values = as_one_head(record, values)
    return ReachablePairs(record, values, buffers, stack.n_sequences)


class NormsOfPairs:
    """Follows a layer's program for all pairs: sums over heads up to the feed-forward, rows from there on."""

    def __init__(
        self,
        record: LayerRecord,
        pairs: ReachablePairs,
        settings: Settings,
        scopes: tuple[str, ...],
        products: Products,
        paths: dict[int, PathCoefficients] | None = None,
    ) -> None:
        self.pairs = pairs
        self.record = record
        self.settings = settings
        self.scopes = scopes
        self.products = products
        self.paths = {} if paths is None else paths
        """Coefficients of Integrated Gradients by number of the expert, as far as they are known."""
        self.head_sums: dict[str, HeadSum] = {}
        self.pair_rows: PairRows | None = None
        self._plan()

    def measure(self) -> dict[str, Float[Tensor, "query key"]]:
        """The norms by scope."""
        asked = [self.head_sums[scope] for scope in self.scopes if scope in self.head_sums]
        # Scopes whose heads went through the same norms differ in scale and residual only: one Gram table for all.
        gram = {heads.norms: torch.zeros_like(self.record.pattern[0]) for heads in asked if heads.scale is not None}
        width = max(self.record.resid_pre.shape[1], 0 if self.pair_rows is None else self.pair_rows.width)
        for group in self.pairs.groups(width):
            for norms, table in gram.items():
                by_sequence = table.view(self.pairs.n_sequences, -1, self.pairs.n_keys)
                by_sequence[:, group.first_row :, group.keys] = rearrange(
                    part_norms(group.basis(norms), group.pattern),
                    "(key sequence) row -> sequence row key",
                    sequence=self.pairs.n_sequences,
                )
            if self.pair_rows is not None:
                self.pair_rows.queue(group)
        values = {
            scope: self._of_head_sum(self.head_sums[scope], gram) for scope in self.scopes if scope in self.head_sums
        }
        if self.pair_rows is None:
            return values
        self.pair_rows.flush()
        values |= self.pair_rows.norms
        return {scope: values[scope] for scope in self.scopes}

    def _of_head_sum(self, head_sum: HeadSum, gram: dict[tuple[NormName, ...], Tensor]) -> Float[Tensor, "query key"]:
        """`scale_i` times the heads' Gram norms; with a residual the own token's vector is made, d_model numbers a query."""
        vector = head_sum.residual
        if head_sum.scale is None:
            norms = torch.zeros_like(self.record.pattern[0])
        else:
            norms = gram[head_sum.norms] * head_sum.scale
            heads = head_sum.scale * self.pairs.self_values(head_sum.norms)
            vector = heads if vector is None else vector + heads
        if vector is None:
            return norms
        norms[range(len(norms)), self.pairs.positions * self.pairs.n_sequences] = vector.norm(dim=-1)
        return norms

    def _plan(self) -> None:
        """Follow the layer's program up to the last scope asked for.

        From the feed-forward on a program is one chain, so what a step there reads is what the rows are by then.
        """
        program = PROGRAMS[self.record.block.order]
        last = max(number for number, step in enumerate(program) if step.scope in self.scopes)
        for step in program[: last + 1]:
            if step.at_keys:
                continue  # it is in the values already
            match step.operation:
                case Attend():
                    self.head_sums[step.scope] = HeadSum(
                        scale=torch.ones_like(self.record.tensor(INPUT)[:, :1]),
                        bias=BiasFactors.of_attention(self.record, self.settings.value_bias),
                    )
                case Add(left, right):
                    self._add(step.scope, left, right)
                case Normalise(of, name):
                    self._normalise(step.scope, of, name)
                case Feed(of):
                    self._feed(step.scope, of)
            if self.pair_rows is not None and step.scope in self.scopes and step.scope not in self.head_sums:
                self.pair_rows.take_norms(step.scope)

    def _head_sum(self, operand: str) -> HeadSum | None:
        """A linear scope or the layer's input; None from the feed-forward on, where there are rows."""
        if operand != INPUT:
            return self.head_sums.get(operand)
        x = self.record.tensor(INPUT)
        return HeadSum(residual=x if bool(x.any()) else None)  # of a layer restricted to its heads it brings nothing

    def _add(self, scope: str, left: str, right: str) -> None:
        heads, added = self._head_sum(left), self._head_sum(right)
        assert added is not None  # only the left operand of a program's additions comes after the feed-forward
        if heads is not None:
            self.head_sums[scope] = heads + added
        else:
            self._rows().add(added)

    def _normalise(self, scope: str, of: str, name: NormName) -> None:
        norm, heads = self.record.block.norm(name), self._head_sum(of)
        scale = norm.scale(self.record.tensor(of))
        if heads is not None:
            self.head_sums[scope] = heads.normalised(name, norm, scale)
        else:
            self._rows().normalise(norm, scale)

    def _feed(self, scope: str, of: str) -> None:
        head_sum, x = self.head_sums[of], self.record.tensor(of)
        if head_sum.scale is not None:
            given = FeedForwardInput(self.pairs, head_sum, x, self.paths)
            self.pair_rows = PairRows(given, self.settings, self.products)
            return
        # A parallel block's feed-forward reads its own position only: one vector a query, by the plain steps.
        if head_sum.residual is None:
            self.head_sums[scope] = HeadSum()
            return
        unedited = LayerWalk(replace(self.record, edited=False), self.settings)
        alone = unedited.feed_forward(Parts(head_sum.residual[:, None], torch.zeros_like(head_sum.residual)), x)
        self.head_sums[scope] = HeadSum(residual=alone.tokens[:, 0])

    def _rows(self) -> PairRows:
        assert self.pair_rows is not None
        return self.pair_rows
