"""An attribution as tables: summands of the target, and its heads, neurons and edges, largest first."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.numerals import significant
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    import pandas

    from tl_ffblock.attribution.attribution import Attribution

Table: TypeAlias = Literal["summands", "heads", "neurons", "edges"]
"""Tables of an attribution."""


OVERLAP = (
    "Heads and neurons are no further summands: in one layer its heads and what goes past them, with the biases that enter "
    "later, are the whole target again, and so are its neurons and what goes past those. Later layers read earlier ones and "
    "neurons read heads, so shares of different layers, and of heads and neurons, overlap."
)
"""What sums to what."""
VANISHED = "gradient x input before a norm of the embeddings is zero by scale invariance; what is left is rounding"
"""What is said in place of an order of tokens."""


@strict
class TabledShares:
    """The method of `Attribution` that makes tables of it."""

    def to_dataframe(self, of: Table = "summands", k: int | None = None) -> "pandas.DataFrame":
        """The summands of the target, or shares of heads, neurons or edges, largest first by size.

        "summands" (kind, layer, position, name, share) has a row for each position's token, position and token type, each bias,
        each edit and the rest, in the text's order, and sums to the target where rules are complete. The others say what of it
        goes through the model's parts, which overlap and do not sum to it: "heads" (layer, head, position, token, share) is
        what each head writes at each position, "neurons" (layer, neuron, position, token, share) likewise, and "edges" (layer,
        head, query, key, query_token, key_token, share) what a head carries from key to query. Their shares of 0 have no row.

        Args:
            of: "summands", "heads", "neurons" or "edges".
            k: How many rows, the largest by size; None means all.

        Raises:
            InputError: for another name, or no such number.
            ScopeKeyError: if it was not asked for.
        """
        result = cast("Attribution", self)
        if of not in get_args(Table):
            raise InputError(f"of={brief(of)}: expected one of {', '.join(map(repr, get_args(Table)))}.")
        if of == "summands":
            frame = _summands(result)
            most = None if k is None else whole_number(k, "k", at_least=1)
            return frame if most is None else frame.sort_values("share", key=abs, ascending=False)[:most]
        places, shares = _shares(result, of)
        order = largest(shares, k)
        frame = table_of(places, order)
        frame = frame.assign(share=shares.flatten()[order].detach().cpu().numpy())
        frame = frame[frame["share"] != 0]
        ends = {"query": "query_token", "key": "key_token"} if of == "edges" else {"position": "token"}
        for at, (position, token) in enumerate(ends.items()):
            names = np.array(result.labels, dtype=object)[frame[position].to_numpy(dtype=int)]
            frame.insert(len(places) + at, token, names)
        return frame


def largest(values: Float[Tensor, "..."], k: int | None) -> Int[Tensor, " place"]:
    """Numbers of the places of a flattened tensor, the largest by size first; k of them, which need no sorting, None all.

    Raises:
        InputError: for a `k` below 1.
    """
    k = None if k is None else whole_number(k, "k", at_least=1)
    sizes = values.detach().cpu().abs().flatten()
    return sizes.argsort(descending=True, stable=True) if k is None else sizes.topk(min(k, len(sizes))).indices


def table_of(places: Mapping[str, Sequence[int | str]], order: Int[Tensor, " place"]) -> "pandas.DataFrame":
    """A row for each place of a flattened tensor: what the number of each of its axes stands for."""
    import pandas as pd

    indices = np.unravel_index(order.numpy(), [len(labels) for labels in places.values()])
    named = zip(places.items(), indices, strict=True)
    columns = {axis: np.array(labels, dtype=object)[index] for (axis, labels), index in named}
    return pd.DataFrame(columns).infer_objects()


def _shares(result: "Attribution", of: Table) -> tuple[dict[str, Sequence[int]], Tensor]:
    """The shares of a part, and their axes."""
    positions = range(len(result.labels))
    if of == "neurons":
        layers = [layer for layer in range(result.n_layers) if f"neurons.{layer}" in result.parts] or [0]
        shares = torch.stack([result.neurons(layer).T for layer in layers])
        return {"layer": layers, "neuron": range(shares.shape[1]), "position": positions}, shares
    shares = result.heads if of == "heads" else result.edges
    places: dict[str, Sequence[int]] = {"layer": range(len(shares)), "head": range(shares.shape[1])}
    ends: dict[str, Sequence[int]] = (
        {"query": positions, "key": positions} if of == "edges" else {"position": positions}
    )
    return places | ends, shares


def _summands(result: "Attribution") -> "pandas.DataFrame":
    """What the target is the sum of, a row each; -1 where a row has no layer or no position."""
    import pandas as pd

    of_positions = {"token": result.tokens, "position": result.positions, "token type": result.token_types}
    rows = [
        (kind, -1, position, label, share)
        for kind, shares in of_positions.items()
        if kind == "token" or bool(shares.any())
        for position, (label, share) in enumerate(zip(result.labels, shares.tolist(), strict=True))
    ]
    biases = zip(result.bias_layers, result.biases.items(), strict=True)
    rows += [("bias", layer, -1, name, share) for layer, (name, share) in biases]
    rows += [("edit", result.edit_layers[name], -1, name, share) for name, share in result.edits.items()]
    if result.nonlinear:
        rows.append(("nonlinear", result.n_layers, -1, result.target, result.nonlinear))
    return pd.DataFrame(rows, columns=["kind", "layer", "position", "name", "share"])


def sums_in_words(result: "Attribution") -> dict[str, float]:
    """What the target is the sum of, in words; kinds that have no share are left out, but for the tokens."""
    summands = {
        "tokens": float(result.entering.sum()),
        "biases": float(result.bias_shares.sum()),
        "edits": sum(result.edits.values()),
        "nonlinear": result.nonlinear,
    }
    if result.rules != "path":
        summands["not handed out"] = result.value - sum(summands.values())
    return {name: share for name, share in summands.items() if share or name == "tokens"}


def embeddings_in_words(result: "Attribution") -> dict[str, float]:
    """What the tokens' shares are the sum of; nothing where they are all of embeddings of tokens."""
    beside = {"positions": float(result.positions.sum()), "token types": float(result.token_types.sum())}
    shown = {name: share for name, share in beside.items() if share}
    return {"embeddings": float(result.tokens.sum())} | shown if shown else {}


def shares_in_words(shares: Mapping[str, float]) -> str:
    """Names with their shares in a line: `tokens +5.29 · biases −0.3`."""
    return " · ".join(f"{name} {significant(share)}" for name, share in shares.items())


def largest_first(entries: Iterable[tuple[str, float]], most: int) -> Iterator[tuple[str, float]]:
    """So many names with their shares, largest first, then the sum of all smaller ones, where there are any."""
    ordered = sorted(entries, key=lambda entry: -abs(entry[1]))
    yield from ordered[:most]
    if smaller := ordered[most:]:
        yield f"{len(smaller)} smaller ones", sum(share for _, share in smaller)
