"""`ffb.memory_estimate`: peak memory of a call in addition to the model, from the shapes of its buffers.

Every term is the size of tensors that the code of that call holds at one time. Their shapes are exact; how many of a shape are alive
at the peak was counted with a mode that sees every tensor (benchmarks/memory.py compares the sum with the process). The peak of a
call is that of its largest phase, with all longer-lived tensors.

    pattern  [head query key]    hidden  [pos d_mlp]    stream  [pos d_model]    logits  [pos d_vocab]
"""

# Noun: peak memory (activation memory; Korthikanti et al. 2022, "Reducing activation recomputation in large transformer models")

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, TypeAlias

import pandas as pd
import psutil
import torch

from tl_ffblock.bridge.attention import PATTERN_BYTES, ROW_BYTES, by_rows_differs
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.bridge.runs import MaxMemory, Run
from tl_ffblock.bridge.traced import KEPT_WHOLE
from tl_ffblock.errors import InputError, OutOfMemoryError, UnsupportedModelError, brief, did_you_mean
from tl_ffblock.layer.fast.buffers import KEPT_BYTES, ON_CPU, ON_GPU, product_pays
from tl_ffblock.layer.positions import several, whole_number
from tl_ffblock.layer.scopes import STEPS
from tl_ffblock.numerals import bytes_of
from tl_ffblock.result import Result
from tl_ffblock.signatures import strict

