"""The blocks of README.md, from the tables beside it: one a finding, one for the samples and one for the methods."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd

from docs.markdown import number, percent, table

FOLDER = Path(__file__).resolve().parent
CORPORA = {"sst2": "SST-2", "wikitext2": "WikiText-2", "streusle": "STREUSLE"}
MODELS = {"minilm": "MiniLM", "smollm2": "SmolLM2"}
RUNS = ("minilm-sst2", "minilm-wikitext2", "smollm2-sst2", "smollm2-wikitext2")
FIRST_LAYERS = range(6)
"""Layers that have a column: all of MiniLM, the first of SmolLM2's thirty."""
LAYERS = tuple(f"{layer}" for layer in FIRST_LAYERS)
WITH_VECTORS = ("minilm-sst2", "minilm-wikitext2-vectors", "smollm2-sst2", "smollm2-wikitext2-vectors")
"""Runs of the studies that read the model's vectors."""
WHAT = {
    "minilm-sst2": ("{}, all of SST-2 dev", "contextualization, amplification, bypass, outliers"),
    "minilm-sst2-ignored": ("first {} of SST-2 dev", "outliers with dimensions ignored"),
    "minilm-wikitext2": ("first {} of 1832 paragraphs", "contextualization, amplification"),
    "minilm-wikitext2-vectors": ("first {} of 1832 paragraphs", "bypass, outliers"),
    "minilm-streusle": (
        "{}, all of STREUSLE dev",
        "contextualization, amplification with gold multi-word expressions",
    ),
    "smollm2-sst2": ("{}, all of SST-2 dev", "contextualization, amplification, bypass, outliers"),
    "smollm2-sst2-ignored": ("{} of SST-2 dev, seed 0", "outliers with dimensions ignored"),
    "smollm2-wikitext2": ("{} of 1832 paragraphs, seed 0", "contextualization, amplification"),
    "smollm2-wikitext2-vectors": ("first {} of 1832 paragraphs", "bypass, outliers"),
}
"""How each run's sample was drawn, and what was computed."""
COUNTED = {
    "minilm-wikitext2": (992, 105823),
    "minilm-streusle": (554, 6993),
    "smollm2-wikitext2": (128, 13588),
    "minilm-wikitext2-vectors": (992, 105823),
    "smollm2-wikitext2-vectors": (992, 108335),
}
"""Sequences and tokens as the runs printed them: of tokens, or of both, these runs' tables have no column."""


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


def _changes(run: str, name: str) -> pd.DataFrame:
    rows = stored(run, name)
    return rows[rows["cells"] == ("reachable" if "reachable" in set(rows["cells"]) else "all")]


def samples() -> str:
    """Sequences and tokens of every run."""
    rows = []
    for run, (sample, computed) in WHAT.items():
        found = {path.stem: pd.read_csv(path) for path in (FOLDER / run).glob("*.csv")}
        sequences = {int(rows["sequences"].max()) for rows in found.values() if "sequences" in rows}
        tokens = {int(found[name]["tokens"].max()) for name in ("outliers_correlation",) if name in found}
        counted = COUNTED.get(run)
        if counted is not None:
            assert sequences <= {counted[0]} and tokens <= {counted[1]}, f"{run}: {sequences}, {tokens}, {counted}"
            sequences, tokens = {counted[0]}, {counted[1]}
        (n_sequences,), (n_tokens,) = sequences, tokens
        rows.append([run, sample.format(n_sequences), f"{n_tokens:,}".replace(",", " "), computed])
    return table(["folder", "sequences", "tokens", "what"], rows)


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


def what_is_left() -> str:
    """Finding 2: the change after FF, after the residual and after the norm, seen from before FF or before its norm."""
    rows = []
    for run in RUNS:
        changes = _changes(run, "contextualization_cumulative")
        for before in sorted(set(changes["before"])):
            rows_before = changes[changes["before"] == before]
            wide = rows_before.pivot(index="layer", columns="component", values="change")
            scatter = rows_before.pivot(index="layer", columns="component", values="deviation") / wide
            for component in ("+FF", "+RES", "+LN"):
                last = ["", ""]
                if component != "+FF":
                    fewer = int((wide[component] < wide["+FF"]).sum())
                    last = [percent((wide[component] / wide["+FF"]).median()), f"{fewer} of {len(wide)}"]
                rows.append(
                    [
                        *(*_titles(run), f"`{before}`", component, *_by_layer(wide[component], _three), *last),
                        f"{scatter[component].median():.1f}",
                    ]
                )
    head = ["model", "data", "seen from", "up to", *LAYERS, "left of +FF, median", "less than +FF in"]
    head.append("deviation over mean, median")
    return table(head, rows)


