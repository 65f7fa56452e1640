"""The prompts of faithfulness.md: what is run, what the target is, and which token is known to be the cause."""

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tl_ffblock as ffb

SEED = 0


@dataclass(frozen=True)
class Example:
    """One prompt with its target."""

    tokens: Tensor
    """Ids [pos], marks of the begin included."""
    target: Any
    """What `ffb.attribute` takes."""
    cause: int | None = None
    """Position of the token that is known to be the cause."""


def sva(model: Any, data: Path) -> Iterator[Example]:
    """Agreement across a noun: the verb that agrees minus the other, where the model has it right; the cause is the subject."""
    entries = [json.loads(line) for line in (data / "sva" / "nounpp_test.json").read_text().splitlines()]
    for entry in shuffled({entry["clean_prefix"]: entry for entry in entries}.values()):
        clean, other = (model.to_tokens(entry[name])[0].cpu() for name in ("clean_prefix", "patch_prefix"))
        answers = [single(model, entry[name]) for name in ("clean_answer", "patch_answer")]
        differ = (clean != other).nonzero()[:, 0] if len(clean) == len(other) else []
        if None in answers or len(differ) != 1:
            continue
        if float(difference(*answers)(logits_of(model, clean))) > 0:
            yield Example(clean, difference(*answers), int(differ[0]))


def ioi(model: Any, data: Path) -> Iterator[Example]:
    """Indirect objects: one name minus the other, whatever the model says; the cause is the object's first mention.

    The hundred shortest prompts, as the names' first tokens tell.
    """
    examples = []
    for entry in json.loads((data / "ioi" / "ioi.json").read_text()):
        names = re.search(r"([A-Z][a-z]+) and ([A-Z][a-z]+)", entry["prompt"])
        if not names or entry["answer"] not in names.groups():
            continue
        wrong = next(name for name in names.groups() if name != entry["answer"])
        answers = [first(model, f" {name}") for name in (entry["answer"], wrong)]
        tokens = model.to_tokens(entry["prompt"])[0].cpu()
        places = (tokens == answers[0]).nonzero()[:, 0]
        if answers[0] != answers[1] and len(places):
            examples.append(Example(tokens, difference(*answers), int(places[0])))
    yield from shuffled(sorted(examples, key=lambda example: len(example.tokens))[:100])


def known(model: Any, data: Path) -> Iterator[Example]:
    """Facts of 7 to 12 tokens whose next token the model has right: its logit minus the mean logit; the cause is the subject's end."""
    for entry in shuffled(json.loads((data / "known_facts" / "known_1000.json").read_text())):
        tokens = model.to_tokens(entry["prompt"])[0].cpu()
        answer = first(model, f" {entry['attribute']}")
        if not 7 <= len(tokens) <= 12 or int(logits_of(model, tokens)[0, -1].argmax()) != answer:
            continue
        until = entry["prompt"].find(entry["subject"]) + len(entry["subject"])
        end = len(model.to_tokens(entry["prompt"][:until])[0]) - 1
        yield Example(tokens, over_mean(answer), end if end < len(tokens) - 1 else None)


def wikitext(length: int) -> Callable[[Any, Path], Iterator[Example]]:
    """The first tokens of paragraphs: the most probable next token's logit minus the mean logit."""

    def read(model: Any, data: Path) -> Iterator[Example]:
        lines = (data / "wikitext2" / "wiki.test.txt").read_text(encoding="utf-8").splitlines()
        for line in shuffled([line.strip() for line in lines if len(line) > 200 and not line.startswith(" =")]):
            tokens = model.to_tokens(line)[0, :length].cpu()
            if len(tokens) == length:
                yield Example(tokens, over_mean(int(logits_of(model, tokens)[0, -1].argmax())))

    return read


def sst2(model: Any, data: Path) -> Iterator[Example]:
    """Sentences of 8 to 24 tokens: a linear probe of sentiment at [CLS], trained on other sentences (see `probe`)."""
    direction, held_out, _ = probe(model, data)
    for sentence in shuffled(held_out):
        tokens = model.to_tokens(sentence)[0].cpu()
        if 8 <= len(tokens) <= 24:
            yield Example(tokens, ffb.direction(direction, layer=-1, at=0))