Call: TypeAlias = Literal["contribution_maps", "attribute", "attribution_patching"]
Bytes: TypeAlias = float | int
Phases: TypeAlias = Mapping[str, Bytes]
"""Bytes by what they are for."""
_OF: dict[str, tuple[str, ...]] = {
    "contribution_maps": ("heads",),
    "attribute": ("heads", "edges", "neurons"),
    "attribution_patching": ("edges",),
}
_INSTEAD: dict[Call, str] = {
    "contribution_maps": "Use queries= for some rows, layers= for some layers, or a shorter text.",
    "attribute": "Use of=() for tokens alone, or a shorter text.",
    "attribution_patching": "Use edges=False, or shorter prompts.",
}
_NAMED = 3
"""Terms that the sentence names."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class MemoryEstimate(Result):
    """Peak memory of a call in addition to the model, in bytes, by purpose."""

    call: str
    model: str
    n_tokens: int
    n_sequences: int
    terms: dict[str, Bytes]
    """Bytes by purpose, largest first: the result, tensors for the backward pass, one layer, buffers."""

    @property
    def total(self) -> Bytes:
        """Sum of all terms in bytes."""
        return sum(self.terms.values())

    @property
    def sentence(self) -> str:
        """Text for prints and errors: `contribution_maps of 2048 tokens on gpt2 takes about 3.1 GB over the model: ...`."""
        texts = f"{self.n_sequences} x " if self.n_sequences > 1 else ""
        largest = [f"{_readable(size)} {name}" for name, size in list(self.terms.items())[:_NAMED]]
        return (
            f"{self.call} of {texts}{self.n_tokens} tokens on {self.model} takes about {_readable(self.total)} over the model: "
            f"{', '.join(largest)}."
        )

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """The sentence, and every term."""
        return self.sentence, {name: _readable(size) for name, size in self.terms.items()}

    def to_dataframe(self) -> pd.DataFrame:
        """One row per term: `term`, `bytes`."""
        return pd.DataFrame({"term": list(self.terms), "bytes": list(self.terms.values())})


def _readable(size: Bytes) -> str:
    if size < 1e6:
        return f"{size / 1e3:.0f} kB"
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


@strict
def memory_estimate(
    model: Any,
    n_tokens: int,
    call: Call = "contribution_maps",
    *,
    of: Sequence[str] | str | None = None,
    n_queries: int | None = None,
    n_sequences: int = 1,
) -> MemoryEstimate:
    """Peak memory of a call in addition to the model, computed from shapes without running it.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder with dense feed-forwards.
        n_tokens: Number of tokens of each text.
        call: "contribution_maps", "attribute" or "attribution_patching".
        of: The call's options: for `attribute` "heads", "edges", "neurons" (by default all of these), for `attribution_patching`
            "edges", for `contribution_maps` "heads".
        n_queries: Number of query positions in maps; None means all.
        n_sequences: Number of texts that run together.

    Returns:
        A `MemoryEstimate` with `total` in bytes and `terms` by purpose.

    Raises:
        InputError: for an unknown call or option.
        UnsupportedModelError: for mixtures of experts, and models that cannot be decomposed.
    """
    usual = _OF[call] if call == "attribute" else ()
    parts = usual if of is None else several(of)
    if unknown := [part for part in parts if part not in _OF[call]]:
        known = ", ".join(map(repr, _OF[call])) or "none"
        meant = did_you_mean(unknown[0], _OF[call])
        raise InputError(f"of={brief(unknown[0])}: expected some of {known} for {call}. {meant}".rstrip())
    n = whole_number(n_tokens, "n_tokens", at_least=1)
    rows = n if n_queries is None else min(n, whole_number(n_queries, "n_queries", at_least=1))
    together = whole_number(n_sequences, "n_sequences", at_least=1)
    known_model = identify(model)
    if any(layer.has_experts for layer in known_model.layers):
        raise UnsupportedModelError(f"{known_model.name}: memory is not estimated for mixtures of experts.")
    shapes = _Shapes.of(known_model, n, rows, together)
    heads = call == "contribution_maps" and "heads" in parts
    return _estimate(call, frozenset(parts), replace(shapes, channels=shapes.heads + 1) if heads else shapes)


def _estimate(call: Call, parts: frozenset[str], shapes: "_Shapes") -> MemoryEstimate:
    match call:
        case "contribution_maps":
            terms = shapes.maps()
        case "attribute":
            terms = shapes.attribution(parts)
        case "attribution_patching":
            terms = shapes.patching(edges="edges" in parts)
    return _with_terms(MemoryEstimate(call, shapes.model.name, shapes.n, shapes.together, {}), terms)


@dataclass(frozen=True)
class _Shapes:
    """Sizes of a model's tensors for one input; `pattern`, `hidden`, `stream` and `logits` are bytes of one in the model's dtype."""

    model: Model
    n: int
    rows: int
    together: int
    layers: int
    scopes: int
    heads: int
    d_head: int
    d_model: int
    d_mlp: int
    branches: int
    pattern: int
    hidden: int
    stream: int
    logits: int
    by_rows: bool
    number: int
    """Bytes of a number of the decomposition."""
    channels: int = 0
    """Maps by head beside those of a scope."""
    chunk: int | None = None
    """Bytes of packed rows; None leaves them to the device."""
    twice: bool | None = None
    """Whether layers run again in the backward pass; None leaves it to the length."""
    device: str = "cpu"

    @classmethod
    def of(cls, model: Model, n: int, rows: int, together: int) -> "_Shapes":
        cfg, size = model.hooked.cfg, model.parameter.element_size()
        d_model, heads = int(cfg.d_model), model.n_heads
        d_mlp = int(getattr(cfg, "d_mlp", None) or 4 * d_model) if model.layers[0].has_feed_forward else 0
        number = together * n * size
        pattern = number * heads * n
        by_rows = pattern > PATTERN_BYTES and by_rows_differs(model) < math.inf
        return cls(
            model, n, rows, together, model.n_layers, len(STEPS[model.family.order]), heads, int(cfg.d_head), d_model, d_mlp,
            1 + model.layers[0].is_gated, pattern, number * d_mlp, number * d_model,
            number * int(getattr(cfg, "d_vocab", 0) or 0), by_rows, torch.finfo(model.working_dtype).bits // 8,
            device=model.device.type,
        )  # fmt: skip

    @property
    def attention(self) -> Bytes:
        """What the model's attention holds in one layer: scores and pattern with the mask, or rows of them with q, k, v and z."""
        if self.by_rows:
            return 3 * ROW_BYTES.get(self.device, ROW_BYTES["cpu"]) + 6 * self.stream
        return 2 * self.pattern + self.pattern / self.heads

    @property
    def cells(self) -> int:
        """One table [query key] of every sequence."""
        return self.together * self.rows * self.n * self.number

    @property
    def record(self) -> Bytes:
        """The tensors of one layer from which its maps are made."""
        heads = 1 if self.rows == 1 else self.heads
        return heads * self.cells + (self.branches + 1) * self.hidden * self.rows / self.n + 10 * self.stream

    def result(self, call: Call, parts: frozenset[str]) -> Bytes:
        """What is there after the call."""
        if call == "contribution_maps":
            return self.layers * self.scopes * (1 + self.channels) * self.cells
        neurons = call == "attribution_patching" or "neurons" in parts
        edges = call == "attribute" and "edges" in parts
        return self.layers * ((self.pattern if edges else 0) + (self.hidden if neurons else 0))

    def maps(self) -> Phases:
        """The tables of all layers, head products, and the largest phase of one layer."""
        number, cells, record = self.number, self.cells, self.record
        alone = self.rows == 1
        pairs = self.together * (self.rows * self.n // (2 if self.model.family.causal and not alone else 1))
        heads = 1 if alone else self.heads
        hidden, stream = (size * self.rows / self.n for size in (self.hidden, self.stream))
        phases = {
            "attention of a layer": self.attention + 5 * self.stream + 3 * self.hidden,
            "coefficients of a layer": record + (8 + 4 * self.branches) * hidden,
            "pairs of a layer": record + self._buffers(pairs, heads, cells, number) + 4 * hidden + 6 * stream,
        }
        largest = max(phases, key=phases.__getitem__)
        return {
            "for the maps": self.result("contribution_maps", frozenset()),
            "for products of heads with the feed-forward": self._products(pairs, number),
            f"for {largest}": phases[largest],
        }

    def _buffers(self, pairs: int, heads: int, cells: Bytes, number: int) -> Bytes:
        """Packed rows, one group of source tokens, and tables of the layer (`layer/fast`)."""
        budget = ON_CPU if self.device == "cpu" else ON_GPU
        capacity = (self.chunk or budget.row_bytes) // ((self.branches * self.d_mlp + 2 * self.d_model) * number)
        packed = min(capacity, pairs) * (self.branches * self.d_mlp + self.d_model) * number
        wide = heads * self.branches * self.d_mlp * number
        keys = min(self.together * self.n, max(1, budget.group_bytes // max(1, wide)))
        group = keys * (wide + 2 * heads * self.d_model * number + 2 * heads * self.rows * number)
        return packed + group + (self.scopes * (1 + self.channels) + 2) * cells

    def _products(self, pairs: int, number: int) -> Bytes:
        w_o = torch.empty(self.heads, self.d_head, self.d_model, device="meta")
        pays, keep = product_pays(self.together * self.n, pairs, w_o)
        one = self.heads * self.d_head * self.d_mlp * self.branches * number
        return min(KEPT_BYTES, self.layers * one) if pays and keep else one if pays else 0

    def attribution(self, parts: frozenset[str]) -> Phases:
        """What is kept for the backward pass, then a layer, the logits or the result that is put together."""
        edges, neurons = "edges" in parts, "neurons" in parts
        twice = self.n > KEPT_WHOLE if self.twice is None else self.twice
        logits = 0 if twice else 2 * self.logits
        patterns = self.layers * self.pattern if edges or not (twice or self.by_rows) else 0
        layer = self.pattern if not (twice or self.by_rows) else self.attention
        kept = self.layers * (2 * self.stream if twice else self.branches * self.hidden + 2 * self.stream)
        inside = layer + (9 if twice else 4) * self.hidden + (10 if twice else 4) * self.stream
        result = self.result("attribute", parts)
        made = 2 * self.pattern * edges + self.layers * (2 * self.hidden * neurons + 2 * self.stream)
        ends = max(logits, inside) if not result else max(logits, inside, result + made + logits)
        return {"kept for the backward pass": patterns + kept, "for a layer, logits and the result": ends}

    def patching(self, *, edges: bool) -> Phases:
        """Both runs of a pair are kept, with their logits and the derivatives."""
        pattern = 0 if self.by_rows and not edges else self.pattern
        kept = 2 * self.layers * (pattern + (1 + self.branches) * self.hidden + 6 * self.stream)
        layer = max(2 * pattern, 7 * self.hidden) if pattern else self.attention + 7 * self.hidden
        terms = {"kept for the backward pass": kept, "for a layer and logits": layer + 3 * self.logits}
        if not edges:
            return terms
        senders = self.layers * (self.heads + 1) + 2
        late = {
            "kept for the backward pass": self.layers * (pattern + 2 * (1 + self.branches) * self.hidden),
            "for senders and receivers of edges": (3 * senders + 18 * self.layers + 20) * self.stream + 2 * self.logits,
        }
        return max(terms, late, key=lambda each: sum(each.values()))


def observed_bytes(model: Model, n_tokens: int, n_scopes: int, n_sequences: int) -> Bytes:
    """What texts of so many tokens that run together hold over the model where the records of all layers are kept beside the maps.

    Buffers are counted as on a CPU, so that it follows from the model's shapes wherever it is.
    """
    shapes = replace(_Shapes.of(model, n_tokens, n_tokens, n_sequences), scopes=n_scopes, device="cpu")
    return sum(shapes.maps().values()) + (model.n_layers - 1) * shapes.record


def observed_together(model: Model, n_tokens: int, n_scopes: int, most: int, max_memory: float | int | str) -> int:
    """How many texts of so many tokens, at most `most`, hold no more than `max_memory` (`observed_bytes`); one may hold more.

    Mixtures of experts, whose memory is not estimated, run one by one.
    """
    budget = bytes_of(max_memory)
    halved = (most >> n for n in range(most.bit_length() * (not any(layer.has_experts for layer in model.layers))))
    return next((number for number in halved if observed_bytes(model, n_tokens, n_scopes, number) <= budget), 1)


def available(model: Model) -> float:
    """Bytes that are free where a model runs."""
    if model.device.type == "cuda":
        held = torch.cuda.memory_reserved(model.device) - torch.cuda.memory_allocated(model.device)
        return float(torch.cuda.mem_get_info(model.device)[0] + held)
    return float(psutil.virtual_memory().available)


_CHUNK_PARTS = (8, 64)
"""Packed rows may become so many times smaller; beyond, a product has too few rows."""


@dataclass(frozen=True)
class Asked:
    """A call whose memory is to be known before it runs."""

    call: Call
    parts: frozenset[str] = frozenset()
    n_scopes: int | None = None
    """Scopes of maps; None means all."""
    channels: int = 0
    """Maps by head of each scope, the residual's among them."""
    checkpoint: bool | None = None

    @property
    def estimated(self) -> frozenset[str]:
        """Its parts that the estimate knows."""
        return self.parts & frozenset(_OF[self.call])


def fitted(run: Run, asked: Asked, max_memory: MaxMemory = None) -> tuple[Run, bool | None]:
    """The run in pieces by which its estimate stays below `max_memory`, and whether its layers run twice.

    Without `max_memory` run and checkpoints stay as they are, and what would hold more than is free is refused.

    Args:
        run: What is to run.
        asked: Which call of it.
        max_memory: What the call may hold over the model.

    Raises:
        OutOfMemoryError: with the sentence of `memory_estimate`, where nothing fits.
        UnsupportedModelError: for a budget of mixtures of experts.
        InputError: for a budget that cannot be used, and parts of a call that are not estimated.
    """
    if max_memory is None:
        if any(layer.has_experts for layer in run.model.layers):
            return run, asked.checkpoint
        budget, what = available(run.model), "are free"
    else:
        budget, what = bytes_of(max_memory), "are allowed by max_memory"
        _refuse_not_estimated(run, asked)
    for at_once, chunk, twice in _ways(run, asked, chooses=max_memory is not None):
        pieces = tuple(piece for batch in run.batches for piece in batch.pieces(at_once))
        tried = replace(run, batches=pieces, settings=replace(run.settings, chunk_bytes=chunk))
        estimate = _estimate_of_run(tried, replace(asked, checkpoint=twice))
        if estimate.total <= budget:
            return tried, twice
    raise OutOfMemoryError(f"{estimate.sentence} {_readable(budget)} {what}. {_INSTEAD[asked.call]}")


def _refuse_not_estimated(run: Run, asked: Asked) -> None:
    if any(layer.has_experts for layer in run.model.layers):
        raise UnsupportedModelError(
            f"{run.model.name}: memory is not estimated for mixtures of experts, so omit max_memory."
        )
    unknown = sorted(asked.parts - asked.estimated)
    if unknown or run.settings.method == "captum":
        given, known = repr(unknown[0]) if unknown else 'method="captum"', ", ".join(map(repr, _OF[asked.call]))
        raise InputError(
            f"max_memory with {given}: memory of {asked.call} is estimated with {known} at most. Omit one of the two."
        )


def _ways(run: Run, asked: Asked, *, chooses: bool) -> Iterator[tuple[int, int | None, bool | None]]:
    """Sequences at a time, bytes of packed rows, and whether layers run twice, the fastest first; one way without a choice.

    Hooks see a batch as it was given, and a cache is of it.
    """
    hooked, chunk, twice = run.is_hooked, run.settings.chunk_bytes, asked.checkpoint
    most = max(len(batch.numbers) for batch in run.batches)
    at_once, chunks, twices = [most], [chunk], [False if hooked and twice is None else twice]
    if chooses and not hooked and run.cache is None:
        at_once = [most >> halved for halved in range(most.bit_length())]
    if chooses and asked.call == "contribution_maps" and chunk is None:
        row_bytes = (ON_CPU if run.model.device.type == "cpu" else ON_GPU).row_bytes
        chunks = [None, *(row_bytes // part for part in _CHUNK_PARTS)]
    if chooses and asked.call == "attribute" and not hooked and twice is None:
        twices = [False, True]
    yield from product(at_once, chunks, twices)


def _estimate_of_run(run: Run, asked: Asked) -> MemoryEstimate:
    """That of its largest batch, with the results of the others."""
    forms = Counter(
        (*batch.tokens.shape, max(len(run.sequences[number].ascending) for number in batch.numbers))
        for batch in run.batches
    )
    parts, shapes = asked.estimated, {}
    for together, n, n_queries in forms:
        of_form = _Shapes.of(run.model, n, n_queries, together)
        of_form = replace(of_form, chunk=run.settings.chunk_bytes, twice=asked.checkpoint, channels=asked.channels)
        if asked.call == "contribution_maps":
            number = torch.finfo(run.settings.dtype).bits // 8
            of_form = replace(of_form, layers=len(run.layers), scopes=asked.n_scopes or of_form.scopes, number=number)
        shapes[together, n, n_queries] = of_form
    results = sum(of_form.result(asked.call, parts) * forms[form] for form, of_form in shapes.items())
    found = []
    for of_form in shapes.values():
        estimate = _estimate(asked.call, parts, of_form)
        others = results - of_form.result(asked.call, parts)
        found.append(_with_terms(estimate, estimate.terms | ({"for results of other texts": others} if others else {})))
    return max(found, key=lambda each: each.total)


def _with_terms(estimate: MemoryEstimate, terms: Phases) -> MemoryEstimate:
    return replace(estimate, terms=dict(sorted(terms.items(), key=lambda term: -term[1])))
