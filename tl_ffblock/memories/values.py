"""What a memory writes, read as tokens (Geva et al. 2021, section 4), and how that agrees with its triggers.

A memory's value is a direction of the residual stream, the same whatever the input. Behind a norm inside the branch
(sandwich, norm_after) it is the direction before that norm.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tl_ffblock.bridge.inputs import label, single_token
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.bridge.readout import Reading, read_out
from tl_ffblock.bridge.runs import settings_of
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.neurons import neuron_values
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.memories.names import Cells, Memories, MemoryName, Named, row_of, select_memories
from tl_ffblock.memories.triggers import Sign, Triggers
from tl_ffblock.result import Values
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    import pandas

_CHUNK = 256
"""Values read at a time."""


@strict
@dataclass(frozen=True, eq=False)
class ValueTokens(Values):
    """The tokens that memories promote and demote."""

    memories: tuple[MemoryName, ...]
    reading: Reading
    sign: Sign
    """"negative" reads `-v`, what a memory writes where its coefficient is negative."""
    top_ids: Int[np.ndarray, "memory rank"]
    """Largest logit first."""
    bottom_ids: Int[np.ndarray, "memory rank"]
    """Smallest logit first."""
    probability: Float[np.ndarray, " memory"]
    """Of the top token: the maximum of the softmax of the read-out."""
    labels: dict[int, str]
    """The ids above as text."""
    target_ranks: Int[np.ndarray, "memory target"]
    """1 for the top token; no column where no targets were given."""
    targets: tuple[str, ...] = ()
    fingerprint: str = ""
    """Of the weights of the model that they are of; empty where it is not known."""

    def top(self, memory: Named) -> tuple[str, ...]:
        """The tokens that a memory promotes most."""
        return self._labelled(self.top_ids[row_of(memory, self.memories)])

    def bottom(self, memory: Named) -> tuple[str, ...]:
        """The tokens that a memory demotes most."""
        return self._labelled(self.bottom_ids[row_of(memory, self.memories)])

    def to_dataframe(self) -> "pandas.DataFrame":
        """One row a memory."""
        import pandas as pd

        rows = [
            dict(
                memory=str(name),
                layer=name.layer,
                probability=float(self.probability[row]),
                top=" ".join(repr(token) for token in self._labelled(self.top_ids[row])),
                bottom=" ".join(repr(token) for token in self._labelled(self.bottom_ids[row])),
                **{f"rank of {t!r}": int(rank) for t, rank in zip(self.targets, self.target_ranks[row], strict=True)},
            )
            for row, name in enumerate(self.memories)
        ]
        return pd.DataFrame(rows)

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
    """The tokens that memories promote and demote, by the model's own read-out or by the unembedding alone.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        memories: Names such as "12:305".
        layers: Layers whose memories are all meant; without names and layers, all layers.
        reading: "final_norm": as the model reads its last layer's output (an encoder through its head for masked words);
            "direction": `v W_U` alone, as in the paper.
        sign: "negative" reads `-v`.
        k: Tokens on either side.
        targets: Tokens whose ranks are wanted, as single-token texts or ids.

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
    for logits in readout.in_chunks(value_vectors(known, cells, sign), _CHUNK):
        if whole_number(k, "k", at_least=1) > logits.shape[-1]:
            raise InputError(f"k={k}: the vocabulary has {logits.shape[-1]} tokens; expected at most as many.")
        if beyond := [token for token in target_ids if not 0 <= token < logits.shape[-1]]:
            raise InputError(f"targets: token id {beyond[0]}; the vocabulary has ids 0 to {logits.shape[-1] - 1}.")
        tops.append(logits.topk(k).indices.cpu())
        bottoms.append(logits.topk(k, largest=False).indices.cpu())
        probabilities.append(_top_probability(logits))
        ranks.append(ranks_in(logits, torch.tensor(target_ids, dtype=torch.long).expand(len(logits), -1)))
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
        targets=tuple(str(target) for target in targets),
        fingerprint=known.fingerprint,
    )


def value_vectors(model: Model, cells: Cells, sign: Sign = "positive") -> Float[Tensor, "memory d_model"]:
    """The values of memories, `-v` for negative coefficients."""
    dtype = settings_of(model, {}).dtype
    by_layer = [
        neuron_values(model.layers[layer].read(dtype))[cells.numbers[cells.rows(layer)]] for layer in cells.layers
    ]
    return cells.in_order(torch.cat(by_layer)) * (1 if sign == "positive" else -1)


def ranks_in(logits: Float[Tensor, "memory d_vocab"], ids: Int[Tensor, "memory n"]) -> Int[Tensor, "memory n"]:
    """Ranks of tokens, 1 for the largest logit; equal ones share the better rank."""
    of_tokens = logits.gather(1, ids.to(logits.device))
    ranks = [1 + (logits > of_token[:, None]).sum(dim=-1) for of_token in of_tokens.T]
    return torch.stack(ranks, dim=1).cpu() if ranks else torch.zeros_like(ids)


@strict
def agreement(triggers: Triggers, values: ValueTokens) -> "pandas.DataFrame":
    """Whether the token after a memory's triggers is the one its value promotes most, a row a memory.

    Columns: `agrees`, of the first trigger (the paper's agreement); `precision`, the share of all its triggers that a
    token follows. Both are NaN where none does.

    Args:
        triggers: Of a causal language model.
        values: Of the same memories, of the sign of the triggers.

    Raises:
        InputError: if they are of other memories or another sign, or of an encoder, which reads the next token, too.
    """
    import pandas as pd

    values = of_same_memories(triggers, values)
    followed, agrees = agreeing(triggers.next_ids, values.top_ids[:, 0])
    with np.errstate(invalid="ignore"):
        precision = agrees.sum(axis=1) / followed.sum(axis=1)
    return pd.DataFrame(
        dict(
            memory=[str(name) for name in triggers.memories],
            layer=[name.layer for name in triggers.memories],
            agrees=np.where(followed[:, 0], agrees[:, 0], np.nan),
            precision=precision,
            probability=values.probability,
        )
    )


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
    """The agreement to expect if the triggers' next tokens were dealt out to the memories at random: `sum_t p(t) q(t)`.

    p and q are the shares of a token among next tokens and among top tokens. NaN where no token follows any.
    """
    following = next_ids[next_ids >= 0]
    if not len(following):
        return float("nan")
    tokens, counts = np.unique(following, return_counts=True)
    tops = np.bincount(top_ids, minlength=int(max(tokens.max(), top_ids.max())) + 1)
    return float((counts * tops[tokens]).sum() / (len(following) * len(top_ids)))


def _top_probability(logits: Float[Tensor, "memory d_vocab"]) -> Float[Tensor, " memory"]:
    wide = logits.float()
    return (wide.amax(-1) - wide.logsumexp(-1)).exp().cpu()
