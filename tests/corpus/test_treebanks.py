"""Treebank files with all that UD English-EWT and STREUSLE have in theirs; the sentences are our own."""

from pathlib import Path
from typing import Any

import pytest

from tl_ffblock.corpus.texts.conllu import read_conllu

FOLDER = Path(__file__).resolve().parent / "treebanks"
WORDS = {
    "own.conllu": [
        "Mira's soup wasn't cold , though .",
        "Anna ate rice and Jörg the naïve café's last crêpe .",
        'Write to Lower Saxony\'s " new " office at 10:30 a.m. ;-)',
    ],
    "own.conllulex": ["They looked the old prices up by hand .", "Don't buy their spare tyres !!"],
}
"""Gold words as they are written, a word with its clitics as one."""
EXPRESSIONS = {"own.conllu": [[], [], ["Lower Saxony's"]], "own.conllulex": [["looked up", "by hand"], []]}
"""Entities of two words; strong expressions, gaps allowed. Weak ones ("spare tyres") are left out."""
DOCUMENTS = {"own.conllu": ["kitchen", "kitchen", "letters"], "own.conllulex": ["garage", "garage"]}


def sentences(file: str) -> list[Any]:
    """All that stands in a file."""
    return list(read_conllu(FOLDER / file))


@pytest.mark.parametrize("file", WORDS)
def test_a_treebank_is_read_whole(file: str) -> None:
    """Every sentence with its article, its text, its words as written and its expressions; empty nodes are not words."""
    for sentence, words, expressions, document in zip(
        sentences(file), WORDS[file], EXPRESSIONS[file], DOCUMENTS[file], strict=True
    ):
        assert [sentence.text[slice(*span)] for span in sentence.words] == words.split()
        written = [" ".join(sentence.text[slice(*span)] for span in group) for group in sentence.groups]
        assert (written, sentence.document) == (expressions, document)


@pytest.mark.parametrize("file", WORDS)
def test_texts_are_those_of_the_comments(file: str) -> None:
    """A sentence's text is the line `# text`, to the letter, so that characters can be counted in it."""
    lines = (FOLDER / file).read_text(encoding="utf-8").splitlines()
    expected = [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")]
    assert [sentence.text for sentence in sentences(file)] == expected
