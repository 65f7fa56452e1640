"""Contributions as interventions: the dose decides, whatever the block's form; what would change nothing is refused."""

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import Case, callbacks_of, model_of
from tests.tolerances import ALGEBRA, REBUILT
from tl_ffblock.errors import InputError, UnsupportedModelError
from tl_ffblock.interventions import SamplePlan, contribution_sweep, knockout, removal
from tl_ffblock.interventions.contributions import adding

pytestmark = pytest.mark.filterwarnings("ignore:Hooked.* is deprecated:DeprecationWarning")  # TransformerLens 3 says so
N = 5
SMALL = dict(rtol=0, atol=5e-6)
"""float64, but Hugging Face's RMSNorm rounds to float32 in the run: what is left of a tensor of size 1 to 30."""
EXACT = dict(rtol=1e-9, atol=1e-9)
AFTER_USE = ("opt", "gptj", "bert", "roberta", "phimoe", "afmoe", "laguna", "modernbert_decoder", "llama4", "gemma4")
"""Families whose bridge hands out the pattern after attention has used it."""
SHARED_NORM = ("phi", "gptj", "falcon")
"""One norm serves attention and feed-forward: `AtbLn` is changed at the feed-forward's input, behind the norm's HookPoint."""


def seen_at(model: Any, tokens: Tensor, *hooks: tuple[str, Any]) -> Tensor:
    """What the rest of the model gets from the last hook's HookPoint."""
    seen: list[Tensor] = []
    model.run_with_hooks(tokens, fwd_hooks=[*hooks, (hooks[-1][0], lambda tensor, hook: seen.append(tensor))])
    return seen[0]


def same(tensor: Tensor, hook: Any) -> Tensor:
    """A hook that changes nothing."""
    return tensor


@pytest.fixture
def contributions(edited: Case) -> Any:
    """The contributions of a run of every model."""
    return ffb.Contributions(edited.model(torch.float64), edited.tokens(N))


@pytest.fixture
def gpt2() -> Any:
    """Those of a run in float32."""
    return ffb.Contributions(model_of("gpt2"), tiny.tokens("gpt2", N))


def test_everything_taken_out_leaves_zero_and_everything_of_a_donor_is_its_tensor(
    contributions: Any, edited: Case
) -> None:
    """All parts, bias and remainder subtracted: the model's own tensor vanishes; those of another run instead: it is that run's."""
    model, tokens = contributions.model.hooked, contributions.tokens
    donor = ffb.Contributions(model, edited.tokens(N, seed=1))
    for scope in contributions.decomposition(0)[0].scopes:
        own, others = (run.decomposition(0)[0].whole(scope) for run in (contributions, donor))
        assert own.norm() > 1 and (own - others).norm() > 1e-2
        taken_out = contributions.subtract(0, scope, bias=True)
        for hook, expected in (
            (taken_out, torch.zeros_like(own)),
            (contributions.replace(donor, 0, scope, bias=True), others),
        ):
            if scope == "AtbLn" and edited.api == "bridge" and edited.name in SHARED_NORM:
                left = seen_at(model, tokens, hook)[0]
            else:
                left = ffb.decompose(model, tokens[0], layer=0, fwd_hooks=[hook]).whole(scope)
            torch.testing.assert_close(left, expected, **SMALL)


def test_nothing_taken_out_changes_nothing(contributions: Any) -> None:
    """Factor 1, no key, and this run's own contributions in place of themselves give the same logits."""
    model = contributions.model.hooked
    for scope in contributions.decomposition(1)[0].scopes:
        for hook in (
            contributions.scale(1.0, 1, scope),
            contributions.subtract(1, scope, key=[]),
            contributions.replace(contributions, 1, scope, query=-1),
        ):
            logits = model.run_with_hooks(contributions.tokens, fwd_hooks=[hook])
            torch.testing.assert_close(logits, contributions.logits, **ALGEBRA)


