"""Layer records of forward passes that you run (`capture`), or of an `ActivationCache`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, get_args

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from tl_ffblock.bridge.callbacks import LastCallback
from tl_ffblock.bridge.edited import attends_inside
from tl_ffblock.bridge.inputs import Batch, forward
from tl_ffblock.bridge.layers import ExtraSite
from tl_ffblock.bridge.model import Model, identify, select_layers
from tl_ffblock.bridge.records import (
    CaptureSpec,
    RecordHandler,
    Records,
    collecting,
    make_record,
    one_for_all_heads,
    select_rows,
)
from tl_ffblock.bridge.selfcheck import identities, probe
from tl_ffblock.errors import CaptureError, InputError, brief
from tl_ffblock.layer.positions import spans
from tl_ffblock.layer.records import LayerRecord, Settings
from tl_ffblock.signatures import strict

_TOKENS, _EMBEDDINGS = "embed.hook_in", ("hook_embed", "embed.hook_out")
"""HookPoints by which a cache is compared with tokens: token ids in bridges, else embeddings."""
# Relative difference of one token's embeddings between dtypes; that of different tokens is about 1.
_SAME_EMBEDDING = 1e-2


@strict
@contextmanager
def capture(
    model: Any,
    layers: Sequence[int] | int | None = None,
    *,
    queries: Int[Tensor, "batch query"] | None = None,
    on_record: RecordHandler | None = None,
    dtype: torch.dtype | None = None,
    extra: Sequence[ExtraSite] = (),
) -> Iterator[Records]:
    """Context that caches layer records of every forward pass inside.

    It works alone or with other hooks, in any order of registration, and inside `run_with_hooks` or `run_with_cache`. It leaves no hook
    behind after success or an exception. If the model runs with gradients, tensors keep their graph. With all queries, they are
    part of the graph of the output: `torch.autograd.grad(output, record.pre)`. Exceptions are tensors without such a HookPoint: the
    pattern of BERT, OPT and GPT-J bridges, `Atb` of parallel blocks, norms' outputs and routing of HookedTransformer.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder.
        layers: Layer numbers, negative ones from the end; None means all.
        queries: Positions to keep as rows, [batch query], from 0 and ascending in every sequence; None means all.
        on_record: Callback with each layer's record as soon as it is complete. Records are then not kept, so that long inputs
            need the memory of one layer only.
        dtype: Arithmetic of the decomposition; None means float64 for float64 models, else float32.
        extra: Further tensors for the records: "query" and "key" vectors of attention.

    Yields:
        Records: `records[layer]` after the forward pass.

    Warns:
        IgnoredEditWarning: if a hook edits a pattern after the model has used it.

    Raises:
        InputError: if a layer does not exist or the model is in training mode.
        UnsupportedModelError: if the architecture is not supported.
        IdentityError: on exit, if hooks edited a layer whose activations do not fulfil the equations of the model.
    """
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise InputError(f"dtype={brief(dtype)}: expected a floating-point torch.dtype such as torch.float64, or None.")
    if on_record is not None and not callable(on_record):
        raise InputError(f"on_record={brief(on_record)}: expected a function of a layer's record, or None.")
    if queries is not None and not (isinstance(queries, torch.Tensor) and queries.ndim == 2):
        raise InputError(f"queries={brief(queries)}: expected a tensor of positions [batch query], or None for all.")
    if queries is not None and (bool((queries < 0).any()) or bool((queries.diff(dim=-1) <= 0).any())):
        raise InputError(  # records have rows in the order of positions
            f"queries={brief(queries.tolist())}: expected positions from 0 in ascending order, each once, of every sequence."
        )
    if isinstance(extra, str) or not set(extra) <= set(get_args(ExtraSite)):
        raise InputError(
            f"extra={brief(extra)}: expected some of {', '.join(map(repr, get_args(ExtraSite)))}, as a list."
        )
    known = identify(model)
    spec = CaptureSpec(select_layers(known, layers), dtype or known.working_dtype, queries, frozenset(extra))
    with collecting(known, spec, on_record) as records:
        yield records
    probe(known, spec.dtype, tuple(sorted(records.edited)))


def cache_of(model: Model, tokens: Int[Tensor, " pos"]) -> Any:
    """TransformerLens's `ActivationCache` for one sequence."""
    with torch.no_grad():
        return model.hooked.run_with_cache(tokens[None].to(model.device))[1]


