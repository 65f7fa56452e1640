"""Pages of averages by named positions: every share on them is one that the prompts' own tensors have."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.page.screen import Builder, Shower
from tests.page.test_logit_view import attribution
from tests.page.test_overview import patching
from tl_ffblock.errors import InputError
from tl_ffblock.heads import distributions
from tl_ffblock.result import Results
from tl_ffblock.results.average import average
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.measures import amplification
from tl_ffblock.views import page_of

PLACES = {"IO": [1, 2, 3], "S2": [3, 4, 5], "END": -1}
NAMES = ["IO", "S2", "END"]


@pytest.fixture
def prompts(build: Builder) -> list[ContributionMaps]:
    """Three causal results of unlike lengths."""
    return [build(n, layers=(3, 8)) for n in (6, 7, 8)]


def shares_of(prompts: Sequence[ContributionMaps], scope: str, layer: int, query: str, key: str) -> list[float]:
    """By hand: of what the query takes from all other tokens of its prompt, the part that comes from the key."""
    found = []
    for number, maps in enumerate(prompts):
        to, from_ = (
            place[number] if isinstance(place, list) else len(maps.tokens) + place
            for place in (PLACES[query], PLACES[key])
        )
        row = maps[scope, layer][to].double().numpy()
        found.append(row[from_] / (row.sum() - row[to]))
    return found


def mean_share(prompts: Sequence[ContributionMaps], scope: str, layer: int, query: str, key: str) -> float:
    """Over prompts, each of which has the cell."""
    return float(np.mean(shares_of(prompts, scope, layer, query, key)))


def test_shares_are_made_before_positions_are_named(prompts: list[ContributionMaps]) -> None:
    """Over all other tokens of each prompt; a row's own cell, and what comes later, have none."""
    mean = average(prompts, PLACES)
    shares = mean.as_shares()
    for layer in (3, 8):
        for scope in mean.channels:
            for row, column in ((1, 0), (2, 0), (2, 1)):
                expected = mean_share(prompts, scope, layer, NAMES[row], NAMES[column])
                assert float(shares[scope, layer][row, column]) == pytest.approx(expected, rel=1e-6)
    there = ~shares.values.isnan().any(dim=0).any(dim=0).any(dim=0)
    assert there.tolist() == [[False] * 3, [True, False, False], [True, True, False]]
    assert (shares.values.nansum(dim=-1) < 1).all(), "other tokens bring the rest"
    table = shares.to_dataframe()
    assert set(table["query"]) == {"S2", "END"} and (table["low"] <= table["value"]).all()


def test_maps_of_named_positions_say_that_they_are_not_whole(prompts: list[ContributionMaps]) -> None:
    """So nobody makes shares of three cells of a row; prompts of one length, averaged whole, have all of them."""
    named = average(prompts, PLACES).token_maps()
    assert not named.whole and average(prompts[:1]).token_maps().whole
    with pytest.raises(InputError, match=r"amplification.*only some.*as_shares\(\)"):
        amplification(named, "Atb", "AtbLnFf", normalise="row")
    with pytest.raises(InputError, match="at .'IO', 'S2', 'END'.*Pass each prompt's whole maps"):
        distributions(named)


@pytest.mark.parametrize("signed", [True, False])
def test_what_has_no_shares_offers_none(prompts: list[ContributionMaps], signed: bool) -> None:
    """Differences of results, and attention, whose weights are shares of their own."""
    if signed:
        mean = average([maps - maps * 0.5 for maps in prompts], PLACES)
    else:
        patterns = [maps.token_maps("Atb") for maps in prompts]
        mean = average([type(p)(**{**vars(p), "kind": "attention"}) for p in patterns], PLACES)
    assert mean.shares is None
    with pytest.raises(InputError, match="as_shares: .* have no shares"):
        mean.as_shares()


def percents(text: str) -> list[float]:
    """All numbers of a text that are followed by a per cent sign."""
    return [float(number.replace("−", "-")) for number in re.findall(r"([−\d.]+)\u00a0%", text)]


