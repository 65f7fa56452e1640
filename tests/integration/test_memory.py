"""Memory known before a call: the estimate against the bytes of all tensors that were alive at one time, and the refusal."""

import math
import os
import platform
import re
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tests.live import LiveBytes
from tests.tolerances import BATCH_FLOAT32, MEMORY
from tl_ffblock.bridge import inputs, memory
from tl_ffblock.bridge.inputs import MANY_TOKENS, Batch, memory_given_back
from tl_ffblock.bridge.model import identify
from tl_ffblock.corpus.study import ObservedBatch
from tl_ffblock.errors import InputError, OutOfMemoryError, UnsupportedModelError
from tl_ffblock.layer.scopes import scope_names
from tl_ffblock.numerals import bytes_of
from tl_ffblock.result import equal, labels_of

TARGET = ffb.logit(5, minus=6)
N = 300
SIZES: dict[str, dict[str, Any]] = {
    "gpt2": dict(n_layer=3, n_embd=128, n_head=4, n_inner=512, n_positions=N, vocab_size=1000),
    "llama": dict(
        num_hidden_layers=3,
        hidden_size=128,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=384,
        max_position_embeddings=N,
        vocab_size=1000,
    ),
    "bert": dict(
        num_hidden_layers=3,
        hidden_size=128,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=N,
        vocab_size=1000,
    ),
}
Call = Callable[[Any, Tensor, Tensor], Any]
CALLS: dict[tuple[str, Any], Call] = {
    ("contribution_maps", None): lambda m, x, _: ffb.contribution_maps(m, x),
    ("contribution_maps", "heads"): lambda m, x, _: ffb.contribution_maps(m, x, heads=True),
    ("attribute", ()): lambda m, x, _: ffb.attribute(m, x, TARGET, of=()),
    ("attribute", None): lambda m, x, _: ffb.attribute(m, x, TARGET),
    ("attribution_patching", None): lambda m, x, y: ffb.attribution_patching(m, x, y, TARGET),
    ("attribution_patching", "edges"): lambda m, x, y: ffb.attribution_patching(m, x, y, TARGET, edges=True),
}


@pytest.mark.parametrize(
    "family", ["gpt2", *(pytest.param(name, marks=pytest.mark.slow) for name in ("llama", "bert"))]
)
def test_the_estimate_is_what_is_alive(family: str) -> None:
    """Of every call, at the length of a model whose buffers are small beside its tables."""
    model, tokens = (
        tiny.bridge(family, **SIZES[family]),
        torch.randint(20, 900, (N,), generator=torch.Generator().manual_seed(1)),
    )
    other = tokens.clone()
    other[3] = 7
    for (name, of), call in CALLS.items():
        call(model, tokens[:16], other[:16])  # what is done once a model
        with LiveBytes() as counted:
            call(model, tokens, other)
        estimate = ffb.memory_estimate(model, N, name, of=of)
        assert abs(estimate.total / counted.peak - 1) < MEMORY, (name, of, estimate, counted.peak)


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert"])
def test_an_observed_batch_holds_what_is_estimated(family: str) -> None:
    """Tensors of all layers of every text and their maps; so many texts share a batch as fit, one always, and experts never."""
    model, n = identify(tiny.bridge(family, **SIZES[family])), N // 2
    scopes = scope_names(model.family.order)
    tokens = torch.randint(20, 900, (4, n), generator=torch.Generator().manual_seed(1))
    for row in tokens[:2]:
        _ = ObservedBatch(model, Batch(row[None, :16]), scopes).maps  # what is done once a model
    held = {}
    for together in (1, 4):
        with LiveBytes() as counted:
            observed = ObservedBatch(model, Batch(tokens[:together]), scopes)
            assert len(observed.maps) == len(observed.records) == together
        held[together] = counted.peak
        estimate = memory.observed_bytes(model, n, len(scopes), together)
        assert abs(estimate / counted.peak - 1) < MEMORY, (together, estimate, counted.peak)
    fits = {given: memory.observed_together(model, n, len(scopes), 4, given) for given in (1, held[4], 10 * held[4])}
    assert fits[1] == 1 and fits[held[4]] in (2, 4) and fits[10 * held[4]] == 4
    assert memory.observed_together(identify(model_of("mixtral")), n, 1, 4, "2GB") == 1


