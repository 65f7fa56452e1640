"""Which neurons carry a contribution: the labelled result of `neurons`."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.layer.positions import whole_number
from tl_ffblock.numerals import scientific
from tl_ffblock.result import Result
from tl_ffblock.results.tokens import shortened, visible
from tl_ffblock.signatures import strict

# Cells that the short form describes.
MOST_CELLS_SHOWN = 3


@strict
@dataclass(frozen=True, repr=False, eq=False)
class NeuronShares(Result):
    """A layer's neurons and what each has of some contributions, one sequence.

    Laws, measured and held: `shares.sum(-1) = norms`, up to `share_error`; of every neuron the shares of all tokens and the
    bias' sum to its coefficient, up to `coefficient_error`.
    """

    shares: Float[Tensor, "query key neuron"]
    """Signed share of the contribution's norm: what the neuron adds along the direction of `F_i(x_j)`."""
    token_shares: Float[Tensor, "query key neuron"]
    """How much of the neuron's coefficient is the token's (Integrated Gradients)."""
    coefficients: Float[Tensor, "query neuron"]
    """How many times the neuron's value (its row of W_out) is added."""
    bias_shares: Float[Tensor, "query neuron"]
    """How much of that no token brings."""
    norms: Float[Tensor, "query key"]
    """The contributions `||F_i(x_j)||` at the feed-forward's output."""
    share_error: Float[Tensor, "query key"]
    """Relative error of the first law."""
    coefficient_error: Float[Tensor, " query"]
    """Relative error of the second, over all neurons."""
    names: tuple[str, ...]
    """The neurons, as memories are called: "9:512", of an expert "9:3:512" (layer, expert, neuron); of experts those only that
    a query was sent to."""
    layer: int
    scope: str
    """The scope that ends in the feed-forward's output."""
    tokens: tuple[str, ...]
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    model: str = "model"
    k: int = 20
    """How many neurons of a cell a table names unless told otherwise."""

    def top(self, k: int | None = None) -> Int[Tensor, "query key k"]:
        """Columns of the k largest shares of every cell by size, largest first."""
        most = min(self.k if k is None else whole_number(k, "k", at_least=1), self.shares.shape[-1])
        return self.shares.abs().topk(most, dim=-1).indices

    def to_dataframe(self, k: int | None = None) -> pd.DataFrame:
        """One row per cell and neuron, the k largest shares of each cell.

        Columns: layer, query, key, their tokens, neuron, share, token_share, coefficient.
        """
        top = self.top(k)
        rows = [
            {
                "layer": self.layer,
                "query": self.queries[row],
                "key": self.keys[column],
                "query_token": self.tokens[self.queries[row]],
                "key_token": self.tokens[self.keys[column]],
                "neuron": self.names[neuron],
                "share": float(self.shares[row, column, neuron]),
                "token_share": float(self.token_shares[row, column, neuron]),
                "coefficient": float(self.coefficients[row, neuron]),
            }
            for row in range(len(self.queries))
            for column in range(len(self.keys))
            for neuron in top[row, column].tolist()
        ]
        return pd.DataFrame(rows)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        share, coefficient = (scientific(float(error.max())) for error in (self.share_error, self.coefficient_error))
        lines = {
            "tokens": shortened(self.tokens),
            "laws": f"shares sum to the norm within {share}, to the coefficients within {coefficient}",
        }
        top = self.top(3)
        order = self.norms.flatten().argsort(descending=True)[:MOST_CELLS_SHOWN].tolist()
        for row, column in (divmod(cell, len(self.keys)) for cell in order):
            query, key = (f"{visible(self.tokens[at])}@{at}" for at in (self.queries[row], self.keys[column]))
            shown = (f"{self.names[n]} {float(self.shares[row, column, n]):+.3g}" for n in top[row, column].tolist())
            lines[f"{query} from {key}"] = f"{float(self.norms[row, column]):.3g} = {', '.join(shown)}, ..."
        return (
            f"{len(self.names)} neurons of layer {self.layer} of {self.model} at {self.scope} · "
            f"{len(self.queries)} x {len(self.keys)} cells",
            lines,
        )
