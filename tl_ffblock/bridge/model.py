"""A TransformerLens model as the rest of the package knows it: recognised, named, with a memory of its own.

A model is its weights: `Model.fingerprint` is a digest of all of them, taken anew at every call. Results, records and
hooks carry it, so that those of two models are never taken for those of one; and whatever was found out about a model
holds for one fingerprint.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple, get_args
from weakref import WeakKeyDictionary

import torch
import xxhash
from torch import Tensor

from tl_ffblock.bridge.families import Api, Family, family_of
from tl_ffblock.bridge.hugging_face import difference_from_hugging_face
from tl_ffblock.bridge.linears import refuse_unreadable, responses_of
from tl_ffblock.bridge.protocols import HookedModel, HookPoint
from tl_ffblock.bridge.refusals import active_dropout, refuse
from tl_ffblock.bridge.taps import module_callbacks, user_callbacks
from tl_ffblock.errors import InputError, UnsupportedModelError
from tl_ffblock.layer.fast.products import HeadProducts
from tl_ffblock.layer.positions import layer_number, several

MODULES_AFTER_LAST_LAYER = ("unembed", "mlm_head", "lm_head", "cls", "nsp_head", "pooler")
"""No map depends on them, and an encoder saved without a head gets a random one."""
UNTRAINED_HEAD = "untrained_head"
"""Entry of the configuration of a Hugging Face model that was given a random head when it was loaded."""


@dataclass
class Memory:
    """What was found out about one model, kept as long as the model itself lives and its weights are the same."""

    fingerprint: str = ""
    """Of the weights that it was found out about."""
    callbacks: frozenset[tuple[int, int]] = frozenset()
    """Torch's callbacks on its modules then: one may change what a layer computes."""
    checked: set[int] = field(default_factory=set)
    """Layers whose identities held on a run of the user's."""
    probed: set[int] = field(default_factory=set)
    """Layers whose identities held on a small run without any hooks."""
    difference: float | None = None
    """Of its logits from those of the Hugging Face model it wraps, relative; None before both have run, NaN where they cannot."""
    ends_held: bool = False
    """Whether the last layer's last scope was found to be what the model reads next."""
    reads_out: bool = False
    """Whether the read-out of its last layer's output was found to be its logits."""
    logit_differences: dict[str, float] = field(default_factory=dict)
    """By rules: how far its logits are from its own when local slopes are read; zero."""
    products: HeadProducts = field(default_factory=HeadProducts)
    """Products of its heads' output matrices with what follows them."""


_memories: WeakKeyDictionary[HookedModel, Memory] = WeakKeyDictionary()
"""By hooked model: every `Model` of it, whenever it was identified, has the same memory, until its weights change."""


class _Digested(NamedTuple):
    """Weights on accelerators as they were when they were last digested."""

    signature: tuple[Any, ...]
    digest: str


_digested: WeakKeyDictionary[HookedModel, _Digested] = WeakKeyDictionary()


@dataclass(frozen=True)
class Model:
    """What the rest of the package needs to know of a TransformerLens model."""

    hooked: HookedModel
    """The model itself."""
    api: Api
    family: Family
    name: str
    n_layers: int
    memory: Memory = field(repr=False, compare=False)
    """What was found out about the hooked model with these weights so far."""

    @property
    def fingerprint(self) -> str:
        """Of its weights when it was identified; see `weights_fingerprint`."""
        return self.memory.fingerprint

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

    def fingerprint_now(self) -> str:
        """Of its weights as they are now; errors are those of `identify`, for a model in training mode among them."""
        return identify(self.hooked).fingerprint

    def callbacks(self) -> frozenset[tuple[int, int]]:
        """Which callbacks of users sit on its HookPoints and modules: the same set as long as none is added or removed."""
        return user_callbacks(self.hook_points.values()) | module_callbacks(self.hooked.modules())

    @property
    def has_trained_head(self) -> bool:
        """Whether its unembedding, and an encoder's head before it, came with its weights: sentence encoders have none.

        Known of models that `load_model` loaded.
        """
        return _has_trained_head(self.hooked)


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
    name = str(getattr(cfg, "model_name", None) or family.name)
    return Model(model, api, family, name, int(cfg.n_layers), compare_once(model, name))


def compare_once(model: HookedModel, name: str) -> Memory:
    """Compare a bridge with the Hugging Face model it wraps, unless that was done with these weights.

    Returns:
        What is known of the model with these weights.

    Raises:
        UnsupportedModelError: if rounding does not explain the difference of their logits, or for adapters that are not linear
            or that the bridge does not run.
    """
    memory = _memory_of(model, weights_fingerprint(model))
    if memory.difference is None:
        refuse_unreadable(model)
        memory.difference = difference_from_hugging_face(model, name)
    return memory


