"""Atomic writing of files, and safetensors files of labels and tensors with a checksum."""

import fcntl
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tl_ffblock.errors import InputError, MapFileError, brief

if TYPE_CHECKING:  # the command line looks at paths before it imports torch
    import pandas as pd
    from torch import Tensor


UNFINISHED = ".tl_ffblock-"
"""Prefix of the names of unfinished files."""
_ENTRY = "tl_ffblock"
"""The only entry of a safetensors file's metadata: safetensors writes several in random order."""


def check_replaceable(path: str | os.PathLike[str]) -> Path:
    """Path of the regular file that exists or can be made at a path; for a symbolic link, its target.

    Raises:
        InputError: if the folder does not exist, if the path is that of a folder, a device, a pipe or a read-only file, or if the
            system accepts no such name.
    """
    target = Path(path)
    try:
        target = Path(os.path.realpath(path))
        mode = target.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = 0
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot write {brief(str(path))}: {getattr(error, 'strerror', error)}. Use another name."
        ) from error
    if stat.S_ISDIR(mode):
        raise InputError(f"cannot write {path}: it is a folder. Use the name of a file.")
    if not target.parent.is_dir():
        shown = target.parent if Path(path).is_symlink() else Path(path).parent
        raise InputError(f"cannot write {path}: the folder {shown} does not exist. Make it first.")
    if stat.S_ISLNK(mode):
        raise InputError(f"cannot write {path}: its symbolic links form a loop. Use the name of a file.")
    if mode and not stat.S_ISREG(mode):
        raise InputError(
            f"cannot write {path}: it is a device or a pipe, expected a regular file. Use the name of a file, since a device or pipe "
            "would be replaced."
        )
    if mode and not os.access(target, os.W_OK):  # `os.replace` needs no permission to write the file
        raise InputError(f"cannot write {path}: it is read-only. Use another name, or make it writable (chmod u+w).")
    return target


def check_writable(path: str | os.PathLike[str]) -> None:
    """Check before a long computation that its result can be written.

    Raises:
        InputError: as `check_replaceable`, and if no file can be made in the folder.
    """
    target = check_replaceable(path)
    try:
        with _beside(target):
            pass
    except OSError as error:
        raise InputError(
            f"cannot write {path}: no file can be made in the folder {Path(path).parent} ({error.strerror}). Use another folder."
        ) from error


