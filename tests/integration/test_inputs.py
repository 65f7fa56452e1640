"""Texts, lists, padded batches and ready caches: the same sequence gives the same map, however it comes."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tests.tolerances import BATCH_FLOAT32, BATCH_FLOAT64
from tl_ffblock import load_model

Models = Callable[..., Any]
LENGTHS = (3, 6, 1, 5)


def padded(family: str, side: str) -> tuple[list[Tensor], Tensor, Tensor]:
    """Sequences of `LENGTHS`, the batch they make with padding on one side, and its mask."""
    sequences = [tiny.tokens(family, n, seed=n) for n in LENGTHS]
    batch, mask = torch.zeros(2, len(LENGTHS), max(LENGTHS), dtype=torch.long).unbind()
    for row, sequence in enumerate(sequences):
        place = slice(0, len(sequence)) if side == "right" else slice(max(LENGTHS) - len(sequence), None)
        batch[row, place], mask[row, place] = sequence, 1
    return sequences, batch, mask


def same(found: Any, expected: Any, tolerance: dict[str, float]) -> None:
    """Two results agree in labels, every map, every bias and remainder."""
    assert (found.tokens, found.queries, found.scopes) == (expected.tokens, expected.queries, expected.scopes)
    for scope in expected.scopes:
        for table in ("values", "bias", "remainder"):
            torch.testing.assert_close(getattr(found, table)[scope], getattr(expected, table)[scope], **tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_padded_batch_is_its_sequences_one_by_one(
    ffb: ModuleType, model_of: Models, family: str, side: str, dtype: torch.dtype
) -> None:
    """Padding changes nothing, neither a number nor a label; a batch gives a list."""
    if (family, side) == ("bert", "left"):
        pytest.skip("BERT counts positions from the left, padding included: another run, not another map of the same")
    model, (sequences, batch, mask) = model_of(family, dtype), padded(family, side)
    if not torch.isfinite(model(batch, attention_mask=mask)[mask.bool()]).all():
        pytest.skip("the model's own logits are NaN: Hugging Face masks all of a padded row in float64")
    found = ffb.contribution_maps(model, batch, attention_mask=mask)
    tolerance = BATCH_FLOAT32 if dtype == torch.float32 else {**BATCH_FLOAT64, "rtol": 1e-5}
    for maps, sequence in zip(found, sequences, strict=True):
        same(maps, ffb.contribution_maps(model, sequence), tolerance)


def test_left_padded_bert_is_complete(ffb: ModuleType, model_of: Models) -> None:
    """A left-padded BERT runs at other positions, but its maps are of the run that was made."""
    _, batch, mask = padded("bert", "left")
    for maps in ffb.contribution_maps(model_of("bert", torch.float64), batch, attention_mask=mask):
        assert maps.worst_completeness()[0] < 1e-10


@pytest.mark.parametrize("queries", [0, -1, [-1, 0]], ids=str)
def test_queries_count_within_each_sequence_of_a_padded_batch(
    ffb: ModuleType, model_of: Models, family: str, queries: Any
) -> None:
    """Position 0 is the first real token, -1 the last, wherever the padding is, in sequences of one token too."""
    model, (sequences, batch, mask) = model_of(family), padded(family, "right")
    found = ffb.contribution_maps(model, batch, attention_mask=mask, queries=queries)
    for maps, sequence in zip(found, sequences, strict=True):
        same(maps, ffb.contribution_maps(model, sequence, queries=queries), BATCH_FLOAT32)


def test_vectors_of_a_padded_batch(ffb: ModuleType, model_of: Models, family: str) -> None:
    """`decompose` of a batch is a list, each as the sequence alone."""
    model, (sequences, batch, mask) = model_of(family), padded(family, "right")
    found = ffb.decompose(model, batch, layer=0, attention_mask=mask)
    for vectors, sequence in zip(found, sequences, strict=True):
        alone = ffb.decompose(model, sequence, layer=0)
        for scope in alone.scopes:
            torch.testing.assert_close(vectors.parts(scope), alone.parts(scope), **BATCH_FLOAT32)
            torch.testing.assert_close(vectors.bias(scope), alone.bias(scope), **BATCH_FLOAT32)


def test_the_order_of_a_batch_does_not_matter(ffb: ModuleType, model_of: Models, family: str) -> None:
    """Sequences of a batch know nothing of each other."""
    model = model_of(family, torch.float64)
    batch = torch.stack([tiny.tokens(family, 5, seed=s) for s in range(3)])
    forth, back = ffb.contribution_maps(model, batch), ffb.contribution_maps(model, batch.flip(0))
    for one, two in zip(forth, reversed(back), strict=True):
        same(one, two, {**BATCH_FLOAT64, "rtol": 1e-5})


def test_a_mask_of_ones_is_no_mask(ffb: ModuleType, model_of: Models, family: str) -> None:
    """Also for a single sequence [pos], which gives a single result."""
    model, tokens = model_of(family), tiny.tokens(family, 5)
    same(
        ffb.contribution_maps(model, tokens, attention_mask=torch.ones(5)),
        ffb.contribution_maps(model, tokens),
        BATCH_FLOAT32,
    )


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8], ids=str)
def test_any_integer_type_will_do(ffb: ModuleType, model_of: Models, dtype: torch.dtype) -> None:
    """Token ids may be of any integer type, [pos] gives one result and [1, pos] a list of one."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 5)
    expected = ffb.contribution_maps(model, tokens)
    same(ffb.contribution_maps(model, tokens.to(dtype)), expected, BATCH_FLOAT32)
    (only,) = ffb.contribution_maps(model, tokens[None].to(dtype))
    same(only, expected, BATCH_FLOAT32)


