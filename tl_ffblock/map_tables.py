"""The layers of a run, received one by one, as certified norms in the tables of results."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock._version import __version__
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.runs import Run
from tl_ffblock.errors import CompletenessError
from tl_ffblock.layer.fast.buffers import Buffers, Stack, stacks
from tl_ffblock.layer.fast.norms import LayerNorms, errors_of_cell, errors_of_column, norms_of_stack
from tl_ffblock.layer.heads import AskedHeads, channel_names, head_norms, head_numbers, refuse_captum
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import select_scopes
from tl_ffblock.layer.settings import Settings
from tl_ffblock.layer_tables import LayerTables
from tl_ffblock.progress import Progress
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.tables import TABLES, HeadTable, ScopeTable

_HEADS = "heads"


def heads_of_run(run: Run, asked: AskedHeads) -> tuple[int, ...]:
    """The heads asked for, of a model and with settings that can give them.

    Raises:
        InputError: if there is no such head, or the run is one of captum's.
    """
    heads = head_numbers(asked, run.model.n_heads)
    if heads:
        refuse_captum(run.settings)
    return heads


def certify(
    model: Model, record: LayerRecord, completeness: Mapping[str, Float[Tensor, " query"]], settings: Settings
) -> None:
    """Refuse a layer whose parts do not sum to the model's tensor.

    Args:
        model: For the error's text.
        record: The layer's record, of the rows that were decomposed.
        completeness: Relative completeness error by scope.
        settings: The tolerance.

    Raises:
        CompletenessError: naming layer, scope, query and error.
    """
    for scope, errors in completeness.items():
        worst = int(errors.argmax())
        error = float(errors[worst])
        if not error <= settings.rtol:
            raise CompletenessError(
                f"{model.name}, layer {record.layer}, scope {scope}: parts and bias miss the model's own tensor by "
                f"{error:.1e} of its norm at query {int(record.queries[worst])} (tolerance {settings.rtol:.0e}). "
                "No map is made. Half-precision or very large activations may need a higher rtol or a float32 model."
            )


def certify_heads(
    model: Model,
    stack: Stack,
    by_head: Mapping[str, Float[Tensor, "sequence channel query key"]],
    heads: Sequence[int],
    settings: Settings,
) -> None:
    """Refuse norms by head that are not those of vectors, in the cell that is made once more.

    Args:
        model: For the error's text.
        stack: One layer of some sequences.
        by_head: Their norms by scope and channel, the residual's last.
        heads: The heads that the other channels are.
        settings: The tolerance.

    Raises:
        CompletenessError: naming layer, scope, channel and error.
    """
    for scope, errors in errors_of_cell(stack, by_head, heads, settings).items():
        for channel, error in zip(channel_names(heads), errors.tolist(), strict=True):
            _refuse_other_norms(model, stack, scope, f"{channel} to the first query", error, settings)


def _refuse_other_norms(model: Model, stack: Stack, scope: str, of: str, error: float, settings: Settings) -> None:
    if not error <= settings.rtol:
        raise CompletenessError(
            f"{model.name}, layer {stack.record.layer}, scope {scope}: norms of contributions of {of} differ from those of their "
            f"vectors by {error:.1e} of the query's largest (tolerance {settings.rtol:.0e}). No map is made. Please report this "
            'fault of tl_ffblock; method="captum" takes another way.'
        )


class MapTables:
    """Receives records, turns them into norms, and norms into the tables of results.

    The tables hold all layers from the first on: of a long sequence nothing is held twice.
    """

    def __init__(
        self,
        run: Run,
        scopes: Sequence[str] | str | None,
        heads: AskedHeads = False,
        progress: Progress | None = None,
    ) -> None:
        self.run = run
        self.scopes = select_scopes(run.model.family.order, scopes)
        self.heads = heads_of_run(run, heads)
        self._progress = progress
        self._buffers = Buffers()
        self._tables = LayerTables(run.layers)
        # A layer per call, another one for other tokens: in every layer it would be an eighth of a short call's operations.
        self._compared = run.layers[int(run.sequences[0].tokens.sum()) % len(run.layers)]
        """The layer whose norms are compared with those of vectors."""

    def __call__(self, records: Mapping[int, LayerRecord]) -> None:
        """One layer: its norms are certified and kept, the records are not."""
        settings, products = self.run.settings, self.run.model.memory.products
        for stack in stacks(records, self._buffers, settings):
            norms = norms_of_stack(stack, settings, self.scopes, self._buffers, products)
            self._certify(stack, norms, records)
            tables: dict[Hashable, Tensor] = {
                (name, scope): table for name in TABLES for scope, table in getattr(norms, name).items()
            }
            if self.heads:
                by_head = head_norms(stack, settings, self.scopes, self.heads, buffers=self._buffers, products=products)
                certify_heads(self.run.model, stack, by_head, self.heads, settings)
                tables |= {(_HEADS, scope): table for scope, table in by_head.items()}
            self._tables.keep(stack.record.layer, stack.numbers, tables)
        if self._progress is not None:
            self._progress.step()

    def _certify(self, stack: Stack, norms: LayerNorms, records: Mapping[int, LayerRecord]) -> None:
        """Refuse norms whose parts do not sum to the model's tensor, or that are not those of vectors."""
        settings = self.run.settings
        # Asked so that NaN fails too: Python's max may pass it by.
        if not all(bool((errors <= settings.rtol).all()) for errors in norms.completeness.values()):
            for index, number in enumerate(stack.numbers):
                n_queries = len(records[number].queries)
                errors = {scope: table[index, :n_queries] for scope, table in norms.completeness.items()}
                certify(self.run.model, records[number], errors, settings)
        if settings.method == "captum" or stack.record.layer != self._compared:
            return  # norms of "captum" are taken of vectors
        key = _checked_key(stack)
        for scope, table in errors_of_column(stack, norms.values, key, settings).items():
            if not bool((table <= settings.rtol).all()):
                for index, number in enumerate(stack.numbers):
                    worst = float(table[index, : len(records[number].queries)].max())
                    _refuse_other_norms(self.run.model, stack, scope, f"token {key}", worst, settings)

    def results(self) -> list[ContributionMaps]:
        """One result a sequence, in the order of the input."""
        return [self._result(number) for number in range(len(self.run.sequences))]

    def _result(self, number: int) -> ContributionMaps:
        run, sequence = self.run, self.run.sequences[number]
        held, order = self._tables.of_sequence(number), sequence.order
        in_order = order.tolist() == list(range(len(order)))
        # A sequence that ran with a longer one has more rows and keys in its tables than tokens.
        n_rows, n_keys = len(sequence.ascending), len(sequence.tokens)

        def tables(name: str, axis: int) -> dict[str, Tensor]:
            own = (slice(None),) * axis + (slice(n_rows), slice(n_keys))
            rows = {scope: held[name, scope] for scope in self.scopes}
            rows = {scope: table[own[: table.ndim]].contiguous() for scope, table in rows.items()}
            return rows if in_order else {scope: table.index_select(axis, order) for scope, table in rows.items()}

        by_name: dict[str, Any] = {name: ScopeTable(tables(name, 1), run.layers) for name in TABLES}
        if self.heads:
            by_name["heads"] = HeadTable(tables(_HEADS, 2), run.layers, channel_names(self.heads))
        return ContributionMaps(
            tokens=sequence.labels,
            layers=run.layers,
            order=run.model.family.order,
            queries=sequence.queries,
            causal=run.model.family.causal,
            model=run.model.name,
            provenance=_provenance(run.model, run.settings),
            **by_name,
        )


def _checked_key(stack: Stack) -> int:
    """A source token that many queries see, in a causal model too: half way before the last of them."""
    return int(stack.record.queries[len(stack.record.queries) // stack.n_sequences - 1]) // 2


def _provenance(model: Model, settings: Settings) -> dict[str, str]:
    from importlib.metadata import version

    return {
        "tl_ffblock": __version__,
        "transformer_lens": version("transformer-lens"),
        "torch": str(torch.__version__),
        "api": model.api,
        "family": model.family.name,
        "fingerprint": model.fingerprint,
        "weights": "processed" if model.is_processed else "raw",
        "precision": settings.precision,
        "method": settings.method if settings.method == "exact" else f"captum, {settings.n_steps} steps",
        "value_bias": settings.value_bias,
        "rtol": f"{settings.rtol:g}",
    }
