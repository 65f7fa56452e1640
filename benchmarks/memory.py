"""How much a call holds over the model, estimated and measured: `python benchmarks/memory.py --json docs/memory.json`.

Every call runs in a process of its own, a fork of one that has made the model and run the call on 16 tokens. Measured is the
most resident memory over what the fork began with, read every 2 ms. malloc returns freed tensors to the system
(`MALLOC_MMAP_THRESHOLD_=1000000`, which the script sets by starting itself anew): otherwise a process keeps what it has freed.
"""

import argparse
import datetime
import json
import multiprocessing
import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import torch
import transformers
from transformer_lens.model_bridge.sources import build_bridge_from_module

import tl_ffblock as ffb

TARGET = ffb.logit(5, minus=6)
D_MODEL, LAYERS, VOCABULARY, LONGEST = 256, 4, 8000, 2048
FORMS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "GPT-2": ("GPT2LMHeadModel", "GPT2Config", dict(n_layer=LAYERS, n_embd=D_MODEL, n_head=8, n_positions=LONGEST)),
    "Llama": (
        "LlamaForCausalLM",
        "LlamaConfig",
        dict(
            num_hidden_layers=LAYERS,
            hidden_size=D_MODEL,
            num_attention_heads=8,
            num_key_value_heads=2,
            head_dim=32,
            intermediate_size=688,
            max_position_embeddings=LONGEST,
        ),
    ),
    "BERT": (
        "BertForMaskedLM",
        "BertConfig",
        dict(
            num_hidden_layers=LAYERS,
            hidden_size=D_MODEL,
            num_attention_heads=8,
            intermediate_size=4 * D_MODEL,
            max_position_embeddings=LONGEST,
        ),
    ),
}
CALLS: dict[str, tuple[str, Any, int | None, Callable[[Any, Any, Any], Any]]] = {
    "maps": ("contribution_maps", None, None, lambda m, x, y: ffb.contribution_maps(m, x)),
    "maps of the last row": ("contribution_maps", None, 1, lambda m, x, y: ffb.contribution_maps(m, x, queries=[-1])),
    "tokens": ("attribute", (), None, lambda m, x, y: ffb.attribute(m, x, TARGET, of=())),
    "tokens, heads, edges, neurons": ("attribute", None, None, lambda m, x, y: ffb.attribute(m, x, TARGET)),
    "attribution patching": (
        "attribution_patching",
        None,
        None,
        lambda m, x, y: ffb.attribution_patching(m, x, y, TARGET),
    ),
    "patching of edges": (
        "attribution_patching",
        "edges",
        None,
        lambda m, x, y: ffb.attribution_patching(m, x, y, TARGET, edges=True),
    ),
}
"""Calls by name: what `memory_estimate` is asked, and the call."""


def model_of(form: str) -> Any:
    """A model of a form with random weights."""
    kind, config_class, sizes = FORMS[form]
    torch.manual_seed(0)
    config = getattr(transformers, config_class)(vocab_size=VOCABULARY, **sizes)
    config.architectures = [kind]
    wrapped = getattr(transformers, kind)._from_config(config, attn_implementation="eager").eval()
    return build_bridge_from_module(wrapped, kind, hf_config=config, model_name=form).eval()


def measured(call: Callable[[], Any], queue: Any) -> None:
    """Put the most resident memory over that at the begin into a queue."""
    process, done = psutil.Process(), threading.Event()
    begin = process.memory_info().rss
    peak = [begin]

    def watch() -> None:
        while not done.is_set():
            peak[0] = max(peak[0], process.memory_info().rss)
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    call()
    done.set()
    watcher.join()
    queue.put(peak[0] - begin)


def rows(lengths: list[int], longest_maps: int) -> list[dict[str, Any]]:
    """Every call at every length."""
    context, found = multiprocessing.get_context("fork"), []
    for form in FORMS:
        model = model_of(form)
        for n in lengths:
            x = torch.randint(20, VOCABULARY, (n,), generator=torch.Generator().manual_seed(n))
            y = x.clone()
            y[n // 2] = 7
            for name, (of_call, of, n_queries, call) in CALLS.items():
                if name == "maps" and n > longest_maps:
                    continue
                call(model, x[:16], y[:16])
                queue = context.Queue()
                process = context.Process(target=measured, args=(lambda: call(model, x, y), queue))
                process.start()
                resident = queue.get()
                process.join()
                estimate = ffb.memory_estimate(model, n, of_call, of=of, n_queries=n_queries)
                found.append(
                    {"form": form, "call": name, "tokens": n, "measured": resident, "estimated": estimate.total}
                )
                print(form, n, name, f"{resident / 1e6:.0f} MB, estimated {estimate.total / 1e6:.0f} MB", flush=True)
    return found


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--lengths", type=int, nargs="+", default=[32, 128, 512, 1024, 2048])
    parser.add_argument("--longest-maps", type=int, default=2048, help="maps of all rows up to this length")
    options = parser.parse_args()
    if "MALLOC_MMAP_THRESHOLD_" not in os.environ:
        os.execvpe(sys.executable, [sys.executable, *sys.argv], {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1000000"})
    torch.set_num_threads(1)
    stored = {
        "machine": platform.machine(),
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        "d_model": D_MODEL,
        "layers": LAYERS,
        "rows": rows(options.lengths, options.longest_maps),
    }
    options.json.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
