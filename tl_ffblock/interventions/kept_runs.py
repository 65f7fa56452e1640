"""Runs that are kept: of every prompt its tokens, its logits, and what each layer needs to be decomposed again."""

from collections.abc import Sequence
from copy import copy
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar, Unpack

import torch
from jaxtyping import Bool, Float, Int, Integer, Shaped
from torch import Tensor

from tl_ffblock.bridge.edited import TOLERANCE, logits_under
from tl_ffblock.bridge.model import Model, identify, refuse_other_model
from tl_ffblock.bridge.runs import Layers, MapOptions, Texts, Tokens, kept_records, open_run
from tl_ffblock.contributions import certify
from tl_ffblock.errors import InputError, LayerError, brief
from tl_ffblock.interventions.edit_points import number_of
from tl_ffblock.interventions.hooks import Hook, adding_rows
from tl_ffblock.layer.heads import head_numbers, of_heads
from tl_ffblock.layer.linear import LinearLayer
from tl_ffblock.layer.positions import one_position, several, spans
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import select_scopes
from tl_ffblock.layer.vectors import Decomposition, decompose_record
from tl_ffblock.signatures import strict, whole

Prompts: TypeAlias = str | Texts | Tokens | list[Integer[Tensor, " _pos"]]
"""A text, texts, token ids [pos] or [batch, pos], or a list of token ids [pos] of any lengths."""
Runs = TypeVar("Runs", bound="KeptRuns")
_KEPT_LAYERS = 4
"""Decompositions kept at a time; each holds [query, key, d_model] for every scope."""


