"""Linearised modules as callbacks on HookPoints, which change no value, only gradients.

1. A norm is a linear function of its input if its scale is constant. An activation is linearised by Integrated Gradients in closed
   form (layer/activations.py). Attention is linear in values if queries and keys are detached, with everything between them and
   the pattern (rotation, their own norms, soft caps, masks).
2. The model's own tensor is the output, with the gradient of the linear function (`GradientCache.carry`). Everything else between these
   HookPoints is linear, so one backward pass attributes a target to tokens, positions and biases exactly.
3. Every bias has a gate of ones where it is added, so that its attribution is a derivative too (layer/linear.py). User edits have
   one gate before and one after: the difference is what they add.

Rules and gates are installed before user hooks at a HookPoint, inputs are read after them: an edit is part of the forward pass, and
its own gradient counts.

Before the first layer and after the last:

| | bridge | HookedTransformer | HookedEncoder |
|---|---|---|---|
| tokens | `embed.hook_out` | `hook_embed`, with a norm after them that norm's input | `embed.hook_embed` |
| norm of the embeddings | `embed_ln` | `embed.ln` | `embed.ln` |
| encoder's head: linear, activation, norm | `mlm_head`, -, `ln_final` | - | `mlm_head` |

Experts of a mixture have no HookPoint inside on a bridge. Their linear function is computed from the layer's weights, with constant
router weights and Integrated Gradients of each expert, at the HookPoint of their output. If experts keep their own gradients, the
same computation gives the gradients of their biases, which have no other source.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.callbacks import Change, edited_names
from tl_ffblock.bridge.gradient_cache import EMBEDDING, END, Fittings, GradientCache, Kind, Place
from tl_ffblock.bridge.layers import ADDED, BoundLayer, has_norm
from tl_ffblock.bridge.linears import bias, head_linear, unwrapped
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.offloaded import weights_on_device
from tl_ffblock.bridge.readout import bias_of_unembedding
from tl_ffblock.errors import CompletenessError, InputError, UnsupportedModelError
from tl_ffblock.layer.activations import KNOWN, Activation
from tl_ffblock.layer.linear import activated, added, carried, normed, scaled, shared
from tl_ffblock.layer.mixers import Constant, MixerSite
from tl_ffblock.layer.records import FeedForward
from tl_ffblock.layer.scopes import Branch, Normalise
from tl_ffblock.signatures import strict

RuleName: TypeAlias = Literal["path", "patching", "gradient"]
# Terms added to token embeddings, and their possible HookPoints; the first existing one is used.
_TERMS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("position", ("pos_embed.hook_out", "hook_pos_embed", "embed.hook_pos_embed")),
    ("token type", ("token_type_embed.hook_out", "embed.hook_token_type_embed")),
)
# Norms whose output is read by attention and feed-forwards, and not added to the residual stream.
_READ_BY_BRANCHES = ("attn_norm", "ff_norm")
# Dense module, activation and norm between final norm and unembedding (ModernBERT's decoder), which have no HookPoint.
_PREDICTION = "prediction_head._original_component"
# Position embeddings that are not a term: TransformerLens 4.3's hook_pos_embed belongs to a module that never runs.
_NOT_ADDED = ("rotary", "alibi")


@strict
@dataclass(frozen=True)
class Rules:
    """Which modules are linearised otherwise than by their gradient. Your own rules need a name of their own."""

    name: str
    norms: bool
    """Norms of the residual stream and of branches have constant scales, instead of their gradient. QK norm is part of attention:
    with `attention` it is constant, else it has its gradient."""
    feed_forward: bool
    """Activations by Integrated Gradients from zero, instead of their gradient; router weights of experts are constant."""
    attention: bool
    """Attention patterns are constant, instead of their gradient: queries and keys have none."""
    direct: bool = False
    """Whether outputs of heads and neurons are constant, so that only the residual stream has gradients: the rules of
    `ffb.direct_logit_attribution`, in which heads and feed-forwards are terms of the target."""

    @property
    def complete(self) -> bool:
        """Whether everything is linear, so that attributions sum to the target."""
        return self.norms and self.feed_forward and self.attention

    @classmethod
    def of(cls, given: "RuleName | Rules") -> "Rules":
        """Rules of a name, or rules unchanged.

        Raises:
            InputError: if they have the name of other rules, or are direct.
        """
        if not isinstance(given, Rules):
            return RULES[given]
        if given.direct:
            raise InputError(
                f"rules={given!r}: heads and feed-forwards are terms of the target under direct rules. "
                "Use ffb.direct_logit_attribution."
            )
        if RULES.get(given.name, given) != given:  # type: ignore[call-overload]
            raise InputError(f"rules={given!r}: {given.name!r} is the name of other rules. Use another name.")
        return given


RULES: dict[RuleName, Rules] = {
    "path": Rules("path", norms=True, feed_forward=True, attention=True),
    "patching": Rules("patching", norms=True, feed_forward=True, attention=False),
    "gradient": Rules("gradient", norms=False, feed_forward=False, attention=False),
}
DIRECT = Rules("direct", norms=True, feed_forward=True, attention=True, direct=True)
"""Direct paths to the target: no path through a later head or feed-forward, constant final norm scales."""


@contextmanager
def linearised(model: Model, rules: Rules, cache: GradientCache) -> Iterator[Fittings]:
    """Context with linearised modules in all forward passes, which write gates and tensors to the cache.

    If a bridge multiplies its embeddings (Granite), TransformerLens 4.3 skips their HookPoint without a callback of its own
    `add_hook`: an empty callback is added.
    """
    fittings = Fittings(model)
    fit = _Linearised(model, rules, cache, fittings)
    fit.embedding()
    norms = list(_norms(model, stream_alone=rules.direct))
    for layer, name in norms:
        fit.norm(layer, name)
    for layer, name in _norms(model, stream_alone=False) if rules.direct else ():
        if (layer, name) not in norms:
            fit.without_derivative(name)
    for bound in model.layers:
        fit.layer(bound)
    fit.boundary(model.n_layers, model.output_name)
    fit.head()
    fit.edits()
    with model.hooked.hooks(fwd_hooks=[(token_embedding_name(model), _unchanged)]), fittings.fitted():
        yield fittings


def _unchanged(x: Tensor, hook: object = None) -> None:
    """An empty callback in TransformerLens's format."""


