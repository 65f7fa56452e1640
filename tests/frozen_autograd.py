"""The Hugging Face model itself with local rules, differentiated by autograd: the slow oracle of every derivative.

No TransformerLens and no `tl_ffblock` here: norms, activations, routers and patterns are replaced in the modules.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from tests.forward_vectors import NODES, WEIGHTS

Site = tuple[str, Literal["in", "out"]]
"""A module of a layer, and what enters or leaves it."""


@dataclass(frozen=True)
class Places:
    """Where a family's modules are."""

    layers: str
    z: tuple[str, ...]
    """The output matrix of attention, or of another mixer; a layer has one of them."""
    ff: str
    """Empty in layers of a mixer alone."""
    scopes: Mapping[str, Site]
    """The tensor at a scope, of scopes that are a tensor of the model's own."""


def _pre_ln(layers: str, z: str | tuple[str, ...], norm: str, *, ff: str = "mlp", **scopes: Site) -> Places:
    z = (z,) if isinstance(z, str) else z
    plain: dict[str, Site] = {
        "Attn": ("z", "out"),
        "Atb": (norm, "in"),
        "AtbLn": (norm, "out"),
        "AtbLnFf": (ff, "out"),
    }
    return Places(layers, z, ff, {**plain, **scopes, "AtbLnFfRes": ("", "out")})


_LLAMA = _pre_ln("model.layers", "self_attn.o_proj", "post_attention_layernorm")
_BRANCH_NORMS: dict[str, Site] = {
    "AttnLn": ("post_attention_layernorm", "out"),
    "AtbLnFfLn": ("post_feedforward_layernorm", "out"),
}
_NEOX = _pre_ln("gpt_neox.layers", "attention.dense", "post_attention_layernorm")
_HYBRID = _pre_ln("model.layers", ("mamba.out_proj", "self_attn.o_proj"), "pre_ff_layernorm", ff="feed_forward")
_MAMBA = Places("backbone.layers", ("mixer.out_proj",), "", {"Attn": ("z", "out"), "Atb": ("", "out")})
_BERT: dict[str, Site] = {
    "Attn": ("z", "out"),
    "AttnRes": ("attention.output.LayerNorm", "in"),
    "Atb": ("attention.output.LayerNorm", "out"),
    "AtbFf": ("output.dense", "out"),
    "AtbFfRes": ("output.LayerNorm", "in"),
    "AtbFfResLn": ("", "out"),
}
PLACES: dict[str, Places] = {
    "gpt2": _pre_ln("transformer.h", "attn.c_proj", "ln_2"),
    "llama": _LLAMA,
    "granite": _LLAMA,
    **dict.fromkeys(("mixtral", "ernie4_5_moe", "glm4_moe", "minimax_m2", "qwen3"), _LLAMA),
    "gemma2": _pre_ln("model.layers", "self_attn.o_proj", "pre_feedforward_layernorm", **_BRANCH_NORMS),
    # In parallel blocks no tensor is the residual stream behind attention alone.
    "gpt_neox": Places(_NEOX.layers, _NEOX.z, "mlp", {k: v for k, v in _NEOX.scopes.items() if k != "Atb"}),
    "bert": Places("bert.encoder.layer", ("attention.output.dense",), "output.dense", _BERT),
    "qwen3_5": replace(_LLAMA, z=("linear_attn.out_proj", "self_attn.o_proj")),
    **dict.fromkeys(("bamba", "jamba"), _HYBRID),
    **dict.fromkeys(("mamba2", "mamba", "falcon_mamba"), _MAMBA),
}


