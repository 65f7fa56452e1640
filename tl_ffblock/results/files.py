"""Files that are there as a whole or not at all."""

import os
import tempfile
from pathlib import Path

from tl_ffblock.errors import InputError


def write_atomically(path: Path, data: bytes) -> None:
    """Write under a temporary name in the same folder, then rename: all of it or nothing.

    Raises:
        InputError: if the folder does not exist.
        OSError: if the disk refuses; what stood under `path` is still there then.
    """
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: the folder {path.parent} does not exist; make it first.")
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
