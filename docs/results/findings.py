"""The blocks of README.md, from the tables beside it: the samples, then finding by finding."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from docs.markdown import claim, number, percent, table
from docs.results import methods_tables
from tl_ffblock.numerals import scientific

FOLDER = Path(__file__).resolve().parent
CORPORA = {"sst2": "SST-2", "wikitext2": "WikiText-2", "streusle": "STREUSLE"}
MODELS = {"minilm": "MiniLM", "smollm2": "SmolLM2"}
RUNS = ("minilm-sst2", "minilm-wikitext2", "smollm2-sst2", "smollm2-wikitext2")
FIRST_LAYERS = range(6)
"""Layers that have a column: all of MiniLM, the first of SmolLM2's thirty."""
LAYERS = tuple(f"{layer}" for layer in FIRST_LAYERS)
LATER = (6, 8, 12, 14, 16, 19)
"""Later layers of SmolLM2 whose most amplified pairs are of few kinds."""
NORMAL_95 = 1.96
"""Standard errors on either side of a mean."""
WITH_PAIRS = ("minilm-sst2", "minilm-wikitext2", "minilm-streusle", "smollm2-sst2", "smollm2-wikitext2")
"""Runs of the study of amplified pairs."""
WITH_VECTORS = ("minilm-sst2", "minilm-wikitext2", "smollm2-sst2", "smollm2-wikitext2-vectors")
"""Runs of the studies that read the model's vectors."""
WHAT = {
    "minilm-sst2": ("{}, all of SST-2 dev", "contextualization, amplification, bypass, outliers"),
    "minilm-sst2-ignored": ("first {} of SST-2 dev", "outliers with dimensions ignored"),
    "minilm-wikitext2": ("first {} of 1832 paragraphs", "contextualization, amplification, bypass, outliers"),
    "minilm-streusle": (
        "{}, all of STREUSLE dev",
        "contextualization, amplification with gold multi-word expressions",
    ),
    "smollm2-sst2": ("{}, all of SST-2 dev", "contextualization, amplification, bypass, outliers"),
    "smollm2-sst2-ignored": ("{} of SST-2 dev, seed 0", "outliers with dimensions ignored"),
    "smollm2-wikitext2": ("{} of 1832 paragraphs, seed 0", "contextualization, amplification"),
    "smollm2-wikitext2-vectors": ("first {} of 1832 paragraphs", "bypass, outliers"),
    "minilm-sst2-between": ("{}, all of SST-2 dev", "between-layers"),
    "smollm2-sst2-between": ("{} of SST-2 dev, seed 0", "between-layers"),
}
"""How each run's sample was drawn, and what was computed."""


def stored(run: str, name: str) -> pd.DataFrame:
    """One table of a run."""
    return pd.read_csv(FOLDER / run / f"{name}.csv")


def _titles(run: str) -> tuple[str, str]:
    model, corpus = run.split("-")[:2]
    return MODELS[model], CORPORA[corpus]


def _by_layer(values: pd.Series, write: Callable[[float], str]) -> list[str]:
    """Cells of the first layers; none where a run has no such layer, or no value for it."""
    return [write(values[layer]) if layer in values.index else "" for layer in FIRST_LAYERS]


def _signed(value: float) -> str:
    return number(value, 2, "+")


def _three(value: float) -> str:
    return f"{value:.3f}"


def _grouped(count: int) -> str:
    return f"{count:,}".replace(",", " ")


