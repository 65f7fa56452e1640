"""The blocks of known_circuits.md, from the tables that runs have stored.

tl-ffblock known-circuits --csv docs/results/known_circuits.csv     # then rounded to four digits
tl-ffblock known-circuits --of nodes --csv NODES.csv                # and tokens: known_circuits_nodes.csv is both, rounded
tl-ffblock known-circuits --full --csv FULL.csv                     # known_circuits_full.csv is `means_over_seeds` of it

known_circuits_methods.py adds methods of other papers, seeds, nodes and tokens; known_circuits_trained.py trains models;
known_circuits_smollm2.py measures edges of a real one.
"""

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pandas as pd

from docs.markdown import claim, number, table
from docs.results import faithfulness_sentences
from tl_ffblock.known_circuits import MEASURES, CircuitScores, grid

FOLDER = Path(__file__).resolve().parent
EXACT, QK = "gradient, exact receivers", "AtP, query and key correction"
SHOWN = ("gradient", "gradient, 5 steps", "patching", "patching, 5 steps", "path", "GIM", EXACT)


@cache
def read(name: str) -> pd.DataFrame:
    """A stored table."""
    return pd.read_csv(FOLDER / f"{name}.csv", dtype={"seed": str})


def stored() -> CircuitScores:
    """What the run wrote."""
    return CircuitScores.of(read("known_circuits"))


def _means(frame: pd.DataFrame, measure: str) -> dict[str, float]:
    return {str(name): float(value) for name, value in frame.groupby("method")[measure].mean().items()}


def all_methods() -> str:
    """Means and intervals of every method and control."""
    return _means_of(stored().means())


def _means_of(means: pd.DataFrame) -> str:
    rows = []
    for method, of_method in means.groupby("method", sort=False):
        by = of_method.set_index("measure")
        cells = [
            f"{number(by.loc[name, 'value'], 3)} [{number(by.loc[name, 'low'], 3)}, {number(by.loc[name, 'high'], 3)}]"
            if name in by.index
            else ""
            for name in MEASURES
        ]
        rows.append([str(method), *cells])
    return table(["method", *MEASURES], rows)


def by_program() -> str:
    """AUROC and error of each kind of pair."""
    return _by_kind(stored().to_dataframe())


def trained() -> str:
    """The same of trained models, and what is best there."""
    frame = read("known_circuits_trained")
    area, error = _means(frame, "AUROC"), _means(frame, "error")
    kept = claim(
        f"All {len(frame.drop_duplicates(['program', 'kind']))} have an AUROC of {number(area['exact'], 3)}. Integration steps say sizes "
        f"best here: `gradient` with 5 steps misses them by {number(error['gradient, 5 steps'], 3)}, exact receivers by "
        f"{number(error[EXACT])}, one step of `gradient` by {number(error['gradient'])}. Exact receivers rank no better than the "
        f"gradient (AUROC {number(area[EXACT], 3)} and {number(area['gradient'], 3)}).",
        area["exact"] >= 0.99,
        error["gradient, 5 steps"] < error[EXACT] < error["gradient"],
        abs(area[EXACT] - area["gradient"]) < 0.005,
    )
    return f"{kept}\n\n{_by_kind(frame)}"


def nodes() -> str:
    """Scores of heads and feed-forwards, and of positions of tokens."""
    frame, measures = read("known_circuits_nodes"), ("AUROC", "sign", "error")
    means = {(of, name): _means(rows, name) for of, rows in frame.groupby("of") for name in measures}
    columns = [(of, name) for of in ("nodes", "tokens") for name in measures]
    rows = [[method, *(number(means[each][method], 3) for each in columns)] for method in frame["method"].unique()]
    n = len(frame[frame["of"] == "nodes"].drop_duplicates(["program", "kind", "settings", "seed"]))
    said = f"Means over {n} known circuits, those of the grid whose edges are seen one at a time."
    return f"{table(['method', *(f'{of}, {name}' for of, name in columns)], rows)}\n\n{said}"


def seeds() -> str:
    """All methods on seeds that were used for nothing else."""
    return _means_of(CircuitScores.of(read("known_circuits_seeds")).means())


