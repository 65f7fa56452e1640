"""Weights that are elsewhere or in another form: a model offloaded by accelerate is the whole model, a quantised one its dequantised self."""

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tl_ffblock as ffb
from tests import tiny
from tests.cases import TL_3, wrapped
from tl_ffblock.bridge import linears
from tl_ffblock.bridge.model import identify
from tl_ffblock.bridge.offloaded import stored_weights
from tl_ffblock.bridge.readout import unembedding
from tl_ffblock.errors import InputError, UnsupportedModelError
from tl_ffblock.result import equal

accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # accelerate's own
    pytest.mark.skipif(TL_3, reason="TransformerLens 3 adds biases to offloaded modules, which are refused"),
]

Calls = dict[str, Callable[[Any, Tensor, Tensor], Any]]
CALLS: Calls = {
    "maps": lambda m, x, _: ffb.contribution_maps(m, x),
    "heads": lambda m, x, _: ffb.contribution_maps(m, x, heads=True, queries=[-1]),
    "path": lambda m, x, _: ffb.attribute(m, x, ffb.logit(7)),
    "path, layers run twice": lambda m, x, _: ffb.attribute(m, x, ffb.logit(7), checkpoint=True),
    "gradient": lambda m, x, _: ffb.attribute(m, x, ffb.logit(7), rules="gradient"),
    "edges": lambda m, x, other: ffb.attribution_patching(m, x, other, ffb.logit(7), edges=True),
    "flow": lambda m, x, _: ffb.flow_graph(m, x),
}


def built(hf: nn.Module, family: str) -> Any:
    return wrapped(hf, tiny.ALL_FAMILIES[family].architecture)


def spread(hf: nn.Module, folder: Path) -> nn.Module:
    """By a device map of CPU and disk: on disk the second layer, and all that is no layer."""
    layers = next(name for name, module in hf.named_modules() if isinstance(module, nn.ModuleList)).split(".")
    holders = {".".join(layers[:depth]) for depth in range(len(layers) + 1)}
    below = [n for n, _ in hf.named_modules() if n and n not in holders and n.rpartition(".")[0] in holders]
    in_memory = {name for name in below if name.rpartition(".")[0] == ".".join(layers) and not name.endswith(".1")}
    places = {name: "cpu" if name in in_memory else "disk" for name in below}
    return accelerate.dispatch_model(hf, places, main_device="cpu", offload_dir=str(folder), force_hooks=True)


OFFLOADED: dict[str, Callable[[nn.Module, Path], Any]] = {
    "CPU memory": lambda hf, _: accelerate.cpu_offload(hf, execution_device="cpu"),
    "disk": lambda hf, folder: accelerate.disk_offload(hf, str(folder), execution_device="cpu"),
    "a device map of both": spread,
}


def offloaded(family: str, how: str, folder: Path) -> Any:
    """A bridge over an offloaded model of a family."""
    hf = tiny.hf_model(family)
    OFFLOADED[how](hf, folder)
    return built(hf, family)


BOTH = "a device map of both"


@pytest.mark.parametrize(
    ("family", "how"), [*(("llama", how) for how in OFFLOADED), ("gpt2", BOTH), ("bert", BOTH), ("mixtral", BOTH)]
)
def test_an_offloaded_model_is_the_whole_model(family: str, how: str, tmp_path: Path) -> None:
    """Every number is the same to the last bit, and so is the fingerprint; afterwards the weights are where they were."""
    model, whole, x, other = (
        offloaded(family, how, tmp_path),
        tiny.bridge(family),
        tiny.tokens(family, 8),
        tiny.tokens(family, 8, 1),
    )
    away = sum(parameter.is_meta for parameter in model.parameters())
    assert away > 5
    assert identify(model).fingerprint == identify(whole).fingerprint
    assert linears.adapted_linears(model) == {}
    for name, call in CALLS.items():
        assert equal(call(model, x, other), call(whole, x, other)), name
    assert torch.equal(unembedding(identify(model)), unembedding(identify(whole)))
    assert torch.equal(identify(model).token_vectors(x), identify(whole).token_vectors(x))
    assert sum(parameter.is_meta for parameter in model.parameters()) == away


def test_prompts_of_an_offloaded_model_are_kept_for_its_weights(tmp_path: Path) -> None:
    """A run in a folder knows the model by its fingerprint, so that the whole model's folder is that of the offloaded one."""
    pytest.importorskip("filelock")
    model, prompts, out = offloaded("llama", BOTH, tmp_path), [[7, 8, 9], [9, 8, 7, 6]], str(tmp_path / "run")
    made = ffb.map_prompts(ffb.contribution_maps, model, prompts, out=out)
    assert made == ffb.Results([ffb.contribution_maps(model, prompt) for prompt in prompts])
    assert ffb.map_prompts(ffb.contribution_maps, tiny.bridge("llama"), prompts, out=out) == made
    other = tiny.bridge("llama")
    other.blocks[1].mlp.out.weight.data.mul_(1.5)
    with pytest.raises(InputError, match=r"model\.weights"):
        ffb.map_prompts(ffb.contribution_maps, other, prompts, out=out)


