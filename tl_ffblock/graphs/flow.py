"""Flow graphs (VISIT, Katz and Belinkov 2023): vectors at one position in some layers, as nodes that are sums of their inputs.

A layer is drawn along its program: one node per step, and further nodes inside attention and feed-forward.

    attention:     read -> qkv -> q_h -> k_j -> v_j -> head h -> heads -> rows of W_O -> attention
                                                                   |-> biases ----------^
    feed-forward:  read -> key n -> neuron n -> mlp
                     |-> biases in -> biases out ---^

Most nodes are sums of vectors: edges, the node's own biases, and the pruned remainder sum to the vector. All other nodes are a
vector times a coefficient: their edges and their own number sum to the coefficient.

A head writes `sum_j P_ij v_j W_O`, all heads together `sum_e z_e W_O[e]` over the rows of W_O; a neuron writes `m_n v_n`.
By Integrated Gradients its activation is a product with the input plus a constant from biases: `m_n = <k_n, x> + b_n`, with the
local key `k_n = r w_n`, or `A w_up + u B w_gate` in gated blocks (eq. 12-14). Pruned rows and neurons have a part from biases
(of values, their own, and the shift of the norm before) and one from tokens. The first goes through the nodes of the biases, the
second is the remainder.

Nodes have the top tokens of their vectors by the model's read-out (a logit lens). This is a correlation, not evidence of how the
model uses the vector. `I_k(a, b)` of VISIT is the fraction of top k tokens that two vectors have in common.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any, Literal, TypeAlias

import pandas as pd
import torch
from einops import einsum
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tl_ffblock.bridge.labels import label
from tl_ffblock.bridge.layers import QueryKeyWeights
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.bridge.readout import Reading, read_out
from tl_ffblock.errors import InputError, UnsupportedModelError, brief
from tl_ffblock.graphs.graph import Component, Graph
from tl_ffblock.layer.heads import of_heads
from tl_ffblock.layer.linear import CANCELLED
from tl_ffblock.layer.neurons import coefficient_rounding, coefficients, feed_forwards, neuron_name, neuron_values
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import INPUT, Add, Attend, Feed, Normalise, Step, steps_to_output
from tl_ffblock.result import Values
from tl_ffblock.results.tokens import visible
from tl_ffblock.signatures import strict, whole

# Vectors per product with the unembedding: each has a row of logits.
_CHUNK = 64
# A vector, a number, or nothing.
_Part: TypeAlias = Tensor | float | None


@strict
@dataclass(frozen=True, kw_only=True, eq=False)
class FlowNode(Component):
    """A vector of a forward pass at one position, with its top tokens.

    Its kind is "input", "norm", "qkv", "query", "key", "value", "head", "heads", "row" (of W_O), "bias", "attention", "sum",
    "neuron key", "neuron" or "mlp". Vectors of values, rows and neurons include their coefficient.
    """

    words: str = ""
    """Name of the node in words."""
    norm: float = 0.0
    coefficient: float | None = None
    """Coefficient of a row, a value or a neuron; `q k` of a key, if it is known."""
    tokens: tuple[str, ...] = ()
    """Top tokens of the vector by the model's read-out, largest logit first; empty if it cannot be read."""
    entropy: float = float("nan")
    """Entropy of that reading, in nats."""
    ranks: tuple[int, ...] = ()
    """Rank of each target's token: 1 is the top token, 0 if the target is not a token."""
    probabilities: tuple[float, ...] = ()
    """Probability of each target's token in that reading; NaN if the target is not a token."""
    own: float = 0.0
    """Norm of the node's intercept (biases); for a neuron's key, the constant itself."""
    rest: float = 0.0
    """Norm of the pruned remainder, which enters along no edge."""
    unseen: int = 0
    """Number of terms in the remainder."""


