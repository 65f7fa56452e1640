"""The blocks of causal_validation.md, from causal_validation_SET.csv and causal_validation_SET_differences.csv."""

from pathlib import Path
from statistics import NormalDist

import pandas as pd

from docs.markdown import claim, number, percent, table

FOLDER = Path(__file__).resolve().parent
SETS = ("ioi", "sva", "blimp")
EFFECTS = ("Attn", "AtbLn", "AtbLnFf", "AtbLnFfRes", "AtbLnFfResLn", "edge knockout")
OUTPUT, KNOCKOUT = "AtbLnFfRes", "edge knockout"
ATTENTION, VALUES, PLACEBO = "attention", "attention x value norm", "placebo"


def rho_of(name: str, cells: str) -> pd.DataFrame:
    """Rho with its interval, mean over layers, by effect and predictor."""
    stored = pd.read_csv(FOLDER / f"causal_validation_{name}.csv")
    chosen = stored[(stored["layer"] == "mean") & (stored["cells"] == cells)]
    return chosen.set_index(["effect", "predictor"]).sort_index()


def lead_of(name: str, cells: str) -> pd.DataFrame:
    """How much further a map predicts, by effect, map and what it is compared with."""
    stored = pd.read_csv(FOLDER / f"causal_validation_{name}_differences.csv")
    return stored[stored["cells"] == cells].set_index(["effect", "map", "minus"]).sort_index()


def _with_interval(row: pd.Series) -> str:
    return f"{number(row.rho)} [{number(row.low)}, {number(row.high)}]"


def _difference(row: pd.Series) -> str:
    middle, low, high = (number(value, 3, "+") for value in (row.difference, row.low, row.high))
    return f"{middle} [{low}, {high}]"


def _title(effect: str) -> str:
    return effect if effect == "edge knockout" else f"removing `{effect}`"


def off_diagonal() -> str:
    """Every set and effect: what its own map, one map, attention and a placebo predict, and by how much the map leads."""
    head = ["set", "effect of", "own map", "`AtbLnFf` map", "attention", "attention × value norm", "placebo"]
    head += ["own − attention", "own − attention × value norm"]
    rows, lower_ends = [], []
    for name in SETS:
        rho, lead = rho_of(name, "off-diagonal"), lead_of(name, "off-diagonal")
        for effect in EFFECTS:
            own = OUTPUT if effect == "edge knockout" else effect
            predictors = (own, "AtbLnFf", ATTENTION, VALUES, PLACEBO)
            cells = [_with_interval(rho.loc[(effect, predictor)]) for predictor in predictors]
            leads = [lead.loc[(effect, own, other)] for other in (ATTENTION, VALUES)]
            cells += [_difference(row) for row in leads]
            lower_ends.append([row.low for row in leads])
            rows.append([f"`{name}`", _title(effect), *cells])
    above = [sum(low > 0 for low in lows) for lows in zip(*lower_ends, strict=True)]
    count = (
        f"The interval of the lead excludes zero in {above[0]} of {len(rows)} rows against attention, "
        f"in {above[1]} against attention × value norm."
    )
    return f"{table(head, rows)}\n\n{count}"


def knockout() -> str:
    """The knockout: all maps off the diagonal, and the map of the layer's output on other choices of cells."""
    scopes = ("Attn", "AtbLn", "AtbLnFf", "AtbLnFfRes", "AtbLnFfResLn")
    head = ["set", "cells", *(f"`{scope}`" for scope in scopes), "attention", "attention × value norm"]
    head += [f"`{OUTPUT}` − attention", f"`{OUTPUT}` − attention × value norm"]
    rows = []
    for name in SETS:
        for cells in ("off-diagonal", "beyond first", "reachable"):
            rho, lead = rho_of(name, cells).loc["edge knockout"], lead_of(name, cells).loc[("edge knockout", OUTPUT)]
            values = [number(rho.loc[predictor].rho) for predictor in (*scopes, ATTENTION, VALUES)]
            rows.append([f"`{name}`", cells, *values, *(_difference(lead.loc[other]) for other in (ATTENTION, VALUES))])
    return table(head, rows)


