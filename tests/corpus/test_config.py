"""Options document themselves and refuse what no run can mean."""

import argparse
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from typing import Any

import pytest

from tl_ffblock.cli.run import add_to, config_and_options
from tl_ffblock.corpus.fields import REQUIRED, declared_fields, texts_of
from tl_ffblock.errors import InputError
from tl_ffblock.experiments import STUDIES, Config, study

FIELDS = {"model": "m", "data": "d.txt", "out": "o"}


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    """The command `run` alone."""
    parser = argparse.ArgumentParser()
    add_to(parser.add_subparsers())
    return parser


def test_what_is_declared_is_what_is_there() -> None:
    """Names, defaults and texts read from the source are those of the imported classes."""
    classes = [("tl_ffblock.corpus.settings", "Config")]
    classes += [(entry.module, entry.options) for entry in STUDIES.values() if entry.options]
    for module, name in classes:
        there = fields(getattr(import_module(module), name))
        declared = declared_fields(module, name)
        assert [field.name for field in declared] == [field.name for field in there]
        for field, expected in zip(declared, there, strict=True):
            assert field.default is REQUIRED or field.default == expected.default
            assert len(field.text) > 10
    assert texts_of(Config(**FIELDS))["seed"] == "Of every random choice: sample, masks, permutations, controls."


def test_help_shows_every_option_and_imports_nothing_heavy() -> None:
    """All options of the run and of every study, without torch, pandas or numpy."""
    program = (
        "import sys\nfrom tl_ffblock.cli.main import main\ntry:\n    main(['run', '--help'])\n"
        "finally:\n    print({'torch', 'pandas', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
    names = [field.name for entry in STUDIES.values() for field in entry.fields] + [f.name for f in fields(Config)]
    assert len(set(names)) == len(names), "two options have one name"
    assert all(f"--{name.replace('_', '-')}" in done.stdout for name in names)
    assert all(f"options of {name}" in done.stdout for name, entry in STUDIES.items() if entry.fields)


def test_arguments_become_config_and_options(parser: argparse.ArgumentParser) -> None:
    """Numbers, lists, choices and absent values arrive as the fields' types; options go to their studies."""
    arguments = [
        "run",
        "bypass,cost",
        "--data",
        "d",
        "--out",
        "o",
        "--lengths",
        "4,8",
        "--limit",
        "3",
        "--mask-fraction",
        "0.5",
    ]
    config, options = config_and_options(parser.parse_args(arguments))
    assert (config.model, config.limit, config.mask_fraction, config.seed) == ("minilm", 3, 0.5, 0)
    assert options == {"bypass": {}, "cost": {"lengths": (4, 8)}}


def test_options_of_studies_that_are_not_run_are_refused(parser: argparse.ArgumentParser) -> None:
    """An option without effect would be a mistake in silence."""
    with pytest.raises(InputError, match="--window is an option of amplification, which is not among the studies"):
        config_and_options(parser.parse_args(["run", "bypass", "--data", "d", "--out", "o", "--window", "3"]))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"engine": "dask"}, "local, ray"),
        ({"limit": 0}, "limit=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"mask_fraction": 1.0}, "mask_fraction"),
        ({"seed": -1}, "seed=-1"),
        ({"document_pattern": "("}, r"document_pattern='\('.*expected a regular expression"),
    ],
)
def test_wrong_settings_are_refused_by_name(wrong: dict[str, Any], says: str) -> None:
    """The message names the field, its value and what was expected."""
    with pytest.raises(InputError, match=says):
        Config(**{**FIELDS, **wrong})


@pytest.mark.parametrize(
    ("name", "wrong", "says"),
    [
        ("norms", {}, "there is no study 'norms'; expected one or several of contextualization, "),
        ("", {}, "no study is named"),
        ("outliers", {"ignored_dimensions": -0.1}, "ignored_dimensions=-0.1"),
        ("attribution-methods", {"short_tokens": 30}, "short_tokens=30"),
        ("attribution-methods", {"shapley_samples": 0}, "shapley_samples=0"),
        ("cost", {"lengths": ()}, "lengths"),
        ("amplification", {"top_pairs": 0}, "top_pairs=0"),
        ("amplification", {"lengths": (4,)}, "amplification has no option lengths; it has window, top_pairs"),
    ],
)
def test_wrong_studies_and_options_are_refused_by_name(name: str, wrong: dict[str, Any], says: str) -> None:
    """The message names the study or the option, its value and what was expected."""
    with pytest.raises(InputError, match=says):
        study(name, **wrong)
