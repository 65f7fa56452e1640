"""Contributions as interventions: hook functions that take `F_i(x_j)` out of a run, scale it or exchange it.

A `Contributions` holds one run's vectors. Each of its methods returns `(HookPoint name, function)`,
ready for `run_with_hooks`; the function adds a vector to the scope's own tensor and touches nothing
else, so what follows is the model's own answer. All parts and the bias taken out leave zero.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, SupportsIndex, TypeAlias, TypedDict, Unpack

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.inputs import at_model
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.runs import Hooks, Layers, Run, Texts, Tokens, kept_records, open_run
from tl_ffblock.contributions import certify
from tl_ffblock.errors import InputError, LayerError
from tl_ffblock.interventions.edit_points import activation_name, edit_point, index_axes, number_of
from tl_ffblock.interventions.hooks import Hook, PatchSetter, adding
from tl_ffblock.layer.heads import of_heads
from tl_ffblock.layer.positions import Positions, positions, spans
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.settings import ValueBias
from tl_ffblock.layer.vectors import Decomposition, decompose_record
from tl_ffblock.results.tokens import shortened
from tl_ffblock.signatures import spelled_out

Heads: TypeAlias = Sequence[int] | int | None
"""Attention heads, negative ones from the end; None means everything, the residual included."""


class Chosen(TypedDict, total=False):
    """Which contributions of a layer and scope; `Contributions.vector` says what each means."""

    query: Positions
    key: Positions
    head: Heads
    bias: bool


EVERYTHING = {"query": None, "key": None, "head": None, "bias": False}
"""What the choice is where nothing is said: every query and key, whole, without the bias part."""

_KEPT_LAYERS = 4
"""Decompositions kept at a time; each holds [query, key, d_model] for every scope."""


class Contributions:
    """One run's vectors `F_i(x_j)`, by layer and scope, as interventions on this or another run.

        contributions = ffb.Contributions(model, "When Mary and John went to the store, John gave a drink to")
        hook = contributions.subtract(9, "AtbLnFf", query=-1, key=2)
        model.run_with_hooks(contributions.tokens, fwd_hooks=[hook])

    Layers, positions and heads may be counted from the end. `query` and `key` are one position, several, or
    None for all: `key=j` alone is a whole column. `head` takes the share of one head, or of several together;
    all heads' shares sum to what attention brought (the residual's own x_i belongs to no head).
    """

    def __init__(
        self,
        model: Any,
        input: str | Texts | Tokens,
        *,
        layers: Layers = None,
        fwd_hooks: Hooks = (),
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
            UnsupportedModelError: for models that cannot be certified.
            IdentityError: if a captured tensor contradicts the model's weights.
        """
        run = open_run(
            model, input, layers=layers, keeps_logits=True, fwd_hooks=fwd_hooks, value_bias=value_bias, rtol=rtol
        )
        self.model: Model = run.model
        self.layers: tuple[int, ...] = run.layers
        self.tokens: Int[Tensor, "batch pos"] = at_model(run.model, equally_long(run))
        self._labels = [sequence.labels for sequence in run.sequences]
        self._settings = run.settings
        self._records = kept_records(run)
        self.logits: Float[Tensor, "batch pos d_vocab"] = torch.cat(run.logits)
        self._decomposed = lru_cache(maxsize=_KEPT_LAYERS)(self._decompose)

    @property
    def shape(self) -> tuple[int, int]:
        """Batch and positions."""
        return self.tokens.shape[0], self.tokens.shape[1]

    def labels(self, index: int = 0) -> tuple[str, ...]:
        """The tokens of one sequence as text."""
        return self._labels[index]

    def record(self, layer: int, index: int = 0) -> LayerRecord:
        """What was captured of a layer in one sequence's run.

        Raises:
            LayerError: if the model has no such layer, or it was not kept.
        """
        number = number_of(self.model, layer)
        if number not in self.layers:
            raise LayerError(
                f"layer {layer} was not captured; captured are {spans(self.layers)}. Make the Contributions with it in layers."
            )
        return self._records[index][number]

    def decomposition(self, layer: int) -> list[Decomposition]:
        """All vectors of a layer, one result a sequence, certified.

        Raises:
            LayerError: if the model has no such layer, or it was not kept.
        """
        return self._decomposed(self.record(layer).layer, None)

    def vector(
        self,
        layer: int,
        scope: str,
        *,
        query: Positions = None,
        key: Positions = None,
        head: Heads = None,
        bias: bool = False,
    ) -> Float[Tensor, "batch pos d_model"]:
        """The chosen contributions summed over keys, at the chosen queries, zero at the others.

        Args:
            layer: Layer, one that was kept.
            scope: Scope, as in `tl_ffblock.layer.scopes`.
            query: Positions that receive.
            key: Positions that give; an empty list with `bias=True` is the bias part alone.
            head: Only the share of this attention head, or of these together; None means everything.
            bias: Whether the bias part and the remainder go along.

        Raises:
            LayerError: if the model has no such layer, or it was not kept.
            InputError: for a scope, position or head that does not exist, or a head's bias part.
            UnsupportedModelError: if the scope's tensor cannot be changed in this model.
        """
        length = self.shape[1]
        rows, columns = _chosen(query, length, "query"), _chosen(key, length, "key")
        edit_point(self.model, layer, scope)
        vectors = []
        for part in self._decomposed(self.record(layer).layer, self._heads(layer, head, bias)):
            summed = part.parts(scope)[:, columns].sum(dim=1)
            if bias:
                summed = summed + part.bias(scope) + part.remainder(scope)
            chosen = torch.zeros_like(summed)
            chosen[rows] = summed[rows]
            vectors.append(chosen)
        return torch.stack(vectors)

    @spelled_out(Chosen, EVERYTHING)
    def subtract(self, layer: int, scope: str, **chosen: Unpack[Chosen]) -> Hook:
        """A hook that takes the chosen contributions out; arguments and errors are those of `vector`."""
        return self.scale(0.0, layer, scope, **chosen)

    @spelled_out(Chosen, EVERYTHING)
    def scale(self, factor: float, layer: int, scope: str, **chosen: Unpack[Chosen]) -> Hook:
        """A hook that multiplies the chosen contributions by `factor`: 0 takes them out, 1 changes nothing.

        The other arguments and errors are those of `vector`.
        """
        return self._adding((factor - 1) * self.vector(layer, scope, **chosen), layer, scope)

    @spelled_out(Chosen, EVERYTHING)
    def replace(self, donor: "Contributions", layer: int, scope: str, **chosen: Unpack[Chosen]) -> Hook:
        """A hook that puts another run's contributions of the same cells in place of this run's.

        The other arguments and errors are those of `vector`.

        Raises:
            InputError: if the donor's run has another shape.
        """
        if donor.shape != self.shape:
            raise InputError(
                f"donor is a run of shape {donor.shape}, this one of {self.shape} [batch, pos]: the cells of one are not "
                "those of the other. Use prompts of equally many tokens."
            )
        return self._adding(donor.vector(layer, scope, **chosen) - self.vector(layer, scope, **chosen), layer, scope)

    def activation_name(self, scope: str) -> str:
        """What TransformerLens's patching functions call the scope's HookPoint; see `patch_setter`.

        Raises:
            InputError: if they cannot name it.
        """
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
        names = index_axes(axes)
        self.activation_name(scope)

        def setter(activation: Tensor, index: Sequence[int], _: Tensor) -> Tensor:
            layer, *rest = (int(number) for number in index)
            at = dict(zip(names, rest, strict=True))
            query, key, head = (at.get(axis) for axis in ("query", "key", "head"))
            edit = self.subtract if donor is None else partial(self.replace, donor)
            return edit(layer, scope, query=query, key=key, head=head)[1](activation)

        return setter

    def _adding(self, vector: Float[Tensor, "batch pos d_model"], layer: int, scope: str) -> Hook:
        point = edit_point(self.model, layer, scope)
        return point.name, adding(point.onto(vector, self.record(layer).block))

    def _heads(self, layer: int, head: Heads, bias: bool) -> tuple[int, ...] | None:
        if head is None:
            return None
        if bias:
            raise InputError(f"head={head} with bias=True: the bias part belongs to no head.")
        n_heads = self.record(layer).pattern.shape[0]
        heads = [int(number) for number in ([head] if isinstance(head, SupportsIndex) else head)]
        if not heads or not all(-n_heads <= number < n_heads for number in heads):
            raise InputError(f"head={head}: layer {self.record(layer).layer} has heads 0 to {n_heads - 1}.")
        return tuple(sorted({number % n_heads for number in heads}))

    def _decompose(self, layer: int, heads: tuple[int, ...] | None) -> list[Decomposition]:
        return [self._vectors(records[layer], heads) for records in self._records]

    def _vectors(self, record: LayerRecord, heads: tuple[int, ...] | None) -> Decomposition:
        """Everything, certified, or what some heads' values became."""
        if heads is None:
            everything = decompose_record(record, self._settings)
            errors = {scope: everything.completeness(scope) for scope in everything.scopes}
            certify(self.model, record, errors, self._settings)
            return everything
        return decompose_record(of_heads(record, heads), self._settings)

    def __repr__(self) -> str:
        n_sequences, length = self.shape
        return (
            f"Contributions: {n_sequences} sequence{'s' * (n_sequences > 1)} of {length} tokens through {self.model.name} "
            f"({self.model.family.order}); layers {spans(self.layers)}\n  {shortened(self.labels())}"
        )


def _chosen(asked: Positions, length: int, name: str) -> list[int]:
    """Each position once, whatever the order; an empty list is a choice, too: nothing."""
    return [] if isinstance(asked, Sequence) and not asked else sorted(set(positions(asked, length, name)))


def equally_long(run: Run) -> Int[Tensor, "batch pos"]:
    """Token ids of a run's sequences, in the order of the input.

    Raises:
        InputError: if lengths differ.
    """
    lengths = [len(sequence.tokens) for sequence in run.sequences]
    if len(set(lengths)) > 1:
        raise InputError(
            f"the texts have {', '.join(map(str, lengths))} tokens: cells of one are not those of the other. Use texts of "
            "equally many tokens."
        )
    return torch.stack([sequence.tokens for sequence in run.sequences])
