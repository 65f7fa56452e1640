"""Measured results in the overview: patching, estimates, knock-outs, direct contributions, logit lens, means, sizes of circuits."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tests.integration.test_results import made
from tests.page.node import needs_node, run
from tests.page.screen import Shower
from tests.page.test_overview import patching
from tests.page.test_shares import number, opened
from tests.page.test_truth import overviews_of, prompts_of
from tl_ffblock.errors import InputError
from tl_ffblock.page import DataBlock
from tl_ffblock.page.document import to_json
from tl_ffblock.results.tokens import visible
from tl_ffblock.views import page_of

FAMILIES = ("gpt2", "llama", "gpt_neox", "bert")
NAMES = {"first": 1, "END": -1}


def swept(family: str, **options: Any) -> Any:
    """Patching of a random model, every kind at every position unless said otherwise."""
    tokens = tiny.tokens(family, 5)
    given: dict[str, Any] = {
        "of": ("residual", "attention", "mlps", "heads", "q"),
        "by_position": True,
        "progress": False,
    }
    return ffb.activation_patching(model_of(family), tokens, tokens.flip(0), ffb.logit(7, at=2), **given | options)


def close(numbers: Any, expected: Any) -> None:
    """Numbers of a page, with null for NaN, to six digits."""
    torch.testing.assert_close(
        torch.tensor(np.array(numbers, dtype=float)),
        torch.as_tensor(expected).double(),
        rtol=1e-5,
        atol=1e-9,
        equal_nan=True,
    )


@pytest.mark.parametrize("direction", ["denoising", "noising"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_kind_of_patching_is_drawn_with_its_numbers(family: str, direction: str) -> None:
    """Kinds by position are streams, heads are beside them at every position; the end is a row that no other kind has."""
    result = swept(family, direction=direction)
    blocks = overviews_of(result)
    assert [block["choice"] for block in blocks] == ["residual stream", "attention", "feed-forwards", "queries"]
    n_layers = len(result.values["mlp"])
    for block, kind in zip(blocks, ("residual", "attention", "mlp"), strict=False):
        close(block["residual"][:n_layers], result.values[kind][:n_layers])
        close(np.array(block["heads"], dtype=float)[:n_layers], result.values["head"])
    close(blocks[0]["residual"][-1], result.values["residual"][-1])
    assert set(blocks[1]["residual"][-1]) == {None} and blocks[0]["layers"] == [*range(n_layers), None]
    close(np.array(blocks[3]["heads"], dtype=float)[:n_layers], result.values["q"])
    known = dict(blocks[0]["measure"]["facts"])
    assert known["clean"] == pytest.approx(float(result.clean), rel=1e-5)
    assert known["corrupted"] == pytest.approx(float(result.corrupted), rel=1e-5)
    assert blocks[0]["measure"]["base"] == known["clean" if direction == "noising" else "corrupted"]


@pytest.mark.parametrize(
    "by_position", [("residual",), ("mlp", "head"), (), ("head",)], ids=lambda kinds: "+".join(kinds) or "none"
)
def test_a_kind_that_was_patched_at_all_positions_is_drawn_beside_others(by_position: tuple[str, ...]) -> None:
    """As a column of its own beside positions, heads for all columns; alone it is the only column, and heads are columns."""
    result = swept(
        "gpt2",
        of=("residual", "mlps", "heads"),
        by_position=[{"mlp": "mlps", "head": "heads"}.get(kind, kind) for kind in by_position] or False,
    )
    blocks, data = overviews_of(result), page_of(result)
    shown = {
        kind: [block for block in blocks if block["choice"] == name]
        for kind, name in (("residual", "residual stream"), ("mlp", "feed-forwards"))
    }
    for kind, (block,) in shown.items():
        values = np.array(block["residual"], dtype=float)[: len(result.values[kind])]
        expected = result.values[kind]
        columns = values[:, :5] if kind in by_position else values[:, -1]
        close(columns, expected)
        if kind not in by_position and len(data.runs[0].tokens) > 1:
            assert np.isnan(values[:, :-1]).all() and data.runs[0].tokens[-1] == "all positions"
        heads = np.array(block["heads"], dtype=float)[: len(result.values["head"])]
        close(heads[..., :5] if "head" in by_position else heads, result.values["head"])


def test_heads_alone_are_columns_or_the_largest_of_each_position() -> None:
    """Without positions a column is a head; with them a band is the largest head of its layer there, and heads are beside."""
    result = swept("llama", of="heads", by_position=False)
    (block,), data = overviews_of(result), page_of(result)
    close(block["residual"], result.values["head"])
    assert (
        data.runs[0].tokens == tuple(f"H{head}" for head in range(result.values["head"].shape[1]))
        and block["heads"] is None
    )
    result = swept("llama", of="heads", by_position=True)
    (block,) = overviews_of(result)
    values = result.values["head"]
    largest = values.abs().argmax(dim=1, keepdim=True)
    close(block["residual"], values.gather(1, largest)[:, 0])
    close(block["heads"], values)


@pytest.mark.parametrize("family", FAMILIES)
def test_other_measured_results_have_their_numbers(family: str) -> None:
    """Estimates with heads summed over positions, direct contributions whose last sum is the target, means with intervals."""
    model, texts = model_of(family), [tiny.tokens(family, n) for n in (5, 6)]
    estimates = ffb.attribution_patching(model, texts[0], texts[0].flip(0), ffb.logit(7, at=2))
    block = overviews_of(estimates)[0]
    close(block["residual"], estimates.residual)
    close(np.array(block["heads"], dtype=float)[: len(estimates.heads)], estimates.heads.sum(dim=-1))
    direct = ffb.direct_logit_attribution(model, texts[0], ffb.logit(7, at=2))
    block = overviews_of(direct)[0]
    numbers = np.array(block["residual"], dtype=float)
    close(numbers[:-1, 0], direct.heads.sum(dim=(1, 2)))
    close(numbers[:-1, 1], direct.mlps.sum(dim=1))
    assert numbers[-1, -1] == pytest.approx(direct.value, rel=1e-5)
    steps = np.nan_to_num(numbers[:-1, :-1]).sum(axis=1)
    np.testing.assert_allclose(np.diff(numbers[:-1, -1]), steps[:-1], rtol=1e-3, atol=1e-4)
    shares = ffb.average_shares(ffb.attribute(model, texts, ffb.logit(7, at=2)), positions=NAMES)
    block = overviews_of(shares)[0]
    close(block["heads"], shares.mean)
    close(block["head_ends"][0], shares.interval.low)
    assert page_of(shares).runs[0].tokens == (*NAMES,)


def test_a_lens_reads_every_layer_and_position() -> None:
    """Tokens with their probabilities, at layers' inputs and after attention, and the target beside them."""
    lens = ffb.logit_lens(model_of("gpt2"), tiny.tokens("gpt2", 5), ffb.logit(7), at=[1, 3, -1], k=2)
    inputs, after = overviews_of(lens)
    for block, ending in ((inputs, False), (after, True)):
        rows = [row for row, name in enumerate(lens.names) if name.endswith("after attention") == ending]
        close(block["residual"], lens.top_probabilities[rows, :, 0])
        close(block["strip"]["values"], lens.values[rows])
        said = [[[token for token, _ in cell] for cell in row] for row in block["says"]]
        assert said == [[[*map(visible, cell)] for cell in lens.top_tokens[row]] for row in rows]
        close(block["entropy"], lens.entropy[rows])
    assert inputs["names"][-1] == "end" and after["names"][-1] != "end"


