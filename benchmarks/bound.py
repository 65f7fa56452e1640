"""How near one core comes to the bound, a layer alone and the whole call, and what the call adds to its layers.

    python benchmarks/bound.py [--rounds 3] [--json docs/bound.json]

On one thread, in CPU seconds. A layer's maps and the bound (`one_product` of speed.py) are done in turn. The whole call is of
a model of GPT-2-small size with a vocabulary of 1000, so that a forward pass is its layers; a round does in turn a forward pass, the
products of all layers with their own W_out, the layers' maps from records that were kept, and `contribution_maps`. Shares are
medians of the ratios within a repetition, with their quartiles.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from speed import BERT, GPT2, Size, build, layer_record, machine, one_product
from torch import Tensor

import tl_ffblock as ffb
from tl_ffblock.layer.fast.buffers import Buffers, HeadProducts
from tl_ffblock.layer.fast.vector_norms import contribution_norms
from tl_ffblock.layer.records import FeedForward, LayerRecord, Settings
from tl_ffblock.layer.scopes import scope_names

LAYERS = ((GPT2, 32), (GPT2, 128), (BERT, 32), (BERT, 128))
REPEATS = 11
TOKENS = 128
"""Of the whole call."""


def seconds(action: Callable[[], Any]) -> float:
    """CPU seconds of this process."""
    start = time.process_time()
    action()
    return time.process_time() - start


def quartiles(ratios: Sequence[float]) -> dict[str, float]:
    """The middle half of some ratios."""
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high}


def product_of(record: LayerRecord) -> Callable[[], None]:
    """The bound of a record's layer."""
    assert isinstance(record.block.feed_forward, FeedForward)
    n = len(record.queries)
    pairs = n * (n + 1) // 2 if record.block.causal else n * n
    return one_product(pairs, record.block.feed_forward.w_out)


def maps_of(records: Sequence[LayerRecord]) -> Callable[[], None]:
    """The maps of some layers, in memory that is taken once, with products of weights that are kept."""
    buffers, products, scopes = Buffers(), HeadProducts(), scope_names(records[0].block.order)

    def run() -> None:
        for record in records:
            contribution_norms(record, Settings(), scopes, buffers=buffers, products=products)

    return run


def layer_shares(size: Size, n: int) -> dict[str, Any]:
    """A layer alone against its bound."""
    record = layer_record(build(Size(size.name, size.architecture, layers=2)), n)
    product, maps = product_of(record), maps_of([record])
    product(), maps()
    times = [(seconds(product), seconds(maps)) for _ in range(REPEATS)]
    return {
        "layer": size.name,
        "n": n,
        "gflops": statistics.median(gflops(record, bound) for bound, _ in times),
        "share": quartiles([bound / ours for bound, ours in times]),
    }


def gflops(record: LayerRecord, bound: float) -> float:
    """How fast the product was."""
    assert isinstance(record.block.feed_forward, FeedForward)
    n = len(record.queries)
    pairs = n * (n + 1) // 2 if record.block.causal else n * n
    return 2 * pairs * record.block.feed_forward.w_out.numel() / bound / 1e9


def whole_call(rounds: int) -> dict[str, Any]:
    """All layers through the public call."""
    model = build(Size(GPT2.name, GPT2.architecture, vocabulary=1000))
    tokens: Tensor = torch.randint(5, 999, (TOKENS,), generator=torch.Generator().manual_seed(TOKENS))
    with ffb.capture(model) as captured, torch.no_grad():
        model(tokens[None])
    records = [captured[layer].sequence(0) for layer in range(GPT2.layers)]
    products = [product_of(record) for record in records]
    actions: dict[str, Callable[[], Any]] = {
        "forward": partial(model, tokens[None]),
        "bound": lambda: [product() for product in products],
        "layers": maps_of(records),
        "call": lambda: ffb.contribution_maps(model, tokens),
    }
    for action in actions.values():
        action()
    rows = [{name: seconds(action) for name, action in actions.items()} for _ in range(rounds)]
    return {
        "n": TOKENS,
        "rounds": rounds,
        "share": quartiles([row["bound"] / row["call"] for row in rows]),
        "call_over_layers": quartiles([row["call"] / row["layers"] for row in rows]),
        "forward_over_bound": quartiles([row["forward"] / row["bound"] for row in rows]),
        "call_in_forwards": quartiles([row["call"] / row["forward"] for row in rows]),
        "bound_in_forwards": quartiles([row["bound"] / row["forward"] for row in rows]),
    }


@torch.no_grad()
def main() -> None:
    """Print the figures; write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = machine() | {"repeats": REPEATS, "call": whole_call(options.rounds)}
    results["layers"] = [layer_shares(size, n) for size, n in LAYERS]
    print(json.dumps(results, indent=1))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
