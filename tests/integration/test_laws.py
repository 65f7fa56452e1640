"""Laws that every map of every model obeys: each is a function of a case (tests/cases.py)."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import Case, bridge_of
from tests.tolerances import (
    BATCH_FLOAT32,
    BATCH_FLOAT64,
    BATCHED_FLOAT32,
    COMPLETE_FLOAT32,
    COMPLETE_FLOAT64,
    HALF,
    OPTIMISED_FLOAT32,
    OPTIMISED_FLOAT64,
)
from tl_ffblock.bridge.hugging_face import TOLERANCE
from tl_ffblock.bridge.model import identify
from tl_ffblock.layer.fast.buffers import ON_CPU, Budget, Buffers
from tl_ffblock.layer.fast.vector_norms import contribution_norms
from tl_ffblock.layer.linear import decompose_record
from tl_ffblock.layer.records import Settings
from tl_ffblock.layer.scopes import STEPS

LENGTHS = (3, 6, 1, 5)
SINGLE, DOUBLE = torch.float32, torch.float64


def complete(case: Case, dtype: torch.dtype) -> float:
    """How much of a tensor may be missing."""
    if dtype == SINGLE:
        return COMPLETE_FLOAT32
    return 1e-6 if case.api == "hooked" else COMPLETE_FLOAT64.get(case.name, COMPLETE_FLOAT64["every other"])


def same(found: Any, expected: Any, tolerance: dict[str, float]) -> None:
    """Two results agree in labels, every map, every bias and remainder, and in heads where there are any."""
    assert (found.tokens, found.queries, found.scopes) == (expected.tokens, expected.queries, expected.scopes)
    for table in ("values", "bias", "remainder", "heads"):
        mine, theirs = getattr(found, table), getattr(expected, table)
        assert mine.keys() == theirs.keys()
        for scope, cells in theirs.items():
            torch.testing.assert_close(mine[scope], cells, **tolerance)


def padded(case: Case, side: str) -> tuple[list[Tensor], Tensor, Tensor]:
    """Sequences of `LENGTHS`, the batch they make with padding on one side, and its mask."""
    sequences = [case.tokens(n, seed=n) for n in LENGTHS]
    batch, mask = torch.zeros(2, len(LENGTHS), max(LENGTHS), dtype=torch.long).unbind()
    for row, sequence in enumerate(sequences):
        place = slice(0, len(sequence)) if side == "right" else slice(max(LENGTHS) - len(sequence), None)
        batch[row, place], mask[row, place] = sequence, 1
    return sequences, batch, mask


# --- completeness and the two implementations -------------------------------------------------------------------


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize(("dtype", "value_bias"), [(SINGLE, "bias"), (DOUBLE, "bias"), (DOUBLE, "token")], ids=str)
def test_parts_sum_to_the_models_own_tensors(any_case: Case, dtype: torch.dtype, value_bias: str) -> None:
    """At every scope and query, vectors and maps alike; heads and the residual stream, which is its own token's, sum to parts."""
    if dtype == DOUBLE and any_case.name in tiny.ALL_FAMILIES.keys() - tiny.FAMILIES.keys():
        pytest.skip("its norms compute in float32 in Hugging Face's code, which the fixture does not replace")
    model, tokens, within = any_case.model(dtype), any_case.tokens(9), complete(any_case, dtype)
    maps = ffb.contribution_maps(model, tokens, heads=True, value_bias=value_bias)
    assert maps.worst_completeness()[0] < within and set(maps.completeness) == set(maps.scopes)
    assert replace(maps, heads=type(maps.heads)()) == ffb.contribution_maps(model, tokens, value_bias=value_bias)
    for layer in maps.layers:
        part = ffb.decompose(model, tokens, layer=layer, heads=True, value_bias=value_bias)
        assert part.scopes == maps.scopes
        assert part.channels == maps.heads.channels == (*(f"head {n}" for n in range(model.cfg.n_heads)), "residual")
        for scope in maps.scopes:
            parts, heads, whole = part.parts(scope), part.heads(scope), part.whole(scope)
            miss = (parts.sum(1) + part.bias(scope) - whole).norm(dim=-1)
            assert (miss < within * whole.norm(dim=-1)).all()
            assert not part.remainder(scope).any() and not maps.remainder[scope].any()
            largest = parts.norm(dim=-1).amax(dim=-1, keepdim=True)
            tolerance = OPTIMISED_FLOAT32 if dtype == SINGLE else OPTIMISED_FLOAT64
            for found, vectors in ((maps[scope, layer], parts), (maps.heads[scope, layer], heads)):
                assert ((found - vectors.norm(dim=-1)).abs() / largest).max() < tolerance
            assert ((heads.sum(0) - parts).norm(dim=-1) / largest).max() < 100 * tolerance
            assert not heads[-1][~torch.eye(9, dtype=torch.bool)].any()
    if any_case.api == "bridge":
        shown = model.run_with_cache(tokens[None])[1][f"blocks.{layer}.hook_out"][0]
        last = next(step.scope for step in STEPS[part.order] if "(layer output)" in step.shows)
        torch.testing.assert_close(part.whole(last), shown, rtol=0, atol=0)


