"""Computation of one shard: from texts to the arrays of all studies. Independent of the folder and the engine."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import torch

from tl_ffblock.bridge.inputs import Batch, in_batches, padded
from tl_ffblock.bridge.loading import load_model
from tl_ffblock.bridge.memory import observed_together
from tl_ffblock.bridge.model import identify
from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.study import Arrays, ModelFacts, Observation, StudySpec, observe
from tl_ffblock.corpus.texts import CorpusText, Problem
from tl_ffblock.corpus.tokenised import TokenisedText, Tokeniser
from tl_ffblock.errors import FFBlockError, InputError, out_of_memory
from tl_ffblock.layer.scopes import scope_names

MACHINE_ERRORS = (OSError, MemoryError, torch.cuda.OutOfMemoryError)
"""Errors that a sequence does not cause: its shard is not written and can be computed later."""
SEQUENCE_ERRORS = (FFBlockError, ArithmeticError, ValueError, RuntimeError)
"""Errors that a sequence can cause: it is skipped and reported. All other errors are programming errors and end the run."""

Row: TypeAlias = tuple[list[Any], float]
"""Measurement of a sequence by each study, and the worst completeness error of its maps."""


class Worker:
    """A loaded model with the studies of a run."""

    def __init__(self, config: Config, specs: Sequence[StudySpec], hooked: Any) -> None:
        """Build the studies.

        Args:
            config: The run.
            specs: Its studies.
            hooked: The loaded model.

        Raises:
            InputError: if the studies have different default fractions of mask tokens, and the config has none.
        """
        self.config = config
        self.specs = tuple(specs)
        self.model = identify(hooked)
        self.facts = ModelFacts.of(self.model)
        self.studies = tuple(spec.study_class(config, self.facts, spec.options) for spec in specs)
        shares = {study.name: study.masked for study in self.studies}
        if config.mask_fraction is None and not self.facts.causal and len(set(shares.values())) > 1:
            each = ", ".join(f"{name} {share:g}" for name, share in shares.items())
            raise InputError(
                f"mask_fraction is not set, and these studies of {self.facts.name} have different defaults: {each}. Set one "
                "for all (mask_fraction=0, --mask-fraction 0), or use separate runs."
            )
        self.tokenise = Tokeniser(self.model, config, next(iter(shares.values()), 0.0))
        wanted = {scope for study in self.studies for scope in study.scopes()}
        self.scopes = tuple(scope for scope in scope_names(self.facts.order) if scope in wanted)

    @classmethod
    def loaded(cls, config: Config, specs: Sequence[StudySpec]) -> "Worker":
        """Worker with the model of the config, loaded to its device."""
        return cls(config, specs, load_model(config.model, device=config.device))

    @property
    def twin(self) -> Callable[[], "Worker"]:
        """Factory of the same worker in another process."""
        return partial(type(self).loaded, self.config, self.specs)

    @cached_property
    def weights(self) -> str:
        """Digest of the weights that the studies use."""
        return self.model.weights_digest(head=any(study.reads_head for study in self.studies))

    def compute(
        self, texts: Sequence[CorpusText], count: Callable[[], None] = lambda: None
    ) -> tuple[Arrays, dict[str, Any]]:
        """Arrays and metadata of one shard; a sequence that fails is skipped and listed in the metadata.

        Args:
            texts: Texts of the shard.
            count: Called after each sequence that was measured.

        Raises:
            MemoryError: if memory runs out.
        """
        problems: list[Problem] = []
        found: dict[int, Row | Problem] = {}
        arrays: Arrays = {}
        with threads(self.config.threads):
            tokenised = list(self._tokenised(texts, problems))
            for batch in self._batches(tokenised):
                for number, row in self._measured(tokenised, batch):
                    found[number] = row
                    if not isinstance(row, Problem):
                        count()
            in_order = [found[number] for number in range(len(tokenised))]
            rows = [row for row in in_order if not isinstance(row, Problem)]
            problems += [row for row in in_order if isinstance(row, Problem)]
            for measured, study in zip(zip(*(row for row, _ in rows), strict=True), self.studies, strict=False):
                arrays |= study.summarise(measured)
        meta = {
            "sequences": len(rows),
            "completeness": max(error for _, error in rows) if self.scopes and rows else None,
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
                if out_of_memory(error):
                    raise MemoryError(str(error)) from error
                problems.append(_problem(text, error, "tokenising"))

    def _batches(self, tokenised: Sequence[TokenisedText]) -> list[Batch]:
        """Batches of a shard's sequences; they depend only on model, texts and config, so they are the same on every machine."""
        rows, size = [text.tensor for text in tokenised], self.config.batch_size
        if size is None and not any(study.alone for study in self.studies):
            fitting = partial(self._fitting, most=len(rows))
            return in_batches(self.model, [row[None] for row in rows], together=True, unequal=True, fitting=fitting)
        numbers = [tuple(range(len(rows)))[start : start + (size or 1)] for start in range(0, len(rows), size or 1)]
        return [replace(padded(self.model, [rows[n] for n in of]), numbers=of) for of in numbers]

    def _fitting(self, n_tokens: int, most: int) -> int:
        return observed_together(self.model, n_tokens, len(self.scopes), most, self.config.max_memory)

    def _measured(self, texts: Sequence[TokenisedText], batch: Batch) -> Iterator[tuple[int, Row | Problem]]:
        """Number and measurements of each sequence of a batch.

        After an error in a batch its sequences are measured one by one, to find the one that fails.
        """
        together = [texts[number] for number in batch.numbers]
        try:
            measured: list[Row | Problem] = [*map(self._row, observe(self.model, together, self.scopes, batch))]
        except MACHINE_ERRORS:
            raise
        except SEQUENCE_ERRORS as error:
            if out_of_memory(error):  # torch raises a RuntimeError
                raise MemoryError(str(error)) from error
            if len(together) > 1:
                for number in batch.numbers:
                    yield from self._measured(texts, Batch(texts[number].tensor[None], numbers=(number,)))
                return
            measured = [_problem(together[0].source, error, "measuring")]
        yield from zip(batch.numbers, measured, strict=True)

    def _row(self, observed: Observation) -> Row:
        measured = [study.measure(observed) for study in self.studies]
        return measured, observed.maps.worst_completeness()[0] if self.scopes else 0.0


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Context in which torch uses this number of CPU threads; the previous number is restored."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _problem(text: CorpusText, error: Exception, stage: str) -> Problem:
    return Problem(text.where, f"{type(error).__name__}: {' '.join(str(error).split())}", stage)
