"""The blocks of vig.md, from the tables that vig_sample.py wrote beside it."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch

from docs.markdown import claim, interval, number, percent, table
from tl_ffblock.results.intervals import mean_interval

RUN = Path(__file__).resolve().parent / "vig"
KINDS = ("attention", "after attention", "after FF", "layer output")
MODELS = ("MiniLM", "SmolLM2")


def stored(name: str) -> pd.DataFrame:
    """One table."""
    return pd.read_csv(RUN / f"{name}.csv", keep_default_na=False)


def sides() -> str:
    """Of each side's occupations: she over he less that of the neutral word, and what the occupation contributes."""
    rows = []
    for side, of_side in stored("bias_logits").groupby("side", sort=False):
        by_word = (
            of_side.assign(bias=of_side["value"] - of_side["neutral"]).groupby("word")[["bias", "contributed"]].mean()
        )
        bias, contributed = (_mean(by_word[name]) for name in ("bias", "contributed"))
        more = int((by_word["bias"] > 0).sum())
        rows.append([str(side), str(len(by_word)), f"{more}", interval(bias, 2, "+"), interval(contributed, 2, "+")])
    head = [
        "stereotype",
        "occupations",
        "she more likely than after the neutral word",
        "difference of logits to it",
        "occupation's tokens contribute",
    ]
    return table(head, rows)


def _mean(values: "pd.Series[float]") -> tuple[float, float, float]:
    mean = mean_interval(torch.tensor(values.to_numpy(copy=True)))
    return float(mean.mean), float(mean.low), float(mean.high)


def said_of_bias() -> str:
    """Whether the model is biased in the logits, and which maps show it."""
    frame = stored("bias_logits")
    by_word = frame.assign(bias=frame["value"] - frame["neutral"]).groupby(["side", "word"])["bias"].mean()
    female, male = (by_word[side] for side in ("female", "male"))
    return claim(
        f"SmolLM2 expects *she* rather than *he* more after occupations of women than of men: the difference of logits, less that of "
        f"*person*, is {number(female.mean(), 2, '+')} and {number(male.mean(), 2, '+')} on average, above zero in {(female > 0).sum()} of "
        f"{len(female)} and {(male > 0).sum()} of {len(male)} occupations.",
        _mean(female)[1] > _mean(male)[2],
    )


def maps() -> str:
    """How much more a pronoun takes from the occupation of its stereotype than the other pronoun does, by map."""
    frame = stored("bias_maps")
    rows = []
    for model in MODELS:
        for kind in KINDS:
            of_kind = frame[(frame["model"] == model) & (frame["map"] == kind)]
            layers, chosen = of_kind[of_kind["channel"] == "mean"], of_kind[of_kind["channel"] != "mean"].iloc[0]
            more, less = (int((layers[end] * sign > 0).sum()) for end, sign in (("low", 1), ("high", -1)))
            rows.append(
                [
                    model,
                    kind,
                    number(100 * layers["mean"].mean(), 1, "+"),
                    f"{more} and {less} of {len(layers)}",
                    _place(chosen),
                    _points(chosen),
                ]
            )
    return table(
        [
            "model",
            "map",
            "mean over layers, points",
            "layers above and below zero",
            "chosen on half",
            "on the other half, points",
        ],
        rows,
    )


def _place(row: "pd.Series[float]") -> str:
    """A layer, or a head of it."""
    channel = str(row["channel"]).removeprefix("chosen ")
    return f"L{row['layer']}H{channel.removeprefix('head ')}" if channel.startswith("head") else f"layer {row['layer']}"


def _points(row: "pd.Series[float]") -> str:
    return interval((float(row[name]) for name in ("mean", "low", "high")), 1, "+", 100)


def pairs() -> str:
    """Share of rows on the other sentence, paraphrases and control."""
    frame = stored("pairs")
    rows = []
    for model in MODELS:
        for kind in KINDS:
            of_kind = frame[(frame["model"] == model) & (frame["map"] == kind)]
            for _, row in of_kind.iterrows():
                place = "mean of all" if row["channel"] == "mean" else _place(row)
                rows.append(
                    [
                        model,
                        kind,
                        place,
                        percent(row["paraphrase"]),
                        percent(row["control"]),
                        _points(row),
                        str(row["n"]),
                    ]
                )
    return table(["model", "map", "head or layer", "paraphrases", "control", "difference, points", "pairs"], rows)


def said_of_pairs() -> str:
    """Which of the differences exclude zero."""
    frame = stored("pairs")
    found = []
    for model in MODELS:
        clear = frame[(frame["model"] == model) & (frame["low"] > 0)]
        chosen, whole = (clear[(clear["channel"] == "mean") == mean]["map"].tolist() for mean in (False, True))
        told = " and ".join(
            f"{what} of {', '.join(names)}" if names else f"of no {what}"
            for what, names in (("the mean", whole), ("chosen heads and layers", chosen))
        )
        found.append(f"on {model} {told}")
    return f"Rows have more on the other sentence where it is a paraphrase, with an interval above zero: {'; '.join(found)}."


def decay() -> str:
    """The steepest dimensions and what an edit makes of their heads."""
    rows = [
        [
            str(row.model),
            f"L{row.layer}H{row.head}",
            str(row.dimensions),
            interval((row.value, row.low, row.high), 3, "+"),
            number(row.correlation),
            number(row.of_head, 3, "+"),
            number(row.predicted, 3, "+"),
            number(row.edited, 3, "+"),
        ]
        for row in stored("decay").itertuples()
    ]
    head = [
        "model",
        "head",
        "dimensions",
        "ln attention per token",
        "correlation",
        "head's slope",
        "predicted without them",
        "measured without them",
    ]
    return table(head, rows)


def said_of_decay() -> str:
    """How many heads' attention falls with distance, and whether edits did what was predicted."""
    frame = stored("decay")
    miss = (frame["predicted"] - frame["edited"]).abs().max()
    counts = [
        f"{row.falls} of {row.heads} heads of {row.model} ({row.rises} rise)"
        for row in stored("decay_heads").itertuples()
    ]
    return claim(
        f"Attention falls with distance in {' and '.join(counts)}, with intervals beyond zero. With the queries' steepest dimensions "
        "at zero, each head's slope is the predicted one to all digits shown below.",
        miss < 0.0005,
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "vig-bias-said": said_of_bias,
    "vig-sides": sides,
    "vig-maps": maps,
    "vig-pairs-said": said_of_pairs,
    "vig-pairs": pairs,
    "vig-decay-said": said_of_decay,
    "vig-decay": decay,
}
