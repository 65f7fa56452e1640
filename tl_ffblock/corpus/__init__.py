"""Corpus runs: texts, shards, mergeable statistics and outputs. Independent of the single studies."""
