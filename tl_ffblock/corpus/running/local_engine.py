"""The local engine: this process computes every shard that no other process on the folder is at."""

import time

from tl_ffblock.corpus.running.shards import Plan
from tl_ffblock.corpus.running.store import Store
from tl_ffblock.corpus.running.worker import OF_THE_MACHINE, Worker
from tl_ffblock.progress import Progress

PATIENCE = 0.5
"""Seconds between looks at shards that another process holds."""


def run_local(worker: Worker, plan: Plan, store: Store, progress: Progress) -> dict[int, str]:
    """Compute what is missing; returns the shards that could not be, with the reason."""
    failed: dict[int, str] = {}
    missing = set(range(plan.n_shards)) - store.done()
    while missing:
        held = 0
        for shard, sequences in plan.shards(missing):
            with store.claim(shard) as mine:
                if not mine:
                    held += 1
                    continue
                try:
                    store.write(shard, *worker.compute(sequences, progress.step))
                except OF_THE_MACHINE as error:
                    failed[shard] = f"{type(error).__name__}: {error}"
        missing -= store.done() | set(failed)
        if held and missing:
            time.sleep(PATIENCE)
    return failed
