"""Mergeable statistics."""
