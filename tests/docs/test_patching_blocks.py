"""The code blocks of docs/patching.md run one after the other, as they stand."""

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests import tiny

PAGE = Path(__file__).resolve().parents[2] / "docs" / "patching.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
PROMPTS = (
    "When Mary and John went to the store, John gave a drink to",
    "When Mary and John went to the store, Mary gave a drink to",
)


@pytest.fixture
def page(ffb: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """All names of the page after its last block, with a model of random weights and as many layers in place of SmolLM2."""
    model = ffb.load_model(str(tiny.save_local("llama", tmp_path / "model", PROMPTS, num_hidden_layers=30)))
    monkeypatch.setattr(ffb, "load_model", lambda name: {"smollm2": model}[name])
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in BLOCKS:
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def test_the_page_does_what_it_says(page: dict[str, Any], tmp_path: Path) -> None:
    """The page is written, the hook changes the run, the two sweeps agree where both went, and the validation has its layers."""
    assert (tmp_path / "runs.html").stat().st_size > 100_000
    assert page["runs"].repair["AtbLnFfRes", 16].shape == (15, 15)
    assert (page["logits"] - page["clean_run"].logits).abs().max() > 1e-6
    sweep = page["sweep"]
    cells = sweep.values[0, 0, [2, 10]]
    torch.testing.assert_close(page["by_hand"].flatten(), cells, rtol=1e-3, atol=1e-3)
    assert (cells - sweep.baseline).abs().max() > 1e-5
    assert set(page["result"].columns["layer"]) == {5, 15, 25}
