"""The identities of a block, checked on captured tensors when a model's layer is first seen.

They say that our reading of the model is right: which HookPoint carries what, how weights are laid
out, which activation runs. Each is an equation between tensors of the model itself.
"""

from collections.abc import Iterator
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from tl_ffblock.bridge.families import Model
from tl_ffblock.errors import IdentityError
from tl_ffblock.parts import attend, relative_error
from tl_ffblock.records import Experts, FeedForward, LayerRecord
from tl_ffblock.scopes import PROGRAMS, Add, Attend, Feed, Normalise

_ROWS = 16
_seen: WeakKeyDictionary[object, set[int]] = WeakKeyDictionary()


def check_once(model: Model, record: LayerRecord, rtol: float) -> None:
    """Check a layer's identities on a sequence's record, unless they were or a callback edits the block.

    Raises:
        IdentityError: naming layer and identity.
    """
    seen = _seen.setdefault(model.lens, set())
    if record.layer in seen or record.edited:
        return
    for identity, error in identities(record.rows(slice(0, _ROWS))):
        if not error <= rtol:
            raise IdentityError(
                f"{model.name} ({model.family.name}), layer {record.layer}: {identity} does not hold on the captured "
                f"tensors (relative error {error:.1e} > {rtol:.0e}). The block is not what this family's is, or was "
                "changed outside its HookPoints; no map is made."
            )
    seen.add(record.layer)


@torch.no_grad()
def identities(record: LayerRecord) -> Iterator[tuple[str, float]]:
    """Every identity of a block with its largest relative error over the rows."""
    if record.block.causal:
        later = torch.arange(record.resid_pre.shape[0], device=record.queries.device) > record.queries[:, None]
        yield "pattern is zero after the query", float((record.pattern * later).abs().max())
    for step in PROGRAMS[record.block.order]:
        whole = record.whole[step.scope]
        match step.operation:
            case Attend():
                name = "sum over heads and keys of pattern x value W_O + b_O = attention output"
                yield name, _error(attend(record, value_bias="bias").total(), whole)
            case Add(left, right):
                yield f"{left} + {right} = {step.scope}", _error(record.tensor(left) + record.tensor(right), whole)
            case Normalise(of, norm):
                yield f"{norm}({of}) = {step.scope}", _error(record.block.norm(norm)(record.tensor(of)), whole)
            case Feed(of):
                ff = record.block.feed_forward
                x = record.tensor(of)
                yield from (
                    _dense(record, ff, x, whole) if isinstance(ff, FeedForward) else _experts(record, ff, x, whole)
                )


def _dense(record: LayerRecord, ff: FeedForward, x: Tensor, whole: Tensor) -> Iterator[tuple[str, float]]:
    pre, pre_linear = ff.pre_activations(x)
    assert record.pre is not None and record.post is not None
    yield (
        f"feed-forward input {'W_in + b_in' if ff.w_gate is None else 'W_gate + b_gate'} = pre",
        _error(pre, record.pre),
    )
    if pre_linear is not None:
        assert record.pre_linear is not None
        yield "feed-forward input W_in + b_in = pre_linear", _error(pre_linear, record.pre_linear)
    yield f"{ff.activation.name}(pre) = post", _error(ff.activation.output(record.pre, record.pre_linear), record.post)
    yield "post W_out + b_out = feed-forward output", _error(record.post @ ff.w_out + ff.b_out, whole)


def _experts(record: LayerRecord, ff: Experts, x: Tensor, whole: Tensor) -> Iterator[tuple[str, float]]:
    assert record.routing is not None
    total = torch.zeros_like(whole)
    for expert, weight in zip(ff.experts, record.routing.T, strict=True):
        post = expert.activation.output(*expert.pre_activations(x))
        total += weight[:, None] * (post @ expert.w_out + expert.b_out)
    yield "sum over experts of router weight x expert output = feed-forward output", _error(total, whole)


def _error(found: Tensor, expected: Tensor) -> float:
    return float(relative_error(found - expected, expected).max())