@pytest.mark.parametrize("how", ["CPU memory", "disk"])
def test_a_weight_without_numbers_is_refused(how: str, tmp_path: Path) -> None:
    """One that was added to a module after it was offloaded, as TransformerLens 3 adds biases."""
    model = offloaded("llama", how, tmp_path)
    down = linears.unwrapped(model.blocks[1].mlp.out)
    down.register_parameter("added", nn.Parameter(torch.empty(3, device="meta")))
    added = next(weight for weight in stored_weights(down) if weight.name == "added")
    assert added.file is None
    with pytest.raises(UnsupportedModelError, match=r"added' has no numbers: .* Use TransformerLens 4"):
        ffb.contribution_maps(model, tiny.tokens("llama", 8))


@pytest.mark.parametrize("how", ["CPU memory", "disk"])
def test_an_edit_of_offloaded_weights_makes_another_model(how: str, tmp_path: Path) -> None:
    """In memory and in a file: what was found out of the old weights is not taken for the new ones."""
    model, whole, x = offloaded("llama", how, tmp_path), tiny.bridge("llama"), tiny.tokens("llama", 8)
    ffb.contribution_maps(model, x)
    down = linears.unwrapped(model.blocks[1].mlp.out)
    kept = next(weight for weight in stored_weights(down) if weight.name == "weight")
    assert (kept.file is None) == (how != "disk")
    new = kept.read().clone() * 1.5
    if kept.file is None:
        kept.read().copy_(new)
    else:
        kept.file.write_bytes(new.numpy().tobytes())
    linears.unwrapped(whole.blocks[1].mlp.out).weight.data.mul_(1.5)
    assert identify(model).fingerprint == identify(whole).fingerprint
    assert equal(ffb.contribution_maps(model, x), ffb.contribution_maps(whole, x))


def test_the_offloaded_bridge_is_compared_with_hugging_faces_own_modules(tmp_path: Path) -> None:
    """And not with itself: what is changed in the bridge outside its HookPoints is noticed."""
    model = offloaded("llama", "CPU memory", tmp_path)
    assert identify(model).memory.difference == 0
    changed = offloaded("llama", "CPU memory", tmp_path)
    block = changed.blocks[1].mlp
    run = block.forward
    vars(block)["forward"] = lambda *args, **named: 1.5 * run(*args, **named)
    with pytest.raises(UnsupportedModelError, match="is not the Hugging Face model"):
        identify(changed)


def test_no_random_copy_of_offloaded_weights(tmp_path: Path) -> None:
    """The copy would keep what it was meant to replace."""
    with pytest.raises(UnsupportedModelError, match="offloaded or quantised"):
        identify(offloaded("llama", "disk", tmp_path)).with_random_weights()


