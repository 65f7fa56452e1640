"""The blocks of causal_validation.md, from causal_validation_SET.csv and causal_validation_SET_differences.csv."""

from pathlib import Path

import pandas as pd

from docs.markdown import claim, number, table

FOLDER = Path(__file__).resolve().parent
SETS = ("ioi", "sva", "blimp")
EFFECTS = ("Attn", "AtbLn", "AtbLnFf", "AtbLnFfRes", "AtbLnFfResLn", "edge knockout")
OUTPUT = "AtbLnFfRes"
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


BLOCKS = {
    "without-first": without_first,
    "off-diagonal": off_diagonal,
    "knockout": knockout,
    "with-diagonal": with_diagonal,
}