class FrozenRun:
    """One prompt's forward pass with local rules; `tensors[site, layer]` are `[1 pos d]` and have derivatives."""

    def __init__(
        self, model: nn.Module, family: str, tokens: Tensor, rules: str, embedded: Tensor | None = None
    ) -> None:
        self.places, self.tensors = PLACES[family], dict[tuple[Site, int], Tensor]()
        layers: Any = model.get_submodule(self.places.layers)
        self.n_layers = len(layers)
        ends: dict[str, Tensor] = {}

        def embed(_: nn.Module, args: Any, output: Tensor) -> Tensor:
            ends["embedded"] = output.detach() if embedded is None else embedded
            return ends["embedded"].clone().requires_grad_()

        with pytest.MonkeyPatch.context() as patch, _hooks() as hooks:
            hooks.append(model.get_input_embeddings().register_forward_hook(embed))
            head = model.get_output_embeddings()
            hooks.append(head.register_forward_hook(lambda _, args, output: ends.__setitem__("unembedded", output)))
            for number, layer in enumerate(layers):
                z = next(name for name in self.places.z if hasattr(layer, name.partition(".")[0]))
                of_branches: tuple[Site, ...] = ("z", "in"), *(((self.places.ff, "out"),) if self.places.ff else ())
                for site in {("", "in"), *of_branches, *self.places.scopes.values()}:
                    constant = rules == "direct" and site in of_branches
                    module = layer.get_submodule(z if site[0] == "z" else site[0])
                    hooks.append(_keep(module, self.tensors, site, number, constant=constant))
            _replace(model, rules, patch)
            self.logits = model(input_ids=tokens[None]).logits
        self.embedded, linear = ends["embedded"], ends["unembedded"]
        if not torch.equal(linear, self.logits):  # a soft cap, by its secant
            self.logits = with_slope(self.logits, (self.logits / linear, linear))

    def of_layers(self, name: Literal["x", "z", "ff"]) -> list[Tensor]:
        """Of every layer its input, what its heads give, or what its feed-forward writes."""
        site: Site = {"x": ("", "in"), "z": ("z", "in"), "ff": (self.places.ff, "out")}[name]  # type: ignore[assignment]
        return [self.tensors[site, layer] for layer in range(self.n_layers)]

    def signed_map(self, target: Tensor, scope: str, layer: int) -> Tensor:
        """`<x_j, J_ij^T g_i>` [query key]: J leads from the layer's input to the scope, g is the target's derivative there."""
        x, at = self.of_layers("x")[layer], self.tensors[self.places.scopes[scope], layer]
        (by,) = torch.autograd.grad(target, at, retain_graph=True)
        rows = []
        for query in range(at.shape[1]):
            (by_x,) = torch.autograd.grad((at[0, query] * by[0, query]).sum(), x, retain_graph=True)
            rows.append((by_x[0] * x[0].detach()).sum(dim=-1))
        return torch.stack(rows)


def with_slope(value: Tensor, *terms: tuple[Tensor, Tensor]) -> Tensor:
    """The value, with the slope of a sum of coefficients times tensors."""
    return value.detach() + sum(slope.detach() * (x - x.detach()) for slope, x in terms)


def integrated(function: Callable[..., Tensor], *at: Tensor) -> Tensor:
    """A function's value with the slopes of Integrated Gradients from zero, by nodes."""
    totals = [torch.zeros_like(x) for x in at]
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        points = [((node + 1) / 2 * x.detach()).requires_grad_() for x in at]
        for total, slope in zip(totals, torch.autograd.grad(function(*points).sum(), points), strict=True):
            total += weight / 2 * slope
    return with_slope(function(*at), *zip(totals, at, strict=True))


@contextmanager
def _hooks() -> Iterator[list[Any]]:
    handles: list[Any] = []
    try:
        yield handles
    finally:
        for handle in handles:
            handle.remove()


def _keep(module: nn.Module, tensors: dict[tuple[Site, int], Tensor], site: Site, layer: int, *, constant: bool) -> Any:
    def enter(_: nn.Module, args: Any, kwargs: Any) -> Any:
        tensors[site, layer] = args[0] if args else kwargs["hidden_states"]
        if constant:
            tensors[site, layer] = tensors[site, layer].detach().requires_grad_()
            return (tensors[site, layer], *args[1:]), kwargs
        return None

    def leave(_: nn.Module, args: Any, output: Any) -> Any:
        tensors[site, layer] = output[0] if isinstance(output, tuple) else output
        if constant:
            tensors[site, layer] = tensors[site, layer].detach().requires_grad_()
            return (tensors[site, layer], *output[1:]) if isinstance(output, tuple) else tensors[site, layer]
        return None

    if site[1] == "in":
        return module.register_forward_pre_hook(enter, with_kwargs=True)
    return module.register_forward_hook(leave)


