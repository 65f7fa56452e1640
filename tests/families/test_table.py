"""The table of docs/models.md is what was measured, of the families that there are."""

from collections.abc import Callable
from types import ModuleType

import pytest

from tests import tiny
from tests.families.conftest import SINCE_4
from tests.tolerances import COMPLETE_FLOAT32


@pytest.fixture(scope="module")
def script(script_of: Callable[[str], ModuleType]) -> ModuleType:
    """docs/support_table.py."""
    return script_of("docs/support_table.py")


def test_the_page_holds_the_measured_table(script: ModuleType) -> None:
    """No row by hand: `python docs/support_table.py write` changes nothing."""
    page = script.PAGE.read_text()
    assert page.split(script.START)[1].split(script.END)[0].strip() == script.table(script.read())


def test_every_family_is_in_it(script: ModuleType, families: ModuleType) -> None:
    """The tiny models of both versions are those of the tests, and together they are the table of families."""
    results = script.read()
    assert {result["packages"]["transformer-lens"].split(".")[0] for result in results} == {"3", "4"}
    for result in results:
        assert list(result["families"]) == list(tiny.ALL_FAMILIES)
        refused = {name for name, row in result["families"].items() if "refused" in row}
        assert refused == (set(SINCE_4) if result["packages"]["transformer-lens"].startswith("3.") else set())
    rows = [row for result in results for row in result["families"].values()]
    measured = {row["family"].split(",")[0] for row in rows if "family" in row}
    assert measured == {family.name for family in families.FAMILIES}
    assert all(error < COMPLETE_FLOAT32 for row in rows for error in row.get("completeness", {}).values())
