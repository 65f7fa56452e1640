"""Values of neurons as tokens, and the composition of a layer's output from neurons (Geva et al. 2021, sections 4 and 5).

A neuron's value is a direction of the residual stream that does not depend on the input. With a norm inside the branch
(sandwich, norm_after) it is the direction before that norm.

Agreement: is the token after a neuron's triggers the one that its value promotes?
Composition: a layer's output is a sum over neurons. Is its top token that of one of them?
Refinement: how does the feed-forward's output change the top token of the residual stream?
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tl_ffblock.bridge.inputs import single_token
from tl_ffblock.bridge.labels import label
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.bridge.readout import Reading, read_out
from tl_ffblock.bridge.runs import settings_of
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.neurons import neuron_values
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.memories.names import Cells, Memories, MemoryLike, MemoryTable, named_table, select_memories
from tl_ffblock.memories.triggers import Sign, Triggers
from tl_ffblock.signatures import strict

ActiveRule: TypeAlias = Literal["positive", "mass"]
"""Which neurons count as active: "positive" those with `m_i > 0`, the paper's rule, for ReLU; "mass" the smallest set with 90 % of
`sum_i |m_i| ||v_i||`, for activations that are never exactly zero (GELU, gated)."""
MASS = 0.9
OUTCOMES = ("residual", "feed-forward", "agreement", "composition")
"""Whose top token that of the sum is: the residual's, the feed-forward's, both, or neither (a compromise)."""
_CHUNK = 256
"""Number of values per product with the unembedding."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class ValueTokens(MemoryTable):
    """Tokens that neurons promote and demote."""

    reading: Reading
    sign: Sign
    """"negative" reads `-v`, the direction of a negative coefficient."""
    top_ids: Int[np.ndarray, "memory rank"]
    """Largest logit first."""
    bottom_ids: Int[np.ndarray, "memory rank"]
    """Smallest logit first."""
    probability: Float[np.ndarray, " memory"]
    """Probability of the top token in the softmax of the read-out."""
    labels: dict[int, str]
    """Text of these ids."""
    target_ranks: Int[np.ndarray, "memory target"]
    """1 for the top token; no column without targets."""
    targets: tuple[str, ...] = ()
    fingerprint: str = ""
    """Fingerprint of the model's weights; empty if it is not known."""

    def top(self, memory: MemoryLike) -> tuple[str, ...]:
        """Tokens with the largest logits."""
        return self._labelled(self.top_ids[self.row_of(memory)])

    def bottom(self, memory: MemoryLike) -> tuple[str, ...]:
        """Tokens with the smallest logits."""
        return self._labelled(self.bottom_ids[self.row_of(memory)])

    def to_dataframe(self) -> pd.DataFrame:
        """One row per neuron."""
        sides = {"top": self.top_ids, "bottom": self.bottom_ids}
        columns = {name: [" ".join(map(repr, self._labelled(row))) for row in ids] for name, ids in sides.items()}
        ranks = {f"rank of {target!r}": self.target_ranks[:, n] for n, target in enumerate(self.targets)}
        return named_table(self.memories, {"probability": self.probability.astype(float), **columns, **ranks})

    def _labelled(self, ids: Int[np.ndarray, " rank"]) -> tuple[str, ...]:
        return tuple(self.labels[token] for token in ids.tolist())