def test_doses_add_up(contributions: Any) -> None:
    """Keys one by one or in sets are the column sums; rows likewise; heads share what attention brought; a factor scales it all."""
    model, n_heads = contributions.model.hooked, contributions.record(1).pattern.shape[0]
    for scope in contributions.decomposition(1)[0].scopes:

        def dose(scope: str = scope, **chosen: Any) -> Tensor:
            return contributions.vector(1, scope, **chosen)

        torch.testing.assert_close(sum(dose(key=key) for key in range(N)), dose(), **ALGEBRA)
        torch.testing.assert_close(dose(query=[0, 1]) + dose(query=[2, 3, -1]), dose(), **ALGEBRA)
        twice = dose(query=[2, -3], key=[1, 1])  # 2 and -3 are one position of five
        torch.testing.assert_close(twice, dose(query=2, key=1), rtol=0, atol=0)
        torch.testing.assert_close(dose(bias=True)[0], contributions.decomposition(1)[0].whole(scope), **SMALL)
        shares = [dose(query=N - 1, key=1, head=head) for head in range(n_heads)]  # the residual brings nothing there
        torch.testing.assert_close(sum(shares), dose(query=N - 1, key=1), **EXACT)
        torch.testing.assert_close(dose(query=N - 1, key=1, head=[0, -1]), shares[0] + shares[-1], **EXACT)
        torch.testing.assert_close(dose(head=[0, 2]), dose(head=[2, 0]))
        name, taking_out = contributions.subtract(1, scope, query=3)
        tensor = seen_at(model, contributions.tokens, (name, same))
        less = taking_out(tensor) - tensor
        assert less.norm() > 1e-2
        for factor in (2.0, 0.25, -1.0):
            more = contributions.scale(factor, 1, scope, query=3)[1](tensor) - tensor
            torch.testing.assert_close(more, (1 - factor) * less, **EXACT)


def test_a_heads_share_is_what_its_edge_carries(any_family: str) -> None:
    """Head by head: setting one weight of the pattern to zero takes this share, and no other, out of attention's output."""
    if any_family in AFTER_USE:
        pytest.skip("the bridge hands the pattern out after its use: no edit of it can be the reference")
    if any_family == "bitnet":
        pytest.skip("the scale of its norm before W_O follows the edit of a pattern, and is a constant of the share")
    model, tokens = model_of(any_family, torch.float64), tiny.tokens(any_family, N)
    contributions = ffb.Contributions(model, tokens, value_bias="token")  # in the run each value carries its bias
    place = contributions.subtract(1, "Attn")[0]
    plain = seen_at(model, contributions.tokens, (place, same))
    for head in range(contributions.record(1).pattern.shape[0]):

        def cut(pattern: Tensor, hook: Any, head: int = head) -> Tensor:
            pattern = pattern.clone()
            pattern[:, head, 3, 1] = 0
            return pattern

        without = seen_at(model, contributions.tokens, ("blocks.1.attn.hook_pattern", cut), (place, same))
        share = contributions.vector(1, "Attn", query=3, key=1, head=head)
        assert share.norm() > 1e-3
        torch.testing.assert_close((plain - without).reshape(share.shape), share, **SMALL)


def test_a_removed_contribution_is_the_remainder_of_the_run_without_it(contributions: Any) -> None:
    """The map of a run from which F_i(x_j) was subtracted shows it as remainder, minus that vector, at that query."""
    model, scope = contributions.model.hooked, contributions.decomposition(0)[0].scopes[3]
    own = contributions.model.family.order == "parallel"  # its feed-forward reads its own position only
    cell = {"query": 2, "key": 2 if own else 1}
    vector = contributions.vector(0, scope, **cell)[0]
    hooks = [contributions.subtract(0, scope, **cell)]
    found = ffb.decompose(model, contributions.tokens[0], layer=0, fwd_hooks=hooks)
    if vector.norm() > 1e-3:
        torch.testing.assert_close(found.remainder(scope), -vector, **SMALL)


def test_layers_and_heads_count_from_the_end(contributions: Any) -> None:
    """-1 is the last in every method, its number in every answer."""
    last, n_heads = contributions.model.n_layers - 1, contributions.record(1).pattern.shape[0]
    scope = contributions.decomposition(-1)[0].scopes[0]
    assert contributions.decomposition(-1)[0].layer == contributions.record(-1).layer == last
    name, function = contributions.subtract(-1, scope, query=-1, head=-1)
    same_name, same_function = contributions.subtract(last, scope, query=N - 1, head=n_heads - 1)
    assert name == same_name
    tensor = torch.randn(1, N, contributions.vector(-1, scope).shape[-1])
    torch.testing.assert_close(function(tensor), same_function(tensor), rtol=0, atol=0)


