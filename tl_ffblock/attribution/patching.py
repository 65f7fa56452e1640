"""`ffb.attribution_patching`: what a target would become if a clean run's tensors were a corrupted run's, to first order.

The estimate for a tensor a is `<a_corrupted - a_clean, df/da>` with the derivative by local rules in the clean run (Nanda
2023, with the model's gradient), or its mean over runs between the two: one backward pass gives it for all tensors.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias, Unpack, overload

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.attribute import DEFAULTS, AttributeOptions, open_attribution_run, read_rules
from tl_ffblock.attribution.certificate import refuse_forms
from tl_ffblock.attribution.edges import KEEPS as OF_EDGES
from tl_ffblock.attribution.edges import EdgeSums
from tl_ffblock.attribution.patching_estimates import PatchingEstimates
from tl_ffblock.attribution.signed_maps import estimated_cells
from tl_ffblock.attribution.targets import ReadTarget, Target, bound_to_run, read_target, seeds
from tl_ffblock.bridge.inputs import is_single
from tl_ffblock.bridge.linearised import RuleName, Rules, token_embedding_name
from tl_ffblock.bridge.model import identify
from tl_ffblock.bridge.runs import Ids, Run, Texts, Tokens
from tl_ffblock.bridge.traced import Traced, difference_of_logits, trace, with_gradients
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.progress import Progress
from tl_ffblock.results.tokens import joined
from tl_ffblock.signatures import spelled_out

KEEPS = frozenset({"residual", "z", "mlp_out", "post"})
AskedEdges: TypeAlias = bool | Literal["positions"]
"""Whether edges are estimated, and if so by position."""


@overload
def attribution_patching(
    model: Any,
    clean: str | Ids,
    corrupted: str | Ids,
    target: Target,
    *,
    rules: RuleName = "patching",
    steps: SupportsIndex = 1,
    maps: bool = False,
    edges: AskedEdges = False,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> PatchingEstimates: ...
@overload
def attribution_patching(
    model: Any,
    clean: Texts,
    corrupted: Texts,
    target: Target,
    *,
    rules: RuleName = "patching",
    steps: SupportsIndex = 1,
    maps: bool = False,
    edges: AskedEdges = False,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> list[PatchingEstimates]: ...
@overload
def attribution_patching(
    model: Any,
    clean: Tokens,
    corrupted: Tokens,
    target: Target,
    *,
    rules: RuleName = "patching",
    steps: SupportsIndex = 1,
    maps: bool = False,
    edges: AskedEdges = False,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> Any: ...
@spelled_out(AttributeOptions, DEFAULTS)
def attribution_patching(
    model: Any,
    clean: str | Texts | Ids | Tokens,
    corrupted: str | Texts | Ids | Tokens,
    target: Target,
    *,
    rules: RuleName = "patching",
    steps: SupportsIndex = 1,
    maps: bool = False,
    edges: AskedEdges = False,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> PatchingEstimates | list[PatchingEstimates]:
    """How a target would change if a head, a feed-forward, a neuron or the residual stream were another run's, estimated.

    `rules="gradient"` is attribution patching as it is known; `"patching"` freezes norm scales and shares activations, after
    which estimates of feed-forwards and of the residual stream follow the measured ones far better. In size those of early
    layers can still be a tenth of what patching does: what the embeddings' estimates sum to, beside the whole change, tells
    (`print` shows it). With `steps` above 1 the derivative is the mean of those at Gauss-Legendre nodes between the runs,
    whose token embeddings go from clean to corrupted on a straight line; one more forward and backward pass each, and nearer.
    An estimate is no measurement: patch what matters.

    Args:
        model: As in `ffb.attribute`.
        clean: A text or token ids, or a list of texts or a [batch, pos] tensor: a prompt of each pair.
        corrupted: The other prompt of each pair, of equally many tokens.
        target: As in `ffb.attribute`; what compares with a run, `ffb.kl_divergence()`, compares with the clean one.
        rules: "patching", "path" or "gradient".
        steps: Runs whose derivatives are averaged; 1 is the clean run alone.
        maps: Whether every contribution of the layer maps is estimated, too (not with rules="gradient"); two more forward
            passes, and two walks through each layer a scope.
        edges: Whether edges are estimated, too, from every sender (embeddings, heads, feed-forwards) to every later receiver
            (query, key and value inputs of heads, feed-forwards, the target): edge attribution patching, with steps EAP-IG.
            Summed over positions, or with "positions" one number a position.
        progress: Whether a long call shows a bar at a terminal or in a notebook.
        **options: As in `ffb.attribute`: attention_mask (of ones alone), token_type_ids, fwd_hooks, rtol.

    Returns:
        One result for two prompts; a list of them for lists, pair by pair.

    Raises:
        InputError: for input that cannot be used, pairs of different lengths among it.
        FFBlockError: whatever else `ffb.attribute` raises.
    """
    asked = _Asked.read(rules, steps, maps, edges)
    known = identify(model)
    given = [_one(prompts) for prompts in (clean, corrupted)]
    single = [is_single(prompts) for prompts in given]
    if all(single):
        return asked.estimates([open_attribution_run(known, prompt, **options) for prompt in given], target)
    pairs = _pairs(given, single)
    results = []
    with Progress("attribution patching", len(pairs), "pairs", shown=progress) as bar:
        for number, pair in enumerate(pairs):
            of_pair = options | {
                name: rows[number] for name, rows in options.items() if isinstance(rows, Tensor) and rows.ndim == 2
            }
            runs = [open_attribution_run(known, prompt, **of_pair) for prompt in pair]
            results.append(asked.estimates(runs, target, number, len(pairs)))
            bar.step()
    return results


@dataclasses.dataclass(frozen=True)
class _Asked:
    """What is estimated, and how."""

    rules: Rules
    steps: int
    maps: bool
    edges: AskedEdges

    @classmethod
    def read(cls, rules: RuleName, steps: SupportsIndex, maps: bool, edges: AskedEdges) -> "_Asked":
        number, chosen = whole_number(steps, "steps", at_least=1), read_rules(rules)
        if edges not in (True, False, "positions"):
            raise InputError(f'edges={brief(edges)}: expected True, False or "positions".')
        if maps and not (chosen.norms and chosen.feed_forward):
            raise InputError(
                f'maps=True with rules={rules!r}: layer maps share activations, so do only "path" and "patching".'
            )
        return cls(chosen, number, maps, edges)

    def estimates(self, runs: list[Run], target: Target, number: int = 0, of: int = 1) -> PatchingEstimates:
        """Those of one pair, the clean run first, which is number `number` of so many that the target has answers for."""
        _refuse_other_inputs(runs)
        difference_of_logits(runs[0].model, self.rules.name)
        with with_gradients():
            keeps = KEEPS | OF_EDGES if self.edges else KEEPS
            traced = [_traced(run, self.rules, keeps) for run in runs]
            target = bound_to_run(runs[0], traced[0], target, number, of)
            ends = [read_target(run, of_run, target) for run, of_run in zip(runs, traced, strict=True)]
            sums = EdgeSums(runs[0], *traced, by_position=self.edges == "positions") if self.edges else None
            derivatives = _mean_derivatives(runs[0], traced, target, self.steps, sums)
            change = {key: traced[1].tape.kept[key].detach() - traced[0].tape.kept[key].detach() for key in derivatives}
            shares = {key: (change[key] * derivatives[key]) for key in derivatives}
        estimates = dataclasses.replace(_estimates(runs, self.rules.name, ends, shares), steps=self.steps)
        if sums is not None:
            edges = sums.labelled(estimates.labels, estimates.target)
            estimates = dataclasses.replace(estimates, edge_estimates=edges)
        if not self.maps:
            return estimates
        by_stream = {layer: by[0].detach() for (name, layer), by in derivatives.items() if name == "residual"}
        return dataclasses.replace(estimates, cells=estimated_cells(runs[0], runs[1], by_stream))


def _pairs(given: Sequence[Any], single: Sequence[bool]) -> list[tuple[Any, Any]]:
    """A clean and a corrupted prompt each.

    Raises:
        InputError: if one is a prompt and the other a list, or they are of different lengths, or empty.
    """
    rows = [[prompts] if alone else list(prompts) for prompts, alone in zip(given, single, strict=True)]
    counts = [len(of_side) for of_side in rows]
    if any(single) or counts[0] != counts[1] or not counts[0]:
        raise InputError(
            f"clean holds {_prompts(counts[0], single[0])}, corrupted {_prompts(counts[1], single[1])}: expected two prompts, or two lists of "
            "equally many, each clean prompt with its corrupted one."
        )
    return list(zip(*rows, strict=True))


def _prompts(count: int, single: bool) -> str:
    return "one prompt" if single else f"a list of {count}"


def _refuse_other_inputs(runs: Sequence[Run]) -> None:
    """Two prompts of equally many tokens, without padding."""
    for name, run in zip(("clean", "corrupted"), runs, strict=True):
        if run.batches[0].mask is not None:
            raise InputError(f"attention_mask hides tokens of {name}: give the prompt without padding.")
    lengths = [len(run.sequences[0].tokens) for run in runs]
    if lengths[0] != lengths[1]:
        raise InputError(
            f"clean and corrupted have {lengths[0]} and {lengths[1]} tokens: expected two prompts of equally many."
        )


def _one(prompt: Any) -> Any:
    return prompt[0] if isinstance(prompt, Tensor) and prompt.ndim == 2 and len(prompt) == 1 else prompt


def _traced(run: Run, rules: Rules, keeps: frozenset[str]) -> Traced:
    """A run of one prompt, whose local forms are the model's own tensors."""
    traced = trace(run, run.batches[0], rules, keeps)
    refuse_forms(traced.tape.gaps_of(0), run.settings.rtol, run.model.name, rules.name)
    return traced


