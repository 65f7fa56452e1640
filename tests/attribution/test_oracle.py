"""Forward vectors through all layers, written anew, against the backward pass; the gradient against autograd."""

from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.attribution.conftest import DIFFERENCE, double
from tests.cases import Case, bridge_of, model_of
from tl_ffblock.errors import CaptureError, ScopeKeyError

N = 5


@pytest.mark.usefixtures("float64_throughout")
def test_the_last_layers_heads_and_neurons_are_direct_logit_attribution() -> None:
    """In a parallel block both write into the stream that the final norm reads: `(out - mean) gain / scale W_U`."""
    model, tokens = double("gpt_neox"), tiny.tokens("gpt_neox", N)
    result = ffb.attribute(model, tokens, DIFFERENCE)
    with torch.no_grad(), ffb.capture(model, layers=-1) as records:
        model(tokens[None])
    (record,) = (records[layer].sequence(0) for layer in records)
    norm, w_u, w_o = record.block.out_norm, model.unembed.W_U.detach(), record.block.attention.w_o
    stream = record.whole["AtbLnFfRes"][-1]
    scale = ((stream - stream.mean()).square().mean() + norm.eps).sqrt()

    def direct(written: Tensor) -> Tensor:
        return (written - written.mean(-1, keepdim=True)) * norm.gain / scale @ (w_u[:, 7] - w_u[:, 11])

    written = torch.einsum("hk,khe,hed->hkd", record.pattern[:, -1], record.head_values, w_o)
    torch.testing.assert_close(result.edges[-1, :, -1], direct(written), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(result.heads[-1, :, -1], direct(written.sum(1)), rtol=1e-10, atol=1e-12)
    neurons = record.post[-1][:, None] * record.block.feed_forward.w_out
    torch.testing.assert_close(result.neurons(-1)[-1], direct(neurons), rtol=1e-10, atol=1e-12)
    assert not result.neurons(-1)[:-1].any()


@pytest.mark.parametrize(
    "family", ["gpt2", "llama", "gemma2", "bert", "mixtral", "granite", "ernie4_5_moe", "glm4_moe", "minimax_m2"]
)
def test_gradient_is_autograds(family: str) -> None:
    """Gradient x input of the residual stream and of neurons, by autograd through the model as it is."""
    model, tokens = double(family), tiny.tokens(family, N)
    result = ffb.attribute(model, tokens, DIFFERENCE, rules="gradient")
    with ffb.capture(model) as records:
        target = DIFFERENCE(model(tokens[None])).sum()
    sites = [records[layer].resid_pre for layer in records]
    gradients = torch.autograd.grad(target, sites, retain_graph=True)
    for row, site, gradient in zip(result.residual, sites, gradients, strict=False):
        torch.testing.assert_close(row, (site * gradient).sum(-1)[0].detach(), rtol=1e-10, atol=1e-12)
    if family not in ("mixtral", "minimax_m2"):  # their first layer has experts
        (gradient,) = torch.autograd.grad(target, records[0].post)
        expected = (records[0].post * gradient).reshape(N, -1).detach()
        torch.testing.assert_close(result.neurons(0), expected, rtol=1e-10, atol=1e-12)


def test_gradient_of_tokens_is_autograds_through_hugging_face(every_family: str) -> None:
    """`<e, df/de>`, e the rows that Hugging Face's own model looks up: whatever the bridge does with its HookPoints."""
    tokens, model = tiny.tokens(every_family, N), tiny.hf_model(every_family)
    looked_up: list[Tensor] = []
    handle = model.get_input_embeddings().register_forward_hook(lambda _, args, rows: looked_up.append(rows))
    logits = model(tokens[None]).logits
    handle.remove()
    (rows,) = looked_up
    (gradient,) = torch.autograd.grad(DIFFERENCE(logits).sum(), rows)
    products = (rows * gradient)[0].detach()
    result = ffb.attribute(model_of(every_family), tokens, DIFFERENCE, rules="gradient")
    torch.testing.assert_close(result.tokens, products.sum(-1), rtol=0, atol=1e-4 * float(products.abs().max()))


def test_gradient_of_biases_of_experts_and_router_is_autograds() -> None:
    """`<b, df/db>` through Hugging Face's gpt_oss, whose experts show no tensor of their insides; a frozen router has none."""
    bridge, tokens, model = bridge_of("gpt_oss"), tiny.tokens("gpt_oss", N), tiny.hf_model("gpt_oss")
    DIFFERENCE(model(tokens[None]).logits).sum().backward()
    result = ffb.attribute(bridge, tokens, DIFFERENCE, rules="gradient")
    for number, layer in enumerate(model.model.layers):
        experts = layer.mlp.experts
        of_gate_up, of_down, of_router = (
            (bias * bias.grad).detach()
            for bias in (experts.gate_up_proj_bias, experts.down_proj_bias, layer.mlp.router.bias)
        )
        expected = {"experts.b_gate": of_gate_up[:, ::2], "experts.b_in": of_gate_up[:, 1::2]}
        for name, products in (expected | {"experts.b_out": of_down, "router.b": of_router}).items():
            found = result.biases[f"blocks.{number}.mlp.{name}"]
            assert found == pytest.approx(float(products.sum()), abs=1e-5 * float(products.abs().sum()))
    frozen = ffb.attribute(bridge, tokens, DIFFERENCE, rules="path").bias_names
    assert set(result.bias_names) - set(frozen) == {f"blocks.{layer}.mlp.router.b" for layer in range(2)}


@pytest.mark.parametrize("family", ["gpt2", "bert", "gemma2", "bloom"])
def test_a_gate_that_never_fired_is_refused(monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    """An embedding that goes past its HookPoint leaves the tokens' gates out, and one that drops what came back leaves them unused."""
    model, tokens = Case(family).fresh(), tiny.tokens(family, N)
    kind = type(model.embed)
    shipped = kind.forward

    def silent(embed: Any, ids: Tensor, *args: Any, **options: Any) -> Tensor:
        return embed.original_component(ids)

    def dropped(embed: Any, ids: Tensor, *args: Any, **options: Any) -> Tensor:
        shipped(embed, ids, *args, **options)
        return embed.original_component(ids)

    monkeypatch.setattr(kind, "forward", silent)
    for rules in ("path", "patching", "gradient"):
        with pytest.raises(CaptureError, match=r"nothing passed embed\.hook_out"):
            ffb.attribute(model, tokens, DIFFERENCE, rules=rules)
    monkeypatch.setattr(kind, "forward", dropped)
    with pytest.raises(CaptureError, match=r"do not depend on the outputs of HookPoints for token"):
        ffb.attribute(model, tokens, DIFFERENCE, rules="gradient")


@pytest.mark.parametrize("family", ["bert", "bloom", "nanochat", "gpt2", "gemma2"])
def test_gradient_before_a_norm_of_embeddings_is_said_to_be_zero(family: str) -> None:
    """By scale invariance: rounding is not ranked; other rules and models without such a norm have shares and are."""
    model, tokens = model_of(family), tiny.tokens(family, N)
    result, path = (ffb.attribute(model, tokens, DIFFERENCE, rules=rules, of=()) for rules in ("gradient", "path"))
    normed = family in ("bert", "bloom", "nanochat")
    said = "gradient x input before a norm of the embeddings is zero by scale invariance"
    assert result.vanishes == normed == (f"no token: {said}" in repr(result)) == (said in result.to_html())
    assert not path.vanishes and "no token" not in repr(path)
    assert ffb.attribute(model, tokens, DIFFERENCE, rules="gradient", rtol=10.0).vanishes == normed


def test_patching_differs_from_path_by_queries_and_keys_alone() -> None:
    """Where a position reads only itself there is no pattern to change: on one token the two are the same."""
    for tokens, same in (([9], True), (tiny.tokens("gpt2", N), False)):
        path, patching = (ffb.attribute(double("gpt2"), tokens, DIFFERENCE, rules=r) for r in ("path", "patching"))
        assert torch.allclose(path.residual, patching.residual, rtol=1e-10, atol=1e-12 if same else 1e-3) == same


@pytest.mark.usefixtures("float64_throughout")
def test_the_masking_estimate_is_masking_in_one_layer_of_attention() -> None:
    """What `ffb.faithfulness` measures when it masks each token, also where a head attends to one token nearly alone."""
    model = tiny.bridge("llama_nobias", dtype=torch.float64, num_hidden_layers=1)
    weights = {
        name.replace("._original_component", "").split(".")[-2]: w
        for name, w in model.original_model.named_parameters()
    }
    weights["down_proj"].data.zero_()
    weights["q_proj"].data.mul_(8.0)
    tokens, vector = tiny.tokens("llama_nobias", N), torch.linspace(-1, 1, model.cfg.d_model, dtype=torch.float64)
    prompts, target = torch.stack([tokens, tokens.flip(0)]), ffb.direction(vector, layer=1)
    results = ffb.attribute(model, prompts, target, of=("masking",))
    measured = ffb.faithfulness(model, prompts, target, {"mine": [each.masking for each in results]}, removal="mask")
    for result, effects in zip(results, measured.effects, strict=True):
        torch.testing.assert_close(result.masking[:-1], effects[:-1], rtol=1e-8, atol=1e-10)
        assert result.masking[:-1].all() and not result.masking[-1]
    assert ffb.attention_maps(model, tokens).values[..., 1:, :].max() > 1 - 1e-6
    with pytest.raises(ScopeKeyError, match="no masking"):
        ffb.attribute(model, tokens, target, of=()).masking  # noqa: B018


@pytest.mark.parametrize("family", ["gpt2", "llama", "gpt_oss", "mixtral"])
def test_the_masking_estimate_sums_what_each_layer_loses_to_first_order_in_z(family: str) -> None:
    """Patterns without one key, made by hooks in one layer at a time, times the gradient by z through autograd."""
    model, tokens = double(family), tiny.tokens(family, N)
    result = ffb.attribute(model, tokens, DIFFERENCE, rules="gradient", of=("masking", "edges", "heads"))
    expected = torch.zeros(N, dtype=torch.float64)
    for layer in range(model.cfg.n_layers):
        outputs: list[Tensor] = []

        def run(key: int | None, layer: int = layer, outputs: list[Tensor] = outputs) -> Tensor:
            def without(pattern: Tensor, hook: object) -> Tensor:
                hidden = pattern.detach().clone()
                hidden[..., [row for row in range(N) if row != key], key] = 0.0
                sink = 1 - pattern.detach().sum(dim=-1, keepdim=True)
                return hidden / (hidden.sum(dim=-1, keepdim=True) + sink)

            def read(z: Tensor, hook: object) -> Tensor:
                outputs.append(z)
                return z

            hooks = [(f"blocks.{layer}.attn.hook_z", read)]
            hooks += [] if key is None else [(f"blocks.{layer}.attn.hook_pattern", without)]
            return model.run_with_hooks(tokens[None], fwd_hooks=hooks)

        (gradient,) = torch.autograd.grad(DIFFERENCE(run(None)).sum(), outputs[0])
        for key in range(N):
            run(key)
            expected[key] += ((outputs[0] - outputs[-1]) * gradient).sum().detach()
    torch.testing.assert_close(result.masking, expected, rtol=1e-6, atol=1e-9)
    together = ffb.attribute(model, tokens, DIFFERENCE, rules="gradient", of=("masking",))
    assert torch.equal(together.masking, result.masking)
