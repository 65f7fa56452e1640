"""Buffers shared by layers and calls, sizes of the work, batches of equally long sequences, and weight products.

The optimised implementation writes its few large matrices to the same buffers, layer after layer. New memory from the system
costs a page fault per 4 kB, together a twentieth of the time of a map.

`HeadProducts` are computed once per model: `A[h] = lin(W_O[h]) W`, from a head's values to pre-activations. `lin` is the linear
part of the norms between attention and the feed-forward's input matrix W. Without the product, a source token j needs its
heads' vectors `B[h,j] = lin(v[h,j] W_O[h])` times W. With it, it needs `v[h,j] A[h]`, which has d_head rows of W instead of
d_model:

    without   n_heads * d_model * d_mlp   operations per source token
    with      n_heads * d_head  * d_mlp = d_model * d_mlp        (as n_heads * d_head = d_model)
    making A  n_heads * d_head  * d_model * d_mlp = d_model^2 * d_mlp, once

So the product saves time if `n_keys * (d_model - d_head) >= d_head * d_model` (`product_pays`), for one head as for all. Stored
products are compared with the weights at every use, and computed again if these changed.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.records import BatchRecords, FeedForward, InputMatrix, LayerRecord, Norm, Settings, feed_forwards


@dataclass(frozen=True)
class Budget:
    """Sizes of the work done at once. They change time and memory, and results only by rounding.

    `group_bytes` bounds the heads' pre-activations of a group of source tokens. `row_bytes` bounds the packed rows if
    `Settings.chunk_bytes` is None. `sequence_bytes` bounds the path coefficients of sequences that are processed together,
    which are read once per source token. `call_operations` is the fixed cost of a tile, in operations of the large product. A
    tile of several source tokens in a causal layer also contains unreachable pairs; it grows only until these cost as much.
    """

    group_bytes: int
    row_bytes: int
    sequence_bytes: int
    call_operations: int

    def sequences(self, record: LayerRecord, settings: Settings) -> int:
        """Number of sequences like this one to process together."""
        ff = record.block.feed_forward
        if _stays_alone(record, settings) or not isinstance(ff, FeedForward):
            return 1
        number = ff.w_in.element_size()
        bytes_a_row = (1 if ff.w_gate is None else 2) * ff.w_in.shape[1] * number
        bytes_a_key = record.block.attention.w_o.shape[0] * bytes_a_row
        bytes_a_pair = bytes_a_row + 2 * ff.w_in.shape[0] * number
        fitting = (
            self.sequence_bytes // (record.queries.shape[-1] * bytes_a_row),
            self.group_bytes // bytes_a_key,
            (settings.chunk_bytes or self.row_bytes) // bytes_a_pair,
        )
        return max(1, min(fitting))


ON_CPU = Budget(group_bytes=16 * 2**20, row_bytes=24 * 2**20, sequence_bytes=8 * 2**20, call_operations=15 * 10**6)
ON_GPU = Budget(group_bytes=512 * 2**20, row_bytes=2**30, sequence_bytes=512 * 2**20, call_operations=3 * 10**9)

T = TypeVar("T")
_Key: TypeAlias = tuple[Hashable, torch.dtype, torch.device]


class Buffers:
    """Uninitialised memory by key, for one call on one thread.

    A key always has the same memory: reserving it again overwrites the content.

    Args:
        budget: Sizes of the work; None means those for the device.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget
        self._memory: dict[_Key, Tensor] = {}
        self._owner: dict[_Key, object] = {}
        self._made: dict[str, tuple[Hashable, Any]] = {}

    def budget(self, device: torch.device) -> Budget:
        """Sizes of the work on a device."""
        return self._budget or (ON_CPU if device.type == "cpu" else ON_GPU)

    def rows_of_vectors(self, record: LayerRecord) -> int:
        """Number of queries of a layer by channel whose vectors fit the budget, at least one."""
        budget = self.budget(record.value.device).row_bytes
        channels, widths = record.head_values[0].numel(), [ff.w_in.shape[1] for ff in feed_forwards(record.block)]
        widest = 2 * channels + 3 * record.resid_pre.shape[1] + 3 * max(widths, default=0)
        return max(1, 2 * budget // (widest * len(record.value) * record.value.element_size()))

    def reserve(self, key: Hashable, *shape: int, like: Tensor) -> Tensor:
        """Uninitialised memory of a shape, with the dtype and device of `like`."""
        full_key = (key, like.dtype, like.device)
        self._owner.pop(full_key, None)
        return self._view(full_key, shape, like)

    def filled_by(
        self, owner: object, key: Hashable, *shape: int, like: Tensor, fill: Callable[[Tensor], object]
    ) -> Tensor:
        """Memory with the content that `fill` wrote for this owner; it is filled again if another owner or `reserve` used the key.

        Args:
            owner: Owner of the content, compared by identity. A reference to it is stored, so that its `id` stays unique.
            key: Key of the memory.
            *shape: Shape of the memory.
            like: A tensor of the dtype and on the device that are wanted.
            fill: Writes the content; called only if it is not there.
        """
        full_key = (key, like.dtype, like.device)
        memory = self._view(full_key, shape, like)
        if self._owner.get(full_key) is not owner:
            fill(memory)
            self._owner[full_key] = owner
        return memory

    def same_for(self, key: Hashable, name: str, make: Callable[[], T]) -> T:
        """Result of `make` at the last call with this name, if the key is the same; else a new one.

        The reachable pairs and their places are the same in all layers of a call.
        """
        if self._made.get(name, (None, None))[0] != key:
            self._made[name] = key, make()
        made: T = self._made[name][1]
        return made

    def _view(self, key: _Key, shape: tuple[int, ...], like: Tensor) -> Tensor:
        size = math.prod(shape)
        if key not in self._memory or self._memory[key].numel() < size:
            self._memory[key] = like.new_empty(size)
            self._owner.pop(key, None)
        return self._memory[key][:size].view(shape)


@dataclass(frozen=True)
class Stack:
    """Sequences of one layer, equally long and with the same queries, as one record (`LayerRecord.below_each_other`)."""

    numbers: tuple[int, ...]
    """Numbers of the sequences, in the order of their rows."""
    record: LayerRecord
    asked: Sequence[int] | None = None
    """Positions of a sequence's rows, if they are known without reading them from the device."""

    @property
    def n_sequences(self) -> int:
        """Number of sequences."""
        return len(self.numbers)

    @cached_property
    def positions(self) -> list[int]:
        """Positions of a sequence's rows."""
        n_queries = len(self.record.queries) // self.n_sequences
        return self.record.queries[:n_queries].tolist() if self.asked is None else list(self.asked)


def stacks(records: Mapping[int, LayerRecord], buffers: Buffers, settings: Settings) -> Iterator[Stack]:
    """Records of a layer in stacks that fit the budget.

    Edited records, those of gated attention, whose patterns by channel are large, and those of a mixture of experts, whose queries go
    to different experts, have a stack of their own.

    Args:
        records: Records by number of the sequence. Those of a batch are not split into sequences first if that can be avoided.
        buffers: Buffers, whose budget gives the sizes.
        settings: Options of the decomposition; Captum processes sequences one by one.
    """
    whole = None
    by_form: dict[tuple[object, ...], list[int]] = {}
    if isinstance(records, BatchRecords) and records.whole and not _stays_alone(records.batch, settings):
        whole, by_form = records.batch, {(None, None, None, *records.captured[0]): list(records)}
    for number, record in records.items() if whole is None else ():
        form = (record.edited, id(record.block), len(record.resid_pre), *record.queries.tolist())
        by_form.setdefault(form, []).append(number)
    for (_, _, _, *positions), alike in by_form.items():
        record = whole or records[alike[0]]
        at_once = buffers.budget(record.block.attention.w_o.device).sequences(record, settings)
        for start in range(0, len(alike), at_once):
            numbers = alike[start : start + at_once]
            below = LayerRecord.below_each_other
            stacked = whole.flattened(slice(start, start + at_once)) if whole else below([records[n] for n in numbers])
            yield Stack(tuple(numbers), stacked, positions)  # type: ignore[arg-type]  # the positions of a form are ints


def _stays_alone(record: LayerRecord, settings: Settings) -> bool:
    one = record.edited or settings.method == "captum" or record.is_by_channel
    return one or not isinstance(record.block.feed_forward, FeedForward)


KEPT_BYTES = 256 * 2**20
"""Largest memory of a model's products, in bytes; those of further layers are computed at every call."""

# Below this number of pairs per d_model, the cost of a product is noticeable: it multiplies d_model rows by W, and the pairs
# multiply theirs by W_out. Above it, the product is less than a thirtieth of the work and not worth its memory.
_ROWS_A_MODEL_WIDTH = 32

# A stored product serves further calls, so it already saves time at a fourth of the source tokens.
_CALLS_EXPECTED = 4

MakeProduct: TypeAlias = Callable[..., Float[Tensor, "head d_head d_mlp"]]
"""`HeadProducts.product`, or the same for some heads."""


class ProductKey(NamedTuple):
    """Input matrix that a product belongs to."""

    layer: int
    expert: int
    """Number of the expert in its layer; 0 for a feed-forward without experts."""
    matrix: InputMatrix


@dataclass
class HeadProducts:
    """Weight products of one model's heads; stored by the owner of the model."""

    limit_bytes: int = KEPT_BYTES
    follow_weights: bool = False
    """Whether the owner deletes them when a weight changes, so that they need not be compared with the weights at every use."""
    # With fingerprints: products of the weights with fixed vectors, which change if a weight changes.
    _kept: dict[ProductKey, tuple[Float[Tensor, "head d_head d_mlp"], Float[Tensor, " number"] | None]] = field(
        default_factory=dict
    )

    def product(
        self,
        key: ProductKey,
        w_o: Float[Tensor, "head d_head d_model"],
        norms: Sequence[Norm],
        w: Float[Tensor, "d_model d_mlp"],
        *,
        keep: bool,
    ) -> Float[Tensor, "head d_head d_mlp"]:
        """Product `A[h] = lin(W_O[h]) W`, stored or computed.

        Args:
            key: The input matrix W in the model.
            w_o: Output matrices of the heads.
            norms: Norms between attention and W; only their linear parts count.
            w: Input matrix of the feed-forward.
            keep: Whether to store the product, if memory allows.
        """
        kept = self._kept.get(key)
        # A model may be edited in place between two calls (processed weights, a replaced layer), which does not change the key.
        fingerprint = None if self.follow_weights or not (keep or kept) else _fingerprint(w_o, norms, w)
        # One head with the rows of all heads (`as_one_head`) has the same fingerprint, but a product of another shape.
        wanted = (w_o.shape[:2], w.dtype, w.device)
        fits = kept is not None and (kept[0].shape[:2], kept[0].dtype, kept[0].device) == wanted
        if kept is not None and fits and (self.follow_weights or _equal(kept[1], fingerprint)):
            return kept[0]
        product = einsum(linear_parts(norms, w_o), w, "head d_head d, d d_mlp -> head d_head d_mlp")
        self._kept.pop(key, None)
        if keep and self.n_bytes() + product.nbytes <= self.limit_bytes:
            self._kept[key] = product, fingerprint
        return product

    def n_bytes(self) -> int:
        """Memory of the stored products, in bytes."""
        return sum(product.nbytes for product, _ in self._kept.values())


def product_pays(n_keys: int, n_pairs: int, w_o: Float[Tensor, "head d_head d_model"]) -> tuple[bool, bool]:
    """Whether a product saves time for this number of source tokens, and whether the pairs are few enough to store it."""
    _, d_head, d_model = w_o.shape
    keep = n_pairs < _ROWS_A_MODEL_WIDTH * d_model
    return n_keys * (d_model - d_head) >= d_head * d_model // (_CALLS_EXPECTED if keep else 1), keep


def linear_parts(norms: Sequence[Norm], vectors: Float[Tensor, "*lead d_model"]) -> Float[Tensor, "*lead d_model"]:
    """Vectors after the linear parts of some norms: centred and multiplied by the gain, without the scale."""
    for norm in norms:
        vectors = norm.linear(vectors)
    return vectors


def _fingerprint(
    w_o: Float[Tensor, "head d_head d_model"], norms: Sequence[Norm], w: Float[Tensor, "d_model d_mlp"]
) -> Float[Tensor, " number"]:
    d_model, d_mlp = w.shape
    across_d_mlp, across_d_model = (
        torch.linspace(0.5, 1.5, size, dtype=w.dtype, device=w.device) for size in (d_mlp, d_model)
    )
    return torch.cat([w @ across_d_mlp, (w_o @ across_d_model).flatten(), *(norm.gain for norm in norms)])


def _equal(first: Float[Tensor, " number"] | None, second: Float[Tensor, " some"] | None) -> bool:
    return first is not None and second is not None and first.shape == second.shape and bool((first == second).all())
