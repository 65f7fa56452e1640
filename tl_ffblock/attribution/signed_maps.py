"""The layer maps with a sign and a target: what every contribution `F_i(x_j)` of a layer carries to it.

The target's derivative by the residual stream comes from the backward pass; each layer's record is walked backward from it
(layer/adjoint.py), which must end at the derivative by the layer's input: a check that shares no code with the hooks. By that
derivative the cells of the last scope must sum to what flows from each source token.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.certificate import relative
from tl_ffblock.bridge.runs import Run
from tl_ffblock.errors import CompletenessError
from tl_ffblock.layer.adjoint import Adjoint, scopes_to_output
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import INPUT

PREFIX = "maps."
"""Of a map's name among an attribution's parts."""


def signed_maps(
    run: Run, derivatives: Mapping[int, Float[Tensor, "boundary pos d_model"]], rtol: float
) -> dict[int, dict[str, Float[Tensor, "layer query key"]]]:
    """Maps of every scope up to each layer's output, by sequence.

    Args:
        run: Runs once more, for its records.
        derivatives: By sequence: the target's derivative by the residual stream at each layer's input and at the end.
        rtol: How well the walk must end at the derivative by the layer's input.

    Raises:
        CompletenessError: if it does not, as with an edit of a user's hooks inside the layer, or if cells do not sum.
    """
    scopes = [step.scope for step in scopes_to_output(run.model.family.order) if not step.at_keys]

    def measure(record: LayerRecord, number: int) -> dict[str, Float[Tensor, "query key"]]:
        of_stream, n = derivatives[number].to(record.resid_pre), len(record.resid_pre)
        if not of_stream[record.layer + 1].any():  # the target reads the stream before
            return {scope: of_stream.new_zeros(n, n).cpu() for scope in scopes}
        walk = Adjoint(record)
        by = walk.derivatives(of_stream[record.layer + 1])
        _refuse_other_end(run, record.layer, by[INPUT], of_stream[record.layer], rtol)
        cells = {scope: walk.carried(scope, by[scope]).cpu() for scope in scopes}
        if not record.edited:  # an edit of values adds what no token brings
            of_tokens = (record.resid_pre * by[INPUT]).sum(dim=-1)
            _refuse_other_cells(run, record.layer, cells[scopes[-1]], of_tokens.cpu(), rtol)
        return cells

    by_layer = [list(layers.values()) for layers in run.by_layer(measure)]
    return {number: {s: torch.stack([of[s] for of in by_layer[number]]) for s in scopes} for number in derivatives}


def _refuse_other_cells(
    run: Run, layer: int, cells: Float[Tensor, "query key"], of_tokens: Float[Tensor, " key"], rtol: float
) -> None:
    """At a layer's output the cells of a source token sum to `<x_j, df/dx_j>`: a layer's parts are linear in its input."""
    miss = (cells.sum(dim=0) - of_tokens).abs().max()
    error = float(relative(miss, cells.abs().sum()))
    if not error <= rtol:
        raise CompletenessError(
            f"{run.model.name}, layer {layer}: the cells of a signed map miss what flows from their source tokens by {error:.1e} of "
            f'their sizes (tolerance {rtol:.0e}). No signed maps are made. Leave "maps" out of `of`.'
        )


def _refuse_other_end(run: Run, layer: int, walked: Tensor, expected: Tensor, rtol: float) -> None:
    error = float(relative((walked - expected).norm(), expected.norm()))
    if not error <= rtol:
        raise CompletenessError(
            f"{run.model.name}, layer {layer}: walked backward by its weights, the layer gives a derivative that misses the backward "
            f"pass's by {error:.1e} (tolerance {rtol:.0e}). No signed maps are made; an edit of your hooks inside the layer does "
            'this. Leave "maps" out of `of`.'
        )
