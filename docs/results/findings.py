"""The blocks of README.md, from the tables beside it: the samples, then finding by finding."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd

from docs.markdown import claim, number, percent, table
from docs.results import methods_tables
from tl_ffblock.experiments.kobayashi import replication
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


def beside_the_paper() -> str:
    """Every number of the paper's text beside those of the stored runs; pairs of Tab. 1-3 are under finding 6."""
    runs = {(run.split("-")[0], CORPUS[run.split("-")[1]]): _all_of(run) for run in RUNS}
    runs["smollm2", "wikipedia"] |= _all_of("smollm2-wikitext2-vectors")
    runs["minilm", "sst2"] |= _all_of("minilm-methods")
    runs["minilm", "sst2"]["outliers_ignored"] = stored("minilm-sst2-ignored", "outliers_ignored").assign(cells="all")
    compared = replication.compared(runs)
    numbers = compared[~compared["what"].str.startswith("most amplified pairs")]
    rows = [
        [row.place, row.what, MODELS[row.model], row.corpus, row.measured, row.paper, row.paper_of]
        for row in numbers.itertuples()
    ]
    return table(["place", "what", "model", "data", "here", "paper", "paper's models"], rows)


CORPUS = {"sst2": "sst2", "wikitext2": "wikipedia"}
"""Name of each corpus in the paper's comparison."""


def _all_of(run: str) -> dict[str, pd.DataFrame]:
    """All tables of a run."""
    return {
        path.stem: pd.read_csv(path, keep_default_na=False, na_values=["", "nan"])
        for path in (FOLDER / run).glob("*.csv")
    }


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


def _of(model: str, runs: Sequence[str]) -> list[str]:
    return [run for run in runs if run.startswith(model)]


def _and(values: Iterable[float], write: Callable[[float], str]) -> str:
    """Numbers of the corpora, in their order."""
    return " and ".join(write(value) for value in values)


def _left(run: str, before: str, component: str) -> "pd.Series[float]":
    """What is left of the change by the feed-forward, by layer."""
    rows = _changes(run, "contextualization_cumulative").query("before == @before")
    wide = rows.pivot(index="layer", columns="component", values="change")
    return wide[component] / wide["+FF"]


def said_of_what_is_left() -> str:
    """Finding 2 in words."""
    minilm, smollm2 = _of("minilm", RUNS), _of("smollm2", RUNS)
    residual, norm = ([_left(run, "Atb", component) for run in minilm] for component in ("+RES", "+LN"))
    left = [_left(run, "AtbLn", "+LN") for run in smollm2]
    again = sum(int((ln > res).sum()) for ln, res in zip(norm, residual, strict=True))
    return claim(
        "**Partly.** In MiniLM the residual connection undoes part of the change in every layer: in the median layer "
        f"{_and((of.median() for of in residual), percent)} of it are left (SST-2 and WikiText-2). The norm alone changes the map again in "
        f"{again} of {sum(map(len, norm))} layers of the two corpora; the picture of the paper is clear in the last layer only, where "
        f"{_and((of.iloc[-1] for of in norm), percent)} are left. In SmolLM2 it depends on where the change is measured from: after the "
        f"next norm, {_and((of.median() for of in left), percent)} of the feed-forward's own change remain.",
        all((of < 1).all() and of.median() < 0.5 for of in residual),
        again > sum(map(len, norm)) / 2,
        all(of.iloc[-1] < 1 / 3 < of.iloc[:-1].min() for of in norm),
        all(of.median() < 0.5 for of in left),
    )


def details_of_what_is_left() -> str:
    """Finding 2 by model."""
    minilm, smollm2 = _of("minilm", RUNS), _of("smollm2", RUNS)
    norm = [_left(run, "Atb", "+LN") for run in minilm]
    whole, own, after = (
        [_left(run, before, component) for run in smollm2]
        for before, component in (("Atb", "+RES"), ("AtbLn", "+RES"), ("AtbLn", "+LN"))
    )
    fewer = " and ".join(f"{int((of < 1).sum())} of {len(of)}" for of in after)
    return claim(
        f"MiniLM: in the first layer {_and((of[0] for of in norm), percent)} of the change are left after the LN, in layer 4 more than "
        f"all of it ({_and((of[4] for of in norm), percent)}). SmolLM2: measured from before the norm (`Atb`), "
        f"{_and((of.median() for of in whole), percent)} of the change by norm and FF are left after the residual, because the bypass is "
        "large. Measured from before FF (`AtbLn`), the residual does not undo the change by FF "
        f"({_and((of.median() for of in own), percent)} are left in the median layer): it restores what the norm before FF had changed. "
        f"After the next norm less is left than the change by FF in {fewer} layers. The last columns say how much single sequences "
        "scatter, and how well the mean is known.",
        all(of[0] > 0.8 and of[4] > 1 for of in norm),
        all(of.median() < 0.1 for of in whole),
        all(of.median() > 0.9 for of in own),
        all((of < 1).mean() > 0.8 for of in after),
    )


