"""`contribution_maps`, `decompose` and `neurons`: exact decompositions of layers as maps, vectors or neurons.

All three run the model (bridge/runs.py) and decompose one layer at a time. `contribution_maps` keeps norms in tables and frees the
layer. `decompose` keeps all vectors of one layer. `neurons` keeps the neurons of some cells (layer/neurons.py). A decomposition
that does not sum to the model's activation is refused.
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
# Errors that are checked with a layer's tables and then dropped.
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
    """Contribution maps: the contribution of every source token to every position, by scope and layer.

    `maps[scope, layer][i, j] = ||F_i(x_j)||` is the norm of the contribution vector of token j at position i (Kobayashi et al.
    2024, eq. 7), in units of the residual stream. Contribution vectors, bias term and remainder sum to the model's own
    activation. The relative error of this sum is measured for every layer, scope and query, and is part of the result. An
    error above `rtol` raises an exception.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode, preferably without weight processing.
        input: A text, a list of texts, token ids, a tokenizer's output, or for an encoder a tuple of two sentences; for a
            vision-language model a processor's output for one prompt, whose image tokens are source tokens. Texts with equally many
            tokens run together, in causal models also those with nearly as many. Results keep the order of the list.
        layers: Layer numbers, negative ones from the end; None means all (with a `cache` of records: the cached ones).
        scopes: Names as in `tl_ffblock.layer.scopes`; None means all of the model's order.
        queries: Query positions to decompose, negative ones from the end of each sequence; None means all. The cost grows with
            their number.
        heads: Heads with maps of their own, `maps.heads`; True means all. The residual is one more channel. Over channels, vectors
            sum to the token's contribution vector. Each head costs up to as much as all else (12 heads: 5 times at 15 tokens,
            10 times at 64).
        experts: Experts of a mixture of experts with maps of their own, `maps.experts`; True means all. One more channel passes
            through no expert. All vectors of the layer are computed, and their sum is compared with the map.
        attention_mask: 1 at real tokens of a padded batch. Each sequence has the same result as without padding.
        token_type_ids: The segment of each token, for BERT.
        progress: Whether a long call shows a progress bar in a terminal or notebook.
        fwd_hooks: Hooks for this forward pass, as in `run_with_hooks`. An edit inside a block becomes its remainder. A hook sees the
            batch of a token tensor; with hooks, texts of a list run one by one.
        cache: An ActivationCache of the same forward pass, or the records of `capture`; saves the forward pass.
        method: "exact" (closed form of Integrated Gradients) or "captum" (Gauss-Legendre, slow).
        n_steps: Quadrature steps of "captum".
        value_bias: "bias" attributes b_V to the bias term (eq. 7, 21), "token" to its token.
        rtol: Largest accepted relative completeness error; None means 1e-4 for float32 models, 1e-6 for float64, 1e-2 for
            float16, 5e-2 for bfloat16 (as model or as precision).
        precision: "float64" or "float32" for the decomposition's arithmetic, in any model. None means float64 for float64
            models, else float32. "bfloat16" rounds the one large product: an approximation, in which cells change by up to 5e-3
            of their row's largest in real models.
        max_memory: Bytes, or a text such as "4GB", that the call may allocate in addition to the model. Less memory means smaller
            batches and smaller pieces of the large product; numbers change by rounding. None means the free memory.
        chunk_bytes: Deprecated, use `max_memory`: largest size of the rows of the large product at a time.

    Returns:
        One `ContributionMaps` for a text or [pos] tokens; a list of them for a list of texts or a [batch, pos] tensor.

    Raises:
        InputError: for input or options that cannot be used.
        UnsupportedModelError: for models that cannot be decomposed.
        IdentityError: if a cached activation contradicts the model's weights.
        CompletenessError: if contributions do not sum to the model's activation.
        OutOfMemoryError: if the call does not fit `max_memory`, before a forward pass.
    """
    run = open_run(model, input, layers=layers, queries=queries, unequal=True, reads_media=True, **options)
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
    """Contribution vectors of one layer, by scope: `parts.sum(1) + bias + remainder = whole`.

    `parts(scope)` is [query, key, d_model]. `contribution_maps` has the norms of these vectors.

    Args:
        model: As in `contribution_maps`.
        input: A text, a list of texts, or token ids.
        layer: One layer number, negative from the end.
        queries: Query positions to decompose, in the order of the rows; None means all.
        heads: Attention heads whose own vectors are kept too; True means all. Each needs as much memory as `parts`.
        experts: Experts of a mixture of experts whose own vectors are kept, `experts(scope)`. One more channel is what passes
            through no expert.
        attention_mask: As in `contribution_maps`.
        token_type_ids: As in `contribution_maps`.
        fwd_hooks: As in `contribution_maps`.
        cache: As in `contribution_maps`.
        method: As in `contribution_maps`.
        n_steps: As in `contribution_maps`.
        value_bias: As in `contribution_maps`.
        rtol: As in `contribution_maps`.
        precision: As in `contribution_maps`.

    Returns:
        One `Decomposition` for a text or [pos] tokens; a list of them for a list of texts or a [batch, pos] tensor.

    Raises:
        InputError: for input or options that cannot be used, such as several layers.
        FFBlockError: all other errors of `contribution_maps`.
    """
    run = open_run(model, input, layers=[operator.index(layer)], queries=queries, reads_media=True, **options)
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
    """Neurons of a layer's feed-forward: their signed shares of the contribution of token `key` to position `query`.

    `F_i(x_j) = sum_n m_n(j) v_n` at the feed-forward's output (Kobayashi et al. 2024, eq. 12-14, by neuron). v_n is neuron n's
    value, its row of W_out; m_n(j) is the token's contribution to its activation. A neuron's share is `m_n(j) <v_n, u>` with u
    the direction of `F_i(x_j)`. Shares sum to the norm that `contribution_maps` has in this cell, in units of the residual
    stream.

    Args:
        model: As in `contribution_maps`.
        input: A text, a list of texts, or token ids.
        layer: One layer number, negative from the end.
        query: Query positions (destinations), or names of `positions`.
        key: Key positions (sources), or names of `positions`; None means all.
        k: Number of neurons per cell in tables; the result has all neurons.
        positions: Names that align prompts of a list, each one position for all or one per prompt: {"IO": [4, 2], "END": -1}.
        attention_mask: As in `contribution_maps`.
        token_type_ids: As in `contribution_maps`.
        fwd_hooks: As in `contribution_maps`.
        cache: As in `contribution_maps`.
        method: As in `contribution_maps`.
        n_steps: As in `contribution_maps`.
        value_bias: As in `contribution_maps`.
        rtol: As in `contribution_maps`.
        precision: As in `contribution_maps`.

    Returns:
        One `NeuronShares` for a text or [pos] tokens; a list of them for a list of texts or a [batch, pos] tensor. Activations
        and shares are those of every neuron; in a mixture of experts, of the experts to which a query is routed.

    Raises:
        InputError: for input, positions or options that cannot be used.
        UnsupportedModelError: if the model's layers have no feed-forward.
        CompletenessError: if contributions do not sum to the model's activation, or shares of neurons to the norm.
    """
    whole_number(k, "k", at_least=1)
    run = open_run(model, input, layers=[operator.index(layer)], reads_media=True, **options)
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
    """Numbers of the heads with maps of their own.

    Raises:
        InputError: if there is no such head, if layers have different numbers of heads, or if method is "captum".
    """
    heads = () if asked is False else head_numbers(asked, run.model.heads_of(run.layers))
    if heads:
        refuse_captum(run.settings)
    return heads


def experts_of_run(run: Run, asked: AskedHeads) -> tuple[int, ...]:
    """Numbers of the experts with maps of their own: those of a layer's router, then a shared one.

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
    """Refuse a layer whose contributions do not sum to the model's activation.

    Args:
        model: The model, for the error.
        layer: Layer number.
        queries: Positions of the rows.
        completeness: Relative completeness error by scope.
        settings: Settings with the tolerance.

    Raises:
        CompletenessError: with layer, scope, query and error.
    """
    for scope, errors in completeness.items():
        worst = int(errors.argmax())
        error = float(errors[worst])
        if not error <= settings.rtol:
            raise CompletenessError(
                f"{model.name}, layer {layer}, scope {scope}: contributions and bias differ from the model's own activation by "
                f"{error:.1e} of its norm at query {queries[worst]} (tolerance {settings.rtol:.0e}). "
                "Use a higher rtol or a float32 model for half precision or very large activations."
            )