@strict
@dataclass(frozen=True, eq=False)
class FlowVectors(Values):
    """Vectors of a graph's nodes and edges. Edges that are numbers have zero vectors."""

    nodes: Float[Tensor, "node d"]
    own: Float[Tensor, "node d"]
    rest: Float[Tensor, "node d"]
    edges: Float[Tensor, "edge d"]
    """Zero if an edge is a number."""


@strict
@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class FlowGraph(Graph):
    """Graph of the vectors at one position in consecutive layers, from the first one's input to the last one's output.

    Edges into a node, its own biases and the pruned remainder sum to the node. Sizes of edges are norms in the residual stream (unit
    "residual") or in a query's space ("query"), or numbers: `q k` ("score"; NaN if the model has no HookPoint for rotated
    vectors), an attention weight ("attention"), or an activation ("activation"). Sizes of different units cannot be compared.
    """

    position: int
    layers: tuple[int, ...]
    nodes: tuple[FlowNode, ...]
    """In the order of computation."""
    vectors: FlowVectors | None = None
    """None in a pruned graph."""

    UNPRUNED = ("vectors",)

    def _measured(self) -> pd.DataFrame:
        """Columns with the entropy of an edge's reading, which is that of its source; NaN if the edge is a number."""
        entropies = [getattr(node, "entropy", float("nan")) for node in self.nodes]
        carried = zip(self.ends[:, 0].tolist(), self.units, strict=True)
        of_edges = [entropies[source] if unit == "residual" else float("nan") for source, unit in carried]
        return super()._measured().assign(entropy=of_edges)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """Size of the graph, layers, text, position, targets, and the certificate."""
        headline, lines = super().summary()
        first, last = self.layers[0], self.layers[-1]
        where = f"layer {first}" if first == last else f"layers {first} to {last}"
        at = {"position": f"{self.position} {visible(self.labels[self.position])!r}"}
        return f"{headline}, {where}", {"text": lines["text"], **at, **lines}


