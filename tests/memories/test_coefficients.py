"""A memory's coefficient and value, the read-out of vectors, on every code path, and what is active of a layer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests import tiny
from tests.cases import model_of, slow_beyond
from tl_ffblock import load_model
from tl_ffblock.bridge.model import identify
from tl_ffblock.bridge.readout import read_out
from tl_ffblock.bridge.runs import kept_records, open_run
from tl_ffblock.errors import FFBlockError, InputError, UnsupportedModelError
from tl_ffblock.layer.neurons import coefficient_parts, coefficients, feed_forwards, neuron_values
from tl_ffblock.layer.scopes import feed_step, output_step
from tl_ffblock.memories.values import OUTCOMES, active, outcomes, zero_agreement

SHARES = 3e-6
"""Shares of a coefficient against the model's own, relative to the largest: RMSNorm and rotary tables of Hugging Face are float32."""


@pytest.fixture(scope="module", params=slow_beyond(tiny.ALL_FAMILIES))
def model(request: pytest.FixtureRequest) -> Any:
    """A tiny model of every family that this TransformerLens runs as Hugging Face does."""
    try:
        known = model_of(request.param)
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
    readout = read_out(identify(model_of("gemma2")), "direction")
    vectors = torch.randn(6, tiny.D_MODEL, generator=torch.Generator().manual_seed(0))
    assert torch.equal(readout(vectors).argmax(-1), readout(-3 * vectors).argmin(-1))


def test_an_encoder_without_its_head_is_refused(tmp_path: Path) -> None:
    """Its head would be random numbers; with its own head it is read."""
    trained = tiny.hf_model("bert")
    for name, model in (("trained", trained), ("bare", trained.bert)):
        model.save_pretrained(tmp_path / name)
    known, bare = (identify(load_model(tmp_path / name)) for name in ("trained", "bare"))
    assert read_out(known, "final_norm")(torch.ones(2, tiny.D_MODEL)).shape == (2, tiny.VOCAB)
    for reading in ("final_norm", "direction"):
        with pytest.raises(UnsupportedModelError, match="saved without its masked-language-model head"):
            read_out(bare, reading)


# --- composition on vectors made by hand ------------------------------------------------------------------------

COEFFICIENTS = torch.tensor([4.0, -3.0, 0.0, 0.5])
LENGTHS = torch.tensor([1.0, 2.0, 9.0, 1.0])


def test_active_memories() -> None:
    """The paper's rule counts positive coefficients; else nine tenths of the mass with as few as can be (here of 4, 6, 0, 0.5)."""
    assert active(COEFFICIENTS, LENGTHS, "positive").tolist() == [True, False, False, True]
    assert active(COEFFICIENTS, LENGTHS, "mass").tolist() == [True, True, False, False]
    assert not active(torch.zeros(4), LENGTHS, "mass").any()
    with pytest.raises(InputError, match='expected "positive" or "mass"'):
        active(COEFFICIENTS, LENGTHS, "some")  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(0)
    drawn, lengths = torch.randn(20, 50, generator=generator), torch.rand(50, generator=generator)
    chosen, sizes = active(drawn, lengths, "mass"), drawn.abs() * lengths
    share = torch.where(chosen, sizes, 0).sum(-1) / sizes.sum(-1)
    smallest = torch.where(chosen, sizes, torch.inf).amin(-1) / sizes.sum(-1)
    assert (share >= 0.9 - 1e-6).all() and (share - smallest < 0.9).all()


@pytest.mark.parametrize(("token", "silent"), [(7, False), (8, True), (5, True), (6, False), (9, True)])
def test_zero_agreement(token: int, silent: bool) -> None:
    """A memory of negative coefficient says what -v says; what is not active says nothing.

    v promotes 7, 8, 9, 5 and -v promotes 1, 6, 2, 3; active are the first (4 v: 7) and the second (-3 v: 6).
    """
    tops = torch.tensor([[7, 8, 9, 5], [1, 6, 2, 3]])
    chosen = active(COEFFICIENTS, LENGTHS, "mass")
    assert bool(zero_agreement(COEFFICIENTS, chosen, tops, torch.tensor(token))) == silent


def test_outcomes() -> None:
    """The output's top token is the residual's, the feed-forward's, of both, or of neither."""
    residual, feed_forward, output = np.array([1, 1, 1, 1, 1]), np.array([2, 2, 1, 2, 1]), np.array([1, 2, 1, 3, 3])
    named = [OUTCOMES[number] for number in outcomes(residual, feed_forward, output)]
    assert named == ["residual", "feed-forward", "agreement", "composition", "composition"]
