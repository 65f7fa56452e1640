"""`ffb.attribute_continuation`: every token of a continuation attributed to everything before it.

One forward pass over prompt and continuation, and one backward pass a token of it, several at once.
"""

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, Unpack, get_args

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from tl_ffblock.attribution.attribute import DEFAULTS, ForwardOptions, open_attribution_run, read_rules
from tl_ffblock.attribution.certificate import refuse_forms, relative
from tl_ffblock.attribution.tables import shares_in_words
from tl_ffblock.bridge.inputs import tokens_of
from tl_ffblock.bridge.linearised import RuleName
from tl_ffblock.bridge.runs import Ids, Run, continued
from tl_ffblock.bridge.traced import Traced, difference_of_logits, trace, with_gradients
from tl_ffblock.errors import CompletenessError, InputError, brief
from tl_ffblock.layer.positions import one_position, several, whole_number
from tl_ffblock.numerals import scientific, significant
from tl_ffblock.result import Result, equal
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.results.tokens import told_apart
from tl_ffblock.signatures import spelled_out, strict, whole

if TYPE_CHECKING:
    import pandas

TextOrIds: TypeAlias = str | Ids | Integer[Tensor, " _"]
"""A text, or token ids [pos]."""
Reading: TypeAlias = Literal["logit", "log probability"]
AT_ONCE = 16
"""Backward passes that run at once."""


@strict
@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class ContinuationAttribution(Result):
    """Signed shares of every token of a continuation: row by row `values = shares + biases + edits + nonlinear`.

    The nonlinear part is 0 for logits; of a log-probability it is minus the entropy, often more than all shares together. Rules
    that are not complete leave a part that is not handed out.
    """

    labels: tuple[str, ...]
    """All tokens, the prompt's first."""
    n_prompt: int
    """How many of them are the prompt's."""
    reading: Reading
    """What was attributed of each token: its logit or its log-probability, at the position before it."""
    rules: RuleName
    values: Float[Tensor, " target"]
    """The logits, or log-probabilities, themselves."""
    first_order: Float[Tensor, " target"]
    """Their first-order forms in the logits, which are shared out."""
    shares: Float[Tensor, "target source"]
    """What each token brings, its position with it; NaN from the target on: no token is a source of itself or of earlier ones."""
    biases: Float[Tensor, " target"]
    """What all biases bring."""
    edits: Float[Tensor, " target"]
    """What callbacks of users bring."""
    errors: Float[Tensor, " target"]
    """What shares, biases and edits miss of the first-order form, over the sum of sizes; 0 for `rules="path"`."""
    model: str = "model"
    """Name of the model, for labels."""
    fingerprint: str = ""
    """Of the model's weights; empty where it is not known."""

    @property
    def targets(self) -> tuple[str, ...]:
        """The continuation's tokens: the rows."""
        return self.labels[self.n_prompt :]

    def token_maps(self) -> TokenMaps:
        """The shares as `TokenMaps` of one layer and one channel, each row at the position of its token: signed."""
        return TokenMaps(
            values=self.shares[None, None],
            tokens=self.labels,
            layers=(0,),
            channels=("share",),
            queries=tuple(range(self.n_prompt, len(self.labels))),
            causal=True,
            model=self.model,
            signed=True,
            kind=f"shares of the next token's {self.reading}",
            layered=False,
            provenance={"fingerprint": self.fingerprint, "rules": self.rules},
        )

    def __eq__(self, other: object) -> bool:
        """Whether all labels and all numbers are the same; NaN equals NaN."""
        return equal(self, other) if isinstance(other, ContinuationAttribution) else NotImplemented

    @cached_property
    def summands(self) -> "dict[str, Float[Tensor, ' target']]":
        """What every value is the sum of, by kind; kinds that have no share in any row are left out, but for the tokens."""
        kinds = {
            "tokens": self.shares.nansum(dim=1),
            "biases": self.biases,
            "edits": self.edits,
            "nonlinear": self.values - self.first_order,
        }
        if self.rules != "path":
            kinds["not handed out"] = self.values - sum(kinds.values())
        return {kind: rows for kind, rows in kinds.items() if kind == "tokens" or bool(rows.any())}

    def sums(self, row: int) -> dict[str, float]:
        """What one value is the sum of, by kind.

        Raises:
            InputError: if there is no such row.
        """
        row = one_position(row, len(self.targets), "row")
        return {kind: float(rows[row]) for kind, rows in self.summands.items()}

    def to_dataframe(self) -> "pandas.DataFrame":
        """One row a summand: each token before a target, and of each target its biases, edits and nonlinear part.

        The shares of a target sum to its value. `kind` is "token", with the source's position, or "biases", "edits",
        "nonlinear" or "not handed out", whose source is -1.
        """
        import pandas as pd

        frame = self.token_maps().to_dataframe()
        frame = frame[frame["key"] < frame["query"]].drop(columns=["layer", "channel"])
        names = {"query": "target", "key": "source", "query_token": "target_token", "key_token": "source_token"}
        frame = frame.rename(columns={**names, "value": "share"})
        frame.insert(0, "kind", "token")
        others = [
            {"kind": kind, "target": self.n_prompt + row, "source": -1, "target_token": token, "source_token": ""}
            | {"share": float(rows[row])}
            for kind, rows in self.summands.items()
            if kind != "tokens"
            for row, token in enumerate(self.targets)
        ]
        if not others:
            return frame.reset_index(drop=True)
        both = pd.concat([frame, pd.DataFrame(others)]).astype({"share": frame["share"].dtype})
        return both.sort_values("target", kind="stable", ignore_index=True)

    def __repr__(self) -> str:
        lines = [
            f"ContinuationAttribution: {self.reading} of {len(self.targets)} tokens after {self.n_prompt} of {self.model}, "
            f"rules={self.rules!r} · worst error {scientific(float(self.errors.max()))}"
        ]
        labels = told_apart(self.labels)
        for row, (token, value) in enumerate(zip(labels[self.n_prompt :][:8], self.values.tolist(), strict=False)):
            best = self.shares[row, : self.n_prompt + row].abs().argsort(descending=True)[:3].tolist()
            named = "  ".join(f"{labels[source]!r} {significant(float(self.shares[row, source]))}" for source in best)
            said = f"{significant(value, 3, '-'):>8} = {shares_in_words(self.sums(row))}"
            lines.append(f"  {token!r:>14} {said}   {named}")
        return "\n".join(lines + ["  ..."] * (len(self.targets) > 8))


