"""Laws that every map of every model obeys."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from tests import tiny
from tests.tolerances import (
    BATCH_FLOAT64,
    BATCHED_FLOAT32,
    COMPLETE_BFLOAT16,
    COMPLETE_FLOAT32,
    COMPLETE_FLOAT64,
    REBUILT,
)
from tl_ffblock.layer.fast.buffers import ON_CPU, Budget, Buffers
from tl_ffblock.layer.fast.norms import contribution_norms
from tl_ffblock.layer.scopes import STEPS
from tl_ffblock.layer.settings import Settings

Models = Callable[..., Any]


@pytest.mark.usefixtures("float64_throughout")
def test_parts_are_complete_in_float64(ffb: ModuleType, model_of: Models, any_family: str) -> None:
    """With every parameter perturbed, parts and bias sum to the model's own tensor at every scope, layer and query."""
    maps = ffb.contribution_maps(model_of(any_family, torch.float64), tiny.tokens(any_family, 9))
    assert set(maps.completeness) == set(maps.scopes)
    assert maps.worst_completeness()[0] < COMPLETE_FLOAT64.get(any_family, COMPLETE_FLOAT64["every other"])
    assert all((maps.remainder[scope] == 0).all() for scope in maps.scopes)


@pytest.mark.usefixtures("float64_throughout")
def test_the_whole_is_the_models_own_tensor(ffb: ModuleType, model_of: Models, any_family: str) -> None:
    """`whole` is what the model's hooks show, found here by other names, and the vectors sum to it."""
    model, tokens = model_of(any_family, torch.float64), tiny.tokens(any_family, 5)
    _, cache = model.run_with_cache(tokens[None])
    layer = 1
    found = ffb.decompose(model, tokens, layer=layer)
    output = cache[f"blocks.{layer}.hook_out"][0]
    last = next(step.scope for step in STEPS[found.order] if "(layer output)" in step.shows)
    torch.testing.assert_close(found.whole(last), output, rtol=0, atol=0)
    for scope in found.scopes:
        total = found.parts(scope).sum(1) + found.bias(scope)
        tolerance = COMPLETE_FLOAT64.get(any_family, COMPLETE_FLOAT64["every other"])
        assert ((total - found.whole(scope)).norm(dim=-1) < tolerance * found.whole(scope).norm(dim=-1)).all()
        assert (found.remainder(scope) == 0).all()


def test_float32_is_complete_and_near_float64(ffb: ModuleType, model_of: Models, family: str) -> None:
    """Half the digits give the same map to four places, and the completeness error says how well."""
    tokens = tiny.tokens(family, 9)
    single, double = (ffb.contribution_maps(model_of(family, d), tokens) for d in (torch.float32, torch.float64))
    assert single.worst_completeness()[0] < COMPLETE_FLOAT32
    for scope in single.scopes:
        assert single[scope].dtype == torch.float32
        assert (single[scope] - double[scope]).abs().max() < 1e-4 * double[scope].max()


def test_bfloat16_models_are_decomposed_in_float32(ffb: ModuleType, model_of: Models, family: str) -> None:
    """The rounding of the run shows in the completeness error, is accepted up to its tolerance, and no further."""
    model, tokens = model_of(family, torch.bfloat16), tiny.tokens(family, 9)
    maps = ffb.contribution_maps(model, tokens)
    error = maps.worst_completeness()[0]
    assert 1e-4 < error < COMPLETE_BFLOAT16
    assert maps[maps.scopes[-1]].dtype == torch.float32
    assert maps.provenance["rtol"] == "0.05"
    with pytest.raises(ffb.FFBlockError, match=r"parts and bias miss the model's own tensor|does not hold"):
        ffb.contribution_maps(tiny.bridge(family, dtype=torch.bfloat16), tokens, rtol=1e-5)


