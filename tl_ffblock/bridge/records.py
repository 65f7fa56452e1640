"""`LayerRecord` of a layer from its HookPoints, complete with the layer's last tensor.

1. Every site is read after all other callbacks (callbacks.py). The reading callbacks are removed at the end of the context.
2. `Watch` detects whether another callback changed a tensor inside the block. The remainder of contributions and bias is then the
   effect of this edit.
3. In BERT, OPT and GPT-J bridges, Hugging Face computes attention, and the pattern's HookPoint fires afterwards. An edit of the
   pattern then has no effect, and the record has the pattern that was used.
4. In a forward pass with gradients, the record's tensors are part of its graph.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.attention import shown
from tl_ffblock.bridge.callbacks import HookPoint, LastCallback, Watch
from tl_ffblock.bridge.layers import BEFORE_GAIN, BoundLayer, ExtraSite
from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import CaptureError, FFBlockError, ScopeKeyError, UnsupportedModelError, warn
from tl_ffblock.layer.records import Block, LayerRecord
from tl_ffblock.layer.scopes import INPUT, STEPS, Add, Feed, Normalise

RecordHandler: TypeAlias = Callable[[LayerRecord], None]
_OPTIONAL = ("pre", "pre_linear", "post", "query", "key", "taps", "constant")


@dataclass(frozen=True)
class CaptureSpec:
    """Tensors of a forward pass to cache.

    `dtype` is the arithmetic of the decomposition, in which weights are read. `rows` are query positions to keep; None means all.
    `extra` are further sites, which maps do not need.
    """

    layers: tuple[int, ...]
    dtype: torch.dtype
    rows: Int[Tensor, "batch query"] | None = None
    extra: frozenset[ExtraSite] = frozenset()


class Records(Mapping[int, LayerRecord]):
    """Layer records of the last forward pass: `records[layer]`."""

    def __init__(self, model: Model, layers: tuple[int, ...]) -> None:
        self.model = model
        self.layers = layers
        self._complete: dict[int, LayerRecord] = {}
        self.pending: dict[int, set[str]] = {}
        """By layer: sites of the last forward pass that are still missing."""
        self.edited: set[int] = set()
        """Layers in which another callback changed a tensor, in any forward pass."""
        self.tokens: Int[Tensor, "batch pos"] | None = None
        """Token ids of the last forward pass; None if its input was embeddings."""
        self._embedded: Int[Tensor, "batch pos"] | None = None

    def __getitem__(self, layer: int) -> LayerRecord:
        if layer in self._complete:
            return self._complete[layer]
        if layer not in self.layers:
            raise ScopeKeyError(
                f"layer {layer!r} was not captured, expected one of {', '.join(map(str, self.layers))}."
            )
        raise self.incomplete(layer)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._complete))

    def __len__(self) -> int:
        return len(self._complete)

    def embeds(self, _: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Pre-hook of the embedding: stores the token ids of a forward pass."""
        ids = args[0] if args else named.get("input_ids")
        if isinstance(ids, Tensor) and not ids.is_floating_point():
            self._embedded = ids.detach().reshape(-1, ids.shape[-1])

    def forget(self, _: Tensor) -> None:
        """Callback at the first layer: removes records of earlier forward passes."""
        self.tokens, self._embedded = self._embedded, None
        self._complete.clear()
        self.pending.clear()

    def keep(self, record: LayerRecord) -> None:
        """Store a layer's record, in place of an earlier one."""
        self._complete[record.layer] = record

    def incomplete(self, layer: int) -> Exception:
        """The error for a layer without a record."""
        missing = self.pending.get(layer)
        if missing is None:
            return CaptureError(
                f"layer {layer}: no forward pass reached it inside the capture context. Run the model in it."
            )
        if missing == {"pattern"}:
            return UnsupportedModelError(
                f"layer {layer}: the model has no attention pattern (attn.hook_pattern did not fire), as with "
                'attn_implementation="sdpa". Load the Hugging Face model with attn_implementation="eager".'
            )
        if missing <= {"query", "key"}:
            return UnsupportedModelError(
                f"layer {layer}: the model has no rotated {' and '.join(sorted(missing))} vectors: the HookPoint after their rotation "
                "does not fire."
            )
        return CaptureError(
            f"layer {layer}: {', '.join(sorted(missing))} did not arrive. Run the model to its end (without stop_at_layer), "
            "with these HookPoints on."
        )


