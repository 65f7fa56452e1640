"""Capture among other hooks: nothing is disturbed, nothing is left. Edits: interventions/test_edited_runs."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import Case, callbacks_of, model_of
from tests.tolerances import GRADIENT, REBUILT

N = 5


class StopError(Exception):
    """What a user's hook raises."""


@pytest.fixture
def model() -> Any:
    """A float64 GPT-2 of this test's own."""
    return tiny.bridge("gpt2", dtype=torch.float64)


@pytest.fixture
def tokens() -> Tensor:
    """Token ids [batch, pos]."""
    return tiny.tokens("gpt2", N)[None]


def same_records(one: Any, two: Any) -> None:
    """Two sets of records hold the same tensors."""
    assert list(one) == list(two)
    for layer in one:
        for site in ("resid_pre", "pattern", "value", "pre", "post"):
            torch.testing.assert_close(getattr(one[layer], site), getattr(two[layer], site), rtol=0, atol=0)
        for scope, tensor in one[layer].whole.items():
            torch.testing.assert_close(tensor, two[layer].whole[scope], rtol=0, atol=0)


def test_records_are_those_of_the_run(case: Case) -> None:
    """The logits are the same bits with and without; records hold what `run_with_cache` shows; the model carries what it carried."""
    model, tokens = case.model(), case.tokens(N)[None]
    before, logits = callbacks_of(model), model(tokens)
    with ffb.capture(model) as records:
        captured = model(tokens)
        assert len(records) == model.cfg.n_layers
    torch.testing.assert_close(captured, logits, rtol=0, atol=0)
    assert callbacks_of(model) == before
    _, cache = model.run_with_cache(tokens)
    with ffb.capture(model, layers=-1) as records:
        model(tokens)
    ((layer, record),) = records.items()
    assert layer == model.cfg.n_layers - 1
    shown = {"resid_pre": "hook_resid_pre", "pattern": "attn.hook_pattern", "value": "attn.hook_v"}
    for site, name in shown.items():
        seen = cache[f"blocks.{layer}.{name}"].reshape(getattr(record, site).shape)
        torch.testing.assert_close(getattr(record, site), seen, rtol=0, atol=0)
    if record.routing is None and record.pre is not None:
        pre = cache[f"blocks.{layer}.mlp.hook_pre"]
        torch.testing.assert_close(record.pre, pre.reshape(record.pre.shape), rtol=0, atol=0)


@pytest.mark.parametrize("way", ["run_with_hooks", "run_with_cache", "hooks", "add_hook", "maps"])
def test_capture_works_inside_every_way_to_hook(model: Any, tokens: Tensor, way: str) -> None:
    """Whatever else hooks the run, records are those of the plain run and the other hooks see theirs."""
    seen: list[Tensor] = []
    point = "blocks.1.mlp.hook_post"
    hooks = [(point, lambda tensor, hook: seen.append(tensor.clone()))]
    with ffb.capture(model) as plain:
        model(tokens)
    with ffb.capture(model) as records:
        if way == "run_with_hooks":
            model.run_with_hooks(tokens, fwd_hooks=hooks)
        elif way == "run_with_cache":
            seen.append(model.run_with_cache(tokens)[1][point])
        elif way == "maps":
            inside = ffb.contribution_maps(model, tokens[0], fwd_hooks=hooks)
            assert inside == ffb.contribution_maps(model, tokens[0], fwd_hooks=hooks)
        else:
            with model.hooks(fwd_hooks=hooks) if way == "hooks" else nullcontext(model.add_hook(*hooks[0])):
                model(tokens)
            model.reset_hooks()
    same_records(records, plain)
    torch.testing.assert_close(seen[0].reshape(1, N, -1), plain[1].post, rtol=0, atol=0)


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_is_read_is_what_the_model_received(model: Any, tokens: Tensor, when: str) -> None:
    """An edit is in the record whether its hook was registered before the capture or inside it."""
    model_hook = ("blocks.0.mlp.hook_post", lambda tensor, hook: tensor * 0)
    if when == "before":
        model.add_hook(*model_hook)
    with ffb.capture(model, layers=0) as records:
        if when == "after":
            model.add_hook(*model_hook)
        model(tokens)
    assert (records[0].post == 0).all()
    b_out = model.blocks[0].mlp.b_out
    torch.testing.assert_close(records[0].whole["AtbLnFf"], b_out.expand(1, N, -1), **REBUILT)


