"""What every experiment does: measure one sequence, sum up a shard, merge shards into tables and figures."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd

from tl_ffblock.corpus.observation import Observation
from tl_ffblock.corpus.running.settings import Config
from tl_ffblock.corpus.running.store import Shard
from tl_ffblock.corpus.statistics.moments import Moments, merged
from tl_ffblock.layer.scopes import STEPS, Order, Step

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Arrays: TypeAlias = dict[str, np.ndarray]
Tables: TypeAlias = dict[str, pd.DataFrame]
Figures: TypeAlias = "dict[str, Figure]"


@dataclass(frozen=True)
class Subject:
    """The model of a run, as far as tables need it."""

    name: str
    order: Order
    causal: bool
    n_layers: int
    label: Callable[[int], str]
    """A token id as text."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of a layer that change a map."""
        return tuple(step for step in STEPS[self.order] if step.before is not None)

    @property
    def feed_forward(self) -> Step:
        """The step of the feed-forward that starts from a map."""
        return next(step for step in self.steps if step.component == "FF")


class Experiment(ABC):
    """One experiment of one run."""

    name: ClassVar[str]
    records: ClassVar[bool] = False
    """Whether it reads the model's own vectors."""
    timed: ClassVar[bool] = False
    """Whether it measures time, so that two runs differ."""

    def __init__(self, config: Config, subject: Subject) -> None:
        self.config = config
        self.subject = subject

    def scopes(self) -> tuple[str, ...]:
        """Scopes whose maps it reads."""
        return ()

    @abstractmethod
    def measure(self, seen: Observation) -> Any:
        """What one sequence gives; leaves no trace, since another experiment may fail on the sequence."""

    @abstractmethod
    def summarise(self, measured: Sequence[Any]) -> Arrays:
        """What a shard keeps of its sequences (at least one)."""

    @abstractmethod
    def tables(self, shards: Sequence[Mapping[str, np.ndarray] | Shard]) -> Tables:
        """All shards, in order, merged; arrays are named `experiment/array`."""

    @abstractmethod
    def figures(self, tables: Tables) -> "Figures":
        """Pictures of the tables."""

    def array(self, name: str) -> str:
        """An array's name in a shard."""
        return f"{self.name}/{name}"


class MomentsExperiment(Experiment):
    """An experiment whose sequences give moments by name."""

    @abstractmethod
    def measure(self, seen: Observation) -> dict[str, Moments]: ...

    def summarise(self, measured: Sequence[dict[str, Moments]]) -> Arrays:
        """The moments of all sequences, merged."""
        arrays: Arrays = {}
        for name in measured[0]:
            arrays |= merged(one[name] for one in measured).arrays(self.array(name))
        return arrays

    def moments(self, shards: Sequence[Any], name: str) -> Moments:
        """One name's moments over all shards."""
        return merged(Moments.read(shard, self.array(name)) for shard in shards)
