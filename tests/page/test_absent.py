"""Cells that are not there: hidden by the reader, or in no map at all. No number is made of them, and nothing stops."""

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
import torch

from tests.page.node import needs_node, payload, run
from tests.page.screen import Builder, Shower
from tl_ffblock.page.numbers import FULL_DIGITS
from tl_ffblock.results.average import AverageMaps, average
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.views.maps import page_data, token_maps_page


def tracks_of(maps: TokenMaps) -> Any:
    """The rail of a page of token maps."""
    (block,) = token_maps_page({"run": maps}).runs[0].blocks.values()
    (track,) = block.tracks  # type: ignore[attr-defined]
    return track


@pytest.fixture
def mean_of_three(build: Builder) -> AverageMaps:
    """The average of three causal results of four tokens, position by position."""
    return average([build(4, layers=(0, 1)) * factor for factor in (1.0, 2.0, 3.0)])


@needs_node
@pytest.mark.parametrize("cells", ["others", "row", "column", "none"])
@pytest.mark.parametrize("ref", ["", "AtbLn"])
def test_a_hidden_column_has_a_headline(build: Builder, cells: str, ref: str) -> None:
    """It says that the column is hidden, and never that the token gives itself what another gives."""
    line = run(
        'const scene = await scened({ cells: given.cells, ref: given.ref, scope: "AtbLnFf", hide: "first", from: 0, to: 3 }); return headlineOf(scene);',
        payload=payload(build(4)),
        cells=cells,
        ref=ref,
    )
    noun = "number" if cells == "none" else "share"
    assert line == f"There is no {noun} here of the contribution of “t0” to “t3”: “t0” is hidden."


@needs_node
@pytest.mark.parametrize("cells", ["others", "row", "none"])
@pytest.mark.parametrize("ref", ["", "AtbLn"])
def test_another_row_has_a_source_that_it_sees(build: Builder, cells: str, ref: str) -> None:
    """Of a token before the selected source, of the source itself or with the source hidden: the row's largest shown change."""
    got = run(
        """
        const at = await open({ cells: given.cells, ref: given.ref, scope: "AtbLnFf", to: 4, from: 3 });
        const after = (change) => selectionAfter(at.data, at.selection, change).from;
        const hidden = selectionAfter(at.data, { ...at.selection, from: 0 }, { hide: "first" });
        const table = (selection) => plain(sceneOf(at.data, selection).maps.at(-1).cells);
        const cells = [table(at.selection), table(hidden)];
        const kept = [after({ to: 4 }), after({ to: 2, from: 4 }), after({ hide: "special" }), after({ layer: 0 })];
        return { moved: [after({ to: 2 }), after({ to: 3 }), hidden.from], first: after({ to: 0 }), kept, cells };
        """,
        payload=payload(build(5, layers=(0,))),
        cells=cells,
        ref=ref,
    )
    assert got["kept"] == [3, 4, 3, 3] and got["first"] == 0
    whole, hidden = np.abs(np.array(got["cells"], dtype=float).reshape(2, 5, 5))
    assert np.isnan(hidden[4, 0])
    expected = [whole[2, :2], whole[3, :3], hidden[4, :4]]
    assert got["moved"] == [int(np.nanargmax(row)) for row in expected]


@needs_node
def test_a_cell_that_no_prompt_has_has_a_headline(mean_of_three: AverageMaps) -> None:
    """In an average by name a later key may be NaN: the sentence says that these maps have no such cell."""
    named = dataclasses.replace(mean_of_three, causal=False).token_maps()
    line = run(
        "const scene = await scened({ from: 3, to: 1 }); return headlineOf(scene);",
        payload=token_maps_page({"mean": named}).payload(),
    )
    assert line == "There is no share here of the contribution of “3” to “1”: these maps have no such cell."


@needs_node
def test_a_hidden_own_cell_has_no_own_share(build: Builder) -> None:
    """The others' own shares are parts of what is kept of their rows, at most the whole."""
    maps = build(5, causal=False)
    own = run(
        'const scene = await scened({ hide: "first", ref: "", scope: "Atb", layer: 0 }); return plain(scene.maps[0].columns.own);',
        payload=payload(maps),
    )
    kept = maps["Atb", 0].numpy()[:, 1:]
    assert own[0] is None
    np.testing.assert_allclose(own[1:], np.diag(kept[1:]) / kept[1:].sum(1), rtol=1e-3)


