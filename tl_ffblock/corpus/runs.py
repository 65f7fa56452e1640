"""A config -> a finished folder: plan, guard, compute what is missing, finish."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tl_ffblock.bridge.loading import load_model
from tl_ffblock.corpus.extras import require
from tl_ffblock.corpus.outputs.outputs import Finished, finish
from tl_ffblock.corpus.running.fingerprint import fingerprint
from tl_ffblock.corpus.running.local_engine import run_local
from tl_ffblock.corpus.running.ray_engine import run_ray
from tl_ffblock.corpus.running.settings import Config
from tl_ffblock.corpus.running.shards import Plan, make_plan
from tl_ffblock.corpus.running.store import Store
from tl_ffblock.corpus.running.worker import Worker
from tl_ffblock.corpus.study import Tables
from tl_ffblock.progress import Progress


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    folder: Path
    failed_shards: dict[int, str]
    """Shards that could not be computed or written, with the reason; a further run does them."""
    damaged_shards: tuple[str, ...]
    """Files whose checksum was wrong; they were computed again."""
    finished: Finished | None
    """None while shards are missing."""

    @property
    def tables(self) -> Tables:
        """The tables, by `experiment_table`."""
        return self.finished.tables if self.finished else {}

    @property
    def left_out(self) -> int:
        """Unreadable lines and sequences that failed."""
        return self.finished.summary["unreadable"] + self.finished.summary["failed"] if self.finished else 0

    @property
    def status(self) -> int:
        """0 complete; 3 complete but for what was left out; 1 unfinished or without any sequence."""
        if self.finished is None or not self.finished.summary["sequences"]:
            return 1
        return 3 if self.left_out else 0


def run(config: Config, *, model: Any = None) -> Outcome:
    """Run experiments, or continue them: the result is that of an uninterrupted run, byte for byte.

    Args:
        config: The run.
        model: The model if it is loaded already (local engine); else `config.model` is loaded.

    Raises:
        InputError: if config, data or model cannot be used, or the folder holds another run.
        ModelLoadError: if the model is not there.
        OSError: if the folder cannot be written.
    """
    require(config)
    plan = make_plan(config)
    on = replace(config, device="cpu") if config.engine == "ray" else config
    worker = Worker(config, load_model(on.model, device=on.device) if model is None else model)
    mark = fingerprint(config, worker.model, plan)
    store = Store(config.folder, mark)
    done = sum(_size(plan, shard) for shard in store.verify())
    with Progress(config.experiment, len(plan.chosen), "sequence", done=done, kind="lasting") as progress:
        if config.engine == "ray":
            failed = run_ray(config, mark["model.weights"], plan, store, progress)
        else:
            failed = run_local(worker, plan, store, progress)
    return Outcome(config.folder, failed, tuple(store.damaged), None if failed else finish(worker, plan, store))


def _size(plan: Plan, shard: int) -> int:
    size = plan.config.shard_size
    return max(0, min(size, len(plan.chosen) - shard * size))
