"""The Ray engine: shards mapped over actors that each hold the model; the driver alone writes.

An actor that dies is started again, here or on another node, and its shard is computed again: a shard's
numbers depend on its sequences only, so the result does not change.
"""

import os
import time
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from tl_ffblock.bridge.loading import load_model
from tl_ffblock.corpus.running.fingerprint import weights_digest
from tl_ffblock.corpus.running.local_engine import PATIENCE
from tl_ffblock.corpus.running.settings import Config
from tl_ffblock.corpus.running.shards import Plan
from tl_ffblock.corpus.running.store import Store
from tl_ffblock.corpus.running.worker import OF_THE_MACHINE, Worker
from tl_ffblock.corpus.texts.texts import Sequence
from tl_ffblock.errors import FFBlockError, ModelLoadError
from tl_ffblock.progress import Progress

LIVES = 20
"""How often a worker may die and a shard be tried again before the run gives up."""
QUEUED = 2
"""Shards a worker holds at a time: one in work, one waiting."""


class RemoteWorker:
    """A worker on some node of the cluster."""

    def __init__(self, config: Config, digest: str) -> None:
        self._worker = Worker(config, load_model(config.model, device=config.device))
        found = weights_digest(self._worker.model)
        if found != digest:
            raise ModelLoadError(
                f"the model {config.model} has other weights on this node: {found[:12]}…, not {digest[:12]}…."
            )

    def compute(self, sequences: list[Sequence]) -> tuple[Any, Any, str | None]:
        """Arrays and metadata of a shard, or why there are none."""
        try:
            return (*self._worker.compute(sequences), None)
        except OF_THE_MACHINE as error:
            return None, None, f"{type(error).__name__}: {error}"


def run_ray(config: Config, digest: str, plan: Plan, store: Store, progress: Progress) -> dict[int, str]:
    """Compute what is missing; returns the shards that could not be, with the reason."""
    import ray

    with ExitStack() as stack:
        if not ray.is_initialized():
            cluster = config.ray_address or os.environ.get("RAY_ADDRESS")
            own: dict[str, Any] = dict(num_cpus=config.workers * config.threads, include_dashboard=False)
            ray.init(
                address=cluster or "local",  # None would join whatever cluster runs on this machine
                log_to_driver=False,
                logging_level="ERROR",
                **({} if cluster else own),
            )
            stack.callback(ray.shutdown)
        options = dict(num_cpus=config.threads, num_gpus=int(config.device.startswith("cuda")))
        actor = ray.remote(**options, max_restarts=LIVES, max_task_retries=LIVES)(RemoteWorker)
        actors = [actor.remote(config, digest) for _ in range(config.workers)]
        for one in actors:
            stack.callback(ray.kill, one)
        try:
            return _Mapping(ray, actors, store, progress).run(plan)
        except ray.exceptions.RayError as error:
            raise EngineError(f"a Ray worker could not do its work: {_reason(error)}") from error


class EngineError(FFBlockError, RuntimeError):
    """Workers cannot be started, or keep dying."""


def _reason(error: Exception) -> str:
    """The last line of what happened on the worker."""
    return next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__).strip()


class _Mapping:
    """Which shard is where."""

    def __init__(self, ray: Any, actors: list[Any], store: Store, progress: Progress) -> None:
        self.ray = ray
        self.actors = actors
        self.store = store
        self.progress = progress
        self.load = [0] * len(actors)
        self.running: dict[Any, tuple[int, int, int, AbstractContextManager[bool]]] = {}
        """Future -> shard, actor, sequences, claim."""
        self.failed: dict[int, str] = {}

    def run(self, plan: Plan) -> dict[int, str]:
        missing = set(range(plan.n_shards)) - self.store.done()
        try:
            while missing:
                for shard, sequences in plan.shards(missing):
                    while min(self.load) >= QUEUED:
                        self._collect()
                    self._submit(shard, sequences)
                if not self.running:
                    time.sleep(PATIENCE)  # others hold what is missing
                while self.running:
                    self._collect()
                missing -= self.store.done() | set(self.failed)
        finally:
            for *_, claim in self.running.values():
                claim.__exit__(None, None, None)
        return self.failed

    def _submit(self, shard: int, sequences: list[Sequence]) -> None:
        claim = self.store.claim(shard)
        if not claim.__enter__():
            claim.__exit__(None, None, None)
            return
        actor = self.load.index(min(self.load))
        self.load[actor] += 1
        future = self.actors[actor].compute.remote(sequences)
        self.running[future] = (shard, actor, len(sequences), claim)

    def _collect(self) -> None:
        """Write one finished shard."""
        (future, *_), _ = self.ray.wait(list(self.running), num_returns=1)
        shard, actor, sequences, claim = self.running.pop(future)
        self.load[actor] -= 1
        try:
            arrays, meta, why = self.ray.get(future)
            if why is None:
                self.store.write(shard, arrays, meta)
                self.progress.step(sequences)
            else:
                self.failed[shard] = why
        except OSError as error:
            self.failed[shard] = f"{type(error).__name__}: {error}"
        finally:
            claim.__exit__(None, None, None)
