"""What cannot be decomposed is refused in words: what was wrong, where, what was expected, what to do."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tl_ffblock import load_model
from tl_ffblock.errors import ProcessedWeightsWarning

Models = Callable[..., Any]


@pytest.fixture(scope="module")
def model() -> Any:
    """A GPT-2 without tokenizer."""
    return tiny.bridge("gpt2")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A GPT-2 with a tokenizer."""
    return load_model(str(tiny.save_local("gpt2", tmp_path_factory.mktemp("gpt2"))))


TOKENS = torch.tensor([7, 8, 9])


# --- input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", " ", "\n\t  "], ids=repr)
def test_empty_texts(reader: Any, text: str) -> None:
    """A text without a word, alone or among others."""
    for given in (text, ["the cat", text]):
        with pytest.raises(ValueError, match="input is an empty text; give at least one word"):
            ffb.contribution_maps(reader, given)


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "an empty list"),
        ([1, "cat"], "a list of int"),
        ([True, False], "a list of bool"),
        ([[1, 2], [3, 4]], "a list of list"),
        ([torch.tensor([1])], "a list of Tensor"),
        (None, "a NoneType"),
        (b"cat", "a bytes"),
        (7, "a int"),
        ({"input_ids": TOKENS}, "a dict"),
    ],
    ids=repr,
)
def test_things_that_are_neither_text_nor_tokens(model: Any, given: Any, message: str) -> None:
    """The message says what came and what is expected."""
    with pytest.raises(
        ValueError, match=f"input is {message}.*expected a text, a list of texts, token ids, or a token tensor"
    ):
        ffb.contribution_maps(model, given)


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.tensor([0.5, 1.0]), r"shape \(2,\) and dtype torch\.float32; expected integer token ids"),
        (torch.tensor([True]), r"dtype torch\.bool; expected integer token ids"),
        (torch.tensor(3), r"shape \(\) and dtype torch\.int64; expected"),
        (torch.ones(1, 1, 2, dtype=torch.long), r"shape \(1, 1, 2\)"),
        (torch.ones(0, dtype=torch.long), "input has no tokens; give at least one"),
        (torch.ones(2, 0, dtype=torch.long), "input has no tokens; give at least one"),
        (torch.ones(0, 4, dtype=torch.long), "input has no tokens; give at least one"),
        (torch.ones(49, dtype=torch.long), r"input has 49 tokens, .* reads at most 48: shorten or split it"),
        (torch.tensor([3, -1]), r"token id -1; .* knows ids 0 to 63"),
        (torch.tensor([3, 64]), r"token id 64; .* knows ids 0 to 63"),
    ],
    ids=str,
)
def test_token_tensors_that_cannot_be_run(model: Any, tokens: Tensor, message: str) -> None:
    """Type, shape, length and ids are checked before the model runs."""
    for call in (ffb.contribution_maps, lambda *given: ffb.decompose(*given, layer=0)):
        with pytest.raises(ValueError, match=message):
            call(model, tokens)


def test_as_many_tokens_as_the_context_holds(family: str) -> None:
    """The limit itself is allowed, one more is not."""
    limit = tiny.N_CTX
    maps = ffb.contribution_maps(model_of(family), tiny.tokens(family, limit), layers=0)
    assert len(maps.tokens) == limit
    with pytest.raises(ValueError, match="input has 49 tokens"):
        ffb.contribution_maps(model_of(family), tiny.tokens(family, limit + 1))


def test_too_long_a_text_is_not_cut(reader: Any) -> None:
    """A map of less than was asked for would be a wrong answer."""
    with pytest.raises(ValueError, match="reads at most 48: shorten or split it"):
        ffb.contribution_maps(reader, "the cat " * 40)