def test_a_head_is_what_goes_missing_without_it(case: Case) -> None:
    """Its pattern set to zero in the record, all else as in the run: the token's part loses the head's vector."""
    model, tokens = case.model(), case.tokens(5)
    with ffb.capture(model, layers=[1], dtype=DOUBLE) as records, torch.no_grad():
        model(tokens[None])
    record, settings = records[1].sequence(0), Settings(precision="float64")
    part = ffb.decompose(model, tokens, layer=1, heads=True, precision="float64")
    everything = decompose_record(record, settings)
    for head in range(len(record.pattern)):
        others = record.pattern.clone()
        others[head] = 0
        without = decompose_record(replace(record, pattern=others), settings)
        for scope in part.scopes:
            missing = everything.parts(scope) - without.parts(scope)
            torch.testing.assert_close(part.heads(scope)[head], missing, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore:chunk_bytes is max_memory")
def test_groups_tiles_and_chunks_change_nothing(case: Case) -> None:
    """In small pieces as of long sequences, in tall tiles as on a GPU, a single row at a time: the same norms."""
    model, tokens = case.model(DOUBLE), case.tokens(7)
    with ffb.capture(model, layers=[0, 1]) as records, torch.no_grad():
        model(tokens[None])
    for group_bytes, call_operations in ((1, 0), (3000, 10**4), (1, 10**9)):
        budget = Budget(group_bytes=group_bytes, row_bytes=ON_CPU.row_bytes, sequence_bytes=1, call_operations=call_operations)  # fmt: skip
        small = Buffers(budget)
        for record in (records[0].sequence(0), records[1].sequence(0), records[1].sequence(0).rows(torch.tensor([0, 3, 4]))):  # fmt: skip
            expected = contribution_norms(record, Settings(), tuple(record.whole))
            pieces = contribution_norms(record, Settings(), tuple(record.whole), buffers=small)
            for scope in record.whole:
                torch.testing.assert_close(pieces.values[scope], expected.values[scope], **BATCH_FLOAT64)
                torch.testing.assert_close(pieces.completeness[scope], expected.completeness[scope], rtol=0, atol=1e-9)
    whole = ffb.contribution_maps(model, tokens)
    for chunk_bytes in (1, 5_000):
        same(ffb.contribution_maps(model, tokens, chunk_bytes=chunk_bytes), whole, BATCH_FLOAT64)


# --- precision --------------------------------------------------------------------------------------------------


def test_precision_is_that_of_the_arithmetic(case: Case) -> None:
    """A float32 model in float64 arithmetic, the large product rounded, a float64 model: near the default, as near as each says."""
    tokens = case.tokens(9)
    default = ffb.contribution_maps(case.model(), tokens)
    others = {
        DOUBLE: (ffb.contribution_maps(case.model(DOUBLE), tokens), 1e-4),
        "float32": (ffb.contribution_maps(case.model(), tokens, precision="float32"), 1e-5),
        "float64": (ffb.contribution_maps(case.model(), tokens, precision="float64"), 1e-5),
        "bfloat16": (ffb.contribution_maps(case.model(), tokens, precision="bfloat16"), 5e-3),
    }
    for name, (other, tolerance) in others.items():
        for scope in default.scopes:
            largest = default[scope].amax() if name == DOUBLE else default[scope].amax(dim=-1, keepdim=True)
            assert ((other[scope] - default[scope]).abs() / largest).max() < tolerance, name
            assert other[scope].dtype == (DOUBLE if name in (DOUBLE, "float64") else SINGLE)


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_half_precision_weights(any_case: Case, dtype: torch.dtype) -> None:
    """A run of 16 bits is decomposed in float32, or float64 if asked, complete to its own rounding, which shows, and no further.

    The bridge's logits are Hugging Face's to well below the tolerance.
    """
    if any_case.api == "hooked" or any_case.toy:
        pytest.skip("16 bits are of models that are loaded")
    model, tokens = any_case.model(dtype), any_case.tokens(5)
    assert identify(model).memory.difference < TOLERANCE[dtype] / 5
    for precision, arithmetic in ((None, SINGLE), ("float64", DOUBLE)):
        maps = ffb.contribution_maps(model, tokens, precision=precision)
        assert maps[maps.scopes[0]].dtype == arithmetic
        assert 1e-5 < maps.worst_completeness()[0] < HALF[dtype]
    if dtype == torch.bfloat16 and any_case.name == "llama":
        assert maps.provenance["rtol"] == "0.05"
        with pytest.raises(ffb.FFBlockError, match="rtol|does not hold"):
            ffb.contribution_maps(any_case.fresh(dtype), tokens, rtol=1e-5)


def test_huge_activations_are_decomposed_relatively(family: str) -> None:
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


# --- batches, padding, caches -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("side", "dtype", "options"),
    [
        ("right", SINGLE, {}),
        ("right", SINGLE, {"queries": [-1, 0]}),
        ("left", DOUBLE, {"queries": [-1, 0]}),
        ("left", SINGLE, {"heads": [1]}),
    ],
    ids=str,
)
def test_a_padded_batch_is_its_sequences_one_by_one(
    case: Case, side: str, dtype: torch.dtype, options: dict[str, Any]
) -> None:
    """Padding changes neither number nor label; queries count within each sequence, also in those of one token."""
    model, (sequences, batch, mask) = case.model(dtype), padded(case, side)
    if not torch.isfinite(model(batch, **case.masked(mask))[mask.bool()]).all():
        pytest.skip("the model's own logits are NaN: Hugging Face masks all of a padded row in float64")
    found = ffb.contribution_maps(model, batch, attention_mask=mask, **options)
    if (case.name, side) == ("bert", "left"):  # another run: BERT counts positions from the left, padding included
        assert all(maps.worst_completeness()[0] < COMPLETE_FLOAT32 for maps in found)
        return
    tolerance = BATCH_FLOAT32 if dtype == SINGLE else {**BATCH_FLOAT64, "rtol": 1e-5}
    for maps, sequence in zip(found, sequences, strict=True):
        same(maps, ffb.contribution_maps(model, sequence, **options), tolerance)