class IgnoredEditWarning(FFBlockError, UserWarning):  # noqa: N818 - a warning
    """A hook edited a tensor after the model had used it: the edit has no effect."""


class _Collector:
    def __init__(self, model: Model, spec: CaptureSpec, layer: int, done: RecordHandler, records: Records) -> None:
        self.layer, self.names = layer, model.layers[layer].site_names(spec.extra)
        self._model, self._spec, self._done, self._pending = model, spec, done, records.pending
        self._start()

    def _start(self) -> None:
        self._tensors: dict[str, Tensor] = {}
        self._edited = self._attended = False
        self._used_pattern: Tensor | None = None

    def receive(self, site: str, tensor: Tensor) -> Tensor | None:
        """Cache a site. With gradients, the model continues with a copy, so that the cached tensor is part of autograd's graph."""
        if site == "resid_pre":
            self._start()
        elif not self._tensors:
            return None  # HookedTransformer calls the next layer's norm three times, for q, k and v
        after_use = site == "pattern" and self._attended
        if after_use:
            tensor = tensor.clone() if self._used_pattern is None else self._used_pattern
        layer, given = self._model.layers[self.layer], tensor
        arranged = layer.arranged(site, given)
        tensor = one_for_all_heads(site, arranged)
        size = (tensor if site == "resid_pre" else self._tensors["resid_pre"]).shape[:2]
        in_graph = tensor is arranged and tensor.requires_grad and self._spec.rows is None and not after_use
        kept = select_rows(site, tensor, self._spec.rows, (size[0], size[1]), copy=not in_graph)
        halves = layer.halves(site, kept)
        self._tensors |= halves
        kept = kept if len(halves) == 1 else torch.cat([*halves.values()], dim=-1)
        onward = layer.restored(site, kept.reshape(tensor.shape).clone(), given) if in_graph else None
        self._pending[self.layer] = set(self.names) - set(self._tensors)
        if not self._pending[self.layer]:
            tensors, self._tensors = self._tensors, {}
            self._done(make_record(self._model.layers[self.layer], self._spec, tensors, edited=self._edited))
        return onward

    def attend(self, *_: Any) -> None:
        self._attended = True

    def mark_edited(self, before: Tensor, *, of_pattern: bool) -> None:
        if not (of_pattern and self._attended):
            self._edited = True
            return
        model, name = self._model, self.names["pattern"]
        conversion = model.hook_point(name).hook_conversion
        self._used_pattern = before if conversion is None else conversion.convert(before)
        warn(
            f"{name} was edited, but {model.name} ({model.family.name}) computes attention before this HookPoint "
            "fires: the edit has no effect, and the map is of the pattern that was used. Edit attn.hook_v or "
            "attn.hook_z instead.",
            IgnoredEditWarning,
        )


