"""The config documents itself and refuses what no run can mean."""

import argparse
from dataclasses import fields
from typing import Any

import pytest

FIELDS = {"experiment": "norms", "model": "m", "data": "d.txt", "out": "o"}


def test_every_field_has_a_text_and_an_option() -> None:
    """The text below a field is the help of its option; none is missing."""
    from tl_ffblock.cli.run import add_to
    from tl_ffblock.corpus.running.settings import Config, field_help

    parser = argparse.ArgumentParser()
    add_to(parser.add_subparsers())
    options = vars(parser.parse_args(["run", "norms", "--data", "d", "--out", "o"]))
    for field in fields(Config):
        assert len(field_help()[field.name]) > 10
        assert field.name in options


def test_options_become_the_config() -> None:
    """Numbers, lists, choices and absent values arrive as the fields' types."""
    from tl_ffblock.cli.run import add_to
    from tl_ffblock.corpus.running.settings import Config

    parser = argparse.ArgumentParser()
    add_to(parser.add_subparsers())
    arguments = [
        "run",
        "norms,cost",
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
    options = vars(parser.parse_args(arguments))
    options.pop("command")
    config = Config(**options)
    assert (config.lengths, config.limit, config.mask_fraction, config.seed) == ((4, 8), 3, 0.5, 0)
    assert config.names == ("norms", "cost")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"experiment": "norm"}, "contextualization"),
        ({"experiment": ""}, "contextualization"),
        ({"experiment": "norms,norms"}, "twice"),
        ({"engine": "dask"}, "local, ray"),
        ({"limit": 0}, "limit=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"mask_fraction": 1.0}, "mask_fraction"),
        ({"ignored_dimensions": -0.1}, "ignored_dimensions"),
        ({"short_tokens": 30}, "short_tokens=30"),
        ({"lengths": ()}, "lengths"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_wrong_values_are_refused_by_name(wrong: dict[str, Any], says: str) -> None:
    """The message names the field, its value and what was expected."""
    from tl_ffblock.errors import InputError
    from tl_ffblock.experiments import Config

    with pytest.raises(InputError, match=says):
        Config(**{**FIELDS, **wrong})
