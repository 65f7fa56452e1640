"""The two implementations of one layer: all vectors (reference), norms without vectors (optimised)."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.tolerances import ALGEBRA, CANCELLATION, CAPTUM, OPTIMISED_FLOAT32, OPTIMISED_FLOAT64
from tl_ffblock.layer.fast.buffers import ON_CPU, Buffers, HeadProducts, ProductKey, stacks
from tl_ffblock.layer.fast.vector_norms import contribution_norms, norms_of_stack, norms_of_vectors
from tl_ffblock.layer.linear import decompose_record
from tl_ffblock.layer.records import Settings

LAYERS = {
    "GPT-2": dict(order="pre_ln", kv_heads=4),
    "Llama": dict(order="pre_ln", gated=True, rms=True, activation=nn.functional.silu),
    "one value head": dict(order="pre_ln", gated=True, rms=True, kv_heads=1, activation=torch.relu),
    "sinks": dict(order="pre_ln", row_sum=0.3),
    "BERT": dict(order="post_ln", causal=False, kv_heads=4),
    "causal BERT": dict(order="post_ln", causal=True, kv_heads=4),
    "unknown activation": dict(order="pre_ln", activation=nn.functional.softplus),
    "unknown gate": dict(order="pre_ln", gated=True, activation=torch.tanh),
}
OPTIMISED = {torch.float32: OPTIMISED_FLOAT32, torch.float64: OPTIMISED_FLOAT64}


@pytest.fixture(params=LAYERS, ids=str)
def layer(request: pytest.FixtureRequest) -> dict:
    """Every form of a layer in turn."""
    return LAYERS[request.param]


@pytest.mark.parametrize("value_bias", ["bias", "token"])
def test_every_scope_is_complete(make_record: Callable[..., Any], layer: dict, value_bias: str) -> None:
    """At every scope parts and bias sum to the run's own tensor, computed the plain way."""
    record = make_record(**layer)
    found = decompose_record(record, Settings(value_bias=value_bias))
    assert found.scopes == tuple(record.whole)
    for scope in found.scopes:
        total = found.parts(scope).sum(1) + found.bias(scope)
        torch.testing.assert_close(total, record.whole[scope], **ALGEBRA)
        torch.testing.assert_close(found.whole(scope), record.whole[scope], rtol=0, atol=0)
        assert (found.remainder(scope) == 0).all()


@pytest.mark.parametrize("dtype", OPTIMISED, ids=str)
@pytest.mark.parametrize("n", [1, 5, 21], ids=["one row", "vectors", "Gram matrices"])
def test_both_implementations_give_the_same_norms(
    make_record: Callable[..., Any], layer: dict, n: int, dtype: torch.dtype
) -> None:
    """Norms without vectors are the norms of the vectors, to rounding of the row's largest."""
    record, settings = make_record(n=n, dtype=dtype, **layer), Settings()
    scopes = tuple(record.whole)
    fast, slow = (norms(record, settings, scopes) for norms in (contribution_norms, norms_of_vectors))
    for scope in scopes:
        _same_rows(fast.values[scope], slow.values[scope], OPTIMISED[dtype])
        for name in ("bias", "remainder"):
            _same_rows(getattr(fast, name)[scope][:, None], getattr(slow, name)[scope][:, None], OPTIMISED[dtype])
        assert fast.completeness[scope].max() < 1e-5


def test_cancelling_heads_cost_few_digits(make_record: Callable[..., Any]) -> None:
    """A Gram matrix squares a cancellation: heads that leave a thousandth of what each writes still give nine digits."""
    record = make_record(kv_heads=1)
    record.block.attention.w_o[1] = -record.block.attention.w_o[0]
    record.block.attention.w_o[2:] *= 1e-3
    record.pattern[1] = record.pattern[0]
    fast, slow = (norms(record, Settings(), ("Attn",)) for norms in (contribution_norms, norms_of_vectors))
    _same_rows(fast.values["Attn"], slow.values["Attn"], CANCELLATION)


def test_exact_is_captum_at_fifty_steps_of_an_edited_layer(make_record: Callable[..., Any]) -> None:
    """The remainder of an edit is one more player for both; layers as they are: tests/integration/test_oracle.py."""
    record = make_record()
    whole = {**record.whole, "AtbLn": record.whole["AtbLn"] + 0.5}
    pre = whole["AtbLn"] @ record.block.feed_forward.w_in + record.block.feed_forward.b_in
    record = dataclasses.replace(record, whole=whole, pre=pre, edited=True)
    exact, quadrature = (decompose_record(record, Settings(method=m)) for m in ("exact", "captum"))
    assert exact.remainder(exact.scopes[3]).norm() > 0.1
    for scope in exact.scopes:
        largest = max(exact.parts(scope).norm(dim=-1).max(), exact.remainder(scope).norm(dim=-1).max())
        for part in ("parts", "bias", "remainder"):
            one, two = getattr(exact, part)(scope), getattr(quadrature, part)(scope)
            assert (one - two).norm(dim=-1).max() < CAPTUM * largest


