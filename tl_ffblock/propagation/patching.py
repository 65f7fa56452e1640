"""`ffb.attribution_patching`: what a target would become if a clean run's tensors were a corrupted run's, to first order.

The estimate for a tensor a is `<a_corrupted - a_clean, df/da>` with the derivative by local rules in the clean run (Nanda
2023, with the model's gradient), or its mean over runs between the two: one backward pass gives it for all tensors.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, Unpack

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.ends import token_embedding_name
from tl_ffblock.bridge.runs import Ids, Run, Tokens
from tl_ffblock.bridge.slopes import RuleName, Rules
from tl_ffblock.bridge.traced import Traced, difference_of_logits, trace, with_gradients
from tl_ffblock.errors import InputError, ScopeKeyError, brief
from tl_ffblock.layer.positions import layer_number, whole_number
from tl_ffblock.propagation.attribute import AttributeOptions, open_attribution_run, read_rules
from tl_ffblock.propagation.certificate import refuse_forms
from tl_ffblock.propagation.edge_estimates import EdgeEstimates
from tl_ffblock.propagation.edges import KEEPS as OF_EDGES
from tl_ffblock.propagation.edges import EdgeSums
from tl_ffblock.propagation.patched_cells import estimated_cells
from tl_ffblock.propagation.targets import Target, bound_to_run, seeds, value_of
from tl_ffblock.results.scope_table import ScopeTable
from tl_ffblock.results.tokens import joined, shortened

if TYPE_CHECKING:
    import pandas

KEEPS = frozenset({"residual", "z", "mlp_out", "post"})
AskedEdges: TypeAlias = bool | Literal["positions"]
"""Whether edges are estimated, and if so by position."""


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class PatchingEstimates:
    """Estimated changes of a target, in its units, if one tensor of the clean run were the corrupted run's."""

    labels: tuple[str, ...]
    """The tokens, "clean→corrupted" where they differ."""
    target: str
    rules: RuleName
    clean: float
    """The target in the clean run."""
    corrupted: float
    """The target in the corrupted run."""
    residual: Float[Tensor, "boundary pos"]
    """The residual stream at each layer's input and at the end."""
    heads: Float[Tensor, "layer head pos"]
    """What each head gives before its output matrix."""
    mlps: Float[Tensor, "layer pos"]
    """What each feed-forward writes; 0 in models of attention alone."""
    neuron_shares: Mapping[int, Float[Tensor, "pos d_mlp"]]
    """By layer; none for a mixture of experts."""
    model: str = "model"
    cells: Mapping[str, Float[Tensor, "layer query key"]] = dataclasses.field(default_factory=dict)
    """By scope, where they were asked for."""
    edge_estimates: EdgeEstimates | None = None
    """Where they were asked for."""

    @property
    def edges(self) -> EdgeEstimates:
        """Edges from senders to receivers: `edges["a3.h5", "m7"]`.

        Raises:
            ScopeKeyError: if they were not asked for.
        """
        if self.edge_estimates is None:
            raise ScopeKeyError("no edges here: ask with edges=True.")
        return self.edge_estimates

    @property
    def maps(self) -> ScopeTable:
        """Each contribution of the layer maps: `maps["AtbLnFf", 9]` is `Float[query key]`.

        Raises:
            ScopeKeyError: if they were not asked for.
        """
        if not self.cells:
            raise ScopeKeyError("no maps here: ask with maps=True.")
        return ScopeTable(self.cells, range(len(self.heads)))

    def neurons(self, layer: int) -> Float[Tensor, "pos d_mlp"]:
        """Each neuron's output.

        Raises:
            LayerError: if there is no such layer.
            InputError: if it is a mixture of experts, or has no feed-forward.
        """
        number = layer_number(layer, len(self.heads))
        if number not in self.neuron_shares:
            raise InputError(f"layer {number} has no neurons of its own: a mixture of experts, or attention alone.")
        return self.neuron_shares[number]

    def to_dataframe(self) -> "pandas.DataFrame":
        """One row a component and position: kind ("residual", "head", "mlp"), layer, head (-1 for none), position, estimate."""
        import pandas as pd

        frames = []
        for kind, table in (("residual", self.residual), ("mlp", self.mlps), ("head", self.heads)):
            index = np.indices(tuple(table.shape)).reshape(table.ndim, -1)
            head = index[1] if kind == "head" else np.full(index.shape[1], -1)
            columns = {"kind": kind, "layer": index[0], "head": head, "position": index[-1]}
            tokens = [self.labels[position] for position in index[-1]]
            frames.append(pd.DataFrame({**columns, "token": tokens, "estimate": table.reshape(-1).numpy()}))
        return pd.concat(frames, ignore_index=True)

    def __repr__(self) -> str:
        layer, head, position = np.unravel_index(int(self.heads.abs().argmax()), tuple(self.heads.shape))
        return "\n".join(
            [
                f"PatchingEstimates: {self.target} {self.clean:.4g} → {self.corrupted:.4g} of {self.model}, rules={self.rules!r}",
                f"  text          {shortened(self.labels)}",
                f"  embeddings    {float(self.residual[0].sum()):+.3g} of {self.corrupted - self.clean:+.3g}",
                f"  largest head  head {head} of layer {layer} at {position} {self.labels[position]!r}: "
                f"{float(self.heads[layer, head, position]):+.3g}",
            ]
        )


