"""Layers that run again in the backward pass: the same bits as a run that keeps everything, and nothing kept but what enters them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tests.attribution.conftest import prompts

Models = Callable[..., Any]
CASES = [(family, "bridge", "path") for family in ("gpt2", "bert", "gemma2", "falcon", "mixtral", "gpt_oss")]
CASES += [("gpt2", "bridge", "patching"), ("llama", "bridge", "gradient")]
CASES += [(family, "hooked", "path") for family in ("gpt2", "bert")]


@contextmanager
def counted(model: Any) -> Iterator[list[int]]:
    """How often each layer runs, seen by its module and not by a HookPoint."""
    runs = [0] * len(model.blocks)

    def count(number: int) -> Callable[..., None]:
        def step(*_: Any) -> None:
            runs[number] += 1

        return step

    # A checkpoint calls a layer's `forward` again, not the layer, and so fires what is inside.
    handles = [block.mlp.register_forward_pre_hook(count(number)) for number, block in enumerate(model.blocks)]
    try:
        yield runs
    finally:
        for handle in handles:
            handle.remove()


@pytest.mark.filterwarnings("ignore:HookedTransformer is deprecated", "ignore:HookedEncoder is deprecated")
@pytest.mark.parametrize(("family", "api", "rules"), CASES)
def test_shares_are_the_same_bits(
    ffb: ModuleType, model_of_any: Models, difference: Any, family: str, api: str, rules: str
) -> None:
    """Every share and every part, of a batch with padding, whatever the order of norms."""
    model = model_of_any(family, api)
    of = ("heads", "edges", "neurons", "graph", *(["maps"] if rules == "path" else []))
    tokens, mask = prompts(family), torch.ones(2, 7, dtype=torch.long)
    mask[1, 5:] = 0
    whole, again = (
        ffb.attribute(model, tokens, difference, attention_mask=mask, rules=rules, of=of, checkpoint=asked)
        for asked in (False, True)
    )
    for first, second in zip(whole, again, strict=True):
        for name in ("tokens", "positions", "token_types", "residual", "bias_shares"):
            assert torch.equal(getattr(first, name), getattr(second, name)), name
        assert first.parts.keys() == second.parts.keys()
        assert all(torch.equal(part, second.parts[name]) for name, part in first.parts.items())


def kept_widths(ffb: ModuleType, model: Any, tokens: Tensor, target: Any, **options: Any) -> list[int]:
    """The last axis of every tensor that the forward pass keeps for the backward pass."""
    widths: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        widths.append(tensor.shape[-1] if tensor.ndim else 1)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        ffb.attribute(model, tokens, target, of=(), **options)
    return widths


@pytest.mark.parametrize("rules", ["path", "gradient"])
def test_layers_keep_what_enters_them_alone(ffb: ModuleType, model_of_any: Models, difference: Any, rules: str) -> None:
    """Nothing as wide as a feed-forward, and of each layer more no more than two tensors more."""
    model, tokens = model_of_any("gpt2"), tiny.tokens("gpt2", 7)
    ffb.attribute(model, tokens, difference, rules=rules, of=())  # what is run once a model
    whole, kept = (
        kept_widths(ffb, model, tokens, difference, rules=rules, checkpoint=asked) for asked in (False, True)
    )
    assert model.cfg.d_mlp in whole and model.cfg.d_mlp not in kept
    assert len(kept) < len(whole) / 2
    deep = tiny.bridge("gpt2", n_layer=5)
    ffb.attribute(deep, tokens, difference, rules=rules, of=())
    of_deep = kept_widths(ffb, deep, tokens, difference, rules=rules, checkpoint=True)
    assert set(of_deep) == set(kept)
    assert len(of_deep) - len(kept) <= 2 * (5 - model.cfg.n_layers)


def test_long_texts_run_twice_and_short_ones_once(
    ffb: ModuleType, model_of_any: Models, difference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it is asked for otherwise; and nothing of it stays on the model."""
    model, tokens = model_of_any("gpt2"), tiny.tokens("gpt2", 7)
    ffb.attribute(model, tokens, difference, of=())  # what is run once a model
    for limit, asked, times in ((7, None, 1), (6, None, 2), (6, False, 1), (7, True, 2)):
        monkeypatch.setattr(ffb.bridge.traced, "KEPT_WHOLE", limit)
        with counted(model) as runs:
            ffb.attribute(model, tokens, difference, of=())  # what is run once for these callbacks on modules
            runs[:] = [0] * len(runs)
            ffb.attribute(model, tokens, difference, of=(), checkpoint=asked)
        assert runs == [times] * len(model.blocks)
    assert not any("forward" in vars(block) for block in model.blocks)


def test_hooks_of_users_see_every_tensor_once(
    ffb: ModuleType, model_of_any: Models, difference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under them long texts are kept whole, and checkpoints that are asked for are refused."""
    model, tokens = model_of_any("gpt2"), tiny.tokens("gpt2", 7)
    ffb.attribute(model, tokens, difference, of=())
    monkeypatch.setattr(ffb.bridge.traced, "KEPT_WHOLE", 6)
    seen: list[str] = []
    hook = ("blocks.1.mlp.hook_post", lambda x, hook: seen.append(hook.name))
    ffb.attribute(model, tokens, difference, of=(), fwd_hooks=[hook])
    assert len(seen) == 1
    with pytest.raises(ffb.errors.InputError, match="checkpoint=True under hooks of your own"):
        ffb.attribute(model, tokens, difference, fwd_hooks=[hook], checkpoint=True)
    model.add_hook(*hook)
    try:
        with pytest.raises(ffb.errors.InputError, match="take the hooks off"):
            ffb.attribute(model, tokens, difference, checkpoint=True)
    finally:
        model.reset_hooks()
    assert len(seen) == 1


def test_an_error_on_the_way_leaves_the_model_as_it_was(ffb: ModuleType, model_of_any: Models) -> None:
    """A target that raises, between the two runs of the layers."""
    model, tokens = model_of_any("gpt2"), tiny.tokens("gpt2", 7)

    def failing(logits: Tensor) -> Tensor:
        raise ZeroDivisionError

    before = model(tokens[None])
    with pytest.raises(ZeroDivisionError):
        ffb.attribute(model, tokens, failing, checkpoint=True)
    assert not any("forward" in vars(block) for block in model.blocks)
    assert torch.equal(model(tokens[None]), before)


def test_a_layer_that_takes_derivatives_is_refused(
    ffb: ModuleType, model_of_any: Models, difference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its derivatives would run it again before the run is over."""
    model, tokens = model_of_any("gpt2"), tiny.tokens("gpt2", 7)
    mlp = model.blocks[1].mlp

    def with_derivatives(module: Any, args: Any, output: Tensor) -> Tensor:
        with torch.enable_grad():
            at = output.detach().requires_grad_()
            return output + 0 * torch.autograd.grad((at**2).sum(), at)[0]

    handle = mlp.register_forward_hook(with_derivatives)
    try:
        ffb.attribute(model, tokens, difference, of=())
        with pytest.raises(ffb.errors.UnsupportedModelError, match="takes derivatives in its forward pass"):
            ffb.attribute(model, tokens, difference, of=(), checkpoint=True)
    finally:
        handle.remove()