def certify_heads(
    model: Model,
    layer: int,
    errors_of_cell: Mapping[str, Float[Tensor, " channel"]],
    heads: Sequence[int],
    settings: Settings,
) -> None:
    """Refuse norms by head that differ from those of vectors, in the one cell that is computed both ways.

    Args:
        model: The model, for the error.
        layer: Layer number.
        errors_of_cell: Errors by scope and channel; the residual is last.
        heads: The heads of the other channels.
        settings: Settings with the tolerance.

    Raises:
        CompletenessError: with layer, scope, channel and error.
    """
    for scope, errors in errors_of_cell.items():
        for channel, error in zip(channel_names(heads), errors.tolist(), strict=True):
            _refuse_other_norms(model, layer, scope, f"{channel} to the first query", error, settings)


def _refuse_other_norms(model: Model, layer: int, scope: str, of: str, error: float, settings: Settings) -> None:
    if not error <= settings.rtol:
        raise CompletenessError(
            f"{model.name}, layer {layer}, scope {scope}: norms of contributions of {of} differ from those of their "
            f"vectors by {error:.1e} of the query's largest (tolerance {settings.rtol:.0e}). This is a fault of tl_ffblock: please "
            'report it. Use method="captum", which computes norms in another way.'
        )


Check: TypeAlias = Callable[[Mapping[Any, Tensor]], Mapping[Any, Tensor]]
_HELD_BYTES = 2**28
"""Size of tables of several layers on an accelerator before they are copied to the CPU."""


