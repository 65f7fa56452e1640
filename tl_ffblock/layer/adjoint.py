"""A layer walked backward: derivatives by its tensors, and what each contribution carries to a target.

With pattern, norm scales, router and path coefficients those of the run a layer is linear in what flows. If a target's
derivative by the tensor at a scope is g, the part `F_i(x_j)` carries `<F_i(x_j), g_i>` of it. The vectors need not be
made: every step has an adjoint,

    add        g goes to both operands
    normalise  g -> C (g gain) / s, C the centring
    feed       g -> ((g W_out^T) r) W_in^T, gated ((g W_out^T) A) W_in^T + ((g W_out^T) u B) W_gate^T
    attend     cell (i, j) gets sum_h P_ij <v_j - constant, W_O^h g_i>
    input      cell (i, i) gets <x_i, g_i>

so a map costs its last step's walk, whatever the number of pairs. The norm before attention is taken at the keys.
"""

from collections import defaultdict
from functools import cached_property

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.activations import PathCoefficients
from tl_ffblock.layer.norm_slopes import NormSlope
from tl_ffblock.layer.records import FeedForward, LayerRecord
from tl_ffblock.layer.scopes import INPUT, PROGRAMS, Add, Attend, Feed, Normalise, Order, Step, feed_step, output_step


def scopes_to_output(order: Order) -> tuple[Step, ...]:
    """The steps of a layer up to its output: without the norm behind it, but in Post-LN, where that is the output."""
    program = PROGRAMS[order]
    return program[: program.index(output_step(order)) + 1]


class Adjoint:
    """One sequence's record of a layer, all its positions as queries, walked backward."""

    def __init__(self, record: LayerRecord) -> None:
        self.record = record
        self.steps = scopes_to_output(record.block.order)

    def derivatives(self, by_output: Float[Tensor, "query d"]) -> dict[str, Float[Tensor, "query d"]]:
        """A target's derivative by the tensor at every scope and by the layer's input, from that by its output."""
        found: dict[str, Tensor] = defaultdict(lambda: torch.zeros_like(by_output))
        found[self.steps[-1].scope] = by_output
        for step in reversed(self.steps):
            if isinstance(step.operation, Attend):
                found[step.operation.of] = found[step.operation.of] + self.to_keys(found[step.scope])
            else:
                for name, by_operand in self._to_operands(step, found[step.scope]):
                    found[name] = found[name] + by_operand
        return dict(found)

    def carried(self, scope: str, by_scope: Float[Tensor, "query d"]) -> Float[Tensor, "query key"]:
        """`<F_i(x_j), g_i>` at a scope, signed: what each contribution carries to the target whose derivative g is."""
        flowing: dict[str, Tensor] = {scope: by_scope}
        record = self.record
        cells = by_scope.new_zeros(len(by_scope), len(record.resid_pre))
        for step in reversed(self.steps):
            by_step = flowing.pop(step.scope, None)
            if by_step is None or step.at_keys:
                continue
            if isinstance(step.operation, Attend):
                cells += self._through_attention(by_step)
                continue
            for name, by_operand in self._to_operands(step, by_step):
                flowing[name] = flowing[name] + by_operand if name in flowing else by_operand
        if INPUT in flowing:
            cells[torch.arange(len(cells)), record.queries] += (record.tensor(INPUT) * flowing[INPUT]).sum(dim=-1)
        return cells

    def _to_operands(self, step: Step, by_step: Float[Tensor, "query d"]) -> list[tuple[str, Tensor]]:
        match step.operation:
            case Add(left, right):
                return [(left, by_step), (right, by_step)]
            case Normalise(of, name):
                slope = NormSlope.of(self.record.block.norm(name), self.record.tensor(of), frozen=True)
                return [(of, slope.pull(by_step))]
            case Feed(of):
                return [(of, self._through_feed_forward(by_step))]
        raise AssertionError("attention has an adjoint of its own")

    def _by_head(self, by_output: Float[Tensor, "query d"]) -> Float[Tensor, "query head e"]:
        return einsum(by_output, self.record.block.attention.w_o, "query d, head e d -> query head e")

    def _through_attention(self, by_output: Float[Tensor, "query d"]) -> Float[Tensor, "query key"]:
        record = self.record
        values = record.head_values - record.block.value_constant
        products = einsum(self._by_head(by_output), values, "query head e, key head e -> head query key")
        return (record.pattern * products).sum(dim=0)

    def to_keys(self, by_output: Float[Tensor, "query d"]) -> Float[Tensor, "key d"]:
        """By what attention reads at each key, through its values."""
        w_v = self.record.block.attention.w_v
        by_value = einsum(self.record.pattern, self._by_head(by_output), "head query key, query head e -> key head e")
        shared = by_value.reshape(len(by_value), len(w_v), -1, by_value.shape[-1]).sum(dim=2)
        return einsum(shared, w_v, "key kv_head e, kv_head d e -> key d")

    def _through_feed_forward(self, by_output: Float[Tensor, "query d"]) -> Float[Tensor, "query d"]:
        total = torch.zeros_like(by_output)
        for ff, coefficients, weight in self._fed:
            by_post = (by_output if weight is None else by_output * weight[:, None]) @ ff.w_out.T
            by_pre = by_post * coefficients.on_pre
            if ff.w_gate is None:
                total += by_pre @ ff.w_in.T
            else:
                assert coefficients.on_linear is not None
                total += by_pre @ ff.w_gate.T + (by_post * coefficients.on_linear) @ ff.w_in.T
        return total

    @cached_property
    def _fed(self) -> list[tuple[FeedForward, PathCoefficients, Tensor | None]]:
        """Each feed-forward with its path coefficients and, of experts, the router's weights."""
        record, block = self.record, self.record.block
        (operand,) = feed_step(block.order).operands
        x = record.tensor(operand)
        if isinstance(block.feed_forward, FeedForward):
            pre = record.pre_activations(block.feed_forward, x)
            return [(block.feed_forward, block.feed_forward.activation.coefficients(*pre), None)]
        assert block.feed_forward is not None and record.routing is not None
        pairs = zip(block.feed_forward.experts, record.routing.T, strict=True)
        return [(ff, ff.activation.coefficients(*ff.pre_activations(x)), w) for ff, w in pairs if bool(w.any())]
