"""Studies and a config -> a finished folder: cut, guard, compute what is missing, write the outputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tl_ffblock.bridge.loading import load_model
from tl_ffblock.corpus.extras import require, require_for
from tl_ffblock.corpus.outputs.tables import Outputs, write_outputs
from tl_ffblock.corpus.running.fingerprint import fingerprint
from tl_ffblock.corpus.running.local_engine import run_local
from tl_ffblock.corpus.running.ray_engine import run_ray
from tl_ffblock.corpus.running.shards import cut_into_shards
from tl_ffblock.corpus.running.store import Store
from tl_ffblock.corpus.running.worker import Worker
from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.study import StudySpec, Tables
from tl_ffblock.progress import Progress


@dataclass(frozen=True)
class CorpusRun:
    """What a run came to."""

    folder: Path
    failed_shards: dict[int, str]
    """Shards that could not be computed or written, with the reason; a further run does them."""
    damaged_shards: tuple[str, ...]
    """Files whose checksum was wrong; they were computed again."""
    outputs: Outputs | None
    """None while shards are missing."""

    @property
    def tables(self) -> Tables:
        """The tables, by `study_table`."""
        return self.outputs.tables if self.outputs else {}

    @property
    def left_out(self) -> int:
        """Unreadable lines and sequences that failed."""
        return self.outputs.summary["unreadable"] + self.outputs.summary["failed"] if self.outputs else 0

    @property
    def status(self) -> int:
        """0 complete; 3 complete but for what was left out; 1 unfinished or without any sequence."""
        if self.outputs is None or not self.outputs.summary["sequences"]:
            return 1
        return 3 if self.left_out else 0


def run_corpus(config: Config, specs: Sequence[StudySpec], *, model: Any = None) -> CorpusRun:
    """Run studies, or continue them: the result is that of an uninterrupted run, byte for byte.

    Args:
        config: The run.
        specs: Its studies, which share one pass over the data.
        model: The model if it is loaded already (local engine); else `config.model` is loaded.

    Raises:
        InputError: if config, data or model cannot be used, or the folder holds another run.
        ModelLoadError: if the model is not there.
        OSError: if the folder cannot be written.
    """
    require_for(config)
    require([package for spec in specs for package in spec.study_class.packages])
    shards = cut_into_shards(config)
    if model is None:  # with Ray this process only guards the folder, and leaves the GPUs to the workers
        model = load_model(config.model, device="cpu" if config.engine == "ray" else config.device)
    worker = Worker(config, specs, model)
    mark = fingerprint(config, specs, worker.weights, shards)
    store = Store(config.folder, mark, shards.whole_shards_of)
    done = sum(shards.size(shard) for shard in store.verify())
    name = ",".join(study.name for study in worker.studies)
    with Progress(name, len(shards.chosen), "sequences", done=done, kind="lasting") as progress:
        if worker.tokenise.mask_fraction:
            progress.say(
                f"{worker.tokenise.mask_fraction:.0%} of the tokens of text become {worker.tokenise.special.mask_text} "
                "(mask_fraction; 0 turns that off)"
            )
        compute = run_ray if config.engine == "ray" else run_local
        failed = compute(worker, shards, store, progress)
    outputs = None if failed else write_outputs(worker, shards, store)
    return CorpusRun(config.folder, failed, tuple(store.damaged), outputs)