def test_asking_for_few_scopes_changes_no_number(make_record: Callable[..., Any], layer: dict) -> None:
    """Each scope alone is what it is among all."""
    record = make_record(**layer)
    everything = contribution_norms(record, Settings(), tuple(record.whole))
    for scope in record.whole:
        alone = contribution_norms(record, Settings(), (scope,))
        assert list(alone.values) == [scope]
        torch.testing.assert_close(alone.values[scope], everything.values[scope], **ALGEBRA)
        torch.testing.assert_close(alone.completeness[scope], everything.completeness[scope], rtol=0, atol=1e-12)


@pytest.mark.parametrize("group_bytes", [None, 1], ids=["one group", "a token a group"])
def test_shared_buffers_change_no_number(make_record: Callable[..., Any], group_bytes: int | None) -> None:
    """Layers of other sizes, orders and dtypes, one after the other in the same memory, of one or of many groups of tokens."""
    layers = (
        dict(n=9),
        dict(n=3),
        dict(order="post_ln", causal=False),
        dict(gated=True, n=7),
        dict(dtype=torch.float32),
    )
    records = [make_record(**layer) for layer in layers]
    alone = [contribution_norms(record, Settings(), tuple(record.whole)) for record in records]
    buffers = Buffers(None if group_bytes is None else dataclasses.replace(ON_CPU, group_bytes=group_bytes))
    for record, expected in [*zip(records, alone, strict=True)] * 2:
        norms = contribution_norms(record, Settings(), tuple(record.whole), buffers=buffers)
        for scope in record.whole:
            torch.testing.assert_close(norms.values[scope], expected.values[scope], rtol=1e-5, atol=1e-6)


SIZES = [9, 6, 9, 9, 6]
"""Tokens of some sequences, lengths mixed."""


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "BERT"])
@pytest.mark.parametrize("rows", [None, [-1], [2, 5]], ids=str)
@pytest.mark.parametrize("room", ["room for all", "two together", "a pair at a time"])
def test_sequences_together_are_sequences_alone(
    make_record: Callable[..., Any], name: str, rows: list[int] | None, room: str
) -> None:
    """Sequences of a layer, those of equal length worked on together, give the norms of each alone, in the order given."""
    layer = LAYERS[name]
    records = [make_record(n=n, seed=seed, **layer) for seed, n in enumerate(SIZES)]
    records = [dataclasses.replace(record, block=records[0].block) for record in records]
    if rows is not None:
        records = [record.rows(torch.tensor([row % len(record.queries) for row in rows])) for record in records]
    bytes_of_two = 2 * len(records[0].queries) * 20 * (1 + layer.get("gated", False)) * records[0].value.element_size()
    sizes = {"sequence_bytes": bytes_of_two} if room == "two together" else {}
    settings = Settings(chunk_bytes=1 if room == "a pair at a time" else None)
    scopes = tuple(records[0].whole)
    buffers, numbers = Buffers(dataclasses.replace(ON_CPU, **sizes)), []
    for stack in stacks(dict(enumerate(records)), buffers, settings):
        norms = norms_of_stack(stack, settings, scopes, buffers, HeadProducts())
        numbers += stack.numbers
        for index, number in enumerate(stack.numbers):
            alone = contribution_norms(records[number], Settings(), scopes)
            for scope in scopes:
                _same_rows(norms.values[scope][index], alone.values[scope], OPTIMISED_FLOAT64)
                _same_rows(norms.bias[scope][index][:, None], alone.bias[scope][:, None], OPTIMISED_FLOAT64)
                completeness = norms.completeness[scope][index]
                torch.testing.assert_close(completeness, alone.completeness[scope], rtol=1e-4, atol=1e-5)
    assert sorted(numbers) == list(range(len(SIZES)))