def records_of_cache(model: Model, spec: CaptureSpec, cache: Any) -> Records:
    """Layer records from a cache of `run_with_cache`, with or without edits by hooks.

    Raises:
        InputError: if the cache lacks a HookPoint, or has a pattern that attention did not use.
        IdentityError: if the model does not fulfil its equations (checked once, without hooks).
        CaptureError: if the cache does not follow from the model's weights.
    """
    cached = getattr(cache, "cache_dict", cache)
    probe(model, spec.dtype, spec.layers)
    records = Records(model, spec.layers)
    for layer in spec.layers:
        names = model.layers[layer].site_names(spec.extra, of_cache=True)
        given = {site: _cached(model, cached, name) for site, name in names.items()}
        if missing := [names[site] for site, tensor in given.items() if tensor is None]:
            raise InputError(
                f"cache has no {', '.join(missing)}: cache all HookPoints (names_filter=None), or omit cache, and the "
                "model runs once more."
            )
        batched = getattr(cache, "has_batch_dim", True)
        held = {site: t if batched else t[None] for site, t in given.items() if t is not None}
        bound = model.layers[layer]
        with_batch = {site: one_for_all_heads(site, bound.arranged(site, tensor)) for site, tensor in held.items()}
        _refuse_unused_pattern(model, cached, layer, with_batch)
        batch, positions = with_batch["resid_pre"].shape[:2]
        rows = {site: select_rows(site, tensor, spec.rows, (batch, positions)) for site, tensor in with_batch.items()}
        chosen = {name: half for site in rows for name, half in model.layers[layer].halves(site, rows[site]).items()}
        records.keep(make_record(model.layers[layer], spec, chosen, edited=True))
    strange = [layer for layer, record in records.items() if not _follows_from_weights(record, model.tolerance)]
    if strange:
        raise CaptureError(
            f"cache: no tensor in layer {spans(strange)} follows from the weights of {model.name}. It is of another model, or the "
            "weights were changed. Omit cache, and the model runs once more."
        )
    return records


def _cached(model: Model, cached: Mapping[str, Tensor], name: str) -> Tensor | None:
    return cached.get(name, cached.get(str(model.hook_point(name).name)))


