# Noun: compiled transformer (Lindner et al. 2023, Tracr): its programs.
"""Programs with circuits that are known by construction. To add one, write a function here and list it in `PROGRAMS`.

A program defines the spaces that its heads and neurons read and write, and for each kind of pair the true edges. An edge with the
same values in both prompts is false for this kind, although the program reads it. Token 0 is the first of every prompt.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from tl_ffblock.known_circuits.compiler import Head, Layout, Match, Neurons

Truth: TypeAlias = Literal["clean run", "both runs", "random sets"]
"""Definition of an edge's exact effect. "clean run": patched alone in the clean prompt. "both runs": the larger absolute effect in
the clean and in the corrupted prompt. "random sets": the mean absolute effect in random sets of other patched edges."""


@dataclass(frozen=True)
class Pair:
    """Two prompts with equally many tokens, and the tokens whose logits are compared at the last position."""

    clean: tuple[int, ...]
    corrupted: tuple[int, ...]
    answer: int
    """Token that the model predicts for the clean prompt."""
    foil: int
    """Token whose logit is subtracted."""
    corrupted_answer: int | None = None
    """Token that the model predicts for the corrupted prompt; None if the program does not define it."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """Positions at which both prompts differ."""
        pairs = zip(self.clean, self.corrupted, strict=True)
        return tuple(at for at, (clean, corrupted) in enumerate(pairs) if clean != corrupted)


@dataclass(frozen=True)
class Kind:
    """A kind of pair: the input that differs, and the true edges."""

    name: str
    edges: str
    """True edges by names of the program, such as "tokens -> previous.v, previous -> target"."""
    draw: Callable[[Random], Pair]
    truth: Truth = "clean run"
    without: tuple[str, ...] = ()
    """Heads or neurons that are ablated in this kind's model."""


@dataclass(frozen=True)
class Program:
    """A program: its task, layout and kinds of pairs."""

    name: str
    task: str
    layout: Layout
    kinds: tuple[Kind, ...]


def _rows(n: int, m: int, entries: Mapping[tuple[int, int], float]) -> Tensor:
    """Matrix [n m] with some entries, zero elsewhere."""
    matrix = torch.zeros(n, m)
    for at, value in entries.items():
        matrix[at] = value
    return matrix


def _offset(n: int, by: int) -> Match:
    """Score of the position `by` before the query."""
    return Match("position", "position", _rows(n, n, {(i, i - by): 1.0 for i in range(by, n)}))


def _key(space: str, size: int, scores: Mapping[int, float]) -> Match:
    """Scores of keys that do not depend on the query."""
    return Match("constant", space, _rows(1, size, {(0, at): score for at, score in scores.items()}))


def _only(size: int, members: range | list[int], value: float = 1.0) -> Tensor:
    """The identity on some coordinates, times a number."""
    return _rows(size, size, {(at, at): value for at in members})


def _uniform(n: int) -> tuple[Match, ...]:
    """Equal scores of all positions."""
    return (Match("position", "position", torch.zeros(n, n)),)


def _both(answer: int, foil: int, clean: list[int], corrupted: list[int]) -> Pair:
    """A pair whose foil is the corrupted prompt's answer."""
    return Pair(tuple(clean), tuple(corrupted), answer, foil, foil)


def previous_token() -> Program:
    """A head copies the previous token."""
    v, n = 12, 9
    head = Head("previous", 0, (_offset(n, 1),), {"token": torch.eye(v)}, "output")

    def token(draw: Random) -> Pair:
        clean = [0, *draw.sample(range(1, v), n - 1)]
        corrupted = list(clean)
        corrupted[-2] = draw.choice([t for t in range(1, v) if t not in clean])
        return _both(clean[-2], corrupted[-2], clean, corrupted)

    layout = Layout(v, n, {"output": v}, (head,), (), "output")
    kinds = (Kind("token", "tokens -> previous.v, previous -> target", token),)
    return Program("previous token", "predict the token before the last", layout, kinds)


