"""Synthetic layers: random weights and one run of them, computed the plain way."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tl_ffblock.layer.activations import recognise
from tl_ffblock.layer.records import AttentionWeights, Block, FeedForward, LayerRecord, Norm


@pytest.fixture(scope="session")
def make_record() -> Callable[..., Any]:
    """`make_record(order, n=6, gated=False, ...)`: one layer's record of one sequence, whole tensors included."""
    return _make_record


def _make_record(
    order: str = "pre_ln",
    *,
    n: int = 6,
    gated: bool = False,
    rms: bool = False,
    causal: bool = True,
    kv_heads: int = 2,
    row_sum: float = 1.0,
    activation: Callable[[Tensor], Tensor] = nn.functional.gelu,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> Any:
    heads, d_head, d, d_mlp = 4, 5, 12, 20
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int, fan: int = 1) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype) / fan**0.5

    def norm() -> Any:
        return Norm(1 + 0.25 * draw(d), draw(d) * (not rms), 1e-5, centred=not rms)

    def apply(norm: Any, x: Tensor) -> Tensor:
        if rms:
            return nn.functional.rms_norm(x, (d,), norm.gain, norm.eps)
        return nn.functional.layer_norm(x, (d,), norm.gain, norm.shift, norm.eps)

    first, second, after = norm(), norm(), norm()
    w_v, b_v = draw(kv_heads, d, d_head, fan=d), 0.3 * draw(kv_heads, d_head)
    w_o, b_o = draw(heads, d_head, d, fan=heads * d_head), 0.3 * draw(d)
    w_in, b_in, w_out, b_out = draw(d, d_mlp, fan=d), 0.3 * draw(d_mlp), draw(d_mlp, d, fan=d_mlp), 0.3 * draw(d)
    w_gate, b_gate = (draw(d, d_mlp, fan=d), 0.3 * draw(d_mlp)) if gated else (None, None)

    x = 2 * draw(n, d)
    scores = draw(heads, n, n)
    if causal:
        scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -torch.inf)
    pattern = row_sum * scores.softmax(-1)
    source = x if order == "post_ln" else apply(first, x)
    value = torch.einsum("jd,hde->jhe", source, w_v) + b_v
    spread = heads // kv_heads
    attn = torch.einsum("hij,jhe,hed->id", pattern, value.repeat_interleave(spread, dim=1), w_o) + b_o

    def feed(x: Tensor) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
        linear = x @ w_in + b_in
        pre = x @ w_gate + b_gate if gated else linear
        post = activation(pre) * linear if gated else activation(pre)
        return pre, linear if gated else None, post, post @ w_out + b_out

    if order == "post_ln":
        atb = apply(first, x + attn)
        pre, pre_linear, post, out = feed(atb)
        whole = {"Attn": attn, "AttnRes": x + attn, "Atb": atb, "AtbFf": out, "AtbFfRes": out + atb}
        whole["AtbFfResLn"] = apply(after, out + atb)
        norms = {"mid_norm": first, "out_norm": after}
    else:
        atb = x + attn
        normed = apply(second, atb)
        pre, pre_linear, post, out = feed(normed)
        whole = {"Attn": attn, "Atb": atb, "AtbLn": normed, "AtbLnFf": out, "AtbLnFfRes": out + atb}
        whole["AtbLnFfResLn"] = apply(after, out + atb)
        norms = {"attn_norm": first, "ff_norm": second, "out_norm": after}
    block = Block(
        layer=3,
        order=order,
        causal=causal,
        attention=AttentionWeights(w_o, b_o, w_v, b_v),
        feed_forward=FeedForward(w_in, b_in, w_out, b_out, recognise(activation, "here"), w_gate, b_gate),
        **norms,
    )
    return LayerRecord(block, torch.arange(n), x, pattern, value, pre, pre_linear, post, whole)
