"""The base of all results: what is saved is loaded, equal, and refused where it is something else."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tl_ffblock.errors import InputError, MapFileError
from tl_ffblock.files import write_tensors
from tl_ffblock.result import VERSION, Result, Results, Values, labels_of, load


@dataclasses.dataclass(frozen=True, eq=False)
class Inner(Values):
    """A part of a result."""

    error: float
    places: np.ndarray


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Outer(Result):
    """A result with every kind of field."""

    name: str
    numbers: Tensor
    by_layer: Mapping[int, Tensor]
    inner: Inner
    rows: tuple[tuple[str, int], ...] = ()
    loose: object = None

    def summary(self) -> tuple[str, Mapping[str, object]]:
        return self.name, {"rows": len(self.rows), "numbers": tuple(self.numbers.shape)}

    def to_dataframe(self) -> pd.DataFrame:
        return pd.DataFrame({"value": self.numbers.flatten()})

    @staticmethod
    def mean(results: "list[Outer]") -> "Outer":
        return dataclasses.replace(results[0], numbers=torch.stack([one.numbers for one in results]).mean(dim=0))


def outer(**changes: object) -> Outer:
    fields: dict[str, object] = {
        "name": "a <b>",
        "numbers": torch.tensor([1.0, float("nan")], dtype=torch.float64).expand(2, 2).T,
        "by_layer": {3: torch.ones(2, dtype=torch.bfloat16), 0: torch.zeros(1)},
        "inner": Inner(float("nan"), np.arange(3)),
        "rows": (("x", 1), ("y", 2)),
    }
    return Outer(**{**fields, **changes})  # type: ignore[arg-type]


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    """Every kind of field, with its type."""
    path = outer().save(tmp_path / "a.safetensors")
    loaded = Outer.load(path)
    assert loaded == outer()
    assert list(loaded.by_layer) == [3, 0]
    assert isinstance(loaded.rows[0], tuple)
    assert loaded.by_layer[3].dtype == torch.bfloat16
    assert isinstance(loaded.inner.places, np.ndarray)


@pytest.mark.parametrize(
    "other",
    [
        outer(numbers=torch.ones(2, 2, dtype=torch.float64)),
        outer(by_layer={0: torch.zeros(1)}),
        outer(inner=Inner(0.0, np.arange(3))),
        outer(inner=Inner(float("nan"), np.arange(4))),
        outer(rows=()),
        "a",
    ],
)
def test_other_values_are_not_equal(other: object) -> None:
    """A tensor, a key, a nested number, a nested array, labels, another type."""
    assert outer() != other


@pytest.mark.wrong_types
def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """Of another class, of several results, of another version, changed, not of this library, not there."""
    path = outer().save(tmp_path / "a.safetensors")
    with pytest.raises(InputError, match="element 1 is of type Results, expected a result"):
        Results([outer(), Results([outer()])]).save(tmp_path / "nested.safetensors")  # type: ignore[list-item]
    assert not (tmp_path / "nested.safetensors").exists(), "nothing is written that cannot be read"
    several = Results([outer()]).save(tmp_path / "b.safetensors")

    class Another(Result):
        """Not what was saved."""

    for cls, file, said in ((Another, path, "tl_ffblock.Outer"), (Outer, several, "Results"), (Results, path, "Outer")):
        with pytest.raises(MapFileError, match=said):
            cls.load(file)
    tensors, from_file = load_file(path), tmp_path / "c.safetensors"
    kept = {"format": "tl_ffblock.Outer", "version": "2", "maps": json.dumps({"value": 1}), "sha256": "0"}
    for changed, said in (({}, "checksum"), ({"format": "x"}, "'x'"), ({"version": ""}, "version ''")):
        save_file(tensors, from_file, kept | changed)
        with pytest.raises(MapFileError, match=said):
            Outer.load(from_file)
    write_tensors(tmp_path / "e", "tl_ffblock.Outer", VERSION + 1, {"value": 1}, tensors)
    with pytest.raises(MapFileError, match="format version 3, this library reads 2"):
        Outer.load(tmp_path / "e")
    with pytest.raises(FileNotFoundError):
        Outer.load(tmp_path / "d")


def test_a_file_names_its_class(tmp_path: Path) -> None:
    """A class that is not known, a part of results, a module that cannot be imported: refused by name, and nothing else is imported."""
    path = outer().save(tmp_path / "a.safetensors")
    assert load(path) == outer() and type(load(path)) is Outer
    labels, tensors = labels_of(outer())
    for name, module, said in (
        ("Lost", "elsewhere", "a Lost of elsewhere, which is not known: import"),
        ("Lost", "tl_ffblock.elsewhere", "a Lost of tl_ffblock.elsewhere"),
        ("Lost", "tl_ffblock.\0", "a Lost of tl_ffblock"),
        ("Inner", __name__, "a Inner, which is a part"),
    ):
        write_tensors(path, f"tl_ffblock.{name}", VERSION, {"value": {**labels, "module": module}}, tensors)
        with pytest.raises(MapFileError, match=said):
            load(path)


def test_what_has_no_form_in_a_file_is_refused(tmp_path: Path) -> None:
    """By its field's name, and no file is there."""
    with pytest.raises(InputError, match="loose.*object"):
        outer(loose=object()).save(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_one_name_is_of_one_class() -> None:
    """Files know classes by name."""
    with pytest.raises(TypeError, match="Inner"):
        type("Inner", (Values,), {"__module__": "elsewhere"})


def test_a_short_form() -> None:
    """A line on the whole, lines by name, and HTML in which nothing of a name is markup."""
    assert repr(outer()) == "Outer: a <b>\n  rows     2\n  numbers  (2, 2)"
    assert "&lt;b&gt;" in outer()._repr_html_()


def test_results_of_several_prompts(tmp_path: Path) -> None:
    """A list with a table, a mean and a file; an attribute of one result is refused with [0]."""
    results = Results([outer(), outer(numbers=torch.full((2, 2), 3.0, dtype=torch.float64))])
    assert results.to_dataframe().columns.tolist() == ["prompt", "value"]
    assert results.to_dataframe()["prompt"].tolist() == [0] * 4 + [1] * 4
    assert results.mean().numbers[0, 0] == 2.0
    assert Results.load(results.save(tmp_path / "a")) == results
    assert isinstance(results[:1], Results)
    before: list[Outer] = [outer()]
    lists = (results + results, before + results, results + before, 2 * results, results * 2, results.copy())
    assert all(isinstance(each, Results) for each in lists) and [len(each) for each in lists] == [4, 3, 3, 4, 4, 2]
    assert (results + results).to_dataframe()["prompt"].max() == 3
    added = results[:1]
    added += results
    assert isinstance(added, Results) and len(added) == 3
    with pytest.raises(TypeError, match="can only concatenate list"):
        results + outer()
    with pytest.raises(AttributeError, match=r"results\[0\].numbers"):
        results.numbers  # noqa: B018
    for nothing in (Results[Outer]().to_dataframe, Results[Outer]().mean):
        with pytest.raises(InputError):
            nothing()


def test_a_changed_file_is_refused_or_the_same(tmp_path: Path) -> None:
    """Five hundred changes of bytes: flipped, cut off, put in, taken out. No other result, and no other error."""
    right, path = outer(), tmp_path / "a.safetensors"
    data, random = right.save(path).read_bytes(), np.random.default_rng(0)
    refused = 0
    for number in range(500):
        place, byte = int(random.integers(len(data))), bytes([int(random.integers(256))])
        end = place if number % 4 == 1 else place + (number % 4 != 2)
        path.write_bytes(data[:place] + byte * (number % 4 in (0, 2)) + (b"" if number % 4 == 1 else data[end:]))
        try:
            assert Outer.load(path) == right
        except MapFileError:
            refused += 1
    assert refused > 450


def test_any_result_is_looked_at_by_its_table() -> None:
    """Where no page or figure of the class is registered."""
    assert '"title":"value"' in outer().to_html() and "outer" in outer().show().html.lower()
    assert outer().figure().axes[0].get_xlabel() == "value"
    with pytest.raises(InputError, match="height=0"):
        outer().show(height=0)


def test_tensors_of_keys_that_are_spelled_alike_stay_apart(tmp_path: Path) -> None:
    """3 and "3", and a key with a dot beside a nested one: each has its own tensor in the file."""
    odd = {3: torch.zeros(1), "3": torch.ones(1), "a.b": torch.full((1,), 2.0), "a": {"b": torch.full((1,), 3.0)}}
    assert Outer.load(outer(loose=odd).save(tmp_path / "a")) == outer(loose=odd)


def test_a_long_list_is_printed_in_short() -> None:
    """The first results, and how many there are."""
    shown = repr(Results([outer()] * 50))
    assert shown.startswith("Results: 50\n[0] Outer") and shown.endswith("... and 47 more")
    assert shown.count("Outer") == 3
    assert "more" not in repr(Results([outer()] * 3))
