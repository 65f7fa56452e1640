"""Runs studies in forked processes and ends them at random moments; the last one may finish.

    python killed.py KILLS SEED STUDIES CONFIG.json [SIGNALS]

The model is loaded once, before the forks, so that the kills fall into the work and not into imports. A moment is
a number of files that the process has added to its folder and some milliseconds after: a thread of the process
itself waits for it and sends the next of SIGNALS (KILL; several with commas), so that it is no matter of the machine's speed.
Every other kill waits for a shard first; the last quarter waits for all, and so falls into the writing of tables and figures.
"FULL" among SIGNALS is a disk that is full from such a moment on: nothing more can be flushed, and the process ends by itself.
Prints what ended each process that did not finish, and how many shards it left.
"""

import errno
import json
import os
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

from tl_ffblock import load_model
from tl_ffblock.corpus.shards import cut_into_shards
from tl_ffblock.experiments import Config, run_studies

FULL = "FULL"
UNFINISHED = 1
"""The status of a process whose disk is full."""


def files(folder: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))


def shards(folder: Path) -> int:
    return len(list(folder.glob("shards/shard-*")))


def fill_the_disk() -> None:
    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    os.fsync = fsync


def at(moment: tuple[int, int, float], folder: Path, what: Callable[[], None]) -> None:
    """Do something once there are some more files and so many shards, and a time after it."""
    more_files, some_shards, delay = moment
    start = files(folder)
    while files(folder) < start + more_files or shards(folder) < some_shards:
        time.sleep(0.001)
    time.sleep(delay)
    what()


def main(kills: int, seed: int, studies: str, fields: dict[str, object], signals: list[str]) -> int:
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    config = Config(**fields)  # type: ignore[arg-type]
    model, n_shards = load_model(config.model), len(cut_into_shards(config).numbers)
    draw, folder = random.Random(seed), Path(config.out)

    def child(word: str = "", moment: tuple[int, int, float] = (0, 0, 0.0)) -> int:
        """The status of a process that runs; with a word it is ended at a moment."""
        process = os.fork()
        if process:
            return os.waitpid(process, 0)[1]
        try:
            if word:
                what = fill_the_disk if word == FULL else lambda: os.kill(os.getpid(), getattr(signal, f"SIG{word}"))
                threading.Thread(target=at, args=(moment, folder, what), daemon=True).start()
            os._exit(run_studies(studies, config, model=model).status)
        except (KeyboardInterrupt, SystemExit):  # as of SIGINT, and of SIGTERM by Ray: let the signal end the process
            ends = getattr(signal, f"SIG{word}")
            signal.signal(ends, signal.SIG_DFL)
            os.kill(os.getpid(), ends)
        except OSError as error:
            os._exit(UNFINISHED if error.errno == errno.ENOSPC else 98)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(99)
        return 97

    left = []
    for number in range(kills):
        late, word = number >= 3 * kills // 4, signals[number % len(signals)]
        moment = (0, n_shards, draw.uniform(0, 0.5)) if late else (draw.randrange(4), 0, draw.uniform(0, 0.02))
        status = child(word, moment)
        ended = FULL if os.WIFEXITED(status) else signal.Signals(os.WTERMSIG(status)).name.removeprefix("SIG")
        if status and ended != word:
            raise RuntimeError(f"{word} ended a process with status {status}")
        if status:
            left.append([ended, shards(folder)])
    print(json.dumps(left))
    return os.waitstatus_to_exitcode(child())


if __name__ == "__main__":
    words = (sys.argv[5:] or ["KILL"])[0].split(",")
    raise SystemExit(
        main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.loads(Path(sys.argv[4]).read_text()), words)
    )