@strict
class KeptRuns:
    """Prompts with one run of each; what is of all prompts at once needs prompts of equally many tokens."""

    def __init__(self, model: Any, input: Prompts, *, layers: Layers, **options: Unpack[MapOptions]) -> None:
        """Run every prompt once."""
        tensors = isinstance(input, list | tuple) and len(input) > 0 and isinstance(input[0], Tensor)
        known = identify(model)
        runs = [
            open_run(known, given, layers=layers, keeps_logits=True, **options)
            for given in (input if tensors else [input])
        ]
        first = runs[0]
        self.model: Model = known
        self.layers: tuple[int, ...] = first.layers
        self._settings = first.settings
        self._records = [records for run in runs for records in kept_records(run)]
        self._tokens = [sequence.tokens.to(first.model.device) for run in runs for sequence in run.sequences]
        self._labels = [sequence.labels for run in runs for sequence in run.sequences]
        self._logits = [logits for run in runs for batch in run.logits for logits in batch]
        self._fwd_hooks = tuple(options.get("fwd_hooks", ()))
        self._callbacks = known.callbacks()
        batches = [batch for run in runs for batch in run.batches]
        self._batch = [(batch.tokens, row) for batch in batches for row in range(len(batch.numbers))]
        """Of every prompt the token ids [batch pos] that ran with it, and its row there: what hooks of the run saw."""
        self.is_hooked: bool = bool(self._fwd_hooks) or (bool(self._callbacks) and not self._is_run_without_hooks())
        """Whether hooks that were given, or that sit on the model and change its logits, took part in the run."""
        self._decomposed = lru_cache(maxsize=_KEPT_LAYERS)(self._decompose)

    def __len__(self) -> int:
        """How many prompts there are."""
        return len(self._tokens)

    def prompt(self: Runs, index: int) -> Runs:
        """One prompt's run alone.

        Raises:
            InputError: if there is no such prompt.
        """
        index, alone = self._number(index), copy(self)
        alone._records, alone._tokens = [self._records[index]], [self._tokens[index]]
        alone._labels, alone._logits = [self._labels[index]], [self._logits[index]]
        alone._batch = [self._batch[index]]
        alone._decomposed = lru_cache(maxsize=_KEPT_LAYERS)(alone._decompose)
        return alone

    @property
    def lengths(self) -> tuple[int, ...]:
        """Tokens of each prompt."""
        return tuple(len(tokens) for tokens in self._tokens)

    @property
    def shape(self) -> tuple[int, int]:
        """Batch and positions.

        Raises:
            InputError: if the prompts differ in length.
        """
        self._refuse_unequal()
        return len(self), self.lengths[0]

    @property
    def tokens(self) -> Int[Tensor, "batch pos"]:
        """Token ids of prompts of equal length, on the model's device; errors are those of `shape`."""
        return self._of_all(self._tokens)

    @property
    def logits(self) -> Float[Tensor, "batch pos d_vocab"]:
        """What the model made of prompts of equal length; errors are those of `shape`."""
        return self._of_all(self._logits)

    def refuse_changed_model(self, *others: "KeptRuns") -> None:
        """Refuse to run the model again where it is no longer the one of these runs, and of others made with them.

        Raises:
            InputError: if its weights changed since, hooks were added to it or removed that change its logits, or it is in
                training mode.
        """
        now = self.model.fingerprint_now()
        if now != self.model.fingerprint:
            raise InputError(
                f"the weights of {self.model.name} changed after these Contributions were made (fingerprint "
                f"{self.model.fingerprint}, now {now}): make them again."
            )
        if self.model.callbacks() != self._callbacks and not all(runs._gives_the_same() for runs in (self, *others)):
            raise InputError(
                f"hooks were added to {self.model.name} or removed after these Contributions were made: make them again, so that "
                "the edited runs are compared with a run under the same hooks."
            )

    def refuse_other_donor(self, donor: "KeptRuns") -> None:
        """Refuse a donor whose contributions are not those of this model, made in this way.

        Raises:
            InputError: if it is of other weights, or another `value_bias`.
        """
        refuse_other_model("donor", donor.model.fingerprint, self.model)
        mine, theirs = self._settings.value_bias, donor._settings.value_bias
        if mine != theirs:
            raise InputError(
                f"donor was made with value_bias={theirs!r}, the run to change with value_bias={mine!r}: their contributions "
                "are of different kinds. Make both with the same value_bias."
            )

    def _once_more(self, *hooks: Hook, silent: bool = False) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits of the first prompt's batch, run again under its own hooks and further ones after them."""
        return logits_under(self.model, self._batch[0][0], [*self._fwd_hooks, *hooks], silent=silent)

    def _has_logits(self, batch: Float[Tensor, "batch pos d_vocab"]) -> bool:
        """Whether the first prompt's row of a batch is what was kept of its run."""
        kept, found = self._logits[0], batch[self._batch[0][1]]
        return torch.allclose(found, kept, rtol=TOLERANCE, atol=TOLERANCE * float(kept.abs().max()))

    def _is_run_without_hooks(self) -> bool:
        """Whether hooks that sit on the model only read: without them every prompt's logits are the same."""
        return self._gives_the_same(silent=True)

    def _gives_the_same(self, *, silent: bool = False) -> bool:
        """Whether the model as it is now gives the logits that were kept of every prompt."""
        return all(run._has_logits(run._once_more(silent=silent)) for run in map(self.prompt, range(len(self))))

    def logits_of_edit(self, name: str, vector: Float[Tensor, " d"], position: int) -> Float[Tensor, "pos d_vocab"]:
        """Logits of the first prompt's run once more, under its own hooks, with a vector added after them.

        The hooks see the batch that they saw before.

        Args:
            name: HookPoint.
            vector: Added to what passes it, as wide as the tensor, heads side by side.
            position: Where, from 0.
        """
        tokens, row = self._batch[0]
        return self._once_more((name, adding_rows(vector[None], [row], [position], len(tokens))))[row]

    def labels(self, index: int = 0) -> tuple[str, ...]:
        """The tokens of one prompt as text; errors are those of `prompt`."""
        return self._labels[self._number(index)]

    def record(self, layer: int, index: int = 0) -> LayerRecord:
        """What was captured of a layer in one prompt's run.

        Raises:
            LayerError: if the model has no such layer, or it was not kept.
            InputError: if there is no such prompt.
        """
        number = number_of(self.model, layer)
        if number not in self.layers:
            raise LayerError(
                f"layer {layer} was not captured; captured are {spans(self.layers)}. Make the Contributions with it in layers."
            )
        return self._records[self._number(index)][number]

    def decomposition(self, layer: int) -> list[Decomposition]:
        """All vectors of a layer, one result a prompt, certified.

        Raises:
            LayerError: if the model has no such layer, or it was not kept.
        """
        return self._decomposed(self.record(layer).layer, None)

    def cells(
        self, layer: int, scope: str, cells: Sequence[tuple[int, int]], *, head: int | None = None
    ) -> Float[Tensor, "cell d_model"]:
        """The vectors `F_i(x_j)` of some cells (query, key) of the first prompt, and of no other rows.

        Args:
            layer: Layer, one that was kept.
            scope: A scope of the model's order.
            cells: Positions from 0.
            head: Only what comes through this attention head; None means everything, certified.

        Raises:
            LayerError: if the model has no such layer, or it was not kept.
            InputError: if there is no such scope, head or cell.
        """
        select_scopes(self.model.family.order, scope)
        cells = _pairs(cells, self.lengths[0])
        rows = sorted({query for query, _ in cells})
        record = self.record(layer).rows(torch.tensor(rows))
        through = record if head is None else of_heads(record, head_numbers(head, len(record.pattern), "head"))
        parts = LinearLayer(through, self._settings).parts([scope])[scope]
        if head is None:
            certify(self.model, record, {scope: parts.error(record.whole[scope])}, self._settings)
        return parts.tokens[[rows.index(query) for query, _ in cells], [key for _, key in cells]]

    def reaches(self, layer: int, index: int = 0) -> Bool[Tensor, "query key"]:
        """The cells of a layer that exist in one prompt's run: attention gives weight to the key, or it is the query's own.

        In a causal model a key after its query has none, with a sliding window also one that is too far back.

        Raises:
            LayerError: if the model has no such layer, or it was not kept.
        """
        pattern = self.record(layer, index).pattern
        own = torch.eye(pattern.shape[-1], dtype=torch.bool, device=pattern.device)
        return (pattern != 0).any(dim=0) | own

    def _number(self, index: int) -> int:
        number = whole(index)
        if number is None or not -len(self) <= number < len(self):
            raise InputError(f"index={brief(index)}: expected the number of a prompt, from 0 to {len(self) - 1}.")
        return number

    def _of_all(self, tensors: Sequence[Shaped[Tensor, "pos ..."]]) -> Shaped[Tensor, "batch pos ..."]:
        """One tensor of all prompts; of a single one it is a view, for its logits are large and often asked for."""
        self._refuse_unequal()
        return tensors[0][None] if len(tensors) == 1 else torch.stack([*tensors])

    def _refuse_unequal(self) -> None:
        if len(set(self.lengths)) > 1:
            raise InputError(
                f"the prompts have {', '.join(map(str, self.lengths))} tokens: cells of one are not those of the other. Use "
                "prompts of equally many tokens, one at a time (`prompt(0)`), or a sweep with `positions=` by name."
            )

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


def _pairs(cells: object, length: int) -> list[tuple[int, int]]:
    """Cells as pairs of positions from 0."""
    listed = several(cells)
    if not listed or not all(isinstance(cell, list | tuple) and len(cell) == 2 for cell in listed):
        raise InputError(f"cells={brief(cells)}: expected pairs of positions, [(query, key), ...].")
    return [(one_position(query, length, "query"), one_position(key, length, "key")) for query, key in listed]
