"""Models on a GPU: every public call gives what the CPU gives, and results are kept on the CPU."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import COVERING, bridge_of, wrapped
from tests.tolerances import COMPLETE_FLOAT32, GPU_FLOAT32_WITHIN, GPU_FLOAT64

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

Both = Callable[[str], tuple[Any, Any]]
FORMS = [name for name in COVERING if name != "gpt_oss"]
FLOAT64 = ("gpt2", "bert")
"""Families that are float64 throughout where their weights are."""
ALONE = {
    "openai_gpt": "a padded run of GPT-1 is refused",
    "xglm": "Hugging Face's mask of XGLM overflows in float64 on a GPU",
}
"""Families that are run one sequence at a time here, XGLM in float32."""


@pytest.fixture
def both() -> Both:
    """`both(family)`: the same model on the GPU and on the CPU."""

    def build(family: str) -> tuple[Any, Any]:
        dtype = torch.float32 if family == "xglm" else torch.float64
        return bridge_of(family, dtype=dtype).to("cuda"), bridge_of(family, dtype=dtype)

    return build


def close(on_gpu: Tensor, on_cpu: Tensor, family: str) -> None:
    """Equal up to a share of the largest value."""
    scale = on_cpu.abs().max().clamp(min=1e-9)
    share = GPU_FLOAT64 if family in FLOAT64 else GPU_FLOAT32_WITHIN
    torch.testing.assert_close(on_gpu / scale, on_cpu / scale, rtol=0, atol=share)


def same_maps(on_gpu: Any, on_cpu: Any, family: str) -> None:
    """Maps and biases at every scope."""
    assert on_gpu.scopes == on_cpu.scopes
    for scope in on_cpu.scopes:
        close(on_gpu[scope], on_cpu[scope], family)
        close(on_gpu.bias[scope], on_cpu.bias[scope], family)


def test_maps_of_every_family(both: Both, every_family: str) -> None:
    """A padded batch, or one sequence where the family cannot be padded."""
    tokens = torch.stack([tiny.tokens(every_family, 6), tiny.tokens(every_family, 6, seed=1)])
    mask = None if every_family in ALONE else torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    tokens = tokens[:1] if mask is None else tokens
    on_gpu, on_cpu = (ffb.contribution_maps(model, tokens, attention_mask=mask) for model in both(every_family))
    for gpu, cpu in zip(on_gpu, on_cpu, strict=True):
        same_maps(gpu, cpu, every_family)


@pytest.mark.parametrize("family", FORMS)
def test_float32_is_complete(family: str) -> None:
    """As on the CPU."""
    maps = ffb.contribution_maps(bridge_of(family).to("cuda"), tiny.tokens(family, 6))
    assert maps.worst_completeness()[0] < COMPLETE_FLOAT32


@pytest.mark.parametrize("family", FORMS)
def test_vectors_heads_and_neurons(both: Both, family: str) -> None:
    """Vectors at every scope, maps by head, attention patterns, neurons of the last row."""
    tokens = tiny.tokens(family, 6)
    models = both(family)
    parts = [ffb.decompose(model, tokens, layer=1) for model in models]
    for scope in parts[1].scopes:
        close(parts[0].parts(scope).cpu(), parts[1].parts(scope), family)
    same_maps(*(ffb.contribution_maps(model, tokens, heads=True, layers=[1]) for model in models), family)
    close(*(ffb.attention_maps(model, tokens).values for model in models), family)
    close(*(ffb.neurons(model, tokens, layer=1, query=-1).shares for model in models), family)


@pytest.mark.parametrize("rules", ["path", "patching", "gradient"])
@pytest.mark.parametrize("family", FORMS)
def test_attribution(both: Both, family: str, rules: str) -> None:
    """Tokens, the residual stream and heads; with edges, neurons and signed maps asked for."""
    parts = ["heads", "edges", "neurons", *(["maps"] if rules == "path" else [])]
    target = ffb.logit(7, minus=11)
    gpu, cpu = (ffb.attribute(model, tiny.tokens(family, 6), target, rules=rules, of=parts) for model in both(family))
    for name in ("tokens", "residual", "heads"):
        close(getattr(gpu, name), getattr(cpu, name), family)


@pytest.mark.parametrize("family", FORMS)
def test_interventions(both: Both, family: str) -> None:
    """A sweep over contributions, and maps of a run with hooks."""
    clean, corrupted = tiny.tokens(family, 6), tiny.tokens(family, 6, seed=1)
    models, metric = both(family), ffb.logit_difference(7, 11)
    sweeps = (
        ffb.contribution_sweep(ffb.Contributions(model, clean), metric, scope="Attn", layers=[1], queries=-1)
        for model in models
    )
    close(*(sweep.values for sweep in sweeps), family)
    runs = (ffb.patched_maps(model, clean, corrupted, fwd_hooks=[], layers=[1]) for model in models)
    same_maps(*(run.patched for run in runs), family)


@pytest.mark.parametrize("family", FORMS)
def test_layers_on_two_devices(family: str) -> None:
    """Layers on the GPU and on the CPU: each is decomposed on its own device, the result is on the CPU."""
    accelerate, hf = pytest.importorskip("accelerate"), tiny.hf_model(family)
    inside = {name: "cuda:0" for name, _ in hf.named_children()}
    model = wrapped(accelerate.dispatch_model(hf, inside, force_hooks=True), tiny.ALL_FAMILIES[family].architecture)
    tokens = tiny.tokens(family, 6)
    found, expected = ffb.contribution_maps(model, tokens), ffb.contribution_maps(tiny.bridge(family), tokens)
    assert found[found.scopes[0]].device.type == "cpu"
    for scope in expected.scopes:
        torch.testing.assert_close(found[scope], expected[scope], rtol=1e-2, atol=1e-3)
