"""The experiments of Kobayashi et al. 2024 on any model and corpus, in runs that survive a kill.

    from tl_ffblock.experiments import Config, run

    outcome = run(Config(experiment="contextualization", model="minilm", data="corpus.txt", out="results"))
    outcome.tables["changes"]

1. `config` is one frozen dataclass; its fields document themselves and make the command line.
2. `readers` and `conllu` turn data into sequences, `plan` cuts them into shards.
3. `worker` computes a shard with a loaded model: `encoding` makes tokens, `observation` runs the model,
   one file an experiment measures what was seen and sums it up.
4. `store` keeps shards under checksums and locks, `fingerprint` guards the folder.
5. `engines` and `ray_engine` map the worker over the shards; `finish` merges them into tables, figures
   and the report.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tl_ffblock.corpus.running.settings import Config
    from tl_ffblock.corpus.runs import Outcome, run

__all__ = ["Config", "Outcome", "run"]

_HOMES = {"Config": "running.settings", "Outcome": "runs", "run": "runs"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name != "Config":
        import_module("tl_ffblock.corpus.extras").require()
    value = getattr(import_module(f"tl_ffblock.corpus.{_HOMES[name]}"), name)
    globals()[name] = value  # else `run` would be the module of that name after its import
    return value
