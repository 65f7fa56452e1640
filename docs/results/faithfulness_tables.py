"""The blocks of faithfulness.md, from the CSV files beside it."""

from pathlib import Path
from statistics import NormalDist

import pandas as pd

from docs.markdown import number, table

FOLDER = Path(__file__).resolve().parent
SETS = {
    "sva": "agreement",
    "ioi": "indirect objects",
    "known": "facts",
    "wikitext": "WikiText, 12 tokens",
    "wikitext64": "WikiText, 64",
    "wikitext128": "WikiText, 128",
    "sst2": "sentiment, MiniLM",
}
REFERENCES = ("leave one out", "random", "recency")
OURS = "path"


def stored(name: str = "faithfulness") -> pd.DataFrame:
    """A table; where a number is missing it has NaN, where a name is missing an empty one."""
    numbers = {column: ["", "nan"] for column in ("mean", "low", "high", "n")}
    return pd.read_csv(FOLDER / f"{name}.csv", keep_default_na=False, na_values=numbers)


def _chosen(everything: pd.DataFrame, measure: str, removal: str | None) -> pd.DataFrame:
    rows = everything[everything["measure"] == measure]
    return rows if removal is None else rows[rows["removal"] == removal]


def _cell(row: "pd.Series[float] | None", usual: int | None = None) -> str:
    """Mean and interval; with the number of prompts where that is not the usual one."""
    if row is None:
        return "–"
    mean, low, high = (float(row[name]) for name in ("mean", "low", "high"))
    said = number(mean) if low != low else f"{number(mean)} [{number(low)}, {number(high)}]"
    return said if usual in (None, int(row["n"])) else f"{said} (n = {int(row['n'])})"


def _by_set(measure: str, removal: str, *, references: tuple[str, ...] = REFERENCES) -> str:
    """Methods by sets, the best in the mean over sets first, the references last."""
    rows = _chosen(stored(), measure, removal)
    if not len(rows):
        return "No prompt has been run."
    sets = [name for name in SETS if name in set(rows["set"])]
    cells = {(row["set"], row["method"]): row for _, row in rows.iterrows()}
    counts = {name: int(rows[rows["set"] == name]["n"].max()) for name in sets}
    means = {m: [float(cells[s, m]["mean"]) for s in sets if (s, m) in cells] for m in rows["method"].unique()}
    ordered = sorted((m for m in means if m not in REFERENCES), key=lambda m: -sum(means[m]) / len(means[m]))
    lines = [
        [
            m,
            *(_cell(cells.get((s, m)), counts[s]) for s in sets),
            number(sum(means[m]) / len(means[m])) if len(means[m]) == len(sets) else "–",
        ]
        for m in [*ordered, *(m for m in references if m in means)]
    ]
    return table(["method", *(f"{SETS[s]} (n = {counts[s]})" for s in sets), "mean"], lines)


def correlation() -> str:
    """Rank correlation with leaving one token out, by a mask."""
    return _by_set("correlation", "mask", references=("random", "recency"))


def area() -> str:
    """Area between the curves, by a mask."""
    return _by_set("area", "mask")


def correlation_mean() -> str:
    """Rank correlation, by the mean embedding."""
    return _by_set("correlation", "mean", references=("random", "recency"))


def cause() -> str:
    """Reciprocal rank of the known cause."""
    return _by_set("cause", "mask")


def against() -> str:
    """How far `path` is ahead of every other method, and where it is behind for certain."""
    rows = _chosen(stored("faithfulness_differences"), "correlation", "mask")
    rows = rows[rows["method"] != "leave one out"]
    sets = [name for name in SETS if name in set(rows["set"])]
    cells = {(row["set"], row["method"]): row for _, row in rows.iterrows()}
    lines, behind, ahead, compared = [], [], 0, 0
    kept = _corrected(rows)
    for method in rows["method"].unique():
        line = [method]
        for name in sets:
            row = cells.get((name, method))
            line.append(_difference(row))
            if row is not None:
                compared += 1
                ahead += row["low"] > 0
                behind += [f"{method} on {SETS[name]}"] * bool(row["high"] < 0)
        lines.append(line)
    named = f": {'; '.join(behind)}" if behind else ""
    said = (
        f"Of {compared} differences {ahead} have an interval above zero, {len(behind)} one below zero{named}. With Bonferroni's "
        f"correction for their number, from the widths of the intervals as if normal, it would be {kept[0]} and {kept[1]}."
    )
    return f"{table(['`path` minus', *(SETS[name] for name in sets)], lines)}\n\n{said}"


def _corrected(rows: pd.DataFrame) -> tuple[int, int]:
    """How many differences would be above zero, and below, with intervals for all of them together."""
    normal = NormalDist()
    error = (rows["high"] - rows["low"]) / (2 * normal.inv_cdf(0.975))
    limit = normal.inv_cdf(1 - 0.025 / len(rows)) * error
    return int((rows["mean"] > limit).sum()), int((rows["mean"] < -limit).sum())