def _by_place(run: str) -> pd.DataFrame:
    return stored(run, "bypass_norms").set_index(["tokens", "layer"])


def _times(run: str, place: str, vector: str) -> "pd.Series[float]":
    """Mean norm at a place over that at text, by layer."""
    norms = _by_place(run)
    return norms.loc[place, vector] / norms.loc["not special", vector]


def said_of_bypass() -> str:
    """Finding 3 in words."""
    minilm, smollm2 = _of("minilm", WITH_VECTORS), _of("smollm2", WITH_VECTORS)
    text = {run: _ratios(_by_place(run))["text"] for run in WITH_VECTORS}
    above = _and(((text[run] > 2).sum() for run in smollm2), str)
    first = {run: _times(run, "first", "branch") for run in smollm2}
    (layer,) = {int(times.idxmax()) for times in first.values()}
    return claim(
        f"**In the early layers of MiniLM and in {above} of SmolLM2's {len(text[smollm2[0]])} layers, at text tokens.** In the last two "
        "layers of MiniLM the feed-forward's output is larger than the bypass, the output of the attention block that skips the "
        f"feed-forward. Means over all tokens say little: at the first token of SmolLM2 the feed-forward of layer {layer} writes a vector "
        f"{_and((times.max() for times in first.values()), _two_places)} times as long as at text (SST-2 and WikiText-2).",
        all((text[run][:3] > 2).all() and (text[run][4:] < 1).all() for run in minilm),
        all({*text[run].index[text[run] <= 2]} == {0, 29} for run in smollm2),
        all(times.max() > 100 for times in first.values()),
    )


def details_of_bypass() -> str:
    """Finding 3 by model and place."""
    minilm, smollm2 = _of("minilm", WITH_VECTORS), _of("smollm2", WITH_VECTORS)
    ratios = {run: _ratios(_by_place(run)) for run in WITH_VECTORS}
    cls, sep, mask = (
        [_times(run, place, "branch") for run in minilm] for place in ("first", "special last", "special in between")
    )
    bypass = [_times(run, "first", "bypass") for run in smollm2]
    (large,) = {_runs([*of.index[of > 100]]) for of in bypass}
    everywhere = [ratios[run]["all"] for run in minilm]
    return claim(
        "MiniLM, at text tokens: above 2 in the first layers (in layer 3 on SST-2 only), below 1 in layers 4 and 5. Over all tokens it is "
        f"above 2 in {_and(((of > 2).sum() for of in everywhere), str)} layers (SST-2 and WikiText-2). The reason is [CLS] alone: without "
        f"it the ratios are nearly those of text. FF's output there is {min(of[:4].min() for of in cls):.0f} to "
        f"{max(of[:4].max() for of in cls):.0f} times that at text in layers 0 to 3. At [SEP] it is less than twice as large, and at "
        "[MASK], except in layer 0, smaller (second table).\n"
        "SmolLM2: below 2 in the first layer, where the residual stream has only the embedding, and in the last. The vector that FF writes "
        f"at the first token in layer 11 is in the bypass from layer 12 on: more than a hundred times that at text in layers {large}, and "
        f"still {_and((of.iloc[-1] for of in bypass), _two_places)} times in the last. More than half of the sum over all tokens is then "
        "that one token's (last columns).",
        [bool(ratios[run]["text"][3] > 2) for run in minilm] == [True, False],
        all((abs(ratios[run]["all but the first"] / ratios[run]["text"] - 1) < 0.15).all() for run in minilm),
        all((of < 2).all() for of in sep) and all((of[1:] < 1).all() for of in mask),
    )


def _gain(run: str, measure: str) -> "pd.Series[float]":
    """Correlation of FF's output with the next norm's gain, by layer."""
    return stored(run, "outliers_correlation").query("of == 'output'").set_index("layer")[measure]


