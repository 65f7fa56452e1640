"""A run that was cached before, with `run_with_cache`, edited by hooks or not -> its records."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from tl_ffblock.bridge.assembly import CaptureSpec, make_record, one_for_all_heads, select_rows
from tl_ffblock.bridge.batching import Batch
from tl_ffblock.bridge.collector import Records, hook_point
from tl_ffblock.bridge.inputs import at_model, forward
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.probe import probe
from tl_ffblock.bridge.selfcheck import identities
from tl_ffblock.bridge.settings import tolerance_of
from tl_ffblock.bridge.sites import site_names
from tl_ffblock.bridge.taps import Tap, silence
from tl_ffblock.errors import CaptureError, InputError
from tl_ffblock.layer.positions import spans
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.settings import Settings

_TOKENS, _EMBEDDINGS = "embed.hook_in", ("hook_embed", "embed.hook_out")
"""HookPoints where a cache shows which tokens it is of: token ids in bridges, else what the embedding made of them."""
_SAME_EMBEDDING = 1e-2
"""Relative difference of one token's embeddings in any dtype; another token's is about 1."""


def cache_of(model: Model, tokens: Int[Tensor, " pos"]) -> Any:
    """What TransformerLens keeps of a run of one sequence: its `ActivationCache`."""
    with torch.no_grad():
        return model.hooked.run_with_cache(at_model(model, tokens[None]))[1]


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
        names = site_names(model, layer, spec.extra)
        given = {site: _cached(model, cached, name) for site, name in names.items()}
        present = {site: tensor for site, tensor in given.items() if tensor is not None}
        missing = [name for site, name in names.items() if site not in present]
        if missing:
            raise InputError(
                f"cache has no {', '.join(missing)}: cache the whole run (names_filter=None), or leave cache out and the "
                "model is run once more."
            )
        with_batch = {site: t if getattr(cache, "has_batch_dim", True) else t[None] for site, t in present.items()}
        with_batch = {site: one_for_all_heads(site, tensor) for site, tensor in with_batch.items()}
        _refuse_unused_pattern(model, cached, layer, with_batch)
        batch, positions = with_batch["resid_pre"].shape[:2]
        chosen = {site: select_rows(site, tensor, spec.rows, (batch, positions)) for site, tensor in with_batch.items()}
        records.keep(make_record(model, spec, layer, chosen, edited=True))
    strange = [layer for layer, record in records.items() if not _follows_from_weights(record, tolerance_of(model))]
    if strange:
        raise CaptureError(
            f"cache: no tensor in layer {spans(strange)} follows from the weights of {model.name}. Is it of another model, or "
            "were the weights changed since? Leave cache out and the model is run once more."
        )
    return records


def _cached(model: Model, cached: Mapping[str, Tensor], name: str) -> Tensor | None:
    """A tensor of a cache, under the name asked for or the HookPoint's own."""
    return cached.get(name, cached.get(hook_point(model, name).name))


def _refuse_unused_pattern(model: Model, cached: Mapping[str, Tensor], layer: int, sites: Mapping[str, Tensor]) -> None:
    """Where the pattern's HookPoint fires after attention, a cache may hold an edited pattern that had no effect."""
    order = {name: number for number, name in enumerate(cached)}
    z_names = [f"blocks.{layer}.attn.{name}" for name in ("hook_z", "o.hook_in")]
    z_name = next((name for name in z_names if name in cached), None)
    pattern_name = next((n for n in (f"blocks.{layer}.attn.hook_pattern",) if n in cached), None)
    if z_name is None or pattern_name is None or order[pattern_name] < order[z_name]:
        return
    pattern, value = sites["pattern"], sites["value"]
    value = value.repeat_interleave(pattern.shape[1] // value.shape[2], dim=2)
    z = torch.einsum("bhqk,bkhe->bqhe", pattern.to(value.dtype), value)
    if not torch.allclose(z, cached[z_name].reshape(z.shape), rtol=1e-2, atol=1e-2 * float(z.abs().max())):
        raise InputError(
            f"cache: {pattern_name} is not the pattern that made {z_name}. {model.name} ({model.family.name}) computes "
            "attention before hook_pattern fires, so an edit of it has no effect on the run; or z was edited. Leave cache "
            "out and give the hooks as fwd_hooks: then the pattern that was used is known."
        )


def _follows_from_weights(record: LayerRecord, rtol: float) -> bool:
    """Whether any sum of the layer that weights enter is what the record says: edits break some, not all."""
    rows = record.sequence(0).rows(slice(0, 4))
    errors = (error for name, error in identities(rows) if "W_" in name or "router" in name)
    return any(error <= rtol for error in errors)


def refuse_other_run(model: Model, records: Records, settings: Settings) -> None:
    """Refuse records of another model, or of another arithmetic than a call asks for."""
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


def refuse_other_tokens(model: Model, records: Records, batch: Batch, cache: Any) -> None:
    """Refuse a cache of a run of another shape or of other tokens, and one that does not show its tokens.

    Records of a run that was given embeddings in place of tokens have none to compare.

    Raises:
        InputError: saying what differs.
    """
    shape = tuple(next(iter(records.values())).resid_pre.shape[:2])
    if shape != tuple(batch.tokens.shape):
        raise InputError(
            f"cache is of a run of shape {shape}, the input is {tuple(batch.tokens.shape)} [batch, pos]: give the input of "
            "that run."
        )
    if isinstance(cache, Records):
        tokens = records.tokens
        same = tokens is None or torch.equal(tokens.cpu(), batch.tokens.cpu())
    else:
        same = _is_of_tokens(model, getattr(cache, "cache_dict", cache), batch)
    if not same:
        raise InputError(
            "cache is of a run of other tokens than the input, or its embeddings were edited by a hook: give the input of "
            "that run, or leave cache out and give the hooks as fwd_hooks."
        )


def _is_of_tokens(model: Model, cached: Mapping[str, Tensor], batch: Batch) -> bool:
    """Whether what the cache shows of the embedding is that of the input."""
    ids = cached.get(_TOKENS)
    if ids is not None:
        return torch.equal(ids.cpu().reshape(batch.tokens.shape), batch.tokens.cpu())
    first_input = site_names(model, 0)["resid_pre"]
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


class _Reached(Exception):  # noqa: N818 - no error
    """Ends a forward pass at the tensor that was waited for."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


@torch.no_grad()
def _passing(model: Model, batch: Batch, name: str) -> Tensor:
    """What passes a HookPoint before the first layer, without anybody's callbacks."""

    def stop(tensor: Tensor) -> None:
        raise _Reached(tensor)

    with silence(model.hook_points.values()):
        tap = Tap(hook_point(model, name), stop)
        try:
            forward(model, batch)
        except _Reached as reached:
            return reached.tensor
        finally:
            tap.remove()
    raise CaptureError(f"{name} did not fire in a forward pass of {model.name}.")


def refuse_hidden_padding(model: Model, records: Records) -> None:
    """Refuse a cache whose patterns are those of a padded run, where no mask says what is padding."""
    for index in range(next(iter(records.values())).pattern.shape[0]):
        if all(_shows_padding(record, index) for record in records.values()):
            raise InputError(
                f"cache: in no layer does a token of sequence {index} attend to its first or last positions, as in a run of "
                f"{model.name} with padding. Give the attention_mask of that run."
            )


def _shows_padding(record: LayerRecord, index: int) -> bool:
    """Whether the first or the last keys of a sequence are seen by no query, as far as the rows asked for tell."""
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
