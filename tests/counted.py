"""A device without hardware: its tensors lie in memory of the CPU, and what a GPU would be asked to do with them is counted.

    device = CountedDevice()
    with device, device.holding(model):
        ffb.contribution_maps(model, tokens)
    device.kernels.total(), device.waits.total(), device.bytes_to_host

To torch they are on another device ("lazy", whose backend is not part of torch's builds, so that nothing else answers): the
code takes the paths that it takes on a GPU, numbers reach Python by copies alone, and tensors of both devices in one operation are
refused as CUDA refuses them. Kernels are dispatched operations that are not views, allocations or copies to or from the device.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

DEVICE = torch.device("lazy", 0)
_aten: Any = torch.ops.aten
# Operations whose result has a size or a value that Python has to know before it can go on.
_WAITS = (
    "_local_scalar_dense",
    "nonzero",
    "equal",
    "masked_select",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "allclose",
)
_COPIES = ("_to_copy", "copy_")
_INDEXED = ("index", "index_put_", "index_put", "_index_put_impl_")
# No kernel: views that torch does not call so, memory that nobody has written.
_NOTHING = ("detach", "alias", "lift_fresh", "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided")
_NOTHING += ("_unsafe_view", "_reshape_alias", "resize_", "promote_types", "sym_size", "_local_scalar_dense")


class OnDevice(Tensor):
    """A tensor of the device; `held` is where its numbers lie."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor) -> "OnDevice":
        made: OnDevice = Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{func}: a tensor of the counted device outside of it.")

    def __repr__(self, **_: object) -> str:  # type: ignore[override]
        return f"OnDevice({self.held!r})"

    # What torch does in C++ below the dispatcher, for tensors whose class it does not know.

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, **_: Any) -> Any:
        return self.cpu().numpy()

    def __array__(self, dtype: Any = None) -> Any:
        return self.cpu().__array__(dtype)

    def __getitem__(self, index: Any) -> Tensor:
        return Tensor.__getitem__(self, _on_device(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        Tensor.__setitem__(self, _on_device(index), value)


def _on_device(index: Any) -> Any:
    """An index whose lists of numbers were copied to the device, as torch copies them."""
    if isinstance(index, tuple):
        return tuple(_on_device(part) for part in index)
    return torch.tensor(list(index)).to(DEVICE) if isinstance(index, list | range) else index


class CountedDevice(TorchDispatchMode):
    """Counts inside: kernels, waits of Python for the device, and bytes that came back.

    Args:
        where: Whether the lines of the package that ask for them are counted too.
    """

    def __init__(self, *, where: bool = False) -> None:
        super().__init__()
        self._where = where
        self.clear()

    def clear(self) -> None:
        """Count from zero."""
        self.kernels: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        """Numbers that Python waits for, and copies to the device that wait until it has done all before them ("upload")."""
        self.bytes_to_host = 0
        self.largest_copy: tuple[int, ...] = ()
        """The shape of the largest tensor that came back."""
        self.lines: Counter[tuple[str, str]] = Counter()
        """By what ("kernel" or a wait) and where, of the package's innermost line."""

    def __enter__(self) -> "CountedDevice":
        self._lifts = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device=...) copies where it can be seen
        # Autocast knows no such device.
        self._autocast = patch("torch.is_autocast_enabled", lambda _=None: False)
        self._autocast.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *event: object) -> None:
        super().__exit__(*event)
        self._autocast.__exit__(*event)
        torch._C._set_only_lift_cpu_tensors(self._lifts)

    @contextmanager
    def holding(self, model: Any) -> Iterator[None]:
        """A model's parameters and buffers are on the device inside, those of the model that a bridge wraps too."""
        parts = chain(model.modules(), getattr(model, "original_model", model).modules())
        # A bridge's modules have the parameters of those they wrap as plain attributes, too.
        tables = [table for part in parts for table in (part._parameters, part._buffers, vars(part))]
        kept = [(table, name, held) for table in tables for name, held in table.items() if isinstance(held, Tensor)]
        moved: dict[int, Tensor] = {}
        for table, name, tensor in kept:
            table[name] = moved[id(tensor)] = moved[id(tensor)] if id(tensor) in moved else _moved(tensor)
        try:
            yield
        finally:
            for table, name, tensor in kept:
                table[name] = tensor

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation on the memory of its tensors."""
        kwargs, name = dict(kwargs or {}), func.overloadpacket.__name__
        leaves = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        ours = {id(leaf.held): leaf for leaf in leaves if isinstance(leaf, OnDevice)}
        asked = kwargs.get("device")
        there = bool(ours) if asked is None else torch.device(asked).type == DEVICE.type
        if there and asked is not None:
            kwargs["device"] = torch.device("cpu")
        if ours or there:
            self._count(func, name, args, kwargs, leaves, there=there)
        held_args, held_kwargs = tree_map_only(OnDevice, lambda leaf: leaf.held, (args, kwargs))
        out = func(*held_args, **held_kwargs)
        if name == "_to_copy" and not there and ours:
            self._came_back(out)
        return tree_map_only(
            Tensor, lambda made: ours[id(made)] if id(made) in ours else OnDevice(made) if there else made, out
        )

    def _count(self, func: Any, name: str, args: Any, kwargs: Any, leaves: Sequence[Tensor], *, there: bool) -> None:
        ours = [isinstance(leaf, OnDevice) for leaf in leaves]
        if name in _COPIES and (not there or not all(ours)):
            source = args[1] if name == "copy_" else args[0]
            if isinstance(source, OnDevice):
                self._note(self.waits, "read")
                if name == "copy_":
                    self._came_back(source)
            elif (
                source.numel()
                and source.ndim
                and not (kwargs.get("non_blocking") or (name == "copy_" and args[2:3] == (True,)))
            ):
                self._note(self.waits, "upload")
            return
        self._refuse_two_devices(func, name, leaves)
        if name in _WAITS:
            self._note(self.waits, name)
            self.bytes_to_host += 8 * (name != "nonzero")
        if name in _INDEXED:
            for index in args[1]:
                if index is not None and index.dtype in (torch.bool, torch.uint8) and index.ndim:
                    self._note(self.waits, "mask as index")
                elif index is not None and not isinstance(index, OnDevice):
                    self._note(self.waits, "upload")
        if name not in _NOTHING and not func.is_view:
            self._note(self.kernels, name, kind="kernel")

    def _refuse_two_devices(self, func: Any, name: str, leaves: Sequence[Tensor]) -> None:
        strange = [leaf for leaf in leaves if not isinstance(leaf, OnDevice) and leaf.ndim]
        if strange and name not in _INDEXED and any(isinstance(leaf, OnDevice) for leaf in leaves):
            raise RuntimeError(f"{func}: a tensor {tuple(strange[0].shape)} of the CPU with tensors of the device.")

    def _came_back(self, tensor: Tensor) -> None:
        self.bytes_to_host += tensor.nbytes
        if tensor.numel() > torch.Size(self.largest_copy).numel() or not self.largest_copy:
            self.largest_copy = tuple(tensor.shape)

    def _note(self, counter: "Counter[str]", name: str, kind: str = "") -> None:
        counter[name] += 1
        if self._where:
            frame = sys._getframe(3)
            while frame is not None and "/tl_ffblock/" not in frame.f_code.co_filename:
                frame = frame.f_back  # type: ignore[assignment]
            file = "model" if frame is None else frame.f_code.co_filename.split("/tl_ffblock/")[-1]
            line = "" if frame is None else f":{frame.f_lineno} {frame.f_code.co_qualname}"
            self.lines[kind or name, file + line] += 1


def _moved(tensor: Tensor) -> Tensor:
    with torch.no_grad():
        there = OnDevice(tensor.detach())
    return nn.Parameter(there, requires_grad=tensor.requires_grad) if isinstance(tensor, nn.Parameter) else there
