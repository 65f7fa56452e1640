"""`ffb.attribute_continuation`: every token of a continuation attributed to all tokens before it.

One forward pass over prompt and continuation, and one backward pass per token of the continuation, in batches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, SupportsIndex, TypeAlias, Unpack, cast

import pandas as pd
import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from tl_ffblock.attribution.attribute import ForwardOptions, open_attribution_run
from tl_ffblock.attribution.attribution import in_words
from tl_ffblock.attribution.certificate import refuse_forms, relative
from tl_ffblock.attribution.targets import warn_of_missing_space
from tl_ffblock.bridge.inputs import continued_tokens, memory_given_back, prompts_of
from tl_ffblock.bridge.linearised import RuleName, Rules
from tl_ffblock.bridge.model import identify
from tl_ffblock.bridge.runs import DEFAULTS, Ids, Run, continued
from tl_ffblock.bridge.traced import Backward, Traced, difference_of_logits, trace, with_gradients
from tl_ffblock.errors import CompletenessError, InputError, brief
from tl_ffblock.layer.heads import stacked_heads
from tl_ffblock.layer.positions import one_position, several, whole_number
from tl_ffblock.numerals import scientific, significant
from tl_ffblock.result import Result, Results
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.results.tokens import told_apart
from tl_ffblock.signatures import spelled_out, strict, whole

TextOrIds: TypeAlias = str | Ids | Integer[Tensor, " _"]
"""A text, or token ids [pos]."""
TargetOfTokens: TypeAlias = Literal["logit", "log probability"]
"""What is attributed of each token of the continuation."""
AT_ONCE = 16
"""Backward passes that run at once."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class ContinuationAttribution(Result):
    """Signed attributions of every token of a continuation: per row, `values = shares + biases + edits + nonlinear`.

    The nonlinear part is 0 for logits. For a log probability it is minus the entropy, often larger than all attributions
    together. With rules that are not complete, a part is not attributed.
    """

    labels: tuple[str, ...]
    """All tokens of prompt and continuation."""
    n_prompt: int
    """Number of tokens of the prompt."""
    reading: TargetOfTokens
    """The target of each token: its logit or its log probability, at the position before it."""
    rules: str
    values: Float[Tensor, " target"]
    """Logits or log probabilities of the continuation's tokens."""
    first_order: Float[Tensor, " target"]
    """`<logits, df/d logits>`, the attributed number of each token."""
    shares: Float[Tensor, "target source"]
    """Attribution to each source token, with its position embedding. NaN from the target on: a source precedes its target."""
    biases: Float[Tensor, " target"]
    """Attribution to all biases together."""
    edits: Float[Tensor, " target"]
    """Attribution to what your callbacks add."""
    errors: Float[Tensor, " target"]
    """Largest difference of a sum from `first_order`, relative to the sum of absolute values; 0 for `rules="path"`.

    The sums are those of attributions, biases and edits, at the embeddings and at every layer's input."""
    model: str = "model"
    """Name of the model, for labels."""
    fingerprint: str = ""
    """Fingerprint of the model's weights; empty if it is not known."""
    residual: Float[Tensor, "target boundary source"] | None = None
    """Attribution to the residual stream at each layer's input, and at the end; None in older files."""
    constants: Float[Tensor, "target entry"] | None = None
    """Attribution to biases and edits by where they are added: before the first layer, in each layer, after the last."""
    heads: Float[Tensor, "target layer head"] | None = None
    """Attribution to each head, summed over positions."""

    @property
    def targets(self) -> tuple[str, ...]:
        """The continuation's tokens: the rows."""
        return self.labels[self.n_prompt :]

    def token_maps(self) -> TokenMaps:
        """The signed attributions as `TokenMaps` of one layer and one channel, each row at the position of its token."""
        return TokenMaps(
            values=self.shares[None, None],
            tokens=self.labels,
            layers=(0,),
            channels=("share",),
            queries=tuple(range(self.n_prompt, len(self.labels))),
            causal=True,
            model=self.model,
            signed=True,
            kind=f"attributions of the next token's {self.reading}",
            layered=False,
            provenance={"fingerprint": self.fingerprint, "rules": self.rules},
        )

    @cached_property
    def summands(self) -> "dict[str, Float[Tensor, ' target']]":
        """Terms of every value by kind. Kinds without an attribution in any row are omitted, except tokens."""
        kinds = {
            "tokens": self.shares.nansum(dim=1),
            "biases": self.biases,
            "edits": self.edits,
            "nonlinear": self.values - self.first_order,
        }
        if self.rules != "path":
            kinds["not attributed"] = self.values - sum(kinds.values())
        return {kind: rows for kind, rows in kinds.items() if kind == "tokens" or bool(rows.any())}

    def sums(self, row: int) -> dict[str, float]:
        """Terms of one value by kind.

        Raises:
            InputError: if there is no such row.
        """
        row = one_position(row, len(self.targets), "row")
        return {kind: float(rows[row]) for kind, rows in self.summands.items()}

    def to_dataframe(self) -> pd.DataFrame:
        """One row per target and term: earlier tokens, biases, edits and the nonlinear part.

        Columns are kind, query and key (positions of target and source), query_token, key_token and value. The values of a
        target sum to its logit or log probability. `kind` is "token", with the source's position as key, or "biases", "edits",
        "nonlinear" or "not attributed", with key -1.
        """
        frame = self.token_maps().to_dataframe()
        frame = frame[frame["key"] < frame["query"]].drop(columns=["layer", "channel"])
        frame.insert(0, "kind", "token")
        others = [
            (kind, self.n_prompt + row, -1, token, "", float(rows[row]))
            for kind, rows in self.summands.items()
            if kind != "tokens"
            for row, token in enumerate(self.targets)
        ]
        both = pd.concat([frame, pd.DataFrame(others, columns=frame.columns).astype(frame.dtypes)])
        return both.sort_values("query", kind="stable", ignore_index=True)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        labels, lines = told_apart(self.labels), {}
        for row, (token, value) in enumerate(zip(labels[self.n_prompt :][:8], self.values.tolist(), strict=False)):
            best = self.shares[row, : self.n_prompt + row].abs().argsort(descending=True)[:3].tolist()
            named = "  ".join(f"{labels[source]!r} {significant(float(self.shares[row, source]))}" for source in best)
            lines[repr(token)] = f"{significant(value, 3, '-'):>8} = {in_words(self.sums(row))}   {named}"
        if len(self.targets) > len(lines):
            lines["..."] = ""
        what = (
            f"{self.reading} of {len(self.targets)} tokens after {self.n_prompt} of {self.model}, rules={self.rules!r}"
        )
        return f"{what} · worst error {scientific(float(self.errors.max()))}", lines


