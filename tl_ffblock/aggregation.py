"""Maps of all layers combined to one map of the model: attention rollout, attention flow, ALTI and GlobEnc, for comparison.

    ffb.aggregation.rollout(ffb.attention_maps(model, text))["rollout", -1]  # [query key], rows sum to 1
    ffb.aggregation.alti(model, text)["ALTI", -1]

Four published maps from input tokens to positions of a later layer, each by its own definition. A layer's matrix has rows that sum to
1. The methods differ in this matrix, and in how layers are combined:

    function        matrix of a layer                                                         combined by
    rollout         (1 - r) A + r I, A a map with rows scaled to 1                            product
    attention_flow  the same                                                                  maximum flow
    alti            max(0, ||y_i||_1 - ||y_i - F_i(x_j)||_1) after attention, rows scaled     product
    globenc         ||gain (F_i(x_j) - its mean) / s_i|| after the last norm, rows scaled     product

Such maps have no sign and no target. In the masking tests of docs/results/faithfulness.md, rollouts of attention and of exact
contribution maps were below chance on known facts and on plain text. ALTI was worse than `attribute` in the mean over sets.
Attention flow and GlobEnc were not tested there.
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
"""Weight of the residual connection in a layer's attention (Abnar and Zuidema 2020, eq. 1)."""
UNITS = 2**30
"""Units of a capacity of 1: maximum flows are computed in 32-bit integers."""
ROUNDING = 1e-9
"""Largest accepted difference of sums of rows from 1."""

Measure: TypeAlias = Callable[[LayerRecord, Run], Float[Tensor, "query key"]]


@strict
def rollout(
    maps: ContributionMaps | TokenMaps, channel: str | None = None, *, residual: float | None = None
) -> TokenMaps:
    """Attention rollout: `result["rollout", l]` is [query key], the product of the layers' matrices up to layer l.

    Abnar and Zuidema 2020, eq. 1, with A = 0.5 W + 0.5 I and W the mean over heads. For contribution maps, which include the residual
    connection, it is the aggregation of GlobEnc (Modarressi et al. 2022) with the feed-forward. Rows sum to 1.

    In masking tests, rollouts were below chance on known facts and on plain text (docs/results/faithfulness.md). Use `attribute`
    to find the tokens that a target depends on.

    Args:
        maps: Maps with all queries and consecutive layers, such as those of `attention_maps` or `contribution_maps`.
        channel: Head or scope; None means the mean of all heads, and in contribution maps the layer's output.
        residual: Weight r of the identity; None means 0.5 for attention and 0 for contributions.

    Raises:
        InputError: for signed maps, a choice of queries, layers that are not consecutive, a row of zeros, or several scopes.
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
    """Attention flow: `result["flow", l]` is [query key], the maximum flow from a layer's positions to the input tokens.

    Abnar and Zuidema 2020, section 3: edges lead from position i after a layer to position j before it, with capacity A[i, j]. A cell
    is the maximum flow from (l, i) to (input, j). Each is computed alone, so that rows do not sum to 1 (their program scales
    them). A flow is never below the rollout. Capacities are rounded down to multiples of 2^-30. A flow is refused unless a cut of
    the same size shows that it is the maximum. The cost is one maximum flow per cell: some seconds at 15 tokens and 30 layers,
    hours at hundreds of tokens.

    Attention flow was not part of the masking tests; the rollout of the same matrices was, with poor results.

    Args:
        maps: As in `rollout`.
        channel: As in `rollout`.
        residual: As in `rollout`.
        layers: Layers from which flows start, negative ones from the end; None means all.
        queries: Positions from which flows start, negative ones from the end; None means all.

    Raises:
        InputError: as in `rollout`, and for layers or positions that do not exist.
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
    """ALTI, aggregated layer-wise token-to-token interactions: `result["ALTI", l]` is [query key], rows sum to 1.

    Ferrando et al. 2022, section 3: in each layer `c_ij = max(0, ||y_i||_1 - ||y_i - F_i(x_j)||_1)` with rows scaled to 1, then the
    product of the layers. y is the output of the attention block with residual connection (and norm, in Post-LN; scope "Atb"), without
    the feed-forward. Their program keeps b_V in the token's part: `value_bias="token"`.

    In masking tests ALTI was worse than `attribute` in the mean over sets (docs/results/faithfulness.md).

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        input: A text, a list of texts, token ids, a tokenizer's output, or for an encoder a tuple of two sentences.
        by_layer: Whether to return each layer's own matrix instead of the product.
        **options: As in `decompose`.

    Returns:
        One `TokenMaps` for a text or [pos] tokens; a list of them for a list of texts or a [batch, pos] tensor.

    Raises:
        InputError: for input or options that cannot be used, or a row of zeros.
        FFBlockError: all other errors of `decompose`.
    """
    return _aggregated(open_run(model, input, reads_media=True, **options), _interactions, "ALTI", by_layer)


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
    """GlobEnc, global token attribution of a Post-LN encoder: `result["GlobEnc", l]` is [query key], rows sum to 1.

    Modarressi et al. 2022, section 3: in each layer the norm of `gain (F_i(x_j) - mean) / s_i`. F is that of the attention block
    ("Atb"); gain and s are those of the norm after the feed-forward, with its scale of the forward pass. The feed-forward itself is
    not included, as in the paper. Rows are scaled to 1 and layers multiplied. With the feed-forward:
    `rollout(contribution_maps(...))`.

    GlobEnc was not part of the masking tests; the rollout of exact contribution maps was, with poor results
    (docs/results/faithfulness.md).

    Args:
        model: TransformerBridge or HookedEncoder of a Post-LN model, in eval mode.
        input: A text, a list of texts, token ids, a tokenizer's output, or a tuple of two sentences.
        by_layer: Whether to return each layer's own matrix instead of the product.
        **options: As in `decompose`. The authors' program keeps b_V in the token's part: `value_bias="token"`.

    Returns:
        One `TokenMaps` for a text or [pos] tokens; a list of them for a list of texts or a [batch, pos] tensor.

    Raises:
        InputError: for input or options that cannot be used.
        UnsupportedModelError: for a model that is not Post-LN, for which GlobEnc is not defined.
        FFBlockError: all other errors of `decompose`.
    """
    run = open_run(model, input, reads_media=True, **options)
    if run.model.family.order != "post_ln":
        raise UnsupportedModelError(
            f"{run.model.name} is a {run.model.family.order} model: GlobEnc is defined for Post-LN encoders. Use "
            "rollout(contribution_maps(model, text)), the same aggregation with the feed-forward included."
        )
    return _aggregated(run, _after_last_norm, "GlobEnc", by_layer)


