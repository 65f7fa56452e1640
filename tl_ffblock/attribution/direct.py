"""Direct logit attribution and the logit lens.

The residual stream is a sum, and the final norm is linear with its scale of the forward pass. A logit is therefore the sum of
`<z W_O, W_U / scale>` over heads, and of the same products over feed-forwards, embeddings and biases (Elhage et al. 2021, "A
mathematical framework for transformer circuits"; Wang et al. 2023). The logit lens (nostalgebraist 2020) reads partial sums
as logits.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Literal, SupportsIndex, TypeAlias, Unpack, cast, overload

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.attribution.attribute import (
    AttributeOptions,
    Part,
    attributed,
    open_attribution_run,
    read_parts,
)
from tl_ffblock.attribution.attribution import Attribution, TermRow
from tl_ffblock.attribution.targets import Direction, Target, bound_to_run, values_of
from tl_ffblock.bridge.callbacks import LastCallback
from tl_ffblock.bridge.gradient_cache import GradientCache
from tl_ffblock.bridge.inputs import Batch, forward
from tl_ffblock.bridge.labels import label
from tl_ffblock.bridge.layers import BEFORE_GAIN
from tl_ffblock.bridge.linearised import DIRECT
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.readout import read_out
from tl_ffblock.bridge.runs import DEFAULTS, Ids, Run, Texts, Tokens
from tl_ffblock.bridge.traced import Traced
from tl_ffblock.errors import IdentityError, InputError, ScopeKeyError
from tl_ffblock.layer.positions import Positions, positions, whole_number
from tl_ffblock.numerals import percent, scientific, significant
from tl_ffblock.progress import Progress
from tl_ffblock.result import Result, Results, long_form
from tl_ffblock.results.tokens import shortened, told_apart
from tl_ffblock.signatures import spelled_out, strict

OnRequest: TypeAlias = Literal["neurons"]
"""Values of `of`. Heads, feed-forwards, embeddings and biases are always computed."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class DirectLogitAttribution(Attribution):
    """Direct contributions of components to a target, in its units, through the residual stream alone.

    `value = embeddings + heads + feed-forwards + biases + edits + nonlinear`. Unlike in `Attribution`, heads [layer head pos]
    and feed-forwards [layer pos] are terms of the sum. `biases` has those that are added to the residual stream. Biases inside
    a block, such as b_V, are part of its heads and neurons. `residual` at a layer's input is the contribution of all earlier
    layers.
    """

    def written(self) -> Float[Tensor, "layer term"]:
        """Contributions of heads and feed-forwards at all positions [layer term]."""
        return torch.cat([self.heads.flatten(1), self.mlps], dim=1)

    def sums(self) -> dict[str, float]:
        """Terms of the target by kind. Kinds without a contribution are omitted, except embeddings."""
        tokens, *others = super().sums().items()
        by_kind = {"embeddings": tokens[1], "heads": float(self.heads.sum()), "feed-forwards": float(self.mlps.sum())}
        by_kind |= {name: share for name, share in others if name != "not attributed"}
        return {name: share for name, share in by_kind.items() if share or name == "embeddings"}

    def summary(self) -> tuple[str, Mapping[str, object]]:
        headline, lines = super().summary()
        return f"direct contributions to {headline}", {name: line for name, line in lines.items() if name != "largest"}

    def _term_rows(self) -> Iterator[TermRow]:
        for layer, (heads, mlp) in enumerate(zip(self.heads.tolist(), self.mlps.tolist(), strict=True)):
            named = {f"L{layer}H{head}": shares for head, shares in enumerate(heads)} | {f"L{layer}.mlp": mlp}
            for name, shares in named.items():
                kind = "mlp" if name.endswith("mlp") else "head"
                yield from ((kind, layer, position, name, share) for position, share in enumerate(shares) if share)
        yield from super()._term_rows()

    def _part(self, name: str, asked: str) -> Tensor:
        if asked in ("edges", "graph"):
            raise ScopeKeyError(f"direct contributions have no {asked}: use ffb.attribute(..., of={asked!r}).")
        return super()._part(name, asked)


