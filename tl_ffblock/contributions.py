"""A model and an input -> `ContributionMaps`, `Decomposition` or `NeuronShares`.

All three open a run (bridge/runs.py) and take its layers one by one: as norms, which go into the result's tables while the layer
is forgotten, as all vectors of one layer, or as the shares of a layer's neurons in some cells (layer/neurons.py). What does not
sum up is refused.
"""

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any, SupportsIndex, TypeAlias, Unpack, overload

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from tl_ffblock._version import __version__
from tl_ffblock.bridge.memory import Asked, fitted
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.runs import DEFAULTS, CallOptions, Ids, Layers, MapOptions, Run, Texts, Tokens, open_run
from tl_ffblock.errors import CompletenessError, InputError, brief
from tl_ffblock.layer.fast.buffers import Buffers, Stack, stacks
from tl_ffblock.layer.fast.vector_norms import errors_of_cell, errors_of_column, norms_of_stack
from tl_ffblock.layer.heads import (
    AskedHeads,
    channel_names,
    expert_names,
    expert_norms,
    head_norms,
    head_numbers,
    refuse_captum,
    with_experts,
    with_heads,
)
from tl_ffblock.layer.linear import Decomposition, decompose_record
from tl_ffblock.layer.neurons import RowNeurons, neuron_name, neurons_of_row
from tl_ffblock.layer.positions import ChosenPositions, NamedPositions, Positions, chosen_positions, whole_number
from tl_ffblock.layer.records import LayerRecord, Settings, feed_forwards, on_cpu
from tl_ffblock.layer.scopes import feed_step, select_scopes
from tl_ffblock.progress import Progress
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.neuron_table import NeuronShares
from tl_ffblock.results.tables import TABLES, ExpertTable, HeadTable, ScopeTable
from tl_ffblock.signatures import spelled_out

_HEADS, _EXPERTS = "heads", "experts"
# Errors that are checked with a layer's tables and not kept.
_OF_COLUMN, _OF_CELL, _OF_EXPERTS = "errors of a column", "errors of a cell", "errors of the sum over experts"
_ALL_EXPERTS = "all experts together"


