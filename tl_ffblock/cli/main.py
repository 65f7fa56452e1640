"""The command line: `tl-ffblock map TEXT`, `models`, `check --model NAME` and `run EXPERIMENT`.

1. Arguments are read and checked with the standard library alone; torch and the models are imported
   only by the command that needs them.
2. What the user gave wrong is one line on standard error and status 2, what failed otherwise is one
   line and status 1; only a mistake of this library shows a traceback.
"""

import argparse
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tl_ffblock._version import __version__
from tl_ffblock.cli.run import add_to as add_run_to
from tl_ffblock.errors import FFBlockError, InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tl_ffblock.results.maps import ContributionMaps

PROGRAM = "tl-ffblock"
DESCRIPTION = "Token-to-token maps of Transformer layers, feed-forward block included, as one HTML page."
WIDTH_OF_FILES = 120
"""Columns of a table that goes to a file or a pipe."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a token must not fail in a narrow encoding
    options = _parser().parse_args(arguments)
    try:
        with _calm():
            status: int | None = options.command(options)
            sys.stdout.flush()
    except InputError as error:
        return _complain(error, 2)
    except FFBlockError as error:
        return _complain(error, 1)
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing left to flush at exit
        return 1  # as rich does
    except OSError as error:
        return _complain(error, 1)
    return status or 0


def _map(options: argparse.Namespace) -> None:
    text, scopes = _text(options.text), _scopes(options.scopes)
    layers = None if options.layers is None else _layers(options.layers)
    files = [file for file in (options.out, options.save) if file is not None]
    for file in files:
        _check_writable(file)

    out, err = _console(), _console(stderr=True)
    with _working(err, f"loading {options.model}"):
        from tl_ffblock.bridge.loading import load_model
        from tl_ffblock.contributions import contribution_maps

        model = load_model(options.model)
    maps: Any = contribution_maps(
        model, text, layers=layers, scopes=scopes, method=options.method, value_bias=options.value_bias
    )
    maps.to_html(options.out)
    if options.save is not None:
        maps.save(options.save)
    _print_summary(out, maps)
    for kind, file in (("page", options.out), ("maps", options.save)):
        if file is not None:
            out.print(f"{kind}  {file} ({_size(file)})", markup=False, soft_wrap=True)


def _models(options: argparse.Namespace) -> None:
    from rich.table import Table
    from rich.text import Text

    from tl_ffblock.bridge.families import FAMILIES
    from tl_ffblock.bridge.shipped import DEFAULT, SHIPPED
    from tl_ffblock.layer.scopes import STEPS

    named = Table("model", "what", "here", title="Models that need no hub", **_plain())
    for shipped in SHIPPED.values():
        name = f"{shipped.name} (default)" if shipped.name == DEFAULT else shipped.name
        named.add_row(name, shipped.what, "installed" if shipped.folder() else Text(shipped.install))
    named.add_row("FOLDER", "any supported model in Hugging Face format", "safetensors, with or without tokenizer")
    named.add_row("NAME", "any supported model that TransformerLens can load by name", "where a hub can be reached")

    orders = Table("order", "families", "scopes", title="Supported blocks", **_plain())
    for order, steps in STEPS.items():
        families = [family.name for family in FAMILIES if family.order == order]
        if families:
            orders.add_row(order, ", ".join(families), ", ".join(step.scope for step in steps))
    console = _console()
    console.print(named, orders)


def _check(options: argparse.Namespace) -> int:
    """Status 0 if every equation holds, else 1."""
    text = None if options.text is None else _text(options.text)
    out, err = _console(), _console(stderr=True)
    with _working(err, f"checking {options.model}"):
        from tl_ffblock.bridge.loading import load_model
        from tl_ffblock.check import check_model

        result = check_model(load_model(options.model), text)
    out.print(
        f"{result.model} ({result.family}, {result.order}, {result.dtype}), {result.n_tokens} tokens", markup=False
    )
    if result.findings:
        out.print(result.table(every_layer=options.all))
    if result.ok:
        out.print(
            f"speed  {result.tokens_per_second:.0f} tokens/s, all layers and scopes; {result.times_forward:.0f} times a "
            "forward pass",
            soft_wrap=True,
        )
    out.print(result.verdict(), markup=False, soft_wrap=True)
    return 0 if result.ok else 1


def _print_summary(console: "Console", maps: "ContributionMaps") -> None:
    """What the page shows at first sight, for a terminal."""
    from rich.text import Text

    from tl_ffblock.results.tokens import visible

    tokens = " ".join(visible(token) for token in maps.tokens)
    console.print(Text(f"{maps.model} ({maps.order}), {len(maps.tokens)} tokens", style="bold"))
    console.print(Text(tokens), overflow="ellipsis", no_wrap=True)
    console.print(_changes(maps))
    error, scope, layer, query = maps.worst_completeness()
    console.print(
        f"parts sum to the model's own vectors: worst relative error {error:.1e} ({scope}, layer {layer}, "
        f"query {query} {visible(maps.tokens[query])!r})",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _changes(maps: "ContributionMaps") -> "Table":
    """One row a layer: how much each component changed the mixing, and the worst completeness error."""
    from rich.table import Table

    from tl_ffblock.layer.scopes import STEPS
    from tl_ffblock.results.measures import contextualization_change

    steps = [s for s in STEPS[maps.order] if s.before in maps.scopes and s.scope in maps.scopes]
    changes = [contextualization_change(maps, str(step.before), step.scope).tolist() for step in steps]
    table = Table(title="change of mixing, 1 - Spearman" if steps else None, **_plain())
    table.add_column("layer", justify="right")
    for step in steps:
        table.add_column(f"{step.component}\n{step.scope}", justify="right")
    table.add_column("completeness\nerror", justify="right")
    for row, layer in enumerate(maps.layers):
        worst = max(float(maps.completeness[scope, layer].max()) for scope in maps.scopes)
        table.add_row(str(layer), *(f"{change[row]:.3f}" for change in changes), f"{worst:.1e}")
    return table


def _text(given: str) -> str:
    """The text of the argument, or of standard input for `-`."""
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


def _layers(given: str) -> list[int]:
    """`0,3` or `0-5` or `-1`, in any mixture."""
    layers: list[int] = []
    for item in given.split(","):
        match = re.fullmatch(r"\s*(-?\d+)(?:-(\d+))?\s*", item)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if first > last:
            raise InputError(
                f"--layers {given}: expected numbers and ranges such as 0,3 or 0-5 (-1 is the last layer)."
            )
        layers += range(first, last + 1)
    return layers


def _scopes(given: str | None) -> list[str] | None:
    """The scopes asked for; a name that no order has is refused before a model is loaded."""
    from tl_ffblock.layer.scopes import STEPS

    if given is None:
        return None
    scopes = [scope.strip() for scope in given.split(",")]
    known = list(dict.fromkeys(step.scope for steps in STEPS.values() for step in steps))
    unknown = [scope for scope in scopes if scope not in known]
    if unknown:
        raise InputError(f"--scopes {given}: unknown scope {unknown[0]!r}. There are {', '.join(known)}.")
    return scopes


def _check_writable(file: Path) -> None:
    """Say before the work that its result could not be written."""
    if file.is_dir():
        raise InputError(f"cannot write {file}: it is a folder; give the name of a file.")
    if not file.absolute().parent.is_dir():
        raise InputError(f"cannot write {file}: the folder {file.parent} does not exist; make it first.")
    if not os.access(file.absolute().parent, os.W_OK):
        raise InputError(f"cannot write {file}: no permission to write in {file.absolute().parent}.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    add = commands.add_parser(
        "map",
        help="a sentence through a model: a page of maps and a short table",
        description="Run TEXT through a model, print how much each component changed the mixing of tokens in every "
        "layer, and write a page with the maps.",
    )
    add.add_argument("text", metavar="TEXT", help="the sentence; - reads it from standard input")
    add.add_argument(
        "--model",
        default="minilm",
        metavar="NAME_OR_PATH",
        help=f"minilm (default), smollm2, a folder in Hugging Face format, or a TransformerLens name; see `{PROGRAM} models`",
    )
    add.add_argument("--layers", metavar="0,3 | 0-5", help="layer numbers, -1 is the last (default: all)")
    add.add_argument(
        "--scopes", metavar="A,B", help="how far into the layer, e.g. Atb,AtbFf (default: all of the model's)"
    )
    add.add_argument(
        "--out", type=Path, default=Path("map.html"), metavar="FILE.html", help="the page (default: map.html)"
    )
    add.add_argument(
        "--save", type=Path, metavar="FILE.safetensors", help="also save the numbers, for ContributionMaps.load"
    )
    add.add_argument(
        "--value-bias",
        choices=("bias", "token"),
        default="bias",
        help="where the value bias goes: to the bias part (default, the paper's eq. 7) or to its token",
    )
    add.add_argument(
        "--method",
        choices=("exact", "captum"),
        default="exact",
        help="integrated gradients in closed form (default) or by Captum's quadrature (slow)",
    )
    add.set_defaults(command=_map)

    add = commands.add_parser("models", help="what can be loaded here", description="Models and blocks supported here.")
    add.set_defaults(command=_models)

    add = commands.add_parser(
        "check",
        help="whether a model of your own is decomposed exactly",
        description="Hold every equation of every layer against the model's own tensors: the identities of its blocks and "
        "the completeness of its parts. Exit status 0 if all hold, else 1.",
    )
    add.add_argument("--model", default="minilm", metavar="NAME_OR_PATH", help="as for `map` (default: minilm)")
    add.add_argument("--text", metavar="TEXT", help="what to run it on (default: an English sentence)")
    add.add_argument("--all", action="store_true", help="every layer, not only the worst of each equation")
    add.set_defaults(command=_check)

    add_run_to(commands)
    return parser


@contextmanager
def _calm() -> Iterator[None]:
    """This library's warnings as one line each; chatter of the libraries below stays away."""
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


@contextmanager
def _working(console: "Console", what: str) -> Iterator[None]:
    """Says on a terminal what is being waited for."""
    if console.is_terminal:
        with console.status(f"{what} ..."):
            yield
    else:
        yield


def _console(*, stderr: bool = False) -> "Console":
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else WIDTH_OF_FILES)


def _plain() -> dict[str, Any]:
    from rich import box

    return {"box": box.SIMPLE_HEAD, "title_justify": "left", "title_style": "", "pad_edge": False}


def _size(file: Path) -> str:
    size = file.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, round(size / 1e3))} kB"


def _complain(error: Exception, status: int) -> int:
    print(f"{PROGRAM}: error: {' '.join(str(error).split())}", file=sys.stderr)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
