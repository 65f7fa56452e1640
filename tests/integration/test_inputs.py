"""Texts, lists, ids and caches: the same sequence gives the same map, however it comes. Batches and padding: test_laws."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tests.integration.test_laws import same
from tests.tolerances import BATCH_FLOAT32
from tl_ffblock import load_model
from tl_ffblock.bridge import inputs
from tl_ffblock.bridge.model import identify
from tl_ffblock.errors import InputError

# --- texts ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["gpt2", "bert"])
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tiny model with a word-level tokenizer, loaded from a local folder."""
    folder: Path = tmp_path_factory.mktemp(request.param)
    return load_model(str(tiny.save_local(request.param, folder)))


def test_a_text_is_its_tokens(reader: Any) -> None:
    """Text and token tensor give the same map; tokens are labelled as the tokenizer shows them."""
    text = "the cat sat on the mat ."
    maps = ffb.contribution_maps(reader, text)
    same(maps, ffb.contribution_maps(reader, reader.to_tokens(text)[0]), BATCH_FLOAT32)
    words = text.split()
    assert list(maps.tokens)[1 : 1 + len(words)] == words
    assert maps.tokens[0] in ("<bos>", "[CLS]")


@pytest.mark.parametrize("family", ["gpt2", "gemma3", "bert", "gpt_neox", "qwen3"])
def test_ids_stand_for_tokens_that_no_tokenizer_knows(family: str, tmp_path: Path) -> None:
    """Without a tokenizer, and with the one of special tokens that TransformerLens is handed for a folder without files of one.

    Such a one reads a text as `<bos> <unk>`, `[CLS] [UNK] [UNK] [SEP]`, `<s>` or nothing.
    """
    from transformer_lens.model_bridge import TransformerBridge

    tiny.hf_model(family).save_pretrained(tmp_path)
    booted = TransformerBridge.boot_transformers(str(tmp_path))
    assert booted.tokenizer is not None
    tokens = tiny.tokens(family, 4)
    for model in (tiny.bridge(family), load_model(str(tmp_path)), booted):
        assert ffb.contribution_maps(model, tokens).tokens == tuple(map(str, tokens.tolist()))
        said = ffb.attribute(model, tokens, ffb.logit(7, minus=9)).target
        assert said.startswith("logit difference token 7 - token 9")
        with pytest.raises(InputError, match=r"no tokenizer to read 'the cat'.*pass token ids"):
            ffb.contribution_maps(model, "the cat")
        with pytest.raises(InputError, match=r"no tokenizer to read 'cat'.*pass token ids"):
            ffb.attribute(model, tokens, "cat")


def test_ids_beyond_a_tokenizers_vocabulary_are_told_apart(reader: Any) -> None:
    """A vocabulary padded to a round number has ids of no text: each is labelled by its number, not as empty text."""
    beyond = len(reader.tokenizer)
    assert reader.cfg.d_vocab > beyond + 1
    tokens = torch.tensor([1, 5, beyond, beyond + 1, 6])
    maps = ffb.contribution_maps(reader, tokens)
    assert maps.tokens[1:] == ("the", f"token {beyond}", f"token {beyond + 1}", "cat")
    known = identify(reader)
    assert inputs.quoted(known, tokens[1:3]) == ("'the'", f"token {beyond}")


def test_a_tokenizers_output_is_read_as_it_is(reader: Any) -> None:
    """Its ids, padding and all; a pair of sentences is one input of an encoder, with token types, and refused by others."""
    encoding = reader.tokenizer("the cat sat")
    assert ffb.attention_maps(reader, encoding) == ffb.attention_maps(reader, encoding["input_ids"])
    pair = ("the cat", "a dog")
    encoding = reader.tokenizer(*pair)
    if identify(reader).family.causal:
        with pytest.raises(InputError, match=r"a tuple of two texts.*\[first, second\]"):
            ffb.attention_maps(reader, pair)
        return
    types = torch.tensor(encoding["token_type_ids"])
    assert set(types.tolist()) == {0, 1}
    maps = ffb.attention_maps(reader, pair)
    ids = torch.tensor(encoding["input_ids"])
    assert maps == ffb.attention_maps(reader, encoding) == ffb.attention_maps(reader, ids, token_type_ids=types)
    assert maps != ffb.attention_maps(reader, ids), "token types are read"
    assert maps.tokens.count("[SEP]") == 2 and ffb.contribution_maps(reader, pair).tokens == maps.tokens


