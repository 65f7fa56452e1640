"""The identities of a block, checked on cached tensors in the first forward pass of a layer.

Each identity is an equation between tensors of the model itself. They confirm which tensor a HookPoint has, the layout of
weights, and the activation function. Together they are the layer's program (scopes.py), from its input to the next norm: a block
with any other computation fails one of them.

Under hooks, an error of an identity could be the effect of an edit. Identities are then checked on eight clean tokens (`probe`),
once per model. `check_end` compares the last layer's output with the input of the model's next module.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tl_ffblock.bridge.callbacks import LastCallback, module_callbacks
from tl_ffblock.bridge.hugging_face import probe_tokens
from tl_ffblock.bridge.inputs import Batch, forward
from tl_ffblock.bridge.linears import adapted_linears
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.offloaded import runs_its_class
from tl_ffblock.bridge.records import CaptureSpec, collecting
from tl_ffblock.errors import FFBlockError, IdentityError, InputError, UnsupportedModelError
from tl_ffblock.layer.linear import LinearLayer
from tl_ffblock.layer.records import FeedForward, LayerRecord, Settings
from tl_ffblock.layer.scopes import STEPS, Add, Attend, Feed, Normalise, Step

_ROWS = 16
_MASKED_NUMBERS = 2**20
"""Largest number of pattern entries that are compared with their mask at a time."""
_CAUSAL = "pattern is zero after the query"
# TransformerLens's own modules that read the last layer's last scope.
_HEADS = ("unembed", "mlm_head")
# Packages of the modules of a model as it is loaded; "transformers_modules" are those of remote code.
_LIBRARIES = ("torch", "transformers", "transformers_modules", "transformer_lens")


def check_once(model: Model, record: LayerRecord, rtol: float) -> None:
    """Check a layer's identities on a sequence's record, unless they were checked before or a callback edits the block.

    If they were checked before, the record may be a batch's, and only the pattern's causal mask is checked.

    Raises:
        IdentityError: with layer and identity.
        UnsupportedModelError: likewise, for an architecture that is not in the table of families.
    """
    checked = model.memory.checked
    if record.edited:
        return
    if record.layer in checked:
        if record.block.causal and _error_after_query(record):  # masks may differ between passes
            raise _contradiction(model, record.layer, f"{_CAUSAL} (in this run; it was in others)")
        return
    try:
        for identity, error in identities(record.rows(slice(0, _ROWS))):
            if not error <= rtol:
                refuse_nan(model, record)
                raise _contradiction(model, record.layer, f"{identity} (relative error {error:.1e} > {rtol:.0e})")
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        if isinstance(error, FFBlockError):
            raise
        raise _contradiction(model, record.layer, f"shapes of tensors and weights agree ({error})") from error
    if record.resid_pre.shape[0] > 1:  # with a single token the pattern is 1 in any model
        checked.add(record.layer)


@torch.no_grad()
def refuse_at_once(model: Model, record: LayerRecord, rtol: float) -> None:
    """`refuse_nan` and `check_once` for a layer whose identities were checked before, with one transfer from the device.

    Raises:
        InputError: as `refuse_nan`.
        IdentityError: as `check_once`.
        UnsupportedModelError: as `check_once`.
    """
    # A sum is NaN or infinite if a term is. `refuse_nan` tells this from an overflow of the sum.
    found = [
        tensor.sum(dtype=torch.promote_types(tensor.dtype, torch.float32)).to(record.resid_pre.device)
        for tensor in (record.resid_pre, *record.whole.values())
    ]
    masked = record.block.causal and not record.edited
    *sums, error = torch.stack(
        [*found, _error_after_query(record).to(found[0]) if masked else found[0].new_zeros(())]
    ).tolist()
    if all(map(math.isfinite, sums)) and error == 0:
        return
    refuse_nan(model, record)
    check_once(model, record, rtol)


def refuse_nan(model: Model, record: LayerRecord) -> None:
    """Refuse a record in which the model's own tensors have NaN or infinity.

    Raises:
        InputError: with layer and tensor.
    """
    for name, tensor in {"resid_pre": record.resid_pre, **record.whole}.items():
        if not bool(torch.isfinite(tensor).all()):
            raise InputError(
                f"{model.name}, layer {record.layer}: the model's own {name} has NaN or infinity. Check the weights and the "
                "edits of your hooks, or use a wider dtype."
            )


def _contradiction(model: Model, layer: int, broken: str) -> Exception:
    where = f"{model.name} ({model.family.name}), layer {layer}: this does not hold on the cached tensors: {broken}."
    changed = what_changed(model, layer)
    if changed is not None:
        return (IdentityError if model.family.listed else UnsupportedModelError)(f"{where} {changed}")
    if model.family.listed:
        return IdentityError(
            f"{where} The block differs from this family's, or was changed outside its HookPoints. Reload the model."
        )
    return UnsupportedModelError(
        f"{where} The architecture is not in the table of families; its norms are those of a {model.family.order} block, but it is "
        f"not one. `tl-ffblock models` lists supported families."
    )


def what_changed(model: Model, layer: int) -> str | None:
    """Sentence about a module in or after a layer that is not the family's own, and what to do; None if none is known.

    Adapters of linear modules, whose effective weights are read, are not meant.
    """
    bound = model.layers[layer]
    owners = {bound.name("")[:-1]: bound.block}
    owners |= {name: model.hooked.get_submodule(name) for name in bound.norm_modules.values() if name}
    read = {id(part) for linear in adapted_linears(model.hooked).values() for part in linear.modules()}
    named = {
        id(module): (f"{owner}.{name}".removesuffix("."), module)
        for owner, whole in owners.items()
        for name, module in whole.named_modules()
    }
    for name, module in (found for number, found in named.items() if number not in read):
        name, kind = name.replace("._original_component", ""), type(module)
        if kind.__module__.partition(".")[0] not in _LIBRARIES:
            return (
                f"{name} is a {kind.__name__} ({kind.__module__}), whose form is not known. Merge it into the module that it "
                "wraps (peft: merge_and_unload()) before making the bridge, or use the family's own module."
            )
        if not runs_its_class(module):
            return f"{name} ({kind.__name__}) runs another forward function than its class. Reload the model."
        if module_callbacks([module]):
            return f"a torch hook is on {name} ({kind.__name__}). Remove it."
    return None


@torch.no_grad()
def identities(record: LayerRecord) -> Iterator[tuple[str, float]]:
    """Pairs of an identity's equation and its largest relative error over the rows."""
    if record.block.causal:
        yield _CAUSAL, float(_error_after_query(record))
    attention, before = record.block.attention, record.block.attn_norm
    expected = attention.values(record.resid_pre if before is None else before(record.resid_pre))
    # HookedTransformer has W_V for every head, but key-value heads at its HookPoint.
    value = record.value.repeat_interleave(expected.shape[1] // record.value.shape[1], dim=1)
    gap = (expected - value).flatten(1).norm(dim=-1)
    # Relative to the largest norm: values of an attention sink are small differences of large terms.
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
        case Add(left, right) as added:
            first, second = ("" if factor == 1 else f"{factor:g} " for factor in record.block.factors(added))
            return f"{first}{left} + {second}{right} = {step.scope}"
        case Normalise(of, norm):
            return f"{norm}({of}) = {step.scope}"
        case Feed():
            dense = isinstance(record.block.feed_forward, FeedForward)
            made = "post W_out + b_out" if dense else "sum over experts of router weight x expert output"
            return f"{made} = feed-forward output"


def _inside_feed_forward(record: LayerRecord, x: Tensor) -> Iterator[tuple[str, float]]:
    ff = record.block.feed_forward
    if not isinstance(ff, FeedForward):
        return
    assert record.pre is not None and record.post is not None
    weights = ("W_in + b_in = pre",) if ff.w_gate is None else ("W_gate + b_gate = pre", "W_in + b_in = pre_linear")
    for name, expected, shown in zip(weights, ff.pre_activations(x), (record.pre, record.pre_linear), strict=False):
        assert expected is not None and shown is not None
        yield f"feed-forward input {name}", _error(expected, shown)
    made = ff.activation.output(record.pre, record.pre_linear)
    made = made if record.post_factor is None else made * record.post_factor
    yield f"{ff.activation.name}(pre) = post", _error(made, record.post)


def _error(found: Tensor, expected: Tensor) -> float:
    size = expected.detach().norm(dim=-1)
    return float(((found - expected).detach().norm(dim=-1) / torch.where(size == 0, 1, size)).max())


@torch.no_grad()
def _error_after_query(record: LayerRecord) -> Float[Tensor, ""]:
    pattern = record.pattern
    later = (torch.arange(pattern.shape[-1], device=record.queries.device) > record.queries[..., None]).to(
        pattern.device
    )
    # Some heads at a time, since all would need as much memory as the patterns.
    some = max(1, _MASKED_NUMBERS * pattern.shape[-3] // pattern.numel())
    masked = [(heads * later.unsqueeze(-3)).abs().amax() for heads in torch.split(pattern, some, dim=-3)]
    return masked[0] if len(masked) == 1 else torch.stack(masked).amax()


def probe(model: Model, dtype: torch.dtype, layers: tuple[int, ...]) -> None:
    """Check the identities of layers on eight clean tokens, unless they were checked for this model.

    Raises:
        IdentityError: with layer and identity.
        UnsupportedModelError: as `check_once` and `check_end`.
    """
    if model.memory.probed.issuperset(layers):
        return
    with model.hooks_disabled(), collecting(model, CaptureSpec(layers, dtype)) as records:
        forward(model, Batch(probe_tokens(model.hooked)))
    for layer in layers:
        check_once(model, records[layer].sequence(0), model.tolerance)
    model.memory.probed.update(layers)
    check_end(model, dtype, layers)


def check_end(model: Model, dtype: torch.dtype, layers: Collection[int], *, always: bool = False) -> None:
    """Compare the last layer's last scope with the input of the unembedding, or of a linear module before it.

    A bridge may lack a component for a norm that runs (OPT with word_embed_proj_dim, TransformerLens 4.3). The scope would then
    be without this norm.

    Args:
        model: The model.
        dtype: Dtype of the comparison.
        layers: Requested layers; without the last one nothing is compared.
        always: Whether to compare also if the scope ends with a norm, which the identities check. Costs a forward pass of eight
            tokens.

    Raises:
        UnsupportedModelError: if they differ, with the modules that ran between.
    """
    last = model.n_layers - 1
    if last not in layers or model.memory.ends_held:
        return
    if not always and model.layers[last].norm_modules["out_norm"] is not None:
        return
    begun: list[Tensor] = []
    between: list[str] = []
    entered: list[tuple[str, Tensor]] = []

    def enter(name: str, module: nn.Module, args: tuple[Any, ...]) -> None:
        if not begun or entered or not args or not isinstance(args[0], Tensor):
            return
        if name in _HEADS or isinstance(module, nn.Linear):
            entered.append((name, args[0].detach()))
        else:
            between.append(f"{name} ({type(module).__name__})")

    spec = CaptureSpec((last,), dtype)
    with model.hooks_disabled(), collecting(model, spec) as records, ExitStack() as stack:
        stack.callback(LastCallback(model.hook_points[model.output_name], begun.append).remove)
        for name, module in _after_layers(model):
            stack.callback(module.register_forward_pre_hook(partial(enter, name)).remove)
        forward(model, Batch(probe_tokens(model.hooked)))
    if last in records:
        for name, tensor in entered:
            _refuse_other_end(model, name, tensor, records[last].whole[model.layers[last].program[-1].scope], between)
        model.memory.ends_held = True


def _after_layers(model: Model) -> list[tuple[str, nn.Module]]:
    inside = {id(module) for block in model.hooked.blocks for module in block.modules()}
    named: dict[int, tuple[str, nn.Module]] = {}
    wrapped = getattr(model.hooked, "original_model", model.hooked)
    for name, module in (*model.hooked.named_modules(), *wrapped.named_modules()):
        if id(module) not in inside:
            named.setdefault(id(module), (name.replace("._original_component", ""), module))
    return [
        (name, module)
        for name, module in named.values()
        if name in _HEADS or (not list(module.children()) and list(module.parameters(recurse=False)))
    ]


def _refuse_other_end(
    model: Model, name: str, entered: Tensor, scope: Float[Tensor, "batch pos d"], between: Sequence[str]
) -> None:
    entered = entered.to(scope)
    error = float((entered - scope).norm() / scope.norm()) if entered.shape == scope.shape else float("nan")
    if not error <= model.tolerance:
        raise UnsupportedModelError(
            f"{model.name} ({model.family.name}): the input of {name} is not the last layer's "
            f"{model.layers[-1].program[-1].scope} (relative difference {error:.1e}), so that scope would omit "
            f"{', '.join(between) or 'code without a module of its own'}, which runs between and has no HookPoint in this "
            f"TransformerLens. Earlier layers can be decomposed: use layers=range({model.n_layers - 1})."
        )
