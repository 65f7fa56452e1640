"""Checked model and input (`Run`), and their layer records, layer by layer.

    run = open_run(model, "Tokyo is the capital of [MASK] .", layers=3)
    by_layer = run.by_layer(lambda record, number: record.pattern)  # one {layer: pattern} per sequence

1. `open_run` checks everything that is known before a forward pass: model, settings, layers, sequences, queries. Input that
   cannot be used is refused.
2. `deliver` runs the model batch by batch, or reads a cache, and calls a function with each layer's records, one per sequence.
   A sequence's record has its real tokens and the requested queries; it is cut from the batch at first access. Records with NaN,
   or that contradict the model's weights, are refused before.
3. Records are freed unless the function stores them, so memory has one layer at a time. Without other callbacks on the model, a
   forward pass ends after the last requested layer.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, SupportsIndex, TypeAlias, TypedDict, TypeVar, Unpack

import torch
from jaxtyping import Float, Int, Integer, Shaped
from torch import Tensor

from tl_ffblock.bridge.attention import runs_by_rows
from tl_ffblock.bridge.capture import NothingMoreToRead, records_of_cache, refuse_other_cache
from tl_ffblock.bridge.inputs import (
    Batch,
    RunSequence,
    drop_graph,
    forward,
    is_single,
    memory_given_back,
    prepare,
    read_input,
    tokenizer_of,
)
from tl_ffblock.bridge.labels import label
from tl_ffblock.bridge.layers import ExtraSite
from tl_ffblock.bridge.media import split_media, with_media, with_media_labels
from tl_ffblock.bridge.model import Model, identify, select_layers
from tl_ffblock.bridge.records import CaptureSpec, Records, collecting
from tl_ffblock.bridge.selfcheck import check_end, check_once, probe, refuse_at_once, refuse_nan
from tl_ffblock.errors import InputError, ProcessedWeightsWarning, brief, did_you_mean, warn
from tl_ffblock.layer.positions import Positions, positions
from tl_ffblock.layer.records import TOLERANCE, BatchRecords, LayerRecord, Method, Precision, Settings, ValueBias
from tl_ffblock.result import Results

T = TypeVar("T")
Texts: TypeAlias = list[str] | tuple[str, ...]
"""Texts; a tuple of two is a pair of segments for an encoder, and refused for other models."""
Ids: TypeAlias = Sequence[SupportsIndex]
Tokens: TypeAlias = Integer[Tensor, "*batch pos"] | Mapping[str, Any]
"""Token ids, a tokenizer's output (input_ids, attention_mask, token_type_ids), or a processor's with pixel_values."""
Layers: TypeAlias = Sequence[int] | int | None
Hooks: TypeAlias = Sequence[tuple[str | Callable[[str], bool], Callable[..., Any]]]


class InputOptions(TypedDict, total=False):
    """Further tensors of an input of token ids."""

    attention_mask: Shaped[Tensor, "*batch pos"] | None
    """1 at real tokens of a padded batch. Each sequence has the same result as without padding."""
    token_type_ids: Integer[Tensor, "*batch pos"] | None
    """The segment of each token, for BERT."""


class RunOptions(InputOptions, total=False):
    """Options of the forward pass."""

    fwd_hooks: Hooks
    """Hooks for this forward pass, as in `run_with_hooks`. A hook sees the batch of a token tensor; with hooks, texts of a list run
    one by one."""
    cache: Any
    """An ActivationCache of the same forward pass, or the records of `capture`; saves the forward pass."""


class SettingsOptions(TypedDict, total=False):
    """Options of a decomposition; None means the model's default."""

    method: Method
    """"exact" (closed form of Integrated Gradients) or "captum" (Gauss-Legendre, slow)."""
    n_steps: int
    """Quadrature steps of "captum"."""
    value_bias: ValueBias
    """"bias" attributes b_V to the bias term (eq. 7, 21), "token" to its token."""
    rtol: float | None
    """Largest accepted relative completeness error."""
    precision: Precision | None
    """Arithmetic of the decomposition, for any dtype of the model."""


MaxMemory: TypeAlias = float | int | str | None
"""Bytes, or a text such as "4GB"; None means the free memory."""


class ChunkOption(TypedDict, total=False):
    """Option of the norms of many pairs."""

    chunk_bytes: int | None
    """Deprecated, use `max_memory`: largest size of the rows of the large product at a time."""


class CallOptions(RunOptions, SettingsOptions, total=False):
    """Options of every call that decomposes layers."""


class MapOptions(CallOptions, ChunkOption, total=False):
    """Options of `contribution_maps`."""

    max_memory: MaxMemory
    """Memory that the call may allocate in addition to the model."""


