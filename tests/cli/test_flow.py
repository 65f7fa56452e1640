"""`tl-ffblock flow`: table, page and JSON, and what is refused."""

import json
from pathlib import Path

import pytest

import tl_ffblock as ffb

from .conftest import Command

TEXT = "the cat sat on the"


def test_a_prompt_becomes_a_table_a_page_and_a_file(command: Command, folder: Path, tmp_path: Path) -> None:
    """The graph in words, its largest nodes, one page, JSON, and a file that loads."""
    ran = command("flow", TEXT, "--layers", "1-2", "--target", "mat", "--minus", "cat", "--model", str(folder),
                  "--html", "x.html", "--json", "x.json", "--save", "x.graph")  # fmt: skip
    assert ran.status == 0, ran.err
    graph = ffb.FlowGraph.load(tmp_path / "x.graph")
    assert graph.layers == (1, 2)
    assert repr(graph) in ran.out
    assert len(json.loads((tmp_path / "x.json").read_text())["nodes"]) == len(graph.nodes)
    strongest = max((n for n in graph.nodes if n.kind == "head"), key=lambda n: abs(n.shares[0]))
    assert strongest.name in ran.out
    assert (tmp_path / "x.html").read_text().startswith("<!doctype html>")


def test_routes_have_a_page(command: Command, folder: Path, tmp_path: Path) -> None:
    """From all tokens to the target, through the whole model."""
    ran = command(
        "flow", TEXT, "--routes", "--target", "mat", "--keep", "0.7", "--model", str(folder), "--html", "r.html"
    )
    assert ran.status == 0, ran.err
    assert "Paths to logit" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("more", [[], ["--routes"]])
def test_a_target_may_be_an_id(more: list[str], command: Command, folder: Path) -> None:
    """As in the other commands: `#7` is a number of the vocabulary, and no text."""
    token = ffb.load_model(folder).tokenizer.convert_tokens_to_ids("mat")
    by_id, by_text = (
        command("flow", TEXT, "--target", target, "--minus", minus, "--model", str(folder), *more)
        for target, minus in ((f"#{token}", "#7"), ("mat", "#7"))
    )
    assert by_id.status == 0, by_id.err
    assert by_id.out == by_text.out