def write_atomically(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write a file completely or not at all: to a temporary file in the same folder, flushed to the disk, then renamed.

    The library writes every file in this way. The new file has mode and owner of a replaced one. A symbolic link is kept, and its
    target is written. Other hard links keep the old file. Unfinished files of killed processes in the folder are removed.

    Args:
        path: File to write.
        data: Its content.

    Returns:
        The path.

    Raises:
        InputError: as `check_replaceable`.
        OSError: if the file cannot be written; an existing file at `path` is then unchanged.
    """
    target = check_replaceable(path)
    try:
        with _beside(target) as (handle, name):
            with open(handle, "wb", closefd=False) as file:
                file.write(data)
            with suppress(FileNotFoundError):
                before = target.stat()
                with suppress(PermissionError):  # only root may change the owner
                    os.fchown(handle, before.st_uid, before.st_gid)
                os.fchmod(handle, stat.S_IMODE(before.st_mode))
            os.fsync(handle)
            os.replace(name, target)
            _flush_folder(target.parent)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error  # with `path`, not the temporary name
    return Path(path)


def write_table(path: str | os.PathLike[str], table: "pd.DataFrame") -> Path:
    """Write a table as CSV, as `write_atomically` does. Cells are unchanged, also those that a spreadsheet reads as a formula."""
    text = table.to_csv(index=False, lineterminator="\n")
    return write_atomically(path, text.encode("utf-8", "backslashreplace"))  # a lone surrogate has no UTF-8


def regular_file(path: str | os.PathLike[str]) -> Path:
    """Path of a regular file that can be read. Every reader calls this first: a pipe could block, and a device may be endless.

    Raises:
        InputError: if it is a folder, a device, a pipe, a file without permission to read, or if the system accepts no such name.
        FileNotFoundError: if there is no such file.
    """
    try:
        mode = Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(f"there is no file {path}") from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {brief(str(path))}: {getattr(error, 'strerror', error)}.") from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise InputError(f"cannot read {path}: it is {kind}. Use the name of a file.")
    if not os.access(path, os.R_OK):
        raise InputError(f"cannot read {path}: permission denied. Make it readable (chmod u+r).")
    return Path(path)


def read_json(path: str | os.PathLike[str]) -> Any:
    """Content of a JSON file.

    Raises:
        MapFileError: if it is not JSON, has a name twice in one object, or is nested too deeply for Python's parser.
        InputError: as `regular_file`.
        FileNotFoundError: if there is no such file.
    """
    try:
        return parse_json(regular_file(path).read_text(encoding="utf-8"))
    except InputError:
        raise
    except ValueError as error:
        raise MapFileError(f"{path} is not JSON: {error}.") from error


def parse_json(text: str | bytes) -> Any:
    """Content of a JSON text.

    Raises:
        ValueError: if it is not JSON, has a name twice in one object, which parsers read in different ways, or is nested too
            deeply for Python's parser.
    """
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError as error:
        raise ValueError(str(error)) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{brief(next(name for name in names if names.count(name) > 1))} occurs twice in one object")
    return held


@contextmanager
def _beside(target: Path) -> Iterator[tuple[int, str]]:
    """Handle and name of a new file in the folder of `target`. It is locked while it is written, and removed unless renamed."""
    _remove_leftovers(target.parent)
    while True:
        name = str(target.parent / f"{UNFINISHED}{secrets.token_hex(8)}")
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with suppress(OSError):  # some network file systems have no locks; nothing is removed there
                fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:  # else another process removed it before it was locked
                yield handle, name
                return
        finally:
            Path(name).unlink(missing_ok=True)
            os.close(handle)


def _remove_leftovers(folder: Path) -> None:
    """Remove unfinished files of ended processes: those without a lock."""
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.path for entry in entries if entry.name.startswith(UNFINISHED)]:
            with suppress(OSError):
                handle = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    Path(name).unlink(missing_ok=True)
                finally:
                    os.close(handle)


def _flush_folder(folder: Path) -> None:
    """Flush a folder, and with it the rename, to the disk."""
    with suppress(OSError):  # folders of some file systems cannot be opened or flushed
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class TensorFile(NamedTuple):
    """Content of a file of labels and tensors, with a correct checksum."""

    kind: str
    """Name of the format, such as "tl_ffblock.Attribution"."""
    version: int
    labels: dict[str, Any]
    tensors: dict[str, "Tensor"]


def write_tensors(
    path: Path, kind: str, version: int, labels: Mapping[str, Any], tensors: Mapping[str, "Tensor"]
) -> None:
    """Write labels and tensors to one safetensors file, with a checksum over both; a partial file never appears.

    Equal labels and tensors give equal bytes.

    Args:
        path: File to write.
        kind: Name of the format.
        version: Version of the format.
        labels: Labels by name, as values for JSON.
        tensors: Tensors by name.

    Raises:
        InputError: as `check_replaceable`.
    """
    import torch
    from safetensors.torch import save

    # safetensors refuses tensors that share memory: each is copied.
    kept = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    entry = {"format": kind, "version": version, "labels": labels, "sha256": _digest(_sorted(labels), kept)}
    write_atomically(path, save(kept, {_ENTRY: _sorted(entry)}))


def read_tensors(path: Path) -> TensorFile:
    """Labels and tensors of a file from `write_tensors`; the checksum is compared.

    Raises:
        MapFileError: if the file is not of this library, or was changed.
        InputError: as `regular_file`.
        FileNotFoundError: if there is no such file.
    """
    from safetensors import SafetensorError, safe_open

    regular_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError, ValueError) as error:
        raise MapFileError(f"{path} is not a readable safetensors file: {error}") from error
    try:
        kind, version, header, checksum = _entries(metadata)
    except ValueError as error:
        raise MapFileError(f"{path} has labels that are not JSON: {error}.") from error
    if not kind.startswith("tl_ffblock") or not re.fullmatch("[0-9]{1,9}", version):
        raise MapFileError(f"{path} has no result of tl_ffblock (format {brief(kind)}, version {brief(version)}).")
    if checksum != _digest(header, tensors):
        raise MapFileError(f"{path} was changed after it was saved (checksum differs): save it again.")
    try:
        labels = parse_json(header)
    except ValueError as error:
        raise MapFileError(f"{path} has labels that are not JSON: {error}.") from error
    if not isinstance(labels, dict):
        raise MapFileError(f"{path} has labels {brief(labels)}, expected a mapping of names.")
    return TensorFile(kind, int(version), labels, tensors)


def _sorted(labels: Any) -> str:
    return json.dumps(labels, sort_keys=True)


def _entries(metadata: Mapping[str, str]) -> tuple[str, str, str, str]:
    """Format, version, labels as JSON, and checksum; earlier files have an entry for each.

    Raises:
        ValueError: if the entry is not a JSON object.
    """
    if _ENTRY not in metadata:
        kind, version, header, checksum = (metadata.get(name, "") for name in ("format", "version", "maps", "sha256"))
        return kind, version, header, checksum
    held = parse_json(metadata[_ENTRY])
    if not isinstance(held, dict):
        raise ValueError(f"{brief(held)} is not an object")
    kind, version, checksum = (str(held.get(name, "")) for name in ("format", "version", "sha256"))
    return kind, version, _sorted(held.get("labels")), checksum


def _digest(header: str, tensors: Mapping[str, "Tensor"]) -> str:
    import torch

    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
