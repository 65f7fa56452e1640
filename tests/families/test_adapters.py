"""Adapters as peft's: a linear module that adds to its base and shows the base's weight gives the merged model's results."""

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

import tl_ffblock as ffb
from tests import tiny
from tests.cases import wrapped
from tests.numbers import numbers
from tl_ffblock.bridge import linears
from tl_ffblock.bridge.model import identify
from tl_ffblock.check import check_model
from tl_ffblock.errors import FFBlockError, UnsupportedModelError

FAMILIES = ("gpt2", "llama", "bert", "gemma2")
A, B = tiny.tokens("gpt2", 8), tiny.tokens("gpt2", 8, seed=1)
SCALE = 0.5
TARGET = ffb.logit(7, at=3)


class Lora(nn.Module):
    """`base(x) + scaling B A x`, wrapped as peft does: whoever asks for weight and bias sees the base's."""

    def __init__(self, base: nn.Module, seed: int, rank: int = 4) -> None:
        super().__init__()
        weight = base.get_parameter("weight")
        d_in, d_out = weight.shape if isinstance(base, Conv1D) else weight.shape[::-1]
        drawn = torch.randn(rank, d_in + d_out, generator=torch.Generator().manual_seed(seed)).to(weight) / 4
        self.base_layer, self.in_features, self.out_features = base, d_in, d_out
        self.down, self.up = nn.Parameter(drawn[:, :d_in].clone()), nn.Parameter(drawn[:, d_in:].clone())
        self._held = {"scaling": SCALE, "active": True}  # no number of the module's own, as in peft

    scaling = property(lambda self: self._held["scaling"], lambda self, value: self._held.update(scaling=value))
    active = property(lambda self: self._held["active"], lambda self, value: self._held.update(active=value))

    @property
    def weight(self) -> Tensor:
        """The base's."""
        return self.base_layer.get_parameter("weight")

    @property
    def bias(self) -> Tensor | None:
        """The base's."""
        return getattr(self.base_layer, "bias", None)

    def forward(self, x: Tensor) -> Tensor:
        """The base's output and the adapter's."""
        y: Tensor = self.base_layer(x)
        return y + self.scaling * (x @ self.down.T @ self.up) if self.active else y

    @torch.no_grad()
    def merged(self) -> nn.Module:
        """The base with the adapter's weight added to its own."""
        delta = self.scaling * (self.down.T @ self.up)
        self.weight.add_(delta if isinstance(self.base_layer, Conv1D) else delta.T)
        return self.base_layer


def components(model: Any) -> dict[str, nn.Module]:
    """Every linear component of a bridge's layers that runs, and its unembedding, by name."""
    found = {
        f"blocks.{layer}.{part}.{role}": owner._modules[role]
        for layer, block in enumerate(model.blocks)
        for part, owner in (("attn", block.attn), ("mlp", block.mlp))
        for role in ("q", "k", "v", "o", "gate", "in", "out")
        if role in owner._modules
    }
    return found | {"unembed": model.unembed}


def adapt(model: Any, names: tuple[str, ...] = ("",), *, merge: bool = False, scaling: float = SCALE) -> list[Lora]:
    """Put adapters, or what they merge to, into the components with these words in their names."""
    put = []
    for seed, (name, component) in enumerate(components(model).items()):
        if any(word in name for word in names):
            base = component._modules["_original_component"]
            if name == "unembed":  # tied to the embeddings in some families
                base.weight = nn.Parameter(base.weight.detach().clone())
            lora = Lora(base, seed)
            lora.scaling = scaling
            component._modules["_original_component"] = lora.merged() if merge else lora
            put.append(lora)
    return put


def bridge(family: str) -> Any:
    """In float64, so that little is lost by adding a weight."""
    return tiny.bridge(family, dtype=torch.float64)


def equal(first: Any, second: Any) -> bool:
    """Whether two results hold the same numbers: float64, rotary tables and RMSNorm float32 in both."""
    found, expected = ([table.double() for _, table in numbers(result)] for result in (first, second))
    assert found
    if [a.shape for a in found] != [b.shape for b in expected]:
        return False
    sizes = [1e-9 + 1e-7 * float(b.nan_to_num().abs().max()) if b.numel() else 0 for b in expected]
    close = zip(found, expected, sizes, strict=True)
    return all(torch.allclose(a, b, rtol=1e-7, atol=size, equal_nan=True) for a, b, size in close)


