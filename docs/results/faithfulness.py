"""Makes faithfulness.csv, faithfulness_differences.csv and faithfulness_components.csv: does a score say what a model needs?

    python -m docs.results.faithfulness tokens sva ioi known wikitext wikitext64 wikitext128 sst2 --data DATA --work WORK
    python -m docs.results.faithfulness components --work WORK
    python -m docs.results.faithfulness tables --work WORK       # from the root of the repository

DATA holds sva/nounpp_test.json (github.com/saprmarks/feature-circuits, data), ioi/ioi.json and known_facts/known_1000.json
(github.com/lab-paper-code/dual_path_attribution, data), wikitext2/wiki.test.txt (WikiText-2's test articles) and
sst2/sst2_glue_dev.tsv (sentence, label). Every method of a set has a CSV in WORK that grows prompt by prompt, and so have
removals: a run that was stopped goes on where it stopped, and `--methods` and `--prompts` choose pieces, so that a method that
comes later is scored and measured by itself. `--device cuda` runs there. A hundred prompts of all sets take some hours on one
core, minutes on a GPU.
"""

import argparse
import re
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import tl_ffblock as ffb
from docs.results.faithfulness_components import measured_pairs
from docs.results.faithfulness_methods import METHODS, NOT_OF_ENCODERS
from docs.results.faithfulness_sets import SETS, Example, probe
from tl_ffblock.results.intervals import mean_interval

HERE = Path(__file__).resolve().parent
OURS = "path"
"""What others are compared with."""
RULE = ("path", "hidden keys", "path + hidden keys", "AttnLRP")
"""What is compared in pairs, for a rule of our own."""


class Grown:
    """A CSV file that gets the rows of one prompt at a time."""

    def __init__(self, path: Path, columns: str) -> None:
        self.path = path
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(columns + "\n")
        rows = self.table()
        self.done = set() if rows.empty else {int(number) for number in rows["prompt"]}

    def table(self) -> pd.DataFrame:
        """All rows."""
        return pd.read_csv(self.path)

    def add(self, prompt: int, rows: list[tuple[Any, ...]]) -> None:
        """Append a prompt's rows at once."""
        with self.path.open("a") as file:
            file.write("".join(",".join(map(str, (prompt, *row))) + "\n" for row in rows))
        self.done.add(prompt)


def scores_path(work: Path, name: str, method: str) -> Path:
    """Where a method's scores on a set stand."""
    return work / f"scores_{name}_{re.sub('[^a-z]+', '_', method.lower())}.csv"


def scores_file(work: Path, name: str, method: str) -> Grown:
    """A method's scores on a set, with seconds of the method and of a forward pass."""
    return Grown(scores_path(work, name, method), "prompt,position,score,seconds,forward")


def removals_file(work: Path, name: str, removal: str) -> Grown:
    """What removals say of a set."""
    return Grown(work / f"removals_{name}_{removal}.csv", "prompt,method,measure,value")


def of_prompt(file: Grown, number: int) -> pd.DataFrame:
    """The rows of one prompt."""
    rows = file.table()
    return rows[rows["prompt"] == number]


def seconds(work: Any, device: str) -> tuple[Any, float]:
    """A result and how long it took: CPU seconds of the process, on a GPU seconds until it was done."""
    if device == "cpu":
        start = time.process_time()
        return work(), time.process_time() - start
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return result, time.perf_counter() - start


def run_tokens(name: str, options: argparse.Namespace) -> None:
    """Scores of all methods and removals, prompt by prompt."""
    model_name, read = SETS[name]
    model = ffb.load_model(model_name, device=options.device)
    methods = [m for m in options.methods or METHODS if model_name != "minilm" or m not in NOT_OF_ENCODERS]
    files = {method: scores_file(options.work, name, method) for method in methods}
    removals = {removal: removals_file(options.work, name, removal) for removal in options.removal}
    for number, example in enumerate(islice(read(model, options.data), options.prompts)):
        scores(model, number, example, files, options.device)
        for removal, file in removals.items():
            measured = set(of_prompt(file, number)["method"])
            held = {m: of_prompt(f, number)["score"].to_numpy() for m, f in files.items() if m not in measured}
            if held:
                rows = removal_rows(model, example, held, removal)
                file.add(number, [row for row in rows if row[0] not in measured])
        if name == "sst2" and number == 0:
            (options.work / "probe.csv").write_text(f"accuracy\n{probe(model, options.data)[2]:.4f}\n")
        print(f"{name}: {number + 1} prompts", flush=True)


