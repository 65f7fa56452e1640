"""Coreference on thirty sentences of our own (section 4.3): maps that link a pronoun to its antecedent.

Clark et al. use CoNLL-2012, whose licence does not allow redistribution. The sentences below demonstrate the method; they are
too few and too simple for conclusions. Each has two people or things, and number, gender or meaning determines the antecedent.
Mentions are marked at their head words: `The kings/1 thanked the girl/2 because she/2 ...`.

    from tl_ffblock.experiments.clark.coreference import antecedents

    antecedents(ffb.load_model("minilm"))  # a table: accuracy of the best map of each kind, chosen on other sentences
"""

import re
from typing import Any

import numpy as np
import pandas as pd

from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.corpus.study import Config, ModelFacts, observe
from tl_ffblock.corpus.texts import CorpusText
from tl_ffblock.corpus.tokenised import Tokeniser
from tl_ffblock.experiments.clark.compared import (
    channels_of,
    compared_maps,
    compared_scopes,
    maps_of_words,
    places_by_kind,
)
from tl_ffblock.heads import antecedent_hits, nearest_hits, share_of_chosen, share_of_hits

SENTENCES = (
    "The king/1 thanked the girls/2 because they/2 had found the ring .",
    "The girls/1 thanked the king/2 because he/2 had found the ring .",
    "My sister/1 called her uncle/2 before he/2 left for work .",
    "My uncle/1 called his niece/2 before she/2 left for work .",
    "The nurses/1 met the old man/2 when he/2 came to the house .",
    "The old man/1 met the nurses/2 when they/2 came to the house .",
    "Mary/1 gave the book to John/2 , and he/2 read it at once .",
    "John/1 gave the book to Mary/2 , and she/2 read it at once .",
    "Mary/1 gave the book to John/2 after she/1 had read it .",
    "John/1 gave the book to Mary/2 after he/1 had read it .",
    "The farmers/1 sold the horse/2 since it/2 was too slow .",
    "The farmers/1 sold the horse/2 since they/1 needed money .",
    "The woman/1 told the boys/2 that she/1 was tired .",
    "The woman/1 told the boys/2 that they/2 were late .",
    "The boys/1 saw the queen/2 as she/2 left the church .",
    "The boys/1 saw the queen/2 as they/1 left the church .",
    "The letter/1 reached the twins/2 when it/1 was already old .",
    "The letter/1 reached the twins/2 when they/2 were already old .",
    "Anna/1 asked the old man/2 whether she/1 might drive to the sea .",
    "Peter/1 asked the old lady/2 whether he/1 might drive to the sea .",
    "The dogs/1 followed the girl/2 until she/2 reached the river .",
    "The dogs/1 followed the girl/2 until they/1 reached the river .",
    "The teacher/1 praised the pupils/2 , and they/2 were glad .",
    "The pupils/1 praised the teacher/2 , and they/1 were right .",
    "The actress/1 wrote to the director/2 that she/1 would not come .",
    "The actor/1 wrote to his wife/2 that she/2 should not wait .",
    "The brothers/1 built a boat/2 , but it/2 sank in the lake .",
    "The brothers/1 built a boat/2 , but they/1 never sailed .",
    "The aunt/1 baked a cake/2 for the men/3 , who ate it/2 .",
    "The men/1 baked a cake/2 for the aunt/3 , and she/3 ate alone .",
)
_MARK = re.compile(r"/(\d+)$")


def marked(sentence: str, number: int) -> tuple[CorpusText, list[tuple[int, int]]]:
    """A sentence as a text with its words, and its mentions: index of the word, and number of the entity."""
    pieces = sentence.split()
    words = [_MARK.sub("", piece) for piece in pieces]
    ends = np.cumsum([len(word) + 1 for word in words]) - 1
    spans = tuple((int(end) - len(word), int(end)) for word, end in zip(words, ends, strict=True))
    mentions = [(place, int(mark[1])) for place, piece in enumerate(pieces) if (mark := _MARK.search(piece))]
    return CorpusText(" ".join(words), f"sentence {number}", str(number), spans, number=number), mentions


def antecedents(model: Any) -> pd.DataFrame:
    """Accuracy of the best map of each kind on the sentences above, chosen on other sentences, with 95 % intervals.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder with a tokenizer.

    Raises:
        InputError: if the model has no tokenizer that gives character offsets.
        UnsupportedModelError: if the model cannot be decomposed.
    """
    known = identify(model)
    facts = ModelFacts.of(known)
    found = [_hits(known, sentence, number) for number, sentence in enumerate(SENTENCES)]
    hits = np.concatenate([np.moveaxis(hit, -1, 0) for hit, _ in found])
    nearest = np.concatenate([near for _, near in found])
    sentence = np.repeat(np.arange(len(found)), [len(near) for _, near in found])
    shares = {
        kind: share_of_chosen(hits[..., places].reshape(len(hits), -1), sentence)
        for kind, places in places_by_kind(channels_of(facts, hits.shape[-1], by_head=False)).items()
    }
    shares["nearest mention"] = share_of_hits(nearest, sentence)
    return pd.DataFrame(
        [
            {"map": kind, "anaphors": len(hits)}
            | share.columns("accuracy")
            | share.minus(shares["nearest mention"]).columns("minus_nearest")
            for kind, share in shares.items()
        ]
    )


def _hits(model: Model, sentence: str, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Hits of every map for the anaphors of a sentence, [layer channel anaphor], and of the nearest mention, [anaphor]."""
    text, mentions = marked(sentence, number)
    facts = ModelFacts.of(model)
    tokenised = Tokeniser(model, Config("", "", "", mask_fraction=0.0))(text)
    (observed,) = observe(model, [tokenised], compared_scopes(facts))
    words = maps_of_words(compared_maps(observed, facts, by_head=False), tokenised)
    return antecedent_hits(words, mentions), nearest_hits(mentions)
