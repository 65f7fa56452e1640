"""A target attributed, beside the maps of a text or alone: the overview."""

import csv
import dataclasses
import io
import json
import re
from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from tests.page.node import needs_node, payload, run
from tests.page.screen import Builder, Screen, Shower
from tl_ffblock.attribution import Attribution
from tl_ffblock.errors import InputError
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.tokens import visible
from tl_ffblock.views import page_of

HOSTILE = ("<img src=x onerror=window.x=1>", "t1", "=1+1", "</script><script>window.x=1</script>")
LAYERS, HEADS = 3, 2


def attribution(tokens: tuple[str, ...] = HOSTILE, **changes: object) -> Attribution:
    """Shares that sum to 8 at every layer: biases of 1 in the first, and behind the last one; most flows through the last token."""
    draw = torch.Generator().manual_seed(0)
    n = len(tokens)
    residual = torch.zeros(LAYERS + 1, n)
    residual[:, 0], residual[1:, n - 1] = 0.25, 0.75
    residual[1, n - 1], residual[:, 1] = -3.25, torch.tensor([5.75, 10.0, 6.0, 6.0])
    fields: dict[str, Any] = {
        "labels": tokens,
        "target": "logit difference '<b onclick=x>' - ' John'",
        "quantity": "logit difference",
        "rules": "path",
        "value": 8.0,
        "first_order": 8.0,
        "tokens": residual[0],
        "positions": torch.zeros(n),
        "token_types": torch.zeros(n),
        "residual": residual,
        "bias_names": ("embed.<i>b", "unembed.b"),
        "bias_layers": (0, LAYERS),
        "bias_shares": torch.ones(2, n) / n,
        "edits": {},
        "edit_layers": {},
        "parts": {
            "heads": torch.randn(LAYERS, HEADS, n, generator=draw),
            "edges": torch.randn(LAYERS, HEADS, n, n, generator=draw).tril(),
            "maps.AtbLnFf": torch.randn(LAYERS, n, n, generator=draw).tril(),
        },
        "model": "tiny",
    }
    return Attribution(**(fields | changes))


def maps_of(build: Builder, tokens: tuple[str, ...] = HOSTILE, **options: Any) -> ContributionMaps:
    """Maps of the same text."""
    return build(len(tokens), tokens=tokens, layers=range(LAYERS), **options)


def block(maps: ContributionMaps, *results: Attribution) -> dict[str, Any]:
    """What the page gets of the first attribution."""
    sent: dict[str, Any] = payload(maps, beside=results)["runs"][0]["blocks"]["logit"]
    return sent


def test_the_page_gets_the_numbers_of_the_result(build: Builder) -> None:
    """All shares to four digits; every row and what enters later sum to the target, as in the result."""
    result = attribution()
    sent = block(maps_of(build), result)
    for name, expected in (("residual", result.residual), ("heads", result.heads.sum(dim=-1))):
        torch.testing.assert_close(torch.tensor(sent[name]), expected, rtol=5e-4, atol=0)
    for row, shares in enumerate(sent["residual"]):
        later = sum(share for _, layer, share in sent["biases"] if layer >= row)
        assert sum(shares) + later == pytest.approx(8.0, abs=1e-3)
    for place, edges in sent["edges"].items():
        layer, head = map(int, place.split(","))
        sizes = result.edges[layer, head].abs().flatten().sort(descending=True).values
        assert [abs(share) for *_, share in edges] == pytest.approx(sizes[: len(edges)].tolist(), rel=1e-3)
        assert all(abs(float(result.edges[layer, head, q, k]) - share) < 1e-3 for q, k, share in edges)


def test_signed_maps_come_at_the_rows_and_layers_of_the_page(build: Builder) -> None:
    """Maps of some layers and destinations have as many signed cells, of which none is another's."""
    result = attribution()
    data = payload(build(4, tokens=HOSTILE, layers=(0, 2), queries=(1, 3)), beside=(result,))
    blocks = data["runs"][0]["blocks"]
    assert blocks["logit"]["maps"] == "logit maps" and blocks["logit maps"]["signed"]
    cells = run(
        "const data = openData(given.payload); const key = 'logit maps: AtbLnFf'; await data.load(0, key); return [0, 2].map((layer) => plain(data.matrix(0, key, layer)));",
        payload=data,
    )
    for layer, values in zip((0, 2), cells, strict=True):
        for row, query in enumerate((1, 3)):
            expected = result.maps["AtbLnFf", layer][query]
            for key in range(query + 1):
                assert values[row * 4 + key] == pytest.approx(float(expected[key]), rel=1e-3)
            assert values[row * 4 + query + 1 : row * 4 + 4] == [None] * (3 - query)


