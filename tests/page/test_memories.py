"""The card of a memory beside the maps of a text."""

import pytest

from tests.page.screen import Builder, Shower
from tl_ffblock.errors import InputError
from tl_ffblock.memories import CardText, CardTrigger, CardValue, MemoryCard

HOSTILE = "<img src=x onerror=window.x=1>"
TOKENS = (HOSTILE, "t1", "t2", "t3")


def card(name: str = "1:7", tokens: tuple[str, ...] = TOKENS, value: CardValue | None = None) -> MemoryCard:
    """Two triggers, and a text in which the last token is fed by the second one."""
    trigger = CardTrigger(
        1,
        4.0,
        3,
        2,
        (HOSTILE, "on", "off", "</script><script>window.x=1</script>"),
        (0.0, 1.0, 4.0, 2.0),
        (1.0, 0.0, 3.0, 0.0),
        0.0,
    )
    parts = tuple(tuple(float(key == max(0, query - 2)) for key in range(len(tokens))) for query in range(len(tokens)))
    along = tuple(float(query) for query in range(len(tokens)))
    text = CardText(tokens, along, parts, (0.5,) * len(tokens), "logit of 'x'", tuple(-a for a in along))
    return MemoryCard(name, "tiny", 9, (trigger,), (), value, text)


@pytest.mark.browser
def test_a_card_shows_where_the_memory_fires_and_what_feeds_it(build: Builder, show: Shower) -> None:
    """A click on a token says who feeds the memory there; hostile tokens are text; nothing sticks out on a phone."""
    value = CardValue("final_norm", (HOSTILE, "b"), ("c",), 0.25, 1, 1)
    cards = [card(), card("0:3", value=value)]
    screen = show(build(4, tokens=TOKENS), beside=cards, view="memories")
    for place in ("#where", "#reading", "#why"):
        assert not screen.page.locator(place).is_visible(), "numbers of maps, not of the memory"
    titles = screen.page.locator(".memory h2").all_inner_texts()
    assert titles[0] == "Tokens of its value" and len(titles) == 6
    along = screen.page.locator(".memory-part").nth(1).locator(".chip")
    assert along.nth(3).get_attribute("aria-current") == "true", "opens where the memory is most active"
    along.nth(1).click()
    screen.settle()
    along.nth(3).click()
    screen.settle()
    fed = screen.page.locator(".memory-part").nth(2)
    assert fed.locator("h2").inner_text() == "Token contributions to its activation at “t3”"
    titles = [chip.get_attribute("title") for chip in fed.locator(".chip").all()]
    assert titles[1] == "t1 · position 1 · contribution +1" and titles[0].endswith("contribution 0")
    assert "With the bias, +0.5, they sum to the activation +3 at position 3." in fed.inner_text()
    assert "−3 from this position, −6 from all positions" in screen.page.locator(".memory-part").nth(3).inner_text()
    trigger = screen.page.locator(".memory-trigger .chip")
    assert trigger.nth(2).get_attribute("aria-current") == "true"
    assert trigger.nth(2).get_attribute("title") == "off · position 2 · contribution +3 · activation +4"
    screen.page.locator(".memory select").select_option("memory 2")
    screen.settle()
    assert "promotes" in screen.page.locator(".memory-part").first.inner_text()
    assert "probability of 25" in screen.page.locator(".memory-part").first.inner_text()
    screen.page.set_viewport_size({"width": 360, "height": 800})
    screen.page.wait_for_timeout(200)
    screen.settle()
    assert screen.overflow() <= 0 and screen.page.evaluate("window.x") is None
    assert screen.problems == []


def test_a_card_of_another_text_is_refused(build: Builder) -> None:
    """Its numbers would stand under other tokens."""
    with pytest.raises(InputError, match="is of a text of 4 tokens, the page of 3"):
        build(3).to_html(beside=card())
