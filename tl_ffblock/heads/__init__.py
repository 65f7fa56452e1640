"""Statistics of heads' attention and of other maps of tokens (Clark et al. 2019).

    from tl_ffblock import heads

    maps = ffb.attention_maps(model, "The cat saw her .")
    groups = heads.token_groups(maps.tokens, special=[0, -1])
    heads.summary(maps, groups)                       # a table: shares by target, entropy, main behaviour of a head
    heads.divergences(maps)                           # Jensen-Shannon between all heads of all layers
    heads.word_maps(maps)                             # pieces of words become words

Every function takes `TokenMaps`: attention, value-weighted attention, or contributions at any scope, by head or for the whole
layer, or your own arrays with labels. A row is divided by its sum and used as a distribution.
"""

from tl_ffblock.errors import former_names
from tl_ffblock.heads.decay import DistanceDecay, distance_decay
from tl_ffblock.heads.effects import HeadReplacement, ablation_effects, attention_gradients
from tl_ffblock.heads.probes import (
    Attachments,
    ProbeKind,
    ProbeSentence,
    Share,
    Training,
    attached_at,
    attachments,
    chosen_elsewhere,
    folds_of,
    mean_share,
    share_of_chosen,
    share_of_hits,
)
from tl_ffblock.heads.relations import (
    ArcDirection,
    Arcs,
    Mentions,
    RelationHits,
    antecedent_hits,
    hits,
    nearest_hits,
    reachable_arcs,
    relation_hits,
    word_maps,
)
from tl_ffblock.heads.scores import (
    AttentionHeadScores,
    copy_scores,
    duplicate_token_scores,
    induction_scores,
    previous_token_scores,
    repeated_tokens,
)
from tl_ffblock.heads.statistics import (
    THRESHOLDS,
    behaviours,
    by_query_kind,
    clusters,
    distributions,
    divergence_sums,
    divergences,
    entropy,
    evenness,
    means,
    plane,
    query_statistics,
    summary,
    target_shares,
    token_groups,
)

__all__ = [
    "THRESHOLDS",
    "Arcs",
    "Attachments",
    "ArcDirection",
    "DistanceDecay",
    "AttentionHeadScores",
    "Mentions",
    "ProbeKind",
    "ProbeSentence",
    "RelationHits",
    "HeadReplacement",
    "Share",
    "Training",
    "ablation_effects",
    "antecedent_hits",
    "attached_at",
    "attachments",
    "attention_gradients",
    "behaviours",
    "by_query_kind",
    "chosen_elsewhere",
    "clusters",
    "copy_scores",
    "distance_decay",
    "distributions",
    "divergence_sums",
    "divergences",
    "duplicate_token_scores",
    "entropy",
    "evenness",
    "folds_of",
    "hits",
    "induction_scores",
    "mean_share",
    "means",
    "nearest_hits",
    "plane",
    "previous_token_scores",
    "query_statistics",
    "reachable_arcs",
    "relation_hits",
    "repeated_tokens",
    "share_of_chosen",
    "share_of_hits",
    "summary",
    "target_shares",
    "token_groups",
    "word_maps",
]

__getattr__ = former_names(
    __name__, {"Direction": "tl_ffblock.heads.ArcDirection", "Replacement": "tl_ffblock.heads.HeadReplacement"}
)