def _unchecked(tables: Mapping[Any, Tensor]) -> Mapping[Any, Tensor]:
    return tables


class LayerTables:
    """Tables of every sequence, [layer ...].

    Sequences of one batch are stored together until the last layer, which saves an operation per sequence and layer.
    """

    def __init__(self, layers: Sequence[int]) -> None:
        self._layers = tuple(layers)
        self._held: dict[tuple[int, ...], dict[Hashable, Tensor]] = {}
        """By batch of sequences: tables [layer sequence ...]."""
        self._filled: dict[tuple[int, ...], list[int]] = {}
        """Layers stored so far; batches may differ between layers."""
        self._waiting: list[tuple[int, tuple[int, ...], Mapping[Hashable, Tensor], Check]] = []

    def keep(
        self, layer: int, numbers: tuple[int, ...], tables: Mapping[Any, Tensor], check: Check = _unchecked
    ) -> None:
        """Add one layer of some sequences, tables [sequence ...].

        Args:
            layer: Layer number.
            numbers: Numbers of the sequences.
            tables: Tables by key. On an accelerator they stay there up to `_HELD_BYTES`, since each copy waits for the device.
            check: Called with the tables on the CPU; returns those to store.
        """
        self._waiting.append((layer, numbers, tables, check))
        held = [table for _, _, waiting, _ in self._waiting for table in waiting.values()]
        if held[-1].device.type == "cpu" or sum(table.nbytes for table in held) > _HELD_BYTES:
            self.fetch()

    def fetch(self) -> None:
        """Copy tables from the accelerator to the CPU, and check them."""
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
        """Tables [layer ...] of one sequence, as copies."""
        self.fetch()
        first, *others = (numbers for numbers in self._held if number in numbers)
        held = self._held[first]
        if first == (number,) and not others:
            return {key: table[:, 0] for key, table in held.items()}
        tables = {}
        for key, table in held.items():
            shapes = (self._held[numbers][key].shape[2:] for numbers in (first, *others))
            # Tables of a batch that was lengthened have rows and keys after this sequence's end, those of the sequence alone do not.
            own = (slice(None), *(slice(min(sizes)) for sizes in zip(*shapes, strict=True)))
            tables[key] = table[:, first.index(number)][own].clone()
            for numbers in others:
                rows = self._filled[numbers]
                tables[key][rows] = self._held[numbers][key][:, numbers.index(number)][own][rows]
        return tables


