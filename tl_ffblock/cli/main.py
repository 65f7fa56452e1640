"""The command line: one file per command, which registers itself by its `COMMAND`.

1. Arguments are read and checked with the standard library alone; only the command that needs them imports torch and models.
2. Wrong input is one line on standard error and status 2. Other failures are one line and status 1. Only a fault of this library
   shows a traceback.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from tl_ffblock._version import __version__
from tl_ffblock.cli.arguments import Command
from tl_ffblock.errors import FFBlockError, InputError, brief, did_you_mean, out_of_memory

PROGRAM = "tl-ffblock"
DESCRIPTION = "Token-to-token maps of Transformer layers, feed-forward block included, as one HTML page."
COMMANDS: dict[str, Command] = {
    name.replace("_", "-"): module.COMMAND
    for name in sorted(each.name for each in iter_modules([str(Path(__file__).parent)]))
    if hasattr(module := import_module(f"tl_ffblock.cli.{name}"), "COMMAND")
}
"""Commands by name: every file of this folder that has one."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a token must not fail in a narrow encoding
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        _refuse_unknown_command(given)
        options = parser(given).parse_args(given)
        with _calm():
            status: int | None = options.command(options)
            sys.stdout.flush()
    except InputError as error:
        return _complain(str(error), 2)
    except FFBlockError as error:
        return _complain(str(error), 1)
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to flush at exit
        return 1  # as rich does
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)
    except Exception as error:
        if not out_of_memory(error):
            raise
        return _complain(
            f"memory ran out ({brief(str(error), 200)}): use a smaller model, batch or text, or another machine.", 1
        )
    return status or 0


def _open_closed_streams() -> None:
    """Replace streams that a shell closed (`>&-`) by the null device; the next opened file would get their number and output."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)  # the lowest free number
            setattr(sys, name, os.fdopen(handle, "r" if number == 0 else "w"))


def parser(given: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Parser of all commands; it sets `command` to the chosen one, whose help depends on the typed arguments."""
    program = argparse.ArgumentParser(prog=PROGRAM, description=DESCRIPTION)
    program.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = program.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        command.add_to(commands.add_parser(name, help=command.help, description=command.description), given)
    return program


def _refuse_unknown_command(arguments: Sequence[str]) -> None:
    name = arguments[0] if arguments else ""
    if name and not name.startswith("-") and name not in COMMANDS:
        raise InputError(
            f"there is no command {name!r}. {did_you_mean(name, COMMANDS)} There are {', '.join(COMMANDS)}."
        )


@contextmanager
def _calm() -> Iterator[None]:
    """Show this library's warnings as one line each, and suppress messages of other libraries."""
    for name, value in (
        ("TRANSFORMERS_VERBOSITY", "error"),
        ("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1"),
        ("TOKENIZERS_PARALLELISM", "false"),
    ):
        os.environ.setdefault(name, value)

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if category.__module__.startswith("tl_ffblock"):
            print(f"{PROGRAM}: warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _complain(sentence: str, status: int) -> int:
    shown = " ".join(sentence.split())
    shown = "".join(
        c if c.isprintable() else f"\\u{ord(c):04x}" for c in shown
    )  # file names may have control characters
    print(f"{PROGRAM}: error: {shown}", file=sys.stderr)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