@strict
def value_tokens(
    model: Any,
    *,
    memories: Memories = None,
    layers: Sequence[int] | int | None = None,
    reading: Reading = "final_norm",
    sign: Sign = "positive",
    k: int = 10,
    targets: Sequence[str | int] = (),
) -> ValueTokens:
    """Tokens that neurons promote and demote, by the model's final norm and unembedding or by the unembedding alone.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        memories: Names of neurons such as "12:305".
        layers: Layers with all their neurons; without names and layers, all layers.
        reading: "final_norm": as the model reads its last layer's output (an encoder by its masked-language-model head);
            "direction": `v W_U` alone, as in the paper.
        sign: "negative" reads `-v`.
        k: Number of tokens at either end.
        targets: Tokens whose ranks are computed, as single-token texts or ids.

    Raises:
        InputError: for memories, tokens or options that cannot be used.
        UnsupportedModelError: for a model whose vectors cannot be read as tokens, such as a sentence encoder.
    """
    known = identify(model)
    cells = select_memories(known, memories, layers)
    if isinstance(targets, str) or not isinstance(targets, Iterable):
        raise InputError(f"targets={brief(targets)}: expected a list of tokens, such as [{targets!r}].")
    readout, target_ids = read_out(known, reading), [single_token(known, target) for target in targets]
    tops, bottoms, probabilities, ranks = [], [], [], []
    for logits in readout.in_chunks(_value_vectors(known, cells, sign), _CHUNK):
        if whole_number(k, "k", at_least=1) > logits.shape[-1]:
            raise InputError(f"k={k}: the vocabulary has {logits.shape[-1]} tokens; expected at most as many.")
        if beyond := [token for token in target_ids if not 0 <= token < logits.shape[-1]]:
            raise InputError(f"targets: token id {beyond[0]}; the vocabulary has ids 0 to {logits.shape[-1] - 1}.")
        tops.append(logits.topk(k).indices.cpu())
        bottoms.append(logits.topk(k, largest=False).indices.cpu())
        wide = logits.float()
        probabilities.append((wide.amax(-1) - wide.logsumexp(-1)).exp().cpu())
        # 1 for the largest logit; equal ones share the better rank.
        ranks.append(1 + (logits[:, None] > logits[:, target_ids, None]).sum(dim=-1).cpu())
    top_ids, bottom_ids = torch.cat(tops), torch.cat(bottoms)
    named = torch.from_numpy(np.unique(torch.cat([top_ids, bottom_ids]).numpy()))
    return ValueTokens(
        memories=cells.names,
        reading=reading,
        sign=sign,
        top_ids=top_ids.numpy(),
        bottom_ids=bottom_ids.numpy(),
        probability=torch.cat(probabilities).numpy(),
        labels=dict(zip(named.tolist(), label(known, named), strict=True)),
        target_ranks=torch.cat(ranks).numpy(),
        targets=tuple(map(str, targets)),
        fingerprint=known.fingerprint,
    )


@torch.no_grad()
def value_ranks(
    model: Model, cells: Cells, sign: Sign, reading: Reading, tokens: Int[np.ndarray, " memory"]
) -> Int[np.ndarray, " memory"]:
    """The rank of one token of each memory among those that its value promotes: 1 for the top token, -1 where the token is -1.

    Equal logits share the better rank.
    """
    ranks, chunks = [], torch.split(torch.as_tensor(tokens).long(), _CHUNK)
    for chosen, logits in zip(
        chunks, read_out(model, reading).in_chunks(_value_vectors(model, cells, sign), _CHUNK), strict=True
    ):
        own = logits.gather(1, chosen.clamp(min=0).to(logits.device)[:, None])
        ranks.append(torch.where(chosen >= 0, 1 + (logits > own).sum(dim=-1).cpu(), -1))
    return torch.cat(ranks).numpy()


def _value_vectors(model: Model, cells: Cells, sign: Sign) -> Float[Tensor, "memory d_model"]:
    dtype = settings_of(model, {}).dtype
    by_layer = [
        neuron_values(model.layers[layer].read(dtype))[cells.numbers[cells.rows(layer)]] for layer in cells.layers
    ]
    return cells.in_order(torch.cat(by_layer)) * (1 if sign == "positive" else -1)


@strict
def agreement(triggers: Triggers, values: ValueTokens) -> pd.DataFrame:
    """Whether the token after a memory's triggers is the one its value promotes most, one row per memory.

    Columns: `agrees`, of the first trigger (the paper's agreement); `precision`, the share of all its triggers that a
    token follows. Both are NaN where none does.

    Args:
        triggers: Of a causal language model.
        values: Of the same memories, of the sign of the triggers.

    Raises:
        InputError: if they are of other memories or another sign, or of an encoder, which reads the next token, too.
    """
    values = of_same_memories(triggers, values)
    followed, agrees = agreeing(triggers.next_ids, values.top_ids[:, 0])
    with np.errstate(invalid="ignore"):
        precision = agrees.sum(axis=1) / followed.sum(axis=1)
    first = np.where(followed[:, 0], agrees[:, 0], np.nan)
    return named_table(triggers.memories, {"agrees": first, "precision": precision, "probability": values.probability})


def of_same_memories(triggers: Triggers, values: ValueTokens) -> ValueTokens:
    """The values in the order of the triggers' memories; refuses triggers whose next tokens say nothing about them.

    Raises:
        InputError: if they are of other memories or another sign, or of an encoder.
    """
    if not triggers.causal:
        raise InputError(
            "an encoder has read the token after a trigger: agreement with it says nothing about a prediction."
        )
    if set(triggers.memories) != set(values.memories) or triggers.sign != values.sign:
        raise InputError("triggers and values are of other memories or another sign; make both of the same.")
    if triggers.fingerprint and values.fingerprint and triggers.fingerprint != values.fingerprint:
        raise InputError(
            f"triggers and values are of two models (fingerprints of their weights {triggers.fingerprint} and "
            f"{values.fingerprint}): make both of the same model, as it is now."
        )
    rows = [values.memories.index(name) for name in triggers.memories]
    return replace(
        values,
        memories=triggers.memories,
        **{name: getattr(values, name)[rows] for name in ("top_ids", "bottom_ids", "probability", "target_ranks")},
    )


