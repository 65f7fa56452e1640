"""Models as users have them: compatibility mode, processed weights, devices, padding, token types, BOS."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tl_ffblock as ffb
from tests import tiny
from tests.cases import COVERING, TL_3, Case, bridge_of, processed, wrapped
from tests.tolerances import BATCH_FLOAT32, COMPLETE_FLOAT32
from tl_ffblock.bridge import callbacks
from tl_ffblock.errors import ProcessedWeightsWarning


def _same(found: Any, expected: Any, **tolerance: float) -> None:
    assert found.scopes == expected.scopes
    for scope in expected.scopes:
        torch.testing.assert_close(found[scope], expected[scope], **(tolerance or BATCH_FLOAT32))


@pytest.mark.parametrize("family", COVERING)
def test_compatibility_mode_without_processing(family: str) -> None:
    """Names change, numbers do not, and there is nothing to warn about."""
    tokens = tiny.tokens(family, 6)
    expected = ffb.contribution_maps(bridge_of(family), tokens)
    found = ffb.contribution_maps(processed(bridge_of(family), no_processing=True), tokens)
    assert found.provenance["weights"] == "raw"
    _same(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("family", [name for name in COVERING if name != "gpt_oss"])
def test_compatibility_mode_with_processing(family: str) -> None:
    """Warned about, and the maps are those of the processed model, complete."""
    model, tokens = processed(bridge_of(family)), tiny.tokens(family, 6)
    with pytest.warns(ProcessedWeightsWarning, match="enable_compatibility_mode") as said:
        maps = ffb.contribution_maps(model, tokens)
    assert maps.provenance["weights"] == "processed" and said[0].filename == __file__
    assert maps.worst_completeness()[0] < COMPLETE_FLOAT32 / 10


def test_token_types() -> None:
    """Segments reach the model: its run with them is what is decomposed, in a padded batch too."""
    tokens, types = tiny.tokens("bert", 6), torch.tensor([0, 0, 0, 1, 1, 1])
    hf = tiny.hf_model("bert").bert
    with torch.no_grad():
        expected = hf(tokens[None], token_type_ids=types[None], output_hidden_states=True).hidden_states
    for model in (tiny.bridge("bert"), *((Case("bert", "hooked").fresh(),) if TL_3 else ())):
        part = ffb.decompose(model, tokens, layer=0, token_type_ids=types)
        torch.testing.assert_close(part.whole("AtbFfResLn"), expected[1][0], rtol=1e-4, atol=1e-4)
        maps = ffb.contribution_maps(model, tokens, token_type_ids=types)
        assert not torch.allclose(maps["Attn"], ffb.contribution_maps(model, tokens)["Attn"], rtol=1e-2)
        batch = torch.stack([torch.cat([tokens, tokens.new_zeros(2)])] * 2)
        mask, both = torch.tensor([[1] * 6 + [0] * 2] * 2), torch.stack([torch.cat([types, types.new_zeros(2)])] * 2)
        for found in ffb.contribution_maps(model, batch, attention_mask=mask, token_type_ids=both):
            _same(found, maps)


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert"])
def test_bos_or_not(family: str, tmp_path: Path) -> None:
    """A text is tokenised as the model does it by default; the labels say what ran, and token ids run as they are."""
    from transformer_lens.model_bridge import TransformerBridge

    model = TransformerBridge.boot_transformers(str(tiny.save_local(family, tmp_path)), device="cpu").eval()
    maps = ffb.contribution_maps(model, "the cat sat")
    brackets = {"bert": ("[CLS]", "[SEP]")}.get(family, ("<bos>",))
    assert tuple(token.strip() for token in maps.tokens if token.strip() in brackets) == brackets
    tokens = model.to_tokens("the cat sat")[0]
    _same(ffb.contribution_maps(model, tokens), maps, rtol=0, atol=0)
    if family != "bert":
        model.cfg.default_prepend_bos = False
        without = ffb.contribution_maps(model, "the cat sat")
        assert without.tokens == maps.tokens[1:]
        _same(ffb.contribution_maps(model, tokens[1:]), without, rtol=0, atol=0)


def test_device_map(tmp_path: Path) -> None:
    """A model that accelerate spread (here: over the CPU alone) is decomposed where its layers are."""
    pytest.importorskip("accelerate")
    from transformers import AutoModelForCausalLM

    folder = tiny.save_local("llama", tmp_path)
    hf = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", device_map={"": "cpu"})
    hf.config.architectures = ["LlamaForCausalLM"]
    model = wrapped(hf, "LlamaForCausalLM")
    _same(
        ffb.contribution_maps(model, tiny.tokens("llama", 6)),
        ffb.contribution_maps(tiny.bridge("llama"), tiny.tokens("llama", 6)),
    )


@pytest.mark.parametrize(
    "case", [Case(name, api) for name in ("gpt2", "bert") for api in ("bridge", "hooked")], ids=str
)
def test_every_class_has_what_is_needed_of_it(case: Case) -> None:
    """TransformerBridge, HookedTransformer, HookedEncoder and each of their HookPoints; a module of torch has it not."""
    model = case.model()
    assert isinstance(model, callbacks.HookedModel)
    assert all(isinstance(point, callbacks.HookPoint) for point in model.hook_dict.values())
    assert not isinstance(nn.Linear(2, 2), callbacks.HookedModel | callbacks.HookPoint)
