"""What heads attend to, and what any other map of tokens says in the same words (Clark et al. 2019).

    from tl_ffblock import heads

    maps = ffb.attention_maps(model, "The cat saw her .")
    groups = heads.token_groups(maps.tokens, special=[0, -1])
    heads.summary(maps, groups)                       # a table: shares, entropy, what a head does mostly
    heads.divergences(maps)                           # Jensen-Shannon between all heads of all layers
    heads.word_maps(maps, [-1, 0, 1, 2, 3, 4, -1])    # pieces of words become words

Every function takes `TokenMaps`: attention, value-weighted attention, contributions at any scope, by head or of
the whole layer, or arrays of one's own with labels. A row is read as a distribution: divided by its sum.

distributions.py  rows that sum to 1, entropy
statistics.py     where rows point: shares by target and by kind of query, behaviours, the summary
divergences.py    how far heads are from one another: Jensen-Shannon, a plane, clusters
words.py          pieces of words become words
relations.py      maps as parsers: which relations of a treebank they find
antecedents.py    maps as resolvers of coreference
probes.py         how much of a parse is in all maps together
effects.py        what a head does to an output: taken out, or along its attention
comparison.py     shares with intervals over documents, candidates chosen on other documents
"""

from tl_ffblock.heads.antecedents import Mentions, antecedent_hits, nearest_hits
from tl_ffblock.heads.comparison import Share, chosen_elsewhere, folds_of, mean_share, share_of_chosen, share_of_hits
from tl_ffblock.heads.distributions import distributions, entropy, evenness
from tl_ffblock.heads.divergences import clusters, divergence_sums, divergences, plane
from tl_ffblock.heads.effects import Replacement, ablation_effects, attention_gradients
from tl_ffblock.heads.probes import Attachments, ProbeKind, ProbeSentence, Training, attached_at, attachments
from tl_ffblock.heads.relations import Arcs, Direction, RelationHits, hits, reachable_arcs, relation_hits
from tl_ffblock.heads.statistics import (
    THRESHOLDS,
    behaviours,
    by_query_kind,
    means,
    query_statistics,
    summary,
    target_shares,
    token_groups,
)
from tl_ffblock.heads.words import word_maps

__all__ = [
    "THRESHOLDS",
    "Arcs",
    "Attachments",
    "Direction",
    "Mentions",
    "ProbeKind",
    "ProbeSentence",
    "RelationHits",
    "Replacement",
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
    "distributions",
    "divergence_sums",
    "divergences",
    "entropy",
    "evenness",
    "folds_of",
    "hits",
    "mean_share",
    "means",
    "nearest_hits",
    "plane",
    "query_statistics",
    "reachable_arcs",
    "relation_hits",
    "share_of_chosen",
    "share_of_hits",
    "summary",
    "target_shares",
    "token_groups",
    "word_maps",
]
