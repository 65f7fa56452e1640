"""Shared code of commands: registration, arguments, reading of input and writing of files.

Arguments are read and checked with the standard library alone.
"""

import argparse
import ast
import json
import os
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tl_ffblock.corpus.settings import REQUIRED, Config, DeclaredField
from tl_ffblock.errors import InputError
from tl_ffblock.files import check_writable, write_atomically, write_table

Argument: TypeAlias = Mapping[str, Any]
"""Keyword arguments of argparse's `add_argument`."""
LARGEST_TOKEN = 2**63 - 1
"""Largest token id that a tensor can represent."""
_TABLES = ("jsonl", "csv", "tsv", "dataset")
MOST_NUMBERS = 10**6
"""Largest count of numbers in one option."""
LONGEST_INPUT = 2**24
"""Largest size of a text on standard input in bytes."""
WIDTH_OF_FILES = 120
"""Columns of a table in a file or pipe."""


@dataclass(frozen=True)
class Command:
    """One command."""

    run: Callable[[argparse.Namespace], int | None]
    """Function of the command; returns the exit status, None for success."""
    help: str
    """One line for the list of commands."""
    description: str
    arguments: Mapping[str, Argument]
    """Arguments by name or flag."""
    groups: Mapping[str, Mapping[str, Argument]] = field(default_factory=dict)
    """Further arguments, by group title."""
    about: Mapping[str, str] = field(default_factory=dict)
    """Texts below group titles."""
    unasked: Callable[[Sequence[str]], Container[str]] = lambda _: ()
    """Titles of groups that the help omits, given the typed arguments."""

    def add_to(self, parser: argparse.ArgumentParser, given: Sequence[str] = ()) -> None:
        """Add the arguments to a parser.

        Args:
            parser: Parser of this command.
            given: Typed arguments, for the help.
        """
        unasked = self.unasked(given)
        for name, argument in self.arguments.items():
            parser.add_argument(name, **argument)
        for title, arguments in self.groups.items():
            hidden = {"help": argparse.SUPPRESS} if title in unasked else {}
            place = parser.add_argument_group(title, None if hidden else self.about.get(title))
            for name, argument in arguments.items():
                place.add_argument(name, **{**argument, **hidden})
        parser.set_defaults(command=self.run)


def choices_of(package: str, alias: str) -> tuple[str, ...]:
    """Values of a `Literal` in the package, read from its source, since importing it takes seconds."""
    sources = (file.read_text(encoding="utf-8") for file in (Path(__file__).parents[1] / package).glob("*.py"))
    written = re.compile(rf"^{alias}: TypeAlias = Literal(\[.*?\])", re.MULTILINE | re.DOTALL)
    (found,) = (match[1] for match in map(written.search, sources) if match)
    return tuple(ast.literal_eval(found))


MODEL_HELP = "minilm (default), smollm2, a folder in Hugging Face format, or a TransformerLens name"
CAUSAL_MODEL = "smollm2"
"""Default model of commands that predict a next token."""
SHARED: Mapping[str, Argument] = {
    "text": dict(nargs="?", metavar="TEXT", help="the prompt; - reads it from standard input"),
    "--tokens": dict(metavar="5,6,7", help="token ids instead of TEXT, without added special tokens"),
    "--target": dict(metavar="TOKEN", help='token to attribute, with its space: " Mary"; or an id, #7'),
    "--minus": dict(metavar="TOKEN", help="token whose logit is subtracted, or mean for the mean of all logits"),
    "--at": dict(type=int, default=-1, metavar="POS", help="position whose logits are read, -1 is the last (default)"),
    "--model": dict(
        default=CAUSAL_MODEL,
        metavar="NAME_OR_PATH",
        help=f"{CAUSAL_MODEL} (default), a folder in Hugging Face format, or a TransformerLens name",
    ),
    "--device": dict(default="cpu", metavar="DEVICE", help="cpu (default), cuda, cuda:1, mps"),
    "--html": dict(type=Path, metavar="FILE.html", help="write a page"),
    "--json": dict(type=Path, metavar="FILE.json", help="write the numbers as JSON"),
    "--save": dict(type=Path, metavar="FILE.safetensors", help="write all numbers, for ffb.load"),
    "--csv": dict(type=Path, metavar="FILE.csv", help="write a table"),
}
"""Arguments of several commands."""


def arguments(own: Mapping[str, Argument]) -> dict[str, Argument]:
    """Arguments of a command, in order: shared ones with this command's changes, and its own."""
    return {name: {**SHARED.get(name, {}), **argument} for name, argument in own.items()}


