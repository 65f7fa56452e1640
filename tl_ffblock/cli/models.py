"""`tl-ffblock models`: models that can be loaded, and the scopes of each order. Without torch."""

import argparse

from tl_ffblock.bridge.families import FAMILIES
from tl_ffblock.bridge.loading import DEFAULT, SHIPPED
from tl_ffblock.cli.arguments import Command, console, table
from tl_ffblock.layer.scopes import STEPS


def run(_: argparse.Namespace) -> None:
    """Print the three tables."""
    names = [
        (
            f"{shipped.name} (default)" if shipped.name == DEFAULT else shipped.name,
            shipped.what,
            "installed" if shipped.folder() else shipped.install,
        )
        for shipped in SHIPPED.values()
    ]
    names += [
        ("FOLDER", "any supported model in Hugging Face format", "safetensors; without tokenizer: map --tokens"),
        ("NAME", "any supported model that TransformerLens can load by name", "where a hub can be reached"),
    ]
    families = {order: [family.name for family in FAMILIES if family.order == order] for order in STEPS}
    scopes: list[tuple[str, ...]] = []
    for order, steps in STEPS.items():
        scopes += [(order if step is steps[0] else "", step.scope, step.shows) for step in steps]
        scopes.append(())
    console().print(
        table("Models that need no hub", ("model", "what", "here"), names),
        table(
            "Supported blocks",
            ("order", "families"),
            [(order, ", ".join(names)) for order, names in families.items() if names],
        ),
        table(
            "Scopes: a map of a scope reaches from the layer's input through all steps down to its own",
            ("order", "scope", "its last step"),
            scopes,
        ),
    )


COMMAND = Command(
    run,
    help="models that can be loaded, and scopes",
    description="Models, blocks and scopes supported here.",
    arguments={},
)
