"""Contributions as interventions: hook functions that remove, scale or replace `F_i(x_j)` in a forward pass.

A `Contributions` caches one forward pass per prompt: its tokens, its logits, and the layer records. Its methods return
`(HookPoint name, function)` for `run_with_hooks`. The function adds a vector to the scope's own tensor and changes nothing else,
so that later layers respond as the model does. If all contributions and the bias are removed, the tensor is zero.

An `EditPoint` is a HookPoint at which exactly one scope's tensor can be changed. Adding to the attention output adds to
`x + attention`, for either HookPoint. A bridge's HookPoint between the two residual connections is the input of the second norm
alone: an edit there does not reach the residual stream.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, TypedDict, Unpack

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from tl_ffblock.bridge.edited import TOLERANCE, logits_under
from tl_ffblock.bridge.layers import BEFORE_GAIN, patching_name
from tl_ffblock.bridge.model import Model, identify, refuse_other_model
from tl_ffblock.bridge.runs import Hooks, Layers, Run, kept_records, open_run
from tl_ffblock.contributions import certify
from tl_ffblock.errors import InputError, LayerError, UnsupportedModelError, brief
from tl_ffblock.interventions.patched import Prompts
from tl_ffblock.layer.heads import head_numbers, of_heads
from tl_ffblock.layer.linear import Decomposition, LinearLayer, decompose_record
from tl_ffblock.layer.positions import Positions, layer_number, one_position, positions, several, spans
from tl_ffblock.layer.records import Block, LayerRecord, ValueBias
from tl_ffblock.layer.scopes import INPUT, PROGRAMS, Add, Normalise, NormName, select_scopes
from tl_ffblock.results.tokens import shortened
from tl_ffblock.signatures import spelled_out, strict, whole

Heads: TypeAlias = Sequence[int] | int | None
"""Attention heads, negative ones from the end; None means all heads and the residual."""
HookFunction: TypeAlias = Callable[..., Tensor]
Hook: TypeAlias = tuple[str, HookFunction]
"""HookPoint name and function, as `run_with_hooks` takes them."""
PatchSetter: TypeAlias = Callable[[Tensor, Sequence[int], Tensor], Tensor]
"""A setter, which TransformerLens's patching functions call with an activation, an index and the clean activation."""
AXES = {"dest_pos": "query", "pos": "query", "src_pos": "key", "head": "head", "head_index": "head"}
"""Axes of an index in TransformerLens's patching functions, and their names here."""
# Number of cached decompositions; each has [query, key, d_model] for every scope.
_KEPT_LAYERS = 4


class Chosen(TypedDict, total=False):
    """Choice of contributions of a layer and scope; see `Contributions.vector`."""

    query: Positions
    key: Positions
    head: Heads
    bias: bool


EVERYTHING = {"query": None, "key": None, "head": None, "bias": False}
"""Default choice: every query and key, all heads and the residual, without the bias term."""


@strict
@dataclass(frozen=True)
class EditPoint:
    """A HookPoint at which one scope's tensor can be changed."""

    name: str
    """HookPoint name, as `run_with_hooks` takes it."""
    norm: NormName | None = None
    """A norm of the block whose gain is applied after this HookPoint (HookedTransformer, HookedEncoder)."""
    added: Add | None = None
    """A sum whose left operand has this HookPoint, and its multiplier after it."""

    def onto(self, vector: Float[Tensor, "*lead d_model"], block: Block) -> Float[Tensor, "*lead d_model"]:
        """Vector to add here so that the scope's tensor changes by `vector`: before a gain or multiplier, divided by it."""
        if self.added is not None:
            vector = vector / block.factors(self.added)[0]
        return vector if self.norm is None else vector / block.norm(self.norm).gain