def _mean_derivatives(
    run: Run, traced: list[Traced], target: Target, steps: int, sums: EdgeSums | None
) -> dict[tuple[str, int], Float[Tensor, "..."]]:
    """The target's derivatives by every kept tensor, their mean on the way from the clean run to the corrupted one."""
    total: dict[tuple[str, int], Tensor] = {}
    for of_run, weight in _on_the_way(run, traced, steps):
        begin = seeds(run, of_run, target)
        derivatives = of_run.backward(begin.tensor, begin.gradient).kept
        if sums is not None:
            sums.add(of_run, derivatives, begin.layer, weight)
        for key, derivative in derivatives.items():
            total[key] = total.get(key, torch.zeros_like(derivative)) + weight * derivative
    return total


def _on_the_way(run: Run, traced: list[Traced], steps: int) -> Iterator[tuple[Traced, float]]:
    """Runs from the clean one to the corrupted one, with weights; the clean one alone where there is one step."""
    if steps == 1:
        yield traced[0], 1.0
        return
    clean, corrupted = (of_run.tape.embedded for of_run in traced)
    assert clean is not None and corrupted is not None, "every run embeds its tokens"
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        between = torch.lerp(clean, corrupted, float(node))
        hook = (token_embedding_name(run.model), lambda tensor, hook, between=between: tensor * 0 + between)
        there = dataclasses.replace(run, fwd_hooks=(*run.fwd_hooks, hook))
        yield _traced(there, traced[0].rules, traced[0].tape.keeps), float(weight)


