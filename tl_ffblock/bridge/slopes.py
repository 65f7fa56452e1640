"""Local rules as callbacks on HookPoints, which change no value, only slopes.

1. A norm is a linear form of its input once its scale is the run's own number; an activation by its
   Integrated Gradients in closed form (layer/activations.py); attention once queries and keys are detached,
   with everything between them and the pattern (rotation, norms of their own, soft caps, masks).
2. Of each the model's own tensor goes on, with the slope of that form (`Tape.carry`). The model between these
   places is linear, so one backward pass shares a target out among tokens, positions and biases, exactly.
3. Every bias has a dial where it enters, so that its share is a derivative too (layer/local_forms.py). Edits of users'
   hooks have one on both sides: what they add that no tensor before them brought.

Forms and dials are fitted before users' callbacks at a HookPoint, inputs are read after them: an edit is part of the run,
and its own slope counts.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from tl_ffblock.bridge.collector import hook_point
from tl_ffblock.bridge.ends import fit_embedding, fit_head, norm_places, token_embedding_name
from tl_ffblock.bridge.experts import fit_experts
from tl_ffblock.bridge.linears import bias
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.sites import branch_output_name, has_experts, is_gated, output_name, values_name
from tl_ffblock.bridge.tape import EMBEDDING, Fittings, Place, Tape
from tl_ffblock.bridge.taps import edited_names
from tl_ffblock.bridge.weights import read_activation, read_norm, working_dtype
from tl_ffblock.layer.local_forms import activated, normed, scaled
from tl_ffblock.layer.records import Norm

Branch: TypeAlias = Literal["attn", "mlp"]
RuleName: TypeAlias = Literal["path", "patching", "gradient"]


@dataclass(frozen=True)
class Rules:
    """Which local slopes are replaced."""

    name: RuleName
    norms: bool
    """Norms with the run's own scale, in place of their gradient."""
    feed_forward: bool
    """Activations by Integrated Gradients from zero, in place of their gradient; experts with the router frozen."""
    attention: bool
    """Attention with the run's own pattern, in place of its gradient."""

    @property
    def complete(self) -> bool:
        """Whether everything is linear, so that shares sum to the target."""
        return self.norms and self.feed_forward and self.attention


RULES: dict[RuleName, Rules] = {
    "path": Rules("path", norms=True, feed_forward=True, attention=True),
    "patching": Rules("patching", norms=True, feed_forward=True, attention=False),
    "gradient": Rules("gradient", norms=False, feed_forward=False, attention=False),
}


@contextmanager
def local_slopes(model: Model, rules: Rules, tape: Tape) -> Iterator[Fittings]:
    """Local rules for the forward passes inside, which write their dials and tensors to the tape.

    Where a bridge multiplies its embeddings (Granite), TransformerLens 4.3 skips their HookPoint unless a callback that was
    added by its own `add_hook` is there: one that does nothing is.
    """
    fittings = Fittings(partial(hook_point, model), model.hooked.get_submodule)
    fit_embedding(model, tape, fittings)
    for layer, name in norm_places(model):
        _fit_norm(model, rules, tape, fittings, layer, name)
    for layer in range(model.n_layers):
        _fit_layer(model, rules, tape, fittings, layer)
    fit_head(model, rules.feed_forward, tape, fittings)
    _fit_edits(model, tape, fittings)
    with model.hooked.hooks(fwd_hooks=[(token_embedding_name(model), _unchanged)]):
        try:
            fittings.fit()
            yield fittings
        finally:
            fittings.remove()


def _unchanged(x: Tensor, hook: object = None) -> None:
    """A callback of TransformerLens's own kind that does nothing."""


def _fit_norm(model: Model, rules: Rules, tape: Tape, fittings: Fittings, layer: int, name: str) -> None:
    on_bridge = model.api == "TransformerBridge"
    if "norms" in tape.keeps:
        enter = partial(_keep_norm_input, tape, name)
        fittings.after(f"{name}.hook_in", enter) if on_bridge else fittings.input_of(name, enter)
    norm = read_norm(model, name, working_dtype(model))
    shift = tape.biased(Place("bias", layer, f"{name}.b"), norm.shift)
    if not on_bridge:  # its norms divide by what passes their own HookPoint
        if rules.norms and norm.divides:
            fittings.after(f"{name}.hook_scale", Tensor.detach)
        fittings.output_of(name, shift)
        return
    if not rules.norms:
        fittings.before(f"{name}.hook_out", shift)
        return
    read: list[Tensor] = []

    def form(y: Tensor) -> Tensor:
        x = read.pop()
        onward, linear = normed(y, _beside(norm, x), x)
        tape.compare(name, y, linear)
        return onward if shift is None else shift(onward)

    fittings.after(f"{name}.hook_in", read.append)
    fittings.before(f"{name}.hook_out", form)


