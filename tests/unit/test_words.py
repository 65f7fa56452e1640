"""Tokens grouped to words and spans: sums are kept, and what has no sum is refused."""

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tests.heads.planted import drawn, labelled
from tests.scripts import SPLITTING, WORDS
from tl_ffblock.errors import CompletenessError, InputError
from tl_ffblock.results import words
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.results.tokens import word_numbers, word_spans

TEXT = "A tall man, a tall hat"
TOKENS = ("<s>", "A", " t", "all", " man", ",", " a", " t", "all", " hat")
PIECES = ("[CLS]", "un", "##do", "it", "[SEP]")
MAPS = labelled({"head": torch.from_numpy(drawn(10, 10))}, tokens=TOKENS)
SIGNED = {"signed": True, "kind": "shares of the logit"}


def of(tokens: tuple[str, ...], **fields: Any) -> TokenMaps:
    """Signed shares of some tokens, rows the last three or those given."""
    values = torch.randn(2, 3, 3, len(tokens), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = tuple(range(len(tokens) - 3, len(tokens)))
    return TokenMaps(values, tokens, (1, 4), ("a", "b", "c"), rows, True, **SIGNED | fields)


# fmt: off
SPANS: dict[str, tuple[tuple[str, ...], Any, tuple[str, ...]]] = {
    "words": (TOKENS, None, ("<s>", "A", " tall", " man", ",", " a", " tall", " hat")),
    "pieces": (PIECES, None, ("[CLS]", "undo", "it", "[SEP]")),
    "a text": (TOKENS, {"subject": "A tall man"}, ("<s>", "subject", ",", " a", " t", "all", " hat")),
    "the second occurrence": (TOKENS, {"S2": ("tall", 1)}, (*TOKENS[:7], "S2", " hat")),
    "the last occurrence": (TOKENS, {"S2": ("tall", -1)}, (*TOKENS[:7], "S2", " hat")),
    "characters": (TOKENS, {"hat": (12, 22)}, (*TOKENS[:6], "hat")),
    "without capitals": (PIECES, {"UNDO": "Undo"}, ("[CLS]", "UNDO", "it", "[SEP]")),
    "a word and not a part of one": (("b", "a", " a"), {"x": "a"}, ("b", "a", "x")),
    "positions": (TOKENS, {"both": [2, 3, 7, 8]}, ("<s>", "A", "both", " man", ",", " a", " hat")),
    "a range": (TOKENS, {"all": range(1, 10)}, ("<s>", "all")),
    "two names": (TOKENS, {"x": "hat", "y": ("tall", 0)}, ("<s>", "A", "y", " man", ",", " a", " t", "all", "x")),
    "numbers": (PIECES, [-1, 0, 0, 1, -1], ("[CLS]", "undo", "it", "[SEP]")),
}
# fmt: on


@pytest.mark.parametrize("name", SPANS)
def test_spans_are_found_and_sums_are_kept(name: str) -> None:
    """Of attention a column is the sum over its tokens and a row the mean; all else as one group per token."""
    tokens, groups, expected = SPANS[name]
    maps = labelled({"head": torch.from_numpy(drawn(len(tokens), len(tokens)))}, tokens=tokens)
    grouped = ffb.group_tokens(maps, groups, text=TEXT if tokens == TOKENS else None)
    assert grouped.tokens == expected
    torch.testing.assert_close(grouped.values.sum(dim=-1), torch.ones(1, 1, len(expected), dtype=torch.float64))


WHOLE = {
    "words": (None, [[0], [1], [2, 3], [4], [5], [6], [7, 8], [9]]),
    "spans": ({"end": [7, 8, 9]}, [*([at] for at in range(7)), [7, 8, 9]]),
    "apart": ({"far": [0, 5], "end": [8, 9]}, [[0, 5], [1], [2], [3], [4], [6], [7], [8, 9]]),
}
"""Groups of ten tokens, and the tokens of each."""


@pytest.mark.parametrize("name", WHOLE)
def test_all_groups_sum_to_what_all_tokens_sum_to(name: str) -> None:
    """Of signed shares in rows and columns; cells that are NaN count as nothing, and a group of them alone stays NaN."""
    groups, members = WHOLE[name]
    maps = of(TOKENS)
    maps.values[..., 0, 8:] = torch.nan
    grouped = ffb.group_tokens(maps, groups)
    rows = [[maps.queries.index(at) for at in members[query]] for query in grouped.queries]
    by_hand = [[maps.values[:, :, row][..., keys].nansum(dim=(-1, -2)) for keys in members] for row in rows]
    expected = torch.stack([torch.stack(cells, dim=-1) for cells in by_hand], dim=-2)
    torch.testing.assert_close(grouped.values.nan_to_num(), expected)
    torch.testing.assert_close(grouped.values.nansum(dim=(-1, -2)), maps.values.nansum(dim=(-1, -2)))
    assert bool((grouped.values == 0).sum() == 0) and grouped.causal == (name != "apart")


def test_a_continuations_phrases_are_sums_of_attributions() -> None:
    """Row and column of a phrase: what a target that is the sum of its tokens' logits is attributed to."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 8)
    result = ffb.attribute_continuation(model, tokens[:5], tokens[5:].tolist())
    grouped = ffb.group_tokens(result, {"start": [0, 1], "phrase": [5, 6, 7]})
    assert grouped.queries == (4,) and grouped.tokens[0] == "start" and grouped.tokens[4] == "phrase"
    torch.testing.assert_close(grouped.values[0, 0, 0, 0], result.shares[:, :2].sum())
    torch.testing.assert_close(grouped.values.sum(), result.shares.nansum())


def test_the_residual_stream_of_a_span_is_that_of_its_tokens() -> None:
    """At every layer, of an attribution; the row stays the position at which the target is read."""
    result = ffb.attribute(model_of("gpt2"), tiny.tokens("gpt2", 6), ffb.logit(7), of=())
    grouped = ffb.group_tokens(result, {"span": [1, 2, 4]})
    torch.testing.assert_close(grouped.values[:, 0, 0, 1], result.residual[:, [1, 2, 4]].sum(dim=1))
    assert grouped.queries == (3,) and grouped.column == "flowing at"


def test_norms_are_grouped_as_shares() -> None:
    """Each row divided by its sum first: the sum of norms is not the norm of the sum."""
    maps = ffb.contribution_maps(model_of("gpt2"), tiny.tokens("gpt2", 6), layers=[1])
    grouped = ffb.group_tokens(maps, {"span": [2, 3]})
    cells = maps["Atb", 1] / maps["Atb", 1].sum(dim=1, keepdim=True)
    torch.testing.assert_close(grouped["Atb", 1][2, 2], cells[[2, 3]][:, [2, 3]].sum() / 2)
    assert grouped.kind == "shares of each row's contributions"


# fmt: off
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "twice": (lambda: ffb.group_tokens(MAPS, {"x": "tall"}), "occurs 2 times"),
    "nowhere": (lambda: ffb.group_tokens(MAPS, {"x": "short"}), r"groups\['x'\]='short': this text occurs 0 times in 'Atallman,atallhat'"),
    "a third": (lambda: ffb.group_tokens(MAPS, {"x": ("tall", 2)}), "occurs 2 times"),
    "empty": (lambda: ffb.group_tokens(MAPS, {"x": " "}), "occurs 0 times"),
    "part of a token": (lambda: ffb.group_tokens(MAPS, {"x": "tal"}), "occurs 2 times"),
    "inside a token": (lambda: ffb.group_tokens(MAPS, {"x": "an"}), r"inside a token of \[' man'\]"),
    "characters of nothing": (lambda: ffb.group_tokens(MAPS, {"x": (0, 3)}), "no text is given"),
    "characters of another text": (lambda: ffb.group_tokens(MAPS, {"x": (0, 3)}, text="tall"), "text='tall' is not the text of the tokens"),
    "characters inside": (lambda: ffb.group_tokens(MAPS, {"x": (0, 4)}, text=TEXT), "inside a token"),
    "overlap": (lambda: ffb.group_tokens(MAPS, {"x": "tall man", "y": [4, 5]}), "'y' and 'x' both hold ' man'@4"),
    "beyond": (lambda: ffb.group_tokens(MAPS, {"x": [10]}), "from -10 to 9"),
    "too few numbers": (lambda: ffb.group_tokens(MAPS, [0, 1]), "10 whole numbers"),
    "a text": (lambda: ffb.group_tokens(MAPS, "tall"), "groups='tall'"),
    "no maps": (lambda: ffb.group_tokens(3), "result is of type int"),
    "some rows": (lambda: ffb.group_tokens(of(TOKENS), {"x": [6, 7]}), "of 'x' some tokens are rows and some are not"),
    "a row twice": (lambda: ffb.group_tokens(labelled({"h": torch.ones(2, 2)}, queries=(1, 1))), "a row occurs twice"),
    "a difference of norms": (lambda: ffb.group_tokens(of(TOKENS, kind="difference of contributions")), "differences of norms"),
    "named positions": (lambda: ffb.group_tokens(of(TOKENS, kind="contributions", signed=False, whole=False)), "have no shares"),
}
# fmt: on


@pytest.mark.wrong_types
@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_groups_is_refused(name: str) -> None:
    """Spans that are not there, cut tokens, overlap; numbers that have no sum."""
    call, said = REFUSED[name]
    with pytest.raises(InputError, match=said):
        call()


def test_groups_that_lose_a_token_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums are checked when groups are made: a product that is one per cent wrong gives no result."""
    by_hand = torch.Tensor.__matmul__
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: by_hand(a, b) * (1.01 if b.ndim == 2 else 1.0))
    with pytest.raises(CompletenessError, match="groups differ from the sum of their tokens"):
        words.group_tokens(MAPS)