@overload
def contribution_maps(
    model: Any,
    input: str | Ids,
    *,
    layers: Layers = ...,
    scopes: Sequence[str] | str | None = ...,
    queries: Positions = ...,
    heads: AskedHeads = ...,
    experts: AskedHeads = ...,
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
    experts: AskedHeads = ...,
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
    experts: AskedHeads = ...,
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
    experts: AskedHeads = False,
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
        experts: Experts of a mixture of experts with maps of their own, `maps.experts`, True for all; one more channel goes through
            no expert. All vectors of the layer are made for them, and their sum is compared with the map.
        attention_mask: 1 at real tokens of a padded batch. The result is that of each sequence alone.
        token_type_ids: The segment of each token, for BERT.
        progress: Whether a long call shows a bar at a terminal or in a notebook.
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
        max_memory: Bytes, or a text such as "4GB", that the call may hold over the model: fewer texts run together, and the large
            product in smaller pieces. Numbers move by rounding. None means what is free, with the pieces of the device.
        chunk_bytes: Deprecated, see `max_memory`: what the rows of the large product may occupy at a time.

    Returns:
        One result for a text or [pos] tokens; a list for a list of texts or a [batch, pos] tensor.

    Raises:
        InputError: for input or options that cannot be used.
        UnsupportedModelError: for models that cannot be certified.
        IdentityError: if a captured tensor contradicts the model's weights.
        CompletenessError: if parts do not sum to the model's tensor.
        OutOfMemoryError: if no pieces fit `max_memory`, before anything runs.
    """
    run = open_run(model, input, layers=layers, queries=queries, unequal=True, **options)
    n_scopes, n_heads = len(select_scopes(run.model.family.order, scopes)), len(heads_of_run(run, heads))
    asked = Asked("contribution_maps", n_scopes=n_scopes, channels=n_heads + 1 if n_heads else 0)
    run, _ = fitted(run, asked, options.get("max_memory"))
    with Progress(run.model.name, len(run.batches) * len(run.layers), "layers", shown=progress) as bar:
        tables = MapTables(run, scopes, heads, bar, experts)
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
    experts: AskedHeads = ...,
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
    experts: AskedHeads = ...,
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
    experts: AskedHeads = ...,
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
    experts: AskedHeads = False,
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
        experts: Likewise experts of a mixture of experts, `experts(scope)`, and what goes through none.
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
    numbers, chosen = heads_of_run(run, heads), experts_of_run(run, experts)

    def measure(record: LayerRecord, number: int) -> Decomposition:
        rows = record.rows(run.sequences[number].order.to(record.queries.device))
        plain = decompose_record(rows, run.settings)
        errors = {scope: plain.completeness(scope) for scope in plain.scopes}
        certify(run.model, record.layer, plain.queries, errors, run.settings)
        result = with_heads(plain, rows, run.settings, numbers)
        if chosen:
            result, missed = with_experts(result, rows, run.settings, chosen)
            for scope, of_query in missed.items():
                error = float(of_query.max())
                _refuse_other_norms(run.model, record.layer, scope, _ALL_EXPERTS, error, run.settings)
        if numbers:
            by_head = {scope: result.heads(scope).norm(dim=-1)[None] for scope in result.scopes}
            stack = Stack((number,), rows, plain.queries)
            certify_heads(
                run.model, record.layer, errors_of_cell(stack, by_head, numbers, run.settings), numbers, run.settings
            )
        return result

    return run.as_asked(result for layers in run.by_layer(measure) for result in layers.values())


@overload
def neurons(
    model: Any,
    input: str | Ids,
    *,
    layer: SupportsIndex,
    query: ChosenPositions,
    key: ChosenPositions = ...,
    k: int = ...,
    positions: NamedPositions | None = ...,
    **options: Unpack[CallOptions],
) -> NeuronShares: ...
@overload
def neurons(
    model: Any,
    input: Texts,
    *,
    layer: SupportsIndex,
    query: ChosenPositions,
    key: ChosenPositions = ...,
    k: int = ...,
    positions: NamedPositions | None = ...,
    **options: Unpack[CallOptions],
) -> list[NeuronShares]: ...
@overload
def neurons(
    model: Any,
    input: Tokens,
    *,
    layer: SupportsIndex,
    query: ChosenPositions,
    key: ChosenPositions = ...,
    k: int = ...,
    positions: NamedPositions | None = ...,
    **options: Unpack[CallOptions],
) -> Any: ...
@spelled_out(CallOptions, DEFAULTS)
def neurons(
    model: Any,
    input: str | Texts | Ids | Tokens,
    *,
    layer: SupportsIndex,
    query: ChosenPositions,
    key: ChosenPositions = None,
    k: int = 20,
    positions: NamedPositions | None = None,
    **options: Unpack[CallOptions],
) -> NeuronShares | list[NeuronShares]:
    """Which neurons of a layer's feed-forward carry the contribution of token `key` to position `query`.

    `F_i(x_j) = sum_n m_n(j) v_n` at the feed-forward's output (eq. 12-14, by neuron): v_n is neuron n's value, its row of W_out,
    m_n(j) the token's share of its coefficient. Along the direction of `F_i(x_j)` each neuron has a signed share, and they sum to
    the norm that `contribution_maps` has in this cell.

    Args:
        model: As in `contribution_maps`.
        input: A text, a list of texts, or token ids.
        layer: One layer number, negative from the end.
        query: Positions that receive, or names of `positions`.
        key: Positions that give, likewise; None means all.
        k: How many neurons of a cell tables name; the result holds all.
        positions: Names that align prompts of a list, each one position for all or one a prompt: {"IO": [4, 2], "END": -1}.
        **options: As in `contribution_maps`: attention_mask, token_type_ids, fwd_hooks, cache, method, n_steps,
            value_bias, rtol, precision.

    Returns:
        One result for a text or [pos] tokens; a list for a list of texts or a [batch, pos] tensor. Coefficients and shares
        are of every neuron; of a mixture of experts of those experts that a query was sent to.

    Raises:
        InputError: for input, positions or options that cannot be used.
        UnsupportedModelError: if the model's layers have no feed-forward.
        CompletenessError: if parts do not sum to the model's tensor, or neurons' shares not to the norm and the coefficients.
    """
    whole_number(k, "k", at_least=1)
    run = open_run(model, input, layers=[operator.index(layer)], **options)
    run.settings.refuse_rounding("neurons")
    feed_step(run.model.family.order)
    lengths = [len(sequence.tokens) for sequence in run.sequences]
    rows, columns = (
        chosen_positions(asked, name, lengths, positions)[1] for asked, name in ((query, "query"), (key, "key"))
    )

    def measure(record: LayerRecord, number: int) -> NeuronShares:
        labels, at = run.sequences[number].labels, (rows[number], columns[number])
        return _neurons_of(run.model, record, run.settings, at, labels, k)

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


def experts_of_run(run: Run, asked: AskedHeads) -> tuple[int, ...]:
    """The experts asked for: those of a layer's router, then a shared one.

    Raises:
        InputError: if there is no such expert, or the model has none.
    """
    if asked is False:
        return ()
    layer = next((layer for layer in run.model.layers if layer.has_experts), None)
    if layer is None:
        raise InputError(f"experts={brief(asked)}: {run.model.name} has no mixture of experts. Omit experts.")
    return head_numbers(asked, len(feed_forwards(layer.read(run.settings.dtype))), "experts")


def certify(
    model: Model,
    layer: int,
    queries: Sequence[int],
    completeness: Mapping[str, Float[Tensor, " query"]],
    settings: Settings,
) -> None:
    """Refuse a layer whose parts do not sum to the model's tensor.

    Args:
        model: For the error's text.
        layer: The layer's number.
        queries: Positions of the rows that were decomposed.
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
                f"{model.name}, layer {layer}, scope {scope}: parts and bias miss the model's own tensor by "
                f"{error:.1e} of its norm at query {queries[worst]} (tolerance {settings.rtol:.0e}). "
                "No map is made. Half-precision or very large activations may need a higher rtol or a float32 model."
            )


