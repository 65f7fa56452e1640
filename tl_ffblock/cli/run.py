"""`tl-ffblock run`: the options are the fields of the config and of the studies, their help is the text below them."""

import argparse
import sys
from typing import Any

from tl_ffblock.corpus.fields import REQUIRED, DeclaredField, declared_fields
from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.texts.readers import data_format
from tl_ffblock.errors import InputError
from tl_ffblock.experiments.studies import STUDIES, run_studies, study, study_names
from tl_ffblock.numerals import scientific

DESCRIPTION = (
    "Run studies of Kobayashi et al. 2024 and Clark et al. 2019 on a model and a corpus. A run can be killed at any time and "
    "started again with the same command: it continues. Exit status: 0 complete; 3 complete, but lines or "
    "sequences were left out (the table `problems` names them); 1 unfinished or failed; 2 wrong arguments."
)
DEFAULT_MODEL = "minilm"


def add_to(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    add = commands.add_parser(
        "run", help="the paper's studies on a corpus: tables, figures and a report", description=DESCRIPTION
    )
    add.add_argument(
        "studies",
        metavar="STUDY",
        help=f"which study; several with commas between them share one pass over the data. There are {', '.join(STUDIES)}.",
    )
    for field in declared_fields(Config.__module__, "Config"):
        _add_option(add, field, DEFAULT_MODEL if field.name == "model" else field.default)
    for name, entry in STUDIES.items():
        if entry.fields:
            group = add.add_argument_group(f"options of {name}")
            for field in entry.fields:
                _add_option(group, field, argparse.SUPPRESS)
    add.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Run, and say what came of it; returns the exit status."""
    config, chosen = config_and_options(options)
    _refuse_idle(config, data_format(config))
    config.check_out()
    try:
        finished = run_studies([study(name, **values) for name, values in chosen.items()], config)
    except KeyboardInterrupt:
        print("what was computed is kept; run the same command again to continue", file=sys.stderr)
        raise
    for file in finished.damaged_shards:
        print(f"damaged and done again: {file}", file=sys.stderr)
    for shard, why in finished.failed_shards.items():
        print(f"shard {shard} failed: {why}", file=sys.stderr)
    if finished.outputs is None:
        print(
            f"unfinished: {len(finished.failed_shards)} shards are missing; run the same command again", file=sys.stderr
        )
        return finished.status
    summary = finished.outputs.summary
    print(", ".join(f"{value} {name}" for name, value in summary.items() if name != "completeness"))
    if summary["completeness"] is not None:
        print(
            f"parts and bias miss the model's own vectors by at most {scientific(summary['completeness'])} of their norm"
        )
    tables, figures = finished.folder / "tables", finished.folder / "figures"
    if finished.left_out:
        print(f"{finished.left_out} lines or sequences were left out: {tables / 'problems.csv'}", file=sys.stderr)
    print(f"tables   {tables}\nfigures  {figures}\nreport   {finished.outputs.report}")
    return finished.status


def config_and_options(options: argparse.Namespace) -> tuple[Config, dict[str, dict[str, Any]]]:
    """Give the config, and for each study asked for the options that were given.

    Raises:
        InputError: if the arguments mean no run, or an option is given of a study that is not run.
    """
    names = study_names(options.studies)
    given = {
        name: {field.name: getattr(options, field.name) for field in entry.fields if hasattr(options, field.name)}
        for name, entry in STUDIES.items()
    }
    for name, values in given.items():
        if values and name not in names:
            raise InputError(f"{_flag(next(iter(values)))} is an option of {name}, which is not among the studies.")
    fields = [field.name for field in declared_fields(Config.__module__, "Config")]
    return Config(**{name: getattr(options, name) for name in fields}), {name: given[name] for name in names}


_TABLES = ("jsonl", "csv", "tsv", "dataset")


def _refuse_idle(config: Config, data: str) -> None:
    """Refuse options that would change nothing.

    Raises:
        InputError: naming the option, and with what it has an effect.
    """
    on_ray, of = config.engine == "ray", f"is of {{}}, and the data is read as {data}"
    for name, has_effect, needs in (
        ("sample", config.limit is not None, "needs --limit"),
        ("long", config.max_tokens is not None, "needs --max-tokens"),
        ("workers", on_ray, "needs --engine ray"),
        ("ray_address", on_ray, "needs --engine ray"),
        ("document_pattern", data == "text", of.format("text files")),
        ("document_column", data in _TABLES, of.format("JSONL, CSV, TSV and datasets")),
        ("column", data in _TABLES, of.format("JSONL, CSV, TSV and datasets")),
        ("split", data == "dataset", of.format("datasets")),
    ):
        if getattr(config, name) != getattr(Config, name) and not has_effect:
            raise InputError(f"{_flag(name)} {needs}; here it would change nothing.")


def _add_option(parser: Any, field: DeclaredField, default: Any) -> None:
    shown = field.default if default is argparse.SUPPRESS else default
    kind: dict[str, Any] = {"type": field.kind, "metavar": {int: "N", float: "X"}.get(field.kind, "TEXT")}
    if field.choices:
        kind = {"choices": field.choices}
    elif field.several:
        kind = {"type": _numbers, "metavar": "N,N"}
        shown = ",".join(map(str, shown))
    text = field.text.replace("%", "%%")
    parser.add_argument(
        _flag(field.name),
        default=None if default is REQUIRED else default,
        required=default is REQUIRED,
        help=text if shown is None or shown is REQUIRED else f"{text} (default: {shown})",
        **kind,
    )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(number) for number in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected whole numbers with commas between them, not {text!r}") from error
