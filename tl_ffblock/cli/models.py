"""`tl-ffblock models`: what can be loaded here, and what the scopes of each order are. Without torch."""

import argparse
from typing import TYPE_CHECKING, Any

from tl_ffblock.bridge.families import FAMILIES
from tl_ffblock.bridge.loading import DEFAULT, SHIPPED
from tl_ffblock.cli.terminal import console, plain_table
from tl_ffblock.layer.scopes import STEPS

if TYPE_CHECKING:
    from rich.table import Table


def add_to(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    add = commands.add_parser(
        "models",
        help="what can be loaded here, and which scopes there are",
        description="Models, blocks and scopes supported here.",
    )
    add.set_defaults(command=command)


def command(_: argparse.Namespace) -> None:
    """Print the three tables."""
    console().print(_names(), _orders(), _scopes())


def _names() -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table("model", "what", "here", title="Models that need no hub", **plain_table())
    for shipped in SHIPPED.values():
        name = f"{shipped.name} (default)" if shipped.name == DEFAULT else shipped.name
        table.add_row(name, shipped.what, "installed" if shipped.folder() else Text(shipped.install))
    table.add_row(
        "FOLDER", "any supported model in Hugging Face format", "safetensors; without tokenizer: map --tokens"
    )
    table.add_row("NAME", "any supported model that TransformerLens can load by name", "where a hub can be reached")
    return table


def _orders() -> "Table":
    from rich.table import Table

    table = Table("order", "families", title="Supported blocks", **plain_table())
    for order in STEPS:
        families = [family.name for family in FAMILIES if family.order == order]
        if families:
            table.add_row(order, ", ".join(families))
    return table


def _scopes() -> "Table":
    """One row a scope, in the sequence of the layer."""
    from rich.table import Table

    title = "Scopes: a map of a scope reaches from the layer's input through all steps down to its own"
    table = Table("order", "scope", "its last step", title=title, **plain_table())
    for order, steps in STEPS.items():
        for step in steps:
            table.add_row(order if step is steps[0] else "", step.scope, step.shows, end_section=step is steps[-1])
    return table
