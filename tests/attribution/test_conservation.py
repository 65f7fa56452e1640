"""Nothing is lost and nothing invented: shares sum to the target at every layer's input, whatever the family."""

import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from tests import tiny
from tests.attribution.conftest import prompts
from tests.tolerances import BATCH_FLOAT32, BATCH_FLOAT64, CONSERVED_FLOAT32, CONSERVED_FLOAT64

Models = Callable[..., Any]
ENTERS_LATER = re.compile(r"attn\.b_O|ln2|mlp")
"""Biases of a layer that enter behind what its heads write."""
HOOKED = ("gpt2", "llama_nobias", "gemma2", "gpt_neox", "bloom", "mixtral", "bert", "opt")
"""One of each form that HookedTransformer and HookedEncoder can hold."""


def certified(result: Any, tolerance: float) -> None:
    """Shares sum to the target, and everything that should be zero is."""
    certificate = result.certificate
    assert certificate.logits == 0
    assert certificate.forms <= tolerance
    assert float(certificate.layer_inputs.max()) <= tolerance
    assert certificate.edges <= tolerance
    entering = result.tokens.sum() + result.positions.sum() + result.token_types.sum()
    sizes = result.tokens.abs().sum() + result.positions.abs().sum() + result.bias_shares.abs().sum()
    total = float(entering) + sum(result.biases.values())
    assert abs(total - result.value) <= 10 * tolerance * float(sizes)


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_shares_sum_to_the_target_in_float64(
    ffb: ModuleType, model_of_any: Models, difference: Any, family: str
) -> None:
    """At every boundary, to rounding, with every parameter perturbed."""
    model = model_of_any(family, dtype=torch.float64)
    for result in ffb.attribute(model, prompts(family), difference):
        certified(result, CONSERVED_FLOAT64.get(family, CONSERVED_FLOAT64["every other"]))


@pytest.mark.parametrize("family", tiny.MORE_FAMILIES)
def test_shares_sum_to_the_target_in_float32(
    ffb: ModuleType, model_of_any: Models, difference: Any, family: str
) -> None:
    """The same of the families without an oracle, whose norms Hugging Face makes in float32."""
    for result in ffb.attribute(model_of_any(family), prompts(family), difference):
        certified(result, CONSERVED_FLOAT32)


@pytest.mark.filterwarnings("ignore:HookedTransformer is deprecated", "ignore:HookedEncoder is deprecated")
@pytest.mark.parametrize("family", HOOKED)
def test_shares_sum_to_the_target_in_hooked_models(
    ffb: ModuleType, model_of_any: Models, difference: Any, family: str
) -> None:
    """HookedTransformer and HookedEncoder, whose norms have HookPoints before their gain."""
    model = model_of_any(family, "hooked", torch.float64)
    for result in ffb.attribute(model, prompts(family), difference):
        certified(result, CONSERVED_FLOAT64.get(family, CONSERVED_FLOAT64["every other"]))


@pytest.mark.parametrize("toy", tiny.TOYS)
def test_shares_sum_to_the_target_in_toys(ffb: ModuleType, difference: Any, toy: str) -> None:
    """Models without norms, and of attention alone."""
    for result in ffb.attribute(tiny.toy(toy, "bridge"), prompts("gpt2"), difference):
        certified(result, CONSERVED_FLOAT32)


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "gemma2", "qwen2_moe", "gpt_oss", "granite"])
@pytest.mark.parametrize("rules", ["path", "patching", "gradient"])
def test_logits_are_the_models_own_to_the_bit(model_of_any: Models, family: str, rules: str) -> None:
    """With local rules and without, on the prompts themselves."""
    from tl_ffblock.bridge.linearised import RULES
    from tl_ffblock.bridge.runs import open_run
    from tl_ffblock.bridge.traced import trace

    model, tokens = model_of_any(family), prompts(family)
    run = open_run(model, tokens)
    traced = trace(run, run.batches[0], RULES[rules], frozenset({"z", "value", "pattern", "post"}))
    assert torch.equal(traced.logits.detach(), model(tokens).detach())


