"""The optimised implementation: the norms of all parts without ever holding the parts."""