def agreeing(
    next_ids: Int[np.ndarray, "memory rank"], top_ids: Int[np.ndarray, " memory"]
) -> tuple[Bool[np.ndarray, "memory rank"], Bool[np.ndarray, "memory rank"]]:
    """Where a token follows a trigger, and where it is the value's top token."""
    followed = next_ids >= 0
    return followed, followed & (next_ids == top_ids[:, None])


def chance_agreement(next_ids: Int[np.ndarray, " memory"], top_ids: Int[np.ndarray, " memory"]) -> float:
    """The agreement to expect if the triggers' next tokens were assigned to the memories at random: `sum_t p(t) q(t)`.

    p and q are the shares of a token among next tokens and among top tokens. NaN where no token follows any.
    """
    following = next_ids[next_ids >= 0]
    if not len(following):
        return float("nan")
    tokens, counts = np.unique(following, return_counts=True)
    tops = np.bincount(top_ids, minlength=int(max(tokens.max(), top_ids.max())) + 1)
    return float((counts * tops[tokens]).sum() / (len(following) * len(top_ids)))


@strict
def active(
    coefficients: Float[Tensor, "*lead neuron"], lengths: Float[Tensor, " neuron"], rule: ActiveRule
) -> Bool[Tensor, "*lead neuron"]:
    """Which memories take part in a layer's output.

    Args:
        coefficients: `m_i`.
        lengths: `||v_i||`.
        rule: See `ActiveRule`.

    Raises:
        InputError: for another rule.
    """
    _refuse_others(coefficients=coefficients, lengths=lengths)
    if rule == "positive":
        return (coefficients > 0) & (lengths > 0)
    sizes, order = (coefficients.abs() * lengths).sort(dim=-1, descending=True, stable=True)
    before = sizes.cumsum(dim=-1) - sizes
    wanted = (before < MASS * sizes.sum(dim=-1, keepdim=True)) & (sizes > 0)
    return torch.zeros_like(wanted).scatter(-1, order, wanted)


@strict
def zero_agreement(
    coefficients: Float[Tensor, "*lead neuron"],
    chosen: Bool[Tensor, "*lead neuron"],
    tops: Int[Tensor, "side neuron"],
    token: Int[Tensor, "*lead"],
) -> Bool[Tensor, "*lead"]:
    """Whether no active memory promotes a token most: the layer says something that none of its memories says.

    A memory of negative coefficient writes `-|m| v`, so its top token is that of `-v`.

    Args:
        coefficients: `m_i`.
        chosen: The active ones.
        tops: Top token of every `v_i`, and of every `-v_i`, in the direction's reading, where no size changes it.
        token: The layer's: the paper's text has the top token of the feed-forward's output, its program that of the output
            plus the residual.
    """
    _refuse_others(coefficients=coefficients, chosen=chosen, tops=tops, token=token)
    says = torch.where(coefficients > 0, tops[0], tops[1])
    return ~((says == token[..., None]) & chosen).any(dim=-1)


@strict
def outcomes(
    residual: Int[np.ndarray, "*lead"], feed_forward: Int[np.ndarray, "*lead"], output: Int[np.ndarray, "*lead"]
) -> Int[np.ndarray, "*lead"]:
    """For each case the number of its outcome in `OUTCOMES`, of three top tokens."""
    shapes = [np.shape(tokens) for tokens in (residual, feed_forward, output)]
    if len(set(shapes)) > 1:
        raise InputError(
            f"residual, feed_forward and output have shapes {brief(shapes)}: expected a top token each, of the same cases."
        )
    of_residual, of_feed_forward = output == residual, output == feed_forward
    return np.select([of_residual & of_feed_forward, of_residual, of_feed_forward], [2, 0, 1], default=3)


def _refuse_others(**tensors: object) -> None:
    for name, given in tensors.items():
        if not isinstance(given, Tensor):
            raise InputError(
                f"{name} is of type {type(given).__name__}: expected a tensor; torch.as_tensor makes one of an array."
            )
