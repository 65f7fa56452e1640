"""The fast road: the norms of all parts without ever holding the parts."""