def attribution_patching(
    model: Any,
    clean: str | Ids | Tokens,
    corrupted: str | Ids | Tokens,
    target: Target,
    *,
    rules: RuleName = "patching",
    steps: SupportsIndex = 1,
    maps: bool = False,
    edges: AskedEdges = False,
    **options: Unpack[AttributeOptions],
) -> PatchingEstimates:
    """How a target would change if a head, a feed-forward, a neuron or the residual stream were another run's, estimated.

    `rules="gradient"` is attribution patching as it is known; `"patching"` freezes norm scales and shares activations, which
    repairs the estimates of feed-forwards and of the residual stream. With `steps` above 1 the derivative is the mean of
    those at Gauss-Legendre nodes between the runs, whose token embeddings go from clean to corrupted on a straight line; one
    more forward and backward pass each. An estimate is no measurement: patch what matters.

    Args:
        model: As in `ffb.attribute`.
        clean: A text or token ids.
        corrupted: One of equally many tokens.
        target: As in `ffb.attribute`; what compares with a run, `ffb.kl_divergence()`, compares with the clean one.
        rules: "patching", "path" or "gradient".
        steps: Runs whose derivatives are averaged; 1 is the clean run alone.
        maps: Whether every contribution of the layer maps is estimated, too (not with rules="gradient"); two more forward
            passes, and two walks through each layer a scope.
        edges: Whether edges are estimated, too, from every sender (embeddings, heads, feed-forwards) to every later receiver
            (query, key and value inputs of heads, feed-forwards, the target): edge attribution patching, with steps EAP-IG.
            Summed over positions, or with "positions" one number a position.
        **options: As in `ffb.attribute`: token_type_ids, fwd_hooks, rtol.

    Raises:
        InputError: for input that cannot be used, prompts of different lengths among it.
        FFBlockError: whatever else `ffb.attribute` raises.
    """
    number, chosen = _read_options(rules, steps, maps, edges)
    runs = [open_attribution_run(model, _one(prompt), **options) for prompt in (clean, corrupted)]
    _refuse_other_inputs(runs)
    difference_of_logits(runs[0].model, chosen.name)
    with with_gradients():
        keeps = KEEPS | OF_EDGES if edges else KEEPS
        traced = [_traced(run, chosen, keeps) for run in runs]
        target = bound_to_run(runs[0], traced[0], target)
        ends = [value_of(run, of_run, target) for run, of_run in zip(runs, traced, strict=True)]
        sums = EdgeSums(runs[0], *traced, by_position=edges == "positions") if edges else None
        derivatives = _mean_derivatives(runs[0], traced, target, number, sums)
        change = {key: traced[1].tape.kept[key].detach() - traced[0].tape.kept[key].detach() for key in derivatives}
        shares = {key: (change[key] * derivatives[key]) for key in derivatives}
    estimates = _estimates(runs, chosen.name, ends, shares)
    if sums is not None:
        estimates = dataclasses.replace(estimates, edge_estimates=sums.labelled(estimates.labels, estimates.target))
    if not maps:
        return estimates
    by_stream = {layer: by[0].detach() for (name, layer), by in derivatives.items() if name == "residual"}
    return dataclasses.replace(estimates, cells=estimated_cells(runs[0], runs[1], by_stream))


def _read_options(rules: RuleName, steps: SupportsIndex, maps: bool, edges: AskedEdges) -> tuple[int, Rules]:
    number, chosen = whole_number(steps, "steps", at_least=1), read_rules(rules)
    if edges not in (True, False, "positions"):
        raise InputError(f'edges={brief(edges)}: expected True, False or "positions".')
    if maps and not (chosen.norms and chosen.feed_forward):
        raise InputError(
            f'maps=True with rules={rules!r}: layer maps share activations, so do only "path" and "patching".'
        )
    return number, chosen


def _refuse_other_inputs(runs: Sequence[Run]) -> None:
    """Two prompts of equally many tokens, without padding."""
    for name, run in zip(("clean", "corrupted"), runs, strict=True):
        if len(run.sequences) != 1:
            raise InputError(f"{name} holds {len(run.sequences)} prompts: expected one; call once for each pair.")
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
    runs: list[Run], rules: RuleName, ends: list[tuple[str, float]], shares: Mapping[tuple[str, int], Tensor]
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
        target=ends[0][0],
        rules=rules,
        clean=ends[0][1],
        corrupted=ends[1][1],
        residual=torch.stack([summed("residual", layer) for layer in range(n_layers + 1)]),
        heads=torch.stack([shares["z", layer][0].to(wide).sum(dim=-1).T.cpu() for layer in range(n_layers)]),
        mlps=torch.stack([summed("mlp_out", layer) for layer in range(n_layers)]),
        neuron_shares={
            layer: shares["post", layer].to(wide).reshape(n_positions, -1).cpu()
            for layer in range(n_layers)
            if ("post", layer) in shares
        },
        model=runs[0].model.name,
    )
