"""What flows in every layer of an attribution, held against the layer's named biases.

Between the residual stream at a layer's input, `in`, and at its output, `out`, at a position p:

    serial:   in = sum over (head, query) of edges(p) + through     through + heads + own = inputs + past = mid
              out = past + mlps + own
    parallel: in = sum over (head, query) of edges(p) + inputs + past           out = past + heads + mlps + own

Streams, edges, heads, what enters and what leaves the feed-forward are measured, each by a product of a tensor and the
target's derivative by it; `through` and `past` follow from conservation. So does what every summand brings itself, and this
must be its named biases: of heads b_V and the shift of the norm before, of the stream b_O and shifts of norms in it, of the
feed-forward its biases and the shift of the norm before.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import CompletenessError, InputError

if TYPE_CHECKING:
    from tl_ffblock.attribution.attribution import Attribution


@dataclass(frozen=True)
class LayerFlows:
    """The flows of a layer, and what its summands bring themselves."""

    edges: Float[Tensor, "head query key"]
    """From the stream at keys into heads at queries."""
    heads: Float[Tensor, "head pos"]
    """What heads write into the stream."""
    inputs: Float[Tensor, " pos"]
    """From the stream into the feed-forward."""
    mlps: Float[Tensor, " pos"]
    """What the feed-forward writes into the stream."""
    through: Float[Tensor, " pos"] | None
    """Of serial layers: from the layer's input past the heads to where they are added."""
    past: Float[Tensor, " pos"]
    """Past the feed-forward, in parallel layers past the heads too."""
    own_heads: Float[Tensor, "head pos"]
    own_mid: Float[Tensor, " pos"]
    """Of the stream between heads and feed-forward; 0 in layers that are not serial."""
    own_mlp: Float[Tensor, " pos"]
    own_stream: Float[Tensor, " pos"]
    """Of the stream at the layer's output."""


