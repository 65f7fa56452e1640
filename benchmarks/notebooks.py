"""What the tasks of docs/how_to/notebooks.md take beside plain TransformerLens: CPU seconds in turn.

    python benchmarks/notebooks.py [--rounds 5] [--json docs/notebooks.json]

SmolLM2-135M-Instruct, a prompt of 15 tokens, one thread. Direct logit attribution of heads, attention patterns, gradient estimates of
heads, feed-forwards and residual stream, induction scores, and the largest activations of a neuron, each beside the few lines that give
the same numbers. Ours checks its sums, its model and its input; that is part of its time. A figure is the median over rounds of the ratio
within a round. Activation patching and knockouts are in benchmarks/patching.py.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import torch
from patching import CLEAN, CORRUPTED
from prompts import seconds
from speed import machine
from torch import Tensor

import tl_ffblock as ffb

TEXTS = (
    CLEAN,
    CORRUPTED,
    "After Tom and Anna had dinner, Tom handed the bill to",
    "The cat sat on the mat because it was tired.",
)
Task: TypeAlias = tuple[Callable[[], Tensor], Callable[[], Tensor]]
"""Ours and theirs, which give the same numbers."""


def direct(model: Any, tokens: Tensor, words: Tensor) -> Tensor:
    """Contributions [layer head] of heads to a logit difference, by the final norm's scale of the run."""
    _, cache = model.run_with_cache(tokens)
    final = cache[f"blocks.{model.cfg.n_layers - 1}.hook_resid_post"][0, -1]
    scale = (final.pow(2).mean() + model.cfg.eps).sqrt()
    direction = (model.W_U[:, words[0]] - model.W_U[:, words[1]]) * model.ln_final.weight / scale
    z = torch.stack([cache["z", layer][0, -1] for layer in range(model.cfg.n_layers)])
    return torch.einsum(
        "lhe,lhed,d->lh", z, torch.stack([block.attn.W_O for block in model.blocks]), direction
    ).detach()


def estimates(model: Any, clean: Tensor, corrupted: Tensor, words: Tensor) -> Tensor:
    """Estimates [layer head] of patching z by the gradient at the clean run."""
    names = [f"blocks.{layer}.attn.hook_z" for layer in range(model.cfg.n_layers)]
    kept: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., Tensor]:
        def hook(z: Tensor, hook: object) -> Tensor:
            kept[name] = z.detach().requires_grad_()
            return z + (kept[name] - kept[name].detach())

        return hook

    _, cache = model.run_with_cache(corrupted)
    with torch.enable_grad():
        logits = model.run_with_hooks(clean, fwd_hooks=[(name, keep(name)) for name in names])[0, -1]
        slopes = torch.autograd.grad(logits[words[0]] - logits[words[1]], [kept[name] for name in names])
    changes = (cache[name] - kept[name].detach() for name in names)
    return torch.stack([(change * slope)[0].sum(dim=(0, 2)) for change, slope in zip(changes, slopes, strict=True)])


def tasks(model: Any) -> dict[str, Task]:
    """What is measured, by name."""
    target = ffb.logit(" Mary", minus=" John")
    clean, corrupted = (model.to_tokens(text) for text in (CLEAN, CORRUPTED))
    words = torch.tensor([model.to_single_token(word) for word in (" Mary", " John")])
    layers, random = range(model.cfg.n_layers), ffb.heads.repeated_tokens(model, 50, 4)

    def patterns(tokens: Tensor) -> Tensor:
        _, cache = model.run_with_cache(tokens, names_filter=lambda name: name.endswith("hook_pattern"))
        return torch.stack([cache["pattern", layer] for layer in layers])

    def induction() -> Tensor:
        queries = torch.arange(random.shape[1] - 50, random.shape[1])
        return patterns(random)[..., queries, queries - 49].mean(dim=(1, 3))

    def activations() -> Tensor:
        name = "blocks.20.mlp.hook_post"
        runs = (model.run_with_cache(model.to_tokens(text), names_filter=name)[1][name] for text in TEXTS)
        return torch.cat([run[0, :, 300] for run in runs]).topk(5).values

    def triggers() -> Tensor:
        found = ffb.memories.find_triggers(model, TEXTS, memories="20:300", k=5, per="token").to_dataframe()
        return torch.tensor(found["coefficient"].to_numpy(), dtype=torch.float32)

    return {
        "direct logit attribution of heads": (
            lambda: ffb.direct_logit_attribution(model, CLEAN, target).heads.sum(dim=-1),
            lambda: direct(model, clean, words),
        ),
        "attribution patching by the gradient": (
            lambda: ffb.attribution_patching(model, CLEAN, CORRUPTED, target, rules="gradient").heads.sum(dim=-1),
            lambda: estimates(model, clean, corrupted, words),
        ),
        "attention patterns": (lambda: ffb.attention_maps(model, CLEAN).values, lambda: patterns(clean)[:, 0]),
        "induction scores": (lambda: ffb.heads.induction_scores(model).values, induction),
        "largest activations of a neuron": (triggers, activations),
    }


def measure(rounds: int) -> list[dict[str, Any]]:
    """Of every task seconds of both, ratios, and how far they differ."""
    rows = []
    with torch.no_grad():
        for name, (ours, theirs) in tasks(ffb.load_model("smollm2")).items():
            first, second = ours(), theirs()
            times = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
            rows.append(
                {
                    "task": name,
                    "ours_s": statistics.median(mine for mine, _ in times),
                    "theirs_s": statistics.median(other for _, other in times),
                    "ratios": sorted(mine / other for mine, other in times),
                    "difference": float((first - second).abs().max() / second.abs().max()),
                }
            )
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {**machine(), "rounds": options.rounds, "rows": measure(options.rounds)}
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
