"""Nothing is lost and nothing invented: shares sum to the target at every layer's input, whatever the family."""

from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.attribution.conftest import DIFFERENCE, double, prompts
from tests.cases import EVERY, Case, model_of
from tests.tolerances import CONSERVED_FLOAT32, CONSERVED_FLOAT64
from tl_ffblock.bridge.linearised import RULES
from tl_ffblock.bridge.runs import open_run
from tl_ffblock.bridge.traced import trace

HOOKED = tuple(Case(family, "hooked") for family in ("gemma2", "gpt_neox", "bloom", "mixtral", "opt"))
"""The other forms that HookedTransformer can hold, whose norms have HookPoints before their gain."""


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
@pytest.mark.parametrize("case", [*EVERY, *HOOKED], ids=str)
def test_shares_sum_to_the_target(case: Case) -> None:
    """At every boundary, to rounding, with every parameter perturbed; families without an oracle compute norms in float32."""
    single = case.name in tiny.MORE_FAMILIES
    tolerance = CONSERVED_FLOAT32 if single else CONSERVED_FLOAT64.get(case.name, CONSERVED_FLOAT64["every other"])
    model = case.model(torch.float32 if single else torch.float64)
    for result in ffb.attribute(model, torch.stack([case.tokens(7), case.tokens(7, 1)]), DIFFERENCE):
        certified(result, tolerance)


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "gemma2", "qwen2_moe", "gpt_oss", "granite"])
@pytest.mark.parametrize("rules", RULES)
def test_logits_are_the_models_own_to_the_bit(family: str, rules: str) -> None:
    """With local rules and without, on the prompts themselves."""
    model, tokens = model_of(family), prompts(family)
    run = open_run(model, tokens)
    traced = trace(run, run.batches[0], RULES[rules], frozenset({"z", "value", "pattern", "post"}))
    assert torch.equal(traced.logits.detach(), model(tokens).detach())


def test_segments_have_their_share() -> None:
    """BERT's token types enter by a HookPoint of their own, and other segments are another run."""
    model, tokens = double("bert"), tiny.tokens("bert", 6)
    segments = (torch.zeros(6, dtype=torch.long), torch.tensor([0, 0, 0, 1, 1, 1]))
    zeros, mixed = (ffb.attribute(model, tokens, DIFFERENCE, token_type_ids=types) for types in segments)
    assert zeros.token_types.abs().max() > 0
    assert mixed.value != zeros.value
    certified(mixed, CONSERVED_FLOAT64["every other"] + 1e-9)
