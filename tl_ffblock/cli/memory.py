"""`tl-ffblock memory 12:305 --corpus FILE`: top-activating examples of a neuron, tokens that cause them, and promoted tokens."""

import argparse
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tl_ffblock.cli.arguments import (
    Command,
    arguments,
    check_needs,
    choices_of,
    console,
    flag,
    load,
    read_files,
    read_target,
    read_text,
    say,
    table,
    working,
    write_files,
)
from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.texts import CorpusText, read_texts
from tl_ffblock.errors import InputError

if TYPE_CHECKING:
    from tl_ffblock.memories.card import CardTrigger, MemoryCard

SHOWN = 8
"""Number of tokens of a prefix in the table."""


def run(options: argparse.Namespace) -> None:
    """Read the arguments and the corpus, make the card, print it and write it."""
    pieces = options.memory.split(":")
    if len(pieces) not in (2, 3) or not all(piece.isdecimal() and piece.isascii() for piece in pieces):
        raise InputError(f"{options.memory}: expected LAYER:NEURON such as 12:305, or LAYER:EXPERT:NEURON.")
    for name, least in (("limit", 1), ("k", 1), ("skip_first", 0)):
        if getattr(options, name) < least:
            raise InputError(f"{flag(name)} {getattr(options, name)}: expected {least} or more.")
    check_needs(options, (("target", ("text",)), ("minus", ("target",)), ("text", ("target", "html", "json"))))
    target = read_target(options)
    text = None if options.text is None else read_text(options.text)
    files = read_files(options, "json", "html")
    read = read_texts(Config(model=options.model, data=options.corpus, out=""))
    texts = [each.text for each in islice((one for one in read if isinstance(one, CorpusText)), options.limit)]
    if not texts:
        raise InputError(f"--corpus {options.corpus}: it has no text. Use another file.")
    model = load(options)
    from tl_ffblock.attribution import attribute
    from tl_ffblock.contributions import contribution_maps
    from tl_ffblock.memories.card import memory_card

    with working(f"searching {len(texts)} texts"):
        search = {name: getattr(options, name) for name in ("k", "per", "reading", "skip_first")}
        card = memory_card(model, texts, options.memory, **search)
    triggers = card.positive or card.negative
    if text is None and options.html is not None and triggers:
        text = texts[triggers[0].sequence]
    if text is not None:
        card = card.on_text(model, text, None if target is None else attribute(model, text, target(), of="neurons"))
    _print(card)

    def write_page(file: Path) -> None:
        if text is None:
            raise InputError(f"memory {card.memory} has no activation in these texts: pass a text with --text.")
        contribution_maps(model, text, layers=int(pieces[0])).to_html(file, beside=card, view="memories")

    write_files(files, card, html=write_page)


COMMAND = Command(
    run,
    help="what activates a neuron, and what it promotes",
    description="Search a corpus for the prefixes with the largest activations of a feed-forward neuron (triggers), attribute each "
    "activation to its tokens, and list the tokens that the neuron's value promotes. Prints tables. Options write JSON or a page.",
    arguments=arguments(
        {
            "memory": {"metavar": "LAYER:NEURON", "help": "such as 12:305; of an expert LAYER:EXPERT:NEURON"},
            "--corpus": {
                "required": True,
                "metavar": "FILE",
                "help": "texts, one per line (.txt), or .jsonl, .csv, .tsv, .conllu",
            },
            "--limit": {"type": int, "default": 200, "metavar": "N", "help": "number of texts to read (default 200)"},
            "--k": {
                "type": int,
                "default": 10,
                "metavar": "K",
                "help": "number of triggers and of tokens (default 10)",
            },
            "--per": {
                "choices": choices_of("memories", "Per"),
                "default": "sentence",
                "help": "one trigger per text (default), or several",
            },
            "--reading": {
                "choices": choices_of("bridge", "Reading"),
                "default": "final_norm",
                "help": "read the value by the model's final norm and unembedding (default), or by the unembedding alone",
            },
            "--skip-first": {
                "type": int,
                "default": 1,
                "metavar": "N",
                "help": "number of first tokens that are not triggers (default 1)",
            },
            "--text": {
                "metavar": "TEXT",
                "help": "text in which the neuron is shown (default on a page: its first trigger's)",
            },
            "--target": {
                "help": 'token after TEXT, such as " Mary" or #7: attribution of its logit to the neuron',
            },
            "--minus": {},
            "--model": {},
            "--device": {},
            "--json": {"help": "write the card"},
            "--html": {"help": "write a page with the card and the layer's maps"},
        }
    ),
)


def _print(card: "MemoryCard") -> None:
    say(f"memory {card.memory} of {card.model}, {card.corpus_texts} texts", style="bold")
    columns = {"": True, "coefficient": True, "text": True, "ends in": False, "next": False, "from token": False}
    for title, triggers in (("largest coefficients", card.positive), ("most negative ones", card.negative)):
        if triggers:
            console().print(table(title, columns, _triggers(triggers)))
        else:
            say(f"{title}: it never had one in these texts")
    if card.text is not None and card.text.carried is not None:
        say(f"contributes {sum(card.text.carried):+.4f} to {card.text.target} in the text")
    if card.value is None:
        say("its value cannot be read as tokens: the model was saved without its head")
        return
    for title, tokens in (("promotes", card.value.top), ("demotes", card.value.bottom)):
        say(f"{title} ({card.value.reading}): {_joined(tokens)}")
    if card.value.agreeing is not None:
        say(f"{card.value.agreeing} of {card.value.followed} triggers are followed by its first token")


def _triggers(triggers: "Iterable[CardTrigger]") -> Iterator[tuple[str, ...]]:
    """One row per trigger: its end, the next token, and the token with the largest part of the activation."""
    for trigger in triggers:
        largest = max(trigger.parts) if trigger.coefficient > 0 else min(trigger.parts)
        most = trigger.parts.index(largest)
        yield (
            str(trigger.rank),
            f"{trigger.coefficient:+.3f}",
            str(trigger.sequence),
            _joined(trigger.tokens[max(0, trigger.position + 1 - SHOWN) : trigger.position + 1]),
            _joined(() if trigger.next_token is None else (trigger.next_token,)),
            f"{_joined((trigger.tokens[most],))} at {most} ({largest:+.3f})",
        )


def _joined(tokens: Iterable[str]) -> str:
    from tl_ffblock.results.tokens import visible

    return " ".join(visible(token) for token in tokens)
