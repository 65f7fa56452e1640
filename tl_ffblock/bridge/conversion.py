"""A GGUF file as a folder in Hugging Face format, made once and kept in the user's cache.

transformers takes half a minute to read a GGUF file of 100 MB, nearly all of it in Python loops over its
49,152 tokens. The folder, of dequantised float32 weights, is read in a second.

1. `kept` looks for the folder. Its name is a digest of the file and of the versions that read it; its record
   holds the digest of everything inside, so that a damaged folder is noticed and made again.
2. `announce` says what is going to take long, and whether it is for the last time.
3. `read_gguf` reads the file, its header once.
4. `keep` writes the folder beside its place and renames it, so that two processes at once are safe. Where
   nothing can be written the model is used as it was read.
`converted` is all of it.
"""

# Noun: file format GGUF (ggml, docs/gguf.md)
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from functools import lru_cache
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from tl_ffblock.files import write_atomically

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

CACHE_VARIABLE = "TL_FFBLOCK_CACHE"
RECORD = "converted.json"
UNFINISHED = ".unfinished-"
FORMAT = 1
"""Raised when what is written here changes, so that older folders are not read."""
ABANDONED_AFTER = 86400.0
"""Seconds after which an unfinished folder belongs to a process that was killed."""


def converted(file: Path, name: str) -> "Path | tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """The folder that was or is made of a GGUF file; the model and tokenizer themselves where it cannot be written."""
    folder = kept(file, name)
    if folder is not None:
        return folder
    can_be_kept = announce(file, name)
    read = read_gguf(file)
    return (keep(*read, file, name) if can_be_kept else None) or read


def kept(file: Path, name: str) -> Path | None:
    """The folder that was made of a GGUF file, its files compared with their digests; None if it has to be made."""
    with suppress(OSError):
        folder = _place(file, name)
        if is_whole(folder):
            return folder
        if folder.exists():
            _say(f"{folder} is damaged and is made again.")
    return None


def announce(file: Path, name: str) -> bool:
    """Say that a GGUF file is going to be read; whether what is made of it can be kept."""
    seconds = f"about {max(1, round(file.stat().st_size / 8e6))} s"
    try:
        caches = cache_folder()
        caches.mkdir(parents=True, exist_ok=True)
        with _unfinished(caches):
            pass
    except OSError as error:
        _say(
            f"reading {name}, {seconds} each time: the cache folder cannot be written ({_reason(error)}; {CACHE_VARIABLE} "
            "may name another) ..."
        )
        return False
    _say(f"converting {name} once, {seconds}, into {caches} ...")
    return True


def read_gguf(file: Path) -> tuple["PreTrainedModel", "PreTrainedTokenizerBase"]:
    """The model, dequantised to float32, and the tokenizer of a GGUF file, as transformers reads them."""
    import gguf
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # transformers asks three times for one header and 397 times for one table of names.
    parsed_once = {name: lru_cache(maxsize=1)(getattr(gguf, name)) for name in ("GGUFReader", "get_tensor_name_map")}
    with exchanged(gguf, **parsed_once), redirect_stderr(StringIO()):  # a progress bar that has no switch
        model = AutoModelForCausalLM.from_pretrained(
            file.parent, gguf_file=file.name, attn_implementation="eager", dtype=torch.float32
        )
        return model, AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)


def keep(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", file: Path, name: str) -> Path | None:
    """Write what was read of a GGUF file as a folder, for the loads to come; None where it cannot be written."""
    from safetensors import SafetensorError

    try:
        folder = _place(file, name)
        for unfinished in folder.parent.glob(f"{UNFINISHED}*"):  # of processes that were killed, as large as the model
            with suppress(OSError):  # its owner may be removing it
                if time.time() - unfinished.stat().st_mtime > ABANDONED_AFTER:
                    shutil.rmtree(unfinished, ignore_errors=True)
        with _unfinished(folder.parent) as part:
            made = Path(part, folder.name)
            _write(model, tokenizer, made)
            try:
                made.rename(folder)
            except OSError:  # another process was quicker, or what is there is damaged
                if not is_whole(folder):
                    folder.rename(Path(part, "damaged"))
                    made.rename(folder)
    except (OSError, SafetensorError) as error:
        _say(f"{name} could not be kept for the next time: {_reason(error)}.")
        return None
    return folder


def is_whole(folder: Path) -> bool:
    """Whether every file of a kept folder is what was written."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return bool(record) and all(_digest(folder / name) == digest for name, digest in record.items())
    except (OSError, ValueError, AttributeError):
        return False


def cache_folder() -> Path:
    """`$TL_FFBLOCK_CACHE`, or tl_ffblock in the user's cache folder.

    Raises:
        OSError: if the user has no home.
    """
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given)
    caches = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(caches) if caches else Path.home() / ".cache") / "tl_ffblock"
    except RuntimeError as error:
        raise OSError("there is no home folder") from error


def _place(file: Path, name: str) -> Path:
    versions = f"{FORMAT} {version('transformers')} {version('gguf')} {_digest(file)}"
    return cache_folder() / f"{name}-{hashlib.sha256(versions.encode()).hexdigest()[:16]}"


def _write(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", folder: Path) -> None:
    from copy import deepcopy

    from safetensors.torch import save_file

    folder.mkdir()
    # Tied matrices share their memory: one of them is written, as save_pretrained does. (It refuses a model
    # that was read from GGUF, whose configuration calls it quantised although every weight is float32.)
    weights = {tensor.data_ptr(): (name, tensor) for name, tensor in reversed(model.state_dict().items())}
    save_file(dict(weights.values()), folder / "model.safetensors", metadata={"format": "pt"})
    config = deepcopy(model.config)
    del config.quantization_config
    config.architectures = [type(model).__name__]
    config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # safetensors lets only the owner read: a cache may be shared.
    (folder / "model.safetensors").chmod((folder / "config.json").stat().st_mode)
    record = {path.name: _digest(path) for path in sorted(folder.iterdir())}
    write_atomically(folder / RECORD, json.dumps(record, indent=1).encode())


def _unfinished(caches: Path) -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=caches, ignore_cleanup_errors=True)


@contextmanager
def exchanged(module: ModuleType, **values: object) -> Iterator[None]:
    """Names of a module have other values inside."""
    own = {name: getattr(module, name) for name in values}
    vars(module).update(values)
    try:
        yield
    finally:
        vars(module).update(own)


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _reason(error: Exception) -> str:
    parts = (error.filename, error.strerror) if isinstance(error, OSError) and error.strerror else (str(error),)
    return ": ".join(filter(None, parts))


def _say(sentence: str) -> None:
    print(f"tl_ffblock: {sentence}", file=sys.stderr)