def induction() -> Program:
    """A previous-token head, two induction heads and neurons after them (Elhage et al. 2021, Olsson et al. 2022)."""
    v, n = 12, 11
    eye = torch.eye(v)
    follow = (Match("token", "previous", eye),)
    heads = (
        Head("previous", 0, (_offset(n, 1),), {"token": eye}, "previous"),
        Head("induction", 1, follow, {"token": eye}, "output"),
        Head("second", 1, follow, {"token": 0.5 * eye}, "output"),
    )
    amplify = Neurons("amplify", 1, {"output": eye}, torch.full((v,), 0.5), {"output": 0.3 * eye})

    def pair(draw: Random, kind: str) -> Pair:
        a, b, c, d, *rest = draw.sample(range(1, v), 9)
        clean = [0, *rest[:3], a, b, *rest[3:], draw.choice(rest[:3]), a]
        corrupted = list(clean)
        if kind == "value":
            corrupted[5] = c
            return _both(b, c, clean, corrupted)
        if kind == "key":
            corrupted[4] = d
            return Pair(tuple(clean), tuple(corrupted), b, c)
        corrupted[-1] = rest[3]
        return _both(b, rest[4], clean, corrupted)

    ends = ", induction -> target, second -> target, induction -> amplify, second -> amplify, amplify -> target"
    kinds = (
        Kind("value", "tokens -> induction.v, tokens -> second.v" + ends, lambda draw: pair(draw, "value")),
        Kind(
            "key",
            "tokens -> previous.v, previous -> induction.k, previous -> second.k" + ends,
            lambda draw: pair(draw, "key"),
        ),
        Kind("query", "tokens -> induction.q, tokens -> second.q" + ends, lambda draw: pair(draw, "query")),
    )
    layout = Layout(v, n, {"previous": v, "output": v}, heads, (amplify,), "output")
    return Program("induction", "repeat what followed the last token before", layout, kinds)


def duplicate_token() -> Program:
    """A head attends to an earlier occurrence of the last token, else to the first token."""
    v, n, yes, no = 12, 8, 1, 2
    content = range(3, v)
    scores = (
        Match("token", "token", _only(v, content)),
        Match("position", "position", -2.0 * torch.eye(n)),
        _key("token", v, {0: 0.5}),
    )
    values = _rows(v, v, {(0, no): 1.0, **{(t, yes): 1.0 for t in content}})
    head = Head("duplicate", 0, scores, {"token": values}, "output")

    def pair(draw: Random, kind: str) -> Pair:
        *rest, a, d = draw.sample(content, n - 1)
        clean = [0, *rest, a, a]
        clean[1:-1] = draw.sample(clean[1:-1], n - 2)
        corrupted = list(clean)
        corrupted[-1 if kind == "query" else clean.index(a)] = d
        return _both(yes, no, clean, corrupted)

    layout = Layout(v, n, {"output": v}, (head,), (), "output")
    kinds = (
        Kind("earlier token", "tokens -> duplicate.k, duplicate -> target", lambda draw: pair(draw, "key")),
        Kind("last token", "tokens -> duplicate.q, duplicate -> target", lambda draw: pair(draw, "query")),
    )
    return Program("duplicate token", "say whether the last token occurred before", layout, kinds)


def _heads_of_names(v: int, n: int, names: range) -> tuple[Head, ...]:
    """Duplicate-token, S-inhibition, name-mover, negative and backup heads."""
    name = _only(v, names)
    first_mention = _key("position", n, dict.fromkeys(range(3, n), -2.0))
    is_name = _key("token", v, dict.fromkeys(names, 1.0))
    sink = _key("token", v, {0: 0.5})
    inhibited = Match("inhibited", "token", -name)
    return (
        Head(
            "duplicate",
            0,
            (Match("token", "token", name), Match("position", "position", -2.0 * torch.eye(n)), sink),
            {"token": name},
            "duplicate",
        ),
        Head(
            "inhibition", 1, (_key("duplicate", v, dict.fromkeys(names, 1.0)), sink), {"duplicate": name}, "inhibited"
        ),
        Head("mover", 2, (is_name, first_mention, inhibited), {"token": name}, "output"),
        Head("negative", 3, (Match("output", "token", name), first_mention, sink), {"token": -0.4 * name}, "output"),
        Head(
            "backup",
            3,
            (is_name, first_mention, inhibited, Match("output", "token", _rows(v, v, {(t, 0): 2.0 for t in names}))),
            {"token": name},
            "output",
        ),
    )