def _norms(model: Model, *, stream_alone: bool) -> Iterator[tuple[int, str]]:
    """Norms with the layer that adds their shifts; optionally without those that only a branch reads."""
    after = ("ln_final", "mlm_head.ln", f"{_PREDICTION}.norm")
    for names, layer in ((("embed_ln", "embed.ln"), EMBEDDING), (after, model.n_layers)):
        yield from ((layer, name) for name in names if has_norm(model.hooked, name))
    for bound in model.layers:
        roles = (step.operation.norm for step in bound.program if isinstance(step.operation, Normalise))
        roles = (role for role in roles if not (stream_alone and role in _READ_BY_BRANCHES))
        names_of_layer = {bound.norm_modules[role] or "" for role in roles}
        if bound.is_latent and not stream_alone:
            names_of_layer.add(bound.latent_norm)
        if bound.values_norm is not None and not stream_alone:
            names_of_layer.add(bound.values_norm)
        if bound.norms_values and not stream_alone:
            names_of_layer.add(bound.name("attn.v_norm"))
        yield from ((bound.number, name) for name in sorted(names_of_layer) if name.startswith(bound.name("")))


def unembedding_bias(model: Model) -> Place:
    """Place of the unembedding's bias."""
    return Place("bias", model.n_layers, "unembed.b_U")


def token_embedding_name(model: Model) -> str:
    """HookPoint of token embeddings; in HookedTransformer after the norm of embeddings, if there is one."""
    return {"TransformerBridge": "embed.hook_out", "HookedTransformer": "hook_embed"}.get(model.api, "embed.hook_embed")


