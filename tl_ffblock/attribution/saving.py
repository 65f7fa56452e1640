"""A saved attribution: labels, tensors and certificate in one safetensors file with a checksum (results/tensor_files.py)."""

import dataclasses
from pathlib import Path
from typing import Any

from torch import Tensor

from tl_ffblock.attribution.certificate import Certificate
from tl_ffblock.errors import MapFileError
from tl_ffblock.results.tensor_files import FileFormat

FORMAT = FileFormat("tl_ffblock.Attribution", 1, "attribution")
_CERTIFIED = "certificate.boundaries"
_PART = "part."


def write_fields(path: Path, fields: dict[str, Any]) -> Path:
    """Write the fields of an attribution to one file.

    Raises:
        InputError: if the folder does not exist.
    """
    tensors: dict[str, Tensor] = {name: value for name, value in fields.items() if isinstance(value, Tensor)}
    tensors |= {_PART + name: tensor for name, tensor in fields["parts"].items()}
    labels = {name: value for name, value in fields.items() if name not in tensors and name != "parts"}
    labels["part_names"] = list(fields["parts"])
    certificate: Certificate | None = labels["certificate"]
    if certificate is not None:
        tensors[_CERTIFIED] = certificate.boundaries
        numbers = {field.name: getattr(certificate, field.name) for field in dataclasses.fields(certificate)}
        labels["certificate"] = {name: value for name, value in numbers.items() if name != "boundaries"}
    FORMAT.write(path, labels, tensors)
    return path


def read_fields(path: Path) -> dict[str, Any]:
    """The fields of the attribution that `write_fields` wrote.

    Raises:
        MapFileError: if the file is not a saved attribution, was changed, or is of another version.
        FileNotFoundError: if there is no such file.
    """
    labels, tensors = FORMAT.read(path)
    certified = tensors.pop(_CERTIFIED, None)
    try:
        parts = {name: tensors.pop(_PART + name) for name in labels.pop("part_names")}
        fields = labels | tensors | {"parts": parts}
        for name in ("labels", "bias_names", "bias_layers"):
            fields[name] = tuple(fields[name])
        if fields["certificate"] is not None and certified is not None:
            fields["certificate"] = Certificate(boundaries=certified, **fields["certificate"])
        n_positions = len(fields["labels"])
        if any(fields[name].shape[-1] != n_positions for name in ("tokens", "residual", "bias_shares")):
            raise MapFileError(f"{path}: its tensors are not of {n_positions} tokens.")
    except (KeyError, TypeError) as error:
        raise MapFileError(f"{path}: {error} is missing from the file or is no field of an attribution.") from error
    return fields
