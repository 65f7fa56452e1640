"""One map per layer -> one map of the whole model: attention rollout, attention flow, ALTI and GlobEnc, to compare with.

    ffb.aggregation.rollout(ffb.attention_maps(model, text))["rollout", -1]  # [query key], rows sum to 1
    ffb.aggregation.alti(model, text)["ALTI", -1]

Four published ways from the input tokens to the positions of a later layer, each by its own definition. A layer's matrix has rows
that sum to 1; what differs is the matrix, and how the layers are combined:

    function        matrix of a layer                                                         combined by
    rollout         (1 - r) A + r I, A a map with rows scaled to 1                            product
    attention_flow  the same                                                                  maximum flow
    alti            max(0, ||y_i||_1 - ||y_i - F_i(x_j)||_1) after attention, rows scaled     product
    globenc         ||gain (F_i(x_j) - its mean) / s_i|| after the last norm, rows scaled     product

Such maps have neither sign nor target, and are here for comparison. In the masking tests of docs/results/faithfulness.md rollouts,
of attention as of exact contribution maps, were below chance on known facts and on plain text; ALTI was behind one call of
`attribute` in the mean over sets. Attention flow and GlobEnc were not tested there.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, Unpack, overload

import numpy as np
import torch
from jaxtyping import Float
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, maximum_flow
from torch import Tensor

from tl_ffblock.bridge.runs import DEFAULTS, CallOptions, Layers, Run, Texts, Tokens, open_run
from tl_ffblock.contributions import certify
from tl_ffblock.errors import CompletenessError, InputError, UnsupportedModelError
from tl_ffblock.layer.linear import LinearLayer
from tl_ffblock.layer.positions import Positions, layer_number, positions, real_number, several, spans
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import output_step
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.ranks import shares
from tl_ffblock.results.token_maps import ATTENTION, TokenMaps
from tl_ffblock.signatures import spelled_out, strict

__all__ = ["alti", "attention_flow", "globenc", "rollout"]

RESIDUAL_OF_ATTENTION = 0.5
"""Share of the residual connection in a layer's attention, in the paper of rollout and flow."""
UNITS = 2**30
"""Whole units of a capacity of 1: maximum flows are computed in whole numbers of 32 bits."""
ROUNDING = 1e-9
"""How far sums of rows may be from 1."""

Measure: TypeAlias = Callable[[LayerRecord, Run], Float[Tensor, "query key"]]


@strict
def rollout(
    maps: ContributionMaps | TokenMaps, channel: str | None = None, *, residual: float | None = None
) -> TokenMaps:
    """The product of the layers' matrices: `result["rollout", l]` is [query key], from the first layer's inputs to layer l's outputs.

    Abnar and Zuidema 2020, eq. 1, with A = 0.5 W + 0.5 I of the mean over heads W. Of contribution maps, in which the residual
    connection is already, it is the aggregation of GlobEnc (Modarressi et al. 2022) with the feed-forward in it. Rows sum to 1.

    In masking tests rollouts were below chance on known facts and on plain text (docs/results/faithfulness.md): use
    `attribute` to say what a target needs.

    Args:
        maps: Of all queries and of layers that follow each other, such as those of `attention_maps` or `contribution_maps`.
        channel: Head or scope; None means the mean of all heads, and of contribution maps the layer's output.
        residual: Share r of the identity; None means 0.5 for attention and 0 for contributions.

    Raises:
        InputError: for signed maps, some queries, layers with others between them, a row without any value, or several scopes.
        ScopeKeyError: if there is no such channel.
    """
    maps, matrices = _matrices(maps, channel, residual)
    return _labelled(maps, _products(matrices), "rollout", maps.layers)