@pytest.mark.wrong_types
def test_words_of_another_length_are_shown_aligned() -> None:
    """Pairs of prompts: where they differ, with both sides and positions."""
    model, first = model_of("gpt2"), torch.tensor([7, 8, 9, 10])
    second = torch.tensor([7, 11, 12, 9, 10])
    for call in (
        lambda: ffb.attribution_patching(model, first, second, ffb.logit(7)),
        lambda: ffb.patched_maps(model, first, second, fwd_hooks=lambda cache: []),
    ):
        with pytest.raises(
            InputError, match=r"differ in \['8'\]@1 against \['11', '12'\]@1: use words of equally many"
        ):
            call()


# --- words of any script ------------------------------------------------------------------------------------------


@cache
def splitting(name: str) -> Any:
    """A small random model whose tokenizer splits characters."""
    tokenizer = SPLITTING[name]()
    model = tiny.bridge("llama", vocab_size=len(tokenizer), max_position_embeddings=256)
    model.tokenizer = tokenizer
    return model


@pytest.mark.parametrize("text", WORDS, ids=ascii)
def test_words_of_a_text(text: str) -> None:
    """As written by hand; words and the white space between them are the text."""
    spans = word_spans(text)
    assert tuple(text[slice(*span)] for span in spans) == WORDS[text]
    between = zip([0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)], strict=True)
    assert not any(text[start:end].strip() for start, end in between)


