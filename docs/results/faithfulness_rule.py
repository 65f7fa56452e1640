"""A rule of our own for what a removal by `mask` does, and the candidates it was chosen from on BLiMP.

Nobody but token j itself attends to j any more. A head's output at position i, `z_i = sum_j P_ij v_j`, is then, with its
scores as they were,

    z_i without j = (z_i - P_ij v_j) / (1 - P_ij)        so that it falls by        P_ij / (1 - P_ij) (v_j - z_i).

With g_i the target's derivative by z_i (rules of `ffb.attribute`) the target falls to first order by

    score_j = sum over layers, heads and i != j of  P_ij / (1 - P_ij) <g_i, v_j - z_i>.

`ffb.attribute(..., of="masking").masking` gives it. Scores do not sum to the target: they estimate what is lost, each for itself.
In a model that is one layer of attention they are what is lost. Candidates are made of `edges`, `P_ij <g_i, v_j>`, and `heads`,
`<g_i, z_i>`.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

import tl_ffblock as ffb
from docs.results.faithfulness_sets import Example
from tl_ffblock.attribution.attribution import Attribution
from tl_ffblock.bridge.linearised import RuleName

Candidate: TypeAlias = Callable[[Mapping[str, Attribution], Tensor], Tensor]
"""A score for every token, by the attributions of every rule and the pattern [layer head query key]."""
RULES: tuple[RuleName, ...] = ("path", "patching", "gradient")
NEARLY_ALL = 1e-3
"""What is left of a pattern where a head looks at one token alone, at least; `Attribution.masking` sums the others' weights."""


def hidden_keys(model: Any, example: Example) -> Tensor:
    """The rule that was chosen: at once, by the derivatives of `path`."""
    return ffb.attribute(model, example.tokens, example.target, of="masking").masking


def path_and_hidden_keys(model: Any, example: Example) -> Tensor:
    """The second that was chosen: what `path` gives to tokens, plus what they lose by the derivatives of `patching`."""
    path = ffb.attribute(model, example.tokens, example.target, of=())
    return (
        path.token_attributions
        + ffb.attribute(model, example.tokens, example.target, rules="patching", of="masking").masking
    )


def entering(result: Attribution) -> Tensor:
    """What enters at every position."""
    return (result.tokens + result.positions + result.token_types).double()


def pattern_of(model: Any, example: Example) -> Tensor:
    """Attention [layer head query key]."""
    return ffb.attention_maps(model, example.tokens).values.cpu().double()


def when_hidden(result: Attribution, pattern: Tensor, *, at_once: bool) -> Tensor:
    """What the target loses without each key; not `at_once` by its derivative, as if all tokens were to go a little."""
    lost = result.edges.double() - pattern * result.heads.double()[..., None]
    if at_once:
        lost = lost / (1 - pattern).clamp(min=NEARLY_ALL)
    return of_keys(lost)


def of_keys(edges: Tensor) -> Tensor:
    """Sums over layers, heads and queries but the token itself."""
    return (edges * (1 - torch.eye(edges.shape[-1], dtype=edges.dtype))).sum(dim=(0, 1, 2))


def _tokens(rules: str) -> Candidate:
    return lambda results, pattern: entering(results[rules])


def _hidden(rules: str, at_once: bool) -> Candidate:
    return lambda results, pattern: when_hidden(results[rules], pattern, at_once=at_once)


def _values(rules: str) -> Candidate:
    return lambda results, pattern: of_keys(results[rules].edges.double())


def _mean(results: Mapping[str, Attribution], pattern: Tensor) -> Tensor:
    return _tokens("path")(results, pattern) + when_hidden(results["patching"], pattern, at_once=True)


CANDIDATES: dict[str, Candidate] = {
    **{f"tokens, {rules}": _tokens(rules) for rules in RULES},
    **{f"hidden at once, {rules}": _hidden(rules, True) for rules in RULES},
    **{f"hidden, to first order, {rules}": _hidden(rules, False) for rules in RULES},
    **{f"values alone, {rules}": _values(rules) for rules in RULES},
    "tokens of path + hidden at once of patching": _mean,
}
"""By name; the first is what `path` says today."""
