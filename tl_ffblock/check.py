"""Check of a model: every identity of every layer, completeness by scope, speed, and a verdict.

1. The model runs once. Each layer's cached activations are compared with its weights (the identities of `bridge.selfcheck`: every
   equation of the layer's program), and its contributions with the model's activations.
2. For each equation, the largest error over positions is kept. The verdict compares it with the tolerance of the model's dtype.
3. Speed is that of a second call of `contribution_maps`, compared with plain forward passes.

`contribution_maps` checks the same equations and raises an exception. `check_model` returns the errors.
"""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import pandas as pd
import torch
from jaxtyping import Integer
from rich import box
from rich.table import Table
from rich.text import Text
from torch import Tensor

from tl_ffblock.bridge.inputs import example_input, forward
from tl_ffblock.bridge.model import Model, identify, name_of
from tl_ffblock.bridge.runs import Layers, Run, open_run
from tl_ffblock.bridge.selfcheck import check_end, identities, what_changed
from tl_ffblock.contributions import contribution_maps
from tl_ffblock.errors import CaptureError, FFBlockError, InputError, ProcessedWeightsWarning, UnsupportedModelError
from tl_ffblock.layer.fast.vector_norms import contribution_norms
from tl_ffblock.layer.records import LayerRecord, refuse_tolerance
from tl_ffblock.layer.scopes import scope_names
from tl_ffblock.numerals import scientific
from tl_ffblock.result import Result, Values
from tl_ffblock.signatures import strict

__all__ = ["Finding", "ModelCheck", "check_model"]

_OF_WRAPPER = "logits of the wrapper = logits"
FindingKind: TypeAlias = Literal["identity", "completeness"]


