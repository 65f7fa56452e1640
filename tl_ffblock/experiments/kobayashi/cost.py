"""Time and memory against the length of the input (Fig. 12).

The tokens of each sequence, repeated where it is too short, are cut to the lengths of the config. `seconds`
are wall-clock: `forward` the model alone, `maps` all scopes of all layers, `captum` the same by quadrature
(short inputs only). `per_pair` divides the maps' time by layers and pairs of tokens. Sizes of the model stand
beside them, so that tables of several runs can be joined.
"""

import resource
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from tl_ffblock.bridge.inputs import forward, prepare
from tl_ffblock.contributions import contribution_maps
from tl_ffblock.corpus.observation import Observation
from tl_ffblock.corpus.statistics.moments import Moments
from tl_ffblock.corpus.study import Figures, MomentsExperiment, Tables
from tl_ffblock.results import figures as draw

WHAT = ("forward", "maps", "captum")


class Cost(MomentsExperiment):
    """What maps cost."""

    name = "cost"
    timed = True

    def measure(self, seen: Observation) -> dict[str, Moments]:
        n_ctx = getattr(seen.model.hooked.cfg, "n_ctx", None) or max(self.config.lengths)
        seconds = np.full((len(self.config.lengths), len(WHAT)), np.nan)
        memory = np.full(len(self.config.lengths), np.nan)
        ids = seen.tokens.repeat(-(-max(self.config.lengths) // len(seen.tokens)))
        contribution_maps(seen.model.hooked, ids[:2])  # makes the head products once, which is not the input's cost
        for place, length in enumerate(self.config.lengths):
            if length > n_ctx:
                continue
            batch = prepare(seen.model, ids[:length], None)[0]
            seconds[place, 0] = _timed(lambda batch=batch: forward(seen.model, batch))
            seconds[place, 1] = _timed(lambda batch=batch: contribution_maps(seen.model.hooked, batch.tokens[0]))
            memory[place] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
            if length <= self.config.captum_length:
                seconds[place, 2] = _timed(
                    lambda batch=batch: contribution_maps(seen.model.hooked, batch.tokens[0], method="captum")
                )
        cfg = seen.model.hooked.cfg
        parameters = sum(p.numel() for p in seen.model.hooked.parameters())
        size = np.array([cfg.d_model, cfg.d_mlp, cfg.n_heads, parameters], dtype=np.float64)
        return {
            "seconds": Moments.of(seconds[None]),
            "memory": Moments.of(memory[None]),
            "size": Moments.of(size[None]),
        }

    def tables(self, shards: Sequence[Any]) -> Tables:
        seconds, memory = self.moments(shards, "seconds"), self.moments(shards, "memory")
        d_model, d_mlp, heads, parameters = (int(value) for value in self.moments(shards, "size").mean)
        rows = []
        for place, length in enumerate(self.config.lengths):
            pairs = length * (length + 1) / 2 if self.subject.causal else length**2
            values = dict(zip(WHAT, seconds.value[place].tolist(), strict=True))
            rows.append(
                dict(
                    tokens=length,
                    **values,
                    per_pair=values["maps"] / (pairs * self.subject.n_layers),
                    peak_mb=memory.value[place],
                    sequences=int(seconds.count[place, 1]),
                    layers=self.subject.n_layers,
                    d_model=d_model,
                    d_mlp=d_mlp,
                    heads=heads,
                    parameters=parameters,
                )
            )
        return {"time": pd.DataFrame(rows)}

    def figures(self, tables: Tables) -> Figures:
        table = tables["time"]
        labels = {"forward": "model alone", "maps": "maps, exact", "captum": "maps, captum"}
        known = {label: table[["tokens", what]].dropna() for what, label in labels.items()}
        known = {label: rows for label, rows in known.items() if len(rows)}
        lines = {label: rows.iloc[:, 1].to_numpy() for label, rows in known.items()}
        x = {label: rows["tokens"].to_numpy() for label, rows in known.items()}
        figure = draw.layer_lines(lines, ylabel="seconds", xlabel="tokens", x=x)
        figure.axes[0].set_xscale("log", base=2)
        figure.axes[0].set_yscale("log")
        return {"time": figure}


def _timed(work: Any) -> float:
    start = time.perf_counter()
    with torch.no_grad():
        work()
    return time.perf_counter() - start
