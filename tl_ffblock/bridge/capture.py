"""Forward passes that somebody else runs: recorded as they happen (`capture`), or read from an `ActivationCache`."""

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
"""HookPoints where a cache shows which tokens it is of: token ids in bridges, else what the embedding made of them."""
# Relative difference of one token's embeddings in any dtype; another token's is about 1.
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
    """Record layers of every forward pass that runs inside the context.

    Works alone or among other hooks, in any order of registration, and inside `run_with_hooks` or
    `run_with_cache`; leaves no hook behind after success or exception. Where the model ran with
    gradients, tensors keep their graph, and with all queries captured they lie on the way to the
    output: `torch.autograd.grad(output, record.pre)`. Not on it are tensors that no HookPoint hands over
    in time or as they are: the pattern of BERT, OPT and GPT-J bridges, `Atb` of parallel blocks, norms'
    outputs and routing of HookedTransformer.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder.
        layers: Layer numbers, negative ones from the end; None means all.
        queries: Positions to keep as rows, [batch query], from 0 and ascending in every sequence; None means all.
        on_record: Called with each layer's record as soon as it is complete, in place of keeping it,
            so that long runs need the memory of one layer only.
        dtype: Arithmetic of the decomposition; None means float64 for float64 models, else float32.
        extra: Further tensors for the records: "query" and "key" vectors of attention.

    Yields:
        Records: `records[layer]` after the forward pass.

    Warns:
        IgnoredEditWarning: if a hook edits a pattern after the model has used it.

    Raises:
        InputError: if a layer does not exist or the model is in training mode.
        UnsupportedModelError: if the architecture is not supported.
        IdentityError: on leaving, if hooks edited a layer whose weights are not read rightly.
    """
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise InputError(f"dtype={brief(dtype)}: expected a floating-point torch.dtype such as torch.float64, or None.")
    if on_record is not None and not callable(on_record):
        raise InputError(f"on_record={brief(on_record)}: expected a function of a layer's record, or None.")
    if queries is not None and not (isinstance(queries, torch.Tensor) and queries.ndim == 2):
        raise InputError(f"queries={brief(queries)}: expected a tensor of positions [batch query], or None for all.")
    if queries is not None and (bool((queries < 0).any()) or bool((queries.diff(dim=-1) <= 0).any())):
        raise InputError(  # records hold rows in the order of the positions
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
    """What TransformerLens keeps of a run of one sequence: its `ActivationCache`."""
    with torch.no_grad():
        return model.hooked.run_with_cache(tokens[None].to(model.device))[1]


def records_of_cache(model: Model, spec: CaptureSpec, cache: Any) -> Records:
    """The records of a run that was cached before, with `run_with_cache`, edited by hooks or not.

    Raises:
        InputError: if the cache lacks a site, or holds a pattern that attention did not use.
        IdentityError: if the model is not read rightly (checked on a clean run, once).
        CaptureError: if nothing in the cache follows from the model's weights.
    """
    cached = getattr(cache, "cache_dict", cache)
    probe(model, spec.dtype, spec.layers)
    records = Records(model, spec.layers)
    for layer in spec.layers:
        names = model.layers[layer].site_names(spec.extra)
        given = {site: _cached(model, cached, name) for site, name in names.items()}
        if missing := [names[site] for site, tensor in given.items() if tensor is None]:
            raise InputError(
                f"cache has no {', '.join(missing)}: cache the whole run (names_filter=None), or leave cache out and the "
                "model is run once more."
            )
        batched = getattr(cache, "has_batch_dim", True)
        held = {site: t if batched else t[None] for site, t in given.items() if t is not None}
        with_batch = {site: one_for_all_heads(site, tensor) for site, tensor in held.items()}
        _refuse_unused_pattern(model, cached, layer, with_batch)
        batch, positions = with_batch["resid_pre"].shape[:2]
        chosen = {site: select_rows(site, tensor, spec.rows, (batch, positions)) for site, tensor in with_batch.items()}
        records.keep(make_record(model.layers[layer], spec, chosen, edited=True))
    strange = [layer for layer, record in records.items() if not _follows_from_weights(record, model.tolerance)]
    if strange:
        raise CaptureError(
            f"cache: no tensor in layer {spans(strange)} follows from the weights of {model.name}. Is it of another model, or "
            "were the weights changed since? Leave cache out and the model is run once more."
        )
    return records


def _cached(model: Model, cached: Mapping[str, Tensor], name: str) -> Tensor | None:
    return cached.get(name, cached.get(str(model.hook_point(name).name)))


def _refuse_unused_pattern(model: Model, cached: Mapping[str, Tensor], layer: int, sites: Mapping[str, Tensor]) -> None:
    """Where the pattern's HookPoint fires after attention, a cache may hold an edited pattern that had no effect."""
    names, pattern, value = model.layers[layer], sites["pattern"], sites["value"]
    made = _cached(model, cached, names.values_name)
    if made is None or not attends_inside(model):
        return
    value = value.repeat_interleave(pattern.shape[1] // value.shape[2], dim=2)
    z = torch.einsum("bhqk,bkhe->bqhe", pattern.to(value.dtype), value)
    if not torch.allclose(z, made.reshape(z.shape), rtol=1e-2, atol=1e-2 * float(z.abs().max())):
        raise InputError(
            f"cache: {names.sites['pattern']} is not the pattern that made {names.values_name}. {model.name} "
            f"({model.family.name}) computes attention before hook_pattern fires, so an edit of it has no effect on the run; or "
            "z was edited. Leave cache out and give the hooks as fwd_hooks: then the pattern that was used is known."
        )


def _follows_from_weights(record: LayerRecord, rtol: float) -> bool:
    errors = (
        error for name, error in identities(record.sequence(0).rows(slice(0, 4))) if "W_" in name or "router" in name
    )
    return any(error <= rtol for error in errors)


def refuse_other_cache(model: Model, records: Records, batch: Batch, settings: Settings, cache: Any) -> None:
    """Refuse a cache of another model, another arithmetic, another run, or of one with another padding than the mask says.

    Records of a run that was given embeddings in place of tokens have none to compare.

    Args:
        model: What is decomposed.
        records: Of the cache.
        batch: The input.
        settings: What a call asks for.
        cache: As it was given.

    Raises:
        InputError: saying what differs.
    """
    if records.model.hooked is not model.hooked and records.model.fingerprint != model.fingerprint:
        raise InputError(f"cache holds records of another model ({records.model.name}), not of this {model.name}.")
    if records.model.fingerprint != model.fingerprint:
        raise InputError(
            f"cache was captured before the weights of {model.name} changed (fingerprint {records.model.fingerprint}, now "
            f"{model.fingerprint}): capture the run again, or leave cache out."
        )
    captured = {record.block.attention.w_o.dtype for record in records.values()}
    if captured and captured != {settings.dtype}:
        raise InputError(
            f"cache was captured for {captured.pop()} arithmetic, precision={settings.precision!r} asks for {settings.dtype}: "
            f"capture with dtype={settings.dtype}, or leave one of the two out."
        )
    _refuse_other_tokens(model, records, batch, cache)
    for index, real in enumerate(() if batch.mask is None else batch.mask):
        if any(_attends_to_hidden(record, index, real) for record in records.values()):
            raise InputError(
                f"cache: tokens of sequence {index} attend to positions that attention_mask hides, so it is of a run of {model.name} "
                "without that mask. Cache the run with its mask, or leave cache out."
            )
    for index in range(next(iter(records.values())).pattern.shape[0] if batch.mask is None else 0):
        if all(_shows_padding(record, index) for record in records.values()):
            raise InputError(
                f"cache: in no layer does a token of sequence {index} attend to its first or last positions, as in a run of "
                f"{model.name} with padding. Give the attention_mask of that run."
            )


def _refuse_other_tokens(model: Model, records: Records, batch: Batch, cache: Any) -> None:
    if (shape := tuple(next(iter(records.values())).resid_pre.shape[:2])) != tuple(batch.tokens.shape):
        raise InputError(
            f"cache is of a run of shape {shape}, the input is {tuple(batch.tokens.shape)} [batch, pos]: give the input of "
            "that run."
        )
    if not isinstance(cache, Records):
        same = _is_of_tokens(model, getattr(cache, "cache_dict", cache), batch)
    else:
        same = records.tokens is None or torch.equal(records.tokens.cpu(), batch.tokens.cpu())
    if not same:
        raise InputError(
            "cache is of a run of other tokens than the input, or its embeddings were edited by a hook: give the input of "
            "that run, or leave cache out and give the hooks as fwd_hooks."
        )


def _is_of_tokens(model: Model, cached: Mapping[str, Tensor], batch: Batch) -> bool:
    ids = cached.get(_TOKENS)
    if ids is not None:
        return torch.equal(ids.cpu().reshape(batch.tokens.shape), batch.tokens.cpu())
    first_input = model.layers[0].sites["resid_pre"]
    name = next((name for name in (*_EMBEDDINGS, first_input) if _cached(model, cached, name) is not None), None)
    if name is None or (name in _EMBEDDINGS and name not in model.hook_points):
        raise InputError(
            f"cache does not show which tokens it is of: it has neither {_TOKENS} nor {first_input}. Cache the whole run "
            "(names_filter=None), or leave cache out and the model is run once more."
        )
    expected = _passing(model, batch, name)
    given = _cached(model, cached, name)
    assert given is not None
    gap = (given.reshape(expected.shape).to(expected) - expected).norm(dim=-1)
    return bool((gap <= _SAME_EMBEDDING * expected.norm(dim=-1)).all())


class NothingMoreToRead(Exception):  # noqa: N818 - no error
    """Ends a forward pass that nobody else listens to: its remainder costs time and memory."""


@torch.no_grad()
def _passing(model: Model, batch: Batch, name: str) -> Tensor:
    """What passes a HookPoint before the first layer, without anybody's callbacks."""
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
        return False  # the first token attends to itself alone, as in every causal run
    # Before the tokens: for some k the keys before k are seen by queries before k at most.
    last_seen = torch.where(attended, queries[:, None], -1).amax(dim=0).cummax(dim=0).values
    return bool((last_seen[:-1] < torch.arange(1, n_keys, device=queries.device)).any())