def test_signed_maps_that_have_no_room_are_left_out_but_for_what_the_page_opens_with(build: Builder) -> None:
    """Of a long text one scope stays, the one that is seen first."""
    n, tokens = 300, tuple(f"t{i}" for i in range(300))
    cells = torch.ones(LAYERS, n, n).tril()
    parts = {f"maps.{scope}": cells for scope in ("Attn", "Atb", "AtbLnFf", "AtbLnFfRes")}
    blocks = payload(maps_of(build, tokens), beside=(attribution(tokens, parts=parts),))["runs"][0]["blocks"]
    shown = [channel["name"] for channel in blocks["logit maps"]["channels"]]
    assert "AtbLnFf" in shown and len(shown) < 4


def test_an_attribution_of_another_run_is_refused(build: Builder) -> None:
    """Of another text, model or depth; and a page without one cannot open in its view."""
    maps = maps_of(build)
    with pytest.raises(InputError, match=r"attribution is of 3 tokens \(a b c\), these maps are of 4 .*same text"):
        maps.to_html(beside=attribution(("a", "b", "c")))
    with pytest.raises(InputError, match="attribution is of other, these maps are of tiny"):
        maps.to_html(beside=attribution(model="other"))
    with pytest.raises(InputError, match="attribution has 3 layers, the page layer 5"):
        build(4, tokens=HOSTILE, layers=(0, 5)).to_html(beside=attribution())
    with pytest.raises(InputError, match="lacks several layers, or an attribution"):
        build(4, tokens=HOSTILE, layers=(1,)).to_html(view="overview")
    with pytest.warns(DeprecationWarning, match="overview"):
        former = maps.to_html(beside=attribution(), view="logit")
    assert former == maps.to_html(beside=attribution(), view="overview")


@needs_node
def test_words_sums_and_hidden_tokens(build: Builder) -> None:
    """Pieces of a word are summed; hidden tokens leave the picture and not the sums; sentences say the numbers with their unit."""
    tokens = ("[CLS]", "un", "##do", "it")
    result = attribution(tokens)
    said = run(
        """
        const plainScene = await scened({ layer: 1, to: 3 });
        const words = await scened({ layer: 1, words: 1, hide: "special", to: 3 });
        const block = chosenLogit(words.data, words.selection);
        return {
          sentence: logitSentence(plainScene), law: logitLaw(block, 1), headline: logitWords(plainScene).headline,
          words: plain(logitColumns(words, block.residual[1])), limit: logitStream(plainScene).limit, equation: logitEquation(block),
          csv: csvText(logitTable(words)), before: logitIsBefore(block, 1), change: logitMapChange(words.data, plainScene.selection),
          hidden: logitSentence(await scened({ layer: 1, hide: "special", to: 0 })),
        };
        """,
        payload=payload(maps_of(build, tokens), beside=(result,), scope="AtbLnFf"),
    )
    assert (
        said["sentence"] == "At the input of layer 1, “it” contributes −3.25 of 8 logits, −40.6\u00a0% of the answer."
    )
    assert said["law"].endswith("all tokens +7, later biases +1, together 8.")
    assert said["headline"].startswith("logit difference '<b onclick=x>' − ' John' = 8 logits. At the input")
    assert said["words"] == [None, 10.0, -3.25] and said["limit"] == 10.0 and said["before"] is False
    assert said["equation"] == "8 = tokens +6 · biases +2" and said["hidden"] == "“[CLS]” is hidden."
    rows = list(csv.reader(io.StringIO(said["csv"])))
    assert ["residual stream", "1", "1", "undo", "10"] in rows and ["bias", "end", "", "unembed.b", "1"] in rows
    assert not any(row[3] == "[CLS]" for row in rows)
    assert said["change"] == {"view": "maps", "scope": "logit maps: AtbLnFf", "ref": "AtbLnFf"}


