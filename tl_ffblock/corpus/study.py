"""Base classes of studies: measure one sequence, summarise a shard, merge shards into tables and figures.

A study is a class; its options are a frozen dataclass in the same file. A run takes `StudySpec`s: the import path of the class,
and options. A spec can be sent to other machines, which build the study from it. The forward pass of a batch is run when a
study first asks for maps or vectors, and serves all studies of the run.
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

from tl_ffblock.bridge.inputs import Batch, padded
from tl_ffblock.bridge.labels import label
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
from tl_ffblock.results.measures import Cells

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
"""Function that writes a page about one sequence to a file."""

EXAMPLE_TOKENS = 32
"""Largest number of tokens of an example page, for speed and legibility."""


@dataclass(frozen=True)
class ModelFacts:
    """Properties of the run's model that tables need."""

    name: str
    order: Order
    causal: bool
    n_layers: int
    label: Callable[[int], str]
    """Text of a token id."""

    @classmethod
    def of(cls, model: Model) -> "ModelFacts":
        """The facts of a model."""
        return cls(
            name=model.name,
            order=model.family.order,
            causal=model.family.causal,
            n_layers=model.n_layers,
            label=lambda token: label(model, torch.tensor([token]))[0],
        )

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps of a layer that change a map."""
        return tuple(step for step in STEPS[self.order] if step.before is not None)

    @property
    def cells(self) -> tuple[Cells, ...]:
        """Sets of cells that are ranked, the default first: `all` is the paper's, with the structural zeros of causal maps."""
        return ("reachable", "all") if self.causal else ("all",)

    @property
    def feed_forward(self) -> Step:
        """The feed-forward step whose input is a map.

        Raises:
            UnsupportedModelError: if the order has none.
        """
        for step in self.steps:
            if step.component == "FF":
                return step
        raise UnsupportedModelError(f"a {self.order} model has no feed-forward block, which this study needs.")


class ObservedBatch:
    """Sequences of one forward pass, which is run when their maps or records are first asked for.

    Args:
        model: The model.
        batch: Tokens of the sequences.
        scopes: Scopes of the maps.
    """

    def __init__(self, model: Model, batch: Batch, scopes: tuple[str, ...]) -> None:
        self._scopes = scopes
        self._run = run_of_batches(model, [replace(batch, numbers=tuple(range(len(batch.tokens))))])

    @cached_property
    def _layers(self) -> list[Mapping[int, LayerRecord]]:
        """Records of every layer of the batch, by sequence."""
        layers: list[Mapping[int, LayerRecord]] = []
        self._run.deliver(layers.append)
        return layers

    @cached_property
    def records(self) -> list[tuple[LayerRecord, ...]]:
        """Records of every layer, without padding, for each sequence."""
        return list(zip(*(layer.values() for layer in self._layers), strict=True))

    @cached_property
    def maps(self) -> list[ContributionMaps]:
        """Contribution maps of each sequence, at the scopes that the run's studies need."""
        tables = MapTables(self._run, self._scopes)
        with torch.no_grad():
            for layer in self._layers:
                tables(layer)
        return tables.results()


@dataclass(frozen=True)
class Observation:
    """One sequence of a run, with its tokens, maps and layer records."""

    model: Model
    tokenised: TokenisedText
    batch: ObservedBatch
    index: int
    """Index in the batch."""

    @property
    def tokens(self) -> Int[Tensor, " pos"]:
        """Input ids of the model, masks included."""
        return self.tokenised.tensor

    @property
    def maps(self) -> ContributionMaps:
        """Contribution maps at the scopes that the run's studies need."""
        return self.batch.maps[self.index]

    @property
    def records(self) -> tuple[LayerRecord, ...]:
        """Layer records of this sequence, one per layer."""
        return self.batch.records[self.index]


def observe(
    model: Model, texts: Sequence[TokenisedText], scopes: tuple[str, ...], batch: Batch | None = None
) -> Iterator[Observation]:
    """Observations of a batch, one per sequence.

    Args:
        model: The model.
        texts: The sequences.
        scopes: Scopes of the maps.
        batch: Their tokens as a batch; None pads them.
    """
    given = padded(model, [tokenised.tensor for tokenised in texts]) if batch is None else batch
    observed = ObservedBatch(model, given, scopes)
    return (Observation(model, tokenised, observed, index) for index, tokenised in enumerate(texts))


def write_maps(model: Model, tokenised: TokenisedText, file: Path) -> None:
    """Write a page with the maps of a sequence's first tokens."""
    maps: Any = contribution_maps(model, torch.as_tensor(tokenised.ids[:EXAMPLE_TOKENS]))
    maps.to_html(file)


