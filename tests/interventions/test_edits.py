"""What is measured under an edit is what a run by hand gives, from a cache too; a knockout is a masked score; metrics are TransformerLens's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import Case, model_of
from tests.interventions.conftest import HOOKED
from tl_ffblock.bridge.edited import ResumedRuns
from tl_ffblock.bridge.model import identify
from tl_ffblock.interventions import (
    Edit,
    SamplePlan,
    edit_point,
    knockout,
    measure_edits,
    measure_unedited,
    removal,
)
from tl_ffblock.metrics import kl_divergence, logit, loss

pytestmark = pytest.mark.filterwarnings("ignore:Hooked.* is deprecated:DeprecationWarning")  # TransformerLens 3 says so
N = 6
METRIC = logit(7, minus=9)
FROM_CACHE = dict(rtol=1e-5, atol=1e-6)
"""float64, but Hugging Face's rotary angles and RMSNorm are float32: from a cache they are rounded in another order."""
BY_HAND = dict(rtol=1e-4, atol=1e-5)
"""float64 runs, one of them from cached keys and values; the metric is stored in float32."""


def by_hand(logits: Tensor) -> Tensor:
    """The same, read off a run's logits."""
    return (logits[0, -1, 7] - logits[0, -1, 9]).float()


def test_measured_is_what_runs_by_hand_give(edited: Case) -> None:
    """Batched, and in part from cached keys and values: the same as one run_with_hooks after the other."""
    model = edited.model(torch.float64)
    contributions = ffb.Contributions(model, edited.tokens(N))
    scopes = contributions.decomposition(0)[0].scopes
    cells = [(layer, scope, query, query - 1) for layer in (0, 1) for scope in scopes for query in (2, N - 1)]
    edits = [removal(contributions, *cell) for cell in cells]
    measured = measure_edits(contributions, edits, METRIC, batch_size=5)
    for (layer, scope, query, key), value in zip(cells, measured, strict=True):
        hook = contributions.subtract(layer, scope, query=query, key=key)
        logits = model.run_with_hooks(contributions.tokens, fwd_hooks=[hook])
        torch.testing.assert_close(value, by_hand(logits), **BY_HAND)


KNOCKED = [*map(Case, ("gpt2", "llama", "qwen3", "phi", "gpt_oss")), *HOOKED]


@pytest.mark.parametrize("edited", KNOCKED, indirect=True, ids=str)
def test_a_knockout_is_a_masked_score(edited: Case) -> None:
    """Cutting an edge at z equals setting its attention scores to minus infinity in all heads; of a row's only edge a sink takes all."""
    model = edited.model(torch.float64)
    contributions = ffb.Contributions(model, edited.tokens(N))
    edit = knockout(contributions, 1, N - 1, 3)
    assert edit is not None
    (measured,) = measure_edits(contributions, [edit], METRIC)

    def mask(scores: Tensor, hook: Any) -> Tensor:
        scores = scores.clone()
        scores[:, :, N - 1, 3] = torch.finfo(scores.dtype).min
        return scores

    logits = model.run_with_hooks(contributions.tokens, fwd_hooks=[("blocks.1.attn.hook_attn_scores", mask)])
    torch.testing.assert_close(measured, by_hand(logits), **BY_HAND)
    only = knockout(contributions, 1, 0, 0)
    if (
        edited.name != "gpt_oss"
    ):  # where nothing is left no weight could grow, so there is no edit; an encoder has others
        assert (only is None) == (edited.name != "bert")
        return
    assert only is not None
    seen: list[Tensor] = []
    model.run_with_hooks(contributions.tokens, fwd_hooks=[(only.name, lambda z, hook: seen.append(z))])
    z = seen[0].reshape(N, -1)[0]
    assert z.norm() > 1e-2
    torch.testing.assert_close(only.vector, -z, rtol=1e-5, atol=1e-6)


RESUMED = ["gpt2", "llama", "mistral", "qwen2", "gemma2", "gpt_neox"]
"""Keys and values kept of learned and rotary positions, of windows, and of attention beside the feed-forward."""


