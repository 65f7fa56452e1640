"""Saved maps: one safetensors file with JSON metadata and a checksum over both (tensor_files.py).

1. `write_maps` puts labels and tensors into one file, atomically.
2. `read_maps` reads them back and refuses a file that is damaged, foreign, of another version, or whose
   labels contradict its tensors.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from tl_ffblock.errors import MapFileError
from tl_ffblock.layer.scopes import STEPS, scope_names
from tl_ffblock.results.scope_table import TABLES, HeadTable, ScopeTable
from tl_ffblock.results.tensor_files import FileFormat

FORMAT = "tl_ffblock.ContributionMaps"
FORMAT_VERSION = 1
LABELS = ("tokens", "layers", "order", "queries", "causal", "scopes", "model", "signed", "provenance")
"""What a file says beside its tensors; one with heads names their channels, too, as "heads"."""


def write_maps(
    path: Path, labels: Mapping[str, Any], tensors: Mapping[str, Tensor], *, version: int = FORMAT_VERSION
) -> None:
    """Write labels and tensors ("values.Atb", "bias.Atb", ...) to one file.

    Args:
        path: Where; the folder must exist.
        labels: What JSON can hold.
        tensors: By table and scope.
        version: Of the format.

    Raises:
        InputError: if the folder does not exist.
    """
    FileFormat(FORMAT, version, "contribution maps").write(path, labels, tensors)


def read_maps(path: Path) -> dict[str, Any]:
    """The fields of the result that `write_maps` wrote: labels, and tables by scope.

    Raises:
        MapFileError: if the file is not a saved result, was changed, or is of another version.
        FileNotFoundError: if there is no such file.
    """
    labels, tensors = FileFormat(FORMAT, FORMAT_VERSION, "contribution maps").read(path)
    missing = [name for name in LABELS if name not in labels]
    if missing:
        raise MapFileError(f"{path}: {', '.join(missing)} missing from the file.")
    _refuse_contradictions(path, labels, tensors)
    scopes, layers = labels.pop("scopes"), labels["layers"]
    tables = {name: ScopeTable({s: tensors[f"{name}.{s}"] for s in scopes}, layers) for name in TABLES}
    channels = labels.get("heads", ())
    tables["heads"] = (
        HeadTable({s: tensors[f"heads.{s}"] for s in scopes}, layers, channels) if channels else HeadTable()
    )
    sequences = {name: tuple(labels[name]) for name in ("tokens", "layers", "queries")}
    return labels | sequences | tables


def _refuse_contradictions(path: Path, labels: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    order, scopes = labels["order"], labels["scopes"]
    if order not in STEPS or any(scope not in scope_names(order) for scope in scopes):
        raise MapFileError(f"{path}: unknown order {order!r} or scopes {scopes!r}.")
    n_layers, n_queries = len(labels["layers"]), len(labels["queries"])
    expected: dict[str, tuple[int, ...]] = dict.fromkeys(TABLES, (n_layers, n_queries))
    expected["values"] = (n_layers, n_queries, len(labels["tokens"]))
    if labels.get("heads"):
        expected["heads"] = (n_layers, len(labels["heads"]), n_queries, len(labels["tokens"]))
    for name, shape_of_labels in expected.items():
        for scope in scopes:
            if f"{name}.{scope}" not in tensors:
                raise MapFileError(f"{path}: {name}.{scope} is missing from the file.")
            shape = tuple(tensors[f"{name}.{scope}"].shape)
            if shape != shape_of_labels or math.prod(shape) == 0:
                raise MapFileError(f"{path}: {name}.{scope} has shape {shape}, expected {shape_of_labels}.")