@needs_node
def test_a_sum_has_the_digits_of_its_terms(build: Builder) -> None:
    """5.287 is "tokens +5.287", not "+5.29"."""
    one = attribution()
    given = dataclasses.replace(
        one, value=5.287, first_order=5.287, residual=one.residual * (3.287 / 6), tokens=one.tokens * (3.287 / 6)
    )
    found = run(
        """const { data, selection } = await scened({ layer: 1 });
        const block = chosenLogit(data, selection);
        return [logitEquation(block), logitLaw(block, 1)];""",
        payload=payload(maps_of(build), beside=(given,)),
    )
    assert found[0] == "5.287 = tokens +3.287 · biases +2"
    assert found[1].endswith("all tokens +3.835, later biases +1, together 4.835.")


def test_norms_and_signed_shares_have_no_difference(build: Builder) -> None:
    """Beside each other each keeps its scale and its numbers; two maps of one kind are subtracted as ever."""
    read = run(
        """
        const mixed = await scened({ layer: 2, scope: "logit maps: AtbLnFf", ref: "AtbLnFf", to: 3, from: 1 });
        const norms = await scened({ layer: 2, scope: "AtbLnFf" });
        return {
          roles: mixed.maps.map(({ role, scale }) => [role, scale]), cells: mixed.selection.cells, heads: sideHeads(mixed),
          own: mixed.maps.map(({ limit, cells }) => Math.abs(limit / limitOf(mixed.axes, cells, "off-diagonal") - 1) < 1e-6),
          headline: headlineOf(mixed), others: norms.maps.length, profiles: profileLimits(mixed),
        };
        """,
        payload=payload(maps_of(build), beside=(attribution(),)),
    )
    assert read["roles"] == [["before", "contribution"], ["after", "signed"]] and read["cells"] == "none"
    assert read["heads"] == ["AtbLnFf", "logit maps: AtbLnFf"] and read["own"] == [True, True] and read["others"] == 3
    cell = float(attribution().maps["AtbLnFf", 2][3, 1])
    assert f"{cell:+.3g}".replace("-", "−") in read["headline"] and " and " in read["headline"]
    assert read["profiles"][0] != read["profiles"][1]


def band(screen: Screen, row: int, column: int) -> tuple[list[int], dict[str, float]]:
    """The colour of a token's stream at a layer, and where it is drawn."""
    found = screen.page.locator(f".logit rect[data-share='{row},{column}']")
    colour = str(found.get_attribute("fill"))
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)], found.bounding_box()


@pytest.mark.browser
def test_the_view_shows_selects_and_runs_nothing_of_the_tokens(build: Builder, show: Shower) -> None:
    """Signs are colours; a click and the keys select layer and token everywhere; the address opens the same; Back undoes."""
    maps, result = maps_of(build), attribution()
    screen = show(maps, beside=result, view="overview", layer=0, query=2)
    (against, box), (speaking_for, widest) = band(screen, 1, 3), band(screen, 1, 1)
    assert against[2] > against[0] > against[1]  # violet
    assert speaking_for[0] > speaking_for[1] > speaking_for[2]  # orange
    chips = screen.page.locator(".shared .chip span").all_inner_texts()
    assert chips == ["+0.25", "+5.75", "0", "0"]
    assert box["width"] == pytest.approx(0.325 * widest["width"], rel=0.02)  # 3.25 of 10
    assert screen.page.locator(".logit rect[data-share='0,2']").count() == 0  # a share of zero
    x, y = box["x"] + 1, box["y"] + 2  # beside the arcs
    screen.page.mouse.move(x, y)
    assert "−3.25 logits" in screen.page.locator("#tooltip").inner_text()
    screen.page.mouse.click(x, y)
    screen.settle()
    assert screen.selection()["layer"] == "1"
    assert "contributes −3.25 of 8 logits" in screen.page.locator(".said").inner_text()
    assert "together 8." in screen.page.locator(".logit-card").inner_text()
    assert screen.page.locator("#sentence .chip[aria-selected=true] bdi").inner_text() == HOSTILE[3]
    screen.page.mouse.move(5, 5)
    again = show(maps, beside=result, view="overview", layer=0, query=2, address=screen.page.evaluate("location.hash"))
    assert screen.places() == again.places()
    screen.page.locator(".logit").focus()
    screen.page.wait_for_timeout(750)
    screen.page.keyboard.press("ArrowDown")
    screen.settle()
    assert screen.selection()["layer"] == "2" and screen.page.evaluate("document.activeElement.className") == "logit"
    screen.page.go_back()
    screen.page.wait_for_timeout(60)
    screen.settle()
    assert screen.selection()["layer"] == "1"
    assert screen.page.evaluate("window.x") is None and screen.problems == [] and again.problems == []


