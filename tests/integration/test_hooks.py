"""Capture among other hooks: nothing is disturbed, nothing is left, edits are part of the run or become the remainder."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tests.tolerances import BATCH_FLOAT64, GRADIENT, REBUILT

Models = Callable[..., Any]
Callbacks = Callable[[Any], dict[str, int]]
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


# --- nothing disturbed, nothing left ----------------------------------------------------------------------------


def test_capture_does_not_change_the_run(ffb: ModuleType, model_of: Models, family: str, callbacks: Callbacks) -> None:
    """The logits are the same bits with and without, and afterwards the model carries what it carried before."""
    model, tokens = model_of(family), tiny.tokens(family, N)[None]
    before, logits = callbacks(model), model(tokens)
    with ffb.capture(model) as records:
        captured = model(tokens)
        assert len(records) == model.cfg.n_layers
    torch.testing.assert_close(captured, logits, rtol=0, atol=0)
    assert callbacks(model) == before


def test_records_hold_what_a_cache_holds(ffb: ModuleType, model_of: Models, family: str) -> None:
    """Every captured tensor is the run's, as `run_with_cache` shows it; negative layers count from the end."""
    model, tokens = model_of(family), tiny.tokens(family, N)[None]
    _, cache = model.run_with_cache(tokens)
    with ffb.capture(model, layers=-1) as records:
        model(tokens)
    (layer,) = records
    record = records[layer]
    assert layer == model.cfg.n_layers - 1
    for site, name in {"resid_pre": "hook_resid_pre", "pattern": "attn.hook_pattern", "value": "attn.hook_v"}.items():
        torch.testing.assert_close(getattr(record, site), cache[f"blocks.{layer}.{name}"], rtol=0, atol=0)
    pre = cache[f"blocks.{layer}.mlp.hook_pre"]
    torch.testing.assert_close(record.pre, pre.reshape(record.pre.shape), rtol=0, atol=0)


@pytest.mark.parametrize("way", ["run_with_hooks", "run_with_cache", "hooks", "add_hook"])
def test_capture_works_inside_every_way_to_hook(ffb: ModuleType, model: Any, tokens: Tensor, way: str) -> None:
    """Whatever else hooks the run, records are those of the plain run and the other hooks see theirs."""
    seen: list[Tensor] = []
    hooks = [("blocks.1.mlp.hook_post", lambda tensor, hook: seen.append(tensor.clone()))]
    with ffb.capture(model) as plain:
        model(tokens)
    with ffb.capture(model) as records:
        if way == "run_with_hooks":
            model.run_with_hooks(tokens, fwd_hooks=hooks)
        elif way == "run_with_cache":
            seen.append(model.run_with_cache(tokens)[1]["blocks.1.mlp.hook_post"])
        elif way == "hooks":
            with model.hooks(fwd_hooks=hooks):
                model(tokens)
        else:
            model.add_hook(*hooks[0])
            model(tokens)
            model.reset_hooks()
    same_records(records, plain)
    torch.testing.assert_close(seen[0].reshape(1, N, -1), plain[1].post, rtol=0, atol=0)


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_is_read_is_what_the_model_received(ffb: ModuleType, model: Any, tokens: Tensor, when: str) -> None:
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


def test_the_users_hooks_stay(ffb: ModuleType, model: Any, tokens: Tensor, callbacks: Callbacks) -> None:
    """Hooks added before, and inside without a context, outlive capture and every call."""
    calls: list[str] = []
    model.add_hook("blocks.0.hook_resid_pre", lambda tensor, hook: calls.append("before"))
    carried = callbacks(model)
    with ffb.capture(model):
        model.add_hook("blocks.1.hook_resid_pre", lambda tensor, hook: calls.append("inside"))
    ffb.contribution_maps(model, tokens)
    ffb.contribution_maps(model, tokens, fwd_hooks=[("blocks.0.hook_resid_post", lambda tensor, hook: None)])
    ffb.decompose(model, tokens, layer=0)
    assert set(callbacks(model)) > set(carried)
    calls.clear()
    model(tokens)
    assert calls == ["before", "inside"]