def indirect_object() -> Program:
    """Duplicate-token, S-inhibition, name-mover, backup and negative heads, as in the IOI circuit of Wang et al. 2023."""
    v, n, end = 11, 8, 10
    names, fillers = range(1, 7), range(7, 10)
    heads = _heads_of_names(v, n, names)

    def pair(draw: Random, kind: str) -> Pair:
        indirect, subject, other = draw.sample(names, 3)
        before = draw.sample([indirect, subject], 2)
        clean = [0, *before, draw.choice(fillers), draw.choice(fillers), subject, draw.choice(fillers), end]
        corrupted = list(clean)
        if kind == "name":
            corrupted[clean.index(indirect)] = other
            return _both(indirect, other, clean, corrupted)
        corrupted[5] = indirect
        return _both(indirect, subject, clean, corrupted)

    subject = "tokens -> duplicate.q, duplicate -> inhibition.v, inhibition -> "
    kinds = (
        Kind(
            "second subject",
            subject + "mover.q, mover -> target, mover -> negative.q, negative -> target",
            lambda draw: pair(draw, "subject"),
        ),
        Kind(
            "indirect object",
            "tokens -> mover.v, mover -> target, mover -> negative.q, tokens -> negative.k, tokens -> negative.v, "
            "negative -> target",
            lambda draw: pair(draw, "name"),
        ),
        Kind(
            "second subject, mover ablated",
            subject + "backup.q, backup -> target",
            lambda draw: pair(draw, "subject"),
            without=("mover",),
        ),
    )
    spaces = {"duplicate": v, "inhibited": v, "output": v}
    layout = Layout(v, n, spaces, heads, (), "output", n_layers=4)
    return Program("indirect object", "name the one that occurred once", layout, kinds)


def majority() -> Program:
    """A head with uniform attention counts votes, and two neurons compare them."""
    v, n = 3, 8
    count = Head("count", 0, _uniform(n), {"token": torch.tensor([[0.0], [1.0], [-1.0]])}, "count")
    decide = Neurons(
        "decide",
        1,
        {"count": torch.tensor([[4.0], [-4.0]])},
        torch.zeros(2),
        {"output": _rows(2, v, {(0, 1): 1.0, (1, 2): 1.0})},
    )

    def vote(draw: Random) -> Pair:
        winner, loser = draw.sample((1, 2), 2)
        votes = draw.sample([winner] * 4 + [loser] * 3, 7)
        clean = [0, *votes]
        corrupted = list(clean)
        corrupted[draw.choice([at for at, token in enumerate(clean) if token == winner])] = loser
        return _both(winner, loser, clean, corrupted)

    layout = Layout(v, n, {"count": 1, "output": v}, (count,), (decide,), "output")
    kinds = (Kind("one vote", "tokens -> count.v, count -> decide, decide -> target", vote),)
    return Program("majority", "name the token that occurs more often", layout, kinds)


def reverse() -> Program:
    """A head attends to the mirror image of the next position, and copies its token."""
    v, n, separator, half = 12, 12, 1, 5
    mirror = Match("position", "position", _rows(n, n, {(i, 2 * half + 1 - i): 1.0 for i in range(half + 1, n - 1)}))
    head = Head("mirror", 0, (mirror,), {"token": torch.eye(v)}, "output")

    def token(draw: Random) -> Pair:
        *content, other = draw.sample(range(2, v), half + 1)
        told = draw.randrange(half)
        clean = [0, *content, separator, *content[::-1][:told]]
        corrupted = list(clean)
        corrupted[half - told] = other
        return _both(clean[half - told], other, clean, corrupted)

    layout = Layout(v, n, {"output": v}, (head,), (), "output")
    kinds = (Kind("token", "tokens -> mirror.v, mirror -> target", token),)
    return Program("reverse", "repeat the tokens from the last to the first", layout, kinds)


