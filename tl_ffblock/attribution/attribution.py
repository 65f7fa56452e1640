"""Attribution: what a caller holds, one target of one sequence shared out among all that made it."""

import dataclasses
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.arithmetic import difference, mean
from tl_ffblock.attribution.certificate import Certificate, relative
from tl_ffblock.attribution.flows import flows_of
from tl_ffblock.attribution.graph import AttributionGraph, graph_of
from tl_ffblock.attribution.saving import read_fields, write_fields
from tl_ffblock.attribution.tables import (
    VANISHED,
    TabledShares,
    embeddings_in_words,
    largest,
    shares_in_words,
    sums_in_words,
)
from tl_ffblock.errors import InputError, ScopeKeyError, brief
from tl_ffblock.layer.heads import head_names
from tl_ffblock.layer.positions import layer_number
from tl_ffblock.layer.settings import TOLERANCE
from tl_ffblock.numerals import significant
from tl_ffblock.result import Result, equal
from tl_ffblock.results.intervals import identity_of
from tl_ffblock.results.tables import ScopeTable
from tl_ffblock.results.token_maps import BETWEEN_TOKENS, TokenMaps
from tl_ffblock.results.tokens import shortened, told_apart
from tl_ffblock.signatures import strict

Reading: TypeAlias = Literal["residual", "heads", "edges"]
_COLUMNS: dict[Reading, str] = {"residual": "flowing at", "heads": "written at", "edges": BETWEEN_TOKENS}
"""What a column is."""
_RTOL_OF_COMBINED = 1e-4
"""How well the flows of a difference or a mean must balance, which have no certificate."""


