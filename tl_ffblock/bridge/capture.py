"""HookPoint callbacks -> `LayerRecord`: what a layer needs and nothing more.

A tap sits on each HookPoint as a forward pre-hook and adds its reading callback at the moment the
HookPoint fires, so it always comes after every other callback, whenever those were added: what is
read is what the rest of the model received. Nothing of ours stays on a HookPoint between two
firings but the tap, and leaving the context removes that too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from tl_ffblock.bridge.families import Model, identify
from tl_ffblock.bridge.sites import BEFORE_GAIN, site_names
from tl_ffblock.bridge.weights import experts_per_token, normalises_routing, read_block, working_dtype
from tl_ffblock.errors import CaptureError, InputError, ScopeKeyError, UnsupportedModelError
from tl_ffblock.records import Block, LayerRecord
from tl_ffblock.scopes import INPUT, PROGRAMS, Add, Normalise

_PER_QUERY = ("pre", "pre_linear", "post")

Receiver = Callable[[LayerRecord], None]


@dataclass(frozen=True)
class Wanted:
    """What of a run is kept, and in which form."""

    model: Model
    rows: Int[Tensor, "batch query"] | None
    """Positions to keep as rows; None means all."""
    dtype: torch.dtype
    """Arithmetic of the decomposition: weights are read in it."""


class Records(Mapping[int, LayerRecord]):
    """The captured layers of the last forward pass: `records[layer]`."""

    def __init__(self, model: Model, layers: tuple[int, ...]) -> None:
        self.model = model
        self.layers = layers
        self._complete: dict[int, LayerRecord] = {}
        self.pending: dict[int, set[str]] = {}
        """Sites still awaited, by layer, of the last forward pass."""

    def __getitem__(self, layer: int) -> LayerRecord:
        if layer in self._complete:
            return self._complete[layer]
        if layer not in self.layers:
            raise ScopeKeyError(f"layer {layer!r} was not captured; captured are {', '.join(map(str, self.layers))}")
        raise self.incomplete(layer)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._complete))

    def __len__(self) -> int:
        return len(self._complete)

    def keep(self, record: LayerRecord) -> None:
        """Add a layer's record in place of an earlier one."""
        self._complete[record.layer] = record

    def incomplete(self, layer: int) -> Exception:
        """Why a layer has no record."""
        missing = self.pending.get(layer)
        if missing is None:
            return CaptureError(
                f"layer {layer}: no forward pass reached it inside the capture context. Run the model in it."
            )
        if missing == {"pattern"}:
            return UnsupportedModelError(
                f"layer {layer}: the model gives no attention pattern (attn.hook_pattern did not fire), as with "
                'attn_implementation="sdpa". Load the Hugging Face model with attn_implementation="eager".'
            )
        return CaptureError(
            f"layer {layer}: {', '.join(sorted(missing))} did not arrive. Was the run stopped early (stop_at_layer) "
            "or are these HookPoints off?"
        )


class _Tap:
    """Reads one HookPoint after all of its other callbacks."""

    def __init__(self, hook_point: Any, receive: Callable[[Tensor], None]) -> None:
        self._hook_point = hook_point
        self._receive = receive
        self._reader: Any = None
        self._arming = hook_point.register_forward_pre_hook(self._arm)

    def _arm(self, *_: Any) -> None:
        self._disarm()
        self._hook_point.add_hook(self._read)
        self._reader = self._hook_point.fwd_hooks[-1]

    def _read(self, tensor: Tensor, hook: Any) -> None:
        self._disarm()
        self._receive(tensor)

    def _disarm(self) -> None:
        if self._reader is not None:
            self._reader.hook.remove()
            self._hook_point.fwd_hooks[:] = [h for h in self._hook_point.fwd_hooks if h is not self._reader]
            self._reader = None

    def remove(self) -> None:
        self._arming.remove()
        self._disarm()