def test_causal_maps_are_zero_above_the_diagonal(ffb: ModuleType, model_of: Models, family: str) -> None:
    """No later token contributes, exactly; without mask every cell is filled."""
    maps = ffb.contribution_maps(model_of(family), tiny.tokens(family, 9))
    later = torch.ones(9, 9, dtype=torch.bool).triu(1)
    for scope in maps.scopes:
        if maps.causal:
            assert (maps[scope][:, later] == 0).all()
        else:
            assert (maps[scope][:, later] > 0).all()
        assert (maps[scope].diagonal(dim1=1, dim2=2) > 0).all()


def test_layers_and_scopes_are_selections(ffb: ModuleType, model_of: Models, family: str) -> None:
    """Fewer layers or scopes change no number; layers count from the end too, and both come in the model's order."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, 6)
    everything = ffb.contribution_maps(model, tokens)
    chosen = everything.scopes[3], everything.scopes[1]
    some = ffb.contribution_maps(model, tokens, layers=[-1, 0, 0], scopes=chosen)
    assert some.layers == (0, everything.layers[-1])
    assert some.scopes == chosen[::-1]
    for scope in some.scopes:
        for layer in some.layers:
            torch.testing.assert_close(some[scope, layer], everything[scope, layer], rtol=0, atol=0)
            torch.testing.assert_close(some.bias[scope, layer], everything.bias[scope, layer], **BATCH_FLOAT64)
    alone = ffb.contribution_maps(model, tokens, layers=1, scopes=chosen[0])
    torch.testing.assert_close(alone[chosen[0], 1], everything[chosen[0], 1], rtol=0, atol=0)


@pytest.mark.parametrize("queries", [[2], [5, 0, 3], [-1, 1], [4, 4], 3, range(6)], ids=str)
def test_queries_are_rows_of_the_full_map(ffb: ModuleType, model_of: Models, family: str, queries: Any) -> None:
    """Rows come in the order asked, negative ones counted from the end, repeated ones repeated."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, 6)
    full, some = ffb.contribution_maps(model, tokens), ffb.contribution_maps(model, tokens, queries=queries)
    rows = [q % 6 for q in ([queries] if isinstance(queries, int) else queries)]
    assert some.queries == tuple(rows)
    for scope in full.scopes:
        torch.testing.assert_close(some[scope], full[scope][:, rows], **BATCH_FLOAT64)
        torch.testing.assert_close(some.bias[scope], full.bias[scope][:, rows], **BATCH_FLOAT64)


@pytest.mark.parametrize("queries", [[5, 0, 3], [4, 4], 2], ids=str)
def test_queries_of_the_vectors(ffb: ModuleType, model_of: Models, queries: Any) -> None:
    """`decompose` gives the rows asked for, in the order asked, under the positions it names."""
    model, tokens = model_of("gpt2", torch.float64), tiny.tokens("gpt2", 6)
    full, some = ffb.decompose(model, tokens, layer=1), ffb.decompose(model, tokens, layer=1, queries=queries)
    rows = [queries] if isinstance(queries, int) else queries
    assert some.queries == tuple(rows)
    torch.testing.assert_close(some.parts("AtbLnFf"), full.parts("AtbLnFf")[rows], **BATCH_FLOAT64)


def test_calling_twice_gives_the_same_bits(ffb: ModuleType, model_of: Models, family: str) -> None:
    """Nothing is remembered from the first call that changes the second."""
    first, second = (ffb.contribution_maps(model_of(family), tiny.tokens(family, 6)) for _ in range(2))
    for scope in first.scopes:
        assert torch.equal(first[scope], second[scope])


