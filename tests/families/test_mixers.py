"""Token mixers without a softmax against literal recurrences of Hugging Face's own modules, which run a token at a time."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tl_ffblock as ffb
from docs import coverage
from tests import oracle, tiny
from tests.attribution.conftest import DIFFERENCE
from tests.attribution.test_direct import TL_RTOL, assert_read_from_the_stream_alone
from tests.cases import TL_3, model_of, slow_beyond
from tests.tolerances import CONSERVED_FLOAT32, CONSERVED_FLOAT64, ORACLE
from tl_ffblock.interventions import attention_knockout_hooks

MIXERS = slow_beyond(("qwen3_5", "bamba", "mamba2", "mamba", "falcon_mamba", "jamba"), ("qwen3_5", "mamba2", "mamba"))
RECURRENT = {"qwen3_5": (0,), "bamba": (0,), "jamba": (0,), "mamba": (0, 1), "mamba2": (0, 1), "falcon_mamba": (0, 1)}
N = 9
DOUBLE = pytest.mark.usefixtures("float64_throughout")


def double(family: str) -> Any:
    """The model in float64 that all tests share."""
    return model_of(family, torch.float64)


def close(found: Tensor, expected: Tensor) -> None:
    """Relative to the largest value."""
    torch.testing.assert_close(found, expected, rtol=0, atol=ORACLE * float(expected.abs().max()))


@DOUBLE
@pytest.mark.parametrize("value_bias", ["bias", "token"])
@pytest.mark.parametrize("family", MIXERS)
def test_contributions_are_those_of_one_source_token_at_a_time(family: str, value_bias: Any) -> None:
    """Vectors at every scope, and the bias part; two tokens are fewer than the taps of the convolution."""
    for n in (N, 2, 1):
        tokens = tiny.tokens(family, n)
        run = oracle._Run(tiny.hf_model(family, dtype=torch.float64), tokens, {})
        expected = dict(oracle._decompose(run, value_bias))
        for layer in range(len(run.layers)):
            found = ffb.decompose(double(family), tokens, layer=layer, value_bias=value_bias)
            for scope in found.scopes:
                parts = expected[f"L{layer}.{scope}"]
                close(found.parts(scope), parts[:, :-1])
                close(found.bias(scope), parts[:, -1])


@DOUBLE
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", MIXERS)
def test_padding_changes_nothing(family: str, side: str) -> None:
    """Maps, attributions and knockout of a padded sequence are those of the sequence alone, where Hugging Face's logits are."""
    options = {"use_bias": False} if "mamba" in family and family != "bamba" else {}
    model, tokens = model_of(family, torch.float64, **options), tiny.tokens(family, 5)
    ids, mask, real = padded(tokens, side)
    alone, batch = ffb.contribution_maps(model, tokens), ffb.contribution_maps(model, ids, attention_mask=mask)[0]
    for scope in alone.scopes:
        close(batch[scope], alone[scope])
        close(batch.bias[scope], alone.bias[scope])
    whole = ffb.attribute(model, ids, DIFFERENCE, of=("edges", "masking"), attention_mask=mask)[0]
    own = ffb.attribute(model, tokens, DIFFERENCE, of=("edges", "masking"))
    for found, expected in ((whole.tokens, own.tokens), (whole.edges, own.edges), (whole.masking, own.masking)):
        close(found, expected)
    key, query = (int(real[at]) for at in (1, 3))
    hooks = attention_knockout_hooks(model, keys=key, queries=query, layers=RECURRENT[family])
    with torch.no_grad():
        found = model.run_with_hooks(ids, attention_mask=mask, fwd_hooks=hooks)[0, real]
        hooks = attention_knockout_hooks(model, keys=1, queries=3, layers=RECURRENT[family])
        close(found, model.run_with_hooks(tokens[None], fwd_hooks=hooks)[0])


def padded(tokens: Tensor, side: str) -> tuple[Tensor, Tensor, Tensor]:
    """A batch of one sequence with three positions of padding, its mask, and the positions of its tokens."""
    zeros, at = tokens.new_zeros(3), 3 if side == "left" else 0
    ids = torch.cat([zeros, tokens] if side == "left" else [tokens, zeros])
    real = torch.arange(len(tokens)) + at
    return ids[None], torch.zeros_like(ids).index_fill(0, real, 1)[None], real


