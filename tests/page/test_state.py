"""The page's arithmetic and its selection, in Node: the scripts that know no document."""

import re

import numpy as np
import pytest
import torch

from tests.page.node import needs_node, payload, run
from tests.page.screen import Builder
from tl_ffblock.layer.scopes import STEPS
from tl_ffblock.page.document import asset
from tl_ffblock.page.numbers import pack
from tl_ffblock.views.figures import GAIN, INK, LOSS

pytestmark = needs_node


def test_numbers_come_out_as_they_went_in() -> None:
    """Any size and sign, differences to another table too, to the precision told; zero and NaN exactly."""
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(2, 3000, generator=generator) * 10 ** torch.linspace(-6, 6, 3000)
    numbers[0, :3] = torch.tensor([0.0, torch.nan, torch.inf])
    positive = numbers.abs()
    like = positive * (1 + 0.1 * torch.rand(positive.shape, generator=generator))
    tables = [pack(numbers), pack(positive), pack(positive, coarse=True)]
    tables.append(pack(like, reference=("positive", tables[1])))
    unpacked = run(
        """
        const bytes = await Promise.all(given.tables.map((table) => inflate(table.packed)));
        const codes = (i, layer) => codesOf(bytes[i], given.tables[i], layer, given.tables[i].reference ? codes(1, layer) : null);
        return given.tables.map((table, i) => [0, 1].map((layer) => plain(numbersOf(codes(i, layer), table, layer))));
        """,
        tables=[table.payload for table in tables],
    )
    for read, table, sent in zip(unpacked, tables, (numbers, positive, positive, like), strict=True):
        got = np.array([[np.nan if x is None else x for x in row] for row in read])
        expected = np.where(np.isfinite(sent.numpy()), sent.numpy(), np.nan)
        assert got[0, 0] == 0 and np.isnan(got[0, 1]) and np.isnan(got[0, 2])
        large = np.abs(expected) > (1e-3 if table is tables[2] else 1e-6) * np.nanmax(
            np.abs(expected), axis=1, keepdims=True
        )
        told = large & np.isfinite(expected)
        error = np.abs(got[told] / expected[told] - 1)
        assert error.max() <= table.precision * (1 + 1e-3)
    assert tables[0].precision < 5e-4  # three digits


@pytest.mark.parametrize("causal", [True, False])
def test_maps_and_shares_are_the_results(build: Builder, causal: bool) -> None:
    """Cells before and after; shares of rows, of columns, of the others and their differences as NumPy computes them."""
    maps = build(6, causal=causal)
    scenes = run(
        """
        const result = {};
        for (const cells of ["none", "row", "column", "others"]) {
          const scene = await scened({ layer: 1, scope: "AtbLnFf", cells });
          result[cells] = scene.maps.map((map) => plain(map.cells));
          result.own = scene.maps.map((map) => plain(map.columns.own || []));
        }
        return result;
        """,
        payload=payload(maps),
    )
    reach = maps.reachable().numpy()
    before, after = (np.where(reach, maps[scope, 1].numpy(), np.nan) for scope in ("AtbLn", "AtbLnFf"))
    others = [np.where(np.eye(6, dtype=bool), np.nan, m) for m in (before, after)]
    expected = {
        "none": [before, after],
        "row": [m / np.nansum(m, 1, keepdims=True) for m in (before, after)],
        "column": [m / np.nansum(m, 0, keepdims=True) for m in (before, after)],
        "others": [m / np.maximum(np.nansum(m, 1, keepdims=True), 1e-30) for m in others],
    }
    for cells, pair in expected.items():
        for got, wanted in zip(scenes[cells], [*pair, pair[1] - pair[0]], strict=True):
            np.testing.assert_allclose(
                np.array(got, dtype=float).reshape(6, 6), wanted, rtol=3e-4, atol=3e-4 * np.nanmax(np.abs(wanted))
            )
    own = [np.diag(m) / np.nansum(m, 1) for m in (before, after)]
    for got, wanted in zip(scenes["own"], [*own, own[1] - own[0]], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=3e-4, atol=3e-4)


