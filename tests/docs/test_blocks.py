"""Figures in documents are rendered from what runs have stored: rewording a sentence fails nothing, a stale figure does."""

import re
from collections.abc import Callable
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy
import pandas
import pytest

import tl_ffblock as ffb
from docs import blocks, papers
from docs.markdown import claim, interval
from docs.results import causal_tables, findings, flow_tables, heads_tables, memories_tables
from tl_ffblock.experiments import STUDIES

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", blocks.PAGES)
def test_blocks_are_what_the_stored_runs_say(page: str) -> None:
    """`python -m docs.blocks` changes nothing."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert blocks.rendered(text, blocks.PAGES[page]) == text


@pytest.mark.parametrize("page", blocks.PAGES)
def test_a_page_shows_every_block_once(page: str) -> None:
    """A block that is rendered and not shown would be forgotten, as would a marker that is never filled."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert sorted(blocks.names(text)) == sorted(blocks.PAGES[page])
    assert text.count("<!-- block:") == text.count("<!-- end of block -->") == len(blocks.PAGES[page])


def unfolded(text: str) -> str:
    """What a page shows before a reader opens anything."""
    return re.sub(r"<details markdown=\"1\">.*?</details>", "", text, flags=re.DOTALL)


def test_results_are_short_until_they_are_opened() -> None:
    """Findings come first; tables and methods are folded. Every fold is closed, and has a summary."""
    pages = [page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "results").glob("*.md"))]
    assert len(unfolded('a <details markdown="1">b c</details> d').split()) == 2
    assert 3000 < sum(len(unfolded(text).split()) for text in pages) <= 10_000
    for text in pages:
        folds = [text.count(tag) for tag in ('<details markdown="1">\n<summary>', "</summary>\n\n", "\n</details>")]
        assert len(set(folds)) == 1 and (folds[0] or len(text.split()) < 2000)


def absent(row: tuple[str, ...]) -> str:
    """What a row of papers.py names and is not there: its call or study, its test, or its stored table."""
    *_, call, shown = row
    file, _, test = shown.partition("::")
    if not (ROOT / file).is_file() or (test and f"def {test}(" not in (ROOT / file).read_text(encoding="utf-8")):
        return shown
    if call in STUDIES or (call.startswith("tl_ffblock.") and find_spec(call)):
        return ""
    first, *names = call.split(".")
    return "" if first == "ffb" and reduce(lambda at, name: getattr(at, name, None), names, ffb) is not None else call


def test_definitions_of_papers_have_their_calls_and_tests() -> None:
    """Every figure that a study repeats is in the table; a call, test or table that is not there is seen."""
    assert not list(filter(None, map(absent, papers.ROWS)))
    paper, place, what, call, shown = papers.ROWS[3]
    for wrong in ("contextualisation", "ffb.contribution_map", "tl_ffblock.experiments.vig"):
        assert absent((paper, place, what, wrong, shown)) == wrong
    for wrong in (f"{shown}_not", "docs/results/none.csv", "tests/none.py::test_changes"):
        assert absent((paper, place, what, call, wrong)) == wrong
    assert set(STUDIES) == {row[3] for row in papers.ROWS if row[3] in STUDIES}


def test_a_changed_figure_is_seen() -> None:
    """One digit in a block is enough; a word outside it is free."""
    page = "docs/results/causal_validation.md"
    text = (ROOT / page).read_text(encoding="utf-8")
    changed = re.sub(r"\| 0\.70 \[", "| 0.71 [", text, count=1)
    assert changed != text
    assert blocks.rendered(changed, blocks.PAGES[page]) == text
    reworded = text.replace("Does a map say", "Can a map say")
    assert reworded != text
    assert blocks.rendered(reworded, blocks.PAGES[page]) == reworded


def test_an_empty_block_is_filled_and_swallows_nothing() -> None:
    """A marker that was just written takes its block; the text and the block behind it stay."""
    page = "<!-- block: first -->\n\n<!-- end of block -->\n\ntext\n\n<!-- block: second -->\n\nold\n\n<!-- end of block -->\n"
    filled = "<!-- block: first -->\n\n1\n\n<!-- end of block -->\n\ntext\n\n<!-- block: second -->\n\n2\n\n<!-- end of block -->\n"
    texts = {"first": lambda: "1", "second": lambda: "2"}
    assert blocks.rendered(page, texts) == filled
    assert blocks.rendered(filled, texts) == filled


def test_a_sentence_is_written_only_if_the_tables_bear_it_out() -> None:
    """One condition that fails refuses it, whichever kind of truth it is; the error names the sentence."""
    assert claim("Cats are larger.", True, numpy.bool_(True)) == "Cats are larger."
    with pytest.raises(ValueError, match=r"no longer, that: Cats are larger\."):
        claim("Cats are larger.", True, numpy.bool_(False))
    assert interval((0.123, -0.05, 0.3), 1, "+", 100) == "+12.3 [-5.0, +30.0]"


def test_a_table_that_turns_round_refuses_its_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the feed-forward's gain certain, the page could not say that there is none."""
    read = heads_tables.stored

    def turned(run: str, name: str) -> pandas.DataFrame:
        rows = read(run, name)
        return rows.assign(mean_low=rows["mean_high"] / 2) if name == "heads_differences" else rows

    assert heads_tables.in_short().startswith("In short")
    monkeypatch.setattr(heads_tables, "stored", turned)
    with pytest.raises(ValueError, match="does not make relations clearer"):
        heads_tables.in_short()


@pytest.mark.parametrize(
    ("module", "read", "said", "changed", "sentence"),
    [
        (findings, "stored", "said_of_what_is_left", {"change": lambda old: 1 / old}, "residual connection undoes"),
        (findings, "stored", "said_of_bypass", {"ratio": lambda old: 1 / old}, "early layers of MiniLM"),
        (findings, "stored", "said_of_mutual_information", {"spearman": lambda old: 2 * old}, "Holds in substance"),
        (causal_tables, "lead_of", "said", {"difference": lambda old: -old}, "better than attention"),
        (memories_tables, "stored", "said_of_composition", {"active": lambda old: old / 2}, "Half of the memories"),
        (memories_tables, "stored", "said_of_decisive", {"by_removal": lambda old: old * 0}, "almost always"),
        (flow_tables, "stored", "said_of_ioi", {"against_wrong": lambda old: old & False}, "a head that is neither"),
        (
            heads_tables,
            "stored",
            "said_of_probes",
            {"attachment_low": lambda old: old - 1},
            "above the best fixed",
        ),
    ],
)
def test_a_finding_is_refused_where_its_table_says_otherwise(
    module: ModuleType,
    read: str,
    said: str,
    changed: dict[str, Callable[[pandas.Series], pandas.Series]],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One column of a stored table is changed: the sentence that rests on it is not written."""
    stored = getattr(module, read)

    def other(*names: str) -> pandas.DataFrame:
        rows = stored(*names)
        return rows.assign(**{name: change(rows[name]) for name, change in changed.items() if name in rows})

    assert sentence in getattr(module, said)()
    monkeypatch.setattr(module, read, other)
    with pytest.raises(ValueError, match=sentence):
        getattr(module, said)()