class Adapter(nn.Module):
    """Adds a linear form to a linear module, as LoRA does."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base, self.in_features = base, base.in_features
        generator = torch.Generator().manual_seed(0)
        self.added = nn.Parameter(
            torch.randn(base.out_features, base.in_features, generator=generator).to(base.weight.dtype)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + x @ self.added.T / 9


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_adapter_on_an_offloaded_weight_is_read(dtype: torch.dtype) -> None:
    """In bfloat16 a copy in float32 is read, whose hook has the weights of the whole model and is not copied."""
    base = nn.Linear(16, 12, bias=False).to(dtype)
    expected = base.weight.float() + copy.deepcopy(Adapter(base)).added.float() / 9
    accelerate.cpu_offload(base, execution_device="cpu")
    found = linears.linear_of(Adapter(base), "here")
    assert found is not None and base.weight.is_meta
    torch.testing.assert_close(found.weight.T, expected.detach(), rtol=1e-5, atol=1e-6)


# Quantised weights


class Rounded(Tensor):
    """Eight bits per number and one scale per row, as a tensor that stands for float32 numbers: what torchao makes, in small."""

    integers: Tensor
    scale: Tensor

    @staticmethod
    def __new__(cls, integers: Tensor, scale: Tensor) -> "Rounded":
        return Tensor._make_wrapper_subclass(cls, integers.shape, dtype=scale.dtype, device=integers.device)  # type: ignore[attr-defined]

    def __init__(self, integers: Tensor, scale: Tensor) -> None:
        self.integers, self.scale = integers, scale

    @classmethod
    def of(cls, weight: Tensor) -> "Rounded":
        scale = weight.abs().amax(dim=1, keepdim=True) / 127
        return cls((weight / scale).round().to(torch.int8), scale)

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["integers", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], *_: Any) -> "Rounded":
        return Rounded(inner["integers"], inner["scale"])

    def dequantize(self, *_: Any) -> Tensor:  # type: ignore[override]
        return self.integers.to(self.scale.dtype) * self.scale

    rounds_inputs = False

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is nn.functional.linear:
            x, weight, *bias = args
            if cls.rounds_inputs:
                size = x.abs().amax(dim=-1, keepdim=True) / 127
                x = (x / size).round() * size
            y = (x @ weight.integers.to(x.dtype).T) * weight.scale[:, 0]
            return y if not bias or bias[0] is None else y + bias[0]
        return super().__torch_function__(function, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.ops.aten.detach.default:
            return cls(args[0].integers, args[0].scale)
        raise NotImplementedError(f"{function} of quantised numbers")


class RoundsInputs(Rounded):
    """With inputs in eight bits, too."""

    rounds_inputs = True


def quantise(hf: nn.Module, kind: type[Rounded] = Rounded) -> nn.Module:
    for module in hf.modules():
        if isinstance(module, nn.Linear):
            module.weight = nn.Parameter(kind.of(module.weight.detach()), requires_grad=False)
    return hf


def by_torchao(hf: nn.Module, config: str = "Int8WeightOnlyConfig") -> nn.Module:
    quantisation = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
    quantisation.quantize_(hf, getattr(quantisation, config)())
    return hf


def dequantise(hf: nn.Module) -> nn.Module:
    for module in hf.modules():
        if isinstance(module, nn.Linear) and hasattr(module.weight, "dequantize"):
            module.weight = nn.Parameter(module.weight.dequantize().detach())
    return hf


QUANTISED: dict[str, Callable[[nn.Module], nn.Module]] = {
    "one scale per row": quantise,
    "torchao": by_torchao,
    "torchao's float8": partial(by_torchao, config="Float8WeightOnlyConfig"),
}


@pytest.mark.parametrize(
    ("family", "how"),
    [*(("llama", how) for how in QUANTISED), ("gemma2", "one scale per row"), ("bert", "one scale per row")],
)
def test_a_quantised_model_is_its_dequantised_self(family: str, how: str) -> None:
    """To the rounding of its products; its weights stay quantised."""
    model = built(QUANTISED[how](tiny.hf_model(family)), family)
    whole = built(dequantise(QUANTISED[how](tiny.hf_model(family))), family)
    x, other = tiny.tokens(family, 8), tiny.tokens(family, 8, 1)
    quantised = linears.adapted_linears(model)
    assert len(quantised) >= 8
    for name, call in CALLS.items():
        if name == "flow":
            continue
        found, expected = (call(each, x, other).to_dataframe() for each in (model, whole))
        numbers = expected.select_dtypes("float").columns
        assert found.drop(columns=numbers).equals(expected.drop(columns=numbers)), name
        for column in numbers:
            size = expected[column].abs().max()
            assert (found[column] - expected[column]).abs().max() <= 2e-5 * size, (name, column)
    assert all(linears.dequantised(module) is not None for module in quantised.values())
    assert identify(model).fingerprint != identify(whole).fingerprint


def test_a_scale_is_part_of_a_quantised_model() -> None:
    """Its fingerprint is of integers and scales."""
    model = built(quantise(tiny.hf_model("llama")), "llama")
    before = identify(model).fingerprint
    weight: Any = linears.unwrapped(model.blocks[1].mlp.out).weight
    weight.scale[0] *= 1.5
    assert identify(model).fingerprint != before


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "quantised",
    [
        lambda hf: quantise(hf, RoundsInputs),
        lambda hf: by_torchao(hf, "Int8DynamicActivationInt8WeightConfig"),
    ],
    ids=["inputs per token", "torchao"],
)
def test_a_model_that_rounds_its_inputs_is_refused(
    quantised: Callable[[nn.Module], nn.Module], dtype: torch.dtype
) -> None:
    """It is not linear in them, so no decomposition is its own; weights alone in the same dtype are not refused."""
    hf = quantised(tiny.hf_model("llama", dtype=dtype))
    with pytest.raises(UnsupportedModelError, match=r"blocks\.0\.attn\.q.*rounds its inputs.*Int8WeightOnlyConfig"):
        identify(built(hf, "llama"))
    identify(built(quantise(tiny.hf_model("llama", dtype=dtype)), "llama"))
