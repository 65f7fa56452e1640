"""Attention patterns recomputed from queries and keys: for attention that returns none, and for patterns too large for memory.

1. A model with `sdpa` or flash attention keeps its implementation. Its pattern is recomputed, `softmax(q k^T scale + mask)`.
   Pattern times values is compared with the output of the model's attention (`shown`).
2. Bridges compute several tensors [head query key] in every layer, which are the largest tensors of a long text. With
   `shown(by_rows=True)`, Hugging Face's attention module runs instead, with its own queries, keys, masks and positions. Its
   pattern is computed some rows at a time, and once more in a backward pass.

Both use the interface of attention functions of transformers (`AttentionInterface`). Rows read only the keys between the first
and the last that their mask allows; with a sliding window this is its band.
"""

# Noun: memory-efficient attention (Rabe and Staats 2021, "Self-attention does not need O(n^2) memory")

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from tl_ffblock.bridge.hugging_face import probe_tokens
from tl_ffblock.bridge.inputs import Batch, forward
from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import IdentityError, UnsupportedModelError

PATTERN_BYTES = 2**28
"""Largest size of a layer's pattern in a forward pass, in bytes; above it, attention runs by rows if it can."""
ROW_BYTES = {"cpu": 2**24, "cuda": 2**28}
"""Largest size of the rows of a pattern that are computed at a time, in bytes, by device."""
_NAME, _SETTING = "tl_ffblock", "_attn_implementation"
_EAGER = (None, "eager")


@dataclass(frozen=True)
class Shown:
    """Settings of attention inside `shown`.

    `own` is the name of the model's implementation in transformers; None means attention by rows. `rows` are the queries with a
    pattern at the HookPoint; None means all. `joint` are bridges whose components are outside the module that they wrap, by
    the module's id.
    """

    model: Model
    own: str | None
    pattern: bool
    rows: Int[Tensor, "batch query"] | None
    joint: Mapping[int, Any]
    called: list[int] = field(default_factory=list)

    def attend(self, module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **options: Any) -> Any:
        """An attention function of transformers: output [batch pos head d_head], and the pattern or None."""
        self.called.append(id(module))
        q, k, v = (self._passing(module, name, tensor) for name, tensor in (("q", q), ("k", k), ("v", v)))
        scores = _Scores.of(module, q, k, mask, options)
        if self.own is None:
            z = scores.attended(v)
        else:
            functions, _ = _interfaces()
            z = functions[self.own](module, q, k, v, mask, **options)[0]
        pattern = self._pattern(module, scores, v, z) if self.pattern else None
        outside = self.joint.get(id(module))
        if outside is not None and not _holds(module, outside.o):
            z = outside.o.hook_in(z.flatten(2)).view(z.shape)
        return z, pattern

    def _passing(self, module: nn.Module, name: str, x: Float[Tensor, "batch head pos e"]) -> Tensor:
        """The tensor after the HookPoint of a component that this module's forward pass does not call."""
        bridge = self.joint.get(id(module))
        if bridge is None or _holds(module, getattr(bridge, name)):
            return x
        flat = x.transpose(1, 2).flatten(2)
        return getattr(bridge, name).hook_out(flat).view(*flat.shape[:2], *x.shape[1::2]).transpose(1, 2)

    @torch.no_grad()
    def _pattern(
        self, module: nn.Module, scores: "_Scores", v: Tensor, z: Tensor
    ) -> Float[Tensor, "batch head row key"]:
        rows = scores.rows if self.rows is None else self.rows.to(v.device)
        pattern = scores.pattern_of(rows)
        if self.own is not None:
            self._refuse_other(module, pattern, v, z, rows)
        return pattern

    def _refuse_other(self, module: nn.Module, pattern: Tensor, v: Tensor, z: Tensor, rows: Tensor) -> None:
        shown = torch.take_along_dim(z, rows[:, :, None, None], dim=1).transpose(1, 2)
        made = pattern @ _for_heads(v, pattern)
        seen = pattern.sum(dim=-1) > 0  # rows of padding may attend to nothing
        gap = (made - shown).norm(dim=-1)[seen]
        error = float((gap / shown.norm(dim=-1).max()).max()) if gap.numel() else 0.0
        if not error <= self.model.tolerance:
            raise IdentityError(
                f"{self.model.name} ({self.model.family.name}): attention runs {self.own!r} in {type(module).__name__}, and "
                f"the pattern recomputed from its queries and keys, times its values, differs from its output by {error:.1e} "
                f'(tolerance {self.model.tolerance:g}). Load the Hugging Face model with attn_implementation="eager".'
            )


