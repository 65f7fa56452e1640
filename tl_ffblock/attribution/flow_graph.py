"""`ffb.flow_graph` (VISIT, Katz and Belinkov 2023): the residual stream of one position as a graph of vectors with attributions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex, TypeAlias, Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.attribute import KEEPS, AttributeOptions, Shares, open_attribution_run
from tl_ffblock.attribution.attribution import Attribution
from tl_ffblock.attribution.certificate import relative
from tl_ffblock.attribution.targets import Cotangents, Direction, Target, cotangents, for_prompts
from tl_ffblock.bridge.inputs import memory_given_back, prompt_of
from tl_ffblock.bridge.labels import label
from tl_ffblock.bridge.linearised import RULES
from tl_ffblock.bridge.runs import DEFAULTS, Ids, Run, Tokens
from tl_ffblock.bridge.traced import Traced, difference_of_logits, trace, with_gradients
from tl_ffblock.errors import CompletenessError, InputError, UnsupportedModelError, brief
from tl_ffblock.graphs.flow import Draft, FlowGraph, FlowNode, FlowVectors, LayerFlow, Pruning, read_vectors
from tl_ffblock.graphs.graph import GraphCertificate, GraphTarget
from tl_ffblock.layer.linear import LinearLayer
from tl_ffblock.layer.positions import one_position
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import INPUT, Attend
from tl_ffblock.metrics import logit
from tl_ffblock.signatures import spelled_out

FlowTargets: TypeAlias = str | SupportsIndex | Target | Sequence[str | SupportsIndex | Target] | None
"""A token, a metric, a direction, or several of them; None means the most probable token at the position."""
N_TOKENS = 5
"""Number of tokens per vector in its logit lens."""


@dataclass(frozen=True)
class Propagated:
    """A target with its attribution and its derivatives by the residual stream, at each layer's input and at the end.

    `token` is the token with the largest derivative of the target by its logit; None if the target reads no logits.
    """

    attribution: Attribution
    by_stream: Float[Tensor, "boundary pos d_model"]
    token: int | None


@spelled_out(AttributeOptions, DEFAULTS)
def flow_graph(
    model: Any,
    text: str | Ids | Tokens,
    *,
    layers: Sequence[int] | int = -1,
    position: SupportsIndex = -1,
    target: FlowTargets = None,
    pruning: Pruning | None = None,
    **options: Unpack[AttributeOptions],
) -> FlowGraph:
    """Graph of the vectors at one position in some layers; the incoming edges of a node sum to its vector.

    Nodes are those of Katz and Belinkov 2023: a layer's input, norms, queries, keys and values of heads, heads, rows of W_O,
    keys and values of the feed-forward's neurons, biases, sums, the layer's output. Every node has its norm and the logit lens
    of its vector: top tokens, entropy, and the target's rank and probability. Nodes and edges have the attribution of the
    target (`ffb.attribute`, rules "path"). A logit lens reading is a correlation: it does not show how the model uses the vector.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        text: A text, or token ids [pos].
        layers: A layer or consecutive layers, negative ones from the end.
        position: The position of the graph, negative ones from the end.
        target: A token, as text or id, whose logit at `position` is attributed; a metric such as
            `ffb.logit(" Mary", minus=" John")`; an `ffb.direction`; or a list of these. None means the most probable token at
            `position`, and no target for an encoder without a trained head.
        pruning: Thresholds of nodes and edges; `Pruning()` has the paper's, `Pruning.off()` keeps all.
        attention_mask: 1 at real tokens of a padded token tensor.
        token_type_ids: The segment of each token, for BERT.
        fwd_hooks: Hooks for this forward pass, as in `run_with_hooks`.
        rtol: Largest relative error accepted in the certificate.

    Returns:
        `FlowGraph`, with `to_dataframe`, `to_networkx`, `to_html` and `figure`.

    Raises:
        InputError: for input, layers, a position or a target that cannot be used.
        UnsupportedModelError: for models that cannot be decomposed.
        CompletenessError: if the edges into a node, or their attributions, do not sum to the node's.
    """
    run = open_attribution_run(model, text, layers=layers, extra=("query", "key"), **options)
    if len(run.sequences) != 1:
        raise InputError(f"flow_graph got {len(run.sequences)} texts: expected one.")
    if run.layers != tuple(range(run.layers[0], run.layers[-1] + 1)):
        raise InputError(f"layers={layers!r}: expected consecutive layers, such as range(10, 13).")
    row = one_position(position, len(run.sequences[0].labels), "position")
    shared = [] if target is None and not run.model.has_trained_head else propagated(run, target, row)
    try:
        return _graph(run, shared, row, pruning or Pruning())
    except UnsupportedModelError:  # a model without HookPoints for rotated queries and keys has no scores
        return _graph(replace(run, extra=frozenset()), shared, row, pruning or Pruning())


def _graph(run: Run, shared: list[Propagated], row: int, pruning: Pruning) -> FlowGraph:
    sizes = torch.tensor([abs(each.attribution.first_order) for each in shared], dtype=torch.float64)
    draft, layers_error = _drawn(run, shared, Draft(row, run.sequences[0].labels, sizes), pruning)
    vectors = [torch.stack(of_nodes) for of_nodes in zip(*draft.vectors, strict=True)]
    readings = read_vectors(run.model, vectors[0], [each.token for each in shared], N_TOKENS)
    tokens = [None if each.token is None else label(run.model, torch.tensor([each.token]))[0] for each in shared]
    source, target, edge_sizes, units, shares, of_edges = zip(*draft.edges, strict=True)
    return FlowGraph(
        model=run.model.name,
        labels=draft.labels,
        prompt=prompt_of(run.model, run.sequences[0]),
        position=row,
        layers=run.layers,
        targets=tuple(
            GraphTarget(each.attribution.target, each.attribution.value, token)
            for each, token in zip(shared, tokens, strict=True)
        ),
        nodes=tuple(replace(node, **reading) for node, reading in zip(draft.nodes, readings, strict=True)),
        ends=torch.tensor([source, target]).T,
        weights=torch.tensor(shares, dtype=torch.float64),
        sizes=torch.tensor(edge_sizes, dtype=torch.float64),
        units=units,
        certificate=_certificate(run, draft, shared, layers_error),
        vectors=FlowVectors(*(tensor.cpu() for tensor in (*vectors, torch.stack(of_edges)))),
    )


def _certificate(run: Run, draft: Draft, shared: list[Propagated], layers_error: float) -> GraphCertificate:
    """Measured errors of the graph.

    Raises:
        CompletenessError: if one is above the tolerance, with the node.
    """
    worst = int(torch.tensor(draft.errors).argmax())
    # Difference of the layer input's attributions from those of `ffb.attribute`.
    stream = [float(each.attribution.residual[run.layers[0], draft.position]) for each in shared]
    misses = [
        abs(own - expected) / max(abs(expected) + size, 1e-300)
        for own, expected, size in zip(draft.nodes[0].shares, stream, draft.sizes.tolist(), strict=True)
    ]
    certificates = [each.attribution.certificate for each in shared]
    errors = {
        "sums": draft.errors[worst],
        "shares": float(torch.tensor([0.0, *draft.errors_of_shares, *misses], dtype=torch.float64).max()),
        "layers": layers_error,
        "propagation": max(
            (max(c.forms, float(c.layer_inputs.max())) for c in certificates if c is not None), default=0.0
        ),
    }
    name, rtol = draft.nodes[worst].name, run.settings.rtol
    for what, error in (
        (f"the edges into {name} differ from its vector", errors["sums"]),
        ("vjps of the layers differ from the derivative of the backward pass", errors["layers"]),
        ("attributions of the edges into a node differ from its own", errors["shares"]),
    ):
        if not error <= rtol:
            cause = "Does one of your hooks edit the model inside a layer? " if run.is_hooked else ""
            raise CompletenessError(
                f"{run.model.name}: {what} by {error:.1e} (tolerance {rtol:.0e}). {cause}Half precision may need a higher rtol."
            )
    return GraphCertificate(errors, rtol, name)


def _drawn(run: Run, shared: list[Propagated], draft: Draft, pruning: Pruning) -> tuple[Draft, float]:
    """Graph of all layers, and the largest error of their vjps."""
    output, eps = [-1], run.model.eps(run.settings.dtype)

    def draw(record: LayerRecord, _: int) -> float:
        by, by_read, error = _derivatives(LinearLayer(record, run.settings), shared, draft.position)
        bound = run.model.layers[record.layer]
        weights = None if bound.is_recurrent else bound.query_keys(record.resid_pre.dtype, exact=False)
        if output[0] < 0:
            x = record.resid_pre[draft.position]
            name = f"L{record.layer}.resid"
            node = FlowNode(name=name, kind="input", layer=record.layer, position=draft.position, words="layer input")
            output[0] = draft.sum(node, x, by[INPUT], {})
        output[0] = LayerFlow(draft, record, weights, by, by_read, pruning, eps).draw(output[0])
        return error

    return draft, max(run.by_layer(draw)[0].values(), default=0.0)


def _derivatives(
    layer: LinearLayer, shared: list[Propagated], position: int
) -> tuple[dict[str, Float[Tensor, "target d"]], Float[Tensor, "target d"], float]:
    """Every target's derivatives at a position: by scope, by attention's input, and the error of the vjp."""
    x, number = layer.record.resid_pre, layer.record.layer
    (attend,) = (step.scope for step in layer.steps if isinstance(step.operation, Attend))
    streams = [each.by_stream[number : number + 2].to(x) for each in shared]
    found = [layer.vjp(by_output) for _, by_output in streams]
    errors = [
        float(relative((by[INPUT] - expected).norm(), expected.norm()))
        for by, (expected, _) in zip(found, streams, strict=True)
    ]

    def at_position(rows: list[Tensor]) -> Float[Tensor, "target d"]:
        return torch.stack([row[position] for row in rows]) if rows else x.new_zeros(0, x.shape[-1])

    names = [INPUT, *(step.scope for step in layer.steps)]
    by_scope = {name: at_position([by.get(name, torch.zeros_like(x)) for by in found]) for name in names}
    return by_scope, at_position([layer.vjp_attention(by[attend]) for by in found]), max(errors, default=0.0)


def propagated(run: Run, targets: FlowTargets, position: int) -> list[Propagated]:
    """Attribute targets: one forward pass, and one backward pass per target.

    Args:
        run: Model and one sequence.
        targets: The targets.
        position: Position at which a token's logit is read.

    Raises:
        InputError: for a target that cannot be read.
        CompletenessError: if attributions do not sum to a target.
    """
    difference = difference_of_logits(run.model, RULES["path"])
    with with_gradients(), memory_given_back(run.model, run.batches):
        traced = trace(run, run.batches[0], RULES["path"], frozenset(KEEPS["maps"]))
        asked = _asked(traced, targets, position)
        found = []
        for number, target in enumerate(asked):
            begin = cotangents(run, traced, for_prompts(target, 1))
            back = traced.backward(begin.tensor, begin.gradient, again=number + 1 < len(asked), read=begin.read)
            (shares,) = Shares.of_batch(run, traced, back, begin, ())
            token = _token_of(begin, traced, position, target)
            found.append(Propagated(shares.attribution(difference, Attribution), shares.by_stream(), token))
    return found


def _asked(traced: Traced, targets: FlowTargets, position: int) -> list[Target]:
    at = -1 if position == len(traced.batch.sequence(0)) - 1 else position
    if targets is None:
        return [logit(int(traced.batch.own(0, traced.logits)[position].argmax()), at=at)]
    given: list[Any] = list(targets) if isinstance(targets, Sequence) and not isinstance(targets, str) else [targets]
    if not given or any(isinstance(item, bool | float) for item in given):
        raise InputError(f"target={brief(targets)}: expected a token, a metric, a direction, or several of them.")
    return [logit(item, at=at) if isinstance(item, str | SupportsIndex) else item for item in given]


def _token_of(begin: Cotangents, traced: Traced, position: int, target: Target) -> int | None:
    """The token with the largest derivative of the target, at the position, or else where derivatives are largest."""
    if isinstance(target, Direction):
        return None
    gradient = traced.batch.own(0, begin.gradient)
    row = position if bool(gradient[position].any()) else int(gradient.abs().amax(dim=-1).argmax())
    token = int(gradient[row].argmax())
    return token if float(gradient[row, token]) > 0 else None