@strict
def attention_flow(
    maps: ContributionMaps | TokenMaps,
    channel: str | None = None,
    *,
    residual: float | None = None,
    layers: Layers = -1,
    queries: Positions = None,
) -> TokenMaps:
    """The maximum flow from a layer's positions to the input tokens: `result["flow", l]` is [query key].

    Abnar and Zuidema 2020, section 3: edges lead from position i after a layer to position j before it, with the layer's
    A[i, j] as capacity; a cell is the maximum flow from (l, i) to (input, j), each on its own, so that rows do not sum to 1
    (their program scales them). A flow is never below the rollout. Capacities are rounded down to multiples of 2^-30; each flow is
    refused unless a cut of the same size shows that none is larger. One maximum flow per cell: some seconds at 15 tokens and
    30 layers, hours at hundreds of tokens.

    Attention flow was not part of the masking tests; the rollout of the same matrices, which was, did badly.

    Args:
        maps: As in `rollout`.
        channel: As in `rollout`.
        residual: As in `rollout`.
        layers: Layers from which flows start, negative ones from the end; None means all.
        queries: Positions from which flows start, negative ones from the end; None means all.

    Raises:
        InputError: as `rollout`, and for layers or positions that do not exist.
        ScopeKeyError: if there is no such channel.
        CompletenessError: if a flow is not the maximum.
    """
    maps, matrices = _matrices(maps, channel, residual)
    chosen = maps.layers if layers is None else sorted({layer_number(one, maps.layers) for one in several(layers)})
    rows, n = positions(queries, len(maps.tokens), "queries"), len(maps.tokens)
    graph = _capacities(matrices.numpy())
    flows = np.zeros((len(chosen), len(rows), n))
    for place in np.ndindex(*flows.shape):
        source = (maps.layers.index(chosen[place[0]]) + 1) * n + rows[place[1]]
        flows[place] = _maximum_flow(graph, source, place[2]) / UNITS
    return _labelled(maps, torch.from_numpy(flows), "flow", chosen, rows)


@overload
def alti(model: Any, input: str, *, by_layer: bool = ..., **options: Unpack[CallOptions]) -> TokenMaps: ...
@overload
def alti(model: Any, input: Texts, *, by_layer: bool = ..., **options: Unpack[CallOptions]) -> list[TokenMaps]: ...
@overload
def alti(model: Any, input: Tokens, *, by_layer: bool = ..., **options: Unpack[CallOptions]) -> Any: ...
@spelled_out(CallOptions, DEFAULTS)
def alti(
    model: Any, input: str | Texts | Tokens, *, by_layer: bool = False, **options: Unpack[CallOptions]
) -> TokenMaps | list[TokenMaps]:
    """Aggregated layer-wise token-to-token interactions: `result["ALTI", l]` is [query key], rows sum to 1.

    Ferrando et al. 2022, section 3: in each layer `c_ij = max(0, ||y_i||_1 - ||y_i - F_i(x_j)||_1)` with rows scaled to 1, y the
    output of the attention block with residual connection (and norm, in Post-LN; scope "Atb"); then the product of the layers.
    The feed-forward is left out. Their program keeps b_V in the token's part: `value_bias="token"`.

    In masking tests ALTI was behind one call of `attribute` in the mean over sets (docs/results/faithfulness.md).

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        input: A text, a list of texts, token ids, a tokenizer's output, or for an encoder a tuple of two sentences.
        by_layer: Whether each layer's own matrix is wanted in place of the product.
        **options: As in `decompose`.

    Returns:
        One result for a text or [pos] tokens; a list for a list of texts or a [batch, pos] tensor.

    Raises:
        InputError: for input or options that cannot be used, or a row in which no token has a share.
        FFBlockError: whatever else `decompose` raises.
    """
    return _aggregated(open_run(model, input, **options), _interactions, "ALTI", by_layer)


