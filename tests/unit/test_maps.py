"""The labelled result: indexing, arithmetic, comparison, saving, showing."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tl_ffblock.errors import InputError, MapFileError
from tl_ffblock.files import write_tensors
from tl_ffblock.result import load
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.tables import HeadTable, ScopeTable
from tl_ffblock.results.tokens import visible

TOKENS = ("[CLS]", "a b", "\n", "", "é")


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


CHANNELS = ("head 0", "head 3", "residual")


def by_head(seed: int = 0, channels: tuple[str, ...] = CHANNELS) -> ContributionMaps:
    """The same with heads."""
    generator = torch.Generator().manual_seed(seed)
    data = {s: torch.rand(2, len(channels), 3, 5, generator=generator) for s in ("Atb", "AtbFf")}
    return make(seed, heads=HeadTable(data, (1, 4), channels))


@pytest.fixture
def maps() -> ContributionMaps:
    """The result most tests look at."""
    return make()


def test_a_layer_is_indexed_by_the_models_own_number(maps: ContributionMaps) -> None:
    """`maps[scope, layer]` is the row of that layer in `maps[scope]`, for maps and for numbers per query."""
    assert maps["AtbFf"].shape == (2, 3, 5)
    torch.testing.assert_close(maps["AtbFf", 4], maps["AtbFf"][1], rtol=0, atol=0)
    torch.testing.assert_close(maps.bias["Atb", 1], maps.bias["Atb"][0], rtol=0, atol=0)
    torch.testing.assert_close(maps["AtbFf", -1], maps["AtbFf", 4], rtol=0, atol=0)
    torch.testing.assert_close(maps.bias["Atb", -2], maps.bias["Atb", 1], rtol=0, atol=0)
    assert maps.scopes == ("Atb", "AtbFf")
    assert len(maps.values) == 2


def test_worst_completeness_names_its_place(maps: ContributionMaps) -> None:
    """The largest error with scope, model layer and query position, not with row and column of a tensor."""
    maps.completeness["AtbFf"][1, 2] = 0.5
    assert maps.worst_completeness() == (0.5, "AtbFf", 4, 2)


@pytest.mark.wrong_types
@pytest.mark.parametrize("other", [1, "maps", None], ids=repr)
def test_arithmetic_with_something_else_is_a_type_error(maps: ContributionMaps, other: Any) -> None:
    """Python's own error, as for any two types that do not add or subtract; only numbers scale."""
    for operation in (lambda: maps - other, lambda: maps + other, lambda: maps * maps, lambda: maps / "2"):
        with pytest.raises(TypeError, match="unsupported operand|can't multiply"):
            operation()


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


def test_a_result_is_no_list(maps: ContributionMaps) -> None:
    """Iterating says over what one can iterate; `len` has no meaning either."""
    with pytest.raises(TypeError, match=r"maps of one sequence: iterate over maps\.scopes or maps\.layers"):
        list(maps)
    with pytest.raises(TypeError, match="no len"):
        len(maps)  # type: ignore[arg-type]


def test_repr_says_what_a_reader_asks_first(maps: ContributionMaps) -> None:
    """Model, tokens made visible, queries, layers, scopes, dtype and the worst completeness error with its place."""
    maps.completeness["AtbFf"][1, 2] = 0.5
    assert repr(maps).splitlines() == [
        "ContributionMaps: contribution maps of toy (post_ln) · 5 tokens · 3 queries · layers 1, 4 · float32",
        "  tokens        [CLS] a·b ↵ ∅ é",
        "  scopes        Atb, AtbFf",
        "  completeness  worst relative error 5.0e-1 (AtbFf, layer 4, query 2 '↵')",
    ]
    assert "difference" in repr(maps - maps)
    assert "[CLS] a·b" in maps._repr_html_()


@pytest.mark.parametrize("signed", [False, True])
def test_colours_of_a_figure_end_at_the_largest_cell(signed: bool) -> None:
    """Whatever its size: no larger cell has the same ink as a smaller one."""
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
    assert end == pytest.approx(cells.max())
    assert image.get_clim()[0] == (-end if signed else 0)
    assert image.colorbar.extend == "neither"


def test_arithmetic_is_that_of_the_numbers() -> None:
    """Sum, difference, multiple, quotient and mean cell by cell in every table, heads too; relative errors are the larger ones."""
    first, second = by_head(0), by_head(1)
    results = {
        "sum": (first + second, lambda a, b: a + b),
        "difference": (first - second, lambda a, b: a - b),
        "half": (first / 2, lambda a, b: a / 2),
        "multiple": (2 * first, lambda a, b: 2 * a),
        "mean": (ContributionMaps.mean(iter([first, second])), lambda a, b: (a + b) / 2),
    }
    for name, (found, expected) in results.items():
        for table in ("values", "bias", "remainder", "heads"):
            for scope in first.scopes:
                cells = expected(getattr(first, table)[scope], getattr(second, table)[scope])
                torch.testing.assert_close(getattr(found, table)[scope], cells, msg=f"{name}: {table}")
        errors = [maps.completeness["Atb"] for maps in (first, second)]
        worse = errors[0] if name in ("half", "multiple") else torch.maximum(*errors)
        torch.testing.assert_close(found.completeness["Atb"], worse, rtol=0, atol=0)
        assert found.signed == (name == "difference") and found.heads.channels == CHANNELS
    assert first * 4 / 4 == first and first + first == first * 2 == 2.0 * first
    assert (first * -1).signed and (first - second + first).signed
    assert ContributionMaps.mean([first]) == first
    with pytest.raises(ZeroDivisionError, match="zero"):
        first / 0


