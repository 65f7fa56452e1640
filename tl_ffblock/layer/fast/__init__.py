"""The optimised implementation: norms of all contributions without storing their vectors."""
