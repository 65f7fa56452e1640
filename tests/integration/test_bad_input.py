"""Models that give no right map give none: other weights than numbers, dropout, modules that were changed. Calls: test_odd_calls."""

from typing import Any

import pytest
import torch
from torch import nn

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of

TOKENS = torch.tensor([7, 8, 9])


def test_as_many_tokens_as_the_context_holds(family: str) -> None:
    """The limit itself is allowed, one more is not."""
    limit = tiny.N_CTX
    maps = ffb.contribution_maps(model_of(family), tiny.tokens(family, limit), layers=0)
    assert len(maps.tokens) == limit
    with pytest.raises(ValueError, match="49 tokens"):
        ffb.contribution_maps(model_of(family), tiny.tokens(family, limit + 1))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", ["embed.W_E", "blocks.1.attn.W_O", "blocks.1.mlp.W_out", "blocks.2.ln2.w"])
def test_weights_that_are_not_numbers(place: str, value: float) -> None:
    """NaN and infinity are found in the model's own tensors and named, before anything is made of them."""
    model = tiny.bridge("gpt2")
    *path, name = place.split(".")
    owner = model
    for part in path:
        owner = owner[int(part)] if part.isdigit() else getattr(owner, part)
    with torch.no_grad():
        getattr(owner, name)[..., 7 if name == "W_E" else 0, :].fill_(value) if name != "w" else owner.w.fill_(value)
    with pytest.raises(ValueError, match=r"layer \d: the model's own \w+ has NaN or infinity"):
        ffb.contribution_maps(model, TOKENS)


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_a_later_run_that_is_not_of_numbers(family: str) -> None:
    """Also where the layers' identities were checked in an earlier run, and a layer is asked once for all of its tensors."""
    model, tokens = tiny.bridge(family), tiny.tokens(family, 6)
    ffb.contribution_maps(model, tokens)
    hook = ("embed.hook_out", lambda x, hook: x.index_fill(1, torch.tensor([2]), float("nan")))
    with pytest.raises(ValueError, match=r"layer 0: the model's own resid_pre has NaN or infinity"):
        ffb.contribution_maps(model, tokens, fwd_hooks=[hook])


@pytest.mark.parametrize("heads", [False, True])
def test_norms_that_overflow_give_no_map(heads: bool) -> None:
    """Tensors that float32 holds and whose norms it does not have an error of NaN at one scope alone: no map is made."""
    model = tiny.bridge("gpt2")
    with torch.no_grad():
        model.blocks[0].mlp.W_out.mul_(1e25)
    assert torch.isfinite(ffb.contribution_maps(model, TOKENS, layers=0, scopes="Atb")["Atb"]).all()
    with pytest.raises(ffb.errors.CompletenessError, match="layer 0, scope AtbLnFf: .* by nan of its norm"):
        ffb.contribution_maps(model, TOKENS, layers=0, heads=heads)


def test_bert_in_chunks_gives_no_wrong_map() -> None:
    """A feed-forward that runs a few positions at a time is either read whole or refused by the library."""
    tokens = tiny.tokens("bert", 6)
    expected = ffb.contribution_maps(tiny.bridge("bert"), tokens)
    model = tiny.bridge("bert", chunk_size_feed_forward=2)
    try:
        maps = ffb.contribution_maps(model, tokens)
    except ffb.FFBlockError:
        return
    torch.testing.assert_close(maps["AtbFf"], expected["AtbFf"])


DROPPING = [
    ("llama", {"attention_dropout": 0.3}),
    ("falcon", {"hidden_dropout": 0.3}),
    ("bloom", {"hidden_dropout": 0.3}),
    ("opt", {"dropout": 0.0, "layerdrop": 0.5}),
    ("mixtral", {"router_jitter_noise": 0.1}),
    ("gpt2", {"resid_pdrop": 0.5}),
]


@pytest.mark.parametrize(("family", "options"), DROPPING, ids=[f"{f} {o}" for f, o in DROPPING])
def test_what_drops_in_training_mode_is_refused(family: str, options: dict[str, float]) -> None:
    """Modules, functional dropout, dropped layers and a router's noise, also in one layer alone; where nothing drops: the same maps."""
    model = tiny.bridge(family, **options)
    expected = ffb.contribution_maps(model, TOKENS)
    if family == "gpt2":
        model.blocks[1].train()
        assert not model.training
    else:
        model.train()
    with pytest.raises(ValueError, match=r"training mode.*(drop|jitter).*model\.eval\(\)"):
        ffb.contribution_maps(model, TOKENS)
    if family == "llama":
        trained = ffb.contribution_maps(tiny.bridge(family).train(), TOKENS)
        assert all(torch.equal(trained[scope], expected[scope]) for scope in expected.scopes)


def test_attention_without_pattern_is_explained() -> None:
    """As with sdpa in TransformerLens 3: no pattern, no map, but the way to get one."""
    model = tiny.bridge("bert")
    shown = type(model.blocks[0].attn.hook_pattern)
    # What sdpa comes down to: the pattern's HookPoint passes nothing on to its callbacks.
    silent = type("Silent", (shown,), {"__call__": lambda self, pattern: pattern})
    for block in model.blocks:
        block.attn.hook_pattern.__class__ = silent
    with pytest.raises(NotImplementedError, match='attn_implementation="eager"'):
        ffb.contribution_maps(model, TOKENS)


@pytest.mark.parametrize("seen_before", [False, True], ids=["new model", "checked before"])
@pytest.mark.parametrize("module", ["mlp", "attn", "ln2", "hook_post"])
def test_a_module_that_does_something_else_gives_no_map(
    module: str, seen_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another forward or activation contradicts the weights or Hugging Face's run, when first seen or later."""
    model, tokens = tiny.bridge("gpt2"), tiny.tokens("gpt2", 5)
    if seen_before:
        ffb.contribution_maps(model, tokens)
    if module == "hook_post":
        model.blocks[1].mlp.hook_post.register_forward_pre_hook(lambda module, args: (args[0] * 1.1,))
    else:
        inner = getattr(model.blocks[1], module)
        shipped = type(inner).forward

        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            output = shipped(self, *args, **kwargs)
            if self is not inner:
                return output
            return (output[0] + 0.5, *output[1:]) if isinstance(output, tuple) else output + 0.5

        monkeypatch.setattr(type(inner), "forward", forward)
    with pytest.raises(ffb.FFBlockError, match=r"layer 1|is not the Hugging Face model") as error:
        ffb.contribution_maps(model, tokens)
    assert isinstance(error.value, RuntimeError | ArithmeticError)


def test_an_activation_across_neurons_is_refused() -> None:
    """SoLU and the like, by layer."""
    model = tiny.bridge("gpt2")
    model.blocks[1].mlp.original_component.act = nn.Softmax(dim=-1)
    with pytest.raises(NotImplementedError, match="layer 1: .*elementwise"):
        ffb.contribution_maps(model, TOKENS)
