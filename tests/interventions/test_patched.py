"""Clean, corrupted, patched: three maps in one call, and their differences."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tests.tolerances import BATCH_FLOAT64, REBUILT
from tl_ffblock.interventions import difference

Models = Callable[..., Any]
N = 5


def test_patching_everything_repairs_everything(ffb: ModuleType, model_of: Models, family: str) -> None:
    """The clean residual stream put in at layer 1 makes the patched run the clean one from there on."""
    model = model_of(family, torch.float64)
    clean, corrupted = (tiny.tokens(family, N, seed=seed) for seed in (0, 1))

    def from_clean(cache: Any) -> list[Any]:
        name = "blocks.1.hook_resid_pre"
        return [(name, lambda tensor, hook: cache[name])]

    runs = ffb.patched_maps(model, clean, corrupted, fwd_hooks=from_clean)
    for scope in runs.clean.scopes:
        torch.testing.assert_close(runs.patched[scope, 1], runs.clean[scope, 1], **BATCH_FLOAT64)
        assert float(runs.rest[scope, 1].abs().max()) < 1e-9
        torch.testing.assert_close(runs.repair[scope, 1], runs.corruption[scope, 1], **BATCH_FLOAT64)
        assert float(runs.corruption[scope].abs().max()) > 1e-2
    assert runs.rest.signed
    alone = ffb.contribution_maps(model, corrupted)
    torch.testing.assert_close(runs.corrupted["Attn"], alone["Attn"], rtol=0, atol=0)


def test_differing_tokens_are_labelled_with_both(ffb: ModuleType, model_of: Models) -> None:
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
    assert (runs.repair.sides, runs.rest.sides[0]) == (("the patched run", "the corrupted run"), "the clean run")
    assert ffb.average([runs.repair]).sides == runs.repair.sides


def test_differences_of_vectors_keep_the_books(ffb: ModuleType, model_of: Models, any_family: str) -> None:
    """Parts, bias and remainder of a difference sum to the difference of the models' own tensors."""
    model = model_of(any_family, torch.float64)
    clean, corrupted = (tiny.tokens(any_family, N, seed=seed) for seed in (0, 1))
    hooks = [("blocks.0.hook_mlp_out", lambda tensor, hook: 1.5 * tensor)]
    first = ffb.decompose(model, clean, layer=0)
    second = ffb.decompose(model, corrupted, layer=0, fwd_hooks=hooks)
    apart = difference(first, second)
    for scope in apart.scopes:
        total = apart.parts(scope).sum(1) + apart.bias(scope) + apart.remainder(scope)
        torch.testing.assert_close(total, apart.whole(scope), rtol=0, atol=2e-5)
    same = difference(first, first)
    assert all((same.parts(scope) == 0).all() for scope in same.scopes)
    assert apart.layer == 0


@pytest.mark.wrong_types
def test_what_cannot_be_compared_is_refused(ffb: ModuleType, model_of: Models) -> None:
    """Prompts of different length, other layers, other kinds."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", N)
    with pytest.raises(ValueError, match="clean has 5 tokens, corrupted 4"):
        ffb.patched_maps(model, tokens, tokens[:4], fwd_hooks=[])
    with pytest.raises(ValueError, match="2 clean prompts and 1 corrupted: expected pairs"):
        ffb.patched_maps(model, [tokens, tokens], [tokens], fwd_hooks=[])
    with pytest.raises(ValueError, match=r"clean\[1\] has 5 tokens, corrupted\[1\] 4"):
        ffb.patched_maps(model, [tokens, tokens], [tokens, tokens[:4]], fwd_hooks=[])
    with pytest.raises(ValueError, match="1 functions for 2 pairs"):
        ffb.patched_maps(model, [tokens] * 2, [tokens] * 2, fwd_hooks=[lambda cache: []])
    with pytest.raises(ValueError, match="clean is a list of str; expected one text, or one tensor"):
        ffb.patched_maps(model, ["a b c", "d e f"], "a b c", fwd_hooks=[])
    with pytest.raises(ValueError, match=r"corrupted is a tensor of shape \(3, 5\)"):
        ffb.patched_maps(model, tokens, tokens.expand(3, -1), fwd_hooks=[])
    maps, part = ffb.contribution_maps(model, tokens), ffb.decompose(model, tokens, layer=0)
    with pytest.raises(ValueError, match="maps of 5 and of 4 tokens"):
        difference(maps, ffb.contribution_maps(model, tokens[:4]))
    with pytest.raises(ValueError, match="expected the same layer"):
        difference(part, ffb.decompose(model, tokens, layer=1))
    with pytest.raises(ValueError, match="cannot subtract a Decomposition from a ContributionMaps"):
        difference(maps, part)


def test_pairs_of_prompts_are_each_alone(ffb: ModuleType, model_of: Models) -> None:
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


def test_the_page_shows_all_runs(ffb: ModuleType, model_of: Models, tmp_path: Path) -> None:
    """One page with the three runs as one payload, which opens at the patched one against the corrupted one."""
    model = model_of("gpt2")
    clean, corrupted = (tiny.tokens("gpt2", N, seed=seed) for seed in (0, 1))
    runs = ffb.patched_maps(model, clean, corrupted, fwd_hooks=[], layers=[0, 1])
    html = runs.to_html(tmp_path / "runs.html", layer=1)
    assert (tmp_path / "runs.html").read_text(encoding="utf-8") == html
    assert runs.to_html() == html  # without a layer the last one, which every patch has reached
    data = json.loads(html.partition('id="data">')[2].partition("</script>")[0])
    assert [run["name"] for run in data["runs"]] == ["clean", "corrupted", "patched"]
    assert (data["start"]["run"], data["start"]["refRun"], data["start"]["layer"]) == (2, 1, 1)


def test_equal_vectors_of_a_cache_and_a_run(ffb: ModuleType, model_of: Models, family: str) -> None:
    """Differences are zero between a run and the same run read from its cache."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, N)
    _, cache = model.run_with_cache(tokens[None])
    apart = difference(ffb.decompose(model, tokens, layer=1), ffb.decompose(model, tokens, layer=1, cache=cache))
    for scope in apart.scopes:
        vectors: Tensor = apart.parts(scope)
        torch.testing.assert_close(vectors, torch.zeros_like(vectors), **REBUILT)
