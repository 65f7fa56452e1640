"""Studies of papers, and your own, on any model and corpus, in runs that continue after an interruption.

    from tl_ffblock.experiments import Config, run_studies, study

    config = Config(model="minilm", data="corpus.txt", out="results")
    finished = run_studies("contextualization,bypass", config)
    finished.tables["contextualization_changes"]
    run_studies([study("outliers", ignored_dimensions=0)], Config(model="minilm", data="corpus.txt", out="more"))

1. The folder of a paper (`kobayashi/`) has one file per study: its class and, if it has options, their frozen dataclass. A new
   study needs its file, its line in `STUDIES` and its test. A study outside this package is named by the path of its class,
   `module:Class`.
2. A study's file is imported when the study is run. Names and help texts of its options are read from its source.
3. `tl_ffblock.corpus`, which runs studies, does not depend on any of them.
"""

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tl_ffblock.corpus.settings import Config, DeclaredField, class_body, declared_fields, require
from tl_ffblock.errors import InputError
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    from tl_ffblock.corpus.runs import CorpusRun
    from tl_ffblock.corpus.study import StudySpec

__all__ = ["STUDIES", "Config", "run_studies", "study"]

STUDIES = {
    "contextualization": "tl_ffblock.experiments.kobayashi.contextualization:Contextualization",
    "between-layers": "tl_ffblock.experiments.kobayashi.between_layers:BetweenLayers",
    "amplification": "tl_ffblock.experiments.kobayashi.amplification:Amplification",
    "bypass": "tl_ffblock.experiments.kobayashi.bypass:Bypass",
    "outliers": "tl_ffblock.experiments.kobayashi.outliers:Outliers",
    "attribution-methods": "tl_ffblock.experiments.kobayashi.attribution:AttributionMethods",
    "cost": "tl_ffblock.experiments.kobayashi.cost:Cost",
    "heads": "tl_ffblock.experiments.clark.heads:Heads",
    "probes": "tl_ffblock.experiments.clark.probes:Probes",
    "memories": "tl_ffblock.experiments.geva.memories:MemoriesStudy",
}
"""Import path of each study's class, `module:Class`."""
PAPERS = {"kobayashi": "Kobayashi et al. 2024", "clark": "Clark et al. 2019", "geva": "Geva et al. 2021"}
"""Paper of each folder of studies."""


def option_fields(name: str) -> tuple[DeclaredField, ...]:
    """Options of a study of `STUDIES`, read without importing it."""
    module, _, class_name = STUDIES[name].partition(":")
    for node in class_body(module, class_name):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "options":
            return declared_fields(module, ast.unparse(node.annotation))
    return ()


def studies_of(paper: str) -> tuple[str, ...]:
    """Names of the studies of a paper, a key of `PAPERS`."""
    return tuple(name for name, home in STUDIES.items() if home.split(".")[2] == paper)


def study_title(name: str) -> str:
    """Title of a study of `STUDIES`, read without importing it."""
    (title,) = (
        ast.literal_eval(node.value)
        for node in class_body(*STUDIES[name].split(":"))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "title"
    )
    return str(title)


def study_names(studies: str) -> tuple[str, ...]:
    """Names of studies in a string with commas.

    Raises:
        InputError: if a name is unknown, or there is none.
    """
    names = tuple(name.strip() for name in studies.split(",") if name.strip())
    unknown = [name for name in names if name not in STUDIES and ":" not in name]
    if unknown or not names:
        wrong = f"there is no study {unknown[0]!r}" if unknown else "no study is given"
        raise InputError(f"{wrong}; expected one or more of {', '.join(STUDIES)}, or module:Class of your own.")
    return names


@strict
def study(name: str, **options: Any) -> "StudySpec":
    """Spec of a study with its options, for `run_studies`.

    Args:
        name: One of `STUDIES`, or `module:Class` of your own study.
        **options: Options of the study; defaults for the others.

    Raises:
        InputError: if there is no such study or option, an option has no such value, or a package is missing.
    """
    (name,) = study_names(name)
    require()  # before importing the modules that need them
    from tl_ffblock.corpus.study import StudySpec

    return StudySpec.of(STUDIES.get(name, name), **options)


@strict
def run_studies(studies: "str | Sequence[str | StudySpec]", config: Config, *, model: Any = None) -> "CorpusRun":
    """Result of studies on a corpus: tables, figures and report. An interrupted run is continued.

    Tables of a continued run are byte for byte those of an uninterrupted one.

    Args:
        studies: Names separated by commas, or a list of names and specs of `study`. A name may be `module:Class` of your own
            study. They share one pass over the data.
        config: Settings of the run.
        model: The loaded model (local engine only); None loads `config.model`.

    Raises:
        InputError: if studies, config, data or model cannot be used, or the folder has another run.
        ModelLoadError: if the model does not exist.
        EngineError: if Ray workers cannot be started, or die repeatedly.
        OSError: if the folder cannot be written.
    """
    asked = study_names(studies) if isinstance(studies, str) else studies
    specs = [study(each) if isinstance(each, str) else each for each in asked]
    from tl_ffblock.corpus.runs import run_corpus

    return run_corpus(config, specs, model=model)