def test_an_attribution_and_estimates_of_the_same_text_are_on_the_page() -> None:
    """As further overviews; other texts and other results are refused."""
    tokens = tiny.tokens("gpt2", 5)
    result, model = swept("gpt2", of=("residual",)), model_of("gpt2")
    attribution = ffb.attribute(model, tokens, ffb.logit(7, at=2))
    estimates = ffb.attribution_patching(model, tokens, tokens.flip(0), ffb.logit(7, at=2))
    blocks = page_of(result, beside=[attribution, estimates]).runs[0].blocks
    shown = [block.json for block in blocks.values() if isinstance(block, DataBlock)]
    close(shown[1]["residual"], attribution.residual)
    close(shown[2]["residual"], estimates.residual)
    assert "measure" not in shown[1]
    with pytest.raises(InputError, match="this page of .* Use results of one text"):
        result.to_html(beside=ffb.attribute(model, tiny.tokens("gpt2", 6), ffb.logit(7, at=2)))
    with pytest.raises(InputError, match="beside=LogitLens: expected an attribution, or measured or estimated"):
        result.to_html(beside=made("LogitLens"))


@pytest.mark.browser
def test_patching_is_read_in_the_overview(show: Shower) -> None:
    """The question, a cell that is chosen with its numbers and address, Back, Find, keys, heads at a position, another kind."""
    result = swept("gpt2", of=("residual", "mlps", "heads"), by_position=("residual", "heads"))
    screen = opened(show, result.to_html())
    page = screen.page
    assert page.locator("h1").inner_text().startswith("What changes the answer when it is patched? ")
    ends = page.locator("#answer").inner_text().replace("\u2212", "-").split()
    assert [float(ends[0]), float(ends[2])] == pytest.approx([float(result.corrupted), float(result.clean)], rel=6e-3)
    values = result.values["residual"]
    box = page.locator(".logit").bounding_box()
    assert box is not None and box["y"] <= 260 and len(page.locator("header, #lead").all_inner_texts()) <= 80
    largest = int(values[:-1].abs().argmax())
    row, column = divmod(largest, values.shape[1])

    def facts() -> dict[str, float]:
        lines = (line.split("\t") for line in page.locator(".facts").inner_text().split("\n"))
        return {name: number(value) for name, value in lines}

    assert facts()["change"] == pytest.approx(float(values[row, column]), rel=6e-3)
    assert facts()["patched"] == pytest.approx(float(result.patched["residual"][row, column]), rel=6e-3, abs=2e-3)
    page.locator(".logit").focus()
    page.keyboard.press("Home")
    screen.settle()
    before = page.locator(".said").inner_text()
    page.wait_for_timeout(800)  # quick changes of one field are one step
    page.keyboard.press("ArrowDown")
    screen.settle()
    assert facts()["change"] == pytest.approx(float(values[1, column]), rel=6e-3)
    page.wait_for_function("location.hash.includes('layer=1')" if row != 1 else "!location.hash.includes('layer=0')")
    page.go_back()
    page.wait_for_function("words => document.querySelector('.said').textContent === words", arg=before)
    page.locator("#search").fill("3")
    page.keyboard.press("Enter")
    screen.settle()
    assert facts()["change"] == pytest.approx(float(values[0, 3]), rel=6e-3)
    heads = [number(text) for text in page.locator(".listed td:nth-child(3)").all_inner_texts()]
    assert sorted(heads) == pytest.approx(sorted(result.values["head"][0, :, 3].tolist()), rel=6e-3, abs=1e-6)
    page.locator(".toggles select[aria-label=target]").select_option(label="feed-forwards")
    screen.settle()
    assert "the feed-forward of layer 0" in page.locator(".said").inner_text()
    assert screen.problems == [] and screen.overflow() <= 0