@contextmanager
def collecting(
    model: Model,
    spec: CaptureSpec,
    handle: RecordHandler | None = None,
    *,
    watch: bool = True,
    by_rows: bool = False,
) -> Iterator[Records]:
    """Context with layer records of every forward pass inside.

    Args:
        model: The model.
        spec: Tensors to cache.
        handle: Called with each layer's record when it is complete; None stores it in the returned records.
        watch: Whether to detect changes by other callbacks; not needed without any.
        by_rows: Whether attention runs by rows (`attention.shown`); only without other callbacks.
    """
    records = Records(model, spec.layers)

    def done(record: LayerRecord) -> None:
        if record.edited:
            records.edited.add(record.layer)
        (handle or records.keep)(record)

    with ExitStack() as stack:

        def fit(removable: Any) -> None:
            stack.callback(removable.remove)

        collectors = [_Collector(model, spec, layer, done, records) for layer in spec.layers]
        inside = _hook_points_inside(model) if watch else []
        for collector in collectors if watch else ():
            pattern = None
            if "pattern" in collector.names:
                pattern, values = (
                    model.hook_point(name)
                    for name in (collector.names["pattern"], model.layers[collector.layer].values_name)
                )
                fit(values.register_forward_pre_hook(collector.attend))
            for point in inside[collector.layer]:
                fit(Watch(point, partial(collector.mark_edited, of_pattern=point is pattern)))
        fit(LastCallback(model.hook_point(model.layers[spec.layers[0]].sites["resid_pre"]), records.forget))
        fit(model.hooked.embed.register_forward_pre_hook(records.embeds, with_kwargs=True))
        for collector in collectors:
            for site, name in collector.names.items():
                receive = partial(collector.receive, site)
                fit(
                    model.layers[collector.layer].on_module(site, receive)
                    or LastCallback(model.hook_point(name), receive)
                )
        stack.enter_context(shown(model, pattern=True, rows=spec.rows if by_rows else None, by_rows=by_rows))
        yield records


def _hook_points_inside(model: Model) -> list[list[HookPoint]]:
    """By layer: HookPoints between its input and the next norm's output, each once."""
    read_by_norm = (
        "ln1.",
        "norm.",
        "hook_in",
        "hook_resid_pre",
        "hook_attn_in",
        "hook_q_input",
    )  # queries' norm runs first
    inside: list[dict[int, HookPoint]] = [{} for _ in range(model.n_layers)]
    for name, point in model.hook_points.items():
        if name.startswith("ln_final."):
            inside[-1][id(point)] = point
        elif name.startswith("blocks."):
            number, rest = name.removeprefix("blocks.").split(".", 1)
            if rest not in ("hook_in", "hook_resid_pre"):
                inside[int(number)][id(point)] = point
            if int(number) > 0 and rest.startswith(read_by_norm):
                inside[int(number) - 1][id(point)] = point
    return [list(points.values()) for points in inside]


def make_record(layer: BoundLayer, spec: CaptureSpec, tensors: Mapping[str, Tensor], *, edited: bool) -> LayerRecord:
    """Record of a layer from its sites; gains are applied to norm outputs that were read before them."""
    block, resid_pre = layer.read(spec.dtype), tensors["resid_pre"]
    if layer.is_recurrent:
        tensors = {**tensors, **_mixed(layer, spec, tensors["mixed"])}
    batch, positions = resid_pre.shape[:2]
    edited = edited or layer.adds_after
    every_row = torch.arange(positions, device=resid_pre.device).expand(batch, positions)
    queries = every_row if spec.rows is None else spec.rows.to(resid_pre.device)
    if edited and block.causal:
        later = torch.arange(tensors["pattern"].shape[-1], device=queries.device) > queries[..., None]
        if bool((tensors["pattern"].detach() * later.to(tensors["pattern"].device)[:, None]).any()):
            block = replace(block, causal=False)  # else cells above the diagonal of an edited pattern would be omitted
    return LayerRecord(
        block=block,
        queries=queries,
        resid_pre=resid_pre,
        pattern=tensors["pattern"],
        value=tensors["value"],
        whole=_whole(layer, block, tensors, spec.rows),
        gate=_gate(layer, block, tensors),
        post_factor=layer.post_factor(tensors.get("pre"), tensors.get("pre_linear")),
        routing=layer.routing_weights(tensors),
        edited=edited,
        **{site: tensors.get(site) for site in _OPTIONAL},
    )


