"""Studies of Geva et al. 2021, for any activation function, gated feed-forwards and mixtures of experts."""
