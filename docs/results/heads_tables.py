"""The blocks of heads.md, from the tables of three runs of `heads` and one of `probes` that lie beside it.

python -m docs.results.heads_tables RUN FOLDER [TABLE ...]     # copies a run's tables, rounded, to a folder beside this file
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from docs.markdown import claim, interval, number, percent, table

HERE = Path(__file__).resolve().parent
MODELS = {"heads-minilm": "MiniLM", "heads-smollm2": "SmolLM2"}
BY_HEAD = "heads-smollm2-by-head"
"""A smaller run of SmolLM2 with contributions through every head, which has no other tables."""
RELATIONS = {**MODELS, BY_HEAD: "SmolLM2, by head"}
COPIED = ("statistics", "no_op", "best", "differences", "offsets", "plane")
SCOPES = {
    "heads-minilm": ("Atb", "AtbFf", "AtbFfResLn"),
    "heads-smollm2": ("Atb", "AtbLnFf", "AtbLnFfRes"),
    BY_HEAD: ("Atb", "AtbLnFf", "AtbLnFfRes"),
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
    for run, model in RELATIONS.items():
        summary = pd.read_json(HERE / run / "summary.json", typ="series")
        best = stored(run, "heads_best")
        arcs = best[best["relation"] == "all"].groupby("read", sort=False)["arcs"].first()
        reach = ", ".join(f"{count} read {read}" for read, count in arcs.items())
        rows.append([model, str(int(summary["sequences"])), str(int(summary["tokens"])), reach])
    return table(["model", "sentences", "tokens", "relations within reach, punctuation's left out"], rows)


def first_sample() -> str:
    """What an earlier and smaller sample said of weighting by values, beside this one."""
    row = _difference("heads-smollm2", "value-weighted", "attention")
    return (
        "A first sample of 80 sentences, with one deal of documents into folds and the choice of map left out of the intervals, gave "
        f"SmolLM2 a gain from weighting by values in 3 of 15 questions and a loss in none. Of 400, as described below, it is "
        f"{_counts(row)}."
    )


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


def rows() -> str:
    """The entropy of the first special token's row, and the paper's punctuation beside ours, on MiniLM."""
    of_queries = stored("heads-minilm", "heads_no_op").query("map == 'attention'")
    third = of_queries["layer"] * 3 // (of_queries["layer"].max() + 1)
    entropies = of_queries.groupby(["query", third])["entropy"].mean()
    cls, words = (entropies[kind] for kind in ("first special", "first piece"))
    told = ", ".join(f"{number(cls[part])} ({number(words[part])})" for part in range(3))
    of_heads = stored("heads-minilm", "heads_statistics").query("map == 'attention'")
    ours, theirs = (of_heads[name] for name in ("punctuation", "period or comma"))
    return claim(
        f"The row of MiniLM's `[CLS]` has a mean entropy of {told} nats by thirds of its layers (rows of words' first pieces in brackets). "
        "The paper's punctuation, full stop and comma alone, gets a mean share of "
        f"{percent(theirs.mean())} of the queries that see one, ours {percent(ours.mean())}; the most that a head gives is "
        f"{percent(theirs.max())} and {percent(ours.max())}.",
        theirs.mean() < ours.mean(),
    )


def relations(run: str) -> str:
    """Accuracy of the best map of each kind, chosen on other documents, and the best offset."""
    best = stored(run, "heads_best")
    kinds = _kinds(run)
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
    """In how many questions each kind of map is better or worse than others, and the mean difference with its interval."""
    rows = []
    for run, model in RELATIONS.items():
        compared = stored(run, "heads_differences").set_index(["map", "minus"])
        for kind in _kinds(run):
            cells = []
            for other in ("attention", "atb", "offset"):
                known = (kind, other) in compared.index and kind != other
                row = compared.loc[(kind, other)] if known else None
                counts = ["", ""] if row is None else [str(int(row["better"])), str(int(row["worse"]))]
                cells += [*counts, "" if row is None else _points(row)]
            rows.append([model, _kind(run, kind), str(int(compared.loc[(kind, "offset"), "questions"])), *cells])
    head = ["model", "map", "questions"]
    for other in ("attention", "map after attention", "offset"):
        head += [f"better than {other}", "worse", "mean difference, points"]
    return table(head, rows)


def in_short() -> str:
    """What the differences come to, in a sentence each."""
    fed = [_difference(run, kind, "atb") for run, kind in (*_fed("heads-minilm"), *_fed(BY_HEAD))]
    weighted = [_difference(run, "value-weighted", "attention") for run in MODELS]
    whole = [_difference(run, scope, "attention") for run in MODELS for scope in SCOPES[run]]
    return "\n".join(
        [
            claim(
                "In short: **the feed-forward does not make relations clearer.** Over all questions the best map through a head finds "
                "as much after the feed-forward and at the layer's output as just after attention: mean differences in points are "
                f"{', '.join(map(_points, fed[:2]))} on MiniLM and {', '.join(map(_points, fed[2:]))} on a smaller sample of SmolLM2.",
                *(row["mean_low"] < 0 < row["mean_high"] for row in fed),
            ),
            claim(
                f"Weighting attention by values has no net gain either: {_points(weighted[0])} and {_points(weighted[1])}.",
                *(row["mean_low"] < 0 < row["mean_high"] for row in weighted),
            ),
            claim("Maps of whole layers find less than single heads.", *(row["mean_high"] < 0 for row in whole)),
        ]
    )


def findings() -> str:
    """What the tables of relations say."""
    return "\n".join([_single_heads(), _feed_forward(), _weighting(), _whole_layers()])


def _single_heads() -> str:
    accuracy, of_causal = (_accuracies(run) for run in MODELS)
    questions = [(name, "from dependent") for name in ("obj", "det", "case")]
    found, by_distance = ([accuracy[question, kind] for question in questions] for kind in ("attention", "offset"))
    near = [(name, read) for name in ("amod", "compound", "flat") for read in ("from dependent", "from head")]
    gains = [accuracy[question, "attention"] - accuracy[question, "offset"] for question in near]
    return claim(
        f"- **Single heads follow relations.** MiniLM's best heads find direct objects' verbs in {percent(found[0])}, determiners' nouns "
        f"in {percent(found[1])}, prepositions' nouns in {percent(found[2])}, where the best distance finds "
        f"{', '.join(map(percent, by_distance[:2]))} and {percent(by_distance[2])}. The paper's BERT has 86.8, 94.3 and 76.3 % under "
        "other labels. Relations that a distance describes well (`amod`, `compound`, `flat`) are found hardly better by heads, by "
        f"{number(100 * min(gains), 0)} to {number(100 * max(gains), 0)} points. SmolLM2's best heads find "
        f"{percent(of_causal[('obj', 'from dependent'), 'attention'])} of the direct objects' verbs before them, and "
        f"{percent(of_causal[('case', 'from head'), 'attention'])} of the prepositions before their noun.",
        *(a > b + 0.15 for a, b in zip(found, by_distance, strict=True)),
        *(share < paper for share, paper in zip(found, (0.868, 0.943, 0.763), strict=True)),
        max(gains) < 0.06,
    )


def _feed_forward() -> str:
    runs = ("heads-minilm", BY_HEAD)
    told = []
    for place in range(2):
        minilm, smollm2 = (_difference(run, _fed(run)[place][1], "atb") for run in runs)
        told.append(
            f"better in {minilm['better']} and worse in {minilm['worse']} of {minilm['questions']} questions on MiniLM, in "
            f"{smollm2['better']} and {smollm2['worse']} of {smollm2['questions']} on SmolLM2"
        )
    found = []
    for run in runs:
        accuracy, kinds = _accuracies(run), ("attention", *(f"{scope} by head" for scope in SCOPES[run]))
        found.append([percent(accuracy[("obj", "from dependent"), kind]) for kind in kinds])
    return (
        "- **The feed-forward has no net gain.** Through heads, compared with the map after attention, the map after the feed-forward is "
        f"{told[0]}; the layer's output is {told[1]}. Direct objects' verbs on MiniLM: attention {found[0][0]}, after attention "
        f"{found[0][1]}, after the feed-forward {found[0][2]}, layer output {found[0][3]}; on the smaller sample of SmolLM2 "
        f"{', '.join(found[1][:3])} and {found[1][3]}."
    )


def _weighting() -> str:
    rows = {model: _difference(run, "value-weighted", "attention") for run, model in MODELS.items()}
    accuracy, gains = _accuracies("heads-smollm2"), _of_question("heads-smollm2", "value-weighted")["minus_attention"]
    told = []
    for question in (gains.idxmax(), gains.idxmin()):
        relation, read = str(question[0]), str(question[1])
        before, after = (percent(accuracy[(relation, read), kind]) for kind in ("attention", "value-weighted"))
        told.append(f"`{relation}` read {read}, {before} to {after}")
    return (
        f"- **Weighting by values**, compared with attention, is {_counts(rows['SmolLM2'])} on SmolLM2, and {_counts(rows['MiniLM'])} on "
        f"MiniLM. On SmolLM2 it gains most at {told[0]}, and loses most at {told[1]}."
    )


def _whole_layers() -> str:
    minilm, smollm2 = ([_difference(run, scope, "attention") for scope in SCOPES[run]] for run in MODELS)
    told = [f"{min(row['worse'] for row in rows)} to {max(row['worse'] for row in rows)}" for rows in (minilm, smollm2)]
    best = [max(row["better"] for row in rows) for rows in (minilm, smollm2)]
    return claim(
        f"- **Maps of whole layers** are worse than attention's heads in {told[0]} of {minilm[0]['questions']} questions on MiniLM and "
        f"better in {best[0]}: they sum heads that do different things, and there are six of them to choose from and not 72. On SmolLM2, "
        f"with thirty to choose from, they are worse in {told[1]} of {smollm2[0]['questions']} and better in "
        f"{'none' if not best[1] else f'at most {best[1]}'}.",
        best[0] == 0,
    )


def widths() -> str:
    """How wide intervals are."""
    best = {run: stored(run, "heads_best").query("map == 'attention'") for run in MODELS}
    wide = [100 * (rows["accuracy_high"] - rows["accuracy_low"]) for rows in best.values()]
    of_all = [float(of_run[best[run]["relation"] == "all"].mean()) for run, of_run in zip(MODELS, wide, strict=True)]
    return (
        "- One treebank, two small models, a few hundred sentences: intervals of one question are "
        f"{number(wide[0].mean(), 0)} points wide on average on MiniLM and {number(wide[1].mean(), 0)} on SmolLM2, so that gains of a few "
        f"points in single relations would not be seen. Over all relations together they are {number(of_all[0], 0)} and "
        f"{number(of_all[1], 0)} points wide."
    )


def _kinds(run: str) -> list[str]:
    """The kinds of maps that a run has, attention first."""
    known = set(stored(run, "heads_differences")["map"])
    kinds = ("attention", "value-weighted", *(f"{scope} by head" for scope in SCOPES[run]), *SCOPES[run])
    return [kind for kind in kinds if kind in known]


def _fed(run: str) -> list[tuple[str, str]]:
    """A run with its maps through heads after the feed-forward and at the layer's output."""
    return [(run, f"{scope} by head") for scope in SCOPES[run][1:]]