@strict
@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Attribution(TabledShares, Result):
    """Signed shares of a target, in its own units (logits, nats), of one sequence.

    With complete rules `value = tokens + positions + token types + biases + edits + nonlinear`, and the same at every
    layer: what flows through the residual stream there plus the biases and edits that enter later.
    """

    labels: tuple[str, ...]
    """The tokens as the tokenizer shows them, or ids as text where there is no tokenizer."""
    target: str
    """What was attributed, in words, with the tokens that it reads: "logit difference ' Mary' − ' John'"."""
    rules: str
    """"path", "patching" or "gradient"."""
    value: float
    """The target itself."""
    first_order: float
    """Its first-order form `<logits, df/d logits>`, which is shared out; the value itself where it is linear in the logits."""
    tokens: Float[Tensor, " pos"]
    """Share of each token's embedding."""
    positions: Float[Tensor, " pos"]
    """Share of each position's embedding; 0 where the model has none (rotary, ALiBi)."""
    token_types: Float[Tensor, " pos"]
    """Share of each position's segment embedding; 0 where the model has none."""
    residual: Float[Tensor, "boundary pos"]
    """What reaches the target through the residual stream at each position: at each layer's input, and at the end."""
    bias_names: tuple[str, ...]
    bias_layers: tuple[int, ...]
    """The layer at which each bias enters; -1 before the first, the number of layers behind the last."""
    bias_shares: Float[Tensor, "bias pos"]
    """Share of each bias at each position where it is added."""
    edits: Mapping[str, float]
    """By HookPoint: the share of what callbacks of users brought there, beside what they made of what came in."""
    edit_layers: Mapping[str, int]
    parts: Mapping[str, Tensor]
    """What was asked for: "heads", "edges", and "neurons.3" of layer 3."""
    model: str = "model"
    """Name of the model, for labels."""
    certificate: Certificate | None = None
    """Measured errors; None for a difference or a mean."""
    quantity: str = "target"
    """What kind of number the target is, the same for all prompts: "logit difference"."""
    fingerprint: str = ""
    """Of the model's weights; empty where it is not known."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What must be the same of results of which there is a mean: quantity, model and weights, rules."""
        return identity_of(self.quantity, self.model, {"fingerprint": self.fingerprint, "rules": self.rules})

    @property
    def entering(self) -> Float[Tensor, " pos"]:
        """Share of each token, as it is shown: what its embedding, its position's and its token type's bring together."""
        return self.tokens + self.positions + self.token_types

    @property
    def vanishes(self) -> bool:
        """Whether `entering` is nothing but rounding, because a norm of the embeddings comes before the first layer.

        A norm N gives `N(c x) = N(x)` up to its epsilon, so `<x, df/dx> = d f(N(c x)) / dc = 0` at c = 1, whatever the target.
        Without a norm there, `entering` is what flows at the first layer's input; it vanishes where its largest share is less
        than the accepted relative error times the largest of those.
        """
        before = any(layer < 0 for layer in self.edit_layers.values())
        if self.rules != "gradient" or before or not len(self.labels):
            return False
        rtol = _RTOL_OF_COMBINED if self.certificate is None else min(self.certificate.rtol, max(TOLERANCE.values()))
        return float(self.entering.abs().max()) < rtol * float(self.residual[0].abs().max())

    @property
    def biases(self) -> dict[str, float]:
        """Share of each bias by the name of its parameter, summed over positions."""
        return dict(zip(self.bias_names, self.bias_shares.sum(dim=1).tolist(), strict=True))

    @property
    def nonlinear(self) -> float:
        """What the target is beyond its first-order form: 0 for logits and their differences, an entropy for log-probabilities."""
        return self.value - self.first_order

    @property
    def n_layers(self) -> int:
        """Layers of the model."""
        return len(self.residual) - 1

    @property
    def heads(self) -> Float[Tensor, "layer head pos"]:
        """Share of what each head writes at each position.

        Raises:
            ScopeKeyError: if it was not asked for.
        """
        return self._part("heads", "heads")

    @property
    def edges(self) -> Float[Tensor, "layer head query key"]:
        """Share of what each head carries from key to query: `edges[layer]`; over keys they sum to the head's share.

        In a layer whose z a hook of yours edits they are what goes into the edit: over keys they sum to the head's share but
        for what the edit brings, which is in `edits`.

        Raises:
            ScopeKeyError: if it was not asked for.
        """
        return self._part("edges", "edges")

    def neurons(self, layer: int) -> Float[Tensor, "pos d_mlp"]:
        """Share of what each neuron of a layer writes at each position; the output bias is one of `biases`.

        Raises:
            ScopeKeyError: if it was not asked for, or the layer is a mixture of experts.
            LayerError: if there is no such layer.
        """
        return self._part(f"neurons.{layer_number(layer, self.n_layers)}", "neurons")

    @property
    def maps(self) -> ScopeTable:
        """What each contribution of a layer map carries to the target, signed: `maps["AtbLnFf", 9]` is `Float[query key]`.

        Cells of a scope sum to what flows there, without its bias part. The scopes are those up to the layer's output: in Pre-LN
        without `AtbLnFfResLn`, since the norm behind the output is the next layer's first, and counted in its maps.

        Raises:
            ScopeKeyError: if they were not asked for.
        """
        held = {name.removeprefix("maps."): cells for name, cells in self.parts.items() if name.startswith("maps.")}
        if not held:
            raise ScopeKeyError('no maps here: ask with of=("maps", ...).')
        return ScopeTable(held, tuple(range(self.n_layers)))

    def token_maps(self, of: Reading = "residual") -> TokenMaps:
        """Signed shares as `TokenMaps`, which `ffb.average(results, positions={"IO": [2, 4], "END": -1})` takes as they are.

        "residual" and "heads" are numbers by position, in one row: a head's share is what it writes at the column's position,
        wherever it took that from (the edges say), and through the residual stream flows what does at the column's position.
        "residual" has one layer more than the model: its first is what enters, its last the end.

        Args:
            of: "residual" [boundary 1 1 pos], "heads" [layer head 1 pos] or "edges" [layer head query key].

        Raises:
            InputError: for another name.
            ScopeKeyError: if it was not asked for.
        """
        if of not in get_args(Reading):
            raise InputError(f"of={brief(of)}: expected one of {', '.join(map(repr, get_args(Reading)))}.")
        if of == "edges":
            values, causal = self.edges, not bool(self.edges.triu(1).any())
            queries = tuple(range(len(self.labels)))
        else:
            values = self.residual[:, None, None] if of == "residual" else self.heads[:, :, None]
            causal, queries = False, (_read_at(self.residual),)
        return TokenMaps(
            values=values,
            tokens=self.labels,
            layers=tuple(range(len(values))),
            channels=("residual",) if of == "residual" else head_names(range(values.shape[1])),
            queries=queries,
            causal=causal,
            column=_COLUMNS[of],
            model=self.model,
            signed=True,
            kind=f"shares of the {self.quantity}",
            provenance={"fingerprint": self.fingerprint, "rules": self.rules},
        )

    def graph(self, keep: float = 0.9) -> AttributionGraph:
        """The attribution as a graph of tokens, heads, feed-forwards and the residual stream, in which flows are conserved.

        Nodes are ("token" | "stream" | "head" | "mid" | "mlp" | "target" | "rest", layer, head, position); "mid" is the
        residual stream between heads and feed-forward, which parallel layers do not have. What each brings itself is held
        against the named biases. Hooks of yours may scale anything, and add to the residual stream at layers' inputs and
        outputs; what they add elsewhere has no node, and is refused.

        Args:
            keep: The part of the sum of all edges' sizes that is shown, largest first; the others lead through one node, "rest".

        Raises:
            ScopeKeyError: if it was not asked for with `of=("graph", ...)`.
            InputError: for rules that are not complete, or another `keep`.
            CompletenessError: if what nodes bring themselves misses the named biases by more than the certificate's tolerance,
                as in a layer inside which a hook of yours adds something.
        """
        self._part("graph.edges", "graph")
        rtol = self.certificate.rtol if self.certificate is not None else _RTOL_OF_COMBINED
        return graph_of(flows_of(self, rtol), keep)

    def _part(self, name: str, asked: str) -> Tensor:
        if name not in self.parts:
            there = ", ".join(dict.fromkeys(key.split(".")[0] for key in self.parts)) or "none"
            raise ScopeKeyError(
                f"no {name} here: ask with of=({asked!r}, ...); here are {there}. Layers that are a mixture of experts have no "
                "neurons of their own."
            )
        return self.parts[name]

    def total(self) -> float:
        """The sum of all shares."""
        return float(self.entering.sum() + self.bias_shares.sum()) + sum(self.edits.values())

    def total_size(self) -> float:
        """The sum of the sizes of all shares: beside what flows at a place, what errors there are relative to."""
        sizes = self.entering.abs().sum() + self.bias_shares.sum(dim=1).abs().sum()
        return float(sizes) + sum(map(abs, self.edits.values()))

    def boundary_errors(self, last: int) -> Float[Tensor, " boundary"]:
        """At the embeddings, at every layer's input and at the end: what misses the target, over the sum of sizes.

        Args:
            last: The layer from which the target is read; 0 behind it.
        """
        layers = torch.tensor(self.bias_layers)
        biases = self.bias_shares.sum(dim=1)
        entering = torch.stack([self.entering, *self.residual])
        errors = entering.new_zeros(len(entering))
        everything = self.total_size()
        for row, flowing in enumerate(entering[: last + 2]):
            later = layers >= row - 1
            edits = sum(share for name, share in self.edits.items() if self.edit_layers[name] >= row - 1)
            miss = (flowing.sum() + biases[later].sum() + edits - self.first_order).abs()
            errors[row] = relative(miss, flowing.abs().sum() + everything)
        return errors

    def __sub__(self, other: "Attribution") -> "Attribution":
        """Share by share difference of two results: target "a − b", tokens that differ "first−second".

        Raises:
            InputError: if the two do not describe the same shares.
        """
        if not isinstance(other, Attribution):
            return NotImplemented
        return difference(self, other)

    @staticmethod
    def mean(results: "Iterable[Attribution]") -> "Attribution":
        """The mean of results of equally many tokens, whose target says of how many; tokens that differ are "she|he".

        Raises:
            InputError: if there is none, or they do not describe the same shares.
        """
        several = list(results) if isinstance(results, Iterable) else []
        if not several or not all(isinstance(result, Attribution) for result in several):
            raise InputError(
                f"mean: expected one result or more, as ffb.attribute gives them for a list of texts; got a {type(results).__name__}."
            )
        return mean(several)

    def __eq__(self, other: object) -> bool:
        """Whether all labels and all numbers are the same; NaN equals NaN."""
        return equal(self, other) if isinstance(other, Attribution) else NotImplemented

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write one safetensors file with JSON metadata; a half-written file never appears under `path`.

        Raises:
            InputError: if the folder does not exist.
        """
        return write_fields(Path(path), {field.name: getattr(self, field.name) for field in dataclasses.fields(self)})

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "Attribution":
        """Read a file that `save` wrote.

        Raises:
            MapFileError: if the file is not a saved result, was changed, or is of another version.
            FileNotFoundError: if there is no such file.
        """
        return Attribution(**read_fields(Path(path)))

    def to_dict(self) -> dict[str, Any]:
        """Labels, the target, every summand of it, the heads and the certificate, as JSON can hold them.

        Of the parts that may be large, neurons and edges, there are `to_dataframe` and `save`.
        """
        certificate = None if self.certificate is None else dataclasses.asdict(self.certificate)
        if certificate is not None:
            certificate["boundaries"] = certificate["boundaries"].tolist()
        plain = ("target", "rules", "model", "value", "first_order", "nonlinear", "biases")
        return {
            "labels": list(self.labels),
            **{name: getattr(self, name) for name in plain},
            **{name: getattr(self, name).tolist() for name in ("tokens", "positions", "token_types", "residual")},
            **({"heads": self.heads.tolist()} if "heads" in self.parts else {}),
            "edits": dict(self.edits),
            "certificate": certificate,
        }

    def _largest_heads(self) -> list[str]:
        """A line for the short form, where heads were asked for."""
        if "heads" not in self.parts:
            return []
        by_head = self.heads.sum(dim=-1)
        places = [divmod(place, by_head.shape[1]) for place in largest(by_head, 5).tolist()]
        named = "  ".join(f"{layer}.{head} {significant(float(by_head[layer, head]))}" for layer, head in places)
        return [f"  heads      {named}  (layer.head, over all positions)"]

    def __repr__(self) -> str:
        most = largest(self.entering, 5).tolist()
        labels = told_apart(self.labels)
        named = "  ".join(f"{labels[pos]!r} {significant(float(self.entering[pos]))}" for pos in most)
        named = f"no token: {VANISHED}" if self.vanishes else named
        within = f" ({shares_in_words(embeddings)})" if (embeddings := embeddings_in_words(self)) else ""
        tokens, *others = (shares_in_words({name: share}) for name, share in sums_in_words(self).items())
        return "\n".join(
            [
                f"Attribution: {self.target} = {significant(self.value, 4, '-')} of {self.model}, rules={self.rules!r}",
                f"  text       {shortened(self.labels)}",
                f"  sums       {' · '.join([tokens + within, *others])}",
                f"  largest    {named}",
                *self._largest_heads(),
                f"  {self.certificate or 'no certificate: a difference or a mean'}",
            ]
        )


def _read_at(residual: Tensor) -> int:
    """The last position at which anything reaches the target at the last layer from which anything does."""
    reaching = residual.any(dim=1).nonzero()
    if not len(reaching):
        return residual.shape[1] - 1
    return int(torch.nonzero(residual[int(reaching.max())]).max())