@pytest.mark.parametrize(
    "name", ["attn.W_O", "attn.W_V", "mlp.W_in", "mlp.W_out", "mlp.b_in", "ln1.w", "ln2.w", "ln2.b"]
)
@pytest.mark.parametrize("through_data", [False, True], ids=["in place", "through .data"])
def test_changed_weights_change_the_next_map(ffb: ModuleType, name: str, through_data: bool) -> None:
    """Whatever is kept between calls, after an update the maps are of the new weights, in long and short sequences."""
    model = tiny.bridge("gpt2", dtype=torch.float64)
    for n in (2, 9):
        tokens = tiny.tokens("gpt2", n)
        before = ffb.contribution_maps(model, tokens, layers=1)
        owner, attribute = name.split(".")
        weight = getattr(getattr(model.blocks[1], owner), attribute)
        with torch.no_grad():
            (weight.data if through_data else weight).mul_(1.5)
        after = ffb.contribution_maps(model, tokens, layers=1)
        vectors = ffb.decompose(model, tokens, layer=1)
        assert after.worst_completeness()[0] < 1e-10
        for scope in after.scopes:
            torch.testing.assert_close(after[scope, 1], vectors.parts(scope).norm(dim=-1), **BATCH_FLOAT64)
        assert not torch.allclose(after["AtbLnFf"], before["AtbLnFf"], rtol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "float64", "bfloat16"])
def test_precision_is_that_of_the_arithmetic(ffb: ModuleType, model_of: Models, family: str, precision: Any) -> None:
    """A float32 model in float64 arithmetic, or with the large product rounded: near the default, as near as it says."""
    model, tokens = model_of(family), tiny.tokens(family, 9)
    default, other = ffb.contribution_maps(model, tokens), ffb.contribution_maps(model, tokens, precision=precision)
    tolerance = 5e-3 if precision == "bfloat16" else 1e-5
    for scope in default.scopes:
        largest = default[scope].amax(dim=-1, keepdim=True)
        assert ((other[scope] - default[scope]).abs() / largest).max() < tolerance
        assert other[scope].dtype == (torch.float64 if precision == "float64" else torch.float32)


@pytest.mark.parametrize("chunk_bytes", [1, 5_000, 50_000])
def test_chunks_change_nothing(ffb: ModuleType, model_of: Models, family: str, chunk_bytes: int) -> None:
    """Memory is bounded by the chunk, down to a single row at a time; the numbers are the same."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, 11)
    whole, few = (ffb.contribution_maps(model, tokens, chunk_bytes=size) for size in (None, chunk_bytes))
    for scope in whole.scopes:
        torch.testing.assert_close(few[scope], whole[scope], **BATCH_FLOAT64)


@pytest.mark.parametrize(("group_bytes", "call_operations"), [(1, 0), (3000, 10**4), (1, 10**9)])
def test_groups_and_tiles_change_nothing(
    ffb: ModuleType, model_of: Models, any_family: str, group_bytes: int, call_operations: int
) -> None:
    """In small pieces as of long sequences, and in tall tiles as on a GPU: the same norms."""
    model, tokens = model_of(any_family, torch.float64), tiny.tokens(any_family, 7)
    small = Buffers(
        Budget(group_bytes=group_bytes, row_bytes=ON_CPU.row_bytes, sequence_bytes=1, call_operations=call_operations)
    )
    with ffb.capture(model, layers=[0, 1]) as records, torch.no_grad():
        model(tokens[None])
    for layer in (0, 1):
        record = records[layer].sequence(0)
        for some in (record, record.rows(torch.tensor([0, 3, 4]))):
            scopes = tuple(some.whole)
            expected = contribution_norms(some, Settings(), scopes)
            pieces = contribution_norms(some, Settings(), scopes, buffers=small)
            for scope in scopes:
                torch.testing.assert_close(pieces.values[scope], expected.values[scope], **BATCH_FLOAT64)
                torch.testing.assert_close(pieces.completeness[scope], expected.completeness[scope], rtol=0, atol=1e-9)


def test_huge_activations_are_decomposed_relatively(ffb: ModuleType, family: str) -> None:
    """Activations of 1e4, as in real models, cost no completeness in float32."""
    model, tokens = tiny.bridge(family), tiny.tokens(family, 6)
    with torch.no_grad():
        for block in model.blocks:
            for norm in (block.ln1, block.ln2):
                norm.w.mul_(100)
            block.mlp.W_out.mul_(100)
    maps = ffb.contribution_maps(model, tokens)
    assert maps[maps.scopes[3]].max() > 1e4
    assert maps.worst_completeness()[0] < COMPLETE_FLOAT32


def test_grad_mode_of_the_caller_does_not_matter(ffb: ModuleType, model_of: Models, family: str) -> None:
    """With gradients, without them and in inference mode the same bits, and no graph on the result."""
    results = []
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with mode():
            results.append(ffb.contribution_maps(model_of(family), tiny.tokens(family, 5)))
    for other in results[1:]:
        for scope in other.scopes:
            assert torch.equal(other[scope], results[0][scope])
    assert not any(maps[scope].requires_grad for maps in results for scope in maps.scopes)


def test_unknown_activation_in_inference_mode(ffb: ModuleType) -> None:
    """The same for a model whose activation has no closed form."""
    model, tokens = tiny.bridge("gpt2", activation_function="tanh"), tiny.tokens("gpt2", 5)
    with torch.no_grad():  # pre-activations near zero, where the slope is a derivative
        model.blocks[0].mlp.W_in.mul_(1e-5)
        model.blocks[0].mlp.b_in.zero_()
    expected = ffb.contribution_maps(model, tokens, layers=0)
    with torch.inference_mode():
        found = ffb.contribution_maps(model, tokens, layers=0)
    assert torch.equal(found["AtbLnFf"], expected["AtbLnFf"])


def test_maps_are_labelled(ffb: ModuleType, model_of: Models, family: str) -> None:
    """Without tokenizer tokens are ids; order and mask are the family's; provenance says how the numbers were made."""
    tokens = tiny.tokens(family, 4)
    maps = ffb.contribution_maps(model_of(family), tokens)
    assert maps.tokens == tuple(str(i) for i in tokens.tolist())
    assert (maps.order, maps.causal) == (("post_ln", False) if family == "bert" else ("pre_ln", True))
    expected = {"method": "exact", "value_bias": "bias", "rtol": "0.0001", "weights": "raw"}
    assert expected.items() <= dict(maps.provenance).items()
    assert maps.provenance["api"] == "TransformerBridge"


