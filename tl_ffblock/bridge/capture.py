"""HookPoint callbacks -> `LayerRecord`: what a layer needs and nothing more.

1. Taps read every site after all other callbacks (taps.py); leaving the context removes them.
2. Watches notice whether another callback changed a tensor inside the block: then what parts and bias
   miss is that edit's effect. So that a wrong reading of the model cannot pass for one, the identities
   of an edited layer are checked on a small clean run, once a model.
3. An edit of a pattern that attention has used already (BERT, OPT, GPT-J bridges: Hugging Face computes
   it, the HookPoint fires afterwards) changes nothing in the run: the record holds the pattern that was used.
4. Where the model runs with gradients the record's tensors are the run's own: gradients flow through them.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex

import torch
from jaxtyping import Int
from torch import Tensor

from tl_ffblock.bridge.inputs import Batch, forward
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.bridge.selfcheck import check_once, identities
from tl_ffblock.bridge.sites import BEFORE_GAIN, site_names
from tl_ffblock.bridge.taps import Tap, Watch, silence
from tl_ffblock.bridge.weights import experts_per_token, normalises_routing, read_block, working_dtype
from tl_ffblock.errors import CaptureError, FFBlockError, InputError, ScopeKeyError, UnsupportedModelError
from tl_ffblock.layer.records import Block, LayerRecord
from tl_ffblock.layer.scopes import INPUT, PROGRAMS, Add, Normalise

_PER_QUERY = ("pre", "pre_linear", "post")

_PROBE_TOKENS = 8
_PROBE_TOLERANCE = {torch.float64: 1e-6, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Relative error of the identities on the clean run, by the model's dtype; else 1e-4."""

_ROUGHLY = 0.05
"""Relative error up to which a cached tensor follows from the weights, in any dtype; another model's miss by about 1."""

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

    def forget(self) -> None:
        """A new forward pass begins: nothing of an earlier one is left."""
        self._complete.clear()
        self.pending.clear()

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


class IgnoredEditWarning(FFBlockError, UserWarning):  # noqa: N818 - a warning
    """A hook edited a tensor that the model had used already: the run is as if it had not."""


class _LayerCollector:
    """Gathers the sites of one layer and hands over the record when the last one has come."""

    def __init__(self, wanted: Wanted, layer: int, done: Receiver, pending: dict[int, set[str]]) -> None:
        self.names = site_names(wanted.model, layer)
        self.layer = layer
        self._wanted = wanted
        self._done = done
        self._pending = pending
        self._start()

    def _start(self) -> None:
        self._tensors: dict[str, Tensor] = {}
        self._edited = self._attended = False
        self._used_pattern: Tensor | None = None

    def receive(self, site: str, tensor: Tensor) -> Tensor | None:
        """Keep a site; where gradients flow, the model goes on with a copy, so that what is kept lies on their way."""
        if site == "resid_pre":
            self._start()
        elif not self._tensors:
            return None  # HookedTransformer runs the next layer's norm three times, for q, k and v
        after_use = site == "pattern" and self._attended
        if after_use:
            tensor = tensor.clone() if self._used_pattern is None else self._used_pattern
        batch, positions = (tensor if site == "resid_pre" else self._tensors["resid_pre"]).shape[:2]
        on_the_way = tensor.requires_grad and self._wanted.rows is None and not after_use
        self._tensors[site] = kept = _select(site, tensor, self._wanted.rows, (batch, positions), own=not on_the_way)
        onward = kept.reshape(tensor.shape).clone() if on_the_way else None
        self._pending[self.layer] = set(self.names) - set(self._tensors)
        if not self._pending[self.layer]:
            record = make_record(self._wanted, self.layer, self._tensors, edited=self._edited)
            self._tensors = {}
            self._done(record)
        return onward

    def mark_attended(self, *_: Any) -> None:
        """Heads were summed: a pattern that arrives after this is one that was used."""
        self._attended = True

    def mark_edited(self, before: Tensor) -> None:
        """Another callback changed a tensor inside the block."""
        self._edited = True

    def mark_pattern_edited(self, before: Tensor) -> None:
        """Another callback changed the pattern, in time or too late."""
        if not self._attended:
            self._edited = True
            return
        model = self._wanted.model
        conversion = _hook_point(model, self.names["pattern"]).hook_conversion
        self._used_pattern = before if conversion is None else conversion.convert(before)
        warnings.warn(
            f"{self.names['pattern']} was edited, but {model.name} ({model.family.name}) computes attention before this HookPoint "
            "fires: the edit changes nothing in the run, and the map is of the pattern that was used. Edit attn.hook_v or "
            "attn.hook_z instead.",
            IgnoredEditWarning,
            stacklevel=2,
        )