def _difference(run: str, kind: str, other: str) -> dict[str, float]:
    """Counts, mean and interval of one kind of map minus another."""
    rows = stored(run, "heads_differences").query("map == @kind and minus == @other")
    (row,) = rows.drop(columns=["map", "minus"]).to_dict("records")
    return {str(name): value for name, value in row.items()}


def _points(row: "Mapping[str, float] | pd.Series[float]") -> str:
    """A mean difference in points, with its interval."""
    return interval((row["mean"], row["mean_low"], row["mean_high"]), 1, "+", 100)


def _counts(row: Mapping[str, float]) -> str:
    return f"better in {row['better']} of {row['questions']} questions and worse in {row['worse']}"


def _of_question(run: str, kind: str) -> pd.DataFrame:
    best = stored(run, "heads_best")
    return best[best["map"] == kind].set_index(["relation", "read"])


def _accuracies(run: str) -> dict[tuple[tuple[str, str], str], float]:
    """Accuracy by question and kind of map."""
    rows = stored(run, "heads_best").to_dict("records")
    return {((row["relation"], row["read"]), row["map"]): row["accuracy"] for row in rows}


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


def said_of_rest() -> str:
    """Where attention rests, and what of it remains weighted by values."""
    shares = {
        (model, kind): of_kind
        for run, model in MODELS.items()
        for kind, of_kind in stored(run, "heads_statistics").groupby("map")[["first", "separator"]].mean().iterrows()
    }
    first = [shares[model, kind]["first"] for model in MODELS.values() for kind in ("attention", "value-weighted")]
    return claim(
        "Both models' attention rests on the first token, where BERT's rests on [SEP]: MiniLM's on [CLS] (mean share "
        f"{number(first[0])}) and hardly on [SEP] ({number(shares['MiniLM', 'attention']['separator'])}), SmolLM2's on the token that "
        f"begins every prompt ({number(first[2])}). Weighted by values the shares are {number(first[1])} and {number(first[3])}: the "
        "values there are small, as Kobayashi et al. 2020 found of BERT. What follows in the layer changes these numbers little. (In a "
        "Pre-LN model without value bias, as SmolLM2, the map through a head after attention is the value-weighted one, the residual "
        "apart.)",
        first[1] < first[0] / 3,
        first[3] < first[2],
        all(
            abs(shares[model, f"{scope} by head"]["first"] - shares[model, "value-weighted"]["first"]) < 0.05
            for run, model in MODELS.items()
            for scope in SCOPES[run]
        ),
    )


