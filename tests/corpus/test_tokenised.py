"""Tokens know their words, groups and masks."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tl_ffblock.bridge.model import identify
from tl_ffblock.corpus.texts import CorpusText
from tl_ffblock.corpus.tokenised import TokenisedText, Tokeniser
from tl_ffblock.errors import InputError
from tl_ffblock.experiments import Config


@pytest.fixture
def tokenise(loaded: Callable[[str], Any]) -> Callable[..., Any]:
    """`tokenise(text, family="bert", words=None, groups=(), number=0, **config)`."""

    def make(text: str, family: str = "bert", number: int = 0, groups: Any = (), **fields: Any) -> Any:
        tokenise = Tokeniser(identify(loaded(family)), Config("m", "d", "o", **{"mask_fraction": 0.0, **fields}))
        return tokenise(CorpusText(text, "here", "article", None, groups, number=number))

    return make


@pytest.mark.parametrize(("family", "word"), [("bert", [-1, 0, 1, 2, -1]), ("llama", [-1, 0, 1, 2])])
def test_ids_are_those_of_the_library(
    family: str, word: list[int], tokenise: Callable[..., TokenisedText], loaded: Callable[[str], Any]
) -> None:
    """A run reads the very tokens that `contribution_maps` reads; [CLS], [SEP] and <bos> are special and of no word."""
    found = tokenise("the cat sat", family)
    assert found.ids.tolist() == loaded(family).to_tokens("the cat sat")[0].tolist()
    assert found.word.tolist() == word
    assert found.special.tolist() == [number < 0 for number in word]


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("cafe\u0301 the", 1),
        ("नमस्ते the", 1),
        ("விளையாட்டு the", 1),
        ("שָׁלוֹם the", 1),
        ("ครับ the", 1),
        ("don't the", 3),
        ("-- the", 1),
    ],
)
def test_words_are_those_of_groups_but_end_at_signs(
    text: str, last: int, tokenise: Callable[..., TokenisedText]
) -> None:
    """Combining marks and vowel signs do not end a word; the number of the last word is that of the words before it."""
    found = tokenise(text, "llama")
    assert found.word[-1] == last and set(found.word[1:-1].tolist()) <= set(range(last))


def test_cutting_keeps_the_end_mark(tokenise: Callable[..., TokenisedText]) -> None:
    """A cut sequence has the length asked for and still ends as the model knows it."""
    whole, cut = tokenise("the cat sat on the mat ."), tokenise("the cat sat on the mat .", max_tokens=5)
    assert cut.cut and not whole.cut
    assert cut.ids.tolist() == [*whole.ids[:4], whole.ids[-1]]


def test_masks_follow_seed_and_sequence(tokenise: Callable[..., TokenisedText]) -> None:
    """About the fraction asked for, never a special token; the same for the same seed and number.

    Put back at their positions, the masked ids give the text without masks; nothing else changed.
    """
    text = "the cat sat on the mat . " * 6
    masked = [tokenise(text, number=number, mask_fraction=0.12) for number in (*range(40), 0)]
    plain = tokenise(text)
    changed = [one.ids != plain.ids for one in masked]
    assert 0.09 < np.mean([c[~plain.special] for c in changed[:40]]) < 0.15
    assert not any(c[plain.special].any() for c in changed) and plain.masked == {}
    assert (changed[0] == changed[40]).all() and (changed[0] != changed[1]).any()
    for one, c in zip(masked, changed, strict=True):
        assert one.special[c].all() and one.special.sum() == plain.special.sum() + len(one.masked)
        restored = one.ids.copy()
        restored[list(one.masked)] = list(one.masked.values())
        assert restored.tolist() == plain.ids.tolist()


def test_causal_models_are_not_masked(loaded: Callable[[str], Any]) -> None:
    """The paper masks masked language models only."""
    shares = [Tokeniser(identify(loaded(family)), Config("m", "d", "o")).mask_fraction for family in ("bert", "llama")]
    assert shares == [0.12, 0.0]


def tag(text: str) -> list[tuple[int, int]]:
    """A tagger that calls the first seven characters an expression."""
    return [(0, 7)]


def no_spans(text: str) -> list[int]:
    """A tagger that gives numbers."""
    return [3]


def failing(text: str) -> list[tuple[int, int]]:
    """A tagger with a mistake."""
    raise KeyError(text)


def test_groups_come_from_data_and_tagger(
    tokenise: Callable[..., TokenisedText], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans of both become groups of words; a tagger that cannot be imported is refused before the work.

    One that fails is said of its text: the run leaves it out, where a traceback would end it.
    """
    monkeypatch.setitem(sys.modules, "my_tagger", sys.modules[__name__])
    found = tokenise("the cat sat on", groups=(((8, 11), (12, 14)),), tagger="my_tagger:tag")
    assert found.groups == (frozenset({2, 3}), frozenset({0, 1}))
    with pytest.raises(InputError, match="no_such_module:tag"):
        tokenise("the cat", tagger="no_such_module:tag")
    for name, raised in (("no_spans", "TypeError"), ("failing", "KeyError")):
        says = rf"tagger='my_tagger:{name}': expected a function that returns \(start, end\).*'the cat'.*{raised}"
        with pytest.raises(InputError, match=says):
            tokenise("the cat", tagger=f"my_tagger:{name}")
