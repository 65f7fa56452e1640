"""Contributions as interventions: the dose decides, whatever the block's form."""

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tests.tolerances import ALGEBRA, REBUILT
from tl_ffblock.errors import LayerError, UnsupportedModelError
from tl_ffblock.interventions import Contributions

pytestmark = pytest.mark.filterwarnings("ignore:Hooked.* is deprecated:DeprecationWarning")  # TransformerLens 3 says so
Models = Callable[..., Any]
N = 5
SMALL = dict(rtol=0, atol=5e-6)
"""float64, but Hugging Face's RMSNorm rounds to float32 in the run: what is left of a tensor of size 1 to 30."""


AFTER_USE = ("opt", "gptj", "bert", "roberta")
"""Families whose bridge hands out the pattern after attention has used it."""

SHARED_NORM = ("phi", "gptj", "falcon")
"""One norm serves attention and feed-forward: `AtbLn` is changed at the feed-forward's input, behind the norm's HookPoint."""


def seen_at(model: Any, tokens: Tensor, hook: tuple[str, Any]) -> Tensor:
    """What the rest of the model gets from a hook's HookPoint."""
    seen: list[Tensor] = []
    model.run_with_hooks(tokens, fwd_hooks=[hook, (hook[0], lambda tensor, hook: seen.append(tensor))])
    return seen[0]


@pytest.fixture
def contributions(ffb: ModuleType, model_of: Models, any_family: str) -> Any:
    """The contributions of a run of every family."""
    return ffb.Contributions(model_of(any_family, torch.float64), tiny.tokens(any_family, N))


def test_everything_taken_out_leaves_zero(ffb: ModuleType, contributions: Any, any_family: str) -> None:
    """All parts and the bias subtracted: the model's own tensor of that scope vanishes."""
    model = contributions.model.hooked
    for scope in contributions.decomposition(0)[0].scopes:
        hook = contributions.subtract(0, scope, bias=True)
        if scope == "AtbLn" and any_family in SHARED_NORM:
            left = seen_at(model, contributions.tokens, hook)
        else:
            left = ffb.decompose(model, contributions.tokens[0], layer=0, fwd_hooks=[hook]).whole(scope)
        torch.testing.assert_close(left, torch.zeros_like(left), **SMALL)
        assert contributions.decomposition(0)[0].whole(scope).norm() > 1


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
    """Keys taken out one by one, or in sets, are the column sums; rows likewise; a factor scales them."""
    for scope in contributions.decomposition(1)[0].scopes:
        everything = contributions.vector(1, scope)
        by_key = sum(contributions.vector(1, scope, key=key) for key in range(N))
        by_query = contributions.vector(1, scope, query=[0, 1]) + contributions.vector(1, scope, query=[2, 3, -1])
        torch.testing.assert_close(by_key, everything, **ALGEBRA)
        torch.testing.assert_close(by_query, everything, **ALGEBRA)
        twice = contributions.vector(1, scope, query=[2, -3], key=[1, 1])  # 2 and -3 are one position of five
        torch.testing.assert_close(twice, contributions.vector(1, scope, query=2, key=1), rtol=0, atol=0)
        part = contributions.decomposition(1)[0]
        total = contributions.vector(1, scope, bias=True)[0]
        torch.testing.assert_close(total, part.whole(scope), **SMALL)


def test_a_factor_scales_what_is_added(contributions: Any) -> None:
    """At the HookPoint, `scale(f)` adds f - 1 times what taking out subtracts."""
    model = contributions.model.hooked
    for scope in contributions.decomposition(0)[0].scopes:
        name, taking_out = contributions.subtract(0, scope, query=3)
        tensor = seen_at(model, contributions.tokens, (name, lambda tensor, hook: tensor))
        less = taking_out(tensor) - tensor
        assert less.norm() > 1e-2
        for factor in (2.0, 0.25, -1.0):
            more = contributions.scale(factor, 0, scope, query=3)[1](tensor) - tensor
            torch.testing.assert_close(more, (1 - factor) * less, rtol=1e-9, atol=1e-9)


def test_heads_share_what_attention_brought(contributions: Any, any_family: str) -> None:
    """Summed over heads the shares are the contribution where the residual brings nothing: key != query."""
    n_heads = contributions.record(1).pattern.shape[0]
    for scope in contributions.decomposition(1)[0].scopes:
        shares = [contributions.vector(1, scope, query=N - 1, key=1, head=head) for head in range(n_heads)]
        everything = contributions.vector(1, scope, query=N - 1, key=1)
        torch.testing.assert_close(sum(shares), everything, rtol=1e-9, atol=1e-9)
        pair = contributions.vector(1, scope, query=N - 1, key=1, head=[0, -1])
        torch.testing.assert_close(pair, shares[0] + shares[-1], rtol=1e-9, atol=1e-9)


