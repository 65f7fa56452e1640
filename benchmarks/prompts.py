"""What the maps of a hundred short prompts cost, in forward passes of the same prompts.

    python benchmarks/prompts.py [--rounds 5] [--models smollm2 gpt2] [--fast] [--json docs/prompts.json]
    python benchmarks/prompts.py --corpus sst2.txt blimp.txt [--rounds 3] [--json docs/prompts.json]

The prompts are indirect-object sentences of 12 to 20 tokens, made here. A round does in turn, on one thread and in
CPU seconds: one forward pass of all prompts (those of equal length together, with logits), maps of all rows, maps of the
last row, all rows of one prompt alone, and a forward pass of this one. A figure is the median over rounds of the
ratio within a round, so that a machine whose speed changes changes both sides. A loop over prompts, every vector made,
and captum are slow: they are timed on some prompts or layers, beside a forward pass of their own, and scaled.

With `--corpus` it does only what a corpus run does with the first texts of each file: all shards one text at a time, then in
default batches, in turn; the other figures of the JSON file stay.
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
from speed import GPT2, build, machine
from torch import Tensor

import tl_ffblock as ffb
from tl_ffblock.corpus.shards import cut_into_shards
from tl_ffblock.corpus.worker import Worker
from tl_ffblock.experiments import Config, study

N_PROMPTS = 100
SHORTEST, LONGEST = 12, 20
"""Tokens of a prompt."""
SAMPLE = 10
"""Prompts of which slow ways are timed."""
CORPUS_TEXTS, SHARD_SIZES = 32, (8, 32)
MAIN = ("all rows", "last row", "one prompt alone")
SLOW = ("a loop over prompts", "every vector made", "captum")

NAMES = ("Mary", "John", "Tom", "Anna", "Paul", "Kate", "Mark", "Lucy", "Peter", "Sarah")
PLACES = ("store", "park", "school", "office", "station", "garden")
THINGS = ("book", "drink", "ring", "key", "letter", "ball")
FORMS = (
    "{a} and {b} left; {b} gave a {thing} to",
    "When {a} and {b} came, {b} gave a {thing} to",
    "When {a} and {b} went to the {place}, {b} gave the {thing} to",
    "Then {a} and {b} had a long day at the {place}, and {b} handed a {thing} to",
    "After {a} and {b} went to the {place}, {b} said that he would give a {thing} to",
)


def prompts(count_tokens: Callable[[str], int]) -> list[str]:
    """Sentences of the lengths asked for, the lengths mixed as they come."""
    sentences: dict[str, None] = {}
    number = 0
    while len(sentences) < N_PROMPTS:
        first = number % len(NAMES)
        second = (first + 1 + number // len(NAMES) % (len(NAMES) - 1)) % len(NAMES)
        sentence = FORMS[number % len(FORMS)].format(
            a=NAMES[first],
            b=NAMES[second],
            place=PLACES[number // 3 % len(PLACES)],
            thing=THINGS[number // 7 % len(THINGS)],
        )
        # A word more before every other sentence mixes the lengths.
        sentence = ("", "So ", "And so ")[number // 5 % 3] + sentence
        if SHORTEST <= count_tokens(sentence) <= LONGEST:
            sentences[sentence] = None
        number += 1
    return list(sentences)


def seconds(action: Callable[[], Any]) -> float:
    """CPU seconds of this process."""
    start = time.process_time()
    action()
    return time.process_time() - start


@torch.no_grad()
def forward(model: Any, batches: Sequence[Tensor]) -> None:
    """The model alone, with logits."""
    for batch in batches:
        model(batch)


def by_length(model: Any, texts: Sequence[str]) -> list[Tensor]:
    """Tokens of the prompts, those of equal length together."""
    together: dict[int, list[Tensor]] = {}
    for text in texts:
        tokens = model.to_tokens(text)
        together.setdefault(tokens.shape[1], []).append(tokens)
    return [torch.cat(tokens) for tokens in together.values()]


def all_vectors(model: Any, texts: Sequence[str], layers: Sequence[int], **options: Any) -> None:
    """All vectors of some layers, and their norms."""
    for layer in layers:
        for text in texts:
            part = ffb.decompose(model, text, layer=layer, **options)
            for scope in part.scopes:
                part.parts(scope).norm(dim=-1)


def captum_maps(model: Any, texts: Sequence[str], layers: Sequence[int]) -> None:
    """Maps by captum's quadrature."""
    for text in texts:
        ffb.contribution_maps(model, text, layers=list(layers), method="captum")


def ratios(model: Any, texts: Sequence[str], rounds: int) -> dict[str, Any]:
    """What the maps take, in forward passes."""
    maps = partial(ffb.contribution_maps, model)
    batches, single = by_length(model, texts), texts[len(texts) // 2]
    alone = by_length(model, [single])
    rows: list[dict[str, float]] = []
    maps(list(texts))  # layers are checked and products of weights made once a model
    for _ in range(rounds):
        passes = seconds(lambda: forward(model, batches))
        pass_alone = statistics.median(seconds(lambda: forward(model, alone)) for _ in range(5))
        times = {
            "all rows": seconds(lambda: maps(list(texts))) / passes,
            "last row": seconds(lambda: maps(list(texts), queries=-1)) / passes,
            "one prompt alone": statistics.median(seconds(lambda: maps(single)) for _ in range(5)) / pass_alone,
        }
        rows.append(times | {"forward_s": passes})
        print("  ".join(f"{name} {value:.2f}" for name, value in rows[-1].items()), flush=True)
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]} | {
        "least_and_most": {name: [min(row[name] for row in rows), max(row[name] for row in rows)] for name in MAIN}
    }