def test_batches_are_one_by_one() -> None:
    """Several sequences at once: each gets its own vectors; one sequence's vectors serve a whole batch."""
    model, batch = model_of("gpt2", torch.float64), torch.stack([tiny.tokens("gpt2", N, seed=seed) for seed in (0, 1)])
    both, alone = ffb.Contributions(model, batch), ffb.Contributions(model, batch[1])
    torch.testing.assert_close(both.vector(1, "AtbLnFf")[1:], alone.vector(1, "AtbLnFf"), **REBUILT)
    logits = model.run_with_hooks(batch[[1, 1]], fwd_hooks=[alone.subtract(1, "AtbLnFf", key=0)])
    torch.testing.assert_close(logits[0], logits[1], **ALGEBRA)
    single = model.run_with_hooks(batch[1:], fwd_hooks=[alone.subtract(1, "AtbLnFf", key=0)])
    torch.testing.assert_close(logits[1:], single, **ALGEBRA)
    assert not torch.equal(single, model(batch[1:]))


def test_a_run_says_what_it_is_and_what_can_be_chosen() -> None:
    """Sequences, tokens, layers kept, the first sequence's tokens; every method names query, key, head and bias."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", N)
    text = repr(ffb.Contributions(model, tokens, layers=[0, 2]))
    for said in ("1 sequence of 5 tokens", "layers 0, 2", " ".join(str(token) for token in tokens.tolist())):
        assert said in text
    assert "2 sequences" in repr(ffb.Contributions(model, torch.stack([tokens, tokens])))
    for method in ("vector", "subtract", "scale", "replace"):
        names = inspect.signature(getattr(ffb.Contributions, method)).parameters
        assert {"layer", "scope", "query", "key", "head", "bias"} <= set(names)


def test_hooks_are_gone_and_the_users_stay() -> None:
    """A run, its interventions and an error inside leave the callbacks that were there."""
    model = tiny.bridge("gpt2")
    model.add_hook("blocks.0.hook_resid_pre", lambda tensor, hook: None)
    before = callbacks_of(model)
    contributions = ffb.Contributions(model, tiny.tokens("gpt2", N))
    model.run_with_hooks(contributions.tokens, fwd_hooks=[])
    during = callbacks_of(model)
    with pytest.raises(ZeroDivisionError):
        ffb.Contributions(model, tiny.tokens("gpt2", N), fwd_hooks=[("blocks.1.hook_attn_out", lambda t, hook: 1 / 0)])
    assert callbacks_of(model) in (before, during)


def test_what_no_hook_point_carries_is_refused() -> None:
    """Gemma 2 as a HookedTransformer: its norms after attention and feed-forward are not shown with their gain."""
    contributions = ffb.Contributions(Case("gemma2", "hooked").model(torch.float64), tiny.tokens("gemma2", N))
    for scope in contributions.decomposition(0)[0].scopes:
        if scope in ("Attn", "AtbLnFf"):
            with pytest.raises(UnsupportedModelError, match=f"no HookPoint has {scope}"):
                contributions.subtract(0, scope)
        else:
            hooks = [contributions.subtract(0, scope, bias=True)]
            left = ffb.decompose(contributions.model.hooked, contributions.tokens[0], layer=0, fwd_hooks=hooks)
            torch.testing.assert_close(left.whole(scope), torch.zeros_like(left.whole(scope)), **SMALL)


# --- runs of another length -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["Attn", "AtbLn", "AtbLnFf"])
def test_a_hook_in_a_run_of_another_length_is_refused(scope: str) -> None:
    """Also where all its positions together are a multiple of the hook's, and where it goes on from cached keys and values."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 12)
    hook = ffb.Contributions(model, tokens[:4]).subtract(1, scope, query=2, key=1)
    for batch, length in ((1, 8), (2, 8), (2, 6), (4, 3), (2, 2), (4, 1), (4, 2), (1, 12)):
        with pytest.raises(InputError, match=f"has 4 positions, the forward pass has {length}: "):
            model.run_with_hooks(tokens[:length].repeat(batch, 1), fwd_hooks=[hook])
        with pytest.raises(InputError, match="has 4 positions"):
            ffb.contribution_maps(model, tokens[:length].repeat(batch, 1), fwd_hooks=[hook])
    _, kept = model(tokens[None, :2], return_type="logits_and_cache", use_cache=True)
    with pytest.raises(InputError, match="has 4 positions, the forward pass has 2: .*whole"):
        model.run_with_hooks(tokens[None, 2:4], fwd_hooks=[hook], past_key_values=kept, use_cache=True)