@pytest.mark.browser
def test_lens_knockout_direct_contributions_and_sizes_are_pictures(show: Shower) -> None:
    """Each opens with its finding: words in cells, bands with intervals by window, the sum so far, and a curve with its area."""
    lens = ffb.logit_lens(model_of("gpt2"), tiny.tokens("gpt2", 5), ffb.logit(7), at=[1, 3, -1])
    screen = opened(show, lens.to_html())
    drawn = screen.page.locator(".logit svg text").all_text_contents()
    words = {visible(row[0][0]) for row, name in zip(lens.top_tokens, lens.names, strict=True) if "after" not in name}
    assert words <= {*drawn} and screen.page.locator(".logit .curve").count() == 1
    assert screen.page.locator("h1").inner_text() == "What would the model say at each layer?" and screen.problems == []
    knockout = made("AttentionKnockout")
    screen = opened(show, knockout.to_html())
    said = screen.page.locator(".said").inner_text()
    row, column = divmod(int(knockout.effect.abs().argmax()), knockout.effect.shape[1])
    assert said.startswith(f"Blocking attention to {knockout.sources[column]} in layers {knockout.windows[row][0]}")
    numbers = [number(words) for words in screen.page.locator(".facts td:last-child").all_inner_texts()[:3]]
    effect = float(knockout.effect[row, column])
    assert numbers == pytest.approx([knockout.baseline, knockout.baseline + effect, effect], rel=6e-3, abs=2e-3)
    assert screen.page.locator(".logit .whisker").count() > 0 and "95 % interval" in said and screen.problems == []
    direct = made("DirectLogitAttribution")
    screen = opened(show, direct.to_html())
    names = screen.page.locator(".logit svg text").all_text_contents()
    assert {"attention heads", "feed-forward", "sum so far", "end"} <= {*names} and screen.problems == []
    circuits = made("CircuitFaithfulness")
    screen = opened(show, circuits.to_html())
    titles = screen.page.locator(".point title").all_text_contents()
    shown = [number(title.split(": ")[1].split(",")[0]) for title in titles]
    frame = circuits.to_dataframe().sort_values("edges")
    assert shown == pytest.approx(frame["value"].tolist(), rel=6e-3, abs=1e-6)
    across = [float(point.get_attribute("cx")) for point in screen.page.locator(".point").all()]
    assert across == sorted(across) and screen.page.locator(".area").count() == 1
    assert f"CMD {circuits.cmd:.3g}" in screen.page.locator("#facts").inner_text() and screen.problems == []