def slow_ratios(model: Any, texts: Sequence[str], n_layers: int) -> dict[str, float]:
    """The slow ways on some prompts; vectors and captum on two layers, what the run takes with them, scaled to all."""
    chosen, layers = texts[:: len(texts) // SAMPLE][:SAMPLE], [0, n_layers // 2]
    batches = by_length(model, chosen)
    one_by_one = [batch[index : index + 1] for batch in batches for index in range(len(batch))]
    passes, pass_by_pass = (
        statistics.median(seconds(lambda: forward(model, tokens)) for _ in range(5)) for tokens in (batches, one_by_one)
    )
    scaled = n_layers / len(layers)
    figures = {
        "a loop over prompts": seconds(lambda: [ffb.contribution_maps(model, text) for text in chosen]),
        "every vector made": seconds(lambda: all_vectors(model, chosen, layers)) * scaled,
        "captum": seconds(lambda: captum_maps(model, chosen, layers)) * scaled,
    }
    figures = {name: value / passes for name, value in figures.items()}
    print("  ".join(f"{name} {value:.0f}" for name, value in figures.items()), flush=True)
    return figures | {"forward passes one by one": pass_by_pass / passes}


def measure(names: Sequence[str], rounds: int, *, slow: bool) -> dict[str, Any]:
    """All figures of some models."""
    torch.set_num_threads(1)
    smollm2 = ffb.load_model("smollm2")
    models = {"smollm2": smollm2, "gpt2": build(GPT2, tokenizer=smollm2.tokenizer)}
    results: dict[str, Any] = machine() | {"rounds": rounds, "models": {}}
    for name in names:
        model = models[name]

        def count_tokens(text: str) -> int:
            return int(model.to_tokens(text).shape[1])

        texts = prompts(count_tokens)
        lengths = [count_tokens(text) for text in texts]
        print(
            f"{name}: {len(texts)} prompts of {min(lengths)} to {max(lengths)} tokens, {sum(lengths)} in all",
            flush=True,
        )
        figures = ratios(model, texts, rounds)
        if slow:
            figures |= slow_ratios(model, texts, model.cfg.n_layers)
        results["models"][name] = figures | {"tokens": sum(lengths), "lengths": [min(lengths), max(lengths)]}
    return results


def corpus_ratios(name: str, model: Any, data: Path, rounds: int) -> dict[str, Any]:
    """What a corpus run's shards take in default batches, by what they take one text at a time; for each size of shards."""
    specs, figures = [study("contextualization")], dict[str, Any]()
    for shard_size in SHARD_SIZES:
        ways = {}
        for batch_size in (1, None):
            config = Config(
                name,
                str(data),
                out="",
                limit=CORPUS_TEXTS,
                mask_fraction=0.0,
                shard_size=shard_size,
                batch_size=batch_size,
            )
            shards, worker = cut_into_shards(config), Worker(config, specs, model)
            ways[batch_size] = worker, [texts for _, texts in shards.texts(set(shards.numbers))]
        rows = []
        for _ in range(rounds):
            alone, together = (
                seconds(lambda: [worker.compute(texts) for texts in shards]) for worker, shards in ways.values()
            )
            rows.append(together / alone)
            print(f"{name} {data.stem} shards of {shard_size}: {alone:.1f} s alone, {rows[-1]:.2f} of it", flush=True)
        figures[str(shard_size)] = [statistics.median(rows), min(rows), max(rows)]
    worker, shards = ways[None]
    tokens = [len(worker.tokenise(text).ids) for texts in shards for text in texts]
    return {"model": name, "data": data.stem, "tokens": statistics.mean(tokens), "of_shards": figures}


def corpora(files: Sequence[Path], rounds: int) -> dict[str, Any]:
    """All figures of corpus runs."""
    torch.set_num_threads(1)
    rows = []
    for name in ("minilm", "smollm2"):
        model = ffb.load_model(name)
        ffb.contribution_maps(model, "layers are checked once a model")
        rows += [corpus_ratios(name, model, file, rounds) for file in files]
    return machine() | {"rounds": rounds, "texts": CORPUS_TEXTS, "rows": rows}


def main() -> None:
    """Print the figures; write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--models", nargs="+", choices=("smollm2", "gpt2"), default=["smollm2", "gpt2"])
    parser.add_argument("--fast", action="store_true", help="leave out a loop, vectors and captum")
    parser.add_argument(
        "--corpus", nargs="+", type=Path, metavar="TEXTS.txt", help="corpus runs on the first texts instead"
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    if options.corpus:
        held = json.loads(options.json.read_text()) if options.json else {}
        results = held | {"corpus": corpora(options.corpus, options.rounds)}
    else:
        results = measure(options.models, options.rounds, slow=not options.fast)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
