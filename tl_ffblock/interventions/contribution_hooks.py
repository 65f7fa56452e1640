"""Contributions as interventions: hook functions that take `F_i(x_j)` out of a run, scale it or exchange it.

A `Contributions` holds one run's vectors. Each of its methods returns `(HookPoint name, function)`,
ready for `run_with_hooks`; the function adds a vector to the scope's own tensor and touches nothing
else, so what follows is the model's own answer. All parts and the bias taken out leave zero.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from tl_ffblock.bridge.capture import capture
from tl_ffblock.bridge.collector import Records
from tl_ffblock.bridge.inputs import label, prepare
from tl_ffblock.bridge.model import identify
from tl_ffblock.contributions import decompose
from tl_ffblock.errors import InputError
from tl_ffblock.interventions.edit_points import Positions, activation_name, place_of, positions
from tl_ffblock.layer.settings import Settings, ValueBias
from tl_ffblock.layer.vectors import Decomposition, decompose_record

HookFunction: TypeAlias = Callable[..., Tensor]
Hook: TypeAlias = tuple[str, HookFunction]
PatchSetter: TypeAlias = Callable[[Tensor, Sequence[int], Tensor], Tensor]

_KEPT_LAYERS = 4
"""Decompositions kept at a time; each holds [query, key, d_model] for every scope."""


class Contributions:
    """One run's vectors `F_i(x_j)`, by layer and scope, as interventions on this or another run.

        run = ffb.Contributions(model, "When Mary and John went to the store, John gave a drink to")
        model.run_with_hooks(run.tokens, fwd_hooks=[run.subtract(9, "AtbLnFf", query=-1, source=2)])

    Positions are token positions, negative ones from the end, one or several; None means all, so
    `source=j` alone is a whole column. `head` takes that head's share of the contribution, which adds
    up over heads to what attention brought (the residual's own x_i belongs to no head).
    """

    def __init__(
        self,
        model: Any,
        input: str | Sequence[str] | Integer[Tensor, "*batch pos"],
        *,
        layers: Sequence[int] | int | None = None,
        fwd_hooks: Sequence[tuple[str | Callable[[str], bool], Callable[..., Any]]] = (),
        value_bias: ValueBias = "bias",
        rtol: float | None = None,
    ) -> None:
        """Run the model once and keep what its layers need to be decomposed.

        Args:
            model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
            input: A text, texts of equally many tokens, or token ids without padding.
            layers: Layers to keep; None means all.
            fwd_hooks: Hooks of this run, as in `run_with_hooks`.
            value_bias: As in `contribution_maps`.
            rtol: As in `contribution_maps`.

        Raises:
            InputError: if the texts differ in length, or the input cannot be used.
        """
        self.model = identify(model)
        self.value_bias: ValueBias = value_bias
        self.rtol = rtol
        self.tokens = equally_long(self.model, input)
        hooks = self.model.hooked.hooks(fwd_hooks=list(fwd_hooks)) if fwd_hooks else nullcontext()
        with torch.no_grad(), hooks, capture(model, layers) as records:
            self.logits: Float[Tensor, "batch pos d_vocab"] = self.model.hooked(self.tokens)
        self.records: Records = records
        self._decomposed = lru_cache(maxsize=_KEPT_LAYERS)(self._decompose)

    @property
    def shape(self) -> tuple[int, int]:
        """Batch and positions."""
        return self.tokens.shape[0], self.tokens.shape[1]

    def labels(self, index: int = 0) -> tuple[str, ...]:
        """The tokens of one sequence as text."""
        return label(self.model, self.tokens[index].cpu())

    def decomposition(self, layer: int) -> list[Decomposition]:
        """All vectors of a layer, one result a sequence, certified."""
        return self._decomposed(layer, None)

    def vector(
        self,
        layer: int,
        scope: str,
        *,
        query: Positions = None,
        source: Positions = None,
        head: int | None = None,
        bias: bool = False,
    ) -> Float[Tensor, "batch pos d_model"]:
        """The chosen contributions summed over sources, at the chosen queries, zero at the others.

        Args:
            layer: Layer, one that was kept.
            scope: Scope, as in `tl_ffblock.layer.scopes`.
            query: Positions that receive.
            source: Positions that give; an empty list with `bias=True` is the bias part alone.
            head: Only this attention head's share; None means everything.
            bias: Whether the bias part and the remainder go along.
        """
        length = self.shape[1]
        rows, columns = positions(query, length, "query"), positions(source, length, "source")
        if head is not None and bias:
            raise InputError(f"head={head} with bias=True: the bias part belongs to no head.")
        place_of(self.model, layer, scope)
        vectors = []
        for part in self._decomposed(layer, head):
            whole = part.parts(scope)[:, columns].sum(dim=1)
            if bias:
                whole = whole + part.bias(scope) + part.remainder(scope)
            chosen = torch.zeros_like(whole)
            chosen[rows] = whole[rows]
            vectors.append(chosen)
        return torch.stack(vectors)

    def subtract(self, layer: int, scope: str, **chosen: Any) -> Hook:
        """A hook that takes the chosen contributions out; what is chosen as in `vector`."""
        return self.scale(0.0, layer, scope, **chosen)

    def scale(self, factor: float, layer: int, scope: str, **chosen: Any) -> Hook:
        """A hook that multiplies the chosen contributions by `factor`: 0 takes them out, 1 changes nothing."""
        return self._adding(layer, scope, (factor - 1) * self.vector(layer, scope, **chosen))

    def replace(self, donor: "Contributions", layer: int, scope: str, **chosen: Any) -> Hook:
        """A hook that puts another run's contributions of the same cells in place of this run's.

        Raises:
            InputError: if the donor's run has another shape.
        """
        return self._adding(layer, scope, self._exchange(donor, layer, scope, chosen))

    def activation_name(self, scope: str) -> str:
        """What TransformerLens's patching functions call the scope's HookPoint; see `patch_setter`."""
        return activation_name(self.model, scope)

    def patch_setter(
        self,
        scope: str,
        donor: "Contributions | None" = None,
        *,
        axes: Sequence[str] = ("layer", "dest_pos", "src_pos"),
    ) -> PatchSetter:
        """A setter for TransformerLens's `patching.generic_activation_patch`, this run being the corrupted one.

            effects = patching.generic_activation_patch(
                model, corrupted.tokens, clean_cache, metric,
                patch_setter=corrupted.patch_setter("AtbLnFf", clean),
                activation_name=corrupted.activation_name("AtbLnFf"),
                index_axis_names=("layer", "dest_pos", "src_pos"))

        Args:
            scope: Which contributions.
            donor: The run to take them from (the clean one); None takes them out.
            axes: What each number of an index is, "layer" first: of "dest_pos" (or "pos"), "src_pos", "head".

        Raises:
            InputError: for axes that are none of these.
        """
        words = {"dest_pos": "query", "pos": "query", "src_pos": "source", "head": "head", "head_index": "head"}
        unknown = [axis for axis in axes[1:] if axis not in words]
        if unknown or not axes or axes[0] != "layer":
            raise InputError(f"axes={tuple(axes)}: expected layer, then some of {', '.join(words)}.")
        self.activation_name(scope)

        def setter(activation: Tensor, index: Sequence[int], _: Tensor) -> Tensor:
            layer, *rest = (int(number) for number in index)
            chosen = {words[axis]: number for axis, number in zip(axes[1:], rest, strict=True)}
            if donor is None:
                return self.subtract(layer, scope, **chosen)[1](activation)
            return self.replace(donor, layer, scope, **chosen)[1](activation)

        return setter

    def _exchange(self, donor: "Contributions", layer: int, scope: str, chosen: dict[str, Any]) -> Tensor:
        if donor.shape != self.shape:
            raise InputError(
                f"donor is a run of shape {donor.shape}, this one of {self.shape} [batch, pos]: the cells of one are not "
                "those of the other. Use prompts of equally many tokens."
            )
        return donor.vector(layer, scope, **chosen) - self.vector(layer, scope, **chosen)

    def _adding(self, layer: int, scope: str, vector: Float[Tensor, "batch pos d_model"]) -> Hook:
        place = place_of(self.model, layer, scope)
        block = self.records[layer].block
        delta = place.onto(vector, None if place.norm is None else getattr(block, place.norm))
        return place.name, adding(delta)

    def _decompose(self, layer: int, head: int | None) -> list[Decomposition]:
        if head is not None:
            return [self._head_share(layer, head, index) for index in range(len(self.tokens))]
        found = decompose(
            self.model.hooked,
            self.tokens,
            layer=layer,
            cache=self.records,
            value_bias=self.value_bias,
            rtol=self.rtol,
        )
        assert isinstance(found, list)
        return found

    def _head_share(self, layer: int, head: int, index: int) -> Decomposition:
        """What one head's values became: every step is linear in the parts, with the run's own scales and gates."""
        record = self.records[layer].sequence(index)
        n_heads = record.pattern.shape[0]
        if not -n_heads <= head < n_heads:
            raise InputError(f"head={head}: layer {layer} has heads 0 to {n_heads - 1}.")
        only = torch.zeros(n_heads, 1, 1, device=record.pattern.device, dtype=record.pattern.dtype)
        only[head] = 1
        alone = replace(
            record, pattern=record.pattern * only, resid_pre=torch.zeros_like(record.resid_pre), edited=False
        )
        return decompose_record(alone, Settings(value_bias=self.value_bias))


def equally_long(model: Any, input: Any) -> Int[Tensor, "batch pos"]:
    """Token ids of a text, of texts of the same length, or of a tensor, on the model's device.

    Raises:
        InputError: if lengths differ.
    """
    batches = prepare(model, input, None)
    lengths = [batch.tokens.shape[1] for batch in batches]
    if len(set(lengths)) > 1:
        raise InputError(
            f"the texts have {', '.join(map(str, lengths))} tokens: cells of one are not those of the other. Use texts of "
            "equally many tokens."
        )
    device = next(model.hooked.parameters()).device
    return torch.cat([batch.tokens for batch in batches]).to(device)


def adding(delta: Float[Tensor, "batch pos d_model"]) -> HookFunction:
    """A hook function that adds the same tensor at every call; one sequence's serves a whole batch."""

    def hook(tensor: Tensor, hook: Any = None) -> Tensor:
        own = tensor.reshape(-1, *delta.shape[1:])
        if delta.shape[0] not in (1, own.shape[0]):
            raise InputError(f"these contributions are of {delta.shape[0]} sequences, the run has {own.shape[0]}.")
        return (own + delta.to(tensor)).reshape(tensor.shape)

    return hook