@spelled_out(ForwardOptions, DEFAULTS)
def attribute_continuation(
    model: Any,
    prompt: TextOrIds | Sequence[TextOrIds],
    continuation: TextOrIds | Sequence[TextOrIds] | None = None,
    *,
    generate: SupportsIndex | None = None,
    reading: TargetOfTokens = "logit",
    rules: RuleName | Rules = "path",
    **options: Unpack[ForwardOptions],
) -> ContinuationAttribution | Results[ContinuationAttribution]:
    """Attribute every token of a continuation to all tokens before it: one signed matrix [target, source].

    Costs one forward pass, and one backward pass per token of the continuation. A backward pass costs about as much as a
    forward pass, since weights need no gradient. Sixteen run at once.

    Args:
        model: TransformerBridge or HookedTransformer, causal, in eval mode.
        prompt: A text or token ids, or a list of texts or of lists of ids.
        continuation: The text or token ids that follow the prompt, or a list with one per prompt; None with `generate`.
        generate: Number of tokens to generate, each the most probable one. The model may stop earlier.
        reading: "logit", or "log probability", which compares a token with all others.
        rules: As in `ffb.attribute`.
        fwd_hooks: As in `ffb.attribute`.
        rtol: As in `ffb.attribute`.

    Returns:
        One result for one prompt; `Results`, a list, for a list of prompts.

    Raises:
        InputError: for input that cannot be used, or not exactly one of `continuation` and `generate`.
        CompletenessError: if a linearised module differs from the model's own, or if complete attributions do not sum to a target.
        FFBlockError: all other errors of `ffb.attribute`.

    Warns:
        MissingSpaceWarning: if the continuation's first token is improbable, and probable with a space before it.
    """
    if (continuation is None) == (generate is None):
        raise InputError("expected either a continuation or generate=n, the number of tokens to generate.")
    single, prompts = prompts_of(known := identify(model), prompt, "prompt")
    if not single or getattr(prompt, "ndim", 1) == 2:
        given = [None] * len(prompts) if continuation is None else several(continuation)
        if len(given) != len(prompts) or isinstance(continuation, str):
            raise InputError(f"{len(prompts)} prompts, continuation={brief(continuation)}: expected one per prompt.")
        how: dict[str, Any] = {"generate": generate, "reading": reading, "rules": rules, **options}
        return Results(cast("Any", attribute_continuation(known, *p, **how)) for p in zip(prompts, given, strict=True))
    chosen, start = Rules.of(rules), open_attribution_run(known, prompts[0], **options)
    if not start.model.family.causal:
        raise InputError(f"{start.model.name} is an encoder: expected a causal model. Use ffb.attribute.")
    tokens = _with_continuation(start, continuation, generate)
    unpadded = torch.ones_like(tokens)  # end-of-text tokens at the end belong to the continuation
    run = open_attribution_run(start.model, tokens, attention_mask=unpadded, **options)
    difference_of_logits(run.model, chosen)
    n_prompt = len(start.sequences[0].tokens)
    with with_gradients(), memory_given_back(run.model, run.batches):
        traced = trace(run, run.batches[0], chosen, frozenset(("z",)))
        refuse_forms(traced.cache.gaps_of(0), run.settings.rtol, run.model.name, chosen.name)
        warn_of_missing_space(run.model, traced.logits[0, n_prompt - 1].detach(), continuation, continued_tokens)
        result = _attributed(run, traced, n_prompt, reading)
    worst = int(result.errors.argmax())
    if chosen.complete and not float(result.errors[worst]) <= run.settings.rtol:
        raise CompletenessError(
            f"{run.model.name}: attributions of token {n_prompt + worst} differ from its {reading} by "
            f"{float(result.errors[worst]):.1e} of the sum of their absolute values (tolerance {run.settings.rtol:.0e}). "
            f"{run.remedy}"
        )
    return result


