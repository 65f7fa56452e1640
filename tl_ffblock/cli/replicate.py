"""`tl-ffblock replicate`: the paper's studies on models and corpora of your choice, compared with its numbers."""

import argparse
import sys
from typing import Any

from tl_ffblock.cli.arguments import Command, argument_of, flag, refuse_idle
from tl_ffblock.corpus.settings import Config, declared_fields

SETTINGS = (
    "limit",
    "sample",
    "seed",
    "batch_size",
    "max_memory",
    "shard_size",
    "threads",
    "engine",
    "workers",
    "ray_address",
    "device",
    "examples",
)
"""Config fields that hold for all study runs."""
PAPER = "paper"
"""Value of --models for the paper's thirteen."""
_FIELDS = {each.name: each for each in declared_fields(Config.__module__, "Config") if each.name in SETTINGS}


def run(options: argparse.Namespace) -> int:
    """Run the studies and print a summary; returns the exit status."""
    settings: dict[str, Any] = {name: getattr(options, name) for name in SETTINGS if getattr(options, name) is not None}
    refuse_idle(Config(model="", data="", out=options.out, **settings), "dataset")
    from tl_ffblock.bridge.loading import SHIPPED
    from tl_ffblock.experiments.kobayashi.replication import CORPORA, MODELS, SHORT, STUDIES, replicate

    named = tuple(SHIPPED) if options.models is None else tuple(filter(None, options.models.split(",")))
    models = MODELS if named == (PAPER,) else named
    given = [each.partition("=") for each in (options.corpora or ",".join(CORPORA)).split(",") if each]
    try:
        found = replicate(
            options.out,
            models=models,
            corpora={name: source or None for name, _, source in given},
            studies=options.studies or STUDIES,
            **settings,
        )
    except KeyboardInterrupt:
        print("finished shards are kept; run the same command again to continue", file=sys.stderr)
        raise
    for model, why in found.failed.items():
        print(f"{model} left out: {why}", file=sys.stderr)
    unfinished = [" on ".join(name) for name, each in found.runs.items() if each.status == 1]
    if unfinished:
        print(f"unfinished: {', '.join(unfinished)}; run the same command again", file=sys.stderr)
    done = len({(model, name.removesuffix(SHORT)) for model, name in found.runs})
    print(f"{done} of {len(models) * len(given)} pairs of model and corpus")
    print(f"compare  {found.folder / 'comparison.csv'}\npage     {found.folder / 'index.html'}")
    return found.status


COMMAND = Command(
    run,
    help="every figure and table of Kobayashi et al. 2024, compared with its numbers",
    description="Run the studies of Kobayashi et al. 2024 on models and its two corpora, and write every figure and table of the "
    "paper on one page, with the paper's numbers. Where these are of other models, the page names them. Models that packages ship "
    "need no hub. Each model and corpus has its own folder, and continues after an interruption. Exit status as of run; 1 also if "
    "a model could not be loaded.",
    arguments={
        "--out": {"required": True, "metavar": "DIR", "help": "folder of all runs, of comparison.csv and index.html"},
        "--models": {
            "metavar": "NAME,NAME",
            "help": "names of `tl-ffblock models`, names on the hub, folders, or `paper` for its thirteen (default: minilm,smollm2)",
        },
        "--corpora": {
            "metavar": "NAME,NAME",
            "help": "sst2, wikipedia or both (default); sst2=SOURCE reads a file, a folder of a saved dataset, or another name",
        },
        "--studies": {
            "metavar": "STUDY,STUDY",
            "help": "which studies (default: contextualization,amplification,bypass,outliers,attribution-methods,cost)",
        },
        **{flag(name): {**argument_of(each, each.default), "default": None} for name, each in _FIELDS.items()},
    },
)
