"""NeuronShares: the result of `ffb.neurons`, a layer's neurons in some cells of a contribution map."""

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

# Number of cells in the printed summary.
MOST_CELLS_SHOWN = 3


@strict
@dataclass(frozen=True, repr=False, eq=False)
class NeuronShares(Result):
    """Signed shares of a layer's neurons in some contributions, for one sequence.

    Two equations are checked. `shares.sum(-1) = norms`, up to `share_error`. For every neuron, the parts of all tokens and of the
    bias sum to its activation, up to `coefficient_error`.
    """

    shares: Float[Tensor, "query key neuron"]
    """Signed share of the contribution's norm: the neuron's vector, projected on the direction of `F_i(x_j)`."""
    token_shares: Float[Tensor, "query key neuron"]
    """Part of the neuron's activation that is due to the token (Integrated Gradients)."""
    coefficients: Float[Tensor, "query neuron"]
    """Activation of the neuron: the factor of its value vector (its row of W_out)."""
    bias_shares: Float[Tensor, "query neuron"]
    """Part of the activation that is due to biases."""
    norms: Float[Tensor, "query key"]
    """Contributions `||F_i(x_j)||` at the feed-forward's output."""
    share_error: Float[Tensor, "query key"]
    """Relative error of the first equation."""
    coefficient_error: Float[Tensor, " query"]
    """Relative error of the second equation, over all neurons."""
    names: tuple[str, ...]
    """Names of the neurons: "9:512" (layer, neuron), of an expert "9:3:512" (layer, expert, neuron). Only experts to which a query is
    routed are included."""
    layer: int
    scope: str
    """Scope of the feed-forward's output."""
    tokens: tuple[str, ...]
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    model: str = "model"
    k: int = 20
    """Default number of neurons per cell in a table."""

    def top(self, k: int | None = None) -> Int[Tensor, "query key k"]:
        """Columns of the k largest absolute shares of every cell, largest first."""
        most = min(self.k if k is None else whole_number(k, "k", at_least=1), self.shares.shape[-1])
        return self.shares.abs().topk(most, dim=-1).indices

    def to_dataframe(self, k: int | None = None) -> pd.DataFrame:
        """One row per cell and neuron, the k largest absolute shares of each cell.

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
            "checks": f"worst sum of shares error {share} · worst sum of activations error {coefficient}",
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
