"""Contributions as interventions: hook functions that take `F_i(x_j)` out of a run, scale it or exchange it.

A `Contributions` holds one run's vectors. Each of its methods returns `(HookPoint name, function)`,
ready for `run_with_hooks`; the function adds a vector to the scope's own tensor and touches nothing
else, so what follows is the model's own answer. All parts and the bias taken out leave zero.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias, TypedDict, Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.runs import Hooks, Layers
from tl_ffblock.errors import InputError, brief
from tl_ffblock.interventions.edit_points import activation_name, edit_point, index_axes
from tl_ffblock.interventions.hooks import Hook, PatchSetter, adding
from tl_ffblock.interventions.kept_runs import KeptRuns, Prompts
from tl_ffblock.layer.heads import head_numbers
from tl_ffblock.layer.positions import Positions, positions, spans
from tl_ffblock.layer.settings import ValueBias
from tl_ffblock.results.tokens import shortened
from tl_ffblock.signatures import spelled_out, strict

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


@strict
class Contributions(KeptRuns):
    """One run's vectors `F_i(x_j)`, by layer and scope, as interventions on this or another run.

        contributions = ffb.Contributions(model, "When Mary and John went to the store, John gave a drink to")
        hook = contributions.subtract(9, "AtbLnFf", query=-1, key=2)
        model.run_with_hooks(contributions.tokens, fwd_hooks=[hook])

    Layers, positions and heads may be counted from the end. `query` and `key` are one position, several, or
    None for all: `key=j` alone is a whole column. `head` takes the share of one head, or of several together;
    all heads' shares sum to what attention brought (the residual's own x_i belongs to no head).

    Several prompts are one run each: `len(contributions)` of them, `contributions.prompt(3)` is one alone. Hooks of prompts
    of equal length go together with a batch of them; a sweep takes prompts of any lengths.
    """

    def __init__(
        self,
        model: Any,
        input: Prompts,
        *,
        layers: Layers = None,
        fwd_hooks: Hooks = (),
        value_bias: ValueBias = "bias",
        rtol: float | None = None,
    ) -> None:
        """Run the model once and keep what its layers need to be decomposed.

        Args:
            model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
            input: A text, texts, token ids [pos] or [batch, pos] without padding, or a list of token ids [pos].
            layers: Layers to keep; None means all.
            fwd_hooks: Hooks of this run, as in `run_with_hooks`.
            value_bias: As in `contribution_maps`.
            rtol: As in `contribution_maps`.

        Raises:
            InputError: if the input cannot be used.
            UnsupportedModelError: for models that cannot be certified.
            IdentityError: if a captured tensor contradicts the model's weights.
        """
        super().__init__(model, input, layers=layers, fwd_hooks=fwd_hooks, value_bias=value_bias, rtol=rtol)

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
        """A hook that takes the chosen contributions out; arguments and errors are those of `scale`."""
        return self.scale(0.0, layer, scope, **chosen)

    @spelled_out(Chosen, EVERYTHING)
    def scale(self, factor: float, layer: int, scope: str, **chosen: Unpack[Chosen]) -> Hook:
        """A hook that multiplies the chosen contributions by `factor`: 0 takes them out, 1 changes nothing.

        The other arguments and errors are those of `vector`.

        Raises:
            InputError: if none of the chosen contributions exists: each key comes after its query in a causal model, or is
                outside the window of attention.
        """
        refuse_absent(layer, chosen, self)
        return self._adding((factor - 1) * self.vector(layer, scope, **chosen), layer, scope)

    @spelled_out(Chosen, EVERYTHING)
    def replace(self, donor: "Contributions", layer: int, scope: str, **chosen: Unpack[Chosen]) -> Hook:
        """A hook that puts another run's contributions of the same cells in place of this run's.

        The other arguments and errors are those of `vector`.

        Raises:
            InputError: if the donor's run has another shape, or is of another model or `value_bias`, or none of the chosen
                contributions exists in either run.
        """
        self._refuse_unlike(donor)
        refuse_absent(layer, chosen, self, donor)
        return self._exchanging(donor, layer, scope, **chosen)

    def _refuse_unlike(self, donor: "Contributions") -> None:
        self.refuse_other_donor(donor)
        if donor.shape != self.shape:
            raise InputError(
                f"donor is a run of shape {donor.shape}, this one of {self.shape} [batch, pos]: the cells of one are not "
                "those of the other. Use prompts of equally many tokens."
            )

    def _exchanging(self, donor: "Contributions", layer: int, scope: str, **chosen: Unpack[Chosen]) -> Hook:
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

        At an index without a contribution, a key after its query in a causal model, the setter changes nothing.

        Args:
            scope: Which contributions.
            donor: The run to take them from (the clean one); None takes them out.
            axes: What each number of an index is, "layer" first: of "dest_pos" (or "pos"), "src_pos", "head".

        Raises:
            InputError: for axes that are none of these, or a donor of another shape, model or `value_bias`.
        """
        names = index_axes(axes)
        self.activation_name(scope)
        if donor is not None:
            self._refuse_unlike(donor)

        def setter(activation: Tensor, index: Sequence[int], _: Tensor) -> Tensor:
            if len(index) != len(names) + 1:
                raise InputError(
                    f"index={brief(list(index))}: expected {len(names) + 1} numbers, {', '.join(axes)}; see `axes`."
                )
            layer, *rest = (int(number) for number in index)
            at = dict(zip(names, rest, strict=True))
            query, key, head = (at.get(axis) for axis in ("query", "key", "head"))
            chosen: Chosen = {"query": query, "key": key, "head": head}
            if donor is None:
                return self._adding(-self.vector(layer, scope, **chosen), layer, scope)[1](activation)
            return self._exchanging(donor, layer, scope, **chosen)[1](activation)

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
        return head_numbers(head, n_heads, "head", switch=False)

    def __repr__(self) -> str:
        shortest, longest = min(self.lengths), max(self.lengths)
        length = shortest if shortest == longest else f"{shortest} to {longest}"
        return (
            f"Contributions: {len(self)} sequence{'s' * (len(self) > 1)} of {length} tokens through {self.model.name} "
            f"({self.model.family.order}); layers {spans(self.layers)}\n  {shortened(self.labels())}"
        )


