"""Effects of heads: runs edited by hand, finite differences, and Euler's identity."""

from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tl_ffblock import heads, load_model, metrics

TEXT = "the cat sat on the mat ."


@pytest.fixture(scope="module", params=["gpt2", "llama", "bert"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tiny model in float64, every parameter perturbed."""
    folder = tiny.save_local(request.param, tmp_path_factory.mktemp(request.param), [TEXT])
    return load_model(str(folder)).double()


def loss_of(model: Any, hooks: Any = ()) -> float:
    """The loss of a run under hooks."""
    tokens = model.to_tokens(TEXT)
    return float(metrics.loss(tokens)(model.run_with_hooks(tokens, fwd_hooks=list(hooks))).detach())


@pytest.mark.parametrize("hooked", [False, True], ids=["plain", "under a hook"])
@pytest.mark.parametrize("replacement", ["zero", "mean"])
def test_ablation_is_a_run_with_the_head_replaced(model: Any, replacement: heads.Replacement, hooked: bool) -> None:
    """Head by head with a hook of TransformerLens at z; the mean is that of what a user's own hook there leaves."""
    n_heads = model.cfg.n_heads
    try:
        if hooked:
            model.hook_dict["blocks.0.attn.hook_z"].add_perma_hook(lambda z, hook: 0.5 * z)
        effects = heads.ablation_effects(model, TEXT, metrics.loss(), replacement=replacement)
        assert effects.shape == (model.cfg.n_layers, n_heads)
        for layer, head in [(0, 0), (0, 1), (1, n_heads - 1)]:

            def put(z: Any, hook: Any, head: int = head) -> Any:
                by_head = z.clone().reshape(*z.shape[:2], n_heads, -1)
                by_head[:, :, head] = by_head[:, :, head].mean(dim=1, keepdim=True) if replacement == "mean" else 0
                return by_head.reshape(z.shape)

            expected = loss_of(model, [(f"blocks.{layer}.attn.hook_z", put)]) - loss_of(model)
            assert float(effects[layer, head]) == pytest.approx(expected, rel=1e-4, abs=1e-6)
    finally:
        model.reset_hooks(including_permanent=True)


def test_a_function_of_all_logits_is_given_one_head_at_a_time(model: Any) -> None:
    """A mean over all that it sees is a run's own number for every head: that of a metric which reads one run at a time."""
    token = int(model.to_tokens(TEXT)[0, 2])
    effects = heads.ablation_effects(model, TEXT, lambda logits: logits[:, -1, token].mean())
    expected = heads.ablation_effects(model, TEXT, metrics.logit(token))
    torch.testing.assert_close(effects, expected, rtol=0, atol=0)
    assert (effects.std(dim=1) > 0).all()


def test_gradients_are_finite_differences(model: Any) -> None:
    """One weight moved a little: what z becomes is `z + step v`, and the loss moves by the step times the gradient."""
    gradients = heads.attention_gradients(model, TEXT, metrics.loss())
    assert gradients.signed and gradients.kind == "gradient of loss along attention"
    assert gradients.channels == tuple(f"head {head}" for head in range(model.cfg.n_heads))
    assert not gradients.values[..., ~gradients.reachable()].any()
    with ffb.capture(model) as records:
        model(model.to_tokens(TEXT))
    n_heads, step = model.cfg.n_heads, 1e-2  # Hugging Face rounds RMSNorm to float32: smaller steps drown in 1e-7
    for layer, head, query, key in [(0, 1, 4, 2), (1, 0, 3, 3)]:
        value = records[layer].sequence(0).head_values[key, head]

        def moved(sign: float, layer: int = layer, head: int = head, query: int = query, value: Any = value) -> float:
            def add(z: Any, hook: Any) -> Any:
                by_head = z.clone().reshape(*z.shape[:2], n_heads, -1)
                by_head[0, query, head] += sign * step * value
                return by_head.reshape(z.shape)

            return loss_of(model, [(f"blocks.{layer}.attn.hook_z", add)])

        expected = (moved(1) - moved(-1)) / (2 * step)
        assert float(gradients[f"head {head}", layer][query, key]) == pytest.approx(expected, rel=1e-3, abs=5e-5)
