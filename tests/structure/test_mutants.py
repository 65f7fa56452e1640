"""The table of deliberate faults is about the present code."""

from pathlib import Path

import pytest

from tests.mutants import MUTANTS, ROOT, Mutant, mutated


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "_"))
def test_a_fault_has_its_place_and_its_tests(mutant: Mutant) -> None:
    """The text that is replaced is in its file once, what replaces it is another, and the tests are there."""
    text = (ROOT / "tl_ffblock" / mutant.file).read_text(encoding="utf-8")
    changed = mutated(text, mutant)
    assert changed != text
    if mutant.file.endswith(".py"):
        compile(changed, mutant.file, "exec")
    paths = [name for name in mutant.tests if name.startswith("tests/")]
    assert paths and all((ROOT / Path(name.split("::")[0])).exists() for name in paths)


def test_faults_are_many_and_told_apart() -> None:
    """A name each, and what cannot be noticed says why."""
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names) >= 45
    with pytest.raises(ValueError, match="2 times, expected once"):
        mutated("x = 1; x = 1", Mutant("twice", "some.py", "x = 1", "x = 2", ("tests/unit",)))
