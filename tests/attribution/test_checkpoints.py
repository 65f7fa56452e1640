"""Layers that run again in the backward pass: the same bits as a run that keeps everything, and nothing kept but what enters them."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.attribution.conftest import DIFFERENCE, prompts
from tests.cases import Case, model_of
from tl_ffblock.bridge import traced
from tl_ffblock.bridge.linearised import DIRECT
from tl_ffblock.errors import InputError, UnsupportedModelError

TOKENS = tiny.tokens("gpt2", 7)
CASES = [(Case(family), "path") for family in ("gpt2", "bert", "gemma2", "falcon", "mixtral", "gpt_oss")]
CASES += [(Case("gpt2"), "patching"), (Case("llama"), "gradient"), (Case("gpt2", "hooked"), "path")]
CASES += [(Case("bert", "hooked"), "path"), (Case("gpt2"), DIRECT)]


def attributed(model: Any, **options: Any) -> Any:
    """The difference's shares of GPT-2's tokens."""
    return ffb.attribute(model, TOKENS, DIFFERENCE, of=(), **options)


@pytest.fixture
def model() -> Any:
    """A GPT-2 of a test's own, which has run before: some things are done once a model."""
    own = tiny.bridge("gpt2")
    attributed(own)
    return own


@contextmanager
def counted(model: Any) -> Iterator[list[int]]:
    """How often each layer runs, seen by its module and not by a HookPoint."""
    runs = [0] * len(model.blocks)

    def count(number: int) -> Any:
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


@pytest.mark.parametrize(("case", "rules"), CASES, ids=str)
def test_shares_are_the_same_bits(case: Case, rules: str) -> None:
    """Every share and every part, of a batch with padding, whatever the order of norms."""
    of = ("heads", "edges", "neurons", "graph", *(["maps"] if rules == "path" else []))
    call = functools.partial(ffb.attribute, rules=rules, of=of)
    call = ffb.direct_logit_attribution if rules is DIRECT else call
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, 5:] = 0
    whole, again = (
        call(case.model(), prompts(case.name), DIFFERENCE, checkpoint=asked, attention_mask=mask)
        for asked in (False, True)
    )
    for first, second in zip(whole, again, strict=True):
        for name in ("tokens", "positions", "token_types", "residual", "bias_shares"):
            assert torch.equal(getattr(first, name), getattr(second, name)), name
        assert first.parts.keys() == second.parts.keys()
        assert all(torch.equal(part, second.parts[name]) for name, part in first.parts.items())


def kept_widths(model: Any, **options: Any) -> list[int]:
    """The last axis of every tensor of numbers that the forward pass keeps for the backward pass."""
    widths: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        if tensor.numel():  # a checkpoint of torch 2.6 keeps an empty tensor, too
            widths.append(tensor.shape[-1] if tensor.ndim else 1)
        return tensor

    attributed(model, **options)  # what is run once a model
    widths.clear()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        attributed(model, **options)
    return widths


@pytest.mark.parametrize("rules", ["path", "gradient"])
def test_layers_keep_what_enters_them_alone(rules: str) -> None:
    """Nothing as wide as a feed-forward, and of each layer more no more than two tensors more."""
    model = model_of("gpt2")
    whole, kept = (kept_widths(model, rules=rules, checkpoint=asked) for asked in (False, True))
    assert model.cfg.d_mlp in whole and model.cfg.d_mlp not in kept
    assert len(kept) < len(whole) / 2
    of_deep = kept_widths(model_of("gpt2", n_layer=5), rules=rules, checkpoint=True)
    assert set(of_deep) == set(kept)
    assert len(of_deep) - len(kept) <= 2 * (5 - model.cfg.n_layers)


def test_long_texts_run_twice_and_short_ones_once(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is asked for otherwise; and nothing of it stays on the model."""
    for limit, asked, times in ((7, None, 1), (6, None, 2), (6, False, 1), (7, True, 2)):
        monkeypatch.setattr(traced, "KEPT_WHOLE", limit)
        with counted(model) as runs:
            attributed(model)  # what is run once for these callbacks on modules
            runs[:] = [0] * len(runs)
            attributed(model, checkpoint=asked)
        assert runs == [times] * len(model.blocks)
    assert not any("forward" in vars(block) for block in model.blocks)


def test_hooks_of_users_see_every_tensor_once(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under them long texts are kept whole, and checkpoints that are asked for are refused."""
    monkeypatch.setattr(traced, "KEPT_WHOLE", 6)
    seen: list[str] = []
    hook = ("blocks.1.mlp.hook_post", lambda x, hook: seen.append(hook.name))
    attributed(model, fwd_hooks=[hook])
    assert len(seen) == 1
    with pytest.raises(InputError, match="checkpoint=True with hooks of your own"):
        attributed(model, fwd_hooks=[hook], checkpoint=True)
    model.add_hook(*hook)
    with pytest.raises(InputError, match="remove the hooks"):
        attributed(model, checkpoint=True)
    assert len(seen) == 1


def test_an_error_on_the_way_leaves_the_model_as_it_was(model: Any) -> None:
    """A target that raises, between the two runs of the layers."""

    def failing(logits: Tensor) -> Tensor:
        raise ZeroDivisionError

    before = model(TOKENS[None])
    with pytest.raises(ZeroDivisionError):
        ffb.attribute(model, TOKENS, failing, checkpoint=True)
    assert not any("forward" in vars(block) for block in model.blocks)
    assert torch.equal(model(TOKENS[None]), before)


def test_a_layer_that_takes_derivatives_is_refused(model: Any) -> None:
    """Its derivatives would run it again before the run is over."""

    def with_derivatives(module: Any, args: Any, output: Tensor) -> Tensor:
        with torch.enable_grad():
            at = output.detach().requires_grad_()
            return output + 0 * torch.autograd.grad((at**2).sum(), at)[0]

    model.blocks[1].mlp.register_forward_hook(with_derivatives)
    attributed(model)
    with pytest.raises(UnsupportedModelError, match="takes derivatives in its forward pass"):
        attributed(model, checkpoint=True)
