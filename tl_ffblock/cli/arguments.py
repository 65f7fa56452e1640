"""Arguments as a user types them: read, and refused in a sentence, with the standard library alone."""

import argparse
import importlib.util
import re
import sys
import tempfile
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from tl_ffblock.bridge.loading import Outline
from tl_ffblock.errors import InputError
from tl_ffblock.files import check_replaceable
from tl_ffblock.layer.scopes import STEPS, select_scopes

MODEL_HELP = "minilm (default), smollm2, a folder in Hugging Face format, or a TransformerLens name"
CAUSAL_MODEL = "smollm2"
"""The default where a next token is asked for."""
LARGEST_TOKEN = 2**63 - 1
"""The largest token id that a tensor can hold."""
CAUSAL_MODEL_HELP = "smollm2 (default), a folder in Hugging Face format, or a TransformerLens name"


def add_device_to(add: argparse.ArgumentParser) -> None:
    """The argument that says where a model runs."""
    add.add_argument("--device", default="cpu", metavar="DEVICE", help="cpu (default), cuda, cuda:1, mps")


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
    _check_utf8("TEXT", given)
    if not given.strip():
        raise InputError("TEXT is empty; give at least one word.")
    return given


def _check_utf8(name: str, given: str) -> None:
    try:
        given.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{name} is not UTF-8 text (character {error.start} is wrong).") from error


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


def read_prompt(options: argparse.Namespace) -> tuple[str | None, list[int] | None]:
    """The text or the token ids of a command that takes either.

    Raises:
        InputError: if both are given or none, or what is given cannot be read.
    """
    if (options.text is None) == (options.tokens is None):
        raise InputError("give either a TEXT or token ids (--tokens 5,6,7).")
    text = None if options.text is None else read_text(options.text)
    tokens = read_numbers("--tokens", options.tokens, "token ids such as 5,6,7")
    if tokens is not None and max(map(abs, tokens)) > LARGEST_TOKEN:
        raise InputError(f"--tokens {options.tokens}: expected ids of a vocabulary, such as 5,6,7.")
    return text, tokens


def read_token(option: str, given: str) -> str | int:
    """A token as text, or an id written as `#7`.

    Raises:
        InputError: for a `#` before anything but digits, and what is no UTF-8.
    """
    _check_utf8(option, given)
    if not given.startswith("#"):
        return given
    if not (given[1:].isdecimal() and given.isascii()):
        raise InputError(f"{option} {given}: expected a token as text, or an id such as #7.")
    return int(given[1:])


def read_target(options: argparse.Namespace) -> tuple[str | int | None, str | int | None]:
    """The tokens of `--target` and `--minus`; None for one that was not given.

    Raises:
        InputError: as `read_token`.
    """
    target, minus = (
        None if given is None else read_token(option, given)
        for option, given in (("--target", options.target), ("--minus", options.minus))
    )
    return target, minus


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


def check_tables(file: Path | None) -> None:
    """Say before the work that a table could not be made.

    Raises:
        InputError: if one is asked for and pandas is not installed.
    """
    if file is not None and importlib.util.find_spec("pandas") is None:
        raise InputError("--csv needs pandas, which is not installed; run: pip install pandas")


def check_needs(options: argparse.Namespace, needs: Iterable[tuple[str, tuple[str, ...]]]) -> None:
    """Refuse options that would change nothing.

    Args:
        options: What was given; an option that was not is None or False.
        needs: An option, and those of which it needs one.

    Raises:
        InputError: naming the option and what it needs.
    """
    for name, others in needs:
        if _is_given(options, name) and not any(_is_given(options, other) for other in others):
            raise InputError(f"{_flag(name)} needs {' or '.join(map(_flag, others))}; without it nothing would change.")


def _is_given(options: argparse.Namespace, name: str) -> bool:
    return getattr(options, name) not in (None, False)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def check_writable(files: Iterable[Path]) -> None:
    """Say before the work that its results could not be written.

    Raises:
        InputError: for a folder, a device or a pipe, a file in a folder that is missing or takes no files, or one name for
            two files.
    """
    seen: set[Path] = set()
    for file in files:
        if file.absolute() in seen:
            raise InputError(f"cannot write {file}: it was given for two files; choose two names.")
        check_replaceable(file)
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
