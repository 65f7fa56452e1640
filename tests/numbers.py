"""Every number that a result of any class holds, by where it stands."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

MEASURED = ("certificate", "completeness", "error", "seconds", "per_second", "times_forward", "provenance")
"""Parts of names of what is measured, and differs from machine to machine."""


def numbers(result: Any, path: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every number that a result holds, by where it stands."""
    if any(word in path for word in MEASURED):
        return
    if isinstance(result, Tensor):
        yield path, result.detach().cpu()
    elif isinstance(result, np.ndarray) and result.dtype.kind in "fiub":
        yield path, torch.from_numpy(np.ascontiguousarray(result))
    elif isinstance(result, float | int):
        yield path, torch.tensor(float(result), dtype=torch.float64)
    elif hasattr(result, "select_dtypes"):
        for column in result.select_dtypes("number"):
            yield f"{path}[{column}]", torch.tensor(result[column].to_numpy(dtype=float))
    elif isinstance(result, Mapping):
        for name, value in result.items():
            yield from numbers(value, f"{path}.{name}")
    elif type(result).__name__ == "Decomposition":
        yield from ((f"{path}.{scope}", result.parts(scope)) for scope in result.scopes)
        yield from ((f"{path}.{scope}.bias", result.bias(scope)) for scope in result.scopes)
    elif dataclasses.is_dataclass(result):
        for field in dataclasses.fields(result):
            yield from numbers(getattr(result, field.name), f"{path}.{field.name}")
    elif isinstance(result, list | tuple):
        for place, value in enumerate(result):
            yield from numbers(value, f"{path}.{place}")
