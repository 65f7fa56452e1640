"""A TransformerLens model, recognised and bound layer by layer, with cached facts about its weights.

A model is identified by its weights: `Model.fingerprint` is a digest of all of them, computed at every call. Results, records and
hooks have this fingerprint, so that two models are never confused. Cached facts hold for one fingerprint.
"""

import copy
import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple, get_args
from weakref import WeakKeyDictionary

import torch
import xxhash
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.callbacks import (
    HookedModel,
    HookPoint,
    is_listened_to,
    module_callbacks,
    silence,
    user_callbacks,
)
from tl_ffblock.bridge.families import Api, Family, family_of
from tl_ffblock.bridge.hugging_face import difference_from_hugging_face
from tl_ffblock.bridge.layers import BoundLayer
from tl_ffblock.bridge.linears import (
    effective_gradients,
    other_gradients,
    plain_tensors,
    refuse_unreadable,
    responses_of,
)
from tl_ffblock.bridge.offloaded import StoredWeight, stored_weights, weight_on_device, weights_on_device
from tl_ffblock.bridge.refusals import refuse, refuse_modes
from tl_ffblock.errors import InputError, UnsupportedModelError, UntrainedHeadError
from tl_ffblock.layer.fast.buffers import HeadProducts
from tl_ffblock.layer.positions import layer_number, several, spans
from tl_ffblock.layer.records import TOLERANCE

MODULES_AFTER_LAST_LAYER = ("unembed", "mlm_head", "lm_head", "cls", "nsp_head", "pooler")
"""Modules that no map depends on; an encoder saved without a head gets a random one."""
UNTRAINED_HEAD = "untrained_head"
"""Config entry of a Hugging Face model that got a random head when it was loaded."""

# TransformerLens's name for the model of a bridge that was made from a module.
_NO_NAME = "external"
# Modules of a bridge whose weights may be tied to those of others.
_TIED = ("unembed", "_container_state_owners")


@dataclass
class Memory:
    """Cached facts about one model, valid while its weights are the same.

    `fingerprint` is that of these weights. `callbacks` are torch's on its modules, which may change a layer's computation. Identities
    of the layers `checked` were verified on a forward pass of the user, those of `probed` on a small one without hooks. `difference`
    is the relative difference of its logits from those of the Hugging Face model that it wraps; None before both have run, NaN if
    they cannot. `ends_held`: the last layer's last scope is the input of the next module. `reads_out`: the read-out of its last
    layer's output gives its logits. `logit_differences`, by rules: difference of logits with linearised modules, which is zero.
    `attends_inside`: its attention is Hugging Face's own module, whose scores HookPoints show after use; None before the test.
    `by_rows_differs`: difference of logits with attention by rows (attention.py); None before the test. `biases`: which of its
    biases are not zero. `other_gradients`: linear modules whose gradients are not those of their weights; None before the test.
    `media`: names of the tensors of images and sounds with which its logits were compared with Hugging Face's.
    `products`: products of its heads' output matrices with the next matrices.
    """

    fingerprint: str = ""
    callbacks: frozenset[tuple[int, int]] = frozenset()
    checked: set[int] = field(default_factory=set)
    probed: set[int] = field(default_factory=set)
    difference: float | None = None
    ends_held: bool = False
    reads_out: bool = False
    logit_differences: dict[Any, float] = field(default_factory=dict)
    attends_inside: bool | None = None
    by_rows_differs: float | None = None
    biases: dict[Any, bool] = field(default_factory=dict)
    other_gradients: tuple[str, ...] | None = None
    media: set[frozenset[str]] = field(default_factory=set)
    products: HeadProducts = field(default_factory=partial(HeadProducts, follow_weights=True))


# By hooked model: all `Model` objects of it have the same cached facts, until its weights change.
_memories: WeakKeyDictionary[HookedModel, Memory] = WeakKeyDictionary()
# Signature and digest of weights on accelerators, as last digested.
_digested: WeakKeyDictionary[HookedModel, tuple[tuple[Any, ...], str]] = WeakKeyDictionary()


class ModelSizes(NamedTuple):
    """Sizes that determine a model's cost."""

    d_model: int
    d_mlp: int
    heads: int
    parameters: int