DEFAULTS: dict[str, Any] = {
    "attention_mask": None,
    "token_type_ids": None,
    "fwd_hooks": (),
    "cache": None,
    "method": "exact",
    "n_steps": 50,
    "value_bias": "bias",
    "rtol": None,
    "precision": None,
    "max_memory": None,
    "chunk_bytes": None,
}
"""Default values of the options."""


Receiver: TypeAlias = Callable[[Mapping[int, LayerRecord]], None]
"""Function of one layer's records by sequence number, called when they are complete; with ascending queries, without padding."""


@dataclass
class Run:
    """A model, its input in batches, and the settings of a call."""

    model: Model
    settings: Settings
    layers: tuple[int, ...]
    batches: tuple[Batch, ...]
    sequences: tuple[RunSequence, ...]
    """Sequences in the order of the input."""
    single: bool
    """Whether the input was one sequence: the call then returns one result and not a list."""
    extra: frozenset[ExtraSite] = frozenset()
    fwd_hooks: Hooks = ()
    cache: Any = None
    keeps_logits: bool = False
    logits: list[Float[Tensor, "batch pos d_vocab"]] = field(default_factory=list)
    """After `deliver` with `keeps_logits`: logits of each batch."""

    def deliver(self, receiver: Receiver, *, check: bool = True) -> None:
        """Call a function with every layer's records, batch by batch.

        Args:
            receiver: The function.
            check: Whether to refuse records with NaN or that contradict the model's weights, and a last scope that is not the
                input of the model's next module.

        Raises:
            InputError: if the model's own tensors have NaN or infinity, or if a cache is of another forward pass.
            IdentityError: if a cached tensor contradicts the model's weights.
            CaptureError: if a forward pass lacks tensors of a layer.
            UnsupportedModelError: if the model cannot be certified.
        """
        with memory_given_back(self.model, self.batches):
            for batch in self.batches:
                self._deliver_batch(batch, receiver, check=check)
        if check:
            check_end(self.model, self.settings.dtype, self.layers)

    def by_layer(self, measure: Callable[[LayerRecord, int], T], *, check: bool = True) -> list[dict[int, T]]:
        """Values of a function of every record: one {layer: value} per sequence.

        Args:
            measure: Function of a layer record of one sequence and the sequence's number. The record is freed afterwards.
            check: As in `deliver`, whose errors are raised.
        """
        measured: list[dict[int, T]] = [{} for _ in self.sequences]

        def receive(records: Mapping[int, LayerRecord]) -> None:
            for number, record in records.items():
                measured[number][record.layer] = measure(record, number)

        self.deliver(receive, check=check)
        return measured

    def as_asked(self, results: Iterable[T]) -> T | list[T]:
        """One result if the input was one sequence, else the list of all."""
        listed: list[T] = Results(results)  # type: ignore[type-var]  # also of `Decomposition`, which is not a `Result`
        return listed[0] if self.single else listed

    @property
    def is_hooked(self) -> bool:
        """Whether callbacks of the user run in the forward passes."""
        return bool(self.fwd_hooks) or self.model.is_listened_to

    @property
    def remedy(self) -> str:
        """Sentence for an error of this forward pass: which callbacks may have changed it, and what to do."""
        if self.is_hooked:
            return "Does a hook of yours change the model? Remove it."
        if self.model.memory.callbacks:
            return "Does a torch hook of yours on a module change the model? Remove it."
        return "No hook is on the model, so this is a fault of this package: please report it, with the model's name."

    def hooks(self) -> AbstractContextManager[Any]:
        """Context with the call's hooks on the model."""
        return self.model.hooked.hooks(fwd_hooks=list(self.fwd_hooks)) if self.fwd_hooks else nullcontext()

    def _deliver_batch(self, batch: Batch, receiver: Receiver, *, check: bool) -> None:
        chosen, rows = self._rows(batch), None
        if self.cache is None:  # a cache has its own rows
            every_row = [list(range(batch.tokens.shape[1]))] * len(batch.numbers)
            rows = every_row if chosen is None else chosen.tolist()
        chosen = None if chosen is None else chosen.to(self.model.device, non_blocking=True)  # once for all layers
        spec = CaptureSpec(self.layers, self.settings.dtype, chosen, self.extra)

        @torch.no_grad()
        def handle(record: LayerRecord) -> None:
            sequences = [self.sequences[number] for number in batch.numbers]
            real = [batch.real(index) for index in range(len(sequences))]
            asked = [sequence.ascending for sequence in sequences]
            records = BatchRecords(record, batch.numbers, real, asked, lengthened=bool(batch.lengths), rows=rows)
            if check:
                self._check(records)
            receiver(records)

        if self.cache is not None:
            records = self.cache if isinstance(self.cache, Records) else records_of_cache(self.model, spec, self.cache)
            refuse_other_cache(self.model, records, batch, self.settings, self.cache)
            for layer in self.layers:
                handle(records[layer])
            return
        self._run(batch, spec, handle)

    def _run(self, batch: Batch, spec: CaptureSpec, handle: Callable[[LayerRecord], None]) -> None:
        model, left = self.model, set(self.layers)
        listened_to = self.is_hooked

        def on_record(record: LayerRecord) -> None:
            handle(record)
            drop_graph(model.layers[record.layer].block)
            left.discard(record.layer)
            if not (left or listened_to or self.keeps_logits):
                raise NothingMoreToRead

        by_rows = not listened_to and runs_by_rows(model, batch)
        recording = collecting(model, spec, on_record, watch=listened_to, by_rows=by_rows)
        with suppress(NothingMoreToRead), self.hooks(), recording as records:
            logits = forward(model, batch)
            if self.keeps_logits:
                self.logits.append(logits)
        probe(model, spec.dtype, tuple(sorted(records.edited)))
        for layer in sorted(left):
            raise records.incomplete(layer)

    def _rows(self, batch: Batch) -> Int[Tensor, "batch query"] | None:
        sequences = [self.sequences[number] for number in batch.numbers]
        if all(len(sequence.ascending) == len(sequence.tokens) for sequence in sequences):
            return None
        pairs = ((batch.real(index), torch.tensor(each.ascending)) for index, each in enumerate(sequences))
        rows = [asked if real is None else real[asked] for real, asked in pairs]
        return torch.stack(rows) if len({len(asked) for asked in rows}) == 1 else None

    def _check(self, records: BatchRecords) -> None:
        """Refuse records with NaN or that contradict the model's weights. Padding positions are not checked."""
        checked = records.batch.layer in self.model.memory.checked
        for record in [records.batch] if records.alike else records.values():
            if checked:
                refuse_at_once(self.model, record, self.settings.rtol)
            else:
                refuse_nan(self.model, record)
        for record in () if checked else records.values():
            check_once(self.model, record, self.settings.rtol)


