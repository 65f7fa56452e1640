"""HookPoints of a layer -> its `LayerRecord`, as soon as its last tensor has come.

1. Every site is read after all other callbacks (callbacks.py); leaving the context removes the reading ones.
2. Watches notice whether another callback changed a tensor inside the block: then what parts and bias
   miss is that edit's effect.
3. An edit of a pattern that attention has used already (BERT, OPT, GPT-J bridges: Hugging Face computes
   it, the HookPoint fires afterwards) changes nothing in the run: the record holds the pattern that was used.
4. Where the model runs with gradients the record's tensors are the run's own: gradients flow through them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import torch
from jaxtyping import Int
from torch import Tensor

from tl_ffblock.bridge.attention import shown
from tl_ffblock.bridge.callbacks import HookPoint, LastCallback, Watch
from tl_ffblock.bridge.layers import BEFORE_GAIN, BoundLayer, ExtraSite
from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import CaptureError, FFBlockError, ScopeKeyError, UnsupportedModelError, warn
from tl_ffblock.layer.records import Block, LayerRecord
from tl_ffblock.layer.scopes import INPUT, STEPS, Add, Normalise

RecordHandler: TypeAlias = Callable[[LayerRecord], None]
_OPTIONAL = ("pre", "pre_linear", "post", "query", "key")


@dataclass(frozen=True)
class CaptureSpec:
    """Which tensors of a run are kept, and in which form.

    `dtype` is the arithmetic of the decomposition, in which weights are read; `rows` are positions to keep as rows, None means all;
    `extra` are sites beyond those of the maps.
    """

    layers: tuple[int, ...]
    dtype: torch.dtype
    rows: Int[Tensor, "batch query"] | None = None
    extra: frozenset[ExtraSite] = frozenset()


class Records(Mapping[int, LayerRecord]):
    """The captured layers of the last forward pass: `records[layer]`."""

    def __init__(self, model: Model, layers: tuple[int, ...]) -> None:
        self.model = model
        self.layers = layers
        self._complete: dict[int, LayerRecord] = {}
        self.pending: dict[int, set[str]] = {}
        """Sites still awaited, by layer, of the last forward pass."""
        self.edited: set[int] = set()
        """Layers inside which another callback changed a tensor, in any forward pass."""
        self.tokens: Int[Tensor, "batch pos"] | None = None
        """Token ids of the last forward pass; None where it was given embeddings."""
        self._embedded: Int[Tensor, "batch pos"] | None = None

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

    def embeds(self, _: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """A forward pass has begun: its token ids, before its first layer that is captured."""
        ids = args[0] if args else named.get("input_ids")
        if isinstance(ids, Tensor) and not ids.is_floating_point():
            self._embedded = ids.detach().reshape(-1, ids.shape[-1])

    def forget(self, _: Tensor) -> None:
        """A new forward pass has reached the layers: nothing of an earlier one is left."""
        self.tokens, self._embedded = self._embedded, None
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
        if missing <= {"query", "key"}:
            return UnsupportedModelError(
                f"layer {layer}: the model shows no {' and '.join(sorted(missing))} vectors as attention multiplies them: the "
                "HookPoint after their rotation does not fire."
            )
        return CaptureError(
            f"layer {layer}: {', '.join(sorted(missing))} did not arrive. Was the run stopped early (stop_at_layer) "
            "or are these HookPoints off?"
        )


class IgnoredEditWarning(FFBlockError, UserWarning):  # noqa: N818 - a warning
    """A hook edited a tensor that the model had used already: the run is as if it had not."""


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
        """Keep a site; where gradients flow the model goes on with a copy, so that what is kept is part of autograd's graph."""
        if site == "resid_pre":
            self._start()
        elif not self._tensors:
            return None  # HookedTransformer runs the next layer's norm three times, for q, k and v
        after_use = site == "pattern" and self._attended
        if after_use:
            tensor = tensor.clone() if self._used_pattern is None else self._used_pattern
        given, tensor = tensor, one_for_all_heads(site, tensor)
        size = (tensor if site == "resid_pre" else self._tensors["resid_pre"]).shape[:2]
        in_graph = tensor is given and tensor.requires_grad and self._spec.rows is None and not after_use
        kept = self._tensors[site] = select_rows(site, tensor, self._spec.rows, (size[0], size[1]), copy=not in_graph)
        onward = kept.reshape(tensor.shape).clone() if in_graph else None
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
            "fires: the edit changes nothing in the run, and the map is of the pattern that was used. Edit attn.hook_v or "
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
    """Callbacks on the layers of a spec, for every forward pass inside the context.

    Args:
        model: The model.
        spec: What to keep.
        handle: Gets each layer's record as soon as it is complete; None keeps it in the records.
        watch: Whether other callbacks may change tensors. Where nobody listens there is nothing to notice.
        by_rows: Whether attention runs by rows (`attention.shown`); nobody else may listen then.
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
            pattern = model.hook_point(collector.names["pattern"])
            fit(model.hook_point(model.layers[collector.layer].values_name).register_forward_pre_hook(collector.attend))
            for point in inside[collector.layer]:
                fit(Watch(point, partial(collector.mark_edited, of_pattern=point is pattern)))
        fit(LastCallback(model.hook_point(model.layers[spec.layers[0]].sites["resid_pre"]), records.forget))
        fit(model.hooked.embed.register_forward_pre_hook(records.embeds, with_kwargs=True))
        for collector in collectors:
            for site, name in collector.names.items():
                fit(LastCallback(model.hook_point(name), partial(collector.receive, site)))
        stack.enter_context(shown(model, pattern=True, rows=spec.rows if by_rows else None, by_rows=by_rows))
        yield records


def _hook_points_inside(model: Model) -> list[list[HookPoint]]:
    """Of every layer the HookPoints between its input and the next norm's output, each once."""
    read_by_norm = ("ln1.", "hook_in", "hook_resid_pre", "hook_attn_in", "hook_q_input")  # of heads, queries come first
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
    """A layer's record from its sites; a norm's output read before its gain gets it here."""
    block, resid_pre = layer.read(spec.dtype), tensors["resid_pre"]
    batch, positions = resid_pre.shape[:2]
    every_row = torch.arange(positions, device=resid_pre.device).expand(batch, positions)
    queries = every_row if spec.rows is None else spec.rows.to(resid_pre.device)
    if edited and block.causal:
        later = torch.arange(tensors["pattern"].shape[-1], device=queries.device) > queries[..., None]
        if bool((tensors["pattern"].detach() * later.to(tensors["pattern"].device)[:, None]).any()):
            block = replace(block, causal=False)  # or the cells that an edited pattern filled would be left out
    return LayerRecord(
        block=block,
        queries=queries,
        resid_pre=resid_pre,
        pattern=tensors["pattern"],
        value=tensors["value"],
        whole=_whole(layer, block, tensors, spec.rows),
        routing=layer.routing_weights(tensors),
        edited=edited,
        **{site: tensors.get(site) for site in _OPTIONAL},
    )