BUILT: dict[str, Callable[[], Any]] = {
    "means": lambda: prompts_of("llama").mean({"IO": [1, 2, 2], "END": -1}),
    "means of heads": lambda: ffb.average_shares(prompts_of("llama")),
    "means of estimates": lambda: made("Averages"),
    "scores of heads": lambda: made("AttentionHeadScores"),
    "patching of two targets": lambda: patching(
        ("a", "b"), measured={"residual": torch.randn(2, 4, 2)}, layers={"residual": (0, 1, 2, 3)}, targets=("logit ' a'", "logit ' b'"),
        quantities=("logit", "logit"), clean=torch.tensor([0.5, 1.0]), corrupted=torch.tensor([0.1, 0.2]), replacement="run",
    ),
}  # fmt: skip


@pytest.mark.browser
@pytest.mark.parametrize("name", BUILT)
def test_a_heading_is_a_question_and_a_sentence_has_the_number(show: Shower, name: str) -> None:
    """No heading is the text that `print` has; the selected number is the largest of the page's first kind, with its interval."""
    result = BUILT[name]()
    block = overviews_of(result)[0]
    screen = opened(show, result.to_html())
    assert (
        "?" in screen.page.locator("h1").inner_text()
        and str(result).split("\n")[0] not in screen.page.locator("h1").inner_text()
    )
    said = screen.page.locator(".said").inner_text()
    values = np.array(block["residual"], dtype=float)[[layer is not None for layer in block["layers"]]]
    row, column = np.unravel_index(int(np.nan_to_num(np.abs(values)).argmax()), values.shape)
    shown = f"{values[row, column]:.3g}".lstrip("-").rstrip("0") if name != "means" else ""
    assert shown in said and screen.problems == []
    if block["ends"] and "measure" in block:
        assert "95 % interval" in said