def test_the_page_states_the_shares_that_the_prompts_have(show: Shower, prompts: list[ContributionMaps]) -> None:
    """In headline, sentence, card, pairs, tooltip, CSV and SVG; of three named cells it makes no shares, and says why not."""
    mean = average(prompts, PLACES)
    screen = show(html=mean.to_html(layer=8, channel="AtbLnFf"))
    screen.settle()
    screen.go("#layer=8&to=2&from=0")
    expected = 100 * mean_share(prompts, "AtbLnFf", 8, "END", "IO")
    other = 100 * mean_share(prompts, "AtbLnFf", 8, "END", "S2")
    page = screen.page
    headline = page.locator("#headline").inner_text()
    assert "of other tokens' contributions to" in headline and percents(headline) == pytest.approx([expected], rel=6e-3)
    at = (mean.layers.index(8), mean.channels.index("AtbLnFf"), 2, 0)
    ends = [100 * float(end[at]) for end in (mean.as_shares().interval.low, mean.as_shares().interval.high)]
    numbers = page.locator("#card .numbers").first.inner_text().replace("95 % interval", "")
    assert percents(numbers) == pytest.approx([expected, *ends], rel=6e-3)
    strongest = percents(page.locator("#sentence-words").inner_text())
    assert strongest == pytest.approx([max(expected, other)], rel=6e-2)
    tip = screen.hover("only", 2, 1, (3, 3))["numbers"]
    assert list(tip) == ["share", "95 % interval"] and percents(tip["share"][0]) == pytest.approx([other], rel=6e-3)
    pairs = page.locator("#pair-list").inner_text()
    assert len(percents(pairs)) == 3 and max(percents(pairs)) < 100
    assert "own" not in page.locator(".panel").inner_text()
    assert "a share of the row's sum over all other tokens" in page.locator("#meaning").inner_text()
    for choice in ("others", "row", "column"):
        option = page.locator(f"#cells [value={choice}]")
        assert option.evaluate("option => option.disabled") and "named positions" in str(option.get_attribute("title"))
    _, written = screen.save("csv")
    lines = list(csv.DictReader(io.StringIO(written.decode())))
    (value,) = (
        float(line["mean · AtbLnFf_share_of_others"]) for line in lines if (line["query"], line["key"]) == ("2", "0")
    )
    assert value == pytest.approx(expected / 100, rel=1e-3)
    _, drawing = screen.save("svg")
    assert "100\u00a0%" not in drawing.decode() and max(percents(drawing.decode())) <= 1.06 * max(
        float(share) for share in (100 * mean.as_shares()["AtbLnFf", 8].nan_to_num(0)).flatten()
    )
    assert screen.problems == []


def test_colours_of_named_positions_end_at_the_largest_share(show: Shower, prompts: list[ContributionMaps]) -> None:
    """Rows of few names are no rows of few tokens: none is beyond the scale. The page opens at the last name."""
    mean = average(prompts, {"A": 0, "IO": [1, 2, 3], "S1": 2, "S2": [3, 4, 5], "END": -1})
    most = 100 * float(mean.as_shares()["AtbLnFf", 8].nan_to_num(0).max())
    few = mean.as_shares()["AtbLnFf", 8][:3].nan_to_num(0).max()
    assert 100 * float(few) == most, "the largest is in a row of less than three others"
    screen = show(html=mean.to_html(layer=8, channel="AtbLnFf"))
    screen.settle()
    legend = "Array.from(document.querySelectorAll('.panel svg text'), (text) => text.textContent)"
    said = screen.page.evaluate(legend)
    assert not [words for words in said if "≥" in words or "Colours end" in words]
    assert 0.6 * most < max(percents(" ".join(said))) <= most
    assert screen.page.locator("#sentence .chip[aria-selected=true]").inner_text().startswith("END")
    assert page_of(mean).start.to == 4


