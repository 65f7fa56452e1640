"""`tl-ffblock attribute TEXT --target " Mary" --minus " John"`: which tokens made a logit, as a table, a page and JSON."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tl_ffblock.cli.arguments import (
    CAUSAL_MODEL,
    CAUSAL_MODEL_HELP,
    add_device_to,
    check_tables,
    check_writable,
    read_prompt,
    read_target,
)
from tl_ffblock.cli.terminal import console, plain_table, working, written
from tl_ffblock.numerals import signed

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tl_ffblock.attribution.attribution import Attribution

DESCRIPTION = (
    "Run TEXT through a model and share the logit of a next token out among all tokens and biases, and say through which "
    "heads it goes; print tables, and write a page and the numbers if asked."
)
RULES = ("path", "patching", "gradient")
MOST = 10
"""Heads and biases that the tables name."""


def add_to(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    add = commands.add_parser(
        "attribute",
        help="which tokens made a logit, through all layers, and through which heads",
        description=DESCRIPTION,
    )
    add.add_argument("text", nargs="?", metavar="TEXT", help="the prompt; - reads it from standard input")
    add.add_argument("--tokens", metavar="5,6,7", help="token ids instead of TEXT, taken as they are")
    add.add_argument(
        "--target", required=True, metavar="TOKEN", help='the token, with its space: " Mary"; or an id, #7'
    )
    add.add_argument("--minus", metavar="TOKEN", help="a token whose logit is subtracted")
    add.add_argument("--at", type=int, default=-1, help="position to read, -1 is the last (default)")
    add.add_argument(
        "--rules",
        choices=RULES,
        default="path",
        help="path: shares sum to the logit (default); patching: queries and keys take part; gradient: gradient x input",
    )
    add.add_argument("--model", default=CAUSAL_MODEL, metavar="NAME_OR_PATH", help=CAUSAL_MODEL_HELP)
    add_device_to(add)
    add.add_argument(
        "--html", type=Path, metavar="FILE.html", help="write a page: tokens, layers, heads, neurons, certificate"
    )
    add.add_argument("--json", type=Path, metavar="FILE.json", help="write tokens, biases and certificate")
    add.add_argument("--save", type=Path, metavar="FILE.safetensors", help="write all numbers, for Attribution.load")
    add.add_argument("--csv", type=Path, metavar="FILE.csv", help="write every summand as a row")
    add.set_defaults(command=command)


def command(options: argparse.Namespace) -> None:
    """Read the arguments, attribute, print the table and write the files."""
    text, tokens = read_prompt(options)
    target, minus = read_target(options)
    files = {kind: file for kind in ("html", "json", "save", "csv") if (file := getattr(options, kind)) is not None}
    check_writable(files.values())
    check_tables(options.csv)
    with working(f"loading {options.model}"):
        from tl_ffblock.attribution import attribute
        from tl_ffblock.bridge.loading import load_model
        from tl_ffblock.metrics import logit

        model = load_model(options.model, device=options.device)
    given: Any = text if tokens is None else tokens
    assert target is not None, "--target is required"
    result: Attribution = attribute(model, given, logit(target, minus=minus, at=options.at), rules=options.rules)
    out = console()
    _print(out, result)
    for kind, file in files.items():
        _write(result, kind, file)
        written(out, kind, file)


def _write(result: "Attribution", kind: str, file: Path) -> None:
    from tl_ffblock.files import write_atomically

    if kind == "save":
        result.save(file)
    elif kind == "html":
        result.to_html(file)
    elif kind == "json":
        write_atomically(file, json.dumps(result.to_dict(), ensure_ascii=True, indent=1).encode() + b"\n")
    else:
        write_atomically(file, result.to_dataframe().to_csv(index=False, lineterminator="\n").encode())


def _print(out: "Console", result: "Attribution") -> None:
    from rich.text import Text

    from tl_ffblock.attribution.tables import OVERLAP

    title = f"{result.target} = {signed(result.value, 4)} of {result.model}, rules {result.rules}"
    out.print(Text(title, style="bold"))
    out.print(_tokens(result))
    out.print(_sums(result))
    out.print(_heads(result))
    out.print(OVERLAP, markup=False, highlight=False, soft_wrap=True)
    out.print(str(result.certificate), markup=False, highlight=False, soft_wrap=True)


def _tokens(result: "Attribution") -> "Table":
    """One row a token, with a bar for its share."""
    from rich.table import Table
    from rich.text import Text

    from tl_ffblock.results.tokens import visible

    table = Table(title="share of each token", **plain_table())
    for column, justify in (("pos", "right"), ("token", "left"), ("share", "right"), ("", "left")):
        table.add_column(column, justify="right" if justify == "right" else "left")
    largest = float(result.entering.abs().max()) or 1.0
    for position, (label, share) in enumerate(zip(result.labels, result.entering.tolist(), strict=True)):
        bar = ("+" if share > 0 else "−") * round(20 * abs(share) / largest)
        table.add_row(str(position), Text(visible(label)), signed(share, 4), bar)
    return table


def _sums(result: "Attribution") -> "Table":
    """What the target is the sum of, each row a summand; what is set back is among the tokens or the biases above it."""
    from rich.text import Text

    from tl_ffblock.attribution.tables import embeddings_in_words, largest_first, sums_in_words

    table = _shares_table("what it is the sum of", "summand")
    within = {"tokens": embeddings_in_words(result), "biases": dict(largest_first(result.biases.items(), MOST))}
    for name, share in sums_in_words(result).items():
        table.add_row(name, signed(share, 4))
        for part, part_share in within.get(name, {}).items():
            table.add_row(Text(f"  of which {part}"), signed(part_share, 4))
    table.add_row(Text(result.target, style="bold"), signed(result.value, 4))
    return table


def _heads(result: "Attribution") -> "Table":
    """The heads that carry most: no summands beside the tokens, since what they carry is the tokens' and overlaps."""
    from tl_ffblock.attribution.tables import largest

    by_head = result.heads.sum(dim=-1)
    table = _shares_table(f"the {MOST} largest of {by_head.numel()} heads", "head")
    for number in largest(by_head, MOST).tolist():
        layer, head = divmod(number, by_head.shape[1])
        table.add_row(f"head {head} of layer {layer}", signed(float(by_head[layer, head]), 4))
    return table


def _shares_table(title: str, what: str) -> "Table":
    from rich.table import Table

    table = Table(title=title, **plain_table())
    table.add_column(what)
    table.add_column("share", justify="right")
    return table
