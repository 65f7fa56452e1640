# Noun: replication of a paper's experiments (Kobayashi et al. 2024).
"""The studies of Kobayashi et al. 2024 on the paper's models and corpora, with the paper's numbers where they are known here.

    replicate("replication", models=("gpt2", "bert-base-uncased"))

Each model and corpus has a folder with a run of `run_studies`, which continues after an interruption. `comparison.csv` and
`index.html` compare the runs: numbers of `CLAIMS`, and figures by the paper's figure numbers.

The paper shows curves without tables, so few of its numbers are known here; unknown ones are empty. Its three seeds of
MultiBERTs are not known here either: seeds 0, 1 and 2 are used. Its excerpts of Wikipedia are not on a hub. Paragraphs of
WikiText-2 replace them, as in docs/results, unless you pass another source.
"""

import html
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from tl_ffblock.bridge.loading import load_model
from tl_ffblock.corpus.runs import CorpusRun
from tl_ffblock.corpus.settings import Config
from tl_ffblock.errors import InputError, ModelLoadError, UnsupportedModelError
from tl_ffblock.experiments import run_studies
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
    "google/multiberts-seed_1",
    "google/multiberts-seed_2",
    "roberta-large",
    "roberta-base",
    "gpt2",
    "facebook/opt-125m",
)
"""Names on the hub: BERT in six sizes, three more seeds of its base, RoBERTa in two sizes, GPT-2 and OPT."""
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
STUDIES = "contextualization,amplification,bypass,outliers"
FIGURES = {
    "contextualization_changes": "Fig. 3, 14-18",
    "amplification_shares": "Tab. 1-3, Fig. 5",
    "amplification_pmi": "section 5.2",
    "contextualization_cumulative": "Fig. 6, 19-23",
    "bypass_norms": "Fig. 7, 24-27",
    "outliers": "Fig. 8, 32",
    "attribution-methods": "Fig. 11",
    "cost": "Fig. 12",
}
"""Paper's figures, by the first part of our figures' names."""
TABLES = {"amplification_top_pairs": "Tab. 1-3"}
"""Tables of the paper that are tables here."""
_MOST = 3
"""Number of layers with the largest change that are listed."""

Read: TypeAlias = Callable[[pd.DataFrame], str]


def _of_component(changes: pd.DataFrame, component: str) -> "pd.Series[float]":
    """Change by a component, by layer, over whole maps as in the paper; for a repeated component the last in a layer."""
    rows = changes[(changes["cells"] == "all") & (changes["component"] == component)]
    return rows[rows["after"] == rows["after"].iloc[-1]].set_index("layer")["change"]


def _mean_change(component: str) -> Read:
    return lambda changes: f"{_of_component(changes, component).mean():.4f}"


def _most_changed(component: str) -> Read:
    """Layers with the largest change, counted from 1 as in the paper."""
    return lambda changes: ", ".join(
        str(layer + 1) for layer in sorted(_of_component(changes, component).nlargest(_MOST).index)
    )


def _left(cumulative: pd.DataFrame) -> str:
    """Fraction of FF's change that remains after the residual connection, and after the next norm: medians over layers."""
    base = cumulative["before"].iloc[0]
    rows = cumulative[(cumulative["cells"] == "all") & (cumulative["before"] == base)]
    by_step = rows.pivot(index="layer", columns="component", values="change")
    later = [name for name in ("+RES", "+LN") if name in by_step]
    return ", ".join(f"{name[1:]} {(by_step[name] / by_step['+FF']).median():.0%}" for name in later)


def _larger_bypass(norms: pd.DataFrame) -> str:
    ratio = norms.query("tokens == 'not special'")["ratio"].dropna()
    return f"in {int((ratio > 2).sum())} of {len(ratio)} layers"


def _correlation(correlation: pd.DataFrame) -> str:
    pearson = correlation.query("of == 'output'")["pearson"]
    return f"{pearson.min():.2f} to {pearson.max():.2f}"


def _subwords(shares: pd.DataFrame) -> str:
    rows = shares.query("occurrences == 2 and category == 'subwords of one word'").set_index("pairs")["share"]
    return f"{rows['layer 0']:.0%} of layer 1, {rows['random']:.0%} of all pairs"


