"""What one forward pass under linearised rules leaves for the backward pass: gates, tensors of autograd's graph, how well forms fit.

A gate of ones on a term is a factor that changes nothing; the target's derivative by it is gradient x input (Michel et al. 2019,
"Are sixteen heads really better than one?", eq. 5). A gate is held as its difference from one.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.callbacks import Change, LastCallback, change_input
from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import CaptureError
from tl_ffblock.layer.linear import added, carried, scaled
from tl_ffblock.layer.records import on_cpu

Kind: TypeAlias = Literal["token", "position", "token type", "residual", "bias", "edit"]
EMBEDDING = -1
"""The layer of what comes before the first layer; what comes after the last has the number of layers."""
Pair: TypeAlias = tuple[Float[Tensor, "batch pos"], Float[Tensor, "batch pos"]]
_GATES = 64
"""How many gates are made at a time."""
END = -1
"""Where tensors after the last layer are kept, in place of a layer's number."""


class Place(NamedTuple):
    """What a gate multiplies, and the layer where it enters: a bias of layer 3 enters after the residual stream at layer 3."""

    kind: Kind
    layer: int
    name: str


@dataclass
class GradientCache:
    """One run of a batch, in the order of the forward pass; `size` is [batch, pos].

    `keeps` says which tensors of layers are wanted: "z", "value", "pattern", "post", "mlp_out", "residual", "q", "k", "v", "ff_in",
    "attn_out" and "attn_added" (after the norm of its branch, as it is added to the residual stream); of all but values and
    patterns with derivatives ("v" are the values with theirs). "z_made" is z before users' callbacks, where there are any.
    "norms" are what enters norms, by module.

    `gates` are differences from one. `kept` has tensors by name and layer; "residual" always, and "unembedded" and
    "logits", what goes into the unembedding and comes out. `compared` has by site, each time it fired, `|L - y|` and `|y|` of
    every position, L the local linear form of the tensor y. `norm_inputs` is by module what entered a norm, detached. `edited` is
    where a callback of a user's changed a value. `embedded` is what the tokens were embedded as, after users' callbacks.
    `unseen_positions` says that position vectors are added to those of tokens where no HookPoint shows them (XGLM).
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
    """Which biases are not zero, as far as it is known: a model's memory has it from one run to the next."""
    _new: dict[tuple[torch.dtype, torch.device], list[Tensor]] = field(default_factory=dict)

    def gate(self, place: Place, like: Tensor) -> Float[Tensor, "batch pos"]:
        """The gate of a place, made when it is first asked for."""
        if place not in self.gates:
            dtype = like.dtype if like.is_floating_point() else torch.float32
            new = self._new.setdefault((dtype, like.device), [])
            if not new:  # many in one kernel
                new += torch.zeros(_GATES, *self.size, dtype=dtype, device=like.device).unbind()
            self.gates[place] = new.pop().detach().requires_grad_()
        return self.gates[place]

    def keep(self, name: str, layer: int) -> Change:
        """Keeps what passes; the model goes on with it, so that it is part of autograd's graph."""

        def change(x: Tensor) -> Tensor:
            self.kept[name, layer] = x
            return x

        return change

    def measured(self, place: Place) -> Callable[[Tensor], Tensor]:
        """Multiplies what passes by a gate of ones."""

        def change(x: Tensor) -> Tensor:
            x = x.expand(self.size[0], *x.shape[1:]) if x.ndim == 3 and x.shape[0] == 1 else x
            return scaled(x, self.gate(place, x))

        return change

    def biased(self, place: Place, bias: Tensor | None) -> Callable[[Tensor], Tensor] | None:
        """Multiplies a bias that is in what passes by a gate of ones; None where there is no bias."""
        if bias is None:
            return None
        if place not in self.biases:
            self.biases[place] = bool(bias.any())
        if not self.biases[place]:
            return None
        known = bias.detach().flatten()

        def change(y: Tensor) -> Tensor:
            gate = self.gate(place, y)
            # Logits may be made of the last positions alone.
            gate = gate[:, -y.shape[1] :] if y.ndim == 3 and place.name.startswith("unembed") else gate
            return added(y, gate, known.to(y.device))

        return change

    def carry(self, site: str, y: Float[Tensor, "..."], form: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """A tensor of the model with the slope of its local linear form, whose distance from it is noted."""
        self.compare(site, y, form)
        return carried(y, form.reshape(y.shape))

    @torch.no_grad()
    def compare(self, site: str, y: Float[Tensor, "..."], form: Float[Tensor, "..."]) -> None:
        """Note how far a local linear form is from the model's own tensor; a norm may fire several times per run."""
        rows = y.detach().to(form.dtype).reshape(*self.size, -1)
        miss = form.detach().reshape(rows.shape) - rows
        self.compared.setdefault(site, []).append((miss.norm(dim=-1), rows.norm(dim=-1)))

    def gaps_of(self, index: int) -> dict[str, float]:
        """By site: the largest `|L - y| / |y|` of a position of one sequence of the batch, NaN above all."""
        self.compared_on_cpu(on_cpu(self.compared_tensors()))
        gaps: dict[str, float] = {}
        for site, pairs in self.compared.items():
            miss, size = (torch.stack([pair[number][index] for pair in pairs]) for number in (0, 1))
            gaps[site] = float((miss / torch.where(size == 0, 1, size)).max())
        return gaps

    def compared_tensors(self) -> list[Tensor]:
        """What `compared` holds, one after the other."""
        return [tensor for pairs in self.compared.values() for pair in pairs for tensor in pair]

    def compared_on_cpu(self, tensors: Iterable[Tensor]) -> None:
        """Hold the same on the CPU."""
        there = iter(tensors)
        self.compared = {site: [(next(there), next(there)) for _ in pairs] for site, pairs in self.compared.items()}


class Fittings:
    """Callbacks of one run, in three rounds: what the model computes, users' edits, what the model goes on with."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._rounds: tuple[list[Callable[[], Any]], ...] = ([], [], [])
        self._unfired: dict[str, None] = {}

    def before(self, name: str, change: Change | None, *, edits: bool = False) -> None:
        """Change what enters a HookPoint, before users' callbacks."""
        self._add(int(edits), name, change, lambda fitted: change_input(self._model.hook_point(name), fitted))

    def after(self, name: str, receive: Change, *, edits: bool = False) -> None:
        """Read or change what a HookPoint gives, after users' callbacks."""
        self._add(1 if edits else 2, name, receive, lambda fitted: LastCallback(self._model.hook_point(name), fitted))

    def output_of(self, module: str, change: Change | None) -> None:
        """Change what a module without a HookPoint at its end gives."""
        found = self._model.hooked.get_submodule
        self._add(0, module, change, lambda fit: found(module).register_forward_hook(lambda _, __, out: fit(out)))

    def input_of(self, module: str, change: Change | None) -> None:
        """Read or change what a module without a HookPoint at its begin gets."""
        self._add(0, module, change, lambda fitted: change_input(self._model.hooked.get_submodule(module), fitted))

    def _add(self, number: int, name: str, change: Change | None, fit: Callable[[Change], Any]) -> None:
        """A forward pass must call every callback but those of users' edits, which may be where nothing passes."""
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
        """Refuse a forward pass that skipped a callback: what it measures would be zero.

        Raises:
            CaptureError: naming the HookPoints or modules.
        """
        if self._unfired:
            raise CaptureError(
                f"{self._model.name}: nothing passed {', '.join(self._unfired)} in this forward pass, so shares there would be zero "
                "without being so. No attribution is made: this version of TransformerLens, or a callback outside its HookPoints, "
                "leaves them out."
            )

    @contextmanager
    def fitted(self) -> Iterator[None]:
        """All of them sit on the model inside."""
        with ExitStack() as stack:
            for fit in (fit for fits in self._rounds for fit in fits):
                stack.callback(fit().remove)
            yield