def adds_position_embeddings(model: Model) -> bool:
    """Whether the model adds position embeddings to its token embeddings, which rotary and ALiBi models do not."""
    return getattr(model.hooked.cfg, "positional_embedding_type", None) not in _NOT_ADDED


@dataclass(frozen=True)
class _Linearised:
    model: Model
    rules: Rules
    cache: GradientCache
    fittings: Fittings

    @property
    def on_bridge(self) -> bool:
        return self.model.api == "TransformerBridge"

    def embedding(self) -> None:
        name, tokens = token_embedding_name(self.model), self.cache.measured(Place("token", EMBEDDING, ""))
        if self.model.api == "HookedTransformer" and has_norm(self.model.hooked, "embed.ln"):
            self.fittings.input_of("embed.ln", tokens)
        else:
            self.fittings.before(name, tokens)
        self.fittings.after(name, lambda x: setattr(self.cache, "embedded", x.detach()))
        positional = getattr(self.model.hooked.cfg, "positional_embedding_type", None)
        for kind, names in _TERMS:
            name = next((name for name in names if name in self.model.hook_points), "")
            if kind == "position" and not adds_position_embeddings(self.model):
                continue
            if name:
                self.fittings.before(name, self.cache.measured(Place(kind, EMBEDDING, "")))
            elif kind == "position":
                self.cache.unseen_positions = positional == "standard"

    def norm(self, layer: int, name: str) -> None:
        if "norms" in self.cache.keeps:
            self._at_input(name, lambda x: self.cache.norm_inputs.__setitem__(name, x.detach()))
        norm = self.model.layers[0].norm(name, self.model.working_dtype)
        shift = self.cache.biased(Place("bias", layer, f"{name}.b"), norm.shift)
        if not self.on_bridge:  # its norms divide by the tensor of their HookPoint
            if self.rules.norms and norm.divides:
                self.fittings.after(f"{name}.hook_scale", Tensor.detach)
            self.fittings.output_of(name, shift)
            return
        if not self.rules.norms:
            self._at_end(name, shift)
            return
        read: list[Tensor] = []

        def form(y: Tensor) -> Tensor:
            x = read.pop()
            onward, linear = normed(y, replace(norm, gain=norm.gain.to(x.device), shift=norm.shift.to(x.device)), x)
            self.cache.compare(name, y, linear)
            return onward if shift is None else shift(onward)

        self._at_input(name, read.append)
        self._at_end(name, form)

    def without_derivative(self, norm: str) -> None:
        """Refuse a derivative at a norm that heads or a feed-forward read, which direct rules must not have.

        Sums do not show such a path: a norm divides by its input's size, so that its input times its derivative is zero.
        """

        def refuse(_: Tensor) -> None:
            raise CompletenessError(
                f"{self.model.name}, rules={self.rules.name!r}: the target has a derivative at {norm}, so a path through a head or "
                "feed-forward would count as direct. Does a hook compute a later tensor from it? Detach that in the hook."
            )

        def read(y: Tensor) -> None:
            if y.requires_grad:
                y.register_hook(refuse)  # type: ignore[no-untyped-call]

        self._at_end(norm, read)

    def layer(self, layer: BoundLayer) -> None:
        number, cache, after = layer.number, self.cache, self.fittings.after
        self.boundary(number, layer.name("hook_resid_pre"))
        if layer.is_recurrent:
            self._mixer(layer)
        elif self.rules.attention:
            after(layer.name("attn.hook_q"), Tensor.detach)
            after(layer.key_name, Tensor.detach)
            if layer.gate_name is not None:
                after(layer.gate_name, Tensor.detach)
        # HookedTransformer's HookPoint of the feed-forward's output is after the norm of its branch, if there is one.
        hidden = not self.on_bridge and layer.order in ("sandwich", "norm_after")
        if self.rules.direct:
            self._constant_branches(layer, hidden=hidden)
        for site, name in self._sites(layer, hidden=hidden).items():
            if site == "mlp_out" and layer.beside is not None:
                self._keep_both(layer)
            elif site in cache.keeps or (site == "gate" and "value" in cache.keeps):
                after(name, cache.keep(site, number, layer))
        if (
            "z_made" in cache.keeps
            and not layer.is_recurrent
            and edited_names({layer.values_name: self.model.hook_point(layer.values_name)})
        ):
            self.fittings.before(layer.values_name, cache.keep("z_made", number, layer))
        if layer.has_feed_forward:
            if "ff_in" in cache.keeps:
                self._ff_input(layer)
            if "mlp_out" in cache.keeps and hidden:
                self.fittings.output_of(layer.name(layer.feeds), cache.keep("mlp_out", number))
        if "attn_out" in cache.keeps and hidden:
            self.fittings.output_of(layer.name("attn"), cache.keep("attn_out", number))
        self._biases(layer)
        if layer.has_experts and not self.rules.direct:
            self._experts(layer)
        elif layer.has_feed_forward and not layer.has_experts and not self.rules.direct:
            self._activation(layer)

    def _constant_branches(self, layer: BoundLayer, *, hidden: bool) -> None:
        """Outputs of heads and neurons become leaves of autograd's graph; of a mixture of experts their sum."""

        def constant(x: Tensor) -> Tensor:
            return x.detach().requires_grad_()

        sites = self._sites(layer, hidden=hidden)
        written = ("z", "post") if "post" in sites else ("z", "mlp_out", "beside")
        for name in (sites[site] for site in written if site in sites):
            self.fittings.after(name, constant)

    def _sites(self, layer: BoundLayer, *, hidden: bool) -> dict[str, str]:
        """HookPoints of layer tensors to cache; detached queries and keys have no gradients."""
        sites = {}
        if not layer.is_recurrent:
            sites = {"z": layer.values_name, "pattern": layer.name("attn.hook_pattern")}
            sites |= dict.fromkeys(("value", "v"), layer.value_name)
        if layer.gate_name is not None:
            sites["gate"] = layer.gate_name
        if not self.rules.attention and not layer.is_recurrent:
            sites |= {site: layer.name(f"attn.hook_{site}") for site in ("q", "k")}
        if layer.adds_attention is not None:
            sites["attn_added"] = layer.adds_attention
        if not hidden:
            sites["attn_out"] = layer.branch_output_name("attn") if self.on_bridge else layer.name("hook_attn_out")
        if layer.has_feed_forward and not hidden:
            sites["mlp_out"] = layer.branch_output_name("mlp") if self.on_bridge else layer.name("hook_mlp_out")
        if layer.beside is not None:
            sites["beside"] = layer.sites["beside"]
        if layer.has_feed_forward and not layer.has_experts:
            sites["post"] = layer.name(f"{layer.feeds}.hook_post")
        return sites

    def _ff_input(self, layer: BoundLayer) -> None:
        """Input of the feed-forward as a tensor of its own: the residual stream may have the same numbers."""
        keep, inner = self.cache.keep("ff_in", layer.number), layer.name(f"{layer.feeds}.in.hook_in")

        def alone(x: Tensor) -> Tensor | None:
            return keep(x.view_as(x))

        if self.on_bridge:
            # Hugging Face's BERT, and OPT of TransformerLens 3, have no module for the whole feed-forward.
            dense = inner in self.model.hook_points and not layer.is_gated and not layer.has_experts
            self.fittings.after(inner if dense else layer.name(f"{layer.feeds}.hook_in"), alone)
        else:
            self.fittings.input_of(layer.name(layer.feeds), alone)

    def boundary(self, layer: int, name: str) -> None:
        measured, keep = self.cache.measured(Place("residual", layer, "")), self.cache.keep("residual", layer)
        if layer - 1 in self.model.added:
            self._between(self.model.layers[layer - 1], name)
        self.fittings.after(name, lambda x: keep(measured(x)))

    def _between(self, layer: BoundLayer, name: str) -> None:
        """A gate on the features of an image that the model adds between a layer and the next."""
        place, features = Place("bias", layer.number, layer.name(ADDED)), self.model.added[layer.number]

        def enter(x: Tensor) -> Tensor:
            return carried(x, x + (scaled(features, self.cache.gate(place, x)) - features))

        self.fittings.before(name, enter)

    def _biases(self, layer: BoundLayer) -> None:
        """Gates on the biases of attention and of a dense feed-forward; those of norms are with their gradients."""

        def biased(name: str, known: Tensor | None) -> Change | None:
            return self.cache.biased(Place("bias", layer.number, layer.name(name)), known)

        before = self.fittings.before
        if not layer.is_recurrent:
            self._biases_of_attention(layer, biased)
        dense = layer.has_feed_forward and not layer.has_experts
        if dense:
            self._at_output(layer, "mlp", biased(f"{layer.feeds}.b_out", bias(layer.fed, "b_out")))
        if dense and not self.rules.direct:
            linear = f"{layer.feeds}.hook_pre{'_linear' if layer.is_gated else ''}"
            before(layer.name(linear), biased(f"{layer.feeds}.b_in", bias(layer.fed, "b_in")))
            if layer.is_gated:
                before(
                    layer.name(f"{layer.feeds}.hook_pre"), biased(f"{layer.feeds}.b_gate", bias(layer.fed, "b_gate"))
                )

    def _biases_of_attention(self, layer: BoundLayer, biased: Callable[[str, Tensor | None], Change | None]) -> None:
        attn = layer.block.attn
        self._at_output(layer, "attn", biased("attn.b_O", bias(attn, "b_O")))
        if self.rules.direct:  # biases inside a branch are part of its heads and neurons
            return
        b_v = bias(attn, "b_V")
        if not self.on_bridge and b_v is not None:  # once per head, if the HookPoint has key-value heads
            n_heads = self.model.n_heads
            b_v = b_v[:: n_heads // (getattr(self.model.hooked.cfg, "n_key_value_heads", None) or n_heads)]
        self.fittings.before(layer.name("attn.hook_v"), biased("attn.b_V", b_v))

    def _mixer(self, layer: BoundLayer) -> None:
        """Gradient of a mixer without a softmax by its linear form; or its own, with gates only on its biases."""
        read, rules, cache, number = dict[str, Tensor](), self.rules, self.cache, layer.number
        module = layer.name(layer.mixes)

        def form(y: Tensor) -> Tensor:
            mixer, x = layer.mixer(self.model.working_dtype), read.pop("x").to(self.model.working_dtype)
            convolution, first = mixer.convolution, _first_at_padding(x)
            biases = {
                "value": ("b_V", mixer.attention.b_v),
                "convolved": ("b_conv", None if convolution is None else convolution.bias),
            }

            def change(site: MixerSite, tensor: Tensor) -> Tensor:
                if site == "z":
                    z = tensor.detach().requires_grad_() if rules.direct else tensor
                    if "z" in cache.keeps:
                        cache.keep("z", number)(z)
                    return z
                name, bias = biases.get(site, ("", None))
                gated = (
                    None
                    if rules.direct
                    else cache.biased(Place("bias", number, layer.name(f"{layer.mixes}.{name}")), bias, first)
                )
                return tensor if gated is None else gated(tensor)

            constant = Constant(rules.attention, rules.norms, rules.feed_forward)
            mixed = mixer.mix(x, constant, change, weighs={"value", "pattern"} <= cache.keeps)
            cache.keep_mixed(number, mixed)
            at_output = cache.biased(Place("bias", number, layer.name(f"{layer.mixes}.b_O")), mixer.attention.b_o)
            made = mixer.output(mixed)
            return cache.carry(module, y, made if at_output is None else at_output(made))

        self.fittings.reading(layer, "mixed", partial(read.__setitem__, "x"))
        self.fittings.before(layer.branch_output_name("attn"), form)

    def _at_input(self, module: str, receive: Change) -> None:
        if self.on_bridge and f"{module}.hook_in" in self.model.hook_points:
            self.fittings.after(f"{module}.hook_in", receive)
        else:
            self.fittings.input_of(module, receive)

    def _at_end(self, module: str, change: Change | None) -> None:
        if f"{module}.hook_out" in self.model.hook_points:
            self.fittings.before(f"{module}.hook_out", change)
        else:  # a norm inside attention or a prediction head
            self.fittings.output_of(module, change)

    def _at_output(self, layer: BoundLayer, branch: Branch, change: Change | None) -> None:
        if self.on_bridge:
            self.fittings.before(layer.branch_output_name(branch), change)
        else:
            self.fittings.output_of(layer.name(branch), change)

    def _activation(self, layer: BoundLayer) -> None:
        """Gradient of an activation by Integrated Gradients from zero, and a gate on its value at zero."""
        if not self.rules.feed_forward:
            return
        activation, wide, site = layer.activation(), self.model.working_dtype, layer.name(f"{layer.feeds}.hook_post")
        zero = Place("bias", layer.number, layer.name(f"{layer.feeds}.{activation.name}(0)"))
        read: dict[str, Tensor] = {}
        for name in ("pre", "pre_linear") if layer.is_gated else ("pre",):
            self.fittings.after(layer.name(f"{layer.feeds}.hook_{name}"), partial(read.__setitem__, name))

        def form(y: Tensor) -> Tensor:
            pre, linear = read.pop("pre").to(wide), read.pop("pre_linear").to(wide) if layer.is_gated else None
            if layer.is_fused:
                pre, linear = pre.chunk(2, dim=-1)
            with torch.no_grad():
                coefficients = activation.coefficients(pre.detach(), None if linear is None else linear.detach())
                factor = layer.post_factor(pre, linear)
                coefficients = coefficients if factor is None else coefficients.times(factor)
            onward, linear_form = activated(y, coefficients, pre, linear)
            self.cache.compare(site, y, linear_form)
            at_zero = self.cache.biased(zero, coefficients.baseline.expand(y.shape[-1]))
            return onward if at_zero is None else at_zero(onward)

        self.fittings.before(site, form)

    def head(self) -> None:
        model, cache, fittings = self.model, self.cache, self.fittings
        fittings.before("unembed.hook_out", cache.biased(unembedding_bias(model), bias_of_unembedding(model)))
        fittings.after("unembed.hook_in", cache.keep("unembedded", END))
        fittings.after("unembed.hook_out", cache.keep("logits", END))
        of_head, read = Place("bias", model.n_layers, "mlm_head.b"), dict[str, Tensor]()
        if "mlm_head.hook_out" in model.hook_points:
            with weights_on_device(model.hooked.get_submodule("mlm_head")):
                dense = head_linear(model.hooked, "mlm_head") or unwrapped(model.hooked.get_submodule("mlm_head"))
                fittings.before("mlm_head.hook_out", cache.biased(of_head, getattr(dense, "bias", None)))
            fittings.after("mlm_head.hook_out", partial(read.__setitem__, "pre"))
            if self.rules.feed_forward:
                fittings.before("ln_final.hook_in", lambda y: self._of_head(y, read["pre"]) if read else None)
        elif hasattr(model.hooked, "prediction_head"):
            prediction: Any = unwrapped(model.hooked.get_submodule("prediction_head"))
            of_head = Place("bias", model.n_layers, "prediction_head.b")
            fittings.output_of(f"{_PREDICTION}.dense", cache.biased(of_head, prediction.dense.bias))
            fittings.input_of(f"{_PREDICTION}.act", partial(read.__setitem__, "pre"))
            if self.rules.feed_forward:
                fittings.output_of(f"{_PREDICTION}.act", lambda y: self._of_head(y, read["pre"]))
        elif model.api == "HookedEncoder":
            head: Any = model.hooked.get_submodule("mlm_head")
            gated = cache.biased(of_head, head.b)

            def enter(x: Tensor) -> Tensor | None:
                read["pre"] = x if gated is None else gated(x)
                return read["pre"]

            fittings.input_of("mlm_head.act_fn", enter)
            if self.rules.feed_forward:
                fittings.output_of("mlm_head.act_fn", lambda y: self._of_head(y, read["pre"]))

    def _of_head(self, y: Float[Tensor, "..."], pre: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        wide = pre.to(self.model.working_dtype)
        activation = _activation_between(self.model, wide.detach(), y.detach().to(wide.dtype))
        return self.cache.carry("mlm_head", y, shared(activation.coefficients(wide.detach(), None), wide, None))

    def edits(self) -> None:
        for name in edited_names(self.model.hook_points):
            place = Place("edit", _layer_of(self.model, name), name)
            entered: list[Tensor] = []

            def enter(x: Tensor, place: Place = place, entered: list[Tensor] = entered) -> Tensor | None:
                if not x.is_floating_point():
                    return None
                entered.append(x.detach())
                return scaled(x, -self.cache.gate(place, x)).clone()  # since an edit in place may change it

            def leave(y: Tensor, place: Place = place, entered: list[Tensor] = entered) -> Tensor | None:
                if not y.is_floating_point():
                    return None
                if not torch.equal(y.detach().reshape(-1), entered.pop().reshape(-1)):
                    self.cache.edited.add(place)
                return scaled(y, self.cache.gate(place, y))

            self.fittings.before(name, enter, edits=True)
            self.fittings.after(name, leave, edits=True)

    def _experts(self, layer: BoundLayer) -> None:
        """Gradient of the experts with constant router weights; or their own, with gates only on their biases."""
        with weights_on_device(layer.fed):
            named: Iterator[tuple[str, Tensor]] = layer.fed.named_parameters()
            if not self.rules.feed_forward and not any(name.endswith("bias") and bool(p.any()) for name, p in named):
                return
        read: dict[str, Tensor] = {}
        for site, name in layer.router_sites.items():
            if site == "routing":
                self.fittings.reading(layer, site, partial(read.__setitem__, site))
            else:
                self.fittings.after(name, partial(read.__setitem__, site))
        mlp = layer.name(layer.feeds)

        def form(y: Tensor) -> Tensor:
            x = read["x"].reshape(-1, read["x"].shape[-1]).to(self.model.working_dtype)
            with torch.no_grad():
                routing = layer.routing_weights(read)
            assert routing is not None, "a layer with experts has a router"
            experts = _ExpertSum(layer, self.cache, routing.detach().reshape(len(x), -1).to(x.dtype))
            if self.rules.feed_forward:
                return self.cache.carry(mlp, y, experts.linearised(x))
            total = experts.themselves(x.detach())
            self.cache.compare(mlp, y, total)
            return y + (total - total.detach()).reshape(y.shape).to(
                y
            )  # y itself, with the gradients of the biases' gates too

        self._at_input(mlp, partial(read.__setitem__, "x"))
        if layer.beside is None:
            self._at_output(layer, "mlp", form)
        else:
            self._beside(layer, form)

    def _keep_both(self, layer: BoundLayer) -> None:
        """Cache the sum of experts and of the shared expert beside them, with the gradient of either."""
        routed, keep = list[Tensor](), self.cache.keep("mlp_out", layer.number)

        def both(y: Tensor) -> Tensor:
            whole = y + routed.pop()
            keep(whole)
            return carried(y, whole)

        if "mlp_out" in self.cache.keeps:
            self.fittings.after(layer.branch_output_name("mlp"), lambda y: routed.append(y.detach()))
            self.fittings.after(layer.sites["beside"], both)

    def _beside(self, layer: BoundLayer, form: Change) -> None:
        """Carry the sum of experts and of the shared expert beside them at the latter's output, which the model adds."""
        routed: list[Tensor] = []

        def alone(y: Tensor) -> Tensor:
            routed[:] = [y.detach()]
            return routed[0]

        def both(y: Tensor) -> Tensor:
            whole = y + routed[0]
            changed = form(whole)
            return carried(y, whole if changed is None else changed)

        if self.rules.feed_forward:
            self.fittings.after(layer.branch_output_name("mlp"), alone)
            self.fittings.before(layer.sites["beside"], both)


@dataclass(frozen=True)
class _ExpertSum:
    """Output of a layer's experts, weighted by the router; biases with the same name have one gate for all experts."""

    layer: BoundLayer
    cache: GradientCache
    weights: Float[Tensor, "row expert"]

    def linearised(self, x: Float[Tensor, "row d"]) -> Float[Tensor, "row d"]:
        def post(expert: FeedForward, pre: Tensor, linear: Tensor | None) -> Tensor:
            coefficients = expert.activation.coefficients(pre.detach(), None if linear is None else linear.detach())
            return shared(coefficients, pre, linear)

        return self._sum(x, self.weights, post)

    def themselves(self, x: Float[Tensor, "row d"]) -> Float[Tensor, "row d"]:
        bias, weights = self.layer.router_bias(), self.weights
        if bias is not None and bool(bias.any()):
            place = Place("bias", self.layer.number, self.layer.name(f"{self.layer.feeds}.router.b"))
            # Up to a constant of each row their logarithms are the logits of the chosen experts.
            weights = added(weights.log(), self.cache.gate(place, weights).reshape(-1), bias).softmax(dim=-1)
        return self._sum(x, weights, lambda expert, pre, linear: expert.activation.output(pre, linear))

    def _sum(
        self,
        x: Float[Tensor, "row d"],
        weights: Float[Tensor, "row expert"],
        post_of: Callable[[FeedForward, Tensor, Tensor | None], Tensor],
    ) -> Float[Tensor, "row d"]:
        total = torch.zeros_like(x)
        for number, expert in enumerate(self.layer.experts(x.dtype)):
            chosen = weights[:, number].nonzero()[:, 0]
            if not len(chosen):
                continue
            gated, weight = partial(self._gated, chosen), weights[chosen, number, None]
            before, after = (weight, 1) if expert.scaled_input else (1, weight)
            pre, *linear = (gated(f"b_{matrix}", before * x[chosen] @ w + b, b) for matrix, w, b in expert.inputs)
            post = post_of(expert, pre, linear[0] if linear else None)
            written = gated("b_out", post @ expert.w_out + expert.b_out, expert.b_out)
            total = total.index_add(0, chosen, after * written)
        return total

    def _gated(self, chosen: Tensor, name: str, y: Tensor, bias: Tensor) -> Float[Tensor, "row width"]:
        if not bool(bias.any()):
            return y
        place = Place("bias", self.layer.number, self.layer.name(f"{self.layer.feeds}.experts.{name}"))
        return added(y, self.cache.gate(place, y).reshape(-1)[chosen], bias)


def _first_at_padding(x: Float[Tensor, "batch pos d"]) -> Int[Tensor, "batch pos"]:
    """Every position, and at padding that of the sequence's first token, whose convolution may read the bias at padding."""
    real = (x.detach() != 0).any(dim=-1)
    own = torch.arange(x.shape[1], device=x.device)
    return torch.where(real, own, real.int().argmax(dim=1, keepdim=True))


def _layer_of(model: Model, name: str) -> int:
    block = re.match(r"blocks\.(\d+)\.(.*)", name)
    if block is None:
        return EMBEDDING if "embed" in name and "unembed" not in name else model.n_layers
    return int(block[1]) - (block[2] in ("hook_resid_pre", "hook_in"))


def _activation_between(model: Model, pre: Tensor, post: Tensor) -> Activation:
    rtol = 1e-5 if model.dtype in ("float32", "float64") else 1e-2
    for activation in KNOWN:
        if torch.allclose(activation(pre), post, rtol=rtol, atol=rtol * float(post.abs().max())):
            return activation
    names = ", ".join(activation.name for activation in KNOWN)
    raise UnsupportedModelError(
        f"{model.name} ({model.family.name}): expected one of {names} as activation in its masked-language-model head. Logits cannot "
        "be attributed. Use a direction of the residual stream as target: ffb.direction(vector, layer=-1)."
    )
