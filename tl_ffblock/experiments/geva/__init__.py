"""The experiments of Geva et al. 2021, on any activation, gated blocks and experts included."""