def _parts_of_brackets(v: int, n: int, valid: int, invalid: int, end: int) -> tuple[Head, Neurons, Head]:
    """Head of depth, neurons of its sign, and a head for negative depth at any position."""
    depth = Head(
        "depth", 0, _uniform(n), {"token": _rows(v, 1, {(1, 0): 1.0, (2, 0): -1.0})}, "depth"
    )  # uniform attention divides it by the number of positions
    checks = Neurons(
        "checks",
        0,
        {"depth": torch.tensor([[8.0], [8.0], [-8.0], [-8.0]])},
        torch.tensor([0.5, 1.5, 0.5, 1.5]),
        {
            "output": _rows(4, v, {(0, invalid): 1.0, (1, invalid): -1.0}),
            "negative": torch.tensor([[0.0], [0.0], [1.0], [-1.0]]),
        },
    )
    ever = Head(
        "ever",
        1,
        (_key("negative", 1, {0: 1.0}), _key("token", v, {0: 0.5})),
        {"token": _rows(v, v, {(0, valid): 0.5, **{(t, invalid): 1.0 for t in (1, 2, end)}})},
        "output",
    )
    return depth, checks, ever


def _brackets(draw: Random, k: int, *, negative: bool) -> list[int]:
    """Random order of k brackets of each kind, with a negative depth at some position, or without."""
    while True:
        brackets = draw.sample([1] * k + [2] * k, 2 * k)
        depths = [sum(3 - 2 * b for b in brackets[: at + 1]) for at in range(2 * k)]
        if (min(depths) < 0) == negative:
            return brackets


def brackets() -> Program:
    """Uniform attention computes the depth, neurons its sign, and a head whether it is negative at any position."""
    v, n, valid, invalid, end, k = 6, 8, 3, 4, 5, 3
    depth, checks, ever = _parts_of_brackets(v, n, valid, invalid, end)

    def pair(draw: Random, kind: str) -> Pair:
        clean = _brackets(draw, k, negative=False)
        corrupted = [*clean[:-1], 1] if kind == "unclosed" else _brackets(draw, k, negative=True)
        return _both(valid, invalid, [0, *clean, end], [0, *corrupted, end])

    layout = Layout(v, n, {"depth": 1, "negative": 1, "output": v}, (depth, ever), (checks,), "output")
    kinds = (
        Kind(
            "unclosed",
            "tokens -> depth.v, depth -> checks, checks -> target",
            lambda draw: pair(draw, "unclosed"),
        ),
        Kind(
            "closed too early",
            "tokens -> depth.v, depth -> checks, checks -> ever.k, ever -> target",
            lambda draw: pair(draw, "negative"),
        ),
    )
    return Program("brackets", "say whether brackets are balanced", layout, kinds)


def sort() -> Program:
    """A head attends to the next larger token of the list."""
    v, n, separator, number = 14, 10, 1, 4
    larger = {
        (a, b): 1.0 - 0.3 * (b - a - 1) if b > a else -3.0 for a in range(separator, v) for b in range(separator + 1, v)
    }
    scores = (
        Match("token", "token", _rows(v, v, larger)),
        _key("token", v, {0: -4.0, separator: -4.0}),
        _key("position", n, dict.fromkeys(range(number + 2, n), -4.0)),
    )
    head = Head("next", 0, scores, {"token": torch.eye(v)}, "output")

    def pair(draw: Random, kind: str) -> Pair:
        last = draw.randrange(2, 5)
        if kind == "query":
            low, high = last + 1 + draw.randrange(2), last + 4 + draw.randrange(2)
            content = [last, low, high, high + 2]
            told, other = (last, low), (last, high - 1)
            clean = [0, *draw.sample(content, number), separator, told[0]]
            return _both(told[1], high, clean, [*clean[:-1], other[1]])
        after, far = last + 2 + draw.randrange(2), last + 6 + draw.randrange(2)
        clean_list = draw.sample([last, after, far, far + 2], number)
        changed = (after, after - 1) if kind == "value" else (far, after - 1)
        corrupted_list = [changed[1] if token == changed[0] else token for token in clean_list]
        clean, corrupted = ([0, *tokens, separator, last] for tokens in (clean_list, corrupted_list))
        return _both(after, after - 1, clean, corrupted)

    layout = Layout(v, n, {"output": v}, (head,), (), "output")
    kinds = (
        Kind("next token", "tokens -> next.v, next -> target", lambda draw: pair(draw, "value")),
        Kind("order", "tokens -> next.k, next -> target", lambda draw: pair(draw, "key")),
        Kind("last token", "tokens -> next.q, next -> target", lambda draw: pair(draw, "query")),
    )
    return Program("sort", "name the next larger token of a list", layout, kinds)


