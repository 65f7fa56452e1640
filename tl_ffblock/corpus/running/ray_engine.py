"""The Ray engine: shards mapped over actors that each hold the model; the driver alone writes.

An actor that dies is started again, here or on another node, and its shard is computed again: a shard's
numbers depend on its sequences only, so the result does not change.
"""

import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from tl_ffblock.bridge.loading import load_model
from tl_ffblock.corpus.running.local_engine import SECONDS_BETWEEN_LOOKS
from tl_ffblock.corpus.running.shards import Shards
from tl_ffblock.corpus.running.store import Store
from tl_ffblock.corpus.running.worker import MACHINE_ERRORS, Worker
from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.study import StudySpec
from tl_ffblock.corpus.texts.texts import CorpusText
from tl_ffblock.errors import FFBlockError, ModelLoadError
from tl_ffblock.progress import Progress

MAX_RESTARTS = 20
"""How often a worker may die and a shard be tried again before the run gives up."""
SHARDS_A_WORKER_HOLDS = 2
"""Shards a worker holds at a time: one in work, one waiting."""


class RemoteWorker:
    """A worker on some node of the cluster."""

    def __init__(self, config: Config, specs: Sequence[StudySpec], digest: str) -> None:
        self._worker = Worker(config, specs, load_model(config.model, device=config.device))
        if self._worker.weights != digest:
            raise ModelLoadError(
                f"the model {config.model} has other weights on this node: {self._worker.weights[:12]}…, not {digest[:12]}…."
            )

    def compute(self, texts: list[CorpusText]) -> tuple[Any, Any, str | None]:
        """Give arrays and metadata of a shard, or why there are none."""
        try:
            return (*self._worker.compute(texts), None)
        except MACHINE_ERRORS as error:
            return None, None, f"{type(error).__name__}: {error}"


def run_ray(worker: Worker, shards: Shards, store: Store, progress: Progress) -> dict[int, str]:
    """Compute what is missing; returns the shards that could not be, with the reason.

    Args:
        worker: This process's own, whose config, studies and weights the others must have.
        shards: The corpus.
        store: Where finished shards go.
        progress: Told of every sequence measured.

    Raises:
        EngineError: if workers cannot be started, or keep dying.
    """
    import ray

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
        options = dict(num_cpus=config.threads, num_gpus=int(config.device.startswith("cuda")))
        actor = ray.remote(**options, max_restarts=MAX_RESTARTS, max_task_retries=MAX_RESTARTS)(RemoteWorker)
        actors = [actor.remote(config, worker.specs, worker.weights) for _ in range(config.workers)]
        for handle in actors:
            stack.callback(ray.kill, handle)
        try:
            return _Dispatcher(ray, actors, store, progress).compute(shards)
        except ray.exceptions.RayError as error:
            raise EngineError(f"a Ray worker could not do its work: {_reason(error)}") from error


class EngineError(FFBlockError, RuntimeError):
    """Workers cannot be started, or keep dying."""


def _reason(error: Exception) -> str:
    """The last line of what happened on the worker."""
    return next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__).strip()


class _Dispatcher:
    """Hands shards to actors and knows which is where."""

    def __init__(self, ray: Any, actors: list[Any], store: Store, progress: Progress) -> None:
        self.ray = ray
        self.actors = actors
        self.store = store
        self.progress = progress
        self.load = [0] * len(actors)
        self.running: dict[Any, tuple[int, int, int, AbstractContextManager[bool]]] = {}
        """Future -> shard, actor, sequences, claim."""
        self.written: set[int] = set()
        self.failed: dict[int, str] = {}

    def compute(self, shards: Shards) -> dict[int, str]:
        missing = set(shards.numbers) - self.store.done()
        try:
            while missing:
                for shard, texts in shards.texts(missing):
                    while min(self.load) >= SHARDS_A_WORKER_HOLDS:
                        self._collect()
                    self._submit(shard, texts)
                if not self.running:
                    time.sleep(SECONDS_BETWEEN_LOOKS)  # others hold what is missing
                while self.running:
                    self._collect()
                done = self.store.done()
                self.progress.step(sum(shards.size(shard) for shard in missing & done - self.written))
                missing -= done | set(self.failed)
        finally:
            for *_, claim in self.running.values():
                claim.__exit__(None, None, None)
        return self.failed

    def _submit(self, shard: int, texts: list[CorpusText]) -> None:
        claim = self.store.claim(shard)
        if not claim.__enter__():
            claim.__exit__(None, None, None)
            return
        actor = self.load.index(min(self.load))
        self.load[actor] += 1
        future = self.actors[actor].compute.remote(texts)
        self.running[future] = (shard, actor, len(texts), claim)

    def _collect(self) -> None:
        """Write one finished shard."""
        (future, *_), _ = self.ray.wait(list(self.running), num_returns=1)
        shard, actor, sequences, claim = self.running.pop(future)
        self.load[actor] -= 1
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
        finally:
            claim.__exit__(None, None, None)
