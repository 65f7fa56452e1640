"""Figures that docs/results/README.md states are those of the tables beside it."""

from pathlib import Path

import pytest

pd = pytest.importorskip("pandas", reason="pandas is not installed (extra experiments)")

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
PAGE = (RESULTS / "README.md").read_text(encoding="utf-8")
MODELS = ("minilm", "smollm2")


def table(run: str, name: str) -> "pd.DataFrame":
    """One table of a run."""
    return pd.read_csv(RESULTS / run / f"{name}.csv")


def percent(share: float) -> str:
    """As the page writes it: a digit after the point below half a per cent."""
    return f"{100 * share:.1f} %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def finding(number: int) -> str:
    """The text of one finding."""
    return PAGE.split(f"**{number}. ")[1].split(f"**{number + 1}. ")[0].split("\n## ")[0]


def subwords(run: str) -> "pd.Series":
    """Share of subwords of one word, by layer and of random pairs."""
    shares = table(run, "amplification_shares")
    return shares[shares.category == "subwords of one word"].set_index("pairs").share


@pytest.mark.parametrize("run", sorted(path.name for path in RESULTS.iterdir() if (path / "norms_norms.csv").exists()))
def test_tokens_of_a_run(run: str) -> None:
    """The sample table counts the tokens that the norms are means over."""
    norms = table(run, "norms_norms")
    tokens = norms[norms.tokens == "all"]["count"].max()
    assert f"| {tokens:,} |".replace(",", " ") in next(
        line for line in PAGE.splitlines() if line.startswith(f"| {run} |")
    )


@pytest.mark.parametrize(
    ("run", "name"),
    [
        *((f"{model}-{corpus}", "contextualization_changes") for model in MODELS for corpus in ("sst2", "wikitext2")),
        ("minilm-streusle", "contextualization_changes"),
        *((f"{model}-sst2-ignored", "outliers_ignored") for model in MODELS),
    ],
)
def test_sequences_of_a_run(run: str, name: str) -> None:
    """The sample table says how many."""
    line = next(line for line in PAGE.splitlines() if line.startswith(f"| {run} |"))
    assert str(table(run, name).sequences.max()) in line.split("|")[2].replace(",", " ").split()


def test_finding_1_change_by_layer() -> None:
    """The largest changes by FF and the median."""
    text = finding(1)
    for corpus, written in (
        ("sst2", "FF {0:.2f} in the last layer and {1:.2f}"),
        ("wikitext2", "2 {0:.2f} and {1:.2f})"),
    ):
        changes = table(f"minilm-{corpus}", "contextualization_changes").query("component == 'FF'").change
        assert written.format(changes.iloc[5], changes.iloc[4]) in text
    for corpus, written in (
        ("sst2", "FF {:.2f} in layer 0 and {:.2f} in layer 2, median {:.3f}"),
        ("wikitext2", "2 {:.2f}, {:.2f} and median {:.3f}"),
    ):
        changes = table(f"smollm2-{corpus}", "contextualization_changes").query(
            "cells == 'reachable' and component == 'FF'"
        )
        by_layer = changes.set_index("layer").change
        assert written.format(by_layer[0], by_layer[2], by_layer.median()) in text


def test_finding_2_what_is_left() -> None:
    """Medians over layers of the change after the residual and after the norm, and in how many layers it is less."""
    text = finding(2)

    def left(run: str, before: str) -> tuple[str, str, int]:
        rows = table(run, "contextualization_cumulative").query("cells == 'reachable' and before == @before")
        wide = rows.pivot(index="layer", columns="component", values="change")
        after = [percent((wide[name] / wide["+FF"]).median()) for name in ("+RES", "+LN")]
        return *after, int((wide["+LN"] < wide["+FF"]).sum())

    residual, norm, _ = left("minilm-sst2", "Atb")
    assert f"{residual} of the change is left after it and {norm} after the LN" in text
    residual, norm, _ = left("minilm-wikitext2", "Atb")
    assert f"WikiText-2 {residual} and {norm})" in text
    assert f"{left('smollm2-sst2', 'Atb')[0]} of the change by norm and FF is left after the residual" in text
    (first, norm, fewer), (second, other, others) = (left(f"smollm2-{c}", "AtbLn") for c in ("sst2", "wikitext2"))
    assert f"({first} of it is left in the median on SST-2, {second} on WikiText-2" in text
    assert f"{norm} is left, less than before in {fewer} of 30 layers (WikiText-2: {other}, {others} of 30)" in text