def test_what_grows_and_what_does_not() -> None:
    """Maps of one row grow with the length, of all rows with its square; edges are most of a usual attribution."""
    model = tiny.bridge("gpt2")
    one, all_rows = (
        [ffb.memory_estimate(model, n, n_queries=q).terms["for the maps"] for n in (64, 128)] for q in (1, None)
    )
    assert one[1] == 2 * one[0] and all_rows[1] == 4 * all_rows[0]
    usual, tokens = (ffb.memory_estimate(model, 512, "attribute", of=of).total for of in (None, ()))
    assert usual > 1.5 * tokens
    two = ffb.memory_estimate(model, 64, n_sequences=2)
    assert two.terms["for the maps"] == 2 * ffb.memory_estimate(model, 64).terms["for the maps"]
    assert "2 x 64 tokens on GPT2LMHeadModel takes about" in two.sentence and repr(two).startswith(
        "MemoryEstimate: contribution_maps"
    )


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="reads /proc/meminfo, which Linux alone has")
def test_free_memory_is_in_bytes() -> None:
    """The kernel's own number is in KiB; it changes a little while tests run."""
    kernel = re.search(r"^MemAvailable: +(\d+) kB$", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    assert kernel and memory.available(identify(model_of("gpt2"))) == pytest.approx(1024 * int(kernel[1]), rel=0.25)


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything runs, with the sentence of the estimate and what to do; experts are not estimated."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 8)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: types.SimpleNamespace(available=1000))
    calls = {"queries=": lambda m: ffb.contribution_maps(m, tokens), r"of=\(\)": lambda m: ffb.attribute(m, tokens, 5)}
    for instead, call in calls.items():
        with pytest.raises(
            OutOfMemoryError, match=f"of 8 tokens on .* takes about .* over the model: .* are free.*{instead}"
        ) as error:
            call(model)
        assert isinstance(error.value, MemoryError)
    assert len(ffb.contribution_maps(model_of("mixtral"), tokens).tokens) == 8


def test_bad_questions() -> None:
    """Calls and parts that are not estimated."""
    model = model_of("gpt2")
    with pytest.raises(InputError, match=r"call='decompose': expected \"contribution_maps\""):
        ffb.memory_estimate(model, 8, "decompose")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="of='maps': expected some of 'heads', 'edges', 'neurons' for attribute"):
        ffb.memory_estimate(model, 8, "attribute", of="maps")
    with pytest.raises(UnsupportedModelError, match="mixtures of experts"):
        ffb.memory_estimate(model_of("mixtral"), 8)


def assert_near(one: Any, other: Any) -> None:
    """Two results have the same numbers, to the rounding of batches."""
    tensors, others = labels_of(one)[1], labels_of(other)[1]
    assert tensors.keys() == others.keys()
    for name, tensor in tensors.items():
        torch.testing.assert_close(tensor, others[name], **BATCH_FLOAT32)


