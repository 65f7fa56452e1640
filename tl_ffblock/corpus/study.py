"""What every study does: measure one sequence, sum up a shard, merge shards into tables and figures.

A study is a class and, beside it in the same file, a frozen dataclass of its options. A run is given `StudySpec`s: where the
class is, and options. Such a spec travels to other machines, where the study is built once more. The model runs when a
study first asks for maps or vectors, once for a batch; what it gave serves every study of the run.
"""

import hashlib
import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, get_type_hints

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from tl_ffblock.bridge.inputs import Batch, label, padded
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.runs import run_of_batches
from tl_ffblock.contributions import MapTables, contribution_maps
from tl_ffblock.corpus.settings import Config, Options, imported
from tl_ffblock.corpus.statistics import Moments, ShardArrays, merged
from tl_ffblock.corpus.tokenised import PAPER_MASKED, TokenisedText
from tl_ffblock.errors import CallError, InputError, UnsupportedModelError, did_you_mean
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import STEPS, Order, Step
from tl_ffblock.results.maps import ContributionMaps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Arrays",
    "Config",
    "Figures",
    "ModelFacts",
    "Moments",
    "MomentsStudy",
    "Observation",
    "Options",
    "ShardArrays",
    "Study",
    "StudySpec",
    "Tables",
]

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

    @classmethod
    def of(cls, model: Model) -> "ModelFacts":
        """Read them from a model."""
        return cls(
            name=model.name,
            order=model.family.order,
            causal=model.family.causal,
            n_layers=model.n_layers,
            label=lambda token: label(model, torch.tensor([token]))[0],
        )

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


class ObservedBatch:
    """Sequences that run through the model together, when their maps or records are first asked for.

    Args:
        model: What runs.
        batch: Their tokens.
        scopes: Of maps that may be asked for.
    """

    def __init__(self, model: Model, batch: Batch, scopes: tuple[str, ...]) -> None:
        self._scopes = scopes
        self._run = run_of_batches(model, [replace(batch, numbers=tuple(range(len(batch.tokens))))])

    @cached_property
    def _layers(self) -> list[Mapping[int, LayerRecord]]:
        """Every layer of the batch; a sequence's is cut out when it is asked for."""
        layers: list[Mapping[int, LayerRecord]] = []
        self._run.deliver(layers.append)
        return layers

    @cached_property
    def records(self) -> list[tuple[LayerRecord, ...]]:
        """Every layer of each sequence, without padding."""
        return list(zip(*(layer.values() for layer in self._layers), strict=True))

    @cached_property
    def maps(self) -> list[ContributionMaps]:
        """Of each sequence, at the scopes that the run's studies ask for."""
        tables = MapTables(self._run, self._scopes)
        with torch.no_grad():
            for layer in self._layers:
                tables(layer)
        return tables.results()


@dataclass(frozen=True)
class Observation:
    """One sequence of a run, as a study sees it: tokens, maps, and the model's own vectors."""

    model: Model
    tokenised: TokenisedText
    batch: ObservedBatch
    index: int
    """Place in the batch."""

    @property
    def tokens(self) -> Int[Tensor, " pos"]:
        """What the model reads."""
        return self.tokenised.tensor

    @property
    def maps(self) -> ContributionMaps:
        """Of the scopes that the run's studies ask for."""
        return self.batch.maps[self.index]

    @property
    def records(self) -> tuple[LayerRecord, ...]:
        """Every layer, this sequence alone."""
        return self.batch.records[self.index]