def test_a_text_needs_a_tokenizer(model: Any) -> None:
    """Without one, token ids are asked for."""
    with pytest.raises(ValueError, match="has no tokenizer: give token ids as a tensor"):
        ffb.contribution_maps(model, "the cat")


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(4), r"attention_mask has shape \(4,\)"),
        (torch.ones(2, 3), r"attention_mask has shape \(2, 3\)"),
        (torch.tensor([0, 1, 2]), r"values \[0, 1, 2\]; expected zeros and ones of the input's shape \(3,\)"),
        (torch.tensor([0.0, -1e9, 0.0]), "expected zeros and ones"),
        (torch.zeros(3), "attention_mask hides every token of sequence 0"),
        (
            torch.tensor([1, 0, 1]),
            r"sequence 0 hides tokens between others \(zeros at positions \[1\]\); expected padding",
        ),
        (torch.tensor(1), "attention_mask"),
        ([1, 1, 1], "attention_mask"),
    ],
    ids=str,
)
def test_masks_that_do_not_fit(model: Any, mask: Any, message: str) -> None:
    """A mask is zeros and ones in the shape of the tokens, and leaves at least one."""
    with pytest.raises((ValueError, TypeError), match=message):
        ffb.contribution_maps(model, TOKENS, attention_mask=mask)


def test_a_mask_with_a_text(reader: Any) -> None:
    """Texts are never padded."""
    with pytest.raises(ValueError, match="attention_mask goes with a token tensor"):
        ffb.contribution_maps(reader, "the cat", attention_mask=torch.ones(3))


# --- options ----------------------------------------------------------------------------------------------------


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": 3}, r"no layer 3 in .*; there are layers 0-2"),
        ({"layers": [0, -4]}, r"no layer -4 in .*; there are layers 0-2"),
        ({"layers": []}, r"layers=\[\]"),
        ({"layers": ["0"]}, r"no layer '0' in "),
        ({"scopes": "AtbFf"}, r"unknown scope 'AtbFf'\. A pre_ln model has Attn, Atb, AtbLn, AtbLnFf"),
        ({"scopes": ["Atb", "atb"]}, "unknown scope 'atb'"),
        ({"scopes": []}, "no scope given"),
        ({"queries": 3}, r"queries=3: expected positions from -3 to 2 of a sequence of 3 tokens"),
        ({"queries": [0, -4]}, r"queries=\[0, -4\]"),
        ({"queries": []}, r"queries=\[\]"),
        ({"queries": [0.5]}, r"queries=\[0\.5\]"),
        ({"method": "ig"}, 'method=\'ig\': expected "exact" or "captum"'),
        ({"value_bias": "none"}, 'value_bias=\'none\': expected "bias" or "token"'),
        ({"n_steps": 0}, "n_steps=0: expected a whole number, 1 or more"),
        ({"rtol": 0}, "rtol=0: expected a positive number"),
        ({"rtol": float("nan")}, "rtol=nan: expected a finite number"),
        ({"rtol": -1.0}, r"rtol=-1\.0: expected a positive number"),
    ],
    ids=str,
)
def test_options_that_do_not_exist(model: Any, options: dict[str, Any], message: str) -> None:
    """The option is named as the user wrote it, with what there is."""
    with pytest.raises(ffb.FFBlockError, match=message) as error:
        ffb.contribution_maps(model, TOKENS, **options)
    assert isinstance(error.value, ValueError)


def test_scopes_of_the_other_order() -> None:
    """A Post-LN model has other scopes, and says which."""
    with pytest.raises(ValueError, match="A post_ln model has Attn, AttnRes, Atb, AtbFf, AtbFfRes, AtbFfResLn"):
        ffb.contribution_maps(model_of("bert"), TOKENS, scopes="AtbLnFf")


# --- models -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [None, "gpt2", nn.Linear(2, 2)], ids=["None", "a name", "a torch module"])
def test_things_that_are_no_transformer_lens_model(given: Any) -> None:
    """Also a Hugging Face model must be wrapped first."""
    with pytest.raises(ValueError, match=f"model is a {type(given).__name__}; expected a TransformerLens model"):
        ffb.contribution_maps(given, TOKENS)
    with pytest.raises(ValueError, match="expected a TransformerLens model"), ffb.capture(given):
        pass