def components() -> str:
    """Estimates of patching against patching."""
    if not (FOLDER / "faithfulness_components.csv").is_file():
        return "No pair has been run."
    rows = stored("faithfulness_components")
    measures = [name for name in rows["measure"].unique() if name != "seconds"]
    cells = {(row["estimate"], row["measure"]): row for _, row in rows.iterrows()}
    first = rows["estimate"].iloc[0]
    seconds = float(cells[first, "seconds"]["mean"])
    lines = [
        [e, *(_cell(cells[e, m]) for m in measures), number(float(cells[e, "seconds"]["mean"]) / seconds, 1)]
        for e in rows["estimate"].unique()
    ]
    pairs = int(rows["n"].max())
    return (
        f"{table(['estimate', *measures, 'time'], lines)}\n\n{pairs} pairs of one sentence, with other names: intervals are over names. "
        "Time is relative to the first row."
    )


def cost() -> str:
    """Times of methods in forward passes, medians over prompts."""
    everything = stored()
    rows, lengths = _chosen(everything, "cost", None), _chosen(everything, "tokens", None).set_index("set")
    sets = [name for name in SETS if name in set(rows["set"])]
    cells = {(row["set"], row["method"]): number(float(row["mean"]), 1) for _, row in rows.iterrows()}
    heads = [
        f"{SETS[s]} ({number(float(lengths.loc[s, 'low']), 0)} to {number(float(lengths.loc[s, 'high']), 0)} tokens)"
        for s in sets
    ]
    return table(["method", *heads], [[m, *(cells.get((s, m), "–") for s in sets)] for m in rows["method"].unique()])


def dev() -> str:
    """Candidates for a rule of our own on BLiMP, the best in the mean over both targets first."""
    rows = pd.read_csv(FOLDER / "faithfulness_dev.csv").query("removal == 'mask'")
    targets = list(dict.fromkeys(rows["target"]))
    cells = {(row["target"], row["candidate"]): row for _, row in rows.iterrows()}
    means = rows.groupby("candidate", sort=False)["mean"].mean().sort_values(ascending=False)
    lines = []
    for candidate, mean in means.items():
        line = [str(candidate)]
        for target in targets:
            row = cells[target, candidate]
            line += [_cell(row), _signed(*(float(row[f"difference{end}"]) for end in ("", " low", " high")))]
        lines.append([*line, number(mean, 3)])
    heads = [head for target in targets for head in (f"{target} (n = {int(rows['n'].max())})", "minus path")]
    return table(["candidate", *heads, "mean"], lines)


def rule() -> str:
    """Our rules, AttnLRP and `path` on the same prompts."""
    rows = stored("faithfulness_rule")
    names = {**SETS, "all": "all with AttnLRP"}
    sets = [name for name in names if name in set(rows["set"])]
    cells = {(row["set"], row["method"], row["minus"]): row for _, row in rows.iterrows()}
    counts = rows.groupby("set")["n"].max()
    lines = []
    for method, less in dict.fromkeys(zip(rows["method"], rows["minus"], strict=True)):
        of_sets = [cells.get((name, method, less)) for name in sets]
        numbers = [_cell(row) if not less else _difference(row) for row in of_sets]
        lines.append((bool(less), [f"{method} minus {less}" if less else method, *numbers]))
    heads = [f"{names[name]} (n = {int(counts[name])})" for name in sets]
    return table(["", *heads], [line for _, line in sorted(lines, key=lambda line: line[0])])


def _difference(row: "pd.Series[float] | None") -> str:
    return "–" if row is None else _signed(*(float(row[name]) for name in ("mean", "low", "high")))


def _signed(mean: float, low: float, high: float) -> str:
    return f"{number(mean, 2, '+')} [{number(low, 2, '+')}, {number(high, 2, '+')}]"


def sets() -> str:
    """How many prompts of which lengths have been run, and how good the direction of sentiment is."""
    everything = stored()
    lengths = _chosen(everything, "tokens", None).set_index("set")
    lines = [
        [SETS[name], number(float(row["n"]), 0), f"{number(float(row['low']), 0)} to {number(float(row['high']), 0)}"]
        for name, row in ((name, lengths.loc[name]) for name in SETS if name in lengths.index)
    ]
    accuracy = _chosen(everything, "accuracy of the probe", None)["mean"].tolist()
    said = (
        f"\n\nAccuracy of the direction of sentiment on the other half: {number(float(accuracy[0]))}."
        if accuracy
        else ""
    )
    return table(["set", "prompts", "tokens"], lines) + said


BLOCKS = {
    "faithfulness-correlation": correlation,
    "faithfulness-against": against,
    "faithfulness-area": area,
    "faithfulness-mean": correlation_mean,
    "faithfulness-cause": cause,
    "faithfulness-components": components,
    "faithfulness-cost": cost,
    "faithfulness-dev": dev,
    "faithfulness-rule": rule,
    "faithfulness-sets": sets,
}
