"""A model and an input -> `ContributionMaps` or `Decomposition`: the two public roads.

Both open a run (bridge/runs.py) and receive its layers one by one: as norms, which go into the result's
tables while the layer is forgotten, or as all vectors of one layer. What does not sum up is refused.
"""

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex, Unpack, overload

from tl_ffblock.bridge.runs import DEFAULTS, CallOptions, Ids, Layers, MapOptions, Texts, Tokens, open_run
from tl_ffblock.layer.fast.buffers import Stack
from tl_ffblock.layer.heads import AskedHeads, with_heads
from tl_ffblock.layer.positions import Positions
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.vectors import Decomposition, decompose_record
from tl_ffblock.map_tables import MapTables, certify, certify_heads, heads_of_run
from tl_ffblock.progress import Progress
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.signatures import spelled_out


@overload
def contribution_maps(
    model: Any,
    input: str | Ids,
    *,
    layers: Layers = None,
    scopes: Sequence[str] | str | None = None,
    queries: Positions = None,
    heads: AskedHeads = False,
    progress: bool = True,
    **options: Unpack[MapOptions],
) -> ContributionMaps: ...
@overload
def contribution_maps(
    model: Any,
    input: Texts,
    *,
    layers: Layers = None,
    scopes: Sequence[str] | str | None = None,
    queries: Positions = None,
    heads: AskedHeads = False,
    progress: bool = True,
    **options: Unpack[MapOptions],
) -> list[ContributionMaps]: ...
@overload
def contribution_maps(
    model: Any,
    input: Tokens,
    *,
    layers: Layers = None,
    scopes: Sequence[str] | str | None = None,
    queries: Positions = None,
    heads: AskedHeads = False,
    progress: bool = True,
    **options: Unpack[MapOptions],
) -> Any: ...
@spelled_out(MapOptions, DEFAULTS | {"chunk_bytes": None})
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
        input: A text, a list of texts, or token ids. Texts of a list that have equally many tokens run together,
            in causal models those of nearly as many; results come in the order given.
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
    queries: Positions = None,
    heads: AskedHeads = False,
    **options: Unpack[CallOptions],
) -> Decomposition: ...
@overload
def decompose(
    model: Any,
    input: Texts,
    *,
    layer: SupportsIndex,
    queries: Positions = None,
    heads: AskedHeads = False,
    **options: Unpack[CallOptions],
) -> list[Decomposition]: ...
@overload
def decompose(
    model: Any,
    input: Tokens,
    *,
    layer: SupportsIndex,
    queries: Positions = None,
    heads: AskedHeads = False,
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