def _estimates(
    runs: list[Run],
    rules: RuleName,
    ends: list[ReadTarget],
    shares: Mapping[tuple[str, int], Tensor],
) -> PatchingEstimates:
    n_layers, wide = runs[0].model.n_layers, runs[0].settings.dtype
    n_positions = len(runs[0].sequences[0].tokens)

    def summed(name: str, layer: int) -> Tensor:
        if (name, layer) not in shares:
            return torch.zeros(n_positions, dtype=wide)
        return shares[name, layer].to(wide).reshape(n_positions, -1).sum(dim=-1).cpu()

    pairs = zip(*(run.sequences[0].labels for run in runs), strict=True)
    return PatchingEstimates(
        labels=tuple(joined(pair, "→") for pair in pairs),
        target=ends[0].in_words,
        quantity=ends[0].quantity,
        rules=rules,
        clean=ends[0].value,
        corrupted=ends[1].value,
        residual=torch.stack([summed("residual", layer) for layer in range(n_layers + 1)]),
        heads=torch.stack([shares["z", layer][0].to(wide).sum(dim=-1).T.cpu() for layer in range(n_layers)]),
        mlps=torch.stack([summed("mlp_out", layer) for layer in range(n_layers)]),
        neuron_shares={
            layer: shares["post", layer].to(wide).reshape(n_positions, -1).cpu()
            for layer in range(n_layers)
            if ("post", layer) in shares
        },
        model=runs[0].model.name,
        fingerprint=runs[0].model.fingerprint,
    )
