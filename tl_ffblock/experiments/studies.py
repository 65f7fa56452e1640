"""The studies by name. To add one: its file in a paper's folder, its line in `STUDIES`, its test.

A study's file holds its class and, if it has options, their frozen dataclass; it is imported when the study is run,
and its options are read from its source where only their names and texts are asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tl_ffblock.corpus.extras import require
from tl_ffblock.corpus.fields import DeclaredField, declared_fields
from tl_ffblock.corpus.settings import Config
from tl_ffblock.errors import CallError, InputError, did_you_mean
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    from tl_ffblock.corpus.runs import CorpusRun
    from tl_ffblock.corpus.study import StudySpec

_CLARK = "tl_ffblock.experiments.clark"
_GEVA = "tl_ffblock.experiments.geva"
_KOBAYASHI = "tl_ffblock.experiments.kobayashi"


@dataclass(frozen=True)
class StudyEntry:
    """Where a study is."""

    module: str
    study: str
    """Name of its class."""
    options: str | None = None
    """Name of the class of its options."""

    @property
    def fields(self) -> tuple[DeclaredField, ...]:
        """Its options, read without importing it."""
        return () if self.options is None else declared_fields(self.module, self.options)


STUDIES = {
    "contextualization": StudyEntry(f"{_KOBAYASHI}.contextualization", "Contextualization"),
    "amplification": StudyEntry(f"{_KOBAYASHI}.amplification", "Amplification", "AmplificationOptions"),
    "bypass": StudyEntry(f"{_KOBAYASHI}.bypass", "Bypass"),
    "outliers": StudyEntry(f"{_KOBAYASHI}.outliers", "Outliers", "OutliersOptions"),
    "attribution-methods": StudyEntry(f"{_KOBAYASHI}.attribution", "AttributionMethods", "AttributionOptions"),
    "cost": StudyEntry(f"{_KOBAYASHI}.cost", "Cost", "CostOptions"),
    "heads": StudyEntry(f"{_CLARK}.heads", "Heads", "HeadsOptions"),
    "probes": StudyEntry(f"{_CLARK}.probes", "Probes", "ProbesOptions"),
    "memories": StudyEntry(f"{_GEVA}.memories", "MemoriesStudy", "MemoriesOptions"),
}


@strict
def study(name: str, **options: Any) -> "StudySpec":
    """Choose a study and set its options.

    Raises:
        InputError: if there is no such study or option, or a value that the option does not take.
    """
    (name,) = study_names(name)
    entry = STUDIES[name]
    known = [field.name for field in entry.fields]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise CallError(
            f"{name} has no option {', '.join(unknown)}; it has {', '.join(known) or 'none'}. {did_you_mean(unknown[0], known)}".rstrip()
        )
    require()  # before the import of what needs them
    from tl_ffblock.corpus.study import StudySpec

    home = f"{entry.module}:{entry.study}"
    if entry.options is None:
        return StudySpec(home)
    return StudySpec(home, getattr(import_module(entry.module), entry.options)(**options))


def study_names(studies: str) -> tuple[str, ...]:
    """Split names with commas between them.

    Raises:
        InputError: if one is unknown or comes twice.
    """
    names = tuple(name.strip() for name in studies.split(",") if name.strip())
    unknown = [name for name in names if name not in STUDIES]
    if unknown or not names:
        wrong = f"there is no study {unknown[0]!r}" if unknown else "no study is named"
        raise InputError(f"{wrong}; expected one or several of {', '.join(STUDIES)}.")
    if len(set(names)) != len(names):
        raise InputError(f"{studies!r} names a study twice.")
    return names


@strict
def run_studies(studies: "str | Sequence[StudySpec]", config: Config, *, model: Any = None) -> "CorpusRun":
    """Run studies on a corpus, or continue them: the result is that of an uninterrupted run, byte for byte.

    Args:
        studies: Names with commas between them, or what `study` gives; they share one pass over the data.
        config: The run.
        model: The model if it is loaded already (local engine); else `config.model` is loaded.

    Raises:
        InputError: if studies, config, data or model cannot be used, or the folder holds another run.
        ModelLoadError: if the model is not there.
        OSError: if the folder cannot be written.
    """
    specs = [study(name) for name in study_names(studies)] if isinstance(studies, str) else studies
    from tl_ffblock.corpus.runs import run_corpus

    return run_corpus(config, specs, model=model)
