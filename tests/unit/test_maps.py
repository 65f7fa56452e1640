"""The labelled result: indexing, arithmetic, comparison, saving, showing."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tl_ffblock.errors import InputError, MapFileError
from tl_ffblock.files import write_tensors
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.tables import HeadTable, ScopeTable
from tl_ffblock.results.tokens import visible

TOKENS = ("[CLS]", "a b", "\n", "", "é")
LAYERS_HELD = "there are layers 1, 4 (negative numbers count from the end)"


def make(seed: int = 0, **changes: Any) -> ContributionMaps:
    """A small result with random numbers: two layers, two scopes, three of five queries."""
    generator = torch.Generator().manual_seed(seed)
    layers, queries = (1, 4), (4, 0, 2)

    def table(*shape: int) -> ScopeTable:
        return ScopeTable({s: torch.rand(2, *shape, generator=generator) for s in ("Atb", "AtbFf")}, layers)

    made = ContributionMaps(
        tokens=TOKENS,
        layers=layers,
        order="post_ln",
        queries=queries,
        causal=False,
        values=table(3, 5),
        bias=table(3),
        remainder=table(3),
        completeness=ScopeTable({s: t * 1e-6 for s, t in table(3).items()}, layers),
        model="toy",
        provenance={"method": "exact"},
    )
    return dataclasses.replace(made, **changes)


@pytest.fixture
def maps() -> ContributionMaps:
    """The result most tests look at."""
    return make()


CHANNELS = ("head 0", "head 3", "residual")


def by_head(seed: int = 0, channels: tuple[str, ...] = CHANNELS) -> ContributionMaps:
    """The same with heads."""
    generator = torch.Generator().manual_seed(seed)
    data = {s: torch.rand(2, len(channels), 3, 5, generator=generator) for s in ("Atb", "AtbFf")}
    return make(seed, heads=HeadTable(data, (1, 4), channels))


def tables(maps: ContributionMaps) -> dict[str, Tensor]:
    """Every tensor of a result by name."""
    names = ("values", "bias", "remainder", "completeness")
    return {f"{name}.{scope}": tensor for name in names for scope, tensor in getattr(maps, name).items()}


def test_a_layer_is_indexed_by_the_models_own_number(maps: ContributionMaps) -> None:
    """`maps[scope, layer]` is the row of that layer in `maps[scope]`, for maps and for numbers per query."""
    assert maps["AtbFf"].shape == (2, 3, 5)
    torch.testing.assert_close(maps["AtbFf", 4], maps["AtbFf"][1], rtol=0, atol=0)
    torch.testing.assert_close(maps.bias["Atb", 1], maps.bias["Atb"][0], rtol=0, atol=0)
    torch.testing.assert_close(maps["AtbFf", -1], maps["AtbFf", 4], rtol=0, atol=0)
    torch.testing.assert_close(maps.bias["Atb", -2], maps.bias["Atb", 1], rtol=0, atol=0)
    assert maps.scopes == ("Atb", "AtbFf")
    assert len(maps.values) == 2


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("AtbLn", "no scope 'AtbLn' here; there are Atb, AtbFf. `AtbLn` of other models is `Atb` here."),
        (("AtbLn", 1), "no scope 'AtbLn' here; there are Atb, AtbFf. `AtbLn` of other models is `Atb` here."),
        (("Atb", 0), f"no layer 0 here; {LAYERS_HELD}"),
        (("Atb", -3), f"no layer -3 here; {LAYERS_HELD}"),
        (("Atb", "4"), f"no layer '4' here; {LAYERS_HELD}"),
        (("Atb", [1, 4]), f"no layer [1, 4] here; {LAYERS_HELD}"),
        (("Atb", True), f"no layer True here; {LAYERS_HELD}"),
    ],
)
def test_a_missing_key_says_what_there_is(maps: ContributionMaps, key: Any, text: str) -> None:
    """KeyErrors list the scopes or layers, without the quotes that Python puts around a KeyError's text."""
    for table in (maps, maps.completeness):
        with pytest.raises(KeyError) as error:
            table[key]
        assert str(error.value) == text


def test_worst_completeness_names_its_place(maps: ContributionMaps) -> None:
    """The largest error with scope, model layer and query position, not with row and column of a tensor."""
    maps.completeness["AtbFf"][1, 2] = 0.5
    assert maps.worst_completeness() == (0.5, "AtbFf", 4, 2)