@pytest.mark.browser
def test_its_files_hold_its_numbers(build: Builder, show: Shower) -> None:
    """SVG with cells, labels and the finding, tokens as text; CSV with every share, none a formula; a PNG."""
    screen = show(maps_of(build), beside=attribution(), view="overview", layer=1)
    name, svg = screen.save("svg")
    text = svg.decode()
    assert "to-logitdifference" in name and text.count("<rect") > 16
    assert "<img" not in text and "&lt;img" in text and "= 8 logits" in text
    _, table = screen.save("csv")
    rows = list(csv.reader(io.StringIO(table.decode())))
    assert rows[0] == ["part", "layer", "position", "name", "share"]
    assert ["residual stream", "1", "3", HOSTILE[3], "-3.25"] in rows and ["token", "", "2", "'=1+1", "0"] in rows
    assert len([row for row in rows if row[0] == "head"]) == LAYERS * HEADS
    _, png = screen.save("png")
    assert png.startswith(b"\x89PNG") and screen.problems == []


@pytest.mark.browser
def test_an_attribution_alone_opens_in_the_overview(show: Shower) -> None:
    """It asks why, as text; arcs are the largest edges between two tokens; a click on one selects its head and both tokens."""
    result = attribution(target="logit difference ' <b>' - ' John'", certificate=None)
    screen = show(html=result.to_html())
    screen.settle()
    assert screen.page.locator("h1").inner_text() == "Why “·<b>” and not “·John”? +8 logits"
    assert screen.page.locator("#reading").is_hidden() and screen.page.locator("#where").is_hidden()
    edges = result.edges.clone()
    edges.diagonal(dim1=-2, dim2=-1).zero_()
    layer, head, query, key = (int(at) for at in torch.unravel_index(edges.abs().argmax(), edges.shape))
    assert screen.page.locator(".arc").count() == 14 < int((edges.abs() > 0.5).sum()) + 14
    largest = screen.page.locator(".arc").last
    assert abs(float(str(largest.get_attribute("stroke-width")))) == max(
        float(str(arc.get_attribute("stroke-width"))) for arc in screen.page.locator(".arc").all()
    )
    share = float(result.edges[layer, head, query, key])
    opening = screen.page.locator(".said").inner_text()
    assert opening.startswith(f"At layer {layer}, L{layer}H{head} moves {share:+.3g} of 8".replace("-", "\u2212"))
    assert screen.page.locator("path.arc-chosen").count() == 1, "the story is selected"
    screen.page.locator(".arc").first.dispatch_event("click")
    screen.settle()
    assert screen.page.locator(".said").inner_text() != opening
    largest.dispatch_event("click")
    screen.settle()
    assert screen.page.locator(".said").inner_text() == opening
    assert str(screen.page.locator("#layer").input_value()) == str(layer)
    screen.page.locator("#search").fill("l0h1")
    screen.page.keyboard.press("Enter")
    screen.settle()
    assert screen.page.locator(".said").inner_text().startswith("L0H1 contributes")
    screen.page.locator("#search").fill("L0H7")
    screen.page.keyboard.press("Enter")
    assert screen.page.locator("#search-note").inner_text() == "not there"
    chosen = screen.page.locator(".card h3", has_text="Cell").inner_text()
    assert [visible(HOSTILE[at]) in chosen for at in (key, query)] == [True, True]
    assert screen.page.evaluate("window.x") is None and screen.problems == [] and screen.overflow() <= 0


