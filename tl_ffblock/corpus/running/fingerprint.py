"""What the numbers of a run depend on, as digests; another fingerprint is refused with what differs."""

from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import torch

from tl_ffblock._version import __version__
from tl_ffblock.corpus.running.shards import Shards
from tl_ffblock.corpus.settings import NOT_IN_FINGERPRINT, Config
from tl_ffblock.corpus.study import StudySpec


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


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Say what differs."""
    return [f"{name} was {_short(before.get(name))}, is {_short(now.get(name))}" for name in changed_names(before, now)]


def changed_names(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Name the entries that differ."""
    return [name for name in {**before, **now} if before.get(name) != now.get(name)]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:12]}…{text[-4:]}"
