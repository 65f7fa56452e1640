"""The studies of Kobayashi et al. 2024 on models and corpora of your choice, compared with the paper's numbers.

    replicate("replication", models=("minilm", "gpt2"), corpora={"sst2": "sst2_dev.tsv"})

Each model and corpus has a folder with a run of `run_studies`, which continues after an interruption. A second folder has the
studies that the paper ran on short or few inputs (`SHORT_STUDIES`). `comparison.csv` and `index.html` compare the runs with
`paper.csv`: all numbers of the paper's text and tables that the studies define, each with its figure, table or section.

Where the paper has no number of a model and corpus, those of its other models are shown, and named. Its excerpts of Wikipedia
are not on a hub. Paragraphs of WikiText-2 replace them, as in docs/results, unless you pass another source.
"""

import html
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from tl_ffblock.bridge.loading import SHIPPED, load_model
from tl_ffblock.corpus.runs import CorpusRun
from tl_ffblock.corpus.settings import Config
from tl_ffblock.errors import InputError, ModelLoadError, UnsupportedModelError
from tl_ffblock.experiments import run_studies, study_names
from tl_ffblock.files import write_atomically, write_table
from tl_ffblock.signatures import strict

MODELS = (
    "bert-large-uncased",
    "bert-base-uncased",
    "google/bert_uncased_L-8_H-512_A-8",
    "google/bert_uncased_L-4_H-512_A-8",
    "google/bert_uncased_L-4_H-256_A-4",
    "google/bert_uncased_L-2_H-128_A-2",
    "google/multiberts-seed_0",
    "google/multiberts-seed_10",
    "google/multiberts-seed_20",
    "roberta-large",
    "roberta-base",
    "gpt2",
    "facebook/opt-125m",
)
"""The paper's models by their names on the hub: BERT in six sizes, its base with seeds 0, 10 and 20 (Fig. 15, 20, 25, 29), RoBERTa
in two sizes, GPT-2 and OPT."""
CORPORA: Mapping[str, Mapping[str, Any]] = {
    "sst2": dict(data="stanfordnlp/sst2", split="validation", column="sentence"),
    "wikipedia": dict(
        data="Salesforce/wikitext",
        subset="wikitext-2-raw-v1",
        split="test",
        column="text",
        min_words=20,
        max_tokens=126,
        limit=992,
    ),
}
"""By name, the source on the hub and how it is read."""
STUDIES = "contextualization,amplification,bypass,outliers,attribution-methods,cost"
SHORT_STUDIES = {"attribution-methods": "sst2", "cost": "wikipedia"}
"""Studies of the first `SHORT_TEXTS` texts only, and their corpus (appendix E.3 and F); without it the first that is given."""
SHORT_TEXTS = 10
SHORT = "-short"
"""End of the folder of these studies."""
FIGURES = {
    "contextualization_changes": "Fig. 3, 14-18",
    "amplification_shares": "Fig. 5, 13",
    "amplification_pmi": "section 5.2",
    "contextualization_cumulative": "Fig. 6, 19-23",
    "bypass_norms": "Fig. 7, 24-27",
    "outliers_correlation": "Fig. 8, 28-31",
    "outliers_scatter": "Fig. 8, 28-31",
    "outliers_ignored": "Fig. 32",
    "attribution-methods": "Fig. 11",
    "cost": "Fig. 12",
}
"""Paper's figures, by the first part of our figures' names."""
LAYERS_OF_NOTE_7 = {"bert-base-uncased": (3, 10, 11), "gpt2": tuple(range(1, 12))}
"""Layers that FF changes much, counted from 1, over which the paper gives correlations (note 7)."""
TABLED_LAYERS = 12
"""Number of layers in Tab. 2 and 3."""

Read: TypeAlias = Callable[[pd.DataFrame, str], str]
"""Function of a table and the model's name: the number in the paper's words, "" where the model has none."""