def _mutual_information(pmi: pd.DataFrame) -> str:
    rho = pmi.query("occurrences == 2")["spearman"].dropna()
    return f"{rho.min():.2f} to {rho.max():.2f}" if len(rho) else "no pairs"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and the number that a table has for it."""

    place: str
    what: str
    table: str
    read: Read
    paper: Mapping[str, str] = field(default_factory=dict)
    """The paper's value, by the last part of a model's name; "" is for all its models."""


CLAIMS = (
    Claim("Fig. 3", "mean change by FF, whole maps", "contextualization_changes", _mean_change("FF"), {"gpt2": "about 0.15"}),
    Claim("Fig. 3", "layers that FF changes most", "contextualization_changes", _most_changed("FF"), {"bert-base-uncased": "3, 9-11"}),
    Claim("Fig. 3", "layers that LN changes most", "contextualization_changes", _most_changed("LN"), {"bert-base-uncased": "10, 11"}),
    Claim("Fig. 6", "share of FF's change that remains", "contextualization_cumulative", _left, {"": "largely cancelled by RES and LN"}),
    Claim("Fig. 7", "bypass more than twice FF's output", "bypass_norms", _larger_bypass, {"": "more than twice as large"}),
    Claim("Fig. 8", "Pearson of FF's output and the next gain", "outliers_correlation", _correlation, {"": "negative"}),
    Claim("Fig. 5", "subwords among the most amplified pairs", "amplification_shares", _subwords, {"": "in early layers"}),
    Claim("5.2", "Spearman of FF-amp and mutual information", "amplification_pmi", _mutual_information, {"": "weak"}),
)  # fmt: skip
"""Claims that are compared."""


@dataclass(frozen=True)
class Replication:
    """Runs of a replication, and their comparison with the paper."""

    folder: Path
    comparison: pd.DataFrame
    """One row per claim, model and corpus: place, what, model, corpus, measured, paper."""
    runs: Mapping[tuple[str, str], CorpusRun]
    """Runs by model and corpus."""
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
    models: Sequence[str] = MODELS,
    corpora: Mapping[str, str | None] | None = None,
    studies: str = STUDIES,
    **settings: Any,
) -> Replication:
    """Runs of the paper's studies for every model and corpus, with a page that compares them; interrupted runs are continued.

    Args:
        out: Folder: one run per model and corpus, `comparison.csv`, `index.html`.
        models: Names on the hub, or folders in Hugging Face format.
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
                own = {**CORPORA[corpus], **({} if source is None else {"data": source, "subset": None})}
                config = Config(model=model, out=str(Path(out, folder, corpus)), **{**own, **settings})
                runs[model, corpus] = run_studies(studies, config, model=loaded)
        except (ModelLoadError, UnsupportedModelError) as error:  # the other models can run
            failed[model] = str(error)
    comparison = compared(runs)
    Path(out).mkdir(parents=True, exist_ok=True)
    write_table(Path(out, "comparison.csv"), comparison)
    write_atomically(Path(out, "index.html"), _page(Path(out), comparison, runs, failed).encode("utf-8"))
    return Replication(Path(out), comparison, runs, failed)


def compared(runs: Mapping[tuple[str, str], CorpusRun]) -> pd.DataFrame:
    """Table of every claim for every run that has its table."""
    rows = [
        (
            claim.place,
            claim.what,
            _slug(model),
            corpus,
            claim.read(table),
            claim.paper.get(_slug(model), claim.paper.get("", "")),
        )
        for claim in CLAIMS
        for (model, corpus), run in runs.items()
        if (table := run.tables.get(claim.table)) is not None and len(table)
    ]
    return pd.DataFrame(rows, columns=["place", "what", "model", "corpus", "measured", "paper"])


def _slug(model: str) -> str:
    """Folder name of a model, from the last part of its name."""
    return re.sub(r"[^\w.-]+", "-", Path(model).name)


def _page(
    out: Path, comparison: pd.DataFrame, runs: Mapping[tuple[str, str], CorpusRun], failed: Mapping[str, str]
) -> str:
    """Page of the comparison, with the figures of all runs by the paper's numbers; links lead to each run's report."""
    parts = [
        "<!doctype html><meta charset='utf-8'><title>Replication of Kobayashi et al. 2024</title>",
        "<style>body{font:15px sans-serif;max-width:75rem;margin:2rem auto}td,th{padding:.2rem .6rem;text-align:left}"
        "figure{display:inline-block;margin:.5rem}img{width:22rem}</style>",
        "<h1>Replication of Kobayashi et al. 2024</h1>",
        "<p>An empty cell under “paper” is a number that is not known here. Layers are counted from 1, as in the paper.</p>",
        comparison.to_html(index=False, border=0),
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
    for name, place in TABLES.items():
        for (model, corpus), run in runs.items():
            if name in run.tables:
                parts.append(f"<h2>{place}: {html.escape(f'{_slug(model)}, {corpus}')}</h2>")
                parts.append(run.tables[name].query("rank <= 10").to_html(index=False, border=0))
    return "\n".join(parts) + "\n"