def bypass() -> str:
    """Finding 3: mean norm of the bypass over that of FF's output."""
    rows = []
    for run in WITH_VECTORS:
        norms = stored(run, "bypass_norms")
        for tokens in ("all", "not special"):
            of_tokens = norms[norms["tokens"] == tokens]
            ratio = of_tokens.set_index("layer")["ratio"]
            large = ratio[ratio > 2]
            between = f"{large.min():.1f}-{large.max():.1f}" if len(large) else ""
            cells = [
                *_by_layer(ratio, "{:.2f}".format),
                f"{ratio.iloc[-1]:.2f}",
                f"{len(large)} of {len(ratio)}",
                between,
            ]
            rows.append([*_titles(run), "all" if tokens == "all" else "text", *cells])
    return table(["model", "data", "tokens", *LAYERS, "last layer", "above 2 in", "those"], rows)


def places() -> str:
    """Finding 3: mean norms at the first token, a special last one and masks, over those at text."""
    names = {"first": "first token", "special last": "[SEP] at the end", "special in between": "[MASK]"}
    rows = []
    for run in WITH_VECTORS:
        norms = stored(run, "bypass_norms").set_index(["tokens", "layer"])
        for place, title in names.items():
            if place not in norms.index or not norms.loc[place, "count"].any():
                continue
            for vector, of in (("branch", "FF's output"), ("bypass", "bypass")):
                times = norms.loc[place, vector] / norms.loc["not special", vector]
                large = [layer for layer in times.index if times[layer] > 100]
                between = f"{min(large)}-{max(large)}" if large else ""
                cells = [*_by_layer(times, _two_places), f"{times.max():.0f} ({times.idxmax()})", between]
                rows.append([*_titles(run), title, of, *cells, f"{times.iloc[-1]:.1f}"])
    head = ["model", "data", "at", "norm of", *LAYERS, "most (layer)", "above 100 in layers", "last layer"]
    return table(head, rows)


def _two_places(times: float) -> str:
    return f"{times:.0f}" if times >= 10 else f"{times:.1f}"


def outliers() -> str:
    """Finding 4: correlation of FF's mean output with the next norm's gain, over dimensions."""
    rows = []
    for run in WITH_VECTORS:
        of_output = stored(run, "outliers_correlation").query("of == 'output'").set_index("layer")
        for measure in ("spearman", "pearson"):
            rho = of_output[measure]
            extremes = [f"{_signed(rho[layer])} ({layer})" for layer in (rho.idxmin(), rho.idxmax())]
            cells = [*_by_layer(rho, _signed), *extremes, f"{(rho >= 0).sum()} of {len(rho)}"]
            rows.append([*_titles(run), measure.capitalize(), *cells])
    return table(["model", "data", "", *LAYERS, "least (layer)", "most (layer)", "not negative in"], rows)


def ignored_dimensions() -> str:
    """Finding 5: change by FF without the dimensions of smallest gain, and without as many others."""
    rows = []
    for run in ("minilm-sst2-ignored", "smollm2-sst2-ignored"):
        wide = stored(run, "outliers_ignored").pivot(index="layer", columns="dimensions", values="change")
        for name in sorted(wide, key=lambda dimensions: dimensions != "all"):
            left = wide[name] / wide["all"]
            later = [
                f"{layer}: {wide['all'][layer]:.3f} → {wide[name][layer]:.3f}"
                for layer in wide.index
                if layer not in FIRST_LAYERS and abs(left[layer] - 1) > 1 / 8
            ]
            cells = [*_by_layer(wide[name], _three), percent(left.median()), ", ".join(later)]
            rows.append([_titles(run)[0], name, *cells])
    head = ["model", "dimensions", *LAYERS, "left, median", "later layers that move by more than an eighth"]
    return table(head, rows)


def kinds_of_pairs() -> str:
    """Finding 6: mean shares of occurrences, of the 50 most amplified pairs of a layer and of all and all adjacent pairs."""
    more = (6, 12, 16, 19)
    categories = ("subwords of one word", "adjacent", "same token", "within an expression")
    rows = []
    for run in (*RUNS[:2], "minilm-streusle", *RUNS[2:]):
        table_of_run = stored(run, "amplification_shares")
        by_occurrences = "occurrences" in table_of_run
        shares = table_of_run.query("occurrences == 2") if by_occurrences else table_of_run
        shares = shares.pivot(index="pairs", columns="category", values="share")
        for category in categories:
            if not shares[category].filter(like="layer").any():
                continue
            pairs = [*(f"layer {layer}" for layer in (*FIRST_LAYERS, *more)), "random", "adjacent random"]
            cells = [percent(shares[category][pair]) if pair in shares.index else "" for pair in pairs]
            rows.append([*_titles(run), category, "share" if by_occurrences else "most frequent", *cells])
    return table(["model", "data", "kind", "counted by", *LAYERS, *map(str, more), "all pairs", "adjacent pairs"], rows)