def _of_component(changes: pd.DataFrame, component: str) -> "pd.Series[float]":
    """Change by a component of the feed-forward block, by layer, over whole maps as in the paper.

    The norm is that of Fig. 3: after the residual connection in Post-LN models, before FF in Pre-LN models. The next layer's norm
    belongs to Fig. 6.
    """
    rows = changes[(changes["cells"] == "all") & (changes["component"] == component)]
    if component == "LN":
        rows = rows[rows["before"].isin(["Atb", "AtbFf", "AtbFfRes"])]
        rows = rows[rows["before"] == rows["before"].min()]
    else:
        rows = rows[rows["after"].isin(rows["after"].iloc[-1:])]
    return rows.set_index("layer")["change"]


def _mean_change(component: str) -> Read:
    def read(changes: pd.DataFrame, _: str) -> str:
        of_layers = _of_component(changes, component)
        return f"{of_layers.mean():.4f}" if len(of_layers) else ""

    return read


def _layers(layers: "pd.Index[int]") -> str:
    """Layers in order, counted from 1 as in the paper."""
    return ", ".join(str(layer + 1) for layer in sorted(layers))


def _most_changed(component: str, number: int) -> Read:
    """As many layers with the largest change as the paper lists of BERT-base."""
    return lambda changes, _: _layers(_of_component(changes, component).nlargest(number).index)


def _by_step(cumulative: pd.DataFrame) -> pd.DataFrame:
    """Change since before FF over whole maps, one row per layer: after FF, its residual connection, the next norm."""
    base = cumulative["before"].iloc[0]
    rows = cumulative[(cumulative["cells"] == "all") & (cumulative["before"] == base)]
    return rows.pivot(index="layer", columns="component", values="change")


def _left(cumulative: pd.DataFrame, _: str) -> str:
    """Fraction of FF's change that remains after the residual connection, and after the next norm: medians over layers."""
    by_step = _by_step(cumulative)
    later = [name for name in ("+RES", "+LN") if name in by_step]
    return ", ".join(f"{name[1:]} {(by_step[name] / by_step['+FF']).median():.0%}" for name in later)


def _cancelled(cumulative: pd.DataFrame, _: str) -> str:
    """Layer with the largest change by FF that the next norm takes back."""
    by_step = _by_step(cumulative)
    return str((by_step["+FF"] - by_step["+LN"]).idxmax() + 1) if "+LN" in by_step else ""


def _ratios(norms: pd.DataFrame) -> "dict[str, pd.Series[float]]":
    """Mean norm of the bypass over that of FF's output by layer, at all tokens and at those of text."""
    rows = norms.dropna(subset="ratio").set_index("layer")
    return {tokens: rows[rows["tokens"] == tokens]["ratio"] for tokens in ("all", "not special")}


def _larger_bypass(norms: pd.DataFrame, _: str) -> str:
    every, text = _ratios(norms).values()
    return f"{(every > 2).sum()} of {len(every)}, at tokens of text {(text > 2).sum()}"


def _smallest_bypass(norms: pd.DataFrame, _: str) -> str:
    return _layers(_ratios(norms)["all"].nsmallest(2).index)


def _correlation(measure: str) -> Read:
    """Correlations from the weakest to the strongest, over the paper's layers where it names them."""

    def read(correlation: pd.DataFrame, model: str) -> str:
        rho = correlation.query("of == 'output'").set_index("layer")[measure].dropna()
        told = f"{rho.max():.2f} to {rho.min():.2f} (all layers)"
        named = rho[rho.index.isin([layer - 1 for layer in LAYERS_OF_NOTE_7.get(model, ())])]
        return f"{named.max():.2f} to {named.min():.2f}, {told}" if len(named) else told

    return read


def _ignored(ignored: pd.DataFrame, _: str) -> str:
    change = ignored[ignored["cells"] == "all"].groupby("dimensions")["change"].mean()
    return f"{change['all']:.4f} to {change['without smallest gains']:.4f}"


def _subwords(shares: pd.DataFrame, _: str) -> str:
    rows = shares.query("occurrences == 2 and category == 'subwords of one word'").set_index("pairs")["share"]
    return f"{rows['layer 0']:.0%} of layer 1, {rows['random']:.0%} of all pairs"