@overload
def globenc(model: Any, input: str, *, by_layer: bool = ..., **options: Unpack[CallOptions]) -> TokenMaps: ...
@overload
def globenc(model: Any, input: Texts, *, by_layer: bool = ..., **options: Unpack[CallOptions]) -> list[TokenMaps]: ...
@overload
def globenc(model: Any, input: Tokens, *, by_layer: bool = ..., **options: Unpack[CallOptions]) -> Any: ...
@spelled_out(CallOptions, DEFAULTS)
def globenc(
    model: Any, input: str | Texts | Tokens, *, by_layer: bool = False, **options: Unpack[CallOptions]
) -> TokenMaps | list[TokenMaps]:
    """Global token attribution of a Post-LN encoder: `result["GlobEnc", l]` is [query key], rows sum to 1.

    Modarressi et al. 2022, section 3: in each layer the norm of `gain (F_i(x_j) - mean) / s_i`, where F is the attention block's
    ("Atb") and gain and s those of the norm after the feed-forward, at the run's own scale; the feed-forward itself is left out, as
    in the paper. Rows are scaled to 1 and layers multiplied. With the feed-forward in it: `rollout(contribution_maps(...))`.

    GlobEnc was not part of the masking tests; the rollout of exact contribution maps, which was, did badly
    (docs/results/faithfulness.md).

    Args:
        model: TransformerBridge or HookedEncoder of a Post-LN model, in eval mode.
        input: A text, a list of texts, token ids, a tokenizer's output, or a tuple of two sentences.
        by_layer: Whether each layer's own matrix is wanted in place of the product.
        **options: As in `decompose`. The authors' program keeps b_V in the token's part: `value_bias="token"`.

    Returns:
        One result for a text or [pos] tokens; a list for a list of texts or a [batch, pos] tensor.

    Raises:
        InputError: for input or options that cannot be used.
        UnsupportedModelError: for a model that is not Post-LN, of which GlobEnc is not defined.
        FFBlockError: whatever else `decompose` raises.
    """
    run = open_run(model, input, **options)
    if run.model.family.order != "post_ln":
        raise UnsupportedModelError(
            f"{run.model.name} is a {run.model.family.order} model: GlobEnc is defined for Post-LN encoders. Use "
            "rollout(contribution_maps(model, text)), which is the same aggregation of maps with the feed-forward in them."
        )
    return _aggregated(run, _after_last_norm, "GlobEnc", by_layer)


def _interactions(record: LayerRecord, run: Run) -> Float[Tensor, "query key"]:
    """ALTI of one layer, rows not scaled yet."""
    parts, whole = _attention_block(record, run), record.whole["Atb"]
    distances = (whole[:, None] - parts).abs().sum(dim=-1)
    near = (whole.abs().sum(dim=-1, keepdim=True) - distances).clamp(min=0)
    return near.where(parts.any(dim=-1), 0)  # of no part at all, sums in another order leave rounding


def _after_last_norm(record: LayerRecord, run: Run) -> Float[Tensor, "query key"]:
    """GlobEnc of one layer, rows not scaled yet."""
    norm = record.block.norm("out_norm")
    scale = norm.scale(record.tensor("AtbFfRes"))
    return (norm.linear(_attention_block(record, run)) / scale[:, None]).norm(dim=-1)


def _attention_block(record: LayerRecord, run: Run) -> Float[Tensor, "query key d"]:
    """The vectors `F_i(x_j)` of attention with the residual connection, which have to sum up to the model's own."""
    parts = LinearLayer(record, run.settings).parts(["Atb"])
    errors = {scope: part.error(record.whole[scope]) for scope, part in parts.items()}
    certify(run.model, record.layer, record.queries.tolist(), errors, run.settings)
    return parts["Atb"].tokens


def _aggregated(run: Run, measure: Measure, name: str, by_layer: bool) -> Any:
    """Of every sequence the layers' matrices, or their products."""
    run.settings.refuse_rounding(name)
    measured = run.by_layer(lambda record, _: measure(record, run).cpu().double())
    results = []
    for sequence, of_layers in zip(run.sequences, measured, strict=True):
        maps = TokenMaps(
            values=torch.stack([of_layers[layer] for layer in run.layers])[:, None],
            tokens=sequence.labels,
            layers=run.layers,
            channels=(name,),
            queries=sequence.queries,
            causal=run.model.family.causal,
            model=run.model.name,
            provenance={"fingerprint": run.model.fingerprint, "value_bias": run.settings.value_bias},
        )
        maps, matrices = _matrices(maps, name, 0.0)
        results.append(_labelled(maps, matrices if by_layer else _products(matrices), name, maps.layers))
    return run.as_asked(results)


