"""Memory that outlives a layer or a call, how much is worked on at a time, and which sequences together.

The optimised implementation writes its few large matrices to the same buffers, layer after layer: memory fresh from
the system costs a page fault every 4 kB, together a twentieth of a map's time.

`HeadProducts` are made once per model: `A[h] = lin(W_O[h]) W`, from a head's values to pre-activations, with `lin` the linear
part of the norms between attention and the feed-forward's input matrix W. Without the product, a source token j needs its
heads' vectors `B[h,j] = lin(v[h,j] W_O[h])` times W; with it, `v[h,j] A[h]`, which has d_head rows of W instead of d_model:

    without   n_heads * d_model * d_mlp   operations a source token
    with      n_heads * d_head  * d_mlp = d_model * d_mlp        (as n_heads * d_head = d_model)
    making A  n_heads * d_head  * d_model * d_mlp = d_model^2 * d_mlp, once

So making it pays from `n_keys * (d_model - d_head) = d_head * d_model` source tokens on (`product_pays`), of one head as of
all. What is kept is checked against the weights at every use and made again when they changed.
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

from tl_ffblock.layer.records import BatchRecords, FeedForward, InputMatrix, LayerRecord, Norm, Settings


@dataclass(frozen=True)
class Budget:
    """How much is worked on at a time. It moves time and memory, and no number by more than rounding.

    The heads' pre-activations of one group of source tokens may occupy `group_bytes`, the packed rows `row_bytes` where
    `Settings.chunk_bytes` leaves it open, the coefficients of sequences that are worked on together `sequence_bytes`: they are
    read once a source token. `call_operations` is what a tile costs beside its pairs, in operations of the large product. A causal
    layer's tile of several source tokens also holds pairs that cannot be reached, so its tiles grow in that direction only up to
    there.
    """

    group_bytes: int
    row_bytes: int
    sequence_bytes: int
    call_operations: int

    def sequences(self, record: LayerRecord, settings: Settings) -> int:
        """How many sequences like this one to work on at a time."""
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
    """Uninitialised memory under keys, for one call on one thread.

    A key's memory is one and the same every time: whoever reserves it overwrites what was there.

    Args:
        budget: How much is worked on at a time; None means what suits the device.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget
        self._memory: dict[_Key, Tensor] = {}
        self._owner: dict[_Key, object] = {}
        self._made: dict[str, tuple[Hashable, Any]] = {}

    def budget(self, device: torch.device) -> Budget:
        """How much to work on at a time on a device."""
        return self._budget or (ON_CPU if device.type == "cpu" else ON_GPU)

    def reserve(self, key: Hashable, *shape: int, like: Tensor) -> Tensor:
        """Memory of a shape, with the dtype and device of `like`, whatever it holds."""
        full_key = (key, like.dtype, like.device)
        self._owner.pop(full_key, None)
        return self._view(full_key, shape, like)

    def filled_by(
        self, owner: object, key: Hashable, *shape: int, like: Tensor, fill: Callable[[Tensor], object]
    ) -> Tensor:
        """The same memory as `fill` left it for this owner; it is filled again once anybody else had the key.

        Args:
            owner: Whose content it is, told from others by identity. It is kept alive, lest its id be used again.
            key: Whose memory it is.
            *shape: The shape of the memory.
            like: A tensor of the dtype and on the device that are wanted.
            fill: Writes the content; called only where it is not there already.
        """
        full_key = (key, like.dtype, like.device)
        memory = self._view(full_key, shape, like)
        if self._owner.get(full_key) is not owner:
            fill(memory)
            self._owner[full_key] = owner
        return memory

    def same_for(self, key: Hashable, name: str, make: Callable[[], T]) -> T:
        """What `make` made when it was last asked for by this name, as long as the key is the same.

        Which pairs there are, and where each lies, is alike in all layers of a call.
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
    """Which sequences they are, the first above."""
    record: LayerRecord
    asked: Sequence[int] | None = None
    """Positions of a sequence's rows, where they are known without asking the device."""

    @property
    def n_sequences(self) -> int:
        """How many sequences."""
        return len(self.numbers)

    @cached_property
    def positions(self) -> list[int]:
        """Positions of a sequence's rows."""
        n_queries = len(self.record.queries) // self.n_sequences
        return self.record.queries[:n_queries].tolist() if self.asked is None else list(self.asked)