def _mutual_information(pmi: pd.DataFrame, _: str) -> str:
    rho = pmi.query("occurrences == 2")["spearman"].dropna()
    return f"{rho.min():.2f} to {rho.max():.2f}" if len(rho) else "no pairs"


def _pairs(layer: int) -> Read:
    """The ten most amplified pairs of a layer, counted from 1, as (query, key)."""

    def read(top: pd.DataFrame, _: str) -> str:
        rows = top[(top["layer"] == layer - 1) & (top["rank"] <= 10)]
        return ", ".join(f"({query}, {key})" for query, key in zip(rows["query"], rows["key"], strict=True))

    return read


def _by_methods(agreement: pd.DataFrame, _: str) -> str:
    rows = agreement.query("reference == 'ig'").groupby("method")[["change", "map_rho"]].mean()
    ig, shapley = rows.loc["ig"], rows.loc["shapley"]
    return f"{ig['change']:.4f} and {shapley['change']:.4f}, maps correlate at {shapley['map_rho']:.3f}"


def _seconds(seconds: pd.DataFrame, _: str) -> str:
    total = seconds.groupby("method")["seconds"].sum()
    return f"{total['ig']:.3g} and {total['shapley']:.3g}"


def _cost(cost: pd.DataFrame, _: str) -> str:
    rows = cost.dropna(subset="maps")[["tokens", "maps"]].itertuples(index=False)
    return ", ".join(f"{maps:.2g} at {tokens}" for tokens, maps in rows)


@dataclass(frozen=True)
class Claim:
    """A number of the paper: its name in `paper.csv`, the study's table, and how it is read there."""

    what: str
    table: str
    read: Read


CLAIMS = (
    Claim("sequences", "contextualization_changes", lambda table, _: str(table["sequences"].max())),
    Claim("mean change by FF, whole maps", "contextualization_changes", _mean_change("FF")),
    Claim("mean change by LN, whole maps", "contextualization_changes", _mean_change("LN")),
    Claim("layers that FF changes most", "contextualization_changes", _most_changed("FF", 4)),
    Claim("layers that LN changes most", "contextualization_changes", _most_changed("LN", 2)),
    Claim("subwords among the most amplified pairs", "amplification_shares", _subwords),
    Claim("Spearman of FF-amp and mutual information", "amplification_pmi", _mutual_information),
    Claim("share of FF's change that remains", "contextualization_cumulative", _left),
    Claim("layers with a bypass more than twice FF's output", "bypass_norms", _larger_bypass),
    Claim("layers with the smallest bypass over FF's output", "bypass_norms", _smallest_bypass),
    Claim("Pearson of FF's output and the next gain", "outliers_correlation", _correlation("pearson")),
    Claim("Spearman of FF's output and the next gain", "outliers_correlation", _correlation("spearman")),
    Claim("layer where LN cancels FF's change most", "contextualization_cumulative", _cancelled),
    Claim("mean change by FF with all dimensions, and without the 1 % of smallest gains", "outliers_ignored", _ignored),
    Claim("change by FF, by IG and by exact Shapley values", "attribution-methods_agreement", _by_methods),
    Claim("seconds by IG and by exact Shapley values", "attribution-methods_time", _seconds),
    Claim("seconds of all maps by number of tokens", "cost_time", _cost),
    *(Claim(f"most amplified pairs, layer {n + 1}", "amplification_top_pairs", _pairs(n + 1)) for n in range(TABLED_LAYERS)),
)  # fmt: skip
"""Claims that are compared."""


@cache
def paper_numbers() -> pd.DataFrame:
    """Numbers of the paper, one row each: place, what, model, corpus, value. An empty model or corpus is every one of the paper's."""
    return pd.read_csv(Path(__file__).with_name("paper.csv"), dtype=str, keep_default_na=False)