def test_value_bias_changes_the_map_and_not_the_whole(ffb: ModuleType, model_of: Models, family: str) -> None:
    """The constant of the values is moved: tokens and bias differ, what they sum to does not."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, 5)
    bias, token = (ffb.decompose(model, tokens, layer=0, value_bias=where) for where in ("bias", "token"))
    for scope in bias.scopes:
        totals = [part.parts(scope).sum(1) + part.bias(scope) for part in (bias, token)]
        torch.testing.assert_close(*totals, **REBUILT)
    if family not in ("llama_nobias", "mistral"):
        assert (bias.parts("Attn") - token.parts("Attn")).norm() > 1e-3


@pytest.mark.parametrize("queries", [None, -1])
def test_a_batch_is_its_sequences_one_by_one(
    ffb: ModuleType, model_of: Models, any_family: str, queries: int | None
) -> None:
    """Maps, bias parts and completeness of three sequences that run together are those of each alone."""
    model = model_of(any_family)
    first = tiny.tokens(any_family, 6)
    batch = torch.stack([first, first.flip(0), first.roll(2)])
    together = ffb.contribution_maps(model, batch, queries=queries)
    assert len(together) == 3
    for maps, tokens in zip(together, batch, strict=True):
        alone = ffb.contribution_maps(model, tokens, queries=queries)
        for scope in alone.scopes:
            for found, expected in (
                (maps[scope], alone[scope]),
                (maps.bias[scope][..., None], alone.bias[scope][..., None]),
            ):
                largest = expected.abs().amax(dim=-1, keepdim=True).clamp(min=1e-3 * float(alone[scope].max()))
                assert float(((found - expected).abs() / largest).max()) < BATCHED_FLOAT32, scope
