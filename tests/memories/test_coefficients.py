"""A memory's coefficient and value, and the read-out of vectors, on every family."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests import tiny
from tl_ffblock import load_model
from tl_ffblock.bridge.model import identify
from tl_ffblock.bridge.readout import read_out
from tl_ffblock.bridge.runs import kept_records, open_run
from tl_ffblock.errors import FFBlockError, InputError, UnsupportedModelError
from tl_ffblock.layer.neurons import coefficient_parts, coefficients, feed_forwards, neuron_values
from tl_ffblock.layer.scopes import feed_step, output_step

SHARES = 3e-6
"""Shares of a coefficient against the model's own, relative to the largest: RMSNorm and rotary tables of Hugging Face are float32."""


@pytest.fixture(
    scope="module",
    params=[*tiny.FAMILIES, *(pytest.param(family, marks=pytest.mark.slow) for family in tiny.MORE_FAMILIES)],
)
def model(request: pytest.FixtureRequest) -> Any:
    """A tiny model of every family that this TransformerLens runs as Hugging Face does."""
    try:
        known = tiny.bridge(request.param)
        identify(known)
        open_run(known, tiny.tokens(request.param, 3)).deliver(lambda _: None)
    except (FFBlockError, ValueError) as error:
        pytest.skip(f"not in this TransformerLens: {error}")
    return known


def test_coefficients_times_values_are_the_feed_forward_and_shares_sum_to_them(model: Any) -> None:
    """`sum_i m_i v_i + b_out` is the model's own output of the feed-forward; the shares of a coefficient sum to it."""
    run = open_run(model, torch.arange(5, 12))
    (records,) = kept_records(run)
    for record in records.values():
        scope = feed_step(record.block.order).scope
        own, weights = coefficients(record), feed_forwards(record.block)
        biases = torch.stack([ff.b_out for ff in weights])
        bias = biases[0] if record.routing is None else record.routing @ biases
        output = record.whole[scope]
        assert (own @ neuron_values(record.block) + bias - output).abs().max() < 1e-5 * output.abs().max().clamp(min=1)
        n_neurons = own.shape[1]
        asked = [n_neurons - 1, 0, n_neurons // 2, 0]
        parts = coefficient_parts(record, run.settings, asked)
        assert parts.tokens.shape == (7, 7, 4)
        assert (parts.total() - own[:, asked]).abs().max() < SHARES * own.abs().max().clamp(min=1)


@torch.no_grad()
def test_the_read_out_of_the_last_layer_is_the_models_logits(model: Any) -> None:
    """Whatever lies between the last layer and the logits: final norm, an encoder's head, biases, soft caps, factors."""
    known, tokens = identify(model), torch.arange(9, 16)
    (records,) = kept_records(open_run(model, tokens, layers=-1))
    (record,) = records.values()
    scope = output_step(record.block.order).scope
    logits = model(tokens[None])[0]
    assert (read_out(known, "final_norm")(record.whole[scope]) - logits).abs().max() < 1e-4 * logits.abs().max()


def test_a_direction_and_its_opposite_swap_top_and_bottom() -> None:
    """`v W_U` has no bias, norm or cap: what v promotes most, -v demotes most, at any scale."""
    readout = read_out(identify(tiny.bridge("gemma2")), "direction")
    vectors = torch.randn(6, tiny.D_MODEL, generator=torch.Generator().manual_seed(0))
    assert torch.equal(readout(vectors).argmax(-1), readout(-3 * vectors).argmin(-1))


def test_an_encoder_without_its_head_is_refused(tmp_path: Path) -> None:
    """Its head would be random numbers; with its own head it is read."""
    for trained in (True, False):
        model = tiny.hf_model("bert")
        (model if trained else model.bert).save_pretrained(tmp_path / str(trained))
        known = identify(load_model(tmp_path / str(trained)))
        if trained:
            assert read_out(known, "final_norm")(torch.ones(2, tiny.D_MODEL)).shape == (2, tiny.VOCAB)
            continue
        for reading in ("final_norm", "direction"):
            with pytest.raises(UnsupportedModelError, match="saved without its head"):
                read_out(known, reading)


def test_there_are_two_readings() -> None:
    """Another name is refused."""
    with pytest.raises(InputError, match="expected one of final_norm, direction"):
        read_out(identify(tiny.bridge("gpt2")), "tuned")  # type: ignore[arg-type]