@dataclass(frozen=True)
class Replication:
    """Runs of a replication, and their comparison with the paper."""

    folder: Path
    comparison: pd.DataFrame
    """One row per claim, model and corpus: place, what, model, corpus, measured, paper, paper_of."""
    runs: Mapping[tuple[str, str], CorpusRun]
    """Runs by model and corpus; those of short inputs by the corpus with `SHORT` after it."""
    failed: Mapping[str, str]
    """Models that could not be loaded or decomposed, with the reason."""

    @property
    def status(self) -> int:
        """Exit status: 0 complete; 3 complete, but lines or sequences were skipped; 1 if a run or a model is missing."""
        found = {run.status for run in self.runs.values()}
        return 1 if self.failed or 1 in found else max(found, default=1)


@strict
def replicate(
    out: str | os.PathLike[str],
    *,
    models: Sequence[str] = tuple(SHIPPED),
    corpora: Mapping[str, str | None] | None = None,
    studies: str = STUDIES,
    **settings: Any,
) -> Replication:
    """Runs of the paper's studies for every model and corpus, with a page that compares them; interrupted runs are continued.

    Args:
        out: Folder: runs by model and corpus, `comparison.csv`, `index.html`.
        models: Models that packages ship, names on the hub, or folders in Hugging Face format; `MODELS` are the paper's.
        corpora: Names of `CORPORA`, each with a file, folder or name to read instead of its own, or None; None means both.
        studies: Names separated by commas.
        **settings: Fields of every run's `Config`: limit, engine, workers, device, ...

    Raises:
        InputError: for a corpus that the paper does not have, two models of one name, or as in `run_studies`.
        OSError: if the folder cannot be written.
    """
    sources = dict.fromkeys(CORPORA) if corpora is None else corpora
    if unknown := [name for name in sources if name not in CORPORA]:
        raise InputError(f"corpora: {unknown[0]!r} is not a corpus of the paper; expected {', '.join(CORPORA)}.")
    folders = {model: _slug(model) for model in models}
    if not models or not sources or len(set(folders.values())) < len(models):
        raise InputError(
            f"models={list(models)}, corpora={list(sources)}: expected one or more of each, and different names of models."
        )
    runs: dict[tuple[str, str], CorpusRun] = {}
    failed = {}
    for model, folder in folders.items():
        try:
            loaded = (
                None if settings.get("engine") == "ray" else load_model(model, device=settings.get("device", "cpu"))
            )
            for corpus, source in sources.items():
                own = {**CORPORA[corpus], **({} if source is None else {"data": source, "subset": None}), **settings}
                for end, names, limits in _parts(studies, own, corpus, tuple(sources)):
                    config = Config(model=model, out=str(Path(out, folder, corpus + end)), **{**own, **limits})
                    runs[model, corpus + end] = run_studies(names, config, model=loaded)
        except (ModelLoadError, UnsupportedModelError) as error:  # the other models can run
            failed[model] = str(error)
    comparison = compared({name: run.tables for name, run in runs.items()})
    Path(out).mkdir(parents=True, exist_ok=True)
    write_table(Path(out, "comparison.csv"), comparison)
    write_atomically(Path(out, "index.html"), _page(Path(out), comparison, runs, failed).encode("utf-8"))
    return Replication(Path(out), comparison, runs, failed)


def _parts(
    studies: str, settings: Mapping[str, Any], corpus: str, corpora: Sequence[str]
) -> list[tuple[str, str, dict[str, int]]]:
    """Runs of one model and corpus: the end of their folder, their studies, and the limit of the run of short inputs."""
    names = study_names(studies)
    long = ",".join(name for name in names if name not in SHORT_STUDIES)
    read_by = {name: own if own in corpora else corpora[0] for name, own in SHORT_STUDIES.items()}
    short = ",".join(name for name in names if read_by.get(name) == corpus)
    limit = min(SHORT_TEXTS, settings.get("limit") or SHORT_TEXTS)
    return [part for part in (("", long, dict[str, int]()), (SHORT, short, {"limit": limit})) if part[1]]