def read_text(given: str) -> str:
    """Text of the argument, or of standard input for `-`.

    Raises:
        InputError: if it is empty, or not UTF-8.
    """
    if given == "-":
        try:
            read = sys.stdin.buffer.read(LONGEST_INPUT + 1)
            if len(read) > LONGEST_INPUT:
                raise InputError(f"standard input is longer than {LONGEST_INPUT} bytes: expected one text.")
            given = read.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise InputError(f"standard input is not UTF-8 text (byte {error.start} is wrong).") from error
    _check_utf8("TEXT", given)
    if not given.strip():
        raise InputError("TEXT is empty: expected at least one word.")
    return given


def _check_utf8(name: str, given: str) -> None:
    try:
        given.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"{name} is not UTF-8 text (character {error.start} is wrong).") from error
    if "\0" in given:
        raise InputError(f"{name} has a NUL byte at character {given.index(chr(0)) + 1}: expected text.")


def read_numbers(option: str, given: str | None, hint: str) -> list[int] | None:
    """Numbers of an option such as `0,3`, `0-5` or `-1`, in any mixture; None without the option.

    Args:
        option: Name of the option, for the error.
        given: Its value.
        hint: Expected value, in words and with an example.

    Raises:
        InputError: for any other value.
    """
    if given is None:
        return None
    numbers: list[int] = []
    for item in given.split(","):
        match = re.fullmatch(r"\s*(-?\d+)(?:-(\d+))?\s*", item, re.ASCII)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if first > last or last - first + len(numbers) >= MOST_NUMBERS:
            raise InputError(f"{option} {given}: expected {hint}.")
        numbers += range(first, last + 1)
    return numbers


def read_prompt(options: argparse.Namespace) -> str | list[int]:
    """Text or token ids of a command that takes either.

    Raises:
        InputError: if both are given or none, or if they cannot be read.
    """
    if (options.text is None) == (options.tokens is None):
        raise InputError("expected either a TEXT or token ids (--tokens 5,6,7).")
    tokens = read_numbers("--tokens", options.tokens, "token ids such as 5,6,7")
    if tokens is None:
        return read_text(options.text)
    if max(map(abs, tokens)) > LARGEST_TOKEN:
        raise InputError(f"--tokens {options.tokens}: expected ids of a vocabulary, such as 5,6,7.")
    return tokens


def read_token(option: str, given: str) -> str | int:
    """A token as text, or an id written as `#7`.

    Raises:
        InputError: for a `#` without digits, and text that is not UTF-8.
    """
    _check_utf8(option, given)
    if not given.startswith("#"):
        return given
    if not (given[1:].isdecimal() and given.isascii()):
        raise InputError(f"{option} {given}: expected a token as text, or an id such as #7.")
    return int(given[1:])


def read_target(options: argparse.Namespace, at: int | None = -1) -> Callable[[], Any] | None:
    """Function that returns the metric of `--target` and `--minus`; None without a target.

    Args:
        options: Parsed options.
        at: Position to read.

    Raises:
        InputError: as in `read_token`.
    """
    target, minus = (
        None if given is None else read_token(option, given)
        for option, given in (("--target", options.target), ("--minus", options.minus))
    )

    def metric() -> Any:
        from tl_ffblock.metrics import logit

        assert target is not None
        return logit(target, minus=minus, at=-1 if at is None else at)

    return None if target is None else metric


def check_needs(options: argparse.Namespace, needs: Iterable[tuple[str, tuple[str, ...]]]) -> None:
    """Refuse options without effect.

    Args:
        options: Parsed options; one that was not given is None or False.
        needs: An option, and the options of which it needs one.

    Raises:
        InputError: with the option and what it needs.
    """
    given = {name for name, value in vars(options).items() if value is not None and value is not False}
    for name, others in needs:
        if name in given and not given & set(others):
            raise InputError(f"{flag(name)} needs {' or '.join(map(flag, others))}; without it, it has no effect.")


def flag(name: str) -> str:
    """An option as it is typed."""
    return f"--{name.replace('_', '-')}"


