"""A TransformerLens model as the rest of the package knows it: recognised, named, bound layer by layer, with a memory of its own.

A model is its weights: `Model.fingerprint` is a digest of all of them, taken anew at every call. Results, records and
hooks carry it, so that those of two models are never taken for those of one; and whatever was found out about a model
holds for one fingerprint.
"""

import copy
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
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
from tl_ffblock.bridge.linears import plain_tensors, refuse_unreadable, responses_of
from tl_ffblock.bridge.offloaded import StoredWeight, stored_weights, weight_on_device, weights_on_device
from tl_ffblock.bridge.refusals import active_dropout, refuse
from tl_ffblock.errors import InputError, UnsupportedModelError, UntrainedHeadError
from tl_ffblock.layer.fast.buffers import HeadProducts
from tl_ffblock.layer.positions import layer_number, several
from tl_ffblock.layer.records import TOLERANCE

MODULES_AFTER_LAST_LAYER = ("unembed", "mlm_head", "lm_head", "cls", "nsp_head", "pooler")
"""No map depends on them, and an encoder saved without a head gets a random one."""
UNTRAINED_HEAD = "untrained_head"
"""Entry of the configuration of a Hugging Face model that was given a random head when it was loaded."""


# Modules of a bridge whose weights may be tied to those of others.
_TIED = ("unembed", "_container_state_owners")


