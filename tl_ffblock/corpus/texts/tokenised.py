"""A sequence of text -> tokens with their words, groups and masks."""

import re
from collections.abc import Callable
from collections.abc import Sequence as Several
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from tl_ffblock.bridge.model import Model
from tl_ffblock.corpus.running.settings import Config
from tl_ffblock.corpus.texts.texts import Sequence, Span
from tl_ffblock.errors import InputError

PAPER_MASKED = 0.12
"""Share of masked tokens: 80 % of the 15 % that BERT's training selects (appendix of the paper)."""

_WORD = re.compile(r"\w+|[^\w\s]+")


@dataclass(frozen=True)
class Encoded:
    """Tokens of one sequence; arrays have one entry a token."""

    sequence: Sequence
    ids: np.ndarray
    """What the model reads, masks included."""
    special: np.ndarray
    """True at tokens that stand for no text: [CLS], [SEP], <bos>, [MASK]; also where a text spells them out."""
    word: np.ndarray
    """Number of the word a token belongs to; -1 for none."""
    groups: tuple[frozenset[int], ...]
    """Words that belong together."""
    cut: bool
    """Whether tokens at the end were left out."""


class Encoder:
    """Tokenizer and settings of a run."""

    def __init__(self, model: Model, config: Config) -> None:
        self.model = model
        self.config = config
        self.tokenizer: Any = getattr(model.hooked, "tokenizer", None)
        if self.tokenizer is None:
            raise InputError(f"{model.name} has no tokenizer, which reading texts needs.")
        n_ctx = getattr(model.hooked.cfg, "n_ctx", None)
        self.longest = min(filter(None, (config.max_tokens, n_ctx)), default=None)
        self.mask_token = self.tokenizer.mask_token_id
        self.marks = sorted(set(self.tokenizer.all_special_ids) - {self.tokenizer.unk_token_id})
        masked = not model.family.causal and self.mask_token is not None
        self.masked = (PAPER_MASKED if masked else 0.0) if config.mask_fraction is None else config.mask_fraction
        if self.masked and self.mask_token is None:
            raise InputError(f"mask_fraction={self.masked}: {model.name} has no mask token.")
        self.tag = None if config.tagger is None else _tagger(config.tagger)

    def __call__(self, sequence: Sequence) -> Encoded:
        """Tokens of one sequence, cut to what the model reads.

        Raises:
            InputError: if nothing is left of it.
        """
        ids, offsets = self._tokens(sequence.text)
        special = np.array([end <= start for start, end in offsets]) | np.isin(ids, self.marks)
        cut = self.longest is not None and len(ids) > self.longest
        if cut:
            keep = self._kept(special)
            ids, special, offsets = ids[keep], special[keep], [offsets[i] for i in keep]
        if special.all():
            raise InputError(f"no token of text in {sequence.text[:60]!r}.")
        words = sequence.words or tuple(m.span() for m in _WORD.finditer(sequence.text))
        word = np.array([_holder(offset, words) for offset in offsets])
        tagged = tuple(self._tagged(sequence.text, words)) if self.tag else ()
        groups = tuple(frozenset(_holder(span, words) for span in group) for group in (*sequence.groups, *tagged))
        if self.masked:
            random = np.random.default_rng([self.config.seed, sequence.number])
            chosen = (random.random(len(ids)) < self.masked) & ~special
            ids = np.where(chosen, self.mask_token, ids)
            special = special | chosen
        return Encoded(sequence, ids, special, word, groups, bool(cut))

    def _tokens(self, text: str) -> tuple[np.ndarray, list[Span]]:
        """Ids as the model reads texts, and the characters each stands for."""
        if self.model.api == "HookedEncoder":
            ids = self.tokenizer(text)["input_ids"]
        else:
            ids = self.model.hooked.to_tokens(text, truncate=False)[0].tolist()
        found = self.tokenizer(text, return_offsets_mapping=True) if self.tokenizer.is_fast else None
        if found is None:
            raise InputError(f"{self.model.name}: its tokenizer tells no character offsets; a fast one is needed.")
        inner, offsets = list(found["input_ids"]), [tuple(pair) for pair in found["offset_mapping"]]
        before = len(ids) - len(inner)
        if before < 0 or ids[before:] != inner:
            raise InputError(f"{self.model.name}: TransformerLens and the tokenizer cut {text[:60]!r} differently.")
        return np.array(ids), [(0, 0)] * before + [_trim(text, *pair) for pair in offsets]

    def _kept(self, special: np.ndarray) -> np.ndarray:
        """The first tokens, and the special ones that end a sequence."""
        assert self.longest is not None
        tail = len(special) - 1 - int(np.flatnonzero(~special)[-1]) if not special.all() else 0
        head = max(0, self.longest - tail)
        return np.r_[0:head, len(special) - tail : len(special)][: self.longest]

    def _tagged(self, text: str, words: Several[Span]) -> Several[tuple[Span, ...]]:
        assert self.tag is not None
        inside = (tuple(w for w in words if start <= w[0] and w[1] <= end) for start, end in self.tag(text))
        return [group for group in inside if len(group) > 1]


def _trim(text: str, start: int, end: int) -> Span:
    """Without the white space that byte-level tokens carry."""
    piece = text[start:end]
    stripped = len(piece) - len(piece.lstrip())
    return (start + stripped, end - (len(piece) - len(piece.rstrip()))) if piece.strip() else (start, end)


def _holder(span: Span, words: Several[Span]) -> int:
    """The word in which a span begins; -1 for none."""
    if span[1] <= span[0]:
        return -1
    return next((i for i, (start, end) in enumerate(words) if start <= span[0] < end), -1)


@cache
def _tagger(name: str) -> Callable[[str], Any]:
    module, _, function = name.partition(":")
    try:
        return getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"tagger={name!r}: expected module:function of a module that can be imported ({error})."
        ) from error
