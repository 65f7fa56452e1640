"""Models without norms, and models of attention alone: what is not there changes nothing, what is there is as elsewhere."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from einops import einsum

import tl_ffblock as ffb
from tests.cases import Case
from tl_ffblock.errors import UnsupportedModelError

TOKENS = torch.arange(9, 16)
ATTENTION_ONLY = ("attn_only", "attn_only_no_norms")
NO_NORMS = ("no_norms", "no_norms_gated", "attn_only_no_norms")


@pytest.fixture(params=["bridge", "hooked"])
def toy(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`toy(name, **changes)` by API, or a skip."""
    return lambda name, **changes: Case(name, request.param).fresh(**changes)


@pytest.mark.parametrize("name", ATTENTION_ONLY)
def test_scopes_of_attention_alone(toy: Callable[..., Any], name: str) -> None:
    """Those that exist without a feed-forward; a scope that does not is refused."""
    maps = ffb.contribution_maps(toy(name), TOKENS)
    assert (maps.order, maps.scopes) == ("attn_only", ("Attn", "Atb", "AtbLn"))
    with pytest.raises(ValueError, match="attn_only"):
        ffb.contribution_maps(toy(name), TOKENS, scopes="AtbLnFf")


@pytest.mark.parametrize("name", NO_NORMS)
def test_no_norm_changes_no_vector(toy: Callable[..., Any], name: str) -> None:
    """A scope behind a norm that is not there is the scope before it."""
    maps = ffb.contribution_maps(toy(name), TOKENS)
    behind = {"AtbLn": "Atb", "AtbLnFfResLn": "AtbLnFfRes"}
    for scope, before in behind.items():
        if scope in maps.scopes:
            torch.testing.assert_close(maps[scope], maps[before], rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(maps.bias[scope], maps.bias[before], rtol=1e-5, atol=1e-6)


def test_linear_once_the_pattern_is_known(toy: Callable[..., Any]) -> None:
    """Attention alone without norms: token j's vector is `sum_h alpha[h, i, j] x_j W_V[h] W_O[h]`, and x_i where i = j."""
    model = toy("attn_only_no_norms")
    _, cache = model.run_with_cache(TOKENS[None])
    for layer, block in enumerate(model.blocks):
        x, pattern = cache[f"blocks.{layer}.hook_resid_pre"][0], cache[f"blocks.{layer}.attn.hook_pattern"][0]
        w_v, w_o = block.attn.W_V.detach(), block.attn.W_O.detach()
        expected = einsum(pattern, x, w_v, w_o, "h i j, j d, h d e, h e out -> i j out")
        part = ffb.decompose(model, TOKENS, layer=layer)
        torch.testing.assert_close(part.parts("Attn"), expected, rtol=1e-4, atol=1e-4)
        expected[range(len(x)), range(len(x))] += x
        torch.testing.assert_close(part.parts("Atb"), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(part.whole("Atb"), cache[f"blocks.{layer}.hook_resid_post"][0])


def test_both_directions(toy: Callable[..., Any]) -> None:
    """A configuration may say that tokens see later ones."""
    maps = ffb.contribution_maps(toy("attn_only", attention_dir="bidirectional"), TOKENS)
    assert float(maps["Attn"][:, 0, 1:].min()) > 0


@pytest.mark.parametrize("scope", ["Attn", "Atb", "AtbLn"])
@pytest.mark.parametrize("name", ["attn_only", "no_norms"])
def test_contributions_can_be_edited(toy: Callable[..., Any], name: str, scope: str) -> None:
    """Taking a contribution out changes its scope's tensor by it, or the HookPoint for it is missing and that is said."""
    model = toy(name)
    contributions = ffb.Contributions(model, TOKENS)
    if name == "no_norms" and scope == "AtbLn" and type(model).__name__ == "HookedTransformer":
        with pytest.raises(UnsupportedModelError, match="norm"):
            contributions.subtract(0, scope, query=5, key=2)
        return
    hook = contributions.subtract(0, scope, query=5, key=2)
    clean, edited = (ffb.decompose(model, TOKENS, layer=0, fwd_hooks=hooks) for hooks in ([], [hook]))
    if name == "no_norms" and scope == "AtbLn":  # what the feed-forward alone reads
        assert torch.equal(clean.whole("Atb"), edited.whole("Atb"))
        assert not torch.allclose(clean.whole("AtbLnFf")[5], edited.whole("AtbLnFf")[5], rtol=1e-2)
        return
    vector = contributions.vector(0, scope, query=5, key=2)[0]
    torch.testing.assert_close(clean.whole(scope) - edited.whole(scope), vector, rtol=1e-4, atol=1e-4)