@pytest.mark.parametrize("value", [8.0, 2.0, -2.0])
@needs_node
def test_no_part_of_an_answer_is_above_100_per_cent(value: float) -> None:
    """A number larger than the answer, which others cancel, is not a part of it."""
    data = json.loads(json.dumps(page_of(attribution(value=value)).payload()))
    said = run(
        """
        const data = openData(given.payload);
        await data.load(0, data.start.scope);
        const scenes = data.layers.flatMap((layer) => data.queries.map((to) => ({ ...openingSelection(data), layer, to, heads: "" })));
        const said = [];
        for (const selection of scenes) said.push(logitSentence(sceneOf(data, selection)));
        return said;
        """,
        payload=data,
    )
    parts = [float(found) for words in said for found in re.findall(r"([\d.]+)\u00a0% of the answer", words)]
    assert parts and max(parts) <= 100 and len(parts) < len(said)


def test_targets_have_the_minus_of_numbers() -> None:
    """Names of targets on pages had the keyboard's; a token's own stays."""
    one = attribution(tuple(f"t{at}" for at in range(4)), target="logit difference ' a - b' - ' c'", quantity="logit")
    for page in (page_of(one), page_of(one - one), page_of(one, against=one)):
        said = json.dumps(page.payload(), ensure_ascii=False)
        assert "' a - b' − ' c'" in said and "' - ' c'" not in said


@pytest.mark.parametrize(
    ("target", "quantity", "question"),
    [
        ("logit ' Paris'", "logit", "Why “·Paris”?"),
        ("logit difference ' a' - \" it's\"", "logit difference", "Why “·a” and not “·it's”?"),
        ("logit (' a', ' b')", "logit", "What makes the logit (' a', ' b')?"),
        ("probe", "target", "What makes the probe?"),
    ],
)
def test_the_page_asks_what_the_target_is(target: str, quantity: str, question: str, build: Builder) -> None:
    """A token and what it is compared with; other targets by their names."""
    assert block(maps_of(build), attribution(target=target, quantity=quantity))["question"] == question


def test_the_figure_is_the_overview() -> None:
    """Bands as wide as shares, arcs of heads, the map of heads, the question in the title."""
    result = attribution(target="logit ' a'", quantity="logit")
    figure = result.figure()
    streams, heads = figure.axes[:2]
    widths = [patch.get_width() for patch in streams.patches if hasattr(patch, "get_width")]
    sizes = result.residual.abs()
    assert max(widths) == pytest.approx(0.9) and len(widths) == int((sizes > 0).sum())
    torch.testing.assert_close(
        torch.tensor(heads.images[0].get_array().data).float(), result.heads.sum(dim=-1), rtol=1e-5, atol=0
    )
    assert len(streams.patches) > len(widths) and figure.get_suptitle().startswith("Why “·a”? +8")


def test_one_call_makes_the_page(model_of: Any, tokens_of: Any) -> None:
    """The maps, the attribution and the flow graph of the opening layer; without a target the maps; other calls are refused."""
    model, tokens = model_of("llama"), tokens_of("llama", 6)
    maps = ffb.contribution_maps(model, tokens)
    target = ffb.logit(7, minus=8, at=-2)
    beside = [ffb.attribute(model, tokens, target, of=("heads", "edges", "neurons", "maps"))]
    opening = int(re.search(r'"layer":(\d+)', maps.show(view="overview", beside=beside).html)[1])
    beside.append(ffb.flow_graph(model, tokens, layers=opening, position=-2, target=target))
    assert ffb.overview(model, tokens, 7, minus=8, at=-2).html == maps.show(view="overview", beside=beside).html
    of_loss = ffb.attribute(model, tokens, ffb.loss(), of=("heads", "edges", "neurons", "maps"))
    assert ffb.overview(model, tokens, ffb.loss()).html == maps.show(view="overview", beside=of_loss).html
    assert ffb.overview(model, tokens[None], 7, minus=8).html == ffb.overview(model, tokens, 7, minus=8).html
    assert ffb.overview(model, tokens).html == maps.show().html
    for call in (lambda: ffb.overview(model, tokens, minus=8), lambda: ffb.overview(model, tokens.repeat(2, 1), 7)):
        with pytest.raises(InputError):
            call()
