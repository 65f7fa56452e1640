"""A layer's graph at one position, drawn along its program: whatever the order of norms, one node a step."""

from jaxtyping import Float
from torch import Tensor

from tl_ffblock.flow.attention_flow import draw_attention
from tl_ffblock.flow.draft import DraftNode
from tl_ffblock.flow.feed_flow import draw_feed_forward
from tl_ffblock.flow.place import LayerPlace
from tl_ffblock.layer.scopes import INPUT, Add, Attend, Feed, Normalise, Step, steps_to_output


def draw_layer(place: LayerPlace, entry: int) -> int:
    """Draw a layer behind the node of its input; the number of its output's node."""
    steps = steps_to_output(place.record.block.order)
    drawn = {INPUT: entry}
    for step in steps:
        match step.operation:
            case Normalise(of, _):
                drawn[step.scope] = _draw_norm(place, step, drawn[of])
            case Attend(of):
                drawn[step.scope] = draw_attention(place, drawn[of], step.shows, step.scope)
            case Feed(of):
                drawn[step.scope] = draw_feed_forward(place, drawn[of], step.shows, step.scope, of)
            case Add() if step is steps[-1] or not _is_part_of_a_sum(step, steps):
                drawn[step.scope] = _draw_sum(place, step, steps, drawn)
    return drawn[steps[-1].scope]


def _is_part_of_a_sum(step: Step, steps: tuple[Step, ...]) -> bool:
    """Whether a sum is read by sums alone: a parallel block adds three vectors at once."""
    readers = [reader for reader in steps if step.scope in reader.operands]
    return all(isinstance(reader.operation, Add) for reader in readers)


def _summands(scope: str, steps: tuple[Step, ...], drawn: dict[str, int]) -> list[int]:
    if scope in drawn:
        return [drawn[scope]]
    (step,) = (step for step in steps if step.scope == scope)
    return [node for operand in step.operands for node in _summands(operand, steps, drawn)]


def _draw_sum(place: LayerPlace, step: Step, steps: tuple[Step, ...], drawn: dict[str, int]) -> int:
    whole = place.record.whole[step.scope][place.position]
    node = place.draft.add(DraftNode("sum", place.layer, step.shows, whole, place.by[step.scope], whole=whole))
    for operand in step.operands:
        for summand in _summands(operand, steps, drawn):
            place.draft.flow(summand, node, place.draft.nodes[summand].vector)
    return node


def _draw_norm(place: LayerPlace, step: Step, of: int) -> int:
    """The norm of a node's vector, or that node where the model has no norm here."""
    assert isinstance(step.operation, Normalise)
    norm, x = place.record.block.norm(step.operation.norm), place.draft.nodes[of].vector
    if not norm.divides:
        return of
    linear = norm.linear(x) / norm.scale(x)
    whole = None if step.at_keys else place.record.whole[step.scope][place.position]
    vector: Float[Tensor, " d"] = linear + norm.shift if whole is None else whole
    by = place.by_read if step.at_keys else place.by[step.scope]
    own = norm.shift if bool(norm.shift.any()) else None
    node = place.draft.add(DraftNode("norm", place.layer, step.shows, vector, by, whole=whole, own=own))
    place.draft.flow(of, node, linear)
    return node