def test_a_batch_is_its_sequences_in_any_order(case: Case) -> None:
    """Maps, bias parts and completeness of three sequences that run together are those of each alone."""
    model, first = case.model(), case.tokens(6)
    batch = torch.stack([first, first.flip(0), first.roll(2)])
    together = ffb.contribution_maps(model, batch)
    back = ffb.contribution_maps(model, batch.flip(0))[::-1]
    for *several, tokens in zip(together, back, batch, strict=True):
        alone = ffb.contribution_maps(model, tokens)
        for maps in several:
            for scope, cells in alone.values.items():
                for found, expected in ((maps[scope], cells), (maps.bias[scope][..., None], alone.bias[scope][..., None])):  # fmt: skip
                    largest = expected.abs().amax(dim=-1, keepdim=True).clamp(min=1e-3 * float(cells.max()))
                    assert float(((found - expected).abs() / largest).max()) < BATCHED_FLOAT32, scope


def test_a_longer_sequence_of_a_causal_model_begins_as_the_shorter_one(any_case: Case) -> None:
    """Why texts of unequal length may share a forward pass; no later token contributes, exactly."""
    model, tokens = any_case.model(), any_case.tokens(7)
    alone = ffb.contribution_maps(model, tokens)
    later = torch.ones(7, 7, dtype=torch.bool).triu(1)
    (longer,) = ffb.contribution_maps(model, torch.cat([tokens, tokens[-1:], tokens[-1:]])[None])
    for scope in alone.scopes:
        assert (alone[scope].diagonal(dim1=1, dim2=2) > 0).all()
        if alone.causal:
            assert (alone[scope][:, later] == 0).all()
            torch.testing.assert_close(longer[scope][:, :7, :7], alone[scope], **BATCH_FLOAT32)
            torch.testing.assert_close(longer.bias[scope][:, :7], alone.bias[scope], **BATCH_FLOAT32)
        else:
            assert (alone[scope][:, later] > 0).all()


