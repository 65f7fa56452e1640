"""The local engine: this process computes every shard that no other process on the folder is at."""

import time

from tl_ffblock.corpus.running.shards import Shards
from tl_ffblock.corpus.running.store import Store
from tl_ffblock.corpus.running.worker import MACHINE_ERRORS, Worker
from tl_ffblock.progress import Progress

SECONDS_BETWEEN_LOOKS = 0.5
"""How long to wait for shards that another process holds."""


def run_local(worker: Worker, shards: Shards, store: Store, progress: Progress) -> dict[int, str]:
    """Compute what is missing; returns the shards that could not be, with the reason.

    Args:
        worker: The model and the studies.
        shards: The corpus.
        store: Where finished shards go.
        progress: Told of every sequence measured.
    """
    failed: dict[int, str] = {}
    computed: set[int] = set()
    missing = set(shards.numbers) - store.done()
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
