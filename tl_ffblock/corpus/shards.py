"""The corpus in shards. It is read three times: to count the texts, to compute digests, and to compute with them.

Only the numbers of the chosen texts and one digest per shard are held in memory, which therefore does not grow with the texts.
A corpus that changes between the second and the third reading raises an error.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from jaxtyping import Int

from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.texts import CorpusText, Problem, read_texts
from tl_ffblock.errors import InputError

KEPT_PROBLEMS = 100
"""Largest number of reading problems that are listed; all are counted."""
LEAST_UNREADABLE = 10
"""Number of unreadable rows from which on their fraction can end the run."""
WORDS_A_TOKEN = 0.7
"""Words of a split piece per allowed token: English text has 1.1 to 1.4 tokens per word."""


@dataclass(frozen=True)
class Shards:
    """Texts that a run reads, by shard."""

    config: Config
    chosen: Int[np.ndarray, " text"]
    """Numbers of the chosen texts among those read, ascending."""
    digest: str
    """Digest of the chosen texts."""
    digests: tuple[bytes, ...]
    """Digest of each shard's texts."""
    problems: tuple[Problem, ...]
    """The first unreadable lines."""
    unreadable: int
    """Number of unreadable lines."""

    @property
    def numbers(self) -> range:
        """Numbers of the shards."""
        return range(len(self.digests))

    def size(self, shard: int) -> int:
        """Number of texts in a shard: `shard_size`, in the last shard the remainder."""
        return len(self.chosen[shard * self.config.shard_size :][: self.config.shard_size])

    def whole_shards_of(self, n_texts: int, digest: str) -> int | None:
        """Number of shards shared with a run over this run's first texts; None if its texts are not these.

        Shared shards have the same texts under the same numbers: all full shards, and the last one too if no text is added.
        """
        if n_texts > len(self.chosen) or _digests(self.config, self.chosen[:n_texts])[0] != digest:
            return None
        return len(self.digests) if n_texts == len(self.chosen) else n_texts // self.config.shard_size

    def texts(self, wanted: set[int]) -> Iterator[tuple[int, list[CorpusText]]]:
        """Texts of the wanted shards, in order.

        Raises:
            InputError: at the first shard whose texts have changed since their digest was computed.
        """
        left = sorted(wanted)
        for shard, texts in enumerate(_shards(self.config, self.chosen)):
            if shard in wanted:
                if self.digests[shard : shard + 1] != (hashlib.sha256(_bytes_of(texts)).digest(),):
                    break
                left.remove(shard)
                yield shard, texts
        if left:
            raise InputError(
                f"data={self.config.source!r} changed while this run read it: the texts of shard {left[0]} are no longer those "
                "at its start. Finished shards are valid. Restore the data and start again, or use another folder."
            )


def cut_into_shards(config: Config) -> Shards:
    """Shards of the data, after the first reading and the choice of texts.

    Raises:
        InputError: if the data has no text, or too many rows are unreadable.
    """
    problems, unreadable, n_read, usable = list[Problem](), 0, 0, 0
    for item in read_texts(config):
        if isinstance(item, Problem):
            unreadable += 1
            problems += [item] if len(problems) < KEPT_PROBLEMS else []
        else:
            n_read += 1
            usable += len(_pieces(config, item))
    why = f" ({unreadable} lines cannot be read; {problems[0].where} {problems[0].why})" if problems else ""
    if unreadable >= LEAST_UNREADABLE and unreadable > config.unreadable * (unreadable + n_read):
        raise InputError(
            f"data={config.source!r}: more than {config.unreadable:.0%} of its rows cannot be read{why}. Repair the data, or raise "
            "unreadable."
        )
    if not usable:
        raise InputError(f"data={config.source!r} has no text to read{why}.")
    chosen = np.arange(usable)
    if config.limit is not None and config.limit < usable:
        random = np.random.default_rng(config.seed)
        drawn = random.choice(usable, config.limit, replace=False) if config.sample == "random" else chosen
        chosen = np.sort(drawn)[: config.limit]
    return Shards(config, chosen, *_digests(config, chosen), tuple(problems), unreadable)


def _digests(config: Config, chosen: Int[np.ndarray, " text"]) -> tuple[str, tuple[bytes, ...]]:
    whole, of_shards = hashlib.sha256(), list[bytes]()
    for texts in _shards(config, chosen):
        whole.update(_bytes_of(texts))
        of_shards.append(hashlib.sha256(_bytes_of(texts)).digest())
    return whole.hexdigest(), tuple(of_shards)


def _bytes_of(texts: list[CorpusText]) -> bytes:
    read = ((text.text, text.document, text.words, text.groups, text.relations) for text in texts)
    return b"".join(repr(each).encode("utf-8", "replace") for each in read)


def _shards(config: Config, chosen: Int[np.ndarray, " text"]) -> Iterator[list[CorpusText]]:
    pieces = (piece for item in read_texts(config) if isinstance(item, CorpusText) for piece in _pieces(config, item))
    kept = set(chosen.tolist())
    texts = (piece for place, piece in enumerate(islice(pieces, max(kept, default=-1) + 1)) if place in kept)
    numbered = (replace(text, number=number) for number, text in enumerate(texts))
    while shard := list(islice(numbered, config.shard_size)):
        yield shard


def _pieces(config: Config, text: CorpusText) -> list[CorpusText]:
    """The text, or its consecutive pieces; empty if it has too few words."""
    words = text.text.split()
    if len(words) < config.min_words:
        return []
    if config.long == "cut" or config.max_tokens is None or text.words is not None:
        return [text]
    size = max(1, round(config.max_tokens * WORDS_A_TOKEN))
    pieces = [words[start : start + size] for start in range(0, len(words), size)]
    return [replace(text, text=" ".join(piece)) for piece in pieces if len(piece) >= config.min_words]
