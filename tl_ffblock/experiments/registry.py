"""The experiments by name; their files are imported when they are run."""

from importlib import import_module

from tl_ffblock.corpus.running.settings import Config
from tl_ffblock.corpus.study import Experiment, Subject

_HOMES = {
    "contextualization": ("contextualization", "Contextualization"),
    "amplification": ("amplification", "Amplification"),
    "norms": ("bypass", "BypassNorms"),
    "outliers": ("outliers", "Outliers"),
    "attribution-methods": ("attribution", "AttributionMethods"),
    "cost": ("cost", "Cost"),
}


def make_experiments(config: Config, subject: Subject) -> tuple[Experiment, ...]:
    """The experiments of a run."""
    homes = (_HOMES[name] for name in config.names)
    return tuple(
        getattr(import_module(f"tl_ffblock.experiments.kobayashi.{home}"), cls)(config, subject) for home, cls in homes
    )
