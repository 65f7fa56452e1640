"""`tl-ffblock map TEXT`: a sentence through a model, as a table and a page."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tl_ffblock.bridge.loading import DEFAULT, outline
from tl_ffblock.cli.arguments import (
    MODEL_HELP,
    add_device_to,
    check_against,
    check_tables,
    check_writable,
    read_numbers,
    read_prompt,
    read_scopes,
    read_target,
)
from tl_ffblock.cli.terminal import console, plain_table, working, written
from tl_ffblock.errors import InputError
from tl_ffblock.numerals import scientific

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tl_ffblock.attribution import Attribution
    from tl_ffblock.page import View
    from tl_ffblock.results.maps import ContributionMaps

DESCRIPTION = (
    "Run TEXT through a model, print how much each component changed the mixing of tokens in every layer, and write a page "
    "with the maps."
)
RANGES = "numbers and ranges such as 0,3 or 0-5 (-1 is the last {})"


def add_to(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    add = commands.add_parser(
        "map", help="a sentence through a model: a page of maps and a short table", description=DESCRIPTION
    )
    add.add_argument("text", nargs="?", metavar="TEXT", help="the sentence; - reads it from standard input")
    add.add_argument("--tokens", metavar="5,6,7", help="token ids instead of TEXT, taken as they are")
    add.add_argument("--model", default=DEFAULT, metavar="NAME_OR_PATH", help=f"{MODEL_HELP}; see `tl-ffblock models`")
    _add_choices_to(add)
    _add_files_to(add)
    add.set_defaults(command=command)


def _add_choices_to(add: argparse.ArgumentParser) -> None:
    """What is computed, and how."""
    add.add_argument("--layers", metavar="0,3 | 0-5", help="layer numbers, -1 is the last (default: all)")
    add.add_argument(
        "--scopes", metavar="A,B", help="how far into the layer, e.g. Atb,AtbFf (default: all of the model's)"
    )
    add.add_argument("--queries", metavar="0,3 | 0-5", help="positions to explain, -1 is the last (default: all)")
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
    add.add_argument(
        "--precision",
        choices=("float32", "bfloat16", "float64"),
        help="arithmetic of the decomposition (default: float32, or float64 for a model in float64)",
    )
    add_device_to(add)


def _add_files_to(add: argparse.ArgumentParser) -> None:
    """What is written."""
    add.add_argument(
        "--out", type=Path, default=Path("map.html"), metavar="FILE.html", help="the page (default: map.html)"
    )
    add.add_argument(
        "--save", type=Path, metavar="FILE.safetensors", help="also save the numbers, for ContributionMaps.load"
    )
    add.add_argument(
        "--view",
        choices=("maps", "heads", "all", "logit"),
        help="what the page opens with: maps (default), heads (lines between tokens) or all (every layer and head as a small "
        "map), which make maps by head; or logit (default with --target)",
    )
    add.add_argument(
        "--target",
        metavar="TOKEN",
        help='share the logit of a next token out on the page, beside the maps: " Mary" with its space; or an id, #7. Needs a '
        "model that foretells tokens, such as --model smollm2",
    )
    add.add_argument("--minus", metavar="TOKEN", help="with --target: a token whose logit is subtracted")
    add.add_argument("--at", type=int, metavar="POS", help="with --target: position to read, -1 is the last (default)")
    add.add_argument("--csv", type=Path, metavar="FILE.csv", help="also write the numbers as a table, one row a cell")


@dataclass(frozen=True)
class _Logit:
    """The logit to share out."""

    target: str | int
    minus: str | int | None
    at: int


@dataclass(frozen=True)
class _Request:
    """What was asked for, read and checked as far as it can be without the model."""

    text: str | None
    tokens: list[int] | None
    choices: dict[str, Any]
    view: "View"
    logit: _Logit | None
    files: dict[str, Path]


def command(options: argparse.Namespace) -> None:
    """Read the arguments, make the maps, print the table and write the files."""
    request = _read(options)
    with working(f"loading {options.model}"):
        import torch

        from tl_ffblock.bridge.loading import load_model
        from tl_ffblock.contributions import contribution_maps

        model = load_model(options.model, device=options.device)
    given: Any = request.text if request.tokens is None else torch.tensor(request.tokens)
    maps: ContributionMaps = contribution_maps(model, given, **request.choices)
    beside = [] if request.logit is None else [_attribution(model, given, request.logit)]
    out = console()
    _print_summary(out, maps)
    for kind, file in request.files.items():
        _write(maps, kind, file, request.view, beside)
        written(out, kind, file)


def _attribution(model: Any, given: Any, asked: _Logit) -> "Attribution":
    from tl_ffblock.attribution import attribute
    from tl_ffblock.metrics import logit

    target = logit(asked.target, minus=asked.minus, at=asked.at)
    result: Attribution = attribute(model, given, target, of=("heads", "edges", "maps"))
    return result


def _read(options: argparse.Namespace) -> _Request:
    text, tokens = read_prompt(options)
    shared = _read_logit(options)
    view: View = options.view or ("maps" if shared is None else "logit")
    if view == "logit" and shared is None:
        raise InputError('--view logit: say which one, --target " Mary".')
    layers = read_numbers("--layers", options.layers, RANGES.format("layer"))
    queries = read_numbers("--queries", options.queries, RANGES.format("position"))
    scopes = read_scopes(options.scopes)
    files = {
        kind: file for kind, file in (("page", options.out), ("maps", options.save), ("table", options.csv)) if file
    }
    check_writable(files.values())
    check_tables(options.csv)
    check_against(outline(options.model), layers, scopes)
    choices = dict(layers=layers, scopes=scopes, queries=queries, precision=options.precision, method=options.method)
    choices |= dict(value_bias=options.value_bias, heads=view in ("heads", "all"))
    return _Request(text, tokens, choices, view, shared, files)


def _read_logit(options: argparse.Namespace) -> _Logit | None:
    """What `--target`, `--minus` and `--at` say together."""
    target, minus = read_target(options)
    if target is None:
        if options.minus is not None or options.at is not None:
            raise InputError("--minus and --at belong to --target, which was not given.")
        return None
    return _Logit(target, minus, -1 if options.at is None else options.at)


def _write(maps: "ContributionMaps", kind: str, file: Path, view: "View", beside: list["Attribution"]) -> None:
    from tl_ffblock.files import write_atomically

    if kind == "page":
        maps.to_html(file, view=view, beside=beside)
    elif kind == "maps":
        maps.save(file)
    else:
        write_atomically(file, maps.to_dataframe().to_csv(index=False, lineterminator="\n").encode())


def _print_summary(out: "Console", maps: "ContributionMaps") -> None:
    """What the page shows at first sight, for a terminal."""
    from rich.text import Text

    from tl_ffblock.results.tokens import visible

    tokens = " ".join(visible(token) for token in maps.tokens)
    out.print(Text(f"{maps.model} ({maps.order}), {len(maps.tokens)} tokens", style="bold"))
    out.print(Text(tokens), overflow="ellipsis", no_wrap=True)
    out.print(_changes(maps))
    error, scope, layer, query = maps.worst_completeness()
    out.print(
        f"parts sum to the model's own vectors: worst relative error {scientific(error)} ({scope}, layer {layer}, "
        f"query {query} {visible(maps.tokens[query])!r})",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _changes(maps: "ContributionMaps") -> "Table":
    """One row a layer: how much each component changed the mixing, what is left of it, and the worst completeness error."""
    from rich.table import Table

    from tl_ffblock.layer.scopes import STEPS
    from tl_ffblock.results.measures import contextualization_change
    from tl_ffblock.views.maps import steps_of, steps_since

    steps = [s for s in STEPS[maps.order] if s.before in maps.scopes and s.scope in maps.scopes]
    changes = [contextualization_change(maps, str(step.before), step.scope).tolist() for step in steps]
    later = steps_since(steps_of(maps), "Atb")
    left = [contextualization_change(maps, "Atb", later[-1]).tolist()] if len(later) > 1 else []
    table = Table(title="change of mixing, 1 - Spearman" if steps else None, **plain_table())
    table.add_column("layer", justify="right")
    for step in steps:
        table.add_column(f"{step.component}\n{step.scope}", justify="right")
    if left:
        table.add_column("since\nAtb", justify="right")
    table.add_column("completeness\nerror", justify="right")
    for row, layer in enumerate(maps.layers):
        worst = max(float(maps.completeness[scope, layer].max()) for scope in maps.scopes)
        table.add_row(str(layer), *(f"{change[row]:.3f}" for change in [*changes, *left]), scientific(worst))
    return table
