"""A study of the tests' own: what a corpus run does is seen on it without any paper's study."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from tl_ffblock.corpus.statistics import ShardArrays
from tl_ffblock.corpus.study import Arrays, Figures, Observation, Study, StudySpec, Tables
from tl_ffblock.errors import CompletenessError


@dataclass(frozen=True)
class LengthsOptions:
    """How it goes wrong."""

    add: int = 0
    """Added to every length."""
    fails_at: int = -1
    """Number of a sequence that cannot be measured."""
    mistaken: bool = False
    """Whether the program has a mistake."""


class Lengths(Study):
    """The number of tokens of every sequence."""

    name = "lengths"
    title = "How long texts are"
    options: LengthsOptions
    measured: ClassVar[list[int]] = []
    """Numbers of the sequences measured by this process."""

    def measure(self, observed: Observation) -> int:
        number = observed.tokenised.source.number
        if number == self.options.fails_at:
            raise CompletenessError("parts do not sum")
        if self.options.mistaken:
            raise NameError("a name is not defined")
        self.measured.append(number)
        return len(observed.tokenised.ids) + self.options.add

    def summarise(self, measured: Sequence[int]) -> Arrays:
        return {self.array("tokens"): np.array(measured)}

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        return {"tokens": pd.DataFrame({"tokens": np.concatenate([shard[self.array("tokens")] for shard in shards])})}

    def figures(self, tables: Tables) -> Figures:
        return {}


class LengthsOfReader(Lengths):
    """The same for a study whose numbers depend on the unembedding."""

    reads_head = True


def lengths(**options: object) -> StudySpec:
    """`lengths(fails_at=2)`: the study with options."""
    return StudySpec("tests.own_studies:Lengths", LengthsOptions(**options))  # type: ignore[arg-type]
