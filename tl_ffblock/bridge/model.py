"""A TransformerLens model as the rest of the package knows it: recognised, named, with a memory of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_args
from weakref import WeakKeyDictionary

from tl_ffblock.bridge.families import Api, Family, family_of
from tl_ffblock.bridge.hugging_face import difference_from_hugging_face
from tl_ffblock.bridge.protocols import HookedModel, HookPoint
from tl_ffblock.bridge.refusals import active_dropout, refuse
from tl_ffblock.errors import InputError, UnsupportedModelError
from tl_ffblock.layer.fast.products import HeadProducts
from tl_ffblock.layer.positions import layer_number, several


@dataclass
class Memory:
    """What was found out about one model, kept as long as the model itself lives."""

    checked: set[int] = field(default_factory=set)
    """Layers whose identities held on a run of the user's."""
    probed: set[int] = field(default_factory=set)
    """Layers whose identities held on a small run without any hooks."""
    difference: float | None = None
    """Of its logits from those of the Hugging Face model it wraps, relative; None before both have run, NaN where they cannot."""
    reads_out: bool = False
    """Whether the read-out of its last layer's output was found to be its logits."""
    logit_differences: dict[str, float] = field(default_factory=dict)
    """By rules: how far its logits are from its own when local slopes are read; zero."""
    products: HeadProducts = field(default_factory=HeadProducts)
    """Products of its heads' output matrices with what follows them."""


_memories: WeakKeyDictionary[HookedModel, Memory] = WeakKeyDictionary()
"""By hooked model: every `Model` of it, whenever it was identified, has the same memory."""


@dataclass(frozen=True)
class Model:
    """What the rest of the package needs to know of a TransformerLens model."""

    hooked: HookedModel
    """The model itself."""
    api: Api
    family: Family
    name: str
    n_layers: int

    @cached_property
    def hook_points(self) -> Mapping[str, HookPoint]:
        """Every HookPoint by name; a bridge collects them anew at each look, which takes milliseconds."""
        return dict(self.hooked.hook_dict)

    @property
    def n_heads(self) -> int:
        """Attention heads of a layer."""
        return int(self.hooked.cfg.n_heads)

    @property
    def dtype(self) -> str:
        """The parameters' dtype, such as "float32"."""
        return _dtype_of(self.hooked)

    @cached_property
    def memory(self) -> Memory:
        """What was found out about the hooked model so far."""
        return _memories.setdefault(self.hooked, Memory())


@dataclass(frozen=True)
class ModelLabel:
    """What any TransformerLens model says of itself, supported or not."""

    name: str
    architecture: str
    api: str
    dtype: str


def label_of(model: object) -> ModelLabel:
    """Names for a report on a model that may be refused; "?" for what it does not say."""
    cfg = getattr(model, "cfg", None)
    architecture = str(getattr(cfg, "architecture", None) or getattr(cfg, "original_architecture", None) or "?")
    name = str(getattr(cfg, "model_name", None) or architecture)
    return ModelLabel(name, architecture, type(model).__name__, _dtype_of(model))


def _dtype_of(model: object) -> str:
    parameters = getattr(model, "parameters", None)
    return "?" if parameters is None else str(next(parameters()).dtype).removeprefix("torch.")


def identify(model: Any) -> Model:
    """Recognise a TransformerLens model by its class, architecture and the structure of its blocks.

    A `Model` is given back as it is.

    Raises:
        InputError: if it is no TransformerLens model, or drops activations at random.
        UnsupportedModelError: if it is not decomposed, with the reason.
    """
    if isinstance(model, Model):
        return model
    names = {c.__name__ for c in type(model).__mro__}
    if "RemoteBridge" in names:
        raise UnsupportedModelError("a RemoteBridge has its weights on a server; load the model here to decompose it.")
    api: Api | None = next((known for known in get_args(Api) if known in names), None)
    if api is None:
        raise InputError(
            f"model is a {type(model).__name__}; expected a TransformerLens model: TransformerBridge "
            "(TransformerBridge.boot_transformers(name)), HookedTransformer or HookedEncoder."
        )
    dropout = active_dropout(model)
    if dropout is not None:
        raise InputError(
            f"model is in training mode: its dropout ({dropout}) would change every number. Call model.eval() first."
        )
    cfg = model.cfg
    architecture = getattr(cfg, "architecture", None) or getattr(cfg, "original_architecture", None)
    refuse(model, architecture or type(model).__name__)
    family = family_of(model, api, architecture)
    known = Model(model, api, family, str(getattr(cfg, "model_name", None) or family.name), int(cfg.n_layers))
    compare_once(model, known.name)
    return known


def compare_once(model: HookedModel, name: str) -> None:
    """Hold a bridge against the Hugging Face model it wraps, unless that was done.

    Raises:
        UnsupportedModelError: if rounding does not explain the difference of their logits.
    """
    memory = _memories.setdefault(model, Memory())
    if memory.difference is None:
        memory.difference = difference_from_hugging_face(model, name)


def select_layers(model: Model, layers: Sequence[int] | int | None) -> tuple[int, ...]:
    """The asked layers, ascending, negative numbers counted from the end; None means all.

    Raises:
        LayerError: if one does not exist.
        InputError: if none is asked for.
    """
    if layers is None:
        return tuple(range(model.n_layers))
    asked = several(layers)
    if not asked:
        raise InputError(f"layers={layers!r}: expected layer numbers, or None for all {model.n_layers}.")
    return tuple(sorted({layer_number(layer, model.n_layers, f"in {model.name}") for layer in asked}))