@DOUBLE
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", MIXERS)
def test_a_bias_at_padding_is_no_tokens(family: str, side: str) -> None:
    """A convolution reads the projection's bias at padding to the left: the logits differ, and the attribution still sums to them."""
    ids, mask, real = padded(tiny.tokens(family, 5), side)
    result = ffb.attribute(double(family), ids, DIFFERENCE, of=("heads", "edges"), attention_mask=mask)[0]
    with torch.no_grad():
        logits = tiny.hf_model(family, dtype=torch.float64)(ids, attention_mask=mask).logits[0, real[-1]]
    total = float(result.token_attributions.sum()) + sum(map(float, result.biases.values()))
    assert total == pytest.approx(
        float(logits[7] - logits[11]), abs=CONSERVED_FLOAT64["every other"] * float(logits.abs().max())
    )
    assert ffb.contribution_maps(double(family), ids, attention_mask=mask)[0].worst_completeness()[0] < ORACLE


@DOUBLE
@pytest.mark.parametrize("family", MIXERS)
def test_knockout_removes_what_a_token_writes(family: str) -> None:
    """Hugging Face's model, in whose recurrences some queries read a state that two tokens never wrote to."""
    tokens, queries, keys = tiny.tokens(family, N), [4, 6, N - 1], [1, 2]
    model = tiny.hf_model(family, dtype=torch.float64)
    for layer in RECURRENT[family]:
        block: Any = model.base_model.layers[layer]
        mixer = next(getattr(block, name) for name in oracle._MIXERS if hasattr(block, name))
        mixer.register_forward_hook(without_writes(mixer, queries, keys))
    hooks = attention_knockout_hooks(double(family), keys=keys, queries=queries, layers=RECURRENT[family])
    with torch.no_grad():
        expected = model(tokens[None]).logits
        close(double(family).run_with_hooks(tokens[None], fwd_hooks=hooks), expected)
        assert (expected - tiny.hf_model(family, dtype=torch.float64)(tokens[None]).logits).abs().max() > 1e-2


