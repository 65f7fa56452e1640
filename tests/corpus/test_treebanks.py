"""Treebank files with all that UD English-EWT and STREUSLE have in theirs; the sentences are our own."""

from pathlib import Path
from typing import Any

import pytest

from tl_ffblock.corpus.texts import Problem, Relation, read_conllu

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


RELATIONS = {
    "Mira's soup wasn't cold, though.": [
        "Mira's nmod:poss soup",
        "soup nsubj cold",
        "wasn't cop cold",
        "wasn't advmod cold",
        "cold root",
        ", punct though",
        "though advmod cold",
        ". punct cold",
    ],
    "Don't buy their spare tyres!!": [
        "Don't aux buy",
        "Don't advmod buy",
        "buy root",
        "their nmod:poss tyres",
        "spare amod tyres",
        "tyres obj buy",
        "!! punct buy",
    ],
}
"""Between words as written: a clitic's relation to its own word is none, and "wasn't" has those of both its parts."""


@pytest.mark.parametrize("file", WORDS)
def test_relations_are_columns_seven_and_eight(file: str) -> None:
    """Dependent, name and head, the root without one; subtypes are kept, words of empty nodes are not."""
    seen = 0
    for sentence in sentences(file):
        named = [sentence.text[slice(*span)] for span in sentence.words]
        read = [
            f"{named[arc.dependent]} {arc.name}{'' if arc.head < 0 else ' ' + named[arc.head]}"
            for arc in sentence.relations
        ]
        seen += sentence.text in RELATIONS
        assert read == RELATIONS.get(sentence.text, read)
    assert seen == 1


def test_a_head_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    """Told with the word and the number, and the sentence is left out; words without head are read without relation."""
    row = "{0}\t{1}\t_\t_\t_\t_\t{2}\t{3}\t_\t_\n"
    wrong = "".join(row.format(*word) for word in ((1, "Dogs", 2, "nsubj"), (2, "bark", 7, "root")))
    without = "".join(row.format(*word) for word in ((1, "Dogs", "_", "_"), (2, "bark", 0, "root")))
    (tmp_path / "two.conllu").write_text(f"{wrong}\n{without}\n", encoding="utf-8")
    problem, sentence = read_conllu(tmp_path / "two.conllu")
    assert isinstance(problem, Problem) and "word 2 'bark' depends on word '7'" in problem.why
    assert sentence.relations == (Relation(1, -1, "root"),)


@pytest.mark.parametrize("file", WORDS)
def test_texts_are_those_of_the_comments(file: str) -> None:
    """A sentence's text is the line `# text`, to the letter, so that characters can be counted in it."""
    lines = (FOLDER / file).read_text(encoding="utf-8").splitlines()
    expected = [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")]
    assert [sentence.text for sentence in sentences(file)] == expected
