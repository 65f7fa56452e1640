"""Time and memory by length of the input (Fig. 12).

The tokens of each sequence, repeated if it is too short, are cut to the lengths of the options. `forward`, `maps` and `captum`
are seconds of wall-clock time: the model alone, all scopes of all layers, and the same by quadrature (short inputs only).
`per_pair` is the time of the maps divided by the number of layers and of token pairs. `peak_mb` is the peak memory of the
process so far, in MiB. The table also has the model's sizes, so that tables of several runs can be joined.
"""

import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd
import torch

from tl_ffblock.bridge.inputs import forward, prepare
from tl_ffblock.contributions import contribution_maps
from tl_ffblock.corpus.study import Figures, Moments, MomentsStudy, Observation, Options, ShardArrays, Tables
from tl_ffblock.errors import InputError
from tl_ffblock.results import figures as draw

TIMED = ("forward", "maps", "captum")


@dataclass(frozen=True)
class CostOptions(Options):
    """Lengths to measure."""

    least: ClassVar[Mapping[str, int]] = {"captum_length": 0}

    lengths: tuple[int, ...] = (8, 16, 32, 64, 128)
    """Lengths measured by cost, in tokens."""
    captum_length: int = 16
    """Longest input for which cost also runs captum; 0 skips it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.lengths or min(self.lengths) < 1:
            raise InputError(f"lengths={self.lengths!r}: expected positive numbers of tokens.")


class Cost(MomentsStudy):
    """Time and memory of maps."""

    name = "cost"
    title = "Time and memory by length"
    repeats = "appendix F, Fig. 12"
    captions: ClassVar[Mapping[str, str]] = {
        "time": f"Seconds by length of the input, {draw.scatter_words('sequences')}."
    }
    options: CostOptions

    def measure(self, observed: Observation) -> dict[str, Moments]:
        longest = observed.model.longest_input or max(self.options.lengths)
        seconds = np.full((len(self.options.lengths), len(TIMED)), np.nan)
        memory = np.full(len(self.options.lengths), np.nan)
        ids = observed.tokens.repeat(-(-max(self.options.lengths) // len(observed.tokens)))
        contribution_maps(observed.model, ids[:2])  # head products are not timed
        for row, length in enumerate(self.options.lengths):
            if length > longest:
                continue
            batch = prepare(observed.model, ids[:length], None)[0]
            seconds[row, 0] = _timed(partial(forward, observed.model, batch))
            seconds[row, 1] = _timed(partial(contribution_maps, observed.model, batch.tokens[0]))
            memory[row] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
            if length <= self.options.captum_length:
                seconds[row, 2] = _timed(partial(contribution_maps, observed.model, batch.tokens[0], method="captum"))
        size = np.array(observed.model.sizes, dtype=np.float64)
        measured = {"seconds": seconds, "memory": memory, "size": size}
        return {name: Moments.of(values[None]) for name, values in measured.items()}

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        seconds, memory = self.moments(shards, "seconds"), self.moments(shards, "memory")
        d_model, d_mlp, heads, parameters = (int(value) for value in self.moments(shards, "size").mean)
        lengths = np.array(self.options.lengths)
        pairs = lengths * (lengths + 1) / 2 if self.facts.causal else lengths**2
        columns = dict(
            tokens=lengths,
            **dict(zip(TIMED, seconds.value.T, strict=True)),
            **{f"{name}_deviation": scatter for name, scatter in zip(TIMED, seconds.deviation.T, strict=True)},
            per_pair=seconds.value[:, TIMED.index("maps")] / (pairs * self.facts.n_layers),
            peak_mb=memory.value,
            sequences=seconds.count[:, TIMED.index("maps")],
            layers=self.facts.n_layers,
            d_model=d_model,
            d_mlp=d_mlp,
            heads=heads,
            parameters=parameters,
        )
        return {"time": pd.DataFrame(columns)}

    def sentences(self, tables: Tables) -> tuple[str, ...]:
        longest = tables["time"].dropna(subset="maps").iloc[-1:]
        return tuple(
            f"At {tokens} tokens all maps take {maps:.2f} s, {maps / forward:.1f} times the model alone."
            for tokens, maps, forward in longest[["tokens", "maps", "forward"]].itertuples(index=False)
        )

    def figures(self, tables: Tables) -> Figures:
        table = tables["time"]
        labels = {"forward": "model alone", "maps": "maps, exact", "captum": "maps, captum"}
        known = {timed: rows for timed in labels if len(rows := table.dropna(subset=timed))}
        lines = {labels[t]: draw.Spread.of(rows, t, deviation=f"{t}_deviation") for t, rows in known.items()}
        x = {labels[timed]: rows["tokens"].to_numpy() for timed, rows in known.items()}
        figure = draw.layer_lines(lines, ylabel="seconds", xlabel="tokens", x=x)
        means = np.concatenate([line.mean for line in lines.values()])
        figure.axes[0].set_xscale("log", base=2)
        figure.axes[0].set_yscale("log")
        figure.axes[0].set_ylim(means.min() / 1.5, means.max() * 1.5)
        return {"time": figure}


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    with torch.no_grad():
        work()
    return time.perf_counter() - start
