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


def test_ids_are_those_of_the_library(tokenise: Callable[..., TokenisedText], loaded: Callable[[str], Any]) -> None:
    """A run reads the very tokens that `contribution_maps` reads from the text."""
    for family in ("bert", "llama"):
        expected = loaded(family).to_tokens("the cat sat on the mat .")[0].tolist()
        assert tokenise("the cat sat on the mat .", family).ids.tolist() == expected


def test_special_tokens_stand_for_no_text(tokenise: Callable[..., TokenisedText]) -> None:
    """[CLS], [SEP] and <bos> are special and belong to no word; every other token has one."""
    bert, llama = tokenise("the cat sat"), tokenise("the cat sat", "llama")
    assert bert.special.tolist() == [True, False, False, False, True]
    assert llama.special.tolist() == [True, False, False, False]
    assert bert.word.tolist() == [-1, 0, 1, 2, -1]


def test_cutting_keeps_the_end_mark(tokenise: Callable[..., TokenisedText]) -> None:
    """A cut sequence has the length asked for and still ends as the model knows it."""
    whole, cut = tokenise("the cat sat on the mat ."), tokenise("the cat sat on the mat .", max_tokens=5)
    assert cut.cut and not whole.cut
    assert cut.ids.tolist() == [*whole.ids[:4], whole.ids[-1]]


def test_masks_follow_seed_and_sequence(tokenise: Callable[..., TokenisedText]) -> None:
    """About the fraction asked for, never a special token; the same for the same seed and number."""
    text = "the cat sat on the mat . " * 6
    masked = [tokenise(text, number=number, mask_fraction=0.12) for number in (*range(40), 0)]
    plain = tokenise(text)
    changed = [one.ids != plain.ids for one in masked]
    share = np.mean([c[~plain.special] for c in changed[:40]])
    assert 0.09 < share < 0.15
    assert not any(c[plain.special].any() for c in changed)
    assert (changed[0] == changed[40]).all() and (changed[0] != changed[1]).any()
    assert all(one.special[c].all() for one, c in zip(masked, changed, strict=True))


def test_masked_positions_tell_what_stood_there(tokenise: Callable[..., TokenisedText]) -> None:
    """Put back at their positions, the masked ids give the text without masks; nothing else changed."""
    text = "the cat sat on the mat . " * 6
    plain, masked = tokenise(text), tokenise(text, mask_fraction=0.5)
    assert len(masked.masked) > 5 and plain.masked == {}
    restored = masked.ids.copy()
    restored[list(masked.masked)] = list(masked.masked.values())
    assert restored.tolist() == plain.ids.tolist()
    assert masked.special.sum() == plain.special.sum() + len(masked.masked)


def test_causal_models_are_not_masked(loaded: Callable[[str], Any]) -> None:
    """The paper masks masked language models only."""
    shares = [Tokeniser(identify(loaded(family)), Config("m", "d", "o")).mask_fraction for family in ("bert", "llama")]
    assert shares == [0.12, 0.0]


def tag(text: str) -> list[tuple[int, int]]:
    """A tagger that calls the first seven characters an expression."""
    return [(0, 7)]


def test_groups_come_from_data_and_tagger(
    tokenise: Callable[..., TokenisedText], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans of the data and of the optional tagger become groups of words."""
    monkeypatch.setitem(sys.modules, "my_tagger", sys.modules[__name__])
    found = tokenise("the cat sat on", groups=(((8, 11), (12, 14)),), tagger="my_tagger:tag")
    assert found.groups == (frozenset({2, 3}), frozenset({0, 1}))


def test_a_wrong_tagger_is_named(tokenise: Callable[..., TokenisedText]) -> None:
    """What cannot be imported is refused before the work."""
    with pytest.raises(InputError, match="no_such_module:tag"):
        tokenise("the cat", tagger="no_such_module:tag")


def no_spans(text: str) -> list[int]:
    """A tagger that gives numbers."""
    return [3]


def failing(text: str) -> list[tuple[int, int]]:
    """A tagger with a mistake."""
    raise KeyError(text)


@pytest.mark.parametrize(("name", "raised"), [("no_spans", "TypeError"), ("failing", "KeyError")])
def test_a_tagger_that_fails_is_said_of_its_text(
    name: str, raised: str, tokenise: Callable[..., TokenisedText], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run leaves such a text out; a traceback would end it."""
    monkeypatch.setitem(sys.modules, "my_tagger", sys.modules[__name__])
    with pytest.raises(InputError, match=rf"tagger='my_tagger:{name}': expected \(start, end\).*'the cat'.*{raised}"):
        tokenise("the cat", tagger=f"my_tagger:{name}")