@torch.no_grad()
def _mixed(layer: BoundLayer, spec: CaptureSpec, x: Float[Tensor, "batch pos d"]) -> dict[str, Tensor]:
    """Pattern, values, gate and taps of a mixer without a softmax, from its input; those of queries at the requested rows."""
    mixed = layer.mixer(spec.dtype).mix(x.detach().to(spec.dtype), rows=spec.rows)
    names = "pattern", "value", "gate", "taps", "constant"
    return {name: tensor for name in names if (tensor := getattr(mixed, name)) is not None}


def _gate(layer: BoundLayer, block: Block, tensors: Mapping[str, Tensor]) -> Tensor | None:
    if block.attention.norm is not None:
        return block.attention.reciprocal_scale(tensors["pattern"], tensors["value"])
    return layer.gate(tensors["gate"]) if "gate" in tensors else None


def _whole(layer: BoundLayer, block: Block, tensors: Mapping[str, Tensor], rows: Tensor | None) -> dict[str, Tensor]:
    whole: dict[str, Tensor] = {}
    for step in STEPS[layer.order]:
        scope, operation = step.scope, step.operation
        if f"whole.{scope}" not in tensors:
            # a parallel block has no tensor x + attention
            assert operation == Add("Attn", INPUT), scope
            whole[scope] = block.factors(operation)[0] * whole["Attn"] + _rows_of(tensors["resid_pre"], rows)
            continue
        tensor = tensors[f"whole.{scope}"]
        if isinstance(operation, Feed) and "beside" in tensors:
            tensor = tensor + tensors["beside"]
        if layer.sites[f"whole.{scope}"].endswith(f".{BEFORE_GAIN}"):
            if isinstance(operation, Normalise):
                norm = block.norm(operation.norm)
                tensor = tensor.to(norm.gain.dtype) * norm.gain + norm.shift
            else:
                tensor = tensor * tensors[f"scale.{scope}"]
        whole[scope] = tensor
    return whole


def one_for_all_heads(site: str, tensor: Tensor) -> Tensor:
    """Norm output [batch pos head d] of one copy of the input per head as one tensor [batch pos d]; other sites unchanged.

    HookedTransformer has a copy per head if `use_split_qkv_input` or `use_attn_in` is set. Copies are equal unless a hook edits
    one. Then the result is their mean, and the edit's effect is in the remainder.
    """
    if tensor.ndim != 4 or not site.startswith("whole."):
        return tensor
    first = tensor[:, :, 0]
    return first if bool((tensor == first[:, :, None]).all()) else tensor.mean(dim=2)


def select_rows(site: str, tensor: Tensor, rows: Tensor | None, size: tuple[int, int], *, copy: bool = True) -> Tensor:
    """Requested rows of a site; with `copy`, later in-place edits do not change them.

    Raises:
        UnsupportedModelError: if the tensor does not have all positions.
    """
    if site == "pattern":
        if rows is None or tensor.shape[2] == rows.shape[1]:  # with attention by rows, the pattern has only these
            return tensor
        return torch.take_along_dim(tensor, rows.to(tensor.device)[:, None, :, None], dim=2)
    heads: Sequence[int] = tensor.shape[2:] if site in ("value", "key", "query") else ()
    if not heads:
        if tensor.numel() != size[0] * size[1] * tensor.shape[-1]:
            raise UnsupportedModelError(
                f"{site} has shape {tuple(tensor.shape)} in a forward pass of {size} [batch, pos]: the model computes some positions "
                "at a time. Set chunk_size_feed_forward to 0."
            )
        tensor = tensor.reshape(*size, tensor.shape[-1])
    if rows is None or site in ("value", "key", "resid_pre", "mixed"):  # these have all positions
        return tensor.clone() if copy else tensor
    return _rows_of(tensor.flatten(2), rows).reshape(*rows.shape, *(heads or tensor.shape[2:]))


def _rows_of(tensor: Tensor, rows: Tensor | None) -> Tensor:
    return tensor if rows is None else torch.take_along_dim(tensor, rows.to(tensor.device)[:, :, None], dim=1)