def test_values_of_heads_are_compared_by_position_too() -> None:
    """Of z [batch pos head d_head] as of the residual stream [batch pos d_model]."""
    delta = torch.ones(1, 4, 6)
    assert torch.equal(adding(delta)(torch.zeros(2, 4, 3, 2)), torch.ones(2, 4, 3, 2))
    for shape in ((1, 8, 3, 2), (2, 2, 3, 2), (2, 2, 6)):
        with pytest.raises(InputError, match="has 4 positions"):
            adding(delta)(torch.zeros(shape))
    for batch in (1, 3):
        with pytest.raises(InputError, match=f"has 2 sequences: expected {batch}"):
            adding(torch.ones(2, 4, 6))(torch.zeros(batch, 4, 6))


# --- cells that do not exist ------------------------------------------------------------------------------------

WINDOW = 4


def test_rows_and_columns_need_one_cell_that_exists(gpt2: Any) -> None:
    """Whole ones, blocks that the diagonal cuts, the bias part and an empty choice are edits; an encoder has every cell."""
    for chosen in ({}, {"query": 1}, {"key": 4}, {"query": [1, 3], "key": [2, 4]}, {"key": [], "bias": True}):
        gpt2.subtract(1, "Attn", **chosen)
    gpt2.subtract(1, "Attn", query=1, key=4, bias=True)
    assert not gpt2.vector(1, "Attn", query=1, key=4).any()  # asked for as a vector, it is what it is
    model = model_of("bert")
    bert = ffb.Contributions(model, tiny.tokens("bert", 5))
    edited = model.run_with_hooks(bert.tokens, fwd_hooks=[bert.subtract(1, "Attn", query=1, key=4)])
    assert not torch.equal(edited, bert.logits)


def test_cells_outside_a_window_are_refused() -> None:
    """In the layers that have one; in a full layer of the same model they exist."""
    contributions = ffb.Contributions(model_of("gemma3"), tiny.tokens("gemma3", 8))
    calls: list[Callable[[int], object]] = [
        lambda layer: contributions.subtract(layer, "Attn", query=7, key=1),
        lambda layer: removal(contributions, layer, "Attn", 7, 1),
        lambda layer: knockout(contributions, layer, 7, 1),
    ]
    for call, layer in itertools.product(calls, (0, 2)):
        with pytest.raises(
            InputError, match=f"query=7, key=1: attention of layer {layer} gives no weight there.*window"
        ):
            call(layer)
    for call in calls:
        call(1)
    contributions.subtract(0, "Attn", query=7, key=[1, 7 - WINDOW + 1])


def test_a_sweep_has_no_effect_where_there_is_no_contribution() -> None:
    """NaN after the query and outside the window; elsewhere the number of a run of its own."""
    contributions = ffb.Contributions(model_of("gemma3"), tiny.tokens("gemma3", 8))
    effects = contribution_sweep(contributions, ffb.logit(7), "Attn", queries=-1).effect
    for layer, key in itertools.product(range(3), range(8)):
        exists = layer == 1 or 7 - key < WINDOW
        assert bool(effects[layer, 0, key].isnan()) == (not exists)
    with pytest.raises(InputError, match=r"queries=7, keys=\[0, 1\]: none of these contributions exists"):
        contribution_sweep(contributions, ffb.logit(7), "Attn", layers=[0, 2], queries=7, keys=[0, 1])


def test_a_sample_of_a_windowed_model_has_cells_without_effects() -> None:
    """A cell that is drawn outside the window is no cell to take out: NaN, as where an edge cannot be cut."""
    plan = SamplePlan(n_cells=8, read_share=1.0)
    found = ffb.causal_validation(model_of("gemma3"), [tiny.tokens("gemma3", 8)], ffb.logit(7), plan=plan, scope="Attn")
    table = found.cells_dataframe()
    outside = ((table["layer"] != 1) & (table["query"] - table["key"] >= WINDOW)).to_numpy()
    assert outside.any() and not outside.all()
    for effect in ("Attn", "edge knockout"):
        assert all(value != value for value in found.effects[effect][outside].tolist())
    assert not any(value != value for value in found.effects["Attn"][~outside].tolist())


def test_a_patch_setter_changes_nothing_where_there_is_nothing(gpt2: Any) -> None:
    """TransformerLens asks for every index of the grid, those after the query too."""
    activation, setter = torch.randn(1, 5, 32), gpt2.patch_setter("AtbLnFf")
    assert torch.equal(setter(activation, (1, 1, 4), activation), activation)
    assert not torch.equal(setter(activation, (1, 4, 1), activation), activation)
