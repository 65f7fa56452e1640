"""`tl-ffblock check --model NAME`: every equation of a model compared with its own activations."""

import argparse

from tl_ffblock.bridge.loading import DEFAULT, outline
from tl_ffblock.cli.arguments import MODEL_HELP, Command, arguments, console, read_text, say, working


def run(options: argparse.Namespace) -> int:
    """Compare, print, and return status 0 if every equation holds, else 1."""
    text = None if options.text is None else read_text(options.text)
    outline(options.model)
    with working(f"checking {options.model}"):
        import torch

        from tl_ffblock.bridge.loading import load_model
        from tl_ffblock.check import check_model

        result = check_model(load_model(options.model, device=options.device), text)
    weights = "processed weights: folded or centred after loading" if result.processed else "raw weights"
    say(f"{result.model} ({result.family}, {result.order}, {result.dtype}, {weights}), {result.n_tokens} tokens")
    if result.findings:
        console().print(result.table(every_layer=options.all))
    if result.ok:
        say(
            f"speed  {result.tokens_per_second:.0f} tokens/s for all layers and scopes of {result.n_tokens} tokens on "
            f"{torch.get_num_threads()} threads; {result.times_forward:.0f} times a forward pass of the same"
        )
    say(result.verdict())
    return 0 if result.ok else 1


COMMAND = Command(
    run,
    help="whether a model of your own is decomposed exactly",
    description="Compare every equation of every layer with the model's own activations: the identities of its blocks and "
    "the completeness of its contributions. Exit status 0 if all hold, else 1.",
    arguments=arguments(
        {
            "--model": {"default": DEFAULT, "help": MODEL_HELP},
            "--text": {"metavar": "TEXT", "help": "text to run (default: an English sentence)"},
            "--all": {"action": "store_true", "help": "print every layer, not only the largest error of each equation"},
            "--device": {},
        }
    ),
)
