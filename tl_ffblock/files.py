"""Files that are written as a whole or not at all, and tensors with labels in safetensors files with a checksum."""

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
"""How the names of files begin that are not yet written as a whole."""


def check_replaceable(path: str | os.PathLike[str]) -> Path:
    """The regular file that stands or can stand under a path; of a link, the file that it leads to.

    Raises:
        InputError: if its folder does not exist, it is a folder, a device or a pipe, which a file would replace, a file that is
            read-only, or the system takes no such name.
    """
    target = Path(path)
    try:
        target = Path(os.path.realpath(path))
        mode = target.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = 0
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot write {brief(str(path))}: {getattr(error, 'strerror', error)}; use another name."
        ) from error
    if stat.S_ISDIR(mode):
        raise InputError(f"cannot write {path}: it is a folder; give the name of a file.")
    if not target.parent.is_dir():
        shown = target.parent if Path(path).is_symlink() else Path(path).parent
        raise InputError(f"cannot write {path}: the folder {shown} does not exist; make it first.")
    if stat.S_ISLNK(mode):
        raise InputError(f"cannot write {path}: its links lead in a circle; give the name of a file.")
    if mode and not stat.S_ISREG(mode):
        raise InputError(
            f"cannot write {path}: it is not a regular file but a device or a pipe, which a file would replace; give the name of "
            "a file."
        )
    if mode and not os.access(target, os.W_OK):  # a rename would replace it all the same
        raise InputError(f"cannot write {path}: it is read-only; use another name, or let it be written (chmod u+w).")
    return target


def check_writable(path: str | os.PathLike[str]) -> None:
    """See before the work whether a file can be written after it.

    Raises:
        InputError: as `check_replaceable`, and if the folder takes no files.
    """
    target = check_replaceable(path)
    try:
        with _beside(target):
            pass
    except OSError as error:
        raise InputError(
            f"cannot write {path}: the folder {Path(path).parent} takes no files ({error.strerror})."
        ) from error


def write_atomically(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write beside the file, flush to the disk, rename: all of it or nothing. The library writes every file so.

    A file that is replaced leaves its mode and owner to the new one; a link stays, and the file that it leads to is written; further
    hard links keep the old file. Leftovers of killed processes in the folder are removed.

    Args:
        path: Where.
        data: The whole file.

    Returns:
        The path.

    Raises:
        InputError: as `check_replaceable`.
        OSError: if the disk refuses; what stood under `path` is still there then.
    """
    target = check_replaceable(path)
    try:
        with _beside(target) as (handle, name):
            with open(handle, "wb", closefd=False) as file:
                file.write(data)
            with suppress(FileNotFoundError):
                before = target.stat()
                with suppress(PermissionError):  # to give a file away takes the right to
                    os.fchown(handle, before.st_uid, before.st_gid)
                os.fchmod(handle, stat.S_IMODE(before.st_mode))
            os.fsync(handle)
            os.replace(name, target)
            _flush_folder(target.parent)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error  # and not the name beside it
    return Path(path)


def write_table(path: str | os.PathLike[str], table: "pd.DataFrame") -> Path:
    """Write a table as CSV, as `write_atomically`; every cell as it is, also one that a spreadsheet takes for a formula."""
    text = table.to_csv(index=False, lineterminator="\n")
    return write_atomically(path, text.encode("utf-8", "backslashreplace"))  # half a surrogate pair has no UTF-8


def regular_file(path: str | os.PathLike[str]) -> Path:
    """The path of a file to read. Every reader asks here first: a pipe would wait for ever, a device may have no end.

    Raises:
        InputError: if it is a folder, a device, a pipe, or a file that may not be read, or the system takes no such name.
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
        raise InputError(f"cannot read {path}: it is {kind}; give the name of a file.")
    if not os.access(path, os.R_OK):
        raise InputError(f"cannot read {path}: it is not allowed (chmod u+r).")
    return Path(path)


def read_json(path: str | os.PathLike[str]) -> Any:
    """What a JSON file holds.

    Raises:
        MapFileError: if it is not JSON, has a name twice in one object, or is nested deeper than Python reads.
        InputError, FileNotFoundError: as `regular_file`.
    """
    try:
        return parse_json(regular_file(path).read_text(encoding="utf-8"))
    except InputError:
        raise
    except ValueError as error:
        raise MapFileError(f"{path} is not JSON: {error}.") from error


def parse_json(text: str | bytes) -> Any:
    """What a JSON text says.

    Raises:
        ValueError: if it is not JSON, has a name twice in one object, which parsers read in different ways, or is nested deeper than
            Python reads.
    """
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError as error:
        raise ValueError(str(error)) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    held = dict(pairs)
    if len(held) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{brief(next(name for name in names if names.count(name) > 1))} stands twice in one object")
    return held


@contextmanager
def _beside(target: Path) -> Iterator[tuple[int, str]]:
    """A new file in the folder of `target`, and its name; locked while it is written, removed afterwards unless it was renamed."""
    _remove_leftovers(target.parent)
    while True:
        name = str(target.parent / f"{UNFINISHED}{secrets.token_hex(8)}")
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with suppress(OSError):  # some network file systems have no locks; nothing is removed there
                fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:  # another process may have removed it before it was locked
                yield handle, name
                return
        finally:
            Path(name).unlink(missing_ok=True)
            os.close(handle)


def _remove_leftovers(folder: Path) -> None:
    """Remove unfinished files whose processes are gone: those that nobody locks."""
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
    """Flush the rename itself."""
    with suppress(OSError):  # folders of some file systems cannot be opened or flushed
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
        InputError: if the folder does not exist, or the path is not a regular file.
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
        InputError, FileNotFoundError: as `regular_file`.
    """
    from safetensors import SafetensorError, safe_open

    regular_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError, ValueError) as error:
        raise MapFileError(f"{path} is not a readable safetensors file: {error}") from error
    kind, version, header = (metadata.get(name, "") for name in ("format", "version", "maps"))
    if not kind.startswith("tl_ffblock") or not re.fullmatch("[0-9]{1,9}", version):
        raise MapFileError(f"{path} holds no result of tl_ffblock (format {brief(kind)}, version {brief(version)}).")
    if metadata.get("sha256") != _digest(header, tensors):
        raise MapFileError(f"{path} was changed after it was saved (checksum differs): make it again.")
    try:
        labels = parse_json(header)
    except ValueError as error:
        raise MapFileError(f"{path} has labels that are not JSON: {error}.") from error
    if not isinstance(labels, dict):
        raise MapFileError(f"{path} has labels that are not a mapping of names: {brief(labels)}.")
    return TensorFile(kind, int(version), labels, tensors)


def _digest(header: str, tensors: Mapping[str, "Tensor"]) -> str:
    import torch

    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
