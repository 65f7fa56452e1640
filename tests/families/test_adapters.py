"""Adapters as peft's: a linear module that adds to its base and shows the base's weight gives the merged model's results."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from tests import tiny
from tl_ffblock.bridge import linears
from tl_ffblock.errors import FFBlockError, UnsupportedModelError

FAMILIES = ("gpt2", "llama", "bert", "gemma2")
A, B = tiny.tokens("gpt2", 8), tiny.tokens("gpt2", 8, seed=1)
SCALE = 0.5


class Lora(nn.Module):
    """`base(x) + scaling B A x`, wrapped as peft does: whoever asks for weight and bias sees the base's."""

    def __init__(self, base: nn.Module, seed: int, rank: int = 4) -> None:
        super().__init__()
        weight = base.get_parameter("weight")
        d_in, d_out = weight.shape if isinstance(base, Conv1D) else weight.shape[::-1]
        drawn = torch.randn(rank, d_in + d_out, generator=torch.Generator().manual_seed(seed)).to(weight) / 4
        self.base_layer, self.in_features, self.out_features = base, d_in, d_out
        self.down, self.up = nn.Parameter(drawn[:, :d_in].clone()), nn.Parameter(drawn[:, d_in:].clone())
        self.scaling, self.active = SCALE, True

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


def numbers(result: Any) -> Iterator[Tensor]:
    """Every number that a result holds."""
    if isinstance(result, Tensor | np.ndarray | float | int):
        yield torch.as_tensor(result).double()
    elif isinstance(result, Mapping):
        for value in result.values():
            yield from numbers(value)
    elif isinstance(result, list | tuple):
        for value in result:
            yield from numbers(value)
    elif dataclasses.is_dataclass(result) and type(result).__name__ not in ("Certificate", "NodeReading"):
        for field in dataclasses.fields(result):
            if field.name not in ("completeness", "certificate"):
                yield from numbers(getattr(result, field.name))


def equal(first: Any, second: Any) -> bool:
    """Whether two results hold the same numbers: float64, rotary tables and RMSNorm float32 in both."""
    found, expected = list(numbers(first)), list(numbers(second))
    assert found
    if [a.shape for a in found] != [b.shape for b in expected]:
        return False
    pairs = list(zip(found, expected, strict=True))
    sizes = [1e-9 + 1e-7 * float(b.nan_to_num().abs().max()) if b.numel() else 0 for _, b in pairs]
    return all(
        torch.allclose(a, b, rtol=1e-7, atol=size, equal_nan=True) for (a, b), size in zip(pairs, sizes, strict=True)
    )


def target(ffb: ModuleType) -> Any:
    return ffb.logit(7, at=3)


CALLS: dict[str, Callable[[ModuleType, Any], Any]] = {
    "maps": lambda ffb, m: ffb.contribution_maps(m, A, heads=True),
    "value-weighted": lambda ffb, m: ffb.attention_maps(m, A, kind="value-weighted"),
    "scores": lambda ffb, m: ffb.attention_scores(m, A),
    "path": lambda ffb, m: ffb.attribute(m, A, target(ffb)),
    "patching rules": lambda ffb, m: ffb.attribute(m, A, target(ffb), rules="patching"),
    "gradient": lambda ffb, m: ffb.attribute(m, A, target(ffb), rules="gradient"),
    "patching": lambda ffb, m: ffb.attribution_patching(m, A, B, target(ffb), maps=True, edges=True),
    "value tokens": lambda ffb, m: ffb.memories.value_tokens(m, memories=["1:3", "0:5"]),
    "direction": lambda ffb, m: ffb.memories.value_tokens(m, memories=["1:3", "0:5"], reading="direction"),
    "card": lambda ffb, m: ffb.memories.memory_card(m, [A, B], "1:7", k=2),
    "parts": lambda ffb, m: ffb.memories.token_parts(m, A, ["1:3", "0:5"]),
    "flow": lambda ffb, m: ffb.flow_graph(m, A, layers=(0, 1), target=7, rtol=1e-5),
}
"""What reads weights, each as a call on a model."""
CASES = [(family, call) for family in FAMILIES for call in CALLS if (family, call) != ("gemma2", "scores")]
"""Gemma-2 caps its scores, so that they are no products."""


@functools.cache
def model_of(family: str, kind: str) -> Any:
    """A bridge without adapters, with adapters merged, or with them put in before or after a first call of everything."""
    import tl_ffblock

    model = bridge(family)
    if kind == "after":
        for other, call in CASES:
            if other == family:
                CALLS[call](tl_ffblock, model)
    if kind != "plain":
        adapt(model, merge=kind == "merged")
    return model