TEXTS = ["the cat", "a dog and the bird saw her", "Why ?", "the mat sat on the cat ?", "her dog"]
"""Texts of three lengths, mixed."""
LONG = [
    f"{'the cat sat on the mat and a dog saw her . ' * 2}{word}"
    for word in ("", "the", "the cat", "a bird", "her dog sat")
]
"""Texts of four lengths that differ by a token or two."""


@pytest.mark.parametrize("texts", [TEXTS, LONG], ids=["unlike", "nearly equal"])
@pytest.mark.parametrize("options", [{}, {"queries": -1}, {"queries": [1, 0]}, {"heads": [1]}], ids=str)
def test_texts_of_a_list_are_those_texts_alone(reader: Any, texts: list[str], options: dict[str, Any]) -> None:
    """In the order given; texts of one length share a forward pass, and those of nearly one in a causal model."""
    lengths = {len(reader.to_tokens(text)[0]) for text in texts}
    causal = ffb.contribution_maps(reader, texts).pop().causal  # what is checked once a model takes passes of its own
    passes = []
    handle = reader.original_model.register_forward_pre_hook(lambda *_: passes.append(1))
    try:
        found = ffb.contribution_maps(reader, texts, **options)
    finally:
        handle.remove()
    assert len(passes) <= len(lengths) < len(texts) and (not causal or texts is TEXTS or len(passes) == 1)
    for maps, text in zip(found, texts, strict=True):
        same(maps, ffb.contribution_maps(reader, text, **options), BATCH_FLOAT32)
    assert len(ffb.contribution_maps(reader, ("Why ?",))) == 1
    assert len(ffb.decompose(reader, texts, layer=0)) == len(texts)


def test_hooks_see_texts_of_a_list_one_by_one(reader: Any) -> None:
    """A hook of the call, or one that sits on the model, meets a batch of one, in the order given."""
    seen: list[tuple[int, ...]] = []
    look = [("blocks.0.hook_out", lambda tensor, hook: seen.append(tuple(tensor.shape[:2])))]
    expected = [(1, len(reader.to_tokens(text)[0])) for text in TEXTS]
    ffb.contribution_maps(reader, TEXTS, layers=0, fwd_hooks=look)
    assert seen == expected
    with reader.hooks(fwd_hooks=look):
        ffb.contribution_maps(reader, TEXTS, layers=0)
    assert seen == expected * 2


