"""Attention by rows and patterns recomputed beside sdpa: the numbers of a pattern that is held whole, and no tensor as large."""

import gc
import weakref
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import tl_ffblock as ffb
from tests import tiny
from tests.attribution.conftest import DIFFERENCE
from tests.cases import MIXERS, TL_3
from tests.tolerances import BY_ROWS, GOLDEN_ROTARY, ORACLE
from tl_ffblock import contributions
from tl_ffblock.bridge import attention
from tl_ffblock.bridge.attention import by_rows_differs, own_implementation
from tl_ffblock.bridge.model import identify
from tl_ffblock.errors import IdentityError

pytestmark = pytest.mark.skipif(TL_3, reason="bridges of TransformerLens 3 have other attention")
CANNOT = {"gptj", "falcon", "bloom", "gpt_neo", "xglm", "mpt", "codegen", "openai_gpt"}
"""Hugging Face's attention of these does not ask transformers for an attention function."""
LATENT_OR_GATED = {"deepseek_v2", "deepseek_v3", "glm4_moe_lite", "youtu", "afmoe", "laguna", "qwen3_next"}
"""Their bridges have values and gates in forward functions of their own, which running by rows would replace."""
OFTEN = ("llama", "gpt2", "mistral", "gpt_neox", "gemma2", "gpt_oss", "bert", "gpt_bigcode")
FAMILIES = [
    f if f in OFTEN else pytest.param(f, marks=pytest.mark.slow)
    for f in tiny.ALL_FAMILIES
    if f not in (*CANNOT, *LATENT_OR_GATED, *MIXERS)
]
SDPA = ("bert", "roberta", "opt", "nanochat")
"""Bridges that leave attention to Hugging Face, which runs sdpa where it was loaded so."""


ROTATED_IN_FLOAT32 = ("cohere", "cohere2", "glm", "glm4")
"""Families whose rotary embedding casts queries and keys to float32."""


@pytest.fixture
def by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every text is too long for its pattern, and two rows at a time fit, or three."""
    monkeypatch.setattr(attention, "PATTERN_BYTES", 0)
    monkeypatch.setitem(attention.ROW_BYTES, "cpu", 1000)


@pytest.fixture
def softmax_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hugging Face's is of float32 in float64 models, too, so that rows apart differ where a score rounds otherwise."""
    softmax = torch.nn.functional.softmax

    def as_given(x: Tensor, dim: int | None = None, dtype: torch.dtype | None = None) -> Tensor:
        return softmax(x, dim=dim, dtype=x.dtype if x.dtype == torch.float64 else dtype)

    monkeypatch.setattr(torch.nn.functional, "softmax", as_given)


def gap(found: Any, expected: Any) -> float:
    """The largest difference of any of two results' numbers, over the largest of its table."""
    if isinstance(expected, ffb.ContributionMaps):
        pairs = [(found[scope], expected[scope]) for scope in expected.scopes]
    else:
        names = ("tokens", "residual", "bias_shares")
        pairs = [(getattr(found, name), getattr(expected, name)) for name in names]
        pairs += [(found.parts[name], expected.parts[name]) for name in expected.parts]
    pairs = [pair for pair in pairs if pair[1].numel()]
    return max(float((a - b).abs().max() / b.abs().max().clamp(min=1e-30)) for a, b in pairs)


def results(model: Any, tokens: Tensor) -> list[Any]:
    """Maps of all rows and of two, and shares through heads, edges and neurons, kept whole and with layers run twice."""
    return [
        ffb.contribution_maps(model, tokens),
        ffb.contribution_maps(model, tokens, queries=[3, -1]),
        *(ffb.attribute(model, tokens, DIFFERENCE, checkpoint=twice) for twice in (False, True)),
        ffb.attribute(model, tokens, DIFFERENCE, of=(), rules="patching"),
    ]


