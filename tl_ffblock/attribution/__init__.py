"""Attribution of a target, such as a logit, to tokens and components through all layers, by one backward pass."""

from tl_ffblock.attribution.attribute import attribute
from tl_ffblock.attribution.attribution import Attribution
from tl_ffblock.attribution.average_shares import Averages, AverageShares, average_shares
from tl_ffblock.attribution.certificate import Certificate
from tl_ffblock.attribution.continuation import ContinuationAttribution, attribute_continuation
from tl_ffblock.attribution.direct import (
    DirectLogitAttribution,
    LogitLens,
    direct_logit_attribution,
    logit_lens,
)
from tl_ffblock.attribution.faithfulness import Faithfulness, faithfulness
from tl_ffblock.attribution.flow_graph import flow_graph
from tl_ffblock.attribution.patching import PatchingEstimates, attribution_patching
from tl_ffblock.attribution.targets import Direction, direction
from tl_ffblock.bridge.linearised import Rules
from tl_ffblock.graphs import AttributionGraph as AttributionGraph, EdgeEstimates as EdgeEstimates

__all__ = [
    "Attribution",
    "AverageShares",
    "Averages",
    "Certificate",
    "ContinuationAttribution",
    "DirectLogitAttribution",
    "Direction",
    "Faithfulness",
    "LogitLens",
    "PatchingEstimates",
    "Rules",
    "attribute",
    "attribute_continuation",
    "attribution_patching",
    "average_shares",
    "direct_logit_attribution",
    "direction",
    "faithfulness",
    "flow_graph",
    "logit_lens",
]
