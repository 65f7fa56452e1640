"""Tokens of a corpus text, with their words, groups of words and masks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from tl_ffblock.bridge.inputs import marks_around, special_tokens, token_spans
from tl_ffblock.bridge.model import Model
from tl_ffblock.corpus.settings import Config, imported
from tl_ffblock.corpus.texts import CorpusText, Span
from tl_ffblock.errors import InputError, brief
from tl_ffblock.results.tokens import word_spans

PAPER_MASKED = 0.12
"""Fraction of masked tokens: 80 % of the 15 % that BERT's training selects (appendix of the paper)."""


@dataclass(frozen=True)
class TokenisedText:
    """The tokens of one text."""

    source: CorpusText
    ids: Int[np.ndarray, " token"]
    """Input ids of the model, masks included."""
    special: Bool[np.ndarray, " token"]
    """True at tokens that are not text: [CLS], [SEP], <bos>, [MASK], even if a text spells them out."""
    word: Int[np.ndarray, " token"]
    """Number of the word that a token belongs to; -1 for none."""
    groups: tuple[frozenset[int], ...]
    """Sets of words that belong together."""
    cut: bool
    """Whether tokens at the end were cut off."""
    masked: Mapping[int, int]
    """Original id at each masked position."""

    @property
    def tensor(self) -> Int[Tensor, " token"]:
        """The ids as an integer tensor."""
        return torch.as_tensor(self.ids).long()


class Tokeniser:
    """Tokenisation with the model's tokenizer and the settings of a run.

    Args:
        model: The model.
        config: The run.
        masked: Fraction of the tokens that a masked language model reads as mask tokens, if the config has none.

    Raises:
        InputError: if tokens are to be masked and the model has no mask token, the tagger cannot be imported, or settings of
            TransformerLens do not describe the tokenizer.
    """

    def __init__(self, model: Model, config: Config, masked: float = PAPER_MASKED) -> None:
        self.model = model
        self.config = config
        marks_around(model)  # refuses a tokenizer that no text can be read by, once and not for every text
        self.special = special_tokens(model)
        self.longest = min(filter(None, (config.max_tokens, model.longest_input)), default=None)
        by_default = masked if self.special.mask is not None and not model.family.causal else 0.0
        self.mask_fraction = by_default if config.mask_fraction is None else config.mask_fraction
        if self.mask_fraction and self.special.mask is None:
            raise InputError(f"mask_fraction={self.mask_fraction}: {model.name} has no mask token.")
        self.tagger: Callable[[str], Any] = (
            imported("tagger", config.tagger, "function") if config.tagger is not None else lambda _: ()
        )

    def __call__(self, text: CorpusText) -> TokenisedText:
        """Tokens of one text, cut to the length that the model and the config allow.

        Raises:
            InputError: if no token of text remains, or the tagger fails on it.
        """
        ids, offsets = token_spans(self.model, text.text)
        special = np.array([end <= start for start, end in offsets]) | np.isin(ids, self.special.marks)
        cut = self.longest is not None and len(ids) > self.longest
        if cut:
            keep = self._kept(special)
            ids, special, offsets = ids[keep], special[keep], [offsets[i] for i in keep]
        if special.all():
            raise InputError(f"no token of text in {text.text[:60]!r}.")
        words = text.words or word_spans(text.text, at_signs=True)
        word = np.array([_word_of(offset, words) for offset in offsets])
        groups = tuple(
            frozenset(_word_of(span, words) for span in group) for group in (*text.groups, *self._tagged(text, words))
        )
        masked: dict[int, int] = {}
        if self.mask_fraction and self.special.mask is not None:
            random = np.random.default_rng([self.config.seed, text.number])
            hidden = (random.random(len(ids)) < self.mask_fraction) & ~special
            masked = dict(zip(np.flatnonzero(hidden).tolist(), ids[hidden].tolist(), strict=True))
            ids = np.where(hidden, self.special.mask, ids)
            special = special | hidden
        return TokenisedText(text, ids, special, word, groups, bool(cut), masked)

    def _kept(self, special: Bool[np.ndarray, " token"]) -> Int[np.ndarray, " kept"]:
        """Indices of the first tokens, and of the special tokens at the end of the sequence."""
        assert self.longest is not None
        tail = int((~special)[::-1].argmax())  # special tokens at the end
        return np.r_[0 : max(0, self.longest - tail), len(special) - tail : len(special)][: self.longest]

    def _tagged(self, text: CorpusText, words: Sequence[Span]) -> Iterator[tuple[Span, ...]]:
        """Groups of words that the tagger marks.

        Raises:
            InputError: if it fails on the text, or does not return spans.
        """
        try:
            spans = [(int(start), int(end)) for start, end in self.tagger(text.text)]
        except (OSError, MemoryError):  # not caused by the text
            raise
        except Exception as error:  # a user's function may raise anything
            raise InputError(
                f"tagger={self.config.tagger!r}: expected a function that returns (start, end) of every span. On "
                f"{brief(text.text)} it raised {type(error).__name__}: {error}."
            ) from error
        for start, end in spans:
            group = tuple(word for word in words if start <= word[0] and word[1] <= end)
            if len(group) > 1:
                yield group


def _word_of(span: Span, words: Sequence[Span]) -> int:
    """Index of the word in which a span begins; -1 for none."""
    if span[1] <= span[0]:
        return -1
    return next((i for i, (start, end) in enumerate(words) if start <= span[0] < end), -1)
