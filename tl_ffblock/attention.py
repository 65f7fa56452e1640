"""Attention patterns and value-weighted attention as `TokenMaps` by head, and attention scores."""

import warnings
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, Unpack, get_args, overload

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.runs import DEFAULTS, Layers, Run, RunOptions, Texts, Tokens, open_run
from tl_ffblock.errors import InputError, ProcessedWeightsWarning, UnsupportedModelError
from tl_ffblock.layer.heads import (
    AskedHeads,
    ScoredHeads,
    head_names,
    head_numbers,
    of_heads,
    scored_heads,
)
from tl_ffblock.layer.positions import Positions
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.results.token_maps import ATTENTION, EFFECTIVE_ATTENTION, AttentionScores, TokenMaps
from tl_ffblock.signatures import spelled_out

AttentionKind: TypeAlias = Literal["pattern", "value-weighted"]


@overload
def attention_maps(
    model: Any,
    input: str,
    *,
    layers: Layers = ...,
    queries: Positions = ...,
    kind: AttentionKind = ...,
    **options: Unpack[RunOptions],
) -> TokenMaps: ...
@overload
def attention_maps(
    model: Any,
    input: Texts,
    *,
    layers: Layers = ...,
    queries: Positions = ...,
    kind: AttentionKind = ...,
    **options: Unpack[RunOptions],
) -> list[TokenMaps]: ...
@overload
def attention_maps(
    model: Any,
    input: Tokens,
    *,
    layers: Layers = ...,
    queries: Positions = ...,
    kind: AttentionKind = ...,
    **options: Unpack[RunOptions],
) -> Any: ...
@spelled_out(RunOptions, DEFAULTS)
def attention_maps(
    model: Any,
    input: str | Texts | Tokens,
    *,
    layers: Layers = None,
    queries: Positions = None,
    kind: AttentionKind = "pattern",
    **options: Unpack[RunOptions],
) -> TokenMaps | list[TokenMaps]:
    """Attention patterns of every head: `maps["head 2", 3][i, j]` is the weight of key j for query i in layer 3.

    Weights are those of the forward pass, after softmax and after edits of the given hooks. Rows sum to 1, or to less in models
    with attention sinks.

    A layer without a softmax (delta nets, state-space models, short convolutions) has its effective attention: the C of
    `y_i = sum_j C_ij v_j`. Its weights have any sign, and rows have any sum. The maps are then of the kind "effective attention" and
    signed, also in a model that has softmax layers, too. C weighs values after the mixer's convolution: it has neither taps nor gate.

    With `kind="value-weighted"`, each weight is multiplied by the norm of the token's output through the head, `alpha ||v W_O||`.
    The value is that of the forward pass, with its bias (Kobayashi et al. 2020). Taps and gates are included.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        input: A text, a list of texts, token ids, a tokenizer's output, or for an encoder a tuple of two sentences.
        layers: Layer numbers, negative ones from the end; None means all (with a `cache` of records: the cached ones).
        queries: Query positions to keep as rows, negative ones from the end of each sequence; None means all.
        kind: "pattern" or "value-weighted".
        attention_mask: As in `contribution_maps`.
        token_type_ids: As in `contribution_maps`.
        fwd_hooks: As in `contribution_maps`.
        cache: As in `contribution_maps`.

    Returns:
        One `TokenMaps` for a text or [pos] tokens; a list of them for a list of texts or a [batch, pos] tensor.

    Raises:
        InputError: for input or options that cannot be used, or layers with different numbers of heads.
        UnsupportedModelError: for models that cannot be decomposed.
        IdentityError: if a cached activation contradicts the model's weights.
    """
    if kind not in get_args(AttentionKind):
        raise InputError(f'kind={kind!r}: expected "pattern" or "value-weighted".')
    with warnings.catch_warnings():
        if kind == "pattern":  # Folded norms and centred weights do not change patterns.
            warnings.simplefilter("ignore", ProcessedWeightsWarning)
        run = open_run(model, input, layers=layers, queries=queries, reads_media=True, **options)
    run.model.heads_of(run.layers)

    def measure(record: LayerRecord, number: int) -> Float[Tensor, "head query key"]:
        maps = record.pattern if kind == "pattern" else value_weighted(record)
        return maps.cpu()[:, run.sequences[number].order]

    return run.as_asked(_labelled(run, number, maps, kind) for number, maps in enumerate(run.by_layer(measure)))