@pytest.mark.parametrize("name", SPLITTING)
@pytest.mark.parametrize("text", WORDS, ids=ascii)
def test_groups_are_words_even_where_tokens_are_parts_of_characters(text: str, name: str) -> None:
    """One group per word, labelled by its text; a span of the word is that group; groups of results and word maps are equal."""
    maps = ffb.attention_maps(splitting(name), text, layers=[0])
    grouped = ffb.group_tokens(maps)
    labels = [label.strip() for label in grouped.tokens if label.strip()]
    assert labels == ["<bos>", *WORDS[text]]
    word = max(WORDS[text], key=len)
    first = next(number for number, label in enumerate(grouped.tokens) if label.strip() == word)
    held = [at for at, number in enumerate(word_numbers(maps.tokens)) if number == first]
    spans = ffb.group_tokens(maps, {"x": (word, 0)}, text=text)
    assert (spans.tokens.index("x"), len(spans.tokens)) == (held[0], len(maps.tokens) - len(held) + 1)
    start = text.index(word)
    assert ffb.group_tokens(maps, {"x": (start, start + len(word))}, text=text) == spans
    torch.testing.assert_close(ffb.heads.word_maps(maps).values, grouped.values[..., 1:, 1:])


# fmt: off
READ: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "old files have no bytes": ((" \ufffd", "\ufffd", "bergröße", " der"), (" \ufffd\ufffdbergröße", " der")),
    "bytes of nothing": ((" a", "<0xC3>", " b"), (" a", "<0xC3>", " b")),
    "a byte is not special": (("<s>", "<0xC3>", "<0xA9>", "t"), ("<s>", "ét")),
    "WordPiece keeps no spaces": (("[CLS]", "don", "'", "t", "un", "##do", "[SEP]"), ("[CLS]", "don", "'", "t", "undo", "[SEP]")),
    "WordPiece continues": (("x", "##²", "カ", "##タ", "##と"), ("x²", "カタと")),
    "vocabulary of bytes": (("ĠThe", "Ġcur", "ator", "Ċ", "s"), ("ĠThe", "Ġcurator", "Ċ", "s")),
    "SentencePiece": (("▁The", "▁cur", "ator", "'", "s"), ("▁The", "▁curator's")),
    "Maltese": (("L", "-", "Ġ", "urnata", " tas", "-", "Ġimgħa"), ("L", "-", "Ġurnata", " tas", "-", "Ġimgħa")),
    "headings are not WordPiece": (("###", " Head", "ing"), ("###", " Heading")),
    "ids": (("17", "4", "99"), ("17", "4", "99")),
    "marks continue without spaces": (("नम", "\u0938\u094d", "\u0947"), ("नम", "\u0938\u094d\u0947")),
    "Thai without spaces": (("สวัส", "ดี", "ครับ"), ("สวัสดีครับ",)),
    "special tokens end words": (("▁a", "</s>", "b", "c"), ("▁a", "</s>", "bc")),
    "white space": ((" a", "\n", "\n\n", "b", "c"), (" a", "\n", "\n\n", "bc")),
    "a token of several words": ((" of the", "m", ".x"), (" of them.x",)),
    "Han": (("日本", "語", "\n"), ("日本", "語", "\n")),
}
# fmt: on