def certify_heads(
    model: Model,
    layer: int,
    errors_of_cell: Mapping[str, Float[Tensor, " channel"]],
    heads: Sequence[int],
    settings: Settings,
) -> None:
    """Refuse norms by head that are not those of vectors, in the cell that is made once more.

    Args:
        model: For the error's text.
        layer: The layer's number.
        errors_of_cell: By scope, the residual's last.
        heads: The heads that the other channels are.
        settings: The tolerance.

    Raises:
        CompletenessError: naming layer, scope, channel and error.
    """
    for scope, errors in errors_of_cell.items():
        for channel, error in zip(channel_names(heads), errors.tolist(), strict=True):
            _refuse_other_norms(model, layer, scope, f"{channel} to the first query", error, settings)


def _refuse_other_norms(model: Model, layer: int, scope: str, of: str, error: float, settings: Settings) -> None:
    if not error <= settings.rtol:
        raise CompletenessError(
            f"{model.name}, layer {layer}, scope {scope}: norms of contributions of {of} differ from those of their "
            f"vectors by {error:.1e} of the query's largest (tolerance {settings.rtol:.0e}). No map is made. Please report this "
            'fault of tl_ffblock; method="captum" takes another way.'
        )


Check: TypeAlias = Callable[[Mapping[Any, Tensor]], Mapping[Any, Tensor]]
_HELD_BYTES = 2**28
"""What tables of several layers may occupy on an accelerator before they are brought to the CPU."""