def test_a_hugging_face_model_must_be_wrapped() -> None:
    """The message shows how."""
    with pytest.raises(ValueError, match=r"GPT2LMHeadModel; expected a TransformerLens model: .*boot_transformers"):
        ffb.contribution_maps(tiny.hf_model("gpt2"), TOKENS)


def test_training_mode() -> None:
    """Dropout would change every number."""
    model = tiny.bridge("gpt2")
    model.train()
    with pytest.raises(ValueError, match=r"model is in training mode.*model\.eval\(\)"):
        ffb.contribution_maps(model, TOKENS)


def test_training_mode_of_one_layer_gives_no_map() -> None:
    """Dropout inside one block is found, and named."""
    model = tiny.bridge("gpt2", resid_pdrop=0.5)
    model.blocks[1].train()
    assert not model.training
    with pytest.raises(
        ValueError,
        match=r"training mode: its dropout \(transformer\.h\.1\.attn\.attn_dropout, p=0\.1\).*model\.eval\(\)",
    ):
        ffb.contribution_maps(model, TOKENS)


DROPPING = [
    ("llama", {"attention_dropout": 0.3}),
    ("falcon", {"hidden_dropout": 0.3}),
    ("bloom", {"hidden_dropout": 0.3}),
    ("opt", {"dropout": 0.0, "layerdrop": 0.5}),
    ("mixtral", {"router_jitter_noise": 0.1}),
]


@pytest.mark.parametrize(("family", "options"), DROPPING, ids=[f"{f} {o}" for f, o in DROPPING])
def test_dropout_that_is_no_module(family: str, options: dict[str, float]) -> None:
    """Functional dropout, dropped layers and a router's noise are found too."""
    with pytest.raises(ValueError, match=r"training mode: its dropout \(.*(drop|jitter)"):
        ffb.contribution_maps(tiny.bridge(family, **options).train(), TOKENS)


@pytest.mark.parametrize(
    ("family", "options"), [("llama", {}), ("gpt2", {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0})]
)
def test_training_mode_without_dropout_is_fine(family: str, options: dict[str, float]) -> None:
    """A model that was just trained is in training mode; where nothing drops the maps are those of eval mode."""
    model = tiny.bridge(family, **options)
    expected = ffb.contribution_maps(model, TOKENS)
    maps = ffb.contribution_maps(model.train(), TOKENS)
    assert model.training
    for scope in expected.scopes:
        assert torch.equal(maps[scope], expected[scope])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", ["embed.W_E", "blocks.1.attn.W_O", "blocks.1.mlp.W_out", "blocks.2.ln2.w"])
def test_weights_that_are_not_numbers(place: str, value: float) -> None:
    """NaN and infinity are found in the model's own tensors and named, before anything is made of them."""
    model = tiny.bridge("gpt2")
    *path, name = place.split(".")
    owner = model
    for part in path:
        owner = owner[int(part)] if part.isdigit() else getattr(owner, part)
    with torch.no_grad():
        getattr(owner, name)[..., 7 if name == "W_E" else 0, :].fill_(value) if name != "w" else owner.w.fill_(value)
    with pytest.raises(ValueError, match=r"layer \d: the model's own \w+ holds NaN or infinity"):
        ffb.contribution_maps(model, TOKENS)


@pytest.mark.parametrize("heads", [False, True])
def test_norms_that_overflow_give_no_map(heads: bool) -> None:
    """Tensors that float32 holds and whose norms it does not have an error of NaN at one scope alone: no map is made."""
    model = tiny.bridge("gpt2")
    with torch.no_grad():
        model.blocks[0].mlp.W_out.mul_(1e25)
    assert torch.isfinite(ffb.contribution_maps(model, TOKENS, layers=0, scopes="Atb")["Atb"]).all()
    with pytest.raises(ffb.errors.CompletenessError, match="layer 0, scope AtbLnFf: .* by nan of its norm"):
        ffb.contribution_maps(model, TOKENS, layers=0, heads=heads)


