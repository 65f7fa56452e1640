"""Scopes, weights and records of one layer, its linearisation, and two implementations of its maps; independent of models and hooks."""