@pytest.mark.parametrize("queries", [None, [4, 1]], ids=str)
def test_caches_give_the_maps_of_their_run(case: Case, queries: Any) -> None:
    """An ActivationCache, with its batch axis or without, and records of `capture`, of all layers or some."""
    if str(case) == "hooked-bert":
        pytest.skip("its embedding has no HookPoint, so that a cache could be of any text: refused")
    model, tokens = case.model(), case.tokens(6)
    expected = ffb.contribution_maps(model, tokens, queries=queries)
    exact = {"rtol": 1e-6, "atol": 1e-7}
    for removed in (False, True):
        _, cache = model.run_with_cache(tokens[None], remove_batch_dim=removed)
        same(ffb.contribution_maps(model, tokens, cache=cache, queries=queries), expected, exact)
    with ffb.capture(model, layers=[0]) as records:
        model(tokens[None])
    found = ffb.contribution_maps(model, tokens, cache=records, queries=queries)
    same(found, ffb.contribution_maps(model, tokens, layers=0, queries=queries), exact)
    with pytest.raises(KeyError, match=r"layer 1 .* 0"):
        ffb.contribution_maps(model, tokens, cache=records, layers=1)


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_cache_of_a_padded_batch_goes_with_its_mask(case: Case, side: str) -> None:
    """With it the maps are the run's; without, padding would be mapped as if it were text: empty columns of patterns show it."""
    if str(case) == "hooked-bert":
        pytest.skip("its embedding has no HookPoint, so that a cache could be of any text: refused")
    model, (_, batch, mask) = case.model(), padded(case, side)
    with torch.no_grad(), ffb.capture(model) as records:
        _, cache = model.run_with_cache(batch, **case.masked(mask))
    expected = ffb.contribution_maps(model, batch, attention_mask=mask)
    for one, two in zip(ffb.contribution_maps(model, batch, attention_mask=mask, cache=cache), expected, strict=True):
        same(one, two, {"rtol": 1e-6, "atol": 1e-7})
    for given in (cache, records):
        with pytest.raises(ffb.FFBlockError, match="attention_mask"):
            ffb.contribution_maps(model, batch, cache=given)


# --- choices ----------------------------------------------------------------------------------------------------


def test_layers_scopes_heads_and_queries_are_selections(case: Case) -> None:
    """Numbers are those of everything: negative ones count from the end; rows come as asked, the others in the model's order."""
    model, tokens = case.model(DOUBLE), case.tokens(6)
    full, last = ffb.contribution_maps(model, tokens, heads=True), model.cfg.n_heads - 1
    chosen = (full.scopes[-1], full.scopes[0])
    for queries in ([2], [5, 0, 3], [-1, 1], [4, 4], 3, range(6)):
        rows = [query % 6 for query in ([queries] if isinstance(queries, int) else queries)]
        some = ffb.contribution_maps(model, tokens, layers=[-1, 0, 0], scopes=chosen, heads=[-1, 0, 0], queries=queries)
        part = ffb.decompose(model, tokens, layer=-1, heads=last, queries=queries)
        assert (some.queries, some.layers, some.scopes) == (tuple(rows), (0, full.layers[-1]), chosen[::-1])
        assert some.heads.channels == ("head 0", f"head {last}", "residual")
        assert (part.queries, part.channels) == (tuple(rows), (f"head {last}", "residual"))
        for scope in some.scopes:
            for layer in some.layers:
                torch.testing.assert_close(some[scope, layer], full[scope, layer][rows], **BATCH_FLOAT64)
                torch.testing.assert_close(some.bias[scope, layer], full.bias[scope, layer][rows], **BATCH_FLOAT64)
                expected = full.heads[scope, layer][[0, last, -1]][:, rows]
                torch.testing.assert_close(some.heads[scope, layer], expected, **BATCH_FLOAT64)
            torch.testing.assert_close(part.heads(scope).norm(dim=-1), some.heads[scope, -1][1:], **BATCH_FLOAT64)


def test_grad_mode_of_the_caller_does_not_matter(case: Case) -> None:
    """With gradients, without them, in inference mode, and again: the same bits, and no graph on the result."""
    results = []
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode, torch.enable_grad):
        with mode():
            results.append(ffb.contribution_maps(case.model(), case.tokens(5)))
    assert all(torch.equal(other[scope], results[0][scope]) for other in results for scope in other.scopes)
    assert not any(maps[scope].requires_grad for maps in results for scope in maps.scopes)


def test_unknown_activation_in_inference_mode() -> None:
    """The same for a model whose activation has no closed form."""
    model, tokens = tiny.bridge("gpt2", activation_function="tanh"), tiny.tokens("gpt2", 5)
    with torch.no_grad():  # pre-activations near zero, where the slope is a derivative
        model.blocks[0].mlp.W_in.mul_(1e-5)
        model.blocks[0].mlp.b_in.zero_()
    expected = ffb.contribution_maps(model, tokens, layers=0)
    with torch.inference_mode():
        found = ffb.contribution_maps(model, tokens, layers=0)
    assert torch.equal(found["AtbLnFf"], expected["AtbLnFf"])


