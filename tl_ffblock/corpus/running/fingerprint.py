"""What the numbers of a run depend on, as digests; another fingerprint is refused with what differs."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import torch

from tl_ffblock._version import __version__
from tl_ffblock.bridge.model import Model
from tl_ffblock.corpus.running.shards import Shards
from tl_ffblock.corpus.settings import NOT_IN_FINGERPRINT, Config
from tl_ffblock.corpus.study import StudySpec

MODULES_AFTER_LAST_LAYER = ("unembed", "mlm_head", "lm_head", "cls", "nsp_head", "pooler")
"""No map depends on them, and an encoder saved without a head gets a random one: left out unless a study reads them."""


def fingerprint(config: Config, specs: Sequence[StudySpec], weights: str, shards: Shards) -> dict[str, Any]:
    """Give settings, digests of weights and data, and versions: what a shard's numbers follow from.

    Args:
        config: The run.
        specs: Its studies, whose options are settings too.
        weights: Digest of those that the studies read.
        shards: The corpus.
    """
    settings = {f"config.{name}": value for name, value in asdict(config).items() if name not in NOT_IN_FINGERPRINT}
    for spec in specs:
        settings |= {f"study.{name}": value for name, value in spec.fingerprint().items()}
    return {
        **{name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()},
        "model.weights": weights,
        "data": shards.digest,
        "data.sequences": len(shards.chosen),
        "tl_ffblock": __version__,
        "torch": str(torch.__version__),
        "transformer_lens": version("transformer-lens"),
    }


def weights_digest(model: Model, *, head: bool = False) -> str:
    """Digest every parameter up to the last layer, or with the head, by name, shape and bytes."""
    digest = hashlib.sha256(model.family.name.encode())
    for name, tensor in sorted(model.hooked.state_dict().items()):
        if name.startswith(MODULES_AFTER_LAST_LAYER) and not head:
            continue
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    return digest.hexdigest()


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Say what differs."""
    return [f"{name} was {_short(before.get(name))}, is {_short(now.get(name))}" for name in changed_names(before, now)]


def changed_names(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Name the entries that differ."""
    return [name for name in {**before, **now} if before.get(name) != now.get(name)]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:12]}…{text[-4:]}"