@strict
@dataclass(frozen=True)
class Pruning:
    """Numbers of nodes per layer; None keeps all. Pruned terms are summed in the remainder of the node that they enter.

    Defaults are those of Katz and Belinkov 2023. Rows and neurons are chosen as in their program; `by="coefficient"` chooses them as
    in their text.
    """

    heads: int | None = 10
    """Heads, by the norm of their output."""
    values: int | None = 2
    """Source tokens of each head, by attention."""
    rows: tuple[int, int] | None = (18, 7)
    """Rows of W_O with the largest and the most negative coefficient times norm."""
    memories: tuple[int, int] | None = (18, 7)
    """Neurons of the feed-forward with the largest and the most negative coefficient times norm."""
    by: Literal["contribution", "coefficient"] = "contribution"
    """How rows and neurons are chosen. "contribution": by coefficient times norm of the vector, from both ends, as in their program.
    "coefficient": by the absolute coefficient, as many as both numbers together, as in their text (A.5)."""
    chosen: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Neurons to keep, by layer, instead of `memories`: `{29: [1066, 12]}`."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            InputError: for a negative number.
        """
        for name, wanted in (("heads", 1), ("values", 1), ("rows", 2), ("memories", 2)):
            given = getattr(self, name)
            counts = [whole(count) for count in (given if isinstance(given, tuple) else (given,))]
            if given is not None and (len(counts) != wanted or any(count is None or count < 0 for count in counts)):
                raise InputError(
                    f"Pruning({name}={given!r}): expected {'a number' if wanted == 1 else 'two numbers'} from 0, or None for all."
                )
        if self.by not in ("contribution", "coefficient"):
            raise InputError(f'Pruning(by={self.by!r}): expected "contribution" or "coefficient".')
        if not isinstance(self.chosen, Mapping):
            raise InputError(f"Pruning(chosen={brief(self.chosen)}): expected neurons by layer, {{29: [1066, 12]}}.")

    def shown(
        self, coefficients: Float[Tensor, " item"], norms: Float[Tensor, " item"], counts: tuple[int, int] | None
    ) -> Int[Tensor, " shown"]:
        """Indices of the kept rows or neurons, given their coefficients and the norms of their vectors."""
        if self.by == "coefficient" and counts is not None:
            return largest(coefficients.abs(), sum(counts))
        return ends(coefficients * norms, counts)

    def neurons(
        self, layer: int, coefficients: Float[Tensor, " neuron"], norms: Float[Tensor, " neuron"]
    ) -> Int[Tensor, " shown"]:
        """Indices of the kept neurons of a layer.

        Raises:
            InputError: if `chosen` has a neuron that the layer does not have, or one twice.
        """
        if layer not in self.chosen:
            return self.shown(coefficients, norms, self.memories)
        numbers = [whole(number) for number in self.chosen[layer]]
        if len(set(numbers)) < len(numbers) or not set(numbers) <= set(range(len(coefficients))):
            raise InputError(
                f"Pruning(chosen={{{layer}: {brief(list(self.chosen[layer]))}}}): expected neurons from 0 to {len(coefficients) - 1}, each "
                "once."
            )
        return torch.tensor(numbers, dtype=torch.long, device=coefficients.device)

    @classmethod
    def off(cls) -> "Pruning":
        """Keep everything: for small models, or to check sums."""
        return cls(None, None, None, None)


def largest(sizes: Float[Tensor, " item"], count: int | None) -> Int[Tensor, " shown"]:
    """Indices of the largest sizes, largest first; None keeps all in their order."""
    if count is None:
        return torch.arange(len(sizes), device=sizes.device)
    return sizes.topk(min(count, len(sizes))).indices


def ends(signed: Float[Tensor, " item"], counts: tuple[int, int] | None) -> Int[Tensor, " shown"]:
    """Indices of the largest numbers, then of the smallest, each once; None keeps all in their order."""
    if counts is None:
        return torch.arange(len(signed), device=signed.device)
    order = signed.argsort(descending=True, stable=True)
    top = min(counts[0], len(order))
    return torch.cat([order[:top], order[max(top, len(order) - counts[1]) :].flip(0)])


@dataclass
class Draft:
    """A flow graph under construction, with the error of each node's sum. Sources come before their receivers.

    Errors of attributions are relative to the targets' `sizes` too. `vectors` has each node's vector, own biases and remainder.
    `edges` has source, target, size, unit, attributions and vector. `errors` has, by node, the relative error of its sum.
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
        """Add a node that is a sum of vectors, or the first input, which has no edges; returns its number.

        Args:
            node: The node.
            vector: Its vector.
            by: Derivatives of the targets by it; None if no target depends on it (attention patterns are constants).
            entering: By source: the vector of the edge.
            own: The node's own biases.
            rest: Sum of the pruned terms.
            whole: The model's own tensor, to compare with the sum; None if the model has none.
            unit: Unit of the edges' sizes.
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
        """Add a node that is a vector times a coefficient. The coefficient is the sum of one edge and `node.own`.

        Args:
            node: The node.
            vector: Its vector.
            by: Derivatives of the targets by it.
            entering: Source, number and unit of the edge.
            by_coefficient: Derivatives of the targets by the coefficient; None if no target depends on the edge. The attribution
                is then all the node's own.
            largest: Largest coefficient of its kind; the error of a coefficient near zero is relative to it.
            rounding: Largest rounding error of the coefficient.
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
        return self._add(node, (vector, None, None), [(source, number, unit, torch.zeros_like(vector))], shares, error)

    def _shares(
        self,
        through: tuple[Tensor | None, _Part],
        by: Tensor | None,
        entering: Iterable[_Part],
        own: _Part,
        rest: _Part,
    ) -> tuple[Tensor, list[Tensor], Tensor, Tensor]:
        """By target: attributions to a node, to each edge into it, to its own biases and to its remainder."""
        of_edges = [self._share(by, part) for part in entering]
        return self._share(*through), of_edges, self._share(by, own), self._share(by, rest)

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
        shares: tuple[Tensor, list[Tensor], Tensor, Tensor],
        error: float,
    ) -> int:
        through, of_edges, own, rest = shares
        parts = torch.stack([*of_edges, own, rest])
        sizes = (parts.abs().sum(dim=0) + self.sizes).clamp(min=1e-300)
        self.errors_of_shares += ((parts.sum(dim=0) - through).abs() / sizes).tolist()
        named = {"shares": through, "own_shares": own, "rest_shares": rest}
        fields: dict[str, Any] = {name: tuple(share.tolist()) for name, share in named.items()}
        norms = zip(("norm", "own", "rest"), vectors, strict=True)
        fields |= {name: float(part.norm()) for name, part in norms if part is not None}
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
    """Error relative to the size of a sum, or to a thousandth of its largest term if the sum is smaller."""
    size = max(size, CANCELLED * float(largest))
    return float(miss) / size if size else float(miss)