@dataclass(frozen=True)
class _Scores:
    """Attention scores and patterns, computed for some rows at a time."""

    q: Float[Tensor, "batch head pos e"]
    k: Float[Tensor, "batch head pos e"]
    mask: Bool[Tensor, "#batch #head #pos key"] | Float[Tensor, "#batch #head #pos key"] | None
    causal: bool
    window: int | None
    scale: float
    softcap: float | None
    sinks: Float[Tensor, " head"] | None

    @classmethod
    def of(cls, module: Any, q: Tensor, k: Tensor, mask: Tensor | None, options: Mapping[str, Any]) -> "_Scores":
        if options.get("position_bias") is not None:
            raise UnsupportedModelError(f"{type(module).__name__} adds position biases to its attention scores.")
        causal = options.get("is_causal")
        causal = getattr(module, "is_causal", True) if causal is None else causal
        flat = mask is not None and mask.ndim == 2  # flash attention has only a padding mask
        return cls(
            q, _for_heads(k, q), mask[:, None, None].bool() if flat and mask is not None else mask,
            causal=bool(causal) and (flat or mask is None), window=options.get("sliding_window"),
            scale=options.get("scaling") or q.shape[-1] ** -0.5,
            softcap=options.get("softcap"), sinks=options.get("s_aux"),
        )  # fmt: skip

    @property
    def rows(self) -> Int[Tensor, "batch row"]:
        return torch.arange(self.q.shape[2], device=self.q.device).expand(len(self.q), -1)

    def chunks(self, n_rows: int) -> Iterator[slice]:
        """Slices of rows, each at most `ROW_BYTES`."""
        batch, heads, n, _ = self.q.shape
        row_bytes = batch * heads * n * max(4, self.q.element_size())
        step = max(1, ROW_BYTES.get(self.q.device.type, ROW_BYTES["cpu"]) // row_bytes)
        yield from (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))

    def attended(self, v: Float[Tensor, "batch kv_head pos e"]) -> Float[Tensor, "batch pos head e"]:
        """Weighted values of every position, [batch pos head e]."""
        values, found = _for_heads(v, self.q), []
        for chunk in self.chunks(self.q.shape[2]):
            made = partial(self._weighted, chunk)
            tracked = torch.is_grad_enabled() and any(t.requires_grad for t in (self.q, self.k, v))
            found.append(checkpoint(made, values, use_reentrant=False) if tracked else made(values))
        return torch.cat(found, dim=2).transpose(1, 2).contiguous()

    def _weighted(self, chunk: slice, values: Tensor) -> Tensor:
        pattern, keys = self._made(self.rows[:, chunk], self.q[:, :, chunk])
        return pattern @ values[:, :, keys]

    def pattern_of(self, rows: Int[Tensor, "batch row"]) -> Float[Tensor, "batch head row key"]:
        """Pattern of some rows over all keys, [batch head row key]."""
        pattern = self.q.new_zeros(*self.q.shape[:2], rows.shape[1], self.k.shape[2])
        for chunk in self.chunks(rows.shape[1]):
            own = rows[:, chunk]
            made, keys = self._made(own, torch.take_along_dim(self.q, own[:, None, :, None], dim=2))
            pattern[:, :, chunk, keys] = made
        return pattern

    def _made(self, rows: Int[Tensor, "batch row"], q: Float[Tensor, "batch head row e"]) -> tuple[Tensor, slice]:
        """Pattern of some rows over a range of keys, from the first to the last that a row attends to, and this range."""
        allowed = self._allowed(rows)
        if allowed is None:
            keys = slice(0, self.k.shape[2])
        else:
            seen = allowed.flatten(0, 2).any(dim=0).nonzero()[:, 0]
            keys = slice(int(seen[0]), int(seen[-1]) + 1) if len(seen) else slice(0, 1)
        scores = q @ self.k[:, :, keys].transpose(-1, -2) * self.scale
        if self.softcap is not None:
            scores = torch.tanh(scores / self.softcap) * self.softcap
        if self.mask is not None and self.mask.dtype != torch.bool:
            scores = scores + _of_rows(self.mask, rows)[..., keys]
        if allowed is not None:
            scores = scores.masked_fill(~allowed[..., keys], torch.finfo(scores.dtype).min)
        if self.sinks is not None:
            sinks = self.sinks.detach().to(scores).view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
            scores = torch.cat([scores, sinks], dim=-1)
        wide = torch.promote_types(scores.dtype, torch.float32)
        pattern = torch.softmax(scores, dim=-1, dtype=wide).to(q.dtype)
        pattern = pattern if self.sinks is None else pattern[..., :-1]
        return pattern if allowed is None else pattern * allowed[..., keys].any(dim=-1, keepdim=True), keys

    def _allowed(self, rows: Int[Tensor, "batch row"]) -> Bool[Tensor, "#batch #head row key"] | None:
        """Mask of the keys that the rows attend to; None means all."""
        allowed = None
        if self.causal:
            keys = torch.arange(self.k.shape[2], device=rows.device)
            allowed = (keys <= rows[..., None])[:, None]
            if self.window is not None:
                allowed = allowed & (keys > rows[..., None] - self.window)[:, None]
        if self.mask is not None:
            own = _of_rows(self.mask, rows)
            own = own if own.dtype == torch.bool else own > torch.finfo(own.dtype).min
            allowed = own if allowed is None else allowed & own
        return allowed


