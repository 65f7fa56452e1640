"""Tiny models, corpora and runs."""

from tests.corpora import config_of, corpus, loaded, model_folder, run, shared_run

__all__ = ["config_of", "corpus", "loaded", "model_folder", "run", "shared_run"]