# --- texts ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["gpt2", "bert"])
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tiny model with a word-level tokenizer, loaded from a local folder."""
    folder: Path = tmp_path_factory.mktemp(request.param)
    return load_model(str(tiny.save_local(request.param, folder)))


def test_a_text_is_its_tokens(ffb: ModuleType, reader: Any) -> None:
    """Text and token tensor give the same map; tokens are labelled as the tokenizer shows them."""
    text = "the cat sat on the mat ."
    maps = ffb.contribution_maps(reader, text)
    same(maps, ffb.contribution_maps(reader, reader.to_tokens(text)[0]), BATCH_FLOAT32)
    words = text.split()
    assert list(maps.tokens)[1 : 1 + len(words)] == words
    assert maps.tokens[0] in ("<bos>", "[CLS]")


def test_ids_stand_for_tokens_that_no_tokenizer_knows(ffb: ModuleType, tmp_path: Path) -> None:
    """Without a tokenizer, and with the empty one that TransformerLens is handed for a folder without files of one."""
    from transformer_lens.model_bridge import TransformerBridge

    tiny.hf_model("gpt2").save_pretrained(tmp_path)
    booted = TransformerBridge.boot_transformers(str(tmp_path))
    tokens = tiny.tokens("gpt2", 4)
    for model in (tiny.bridge("gpt2"), load_model(str(tmp_path)), booted):
        assert ffb.contribution_maps(model, tokens).tokens == tuple(map(str, tokens.tolist()))
        assert ffb.attribute(model, tokens, ffb.logit(7, minus=9)).target == "logit difference token 7 − token 9"


def test_a_list_of_texts_is_a_list_of_results(ffb: ModuleType, reader: Any) -> None:
    """Texts of different length, each as if alone; a list of one text is a list."""
    texts = ["the cat", "a dog and the bird saw her", "Why ?"]
    found = ffb.contribution_maps(reader, texts)
    for maps, text in zip(found, texts, strict=True):
        same(maps, ffb.contribution_maps(reader, text), BATCH_FLOAT32)
    assert len(ffb.contribution_maps(reader, ("Why ?",))) == 1
    assert len(ffb.decompose(reader, texts, layer=0)) == 3


TEXTS = ["the cat", "a dog and the bird saw her", "Why ?", "the mat sat on the cat ?", "her dog"]
"""Texts of three lengths, mixed."""


@pytest.mark.parametrize("queries", [None, -1], ids=["all rows", "last row"])
def test_texts_of_a_list_are_those_texts_alone(ffb: ModuleType, reader: Any, queries: int | None) -> None:
    """Texts of equal length share a forward pass; results come in the order given, each as if alone."""
    lengths = {len(reader.to_tokens(text)[0]) for text in TEXTS}
    assert len(lengths) < len(TEXTS)
    ffb.contribution_maps(reader, TEXTS)  # what is checked once a model takes passes of its own
    passes = []
    handle = reader.original_model.register_forward_pre_hook(lambda *_: passes.append(1))
    try:
        found = ffb.contribution_maps(reader, TEXTS, queries=queries)
        assert len(passes) == len(lengths)
    finally:
        handle.remove()
    for maps, text in zip(found, TEXTS, strict=True):
        same(maps, ffb.contribution_maps(reader, text, queries=queries), BATCH_FLOAT32)


LONG = [
    f"{'the cat sat on the mat and a dog saw her . ' * 2}{word}"
    for word in ("", "the", "the cat", "a bird", "her dog sat")
]
"""Texts of four lengths that differ by a token or two."""


@pytest.mark.parametrize("options", [{}, {"queries": -1}, {"queries": [5, 2]}, {"heads": [1]}], ids=str)
def test_texts_of_nearly_equal_length_share_a_causal_models_pass(
    ffb: ModuleType, reader: Any, options: dict[str, Any]
) -> None:
    """What stands behind a shorter text is seen by none of its tokens: each result is that of the text alone."""
    lengths = {len(reader.to_tokens(text)[0]) for text in LONG}
    causal = ffb.contribution_maps(reader, LONG).pop().causal
    passes = []
    handle = reader.original_model.register_forward_pre_hook(lambda *_: passes.append(1))
    try:
        found = ffb.contribution_maps(reader, LONG, **options)
        assert len(passes) == (1 if causal else len(lengths)) < len(LONG)
    finally:
        handle.remove()
    for maps, text in zip(found, LONG, strict=True):
        expected = ffb.contribution_maps(reader, text, **options)
        same(maps, expected, BATCH_FLOAT32)
        for scope in expected.scopes if "heads" in options else ():
            torch.testing.assert_close(maps.heads[scope], expected.heads[scope], **BATCH_FLOAT32)


def test_hooks_see_texts_of_a_list_one_by_one(ffb: ModuleType, reader: Any) -> None:
    """A hook of the call, or one that sits on the model, meets a batch of one, in the order given."""
    seen: list[tuple[int, ...]] = []

    def look(tensor: Tensor, hook: Any) -> None:
        seen.append(tuple(tensor.shape[:2]))

    expected = [(1, len(reader.to_tokens(text)[0])) for text in TEXTS]
    ffb.contribution_maps(reader, TEXTS, layers=0, fwd_hooks=[("blocks.0.hook_out", look)])
    assert seen == expected
    with reader.hooks(fwd_hooks=[("blocks.0.hook_out", look)]):
        ffb.contribution_maps(reader, TEXTS, layers=0)
    assert seen == expected * 2


def test_texts_run_in_as_many_batches_as_memory_has_room(
    ffb: ModuleType, reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for one text at a time, or for none, changes no number."""
    from tl_ffblock.bridge import inputs as batching

    expected = ffb.contribution_maps(reader, TEXTS)
    monkeypatch.setattr(batching, "BATCH_BYTES", {"cpu": 1})
    for maps, other in zip(ffb.contribution_maps(reader, TEXTS), expected, strict=True):
        same(maps, other, BATCH_FLOAT32)


