"""The corpus cut into shards, read twice: once to count and to digest it, once to hand it out.

Nothing but the numbers of the chosen sequences is kept, so that the memory of a run does not grow
with its corpus.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tl_ffblock.corpus.running.settings import Config
from tl_ffblock.corpus.texts.readers import read
from tl_ffblock.corpus.texts.texts import Problem, Sequence
from tl_ffblock.errors import InputError

KEPT_PROBLEMS = 100
"""Problems of reading that are told one by one; more are counted."""


@dataclass(frozen=True)
class Plan:
    """Which sequences a run reads."""

    config: Config
    chosen: np.ndarray
    """Numbers of the chosen sequences among those read, ascending."""
    digest: str
    """Of the chosen sequences."""
    problems: tuple[Problem, ...]
    """The first unreadable lines."""
    unreadable: int
    """How many there are."""

    @property
    def n_shards(self) -> int:
        """Number of shards."""
        return -(-len(self.chosen) // self.config.shard_size)

    def shards(self, wanted: set[int]) -> Iterator[tuple[int, list[Sequence]]]:
        """The wanted shards with their sequences, in order."""
        size, gathered = self.config.shard_size, list[Sequence]()
        for number, sequence in enumerate(_chosen(self.config, self.chosen)):
            shard = number // size
            if shard in wanted:
                gathered.append(replace(sequence, number=number))
            if gathered and (number % size == size - 1 or number == len(self.chosen) - 1):
                yield shard, gathered
                gathered = []


def make_plan(config: Config) -> Plan:
    """Read the data once.

    Raises:
        InputError: if there is nothing to read.
    """
    problems, unreadable, usable = list[Problem](), 0, 0
    for item in read(config):
        if isinstance(item, Problem):
            unreadable += 1
            problems += [item] if len(problems) < KEPT_PROBLEMS else []
        else:
            usable += len(_pieces(config, item))
    if not usable:
        why = f" ({unreadable} lines cannot be read; {problems[0].where} {problems[0].why})" if problems else ""
        raise InputError(f"data={config.data!r} holds no text to read{why}.")
    chosen = np.arange(usable)
    if config.limit is not None and config.limit < usable:
        random = np.random.default_rng(config.seed)
        some = random.choice(usable, config.limit, replace=False) if config.sample == "random" else chosen
        chosen = np.sort(some)[: config.limit]
    digest = hashlib.sha256()
    for sequence in _chosen(config, chosen):
        digest.update(
            repr((sequence.text, sequence.document, sequence.words, sequence.groups)).encode("utf-8", "replace")
        )
    return Plan(config, chosen, digest.hexdigest(), tuple(problems), unreadable)


def _chosen(config: Config, chosen: np.ndarray) -> Iterator[Sequence]:
    place, number = 0, 0
    for item in read(config):
        if isinstance(item, Problem):
            continue
        for piece in _pieces(config, item):
            if place < len(chosen) and number == chosen[place]:
                place += 1
                yield piece
            number += 1
        if place == len(chosen):
            return


def _pieces(config: Config, sequence: Sequence) -> list[Sequence]:
    """The sequence, its consecutive pieces, or nothing where it has too few words."""
    words = sequence.text.split()
    if len(words) < config.min_words:
        return []
    if config.long == "cut" or config.max_tokens is None or sequence.words is not None:
        return [sequence]
    size = max(1, round(config.max_tokens * WORDS_A_TOKEN))
    pieces = [words[start : start + size] for start in range(0, len(words), size)]
    return [replace(sequence, text=" ".join(piece)) for piece in pieces if len(piece) >= config.min_words]


WORDS_A_TOKEN = 0.7
"""Words of a split piece for each token allowed: English text has 1.1 to 1.4 tokens a word."""