def compared(tables: Mapping[tuple[str, str], Mapping[str, pd.DataFrame]]) -> pd.DataFrame:
    """Table of every claim for every run that has its table.

    Args:
        tables: Tables of each run, by model and corpus.
    """
    rows = []
    for claim in CLAIMS:
        for (model, run), of_run in tables.items():
            table = of_run.get(claim.table)
            measured = "" if table is None or table.empty else claim.read(table, _slug(model))
            if measured:
                corpus = run.removesuffix(SHORT)
                place, paper, paper_of = _paper(claim.what, _slug(model), corpus)
                rows.append((place, claim.what, _slug(model), corpus, measured, paper, paper_of))
    return pd.DataFrame(rows, columns=["place", "what", "model", "corpus", "measured", "paper", "paper_of"])


def _paper(what: str, model: str, corpus: str) -> tuple[str, str, str]:
    """Place and value of a claim in the paper, and the models and corpora that it is of where these are others."""
    numbers = paper_numbers()
    of = numbers[numbers["what"] == what]
    every = ("",) if model in map(_slug, MODELS) else ()
    of_model, of_corpus = of["model"].isin([model, *every]), of["corpus"].isin([corpus, ""])
    chosen = next(rows for rows in (of[of_model & of_corpus], of[of_model], of[of_corpus], of) if len(rows))
    if (chosen["model"] == model).any():  # a number of this model alone comes before one of all
        chosen = chosen[chosen["model"] == model]
    others = [
        f"{m or 'its models'} on {c or 'its corpora'}" for m, c in zip(chosen["model"], chosen["corpus"], strict=True)
    ]
    own = (of_model & of_corpus).any()
    return "; ".join(dict.fromkeys(chosen["place"])), "; ".join(chosen["value"]), "" if own else "; ".join(others)


def _slug(model: str) -> str:
    """Folder name of a model, from the last part of its name."""
    return re.sub(r"[^\w.-]+", "-", Path(model).name)


def _page(
    out: Path, comparison: pd.DataFrame, runs: Mapping[tuple[str, str], CorpusRun], failed: Mapping[str, str]
) -> str:
    """Page of the comparison, with the figures of all runs by the paper's numbers; links lead to each run's report."""
    is_pairs = comparison["what"].str.startswith("most amplified pairs")
    parts = [
        "<!doctype html><meta charset='utf-8'><title>Replication of Kobayashi et al. 2024</title>",
        "<style>body{font:15px sans-serif;max-width:75rem;margin:2rem auto}td,th{padding:.2rem .6rem;text-align:left;"
        "vertical-align:top}figure{display:inline-block;margin:.5rem}img{width:22rem}</style>",
        "<h1>Replication of Kobayashi et al. 2024</h1>",
        "<p>Layers are counted from 1, as in the paper. Where “paper_of” names models, the paper has no number of this model and "
        "corpus, and “paper” has theirs. An empty cell under “paper” is a number that the paper does not have.</p>",
        comparison[~is_pairs].to_html(index=False, border=0),
        *(f"<p>{html.escape(f'{model}: {why}')}</p>" for model, why in failed.items()),
    ]
    finished = {name: run.outputs for name, run in runs.items() if run.outputs is not None}
    for begins, place in FIGURES.items():
        drawn = [
            (model, corpus, path.relative_to(out).as_posix(), outputs.report.relative_to(out).as_posix())
            for (model, corpus), outputs in finished.items()
            for path in outputs.figures
            if path.suffix == ".png" and path.stem.startswith(begins)
        ]
        parts += [f"<h2>{place}: {begins}</h2>"] * bool(drawn)
        for model, corpus, picture, report in drawn:
            label = html.escape(f"{_slug(model)}, {corpus}")
            source, link = (html.escape(path, quote=True) for path in (picture, report))
            parts.append(
                f'<figure><img src="{source}" alt="{label}"><figcaption><a href="{link}">{label}</a></figcaption></figure>'
            )
    if is_pairs.any():
        parts.append("<h2>Tab. 1-3: most amplified pairs as (query, key)</h2>")
        parts.append("<p>A space is _ in the paper and · here.</p>")
        parts.append(comparison[is_pairs].to_html(index=False, border=0))
    return "\n".join(parts) + "\n"
