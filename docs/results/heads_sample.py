"""Writes the sample of a treebank that heads.md is about: its sentences in random order, each with its document's name.

    python docs/results/heads_sample.py en_ewt-ud-dev.conllu shuffled.conllu

The first N sentences are then a random sample of N, and a run over them can be extended with a larger `--limit`.
"""

import random
import sys
from pathlib import Path

SEED = 0


def shuffled(treebank: str) -> str:
    """The sentences in random order, a line `# newdoc id` before each."""
    sentences, document = [], ""
    for block in treebank.strip().split("\n\n"):
        for line in block.splitlines():
            if line.startswith("# newdoc id"):
                document = line
        body = [line for line in block.splitlines() if not line.startswith("# newdoc id")]
        sentences.append("\n".join([document, *body]))
    random.Random(SEED).shuffle(sentences)
    return "\n\n".join(sentences) + "\n\n"


def main(treebank: str, sample: str) -> None:
    """Read one file, write the other."""
    Path(sample).write_text(shuffled(Path(treebank).read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
