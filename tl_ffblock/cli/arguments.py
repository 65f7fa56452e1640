"""Arguments as a user types them: read, and refused in a sentence, with the standard library alone."""

import re
import sys
import tempfile
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from tl_ffblock.bridge.shipped import Outline
from tl_ffblock.errors import InputError
from tl_ffblock.layer.scopes import STEPS, select_scopes

MODEL_HELP = "minilm (default), smollm2, a folder in Hugging Face format, or a TransformerLens name"


def read_text(given: str) -> str:
    """The text of the argument, or of standard input for `-`.

    Raises:
        InputError: if it is empty, or no UTF-8.
    """
    if given == "-":
        try:
            given = sys.stdin.buffer.read().decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise InputError(f"standard input is not UTF-8 text (byte {error.start} is wrong).") from error
    try:
        given.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"TEXT is not UTF-8 text (character {error.start} is wrong).") from error
    if not given.strip():
        raise InputError("TEXT is empty; give at least one word.")
    return given


def read_numbers(option: str, given: str | None, hint: str) -> list[int] | None:
    """`0,3` or `0-5` or `-1`, in any mixture; None where the option was not given.

    Args:
        option: The option's name, for the message.
        given: What stands behind it.
        hint: What the option expects, in words and an example.

    Raises:
        InputError: if it is anything else.
    """
    if given is None:
        return None
    numbers: list[int] = []
    for item in given.split(","):
        match = re.fullmatch(r"\s*(-?\d+)(?:-(\d+))?\s*", item, re.ASCII)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if first > last:
            raise InputError(f"{option} {given}: expected {hint}.")
        numbers += range(first, last + 1)
    return numbers


def read_scopes(given: str | None) -> list[str] | None:
    """The scopes asked for, None for all.

    Raises:
        InputError: for a name that no order has.
    """
    if given is None:
        return None
    scopes = [scope.strip() for scope in given.split(",")]
    known = list(dict.fromkeys(step.scope for steps in STEPS.values() for step in steps))
    for scope in scopes:
        if scope not in known:
            raise InputError(
                f"--scopes {given}: unknown scope {scope!r}. {suggestion(scope, known)}There are {', '.join(known)}."
            )
    return scopes


def check_against(outline: Outline, layers: list[int] | None, scopes: list[str] | None) -> None:
    """Refuse what a model that is not loaded yet is known not to have.

    Raises:
        InputError: for a layer or a scope that it lacks.
    """
    n_layers = outline.n_layers
    if layers is not None and n_layers is not None:
        for layer in layers:
            if not -n_layers <= layer < n_layers:
                raise InputError(
                    f"--layers: no layer {layer} in {outline.name}; there are layers 0-{n_layers - 1} (-1 is the last)."
                )
    if outline.order is not None:
        select_scopes(outline.order, scopes)


def check_writable(files: Iterable[Path]) -> None:
    """Say before the work that its results could not be written.

    Raises:
        InputError: for a folder, a file in a folder that is missing or takes no files, or one name for two files.
    """
    seen: set[Path] = set()
    for file in files:
        if file.absolute() in seen:
            raise InputError(f"cannot write {file}: it was given for two files; choose two names.")
        if file.is_dir():
            raise InputError(f"cannot write {file}: it is a folder; give the name of a file.")
        if not file.parent.is_dir():
            raise InputError(f"cannot write {file}: the folder {file.parent} does not exist; make it first.")
        try:
            with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}."):
                seen.add(file.absolute())
        except OSError as error:
            raise InputError(
                f"cannot write {file}: the folder {file.parent} takes no files ({error.strerror})."
            ) from error


def suggestion(given: str, known: Iterable[str]) -> str:
    """`Did you mean X? `, or nothing where no known name is close."""
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(given.lower(), by_lower, n=1)
    return f"Did you mean {by_lower[close[0]]}? " if close else ""