def _runs(layers: Sequence[int]) -> str:
    """Layers in order, neighbours joined: 0, 2-4."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and runs[-1][-1] == layer - 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _at_extremes(values: pd.Series, write: Callable[[float], str]) -> list[str]:
    """The least and the largest, each with its layer."""
    return [f"{write(values[layer])} ({layer})" for layer in (values.idxmin(), values.idxmax())]


def _changes(run: str, name: str) -> pd.DataFrame:
    rows = stored(run, name)
    return rows[rows["cells"] == ("reachable" if "reachable" in set(rows["cells"]) else "all")]


def samples() -> str:
    """What every run read, and the law of its vectors where it had maps."""
    rows = []
    for run, (sample, computed) in WHAT.items():
        summary = json.loads((FOLDER / run / "summary.json").read_text(encoding="utf-8"))
        assert not summary["failed"] and not summary["unreadable"], f"{run}: sequences were left out"
        missed = "" if summary["completeness"] is None else scientific(summary["completeness"])
        counts = (_grouped(summary["tokens"]), _grouped(summary["masked"]), str(summary["cut"]))
        rows.append([run, sample.format(summary["sequences"]), *counts, missed, computed])
    head = ["folder", "sequences", "tokens", "masked", "cut", "largest completeness error", "what"]
    return table(head, rows)


def change_by_layer() -> str:
    """Finding 1: change by the feed-forward and by the norm behind it."""
    rows = []
    for run in RUNS:
        changes = _changes(run, "contextualization_changes")
        behind = (changes["component"] == "LN") & changes["after"].str.endswith("FfResLn")
        for title, chosen in (("FF", changes["component"] == "FF"), ("next LN", behind)):
            change = changes[chosen].set_index("layer")["change"]
            rows.append([*_titles(run), title, *_by_layer(change, _three), _three(change.median())])
    return table(
        ["model", "data", "change by", *(f"layer {n}" if n == "0" else n for n in LAYERS), "median of all"], rows
    )


def said_of_changes() -> str:
    """Finding 1 in words, with what the paper's own definition gives."""
    minilm, smollm2 = ([run for run in RUNS if run.startswith(name)] for name in ("minilm", "smollm2"))
    reachable = {run: _by_ff(run, "reachable") for run in smollm2}
    whole = {run: _by_ff(run, "all") for run in smollm2}
    largest = " and ".join(_three(change.max()) for change in reachable.values())
    means, paper = (
        " and ".join(write(change.mean()) for change in by.values())
        for by, write in ((reachable, _three), (whole, _four))
    )
    return claim(
        "**1. FF and LN change the mixing most in particular layers (Fig. 3).** Holds for MiniLM: FF in the last layer and, less, in the "
        "one before; the LN after it in the same two layers. SmolLM2 has particular layers too, the early 0 and 2 and not the late ones. "
        f"In layer 0 its FF changes {largest} (SST-2 and WikiText-2), in later layers little: the mean over layers is {means}, over "
        "reachable cells. The paper's numbers are of whole maps, with their structural zeros, and not comparable with these: by that "
        f"definition SmolLM2's FF changes {paper}, where the paper reports about 0.15 of GPT-2. In most layers its FF changes "
        "less than the residual around it does.",
        all(list(_by_ff(run, "all").nlargest(2).index) == [5, 4] for run in minilm if "streusle" not in run),
        all(set(change.nlargest(2).index) == {0, 2} for change in reachable.values()),
        all(change.max() == change[0] for change in reachable.values()),
        all((change < _by_ff(run, "reachable", "RES")).mean() > 0.5 for run, change in reachable.items()),
    )


def _by_ff(run: str, cells: str, component: str = "FF") -> "pd.Series[float]":
    """The change by the feed-forward, or by the residual around it, by layer."""
    rows = stored(run, "contextualization_changes").query("cells == @cells and component == @component")
    return rows[rows["before"] != "Attn"].set_index("layer")["change"]


def _four(value: float) -> str:
    return f"{value:.4f}"


def what_is_left() -> str:
    """Finding 2: the change after FF, after the residual and after the norm, seen from before FF or before its norm."""
    rows = []
    for run in RUNS:
        changes = _changes(run, "contextualization_cumulative")
        for before in sorted(set(changes["before"])):
            rows_before = changes[changes["before"] == before]
            wide = rows_before.pivot(index="layer", columns="component", values="change")
            scatter = rows_before.pivot(index="layer", columns="component", values="deviation") / wide
            half_width = NORMAL_95 * scatter / rows_before["sequences"].max() ** 0.5
            for component in ("+FF", "+RES", "+LN"):
                last = ["", ""]
                if component != "+FF":
                    fewer = int((wide[component] < wide["+FF"]).sum())
                    last = [percent((wide[component] / wide["+FF"]).median()), f"{fewer} of {len(wide)}"]
                rows.append(
                    [
                        *(*_titles(run), f"`{before}`", component, *_by_layer(wide[component], _three), *last),
                        f"{scatter[component].median():.1f}",
                        f"± {percent(half_width[component].median())}",
                    ]
                )
    head = ["model", "data", "seen from", "up to", *LAYERS, "left of +FF, median", "less than +FF in"]
    head += ["deviation over mean, median", "95 % interval of the mean, median"]
    return table(head, rows)


def bypass() -> str:
    """Finding 3: mean norm of the bypass over that of FF's output."""
    rows = []
    for run in WITH_VECTORS:
        norms = stored(run, "bypass_norms")
        for title, ratio in _ratios(norms.set_index(["tokens", "layer"])).items():
            large = ratio[ratio > 2]
            between = f"{large.min():.1f}-{large.max():.1f}" if len(large) else ""
            cells = [
                *_by_layer(ratio, "{:.2f}".format),
                f"{ratio.iloc[-1]:.2f}",
                f"{len(large)} of {len(ratio)}",
                between,
            ]
            rows.append([*_titles(run), title, *cells])
    return table(["model", "data", "tokens", *LAYERS, "last layer", "above 2 in", "those"], rows)


