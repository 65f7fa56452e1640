"""Clean, corrupted, patched: three maps in one call, and their differences."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import ORDERS, model_of
from tests.tolerances import BATCH_FLOAT64, REBUILT
from tl_ffblock.interventions import difference

N = 5


@pytest.mark.parametrize("family", ORDERS)
def test_patching_everything_repairs_everything(family: str) -> None:
    """The clean residual stream put in at layer 1 makes the patched run the clean one from there on."""
    model = model_of(family, torch.float64)
    clean, corrupted = (tiny.tokens(family, N, seed=seed) for seed in (0, 1))

    def from_clean(cache: Any) -> list[Any]:
        name = "blocks.1.hook_resid_pre"
        return [(name, lambda tensor, hook: cache[name])]

    runs = ffb.patched_maps(model, clean, corrupted, fwd_hooks=from_clean)
    for scope in runs.clean.scopes:
        torch.testing.assert_close(runs.patched[scope, 1], runs.clean[scope, 1], **BATCH_FLOAT64)
        assert float(runs.remaining[scope, 1].abs().max()) < 1e-9
        torch.testing.assert_close(runs.repair[scope, 1], runs.corruption[scope, 1], **BATCH_FLOAT64)
        assert float(runs.corruption[scope].abs().max()) > 1e-2
    assert runs.remaining.signed
    alone = ffb.contribution_maps(model, corrupted)
    torch.testing.assert_close(runs.corrupted["Attn"], alone["Attn"], rtol=0, atol=0)


def test_differing_tokens_are_labelled_with_both() -> None:
    """A difference of two prompts names both tokens where they differ."""
    model = model_of("gpt2")
    clean = tiny.tokens("gpt2", N)
    corrupted = clean.clone()
    corrupted[2] = 9 if clean[2] != 9 else 10
    runs = ffb.patched_maps(model, clean, corrupted, fwd_hooks=[])
    assert runs.corruption.tokens[2] == f"{int(clean[2])} / {int(corrupted[2])}"
    assert runs.corruption.tokens[3] == str(int(clean[3]))
    assert "corrupted  " in repr(runs)
    sides = difference(runs.clean, runs.corrupted).sides
    assert sides == (runs.clean - runs.corrupted).sides and sides[0] != sides[1]
    assert (runs.repair.sides, runs.remaining.sides[0]) == (("the patched run", "the corrupted run"), "the clean run")
    assert ffb.average([runs.repair]).sides == runs.repair.sides


def test_differences_of_vectors_keep_the_books(any_family: str) -> None:
    """Parts, bias and remainder sum to the difference of the models' own tensors; nothing is left between a run and its cache."""
    model = model_of(any_family, torch.float64)
    clean, corrupted = (tiny.tokens(any_family, N, seed=seed) for seed in (0, 1))
    hooks = [("blocks.0.hook_mlp_out", lambda tensor, hook: 1.5 * tensor)]
    first = ffb.decompose(model, clean, layer=0)
    apart = difference(first, ffb.decompose(model, corrupted, layer=0, fwd_hooks=hooks))
    _, cache = model.run_with_cache(clean[None])
    own, read = difference(first, first), difference(first, ffb.decompose(model, clean, layer=0, cache=cache))
    assert apart.layer == 0
    for scope in apart.scopes:
        total = apart.parts(scope).sum(1) + apart.bias(scope) + apart.remainder(scope)
        torch.testing.assert_close(total, apart.whole(scope), rtol=0, atol=2e-5)
        assert not own.parts(scope).any()
        torch.testing.assert_close(read.parts(scope), torch.zeros_like(read.parts(scope)), **REBUILT)


def test_pairs_of_prompts_are_each_alone() -> None:
    """Lists give one result a pair, with hooks for all or made for each; their repairs are averaged with `average`."""
    model = model_of("gpt2", torch.float64)
    clean, corrupted = ([tiny.tokens("gpt2", N + n, seed=seed + n) for n in range(2)] for seed in (0, 5))

    def at(position: int) -> Callable[[Any], list[Any]]:
        def from_clean(cache: Any) -> list[Any]:
            def put(tensor: Tensor, hook: object) -> Tensor:
                tensor = tensor.clone()
                tensor[:, position] = cache["blocks.1.hook_resid_pre"][:, position]
                return tensor

            return [("blocks.1.hook_resid_pre", put)]

        return from_clean

    for hooks in ([at(1), at(2)], at(1)):
        several = ffb.patched_maps(model, clean, corrupted, fwd_hooks=hooks, layers=[1, 2])
        assert len(several) == 2
        for number, runs in enumerate(several):
            own = hooks[number] if isinstance(hooks, list) else hooks
            alone = ffb.patched_maps(model, clean[number], corrupted[number], fwd_hooks=own, layers=[1, 2])
            assert (runs.clean, runs.corrupted, runs.patched) == (alone.clean, alone.corrupted, alone.patched)
    mean = ffb.average([runs.repair for runs in several], {"patched": 1, "END": -1})
    by_hand = sum(float(runs.repair["Atb", 2][-1, 1]) for runs in several) / 2
    assert float(mean["Atb", 2][1, 0]) == pytest.approx(by_hand)


def test_the_page_shows_all_runs() -> None:
    """One payload of three runs, which opens at the patched one against the corrupted one, at the last layer."""
    model = model_of("gpt2")
    clean, corrupted = (tiny.tokens("gpt2", N, seed=seed) for seed in (0, 1))
    runs = ffb.patched_maps(model, clean, corrupted, fwd_hooks=[], layers=[0, 1])
    assert runs.to_html(view="maps") == runs.to_html(layer=1)
    data = json.loads(runs.to_html().partition('id="data">')[2].partition("</script>")[0])
    assert [run["name"] for run in data["runs"]] == ["clean", "corrupted", "patched"]
    assert (data["start"]["run"], data["start"]["refRun"], data["start"]["layer"]) == (2, 1, 1)