def without_writes(mixer: Any, queries: list[int], keys: list[int]) -> Callable[..., Tensor]:
    """Hook of a mixer of Hugging Face: its output if some queries do not read what some keys write."""
    run = oracle._Run.__new__(oracle._Run)
    run.said = {}
    for module in mixer.modules():
        if module is not mixer:
            module.register_forward_hook(run._listen, with_kwargs=True)

    def leave(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        recurrence = run._recurrence(mixer)
        joint = next(getattr(mixer, name) for name in ("in_proj_qkv", "in_proj") if hasattr(mixer, name))
        values = run.heard(joint) @ recurrence.value.weight + recurrence.value.bias
        values = nn.functional.silu(oracle._convolution(values, recurrence.taps) + recurrence.tap_bias)
        cut = values.clone()
        cut[keys] = 0.0
        y, without = (recurrence.scan(each[:, None])[:, 0] for each in (values, cut))
        y[queries] = without[queries]
        if hasattr(mixer, "x_proj"):
            z = y * recurrence.factor
        else:  # the norm has the scale of what it is given
            gates = run.answer(mixer.in_proj_z) if hasattr(mixer, "in_proj_z") else run.answer(mixer.in_proj)
            rows = (tensor.reshape(-1, len(mixer.norm.weight)) for tensor in (y, gates[:, : y.shape[1]]))
            z = mixer.norm(*rows).reshape(y.shape)
        return (z @ recurrence.out.weight + recurrence.out.bias)[None]

    return leave


@DOUBLE
@pytest.mark.parametrize("family", ["qwen3_5", "mamba2"])
def test_edges_are_of_the_tokens_that_taps_read(family: str) -> None:
    """Without biases, edges of all heads are the cells of the signed map of the mixer's output."""
    options = {"use_bias": False, "use_conv_bias": False} if family == "mamba2" else {}
    result = ffb.attribute(
        model_of(family, torch.float64, **options), tiny.tokens(family, 6), DIFFERENCE, of=("edges", "maps")
    )
    for layer in RECURRENT[family]:
        close(result.edges[layer].sum(dim=0), result.maps["Attn", layer])


def test_strong_decays_of_long_sequences_are_exact() -> None:
    """In float32, where a difference of two long sums has the rounding of the sums."""
    model = tiny.bridge("mamba2", num_hidden_layers=1)
    for name, weight in model.original_model.named_parameters():
        weight.data += 2.5 * name.endswith("A_log")
    tokens = torch.randint(tiny.N_SPECIAL, tiny.VOCAB, (1000,), generator=torch.Generator().manual_seed(0))
    maps = ffb.contribution_maps(model, tokens, scopes="Attn", queries=[-1, 150])
    assert maps.worst_completeness()[0] < CONSERVED_FLOAT32


@DOUBLE
@pytest.mark.parametrize("family", ["mamba", "falcon_mamba"])
def test_the_masking_estimate_is_knockout_in_one_layer(family: str) -> None:
    """Whose gate is constant, and no norm is before its output matrix: what `ffb.faithfulness` measures when it masks each token."""
    model = model_of(family, torch.float64, num_hidden_layers=1)
    tokens, target = tiny.tokens(family, 6), ffb.direction(torch.linspace(-1, 1, 32, dtype=torch.float64), layer=1)
    result = ffb.attribute(model, tokens, target, of=("masking",))
    measured = ffb.faithfulness(model, tokens, target, {"mine": result.masking}, removal="mask")
    close(result.masking[:-1], measured.effects[0][:-1])
    assert result.masking[:-1].all() and not result.masking[-1]


UNNAMED = pytest.mark.parametrize(
    "name", ["OlmoHybridForCausalLM", "Lfm2ForCausalLM", "Lfm2MoeForCausalLM", "GraniteMoeHybridForCausalLM"]
)
TL_4 = pytest.mark.skipif(TL_3, reason="TransformerLens 3 does not have all of their bridges")


@TL_4
@UNNAMED
def test_an_architecture_without_a_family_is_exact(name: str) -> None:
    """Maps of all scopes and the attribution of a logit, in both dtypes: their form is inferred, also of unlike layers."""
    assert coverage.row_of(name, {})["status"] == "exact"


@TL_4
@DOUBLE
@UNNAMED
def test_gradients_of_an_architecture_without_a_family_are_its_own(name: str) -> None:
    """Autograd through Hugging Face's model, of which some norms round to float32; direct contributions by the stream alone."""
    tokens = tiny.tokens("llama", 6)
    model, _ = coverage._bridge_and_logits(name, torch.float64, {}, {"input_ids": tokens[None]})
    reference, read = coverage.build(name, torch.float64, {}), list[Tensor]()

    def enter(_: nn.Module, __: Any, embedded: Tensor) -> Tensor:
        read.append(embedded.detach().requires_grad_())
        return read[0]

    reference.get_input_embeddings().register_forward_hook(enter)
    logits = reference(tokens[None]).logits[0, -1]
    (by,) = torch.autograd.grad(logits[7] - logits[11], read[0])
    expected = (read[0] * by)[0].sum(dim=-1).detach()
    found = ffb.attribute(model, tokens, DIFFERENCE, rules="gradient").token_attributions
    torch.testing.assert_close(found, expected, rtol=0, atol=CONSERVED_FLOAT32 * float(expected.abs().max()))
    assert_read_from_the_stream_alone(model, tokens, TL_RTOL)


@TL_4
@DOUBLE
@pytest.mark.parametrize("name", ["Lfm2ForCausalLM", "Lfm2MoeForCausalLM"])
def test_contributions_through_a_gated_convolution_are_a_token_at_a_time(name: str) -> None:
    """`g_i k_i-j (s_j u_j) W_O` of Hugging Face's module, whose input is each token alone at the norm's own scale."""
    tokens = tiny.tokens("llama", 7)
    model, _ = coverage._bridge_and_logits(name, torch.float64, {}, {"input_ids": tokens[None]})
    block: Any = coverage.build(name, torch.float64, {}).model.layers[0]
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens[None])
        x = block.operator_norm(cache["blocks.0.hook_resid_pre"])
        source, gate, value = block.conv.in_proj(x).chunk(3, dim=-1)
        expected = []
        for key in range(len(tokens)):
            alone = torch.zeros_like(value)
            alone[:, key] = (source * value)[:, key]
            convolved = block.conv.conv(alone.transpose(1, 2))[..., : len(tokens)].transpose(1, 2)
            expected.append(block.conv.out_proj(gate * convolved)[0])
    close(ffb.decompose(model, tokens, layer=0).parts("Attn"), torch.stack(expected, dim=1))
