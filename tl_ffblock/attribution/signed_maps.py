"""Signed layer maps: attribution of a target to every contribution `F_i(x_j)` of a layer.

The target's derivative by the residual stream comes from the backward pass. Each layer's vjp (layer/linear.py) continues from
it, and must end at the derivative by the layer's input: this check shares no code with the hooks. With that derivative, the
cells of the last scope must sum to the attribution of each source token.

With a second prompt, the same derivatives estimate the effect of its contributions, for every cell of every layer map:

    <F_i(x_j) of the second prompt - F_i(x_j), df/d scope_i>

The derivative inside a layer is by the clean prompt's vjp. Each prompt's contribution vectors are its own.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.certificate import relative
from tl_ffblock.bridge.runs import Run
from tl_ffblock.errors import CompletenessError
from tl_ffblock.layer.linear import LinearLayer
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import INPUT, steps_to_output

PREFIX = "maps."
"""Prefix of a map's name among an attribution's `parts`."""


def signed_maps(
    run: Run, derivatives: Mapping[int, Float[Tensor, "boundary pos d_model"]], rtol: float
) -> dict[int, dict[str, Float[Tensor, "layer query key"]]]:
    """Maps of every scope up to each layer's output, by sequence.

    Args:
        run: The model and its prompts; runs once more for layer records.
        derivatives: By sequence: the target's derivative by the residual stream at each layer's input and at the end.
        rtol: Largest accepted error of the vjp at the layer's input.

    Raises:
        CompletenessError: if the vjp has a larger error, for example with a hook inside the layer, or if cells do not sum.
    """
    scopes = _scopes(run)

    def measure(record: LayerRecord, number: int) -> dict[str, Float[Tensor, "query key"]]:
        of_stream, layer = derivatives[number].to(record.resid_pre), LinearLayer(record, run.settings)
        by = layer.vjp(of_stream[record.layer + 1])
        cells = {scope: layer.vjp_cells(scope, by[scope]).cpu() for scope in scopes}
        if of_stream[record.layer + 1].any():  # else the target is read before this layer
            _refuse_other_end(run, record.layer, by[INPUT], of_stream[record.layer], rtol)
            if not record.edited:  # what a hook adds to values has no source token
                of_tokens = (record.resid_pre * by[INPUT]).sum(dim=-1)
                _refuse_other_cells(run, record.layer, cells[scopes[-1]], of_tokens.cpu(), rtol)
        return cells

    by_layer = [list(layers.values()) for layers in run.by_layer(measure)]
    return {number: {s: torch.stack([of[s] for of in by_layer[number]]) for s in scopes} for number in derivatives}


def estimated_cells(
    clean: Run, corrupted: Run, by_stream: Mapping[int, Float[Tensor, "pos d_model"]]
) -> dict[str, Float[Tensor, "layer query key"]]:
    """Estimated effects of the cells of every scope up to each layer's output: {scope: [layer query key]}.

    Args:
        clean: The clean prompt; runs once more for layer records.
        corrupted: The corrupted prompt, of equally many tokens; runs once more too.
        by_stream: By layer: the target's derivative by the residual stream at its input; the number of layers means the end.
    """
    scopes = _scopes(clean)
    derivatives: dict[int, dict[str, Tensor]] = {}

    def of_clean(record: LayerRecord, _: int) -> dict[str, Tensor]:
        layer = LinearLayer(record, clean.settings)
        by = derivatives[record.layer] = layer.vjp(by_stream[record.layer + 1].to(record.resid_pre))
        return {scope: layer.vjp_cells(scope, by[scope]).cpu() for scope in scopes}

    def of_corrupted(record: LayerRecord, _: int) -> dict[str, Tensor]:
        layer, by = LinearLayer(record, corrupted.settings), derivatives.pop(record.layer)
        return {scope: layer.vjp_cells(scope, by[scope]).cpu() for scope in scopes}

    (before,), (after,) = clean.by_layer(of_clean), corrupted.by_layer(of_corrupted)
    return {scope: torch.stack([after[n][scope] - before[n][scope] for n in clean.layers]) for scope in scopes}


def _scopes(run: Run) -> list[str]:
    return [step.scope for step in steps_to_output(run.model.family.order) if not step.at_keys]


def _refuse_other_cells(
    run: Run, layer: int, cells: Float[Tensor, "query key"], of_tokens: Float[Tensor, " key"], rtol: float
) -> None:
    """At a layer's output, cells of a source token sum to `<x_j, df/dx_j>`: contribution vectors are linear in the input."""
    error = float(relative((cells.sum(dim=0) - of_tokens).abs().max(), cells.abs().sum()))
    if not error <= rtol:
        raise CompletenessError(
            f"{run.model.name}, layer {layer}: cells of a signed map differ from the attributions of their source tokens by "
            f'{error:.1e} of the sum of absolute values (tolerance {rtol:.0e}). Omit "maps" from `of`.'
        )


def _refuse_other_end(run: Run, layer: int, found: Tensor, expected: Tensor, rtol: float) -> None:
    error = float(relative((found - expected).norm(), expected.norm()))
    if not error <= rtol:
        raise CompletenessError(
            f"{run.model.name}, layer {layer}: the layer's vjp differs from the derivative of the backward pass by {error:.1e} "
            f'(tolerance {rtol:.0e}). {run.remedy} Or omit "maps" from `of`.'
        )
