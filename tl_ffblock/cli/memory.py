"""`tl-ffblock memory 12:305 --corpus FILE`: what turns a neuron on, by which token, and what it writes."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tl_ffblock.cli.arguments import (
    CAUSAL_MODEL,
    CAUSAL_MODEL_HELP,
    add_device_to,
    check_needs,
    check_writable,
    read_target,
    read_text,
)
from tl_ffblock.cli.terminal import console, plain_table, working, written
from tl_ffblock.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from tl_ffblock.attribution.attribution import Attribution
    from tl_ffblock.memories.card import CardTrigger, MemoryCard

DESCRIPTION = (
    "Search a corpus for the prefixes at which a feed-forward neuron's coefficient is largest, say which of their tokens "
    "brought it, and which tokens the neuron's value promotes; print tables, and write everything as JSON or as a page if asked."
)
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
        "--text", metavar="TEXT", help="a text to see the neuron in (default on a page: its first trigger's)"
    )
    add.add_argument(
        "--target",
        metavar="TOKEN",
        help='what comes after TEXT, such as " Mary" or #7: what the neuron carries to its logit',
    )
    add.add_argument("--minus", metavar="TOKEN", help="a token whose logit is subtracted")
    add.add_argument("--model", default=CAUSAL_MODEL, metavar="NAME_OR_PATH", help=CAUSAL_MODEL_HELP)
    add_device_to(add)
    add.add_argument("--json", type=Path, metavar="FILE.json", help="write the card")
    add.add_argument(
        "--html", type=Path, metavar="FILE.html", help="write a page with the card beside the layer's maps"
    )
    add.set_defaults(command=command)


def command(options: argparse.Namespace) -> None:
    """Read the arguments and the corpus, make the card, print it and write it."""
    pieces = options.memory.split(":")
    if len(pieces) not in (2, 3) or not all(piece.isdecimal() and piece.isascii() for piece in pieces):
        raise InputError(f"{options.memory}: expected LAYER:NEURON such as 12:305, or LAYER:EXPERT:NEURON.")
    for name, least in (("limit", 1), ("k", 1), ("skip_first", 0)):
        if getattr(options, name) < least:
            raise InputError(f"--{name.replace('_', '-')} {getattr(options, name)}: expected {least} or more.")
    check_needs(options, (("target", ("text",)), ("minus", ("target",)), ("text", ("target", "html", "json"))))
    read_target(options)
    text = None if options.text is None else read_text(options.text)
    files = {kind: file for kind in ("json", "html") if (file := getattr(options, kind)) is not None}
    check_writable(files.values())
    texts = _texts(options)
    with working(f"loading {options.model}"):
        from tl_ffblock.bridge.loading import load_model

        model = load_model(options.model, device=options.device)
    with working(f"searching {len(texts)} texts"):
        from tl_ffblock.memories.card import memory_card

        search = {name: getattr(options, name) for name in ("k", "per", "reading", "skip_first")}
        card = memory_card(model, texts, options.memory, **search)
    triggers = card.positive or card.negative
    if text is None and options.html is not None and triggers:
        text = texts[triggers[0].sequence]
    if text is not None:
        card = card.on_text(model, text, _attribution(model, text, options))
    _print(card)
    for kind, file in files.items():
        _write(model, card, text, kind, file)
        written(console(), kind, file)


def _attribution(model: Any, text: str, options: argparse.Namespace) -> "Attribution | None":
    """The target shared out, where one is asked for."""
    target, minus = read_target(options)
    if target is None:
        return None
    from tl_ffblock.attribution import attribute
    from tl_ffblock.metrics import logit

    return attribute(model, text, logit(target, minus=minus), of="neurons")


def _write(model: Any, card: "MemoryCard", text: str | None, kind: str, file: Path) -> None:
    from tl_ffblock.contributions import contribution_maps
    from tl_ffblock.files import write_atomically

    if kind == "json":
        write_atomically(file, json.dumps(card.to_dict(), ensure_ascii=True, indent=1).encode() + b"\n")
    elif text is None:
        raise InputError(f"memory {card.memory} fired in none of these texts: give one to show it in with --text.")
    else:
        layer = int(card.memory.split(":")[0])
        contribution_maps(model, text, layers=layer).to_html(file, beside=card, view="memories")


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
    if card.text is not None and card.text.carried is not None:
        out.print(f"carries {sum(card.text.carried):+.4f} to {card.text.target} in the text", markup=False)
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