def _ratios(norms: pd.DataFrame) -> dict[str, pd.Series]:
    """Bypass over FF's output of all tokens, of all but the first where special ones are left then, and of text."""
    every, first, text = (norms.loc[tokens] for tokens in ("all", "first", "not special"))
    branch, bypass = (
        every[vector] * every["count"] - first[vector] * first["count"] for vector in ("branch", "bypass")
    )
    ratios = {"all": every["ratio"], "all but the first": bypass / branch, "text": text["ratio"]}
    if (every["count"] - first["count"]).equals(text["count"]):
        del ratios["all but the first"]
    return ratios


def places() -> str:
    """Finding 3: mean norms at the first token, a special last one and masks, over those at text; their share of all."""
    names = {"first": "first token", "special last": "[SEP] at the end", "special in between": "[MASK]"}
    rows = []
    for run in WITH_VECTORS:
        norms = stored(run, "bypass_norms").set_index(["tokens", "layer"])
        for place, title in names.items():
            if place not in norms.index or not norms.loc[place, "count"].any():
                continue
            for vector, of in (("branch", "FF's output"), ("bypass", "bypass")):
                times = norms.loc[place, vector] / norms.loc["not special", vector]
                sums = norms[vector] * norms["count"]
                share = sums.loc[place] / sums.loc["all"]
                large, most = (_runs([*over.index[over]]) for over in (times > 100, share > 1 / 2))
                cells = [
                    *_by_layer(times, _two_places),
                    _two_places(times.iloc[-1]),
                    _at_extremes(times, _two_places)[1],
                ]
                rows.append([*_titles(run), title, of, *cells, large, _at_extremes(share, percent)[1], most])
    head = ["model", "data", "at", "norm of", *LAYERS, "last layer", "most (layer)", "above 100 in layers"]
    return table([*head, "share of the sum over all tokens, most (layer)", "more than half in layers"], rows)


def _two_places(times: float) -> str:
    return f"{times:.0f}" if times >= 10 else f"{times:.1f}"


def outliers() -> str:
    """Finding 4: correlation of FF's mean output with the next norm's gain, over dimensions."""
    rows = []
    for run in WITH_VECTORS:
        of_output = stored(run, "outliers_correlation").query("of == 'output'").set_index("layer")
        for measure in ("spearman", "pearson"):
            rho = of_output[measure]
            cells = [*_by_layer(rho, _signed), *_at_extremes(rho, _signed), f"{(rho >= 0).sum()} of {len(rho)}"]
            rows.append([*_titles(run), measure.capitalize(), *cells])
    return table(["model", "data", "", *LAYERS, "least (layer)", "most (layer)", "not negative in"], rows)


def largest_dimension() -> str:
    """Finding 4: where the gain of FF's largest dimension ranks among all gains by size, 1 the smallest."""
    rows = []
    for run in WITH_VECTORS:
        largest = stored(run, "outliers_largest").query("output_rank == 1").set_index("layer")
        rank, n_dimensions = largest["gain_rank"], largest["dimensions"].iloc[0]
        small = [*rank.index[rank <= n_dimensions / 20]]
        cells = [*_by_layer(rank, "{:.0f}".format), f"{n_dimensions}", f"{len(small)} of {len(rank)}"]
        rows.append([*_titles(run), *cells, _runs(small)])
    head = ["model", "data", *LAYERS, "of dimensions", "among the smallest 5 % in", "these layers"]
    return table(head, rows)


def ignored_dimensions() -> str:
    """Finding 5: change by FF without the dimensions of smallest gain, and without as many others."""
    rows = []
    for run in ("minilm-sst2-ignored", "smollm2-sst2-ignored"):
        ignored = stored(run, "outliers_ignored")
        wide = ignored.pivot(index="layer", columns="dimensions", values="change")
        for name in ignored["dimensions"].unique():
            left = wide[name] / wide["all"]
            moved = [layer for layer in wide.index if layer not in FIRST_LAYERS and abs(left[layer] - 1) > 1 / 8]
            later = ", ".join(f"{layer} ({percent(left[layer])})" for layer in moved)
            cells = [*_by_layer(wide[name], _three), percent(left.median()), later]
            rows.append([_titles(run)[0], name, *cells])
    head = ["model", "dimensions", *LAYERS, "left, median", "later layers that move by more than an eighth (left)"]
    return table(head, rows)


def kinds_of_pairs() -> str:
    """Finding 6: mean shares of occurrences, of the 50 most amplified pairs of a layer and of all and all adjacent pairs."""
    categories = ("subwords of one word", "adjacent", "same token", "within an expression")
    rows = []
    for run in WITH_PAIRS:
        shares = stored(run, "amplification_shares").query("occurrences == 2")
        shares = shares.pivot(index="pairs", columns="category", values="share")
        for category in categories:
            if shares[category].filter(like="layer").any():
                everything = [percent(shares[category][pairs]) for pairs in ("random", "adjacent random")]
                rows.append([*_titles(run), category, *_of_top_pairs(shares[category]), *everything])
    return table(["model", "data", "kind", *LAYERS, *map(str, LATER), "all pairs", "adjacent pairs"], rows)