def test_changes_of_shares_of_the_others_add_to_zero(build: Builder) -> None:
    """What a token takes from other tokens is a whole: a row that gains somewhere loses elsewhere."""
    sums = run(
        "const scene = await scened({}); const n = 7; return Array.from({ length: n }, (_, r) => plain(scene.maps[2].cells).slice(r * n, r * n + n).reduce((sum, v) => sum + (v || 0), 0));",
        payload=payload(build(7, causal=False)),
    )
    assert np.abs(sums).max() < 1e-6


@pytest.mark.parametrize("n", [10, 128, 300, 512])
@pytest.mark.parametrize("width", [97, 250, 640])
def test_no_cell_is_lost_in_pixels(n: int, width: int) -> None:
    """One bright cell planted in every row is in the pixels, however few there are, and nothing else is bright."""
    lit = run(
        """
        const { n, width } = given;
        const cells = new Float32Array(n * n).fill(0.1);
        const place = (row) => (row * 37 + 11) % n;
        for (let row = 0; row < n; row++) cells[row * n + place(row)] = 9;
        const pixels = pixelsOf(cells, n, [0, n - 1, 0, n - 1], width, width);
        const at = (index) => Math.min(width - 1, Math.floor((index * width) / n));
        let missing = 0;
        for (let row = 0; row < n; row++) if (pixels[at(row) * width + at(place(row))] !== 9) missing++;
        return [missing, plain(pixels).filter((value) => value === null).length, new Set(pixels).size];
        """,
        n=n,
        width=width,
    )
    assert lit[0] == 0 and lit[1] == 0 and lit[2] <= 2


def test_a_selection_goes_through_its_address(build: Builder) -> None:
    """Every field that is changed stands in the hash, comes back from it, and the opening selection has an empty one."""
    change = dict(
        scope="Atb", layer=0, ref="Attn", to=3, **{"from": 2}, read="column", cells="row", range="all", root=1
    )
    change |= dict(
        words=1,
        hide="special first",
        zoom="0-3,1-4",
        sort="distance",
        pairs="token",
        mass=90,
        find="a b&c=#%",
        panel="after",
    )
    got = run(
        """
        const { data, selection } = await open(given.change);
        const whole = { ...selection, zoom: given.change.zoom };
        return { opening: hashOf(data, openingSelection(data)), back: selectionOf(data, hashOf(data, whole)), whole };
        """,
        payload=payload(build(6, tokens=("[CLS]", "un", "##do", "it", "now", "[SEP]"))),
        change=change,
    )
    assert got["opening"] == "" and got["back"] == got["whole"]
    assert {name: got["back"][name] for name in change} == change


@pytest.mark.parametrize(
    "address",
    [
        "#layer=99&scope=nothing&to=-1&from=1e9&read=up&mass=0&zoom=1-2",
        "#scope=<script>&ref=__proto__&run=5&cells=constructor&find=" + "x" * 100,
        "#%%%&layer&=&to=1.5&hide=all&view=../../etc&toString=1",
    ],
)
def test_an_address_that_cannot_be_opens_the_page_as_ever(build: Builder, address: str) -> None:
    """Unknown fields, values out of range, markup and broken escapes change nothing."""
    same = run(
        "const { data } = await open(); return [selectionOf(data, given.address), openingSelection(data)];",
        payload=payload(build(5)),
        address=address,
    )
    assert same[0] == same[1]


@pytest.mark.parametrize("order", STEPS)
def test_every_step_of_every_order_has_its_maps(build: Builder, order: str) -> None:
    """One map, or before, after and difference where the step has a before, each with its title and a finite scale."""
    roles = run(
        """
        const { data, selection } = await open({ layer: 4 });
        return [...data.channels.keys()].map((scope) => {
          const scene = sceneOf(data, changed(data, { ...selection, ref: "" }, { scope, ref: usualRef(data, scope, 0, 0) }));
          return [scope, scene.maps.map((map) => [map.role, titleOf(scene, map).length > 0, Number.isFinite(map.limit)])];
        });
        """,
        payload=payload(build(5, order=order, layers=(1, 4))),
    )
    three, one = ["before", "after", "difference"], ["only"]
    expected = [[s.scope, [[r, True, True] for r in (three if s.before else one)]] for s in STEPS[order]]  # type: ignore[index]
    assert roles == expected


