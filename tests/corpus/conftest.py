"""Tiny models, corpora and runs."""

from tests.corpora import config_of, corpus, loaded, model_folder, tables_of, treebank_run

__all__ = ["config_of", "corpus", "loaded", "model_folder", "tables_of", "treebank_run"]