def _keep_norm_input(tape: Tape, name: str, x: Tensor) -> None:
    tape.norm_inputs[name] = x.detach()


def _beside(norm: Norm, x: Tensor) -> Norm:
    """The norm on the device of what enters it."""
    if norm.gain.device == x.device:
        return norm
    return Norm(norm.gain.to(x.device), norm.shift.to(x.device), norm.eps, norm.centred, norm.divides)


def _fit_layer(model: Model, rules: Rules, tape: Tape, fittings: Fittings, layer: int) -> None:
    """The residual stream at the layer's input, attention, feed-forward, and at the last layer its output."""
    block = f"blocks.{layer}"
    _fit_boundary(tape, fittings, layer, f"{block}.hook_resid_pre")
    if rules.attention:
        for site in ("q", "k"):
            fittings.after(f"{block}.attn.hook_{site}", Tensor.detach)
    for site, name in _kept_sites(model, rules, layer).items():
        if site in tape.keeps:
            fittings.after(name, partial(_keep, tape, site, layer))
    values = values_name(layer)
    if "z_made" in tape.keeps and edited_names({values: hook_point(model, values)}):
        fittings.before(values, partial(_keep, tape, "z_made", layer))
    if "ff_in" in tape.keeps and model.family.order != "attn_only":
        _fit_ff_input(model, tape, fittings, layer)
    _fit_biases(model, tape, fittings, layer)
    if model.family.order != "attn_only":
        if not has_experts(model.hooked.blocks[layer].mlp):
            _fit_activation(model, rules, tape, fittings, layer)
        else:
            fit_experts(model, rules.feed_forward, tape, fittings, layer)
    if "mlp_out" in tape.keeps and _is_seen_behind_norm(model):
        fittings.output_of(f"{block}.mlp", partial(_keep, tape, "mlp_out", layer))
    if layer + 1 == model.n_layers:
        _fit_boundary(tape, fittings, layer + 1, output_name(model))


def _kept_sites(model: Model, rules: Rules, layer: int) -> dict[str, str]:
    """HookPoints of what a tape may keep of a layer; detached queries and keys have no derivatives to keep."""
    block = f"blocks.{layer}"
    sites = {"z": values_name(layer), "pattern": f"{block}.attn.hook_pattern"}
    sites |= dict.fromkeys(("value", "v"), f"{block}.attn.hook_v")
    if not rules.attention:
        sites |= {site: f"{block}.attn.hook_{site}" for site in ("q", "k")}
    if model.family.order != "attn_only" and not _is_seen_behind_norm(model):
        on_bridge = model.api == "TransformerBridge"
        sites["mlp_out"] = branch_output_name(model, layer, "mlp") if on_bridge else f"{block}.hook_mlp_out"
    return sites


def _is_seen_behind_norm(model: Model) -> bool:
    """Whether what feed-forwards give is shown behind the norm of their branch: HookedTransformer has no HookPoint before."""
    return model.api != "TransformerBridge" and model.family.order in ("sandwich", "norm_after")


def _fit_ff_input(model: Model, tape: Tape, fittings: Fittings, layer: int) -> None:
    """What the feed-forward reads, as a tensor that nothing else reads: the residual stream may be the same numbers."""
    mlp = f"blocks.{layer}.mlp"

    def keep(x: Tensor) -> Tensor:
        return _keep(tape, "ff_in", layer, x.view_as(x))

    if model.api != "TransformerBridge":
        fittings.input_of(mlp, keep)
        return
    inner, module = f"{mlp}.in.hook_in", model.hooked.blocks[layer].mlp
    # Hugging Face's BERT, and OPT of TransformerLens 3, have no module that is the whole feed-forward.
    dense = inner in model.hook_points and not is_gated(module) and not has_experts(module)
    fittings.after(inner if dense else f"{mlp}.hook_in", keep)


def _fit_boundary(tape: Tape, fittings: Fittings, layer: int, name: str) -> None:
    measured = tape.measured(Place("residual", layer, ""))
    fittings.after(name, lambda x: _keep(tape, "residual", layer, measured(x)))


def _keep(tape: Tape, name: str, layer: int, x: Tensor) -> Tensor:
    tape.kept[name, layer] = x
    return x


