"""Measured errors of an attribution; an attribution with larger errors is refused."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import CompletenessError, renamed
from tl_ffblock.numerals import percent, scientific
from tl_ffblock.result import Values
from tl_ffblock.signatures import strict

VANISHED = "gradient x input before a norm of the embeddings is zero by scale invariance; the remainder is rounding"
"""Printed in place of the largest tokens (`Attribution.vanishes`)."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class Certificate(Values):
    """Four measured errors of an attribution, each 0 up to rounding, and the attributed part of the target."""

    logits: float
    """Largest difference of logits with linearised modules from those of the model, without hooks: 0."""
    forms: float
    """Largest `|L - y| / |y|`, over hook points and positions: L is a linearised module's output, y the model's own."""
    worst_form: str
    """The hook point of that error."""
    layer_inputs: Float[Tensor, " layer"]
    """Error of the sum at the embeddings, at each layer's input and at the end, relative to the sum of absolute values.

    The sum has the attributions at this layer, and those of all biases and edits that are added later. The error is 0 at
    layers after the one at which the target is read."""
    edges: float
    """Largest difference of a head's attribution from the sum of its edges, relative to the sum of absolute values.

    It is 0 if `of=` did not ask for edges. Layers whose z is edited by a hook of yours are not compared."""
    attributed: float
    """Sum of all attributions over the target: 1 for complete rules and a target that is linear in the logits."""
    complete: bool
    """Whether the rules are complete, so that `layer_inputs` must be 0."""
    rtol: float
    """Largest accepted relative error."""
    nonlinear: float = 0.0
    """`(value - first_order) / value`, which is not attributed: 0 for logits and their differences."""

    def refuse(self, model: str, rules: str, remedy: str) -> None:
        """Refuse errors above the tolerance.

        Args:
            model: Name of the model.
            rules: Name of the rules.
            remedy: What to do, `Run.remedy`.

        Raises:
            CompletenessError: if one is, with the error and where it is.
        """
        refuse_forms({self.worst_form: self.forms}, self.rtol, model, rules)
        if not self.edges <= self.rtol:
            raise CompletenessError(
                f"{model}: sums of edges differ from the attributions of their heads by {self.edges:.1e} (tolerance "
                f"{self.rtol:.0e}). Does a hook edit an attention pattern after attention used it? Omit edges from `of`."
            )
        worst = int(self.layer_inputs.argmax())
        error = float(self.layer_inputs[worst])
        if self.complete and not error <= self.rtol:
            where = "the embeddings" if worst == 0 else f"the input of layer {worst - 1}"
            raise CompletenessError(
                f"{model}, rules={rules!r}: the sum of attributions at {where} differs from the target by {error:.1e} of the sum "
                f"of their absolute values (tolerance {self.rtol:.0e}). Something after it is not linear in the residual stream. "
                f'{remedy} Or use rules="gradient", which need not sum to the target.'
            )

    def __repr__(self) -> str:
        logits = f"logits differ by {scientific(self.logits, 1)}" if self.logits else "logits unchanged"
        module = f"worst module error {scientific(self.forms)} ({self.worst_form or 'none'})"
        layer = f"worst layer sum {scientific(float(self.layer_inputs.max()))}"
        return f"Checks: {logits} · {module} · {layer} · {self.attributed_in_words()}"

    def attributed_in_words(self) -> str:
        """Attributed part of the target in per cent: 100 for complete rules and a target that is linear in the logits."""
        of = " of the target" if self.has_nonlinear_part else ""
        words = f"{percent(self.attributed)}{of} attributed"
        if not self.complete:
            words += " (rules not complete: compare attributions with one another, not with the target)"
        if self.has_nonlinear_part:
            words += f", {percent(self.nonlinear)} is not linear in the logits and not attributed"
        return words

    @property
    def has_nonlinear_part(self) -> bool:
        """Whether the target has a nonlinear part larger than `rtol`."""
        return abs(self.nonlinear) > self.rtol

    boundaries = renamed("boundaries", "layer_inputs", lambda checks: checks.layer_inputs)
    handed_out = renamed(
        "handed_out",
        "attributed",
        lambda checks: checks.attributed / (1 - checks.nonlinear) if checks.nonlinear != 1 else math.nan,
    )
    """Sum of all attributions over `first_order`."""


def refuse_forms(gaps: Mapping[str, float], rtol: float, model: str, rules: str) -> None:
    """Refuse linearised modules whose output differs from the model's own.

    Args:
        gaps: By hook point, the largest `|L - y| / |y|` of a sequence.
        rtol: Largest accepted value.
        model: Name of the model.
        rules: Name of the rules.

    Raises:
        CompletenessError: if one is larger, with the worst hook point.
    """
    for site, gap in sorted(gaps.items(), key=lambda item: -item[1]):
        if not gap <= rtol:
            raise CompletenessError(
                f"{model}, rules={rules!r}: the linearised output of {site} differs from the model's own by {gap:.1e} of its "
                f"norm (tolerance {rtol:.0e}). Does a hook or other code change the model inside it? Remove the change. "
                "Half precision may need a higher rtol."
            )


def relative(miss: Tensor, size: Tensor) -> Tensor:
    """Errors relative to sizes; 0 if the error is 0."""
    return torch.where(miss == 0, miss, miss / torch.where(size == 0, torch.ones_like(size), size))
