"""Heads by their names: induction, previous-token and duplicate-token heads, and name movers by their copy score.

Elhage et al. 2021; Olsson et al. 2022, "In-context learning and induction heads"; Wang et al. 2023, "Interpretability in the wild".
The first three are read off attention over a random sequence that is repeated, as in TransformerLens's exploratory analysis.
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
"""Tokens of the random sequence, unless told otherwise."""
LARGEST_SHOWN = 5


@strict
@dataclass(frozen=True, repr=False, eq=False)
class AttentionHeadScores(Result):
    """A score of every head, mean over sequences or prompts: `values` [layer head]."""

    score: ScoreName
    by_prompt: Float[Tensor, "prompt layer head"]
    """Of every sequence or prompt."""
    detect_head: Float[Tensor, "prompt layer head"] | None
    """TransformerLens's `detect_head` of the same sequences (error_measure="mul"): the share of all attention that lies on the
    detection pattern. None for copy scores."""
    tokens: tuple[tuple[str, ...], ...]
    """The sequences or prompts."""
    model: str = "model"
    fingerprint: str = ""
    """Of the model's weights; empty where it is not known."""

    @property
    def values(self) -> Float[Tensor, "layer head"]:
        """The score of each head, from 0 to 1."""
        return self.by_prompt.double().mean(dim=0).to(self.by_prompt)

    @cached_property
    def interval(self) -> MeanInterval:
        """The mean with its 95 % interval (percentile bootstrap over sequences or prompts)."""
        return mean_interval(self.by_prompt)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per head: kind ("head"), layer, head, value; of several prompts low, high, n; detect_head where it is known."""
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

    The tokens of a sequence differ from each other, so that each has one earlier occurrence; special tokens are not drawn. BOS is
    there where the model reads texts with it; an encoder's sequence has its first and last special tokens.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        length: Tokens that are repeated.
        n: Sequences.
        seed: Same seed, same tokens.

    Raises:
        InputError: if the vocabulary has fewer tokens, or the sequence is longer than the model reads.
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
    """Mean attention from a repeated token to the token after its first occurrence, over the second half (Olsson et al. 2022).

    Position i attends to `i - (length - 1)`. Costs one forward pass of n sequences.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        length: Tokens that are repeated, as in `repeated_tokens`.
        n: Sequences.
        seed: Of the tokens.

    Raises:
        InputError: as `repeated_tokens`.
        UnsupportedModelError: for models whose layers are not decomposed.
    """
    return _attention_scores("induction", model, length, n, seed)


@strict
def previous_token_scores(
    model: Any, *, length: SupportsIndex = LENGTH, n: SupportsIndex = 4, seed: SupportsIndex = 0
) -> AttentionHeadScores:
    """Mean attention from every token but the first to the one before. Arguments and errors are those of `induction_scores`."""
    return _attention_scores("previous token", model, length, n, seed)


@strict
def duplicate_token_scores(
    model: Any, *, length: SupportsIndex = LENGTH, n: SupportsIndex = 4, seed: SupportsIndex = 0
) -> AttentionHeadScores:
    """Mean attention from a repeated token to its first occurrence, over the second half.

    Arguments and errors are those of `induction_scores`.
    """
    return _attention_scores("duplicate token", model, length, n, seed)


@strict
@torch.no_grad()
def copy_scores(
    model: Any, prompts: str | Texts | Tokens, at: Positions, *, k: SupportsIndex = 5, negative: bool = False
) -> AttentionHeadScores:
    """How often a head that attends to a name writes the name: the copy score of name movers (Wang et al. 2023, section 3.3).

    The residual stream after the first layer, at the name, goes through the head's norm, `W_V W_O`, the final norm and the
    unembedding; the score is the share of prompts whose name is among the k largest logits.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        prompts: A text, a list of texts, or token ids.
        at: Position of the name: one for all prompts, or a list with one per prompt.
        k: How many of the largest logits count.
        negative: Whether what the head writes is multiplied by -1, as for negative name movers.

    Raises:
        InputError: for positions that do not exist.
        UntrainedHeadError: for an encoder whose head was never trained.
        UnsupportedModelError: for models whose layers are not decomposed, or that have no unembedding.
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
        raise InputError(f"k={k}: expected at most {logits.shape[-1]}, the tokens of the vocabulary.")
    return logits.topk(k).indices.cpu()


def _written(block: Block, x: Float[Tensor, "prompt d"]) -> Float[Tensor, "prompt head d"]:
    """What every head of a layer writes where it attends to x alone, without the biases of the output."""
    attention, norm = block.attention, block.attn_norm
    values = attention.values(x if norm is None else norm(x))
    each = values.repeat_interleave(len(attention.w_o) // values.shape[1], dim=1)
    written = einsum(each, attention.w_o, "prompt head e, head e d -> prompt head d")
    after = block.attn_out_norm  # its scale changes no order of logits
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
    """The detection pattern of TransformerLens's head detector."""
    if score == "previous token":
        return torch.ones(len(tokens), len(tokens)).diagonal(-1).diag(-1).bool()
    same = (tokens[:, None] == tokens).tril(-1)
    if score == "duplicate token":
        return same
    after = torch.zeros_like(same)
    after[:, 1:] = same[:, :-1]
    return after.tril()