def scores(model: Any, number: int, example: Example, files: dict[str, Grown], device: str) -> None:
    """Those that are missing, each with its time after a first call that is not counted."""
    missing = [method for method, file in files.items() if number not in file.done]
    if not missing:
        return
    tokens = example.tokens[None].to(next(model.parameters()).device)

    def forward() -> None:
        with torch.no_grad():
            model(tokens)

    if number == 0:
        for method in missing:
            METHODS[method](model, example)
    pass_seconds = min(seconds(forward, device)[1] for _ in range(3))
    for method in missing:
        found, took = seconds(lambda method=method: METHODS[method](model, example), device)
        rows = [
            (position, f"{value:.6g}", f"{took:.4f}", f"{pass_seconds:.4f}")
            for position, value in enumerate(found.tolist())
        ]
        files[method].add(number, rows)


def removal_rows(model: Any, example: Example, held: dict[str, Any], removal: str) -> list[tuple[Any, ...]]:
    """Every measure of every method on one prompt, and the points of its curves."""
    given = {method: torch.tensor(values) for method, values in held.items()}
    result = ffb.faithfulness(model, example.tokens, example.target, given, removal=removal, cause=example.cause)
    table = result.to_dataframe(by_prompt=True)
    rows = [(row.method, row.measure, f"{row.value:.6g}") for row in table.itertuples()]
    curves = result.curves_dataframe()
    return rows + [(row.method, f"{row.order} {row.share:g}", f"{row.value:.6g}") for row in curves.itertuples()]


def summary(values: np.ndarray) -> tuple[float, float, float, int]:
    """Mean and 95 % interval over prompts, and how many there are."""
    interval = mean_interval(torch.tensor(values)[:, None])
    return float(interval.mean), float(interval.low), float(interval.high), int(interval.counts)


def tables(work: Path, out: Path, methods: list[str] | None) -> None:
    """Means, costs and paired differences of all sets that there are; of some methods, whose rows then replace theirs in the files."""

    def write(table: pd.DataFrame, name: str) -> None:
        rows = table.round(3)
        if methods:
            before = pd.read_csv(out / name)
            rows = pd.concat([before[~before["method"].isin(methods)], rows[rows["method"].isin(methods)]])
        rows.astype({"n": "Int64"}).to_csv(out / name, index=False)

    rows: list[tuple[Any, ...]] = []
    differences: list[tuple[Any, ...]] = []
    for name in SETS:
        for removal in ("mask", "mean"):
            if not (work / f"removals_{name}_{removal}.csv").is_file():
                continue
            stored = removals_file(work, name, removal).table()
            for measure, cells in stored.groupby("measure", sort=False):
                by_method = cells.pivot(index="prompt", columns="method", values="value")
                order = [method for method in cells["method"].unique() if method in by_method]
                rows += [(name, removal, method, measure, *summary(by_method[method].to_numpy())) for method in order]
                if measure in ("correlation", "area"):
                    differences += [
                        (name, removal, method, measure, *summary((by_method[OURS] - by_method[method]).to_numpy()))
                        for method in order
                        if method != OURS
                    ]
        rows += list(costs(work, name))
        if scores_path(work, name, OURS).is_file():
            lengths = scores_file(work, name, OURS).table().groupby("prompt")["position"].max() + 1
            rows.append((name, "", "", "tokens", lengths.mean(), lengths.min(), lengths.max(), len(lengths)))
    if (work / "probe.csv").is_file():
        rows.append(
            ("sst2", "", "", "accuracy of the probe", *pd.read_csv(work / "probe.csv")["accuracy"], None, None, None)
        )
    columns = ["set", "removal", "method", "measure", "mean", "low", "high", "n"]
    for table, file in ((rows, "faithfulness.csv"), (differences, "faithfulness_differences.csv")):
        write(pd.DataFrame(table, columns=columns), file)
    write(rule_differences(work), "faithfulness_rule.csv")
    if (work / "components.csv").is_file():
        components(work).round(3).to_csv(out / "faithfulness_components.csv", index=False)