def test_a_heads_share_is_what_its_edge_carries(ffb: ModuleType, model_of: Models, any_family: str) -> None:
    """Head by head: setting one weight of the pattern to zero takes this share, and no other, out of attention's output."""
    if any_family in AFTER_USE:
        pytest.skip("the bridge hands the pattern out after its use: no edit of it can be the reference")
    model, tokens = model_of(any_family, torch.float64), tiny.tokens(any_family, N)
    contributions = ffb.Contributions(
        model, tokens, value_bias="token"
    )  # as in the run, where each value carries its bias
    place = contributions.subtract(1, "Attn")[0]
    plain = seen_at(model, contributions.tokens, (place, lambda tensor, hook: tensor))
    for head in range(contributions.record(1).pattern.shape[0]):

        def cut(pattern: Tensor, hook: Any, head: int = head) -> Tensor:
            pattern = pattern.clone()
            pattern[:, head, 3, 1] = 0
            return pattern

        seen: list[Tensor] = []
        hooks = [("blocks.1.attn.hook_pattern", cut), (place, lambda tensor, hook, seen=seen: seen.append(tensor))]
        model.run_with_hooks(contributions.tokens, fwd_hooks=hooks)
        share = contributions.vector(1, "Attn", query=3, key=1, head=head)
        assert share.norm() > 1e-3
        torch.testing.assert_close((plain - seen[0]).reshape(share.shape), share, **SMALL)


def test_a_removed_contribution_is_the_remainder_of_the_run_without_it(
    ffb: ModuleType, contributions: Any, any_family: str
) -> None:
    """The map of a run from which F_i(x_j) was subtracted shows it as remainder, minus that vector, at that query."""
    model, scope = contributions.model.hooked, contributions.decomposition(0)[0].scopes[3]
    hook = contributions.subtract(0, scope, query=2, key=1)
    if contributions.model.family.order == "parallel":
        hook = contributions.subtract(0, scope, query=2, key=2)  # its feed-forward reads its own position only
    vector = contributions.vector(0, scope, query=2, key=2 if contributions.model.family.order == "parallel" else 1)[0]
    found = ffb.decompose(model, contributions.tokens[0], layer=0, fwd_hooks=[hook])
    if vector.norm() > 1e-3:
        torch.testing.assert_close(found.remainder(scope), -vector, **SMALL)


def test_replacing_everything_gives_the_donors_tensor(ffb: ModuleType, model_of: Models, any_family: str) -> None:
    """All contributions, bias and remainder of another run in place of this one's: the scope's tensor is the other's."""
    model = model_of(any_family, torch.float64)
    corrupted, clean = (ffb.Contributions(model, tiny.tokens(any_family, N, seed=seed)) for seed in (0, 1))
    for scope in clean.decomposition(0)[0].scopes:
        hook = corrupted.replace(clean, 0, scope, bias=True)
        if scope == "AtbLn" and any_family in SHARED_NORM:
            put = seen_at(model, corrupted.tokens, hook)[0]
        else:
            put = ffb.decompose(model, corrupted.tokens[0], layer=0, fwd_hooks=[hook]).whole(scope)
        torch.testing.assert_close(put, clean.decomposition(0)[0].whole(scope), **SMALL)


def test_layers_count_from_the_end(contributions: Any) -> None:
    """-1 is the last layer in every method, the layer's number in every answer."""
    last = contributions.model.n_layers - 1
    scope = contributions.decomposition(-1)[0].scopes[0]
    assert contributions.decomposition(-1)[0].layer == contributions.record(-1).layer == last
    name, function = contributions.subtract(-1, scope, query=-1)
    same_name, same_function = contributions.subtract(last, scope, query=N - 1)
    assert name == same_name
    tensor = torch.randn(1, N, contributions.vector(-1, scope).shape[-1])
    torch.testing.assert_close(function(tensor), same_function(tensor), rtol=0, atol=0)


def test_batches_are_one_by_one(ffb: ModuleType, model_of: Models) -> None:
    """Several sequences at once: each gets its own vectors; one sequence's vectors serve a whole batch."""
    model = model_of("gpt2", torch.float64)
    batch = torch.stack([tiny.tokens("gpt2", N, seed=seed) for seed in (0, 1)])
    both = ffb.Contributions(model, batch)
    alone = ffb.Contributions(model, batch[1])
    torch.testing.assert_close(both.vector(1, "AtbLnFf")[1:], alone.vector(1, "AtbLnFf"), **REBUILT)
    logits = model.run_with_hooks(batch[[1, 1]], fwd_hooks=[alone.subtract(1, "AtbLnFf", key=0)])
    torch.testing.assert_close(logits[0], logits[1], **ALGEBRA)
    with pytest.raises(ValueError, match="of 2 sequences, the run has 1"):
        model.run_with_hooks(batch[:1], fwd_hooks=[both.subtract(1, "AtbLnFf")])