def test_difference_is_signed_cell_by_cell(maps: ContributionMaps) -> None:
    """Values, bias and remainder are subtracted; the completeness error is the larger of the two."""
    other = make(1)
    difference = maps - other
    assert difference.signed
    for name in ("values", "bias", "remainder"):
        for scope in maps.scopes:
            expected = getattr(maps, name)[scope] - getattr(other, name)[scope]
            torch.testing.assert_close(getattr(difference, name)[scope], expected, rtol=0, atol=0)
    worse = torch.maximum(maps.completeness["Atb"], other.completeness["Atb"])
    torch.testing.assert_close(difference.completeness["Atb"], worse, rtol=0, atol=0)
    assert (maps["Atb"] >= 0).all(), "the operands stay as they were"


OTHER_CELLS = [
    ({"tokens": ("x",) * 6}, "of 5 and of 6 tokens"),
    ({"queries": (4, 0, 1)}, "different queries"),
    ({"layers": (1, 3)}, "different layers"),
    ({"order": "pre_ln"}, "different order"),
    ({"causal": True}, "different causal: False against True"),
]


@pytest.mark.parametrize(("change", "text"), OTHER_CELLS)
@pytest.mark.parametrize("verb", ["subtract", "add", "average"])
def test_results_of_other_cells_do_not_combine(
    maps: ContributionMaps, verb: str, change: dict[str, Any], text: str
) -> None:
    """Two results that do not describe the same cells have no difference, sum or mean."""
    other = make(**change)
    combine = {"subtract": lambda: maps - other, "add": lambda: maps + other}
    with pytest.raises(InputError, match=f"cannot {verb} results .*{text}"):
        combine.get(verb, lambda: ContributionMaps.mean([maps, other]))()


@pytest.mark.wrong_types
@pytest.mark.parametrize("other", [1, "maps", None], ids=repr)
def test_arithmetic_with_something_else_is_a_type_error(maps: ContributionMaps, other: Any) -> None:
    """Python's own error, as for any two types that do not add or subtract; only numbers scale."""
    for operation in (lambda: maps - other, lambda: maps + other, lambda: maps * maps, lambda: maps / "2"):
        with pytest.raises(TypeError, match="unsupported operand|can't multiply"):
            operation()


def test_arithmetic_is_that_of_the_numbers(maps: ContributionMaps) -> None:
    """Sum, multiples and quotients cell by cell in values, bias and remainder; relative errors are not scaled."""
    other = make(1)
    expected = {
        "values": maps["Atb"] + other["Atb"],
        "bias": maps.bias["Atb"] + other.bias["Atb"],
        "remainder": maps.remainder["Atb"] + other.remainder["Atb"],
    }
    for name, rows in expected.items():
        torch.testing.assert_close(getattr(maps + other, name)["Atb"], rows, rtol=0, atol=0)
        torch.testing.assert_close(getattr(2 * maps, name)["Atb"], 2 * getattr(maps, name)["Atb"], rtol=0, atol=0)
    assert maps * 4 / 4 == maps
    assert maps + maps == maps * 2 == 2.0 * maps
    assert not (maps + other).signed
    assert (maps * -1).signed
    assert (maps - other + maps).signed
    with pytest.raises(ZeroDivisionError, match="contribution maps divided by zero"):
        maps / 0


def test_the_mean_of_results_is_the_mean_of_their_numbers() -> None:
    """As of the stacked tensors; the completeness error kept is the worst of all; a mean of one is that one."""
    results = [make(seed) for seed in range(4)]
    mean = ContributionMaps.mean(iter(results))
    for name in ("values", "bias", "remainder"):
        stacked = torch.stack([getattr(maps, name)["AtbFf"] for maps in results])
        torch.testing.assert_close(getattr(mean, name)["AtbFf"], stacked.mean(0))
    worst = torch.stack([maps.completeness["AtbFf"] for maps in results]).amax(0)
    torch.testing.assert_close(mean.completeness["AtbFf"], worst, rtol=0, atol=0)
    assert ContributionMaps.mean([results[0]]) == results[0]