def _with_continuation(run: Run, given: Any, generate: SupportsIndex | None) -> Int[Tensor, " pos"]:
    """Token ids of prompt and continuation."""
    prompt = run.sequences[0].tokens
    if generate is not None:
        return torch.cat([prompt, continued(run, whole_number(generate, "generate", at_least=1))])
    tokens = continued_tokens(run.model, given) if isinstance(given, str) else several(given)
    if not tokens or any(whole(token) is None for token in tokens) or whole(given) is not None:
        none = "no tokens; " if not tokens else ""
        raise InputError(f"continuation={brief(given)}: {none}expected a text or token ids [pos], at least one.")
    return torch.cat([prompt, torch.tensor([whole_number(token, "continuation") for token in tokens])])


def _attributed(run: Run, traced: Traced, n_prompt: int, reading: TargetOfTokens) -> ContinuationAttribution:
    """Attribution of each token of the continuation, read at the position before it, in batches of backward passes."""
    rows = torch.split(torch.arange(len(run.sequences[0].tokens) - n_prompt), AT_ONCE)
    pieces = [_rows(run, traced, n_prompt, reading, numbers) for numbers in rows]
    found = {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]}
    shares, residual, constants = found["shares"], found["residual"], found["constants"]
    # Sums at the embeddings and at each layer's input, plus all biases and edits that are added later.
    flowing = torch.cat([shares[:, None], residual], dim=1)
    later = constants.flip(-1).cumsum(dim=-1).flip(-1)
    sizes = flowing.abs().sum(dim=-1) + found["biases"].abs()[:, None] + found["edits"].abs()[:, None]
    misses = (flowing.sum(dim=-1) + later - found["first_order"][:, None]).abs()
    sources = torch.arange(shares.shape[1]) < n_prompt + torch.arange(len(shares))[:, None]
    return ContinuationAttribution(
        labels=run.sequences[0].labels,
        n_prompt=n_prompt,
        reading=reading,
        rules=traced.rules.name,
        errors=relative(misses, sizes).amax(dim=1),
        model=run.model.name,
        fingerprint=run.model.fingerprint,
        **found | {"shares": shares.where(sources, torch.nan)},
    )


