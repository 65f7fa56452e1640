"""The card of a memory, and the command that prints it."""

import json
from pathlib import Path

import pytest

from tests import tiny
from tl_ffblock import load_model, memories
from tl_ffblock.cli.main import main

TEXTS = ["the cat sat on the mat .", "a dog and the bird saw her", "He said he would not . Why ?"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved GPT-2 of three layers, and a corpus beside it."""
    folder = tmp_path_factory.mktemp("memory")
    tiny.save_local("gpt2", folder / "model", TEXTS)
    (folder / "corpus.txt").write_text("\n".join(TEXTS) + "\n")
    return folder


def test_a_card_says_what_the_functions_say(folder: Path) -> None:
    """Parts and bias sum to each coefficient, which stands in its text at its place."""
    model = load_model(folder / "model")
    card = memories.memory_card(model, TEXTS, "1:7", k=3)
    triggers = memories.find_triggers(model, TEXTS, memories="1:7", k=3).of("1:7")
    assert [(t.sequence, t.position) for t in card.positive] == [(t.sequence, t.position) for t in triggers]
    assert card.value is not None and card.value.top == memories.value_tokens(model, memories="1:7", k=3).top("1:7")
    for trigger in (*card.positive, *card.negative):
        assert sum(trigger.parts) + trigger.bias == pytest.approx(trigger.coefficient, rel=1e-4, abs=1e-5)
        assert trigger.along[trigger.position] == pytest.approx(trigger.coefficient, rel=1e-4)
        assert len(trigger.along) == len(trigger.parts) == len(trigger.tokens)
    assert all(t.coefficient > 0 for t in card.positive) and all(t.coefficient < 0 for t in card.negative)


def test_the_command_prints_and_writes_the_card(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its tables, and all of it as JSON."""
    file = folder / "card.json"
    given = ["--corpus", str(folder / "corpus.txt"), "--model", str(folder / "model"), "--k", "2", "--json", str(file)]
    assert main(["memory", "1:7", *given]) == 0
    printed = capsys.readouterr().out
    assert "memory 1:7" in printed and "brought by" in printed and "promotes (final_norm)" in printed
    card = json.loads(file.read_text())
    assert card["memory"] == "1:7" and len(card["positive"]) <= 2 and card["corpus_texts"] == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["305", "--corpus", "corpus.txt"], "expected LAYER:NEURON"),
        (["1:3", "--corpus", "nowhere.txt"], "there is no such file"),
        (["1:3", "--corpus", "corpus.txt", "--k", "0"], "expected 1 or more"),
        (["1:3", "--corpus", "corpus.txt", "--skip-first", "-1"], "--skip-first -1: expected 0 or more"),
        (["1:3", "--corpus", "empty.txt"], "there is no text in it"),
    ],
)
def test_what_a_user_gives_wrong_is_said_at_once(
    arguments: list[str], says: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line and status 2, before a model is loaded."""
    monkeypatch.chdir(folder)
    (folder / "empty.txt").write_text("\n")
    assert main(["memory", *arguments, "--model", "none"]) == 2
    assert says in capsys.readouterr().err