@pytest.mark.wrong_types
@pytest.mark.parametrize("results", [[], [1, 2], ["maps"]], ids=repr)
def test_the_mean_of_nothing_is_refused(results: Any) -> None:
    """No result, or something else, has no mean."""
    with pytest.raises(InputError, match="mean: expected one result or more"):
        ContributionMaps.mean(results)


def test_labels_that_differ_are_joined(maps: ContributionMaps) -> None:
    """Where tokens, model or settings differ the result says both; three names at most."""
    words = [make(tokens=("[CLS]", word, "x", "y", "z")) for word in ("she", "he", "he", "it", "they")]
    assert (words[0] - words[1]).tokens[:3] == ("[CLS]", "she / he", "x")
    assert (words[0] + words[1]).tokens[1] == "she|he"
    assert ContributionMaps.mean(words).tokens[1] == "she|he|it|…"
    assert (maps - make(model="other")).model == "toy / other"
    captum = make(provenance={"method": "captum, 50 steps"})
    assert (maps + captum).provenance == {"method": "exact|captum, 50 steps"}
    assert (maps + maps).tokens == TOKENS


def test_a_difference_knows_its_sides(maps: ContributionMaps) -> None:
    """By their texts, from where these differ in long ones, else by their models; turned about they change places."""
    one, two = (make(tokens=("[CLS]", word, "x", "y", "z")) for word in ("she", "he"))
    assert (one - two).sides == ("“… she x y z”", "“… he x y z”")
    assert (-1 * (one - two)).sides == (two - one).sides
    assert (one - two).token_maps().sides == (one - two).sides and one.sides == ()
    long = [make(tokens=(word, "b" * 60, "x", "y", "z")) for word in ("she", "he")]
    assert (long[0] - long[1]).sides == tuple(f"“{word} {'b' * (56 - len(word))}...”" for word in ("she", "he"))
    assert (maps - make(model="other")).sides == (f"“{maps.model}”", "“other”")
    assert (maps - maps).sides == ("the first result", "the second result")


def test_equal_means_equal_labels_and_numbers(tmp_path: Path, maps: ContributionMaps) -> None:
    """A loaded result equals the saved one, NaN included; one other number, label or type and it does not."""
    maps["Atb"][0, 0, 0] = float("nan")
    assert ContributionMaps.load(maps.save(tmp_path / "maps")) == maps
    moved = ContributionMaps.load(tmp_path / "maps")
    moved.bias["AtbFf"][1, 2] += 1e-6
    assert moved != maps
    changes: list[dict[str, Any]] = [
        {"tokens": tuple("abcde")},
        {"model": "other"},
        {"signed": True},
        {"provenance": {}},
        {"values": maps.values.each(Tensor.double)},
    ]
    for change in changes:
        assert dataclasses.replace(maps, **change) != maps
    assert maps != "maps"
    with pytest.raises(TypeError, match="unhashable"):
        hash(maps)


def test_a_result_is_no_list(maps: ContributionMaps) -> None:
    """Iterating says over what one can iterate; `len` has no meaning either."""
    with pytest.raises(TypeError, match=r"maps of one sequence: iterate over maps\.scopes or maps\.layers"):
        list(maps)
    with pytest.raises(TypeError, match="no len"):
        len(maps)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_saved_and_loaded_are_equal_bit_by_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    """Every number, label and setting comes back, NaN, infinity, negative zero and odd tokens included."""
    maps = make()
    values = ScopeTable({s: t.to(dtype) for s, t in maps.values.items()}, maps.layers)
    maps = dataclasses.replace(maps, values=values, signed=True)
    maps["Atb"][0, 0, :4] = torch.tensor([float("nan"), float("inf"), -0.0, 1e-40])
    loaded = ContributionMaps.load(maps.save(tmp_path / "maps.safetensors"))
    for name, tensor in tables(maps).items():
        found = tables(loaded)[name]
        assert found.dtype == tensor.dtype
        assert found.contiguous().view(torch.uint8).equal(tensor.contiguous().view(torch.uint8)), name
    for field in ("tokens", "layers", "order", "queries", "causal", "model", "signed", "scopes"):
        assert getattr(loaded, field) == getattr(maps, field)
    assert dict(loaded.provenance) == dict(maps.provenance)


