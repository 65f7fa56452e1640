"""Maps and tokens made by hand, as a study is shown them."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from tests.corpora import InMemory
from tl_ffblock.bridge.model import Model
from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.study import ModelFacts, Observation, ObservedBatch, Study, Tables
from tl_ffblock.corpus.texts import CorpusText
from tl_ffblock.corpus.tokenised import TokenisedText
from tl_ffblock.layer.scopes import Order
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.tables import ScopeTable

WORDS = {10: "a", 11: "b", 12: "##c", 13: "."}
CONFIG = Config("m", "d", "o")


def facts(order: Order = "post_ln", *, causal: bool = False) -> ModelFacts:
    """A model of one layer."""
    return ModelFacts("hand", order, causal, 1, lambda token: WORDS[token])


def tokenised(
    ids: Sequence[int],
    *,
    word: Sequence[int] | None = None,
    groups: tuple[frozenset[int], ...] = (),
    special: Sequence[int] = (),
    masked: Mapping[int, int] | None = None,
) -> TokenisedText:
    """Tokens by id, each a word of its own; `special` are positions, and so are `masked`, with what stood there."""
    masked = {} if masked is None else masked
    marks = np.isin(np.arange(len(ids)), [*special, *masked])
    words = np.array(range(len(ids)) if word is None else word)
    return TokenisedText(CorpusText("text", "here", "d", number=0), np.array(ids), marks, words, groups, False, masked)


class HandMade(ObservedBatch):
    """One sequence's maps of one layer, [query key] by scope."""

    def __init__(self, scopes: Mapping[str, Tensor], facts: ModelFacts) -> None:
        self.of_scopes, self.facts = scopes, facts

    @property
    def maps(self) -> list[ContributionMaps]:  # type: ignore[override]
        size = len(next(iter(self.of_scopes.values())))
        rows = ScopeTable({scope: torch.zeros(1, size) for scope in self.of_scopes}, (0,))
        return [
            ContributionMaps(
                tokens=tuple(map(str, range(size))),
                layers=(0,),
                order=self.facts.order,
                queries=tuple(range(size)),
                causal=self.facts.causal,
                values=ScopeTable({scope: values[None] for scope, values in self.of_scopes.items()}, (0,)),
                bias=rows,
                remainder=rows,
                completeness=rows,
                model=self.facts.name,
            )
        ]


def observed(model: Model, study: Study, scopes: Mapping[str, Tensor], tokens: TokenisedText) -> Observation:
    """What a study is shown of these maps and tokens; the model is not run."""
    return Observation(model, tokens, HandMade(scopes, study.facts), 0)


def tables_of_shards(study: Study, *shards: Sequence[Observation]) -> Tables:
    """All that a run does with a study: measure each sequence, sum up each shard, merge the shards."""
    summaries = [study.summarise([study.measure(observation) for observation in shard]) for shard in shards]
    return study.tables([InMemory(summary) for summary in summaries])
