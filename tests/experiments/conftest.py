"""Tiny models, corpora and runs."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.corpora import config_of, corpus, loaded, model_folder, run, shared_run
from tl_ffblock.bridge.model import Model, identify

__all__ = ["config_of", "corpus", "loaded", "model_folder", "run", "shared_run"]


@pytest.fixture(scope="session")
def bert(loaded: Callable[[str], Any]) -> Model:
    """A tiny BERT."""
    return identify(loaded("bert"))
