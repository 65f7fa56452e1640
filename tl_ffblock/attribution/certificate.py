"""Measured errors of an attribution, which is refused where they are too large."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import CompletenessError, warn
from tl_ffblock.numerals import percent, scientific
from tl_ffblock.result import Values
from tl_ffblock.signatures import strict

VANISHED = "gradient x input before a norm of the embeddings is zero by scale invariance; the remainder is rounding"
"""What is said in place of an order of tokens (`Attribution.vanishes`)."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class Certificate(Values):
    """Four measured errors, each 0 up to rounding, and how much of the target was attributed."""

    logits: float
    """Largest difference of the logits with local rules from those without, on a clean run of the model: 0."""
    forms: float
    """Largest `|L - y| / |y|` of a local linear form L and the model's own tensor y, over hook points and positions."""
    worst_form: str
    """The hook point of that error."""
    layer_inputs: Float[Tensor, " layer"]
    """Of the embeddings and of the residual stream at each layer's input and at the end: by how much the sum of its shares and
    of all that enters later misses the target, over the sum of sizes. Zero where a target reads before it."""
    edges: float
    """Largest difference of a head's share from the sum of its edges, over the sum of sizes; 0 where edges were not asked for,
    and of layers whose z no hook of a user's edits."""
    attributed: float
    """Sum of all shares over the target: 1 for rules that are complete and a target that is linear in the logits."""
    complete: bool
    """Whether the rules are: whether `layer_inputs` must be 0."""
    rtol: float
    """What was accepted."""
    nonlinear: float = 0.0
    """`(target - its first-order form) / target`, which has no shares: 0 for logits and their differences."""

    def refuse(self, model: str, rules: str) -> None:
        """Refuse errors above the tolerance.

        Raises:
            CompletenessError: naming the error and its place.
        """
        refuse_forms({self.worst_form: self.forms}, self.rtol, model, rules)
        if not self.edges <= self.rtol:
            raise CompletenessError(
                f"{model}: edges miss the shares of their heads by {self.edges:.1e} (tolerance {self.rtol:.0e}). Was a pattern "
                "edited that attention had used already? Leave edges out of `of`."
            )
        worst = int(self.layer_inputs.argmax())
        error = float(self.layer_inputs[worst])
        if self.complete and not error <= self.rtol:
            where = "the embeddings" if worst == 0 else f"the input of layer {worst - 1}"
            raise CompletenessError(
                f"{model}, rules={rules!r}: shares at {where} miss the target by {error:.1e} of their sizes (tolerance "
                f"{self.rtol:.0e}): something between there and the target is not linear in the residual stream, such as an edit "
                'of your hooks. No attribution is made; rules="gradient" reports how much it attributes instead.'
            )

    def __repr__(self) -> str:
        logits = f"logits differ by {scientific(self.logits, 1)}" if self.logits else "logits unchanged"
        module = f"worst module error {scientific(self.forms)} ({self.worst_form or 'none'})"
        layer = f"worst layer sum {scientific(float(self.layer_inputs.max()))}"
        return f"Checks: {logits} · {module} · {layer} · {self.attributed_in_words()}"

    def attributed_in_words(self) -> str:
        """How much of the target the shares sum to; all of it only where the rules are complete and the target linear in the logits."""
        of = " of the target" if self.has_nonlinear_part else ""
        words = f"{percent(self.attributed)}{of} attributed"
        if not self.complete:
            words += " (rules not complete: compare shares with one another, not with the target)"
        if self.has_nonlinear_part:
            words += f", {percent(self.nonlinear)} is not linear in the logits and has no shares"
        return words

    @property
    def has_nonlinear_part(self) -> bool:
        """Whether the target is more than its first-order form, beyond what is accepted as rounding."""
        return abs(self.nonlinear) > self.rtol

    @property
    def boundaries(self) -> Float[Tensor, " layer"]:
        """Deprecated: `layer_inputs`."""
        warn("Certificate.boundaries is Certificate.layer_inputs.", DeprecationWarning)
        return self.layer_inputs

    @property
    def handed_out(self) -> float:
        """Deprecated: sum of all shares over the target's first-order form, `attributed / (1 - nonlinear)`."""
        warn("Certificate.handed_out is Certificate.attributed.", DeprecationWarning)
        return self.attributed / (1 - self.nonlinear) if self.nonlinear != 1 else math.nan


def refuse_forms(gaps: Mapping[str, float], rtol: float, model: str, rules: str) -> None:
    """Refuse local linear forms that are not the model's own tensors.

    Args:
        gaps: By hook point the largest `|L - y| / |y|` of a sequence.
        rtol: What is accepted.
        model: Name of the model.
        rules: Name of the rules.

    Raises:
        CompletenessError: naming the worst hook point.
    """
    for site, gap in sorted(gaps.items(), key=lambda item: -item[1]):
        if not gap <= rtol:
            raise CompletenessError(
                f"{model}, rules={rules!r}: the local linear form of {site} misses the model's own tensor by {gap:.1e} of its "
                f"norm (tolerance {rtol:.0e}). No attribution is made. Was the model changed inside it, by a hook or "
                "otherwise? Half precision may need a higher rtol."
            )


def relative(miss: Tensor, size: Tensor) -> Tensor:
    """Errors over sizes; 0 where there is neither."""
    return torch.where(miss == 0, miss, miss / torch.where(size == 0, torch.ones_like(size), size))
