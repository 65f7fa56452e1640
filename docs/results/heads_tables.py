"""The blocks of heads.md, from the tables of two runs of `heads` and one of `probes` that lie beside it.

python docs/results/heads_tables.py RUN FOLDER     # copies a run's tables, rounded, to a folder beside this file
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from docs.markdown import number, percent, table

HERE = Path(__file__).resolve().parent
MODELS = {"heads-minilm": "MiniLM", "heads-smollm2": "SmolLM2"}
COPIED = ("heads_statistics", "heads_no_op", "heads_best", "heads_offsets", "heads_plane", "probes_attachment")
SCOPES = {
    "heads-minilm": ("Atb", "AtbFf", "AtbFfResLn"),
    "heads-smollm2": ("Atb", "AtbLnFf", "AtbLnFfRes"),
}
"""After attention, after the feed-forward, at the layer's output."""
PLACES = ("after attention", "after FF", "layer output")
DRAWN = ("previous", "own", "next", "first", "separator", "punctuation")


def stored(run: str, name: str) -> pd.DataFrame:
    """One table of a run."""
    return pd.read_csv(HERE / run / f"{name}.csv", keep_default_na=False, na_values=["", "nan"])


def samples() -> str:
    """Sentences, tokens and relations of every run."""
    rows = []
    for run, model in MODELS.items():
        summary = pd.read_json(HERE / run / "summary.json", typ="series")
        best = stored(run, "heads_best")
        arcs = best[best["relation"] == "all"].groupby("read", sort=False)["arcs"].first()
        reach = ", ".join(f"{count} read {read}" for read, count in arcs.items())
        rows.append([model, str(int(summary["sequences"])), str(int(summary["tokens"])), reach])
    return table(["model", "sentences", "tokens", "relations within reach, punctuation's left out"], rows)


def behaviours() -> str:
    """How many channels mostly do what, by kind of map."""
    rows = []
    for run, model in MODELS.items():
        statistics = stored(run, "heads_statistics")
        for kind in ("attention", "value-weighted", *(f"{scope} by head" for scope in SCOPES[run])):
            of_kind = statistics[statistics["map"] == kind]
            does = of_kind["behaviour"].fillna("").str.split(", ")
            counts = [str(int(does.map(lambda names, name=name: name in names).sum())) for name in (*DRAWN, "evenness")]
            means = [number(of_kind[name].mean(), 2) for name in ("first", "separator", "own", "entropy")]
            rows.append(
                [model, _kind(run, kind), str(len(of_kind)), *counts, *(cell.replace("nan", "") for cell in means)]
            )
    head = [
        "model",
        "map",
        "channels",
        *DRAWN,
        "even",
        "mean share on first",
        "on separator",
        "on own",
        "mean entropy, nats",
    ]
    return table(head, rows)