def test_a_step_brings_its_reference_along(build: Builder) -> None:
    """Another scope is compared with what goes into it, a reference chosen by hand stays, and nothing with itself."""
    got = run(
        """
        const { data, selection } = await open();
        const step = changed(data, selection, { scope: "AtbLnFfRes" });
        const fixed = changed(data, changed(data, selection, { ref: "Attn" }), { scope: "AtbLnFfRes" });
        return [selection.ref, step.ref, fixed.ref, changed(data, fixed, { scope: "Attn" }).ref];
        """,
        payload=payload(build(5)),
    )
    assert got == ["AtbLn", "AtbLnFf", "Attn", ""]


def test_words_take_sums_of_sources_and_means_of_destinations(build: Builder) -> None:
    """Two pieces of one word: a column of theirs is the sum of both, a row the mean."""
    tokens = ("play", "##ing", "now")
    maps = build(3, tokens=tokens, causal=False, order="post_ln")
    cells = run(
        'const scene = await scened({ words: 1, cells: "none", layer: 0, scope: "Atb", ref: "" }); return [plain(scene.maps[0].cells), scene.maps[0].labels];',
        payload=payload(maps),
    )
    m = maps["Atb", 0].numpy()
    wanted = [[m[:2, :2].sum(1).mean(), m[:2, 2].mean()], [m[2, :2].sum(), m[2, 2]]]
    np.testing.assert_allclose(np.array(cells[0]).reshape(2, 2), wanted, rtol=3e-4)
    assert cells[1] == ["playing", "now"]


def test_hidden_tokens_leave_the_shares(build: Builder) -> None:
    """Without special tokens the others' shares add to 1 among themselves."""
    maps = build(5, tokens=("[CLS]", "a", "b", "c", "[SEP]"), causal=False, order="post_ln")
    cells = run(
        'const scene = await scened({ hide: "special", cells: "row", ref: "" }); return plain(scene.maps[0].cells);',
        payload=payload(maps),
    )
    table = np.array(cells, dtype=float).reshape(5, 5)
    assert np.isnan(table[:, [0, 4]]).all()
    np.testing.assert_allclose(table[:, 1:4].sum(1), 1, rtol=1e-6)


def test_pairs_are_sorted_and_cut(build: Builder) -> None:
    """The list begins with the largest change; a threshold keeps the fewest cells that make up the mass of a row."""
    maps = build(8, causal=False)
    got = run(
        """
        const scene = await scened({ cells: "row" });
        const most = rankedPairs(scene, 5);
        const half = rankedPairs({ ...scene, selection: { ...scene.selection, mass: 50, pairs: "token" } }, 99);
        const named = rankedPairs({ ...scene, selection: { ...scene.selection, find: "t3" } }, 99);
        return { sizes: most.pairs.map(({ index }) => Math.abs(scene.maps[2].cells[index])), total: most.total, cells: plain(scene.maps[2].cells),
          half: half.total, named: named.pairs.every(({ row, column }) => row === 3 || column === 3), count: named.total };
        """,
        payload=payload(maps),
    )
    off = np.abs(np.array(got["cells"]).reshape(8, 8)[~np.eye(8, dtype=bool)])
    np.testing.assert_allclose(got["sizes"], np.sort(off)[::-1][:5], rtol=1e-6)
    assert got["total"] == 56 and 0 < got["half"] < 7 and got["named"] and got["count"] == 14


def test_the_headline_states_the_cell(build: Builder) -> None:
    """Layer, component, both tokens and both numbers, with the verb of their order."""
    maps = build(4, tokens=("he", "is", "a", "king"), causal=False)
    maps["AtbLn"][1] = torch.eye(4) + 0.25
    maps["AtbLnFf"][1] = torch.eye(4) + torch.tensor([[0, 2.0, 1, 1], [1, 0, 1, 2], [1, 1, 0, 2], [1, 1, 2, 0]])
    line = run(
        'const scene = await scened({ to: 0, from: 1 }); const words = mapsWords(scene); return [words.headline, captionOf(scene, words), fileName(scene, words, "svg")];',
        payload=payload(maps, layer=1, scope="AtbLnFf"),
    )
    assert line[0] == (
        "Layer 1: the feed-forward block raises the share of “is” in other tokens' contributions to “he”: 33.3\u00a0% → 50\u00a0%."
    )
    assert line[1].startswith(line[0]) and "he is a king" in line[1]
    assert line[2] == "tiny_he-is-a-king_layer1_AtbLn-AtbLnFf_others.svg"


