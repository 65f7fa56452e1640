"""Tensors with JSON labels in one safetensors file, under a format's name, its version and a checksum over both."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tl_ffblock.errors import MapFileError
from tl_ffblock.files import write_atomically


@dataclass(frozen=True)
class FileFormat:
    """What a file calls itself, so that no other is read for it."""

    name: str
    version: int
    what: str
    """What it holds, for the error."""

    def write(self, path: Path, labels: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Write labels and tensors to one file; a half-written one never appears.

        Raises:
            InputError: if the folder does not exist.
        """
        from safetensors.torch import save

        kept = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        header = json.dumps(labels, ensure_ascii=True)
        metadata = {
            "format": self.name,
            "version": str(self.version),
            "maps": header,
            "sha256": _digest(header, kept),
        }
        write_atomically(path, save(kept, metadata))

    def read(self, path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Labels and tensors, as the checksum says they were written.

        Raises:
            MapFileError: if the file is of another format or version, or was changed.
            FileNotFoundError: if there is no such file.
        """
        from safetensors import SafetensorError, safe_open

        if not path.is_file():
            raise FileNotFoundError(f"no saved {self.what} at {path}")
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        except (SafetensorError, OSError, ValueError) as error:
            raise MapFileError(f"{path} is not a readable safetensors file: {error}") from error
        if metadata.get("format") != self.name:
            raise MapFileError(f"{path} holds no {self.what} (format {metadata.get('format')!r}).")
        if metadata.get("version") != str(self.version):
            raise MapFileError(
                f"{path} has format version {metadata.get('version')!r}, this library reads {self.version}: make it again."
            )
        header = metadata.get("maps", "")
        if metadata.get("sha256") != _digest(header, tensors):
            raise MapFileError(f"{path} was changed after it was saved (checksum differs): make it again.")
        return json.loads(header), tensors


def _digest(header: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(header.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
