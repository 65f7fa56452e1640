"""A run that was cached before, with `run_with_cache`, edited by hooks or not -> its records."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from tl_ffblock.bridge.assembly import CaptureSpec, make_record, one_for_all_heads, select_rows
from tl_ffblock.bridge.batching import Batch
from tl_ffblock.bridge.collector import Records, hook_point
from tl_ffblock.bridge.inputs import at_model
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.probe import probe
from tl_ffblock.bridge.selfcheck import identities
from tl_ffblock.bridge.sites import site_names
from tl_ffblock.errors import CaptureError, InputError
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.settings import Settings

_ROUGHLY = 0.05
"""Relative error up to which a cached tensor follows from the weights, in any dtype; that of another model's is about 1."""


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
    if not any(_follows_from_weights(record) for record in records.values()):
        raise CaptureError(
            f"cache: no tensor in it follows from the weights of {model.name}, in none of the layers asked for. Is it of "
            "another model, or were the weights changed since? Leave cache out and the model is run once more."
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


def _follows_from_weights(record: LayerRecord) -> bool:
    """Whether any sum of the layer that weights enter is what the record says: edits break some, not all."""
    rows = record.sequence(0).rows(slice(0, 4))
    errors = (error for name, error in identities(rows) if "W_" in name or "router" in name)
    return any(error < _ROUGHLY for error in errors)


def refuse_other_run(model: Model, records: Records, settings: Settings) -> None:
    """Refuse records of another model, or of another arithmetic than a call asks for."""
    if records.model.hooked is not model.hooked:
        raise InputError(f"cache holds records of another model ({records.model.name}), not of this {model.name}.")
    captured = {record.block.attention.w_o.dtype for record in records.values()}
    if captured and captured != {settings.dtype}:
        raise InputError(
            f"cache was captured for {captured.pop()} arithmetic, precision={settings.precision!r} asks for {settings.dtype}: "
            f"capture with dtype={settings.dtype}, or leave one of the two out."
        )


def refuse_other_tokens(record: LayerRecord, batch: Batch, cache: Any) -> None:
    """Refuse a cache of a run of another shape, or of other tokens where it shows them."""
    if record.resid_pre.shape[:2] != batch.tokens.shape:
        raise InputError(
            f"cache is of a run of shape {tuple(record.resid_pre.shape[:2])}, the input is {tuple(batch.tokens.shape)} "
            "[batch, pos]: give the input of that run."
        )
    cached = getattr(cache, "cache_dict", {}).get("embed.hook_in")
    if cached is not None and not torch.equal(cached.cpu().reshape(batch.tokens.shape), batch.tokens):
        raise InputError("cache is of a run of other tokens than the input: give the input of that run.")


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