def test_what_cannot_be_chosen_is_named(ffb: ModuleType, model_of: Models) -> None:
    """Positions, heads, layers and scopes that do not exist; runs of another length."""
    model = model_of("gpt2")
    contributions = ffb.Contributions(model, tiny.tokens("gpt2", N), layers=[0])
    with pytest.raises(ValueError, match=r"query=9: expected positions from -5 to 4"):
        contributions.subtract(0, "AtbLnFf", query=9)
    with pytest.raises(ValueError, match=r"head=7: expected heads from -4 to 3 of a layer of 4"):
        contributions.subtract(0, "AtbLnFf", head=7)
    with pytest.raises(ValueError, match="the bias part belongs to no head"):
        contributions.subtract(0, "AtbLnFf", head=1, bias=True)
    with pytest.raises(ValueError, match="unknown scope 'AtbFf'"):
        contributions.subtract(0, "AtbFf")
    with pytest.raises(ValueError, match=r"head=\[1, 4\]: expected heads from -4 to 3"):
        contributions.subtract(0, "AtbLnFf", head=[1, 4])
    with pytest.raises(KeyError, match="layer 1 was not captured"):
        contributions.subtract(1, "AtbLnFf")
    for method in (contributions.vector, contributions.subtract):
        with pytest.raises(LayerError, match=r"no layer 31 in .*; there are layers 0-2"):
            method(31, "AtbLnFf")
    other = ffb.Contributions(model, tiny.tokens("gpt2", N + 1), layers=[0])
    with pytest.raises(ValueError, match="Use prompts of equally many tokens"):
        contributions.replace(other, 0, "AtbLnFf")


def test_parameters_complete() -> None:
    """A notebook can offer what to choose: every method names query, key, head and bias."""
    for method in ("vector", "subtract", "scale", "replace"):
        names = inspect.signature(getattr(Contributions, method)).parameters
        assert {"layer", "scope", "query", "key", "head", "bias"} <= set(names)


def test_a_run_says_what_it_is(ffb: ModuleType, model_of: Models) -> None:
    """Short form: sequences, tokens, model, layers kept, the first sequence's tokens."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", N)
    text = repr(ffb.Contributions(model, tokens, layers=[0, 2]))
    assert "1 sequence of 5 tokens" in text
    assert "layers 0, 2" in text
    assert " ".join(str(token) for token in tokens.tolist()) in text
    assert "2 sequences" in repr(ffb.Contributions(model, torch.stack([tokens, tokens])))


def test_hooks_are_gone_and_the_users_stay(
    ffb: ModuleType, model_of: Models, callbacks: Callable[[Any], dict[str, int]]
) -> None:
    """A run, its interventions and an error inside leave the callbacks that were there."""
    model = tiny.bridge("gpt2")
    model.add_hook("blocks.0.hook_resid_pre", lambda tensor, hook: None)
    before = callbacks(model)
    contributions = ffb.Contributions(model, tiny.tokens("gpt2", N))
    model.run_with_hooks(contributions.tokens, fwd_hooks=[])
    during = callbacks(model)
    with pytest.raises(ZeroDivisionError):
        ffb.Contributions(model, tiny.tokens("gpt2", N), fwd_hooks=[("blocks.1.hook_attn_out", lambda t, hook: 1 / 0)])
    assert callbacks(model) in (before, during)


@pytest.mark.parametrize("family", ["gpt2", "llama_nobias", "gpt_neox", "phi", "gemma2", "bert"])
def test_hooked_models_take_the_same_interventions(ffb: ModuleType, family: str) -> None:
    """HookedTransformer and HookedEncoder show norms before their gain; the dose counts all the same."""
    try:
        model = tiny.hooked(family, dtype=torch.float64)
    except RuntimeError as error:
        pytest.skip(str(error))
    contributions = ffb.Contributions(model, tiny.tokens(family, N))
    for scope in contributions.decomposition(0)[0].scopes:
        if family == "gemma2" and scope in ("Attn", "AtbLnFf"):
            with pytest.raises(UnsupportedModelError, match=f"no HookPoint carries {scope}"):
                contributions.subtract(0, scope)
            continue
        left = ffb.decompose(
            model, contributions.tokens[0], layer=0, fwd_hooks=[contributions.subtract(0, scope, bias=True)]
        ).whole(scope)
        torch.testing.assert_close(left, torch.zeros_like(left), **SMALL)
        logits = model.run_with_hooks(contributions.tokens, fwd_hooks=[contributions.scale(1.0, 0, scope)])
        torch.testing.assert_close(logits, contributions.logits, **ALGEBRA)