@functools.cache
def result_of(family: str, kind: str, call: str) -> list[Tensor]:
    import tl_ffblock

    return list(numbers(CALLS[call](tl_ffblock, model_of(family, kind))))


def bridge(family: str, **options: Any) -> Any:
    return tiny.bridge(family, dtype=torch.float64, **options)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("family", "call"), CASES)
def test_adapters_give_what_the_merged_model_gives(family: str, call: str, when: str) -> None:
    result = result_of(family, when, call)
    assert equal(result, result_of(family, "merged", call))
    assert not equal(result, result_of(family, "plain", call)), "the adapters change nothing that this call reads"


@pytest.mark.parametrize("family", FAMILIES)
def test_each_linear_module_by_itself(family: str, ffb: ModuleType) -> None:
    """Effective weights of one module are not another's: every role alone, in every layer."""
    for role in ("attn.q", "attn.k", "attn.v", "attn.o", "mlp.gate", "mlp.in", "mlp.out", "unembed"):
        model, expected = bridge(family), bridge(family)
        if adapt(model, (role,)):
            adapt(expected, (role,), merge=True)
            assert all(role in name for name in linears.adapted_linears(model))
            for call in ("maps", "path", "direction", "flow"):
                assert equal(CALLS[call](ffb, model), CALLS[call](ffb, expected)), (role, call)


@pytest.mark.parametrize("family", FAMILIES)
def test_adapters_in_the_hugging_face_model_before_the_bridge_is_made(family: str, ffb: ModuleType) -> None:
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    models = []
    for merge in (False, True):
        hf: Any = tiny.hf_model(family, dtype=torch.float64)
        places = [
            (parent, name)
            for parent in hf.modules()
            for name, child in parent.named_children()
            if isinstance(child, nn.Linear | Conv1D)
            and (name not in ("c_attn", "lm_head", "decoder") or (family, name) == ("llama", "lm_head"))
        ]
        for seed, (parent, name) in enumerate(places):
            lora = Lora(getattr(parent, name), seed)
            setattr(parent, name, lora.merged() if merge else lora)
        models.append(build_bridge_from_module(hf, tiny.ALL_FAMILIES[family].architecture, hf_config=hf.config).eval())
    for call in ("maps", "path", "flow", "value tokens"):
        assert equal(CALLS[call](ffb, models[0]), CALLS[call](ffb, models[1]))
    assert ffb.bridge.model.identify(models[0]).memory.difference < 1e-5  # Hugging Face's runs them, too


def test_a_scale_that_is_no_number_of_the_module_is_part_of_the_fingerprint() -> None:
    """As peft's, which lies in a dictionary: what the adapter does is digested, and not what it is made of."""
    from tl_ffblock.bridge.model import identify

    model = tiny.bridge("gpt2")
    plain = identify(model).fingerprint
    adapters = adapt(model)
    found = [plain]
    for scale in (SCALE, 2 * SCALE):
        for lora in adapters:
            lora.scaling = torch.tensor(scale)  # type: ignore[assignment]
        found.append(identify(model).fingerprint)
    assert len(set(found)) == 3


def test_an_adapter_that_is_switched_off_scaled_or_trained_is_another_model(ffb: ModuleType) -> None:
    model, base = bridge("llama"), bridge("llama")
    put = adapt(model)
    with_adapters = ffb.contribution_maps(model, A)
    for lora in put:
        lora.active = False
    assert equal(ffb.contribution_maps(model, A), ffb.contribution_maps(base, A))
    for lora in put:
        lora.active, lora.scaling = True, 2 * SCALE
    expected = bridge("llama")
    adapt(expected, merge=True, scaling=2 * SCALE)
    assert equal(CALLS["patching"](ffb, model), CALLS["patching"](ffb, expected))
    for lora in put:
        lora.scaling = SCALE
        lora.up.data.mul_(2)  # unseen by the version of the parameter
    assert equal(CALLS["flow"](ffb, model), CALLS["flow"](ffb, expected))
    assert not equal(with_adapters, ffb.contribution_maps(model, A))


def test_results_of_a_fine_tuned_model_and_its_base_subtract(ffb: ModuleType) -> None:
    model, base = bridge("gpt2"), bridge("gpt2")
    adapt(model)
    tuned, before = ffb.contribution_maps(model, A), ffb.contribution_maps(base, A)
    change = (tuned - before)["AtbLnFf", 1]
    assert change.abs().max() > 1e-3
    torch.testing.assert_close(change, tuned["AtbLnFf", 1] - before["AtbLnFf", 1])
    tuned, before = (ffb.attribute(each, A, target(ffb)) for each in (model, base))
    torch.testing.assert_close((tuned - before).tokens, tuned.tokens - before.tokens)


