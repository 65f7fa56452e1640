"""Shared fixtures."""

import contextlib
import functools
import importlib
import importlib.util
import os
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import jaxtyping
import pytest
import torch
from torch import Tensor, nn

from tests import oracle, tiny

torch.set_num_threads(1)

FAMILIES = ("gpt2", "opt", "llama", "mistral", "qwen2", "bert")
"""Families by their names in `tests.tiny`: extend this list and every law is tested for more."""

EVERY_FAMILY = tuple(tiny.FAMILIES)
"""All that the library decomposes: the laws that may fail by a family's own weights or wiring are tested for all."""

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")

SINCE_4 = {"roberta": "has no bridge for RoBERTa", "gpt_oss": "shows no router weights of gpt_oss"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--sample N`: one test in N, the same ones every time."""
    parser.addoption("--sample", type=int, default=1, metavar="N", help="run one test in N, chosen by its name")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not in the sample."""
    share = config.getoption("--sample")
    left_out = [item for item in items if zlib.crc32(item.nodeid.encode()) % share]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture(autouse=True)
def _shapes_unchecked_where_they_are_wrong(request: pytest.FixtureRequest) -> Iterator[None]:
    """The step "shapes" checks annotated types and shapes in all tests but those marked `wrong_types`."""
    wrong = request.node.get_closest_marker("wrong_types") is not None
    jaxtyping.config.update("jaxtyping_disable", wrong)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    """One family after the other, for every law."""
    return request.param


@pytest.fixture(params=EVERY_FAMILY)
def any_family(request: pytest.FixtureRequest) -> str:
    """Every family there is, for the laws that depend on how a model is read."""
    if request.param in SINCE_4 and version("transformer-lens").startswith("3."):
        pytest.skip(f"TransformerLens 3 {SINCE_4[request.param]}")
    return request.param


@pytest.fixture(scope="session")
def ffb() -> ModuleType:
    """The package."""
    return importlib.import_module("tl_ffblock")


@pytest.fixture(scope="session")
def script_of() -> Callable[[str], ModuleType]:
    """`script_of(path)`: a script of the repository as a module."""

    @functools.cache
    def load(path: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(Path(path).stem, Path(__file__).resolve().parent.parent / path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@functools.cache
def _model(family: str, dtype: torch.dtype, overrides: tuple[tuple[str, Any], ...]) -> Any:
    model = tiny.bridge(family, dtype=dtype, **dict(overrides))
    _shared.append((model, callbacks_of(model)))
    return model


_shared: list[tuple[Any, dict[str, int]]] = []


def callbacks_of(model: nn.Module) -> dict[str, int]:
    """How many callbacks of any kind a model's HookPoints carry, by name, where they carry any."""
    points = {name: m for name, m in model.named_modules() if type(m).__name__ == "HookPoint"}
    assert points
    found = {name: len(p._forward_hooks) + len(p._forward_pre_hooks) + len(p.fwd_hooks) for name, p in points.items()}
    return {name: number for name, number in found.items() if number}


@pytest.fixture(scope="session")
def model_of() -> Callable[..., Any]:
    """`model_of(family, dtype)`: a tiny model that all tests share; they must leave it as it was."""
    return lambda family, dtype=torch.float32, **overrides: _model(family, dtype, tuple(sorted(overrides.items())))


@pytest.fixture(scope="session")
def tokens_of() -> Callable[..., Tensor]:
    """`tokens_of(family, n)`: ids [pos], the same for the same arguments."""
    return tiny.tokens


@pytest.fixture(scope="session")
def oracle_of() -> Callable[..., dict[str, Tensor]]:
    """`oracle_of(family, n)`: the oracle's maps, of the very run that `model_of(family, float64)` makes."""

    @functools.cache
    def maps(family: str, n: int, value_bias: str = "bias") -> dict[str, Tensor]:
        return oracle.oracle_maps(tiny.hf_model(family), tiny.tokens(family, n), value_bias, patch_float64=False)

    return maps


@pytest.fixture
def float64_throughout(monkeypatch: pytest.MonkeyPatch) -> None:
    """RMSNorm and softmax in float64 where the model is: Hugging Face casts both to float32."""
    import transformers

    def rms_norm(self: nn.Module, x: Tensor) -> Tensor:
        eps = self.eps if hasattr(self, "eps") else self.variance_epsilon
        gain = 1 + self.weight if type(self).__name__.startswith("Gemma") else self.weight
        return gain * x * (x.square().mean(-1, keepdim=True) + eps).rsqrt()

    shipped = nn.functional.softmax

    def softmax(scores: Tensor, dim: int | None = None, dtype: torch.dtype | None = None, **rest: Any) -> Tensor:
        return shipped(scores, dim=dim, dtype=None if scores.dtype == torch.float64 else dtype, **rest)

    model_classes = {family.model_class for family in tiny.FAMILIES.values()} | {
        "Glm4ForCausalLM",
        "GraniteForCausalLM",
    }  # a golden case, frozen autograd
    for model_class in sorted(model_classes):
        module = sys.modules[getattr(transformers, model_class).__module__]
        for name, norm in vars(module).items():
            if name.endswith("RMSNorm"):
                monkeypatch.setattr(norm, "forward", rms_norm)
    monkeypatch.setattr(nn.functional, "softmax", softmax)


@pytest.fixture(scope="session")
def callbacks() -> Callable[[nn.Module], dict[str, int]]:
    """`callbacks(model)`: how many callbacks of any kind its HookPoints carry, by name, where they carry any."""
    return callbacks_of


@pytest.fixture(autouse=True)
def _shared_models_stay_as_they_were() -> Iterator[None]:
    """Whatever a test does, the shared models carry after it the callbacks they were made with."""
    yield
    for model, before in _shared:
        assert callbacks_of(model) == before


@pytest.fixture(scope="session")
def everything_from() -> Callable[[int], bytes]:
    """All that comes out of a pseudo-terminal until its other end is closed; one read gives one write of it, or several."""

    def read(master: int) -> bytes:
        shown = b""
        with contextlib.suppress(OSError):
            while block := os.read(master, 4096):
                shown += block
        return shown

    return read


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Headless Chromium as installed on this machine."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
