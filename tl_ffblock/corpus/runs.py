"""Studies and a config -> a finished folder: cut, guard, compute what is missing, write the outputs."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

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
"""How long to wait for shards that another process holds."""
MAX_RESTARTS = 20
"""How often a worker may die and a shard be tried again before the run gives up."""
SHARDS_A_WORKER_HOLDS = 2
"""Shards a worker holds at a time: one in work, one waiting."""


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
        InputError: if config, data, studies or model cannot be used, or the folder holds another run.
        ModelLoadError: if the model is not there.
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
    if model is None:  # with Ray this process only guards the folder, and leaves the GPUs to the workers
        model = load_model(config.model, device="cpu" if by_ray else config.device)
    worker = Worker(config, specs, model)
    mark = fingerprint(config, specs, worker.weights, shards)
    store = Store(config.folder, mark, shards.whole_shards_of, shards.digests)
    done = sum(shards.size(shard) for shard in store.verify())
    with Progress(",".join(names), len(shards.chosen), "sequences", done=done, kind="lasting") as progress:
        if worker.tokenise.mask_fraction:
            progress.say(
                f"{worker.tokenise.mask_fraction:.0%} of the tokens of text become {worker.tokenise.special.mask_text} "
                "(mask_fraction; 0 turns that off)"
            )
        failed = (run_ray if by_ray else run_local)(worker, shards, store, progress)
    outputs = None if failed else write_outputs(worker, shards, store)
    return CorpusRun(config.folder, failed, tuple(store.damaged), outputs)


@runtime_checkable
class ShardWorker(Protocol):
    """What computes shards, here or on another machine."""

    config: Config

    @property
    def weights(self) -> str:
        """Digest of the weights that its numbers depend on."""

    @property
    def twin(self) -> "Callable[[], ShardWorker]":
        """Makes the same worker in another process."""

    def compute(self, texts: list[Any], count: Callable[[], None] = ...) -> tuple[Arrays, dict[str, Any]]:
        """Arrays and metadata of one shard; `count` is called after each text."""


@runtime_checkable
class ShardTexts(Protocol):
    """What is computed, shard by shard."""

    @property
    def numbers(self) -> range:
        """The shards."""

    def size(self, shard: int) -> int:
        """How many texts a shard has."""

    def texts(self, wanted: set[int]) -> Iterator[tuple[int, list[Any]]]:
        """The wanted shards' texts, in order."""


Outcome: TypeAlias = tuple[int, Arrays, dict[str, Any], str | None]
"""A shard's number, arrays and metadata, or why there are none."""


def outcome(worker: ShardWorker, shard: int, texts: list[Any], count: Callable[[], None] = lambda: None) -> Outcome:
    """What a worker makes of a shard."""
    try:
        return shard, *worker.compute(texts, count), None
    except MACHINE_ERRORS as error:
        return shard, {}, {}, f"{type(error).__name__}: {error}"


def compute_shards(
    engine: Callable[[Iterator[tuple[int, list[Any]]]], Iterator[Outcome]],
    shards: ShardTexts,
    store: Store,
    progress: Progress,
) -> dict[int, str]:
    """Compute every shard that no other process on the folder is at; returns the failed ones, with the reason.

    Args:
        engine: Computes shards, as `run_local` and `run_ray` do, and tells `progress` of their sequences.
        shards: The corpus, or prompts.
        store: Where finished shards go.
        progress: Told of the shards that other processes wrote.
    """
    claims: dict[int, ExitStack] = {}
    failed: dict[int, str] = {}
    done = store.done()
    progress.step(sum(shards.size(shard) for shard in done) - progress.done)  # by other processes, since it began
    missing = set(shards.numbers) - done

    def claimed() -> Iterator[tuple[int, list[Any]]]:
        for shard, texts in shards.texts(missing):
            with ExitStack() as claim:
                if claim.enter_context(store.claim(shard)):
                    claims[shard] = claim.pop_all()
                    yield shard, texts

    try:
        while missing:
            computed: set[int] = set()
            for shard, arrays, meta, why in engine(claimed()):
                with claims.pop(shard):
                    try:
                        if why is None:
                            store.write(shard, arrays, meta)
                    except MACHINE_ERRORS as error:
                        why = f"{type(error).__name__}: {error}"
                failed |= {} if why is None else {shard: why}
                computed.add(shard)
            done = store.done()
            progress.step(sum(shards.size(shard) for shard in missing & done - computed))  # by other processes
            missing -= done | set(failed)
            if missing:  # others hold them
                time.sleep(SECONDS_BETWEEN_LOOKS)
    finally:
        for claim in claims.values():
            claim.close()
    return failed


def run_local(worker: ShardWorker, shards: ShardTexts, store: Store, progress: Progress) -> dict[int, str]:
    """Compute shards in this process; arguments and result are those of `compute_shards`."""

    def engine(claimed: Iterator[tuple[int, list[Any]]]) -> Iterator[Outcome]:
        return (outcome(worker, shard, texts, progress.step) for shard, texts in claimed)

    return compute_shards(engine, shards, store, progress)


class RemoteWorker:
    """A worker on some node of the cluster."""

    def __init__(self, make: Callable[[], ShardWorker], digest: str) -> None:
        self._worker = make()
        if self._worker.weights != digest:
            raise ModelLoadError(
                f"the model {self._worker.config.model} has other weights on this node: {self._worker.weights[:12]}…, not "
                f"{digest[:12]}…."
            )

    def compute(self, shard: int, texts: list[Any]) -> Outcome:
        """What this node makes of a shard."""
        return outcome(self._worker, shard, texts)


def run_ray(worker: ShardWorker, shards: ShardTexts, store: Store, progress: Progress) -> dict[int, str]:
    """Map shards over Ray actors that each hold the model; this process alone writes. Returns the failed ones, with the reason.

    An actor that dies is started again, here or on another node, and its shard is computed again: a shard's
    numbers depend on its sequences only, so the result does not change.

    Args:
        worker: This process's own, whose twins the others are.
        shards: The corpus, or prompts.
        store: Where finished shards go.
        progress: Told of every sequence measured.

    Raises:
        EngineError: if workers cannot be started, or keep dying.
    """
    import ray
    from ray.util import ActorPool

    config = worker.config
    with ExitStack() as stack:
        if not ray.is_initialized():
            cluster = config.ray_address or os.environ.get("RAY_ADDRESS")
            own_cluster: dict[str, Any] = dict(num_cpus=config.workers * config.threads, include_dashboard=False)
            ray.init(
                address=cluster or "local",  # None would join whatever cluster runs on this machine
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

        pool = ActorPool(actors * SHARDS_A_WORKER_HOLDS)

        def collected() -> Outcome:
            made: Outcome = pool.get_next_unordered()
            progress.step(shards.size(made[0]) if made[-1] is None else 0)
            return made

        def engine(claimed: Iterator[tuple[int, list[Any]]]) -> Iterator[Outcome]:
            for given in claimed:
                if not pool.has_free():
                    yield collected()
                pool.submit(lambda handle, given: handle.compute.remote(*given), given)
            while pool.has_next():
                yield collected()

        try:
            return compute_shards(engine, shards, store, progress)
        except ray.exceptions.RayError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            reason = lines[-1] if lines else type(error).__name__  # what happened on the worker
            raise EngineError(f"a Ray worker could not do its work: {reason}") from error


class EngineError(FFBlockError, RuntimeError):
    """Workers cannot be started, or keep dying."""
