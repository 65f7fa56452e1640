"""Files as laboratories have them and folders as they become: each is read, named in `problems`, or refused in a sentence."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.corpora import ENVIRONMENT, stored_tables
from tests.own_studies import Lengths, lengths
from tl_ffblock.cli.main import main
from tl_ffblock.corpus.outputs import MANIFEST
from tl_ffblock.corpus.runs import CorpusRun
from tl_ffblock.corpus.shards import cut_into_shards
from tl_ffblock.corpus.store import ForeignFolderError
from tl_ffblock.corpus.texts import LONGEST_LINE, LONGEST_SENTENCE, Problem, read_texts
from tl_ffblock.errors import FFBlockError, InputError
from tl_ffblock.experiments import Config

Run = Callable[..., CorpusRun]
LENGTHS = (lengths(),)
GOOD = ["the cat sat", "a dog"]


def conllu(*ids: str, misc: str = "_", width: int = 10) -> str:
    """A sentence of words under these numbers."""
    return "".join("\t".join([number, f"w{at}", *"_" * 7, misc][:width]) + "\n" for at, number in enumerate(ids)) + "\n"


SENTENCE = conllu("1", "2")
# fmt: off
ROWS: dict[str, tuple[str, bytes, str, str]] = {
    # name: file, content, where the bad row is, what is said of it; every file has two good rows or sentences around the bad one
    "latin-1": ("a.txt", b"the cat sat\ncaf\xe9\na dog\n", "a.txt:2", r"not UTF-8: byte 0xe9 at character 4; save the file as UTF-8"),
    "nul": ("a.txt", b"the cat sat\nx\0y\na dog\n", "a.txt:2", "NUL byte at character 2"),
    "long line": ("a.txt", b"the cat sat\n" + b"x" * (2 * LONGEST_LINE + 5) + b"\na dog\n", "a.txt:2", "longer than"),
    "nul in JSON": ("a.jsonl", b'{"text": "the cat sat"}\n{"text": "x\\u0000y"}\n{"text": "a dog"}\n', "a.jsonl:2", "NUL byte"),
    "lone surrogate": ("a.jsonl", b'{"text": "the cat sat"}\n{"text": "x\\ud800"}\n{"text": "a dog"}\n', "a.jsonl:2", r"half a surrogate pair, U\+D800"),
    "nested": ("a.jsonl", b'{"text": "the cat sat"}\n' + b"[" * 100_000 + b'\n{"text": "a dog"}\n', "a.jsonl:2", "is not JSON"),
    "huge integer": ("a.jsonl", b'{"text": "the cat sat"}\n{"text": ' + b"1" * 5000 + b'}\n{"text": "a dog"}\n', "a.jsonl:2", "is not JSON"),
    "name twice": ("a.jsonl", b'{"text": "the cat sat"}\n{"text": "x", "text": "y"}\n{"text": "a dog"}\n', "a.jsonl:2", "'text' stands twice"),
    "old Mac": ("a.txt", b"the cat sat\nx\ry\r\na dog\r\n", "a.txt:2", "carriage return at character 2: save the file with line feeds"),
    "no object": ("a.jsonl", b'{"text": "the cat sat"}\nnull\n{"text": "a dog"}\n', "a.jsonl:2", "no text under 'text'"),
    "unclosed quote": ("a.csv", b'text\nthe cat sat\n"and so on\na dog\n', "a.csv:3", "opens a quote that is not closed"),
    "quote closed by another": ("a.csv", b'text\nthe cat sat\n"open\n"a dog"\n', "a.csv:3", "opens a quote that is not closed"),
    "comma without quotes": ("a.csv", b"text\nthe cat sat\nfirst, second\na dog\n", "a.csv:3", "has 2 cells, the header has 1"),
    "short row": ("a.csv", b"id,text\n1,the cat sat\n2\n3,a dog\n", "a.csv:3", "has 1 cells, the header has 2"),
    "quote in the midst": ("a.csv", b'text\nthe cat sat\n"so" said\na dog\n', "a.csv:3", "not a row of CSV"),
    "bytes in a cell": ("a.csv", b'text\nthe cat sat\n\xff\na dog\n', "a.csv:3", "byte 0xff"),
    "tab": ("a.tsv", b"text\nthe cat sat\nx\ty\na dog\n", "a.tsv:3", "has 2 cells"),
    "ids out of order": ("a.conllu", (SENTENCE + conllu("2", "1") + SENTENCE).encode(), "a.conllu:4", "after 0 is numbered '2'; expected 1"),
    "id twice": ("a.conllu", (SENTENCE + conllu("1", "1") + SENTENCE).encode(), "a.conllu:4", "after 1 is numbered '1'; expected 2"),
    "absurd range": ("a.conllu", (SENTENCE + conllu("1-3000000000", "1", "2") + SENTENCE).encode(), "a.conllu:4", "numbered '1-3000000000'"),
    "range backwards": ("a.conllu", (SENTENCE + conllu("1", "2-1", "2") + SENTENCE).encode(), "a.conllu:4", "numbered '2-1'"),
    "id of other digits": ("a.conllu", (SENTENCE + conllu("²", "1") + SENTENCE).encode(), "a.conllu:4", "numbered"),
    "depends on itself": ("a.conllu", (SENTENCE + "1\ta\t_\t_\t_\t_\t1\troot\t_\t_\n\n" + SENTENCE).encode(), "a.conllu:4", "word 1 'a' depends on itself"),
    "no empty lines": ("a.conllu", (SENTENCE + conllu(*map(str, range(1, LONGEST_SENTENCE + 5))) + SENTENCE).encode(), "a.conllu:4", "a sentence of more than"),
    "old Mac treebank": ("a.conllu", (SENTENCE + conllu("1", "2").replace("\n", "\r")[:-1] + "\n\n" + SENTENCE).encode(), "a.conllu:4", "carriage return"),
    "narrow": ("a.conllu", (SENTENCE + conllu("1", width=4) + SENTENCE).encode(), "a.conllu:4", r"lines of \[4\] columns"),
    "bytes in a treebank": ("a.conllu", SENTENCE.encode() + b"# text = \xff\n" + SENTENCE.encode() + SENTENCE.encode(), "a.conllu:4", "byte 0xff"),
}
# fmt: on


@pytest.mark.parametrize("name", ROWS)
def test_a_bad_row_is_a_problem_and_the_rest_is_read(name: str, tmp_path: Path) -> None:
    """Named by file, line and reason; the rows before and after it are read."""
    file, content, where, said = ROWS[name]
    (tmp_path / file).write_bytes(content)
    found = list(read_texts(Config("m", str(tmp_path / file), "out")))
    (problem,) = [item for item in found if isinstance(item, Problem)]
    assert problem.where == where
    assert re.search(said, problem.why), problem.why
    texts = [item.text for item in found if not isinstance(item, Problem)]
    assert texts == (GOOD if not file.endswith("conllu") else ["w0 w1"] * 2)
    json.dumps(problem.why).encode()  # it can be printed and stored


# fmt: off
REFUSED = {
    "UTF-16": ("a.txt", "the cat".encode("utf-16"), "UTF-16: expected UTF-8.*iconv"),
    "UTF-16 table": ("a.csv", "text\nthe cat".encode("utf-16"), "UTF-16"),
    "UTF-32": ("a.txt", "the cat".encode("utf-32"), "UTF-32: expected UTF-8.*iconv -f UTF-32"),
    "gzip": ("a.csv", gzip.compress(b"text\nthe cat\n"), "a.csv is compressed by gzip: unpack it first"),
    "Excel": ("a.csv", b"PK\x03\x04" + b"x" * 99, "save the table as CSV"),
    "old Mac": ("a.txt", b"the cat\ra dog\r", "no text to read .*carriage return"),
    "mostly bad": ("a.txt", b"good\n" * 80 + b"\xe9\n" * 20, r"more than 10% of its rows cannot be read \(20 lines .* a\.txt:81 is not UTF-8: byte 0xe9"),
    "all bad": ("a.txt", b"x\0\n", r"no text to read \(1 lines cannot be read; a\.txt:1 holds a NUL byte"),
    "long header": ("a.csv", b"x" * 131_073 + b"\ntext\n", "no column 'text'"),
    "unclosed header": ("a.csv", b'"text\nthe cat\n', "a.csv:1.*opens a quote"),
    "column twice": ("a.csv", b"text,text\na,b\n", "no column 'text'"),
    "empty table": ("a.csv", b"", "no text"),
}
# fmt: on


@pytest.mark.parametrize("name", REFUSED)
def test_data_that_is_mostly_unreadable_is_refused(name: str, tmp_path: Path) -> None:
    """Before any computing, with the first bad place and what to do."""
    file, content, said = REFUSED[name]
    (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError, match=said):
        cut_into_shards(Config("m", str(tmp_path / file), "out"))
    if name == "mostly bad":
        assert cut_into_shards(Config("m", str(tmp_path / file), "out", unreadable=0.5)).unreadable == 20


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.txt", "a.conllu"])
def test_a_byte_order_mark_is_no_text(name: str, tmp_path: Path) -> None:
    """As Excel and Notepad write it: the first row, column or sentence is read."""
    content = {"a.jsonl": '{"text": "the cat"}\n', "a.txt": "the cat\n", "a.conllu": conllu("1")}.get(
        name, "text\nthe cat\n"
    )
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content.encode())
    (text,) = read_texts(Config("m", tmp_path / name, "out"))
    assert getattr(text, "text", "") in ("the cat", "w0")
    if name in ("a.txt", "a.jsonl"):  # two files joined
        (tmp_path / name).write_bytes(2 * (b"\xef\xbb\xbf" + content.encode()))
        assert [getattr(text, "text", "") for text in read_texts(Config("m", tmp_path / name, "out"))] == [
            "the cat"
        ] * 2


def test_a_document_may_have_no_id(tmp_path: Path) -> None:
    """`# newdoc` alone begins an article, and its sentences are not those of the one before."""
    (tmp_path / "a.conllu").write_text(f"# newdoc id = A\n{SENTENCE}# newdoc\n{SENTENCE}{SENTENCE}")
    found = [getattr(text, "document", "") for text in read_texts(Config("m", tmp_path / "a.conllu", "out"))]
    assert found == ["A", "a.conllu:5", "a.conllu:5"]


@pytest.mark.parametrize("name", ["a.txt", "a.conllu", "a.csv", "a.jsonl"])
def test_what_has_no_end_is_not_read(name: str, tmp_path: Path) -> None:
    """A pipe would be waited for, a device read for ever: refused at once, by whatever format."""
    os.mkfifo(tmp_path / name)
    (tmp_path / f"zero{name}").symlink_to("/dev/zero")
    for path in (tmp_path / name, tmp_path / f"zero{name}"):
        for format in ("auto", "text"):
            with pytest.raises(InputError, match=rf"cannot read .*{name}: it is a device or a pipe"):
                cut_into_shards(Config("m", path, "out", format=format))


def test_bytes_of_a_dataset_that_are_no_text_cost_their_row() -> None:
    """Arrow does not check them when a table is made; rows around it are read, whatever form the dataset was asked for."""
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    rows = [b"the cat sat", b"caf\xe9", b"a dog"]
    ends = np.cumsum([0, *map(len, rows)], dtype="int32")
    cells = pa.Array.from_buffers(pa.string(), 3, [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(rows))])
    data = datasets.Dataset(pa.table({"text": cells}))
    for of in (data, data.with_format("pandas"), data.with_format("arrow")):
        first, problem, last = read_texts(Config("m", of, "out"))
        assert isinstance(problem, Problem) and problem.where == "train[1]" and "cannot be read" in problem.why
        assert [getattr(text, "text", "") for text in (first, last)] == GOOD


def test_a_dataset_is_a_corpus(run: Run, tmp_path: Path) -> None:
    """A `datasets.Dataset` or a split of a dict of them gives the tables that its texts in a file give."""
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    texts = ["the cat sat on the mat .", "a dog and the bird"]
    (tmp_path / "a.txt").write_text("\n".join(texts))
    expected = run(LENGTHS, data=str(tmp_path / "a.txt"), out="file")
    of = datasets.Dataset.from_dict({"body": texts, "more": [1, 2]})
    for data in (of, datasets.DatasetDict({"train": of})):
        found = run(LENGTHS, data=data, column="body", out=type(data).__name__, examples=1)
        assert found.status == 0 and found.tables["lengths_tokens"].equals(expected.tables["lengths_tokens"])
        assert type(data).__name__ in found.outputs.report.read_text()
    with pytest.raises(InputError, match="no column 'text'; it has body, more"):
        run(LENGTHS, data=of, out="none")
    with pytest.raises(InputError, match="expected a file's name or a datasets.Dataset"):
        run(LENGTHS, data=3, out="none")


def test_a_shard_of_another_run_or_number_is_refused(run: Run) -> None:
    """Copied from another seed's run, or renamed: by its path, and it stays where it is; without it the run ends as before."""
    first, other = run(LENGTHS, limit=12), run(LENGTHS, limit=12, seed=1, out="other")
    tables, shards = stored_tables(first.folder), sorted((first.folder / "shards").iterdir())
    theirs = sorted((other.folder / "shards").iterdir())[1]
    second, third = shards[1].read_bytes(), shards[2]
    for fake, source in (
        (shards[1].with_name(theirs.name), theirs),
        (shards[1].with_name(third.name.replace("000002", "000001")), third),
    ):
        shards[1].unlink()
        shutil.copy(source, fake)
        with pytest.raises(ForeignFolderError, match=rf"{fake.name} is not shard 1 of this run"):
            run(LENGTHS, limit=12)
        assert fake.exists()
        fake.unlink()
        shards[1].write_bytes(second)
    assert run(LENGTHS, limit=12).status == 0 and stored_tables(first.folder) == tables


