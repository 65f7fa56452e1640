"""Attributions and estimates against autograd through the Hugging Face model itself, whose modules have the local rules."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tl_ffblock as ffb
from tests import tiny
from tests.attribution.conftest import DIFFERENCE, double, pair
from tests.frozen_autograd import PLACES, FrozenRun
from tests.tolerances import ORACLE

N = 4


def target_of(run: FrozenRun) -> Tensor:
    """The logit difference of two tokens at the last position."""
    return run.logits[0, -1, 7] - run.logits[0, -1, 11]


def by(run: FrozenRun, tensors: list[Tensor]) -> list[Tensor]:
    """The target's derivatives."""
    return list(torch.autograd.grad(target_of(run), tensors, retain_graph=True))


def rows(tensors: list[Tensor], derivatives: list[Tensor], heads: tuple[int, ...] = ()) -> Tensor:
    """Their products at every position and head, [layer head pos]; zeros for heads that only other layers have."""
    products = [t.detach().reshape(N, -1) * d.reshape(N, -1) for t, d in zip(tensors, derivatives, strict=True)]
    heads = heads or (1,) * len(products)
    sums = [product.reshape(N, own, -1).sum(dim=-1).T for product, own in zip(products, heads, strict=True)]
    return torch.stack([nn.functional.pad(each, (0, 0, 0, max(heads) - len(each))) for each in sums])


def heads_of(family: str, table: Tensor) -> tuple[int, ...]:
    """Heads of every layer: those of the table [layer head pos], but Jamba's attention has fewer than its mixer has channels."""
    return (64, 4) if family == "jamba" else (table.shape[1],) * len(table)


def assert_near(mine: Tensor, theirs: Tensor) -> None:
    """Up to rounding of the largest."""
    torch.testing.assert_close(mine, theirs, rtol=0, atol=ORACLE * float(theirs.abs().max()))


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("rules", ["path", "patching"])
@pytest.mark.parametrize("family", PLACES)
def test_shares_are_autograds(family: str, rules: str) -> None:
    """Residual stream and heads: tensors times derivatives with norm scales, path slopes and routers, or patterns too, constant."""
    tokens = tiny.tokens(family, N)
    run = FrozenRun(tiny.hf_model(family, dtype=torch.float64), family, tokens, rules)
    result = ffb.attribute(double(family), tokens, DIFFERENCE, rules=rules)
    streams, z = run.of_layers("x"), run.of_layers("z")
    assert_near(result.residual[:-1], rows(streams, by(run, streams))[:, 0])
    assert_near(result.heads, rows(z, by(run, z), heads_of(family, result.heads)))


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", PLACES)
def test_every_cell_of_the_signed_maps_is_autograds(family: str) -> None:
    """`<x_j, J_ij^T g_i>` at every scope and layer; behind attention alone a parallel block has no tensor to differentiate."""
    tokens = tiny.tokens(family, N)
    run = FrozenRun(tiny.hf_model(family, dtype=torch.float64), family, tokens, "path")
    maps = ffb.attribute(double(family), tokens, DIFFERENCE, of="maps").maps
    assert set(maps) - set(run.places.scopes) == ({"Atb"} if family == "gpt_neox" else set())
    for scope in run.places.scopes:
        for layer in range(run.n_layers):
            assert_near(maps[scope, layer], run.signed_map(target_of(run), scope, layer))


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", PLACES)
def test_estimates_of_patching_are_means_of_autograds(family: str) -> None:
    """`<corrupted - clean, g>`, g the mean of derivatives at Gauss-Legendre nodes between the runs' embeddings."""
    (clean, corrupted), model = pair(family, N), tiny.hf_model(family, dtype=torch.float64)
    first, second = (FrozenRun(model, family, tokens, "patching") for tokens in (clean, corrupted))
    nodes, weights = np.polynomial.legendre.leggauss(2)
    places = [torch.lerp(first.embedded, second.embedded, (node + 1) / 2) for node in nodes]
    between = [FrozenRun(model, family, clean, "patching", embedded=place) for place in places]
    result = ffb.attribution_patching(double(family), clean, corrupted, DIFFERENCE, steps=2)
    assert PLACES[family].ff or not result.mlps.any()
    of_ff = [("ff", result.mlps[:, None])] if PLACES[family].ff else []
    for name, estimates in (("x", result.residual[:-1, None]), ("z", result.heads), *of_ff):
        changes = [b - a for a, b in zip(first.of_layers(name), second.of_layers(name), strict=True)]
        derivatives = zip(*(by(run, run.of_layers(name)) for run in between), strict=True)
        means = [sum(w / 2 * d for w, d in zip(weights, of_layer, strict=True)) for of_layer in derivatives]
        assert_near(estimates, rows(changes, means, heads_of(family, estimates) if name == "z" else ()))
