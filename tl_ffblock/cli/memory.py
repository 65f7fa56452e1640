"""`tl-ffblock memory 12:305 --corpus FILE`: what turns a neuron on, by which token, and what it writes."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tl_ffblock.cli.arguments import check_writable
from tl_ffblock.cli.terminal import console, plain_table, size, working
from tl_ffblock.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from tl_ffblock.memories.card import CardTrigger, MemoryCard

DESCRIPTION = (
    "Search a corpus for the prefixes at which a feed-forward neuron's coefficient is largest, say which of their tokens "
    "brought it, and which tokens the neuron's value promotes; print tables, and write everything as JSON if asked."
)
MODEL = "smollm2"
SHOWN = 8
"""Last tokens of a prefix that the table shows."""


def add_to(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    add = commands.add_parser("memory", help="what turns a neuron on, and what it writes", description=DESCRIPTION)
    add.add_argument("memory", metavar="LAYER:NEURON", help="such as 12:305; of an expert LAYER:EXPERT:NEURON")
    add.add_argument(
        "--corpus", required=True, metavar="FILE", help="texts, one a line (.txt), or .jsonl, .csv, .tsv, .conllu"
    )
    add.add_argument("--limit", type=int, default=200, metavar="N", help="first texts that are read (default 200)")
    add.add_argument("--k", type=int, default=10, metavar="K", help="triggers and tokens (default 10)")
    add.add_argument(
        "--per", choices=("sentence", "token"), default="sentence", help="one trigger a text (default), or several"
    )
    add.add_argument(
        "--reading",
        choices=("final_norm", "direction"),
        default="final_norm",
        help="how the value is read: by the model's own read-out (default), or by the unembedding alone",
    )
    add.add_argument(
        "--skip-first", type=int, default=1, metavar="N", help="first tokens that are no triggers (default 1)"
    )
    add.add_argument(
        "--model", default=MODEL, metavar="NAME_OR_PATH", help=f"{MODEL} (default), minilm, a folder, a name"
    )
    add.add_argument("--device", default="cpu", metavar="DEVICE", help="cpu (default), cuda, cuda:1, mps")
    add.add_argument("--json", type=Path, metavar="FILE.json", help="write the card")
    add.set_defaults(command=command)


def command(options: argparse.Namespace) -> None:
    """Read the arguments and the corpus, make the card, print it and write it."""
    pieces = options.memory.split(":")
    if len(pieces) not in (2, 3) or not all(piece.isdecimal() for piece in pieces):
        raise InputError(f"{options.memory}: expected LAYER:NEURON such as 12:305, or LAYER:EXPERT:NEURON.")
    for name, least in (("limit", 1), ("k", 1), ("skip_first", 0)):
        if getattr(options, name) < least:
            raise InputError(f"--{name.replace('_', '-')} {getattr(options, name)}: expected {least} or more.")
    check_writable([] if options.json is None else [options.json])
    texts = _texts(options)
    with working(f"loading {options.model}"):
        from tl_ffblock.bridge.loading import load_model

        model = load_model(options.model, device=options.device)
    with working(f"searching {len(texts)} texts"):
        from tl_ffblock.memories.card import memory_card

        card = memory_card(
            model,
            texts,
            options.memory,
            k=options.k,
            per=options.per,
            reading=options.reading,
            skip_first=options.skip_first,
        )
    _print(card)
    if options.json is not None:
        from tl_ffblock.results.files import write_atomically

        write_atomically(options.json, json.dumps(card.to_dict(), ensure_ascii=True, indent=1).encode() + b"\n")
        console().print(f"json  {options.json} ({size(options.json)})", markup=False, soft_wrap=True)


def _texts(options: argparse.Namespace) -> list[str]:
    from itertools import islice

    from tl_ffblock.corpus.settings import Config
    from tl_ffblock.corpus.texts.readers import read_texts
    from tl_ffblock.corpus.texts.texts import CorpusText

    read = read_texts(Config(model=options.model, data=options.corpus, out=""))
    texts = [text.text for text in islice((t for t in read if isinstance(t, CorpusText)), options.limit)]
    if not texts:
        raise InputError(f"--corpus {options.corpus}: there is no text in it.")
    return texts


def _print(card: "MemoryCard") -> None:
    from rich.text import Text

    out = console()
    out.print(Text(f"memory {card.memory} of {card.model}, {card.corpus_texts} texts", style="bold"))
    for title, triggers in (("largest coefficients", card.positive), ("most negative ones", card.negative)):
        if triggers:
            out.print(_triggers(title, triggers))
        else:
            out.print(f"{title}: it never had one in these texts")
    if card.value is None:
        out.print("its value cannot be read as tokens: the model was saved without its head")
        return
    for title, tokens in (("promotes", card.value.top), ("demotes", card.value.bottom)):
        out.print(Text(f"{title} ({card.value.reading}): ").append(_joined(tokens)))
    if card.value.agreeing is not None:
        out.print(f"{card.value.agreeing} of {card.value.followed} triggers are followed by its first token")


def _triggers(title: str, triggers: "tuple[CardTrigger, ...]") -> "Table":
    """One row a trigger: its end, what follows, and the token that brought most of the coefficient."""
    from rich.table import Table
    from rich.text import Text

    from tl_ffblock.results.tokens import visible

    table = Table(title=title, **plain_table())
    for column in ("", "coefficient", "text", "ends in", "next", "brought by"):
        table.add_column(column, justify="right" if column in ("", "coefficient", "text") else "left")
    for trigger in triggers:
        largest = max(trigger.parts) if trigger.coefficient > 0 else min(trigger.parts)
        most = trigger.parts.index(largest)
        table.add_row(
            str(trigger.rank),
            f"{trigger.coefficient:+.3f}",
            str(trigger.sequence),
            _joined(trigger.tokens[max(0, trigger.position + 1 - SHOWN) : trigger.position + 1]),
            Text(visible(trigger.next_token) if trigger.next_token is not None else ""),
            Text(f"{visible(trigger.tokens[most])} at {most} ({trigger.parts[most]:+.3f})"),
        )
    return table


def _joined(tokens: "tuple[str, ...]") -> "Text":
    from rich.text import Text

    from tl_ffblock.results.tokens import visible

    return Text(" ".join(visible(token) for token in tokens))
