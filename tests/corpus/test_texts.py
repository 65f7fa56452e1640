"""Every kind of data gives the same texts; treebanks give all they have; what cannot be read is named and left out."""

import json
from pathlib import Path
from typing import Any

import pytest

from tl_ffblock.corpus.texts import Problem, Relation, read_conllu, read_texts
from tl_ffblock.errors import InputError
from tl_ffblock.experiments import Config

TEXTS = ["the cat sat", 'a dog , "and" the bird', "Why ?"]


def read(path: Path | str, **fields: Any) -> list[Any]:
    return list(read_texts(Config("m", str(path), "out", **fields)))


def texts(items: list[Any]) -> list[str]:
    return [item.text for item in items if hasattr(item, "text")]


FORMATS = [
    ("data.txt", "\ufeff" + "\n\n".join(TEXTS), {}),
    ("data.jsonl", "\n".join(json.dumps({"body": text}) for text in TEXTS), {"column": "body"}),
    ("data.csv", "id,text\n0,the cat sat\n1," + '"a dog , ""and"" the bird"\n2,Why ?', {}),
    ("data.tsv", "sentence\tlabel\n" + "\n".join(f"{text}\t1" for text in TEXTS), {"column": "sentence"}),
]


@pytest.mark.parametrize(("name", "content", "fields"), FORMATS)
def test_all_formats_give_the_same_texts(name: str, content: str, fields: dict[str, Any], tmp_path: Path) -> None:
    """A corpus is its texts, however it is stored."""
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert texts(read(tmp_path / name, **fields)) == TEXTS


def test_datasets_give_them_too(tmp_path: Path) -> None:
    """Without the column a dataset is refused with the columns it has."""
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    datasets.Dataset.from_dict({"text": TEXTS}).save_to_disk(tmp_path / "dataset")
    assert texts(read(tmp_path / "dataset")) == TEXTS
    with pytest.raises(InputError, match="'body'.*it has text"):
        read(tmp_path / "dataset", column="body")


def test_headings_begin_articles(tmp_path: Path) -> None:
    """Lines that match the pattern are no texts but name the article of those that follow."""
    path = tmp_path / "a.txt"
    path.write_text(" = One = \nx y\nz\n = Two = \nw\n")
    found = read(path, document_pattern="^ = ")
    assert texts(found) == ["x y", "z", "w"]
    assert len({item.document for item in found}) == 2


def test_unreadable_lines_are_named(tmp_path: Path) -> None:
    """Wrong bytes, wrong JSON, missing keys and empty texts: each is a problem with its line; the rest is read."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"text": "one"}\n{"text": \n{"other": 1}\n[1]\n{"text": "\xff"}\n{"text": " "}\n{"text": "two"}\n'
    )
    found = read(path)
    assert texts(found) == ["one", "two"]
    problems = [item.where for item in found if isinstance(item, Problem)]
    assert problems == [f"a.jsonl:{line}" for line in (2, 3, 4, 5, 6)]


@pytest.mark.parametrize(
    ("name", "content", "fields", "says"),
    [
        ("a.csv", "text\nx", {"column": "body"}, "no column 'body'; it has 'text'"),
        ("a.xyz", "x", {}, "ending '.xyz'"),
        ("missing.txt", None, {}, "no such file"),
        ("missing", None, {"format": "text"}, "no such file"),
    ],
)
def test_unusable_data_is_refused(
    name: str, content: str | None, fields: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """What cannot be read at all is an error that says why, before any model is loaded."""
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=says):
        read(tmp_path / name, **fields)


LEX = """# newdoc id = d1
# text = Rusted out cars don't sell.
1\tRusted\trust\tVERB\tVBN\t_\t5\t_\t_\t_\t1:1\tV\t_\t_\t_\t_\t_\t_\t_
2\tout\tout\tADP\tRP\t_\t1\t_\t_\t_\t1:2\tV\t_\t_\t_\t_\t_\t_\t_
3\tcars\tcar\tNOUN\tNNS\t_\t5\t_\t_\t_\t_\tN\t_\t_\t_\t_\t_\t_\t_
4-5\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_
4\tdo\tdo\tAUX\tVBP\t_\t6\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_
5\tn't\tnot\tPART\tRB\t_\t6\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_
6\tsell\tsell\tVERB\tVB\t_\t0\t_\t_\tSpaceAfter=No\t_\t_\t_\t_\t_\t_\t_\t_\t_
7\t.\t.\tPUNCT\t.\t_\t6\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_