@dataclass(frozen=True)
class LayerFlow:
    """One layer of a forward pass, at the position of the graph.

    `record` has all positions. `by` has the targets' derivatives at the position by the tensor of every scope and by the layer's
    input. `by_read` has those by attention's input, through values. `eps` is the unit of rounding.
    """

    draft: Draft
    record: LayerRecord
    query_keys: QueryKeyWeights | None
    """None if tokens are mixed without a softmax."""
    by: Mapping[str, Float[Tensor, "target d"]]
    by_read: Float[Tensor, "target d"]
    pruning: Pruning
    eps: float

    def draw(self, entry: int) -> int:
        """Add the layer after the node of its input; returns the number of its output's node."""
        steps, drawn = self._steps, {INPUT: entry}
        for step in steps:
            match step.operation:
                case Normalise(of, _):
                    drawn[step.scope] = self._norm(step, drawn[of])
                case Attend(of):
                    drawn[step.scope] = self._attention(step, drawn[of])
                case Feed(of):
                    drawn[step.scope] = self._feed_forward(step, drawn[of], of)
                # A parallel block adds three vectors at once: an intermediate sum has no node.
                case Add() if step is steps[-1] or any(
                    step.scope in reader.operands and not isinstance(reader.operation, Add) for reader in steps
                ):
                    whole = self.record.whole[step.scope][self.draft.position]
                    node = self._node("sum", "", step.shows, name=self._stream(step, step.scope))
                    terms = self._terms(step.scope, drawn)
                    drawn[step.scope] = self.draft.sum(node, whole, self.by[step.scope], terms, whole=whole)
        return drawn[steps[-1].scope]

    @property
    def _steps(self) -> tuple[Step, ...]:
        return steps_to_output(self.record.block.order)

    def _node(self, kind: str, part: str, words: str, **fields: Any) -> FlowNode:
        """A node of the layer; `part` is its name after the layer's number."""
        layer = self.record.layer
        common: dict[str, Any] = {"name": f"L{layer}{part}", "layer": layer, "position": self.draft.position}
        return FlowNode(kind=kind, words=words, **common | fields)

    def _stream(self, step: Step, otherwise: str) -> str:
        """Name of a sum or norm, if it is the residual stream."""
        layer, inner = self.record.layer, "resid_mid" if step.scope == "Atb" else otherwise
        return f"L{layer + 1}.resid" if step is self._steps[-1] else f"L{layer}.{inner}"

    def _written(self, nodes: Iterable[int]) -> dict[int, Tensor]:
        return {node: self.draft.vectors[node][0] for node in nodes}

    def _terms(self, scope: str, drawn: dict[str, int]) -> dict[int, Tensor]:
        """Terms of a sum, each as it is added, by the node of its vector; those of an intermediate sum without a node too."""
        if scope in drawn:
            return self._written([drawn[scope]])
        (added,) = (step.operation for step in self._steps if step.scope == scope)
        assert isinstance(added, Add), "other steps have nodes"
        return {
            node: vector if factor == 1 else factor * vector
            for operand, factor in zip((added.left, added.right), self.record.block.factors(added), strict=True)
            for node, vector in self._terms(operand, drawn).items()
        }

    def _norm(self, step: Step, of: int) -> int:
        """Add the norm of a node's vector; returns that node if the model has no norm here."""
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
        """Add queries, keys, values, heads, and the rows of W_O; returns the number of attention's output."""
        draft, record, i = self.draft, self.record, self.draft.position
        read = draft.vectors[reads][0]
        node = self._node("qkv", ".qkv", "input of queries, keys and values")
        qkv = draft.sum(node, read, self.by_read, {reads: read})
        z = record.rows(slice(i, i + 1)).z[0]
        written = einsum(z, record.block.attention.w_o, "head e, head e d -> head d")
        shown = largest(written.norm(dim=-1), self.pruning.heads)
        hidden = _hidden(len(written), shown)
        heads = [self._head(qkv, head, written[head], self.by[step.scope]) for head in shown.tolist()]
        node = self._node("heads", ".heads", "heads together", unseen=int(hidden.sum()))
        rest = written[hidden].sum(dim=0)
        together = draft.sum(node, written.sum(dim=0), self.by[step.scope], self._written(heads), rest=rest)
        return self._rows(step, together, z)

    def _head(self, qkv: int, head: int, written: Float[Tensor, " d"], by: Float[Tensor, "target d"]) -> int:
        """Add a head with its query, and the keys and values with the largest attention weights; returns the head's node."""
        draft, record, i, weights = self.draft, self.record, self.draft.position, self.query_keys
        if weights is None:
            return self._recurrent_head(qkv, head, written, by)
        attended, w_o = record.pattern[head, i], record.block.attention.w_o[head]
        from_read = einsum(draft.vectors[qkv][0], weights.w_q[head], weights.w_k[head], "d, d e, c e -> c")
        own = weights.w_k[head] @ weights.b_q[head]
        node = self._node("query", f"H{head}.q", f"head {head}: query", head=head, index=i)
        query = draft.sum(node, from_read + own, None, {qkv: from_read}, own=own, unit="query")
        values = record.gated(record.head_values, i)[:, head]
        contributions = attended[:, None] * (values @ w_o)
        shown = largest(attended, self.pruning.values)
        written_by: list[int] = []
        for j in shown.tolist():
            score, weight, of = self._score(head, j), float(attended[j]), f"of {draft.labels[j]!r} at {j}"
            at = {"head": head, "index": j, "position": j}
            answered = weights.answered_to(weights.keys(self._read_at(j)))[head]
            node = self._node("key", f"H{head}.k", f"head {head}: key {of}", coefficient=score, **at)
            key = draft.scale(node, answered, None, (query, float("nan") if score is None else score, "score"))
            node = self._node("value", f"H{head}.v", f"head {head}: value {of}", coefficient=weight, **at)
            written_by.append(draft.scale(node, contributions[j], by, (key, weight, "attention")))
        hidden = _hidden(len(attended), shown)
        node = self._node("head", f"H{head}", f"head {head}", head=head, unseen=int(hidden.sum()))
        return draft.sum(node, written, by, self._written(written_by), rest=contributions[hidden].sum(dim=0))

    def _recurrent_head(self, qkv: int, head: int, written: Float[Tensor, " d"], by: Float[Tensor, "target d"]) -> int:
        """The same without queries and keys: source tokens with the largest contributions, and their effective attention."""
        draft, i = self.draft, self.draft.position
        own = of_heads(self.record.rows(slice(i, i + 1)), [head]).by_channel
        contributions = einsum(own.pattern[:, 0], own.value, own.block.attention.w_o, "c key, key c e, c e d -> key d")
        shown = largest(contributions.norm(dim=-1), self.pruning.values)
        written_by: list[int] = []
        for j in shown.tolist():
            weight, words = float(self.record.pattern[head, i, j]), f"head {head}: value of {draft.labels[j]!r} at {j}"
            node = self._node("value", f"H{head}.v", words, coefficient=weight, head=head, index=j, position=j)
            written_by.append(draft.scale(node, contributions[j], by, (qkv, weight, "attention")))
        hidden = _hidden(len(contributions), shown)
        rest = written - contributions[shown].sum(dim=0)  # with the bias of a convolution
        node = self._node("head", f"H{head}", f"head {head}", head=head, unseen=int(hidden.sum()))
        return draft.sum(node, written, by, self._written(written_by), rest=rest)

    def _read_at(self, j: int) -> Float[Tensor, " d"]:
        x, norm = self.record.resid_pre[j], self.record.block.attn_norm
        return x if norm is None else norm(x)

    def _score(self, head: int, j: int) -> float | None:
        """`q k` of a pair, after rotation and norms of queries and keys, before scale and mask."""
        if self.record.query is None or self.record.key is None:
            return None
        query, key = self.record.query[self.draft.position, head], self.record.key[j]
        return float(query @ key[head // (self.record.query.shape[1] // len(key))])

    def _rows(self, step: Step, heads: int, z: Float[Tensor, "head e"]) -> int:
        """Add rows of W_O, biases and attention's output; returns its node."""
        draft, record, by = self.draft, self.record, self.by[step.scope]
        attention = record.block.attention
        w_o, coefficients = attention.w_o.flatten(0, 1), z.flatten()
        of_query = record.rows(slice(draft.position, draft.position + 1)).by_channel
        constant = of_query.pattern_sums.T[..., None] * of_query.block.value_constant
        constant = constant if of_query.constant is None else constant + of_query.constant
        constant = (constant.reshape(z.shape) * attention.gain).flatten()
        shown = self.pruning.shown(coefficients, w_o.norm(dim=-1), self.pruning.rows)
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
        node = self._node("attention", ".attn", step.shows, unseen=int(hidden.sum()))
        return draft.sum(node, whole, by, self._written(written), rest=rest, whole=whole)

    def _feed_forward(self, step: Step, reads: int, operand: str) -> int:
        """Add keys and values of neurons, and biases; returns the number of the feed-forward's output."""
        draft, by = self.draft, self.by[step.scope]
        neurons = neurons_at(self.record, draft.position, operand, self.eps)
        read, m, values = draft.vectors[reads][0], neurons.coefficients, neurons.values
        shown = self.pruning.neurons(self.record.layer, m, values.norm(dim=-1))
        written = [self._neuron(reads, neurons, neuron, by) for neuron in shown.tolist()]
        hidden, is_norm = _hidden(len(m), shown), draft.nodes[reads].kind == "norm"
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
        """Add key and value of a neuron; returns the value's node."""
        draft, name = self.draft, neuron_name(self.record.block, neuron)
        coefficient, value, read = float(neurons.coefficients[neuron]), neurons.values[neuron], draft.vectors[reads][0]
        # Two products are rounded, this one and the model's: |fl(<k, x>) - <k, x>| <= eps sum_j |k_j x_j|.
        of_products = 2 * self.eps * float(neurons.keys[neuron].abs() @ read.abs())
        at: dict[str, Any] = {"index": neuron, "coefficient": coefficient}
        key = draft.scale(
            self._node("neuron key", f"N{neuron}.k", f"neuron {name}: key", own=float(neurons.biases[neuron]), **at),
            neurons.keys[neuron],
            None,
            (reads, float(neurons.keys[neuron] @ read), "activation"),
            by_coefficient=by @ value,
            largest=float(neurons.coefficients.abs().max()),
            rounding=float(neurons.rounding[neuron]) + of_products,
        )
        node = self._node("neuron", f"N{neuron}", f"neuron {name}", **at)
        return draft.scale(node, coefficient * value, by, (key, coefficient, "activation"), by_coefficient=by @ value)


def _hidden(number: int, shown: Tensor) -> Bool[Tensor, " item"]:
    return torch.ones(number, dtype=torch.bool, device=shown.device).index_fill(0, shown, False)


@dataclass(frozen=True)
class Neurons:
    """Neurons of a layer at one position; experts are concatenated.

    The activation is `m_n = <k_n, x> + b_n`: `keys` k_n, `coefficients` m_n as the model computes them, `biases` b_n. `rounding` is
    the largest rounding error of m_n. The output bias of experts is weighted by the router.
    """

    keys: Float[Tensor, "neuron d"]
    coefficients: Float[Tensor, " neuron"]
    rounding: Float[Tensor, " neuron"]
    biases: Float[Tensor, " neuron"]
    values: Float[Tensor, "neuron d"]
    output_bias: Float[Tensor, " d"]


def neurons_at(record: LayerRecord, position: int, operand: str, eps: float) -> Neurons:
    """Neurons of a forward pass at one position.

    Args:
        record: The layer record.
        position: The query position.
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
        path = row.coefficients(expert, ff, x)
        terms = [(weight * on[0], w, b) for on, (_, w, b) in zip(path.factors, ff.inputs, strict=True)]
        keys.append(reduce(add, [factor * w for factor, w, _ in terms]).T)
        at_zero = (weight * path.baseline).expand(len(ff.w_out))
        biases.append(reduce(add, [factor * b for factor, _, b in terms]) + at_zero)
    rounding = coefficient_rounding(row, eps)[0]
    return Neurons(
        torch.cat(keys), coefficients(row)[0], rounding, torch.cat(biases), neuron_values(block), output_bias
    )


def read_vectors(
    model: Model, vectors: Float[Tensor, "vector d"], targets: Sequence[int | None], n_tokens: int
) -> list[dict[str, Any]]:
    """Logit lens of vectors, by name of field: top tokens, entropy, and ranks and probabilities of targets.

    It uses the model's final norm, head and unembedding. If the model cannot read vectors, or a target is None, there are no tokens,
    entropy and probabilities are NaN, and ranks are 0.

    Args:
        model: The model.
        vectors: Vectors of the residual stream's space.
        targets: Token ids to find; None for a target that is not a token.
        n_tokens: Number of top tokens.

    Raises:
        IdentityError: if the read-out of the model's last layer differs from its logits.
    """
    try:
        readout = read_out(model, "final_norm")
    except UnsupportedModelError:  # no unembedding, or an untrained one
        return [{"ranks": (0,) * len(targets), "probabilities": (float("nan"),) * len(targets)}] * len(vectors)
    known = torch.tensor([0 if target is None else target for target in targets], dtype=torch.long)
    unknown = torch.tensor([target is None for target in targets], dtype=torch.bool)
    rows: list[tuple[list[Any], ...]] = []
    for logits in readout.in_chunks(vectors, _CHUNK):
        log_probabilities = logits.cpu().double().log_softmax(dim=-1)  # some devices have no float64
        chosen = log_probabilities[:, known]
        above = (log_probabilities[:, None, :] > chosen[:, :, None]).sum(dim=-1)
        columns = (
            log_probabilities.topk(min(n_tokens, log_probabilities.shape[-1])).indices,
            -(log_probabilities.exp() * log_probabilities).nansum(dim=-1),
            (above + 1).masked_fill(unknown, 0),
            chosen.exp().masked_fill(unknown, float("nan")),
        )
        rows += zip(*(column.tolist() for column in columns), strict=True)
    distinct = sorted({token for ids, *_ in rows for token in ids})
    names = dict(zip(distinct, label(model, torch.tensor(distinct)), strict=True))
    return [
        {
            "tokens": tuple(names[token] for token in ids),
            "entropy": entropy,
            "ranks": tuple(ranks),
            "probabilities": tuple(probabilities),
        }
        for ids, entropy, ranks, probabilities in rows
    ]


@strict
def top_tokens(
    model: Any, vectors: Float[Tensor, "vector d_model"], k: int = 50, *, reading: Reading = "final_norm"
) -> Int[Tensor, "vector k"]:
    """Ids of the k tokens with the largest logits of each vector [vector k], largest logit first.

    Args:
        model: As in `flow_graph`.
        vectors: Vectors of the residual stream's space, such as `graph.vectors.nodes`.
        k: Number of tokens.
        reading: "final_norm", the model's own read-out, or "direction", the unembedding alone.

    Raises:
        InputError: if `k` is not positive, or `reading` is unknown.
        UnsupportedModelError: for a model without a trained head.
    """
    whole_number(k, "k", at_least=1)
    known = identify(model)
    readout, width = read_out(known, reading), known.sizes.d_model
    if not isinstance(vectors, Tensor) or vectors.ndim != 2 or vectors.shape[1] != width:
        given = (
            f"has shape {tuple(vectors.shape)}"
            if isinstance(vectors, Tensor)
            else f"is of type {type(vectors).__name__}"
        )
        raise InputError(
            f"vectors {given}: expected a tensor [vector, {width}] of {known.name}. For one vector pass vector[None]."
        )
    if not bool(vectors.isfinite().all()):
        raise InputError("vectors has NaN or infinity: expected finite numbers.")
    return torch.cat(
        [logits.topk(min(k, logits.shape[-1])).indices.cpu() for logits in readout.in_chunks(vectors, _CHUNK)]
    )


@strict
def overlap(
    first: Int[Tensor, "pair k"],
    second: Int[Tensor, "pair k"],
    *,
    embeddings: Float[Tensor, "d_vocab d"] | None = None,
) -> Float[Tensor, " pair"]:
    """`I_k` of each pair: the fraction of the first's tokens that are among the second's [pair].

    It is symmetric, and 1 for equal vectors. Unrelated vectors have `k / d_vocab` on average only if all tokens are equally
    likely. Compare with random vectors, whose top tokens depend on the model's norm and unembedding.

    With `embeddings` tokens count by similarity: each has the largest cosine with a token of the other side, at least 0, and the
    result is the mean over both sides. Equal tokens have 1, and with one-hot rows this is `I_k`. Rows of real models share a
    mean, so subtract it first. Similar tokens are found by chance too: compare with random vectors.

    Args:
        first: Result of `top_tokens`.
        second: Result of `top_tokens`, with the same k.
        embeddings: Row of each token, such as `model.W_U.T - model.W_U.T.mean(dim=0)`; None counts equal tokens only.

    Raises:
        InputError: if both have different shapes, or a token has no row.
    """
    for name, ids in (("first", first), ("second", second)):
        if not isinstance(ids, Tensor) or ids.ndim != 2 or ids.is_floating_point():
            given = (
                f"has shape {tuple(ids.shape)} of {ids.dtype}"
                if isinstance(ids, Tensor)
                else f"is of type {type(ids).__name__}"
            )
            raise InputError(f"{name} {given}: expected token ids [pair, k], as top_tokens returns them.")
    if first.shape != second.shape:
        raise InputError(f"shapes {tuple(first.shape)} and {tuple(second.shape)}: expected equal shapes [pair, k].")
    same = first[:, :, None] == second[:, None, :]
    if embeddings is None:
        return same.any(dim=-1).double().mean(dim=-1)
    if max(int(first.max()), int(second.max())) >= len(embeddings):
        raise InputError(f"embeddings has {len(embeddings)} rows: expected one per token, as `model.W_U.T` has.")
    units = (torch.nn.functional.normalize(embeddings[ids].double(), dim=-1) for ids in (first, second))
    cosines = torch.einsum("pid,pjd->pij", *units).clamp(min=0).masked_fill(same, 1.0)
    return (cosines.amax(dim=2).mean(dim=1) + cosines.amax(dim=1).mean(dim=1)) / 2
