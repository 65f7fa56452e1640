"""The card of a memory, and the command that prints it."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.tolerances import FLOAT32
from tl_ffblock import load_model, memories
from tl_ffblock.cli.main import main
from tl_ffblock.errors import InputError

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


def test_a_card_shows_a_text_of_the_readers_own(folder: Path) -> None:
    """At every position parts and bias sum to the coefficient there, which is the model's own activation."""
    model = load_model(folder / "model")
    result = ffb.attribute(model, TEXTS[1], ffb.logit("her"))
    card = memories.memory_card(model, TEXTS, "1:7", k=1).on_text(model, TEXTS[1], result)
    assert card.text is not None and card.text.carried is not None
    with torch.no_grad():
        own = model.run_with_cache(model.to_tokens(TEXTS[1]))[1]["blocks.1.mlp.hook_post"][0, :, 7]
    np.testing.assert_allclose(card.text.along, own, **FLOAT32)
    np.testing.assert_allclose(np.sum(card.text.parts, axis=1) + card.text.bias, own, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(card.text.carried, result.neurons(1)[:, 7])
    with pytest.raises(InputError, match="the attribution is of"):
        card.on_text(model, TEXTS[0], result)


def test_what_memories_carry_sums_to_what_their_layer_writes(folder: Path) -> None:
    """With the output bias it is the feed-forward's share; read right behind it, it is `m_i <v_i, direction>`."""
    model = load_model(folder / "model")
    names = [f"1:{neuron}" for neuron in range(tiny.D_MLP)]
    result = ffb.attribute(model, TEXTS[0], ffb.logit("mat", minus="dog"), of=("neurons", "graph"))
    written = memories.carried(result, names).shares.sum(dim=0)
    bias = result.bias_shares[list(result.bias_names).index("blocks.1.mlp.b_out")]
    torch.testing.assert_close(written + bias, result.parts["graph.mlps"][1], rtol=1e-4, atol=1e-5)
    direction = torch.randn(tiny.D_MODEL, generator=torch.Generator().manual_seed(0))
    at_once = ffb.attribute(model, TEXTS[0], ffb.direction(direction, layer=2))
    shares = memories.carried(at_once, names)
    with torch.no_grad():
        own = model.run_with_cache(model.to_tokens(TEXTS[0]))[1]["blocks.1.mlp.hook_post"][0, -1]
    expected = own * (model.blocks[1].mlp.W_out.detach() @ direction)
    torch.testing.assert_close(shares.shares[:, -1], expected, rtol=1e-4, atol=1e-5)
    largest = memories.largest_carried(at_once, k=3)
    sizes = torch.stack([at_once.neurons(layer).abs().flatten().topk(3).values for layer in range(3)])
    np.testing.assert_allclose(largest["value"].abs(), sizes.flatten().topk(3).values, rtol=1e-6)
    for row in largest.itertuples():
        assert memories.carried(at_once, row.memory).shares[0, row.position] == row.value


def test_the_command_prints_and_writes_the_card(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its tables, all of it as JSON, and a page with the text's maps, opened at the card; the share of the target is printed."""
    file, page = folder / "card.json", folder / "page.html"
    given = ["memory", "1:7", "--corpus", str(folder / "corpus.txt"), "--model", str(folder / "model")]
    assert main([*given, "--k", "2", "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "memory 1:7" in printed and "from token" in printed and "promotes (final_norm)" in printed
    card = json.loads(file.read_text())
    assert card["memory"] == "1:7" and len(card["positive"]) <= 2 and card["corpus_texts"] == 3
    given += ["--html", str(page), "--k", "1"]
    assert main([*given, "--text", "a dog and the", "--target", "bird", "--minus", "#5"]) == 0
    assert "contributes" in capsys.readouterr().out
    html = page.read_text()
    assert '"kind":"memory"' in html and '"view":"memories"' in html
    assert main(given) == 0
    assert page.read_text() != html
    assert main([*given, "--target", "bird"]) == 2
    assert "--target needs --text" in capsys.readouterr().err