def stacks(records: Mapping[int, LayerRecord], buffers: Buffers, settings: Settings) -> Iterator[Stack]:
    """A layer's records in stacks that fit the budget.

    Edited records stay alone, and those of a mixture of experts, whose queries are served by different experts.

    Args:
        records: By number of the sequence; of a batch they are not cut apart first where that can be helped.
        buffers: Their budget says how much is worked on at a time.
        settings: Of the decomposition; captum takes sequences one by one.
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
            yield Stack(tuple(numbers), stacked, positions)  # type: ignore[arg-type]  # the numbers of a form


def _stays_alone(record: LayerRecord, settings: Settings) -> bool:
    return record.edited or settings.method == "captum" or not isinstance(record.block.feed_forward, FeedForward)


KEPT_BYTES = 256 * 2**20
"""How much a model's products may occupy; those of further layers are made anew at every call."""

# Up to this many pairs for each of d_model, making a product is felt: it takes d_model rows through W, and the
# pairs take theirs through W_out. Beyond, it is less than a thirtieth of the work, and not worth the memory.
_ROWS_A_MODEL_WIDTH = 32

# A product that is kept serves further calls: it pays from a fourth of the source tokens on.
_CALLS_EXPECTED = 4

MakeProduct: TypeAlias = Callable[..., Float[Tensor, "head d_head d_mlp"]]
"""`HeadProducts.product`, or the same of some heads."""


class ProductKey(NamedTuple):
    """Which input matrix of a model a product is of."""

    layer: int
    expert: int
    """Number of the expert in its layer; 0 for a feed-forward without experts."""
    matrix: InputMatrix


@dataclass
class HeadProducts:
    """The head products of one model; whoever owns the model keeps them."""

    limit_bytes: int = KEPT_BYTES
    follow_weights: bool = False
    """Whether their owner forgets them when a weight changes, so that they need not be compared with the weights at every use."""
    # With fingerprints: products of the weights with fixed vectors, of which other weights give others.
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
        """`A[h] = lin(W_O[h]) W`, as it was kept, or made now.

        Args:
            key: Which input matrix W is.
            w_o: The heads' output matrices.
            norms: What lies between attention and W; only their linear parts count.
            w: An input matrix of the feed-forward.
            keep: Whether the product will be needed again soon.
        """
        kept = self._kept.get(key)
        # A model may be edited in place between two calls (weights processed, a layer replaced), unseen by any key.
        fingerprint = None if self.follow_weights or not (keep or kept) else _fingerprint(w_o, norms, w)
        # The same rows as fewer, wider heads (`as_one_head`) have the same fingerprint, and a product of another shape.
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
        """How many bytes are kept."""
        return sum(product.nbytes for product, _ in self._kept.values())


def product_pays(n_keys: int, n_pairs: int, w_o: Float[Tensor, "head d_head d_model"]) -> tuple[bool, bool]:
    """Whether so many source tokens are less work with the product, and so few pairs that it is worth keeping."""
    _, d_head, d_model = w_o.shape
    keep = n_pairs < _ROWS_A_MODEL_WIDTH * d_model
    return n_keys * (d_model - d_head) >= d_head * d_model // (_CALLS_EXPECTED if keep else 1), keep


def linear_parts(norms: Sequence[Norm], vectors: Float[Tensor, "*lead d_model"]) -> Float[Tensor, "*lead d_model"]:
    """Vectors through the linear parts of some norms: centred and times the gain, divided by no scale."""
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
