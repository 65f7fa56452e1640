"""The table of studies: each line is a study that can be run."""

from importlib import import_module

import pytest

from tl_ffblock.corpus.study import Study
from tl_ffblock.experiments import STUDIES, study


@pytest.mark.parametrize("name", STUDIES)
def test_every_line_is_a_study(name: str) -> None:
    """Its class is called as its line is, says what it is about, and has a test file or a test that names it."""
    entry = STUDIES[name]
    study_class = getattr(import_module(entry.module), entry.study)
    assert issubclass(study_class, Study) and study_class.name == name and study_class.title
    assert study(name).home == f"{entry.module}:{entry.study}"


@pytest.mark.parametrize("name", [name for name, entry in STUDIES.items() if entry.options])
def test_options_are_those_of_the_line(name: str) -> None:
    """What is set is what the study gets, and stands in the fingerprint by the study's name."""
    field = STUDIES[name].fields[0]
    spec = study(name, **{field.name: field.default})
    assert getattr(spec.options, field.name) == field.default
    assert spec.fingerprint()[f"{name}.{field.name}"] == field.default
