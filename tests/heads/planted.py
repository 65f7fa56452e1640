"""Maps whose statistics are known because they were made so."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.results.token_maps import TokenMaps


def labelled(
    channels: Mapping[str, Float[Tensor, "query key"]],
    *,
    tokens: Sequence[str] = (),
    causal: bool = False,
    queries: Sequence[int] | None = None,
) -> TokenMaps:
    """One layer of maps by name."""
    values = torch.stack([maps.double() for maps in channels.values()])[None]
    names = tuple(tokens) or tuple(f"t{i}" for i in range(values.shape[-1]))
    rows = tuple(range(len(names))) if queries is None else tuple(queries)
    return TokenMaps(values, names, (0,), tuple(channels), rows, causal, kind="attention")


def pointing(targets: Sequence[int], n_keys: int | None = None) -> Float[Tensor, "query key"]:
    """Every query has all its weight on one token."""
    return torch.eye(n_keys or len(targets), dtype=torch.float64)[list(targets)]


def uniform(n_tokens: int) -> Float[Tensor, "query key"]:
    """Every query has the same weight on all tokens."""
    return torch.full((n_tokens, n_tokens), 1 / n_tokens, dtype=torch.float64)


def drawn(*shape: int, seed: int = 0) -> Float[np.ndarray, "..."]:
    """Random rows that sum to 1."""
    values = np.random.default_rng(seed).random(shape) ** 3
    return values / values.sum(axis=-1, keepdims=True)