def test_the_users_hooks_stay(model: Any, tokens: Tensor) -> None:
    """Hooks added before, and inside without a context, outlive capture and every call."""
    calls: list[str] = []
    model.add_hook("blocks.0.hook_resid_pre", lambda tensor, hook: calls.append("before"))
    carried = callbacks_of(model)
    with ffb.capture(model):
        model.add_hook("blocks.1.hook_resid_pre", lambda tensor, hook: calls.append("inside"))
    ffb.contribution_maps(model, tokens)
    ffb.contribution_maps(model, tokens, fwd_hooks=[("blocks.0.hook_resid_post", lambda tensor, hook: None)])
    ffb.decompose(model, tokens, layer=0)
    assert set(callbacks_of(model)) > set(carried)
    calls.clear()
    model(tokens)
    assert calls == ["before", "inside"]


def test_two_captures_at_once(model: Any, tokens: Tensor) -> None:
    """Nested captures read the same run, and may end in any order."""
    before = callbacks_of(model)
    first, second = ffb.capture(model), ffb.capture(model, layers=[1])
    one = first.__enter__()
    two = second.__enter__()
    model(tokens)
    first.__exit__(None, None, None)
    torch.testing.assert_close(one[1].pre, two[1].pre, rtol=0, atol=0)
    assert not one[1].edited
    assert not two[1].edited
    model(tokens)
    second.__exit__(None, None, None)
    assert callbacks_of(model) == before


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_run_that_nobody_else_hears_ends_with_the_last_layer_asked_for(family: str) -> None:
    """Nothing later is computed; where a user's hook, another capture or TransformerLens's own hooks wait, all is."""
    model, tokens = model_of(family, torch.float32), tiny.tokens(family, N)
    logits = model(tokens[None])
    before = callbacks_of(model)
    last_block = model.blocks[model.cfg.n_layers - 1]
    runs: list[int] = []
    handle = last_block.register_forward_hook(lambda *_: runs.append(1))
    try:
        alone = ffb.contribution_maps(model, tokens, layers=0)
        assert not runs
        assert callbacks_of(model) == before
        with model.hooks(fwd_hooks=[("blocks.1.hook_out", lambda tensor, hook: None)]):
            ffb.contribution_maps(model, tokens, layers=0)
        assert len(runs) == 1
        with ffb.capture(model) as records:
            among = ffb.contribution_maps(model, tokens, layers=0)
        assert len(runs) == 2
        assert list(records) == list(range(model.cfg.n_layers))
    finally:
        handle.remove()
    for scope in alone.scopes:
        assert torch.equal(alone[scope], among[scope])
    assert torch.equal(model(tokens[None]), logits)


def test_capture_keeps_the_graph(model: Any, tokens: Tensor) -> None:
    """Under gradients a captured tensor is differentiable: its derivative by an embedding is the difference quotient."""
    weight = model.embed.W_E

    def contribution(shift: float) -> Tensor:
        with torch.no_grad():
            weight[tokens[0, 0], 0] += shift
        with ffb.capture(model, layers=1) as records:
            model(tokens)
        with torch.no_grad():
            weight[tokens[0, 0], 0] -= shift
        record = records[1]
        parts = torch.einsum("bhqk,bkhe->bqke", record.pattern, record.value)
        return parts[0, -1, 0].norm() + record.pre[0, -1, 0] + record.whole["AtbLnFfResLn"][0, -1, 0]

    (gradient,) = torch.autograd.grad(contribution(0.0), weight)
    quotient = (contribution(1e-4) - contribution(-1e-4)).detach() / 2e-4
    torch.testing.assert_close(gradient[tokens[0, 0], 0], quotient, **GRADIENT)