@pytest.mark.usefixtures("softmax_in_float64")
@pytest.mark.parametrize("family", FAMILIES)
def test_by_rows_is_whole(family: str, request: pytest.FixtureRequest) -> None:
    """In float64, with windows that are shorter than the text, soft caps, sinks, shared keys and joint matrices."""
    model, tokens = tiny.bridge(family, dtype=torch.float64), tiny.tokens(family, 11)
    whole = results(model, tokens)
    request.getfixturevalue("by_rows")
    assert by_rows_differs(identify(model)) < float("inf")  # else both were made in the usual way
    limit = BY_ROWS if family == "gpt_bigcode" else GOLDEN_ROTARY if family in ROTATED_IN_FLOAT32 else ORACLE
    for found, expected in zip(results(model, tokens), whole, strict=True):
        assert gap(found, expected) < limit


@pytest.mark.parametrize("family", ["falcon", "gptj", "deepseek_v3", "qwen3_next"])
@pytest.mark.usefixtures("by_rows")
def test_others_run_as_they_do(family: str) -> None:
    """Where attention asks for no attention function, or its bridge computes more, the run is the usual one."""
    model = tiny.bridge(family)
    assert by_rows_differs(identify(model)) == float("inf")
    maps = ffb.contribution_maps(model, tiny.tokens(family, 5))
    assert maps.worst_completeness()[0] < 1e-5


class Largest(TorchDispatchMode):
    """The most numbers that any tensor over all keys had which was made inside."""

    def __init__(self, n_keys: int) -> None:
        super().__init__()
        self.n_keys, self.numbers = n_keys, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, tuple | list) else (made,):
            if isinstance(tensor, Tensor) and tensor.shape[-1:] == (self.n_keys,):
                self.numbers = max(self.numbers, tensor.numel())
        return made


@pytest.mark.filterwarnings("ignore:chunk_bytes is max_memory")
@pytest.mark.parametrize("family", ["llama", "gpt2", "mistral"])
def test_no_pattern_is_held(family: str, request: pytest.FixtureRequest) -> None:
    """Neither the maps of a row nor shares of tokens make a tensor [head query key], forward or backward."""
    n = 44
    model, tokens = tiny.bridge(family), tiny.tokens(family, n)
    pattern = model.cfg.n_heads * n * n
    calls = [
        lambda: ffb.contribution_maps(model, tokens, queries=[-1], chunk_bytes=1000),
        lambda: ffb.attribute(model, tokens, 5, of=(), checkpoint=True),
    ]
    for call in calls:
        call()  # what is done once a model
        with Largest(n) as whole:
            call()
        assert whole.numbers >= pattern
    request.getfixturevalue("by_rows")
    for call in calls:
        call()
        with Largest(n) as kept:
            call()
        assert kept.numbers < pattern


def test_a_window_reads_its_band() -> None:
    """Keys and values outside of the window are NaN: rows do not touch them, with a mask and without one."""
    n, window, generator = 12, 3, torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, n, 4, generator=generator, dtype=torch.float64)
    at = torch.arange(n)
    seen = (at[None] <= at[:, None]) & (at[None] > at[:, None] - window)
    expected = (q @ k.transpose(-1, -2) / 2).masked_fill(~seen, -torch.inf).softmax(dim=-1)
    module: Any = torch.nn.Module()
    for mask, options in ((seen[None, None], {}), (None, {"sliding_window": window})):
        scores = attention._Scores.of(module, q, k, mask, options)
        torch.testing.assert_close(scores.pattern_of(scores.rows), expected)
        for start in range(0, n, 2):
            inside = slice(max(0, start - window + 1), start + 2)
            outside = torch.ones(n, dtype=torch.bool)
            outside[inside] = False
            hidden_k, hidden_v = (x.masked_fill(outside[:, None], torch.nan) for x in (k, v))
            rows = attention._Scores.of(module, q, hidden_k, mask, options)
            z = rows._weighted(slice(start, start + 2), hidden_v)
            torch.testing.assert_close(z, (expected @ v)[:, :, start : start + 2])


def with_sdpa(family: str, **options: Any) -> Any:
    """A bridge whose Hugging Face model runs sdpa."""
    model = tiny.bridge(family, **options)
    model.original_model.set_attn_implementation("sdpa")
    return model


