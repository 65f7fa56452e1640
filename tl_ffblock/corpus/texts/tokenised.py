"""A text of the corpus -> tokens with their words, groups and masks."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from tl_ffblock.bridge.model import Model
from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.texts.texts import CorpusText, Span
from tl_ffblock.errors import InputError

PAPER_MASKED = 0.12
"""Share of masked tokens: 80 % of the 15 % that BERT's training selects (appendix of the paper)."""

_WORD = re.compile(r"\w+|[^\w\s]+")


@dataclass(frozen=True)
class TokenisedText:
    """The tokens of one text."""

    source: CorpusText
    ids: Int[np.ndarray, " token"]
    """What the model reads, masks included."""
    special: Bool[np.ndarray, " token"]
    """True at tokens that stand for no text: [CLS], [SEP], <bos>, [MASK]; also where a text spells them out."""
    word: Int[np.ndarray, " token"]
    """Number of the word a token belongs to; -1 for none."""
    groups: tuple[frozenset[int], ...]
    """Words that belong together."""
    cut: bool
    """Whether tokens at the end were left out."""
    masked: Mapping[int, int]
    """The id that stood at each masked position."""


class Tokeniser:
    """The model's tokenizer and the settings of a run."""

    def __init__(self, model: Model, config: Config) -> None:
        self.model = model
        self.config = config
        self.tokenizer: Any = getattr(model.hooked, "tokenizer", None)
        if self.tokenizer is None:
            raise InputError(f"{model.name} has no tokenizer, which reading texts needs.")
        n_ctx = getattr(model.hooked.cfg, "n_ctx", None)
        self.longest = min(filter(None, (config.max_tokens, n_ctx)), default=None)
        self.mask_token = self.tokenizer.mask_token_id
        self.mask_name = str(self.tokenizer.mask_token)
        self.marks = sorted(set(self.tokenizer.all_special_ids) - {self.tokenizer.unk_token_id})
        by_default = PAPER_MASKED if self.mask_token is not None and not model.family.causal else 0.0
        self.mask_fraction = by_default if config.mask_fraction is None else config.mask_fraction
        if self.mask_fraction and self.mask_token is None:
            raise InputError(f"mask_fraction={self.mask_fraction}: {model.name} has no mask token.")
        self.tagger = None if config.tagger is None else _tagger(config.tagger)

    def __call__(self, text: CorpusText) -> TokenisedText:
        """Tokenise one text, cut to what the model reads.

        Raises:
            InputError: if nothing is left of it.
        """
        ids, offsets = self._tokens(text.text)
        special = np.array([end <= start for start, end in offsets]) | np.isin(ids, self.marks)
        cut = self.longest is not None and len(ids) > self.longest
        if cut:
            keep = self._kept(special)
            ids, special, offsets = ids[keep], special[keep], [offsets[i] for i in keep]
        if special.all():
            raise InputError(f"no token of text in {text.text[:60]!r}.")
        words = text.words or tuple(match.span() for match in _WORD.finditer(text.text))
        word = np.array([_word_of(offset, words) for offset in offsets])
        groups = tuple(
            frozenset(_word_of(span, words) for span in group) for group in (*text.groups, *self._tagged(text, words))
        )
        masked: dict[int, int] = {}
        if self.mask_fraction:
            random = np.random.default_rng([self.config.seed, text.number])
            hidden = (random.random(len(ids)) < self.mask_fraction) & ~special
            masked = dict(zip(np.flatnonzero(hidden).tolist(), ids[hidden].tolist(), strict=True))
            ids = np.where(hidden, self.mask_token, ids)
            special = special | hidden
        return TokenisedText(text, ids, special, word, groups, bool(cut), masked)

    def _tokens(self, text: str) -> tuple[Int[np.ndarray, " token"], list[Span]]:
        """Ids as the model reads texts, and the characters each stands for."""
        if self.model.api == "HookedEncoder":
            ids = self.tokenizer(text)["input_ids"]
        else:
            ids = self.model.hooked.to_tokens(text, truncate=False)[0].tolist()
        if not self.tokenizer.is_fast:
            raise InputError(f"{self.model.name}: its tokenizer tells no character offsets; a fast one is needed.")
        tokens = self.tokenizer(text, return_offsets_mapping=True)
        inner, offsets = list(tokens["input_ids"]), [tuple(pair) for pair in tokens["offset_mapping"]]
        before = len(ids) - len(inner)
        if before < 0 or ids[before:] != inner:
            raise InputError(f"{self.model.name}: TransformerLens and the tokenizer cut {text[:60]!r} differently.")
        return np.array(ids), [(0, 0)] * before + [_trim(text, *pair) for pair in offsets]

    def _kept(self, special: Bool[np.ndarray, " token"]) -> Int[np.ndarray, " kept"]:
        """Indices of the first tokens, and of the special ones that end a sequence."""
        assert self.longest is not None
        tail = len(special) - 1 - int(np.flatnonzero(~special)[-1]) if not special.all() else 0
        head = max(0, self.longest - tail)
        return np.r_[0:head, len(special) - tail : len(special)][: self.longest]

    def _tagged(self, text: CorpusText, words: Sequence[Span]) -> Iterator[tuple[Span, ...]]:
        """The groups of words that the tagger marks."""
        for start, end in () if self.tagger is None else self.tagger(text.text):
            group = tuple(word for word in words if start <= word[0] and word[1] <= end)
            if len(group) > 1:
                yield group


def _trim(text: str, start: int, end: int) -> Span:
    """Without the white space that byte-level tokens carry."""
    piece = text[start:end]
    stripped = len(piece) - len(piece.lstrip())
    return (start + stripped, end - (len(piece) - len(piece.rstrip()))) if piece.strip() else (start, end)


def _word_of(span: Span, words: Sequence[Span]) -> int:
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