def test_finding_3_bypass() -> None:
    """Ratios of the bypass to FF's output at text tokens."""
    text = finding(3)
    for run, written in (
        ("smollm2-sst2", "({:.1f}-{:.1f}, SST-2;"),
        ("smollm2-wikitext2-vectors", "2 {:.1f}-{:.1f});"),
    ):
        ratio = table(run, "norms_norms").query("tokens != 'all'").ratio
        large = ratio[ratio > 2]
        assert len(large) == 28 and "yes in 28 of 30 layers" in text
        assert written.format(large.min(), large.max()) in text


def test_finding_4_outliers() -> None:
    """Rank correlations with the next norm's gain."""
    text = finding(4)
    small, large = (table(f"{model}-sst2", "outliers_correlation").query("of == 'output'").spearman for model in MODELS)
    assert ", ".join(f"{value:.2f}" for value in small) in text
    assert f"{large.iloc[0]:.2f} in layer 0 and {large.iloc[22]:.2f} in layer 22" in text
    assert f"up to +{large.max():.2f} in layer {large.argmax()}" in text
    other = table("smollm2-wikitext2-vectors", "outliers_correlation").query("of == 'output'").spearman
    assert f"{(large >= 0).sum()} of 30 layers not negative on SST-2, {(other >= 0).sum()} on WikiText-2" in text


def test_finding_5_ignored_dimensions() -> None:
    """Change by FF with and without the dimensions of smallest gain."""
    text = finding(5)
    for model, layers, digits in (("minilm", (5, 4, 0, 1, 2, 3), 3), ("smollm2", (1, 28, 29), 3)):
        wide = table(f"{model}-sst2-ignored", "outliers_ignored").pivot(
            index="layer", columns="dimensions", values="change"
        )
        for layer in layers:
            one, two = (f"{wide.loc[layer, name]:.{digits}f}" for name in ("all", "without smallest gains"))
            assert f"{one} to {two} in layer {layer}" in text or f"{one} → {two}" in text
    assert percent((wide["without smallest gains"] / wide["all"]).median()) in text
    assert f"{wide.loc[10, 'all']:.3f} → {wide.loc[10, 'without random']:.3f}" in text


def test_finding_6_subwords_and_expressions() -> None:
    """Shares among the most amplified pairs, layer by layer, and among all."""
    text = finding(6)
    share = subwords("minilm-sst2").map(percent)
    first, second, third = (share[f"layer {n}"] for n in range(3))
    assert f"{first} are subwords of one word in layer 0, {second} in layer 1, {third} in layer 2" in text
    assert f"{share['random']} of all pairs and {share['adjacent random']} of adjacent pairs are" in text
    share = subwords("minilm-wikitext2").map(percent)
    assert f"WikiText-2: {share['layer 0']} in layer 0, {share['layer 1']} in layer 1" in text
    assert f"{share['random']} of all pairs and {share['adjacent random']} of adjacent pairs are subwords" in text
    share = subwords("smollm2-sst2").map(percent)
    assert f"{share['layer 1']} in layer 1, {share['layer 2']} in layer 2, {share['layer 3']} in layer 3" in text
    assert (
        f"{share['layer 4']} in layer 4, and again {share['layer 12']} in layer 12 and {share['layer 16']} in layer 16"
        in text
    )
    share = subwords("smollm2-wikitext2").map(percent)
    assert ", ".join(share[f"layer {n}"] for n in range(1, 7)) + " in layers 1 to 6" in text
    assert (
        f"{share['layer 12']} in layer 12, {share['layer 16']} in layer 16 and {share['layer 19']} in layer 19" in text
    )
    gold = (
        table("minilm-streusle", "amplification_shares")
        .query("category == 'within an expression'")
        .set_index("pairs")
        .share
    )
    layers = [percent(gold[f"layer {n}"]) for n in (0, 1, 2, 4)]
    assert f"{layers[0]}, {layers[1]}, {layers[2]} and {layers[3]} of the top pairs in layers 0, 1, 2 and 4" in text
    assert f"against {percent(gold['random'])} of all pairs and {percent(gold['adjacent random'])} of adjacent" in text


def test_finding_7_mutual_information() -> None:
    """The extremes of the rank correlations over units, layers and corpora."""
    for model, corpora in (("MiniLM", ("sst2", "wikitext2", "streusle")), ("SmolLM2", ("sst2", "wikitext2"))):
        found = pd.concat([table(f"{model.lower()}-{corpus}", "amplification_pmi").spearman for corpus in corpora])
        assert f"between {found.min():.2f} and +{found.max():.2f} in" in finding(7)
        assert model in finding(7)
