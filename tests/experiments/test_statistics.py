"""Statistics of tiny corpora against numbers made by hand."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

WORDS = {10: "a", 11: "b", 12: "##c", 13: "."}


def subject(order: str = "post_ln", causal: bool = False, n_layers: int = 1) -> Any:
    from tl_ffblock.corpus.study import Subject

    return Subject("hand", order, causal, n_layers, lambda token: WORDS[token])  # type: ignore[arg-type]


def config(experiment: str, **fields: Any) -> Any:
    from tl_ffblock.experiments import Config

    return Config(experiment, "m", "d", "o", **fields)


def encoded(
    ids: list[int],
    word: list[int] | None = None,
    groups: Any = (),
    special: list[int] | None = None,
    document: str = "d",
) -> Any:
    from tl_ffblock.corpus.texts.texts import Sequence
    from tl_ffblock.corpus.texts.tokenised import Encoded

    n = len(ids)
    marks = np.isin(np.arange(n), special or [])
    sequence = Sequence("text", "here", document, number=0)
    return Encoded(sequence, np.array(ids), marks, np.array(word or list(range(n))), groups, False)


def maps(scopes: dict[str, Tensor], *, causal: bool = False, order: str = "post_ln") -> Any:
    """Maps [query key] of one layer."""
    from tl_ffblock.results.maps import ContributionMaps
    from tl_ffblock.results.scope_table import ScopeTable

    n = len(next(iter(scopes.values())))
    rows = ScopeTable({scope: torch.zeros(1, n) for scope in scopes}, (0,))
    return ContributionMaps(
        tokens=tuple(map(str, range(n))),
        layers=(0,),
        order=order,  # type: ignore[arg-type]
        queries=tuple(range(n)),
        causal=causal,
        values=ScopeTable({scope: m[None] for scope, m in scopes.items()}, (0,)),
        bias=rows,
        remainder=rows,
        completeness=rows,
        model="hand",
    )


def observation(**fields: Any) -> Any:
    return SimpleNamespace(**{"maps": None, "records": (), **fields})


def test_pairs_are_averaged_over_the_corpus() -> None:
    """Mean FF-amp of column-normalised maps by (query, key); the diagonal, special tokens and pairs met once are out."""
    from tl_ffblock.experiments.kobayashi.amplification import Amplification

    experiment = Amplification(config("amplification", top_pairs=9), subject())
    before = torch.tensor([[2.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 2.0]])
    after = torch.tensor([[2.0, 1.0, 0.0], [4.0, 2.0, 4.0], [2.0, 1.0, 4.0]])
    one = observation(maps=maps({"Atb": before, "AtbFf": after}), encoded=encoded([10, 11, 12], word=[0, 1, 1]))
    two = observation(maps=maps({"Atb": before, "AtbFf": before}), encoded=encoded([10, 11, 12], special=[2]))
    tables = experiment.tables(
        [experiment.summarise([experiment.measure(one)]), experiment.summarise([experiment.measure(two)])]
    )
    top = tables["top_pairs"].set_index(["query", "key"])
    # column a: 2 4 2 of 8 after, 2 1 1 of 4 before; b: 1 2 1 of 4, the same before; the second text gains nothing
    assert list(top.index) == [("b", "a")]
    assert top.loc[("b", "a"), "amplification"] == pytest.approx((2 / 4 - 1 / 4) / 2)
    assert top.loc[("b", "a"), "count"] == 2
    assert top.loc[("b", "a"), "category"] == "adjacent"
    shares = tables["shares"].set_index(["pairs", "category"])
    assert shares.loc[("random", "adjacent"), "number"] == 2  # (a, b) is counted too, though nothing amplifies it


def test_repeated_tokens_add_up_within_a_text() -> None:
    """Occurrences of a pair in one text count one by one."""
    from tl_ffblock.experiments.kobayashi.amplification import Amplification

    experiment = Amplification(config("amplification"), subject())
    before = torch.ones(3, 3)
    after = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 2.0], [2.0, 1.0, 1.0]])
    seen = observation(maps=maps({"Atb": before, "AtbFf": after}), encoded=encoded([10, 11, 10]))
    top = experiment.tables([experiment.summarise([experiment.measure(seen)])])["top_pairs"].set_index(["query", "key"])
    assert top.loc[("b", "a"), "amplification"] == pytest.approx(((1 / 4 - 1 / 3) + (2 / 4 - 1 / 3)) / 2)
    assert top.loc[("a", "a"), "amplification"] == pytest.approx(((1 / 4 - 1 / 3) + (2 / 4 - 1 / 3)) / 2)
    assert top.loc[("a", "a"), "category"] == "same token"


def test_causal_models_have_half_the_pairs() -> None:
    """A key after its query is no pair."""
    from tl_ffblock.experiments.kobayashi.amplification import Amplification

    experiment = Amplification(config("amplification"), subject("pre_ln", causal=True))
    both = maps({"AtbLn": torch.ones(3, 3).tril(), "AtbLnFf": torch.ones(3, 3).tril()}, causal=True, order="pre_ln")
    pairs, *_ = experiment.measure(observation(maps=both, encoded=encoded([10, 11, 12])))
    assert set(zip(pairs.query.tolist(), pairs.key.tolist(), strict=True)) == {(11, 10), (12, 10), (12, 11)}


def test_merging_in_ranges_is_merging_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the ranges, every pair comes once with all its occurrences."""
    from tl_ffblock.corpus.statistics import pair_sums as module

    draw = np.random.default_rng(0)

    def part() -> Any:
        keys = module.pair_keys(draw.integers(0, 40, 500), draw.integers(0, 40, 500))
        ones = np.ones(500, dtype=np.int32)
        return module.add_up([module.Pairs(keys, ones, np.ones((500, 6), np.int32), draw.normal(size=(500, 2)))])

    parts = [part() for _ in range(4)]
    whole = module.add_up(parts)
    monkeypatch.setattr(module, "ENTRIES", 100)
    ranges = list(module.merge_ranges([{f"x/{k}": v for k, v in p.arrays().items()} for p in parts], "x/"))
    assert len(ranges) > 5
    for name in ("keys", "count", "kinds", "total"):
        np.testing.assert_array_equal(np.concatenate([getattr(r, name) for r in ranges]), getattr(whole, name))


