"""The part of a flow graph inside the feed-forward: keys and values of memories, and biases.

    read -> key n -> value n -> feed-forward
      |-> biases in -> biases out ---^

A memory writes `m_n v_n`. Integrated Gradients make of the coefficient a product with what is read, and a number that
biases bring: `m_n = <k_n, x> + b_n` with the local key `k_n = r w_n`, gated `A w_up + u B w_gate` (eq. 12-14). Memories that
are not shown bring two things: biases (theirs, and the shift of the norm before them) and tokens; the first go through the
nodes of the biases, the second are the rest.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.flow.draft import DraftNode
from tl_ffblock.flow.place import LayerPlace
from tl_ffblock.flow.pruning import ends
from tl_ffblock.layer.neurons import coefficient_rounding, coefficients, feed_forwards, neuron_name, neuron_values
from tl_ffblock.layer.records import LayerRecord


@dataclass(frozen=True)
class Memories:
    """A layer's memories at one position, experts one after the other."""

    keys: Float[Tensor, "neuron d"]
    """k_n: what the coefficient's product with is, by which the memory is turned on."""
    coefficients: Float[Tensor, " neuron"]
    """m_n, the model's own."""
    rounding: Float[Tensor, " neuron"]
    """How far rounding may put m_n from an exact one."""
    biases: Float[Tensor, " neuron"]
    """b_n: what no input brings to it."""
    values: Float[Tensor, "neuron d"]
    output_bias: Float[Tensor, " d"]
    """b_out, of experts weighed by the router."""


def memories_at(record: LayerRecord, position: int, operand: str, eps: float) -> Memories:
    """The memories of a run at one position.

    Args:
        record: The run.
        position: The query.
        operand: The scope that the feed-forward reads.
        eps: The unit of rounding.
    """
    block, row = record.block, record.rows(slice(position, position + 1))
    x = record.tensor(operand)[position : position + 1]
    own = coefficients(row)[0]
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
    return Memories(torch.cat(keys), own, rounding, torch.cat(biases), neuron_values(block), output_bias)


def draw_feed_forward(place: LayerPlace, reads: int, name: str, scope: str, operand: str) -> int:
    """Draw the feed-forward; the number of its output's node.

    Args:
        place: The layer and position.
        reads: The node that it reads.
        name: What the output is, in words.
        scope: The output's scope.
        operand: The scope that it reads.
    """
    draft, by = place.draft, place.by[scope]
    memories = memories_at(place.record, place.position, operand, place.eps)
    read = draft.nodes[reads].vector
    m, values = memories.coefficients, memories.values
    shown = ends(m * values.norm(dim=-1), place.pruning.memories)
    entering = [_draw_memory(place, reads, memories, neuron, by) for neuron in shown.tolist()]
    hidden = torch.ones(len(m), dtype=torch.bool, device=m.device)
    hidden[shown] = False
    shift = draft.nodes[reads].own if draft.nodes[reads].kind == "norm" else None
    shifted = torch.zeros_like(m) if shift is None else memories.keys @ shift
    by_tokens = memories.keys @ read - shifted
    of_shift, of_biases = (shifted * hidden) @ values, (memories.biases * hidden) @ values
    if bool(memories.biases.any()) or bool(memories.output_bias.any()) or bool(shifted.any()):
        inside = DraftNode("bias", place.layer, "biases of memories not shown", of_shift + of_biases, by, own=of_biases)
        inner = draft.add(inside)
        draft.flow(reads, inner, of_shift)
        bias = memories.output_bias
        outside = DraftNode("bias", place.layer, "biases of the feed-forward", inside.vector + bias, by, own=bias)
        entering.append(draft.add(outside))
        draft.flow(inner, entering[-1], inside.vector)
    whole = place.record.whole[scope][place.position]
    output = DraftNode("feed-forward", place.layer, name, whole, by, whole=whole, unseen=int(hidden.sum()))
    output.rest = (by_tokens * hidden) @ values
    number = draft.add(output)
    for node in entering:
        draft.flow(node, number, draft.nodes[node].vector)
    return number


def _draw_memory(place: LayerPlace, reads: int, memories: Memories, neuron: int, by: Float[Tensor, "target d"]) -> int:
    """Key and value of a memory; the value's node."""
    draft, name = place.draft, neuron_name(place.record.block, neuron)
    coefficient, value, read = float(memories.coefficients[neuron]), memories.values[neuron], draft.nodes[reads].vector
    from_read = float(memories.keys[neuron] @ read)
    # Two products are rounded, this one and the model's: |fl(<k, x>) - <k, x>| <= eps sum_j |k_j x_j|.
    of_products = 2 * place.eps * float(memories.keys[neuron].abs() @ read.abs())
    key = DraftNode("memory key", place.layer, f"memory {name}: key", memories.keys[neuron])
    key.index, key.coefficient, key.own_number = neuron, coefficient, float(memories.biases[neuron])
    key.largest = float(memories.coefficients.abs().max())
    key.rounding = float(memories.rounding[neuron]) + of_products
    written = DraftNode("memory value", place.layer, f"memory {name}: value", coefficient * value, by)
    written.index, written.coefficient = neuron, coefficient
    key.by_coefficient = written.by_coefficient = by @ value
    numbers = draft.add(key), draft.add(written)
    draft.scale(reads, numbers[0], from_read, "activation")
    draft.scale(*numbers, coefficient, "activation")
    return numbers[1]