def test_files_of_others_are_left_alone(run: Run) -> None:
    """Hidden files and Jupyter's folders, beside the shards too; the manifest names what is the run's, by digest."""
    folder = run(LENGTHS, limit=4, examples=1).folder
    foreign = [folder / place / ".ipynb_checkpoints" / "x" for place in ("tables", "figures", "shards", "maps")]
    for path in (*foreign, folder / "tables" / ".notes", folder / ".report.html.swp"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    page = folder / "maps" / "example-1.html"
    whole = page.read_bytes()
    page.write_bytes(whole[:-5])
    assert run(LENGTHS, limit=4, examples=1).status == 0
    assert all(path.read_text() == "mine" for path in foreign) and (folder / "tables" / ".notes").exists()
    assert page.read_bytes() == whole
    named = json.loads((folder / MANIFEST).read_text())
    assert {"tables/lengths_tokens.csv", "report.html", "summary.json", "maps/example-1.html"} <= named.keys()
    assert not any("ipynb" in name or ".notes" in name for name in named)


@pytest.mark.parametrize("content", [b"null", b"[" * 100_000, b'{"fingerprint": 1}', b"{}", b"\xff"])
def test_a_run_file_of_any_form_is_refused(content: bytes, run: Run) -> None:
    """In a sentence that names it."""
    (run(LENGTHS, limit=2).folder / "run.json").write_bytes(content)
    with pytest.raises(FFBlockError, match=r"run\.json"):
        run(LENGTHS, limit=2)


def test_names_may_be_of_any_bytes(run: Run, tmp_path: Path) -> None:
    """Folder and file of names that are not UTF-8: tables, report and problems are written."""
    data = tmp_path / os.fsdecode(b"d\xff.txt")
    data.write_bytes(b"the cat sat\n\xff\na dog\n")
    finished = run(LENGTHS, data=str(data), out=os.fsdecode(b"r\xff"), examples=1)
    assert finished.status == 3 and "d\\xff.txt:2" in finished.outputs.report.read_text("utf-8")


def test_a_tagger_that_cannot_be_used_is_refused_at_once(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No function, or a module that fails when it is imported."""
    (tmp_path / "failing_tagger.py").write_text("1 / 0")
    (tmp_path / "no_tagger.py").write_text("tag = 3")
    monkeypatch.syspath_prepend(tmp_path)
    for name, said in (
        ("failing_tagger:tag", "ZeroDivisionError"),
        ("no_tagger:tag", "expected a function, got 3"),
    ):
        with pytest.raises(InputError, match=said):
            run(LENGTHS, limit=2, tagger=name)


def test_memory_that_runs_out_is_not_blamed_on_a_sequence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch says so in a RuntimeError: the shard fails, is told, and is done by the next start."""

    def measure(*_: object) -> None:
        raise RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory: you tried 9 bytes"
        )

    with monkeypatch.context() as patch:
        patch.setattr(Lengths, "measure", measure)
        finished = run(LENGTHS, limit=2)
    assert finished.status == 1 and "can't allocate memory" in finished.failed_shards[0]
    assert run(LENGTHS, limit=2).status == 0


def test_memory_that_runs_out_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Python's own error and torch's; any other mistake keeps its traceback."""
    for error, shown in (
        (MemoryError(), True),
        (RuntimeError("CUDA out of memory. Tried"), True),
        (RuntimeError("odd"), False),
    ):

        def fail(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        monkeypatch.setattr("tl_ffblock.cli.main.parser", fail)
        if shown:
            assert main(["models"]) == 1
            assert "memory ran out" in capsys.readouterr().err
        else:
            with pytest.raises(RuntimeError, match="odd"):
                main(["models"])


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", ">&- <&- 2>&-"])
def test_streams_may_be_closed(closed: str, tmp_path: Path) -> None:
    """A shell that closes a stream gets the status that it gets otherwise, and no traceback."""
    command = f"exec {sys.executable} -W ignore -m tl_ffblock models {closed}"
    done = subprocess.run(
        ["bash", "-c", command], env=ENVIRONMENT, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