def _two_heads(n: int, values: Tensor) -> tuple[Head, Head]:
    """Heads that copy the token two positions before, and the previous one."""
    return (
        Head("first", 0, (_offset(n, 2),), {"token": values}, "first"),
        Head("second", 0, (_offset(n, 1),), {"token": values}, "second"),
    )


def _table(name: str, size: int, v: int, answers: Mapping[tuple[int, int], int]) -> Neurons:
    """One neuron per pair of values of two heads."""
    first, second, out = ({} for _ in range(3))
    for neuron, ((a, b), answer) in enumerate(answers.items()):
        first[neuron, a], second[neuron, b], out[neuron, answer] = 1.0, 1.0, 1.0
    k = len(answers)
    reads = {"first": _rows(k, size, first), "second": _rows(k, size, second)}
    return Neurons(name, 1, reads, torch.full((k,), 1.5), {"output": _rows(k, v, out)})


def modular_addition() -> Program:
    """Two heads copy the numbers, and one neuron per pair of numbers writes their sum."""
    p, n = 5, 4
    v, equals = p + 2, p + 1
    answers = {(a, b): 1 + (a + b) % p for a in range(p) for b in range(p)}
    values = _rows(v, p, {(1 + a, a): 1.0 for a in range(p)})

    def pair(draw: Random, which: int) -> Pair:
        clean = [0, 1 + draw.randrange(p), 1 + draw.randrange(p), equals]
        corrupted = list(clean)
        corrupted[which] = draw.choice([1 + a for a in range(p) if 1 + a != clean[which]])
        answer, other = (answers[tokens[1] - 1, tokens[2] - 1] for tokens in (clean, corrupted))
        return _both(answer, other, clean, corrupted)

    layout = Layout(
        v,
        n,
        {"first": p, "second": p, "output": v},
        _two_heads(n, values),
        (_table("add", p, v, answers),),
        "output",
    )
    kinds = tuple(
        Kind(
            f"{side} number",
            f"tokens -> {side}.v, {side} -> add, add -> target",
            partial(pair, which=which),
        )
        for which, side in ((1, "first"), (2, "second"))
    )
    return Program("modular addition", "add two numbers modulo 5", layout, kinds)


def exclusive_or() -> Program:
    """Two heads copy the bits, and neurons compute whether they differ."""
    v, n, equals = 4, 4, 3
    answers = {(a, b): 1 + (a ^ b) for a in range(2) for b in range(2)}
    values = _rows(v, 2, {(1, 0): 1.0, (2, 1): 1.0})

    def pair(draw: Random, flipped: tuple[int, ...]) -> Pair:
        clean = [0, draw.choice((1, 2)), draw.choice((1, 2)), equals]
        corrupted = [3 - token if at in flipped else token for at, token in enumerate(clean)]
        answer, other = (answers[tokens[1] - 1, tokens[2] - 1] for tokens in (clean, corrupted))
        return Pair(tuple(clean), tuple(corrupted), answer, 3 - answer, other)

    first, second, end = "tokens -> first.v, first -> xor", "tokens -> second.v, second -> xor", "xor -> target"
    layout = Layout(
        v,
        n,
        {"first": 2, "second": 2, "output": v},
        _two_heads(n, values),
        (_table("xor", 2, v, answers),),
        "output",
    )
    kinds = (
        Kind("first bit", f"{first}, {end}", lambda draw: pair(draw, (1,))),
        Kind("second bit", f"{second}, {end}", lambda draw: pair(draw, (2,))),
        Kind("both bits", f"{first}, {second}, {end}", lambda draw: pair(draw, (1, 2)), "random sets"),
    )
    return Program("exclusive or", "say whether two bits differ", layout, kinds)


