"""One layer: its vocabulary, its algebra, and the two roads from a record to a map. Knows no model and no hook."""