def test_categories_by_rule() -> None:
    """The first rule that fits counts: same token, one word, an expression, side by side, other."""
    from tl_ffblock.experiments.kobayashi.categories import CATEGORIES, categorise

    one = encoded([10, 11, 12, 10, 13], word=[0, 1, 1, 2, 3], groups=(frozenset({0, 1}),))
    kinds = {
        (q, k): CATEGORIES[int(categorise(one, np.array([q]), np.array([k]))[0])] for q in range(5) for k in range(q)
    }
    assert kinds == {
        (1, 0): "within an expression",
        (2, 0): "within an expression",
        (2, 1): "subwords of one word",
        (3, 0): "same token",
        (3, 1): "other",
        (3, 2): "adjacent",
        (4, 0): "other",
        (4, 1): "other",
        (4, 2): "other",
        (4, 3): "adjacent",
    }


def test_pmi_by_unit() -> None:
    """log p(a, b) / (p(a) p(b)) over articles, sentences and windows, by hand."""
    from tl_ffblock.experiments.kobayashi.pmi import Incidence, Text

    # article 0: "a b ." "a c"; article 1: "a ." ; sentence numbers start at 0 in each text
    texts = [
        Text(np.array([0, 1, 3, 0, 2]), 0, np.array([0, 0, 0, 1, 1])),
        Text(np.array([0, 3]), 1, np.array([0, 0])),
    ]
    first, second = np.array([0, 1, 0]), np.array([1, 3, 2])
    found = {unit: Incidence(texts, unit, 2).pmi(first, second) for unit in ("article", "sentence", "window")}
    np.testing.assert_allclose(found["article"], [math.log(0.5 / (1 * 0.5)), math.log(0.5 / (0.5 * 1)), 0], atol=1e-12)
    third = 1 / 3
    np.testing.assert_allclose(found["sentence"], [0, math.log(third / (third * 2 * third)), 0], atol=1e-12)
    # windows of two: ab b. .a ac | a.
    np.testing.assert_allclose(
        found["window"],
        [math.log((1 / 5) / (4 / 5 * 2 / 5)), math.log((1 / 5) / (2 / 5 * 3 / 5)), math.log((1 / 5) / (4 / 5 * 1 / 5))],
    )