@overload
def attention_scores(
    model: Any,
    input: str,
    *,
    layers: Layers = ...,
    heads: AskedHeads = ...,
    queries: Positions = ...,
    **options: Unpack[RunOptions],
) -> AttentionScores: ...
@overload
def attention_scores(
    model: Any,
    input: Texts,
    *,
    layers: Layers = ...,
    heads: AskedHeads = ...,
    queries: Positions = ...,
    **options: Unpack[RunOptions],
) -> list[AttentionScores]: ...
@overload
def attention_scores(
    model: Any,
    input: Tokens,
    *,
    layers: Layers = ...,
    heads: AskedHeads = ...,
    queries: Positions = ...,
    **options: Unpack[RunOptions],
) -> Any: ...
@spelled_out(RunOptions, DEFAULTS)
def attention_scores(
    model: Any,
    input: str | Texts | Tokens,
    *,
    layers: Layers = None,
    heads: AskedHeads = True,
    queries: Positions = None,
    **options: Unpack[RunOptions],
) -> AttentionScores | list[AttentionScores]:
    """Attention scores: query and key vectors, the score of each pair, and norms of values.

    `score[i, j] = scale * sum_e q[i, e] k[j, e]` (Vaswani et al. 2017, eq. 1; the neuron view of Vig 2019). The scale is the model's
    own of the layer; q and k are those after rotation. The softmax over the keys of i is compared with the model's pattern, head by
    head. A difference above `rtol` raises an exception.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        input: A text, a list of texts, token ids, a tokenizer's output, or for an encoder a tuple of two sentences.
        layers: Layer numbers, negative ones from the end; None means all.
        heads: Head numbers, negative ones from the end; True means all.
        queries: Query positions to keep as rows, negative ones from the end of each sequence; None means all.
        attention_mask: As in `contribution_maps`.
        token_type_ids: As in `contribution_maps`.
        fwd_hooks: As in `contribution_maps`.
        cache: As in `contribution_maps`.

    Returns:
        One `AttentionScores` for a text or [pos] tokens; a list of them for a list of texts or a [batch, pos] tensor.

    Raises:
        InputError: for input or options that cannot be used.
        UnsupportedModelError: for models without HookPoints for rotated queries and keys, or whose patterns are not a softmax of
            scaled products (position biases, caps, sinks).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProcessedWeightsWarning)
        run = open_run(
            model, input, layers=layers, queries=queries, extra=("query", "key"), reads_media=True, **options
        )
    chosen = head_numbers(heads, run.model.n_heads)
    if not chosen:
        raise InputError("heads=False: expected head numbers, or True for all.")

    def measure(record: LayerRecord, _: int) -> tuple[ScoredHeads, Float[Tensor, "head key"]]:
        if record.gate is not None:
            raise UnsupportedModelError(
                f"{run.model.layers[record.layer].where}: its attention has a gate or a norm before W_O, so a token's output through a "
                'head has no norm of its own. Use ffb.attention_maps(..., kind="value-weighted").'
            )
        scored = scored_heads(record, chosen, run.model.layers[record.layer].score_scale())
        if not scored.error <= run.settings.rtol:
            raise UnsupportedModelError(
                f"{run.model.name} ({run.model.family.name}), layer {record.layer}: the softmax of query times key is not "
                f"the pattern (largest difference {scored.error:.1e}, scale {scored.scale:.3g}). Possible causes are "
                "position biases, a cap of scores, a sink, or a hook that edits the pattern."
            )
        return scored, value_norms(record)[list(chosen)]

    return run.as_asked(_scores(run, number, layers, chosen) for number, layers in enumerate(run.by_layer(measure)))


def _scores(
    run: Run, number: int, by_layer: Mapping[int, tuple[ScoredHeads, Tensor]], heads: tuple[int, ...]
) -> AttentionScores:
    sequence = run.sequences[number]
    scored, norms = zip(*(by_layer[layer] for layer in run.layers), strict=True)
    return AttentionScores(
        query=torch.stack([layer.query.cpu()[:, sequence.order] for layer in scored]),
        key=torch.stack([layer.key.cpu() for layer in scored]),
        pattern=torch.stack([layer.pattern.cpu()[:, sequence.order] for layer in scored]),
        scale=tuple(layer.scale for layer in scored),
        error=max(layer.error for layer in scored),
        tokens=sequence.labels,
        layers=run.layers,
        heads=heads,
        queries=sequence.queries,
        causal=run.model.family.causal,
        model=run.model.name,
        fingerprint=run.model.fingerprint,
        value_norms=torch.stack([of_layer.cpu() for of_layer in norms]),
    )


def value_norms(record: LayerRecord) -> Float[Tensor, "head key"]:
    """`||v W_O||` of one sequence's record [head key]: norm of each token's output through a head that attends only to it."""
    written = einsum(record.head_values, record.block.attention.w_o, "key head e, head e d -> head key d")
    return written.norm(dim=-1)


def value_weighted(record: LayerRecord) -> Float[Tensor, "head query key"]:
    """`alpha ||v W_O||` of one sequence's record [head query key]."""
    if not record.is_by_channel:
        return record.pattern * value_norms(record)[:, None]
    by_head = []
    for head in range(len(record.pattern)):
        of_head = of_heads(record, [head]).by_channel
        z = einsum(of_head.pattern, of_head.value, "head query key, key head e -> query key head e")
        by_head.append((z.flatten(2) @ of_head.block.attention.w_o.flatten(0, 1)).norm(dim=-1))
    return torch.stack(by_head)


def _labelled(
    run: Run, number: int, maps: Mapping[int, Float[Tensor, "head query key"]], kind: AttentionKind
) -> TokenMaps:
    values = torch.stack([maps[layer] for layer in run.layers])
    sequence = run.sequences[number]
    effective = kind == "pattern" and any(run.model.layers[layer].is_recurrent for layer in run.layers)
    return TokenMaps(
        values=values,
        tokens=sequence.labels,
        layers=run.layers,
        channels=head_names(range(values.shape[1])),
        queries=sequence.queries,
        causal=run.model.family.causal,
        model=run.model.name,
        signed=effective,
        kind=EFFECTIVE_ATTENTION if effective else ATTENTION if kind == "pattern" else "value-weighted attention",
        provenance={"fingerprint": run.model.fingerprint},
    )
