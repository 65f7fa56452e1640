"""Runs studies in forked processes and kills them at random moments; the last one may finish.

    python killed.py KILLS SEED STUDIES CONFIG.json

The model is loaded once, before the forks, so that the kills fall into the work and not into imports. A moment is
a number of files that the process has added to its folder and some milliseconds after: a thread of the process
itself waits for it and sends SIGKILL, so that it is no matter of the machine's speed. Every other kill waits for
a shard first; the last quarter waits for all, and so falls into the writing of tables and figures.
Prints for each process that was killed how many shards it left.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import torch

from tl_ffblock import load_model
from tl_ffblock.corpus.shards import cut_into_shards
from tl_ffblock.experiments import Config, run_studies


def files(folder: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))


def shards(folder: Path) -> int:
    return len(list(folder.glob("shards/shard-*")))


def kill_at(folder: Path, more_files: int, some_shards: int, delay: float) -> None:
    start = files(folder)
    while files(folder) < start + more_files or shards(folder) < some_shards:
        time.sleep(0.001)
    time.sleep(delay)
    os.kill(os.getpid(), signal.SIGKILL)


def main(kills: int, seed: int, studies: str, fields: dict[str, object]) -> int:
    torch.set_num_threads(1)
    config = Config(**fields)  # type: ignore[arg-type]
    model, n_shards = load_model(config.model), len(cut_into_shards(config).numbers)
    draw, folder = random.Random(seed), Path(config.out)

    def child(*moment: float) -> int:
        """The status of a process that runs, and is killed if a moment is given."""
        process = os.fork()
        if process:
            return os.waitpid(process, 0)[1]
        try:
            if moment:
                threading.Thread(target=kill_at, args=(folder, *moment), daemon=True).start()
            os._exit(run_studies(studies, config, model=model).status)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(99)

    left = []
    for number in range(kills):
        late = number >= 3 * kills // 4
        status = (
            child(0, n_shards, draw.uniform(0, 0.5)) if late else child(draw.randrange(4), 0, draw.uniform(0, 0.02))
        )
        if os.WIFSIGNALED(status):
            left.append(shards(folder))
    print(json.dumps(left))
    return os.waitstatus_to_exitcode(child())


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.loads(Path(sys.argv[4]).read_text())))
