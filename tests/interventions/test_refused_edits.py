"""Edits that would change nothing, or the wrong positions, are refused; those that exist are made as before."""

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tl_ffblock.errors import InputError
from tl_ffblock.interventions import SamplePlan, contribution_sweep, knockout, removal
from tl_ffblock.interventions.contributions import adding

Models = Callable[..., Any]
MADE_FOR = 4
OTHER_RUNS = ((1, 8), (2, 8), (2, 6), (4, 3), (2, 2), (4, 1), (4, 2), (1, 12))
"""Batch and length of runs whose positions together are a multiple of those that the hook was made for."""


@pytest.mark.parametrize("scope", ["Attn", "AtbLn", "AtbLnFf"])
@pytest.mark.parametrize(("batch", "length"), OTHER_RUNS, ids=str)
def test_a_hook_in_a_run_of_another_length_is_refused(
    ffb: ModuleType, model_of: Models, scope: str, batch: int, length: int
) -> None:
    """Whatever multiple of its positions the run has: 24 of 24 edited wrong ones, or broke off, before."""
    assert batch * length % MADE_FOR == 0
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 12)
    hook = ffb.Contributions(model, tokens[:MADE_FOR]).subtract(1, scope, query=2, key=1)
    with pytest.raises(InputError, match=f"made for {MADE_FOR} positions, the run has {length} here"):
        model.run_with_hooks(tokens[:length].repeat(batch, 1), fwd_hooks=[hook])
    with pytest.raises(InputError, match=f"made for {MADE_FOR} positions"):
        ffb.contribution_maps(model, tokens[:length].repeat(batch, 1), fwd_hooks=[hook])


def test_the_run_that_a_hook_was_made_for_is_edited_as_before(ffb: ModuleType, model_of: Models) -> None:
    """Alone, and in every row of a batch of it."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", MADE_FOR)
    hook = ffb.Contributions(model, tokens).subtract(1, "AtbLnFf", query=2, key=1)
    alone = model.run_with_hooks(tokens[None], fwd_hooks=[hook])
    assert not torch.equal(alone, model(tokens[None]))
    torch.testing.assert_close(model.run_with_hooks(tokens.repeat(3, 1), fwd_hooks=[hook]), alone.expand(3, -1, -1))


def test_a_run_that_goes_on_from_cached_keys_and_values_is_refused(ffb: ModuleType, model_of: Models) -> None:
    """It has fewer positions than the prompt, and which ones no hook can know."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", MADE_FOR)
    hook = ffb.Contributions(model, tokens).subtract(1, "AtbLnFf", query=2, key=1)
    _, kept = model(tokens[None, :2], return_type="logits_and_cache", use_cache=True)
    with pytest.raises(InputError, match="made for 4 positions, the run has 2 here: .*whole"):
        model.run_with_hooks(tokens[None, 2:], fwd_hooks=[hook], past_key_values=kept, use_cache=True)


def test_values_of_heads_are_compared_by_position_too() -> None:
    """Of z [batch pos head d_head] as of the residual stream [batch pos d_model]."""
    delta = torch.ones(1, 4, 6)
    assert torch.equal(adding(delta)(torch.zeros(2, 4, 3, 2)), torch.ones(2, 4, 3, 2))
    for shape in ((1, 8, 3, 2), (2, 2, 3, 2), (2, 2, 6)):
        with pytest.raises(InputError, match="made for 4 positions"):
            adding(delta)(torch.zeros(shape))
    with pytest.raises(InputError, match="are of 2 sequences, the run has 3"):
        adding(torch.ones(2, 4, 6))(torch.zeros(3, 4, 6))


# --- cells that do not exist ------------------------------------------------------------------------------------


def methods(contributions: Any) -> dict[str, Callable[..., Any]]:
    """The hooks of contributions, with the same arguments after the first."""
    return {
        "subtract": contributions.subtract,
        "scale": lambda *where, **chosen: contributions.scale(2.0, *where, **chosen),
        "replace": lambda *where, **chosen: contributions.replace(contributions, *where, **chosen),
    }


@pytest.mark.parametrize("method", ["subtract", "scale", "replace"])
def test_query_and_key_exchanged_are_refused_with_the_exchange(ffb: ModuleType, model_of: Models, method: str) -> None:
    """The commonest slip: the error names both and what was meant."""
    edit = methods(ffb.Contributions(model_of("gpt2"), tiny.tokens("gpt2", 5)))[method]
    for query, key in ((1, 4), (-4, -1), ([0, 1], [3, 4])):
        with pytest.raises(InputError, match="no token reads a later one") as error:
            edit(1, "Attn", query=query, key=key)
        assert f"query={query}, key={key}" in str(error.value)
        assert f"Did you mean query={key}, key={query}?" in str(error.value)


def test_rows_and_columns_need_one_cell_that_exists(ffb: ModuleType, model_of: Models) -> None:
    """Whole ones, blocks that the diagonal cuts, the bias part and an empty choice are edits as before."""
    contributions = ffb.Contributions(model_of("gpt2"), tiny.tokens("gpt2", 5))
    for chosen in ({}, {"query": 1}, {"key": 4}, {"query": [1, 3], "key": [2, 4]}, {"key": [], "bias": True}):
        contributions.subtract(1, "Attn", **chosen)
    contributions.subtract(1, "Attn", query=1, key=4, bias=True)
    assert not contributions.vector(1, "Attn", query=1, key=4).any()  # asked for as a vector, it is what it is