@dataclass(frozen=True)
class Flows:
    """The measured flows of an attribution, float64, of all layers before its target."""

    entering: Float[Tensor, " pos"]
    """Tokens with their positions and segments."""
    stream: Float[Tensor, "boundary pos"]
    edges: Float[Tensor, "layer head query key"]
    """Without what values bring that no token does."""
    head_biases: Float[Tensor, "layer head pos"]
    """That part of the values."""
    heads: Float[Tensor, "layer head pos"]
    mlp_inputs: Float[Tensor, "layer pos"]
    """Without the shift of the norm before."""
    mlps: Float[Tensor, "layer pos"]
    own: Mapping[str, Float[Tensor, "layer pos"]]
    """Named biases of "head", "mlp", "stream" and, of serial layers, "mid"; "stream" has edits of users' hooks there too."""
    biases: Mapping[int, float]
    """Sum of all named biases and edits by the layer where they enter; -1 before the first."""
    edits: Mapping[int, tuple[str, ...]]
    """HookPoints that users' hooks edited, by the same layer."""
    target: float
    labels: tuple[str, ...]
    size: float
    """Of all shares together: a target that nearly cancels makes the flows near it small, and not their rounding."""
    rtol: float
    """How well named biases must be met, of the sizes of all flows there and all shares, as at boundaries (`Certificate`)."""

    @property
    def n_layers(self) -> int:
        """Layers before the target."""
        return len(self.edges)

    def of_embeddings(self) -> Float[Tensor, " pos"]:
        """What the stream at the first layer brings itself.

        Raises:
            CompletenessError: if these are not its named biases.
        """
        own = self.stream[0] - self.entering
        self._hold(
            -1, {"the residual stream's begin": (own.sum(), self.biases.get(-1, 0.0))}, self.stream[0], self.entering
        )
        return own

    def of_target(self) -> float:
        """What enters between the last stream and the target.

        Raises:
            CompletenessError: if these are not its named biases.
        """
        flowing = self.stream[self.n_layers]
        own = self.target - flowing.sum()
        named = self.biases.get(self.n_layers, 0.0) if self.n_layers == len(self.stream) - 1 else 0.0
        self._hold(self.n_layers, {"the way to the target": (own, named)}, flowing, torch.tensor([self.target, named]))
        return float(own)

    def of_layer(self, layer: int) -> LayerFlows:
        """The flows of a layer.

        Raises:
            CompletenessError: if what a summand brings itself is not its named biases.
        """
        before, after, edges, heads = self.stream[layer], self.stream[layer + 1], self.edges[layer], self.heads[layer]
        inputs, mlps = self.mlp_inputs[layer], self.mlps[layer]
        named = {owner: shares[layer] for owner, shares in self.own.items()}
        own_heads, own_mlp = heads - edges.sum(dim=-1), mlps - inputs
        remaining = before - edges.sum(dim=(0, 1))
        own_mid = torch.zeros_like(remaining)
        if "mid" in named:
            through, past, own_stream = remaining, after - mlps - named["stream"], named["stream"]
            own_mid = inputs + past - through - heads.sum(dim=0)
            law = ("the stream before the feed-forward", own_mid, named["mid"])
        else:
            through, past = None, remaining - inputs
            own_stream = after - past - heads.sum(dim=0) - mlps
            law = ("the stream at the output", own_stream, named["stream"])
        laws: dict[str, tuple[Tensor, Tensor | float]] = {
            "each head": (own_heads, self.head_biases[layer]),
            "all heads together": (self.head_biases[layer].sum(), named["head"].sum()),
            "the feed-forward": (own_mlp, named["mlp"]),
            law[0]: law[1:],
            "the whole layer": (torch.stack([*named.values()]).sum(), self.biases.get(layer, 0.0)),
        }
        self._hold(layer, laws, before, after, edges, heads, inputs, mlps, *named.values())
        return LayerFlows(
            edges, heads, inputs, mlps, through, past, own_heads, own_mid, own_mlp, own_stream
        )  # fmt: skip

    def _hold(self, layer: int, laws: Mapping[str, tuple[Tensor, Tensor | float]], *flowing: Tensor) -> None:
        size = max(self.size + sum(float(flow.abs().sum()) for flow in flowing), 1e-300)
        for what, (brought, named) in laws.items():
            error = float((brought - named).abs().max()) / size
            if not error <= self.rtol:
                where = "" if layer in (-1, self.n_layers) else f", layer {layer}"
                edits = f" Your hooks edit {', '.join(self.edits[layer])}." if self.edits.get(layer) else ""
                raise CompletenessError(
                    f"graph{where}: what {what} brings itself misses the named biases by {error:.1e} of "
                    f"the flows there and all shares (tolerance {self.rtol:.0e}).{edits} Edits inside a layer that add something have no node of their own; "
                    "those of the residual stream at a layer's input or output have."
                )


def flows_of(result: "Attribution", rtol: float) -> Flows:
    """The flows of an attribution that was asked for its graph.

    Args:
        result: Of complete rules.
        rtol: How well named biases must be met.

    Raises:
        InputError: if its rules conserve nothing.
    """
    if result.rules != "path":
        raise InputError(f"a graph conserves what flows, which only rules='path' does, not {result.rules!r}.")
    entering: dict[int, float] = defaultdict(float)
    for layer, share in zip(result.bias_layers, result.bias_shares.double(), strict=True):
        entering[layer] += float(share.sum())
    edits: dict[int, tuple[str, ...]] = defaultdict(tuple)
    for name, of_edit in result.edits.items():
        layer = result.edit_layers[name]
        entering[layer] += of_edit
        edits[layer] += (name,)
    measured = {name.removeprefix("graph."): shares.double() for name, shares in result.parts.items()}
    return Flows(
        entering=(result.tokens + result.positions + result.token_types).double(),
        stream=result.residual.double(),
        edges=measured["edges"],
        head_biases=measured["head_biases"],
        heads=measured["heads"][: len(measured["edges"])],
        mlp_inputs=measured["mlp_inputs"],
        mlps=measured["mlps"],
        own={name.removeprefix("own."): shares for name, shares in measured.items() if name.startswith("own.")},
        biases=entering,
        edits=edits,
        target=result.first_order,
        labels=result.labels,
        size=result.total_size(),
        rtol=rtol,
    )
