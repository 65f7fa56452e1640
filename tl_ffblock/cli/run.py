"""`tl-ffblock run`: the options are the fields of the config, their help is the text below them."""

import argparse
import sys
from dataclasses import MISSING, fields
from typing import Any, Literal, get_args, get_origin

from tl_ffblock.corpus.running.settings import NAMES, Config, field_help

DESCRIPTION = (
    "Repeat experiments of Kobayashi et al. 2024 on a model and a corpus. A run can be killed at any time and "
    "started again with the same command: it continues. Exit status: 0 complete; 3 complete, but lines or "
    "sequences were left out (the table `problems` names them); 1 unfinished or failed; 2 wrong arguments."
)
DEFAULTS = {"model": "minilm"}


def add_to(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    add = commands.add_parser(
        "run", help="the paper's experiments on a corpus: tables, figures and a report", description=DESCRIPTION
    )
    texts = field_help()
    for field in fields(Config):
        text = texts[field.name].replace("%", "%%")
        if field.name == "experiment":
            add.add_argument("experiment", metavar="EXPERIMENT", help=f"{text} There are {', '.join(NAMES)}.")
            continue
        required = field.default is MISSING and field.name not in DEFAULTS
        default = DEFAULTS.get(field.name, None if field.default is MISSING else field.default)
        shown = (
            ""
            if default is None
            else f" (default: {','.join(map(str, default)) if isinstance(default, tuple) else default})"
        )
        add.add_argument(
            f"--{field.name.replace('_', '-')}",
            default=default,
            required=required,
            help=text + shown,
            **_kind(field.type),
        )
    add.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Run, and say what came of it; returns the exit status."""
    config = Config(**{field.name: getattr(options, field.name) for field in fields(Config)})
    from tl_ffblock.experiments import run

    outcome = run(config)
    for name in outcome.damaged_shards:
        print(f"damaged and done again: {name}", file=sys.stderr)
    for shard, why in outcome.failed_shards.items():
        print(f"shard {shard} failed: {why}", file=sys.stderr)
    if outcome.finished is None:
        print(
            f"unfinished: {len(outcome.failed_shards)} shards are missing; run the same command again", file=sys.stderr
        )
        return outcome.status
    summary = outcome.finished.summary
    print(", ".join(f"{value} {name}" for name, value in summary.items()))
    if outcome.left_out:
        print(
            f"{outcome.left_out} lines or sequences were left out: {outcome.folder / 'tables' / 'problems.csv'}",
            file=sys.stderr,
        )
    print(
        f"tables   {outcome.folder / 'tables'}\nfigures  {outcome.folder / 'figures'}\nreport   {outcome.finished.report}"
    )
    return outcome.status


def _kind(annotation: Any) -> dict[str, Any]:
    """How argparse reads a field of this type."""
    if get_origin(annotation) is Literal:
        return {"choices": get_args(annotation)}
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)] or [annotation]
    if get_origin(annotation) is tuple:
        return {"type": _numbers, "metavar": "N,N"}
    return {"type": kinds[0], "metavar": {int: "N", float: "X"}.get(kinds[0], "TEXT")}


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected whole numbers with commas between them, not {text!r}") from error