def test_adapters_on_a_shared_expert(ffb: ModuleType) -> None:
    models = [bridge("qwen2_moe"), bridge("qwen2_moe")]
    for model, merge in zip(models, (False, True), strict=True):
        for seed, block in enumerate(model.blocks):
            shared = linears.unwrapped(linears.unwrapped(block.mlp).shared_expert)
            for name in linears.SHARED_EXPERT:
                lora = Lora(getattr(shared, name), seed)
                setattr(shared, name, lora.merged() if merge else lora)
    assert len(linears.adapted_linears(models[0])) == 6
    for call in ("maps", "path"):
        assert equal(CALLS[call](ffb, models[0]), CALLS[call](ffb, models[1]))


@pytest.mark.parametrize("family", [*FAMILIES, "gpt_neox", "phi3", "qwen2_moe"])
def test_plain_linear_modules_are_not_called(family: str, ffb: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.bridge(family)
    ffb.contribution_maps(model, A)
    assert linears.adapted_linears(model) == {}

    def refuse(*_: Any) -> Any:
        raise AssertionError("a plain linear module was called to read its weight")

    monkeypatch.setattr(nn.Linear, "__call__", refuse, raising=False)
    monkeypatch.setattr(Conv1D, "__call__", refuse, raising=False)
    ffb.bridge.model.identify(model)
    for layer in range(2):
        ffb.bridge.model.identify(model).layers[layer].read(torch.float32)


def test_what_an_adapter_acts_with_is_read_once(ffb: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_callback_that_only_reads_makes_no_adapter_and_one_that_adds_makes_one(ffb: ModuleType) -> None:
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


def test_identities_are_checked_again_when_an_adapter_came(ffb: ModuleType) -> None:
    model = bridge("llama")
    ffb.contribution_maps(model, A)
    adapt(model, ("blocks.1.mlp.in",))
    model.blocks[0].attn.o.register_forward_hook(lambda _, args, y: 1.1 * y)  # on the component: no weight has it
    with pytest.raises(FFBlockError, match="layer 0"):
        ffb.contribution_maps(model, A)


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


@pytest.mark.parametrize(("kind", "said"), [(Bent, "not a linear form"), (Noisy, "other numbers at every call")])
@pytest.mark.parametrize("first", [True, False])
def test_adapters_without_a_weight_are_refused(kind: type[Lora], said: str, first: bool, ffb: ModuleType) -> None:
    model = bridge("llama")
    if not first:
        CALLS["value tokens"](ffb, model)
    component = model.blocks[1].mlp.out
    component._modules["_original_component"] = kind(component.original_component, 0)
    for call in ("maps", "value tokens", "flow"):
        with pytest.raises(UnsupportedModelError, match=said) as refused:
            CALLS[call](ffb, model)
        assert kind.__name__ in str(refused.value)
        assert "blocks.1.mlp.out" in str(refused.value)


def test_a_module_that_does_not_say_its_width_is_refused(ffb: ModuleType) -> None:
    model = bridge("llama")
    (lora,) = adapt(model, ("blocks.1.mlp.out",))
    del lora.in_features
    with pytest.raises(UnsupportedModelError, match=r"Lora.*in_features"):
        ffb.contribution_maps(model, A)


def test_a_module_without_parameters_is_refused(ffb: ModuleType) -> None:
    model = bridge("llama")
    model.blocks[1].mlp.out._modules["_original_component"] = nn.Identity()
    with pytest.raises(UnsupportedModelError, match=r"blocks\.1\.mlp\.out: a Identity without parameters"):
        ffb.contribution_maps(model, A)


def test_an_adapter_of_nan_is_refused_as_any_weight_of_nan(ffb: ModuleType) -> None:
    model, plain = bridge("llama"), bridge("llama")
    (lora,) = adapt(model, ("blocks.1.mlp.out",))
    lora.up.data[0, 0] = float("nan")
    plain.blocks[1].mlp.out.original_component.weight.data[0, 0] = float("nan")
    said = []
    for each in (model, plain):
        with pytest.raises(FFBlockError) as refused:
            ffb.contribution_maps(each, A)
        said.append(str(refused.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("family", "name"), [("gpt2", "attn.qkv"), ("gpt_neox", "attn.qkv"), ("phi3", "mlp.gate_up_proj")]
)
def test_an_adapter_that_the_bridge_does_not_run_is_refused(
    family: str, name: str, first: bool, ffb: ModuleType
) -> None:
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