def _refuse_unused_pattern(model: Model, cached: Mapping[str, Tensor], layer: int, sites: Mapping[str, Tensor]) -> None:
    """If the pattern's HookPoint fires after attention, a cache may have an edited pattern that had no effect."""
    if model.layers[layer].is_recurrent:
        return
    names, pattern, value = model.layers[layer], sites["pattern"], sites["value"]
    made = _cached(model, cached, names.values_name)
    if made is None or not attends_inside(model):
        return
    value = value.repeat_interleave(pattern.shape[1] // value.shape[2], dim=2)
    z = torch.einsum("bhqk,bkhe->bqhe", pattern.to(value.dtype), value)
    z = z * names.gate(sites["gate"]) if "gate" in sites else names.normed_values(z)
    if not torch.allclose(z, made.reshape(z.shape), rtol=1e-2, atol=1e-2 * float(z.abs().max())):
        raise InputError(
            f"cache: {names.sites['pattern']} is not the pattern of {names.values_name}. {model.name} "
            f"({model.family.name}) computes attention before hook_pattern fires, so an edit of it has no effect; or "
            "z was edited. Omit cache and pass the hooks as fwd_hooks."
        )


def _follows_from_weights(record: LayerRecord, rtol: float) -> bool:
    errors = (
        error for name, error in identities(record.sequence(0).rows(slice(0, 4))) if "W_" in name or "router" in name
    )
    return any(error <= rtol for error in errors)


def refuse_other_cache(model: Model, records: Records, batch: Batch, settings: Settings, cache: Any) -> None:
    """Refuse a cache of another model, another dtype, other input, or another padding than the mask's.

    Records of a forward pass on embeddings instead of tokens have no tokens to compare.

    Args:
        model: The model.
        records: Records of the cache.
        batch: The input.
        settings: Settings of the call.
        cache: The caller's cache.

    Raises:
        InputError: with the difference.
    """
    if records.model.hooked is not model.hooked and records.model.fingerprint != model.fingerprint:
        raise InputError(f"cache has records of another model ({records.model.name}), not of this {model.name}.")
    if records.model.fingerprint != model.fingerprint:
        raise InputError(
            f"cache was captured before the weights of {model.name} changed (fingerprint {records.model.fingerprint}, now "
            f"{model.fingerprint}): capture it again, or omit cache."
        )
    captured = {record.block.attention.w_o.dtype for record in records.values()}
    if captured and captured != {settings.dtype}:
        raise InputError(
            f"cache was captured for {captured.pop()} arithmetic, precision={settings.precision!r} needs {settings.dtype}: "
            f"capture with dtype={settings.dtype}, or omit one of both."
        )
    _refuse_other_tokens(model, records, batch, cache)
    for index, real in enumerate(() if batch.mask is None else batch.mask):
        if any(_attends_to_hidden(record, index, real) for record in records.values()):
            raise InputError(
                f"cache: tokens of sequence {index} attend to positions that attention_mask hides, as in {model.name} "
                "without that mask. Cache with the mask, or omit cache."
            )
    for index in range(next(iter(records.values())).pattern.shape[0] if batch.mask is None else 0):
        if all(_shows_padding(record, index) for record in records.values()):
            raise InputError(
                f"cache: in no layer does a token of sequence {index} attend to its first or last positions, as in "
                f"{model.name} with padding. Pass the attention_mask of the cache."
            )


def _refuse_other_tokens(model: Model, records: Records, batch: Batch, cache: Any) -> None:
    if (shape := tuple(next(iter(records.values())).resid_pre.shape[:2])) != tuple(batch.tokens.shape):
        raise InputError(
            f"cache is of input of shape {shape}, the input has {tuple(batch.tokens.shape)} [batch, pos]: pass the input of "
            "the cache."
        )
    if not isinstance(cache, Records):
        same = _is_of_tokens(model, getattr(cache, "cache_dict", cache), batch)
    else:
        same = records.tokens is None or torch.equal(records.tokens.cpu(), batch.tokens.cpu())
    if not same:
        raise InputError(
            "cache is of other tokens than the input, or its embeddings were edited by a hook: pass the input of "
            "the cache, or omit cache and pass the hooks as fwd_hooks."
        )


def _is_of_tokens(model: Model, cached: Mapping[str, Tensor], batch: Batch) -> bool:
    ids = cached.get(_TOKENS)
    if ids is not None:
        return torch.equal(ids.cpu().reshape(batch.tokens.shape), batch.tokens.cpu())
    first_input = model.layers[0].sites["resid_pre"]
    name = next((name for name in (*_EMBEDDINGS, first_input) if _cached(model, cached, name) is not None), None)
    if name is None or (name in _EMBEDDINGS and name not in model.hook_points):
        raise InputError(
            f"cache does not show its tokens: it has neither {_TOKENS} nor {first_input}. Cache all HookPoints "
            "(names_filter=None), or omit cache, and the model runs once more."
        )
    expected = _passing(model, batch, name)
    given = _cached(model, cached, name)
    assert given is not None
    gap = (given.reshape(expected.shape).to(expected) - expected).norm(dim=-1)
    return bool((gap <= _SAME_EMBEDDING * expected.norm(dim=-1)).all())


class NothingMoreToRead(Exception):  # noqa: N818 - no error
    """Ends a forward pass after the last needed layer, if no one else's hook needs the remainder."""


@torch.no_grad()
def _passing(model: Model, batch: Batch, name: str) -> Tensor:
    """Tensor at a HookPoint before the first layer, without any callbacks."""
    reached: list[Tensor] = []

    def stop(tensor: Tensor) -> None:
        reached.append(tensor)
        raise NothingMoreToRead

    with model.hooks_disabled(), LastCallback(model.hook_point(name), stop), suppress(NothingMoreToRead):
        forward(model, batch)
    if not reached:
        raise CaptureError(f"{name} did not fire in a forward pass of {model.name}.")
    return reached[0]


def _attends_to_hidden(record: LayerRecord, index: int, real: Bool[Tensor, " pos"]) -> bool:
    real = real.to(record.pattern.device)
    return bool((record.pattern[index][:, real[record.queries[index]]][..., ~real] != 0).any())


def _shows_padding(record: LayerRecord, index: int) -> bool:
    queries = record.queries[index]
    attended = (record.pattern[index] != 0).any(dim=0)
    n_keys = attended.shape[1]
    last_row, first_row = attended[queries == n_keys - 1], attended[queries == 0]
    if n_keys > 1 and len(last_row) and not attended[:, -1].any():
        return True  # after the tokens: the last position does not even attend to itself
    if not len(first_row) or (first_row[0, 0] and not first_row[0, 1:].any()):
        return False  # the first token attends only to itself, as in every causal model
    # Before the tokens: for some k the keys before k are attended to only by queries before k.
    last_seen = torch.where(attended, queries[:, None], -1).amax(dim=0).cummax(dim=0).values
    return bool((last_seen[:-1] < torch.arange(1, n_keys, device=queries.device)).any())
