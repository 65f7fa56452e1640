"""Maps inside causal experiments: contributions as interventions, patched runs, causal validation of a map.

edit_points.py         which HookPoint changes exactly one scope
hooks.py               functions that add vectors at a HookPoint
kept_runs.py           prompts with one run of each, kept
contribution_hooks.py  their vectors as such functions
edits.py               one vector added at one place: a contribution taken out, an edge cut
side_by_side.py        many edits, of one prompt or several, in few forward passes
sweeps.py              the effect of every (layer, head, query, key), of one prompt or many
sweep_result.py        its labelled result
patched.py             clean, corrupted and patched in one call; differences
sampling.py            cells of a prompt: drawn, predicted, taken out, measured
pairs.py               clean and corrupted prompts
validation.py          whether a map predicts effects
validation_result.py   its labelled result
validation_figure.py   its picture
"""

from tl_ffblock.interventions.contribution_hooks import Contributions
from tl_ffblock.interventions.edit_points import EditPoint, edit_point
from tl_ffblock.interventions.edits import Edit, knockout, removal
from tl_ffblock.interventions.patched import PatchedMaps, VectorDifference, difference, patched_maps
from tl_ffblock.interventions.sampling import SamplePlan
from tl_ffblock.interventions.side_by_side import measure_edits, measure_unedited
from tl_ffblock.interventions.sweep_result import ContributionSweep
from tl_ffblock.interventions.sweeps import contribution_sweep
from tl_ffblock.interventions.validation import causal_validation
from tl_ffblock.interventions.validation_result import CausalValidation

__all__ = [
    "CausalValidation",
    "ContributionSweep",
    "Contributions",
    "Edit",
    "EditPoint",
    "PatchedMaps",
    "SamplePlan",
    "VectorDifference",
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
