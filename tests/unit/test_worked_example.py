"""The page of the optimised implementation, `tl_ffblock/layer/fast/README.md`: its code runs and prints its numbers."""

import doctest
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tl_ffblock.layer.activations import recognise
from tl_ffblock.layer.records import AttentionWeights, Block, FeedForward, LayerRecord, Norm

PAGE = Path(__file__).resolve().parents[2] / "tl_ffblock" / "layer" / "fast" / "README.md"


def tensor(*rows: Any) -> Tensor:
    """Numbers in float64."""
    return torch.tensor(rows, dtype=torch.float64)


@pytest.fixture
def example() -> Any:
    """The page's layer: pre-LN with RMSNorm and ReLU, 3 tokens, 2 heads, d_head 1, d_model 2, d_mlp 3, run the plain way."""
    x = tensor([1, 0], [0, 2], [1, 1])
    pattern = tensor([[1, 0, 0], [0.5, 0.5, 0], [0.2, 0.3, 0.5]], [[1, 0, 0], [0.2, 0.8, 0], [0.5, 0.25, 0.25]])
    value = tensor([[1], [2]], [[3], [-1]], [[-2], [1]])
    w_o, b_o = tensor([[1, 2]], [[2, -1]]), tensor(0.1, -0.1)
    w_in, b_in = tensor([1, 0, -1], [0, 1, 1]), tensor(0.5, -0.5, 3)
    w_out, b_out = tensor([1, 0], [0, 1], [1, 1]), tensor(0.1, 0.2)
    norm, norm_after = (Norm(tensor(*gain), torch.zeros_like(x[0]), 1e-5, centred=False) for gain in ([2, 1], [1, 3]))

    attention = torch.einsum("hij,jhe,hed->id", pattern, value, w_o) + b_o
    atb = x + attention
    normed = torch.nn.functional.rms_norm(atb, (2,), norm.gain, norm.eps)
    pre = normed @ w_in + b_in
    post = pre.relu()
    out = post @ w_out + b_out
    last = torch.nn.functional.rms_norm(atb + out, (2,), norm_after.gain, norm_after.eps)
    whole = dict(Attn=attention, Atb=atb, AtbLn=normed, AtbLnFf=out, AtbLnFfRes=atb + out, AtbLnFfResLn=last)
    block = Block(
        layer=0,
        order="pre_ln",
        causal=True,
        # The values are given; of what made them it counts only that there is no constant in them.
        attention=AttentionWeights(w_o, b_o, torch.zeros(2, 2, 1, dtype=x.dtype), torch.zeros(2, 1, dtype=x.dtype)),
        feed_forward=FeedForward(w_in, b_in, w_out, b_out, recognise(torch.relu, "here")),
        ff_norm=norm,
        out_norm=norm_after,
    )
    return LayerRecord(block, torch.arange(3), x, pattern, value, pre, None, post, whole)


@pytest.fixture
def printed_as_on_the_page() -> Iterator[None]:
    """Two digits, as the page sets them in its first lines; what others print is as before."""
    yield
    torch.set_printoptions(profile="default")


@pytest.mark.usefixtures("printed_as_on_the_page")
def test_the_page_prints_what_stands_on_it(example: Any) -> None:
    """Every code line of the page, run in order on the example, prints the numbers below it."""
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))
    page = doctest.DocTestParser().get_doctest(code, {"record": example}, PAGE.name, str(PAGE), 0)
    assert len(page.examples) > 20
    runner.run(page, out=report.append)
    assert not report, "".join(report)
