"""One layer of a model: the HookPoints of its tensors, the modules of its norms, and its weights.

A site is a name for a tensor of the layer; `whole.<scope>` is the model's own tensor at the end of a scope. HookPoints follow from
the layer's program (scopes.py), with the exceptions in this module. In a Post-LN bridge some aliases are other sums:
`hook_attn_out` is the output of the first LayerNorm, and `hook_resid_mid` the input of the second.

A norm's output is `hook_out` on a bridge. HookedTransformer and HookedEncoder only have `hook_normalized`, before gain and shift.
They have no HookPoint before a norm inside a branch: this tensor is `hook_normalized * hook_scale` (site `scale.<scope>`).

Weights are read from the modules that run. The configuration is sometimes wrong or empty (activation names, widths). The activation
is the module's function, recognised by its values. The gain of an offset RMSNorm is 1 + weight. Absent biases are zero.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from inspect import signature
from typing import Any, Literal, TypeAlias, get_args

import torch
from einops import einsum, rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from tl_ffblock.bridge.callbacks import Change, HookedModel, HookPoint, LastCallback, Several
from tl_ffblock.bridge.families import Api, Family
from tl_ffblock.bridge.linears import (
    SHARED_EXPERT,
    SHARED_EXPERTS,
    Linear,
    bias,
    has_matrix,
    linear_of,
    loaded,
    matrix,
    unwrapped,
)
from tl_ffblock.bridge.mixers import MIXERS, read_mixer
from tl_ffblock.bridge.offloaded import weights_on_device
from tl_ffblock.errors import FFBlockError, UnsupportedModelError
from tl_ffblock.layer.activations import Activation, ClampedGate, recognise
from tl_ffblock.layer.mixers import Mixer
from tl_ffblock.layer.records import AttentionWeights, Block, FeedForward, Latent, Norm
from tl_ffblock.layer.scopes import (
    INPUT,
    PROGRAMS,
    Add,
    Attend,
    Branch,
    Feed,
    Normalise,
    NormName,
    Order,
    Step,
    feed_step,
    output_step,
)

FEED_FORWARDS = ("mlp", "moe", "shared_mlp")
"""Names of a layer's feed-forward in a bridge."""
BEFORE_GAIN = "hook_normalized"
_EXPERTS_ARGUMENTS = 4
"""Parameters of a forward function of experts: self, tokens, numbers of the chosen experts, their weights."""
ExtraSite: TypeAlias = Literal["query", "key"]
"""Further tensors of a layer: queries and keys as attention multiplies them."""

# HookPoints of a Post-LN block that differ from those of other blocks, by scope.
_POST_LN_BRIDGE = {
    "Attn": "attn.o.hook_out",
    "AttnRes": "ln1.hook_in",
    "AtbFfRes": "ln2.hook_in",
    "AtbFfResLn": "hook_resid_post",
}
_POST_LN_HOOKED = {"AtbFfResLn": "hook_normalized_resid_post"}
Owner: TypeAlias = Literal["head", "mid", "mlp", "stream"]
"""Component to which a bias belongs. "head": heads. "mid": the residual stream between attention and feed-forward, in serial blocks.
"mlp": the feed-forward, from the norm before it to the norm after it. "stream": the residual stream at the layer's output."""
_OWNERS_OF_SHIFTS: dict[NormName, Owner] = {
    "attn_norm": "head",  # also for a norm that both branches share
    "attn_out_norm": "mid",
    "mid_norm": "mid",
    "ff_norm": "mlp",
    "ff_out_norm": "mlp",
    "out_norm": "stream",
}
# Sites and kinds of tensors with an axis of heads.
_Z = ("z", "z_made", "head")
ADDED = "deepstack"
"""Short name of the features that a model adds after a layer."""
_OF_HEADS = (*_Z, "value", "query", "key", "q", "k", "v")
# Attributes of modules with the activation function.
_ACTIVATIONS = ("act", "act_fn", "activation_fn", "gelu_impl", "activation", "intermediate_act_fn")
# Attributes of Hugging Face's attention modules with the scale of scores (1) or its inverse (-1).
_SCALES = (("scaling", 1), ("softmax_scale", 1), ("inv_norm_factor", 1), ("scale_attn", -1))


@dataclass(frozen=True)
class QueryKeyWeights:
    """Weights of queries and keys of one layer, before any rotation or QK norm; shared key heads are repeated."""

    w_q: Float[Tensor, "head d d_head"]
    b_q: Float[Tensor, "head d_head"]
    w_k: Float[Tensor, "head d d_head"]
    b_k: Float[Tensor, "head d_head"]

    def keys(self, x: Float[Tensor, " d"]) -> Float[Tensor, "head d_head"]:
        """Keys `x W_K + b_K`, [head d_head]."""
        return einsum(x, self.w_k, "d, head d e -> head e") + self.b_k

    def answered_to(self, key: Float[Tensor, "head d_head"]) -> Float[Tensor, "head d"]:
        """`W_Q k` [head d]: its product with the input at the query is the score, without b_Q, rotation and scale."""
        return einsum(self.w_q, key, "head d e, head e -> head d")


