"""Interventions: activation patching, knockout, contributions as edits, patched maps, causal validation, circuits."""

from tl_ffblock.interventions.activation_patching import ActivationPatching, PatchingComparison, activation_patching
from tl_ffblock.interventions.attention_knockout import AttentionKnockout, attention_knockout, attention_knockout_hooks
from tl_ffblock.interventions.circuits import (
    CircuitFaithfulness,
    EdgeEffects,
    circuit_faithfulness,
    edge_patching,
    path_patching,
    run_circuit,
)
from tl_ffblock.interventions.contributions import Contributions, EditPoint, edit_point
from tl_ffblock.interventions.edits import Edit, knockout, measure_edits, measure_unedited, removal
from tl_ffblock.interventions.patched import PatchedMaps, VectorDifference, difference, patched_maps
from tl_ffblock.interventions.sweeps import ContributionSweep, contribution_sweep
from tl_ffblock.interventions.validation import CausalValidation, SamplePlan, causal_validation

__all__ = [
    "ActivationPatching",
    "AttentionKnockout",
    "CausalValidation",
    "CircuitFaithfulness",
    "ContributionSweep",
    "Contributions",
    "EdgeEffects",
    "Edit",
    "EditPoint",
    "PatchedMaps",
    "PatchingComparison",
    "SamplePlan",
    "VectorDifference",
    "activation_patching",
    "attention_knockout",
    "attention_knockout_hooks",
    "causal_validation",
    "circuit_faithfulness",
    "contribution_sweep",
    "difference",
    "edge_patching",
    "edit_point",
    "knockout",
    "measure_edits",
    "measure_unedited",
    "patched_maps",
    "path_patching",
    "removal",
    "run_circuit",
]