def _small_gains(run: str) -> list[int]:
    """Layers in which the gain of FF's largest dimension is among the smallest twentieth."""
    largest = stored(run, "outliers_largest").query("output_rank == 1").set_index("layer")
    return [*largest.index[largest["gain_rank"] <= largest["dimensions"] / 20]]


def said_of_outliers() -> str:
    """Finding 4 in words."""
    minilm, smollm2 = _of("minilm", WITH_VECTORS), _of("smollm2", WITH_VECTORS)
    spearman, pearson = ([_gain(run, measure) for run in smollm2] for measure in ("spearman", "pearson"))
    small = [_small_gains(run) for run in smollm2]
    return claim(
        "**Holds in every layer of MiniLM, not in SmolLM2 in general.** There the correlation of output and gain is clear in layer 0 "
        f"(Spearman's rho {_and((of[0] for of in spearman), _signed)}, SST-2 and WikiText-2) and present in layer 22 (Pearson's r "
        f"{_and((of[22] for of in pearson), _signed)}). It is not negative in {_and(((of >= 0).sum() for of in spearman), str)} of "
        f"{len(spearman[0])} layers. Of the single largest dimension more is true: in {_and(map(len, small), str)} of SmolLM2's layers its "
        "gain is among the smallest 5 %.",
        all((_gain(run, measure) < 0).all() for run in minilm for measure in ("spearman", "pearson")),
        all(of[0] < -0.8 for of in spearman) and all(of.idxmin() == 22 for of in pearson),
        all((of >= 0).mean() > 0.5 for of in (*spearman, *pearson)),
        all(len(layers) >= len(of) / 3 for layers, of in zip(small, spearman, strict=True)),
        all(len(_small_gains(run)) == 6 for run in minilm),
    )


def _changed(run: str) -> pd.DataFrame:
    """The part of the change by FF that is left without dimensions, [layer, which]."""
    wide = stored(run, "outliers_ignored").pivot(index="layer", columns="dimensions", values="change")
    return wide.div(wide["all"], axis=0)


SMALLEST, SMALLEST_AFTER, LARGEST = (
    "without smallest gains",
    "without smallest gains, after FF only",
    "without largest others",
)


def said_of_ignored() -> str:
    """Finding 5 in words."""
    minilm, smollm2 = _changed("minilm-sst2-ignored"), _changed("smollm2-sst2-ignored")
    return claim(
        "**Holds for MiniLM where the feed-forward changes most, not for SmolLM2.** Without the four dimensions of smallest gain, "
        f"{percent(minilm[SMALLEST][4])} and {percent(minilm[SMALLEST][5])} of the change are left in the last two layers of MiniLM; "
        "without as many random or large dimensions it does not change. In SmolLM2 "
        f"{percent(smollm2[SMALLEST].median())} are left in the median layer.",
        minilm[SMALLEST][4:].max() < 0.2,
        (abs(minilm[[LARGEST, "without random"]] - 1) < 0.05).all(axis=None),
        abs(smollm2[SMALLEST].median() - 1) < 0.02,
    )


def details_of_ignored() -> str:
    """Finding 5 by layer."""
    minilm, smollm2 = _changed("minilm-sst2-ignored"), _changed("smollm2-sst2-ignored")
    lost = [*smollm2.index[smollm2[SMALLEST] < 7 / 8]]
    gained = [*smollm2.index[smollm2[SMALLEST] > 9 / 8]]
    late = smollm2[LARGEST][3:]
    rows = stored("smollm2-sst2", "outliers_largest").query("gain < 0").nsmallest(1, "gain").iloc[0]
    return claim(
        f"MiniLM, without the 4 of 384 dimensions of smallest gain: {percent(minilm[SMALLEST][0])} of the change by FF are left in layer "
        "0; in layers 1 to 3, where it is small, more than half. The controls change next to nothing: neither 4 random dimensions nor the "
        "4 that are largest in FF's output among the others. These include the largest of all in layers 2 and 3 (finding 4); in the other "
        "layers that one is among those of smallest gain, so size and gain cannot be told apart there.\n"
        f"SmolLM2, without the 6 of 576 dimensions of smallest gain: only layer {_runs(lost)} loses more than an eighth. Smallest is meant "
        f"in size, where the paper takes the lowest values. The two differ if a gain is negative, as one of {number(rows['gain'])} in "
        "layer "
        f"{int(rows['layer'])}. Layers {_runs(gained)} gain if the dimensions are omitted from the map before FF too; if they are omitted "
        f"after FF only, they do not. Without the 6 largest others {percent(smollm2[LARGEST][2])} are left in layer 2, less than 80 % in "
        f"layers {_runs([*late.index[late < 0.8]])}, and layers {_runs([*late.index[late > 9 / 8]])} gain. Layer 10 changes without random "
        "dimensions too, because the largest one, 507, was drawn there.",
        minilm[SMALLEST][1:4].min() > 0.5,
        (abs(minilm[[LARGEST, "without random"]] - 1) < 0.05).all(axis=None),
        lost == [1],
        (abs(smollm2[SMALLEST_AFTER][gained] - 1) < 1 / 8).all(),
        [*smollm2.index[smollm2["without random"] < 7 / 8]] == [10],
    )


