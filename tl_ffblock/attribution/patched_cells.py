"""What the contributions of another run would do, estimated for every cell of every layer map.

    <F_i(x_j) of that run - F_i(x_j), df/d scope_i>

The derivative by the residual stream behind a layer is the estimate's; inside the layer it goes on by the clean run's linear
forms (layer/adjoint.py), and so is each run's vector carried by its own. Two walks a scope and layer, no vectors.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.runs import Run
from tl_ffblock.layer.adjoint import Adjoint, scopes_to_output
from tl_ffblock.layer.records import LayerRecord


def estimated_cells(
    clean: Run, corrupted: Run, by_stream: Mapping[int, Float[Tensor, "pos d_model"]]
) -> dict[str, Float[Tensor, "layer query key"]]:
    """Estimates of every scope up to each layer's output; errors are those of `Run.deliver`.

    Args:
        clean: Runs once more, for its records.
        corrupted: Likewise, of as many tokens.
        by_stream: By layer the target's derivative by the residual stream at its input; the number of layers is the end.
    """
    scopes = [step.scope for step in scopes_to_output(clean.model.family.order) if not step.at_keys]
    slopes: dict[int, dict[str, Tensor]] = {}

    def of_clean(record: LayerRecord, _: int) -> dict[str, Tensor]:
        walk = Adjoint(record)
        by = walk.derivatives(by_stream[record.layer + 1].to(record.resid_pre))
        slopes[record.layer] = {scope: by[scope] for scope in scopes}
        return {scope: walk.carried(scope, by[scope]).cpu() for scope in scopes}

    def of_corrupted(record: LayerRecord, _: int) -> dict[str, Tensor]:
        walk, by = Adjoint(record), slopes.pop(record.layer)
        return {scope: walk.carried(scope, by[scope]).cpu() for scope in scopes}

    (before,), (after,) = clean.by_layer(of_clean), corrupted.by_layer(of_corrupted)
    return {scope: torch.stack([after[n][scope] - before[n][scope] for n in clean.layers]) for scope in scopes}
