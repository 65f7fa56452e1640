"""Maps inside causal experiments: contributions as interventions, patched runs, causal validation of a map.

places.py         which HookPoint changes exactly one scope
contributions.py  one run's vectors as hook functions
effects.py        many edits in few forward passes, and the metrics that read them
sweeps.py         the effect of every (layer, query, source)
runs.py           clean, corrupted and patched in one call; differences
validation.py     whether a map predicts effects; sampling, the labelled result
statistics.py     rank correlation with bootstrap over prompts
"""

from tl_ffblock.interventions.contribution_hooks import Contributions
from tl_ffblock.interventions.edits import (
    Edit,
    Metric,
    Outcome,
    effects,
    kl_divergence,
    knockout,
    logit_difference,
    loss,
    removal,
)
from tl_ffblock.interventions.patched import PatchedMaps, VectorDifference, difference, patched_maps
from tl_ffblock.interventions.sweeps import ContributionSweep, contribution_sweep
from tl_ffblock.interventions.validation import CausalValidation, Plan, causal_validation

__all__ = [
    "CausalValidation",
    "ContributionSweep",
    "Contributions",
    "Edit",
    "Metric",
    "Outcome",
    "PatchedMaps",
    "Plan",
    "VectorDifference",
    "causal_validation",
    "contribution_sweep",
    "difference",
    "effects",
    "kl_divergence",
    "knockout",
    "logit_difference",
    "loss",
    "patched_maps",
    "removal",
]
