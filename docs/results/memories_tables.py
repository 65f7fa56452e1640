"""The blocks of memories.md, from the tables of runs of the study `memories` that lie beside it.

    python docs/results/memories_tables.py RUN FOLDER [CAUSES]

copies a finished run's tables, rounded, to a folder beside this file, and what memories_causes.py wrote of it. Then
`python -m docs.blocks` writes the page.
"""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from docs.markdown import claim, interval, number, percent, table
from tl_ffblock.results.intervals import mean_interval

HERE = Path(__file__).resolve().parent
RUNS = {
    "memories-smollm2-wikitext2": ("SmolLM2", "WikiText-2"),
    "memories-smollm2-ewt": ("SmolLM2", "UD-EWT"),
}
ENCODER = "memories-minilm-wikitext2"
WITH_ENCODER = {**RUNS, ENCODER: ("MiniLM", "WikiText-2")}
"""MiniLM is a sentence encoder: its triggers can be read, nothing in it can be read as tokens."""
COPIED = ("ngrams", "agreement", "confident", "composition", "refinement")
VOCABULARY = 49_152
"""Tokens of SmolLM2, of which a random one has half as its median rank."""
SIXTHS = ("first sixth of the layers", "second", "third", "fourth", "fifth", "last")
AGREEMENT = {"first": "of the first trigger", "all": "of all triggers", "chance": "by chance"}


def stored(run: str, name: str) -> pd.DataFrame:
    """One table of a run."""
    return pd.read_csv(HERE / run / f"{name}.csv", keep_default_na=False, na_values=["", "nan"])


