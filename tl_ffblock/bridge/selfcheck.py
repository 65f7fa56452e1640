"""The identities of a block, checked on captured tensors when a model's layer is first seen.

They say that our reading of the model is right: which HookPoint carries what, how weights are laid
out, which activation runs. Each is an equation between tensors of the model itself.
"""

from collections.abc import Iterator
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from tl_ffblock.activations import Activation
from tl_ffblock.bridge.families import Model
from tl_ffblock.errors import IdentityError
from tl_ffblock.parts import attend, relative_error
from tl_ffblock.records import FeedForward, LayerRecord

_ROWS = 16
_seen: WeakKeyDictionary[object, set[int]] = WeakKeyDictionary()

_SUMS = {
    "post_ln": (("AttnRes", "Attn", None), ("AtbFfRes", "AtbFf", "Atb")),
    "pre_ln": (("Atb", "Attn", None), ("AtbLnFfRes", "AtbLnFf", "Atb")),
}
_FEED_FORWARD = {"post_ln": ("Atb", "AtbFf"), "pre_ln": ("AtbLn", "AtbLnFf")}


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
    whole, ff = record.whole, record.block.feed_forward
    yield "sum over heads and keys of pattern x value W_O + b_O = attn_out", _error(
        attend(record, value_bias="bias").total(), whole["Attn"]
    )
    for total, branch, stream in _SUMS[record.block.order]:
        start = record.resid_pre[record.queries] if stream is None else whole[stream]
        yield f"{stream or 'resid_pre'} + {branch} = {total}", _error(start + whole[branch], whole[total])
    if record.block.causal:
        later = torch.arange(record.resid_pre.shape[0], device=record.queries.device) > record.queries[:, None]
        yield "pattern is zero after the query", float((record.pattern * later).abs().max())
    yield from _feed_forward(record, ff)


def _feed_forward(record: LayerRecord, ff: FeedForward) -> Iterator[tuple[str, float]]:
    before, after = (record.whole[scope] for scope in _FEED_FORWARD[record.block.order])
    assert record.pre is not None and record.post is not None
    if ff.w_gate is None:
        yield "feed-forward input W_in + b_in = pre", _error(before @ ff.w_in + ff.b_in, record.pre)
    else:
        assert ff.b_gate is not None and record.pre_linear is not None
        yield "feed-forward input W_gate + b_gate = pre", _error(before @ ff.w_gate + ff.b_gate, record.pre)
        yield "feed-forward input W_in + b_in = pre_linear", _error(before @ ff.w_in + ff.b_in, record.pre_linear)
    yield f"{ff.activation.name}(pre) = post", _error(_post(ff.activation, record.pre, record.pre_linear), record.post)
    yield "post W_out + b_out = mlp_out", _error(record.post @ ff.w_out + ff.b_out, after)


def _post(activation: Activation, pre: Tensor, pre_linear: Tensor | None) -> Tensor:
    return activation(pre) if pre_linear is None else activation(pre) * pre_linear


def _error(found: Tensor, expected: Tensor) -> float:
    return float(relative_error(found - expected, expected).max())
