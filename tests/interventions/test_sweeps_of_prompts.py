"""A sweep of many prompts is a sweep of each, aligned by position or by name, with its mean and interval."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests import tiny
from tl_ffblock.interventions import contribution_sweep
from tl_ffblock.metrics import CleanRun, logit
from tl_ffblock.results.intervals import mean_interval

Models = Callable[..., Any]
LENGTHS = (4, 5, 4)
PLACES = {"name": [1, 3, 2], "subject": [2, 1, 0], "END": -1}
ANSWERS, OTHERS = [7, 9, 11], [9, 7, 5]
LOOP = dict(rtol=1e-4, atol=1e-5)
"""float64 runs, some from cached keys and values; metrics are stored in float32."""

TOGETHER = dict(rtol=1e-6, atol=1e-6)
"""float64 runs in batches of other sizes: sums in another order; metrics are stored in float32."""


def runs_of(ffb: ModuleType, model: Any, family: str, lengths: tuple[int, ...] = LENGTHS) -> tuple[Any, Any]:
    """Clean and corrupted runs of as many prompts."""
    clean, corrupted = (
        ffb.Contributions(model, [tiny.tokens(family, n, seed=seed + first) for seed, n in enumerate(lengths)])
        for first in (0, 10)
    )
    return clean, corrupted


@pytest.mark.parametrize("family", ["gpt2", "qwen2", "bert"])
@pytest.mark.parametrize("scope", ["Attn", "feed-forward"])
def test_many_prompts_are_each_alone(ffb: ModuleType, model_of: Models, family: str, scope: str) -> None:
    """Named cells of every prompt, with a donor and without: the values of a sweep of that prompt at its own positions."""
    model = model_of(family, torch.float64)
    clean, corrupted = runs_of(ffb, model, family)
    if scope == "feed-forward":
        scope = clean.decomposition(0)[0].scopes[3]
    metric = logit(ANSWERS, minus=OTHERS)
    for donor in (clean, None):
        chosen: dict[str, Any] = {"queries": ["END", "name"], "positions": PLACES, "layers": [0, -1]}
        found = contribution_sweep(corrupted, metric, scope, donor=donor, **chosen)
        assert (found.queries, found.keys, found.layers) == (
            ("END", "name"),
            tuple(PLACES),
            (0, model.cfg.n_layers - 1),
        )
        for number, n in enumerate(LENGTHS):
            alone = contribution_sweep(
                corrupted.prompt(number),
                logit(ANSWERS[number], minus=OTHERS[number]),
                scope,
                donor=None if donor is None else donor.prompt(number),
                layers=[0, -1],
            )
            at = {name: places if places == -1 else places[number] for name, places in PLACES.items()}
            rows, columns = [at["END"] % n, at["name"]], [at[name] % n for name in PLACES]
            expected = alone.values[:, rows][:, :, columns]
            torch.testing.assert_close(found.by_prompt[number, :, 0], expected, equal_nan=True, **LOOP)
            assert float(found.baselines[number]) == pytest.approx(alone.baseline, rel=1e-5)
        assert (found.by_prompt.isnan().any() == (family != "bert")).item()


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma2", "gpt_neox", "bert"])
@pytest.mark.parametrize("batch_size", [2, 64])
def test_prompts_that_share_forward_passes_are_a_loop_over_prompts(
    ffb: ModuleType, model_of: Models, family: str, batch_size: int
) -> None:
    """Lengths mixed, edits at other positions of each prompt, batches within a prompt and across: the values of each alone."""
    lengths, places = (5, 4, 5, 5), [3, 2, 1, 3]
    clean, corrupted = runs_of(ffb, model_of(family, torch.float64), family, lengths)
    chosen: dict[str, Any] = {"layers": [0, 1], "batch_size": batch_size}
    metric = logit([7, 9, 11, 13], minus=[9, 7, 5, 3])
    swept = contribution_sweep(
        corrupted, metric, "Attn", donor=clean, positions={"name": places, "END": -1, "START": 0}, **chosen
    )
    for number, place in enumerate(places):
        alone = contribution_sweep(
            corrupted.prompt(number),
            metric.of_prompt(clean_run(corrupted, number)),
            "Attn",
            donor=clean.prompt(number),
            positions={"name": place, "END": -1, "START": 0},
            **chosen,
        )
        torch.testing.assert_close(swept.by_prompt[number], alone.by_prompt[0], equal_nan=True, **TOGETHER)
        assert not swept.by_prompt[number].isnan().all()


def clean_run(runs: Any, number: int) -> CleanRun:
    """A prompt as metrics know it."""
    alone = runs.prompt(number)
    return CleanRun(number, alone.tokens[0], alone.logits[0])


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_prompts_of_one_length_cost_the_forward_passes_of_one(ffb: ModuleType, model_of: Models, family: str) -> None:
    """Six prompts whose edits fit one batch: as many passes as one prompt takes; of another length, as many again."""
    model = model_of(family)
    passes: list[int] = []

    def counted(tensor: Tensor, hook: Any) -> None:
        passes.append(len(tensor))

    def passes_of(lengths: tuple[int, ...]) -> int:
        with model.hooks(fwd_hooks=[("hook_embed", counted)]):
            _, corrupted = runs_of(ffb, model, family, lengths)
            passes.clear()
            contribution_sweep(corrupted, logit(7, minus=9), "Attn", layers=0, positions={"END": -1})
        return len(passes)

    alone = passes_of((5,))
    assert alone == (3 if family == "gpt2" else 1)  # keys and values, a run without edits, the edited runs
    assert passes_of((5,) * 6) == alone
    assert passes_of((5, 4, 5, 4)) == 2 * alone


def test_mean_and_interval_are_over_the_prompts_that_have_the_cell(ffb: ModuleType, model_of: Models) -> None:
    """The name stands before the subject in one prompt of three: there alone the subject reads it, and no interval is made of one."""
    _, corrupted = runs_of(ffb, model_of("gpt2", torch.float64), "gpt2")
    found = contribution_sweep(corrupted, logit(7, minus=9), "Attn", positions=PLACES, layers=0)
    effects = found.by_prompt - found.baselines[:, None, None, None, None]
    np.testing.assert_allclose(
        found.effect, np.ma.masked_invalid(effects[:, :, 0].numpy()).mean(axis=0).filled(np.nan), rtol=1e-5, atol=1e-6
    )
    expected = mean_interval(effects[:, :, 0])
    torch.testing.assert_close(found.interval.low, expected.low, equal_nan=True)
    row, column = found.queries.index("subject"), found.keys.index("name")
    assert found.interval.counts[0, row, column] == 1
    assert bool(found.interval.high[0, row, column].isnan())
    row = found.queries.index("END")
    assert (found.interval.counts[0, row] == 3).all()
    table = found.to_dataframe()
    cell = table[(table["query"] == "END") & (table["key"] == "name")].iloc[0]
    assert cell["effect"] == pytest.approx(float(found.effect[0, row, column]))
    assert cell["low"] <= cell["effect"] <= cell["high"]
    by_prompt = found.to_dataframe(by_prompt=True)
    of_cell = by_prompt[(by_prompt["query"] == "END") & (by_prompt["key"] == "name")]
    assert list(of_cell["prompt"]) == [0, 1, 2]
    assert of_cell["effect"].mean() == pytest.approx(cell["effect"], rel=1e-5)
    assert "mean over 3 prompts" in repr(found)
    assert f"[{table['low'].loc[table['effect'].abs().idxmax()]:.4g}, " in repr(found)


@pytest.mark.parametrize("family", ["gpt2", "qwen2"])
def test_heads_are_an_axis(ffb: ModuleType, model_of: Models, family: str) -> None:
    """One head's contribution exchanged at a time: what its hook does in a run by hand."""
    model = model_of(family, torch.float64)
    clean, corrupted = runs_of(ffb, model, family, (5, 5))
    metric = logit(7, minus=9)
    for scope in ("Attn", "AtbLnFf"):
        found = contribution_sweep(
            corrupted, metric, scope, donor=clean, layers=1, heads=[0, -1], queries=-1, keys=[3, 1]
        )
        assert found.heads == (0, 3)
        assert tuple(found.values.shape) == (1, 2, 1, 2)
        for row, head in enumerate(found.heads):
            for column, key in enumerate(found.keys):
                hook = corrupted.replace(clean, 1, scope, query=-1, key=key, head=head)
                by_hand = metric(model.run_with_hooks(corrupted.tokens, fwd_hooks=[hook])).float()
                torch.testing.assert_close(found.by_prompt[:, 0, row, 0, column], by_hand.detach(), **LOOP)
    assert set(found.to_dataframe()["head"]) == {0, 3}
    assert " head " in repr(found)