class Study(ABC):
    """One study of one run."""

    name: ClassVar[str]
    """Name on the command line and in the names of its tables."""
    title: ClassVar[str]
    """Title in reports and help texts."""
    repeats: ClassVar[str] = ""
    """Figures, tables or sections of its paper that it repeats, as the report names them; "" for a study without a paper."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Packages that it needs in addition to those of every run; checked before the work starts."""
    alone: ClassVar[bool] = False
    """Whether texts run one by one by default. A study that ranks positions needs bitwise equal numbers for equal prefixes."""
    reads_head: ClassVar[bool] = False
    """Whether its results depend on modules after the last layer, such as the unembedding."""
    masked: ClassVar[float] = PAPER_MASKED
    """Fraction of the tokens that a masked language model reads as mask tokens, if the config has none."""
    captions: ClassVar[Mapping[str, str]] = {}
    """Captions of its figures, by name."""
    pages: ClassVar[Mapping[str, PageWriter]] = {"maps": write_maps}
    """Writers of pages about the first sequences, by folder; studies with the same kind of page share its files."""
    options: Any
    """Instance of its dataclass of options, which a study annotates here; None for a study without options."""

    def __init__(self, config: Config, facts: ModelFacts, options: object = None) -> None:
        self.config = config
        self.facts = facts
        self.options = options

    def scopes(self) -> tuple[str, ...]:
        """Scopes whose maps the study reads."""
        return ()

    @abstractmethod
    def measure(self, observed: Observation) -> Any:
        """Measurement of one sequence. It must have no side effects, since another study may fail on the sequence."""

    @abstractmethod
    def summarise(self, measured: Sequence[Any]) -> Arrays:
        """Arrays that a shard stores for its sequences (at least one), named by `array`."""

    @abstractmethod
    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        """Tables from all shards, merged in order; their arrays are named `study/array`."""

    def figures(self, tables: Tables) -> Figures:
        """Figures of the tables, by name."""
        return {}

    def sentences(self, tables: Tables) -> tuple[str, ...]:
        """The result in a sentence or two, with numbers from the tables."""
        return ()

    def overview(self, tables: Tables) -> Tables:
        """Small tables for the report, one row per layer; the tables themselves contain all numbers."""
        return {}

    def array(self, name: str) -> str:
        """Name of an array in a shard."""
        return f"{self.name}/{name}"

    def moments(self, shards: Sequence[ShardArrays], name: str) -> Moments:
        """Moments of one name, merged over all shards."""
        return merged(Moments.read(shard, self.array(f"{name}.")) for shard in shards)


class MomentsStudy(Study):
    """A study whose measurements are moments by name."""

    @abstractmethod
    def measure(self, observed: Observation) -> dict[str, Moments]: ...

    def summarise(self, measured: Sequence[dict[str, Moments]]) -> Arrays:
        """Moments merged over all sequences, as arrays."""
        arrays: Arrays = {}
        for name in measured[0]:
            arrays |= merged(moments[name] for moments in measured).arrays(self.array(f"{name}."))
        return arrays


def table_over(axes: Mapping[str, Sequence[object]], columns: Mapping[str, Shaped[np.ndarray, "..."]]) -> pd.DataFrame:
    """Table with one row per combination of the axes' values, the last axis fastest; every column is an array over the axes."""
    rows = pd.MultiIndex.from_product(axes.values(), names=axes).to_frame(index=False)
    return rows.assign(**{name: np.ravel(values) for name, values in columns.items()})


@dataclass(frozen=True)
class StudySpec:
    """A study to run: the import path of its class, and its options."""

    home: str
    """Import path of its class, `module:Class`."""
    options: Any = None

    @classmethod
    def of(cls, home: str, **options: Any) -> "StudySpec":
        """Spec of a study with these options, checked.

        Raises:
            InputError: if there is no such study or option, or an option has no such value.
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
        """The class, imported from its path.

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
        """Inputs of its results by name; for a study outside this package also a digest of its file's source."""
        name = self.study_class.name
        mark = {name: self.home} | {f"{name}.{option}": value for option, value in self.settings().items()}
        if not self.home.startswith("tl_ffblock."):
            try:
                source = inspect.getsource(sys.modules[self.study_class.__module__])
            except (OSError, TypeError):  # defined in a notebook
                return mark
            mark[f"{name}.source"] = hashlib.sha256(source.encode()).hexdigest()
        return mark

    def settings(self) -> dict[str, Any]:
        """The options by name."""
        return {} if self.options is None else asdict(self.options)