def test_one_word_works(ffb: ModuleType, reader: Any) -> None:
    """The shortest text there is, and a single token id."""
    assert "cat" in ffb.contribution_maps(reader, "cat").tokens
    alone = ffb.contribution_maps(reader, torch.tensor([7]))
    assert len(alone.tokens) == 1
    assert alone[alone.scopes[0]].shape[1:] == (1, 1)


def test_local_models_are_labelled_by_their_folder(ffb: ModuleType, reader: Any) -> None:
    """A result says which model it is of, also after saving."""
    assert ffb.contribution_maps(reader, "cat").model.startswith(("gpt2", "bert"))


# --- caches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("remove_batch_dim", [False, True])
@pytest.mark.parametrize("queries", [None, [4, 1]], ids=str)
def test_a_cache_of_the_run_gives_the_same_maps(
    ffb: ModuleType, model_of: Models, family: str, queries: Any, remove_batch_dim: bool
) -> None:
    """`cache=` saves the forward pass and nothing else: bit by bit what a run of its own gives."""
    model, tokens = model_of(family), tiny.tokens(family, 6)
    _, cache = model.run_with_cache(tokens[None], remove_batch_dim=remove_batch_dim)
    expected = ffb.contribution_maps(model, tokens, queries=queries)
    same(ffb.contribution_maps(model, tokens, cache=cache, queries=queries), expected, {"rtol": 1e-6, "atol": 1e-7})