@dataclass(frozen=True)
class Model:
    """A TransformerLens model with what the package needs to know of it."""

    hooked: HookedModel
    """The TransformerLens model."""
    api: Api
    family: Family
    name: str
    n_layers: int
    memory: Memory = field(repr=False, compare=False)
    """Cached facts about the model with these weights."""
    added: Mapping[int, Float[Tensor, "batch pos d_model"]] = field(default_factory=dict, repr=False, compare=False)
    """Features of the input's image that the model adds to the residual stream after a layer, by layer (DeepStack, Qwen3-VL)."""

    @cached_property
    def layers(self) -> tuple[BoundLayer, ...]:
        """Layers, each with the names of its HookPoints and norms, and its weights."""
        of_model = self.hooked, self.hook_points, self.api, self.family, self.name
        return tuple(BoundLayer(*of_model, number, number in self.added) for number in range(self.n_layers))

    @property
    def fingerprint(self) -> str:
        """Fingerprint of its weights when it was identified; see `weights_fingerprint`."""
        return self.memory.fingerprint

    @cached_property
    def hook_points(self) -> Mapping[str, HookPoint]:
        """Every HookPoint by name; a bridge collects them at each access, which takes milliseconds."""
        return dict(self.hooked.hook_dict)

    def hook_point(self, name: str) -> HookPoint:
        """A HookPoint by name.

        Raises:
            UnsupportedModelError: if the model has no such HookPoint.
        """
        if name not in self.hook_points:
            raise UnsupportedModelError(
                f"{self.name} ({self.family.name}) has no HookPoint {name}: its block cannot be captured."
            )
        return self.hook_points[name]

    @property
    def n_heads(self) -> int:
        """Number of heads of a layer; the largest if layers differ (hybrid models)."""
        return max(layer.n_heads for layer in self.layers)

    def heads_of(self, layers: Iterable[int], instead: str = "") -> int:
        """Number of heads of each of some layers, for results with one axis of heads for all layers.

        Args:
            layers: Layer numbers.
            instead: End of the error: what to do; by default, to pass layers that are alike.

        Raises:
            InputError: if layers have different numbers of heads.
        """
        alike: dict[int, list[int]] = {}
        for layer in layers:
            alike.setdefault(self.layers[layer].n_heads, []).append(layer)
        (number, first), *others = alike.items()
        if others:
            said = "; ".join(f"{heads} in {spans(which)}" for heads, which in alike.items())
            remedy = instead or f"Pass layers that are alike, such as layers={first}."
            raise InputError(
                f"{self.name}: layers have different numbers of heads ({said}), expected one number. {remedy}"
            )
        return number

    @property
    def output_name(self) -> str:
        """Name of the HookPoint of the residual stream after the last layer."""
        return self.layers[-1].output_name

    @property
    def parameter(self) -> Tensor:
        """A tensor with the dtype of its first parameter, on the device of its input."""
        parameter = weight_on_device(self.hooked)
        assert parameter is not None, "a model has parameters"
        return parameter

    @property
    def device(self) -> torch.device:
        """Device of its input."""
        return self.parameter.device

    @property
    def dtype(self) -> str:
        """Dtype of the parameters, such as "float32"."""
        return str(self.parameter.dtype).removeprefix("torch.")

    @property
    def working_dtype(self) -> torch.dtype:
        """float64 for float64 models, else float32, which represents half-precision weights exactly."""
        return torch.float64 if self.parameter.dtype == torch.float64 else torch.float32

    @property
    def tolerance(self) -> float:
        """Largest accepted relative error, by the dtype of the parameters."""
        return TOLERANCE.get(self.parameter.dtype, TOLERANCE[torch.float32])

    def eps(self, dtype: torch.dtype) -> float:
        """Unit of rounding of a decomposition in a dtype: the coarser of the model's and its own."""
        return max(torch.finfo(each).eps for each in (self.parameter.dtype, dtype))

    @property
    def is_processed(self) -> bool:
        """Whether weights were folded or centred after loading (contribution norms are not invariant to that)."""
        if self.api == "TransformerBridge":
            return bool(getattr(self.hooked, "_weights_processed", False))
        if str(getattr(self.hooked.cfg, "normalization_type", "")).endswith("Pre"):
            return True  # fold_ln
        first = self.layers[0]
        if self.family.order == "post_ln" or first.has_experts:
            return False
        w_out = first.block.mlp.W_out if first.has_feed_forward else first.block.attn.W_O  # center_writing_weights
        return bool(w_out.mean(dim=-1).abs().max() < 1e-5 * w_out.abs().max())

    @property
    def sizes(self) -> ModelSizes:
        """Sizes that determine its cost."""
        cfg = self.hooked.cfg
        parameters = sum(parameter.numel() for parameter in self.hooked.parameters())
        return ModelSizes(int(cfg.d_model), int(cfg.d_mlp), int(cfg.n_heads), parameters)

    @property
    def longest_input(self) -> int | None:
        """Largest number of tokens; None without a limit. Scaled rotary positions reach further than the model's own context."""
        n_ctx = getattr(self.hooked.cfg, "n_ctx", None)
        return n_ctx if n_ctx is None or not self.rotates else _longest_rotated(_hf_config(self.hooked), int(n_ctx))

    @cached_property
    def _dynamic_rotations(self) -> tuple[tuple[Any, str], ...]:
        """Rotary embeddings whose frequencies depend on the longest text so far, each with the prefix of their names."""
        found: list[tuple[Any, str]] = []
        for module in self.hooked.modules():
            kinds = vars(module).get("rope_type", "")
            of_layers = kinds.items() if isinstance(kinds, Mapping) else [("", kinds)]
            found += [(module, f"{layers}_" if layers else "") for layers, kind in of_layers if "dynamic" in str(kind)]
        return tuple(found)

    @cached_property
    def _with_offsets(self) -> tuple[Any, ...]:
        """Modules that keep an offset of positions."""
        wrapped = getattr(self.hooked, "original_model", self.hooked)
        return tuple(module for module in wrapped.modules() if hasattr(module, "rope_deltas"))

    def forget_lengths(self) -> None:
        """Reset rotary frequencies and positions that depend on earlier inputs, before a forward pass.

        With `dynamic` scaling, transformers 5.23 keeps frequencies of the longest text until one is shorter than the model's context.
        Qwen-VL and GLM-4V keep an image's offset of positions, and add it to those of the next input of embeddings.
        """
        for module in self._with_offsets:
            module.rope_deltas = None
        for module, prefix in self._dynamic_rotations:
            frequencies = getattr(module, f"{prefix}inv_freq")
            setattr(module, f"{prefix}inv_freq", getattr(module, f"{prefix}original_inv_freq").to(frequencies.device))
            setattr(module, f"{prefix}max_seq_len_cached", module.original_max_seq_len)

    @property
    def rotates(self) -> bool:
        """Whether attention multiplies queries and keys after a rotary embedding."""
        return getattr(self.hooked.cfg, "positional_embedding_type", None) == "rotary"

    def at_once(self, budgets: Mapping[str, int], numbers: int) -> int:
        """How many items of this size fit a budget in bytes, by device; at least one."""
        parameter = self.parameter
        return max(1, budgets.get(parameter.device.type, budgets["cpu"]) // (numbers * parameter.element_size()))

    def fingerprint_now(self) -> str:
        """Fingerprint of its weights now; raises the errors of `identify`, for example in training mode."""
        return identify(self.hooked).fingerprint

    def callbacks(self) -> frozenset[tuple[int, int]]:
        """User callbacks on its HookPoints and modules: the same set as long as none is added or removed."""
        return user_callbacks(self.hook_points.values()) | module_callbacks(self.hooked.modules())

    @property
    def is_listened_to(self) -> bool:
        """Whether a HookPoint has any callback, of a user or of another capture."""
        return is_listened_to(self.hook_points.values())

    def hooks_disabled(self) -> AbstractContextManager[None]:
        """Context in which no callback on HookPoints fires."""
        return silence(self.hook_points.values())

    def refuse_other_gradients(self) -> None:
        """Refuse backward hooks, which would change derivatives without a warning, and inference tensors.

        Raises:
            InputError: for these.
        """
        for name, module in self.hooked.named_modules():
            if module._backward_hooks or module._backward_pre_hooks:
                raise InputError(
                    f"{self.name}: a backward hook is on {name or 'the model'}, and would change the gradients that are "
                    "attributed. Remove it, model.reset_hooks(), or call outside of its context."
                )
        if self.parameter.is_inference():
            raise InputError(
                f"{self.name} was created in torch.inference_mode(), so it has no derivatives: load it outside."
            )

    @contextmanager
    def with_gradients(self) -> Iterator[None]:
        """Context of its forward passes with gradients.

        Linear modules have the gradients of their effective weights. Compiled modules run uncompiled: torch 2.13 cannot compile
        callbacks that add gradients.

        Raises:
            InputError: as `refuse_other_gradients`.
        """
        self.refuse_other_gradients()
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            if "torch._dynamo" in sys.modules:  # imported by torch.compile
                stack.enter_context(torch.compiler.set_stance("force_eager"))
            if self.memory.other_gradients is None:
                self.memory.other_gradients = other_gradients(self.hooked)
            stack.enter_context(effective_gradients(self.hooked, self.memory.other_gradients))
            yield

    @property
    def has_trained_head(self) -> bool:
        """Whether its unembedding, and an encoder's head, came with its weights; sentence encoders have none.

        This is known for models from `load_model`.
        """
        return _has_trained_head(self.hooked)

    def refuse_untrained_head(self) -> None:
        """Refuse to read logits of a model whose head came without weights.

        Raises:
            UntrainedHeadError: if the head has random weights.
        """
        if not self.has_trained_head:
            raise UntrainedHeadError(
                f"{self.name} came without weights for its unembedding (it was saved without its masked-language-model head), so its "
                "logits are those of random weights. Metrics and top tokens cannot be read. Use a model with a language-model head, "
                "or a direction in its residual stream."
            )

    def refuse_recurrent(self, reason: str) -> None:
        """Refuse a model in which some layers mix tokens without a softmax.

        Args:
            reason: What is needed of a layer, and what to use instead.

        Raises:
            UnsupportedModelError: if there are such layers.
        """
        if recurrent := [layer.number for layer in self.layers if layer.is_recurrent]:
            raise UnsupportedModelError(
                f"{self.name} ({self.family.name}) mixes tokens without a softmax in layers {spans(recurrent)}: {reason}."
            )

    @property
    def embedding_matrix(self) -> Float[Tensor, "d_vocab d_model"]:
        """W_E."""
        with weights_on_device(self.hooked.embed):
            return self.hooked.W_E.detach()

    def token_vectors(self, ids: Int[Tensor, " token"]) -> Float[Tensor, "token d_model"]:
        """Rows of the embedding matrix: token embeddings without position embeddings."""
        matrix = self.embedding_matrix
        return matrix[ids.to(matrix.device)].float().cpu()

    def weights_digest(self, *, head: bool = False) -> str:
        """Digest of every parameter up to the last layer, or with the head, by name, shape and bytes.

        An untrained head, which has other random weights at every loading, is omitted.
        """
        with_head = head and self.has_trained_head
        digest = hashlib.sha256(self.family.name.encode())
        for name, tensor in sorted(self.hooked.state_dict().items()):
            if with_head or not name.startswith(MODULES_AFTER_LAST_LAYER):
                flat = tensor.detach().cpu().contiguous().reshape(-1)
                digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
                digest.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
        for name, response in responses_of(self.hooked).items():  # an adapter's scale is not a parameter
            digest.update(f"{name} {response.cpu().tolist()}".encode())
        return digest.hexdigest()

    def with_random_weights(self, seed: int = 0) -> "Model":
        """A copy with random parameters, each tensor from a normal distribution with its own mean and deviation.

        It is the baseline of probes: a model of the same form that has learned nothing. The model itself does not change.

        Raises:
            UnsupportedModelError: if weights are offloaded or quantised.
        """
        if any(weight.hook or len([*plain_tensors(weight.shown)]) > 1 for weight in _weights(self.hooked)):
            raise UnsupportedModelError(
                f"{self.name} has offloaded or quantised weights, of which no random copy can be made. Load it whole and unquantised."
            )
        hooked = copy.deepcopy(self.hooked)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in hooked.parameters():
                if parameter.numel() > 1:
                    noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32).to(parameter)
                    parameter.copy_(noise * parameter.std() + parameter.mean())
        return identify(hooked)