@pytest.mark.parametrize("place", [0.15, 0.5, 0.9, 0.999], ids=str)
def test_a_changed_byte_is_noticed(tmp_path: Path, maps: ContributionMaps, place: float) -> None:
    """One flipped byte in header or numbers, and the file is refused."""
    path = maps.save(tmp_path / "maps.safetensors")
    data = bytearray(path.read_bytes())
    data[int(len(data) * place)] ^= 0x01
    path.write_bytes(data)
    with pytest.raises(MapFileError, match=r"was changed|not a readable|holds no|missing|version"):
        type(maps).load(path)


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_a_truncated_file_is_refused(tmp_path: Path, maps: ContributionMaps, kept: int) -> None:
    """A file that ends early is not a readable safetensors file, and the path is named."""
    path = maps.save(tmp_path / "maps.safetensors")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(MapFileError, match=r"maps\.safetensors is not a readable safetensors file"):
        type(maps).load(path)


def old_file(path: Path, maps: ContributionMaps, *, version: int = 1, **labels: Any) -> Path:
    """Maps as tl_ffblock 0.2.0 saved them; labels that are None are left out."""
    names = ("tokens", "layers", "order", "queries", "causal", "scopes", "model", "signed", "provenance")
    held = {name: getattr(maps, name) for name in names} | {"heads": maps.heads.channels} | labels
    heads = {f"heads.{scope}": rows for scope, rows in maps.heads.items()}
    given = {name: label for name, label in held.items() if label is not None}
    write_tensors(path, "tl_ffblock.ContributionMaps", version, given, tables(maps) | heads)
    return path


def test_a_file_of_the_first_release_is_read(tmp_path: Path) -> None:
    """With heads, without, and of files that know none."""
    for maps, labels in ((make(), {}), (by_head(), {}), (make(), {"heads": None})):
        assert ContributionMaps.load(old_file(tmp_path / "x", maps, **labels)) == maps


