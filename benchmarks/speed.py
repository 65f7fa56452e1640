"""How long a map takes, against one matrix product, the obvious way, captum, and the forward pass.

    python benchmarks/speed.py [--quick] [--json FILE] [--plot FILE.svg]
    python benchmarks/speed.py --from docs/speed.json --page docs/speed.md      # write the page's tables, time nothing

All figures of a table come from one run on one machine and are meant as ratios. Random weights of the
stated sizes (dense arithmetic does not care), in process CPU seconds on one thread and wall seconds on
several. Our time and that of the one product are taken in turn, fifteen times, and of the repetition with
the median ratio; all others are the least of several repetitions. Slow methods are timed on a sample of the
queries and scaled by the exact number of pairs.
"""

import argparse
import json
import os
import platform
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from captum.attr import IntegratedGradients
from torch import Tensor
from transformer_lens.model_bridge.sources import build_bridge_from_module

import tl_ffblock as ffb
from tl_ffblock.layer.fast.buffers import Buffers, HeadProducts
from tl_ffblock.layer.fast.vector_norms import contribution_norms, norms_of_vectors
from tl_ffblock.layer.linear import LinearLayer
from tl_ffblock.layer.records import FeedForward, LayerRecord, Settings
from tl_ffblock.layer.scopes import PROGRAMS, Feed, scope_names

STEPS = 50
"""Quadrature steps of captum, as in the paper."""

LONG = 512
"""Tokens from which on once or twice is enough."""


@dataclass(frozen=True)
class Size:
    name: str
    architecture: str
    d_model: int = 768
    heads: int = 12
    layers: int = 12
    vocabulary: int | None = None
    """None means the architecture's own."""


GPT2 = Size("GPT-2 small", "GPT2LMHeadModel")
BERT = Size("BERT base", "BertForMaskedLM")


def build(size: Size, n_ctx: int = 1024, tokenizer: Any = None) -> Any:
    """A random model of a size, every parameter perturbed; for texts it takes a tokenizer of at most as many tokens."""
    torch.manual_seed(0)
    vocabulary = {} if size.vocabulary is None else {"vocab_size": size.vocabulary}
    if size.architecture == "GPT2LMHeadModel":
        config = transformers.GPT2Config(
            n_embd=size.d_model, n_head=size.heads, n_layer=size.layers, n_positions=n_ctx, **vocabulary
        )
        model = transformers.GPT2LMHeadModel._from_config(config, attn_implementation="eager")
    else:
        config = transformers.BertConfig(
            hidden_size=size.d_model,
            num_attention_heads=size.heads,
            num_hidden_layers=size.layers,
            intermediate_size=4 * size.d_model,
            max_position_embeddings=n_ctx,
            **vocabulary,
        )
        model = transformers.BertForMaskedLM._from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    model.config.architectures = [size.architecture]
    return build_bridge_from_module(model.eval(), size.architecture, hf_config=model.config, tokenizer=tokenizer)


def layer_record(model: Any, n: int) -> LayerRecord:
    """The first layer of a run over n random tokens."""
    tokens = torch.randint(5, 20000, (1, n), generator=torch.Generator().manual_seed(n))
    with ffb.capture(model, layers=[0]) as records, torch.no_grad():
        model(tokens)
    return records[0].sequence(0)


def least(action: Callable[[], Any], threads: int, repeats: int) -> float:
    """Least seconds of some repetitions: CPU time on one thread, wall time on several."""
    clock = time.process_time if threads == 1 else time.perf_counter
    found = []
    for _ in range(repeats):
        start = clock()
        action()
        found.append(clock() - start)
    return min(found)


