"""The sentences that a report says a result in, of tables made by hand."""

import numpy as np
import pandas as pd

from tests.experiments.hand_made import CONFIG, facts
from tl_ffblock.experiments.clark.probes import Probes, ProbesOptions
from tl_ffblock.experiments.kobayashi.amplification import Amplification, AmplificationOptions
from tl_ffblock.experiments.kobayashi.bypass import Bypass
from tl_ffblock.experiments.kobayashi.contextualization import Contextualization
from tl_ffblock.experiments.kobayashi.outliers import Outliers, OutliersOptions

NAN = float("nan")


def shares(*rows: tuple[int, str, str, int, float]) -> pd.DataFrame:
    """Shares of kinds, as the study of amplification tabulates them."""
    return pd.DataFrame(rows, columns=["occurrences", "pairs", "category", "number", "share"])


def test_the_kind_that_stands_out_exceeds_all_pairs_most() -> None:
    """Adjacent pairs are 60 % of layer 1's and 55 % of all; subwords, 30 % against 2 %, stand out, "other" never."""
    kinds = ("adjacent", "subwords of one word", "other")
    of_pairs = {"layer 0": (0.5, 0.1, 0.4), "layer 1": (0.6, 0.3, 0.1), "random": (0.55, 0.02, 0.43)}
    number = {"layer 0": 50, "layer 1": 40, "random": 900}
    table = shares(
        *(
            (2, of, kind, number[of], share)
            for of, each in of_pairs.items()
            for kind, share in zip(kinds, each, strict=True)
        ),
        (3, "layer 0", "subwords of one word", 9, 0.9),  # of pairs that are not ranked as in the paper
    )
    study = Amplification(CONFIG, facts(), AmplificationOptions())
    assert study.sentences({"shares": table}) == (
        "The kind that stands out most is “subwords of one word” in layer 1: 30% of its 40 most amplified pairs, "
        "against 2% of all pairs.",
    )
    table = shares((2, "layer 0", "adjacent", 0, NAN), (2, "random", "adjacent", 0, NAN))
    assert study.sentences({"shares": table}) == ("No pair of tokens is amplified and occurs at least 2 times.",)


def test_the_bypass_is_told_at_text_and_over_all_tokens() -> None:
    """How many layers are above twice, and both extremes with their layers; layers without a number are not counted."""
    ratios = {"all": (1.5, 2.0, 2.5, 9.0), "not special": (3.0, 2.25, 0.5, NAN), "first": (99.0,) * 4}
    rows = [(tokens, layer, ratio) for tokens, of in ratios.items() for layer, ratio in enumerate(of)]
    norms = pd.DataFrame(rows, columns=["tokens", "layer", "ratio"])
    assert Bypass(CONFIG, facts()).sentences({"norms": norms}) == (
        "At tokens of text the bypass is more than twice as large as the feed-forward's output in 2 of 3 layers "
        "(from 0.50 times in layer 2 to 3.00 times in layer 0).",
        "Over all tokens the bypass is more than twice as large as the feed-forward's output in 2 of 4 layers "
        "(from 1.50 times in layer 0 to 9.00 times in layer 3).",
    )


def test_outliers_are_told_of_the_output() -> None:
    """The output's rank correlations alone: in how many layers they are negative, and both extremes."""
    columns = dict(layer=[0, 1, 2, 3] * 2, of=["input"] * 4 + ["output"] * 4, pearson=np.ones(8))
    correlation = pd.DataFrame({**columns, "spearman": [-0.9, 0.9, 0.9, 0.9, -0.25, 0.125, -0.75, NAN]})
    study = Outliers(CONFIG, facts(), OutliersOptions())
    assert study.sentences({"correlation": correlation}) == (
        "Where the feed-forward's output is large the next norm's gain is small in 2 of 3 layers: "
        "Spearman from -0.75 (layer 2) to +0.12 (layer 1).",
    )
    assert study.sentences({"correlation": correlation.assign(spearman=NAN)}) == ()


def test_changes_are_told_of_the_feed_forward_and_the_norm_after_it() -> None:
    """The two largest layers and the median, of the cells that are ranked: of a causal model the reachable ones."""
    by_cells = {
        "reachable": {"AtbLnFf": (0.125, 0.5, 0.25), "AtbLnFfResLn": (0.75, NAN, 0.0), "Atb": (0.99,) * 3},
        "all": {"AtbLnFf": (0.9, 0.01, 0.02), "AtbLnFfResLn": (0.01, 0.9, 0.02), "Atb": (0.99,) * 3},
    }
    rows = [
        (cells, layer, after, change)
        for cells, by_scope in by_cells.items()
        for after, changes in by_scope.items()
        for layer, change in enumerate(changes)
    ]
    changes = pd.DataFrame(rows, columns=["cells", "layer", "after", "change"])
    from_before = {"AtbLnFf": (0.5, 0.25, 1.0), "AtbLnFfRes": (0.25, 0.25, 0.25), "AtbLnFfResLn": (0.5, 0.05, NAN)}
    names = {"AtbLnFf": "+FF", "AtbLnFfRes": "+RES", "AtbLnFfResLn": "+LN"}
    cumulative = pd.DataFrame(
        [
            (cells, layer, names[after], before, after, scale * change)
            for cells, scale in (("reachable", 1.0), ("all", 0.5))
            for before in ("AtbLn", "Atb")
            for after, changes_of in from_before.items()
            for layer, change in enumerate(changes_of if before == "AtbLn" else changes_of[::-1])
        ],
        columns=["cells", "layer", "component", "before", "after", "change"],
    )
    study = Contextualization(CONFIG, facts("pre_ln", causal=True))
    assert study.sentences({"changes": changes, "cumulative": cumulative}) == (
        "The feed-forward changes contextualization most in layer 1: 0.500, next in layer 2 (0.250); in the median layer 0.250.",
        "The norm after it changes contextualization most in layer 0: 0.750, next in layer 2 (0.000); in the median layer 0.375.",
        "Seen from AtbLn, of the change by the feed-forward is left in the median layer: 50% after +RES, 60% after +LN.",
    )


def test_probes_are_told_by_their_best() -> None:
    """The best probe that reads maps, and the best that reads none, each with its name; of no documents there is no best."""
    study = Probes(CONFIG, facts("pre_ln", causal=True), ProbesOptions())
    rows = [
        ("maps", "attention", 0.3),
        ("maps and words", "Atb", 0.52),
        ("best offset", "", 0.31),
        ("distance", "", 0.2),
    ]
    table = pd.DataFrame(rows, columns=["probe", "maps", "attachment"])
    assert study.sentences({"attachment": table}) == (
        "Words that are given their head: by maps at most 52% (maps and words: Atb), without any at most 31% (best offset).",
    )
    assert "nothing to train on" in study.sentences({"attachment": table[:0]})[0]
