"""The metric of one's own in the documentation is written outside the package, and every call takes it."""

from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.docs.test_code_blocks import blocks
from tl_ffblock import Metric
from tl_ffblock.errors import InputError
from tl_ffblock.metrics import run_by_run

CLEAN = "When Mary and John went to the store, John gave a drink to"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What there is after the page's example, run as a file of the reader's own."""
    code = blocks("how_to/extend.md")[0]
    folder = tmp_path_factory.mktemp("own")
    model = ffb.load_model(str(tiny.save_local("gpt2", folder, (CLEAN.replace(" ", "  "),), num_hidden_layers=10)))
    names: dict[str, Any] = {"__name__": "own_metric"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ffb, "load_model", lambda _: model)
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