class MapTables:
    """Norms of layer records, collected in tables of results.

    Tables are allocated for all layers at the first one: no table of a long sequence is stored twice.
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
        # One layer per call, chosen by the tokens. In every layer, the check would be an eighth of a short call's operations.
        self._compared = run.layers[int(run.sequences[0].tokens.sum()) % len(run.layers)]
        """The layer whose norms are compared with those of vectors."""

    def __call__(self, records: Mapping[int, LayerRecord]) -> None:
        """Certify the norms of one layer and store them; records are dropped."""
        settings, products = self.run.settings, self.run.model.memory.products
        for stack in stacks(records, self._buffers, settings):
            layer, norms = stack.record.layer, norms_of_stack(stack, settings, self.scopes, self._buffers, products)
            found = {name: getattr(norms, name) for name in TABLES}
            # A source token that many queries attend to, also in a causal model: half way to the last query.
            key = stack.positions[-1] // 2
            if settings.method != "captum" and layer == self._compared:  # norms of "captum" are computed from vectors
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
        """Tables [sequence channel query key] of the chosen experts, and the error of the sum over all experts."""
        if stack.record.routing is None:  # a dense layer: the last channel, which passes through no expert, has all
            before = (0, 0, 0, 0, len(self.experts), 0)
            return {_EXPERTS: {scope: pad(table[:, None], before) for scope, table in values.items()}}
        of_one = {scope: table[0] for scope, table in values.items()}  # layers of experts are never stacked
        norms, errors = expert_norms(stack.record, self.run.settings, of_one)
        kept = {scope: table[None, [*self.experts, -1]] for scope, table in norms.items()}
        return {_EXPERTS: kept, _OF_EXPERTS: {scope: error[None] for scope, error in errors.items()}}

    def _certified(
        self, layer: int, numbers: tuple[int, ...], key: int, tables: Mapping[tuple[str, str], Tensor]
    ) -> Mapping[tuple[str, str], Tensor]:
        """Tables of a layer of some sequences on the CPU, without those that only serve checks."""
        run, settings = self.run, self.run.settings
        named = {name: {scope: tables[of, scope] for of, scope in tables if of == name} for name, _ in tables}
        queries = [run.sequences[number].ascending for number in numbers]
        # NaN must fail too: Python's max may skip it.
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
        """One result per sequence, in the order of the input."""
        return [self._result(number) for number in range(len(self.run.sequences))]

    def _result(self, number: int) -> ContributionMaps:
        run, sequence = self.run, self.run.sequences[number]
        held, order = self._tables.of_sequence(number), sequence.order
        in_order = order.tolist() == list(range(len(order)))
        # A sequence in a batch with a longer one has more rows and keys in its tables than tokens.
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
        ("shares of neurons differ from the contribution's norm", float(of_row.share_errors.max())),
        ("contributions of tokens and biases differ from the neurons' activations", of_row.coefficient_error),
    ):
        if not error <= settings.rtol:
            raise CompletenessError(
                f"{model.name}, layer {record.layer}, query {int(record.queries[0])}: {what} by {error:.1e} (tolerance "
                f"{settings.rtol:.0e}). Use a higher rtol or a float32 model for half precision or very large activations."
            )