def _memory_of(hooked: HookedModel, fingerprint: str) -> Memory:
    memory, callbacks = _memories.get(hooked), module_callbacks(hooked.modules())
    if memory is None or (memory.fingerprint, memory.callbacks) != (fingerprint, callbacks):
        memory = _memories[hooked] = Memory(fingerprint, callbacks)
    return memory


def refuse_other_model(what: str, fingerprint: str, model: Model) -> None:
    """Refuse a result of another model than the one it is used with; one without a fingerprint is of an unknown model.

    Args:
        what: Names the result: "triggers".
        fingerprint: Its own; empty where it is not known.
        model: The model.

    Raises:
        InputError: if the weights are others.
    """
    if fingerprint not in ("", model.fingerprint):
        raise InputError(
            f"{what}: made with other weights than those of {model.name} now (fingerprint {fingerprint}, now "
            f"{model.fingerprint}). Use the same model for both, or make {what} again."
        )


def _has_trained_head(hooked: Any) -> bool:
    config = getattr(getattr(hooked, "original_model", None), "config", None)
    return not getattr(config, UNTRAINED_HEAD, False)


def weights_fingerprint(hooked: Any) -> str:
    """A digest of a model's weights as they are now: 16 hexadecimal digits, the same in every process.

    Every parameter and buffer is read, since nothing else tells of an edit through `.data`: at the speed of memory, 30 ms
    for 135 million float32 numbers. Weights on accelerators are copied and digested once, and again when the norm of one of
    them changes. A head that nobody trained is random at every loading and is left out. Kinds of modules and the numbers that
    they compute with (an eps, a scale, a window, an activation) are part of it.
    """
    adapted = responses_of(hooked)
    digest = _parameters_digest(hooked)
    # An adapter's scale, and whether it is on, is no parameter.
    return _digest(list(adapted.values()), " ".join((digest, *adapted))) if adapted else digest


def _parameters_digest(hooked: Any) -> str:
    tensors, made_of = list(_weights(hooked)), " ".join(_settings_of_modules(hooked))
    if _on_cpu(tensors):
        return _digest(tensors, made_of)
    signature = (made_of, *_signature(tensors))
    known = _digested.get(hooked)
    if known is None or known.signature != signature:
        known = _digested[hooked] = _Digested(signature, _digest(tensors, made_of))
    return known.digest


def _on_cpu(tensors: Sequence[Tensor]) -> bool:
    return all(tensor.device.type == "cpu" for tensor in tensors)


def _weights(hooked: Any) -> Iterator[Tensor]:
    """Every parameter and buffer once, in the order of the modules."""
    random_modules = () if _has_trained_head(hooked) else MODULES_AFTER_LAST_LAYER
    known: set[int] = set()
    for name, module in hooked.named_modules():
        if random_modules and name.startswith(random_modules):
            continue
        # Rotary frequencies that follow the length of the text (transformers' longrope, dynamic) are those of the last one.
        follows = any(kind in str(vars(module).get("rope_type", "")) for kind in ("longrope", "dynamic"))
        buffers = () if follows else module._buffers.values()
        for tensor in (*module._parameters.values(), *buffers):
            if tensor is not None and id(tensor) not in known:
                known.add(id(tensor))
                yield tensor.detach()


def _settings_of_modules(hooked: Any) -> Iterator[str]:
    """The kind of each module that computes, with its numbers, switches and functions."""
    for module in hooked.modules():
        kind = type(module)
        if kind.__module__.startswith("transformer_lens.model_bridge") or kind.__name__ == "HookPoint":
            continue
        yield kind.__qualname__
        yield from _numbers_of(module)
    config = getattr(getattr(hooked, "original_model", None), "config", None)
    if config is not None:
        yield from _numbers_of(config)


def _numbers_of(owner: object) -> Iterator[str]:
    """Numbers, switches and functions by name, but for those that running changes."""
    for name, value in vars(owner).items():
        if name.startswith("_") or name == "training" or "cached" in name:
            continue
        if isinstance(value, int | float):
            yield f"{name}={value!r}"
        elif isinstance(value, FunctionType | BuiltinFunctionType):
            yield f"{name}={value.__qualname__}"


def _digest(tensors: Sequence[Tensor], begin: str = "") -> str:
    digest = xxhash.xxh3_64(begin.encode())
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.numel() and tensor.device.type != "meta":
            flat = tensor.cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _signature(tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """Where weights lie and how long each is: few kernels and one wait, whatever their number."""
    floating: dict[torch.device, list[Tensor]] = {}
    for tensor in tensors:
        if tensor.is_floating_point() and tensor.device.type != "meta" and tensor.numel():
            floating.setdefault(tensor.device, []).append(tensor)
    norms = [torch.stack(torch._foreach_norm(of_device)).tolist() for of_device in floating.values()]
    return tuple(tensor.data_ptr() for tensor in tensors if tensor.device.type != "meta"), *map(tuple, norms)


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