def _fail(*_: Any, **__: Any) -> None:
    raise StopError


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("place", ["hook_resid_pre", "attn.hook_pattern", "mlp.hook_pre", "hook_resid_post"])
def test_nothing_is_left_after_a_users_hook_raised(
    ffb: ModuleType, model: Any, tokens: Tensor, callbacks: Callbacks, place: str, times: int
) -> None:
    """Once or several times in one capture; the next run is captured whole."""
    before = callbacks(model)
    with ffb.capture(model) as records:
        for _ in range(times):
            with pytest.raises(StopError):
                model.run_with_hooks(tokens, fwd_hooks=[(f"blocks.1.{place}", _fail)])
        model(tokens)
        assert len(records) == model.cfg.n_layers
    assert callbacks(model) == before
    with pytest.raises(StopError), ffb.capture(model):
        model.run_with_hooks(tokens, fwd_hooks=[(f"blocks.1.{place}", _fail)])
    assert callbacks(model) == before


def test_nothing_is_left_after_the_model_raised(
    ffb: ModuleType, model: Any, tokens: Tensor, callbacks: Callbacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error in the middle of a block, from the model itself."""
    before = callbacks(model)
    with monkeypatch.context() as patch:
        patch.setattr(type(model.blocks[1].mlp), "forward", _fail)
        with pytest.raises(StopError), ffb.capture(model):
            model(tokens)
        with pytest.raises(StopError):
            ffb.contribution_maps(model, tokens)
    assert callbacks(model) == before
    ffb.contribution_maps(model, tokens)


def test_nothing_is_left_after_a_refusal(ffb: ModuleType, model: Any, tokens: Tensor, callbacks: Callbacks) -> None:
    """A certificate that is not given ends the run in the middle of the forward pass."""
    before = callbacks(model)
    with pytest.raises(ffb.FFBlockError):
        ffb.contribution_maps(model, tokens, rtol=1e-30)
    with pytest.raises(ffb.FFBlockError), ffb.capture(model, layers=[7]):
        pass
    assert callbacks(model) == before


def test_two_captures_at_once(ffb: ModuleType, model: Any, tokens: Tensor, callbacks: Callbacks) -> None:
    """Nested captures read the same run, and may end in any order."""
    before = callbacks(model)
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
    assert callbacks(model) == before


def test_maps_inside_a_capture(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """A whole `contribution_maps` may run inside a capture, whose records are then of that run."""
    with ffb.capture(model) as records:
        inside = ffb.contribution_maps(model, tokens[0])
    outside = ffb.contribution_maps(model, tokens[0])
    torch.testing.assert_close(inside["AtbLnFf"], outside["AtbLnFf"], rtol=0, atol=0)
    assert len(records) == model.cfg.n_layers


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_run_that_nobody_else_hears_ends_with_the_last_layer_asked_for(
    ffb: ModuleType, model_of: Models, family: str, callbacks: Callbacks
) -> None:
    """Nothing later is computed; where a user's hook, another capture or TransformerLens's own hooks wait, all is."""
    model, tokens = model_of(family, torch.float32), tiny.tokens(family, N)
    logits = model(tokens[None])
    before = callbacks(model)
    last_block = model.blocks[model.cfg.n_layers - 1]
    runs: list[int] = []
    handle = last_block.register_forward_hook(lambda *_: runs.append(1))
    try:
        alone = ffb.contribution_maps(model, tokens, layers=0)
        assert not runs
        assert callbacks(model) == before
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


def test_records_are_of_the_last_run(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """A second run in one capture replaces every record of the first."""
    other = tiny.tokens("gpt2", 3, seed=9)[None]
    with ffb.capture(model) as records:
        model(tokens)
        model(other)
    with ffb.capture(model) as alone:
        model(other)
    same_records(records, alone)


def test_a_run_that_stops_early_leaves_no_stale_record(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """Layers that the last run did not reach have no record, rather than one of an earlier run."""
    other = tiny.tokens("gpt2", 3, seed=9)[None]
    with ffb.capture(model) as records:
        model(tokens)
        model(other, stop_at_layer=1)
    lengths = {records[layer].resid_pre.shape[1] for layer in records}
    assert lengths <= {3}
    with pytest.raises(RuntimeError, match="layer 2"):
        records[2]


def test_stop_at_layer_is_explained(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """A layer that was not finished names what did not arrive, one that was not reached says so."""
    with ffb.capture(model) as records:
        model(tokens, stop_at_layer=2)
    assert list(records) == [0]
    with pytest.raises(RuntimeError, match=r"layer 1: whole.AtbLnFfResLn did not arrive.*stop_at_layer"):
        records[1]
    with pytest.raises(RuntimeError, match="layer 2: "):
        records[2]
    with pytest.raises(KeyError, match="layer 9 was not captured; captured are 0, 1, 2"):
        records[9]


def test_capture_keeps_the_graph(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
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


def test_capture_without_gradients_makes_no_graph(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """Records of a run under no_grad hold plain tensors."""
    with torch.no_grad(), ffb.capture(model, layers=1) as records:
        model(tokens)
    assert not records[1].pre.requires_grad
    assert not records[1].block.feed_forward.w_in.requires_grad


def test_capture_of_some_queries(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """`queries=` keeps these rows of everything that has rows."""
    with ffb.capture(model) as full:
        model(tokens)
    with ffb.capture(model, queries=torch.tensor([[1, 3]])) as some:
        model(tokens)
    for layer in full:
        torch.testing.assert_close(some[layer].pre, full[layer].pre[:, [1, 3]], rtol=0, atol=0)
        torch.testing.assert_close(some[layer].pattern, full[layer].pattern[:, :, [1, 3]], rtol=0, atol=0)
        torch.testing.assert_close(some[layer].resid_pre, full[layer].resid_pre, rtol=0, atol=0)


def test_on_record_receives_each_layer_once(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """In the order of the run, and nothing is kept besides."""
    received: list[int] = []
    with ffb.capture(model, on_record=lambda record: received.append(record.layer)) as records:
        model(tokens)
    assert received == [0, 1, 2]
    assert len(records) == 0


# --- edits ------------------------------------------------------------------------------------------------------

Edit = Callable[[Tensor], Tensor]


def _hook(edit: Edit, *, in_place: bool) -> Callable[..., Tensor | None]:
    def returned(tensor: Tensor, hook: Any) -> Tensor:
        return edit(tensor)

    def written(tensor: Tensor, hook: Any) -> None:
        tensor.copy_(edit(tensor.clone()))

    return written if in_place else returned


def _double(tensor: Tensor) -> Tensor:
    return 2 * tensor


def _shift(tensor: Tensor) -> Tensor:
    """An edit that no norm undoes."""
    return tensor + 0.5 * tensor.roll(1, -1)


def _rows(tensor: Tensor) -> Tensor:
    """An edit at position 2 only."""
    edited = tensor.clone()
    edited.reshape(N, -1)[2] += 1.0
    return edited


INSIDE = {
    "attn output": {"pre_ln": "hook_attn_out", "post_ln": "attn.o.hook_out"},
    "mlp pre": "mlp.hook_pre",
    "mlp post": "mlp.hook_post",
    "mlp out": "hook_mlp_out",
    "second norm": "ln2.hook_out",
    "resid_mid": {"pre_ln": "hook_resid_mid", "post_ln": "ln1.hook_in"},
    "resid_post": "hook_resid_post",
}
UPSTREAM = {"resid_pre": "hook_resid_pre", "value": "attn.hook_v"}


def _place(table: dict[str, Any], key: str, family: str) -> str:
    name = table[key]
    return name if isinstance(name, str) else name["post_ln" if family == "bert" else "pre_ln"]


@pytest.mark.parametrize("in_place", [False, True], ids=["returned", "in place"])
@pytest.mark.parametrize("place", UPSTREAM)
def test_an_edit_upstream_is_part_of_the_run(
    ffb: ModuleType, model_of: Models, family: str, place: str, in_place: bool
) -> None:
    """What the block reads was changed: the map is of the changed run, complete, without remainder."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, N)
    hooks = [(f"blocks.1.{_place(UPSTREAM, place, family)}", _hook(_shift, in_place=in_place))]
    maps = ffb.contribution_maps(model, tokens, fwd_hooks=hooks)
    plain = ffb.contribution_maps(model, tokens)
    for scope in maps.scopes:
        assert (maps.remainder[scope, 1] == 0).all()
        assert not torch.allclose(maps[scope, 1], plain[scope, 1], rtol=1e-3)
    assert maps.worst_completeness()[0] < 1e-5


@pytest.mark.parametrize(
    ("edit", "in_place"), [(_double, False), (_rows, True)], ids=["doubled, returned", "one position, in place"]
)
@pytest.mark.parametrize("place", INSIDE)
def test_an_edit_inside_becomes_the_remainder(
    ffb: ModuleType, model_of: Models, family: str, place: str, edit: Edit, in_place: bool
) -> None:
    """Parts + bias + remainder is the model's own tensor at every scope, and `maps.remainder` its norm."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, N)
    hooks = [(f"blocks.0.{_place(INSIDE, place, family)}", _hook(edit, in_place=in_place))]
    found = ffb.decompose(model, tokens, layer=0, fwd_hooks=hooks)
    maps = ffb.contribution_maps(model, tokens, fwd_hooks=hooks)
    sizes = []
    for scope in found.scopes:
        total = found.parts(scope).sum(1) + found.bias(scope) + found.remainder(scope)
        torch.testing.assert_close(total, found.whole(scope), rtol=1e-6, atol=1e-6)
        sizes.append(found.remainder(scope).norm(dim=-1))
        torch.testing.assert_close(maps.remainder[scope, 0], sizes[-1], **BATCH_FLOAT64)
        torch.testing.assert_close(maps[scope, 0], found.parts(scope).norm(dim=-1), **BATCH_FLOAT64)
    affected = torch.stack(sizes).amax(0) > 1e-3
    assert affected[2]
    assert affected.all() == (edit is _double)
    if edit is _rows:
        assert affected.sum() == 1


@pytest.mark.parametrize("in_place", [False, True], ids=["returned", "in place"])
def test_an_edited_attention_output_remains_itself(
    ffb: ModuleType, model_of: Models, family: str, in_place: bool
) -> None:
    """What was added to the attention output is the remainder there, exactly, and the parts are the unedited ones."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, N)
    added = torch.randn(N, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    hook = _hook(lambda tensor: tensor + added.reshape(tensor.shape), in_place=in_place)
    hooks = [(f"blocks.0.{_place(INSIDE, 'attn output', family)}", hook)]
    edited = ffb.decompose(model, tokens, layer=0, fwd_hooks=hooks)
    plain = ffb.decompose(model, tokens, layer=0)
    second = edited.scopes[1]
    for scope in ("Attn", second):
        torch.testing.assert_close(edited.remainder(scope), added, **REBUILT)
        torch.testing.assert_close(edited.parts(scope), plain.parts(scope), **REBUILT)
        torch.testing.assert_close(edited.bias(scope), plain.bias(scope), **REBUILT)
    assert edited.remainder(edited.scopes[-1]).norm() > 0.1


def test_an_edit_at_the_next_layers_input_shows_in_the_norm_after_this_one(
    ffb: ModuleType, model_of: Models, family: str
) -> None:
    """The next layer's first norm reads the edited stream: a remainder there, none before, in place too."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, N)
    for in_place in (False, True):
        hooks = [("blocks.1.hook_resid_pre", _hook(_shift, in_place=in_place))]
        found = ffb.decompose(model, tokens, layer=0, fwd_hooks=hooks)
        plain = ffb.decompose(model, tokens, layer=0)
        *before, last = found.scopes
        for scope in before:
            torch.testing.assert_close(found.whole(scope), plain.whole(scope), rtol=0, atol=0)
            assert (found.remainder(scope) == 0).all()
        assert (found.remainder(last).norm(dim=-1) > 0.1).all() == (family != "bert")
        total = found.parts(last).sum(1) + found.bias(last) + found.remainder(last)
        torch.testing.assert_close(total, found.whole(last), **REBUILT)


def test_layers_after_an_edit_are_complete_without_remainder(ffb: ModuleType, model_of: Models, family: str) -> None:
    """The edit is inside layer 0; what layer 1 makes of its changed input is layer 1's own."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, N)
    hooks = [("blocks.0.mlp.hook_post", _hook(_double, in_place=False))]
    maps = ffb.contribution_maps(model, tokens, fwd_hooks=hooks)
    assert (maps.remainder[maps.scopes[3], 0] > 0.1).all()
    assert all((maps.remainder[scope, 1] == 0).all() for scope in maps.scopes)


def _in_first_block(name: str) -> bool:
    # A norm whose scale is returned, changed or not, is computed by TransformerLens in another way.
    return "blocks.0" in name and "hook_scale" not in name and "hook_normalized" not in name


@pytest.mark.filterwarnings("ignore:hooks.*gated-off")
def test_hooks_that_only_look_leave_no_trace(ffb: ModuleType, model_of: Models, family: str) -> None:
    """A hook that returns nothing, or the tensor unchanged, changes no number and makes no remainder."""
    model, tokens = model_of(family), tiny.tokens(family, N)
    plain = ffb.contribution_maps(model, tokens)
    for look in (lambda tensor, hook: None, lambda tensor, hook: tensor, lambda tensor, hook: tensor.clone()):
        maps = ffb.contribution_maps(model, tokens, fwd_hooks=[(_in_first_block, look)])
        for scope in maps.scopes:
            torch.testing.assert_close(maps[scope], plain[scope], rtol=1e-6, atol=1e-7)
            assert (maps.remainder[scope] == 0).all()


@pytest.mark.filterwarnings("ignore:A hook on .*hook_pattern returned a modified tensor")
def test_an_edited_pattern_is_the_pattern_of_the_map_or_no_map_is_made(
    ffb: ModuleType, model_of: Models, family: str
) -> None:
    """Where the model uses the edited pattern it is part of the run; where it ignores it, the map must not show it."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, N)

    def to_self(pattern: Tensor, hook: Any) -> Tensor:
        return torch.eye(N, dtype=pattern.dtype).expand_as(pattern)

    plain = model(tokens[None])
    changed = model.run_with_hooks(tokens[None], fwd_hooks=[("blocks.0.attn.hook_pattern", to_self)])
    used = not torch.allclose(plain, changed)
    try:
        maps = ffb.contribution_maps(model, tokens, layers=0, fwd_hooks=[("blocks.0.attn.hook_pattern", to_self)])
    except ffb.FFBlockError:
        assert not used
        return
    shows_edit = bool((maps["Attn", 0].triu(1) + maps["Attn", 0].tril(-1) == 0).all())
    assert shows_edit == used


def test_an_unknown_hook_name_is_refused(ffb: ModuleType, model_of: Models) -> None:
    """A name that no HookPoint has would never fire."""
    hooks = [("blocks.0.hook_nothing", lambda tensor, hook: None)]
    with pytest.raises(ValueError, match=r"fwd_hooks: .* has no HookPoint blocks\.0\.hook_nothing"):
        ffb.contribution_maps(model_of("gpt2"), tiny.tokens("gpt2", N), fwd_hooks=hooks)