OTHER: list[tuple[ContributionMaps, str]] = [
    (make(tokens=("x",) * 6), "5 and of 6 tokens"),
    (make(queries=(4, 0, 1)), "queries"),
    (make(layers=(1, 3)), "layers"),
    (make(order="pre_ln"), "order"),
    (make(causal=True), "causal: False against True"),
    (by_head(), "heads"),
]


@pytest.mark.parametrize(("other", "said"), OTHER, ids=[said for _, said in OTHER])
def test_results_of_other_cells_do_not_combine(maps: ContributionMaps, other: ContributionMaps, said: str) -> None:
    """Two results that do not describe the same cells, or heads, have no difference, sum or mean."""
    for verb, combine in {
        "subtract": lambda: maps - other,
        "add": lambda: maps + other,
        "average": lambda: ContributionMaps.mean([maps, other]),
    }.items():
        with pytest.raises(InputError, match=f"{verb} .*{said}"):
            combine()


def test_equal_means_equal_labels_and_numbers(maps: ContributionMaps) -> None:
    """NaN included; one other number, label, type or head and it is not."""
    maps["Atb"][0, 0, 0] = float("nan")
    assert dataclasses.replace(maps) == maps
    values = maps.values.each(Tensor.double)
    for change in (
        {"tokens": tuple("abcde")},
        {"model": "other"},
        {"signed": True},
        {"provenance": {}},
        {"values": values},
    ):
        assert dataclasses.replace(maps, **change) != maps
    first = by_head()
    renamed = HeadTable(dict(first.heads), first.layers, ("head 0", "head 2", "residual"))
    assert first == by_head() and first != make()
    assert first not in (dataclasses.replace(first, heads=renamed), dataclasses.replace(first, heads=by_head(1).heads))


@pytest.mark.parametrize("heads", [False, True])
def test_dataframe_has_one_row_for_every_cell(heads: bool) -> None:
    """Each row's value is the cell that its labels name, the head among them; tokens stand beside positions."""
    maps = by_head()
    frame = maps.to_dataframe(heads=heads)
    assert set(frame) - {"head"} == {"layer", "scope", "query", "key", "query_token", "key_token", "value"}
    assert len(frame) == sum(rows.numel() for rows in (maps.heads if heads else maps.values).values())
    for row in frame.itertuples():
        cells = maps.heads[row.scope, row.layer][CHANNELS.index(row.head)] if heads else maps[row.scope, row.layer]
        assert row.value == float(cells[maps.queries.index(row.query), row.key])
        assert (row.query_token, row.key_token) == (TOKENS[row.query], TOKENS[row.key])


def test_token_maps_of_heads_are_of_one_scope() -> None:
    """Several scopes have no heads in common as channels."""
    assert by_head().token_maps("Atb", heads=True)["head 3"].equal(by_head().heads["Atb"][:, 1])
    with pytest.raises(InputError, match="heads=True of 2 scopes.*'Atb'"):
        by_head().token_maps(heads=True)


def test_visible_shows_what_a_page_would_hide() -> None:
    """White space, nothing at all, and characters that turn text around are shown by a mark; the rest stays."""
    shown = {" the": "·the", "a\tb": "a⇥b", "\r\n": "␍↵", "": "∅", "é😀": "é😀", "<s>": "<s>"}
    shown |= {"\u202e": "\\u202e", "\x00": "\\u0000", "\u00a0": "\\u00a0"}
    assert {token: visible(token) for token in shown} == shown


def old_file(path: Path, maps: ContributionMaps, *, version: int = 1, **labels: Any) -> Path:
    """Maps as tl_ffblock 0.2.0 saved them; labels that are None are left out."""
    names = ("tokens", "layers", "order", "queries", "causal", "scopes", "model", "signed", "provenance")
    held = {name: getattr(maps, name) for name in names} | {"heads": maps.heads.channels} | labels
    tables = {name: getattr(maps, name) for name in ("values", "bias", "remainder", "completeness", "heads")}
    tensors = {f"{name}.{scope}": rows for name, table in tables.items() for scope, rows in table.items()}
    given = {name: label for name, label in held.items() if label is not None}
    write_tensors(path, "tl_ffblock.ContributionMaps", version, given, tensors)
    return path


def test_a_file_of_the_first_release_is_read(tmp_path: Path) -> None:
    """With heads, without, and of files that know none; another version, a missing label, a scope without numbers are refused."""
    for maps, labels in ((make(), {}), (by_head(), {}), (make(), {"heads": None})):
        assert ContributionMaps.load(old_file(tmp_path / "x", maps, **labels)) == load(tmp_path / "x") == maps
    for change, said in (({"version": 99}, "99"), ({"tokens": None}, "tokens"), ({"scopes": ["Attn"]}, "Attn")):
        with pytest.raises(MapFileError, match=said):
            ContributionMaps.load(old_file(tmp_path / "x", make(), **change))
