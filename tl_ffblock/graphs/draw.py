"""How a layer of a flow graph is drawn at one position, along its program: one node a step, and more inside two of them.

    attention:     read -> qkv -> q_h -> k_j -> v_j -> head h -> heads -> rows of W_O -> attention
                                                                   |-> biases ----------^
    feed-forward:  read -> key n -> neuron n -> mlp
                     |-> biases in -> biases out ---^

A node is entered in one way. Most are sums of vectors: what enters along edges, its own (biases) and the rest sum to it.
The others are one vector times a coefficient, and what enters is a number: numbers along edges and its own sum to it.

A head writes `sum_j P_ij v_j W_O`, heads together `sum_e z_e W_O[e]` over the rows of W_O; a neuron writes `m_n v_n`.
Integrated Gradients make of its coefficient a product with what is read, and a number of biases: `m_n = <k_n, x> + b_n` with
the local key `k_n = r w_n`, gated `A w_up + u B w_gate` (eq. 12-14). Rows and neurons that are not shown have a part from
biases (of values, theirs, and the shift of the norm before) and one from tokens; the first goes through the nodes of the
biases, the second is the rest.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.layers import QueryKeyWeights
from tl_ffblock.graphs.flow import FlowNode, Pruning, ends, largest
from tl_ffblock.layer.linear import CANCELLED
from tl_ffblock.layer.neurons import coefficient_rounding, coefficients, feed_forwards, neuron_name, neuron_values
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import INPUT, Add, Attend, Feed, Normalise, Step, steps_to_output

_Part: TypeAlias = Tensor | float | None
"""A vector, a number, or nothing."""
_Shares: TypeAlias = tuple[Tensor, list[Tensor], Tensor, Tensor]
"""[target] each: of a node, of the edges into it, of its own and of its rest."""


@dataclass
class Draft:
    """A flow graph while it is drawn, and how far what enters each node is from it: sources come before what they enter.

    Errors of shares are relative to the targets' `sizes`, too. `vectors` are each node's, its own and its rest; `edges` are
    source, target, size, unit, shares and vector; `errors` by node what all that enters misses of it, relative to it.
    """

    position: int
    labels: tuple[str, ...]
    sizes: Float[Tensor, " target"]
    nodes: list[FlowNode] = field(default_factory=list)
    vectors: list[list[Tensor]] = field(default_factory=list)
    edges: list[tuple[int, int, float, str, list[float], Tensor]] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    errors_of_shares: list[float] = field(default_factory=list)

    def sum(
        self,
        node: FlowNode,
        vector: Float[Tensor, " d"],
        by: Float[Tensor, "target d"] | None,
        entering: Mapping[int, Float[Tensor, " d"]],
        *,
        own: Float[Tensor, " d"] | None = None,
        rest: Float[Tensor, " d"] | None = None,
        whole: Float[Tensor, " d"] | None = None,
        unit: str = "residual",
    ) -> int:
        """Add a node that is a sum of vectors, or the first input, which nothing enters; its number.

        Args:
            node: What it is.
            vector: Its vector.
            by: The targets' derivatives by it; None where nothing of a target flows (the pattern is that of the forward pass).
            entering: What enters it, by source.
            own: What it adds itself.
            rest: What enters it and is not shown.
            whole: The model's own tensor, with which the sum is compared; None where it makes no such tensor.
            unit: Of the sizes of what enters.
        """
        parts = [part for part in (*entering.values(), own, rest) if part is not None]
        error, expected = 0.0, vector if whole is None else whole
        if parts:
            terms = torch.stack(parts)
            error = _relative((terms.sum(dim=0) - expected).norm(), float(expected.norm()), terms.norm(dim=-1).max())
        shares = self._shares((by, vector), by, entering.values(), vector if node.kind == "input" else own, rest)
        edges = [(source, float(part.norm()), unit, part) for source, part in entering.items()]
        return self._add(node, (vector, own, rest), edges, shares, error)

    def scale(
        self,
        node: FlowNode,
        vector: Float[Tensor, " d"],
        by: Float[Tensor, "target d"] | None,
        entering: tuple[int, float, str],
        *,
        by_coefficient: Float[Tensor, " target"] | None = None,
        largest: float = 0.0,
        rounding: float = 0.0,
    ) -> int:
        """Add a node that is a vector times a coefficient, which is the sum of two numbers: one enters, `node.own` is its own.

        Args:
            node: What it is.
            vector: Its vector.
            by: The targets' derivatives by it.
            entering: Source, number and unit.
            by_coefficient: The targets' derivatives by the coefficient; None where what enters carries nothing of a target: the
                node's share is then its own.
            largest: The largest coefficient of its kind, by which one that is all but zero is measured.
            rounding: How far rounding may put the coefficient from an exact one.
        """
        source, number, unit = entering
        error, coefficient = 0.0, node.coefficient
        if coefficient is not None:
            numbers = torch.tensor([number, node.own], dtype=torch.float64)
            miss = ((numbers.sum() - coefficient).abs() - rounding).clamp(min=0)
            error = _relative(miss, abs(coefficient), numbers.abs().max().clamp(min=largest))
        if by_coefficient is None:
            shares = self._shares((by, vector), by, [None], vector, None)
        else:
            through = (by_coefficient, coefficient) if by is None else (by, vector)
            shares = self._shares(through, by_coefficient, [number], node.own, None)
        edges = [(source, number, unit, torch.zeros_like(vector))]
        return self._add(node, (vector, None, None), edges, shares, error)

    def _shares(
        self,
        through: tuple[Tensor | None, _Part],
        by: Tensor | None,
        entering: Iterable[_Part],
        own: _Part,
        rest: _Part,
    ) -> _Shares:
        """What of each target flows through a node, along each edge into it, from its own and from its rest."""
        return (
            self._share(*through),
            [self._share(by, part) for part in entering],
            self._share(by, own),
            self._share(by, rest),
        )

    def _share(self, by: Tensor | None, part: _Part) -> Float[Tensor, " target"]:
        if by is None or part is None:
            return torch.zeros(len(self.sizes), dtype=torch.float64)
        by = by.cpu().double()
        return by @ part.cpu().double() if isinstance(part, Tensor) else part * by

    def _add(
        self,
        node: FlowNode,
        vectors: tuple[Tensor, Tensor | None, Tensor | None],
        edges: list[tuple[int, float, str, Tensor]],
        shares: _Shares,
        error: float,
    ) -> int:
        through, of_edges, own, rest = shares
        parts = torch.stack([*of_edges, own, rest])
        sizes = (parts.abs().sum(dim=0) + self.sizes).clamp(min=1e-300)
        self.errors_of_shares += ((parts.sum(dim=0) - through).abs() / sizes).tolist()
        names = ("shares", "own_shares", "rest_shares")
        fields: dict[str, Any] = {
            name: tuple(share.tolist()) for name, share in zip(names, (through, own, rest), strict=True)
        }
        named = zip(("norm", "own", "rest"), vectors, strict=True)
        fields |= {name: float(part.norm()) for name, part in named if part is not None}
        self.nodes.append(replace(node, **fields))
        self.vectors.append([torch.zeros_like(vectors[0]) if part is None else part for part in vectors])
        self.errors.append(error)
        target = len(self.nodes) - 1
        self.edges += [
            (source, target, size, unit, share.tolist(), vector)
            for (source, size, unit, vector), share in zip(edges, of_edges, strict=True)
        ]
        return target


def _relative(miss: Tensor, size: float, largest: Tensor) -> float:
    """An error over the size of a sum; where that cancels, a thousandth of its largest term stands for its size."""
    size = max(size, CANCELLED * float(largest))
    return float(miss) / size if size else float(miss)


@dataclass(frozen=True)
class LayerFlow:
    """A layer of a forward pass at the position that is drawn.

    `record` is of all positions; `by` are the targets' derivatives by the tensor at every scope and by the layer's input, at
    the position; `by_read` those by what attention reads there, through its values; `eps` is the unit of rounding.
    """

    draft: Draft
    record: LayerRecord
    query_keys: QueryKeyWeights
    by: Mapping[str, Float[Tensor, "target d"]]
    by_read: Float[Tensor, "target d"]
    pruning: Pruning
    eps: float

    def draw(self, entry: int) -> int:
        """Draw the layer after the node of its input; the number of its output's node."""
        steps, drawn = self._steps, {INPUT: entry}
        for step in steps:
            match step.operation:
                case Normalise(of, _):
                    drawn[step.scope] = self._norm(step, drawn[of])
                case Attend(of):
                    drawn[step.scope] = self._attention(step, drawn[of])
                case Feed(of):
                    drawn[step.scope] = self._feed_forward(step, drawn[of], of)
                case Add() if step is steps[-1] or not self._is_part_of_a_sum(step):
                    terms = [term for operand in step.operands for term in self._terms(operand, drawn)]
                    whole = self.record.whole[step.scope][self.draft.position]
                    node = self._node("sum", "", step.shows, name=self._stream(step, step.scope))
                    drawn[step.scope] = self.draft.sum(
                        node, whole, self.by[step.scope], self._written(terms), whole=whole
                    )
        return drawn[steps[-1].scope]

    @property
    def _steps(self) -> tuple[Step, ...]:
        return steps_to_output(self.record.block.order)

    def _node(self, kind: str, part: str, words: str, **fields: Any) -> FlowNode:
        """A node of the layer; `part` is what its name has after the layer's number."""
        layer = self.record.layer
        common: dict[str, Any] = {"name": f"L{layer}{part}", "layer": layer, "position": self.draft.position}
        return FlowNode(kind=kind, words=words, **common | fields)

    def _stream(self, step: Step, otherwise: str) -> str:
        """The name of a sum or norm where it is the residual stream."""
        layer = self.record.layer
        if step is self._steps[-1]:
            return f"L{layer + 1}.resid"
        return f"L{layer}.{'resid_mid' if step.scope == 'Atb' else otherwise}"

    def _written(self, nodes: Iterable[int]) -> dict[int, Tensor]:
        return {node: self.draft.vectors[node][0] for node in nodes}

    def _is_part_of_a_sum(self, step: Step) -> bool:
        """Whether a sum is read by sums alone: a parallel block adds three vectors at once."""
        readers = [reader for reader in self._steps if step.scope in reader.operands]
        return all(isinstance(reader.operation, Add) for reader in readers)

    def _terms(self, scope: str, drawn: dict[str, int]) -> list[int]:
        if scope in drawn:
            return [drawn[scope]]
        (step,) = (step for step in self._steps if step.scope == scope)
        return [node for operand in step.operands for node in self._terms(operand, drawn)]

    def _norm(self, step: Step, of: int) -> int:
        """The norm of a node's vector, or that node where the model has no norm here."""
        assert isinstance(step.operation, Normalise)
        norm, x = self.record.block.norm(step.operation.norm), self.draft.vectors[of][0]
        if not norm.divides:
            return of
        linear = norm.linear(x) / norm.scale(x)
        whole = None if step.at_keys else self.record.whole[step.scope][self.draft.position]
        vector = linear + norm.shift if whole is None else whole
        by = self.by_read if step.at_keys else self.by[step.scope]
        own = norm.shift if bool(norm.shift.any()) else None
        node = self._node("norm", "", step.shows, name=self._stream(step, step.operation.norm))
        return self.draft.sum(node, vector, by, {of: linear}, own=own, whole=whole)

    def _attention(self, step: Step, reads: int) -> int:
        """Queries, keys, values, heads, and the rows of W_O; the number of attention's output."""
        draft, record, i = self.draft, self.record, self.draft.position
        read = draft.vectors[reads][0]
        node = self._node("qkv", ".qkv", "what queries, keys and values are made of")
        qkv = draft.sum(node, read, self.by_read, {reads: read})
        z = einsum(record.pattern[:, i], record.head_values, "head key, key head e -> head e")
        written = einsum(z, record.block.attention.w_o, "head e, head e d -> head d")
        shown = largest(written.norm(dim=-1), self.pruning.heads)
        hidden = _hidden(len(written), shown)
        heads = [self._head(qkv, head, written[head], self.by[step.scope]) for head in shown.tolist()]
        node = self._node("heads", ".heads", "heads together", unseen=len(hidden))
        rest = written[hidden].sum(dim=0)
        together = draft.sum(node, written.sum(dim=0), self.by[step.scope], self._written(heads), rest=rest)
        return self._rows(step, together, z)

    def _head(self, qkv: int, head: int, written: Float[Tensor, " d"], by: Float[Tensor, "target d"]) -> int:
        """A head with its query and the keys and values it attends to most; the head's node."""
        draft, record, i, weights = self.draft, self.record, self.draft.position, self.query_keys
        attended, w_o = record.pattern[head, i], record.block.attention.w_o[head]
        from_read = einsum(draft.vectors[qkv][0], weights.w_q[head], weights.w_k[head], "d, d e, c e -> c")
        own = weights.w_k[head] @ weights.b_q[head]
        node = self._node("query", f"H{head}.q", f"head {head}: query", head=head, index=i)
        query = draft.sum(node, from_read + own, None, {qkv: from_read}, own=own, unit="query")
        contributions = attended[:, None] * (record.head_values[:, head] @ w_o)
        shown = largest(attended, self.pruning.values)
        values = []
        for j in shown.tolist():
            score, weight, of = self._score(head, j), float(attended[j]), f"of {draft.labels[j]!r} at {j}"
            at = {"head": head, "index": j, "position": j}
            answered = weights.answered_to(weights.keys(self._read_at(j)))[head]
            node = self._node("key", f"H{head}.k", f"head {head}: key {of}", coefficient=score, **at)
            number = float("nan") if score is None else score
            key = draft.scale(node, answered, None, (query, number, "score"))
            node = self._node("value", f"H{head}.v", f"head {head}: value {of}", coefficient=weight, **at)
            values.append(draft.scale(node, contributions[j], by, (key, weight, "attention")))
        hidden = _hidden(len(attended), shown)
        node = self._node("head", f"H{head}", f"head {head}", head=head, unseen=len(hidden))
        return draft.sum(node, written, by, self._written(values), rest=contributions[hidden].sum(dim=0))

    def _read_at(self, j: int) -> Float[Tensor, " d"]:
        x, norm = self.record.resid_pre[j], self.record.block.attn_norm
        return x if norm is None else norm(x)

    def _score(self, head: int, j: int) -> float | None:
        """`q k` of a pair as attention multiplies them: after rotations and norms of their own, before scale and mask."""
        if self.record.query is None or self.record.key is None:
            return None
        query, key = self.record.query[self.draft.position, head], self.record.key[j]
        return float(query @ key[head // (self.record.query.shape[1] // len(key))])

    def _rows(self, step: Step, heads: int, z: Float[Tensor, "head e"]) -> int:
        """Rows of W_O, biases and attention's output; its node."""
        draft, record, by = self.draft, self.record, self.by[step.scope]
        attention = record.block.attention
        w_o, coefficients = attention.w_o.flatten(0, 1), z.flatten()
        constant = (record.pattern[:, draft.position].sum(dim=-1)[:, None] * record.block.value_constant).flatten()
        shown = ends(coefficients * w_o.norm(dim=-1), self.pruning.rows)
        hidden = _hidden(len(coefficients), shown)
        rest, of_biases = (part[hidden] @ w_o[hidden] for part in (coefficients - constant, constant))
        written = []
        for row in shown.tolist():
            (head, dimension), number = divmod(row, z.shape[1]), float(coefficients[row])
            words, at = f"head {head}: row {dimension} of W_O", {"head": head, "index": dimension}
            node = self._node("row", f"H{head}.z{dimension}", words, coefficient=number, **at)
            entering = heads, number, "activation"
            written.append(draft.scale(node, number * w_o[row], by, entering, by_coefficient=by @ w_o[row]))
        if bool(attention.b_o.any()) or bool(constant.any()):
            node = self._node("bias", ".attn.bias", "biases of attention")
            written.append(draft.sum(node, of_biases + attention.b_o, by, {heads: of_biases}, own=attention.b_o))
        whole = record.whole[step.scope][draft.position]
        node = self._node("attention", ".attn", step.shows, unseen=len(hidden))
        return draft.sum(node, whole, by, self._written(written), rest=rest, whole=whole)

    def _feed_forward(self, step: Step, reads: int, operand: str) -> int:
        """Keys and values of neurons, and biases; the number of the feed-forward's output."""
        draft, by = self.draft, self.by[step.scope]
        neurons = neurons_at(self.record, draft.position, operand, self.eps)
        read, m, values = draft.vectors[reads][0], neurons.coefficients, neurons.values
        shown = ends(m * values.norm(dim=-1), self.pruning.memories)
        written = [self._neuron(reads, neurons, neuron, by) for neuron in shown.tolist()]
        hidden = torch.ones(len(m), dtype=torch.bool, device=m.device)
        hidden[shown] = False
        is_norm = draft.nodes[reads].kind == "norm"
        shifted = neurons.keys @ draft.vectors[reads][1] if is_norm else torch.zeros_like(m)
        by_tokens = neurons.keys @ read - shifted
        of_shift, of_biases = (shifted * hidden) @ values, (neurons.biases * hidden) @ values
        if bool(neurons.biases.any()) or bool(neurons.output_bias.any()) or bool(shifted.any()):
            bias, inside = neurons.output_bias, of_shift + of_biases
            node = self._node("bias", ".mlp.bias_in", "biases of neurons not shown")
            inner = draft.sum(node, inside, by, {reads: of_shift}, own=of_biases)
            node = self._node("bias", ".mlp.bias", "biases of the feed-forward")
            written.append(draft.sum(node, inside + bias, by, {inner: inside}, own=bias))
        whole = self.record.whole[step.scope][draft.position]
        node = self._node("mlp", ".mlp", step.shows, unseen=int(hidden.sum()))
        return draft.sum(node, whole, by, self._written(written), rest=(by_tokens * hidden) @ values, whole=whole)

    def _neuron(self, reads: int, neurons: "Neurons", neuron: int, by: Float[Tensor, "target d"]) -> int:
        """Key and value of a neuron; the value's node."""
        draft, name = self.draft, neuron_name(self.record.block, neuron)
        coefficient, value, read = float(neurons.coefficients[neuron]), neurons.values[neuron], draft.vectors[reads][0]
        # Two products are rounded, this one and the model's: |fl(<k, x>) - <k, x>| <= eps sum_j |k_j x_j|.
        of_products = 2 * self.eps * float(neurons.keys[neuron].abs() @ read.abs())
        at: dict[str, Any] = {"index": neuron, "coefficient": coefficient}
        own = float(neurons.biases[neuron])
        key = draft.scale(
            self._node("neuron key", f"N{neuron}.k", f"neuron {name}: key", own=own, **at),
            neurons.keys[neuron],
            None,
            (reads, float(neurons.keys[neuron] @ read), "activation"),
            by_coefficient=by @ value,
            largest=float(neurons.coefficients.abs().max()),
            rounding=float(neurons.rounding[neuron]) + of_products,
        )
        node = self._node("neuron", f"N{neuron}", f"neuron {name}", **at)
        entering = key, coefficient, "activation"
        return draft.scale(node, coefficient * value, by, entering, by_coefficient=by @ value)


def _hidden(number: int, shown: Tensor) -> Tensor:
    left = torch.ones(number, dtype=torch.bool, device=shown.device)
    left[shown] = False
    return left.nonzero()[:, 0]


@dataclass(frozen=True)
class Neurons:
    """A layer's neurons at one position, experts one after the other.

    The key k_n is what the coefficient's product with is, m_n the model's own coefficient, b_n what of it is no product with
    the input, `rounding` how far rounding may put m_n from an exact one; b_out of experts is weighed by the router.
    """

    keys: Float[Tensor, "neuron d"]
    coefficients: Float[Tensor, " neuron"]
    rounding: Float[Tensor, " neuron"]
    biases: Float[Tensor, " neuron"]
    values: Float[Tensor, "neuron d"]
    output_bias: Float[Tensor, " d"]


def neurons_at(record: LayerRecord, position: int, operand: str, eps: float) -> Neurons:
    """The neurons of a forward pass at one position.

    Args:
        record: The layer's.
        position: The query.
        operand: The scope that the feed-forward reads.
        eps: The unit of rounding.
    """
    block, row = record.block, record.rows(slice(position, position + 1))
    x = record.tensor(operand)[position : position + 1]
    keys, biases, output_bias = [], [], torch.zeros_like(x[0])
    for expert, ff in enumerate(feed_forwards(block)):
        weight = torch.ones(()).to(x) if record.routing is None else record.routing[position, expert].to(x)
        output_bias = output_bias + weight * ff.b_out
        if not float(weight):
            keys.append(torch.zeros_like(ff.w_out))
            biases.append(torch.zeros_like(ff.b_in))
            continue
        path = ff.activation.coefficients(*row.pre_activations(ff, x))
        on_pre, w, b = weight * path.on_pre[0], ff.w_in, ff.b_in
        at_zero = (weight * path.baseline).expand(len(ff.w_out))
        if ff.w_gate is not None and ff.b_gate is not None:
            assert path.on_linear is not None
            on_linear = weight * path.on_linear[0]
            keys.append((on_linear * w + on_pre * ff.w_gate).T)
            biases.append(on_linear * b + on_pre * ff.b_gate + at_zero)
        else:
            keys.append((on_pre * w).T)
            biases.append(on_pre * b + at_zero)
    rounding = coefficient_rounding(row, eps)[0]
    return Neurons(
        torch.cat(keys), coefficients(row)[0], rounding, torch.cat(biases), neuron_values(block), output_bias
    )
