"""Files that are written as a whole or not at all, and tensors with labels in safetensors files with a checksum."""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tl_ffblock.errors import InputError, MapFileError

if TYPE_CHECKING:  # the command line looks at paths before it imports torch
    from torch import Tensor


def check_replaceable(path: Path) -> None:
    """Refuse a path under which no regular file can be written.

    Raises:
        InputError: if its folder does not exist, or it is a folder, a device or a pipe, which a file would replace.
    """
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; give the name of a file.")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: the folder {path.parent} does not exist; make it first.")
    if path.exists() and not path.is_file():
        raise InputError(
            f"cannot write {path}: it is no regular file but a device or a pipe, which a file would replace; give the name of "
            "a file."
        )


def write_atomically(path: Path, data: bytes) -> None:
    """Write under a temporary name in the same folder, then rename: all of it or nothing.

    Raises:
        InputError: if the folder does not exist, or the path is a folder, a device or a pipe.
        OSError: if the disk refuses; what stood under `path` is still there then.
    """
    check_replaceable(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        # mkstemp makes files that only their owner reads; a saved file has the rights any new file has.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


class TensorFile(NamedTuple):
    """What a file of labels and tensors says, once its checksum is found to be right."""

    kind: str
    """Name of the format, such as "tl_ffblock.Attribution"."""
    version: int
    labels: dict[str, Any]
    tensors: dict[str, "Tensor"]


def write_tensors(
    path: Path, kind: str, version: int, labels: Mapping[str, Any], tensors: Mapping[str, "Tensor"]
) -> None:
    """Write labels and tensors to one safetensors file, with a checksum over both; a half-written one never appears.

    Args:
        path: Where.
        kind: Name of the format.
        version: Of the format.
        labels: What JSON can hold.
        tensors: By name.

    Raises:
        InputError: if the folder does not exist, or the path is no regular file.
    """
    import torch
    from safetensors.torch import save

    # Copies: safetensors refuses tensors that share their memory.
    kept = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    header = json.dumps(labels, ensure_ascii=True)
    metadata = {"format": kind, "version": str(version), "maps": header, "sha256": _digest(header, kept)}
    write_atomically(path, save(kept, metadata))


def read_tensors(path: Path) -> TensorFile:
    """Labels and tensors, as the checksum says they were written.

    Raises:
        MapFileError: if the file is not of this library or was changed.
        FileNotFoundError: if there is no such file.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"no saved result at {path}")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError, ValueError) as error:
        raise MapFileError(f"{path} is not a readable safetensors file: {error}") from error
    kind, version, header = (metadata.get(name, "") for name in ("format", "version", "maps"))
    if not kind.startswith("tl_ffblock") or not version.isdecimal():
        raise MapFileError(f"{path} holds no result of tl_ffblock (format {kind!r}, version {version!r}).")
    if metadata.get("sha256") != _digest(header, tensors):
        raise MapFileError(f"{path} was changed after it was saved (checksum differs): make it again.")
    return TensorFile(kind, int(version), json.loads(header), tensors)


def _digest(header: str, tensors: Mapping[str, "Tensor"]) -> str:
    import torch

    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
