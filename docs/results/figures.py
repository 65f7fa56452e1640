"""Draws the figures of stored runs anew, from the tables beside them: after a change of how studies draw.

    python -m docs.results.figures          # from the root of the repository

Those of `contextualization`, `outliers` and `heads` are as the runs drew them; of the dimensions behind `outliers_scatter`, and of
the divergences behind `plane`, too little is stored. What is stored without its deviation is drawn without it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd

from tl_ffblock.corpus.outputs import signature
from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.study import ModelFacts, Study, Tables
from tl_ffblock.experiments.geva.memories import MemoriesOptions, MemoriesStudy
from tl_ffblock.experiments.kobayashi.amplification import Amplification, AmplificationOptions
from tl_ffblock.experiments.kobayashi.attribution import DRAWN, AttributionMethods, AttributionOptions
from tl_ffblock.experiments.kobayashi.bypass import Bypass
from tl_ffblock.experiments.kobayashi.cost import TIMED, Cost, CostOptions
from tl_ffblock.results.figures import STYLE, sign

FOLDER = Path(__file__).resolve().parent
MODELS = {
    "minilm": ModelFacts("all-MiniLM-L6-v2", "post_ln", causal=False, n_layers=6, label=str),
    "smollm2": ModelFacts("SmolLM2-135M-Instruct", "pre_ln", causal=True, n_layers=30, label=str),
}
DATA = {
    "sst2": "sst2_glue_dev.tsv",
    "streusle": "streusle.ud_dev.conllulex",
    "wikitext2": "wikitext2_test.txt",
    "ewt": "ewt.conllu",
}
METHODS = "minilm-methods"
OF_METHODS = "all-MiniLM-L6-v2 · SST-2 dev · 2 sequences"
"""What the run of methods read; it left no summary."""
STUDIES = {
    Bypass: None,
    Amplification: AmplificationOptions(),
    AttributionMethods: AttributionOptions(),
    Cost: CostOptions(),
}
"""Studies whose tables have their name in front, with their options."""


@dataclass(frozen=True)
class Redrawn:
    """A study of a stored run."""

    study: Study
    tables: Tables
    folder: Path
    prefix: str
    """Of its files."""
    signature: str


def redrawn() -> Iterator[Redrawn]:
    """Every study of every run whose tables hold all that its figures show."""
    for folder in sorted(path for path in FOLDER.iterdir() if path.is_dir()):
        model, *rest = folder.name.removeprefix("memories-").split("-")
        facts, config = MODELS.get(model), Config("", "", "")
        if facts is None:
            continue
        signed = OF_METHODS
        if folder.name != METHODS:
            summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
            signed = signature(facts.name, DATA[rest[0]], summary)
        if folder.name.startswith("memories-"):
            study: Study = MemoriesStudy(config, facts, MemoriesOptions())
            yield Redrawn(study, _stored(folder, ""), folder, "", signed)
        for study_class, options in STUDIES.items():
            study = study_class(config, facts, options)
            prefix = f"{study.name}_"
            tables = _stored(folder, prefix)
            if tables:
                yield Redrawn(study, tables, folder, prefix, signed)


def _stored(folder: Path, prefix: str) -> Tables:
    tables = {path.stem.removeprefix(prefix): pd.read_csv(path) for path in folder.glob(f"{prefix}*.csv")}
    if folder.name == METHODS:
        for table in tables.values():
            for name in (*DRAWN, *TIMED):
                if name in table:
                    table[f"{name}_deviation"] = np.nan
            table["sequences"] = 2
    return tables


def main() -> None:
    """Write the pictures that stand beside the tables already."""
    for each in redrawn():
        for name, figure in each.study.figures(each.tables).items():
            file = each.folder / f"{each.prefix}{name}.png"
            if file.is_file():
                sign(figure, each.signature)
                with mpl.rc_context(STYLE):
                    figure.savefig(file, metadata={"Software": None})
                print(file)


if __name__ == "__main__":
    main()