def no_op() -> str:
    """Mean share of attention on special tokens and the first one, by kind of query and third of the layers."""
    rows = []
    for run, model in MODELS.items():
        shares = stored(run, "heads_no_op").query("map == 'attention'")
        third = (shares["layer"].max() + 1) / 3
        for kind, of_kind in shares.groupby("query", sort=False):
            by_third = of_kind.groupby((of_kind["layer"] // third).astype(int))["share"].mean()
            rows.append([model, str(kind), *(percent(by_third[part]) for part in range(3))])
    return table(["model", "queries", "first third of the layers", "second", "last"], rows)


def relations(run: str) -> str:
    """Accuracy of the best map of each kind, chosen on other documents, and the best offset."""
    best = stored(run, "heads_best")
    kinds = ["attention", "value-weighted", *(f"{scope} by head" for scope in SCOPES[run]), *SCOPES[run]]
    rows = []
    for (relation, read), of_question in _questions(best):
        by_map = of_question.set_index("map")
        cells = [_accuracy(by_map.loc["offset"])]
        cells += [_accuracy(by_map.loc[kind]) + _mark(by_map.loc[kind]) for kind in kinds]
        top = by_map.loc["attention"]
        place = f"{int(top['top_layer'])}-{str(top['top_channel']).removeprefix('head ')}"
        rows.append([f"`{relation}`", read, str(int(by_map["arcs"].iloc[0])), place, *cells])
    head = ["relation", "read", "arcs", "head", "offset", *(_kind(run, kind) for kind in kinds)]
    return table(head, rows)


def differences() -> str:
    """In how many questions each kind of map is better or worse than attention, and than the best offset."""
    rows = []
    for run, model in MODELS.items():
        best = stored(run, "heads_best")
        for kind in ("attention", "value-weighted", *(f"{scope} by head" for scope in SCOPES[run]), *SCOPES[run]):
            of_kind = best[best["map"] == kind]
            cells = []
            for other in ("attention", "atb", "offset"):
                gain = of_kind[f"minus_{other}"]
                better, worse = of_kind[f"minus_{other}_low"] > 0, of_kind[f"minus_{other}_high"] < 0
                own = bool(gain.isna().all() or (gain == 0).all())
                cells += ["" if own else f"{better.sum()}", "" if own else f"{worse.sum()}"]
                cells.append("" if own else f"{100 * gain.mean():+.1f}".replace("-", "−"))
            rows.append([model, _kind(run, kind), str(len(of_kind)), *cells])
    head = ["model", "map", "questions"]
    for other in ("attention", "map after attention", "offset"):
        head += [f"better than {other}", "worse", "mean difference, points"]
    return table(head, rows)


def attachment() -> str:
    """Unlabelled attachment of the probes on MiniLM."""
    rows = []
    for row in stored("heads-minilm", "probes_attachment").to_dict("records"):
        maps = "" if pd.isna(row["maps"]) else _kind("heads-minilm", str(row["maps"]))
        interval = _interval(row, "attachment")
        against = (
            ""
            if pd.isna(row["minus_attention"]) or str(row["maps"]) == "attention"
            else _interval(row, "minus_attention", "+")
        )
        rows.append([str(row["probe"]), maps, interval, against])
    return table(["probe", "maps", "attachment", "minus attention by the same probe"], rows)


def copy(run: str, folder: str) -> None:
    """A run's tables, rounded to four digits."""
    (HERE / folder).mkdir(exist_ok=True)
    for name in COPIED:
        source = Path(run) / "tables" / f"{name}.csv"
        if source.is_file():
            rows = pd.read_csv(source, keep_default_na=False, na_values=["", "nan"])
            rows = rows[rows["map"] == "attention"] if name == "heads_no_op" else rows
            rows.round(4).to_csv(HERE / folder / source.name, index=False, lineterminator="\n")
    if not (HERE / folder / "summary.json").is_file():
        (HERE / folder / "summary.json").write_text((Path(run) / "summary.json").read_text())


def _questions(best: pd.DataFrame) -> list[tuple[tuple[str, str], pd.DataFrame]]:
    """Relations from the most frequent to the least, each from both ends."""
    arcs = best.groupby("relation")["arcs"].max().sort_values(ascending=False)
    order = {name: place for place, name in enumerate(arcs.index)}
    groups = [((str(key[0]), str(key[1])), group) for key, group in best.groupby(["relation", "read"], sort=False)]
    return sorted(groups, key=lambda item: (order[item[0][0]], item[0][1]))


def _kind(run: str, kind: str) -> str:
    """A scope by its place in the layer."""
    scope, _, by_head = kind.partition(" by ")
    if scope not in SCOPES[run]:
        return kind
    place = PLACES[SCOPES[run].index(scope)]
    return f"{place}, by {by_head}" if by_head else f"{place}, whole layer"


def _accuracy(row: "pd.Series[float]") -> str:
    return f"{100 * row['accuracy']:.0f}"


def _mark(row: "pd.Series[float]") -> str:
    """`+` or `−` where the difference to attention is clear."""
    if row["minus_attention_low"] > 0:
        return " +"
    return " −" if row["minus_attention_high"] < 0 else ""


def _interval(row: dict[str, float], name: str, sign: str = "-") -> str:
    value, low, high = (number(100 * row[f"{name}{end}"], 1, sign) for end in ("", "_low", "_high"))
    return f"{value} [{low}, {high}]"


BLOCKS: dict[str, Callable[[], str]] = {
    "heads-samples": samples,
    "heads-behaviours": behaviours,
    "heads-no-op": no_op,
    "heads-differences": differences,
    "heads-relations-minilm": lambda: relations("heads-minilm"),
    "heads-relations-smollm2": lambda: relations("heads-smollm2"),
    "heads-probes": attachment,
}

if __name__ == "__main__":
    copy(*sys.argv[1:])
