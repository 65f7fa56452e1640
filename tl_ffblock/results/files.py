"""Files that are there as a whole or not at all."""

import os
import tempfile
from pathlib import Path

from tl_ffblock.errors import InputError


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