def _of_rows(mask: Tensor, rows: Int[Tensor, "batch row"]) -> Tensor:
    return mask if mask.shape[2] == 1 else torch.take_along_dim(mask, rows[:, None, :, None], dim=2)


def _for_heads(x: Float[Tensor, "batch kv_head pos e"], like: Float[Tensor, "batch head ..."]) -> Tensor:
    n_groups = like.shape[1] // x.shape[1]
    return x if n_groups == 1 else x.repeat_interleave(n_groups, dim=1)


def _holds(module: nn.Module, piece: nn.Module) -> bool:
    return any(each is piece for each in module.modules())


# Open contexts, the innermost last. A list of the module, since backward passes run layers again on autograd's threads.
_open: list[Shown] = []


def _attend(module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, **options: Any) -> Any:
    return _open[-1].attend(module, q, k, v, mask, **options)


def _mask(*args: Any, **options: Any) -> Any:
    _, masks = _interfaces()
    return masks[_open[-1].own or "sdpa"](*args, **options)


def _interfaces() -> tuple[Any, Any]:
    """Tables of transformers for attention functions and their masks, with those of this module."""
    if _NAME not in ALL_ATTENTION_FUNCTIONS:
        ALL_ATTENTION_FUNCTIONS.register(_NAME, _attend)
        ALL_MASK_ATTENTION_FUNCTIONS.register(_NAME, _mask)
    return ALL_ATTENTION_FUNCTIONS, ALL_MASK_ATTENTION_FUNCTIONS


def _configs(model: Model) -> list[Any]:
    wrapped = getattr(model.hooked, "original_model", None)
    if getattr(model.hooked.cfg, "is_multimodal", False):  # an encoder's attention keeps its implementation
        wrapped = torch.nn.ModuleList(layer.block.attn.original_component for layer in model.layers)
    found = (getattr(module, "config", None) for module in wrapped.modules()) if wrapped is not None else ()
    return list({id(config): config for config in found if hasattr(config, _SETTING)}.values())


def _wrapper(attention: Any) -> Any:
    """The class `AttentionBridge` among the bases, whose forward pass is that of the wrapped module; else None."""
    return next((each for each in type(attention).__mro__ if each.__name__ == "AttentionBridge"), None)


