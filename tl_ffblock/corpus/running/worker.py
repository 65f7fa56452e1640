"""One shard of a run: texts -> what the studies keep of them. Knows no folder and no engine."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from typing import Any

import torch

from tl_ffblock.bridge.inputs import label
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.corpus.observation import observe
from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.study import Arrays, ModelFacts, StudySpec
from tl_ffblock.corpus.texts.texts import CorpusText, Problem
from tl_ffblock.corpus.texts.tokenised import TokenisedText, Tokeniser
from tl_ffblock.errors import FFBlockError, InputError
from tl_ffblock.layer.scopes import scope_names

MACHINE_ERRORS = (OSError, MemoryError, torch.cuda.OutOfMemoryError)
"""Errors that say nothing about a sequence: its shard is not written and can be computed another time."""
SEQUENCE_ERRORS = (FFBlockError, ArithmeticError, ValueError, RuntimeError)
"""Errors that a sequence can cause: it is left out and named. All others are mistakes of a program and end the run."""


class Worker:
    """A loaded model and the studies of a run."""

    def __init__(self, config: Config, specs: Sequence[StudySpec], hooked: Any) -> None:
        self.config = config
        self.specs = tuple(specs)
        self.model = identify(hooked)
        self.tokenise = Tokeniser(self.model, config, _masked(self.model, config, self.specs))
        self.facts = facts_of(self.model)
        self.studies = tuple(spec.build(config, self.facts) for spec in self.specs)
        wanted = {scope for study in self.studies for scope in study.scopes()}
        self.scopes = tuple(scope for scope in scope_names(self.facts.order) if scope in wanted)

    @cached_property
    def weights(self) -> str:
        """Digest of the weights that the studies read."""
        return self.model.weights_digest(head=any(study.reads_head for study in self.studies))

    def compute(
        self, texts: Sequence[CorpusText], count: Callable[[], None] = lambda: None
    ) -> tuple[Arrays, dict[str, Any]]:
        """Give arrays and metadata of one shard; a sequence that fails is left out and named there.

        Args:
            texts: The shard's.
            count: Called after each sequence that was measured.
        """
        problems: list[Problem] = []
        with threads(self.config.threads):
            tokenised = list(self._tokenised(texts, problems))
            measured: list[list[Any]] = []
            worst = 0.0
            for start in range(0, len(tokenised), self.config.batch_size):
                for row, error in self._measured(tokenised[start : start + self.config.batch_size], problems):
                    measured.append(row)
                    worst = max(worst, error)
                    count()
            arrays: Arrays = {}
            for index, study in enumerate(self.studies):
                if measured:
                    arrays |= study.summarise([row[index] for row in measured])
        meta = {
            "sequences": len(measured),
            "completeness": worst if self.scopes and measured else None,
            "tokens": sum(len(text.ids) for text in tokenised),
            "cut": sum(text.cut for text in tokenised),
            "masked": [
                {"sequence": text.source.number, "where": text.source.where, "position": position, "token": token}
                for text in tokenised
                for position, token in text.masked.items()
            ],
            "problems": [asdict(problem) for problem in problems],
        }
        return arrays, meta

    def _tokenised(self, texts: Sequence[CorpusText], problems: list[Problem]) -> Iterator[TokenisedText]:
        for text in texts:
            try:
                yield self.tokenise(text)
            except MACHINE_ERRORS:
                raise
            except SEQUENCE_ERRORS as error:
                problems.append(Problem(text.where, _one_line(error), "tokenising"))

    def _measured(self, batch: list[TokenisedText], problems: list[Problem]) -> Iterator[tuple[list[Any], float]]:
        """What each study measures of each sequence, and the worst completeness error of its maps.

        After a failure one by one, to find whose it was.
        """
        try:
            rows = [
                (
                    [study.measure(observed) for study in self.studies],
                    observed.maps.worst_completeness()[0] if self.scopes else 0.0,
                )
                for observed in observe(self.model, batch, self.scopes)
            ]
        except MACHINE_ERRORS:
            raise
        except SEQUENCE_ERRORS as error:
            if len(batch) == 1:
                problems.append(Problem(batch[0].source.where, _one_line(error), "measuring"))
                return
            for tokenised in batch:
                yield from self._measured([tokenised], problems)
        else:
            yield from rows


def _masked(model: Model, config: Config, specs: Sequence[StudySpec]) -> float:
    """The share of mask tokens that the studies read unless the config says another.

    Raises:
        InputError: if they differ, for a masked language model.
    """
    shares = {spec.study_class.name: spec.study_class.masked for spec in specs}
    if config.mask_fraction is None and not model.family.causal and len(set(shares.values())) > 1:
        each = ", ".join(f"{name} {share:g}" for name, share in shares.items())
        raise InputError(
            f"mask_fraction is open, and these studies of {model.name} have unlike ones: {each}. Give one to all "
            "(mask_fraction=0, --mask-fraction 0), or run them apart."
        )
    return next(iter(shares.values()), 0.0)


def facts_of(model: Model) -> ModelFacts:
    """Give what tables need to know of a model."""
    return ModelFacts(
        name=model.name,
        order=model.family.order,
        causal=model.family.causal,
        n_layers=model.n_layers,
        label=lambda token: label(model, torch.tensor([token]))[0],
    )


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Compute with so many CPU threads, and give the process back as many as it had."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