@pytest.mark.parametrize("family", SDPA)
def test_sdpa_is_eager(family: str) -> None:
    """The model goes on with sdpa, and everything is what the same weights give with eager attention; its setting stays."""
    eager, model = tiny.bridge(family, dtype=torch.float64), with_sdpa(family, dtype=torch.float64)
    tokens = tiny.tokens(family, 9)
    assert own_implementation(identify(model)) == "sdpa" and own_implementation(identify(eager)) is None
    for found, expected in zip(results(model, tokens), results(eager, tokens), strict=True):
        assert gap(found, expected) < GOLDEN_ROTARY
    heads = [ffb.attention_maps(each, tokens) for each in (model, eager)]
    torch.testing.assert_close(heads[0].values, heads[1].values, rtol=GOLDEN_ROTARY, atol=GOLDEN_ROTARY)
    with ffb.capture(model, layers=0) as records:
        model(tokens[None])
        inside = ffb.attribute(model, tokens, DIFFERENCE)  # a context within the context
    assert records[0].pattern.shape[-2:] == (9, 9) and "edges" in inside.parts
    assert model.original_model.config._attn_implementation == "sdpa"


def test_sdpa_with_padding() -> None:
    """Padded rows of a batch are those of each sequence alone."""
    model, tokens = with_sdpa("bert"), tiny.tokens("bert", 8)
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[1, 5:] = 0
    found = ffb.contribution_maps(model, tokens.expand(2, -1), attention_mask=mask)
    for maps, n in zip(found, (8, 5), strict=True):
        assert gap(maps, ffb.contribution_maps(tiny.bridge("bert"), tokens[:n])) < 1e-5


def test_another_pattern_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern that did not make the model's own output gives no result, and leaves the model as it was."""
    model, tokens = with_sdpa("bert"), tiny.tokens("bert", 6)
    ffb.contribution_maps(model, tokens)
    own = attention._Scores.pattern_of
    monkeypatch.setattr(attention._Scores, "pattern_of", lambda self, rows: own(self, rows) * 1.01)
    with pytest.raises(IdentityError, match="attention runs 'sdpa' in BertSelfAttention.*differs from its output"):
        ffb.contribution_maps(model, tokens)
    assert model.original_model.config._attn_implementation == "sdpa"


@pytest.mark.usefixtures("by_rows")
def test_a_failure_leaves_the_model_as_it_was() -> None:
    """Its attention is the bridge's own again, whatever ended the run."""
    model, tokens = tiny.bridge("llama"), tiny.tokens("llama", 6)
    expected = model(tokens[None])
    with suppress(ZeroDivisionError):
        ffb.attribute(model, tokens, lambda logits: 1 / 0)
    assert not any("forward" in vars(block.attn) for block in model.blocks)
    assert model.original_model.config._attn_implementation == "eager"
    assert torch.equal(model(tokens[None]), expected)


@pytest.mark.usefixtures("by_rows")
def test_hooks_see_the_whole_pattern() -> None:
    """Where anybody listens the run is the usual one: a hook on the pattern has all of it."""
    model, tokens, seen = tiny.bridge("llama"), tiny.tokens("llama", 6), list[tuple[int, ...]]()
    hook = ("blocks.0.attn.hook_pattern", lambda pattern, hook: seen.append(tuple(pattern.shape)))
    ffb.contribution_maps(model, tokens, queries=[-1], fwd_hooks=[hook])
    assert seen[-1][-2:] == (6, 6)


@pytest.mark.parametrize("family", ["gpt2", "llama", "mixtral"])
def test_memory_holds_one_layer(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer's record is gone when the next one comes, without the garbage collector, and no layer keeps its pattern."""
    model, tokens, alive = tiny.bridge(family), tiny.tokens(family, 5), list[weakref.ref[Any]]()
    seen = list[int]()

    def spy(self: Any, records: Any) -> None:
        seen.append(sum(record() is not None for record in alive))
        alive.append(weakref.ref(records.batch.pattern))
        own(self, records)

    own = contributions.MapTables.__call__
    monkeypatch.setattr(contributions.MapTables, "__call__", spy)
    gc.disable()
    try:
        ffb.contribution_maps(model, tokens)
    finally:
        gc.enable()
    assert max(seen) <= 1
    assert all(getattr(block.attn, "_pattern", None) is None for block in model.blocks)