def identify(model: Any) -> Model:
    """Recognise a TransformerLens model by its class, its architecture and the structure of its blocks.

    A `Model` is returned unchanged.

    Raises:
        InputError: if it is not a TransformerLens model, for autocast, or in training mode with active dropout or gradient
            checkpointing.
        UnsupportedModelError: if it cannot be decomposed, with the reason.
    """
    if isinstance(model, Model):
        refuse_modes(model.hooked)
        return model
    names = {c.__name__ for c in type(model).__mro__}
    if "RemoteBridge" in names:
        raise UnsupportedModelError("a RemoteBridge has its weights on a server: load the model on this machine.")
    api: Api | None = next((known for known in get_args(Api) if known in names), None)
    if api is None:
        raise InputError(
            f"model is of type {type(model).__name__}; expected a TransformerLens model: TransformerBridge "
            "(TransformerBridge.boot_transformers(name)), HookedTransformer or HookedEncoder."
        )
    refuse_modes(model)
    cfg = model.cfg
    architecture = getattr(cfg, "architecture", None) or getattr(cfg, "original_architecture", None)
    refuse(model, architecture or type(model).__name__)
    family = family_of(model, api, architecture)
    name = name_of(model, family.name)
    return Model(model, api, family, name, int(cfg.n_layers), compare_once(model, name))


