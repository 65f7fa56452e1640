"""The corpus cut into shards, read twice: once to count and to digest it, once to hand it out.

Nothing but the numbers of the chosen texts is kept, so that the memory of a run does not grow with its corpus.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Int

from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.texts.readers import read_texts
from tl_ffblock.corpus.texts.texts import CorpusText, Problem
from tl_ffblock.errors import InputError

KEPT_PROBLEMS = 100
"""Problems of reading that are told one by one; more are counted."""
WORDS_A_TOKEN = 0.7
"""Words of a split piece for each token allowed: English text has 1.1 to 1.4 tokens a word."""


@dataclass(frozen=True)
class Shards:
    """Which texts a run reads, and in which shard each is."""

    config: Config
    chosen: Int[np.ndarray, " text"]
    """Numbers of the chosen texts among those read, ascending."""
    digest: str
    """Of the chosen texts."""
    problems: tuple[Problem, ...]
    """The first unreadable lines."""
    unreadable: int
    """How many there are."""

    @property
    def count(self) -> int:
        """Number of shards."""
        return -(-len(self.chosen) // self.config.shard_size)

    @property
    def numbers(self) -> range:
        """The shards."""
        return range(self.count)

    def size(self, shard: int) -> int:
        """Count the texts of a shard: as many as all others have, and in the last one what is left."""
        size = self.config.shard_size
        return max(0, min(size, len(self.chosen) - shard * size))

    def whole_shards_of(self, n_texts: int, digest: str) -> int | None:
        """Count the shards of a run over this run's first texts that are this run's too; None if its texts are others.

        They hold the same texts under the same numbers: all full shards, and where no text is added the last one too.
        """
        if n_texts > len(self.chosen) or _digest(self.config, self.chosen[:n_texts]) != digest:
            return None
        return self.count if n_texts == len(self.chosen) else n_texts // self.config.shard_size

    def texts(self, wanted: set[int]) -> Iterator[tuple[int, list[CorpusText]]]:
        """Read the wanted shards' texts, in order."""
        size, gathered = self.config.shard_size, list[CorpusText]()
        for number, text in enumerate(_chosen(self.config, self.chosen)):
            shard = number // size
            if shard in wanted:
                gathered.append(replace(text, number=number))
            if gathered and (number % size == size - 1 or number == len(self.chosen) - 1):
                yield shard, gathered
                gathered = []


def cut_into_shards(config: Config) -> Shards:
    """Read the data once, and choose.

    Raises:
        InputError: if there is nothing to read.
    """
    problems, unreadable, usable = list[Problem](), 0, 0
    for item in read_texts(config):
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
        drawn = random.choice(usable, config.limit, replace=False) if config.sample == "random" else chosen
        chosen = np.sort(drawn)[: config.limit]
    return Shards(config, chosen, _digest(config, chosen), tuple(problems), unreadable)


def _digest(config: Config, chosen: Int[np.ndarray, " text"]) -> str:
    digest = hashlib.sha256()
    for text in _chosen(config, chosen):
        read = (text.text, text.document, text.words, text.groups, text.relations)
        digest.update(repr(read).encode("utf-8", "replace"))
    return digest.hexdigest()


def _chosen(config: Config, chosen: Int[np.ndarray, " text"]) -> Iterator[CorpusText]:
    """The texts of these numbers, which ascend."""
    taken, number = 0, 0
    for item in read_texts(config):
        if isinstance(item, Problem):
            continue
        for piece in _pieces(config, item):
            if taken < len(chosen) and number == chosen[taken]:
                taken += 1
                yield piece
            number += 1
        if taken == len(chosen):
            return


def _pieces(config: Config, text: CorpusText) -> list[CorpusText]:
    """The text, its consecutive pieces, or nothing where it has too few words."""
    words = text.text.split()
    if len(words) < config.min_words:
        return []
    if config.long == "cut" or config.max_tokens is None or text.words is not None:
        return [text]
    size = max(1, round(config.max_tokens * WORDS_A_TOKEN))
    pieces = [words[start : start + size] for start in range(0, len(words), size)]
    return [replace(text, text=" ".join(piece)) for piece in pieces if len(piece) >= config.min_words]