@spelled_out(ForwardOptions, {name: DEFAULTS[name] for name in ForwardOptions.__annotations__})
def attribute_continuation(
    model: Any,
    prompt: TextOrIds,
    continuation: TextOrIds | None = None,
    *,
    generate: SupportsIndex | None = None,
    reading: Reading = "logit",
    rules: RuleName = "path",
    **options: Unpack[ForwardOptions],
) -> ContinuationAttribution:
    """Every token of a continuation attributed to all tokens before it, as one signed [target, source] matrix.

    Costs one forward pass, and for each token of the continuation one backward pass that leaves weights alone (about as much
    as a forward pass), sixteen of them at once.

    Args:
        model: TransformerBridge or HookedTransformer, causal, in eval mode.
        prompt: A text or token ids.
        continuation: What follows, as text or token ids; None with `generate`.
        generate: How many tokens the model is to say itself, each the most probable; it may end earlier.
        reading: "logit", or "log probability", which compares a token with all others.
        rules: As in `ffb.attribute`.
        **options: As in `ffb.attribute`: fwd_hooks, rtol.

    Raises:
        InputError: for input that cannot be used, or not exactly one of `continuation` and `generate`.
        CompletenessError: if local forms miss the model's tensors, or shares a target where rules are complete.
        FFBlockError: whatever else `ffb.attribute` raises.
    """
    if reading not in get_args(Reading):
        raise InputError(f'reading={reading!r}: expected "logit" or "log probability".')
    if (continuation is None) == (generate is None):
        raise InputError(
            "give either a continuation or generate=n, the number of tokens that the model is to say itself."
        )
    chosen, start = read_rules(rules), open_attribution_run(model, prompt, **options)
    if not start.single or not start.model.family.causal:
        raise InputError("a continuation is of one prompt, of a model that reads from left to right.")
    whole = torch.cat([start.sequences[0].tokens, _continuation(start, continuation, generate)])
    run = open_attribution_run(start.model, whole, **options)
    difference_of_logits(run.model, chosen.name)
    n_prompt = len(start.sequences[0].tokens)
    with with_gradients():
        traced = trace(run, run.batches[0], chosen, frozenset())
        refuse_forms(traced.tape.gaps_of(0), run.settings.rtol, run.model.name, chosen.name)
        result = _Rows(run, traced, n_prompt, reading).result()
    worst = int(result.errors.argmax())
    if chosen.complete and not float(result.errors[worst]) <= run.settings.rtol:
        raise CompletenessError(
            f"{run.model.name}: shares of token {n_prompt + worst} miss its {reading} by {float(result.errors[worst]):.1e} of "
            f"their sizes (tolerance {run.settings.rtol:.0e}). No attribution is made."
        )
    return result


