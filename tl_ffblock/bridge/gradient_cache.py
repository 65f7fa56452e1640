"""Cache of a forward pass with linearised modules, for its backward pass: gates, tensors with gradients, and errors of modules.

A gate of ones multiplies a term and changes nothing. The target's derivative by it is gradient x input (Michel et al. 2019, "Are
sixteen heads really better than one?", eq. 5). A gate is stored as its difference from one.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.callbacks import Change, LastCallback, change_input
from tl_ffblock.bridge.layers import BoundLayer
from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import CaptureError
from tl_ffblock.layer.linear import added, carried, scaled
from tl_ffblock.layer.mixers import Mixed
from tl_ffblock.layer.records import on_cpu

Kind: TypeAlias = Literal["token", "position", "token type", "residual", "bias", "edit"]
EMBEDDING = -1
"""Layer number of terms before the first layer; terms after the last layer have the number of layers."""
Pair: TypeAlias = tuple[Float[Tensor, "batch pos"], Float[Tensor, "batch pos"]]
_GATES = 64
"""Number of gates that are created at a time."""
END = -1
"""Key of tensors after the last layer, in place of a layer number."""


class Place(NamedTuple):
    """What a gate multiplies, and the layer that adds it: a bias of layer 3 is added after the residual stream at layer 3."""

    kind: Kind
    layer: int
    name: str


@dataclass
class GradientCache:
    """One forward pass of a batch, in the order of computation; `size` is [batch, pos].

    `keeps` has names of layer tensors to cache: "z", "value", "pattern", "post", "mlp_out", "residual", "q", "k", "v", "ff_in",
    "attn_out" and "attn_added" (after the norm of its branch, as added to the residual stream). All except values and patterns have
    gradients ("v" are the values with theirs). "z_made" is z before user hooks, if there are any. "norms" are inputs of norms,
    by module.

    `gates` are differences from one. `kept` has tensors by name and layer: always "residual", and "unembedded" and "logits", the
    input and output of the unembedding. `compared` has, by module and call, `|L - y|` and `|y|` of every position, for the linearised
    output L of the tensor y. `norm_inputs` has inputs of norms by module, detached. `edited` has the places where user hooks changed a
    value. `embedded` has the token embeddings after user hooks. `unseen_positions`: position embeddings are added to those of
    tokens without a HookPoint (XGLM).
    """

    size: tuple[int, int]
    keeps: frozenset[str] = frozenset()
    gates: dict[Place, Float[Tensor, "batch pos"]] = field(default_factory=dict)
    kept: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    compared: dict[str, list[Pair]] = field(default_factory=dict)
    norm_inputs: dict[str, Tensor] = field(default_factory=dict)
    edited: set[Place] = field(default_factory=set)
    embedded: Float[Tensor, "batch pos d_model"] | None = None
    unseen_positions: bool = False
    biases: dict[Place, bool] = field(default_factory=dict)
    """Which biases are not zero, as far as known; cached from one forward pass to the next."""
    _new: dict[tuple[torch.dtype, torch.device], list[Tensor]] = field(default_factory=dict)

    def gate(self, place: Place, like: Tensor) -> Float[Tensor, "batch pos"]:
        """The gate of a place, created at first use."""
        if place not in self.gates:
            dtype = like.dtype if like.is_floating_point() else torch.float32
            new = self._new.setdefault((dtype, like.device), [])
            if not new:  # several in one kernel
                new += torch.zeros(_GATES, *self.size, dtype=dtype, device=like.device).unbind()
            self.gates[place] = new.pop().detach().requires_grad_()
        return self.gates[place]

    def keep(self, name: str, layer: int, bound: BoundLayer | None = None) -> Change:
        """A callback that caches a tensor and returns it, so that it is part of autograd's graph; heads as `bound` arranges them."""

        def change(x: Tensor) -> Tensor:
            if bound is None:
                self.kept[name, layer] = x
                return x
            own = self.kept[name, layer] = bound.arranged(name, x)
            return bound.restored(name, own, x)

        return change

    def keep_mixed(self, layer: int, mixed: Mixed) -> None:
        """Cache the coefficients of a mixer without a softmax, like a pattern, if they are asked for."""
        if {"value", "pattern"} <= self.keeps:
            found = {name: getattr(mixed, name) for name in ("pattern", "value", "gate", "taps", "offset")}
            self.kept |= {(name, layer): tensor.detach() for name, tensor in found.items() if tensor is not None}

    def measured(self, place: Place) -> Callable[[Tensor], Tensor]:
        """A callback that multiplies a tensor by a gate of ones."""

        def change(x: Tensor) -> Tensor:
            x = x.expand(self.size[0], *x.shape[1:]) if x.ndim == 3 and x.shape[0] == 1 else x
            return scaled(x, self.gate(place, x))

        return change

    def biased(
        self, place: Place, bias: Tensor | None, at: Int[Tensor, "batch pos"] | None = None
    ) -> Callable[[Tensor], Tensor] | None:
        """A callback that multiplies a bias, which is part of a tensor, by a gate of ones; None without a bias.

        `at` is the position whose gate each position has, by default its own.
        """
        if bias is None:
            return None
        if place not in self.biases:
            self.biases[place] = bool(bias.any())
        if not self.biases[place]:
            return None
        known = bias.detach().flatten()

        def change(y: Tensor) -> Tensor:
            gate = self.gate(place, y) if at is None else self.gate(place, y).gather(1, at)
            # Logits may be computed for the last positions only.
            gate = gate[:, -y.shape[1] :] if y.ndim == 3 and place.name.startswith("unembed") else gate
            return added(y, gate, known.to(y.device))

        return change

    def carry(self, site: str, y: Float[Tensor, "..."], form: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """A tensor of the model with the gradient of its linearised form; caches their difference."""
        self.compare(site, y, form)
        return carried(y, form.reshape(y.shape))

    @torch.no_grad()
    def compare(self, site: str, y: Float[Tensor, "..."], form: Float[Tensor, "..."]) -> None:
        """Cache the difference of a linearised output from the model's own tensor; a norm may run several times."""
        rows = y.detach().to(form.dtype).reshape(*self.size, -1)
        miss = form.detach().reshape(rows.shape) - rows
        self.compared.setdefault(site, []).append((miss.norm(dim=-1), rows.norm(dim=-1)))

    def gaps_of(self, index: int) -> dict[str, float]:
        """By module: the largest `|L - y| / |y|` over positions of one sequence; NaN counts as the largest."""
        self.compared_on_cpu(on_cpu(self.compared_tensors()))
        gaps: dict[str, float] = {}
        for site, pairs in self.compared.items():
            miss, size = (torch.stack([pair[number][index] for pair in pairs]) for number in (0, 1))
            gaps[site] = float((miss / torch.where(size == 0, 1, size)).max())
        return gaps

    def compared_tensors(self) -> list[Tensor]:
        """All tensors of `compared`, in order."""
        return [tensor for pairs in self.compared.values() for pair in pairs for tensor in pair]

    def compared_on_cpu(self, tensors: Iterable[Tensor]) -> None:
        """Replace these by tensors on the CPU."""
        there = iter(tensors)
        self.compared = {site: [(next(there), next(there)) for _ in pairs] for site, pairs in self.compared.items()}


class Fittings:
    """Callbacks of one forward pass, in three rounds: on the model's output, on user edits, on the input of the next module."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._rounds: tuple[list[Callable[[], Any]], ...] = ([], [], [])
        self._unfired: dict[str, None] = {}

    def before(self, name: str, change: Change | None, *, edits: bool = False) -> None:
        """Change the input of a HookPoint, before user hooks."""
        self._add(int(edits), name, change, lambda fitted: change_input(self._model.hook_point(name), fitted))

    def after(self, name: str, receive: Change, *, edits: bool = False) -> None:
        """Read or change the output of a HookPoint, after user hooks."""
        self._add(1 if edits else 2, name, receive, lambda fitted: LastCallback(self._model.hook_point(name), fitted))

    def output_of(self, module: str, change: Change | None) -> None:
        """Change the output of a module without a HookPoint at its end."""
        found = self._model.hooked.get_submodule
        self._add(0, module, change, lambda fit: found(module).register_forward_hook(lambda _, __, out: fit(out)))

    def input_of(self, module: str, change: Change | None) -> None:
        """Read or change the input of a module without a HookPoint at its start."""
        self._add(0, module, change, lambda fitted: change_input(self._model.hooked.get_submodule(module), fitted))

    def reading(self, layer: BoundLayer, site: str, receive: Change) -> None:
        """Read a tensor of a layer that no HookPoint shows (`BoundLayer.on_module`)."""
        name = layer.name(f"{layer.feeds}.experts" if site == "routing" else f"{layer.mixes}, its input")
        self._add(0, name, receive, partial(layer.on_module, site))

    def _add(self, number: int, name: str, change: Change | None, fit: Callable[[Change], Any]) -> None:
        """Add a callback that has to run in a forward pass, except those of user edits, which may be at unused HookPoints."""
        if change is None:
            return
        if number == 1:
            self._rounds[number].append(lambda: fit(change))
            return
        self._unfired[name] = None

        def called(x: Tensor) -> Tensor | None:
            self._unfired.pop(name, None)
            return change(x)

        self._rounds[number].append(lambda: fit(called))

    def refuse_unfired(self) -> None:
        """Refuse a forward pass that skipped a callback, whose attributions would be zero.

        Raises:
            CaptureError: with the HookPoints or modules.
        """
        if self._unfired:
            raise CaptureError(
                f"{self._model.name}: nothing passed {', '.join(self._unfired)} in this forward pass, so attributions there would be "
                "zero by mistake. Use another version of TransformerLens, or remove callbacks outside its HookPoints that skip "
                "modules."
            )

    @contextmanager
    def fitted(self) -> Iterator[None]:
        """Context in which all callbacks are on the model."""
        with ExitStack() as stack:
            for fit in (fit for fits in self._rounds for fit in fits):
                stack.callback(fit().remove)
            yield
