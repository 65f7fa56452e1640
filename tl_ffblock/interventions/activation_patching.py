# Noun: activation patching (Vig et al. 2020; Meng et al. 2022; Heimersheim and Nanda 2024).
"""`ffb.activation_patching`: measured change of a target when one activation is replaced by that of another prompt.

Every number is one forward pass with a patch. Patches of a layer run in batches, from that layer on (`LateRuns`). Two identities
are checked at every layer. A prompt patched with its own activations must give its own logits. The residual stream patched at
all positions must give the other prompt's logits.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, SupportsIndex, TypeAlias, TypedDict, Unpack, cast, overload

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tl_ffblock.attribution.attribute import read_parts
from tl_ffblock.attribution.patching import PatchingEstimates, pairs_of
from tl_ffblock.attribution.targets import Target, of_logits, words_of
from tl_ffblock.bridge.edited import PATCH_KINDS, LateRuns, PatchKind, heads_of
from tl_ffblock.bridge.model import Model, identify, select_layers
from tl_ffblock.bridge.runs import Ids, Layers, Texts, Tokens
from tl_ffblock.errors import EqualPairWarning, InputError, warn
from tl_ffblock.interventions.patched import equally_long, pair_labels, refuse_other_run
from tl_ffblock.layer.positions import NamedPositions, Positions, chosen_positions, whole_number
from tl_ffblock.metrics import CleanRun, Metric, run_by_run
from tl_ffblock.numerals import scientific, significant
from tl_ffblock.progress import Progress
from tl_ffblock.result import ByKind, Result, Results, long_form
from tl_ffblock.results.intervals import mean_interval, refuse_mixed
from tl_ffblock.results.tables import alike
from tl_ffblock.results.tokens import joined, shortened
from tl_ffblock.signatures import by_plural, spelled_out, strict

Change: TypeAlias = Literal["denoising", "noising"]
"""Clean activations into the corrupted prompt (denoising), or corrupted ones into the clean prompt (noising)."""
Replacement: TypeAlias = Literal["run", "zero", "mean", "mean_over_prompts", "resample"]
"""What replaces an activation: that of the other prompt, zeros, its mean over the prompt's positions or over those of all clean
prompts, or that of the next prompt of the list."""
PatchesOf: TypeAlias = Literal["residual", "residual_mid", "attention", "mlps", "heads", "q", "k", "v", "pattern"]
"""What is patched: the residual stream at a layer's input, between attention and feed-forward; what attention and feed-forwards
add to it; of heads z, queries, keys and values before any rotation, and the attention pattern."""
STREAM: tuple[PatchKind, ...] = ("residual", "residual_mid", "attention", "mlp")
"""Kinds without heads, which are patched at one position at a time by default."""
_EQUAL = 1e-6
"""Targets with a smaller relative difference are equal: it is rounding of float32."""
PLACES = ["kind", "layer", "head", "position"]
"""Columns that identify a patch."""


class PatchOptions(TypedDict, total=False):
    """Options: which activations are patched, and how."""

    of: Sequence[PatchesOf] | PatchesOf
    """Kinds of activations: "residual", "residual_mid", "attention", "mlps", "heads", "q", "k", "v", "pattern"."""
    direction: Change | None
    """"denoising" or "noising"; None means "denoising" with a corrupted prompt, else "noising"."""
    replacement: Replacement
    """What replaces an activation: "run", the other prompt's activation. For the clean prompt also "zero", "mean" (over its
    positions), "mean_over_prompts" (over the positions of all clean prompts), "resample" (the next clean prompt's)."""
    layers: Layers
    """Layers; None means all layers and the end of the residual stream."""
    positions: Positions | NamedPositions
    """Positions, as numbers for all pairs, or by name: {"IO": [2, 4], "END": -1}. None means all."""
    by_position: bool | Sequence[PatchesOf]
    """Kinds that are patched at one position at a time, the others at all chosen positions at once. True means all kinds."""
    batch_size: SupportsIndex
    """Largest number of patches per forward pass; smaller if tensors are large."""
    progress: bool
    """Whether a long call shows a progress bar with its cost in a terminal or notebook."""


DEFAULTS: dict[str, Any] = {
    "of": ("residual", "attention", "mlps", "heads"),
    "direction": None,
    "replacement": "run",
    "layers": None,
    "positions": None,
    "by_position": ("residual", "residual_mid", "attention", "mlps"),
    "batch_size": 64,
    "progress": True,
}


@strict
@dataclass(frozen=True, repr=False, eq=False)
class ActivationPatching(Result):
    """A target under every patch, for one pair of prompts, or the mean over pairs.

    `values`, `patched` and `normalised` have one tensor per kind: [layer pos], of heads [layer head pos]. The last axis is missing
    if all positions are patched at once. With several targets, they are the first axis.
    """

    measured: Mapping[str, Float[Tensor, "target layer *place"]]
    """Targets under each patch, by kind; NaN if the sweep was interrupted before it."""
    layers: Mapping[str, tuple[int, ...]]
    """By kind: the layers. In the residual stream the number of layers means the end."""
    positions: tuple[int | str, ...]
    """Numbers or names of positions."""
    position_tokens: tuple[str, ...]
    """Tokens at these positions, "clean→corrupted" where they differ."""
    labels: tuple[str, ...]
    """All tokens of the prompt, in the same format."""
    targets: tuple[str, ...]
    """The targets in words: "logit difference ' Mary' - ' John'"."""
    quantities: tuple[str, ...]
    """Kinds of the targets: "logit difference"."""
    clean: Float[Tensor, " target"]
    """Targets of the clean prompt."""
    corrupted: Float[Tensor, " target"]
    """Targets of the corrupted prompt; NaN if there is none."""
    direction: Change
    replacement: Replacement
    model: str
    fingerprint: str = ""
    """Fingerprint of the model's weights; empty if it is not known."""
    error: float = 0.0
    """Largest relative error of logits in the checks."""
    complete: bool = True
    """False for a sweep that was interrupted."""
    low: Mapping[str, Float[Tensor, "target layer *place"]] = field(default_factory=dict)
    """For a mean over pairs: lower end of the effects' 95 % intervals (percentile bootstrap over pairs)."""
    high: Mapping[str, Float[Tensor, "target layer *place"]] = field(default_factory=dict)
    """Upper end of these intervals."""
    n_pairs: int = 1
    clean_labels: tuple[str, ...] = ()
    """The tokens of the clean prompt alone; empty in older files."""

    @property
    def values(self) -> ByKind[Float[Tensor, "..."]]:
        """Change of the target by each patch, by kind."""
        return self._of_one({kind: self._scaled(kind, *self._unpatched) for kind in self.measured})

    @property
    def patched(self) -> ByKind[Float[Tensor, "..."]]:
        """The target under each patch, as from the functions of `transformer_lens.patching`."""
        return self._of_one(self.measured)

    @property
    def normalised(self) -> ByKind[Float[Tensor, "..."]]:
        """The target under each patch, 0 for the corrupted run's and 1 for the clean run's; NaN if these are equal.

        Raises:
            InputError: if there is no corrupted prompt.

        Warns:
            EqualPairWarning: if they are equal.
        """
        if not self._has_ends:
            raise InputError(
                f"normalised: replacement={self.replacement!r} has no corrupted prompt, whose target would be 0. Use `values`, or "
                "pass a corrupted prompt and replacement='run'."
            )
        if bool(self._ends[1].isnan().any()):
            warn(f"normalised is NaN: {self._equal_ends}. Use `values`.", EqualPairWarning)
        return self._of_one({kind: self._scaled(kind, *self._ends) for kind in self.measured})

    @property
    def identity(self) -> Mapping[str, str]:
        """What results must have in common to be averaged."""
        return {
            "quantity": ", ".join(self.quantities),
            "model": self.model,
            "fingerprint": self.fingerprint,
            "direction": self.direction,
            "replacement": self.replacement,
        }

    def to_dataframe(self) -> pd.DataFrame:
        """One row per patch: kind, layer, head, position, token, value (change of the target), and normalised if it is known.

        Head is -1 where a kind has no heads, position where all positions are patched at once. Several targets have a column
        `target`, a mean over pairs low, high (of the value) and n.
        """
        tokens = dict(zip(self.positions, self.position_tokens, strict=True))
        frames = []
        for kind, table in self.measured.items():
            axes: dict[str, Sequence[Any]] = {"target": self.targets, "layer": self.layers[kind]}
            axes |= {} if kind in STREAM else {"head": range(table.shape[2])}
            axes |= {"position": self.positions} if table.ndim > len(axes) else {}
            numbers = {"normalised": self._scaled(kind, *self._ends)} if self._has_ends else {}
            numbers |= {"low": self.low[kind], "high": self.high[kind]} if self.low else {}
            frame = long_form(self._scaled(kind, *self._unpatched), axes).assign(kind=kind)
            frame = frame.assign(**{name: column.flatten().numpy() for name, column in numbers.items()})
            frame = frame.assign(**{name: -1 for name in PLACES if name not in frame})
            frames.append(frame.assign(token=frame["position"].map(tokens).fillna(""), n=self.n_pairs))
        named = ["target"] if len(self.targets) > 1 else []
        ends = ["low", "high", "n"] if self.low else []
        columns = [*named, *PLACES, "token", "value", *(["normalised"] if self._has_ends else []), *ends]
        return pd.concat(frames, ignore_index=True)[columns]

    def compare(self, estimates: Any) -> "PatchingComparison":
        """Estimates of the same effects beside the measured ones.

        If the sweep patched all positions at once, estimates are summed over positions.

        Args:
            estimates: Result of `ffb.attribution_patching` for the same prompts and target.

        Raises:
            InputError: if they are no such estimates, not of the same prompts, target, model and direction, or have no number in
                common.
        """
        return _compared(self, estimates)

    @staticmethod
    def mean(results: "Iterable[ActivationPatching]") -> "ActivationPatching":
        """Mean over pairs, with 95 % intervals of the effects; NaN if one pair has NaN. Means are normalised, not each pair.

        Raises:
            InputError: if there is no result, or if results differ in patches or model.
        """
        several = alike(results, ActivationPatching, "ffb.activation_patching")
        refuse_mixed(several, "average")
        first = several[0]
        for number, result in enumerate(several):
            shapes, others = ({k: tuple(v.shape) for k, v in each.measured.items()} for each in (first, result))
            if not result.complete:
                raise InputError(
                    f"cannot average: the sweep of result {number} was interrupted, and its patches are not those of the other "
                    "results. Omit it, or run it again."
                )
            if (shapes, first.positions, first.layers) != (others, result.positions, result.layers):
                raise InputError(
                    f"cannot average results 0 and {number}: they have different kinds, layers or positions. For prompts of "
                    'different lengths use named positions, positions={"IO": [4, 2], "END": -1}.'
                )
        measured = {kind: torch.stack([result.measured[kind] for result in several]) for kind in first.measured}
        intervals = {
            kind: mean_interval(torch.stack([result.values[kind].reshape(table.shape) for result in several]))
            for kind, table in first.measured.items()
        }
        # A target that is NaN under a patch of one pair has no mean there; unpatched targets are means over all pairs.
        none = {kind: tables.isnan().any(dim=0) for kind, tables in measured.items()}
        return replace(
            first,
            measured={kind: tables.mean(dim=0) for kind, tables in measured.items()},
            position_tokens=tuple(joined(t, "|") for t in zip(*(r.position_tokens for r in several), strict=True)),
            labels=first.labels if len(several) == 1 else (),
            clean_labels=first.clean_labels if len(several) == 1 else (),
            targets=tuple(joined(words, "|") for words in zip(*(r.targets for r in several), strict=True)),
            clean=torch.stack([result.clean for result in several]).mean(dim=0),
            corrupted=torch.stack([result.corrupted for result in several]).mean(dim=0),
            error=max(result.error for result in several),
            complete=all(result.complete for result in several),
            low={kind: of_kind.low.masked_fill(none[kind], torch.nan) for kind, of_kind in intervals.items()},
            high={kind: of_kind.high.masked_fill(none[kind], torch.nan) for kind, of_kind in intervals.items()},
            n_pairs=len(several),
        )

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """Targets, the largest effect of every kind, and the checks."""
        lines: dict[str, object] = {"text": shortened(self.labels)} if self.labels else {}
        table = self.to_dataframe()
        for kind in self.measured:
            rows = table[(table["kind"] == kind) & table["value"].notna()]
            if len(rows):
                row = rows.loc[rows["value"].abs().idxmax()]
                head = f"H{row['head']}" if row["head"] >= 0 else ""
                where = f" at {row['position']} {row['token']!r}" if row["position"] != -1 else ", all positions"
                lines[f"largest {kind}"] = f"L{row['layer']}{head}{where}: {significant(float(row['value']))}"
        checks = f"worst relative error of logits {scientific(self.error)}"
        if self._has_ends and bool(self._ends[1].isnan().any()):
            lines["normalised"] = f"NaN: {self._equal_ends}"
        lines["checks"] = checks if self.complete else f"{checks}; interrupted, NaN where no patch was run"
        ends = [significant(float(end[0]), 4, "-") for end in (self.clean, self.corrupted)[: 1 + self._has_ends]]
        more = f" and {len(self.targets) - 1} more" if len(self.targets) > 1 else ""
        pairs = f", mean over {self.n_pairs} pairs" if self.n_pairs > 1 else ""
        how = self.direction if self.replacement == "run" else f"replacement={self.replacement!r}"
        return f"{self.targets[0]} {' → '.join(ends)}{more} of {self.model}, {how}{pairs}", lines

    @property
    def _has_ends(self) -> bool:
        return not bool(self.corrupted.isnan().any())

    @property
    def _ends(self) -> tuple[Tensor, Tensor]:
        """The targets that are scaled to 0, and their distance to those that are scaled to 1; NaN if it is rounding."""
        unit = self.clean - self.corrupted
        return self.corrupted, unit.masked_fill(unit.abs() <= _EQUAL * self.clean.abs(), torch.nan)

    @property
    def _equal_ends(self) -> str:
        return (
            f"the targets of the clean and the corrupted prompt are equal, {significant(float(self.clean[0]), 4, '-')}"
        )

    @property
    def _unpatched(self) -> tuple[Tensor, Tensor]:
        """Targets without a patch, and a unit of 1."""
        baseline = self.corrupted if self.direction == "denoising" else self.clean
        return baseline, torch.ones_like(baseline)

    def _scaled(self, kind: str, zero: Float[Tensor, " target"], unit: Float[Tensor, " target"]) -> Tensor:
        table = self.measured[kind]
        zero, unit = (each.reshape(-1, *[1] * (table.ndim - 1)) for each in (zero, unit))
        return (table - zero) / unit

    def _of_one(self, by_kind: Mapping[str, Tensor]) -> ByKind[Tensor]:
        return ByKind({kind: table[0] if len(self.targets) == 1 else table for kind, table in by_kind.items()})


@strict
@dataclass(frozen=True, repr=False, eq=False)
class PatchingComparison(Result):
    """Estimated and measured effects of the same patches."""

    kinds: tuple[str, ...]
    """Kind of each patch; all other fields have one entry per patch too."""
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    """-1 for none."""
    positions: tuple[int, ...]
    """-1 for all."""
    tokens: tuple[str, ...]
    estimates: Float[Tensor, " patch"]
    measured: Float[Tensor, " patch"]
    target: str
    model: str

    @property
    def correlation(self) -> pd.DataFrame:
        """By kind (index): Pearson's r, Spearman's rho and the number of patches, n."""
        rows = {}
        for kind, of_kind in self.to_dataframe().dropna(subset=["estimate", "value"]).groupby("kind", sort=False):
            estimate, value = of_kind["estimate"], of_kind["value"]
            r, rho = estimate.corr(value), estimate.rank().corr(value.rank())
            rows[kind] = {"pearson": r, "spearman": rho, "n": len(of_kind)}
        return pd.DataFrame.from_dict(rows, orient="index").astype({"n": int})

    def to_dataframe(self) -> pd.DataFrame:
        """One row per patch: kind, layer, head, position, token, estimate, and value (measured)."""
        places = zip(self.kinds, self.layers, self.heads, self.positions, self.tokens, strict=True)
        frame = pd.DataFrame(places, columns=[*PLACES, "token"])
        return frame.assign(estimate=self.estimates.numpy(), value=self.measured.numpy())

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """Correlation of every kind."""
        rows = self.correlation.iterrows()
        return f"estimated and measured changes of {self.target} of {self.model}", {
            str(kind): f"Pearson {row['pearson']:.3f}, Spearman {row['spearman']:.3f}, {row['n']:.0f} patches"
            for kind, row in rows
        }


def _compared(sweep: ActivationPatching, estimates: Any) -> PatchingComparison:
    if not isinstance(estimates, PatchingEstimates):
        raise InputError(
            f"compare: estimates is of type {type(estimates).__name__}, expected PatchingEstimates of ffb.attribution_patching. Compare an "
            "attribution with patching by torch.corrcoef of result.heads.sum(dim=-1) and -sweep.values['heads'], two results of one "
            "class by first.figure(against=second, of='heads')."
        )
    if sweep.direction != "noising" or sweep.replacement != "run":
        raise InputError(
            "compare: attribution_patching estimates direction='noising' with replacement='run'; this sweep has direction="
            f"{sweep.direction!r} and replacement={sweep.replacement!r}. Use activation_patching(..., direction='noising')."
        )
    refuse_other_run(
        prompts=(sweep.labels, estimates.labels),
        targets=(sweep.targets, (estimates.target,)),
        weights=(sweep.fingerprint, estimates.fingerprint),
    )
    if any(isinstance(position, str) for position in sweep.positions):
        raise InputError("compare: the sweep has named positions, the estimates have numbers. Use positions by number.")
    estimated = estimates.to_dataframe()[[*PLACES, "value"]].rename(columns={"value": "estimate"})
    chosen = estimated[estimated["position"].isin(sweep.positions)]
    whole = chosen.assign(position=-1).groupby(PLACES, as_index=False)["estimate"].sum()
    rows = sweep.to_dataframe().merge(pd.concat([estimated, whole]), on=PLACES, how="inner")
    if not len(rows):
        raise InputError(
            f"compare: the sweep has {', '.join(sweep.measured)}, the estimates have {', '.join(estimated['kind'].unique())}: "
            "expected a kind that both have."
        )
    return PatchingComparison(
        kinds=tuple(rows["kind"]),
        layers=tuple(rows["layer"].tolist()),
        heads=tuple(rows["head"].tolist()),
        positions=tuple(rows["position"].tolist()),
        tokens=tuple(rows["token"]),
        estimates=torch.tensor(rows["estimate"].to_numpy(dtype=float)),
        measured=torch.tensor(rows["value"].to_numpy(dtype=float)),
        target=sweep.targets[0],
        model=sweep.model,
    )


@dataclass
class _Sweep:
    """Patches of one call, the same for every pair."""

    model: Model
    kinds: tuple[PatchKind, ...]
    layers: Mapping[str, tuple[int, ...]]
    by_position: Collection[PatchKind]
    replacement: Replacement
    direction: Change
    metrics: tuple[Metric, ...]
    batch_size: int

    @property
    def patched(self) -> list[tuple[PatchKind, int]]:
        return [(kind, layer) for kind in self.kinds for layer in self.layers[kind]]

    @property
    def read_from(self) -> int | None:
        """First position that a metric reads, from the end; None if a metric reads all, or counts from the start."""
        places = [metric.at for metric in self.metrics]
        return min(at for at in places if at is not None) if all(at is not None and at < 0 for at in places) else None

    def run(self, tokens: Int[Tensor, " pos"]) -> LateRuns:
        return LateRuns(self.model, tokens, self.patched, self.read_from)

    def cost(self, n_positions: Sequence[int]) -> tuple[int, float]:
        """Number of patches of all pairs, and their cost in whole forward passes."""
        n_layers = self.model.n_layers
        sizes = [
            (layer, max(1, heads_of(self.model, kind)) * (n if kind in self.by_position else 1))
            for n in n_positions
            for kind, layer in self.patched
        ]
        return sum(n for _, n in sizes), sum(n * max(1, n_layers - at) / n_layers for at, n in sizes)


@dataclass
class _Pair:
    """The patched prompt, the prompt of the new activations, and positions."""

    sweep: _Sweep
    run: LateRuns
    donor: LateRuns | None
    places: Sequence[int]
    metrics: Sequence[Metric]
    means: Mapping[tuple[PatchKind, int], Tensor]
    bar: Progress
    error: float = 0.0

    def heads(self, kind: PatchKind) -> tuple[int, ...]:
        """Indices of a kind's axis of heads in the tables."""
        own = self.run.activation(kind, self.sweep.layers[kind][0])
        return () if kind in STREAM else (own.shape[0 if kind == "pattern" else 1],)

    def measured(self, kind: PatchKind, layer: int) -> Iterator[tuple[slice, Float[Tensor, "target run"]]]:
        """Targets under all patches of a kind at a layer, in the order of head and position, in batches."""
        (n_heads,) = self.heads(kind) or (1,)
        of_position = [[place] for place in self.places] if kind in self.sweep.by_position else [list(self.places)]
        patches = [(head, at) for head in range(n_heads) for at in of_position]
        most = min(self.sweep.batch_size, self.run.at_once)
        for begin in range(0, len(patches), most):
            chunk = patches[begin : begin + most]
            where = torch.zeros(len(chunk), n_heads, len(self.run.logits), dtype=torch.bool)
            for row, (head, at) in enumerate(chunk):
                where[row, head, at] = True
            yield slice(begin, begin + len(chunk)), self.read(self._logits(kind, layer, where, checked=begin == 0))
            self.bar.step(len(chunk))

    def read(self, logits: Float[Tensor, "run read d_vocab"]) -> Float[Tensor, "target run"]:
        """Every target of every row."""
        return torch.stack([run_by_run(metric, logits).detach().double().cpu() for metric in self.metrics])

    def _logits(
        self, kind: PatchKind, layer: int, where: Bool[Tensor, "run head pos"], *, checked: bool
    ) -> Float[Tensor, "run read d_vocab"]:
        """Logits under patches. With `checked`, two more rows: the prompt patched by itself, and the other prompt by the stream."""
        own, new = self.run.activation(kind, layer)[None], self._new(kind, layer)[None]
        if not checked:
            return self.run.patched(kind, layer, new.expand(len(where), *new.shape[1:]), where)
        swaps = self.donor is not None and kind in ("residual", "residual_mid")
        everywhere, what = torch.ones_like(where[:1]), f"{kind} of layer {layer}"
        values = torch.cat([own, *[new] * (len(where) + swaps)])
        logits = self.run.patched(kind, layer, values, torch.cat([everywhere, where, *[everywhere] * swaps]))
        errors = [self.run.error_of(logits[0], self.run, f"a run whose {what} is patched by its own")]
        if swaps and self.donor is not None:
            errors.append(self.run.error_of(logits[-1], self.donor, f"a run whose whole {what} is the other run's"))
        self.error = max(self.error, *errors)
        return logits[1 : 1 + len(where)]

    def _new(self, kind: PatchKind, layer: int) -> Tensor:
        """Activations that are put in."""
        own = self.run.activation(kind, layer)
        if self.donor is not None:
            return self.donor.activation(kind, layer)
        if self.sweep.replacement == "zero":
            return torch.zeros_like(own)
        return self.means.get((kind, layer), own.mean(dim=0)).expand_as(own)


@overload
def activation_patching(
    model: Any,
    clean: str | Ids,
    corrupted: str | Ids | None,
    target: Target | Sequence[Target],
    **options: Unpack[PatchOptions],
) -> ActivationPatching: ...
@overload
def activation_patching(
    model: Any,
    clean: Texts,
    corrupted: Texts | None,
    target: Target | Sequence[Target],
    **options: Unpack[PatchOptions],
) -> Results[ActivationPatching]: ...
@overload
def activation_patching(
    model: Any,
    clean: Tokens,
    corrupted: Tokens | None,
    target: Target | Sequence[Target],
    **options: Unpack[PatchOptions],
) -> Any: ...
@spelled_out(PatchOptions, DEFAULTS)
def activation_patching(
    model: Any,
    clean: str | Texts | Ids | Tokens,
    corrupted: str | Texts | Ids | Tokens | None,
    target: Target | Sequence[Target],
    **options: Unpack[PatchOptions],
) -> ActivationPatching | Results[ActivationPatching]:
    """Activation patching, causal tracing or ablation: change of a target when one activation is replaced.

    It has the patches of `transformer_lens.patching`, for every supported model. Each patch is measured by one forward pass.
    `ffb.attribution_patching` estimates the effects with direction="noising" by one backward pass.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        clean: A text or token ids, or a list of texts or a [batch, pos] tensor: a prompt of each pair.
        corrupted: The other prompt of each pair, of equally many tokens; None where `replacement` needs none.
        target: As in `ffb.attribute` (not a direction), or a list of targets, all read from the same runs.
        of: Kinds of activations, several or one: "residual" (at each layer's input, and the end), "residual_mid" (between attention
            and feed-forward), "attention" and "mlps" (what each adds to the residual stream), "heads" (z), "q", "k", "v" (grouped
            keys and values by group), "pattern" (rows of queries).
        direction: "denoising" or "noising"; None means "denoising" with a corrupted prompt, else "noising".
        replacement: "run", the other prompt's activation. For the clean prompt also "zero", "mean" (over its positions),
            "mean_over_prompts" (over the positions of all clean prompts), "resample" (the next clean prompt's).
        layers: Layers; None means all layers and the end of the residual stream.
        positions: Positions, as numbers for all pairs, or by name: {"IO": [2, 4], "END": -1}. None means all.
        by_position: Kinds that are patched at one position at a time, the others at all chosen positions at once; True means all.
        batch_size: Largest number of patches per forward pass; smaller if tensors are large.
        progress: Whether a long call shows a progress bar with its cost in a terminal or notebook.

    Returns:
        One `ActivationPatching` for one pair, whose `values[kind]` are [layer pos] or [layer head pos]. Lists return `Results`, one
        per pair, whose `mean()` has intervals. An interruption from the keyboard ends the sweep: the results of all pairs are
        returned, with NaN for patches that were not run and `complete` False. Before the first patch it raises KeyboardInterrupt.

    Raises:
        InputError: for input that cannot be used, such as pairs of different lengths.
        UnsupportedModelError: for a kind that the model does not have, has no HookPoint for, or cannot patch.
        UntrainedHeadError: for logits of an encoder whose head was never trained.
        IdentityError: if a prompt patched by itself, or patched at all positions, does not give the expected logits.
    """
    known = identify(model)
    given: dict[str, Any] = {**DEFAULTS, **options}
    single, pairs = _pairs(known, clean, corrupted, given["replacement"], given["direction"])
    sweep = _opened(known, target, len(pairs), corrupted is not None, given)
    tokens = [equally_long(known, pair, "" if single else f"[{number}]") for number, pair in enumerate(pairs)]
    results = _swept(sweep, tokens, given["positions"], given["progress"])
    return results[0] if single else results


def _opened(model: Model, target: Any, n_pairs: int, has_corrupted: bool, given: Mapping[str, Any]) -> _Sweep:
    """Checked options of a call."""
    kinds, chosen, by = _kinds(given["of"], "of"), select_layers(model, given["layers"]), given["by_position"]
    if given["replacement"].startswith("mean") and "pattern" in kinds:
        raise InputError(
            f"of='pattern' with replacement={given['replacement']!r}: rows of different queries have no mean. Use 'zero' or 'run'."
        )
    sizes = sorted({model.layers[layer].n_heads for layer in chosen})
    if "head" in kinds and len(sizes) > 1:
        raise InputError(
            f"of='head': layers of {model.name} have {' or '.join(map(str, sizes))} heads. Choose layers with equally many, such as "
            f"layers={[layer for layer in chosen if model.layers[layer].n_heads == sizes[0]]}, or omit 'head'."
        )
    end = (model.n_layers,) if given["layers"] is None else ()
    return _Sweep(
        model=model,
        kinds=kinds,
        layers={kind: (*chosen, *end) if kind == "residual" else chosen for kind in kinds},
        by_position=(PATCH_KINDS if by else ()) if isinstance(by, bool) else _kinds(by, "by_position"),
        replacement=given["replacement"],
        direction=given["direction"] or ("denoising" if has_corrupted else "noising"),
        metrics=_metrics(target, n_pairs, model),
        batch_size=whole_number(given["batch_size"], "batch_size", at_least=1),
    )


def _swept(
    sweep: _Sweep,
    tokens: Sequence[tuple[Int[Tensor, " _"], Int[Tensor, " _"]]],
    positions: Positions | NamedPositions,
    shown: bool,
) -> Results[ActivationPatching]:
    """Results of all pairs; NaN for what an interruption left out."""
    lengths, named = [len(clean) for clean, _ in tokens], positions if isinstance(positions, Mapping) else None
    asked = None if named is not None else cast("Positions", positions)
    names, places = chosen_positions(asked, "positions", lengths, named)
    total, worth = sweep.cost([len(of_pair) for of_pair in places])
    results = Results[ActivationPatching]()
    said = f"activation patching ({total} runs, worth {worth:.0f} forward passes)"
    with Progress(said, total, "runs", shown=shown) as bar, suppress(KeyboardInterrupt):
        means = _means(sweep, [clean for clean, _ in tokens]) if sweep.replacement == "mean_over_prompts" else {}
        for number, (pair, of_pair) in enumerate(zip(tokens, places, strict=True)):
            results.append(_of_pair(sweep, pair, number, names or tuple(of_pair), of_pair, means, bar))
            if not results[-1].complete:
                break
    if not results:
        raise KeyboardInterrupt
    for number in range(len(results), len(tokens)):
        results.append(
            _not_run(sweep, results[0], tokens[number], number, names or tuple(places[number]), places[number])
        )
    return results


def _of_pair(
    sweep: _Sweep,
    tokens: tuple[Int[Tensor, " _"], Int[Tensor, " _"]],
    number: int,
    names: tuple[int | str, ...],
    places: Sequence[int],
    means: Mapping[tuple[PatchKind, int], Tensor],
    bar: Progress,
) -> ActivationPatching:
    """Result of one pair."""
    known, with_donor = sweep.model, sweep.replacement in ("run", "resample")
    runs = [sweep.run(each) for each in tokens[: 1 + with_donor]]
    bound = [metric.of_prompt(CleanRun(number, tokens[0], runs[0].logits)) for metric in sweep.metrics]
    patched, *donors = runs[::-1] if sweep.direction == "denoising" else runs
    pair = _Pair(sweep, patched, donors[0] if donors else None, places, bound, means, bar)
    clean, *other = (pair.read(run.read[None])[:, 0] for run in runs)
    measured: dict[str, Tensor] = {kind: _empty(pair, kind) for kind in sweep.kinds}
    complete = False
    with suppress(KeyboardInterrupt):
        for kind in sweep.kinds:
            _fill(pair, kind, measured[kind])
        complete = True
    text = pair_labels(known, tokens if sweep.replacement == "run" else tokens[:1])
    return ActivationPatching(
        measured=measured,
        layers=sweep.layers,
        positions=names,
        position_tokens=tuple(text[place] for place in places),
        labels=text,
        clean_labels=pair_labels(known, tokens[:1]),
        targets=tuple(words_of(known, metric) for metric in bound),
        quantities=tuple(m.name if m.at in (None, -1) else f"{m.name} at {m.at}" for m in bound),
        clean=clean,
        corrupted=other[0] if sweep.replacement == "run" else torch.full_like(clean, torch.nan),
        direction=sweep.direction,
        replacement=sweep.replacement,
        model=known.name,
        fingerprint=known.fingerprint,
        error=pair.error,
        complete=complete,
    )


def _not_run(
    sweep: _Sweep,
    first: ActivationPatching,
    tokens: tuple[Int[Tensor, " _"], Int[Tensor, " _"]],
    number: int,
    names: tuple[int | str, ...],
    places: Sequence[int],
) -> ActivationPatching:
    """Result of a pair at which the sweep had not arrived: NaN in the form of the first pair's result."""
    measured = {}
    for kind, table in first.measured.items():
        shape = (*table.shape[:-1], len(places)) if kind in sweep.by_position else table.shape
        measured[kind] = torch.full(shape, torch.nan, dtype=table.dtype)
    no_logits = torch.zeros(0, 0)
    bound = [metric.of_prompt(CleanRun(number, tokens[0], no_logits)) for metric in sweep.metrics]
    text = pair_labels(sweep.model, tokens if sweep.replacement == "run" else tokens[:1])
    return replace(
        first,
        measured=measured,
        positions=names,
        position_tokens=tuple(text[place] for place in places),
        labels=text,
        targets=tuple(words_of(sweep.model, metric) for metric in bound),
        clean=torch.full_like(first.clean, torch.nan),
        corrupted=torch.full_like(first.corrupted, torch.nan),
        error=0.0,
        complete=False,
    )


def _empty(pair: _Pair, kind: PatchKind) -> Tensor:
    """NaN for each patch of a kind."""
    positions = (len(pair.places),) if kind in pair.sweep.by_position else ()
    shape = len(pair.metrics), len(pair.sweep.layers[kind]), *pair.heads(kind), *positions
    return torch.full(shape, torch.nan, dtype=torch.float64)


def _fill(pair: _Pair, kind: PatchKind, table: Float[Tensor, "target layer *place"]) -> None:
    """Measure all patches of a kind, and write them to a table, which stays filled after an interruption."""
    layers = pair.sweep.layers[kind]
    if len(pair.run.logits) > 1:  # a single token attends to itself, for any query and key
        pair.run.refuse_disobedience(kind, layers[0])
    for row, layer in enumerate(layers):
        for rows, values in pair.measured(kind, layer):
            table[:, row].view(len(table), -1)[:, rows] = values


def _means(sweep: _Sweep, prompts: Sequence[Int[Tensor, " _"]]) -> dict[tuple[PatchKind, int], Float[Tensor, "..."]]:
    """Means of activations over the positions of all prompts."""
    sums: dict[tuple[PatchKind, int], Tensor] = {}
    for tokens in prompts:
        run = sweep.run(tokens)
        for key in sweep.patched:
            sums[key] = sums.get(key, torch.zeros(())) + run.activation(*key).sum(dim=0)
    return {key: total / sum(map(len, prompts)) for key, total in sums.items()}


def _pairs(
    model: Model, clean: Any, corrupted: Any, replacement: Replacement, direction: Change | None
) -> tuple[bool, list[Any]]:
    """Whether there is one pair, and the prompts of each: the clean prompt, and that of the new activations."""
    if (replacement == "run") != (corrupted is not None):
        need = (
            "needs a corrupted prompt"
            if replacement == "run"
            else "uses activations of clean prompts: expected corrupted=None"
        )
        raise InputError(f"replacement={replacement!r} {need}.")
    if corrupted is None and direction == "denoising":
        raise InputError(
            f"direction='denoising' with replacement={replacement!r}: the clean prompt is patched. Omit direction."
        )
    single, pairs = pairs_of(model, clean, corrupted)
    if replacement == "resample":
        if len(pairs) < 2:
            raise InputError(
                "replacement='resample' with one prompt: expected a list, in which each prompt gets activations of the next one."
            )
        firsts = [first for first, _ in pairs]
        pairs = [*zip(firsts, [*firsts[1:], firsts[0]], strict=True)]
    return single, pairs


def _kinds(asked: Any, name: str) -> tuple[PatchKind, ...]:
    """Kinds of one patch, of those that a call names."""
    kinds = by_plural(PATCH_KINDS)
    return tuple(kinds[each] for each in read_parts(asked, tuple(kinds), "", name=name, singular=True))


def _metrics(target: Any, n_pairs: int, model: Model) -> tuple[Metric, ...]:
    given = list(target) if isinstance(target, list | tuple) else [target]
    if not given:
        raise InputError("target=[]: expected a target, or a list of one or more.")
    return tuple(of_logits(each, model, n_pairs) for each in given)