def in_turn(first: Callable[[], Any], second: Callable[[], Any], threads: int, repeats: int) -> tuple[float, float]:
    """Seconds of two actions done in turn, of the repetition whose ratio is the median.

    They should take about as long: on a machine whose speed changes, the least of a short action is
    taken at a better moment than the least of a long one.
    """
    times = [(least(first, threads, 1), least(second, threads, 1)) for _ in range(repeats)]
    return sorted(times, key=lambda pair: pair[0] / pair[1])[repeats // 2]


def one_product(pairs: int, w_out: Tensor, rows: int = 1536) -> Callable[[], None]:
    """The bound: a row of `rows @ W_out` for every pair, as fast as the machine does it."""
    d_mlp, d_model = w_out.shape
    some, out = torch.randn(rows, d_mlp), torch.empty(rows, d_model)

    def run() -> None:
        for start in range(0, pairs, rows):
            size = min(rows, pairs - start)
            torch.mm(some[:size], w_out, out=out[:size])

    return run


def players_of(record: LayerRecord) -> Tensor:
    """[player d_mlp]: the pre-activation of the record's first query as a sum of source tokens and bias."""
    ff = record.block.feed_forward
    assert isinstance(ff, FeedForward)
    feed = next(s.operation.of for s in PROGRAMS[record.block.order] if isinstance(s.operation, Feed))
    parts = LinearLayer(record, Settings()).parts([feed])[feed]
    players = torch.cat([parts.tokens[0], parts.bias], dim=0) @ ff.w_in
    players[-1] += ff.b_in
    return players


def captum_used_well(record: LayerRecord) -> None:
    """One query: one example whose features are players x d_mlp, the neurons' outputs summed, captum's own batching."""
    activation = record.block.feed_forward.activation
    method = IntegratedGradients(lambda x: activation(x.sum(dim=1)).sum(dim=-1))
    method.attribute(players_of(record)[None], n_steps=STEPS, method="gausslegendre")


def captum_as_first_written(record: LayerRecord, neurons: int) -> None:
    """One query as one would first write it: every neuron a function of its players."""
    activation = record.block.feed_forward.activation
    players = players_of(record)[:, :neurons]
    method = IntegratedGradients(lambda x: activation(x.sum(dim=1)))
    method.attribute(players.T.contiguous(), n_steps=STEPS, method="gausslegendre")


def layer_table(size: Size, lengths: list[int], threads: int, quick: bool) -> list[dict[str, Any]]:
    """One layer, all scopes: ours, the bound, and the other ways."""
    model = build(Size(size.name, size.architecture, layers=2))
    rows = []
    for n in lengths:
        record = layer_record(model, n)
        scopes, exact = scope_names(record.block.order), Settings()
        captum = Settings(method="captum", n_steps=STEPS)
        d_mlp = record.block.feed_forward.w_out.shape[0]
        pairs = n * (n + 1) // 2 if record.block.causal else n * n
        sample = [0, n // 2, n - 1] if quick else sorted({0, n // 4, n // 2, 3 * n // 4, n - 1})
        with torch.no_grad():
            product = one_product(pairs, record.block.feed_forward.w_out)
            layer = partial(contribution_norms, record, exact, scopes, buffers=Buffers(), products=HeadProducts())
            product(), layer()
            bound, ours = in_turn(product, layer, threads, 15 if n < LONG else 3)
            chosen = [record.rows(slice(i, i + 1)) for i in sample]
            naive = least(lambda: [norms_of_vectors(r, exact, scopes) for r in chosen], threads, 2) * n / len(sample)
            well = least(lambda: [captum_used_well(r) for r in chosen], threads, 1) * n / len(sample)
            tuned = least(lambda: [norms_of_vectors(r, captum, scopes) for r in chosen], threads, 1) * n / len(sample)
            some = 64
            middle = chosen[len(chosen) // 2]
            natural = least(lambda: captum_as_first_written(middle, some), threads, 1) * n * d_mlp / some
        rows.append(
            {
                "layer": size.name,
                "n": n,
                "threads": threads,
                "bound_ms": 1e3 * bound,
                "ours_ms": 1e3 * ours,
                "fraction_of_bound": bound / ours,
                "naive_over_ours": naive / ours,
                "captum_well_over_ours": well / ours,
                "captum_tuned_over_ours": tuned / ours,
                "captum_natural_over_ours": natural / ours,
            }
        )
        print_row(rows[-1])
    return rows


def model_table(name: str, model: Any, lengths: list[int], threads: int) -> list[dict[str, Any]]:
    """All layers through the public call, certificates included, in forward passes."""
    rows = []
    for n in lengths:
        tokens = torch.randint(5, 20000, (n,), generator=torch.Generator().manual_seed(n))
        ffb.contribution_maps(model, tokens[:8])
        with torch.no_grad():
            forward = least(lambda: model(tokens[None]), threads, 5)
        ours = least(lambda: ffb.contribution_maps(model, tokens), threads, 3 if n < LONG else 1)
        last = least(lambda: ffb.contribution_maps(model, tokens, queries=[-1]), threads, 3)
        rows.append(
            {
                "model": name,
                "n": n,
                "threads": threads,
                "forward_ms": 1e3 * forward,
                "ours_ms": 1e3 * ours,
                "ours_in_forwards": ours / forward,
                "last_query_in_forwards": last / forward,
            }
        )
        print_row(rows[-1])
    return rows


def print_row(row: dict[str, Any]) -> None:
    """One line of a table."""
    print("  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()), flush=True)


START, END = "<!-- tables: benchmarks/speed.py -->", "<!-- end of tables -->"
HEADS = {
    "n": "tokens",
    "threads": "threads",
    "bound_ms": "one product, ms",
    "ours_ms": "all maps, ms",
    "fraction_of_bound": "share of the bound",
    "naive_over_ours": "every vector made",
    "captum_well_over_ours": "captum used well",
    "captum_tuned_over_ours": "captum, 8 steps at a time",
    "captum_natural_over_ours": "captum as first written",
    "forward_ms": "forward pass, ms",
    "ours_in_forwards": "maps in forward passes",
    "last_query_in_forwards": "last query only",
}


def markdown(results: dict[str, Any]) -> str:
    """The tables of a run, as the page shows them."""
    parts = [f"{results['machine']}, torch {results['torch']}, Python {results['python']}, {results['date']}."]
    for name in ("layer", "model"):
        columns = [name, *(key for key in HEADS if key in results[name][0])]
        lines = [" | ".join(HEADS.get(key, key) for key in columns), "|".join("---" for _ in columns)]
        lines += [" | ".join(_cell(key, row[key]) for key in columns) for row in results[name]]
        parts.append("\n".join(f"| {line} |" for line in lines))
    return "\n\n".join(parts)


def _cell(key: str, value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    if key == "fraction_of_bound":
        return f"{value:.2f}"
    text = f"{value:.0f}" if value >= 20 else f"{value:.1f}"
    return f"{text}x" if key.endswith("over_ours") else text


def write_page(results: dict[str, Any], page: Path) -> None:
    """Put the tables between the page's markers."""
    before, rest = page.read_text().split(START)
    page.write_text(f"{before}{START}\n\n{markdown(results)}\n\n{END}{rest.split(END)[1]}")


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Time of one layer against length, all ways, as in figure 12 of the paper."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    ways = {
        "captum, as first written": "captum_natural_over_ours",
        "captum, used well": "captum_well_over_ours",
        "captum, 8 steps at a time": "captum_tuned_over_ours",
        "exact, every vector made": "naive_over_ours",
    }
    chosen = [r for r in rows if r.get("layer") == GPT2.name and r["threads"] == rows[0]["threads"]]
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    lengths = [r["n"] for r in chosen]
    for number, (name, key) in enumerate(ways.items()):
        axes.plot(lengths, [r[key] * r["ours_ms"] / 1e3 for r in chosen], marker="osDv"[number], label=name)
    axes.plot(lengths, [r["ours_ms"] / 1e3 for r in chosen], marker="^", color="black", label="tl_ffblock")
    axes.plot(lengths, [r["bound_ms"] / 1e3 for r in chosen], color="grey", linestyle=":", label="one matrix product")
    axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel="seconds, one GPT-2-small layer, all scopes")
    axes.set_xticks(lengths, [str(n) for n in lengths])
    axes.minorticks_off()
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(path)


def main() -> None:
    """Print the tables; write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short lengths, one thread only")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--plot", type=Path, help="draw time against length (SVG or PNG)")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="take the figures of this JSON file")
    parser.add_argument("--page", type=Path, help="write the tables into this page, between its markers")
    options = parser.parse_args()
    results = json.loads(options.source.read_text()) if options.source else measure(options.quick)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.plot:
        plot(results["layer"], options.plot)
    if options.page:
        write_page(results, options.page)


def measure(quick: bool) -> dict[str, Any]:
    """All tables."""
    lengths = [32, 128] if quick else [32, 128, 512]
    tables: dict[str, list[dict[str, Any]]] = {"layer": [], "model": []}
    for threads in [1] if quick else [1, 2]:
        torch.set_num_threads(threads)
        for size in (GPT2, BERT):
            tables["layer"] += layer_table(size, lengths, threads, quick)
        tables["model"] += model_table(GPT2.name, build(GPT2), lengths if threads == 1 else [128], threads)
    torch.set_num_threads(1)
    for name in ("minilm", "smollm2"):
        tables["model"] += model_table(name, ffb.load_model(name), [128], 1)
    for d_model, layers in [] if quick else [(768, 6), (256, 4), (512, 4), (1024, 4)]:
        size = Size("GPT-2", GPT2.architecture, d_model, d_model // 64, layers)
        tables["model"] += model_table(f"GPT-2 form, {layers} layers, d_model {d_model}", build(size), [128], 1)
    return machine() | tables


def machine() -> dict[str, str]:
    """Where and when figures were taken: the product is fast where AVX-512 or AMX is, what surrounds it is not."""
    listed = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    name = re.search(r"model name\s*: (.*)", listed)
    flags = set(re.findall(r"\w+", next((line for line in listed.splitlines() if line.startswith("flags")), "")))
    return {
        "machine": f"{name[1] if name else platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "flags": " ".join(
            flag for flag in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile") if flag in flags
        ),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }


if __name__ == "__main__":
    main()