def test_pmi_of_strangers_is_nan() -> None:
    """Tokens that never meet have no PMI; they are left out of the correlation."""
    from tl_ffblock.experiments.kobayashi.pmi import Incidence, Text

    texts = [Text(np.array([0]), 0, np.array([0])), Text(np.array([1]), 1, np.array([0]))]
    assert np.isnan(Incidence(texts, "article", 2).pmi(np.array([0]), np.array([1]))).all()


@pytest.mark.parametrize("unit", ["article", "sentence", "window"])
def test_texts_of_special_tokens_only_are_in_no_unit(unit: Any) -> None:
    """As a text of one word that was masked: it changes nothing, and a corpus of such texts has no pairs."""
    from tl_ffblock.experiments.kobayashi.pmi import Incidence, Text

    empty = Text(np.zeros(0, dtype=np.int64), 7, np.zeros(0, dtype=np.int64))
    texts = [Text(np.array([0, 1, 2]), 0, np.array([0, 0, 1])), Text(np.array([0, 2]), 1, np.array([0, 0]))]
    first, second = np.array([0, 0, 1]), np.array([1, 2, 2])
    expected = Incidence(texts, unit, 2).pmi(first, second)
    found = Incidence([empty, texts[0], empty, texts[1], empty], unit, 2).pmi(first, second)
    np.testing.assert_array_equal(found, expected)
    assert Incidence([empty, empty], unit, 2).pmi(first[:0], second[:0]).shape == (0,)


def test_sentences_end_at_marks() -> None:
    """The mark belongs to the sentence it ends."""
    from tl_ffblock.experiments.kobayashi.pmi import sentences

    assert sentences(np.array([1, 9, 2, 3, 9, 4]), lambda token: token == 9).tolist() == [0, 0, 1, 1, 1, 2]


def test_changes_are_averaged_over_sequences() -> None:
    """1 - Spearman of each sequence, then their mean: 0 for the same order, 2 for the reverse."""
    from tl_ffblock.experiments.kobayashi.contextualization import Contextualization

    experiment = Contextualization(config("contextualization"), subject())
    up = torch.arange(4.0).reshape(2, 2)
    scopes = ["Attn", "AttnRes", "Atb", "AtbFf", "AtbFfRes", "AtbFfResLn"]
    same = dict.fromkeys(scopes, up)
    turned = {**same, "AtbFf": -up}
    measured = [experiment.measure(observation(maps=maps(m))) for m in (same, turned)]
    tables = experiment.tables([experiment.summarise(measured[:1]), experiment.summarise(measured[1:])])
    changes = tables["changes"].query("cells == 'reachable'").set_index("after")["change"]
    assert changes.to_dict() == pytest.approx(
        {"AttnRes": 0, "Atb": 0, "AtbFf": 1, "AtbFfRes": 1, "AtbFfResLn": 0}, abs=1e-12
    )
    cumulative = tables["cumulative"].query("cells == 'all'").set_index("component")["change"]
    assert cumulative.to_dict() == pytest.approx({"+FF": 1, "+RES": 0, "+LN": 0}, abs=1e-12)
    assert (tables["changes"]["sequences"] == 2).all()