@strict
@dataclass(frozen=True, eq=False)
class Finding(Values):
    """Error of one equation in one layer."""

    kind: FindingKind
    name: str
    """The identity, or the scope whose contributions were summed."""
    layer: int
    error: float
    """Largest relative error over positions; NaN if it could not be computed."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class ModelCheck(Result):
    """Result of `check_model`."""

    model: str
    family: str
    api: str
    order: str
    listed: bool
    """False if the block form was recognised by structure: then the identities are the only evidence."""
    processed: bool
    """Whether weights were folded or centred after loading."""
    dtype: str
    n_tokens: int
    rtol: float
    findings: tuple[Finding, ...]
    refusal: str | None = None
    """Reason why the model cannot be decomposed."""
    tokens_per_second: float = float("nan")
    """Speed of `contribution_maps`, for the checked layers and all scopes."""
    times_forward: float = float("nan")
    """Its time divided by that of a forward pass."""

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Equations whose error exceeds the tolerance, or could not be computed."""
        return tuple(finding for finding in self.findings if not finding.error <= self.rtol)

    @property
    def ok(self) -> bool:
        """Whether all equations hold within the tolerance."""
        return self.refusal is None and bool(self.findings) and not self.failures

    def worst(self) -> tuple[Finding, ...]:
        """Largest error of every identity and scope over layers, in the order of the layer's program."""
        by_name: dict[tuple[FindingKind, str], Finding] = {}
        for finding in self.findings:
            known = by_name.get((finding.kind, finding.name))
            if known is None or not finding.error <= known.error:
                by_name[finding.kind, finding.name] = finding
        return tuple(sorted(by_name.values(), key=lambda finding: finding.kind, reverse=True))

    def verdict(self) -> str:
        """The verdict in one line."""
        if self.refusal is not None:
            return f"not supported: {self.refusal}"
        if self.failures:
            worst = self.failures[0]
            return (
                f"FAILED: {len(self.failures)} of {len(self.findings)} equations exceed {scientific(self.rtol, 1)}, the first in "
                f"layer {worst.layer}, {worst.name} ({scientific(worst.error)}). No maps of this model are returned."
            )
        return f"ok: all {len(self.findings)} equations hold to {scientific(self.rtol, 1)} ({self.dtype})"

    def table(self, *, every_layer: bool = False) -> Table:
        """Table for a terminal: the largest error of each equation, or every layer."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("equation")
        table.add_column("layer" if every_layer else "worst layer", justify="right")
        table.add_column("relative error", justify="right")
        table.add_column("")
        for finding in self.findings if every_layer else self.worst():
            name = finding.name if finding.kind == "identity" else f"contributions + bias = {finding.name}"
            good = finding.error <= self.rtol
            table.add_row(
                Text(name),
                str(finding.layer),
                scientific(finding.error),
                Text("ok" if good else "FAILED", "" if good else "bold red"),
            )
        return table

    def to_dataframe(self) -> pd.DataFrame:
        """One row per equation and layer: kind, name, layer, value (the largest relative error over positions), ok."""
        rows = [(f.kind, f.name, f.layer, f.error, f.error <= self.rtol) for f in self.findings]
        return pd.DataFrame(rows, columns=["kind", "name", "layer", "value", "ok"])

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """The verdict, and the equations with the largest errors."""
        worst = sorted(self.worst(), key=lambda finding: -finding.error)[:5]
        lines = {f.name: f"layer {f.layer}, relative error {scientific(f.error)}" for f in worst}
        return f"{self.model} ({self.family}, {self.order}, {self.api}, {self.dtype}): {self.verdict()}", lines


@strict
def check_model(
    model: Any,
    input: str | Integer[Tensor, " pos"] | None = None,
    *,
    layers: Layers = None,
    wrapper: Callable[..., Any] | None = None,
    rtol: float | None = None,
) -> ModelCheck:
    """Relative errors of a model's identities, completeness of its scopes, speed, and a verdict.

    Nothing is raised for a model that fails or is not supported: see `ok`, `failures` and `refusal` of the result.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        input: One text or [pos] token ids; None means an English sentence, or 24 ids without tokenizer.
        layers: Layer numbers; None means all.
        wrapper: A module around the bridge's Hugging Face model, such as a PeftModel. Its logits for `input` are compared too, since
            it may add to the model in its own forward function only.
        rtol: Largest accepted relative error; None means the tolerance of the model's dtype.

    Raises:
        InputError: if `model` is not a TransformerLens model, or `input`, `layers`, `rtol` or `wrapper` cannot be used.
    """
    if rtol is not None:
        refuse_tolerance(rtol)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ProcessedWeightsWarning)  # a field of the result
            known = identify(model)
            run = open_run(known, example_input(known) if input is None else input, layers=layers)
    except UnsupportedModelError as error:
        return _refused(model, str(error))
    if not run.single:
        raise InputError("check_model: expected one text or one tensor [pos].")
    tolerance = known.tolerance if rtol is None else rtol
    findings: list[Finding] = []
    family, processed, n_tokens = known.family, known.is_processed, len(run.sequences[0].tokens)
    of_model = known.name, family.name, known.api, family.order, family.listed, processed, known.dtype
    found = ModelCheck(*of_model, n_tokens, tolerance, ())
    try:
        run.by_layer(lambda record, _: findings.extend(_of_layer(run, record)), check=False)
        if wrapper is not None:
            findings.append(Finding("identity", _OF_WRAPPER, known.n_layers - 1, _difference_of_wrapper(run, wrapper)))
        found = replace(found, findings=tuple(findings))
        if found.failures:
            return replace(found, refusal=_why(known, found.failures[0]))
        check_end(known, run.settings.dtype, run.layers, always=True)
        speed, ratio = _speed(run)
        return replace(found, tokens_per_second=speed, times_forward=ratio)
    except (UnsupportedModelError, CaptureError) as error:
        return replace(found, findings=tuple(findings), refusal=str(error))


def _of_layer(run: Run, record: LayerRecord) -> list[Finding]:
    findings, scopes = [], scope_names(run.model.family.order)
    try:
        for name, error in identities(record):
            findings.append(Finding("identity", name, record.layer, error))
        norms = contribution_norms(record, run.settings, scopes, products=run.model.memory.products)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        if isinstance(error, FFBlockError):
            raise
        broken = f"shapes of tensors and weights agree ({error})"
        return [*findings, Finding("identity", broken, record.layer, float("nan"))]
    errors = norms.completeness.items()
    return findings + [Finding("completeness", scope, record.layer, float(each.max())) for scope, each in errors]


def _why(model: Model, failure: Finding) -> str | None:
    if failure.name == _OF_WRAPPER:
        return (
            f"logits of the wrapper differ from the model's by {scientific(failure.error)} of their norm: the wrapper adds in its own "
            "forward function what the model inside does not have (prompt tuning, prefix tuning, aLoRA), so results are of the model "
            "without it. Merge the adapter if it can be merged (merge_and_unload())."
        )
    return what_changed(model, failure.layer)


@torch.no_grad()
def _difference_of_wrapper(run: Run, wrapper: Callable[..., Any]) -> float:
    """Difference of a wrapper's logits from the model's, relative to their norm; both centred over the vocabulary."""
    (batch,), model = run.batches, run.model
    with model.hooks_disabled():
        own = forward(model, batch).double()
        try:
            found = wrapper(input_ids=batch.tokens.to(model.device)).logits
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(
                f"wrapper={type(wrapper).__name__}: expected a module whose forward function takes input_ids and returns logits, such "
                f"as a PeftModel of a causal language model ({error})."
            ) from error
    found = found[:, -own.shape[1] :].to(own)  # a soft prompt's positions are before the text's
    own, found = (logits - logits.mean(dim=-1, keepdim=True) for logits in (own, found))
    return float((found - own).norm() / own.norm()) if found.shape == own.shape else float("nan")


def _speed(run: Run) -> tuple[float, float]:
    tokens = run.sequences[0].tokens

    decomposition = min(_seconds(lambda: contribution_maps(run.model, tokens, layers=run.layers)) for _ in range(2))
    passes = min(_seconds(lambda: forward(run.model, run.batches[0])) for _ in range(3))
    return len(tokens) / decomposition, decomposition / passes


def _seconds(call: Callable[[], object]) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # processed weights are a field of the result
        start = time.perf_counter()
        call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter() - start


def _refused(model: Any, reason: str) -> ModelCheck:
    cfg, parameters = getattr(model, "cfg", None), getattr(model, "parameters", None)
    architecture = str(getattr(cfg, "architecture", None) or getattr(cfg, "original_architecture", None) or "?")
    name = architecture if cfg is None else name_of(model, architecture)
    dtype = "?" if parameters is None else str(next(parameters()).dtype).removeprefix("torch.")
    return ModelCheck(name, architecture, type(model).__name__, "?", False, False, dtype, 0, 0.0, (), refusal=reason)
