"""A layer's sites -> `LayerRecord`: the rows asked for, each step's own tensor, the router's weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.sites import BEFORE_GAIN, site_names
from tl_ffblock.bridge.weights import experts_per_token, normalises_routing, read_block
from tl_ffblock.errors import UnsupportedModelError
from tl_ffblock.layer.records import Block, LayerRecord
from tl_ffblock.layer.scopes import INPUT, PROGRAMS, Add, Normalise

ExtraSite: TypeAlias = Literal["query", "key"]
"""Tensors of a layer that no map needs: the vectors whose products are the attention scores."""


@dataclass(frozen=True)
class CaptureSpec:
    """Which tensors of a run are kept, and in which form."""

    layers: tuple[int, ...]
    dtype: torch.dtype
    """Arithmetic of the decomposition: weights are read in it."""
    rows: Int[Tensor, "batch query"] | None = None
    """Positions to keep as rows; None means all."""
    extra: frozenset[ExtraSite] = field(default=frozenset())
    """Sites beyond those of the maps."""


_OPTIONAL = ("pre", "pre_linear", "post", "query", "key")


def make_record(
    model: Model, spec: CaptureSpec, layer: int, tensors: Mapping[str, Tensor], *, edited: bool
) -> LayerRecord:
    """A layer's record from its sites; a norm's output read before its gain gets it here."""
    rows = spec.rows
    block = read_block(model, layer, spec.dtype)
    batch, positions = tensors["resid_pre"].shape[:2]
    everything = torch.arange(positions).expand(batch, positions)
    queries = (everything if rows is None else rows).to(tensors["resid_pre"].device)
    if edited and block.causal and _sees_later(tensors["pattern"], queries):
        block = replace(block, causal=False)  # or the cells that an edited pattern filled would be left out
    return LayerRecord(
        block=block,
        queries=queries,
        resid_pre=tensors["resid_pre"],
        pattern=tensors["pattern"],
        value=tensors["value"],
        whole=_whole(model, block, tensors, rows),
        routing=routing_weights(model, layer, tensors),
        edited=edited,
        **{site: tensors.get(site) for site in _OPTIONAL},
    )


def _sees_later(pattern: Tensor, queries: Tensor) -> bool:
    """Whether a query attends to a later token."""
    later = torch.arange(pattern.shape[-1], device=queries.device) > queries[..., None]
    return bool((pattern.detach() * later.to(pattern.device)[:, None]).any())


def _whole(model: Model, block: Block, tensors: Mapping[str, Tensor], rows: Tensor | None) -> dict[str, Tensor]:
    """The model's own tensor at the end of every step."""
    names = site_names(model, block.layer)
    whole: dict[str, Tensor] = {}
    for step in PROGRAMS[block.order]:
        scope, operation = step.scope, step.operation
        if step.at_keys:
            continue
        if f"whole.{scope}" not in tensors:
            # x + attention of a parallel block is no tensor of the model
            assert operation == Add("Attn", INPUT), scope
            whole[scope] = whole["Attn"] + _rows_of(tensors["resid_pre"], rows)
            continue
        tensor = tensors[f"whole.{scope}"]
        if names[f"whole.{scope}"].endswith(f".{BEFORE_GAIN}"):
            if isinstance(operation, Normalise):
                norm = block.norm(operation.norm)
                tensor = tensor.to(norm.gain.dtype) * norm.gain + norm.shift
            else:
                tensor = tensor * tensors[f"scale.{scope}"]
        whole[scope] = tensor
    return whole


def routing_weights(model: Model, layer: int, tensors: Mapping[str, Tensor]) -> Tensor | None:
    """The weights a router gave to its experts, [batch query expert]; the shared expert's gate last."""
    if "router_logits" in tensors:
        probabilities = tensors["router_logits"].float().softmax(dim=-1)
        chosen = probabilities.topk(experts_per_token(model, layer), dim=-1).indices
    elif "probabilities" in tensors:
        probabilities, chosen = tensors["probabilities"], tensors["chosen"].long()
    else:
        return None
    weights = probabilities.gather(-1, chosen)
    if normalises_routing(model, layer):
        weights = weights / weights.sum(dim=-1, keepdim=True)
    routing = torch.zeros_like(probabilities).scatter(-1, chosen, weights)
    return routing if "shared" not in tensors else torch.cat([routing, tensors["shared"].sigmoid()], dim=-1)


def one_for_all_heads(site: str, tensor: Tensor) -> Tensor:
    """What a norm makes of copies of its input, one for each head, as a single [batch pos d]; other sites as they are.

    HookedTransformer hands each head a copy where `use_split_qkv_input` or `use_attn_in` is set. The copies are equal
    unless a hook edits a head's: then it is their mean, and the edit's effect is in the remainder.
    """
    if tensor.ndim != 4 or not site.startswith("whole."):
        return tensor
    first = tensor[:, :, 0]
    return first if bool((tensor == first[:, :, None]).all()) else tensor.mean(dim=2)


def select_rows(site: str, tensor: Tensor, rows: Tensor | None, size: tuple[int, int], *, copy: bool = True) -> Tensor:
    """The rows asked for; `copy` makes it a tensor that no later in-place edit can reach."""
    if site in ("value", "key"):
        return tensor.clone() if copy else tensor
    if site == "pattern":
        if rows is None:
            return tensor
        index = rows.to(tensor.device)[:, None, :, None].expand(-1, tensor.shape[1], -1, tensor.shape[3])
        return tensor.gather(2, index)
    if site == "query":
        return (
            (tensor.clone() if copy else tensor)
            if rows is None
            else _rows_of(tensor.flatten(2), rows).reshape(*rows.shape, *tensor.shape[2:])
        )
    if tensor.numel() != size[0] * size[1] * tensor.shape[-1]:
        raise UnsupportedModelError(
            f"{site} has shape {tuple(tensor.shape)} in a run of {size} [batch, pos]: the model computes it for some positions "
            "at a time (chunk_size_feed_forward?). Set that to 0."
        )
    tensor = tensor.reshape(*size, tensor.shape[-1])
    if rows is None or site == "resid_pre":
        return tensor.clone() if copy else tensor
    return _rows_of(tensor, rows)


def _rows_of(tensor: Tensor, rows: Tensor | None) -> Tensor:
    if rows is None:
        return tensor
    return tensor.gather(1, rows.to(tensor.device)[:, :, None].expand(-1, -1, tensor.shape[-1]))