def make_record(wanted: Wanted, layer: int, tensors: Mapping[str, Tensor], *, edited: bool) -> LayerRecord:
    """A layer's record from its sites; a norm's output read before its gain gets it here."""
    model, rows = wanted.model, wanted.rows
    block = read_block(model, layer, wanted.dtype)
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
        routing=_routing(model, layer, tensors),
        edited=edited,
        **{site: tensors.get(site) for site in _PER_QUERY},
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
    """The records of a run that was cached before, with `run_with_cache`, edited by hooks or not.

    Raises:
        InputError: if the cache lacks a site, or holds a pattern that attention did not use.
        IdentityError: if the model is not read rightly (checked on a clean run, once).
        CaptureError: if nothing in the cache follows from the model's weights.
    """
    model, cached = wanted.model, getattr(cache, "cache_dict", cache)
    _verify(model, wanted.dtype, layers)
    records = Records(model, layers)
    for layer in layers:
        names = site_names(model, layer)
        given = {site: _cached(model, cached, name) for site, name in names.items()}
        found = {site: tensor for site, tensor in given.items() if tensor is not None}
        missing = [name for site, name in names.items() if site not in found]
        if missing:
            raise InputError(
                f"cache has no {', '.join(missing)}: cache the whole run (names_filter=None), or leave cache out and the "
                "model is run once more."
            )
        with_batch = {site: t if getattr(cache, "has_batch_dim", True) else t[None] for site, t in found.items()}
        _refuse_unused_pattern(model, cached, layer, with_batch)
        batch, positions = with_batch["resid_pre"].shape[:2]
        chosen = {site: _select(site, tensor, wanted.rows, (batch, positions)) for site, tensor in with_batch.items()}
        records.keep(make_record(wanted, layer, chosen, edited=True))
    if not any(_follows_from_weights(record) for record in records.values()):
        raise CaptureError(
            f"cache: no tensor in it follows from the weights of {model.name}, in none of the layers asked for. Is it of "
            "another model, or were the weights changed since? Leave cache out and the model is run once more."
        )
    return records


def _cached(model: Model, cached: Mapping[str, Tensor], name: str) -> Tensor | None:
    """A tensor of a cache, under the name asked for or the HookPoint's own."""
    return cached.get(name, cached.get(_hook_point(model, name).name))


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
    one = record.sequence(0).rows(slice(0, 4))
    found = (error for name, error in identities(one) if "W_" in name or "router" in name)
    return any(error < _ROUGHLY for error in found)


def _verify(model: Model, dtype: torch.dtype, layers: tuple[int, ...]) -> None:
    """Check the identities of layers on a small clean run, unless this model's were.

    Raises:
        IdentityError: naming layer and identity.
    """
    if model.memory.probed.issuperset(layers):
        return
    length = min(_PROBE_TOKENS, getattr(model.hooked.cfg, "n_ctx", None) or _PROBE_TOKENS)
    tokens = torch.arange(5, 5 + length)[None] % (getattr(model.hooked.cfg, "d_vocab", None) or 5 + length)
    rtol = _PROBE_TOLERANCE.get(next(model.hooked.parameters()).dtype, 1e-4)
    with silence(model.hook_points.values()), capture(model, layers, dtype=dtype) as records:
        forward(model, Batch(tokens))
    for layer in layers:
        check_once(model, records[layer].sequence(0), rtol)
    model.memory.probed.update(layers)


