"""Small numbers in text for people."""

import pytest

from tests.page.node import needs_node, run
from tl_ffblock.numerals import scientific, signed, typographic, typographic_words

NUMBERS = (1.3e-7, -2.55e-5, 9.99e-10, 0.12, 1.0, 0.0, 3.4e-12, 7e5)


def test_a_small_number_has_a_minus_and_no_leading_zero() -> None:
    """The exponent has the minus of the page and as many digits as it needs; what is no number stays readable."""
    assert [scientific(value) for value in (1.34e-7, -2e-12, 0.0, float("nan"))] == ["1.3e-7", "-2.0e-12", "0", "nan"]
    assert scientific(0.00099, 1) == "1e-3"
    assert [signed(value) for value in (-0.314, 0.25, 0.0)] == ["-0.31", "+0.25", "+0.00"]


@needs_node
@pytest.mark.parametrize("digits", [2, 3])
def test_pages_and_summaries_write_a_number_alike(digits: int) -> None:
    """The page's script gives the same text as the package, with the minus sign of pages, for errors and for the numbers of cells; signs included."""
    if digits == 2:
        assert run("return given.numbers.map(formatError);", numbers=NUMBERS) == [
            typographic(scientific(value)) for value in NUMBERS
        ]
    small = [value for value in NUMBERS if 0 < abs(value) < 1e-4]
    shown = run("return given.numbers.map((value) => formatNumber(value, given.digits));", numbers=small, digits=digits)
    assert shown == [typographic(scientific(value, digits)) for value in small]


def test_a_sentence_has_the_typographic_minus_where_one_is_meant() -> None:
    """In numbers and between tokens; tokens, ranges and words stay."""
    said = "logit difference ' a - -1' - \"it's - 2\" = -0.3 ± 1.2e-7, layers 3-5 of GPT-2, log-probability"
    assert typographic_words(said) == said.replace("' - \"it", "' − \"it").replace("= -0", "= −0").replace("e-7", "e−7")
