"""Vision-language and audio-language models: decoders of text that read an image or sound as further tokens."""

from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import oracle, towers

EXACT = [name for name in towers.READS if name not in towers.REFUSED]
WITHOUT_ORACLE = ("Glm4v",)


@pytest.fixture(params=EXACT)
def reader(request: pytest.FixtureRequest) -> str:
    """Every architecture that is exact with an image or sound."""
    return str(request.param)


@pytest.mark.parametrize("with_image", [False, True], ids=["text", "image"])
@pytest.mark.parametrize("name", [name for name in EXACT if name not in WITHOUT_ORACLE])
def test_maps_are_those_of_a_slow_computation(name: str, with_image: bool) -> None:
    """On Hugging Face's own modules: one vector per source token, image tokens included, with its patterns and norm scales."""
    inputs = towers.inputs(name) if with_image else towers.text(name)
    maps = ffb.contribution_maps(towers.bridge(name, torch.float64), inputs)[0]
    media = {key: value for key, value in inputs.items() if key != "input_ids"}
    expected = oracle.oracle_maps(towers.hf_model(name, torch.float64), inputs["input_ids"], **media)
    for layer in maps.layers:
        for scope in maps.scopes:
            norms = expected[f"L{layer}.{scope}"][:, :-1]
            assert (maps[scope, layer] - norms).abs().max() < 2e-6 * norms.max(), (layer, scope)


def test_an_attribution_sums_to_the_logit_and_the_gradient_rule_is_autograds(reader: str) -> None:
    """With an image. Tokens and features after layers have the derivatives of Hugging Face's own model, by autograd."""
    inputs, hf = towers.inputs(reader), towers.hf_model(reader, torch.float64)
    entered, left, answer = autograd(hf, towers.wide(inputs))
    target = int(answer[-1].argmax())
    answer[-1, target].backward()
    shares = [(x * x.grad).sum(dim=-1)[0] for x in entered]
    bridge = towers.bridge(reader, torch.float64)
    by_path, by_gradient = (
        ffb.attribute(bridge, inputs, target, rules=rules, of=(), progress=False)[0] for rules in ("path", "gradient")
    )
    assert by_path.value == pytest.approx(float(answer[-1, target]), rel=1e-6)
    assert by_path.total() == pytest.approx(by_path.value, rel=1e-5)
    size = shares[0].abs().max()
    assert (by_gradient.token_attributions - shares[0]).abs().max() < 1e-5 * size
    assert (by_gradient.residual[:-1] - torch.stack(shares)).abs().max() < 1e-5 * size
    named = dict(zip(by_gradient.bias_names, by_gradient.bias_shares, strict=True))
    features = {
        f"blocks.{layer}.deepstack": ((after - before) * after.grad).sum(dim=-1)[0]
        for layer, (before, after) in enumerate(zip(left, entered[1:], strict=False))
        if not torch.equal(before, after)
    }
    assert {name for name in named if name.endswith("deepstack")} == features.keys()
    assert bool(features) == reader.startswith("Qwen3VL")
    for name, expected in features.items():
        assert (named[name] - expected).abs().max() < 1e-5 * size


def autograd(hf: Any, inputs: dict[str, Tensor]) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Inputs and outputs of the layers of text with gradients, and logits [pos d_vocab]."""
    entered: list[Tensor] = []
    left: list[Tensor] = []
    text = hf.base_model
    text = getattr(text, "language_model", getattr(text, "text_model", text))

    def enter(_: Any, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = args[0] if args[0].requires_grad else args[0].requires_grad_()
        x.retain_grad()
        entered.append(x)
        return (x, *args[1:])

    for layer in text.layers:
        layer.register_forward_pre_hook(enter)
        layer.register_forward_hook(lambda _, __, out: left.append(out if isinstance(out, Tensor) else out[0]))
    return entered, left, hf(**inputs).logits[0]
