"""The table of docs/how_to/results.md: what every public result has, read from the classes."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from functools import cache
from typing import Any

from docs.markdown import table

MADE_BY = {
    "ActivationPatching": "`activation_patching`",
    "AttentionKnockout": "`attention_knockout`",
    "AttentionScores": "`attention_scores`",
    "Attachments": "`heads.attachments`",
    "Attribution": "`attribute`",
    "AttributionGraph": "`Attribution.graph`",
    "AverageMaps": "`average`",
    "AverageShares": "`average_shares`",
    "Averages": "`Results.mean` of `attribution_patching`",
    "CarriedShares": "`memories.carried`",
    "CausalValidation": "`causal_validation`",
    "Circuit": "`Circuit.topn`, `Circuit.greedy`",
    "CircuitFaithfulness": "`circuit_faithfulness`",
    "CircuitScores": "`known_circuits.score_grid`",
    "CoefficientParts": "`memories.token_parts`",
    "ContinuationAttribution": "`attribute_continuation`",
    "ContributionMaps": "`contribution_maps`",
    "ContributionSweep": "`contribution_sweep`",
    "Decomposition": "`decompose`",
    "DirectLogitAttribution": "`direct_logit_attribution`",
    "EdgeEffects": "`edge_patching`",
    "EdgeEstimates": "`attribution_patching(edges=True)`",
    "Faithfulness": "`faithfulness`",
    "FlowGraph": "`flow_graph`",
    "ImageMap": "`Attribution.image_map`, `maps.image_map`",
    "AttentionHeadScores": "`heads.induction_scores`, `heads.copy_scores`",
    "DistanceDecay": "`heads.distance_decay`",
    "LogitLens": "`logit_lens`",
    "MemoryEstimate": "`memory_estimate`",
    "MemoryCard": "`memories.memory_card`",
    "ModelCheck": "`check.check_model`",
    "NeuronShares": "`neurons`",
    "PatchedMaps": "`patched_maps`",
    "PatchingComparison": "`ActivationPatching.compare`",
    "PatchingEstimates": "`attribution_patching`",
    "RelationHits": "`heads.relation_hits`",
    "Share": "`heads.share_of_hits`",
    "TokenMaps": "`attention_maps`, `maps.token_maps()`, `aggregation.rollout`",
    "Triggers": "`memories.find_triggers`",
    "ValueTokens": "`memories.value_tokens`",
}
"""Classes by name, and the call that makes each."""
BASES = {"EdgeGraph", "Graph", "MemoryTable"}
MEANS = {
    "AttentionKnockout": "is of many prompts",
    "AverageMaps": "is a mean",
    "AverageShares": "is a mean",
    "Averages": "is a mean",
    "CausalValidation": "is of many prompts",
    "CircuitFaithfulness": "is of many prompts",
    "CircuitScores": "is of many known circuits",
    "ContributionSweep": "is of many prompts",
    "Faithfulness": "is of many prompts",
    "AttentionHeadScores": "is of many prompts",
    "DistanceDecay": "is of many prompts",
    "MemoryEstimate": "is of shapes",
    "PatchedMaps": "`average` of its maps",
    "RelationHits": "is of a corpus",
    "TokenMaps": "`average`",
    "Triggers": "is of a corpus",
}
"""What has no `Results.mean`, and why, or what makes it."""
DIFFERENCES = {
    "AverageShares": "of attributions",
    "Decomposition": "`difference`",
    "PatchedMaps": "`corruption`, `repair`, `rest`",
}
OF_TABLES = "of tables"


def classes() -> Iterator[type[Any]]:
    """Public results, by name."""
    import tl_ffblock
    from tl_ffblock.result import Result

    for module in pkgutil.walk_packages(tl_ffblock.__path__, "tl_ffblock."):
        if module.name not in ("tl_ffblock.__main__", "tl_ffblock.flow", "tl_ffblock.propagation"):
            importlib.import_module(module.name)
    found, waiting = set(), [Result]
    while waiting:
        below = waiting.pop().__subclasses__()
        waiting += below
        found |= {one for one in below if one.__module__.startswith("tl_ffblock.")}
    yield from sorted((one for one in found if one.__name__ not in BASES), key=lambda one: one.__name__)


@cache
def results() -> str:
    """A row for every class: how it is made, its own page and figure or those of its table, networkx, mean, difference."""
    from tl_ffblock.result import Result
    from tl_ffblock.views import figure_of, page_of

    rows = []
    for one in classes():
        own = page_of.dispatch(one) is not page_of.dispatch(Result)
        drawn = figure_of.dispatch(one) is not figure_of.dispatch(Result)
        several = isinstance(inspect.getattr_static(one, "mean", None), staticmethod)
        rows.append(
            [
                f"`{one.__name__}`",
                MADE_BY[one.__name__],
                "its own" if own else "its table",
                "its own" if drawn else "as the page opens",
                "yes" if hasattr(one, "to_networkx") else "is not a graph",
                MEANS.get(one.__name__, "`Results.mean()`" if several else OF_TABLES),
                "yes" if hasattr(one, "__sub__") else DIFFERENCES.get(one.__name__, OF_TABLES),
            ]
        )
    head = ("result", "made by", "page", "figure", "`to_networkx`", "mean of several", "`first - second`")
    return table(head, rows)


BLOCKS = {"results": results}
