"""ContributionMaps: the labelled result, one sequence through one model.

A map is `[query, key]`: row = the position whose vector is written as a sum (destination), column =
the source token. Values are norms `||F_i(x_j)||` in residual-stream units, always >= 0; only a
difference of two results is signed. Every map carries the norm of its bias part, the norm of its
remainder (the effect of edits made inside the block by the user's own hooks, else 0) and its
completeness error, so nothing of the layer's vector is out of sight.
"""

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError, MapFileError, ScopeKeyError
from tl_ffblock.layer.positions import layer_number, spans
from tl_ffblock.layer.scopes import STEPS, Order, scope_names
from tl_ffblock.results.files import write_atomically
from tl_ffblock.results.tokens import visible

if TYPE_CHECKING:
    import pandas

FORMAT_VERSION = 1
TABLES = ("values", "bias", "remainder", "completeness")
"""The numbers of a result: one table by scope each."""


class ScopeTable(Mapping[str, Tensor]):
    """Tensors by scope, their first axis the layers: `table[scope]` or `table[scope, layer]`, -1 the last layer held."""

    def __init__(self, data: Mapping[str, Tensor], layers: Sequence[int]) -> None:
        self._data = dict(data)
        self._layers = tuple(layers)

    @overload
    def __getitem__(self, key: str) -> Float[Tensor, "layer ..."]: ...
    @overload
    def __getitem__(self, key: tuple[str, int]) -> Float[Tensor, "..."]: ...
    def __getitem__(self, key: str | tuple[str, int]) -> Tensor:
        scope, layer = key if isinstance(key, tuple) else (key, None)
        if scope not in self._data:
            raise ScopeKeyError(f"no scope {scope!r} here; there are {', '.join(self._data)}")
        if layer is None:
            return self._data[scope]
        return self._data[scope][self._layers.index(layer_number(layer, self._layers))]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class ContributionMaps:
    """Contributions of every source token to every asked position, by scope and layer.

    `maps[scope]` is `Float[layer query key]`, `maps[scope, layer]` is `Float[query key]` with the
    model's own layer number, negative ones counted from the last layer held. Rows are the positions in `queries` (all of them unless asked
    otherwise), columns all tokens. `bias`, `remainder` and `completeness` are indexed the same way
    and give one number per query.
    """

    tokens: tuple[str, ...]
    """The tokens as the tokenizer shows them, or ids as text where there is no tokenizer."""
    layers: tuple[int, ...]
    """Layer numbers of the model, ascending."""
    order: Order
    """Where the norms stand: "post_ln", "pre_ln", "sandwich" or "parallel"."""
    queries: tuple[int, ...]
    """Position of each row."""
    causal: bool
    """Whether a position sees only itself and earlier ones."""
    values: ScopeTable
    """Float[layer query key] by scope: the contributions."""
    bias: ScopeTable
    """Float[layer query] by scope: norm of the bias part."""
    remainder: ScopeTable
    """Float[layer query] by scope: norm of the effect of edits inside the block."""
    completeness: ScopeTable
    """Float[layer query] by scope: relative completeness error against the model's own tensor."""
    model: str = "model"
    """Name of the model, for labels."""
    signed: bool = False
    """True for a difference of two results."""
    provenance: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """How the numbers were made: method, value_bias, rtol, dtype, versions."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes present, in the order they follow each other in the layer."""
        return tuple(self.values)

    @overload
    def __getitem__(self, key: str) -> Float[Tensor, "layer query key"]: ...
    @overload
    def __getitem__(self, key: tuple[str, int]) -> Float[Tensor, "query key"]: ...
    def __getitem__(self, key: str | tuple[str, int]) -> Tensor:
        return self.values[key]

    def worst_completeness(self) -> tuple[float, str, int, int]:
        """The largest completeness error with its scope, layer and query position."""
        worst = (-1.0, "", 0, 0)
        for scope in self.scopes:
            table = self.completeness[scope]
            flat = int(table.argmax())
            row, column = divmod(flat, table.shape[1])
            if float(table[row, column]) > worst[0]:
                worst = (float(table[row, column]), scope, self.layers[row], self.queries[column])
        return worst

    def __sub__(self, other: "ContributionMaps") -> "ContributionMaps":
        """Signed difference of two results on the same tokens, layers, scopes and queries.

        Raises:
            InputError: if the two do not describe the same cells.
        """
        if not isinstance(other, ContributionMaps):
            return NotImplemented
        for name in ("tokens", "layers", "scopes", "queries", "order"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise InputError(
                    f"cannot subtract maps with different {name}: {_brief(mine)} against {_brief(theirs)}."
                )

        def table(name: str) -> ScopeTable:
            mine, theirs = getattr(self, name), getattr(other, name)
            if name == "completeness":
                return ScopeTable({s: torch.maximum(mine[s], theirs[s]) for s in mine}, self.layers)
            return ScopeTable({s: mine[s] - theirs[s] for s in mine}, self.layers)

        model = self.model if self.model == other.model else f"{self.model} - {other.model}"
        return dataclasses.replace(
            self,
            model=model,
            signed=True,
            values=table("values"),
            bias=table("bias"),
            remainder=table("remainder"),
            completeness=table("completeness"),
        )

    def to_dataframe(self) -> "pandas.DataFrame":
        """Long form: one row per layer, scope, query and key, with both tokens and the value."""
        import numpy as np
        import pandas as pd

        frames = []
        queries, keys = np.array(self.queries), np.arange(len(self.tokens))
        names = np.array(self.tokens, dtype=object)
        for scope in self.scopes:
            for layer in self.layers:
                frames.append(
                    pd.DataFrame(
                        {
                            "layer": layer,
                            "scope": scope,
                            "query": np.repeat(queries, len(keys)),
                            "key": np.tile(keys, len(queries)),
                            "query_token": np.repeat(names[queries], len(keys)),
                            "key_token": np.tile(names, len(queries)),
                            "value": self[scope, layer].reshape(-1).cpu().numpy(),
                        }
                    )
                )
        return pd.concat(frames, ignore_index=True)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write one safetensors file with JSON metadata; a half-written file never appears under `path`."""
        from safetensors.torch import save as to_bytes

        path = Path(path)
        tensors = {
            f"{name}.{s}": t.detach().cpu().contiguous() for name in TABLES for s, t in getattr(self, name).items()
        }
        header = {
            "tokens": self.tokens,
            "layers": self.layers,
            "order": self.order,
            "queries": self.queries,
            "causal": self.causal,
            "scopes": self.scopes,
            "model": self.model,
            "signed": self.signed,
            "provenance": dict(self.provenance),
        }
        text = json.dumps(header, ensure_ascii=True)
        metadata = {
            "format": "tl_ffblock.ContributionMaps",
            "version": str(FORMAT_VERSION),
            "maps": text,
            "sha256": _digest(text, tensors),
        }
        write_atomically(path, to_bytes(tensors, metadata))
        return path

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "ContributionMaps":
        """Read a file that `save` wrote.

        Raises:
            MapFileError: if the file is not a saved result, was changed, or is of another version.
            FileNotFoundError: if there is no such file.
        """
        from safetensors import SafetensorError, safe_open

        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"no saved maps at {path}")
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        except (SafetensorError, OSError, ValueError) as error:
            raise MapFileError(f"{path} is not a readable safetensors file: {error}") from error
        if metadata.get("format") != "tl_ffblock.ContributionMaps":
            raise MapFileError(f"{path} holds no contribution maps (format {metadata.get('format')!r}).")
        if metadata.get("version") != str(FORMAT_VERSION):
            raise MapFileError(
                f"{path} has format version {metadata.get('version')!r}, this library reads {FORMAT_VERSION}: make it again."
            )
        if metadata.get("sha256") != _digest(metadata.get("maps", ""), tensors):
            raise MapFileError(f"{path} was changed after it was saved (checksum differs): make it again.")
        return _from_header(json.loads(metadata["maps"]), tensors, path)

    def to_html(
        self, path: str | os.PathLike[str] | None = None, *, layer: int | None = None, scope: str | None = None
    ) -> str:
        """One self-contained page of the run; written to `path` when given."""
        from tl_ffblock.page import page

        html = page(self, layer=layer, scope=scope)
        if path is not None:
            write_atomically(Path(path), html.encode("utf-8"))
        return html

    def show(self, *, layer: int | None = None, scope: str | None = None, height: int = 820) -> Any:
        """The page in a notebook cell, inside an iframe of its own."""
        from tl_ffblock.page import iframe

        return iframe(self.to_html(layer=layer, scope=scope), height=height)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"

    def __repr__(self) -> str:
        error, scope, layer, query = self.worst_completeness()
        rows = "" if len(self.queries) == len(self.tokens) else f" · {len(self.queries)} queries"
        first = next(iter(self.values.values()))
        kind = "difference of contribution maps" if self.signed else "contribution maps"
        text = " ".join(visible(token) for token in self.tokens)
        return "\n".join(
            [
                f"ContributionMaps: {kind} of {self.model} ({self.order}) · {len(self.tokens)} tokens{rows}"
                f" · layer{'s' if len(self.layers) > 1 else ''} {spans(self.layers)} · {str(first.dtype).removeprefix('torch.')}",
                f"  tokens        {text if len(text) <= 100 else text[:97] + '...'}",
                f"  scopes        {', '.join(self.scopes)}",
                f"  completeness  worst relative error {error:.1e} ({scope}, layer {layer}, query {query}"
                f" {visible(self.tokens[query])!r})",
            ]
        )


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."


def _digest(header: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _from_header(header: dict[str, Any], tensors: Mapping[str, Tensor], path: Path) -> ContributionMaps:
    try:
        layers, queries = tuple(header["layers"]), tuple(header["queries"])
        order, scopes = header["order"], header["scopes"]
        if order not in STEPS or any(scope not in scope_names(order) for scope in scopes):
            raise MapFileError(f"{path}: unknown order {order!r} or scopes {scopes!r}.")
        rows = (len(layers), len(queries))
        shapes = {name: (*rows, len(header["tokens"])) if name == "values" else rows for name in TABLES}
        for name, shape in shapes.items():
            for scope in scopes:
                found = tuple(tensors[f"{name}.{scope}"].shape)
                if found != shape or math.prod(shape) == 0:
                    raise MapFileError(f"{path}: {name}.{scope} has shape {found}, expected {shape}.")
        tables = {name: ScopeTable({s: tensors[f"{name}.{s}"] for s in scopes}, layers) for name in TABLES}
        return ContributionMaps(
            tokens=tuple(header["tokens"]),
            layers=layers,
            order=order,
            queries=queries,
            causal=header["causal"],
            model=header["model"],
            signed=header["signed"],
            provenance=header["provenance"],
            **tables,
        )
    except KeyError as error:
        raise MapFileError(f"{path}: {error} is missing from the file.") from error
