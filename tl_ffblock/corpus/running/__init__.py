"""Shards computed, kept and continued."""