@pytest.mark.parametrize("name", READ)
def test_tokens_are_read_by_the_marks_of_their_tokenizer(name: str) -> None:
    """Labels alone tell spaces, `##` and bytes; where they tell nothing, each token is a word."""
    tokens, expected = READ[name]
    maps = labelled({"head": torch.from_numpy(drawn(len(tokens), len(tokens)))}, tokens=tokens)
    assert ffb.group_tokens(maps).tokens == expected


@pytest.mark.parametrize(("needle", "number", "tokens"), [("John", 1, ["John"]), ("John's", 0, ["John", "'", "s"])])
def test_a_sign_inside_a_word_bounds_a_text_that_is_looked_up(needle: str, number: int, tokens: list[str]) -> None:
    """The name "John" occurs in "John's", although that is one word."""
    labels = ("<s>", "John", "'", "s", " hat", " suits", " John")
    maps = labelled({"head": torch.from_numpy(drawn(7, 7))}, tokens=labels)
    grouped = ffb.group_tokens(maps, {"x": (needle, number)})
    assert len(grouped.tokens) == len(labels) - len(tokens) + 1
    assert grouped.tokens.index("x") == (6 if number else 1)


def test_words_that_end_at_signs_are_runs_of_letters_or_signs() -> None:
    """The paper's classes of pairs: in English as two classes of characters, in other scripts with marks and joiners."""
    english = "I don't, \"well-known\" -- 3.14 U.S. @-@ snake_case C++... (x)\n\tfoo@bar.org: $5 'tis"
    expected = tuple(found.span() for found in re.finditer(r"\w+|[^\w\s]+", english))
    assert word_spans(english, at_signs=True) == expected
    unsigned = {text: each for text, each in WORDS.items() if not re.search(r"[^\w\s]", unmarked(text))}
    assert len(unsigned) > 15
    for text, expected_words in unsigned.items():
        assert tuple(text[slice(*span)] for span in word_spans(text, at_signs=True)) == expected_words


def unmarked(text: str) -> str:
    """A text without combining marks and characters of format, such as joiners."""
    return "".join(char for char in text if unicodedata.category(char) not in ("Mn", "Mc", "Me", "Cf"))