def open_run(
    model: Any,
    input: str | Sequence[str] | Ids | Tokens,
    *,
    layers: Layers = None,
    queries: Positions = None,
    extra: Iterable[ExtraSite] = (),
    keeps_logits: bool = False,
    unequal: bool = False,
    reads_media: bool = False,
    **options: Unpack[MapOptions],
) -> Run:
    """Checked model and input, ready for forward passes.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        input: A text, a list of texts, or token ids: a list, or a tensor [pos] or [batch, pos]; a tokenizer's output; for an
            encoder a tuple of two sentences.
        layers: Layer numbers, negative from the end; None means all (with a `cache` of records: the cached ones).
        queries: Query positions to keep as rows, negative from the end of each sequence; None means all.
        extra: Further tensors of the records: "query" and "key" vectors of attention.
        keeps_logits: Whether the model runs to its end, and `Run.logits` has its logits.
        unequal: Whether texts with nearly as many tokens may share a forward pass, as those with equally many do.
        reads_media: Whether the call takes a processor's output with an image or sound.
        **options: See `MapOptions`.

    Raises:
        InputError: for input or options that cannot be used.
        UnsupportedModelError: for models that are not decomposed.
    """
    known, fwd_hooks, cache = identify(model), options.get("fwd_hooks", ()), options.get("cache")
    _refuse_other_kinds(known, fwd_hooks, cache)
    if cache is not None and keeps_logits:
        raise InputError("a cache has no logits: omit it, and the model runs again.")
    # With hooks, other callbacks or a cache, texts run one by one in their order.
    alone = bool(fwd_hooks) or cache is not None or keeps_logits or known.is_listened_to
    input, media = split_media(known, input, read=reads_media)
    input, *masks = read_input(known, input, options.get("attention_mask"), options.get("token_type_ids"))
    batches = prepare(known, input, *masks, together=not alone, unequal=unequal)
    if cache is not None and len(batches) > 1:
        raise InputError("cache is of one forward pass, expected its token tensor and not a list of texts.")
    if layers is None and isinstance(cache, Records):
        layers = cache.layers
    known, batches = with_media(known, batches, media)
    run = run_of_batches(known, batches, queries, **options)
    texts: Any = [input] if isinstance(input, str) else input
    if not isinstance(texts, Tensor) and isinstance(texts[0], str):
        run.sequences = tuple(replace(each, given=text) for each, text in zip(run.sequences, texts, strict=True))
    return replace(
        run,
        layers=select_layers(known, layers),
        single=is_single(input),
        extra=frozenset(extra),
        fwd_hooks=fwd_hooks,
        cache=cache,
        keeps_logits=keeps_logits,
    )


