"""Token-to-token maps of Transformer layers, feed-forward block included, on TransformerLens.

    import tl_ffblock as ffb

    maps = ffb.contribution_maps(model, "She loves math rather than engaging in")
    maps["AtbLnFf", 3]  # [query, key]

Names and modules are imported at first use: `import tl_ffblock` alone does not import torch.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tl_ffblock._version import __version__ as __version__

if TYPE_CHECKING:
    from tl_ffblock import (
        aggregation as aggregation,
        attention as attention,
        attribution as attribution,
        bridge as bridge,
        check as check,
        contributions as contributions,
        corpus as corpus,
        errors as errors,
        experiments as experiments,
        graphs as graphs,
        heads as heads,
        interventions as interventions,
        known_circuits as known_circuits,
        layer as layer,
        memories as memories,
        metrics as metrics,
        page as page,
        result as result,
        results as results,
        views as views,
    )
    from tl_ffblock.attention import attention_maps, attention_scores
    from tl_ffblock.attribution import (
        Attribution,
        AverageShares,
        DirectLogitAttribution,
        LogitLens,
        attribute,
        attribute_continuation,
        attribution_patching,
        average_shares,
        direct_logit_attribution,
        direction,
        faithfulness,
        flow_graph,
        logit_lens,
    )
    from tl_ffblock.bridge.capture import capture
    from tl_ffblock.bridge.chat import chat
    from tl_ffblock.bridge.loading import load_model
    from tl_ffblock.bridge.memory import memory_estimate
    from tl_ffblock.contributions import contribution_maps, decompose, neurons
    from tl_ffblock.corpus.prompts import map_prompts
    from tl_ffblock.errors import FFBlockError
    from tl_ffblock.graphs import Circuit, FlowGraph, Graph
    from tl_ffblock.interventions import (
        Contributions,
        activation_patching,
        attention_knockout,
        causal_validation,
        circuit_faithfulness,
        contribution_sweep,
        difference,
        edge_patching,
        patched_maps,
        run_circuit,
    )
    from tl_ffblock.layer import scopes as scopes
    from tl_ffblock.layer.linear import Decomposition
    from tl_ffblock.metrics import (
        Metric,
        kl_divergence as kl_divergence,  # accessible here, listed in `metrics`
        logit,
        logit_difference,
        loss as loss,
        probability as probability,
        rank as rank,
    )
    from tl_ffblock.result import Results, load
    from tl_ffblock.results.average import AverageMaps, average
    from tl_ffblock.results.maps import ContributionMaps
    from tl_ffblock.results.measures import amplification, contextualization_change
    from tl_ffblock.results.neuron_table import NeuronShares
    from tl_ffblock.results.token_maps import TokenMaps
    from tl_ffblock.results.tokens import find_positions
    from tl_ffblock.results.words import group_tokens
    from tl_ffblock.views.figures import heat_map
    from tl_ffblock.views.overview import overview

_HOMES = {
    "Attribution": "attribution",
    "AverageMaps": "results.average",
    "AverageShares": "attribution",
    "Circuit": "graphs",
    "ContributionMaps": "results.maps",
    "Contributions": "interventions",
    "Decomposition": "layer.linear",
    "DirectLogitAttribution": "attribution",
    "FFBlockError": "errors",
    "FlowGraph": "graphs",
    "Graph": "graphs",
    "LogitLens": "attribution",
    "Metric": "metrics",
    "NeuronShares": "results.neuron_table",
    "Results": "result",
    "TokenMaps": "results.token_maps",
    "activation_patching": "interventions",
    "amplification": "results.measures",
    "attention_knockout": "interventions",
    "attention_maps": "attention",
    "attention_scores": "attention",
    "attribute": "attribution",
    "attribute_continuation": "attribution",
    "attribution_patching": "attribution",
    "average": "results.average",
    "average_shares": "attribution",
    "capture": "bridge.capture",
    "causal_validation": "interventions",
    "chat": "bridge.chat",
    "circuit_faithfulness": "interventions",
    "contextualization_change": "results.measures",
    "contribution_maps": "contributions",
    "contribution_sweep": "interventions",
    "decompose": "contributions",
    "difference": "interventions",
    "direct_logit_attribution": "attribution",
    "direction": "attribution",
    "edge_patching": "interventions",
    "faithfulness": "attribution",
    "find_positions": "results.tokens",
    "flow_graph": "attribution",
    "group_tokens": "results.words",
    "heat_map": "views.figures",
    "kl_divergence": "metrics",
    "load": "result",
    "load_model": "bridge.loading",
    "logit": "metrics",
    "logit_difference": "metrics",
    "logit_lens": "attribution",
    "loss": "metrics",
    "map_prompts": "corpus.prompts",
    "memory_estimate": "bridge.memory",
    "neurons": "contributions",
    "overview": "views.overview",
    "patched_maps": "interventions",
    "probability": "metrics",
    "rank": "metrics",
    "run_circuit": "interventions",
}
"""Module in which each public name is defined."""

_MODULES = {
    "aggregation": "aggregation",
    "check": "check",
    "corpus": "corpus",
    "errors": "errors",
    "experiments": "experiments",
    "graphs": "graphs",
    "heads": "heads",
    "interventions": "interventions",
    "known_circuits": "known_circuits",
    "memories": "memories",
    "metrics": "metrics",
    "scopes": "layer.scopes",
}
"""Public modules: their names are documented and stable."""
_OTHER_MODULES = {
    "attention": "attention",
    "attribution": "attribution",
    "bridge": "bridge",
    "contributions": "contributions",
    "flow": "flow",
    "layer": "layer",
    "page": "page",
    "propagation": "propagation",
    "result": "result",
    "results": "results",
    "views": "views",
}
"""Modules that are attributes but are not listed: internal ones, those whose names are exported here, and former names."""

__all__ = [
    "Attribution",
    "AverageMaps",
    "AverageShares",
    "Circuit",
    "ContributionMaps",
    "Contributions",
    "Decomposition",
    "DirectLogitAttribution",
    "FFBlockError",
    "FlowGraph",
    "Graph",
    "LogitLens",
    "Metric",
    "NeuronShares",
    "Results",
    "TokenMaps",
    "__version__",
    "activation_patching",
    "amplification",
    "attention_knockout",
    "attention_maps",
    "attention_scores",
    "attribute",
    "attribute_continuation",
    "attribution_patching",
    "average",
    "average_shares",
    "capture",
    "causal_validation",
    "chat",
    "circuit_faithfulness",
    "contextualization_change",
    "contribution_maps",
    "contribution_sweep",
    "decompose",
    "difference",
    "direct_logit_attribution",
    "direction",
    "edge_patching",
    "faithfulness",
    "find_positions",
    "flow_graph",
    "group_tokens",
    "heat_map",
    "load",
    "load_model",
    "logit",
    "logit_difference",
    "logit_lens",
    "map_prompts",
    "memory_estimate",
    "neurons",
    "overview",
    "patched_maps",
    "run_circuit",
]


def __getattr__(name: str) -> Any:
    if module := _MODULES.get(name, _OTHER_MODULES.get(name)):
        return import_module(f"{__name__}.{module}")
    if name not in _HOMES:
        # With name and obj Python itself adds "Did you mean: 'contribution_maps'?" to the traceback.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
