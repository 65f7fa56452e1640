"""What an experiment sees of one sequence: tokens, maps, and the model's own vectors.

The model runs once for a batch; its records serve every experiment of the run.
"""

from collections.abc import Iterator
from collections.abc import Sequence as Several
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tl_ffblock.bridge.capture import capture
from tl_ffblock.bridge.collector import Records
from tl_ffblock.bridge.inputs import forward, prepare
from tl_ffblock.bridge.model import Model
from tl_ffblock.contributions import contribution_maps
from tl_ffblock.corpus.texts.tokenised import Encoded
from tl_ffblock.errors import InputError
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.results.maps import ContributionMaps


@dataclass(frozen=True)
class Observation:
    """One sequence of a run, seen."""

    model: Model
    encoded: Encoded
    maps: ContributionMaps | None
    """Of the scopes asked for; None when no experiment wants maps."""
    batch: Records | None
    index: int
    """Place in the batch."""
    real: Tensor | None
    """Unpadded positions."""

    @property
    def tokens(self) -> Tensor:
        """Ids [pos]."""
        return torch.as_tensor(self.encoded.ids)

    @cached_property
    def records(self) -> tuple[LayerRecord, ...]:
        """Every layer, this sequence alone."""
        assert self.batch is not None
        return tuple(self.batch[layer].sequence(self.index, self.real) for layer in self.batch.layers)


def observe(
    model: Model, encoded: Several[Encoded], scopes: tuple[str, ...], *, records: bool
) -> Iterator[Observation]:
    """Run a batch once and give what was seen, sequence by sequence."""
    tokens, mask = _padded(model, encoded)
    if not scopes and not records:
        yield from (Observation(model, one, None, None, i, None) for i, one in enumerate(encoded))
        return
    batch = prepare(model, tokens, mask)[0]
    with torch.no_grad(), capture(model) as captured:
        forward(model, batch)
    for layer in captured.layers:
        if layer not in captured:
            raise captured.incomplete(layer)
        _refuse_infinite(model, captured[layer])
    maps: Any = None
    if scopes:
        maps = contribution_maps(model.hooked, tokens, scopes=scopes, attention_mask=mask, cache=captured)
    for i, one in enumerate(encoded):
        yield Observation(model, one, None if maps is None else maps[i], captured, i, batch.real(i))


def _padded(model: Model, encoded: Several[Encoded]) -> tuple[Tensor, Tensor | None]:
    longest = max(len(one.ids) for one in encoded)
    pad = getattr(getattr(model.hooked, "tokenizer", None), "pad_token_id", None) or 0
    tokens = torch.full((len(encoded), longest), pad, dtype=torch.long)
    mask = torch.zeros_like(tokens)
    for row, one in enumerate(encoded):
        tokens[row, : len(one.ids)] = torch.as_tensor(np.asarray(one.ids))
        mask[row, : len(one.ids)] = 1
    return tokens, None if bool(mask.all()) else mask


def _refuse_infinite(model: Model, record: LayerRecord) -> None:
    if not all(bool(torch.isfinite(tensor).all()) for tensor in record.whole.values()):
        raise InputError(f"{model.name}, layer {record.layer}: the model's own vectors hold NaN or infinity.")
