"""One layer: its vocabulary, its algebra, and two implementations from a record to a map. Knows no model and no hook."""