def test_an_encoder_reads_later_tokens(ffb: ModuleType, model_of: Models) -> None:
    """There every cell exists."""
    model, tokens = model_of("bert"), tiny.tokens("bert", 5)
    contributions = ffb.Contributions(model, tokens)
    edited = model.run_with_hooks(contributions.tokens, fwd_hooks=[contributions.subtract(1, "Attn", query=1, key=4)])
    assert not torch.equal(edited, model(contributions.tokens))


WINDOW, FAR = 4, dict(query=7, key=1)


def test_cells_outside_a_window_are_refused(ffb: ModuleType, model_of: Models) -> None:
    """In the layers that have one; in a full layer of the same model they exist."""
    contributions = ffb.Contributions(model_of("gemma3"), tiny.tokens("gemma3", 8))
    for layer in (0, 2):
        with pytest.raises(
            InputError, match=f"query=7, key=1: attention of layer {layer} gives no weight there.*window"
        ):
            contributions.subtract(layer, "Attn", **FAR)
    contributions.subtract(1, "Attn", **FAR)
    contributions.subtract(0, "Attn", query=7, key=[1, 7 - WINDOW + 1])
    with pytest.raises(InputError, match="window"):
        removal(contributions, 0, "Attn", 7, 1)
    with pytest.raises(InputError, match="window"):
        knockout(contributions, 0, 7, 1)


def test_a_sweep_has_no_effect_where_there_is_no_contribution(ffb: ModuleType, model_of: Models) -> None:
    """NaN after the query and outside the window; elsewhere the number of a run of its own."""
    model, tokens = model_of("gemma3"), tiny.tokens("gemma3", 8)
    contributions = ffb.Contributions(model, tokens)
    effects = contribution_sweep(contributions, ffb.logit(7), "Attn", queries=-1).effect
    for layer, key in itertools.product(range(3), range(8)):
        exists = layer == 1 or 7 - key < WINDOW
        assert bool(effects[layer, 0, key].isnan()) == (not exists)
    with pytest.raises(InputError, match=r"queries=7, keys=\[0, 1\]: none of these contributions exists"):
        contribution_sweep(contributions, ffb.logit(7), "Attn", layers=[0, 2], queries=7, keys=[0, 1])


def test_a_sample_of_a_windowed_model_has_cells_without_effects(ffb: ModuleType, model_of: Models) -> None:
    """A cell that is drawn outside the window is no cell to take out: NaN, as where an edge cannot be cut."""
    plan = SamplePlan(n_cells=8, read_share=1.0)
    found = ffb.causal_validation(model_of("gemma3"), [tiny.tokens("gemma3", 8)], ffb.logit(7), plan=plan, scope="Attn")
    table = found.cells_dataframe()
    outside = (table["layer"] != 1) & (table["query"] - table["key"] >= WINDOW)
    assert outside.any() and not outside.all()
    for effect in ("Attn", "edge knockout"):
        assert found.effects[effect][outside.to_numpy()].tolist() != []
        assert all(value != value for value in found.effects[effect][outside.to_numpy()].tolist())
    assert not any(value != value for value in found.effects["Attn"][~outside.to_numpy()].tolist())


def test_a_patch_setter_changes_nothing_where_there_is_nothing(ffb: ModuleType, model_of: Models) -> None:
    """TransformerLens asks for every index of the grid, those after the query too."""
    contributions = ffb.Contributions(model_of("gpt2"), tiny.tokens("gpt2", 5))
    activation: Tensor = torch.randn(1, 5, 32)
    setter = contributions.patch_setter("AtbLnFf")
    assert torch.equal(setter(activation, (1, 1, 4), activation), activation)
    assert not torch.equal(setter(activation, (1, 4, 1), activation), activation)


# --- heads ------------------------------------------------------------------------------------------------------


@pytest.mark.wrong_types
@pytest.mark.parametrize("head", ["12", "L3H2", [1.5], 1.5, True, [True], [], 4, -5, float("nan")], ids=repr)
def test_heads_are_read_as_elsewhere(ffb: ModuleType, model_of: Models, head: Any) -> None:
    """A text is not two heads, True not head 1, 1.5 not 1: the same reader and the same sentence as `heads=`."""
    contributions = ffb.Contributions(model_of("gpt2"), tiny.tokens("gpt2", 5))
    with pytest.raises(InputError, match="head=.*: expected heads from -4 to 3 of a layer of 4"):
        contributions.subtract(1, "Attn", head=head)


def test_heads_from_the_end_and_several(ffb: ModuleType, model_of: Models) -> None:
    """As before: -1 is the last, several in any order."""
    contributions = ffb.Contributions(model_of("gpt2"), tiny.tokens("gpt2", 5))
    assert torch.equal(contributions.vector(1, "Attn", head=-1), contributions.vector(1, "Attn", head=3))
    both = contributions.vector(1, "Attn", head=[0, 2])
    torch.testing.assert_close(both, contributions.vector(1, "Attn", head=[2, 0]))