def test_maps_are_labelled(case: Case) -> None:
    """Without tokenizer tokens are ids; order and mask are the family's; provenance says how the numbers were made."""
    tokens, maps = case.tokens(4), ffb.contribution_maps(case.model(), case.tokens(4))
    assert maps.tokens == tuple(str(i) for i in tokens.tolist())
    assert (maps.order == "post_ln", maps.causal) == (case.name == "bert", case.name != "bert")
    expected = {"method": "exact", "value_bias": "bias", "rtol": "0.0001", "weights": "raw"}
    assert expected.items() <= dict(maps.provenance).items()
    hooked = "HookedEncoder" if case.name == "bert" else "HookedTransformer"
    assert maps.provenance["api"] == (hooked if case.api == "hooked" else "TransformerBridge")


@pytest.mark.parametrize("through_data", [False, True], ids=["in place", "through .data"])
@pytest.mark.parametrize("name", ["attn.W_O", "attn.W_V", "mlp.W_in", "mlp.b_in", "ln1.w", "ln2.b"])
def test_changed_weights_change_the_next_map(name: str, through_data: bool) -> None:
    """Whatever is kept between calls, after an update the maps are of the new weights, in long and short sequences."""
    model, (owner, attribute) = tiny.bridge("gpt2", dtype=DOUBLE), name.split(".")
    for n in (2, 9):
        tokens = tiny.tokens("gpt2", n)
        before = ffb.contribution_maps(model, tokens, layers=1)
        weight = getattr(getattr(model.blocks[1], owner), attribute)
        with torch.no_grad():
            (weight.data if through_data else weight).mul_(1.5)
        after, vectors = ffb.contribution_maps(model, tokens, layers=1), ffb.decompose(model, tokens, layer=1)
        assert after.worst_completeness()[0] < 1e-10
        for scope in after.scopes:
            torch.testing.assert_close(after[scope, 1], vectors.parts(scope).norm(dim=-1), **BATCH_FLOAT64)
        assert not torch.allclose(after["AtbLnFf"], before["AtbLnFf"], rtol=1e-6)


@pytest.mark.wrong_types  # lists of ids are read, and not annotated
@pytest.mark.parametrize("options", [{}, {"heads": True}, {"experts": True}], ids=str)
@pytest.mark.parametrize("family", ["glm4_moe", "deepseek_v3"])
def test_prompts_of_unequal_lengths_with_dense_layers_and_layers_of_experts(
    family: str, options: dict[str, Any]
) -> None:
    """Layers of experts run each prompt alone, dense ones all together: every result is that of its prompt."""
    model, prompts = bridge_of(family), [tiny.tokens(family, n, seed=n).tolist() for n in (7, 5, 6, 5)]
    for prompt, found in zip(prompts, ffb.contribution_maps(model, prompts, **options), strict=True):
        alone = ffb.contribution_maps(model, prompt, **options)
        assert found.tokens == alone.tokens
        for table in ("values", "bias", "heads", "experts"):
            mine, theirs = getattr(found, table), getattr(alone, table)
            for scope, cells in theirs.items():
                torch.testing.assert_close(mine[scope], cells, **BATCH_FLOAT32)


# --- all families, and the class of TransformerLens ---------------------------------------------------------------


@pytest.mark.parametrize("family", tiny.ALL_FAMILIES)
def test_every_family_passes_the_check(family: str) -> None:
    """Listed in the table; every equation of every layer holds (`check_model`), and the bridge's logits are Hugging Face's."""
    model = bridge_of(family)
    result = ffb.check.check_model(model, tiny.tokens(family, 9))
    assert result.ok and result.listed, result.verdict()
    assert identify(model).memory.difference < TOLERANCE[SINGLE] / 5
    assert max(finding.error for finding in result.findings if finding.kind == "completeness") < COMPLETE_FLOAT32 / 10


@pytest.mark.parametrize("family", tiny.HOOKED)
def test_hooked_models_are_the_bridges(family: str) -> None:
    """TransformerLens 3: HookedTransformer and HookedEncoder of the same weights give the same maps."""
    if family == "gpt_oss":
        pytest.skip("refused: test_refusals")
    tokens = tiny.tokens(family, 7)
    found = ffb.contribution_maps(Case(family, "hooked").fresh(), tokens)
    same(found, ffb.contribution_maps(tiny.bridge(family), tokens), {"rtol": 1e-3, "atol": 1e-4})