def observe(
    model: Model, texts: Sequence[TokenisedText], scopes: tuple[str, ...], batch: Batch | None = None
) -> Iterator[Observation]:
    """Observe a batch, sequence by sequence.

    Args:
        model: What runs.
        texts: The sequences.
        scopes: Those of the maps that may be asked for.
        batch: Their tokens as they run; None pads them.
    """
    given = padded(model, [tokenised.tensor for tokenised in texts]) if batch is None else batch
    observed = ObservedBatch(model, given, scopes)
    return (Observation(model, tokenised, observed, index) for index, tokenised in enumerate(texts))


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
    alone: ClassVar[bool] = False
    """Whether texts run one by one by default: a study that ranks positions needs the same numbers, to the bit, of the same prefix."""
    reads_head: ClassVar[bool] = False
    """Whether its numbers depend on modules after the last layer, such as the unembedding."""
    masked: ClassVar[float] = PAPER_MASKED
    """Share of the tokens that a masked language model reads as mask tokens, where the config does not say."""
    captions: ClassVar[Mapping[str, str]] = {}
    """What a figure shows, by its name."""
    pages: ClassVar[Mapping[str, PageWriter]] = {"maps": write_maps}
    """Pages made of the first sequences, by the folder they go to; studies that share a kind of page share its files."""
    options: Any
    """An instance of its dataclass of options, which a study annotates here; None for a study without any."""

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
        """Give what a shard keeps of its sequences (at least one), named by `array`."""

    @abstractmethod
    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        """Merge all shards, in order; their arrays are named `study/array`."""

    def figures(self, tables: Tables) -> Figures:
        """Draw the tables."""
        return {}

    def sentences(self, tables: Tables) -> tuple[str, ...]:
        """Say the result in a sentence or two, with figures from the tables."""
        return ()

    def overview(self, tables: Tables) -> Tables:
        """Give small tables, one row per layer, for a reader of the report; the tables themselves hold everything."""
        return {}

    def array(self, name: str) -> str:
        """Give an array's name in a shard."""
        return f"{self.name}/{name}"

    def moments(self, shards: Sequence[ShardArrays], name: str) -> Moments:
        """Merge one name's moments over all shards."""
        return merged(Moments.read(shard, self.array(f"{name}.")) for shard in shards)


class MomentsStudy(Study):
    """A study whose sequences give moments by name."""

    @abstractmethod
    def measure(self, observed: Observation) -> dict[str, Moments]: ...

    def summarise(self, measured: Sequence[dict[str, Moments]]) -> Arrays:
        """Merge the moments of all sequences."""
        arrays: Arrays = {}
        for name in measured[0]:
            arrays |= merged(moments[name] for moments in measured).arrays(self.array(f"{name}."))
        return arrays


def table_over(axes: Mapping[str, Sequence[object]], columns: Mapping[str, Shaped[np.ndarray, "..."]]) -> pd.DataFrame:
    """One row per combination of the axes' values, the last axis fastest; every column is an array over the axes."""
    rows = pd.MultiIndex.from_product(axes.values(), names=axes).to_frame(index=False)
    return rows.assign(**{name: np.ravel(values) for name, values in columns.items()})


@dataclass(frozen=True)
class StudySpec:
    """A study that is to be run."""

    home: str
    """Its class, as `module:Class`."""
    options: Any = None

    @classmethod
    def of(cls, home: str, **options: Any) -> "StudySpec":
        """Import a study's class and set its options.

        Raises:
            InputError: if there is no such study or option, or a value that the option does not take.
        """
        study_class = cls(home).study_class
        made_of = get_type_hints(study_class)["options"]
        known = [] if made_of is Any else list(inspect.signature(made_of).parameters)
        unknown = [option for option in options if option not in known]
        if unknown:
            raise CallError(
                f"{study_class.name} has no option {', '.join(unknown)}; it has {', '.join(known) or 'none'}. "
                f"{did_you_mean(unknown[0], known)}".rstrip()
            )
        return cls(home, None if made_of is Any else made_of(**options))

    @property
    def study_class(self) -> type[Study]:
        """The class, imported from its home.

        Raises:
            InputError: if it cannot be imported, or is not a study.
        """
        found = imported("study", self.home, "Class")
        if not (isinstance(found, type) and issubclass(found, Study)):
            raise InputError(
                f"study={self.home!r} is not a study: expected a subclass of tl_ffblock.corpus.study.Study."
            )
        return found

    def fingerprint(self) -> dict[str, Any]:
        """Give what its numbers depend on, by name; of a study outside this package the source of its file, too."""
        name = self.study_class.name
        mark = {name: self.home} | {f"{name}.{option}": value for option, value in self.settings().items()}
        if not self.home.startswith("tl_ffblock."):
            try:
                source = inspect.getsource(sys.modules[self.study_class.__module__])
            except (OSError, TypeError):  # of a notebook
                return mark
            mark[f"{name}.source"] = hashlib.sha256(source.encode()).hexdigest()
        return mark

    def settings(self) -> dict[str, Any]:
        """Give the options by name."""
        return {} if self.options is None else asdict(self.options)