@pytest.mark.parametrize("queries", [None, [4, 1]], ids=str)
def test_captured_records_give_the_same_maps(ffb: ModuleType, model_of: Models, family: str, queries: Any) -> None:
    """`cache=records` of `capture`, all layers or some."""
    model, tokens = model_of(family), tiny.tokens(family, 6)
    with ffb.capture(model, layers=[0]) as records:
        model(tokens[None])
    expected = ffb.contribution_maps(model, tokens, queries=queries, layers=[0])
    found = ffb.contribution_maps(model, tokens, cache=records, queries=queries, layers=[0])
    same(found, expected, {"rtol": 1e-6, "atol": 1e-7})
    with pytest.raises(KeyError, match=r"layer 1 was not captured; captured are 0"):
        ffb.contribution_maps(model, tokens, cache=records, layers=1)


def test_records_of_some_queries_answer_for_these_only(ffb: ModuleType, model_of: Models) -> None:
    """Rows that were not captured cannot be given, under no other row's name either."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 6)
    with ffb.capture(model, queries=torch.tensor([[2, 4]])) as records:
        model(tokens[None])
    found = ffb.contribution_maps(model, tokens, cache=records, queries=[2, 4])
    same(found, ffb.contribution_maps(model, tokens, queries=[2, 4]), BATCH_FLOAT32)
    for queries in ([3, 5], [2], [2, 5], None):
        if queries == [2]:
            same(
                ffb.contribution_maps(model, tokens, cache=records, queries=queries),
                ffb.contribution_maps(model, tokens, queries=queries),
                BATCH_FLOAT32,
            )
        else:
            with pytest.raises(ValueError, match="quer"):
                ffb.contribution_maps(model, tokens, cache=records, queries=queries)


def test_a_cache_of_a_padded_batch(ffb: ModuleType, model_of: Models, family: str) -> None:
    """The mask goes with the cache as it goes with the run."""
    model, (_, batch, mask) = model_of(family), padded(family, "right")
    _, cache = model.run_with_cache(batch, attention_mask=mask)
    expected = ffb.contribution_maps(model, batch, attention_mask=mask)
    for one, two in zip(ffb.contribution_maps(model, batch, attention_mask=mask, cache=cache), expected, strict=True):
        same(one, two, {"rtol": 1e-6, "atol": 1e-7})


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", ["cache", "records"])
def test_a_cache_of_a_padded_batch_without_its_mask(
    ffb: ModuleType, model_of: Models, family: str, side: str, kind: str
) -> None:
    """Padding would be mapped as if it were text: the empty columns of its patterns show it."""
    model, (_, batch, mask) = model_of(family), padded(family, side)
    with torch.no_grad(), ffb.capture(model) as records:
        _, cache = model.run_with_cache(batch, attention_mask=mask)
    with pytest.raises(ffb.FFBlockError, match=r"in no layer does a token .* Give the attention_mask of that run"):
        ffb.contribution_maps(model, batch, cache=cache if kind == "cache" else records)


def test_edits_of_the_pattern_are_not_taken_for_padding(ffb: ModuleType, model_of: Models) -> None:
    """In every layer the first token, or a middle one, is hidden from all others: it still attends to itself."""
    model, tokens = model_of("llama"), tiny.tokens("llama", 6)

    def hide(token: int) -> Callable[..., Tensor]:
        def edit(pattern: Tensor, hook: Any) -> Tensor:
            others = torch.arange(6) != token
            return pattern.masked_fill(others[:, None] & ~others, 0)

        return edit

    for token in (0, 3):
        hooks = [(f"blocks.{layer}.attn.hook_pattern", hide(token)) for layer in range(model.cfg.n_layers)]
        with model.hooks(fwd_hooks=hooks):
            _, cache = model.run_with_cache(tokens[None])
        maps = ffb.contribution_maps(model, tokens, cache=cache)
        assert float(maps["Attn"][:, 5, token].max()) == 0


def test_token_ids_as_a_list(ffb: ModuleType, model_of: Models, family: str) -> None:
    """A list of integers is one sequence, as the tensor of them is; numpy's and ranges too."""
    model, tokens = model_of(family), tiny.tokens(family, 6)
    expected = ffb.contribution_maps(model, tokens)
    for ids in (tokens.tolist(), tuple(tokens.tolist()), list(tokens.numpy())):
        same(ffb.contribution_maps(model, ids), expected, {"rtol": 0, "atol": 0})
    assert len(ffb.contribution_maps(model, range(5, 9)).tokens) == 4


