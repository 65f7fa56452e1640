"""Studies of Kobayashi et al. 2024, one file each."""