def _select(site: str, tensor: Tensor, rows: Tensor | None, size: tuple[int, int], *, own: bool = True) -> Tensor:
    """The rows asked for; `own` makes it a tensor of our own, that no later in-place edit can reach."""
    if site == "value":
        return tensor.clone() if own else tensor
    if site == "pattern":
        if rows is None:
            return tensor
        index = rows.to(tensor.device)[:, None, :, None].expand(-1, tensor.shape[1], -1, tensor.shape[3])
        return tensor.gather(2, index)
    if tensor.numel() != size[0] * size[1] * tensor.shape[-1]:
        raise UnsupportedModelError(
            f"{site} has shape {tuple(tensor.shape)} in a run of {size} [batch, pos]: the model computes it for some positions "
            "at a time (chunk_size_feed_forward?). Set that to 0."
        )
    tensor = tensor.reshape(*size, tensor.shape[-1])
    if rows is None or site == "resid_pre":
        return tensor.clone() if own else tensor
    return _rows_of(tensor, rows)


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
    `run_with_cache`; leaves no hook behind after success or exception. Where the model ran with
    gradients, tensors keep their graph, and with all queries captured they lie on the way to the
    output: `torch.autograd.grad(output, record.pre)`. Not on it are tensors that no HookPoint hands over
    in time or as they are: the pattern of BERT, OPT and GPT-J bridges, `Atb` of parallel blocks, norms'
    outputs and routing of HookedTransformer.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder.
        layers: Layer numbers, negative ones from the end; None means all.
        queries: Positions to keep as rows, [batch query]; None means all.
        on_record: Called with each layer's record as soon as it is complete, in place of keeping it,
            so that long runs need the memory of one layer only.
        dtype: Arithmetic of the decomposition; None means float64 for float64 models, else float32.

    Yields:
        Records: `records[layer]` after the forward pass.

    Warns:
        IgnoredEditWarning: if a hook edits a pattern after the model has used it.

    Raises:
        InputError: if a layer does not exist or the model is in training mode.
        UnsupportedModelError: if the architecture is not supported.
        IdentityError: on leaving, if hooks edited a layer whose weights are not read rightly.
    """
    known = model if isinstance(model, Model) else identify(model)
    wanted = select_layers(known, layers)
    records = Records(known, wanted)

    form = Wanted(known, queries, working_dtype(known) if dtype is None else dtype)
    edited: set[int] = set()
    receive = on_record or records.keep

    def done(record: LayerRecord) -> None:
        if record.edited:
            edited.add(record.layer)
        receive(record)

    taps: list[Any] = []
    try:
        collectors = [_LayerCollector(form, layer, done, records.pending) for layer in wanted]
        for collector in collectors:
            taps += _watches(known, collector)
        first = site_names(known, wanted[0])["resid_pre"]
        taps.append(Tap(_hook_point(known, first), lambda _: records.forget()))
        for collector in collectors:
            for site, name in collector.names.items():
                taps.append(Tap(_hook_point(known, name), _to(collector, site)))
        yield records
    finally:
        for tap in taps:
            tap.remove()
    _verify(known, form.dtype, tuple(sorted(edited)))


def select_layers(model: Model, layers: Sequence[int] | int | None) -> tuple[int, ...]:
    """The asked layers, ascending, negative numbers counted from the end."""
    if layers is None:
        return tuple(range(model.n_layers))
    asked = (layers,) if isinstance(layers, SupportsIndex) else tuple(layers)
    wrong = [
        layer
        for layer in asked
        if not isinstance(layer, SupportsIndex) or not -model.n_layers <= int(layer) < model.n_layers
    ]
    if wrong or not asked:
        raise InputError(f"layers={list(asked)}: {model.name} has layers 0 to {model.n_layers - 1}.")
    return tuple(sorted({int(layer) % model.n_layers for layer in asked}))


def _watches(model: Model, collector: _LayerCollector) -> list[Any]:
    """Removable watches of a layer's HookPoints, and the mark that attention was computed."""
    pattern = _hook_point(model, collector.names["pattern"])
    z = _hook_point(model, f"blocks.{collector.layer}.attn.hook_z")
    return [
        z.register_forward_pre_hook(collector.mark_attended),
        *(
            Watch(point, collector.mark_pattern_edited if point is pattern else collector.mark_edited)
            for point in _hook_points_of(model, collector.layer)
        ),
    ]


def _to(collector: _LayerCollector, site: str) -> Callable[[Tensor], Tensor | None]:
    return lambda tensor: collector.receive(site, tensor)


def _hook_point(model: Model, name: str) -> Any:
    hook_dict = model.hook_points
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
    points = (p for name, p in model.hook_points.items() if name.startswith(prefixes) and name not in inputs)
    return list({id(point): point for point in points}.values())