@strict
def edit_point(model: Model, layer: int, scope: str) -> EditPoint:
    """The HookPoint for one scope of one layer, from the layer's program.

    Raises:
        LayerError: if the model has no such layer.
        InputError: if its order has no such scope.
        UnsupportedModelError: if no HookPoint has this tensor in a form that can be changed.
    """
    layer, order = layer_number(layer, model.n_layers, f"in {model.name}"), model.family.order
    select_scopes(order, scope)
    operation = next(step.operation for step in PROGRAMS[order] if step.scope == scope)
    added = operation if isinstance(operation, Add) and operation.right == INPUT else None
    if added is not None:
        scope = added.left  # a change of attention's term is the same change of x + attention
    before_ff = isinstance(operation, Normalise) and operation.norm == "ff_norm"
    if before_ff and model.api == "TransformerBridge":
        return EditPoint(model.layers[layer].ff_input_name)
    name = model.layers[layer].sites[f"whole.{scope}"]
    before_gain = name.endswith(f".{BEFORE_GAIN}")
    if before_ff and not before_gain:
        raise UnsupportedModelError(
            f"{model.name} ({model.api}) has no norm before the feed-forward: no HookPoint has {scope} apart from the residual "
            "stream: it cannot be changed alone. Use another scope."
        )
    if before_gain and not isinstance(operation, Normalise):
        raise UnsupportedModelError(
            f"{model.name} ({model.api}): no HookPoint has {scope} of layer {layer} before the norm that follows it, so it cannot be "
            "changed alone. Use a TransformerBridge, or the scope after that norm."
        )
    return EditPoint(name, operation.norm if before_gain and isinstance(operation, Normalise) else None, added)


def adding(delta: Float[Tensor, "batch pos d_model"]) -> HookFunction:
    """Hook function that adds the same tensor at every call; that of one sequence is broadcast over a batch.

    z [pos head d_head] is reshaped to [pos d]. A forward pass with another number of positions is refused with an InputError.
    """
    n_sequences, n_positions = delta.shape[:2]

    def add(tensor: Tensor, hook: object = None) -> Tensor:
        if tensor.shape[1] != n_positions:
            raise InputError(
                f"this hook of Contributions has {n_positions} positions, the forward pass has {tensor.shape[1]}: use "
                "Contributions of this prompt, or run the whole prompt of the Contributions."
            )
        if n_sequences not in (1, len(tensor)):
            raise InputError(
                f"this hook of Contributions has {n_sequences} sequences: expected {len(tensor)}, as in this batch."
            )
        return tensor + delta.to(tensor).reshape(n_sequences, *tensor.shape[1:])

    return add


def adding_rows(
    vectors: Float[Tensor, "edit d"], rows: Sequence[int], positions: Sequence[int], n_runs: int
) -> HookFunction:
    """Hook function for a batch of edits: vector i is added in row `rows[i]`, at `positions[i]`."""

    def add(tensor: Tensor, hook: object = None) -> Tensor:
        changed = tensor.clone(memory_format=torch.contiguous_format)
        changed.view(n_runs, -1, vectors.shape[-1])[list(rows), list(positions)] += vectors.to(tensor)
        return changed

    return add


class _Prompt(NamedTuple):
    """Cached forward pass of one prompt."""

    records: dict[int, LayerRecord]
    tokens: Int[Tensor, " pos"]
    labels: tuple[str, ...]
    logits: Float[Tensor, "pos d_vocab"]
    # Token ids of the batch that ran together, which hooks saw.
    batch: Int[Tensor, "batch pos"]
    # The prompt's row in the batch.
    row: int


