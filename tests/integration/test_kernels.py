"""What maps and attributions ask of a device, counted without one: results, waits, kernels, bytes that come back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.counted import DEVICE, CountedDevice
from tests.numbers import numbers
from tl_ffblock.layer.records import Norm

FAMILIES = ("gpt2", "llama", "bert", "gemma2", "phi")
PER_CALL = 2
"""Waits of a call's maps beside one per layer: the fingerprint of the weights, and the tables."""
OF_ATTRIBUTION = 5
"""Waits of an attribution, however many layers: fingerprint, logits with derivatives, tokens read, whether the head is linear, result."""


@contextmanager
def counting(model: Any) -> Iterator[CountedDevice]:
    """A model on the device, where its first calls were made."""
    device = CountedDevice()
    with device, device.holding(model):
        yield device


def second(device: CountedDevice, call: Callable[[], Any]) -> Any:
    """What a second call gives; only that is counted."""
    call()
    device.clear()
    return call()


def attribution(model: Any, ids: Tensor, **options: Any) -> Any:
    """Of a difference of logits; of the residual stream where a model has no head."""
    return ffb.attribute(model, ids, ffb.logit(7, minus=9), progress=False, **options)


@pytest.mark.parametrize("family", FAMILIES)
def test_results_are_those_of_the_cpu(family: str) -> None:
    """Also of a model that made the same maps on the CPU before it was moved: what it kept there is not used."""
    model, ids = tiny.bridge(family), tiny.tokens(family, 7)

    def results() -> list[Any]:
        maps = [
            ffb.contribution_maps(model, ids, heads=True),
            ffb.contribution_maps(model, torch.stack([ids, ids.flip(0)])),
        ]
        return [
            *maps,
            ffb.contribution_maps(model, ids, queries=[-1, 2]),
            attribution(model, ids, of=("heads", "edges", "neurons", "mlps", "maps")),
        ]

    expected = dict(numbers(results()))
    with counting(model):
        found = dict(numbers(results()))
    assert found.keys() == expected.keys()
    for place, table in found.items():
        if "error" not in place and "completeness" not in place and "certificate" not in place:
            torch.testing.assert_close(table, expected[place], rtol=1e-5, atol=1e-6, msg=place)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_waits_and_kernels_do_not_grow_with_the_text(family: str) -> None:
    """One wait per layer of maps and a few per call; of attributions a few per call; as many kernels at 5 as at 12 tokens."""
    model, seen = tiny.bridge(family), []
    for n in (5, 12):
        ids = tiny.tokens(family, n)
        with counting(model) as device:
            second(device, lambda ids=ids: ffb.contribution_maps(model, ids, progress=False))
            maps = device.kernels.total(), device.waits.total()
            assert maps[1] <= model.cfg.n_layers + PER_CALL + of_the_model(model, ids), device.waits
            second(device, lambda ids=ids: attribution(model, ids))
            seen.append((*maps, device.kernels.total(), device.waits.total()))
            assert seen[-1][-1] <= OF_ATTRIBUTION + of_the_model(model, ids), device.waits
    assert seen[0] == seen[1]


def of_the_model(model: Any, ids: Tensor) -> int:
    """Waits of a forward pass by itself: Hugging Face looks for padding tokens."""
    counted = CountedDevice()
    with counted, torch.no_grad():
        model(ids[None].to(DEVICE, non_blocking=True))
    return counted.waits.total()


def test_a_number_read_per_position_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An `.item()` per position, planted in a norm's scale, is more than the law allows."""
    model, ids, scale = tiny.bridge("gpt2"), tiny.tokens("gpt2", 9), Norm.centred_and_scale

    def read_one_by_one(norm: Norm, x: Tensor) -> Any:
        for row in x.reshape(-1, x.shape[-1]):
            row[0].item()
        return scale(norm, x)

    monkeypatch.setattr(Norm, "centred_and_scale", read_one_by_one)
    with counting(model) as device:
        others = of_the_model(model, ids)
        second(device, lambda: ffb.contribution_maps(model, ids, progress=False))
        assert device.waits.total() > model.cfg.n_layers * len(ids) + PER_CALL + others
        second(device, lambda: attribution(model, ids))
        assert device.waits.total() > model.cfg.n_layers * len(ids) + OF_ATTRIBUTION + others


def test_what_comes_back_is_the_result() -> None:
    """No pattern, value or derivative: the bytes of the shares asked for, each number once, and of checks a few per position."""
    model, n = tiny.bridge("gpt2"), 40
    ids, cfg = tiny.tokens("gpt2", n), tiny.bridge("gpt2").cfg
    with counting(model) as device:
        result = second(device, lambda: attribution(model, ids))
        parts = sum(part.nbytes for part in result.parts.values())
        of_positions = (
            4 * n * 3 * 20 * cfg.n_layers
        )  # gates and distances of linear forms, at most 20 modules of a layer
        assert parts <= device.bytes_to_host <= parts + of_positions
        assert cfg.n_layers * cfg.n_heads * n * n * 4 == result.edges.nbytes
        second(device, lambda: attribution(model, ids, of=()))
        assert device.bytes_to_host <= of_positions


def test_the_device_counts_and_refuses() -> None:
    """What numbers in Python, masks as indices, uploads and tensors of two devices are."""
    with CountedDevice() as device:
        x = torch.arange(6.0).reshape(2, 3).to(DEVICE)
        assert x.device == DEVICE and (x + 1).device == DEVICE and device.waits == {"upload": 1}
        assert device.kernels == {"add": 1}
        assert float(x.sum()) == 15 and x.tolist() == [[0, 1, 2], [3, 4, 5]] and x[x > 2].shape == (3,)
        assert device.waits == {"upload": 1, "_local_scalar_dense": 1, "read": 1, "mask as index": 1}
        assert device.bytes_to_host == 8 + 24
        assert x[:, [0, 2]].cpu().tolist() == [[0, 2], [3, 5]] and device.waits["upload"] == 2
        torch.ones(2).to(DEVICE, non_blocking=True)
        assert device.waits["upload"] == 2
        with pytest.raises(RuntimeError, match="of the CPU with tensors of the device"):
            x + torch.ones(3)
    with pytest.raises(RuntimeError, match="outside"):
        x + 1