def said_of_probes() -> str:
    """What is known of probes that are trained to a tolerance, and that the stored table is older."""
    rows = {(row["probe"], row["maps"]): row for row in stored("heads-minilm", "probes_attachment").to_dict("records")}
    early, offset = rows["maps", "attention"], next(row for (name, _), row in rows.items() if name == "best offset")
    return claim(
        "**The table below is of probes that stopped after ten epochs, long before the best fit, and says nothing of kinds of maps against "
        "each other**: how far training had come differs by kind. It has not been made again. Probes are now trained until their penalised "
        "loss is smallest. Even so attention "
        f"({_interval(early, 'attachment')} per cent) was above the best fixed offset ({_interval(offset, 'attachment')}).",
        early["attachment_low"] > offset["attachment_high"],
    )


def copy(run: str, folder: str, *names: str) -> None:
    """A run's tables, rounded to four digits: all that are kept of a run of `heads`, or those that are named."""
    (HERE / folder).mkdir(exist_ok=True)
    for name in names or (*(f"heads_{name}" for name in COPIED), "probes_attachment"):
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
    """`+` or `-` where the difference to attention is clear."""
    if row["minus_attention_low"] > 0:
        return " +"
    return " -" if row["minus_attention_high"] < 0 else ""


def _interval(row: dict[str, float], name: str, sign: str = "-") -> str:
    return interval((row[f"{name}{end}"] for end in ("", "_low", "_high")), 1, sign, 100)


BLOCKS: dict[str, Callable[[], str]] = {
    "heads-in-short": in_short,
    "heads-samples": samples,
    "heads-first-sample": first_sample,
    "heads-behaviours": behaviours,
    "heads-no-op": no_op,
    "heads-rows": rows,
    "heads-differences": differences,
    "heads-findings": findings,
    "heads-relations-minilm": lambda: relations("heads-minilm"),
    "heads-relations-smollm2": lambda: relations("heads-smollm2"),
    "heads-rest": said_of_rest,
    "heads-probes-said": said_of_probes,
    "heads-probes": attachment,
    "heads-widths": widths,
}

if __name__ == "__main__":
    copy(*sys.argv[1:])