CALLS: dict[str, Callable[[ModuleType, Any], Any]] = {
    "maps": lambda ffb, m: ffb.contribution_maps(m, A, heads=True),
    "value-weighted": lambda ffb, m: ffb.attention_maps(m, A, kind="value-weighted"),
    "scores": lambda ffb, m: ffb.attention_scores(m, A),
    "path": lambda ffb, m: ffb.attribute(m, A, TARGET),
    "patching rules": lambda ffb, m: ffb.attribute(m, A, TARGET, rules="patching"),
    "gradient": lambda ffb, m: ffb.attribute(m, A, TARGET, rules="gradient"),
    "patching": lambda ffb, m: ffb.attribution_patching(m, A, B, TARGET, maps=True, edges=True),
    "value tokens": lambda ffb, m: ffb.memories.value_tokens(m, memories=["1:3", "0:5"]),
    "direction": lambda ffb, m: ffb.memories.value_tokens(m, memories=["1:3", "0:5"], reading="direction"),
    "card": lambda ffb, m: ffb.memories.memory_card(m, [A, B], "1:7", k=2),
    "parts": lambda ffb, m: ffb.memories.token_parts(m, A, ["1:3", "0:5"]),
    "flow": lambda ffb, m: ffb.flow_graph(m, A, layers=(0, 1), target=7, rtol=1e-5),
}
"""What reads weights, each as a call on a model."""


CASES = [(family, call) for family in ("gpt2", "llama") for call in CALLS]
"""BERT has every module by itself below, and every family adapters that were there before the bridge."""


@functools.cache
def model_of(family: str, kind: str) -> Any:
    """A bridge without adapters, with adapters merged, or with them put in before or after a first call of everything."""
    model = bridge(family)
    if kind == "after":
        for call in (call for other, call in CASES if other == family):
            CALLS[call](ffb, model)
    if kind != "plain":
        adapt(model, merge=kind == "merged")
    return model


@functools.cache
def result_of(family: str, kind: str, call: str) -> Any:
    """What a call gives of it."""
    return CALLS[call](ffb, model_of(family, kind))


@pytest.mark.parametrize(("family", "call"), CASES)
def test_adapters_give_what_the_merged_model_gives(family: str, call: str) -> None:
    """Put in before or after a first call; and they change what this call reads."""
    for when in ("before", "after"):
        result = result_of(family, when, call)
        assert equal(result, result_of(family, "merged", call))
        assert not equal(result, result_of(family, "plain", call))


@pytest.mark.parametrize("role", ["attn.q", "attn.k", "attn.v", "attn.o", "mlp.gate", "mlp.in", "mlp.out", "unembed"])
def test_each_linear_module_by_itself(role: str) -> None:
    """Effective weights of one module are not another's: every role alone, in every layer."""
    for family in ("llama", "gpt2" if role == "unembed" else "bert"):
        model, expected = bridge(family), bridge(family)
        if adapt(model, (role,)):
            adapt(expected, (role,), merge=True)
            assert all(role in name for name in linears.adapted_linears(model))
            for call in ("maps", "path", "direction", "flow"):
                assert equal(CALLS[call](ffb, model), CALLS[call](ffb, expected)), (family, call)


@pytest.mark.parametrize("family", [*FAMILIES, "qwen2_moe"])
def test_adapters_in_the_hugging_face_model_before_the_bridge_is_made(family: str) -> None:
    """Also on the linear modules of a shared expert."""
    models = []
    for merge in (False, True):
        hf: Any = tiny.hf_model(family, dtype=torch.float64)
        fused = ("c_attn", "decoder", *(() if family == "llama" else ("lm_head",)))
        places = [
            (parent, name)
            for parent in hf.modules()
            for name, child in parent.named_children()
            if isinstance(child, nn.Linear | Conv1D) and name not in (*fused, "shared_expert_gate")
        ]
        for seed, (parent, name) in enumerate(places):
            lora = Lora(getattr(parent, name), seed)
            setattr(parent, name, lora.merged() if merge else lora)
        models.append(wrapped(hf, tiny.ALL_FAMILIES[family].architecture))
    for call in ("maps", "path") if family == "qwen2_moe" else ("maps", "path", "flow", "value tokens"):
        assert equal(CALLS[call](ffb, models[0]), CALLS[call](ffb, models[1]))
    assert identify(models[0]).memory.difference < 1e-5  # Hugging Face's runs them, too