def test_a_function_of_all_prompts_sees_all_prompts(ffb: ModuleType, model_of: Models) -> None:
    """As in TransformerLens: one cell is changed in every prompt, and the function gives one number, or one a prompt."""
    clean, corrupted = runs_of(ffb, model_of("gpt2", torch.float64), "gpt2", (4, 4, 4))

    def each(logits: Tensor) -> Tensor:
        rows = torch.arange(3)
        return logits[rows, -1, torch.tensor(ANSWERS)] - logits[rows, -1, torch.tensor(OTHERS)]

    chosen: dict[str, Any] = {"donor": clean, "layers": [0, 2], "batch_size": 7}
    ours = contribution_sweep(corrupted, logit(ANSWERS, minus=OTHERS), "AtbLnFf", **chosen)
    theirs = contribution_sweep(corrupted, each, "AtbLnFf", **chosen)
    torch.testing.assert_close(theirs.by_prompt, ours.by_prompt, equal_nan=True, **LOOP)
    torch.testing.assert_close(theirs.effect, ours.effect, equal_nan=True, rtol=1e-3, atol=1e-5)
    as_one = contribution_sweep(corrupted, lambda logits: each(logits).mean(), "AtbLnFf", **chosen)
    assert tuple(as_one.by_prompt.shape) == (1, 2, 1, 4, 4)
    torch.testing.assert_close(as_one.values, ours.values, equal_nan=True, **LOOP)
    assert as_one.interval.low.isnan().all()
    assert as_one.baseline == pytest.approx(ours.baseline, rel=1e-5)