def name_of(model: Any, otherwise: str) -> str:
    """A model's name: TransformerLens's, else Hugging Face's, else that of its architecture, else the given one."""
    cfg, config = model.cfg, _hf_config(model)
    named = getattr(cfg, "model_name", None)
    if named == _NO_NAME:
        named = getattr(config, "_name_or_path", None) or getattr(cfg, "architecture", None)
    return str(named or otherwise)


def _hf_config(hooked: Any) -> Any:
    """Configuration of the Hugging Face model that a bridge wraps; None without one."""
    return getattr(getattr(hooked, "original_model", None), "config", None)


def _longest_rotated(config: Any, n_ctx: int) -> int | None:
    """Largest number of tokens of a model with rotary positions, by their scaling; None for `dynamic`, which scales any length."""
    given = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    of_layers = [scaling for scaling in given.values() if isinstance(scaling, Mapping)] or [given]
    longest: list[int] = []
    for scaling in of_layers:
        kind = scaling.get("rope_type", scaling.get("type", "default"))
        if kind == "dynamic":
            continue
        trained = n_ctx if kind == "linear" else scaling.get("original_max_position_embeddings") or 0
        longest.append(max(n_ctx, int(trained * (scaling.get("factor") or 1))))
    return min(longest, default=None)


def compare_once(model: HookedModel, name: str) -> Memory:
    """Compare a bridge with the Hugging Face model that it wraps, once per set of weights.

    Returns:
        Cached facts about the model with these weights.

    Raises:
        UnsupportedModelError: if their logits differ by more than rounding, or for adapters that are not linear or that the
            bridge does not run.
    """
    fingerprint, callbacks = weights_fingerprint(model), module_callbacks(model.modules())
    memory = _memories.get(model)
    if memory is None or (memory.fingerprint, memory.callbacks) != (fingerprint, callbacks):
        memory = _memories[model] = Memory(fingerprint, callbacks)
    if memory.difference is None:
        refuse_unreadable(model)
        memory.difference = difference_from_hugging_face(model, name)
    return memory


