"""The machinery of corpus runs: texts, shards, statistics, outputs. Knows no study."""
