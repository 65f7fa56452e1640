"""Is a model decomposed exactly? Every identity of every layer, completeness by scope, speed, a verdict.

1. The model runs once. Each layer's captured tensors are held against its own weights (the identities of
   `bridge.selfcheck`: every equation of the layer's program) and its parts against the model's tensors.
2. The largest error over positions is kept for each; the verdict compares it with the tolerance of the
   model's dtype.
3. Speed is that of a second call of `contribution_maps`, beside plain forward passes.

`contribution_maps` checks the same on the way and refuses; this shows the numbers.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from jaxtyping import Int, Integer
from torch import Tensor

from tl_ffblock.bridge.capture import capture, select_layers
from tl_ffblock.bridge.inputs import Batch, forward, prepare
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.bridge.selfcheck import identities
from tl_ffblock.bridge.weights import is_processed, working_dtype
from tl_ffblock.contributions import contribution_maps
from tl_ffblock.errors import CaptureError, FFBlockError, UnsupportedModelError
from tl_ffblock.layer.fast.norms import contribution_norms
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import scope_names
from tl_ffblock.layer.settings import TOLERANCE, Settings

if TYPE_CHECKING:
    from rich.table import Table

Kind: TypeAlias = Literal["identity", "completeness"]

TEXT = "When the meeting ended, the engineers who had written the report went home, and it was read by nobody else."
"""What a model with a tokenizer is checked on, if nothing else is given."""
N_TOKENS = 24
"""How many token ids a model without a tokenizer is checked on."""


@dataclass(frozen=True)
class Finding:
    """One equation in one layer."""

    kind: Kind
    name: str
    """The identity, or the scope whose parts were summed."""
    layer: int
    error: float
    """Largest relative error over positions; NaN where it could not be computed."""


@dataclass(frozen=True)
class ModelCheck:
    """What `check_model` found."""

    model: str
    family: str
    api: str
    order: str
    listed: bool
    """False where the block form was read off the structure: then the identities are the only evidence."""
    processed: bool
    """Whether weights were folded or centred after loading."""
    dtype: str
    n_tokens: int
    rtol: float
    findings: tuple[Finding, ...]
    refusal: str | None = None
    """Why the model is not decomposed at all."""
    tokens_per_second: float = float("nan")
    """Of `contribution_maps`, all layers and scopes."""
    times_forward: float = float("nan")
    """Its time over that of a forward pass."""

    @property
    def failures(self) -> tuple[Finding, ...]:
        """What exceeds the tolerance, or could not be computed."""
        return tuple(finding for finding in self.findings if not finding.error <= self.rtol)

    @property
    def ok(self) -> bool:
        """Whether maps of this model can be trusted to the tolerance."""
        return self.refusal is None and bool(self.findings) and not self.failures

    def worst(self) -> tuple[Finding, ...]:
        """The worst layer of every identity and scope, in the order of the layer's program."""
        by_name: dict[tuple[Kind, str], Finding] = {}
        for finding in self.findings:
            known = by_name.get((finding.kind, finding.name))
            if known is None or not finding.error <= known.error:
                by_name[finding.kind, finding.name] = finding
        return tuple(sorted(by_name.values(), key=lambda finding: finding.kind, reverse=True))

    def verdict(self) -> str:
        """One line."""
        if self.refusal is not None:
            return f"not supported: {self.refusal}"
        if self.failures:
            worst = self.failures[0]
            return (
                f"FAILED: {len(self.failures)} of {len(self.findings)} equations miss {self.rtol:.0e}, first layer "
                f"{worst.layer}, {worst.name} ({worst.error:.1e}). No maps are made of this model."
            )
        return f"ok: all {len(self.findings)} equations hold to {self.rtol:.0e} ({self.dtype})"

    def table(self, *, every_layer: bool = False) -> "Table":
        """For a terminal: the worst layer of each equation, or every layer."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("equation")
        table.add_column("layer" if every_layer else "worst layer", justify="right")
        table.add_column("relative error", justify="right")
        table.add_column("")
        for finding in self.findings if every_layer else self.worst():
            name = finding.name if finding.kind == "identity" else f"parts + bias = {finding.name}"
            good = finding.error <= self.rtol
            table.add_row(
                Text(name),
                str(finding.layer),
                f"{finding.error:.1e}",
                Text("ok" if good else "FAILED", "" if good else "bold red"),
            )
        return table

    def __str__(self) -> str:
        head = f"{self.model} ({self.family}, {self.order}, {self.api}, {self.dtype}): {self.verdict()}"
        lines = [f"  layer {f.layer}  {f.error:.1e}  {f.name}" for f in self.worst()]
        return "\n".join([head, *lines])


def check_model(
    model: Any,
    input: str | Integer[Tensor, " pos"] | None = None,
    *,
    layers: Iterable[int] | int | None = None,
    rtol: float | None = None,
) -> ModelCheck:
    """Every identity and every scope's completeness of a model, with errors, speed and a verdict.

    Nothing is raised for a model that fails or is not supported: the result says so (`ok`, `failures`,
    `refusal`).

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        input: One text or [pos] token ids; None means an English sentence, or 24 ids without tokenizer.
        layers: Layer numbers; None means all.
        rtol: Largest relative error accepted; None means the tolerance of the model's dtype.

    Raises:
        InputError: if it is no TransformerLens model, or the input cannot be used.
    """
    try:
        known = identify(model)
    except UnsupportedModelError as error:
        return _refused(model, str(error))
    dtype = next(known.hooked.parameters()).dtype
    tolerance = TOLERANCE.get(dtype, TOLERANCE[torch.float32]) if rtol is None else rtol
    wanted = select_layers(known, layers if layers is None or isinstance(layers, int) else tuple(layers))
    given = _default_input(known) if input is None else input
    (batch,) = prepare(known, given, None)
    refusal, findings = _findings(known, batch, wanted)
    passed = refusal is None and all(finding.error <= tolerance for finding in findings)
    speed, ratio = _speed(known, batch, wanted) if passed else (float("nan"), float("nan"))
    return ModelCheck(
        model=known.name,
        family=known.family.name,
        api=known.api,
        order=known.family.order,
        listed=known.family.listed,
        processed=is_processed(known),
        dtype=str(dtype).removeprefix("torch."),
        n_tokens=batch.tokens.shape[1],
        rtol=tolerance,
        findings=tuple(findings),
        refusal=refusal,
        tokens_per_second=speed,
        times_forward=ratio,
    )


def _findings(known: Model, batch: Batch, layers: tuple[int, ...]) -> tuple[str | None, list[Finding]]:
    """Why nothing could be captured, if so, and every equation of every layer."""
    findings: list[Finding] = []
    precision: Literal["float64", "float32"] = "float64" if working_dtype(known) == torch.float64 else "float32"
    settings = Settings(precision=precision)
    seen: set[int] = set()

    @torch.no_grad()
    def receive(record: LayerRecord) -> None:
        seen.add(record.layer)
        findings.extend(_of_layer(known, record.sequence(0), settings))

    try:
        with capture(known, layers, on_record=receive, dtype=settings.dtype) as records:
            forward(known, batch)
        for layer in layers:
            if layer not in seen:
                raise records.incomplete(layer)
    except (UnsupportedModelError, CaptureError) as error:
        return str(error), findings
    return None, findings


def _of_layer(known: Model, record: LayerRecord, settings: Settings) -> list[Finding]:
    found = []
    try:
        for name, error in identities(record):
            found.append(Finding("identity", name, record.layer, error))
        norms = contribution_norms(record, settings, scope_names(known.family.order), products=known.memory.products)
    except (RuntimeError, ValueError) as error:
        if isinstance(error, FFBlockError):
            raise
        found.append(Finding("identity", f"shapes of tensors and weights agree ({error})", record.layer, float("nan")))
        return found
    for scope, errors in norms.completeness.items():
        found.append(Finding("completeness", scope, record.layer, float(errors.max())))
    return found


def _speed(known: Model, batch: Batch, layers: tuple[int, ...]) -> tuple[float, float]:
    """Tokens a second of `contribution_maps`, and its time over a forward pass; the better of two each."""
    tokens = batch.tokens[0]

    def maps() -> None:
        contribution_maps(known.hooked, tokens, layers=layers)

    def plain() -> None:
        forward(known, batch)

    decomposition, passes = min(_seconds(maps) for _ in range(2)), min(_seconds(plain) for _ in range(3))
    return len(tokens) / decomposition, decomposition / passes


def _seconds(call: Callable[[], None]) -> float:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # processed weights: said in the result
        start = time.perf_counter()
        call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter() - start


def _default_input(known: Model) -> str | Int[Tensor, " pos"]:
    if getattr(known.hooked, "tokenizer", None) is not None:
        return TEXT
    cfg = known.hooked.cfg
    length = min(N_TOKENS, getattr(cfg, "n_ctx", None) or N_TOKENS)
    vocabulary = int(getattr(cfg, "d_vocab", 0) or 0)
    generator = torch.Generator().manual_seed(0)
    low = 5 if vocabulary > 16 else 0  # the first ids are often padding and brackets
    return torch.randint(low, max(vocabulary, 16), (length,), generator=generator)


def _refused(model: Any, reason: str) -> ModelCheck:
    cfg = getattr(model, "cfg", None)
    architecture = str(getattr(cfg, "architecture", None) or getattr(cfg, "original_architecture", None) or "?")
    name = str(getattr(cfg, "model_name", None) or architecture)
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.") if hasattr(model, "parameters") else "?"
    return ModelCheck(name, architecture, type(model).__name__, "?", False, False, dtype, 0, 0.0, (), refusal=reason)
