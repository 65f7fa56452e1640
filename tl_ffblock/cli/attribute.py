"""`tl-ffblock attribute TEXT --target " Mary" --minus " John"`: attribution of a logit as a table, a page and JSON."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from tl_ffblock.cli.arguments import (
    Command,
    arguments,
    choices_of,
    console,
    load,
    read_files,
    read_prompt,
    read_target,
    say,
    table,
    write_files,
)
from tl_ffblock.numerals import signed

if TYPE_CHECKING:
    from tl_ffblock.attribution import Attribution

MOST = 10
"""Number of heads and biases in the tables."""


def run(options: argparse.Namespace) -> None:
    """Read the arguments, attribute, print the tables and write the files."""
    given, target = read_prompt(options), read_target(options, options.at)
    assert target is not None, "--target is required"
    files = read_files(options, "html", "json", "save", "csv")
    model = load(options)
    from tl_ffblock.attribution import attribute

    result: Attribution = attribute(model, given, target(), rules=options.rules)
    _print(result)
    write_files(files, result)


COMMAND = Command(
    run,
    help="attribute a logit to tokens, biases and heads, through all layers",
    description="Run TEXT through a model, attribute the logit of a next token to all tokens and biases, and say through "
    "which heads it passes. Prints tables. Options write a page and the numbers.",
    arguments=arguments(
        {
            "text": {},
            "--tokens": {},
            "--target": {"required": True},
            "--minus": {},
            "--at": {},
            "--rules": dict(
                choices=choices_of("bridge", "RuleName"),
                default="path",
                help="path: attributions sum to the logit (default); patching: with attention patterns; gradient: gradient x input",
            ),
            "--model": {},
            "--device": {},
            "--html": {"help": "write a page: tokens, layers, heads, neurons, certificate"},
            "--json": {"help": "write tokens, biases and certificate"},
            "--save": {"help": "write all numbers, for Attribution.load"},
            "--csv": {"help": "write every term as a row"},
        }
    ),
)


def _print(result: "Attribution") -> None:
    from tl_ffblock.results.ranks import largest
    from tl_ffblock.views.shares import OVERLAP

    say(f"{result.target} = {signed(result.value, 4)} of {result.model}, rules {result.rules}", style="bold")
    console().print(
        table(
            "attribution of each token",
            {"pos": True, "token": False, "attribution": True, "": False},
            list(_tokens(result)),
        )
    )
    by_head = result.heads.sum(dim=-1)
    heads = [
        (f"head {head} of layer {layer}", signed(float(by_head[layer, head]), 4))
        for layer, head in (divmod(number, by_head.shape[1]) for number in largest(by_head, MOST).tolist())
    ]
    console().print(table("terms of the sum", {"term": False, "attribution": True}, _sums(result)))
    console().print(
        table(f"the {MOST} largest of {by_head.numel()} heads", {"head": False, "attribution": True}, heads)
    )
    say(OVERLAP)
    say(str(result.certificate))


def _tokens(result: "Attribution") -> Iterator[tuple[str, ...]]:
    """One row per token, with a bar for its attribution."""
    from tl_ffblock.results.tokens import visible

    largest = float(result.token_attributions.abs().max()) or 1.0
    for position, (label, share) in enumerate(zip(result.labels, result.token_attributions.tolist(), strict=True)):
        bar = ("+" if share > 0 else "-") * round(20 * abs(share) / largest)
        yield str(position), visible(label), signed(share, 4), bar


def _sums(result: "Attribution") -> Iterator[tuple[str | Text, str]]:
    """One row per term of the target; indented rows are parts of the tokens or biases above."""
    from tl_ffblock.views.shares import largest_first

    within = {"tokens": result.embedding_sums(), "biases": dict(largest_first(result.biases.items(), MOST))}
    for name, share in result.sums().items():
        yield name, signed(share, 4)
        for part, part_share in within.get(name, {}).items():
            yield f"  of which {part}", signed(part_share, 4)
    yield Text(result.target, style="bold"), signed(result.value, 4)
