"""Help, version and the list of models: quick and without heavy imports."""

import subprocess
import sys

import pytest

from .conftest import Command

HEAVY = {"torch", "transformers", "transformer_lens", "numpy", "scipy", "pandas", "captum", "circuitsvis"}


@pytest.mark.parametrize("arguments", [["--help"], ["map", "--help"], ["--version"], ["map"]], ids=" ".join)
def test_heavy_libraries_are_imported_late(arguments: list[str]) -> None:
    """Nothing that takes seconds to import is imported before a model is needed."""
    script = f"""
import sys
from tl_ffblock.cli.main import main
try:
    main({arguments!r})
except SystemExit:
    pass
print("IMPORTED", *sorted({HEAVY!r} & set(sys.modules)))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1].split() == ["IMPORTED"]


def test_help_names_every_option(command: Command) -> None:
    """All of a command's options, with their defaults."""
    ran = command("map", "--help")
    assert ran.status == 0
    for option in (
        "TEXT",
        "--model",
        "--layers",
        "--scopes",
        "--out",
        "--save",
        "--value-bias",
        "--method",
        "map.html",
    ):
        assert option in ran.out


def test_version(command: Command) -> None:
    """The package's own."""
    import tl_ffblock

    assert command("--version").out == f"tl-ffblock {tl_ffblock.__version__}\n"


def test_models_lists_what_the_library_supports(command: Command) -> None:
    """Every shipped model with its state, every family under its order."""
    from tl_ffblock.bridge.families import FAMILIES
    from tl_ffblock.bridge.shipped import SHIPPED

    ran = command("models")
    text = " ".join(ran.out.split())
    assert (ran.status, ran.err) == (0, "")
    for family in FAMILIES:
        assert family.name in text
        assert family.order in text
    for name, shipped in SHIPPED.items():
        assert name in text
        assert shipped.folder() or shipped.install in text


def test_a_narrow_encoding_is_no_obstacle(process: Command) -> None:
    """Where standard output is ASCII, what it cannot show is escaped."""
    ran = process("models", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (ran.status, ran.err) == (0, "")
    assert "minilm" in ran.out


def test_a_command_is_required(command: Command) -> None:
    """Usage and status 2."""
    ran = command()
    assert ran.status == 2
    assert "required: COMMAND" in ran.err
