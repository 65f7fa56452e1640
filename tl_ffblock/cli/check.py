"""`tl-ffblock check --model NAME`: every equation of a model against its own tensors."""

import argparse
from typing import TYPE_CHECKING, Any

from tl_ffblock.bridge.loading import DEFAULT, outline
from tl_ffblock.cli.arguments import MODEL_HELP, add_device_to, read_text
from tl_ffblock.cli.terminal import console, working

if TYPE_CHECKING:
    from tl_ffblock.check import ModelCheck


def add_to(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    add = commands.add_parser(
        "check",
        help="whether a model of your own is decomposed exactly",
        description="Hold every equation of every layer against the model's own tensors: the identities of its blocks and "
        "the completeness of its parts. Exit status 0 if all hold, else 1.",
    )
    add.add_argument("--model", default=DEFAULT, metavar="NAME_OR_PATH", help=MODEL_HELP)
    add.add_argument("--text", metavar="TEXT", help="what to run it on (default: an English sentence)")
    add.add_argument("--all", action="store_true", help="every layer, not only the worst of each equation")
    add_device_to(add)
    add.set_defaults(command=command)


def command(options: argparse.Namespace) -> int:
    """Status 0 if every equation holds, else 1."""
    text = None if options.text is None else read_text(options.text)
    outline(options.model)
    with working(f"checking {options.model}"):
        from tl_ffblock.bridge.loading import load_model
        from tl_ffblock.check import check_model

        result = check_model(load_model(options.model, device=options.device), text)
    _print(result, every_layer=options.all)
    return 0 if result.ok else 1


def _print(result: "ModelCheck", *, every_layer: bool) -> None:
    import torch

    out = console()
    weights = "processed weights: folded or centred after loading" if result.processed else "raw weights"
    head = f"{result.model} ({result.family}, {result.order}, {result.dtype}, {weights}), {result.n_tokens} tokens"
    out.print(head, markup=False, soft_wrap=True)
    if result.findings:
        out.print(result.table(every_layer=every_layer))
    if result.ok:
        out.print(
            f"speed  {result.tokens_per_second:.0f} tokens/s for all layers and scopes of {result.n_tokens} tokens on "
            f"{torch.get_num_threads()} threads; {result.times_forward:.0f} times a forward pass of the same",
            soft_wrap=True,
        )
    out.print(result.verdict(), markup=False, soft_wrap=True)