def with_diagonal() -> str:
    """Removal at the layer's output, the diagonal included."""
    rows = []
    for name in SETS:
        rho = rho_of(name, "reachable").loc[OUTPUT]
        rows.append([f"`{name}`", *(_with_interval(rho.loc[predictor]) for predictor in (OUTPUT, ATTENTION, VALUES))])
    return table(["set", f"`{OUTPUT}` map", "attention", "attention × value norm"], rows)


def without_first() -> str:
    """What the first token does to the knockout."""
    rho, lead = (
        {name: [_of_knockout(read(name, cells)) for cells in ("off-diagonal", "beyond first")] for name in SETS}
        for read in (rho_of, lead_of)
    )
    falls = [
        (f"`{name}` {number(own[0].loc[OUTPUT].rho)} to {number(own[1].loc[OUTPUT].rho)}") for name, own in rho.items()
    ]
    return claim(
        f"**Part of all this is the first token**, on which attention rests. Without it as a key (`beyond first`) rho for the knockout "
        f"falls in all three sets ({', '.join(falls)}), and the lead over attention grows.",
        *(own[1].loc[OUTPUT].rho < own[0].loc[OUTPUT].rho for own in rho.values()),
        *(
            own[1].loc[other].difference > own[0].loc[other].difference
            for own in lead.values()
            for other in (ATTENTION, VALUES)
        ),
    )


def _of_knockout(rows: pd.DataFrame) -> pd.DataFrame:
    """By predictor; of leads those of the map of the layer's output."""
    of_knockout = rows.loc["edge knockout"]
    return of_knockout.loc[OUTPUT] if of_knockout.index.nlevels > 1 else of_knockout


def _leads() -> dict[tuple[str, str, str], pd.Series]:
    """The differences of the table off the diagonal: by set, effect and what the own map is compared with."""
    return {
        (name, effect, other): lead_of(name, "off-diagonal").loc[
            (effect, OUTPUT if effect == KNOCKOUT else effect, other)
        ]
        for name in SETS
        for effect in EFFECTS
        for other in (ATTENTION, VALUES)
    }


def _after_bonferroni(leads: dict[tuple[str, str, str], pd.Series]) -> list[tuple[str, str, str]]:
    """Differences whose interval excludes zero with Bonferroni's correction for their number, from its width, as if normal."""
    wider = NormalDist().inv_cdf(1 - 0.025 / len(leads)) / NormalDist().inv_cdf(0.975)
    return [key for key, row in leads.items() if row.difference - wider * (row.high - row.low) / 2 > 0]


def said() -> str:
    """The findings."""
    return "\n".join(
        [_said_of_predictors(), _said_of_leads(), _said_of_feed_forward(), _said_of_none(), _said_of_knockout()]
    )


def _said_of_predictors() -> str:
    rho = {name: rho_of(name, "off-diagonal") for name in SETS}
    parts = [
        rho[name].loc[(effect, ATTENTION)].rho / rho[name].loc[(effect, OUTPUT if effect == KNOCKOUT else effect)].rho
        for name in SETS
        for effect in EFFECTS
    ]
    return claim(
        "1. **Every predictor is far better than its placebo.** Raw attention alone has "
        f"{percent(min(parts))} to {percent(max(parts))} of the own map's rho.",
        *(
            of.loc[(effect, PLACEBO)].high < of.loc[effect].drop(PLACEBO)["low"].min() - 0.2
            for of in rho.values()
            for effect in EFFECTS
        ),
    )