def kinds_by_occurrences() -> str:
    """Finding 6: the share of subwords among the most amplified pairs, of pairs that occur more often."""
    rows = []
    for run in ("minilm-sst2", "minilm-streusle"):
        shares = stored(run, "amplification_shares").query("category == 'subwords of one word'")
        top = stored(run, "amplification_top_pairs")
        for occurrences, of_count in shares.groupby("occurrences"):
            of_count = of_count.set_index("pairs")
            cells = [
                percent(of_count["share"][f"layer {layer}"]) if f"layer {layer}" in of_count.index else ""
                for layer in FIRST_LAYERS
            ]
            median = f"{top['count'].median():.0f}" if occurrences == 2 else ""
            number_of_pairs = f"{of_count['number']['random']:,}".replace(",", " ")
            rows.append([*_titles(run), f"{occurrences}", number_of_pairs, *cells, median])
    head = ["model", "data", "occurrences at least", "pairs", *LAYERS, "median occurrences of the ten first"]
    return table(head, rows)


def mutual_information() -> str:
    """Finding 7: extremes of the rank correlation with pointwise mutual information, over layers."""
    rows = []
    for run in (*RUNS[:2], "minilm-streusle", *RUNS[2:]):
        of_run = stored(run, "amplification_pmi")
        of_run = of_run if "occurrences" in of_run else of_run.assign(occurrences=2)
        for (unit, occurrences), of_unit in of_run.groupby(["unit", "occurrences"], sort=False):
            rho, pairs = of_unit["spearman"], f"{of_unit['pairs'].max():,}".replace(",", " ")
            rows.append([*_titles(run), str(unit), f"{occurrences}", pairs, _signed(rho.min()), _signed(rho.max())])
    return table(["model", "data", "occurs with in one", "occurrences at least", "pairs", "least", "most"], rows)


def methods() -> str:
    """Other ways to share out the activation, against Integrated Gradients in closed form; then against exact Shapley values."""
    agreement, time = (
        stored("minilm-methods", "attribution-methods_agreement"),
        stored("minilm-methods", "attribution-methods_time"),
    )
    titles = {
        "ig": "closed form",
        "captum": "captum",
        "shapley": "exact Shapley",
        "sampling": "sampling",
        "kernel": "kernel",
    }
    rows = []
    for method, title in titles.items():
        of_method, cells = agreement[agreement["method"] == method].set_index("reference"), []
        for reference in ("ig", "shapley"):
            rho, distance = of_method.loc[reference, "map_rho"], of_method.loc[reference, "largest_difference"]
            cells += [f"{rho.mean():.3f} ({rho.min():.3f})", f"{distance.mean():.1%} ({distance.max():.1%})"]
        change = of_method.loc["ig"].set_index("layer")["change"]
        seconds = time[time["method"] == method].set_index("layer")["seconds"]
        cells += [f"{change.mean():.3f}", f"{change[0]:.2f}", f"{seconds.mean():.2f} ({seconds[1:].mean():.2f})"]
        rows.append([title, *(cell.replace("%", " %") for cell in cells)])
    head = ["method", "rank correlation with closed form, mean (least)", "largest distance from it, mean (most)"]
    head += ["rank correlation with Shapley", "largest distance from it", "change by FF", "in layer 0"]
    return table([*head, "seconds a layer (without the first)"], rows)


def seconds() -> str:
    """Seconds for all scopes and layers by length."""
    rows = stored("minilm-methods", "cost_time").to_dict("records")
    cells: Iterable[Sequence[str]] = (
        (
            f"{row['tokens']:.0f}",
            *(f"{row[name]:.1f}" if row[name] == row[name] else "" for name in ("maps", "forward", "captum")),
        )
        for row in rows
    )
    return table(["tokens", "maps, s", "model alone, s", "captum, s"], cells)


BLOCKS: dict[str, Callable[[], str]] = {
    "samples": samples,
    "finding-1": change_by_layer,
    "finding-2": what_is_left,
    "finding-3": bypass,
    "finding-3-places": places,
    "finding-4": outliers,
    "finding-5": ignored_dimensions,
    "finding-6": kinds_of_pairs,
    "finding-6-occurrences": kinds_by_occurrences,
    "finding-7": mutual_information,
    "methods": methods,
    "seconds": seconds,
}
