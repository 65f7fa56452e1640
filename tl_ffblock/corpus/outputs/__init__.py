"""Finished shards to tables, figures and the report."""