def test_texts_run_in_as_many_batches_as_memory_has_room(reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for one text at a time, or for none, changes no number; nor is one word too short."""
    expected = ffb.contribution_maps(reader, TEXTS)
    monkeypatch.setattr(inputs, "BATCH_BYTES", {"cpu": 1})
    for maps, other in zip(ffb.contribution_maps(reader, TEXTS), expected, strict=True):
        same(maps, other, BATCH_FLOAT32)
    assert "cat" in ffb.contribution_maps(reader, "cat").tokens
    assert ffb.contribution_maps(reader, "cat").model.startswith(("gpt2", "bert"))


def test_token_ids_come_as_any_integers() -> None:
    """A list, a tuple, a range, numpy's, a tensor of any integer type, a mask of ones: one sequence; [1, pos] is a list of one."""
    model, tokens = model_of("gpt2"), torch.arange(5, 10)
    expected, exact = ffb.contribution_maps(model, tokens), {"rtol": 0, "atol": 0}
    for ids in (
        tokens.tolist(),
        tuple(tokens.tolist()),
        list(tokens.numpy()),
        range(5, 10),
        tokens.int(),
        tokens.byte(),
    ):
        same(ffb.contribution_maps(model, ids), expected, exact)
    (only,) = ffb.contribution_maps(model, tokens[None])
    for other in (only, ffb.contribution_maps(model, tokens, attention_mask=torch.ones(5))):
        same(other, expected, BATCH_FLOAT32)
    alone = ffb.contribution_maps(model, torch.tensor([7]))
    assert len(alone.tokens) == 1 and alone["Atb"].shape[1:] == (1, 1)


# --- caches -----------------------------------------------------------------------------------------------------


def test_records_of_some_queries_answer_for_these_only() -> None:
    """Rows that were not captured cannot be given, under no other row's name either."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 6)
    with ffb.capture(model, queries=torch.tensor([[2, 4]])) as records:
        model(tokens[None])
    for queries in ([2, 4], [2]):
        found = ffb.contribution_maps(model, tokens, cache=records, queries=queries)
        same(found, ffb.contribution_maps(model, tokens, queries=queries), BATCH_FLOAT32)
    for queries in ([3, 5], [2, 5], None):
        with pytest.raises(ValueError, match="quer"):
            ffb.contribution_maps(model, tokens, cache=records, queries=queries)


def test_edits_of_the_pattern_are_not_taken_for_padding() -> None:
    """In every layer the first token, or a middle one, is hidden from all others: it still attends to itself."""
    model, tokens = model_of("llama"), tiny.tokens("llama", 6)
    for token in (0, 3):
        others = torch.arange(6) != token
        hidden = others[:, None] & ~others
        hooks = [
            (f"blocks.{n}.attn.hook_pattern", lambda x, hook, hidden=hidden: x.masked_fill(hidden, 0)) for n in range(3)
        ]
        with model.hooks(fwd_hooks=hooks):
            _, cache = model.run_with_cache(tokens[None])
        maps = ffb.contribution_maps(model, tokens, cache=cache)
        assert float(maps["Attn"][:, 5, token].max()) == 0


@pytest.mark.filterwarnings("ignore:run_with_cache.*gated-off")
def test_caches_that_do_not_fit_are_refused(reader: Any) -> None:
    """Of another shape, without some sites, with hooks that would never fire, for several texts."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 6)
    _, cache = model.run_with_cache(tokens[None])
    _, partial = model.run_with_cache(tokens[None], names_filter=lambda name: "mlp" not in name)
    hooks = [("blocks.0.hook_mlp_out", lambda t, hook: 2 * t)]
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: ffb.contribution_maps(model, tokens[:5], cache=cache), r"\(1, 6\).* \(1, 5\)"),
        (lambda: ffb.contribution_maps(model, tokens, cache=partial), r"mlp\.hook_pre.*names_filter=None"),
        (lambda: ffb.contribution_maps(model, tokens, cache=cache, fwd_hooks=hooks), "fwd_hooks"),
        (lambda: ffb.contribution_maps(reader, TEXTS, cache=reader.run_with_cache("the cat")[1]), "one forward pass"),
    ]
    for call, said in calls:
        with pytest.raises(ValueError, match=said) as refused:
            call()
        assert isinstance(refused.value, ffb.FFBlockError)


@pytest.mark.parametrize(("family", "left"), [("gpt2", True), ("bert", False), ("bert", True)])
def test_a_mask_that_a_cached_run_did_not_have_is_refused(family: str, left: bool) -> None:
    """Its tokens attended to what the mask hides, so that maps without those columns are of neither run."""
    model = model_of(family)
    tokens = torch.stack([tiny.tokens(family, 6, seed) for seed in (0, 1)])
    mask = torch.ones_like(tokens)
    mask[1, slice(0, 2) if left else slice(4, 6)] = 0
    with torch.no_grad():
        _, without = model.run_with_cache(tokens)
        _, masked = model.run_with_cache(tokens, attention_mask=mask)
    with pytest.raises(InputError, match="cache: tokens of sequence 1 attend to positions that attention_mask hides"):
        ffb.contribution_maps(model, tokens, attention_mask=mask, cache=without)
    for found, expected in zip(
        ffb.contribution_maps(model, tokens, attention_mask=mask, cache=masked),
        ffb.contribution_maps(model, tokens, attention_mask=mask),
        strict=True,
    ):
        same(found, expected, BATCH_FLOAT32)
