"""What every study does: measure one sequence, sum up a shard, merge shards into tables and figures.

A study is a class and, beside it in the same file, a frozen dataclass of its options. A run is handed `StudySpec`s:
where the class is, and options. Such a spec travels to other machines, where the study is built once more.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd
import torch

from tl_ffblock.bridge.model import Model
from tl_ffblock.contributions import contribution_maps
from tl_ffblock.corpus.observation import Observation
from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.statistics.arrays import ShardArrays
from tl_ffblock.corpus.statistics.moments import Moments, merged
from tl_ffblock.corpus.texts.tokenised import PAPER_MASKED, TokenisedText
from tl_ffblock.errors import UnsupportedModelError
from tl_ffblock.layer.scopes import STEPS, Order, Step

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Arrays: TypeAlias = dict[str, np.ndarray]
Tables: TypeAlias = dict[str, pd.DataFrame]
Figures: TypeAlias = "dict[str, Figure]"
PageWriter: TypeAlias = Callable[[Model, TokenisedText, Path], None]
"""Writes a page about one sequence to a file."""

EXAMPLE_TOKENS = 32
"""Tokens of an example at most: what the page draws fast and a reader takes in."""


@dataclass(frozen=True)
class ModelFacts:
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
        for step in self.steps:
            if step.component == "FF":
                return step
        raise UnsupportedModelError(f"a {self.order} model has no feed-forward block, which this study is about.")


def write_maps(model: Model, tokenised: TokenisedText, file: Path) -> None:
    """Write the page of the maps of a sequence's first tokens."""
    maps: Any = contribution_maps(model, torch.as_tensor(tokenised.ids[:EXAMPLE_TOKENS]))
    maps.to_html(file)


class Study(ABC):
    """One study of one run."""

    name: ClassVar[str]
    """What it is called on the command line and in the names of its tables."""
    title: ClassVar[str]
    """What it is about, in words for the head of a report."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages it needs beyond those that every run needs; asked for before the work."""
    reads_head: ClassVar[bool] = False
    """Whether its numbers depend on modules behind the last layer, such as the unembedding."""
    masked: ClassVar[float] = PAPER_MASKED
    """Share of the tokens that a masked language model reads as mask tokens, where the config does not say."""
    captions: ClassVar[Mapping[str, str]] = {}
    """What a figure shows, by its name."""
    pages: ClassVar[Mapping[str, PageWriter]] = {"maps": write_maps}
    """Pages made of the first sequences, by the folder they go to; studies that share a kind of page share its files."""
    options: object
    """An instance of its dataclass of options; None for a study without any."""

    def __init__(self, config: Config, facts: ModelFacts, options: object = None) -> None:
        self.config = config
        self.facts = facts
        self.options = options

    def scopes(self) -> tuple[str, ...]:
        """Name the scopes whose maps it reads."""
        return ()

    @abstractmethod
    def measure(self, observed: Observation) -> Any:
        """Give what one sequence adds; leave no trace, since another study may fail on the sequence."""

    @abstractmethod
    def summarise(self, measured: Sequence[Any]) -> Arrays:
        """Give what a shard keeps of its sequences (at least one)."""

    @abstractmethod
    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        """Merge all shards, in order; their arrays are named `study/array`."""

    @abstractmethod
    def figures(self, tables: Tables) -> "Figures":
        """Draw the tables."""

    def sentences(self, tables: Tables) -> tuple[str, ...]:
        """Say the result in a sentence or two, with figures from the tables."""
        return ()

    def overview(self, tables: Tables) -> Tables:
        """Give small tables, a row a layer, for a reader of the report; the tables themselves hold everything."""
        return {}

    def array(self, name: str) -> str:
        """Give an array's name in a shard."""
        return f"{self.name}/{name}"


class MomentsStudy(Study):
    """A study whose sequences give moments by name."""

    @abstractmethod
    def measure(self, observed: Observation) -> dict[str, Moments]: ...

    def summarise(self, measured: Sequence[dict[str, Moments]]) -> Arrays:
        """Merge the moments of all sequences."""
        arrays: Arrays = {}
        for name in measured[0]:
            arrays |= merged(moments[name] for moments in measured).arrays(self.array(name))
        return arrays

    def moments(self, shards: Sequence[ShardArrays], name: str) -> Moments:
        """Merge one name's moments over all shards."""
        return merged(Moments.read(shard, self.array(name)) for shard in shards)


@dataclass(frozen=True)
class StudySpec:
    """A study that is to be run."""

    home: str
    """Its class, as `module:Class`."""
    options: object = None

    @property
    def study_class(self) -> type[Study]:
        """The class, imported from its home."""
        module, _, name = self.home.partition(":")
        return getattr(import_module(module), name)

    def build(self, config: Config, facts: ModelFacts) -> Study:
        """Make the study for a run on a model."""
        return self.study_class(config, facts, self.options)

    def fingerprint(self) -> dict[str, Any]:
        """Give what its numbers depend on, by name."""
        name = self.study_class.name
        return {f"{name}": self.home} | {f"{name}.{field}": value for field, value in self.settings().items()}

    def settings(self) -> dict[str, Any]:
        """Give the options by name."""
        return asdict(self.options) if is_dataclass(self.options) and not isinstance(self.options, type) else {}