@pytest.mark.parametrize(
    ("change", "text"), [({"version": 99}, "99"), ({"tokens": None}, "tokens"), ({"scopes": ["Attn"]}, "Attn")]
)
def test_other_old_files_are_refused(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    """Another version, a label that is missing, a scope without numbers."""
    with pytest.raises(MapFileError, match=text):
        ContributionMaps.load(old_file(tmp_path / "x", make(), **change))


def test_a_failed_save_leaves_the_old_file_and_no_other(
    tmp_path: Path, maps: ContributionMaps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written under another name and renamed: a crash in between changes nothing under the path."""
    path = maps.save(tmp_path / "maps.safetensors")
    before = path.read_bytes()

    def crash(*_: object) -> None:
        raise OSError("disk on fire")

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(OSError, match="disk on fire"):
        make(1).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["maps.safetensors"]


def test_dataframe_has_one_row_for_every_cell(maps: ContributionMaps) -> None:
    """Layer, scope, positions, both tokens and the value, at the right row."""
    frame = maps.to_dataframe()
    assert len(frame) == 2 * 2 * 3 * 5
    assert list(frame) == ["layer", "scope", "query", "key", "query_token", "key_token", "value"]
    for layer, scope, query, key in ((4, "AtbFf", 2, 4), (1, "Atb", 4, 0)):
        where = (frame.layer == layer) & (frame.scope == scope) & (frame["query"] == query) & (frame.key == key)
        (row,) = frame[where].itertuples()
        assert row.value == float(maps[scope, layer][maps.queries.index(query), key])
        assert (row.query_token, row.key_token) == (TOKENS[query], TOKENS[key])


def test_repr_says_what_a_reader_asks_first(maps: ContributionMaps) -> None:
    """Model, tokens made visible, queries, layers, scopes, dtype and the worst completeness error with its place."""
    maps.completeness["AtbFf"][1, 2] = 0.5
    assert repr(maps).splitlines() == [
        "ContributionMaps: contribution maps of toy (post_ln) · 5 tokens · 3 queries · layers 1, 4 · float32",
        "  tokens        [CLS] a·b ↵ ∅ é",
        "  scopes        Atb, AtbFf",
        "  completeness  worst relative error 5.0e−1 (AtbFf, layer 4, query 2 '↵')",
    ]
    assert "difference" in repr(maps - maps)
    assert "[CLS] a·b" in maps._repr_html_()


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        (" the", "·the"),
        ("a\tb", "a⇥b"),
        ("\r\n", "␍↵"),
        ("", "∅"),
        ("é😀", "é😀"),
        ("\u202e", "\\u202e"),
        ("\x00", "\\u0000"),
        ("\u00a0", "\\u00a0"),
        ("<s>", "<s>"),
    ],
)
def test_visible_shows_what_a_page_would_hide(token: str, shown: str) -> None:
    """White space, nothing at all, and characters that turn text around are shown by a mark; the rest stays."""
    assert visible(token) == shown


def test_arithmetic_is_that_of_heads_too() -> None:
    """Heads are added, subtracted, scaled and averaged as the maps are, under the same names."""
    first, second = by_head(0), by_head(1)
    a, b = first.heads["AtbFf", 4], second.heads["AtbFf", 4]
    results = {
        "sum": first + second,
        "difference": first - second,
        "half": first / 2,
        "mean": ContributionMaps.mean([first, second]),
    }
    expected = {"sum": a + b, "difference": a - b, "half": a / 2, "mean": (a + b) / 2}
    for name, maps in results.items():
        assert maps.heads.channels == CHANNELS
        torch.testing.assert_close(maps.heads["AtbFf", -1], expected[name], rtol=0, atol=0)


def test_results_of_other_heads_do_not_combine(maps: ContributionMaps) -> None:
    """Other heads, or none, are refused by name."""
    for second in (maps, by_head(channels=("head 1", "head 3", "residual"))):
        for combine in (lambda: by_head() - second, lambda: ContributionMaps.mean([by_head(), second])):  # noqa: B023
            with pytest.raises(InputError, match="different heads.channels: .*head 0"):
                combine()


def test_equal_means_equal_heads(tmp_path: Path, maps: ContributionMaps) -> None:
    """Numbers, names and presence of heads count; what was saved is loaded bit by bit."""
    first = by_head()
    assert first == by_head()
    renamed = dataclasses.replace(
        first, heads=HeadTable(dict(first.heads), first.layers, ("head 0", "head 2", "residual"))
    )
    assert first != renamed
    assert first != maps
    assert first != dataclasses.replace(first, heads=by_head(1).heads)
    loaded = ContributionMaps.load(first.save(tmp_path / "maps.safetensors"))
    assert loaded == first
    assert loaded.heads.channels == CHANNELS


def test_a_dataframe_of_heads_has_one_row_for_every_cell() -> None:
    """Each row's value is the cell that its labels name, the head among them."""
    maps = by_head()
    frame = maps.to_dataframe(heads=True)
    assert len(frame) == sum(rows.numel() for rows in maps.heads.values())
    for row in frame.itertuples():
        cells = maps.heads[row.scope, row.layer][CHANNELS.index(row.head)]
        assert row.value == float(cells[maps.queries.index(row.query), row.key])


def test_token_maps_of_heads_are_of_one_scope(maps: ContributionMaps) -> None:
    """Several scopes have no heads in common as channels."""
    assert by_head().token_maps("Atb", heads=True)["head 3"].equal(by_head().heads["Atb"][:, 1])
    with pytest.raises(InputError, match="heads=True of 2 scopes: channels are the heads of one, such as 'Atb'"):
        by_head().token_maps(heads=True)


@pytest.mark.parametrize("signed", [False, True])
def test_colours_of_a_figure_end_at_the_99th_percentile(signed: bool) -> None:
    """One cell a thousand times the others does not bleach a map; the colour bar says that cells lie beyond its end."""
    n = 24
    values = torch.rand(1, n, n, generator=torch.Generator().manual_seed(0))
    values[0, 20, 3] = 1000.0
    held = {name: ScopeTable({"Atb": torch.zeros(1, n)}, (0,)) for name in ("bias", "remainder", "completeness")}
    one = make(
        tokens=tuple("abcdefghijklmnopqrstuvwx"),
        layers=(0,),
        queries=tuple(range(n)),
        values=ScopeTable({"Atb": values - 0.5 * signed}, (0,)),
        signed=signed,
        **held,
    )
    image = one.figure(layer=0, scope="Atb").axes[0].images[0]
    cells = np.abs(image.get_array().compressed().astype(float))
    cells, end = cells[np.isfinite(cells)], image.get_clim()[1]
    assert end == pytest.approx(np.percentile(cells, 99)) and end < cells.max()
    assert image.get_clim()[0] == (-end if signed else 0)
    assert image.colorbar.extend == ("both" if signed else "max")