def test_what_an_adapter_does_is_the_model() -> None:
    """Switched off, scaled (in a dictionary, as peft) or trained unseen by versions it is another; its results and the base's subtract."""
    model, base = bridge("llama"), bridge("llama")
    put, found = adapt(model), [identify(base).fingerprint]
    tuned, before = ffb.contribution_maps(model, A), ffb.contribution_maps(base, A)
    assert (tuned - before)["AtbLnFf", 1].abs().max() > 1e-3
    torch.testing.assert_close((tuned - before)["AtbLnFf", 1], tuned["AtbLnFf", 1] - before["AtbLnFf", 1])
    assert (ffb.attribute(model, A, TARGET) - ffb.attribute(base, A, TARGET)).tokens.any()
    found.append(identify(model).fingerprint)
    for lora in put:
        lora.active = False
    assert equal(ffb.contribution_maps(model, A), before)
    expected = bridge("llama")
    adapt(expected, merge=True, scaling=2 * SCALE)
    for lora in put:
        lora.active, lora.scaling = True, torch.tensor(2 * SCALE)  # type: ignore[assignment]
    found.append(identify(model).fingerprint)
    assert equal(CALLS["patching"](ffb, model), CALLS["patching"](ffb, expected))
    for lora in put:
        lora.scaling = SCALE
        lora.up.data.mul_(2)
    assert equal(CALLS["flow"](ffb, model), CALLS["flow"](ffb, expected))
    assert not equal(tuned, ffb.contribution_maps(model, A)) and len(set(found)) == 3


class Bent(Lora):
    """An adapter that is no linear form."""

    def forward(self, x: Tensor) -> Tensor:
        """With an activation inside."""
        return self.base_layer(x) + torch.relu(x @ self.down.T) @ self.up


class Noisy(Lora):
    """An adapter with noise."""

    def forward(self, x: Tensor) -> Tensor:
        """Functional dropout that no training mode says."""
        return self.base_layer(x) + nn.functional.dropout(x) @ self.down.T @ self.up


def widthless(base: nn.Module, seed: int) -> Lora:
    """An adapter that does not say its width."""
    lora = Lora(base, seed)
    del lora.in_features
    return lora


class InContext(Lora):
    """An adapter that needs what its wrapper passes in a context (peft's Poly)."""

    def forward(self, x: Tensor) -> Tensor:
        """Refused without it."""
        raise ValueError("task_ids should not be None")


REFUSED: dict[str, tuple[Callable[..., nn.Module], str]] = {
    "bent": (Bent, "Bent.*not a linear function"),
    "noisy": (Noisy, "Noisy.*differ between calls"),
    "in a context": (InContext, "InContext cannot be called with an input alone .task_ids should not be None"),
    "without width": (widthless, "Lora.*in_features"),
    "without parameters": (lambda base, seed: nn.Identity(), "Identity has no parameters"),
}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", REFUSED)
def test_adapters_without_a_weight_are_refused(name: str, first: bool) -> None:
    """By the name of their module, by everything that reads weights, when first seen or later."""
    model, (make, said) = bridge("llama"), REFUSED[name]
    if not first:
        CALLS["value tokens"](ffb, model)
    component = model.blocks[1].mlp.out
    component._modules["_original_component"] = make(component.original_component, 0)
    for call in ("maps", "value tokens", "flow"):
        with pytest.raises(UnsupportedModelError, match=said) as refused:
            CALLS[call](ffb, model)
        assert "blocks.1.mlp.out" in str(refused.value)