@pytest.mark.parametrize("family", RESUMED)
def test_only_the_rest_of_the_prompt_is_run(family: str) -> None:
    """From the edited position on, from cached keys and values; whole prompts, when asked for, have the same effects."""
    model = model_of(family, torch.float64)
    lengths: list[int] = []
    with model.hooks(fwd_hooks=[("blocks.0.hook_resid_pre", lambda tensor, hook: lengths.append(tensor.shape[1]))]):
        contributions = ffb.Contributions(model, tiny.tokens(family, N))
        edits = [removal(contributions, layer, "AtbLnFf", query, query) for layer in (0, 1) for query in (N - 2, N - 1)]
        lengths.clear()
        measured = measure_edits(contributions, edits, METRIC)
        assert N not in lengths and {1, 2} <= set(lengths)
        lengths.clear()
        whole = measure_edits(contributions, edits, METRIC, resume=False)
        assert set(lengths) == {N}
    torch.testing.assert_close(measured, whole, **BY_HAND)


def test_a_cache_that_gives_other_logits_is_not_used() -> None:
    """Where going on from the cache changes the clean logits, here by a hook of the user's, whole prompts are run."""
    model = model_of("llama", torch.float64)
    contributions = ffb.Contributions(model, tiny.tokens("llama", N))
    edits = [removal(contributions, 1, "AtbLnFf", N - 1, N - 1)]
    expected = measure_edits(contributions, edits, METRIC, resume=False)
    lengths: list[int] = []

    def different_on_parts(tensor: Tensor, hook: Any) -> Tensor:
        lengths.append(tensor.shape[1])
        return tensor if tensor.shape[1] == N else 1.01 * tensor + 0.1

    with model.hooks(fwd_hooks=[("blocks.1.hook_mlp_out", different_on_parts)]):
        measured = measure_edits(contributions, edits, METRIC)
    torch.testing.assert_close(measured, expected, **BY_HAND)
    assert lengths[-1] == N


def test_layers_and_positions_count_from_the_end() -> None:
    """An edit named from the end is the edit named from the start, and that of the first of several prompts."""
    model = model_of("gpt2", torch.float64)
    contributions = ffb.Contributions(model, tiny.tokens("gpt2", N))
    several = ffb.Contributions(model, [tiny.tokens("gpt2", N), tiny.tokens("gpt2", N - 2)])
    for first, second in (
        (removal(contributions, -1, "AtbLnFf", -2, -3), removal(contributions, 2, "AtbLnFf", N - 2, N - 3)),
        (knockout(contributions, -1, -2, -3), knockout(contributions, 2, N - 2, N - 3)),
        (knockout(several, 1, N - 1, 3), knockout(several.prompt(0), 1, N - 1, 3)),
    ):
        assert first is not None and second is not None
        assert (first.name, first.query) == (second.name, second.query)
        torch.testing.assert_close(first.vector, second.vector, rtol=0, atol=0)
    point = edit_point(contributions.model, -1, "AtbLnFf")
    assert point == edit_point(contributions.model, 2, "AtbLnFf")
    vector = contributions.vector(-1, "AtbLnFf")[0, -1]
    same = measure_edits(contributions, [Edit(point.name, query, vector) for query in (-1, N - 1)], METRIC)
    assert float(same[0]) == float(same[1]) != measure_unedited(contributions, METRIC)


def test_progress_is_told_of_every_edit() -> None:
    """The numbers handed over as runs are done sum to the number of edits; without edits there is nothing to tell."""
    model = model_of("gpt2")
    contributions = ffb.Contributions(model, tiny.tokens("gpt2", N))
    edits = [removal(contributions, 1, "Attn", query, 0) for query in (1, 1, 1, 4, 4)]
    done: list[int] = []
    measure_edits(contributions, edits, METRIC, batch_size=2, advance=done.append)
    assert sum(done) == 5
    assert max(done) == 2
    assert measure_edits(contributions, [], METRIC, advance=done.append).shape == (0,)


def test_a_metric_may_read_before_the_edit() -> None:
    """What lies before an edit is the run without edits: a metric read there, by either count, has not changed."""
    model = model_of("gpt2", torch.float64)
    contributions = ffb.Contributions(model, tiny.tokens("gpt2", N))
    edits = [removal(contributions, 0, "AtbLnFf", N - 1, 0)]
    for position in (1, 1 - N):
        metric = logit(7, minus=9, at=position)
        (measured,) = measure_edits(contributions, edits, metric)
        assert float(measured) == pytest.approx(measure_unedited(contributions, metric), rel=1e-6)


