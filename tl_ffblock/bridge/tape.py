"""What one run with local rules leaves for the backward pass: dials, tensors on the way to the output, and how well forms fit."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tl_ffblock.bridge.protocols import HookPoint
from tl_ffblock.bridge.taps import Tap
from tl_ffblock.errors import CaptureError
from tl_ffblock.layer.local_forms import added, carried, scaled

Kind: TypeAlias = Literal["token", "position", "token type", "residual", "bias", "edit"]
EMBEDDING = -1
"""The layer of what comes before the first layer; what comes behind the last has the number of layers."""
END = -1
"""Where tensors behind the last layer are kept, in place of a layer's number."""


class Place(NamedTuple):
    """What a dial multiplies."""

    kind: Kind
    layer: int
    """Where it enters: a bias of layer 3 enters behind the residual stream at layer 3."""
    name: str


@dataclass
class Tape:
    """One run of a batch, in the order of the forward pass."""

    size: tuple[int, int]
    """[batch, pos]."""
    keeps: frozenset[str] = frozenset()
    """Which tensors of layers are wanted: "z", "value", "pattern", "post", "mlp_out", "residual", "q", "k", "v" and "ff_in"; of
    all but values and patterns with derivatives ("v" are the values with theirs). "z_made" is z before users' callbacks, where
    there are any. "norms" are what enters norms, by module."""
    dials: dict[Place, Float[Tensor, "batch pos"]] = field(default_factory=dict)
    kept: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    """By name and layer; "residual" always, and "unembedded" and "logits", what goes into the unembedding and comes out."""
    compared: dict[str, list[tuple[Float[Tensor, "batch pos"], Float[Tensor, "batch pos"]]]] = field(
        default_factory=dict
    )
    """By site, each time it fired: `|L - y|` and `|y|` of every position, L the local linear form of the tensor y."""

    norm_inputs: dict[str, Tensor] = field(default_factory=dict)
    """By module: what entered a norm, detached."""
    edited: set[Place] = field(default_factory=set)
    """Where a callback of a user's changed a value."""

    embedded: Float[Tensor, "batch pos d_model"] | None = None
    """What the tokens were embedded as, after users' callbacks."""
    unseen_positions: bool = False
    """Whether position vectors are added to those of tokens where no HookPoint shows them (XGLM)."""

    def dial(self, place: Place, like: Tensor) -> Float[Tensor, "batch pos"]:
        """The dial of a place, made when it is first asked for."""
        if place not in self.dials:
            dtype = like.dtype if like.is_floating_point() else torch.float32
            self.dials[place] = torch.zeros(self.size, dtype=dtype, device=like.device, requires_grad=True)
        return self.dials[place]

    def measured(self, place: Place) -> Callable[[Tensor], Tensor]:
        """Puts a dial on what passes: the target's derivative by it is what the target owes to that."""

        def change(x: Tensor) -> Tensor:
            x = x.expand(self.size[0], *x.shape[1:]) if x.ndim == 3 and x.shape[0] == 1 else x
            return scaled(x, self.dial(place, x))

        return change

    def biased(self, place: Place, bias: Tensor | None) -> Callable[[Tensor], Tensor] | None:
        """Puts a dial on a bias that is in what passes; None where there is none."""
        if bias is None or not bool(bias.any()):
            return None
        known = bias.detach().flatten()

        def change(y: Tensor) -> Tensor:
            return added(y, self.dial(place, y), known.to(y.device))

        return change

    def carry(self, site: str, y: Float[Tensor, "..."], form: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """A tensor of the model with the slope of its local linear form, whose distance from it is noted."""
        self.compare(site, y, form)
        return carried(y, form.reshape(y.shape))

    @torch.no_grad()
    def compare(self, site: str, y: Float[Tensor, "..."], form: Float[Tensor, "..."]) -> None:
        """Note how far a local linear form is from the model's own tensor; a norm may fire several times a run."""
        rows = y.detach().to(form.dtype).reshape(*self.size, -1)
        miss = form.detach().reshape(rows.shape) - rows
        self.compared.setdefault(site, []).append((miss.norm(dim=-1), rows.norm(dim=-1)))

    def gaps_of(self, index: int) -> dict[str, float]:
        """By site: the largest `|L - y| / |y|` of a position of one sequence of the batch."""
        sites = [site for site, pairs in self.compared.items() for _ in pairs]
        if not sites:
            return {}
        rows = [
            torch.stack([pair[0][index], pair[1][index]]).cpu() for pairs in self.compared.values() for pair in pairs
        ]
        miss, size = torch.stack(rows, dim=1)
        gaps: dict[str, list[float]] = {}
        for site, gap in zip(sites, (miss / torch.where(size == 0, 1, size)).amax(dim=-1).tolist(), strict=True):
            gaps.setdefault(site, []).append(gap)
        return {site: max(of_site, key=lambda gap: (math.isnan(gap), gap)) for site, of_site in gaps.items()}


class Before:
    """Changes what enters a HookPoint, before any callback on it, or another module."""

    def __init__(self, module: HookPoint | nn.Module, change: Callable[[Tensor], Tensor | None]) -> None:
        self._change = change
        self._handle = module.register_forward_pre_hook(self._enter)

    def _enter(self, _: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        changed = self._change(args[0])
        return None if changed is None else (changed, *args[1:])

    def remove(self) -> None:
        """Leave the module as it was."""
        self._handle.remove()


class Fittings:
    """Callbacks of one run, in three rounds: what the model computes, users' edits, what the model goes on with."""

    def __init__(self, hook_point: Callable[[str], HookPoint], module: Callable[[str], nn.Module]) -> None:
        self._hook_point = hook_point
        self._module = module
        self._rounds: tuple[list[Callable[[], Any]], ...] = ([], [], [])
        self._removable: list[Any] = []
        self._unfired: dict[str, None] = {}

    def before(self, name: str, change: Callable[[Tensor], Tensor | None] | None, *, edits: bool = False) -> None:
        """Change what enters a HookPoint, before users' callbacks."""
        if change is not None:
            fitted = change if edits else self._expected(name, change)
            self._rounds[int(edits)].append(lambda: Before(self._hook_point(name), fitted))

    def after(self, name: str, receive: Callable[[Tensor], Tensor | None], *, edits: bool = False) -> None:
        """Read or change what a HookPoint hands on, after users' callbacks."""
        fitted = receive if edits else self._expected(name, receive)
        self._rounds[1 if edits else 2].append(lambda: Tap(self._hook_point(name), fitted))

    def output_of(self, module: str, change: Callable[[Tensor], Tensor | None] | None) -> None:
        """Change what a module without a HookPoint at its end gives."""
        if change is not None:
            fitted = self._expected(module, change)
            self._rounds[0].append(
                lambda: self._module(module).register_forward_hook(lambda _, args, output: fitted(output))
            )

    def input_of(self, module: str, change: Callable[[Tensor], Tensor | None] | None) -> None:
        """Read or change what a module without a HookPoint at its begin gets."""
        if change is not None:
            fitted = self._expected(module, change)
            self._rounds[0].append(lambda: Before(self._module(module), fitted))

    def _expected(self, name: str, change: Callable[[Tensor], Tensor | None]) -> Callable[[Tensor], Tensor | None]:
        """The same callback, which a forward pass must have called. Those of users' edits may be where nothing passes."""
        self._unfired[name] = None

        def called(x: Tensor) -> Tensor | None:
            self._unfired.pop(name, None)
            return change(x)

        return called

    def refuse_unfired(self, model: str) -> None:
        """Refuse a forward pass that left a callback out: what it measures would be zero.

        Args:
            model: Name of the model.

        Raises:
            CaptureError: naming the HookPoints or modules.
        """
        if self._unfired:
            raise CaptureError(
                f"{model}: nothing passed {', '.join(self._unfired)} in this forward pass, so shares there would be zero without "
                "being so. No attribution is made: this version of TransformerLens, or a callback outside its HookPoints, "
                "leaves them out."
            )

    def fit(self) -> None:
        """Add all of them."""
        for fitting in (fitting for fittings in self._rounds for fitting in fittings):
            self._removable.append(fitting())

    def remove(self) -> None:
        """Leave nothing behind."""
        while self._removable:
            self._removable.pop().remove()