def rule_differences(work: Path) -> pd.DataFrame:
    """Rank correlations of `RULE` on the prompts that all of them have been scored on, and their differences in pairs."""
    rows: list[tuple[Any, ...]] = []
    tables = {name: work / f"removals_{name}_mask.csv" for name in SETS}
    of_sets = {}
    for name in (name for name, file in tables.items() if file.is_file()):
        stored = pd.read_csv(tables[name])
        stored = stored[(stored["measure"] == "correlation") & stored["method"].isin(RULE)]
        by_method = stored.pivot(index="prompt", columns="method", values="value").dropna()
        if {"path", "hidden keys"} <= set(by_method):
            of_sets[name] = by_method
    for_all = [of_set for of_set in of_sets.values() if set(of_set) == set(RULE)]
    for name, by_method in {**of_sets, **({"all": pd.concat(for_all)} if for_all else {})}.items():
        methods = [method for method in RULE if method in by_method]
        for number, method in enumerate(methods):
            rows.append((name, method, "", *summary(by_method[method].to_numpy())))
            change = {less: by_method[method] - by_method[less] for less in methods[:number]}
            rows += [(name, method, less, *summary(values.to_numpy())) for less, values in change.items()]
    return pd.DataFrame(rows, columns=["set", "method", "minus", "mean", "low", "high", "n"])


def costs(work: Path, name: str) -> Iterator[tuple[Any, ...]]:
    """Medians over prompts of the time of a method over that of a forward pass."""
    for method in METHODS:
        file = scores_path(work, name, method)
        table = pd.read_csv(file).drop_duplicates("prompt") if file.is_file() else ()
        if len(table):
            ratio = (table["seconds"] / table["forward"]).to_numpy()
            yield name, "", method, "cost", float(np.median(ratio)), *np.percentile(ratio, [25, 75]), len(ratio)


def components(work: Path) -> pd.DataFrame:
    """Of every estimate and kind of component: mean over pairs of each measure."""
    stored = pd.read_csv(work / "components.csv")
    rows = [
        (*names, *summary(cells["value"].to_numpy()))
        for names, cells in stored.groupby(["estimate", "measure"], sort=False)
    ]
    return pd.DataFrame(rows, columns=["estimate", "measure", "mean", "low", "high", "n"])


def run_components(options: argparse.Namespace) -> None:
    """Pair by pair."""
    file = Grown(options.work / "components.csv", "prompt,estimate,measure,value")
    model = ffb.load_model("smollm2", device=options.device)
    for number, rows in measured_pairs(model, options.pairs, file.done, lambda work: seconds(work, options.device)):
        file.add(number, rows)
        print(f"components: {number + 1} pairs", flush=True)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work_to_do", choices=["tokens", "components", "tables"], metavar="tokens|components|tables")
    parser.add_argument("sets", nargs="*", choices=[[], *SETS], metavar="SET")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument(
        "--methods", nargs="*", choices=list(METHODS), help="scores, removals and rows of tables of these alone"
    )
    parser.add_argument("--removal", nargs="*", choices=["mask", "mean"], default=["mask", "mean"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(1)
    if options.work_to_do == "tables":
        tables(options.work, options.out, options.methods)
    elif options.work_to_do == "components":
        run_components(options)
    else:
        for name in options.sets or SETS:
            run_tokens(name, options)


if __name__ == "__main__":
    main()