class _Watch:
    """Notices whether other callbacks change what passes one HookPoint."""

    def __init__(self, hook_point: Any, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._comparison: Any = None
        self._arming = hook_point.register_forward_pre_hook(self._arm)

    def _arm(self, hook_point: Any, args: tuple[Any, ...]) -> None:
        if hook_point.fwd_hooks and isinstance(args[0], Tensor):
            before = args[0].detach().clone()
            self._comparison = hook_point.register_forward_hook(lambda *event: self._compare(before, event[2]))

    def _compare(self, before: Tensor, after: Tensor) -> None:
        self._comparison.remove()
        if not torch.equal(before, after):
            self._changed()

    def remove(self) -> None:
        self._arming.remove()
        if self._comparison is not None:
            self._comparison.remove()


class _LayerCollector:
    """Gathers the sites of one layer and hands over the record when the last one has come."""

    def __init__(self, wanted: Wanted, layer: int, done: Receiver, pending: dict[int, set[str]]) -> None:
        self.names = site_names(wanted.model, layer)
        self.layer = layer
        self._wanted = wanted
        self._done = done
        self._pending = pending
        self._tensors: dict[str, Tensor] = {}
        self._edited = False

    def receive(self, site: str, tensor: Tensor) -> None:
        if site == "resid_pre":
            self._tensors, self._edited = {}, False
        elif not self._tensors:
            return  # HookedTransformer runs the next layer's norm three times, for q, k and v
        batch, positions = (tensor if site == "resid_pre" else self._tensors["resid_pre"]).shape[:2]
        self._tensors[site] = _select(site, tensor, self._wanted.rows, (batch, positions))
        self._pending[self.layer] = set(self.names) - set(self._tensors)
        if not self._pending[self.layer]:
            record = make_record(self._wanted, self.layer, self._tensors, edited=self._edited)
            self._tensors = {}
            self._done(record)

    def mark_edited(self) -> None:
        """Another callback changed a tensor inside the block."""
        self._edited = True


def make_record(wanted: Wanted, layer: int, tensors: Mapping[str, Tensor], *, edited: bool) -> LayerRecord:
    """A layer's record from its sites; a norm's output read before its gain gets it here."""
    model, rows = wanted.model, wanted.rows
    block = read_block(model, layer, wanted.dtype)
    batch, positions = tensors["resid_pre"].shape[:2]
    everything = torch.arange(positions).expand(batch, positions)
    return LayerRecord(
        block=block,
        queries=(everything if rows is None else rows).to(tensors["resid_pre"].device),
        resid_pre=tensors["resid_pre"],
        pattern=tensors["pattern"],
        value=tensors["value"],
        whole=_whole(model, block, tensors, rows),
        routing=_routing(model, layer, tensors),
        edited=edited,
        **{site: tensors.get(site) for site in _PER_QUERY},
    )


def _whole(model: Model, block: Block, tensors: Mapping[str, Tensor], rows: Tensor | None) -> dict[str, Tensor]:
    """The model's own tensor at the end of every step."""
    names = site_names(model, block.layer)
    whole: dict[str, Tensor] = {}
    for step in PROGRAMS[block.order]:
        scope, operation = step.scope, step.operation
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


def _routing(model: Model, layer: int, tensors: Mapping[str, Tensor]) -> Tensor | None:
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


def records_of_cache(wanted: Wanted, cache: Any, layers: tuple[int, ...]) -> Records:
    """The records of a run that was cached before, with `run_with_cache`.

    Raises:
        InputError: if the cache lacks a site.
    """
    model, cached = wanted.model, getattr(cache, "cache_dict", cache)
    records = Records(model, layers)
    for layer in layers:
        names = site_names(model, layer)
        canonical = {site: _hook_point(model, name).name for site, name in names.items()}
        found = {site: cached.get(name, cached.get(canonical[site])) for site, name in names.items()}
        missing = [names[site] for site, tensor in found.items() if tensor is None]
        if missing:
            raise InputError(
                f"cache has no {', '.join(missing)}: cache the whole run (names_filter=None), or leave cache out and the "
                "model is run once more."
            )
        with_batch = {site: t if getattr(cache, "has_batch_dim", True) else t[None] for site, t in found.items()}
        size = with_batch["resid_pre"].shape[:2]
        chosen = {site: _select(site, tensor, wanted.rows, size) for site, tensor in with_batch.items()}
        records.keep(make_record(wanted, layer, chosen, edited=True))
    return records


def _select(site: str, tensor: Tensor, rows: Tensor | None, size: tuple[int, int]) -> Tensor:
    """The rows asked for, as a tensor of our own: a later in-place edit must not reach it."""
    if site == "value":
        return tensor
    if site == "pattern":
        if rows is None:
            return tensor
        index = rows.to(tensor.device)[:, None, :, None].expand(-1, tensor.shape[1], -1, tensor.shape[3])
        return tensor.gather(2, index)
    tensor = tensor.reshape(*size, tensor.shape[-1])
    return tensor.clone() if rows is None or site == "resid_pre" else _rows_of(tensor, rows)


def _rows_of(tensor: Tensor, rows: Tensor | None) -> Tensor:
    if rows is None:
        return tensor
    return tensor.gather(1, rows.to(tensor.device)[:, :, None].expand(-1, -1, tensor.shape[-1]))


@contextmanager
def capture(
    model: Any,
    layers: Sequence[int] | int | None = None,
    *,
    queries: Tensor | None = None,
    on_record: Receiver | None = None,
    dtype: torch.dtype | None = None,
) -> Iterator[Records]:
    """Record layers of every forward pass that runs inside the context.

    Works alone or among other hooks, in any order of registration, and inside `run_with_hooks` or
    `run_with_cache`; leaves no hook behind after success or exception. Tensors keep their graph where
    the model ran with gradients.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder.
        layers: Layer numbers, negative ones from the end; None means all.
        queries: Positions to keep as rows, [batch query]; None means all.
        on_record: Called with each layer's record as soon as it is complete, in place of keeping it,
            so that long runs need the memory of one layer only.
        dtype: Arithmetic of the decomposition; None means float64 for float64 models, else float32.

    Yields:
        Records: `records[layer]` after the forward pass.

    Raises:
        InputError: if a layer does not exist or the model is in training mode.
        UnsupportedModelError: if the architecture is not supported.
    """
    known = model if isinstance(model, Model) else identify(model)
    wanted = select_layers(known, layers)
    records = Records(known, wanted)

    form = Wanted(known, queries, working_dtype(known) if dtype is None else dtype)
    taps: list[_Tap | _Watch] = []
    try:
        collectors = [_LayerCollector(form, layer, on_record or records.keep, records.pending) for layer in wanted]
        for collector in collectors:
            taps += [_Watch(point, collector.mark_edited) for point in _hook_points_of(known, collector.layer)]
        for collector in collectors:
            for site, name in collector.names.items():
                taps.append(_Tap(_hook_point(known, name), _to(collector, site)))
        yield records
    finally:
        for tap in taps:
            tap.remove()


def select_layers(model: Model, layers: Sequence[int] | int | None) -> tuple[int, ...]:
    """The asked layers, ascending, negative numbers counted from the end."""
    if layers is None:
        return tuple(range(model.n_layers))
    asked = (layers,) if isinstance(layers, int) else tuple(layers)
    wrong = [layer for layer in asked if not isinstance(layer, int) or not -model.n_layers <= layer < model.n_layers]
    if wrong or not asked:
        raise InputError(f"layers={list(asked)}: {model.name} has layers 0 to {model.n_layers - 1}.")
    return tuple(sorted({layer % model.n_layers for layer in asked}))


def _to(collector: _LayerCollector, site: str) -> Callable[[Tensor], None]:
    return lambda tensor: collector.receive(site, tensor)


def _hook_point(model: Model, name: str) -> Any:
    hook_dict = model.lens.hook_dict
    if name not in hook_dict:
        raise UnsupportedModelError(
            f"{model.name} ({model.family.name}) has no HookPoint {name}: its block cannot be captured."
        )
    return hook_dict[name]


def _hook_points_of(model: Model, layer: int) -> list[Any]:
    """Every HookPoint between the layer's input and the next norm's output."""
    own, following = f"blocks.{layer}.", f"blocks.{layer + 1}."
    prefixes = (own, f"{following}ln1.", f"{following}hook_in", f"{following}hook_resid_pre", "ln_final.")
    inputs = (f"{own}hook_in", f"{own}hook_resid_pre")
    points = (p for name, p in model.lens.hook_dict.items() if name.startswith(prefixes) and name not in inputs)
    return list({id(point): point for point in points}.values())
