"""The experiments of Clark et al. 2019, on attention and on any other map of tokens."""
