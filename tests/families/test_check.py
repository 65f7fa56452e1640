"""The user's self-check: `check_model` and `tl-ffblock check`."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import tl_ffblock as ffb
from tests import tiny
from tests.cases import bridge_of, processed, wrapped
from tl_ffblock import check
from tl_ffblock.cli.main import main
from tl_ffblock.layer.scopes import scope_names


@pytest.mark.parametrize("family", ["gemma2", "gpt_neox", "qwen2_moe", "bert"])
def test_every_equation_of_every_layer_is_there(family: str) -> None:
    """One finding an identity, a layer; one a scope, a layer; all hold, and speed is measured."""
    model = bridge_of(family)
    result = check.check_model(model)
    assert result.ok
    assert result.verdict().startswith("ok: all ")
    assert {f.layer for f in result.findings} == set(range(model.cfg.n_layers))
    complete = [f.name for f in result.findings if f.kind == "completeness"]
    assert complete == [*scope_names(result.order)] * model.cfg.n_layers
    assert len(result.worst()) == len({(f.kind, f.name) for f in result.findings})
    assert any("W_V" in f.name for f in result.findings)
    assert result.tokens_per_second > 0
    assert result.times_forward > 0


def test_a_broken_model_fails() -> None:
    """The equation that does not hold is named with its layer; nothing is raised."""
    hf = tiny.hf_model("llama")
    shipped = hf.model.layers[0].input_layernorm.forward
    hf.model.layers[0].input_layernorm.forward = lambda x: 1.1 * shipped(x)
    model = wrapped(hf, "LlamaForCausalLM")
    result = check.check_model(model, tiny.tokens("llama", 6))
    assert not result.ok
    assert {(f.layer, f.name) for f in result.failures} == {(0, "norm(layer input) W_V + b_V = value")}
    assert "blocks.0.ln1 (LlamaRMSNorm) runs another forward function than its class" in result.verdict()
    assert "Reload the model" in str(result)


def test_an_unsupported_model_is_a_result() -> None:
    """The refusal is in it; something that is no model at all is an error."""
    result = check.check_model(tiny.bridge("opt", do_layer_norm_before=False))
    assert not result.ok
    assert "OPT-350m" in result.verdict()
    with pytest.raises(ValueError, match="expected a TransformerLens model"):
        check.check_model(nn.Linear(2, 2))


def test_tolerance_and_layers() -> None:
    """An impossible tolerance fails; layers= looks at some only."""
    result = check.check_model(bridge_of("gpt2"), tiny.tokens("gpt2", 5), layers=-1, rtol=1e-12)
    assert not result.ok
    assert {f.layer for f in result.findings} == {2}


def test_processed_weights_are_said() -> None:
    """A processed model is complete too: the result says what it is."""
    result = check.check_model(processed(bridge_of("gpt2")), tiny.tokens("gpt2", 5))
    assert (result.ok, result.processed) == (True, True)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`tl-ffblock check --model FOLDER` prints model, table, verdict and how its speed was measured; a refusal is status 1 and the reason."""
    folder = tiny.save_local("llama", tmp_path / "right")
    assert main(["check", "--model", str(folder), "--text", "the cat sat on the mat .", "--all"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"ok: all \d+ equations hold to 1e-4 \(float32\)", shown)
    tokens = re.match(r"right \(Llama, pre_ln, float32, raw weights\), (\d+) tokens\n", shown)
    assert tokens is not None
    threads = f"{tokens[1]} tokens on {torch.get_num_threads()} thread"
    assert re.search(rf"(?m)^speed  \d+ tokens/s for all layers and scopes of {threads}s?; ", shown)
    assert shown.count("norm(layer input) W_V + b_V = value") == 3  # layers
    options = {"new_decoder_architecture": True, "num_kv_heads": 4, "multi_query": False}
    tiny.hf_model("falcon", **options).save_pretrained(tmp_path / "refused")
    assert main(["check", "--model", str(tmp_path / "refused")]) == 1
    shown = capsys.readouterr().out
    assert "not supported" in shown and "new_decoder_architecture" in shown


def test_an_empty_tokenizer_is_none() -> None:
    """Hugging Face makes one for a folder without files of one: ids are drawn, and a text is refused with the cause."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    model = tiny.bridge("gpt2")
    model.tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE()), eos_token="<eos>", pad_token="<eos>"
    )
    result = ffb.check.check_model(model)
    assert result.ok
    assert result.n_tokens == 24
    with pytest.raises(ValueError, match=r"no tokenizer to read 'the cat' but one of special tokens.*pass token ids"):
        ffb.contribution_maps(model, "the cat")