@dataclass
class Memory:
    """What was found out about one model, kept as long as the model itself lives and its weights are the same.

    `fingerprint` is that of these weights, `callbacks` are torch's on its modules then: one may change what a layer computes.
    The identities of the layers `checked` held on a run of the user's, those of `probed` on a small run without any hooks.
    `difference` is that of its logits from those of the Hugging Face model it wraps, relative; None before both have run, NaN
    where they cannot. `ends_held` says that the last layer's last scope was found to be what the model reads next, `reads_out`
    that the read-out of its last layer's output was found to be its logits. `logit_differences` are, by rules, how far its
    logits are from its own under linearised rules: zero. `attends_inside` says that its attention is Hugging Face's own module,
    whose scores HookPoints show when they were used; None before it was tried. `by_rows_differs` is how far its
    logits are from its own with attention by rows (attention.py), None before it was tried. `biases` says which of its biases
    are not zero. `products` are those of its heads' output
    matrices with what follows.
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
    products: HeadProducts = field(default_factory=partial(HeadProducts, follow_weights=True))


# By hooked model: every `Model` of it, whenever it was identified, has the same memory, until its weights change.
_memories: WeakKeyDictionary[HookedModel, Memory] = WeakKeyDictionary()
# Weights on accelerators as they were when they were last digested: their signature, and the digest.
_digested: WeakKeyDictionary[HookedModel, tuple[tuple[Any, ...], str]] = WeakKeyDictionary()


class ModelSizes(NamedTuple):
    """What a model's cost depends on."""

    d_model: int
    d_mlp: int
    heads: int
    parameters: int


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

    @cached_property
    def layers(self) -> tuple[BoundLayer, ...]:
        """Its layers, each with the names of its HookPoints and norms, and its weights."""
        of_model = self.hooked, self.hook_points, self.api, self.family, self.name
        return tuple(BoundLayer(*of_model, number) for number in range(self.n_layers))

    @property
    def fingerprint(self) -> str:
        """Of its weights when it was identified; see `weights_fingerprint`."""
        return self.memory.fingerprint

    @cached_property
    def hook_points(self) -> Mapping[str, HookPoint]:
        """Every HookPoint by name; a bridge collects them anew at each look, which takes milliseconds."""
        return dict(self.hooked.hook_dict)

    def hook_point(self, name: str) -> HookPoint:
        """A HookPoint by name.

        Raises:
            UnsupportedModelError: if the model has none of this name.
        """
        if name not in self.hook_points:
            raise UnsupportedModelError(
                f"{self.name} ({self.family.name}) has no HookPoint {name}: its block cannot be captured."
            )
        return self.hook_points[name]

    @property
    def n_heads(self) -> int:
        """Attention heads of a layer."""
        return int(self.hooked.cfg.n_heads)

    @property
    def output_name(self) -> str:
        """HookPoint of the residual stream after the last layer."""
        return self.layers[-1].output_name

    @property
    def parameter(self) -> Tensor:
        """A tensor of its first parameter's dtype, the model's, on the device where it takes its input."""
        parameter = weight_on_device(self.hooked)
        assert parameter is not None, "a model has parameters"
        return parameter

    @property
    def device(self) -> torch.device:
        """Where it takes its input."""
        return self.parameter.device

    @property
    def dtype(self) -> str:
        """The parameters' dtype, such as "float32"."""
        return str(self.parameter.dtype).removeprefix("torch.")

    @property
    def working_dtype(self) -> torch.dtype:
        """float64 for float64 models, else float32: half-precision weights are read exactly into it."""
        return torch.float64 if self.parameter.dtype == torch.float64 else torch.float32

    @property
    def tolerance(self) -> float:
        """Relative error above which a result is refused, by the dtype of the parameters."""
        return TOLERANCE.get(self.parameter.dtype, TOLERANCE[torch.float32])

    def eps(self, dtype: torch.dtype) -> float:
        """The unit of rounding of a decomposition in a dtype: of the coarser of the model's and its own."""
        return max(torch.finfo(each).eps for each in (self.parameter.dtype, dtype))

    @property
    def is_processed(self) -> bool:
        """Whether weights were folded or centred after loading (norms are not invariant to that)."""
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
        """What its cost depends on."""
        cfg = self.hooked.cfg
        parameters = sum(parameter.numel() for parameter in self.hooked.parameters())
        return ModelSizes(int(cfg.d_model), int(cfg.d_mlp), int(cfg.n_heads), parameters)

    @property
    def longest_input(self) -> int | None:
        """Tokens that it reads at most; None where it sets no limit."""
        return getattr(self.hooked.cfg, "n_ctx", None)

    @property
    def rotates(self) -> bool:
        """Whether attention multiplies queries and keys after a rotary embedding."""
        return getattr(self.hooked.cfg, "positional_embedding_type", None) == "rotary"

    def at_once(self, budgets: Mapping[str, int], numbers: int) -> int:
        """How many things of so many numbers each fit a budget in bytes, by device; one always does."""
        parameter = self.parameter
        return max(1, budgets.get(parameter.device.type, budgets["cpu"]) // (numbers * parameter.element_size()))

    def fingerprint_now(self) -> str:
        """Of its weights as they are now; errors are those of `identify`, for a model in training mode among them."""
        return identify(self.hooked).fingerprint

    def callbacks(self) -> frozenset[tuple[int, int]]:
        """Which callbacks of users sit on its HookPoints and modules: the same set as long as none is added or removed."""
        return user_callbacks(self.hook_points.values()) | module_callbacks(self.hooked.modules())

    @property
    def is_listened_to(self) -> bool:
        """Whether any callback sits on a HookPoint: a user's, or one of another capture."""
        return is_listened_to(self.hook_points.values())

    def hooks_disabled(self) -> AbstractContextManager[None]:
        """No callback of a user's and none of ours fires inside."""
        return silence(self.hook_points.values())

    @property
    def has_trained_head(self) -> bool:
        """Whether its unembedding, and an encoder's head before it, came with its weights: sentence encoders have none.

        Known of models that `load_model` loaded.
        """
        return _has_trained_head(self.hooked)

    def refuse_untrained_head(self) -> None:
        """Refuse to read logits of a model whose head came without weights.

        Raises:
            UntrainedHeadError: if they are those of random weights.
        """
        if not self.has_trained_head:
            raise UntrainedHeadError(
                f"{self.name} came without weights for its unembedding (it was saved without its head for masked words): its "
                "logits are those of random weights, so neither a metric nor a vector can be read as tokens. Use a model with a "
                "language-model head, or read directions in its residual stream."
            )

    @property
    def embedding_matrix(self) -> Float[Tensor, "d_vocab d_model"]:
        """W_E."""
        with weights_on_device(self.hooked.embed):
            return self.hooked.W_E.detach()

    def token_vectors(self, ids: Int[Tensor, " token"]) -> Float[Tensor, "token d_model"]:
        """Rows of the embedding matrix: what a token is before its position and all layers."""
        matrix = self.embedding_matrix
        return matrix[ids.to(matrix.device)].float().cpu()

    def weights_digest(self, *, head: bool = False) -> str:
        """A digest of every parameter up to the last layer, or with the head, by name, shape and bytes.

        A head that nobody trained has other random weights at every loading and says nothing: it is omitted.
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
        """A copy whose parameters are drawn anew, each tensor from a normal distribution of its own mean and deviation.

        The baseline of probes: a model like this one with weights that learned nothing. The model itself stays as it is.

        Raises:
            UnsupportedModelError: if weights are offloaded or quantised.
        """
        if any(weight.hook or len([*plain_tensors(weight.shown)]) > 1 for weight in _weights(self.hooked)):
            raise UnsupportedModelError(
                f"{self.name} has offloaded or quantised weights, of which no random copy is drawn. Load it whole and unquantised."
            )
        hooked = copy.deepcopy(self.hooked)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in hooked.parameters():
                if parameter.numel() > 1:
                    noise = torch.randn(parameter.shape, generator=generator).to(parameter)
                    parameter.copy_(noise * parameter.std() + parameter.mean())
        return identify(hooked)


def identify(model: Any) -> Model:
    """Recognise a TransformerLens model by its class, architecture and the structure of its blocks.

    A `Model` is given back as it is.

    Raises:
        InputError: if it is not a TransformerLens model, or drops activations at random.
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
    fingerprint, callbacks = weights_fingerprint(model), module_callbacks(model.modules())
    memory = _memories.get(model)
    if memory is None or (memory.fingerprint, memory.callbacks) != (fingerprint, callbacks):
        memory = _memories[model] = Memory(fingerprint, callbacks)
    if memory.difference is None:
        refuse_unreadable(model)
        memory.difference = difference_from_hugging_face(model, name)
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
    return not getattr(getattr(getattr(hooked, "original_model", None), "config", None), UNTRAINED_HEAD, False)


def weights_fingerprint(hooked: Any) -> str:
    """A digest of a model's weights as they are now: 16 hexadecimal digits, the same in every process.

    Every parameter and buffer is read, since nothing else tells of an edit through `.data`: at the speed of memory, 30 ms
    for 135 million float32 numbers. Weights on accelerators are copied and digested once, and again when the norm of one of
    them changes. A head that nobody trained is random at every loading and is left out. Kinds of modules and the numbers that
    they compute with (an eps, a scale, a window, an activation) are part of it.
    """
    adapted = responses_of(hooked)
    digest = _parameters_digest(hooked)
    # An adapter's scale, and whether it is on, is not a parameter.
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
    """Whether all weights lie in memory that is read at its own speed, and in no file."""
    return all(weight.file is None and weight.shown.device.type in ("cpu", "meta") for weight in weights)


def _weights(hooked: Any) -> Iterator[StoredWeight]:
    """Every parameter and buffer once, also those that modules share."""
    random_modules = () if _has_trained_head(hooked) else MODULES_AFTER_LAST_LAYER
    known: set[int] = set()
    offloaded: list[StoredWeight] = []
    for name, module in hooked.named_modules():
        if random_modules and name.startswith(random_modules):
            continue
        # Rotary frequencies that follow the length of the text (transformers' longrope, dynamic) are those of the last one.
        follows = any(kind in str(vars(module).get("rope_type", "")) for kind in ("longrope", "dynamic"))
        for weight in stored_weights(module, buffers=not follows):
            if id(weight.shown) in known:
                continue
            if weight.hook and name.startswith(_TIED) and any(map(weight.equals, offloaded)):
                continue  # tied to an earlier one, and kept twice by accelerate
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
    config = getattr(getattr(hooked, "original_model", None), "config", None)
    if config is not None:
        yield from _numbers_of(config)


# Methods of modules that accelerate replaces, to warn who moves a model that it has placed.
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
    """Where weights lie and how long each is: few kernels and one wait, whatever their number; of files size and time."""
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