def test_an_unsupported_architecture_is_refused_by_name() -> None:
    """With the reason, before any number appears."""
    model = tiny.bridge("gpt2")
    model.cfg.architecture = "T5ForConditionalGeneration"
    model.original_model.config.is_encoder_decoder = True
    with pytest.raises(NotImplementedError, match="T5ForConditionalGeneration is an encoder-decoder"):
        ffb.contribution_maps(model, TOKENS)


def test_post_ln_opt_is_refused() -> None:
    """OPT-350m has another block form under the same architecture name."""
    model = tiny.bridge("opt", do_layer_norm_before=False)
    with pytest.raises(NotImplementedError, match=r"do_layer_norm_before=False.*Post-LN"):
        ffb.contribution_maps(model, TOKENS)


def test_bert_as_decoder_is_refused() -> None:
    """A causal BERT is another model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = tiny.bridge("bert", is_decoder=True)
    with pytest.raises(NotImplementedError, match="is_decoder=True is not supported"):
        ffb.contribution_maps(model, TOKENS)


def test_bert_in_chunks_gives_no_wrong_map() -> None:
    """A feed-forward that runs a few positions at a time is either read whole or refused by the library."""
    tokens = tiny.tokens("bert", 6)
    expected = ffb.contribution_maps(tiny.bridge("bert"), tokens)
    model = tiny.bridge("bert", chunk_size_feed_forward=2)
    try:
        maps = ffb.contribution_maps(model, tokens)
    except ffb.FFBlockError:
        return
    torch.testing.assert_close(maps["AtbFf"], expected["AtbFf"])


def test_attention_without_pattern_is_explained() -> None:
    """As with sdpa in TransformerLens 3: no pattern, no map, but the way to get one."""
    model = tiny.bridge("bert")

    class Silent(type(model.blocks[0].attn.hook_pattern)):
        """What sdpa comes down to: the pattern's HookPoint passes nothing on to its callbacks."""

        def __call__(self, pattern: Tensor) -> Tensor:
            return pattern

    for block in model.blocks:
        block.attn.hook_pattern.__class__ = Silent
    with pytest.raises(NotImplementedError, match=r'no attention pattern.*attn_implementation="eager"'):
        ffb.contribution_maps(model, TOKENS)


