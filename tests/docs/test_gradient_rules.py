"""Rules of other papers for the backward pass are those of their definitions, and of their authors' packages where these run."""

from importlib.util import find_spec
from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from docs.results import faithfulness_lxt
from docs.results.faithfulness_sets import Example
from docs.results.gradient_rules import ATTNLRP, GIM, _SoftmaxAt
from tests import tiny
from tl_ffblock import known_circuits as kc

N = 6


def test_the_softmax_has_the_slope_of_a_softer_one() -> None:
    """Autograd through `2 softmax(x / 2)`, whose slope by x is that of a softmax at temperature 2."""
    scores = torch.randn(3, N, N, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scores = scores.masked_fill(torch.ones(N, N, dtype=torch.bool).triu(1), -torch.inf).requires_grad_()
    weights = torch.randn(3, N, N, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    pattern = scores.softmax(dim=-1)
    (found,) = torch.autograd.grad((_SoftmaxAt.apply(pattern, 2.0) * weights).sum(), scores)
    softer = 2 * (scores / 2).softmax(dim=-1)
    (expected,) = torch.autograd.grad((softer * weights).sum(), scores)
    torch.testing.assert_close(found, expected)
    assert torch.equal(_SoftmaxAt.apply(pattern, 2.0), pattern)


@pytest.mark.parametrize("gated", [False, True])
def test_rules_change_derivatives_and_no_value(gated: bool) -> None:
    """GIM sees what saturated attention hides; AttnLRP differs from it by the temperature and by activations."""
    (known,) = kc.build("induction", kc.Settings(gated=gated, noise=0.02, seed=1), pairs=1, kinds=["key"])
    pair = known.pairs[0]
    made = {
        rules.rules.name: ffb.attribution_patching(
            known.model, [*pair.clean], [*pair.corrupted], known.target(pair),
            rules=rules.rules, edges=True, fwd_hooks=rules.hooks(known.model),
        )
        for rules in (GIM, ATTNLRP)
    }  # fmt: skip
    plain = ffb.attribution_patching(
        known.model, [*pair.clean], [*pair.corrupted], known.target(pair), rules="gradient", edges=True
    )
    edge = ("L0H0", "L1H0.k")
    sizes = {name: abs(float(each.edges[edge])) for name, each in made.items()} | {"": abs(float(plain.edges[edge]))}
    assert sizes["GIM"] > 2 * sizes[""] and sizes["AttnLRP"] != sizes[""]
    assert {each.clean for each in made.values()} == {plain.clean}


@pytest.mark.skipif(not faithfulness_lxt.there(), reason="lxt is not installed: pip install --no-deps lxt==2.1")
def test_attnlrp_is_its_authors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relevance of tokens by lxt 2.1 on a Llama of transformers, and by our hooks on its bridge."""
    own, model = tiny.hf_model("llama_nobias").requires_grad_(False), tiny.bridge("llama_nobias")
    own.config._attn_implementation = "eager"
    monkeypatch.setattr(faithfulness_lxt, "of_transformers", lambda: own)
    tokens, target = tiny.tokens("llama_nobias", N), ffb.logit(7, minus=11)
    expected = faithfulness_lxt.attnlrp(model, Example(tokens, target))
    found = ffb.attribute(model, tokens, target, rules=ATTNLRP.rules, of=(), fwd_hooks=ATTNLRP.hooks(model))
    torch.testing.assert_close(found.tokens.float(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(
    not find_spec("gim"), reason="needs gim-explain and transformer-lens<4, in an environment of their own"
)
@pytest.mark.parametrize("toy", ["attn_only", "attn_only_no_norms", "no_norms"])
def test_gim_is_its_authors(toy: str) -> None:
    """Attributions of tokens by gim-explain 0.1.4 on a HookedTransformer, which has no rule for gates, and each rule alone."""
    import gim

    model = tiny.toy(toy, "hooked")
    tokens, baseline = tiny.tokens("llama", N), torch.full((N,), 3)

    def theirs(**options: Any) -> torch.Tensor:
        return gim.explain(model, tokens, target_token_id=7, baseline_token_id=3, **options)

    found = ffb.attribution_patching(
        model, tokens, baseline, ffb.logit(7), rules=GIM.rules, fwd_hooks=GIM.hooks(model)
    ).residual[0]
    torch.testing.assert_close(-found.float(), theirs(), rtol=1e-5, atol=1e-5)
    norms = [{"freeze_norm": False}] * (model.cfg.normalization_type is not None)
    for off in ({"softmax_temperature": None}, {"q_scale": None, "k_scale": None, "v_scale": None}, *norms):
        assert not torch.allclose(theirs(**off), theirs(), rtol=1e-3)
