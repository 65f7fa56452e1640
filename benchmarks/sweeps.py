"""What sweeps of many prompts gain from sharing forward passes: the same sweep as a loop over prompts, and all at once.

    python benchmarks/sweeps.py [--rounds 3] [--models smollm2 gpt2] [--prompts 50]

The prompts are those of benchmarks/prompts.py, of 12 to 20 tokens. Contributions of the first, third and fifth token to the
last position are exchanged for those of the prompt's neighbour of the same length. A round does each sweep in both ways, on
one thread and in CPU seconds; a figure is the median over rounds of the ratio within a round. Values of the two ways are
compared, too.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch
from prompts import prompts, seconds
from speed import GPT2, build

import tl_ffblock as ffb

KEYS = [1, 3, 5]
CASES: dict[str, dict[str, Any]] = {
    "Attn, ten layers": {"scope": "Attn", "layers": range(1, 11)},
    "AtbLnFf, ten layers": {"scope": "AtbLnFf", "layers": range(1, 11)},
    "Attn, heads of a layer": {"scope": "Attn", "layers": [9], "heads": True},
}


def neighbours(texts: Sequence[str], count_tokens: Callable[[str], int]) -> tuple[list[str], list[str]]:
    """Prompts, and as donor of each the next one of its length; those without one are left out."""
    by_length: dict[int, list[str]] = {}
    for text in texts:
        by_length.setdefault(count_tokens(text), []).append(text)
    together = [same for same in by_length.values() if len(same) > 1]
    donor = {text: follower for same in together for text, follower in zip(same, [*same[1:], same[0]], strict=True)}
    return [text for text in texts if text in donor], [donor[text] for text in texts if text in donor]


def measure(model: Any, n_prompts: int, rounds: int) -> None:
    """Print every case's seconds and ratio."""

    def count_tokens(text: str) -> int:
        return int(model.to_tokens(text).shape[1])

    texts, donors = neighbours(prompts(count_tokens)[:n_prompts], count_tokens)
    runs, donor = (ffb.Contributions(model, given, layers=range(1, 11)) for given in (texts, donors))
    metric = ffb.logit(11, minus=12)
    positions = {"END": -1} | {str(key): key for key in KEYS}
    chosen: dict[str, Any] = {"queries": "END", "keys": [str(key) for key in KEYS], "positions": positions}

    def together(case: dict[str, Any]) -> torch.Tensor:
        return ffb.contribution_sweep(runs, metric, donor=donor, **case, **chosen).by_prompt

    def loop(case: dict[str, Any]) -> torch.Tensor:
        pairs = ((runs.prompt(number), donor.prompt(number)) for number in range(len(runs)))
        return torch.cat(
            [ffb.contribution_sweep(run, metric, donor=of_run, **case, **chosen).by_prompt for run, of_run in pairs]
        )

    lengths = sorted(runs.lengths)
    print(f"{len(runs)} prompts of {lengths[0]} to {lengths[-1]} tokens, {len(set(lengths))} lengths", flush=True)
    for name, case in CASES.items():
        apart = float((together(case) - loop(case)).abs().max())
        times = [(seconds(lambda: loop(case)), seconds(lambda: together(case))) for _ in range(rounds)]
        ratio = statistics.median(one_by_one / at_once for one_by_one, at_once in times)
        one_by_one, at_once = (statistics.median(way) for way in zip(*times, strict=True))
        print(
            f"{name}: loop {one_by_one:.1f} s, together {at_once:.1f} s, ratio {ratio:.2f}; values differ by {apart:.0e}",
            flush=True,
        )


def main() -> None:
    """Both models, or some."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=50)
    parser.add_argument("--models", nargs="+", choices=("smollm2", "gpt2"), default=["smollm2", "gpt2"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    smollm2 = ffb.load_model("smollm2")
    for name in options.models:
        print(name)
        measure(
            smollm2 if name == "smollm2" else build(GPT2, tokenizer=smollm2.tokenizer), options.prompts, options.rounds
        )


if __name__ == "__main__":
    main()
