"""Scores of heads: induction, previous-token and duplicate-token heads, and the copy score of name movers.

Elhage et al. 2021; Olsson et al. 2022, "In-context learning and induction heads"; Wang et al. 2023, "Interpretability in the wild".
The first three are computed from attention on a repeated random sequence, as in TransformerLens's exploratory analysis.
"""

# Noun: induction score (Olsson et al. 2022)

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, SupportsIndex, TypeAlias

import pandas as pd
import torch
from einops import einsum
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tl_ffblock.attention import attention_maps
from tl_ffblock.bridge.inputs import marks_around, ordinary_ids
from tl_ffblock.bridge.model import identify
from tl_ffblock.bridge.readout import read_out
from tl_ffblock.bridge.runs import Texts, Tokens, open_run
from tl_ffblock.errors import InputError
from tl_ffblock.layer.positions import Positions, one_per_prompt, whole_number
from tl_ffblock.layer.records import Block, LayerRecord
from tl_ffblock.layer.scopes import output_step
from tl_ffblock.result import Result, long_form
from tl_ffblock.results.intervals import MeanInterval, mean_interval
from tl_ffblock.signatures import strict

ScoreName: TypeAlias = Literal["induction", "previous token", "duplicate token", "copy"]
LENGTH = 50
"""Default number of tokens of the random sequence."""
LARGEST_SHOWN = 5