def test_a_buffer_is_filled_anew_for_another_owner() -> None:
    """What one owner's `fill` left stays until the key is had by anyone else; other keys, dtypes and sizes stand apart."""
    buffers, like, calls = Buffers(), torch.zeros(1), []

    def filled(owner: object, size: int, value: float, like: Tensor = like) -> list[float]:
        def fill(memory: Tensor) -> None:
            calls.append(value)
            memory.fill_(value)

        return buffers.filled_by(owner, "key", size, like=like, fill=fill).tolist()

    first, second = object(), object()
    assert filled(first, 3, 1.0) == [1.0] * 3 and filled(first, 3, 9.0) == [1.0] * 3
    filled(first, 3, 7.0, like.double())
    assert filled(first, 3, 9.0) == [1.0] * 3
    assert filled(second, 2, 2.0) == [2.0] * 2
    assert filled(first, 3, 3.0) == [3.0] * 3
    assert filled(first, 5, 4.0) == [4.0] * 5
    buffers.reserve("key", 2, like=like)
    filled(first, 5, 5.0)
    assert calls == [1.0, 7.0, 2.0, 3.0, 4.0, 5.0]


def test_head_products_are_kept_while_the_weights_are_the_same(make_record: Callable[..., Any]) -> None:
    """A second layer's run takes the kept product; weights that were edited in place, or more bytes than allowed, make it anew."""
    block, key = make_record().block, ProductKey(3, 0, "in")
    w_o, norms, w = block.attention.w_o, [block.ff_norm], block.feed_forward.w_in

    def product(store: HeadProducts) -> Tensor:
        return store.product(key, w_o, norms, w, keep=True)

    store, none_kept = HeadProducts(), HeadProducts(limit_bytes=1)
    expected = torch.stack([norms[0].linear(matrix) @ w for matrix in w_o])
    torch.testing.assert_close(product(store), expected, **ALGEBRA)
    assert product(store) is product(store) and store.n_bytes() == expected.nbytes
    assert product(none_kept) is not product(none_kept) and none_kept.n_bytes() == 0
    for edited in (w_o, norms[0].gain, w):
        before = product(store)
        edited.mul_(2)
        torch.testing.assert_close(product(store), 2 * before, **ALGEBRA)
    as_one = w_o.reshape(1, -1, w_o.shape[2])
    torch.testing.assert_close(
        store.product(key, as_one, norms, w, keep=True), product(store).reshape(1, -1, w.shape[1]), **ALGEBRA
    )


@pytest.mark.parametrize("gated", [False, True], ids=["dense", "gated"])
def test_kept_head_products_change_no_number(make_record: Callable[..., Any], gated: bool) -> None:
    """Products that a call before kept give the same bits as those made in the call."""
    record, products = make_record(gated=gated), HeadProducts()
    scopes = tuple(record.whole)
    expected = contribution_norms(record, Settings(), scopes)
    for _ in range(2):
        norms = contribution_norms(record, Settings(), scopes, products=products)
        for scope in scopes:
            torch.testing.assert_close(norms.values[scope], expected.values[scope], rtol=0, atol=0)
    assert products.n_bytes() == (1 + gated) * record.block.attention.w_o.shape[0] * 5 * 20 * 8


def test_permuting_tokens_permutes_the_map(make_record: Callable[..., Any]) -> None:
    """Without causal mask positions carry no meaning of their own: a permuted record has the permuted map."""
    record = make_record("post_ln", causal=False)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    permuted = dataclasses.replace(
        record,
        resid_pre=record.resid_pre[order],
        pattern=record.pattern[:, order][:, :, order],
        value=record.value[order],
        pre=record.pre[order],
        whole={scope: tensor[order] for scope, tensor in record.whole.items()},
    )
    scopes = tuple(record.whole)
    one, two = (contribution_norms(r, Settings(), scopes) for r in (record, permuted))
    for scope in scopes:
        torch.testing.assert_close(two.values[scope], one.values[scope][order][:, order], **ALGEBRA)


def _same_rows(found: Tensor, expected: Tensor, tolerance: float) -> None:
    assert found.shape == expected.shape
    error = (found - expected).abs() / expected.amax(dim=-1, keepdim=True).clamp(min=1e-30)
    assert error.max() < tolerance


@pytest.mark.parametrize("kilobytes", [1, 4, 64])
def test_stacks_fit_the_budget(make_record: Callable[..., Any], kilobytes: int) -> None:
    """The coefficients of sequences in one stack occupy no more than they may, unless one sequence alone does."""
    first = make_record()
    records = {number: dataclasses.replace(make_record(seed=number), block=first.block) for number in range(30)}
    buffers = Buffers(dataclasses.replace(ON_CPU, sequence_bytes=kilobytes * 2**10))
    sizes = [stack.n_sequences for stack in stacks(records, buffers, Settings())]
    of_one = first.pre.numel() * first.pre.element_size()
    assert sum(sizes) == 30 and all(size == 1 or size * of_one <= kilobytes * 2**10 for size in sizes)
    assert max(sizes) == min(30, max(1, kilobytes * 2**10 // of_one))