def _rows(
    run: Run, traced: Traced, n_prompt: int, reading: TargetOfTokens, numbers: Int[Tensor, " row"]
) -> dict[str, Float[Tensor, "row ..."]]:
    """By field: its rows for some targets. Attributions to later tokens are not yet NaN."""
    logits = traced.logits.detach()
    at, said = n_prompt - 1 + numbers, run.sequences[0].tokens[n_prompt + numbers].to(logits.device)
    read = logits[0, at]
    gradient = torch.nn.functional.one_hot(said, logits.shape[-1]).to(logits)
    values = read.gather(1, said[:, None])[:, 0]
    if reading == "log probability":
        gradient, values = gradient - read.softmax(dim=-1), values - read.logsumexp(dim=-1)
    cotangents = logits.new_zeros(len(numbers), *logits.shape)
    cotangents[torch.arange(len(numbers)), 0, at] = gradient
    back = traced.backward(traced.logits, cotangents, again=True)
    layers = range(run.model.n_layers)
    by_head = [(traced.cache.kept["z", layer].detach() * back.kept["z", layer]).sum(dim=(1, 2, -1)) for layer in layers]
    found = {
        "values": values,
        "first_order": (gradient * read).sum(dim=1),
        "heads": stacked_heads([table.T for table in by_head]).permute(2, 0, 1),
        **_summed(run, traced, back),
    }
    return {name: numbers_of.to(run.settings.dtype).cpu() for name, numbers_of in found.items()}


def _summed(run: Run, traced: Traced, back: Backward) -> dict[str, Float[Tensor, "row ..."]]:
    """Attributions to tokens, the residual stream, biases and edits, in total and by the layer that adds them."""
    gates = {place: gate[:, 0] for place, gate in back.gates.items()}
    first = next(iter(gates.values()))
    n_rows, n_tokens = first.shape
    tokens, residual = first.new_zeros(n_rows, n_tokens), first.new_zeros(n_rows, run.model.n_layers + 1, n_tokens)
    constants = {kind: residual.new_zeros(n_rows, run.model.n_layers + 2) for kind in ("bias", "edit")}
    for place, gate in gates.items():
        if place.kind == "residual":
            residual[:, place.layer] = gate
        elif place.kind == "bias" or place in traced.cache.edited:
            constants[place.kind][:, place.layer + 1] += gate.sum(dim=1)
        elif place.kind in ("token", "position", "token type"):
            tokens += gate
    return {
        "shares": residual[:, 0] if traced.cache.unseen_positions else tokens,
        "residual": residual,
        "constants": constants["bias"] + constants["edit"],
        "biases": constants["bias"].sum(dim=1),
        "edits": constants["edit"].sum(dim=1),
    }
