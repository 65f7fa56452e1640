"""Models as users have them: compatibility mode, processed weights, devices, padding, token types, BOS."""

import contextlib
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests import tiny
from tests.tolerances import BATCH_FLOAT32, COMPLETE_FLOAT32
from tl_ffblock.errors import ProcessedWeightsWarning

pytestmark = pytest.mark.filterwarnings("ignore:Hooked.* is deprecated:DeprecationWarning")  # TransformerLens 3 says so

Bridges = Callable[..., Any]
FORMS = ("gpt2", "llama", "gemma2", "gpt_neox", "olmo2", "qwen2_moe", "bert")


def _same(found: Any, expected: Any, **tolerance: float) -> None:
    assert found.scopes == expected.scopes
    for scope in expected.scopes:
        torch.testing.assert_close(found[scope], expected[scope], **(tolerance or BATCH_FLOAT32))


def _compatible(model: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.enable_compatibility_mode(**options)
    return model


@pytest.mark.parametrize("family", [*FORMS, "gpt_oss"])
def test_compatibility_mode_without_processing(ffb: ModuleType, bridge_of: Bridges, family: str) -> None:
    """Names change, numbers do not, and there is nothing to warn about."""
    tokens = tiny.tokens(family, 6)
    expected = ffb.contribution_maps(bridge_of(family), tokens)
    found = ffb.contribution_maps(_compatible(bridge_of(family), no_processing=True), tokens)
    assert found.provenance["weights"] == "raw"
    _same(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("family", FORMS)
def test_compatibility_mode_with_processing(ffb: ModuleType, bridge_of: Bridges, family: str) -> None:
    """Warned about, and the maps are those of the processed model, complete."""
    model, tokens = _compatible(bridge_of(family)), tiny.tokens(family, 6)
    with pytest.warns(ProcessedWeightsWarning, match=r"processed model.*without enable_compatibility_mode"):
        maps = ffb.contribution_maps(model, tokens)
    assert maps.provenance["weights"] == "processed"
    assert maps.worst_completeness()[0] < COMPLETE_FLOAT32 / 10


@pytest.mark.parametrize("family", tiny._HOOKED)
def test_hooked_models_are_the_bridges(ffb: ModuleType, family: str) -> None:
    """TransformerLens 3: HookedTransformer and HookedEncoder of the same weights."""
    options = {"swiglu_limit": 7.0} if family == "gpt_oss" else {}
    try:
        model = tiny.hooked(family, **options)
    except RuntimeError as error:
        pytest.skip(f"no HookedTransformer here: {error}")
    if family == "gpt_oss":
        pytest.skip("refused: test_refusals")
    tokens = tiny.tokens(family, 6)
    _same(
        ffb.contribution_maps(model, tokens), ffb.contribution_maps(tiny.bridge(family), tokens), rtol=1e-3, atol=1e-4
    )


def test_a_fresh_hooked_transformer_is_not_called_processed(ffb: ModuleType) -> None:
    """Gains of one are what initialisation gives; only folding and centring are processing."""
    try:
        from transformer_lens import HookedTransformer, HookedTransformerConfig
    except ImportError:
        pytest.skip("HookedTransformer left TransformerLens in 4.0")
    entries = dict(n_layers=2, d_model=16, n_ctx=16, d_head=8, d_vocab=40, act_fn="gelu", normalization_type="LN")
    model = HookedTransformer(HookedTransformerConfig(**entries)).eval()
    assert ffb.contribution_maps(model, torch.arange(5, 12)).provenance["weights"] == "raw"


def test_one_zero_attention_mask(ffb: ModuleType) -> None:
    """HookedEncoder calls its mask otherwise; ours is the same argument for all."""
    try:
        model = tiny.hooked("bert")
    except RuntimeError as error:
        pytest.skip(f"no HookedEncoder here: {error}")
    batch, mask = tiny.tokens("bert", 6).repeat(2, 1), torch.ones(2, 6, dtype=torch.long)
    mask[1, 4:] = 0
    found = ffb.contribution_maps(model, batch, attention_mask=mask)
    _same(found[1], ffb.contribution_maps(model, batch[1, :4]))


def _encoders() -> list[Any]:
    models = [tiny.bridge("bert")]
    with contextlib.suppress(RuntimeError):  # TransformerLens 4 has none
        models.append(tiny.hooked("bert"))
    return models


def test_token_types(ffb: ModuleType) -> None:
    """Segments reach the model: its run with them is what is decomposed, in a padded batch too."""
    tokens, types = tiny.tokens("bert", 6), torch.tensor([0, 0, 0, 1, 1, 1])
    hf = tiny.hf_model("bert").bert
    with torch.no_grad():
        expected = hf(tokens[None], token_type_ids=types[None], output_hidden_states=True).hidden_states
    for model in _encoders():
        part = ffb.decompose(model, tokens, layer=0, token_type_ids=types)
        torch.testing.assert_close(part.whole("AtbFfResLn"), expected[1][0], rtol=1e-4, atol=1e-4)
        maps = ffb.contribution_maps(model, tokens, token_type_ids=types)
        assert not torch.allclose(maps["Attn"], ffb.contribution_maps(model, tokens)["Attn"], rtol=1e-2)
        batch = torch.stack([torch.cat([tokens, tokens.new_zeros(2)])] * 2)
        mask, both = torch.tensor([[1] * 6 + [0] * 2] * 2), torch.stack([torch.cat([types, types.new_zeros(2)])] * 2)
        for found in ffb.contribution_maps(model, batch, attention_mask=mask, token_type_ids=both):
            _same(found, maps)


@pytest.mark.parametrize(
    ("family", "given", "types", "reason"),
    [
        ("gpt2", "tokens", torch.zeros(4, dtype=torch.long), "has no token types"),
        ("bert", "tokens", torch.zeros(3, dtype=torch.long), "of the input's shape"),
        ("bert", "tokens", torch.full((4,), 2), "expected 0 to 1"),
        ("bert", "tokens", torch.zeros(4), "expected integers"),
        ("bert", "text", torch.zeros(4, dtype=torch.long), "not with texts"),
    ],
)
def test_wrong_token_types(ffb: ModuleType, family: str, given: str, types: Any, reason: str) -> None:
    """They are for BERT, integers, one a token, within its table."""
    with pytest.raises(ValueError, match=reason):
        ffb.contribution_maps(
            tiny.bridge(family), tiny.tokens(family, 4) if given == "tokens" else "a text", token_type_ids=types
        )


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert"])
def test_bos_or_not(ffb: ModuleType, family: str, tmp_path: Path) -> None:
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


def test_device_map(ffb: ModuleType, tmp_path: Path) -> None:
    """A model that accelerate spread (here: over the CPU alone) is decomposed where its layers are."""
    pytest.importorskip("accelerate")
    from transformer_lens.model_bridge.sources import build_bridge_from_module
    from transformers import AutoModelForCausalLM

    folder = tiny.save_local("llama", tmp_path)
    hf = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", device_map={"": "cpu"})
    hf.config.architectures = ["LlamaForCausalLM"]
    model = build_bridge_from_module(hf.eval(), "LlamaForCausalLM", hf_config=hf.config).eval()
    _same(
        ffb.contribution_maps(model, tiny.tokens("llama", 6)),
        ffb.contribution_maps(tiny.bridge("llama"), tiny.tokens("llama", 6)),
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("family", FORMS)
def test_layers_on_two_devices(ffb: ModuleType, family: str) -> None:
    """Layers on the GPU and on the CPU: each is decomposed on its own device, the result is on the CPU."""
    accelerate = pytest.importorskip("accelerate")
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    hf = tiny.hf_model(family)
    layers = next(name for name, module in hf.named_modules() if isinstance(module, torch.nn.ModuleList))
    inside = {name: "cuda:0" for name, _ in hf.named_children()}
    assert layers
    model = build_bridge_from_module(
        accelerate.dispatch_model(hf, inside, force_hooks=True),
        tiny.ALL_FAMILIES[family].architecture,
        hf_config=hf.config,
    ).eval()
    tokens = tiny.tokens(family, 6)
    found = ffb.contribution_maps(model, tokens)
    assert found[found.scopes[0]].device.type == "cpu"
    _same(found, ffb.contribution_maps(tiny.bridge(family), tokens), rtol=1e-2, atol=1e-3)
