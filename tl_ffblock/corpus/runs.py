"""Study runs: divide the corpus, check the folder, compute missing shards, write the outputs."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from tl_ffblock.bridge.loading import load_model
from tl_ffblock.corpus.outputs import Outputs, write_outputs
from tl_ffblock.corpus.settings import EVERY_RUN, Config, require
from tl_ffblock.corpus.shards import cut_into_shards
from tl_ffblock.corpus.store import Store, fingerprint
from tl_ffblock.corpus.study import Arrays, StudySpec, Tables
from tl_ffblock.corpus.worker import MACHINE_ERRORS, Worker
from tl_ffblock.errors import FFBlockError, InputError, ModelLoadError
from tl_ffblock.progress import Progress

SECONDS_BETWEEN_LOOKS = 0.5
"""Seconds to wait for shards that another process computes."""
MAX_RESTARTS = 20
"""Largest number of restarts of a worker, and of repetitions of a shard, before the run stops."""
SHARDS_A_WORKER_HOLDS = 2
"""Number of shards assigned to a worker at a time: one in progress, one waiting."""


@dataclass(frozen=True)
class CorpusRun:
    """Result of a study run."""

    folder: Path
    failed_shards: dict[int, str]
    """Shards that could not be computed or written, with the reason; the same command computes them again."""
    damaged_shards: tuple[str, ...]
    """Files with a wrong checksum; they were computed again."""
    outputs: Outputs | None
    """Tables, figures and report; None if shards are missing."""

    @property
    def tables(self) -> Tables:
        """Tables by `study_table`; empty if shards are missing."""
        return self.outputs.tables if self.outputs else {}

    @property
    def left_out(self) -> int:
        """Number of unreadable lines and of sequences that failed."""
        return self.outputs.summary["unreadable"] + self.outputs.summary["failed"] if self.outputs else 0

    @property
    def status(self) -> int:
        """Exit status: 0 complete; 3 complete, but lines or sequences were skipped; 1 unfinished, or no sequence was measured."""
        if self.outputs is None or not self.outputs.summary["sequences"]:
            return 1
        return 3 if self.left_out else 0


def run_corpus(config: Config, specs: Sequence[StudySpec], *, model: Any = None) -> CorpusRun:
    """Result of studies on a corpus; an interrupted run is continued.

    Tables of a continued run are byte for byte those of an uninterrupted one.

    Args:
        config: Settings of the run.
        specs: The studies, which share one pass over the data.
        model: The loaded model (local engine only); None loads `config.model`.

    Raises:
        InputError: if config, data, studies or model cannot be used, or the folder has another run.
        ModelLoadError: if the model does not exist.
        EngineError: if Ray workers cannot be started, or die repeatedly.
        OSError: if the folder cannot be written.
    """
    classes = [spec.study_class for spec in specs]
    by_ray = config.engine == "ray"
    require([*EVERY_RUN, *(["ray"] if by_ray else []), *(package for each in classes for package in each.packages)])
    names = [each.name for each in classes]
    if len(set(names)) < len(names):
        raise InputError(f"{','.join(names)!r} names a study twice.")
    config.check_out()
    shards = cut_into_shards(config)
    if model is None:  # with Ray this process only writes the folder, and leaves the GPUs to the workers
        model = load_model(config.model, device="cpu" if by_ray else config.device)
    worker = Worker(config, specs, model)
    mark = fingerprint(config, specs, worker.weights, shards)
    store = Store(config.folder, mark, shards.whole_shards_of, shards.digests)
    done = sum(shards.size(shard) for shard in store.verify())
    with Progress(",".join(names), len(shards.chosen), "sequences", done=done, kind="lasting") as progress:
        if worker.tokenise.mask_fraction:
            progress.say(
                f"{worker.tokenise.mask_fraction:.0%} of the tokens of text are replaced by {worker.tokenise.special.mask_text} "
                "(mask_fraction; 0 turns this off)"
            )
        failed = (run_ray if by_ray else run_local)(worker, shards, store, progress)
    outputs = None if failed else write_outputs(worker, shards, store)
    return CorpusRun(config.folder, failed, tuple(store.damaged), outputs)


@runtime_checkable
class ShardWorker(Protocol):
    """Protocol of an object that computes shards, on this machine or another."""

    config: Config

    @property
    def weights(self) -> str:
        """Digest of the weights that its results depend on."""

    @property
    def twin(self) -> "Callable[[], ShardWorker]":
        """Factory of the same worker in another process."""

    def compute(self, texts: list[Any], count: Callable[[], None] = ...) -> tuple[Arrays, dict[str, Any]]:
        """Arrays and metadata of one shard; `count` is called after each text."""


@runtime_checkable
class ShardTexts(Protocol):
    """Protocol of the inputs of a run, by shard."""

    @property
    def numbers(self) -> range:
        """Numbers of the shards."""

    def size(self, shard: int) -> int:
        """Number of texts in a shard."""

    def texts(self, wanted: set[int]) -> Iterator[tuple[int, list[Any]]]:
        """Texts of the wanted shards, in order."""


def run_local(worker: ShardWorker, shards: ShardTexts, store: Store, progress: Progress) -> dict[int, str]:
    """Compute all shards in this process, except those that other processes compute; returns failed shards with the reason.

    Args:
        worker: The model and the studies.
        shards: The corpus.
        store: Store of the finished shards.
        progress: Progress bar, advanced after every sequence.
    """
    failed: dict[int, str] = {}
    computed: set[int] = set()
    missing = _missing(shards, store, progress)
    while missing:
        held_by_others = 0
        for shard, texts in shards.texts(missing):
            with store.claim(shard) as mine:
                if not mine:
                    held_by_others += 1
                    continue
                try:
                    store.write(shard, *worker.compute(texts, progress.step))
                    computed.add(shard)
                except MACHINE_ERRORS as error:
                    failed[shard] = f"{type(error).__name__}: {error}"
        done = store.done()
        progress.step(sum(shards.size(shard) for shard in missing & done - computed))  # by other processes
        missing -= done | set(failed)
        if held_by_others and missing:
            time.sleep(SECONDS_BETWEEN_LOOKS)
    return failed


def _missing(shards: ShardTexts, store: Store, progress: Progress) -> set[int]:
    """Numbers of the shards to compute. Those that other processes wrote since the start of `progress` are counted as done."""
    done = store.done()
    progress.step(sum(shards.size(shard) for shard in done) - progress.done)
    return set(shards.numbers) - done


class RemoteWorker:
    """A worker on a node of the cluster.

    Raises:
        ModelLoadError: if the model has other weights on this node.
    """

    def __init__(self, make: Callable[[], ShardWorker], digest: str) -> None:
        self._worker = make()
        if self._worker.weights != digest:
            raise ModelLoadError(
                f"the model {self._worker.config.model} has other weights on this node: {self._worker.weights[:12]}…, expected "
                f"{digest[:12]}…."
            )

    def compute(self, texts: list[Any]) -> tuple[Any, Any, str | None]:
        """Arrays and metadata of a shard, and None; or twice None and the reason."""
        try:
            return (*self._worker.compute(texts), None)
        except MACHINE_ERRORS as error:
            return None, None, f"{type(error).__name__}: {error}"


def run_ray(worker: ShardWorker, shards: ShardTexts, store: Store, progress: Progress) -> dict[int, str]:
    """Compute all shards on Ray actors, each with a copy of the model; only this process writes. Returns failed shards with the reason.

    An actor that dies is started again, on this node or another, and its shard is computed again. The results of a shard depend
    only on its sequences, so they do not change.

    Args:
        worker: Worker of this process; the actors have twins of it.
        shards: The corpus, or prompts.
        store: Store of the finished shards.
        progress: Progress bar, advanced after every shard.

    Raises:
        EngineError: if workers cannot be started, or die repeatedly.
    """
    import ray

    config = worker.config
    with ExitStack() as stack:
        if not ray.is_initialized():
            cluster = config.ray_address or os.environ.get("RAY_ADDRESS")
            own_cluster: dict[str, Any] = dict(num_cpus=config.workers * config.threads, include_dashboard=False)
            ray.init(
                address=cluster or "local",  # None would join a cluster that runs on this machine
                log_to_driver=False,
                logging_level="ERROR",
                **({} if cluster else own_cluster),
            )
            stack.callback(ray.shutdown)
        options = dict(num_cpus=config.threads, num_gpus=config.gpus * config.device.startswith("cuda"))
        actor = ray.remote(**options, max_restarts=MAX_RESTARTS, max_task_retries=MAX_RESTARTS)(RemoteWorker)
        actors = [actor.remote(worker.twin, worker.weights) for _ in range(config.workers)]
        for handle in actors:
            stack.callback(ray.kill, handle)
        try:
            return _Dispatcher(ray, actors, store, progress).compute(shards)
        except ray.exceptions.RayError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            reason = lines[-1] if lines else type(error).__name__  # the last line is the error on the worker
            raise EngineError(f"a Ray worker failed: {reason}") from error


class EngineError(FFBlockError, RuntimeError):
    """Workers cannot be started, or die repeatedly."""


class _Dispatcher:
    """Assigns shards to actors and collects their results."""

    def __init__(self, ray: Any, actors: list[Any], store: Store, progress: Progress) -> None:
        self.ray = ray
        self.actors = actors
        self.store = store
        self.progress = progress
        self.load = [0] * len(actors)
        self.running: dict[Any, tuple[int, int, int, ExitStack]] = {}
        """Future -> shard, actor, number of sequences, and the exit stack that releases the claim."""
        self.written: set[int] = set()
        self.failed: dict[int, str] = {}

    def compute(self, shards: ShardTexts) -> dict[int, str]:
        missing = _missing(shards, self.store, self.progress)
        try:
            while missing:
                for shard, texts in shards.texts(missing):
                    while min(self.load) >= SHARDS_A_WORKER_HOLDS:
                        self._collect()
                    self._submit(shard, texts)
                if not self.running:
                    time.sleep(SECONDS_BETWEEN_LOOKS)  # other processes compute the missing shards
                while self.running:
                    self._collect()
                done = self.store.done()
                self.progress.step(sum(shards.size(shard) for shard in missing & done - self.written))
                missing -= done | set(self.failed)
        finally:
            for *_, claim in self.running.values():
                claim.close()
        return self.failed

    def _submit(self, shard: int, texts: list[Any]) -> None:
        with ExitStack() as claim:
            if claim.enter_context(self.store.claim(shard)):
                actor = self.load.index(min(self.load))
                self.load[actor] += 1
                self.running[self.actors[actor].compute.remote(texts)] = (shard, actor, len(texts), claim.pop_all())

    def _collect(self) -> None:
        (future, *_), _ = self.ray.wait(list(self.running), num_returns=1)
        shard, actor, sequences, claim = self.running.pop(future)
        self.load[actor] -= 1
        with claim:
            try:
                arrays, meta, why = self.ray.get(future)
                if why is None:
                    self.store.write(shard, arrays, meta)
                    self.written.add(shard)
                    self.progress.step(sequences)
                else:
                    self.failed[shard] = why
            except OSError as error:
                self.failed[shard] = f"{type(error).__name__}: {error}"
