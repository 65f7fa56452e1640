"""Studies of papers, and of your own, on any model and corpus, in runs that survive a kill.

    from tl_ffblock.experiments import Config, run_studies, study

    config = Config(model="minilm", data="corpus.txt", out="results")
    finished = run_studies("contextualization,bypass", config)
    finished.tables["contextualization_changes"]
    run_studies([study("outliers", ignored_dimensions=0)], Config(model="minilm", data="corpus.txt", out="more"))

1. A paper's folder (`kobayashi/`) holds one file per study: its class and, if it has options, their frozen dataclass. To add
   one: its file, its line in `STUDIES`, its test. A study outside this package is named by where its class is, `module:Class`.
2. A study's file is imported when the study is run; its options are read from its source where only their names and texts are
   asked for.
3. What makes runs of them, `tl_ffblock.corpus`, knows none of them.
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
"""Where the class of each study is, as `module:Class`."""
PAPERS = {"kobayashi": "Kobayashi et al. 2024", "clark": "Clark et al. 2019", "geva": "Geva et al. 2021"}
"""The paper of each folder of studies."""


def option_fields(name: str) -> tuple[DeclaredField, ...]:
    """The options of a study of `STUDIES`, read without importing it."""
    module, _, class_name = STUDIES[name].partition(":")
    for node in class_body(module, class_name):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "options":
            return declared_fields(module, ast.unparse(node.annotation))
    return ()


def studies_of(paper: str) -> tuple[str, ...]:
    """The studies of a paper, a key of `PAPERS`."""
    return tuple(name for name, home in STUDIES.items() if home.split(".")[2] == paper)


def study_title(name: str) -> str:
    """What a study of `STUDIES` is about, read without importing it."""
    (title,) = (
        ast.literal_eval(node.value)
        for node in class_body(*STUDIES[name].split(":"))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "title"
    )
    return str(title)


def study_names(studies: str) -> tuple[str, ...]:
    """Split names with commas between them.

    Raises:
        InputError: if one is unknown.
    """
    names = tuple(name.strip() for name in studies.split(",") if name.strip())
    unknown = [name for name in names if name not in STUDIES and ":" not in name]
    if unknown or not names:
        wrong = f"there is no study {unknown[0]!r}" if unknown else "no study is named"
        raise InputError(f"{wrong}; expected one or several of {', '.join(STUDIES)}, or module:Class of your own.")
    return names


@strict
def study(name: str, **options: Any) -> "StudySpec":
    """Choose a study and set its options.

    Args:
        name: One of `STUDIES`, or `module:Class` of a study of your own.
        **options: Of the study; their defaults where they are not given.

    Raises:
        InputError: if there is no such study or option, or a value that the option does not take.
    """
    (name,) = study_names(name)
    require()  # before the import of what needs them
    from tl_ffblock.corpus.study import StudySpec

    return StudySpec.of(STUDIES.get(name, name), **options)


@strict
def run_studies(studies: "str | Sequence[str | StudySpec]", config: Config, *, model: Any = None) -> "CorpusRun":
    """Run studies on a corpus, or continue them: the result is that of an uninterrupted run, byte for byte.

    Args:
        studies: Names with commas between them, or a list of names and of what `study` gives; a name may be `module:Class` of a
            study of your own. They share one pass over the data.
        config: The run.
        model: The model if it is loaded already (local engine); else `config.model` is loaded.

    Raises:
        InputError: if studies, config, data or model cannot be used, or the folder holds another run.
        ModelLoadError: if the model is not there.
        OSError: if the folder cannot be written.
    """
    asked = study_names(studies) if isinstance(studies, str) else studies
    specs = [study(each) if isinstance(each, str) else each for each in asked]
    from tl_ffblock.corpus.runs import run_corpus

    return run_corpus(config, specs, model=model)