@strict
class Contributions:
    """Contribution vectors `F_i(x_j)` of a forward pass, by layer and scope, as interventions on this or another forward pass.

        contributions = ffb.Contributions(model, "When Mary and John went to the store, John gave a drink to")
        hook = contributions.subtract(9, "AtbLnFf", query=-1, key=2)
        model.run_with_hooks(contributions.tokens, fwd_hooks=[hook])

    Layers, positions and heads may be counted from the end. `query` and `key` are one position, several, or None for all: `key=j`
    alone is a whole column. `head` selects the part of one head, or of several together. Over heads, these parts sum to the
    contribution of attention; the residual's own x_i belongs to no head.

    Several prompts have one forward pass each: `len(contributions)` is their number, and `contributions.prompt(3)` is one of
    them. Hooks of prompts of equal length can be used with a batch of them; a sweep takes prompts of any lengths.
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
        """Run the model once and cache its layer records.

        Args:
            model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
            input: A text, texts, token ids [pos] or [batch, pos] without padding, or a list of token ids [pos].
            layers: Layers to cache; None means all.
            fwd_hooks: Hooks of this forward pass, as in `run_with_hooks`.
            value_bias: As in `contribution_maps`.
            rtol: As in `contribution_maps`.

        Raises:
            InputError: if the input cannot be used.
            UnsupportedModelError: for models that cannot be decomposed.
            IdentityError: if a cached activation contradicts the model's weights.
        """
        self.model: Model = identify(model)
        options: Any = {"fwd_hooks": fwd_hooks, "value_bias": value_bias, "rtol": rtol}
        run = open_run(self.model, input, layers=layers, keeps_logits=True, **options)
        self.layers: tuple[int, ...] = run.layers
        self._settings = run.settings
        self._prompts = [*_kept(run)]
        self._fwd_hooks = tuple(fwd_hooks)
        self._callbacks = self.model.callbacks()
        self.is_hooked: bool = bool(self._fwd_hooks) or (
            bool(self._callbacks) and not self._gives_the_same(silent=True)
        )
        """Whether hooks took part: given ones, or hooks on the model that change its logits."""
        self._decomposed = lru_cache(maxsize=_KEPT_LAYERS)(self._decompose)

    def __len__(self) -> int:
        """Number of prompts."""
        return len(self._prompts)

    def prompt(self, index: int) -> "Contributions":
        """Contributions of one prompt.

        Raises:
            InputError: if there is no such prompt.
        """
        kept, alone = self._prompt(index), copy(self)
        alone._prompts = [kept]
        alone._decomposed = lru_cache(maxsize=_KEPT_LAYERS)(alone._decompose)
        return alone

    @property
    def lengths(self) -> tuple[int, ...]:
        """Number of tokens of each prompt."""
        return tuple(len(prompt.tokens) for prompt in self._prompts)

    @property
    def shape(self) -> tuple[int, int]:
        """Batch size and number of positions.

        Raises:
            InputError: if the prompts differ in length.
        """
        if len(set(self.lengths)) > 1:
            raise InputError(
                f"the prompts have {', '.join(map(str, self.lengths))} tokens: expected equally many, so that cells are comparable. Use "
                "one prompt at a time (`prompt(0)`), or a sweep with `positions=` by name."
            )
        return len(self), self.lengths[0]

    @property
    def tokens(self) -> Int[Tensor, "batch pos"]:
        """Token ids of prompts of equal length, on the model's device; raises the errors of `shape`."""
        return self._of_all([prompt.tokens for prompt in self._prompts])

    @property
    def logits(self) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits of prompts of equal length; raises the errors of `shape`."""
        return self._of_all([prompt.logits for prompt in self._prompts])

    def labels(self, index: int = 0) -> tuple[str, ...]:
        """Tokens of one prompt as text; raises the errors of `prompt`."""
        return self._prompt(index).labels

    def record(self, layer: int, index: int = 0) -> LayerRecord:
        """Layer record of one prompt.

        Raises:
            LayerError: if the model has no such layer, or it was not cached.
            InputError: if there is no such prompt.
        """
        number = layer_number(layer, self.model.n_layers, f"in {self.model.name}")
        if number not in self.layers:
            raise LayerError(
                f"layer {layer} was not cached; expected one of {spans(self.layers)}. Pass it in layers= of Contributions."
            )
        return self._prompt(index).records[number]

    def decomposition(self, layer: int) -> list[Decomposition]:
        """All contribution vectors of a layer, one checked result per prompt.

        Raises:
            LayerError: if the model has no such layer, or it was not cached.
        """
        return self._decomposed(self.record(layer).layer, None)

    def cells(
        self, layer: int, scope: str, cells: Sequence[tuple[int, int]], *, head: int | None = None
    ) -> Float[Tensor, "cell d_model"]:
        """Contribution vectors `F_i(x_j)` of some cells (query, key) of the first prompt.

        Args:
            layer: A cached layer.
            scope: A scope of the model's order.
            cells: Pairs of positions from 0.
            head: Only the part of this attention head; None means the whole vector, checked.

        Raises:
            LayerError: if the model has no such layer, or it was not cached.
            InputError: if there is no such scope, head or cell.
        """
        select_scopes(self.model.family.order, scope)
        listed = several(cells)
        if not listed or not all(isinstance(cell, list | tuple) and len(cell) == 2 for cell in listed):
            raise InputError(f"cells={brief(cells)}: expected pairs of positions, [(query, key), ...].")
        queries, keys = (
            [one_position(cell[end], self.lengths[0], name) for cell in listed]
            for end, name in enumerate(("query", "key"))
        )
        rows = sorted(set(queries))
        record = self.record(layer).rows(torch.tensor(rows))
        through = record if head is None else of_heads(record, head_numbers(head, len(record.pattern), "head"))
        parts = LinearLayer(through, self._settings).parts([scope])[scope]
        if head is None:
            certify(self.model, record.layer, rows, {scope: parts.error(record.whole[scope])}, self._settings)
        return parts.tokens[[rows.index(query) for query in queries], keys]

    def reaches(self, layer: int, index: int = 0) -> Bool[Tensor, "query key"]:
        """Cells of a layer that exist for one prompt: attention gives weight to the key, or query and key are the same.

        In a causal model a key after its query has no weight; with a sliding window, nor has a key outside the window.

        Raises:
            LayerError: if the model has no such layer, or it was not cached.
        """
        pattern = self.record(layer, index).pattern
        return (pattern != 0).any(dim=0) | torch.eye(pattern.shape[-1], dtype=torch.bool, device=pattern.device)

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
        """Sum of the chosen contributions over keys, at the chosen queries; zero at other queries.

        Args:
            layer: A cached layer.
            scope: Scope, as in `tl_ffblock.layer.scopes`.
            query: Query positions (destinations).
            key: Key positions (sources). With `bias=True`, an empty list selects the bias term alone.
            head: Only the part of this attention head, or of several together; None means everything.
            bias: Whether the bias term and the remainder are included.

        Raises:
            LayerError: if the model has no such layer, or it was not cached.
            InputError: for a scope, position or head that does not exist, or a head's bias term.
            UnsupportedModelError: if the scope's tensor cannot be changed in this model.
        """
        length = self.shape[1]
        rows, columns = _chosen(query, length, "query"), _chosen(key, length, "key")
        edit_point(self.model, layer, scope)
        if head is not None and bias:
            raise InputError(f"head={head} with bias=True: the bias term belongs to no head. Omit one of them.")
        record = self.record(layer)
        heads = None if head is None else head_numbers(head, len(record.pattern), "head", switch=False)
        vectors = []
        for part in self._decomposed(record.layer, heads):
            summed = part.parts(scope)[:, columns].sum(dim=1)
            if bias:
                summed = summed + part.bias(scope) + part.remainder(scope)
            chosen = torch.zeros_like(summed)
            chosen[rows] = summed[rows]
            vectors.append(chosen)
        return torch.stack(vectors)

    @spelled_out(Chosen, EVERYTHING)
    def subtract(self, layer: int, scope: str, **chosen: Unpack[Chosen]) -> Hook:
        """Hook that removes the chosen contributions; arguments and errors are those of `scale`."""
        return self.scale(0.0, layer, scope, **chosen)

    @spelled_out(Chosen, EVERYTHING)
    def scale(self, factor: float, layer: int, scope: str, **chosen: Unpack[Chosen]) -> Hook:
        """Hook that multiplies the chosen contributions by `factor`: 0 removes them, 1 changes nothing.

        Other arguments and errors are those of `vector`.

        Raises:
            InputError: if none of the chosen contributions exists, for example a key after its query in a causal model.
        """
        refuse_absent(layer, chosen, self)
        return self._adding((factor - 1) * self.vector(layer, scope, **chosen), layer, scope)

    @spelled_out(Chosen, EVERYTHING)
    def replace(self, donor: "Contributions", layer: int, scope: str, **chosen: Unpack[Chosen]) -> Hook:
        """Hook that replaces contributions by those of another forward pass in the same cells.

        Other arguments and errors are those of `vector`.

        Raises:
            InputError: if the donor has another shape, model or `value_bias`, or if none of the chosen contributions exists in
                either.
        """
        self.refuse_other_donor(donor)
        refuse_absent(layer, chosen, self, donor)
        return self._adding(donor.vector(layer, scope, **chosen) - self.vector(layer, scope, **chosen), layer, scope)

    def activation_name(self, scope: str) -> str:
        """Name of the scope's HookPoint in TransformerLens's patching functions, such as "mlp_out"; see `patch_setter`.

        Raises:
            InputError: if they have no name for it.
        """
        point = edit_point(self.model, 0, scope)
        short = patching_name(point.name)
        if short is None:
            raise InputError(
                f"TransformerLens's patching functions reach only HookPoints of the block, and {scope} is changed at {point.name}. "
                "Use contribution_sweep, or pass hooks of Contributions to run_with_hooks."
            )
        return short

    def patch_setter(
        self,
        scope: str,
        donor: "Contributions | None" = None,
        *,
        axes: Sequence[str] = ("layer", "dest_pos", "src_pos"),
    ) -> PatchSetter:
        """Setter for TransformerLens's `patching.generic_activation_patch`, with these contributions as the corrupted ones.

            effects = patching.generic_activation_patch(
                model, corrupted.tokens, clean_cache, metric,
                patch_setter=corrupted.patch_setter("AtbLnFf", clean),
                activation_name=corrupted.activation_name("AtbLnFf"),
                index_axis_names=("layer", "dest_pos", "src_pos"))

        At an index without a contribution, such as a key after its query in a causal model, the setter changes nothing.

        Args:
            scope: Scope of the contributions.
            donor: The contributions to insert (the clean ones); None removes them.
            axes: Axes of an index, "layer" first, then some of "dest_pos" (or "pos"), "src_pos", "head".

        Raises:
            InputError: for other axes, or a donor of another shape, model or `value_bias`.
        """
        listed = isinstance(axes, Sequence) and not isinstance(axes, str)
        if not listed or not axes or axes[0] != "layer" or not set(axes[1:]) <= set(AXES):
            raise InputError(f"axes={brief(axes)}: expected a list: layer, then some of {', '.join(AXES)}.")
        self.activation_name(scope)
        if donor is not None:
            self.refuse_other_donor(donor)

        def setter(activation: Tensor, index: Sequence[int], _: Tensor) -> Tensor:
            if len(index) != len(axes):
                raise InputError(
                    f"index={brief(list(index))}: expected {len(axes)} numbers, {', '.join(axes)}; see `axes`."
                )
            layer, *rest = (int(number) for number in index)
            chosen: Any = dict(zip((AXES[axis] for axis in axes[1:]), rest, strict=True))
            own = self.vector(layer, scope, **chosen)
            change = -own if donor is None else donor.vector(layer, scope, **chosen) - own
            return self._adding(change, layer, scope)[1](activation)

        return setter

    def refuse_changed_model(self, *others: "Contributions") -> None:
        """Refuse to run a model that changed since these contributions, and others made with them, were cached.

        Raises:
            InputError: if its weights changed, if hooks that change its logits were added or removed, or if it is in training
                mode.
        """
        now = self.model.fingerprint_now()
        if now != self.model.fingerprint:
            raise InputError(
                f"the weights of {self.model.name} changed after these Contributions were cached (fingerprint "
                f"{self.model.fingerprint}, now {now}): create them again."
            )
        if self.model.callbacks() != self._callbacks and not all(runs._gives_the_same() for runs in (self, *others)):
            raise InputError(
                f"hooks were added to {self.model.name} or removed after these Contributions were cached: create them again, so that "
                "edits are compared with a forward pass under the same hooks."
            )

    def refuse_other_donor(self, donor: "Contributions") -> None:
        """Refuse a donor of another model, another `value_bias` or other lengths.

        Raises:
            InputError: if one differs.
        """
        refuse_other_model("donor", donor.model.fingerprint, self.model)
        mine, theirs = self._settings.value_bias, donor._settings.value_bias
        if mine != theirs:
            raise InputError(
                f"donor has value_bias={theirs!r}, the contributions to change have value_bias={mine!r}: these are different "
                "kinds of contributions. Create both with the same value_bias."
            )
        if donor.lengths != self.lengths:
            raise InputError(
                f"donor has prompts of {', '.join(map(str, donor.lengths))} tokens, the contributions to change have "
                f"{', '.join(map(str, self.lengths))}: cells are replaced at the same positions. Use prompts of equally many tokens."
            )

    def logits_of_edit(self, name: str, vector: Float[Tensor, " d"], position: int) -> Float[Tensor, "pos d_vocab"]:
        """Logits of the first prompt with its own hooks, and a vector added after them.

        The hooks see the same batch as before.

        Args:
            name: HookPoint.
            vector: Vector to add, as wide as the tensor, with heads concatenated.
            position: Position, from 0.
        """
        prompt = self._prompts[0]
        return self._once_more(prompt, (name, adding_rows(vector[None], [prompt.row], [position], len(prompt.batch))))

    def _once_more(self, prompt: _Prompt, *hooks: Hook, silent: bool = False) -> Float[Tensor, "pos d_vocab"]:
        """Logits of a prompt from another forward pass of its batch, with its own hooks and further ones after them."""
        return logits_under(self.model, prompt.batch, [*self._fwd_hooks, *hooks], silent=silent)[prompt.row]

    def _gives_the_same(self, *, silent: bool = False) -> bool:
        """Whether the model, with its hooks or without, still gives the cached logits."""
        return all(
            torch.allclose(
                self._once_more(prompt, silent=silent),
                prompt.logits,
                rtol=TOLERANCE,
                atol=TOLERANCE * float(prompt.logits.abs().max()),
            )
            for prompt in self._prompts
        )

    def _adding(self, vector: Float[Tensor, "batch pos d_model"], layer: int, scope: str) -> Hook:
        point = edit_point(self.model, layer, scope)
        return point.name, adding(point.onto(vector, self.record(layer).block))

    def _prompt(self, index: int) -> _Prompt:
        number = whole(index)
        if number is None or not -len(self) <= number < len(self):
            raise InputError(f"index={brief(index)}: expected the number of a prompt, from 0 to {len(self) - 1}.")
        return self._prompts[number]

    def _of_all(self, tensors: Sequence[Shaped[Tensor, "pos ..."]]) -> Shaped[Tensor, "batch pos ..."]:
        """One tensor of all prompts. For a single prompt it is a view, since logits are large."""
        return tensors[0][None] if self.shape[0] == 1 else torch.stack([*tensors])

    def _decompose(self, layer: int, heads: tuple[int, ...] | None) -> list[Decomposition]:
        """Decompositions of a layer: of everything, checked, or of the values of some heads."""
        records = [prompt.records[layer] for prompt in self._prompts]
        if heads is not None:
            return [decompose_record(of_heads(record, heads), self._settings) for record in records]
        found = [decompose_record(record, self._settings) for record in records]
        for everything in found:
            errors = {scope: everything.completeness(scope) for scope in everything.scopes}
            certify(self.model, everything.layer, everything.queries, errors, self._settings)
        return found

    def __repr__(self) -> str:
        shortest, longest = min(self.lengths), max(self.lengths)
        length = shortest if shortest == longest else f"{shortest} to {longest}"
        return (
            f"Contributions: {len(self)} sequence{'s' * (len(self) > 1)} of {length} tokens through {self.model.name} "
            f"({self.model.family.order}); layers {spans(self.layers)}\n  {shortened(self.labels())}"
        )


def _kept(run: Run) -> Iterator[_Prompt]:
    records = kept_records(run)
    logits = [of_prompt for batch in run.logits for of_prompt in batch]
    rows = [(batch.tokens, row) for batch in run.batches for row in range(len(batch.numbers))]
    for number, sequence in enumerate(run.sequences):
        yield _Prompt(
            records[number], sequence.tokens.to(run.model.device), sequence.labels, logits[number], *rows[number]
        )


def _chosen(asked: Positions, length: int, name: str) -> list[int]:
    """Each position once, in any order; an empty list selects nothing."""
    return [] if isinstance(asked, Sequence) and not asked else sorted(set(positions(asked, length, name)))


def refuse_absent(layer: int, chosen: Chosen, *runs: Contributions) -> None:
    """Refuse a choice in which no cell exists: its edit would have no effect.

    Raises:
        InputError: with query and key, and the exchanged pair if that exists.
    """
    length = runs[0].shape[1]
    query, key = chosen.get("query"), chosen.get("key")
    rows, columns = _chosen(query, length, "query"), _chosen(key, length, "key")
    if chosen.get("bias") or not rows or not columns:  # the bias term exists everywhere, an empty list selects nothing
        return
    reached = [run.reaches(layer, number) for run in runs for number in range(len(run))]
    if any(bool(cells[rows][:, columns].any()) for cells in reached):
        return
    said = f"query={brief(query)}, key={brief(key)}"
    if runs[0].model.family.causal and min(columns) > max(rows):
        exchanged = f"query={brief(key)}, key={brief(query)}"
        raise InputError(
            f"{said}: in a causal model no token reads a later one, so there is no such contribution. Did you mean {exchanged}? "
            "`query` is the destination, `key` the source."
        )
    raise InputError(
        f"{said}: attention of layer {runs[0].record(layer).layer} gives no weight there, as outside its window, so there is no such "
        "contribution. Expected a key that the query attends to."
    )