def _interactions(record: LayerRecord, run: Run) -> Float[Tensor, "query key"]:
    """ALTI of one layer, with rows not scaled yet."""
    parts, whole = _attention_block(record, run), record.whole["Atb"]
    distances = (whole[:, None] - parts).abs().sum(dim=-1)
    near = (whole.abs().sum(dim=-1, keepdim=True) - distances).clamp(min=0)
    return near.where(parts.any(dim=-1), 0)  # for zero vectors, the difference of sums would be rounding


def _after_last_norm(record: LayerRecord, run: Run) -> Float[Tensor, "query key"]:
    """GlobEnc of one layer, with rows not scaled yet."""
    norm = record.block.norm("out_norm")
    scale = norm.scale(record.tensor("AtbFfRes"))
    return (norm.linear(_attention_block(record, run)) / scale[:, None]).norm(dim=-1)


def _attention_block(record: LayerRecord, run: Run) -> Float[Tensor, "query key d"]:
    """Contribution vectors of attention with the residual connection; their sum is checked."""
    parts = LinearLayer(record, run.settings).parts(["Atb"])
    errors = {scope: part.error(record.whole[scope]) for scope, part in parts.items()}
    certify(run.model, record.layer, record.queries.tolist(), errors, run.settings)
    return parts["Atb"].tokens


