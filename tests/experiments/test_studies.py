"""The table of studies: each line is a study that can be run."""

import pytest

from tl_ffblock.corpus.study import Study
from tl_ffblock.experiments import STUDIES, option_fields, study


@pytest.mark.parametrize("name", STUDIES)
def test_every_line_is_a_study(name: str) -> None:
    """Its class is called as its line is, says what it is about, and has a test file or a test that names it."""
    spec = study(name)
    assert issubclass(spec.study_class, Study) and spec.study_class.name == name and spec.study_class.title
    assert spec.home == STUDIES[name]


@pytest.mark.parametrize("name", list(filter(option_fields, STUDIES)))
def test_options_are_those_of_the_line(name: str) -> None:
    """What is set is what the study gets, and stands in the fingerprint by the study's name."""
    field = option_fields(name)[0]
    spec = study(name, **{field.name: field.default})
    assert getattr(spec.options, field.name) == field.default
    assert spec.fingerprint()[f"{name}.{field.name}"] == field.default