@dataclass(frozen=True)
class BoundLayer:
    """A layer of one model: `Model.layers[number]`. Names are found once; weights are read at each call and not cached here."""

    hooked: HookedModel = field(repr=False)
    hook_points: Mapping[str, HookPoint] = field(repr=False)
    """The model's HookPoints by name."""
    api: Api
    family: Family
    model: str
    """Name of the model, for errors."""
    number: int
    adds_after: bool = False
    """Whether the model adds features of the input's image between this layer and the next (DeepStack, Meng et al. 2024)."""

    @property
    def order(self) -> Order:
        """Order of norms and branches."""
        return self.family.order

    @property
    def program(self) -> tuple[Step, ...]:
        """Steps of the layer's computation."""
        return PROGRAMS[self.family.order]

    @property
    def block(self) -> Any:
        """Module of the layer."""
        return self.hooked.blocks[self.number]

    @property
    def where(self) -> str:
        """Model, family and layer, for errors."""
        return f"{self.model} ({self.family.name}), layer {self.number}"

    @property
    def _on_bridge(self) -> bool:
        return self.api == "TransformerBridge"

    @property
    def has_feed_forward(self) -> bool:
        """False for attention-only layers."""
        return self.family.order != "attn_only"

    @cached_property
    def has_experts(self) -> bool:
        """Whether its feed-forward is a mixture of experts."""
        dense = not self.has_feed_forward or getattr(self.fed, "bound_dense", False)
        return not dense and hasattr(_inner(self.fed), "experts")

    @cached_property
    def is_latent(self) -> bool:
        """Whether keys and values are made of a latent vector (multi-head latent attention)."""
        return self.mixes == "attn" and "kv_b_proj" in self.block.attn._modules

    @cached_property
    def mixes(self) -> str:
        """Name of the component that mixes tokens: "attn", or a mixer without a softmax (mixers.py)."""
        held = self.block._modules
        return "attn" if "attn" in held else next(name for name in MIXERS if name in held)

    @cached_property
    def feeds(self) -> str:
        """Name of the feed-forward's component."""
        return next((name for name in FEED_FORWARDS if name in self.block._modules), FEED_FORWARDS[0])

    @property
    def fed(self) -> Any:
        """The feed-forward's component."""
        return getattr(self.block, self.feeds)

    @cached_property
    def beside(self) -> str | None:
        """Name of a shared expert's component beside the experts, whose outputs are added (Granite 4); None without one."""
        return "shared_mlp" if self.feeds == "moe" and "shared_mlp" in self.block._modules else None

    @property
    def is_recurrent(self) -> bool:
        """Whether its tokens are mixed without a softmax."""
        return self.mixes != "attn"

    @cached_property
    def n_heads(self) -> int:
        """Number of heads."""
        return len(self.mixer(torch.float32).attention.w_o) if self.is_recurrent else int(self.hooked.cfg.n_heads)

    def mixer(self, dtype: torch.dtype) -> Mixer:
        """Weights of a mixer without a softmax.

        Raises:
            UnsupportedModelError: if its form is not known.
        """
        module = getattr(self.block, self.mixes)
        with weights_on_device(module):
            return read_mixer(module, dtype, self.where)

    @cached_property
    def norms_values(self) -> bool:
        """Whether values have a norm of their own (Gemma-4), which keys may be made from, too."""
        return not self.is_recurrent and "v_norm" in self.block.attn._modules

    @cached_property
    def is_gated(self) -> bool:
        """Whether its dense feed-forward multiplies its activations with a second, linear branch."""
        return self.has_feed_forward and has_matrix(self.fed, "W_gate")

    @cached_property
    def is_fused(self) -> bool:
        """Whether one matrix has pre-activations and linear branch of a gated feed-forward, in this order (ModernBERT)."""
        dense = self.has_feed_forward and not self.has_experts and not self.is_gated
        if not dense or not has_matrix(self.fed, "W_in"):
            return False
        return matrix(self.fed, "W_in").shape[1] == 2 * matrix(self.fed, "W_out").shape[0]

    def halves(self, site: str, tensor: Tensor) -> dict[str, Tensor]:
        """A site's tensor by name; pre-activations and linear branch of a fused matrix apart."""
        if site != "pre" or not self.is_fused:
            return {site: tensor}
        return dict(zip(("pre", "pre_linear"), tensor.chunk(2, dim=-1), strict=True))

    # Gate of attention

    @cached_property
    def gate_name(self) -> str | None:
        """HookPoint of the gate of a bridge's attention, before its function; None without a gate."""
        if self.api != "TransformerBridge" or self.is_recurrent:
            return None
        if "gate" in self.block.attn._modules:
            return self.name("attn.gate.hook_out")
        return self.name("attn.hook_q_gate") if getattr(self.hooked.cfg, "gated_q_proj", False) else None

    def gate(self, tensor: Float[Tensor, "batch pos *_"]) -> Float[Tensor, "batch pos head gated"]:
        """Gate of attention from the tensor of its HookPoint: its sigmoid, in Laguna its softplus. The identity of the sum decides.

        That of a mixer without a softmax has no HookPoint and is itself.
        """
        if self.is_recurrent:
            return tensor
        soft = type(_inner(self.block.attn)).__name__.startswith("Laguna")  # which computes it in float32
        made = nn.functional.softplus(tensor.float()).to(tensor) if soft else tensor.sigmoid()
        return made.reshape(*tensor.shape[:2], int(self.hooked.cfg.n_heads), -1)

    # Norms inside attention and feed-forward, which have no HookPoint

    @cached_property
    def values_norm(self) -> str | None:
        """Module of the norm of all heads' weighted values before W_O (BitNet); None without one."""
        return self._inner_norm("attn", "attn_sub_norm")

    @cached_property
    def post_norm(self) -> str | None:
        """Module of the norm of a gated feed-forward's activations before W_out (BitNet); None without one."""
        found = self._inner_norm(self.feeds, "ffn_sub_norm")
        return found if found is not None and self.is_gated else None

    def _inner_norm(self, part: str, name: str) -> str | None:
        owner = self.block._modules.get(part)
        return self.name(f"{part}._original_component.{name}") if owner and hasattr(unwrapped(owner), name) else None

    def normed_values(self, z: Float[Tensor, "*lead head d_head"]) -> Float[Tensor, "*lead head d_head"]:
        """Weighted values after the norm before W_O; unchanged without one."""
        return z if self.values_norm is None else self.attention(z.dtype).normed(z)

    def post_factor(self, pre: Tensor | None, pre_linear: Tensor | None) -> Float[Tensor, "*lead d_mlp"] | None:
        """Gain over scale of the norm before W_out, by which every activation is multiplied; None without one."""
        if self.post_norm is None or pre is None:
            return None
        wide = torch.promote_types(pre.dtype, torch.float32)
        norm, linear = self.norm(self.post_norm, wide), None if pre_linear is None else pre_linear.to(wide)
        return norm.gain / norm.scale(self.activation().output(pre.to(wide), linear))

    # Layout of heads

    def arranged(self, site: str, tensor: Tensor) -> Tensor:
        """A tensor of heads as [batch pos head d_head].

        With latent attention, TransformerLens has queries, keys and values as [batch head pos d_head], and cuts z by the width of the
        rotated part.
        """
        if not self.is_latent or site not in _OF_HEADS:
            return tensor
        if site in _Z:
            return tensor.reshape(*tensor.shape[:2], int(self.hooked.cfg.n_heads), -1)
        return tensor.transpose(1, 2)

    def restored(self, site: str, tensor: Tensor, like: Tensor) -> Tensor:
        """Inverse of `arranged`, for a HookPoint's tensor `like`."""
        if not self.is_latent or site not in _OF_HEADS:
            return tensor
        return tensor.reshape(like.shape) if site in _Z else tensor.transpose(1, 2)

    # Modules of norms

    @cached_property
    def norm_modules(self) -> dict[NormName, str | None]:
        """Module name of each norm; None if this model does not have it."""
        names = {norm: self._norm_name(norm) for norm in get_args(NormName)}
        return {norm: name if name and has_norm(self.hooked, name) else None for norm, name in names.items()}

    def _norm_name(self, norm: NormName) -> str | None:
        prefix, after = f"blocks.{self.number}.", "_post" if hasattr(self.block, "ln1_post") else ""
        if self.order == "sandwich" and norm in ("attn_out_norm", "ff_out_norm") and not after and self._on_bridge:
            return None  # in a model of which other layers have it
        match norm:
            case "attn_norm" | "mid_norm":
                return f"{prefix}{_first_norm(self.block)}"
            case "ff_norm":
                return f"{prefix}ln{2 if hasattr(self.block, 'ln2') else 1}"  # some parallel blocks share ln1
            case "attn_out_norm" | "ff_out_norm":
                return f"{prefix}ln{1 if norm == 'attn_out_norm' else 2}{after}"
            case "out_norm" if self.order == "post_ln":
                return f"{prefix}ln2"
            case "out_norm" if self.number + 1 == len(self.hooked.blocks):
                return "ln_final"
            case "out_norm":
                following = self.number + 1
                first = _first_norm(self.hooked.blocks[following])
                return None if self.order == "norm_after" else f"blocks.{following}.{first}"

    # HookPoints

    def name(self, short: str) -> str:
        """A HookPoint's or module's full name: `name("attn.hook_z")`."""
        return f"blocks.{self.number}.{short}"

    @property
    def values_name(self) -> str:
        """HookPoint of z, the weighted values before the output matrix; edits there have an effect in every model.

        A delta net has none of this name.
        """
        if not self.is_recurrent:
            return self.name("attn.hook_z")
        return self.name(f"{self.mixes}.{'out' if self.mixes == 'conv' else 'out_proj'}.hook_in")

    @property
    def value_name(self) -> str:
        """HookPoint of values, as attention weighs them."""
        return self.name("attn.v_norm.hook_out" if self.norms_values else "attn.hook_v")

    @property
    def key_name(self) -> str:
        """HookPoint of keys, which values are not made from."""
        return self.name("attn.k_norm.hook_out" if self.norms_values else "attn.hook_k")

    @property
    def ff_input_name(self) -> str:
        """HookPoint of the feed-forward's input, which nothing else reads.

        If attention shares the norm (Phi, GPT-J, Falcon), it is after the norm's own HookPoint.
        """
        shared = self.norm_modules["ff_norm"] == self.norm_modules["attn_norm"]
        return self.name(f"{self.feeds}.hook_in") if shared else self.sites["whole.AtbLn"]

    @property
    def output_name(self) -> str:
        """HookPoint of the residual stream after the layer."""
        return self.sites[f"whole.{output_step(self.order).scope}"]

    def branch_output_name(self, branch: Branch) -> str:
        """HookPoint of the output of a bridge's attention or feed-forward, before any norm of its branch."""
        attend = next(step for step in self.program if isinstance(step.operation, Attend))
        return self.sites[f"whole.{(attend if branch == 'attn' else feed_step(self.order)).scope}"]

    @property
    def adds_attention(self) -> str | None:
        """HookPoint of attention's term of the residual stream before the feed-forward; None in parallel and attention-only blocks."""
        if self.order in ("parallel", "attn_only"):
            return None
        left = next(step.operation.left for step in self.program if isinstance(step.operation, Add))
        return self.sites[f"whole.{left}"]

    def site_names(self, extra: Collection[ExtraSite] = (), *, of_cache: bool = False) -> dict[str, str]:
        """HookPoint of every site, and of further requested ones; the site "routing" is a module (`on_routing`).

        Args:
            extra: Further sites.
            of_cache: Whether tensors come from a cache, which has those of HookPoints only.

        Raises:
            UnsupportedModelError: if one of them has no HookPoint.
        """
        routing = {}
        if self.has_experts:
            again = {site: name for site, name in self.router_sites.items() if site != "routing"}
            routing = (
                again | {"routed": self.name(f"{self.feeds}.hook_in")}
                if of_cache and self._called_experts is not None
                else self.router_sites
            )
        return self.sites | routing | {site: self._query_or_key(site) for site in extra}

    @cached_property
    def sites(self) -> dict[str, str]:
        """HookPoint of every site except those of a router."""
        sites = {"resid_pre": "hook_resid_pre"}
        if self.is_recurrent:
            sites["mixed"] = f"{self.mixes}.hook_in"
        else:
            sites |= {"pattern": "attn.hook_pattern", "value": self.value_name.removeprefix(self.name(""))}
        if self.has_feed_forward and not self.has_experts:
            sites |= {name: f"{self.feeds}.hook_{name}" for name in ("pre", "post")}
            sites |= {"pre_linear": f"{self.feeds}.hook_pre_linear"} if self.is_gated else {}
        if self.beside is not None:
            sites["beside"] = f"{self.beside}.hook_out"
        found = {site: self.name(short) for site, short in sites.items()}
        if self.gate_name is not None:
            found["gate"] = self.gate_name
        for step in self.program:
            found |= self._of_step(step)
        return found

    def _of_step(self, step: Step) -> dict[str, str]:
        scope, operation, on_bridge = step.scope, step.operation, self.api == "TransformerBridge"
        if step.at_keys or (self.order == "parallel" and operation == Add("Attn", INPUT)):
            return {}  # a parallel block adds x, attention and feed-forward at once
        if self.order == "post_ln":
            exception = (_POST_LN_BRIDGE if on_bridge else _POST_LN_HOOKED).get(scope)
            # GPT's block returns a list, for which its output HookPoint does not fire
            if exception is not None and not (on_bridge and self.family.name == "GPT" and scope == "AtbFfResLn"):
                return {f"whole.{scope}": self.name(exception)}
        match operation:
            case Attend() | Feed():
                branch = "attn" if isinstance(operation, Attend) else "mlp"
                norms = [
                    s.operation.norm
                    for s in self.program
                    if isinstance(s.operation, Normalise) and s.operation.of == scope
                ]
                if norms and not on_bridge:
                    gain = self.norm_modules[norms[0]]
                    return {f"whole.{scope}": f"{gain}.{BEFORE_GAIN}", f"scale.{scope}": f"{gain}.hook_scale"}
                # HookPoints of Granite's scaled branches have the terms of the residual stream, and fire only if hooks were there
                # in the first forward pass; these have the modules' outputs.
                silent = hasattr(self.block, "residual_contribution_scale") or self.is_recurrent
                part = self.mixes if branch == "attn" else self.feeds
                name = self.name(f"{part}.hook_out" if norms or silent else f"hook_{branch}_out")
            case Normalise(_, "attn_out_norm" | "ff_out_norm" as norm) if self.norm_modules[norm] is not None:
                name = self.name(f"hook_{'attn' if norm == 'attn_out_norm' else 'mlp'}_out")
            case Normalise(of, norm):
                module = self.norm_modules[norm]
                if module is None:  # no norm: its input
                    before = [step for step in self.program if step.scope == of]
                    name = self._of_step(before[0])[f"whole.{of}"] if before else self.name("hook_resid_pre")
                else:
                    name = f"{module}.{'hook_out' if on_bridge else BEFORE_GAIN}"
            case Add():
                last = [step.scope for step in self.program if isinstance(step.operation, Add)][-1]
                name = self.name(f"hook_resid_{'post' if scope == last else 'mid'}")
                if scope == last and self.adds_after:
                    name = f"blocks.{self.number + 1}.hook_resid_pre"
        return {f"whole.{scope}": name}

    def _query_or_key(self, site: ExtraSite) -> str:
        rotated = f"attn.hook_rot_{site[0]}"
        if self.is_latent:  # hook_rot_q has the rotated part alone, hook_q the whole vector after it
            return self.name(f"attn.hook_{site[0]}")
        if self.name(rotated) in self.hook_points:
            return self.name(rotated)
        if getattr(self.hooked.cfg, "positional_embedding_type", None) == "rotary":
            raise UnsupportedModelError(
                f"{self.model} ({self.family.name}) rotates its {site} vectors, but has no HookPoint {rotated} of the rotated ones, "
                "which attention multiplies."
            )
        return self.name(f"attn.hook_{site[0]}")

    @cached_property
    def router_sites(self) -> dict[str, str]:
        """Every tensor of a forward pass from which router weights are computed.

        The weights with which a bridge's experts are called are those that count, whatever their router is: softmax or sigmoid,
        grouped, scaled, or with a bias that only chooses. Experts without such a call are read at HookPoints.
        """
        if self._scales_inputs:
            return {"scores": self.name(f"{self.feeds}.router.hook_out")}
        if self._called_experts is None:
            return self.routing_names
        gate = {"shared": self.name(f"{self.feeds}.shared_expert_gate.hook_out")}
        return {"routing": self.name(f"{self.feeds}.experts")} | (gate if gate["shared"] in self.hook_points else {})

    @cached_property
    def _called_experts(self) -> nn.Module | None:
        """Experts that a bridge calls with tokens, numbers of the chosen experts and their weights, as in transformers 5."""
        if self.api != "TransformerBridge":
            return None
        experts: nn.Module = _inner(self.fed.original_component.experts)
        stacked = any(hasattr(experts, name) for name in ("gate_up_proj", "up_proj"))
        return experts if stacked and len(signature(type(experts).forward).parameters) == _EXPERTS_ARGUMENTS else None

    @torch.no_grad()
    def _routed_again(self, x: Float[Tensor, "*query d"]) -> Float[Tensor, "*query expert"]:
        """Router weights for the cached input of a bridge's experts, by the router of the model itself.

        Raises:
            UnsupportedModelError: if the router is called otherwise than with this input.
        """
        original, router = self.fed.original_component, self._router
        # Routers of MiniMax-M2, LFM2-MoE and AFMoE are called with a bias of their block, AFMoE's with all axes.
        further = list(signature(router.forward).parameters)[1:]
        of_block = {name: getattr(original, name) for name in further if hasattr(original, name)}
        rows = x.detach().reshape(-1, x.shape[-1]).to(next(router.parameters()).dtype)
        with weights_on_device(router):
            found = router(rows[None] if type(router).__name__.startswith("Afmoe") else rows, **of_block)
        if not isinstance(found, tuple) or len(found) != 3 or found[1].shape != found[2].shape:
            raise UnsupportedModelError(
                f"{self.where}: router weights do not follow from a cache, since its router {type(router).__name__} is not of a known "
                "form. Omit cache."
            )
        _, weights, chosen = found
        return self._scattered(chosen, weights).reshape(*x.shape[:-1], -1)

    def _scattered(self, chosen: Int[Tensor, "row k"], weights: Float[Tensor, "row k"]) -> Float[Tensor, "row expert"]:
        """Router weights of all experts, from those of the chosen ones."""
        # Laguna multiplies the sum over experts by a factor. A last column is for tokens that are sent to no expert.
        weights = weights * float(getattr(self.fed.original_component, "routed_scaling_factor", 1.0))
        return weights.new_zeros(len(chosen), self._n_experts + 1).scatter_add(-1, chosen.long(), weights)[:, :-1]

    def on_module(self, site: str, receive: Change) -> Several | RemovableHandle | None:
        """Callback at a site that no HookPoint shows, in every forward pass; None for a site with a HookPoint."""
        if site == "routing":
            return self.on_routing(receive)
        if site != "mixed":
            return None
        return Several(LastCallback(self.hook_points[self.sites[site]], receive), self.on_mixer(receive))

    def on_mixer(self, receive: Change) -> RemovableHandle:
        """Callback with the input of a mixer without a softmax, which sets it to zero at padding, after its HookPoint."""
        module: nn.Module = _inner(getattr(self.block, self.mixes))

        def read(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
            x, mask = args[0] if args else named["hidden_states"], named.get("attention_mask")
            receive(x if mask is None or mask.ndim != 2 else x * mask[..., None].to(x))

        return module.register_forward_pre_hook(read, with_kwargs=True)

    def on_routing(self, receive: Change) -> RemovableHandle:
        """Callback with the router weights [row expert] of every call of the experts; weights of others are zero.

        Raises:
            UnsupportedModelError: in the forward pass, if the experts are called otherwise.
        """
        experts = self._called_experts
        assert experts is not None, "other experts are read at HookPoints"
        called = signature(type(experts).forward)

        def enter(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
            _, _, chosen, weights = called.bind(module, *args, **named).arguments.values()
            if chosen.shape != weights.shape or chosen.is_floating_point():
                raise UnsupportedModelError(
                    f"{self.where}: its experts are called with numbers of experts of shape {list(chosen.shape)} and weights of "
                    f"{list(weights.shape)}, expected one weight for each chosen expert."
                )
            receive(self._scattered(chosen, weights))

        return experts.register_forward_pre_hook(enter, with_kwargs=True)

    @cached_property
    def routing_names(self) -> dict[str, str]:
        """HookPoint of every tensor from which router weights are computed.

        Raises:
            UnsupportedModelError: if one of them has no HookPoint.
        """
        mlp, prefix = self.fed, self.name(self.feeds)
        routing = {"probabilities": f"{prefix}.hook_expert_weights", "chosen": f"{prefix}.hook_expert_indices"}
        if hasattr(mlp, "gate"):  # a bridge of TransformerLens 3.9 only has the router's logits
            routing = {"router_logits": f"{prefix}.gate.hook_out"}
        missing = [name.removeprefix(self.name("")) for name in routing.values() if name not in self.hook_points]
        if missing:
            raise UnsupportedModelError(
                f"{self.where}: the router of its experts has no HookPoint {', '.join(missing)} in TransformerLens "
                f"{version('transformer-lens')}, so router weights are not known."
                f"{' Use TransformerLens 4.' if self.family.name == 'gpt_oss' else ''}"
            )
        shared = {"shared": f"{prefix}.shared_expert_gate.hook_out"} if hasattr(mlp, "shared_expert_gate") else {}
        return routing | shared

    @cached_property
    def multipliers(self) -> dict[Branch | Literal["layer"], float]:
        """Factors of attention and feed-forward in their sums with the residual stream, and of the layer's output, if they are not 1."""
        factor = float(getattr(_inner(self.block), "residual_multiplier", 1.0))
        found: dict[Branch | Literal["layer"], float] = {"attn": factor, "mlp": factor}
        found["layer"] = float(getattr(_inner(self.block), "layer_scalar", 1.0))
        return {name: factor for name, factor in found.items() if factor != 1}

    def owner_of_bias(self, name: str) -> Owner:
        """Component to which a bias belongs: see `Owner`."""
        short = name.removeprefix(self.name(""))
        if short.startswith(f"{self.feeds}."):
            return "mlp"
        if short == ADDED:
            return "stream"
        if short.startswith(f"{self.mixes}."):
            serial = self.order not in ("parallel", "attn_only")
            return "head" if short.endswith((".b_V", ".b_conv")) else "mid" if serial else "stream"
        norms = (step.operation.norm for step in self.program if isinstance(step.operation, Normalise))
        return next(_OWNERS_OF_SHIFTS[norm] for norm in norms if self.norm_modules[norm] == name.removesuffix(".b"))

    # Weights

    def read(self, dtype: torch.dtype) -> Block:
        """Weights of the layer in the decomposition's dtype, on their own device, detached.

        Raises:
            UnsupportedModelError: if they do not have the layout of this family's blocks.
        """
        try:
            roles = [step.operation.norm for step in self.program if isinstance(step.operation, Normalise)]
            with weights_on_device(self.block):
                return Block(
                    layer=self.number,
                    order=self.order,
                    causal=self.family.causal,
                    attention=self.attention(dtype),
                    feed_forward=self._feed_forward(dtype) if self.has_feed_forward else None,
                    multipliers=self.multipliers,
                    **{role: self.norm(self.norm_modules[role], dtype) for role in roles},
                )
        except (AttributeError, TypeError, ValueError, IndexError, RuntimeError) as error:
            if isinstance(error, FFBlockError):
                raise
            found = (
                f"its {type(error.obj).__name__} has no {error.name}"
                if isinstance(error, AttributeError)
                else str(error)
            )
            raise UnsupportedModelError(
                f"{self.where}: its weights do not have the layout of a {self.order} block: {found}."
            ) from error

    def attention(self, dtype: torch.dtype) -> AttentionWeights:
        """Weights of attention, on their own device."""
        if self.is_recurrent:
            return self.mixer(dtype).attention
        if self.is_latent:
            return self._latent_attention(dtype)
        if self.norms_values:
            return self._attention_of_normed_values(dtype)
        w_o, w_v = (_tensor(matrix(self.block.attn, name), dtype) for name in ("W_O", "W_V"))
        b_o = _bias(bias(self.block.attn, "b_O"), (w_o.shape[-1],), w_o)
        b_v = _bias(bias(self.block.attn, "b_V"), (w_v.shape[0], w_o.shape[1]), w_o)
        norm = None if self.values_norm is None else self.norm(self.values_norm, dtype)
        return AttentionWeights(w_o, b_o, w_v, b_v, norm=norm)

    def _latent_attention(self, dtype: torch.dtype) -> AttentionWeights:
        """Weights of multi-head latent attention: values are `norm(x W_down) W_up` (arXiv 2405.04434, eq. 9 to 11)."""
        attn, sizes = self.block.attn, _inner(self.block.attn)
        down, up, out = _read_linears(
            *(_inner(getattr(attn, name)) for name in ("kv_a_proj_with_mqa", "kv_b_proj", "o"))
        )
        if any(linear.bias is not None and bool(linear.bias.any()) for linear in (down, up)):
            raise UnsupportedModelError(
                f"{self.where}: its latent vector or its values have a bias, which is not a known form of latent attention."
            )
        w_o = rearrange(_tensor(out.weight, dtype), "(head e) d -> head e d", e=sizes.v_head_dim)
        # Of every head the key's part without rotation comes first.
        w_v = rearrange(_tensor(up.weight, dtype), "rank (head e) -> head rank e", head=len(w_o))[
            ..., -sizes.v_head_dim :
        ]
        latent = Latent(_tensor(down.weight[:, : sizes.kv_lora_rank], dtype), self.norm(self.latent_norm, dtype))
        b_o = _bias(out.bias, w_o.shape[-1:], w_o)
        return AttentionWeights(w_o, b_o, w_v, w_o.new_zeros(w_o.shape[:2]), latent)

    def _attention_of_normed_values(self, dtype: torch.dtype) -> AttentionWeights:
        """Weights of attention whose values are normed by head, and made as keys are where there is no W_V; heads differ by layer."""
        attn = self.block.attn
        value, out = _read_linears(_inner(getattr(attn, "v" if "v" in attn._modules else "k")), _inner(attn.o))
        if value.bias is not None and bool(value.bias.any()):
            raise UnsupportedModelError(f"{self.where}: its normed values have a bias, which is not a known form.")
        w_v, w_o = (_tensor(linear.weight, dtype) for linear in (value, out))
        w_v, w_o = (
            rearrange(w_v, "d (head e) -> head d e", e=self._d_head),
            rearrange(w_o, "(head e) d -> head e d", e=self._d_head),
        )
        b_o, b_v = _bias(out.bias, w_o.shape[-1:], w_o), w_v.new_zeros(len(w_v), self._d_head)
        return AttentionWeights(w_o, b_o, w_v, b_v, value_norm=self.norm(self.name("attn.v_norm"), dtype))

    @property
    def _d_head(self) -> int:
        return int(_inner(self.block.attn).head_dim)

    def _latent_query_keys(self, dtype: torch.dtype) -> QueryKeyWeights:
        """Queries `x W_DQ gain W_UQ`, keys `x W_DKV gain W_UK` and, shared by all heads, the rotated part `x W_KR`."""
        attn, sizes, latent = self.block.attn, _inner(self.block.attn), self._latent_attention(dtype).latent
        assert latent is not None
        down, up = _read_linears(*(_inner(getattr(attn, name)) for name in ("kv_a_proj_with_mqa", "kv_b_proj")))
        if sizes.q_lora_rank is None:
            w_q = _tensor(_read_linears(_inner(attn.q_proj))[0].weight, dtype)
        else:
            first, second = _read_linears(_inner(attn.q_a_proj), _inner(attn.q_b_proj))
            gain = _tensor(_inner(attn.q_a_layernorm).weight, dtype)
            w_q = (_tensor(first.weight, dtype) * gain) @ _tensor(second.weight, dtype)
        w_q = rearrange(w_q, "d (head e) -> head d e", e=sizes.qk_head_dim)
        made = (latent.w_down * latent.norm.gain) @ _tensor(up.weight, dtype)
        content = rearrange(made, "d (head e) -> head d e", head=len(w_q))[..., : -sizes.v_head_dim]
        rotated = _tensor(down.weight, dtype)[None, :, sizes.kv_lora_rank :].expand(len(w_q), -1, -1)
        w_k = torch.cat([content, rotated], dim=-1)
        zero = w_q.new_zeros(len(w_q), w_q.shape[-1])
        return QueryKeyWeights(w_q, zero, w_k, zero)

    @property
    def latent_norm(self) -> str:
        """Name of the norm of latent attention's latent vector."""
        return self.name("attn.kv_a_layernorm")

    def _feed_forward(self, dtype: torch.dtype) -> FeedForward | tuple[FeedForward, ...]:
        if self.has_experts:
            return self.experts(dtype)
        return self._dense(self.fed, self.activation(), dtype)

    def _dense(self, mlp: Any, activation: Activation, dtype: torch.dtype) -> FeedForward:
        w_in, w_out = (_tensor(matrix(mlp, name), dtype) for name in ("W_in", "W_out"))
        b_in = _bias(bias(mlp, "b_in"), w_in.shape[1:], w_in)
        d_mlp, d_model = w_out.shape
        gate: tuple[Tensor | None, Tensor | None] = (None, None)
        if has_matrix(mlp, "W_gate"):
            gate = _tensor(matrix(mlp, "W_gate"), dtype), _bias(bias(mlp, "b_gate"), (d_mlp,), w_in)
        elif self.is_fused:
            (w_gate, w_in), (b_gate, b_in) = w_in.chunk(2, dim=1), b_in.chunk(2)
            gate = w_gate, b_gate
        return FeedForward(w_in, b_in, w_out, _bias(bias(mlp, "b_out"), (d_model,), w_in), activation, *gate)

    def norm(self, name: str | None, dtype: torch.dtype) -> Norm:
        """A norm by the name of its module, on this layer's device; a norm of another layer may be on another device.

        Raises:
            UnsupportedModelError: if TransformerLens has no form for the norm.
        """
        like = self._written.new_empty(self._written.shape[-1], dtype=dtype)
        if name is None:
            return Norm.absent(like)
        norm, cfg = self.hooked.get_submodule(name), self.hooked.cfg
        on_bridge = self.api == "TransformerBridge"
        # Norms inside attention, that of a prediction head and Gemma-4's are Hugging Face's modules.
        layer_norm = isinstance(_inner(norm), nn.LayerNorm)
        inner = on_bridge and not hasattr(norm, "uses_rms_norm")
        if inner and not (layer_norm or type(_inner(norm)).__name__.endswith("RMSNorm")):
            raise UnsupportedModelError(
                f"{self.where}: {name} ({type(_inner(norm)).__name__}) is not a LayerNorm or RMSNorm in this TransformerLens, so its "
                "form is not known."
            )
        of_class = str(cfg.normalization_type).startswith("LN")
        centred = not getattr(norm, "uses_rms_norm", not layer_norm) if on_bridge else of_class
        offset = on_bridge and _gain_is_offset(norm, cfg, centred=centred)
        own_eps = (getattr(_inner(norm), attribute, None) for attribute in ("eps", "variance_epsilon"))
        eps = next((eps for eps in own_eps if eps is not None), cfg.eps)
        owner = _inner(norm) if inner else norm
        shown = {name: getattr(owner, name if inner else name[0], None) for name in ("weight", "bias")}
        weight, shift = (tensor if tensor is None else loaded(norm, name, tensor) for name, tensor in shown.items())
        absent = like.new_ones(1) if inner else torch.ones_like(like)  # a norm of heads has another width
        gain = absent if weight is None else weight.detach().to(like)
        return Norm(gain + 1 if offset else gain, _bias(shift, gain.shape, gain), float(eps), centred)

    @property
    def _written(self) -> Float[Tensor, "... d"]:
        """Output matrix of the component that mixes tokens."""
        if self.is_recurrent:
            return self.mixer(torch.float32).attention.w_o
        by_module = self.is_latent or self.norms_values
        return _read_linears(_inner(self.block.attn.o))[0].weight if by_module else matrix(self.block.attn, "W_O")

    def activation(self) -> Activation:
        """The activation of a dense feed-forward.

        Raises:
            UnsupportedModelError: if it is not elementwise, or cannot be found.
        """
        where, block = f"layer {self.number}", self.block
        if self.api != "TransformerBridge":
            return recognise(self.fed.act_fn, f"{where}, act_fn={self.hooked.cfg.act_fn!r}")
        original = getattr(block, "original_component", None)
        for owner in (
            getattr(self.fed, "original_component", None),
            getattr(original, "intermediate", None),
            original,
        ):
            for attribute in _ACTIVATIONS:
                function = getattr(owner, attribute, None)
                if callable(function):
                    return recognise(function, where)
        if self.is_gated:  # written in its forward function (LFM2); the identity of its activations decides
            return recognise(nn.functional.silu, where)
        raise UnsupportedModelError(
            f"{where}: no activation function found in {type(self.fed).__name__}, so the layer cannot be certified."
        )

    def experts(self, dtype: torch.dtype) -> tuple[FeedForward, ...]:
        """Weights of the experts, a shared one last.

        Raises:
            UnsupportedModelError: if their form is not known.
        """
        with weights_on_device(self.fed, *([] if self.beside is None else [getattr(self.block, self.beside)])):
            return self._experts(dtype)

    def _experts(self, dtype: torch.dtype) -> tuple[FeedForward, ...]:
        mlp, where = self.fed, f"layer {self.number}"
        if self.api != "TransformerBridge":
            of = [(_read_linears(e.W_gate, e.W_in, e.W_out), recognise(e.act_fn, where)) for e in mlp.experts]
            return tuple(_expert(linears, activation, dtype) for linears, activation in of)
        original = mlp.original_component
        experts = _inner(original.experts)
        if hasattr(experts, "gate_up_proj_bias"):
            routed = _interleaved_experts(experts, dtype)
        elif hasattr(experts, "gate_up_proj") or hasattr(experts, "up_proj"):
            routed = _stacked_experts(
                experts, recognise(experts.act_fn, where), dtype, scaled_inputs=self._scales_inputs
            )
        else:
            raise UnsupportedModelError(f"{where}: experts of type {type(experts).__name__} do not have a known form.")
        if self.beside is not None:
            module = getattr(self.block, self.beside)
            return (*routed, self._dense(module, recognise(_inner(module).activation, where), dtype))
        shared = self._shared_expert
        if shared is not None:
            linears = _read_linears(*(_inner(getattr(shared, name)) for name in SHARED_EXPERT if hasattr(shared, name)))
            function = next(getattr(shared, name) for name in _ACTIVATIONS if hasattr(shared, name))
            routed += (_expert(linears, recognise(function, where), dtype),)
        return routed

    @cached_property
    def _scales_inputs(self) -> bool:
        """Whether router weights multiply the inputs of a bridge's experts, which are called with nothing else (Llama-4)."""
        original = getattr(self.fed, "original_component", None)
        return type(_inner(getattr(original, "experts", None))).__name__ == "Llama4TextExperts"

    @property
    def _shared_expert(self) -> Any:
        """Module of a bridge's expert that gets every token; None if there is none."""
        original = self.fed.original_component
        return next((_inner(getattr(original, name)) for name in SHARED_EXPERTS if hasattr(original, name)), None)

    @property
    def _router(self) -> Any:
        original = self.fed.original_component
        return _inner(getattr(original, "gate", getattr(original, "router", None)))

    @property
    def _normalises_routing(self) -> bool:
        """Whether weights of the chosen experts are scaled to sum to 1 (not in all Qwen routers)."""
        owner = self._router if self.api == "TransformerBridge" else self.fed.cfg
        return bool(getattr(owner, "norm_topk_prob", True))

    def router_bias(self) -> Float[Tensor, " expert"] | None:
        """Bias [expert] of a bridge's router if its weights are normalised over the chosen experts (gpt_oss); else None."""
        if self.api != "TransformerBridge" or not self._normalises_routing:
            return None
        with weights_on_device(self._router):
            held = getattr(self._router, "bias", None)
        return held.detach() if isinstance(held, Tensor) else None

    def routing_weights(self, tensors: Mapping[str, Tensor]) -> Float[Tensor, "*query expert"] | None:
        """Router weights of the experts [... expert], the shared expert's gate last; None without a router.

        Args:
            tensors: Tensors of the sites in `routing_names`.

        Raises:
            UnsupportedModelError: if they are not the router's probabilities, logits or choices.
        """
        self._refuse_other_routing(tensors)
        if "routing" in tensors:
            return self._with_shared(tensors["routing"], tensors)
        if "scores" in tensors:
            return self._with_shared(tensors["scores"], tensors)
        if "routed" in tensors:
            return self._with_shared(self._routed_again(tensors["routed"]), tensors)
        if "router_logits" in tensors:
            probabilities = tensors["router_logits"].float().softmax(dim=-1)
            chosen = probabilities.topk(int(self._router.top_k), dim=-1).indices
        elif "probabilities" in tensors:
            probabilities, chosen = tensors["probabilities"], tensors["chosen"].long()
        else:
            return None
        weights = probabilities.gather(-1, chosen)
        if self._normalises_routing:
            weights = weights / weights.sum(dim=-1, keepdim=True)
        return self._with_shared(torch.zeros_like(probabilities).scatter(-1, chosen, weights), tensors)

    def _with_shared(self, routing: Tensor, tensors: Mapping[str, Tensor]) -> Float[Tensor, "*query expert"]:
        """Router weights with that of the shared expert last: its gate, or 1 without one."""
        if "shared" in tensors:
            return torch.cat([routing, tensors["shared"].sigmoid().reshape(*routing.shape[:-1], 1)], dim=-1)
        shared = self._on_bridge and (self.beside is not None or self._shared_expert is not None)
        return torch.cat([routing, torch.ones_like(routing[..., :1])], dim=-1) if shared else routing

    def _refuse_other_routing(self, tensors: Mapping[str, Tensor]) -> None:
        """Refuse tensors of a router whose HookPoints have another meaning than their names (GraniteMoE)."""
        widths: dict[str, tuple[int, ...]] = {}
        if self.has_experts:
            experts = self._n_experts
            widths = dict.fromkeys(("router_logits", "probabilities", "scores"), (experts,))
            widths |= {"chosen": tuple(range(1, experts + 1)), "shared": (1,)}
        for site in sorted(tensors.keys() & widths):
            tensor, chosen = tensors[site], site == "chosen"
            right = tensor.is_floating_point() != chosen and tensor.ndim > 0 and tensor.shape[-1] in widths[site]
            if right and chosen and tensor.numel():
                low, high = torch.stack(tensor.aminmax()).tolist()
                right = low >= 0 and high < widths["probabilities"][0]
            if not right:
                meant = "numbers of the chosen experts" if chosen else f"one number for each of {widths[site][0]}"
                raise UnsupportedModelError(
                    f"{self.where}: HookPoint {self.routing_names[site]} of the router has {tensor.dtype} "
                    f"{list(tensor.shape)}, expected {meant}, so router weights are not known."
                )

    @property
    def _n_experts(self) -> int:
        """Number of experts that a router chooses from."""
        mlp = self.fed
        if self.api != "TransformerBridge":
            return len(mlp.experts)
        experts = _inner(mlp.original_component.experts)
        stacked = getattr(experts, "gate_up_proj", getattr(experts, "up_proj", None))
        return len(experts) if stacked is None else len(stacked)

    def score_scale(self) -> float:
        """Scale of attention scores, read from the attention module.

        1 / sqrt(d_head) if the module has no scale. Other numbers occur in Granite (attention_multiplier), Gemma
        (query_pre_attn_scalar) and GPT-2 with scale_attn_by_inverse_layer_idx.
        """
        attn = self.block.attn
        if self.api != "TransformerBridge":
            return 1.0 / float(attn.attn_scale)
        inner = getattr(attn, "original_component", None)
        for owner in (inner, getattr(inner, "self", None)):  # BERT's is inside its attention
            for name, power in _SCALES:
                value = getattr(owner, name, None)
                if isinstance(value, (float, Tensor)):
                    return float(value) ** power
        return float(self.hooked.cfg.d_head) ** -0.5

    def query_keys(self, dtype: torch.dtype, *, exact: bool = True) -> QueryKeyWeights:
        """Weights of queries and keys, detached; key heads are repeated for the heads that share them.

        Args:
            dtype: Dtype of the weights.
            exact: Whether attention reads its input through queries, keys and values alone, of which these are the weights. Else a
                gate may read it too, and weights of latent attention are products of its matrices, without the scales of the norms
                in between.

        Raises:
            UnsupportedModelError: if attention has no W_Q and W_K by head, or for a gate.
        """
        if self.is_recurrent:
            raise UnsupportedModelError(
                f"{self.where}: its tokens are mixed without a softmax, so there are no queries and keys with edges of their own. Use "
                "estimates or patches of heads, without edges."
            )
        attn = self.block.attn
        if exact and (self.gate_name is not None or self.values_norm is not None or self.norms_values):
            found = "the gate of its attention reads the residual stream, too, and has no edges of its own"
            if self.gate_name is None:
                found = "the norm before W_O reads all heads together, so that their outputs do not sum"
            if self.norms_values:
                found = "values have a norm of their own, so that they do not sum over edges"
            raise UnsupportedModelError(f"{self.where}: {found}. Use estimates or patches of heads, without edges.")
        if self.is_latent and not exact:
            return self._latent_query_keys(dtype)
        weights: list[Tensor] = []
        if self.norms_values:  # the width of heads differs by layer
            read = _read_linears(_inner(attn.q), _inner(attn.k))
            weights = [rearrange(linear.weight, "d (head e) -> head d e", e=self._d_head) for linear in read]
        else:
            with suppress(AttributeError):
                weights = [matrix(attn, name) for name in ("W_Q", "W_K")]
        if not weights or any(weight.ndim != 3 for weight in weights):
            raise UnsupportedModelError(
                f"{self.where}: its attention has no W_Q and W_K [head d_model d_head], from which queries and keys are computed."
            )

        def by_head(tensor: Tensor) -> Tensor:
            return tensor.detach().to(dtype).repeat_interleave(len(weights[0]) // len(tensor), dim=0)

        (w_q, w_k), held = weights, (bias(attn, "b_Q"), bias(attn, "b_K"))
        if len(w_q) == 2 * int(self.hooked.cfg.n_heads):  # each head's gate comes after its query
            w_q, held = w_q[::2], (None if held[0] is None else held[0][::2], held[1])
            weights = [w_q, w_k]
        b_q, b_k = (
            by_head(weight.new_zeros(len(weight), weight.shape[-1]) if shown is None else shown)
            for weight, shown in zip(weights, held, strict=True)
        )
        return QueryKeyWeights(by_head(w_q), b_q, by_head(w_k), b_k)


def _first_norm(block: Any) -> str:
    """Name of a layer's first norm; "norm" in layers of a mixer alone."""
    return "norm" if "norm" in block._modules else "ln1"


def has_norm(hooked: HookedModel, name: str) -> bool:
    """Whether a norm of this name exists and is not the identity.

    With `normalization_type=None` the module does not exist, or is an `nn.Identity`.
    """
    with suppress(AttributeError):
        return not isinstance(_inner(hooked.get_submodule(name)), nn.Identity)
    return False


def is_stream(name: str) -> bool:
    """Whether a HookPoint is the residual stream at a layer's input or output."""
    return re.fullmatch(r"blocks\.\d+\.hook_(resid_pre|in|resid_post|out)", name) is not None


def patching_name(name: str) -> str | None:
    """Name of a HookPoint in TransformerLens's patching functions, such as "mlp_out"; None for one inside a component."""
    short = re.fullmatch(r"blocks\.\d+\.hook_(\w+)", name)
    return None if short is None else short[1]


def _gain_is_offset(norm: Any, cfg: Any, *, centred: bool) -> bool:
    """Whether the gain is 1 + weight: Gemma's RMSNorm, Nemotron's LayerNorm1P."""
    if hasattr(norm, "uses_weight_offset"):
        return bool(norm.uses_weight_offset)
    return type(_inner(norm)).__name__.endswith("1P") if centred else bool(getattr(cfg, "rmsnorm_uses_offset", False))


def _read_linears(*modules: Any) -> list[Linear]:
    with weights_on_device(*modules):
        return [linear_of(module, "an expert") or Linear(module.weight.T, module.bias) for module in modules]


def _expert(linears: Sequence[Linear], activation: Activation, dtype: torch.dtype) -> FeedForward:
    *gates, up, down = linears
    w_in, w_out = (_tensor(linear.weight, dtype) for linear in (up, down))
    d_mlp, d_model = w_out.shape
    b_in, *b_gate = (_bias(linear.bias, (d_mlp,), w_in) for linear in (up, *gates))
    w_gate = _tensor(gates[0].weight, dtype) if gates else None
    b_out = _bias(down.bias, (d_model,), w_in)
    return FeedForward(w_in, b_in, w_out, b_out, activation, w_gate, b_gate[0] if gates else None)


def _stacked_experts(
    experts: Any, activation: Activation, dtype: torch.dtype, *, scaled_inputs: bool
) -> tuple[FeedForward, ...]:
    """Experts with gate_up_proj [expert 2 d_mlp d_model], the gate first, or up_proj [expert d_mlp d_model]; no biases."""
    gated, transposed = hasattr(experts, "gate_up_proj"), getattr(experts, "is_transposed", scaled_inputs)
    stacks = (_tensor(experts.gate_up_proj if gated else experts.up_proj, dtype), _tensor(experts.down_proj, dtype))
    pairs = zip(*(stack.mT if transposed else stack for stack in stacks), strict=True)
    of_experts = ((*up.chunk(1 + gated, dim=0), down) for up, down in pairs)
    made = (_expert([Linear(weight.T, None) for weight in of], activation, dtype) for of in of_experts)
    return tuple(replace(expert, scaled_input=scaled_inputs) for expert in made)


def _interleaved_experts(experts: Any, dtype: torch.dtype) -> tuple[FeedForward, ...]:
    """Experts of gpt_oss: gate_up_proj [expert d_model 2 d_mlp], gate and linear branch alternating, with biases, both clamped."""
    alpha, limit = float(experts.alpha), float(experts.limit)

    def gate(s: Tensor) -> Tensor:
        return torch.sigmoid(alpha * s)

    activation = ClampedGate("clamped_silu", lambda s: s * gate(s), gate, limit=limit)
    weights = (experts.gate_up_proj, experts.gate_up_proj_bias, experts.down_proj, experts.down_proj_bias)
    return tuple(
        FeedForward(w[:, 1::2], b[1::2], w_out, b_out, activation, w[:, ::2], b[::2])
        for w, b, w_out, b_out in zip(*(_tensor(weight, dtype) for weight in weights), strict=True)
    )


def _inner(module: Any) -> Any:
    return getattr(module, "original_component", module)


def _tensor(parameter: Tensor, dtype: torch.dtype) -> Tensor:
    return parameter.detach().to(dtype)


def _bias(parameter: Tensor | None, shape: tuple[int, ...], like: Tensor) -> Float[Tensor, "..."]:
    return like.new_zeros(shape) if parameter is None else parameter.detach().to(like)
