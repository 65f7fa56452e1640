"""A page of signed shares: tokens tinted by what they bring, maps of layers, tables, the certificate at the foot.

    document = shares_page(SharesData(heading="logit difference = 5.29", tokens=..., rows=(SharesRow(...),), ...))

One row is an attribution; several are a continuation's tokens, whose matrix [target, source] is drawn too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.page.document import asset, document, script_of
from tl_ffblock.page.numbers import rounded

SHARES_SCRIPTS = ("numbers", "shares", "colours", "svg", "cells", "shares_view")
"""In the order in which they stand on the page."""
SHOWN_DIGITS = 4
"""Significant digits of the numbers that are read."""
MAP_DIGITS = 6
"""Of the numbers of maps, as they are sent: two more than are read, so that rounding twice gives another digit to one in hundreds."""
FULL_DIGITS = 9
"""Of all others, of which there are few: whatever a float32 holds, so that nothing is rounded twice."""


@dataclass(frozen=True)
class SharesRow:
    """A target shared out among the tokens."""

    name: str
    """The target, or the token that it is, made visible."""
    value: float
    shares: Float[Tensor, " pos"]
    sums: Mapping[str, float]
    """What the value is the sum of, in words."""


@dataclass(frozen=True)
class SharesMap:
    """A signed map whose rows may be layers, its columns positions or heads."""

    title: str
    note: str
    """What a cell is, in a sentence."""
    row: str
    """What a row is called: "layer"."""
    column: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Float[Tensor, "row column"]
    details: Mapping[tuple[int, int], tuple[tuple[str, float], ...]] = field(default_factory=dict)
    """What a cell is made of, largest first, by its row and column."""


@dataclass(frozen=True)
class SharesTable:
    """Names with their shares, largest first."""

    title: str
    entries: tuple[tuple[str, float], ...]
    note: str = ""
    """What they sum to, in a sentence."""


@dataclass(frozen=True)
class SharesData:
    """Everything that one page of shares shows."""

    heading: str
    facts: str
    """Model, rules, lengths, as small print under the heading."""
    tokens: tuple[str, ...]
    """With white space made visible."""
    rows: tuple[SharesRow, ...]
    maps: tuple[SharesMap, ...] = ()
    tables: tuple[SharesTable, ...] = ()
    certificate: str = ""

    def payload(self) -> dict[str, Any]:
        """As JSON can hold it.

        Raises:
            InputError: if a table has another shape than its labels say.
        """
        for of_row in self.rows:
            if tuple(of_row.shares.shape) != (len(self.tokens),):
                raise InputError(f"{of_row.name}: {tuple(of_row.shares.shape)} shares of {len(self.tokens)} tokens.")
        for of_map in self.maps:
            if tuple(of_map.values.shape) != (len(of_map.rows), len(of_map.columns)):
                raise InputError(f"{of_map.title}: {tuple(of_map.values.shape)} values, other than its labels.")
        return {
            "heading": self.heading,
            "facts": self.facts,
            "tokens": list(self.tokens),
            "rows": [
                {
                    "name": r.name,
                    "value": rounded(r.value, FULL_DIGITS),
                    "shares": rounded(r.shares, FULL_DIGITS),
                    "sums": _pairs(r.sums.items()),
                }
                for r in self.rows
            ],
            "maps": [_map(of_map) for of_map in self.maps],
            "tables": [
                {"title": table.title, "note": table.note, "entries": _pairs(table.entries)} for table in self.tables
            ],
            "certificate": self.certificate,
            "digits": SHOWN_DIGITS,
        }


def shares_page(data: SharesData) -> str:
    """One HTML page that asks nothing of any network; tokens reach it as data and cannot become markup.

    Raises:
        InputError: if a table has another shape than its labels say.
    """
    style = asset("page.css") + asset("shares.css")
    return document("shares.html", "Shares of a target", data.payload(), script_of(SHARES_SCRIPTS), style)


def _map(of_map: SharesMap) -> dict[str, Any]:
    labels = ("title", "note", "row", "column", "rows", "columns")
    return {name: getattr(of_map, name) for name in labels} | {
        "values": rounded(of_map.values, MAP_DIGITS),
        "details": {f"{row},{column}": _pairs(parts) for (row, column), parts in of_map.details.items()},
    }


def _pairs(entries: Any) -> list[list[Any]]:
    return [[name, rounded(share, FULL_DIGITS)] for name, share in entries]
