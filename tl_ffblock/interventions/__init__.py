"""Maps inside causal experiments: contributions as interventions, patched runs, causal validation of a map."""

from tl_ffblock.interventions.contributions import Contributions, EditPoint, edit_point
from tl_ffblock.interventions.edits import Edit, knockout, measure_edits, measure_unedited, removal
from tl_ffblock.interventions.knockouts import AttentionKnockout, attention_knockout, attention_knockout_hooks
from tl_ffblock.interventions.patched import PatchedMaps, VectorDifference, difference, patched_maps
from tl_ffblock.interventions.sweeps import ContributionSweep, contribution_sweep
from tl_ffblock.interventions.validation import CausalValidation, SamplePlan, causal_validation

__all__ = [
    "AttentionKnockout",
    "CausalValidation",
    "ContributionSweep",
    "Contributions",
    "Edit",
    "EditPoint",
    "PatchedMaps",
    "SamplePlan",
    "VectorDifference",
    "attention_knockout",
    "attention_knockout_hooks",
    "causal_validation",
    "contribution_sweep",
    "difference",
    "edit_point",
    "knockout",
    "measure_edits",
    "measure_unedited",
    "patched_maps",
    "removal",
]
