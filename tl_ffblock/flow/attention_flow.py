"""The part of a flow graph inside attention: queries, keys, values, heads and rows of W_O.

    read -> qkv -> q_h -> k_j -> v_j -> head h -> heads -> rows of W_O -> attention
                                                    |-> biases ----------^

A head writes `sum_j P_ij v_j W_O`, heads together `sum_e z_e W_O[e]` over the rows of W_O. Rows that are not shown bring
two things: biases (those of values, the shift of the norm before them) and tokens; the first go through the node of the
biases, the second are the rest.
"""

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.flow.draft import DraftNode
from tl_ffblock.flow.place import LayerPlace
from tl_ffblock.flow.pruning import ends, largest
from tl_ffblock.layer.records import LayerRecord


def draw_attention(place: LayerPlace, reads: int, name: str, scope: str) -> int:
    """Draw attention; the number of its output's node.

    Args:
        place: The layer and position.
        reads: The node that attention reads.
        name: What the output is, in words.
        scope: The output's scope.
    """
    draft, record, i = place.draft, place.record, place.position
    read = draft.nodes[reads].vector
    qkv = draft.add(DraftNode("qkv", place.layer, "what queries, keys and values are made of", read, place.by_read))
    draft.flow(reads, qkv, read)
    pattern, values = record.pattern[:, i], record.head_values
    z = einsum(pattern, values, "head key, key head e -> head e")
    written = einsum(z, record.block.attention.w_o, "head e, head e d -> head d")
    shown = largest(written.norm(dim=-1), place.pruning.heads)
    hidden = _hidden(len(written), shown)
    drawn = [_draw_head(place, qkv, head, written[head], scope) for head in shown.tolist()]
    together = DraftNode("heads", place.layer, "heads together", written.sum(dim=0), place.by[scope])
    together.rest, together.unseen = written[hidden].sum(dim=0), len(hidden)
    heads = draft.add(together)
    for node in drawn:
        draft.flow(node, heads, draft.nodes[node].vector)
    return _draw_rows(place, heads, z, name, scope)


def _draw_head(place: LayerPlace, qkv: int, head: int, written: Float[Tensor, " d"], scope: str) -> int:
    """A head with its query and the keys and values it attends to most; the head's node."""
    draft, record, i, weights = place.draft, place.record, place.position, place.query_keys
    attended, w_o = record.pattern[head, i], record.block.attention.w_o[head]
    from_read = einsum(draft.nodes[qkv].vector, weights.w_q[head], weights.w_k[head], "d, d e, c e -> c")
    own = weights.w_k[head] @ weights.b_q[head]
    of_head = f"head {head}"
    query = draft.add(
        DraftNode("query", place.layer, f"{of_head}: query", from_read + own, head=head, own=own, index=i)
    )
    draft.flow(qkv, query, from_read, "query")
    brought = attended[:, None] * (record.head_values[:, head] @ w_o)
    shown = largest(attended, place.pruning.values)
    hidden = _hidden(len(attended), shown)
    node = DraftNode("head", place.layer, of_head, written, place.by[scope], head=head)
    node.rest, node.unseen = brought[hidden].sum(dim=0), len(hidden)
    numbers = []
    for j in shown.tolist():
        score, weight = _score(record, head, i, j), float(attended[j])
        token = f"of {draft.labels[j]!r} at {j}"
        answered = weights.answered_to(weights.keys(_read_at(place, j)))[head]
        key = DraftNode("key", place.layer, f"{of_head}: key {token}", answered, head=head, index=j, coefficient=score)
        value = DraftNode(
            "value",
            place.layer,
            f"{of_head}: value {token}",
            brought[j],
            place.by[scope],
            head=head,
            index=j,
            coefficient=weight,
        )
        numbers.append((draft.add(key), draft.add(value)))
        draft.scale(query, numbers[-1][0], float("nan") if score is None else score, "score")
        draft.scale(*numbers[-1], weight, "attention")
    drawn = draft.add(node)
    for _, value_node in numbers:
        draft.flow(value_node, drawn, draft.nodes[value_node].vector)
    return drawn


def _read_at(place: LayerPlace, j: int) -> Float[Tensor, " d"]:
    """What attention reads at a position."""
    x, norm = place.record.resid_pre[j], place.record.block.attn_norm
    return x if norm is None else norm(x)


def _score(record: LayerRecord, head: int, i: int, j: int) -> float | None:
    """`q k` of a pair as attention multiplies them: after rotations and norms of their own, before scale and mask."""
    if record.query is None or record.key is None:
        return None
    query, key = record.query[i, head], record.key[j]
    return float(query @ key[head // (record.query.shape[1] // len(key))])


def _draw_rows(place: LayerPlace, heads: int, z: Float[Tensor, "head e"], name: str, scope: str) -> int:
    """Rows of W_O, biases and attention's output; its node."""
    draft, record, by = place.draft, place.record, place.by[scope]
    attention = record.block.attention
    w_o, coefficients = attention.w_o.flatten(0, 1), z.flatten()
    constant = (record.pattern[:, place.position].sum(dim=-1)[:, None] * record.block.value_constant).flatten()
    shown = ends(coefficients * w_o.norm(dim=-1), place.pruning.rows)
    hidden = _hidden(len(coefficients), shown)
    unseen = (coefficients - constant)[hidden] @ w_o[hidden]
    of_biases = constant[hidden] @ w_o[hidden]
    whole = record.whole[scope][place.position]
    rows = []
    for row in shown.tolist():
        head, dimension = divmod(row, z.shape[1])
        number = float(coefficients[row])
        node = DraftNode("row", place.layer, f"head {head}: row {dimension} of W_O", number * w_o[row], by)
        node.head, node.index, node.coefficient, node.by_coefficient = head, dimension, number, by @ w_o[row]
        rows.append(draft.add(node))
        draft.scale(heads, rows[-1], number, "activation")
    biases = bool(attention.b_o.any()) or bool(constant.any())
    if biases:
        bias = DraftNode("bias", place.layer, "biases of attention", of_biases + attention.b_o, by, own=attention.b_o)
        rows.append(draft.add(bias))
        draft.flow(heads, rows[-1], of_biases)
    output = draft.add(
        DraftNode("attention", place.layer, name, whole, by, whole=whole, rest=unseen, unseen=len(hidden))
    )
    for row in rows:
        draft.flow(row, output, draft.nodes[row].vector)
    return output


def _hidden(number: int, shown: Tensor) -> Tensor:
    """What of so many things is not shown."""
    left = torch.ones(number, dtype=torch.bool, device=shown.device)
    left[shown] = False
    return left.nonzero()[:, 0]