def refuse_idle(config: Config, data: str) -> None:
    """Refuse options without effect.

    Raises:
        InputError: with the option, and the condition for its effect.
    """
    on_ray, of = config.engine == "ray", f"is of {{}}, and the data is read as {data}"
    for name, has_effect, needs in (
        ("sample", config.limit is not None, "needs --limit"),
        ("long", config.max_tokens is not None, "needs --max-tokens"),
        ("max_memory", config.batch_size is None, "needs --batch-size to be left out"),
        ("workers", on_ray, "needs --engine ray"),
        ("ray_address", on_ray, "needs --engine ray"),
        ("gpus", on_ray and config.device.startswith("cuda"), "needs --engine ray and --device cuda"),
        ("document_pattern", data == "text", of.format("text files")),
        ("document_column", data in _TABLES, of.format("JSONL, CSV, TSV and datasets")),
        ("column", data in _TABLES, of.format("JSONL, CSV, TSV and datasets")),
        ("split", data == "dataset", of.format("datasets")),
        ("subset", data == "dataset", of.format("datasets")),
    ):
        if getattr(config, name) != getattr(Config, name) and not has_effect:
            raise InputError(f"{flag(name)} {needs}; here it has no effect.")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected whole numbers with commas between them, not {text!r}") from error


def argument_of(field: DeclaredField, default: Any) -> Argument:
    """Keyword arguments of argparse for a field of the config or of a study's options."""
    shown = field.default if default is argparse.SUPPRESS else default
    kind: dict[str, Any] = {"type": field.kind, "metavar": {int: "N", float: "X"}.get(field.kind, "TEXT")}
    if field.choices:
        kind = {"choices": field.choices}
    elif field.several:
        kind = {"type": _numbers, "metavar": "N,N"}
        shown = ",".join(map(str, shown))
    text = field.text.replace("%", "%%")
    return {
        "default": None if default is REQUIRED else default,
        "required": default is REQUIRED,
        "help": text if shown is None or shown is REQUIRED else f"{text} (default: {shown})",
        **kind,
    }


def read_files(options: argparse.Namespace, *names: str) -> dict[str, Path]:
    """Files to write, by option; checked before the work.

    Raises:
        InputError: for a folder, a device or a pipe, a file in a folder that is missing or read-only, or one name for two
            files.
    """
    files: dict[str, Path] = {name: file for name in names if (file := getattr(options, name)) is not None}
    for name, file in files.items():
        if any(os.path.realpath(file) == os.path.realpath(other) for kind, other in files.items() if kind != name):
            raise InputError(f"cannot write {file}: it was given for two files. Use two names.")
        check_writable(file)
    return files


def write_files(
    files: Mapping[str, Path],
    result: Any,
    *,
    called: Mapping[str, str] | None = None,
    **writers: Callable[[Path], object],
) -> None:
    """Write a result, and print names and sizes of the files.

    Args:
        files: Files by option.
        result: Result to write, by its `to_html`, `save`, `to_dict` and `to_dataframe`, unless there is a writer.
        called: Name of a file in the output, if it is not the option's name.
        **writers: Other functions that write an option's file.
    """
    usual: dict[str, Callable[[Path], object]] = {
        "html": lambda file: result.to_html(file),
        "save": lambda file: result.save(file),
        "json": lambda file: write_atomically(
            file, json.dumps(result.to_dict(), ensure_ascii=True, indent=1).encode() + b"\n"
        ),
        "csv": lambda file: write_table(file, result.to_dataframe()),
    }
    for kind, file in files.items():
        (usual | writers)[kind](file)
        n_bytes = file.stat().st_size
        size = f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{max(1, round(n_bytes / 1e3))} kB"
        say(f"{(called or {}).get(kind, kind):5} {file} ({size})")


def load(options: argparse.Namespace) -> Any:
    """The model of `--model` on `--device`; shows a status on a terminal meanwhile."""
    with working(f"loading {options.model}"):
        from tl_ffblock.bridge.loading import load_model

        return load_model(options.model, device=options.device)


def console(*, stderr: bool = False) -> Console:
    """Standard output or standard error, as wide as the terminal."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else WIDTH_OF_FILES)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show a status on a terminal meanwhile."""
    err = console(stderr=True)
    if err.is_terminal:
        with err.status(f"{what} ..."):
            yield
    else:
        yield


def say(line: str, style: str = "") -> None:
    """Print a line without wrapping."""
    console().print(Text(line, style=style), soft_wrap=True)


def table(title: str | None, columns: Mapping[str, bool] | Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """A table in the style of all commands.

    Args:
        title: Title; None for none.
        columns: Titles, with whether a column has numbers, which are right-aligned.
        rows: Rows of texts without markup, or of rich renderables; an empty row ends a section.
    """
    drawn = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="", pad_edge=False)
    numeric = columns if isinstance(columns, Mapping) else dict.fromkeys(columns, False)
    for name, on_the_right in numeric.items():
        drawn.add_column(name, justify="right" if on_the_right else "left")
    for row in rows:
        if row:
            drawn.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
        else:
            drawn.add_section()
    return drawn
