"""What the numbers of a run depend on, as digests; another fingerprint is refused with what differs."""

import hashlib
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import torch

from tl_ffblock._version import __version__
from tl_ffblock.bridge.model import Model
from tl_ffblock.corpus.running.settings import FREE, Config
from tl_ffblock.corpus.running.shards import Plan

BEHIND = ("unembed", "mlm_head", "lm_head", "cls", "nsp_head", "pooler")
"""Modules behind the last layer: no map depends on them, and an encoder saved without a head gets a random one."""


def fingerprint(config: Config, model: Model, plan: Plan) -> dict[str, Any]:
    """Settings, digests of weights and data, versions; what a shard's numbers follow from."""
    settings = {f"config.{name}": value for name, value in asdict(config).items() if name not in FREE}
    return {
        **{name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()},
        "model.weights": weights_digest(model),
        "data": plan.digest,
        "data.sequences": len(plan.chosen),
        "tl_ffblock": __version__,
        "torch": str(torch.__version__),
        "transformer_lens": version("transformer-lens"),
    }


def weights_digest(model: Model) -> str:
    """Digest of every parameter up to the last layer, by name, shape and bytes."""
    digest = hashlib.sha256(model.family.name.encode())
    for name, tensor in sorted(model.hooked.state_dict().items()):
        if name.startswith(BEHIND):
            continue
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    return digest.hexdigest()


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What differs, in words."""
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return [f"{name} was {_short(before.get(name))}, is {_short(now.get(name))}" for name in names]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:12]}…{text[-4:]}"
