"""The identities of a block, checked on captured tensors when a model's layer is first seen.

They say that our reading of the model is right: which HookPoint carries what, how weights are laid
out, which activation runs. Each is an equation between tensors of the model itself. Together they are
the layer's whole program (scopes.py), from its input to the next norm, so a block that does anything
else misses one of them.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import FFBlockError, IdentityError, InputError, UnsupportedModelError
from tl_ffblock.layer.linear import LinearLayer
from tl_ffblock.layer.records import FeedForward, LayerRecord
from tl_ffblock.layer.scopes import STEPS, Add, Attend, Feed, Normalise, Step
from tl_ffblock.layer.settings import Settings

_ROWS = 16
_CAUSAL = "pattern is zero after the query"


def check_once(model: Model, record: LayerRecord, rtol: float) -> None:
    """Check a layer's identities on a sequence's record, unless they were or a callback edits the block.

    Where they were, the record may be a batch's.

    Raises:
        IdentityError: naming layer and identity.
        UnsupportedModelError: the same, for an architecture outside the table of families.
    """
    checked = model.memory.checked
    if record.edited:
        return
    if record.layer in checked:
        if record.block.causal and _error_after_query(record):  # a mask of this run may allow what others did not
            raise _contradiction(model, record.layer, f"{_CAUSAL} (in this run; it was in others)")
        return
    try:
        for identity, error in identities(record.rows(slice(0, _ROWS))):
            if not error <= rtol:
                refuse_nan(model, record)
                raise _contradiction(model, record.layer, f"{identity} (relative error {error:.1e} > {rtol:.0e})")
    except (RuntimeError, ValueError, TypeError) as error:
        if isinstance(error, FFBlockError):
            raise
        raise _contradiction(model, record.layer, f"shapes of tensors and weights agree ({error})") from error
    if record.resid_pre.shape[0] > 1:  # with a single token any pattern is 1
        checked.add(record.layer)


def refuse_nan(model: Model, record: LayerRecord) -> None:
    """Refuse a record in which the model's own tensors hold NaN or infinity.

    Raises:
        InputError: naming layer and tensor.
    """
    for name, tensor in {"resid_pre": record.resid_pre, **record.whole}.items():
        if not bool(torch.isfinite(tensor).all()):
            raise InputError(
                f"{model.name}, layer {record.layer}: the model's own {name} holds NaN or infinity. Check the weights, the "
                "edits of your hooks, or use a wider dtype."
            )


def _contradiction(model: Model, layer: int, broken: str) -> Exception:
    where = f"{model.name} ({model.family.name}), layer {layer}: this does not hold on the captured tensors: {broken}."
    if model.family.listed:
        return IdentityError(
            f"{where} The block is not what this family's is, or was changed outside its HookPoints; no map is made."
        )
    return UnsupportedModelError(
        f"{where} The architecture is not in the table, was taken for a {model.family.order} block for its norms, and is "
        f"none; no map is made. `tl-ffblock models` lists what is supported."
    )


@torch.no_grad()
def identities(record: LayerRecord) -> Iterator[tuple[str, float]]:
    """Every identity of a block with its largest relative error over the rows."""
    if record.block.causal:
        yield _CAUSAL, _error_after_query(record)
    attention, before = record.block.attention, record.block.attn_norm
    expected = attention.values(record.resid_pre if before is None else before(record.resid_pre))
    # HookedTransformer has W_V once for every head, where its HookPoint shows the key-value heads.
    value = record.value.repeat_interleave(expected.shape[1] // record.value.shape[1], dim=1)
    gap = (expected - value).flatten(1).norm(dim=-1)
    # By the largest: the values of an attention sink are what remains of large terms.
    name = "layer input W_V + b_V = value" if before is None else "norm(layer input) W_V + b_V = value"
    yield name, float(gap.max() / value.flatten(1).norm(dim=-1).max())
    layer = LinearLayer(record, Settings())
    for step in STEPS[record.block.order]:
        if isinstance(step.operation, Feed):
            yield from _inside_feed_forward(record, record.tensor(step.operation.of))
        yield _identity(record, step), _error(layer.value(step.operation), record.whole[step.scope])


def _identity(record: LayerRecord, step: Step) -> str:
    match step.operation:
        case Attend():
            return "sum over heads and keys of pattern x value W_O + b_O = attention output"
        case Add(left, right):
            return f"{left} + {right} = {step.scope}"
        case Normalise(of, norm):
            return f"{norm}({of}) = {step.scope}"
        case Feed():
            dense = isinstance(record.block.feed_forward, FeedForward)
            made = "post W_out + b_out" if dense else "sum over experts of router weight x expert output"
            return f"{made} = feed-forward output"


def _inside_feed_forward(record: LayerRecord, x: Tensor) -> Iterator[tuple[str, float]]:
    """What a dense feed-forward shows of its inside; experts show nothing."""
    ff = record.block.feed_forward
    if not isinstance(ff, FeedForward):
        return
    assert record.pre is not None and record.post is not None
    weights = ("W_in + b_in = pre",) if ff.w_gate is None else ("W_gate + b_gate = pre", "W_in + b_in = pre_linear")
    pairs = zip(weights, ff.pre_activations(x), (record.pre, record.pre_linear), strict=False)
    for name, expected, shown in pairs:
        assert expected is not None and shown is not None
        yield f"feed-forward input {name}", _error(expected, shown)
    yield f"{ff.activation.name}(pre) = post", _error(ff.activation.output(record.pre, record.pre_linear), record.post)


def _error(found: Tensor, expected: Tensor) -> float:
    size = expected.detach().norm(dim=-1)
    return float(((found - expected).detach().norm(dim=-1) / torch.where(size == 0, 1, size)).max())


@torch.no_grad()
def _error_after_query(record: LayerRecord) -> float:
    later = torch.arange(record.pattern.shape[-1], device=record.queries.device) > record.queries[..., None]
    # By head, lest as much memory as all patterns is needed once more.
    return max(float((head * later.to(head.device)).abs().max()) for head in record.pattern.unbind(dim=-3))