def _of_top_pairs(shares: pd.Series) -> list[str]:
    """Cells of the layers that have a column."""
    pairs = [f"layer {layer}" for layer in (*FIRST_LAYERS, *LATER)]
    return [percent(shares[pair]) if pair in shares.index else "" for pair in pairs]


def kinds_by_occurrences() -> str:
    """Finding 6: the share of two kinds among the most amplified pairs, of pairs that occur more often."""
    rows = []
    for run in WITH_PAIRS:
        median = stored(run, "amplification_top_pairs")["count"].median()
        stored_shares = stored(run, "amplification_shares")
        for category in ("subwords of one word", "within an expression"):
            shares = stored_shares[stored_shares["category"] == category]
            if not shares["share"].any():
                continue
            for occurrences, of_count in shares.groupby("occurrences"):
                of_count = of_count.set_index("pairs")
                cells = [*_of_top_pairs(of_count["share"]), percent(of_count["share"]["random"])]
                titles = [*_titles(run), category, f"{occurrences}", _grouped(of_count["number"]["random"])]
                rows.append([*titles, *cells, f"{median:.0f}" if occurrences == 2 else ""])
    head = ["model", "data", "kind", "occurrences at least", "pairs", *LAYERS, *map(str, LATER), "all pairs"]
    return table([*head, "median occurrences of the ten first"], rows)


def mutual_information() -> str:
    """Finding 7: extremes of the rank correlation with pointwise mutual information, over layers."""
    rows = []
    for run in WITH_PAIRS:
        of_run = stored(run, "amplification_pmi")
        for (unit, occurrences), of_unit in of_run.groupby(["unit", "occurrences"], sort=False):
            extremes = _at_extremes(of_unit.set_index("layer")["spearman"], _signed)
            rows.append([*_titles(run), str(unit), f"{occurrences}", _grouped(of_unit["pairs"].max()), *extremes])
    head = ["model", "data", "occurs with in one", "occurrences at least", "pairs", "least (layer)", "most (layer)"]
    return table(head, rows)


def between_layers() -> str:
    """Changes of maps from layer to layer, of neighbours and of the two ends."""
    rows = []
    for run in ("minilm-sst2-between", "smollm2-sst2-between"):
        for scope, pairs in stored(run, "between-layers_pairs").groupby("scope", sort=False):
            near, far = pairs[pairs["steps"] == 1].set_index("layer")["change"], pairs.loc[pairs["steps"].idxmax()]
            far_apart = f"{_three(far['change'])} ± {_three(NORMAL_95 * far['deviation'] / far['sequences'] ** 0.5)}"
            rows.append([*_titles(run), f"`{scope}`", _three(near.median()), *_at_extremes(near, _three), far_apart])
    head = ["model", "data", "maps at", "to the next layer, median", "least (from layer)", "most (from layer)"]
    return table([*head, "first to last layer, 95 % interval of the mean"], rows)


def said_of_layers() -> str:
    """The same in words."""
    growing, most = [], {}
    for run in ("minilm-sst2-between", "smollm2-sst2-between"):
        for scope, pairs in stored(run, "between-layers_pairs").groupby("scope"):
            by_steps = pairs.groupby("steps")["change"].mean()
            growing.append(by_steps.corr(pd.Series(by_steps.index, by_steps.index), "spearman"))
            near = pairs[pairs["steps"] == 1].set_index("layer")["change"]
            most[run, scope] = near.nlargest(2 if run.startswith("minilm") else 1).index.tolist()
    minilm, smollm2 = (
        {tuple(sorted(layers)) for (run, _), layers in most.items() if run.startswith(name)} for name in MODELS
    )
    ((layer,),) = smollm2
    return claim(
        "Maps of two layers differ more the further apart the layers are, in both models and at both scopes. MiniLM's change most between "
        f"the first two layers and the last two, SmolLM2's from layer {layer} to {layer + 1}. Cells are those that a position can reach. "
        "Each map begins from its own layer's tokens, so that this is not the change within a layer.",
        min(growing) > 0.85,
        minilm == {(0, 4)},
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "samples": samples,
    "finding-1-said": said_of_changes,
    "finding-1": change_by_layer,
    "finding-2": what_is_left,
    "finding-3": bypass,
    "finding-3-places": places,
    "finding-4": outliers,
    "finding-4-largest": largest_dimension,
    "finding-5": ignored_dimensions,
    "finding-6": kinds_of_pairs,
    "finding-6-occurrences": kinds_by_occurrences,
    "finding-7": mutual_information,
    "between-layers-said": said_of_layers,
    "between-layers": between_layers,
    **methods_tables.BLOCKS,
}
