"""What the readers give: texts with what the data knows of them, and what could not be read."""

from dataclasses import dataclass
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
"""Characters from start to end of a text."""


@dataclass(frozen=True)
class Relation:
    """A syntactic relation between two of a text's words, as a treebank has it."""

    dependent: int
    """Index among the text's words."""
    head: int
    """The same of the word it depends on; -1 for the root of a sentence."""
    name: str
    """The treebank's, with its subtype: "nsubj", "nsubj:pass"."""


@dataclass(frozen=True)
class CorpusText:
    """One text of the corpus; with its tokens it is a sequence of the run."""

    text: str
    where: str
    """File and line, row or sentence, for messages."""
    document: str
    """The article it belongs to."""
    words: tuple[Span, ...] | None = None
    """Gold words, where the data has them."""
    groups: tuple[tuple[Span, ...], ...] = ()
    """Words that belong together, as multi-word expressions and named entities do."""
    relations: tuple[Relation, ...] = ()
    """Syntactic relations between its gold words, where the data has them; none between words written as one."""
    number: int = -1
    """Place in the run, given when the corpus is cut into shards."""


@dataclass(frozen=True)
class Problem:
    """A line that could not be read or a sequence that failed: reported and counted, the rest goes on."""

    where: str
    why: str
    stage: str
    """`reading`, `tokenising` or `measuring`."""