def _aggregated(run: Run, measure: Measure, name: str, by_layer: bool) -> Any:
    """By sequence: matrices of the layers, or their products."""
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
    """Maps, and the matrix of each layer [layer query key]: rows scaled to 1, plus a weighted identity."""
    if isinstance(maps, ContributionMaps):
        maps = maps.token_maps(output_step(maps.order).scope if channel is None else channel)
        channel = None
    values, attention = maps.values.detach().cpu().double(), maps.kind in (ATTENTION, "value-weighted attention")
    if maps.signed or maps.by_position or not (maps.whole and maps.layered) or bool((~(values >= 0)).any()):
        raise InputError(f"{maps.kind}: expected maps of one text by layer, without negative values or NaN.")
    if tuple(maps.queries) != tuple(range(len(maps.tokens))):
        raise InputError(f"queries {spans(maps.queries)} of {len(maps.tokens)} tokens: expected all, in order.")
    if maps.layers != tuple(range(maps.layers[0], maps.layers[-1] + 1)):
        raise InputError(f"layers {spans(maps.layers)}: expected consecutive layers.")
    if channel is None and len(maps.channels) > 1 and not attention:
        raise InputError(f"several maps per layer ({', '.join(maps.channels)}): pass one of them as channel=.")
    if residual is None and not attention and maps.kind != "contributions":
        raise InputError(
            f"residual=None: for {maps.kind} pass the weight of the residual connection, or 0 if they include it."
        )
    share = RESIDUAL_OF_ATTENTION * attention if residual is None else residual
    real_number(share, "residual", at_least=0, at_most=1)
    chosen = values.mean(dim=1) if channel is None else maps[channel].detach().cpu().double()
    empty = (chosen.sum(dim=-1) == 0).nonzero()
    if len(empty):
        layer, row = empty[0].tolist()
        raise InputError(
            f"layer {maps.layers[layer]}, query {row}: the row is zero, so it has no shares. Omit the layer."
        )
    return maps, (1 - share) * shares(chosen, "row") + share * torch.eye(len(maps.tokens), dtype=torch.float64)


def _products(matrices: Float[Tensor, "layer query key"]) -> Float[Tensor, "layer query key"]:
    """By layer: the product of the matrices up to it, the first layer's rightmost (Abnar and Zuidema 2020, eq. 1)."""
    products = [matrices[0]]
    for matrix in matrices[1:]:
        products.append(matrix @ products[-1])
    product = torch.stack(products)
    error = float((product.sum(dim=-1) - 1).abs().max())
    if not error <= ROUNDING:
        raise CompletenessError(
            f"rows of the product differ from a sum of 1 by {error:.1e} (tolerance {ROUNDING:.0e}). Please report this fault."
        )
    return product


def _capacities(matrices: Float[np.ndarray, "layer query key"]) -> sparse.csr_array:
    """Graph of all layers with integer capacities; node `b n + p` is position p before layer b."""
    layer, query, key = np.nonzero(matrices)
    n = matrices.shape[-1]
    units = np.floor(matrices[layer, query, key] * UNITS).astype(np.int32)
    size = (len(matrices) + 1) * n
    return sparse.csr_array((units, ((layer + 1) * n + query, layer * n + key)), shape=(size, size))


def _maximum_flow(graph: sparse.csr_array, source: int, sink: int) -> int:
    """Maximum flow in units; a cut of the same size proves that it is the maximum."""
    found = maximum_flow(graph, source, sink)
    left = sparse.csr_array(graph - found.flow)
    left.eliminate_zeros()
    near = np.zeros(graph.shape[0], dtype=bool)
    near[breadth_first_order(left, source, return_predecessors=False)] = True
    cut = int(graph[near][:, ~near].sum(dtype=np.int64))
    if near[sink] or cut != found.flow_value:
        raise CompletenessError(
            f"a flow of {found.flow_value} units is not the maximum: no cut is as small. Please report this fault."
        )
    return int(found.flow_value)


def _labelled(
    maps: TokenMaps,
    values: Float[Tensor, "layer query key"],
    name: str,
    layers: Sequence[int],
    queries: Sequence[int] | None = None,
) -> TokenMaps:
    """Aggregated maps with the labels of the original maps."""
    return replace(
        maps,
        values=values[:, None],
        channels=(name,),
        layers=tuple(layers),
        queries=maps.queries if queries is None else tuple(queries),
        kind=f"{name} of {maps.kind}" if name != maps.channels[0] else name,
    )