def _said_of_leads() -> str:
    leads = _leads()
    clear = sum(row.low > 0 for row in leads.values())
    certain = _after_bonferroni(leads)
    cut = [f"in `{name}` against raw {other}" for name, effect, other in certain if effect == KNOCKOUT]
    return claim(
        "2. **Maps are better than attention, by little.** Off the diagonal no difference in the table is below zero. "
        f"{clear} of its {len(leads)} intervals exclude zero, and {len(certain)} would with Bonferroni's correction for {len(leads)} (from "
        f"the width of the intervals, as if normal); of the knockouts {len(cut)} of these, {', '.join(cut)}.",
        *(round(row.difference, 3) >= 0 for row in leads.values()),
    )


def _said_of_feed_forward() -> str:
    leads, rho = _leads(), {name: rho_of(name, "off-diagonal").loc["AtbLnFf"]["rho"] for name in SETS}
    told = ", ".join(f"`{name}` {number(leads[name, 'AtbLnFf', ATTENTION].difference, 3, '+')}" for name in SETS)
    return claim(
        "3. **The lead is largest where the feed-forward block's output is removed**, in all three sets, over attention, which knows "
        f"nothing of that block ({told}). The map of `AtbLnFf` is also the best of all predictors there.",
        *(max(EFFECTS, key=lambda effect: leads[name, effect, ATTENTION].difference) == "AtbLnFf" for name in SETS),
        *(of.idxmax() == "AtbLnFf" for of in rho.values()),
    )


def _said_of_none() -> str:
    leads = _leads()
    level = {name: [effect for effect in EFFECTS if leads[name, effect, ATTENTION].low <= 0] for name in SETS}
    cut = [leads[name, KNOCKOUT, VALUES] for name in SETS]
    return claim(
        "4. **Where maps do not beat attention.** `sva`: removal at the layer's output and at the next norm, and the knockout. `blimp`: "
        "removal at the next norm. For the knockout, the one intervention that knows nothing of the maps' vectors, the lead over "
        f"attention × value norm is {number(cut[0].difference, 3)} in `ioi` and not distinguishable from zero in `sva` and `blimp`.",
        level == {"ioi": [], "sva": [OUTPUT, "AtbLnFfResLn", KNOCKOUT], "blimp": ["AtbLnFfResLn"]},
        [row.low > 0 for row in cut] == [True, False, False],
    )


def _said_of_knockout() -> str:
    cut = {name: rho_of(name, "off-diagonal").loc[KNOCKOUT]["rho"] for name in SETS}
    spread = max(of[list(EFFECTS[:-1])].max() - of[list(EFFECTS[:-1])].min() for of in cut.values())
    every = {name: rho_of(name, "reachable") for name in SETS}
    whole = [scope for scope in EFFECTS[:-1] if scope != "Attn"]
    return "\n".join(
        [
            claim(
                f"5. **For the knockout the scope hardly matters.** The rho of the five scopes differ by at most {number(spread)} in a "
                "set: "
                "including the feed-forward block neither helps nor hurts to predict what cutting an edge does.",
                spread < 0.02,
            ),
            claim(
                "6. **With the diagonal (`reachable`)** maps predict removals at the layer's output best (second table). This says that "
                "the "
                "residual is large and that removing it matters, no more. The same maps predict the knockout, which leaves the residual in "
                "place, worse than attention in `sva` and `blimp`; `Attn`, without the residual, does not have this fault.",
                *(of.loc[(OUTPUT, OUTPUT)].low > of.loc[(OUTPUT, ATTENTION)].high for of in every.values()),
                *(
                    every[name].loc[(KNOCKOUT, scope)].rho < every[name].loc[(KNOCKOUT, ATTENTION)].rho
                    for name in ("sva", "blimp")
                    for scope in whole
                ),
                *(of.loc[(KNOCKOUT, "Attn")].rho > of.loc[(KNOCKOUT, ATTENTION)].rho for of in every.values()),
            ),
        ]
    )


BLOCKS = {
    "findings": said,
    "without-first": without_first,
    "off-diagonal": off_diagonal,
    "knockout": knockout,
    "with-diagonal": with_diagonal,
}