def test_an_average_by_position_is_causal_where_its_maps_are(build: Builder, mean_of_three: AverageMaps) -> None:
    """What no prompt can have is out of reach and not missing; names have no such order."""
    several = [build(4), build(4) * 2.0]
    assert mean_of_three.token_maps().causal and mean_of_three.mean[..., 1, 2].isnan().all()
    assert (mean_of_three - mean_of_three).token_maps().causal
    assert not average([build(4, causal=False)] * 2).token_maps().causal
    assert not average(several, {"first": 0, "last": -1}).token_maps().causal
    assert token_maps_page({"mean": mean_of_three.token_maps()}).text.causal


@pytest.mark.parametrize("causal", [True, False])
def test_the_rail_of_an_average_leaves_out_what_is_not_there(mean_of_three: AverageMaps, causal: bool) -> None:
    """NaN cells count neither in shares nor in sizes: by position and by name the same numbers as of the maps themselves."""
    mean = dataclasses.replace(mean_of_three, causal=causal).token_maps()
    scope = mean.channels[0]
    cells = np.where(mean.reachable().numpy(), mean[scope].numpy(), np.nan)
    own = np.array([np.diag(layer) for layer in cells]) / np.nansum(cells, axis=2)
    written = 0.5 * 10.0 ** (1 - FULL_DIGITS)  # relative error of a number of so many digits
    np.testing.assert_allclose(tracks_of(mean)["values"][scope], 1 - own.mean(axis=1), rtol=written)
    sizes = tracks_of(dataclasses.replace(mean, values=-mean.values, signed=True))["values"][scope]
    np.testing.assert_allclose(sizes, np.nanmean(cells, axis=(1, 2)), rtol=1e-12)


def test_sizes_are_those_of_reachable_cells(build: Builder) -> None:
    """The zeros of a causal map are no small differences."""
    maps = build(4) * 3.0 - build(4)
    (track,) = page_data({"run": maps}).runs[0].blocks["contributions"].tracks  # type: ignore[attr-defined]
    expected = [2 * float(layer[maps.reachable()].double().mean()) for layer in build(4)["Atb"]]
    assert track["values"]["Atb"].tolist() == pytest.approx(expected, rel=1e-6)


def test_a_row_of_zeros_takes_from_nobody() -> None:
    """It has no share of the others that could be averaged; maps of zeros have none at all."""
    values = torch.zeros(2, 1, 2, 2)
    values[0, 0, 1] = torch.tensor([1.0, 3.0])
    maps = TokenMaps(values, ("a", "b"), (0, 1), ("head 0",), (0, 1), causal=True)
    first, second = tracks_of(maps)["values"]["head 0"]
    assert first == 0.25 and second is None


def test_the_precision_told_is_that_of_every_table(build: Builder) -> None:
    """Of a column with a wide range too, whose steps are coarser than those of the maps."""
    maps = build(4)
    told = page_data({"run": maps}).payload()["precision"]
    maps.bias["Atb"][:] = 10.0 ** torch.linspace(-8, 0, 4)
    wide = page_data({"run": maps}).payload()["precision"]
    assert wide > 1.2 * told


@pytest.mark.browser
def test_a_page_goes_on_when_the_selected_column_is_hidden(build: Builder, show: Shower) -> None:
    """Opened at a hidden column it says so; when the reader hides it another source of the row is selected."""
    screen = show(build(5), address="#from=0&to=3&cells=row&hide=first")
    assert screen.page.locator("#headline").inner_text().endswith("“t0” is hidden.")
    screen.go("#from=0&to=3&cells=row")
    screen.tick("hide-first")
    assert re.search("the share of “t[12]” in all contributions to “t3”", screen.page.locator("#headline").inner_text())
    screen.choose(layer=1)
    assert screen.problems == []


@pytest.mark.browser
def test_the_heading_is_of_the_run_in_sight(build: Builder, show: Shower) -> None:
    """Heading and window title change with the run."""
    from tl_ffblock.interventions.patched import PatchedMaps

    runs = PatchedMaps(*(build(3, tokens=tuple(f" {name}{i}" for i in range(3))) for name in "abc"))
    screen = show(html=runs.to_html(layer=0, scope="Atb"))
    screen.settle()
    for number, text in ((0, "a0 a1 a2"), (1, "b0 b1 b2")):
        screen.choose(run=number)
        assert screen.page.locator("h1").inner_text() == f"“{text}”"
        assert screen.page.title() == f"{text} · tiny"
