"""Tiny models with a word-level tokenizer."""

from collections.abc import Callable
from typing import Any

import pytest

from tests import tiny
from tl_ffblock import load_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """`tiny_model("bert")`: saved and loaded."""
    return lambda family: load_model(str(tiny.save_local(family, tmp_path_factory.mktemp(family))))