def by_sixth(rows: pd.DataFrame, column: str, n_layers: int) -> "pd.Series[float]":
    """Mean of a column over the layers of each sixth; NaN where there is none."""
    return rows.groupby(rows["layer"] * 6 // n_layers)[column].mean().reindex(range(6))


def samples() -> str:
    """Sequences, tokens, memories and triggers of every run."""
    rows = []
    for run, titles in WITH_ENCODER.items():
        summary = json.loads((HERE / run / "summary.json").read_text())
        counts = [summary["sequences"], summary["tokens"], summary["memories"]]
        if run != ENCODER:
            positions = int(stored(run, "composition")["positions"].max())
            counts += [positions, *(len(stored(run, f"causes_{kind}")) for kind in ("tokens", "effects"))]
        rows.append([*titles, *(f"{count:,}".replace(",", " ") for count in counts), *[""] * (6 - len(counts))])
    head = [
        "model",
        "text",
        "sentences",
        "tokens",
        "memories",
        "positions",
        "triggers taken apart",
        "memories knocked out",
    ]
    return table(head, rows)


def endings() -> str:
    """Memories of which at least three triggers end alike."""
    rows = []
    for run, titles in WITH_ENCODER.items():
        ngrams = stored(run, "ngrams")
        for n in sorted(ngrams["n"].unique()):
            of_length = ngrams[ngrams["n"] == n].set_index("sign")
            shares = by_sixth(of_length.loc[["positive"]], "shared", _layers(ngrams))
            rows.append([*titles, str(n), *map(percent, shares), percent(of_length.loc["random", "shared"])])
    return table(["model", "text", "last tokens alike", *SIXTHS, "random numbers"], rows)


def agreement() -> str:
    """How often the token behind a trigger is the value's top token."""
    rows = []
    for run, titles in RUNS.items():
        positive = stored(run, "agreement").query("sign == 'positive'")
        for reading, of_reading in positive.groupby("reading", sort=False):
            for column, title in AGREEMENT.items():
                shares = by_sixth(of_reading, column, _layers(positive))
                counted = f"{(of_reading[column] * of_reading['memories']).sum():.0f} of {of_reading['memories'].sum()}"
                everywhere = _small(of_reading[column].mean()) if column == "all" else counted
                rows.append([titles[1], _reading(str(reading)), title, *map(_small, shares), everywhere])
    return table(["text", "value read by", "agreement", *SIXTHS, "all layers"], rows)


def ranks() -> str:
    """Where the token after the first trigger stands among all that a value promotes (Fig. 4 of the paper)."""
    columns = {"median": "median rank", "up_to_10": "rank 10 or less", "up_to_100": "rank 100 or less"}
    rows = []
    for run, titles in RUNS.items():
        positive = stored(run, "ranks").query("sign == 'positive'")
        for reading, of_reading in positive.groupby("reading", sort=False):
            for column, title in columns.items():
                write = _small if column != "median" else lambda rank: f"{rank:,.0f}".replace(",", " ")
                sixths = by_sixth(of_reading, column, _layers(positive))
                rows.append([titles[1], _reading(str(reading)), title, *map(write, sixths)])
    return table(["text", "value read by", "of the next token", *SIXTHS], rows)


def said_of_ranks() -> str:
    """The same in words, beside a token that is drawn at random."""
    tables = [stored(run, "ranks").query("sign == 'positive'") for run in RUNS]
    medians = [by_sixth(rows, "median", _layers(rows)) for of in tables for _, rows in of.groupby("reading")]
    tenth = max(rows.groupby("reading")["up_to_10"].mean().max() for rows in tables)
    lower, upper = min(m.min() for m in medians), max(m.max() for m in medians)
    low, high, chance = (f"{rank:,.0f}".replace(",", " ") for rank in (lower, upper, VOCABULARY / 2))
    return claim(
        f"In the paper the next token's rank is better in the upper layers (section 4). Here it is not: median ranks by sixths are {low} "
        f"to {high}, that of a token drawn at random is {chance}, and {percent(tenth)} or fewer of the memories have a rank up to 10.",
        lower > 0.6 * VOCABULARY / 2,
        upper < 1.1 * VOCABULARY / 2,
    )


def confident() -> str:
    """The values with the largest top probability."""
    rows = []
    for run, titles in RUNS.items():
        for row in stored(run, "confident").query("sign == 'positive'").to_dict("records"):
            shares = [percent(row[name]) for name in ("upper_third", "agreeing_trigger", "agreeing_trigger_of_all")]
            rows.append(
                [titles[1], _reading(row["reading"]), str(row["values"]), _small(row["least_probability"]), *shares]
            )
    head = ["text", "value read by", "values", "least probability", "in the upper third", "with a trigger that agrees"]
    return table([*head, "of all values"], rows)


def composition() -> str:
    """Active memories, and how often none of them says what the layer says."""
    rows = []
    columns = {
        "active": "active",
        "zero_agreement": "none says the feed-forward's token",
        "zero_agreement_with_sum": "none says the layer's token",
    }
    for run, titles in RUNS.items():
        for rule, of_rule in stored(run, "composition").groupby("rule", sort=False):
            for column, title in columns.items():
                shares = by_sixth(of_rule, column, _layers(of_rule))
                rows.append([titles[1], _rule(str(rule)), title, *map(percent, shares)])
    return table(["text", "active are", "", *SIXTHS], rows)


def refinement() -> str:
    """Whose top token a layer's output has."""
    rows = []
    columns = {
        "final": "the residual's top token is the model's",
        "probability": "probability of the model's token there",
        "residual": "output says what the residual said",
        "feed-forward": "output says what the feed-forward says",
        "agreement": "both say it",
        "composition": "neither said it",
    }
    for run, titles in RUNS.items():
        of_reading = stored(run, "refinement").query("reading == 'final_norm'")
        for column, title in columns.items():
            rows.append([titles[1], title, *map(percent, by_sixth(of_reading, column, _layers(of_reading)))])
    return table(["text", "", *SIXTHS], rows)


def decisive() -> str:
    """Which token turned a memory on: by shares, and by what its removal does."""
    rows = []
    for run, titles in RUNS.items():
        triggers = stored(run, "causes_tokens")
        measures: dict[str, tuple[pd.Series, Callable[[float], str]]] = {
            "largest share is the trigger token's": (triggers["by_shares"] == 0, percent),
            "largest loss is by removing the trigger token": (triggers["by_removal"] == 0, percent),
            "both name the same token": (triggers["by_shares"] == triggers["by_removal"], percent),
            "tokens back, by shares (mean)": (triggers["by_shares"], _one_digit),
            "tokens back, by removal (mean)": (triggers["by_removal"], _one_digit),
            "Spearman of shares and losses over tokens": (triggers["spearman"], number),
            "trigger token's share of the coefficient": (triggers["share_of_last"], percent),
            "share of the token that begins every text": (triggers["share_of_marks"], _percent),
        }
        for title, (values, write) in measures.items():
            rows.append(
                [titles[1], title, *map(write, by_sixth(triggers.assign(value=values), "value", _layers(triggers)))]
            )
    return table(["text", "", *SIXTHS], rows)


def removals() -> str:
    """Median change of the coefficient without a token (section 3.3 of the paper)."""
    rows = []
    for run, titles in RUNS.items():
        triggers = stored(run, "causes_tokens")
        sixth = triggers["layer"] * 6 // _layers(triggers)
        for column, title in (("change_last", "last"), ("change_random", "random"), ("change_first", "first")):
            rows.append([titles[1], title, *map(_percent, triggers.groupby(sixth)[column].median().reindex(range(6)))])
    return table(["text", "removed token", *SIXTHS], rows)


EFFECTS = {
    "kl": "KL, mnats",
    "top_logit": "value's top token, logit",
    "next_log_probability": "log-probability of the next token",
}
THIRDS = ("first third", "second", "last")
WHERE = ("first", "last", "elsewhere")


def effects() -> str:
    """Does the rank of a trigger say how much the model needs the memory there?"""
    rows = []
    for run, titles in RUNS.items():
        for effect, title in EFFECTS.items():
            for third, name in enumerate(THIRDS):
                cells = [_effect(run, third, f"{effect}_{where}") for where in WHERE]
                rows.append(
                    [titles[1], title, name, *cells, _with_interval(_of_third(run, third, f"{effect}_spearman"))]
                )
    head = ["text", "effect on", "layers", "first five triggers", "last five", "another memory's triggers"]
    return table([*head, "Spearman of rank and effect"], rows)


def _of_third(run: str, third: int, column: str) -> np.ndarray:
    """One number per memory of a third of the layers, of those that have one."""
    memories = stored(run, "causes_effects")
    return memories[memories["layer"] * 3 // _layers(memories) == third][column].dropna().to_numpy(copy=True)


def _effect(run: str, third: int, column: str) -> str:
    """Mean over memories with its interval; of a divergence, which is skewed, the median too."""
    values = _of_third(run, third, column) * (1000 if column.startswith("kl") else 1)
    digits = 2 if column.startswith("kl") else 3
    median = f"; median {number(float(np.median(values)), digits)}" if digits == 2 else ""
    return _with_interval(values, digits) + median


def said_of_endings() -> str:
    """What triggers have in common."""
    shares: dict[int, list[pd.Series[float]]] = {}
    for run in RUNS:
        ngrams = stored(run, "ngrams").query("sign == 'positive'")
        for n in (1, 2, 3):
            shares.setdefault(n, []).append(by_sixth(ngrams[ngrams["n"] == n], "shared", _layers(ngrams)))
    ones = pd.concat(shares[1])
    chance = [stored(run, "ngrams").query("sign == 'random' and n == 1")["shared"].item() for run in RUNS]
    upper = ", ".join(f"{percent(one.iloc[0])} and {percent(one.iloc[-1])}" for one in shares[1])
    return claim(
        "- **Triggers have something in common, and shallow ones more of it.** "
        f"{percent(ones.min())[:-2]} to {percent(ones.max())} of SmolLM2's memories, by sixths of the layers, have three triggers of 25 or "
        f"more that end in the same token, against {percent(min(chance))[:-2]} to {percent(max(chance))} where coefficients are random "
        "numbers. Three last tokens in common are most frequent in the lower layers and least in the upper: shallow patterns below, as in "
        f"the paper. One last token in common has no such slope (first and last sixth: {upper}). This counts endings; it does not see "
        "meaning, so it cannot show that upper patterns are semantic. MiniLM has the same slope.",
        ones.min() > 0.8,
        *(three.iloc[:2].min() > three.iloc[2:].max() and three.idxmin() == 5 for three in shares[3]),
        *(abs(one.iloc[0] - one.iloc[-1]) < 0.05 for one in shares[1]),
    )


def said_of_effects() -> str:
    """What the rank of a trigger says of its effect."""
    first, last, logit = (
        [_of_third(run, third, column).mean() for run in RUNS for third in range(3)]
        for column in ("kl_first", "kl_last", "top_logit_first")
    )
    ranks = [_interval_of(_of_third(run, third, "next_log_probability_spearman")) for run in RUNS for third in range(3)]
    gain, other = (_interval_of(_of_third(run, 2, "next_log_probability_first")) for run in RUNS)
    counts = [len(_of_third(run, 2, "next_log_probability_first")) for run in RUNS]
    earlier = [_interval_of(_of_third(run, third, "next_log_probability_first")) for run in RUNS for third in range(2)]
    return claim(
        "- **Trigger rank predicts that a memory matters, not that it is right.** The higher a trigger's rank, the more its knock-out "
        "moves the prediction, and in the last layers the value's top token loses logits. Of what happens to the token that does follow "
        "rank says nothing. That token itself gains a little by the memories of the last third, at their first five triggers: "
        f"{interval(gain, 3, '+')} nats on WikiText-2 ({counts[0]} memories), {interval(other, 3, '+')} on UD-EWT ({counts[1]}), where the "
        "interval includes zero; below that there is none to be seen. These intervals are not corrected for their number.",
        all(one > 2 * five for one, five in zip(first, last, strict=True)),
        all(np.argmax(logit[begin : begin + 3]) == 2 for begin in (0, 3)),
        all(low < 0 < high for _, low, high in (*ranks, *earlier, other)),
        gain[1] > 0,
    )


def said_of_values() -> str:
    """Whether values name the next token."""
    rows = [stored(run, "agreement").query("sign == 'positive' and reading == 'final_norm'") for run in RUNS]
    share, chance = ([of[column].mean() for of in rows] for column in ("all", "chance"))
    certain = [stored(run, "confident").query("sign == 'positive' and reading == 'direction'").iloc[0] for run in RUNS]
    told = [f"{percent(of['agreeing_trigger'])} against {percent(of['agreeing_trigger_of_all'])}" for of in certain]
    counts = [[(of[column] * of["memories"]).sum() for column in ("first", "chance")] for of in rows]
    return claim(
        "- **Values do not name what follows, with few exceptions.** The token after a trigger is the value's top token at "
        f"{_small(share[0])} of the triggers on WikiText-2 and {_small(share[1])} on UD-EWT, by chance at {_small(chance[0])} and "
        f"{_small(chance[1])}. Of first triggers alone, {counts[1][0]:.0f} agree on UD-EWT, by chance {counts[1][1]:.0f}, which cannot be "
        "told apart. What the paper saw in its upper layers is here too, weaker: of the hundred most certain values more have a trigger "
        f"that agrees than of all values ({' and '.join(told)}).",
        all(2 * by_chance < found < 0.01 for found, by_chance in zip(share, chance, strict=True)),
        counts[1][0] - counts[1][1] < 2 * counts[1][1] ** 0.5,
        all(of["agreeing_trigger"] > 3 * of["agreeing_trigger_of_all"] for of in certain),
    )


def said_of_composition() -> str:
    """Whether a layer's token is one memory's, and how many are active."""
    composed = [stored(run, "composition") for run in RUNS]
    alone, active, mass = (
        pd.concat([by_sixth(of[of["rule"] == rule], column, _layers(of)) for of in composed])
        for rule, column in (("positive", "zero_agreement"), ("positive", "active"), ("mass", "active"))
    )
    changed = [stored(run, "refinement").query("reading == 'final_norm'") for run in RUNS]
    neither = [of["composition"].sum() / (of["composition"] + of["feed-forward"]).sum() for of in changed]
    return "\n".join(
        [
            claim(
                f"- **A layer's token is composed.** At {percent(alone.min())[:-2]} to {percent(alone.max())} of the positions, by "
                "sixths of "
                "the layers, no single active memory has the feed-forward's top token. Where the layer's output changes the residual's "
                f"token, {' and '.join(map(percent, neither))} of the changes are to a token that neither of the two had (WikiText-2 and "
                "UD-EWT).",
                alone.min() > 0.4,
                min(neither) > 0.5,
            ),
            claim(
                f"- **Half of the memories are active.** {percent(active.mean())} of gated activations are "
                'positive, so "active" in the sense of ReLU says nothing here. The second rule, as many as have 90 % of the mass, gives '
                f"nearly the same shares ({percent(mass.min())[:-2]} to {percent(mass.max())}).",
                active.sub(0.5).abs().max() < 0.02,
                mass.sub(0.5).abs().max() < 0.06,
            ),
        ]
    )


def _decisive(measure: str) -> "list[pd.Series[float]]":
    """By sixths of the layers, of every run: where the token with the largest share, or loss, is the last; where both are the same."""
    found = []
    for run in RUNS:
        triggers = stored(run, "causes_tokens")
        same = triggers["by_shares"] == triggers["by_removal"] if measure == "same" else triggers[measure] == 0
        found.append(by_sixth(triggers.assign(value=same), "value", _layers(triggers)))
    return found


def said_of_decisive() -> str:
    """Whether the last token of a trigger is the decisive one."""
    shares, removal, same = (pd.concat(_decisive(measure)) for measure in ("by_shares", "by_removal", "same"))
    return claim(
        "- **The last token of a trigger has the largest share almost always, and the largest effect of removal less often.** It has the "
        f"largest share at {percent(shares.min())[:-2]} to {percent(shares.max())} of the triggers by sixths of the layers, and its "
        f"removal lowers the activation most at {percent(removal.min())[:-2]} to {percent(removal.max())}. Both measures name the same "
        f"token at {percent(same.min())[:-2]} to {percent(same.max())}; they disagree most in the middle layers: see "
        "[below](#which-token-activates-a-neuron).",
        shares.min() > 0.8,
        all(of.idxmin() == 3 for of in _decisive("same")),
        same.min() > 0.5,
    )


def said_of_middle_layers() -> str:
    """In how many cases the two measures disagree in the middle layers."""
    middle = [1 - of[2:4].mean() for of in _decisive("same")]
    return claim(
        "The share of a token asks how much of the activation came *through* its contribution to the last position of this layer. "
        f"Ablating the token changes all earlier layers as well. In the middle layers the two disagree in {percent(middle[0])} of the "
        "cases "
        f"on WikiText-2 and {percent(middle[1])} on UD-EWT: there, attention in earlier layers has moved the decisive token's information "
        "to the position. Attribution through all layers (`ffb.attribute`) shows this; shares of one layer do not.",
        min(middle) > 1 / 3,
    )


def in_short() -> str:
    """The paper's figures beside ours."""
    columns = [_figures_of(run) for run in RUNS]
    rows = [[question, paper, *(column[question] for column in columns)] for question, paper in PAPER.items()]
    return table(["", "the paper, 16 layers, ReLU", *(f"{RUNS[run][0]}, {RUNS[run][1]}" for run in RUNS)], rows)


PAPER = {
    "agreement of the first trigger, lower third → last sixth": "0 in layers 1-10 → up to 3.5 %",
    "the same by chance": "0.0004 %",
    "of the 100 most certain values, in the upper third": "97 % (layers 11-16)",
    "of these with a trigger that agrees": "46 %",
    "active memories": "10-50 %",
    "no active memory says the feed-forward's token, least sixth": "68 % or more",
    "the residual's top token is the model's, first sixth → last": "about a third → most",
    "of changes of the top token, to one that neither the residual nor the feed-forward said": "most",
    "change without the last token, first sixth → last": "large, less in upper layers",
}
"""What the paper has, by question."""


def _figures_of(run: str) -> dict[str, str]:
    """Our answers to the same questions: values read by the unembedding alone, as in the paper."""
    agrees = stored(run, "agreement").query("sign == 'positive' and reading == 'direction'")
    n_layers = _layers(agrees)
    first = by_sixth(agrees, "first", n_layers)
    certain = stored(run, "confident").query("sign == 'positive' and reading == 'direction'").iloc[0]
    positive = stored(run, "composition").query("rule == 'positive'")
    composed, refined = (rows for rows in (positive, stored(run, "refinement").query("reading == 'final_norm'")))
    final = by_sixth(refined, "final", n_layers)
    removed = stored(run, "causes_tokens")
    last = removed.groupby(removed["layer"] * 6 // n_layers)["change_last"].median()
    active, zero = (by_sixth(composed, column, n_layers) for column in ("active", "zero_agreement"))
    answers = [
        f"{_small(first[:2].mean())} → {_small(first[5])}",
        _small(agrees["chance"].mean()),
        percent(certain["upper_third"]),
        percent(certain["agreeing_trigger"]),
        f"{percent(active.min())} to {percent(active.max())}",
        percent(zero.min()),
        f"{percent(final[0])} → {percent(final[5])}",
        percent(refined["composition"].sum() / (refined["composition"] + refined["feed-forward"]).sum()),
        f"{_percent(last[0])} → {_percent(last[5])}",
    ]
    return dict(zip(PAPER, answers, strict=True))


def copy(run: str, folder: str, causes: str | None = None) -> None:
    """A run's tables, rounded to four significant digits; of triggers their number alone, since their text is others'."""
    target, tables = HERE / folder, Path(run) / "tables"
    target.mkdir(exist_ok=True)
    for name in COPIED:
        source = tables / f"memories_{name}.csv"
        if source.is_file():
            _write(pd.read_csv(source, keep_default_na=False, na_values=["", "nan"]), target / f"{name}.csv")
    summary = json.loads((Path(run) / "summary.json").read_text())
    triggers = pd.read_csv(tables / "memories_triggers.csv", keep_default_na=False, usecols=["layer", "neuron"])
    summary |= {"memories": len(triggers.drop_duplicates()), "triggers": len(triggers)}
    (target / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    for name in ("ngrams", "agreement", "refinement"):
        figure = Path(run) / "figures" / f"memories_{name}.png"
        if figure.is_file():
            shutil.copy(figure, target / f"{name}.png")
    for kind in ("tokens", "effects") if causes is not None else ():
        layers = sorted(Path(causes or "").glob(f"{kind}-*.csv"))
        _write(pd.concat(map(pd.read_csv, layers)), target / f"causes_{kind}.csv")


def _write(rows: pd.DataFrame, path: Path) -> None:
    rows.to_csv(path, index=False, lineterminator="\n", float_format="%.4g")


def _layers(rows: pd.DataFrame) -> int:
    return int(rows["layer"].max()) + 1


def _reading(reading: str) -> str:
    return {"direction": "unembedding alone", "final_norm": "the model's read-out"}[reading]


def _rule(rule: str) -> str:
    return {"positive": "positive ones", "mass": "90 % of the mass"}[rule]


def _small(share: float) -> str:
    """Per cent with two digits below one."""
    return f"{100 * share:.2f} %" if 0 < share < 0.01 else percent(share)


def _percent(share: float) -> str:
    """Per cent that may be negative."""
    return number(100 * share, 0) + " %"


def _one_digit(value: float) -> str:
    return number(value, 1)


def _with_interval(values: np.ndarray, digits: int = 2) -> str:
    """Mean over memories with its 95 % interval."""
    return interval(_interval_of(values), digits)


def _interval_of(values: np.ndarray) -> tuple[float, float, float]:
    mean = mean_interval(torch.as_tensor(values))
    return float(mean.mean), float(mean.low), float(mean.high)


BLOCKS: dict[str, Callable[[], str]] = {
    "memories-in-short": in_short,
    "memories-said-endings": said_of_endings,
    "memories-said-values": said_of_values,
    "memories-said-composition": said_of_composition,
    "memories-said-decisive": said_of_decisive,
    "memories-said-effects": said_of_effects,
    "memories-said-middle": said_of_middle_layers,
    "memories-samples": samples,
    "memories-endings": endings,
    "memories-agreement": agreement,
    "memories-ranks-said": said_of_ranks,
    "memories-ranks": ranks,
    "memories-confident": confident,
    "memories-composition": composition,
    "memories-refinement": refinement,
    "memories-decisive": decisive,
    "memories-removals": removals,
    "memories-effects": effects,
}

if __name__ == "__main__":
    copy(*sys.argv[1:])