@pytest.mark.parametrize(
    ("order", "bases"),
    [
        ("post_ln", ("Atb",)),
        ("pre_ln", ("AtbLn", "Atb")),
        ("sandwich", ("AtbLn", "Atb")),
        ("parallel", ("Atb",)),
        ("norm_after", ("Atb",)),
    ],
)
def test_cumulative_changes_start_before_the_feed_forward(order: str, bases: tuple[str, ...]) -> None:
    """And where a norm precedes it inside the block, before that norm too."""
    from tl_ffblock.experiments.kobayashi.contextualization import Contextualization

    assert Contextualization(config("contextualization"), subject(order)).bases() == bases


class Record(SimpleNamespace):
    """What norms and outliers read of a record."""

    def tensor(self, operand: str) -> Tensor:
        return self.whole[operand]


def test_norms_of_feed_forward_and_bypass() -> None:
    """Means of the vectors' lengths, with and without special tokens, by hand."""
    from tl_ffblock.experiments.kobayashi.bypass import BypassNorms

    ff, bypass = torch.tensor([[3.0, 4.0], [0.0, 1.0]]), torch.tensor([[0.0, 1.0], [3.0, 0.0]])
    experiment = BypassNorms(config("norms"), subject())
    seen = observation(records=(Record(whole={"AtbFf": ff, "Atb": bypass}),), encoded=encoded([1, 10], special=[0]))
    table = experiment.tables([experiment.summarise([experiment.measure(seen)])])["norms"].set_index("tokens")
    assert table.loc["all", ["ff", "bypass", "ratio", "more_than_twice", "count"]].tolist() == [3, 2, 2 / 3, 0.5, 2]
    assert table.loc["not special", ["ff", "bypass", "ratio", "more_than_twice", "count"]].tolist() == [1, 3, 3, 1, 1]


def test_outliers_against_the_next_gain() -> None:
    """Mean absolute values of FF's output fall where the gain rises: both correlations are -1."""
    from tl_ffblock.experiments.kobayashi.outliers import Outliers

    output = torch.tensor([[3.0, -2.0, 1.0], [-3.0, 2.0, -1.0]])
    gain = torch.tensor([1.0, 2.0, 3.0])
    block = SimpleNamespace(norm=lambda name: SimpleNamespace(gain=gain if name == "out_norm" else None))
    experiment = Outliers(config("outliers", ignored_dimensions=0), subject())
    record = Record(whole={"AtbFf": output, "Atb": output.abs()}, block=block)
    tables = experiment.tables([experiment.summarise([experiment.measure(observation(records=(record,)))])])
    row = tables["correlation"].set_index("of").loc["output"]
    assert (row["pearson"], row["spearman"]) == pytest.approx((-1, -1))
    assert tables["dimensions"]["output"].tolist() == [3, 2, 1]


def test_all_dimensions_give_the_change_of_the_maps(loaded: Any) -> None:
    """The slow road of `ignored` agrees with contextualization where nothing is ignored, in any order of norms."""
    from tl_ffblock.bridge.model import identify
    from tl_ffblock.contributions import contribution_maps
    from tl_ffblock.corpus.observation import observe
    from tl_ffblock.corpus.running.worker import subject_of
    from tl_ffblock.experiments.kobayashi.outliers import Outliers
    from tl_ffblock.results.measures import contextualization_change

    for family in ("bert", "llama"):
        model = identify(loaded(family))
        experiment = Outliers(config("outliers"), subject_of(model))
        one = encoded([5, 6, 7, 8, 9, 10, 11])
        (seen,) = observe(model, [one], (), records=True)
        found = experiment.measure(seen)["changes"].mean[0]
        step = experiment.subject.feed_forward
        whole: Any = contribution_maps(model.hooked, torch.as_tensor(one.ids))
        expected = contextualization_change(whole, str(step.before), step.scope)
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)