@pytest.mark.parametrize("family", ["gpt2", "bert", "llama"])
def test_a_padded_batch_is_its_sequences_one_by_one(
    ffb: ModuleType, model_of_any: Models, difference: Any, family: str
) -> None:
    """On either side; the last position is the last real one. Left padding of a float64 Llama is NaN in Hugging Face."""
    dtype, tolerance = (torch.float32, BATCH_FLOAT32) if family == "llama" else (torch.float64, BATCH_FLOAT64)
    model = model_of_any(family, dtype=dtype)
    short, long = tiny.tokens(family, 5, 3), tiny.tokens(family, 8, 4)
    alone = [ffb.attribute(model, tokens, difference) for tokens in (short, long)]
    sides = ("right",) if family == "bert" else ("left", "right")
    for side in sides:
        padding = torch.zeros(3, dtype=torch.long)
        row, seen = ([padding, short], [0] * 3 + [1] * 5) if side == "left" else ([short, padding], [1] * 5 + [0] * 3)
        batch, mask = torch.stack([torch.cat(row), long]), torch.tensor([seen, [1] * 8])
        for result, expected in zip(ffb.attribute(model, batch, difference, attention_mask=mask), alone, strict=True):
            assert result.labels == expected.labels
            for name in ("tokens", "positions", "residual", "heads", "edges"):
                torch.testing.assert_close(getattr(result, name), getattr(expected, name), **tolerance)
            torch.testing.assert_close(result.neurons(0), expected.neurons(0), **tolerance)


def test_prompts_that_run_together_are_each_alone(ffb: ModuleType, model_of_any: Models, difference: Any) -> None:
    """A list of token ids one by one gives what the batch gives."""
    model, tokens = model_of_any("llama", dtype=torch.float64), prompts("llama")
    for together, row in zip(ffb.attribute(model, tokens, difference), tokens, strict=True):
        alone = ffb.attribute(model, row.tolist(), difference)
        torch.testing.assert_close(together.edges, alone.edges, **BATCH_FLOAT64)
        assert together.biases.keys() == alone.biases.keys()


def test_segments_have_their_share(ffb: ModuleType, model_of_any: Models, difference: Any) -> None:
    """BERT's token types enter by a HookPoint of their own, and other segments are another run."""
    model, tokens = model_of_any("bert", dtype=torch.float64), tiny.tokens("bert", 6)
    zeros, mixed = (ffb.attribute(model, tokens, difference, token_type_ids=types) for types in (
        torch.zeros(6, dtype=torch.long), torch.tensor([0, 0, 0, 1, 1, 1])
    ))  # fmt: skip
    assert zeros.token_types.abs().max() > 0
    assert mixed.value != zeros.value
    certified(mixed, CONSERVED_FLOAT64["every other"] + 1e-9)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_in_every_layer_heads_and_what_goes_past_them_are_the_target(
    ffb: ModuleType, model_of_any: Models, difference: Any, family: str
) -> None:
    """With the biases that enter later; so that heads of several layers overlap, and are no summands beside the tokens."""
    model, (tokens, _) = model_of_any(family, dtype=torch.float64), prompts(family)
    result = ffb.attribute(model, tokens, difference, of=("heads", "graph"))
    flows = result.graph(1.0).to_dataframe()
    for layer in range(result.n_layers):
        into = flows[(flows["target_kind"] == "resid_mid") & (flows["target_layer"] == layer)]
        from_heads = into[into["source_kind"] == "head"]["weight"].sum()
        assert from_heads == pytest.approx(float(result.heads[layer].sum()))
        past = into[into["source_kind"] != "head"]["weight"].sum()
        named = zip(result.bias_names, result.bias_layers, result.biases.values(), strict=True)
        later = sum(share for name, at, share in named if at > layer or (at == layer and ENTERS_LATER.search(name)))
        assert from_heads + past + later == pytest.approx(result.value)
    assert float(result.heads.sum()) != pytest.approx(result.value, rel=0.1)