def most_alive(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call gives, and the most bytes that were alive."""
    with LiveBytes() as counted:
        result = call()
    return result, counted.peak


def test_calls_stay_below_a_budget() -> None:
    """One text at a time, smaller products, layers run twice: the same numbers, with no more alive than allowed."""
    model, deep = (tiny.bridge("gpt2", **(SIZES["gpt2"] | {"n_layer": layers})) for layers in (3, 12))
    rows = torch.randint(20, 900, (3, N), generator=torch.Generator().manual_seed(2))
    calls: dict[str, tuple[Callable[..., Any], float]] = {
        "texts apart": (lambda **o: ffb.contribution_maps(model, rows, **o), 0.8),
        "smaller products": (lambda **o: ffb.contribution_maps(model, rows[0], **o), 0.8),
        "prompts apart": (lambda **o: ffb.attribute(model, rows, TARGET, of=(), **o), 0.5),
        "layers twice": (lambda **o: ffb.attribute(deep, rows[0], TARGET, of=(), **o), 0.6),
    }
    for name, (call, part) in calls.items():
        call()
        expected, whole = most_alive(call)
        found, peak = most_alive(lambda call=call, budget=part * whole: call(max_memory=budget))
        assert peak < part * whole * (1 + MEMORY) and peak < 0.95 * whole, (name, peak / whole)
        for one, other in zip(*(each if isinstance(each, list) else [each] for each in (found, expected)), strict=True):
            assert_near(one, other)


def test_bytes_are_read_by_their_units() -> None:
    """Decimal ones by powers of a thousand, binary ones by powers of 1024; a number is bytes."""
    texts = {
        "4GB": 4e9,
        "4 GB": 4e9,
        "0.5 GiB": 2**29,
        "512MiB": 2**29,
        "512M": 512e6,
        "3k": 3e3,
        "2Ti": 2**41,
        "1.5TB": 1.5e12,
    }
    given: dict[Any, float] = {**texts, "7": 7, "7 B": 7, 7: 7, 2.5e3: 2500}
    assert {each: bytes_of(each) for each in given} == given


def test_a_budget_that_nothing_fits_is_refused_before_anything_runs() -> None:
    """With the estimate; and what memory is not estimated of, and what are no bytes."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 8)
    other, ran = tokens.flip(0), []
    calls: list[Callable[..., Any]] = [
        lambda **o: ffb.contribution_maps(model, tokens, **o),
        lambda **o: ffb.attribute(model, tokens, TARGET, **o),
        lambda **o: ffb.attribution_patching(model, tokens, other, TARGET, **o),
    ]
    for call in calls:
        expected = call()
        for enough in (10**9, "1GB", "0.5 GiB", 1e9):
            assert equal(call(max_memory=enough), expected)
        model.blocks[0].hook_in.add_hook(lambda tensor, hook: ran.append(hook), is_permanent=True)
        with pytest.raises(OutOfMemoryError, match="of 8 tokens on .* takes about .* 1 kB are allowed by max_memory"):
            call(max_memory="1 kB")
        model.blocks[0].hook_in.remove_hooks(including_permanent=True)
        for bad in ("four", "-1", 0, True, "GB", math.inf):
            with pytest.raises(InputError, match="max_memory="):
                call(max_memory=bad)
    assert not ran
    for call in (
        lambda: ffb.attribute(model, tokens, TARGET, of="maps", max_memory="1GB"),
        lambda: ffb.attribution_patching(model, tokens, other, TARGET, maps=True, max_memory="1GB"),
        lambda: ffb.contribution_maps(model, tokens, method="captum", max_memory="1GB"),
    ):
        with pytest.raises(InputError, match="max_memory with .*: memory of .* is estimated with"):
            call()
    with pytest.raises(UnsupportedModelError, match="omit max_memory"):
        ffb.contribution_maps(model_of("mixtral"), tokens, max_memory="1GB")
    with pytest.warns(DeprecationWarning, match="chunk_bytes is max_memory now"):
        ffb.contribution_maps(model, tokens, chunk_bytes=1000)


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="malloc_trim is of glibc")
@pytest.mark.parametrize("n_tokens", [8, MANY_TOKENS])
def test_gaps_between_tensors_are_given_back(n_tokens: int) -> None:
    """Every second of 400 tensors of a megabyte is freed: malloc keeps their pages, unless a long batch runs."""
    model = identify(tiny.bridge("gpt2"))
    with memory_given_back(model, [Batch(torch.zeros(1, n_tokens, dtype=torch.long))]):
        tensors = [torch.ones(2**18 - 64) for _ in range(400)]
        before = resident()
        del tensors[::2]
        until = time.monotonic() + (20 if n_tokens >= MANY_TOKENS else 0.5)
        while before - resident() < 150e6 and time.monotonic() < until:
            time.sleep(0.01)
        given_back = before - resident()
    assert len(tensors) == 200
    assert given_back > 150e6 if n_tokens >= MANY_TOKENS else given_back < 20e6


@pytest.mark.parametrize(
    "call",
    [
        lambda m, x: ffb.contribution_maps(m, x, queries=-1),
        lambda m, x: ffb.attribute(m, x, TARGET, of=()),
        lambda m, x: ffb.attribution_patching(m, x, x.roll(1), TARGET),
        lambda m, x: ffb.attribute_continuation(m, x[:-1], x[-1:].tolist()),
    ],
)
def test_long_calls_give_memory_back(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """While they run, and no longer."""
    monkeypatch.setattr(inputs, "MANY_TOKENS", 16)
    monkeypatch.setattr(inputs, "SECONDS_BETWEEN_TRIMS", 0.0)
    trims: list[int] = []
    monkeypatch.setattr(inputs.ctypes, "CDLL", lambda _: types.SimpleNamespace(malloc_trim=trims.append))
    model = tiny.bridge("gpt2")
    call(model, tiny.tokens("gpt2", 15))
    assert trims == []
    call(model, tiny.tokens("gpt2", 16))
    assert len(trims) > (2 if sys.platform == "linux" else -1)
    after = len(trims)
    time.sleep(0.05)
    assert len(trims) == after
