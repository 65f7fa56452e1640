"""Writes the sample of WikiText-2 that memories.md is about, a sentence a line in random order.

    python docs/results/memories_sample.py wiki.test.txt wikitext2.txt

The first N lines are then a random sample of N, and a run over them can be extended with a larger `--limit`. Split marks
(`@-@`) are joined, `<unk>` is dropped, headings and sentences of fewer than eight words are left out.
"""

import random
import re
import sys
from pathlib import Path

SEED, LEAST_WORDS = 0, 8


def sentences(text: str) -> list[str]:
    """The sentences in random order."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(" = ")]
    joined = [re.sub(r" @(.)@ ", r"\1", line).replace("<unk>", "") for line in lines]
    pieces = [piece for line in joined for piece in re.split(r"(?<= [.!?]) ", line)]
    kept = [" ".join(piece.split()) for piece in pieces if len(piece.split()) >= LEAST_WORDS]
    random.Random(SEED).shuffle(kept)
    return kept


def main(corpus: str, sample: str) -> None:
    """Read one file, write the other."""
    lines = sentences(Path(corpus).read_text(encoding="utf-8"))
    Path(sample).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