def test_the_ends_of_shares_are_those_of_their_interval(show: Shower, prompts: list[ContributionMaps]) -> None:
    """And the maps themselves stand beside them, in their own unit."""
    mean = average(prompts, PLACES)
    screen = show(html=mean.to_html(layer=8, channel="Atb"))
    screen.settle()
    screen.go("#layer=8&to=2&from=0&run=2&refRun=1&ref=Atb&scope=Atb")
    interval = mean.as_shares().interval
    at = (mean.layers.index(8), mean.channels.index("Atb"), 2, 0)
    ends = [100 * float(interval.low[at]), 100 * float(interval.high[at])]
    headline = screen.page.locator("#headline").inner_text()
    assert percents(headline) == pytest.approx(ends, rel=6e-3)
    change = screen.hover("difference", 2, 0, (3, 3))["numbers"]["share"][2]
    assert change.startswith("+") and change.endswith("\u00a0points")
    assert float(change.split("\u00a0")[0]) == pytest.approx(ends[1] - ends[0], rel=6e-3)
    screen.go("#layer=8&to=2&from=0&run=0&ref=&scope=" + "contributions: Atb".replace(" ", "%20"))
    headline = screen.page.locator("#headline").inner_text()
    assert "%" not in headline and float(headline.rstrip(".").rsplit(" ", 1)[1]) == pytest.approx(
        float(mean["Atb", 8][2, 0]), rel=6e-3
    )
    screen.go("#layer=8&to=2&from=0&run=0&scope=Atb&ref=" + "contributions: Atb".replace(" ", "%20"))
    assert screen.page.locator(".panel").count() == 2, "of shares and norms there is no difference"


def test_cells_whose_interval_contains_zero_are_crossed(show: Shower, build: Builder) -> None:
    """As many crosses as such cells by hand, in the map of the mean alone, on the page and in its file."""
    prompts = [build(n, layers=(3, 8)) for n in (6, 7, 8)]
    others = [maps * scale for maps, scale in zip(prompts, (1.3, 0.7, 1.1), strict=True)]
    mean = average([one - two for one, two in zip(prompts, others, strict=True)], PLACES)
    screen = show(html=mean.to_html(layer=8, channel="Atb", view="maps"))
    screen.settle()
    channel, layer = mean.channels.index("Atb"), mean.layers.index(8)
    low, high = (end[layer, channel] for end in (mean.interval.low, mean.interval.high))
    expected = int(((low <= 0) & (high >= 0) & (low < high)).sum())
    assert expected > 0
    drawn = str(screen.page.locator(".panel .uncertain").get_attribute("d"))
    assert drawn.count("M") == expected
    assert "Crossed: the 95 % interval contains 0." in " ".join(screen.page.locator(".panel").inner_text().split())
    assert screen.save("svg")[1].decode().count("uncertain") == 1
    screen.go("#run=1&refRun=1&ref=")
    assert screen.page.locator(".uncertain").count() == 0, "ends have no interval"
    assert screen.problems == []


def test_attributions_averaged_by_position_open_as_an_overview(show: Shower) -> None:
    """What flows at each name is the prompts' own mean, with its interval; what one prompt has only, or estimates, are tables."""
    prompts = [attribution(tuple(f"{word}{at}" for at in range(n))) for n, word in ((4, "a"), (5, "b"), (6, "c"))]
    prompts = [replace(one, residual=one.residual * scale) for one, scale in zip(prompts, (1, 2, 4), strict=True)]
    names = {"first": 0, "END": -1}
    mean = Results(prompts).mean(names)
    flows = mean["residual"]
    by_hand = torch.stack([one.residual[:, [0, -1]] for one in prompts])
    assert torch.equal(flows.mean, by_hand.double().mean(dim=0)) and flows.targets == (8.0, 8.0, 8.0)
    screen = show(html=mean.to_html())
    screen.settle()
    assert screen.page.locator("h1").inner_text() == "What makes the logit difference? Mean of 3 prompts: +8 logits"
    chips = screen.page.locator(".shared .chip")
    assert chips.locator("bdi").all_inner_texts() == ["first", "END", "others"]
    assert screen.page.locator(".logit .whisker").count() > 0
    screen.page.locator(".logit [data-share='2,1']").hover(force=True)
    said = screen.page.locator("#tooltip").inner_text()
    low, high = (float(end[2, 1]) for end in (flows.interval.low, flows.interval.high))
    assert "END (a3|b4|c5)" in said
    numbers = [float(number.replace("−", "-")) for number in re.findall(r"[+−][\d.]+", said)]
    assert numbers == pytest.approx([float(flows.mean[2, 1]), low, high], rel=6e-3)
    assert screen.problems == [] and screen.overflow() <= 0
    assert page_of(mean).start.view == "overview" and page_of(Results(prompts[:1]).mean(names)).start.view == "overview"
    estimated = replace(mean, kinds={kind: replace(each, targets=()) for kind, each in mean.kinds.items()})
    assert page_of(estimated).runs[0].tokens == ("first", "END")  # without a target nothing is the remainder


