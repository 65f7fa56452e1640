"""Studies of Clark et al. 2019, on attention patterns and other maps of tokens."""