def test_transformer_lens_patches_a_batch_with_the_same_metric(ffb: ModuleType, model_of: Models) -> None:
    """Their function over the batch and ours, with answers of each prompt: the same mean in every cell."""
    from transformer_lens import patching

    clean, corrupted = runs_of(ffb, model_of("gpt2", torch.float64), "gpt2", (3, 3))
    model, metric = clean.model.hooked, logit(ANSWERS[:2], minus=OTHERS[:2])
    _, cache = model.run_with_cache(clean.tokens)
    theirs = patching.generic_activation_patch(
        model,
        corrupted.tokens,
        cache,
        metric.mean,
        patch_setter=corrupted.patch_setter("AtbLnFf", clean),
        activation_name=corrupted.activation_name("AtbLnFf"),
        index_axis_names=("layer", "dest_pos", "src_pos"),
    )
    ours = contribution_sweep(corrupted, metric, "AtbLnFf", donor=clean)
    reachable = torch.ones(3, 3).tril().bool()
    torch.testing.assert_close(theirs[:, reachable], ours.values[:, reachable], **LOOP)


def test_prompts_of_one_run_are_taken_apart(ffb: ModuleType, model_of: Models) -> None:
    """`prompt(i)` is the run of that prompt; what is of all at once needs equal lengths; cells are rows of the decomposition."""
    model = model_of("gpt2", torch.float64)
    several, _ = runs_of(ffb, model, "gpt2")
    assert (len(several), several.lengths) == (3, LENGTHS)
    assert "3 sequences of 4 to 5 tokens" in repr(several)
    alone = ffb.Contributions(model, tiny.tokens("gpt2", 5, seed=1))
    assert several.prompt(1).logits.equal(alone.logits)
    assert several.prompt(1).labels() == alone.labels() == several.labels(1)
    torch.testing.assert_close(several.prompt(1).vector(1, "AtbLnFf"), alone.vector(1, "AtbLnFf"))
    cells = [(4, 1), (2, 2), (4, 4)]
    parts = alone.decomposition(2)[0].parts("AtbLnFfRes")
    torch.testing.assert_close(alone.cells(2, "AtbLnFfRes", cells), torch.stack([parts[cell] for cell in cells]))
    for read in (lambda: several.tokens, lambda: several.logits, lambda: several.vector(0, "Attn")):
        with pytest.raises(ValueError, match="the prompts have 4, 5, 4 tokens"):
            read()


@pytest.mark.wrong_types
def test_what_cannot_be_swept_together_is_refused(ffb: ModuleType, model_of: Models) -> None:
    """Lengths, names, donors and answers that do not fit say what would."""
    clean, corrupted = runs_of(ffb, model_of("gpt2"), "gpt2")
    metric = logit(7, minus=9)
    with pytest.raises(ValueError, match=r"the prompts have 4, 5, 4 tokens: name what is to be compared"):
        contribution_sweep(corrupted, metric, "Attn", donor=clean)
    with pytest.raises(ValueError, match="donor has prompts of 4 tokens"):
        contribution_sweep(corrupted, metric, "Attn", donor=clean.prompt(0), positions=PLACES)
    with pytest.raises(ValueError, match="queries='verb': expected names of positions, 'name', 'subject', 'END'"):
        contribution_sweep(corrupted, metric, "Attn", positions=PLACES, queries="verb")
    with pytest.raises(ValueError, match="keys=3: expected names of positions"):
        contribution_sweep(corrupted, metric, "Attn", positions=PLACES, keys=3)
    with pytest.raises(ValueError, match="names go with positions"):
        contribution_sweep(corrupted.prompt(0), metric, "Attn", queries="END")
    with pytest.raises(ValueError, match="heads=7"):
        contribution_sweep(corrupted, metric, "Attn", positions=PLACES, heads=7)
    with pytest.raises(ValueError, match=r"answers for 2 prompts, .*; there are 3: expected one entry"):
        contribution_sweep(corrupted, logit(ANSWERS[:2]), "Attn", positions=PLACES, layers=0)
    with pytest.raises(ValueError, match="4, 5, 4 tokens, and metric is given the logits of all of them at once"):
        contribution_sweep(corrupted, lambda logits: logits[:, -1, 0], "Attn", positions=PLACES, layers=0)