@needs_node
def test_runs_with_unlike_blocks_have_one_scale() -> None:
    """A target that only one of two runs has is drawn on its own scale."""
    data = json.loads(to_json(page_of(prompts_of("gpt2").mean(NAMES)).payload()))
    other = data["runs"][0]
    data["runs"].append(other | {"name": "other", "blocks": {"another": other["blocks"]["logit"]}})
    limits = run(
        """
        const data = openData(given.payload);
        return [0, 1].map((run) => logitStream(sceneOf(data, { ...openingSelection(data), run })).limit);
        """,
        payload=data,
    )
    assert limits[0] == limits[1] > 0


@pytest.mark.parametrize("n", [1, 2])
def test_a_printed_mean_says_what_it_has(n: int) -> None:
    """One prompt has no intervals; the largest cell is of two positions; the end of a residual stream is not a layer."""
    model, texts = model_of("gpt2"), [tiny.tokens("gpt2", length) for length in (5, 6)[:n]]
    maps, attributions = ([made_of(model, text) for text in texts] for made_of in (ffb.contribution_maps, attributed))
    said = str(ffb.average(maps, NAMES))
    assert "nan" not in said and ("[" in said) == (n > 1) and "largest of two positions" in said
    streams = str(ffb.average([one.token_maps() for one in attributions], NAMES))
    n_layers = attributions[0].n_layers
    assert f"layers 0-{n_layers - 1} and the end" in streams and "nan" not in streams
    assert f"layers 0-{n_layers - 1} and the end" in str(attributions[0].token_maps())
    assert "and the end" not in str(attributions[0].token_maps("heads")) and "and the end" not in said


def attributed(model: Any, text: torch.Tensor) -> Any:
    """The attribution of a logit."""
    return ffb.attribute(model, text, ffb.logit(7))


def test_figures_say_what_they_found() -> None:
    """The number at which the page opens is in the title; numbers without signs have no colours of signs; a flow is drawn as the page opens."""
    result = swept("llama")
    block = overviews_of(result)[0]
    figure = result.figure(width=3.3)
    start = page_of(result).start
    share = block["residual"][block["layers"].index(start.layer)][start.to]
    title = figure.get_suptitle().replace("\n", " ")
    assert title.startswith("What changes the answer when it is patched?")
    assert f"({share:+.3g})".replace("-", "\u2212") in title
    scores = made("AttentionHeadScores").figure()
    assert "violet" not in scores.get_supxlabel() and "largest induction scores" in scores.get_suptitle()
    lens = made("LogitLens").figure()
    assert "most probable next token" in lens.get_suptitle().replace("\n", " ")
    attribution = ffb.attribute(model_of("gpt2"), tiny.tokens("gpt2", 6), ffb.logit(7), of=("heads", "edges"))
    edges = attribution.edges.clone()
    edges.diagonal(dim1=-2, dim2=-1).zero_()
    layer, head, _, _ = (int(at) for at in torch.unravel_index(edges.abs().argmax(), edges.shape))
    assert f"At layer {layer}, L{layer}H{head} moves" in attribution.figure().get_suptitle().replace("\n", " ")


@pytest.mark.browser
def test_a_head_that_is_alone_is_that_of_the_card_and_the_list(show: Shower) -> None:
    """By shift and click, or a double click: sentence, card and list have the numbers of the head that is drawn."""
    maps = ffb.attention_maps(model_of("gpt2"), tiny.tokens("gpt2", 6))
    screen = opened(show, maps.to_html(view="heads"))
    for head, options in ((2, {"modifiers": ["Shift"]}), (1, {"click_count": 2})):
        screen.page.locator("button.head", has_text=str(head)).first.click(**options)
        screen.settle()
        assert screen.page.locator("button.head[aria-pressed=true]").all_inner_texts() == [str(head)]
        listed = screen.page.locator("#pair-list tr td:last-child").first.inner_text().removesuffix("\u00a0%")
        values = maps[f"head {head}", maps.layers[0]].clone()
        values.fill_diagonal_(0.0)
        assert number(listed) == pytest.approx(float(values.max()), rel=6e-3)
    assert screen.problems == []
