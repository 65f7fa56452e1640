"""A target shared out through the layers, beside maps of the same text: the block behind the view "To a logit"."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.page.blocks import BlockPayload, PageText
from tl_ffblock.page.numbers import rounded

LOGIT_DIGITS = 6
"""Significant digits of the numbers that are sent: more than are read, since a number is rounded again to be read."""


@dataclass(frozen=True)
class LogitBlock:
    """Signed shares of one target, in its units."""

    target: str
    """In words: "logit difference ' Mary' − ' John'"."""
    unit: str
    """Of its number, "logits"; empty where it has no name."""
    rules: str
    method: str
    """How the target was shared out, for a caption."""
    value: float
    sums: Mapping[str, float]
    """What the value is the sum of, in words: tokens, biases."""
    entering: Float[Tensor, " pos"]
    """What flows in at each token."""
    residual: Float[Tensor, "boundary pos"]
    """What flows through the residual stream of each position, at every layer's input and at the end."""
    biases: tuple[tuple[str, int, float], ...]
    """Name, layer and share of what enters on the way: -1 before the first layer, the number of layers behind the last."""
    complete: bool
    """Whether every row of `residual` and the biases that enter later sum to the target."""
    certificate: str
    heads: Float[Tensor, "layer head"] | None = None
    """What each head writes, summed over positions."""
    edges: Mapping[tuple[int, int], tuple[tuple[int, int, float], ...]] = field(default_factory=dict)
    """By layer and head: the largest of what it carries, as query, key and share."""
    maps: str = ""
    """The page's block of the same target's signed layer maps; empty where there is none."""
    kind: str = field(default="logit", init=False)

    def payload(self, text: PageText) -> BlockPayload:
        """As JSON can hold it, numbers rounded.

        Raises:
            InputError: if a table has another shape than the page's text, or fewer layers.
        """
        n, n_layers = len(text.words), len(self.residual) - 1
        heads = tuple(self.heads.shape[:1]) if self.heads is not None else (n_layers,)
        shapes = (tuple(self.entering.shape), tuple(self.residual.shape[1:]), heads)
        if shapes != ((n,), (n,), (n_layers,)) or text.layers[-1] >= n_layers:
            raise InputError(
                f"{self.target}: shares of {len(self.entering)} tokens and {n_layers} layers; the page is of {n} tokens and "
                f"layers up to {text.layers[-1]}."
            )
        labels = ("kind", "target", "unit", "rules", "method", "complete", "certificate", "maps")
        numbers: dict[str, Any] = {
            "value": self.value,
            "sums": list(self.sums.items()),
            "entering": self.entering,
            "residual": self.residual,
            "biases": self.biases,
            "heads": self.heads,
            "edges": {f"{layer},{head}": cells for (layer, head), cells in self.edges.items()},
        }
        json = {label: getattr(self, label) for label in labels} | rounded(numbers, LOGIT_DIGITS)
        return BlockPayload(json, 0.5 * 10.0 ** (1 - LOGIT_DIGITS))
