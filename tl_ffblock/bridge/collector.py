"""Taps on a layer's HookPoints -> its sites, gathered until the last one has come.

1. Taps read every site after all other callbacks (taps.py); leaving the context removes them.
2. Watches notice whether another callback changed a tensor inside the block: then what parts and bias
   miss is that edit's effect.
3. An edit of a pattern that attention has used already (BERT, OPT, GPT-J bridges: Hugging Face computes
   it, the HookPoint fires afterwards) changes nothing in the run: the record holds the pattern that was used.
4. Where the model runs with gradients the record's tensors are the run's own: gradients flow through them.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

from jaxtyping import Int
from torch import Tensor

from tl_ffblock.bridge.assembly import CaptureSpec, make_record, one_for_all_heads, select_rows
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.protocols import HookPoint
from tl_ffblock.bridge.sites import site_names
from tl_ffblock.bridge.taps import Tap, Watch
from tl_ffblock.errors import CaptureError, FFBlockError, ScopeKeyError, UnsupportedModelError
from tl_ffblock.layer.records import LayerRecord

RecordHandler: TypeAlias = Callable[[LayerRecord], None]


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
        self.reached: set[int] = set()
        """Layers that a forward pass has completed."""
        self.tokens: Int[Tensor, "batch pos"] | None = None
        """Token ids of the last forward pass; None where it was given embeddings."""
        self.embedded: Int[Tensor, "batch pos"] | None = None
        """Those of the forward pass that has begun, before its first layer that is captured."""

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
        """A new forward pass has reached the layers: nothing of an earlier one is left."""
        self.tokens, self.embedded = self.embedded, None
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
                "HookPoint behind their rotation stays silent."
            )
        return CaptureError(
            f"layer {layer}: {', '.join(sorted(missing))} did not arrive. Was the run stopped early (stop_at_layer) "
            "or are these HookPoints off?"
        )


class IgnoredEditWarning(FFBlockError, UserWarning):  # noqa: N818 - a warning
    """A hook edited a tensor that the model had used already: the run is as if it had not."""


class _LayerCollector:
    """Gathers the sites of one layer and hands over the record when the last one has come."""

    def __init__(
        self, model: Model, spec: CaptureSpec, layer: int, done: RecordHandler, pending: dict[int, set[str]]
    ) -> None:
        self.names = site_names(model, layer, spec.extra)
        self.layer = layer
        self._model = model
        self._spec = spec
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
        given, tensor = tensor, one_for_all_heads(site, tensor)
        batch, positions = (tensor if site == "resid_pre" else self._tensors["resid_pre"]).shape[:2]
        on_the_way = tensor is given and tensor.requires_grad and self._spec.rows is None and not after_use
        self._tensors[site] = kept = select_rows(site, tensor, self._spec.rows, (batch, positions), copy=not on_the_way)
        onward = kept.reshape(tensor.shape).clone() if on_the_way else None
        self._pending[self.layer] = set(self.names) - set(self._tensors)
        if not self._pending[self.layer]:
            record = make_record(self._model, self._spec, self.layer, self._tensors, edited=self._edited)
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
        model = self._model
        conversion = hook_point(model, self.names["pattern"]).hook_conversion
        self._used_pattern = before if conversion is None else conversion.convert(before)
        warnings.warn(
            f"{self.names['pattern']} was edited, but {model.name} ({model.family.name}) computes attention before this HookPoint "
            "fires: the edit changes nothing in the run, and the map is of the pattern that was used. Edit attn.hook_v or "
            "attn.hook_z instead.",
            IgnoredEditWarning,
            stacklevel=2,
        )


@contextmanager
def collecting(
    model: Model, spec: CaptureSpec, handle: RecordHandler | None = None, *, watch: bool = True
) -> Iterator["Records"]:
    """Taps and watches on the layers of a spec, for every forward pass inside the context.

    Args:
        model: The model.
        spec: What to keep.
        handle: Gets each layer's record as soon as it is complete; None keeps it in the records.
        watch: Whether other callbacks may change tensors. Where nobody listens there is nothing to notice.
    """
    records = Records(model, spec.layers)
    removable: list[Any] = []

    def done(record: LayerRecord) -> None:
        if record.edited:
            records.edited.add(record.layer)
        records.reached.add(record.layer)
        (handle or records.keep)(record)

    try:
        collectors = [_LayerCollector(model, spec, layer, done, records.pending) for layer in spec.layers]
        if watch:
            inside = _hook_points_inside(model)
            for collector in collectors:
                removable += _watches(model, collector, inside[collector.layer])
        first = site_names(model, spec.layers[0])["resid_pre"]
        removable.append(Tap(hook_point(model, first), lambda _: records.forget()))
        removable.append(_reads_tokens(model, records))
        for collector in collectors:
            for site, name in collector.names.items():
                removable.append(Tap(hook_point(model, name), partial(collector.receive, site)))
        yield records
    finally:
        for tap in removable:
            tap.remove()


def _reads_tokens(model: Model, records: Records) -> Any:
    """A removable callback on the embedding that says which tokens the records are of."""

    def read(_: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        ids = args[0] if args else named.get("input_ids")
        if isinstance(ids, Tensor) and not ids.is_floating_point():
            records.embedded = ids.detach().reshape(-1, ids.shape[-1])

    return model.hooked.embed.register_forward_pre_hook(read, with_kwargs=True)


def _watches(model: Model, collector: _LayerCollector, inside: Sequence[HookPoint]) -> list[Any]:
    """Removable watches of a layer's HookPoints, and the mark that attention was computed."""
    pattern = hook_point(model, collector.names["pattern"])
    z = hook_point(model, f"blocks.{collector.layer}.attn.hook_z")
    return [
        z.register_forward_pre_hook(collector.mark_attended),
        *(
            Watch(point, collector.mark_pattern_edited if point is pattern else collector.mark_edited)
            for point in inside
        ),
    ]


def hook_point(model: Model, name: str) -> Any:
    """A HookPoint by name.

    Raises:
        UnsupportedModelError: if the model has none of this name.
    """
    hook_dict = model.hook_points
    if name not in hook_dict:
        raise UnsupportedModelError(
            f"{model.name} ({model.family.name}) has no HookPoint {name}: its block cannot be captured."
        )
    return hook_dict[name]


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