# text = New York
1\tNew\t_\t_\t_\t_\t0\t_\t_\tNER=B-LOC\t_\t_\t_\t_\t_\t_\t_\t_\t_
2\tYork\t_\t_\t_\t_\t0\t_\t_\tNER=I-LOC\t_\t_\t_\t_\t_\t_\t_\t_\t_

# text = does not match
1\twords\t_\t_\t_\t_\t0\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_\t_
"""


def test_conllulex_gives_words_expressions_and_entities(tmp_path: Path) -> None:
    """Gold words by their characters, groups of two and more, articles; a sentence that fails is named."""
    path = tmp_path / "a.conllulex"
    path.write_text(LEX)
    first, second, wrong = read(path)
    assert [first.text[slice(*span)] for span in first.words] == ["Rusted", "out", "cars", "don't", "sell", "."]
    assert [[first.text[slice(*span)] for span in group] for group in first.groups] == [["Rusted", "out"]]
    assert [[second.text[slice(*span)] for span in group] for group in second.groups] == [["New", "York"]]
    assert first.document == second.document == "d1"
    assert wrong.where == "a.conllulex:17" and "'words'" in wrong.why


def test_cupt_names_its_columns(tmp_path: Path) -> None:
    """PARSEME's expressions are found by the name of their column; text is rebuilt where none is given."""
    path = tmp_path / "a.cupt"
    columns = "ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC PARSEME:MWE"
    rows = [("1", "take", "1:LVC"), ("2", "a", "*"), ("3", "walk", "1")]
    lines = ["\t".join([number, form, *["_"] * 8, mark]) for number, form, mark in rows]
    path.write_text(f"# global.columns = {columns}\n" + "\n".join(lines) + "\n")
    (found,) = read(path)
    assert found.text == "take a walk"
    assert [[found.text[slice(*span)] for span in group] for group in found.groups] == [["take", "walk"]]


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


RELATIONS = {
    "Mira's soup wasn't cold, though.": "Mira's nmod:poss soup; soup nsubj cold; wasn't cop cold; wasn't advmod cold; "
    "cold root; , punct though; though advmod cold; . punct cold",
    "Don't buy their spare tyres!!": "Don't aux buy; Don't advmod buy; buy root; their nmod:poss tyres; "
    "spare amod tyres; tyres obj buy; !! punct buy",
}
"""Between words as written: a clitic's relation to its own word is none, and "wasn't" has those of both its parts."""


@pytest.mark.parametrize("file", WORDS)
def test_a_treebank_is_read_whole(file: str) -> None:
    """Every sentence with its article, its words as written and its expressions; empty nodes are not words.

    Its text is the line `# text`, to the letter, so that characters can be counted in it. Relations are columns seven and
    eight: dependent, name and head, the root without one; subtypes are kept, words of empty nodes are not.
    """
    sentences: list[Any] = list(read_conllu(FOLDER / file))
    lines = (FOLDER / file).read_text(encoding="utf-8").splitlines()
    assert texts(sentences) == [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")]
    assert [sentence.document for sentence in sentences] == DOCUMENTS[file]
    assert len(RELATIONS.keys() & set(texts(sentences))) == 1
    for sentence, words, expressions in zip(sentences, WORDS[file], EXPRESSIONS[file], strict=True):
        named = [sentence.text[slice(*span)] for span in sentence.words]
        assert named == words.split()
        written = [" ".join(sentence.text[slice(*span)] for span in group) for group in sentence.groups]
        assert written == expressions
        heads = [arc.name if arc.head < 0 else f"{arc.name} {named[arc.head]}" for arc in sentence.relations]
        arcs = zip(sentence.relations, heads, strict=True)
        found = "; ".join(f"{named[arc.dependent]} {head}" for arc, head in arcs)
        assert found == RELATIONS.get(sentence.text, found)


def test_a_head_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    """Told with the word and the number, and the sentence is left out; words without head are read without relation."""
    row = "{0}\t{1}\t_\t_\t_\t_\t{2}\t{3}\t_\t_\n"
    wrong = "".join(row.format(*word) for word in ((1, "Dogs", 2, "nsubj"), (2, "bark", 7, "root")))
    without = "".join(row.format(*word) for word in ((1, "Dogs", "_", "_"), (2, "bark", 0, "root")))
    (tmp_path / "two.conllu").write_text(f"{wrong}\n{without}\n", encoding="utf-8")
    problem, sentence = read_conllu(tmp_path / "two.conllu")
    assert isinstance(problem, Problem) and "word 2 'bark' depends on word '7'" in problem.why
    assert sentence.relations == (Relation(1, -1, "root"),)
