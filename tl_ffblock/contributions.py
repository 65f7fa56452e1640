"""A model and an input -> `ContributionMaps` or `Decomposition`.

Both open a run (bridge/runs.py) and take its layers one by one: as norms, which go into the result's tables while the layer is
forgotten, or as all vectors of one layer. What does not sum up is refused.
"""

import operator
from collections.abc import Hashable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, SupportsIndex, Unpack, overload

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock._version import __version__
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.runs import DEFAULTS, CallOptions, Ids, Layers, MapOptions, Run, Texts, Tokens, open_run
from tl_ffblock.errors import CompletenessError
from tl_ffblock.layer.fast.buffers import Buffers, Stack, stacks
from tl_ffblock.layer.fast.norms import LayerNorms, errors_of_cell, errors_of_column, norms_of_stack
from tl_ffblock.layer.heads import AskedHeads, channel_names, head_norms, head_numbers, refuse_captum, with_heads
from tl_ffblock.layer.linear import Decomposition, decompose_record
from tl_ffblock.layer.positions import Positions
from tl_ffblock.layer.records import LayerRecord, Settings
from tl_ffblock.layer.scopes import select_scopes
from tl_ffblock.progress import Progress
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.tables import TABLES, HeadTable, ScopeTable
from tl_ffblock.signatures import spelled_out

_HEADS = "heads"


@overload
def contribution_maps(
    model: Any,
    input: str | Ids,
    *,
    layers: Layers = ...,
    scopes: Sequence[str] | str | None = ...,
    queries: Positions = ...,
    heads: AskedHeads = ...,
    progress: bool = ...,
    **options: Unpack[MapOptions],
) -> ContributionMaps: ...
@overload
def contribution_maps(
    model: Any,
    input: Texts,
    *,
    layers: Layers = ...,
    scopes: Sequence[str] | str | None = ...,
    queries: Positions = ...,
    heads: AskedHeads = ...,
    progress: bool = ...,
    **options: Unpack[MapOptions],
) -> list[ContributionMaps]: ...
@overload
def contribution_maps(
    model: Any,
    input: Tokens,
    *,
    layers: Layers = ...,
    scopes: Sequence[str] | str | None = ...,
    queries: Positions = ...,
    heads: AskedHeads = ...,
    progress: bool = ...,
    **options: Unpack[MapOptions],
) -> Any: ...
@spelled_out(MapOptions, DEFAULTS)
def contribution_maps(
    model: Any,
    input: str | Texts | Ids | Tokens,
    *,
    layers: Layers = None,
    scopes: Sequence[str] | str | None = None,
    queries: Positions = None,
    heads: AskedHeads = False,
    progress: bool = True,
    **options: Unpack[MapOptions],
) -> ContributionMaps | list[ContributionMaps]:
    """How much every source token contributes to every position's vector, by scope and layer.

    `maps[scope, layer][i, j] = ||F_i(x_j)||`, the norm of the vector that token j brings into position i
    (Kobayashi et al. 2024, eq. 7; residual-stream units). Parts, bias and remainder sum to the
    model's own tensor; the relative error of that sum is measured for every layer, scope and
    query, is part of the result, and above `rtol` there is no result.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode, better without
            weight processing.
        input: A text, a list of texts, token ids, a tokenizer's output, or for an encoder a tuple of two sentences. Texts of a list
            that have equally many tokens run together, in causal models those of nearly as many; results come in the order given.
        layers: Layer numbers, negative ones from the end; None means all (of a `cache` of records: those captured).
        scopes: Names as in `tl_ffblock.layer.scopes`; None means all of the model's order.
        queries: Positions to write as sums, negative ones from the end of each sequence; None means
            all. Cost grows with their number.
        heads: Heads with maps of their own, `maps.heads`, True for all; the residual is one more channel, and as vectors
            all sum to the token's part. Each costs up to as much as all else (12: 5 times at 15 tokens, 10 at 64).
        progress: Whether a long call shows a bar at a terminal or in a notebook.
        attention_mask: 1 at real tokens of a padded batch. The result is that of each sequence alone.
        token_type_ids: The segment of each token, for BERT.
        fwd_hooks: Hooks for this run, as in `run_with_hooks`. An edit inside a block becomes its remainder. A hook sees
            the batch of a token tensor; texts of a list run one by one under hooks, whatever their lengths.
        cache: An ActivationCache of the same run, or the records of `capture`; saves the forward pass.
        method: "exact" (closed form of Integrated Gradients) or "captum" (Gauss-Legendre, slow).
        n_steps: Quadrature steps of "captum".
        value_bias: "bias" gives b_V to the bias part (eq. 7, 21), "token" to its token.
        rtol: Largest relative completeness error accepted; None means 1e-4 for float32 models,
            1e-6 for float64, 1e-2 for float16, 5e-2 for bfloat16 (as model or as precision).
        precision: "float64" and "float32" set the decomposition's arithmetic, whatever the model's; None
            means float64 for float64 models, else float32. "bfloat16" rounds the one large product
            (an approximation: cells move by up to 5e-3 of their row's largest on real models).
        chunk_bytes: What the rows of that product may occupy at a time; None means 24 MB on a CPU, 1 GB
            on a GPU.

    Returns:
        One result for a text or [pos] tokens; a list for a list of texts or a [batch, pos] tensor.

    Raises:
        InputError: for input or options that cannot be used.
        UnsupportedModelError: for models that cannot be certified.
        IdentityError: if a captured tensor contradicts the model's weights.
        CompletenessError: if parts do not sum to the model's tensor.
    """
    run = open_run(model, input, layers=layers, queries=queries, unequal=True, **options)
    with Progress(run.model.name, len(run.batches) * len(run.layers), "layers", shown=progress) as bar:
        tables = MapTables(run, scopes, heads, bar)
        run.deliver(tables)
    return run.as_asked(tables.results())