@overload
def direct_logit_attribution(
    model: Any,
    inputs: str | Ids,
    target: Target,
    *,
    of: Sequence[OnRequest] | OnRequest = (),
    checkpoint: bool | None = None,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> DirectLogitAttribution: ...
@overload
def direct_logit_attribution(
    model: Any,
    inputs: Texts,
    target: Target,
    *,
    of: Sequence[OnRequest] | OnRequest = (),
    checkpoint: bool | None = None,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> Results[DirectLogitAttribution]: ...
@overload
def direct_logit_attribution(
    model: Any,
    inputs: Tokens,
    target: Target,
    *,
    of: Sequence[OnRequest] | OnRequest = (),
    checkpoint: bool | None = None,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> Any: ...
@spelled_out(AttributeOptions, DEFAULTS)
def direct_logit_attribution(
    model: Any,
    inputs: str | Texts | Ids | Tokens,
    target: Target,
    *,
    of: Sequence[OnRequest] | OnRequest = (),
    checkpoint: bool | None = None,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> DirectLogitAttribution | Results[DirectLogitAttribution]:
    """Direct logit attribution: contributions of heads, feed-forwards, embeddings and biases that sum to a logit.

    A head's contribution is `<z W_O, W_U / scale>`, with the final norm's scale of the forward pass (Elhage et al. 2021). The
    model is used as it is: no weights need to be folded. Paths through later heads and feed-forwards are not included; use
    `ffb.attribute` for them. The sums are checked at every layer's input, and no derivative may reach the norm before a head or
    feed-forward. Costs one forward and one backward pass.

    Args:
        model: As in `ffb.attribute`.
        inputs: A text, a list of texts, or token ids.
        target: As in `ffb.attribute`: `ffb.logit(" Mary", minus=" John")`.
        of: "neurons" for contributions [pos d_mlp] of each layer, which sum to those of the feed-forward.
        attention_mask: As in `ffb.attribute`.
        token_type_ids: As in `ffb.attribute`.
        checkpoint: As in `ffb.attribute`.
        progress: Whether a long call shows a progress bar in a terminal or notebook.
        fwd_hooks: As in `ffb.attribute`.
        rtol: As in `ffb.attribute`.

    Returns:
        One result for a text or [pos] tokens; `Results`, a list, for a list of texts or a [batch, pos] tensor.

    Raises:
        CompletenessError: if contributions do not sum to the target, or a hook adds a path through a head or feed-forward.
        FFBlockError: whatever else `ffb.attribute` raises.
    """
    parts: tuple[Part, ...] = ("heads", "mlps", *read_parts(of, ("neurons",)))
    run = open_attribution_run(model, inputs, reads_media=True, **options)
    return attributed(DirectLogitAttribution, DIRECT, parts, run, target, checkpoint, progress)


@strict
@dataclass(frozen=True, repr=False, eq=False)
class LogitLens(Result):
    """Logit lens: predictions from the residual stream at every layer, by the final norm and the unembedding.

    Each row is normalised with its own scale, as in TransformerLens's `logit_lens`. Differences of rows are therefore not
    direct contributions, which use the last row's scale. The last row has the model's own logits.
    """

    labels: tuple[str, ...]
    """The tokens."""
    names: tuple[str, ...]
    """By row: "L3" at a layer's input, "L3 after attention" between attention and feed-forward, "output" at the end."""
    layers: tuple[int, ...]
    """By row: its layer; the number of layers at the end."""
    positions: tuple[int, ...]
    """Positions that are read."""
    top_tokens: tuple[tuple[tuple[str, ...], ...], ...]
    """Most probable tokens [row position rank]."""
    top_ids: Int[Tensor, "row position rank"]
    top_probabilities: Float[Tensor, "row position rank"]
    entropy: Float[Tensor, "row position"]
    """Entropy of the predicted distribution, in nats."""
    values: Float[Tensor, " row"] | None
    """The target of every row; None without a target."""
    target: str
    """The target in words; empty without a target."""
    error: float
    """Largest difference of the last row from the model's own logits, relative to the largest logit."""
    model: str = "model"
    fingerprint: str = ""
    """Fingerprint of the model's weights; empty if it is not known."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """By row: "residual" or "residual_mid"."""
        return tuple("residual_mid" if name.endswith("attention") else "residual" for name in self.names)

    def to_dataframe(self, of: Literal["tokens", "entropy", "target"] = "tokens") -> pd.DataFrame:
        """One row per number: kind ("residual", "residual_mid"), layer, and the columns of `of`.

        Args:
            of: "tokens" (position, token, rank, top_token, value: its probability), "entropy" (position, token, value in nats),
                or "target" (value).

        Raises:
            ScopeKeyError: for the target of a lens without one.
        """
        if of == "target" and self.values is None:
            raise ScopeKeyError("this lens has no target: pass one, ffb.logit_lens(model, inputs, target).")
        held = {"tokens": self.top_probabilities, "entropy": self.entropy, "target": self.values}
        numbers = cast("Tensor", held[of])
        axes = {"row": range(len(self.names)), "position": self.positions, "rank": range(self.top_ids.shape[2])}
        frame = long_form(numbers, dict(list(axes.items())[: numbers.ndim]), self.labels)
        if of == "tokens":
            said = [token for row in self.top_tokens for by_rank in row for token in by_rank]
            frame.insert(frame.columns.get_loc("value"), "top_token", said)
        rows = frame.pop("row")
        frame.insert(0, "layer", [self.layers[row] for row in rows])
        frame.insert(0, "kind", [self.kinds[row] for row in rows])
        return frame

    def summary(self) -> tuple[str, Mapping[str, object]]:
        def said(row: int) -> str:
            told = "" if self.values is None else f"{significant(float(self.values[row]), 3, '-')}   "
            probability = float(self.top_probabilities[row, -1, 0])
            return f"{told}{self.top_tokens[row][-1][0]!r} {percent(probability)}"

        shown = sorted({*range(0, len(self.names), max(1, len(self.names) // 5)), len(self.names) - 1})[-7:]
        at = f"{self.positions[-1]} {told_apart(self.labels)[self.positions[-1]]!r}"
        lines: dict[str, object] = {"text": shortened(self.labels), "read at": at}
        lines |= {self.names[row]: said(row) for row in shown}
        of = f"{self.target} by layer" if self.target else f"{len(self.names)} rows"
        return f"{of} of {self.model} · last row is the logits, to {scientific(self.error)}", lines


@spelled_out(AttributeOptions, DEFAULTS)
def logit_lens(
    model: Any,
    inputs: str | Texts | Ids | Tokens,
    target: Target | None = None,
    *,
    at: Positions = -1,
    k: SupportsIndex = 5,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> LogitLens | Results[LogitLens]:
    """Logit lens: target, top tokens and entropy from the residual stream at every layer (nostalgebraist 2020).

    Rows are the residual stream at each layer's input, after its attention, and after the last layer. Each row is read by the
    final norm with the row's own scale, the unembedding, its bias and soft cap. An encoder uses its masked-language-model head.
    The last row is compared with the model's own logits. Costs one forward pass, and one product with the unembedding per row:
    at positions `at` without a target, at all positions with one.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        inputs: A text, a list of texts, or token ids.
        target: A function of logits, as in `ffb.attribute`; None means no target.
        at: Positions of top tokens and entropy, negative ones from the end; None means all.
        k: Number of most probable tokens.
        attention_mask: As in `ffb.attribute`.
        token_type_ids: As in `ffb.attribute`.
        progress: Whether a long call shows a progress bar in a terminal or notebook.
        fwd_hooks: As in `ffb.attribute`.
        rtol: As in `ffb.attribute`.

    Returns:
        One result for a text or [pos] tokens; `Results`, a list, for a list of texts or a [batch, pos] tensor.

    Raises:
        InputError: for input, a target or options that cannot be used.
        IdentityError: if the last row differs from the model's logits, for example with hooks after the last layer.
        UntrainedHeadError: for an encoder whose head was never trained.
        UnsupportedModelError: for models without unembedding.
    """
    if isinstance(target, Direction):
        raise InputError(
            "target is a direction in the residual stream: expected a function of logits, such as ffb.logit(...)."
        )
    run = open_attribution_run(model, inputs, reads_media=True, **options)
    results: dict[int, LogitLens] = {}
    with (
        Progress("logit lens", len(run.sequences), "prompts", shown=progress and not run.single) as bar,
        torch.no_grad(),
    ):
        for batch in run.batches:
            streams: dict[str, Tensor] = {}
            with run.hooks(), _kept(run.model, streams):
                logits = forward(run.model, batch)
            for index, number in enumerate(batch.numbers):
                alone, said = Batch(batch.sequence(index)[None], numbers=(number,)), batch.own(index, logits)
                own = Traced(run.model, DIRECT, alone, GradientCache((1, len(said))), said[None])
                rows = {row: batch.own(index, stream) for row, stream in streams.items()}
                results[number] = _lens(run, own, rows, target, at, whole_number(k, "k", at_least=1))
                bar.step()
    return cast("LogitLens | Results[LogitLens]", run.as_asked(results[number] for number in range(len(results))))


@contextmanager
def _kept(model: Model, streams: dict[str, Tensor]) -> Iterator[None]:
    """Cache the residual stream of forward passes by the name of its row. Needs a HookPoint after attention for that row."""
    places: dict[str, str] = {}
    for layer in model.layers:
        places[f"L{layer.number}"] = layer.sites["resid_pre"]
        between = layer.sites["whole.Atb"] if layer.order not in ("parallel", "attn_only") else BEFORE_GAIN
        if not between.endswith(BEFORE_GAIN):
            places[f"L{layer.number} after attention"] = between
    with ExitStack() as stack:
        for row, name in (places | {"output": model.output_name}).items():
            stack.enter_context(LastCallback(model.hook_point(name), partial(streams.__setitem__, row)))
        yield


def _lens(run: Run, own: Traced, rows: Mapping[str, Tensor], target: Any, at: Positions, k: int) -> LogitLens:
    """The lens of one sequence, from its forward pass and the residual stream [pos d_model] of each row."""
    model, number, logits = run.model, own.batch.numbers[0], own.logits[0]
    read = read_out(model, "final_norm")
    places = positions(at, len(logits), "at")
    metric = None if target is None else bound_to_run(run, own, target, number, len(run.sequences))
    words, values, tops, entropies = "", [], [], []
    for stream in rows.values():
        said = read(stream if metric is not None else stream[places])
        if metric is not None:
            with torch.enable_grad():
                value, (words,) = values_of(run, own, metric, said[None])
            values.append(value.detach())
        log_probabilities = said[places if metric is not None else ...].to(run.settings.dtype).log_softmax(dim=-1)
        tops.append(log_probabilities.topk(min(k, said.shape[-1])))
        entropies.append(-(log_probabilities.exp() * log_probabilities).sum(dim=-1))
    error = float((said - (logits if metric is not None else logits[places])).abs().max() / logits.abs().max())
    if not error <= run.settings.rtol:
        raise IdentityError(
            f"{model.name}: final norm and unembedding of the last layer's output differ from the logits of this forward pass "
            f"by {error:.1e} of the largest logit (tolerance {run.settings.rtol:.0e}). Something after the last layer changes "
            f"them. {run.remedy}"
        )
    ids = torch.stack([top.indices for top in tops]).cpu()
    tokens = iter(label(model, ids.flatten()))
    return LogitLens(
        labels=run.sequences[number].labels,
        names=tuple(rows),
        layers=tuple(int(name[1:].split()[0]) if name != "output" else model.n_layers for name in rows),
        positions=tuple(places),
        top_tokens=tuple(tuple(tuple(islice(tokens, ids.shape[2])) for _ in places) for _ in rows),
        top_ids=ids,
        top_probabilities=torch.stack([top.values for top in tops]).exp().cpu(),
        entropy=torch.stack(entropies).cpu(),
        values=torch.cat(values).to(run.settings.dtype).cpu() if values else None,
        target=words,
        error=error,
        model=model.name,
        fingerprint=model.fingerprint,
    )
