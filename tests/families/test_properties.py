"""Laws over random configurations: every width, head count, activation, bias, length and padding that a form may have.

The examples are the same in every run (`derandomize`); each is one tiny model of 1 to 3 layers.
"""

from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

import tl_ffblock as ffb
from tests import tiny
from tests.tolerances import BATCH_FLOAT32, COMPLETE_FLOAT32

N_CTX = tiny.N_CTX
GATED = ("silu", "gelu", "gelu_pytorch_tanh", "relu", "relu2", "quick_gelu")
PLAIN = ("gelu_new", "gelu", "relu", "silu", "quick_gelu", "tanh")


@st.composite
def llama_like(draw: st.DrawFn, family: str, **fixed: Any) -> tuple[str, dict[str, Any]]:
    """Rotary, grouped heads whose width is free of d_model, gated feed-forward."""
    kv = draw(st.integers(1, 3))
    heads = kv * draw(st.integers(1, 3))
    layers = draw(st.integers(1, 3))
    config = {
        "hidden_size": heads * draw(st.sampled_from([3, 6, 8])),  # a multiple, which Hugging Face asks for
        "num_key_value_heads": kv,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "head_dim": draw(st.sampled_from([2, 4, 6, 10])),
        "intermediate_size": draw(st.integers(1, 40)),
        "rms_norm_eps": draw(st.sampled_from([1e-6, 1e-5, 1e-2])),
        **{key: draw(value) if isinstance(value, st.SearchStrategy) else value for key, value in fixed.items()},
    }
    if family == "gemma2":
        kinds = st.sampled_from(["sliding_attention", "full_attention"])
        config["layer_types"] = draw(st.lists(kinds, min_size=layers, max_size=layers))
    if family == "olmo2":
        del config["head_dim"]
        config["hidden_size"] = config["num_attention_heads"] * draw(st.sampled_from([2, 4, 6]))
    return family, config


@st.composite
def plain(draw: st.DrawFn, family: str) -> tuple[str, dict[str, Any]]:
    """Learned positions or rotary ones, one activation, width a multiple of the heads': of GPT-2, OPT, parallel and Post-LN blocks."""
    heads, names = draw(st.integers(1, 4)), NAMES[family]
    width = heads * draw(st.sampled_from([4, 8, 12] if family in ("gpt_neox", "bert") else range(3, 9)))
    options = {
        "gpt2": {"layer_norm_epsilon": st.sampled_from([1e-12, 1e-5, 1e-2])},
        "opt": {"enable_bias": st.booleans(), "word_embed_proj_dim": st.just(width)},
        "gpt_neox": {"use_parallel_residual": st.booleans(), "layer_norm_eps": st.sampled_from([1e-12, 1e-5, 1e-2])},
        "bert": {"layer_norm_eps": st.sampled_from([1e-12, 1e-5, 1e-2])},
    }[family]
    drawn = (heads, width, draw(st.integers(1, 3)), draw(st.integers(1, 40)), draw(st.sampled_from(PLAIN)))
    return family, {**dict(zip(names, drawn, strict=True)), **{name: draw(value) for name, value in options.items()}}


NAMES = {
    "gpt2": ("n_head", "n_embd", "n_layer", "n_inner", "activation_function"),
    "opt": ("num_attention_heads", "hidden_size", "num_hidden_layers", "ffn_dim", "activation_function"),
    "gpt_neox": ("num_attention_heads", "hidden_size", "num_hidden_layers", "intermediate_size", "hidden_act"),
    "bert": ("num_attention_heads", "hidden_size", "num_hidden_layers", "intermediate_size", "hidden_act"),
}
"""How a family calls heads, width, layers, neurons and activation."""


MODELS = st.one_of(
    plain("gpt2"),
    plain("opt"),
    llama_like("llama", hidden_act=st.sampled_from(GATED), attention_bias=st.booleans(), mlp_bias=st.booleans()),
    llama_like("mistral", hidden_act=st.sampled_from(GATED), sliding_window=st.sampled_from([None, 1, 3])),
    llama_like("gemma2", hidden_activation=st.sampled_from(GATED), sliding_window=st.sampled_from([1, 3])),
    llama_like("olmo2", hidden_act=st.sampled_from(GATED), attention_bias=st.booleans()),
    llama_like("mixtral", num_local_experts=4, num_experts_per_tok=st.integers(1, 4)),
    plain("gpt_neox"),
    plain("bert"),
)


def _close(found: Any, expected: Any) -> None:
    for scope in expected.scopes:
        for table in ("values", "bias"):
            torch.testing.assert_close(getattr(found, table)[scope], getattr(expected, table)[scope], **BATCH_FLOAT32)


@settings(settings.get_profile("families"), max_examples=18)
@given(
    model=MODELS, lengths=st.tuples(st.integers(1, 40), st.integers(1, 40)), seed=st.integers(0, 99), left=st.booleans()
)
def test_laws_of_every_configuration(
    model: tuple[str, dict[str, Any]], lengths: tuple[int, int], seed: int, left: bool
) -> None:
    """Complete; padded = alone; the batch's order is irrelevant; queries= are rows; causal maps end at the diagonal."""
    family, config = model
    bridge = tiny.bridge(family, seed=seed, **config)
    sequences = [tiny.tokens(family, n, seed=seed + row) for row, n in enumerate(lengths)]
    alone = [ffb.contribution_maps(bridge, sequence) for sequence in sequences]

    for maps in alone:
        assert maps.worst_completeness()[0] < COMPLETE_FLOAT32
        for scope in maps.scopes:
            assert (maps[scope] >= 0).all()
            if maps.causal:
                assert (maps[scope].triu(1) == 0).all()

    batch, mask = torch.zeros(2, 2, max(lengths), dtype=torch.long).unbind()
    from_left = left and family != "bert"  # BERT counts positions from the left, padding included
    for row, sequence in enumerate(sequences):
        place = slice(max(lengths) - len(sequence), None) if from_left else slice(0, len(sequence))
        batch[row, place], mask[row, place] = sequence, 1
    together = ffb.contribution_maps(bridge, batch, attention_mask=mask)
    back = ffb.contribution_maps(bridge, batch.flip(0), attention_mask=mask.flip(0))[::-1]
    for one, other, expected in zip(together, back, alone, strict=True):
        _close(one, expected)
        _close(other, expected)

    queries = sorted({0, lengths[0] // 2, lengths[0] - 1})
    rows = ffb.contribution_maps(bridge, sequences[0], queries=queries)
    for scope in rows.scopes:
        torch.testing.assert_close(rows[scope], alone[0][scope][:, queries], **BATCH_FLOAT32)


@pytest.mark.slow
@pytest.mark.usefixtures("float64_throughout")
@settings(settings.get_profile("families"), max_examples=200)
@given(model=MODELS, length=st.integers(1, 40), seed=st.integers(0, 999))
def test_many_configurations_are_complete(model: tuple[str, dict[str, Any]], length: int, seed: int) -> None:
    """Vectors and norms agree and sum up, in float64 where the model is."""
    family, config = model
    bridge = tiny.bridge(family, seed=seed, dtype=torch.float64, **config)
    maps = ffb.contribution_maps(bridge, tiny.tokens(family, length, seed=seed))
    assert maps.worst_completeness()[0] < 1e-6  # rotary tables are float32
    vectors = ffb.decompose(bridge, tiny.tokens(family, length, seed=seed), layer=0)
    for scope in maps.scopes:
        expected = vectors.parts(scope).norm(dim=-1)
        assert (maps[scope, 0] - expected).abs().max() <= 1e-9 * expected.max()