def _facts(v: int, answers: Mapping[tuple[int, int], int]) -> Neurons:
    """One neuron per subject and relation."""
    k = len(answers)
    return Neurons(
        "facts",
        1,
        {
            "subject": _rows(k, v, {(i, s): 1.0 for i, (s, _) in enumerate(answers)}),
            "token": _rows(k, v, {(i, r): 1.0 for i, (_, r) in enumerate(answers)}),
        },
        torch.full((k,), 1.5),
        {"output": _rows(k, v, dict.fromkeys(enumerate(answers.values()), 1.0))},
    )


def lookup() -> Program:
    """A head copies the subject to the relation's position, where neurons write the object (key-value memories, Geva et al. 2021)."""
    v, n = 13, 5
    subjects, relations, fillers = range(1, 5), range(5, 8), range(8, 9)
    table = Random(1)
    answers = {(s, r): 9 + table.randrange(4) for s in subjects for r in relations}
    head = Head(
        "subject",
        0,
        (_key("token", v, dict.fromkeys(subjects, 1.0)),),
        {"token": _only(v, subjects)},
        "subject",
    )
    neurons = _facts(v, answers)

    def pair(draw: Random, kind: str) -> Pair:
        while True:
            subject, relation, other = draw.choice(subjects), draw.choice(relations), None
            other = (draw.choice(subjects), relation) if kind == "subject" else (subject, draw.choice(relations))
            if answers[subject, relation] != answers[other]:
                break
        between = [draw.choice(fillers) for _ in range(n - 3)]
        clean, corrupted = ([0, s, *between, r] for s, r in ((subject, relation), other))
        return _both(answers[subject, relation], answers[other], clean, corrupted)

    kinds = (
        Kind(
            "subject",
            "tokens -> subject.v, subject -> facts, facts -> target",
            lambda draw: pair(draw, "subject"),
        ),
        Kind("relation", "tokens -> facts, facts -> target", lambda draw: pair(draw, "relation")),
    )
    return Program(
        "lookup",
        "name the object of a subject and a relation",
        Layout(v, n, {"subject": v, "output": v}, (head,), (neurons,), "output"),
        kinds,
    )


def _votes(name: str, sides: tuple[str, ...], needed: int, task: str, truth: Truth) -> Program:
    """Heads copy one flag each, and neurons compute whether `needed` or more are set."""
    n, v, neutral, flag, yes, no, end = len(sides) + 2, 6, 1, 2, 3, 4, 5
    heads = tuple(
        Head(side, 0, (_offset(n, len(sides) - at),), {"token": _rows(v, 1, {(flag, 0): 1.0})}, side)
        for at, side in enumerate(sides)
    )
    # The answer rises from 0 to 1 between needed - 1 and needed flags, and stays 1. The last neuron is always active.
    thresholds = torch.tensor([needed - 0.5, needed + 0.5, -0.5])
    reads = {side: torch.tensor([[1.0], [1.0], [0.0]]) for side in sides}
    writes = {"output": _rows(3, v, {(0, yes): 1.0, (1, yes): -2.0, (2, no): 0.5})}
    neurons = Neurons("decide", 1, reads, thresholds, writes)

    def flags(_: Random) -> Pair:
        clean, corrupted = ([0, *[token] * len(sides), end] for token in (flag, neutral))
        return _both(yes, no, clean, corrupted)

    edges = "".join(f"tokens -> {side}.v, {side} -> decide, " for side in sides) + "decide -> target"
    layout = Layout(v, n, {**dict.fromkeys(sides, 1), "output": v}, heads, (neurons,), "output")
    return Program(name, task, layout, (Kind("all flags", edges, flags, truth),))


def either() -> Program:
    """Neurons compute whether one of two flags is set; patched alone in the clean prompt, no vote has an effect."""
    return _votes("either", ("first", "second"), 1, "say whether either flag is set", "both runs")


def two_of_three() -> Program:
    """Neurons compute whether two of three flags are set; patched alone in either prompt, no vote has an effect."""
    return _votes("two of three", ("first", "second", "third"), 2, "say whether two flags are set", "random sets")


PROGRAMS: Mapping[str, Callable[[], Program]] = {
    make().name: make
    for make in (
        previous_token,
        induction,
        duplicate_token,
        indirect_object,
        majority,
        reverse,
        brackets,
        sort,
        modular_addition,
        exclusive_or,
        lookup,
        either,
        two_of_three,
    )
}
"""Functions that make the programs, by the program's name."""