def test_a_cache_of_another_shape_is_refused(ffb: ModuleType, model_of: Models) -> None:
    """The tokens label the map, so they must be the run's."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 6)
    _, cache = model.run_with_cache(tokens[None])
    with pytest.raises(ValueError, match=r"cache is of a run of shape \(1, 6\), the input is \(1, 5\)"):
        ffb.contribution_maps(model, tokens[:5], cache=cache)


def test_a_cache_of_other_tokens_is_refused(ffb: ModuleType, model_of: Models) -> None:
    """Another sequence of the same length would put wrong labels on right numbers."""
    model = model_of("gpt2")
    _, cache = model.run_with_cache(tiny.tokens("gpt2", 6)[None])
    with pytest.raises(ffb.FFBlockError, match="token"):
        ffb.contribution_maps(model, tiny.tokens("gpt2", 6, seed=1), cache=cache)


@pytest.mark.parametrize("kind", ["cache", "records"])
@pytest.mark.parametrize("other", ["gpt2", "llama"])
def test_a_cache_of_another_model_gives_no_map(ffb: ModuleType, model_of: Models, kind: str, other: str) -> None:
    """Tensors that the model's weights do not explain are refused, not taken for somebody's edits."""
    tokens, stranger = tiny.tokens("gpt2", 6), tiny.bridge(other, seed=1)
    with torch.no_grad(), ffb.capture(stranger) as cache:
        _, activations = stranger.run_with_cache(tokens[None])
    with pytest.raises(ffb.FFBlockError, match=r"."):
        ffb.contribution_maps(model_of("gpt2"), tokens, layers=0, cache=cache if kind == "records" else activations)


def test_records_say_their_own_precision(ffb: ModuleType, model_of: Models) -> None:
    """Arithmetic in float64 is asked for: it is done, or refused, but not only written into the provenance."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 6)
    with torch.no_grad(), ffb.capture(model) as records:
        model(tokens[None])
    try:
        maps = ffb.contribution_maps(model, tokens, cache=records, precision="float64")
    except ffb.FFBlockError:
        return
    assert maps["Atb"].dtype == torch.float64


def test_hooks_do_not_go_with_a_cache(ffb: ModuleType, model_of: Models) -> None:
    """No run is made, so hooks would never fire: refused, rather than silently left out."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 6)
    _, cache = model.run_with_cache(tokens[None])
    with pytest.raises(ffb.FFBlockError, match="fwd_hooks"):
        ffb.contribution_maps(model, tokens, cache=cache, fwd_hooks=[("blocks.0.hook_mlp_out", lambda t, hook: 2 * t)])


@pytest.mark.filterwarnings("ignore:run_with_cache.*gated-off")
def test_an_incomplete_cache_names_what_is_missing(ffb: ModuleType, model_of: Models) -> None:
    """A cache made with names_filter lacks sites, and the error names them and the remedy."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 6)
    _, cache = model.run_with_cache(tokens[None], names_filter=lambda name: "mlp" not in name)
    with pytest.raises(ValueError, match=r"cache has no .*mlp\.hook_pre.*names_filter=None"):
        ffb.contribution_maps(model, tokens, cache=cache)


def test_a_cache_goes_with_one_run(ffb: ModuleType, reader: Any) -> None:
    """A list of texts is several runs."""
    _, cache = reader.run_with_cache("the cat")
    with pytest.raises(ValueError, match="cache holds one run"):
        ffb.contribution_maps(reader, ["the cat", "a dog"], cache=cache)