@pytest.mark.parametrize("place", ["hook_resid_pre", "attn.hook_pattern", "mlp.hook_pre", "hook_resid_post", "forward"])
def test_nothing_is_left_after_an_error(
    model: Any, tokens: Tensor, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a user's hook, once or several times in one capture, or of the model itself; the next run is captured whole."""
    before = callbacks_of(model)

    def fail(*_: Any, **__: Any) -> None:
        raise StopError

    hooks = [] if place == "forward" else [(f"blocks.1.{place}", fail)]
    with ffb.capture(model) as records:
        for _ in range(3):
            with monkeypatch.context() as patch:
                if place == "forward":
                    patch.setattr(type(model.blocks[1].mlp), "forward", fail)
                with pytest.raises(StopError):
                    model.run_with_hooks(tokens, fwd_hooks=hooks)
        model(tokens)
        assert len(records) == model.cfg.n_layers
    assert callbacks_of(model) == before
    with pytest.raises(ffb.FFBlockError):
        ffb.contribution_maps(model, tokens, rtol=1e-30)  # refused in the middle of the forward pass
    assert callbacks_of(model) == before
    ffb.contribution_maps(model, tokens)


def test_records_are_of_the_last_run(model: Any, tokens: Tensor) -> None:
    """A second run in one capture replaces every record; layers that it did not reach have none, and say what is missing."""
    other = tiny.tokens("gpt2", 3, seed=9)[None]
    with ffb.capture(model) as alone:
        model(other)
    with ffb.capture(model) as records:
        model(tokens)
        model(other)
    same_records(records, alone)
    with ffb.capture(model) as records:
        model(tokens)
        model(other, stop_at_layer=2)
    assert list(records) == [0] and records[0].resid_pre.shape[1] == 3
    for layer, said in ((1, r"layer 1: whole.AtbLnFfResLn .*stop_at_layer"), (2, "layer 2: ")):
        with pytest.raises(RuntimeError, match=said):
            records[layer]
    with pytest.raises(KeyError, match="layer 9 .* 0, 1, 2"):
        records[9]


def test_options_of_capture(model: Any, tokens: Tensor) -> None:
    """`queries=` keeps these rows of everything that has rows; `on_record` gets each layer once and keeps nothing; no graph without gradients."""
    with ffb.capture(model) as full:
        model(tokens)
    received: list[int] = []
    listening = ffb.capture(model, on_record=lambda record: received.append(record.layer))
    with torch.no_grad(), ffb.capture(model, queries=torch.tensor([[1, 3]])) as some, listening as nothing:
        model(tokens)
    assert received == [0, 1, 2] and len(nothing) == 0
    assert not some[1].pre.requires_grad and not some[1].block.feed_forward.w_in.requires_grad
    for layer in full:
        torch.testing.assert_close(some[layer].pre, full[layer].pre[:, [1, 3]], rtol=0, atol=0)
        torch.testing.assert_close(some[layer].pattern, full[layer].pattern[:, :, [1, 3]], rtol=0, atol=0)
        torch.testing.assert_close(some[layer].resid_pre, full[layer].resid_pre, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:hooks.*gated-off")
def test_hooks_that_only_look_leave_no_trace(family: str) -> None:
    """A hook that returns nothing, or the tensor unchanged, changes no number and makes no remainder."""
    model, tokens = model_of(family), tiny.tokens(family, N)
    plain = ffb.contribution_maps(model, tokens)

    def in_first_block(name: str) -> bool:
        # A norm whose scale is returned, changed or not, is computed by TransformerLens in another way.
        return "blocks.0" in name and "hook_scale" not in name and "hook_normalized" not in name

    for look in (lambda tensor, hook: None, lambda tensor, hook: tensor, lambda tensor, hook: tensor.clone()):
        maps = ffb.contribution_maps(model, tokens, fwd_hooks=[(in_first_block, look)])
        for scope in maps.scopes:
            torch.testing.assert_close(maps[scope], plain[scope], rtol=1e-6, atol=1e-7)
            assert not maps.remainder[scope].any()
