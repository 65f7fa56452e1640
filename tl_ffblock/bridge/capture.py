"""`capture`: a user's own forward passes recorded layer by layer, alone or among other hooks."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, get_args

import torch
from jaxtyping import Int
from torch import Tensor

from tl_ffblock.bridge.assembly import CaptureSpec, ExtraSite
from tl_ffblock.bridge.collector import RecordHandler, Records, collecting
from tl_ffblock.bridge.model import Model, identify, select_layers
from tl_ffblock.bridge.probe import probe
from tl_ffblock.bridge.weights import working_dtype
from tl_ffblock.errors import InputError, brief
from tl_ffblock.signatures import strict


@strict
@contextmanager
def capture(
    model: Any,
    layers: Sequence[int] | int | None = None,
    *,
    queries: Int[Tensor, "batch query"] | None = None,
    on_record: RecordHandler | None = None,
    dtype: torch.dtype | None = None,
    extra: Sequence[ExtraSite] = (),
) -> Iterator[Records]:
    """Record layers of every forward pass that runs inside the context.

    Works alone or among other hooks, in any order of registration, and inside `run_with_hooks` or
    `run_with_cache`; leaves no hook behind after success or exception. Where the model ran with
    gradients, tensors keep their graph, and with all queries captured they lie on the way to the
    output: `torch.autograd.grad(output, record.pre)`. Not on it are tensors that no HookPoint hands over
    in time or as they are: the pattern of BERT, OPT and GPT-J bridges, `Atb` of parallel blocks, norms'
    outputs and routing of HookedTransformer.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder.
        layers: Layer numbers, negative ones from the end; None means all.
        queries: Positions to keep as rows, [batch query], from 0 and ascending in every sequence; None means all.
        on_record: Called with each layer's record as soon as it is complete, in place of keeping it,
            so that long runs need the memory of one layer only.
        dtype: Arithmetic of the decomposition; None means float64 for float64 models, else float32.
        extra: Further tensors for the records: "query" and "key" vectors of attention.

    Yields:
        Records: `records[layer]` after the forward pass.

    Warns:
        IgnoredEditWarning: if a hook edits a pattern after the model has used it.

    Raises:
        InputError: if a layer does not exist or the model is in training mode.
        UnsupportedModelError: if the architecture is not supported.
        IdentityError: on leaving, if hooks edited a layer whose weights are not read rightly.
    """
    if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
        raise InputError(f"dtype={brief(dtype)}: expected a floating-point torch.dtype such as torch.float64, or None.")
    if on_record is not None and not callable(on_record):
        raise InputError(f"on_record={brief(on_record)}: expected a function of a layer's record, or None.")
    if queries is not None and not (isinstance(queries, torch.Tensor) and queries.ndim == 2):
        raise InputError(f"queries={brief(queries)}: expected a tensor of positions [batch query], or None for all.")
    if queries is not None and (bool((queries < 0).any()) or bool((queries.diff(dim=-1) <= 0).any())):
        raise InputError(  # records hold rows in the order of the positions
            f"queries={brief(queries.tolist())}: expected positions from 0 in ascending order, each once, of every sequence."
        )
    if isinstance(extra, str) or not set(extra) <= set(get_args(ExtraSite)):
        raise InputError(
            f"extra={brief(extra)}: expected some of {', '.join(map(repr, get_args(ExtraSite)))}, as a list."
        )
    known = model if isinstance(model, Model) else identify(model)
    spec = CaptureSpec(select_layers(known, layers), dtype or working_dtype(known), queries, frozenset(extra))
    with collecting(known, spec, on_record) as records:
        yield records
    probe(known, spec.dtype, tuple(sorted(records.edited)))