@strict
@dataclass(frozen=True, repr=False, eq=False)
class AttentionHeadScores(Result):
    """A score of every head, mean over sequences or prompts: `values` [layer head]."""

    score: ScoreName
    by_prompt: Float[Tensor, "prompt layer head"]
    """Score by sequence or prompt."""
    detect_head: Float[Tensor, "prompt layer head"] | None
    """TransformerLens's `detect_head` for the same sequences (error_measure="mul"): the fraction of all attention on the detection
    pattern. None for copy scores."""
    tokens: tuple[tuple[str, ...], ...]
    """Tokens of the sequences or prompts."""
    model: str = "model"
    fingerprint: str = ""
    """Fingerprint of the model's weights; empty if it is not known."""

    @property
    def values(self) -> Float[Tensor, "layer head"]:
        """Mean score of each head, from 0 to 1."""
        return self.by_prompt.double().mean(dim=0).to(self.by_prompt)

    @cached_property
    def interval(self) -> MeanInterval:
        """Mean with its 95 % interval (percentile bootstrap over sequences or prompts)."""
        return mean_interval(self.by_prompt)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per head: kind ("head"), layer, head, value; for several prompts low, high, n; detect_head if it is known."""
        axes = {name: range(size) for name, size in zip(("layer", "head"), self.values.shape, strict=True)}
        frame = long_form(self.values, axes)
        frame.insert(0, "kind", "head")
        columns: dict[str, Tensor] = {}
        if len(self.by_prompt) > 1:
            columns = {"low": self.interval.low, "high": self.interval.high, "n": self.interval.counts}
        if self.detect_head is not None:
            columns["detect_head"] = self.detect_head.mean(dim=0)
        return frame.assign(**{name: table.flatten().numpy() for name, table in columns.items()})

    def summary(self) -> tuple[str, Mapping[str, object]]:
        frame = self.to_dataframe().nlargest(LARGEST_SHOWN, "value")
        largest = ", ".join(f"L{row.layer}H{row.head} {row.value:.2f}" for row in frame.itertuples())
        made = "prompts" if self.detect_head is None else "random sequences"
        return f"{self.score} score of every head of {self.model}, mean over {len(self.tokens)} {made}", {
            "largest": largest
        }


@strict
def repeated_tokens(
    model: Any, length: SupportsIndex = LENGTH, n: SupportsIndex = 1, *, seed: SupportsIndex = 0
) -> Int[Tensor, "sequence pos"]:
    """Random sequences, each repeated once: `[BOS, t_1 ... t_length, t_1 ... t_length]`, on the CPU.

    The tokens of a sequence are different, and not special, so that each has one earlier occurrence. BOS is included if the model
    reads texts with it; an encoder's sequence has its first and last special tokens.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        length: Number of repeated tokens.
        n: Number of sequences.
        seed: Seed of the tokens.

    Raises:
        InputError: if the vocabulary has fewer tokens, or the sequence is longer than the model's longest input.
    """
    known = identify(model)
    length, n = whole_number(length, "length", at_least=2), whole_number(n, "n", at_least=1)
    (first, last), drawn = marks_around(known), ordinary_ids(known)
    size, most = len(first) + 2 * length + len(last), known.longest_input
    if length > len(drawn) or (most is not None and size > most):
        raise InputError(
            f"length={length}: expected at most {len(drawn)}, the tokens of the vocabulary, and a sequence of {size} tokens within the "
            f"{most} that {known.name} reads."
        )
    generator = torch.Generator().manual_seed(whole_number(seed, "seed", at_least=0))
    sequences = (drawn[torch.randperm(len(drawn), generator=generator)[:length]] for _ in range(n))
    return torch.stack([torch.cat([first, own, own, last]) for own in sequences])


@strict
def induction_scores(
    model: Any, *, length: SupportsIndex = LENGTH, n: SupportsIndex = 4, seed: SupportsIndex = 0
) -> AttentionHeadScores:
    """Induction score of every head: mean attention from a repeated token to the token after its first occurrence.

    The mean is over the second half of a repeated random sequence, where position i attends to `i - (length - 1)` (Olsson et al.
    2022). Costs one forward pass of n sequences.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        length: Number of repeated tokens, as in `repeated_tokens`.
        n: Number of sequences.
        seed: Seed of the tokens.

    Returns:
        `AttentionHeadScores` with `values` [layer head].

    Raises:
        InputError: as in `repeated_tokens`.
        UnsupportedModelError: for models that cannot be decomposed.
    """
    return _attention_scores("induction", model, length, n, seed)


@strict
def previous_token_scores(
    model: Any, *, length: SupportsIndex = LENGTH, n: SupportsIndex = 4, seed: SupportsIndex = 0
) -> AttentionHeadScores:
    """Previous-token score: mean attention from every token but the first to the one before; otherwise as `induction_scores`."""
    return _attention_scores("previous token", model, length, n, seed)


@strict
def duplicate_token_scores(
    model: Any, *, length: SupportsIndex = LENGTH, n: SupportsIndex = 4, seed: SupportsIndex = 0
) -> AttentionHeadScores:
    """Duplicate-token score: mean attention from a repeated token to its first occurrence, over the second half.

    Arguments and errors are those of `induction_scores`.
    """
    return _attention_scores("duplicate token", model, length, n, seed)


@strict
@torch.no_grad()
def copy_scores(
    model: Any, prompts: str | Texts | Tokens, at: Positions, *, k: SupportsIndex = 5, negative: bool = False
) -> AttentionHeadScores:
    """Copy score of name movers: how often a head that attends to a name writes the name (Wang et al. 2023, section 3.3).

    The residual stream after the first layer, at the name, is passed through the head's norm, `W_V W_O`, the final norm and the
    unembedding. The score is the fraction of prompts whose name is among the k largest logits.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        prompts: A text, a list of texts, or token ids.
        at: Position of the name: one for all prompts, or a list with one per prompt.
        k: Number of largest logits that count.
        negative: Whether the head's output is multiplied by -1, for negative name movers.

    Returns:
        `AttentionHeadScores` with `values` [layer head].

    Raises:
        InputError: for positions that do not exist.
        UntrainedHeadError: for an encoder whose head was never trained.
        UnsupportedModelError: for models that cannot be decomposed, or that have no unembedding.
    """
    run = open_run(model, prompts, layers=[0])
    known, k, sign = run.model, whole_number(k, "k", at_least=1), -1 if negative else 1
    tokens = [sequence.tokens for sequence in run.sequences]
    places = one_per_prompt(at, [len(ids) for ids in tokens], "at")
    after = output_step(known.family.order).scope

    def stream(record: LayerRecord, number: int) -> Float[Tensor, " d"]:
        return record.whole[after][places[number]]

    names = torch.stack([by_layer[0] for by_layer in run.by_layer(stream)])
    ids = torch.stack([own[place] for own, place in zip(tokens, places, strict=True)])
    read, found = read_out(known, "final_norm"), []
    for layer in known.layers:
        written = _written(layer.read(run.settings.dtype), names)
        said = torch.cat([_largest(one, k) for one in read.in_chunks(sign * written.flatten(0, 1))])
        found.append((said.reshape(*written.shape[:2], k) == ids[:, None, None]).any(dim=-1))
    return AttentionHeadScores(
        score="copy",
        by_prompt=torch.stack(found, dim=1).float(),
        detect_head=None,
        tokens=tuple(sequence.labels for sequence in run.sequences),
        model=known.name,
        fingerprint=known.fingerprint,
    )


def _largest(logits: Float[Tensor, "row d_vocab"], k: int) -> Int[Tensor, "row k"]:
    if k > logits.shape[-1]:
        raise InputError(f"k={k}: expected at most {logits.shape[-1]}, the number of tokens of the vocabulary.")
    return logits.topk(k).indices.cpu()


def _written(block: Block, x: Float[Tensor, "prompt d"]) -> Float[Tensor, "prompt head d"]:
    """Output of every head of a layer that attends only to x, without output biases."""
    attention, norm = block.attention, block.attn_norm
    values = attention.values(x if norm is None else norm(x))
    each = values.repeat_interleave(len(attention.w_o) // values.shape[1], dim=1)
    # The scale of a norm before W_O, as that after it, does not change the order of logits.
    written = einsum(each * attention.gain, attention.w_o, "prompt head e, head e d -> prompt head d")
    after = block.attn_out_norm  # its scale does not change the order of logits
    return written if after is None else after.linear(written)


def _attention_scores(
    score: ScoreName, model: Any, length: SupportsIndex, n: SupportsIndex, seed: SupportsIndex
) -> AttentionHeadScores:
    known, tokens = identify(model), repeated_tokens(model, length, n, seed=seed)
    size, begin = whole_number(length, "length"), len(marks_around(known)[0])
    back, queries = {
        "induction": (size - 1, torch.arange(begin + size, begin + 2 * size)),
        "previous token": (1, torch.arange(1, tokens.shape[1])),
        "duplicate token": (size, torch.arange(begin + size, begin + 2 * size)),
    }[score]
    every = attention_maps(known, tokens)
    detected = (_detection(score, own) for own in tokens)
    return AttentionHeadScores(
        score=score,
        by_prompt=torch.stack([maps.values[..., queries, queries - back].mean(dim=-1) for maps in every]).float(),
        detect_head=torch.stack(
            [
                (maps.values * expected).sum(dim=(-2, -1)) / maps.values.sum(dim=(-2, -1))
                for maps, expected in zip(every, detected, strict=True)
            ]
        ).float(),
        tokens=tuple(tuple(maps.tokens) for maps in every),
        model=known.name,
        fingerprint=known.fingerprint,
    )


def _detection(score: ScoreName, tokens: Int[Tensor, " pos"]) -> Bool[Tensor, "query key"]:
    """Detection pattern of TransformerLens's head detector."""
    if score == "previous token":
        return torch.ones(len(tokens), len(tokens)).diagonal(-1).diag(-1).bool()
    same = (tokens[:, None] == tokens).tril(-1)
    if score == "duplicate token":
        return same
    after = torch.zeros_like(same)
    after[:, 1:] = same[:, :-1]
    return after.tril()
