"""From the tokens to a logit, through all layers: a target shared out by one backward pass with local rules.

attribute.py    the public call
attribution.py  its labelled result
signed_maps.py  layer maps with a sign and a target
shares.py       a backward pass becomes the shares of each sequence
targets.py      what is attributed
certificate.py  how well it sums up, and when it is refused
continuation.py every token of a continuation, to all before it
edges.py        edges from senders to receivers, estimated
edge_walk.py    senders meet receivers, layer by layer
edge_estimates.py  their labelled result
patching.py     what another run's tensors would do, estimated
faithfulness.py what happens when tokens are removed, and which method said so
method_scores.py what methods say of tokens, of the target that is measured
faithfulness_result.py  its labelled result
graph.py        an attribution as a graph that conserves
tables.py       its summands, heads, neurons and edges as tables
average_shares.py  heads, neurons and biases on average over prompts, with intervals
saving.py       a result as a file
"""

from tl_ffblock.attribution.attribute import attribute
from tl_ffblock.attribution.attribution import Attribution
from tl_ffblock.attribution.average_shares import AverageShares, average_shares
from tl_ffblock.attribution.certificate import Certificate
from tl_ffblock.attribution.continuation import ContinuationAttribution, attribute_continuation
from tl_ffblock.attribution.faithfulness import faithfulness
from tl_ffblock.attribution.faithfulness_result import Faithfulness
from tl_ffblock.attribution.flow_graph import flow_graph
from tl_ffblock.attribution.patching import attribution_patching
from tl_ffblock.attribution.patching_estimates import PatchingEstimates
from tl_ffblock.attribution.targets import Direction, direction
from tl_ffblock.graphs import AttributionGraph, EdgeEstimates

__all__ = [
    "Attribution",
    "AttributionGraph",
    "AverageShares",
    "Certificate",
    "ContinuationAttribution",
    "Direction",
    "EdgeEstimates",
    "Faithfulness",
    "PatchingEstimates",
    "attribute",
    "attribute_continuation",
    "attribution_patching",
    "average_shares",
    "direction",
    "faithfulness",
    "flow_graph",
]