def _matrices(
    maps: ContributionMaps | TokenMaps, channel: str | None, residual: float | None
) -> tuple[TokenMaps, Float[Tensor, "layer query key"]]:
    """Maps, and by layer their matrix: rows scaled to 1, with a share of the identity."""
    if isinstance(maps, ContributionMaps):
        maps = maps.token_maps(output_step(maps.order).scope if channel is None else channel)
        channel = None
    values, attention = maps.values.detach().cpu().double(), maps.kind in (ATTENTION, "value-weighted attention")
    if maps.signed or maps.by_position or not (maps.whole and maps.layered) or bool((~(values >= 0)).any()):
        raise InputError(
            f"{maps.kind}: expected maps of one text by layer, from 0 up in every cell, for shares of rows."
        )
    if tuple(maps.queries) != tuple(range(len(maps.tokens))):
        raise InputError(f"queries {spans(maps.queries)} of {len(maps.tokens)} tokens: a product needs all, in order.")
    if maps.layers != tuple(range(maps.layers[0], maps.layers[-1] + 1)):
        raise InputError(f"layers {spans(maps.layers)}: expected layers that follow each other.")
    if channel is None and len(maps.channels) > 1 and not attention:
        raise InputError(f"several maps per layer ({', '.join(maps.channels)}): name the channel.")
    if residual is None and not attention and maps.kind != "contributions":
        raise InputError(
            f"residual=None: for {maps.kind} give the share of the residual connection, 0 where it is in them."
        )
    share = RESIDUAL_OF_ATTENTION * attention if residual is None else residual
    real_number(share, "residual", at_least=0, at_most=1)
    chosen = values.mean(dim=1) if channel is None else maps[channel].detach().cpu().double()
    empty = (chosen.sum(dim=-1) == 0).nonzero()
    if len(empty):
        layer, row = empty[0].tolist()
        raise InputError(f"layer {maps.layers[layer]}, query {row}: no token has a share of this row.")
    return maps, (1 - share) * shares(chosen, "row") + share * torch.eye(len(maps.tokens), dtype=torch.float64)


def _products(matrices: Float[Tensor, "layer query key"]) -> Float[Tensor, "layer query key"]:
    """After every layer the product of the matrices up to it, the first layer's rightmost (Abnar and Zuidema 2020, eq. 1)."""
    products = [matrices[0]]
    for matrix in matrices[1:]:
        products.append(matrix @ products[-1])
    product = torch.stack(products)
    error = float((product.sum(dim=-1) - 1).abs().max())
    if not error <= ROUNDING:
        raise CompletenessError(
            f"rows of the product miss 1 by {error:.1e} (tolerance {ROUNDING:.0e}). No map is made."
        )
    return product


def _capacities(matrices: Float[np.ndarray, "layer query key"]) -> sparse.csr_array:
    """The graph of all layers in whole units; node `b n + p` is position p before layer b."""
    layer, query, key = np.nonzero(matrices)
    n = matrices.shape[-1]
    units = np.floor(matrices[layer, query, key] * UNITS).astype(np.int32)
    size = (len(matrices) + 1) * n
    return sparse.csr_array((units, ((layer + 1) * n + query, layer * n + key)), shape=(size, size))


def _maximum_flow(graph: sparse.csr_array, source: int, sink: int) -> int:
    """The maximum flow in units; a cut of the same size shows that it is the maximum."""
    found = maximum_flow(graph, source, sink)
    left = sparse.csr_array(graph - found.flow)
    left.eliminate_zeros()
    near = np.zeros(graph.shape[0], dtype=bool)
    near[breadth_first_order(left, source, return_predecessors=False)] = True
    cut = int(graph[near][:, ~near].sum(dtype=np.int64))
    if near[sink] or cut != found.flow_value:
        raise CompletenessError(
            f"a flow of {found.flow_value} units is not the maximum: no cut is as small. No map is made."
        )
    return int(found.flow_value)


def _labelled(
    maps: TokenMaps,
    values: Float[Tensor, "layer query key"],
    name: str,
    layers: Sequence[int],
    queries: Sequence[int] | None = None,
) -> TokenMaps:
    """Aggregated numbers with the labels of the maps that they were made of."""
    return replace(
        maps,
        values=values[:, None],
        channels=(name,),
        layers=tuple(layers),
        queries=maps.queries if queries is None else tuple(queries),
        kind=f"{name} of {maps.kind}" if name != maps.channels[0] else name,
    )