def _continuation(run: Run, given: TextOrIds | None, generate: SupportsIndex | None) -> Int[Tensor, " pos"]:
    if generate is not None:
        return continued(run, whole_number(generate, "generate", at_least=1))
    assert given is not None, "one of the two was given"
    tokens = tokens_of(run.model, given) if isinstance(given, str) else several(given)
    if not tokens or any(whole(token) is None for token in tokens) or whole(given) is not None:
        none = "no tokens; " if not tokens else ""
        raise InputError(f"continuation={brief(given)}: {none}expected a text or token ids [pos], at least one.")
    return torch.tensor([whole_number(token, "continuation") for token in tokens])


@dataclasses.dataclass(frozen=True)
class _Rows:
    """The targets of a run: each token of the continuation, read at the position before it."""

    run: Run
    traced: Traced
    n_prompt: int
    reading: Reading

    def result(self) -> ContinuationAttribution:
        """All rows, some backward passes at a time."""
        tokens = self.run.sequences[0].tokens[self.n_prompt :]
        pieces = [self._rows(numbers, tokens) for numbers in torch.split(torch.arange(len(tokens)), AT_ONCE)]
        values, first_order, shares, biases, edits = (torch.cat(rows) for rows in zip(*pieces, strict=True))
        sizes = shares.abs().sum(dim=1) + biases.abs() + edits.abs()
        sources = torch.arange(shares.shape[1]) < self.n_prompt + torch.arange(len(shares))[:, None]
        return ContinuationAttribution(
            labels=self.run.sequences[0].labels,
            n_prompt=self.n_prompt,
            reading=self.reading,
            rules=self.traced.rules.name,
            values=values,
            first_order=first_order,
            shares=shares.where(sources, torch.nan),
            biases=biases,
            edits=edits,
            errors=relative((shares.sum(dim=1) + biases + edits - first_order).abs(), sizes),
            model=self.run.model.name,
            fingerprint=self.run.model.fingerprint,
        )

    def _rows(self, numbers: Int[Tensor, " row"], tokens: Int[Tensor, " target"]) -> tuple[Tensor, ...]:
        logits = self.traced.logits.detach()
        at, said = self.n_prompt - 1 + numbers, tokens[numbers].to(logits.device)
        read = logits[0, at]
        gradient = torch.nn.functional.one_hot(said, logits.shape[-1]).to(logits)
        values = read.gather(1, said[:, None])[:, 0]
        if self.reading == "log probability":
            gradient, values = gradient - read.softmax(dim=-1), values - read.logsumexp(dim=-1)
        seeds = logits.new_zeros(len(numbers), *logits.shape)
        seeds[torch.arange(len(numbers)), 0, at] = gradient
        back = self.traced.backward(self.traced.logits, seeds, again=True)
        sums = dict.fromkeys(("token", "bias", "edit"), logits.new_zeros(len(numbers), logits.shape[1]))
        for place, dial in back.dials.items():
            kind = "token" if place.kind in ("position", "token type") else place.kind
            if kind in sums and (kind != "edit" or place in self.traced.tape.edited):
                sums[kind] = sums[kind] + dial[:, 0]
        if self.traced.tape.unseen_positions:
            sums["token"] = next(d[:, 0] for p, d in back.dials.items() if (p.kind, p.layer) == ("residual", 0))
        summed = (sums["bias"].sum(dim=1), sums["edit"].sum(dim=1))
        wide = self.run.settings.dtype
        return tuple(part.to(wide).cpu() for part in (values, (gradient * read).sum(dim=1), sums["token"], *summed))