def run_of_batches(
    model: Model, batches: Sequence[Batch], queries: Positions = None, **options: Unpack[MapOptions]
) -> Run:
    """A `Run` of all layers for batches of tokens. It counts as several sequences, also with one."""
    of_number = {
        number: (batch.sequence(index), batch) for batch in batches for index, number in enumerate(batch.numbers)
    }
    return Run(
        model=model,
        settings=settings_of(model, options),
        layers=select_layers(model, None),
        batches=tuple(batches),
        sequences=tuple(
            RunSequence(
                tokens,
                with_media_labels(model, batch, label(model, tokens)),
                tuple(positions(queries, len(tokens), "queries")),
            )
            for tokens, batch in (of_number[number] for number in range(len(of_number)))
        ),
        single=False,
    )


def settings_of(model: Model, options: MapOptions) -> Settings:
    """Settings of a call, with the model's defaults.

    Warns:
        ProcessedWeightsWarning: if the model's weights were folded or centred.

    Raises:
        InputError: for options that cannot be used.
    """
    if options.get("chunk_bytes") is not None:
        warn("chunk_bytes is max_memory now", DeprecationWarning)
    if model.is_processed:
        warn(
            f"{model.name} has processed weights (folded norms or centred weights): these maps are of the processed model, "
            "whose norms differ by up to a fifth from the original's. Load it without processing: TransformerBridge without "
            "enable_compatibility_mode(), or HookedTransformer.from_pretrained_no_processing.",
            ProcessedWeightsWarning,
        )
    given: dict[str, Any] = {
        option.name: options[option.name]  # type: ignore[literal-required]  # both classes have these options
        for option in fields(Settings)
        if options.get(option.name) is not None
    }
    rounded = given.setdefault("precision", str(model.working_dtype).removeprefix("torch.")) == "bfloat16"
    given.setdefault("rtol", max(model.tolerance, TOLERANCE[torch.bfloat16]) if rounded else model.tolerance)
    return Settings(**given)


def kept_records(run: Run) -> tuple[dict[int, LayerRecord], ...]:
    """All layer records of a run: one {layer: record} per sequence."""
    return tuple(run.by_layer(lambda record, _: record))


def _refuse_other_kinds(model: Model, fwd_hooks: Hooks, cache: object) -> None:
    if cache is not None and fwd_hooks:
        raise InputError("fwd_hooks with cache: a cached forward pass cannot be edited. Pass one of the two.")
    pairs = isinstance(fwd_hooks, Sequence) and all(
        isinstance(pair, tuple | list)
        and len(pair) == 2
        and (isinstance(pair[0], str) or callable(pair[0]))
        and callable(pair[1])
        for pair in fwd_hooks
    )
    if not pairs:
        raise InputError(
            f"fwd_hooks={brief(fwd_hooks)}: expected a list of hooks [(name, function)], as in run_with_hooks, or () for none."
        )
    if not (cache is None or isinstance(cache, Records | Mapping) or hasattr(cache, "cache_dict")):
        raise InputError(
            f"cache={brief(cache)}: expected an ActivationCache of model.run_with_cache, the records of ffb.capture, or None."
        )
    unknown = [name for name, _ in fwd_hooks if isinstance(name, str) and name not in model.hook_points]
    if unknown:
        meant = did_you_mean(unknown[0], model.hook_points)
        raise InputError(f"fwd_hooks: {model.name} has no HookPoint {', '.join(unknown)}. {meant}".rstrip())


def continued(run: Run, n_tokens: int) -> Int[Tensor, " pos"]:
    """Token ids of the prompt's greedy continuation under the run's hooks, at most `n_tokens`; it ends at an end-of-text token.

    Raises:
        InputError: if prompt and continuation could be longer than the model's context.
    """
    tokens, most = run.sequences[0].tokens, run.model.longest_input
    if most is not None and len(tokens) + n_tokens > most:
        raise InputError(
            f"generate={n_tokens} and a prompt of {len(tokens)} tokens: expected at most {most} tokens, the context of {run.model.name}."
        )
    end = getattr(tokenizer_of(run.model.hooked), "eos_token_id", None)
    said: list[int] = []
    with run.hooks():
        while len(said) < n_tokens and (not said or said[-1] != end):
            given = torch.cat([tokens, torch.tensor(said, dtype=tokens.dtype)])
            said.append(int(forward(run.model, Batch(given[None]))[0, -1].argmax()))
    return torch.tensor(said)
