"""An attribution beside maps of the same text: the blocks of their page that it hands over.

maps.to_html("page.html", beside=ffb.attribute(model, text, target, of=("heads", "edges", "maps")))
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.shown import largest_edges
from tl_ffblock.errors import InputError
from tl_ffblock.numerals import scientific
from tl_ffblock.page import LogitBlock, MapsBlock, PageBlock, PageChannel, PageText
from tl_ffblock.results.page_blocks import FINE_TOKENS, size_track
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    from tl_ffblock.attribution.attribution import Attribution

SIGNED_BYTES = 400_000
"""Room for signed maps on a page, before they are deflated; scopes beyond it are left out, but for the first."""
METHODS = {
    "path": "attribution by one backward pass: attention patterns and norm scales as in the run, activations by Integrated Gradients",
    "patching": "attribution by one backward pass: queries and keys with their gradient, norm scales as in the run, activations by Integrated Gradients",
    "gradient": "attribution by gradient × input",
}
"""How each kind of rules shares a target out, for captions."""


@strict
class BesideMaps:
    """The methods of `Attribution` through which a page of maps shows it."""

    @property
    def kind(self) -> str:
        """The name of its view on a page."""
        return "logit"

    def page_blocks(self, text: PageText, name: str, first: Sequence[str]) -> dict[str, PageBlock]:
        """Its shares, and where they were asked for its signed layer maps, as blocks of a page.

        Args:
            text: The page's.
            name: Of the block of shares; that of maps is named after it.
            first: Scopes that the page opens with, whose maps come before the rest.

        Raises:
            InputError: if the page has a layer that the model has not.
        """
        result = cast("Attribution", self)
        if text.layers[-1] >= result.n_layers:
            raise InputError(f"the attribution has {result.n_layers} layers, the page layer {text.layers[-1]}.")
        signed = any(part.startswith("maps.") for part in result.parts)
        maps = f"{name} maps" if signed else ""
        blocks: dict[str, PageBlock] = {name: _shares(result, maps)}
        return blocks | ({maps: _signed(result, text, first)} if signed else {})


def _shares(result: "Attribution", maps: str) -> LogitBlock:
    biases = zip(result.biases.items(), result.bias_layers, strict=True)
    edits = ((f"edit at {name}", result.edit_layers[name], share) for name, share in result.edits.items())
    return LogitBlock(
        target=result.target,
        unit="logits" if result.quantity.startswith("logit") else "",
        rules=result.rules,
        method=METHODS[result.rules],
        value=result.value,
        sums=result.sums(),
        entering=result.entering,
        residual=result.residual,
        biases=(*((bias, layer, share) for (bias, share), layer in biases), *edits),
        complete=result.rules == "path",
        certificate=_certificate(result),
        heads=result.heads.sum(dim=-1) if "heads" in result.parts else None,
        edges=dict(largest_edges(result)) if "edges" in result.parts else {},
        maps=maps,
    )


def _certificate(result: "Attribution") -> str:
    held = result.certificate
    if held is None:
        return "A difference or a mean of results, which has no certificate of its own."
    if not held.complete:
        return f"Rules {result.rules}: {held.attributed_in_words()}."
    error, of = float(held.layer_inputs.max()), "'s first-order form" if held.has_nonlinear_part else ""
    sums = f"✓ At every layer what flows and the biases that enter later sum to the target{of}, to {scientific(error)} of their sizes"
    return f"{sums}; {held.attributed_in_words()}." if of else f"{sums}."


def _signed(result: "Attribution", text: PageText, first: Sequence[str]) -> MapsBlock:
    """Its layer maps at the page's layers and rows: those of `first` before the rest, as many as there is room for."""
    cells = text.reachable()
    coarse = len(text.words) > FINE_TOKENS
    most = max(1, SIGNED_BYTES // (int(cells.sum()) * len(text.layers) * (1 if coarse else 2)))
    ordered = sorted(result.maps, key=lambda scope: scope not in first)[:most]
    scopes = [scope for scope in result.maps if scope in ordered]
    values: Mapping[str, Float[Tensor, "layer query key"]] = {
        scope: torch.stack([result.maps[scope, layer][list(text.queries)] for layer in text.layers]) for scope in scopes
    }
    return MapsBlock(
        title=f"shares of the {result.target}",
        short="share",
        unit=f"signed share of the {result.target}",
        meaning=f"what the contribution of the column's token to the row's vector carries to the {result.target}",
        channels=tuple(PageChannel(scope, scope) for scope in scopes),
        values=values,
        tracks=(size_track(values, {scope: scope for scope in scopes}, cells),),
        signed=True,
        cells="none",
        coarse=coarse,
    )