SUBWORDS, EXPRESSION = "subwords of one word", "within an expression"


def _kind(run: str, category: str, occurrences: int = 2) -> "pd.Series[float]":
    """Share of a kind among the most amplified pairs, by layer; `random` is that of all pairs."""
    shares = stored(run, "amplification_shares").query("category == @category and occurrences == @occurrences")
    return shares.set_index("pairs")["share"].rename(lambda name: name.removeprefix("layer "))


def said_of_pairs() -> str:
    """Finding 6 in words."""
    first = [_kind(run, SUBWORDS) for run in WITH_PAIRS[:2]]
    later = [_kind(run, SUBWORDS) for run in WITH_PAIRS[3:]]
    often = [_kind(run, SUBWORDS, 5) for run in WITH_PAIRS]
    gold = [_kind("minilm-streusle", EXPRESSION, occurrences).filter(regex=r"^\d+$") for occurrences in (2, 3, 5)]
    twice = [stored(run, "amplification_top_pairs")["count"].median() for run in WITH_PAIRS]
    return claim(
        "**Holds for pairs as the paper counts them, met at least twice.** Of the 50 most amplified pairs in MiniLM's layer 0, "
        f"{_and((of['0'] for of in first), percent)} are subwords of one word (SST-2 and WikiText-2); in SmolLM2 this begins in layer 1 "
        f"({_and((of['1'] for of in later), percent)}). Most of these pairs occur just twice, and among pairs that occur five times or "
        f"more subwords are fewer. Multi-word expressions are most frequent in layer 1 ({percent(gold[0]['1'])}).",
        all(of["0"] > 0.5 for of in first),
        all(of["0"] < 0.005 < 0.5 < of["1"] for of in later),
        all(median == 2 for median in twice),
        all(of[layer] < _kind(run, SUBWORDS)[layer] for run, of in zip(WITH_PAIRS, often, strict=True) for layer in "01"
            if _kind(run, SUBWORDS)[layer] > 0),
        all(of.idxmax() == "1" for of in gold),
    )  # fmt: skip


def details_of_pairs() -> str:
    """Finding 6 by corpus and layer."""
    sst2, wikitext2 = (_kind(run, SUBWORDS, 5) for run in WITH_PAIRS[:2])
    pairs = [stored(run, "amplification_shares").query("pairs == 'random' and occurrences == 5")["number"].max()
             for run in WITH_PAIRS[:2]]  # fmt: skip
    same = {run: _kind(run, "same token").filter(regex=r"^\d+$") for run in WITH_PAIRS}
    neighbours = [_kind(run, "adjacent")["0"] for run in WITH_PAIRS[3:]]
    many = [
        _runs(sorted(int(layer) for layer, share in _kind(run, SUBWORDS).filter(regex=r"^\d+$").items() if share > 0.4))
        for run in WITH_PAIRS[3:]
    ]
    gold, chance = _kind("minilm-streusle", EXPRESSION), _kind("minilm-streusle", EXPRESSION)["adjacent random"]
    others = gold.filter(regex=r"^[02345]$").max()
    return claim(
        f"MiniLM: among pairs that occur five times or more, {percent(sst2['0'])} of layer 0 are subwords on SST-2, and "
        f"{percent(wikitext2['0'])} on WikiText-2, which has {pairs[1] / pairs[0]:.0f} times as many such pairs (second table). Neighbours "
        'follow in layer 1 ("so far", "next morning"), repetitions of the same piece in layer 2 '
        f"({_and((same[run]['2'] for run in WITH_PAIRS[:2]), percent)}). With gold expressions (STREUSLE) layer 1 has most of them "
        f'("as well", "by far"); in the other layers they are at most {percent(others)} of 50 pairs, against {percent(chance)} of '
        "adjacent pairs, which is little evidence.\n"
        f"SmolLM2: in layer 0 there are no subwords; {_and(neighbours, percent)} are neighbours there (SST-2 and WikiText-2). Subwords are "
        f'more than 40 % in layers {many[0]} on SST-2 and {many[1]} on WikiText-2 ("sound track", "Har ry"). Repetitions are most '
        f"frequent in layers 8 ({percent(same['smollm2-wikitext2']['8'])}) and 14 ({percent(same['smollm2-wikitext2']['14'])}) of "
        "WikiText-2.",
        all(same[run].idxmax() == "2" for run in WITH_PAIRS[:2]),
        {*same["smollm2-wikitext2"].nlargest(2).index} == {"8", "14"},
    )