def refuse_other_model(what: str, fingerprint: str, model: Model) -> None:
    """Refuse a result of another model; a result without a fingerprint is accepted.

    Args:
        what: Name of the result: "triggers".
        fingerprint: The result's fingerprint; empty if it is not known.
        model: The model.

    Raises:
        InputError: if the weights differ.
    """
    if fingerprint not in ("", model.fingerprint):
        raise InputError(
            f"{what}: made with other weights than those of {model.name} now (fingerprint {fingerprint}, now "
            f"{model.fingerprint}). Use the same model for both, or compute {what} again."
        )


def _has_trained_head(hooked: Any) -> bool:
    return not getattr(_hf_config(hooked), UNTRAINED_HEAD, False)


def weights_fingerprint(hooked: Any) -> str:
    """Digest of a model's weights: 16 hexadecimal digits, the same in every process.

    Every parameter and buffer is read, since an edit through `.data` leaves no other trace. This takes 30 ms for 135 million
    float32 numbers. Weights on accelerators are copied and digested once, and again if the norm of one of them changes. An
    untrained head, which is random at every loading, is omitted. Kinds of modules and their numbers (eps, scale, window,
    activation) are part of the digest.
    """
    adapted = responses_of(hooked)
    digest = _parameters_digest(hooked)
    # An adapter's scale, and whether it is active, is not a parameter.
    return _digest(list(adapted.values()), " ".join((digest, *adapted))) if adapted else digest


