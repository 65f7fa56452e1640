"""What a page is made of: labels, maps by scope, and where to open; nothing of how they were made."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.page.numbers import PRECISION, finite, pack, pack_reachable


@dataclass(frozen=True)
class PageStep:
    """One step of a layer that the reader can choose."""

    scope: str
    """The scope that ends with the step: whose map is shown."""
    component: str
    """The kind of step: "ATTN", "RES", "LN" or "FF"."""
    before: str | None
    """The scope to compare with; None where there is none, then one map is shown."""
    shows: str
    """What the component is, in words."""


@dataclass(frozen=True)
class PageStart:
    """Where the page opens."""

    layer: int
    scope: str


@dataclass(frozen=True)
class PageCertificate:
    """The largest completeness error, with its place."""

    error: float
    scope: str
    layer: int
    query: int


@dataclass(frozen=True)
class PageData:
    """Everything that one page shows of one sequence."""

    model: str
    """Name of the model, for the title."""
    order: str
    """Where the model's norms stand, for the heading."""
    causal: bool
    """Whether a position sees only itself and earlier ones; the other cells are not sent."""
    signed: bool
    """True for a difference of two results."""
    tokens: tuple[str, ...]
    """Tokens with white space made visible."""
    layers: tuple[int, ...]
    """Layer numbers of the model, ascending."""
    queries: tuple[int, ...]
    """Position of each row."""
    steps: tuple[PageStep, ...]
    """The steps to choose from, in sequence."""
    start: PageStart
    """Where the page opens."""
    changes: Mapping[str, Float[Tensor, " layer"]]
    """How much each step changed the ranking of token pairs, by the scope that ends with it."""
    values: Mapping[str, Float[Tensor, "layer query key"]]
    """Maps by scope."""
    bias: Mapping[str, Float[Tensor, "layer query"]]
    """Norm of the bias part, by scope."""
    remainder: Mapping[str, Float[Tensor, "layer query"]] | None
    """Norm of the remainder, by scope; None where there was no edit."""
    completeness: Mapping[str, Float[Tensor, "layer query"]]
    """Relative completeness error, by scope."""
    worst: PageCertificate | None
    """The largest of these; None where it is unknown."""
    provenance: Mapping[str, str]
    """How the numbers were made, as small print."""

    def __post_init__(self) -> None:
        """Refuse what could not be drawn.

        Raises:
            InputError: if a table has another shape than the labels, or the page opens at what is not there.
        """
        rows = (len(self.layers), len(self.queries))
        for scope, maps in self.values.items():
            if tuple(maps.shape) != (*rows, len(self.tokens)):
                raise InputError(
                    f"values of {scope} have shape {tuple(maps.shape)}, the page's labels say [layer query key] = "
                    f"{(*rows, len(self.tokens))}."
                )
        missing = [step.scope for step in self.steps if step.scope not in self.values]
        if missing or self.start.layer not in self.layers or self.start.scope not in {s.scope for s in self.steps}:
            raise InputError(
                f"a page with layers {self.layers} and steps {', '.join(step.scope for step in self.steps)} cannot open at "
                f"{self.start}, or lacks the values of {', '.join(missing) or 'none'}."
            )

    def payload(self) -> dict[str, Any]:
        """Labels and packed numbers as JSON can hold them, under the names that the page's scripts read."""
        rows = {"bias": self.bias, "remainder": self.remainder, "completeness": self.completeness}
        return {
            "model": self.model,
            "order": self.order,
            "causal": self.causal,
            "signed": self.signed,
            "tokens": list(self.tokens),
            "layers": list(self.layers),
            "queries": list(self.queries),
            "steps": [asdict(step) for step in self.steps],
            "changes": {scope: finite(changes) for scope, changes in self.changes.items()},
            "start": asdict(self.start),
            "worst": asdict(self.worst) if self.worst else None,
            "precision": PRECISION,
            "provenance": dict(self.provenance),
            "values": {
                scope: [pack_reachable(matrix, self.queries, self.causal) for matrix in maps]
                for scope, maps in self.values.items()
            },
            **{name: table and {s: [pack(row) for row in t] for s, t in table.items()} for name, table in rows.items()},
        }