def smollm2() -> str:
    """What is best in a real model; each method's measures, means over pairs with their range."""
    frame = read("known_circuits_smollm2")
    means = {name: _means(frame[frame.measure == name], "value") for name in ("AUROC", "sign", "error", "slope")}
    area, sign, error = (means[name] for name in ("AUROC", "sign", "error"))
    others = [name for name in error if name not in ("gradient", EXACT, QK)]
    found = claim(
        f"Of derivatives the plain gradient, one step, is best: AUROC {number(area['gradient'], 3)}, sign {number(sign['gradient'])}, "
        f"error {number(error['gradient'])}. Our `patching` misses {number(error['patching'])} of the largest effects, `path` "
        f"{number(error['path'])}, GIM {number(error['GIM'])}, AttnLRP {number(error['AttnLRP'])}; five steps of the gradient "
        f"{number(error['gradient, 5 steps'])}, a mean along the way and not the effect of one edge.",
        *(area["gradient"] > area[name] and error["gradient"] < error[name] for name in others),
    )
    by_pair = frame[frame.measure == "error"].pivot(index="pair", columns="method", values="value")
    found += " " + claim(
        f"Exact receivers, one backward pass as well, are ahead of it in every pair: AUROC {number(area[EXACT], 3)}, error "
        f"{number(error[EXACT])}. Those of queries and keys alone say nearly as much, error {number(error[QK])}.",
        (by_pair[EXACT] < by_pair["gradient"]).all(),
        error[EXACT] < 0.5 * error["gradient"],
        error[EXACT] < error[QK] < 1.2 * error[EXACT],
    )
    measures, rows = list(frame["measure"].unique()), []
    for method, of_method in frame.groupby("method", sort=False):
        values = of_method.groupby("measure")["value"].agg(["mean", "min", "max"])
        cells = (
            f"{number(mean)} ({number(low)} to {number(high)})" for mean, low, high in values.loc[measures].to_numpy()
        )
        rows.append([str(method), *cells])
    return f"{found}\n\n{table(['method', *measures], rows)}"


def means_over_seeds(scores: pd.DataFrame) -> pd.DataFrame:
    """Of the full grid's scores their means over seeds, with `n`, how many seeds there are: 33,000 rows are too many to keep."""
    groups = scores.groupby(["program", "kind", "settings", "of", "pairs", "method"], sort=False)
    return groups[[*MEASURES]].mean().round(4).assign(n=groups.size()).reset_index()


def full() -> str:
    """Scores by norm, gates, sharpness and noise, and how many known circuits survive each."""
    frame, rows = read("known_circuits_full"), []
    n_cells = Counter(settings.name for _, _, settings in grid(full=True))
    for settings, of_settings in frame.groupby("settings", sort=False):
        survived = int(of_settings.loc[of_settings["method"] == "exact", "n"].sum())
        weighed = [_weighed(of_settings, measure) for measure in ("AUROC", "error")]
        cells = (f"{number(weighed[0][name], 3)} · {number(weighed[1][name])}" for name in SHOWN if name in weighed[0])
        rows.append([str(settings), f"{survived} of {n_cells[str(settings)]}", *cells])
    area, error = (_weighed(frame, measure) for measure in ("AUROC", "error"))
    survived = int(frame.loc[frame["method"] == "exact", "n"].sum())
    run, part = sum(n_cells[name] for name in frame["settings"].unique()), f"{len(rows)} of {len(n_cells)} settings"
    said = claim(
        f"{survived} of {run} known circuits survive their settings ({part} were run). The order of methods is that of the "
        f"default grid: exact receivers have AUROC {number(area[EXACT], 4)} and error {number(error[EXACT])}, one step of `gradient` "
        f"{number(area['gradient'], 4)} and {number(error['gradient'])}, `patching` with 5 steps "
        f"{number(area['patching, 5 steps'], 4)} and {number(error['patching, 5 steps'])}, "
        f"`path` {number(area['path'], 3)} and {number(error['path'])}.",
        error[EXACT] < min(error["gradient"], error["patching, 5 steps"], error["path"]),
        area["path"] < min(area[EXACT], area["gradient"], area["patching, 5 steps"]),
    )
    methods = [name for name in SHOWN if name in set(frame["method"])]
    return f"{said}\n\n{table(['settings', 'survive', *methods], rows)}"


def _weighed(frame: pd.DataFrame, measure: str) -> dict[str, float]:
    """Means by method over known circuits, of their means over seeds."""
    defined = frame.dropna(subset=[measure])
    products = (defined[measure] * defined["n"]).groupby(defined["method"]).sum()
    return {str(name): float(value) for name, value in (products / defined.groupby("method")["n"].sum()).items()}


def _by_kind(frame: pd.DataFrame) -> str:
    rows, shown = [], [name for name in SHOWN if name in set(frame["method"])]
    for (program, kind), of_kind in frame.groupby(["program", "kind"], sort=True):
        areas, errors = _means(of_kind, "AUROC"), _means(of_kind, "error")
        cells = (
            number(areas[name], 3) + (f" · {number(errors[name])}" if errors[name] == errors[name] else "")
            for name in shown
        )
        rows.append([f"{program}, {kind}", *cells])
    return table(["program, what differs", *shown], rows)