class Product(torch.autograd.Function):
    """`x W` with another vector-Jacobian product than `g W^T`: wrong in size or in direction, or none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, kind: str) -> Tensor:
        """The product."""
        ctx.weight, ctx.kind = weight, kind
        return x @ weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        """The derivative by x, up to the fault."""
        (g,) = gradients
        by_x = g @ ctx.weight.T
        return {"right": by_x, "scaled": 1.001 * by_x, "turned": by_x.flip(-1)}[ctx.kind], None, None


class Circulant(Lora):
    """An adapter whose backward is not the transpose of its forward (peft's C3A)."""

    kind = "turned"

    def forward(self, x: Tensor) -> Tensor:
        """The base's output and the adapter's."""
        weight = self.scaling * (self.down.T @ self.up)
        if self.kind == "none":
            return self.base_layer(x) + (x.detach() @ weight)
        return self.base_layer(x) + Product.apply(x, weight, self.kind)


@pytest.mark.parametrize("kind", ["right", "turned", "scaled", "none"])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_gradients_are_those_of_the_effective_weight(family: str, kind: str) -> None:
    """Whatever a module's backward gives; and `check_model` says the same as the calls."""
    model, merged = bridge(family), bridge(family)
    adapt(merged, ("attn.o", "attn.v", "mlp.out", "unembed"), merge=True)
    for put in adapt(model, ("attn.o", "attn.v", "mlp.out", "unembed")):
        put.__class__ = type("Circulant", (Circulant,), {"kind": kind})
    names = linears.other_gradients(model)
    assert len(names) == (0 if kind == "right" else len(linears.adapted_linears(model)))
    for rules in ("path", "patching", "gradient"):
        for options in ({}, {"checkpoint": True}):
            found, expected = (ffb.attribute(m, A, TARGET, rules=rules, **options) for m in (model, merged))
            assert equal(found, expected), (rules, options)
    for call in (
        lambda m: ffb.attribution_patching(m, A, B, TARGET),
        lambda m: ffb.attribution_patching(m, A, B, TARGET, edges=True).edges.weights,
        lambda m: ffb.heads.attention_gradients(m, A, TARGET),
        lambda m: ffb.flow_graph(m, A, target=7),
        lambda m: ffb.contribution_maps(m, A),
    ):
        assert equal(call(model), call(merged))
    assert check_model(model, A).ok
    assert not any(module._forward_hooks for module in linears.adapted_linears(model).values())


def test_gradients_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the same weights; not for plain models, and not by calls without gradients."""
    made: list[str] = []
    test = linears._has_other_gradient
    monkeypatch.setattr(linears, "_has_other_gradient", lambda module, name: made.append(name) or test(module, name))
    plain, model = bridge("llama"), bridge("llama")
    (lora,) = adapt(model, ("blocks.1.attn.o",))
    CALLS["path"](ffb, plain)
    ffb.contribution_maps(model, A)
    assert made == []
    for _ in range(2):
        CALLS["path"](ffb, model)
    assert made == ["blocks.1.attn.o"]
    lora.up.data[0, 0] += 1
    CALLS["path"](ffb, model)
    assert len(made) == 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_is_no_other_gradient(dtype: torch.dtype) -> None:
    """Of adapters in half precision."""
    model = tiny.bridge("llama", dtype=dtype)
    adapt(model)
    assert linears.other_gradients(model) == ()


def test_facts_of_inference_mode_serve_gradients() -> None:
    """Effective weights that were read in inference mode."""
    model, merged = bridge("llama"), bridge("llama")
    adapt(model)
    adapt(merged, merge=True)
    linears._fixed_vectors.cache_clear()
    with torch.inference_mode():
        ffb.contribution_maps(model, A)
    assert equal(CALLS["path"](ffb, model), CALLS["path"](ffb, merged))


def test_an_adapter_of_nan_is_refused_as_any_weight_of_nan() -> None:
    """In the same words."""
    model, plain = bridge("llama"), bridge("llama")
    (lora,) = adapt(model, ("blocks.1.mlp.out",))
    lora.up.data[0, 0] = plain.blocks[1].mlp.out.original_component.weight.data[0, 0] = float("nan")
    said = []
    for each in (model, plain):
        with pytest.raises(FFBlockError) as refused:
            ffb.contribution_maps(each, A)
        said.append(str(refused.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("family", [*FAMILIES, "gpt_neox", "phi3", "qwen2_moe"])
def test_plain_linear_modules_are_not_called(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.bridge(family)
    ffb.contribution_maps(model, A)
    assert linears.adapted_linears(model) == {}

    def refuse(*_: Any) -> Any:
        raise AssertionError("a plain linear module was called to read its weight")

    monkeypatch.setattr(nn.Linear, "__call__", refuse, raising=False)
    monkeypatch.setattr(Conv1D, "__call__", refuse, raising=False)
    identify(model)
    for layer in range(2):
        identify(model).layers[layer].read(torch.float32)


def test_what_an_adapter_acts_with_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = bridge("gpt2")
    put = adapt(model, ("blocks.1.attn.o",))
    made: list[str] = []
    read = linears._read
    monkeypatch.setattr(linears, "_read", lambda module, name: made.append(name) or read(module, name))
    for call in ("maps", "path", "flow"):
        CALLS[call](ffb, model)
    assert len(made) == 1
    put[0].up.data[0, 0] += 1
    CALLS["maps"](ffb, model)
    assert len(made) == 2
    monkeypatch.setattr(linears, "KEPT_BYTES", 0)
    put[0].up.data[0, 0] += 1
    CALLS["maps"](ffb, model)
    assert len(made) > 3


def test_the_weight_of_a_half_precision_adapter_is_read_in_float32() -> None:
    base = nn.Linear(16, 12).bfloat16()
    lora = Lora(base, 0)
    found = linears.linear_of(lora, "here")
    assert found is not None
    expected = base.weight.float() + SCALE * (lora.down.float().T @ lora.up.float()).T
    assert found.weight.dtype == torch.float32
    torch.testing.assert_close(found.weight, expected.T.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.bias, base.bias.detach().float())


def test_a_callback_that_only_reads_makes_no_adapter_and_one_that_adds_makes_one() -> None:
    model, expected = bridge("llama"), ffb.contribution_maps(bridge("llama"), A)
    inner = model.blocks[1].attn.o.original_component
    handle = inner.register_forward_hook(lambda *_: None)
    assert list(linears.adapted_linears(model)) == ["blocks.1.attn.o"]
    assert linears.linear_of(inner, "") is None
    assert equal(ffb.contribution_maps(model, A), expected)
    handle.remove()
    inner.register_forward_hook(lambda _, args, y: y + args[0] @ torch.ones_like(inner.weight.T) / 9)
    merged_model = bridge("llama")
    merged_model.blocks[1].attn.o.original_component.weight.data += 1 / 9
    assert equal(CALLS["flow"](ffb, model), CALLS["flow"](ffb, merged_model))


def test_identities_are_checked_again_when_an_adapter_came() -> None:
    model = bridge("llama")
    ffb.contribution_maps(model, A)
    adapt(model, ("blocks.1.mlp.in",))
    model.blocks[0].attn.o.register_forward_hook(lambda _, args, y: 1.1 * y)  # on the component: no weight has it
    with pytest.raises(FFBlockError, match="layer 0"):
        ffb.contribution_maps(model, A)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("family", "name"), [("gpt2", "attn.qkv"), ("gpt_neox", "attn.qkv"), ("phi3", "mlp.gate_up_proj")]
)
def test_an_adapter_that_the_bridge_does_not_run_is_refused(family: str, name: str, first: bool) -> None:
    """Fused projections: what runs are copies of their pieces, without the adapter."""
    model = bridge(family)
    expected = ffb.contribution_maps(model, A) if not first else ffb.contribution_maps(bridge(family), A)
    block = model.blocks[1]
    if name == "attn.qkv":
        lora = Lora(block.attn.qkv.original_component, 0)
        block.attn.qkv._modules["_original_component"] = lora
    else:
        owner = linears.unwrapped(block.mlp)
        owner.gate_up_proj = lora = Lora(owner.gate_up_proj, 0)
    up = lora.up.data.clone()
    lora.up.data.zero_()  # as adapters begin
    assert equal(ffb.contribution_maps(model, A), expected)
    lora.up.data.copy_(up)
    for _ in range(2):
        with pytest.raises(UnsupportedModelError, match=rf"blocks\.1\.{name}.*does not run.*merge_and_unload"):
            ffb.contribution_maps(model, A)
    lora.active = False
    assert equal(ffb.contribution_maps(model, A), expected)