def _parameters_digest(hooked: Any) -> str:
    weights, made_of = list(_weights(hooked)), " ".join(_settings_of_modules(hooked))
    tensors = (tensor for weight in weights for tensor in plain_tensors(weight.read()))
    if _on_cpu(weights):
        return _digest(tensors, made_of)
    signature = (made_of, *_signature(weights))
    if _digested.get(hooked, ((), ""))[0] != signature:
        _digested[hooked] = signature, _digest(tensors, made_of)
    return _digested[hooked][1]


def _on_cpu(weights: Sequence[StoredWeight]) -> bool:
    """Whether all weights are in main memory, and not in a file."""
    return all(weight.file is None and weight.shown.device.type in ("cpu", "meta") for weight in weights)


def _weights(hooked: Any) -> Iterator[StoredWeight]:
    """Every parameter and buffer once, including shared ones."""
    random_modules = () if _has_trained_head(hooked) else MODULES_AFTER_LAST_LAYER
    known: set[int] = set()
    offloaded: list[StoredWeight] = []
    for name, module in hooked.named_modules():
        if random_modules and name.startswith(random_modules):
            continue
        # Rotary frequencies that depend on the length of the text (transformers' longrope, dynamic) are those of the last one.
        follows = any(kind in str(vars(module).get("rope_type", "")) for kind in ("longrope", "dynamic"))
        for weight in stored_weights(module, buffers=not follows):
            if id(weight.shown) in known:
                continue
            if weight.hook and name.startswith(_TIED) and any(map(weight.equals, offloaded)):
                continue  # tied to an earlier one, which accelerate stores twice
            known.add(id(weight.shown))
            offloaded += [weight] if weight.hook else []
            yield weight


def _settings_of_modules(hooked: Any) -> Iterator[str]:
    for module in hooked.modules():
        kind = type(module)
        if kind.__module__.startswith("transformer_lens.model_bridge") or kind.__name__ == "HookPoint":
            continue
        yield kind.__qualname__
        yield from _numbers_of(module)
    config = _hf_config(hooked)
    if config is not None:
        yield from _numbers_of(config)


# Methods of modules that accelerate replaces, to warn when a placed model is moved.
_MOVES = ("to", "cuda", "npu", "mlu", "sdaa", "musa", "xpu")


def _numbers_of(owner: object) -> Iterator[str]:
    for name, value in vars(owner).items():
        named = not (name.startswith("_") or name == "training" or "cached" in name)
        if named and isinstance(value, int | float):
            yield f"{name}={value!r}"
        elif named and isinstance(value, FunctionType | BuiltinFunctionType) and name not in _MOVES:
            yield f"{name}={value.__qualname__}"


def _digest(tensors: Iterable[Tensor], begin: str = "") -> str:
    digest = xxhash.xxh3_64(begin.encode())
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.numel() and tensor.device.type != "meta":
            digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _signature(weights: Sequence[StoredWeight]) -> tuple[Any, ...]:
    """Addresses and norms of weights, with few kernels and one synchronisation; for files size and time."""
    files = sorted({weight.file for weight in weights if weight.file})
    kept = (weight.read() for weight in weights if not weight.file)
    tensors = [tensor for weight in kept for tensor in plain_tensors(weight)]
    floating: dict[torch.device, list[Tensor]] = {}
    for tensor in tensors:
        if tensor.is_floating_point() and tensor.device.type != "meta" and tensor.numel():
            floating.setdefault(tensor.device, []).append(tensor)
    norms = [torch.stack(torch._foreach_norm(of_device)).tolist() for of_device in floating.values()]
    stamps = tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    return tuple(tensor.data_ptr() for tensor in tensors if tensor.device.type != "meta"), *map(tuple, norms), stamps


def select_layers(model: Model, layers: Sequence[int] | int | None) -> tuple[int, ...]:
    """Layer numbers, ascending; negative ones count from the end, None means all.

    Raises:
        LayerError: if one does not exist.
        InputError: if there is none.
    """
    if layers is None:
        return tuple(range(model.n_layers))
    asked = several(layers)
    if not asked:
        raise InputError(f"layers={layers!r}: expected layer numbers, or None for all {model.n_layers}.")
    return tuple(sorted({layer_number(layer, model.n_layers, f"in {model.name}") for layer in asked}))