def test_processed_weights_are_warned_about() -> None:
    """Folded and centred weights give maps of another model: a warning with the remedy, and a mark in the result."""
    model = tiny.bridge("gpt2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.enable_compatibility_mode()
    with pytest.warns(ProcessedWeightsWarning, match=r"processed weights.*enable_compatibility_mode"):
        maps = ffb.contribution_maps(model, TOKENS)
    assert maps.provenance["weights"] == "processed"
    assert maps.worst_completeness()[0] < 1e-4


def test_compatibility_names_alone_are_no_processing() -> None:
    """`enable_compatibility_mode(no_processing=True)` renames hooks and leaves the weights: no warning, same maps."""
    tokens = tiny.tokens("gpt2", 5)
    expected = ffb.contribution_maps(tiny.bridge("gpt2"), tokens)
    model = tiny.bridge("gpt2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.enable_compatibility_mode(no_processing=True)
    maps = ffb.contribution_maps(model, tokens)
    assert maps.provenance["weights"] == "raw"
    torch.testing.assert_close(maps["AtbLnFf"], expected["AtbLnFf"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("padding", [[0, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 1]], ids=str)
def test_padded_gpt_1(padding: list[int]) -> None:
    """Its bridge forgets with a mask that the model is causal: padding is refused, a mask of ones is none."""
    model, tokens, mask = tiny.bridge("openai_gpt"), tiny.tokens("openai_gpt", 4)[None], torch.tensor([padding])
    if all(padding):
        ffb.contribution_maps(model, tokens, attention_mask=mask)
        return
    with pytest.raises(ValueError, match="a padded run of GPT-1 attends to later tokens"):
        ffb.contribution_maps(model, tokens, attention_mask=mask)


# --- modules changed behind the model's back --------------------------------------------------------------------


def _add(output: Any) -> Any:
    return (output[0] + 0.5, *output[1:]) if isinstance(output, tuple) else output + 0.5


@pytest.mark.parametrize("seen_before", [False, True], ids=["new model", "checked before"])
@pytest.mark.parametrize("module", ["mlp", "attn", "ln2"])
def test_a_module_that_adds_a_constant_gives_no_map(
    module: str, seen_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forward replaced outside the HookPoints contradicts the weights or Hugging Face's run, when first seen or later."""
    model, tokens = tiny.bridge("gpt2"), tiny.tokens("gpt2", 5)
    if seen_before:
        ffb.contribution_maps(model, tokens)
    inner = getattr(model.blocks[1], module)
    changed, shipped = type(inner), type(inner).forward

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _add(shipped(self, *args, **kwargs)) if self is inner else shipped(self, *args, **kwargs)

    monkeypatch.setattr(changed, "forward", forward)
    with pytest.raises(ffb.FFBlockError, match=r"layer 1|is not the Hugging Face model that it wraps") as error:
        ffb.contribution_maps(model, tokens)
    assert isinstance(error.value, (RuntimeError, ArithmeticError))


def test_another_activation_behind_the_weights_gives_no_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module's own activation is what is read; one that runs instead of it is noticed."""
    model, tokens = tiny.bridge("gpt2"), tiny.tokens("gpt2", 5)
    ffb.contribution_maps(model, tokens)
    model.blocks[0].mlp.hook_post.register_forward_pre_hook(lambda module, args: (args[0] * 1.1,))
    with pytest.raises(ffb.FFBlockError, match="layer 0"):
        ffb.contribution_maps(model, tokens)


def test_an_activation_across_neurons_is_refused() -> None:
    """SoLU and the like, by layer."""
    model = tiny.bridge("gpt2")
    model.blocks[1].mlp.original_component.act = nn.Softmax(dim=-1)
    with pytest.raises(NotImplementedError, match=r"layer 1: .* is not elementwise"):
        ffb.contribution_maps(model, TOKENS)


# --- models by name ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/nowhere/at/all", "there is no folder /nowhere/at/all|no folder"),
        ("./nowhere", "no folder"),
        ("no-such-model-at-all", "no-such-model-at-all.*could not be loaded|unknown|not"),
    ],
)
def test_unknown_model_names(name: str, message: str) -> None:
    """One sentence that names what was asked for."""
    with pytest.raises(OSError, match=message) as error:
        ffb.load_model(name)
    assert isinstance(error.value, ffb.FFBlockError)


def test_folders_that_hold_no_model(tmp_path: Path) -> None:
    """No config.json, then no safetensors."""
    with pytest.raises(OSError, match=r"has no config\.json"):
        ffb.load_model(str(tmp_path))
    tiny.hf_model("gpt2").config.save_pretrained(tmp_path)
    with pytest.raises(OSError, match=r"safetensors"):
        ffb.load_model(str(tmp_path))


# --- files to write ---------------------------------------------------------------------------------------------


def test_results_replace_no_pipe_device_or_folder(model: Any, tmp_path: Path) -> None:
    """Whichever result writes: a regular file in their place would break what reads there."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    maps, shares = ffb.contribution_maps(model, TOKENS), ffb.attribute(model, TOKENS, ffb.logit(7))
    graph = ffb.flow_graph(model, TOKENS)
    writers = [maps.save, maps.to_html, shares.save, shares.to_html, graph.save, graph.to_html]
    for write in writers:
        for path, said in (
            (pipe, "a device or a pipe"),
            (Path("/dev/null"), "a device or a pipe"),
            (tmp_path, "a folder"),
        ):
            with pytest.raises(ValueError, match=f"cannot write {path}: it is .*{said}.*the name of a file") as refused:
                write(path)
            assert isinstance(refused.value, ffb.FFBlockError)
    assert pipe.is_fifo()
    assert Path("/dev/null").is_char_device()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    for write in writers:
        write(tmp_path / "file")
