"""`tl-ffblock run`: its options are the fields of the config and of the studies, whose docstrings are the help."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tl_ffblock.cli.arguments import Argument, Command, argument_of, flag, refuse_idle
from tl_ffblock.corpus.settings import Config, declared_fields
from tl_ffblock.corpus.texts import data_format
from tl_ffblock.errors import InputError
from tl_ffblock.experiments import (
    PAPERS,
    STUDIES,
    option_fields,
    run_studies,
    studies_of,
    study,
    study_names,
    study_title,
)
from tl_ffblock.numerals import scientific

DEFAULT_MODEL = "minilm"


def run(options: argparse.Namespace) -> int:
    """Run the studies and print a summary; returns the exit status."""
    with suppress(FileNotFoundError):  # the current folder may be deleted
        if str(Path.cwd()) not in sys.path:
            sys.path.append(str(Path.cwd()))  # for studies and taggers of the user
    config, chosen = config_and_options(options)
    refuse_idle(config, data_format(config))
    config.check_out()
    try:
        finished = run_studies([study(name, **values) for name, values in chosen], config)
    except KeyboardInterrupt:
        print("finished shards are kept; run the same command again to continue", file=sys.stderr)
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
            "contributions and bias differ from the model's own activations by at most "
            f"{scientific(summary['completeness'])} of their norm"
        )
    tables, figures = finished.folder / "tables", finished.folder / "figures"
    if finished.left_out:
        print(f"{finished.left_out} lines or sequences were left out: {tables / 'problems.csv'}", file=sys.stderr)
    print(f"tables   {tables}\nfigures  {figures}\nreport   {finished.outputs.report}")
    return finished.status


def config_and_options(options: argparse.Namespace) -> tuple[Config, list[tuple[str, dict[str, Any]]]]:
    """The config, and each study with its given options.

    Raises:
        InputError: if the arguments are not valid, or an option belongs to a study that is not run.
    """
    names = study_names(options.studies)
    given: dict[str, dict[str, Any]] = {}
    for name in STUDIES:
        given[name] = {
            each.name: getattr(options, each.name) for each in option_fields(name) if hasattr(options, each.name)
        }
        if given[name] and name not in names:
            raise InputError(f"{flag(next(iter(given[name])))} is an option of {name}, which is not among the studies.")
    fields = {each.name: getattr(options, each.name) for each in declared_fields(Config.__module__, "Config")}
    return Config(**fields), [(name, given.get(name, {})) for name in names]


def _groups() -> Iterator[tuple[str, Mapping[str, Argument]]]:
    """Groups of options: per paper a heading, then the options of each of its studies."""
    for paper, title in PAPERS.items():
        yield f"studies of {title}", {}
        for name in studies_of(paper):
            options = {flag(each.name): argument_of(each, argparse.SUPPRESS) for each in option_fields(name)}
            if options:
                yield f"options of {name}", options


def _unasked(given: Sequence[str]) -> frozenset[str]:
    """Groups of studies and papers that were not named; empty if no study was named."""
    named = {name for argument in given for name in argument.split(",") if name in STUDIES}
    others = [f"options of {name}" for name in STUDIES if name not in named]
    others += [f"studies of {title}" for paper, title in PAPERS.items() if not named & set(studies_of(paper))]
    return frozenset(others if named else ())


COMMAND = Command(
    run,
    help="the paper's studies on a corpus: tables, figures and a report",
    description="Run studies of Kobayashi et al. 2024, Clark et al. 2019 and Geva et al. 2021, or your own, on a model and a "
    "corpus. An interrupted run continues when the same command is run again. Exit status: 0 complete; 3 complete, but lines or "
    "sequences were skipped (the table `problems` names them); 1 unfinished or failed; 2 wrong arguments.",
    arguments={
        "studies": {
            "metavar": "STUDY",
            "help": "studies to run; several, separated by commas, share one pass over the data. There are "
            f"{', '.join(STUDIES)}; one of your own is module:Class, found in this folder or on the path of Python.",
        },
        **{
            flag(each.name): argument_of(each, DEFAULT_MODEL if each.name == "model" else each.default)
            for each in declared_fields(Config.__module__, "Config")
        },
    },
    groups=dict(_groups()),
    about={
        f"studies of {title}": ". ".join(f"{name}: {study_title(name)}" for name in studies_of(paper)) + "."
        for paper, title in PAPERS.items()
    },
    unasked=_unasked,
)