def _unchecked(tables: Mapping[Any, Tensor]) -> Mapping[Any, Tensor]:
    return tables


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
        self._waiting: list[tuple[int, tuple[int, ...], Mapping[Hashable, Tensor], Check]] = []

    def keep(
        self, layer: int, numbers: tuple[int, ...], tables: Mapping[Any, Tensor], check: Check = _unchecked
    ) -> None:
        """One layer of some sequences, tables [sequence ...].

        Args:
            layer: The layer's number.
            numbers: The sequences' numbers.
            tables: By key; those of an accelerator stay there, up to some memory, since each copy waits for the device.
            check: Gets the tables when they are on the CPU, and gives those to keep.
        """
        self._waiting.append((layer, numbers, tables, check))
        held = [table for _, _, waiting, _ in self._waiting for table in waiting.values()]
        if held[-1].device.type == "cpu" or sum(table.nbytes for table in held) > _HELD_BYTES:
            self.fetch()

    def fetch(self) -> None:
        """Bring to the CPU, and check, what is still on an accelerator."""
        waiting, self._waiting = self._waiting, []
        there = iter(on_cpu([table for _, _, tables, _ in waiting for table in tables.values()]))
        for layer, numbers, tables, check in waiting:
            self._store(layer, numbers, check({key: next(there) for key in tables}))

    def _store(self, layer: int, numbers: tuple[int, ...], tables: Mapping[Hashable, Tensor]) -> None:
        row, held = self._layers.index(layer), self._held.setdefault(numbers, {})
        for key, table in tables.items():
            if key not in held:
                held[key] = table.new_empty(len(self._layers), *table.shape)
            held[key][row] = table
        self._filled.setdefault(numbers, []).append(row)

    def of_sequence(self, number: int) -> dict[Hashable, Tensor]:
        """The tables [layer ...] of one sequence, in memory of its own."""
        self.fetch()
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
        experts: AskedHeads = False,
    ) -> None:
        self.run = run
        self.scopes = select_scopes(run.model.family.order, scopes)
        self.heads = heads_of_run(run, heads)
        self.experts = experts_of_run(run, experts)
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
            layer, norms = stack.record.layer, norms_of_stack(stack, settings, self.scopes, self._buffers, products)
            found = {name: getattr(norms, name) for name in TABLES}
            # A source token that many queries see, in a causal model too: half way before the last of them.
            key = stack.positions[-1] // 2
            if settings.method != "captum" and layer == self._compared:  # norms of "captum" are taken of vectors
                found[_OF_COLUMN] = errors_of_column(stack, norms.values, key, settings)
            if self.heads:
                by_head = head_norms(stack, settings, self.scopes, self.heads, buffers=self._buffers, products=products)
                found |= {_HEADS: by_head, _OF_CELL: errors_of_cell(stack, by_head, self.heads, settings)}
            if self.experts:
                found |= self._by_expert(stack, norms.values)
            tables = {(name, scope): table for name, by_scope in found.items() for scope, table in by_scope.items()}
            self._tables.keep(layer, stack.numbers, tables, partial(self._certified, layer, stack.numbers, key))
        if self._progress is not None:
            self._progress.step()

    def _by_expert(self, stack: Stack, values: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
        """Tables [sequence channel query key] of the experts asked for, and of all of them the error of the sum."""
        if stack.record.routing is None:  # a dense layer among those of experts: all goes through none
            before = (0, 0, 0, 0, len(self.experts), 0)
            return {_EXPERTS: {scope: pad(table[:, None], before) for scope, table in values.items()}}
        of_one = {scope: table[0] for scope, table in values.items()}  # layers of experts are never stacked
        norms, errors = expert_norms(stack.record, self.run.settings, of_one)
        kept = {scope: table[None, [*self.experts, -1]] for scope, table in norms.items()}
        return {_EXPERTS: kept, _OF_EXPERTS: {scope: error[None] for scope, error in errors.items()}}

    def _certified(
        self, layer: int, numbers: tuple[int, ...], key: int, tables: Mapping[tuple[str, str], Tensor]
    ) -> Mapping[tuple[str, str], Tensor]:
        """The tables of a layer of some sequences, on the CPU, without those that are there to be checked."""
        run, settings = self.run, self.run.settings
        named = {name: {scope: tables[of, scope] for of, scope in tables if of == name} for name, _ in tables}
        queries = [run.sequences[number].ascending for number in numbers]
        # Asked so that NaN fails too: Python's max may pass it by.
        if not all(bool((errors <= settings.rtol).all()) for errors in named["completeness"].values()):
            for index, asked in enumerate(queries):
                errors = {scope: table[index, : len(asked)] for scope, table in named["completeness"].items()}
                certify(run.model, layer, asked, errors, settings)
        for name, of in ((_OF_COLUMN, f"token {key}"), (_OF_EXPERTS, _ALL_EXPERTS)):
            for scope, table in named.pop(name, {}).items():
                if not bool((table <= settings.rtol).all()):
                    for index, asked in enumerate(queries):
                        worst = float(table[index, : len(asked)].max())
                        _refuse_other_norms(run.model, layer, scope, of, worst, settings)
        certify_heads(run.model, layer, named.pop(_OF_CELL, {}), self.heads, settings)
        return {(name, scope): table for name, by_scope in named.items() for scope, table in by_scope.items()}

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
        if self.experts:
            by_name["experts"] = ExpertTable(tables(_EXPERTS, 2), run.layers, expert_names(self.experts))
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


def _neurons_of(
    model: Model,
    record: LayerRecord,
    settings: Settings,
    cells: tuple[Sequence[int], Sequence[int]],
    tokens: tuple[str, ...],
    k: int,
) -> NeuronShares:
    queries, keys = cells
    columns = torch.tensor(keys, device=record.resid_pre.device)
    rows = [record.rows(torch.tensor([query], device=columns.device)) for query in queries]
    scope = feed_step(record.block.order).scope
    found = [neurons_of_row(row, settings, columns) for row in rows]
    for row, of_row in zip(rows, found, strict=True):
        certify(model, row.layer, row.queries.tolist(), {scope: of_row.feed.error(row.whole[scope])}, settings)
        _refuse_wrong_sums(model, row, of_row, settings)
    union = torch.unique(torch.cat([of_row.numbers for of_row in found]))

    def stacked(name: str) -> Tensor:
        return torch.stack([_in_columns(getattr(of_row, name), of_row, union) for of_row in found]).detach().cpu()

    return NeuronShares(
        shares=stacked("shares"),
        token_shares=stacked("token_shares"),
        coefficients=stacked("coefficients"),
        bias_shares=stacked("bias_shares"),
        norms=torch.stack([of_row.norms for of_row in found]).detach().cpu(),
        share_error=torch.stack([of_row.share_errors for of_row in found]).detach().cpu(),
        coefficient_error=torch.tensor([of_row.coefficient_error for of_row in found]),
        names=tuple(neuron_name(record.block, number) for number in union.tolist()),
        layer=record.layer,
        scope=scope,
        tokens=tokens,
        queries=tuple(queries),
        keys=tuple(keys),
        model=model.name,
        k=k,
    )


def _in_columns(values: Tensor, of_row: RowNeurons, union: Int[Tensor, " neuron"]) -> Tensor:
    columns = values.new_zeros(*values.shape[:-1], len(union))
    columns[..., torch.searchsorted(union, of_row.numbers)] = values
    return columns


def _refuse_wrong_sums(model: Model, record: LayerRecord, of_row: RowNeurons, settings: Settings) -> None:
    for what, error in (
        ("neurons' shares miss the contribution's norm", float(of_row.share_errors.max())),
        ("tokens' shares miss the neurons' coefficients", of_row.coefficient_error),
    ):
        if not error <= settings.rtol:
            raise CompletenessError(
                f"{model.name}, layer {record.layer}, query {int(record.queries[0])}: {what} by {error:.1e} (tolerance "
                f"{settings.rtol:.0e}). Half-precision or very large activations may need a higher rtol or a float32 model."
            )
