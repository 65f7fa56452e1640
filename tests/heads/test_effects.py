"""Effects of heads: runs edited by hand, finite differences, and Euler's identity."""

from typing import Any, Literal

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
def test_ablation_is_a_run_with_the_head_replaced(model: Any, replacement: heads.HeadReplacement, hooked: bool) -> None:
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


VECTOR = torch.linspace(-1, 1, tiny.D_MODEL, dtype=torch.float64)


def projected(model: Any, layer: int, at: int | str, hooks: Any = ()) -> float:
    """What the residual stream at a layer's input says along the vector, by a callback at the output of the layer before."""
    seen: list[Any] = []
    read = (f"blocks.{layer - 1}.hook_out", lambda stream, hook: seen.append(stream[0].detach()))
    model.run_with_hooks(model.to_tokens(TEXT), fwd_hooks=[*hooks, read])
    return float((seen[0].mean(dim=0) if at == "mean" else seen[0][at]) @ VECTOR)


@pytest.mark.parametrize(("layer", "at"), [(1, 3), (2, "mean")])
def test_a_direction_needs_no_language_model_head(model: Any, layer: int, at: int | Literal["mean"]) -> None:
    """Ablation and gradients of `<vector, stream>`, at one position and of the mean that sentence encoders pool: edited runs."""
    target, n_heads, step = ffb.direction(VECTOR, layer=layer, at=at), model.cfg.n_heads, 1e-2
    effects = heads.ablation_effects(model, TEXT, target)
    gradients = heads.attention_gradients(model, TEXT, target)
    assert gradients.values[:layer].any() and not gradients.values[layer:].any()
    assert (effects[layer:].abs() < 1e-12).all()  # batches of other shapes round otherwise
    with ffb.capture(model) as records:
        model(model.to_tokens(TEXT))
    value = records[0].sequence(0).head_values[2, 1]

    def edited(change: Any) -> float:
        def edit(z: Any, hook: Any) -> Any:
            by_head = z.clone().reshape(*z.shape[:2], n_heads, -1)
            change(by_head)
            return by_head.reshape(z.shape)

        return projected(model, layer, at, [("blocks.0.attn.hook_z", edit)])

    without = edited(lambda z: z[:, :, 1].zero_()) - projected(model, layer, at)
    assert float(effects[0, 1]) == pytest.approx(without, rel=1e-4, abs=1e-6)
    more, less = (edited(lambda z, sign=sign: z[0, 3, 1].add_(sign * step * value)) for sign in (1, -1))
    assert float(gradients["head 1", 0][3, 2]) == pytest.approx((more - less) / (2 * step), rel=1e-3, abs=5e-5)


def test_a_mean_over_positions_is_the_mean_of_its_positions(model: Any) -> None:
    """Of the target and of every token's attribution; also beside a shorter prompt, whose padding has no share."""
    n = model.to_tokens(TEXT).shape[1]
    pooled = ffb.attribute(model, TEXT, ffb.direction(VECTOR, layer=-1, at="mean"), of=("maps",))
    single = [ffb.attribute(model, TEXT, ffb.direction(VECTOR, layer=-1, at=at), of=("maps",)) for at in range(n)]
    torch.testing.assert_close(pooled.tokens, torch.stack([one.tokens for one in single]).mean(dim=0))
    both = ffb.attribute(model, [TEXT, "the cat sat"], ffb.direction(VECTOR, layer=-1, at="mean"), of=("maps",))
    torch.testing.assert_close(both[0].tokens, pooled.tokens)
    assert pooled.target == "direction after the last layer, mean over positions"
