"""What cannot be edited, swept, validated or compared is refused: the class of the error, the value, and what would do."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tl_ffblock.errors import InputError, LayerError
from tl_ffblock.interventions import Edit, SamplePlan, difference, edit_point, knockout, measure_edits, removal
from tl_ffblock.metrics import logit

pytestmark = pytest.mark.wrong_types
N = 5
METRIC = logit(7, minus=9)
PLACES = {"name": [1, 3, 2], "subject": [2, 1, 0], "END": -1}


class Given:
    """What the calls are made of."""

    x = tiny.tokens("gpt2", N)
    texts = tuple(tiny.tokens("gpt2", 6 + seed, seed=seed) for seed in range(3))

    @property
    def m(self) -> Any:
        """The model."""
        return model_of("gpt2")

    def run(self, *lengths: int, layers: Any = None) -> Any:
        """Contributions of prompts."""
        return ffb.Contributions(self.m, [tiny.tokens("gpt2", n) for n in lengths or (N,)], layers=layers)

    def edit(self, query: int) -> Any:
        """What one edit is measured to do."""
        point = edit_point(self.run().model, -1, "AtbLnFf")
        return measure_edits(self.run(), [Edit(point.name, query, torch.ones(32))], METRIC)

    def sweep(self, *lengths: int, metric: Any = METRIC, **options: Any) -> Any:
        """A sweep of prompts."""
        return ffb.contribution_sweep(self.run(*lengths), metric, "Attn", **options)

    def named(self, **options: Any) -> Any:
        """A sweep of named positions of three prompts."""
        return self.sweep(4, 5, 4, **({"positions": PLACES, "layers": 0} | options))

    def validate(self, metric: Any = METRIC, **options: Any) -> Any:
        """A validation of three prompts."""
        return ffb.causal_validation(self.m, list(self.texts), metric, **({"layers": 0, "scope": "Attn"} | options))

    def patch(self, clean: Any, corrupted: Any, hooks: Any = ()) -> Any:
        """Three maps."""
        return ffb.patched_maps(self.m, clean, corrupted, fwd_hooks=list(hooks))

    def maps(self, n: int = N) -> Any:
        """Of some of the tokens."""
        return ffb.contribution_maps(self.m, self.x[:n])

    def part(self, layer: int) -> Any:
        """Vectors of a layer."""
        return ffb.decompose(self.m, self.x, layer=layer)


Row = tuple[Callable[[Given], Any], type[Exception], tuple[str, ...]]


def odd(call: Callable[[Given], Any], *said: str, error: type[Exception] = InputError) -> Row:
    """A call, the error that it raises, and what its message says."""
    return call, error, said


# fmt: off
ROWS: dict[str, Row] = {
    "a query beyond": odd(lambda g: g.run().subtract(0, "AtbLnFf", query=9), "query=9", "positions from -5 to 4"),
    "queries and keys exchanged": odd(lambda g: g.run().scale(2.0, 1, "Attn", query=[0, 1], key=[3, 4]), "query=[0, 1], key=[3, 4]", "Did you mean query=[3, 4], key=[0, 1]?"),
    "exchanged from the end": odd(lambda g: g.run().replace(g.run(), 1, "Attn", query=-4, key=-1), "no token reads a later one", "Did you mean query=-1, key=-4?"),
    "one head of several": odd(lambda g: g.run().subtract(0, "AtbLnFf", head=[1, 4]), "head=[1, 4]", "heads from -4 to 3 of a layer of 4"),
    "a layer not captured": odd(lambda g: g.run(layers=(0,)).subtract(1, "AtbLnFf"), "layer 1 was not cached", error=KeyError),
    "a layer beyond": odd(lambda g: g.run().vector(31, "AtbLnFf"), "no layer 31", "layers 0-2", error=LayerError),
    "a layer beyond, taken out": odd(lambda g: g.run().subtract(31, "AtbLnFf"), "no layer 31", "layers 0-2", error=LayerError),
    "a removal beyond": odd(lambda g: removal(g.run(), 3, "AtbLnFf", 1, 1), "no layer 3 in", error=LayerError),
    "a knockout beyond": odd(lambda g: knockout(g.run(), 3, 1, 1), "no layer 3 in", error=LayerError),
    "a removed key beyond": odd(lambda g: removal(g.run(), 1, "AtbLnFf", 1, 6), "key=6", "one position, from -5 to 4"),
    "an edit before the first": odd(lambda g: g.edit(-7), "query=-7", "one position"),
    "a name behind the norm": odd(lambda g: g.run().activation_name("AtbLn"), "AtbLn is changed at", ".hook_out"),
    "tokens of unequal prompts": odd(lambda g: g.run(4, 5, 4).tokens, "the prompts have 4, 5, 4 tokens"),
    "logits of unequal prompts": odd(lambda g: g.run(4, 5, 4).logits, "the prompts have 4, 5, 4 tokens"),
    "vectors of unequal prompts": odd(lambda g: g.run(4, 5, 4).vector(0, "Attn"), "the prompts have 4, 5, 4 tokens"),
    "a sweep's query beyond": odd(lambda g: g.sweep(queries=5), "queries=5"),
    "a sweep's layer beyond": odd(lambda g: g.sweep(layers=3), "3", error=LayerError),
    "a sweep of unequal prompts": odd(lambda g: g.sweep(4, 5, 4), "the prompts have 4, 5, 4 tokens: expected equally many, or named"),
    "a sweep's donor": odd(lambda g: g.named(donor=g.run(4)), "donor has prompts of 4 tokens"),
    "a sweep's query of no name": odd(lambda g: g.named(queries="verb"), "queries='verb'", "expected names of positions, 'name', 'subject', 'END'"),
    "a sweep's key of a number": odd(lambda g: g.named(keys=3), "keys=3", "expected names of positions"),
    "names without positions": odd(lambda g: g.sweep(queries="END"), "a name needs named positions"),
    "a sweep's head beyond": odd(lambda g: g.named(heads=7), "heads=7"),
    "a sweep's answers": odd(lambda g: g.named(metric=logit([7, 9])), "answers for 2 prompts", "there are 3: expected one entry"),
    "all logits of unequal prompts": odd(lambda g: g.named(metric=lambda logits: logits[:, -1, 0]), "4, 5, 4 tokens, and metric gets the logits of all of them at once"),
    "another metric": odd(lambda g: g.validate("entropy"), "metric='entropy'", 'expected "kl", "loss" or a function of logits'),
    "no prompts": odd(lambda g: ffb.causal_validation(g.m, []), "prompts is an empty list"),
    "a corrupted text": odd(lambda g: g.validate(corrupted="a text"), "prompts is a list of 3", "corrupted is one prompt"),
    "corrupted of another number": odd(lambda g: g.validate(corrupted=list(g.texts[:2])), "prompts is a list of 3, corrupted is a list of 2"),
    "corrupted of another length": odd(lambda g: g.validate(corrupted=list(g.texts[::-1])), "clean[0] has 6 tokens, corrupted[0] 8"),
    "a validation's scope": odd(lambda g: g.validate(scope="AtbFf"), "unknown scope"),
    "answers as words": odd(lambda g: g.validate(logit(" a", minus=" b")), "no tokenizer"),
    "too many answers": odd(lambda g: g.validate(logit([7] * 4)), "answers for 4 prompts", "there are 3: expected one entry"),
    "no cells": odd(lambda g: SamplePlan(n_cells=0), "n_cells=0"),
    "another effect": odd(lambda g: g.validate().correlation("AtbLn", "Attn"), "effect='AtbLn': expected one of Attn"),
    "other cells": odd(lambda g: g.validate().correlation("Attn", "Attn", cells="all"), "cells='all'", '"off-diagonal", "reachable"'),
    "patched lengths": odd(lambda g: g.patch(g.x, g.x[:4]), "clean has 5 tokens, corrupted 4"),
    "patched numbers": odd(lambda g: g.patch([g.x, g.x], [g.x]), "clean is a list of 2, corrupted is a list of 1"),
    "patched lengths of a pair": odd(lambda g: g.patch([g.x, g.x], [g.x.flip(0), g.x[:4]]), "clean[1] has 5 tokens, corrupted[1] 4"),
    "functions of other pairs": odd(lambda g: g.patch([g.x] * 2, [g.x] * 2, [lambda cache: []]), "1 functions for 2 pairs"),
    "a list and a text": odd(lambda g: g.patch(["a b c", "d e f"], "a b c"), "clean is a list of 2, corrupted is one prompt"),
    "a tensor of three": odd(lambda g: g.patch(g.x, g.x.expand(3, -1)), "clean is one prompt, corrupted is a list of 3"),
    "a difference of lengths": odd(lambda g: difference(g.maps(), g.maps(4)), "maps of 5 and of 4 tokens"),
    "a difference of layers": odd(lambda g: difference(g.part(0), g.part(1)), "expected the same layer"),
}
# fmt: on


@pytest.mark.parametrize("name", ROWS)
def test_what_cannot_be_done_is_refused_in_words(name: str) -> None:
    """By an error of the class that a caller would guess, which names the value and the remedy."""
    call, error, said = ROWS[name]
    with pytest.raises(error) as raised:
        call(Given())
    assert isinstance(raised.value, ffb.FFBlockError)
    assert [part for part in said if part not in str(raised.value)] == []