@cache
def probe(model: Any, data: Path) -> tuple[Tensor, list[str], float]:
    """A direction of sentiment in the last layer's output at the first position, fitted on half of the sentences.

    With the other half, and its accuracy there.
    """
    from sklearn.linear_model import LogisticRegression

    rows = [line.split("\t") for line in (data / "sst2" / "sst2_glue_dev.tsv").read_text().splitlines()[1:]]
    rows = shuffled(rows)
    vectors = []
    for sentence, _ in rows:
        _, cache = model.run_with_cache(
            model.to_tokens(sentence), names_filter=lambda name: name.endswith("hook_resid_post")
        )
        vectors.append(list(cache.values())[-1][0, 0].detach().cpu())
    features, labels = torch.stack(vectors).numpy(), [int(label) for _, label in rows]
    half = len(rows) // 2
    fitted = LogisticRegression(max_iter=2000).fit(features[:half], labels[:half])
    accuracy = float(fitted.score(features[half:], labels[half:]))
    return torch.tensor(fitted.coef_[0], dtype=torch.float32), [sentence for sentence, _ in rows[half:]], accuracy


SETS: dict[str, tuple[str, Callable[[Any, Path], Iterator[Example]]]] = {
    "sva": ("smollm2", sva),
    "ioi": ("smollm2", ioi),
    "known": ("smollm2", known),
    "wikitext": ("smollm2", wikitext(12)),
    "wikitext64": ("smollm2", wikitext(64)),
    "wikitext128": ("smollm2", wikitext(128)),
    "sst2": ("minilm", sst2),
}
"""By name: the model, and what reads its prompts from the folder of data."""


def difference(right: int, wrong: int) -> Any:
    """One logit minus another, at the end."""
    return ffb.logit(right, minus=wrong)


def blimp(model: Any, data: Path) -> Iterator[tuple[str, Example, Example]]:
    """Prompts on which rules are chosen, none of them in a set that is reported: BLiMP's sentences up to where two differ.

    With the paradigm's name two targets: the right minus the wrong token, where the model has it right, and the most probable
    token minus the mean logit. Two prompts a paradigm at most, of six tokens or more.
    """
    taken: dict[str, int] = {}
    lines = (data / "blimp" / "blimp_67x100.jsonl").read_text().splitlines()
    for pair in shuffled(json.loads(line) for line in lines):
        good, bad = (model.to_tokens(pair[name])[0].cpu() for name in ("sentence_good", "sentence_bad"))
        common = min(len(good), len(bad))
        differ = (good[:common] != bad[:common]).nonzero()[:, 0].tolist()
        if not differ or differ[0] < 6 or taken.get(pair["UID"], 0) == 2:
            continue
        tokens, answers = good[: differ[0]], (int(good[differ[0]]), int(bad[differ[0]]))
        logits = logits_of(model, tokens)
        if float(difference(*answers)(logits)) > 0:
            taken[pair["UID"]] = taken.get(pair["UID"], 0) + 1
            top = int(logits[0, -1].argmax())
            yield pair["UID"], Example(tokens, difference(*answers)), Example(tokens, over_mean(top))


def over_mean(token: int) -> Callable[[Tensor], Tensor]:
    """A logit minus the mean logit, at the end."""

    def logit_over_mean(logits: Tensor) -> Tensor:
        return logits[:, -1, token] - logits[:, -1].mean(dim=-1)

    return logit_over_mean


@torch.no_grad()
def logits_of(model: Any, tokens: Tensor) -> Tensor:
    """A clean run's."""
    return model(tokens[None].to(next(model.parameters()).device)).cpu()


def single(model: Any, word: str) -> int | None:
    """The id of a word that is one token."""
    ids = model.tokenizer(word, add_special_tokens=False)["input_ids"]
    return int(ids[0]) if len(ids) == 1 else None


def first(model: Any, word: str) -> int:
    """The id of a word's first token."""
    return int(model.tokenizer(word, add_special_tokens=False)["input_ids"][0])


def shuffled(entries: Any) -> list[Any]:
    """In an order that does not change."""
    listed = list(entries)
    random.Random(SEED).shuffle(listed)
    return listed