def test_the_last_row_of_streams_by_position_is_the_end() -> None:
    """It is no layer's input; heads have no such row, and the heading says where its number stands."""
    prompts = [attribution(tuple(f"{word}{at}" for at in range(n))) for n, word in ((4, "a"), (5, "b"))]
    streams = average([one.token_maps() for one in prompts], {"first": 0, "END": -1})
    streams.values[:, -1] += 100.0
    block = page_of(streams).runs[0].blocks["numbers"]
    assert block.maps[0]["rows"] == (*map(str, range(prompts[0].n_layers)), "end")
    assert block.heading.startswith("End, residual: ")
    heads = average([one.token_maps("heads") for one in prompts], {"first": 0, "END": -1})
    assert page_of(heads).runs[0].blocks["numbers"].maps[0]["rows"] == tuple(map(str, range(prompts[0].n_layers)))


def test_the_last_row_of_patched_streams_is_the_end() -> None:
    """As of streams by position; where only some layers are patched, the last of these is a layer."""
    tokens = tuple(f"t{at}" for at in range(5))
    heads = {"head": torch.randn(1, 3, 2, 5), "residual": torch.randn(1, 4, 5)}
    whole = patching(tokens, measured=heads, layers={"head": (0, 1, 2), "residual": (0, 1, 2, 3)})
    some = patching(tokens, measured={kind: table[:, :2] for kind, table in heads.items()}, layers={"head": (0, 1), "residual": (0, 1)})  # fmt: skip
    for result, last in ((whole, "end"), (some, "1")):
        names = page_of(result).runs[0].blocks["logit"].json["names"]
        assert names[-1] == last and names[0] == "0"


def test_a_difference_of_averages_is_in_points_and_names_its_sides(
    show: Shower, prompts: list[ContributionMaps], build: Builder
) -> None:
    """The share of the first less that of the second: in which there is more, and by how many points."""
    others = [build(n + 20, layers=(3, 8)) for n in (6, 7, 8)]
    others = [
        type(maps)(**{**vars(maps), "tokens": tuple(f"u{i}" for i in range(n + 20))})
        for maps, n in zip(others, (6, 7, 8), strict=True)
    ]
    first, second = average(prompts, PLACES), average(others, PLACES)
    apart = first.paired_difference(second)
    screen = show(html=apart.to_html(layer=8, channel="Atb"))
    screen.settle()
    screen.go("#layer=8&to=2&from=0&scope=Atb")
    expected = 100 * float(apart.as_shares()["Atb", 8][2, 0])
    own = [100 * float(mean.as_shares()["Atb", 8][2, 0]) for mean in (first, second)]
    assert expected == pytest.approx(own[0] - own[1])
    headline = screen.page.locator("#headline").inner_text()
    (said,) = re.findall(r"([\d.]+)\u00a0points (more|less)", headline)
    assert float(said[0]) == pytest.approx(abs(expected), rel=6e-3) and (said[1] == "more") == (expected > 0)
    assert re.search(r"in “IO:t1\|t2\|t3 .*” than in “IO:u1\|u2\|u3 .*”\.$", headline)
    assert "%" not in screen.page.locator("#what").inner_text().replace("95 % interval", "").replace(
        "95 %\ninterval", ""
    )
    assert "→" not in "".join(apart.labels) and apart.labels[0] == "t1|t2|t3 / u1|u2|u3"