def said() -> str:
    """How many were scored, what our methods lose, and where exact receivers are not best."""
    frame = stored().to_dataframe()
    n = len(frame.drop_duplicates(["program", "kind", "settings", "seed"]))
    area, error, false = (_means(frame, measure) for measure in ("AUROC", "error", "false edges"))
    closed = _means(frame[frame.kind == "closed too early"], "error")
    return "\n".join(
        [
            claim(
                f"- {n} of the grid's {len(grid())} known circuits survive their settings. Exact patching has AUROC 1.000 in all of them, "
                "which is a condition of being scored.",
                n > 0.9 * len(grid()),
                area["exact"] == 1,
            ),
            claim(
                f"- `path` loses most: AUROC {number(area['path'], 3)} and {number(false['path'], 0)} false edges at full recall. Its "
                "attention patterns are frozen, so it gives nothing to edges into queries and keys. More steps do not help.",
                area["path"] < 0.95,
                false["path, 5 steps"] > 30,
            ),
            claim(
                f"- `gradient` and `patching` with one step rank well (AUROC {number(area['gradient'], 3)} and "
                f"{number(area['patching'], 3)}), and miss the size of true edges by {number(error['gradient'])} and "
                f"{number(error['patching'])} of it. Exact receivers, with one backward pass, have AUROC {number(area[EXACT], 4)} and "
                f"error {number(error[EXACT])}.",
                error["gradient"] > 2 * error[EXACT],
                area[EXACT] >= 0.995,
                error[EXACT] <= 0.26,
            ),
            *_saturated(),
            claim(
                f"- Exact receivers are not best everywhere. `patching` with 5 steps has fewer false edges "
                f"({number(false['patching, 5 steps'], 2)} against {number(false[EXACT], 2)}). What follows the receiver is still "
                f"linearised: brackets that close too early keep an error of {number(closed[EXACT])}.",
                false["patching, 5 steps"] < false[EXACT],
                closed[EXACT] > 0.3,
            ),
        ]
    )


def _saturated() -> list[str]:
    """Induction with saturated attention and noise, on seeds that were used for nothing else."""
    frame = read("known_circuits_seeds")
    area, error, false = (_means(frame, measure) for measure in ("AUROC", "error", "false edges"))
    by_seed = frame[frame.method == EXACT].groupby("seed")["error"].mean()
    keys = _means(frame[frame.kind == "key"], "error")
    ours, theirs = f"{number(false[EXACT])} false edges", f"{number(false['GIM'])}"
    return [
        claim(
            f"- Induction with saturated attention and noise, {len(by_seed)} seeds that were used for nothing else: exact receivers have "
            f"AUROC {number(area[EXACT], 4)} and error {number(error[EXACT], 3)} ({number(by_seed.min(), 3)} to "
            f"{number(by_seed.max(), 3)} by seed); one step of `gradient` {number(area['gradient'], 3)} and "
            f"{number(error['gradient'])}. Pairs that differ at the key keep an error of {number(keys[EXACT])}.",
            area[EXACT] >= 0.995,
            error[EXACT] <= 0.12,
            error["gradient"] > 3 * error[EXACT],
        ),
        claim(
            f"- There GIM ranks better than exact receivers (AUROC {number(area['GIM'], 4)}, {theirs} against {ours}), and says sizes "
            f"worse than the plain gradient (error {number(error['GIM'])}). AtP with the query and key correction is between "
            f"(error {number(error[QK])}); AttnLRP loses what the gradient loses (AUROC {number(area['AttnLRP'], 3)}).",
            area["GIM"] > area[EXACT],
            error["GIM"] > error["gradient"],
            error[EXACT] < error[QK] < error["gradient"],
            area["AttnLRP"] < 0.99,
        ),
    ]


def said_of_gim() -> str:
    """What GIM does better than the package's own rules, for the comparison of tools, and what it does not."""
    short = faithfulness_sentences.means("correlation")[list(faithfulness_sentences.SHORT)].mean(axis=1)
    frame, real = read("known_circuits_seeds"), read("known_circuits_smollm2")
    area, false, error = (_means(frame, measure) for measure in ("AUROC", "false edges", "error"))
    of_model = _means(real[real.measure == "error"], "value")
    return claim(
        "GIM predicts the masking of tokens of short prompts better than `path`: correlation "
        f"{number(short['GIM'])} against {number(short['path'])} in the mean over four sets "
        "([faithfulness](results/faithfulness.md)). Under saturated attention with noise it ranks edges better than exact receivers: "
        f"{number(false['GIM'])} against {number(false[EXACT])} false edges, AUROC {number(area['GIM'], 4)} against "
        f"{number(area[EXACT], 4)}. It misses the sizes of edges by more, there ({number(error['GIM'])} against {number(error[EXACT])}) "
        f"and on SmolLM2 ({number(of_model['GIM'])} against {number(of_model[EXACT])}; [known circuits](results/known_circuits.md)).",
        short["GIM"] > short["path"],
        area["GIM"] > area[EXACT] and false["GIM"] < false[EXACT],
        error["GIM"] > error[EXACT] and of_model["GIM"] > of_model[EXACT],
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "known-circuits-said": said,
    "known-circuits-seeds": seeds,
    "known-circuits-trained": trained,
    "known-circuits-smollm2": smollm2,
    "known-circuits-methods": all_methods,
    "known-circuits-programs": by_program,
    "known-circuits-nodes": nodes,
    "known-circuits-full": full,
}