def _fit_biases(model: Model, tape: Tape, fittings: Fittings, layer: int) -> None:
    """Dials on the biases of attention and of a dense feed-forward; norms have theirs with their slopes."""
    block, prefix = model.hooked.blocks[layer], f"blocks.{layer}"

    def biased(name: str, known: Tensor | None) -> Callable[[Tensor], Tensor] | None:
        return tape.biased(Place("bias", layer, f"{prefix}.{name}"), known)

    b_v = bias(block.attn, "b_V")
    if (
        model.api != "TransformerBridge" and b_v is not None
    ):  # once for every head, where the HookPoint has key-value heads
        b_v = b_v[:: model.n_heads // (getattr(model.hooked.cfg, "n_key_value_heads", None) or model.n_heads)]
    fittings.before(f"{prefix}.attn.hook_v", biased("attn.b_V", b_v))
    _at_output(model, fittings, layer, "attn", biased("attn.b_O", bias(block.attn, "b_O")))
    if model.family.order == "attn_only" or has_experts(block.mlp):
        return
    gated = is_gated(block.mlp)
    fittings.before(f"{prefix}.mlp.hook_pre{'_linear' if gated else ''}", biased("mlp.b_in", bias(block.mlp, "b_in")))
    if gated:
        fittings.before(f"{prefix}.mlp.hook_pre", biased("mlp.b_gate", bias(block.mlp, "b_gate")))
    _at_output(model, fittings, layer, "mlp", biased("mlp.b_out", bias(block.mlp, "b_out")))


def _at_output(
    model: Model, fittings: Fittings, layer: int, branch: Branch, change: Callable[[Tensor], Tensor] | None
) -> None:
    """Change what a branch gives, before any norm of the branch."""
    if model.api == "TransformerBridge":
        fittings.before(branch_output_name(model, layer, branch), change)
    else:
        fittings.output_of(f"blocks.{layer}.{branch}", change)


def _fit_activation(model: Model, rules: Rules, tape: Tape, fittings: Fittings, layer: int) -> None:
    mlp = f"blocks.{layer}.mlp"
    if "post" in tape.keeps:
        fittings.after(f"{mlp}.hook_post", partial(_keep, tape, "post", layer))
    if not rules.feed_forward:
        return
    activation = read_activation(model, layer)
    gated = is_gated(model.hooked.blocks[layer].mlp)
    zero = Place("bias", layer, f"{mlp}.{activation.name}(0)")
    read: dict[str, Tensor] = {}
    for site in ("pre", "pre_linear") if gated else ("pre",):
        fittings.after(f"{mlp}.hook_{site}", partial(read.__setitem__, site))
    wide = working_dtype(model)

    def form(y: Tensor) -> Tensor:
        pre, linear = read.pop("pre").to(wide), read.pop("pre_linear").to(wide) if gated else None
        with torch.no_grad():
            coefficients = activation.coefficients(pre.detach(), None if linear is None else linear.detach())
        onward, linear_form = activated(y, coefficients, pre, linear)
        tape.compare(f"{mlp}.hook_post", y, linear_form)
        at_zero = tape.biased(zero, coefficients.baseline.expand(y.shape[-1]))
        return onward if at_zero is None else at_zero(onward)

    fittings.before(f"{mlp}.hook_post", form)


def _fit_edits(model: Model, tape: Tape, fittings: Fittings) -> None:
    """What callbacks of users add to the values of a run: a dial before them, turned back, and one after them."""
    for name in edited_names(model.hook_points):
        place = Place("edit", _layer_of(model, name), name)
        entered: list[Tensor] = []

        def enter(x: Tensor, place: Place = place, entered: list[Tensor] = entered) -> Tensor | None:
            if not x.is_floating_point():
                return None
            entered.append(x.detach())
            return scaled(x, -tape.dial(place, x)).clone()  # which an edit in place may change

        def leave(y: Tensor, place: Place = place, entered: list[Tensor] = entered) -> Tensor | None:
            if not y.is_floating_point():
                return None
            if not torch.equal(y.detach().reshape(-1), entered.pop().reshape(-1)):
                tape.edited.add(place)
            return scaled(y, tape.dial(place, y))

        fittings.before(name, enter, edits=True)
        fittings.after(name, leave, edits=True)


def _layer_of(model: Model, name: str) -> int:
    """The layer behind whose input an edit comes in."""
    block = re.match(r"blocks\.(\d+)\.(.*)", name)
    if block is None:
        return EMBEDDING if "embed" in name and "unembed" not in name else model.n_layers
    return int(block[1]) - (block[2] in ("hook_resid_pre", "hook_in"))
