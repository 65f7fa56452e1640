"""One shard of a run: sequences -> what the experiments keep of them. Knows no folder and no engine."""

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Several
from dataclasses import asdict
from typing import Any

import torch

from tl_ffblock.bridge.inputs import label
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.corpus.observation import Observation, observe
from tl_ffblock.corpus.running.settings import Config
from tl_ffblock.corpus.study import Arrays, Subject
from tl_ffblock.corpus.texts.texts import Problem, Sequence
from tl_ffblock.corpus.texts.tokenised import Encoded, Encoder
from tl_ffblock.errors import FFBlockError
from tl_ffblock.experiments.registry import make_experiments
from tl_ffblock.layer.scopes import scope_names

OF_THE_MACHINE = (OSError, MemoryError, torch.cuda.OutOfMemoryError)
"""Errors that say nothing about a sequence: its shard is not written and can be computed another time."""


OF_A_SEQUENCE = (FFBlockError, ArithmeticError, ValueError, RuntimeError)
"""Errors that a sequence can cause: it is left out and named. All others are mistakes of a program and end the run."""


class Worker:
    """A loaded model and the experiments of a run."""

    def __init__(self, config: Config, hooked: Any) -> None:
        self.config = config
        self.model = identify(hooked)
        self.encode = Encoder(self.model, config)
        self.subject = subject_of(self.model)
        self.experiments = make_experiments(config, self.subject)
        wanted = {scope for experiment in self.experiments for scope in experiment.scopes()}
        self.scopes = tuple(scope for scope in scope_names(self.subject.order) if scope in wanted)
        self.records = any(experiment.records for experiment in self.experiments)

    def compute(
        self, sequences: Several[Sequence], tick: Callable[[], None] = lambda: None
    ) -> tuple[Arrays, dict[str, Any]]:
        """Arrays and metadata of one shard; a sequence that fails is left out and named there."""
        torch.set_num_threads(self.config.threads)
        problems: list[Problem] = []
        encoded = list(self._encoded(sequences, problems))
        measured = []
        for start in range(0, len(encoded), self.config.batch_size):
            for row in self._batch(encoded[start : start + self.config.batch_size], problems):
                measured.append(row)
                tick()
        arrays: Arrays = {}
        for place, experiment in enumerate(self.experiments):
            if measured:
                arrays |= experiment.summarise([row[place] for row in measured])
        meta = {
            "sequences": len(measured),
            "tokens": sum(len(one.ids) for one in encoded),
            "cut": sum(one.cut for one in encoded),
            "problems": [asdict(problem) for problem in problems],
        }
        return arrays, meta

    def _encoded(self, sequences: Several[Sequence], problems: list[Problem]) -> Iterator[Encoded]:
        for sequence in sequences:
            try:
                yield self.encode(sequence)
            except OF_THE_MACHINE:
                raise
            except OF_A_SEQUENCE as error:
                problems.append(Problem(sequence.where, _line(error), "encoding"))

    def _batch(self, encoded: list[Encoded], problems: list[Problem]) -> Iterator[list[Any]]:
        """What each sequence of a batch gives; after a failure one by one, to find whose it was."""
        try:
            rows = [self._measure(seen) for seen in self._seen(encoded)]
        except OF_THE_MACHINE:
            raise
        except OF_A_SEQUENCE as error:
            if len(encoded) == 1:
                problems.append(Problem(encoded[0].sequence.where, _line(error), "measuring"))
                return
            for one in encoded:
                yield from self._batch([one], problems)
        else:
            yield from rows

    def _seen(self, encoded: list[Encoded]) -> Iterator[Observation]:
        return observe(self.model, encoded, self.scopes, records=self.records)

    def _measure(self, seen: Observation) -> list[Any]:
        return [experiment.measure(seen) for experiment in self.experiments]


def subject_of(model: Model) -> Subject:
    """What tables need to know of a model."""
    return Subject(
        name=model.name,
        order=model.family.order,
        causal=model.family.causal,
        n_layers=model.n_layers,
        label=lambda token: label(model, torch.tensor([token]))[0],
    )


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
