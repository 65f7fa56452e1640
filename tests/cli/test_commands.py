"""Help, version and the list of models: quick and without heavy imports."""

import os
import subprocess
import sys
import warnings

import pytest

import tl_ffblock
from tests import tiny
from tl_ffblock.bridge import loading
from tl_ffblock.bridge.families import FAMILIES
from tl_ffblock.bridge.loading import SHIPPED
from tl_ffblock.cli.main import COMMANDS
from tl_ffblock.layer.scopes import STEPS

from .conftest import Command

HEAVY = {"torch", "transformers", "transformer_lens", "numpy", "scipy", "pandas", "captum", "circuitsvis"}


def test_heavy_libraries_are_imported_late() -> None:
    """Nothing that takes seconds to import is imported before a model is needed; what an ASCII output cannot show is escaped."""
    lines = (
        "--help",
        "--version",
        "models",
        "map --help",
        "check --help",
        "run --help",
        "replicate --help",
        "replicate --out run --workers 3",
        "map",
        "map x --layers 6",
        "map x --scopes AtbLnFf",
        "map x --model /nowhere",
        "run bypass --data missing.txt --out run",
        "run bypass --data /etc/hosts --format text --out /etc/hosts",
    )
    script = f"""
import sys
from tl_ffblock.cli.main import main
for line in {lines!r}:
    try:
        main(line.split())
    except SystemExit:
        pass
    print("IMPORTED", line, *sorted({HEAVY!r} & set(sys.modules)))
"""
    narrow = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=narrow)
    assert "minilm" in ran.stdout and "Traceback" not in ran.stderr
    assert [line for line in ran.stdout.splitlines() if line.startswith("IMPORTED")] == [f"IMPORTED {x}" for x in lines]
    assert "data='missing.txt': there is no such file." in ran.stderr and "is a file; expected a folder" in ran.stderr


def test_help_names_every_option(command: Command) -> None:
    """All of a command's options, with their defaults."""
    ran = command("map", "--help")
    assert ran.status == 0
    options = (
        "--model --layers --scopes --queries --tokens --device --precision --out --save --csv --value-bias --method"
    )
    assert all(part in ran.out for part in ("TEXT", "map.html", *options.split()))


def test_version(command: Command) -> None:
    """The package's own."""
    assert command("--version").out == f"tl-ffblock {tl_ffblock.__version__}\n"


def test_models_lists_what_the_library_supports(command: Command) -> None:
    """Every family under its order, every shipped model with its state and prompts, each scope beside what its last step is."""
    ran = command("models")
    text = " ".join(ran.out.split())
    assert (ran.status, ran.err) == (0, "")
    for family in FAMILIES:
        assert family.name in text and family.order in text
    for name, shipped in SHIPPED.items():
        assert name in text
        assert shipped.folder() or shipped.install in text
    # Nobody takes smollm2 for a base model, or its first token for a mistake.
    assert all(part in text for part in ("SmolLM2-135M-Instruct", "prompts begin with", "<|im_start|>"))
    rows = [line.rstrip().split(maxsplit=2) for line in ran.out.partition("Scopes: ")[2].splitlines()]
    for order, steps in STEPS.items():
        first = next(index for index, row in enumerate(rows) if row[:1] == [order])
        assert rows[first][1:] == [steps[0].scope, steps[0].shows]
        rest = [" ".join(row) for row in rows[first + 1 : first + len(steps)]]
        assert rest == [f"{step.scope} {step.shows}" for step in steps[1:]]


@pytest.mark.parametrize(("given", "meant"), [("maps", "map"), ("Check", "check"), ("model", "models"), ("xyz", None)])
def test_an_unknown_command_is_refused(command: Command, given: str, meant: str | None) -> None:
    """Status 2, one line with the commands there are and the one that was probably meant."""
    ran = command(given, "x")
    guess = "" if meant is None else f"Did you mean `{meant}`? "
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == (f"tl-ffblock: error: there is no command {given!r}. {guess}There are {', '.join(COMMANDS)}.\n")


def test_check_says_that_weights_were_processed(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Norms of folded and centred weights are another model's: the first line says so."""
    model = tiny.bridge("gpt2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.enable_compatibility_mode()
    monkeypatch.setattr(loading, "load_model", lambda *_, **__: model)
    ran = command("check")
    assert ran.status == 0
    assert "processed weights: folded or centred after loading" in ran.out.splitlines()[0]


def test_a_command_is_required(command: Command) -> None:
    """Usage and status 2."""
    ran = command()
    assert ran.status == 2
    assert "required: COMMAND" in ran.err