def _mutual(occurrences: int) -> pd.DataFrame:
    """Rank correlations of amplification and mutual information of all runs: run, unit, layer, spearman."""
    every = pd.concat([stored(run, "amplification_pmi").assign(run=run) for run in WITH_PAIRS], ignore_index=True)
    return every[every["occurrences"] == occurrences]


def said_of_mutual_information() -> str:
    """Finding 7 in words."""
    of_all, often = _mutual(2)["spearman"], _mutual(20)["spearman"]
    return claim(
        "**Holds in substance.** Over all pairs, rank correlations of amplification and mutual information are weak in all layers of both "
        f"models, for windows, sentences and articles: from {_signed(of_all.min())} to {_signed(of_all.max())}. Over pairs met 20 times "
        "and "
        f"more they are from {_signed(often.min())} to {_signed(often.max())}. Mutual information is of the run's own texts here, of a "
        "Wikipedia dump in the paper.",
        of_all.abs().max() < 0.25,
        often.abs().max() < 0.5,
    )


def details_of_mutual_information() -> str:
    """Finding 7 by corpus."""
    often = _mutual(20)
    most, least = (often.loc[often["spearman"].idxmax()], often.loc[often["spearman"].idxmin()])
    early = often.query("run == 'minilm-wikitext2'")
    return claim(
        "Mutual information is not the paper's, which counts on a Wikipedia dump in articles, sentences and chunks of 512 tokens: here it "
        "is of the run's own texts, in windows of 10 tokens, and in SST-2 every line is its own article. Where MiniLM reads a mask, the "
        "token that stood there is counted, as in the paper (`--pmi-masked dropped` omits it). Of pairs met twice both numbers are noisy, "
        "which alone pulls a correlation to zero. Among those met 20 times and more the largest is "
        f"{_signed(most['spearman'])}, in layer {most['layer']} of MiniLM on SST-2 ({most['unit']}s), not on WikiText-2 (at most "
        f"{_signed(early['spearman'].max())}). The least is {_signed(least['spearman'])}, in layer {least['layer']} of SmolLM2 on "
        f"WikiText-2 ({least['unit']}s): pairs that are often near are amplified less there.",
        most["run"] == "minilm-sst2" and least["run"] == "smollm2-wikitext2",
        early["spearman"].max() < 0.2,
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "samples": samples,
    "beside-the-paper": beside_the_paper,
    "finding-1-said": said_of_changes,
    "finding-1": change_by_layer,
    "finding-2-said": said_of_what_is_left,
    "finding-2-details": details_of_what_is_left,
    "finding-2": what_is_left,
    "finding-3-said": said_of_bypass,
    "finding-3-details": details_of_bypass,
    "finding-3": bypass,
    "finding-3-places": places,
    "finding-4-said": said_of_outliers,
    "finding-4": outliers,
    "finding-4-largest": largest_dimension,
    "finding-5-said": said_of_ignored,
    "finding-5-details": details_of_ignored,
    "finding-5": ignored_dimensions,
    "finding-6-said": said_of_pairs,
    "finding-6-details": details_of_pairs,
    "finding-6": kinds_of_pairs,
    "finding-6-occurrences": kinds_by_occurrences,
    "finding-7-said": said_of_mutual_information,
    "finding-7-details": details_of_mutual_information,
    "finding-7": mutual_information,
    "between-layers-said": said_of_layers,
    "between-layers": between_layers,
    **methods_tables.BLOCKS,
}