def _whole(layer: BoundLayer, block: Block, tensors: Mapping[str, Tensor], rows: Tensor | None) -> dict[str, Tensor]:
    whole: dict[str, Tensor] = {}
    for step in STEPS[layer.order]:
        scope, operation = step.scope, step.operation
        if f"whole.{scope}" not in tensors:
            # x + attention of a parallel block is not a tensor of the model
            assert operation == Add("Attn", INPUT), scope
            whole[scope] = whole["Attn"] + _rows_of(tensors["resid_pre"], rows)
            continue
        tensor = tensors[f"whole.{scope}"]
        if layer.sites[f"whole.{scope}"].endswith(f".{BEFORE_GAIN}"):
            if isinstance(operation, Normalise):
                norm = block.norm(operation.norm)
                tensor = tensor.to(norm.gain.dtype) * norm.gain + norm.shift
            else:
                tensor = tensor * tensors[f"scale.{scope}"]
        whole[scope] = tensor
    return whole


def one_for_all_heads(site: str, tensor: Tensor) -> Tensor:
    """What a norm makes of copies of its input, one for each head, as a single [batch pos d]; other sites as they are.

    HookedTransformer gives each head a copy where `use_split_qkv_input` or `use_attn_in` is set. The copies are equal
    unless a hook edits a head's: then it is their mean, and the edit's effect is in the remainder.
    """
    if tensor.ndim != 4 or not site.startswith("whole."):
        return tensor
    first = tensor[:, :, 0]
    return first if bool((tensor == first[:, :, None]).all()) else tensor.mean(dim=2)


def select_rows(site: str, tensor: Tensor, rows: Tensor | None, size: tuple[int, int], *, copy: bool = True) -> Tensor:
    """The rows asked for; `copy` makes it a tensor that no later in-place edit can reach."""
    if site == "pattern":
        if rows is None or tensor.shape[2] == rows.shape[1]:  # by rows only those are shown
            return tensor
        return torch.take_along_dim(tensor, rows.to(tensor.device)[:, None, :, None], dim=2)
    heads: Sequence[int] = tensor.shape[2:] if site in ("value", "key", "query") else ()
    if not heads:
        if tensor.numel() != size[0] * size[1] * tensor.shape[-1]:
            raise UnsupportedModelError(
                f"{site} has shape {tuple(tensor.shape)} in a run of {size} [batch, pos]: the model computes it for some positions "
                "at a time (chunk_size_feed_forward?). Set that to 0."
            )
        tensor = tensor.reshape(*size, tensor.shape[-1])
    if rows is None or site in ("value", "key", "resid_pre"):  # keys are of all positions
        return tensor.clone() if copy else tensor
    return _rows_of(tensor.flatten(2), rows).reshape(*rows.shape, *(heads or tensor.shape[2:]))


def _rows_of(tensor: Tensor, rows: Tensor | None) -> Tensor:
    return tensor if rows is None else torch.take_along_dim(tensor, rows.to(tensor.device)[:, :, None], dim=1)