@pytest.mark.parametrize(
    ("n", "causal", "cells"), [(1, True, "row"), (2, True, "row"), (2, False, "row"), (3, True, "others")]
)
def test_a_page_opens_at_a_share_that_says_something(build: Builder, n: int, causal: bool, cells: str) -> None:
    """Where no row has two others each is all of them: the page opens at shares of the row, at a cell that changed."""
    opening = run(
        "const scene = await scened({}); return [scene.selection.cells, scene.maps.at(-1).cells[scene.row * scene.axes.nColumns + scene.column]];",
        payload=payload(build(n, causal=causal), layer=1, scope="AtbLnFf"),
    )
    assert opening[0] == cells
    assert n == 1 or abs(opening[1]) > 1e-3


def test_the_headline_says_of_a_share_that_it_is_one(build: Builder) -> None:
    """Norms rise while a share falls: only of norms is it said that a token takes more; of shares, in what they are shares."""
    maps = build(3, tokens=("he", "is", "king"), causal=False)
    maps["AtbLn"][1] = torch.tensor([[1.0, 1, 1], [1, 1, 1], [1, 1, 1]])
    maps["AtbLnFf"][1] = torch.tensor([[1.0, 2, 6], [1, 1, 1], [1, 1, 1]])
    lines = run(
        """
        const lines = [];
        for (const ref of ["AtbLn", ""]) for (const cells of ["others", "row", "column", "none"]) lines.push(headlineOf(await scened({ to: 0, from: 1, cells, ref })));
        return lines;
        """,
        payload=payload(maps, layer=1, scope="AtbLnFf"),
    )
    step, alone, of = "Layer 1: the feed-forward block", "Layer 1, AtbLnFf:", "\u00a0%"
    assert lines == [
        f"{step} lowers the share of “is” in other tokens' contributions to “he”: 50{of} → 25{of}.",
        f"{step} lowers the share of “is” in all contributions to “he”: 33.3{of} → 22.2{of}.",
        f"{step} raises the share of “he” in all contributions of “is”: 33.3{of} → 50{of}.",
        f"{step} raises the contribution of “is” to “he”: 1 → 2.",
        f"{alone} 25{of} of other tokens' contributions to “he” come from “is”.",
        f"{alone} 22.2{of} of all contributions to “he” come from “is”.",
        f"{alone} 50{of} of all contributions of “is” go to “he”.",
        f"{alone} the contribution of “is” to “he” is 2.",
    ]


def test_gain_and_loss_are_equally_light() -> None:
    """Equal changes look equal: the two inks differ by less than 4 in L*, in both themes; white differs from both."""
    lightness = run(
        'return ["light", "dark"].map((name) => ["gain", "loss", "paper"].map((ink) => toLab(hexToRgb(THEMES[name][ink]))[0]));'
    )
    for gain, loss, paper in lightness:
        assert abs(gain - loss) < 4 and min(abs(paper - gain), abs(paper - loss)) > 40


def test_page_style_sheet_and_still_figure_have_the_same_inks() -> None:
    """The scripts' colours are those that the style sheet sets for the same things, and those of Matplotlib's maps."""
    themes = run("return THEMES;")
    light, dark = re.findall(r":root[^{]*\{[^}]*--paper[^}]*\}", asset("page.css"))[:2]
    for sheet, theme in ((light, themes["light"]), (dark, themes["dark"])):
        styles = dict(re.findall(r"--(\w+): (#\w+);", sheet))
        for name in ("ink", "grey", "read"):
            assert styles[name] == theme[name]
    assert tuple(themes["light"][name] for name in ("contribution", "gain", "loss")) == (INK, GAIN, LOSS)
