"""Vision-language and audio-language models: decoders of text that read an image or sound as further tokens."""

from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import oracle, towers

EXACT = [name for name in towers.READS if name not in towers.REFUSED]
WITHOUT_ORACLE = ("Glm4v",)


def hf_logits(name: str, inputs: dict[str, Tensor]) -> Tensor:
    """Logits [pos d_vocab] of the Hugging Face model itself."""
    with torch.no_grad():
        return towers.hf_model(name, torch.float64)(**towers.wide(inputs)).logits[0]


@pytest.mark.parametrize("with_image", [False, True], ids=["text", "image"])
@pytest.mark.parametrize("name", [name for name in EXACT if name not in WITHOUT_ORACLE])
def test_maps_are_those_of_a_slow_computation(name: str, with_image: bool) -> None:
    """On Hugging Face's own modules: one vector per source token, image tokens included, with its patterns and norm scales."""
    inputs = towers.inputs(name) if with_image else towers.text(name)
    maps = ffb.contribution_maps(towers.bridge(name, torch.float64), inputs)[0]
    media = {key: value for key, value in inputs.items() if key != "input_ids"}
    expected = oracle.oracle_maps(towers.hf_model(name, torch.float64), inputs["input_ids"], **media)
    for layer in maps.layers:
        for scope in maps.scopes:
            norms = expected[f"L{layer}.{scope}"][:, :-1]
            assert (maps[scope, layer] - norms).abs().max() < 2e-6 * norms.max(), (layer, scope)