def own_implementation(model: Model) -> str | None:
    """Name of a model's attention implementation if it returns no pattern, such as "sdpa"; else None."""
    if model.api != "TransformerBridge":
        return None
    first = next((layer.block.attn for layer in model.layers if not layer.is_recurrent), None)
    if first is None or (wrapper := _wrapper(first)) is None or type(first).forward is not wrapper.forward:
        return None
    own = {getattr(config, _SETTING) for config in _configs(model)}
    if _NAME in own:  # inside `shown`
        return _open[-1].own
    own -= {*_EAGER}
    return own.pop() if len(own) == 1 else None


@contextmanager
def shown(
    model: Model, *, pattern: bool, rows: Int[Tensor, "batch query"] | None = None, by_rows: bool = False
) -> Iterator[Shown | None]:
    """Context in which attention returns its pattern, or runs by rows; without need for either, nothing changes.

    Args:
        model: The model.
        pattern: Whether the HookPoint has the pattern.
        rows: Queries of this pattern; None means all.
        by_rows: Whether patterns are computed by rows, and only these rows are kept: see `runs_by_rows`.
    """
    own = own_implementation(model)
    if not by_rows and (own is None or not pattern):
        yield None
        return
    attentions = [layer.block.attn for layer in model.layers if not layer.is_recurrent]
    joint = {id(attention.original_component): attention for attention in attentions if hasattr(attention, "qkv")}
    _interfaces()
    with ExitStack() as stack:
        for config in _configs(model):
            stack.callback(setattr, config, _SETTING, getattr(config, _SETTING))
            setattr(config, _SETTING, _NAME)
        for attention in attentions:
            wrapper = _wrapper(attention)
            if type(attention).forward is not wrapper.forward:
                attributes = vars(attention)  # on its own dictionary: see traced.py
                stack.callback(attributes.pop, "forward")
                attributes["forward"] = partial(wrapper.forward, attention)
        _open.append(Shown(model, None if by_rows else own, pattern, rows, joint))
        stack.callback(_open.pop)
        yield _open[-1]


def by_rows_differs(model: Model) -> float:
    """Largest difference of logits with attention by rows from those without, in a clean forward pass; computed once per model.

    Infinite if the model's attention cannot run by rows: its module does not use transformers' interface, or logits differ.
    """
    memory = model.memory
    if memory.by_rows_differs is None:
        memory.by_rows_differs = _difference(model)
    return memory.by_rows_differs


@torch.no_grad()
def _difference(model: Model) -> float:
    bridges = model.api == "TransformerBridge" and all(
        not layer.is_recurrent and _wrapper(layer.block.attn) and not layer.is_latent and layer.gate_name is None
        for layer in model.layers
    )
    options = ("use_split_qkv_input", "use_attn_in", "use_attn_result", "use_hook_mlp_in")
    if not bridges or any(getattr(model.hooked.cfg, option, False) for option in options):
        return float("inf")
    batch = Batch(probe_tokens(model.hooked))
    try:
        with model.hooks_disabled():
            expected = forward(model, batch)
            with shown(model, pattern=False, by_rows=True) as inside:
                logits = forward(model, batch)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError, NotImplementedError):
        return float("inf")  # Hugging Face's module does not run by rows inside a bridge
    if inside is None or len(set(inside.called)) < model.n_layers:
        return float("inf")
    difference = float((logits - expected).abs().max())
    return difference if difference <= model.tolerance * float(expected.abs().max()) else float("inf")


def runs_by_rows(model: Model, batch: Batch) -> bool:
    """Whether a batch's attention runs by rows: a layer's pattern is above `PATTERN_BYTES`, and the model's attention can."""
    number, length = batch.tokens.shape
    held = number * model.n_heads * length**2 * model.parameter.element_size()
    changed = any("forward" in vars(getattr(layer.block, layer.mixes)) for layer in model.layers)
    if held <= PATTERN_BYTES or batch.media or changed:
        return False  # a forward function that a user has set is not replaced
    return by_rows_differs(model) < float("inf")
