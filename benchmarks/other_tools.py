"""FlashTrace beside `ffb.attribute` on indirect objects: what masking tokens does, and the time of a call.

    pip install flashtrace==0.1.1
    python benchmarks/other_tools.py [--prompts 20] [--json docs/other_tools.json]

Both explain the indirect object after the prompt: FlashTrace the token as a generated answer, `attribute` its logit over the mean
of all logits. `ffb.faithfulness` masks tokens and compares. Times are medians over the prompts of the ratio to a forward pass of the
same prompt in the same round, on one thread.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import flashtrace
import torch
from prompts import NAMES
from speed import machine
from transformers import AutoModelForCausalLM, AutoTokenizer

import tl_ffblock as ffb
from tl_ffblock.bridge.conversion import kept
from tl_ffblock.bridge.loading import SHIPPED
from tl_ffblock.results.intervals import mean_interval

FORM = "When {a} and {b} went to the store, {b} gave a drink to"


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and its seconds."""
    start = time.perf_counter()
    return call(), time.perf_counter() - start


def main() -> None:
    """Run both on the same prompts and print or write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = ffb.load_model("smollm2")
    folder = kept(SHIPPED["smollm2"].weights(), "smollm2")
    theirs = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    tracer = flashtrace.FlashTrace(theirs, AutoTokenizer.from_pretrained(folder))
    pairs = list(permutations(NAMES, 2))[:: len(NAMES) * (len(NAMES) - 1) // options.prompts][: options.prompts]
    texts, answers = [FORM.format(a=a, b=b) for a, b in pairs], [f" {a}" for a, _ in pairs]
    scores: dict[str, list[Any]] = {"path": [], "FlashTrace": []}
    ratios: dict[str, list[float]] = {name: [] for name in scores}
    for text, answer in zip(texts, answers, strict=True):
        ids = model.to_tokens(text)
        with torch.no_grad():
            model(ids)
            forward = timed(lambda ids=ids: model(ids))[1]
        target = ffb.logit(answer, minus="mean")
        for name in scores:
            if name == "path":
                found, seconds = timed(lambda text=text, target=target: ffb.attribute(model, text, target, of=()))
            else:
                ask = dict(prompt=text, target=answer, output_span=(0, 0), hops=0)
                traced, seconds = timed(lambda ask=ask: tracer.trace(**ask))
                found = torch.zeros(ids.shape[1])
                found[-len(traced.scores) :] = torch.tensor(traced.scores)  # without the token that begins every text
            scores[name].append(found)
            ratios[name].append(seconds / forward)
    rows = {name: {"forward_passes": statistics.median(ratios[name])} for name in scores}
    results = [
        ffb.faithfulness(
            model, text, ffb.logit(answer, minus="mean"), {name: [scores[name][i]] for name in scores}, progress=False
        )
        for i, (text, answer) in enumerate(zip(texts, answers, strict=True))
    ]
    for name in scores:
        for measure in ("correlation", "area"):
            of_prompts = torch.cat([each.by_prompt[measure][each.methods.index(name)] for each in results])
            interval = mean_interval(of_prompts)
            rows[name][measure] = [float(of_prompts.nanmean()), float(interval.low), float(interval.high)]
    report = {"machine": machine(), "flashtrace": "0.1.1", "prompts": len(texts), "rows": rows}
    text = json.dumps(report, indent=1)
    print(text)
    if options.json:
        options.json.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