@overload
def decompose(
    model: Any,
    input: str | Ids,
    *,
    layer: SupportsIndex,
    queries: Positions = ...,
    heads: AskedHeads = ...,
    **options: Unpack[CallOptions],
) -> Decomposition: ...
@overload
def decompose(
    model: Any,
    input: Texts,
    *,
    layer: SupportsIndex,
    queries: Positions = ...,
    heads: AskedHeads = ...,
    **options: Unpack[CallOptions],
) -> list[Decomposition]: ...
@overload
def decompose(
    model: Any,
    input: Tokens,
    *,
    layer: SupportsIndex,
    queries: Positions = ...,
    heads: AskedHeads = ...,
    **options: Unpack[CallOptions],
) -> Any: ...
@spelled_out(CallOptions, DEFAULTS)
def decompose(
    model: Any,
    input: str | Texts | Ids | Tokens,
    *,
    layer: SupportsIndex,
    queries: Positions = None,
    heads: AskedHeads = False,
    **options: Unpack[CallOptions],
) -> Decomposition | list[Decomposition]:
    """All vectors of one layer, scope by scope: `parts.sum(1) + bias + remainder = whole`.

    Holds [query, key, d_model] for every scope. The norms of these vectors are what `contribution_maps` gives.

    Args:
        model: As in `contribution_maps`.
        input: A text, a list of texts, or token ids.
        layer: One layer number, negative from the end.
        queries: Positions to write as sums, in the order of the rows; None means all.
        heads: Attention heads whose own vectors are kept too, True for all; each takes the memory of all parts.
        **options: As in `contribution_maps`: attention_mask, token_type_ids, fwd_hooks, cache, method, n_steps,
            value_bias, rtol, precision.

    Returns:
        One result for a text or [pos] tokens; a list for a list of texts or a [batch, pos] tensor.

    Raises:
        InputError: for input or options that cannot be used, several layers among them.
        FFBlockError: whatever else `contribution_maps` raises.
    """
    run = open_run(model, input, layers=[operator.index(layer)], queries=queries, **options)
    run.settings.refuse_rounding("vectors")
    numbers = heads_of_run(run, heads)

    def measure(record: LayerRecord, number: int) -> Decomposition:
        rows = record.rows(run.sequences[number].order.to(record.queries.device))
        plain = decompose_record(rows, run.settings)
        certify(run.model, rows, {scope: plain.completeness(scope) for scope in plain.scopes}, run.settings)
        result = with_heads(plain, rows, run.settings, numbers)
        if numbers:
            by_head = {scope: result.heads(scope).norm(dim=-1)[None] for scope in result.scopes}
            certify_heads(run.model, Stack((number,), rows), by_head, numbers, run.settings)
        return result

    return run.as_asked(result for layers in run.by_layer(measure) for result in layers.values())


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


class LayerTables:
    """Collects every table of every sequence with an axis of layers in front.

    Sequences that come together are kept together until the last layer has come: nothing is done per sequence and layer.
    """

    def __init__(self, layers: Sequence[int]) -> None:
        self._layers = tuple(layers)
        self._held: dict[tuple[int, ...], dict[Hashable, Tensor]] = {}
        """By the sequences that came together, tables [layer sequence ...]."""
        self._filled: dict[tuple[int, ...], list[int]] = {}
        """Rows of these tables that are there: a layer may come with other sequences together than the next."""

    def keep(self, layer: int, numbers: tuple[int, ...], tables: Mapping[Hashable, Tensor]) -> None:
        """One layer of some sequences, tables [sequence ...]."""
        row, held = self._layers.index(layer), self._held.setdefault(numbers, {})
        for key, table in tables.items():
            if key not in held:
                held[key] = table.new_empty(len(self._layers), *table.shape, device="cpu")
            held[key][row] = table
        self._filled.setdefault(numbers, []).append(row)

    def of_sequence(self, number: int) -> dict[Hashable, Tensor]:
        """The tables [layer ...] of one sequence, in memory of its own."""
        first, *others = (numbers for numbers in self._held if number in numbers)
        held = self._held[first]
        if first == (number,) and not others:
            return {key: table[:, 0] for key, table in held.items()}
        tables = {key: table[:, first.index(number)].clone() for key, table in held.items()}
        for numbers in others:
            rows = self._filled[numbers]
            for key, table in self._held[numbers].items():
                tables[key][rows] = table[rows, numbers.index(number)]
        return tables


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
        settings = self.run.settings
        # Asked so that NaN fails too: Python's max may pass it by.
        if not all(bool((errors <= settings.rtol).all()) for errors in norms.completeness.values()):
            for index, number in enumerate(stack.numbers):
                n_queries = len(records[number].queries)
                errors = {scope: table[index, :n_queries] for scope, table in norms.completeness.items()}
                certify(self.run.model, records[number], errors, settings)
        if settings.method == "captum" or stack.record.layer != self._compared:
            return  # norms of "captum" are taken of vectors
        # A source token that many queries see, in a causal model too: half way before the last of them.
        key = int(stack.record.queries[len(stack.record.queries) // stack.n_sequences - 1]) // 2
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


def _provenance(model: Model, settings: Settings) -> dict[str, str]:
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
