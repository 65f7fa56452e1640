"""Saved maps: one safetensors file with JSON metadata and a checksum over both.

1. `write_maps` puts labels and tensors into one file, atomically.
2. `read_maps` reads them back and refuses a file that is damaged, foreign, of another version, or whose
   labels contradict its tensors.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tl_ffblock.errors import MapFileError
from tl_ffblock.layer.scopes import STEPS, scope_names
from tl_ffblock.results.files import write_atomically
from tl_ffblock.results.scope_table import TABLES, HeadTable, ScopeTable

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
    from safetensors.torch import save

    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = json.dumps(labels, ensure_ascii=True)
    metadata = {"format": FORMAT, "version": str(version), "maps": header, "sha256": _digest(header, kept)}
    write_atomically(path, save(kept, metadata))


def read_maps(path: Path) -> dict[str, Any]:
    """The fields of the result that `write_maps` wrote: labels, and tables by scope.

    Raises:
        MapFileError: if the file is not a saved result, was changed, or is of another version.
        FileNotFoundError: if there is no such file.
    """
    header, tensors = _read_checked(path)
    labels = json.loads(header)
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


def _read_checked(path: Path) -> tuple[str, dict[str, Tensor]]:
    """The JSON text of the labels and the tensors, as the checksum says they were written."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"no saved maps at {path}")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError, ValueError) as error:
        raise MapFileError(f"{path} is not a readable safetensors file: {error}") from error
    if metadata.get("format") != FORMAT:
        raise MapFileError(f"{path} holds no contribution maps (format {metadata.get('format')!r}).")
    if metadata.get("version") != str(FORMAT_VERSION):
        raise MapFileError(
            f"{path} has format version {metadata.get('version')!r}, this library reads {FORMAT_VERSION}: make it again."
        )
    header = metadata.get("maps", "")
    if metadata.get("sha256") != _digest(header, tensors):
        raise MapFileError(f"{path} was changed after it was saved (checksum differs): make it again.")
    return header, tensors


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


def _digest(header: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