def _replace(model: nn.Module, rules: str, patch: pytest.MonkeyPatch) -> None:
    for name, module in list(model.named_modules()):
        kind = type(module).__name__
        if "NormGated" in kind:
            patch.setattr(module, "forward", partial(_gated_norm, module.forward, rules))
        elif "Norm" in kind and not name.endswith(_OF_PATTERNS):
            patch.setattr(module, "forward", partial(_normed, module, module.forward))
        elif hasattr(module, "gate_proj"):
            patch.setattr(module, "forward", partial(_gated, module))
        elif kind.endswith("Experts"):
            patch.setattr(module, "forward", partial(_experts, module))
        elif kind.endswith("Router"):
            patch.setattr(module, "forward", partial(_constants, module.forward))
        elif name.rpartition(".")[2] in ("act", "intermediate_act_fn", "transform_act_fn"):
            patch.setattr(module, "forward", partial(integrated, module.forward))
    for mixer in {type(module): module for module in model.modules() if hasattr(module, "conv1d")}.values():
        _mixer(mixer, rules, patch)
    if rules == "path":
        patch.setattr(torch, "sigmoid", partial(_constant, torch.sigmoid))  # the gate of Qwen3.5's attention
        patch.setattr(nn.functional, "softmax", partial(_constant, nn.functional.softmax))


def _normed(norm: Any, shipped: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    y, centred = shipped(x), x - x.mean(dim=-1, keepdim=True) if isinstance(norm, nn.LayerNorm) else x
    return with_slope(y, ((y - getattr(norm, "bias", 0)) / centred, centred))


_OF_PATTERNS = ("q_norm", "k_norm", "dt_layernorm", "b_layernorm", "c_layernorm")
_SCANS = {"torch_chunk_gated_delta_rule": 2, "mamba2_chunk_scan": 0, "mamba_selective_scan": 0}
"""Functions of transformers that run a recurrence, and the place of the values among their arguments."""


def _mixer(mixer: Any, rules: str, patch: pytest.MonkeyPatch) -> None:
    """Replace the convolution and the recurrence of all mixers of this class."""
    modeling = sys.modules[type(mixer).__module__]
    convolve, width = modeling.causal_conv1d_fn, getattr(mixer, "intermediate_size", None)
    values = slice(2 * mixer.key_dim, None) if width is None else slice(0, width)

    def convolution(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str, **_: Any) -> Tensor:
        pre = convolve(x, weight, bias)
        active = nn.functional.silu(pre)
        made = active.detach().clone() if rules == "path" else active.clone()
        own = pre[:, values]
        made[:, values] = with_slope(active[:, values], (active[:, values] / own, own))
        return made

    patch.setattr(modeling, "causal_conv1d_fn", convolution)
    for name, place in _SCANS.items() if rules == "path" else ():
        if hasattr(modeling, name):
            patch.setattr(modeling, name, partial(_scan, getattr(modeling, name), place))


def _scan(shipped: Callable[..., Any], place: int, *args: Any, **options: Any) -> Any:
    """A recurrence whose coefficients, and whose gate where it has one, are constant."""
    constant = [each.detach() if isinstance(each, Tensor) else each for each in args]
    constant[place] = args[place]
    named = {name: each.detach() if isinstance(each, Tensor) else each for name, each in options.items()}
    return shipped(*constant, **named)


def _gated_norm(shipped: Callable[..., Tensor], rules: str, x: Tensor, gate: Tensor) -> Tensor:
    """A norm with a constant scale before or after its gate, which is constant with the coefficients."""
    gate = gate.detach() if rules == "path" else gate
    product = x * nn.functional.silu(gate)
    return product * (shipped(x, gate) / product).detach()


def _gated(ff: Any, x: Tensor) -> Tensor:
    return ff.down_proj(integrated(lambda a, u: ff.act_fn(a) * u, ff.gate_proj(x), ff.up_proj(x)))


def _experts(experts: Any, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    total = torch.zeros_like(x)
    for number in range(experts.num_experts):
        rows, places = torch.where(chosen == number)
        gate, up = (x[rows] @ experts.gate_up_proj[number].T).chunk(2, dim=-1)
        post = integrated(lambda a, u: experts.act_fn(a) * u, gate, up)
        total = total.index_add(0, rows, post @ experts.down_proj[number].T * weights[rows, places, None])
    return total


def _constant(function: Callable[..., Tensor], *args: Any, **options: Any) -> Tensor:
    return function(*args, **options).detach()


def _constants(router: Callable[..., tuple[Tensor, ...]], *args: Tensor) -> tuple[Tensor, ...]:
    return tuple(output.detach() for output in router(*args))
