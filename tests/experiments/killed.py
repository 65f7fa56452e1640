"""Runs an experiment in forked processes and kills them at random moments; the last one may finish.

    python killed.py KILLS SEED CONFIG.json

The model is loaded once, before the forks, so that the kills fall into the work and not into imports.
Prints how many of the killed processes left shards or files behind.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch


def main(kills: int, seed: int, fields: dict[str, object]) -> int:
    from tl_ffblock import load_model
    from tl_ffblock.experiments import Config, run

    torch.set_num_threads(1)
    config = Config(**fields)  # type: ignore[arg-type]
    model = load_model(config.model)
    draw, folder = random.Random(seed), Path(config.out)

    def child() -> int:
        process = os.fork()
        if process == 0:
            try:
                os._exit(run(config, model=model).status)
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(99)
        return process

    unfinished = 0
    for _ in range(kills):
        process = child()
        time.sleep(draw.uniform(0.01, 0.5))
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        unfinished += os.WIFSIGNALED(status) and not (folder / "summary.json").exists()
    _, status = os.waitpid(child(), 0)
    print(unfinished)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), int(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text())))
