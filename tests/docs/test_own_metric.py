"""The metric of one's own in the documentation is written outside the package, and every call takes it."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tl_ffblock import Metric, load_model
from tl_ffblock.errors import InputError
from tl_ffblock.metrics import run_by_run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "patching.md"
CLEAN, CORRUPTED = "When Mary and John went to the store , John", "When Mary and John went to the store , Mary"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What there is after the page's example, run as a file of the reader's own."""
    block = PAGE.read_text(encoding="utf-8").partition("### A metric of your own")[2].partition("```python\n")[2]
    code = block.partition("```")[0]
    assert len(code.splitlines()) <= 20 and not re.search(r"(?m)^(from|import) tests", code)
    folder = tmp_path_factory.mktemp("own")
    model = load_model(str(tiny.save_local("gpt2", folder, (CLEAN, CORRUPTED), num_hidden_layers=10)))
    names = {"model": model, "clean": CLEAN, "corrupted": CORRUPTED, "__name__": "own_metric"}
    exec(compile(code, str(folder / "own_metric.py"), "exec"), names)
    return names


def test_every_call_takes_it(names: dict[str, Any]) -> None:
    """By its name; what a sweep and an attribution say is what the metric says of runs by hand."""
    model, metric, run = names["model"], names["Margin"](), names["ffb"].Contributions(names["model"], CLEAN)
    assert metric.name == names["margins"].metric == names["validated"].metric == "Margin"
    hook = run.subtract(9, "AtbLnFf", query=-1, key=2)
    with torch.no_grad():
        by_hand = metric(model.run_with_hooks(run.tokens, fwd_hooks=[hook]))
    torch.testing.assert_close(names["margins"].values[0, 0, 2], by_hand[0], rtol=1e-4, atol=1e-5)
    whole = float(metric(run.logits)[0].detach())
    assert float(names["attributed"].value) == pytest.approx(whole, rel=1e-4)
    assert names["estimated"].target.startswith("Margin")


def test_runs_of_a_batch_are_read_one_by_one_where_it_gives_one_number() -> None:
    """And what is neither one number nor one per run is refused with its shape."""

    class Mean(Metric):
        def __call__(self, logits: Tensor) -> Tensor:
            return logits[:, -1, 0].mean()

    class Rows(Metric):
        name = "rows"

        def __call__(self, logits: Tensor) -> Tensor:
            return logits[:, -1]

    logits = torch.randn(3, 2, 4)
    assert torch.equal(run_by_run(Mean(), logits), logits[:, -1, 0])
    with pytest.raises(InputError, match=r"rows gave a tensor of shape \(3, 4\)"):
        run_by_run(Rows(), logits)