def _chosen(asked: Positions, length: int, name: str) -> list[int]:
    """Each position once, whatever the order; an empty list is a choice, too: nothing."""
    return [] if isinstance(asked, Sequence) and not asked else sorted(set(positions(asked, length, name)))


def refuse_absent(layer: int, chosen: Chosen, *runs: Contributions) -> None:
    """Refuse cells of which none exists in any of the runs: an edit of them would change nothing.

    Raises:
        InputError: naming query and key, and the exchange of the two where that is what was meant.
    """
    length = runs[0].shape[1]
    query, key = chosen.get("query"), chosen.get("key")
    rows, columns = _chosen(query, length, "query"), _chosen(key, length, "key")
    if (
        chosen.get("bias") or not rows or not columns
    ):  # the bias part exists everywhere, and an empty list asks for nothing
        return
    reached = [run.reaches(layer, number) for run in runs for number in range(len(run))]
    if any(bool(cells[rows][:, columns].any()) for cells in reached):
        return
    said = f"query={brief(query)}, key={brief(key)}"
    if runs[0].model.family.causal and min(columns) > max(rows):
        exchanged = f"query={brief(key)}, key={brief(query)}"
        raise InputError(
            f"{said}: in a causal model no token reads a later one, so there is no such contribution. Did you mean {exchanged}? "
            "`query` receives, `key` gives."
        )
    raise InputError(
        f"{said}: attention of layer {runs[0].record(layer).layer} gives no weight there, as outside its window, so there is no such "
        "contribution. Expected a key that the query attends to."
    )
