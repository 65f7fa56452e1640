"""Shared fixtures."""

import contextlib
import functools
import importlib
import importlib.util
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jaxtyping
import pytest
import torch
from torch import Tensor, nn

from tests import cases, tiny

torch.set_num_threads(1)

FAMILIES = ("gpt2", "llama", "bert")
"""Families of laws that are not functions of a case yet, by their names in `tests.tiny`."""

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


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


@pytest.fixture(params=cases.CASES, ids=str)
def case(request: pytest.FixtureRequest) -> cases.Case:
    """One case after the other, for every law."""
    return request.param


@pytest.fixture(params=cases.EVERY, ids=str)
def any_case(request: pytest.FixtureRequest) -> cases.Case:
    """The same, and every other family as slow tests."""
    return request.param


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    """One family after the other."""
    return request.param


@pytest.fixture(params=cases.slow_beyond(tiny.FAMILIES))
def any_family(request: pytest.FixtureRequest) -> str:
    """Every family that the oracle knows, those that take no code path of their own as slow tests."""
    if cases.TL_3 and request.param in cases.SINCE_4:
        pytest.skip(f"TransformerLens 3: {cases.SINCE_4[request.param]}")
    return request.param


@pytest.fixture(params=cases.slow_beyond(tiny.ALL_FAMILIES))
def every_family(request: pytest.FixtureRequest) -> str:
    """Every family of `tests.tiny`, those that take no code path of their own as slow tests."""
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


@pytest.fixture(scope="session")
def model_of() -> Callable[..., Any]:
    """`cases.model_of`."""
    return cases.model_of


@pytest.fixture(scope="session")
def tokens_of() -> Callable[..., Tensor]:
    """`tokens_of(family, n)`: ids [pos], the same for the same arguments."""
    return tiny.tokens


@pytest.fixture
def float64_throughout(monkeypatch: pytest.MonkeyPatch) -> None:
    """float64 where a model is: Hugging Face casts norms, softmax, gates and recurrences to float32."""
    softmax, to, single = nn.functional.softmax, Tensor.to, Tensor.float

    def kept(self: Tensor, *args: Any, **options: Any) -> Tensor:
        if self.dtype == torch.float64:
            args = tuple(torch.float64 if each is torch.float32 else each for each in args)
            options |= {"dtype": torch.float64} if options.get("dtype") is torch.float32 else {}
        return to(self, *args, **options)

    def of_scores(scores: Tensor, dim: int | None = None, dtype: torch.dtype | None = None, **rest: Any) -> Tensor:
        return softmax(scores, dim=dim, dtype=None if scores.dtype == torch.float64 else dtype, **rest)

    monkeypatch.setattr(Tensor, "to", kept)
    monkeypatch.setattr(Tensor, "float", lambda self: self if self.dtype == torch.float64 else single(self))
    monkeypatch.setattr(nn.functional, "softmax", of_scores)


@pytest.fixture(scope="session")
def callbacks() -> Callable[[nn.Module], dict[str, int]]:
    """`cases.callbacks_of`."""
    return cases.callbacks_of


@pytest.fixture(autouse=True)
def _shared_models_stay_as_they_were() -> Iterator[None]:
    """Whatever a test does, the shared models carry after it the callbacks they were made with."""
    yield
    assert cases.shared_models_as_they_were()


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