@pytest.mark.parametrize("kind", ["kl", "loss"])
def test_metrics_by_name(kind: str) -> None:
    """KL of the clean run with itself is 0 and else positive; the loss is TransformerLens's own; both by their names."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", N)[None]
    with torch.no_grad():
        logits, others = (
            model(tokens),
            model.run_with_hooks(tokens, fwd_hooks=[("blocks.0.hook_mlp_out", lambda tensor, hook: 2 * tensor)]),
        )
        expected = model(tokens, return_type="loss")
    if kind == "kl":
        values = kl_divergence(logits)(torch.cat([logits, others]))
        assert float(values[0]) == 0
        assert float(values[1]) > 1e-3
    else:
        torch.testing.assert_close(loss(tokens)(logits)[0].float(), expected)
    given: dict[str, Any] = {"scope": "AtbLnFf", "plan": SamplePlan(n_cells=12), "edge_knockout": False}
    by_name = ffb.causal_validation(model, list(tokens), kind, **given)
    by_metric = ffb.causal_validation(model, list(tokens), {"kl": kl_divergence, "loss": loss}[kind](), **given)
    cells = by_name.cells_dataframe()
    assert (cells["effect AtbLnFf"] == by_metric.effects["AtbLnFf"]).all()
    read = cells["query"] == N - 1 if kind == "kl" else cells["query"] < N - 1
    changed = cells[read & (cells["query"] == cells["key"])]
    assert len(changed) >= 3
    assert (changed["effect AtbLnFf"].abs() > 1e-5).all()


# --- runs that begin at their edit -----------------------------------------------------------------------------


def runs_of(model: Any, tokens: Tensor, first: int, **options: Any) -> ResumedRuns:
    """Runs of a prompt, from `first` on from cached keys and values, that know its clean logits."""
    with torch.no_grad():
        return ResumedRuns(identify(model), tokens, model(tokens), starts=[[first]] * len(tokens), **options)


def shifting(row: int, at: int) -> Callable[..., Tensor]:
    """A hook function that edits one row at one position of what passes."""

    def shift(tensor: Tensor, hook: Any) -> Tensor:
        tensor = tensor.clone()
        tensor[row, at] += 0.5 * tensor[row, at].roll(1, -1)
        return tensor

    return shift


@pytest.mark.parametrize("family", RESUMED)
def test_a_resumed_run_gives_the_rest_of_the_whole_runs_logits(family: str) -> None:
    """From every position on, each row with its own edit, what whole runs give; no run adds its own keys to what is kept."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, N)[None]
    runs = runs_of(model, tokens, first=1)
    assert runs.resumes
    names = ("blocks.0.hook_mlp_out", "blocks.1.hook_attn_out")
    for start in (4, 1, 5, 0):
        unedited = runs.logits(start, [0], [])
        rest = runs.logits(start, [0, 0], [(name, shifting(row, 0)) for row, name in enumerate(names)])
        assert rest.shape[:2] == (2, N - start)
        for row, name in enumerate(names):
            with torch.no_grad():
                whole = model.run_with_hooks(tokens, fwd_hooks=[(name, shifting(0, start))])
            torch.testing.assert_close(rest[row], whole[0, start:], **FROM_CACHE)
        torch.testing.assert_close(runs.logits(start, [0], []), unedited, rtol=0, atol=0)


def test_nothing_is_resumed_that_does_not_give_the_clean_logits() -> None:
    """Logits that a run from the cache misses by 1 %, no position left, no wish to, an encoder, a model that breaks off: whole prompts."""
    model, tokens = model_of("llama", torch.float64), tiny.tokens("llama", N)[None]
    with torch.no_grad():
        clean = model(tokens)

    def resumes(logits: Tensor, first: int, **options: Any) -> bool:
        return ResumedRuns(identify(model), tokens, logits, starts=[[first]], **options).resumes

    def refuse(tensor: Tensor, hook: Any) -> Tensor:
        if tensor.shape[1] < N:
            raise RuntimeError("no part of a prompt is run here")
        return tensor

    assert resumes(clean, 2)
    assert not resumes(1.01 * clean, 2)
    assert not resumes(clean, N)
    assert not resumes(clean, 2, resume=False)
    with model.hooks(fwd_hooks=[("blocks.0.hook_resid_pre", refuse)]):
        assert not resumes(clean, 2)
    assert not runs_of(model_of("bert", torch.float64), tiny.tokens("bert", N)[None], first=2).resumes
