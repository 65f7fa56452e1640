"""Models without norms, and models of attention alone: what is not there changes nothing, what is there is as elsewhere."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from einops import einsum

from tests import tiny
from tests.tolerances import CAPTUM, COMPLETE_FLOAT32
from tl_ffblock.errors import UnsupportedModelError

pytestmark = pytest.mark.filterwarnings("ignore:Hooked.* is deprecated:DeprecationWarning")  # TransformerLens 3 says so

TOKENS = torch.arange(9, 16)
ATTENTION_ONLY = ("attn_only", "attn_only_no_norms")
NO_NORMS = ("no_norms", "no_norms_gated", "attn_only_no_norms")
Toys = Callable[..., Any]


@pytest.fixture(params=["bridge", "hooked"])
def toy(request: pytest.FixtureRequest) -> Toys:
    """`toy(name, **changes)` as `tiny.toy`, by API, or a skip."""

    def build(name: str, **changes: Any) -> Any:
        try:
            return tiny.toy(name, request.param, **changes)
        except RuntimeError as error:
            pytest.skip(f"no HookedTransformer here: {error}")

    return build


@pytest.mark.parametrize("name", tiny.TOYS)
def test_complete_and_the_papers_quadrature(ffb: ModuleType, toy: Toys, name: str) -> None:
    """Parts and bias sum to the model's own tensors; captum's integral gives the same maps."""
    model = toy(name)
    maps = ffb.contribution_maps(model, TOKENS)
    assert maps.worst_completeness()[0] < COMPLETE_FLOAT32 / 10
    assert maps.provenance["weights"] == "raw"
    exact, captum = (ffb.contribution_maps(model, TOKENS[:4], layers=-1, method=way) for way in ("exact", "captum"))
    for scope in exact.scopes:
        assert (exact[scope] - captum[scope]).abs().max() <= 10 * CAPTUM * exact[scope].max()


@pytest.mark.parametrize("name", tiny.TOYS)
def test_vectors_have_the_norms_of_the_maps(ffb: ModuleType, toy: Toys, name: str) -> None:
    """Both roads agree."""
    model = toy(name)
    maps = ffb.contribution_maps(model, TOKENS)
    for layer in maps.layers:
        part = ffb.decompose(model, TOKENS, layer=layer)
        for scope in maps.scopes:
            torch.testing.assert_close(maps[scope, layer], part.parts(scope).norm(dim=-1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ATTENTION_ONLY)
def test_scopes_of_attention_alone(ffb: ModuleType, toy: Toys, name: str) -> None:
    """Those that exist without a feed-forward; a scope that does not is refused."""
    maps = ffb.contribution_maps(toy(name), TOKENS)
    assert (maps.order, maps.scopes) == ("attn_only", ("Attn", "Atb", "AtbLn"))
    with pytest.raises(ValueError, match="A attn_only model has Attn, Atb, AtbLn"):
        ffb.contribution_maps(toy(name), TOKENS, scopes="AtbLnFf")


@pytest.mark.parametrize("name", NO_NORMS)
def test_no_norm_changes_no_vector(ffb: ModuleType, toy: Toys, name: str) -> None:
    """A scope behind a norm that is not there is the scope before it."""
    maps = ffb.contribution_maps(toy(name), TOKENS)
    behind = {"AtbLn": "Atb", "AtbLnFfResLn": "AtbLnFfRes"}
    for scope, before in behind.items():
        if scope in maps.scopes:
            torch.testing.assert_close(maps[scope], maps[before], rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(maps.bias[scope], maps.bias[before], rtol=1e-5, atol=1e-6)


def test_linear_once_the_pattern_is_known(ffb: ModuleType, toy: Toys) -> None:
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


@pytest.mark.parametrize("name", tiny.TOYS)
def test_padding_and_caches(ffb: ModuleType, toy: Toys, name: str) -> None:
    """A padded batch and a cached run give the maps of the sequence alone."""
    model = toy(name)
    expected = ffb.contribution_maps(model, TOKENS)
    batch = torch.stack([torch.cat([TOKENS, TOKENS[:2]]), torch.arange(20, 29)])
    mask = torch.ones_like(batch)
    mask[0, len(TOKENS) :] = 0
    _, cache = model.run_with_cache(TOKENS[None])
    for maps in (
        ffb.contribution_maps(model, batch, attention_mask=mask)[0],
        ffb.contribution_maps(model, TOKENS, cache=cache),
    ):
        for scope in expected.scopes:
            torch.testing.assert_close(maps[scope], expected[scope], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", tiny.TOYS)
def test_an_edit_is_a_remainder(ffb: ModuleType, toy: Toys, name: str) -> None:
    """As in every other order."""
    hooks = [("blocks.0.hook_attn_out", lambda tensor, hook: tensor + 1)]
    maps = ffb.contribution_maps(toy(name), TOKENS, fwd_hooks=hooks)
    assert maps.worst_completeness()[0] < COMPLETE_FLOAT32
    assert float(maps.remainder["Atb", 0].min()) > 0.1
    assert float(maps.remainder["Atb", 1].max()) == 0


def test_both_directions(ffb: ModuleType, toy: Toys) -> None:
    """A configuration may say that tokens see later ones."""
    maps = ffb.contribution_maps(toy("attn_only", attention_dir="bidirectional"), TOKENS)
    assert float(maps["Attn"][:, 0, 1:].min()) > 0


@pytest.mark.parametrize("scope", ["Attn", "Atb", "AtbLn"])
@pytest.mark.parametrize("name", ["attn_only", "no_norms"])
def test_contributions_can_be_edited(ffb: ModuleType, toy: Toys, name: str, scope: str) -> None:
    """Taking a contribution out changes its scope's tensor by it, or the HookPoint for it is missing and that is said."""
    model = toy(name)
    contributions = ffb.Contributions(model, TOKENS)
    if name == "no_norms" and scope == "AtbLn" and type(model).__name__ == "HookedTransformer":
        with pytest.raises(UnsupportedModelError, match="no norm before the feed-forward"):
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


def test_a_page_of_attention_alone(ffb: ModuleType, toy: Toys, tmp_path: Any) -> None:
    """Results are drawn, saved and loaded as those of other orders."""
    maps = ffb.contribution_maps(toy("attn_only"), TOKENS)
    maps.to_html(tmp_path / "map.html")
    maps.save(tmp_path / "maps")
    assert type(maps).load(tmp_path / "maps").scopes == maps.scopes
