"""A model and an input -> `ContributionMaps` or `Decomposition`: the two public roads.

The forward pass runs once. Each layer is turned into norms as soon as its last tensor has been
captured and is forgotten, so memory holds one layer and the result.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from typing import Any, SupportsIndex

import torch
from jaxtyping import Int, Integer, Shaped
from torch import Tensor
from tqdm import tqdm

from tl_ffblock._version import __version__
from tl_ffblock.bridge.capture import Records, Wanted, capture, records_of_cache, select_layers
from tl_ffblock.bridge.inputs import Batch, forward, is_single, label, prepare
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.bridge.selfcheck import check_once
from tl_ffblock.bridge.taps import is_listened_to
from tl_ffblock.bridge.weights import is_processed, working_dtype
from tl_ffblock.errors import CompletenessError, InputError, ProcessedWeightsWarning
from tl_ffblock.layer.fast.buffers import Buffers
from tl_ffblock.layer.fast.norms import LayerNorms, contribution_norms
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import select_scopes
from tl_ffblock.layer.settings import TOLERANCE, Method, Precision, Settings, ValueBias
from tl_ffblock.layer.vectors import Decomposition, decompose_record
from tl_ffblock.results.maps import TABLES, ContributionMaps, ScopeTable

PROGRESS_AFTER = 1.0
"""Seconds after which a running call shows its progress (on a terminal only)."""


def contribution_maps(
    model: Any,
    input: str | Sequence[str] | Integer[Tensor, "*batch pos"],
    *,
    layers: Sequence[int] | int | None = None,
    scopes: Sequence[str] | str | None = None,
    queries: Sequence[int] | int | None = None,
    attention_mask: Shaped[Tensor, "*batch pos"] | None = None,
    token_type_ids: Integer[Tensor, "*batch pos"] | None = None,
    fwd_hooks: Sequence[tuple[str | Callable[[str], bool], Callable[..., Any]]] = (),
    cache: Any = None,
    method: Method = "exact",
    n_steps: int = 50,
    value_bias: ValueBias = "bias",
    rtol: float | None = None,
    precision: Precision | None = None,
    chunk_bytes: int | None = None,
) -> ContributionMaps | list[ContributionMaps]:
    """How much every source token contributes to every position's vector, by scope and layer.

    `maps[scope, layer][i, j] = ||F_i(x_j)||`, the norm of the vector that token j brings into position i
    (Kobayashi et al. 2024, eq. 7; residual-stream units). Parts, bias and remainder sum to the
    model's own tensor; the relative error of that sum is measured for every layer, scope and
    query, is part of the result, and above `rtol` there is no result.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode, better without
            weight processing.
        input: A text, a list of texts, or token ids.
        layers: Layer numbers, negative ones from the end; None means all.
        scopes: Names as in `tl_ffblock.layer.scopes`; None means all of the model's order.
        queries: Positions to write as sums, negative ones from the end of each sequence; None means
            all. Cost grows with their number.
        attention_mask: 1 at real tokens of a padded batch. The result is that of each sequence alone.
        token_type_ids: The segment of each token, for BERT.
        fwd_hooks: Hooks for this run, as in `run_with_hooks`. An edit inside a block becomes its remainder.
        cache: An ActivationCache of the same run, or the records of `capture`; saves the forward pass.
        method: "exact" (closed form of Integrated Gradients) or "captum" (Gauss-Legendre, slow).
        n_steps: Quadrature steps of "captum".
        value_bias: "bias" gives b_V to the bias part (eq. 7, 21), "token" to its token.
        rtol: Largest relative completeness error accepted; None means 1e-4 for float32 models,
            1e-6 for float64, 1e-2 for float16, 5e-2 for bfloat16 (as model or as precision).
        precision: "float64" and "float32" set the decomposition's arithmetic, whatever the model's; None
            means float64 for float64 models, else float32. "bfloat16" rounds the one large product
            (an approximation: cells move by up to 5e-3 of their row's largest on real models).
        chunk_bytes: What the rows of that product may occupy at a time; None means 24 MB on a CPU, 1 GB
            on a GPU.

    Returns:
        One result for a text or [pos] tokens; a list for a list of texts or a [batch, pos] tensor.

    Raises:
        InputError: for input or options that cannot be used.
        UnsupportedModelError: for models that cannot be certified.
        IdentityError: if a captured tensor contradicts the model's weights.
        CompletenessError: if parts do not sum to the model's tensor.
    """
    known = identify(model)
    settings = _settings(known, method, n_steps, value_bias, rtol, precision, chunk_bytes)
    wanted_scopes = select_scopes(known.family.order, scopes)
    wanted_layers = select_layers(known, layers)
    batches = _batches(known, input, attention_mask, cache, token_type_ids)
    results = []
    with _Progress(known, len(batches) * len(wanted_layers)) as progress:
        for batch in batches:
            assembly = _Assembly(known, settings, wanted_scopes, wanted_layers, batch, queries, progress)
            _run(known, batch, wanted_layers, assembly, fwd_hooks, cache)
            results += assembly.results()
    return results[0] if is_single(input) else results


def decompose(
    model: Any,
    input: str | Sequence[str] | Integer[Tensor, "*batch pos"],
    *,
    layer: int,
    queries: Sequence[int] | int | None = None,
    attention_mask: Shaped[Tensor, "*batch pos"] | None = None,
    token_type_ids: Integer[Tensor, "*batch pos"] | None = None,
    fwd_hooks: Sequence[tuple[str | Callable[[str], bool], Callable[..., Any]]] = (),
    cache: Any = None,
    method: Method = "exact",
    n_steps: int = 50,
    value_bias: ValueBias = "bias",
    rtol: float | None = None,
    precision: Precision | None = None,
) -> Decomposition | list[Decomposition]:
    """All vectors of one layer, scope by scope: `parts.sum(1) + bias + remainder = whole`.

    Arguments, errors and the certificate are those of `contribution_maps`, whose values are the
    norms of these vectors. Holds [query, key, d_model] for every scope: meant for one layer.
    """
    known = identify(model)
    settings = _settings(known, method, n_steps, value_bias, rtol, precision)
    batches = _batches(known, input, attention_mask, cache, token_type_ids)
    found: list[Decomposition] = []
    for batch in batches:
        vectors = _Vectors(known, settings, batch, queries)
        _run(known, batch, select_layers(known, layer), vectors, fwd_hooks, cache)
        found += vectors.found
    return found[0] if is_single(input) else found


class _Sequences:
    """Takes a batch's records apart into sequences and the queries asked for."""

    def __init__(self, model: Model, settings: Settings, batch: Batch, queries: Sequence[int] | int | None) -> None:
        self.model = model
        self.settings = settings
        self.batch = batch
        self.lengths = [len(batch.sequence(index)) for index in range(len(batch.tokens))]
        self.asked = [_positions(queries, length) for length in self.lengths]

    def rows(self) -> Int[Tensor, "batch query"] | None:
        """Absolute positions to capture, ascending; None means all."""
        if all(len(asked) == length for asked, length in zip(self.asked, self.lengths, strict=True)):
            return None
        rows = []
        for index, asked in enumerate(self.asked):
            real = self.batch.real(index)
            positions = torch.tensor(sorted(set(asked)))
            rows.append(positions if real is None else real[positions])
        equally_many = len({len(positions) for positions in rows}) == 1
        return torch.stack(rows) if equally_many else None

    def records(self, record: LayerRecord) -> Iterator[tuple[int, LayerRecord]]:
        """Every sequence's record, checked when its layer is first seen."""
        for index in range(len(self.batch.tokens)):
            one = record.sequence(index, self.batch.real(index))
            wanted = torch.tensor(sorted(set(self.asked[index])), device=one.queries.device)
            one = one.rows(torch.isin(one.queries, wanted))
            if len(one.queries) != len(wanted):
                raise InputError(
                    f"cache: layer {one.layer} was captured at queries {record.queries[index].tolist()}; asked for are "
                    f"{sorted(set(self.asked[index]))}. Capture them too, or leave cache out."
                )
            _refuse_nan(self.model, one)
            check_once(self.model, one, self.settings.rtol)
            yield index, one

    def certify(self, record: LayerRecord, completeness: dict[str, Tensor]) -> None:
        """Refuse a layer whose parts do not sum to the model's tensor."""
        for scope, errors in completeness.items():
            worst = int(errors.argmax())
            error = float(errors[worst])
            if not error <= self.settings.rtol:
                raise CompletenessError(
                    f"{self.model.name}, layer {record.layer}, scope {scope}: parts and bias miss the model's own tensor by "
                    f"{error:.1e} of its norm at query {int(record.queries[worst])} (tolerance {self.settings.rtol:.0e}). "
                    "No map is made. Half-precision or very large activations may need a higher rtol or a float32 model."
                )


class _Assembly(_Sequences):
    """Turns records into norms as they come, and norms into results."""

    def __init__(
        self,
        model: Model,
        settings: Settings,
        scopes: tuple[str, ...],
        layers: tuple[int, ...],
        batch: Batch,
        queries: Sequence[int] | int | None,
        progress: "_Progress",
    ) -> None:
        super().__init__(model, settings, batch, queries)
        self.scopes = scopes
        self.layers = layers
        self.progress = progress
        self._buffers = Buffers()
        self._tables: list[dict[str, dict[str, Tensor]]] = [{name: {} for name in TABLES} for _ in self.lengths]

    def __call__(self, record: LayerRecord) -> None:
        for index, one in self.records(record):
            norms = contribution_norms(
                one, self.settings, self.scopes, buffers=self._buffers, products=self.model.memory.products
            )
            self.certify(one, norms.completeness)
            self._keep(index, record.layer, norms)
        self.progress.step()

    def _keep(self, index: int, layer: int, norms: LayerNorms) -> None:
        """Into the result's tables, which hold all layers from the first on: nothing is held twice."""
        ascending = sorted(set(self.asked[index]))
        order = torch.tensor([ascending.index(position) for position in self.asked[index]])
        for name, tables in self._tables[index].items():
            for scope, found in getattr(norms, name).items():
                rows = found.cpu()[order]
                if scope not in tables:
                    tables[scope] = rows.new_empty(len(self.layers), *rows.shape)
                tables[scope][self.layers.index(layer)] = rows

    def results(self) -> list[ContributionMaps]:
        """One result a sequence."""
        return [self._result(index) for index in range(len(self.lengths))]

    def _result(self, index: int) -> ContributionMaps:
        def table(name: str) -> ScopeTable:
            return ScopeTable(self._tables[index][name], self.layers)

        return ContributionMaps(
            tokens=label(self.model, self.batch.sequence(index)),
            layers=self.layers,
            order=self.model.family.order,
            queries=tuple(self.asked[index]),
            causal=self.model.family.causal,
            values=table("values"),
            bias=table("bias"),
            remainder=table("remainder"),
            completeness=table("completeness"),
            model=self.model.name,
            provenance=_provenance(self.model, self.settings),
        )


class _Vectors(_Sequences):
    """Keeps the vectors of one layer."""

    def __init__(self, model: Model, settings: Settings, batch: Batch, queries: Sequence[int] | int | None) -> None:
        super().__init__(model, settings, batch, queries)
        self.found: list[Decomposition] = []

    def __call__(self, record: LayerRecord) -> None:
        for index, one in self.records(record):
            ascending = one.queries.tolist()
            in_order = torch.tensor(
                [ascending.index(position) for position in self.asked[index]], device=one.queries.device
            )
            decomposition = decompose_record(one.rows(in_order), self.settings)
            self.certify(one, {scope: decomposition.completeness(scope) for scope in decomposition.scopes})
            self.found.append(decomposition)


class _Progress:
    """A bar over layers that appears when the call takes long, and only on a terminal."""

    def __init__(self, model: Model, total: int) -> None:
        self._bar = tqdm(total=total, desc=model.name, unit="layer", delay=PROGRESS_AFTER, disable=None, leave=False)

    def __enter__(self) -> "_Progress":
        return self

    def step(self) -> None:
        """One layer is done."""
        self._bar.update()

    def __exit__(self, *_: object) -> None:
        self._bar.close()


class _NothingMoreToRead(Exception):  # noqa: N818 - no error
    """Ends a forward pass that nobody else listens to: later layers and logits cost time and memory."""


def _run(
    model: Model,
    batch: Batch,
    layers: tuple[int, ...],
    receive: _Assembly | _Vectors,
    fwd_hooks: Sequence[Any],
    cache: Any,
) -> None:
    """Deliver every layer's record, from a forward pass or from what was captured before."""
    if cache is not None:
        if fwd_hooks:
            raise InputError("fwd_hooks with cache: a cached run cannot be edited any more; give one of the two.")
        wanted = Wanted(model, receive.rows(), receive.settings.dtype)
        records = cache if isinstance(cache, Records) else records_of_cache(wanted, cache, layers)
        _refuse_other_run(model, records, cache, receive.settings)
        for layer in layers:
            _same_tokens(records[layer], batch, cache)
            with torch.no_grad():
                receive(records[layer])
        return
    unknown = [name for name, _ in fwd_hooks if isinstance(name, str) and name not in model.hook_points]
    if unknown:
        raise InputError(f"fwd_hooks: {model.name} has no HookPoint {', '.join(unknown)}.")
    hooks = model.hooked.hooks(fwd_hooks=list(fwd_hooks)) if fwd_hooks else nullcontext()
    alone = not fwd_hooks and not is_listened_to(model.hook_points.values())
    seen: set[int] = set()

    @torch.no_grad()
    def on_record(record: LayerRecord) -> None:
        receive(record)
        seen.add(record.layer)
        if alone and len(seen) == len(layers):
            raise _NothingMoreToRead

    with (
        suppress(_NothingMoreToRead),
        hooks,
        capture(model, layers, queries=receive.rows(), on_record=on_record, dtype=receive.settings.dtype) as records,
    ):
        forward(model, batch)
    for layer in layers:
        if layer not in seen:
            raise records.incomplete(layer)


def _settings(
    model: Model,
    method: Method,
    n_steps: int,
    value_bias: ValueBias,
    rtol: float | None,
    precision: Precision | None,
    chunk_bytes: int | None = None,
) -> Settings:
    if is_processed(model):
        import warnings

        warnings.warn(
            f"{model.name} has processed weights (folded norms or centred weights): these maps are of the processed model, "
            "whose norms differ by up to 13 % from the original's. Load it without processing: TransformerBridge without "
            "enable_compatibility_mode(), or HookedTransformer.from_pretrained_no_processing.",
            ProcessedWeightsWarning,
            stacklevel=3,
        )
    if precision is None:
        precision = "float64" if working_dtype(model) == torch.float64 else "float32"
    if rtol is None:
        rtol = TOLERANCE.get(next(model.hooked.parameters()).dtype, TOLERANCE[torch.float32])
        rtol = max(rtol, TOLERANCE[torch.bfloat16]) if precision == "bfloat16" else rtol
    return Settings(method, n_steps, value_bias, rtol, precision, chunk_bytes)


def _batches(
    model: Model, given: Any, attention_mask: Tensor | None, cache: Any, token_type_ids: Tensor | None
) -> list[Batch]:
    batches = prepare(model, given, attention_mask, token_type_ids)
    if cache is not None and len(batches) > 1:
        raise InputError("cache holds one run; give the token tensor of that run, not a list of texts.")
    return batches


def _refuse_other_run(model: Model, records: Records, cache: Any, settings: Settings) -> None:
    if records.model.hooked is not model.hooked:
        raise InputError(f"cache holds records of another model ({records.model.name}), not of this {model.name}.")
    captured = {record.block.attention.w_o.dtype for record in records.values()}
    if captured and captured != {settings.dtype}:
        raise InputError(
            f"cache was captured for {captured.pop()} arithmetic, precision={settings.precision!r} asks for {settings.dtype}: "
            f"capture with dtype={settings.dtype}, or leave one of the two out."
        )


def _same_tokens(record: LayerRecord, batch: Batch, cache: Any) -> None:
    if record.resid_pre.shape[:2] != batch.tokens.shape:
        raise InputError(
            f"cache is of a run of shape {tuple(record.resid_pre.shape[:2])}, the input is {tuple(batch.tokens.shape)} "
            "[batch, pos]: give the input of that run."
        )
    cached = getattr(cache, "cache_dict", {}).get("embed.hook_in")
    if cached is not None and not torch.equal(cached.cpu().reshape(batch.tokens.shape), batch.tokens):
        raise InputError("cache is of a run of other tokens than the input: give the input of that run.")


def _positions(queries: Sequence[int] | int | None, length: int) -> list[int]:
    if queries is None:
        return list(range(length))
    asked = [queries] if isinstance(queries, SupportsIndex) else list(queries)
    if not asked or not all(isinstance(q, SupportsIndex) and -length <= int(q) < length for q in asked):
        raise InputError(
            f"queries={asked}: expected positions from {-length} to {length - 1} of a sequence of {length} tokens."
        )
    return [int(q) % length for q in asked]


def _refuse_nan(model: Model, record: LayerRecord) -> None:
    for name, tensor in {"resid_pre": record.resid_pre, **record.whole}.items():
        if not bool(torch.isfinite(tensor).all()):
            raise InputError(
                f"{model.name}, layer {record.layer}: the model's own {name} holds NaN or infinity. Check the weights, the "
                "edits of your hooks, or use a wider dtype."
            )


def _provenance(model: Model, settings: Settings) -> dict[str, str]:
    from importlib.metadata import version

    return {
        "tl_ffblock": __version__,
        "transformer_lens": version("transformer-lens"),
        "torch": str(torch.__version__),
        "api": model.api,
        "family": model.family.name,
        "weights": "processed" if is_processed(model) else "raw",
        "precision": settings.precision,
        "method": settings.method if settings.method == "exact" else f"captum, {settings.n_steps} steps",
        "value_bias": settings.value_bias,
        "rtol": f"{settings.rtol:g}",
    }
