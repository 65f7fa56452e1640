"""Among users' hooks: an edit is part of the run and has a share of its own; nothing is left behind."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tl_ffblock as ffb
from tests import tiny
from tests.attribution.conftest import DIFFERENCE, direction, double
from tests.cases import Case, callbacks_of, model_of
from tests.tolerances import BATCH_FLOAT64, CONSERVED_FLOAT64
from tl_ffblock.bridge.gradient_cache import GradientCache
from tl_ffblock.errors import CompletenessError, InputError, UnsupportedModelError

N = 6
TOKENS = tiny.tokens("gpt2", N)
EXACT = CONSERVED_FLOAT64["every other"]
RULES = ("path", "patching", "gradient")
CALLS: dict[str, Callable[..., Any]] = {
    "attribute": lambda model, **options: ffb.attribute(model, TOKENS, DIFFERENCE, **options),
    "attribute_continuation": lambda model, **options: ffb.attribute_continuation(model, TOKENS, [7, 8], **options),
    "attribution_patching": lambda model, **options: ffb.attribution_patching(
        model, TOKENS, TOKENS.flip(0), DIFFERENCE, **options
    ),
}
"""Whatever runs a model with local rules."""
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


class StopError(Exception):
    """What a user's hook raises."""


@pytest.fixture
def model() -> Any:
    """A float64 GPT-2 of this test's own."""
    return tiny.bridge("gpt2", dtype=torch.float64)


def attributed(model: Any = None, **options: Any) -> Any:
    """The difference's shares, by the shared model unless there is one of the test's own."""
    return ffb.attribute(model or double("gpt2"), TOKENS, options.pop("target", DIFFERENCE), **options)


def scale_half(tensor: Tensor, hook: Any) -> Tensor:
    """A linear edit, which brings nothing of its own."""
    return tensor * 0.5


def drop_all(tensor: Tensor, hook: Any) -> Tensor:
    """Ablation by zero."""
    return tensor * 0.0


def drop_a_head(tensor: Tensor, hook: Any) -> Tensor:
    """Zero-ablation of head 1."""
    return tensor * torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=tensor.dtype)[:, None]


def add_one(tensor: Tensor, hook: Any) -> Tensor:
    """A constant edit."""
    return tensor + 1.0


def drop_in_place(tensor: Tensor, hook: Any) -> None:
    """An edit of the tensor itself."""
    tensor[..., 0] = 0.25


EDITS = [
    ("hook_embed", add_one),
    ("blocks.1.hook_resid_pre", add_one),
    ("blocks.1.attn.hook_v", scale_half),
    ("blocks.1.attn.hook_z", add_one),
    ("blocks.1.attn.hook_z", drop_in_place),
    ("blocks.1.attn.hook_pattern", scale_half),
    ("blocks.1.attn.hook_q", add_one),
    ("blocks.1.ln1.hook_in", add_one),
    ("blocks.1.ln2.hook_out", scale_half),
    ("blocks.1.mlp.hook_pre", add_one),
    ("blocks.1.mlp.hook_post", scale_half),
    ("blocks.1.hook_mlp_out", add_one),
    ("blocks.1.hook_resid_post", drop_in_place),
    ("hook_unembed", lambda tensor, hook: tensor + torch.linspace(-1, 2, tensor.shape[-1], dtype=tensor.dtype)),
]


@pytest.mark.parametrize(("name", "edit"), EDITS)
def test_edits_are_part_of_the_run(model: Any, name: str, edit: Callable[..., Any]) -> None:
    """The target is the edited run's; its shares sum up, what the edit brought among them, given or added before."""
    expected = float(DIFFERENCE(model.run_with_hooks(TOKENS[None], fwd_hooks=[(name, edit)])).detach())
    given = attributed(fwd_hooks=[(name, edit)])
    assert given.value == pytest.approx(expected, rel=1e-12)
    assert float(given.certificate.layer_inputs.max()) < EXACT
    assert abs(given.total() - expected) < 1e-9
    assert set(given.edits) <= {name} and (bool(given.edits) or edit is scale_half or "hook_q" in name)
    model.add_hook(name, edit)
    added = attributed(model)
    torch.testing.assert_close(added.tokens, given.tokens, **BATCH_FLOAT64)
    assert added.edits == pytest.approx(given.edits)


def test_a_constant_brings_what_it_writes() -> None:
    """A vector added behind the last layer has its own product with the direction as share, the tokens what they had."""
    target = direction(-1)
    plain = attributed(target=target)
    steered = attributed(target=target, fwd_hooks=[("blocks.2.hook_resid_post", add_one)])
    (share,) = steered.edits.values()
    assert share == pytest.approx(float(target.vector.sum()))
    torch.testing.assert_close(steered.tokens, plain.tokens, **BATCH_FLOAT64)
    assert steered.value == pytest.approx(plain.value + share)


@pytest.mark.parametrize("edit", [scale_half, drop_a_head, add_one, drop_in_place])
def test_edges_of_an_edited_layer_are_what_goes_into_the_edit(edit: Callable[..., Any]) -> None:
    """Over keys they sum to the head's share but for what the edit brings; those of a head taken out are zero."""
    result = attributed(fwd_hooks=[("blocks.1.attn.hook_z", edit)], of=("edges", "heads"))
    torch.testing.assert_close(result.edges[[0, 2]].sum(-1), result.heads[[0, 2]], **BATCH_FLOAT64)
    brought = (result.heads[1] - result.edges[1].sum(-1)).sum()
    assert float(brought) == pytest.approx(sum(result.edits.values()), abs=1e-9)
    if edit in (scale_half, drop_a_head):
        torch.testing.assert_close(result.edges[1].sum(-1), result.heads[1], **BATCH_FLOAT64)
    assert bool(result.edges[1, 1].any()) == (edit is not drop_a_head)


@pytest.mark.parametrize(("layer", "point", "into"), [(0, "pre", 0), (1, "pre", 1), (1, "post", 2), (2, "post", 3)])
def test_a_graph_books_steering_where_it_enters(layer: int, point: str, into: int) -> None:
    """What a hook adds to the residual stream is the own share of the stream there, beside biases."""
    result = attributed(fwd_hooks=[(f"blocks.{layer}.hook_resid_{point}", add_one)], of="graph")
    graph = result.graph(1.0)
    streams = [number for number, node in enumerate(graph.nodes) if (node.kind, node.layer) == ("resid", into)]
    (share,) = result.edits.values()
    assert float(graph.intercepts[streams, 0].sum()) == pytest.approx(share)


@pytest.mark.parametrize(
    ("place", "edit"),
    [
        ("attn.hook_z", add_one),
        ("attn.hook_z", drop_in_place),
        ("mlp.hook_pre", add_one),
        ("hook_attn_out", drop_in_place),
    ],
)
def test_a_graph_of_an_edit_inside_a_layer_is_refused(place: str, edit: Callable[..., Any]) -> None:
    """With the layer and the HookPoint; an ablation adds nothing, and is drawn."""
    with pytest.raises(CompletenessError, match=r"graph, layer 1.* Your hooks edit blocks\.1\."):
        attributed(fwd_hooks=[(f"blocks.1.{place}", edit)], of="graph").graph()
    assert attributed(fwd_hooks=[(f"blocks.1.{place}", drop_all)], of="graph").graph().kept >= 0.9 - 1e-9


def test_watching_hooks_change_nothing() -> None:
    """Hooks that only read, and a capture, give the same result, and no edit is named."""
    plain, seen = attributed(), []
    watched = attributed(fwd_hooks=[("blocks.0.hook_resid_pre", lambda tensor, hook: seen.append(tensor))])
    assert seen and watched.edits == {}
    torch.testing.assert_close(watched.tokens, plain.tokens, rtol=0, atol=0)
    with ffb.capture(double("gpt2")) as records:
        captured = attributed()
    assert len(records) == captured.n_layers
    torch.testing.assert_close(captured.edges, plain.edges, **BATCH_FLOAT64)


@pytest.mark.parametrize("family", ["gpt2", "falcon", "llama", "gpt_oss", "bert"])
def test_no_graph_is_left(family: str) -> None:
    """TransformerLens keeps tensors of a run in its attention: after our runs with derivatives the model can be copied."""
    model, tokens = Case(family).fresh(), tiny.tokens(family, N)
    calls: list[Callable[[], Any]] = [
        lambda: ffb.attribution_patching(model, tokens, tokens.flip(0), DIFFERENCE),
        lambda: ffb.attribute(model, tokens, DIFFERENCE, rules="gradient", checkpoint=True),
        lambda: ffb.heads.attention_gradients(model, tokens, DIFFERENCE),
    ]
    for call in calls:
        call()
        values = [value for block in model.blocks for value in vars(block.attn).values() if isinstance(value, Tensor)]
        assert all(value.grad_fn is None for value in values)
        copy.deepcopy(model)


def state_of(model: nn.Module) -> tuple[Any, ...]:
    """Callbacks of HookPoints and modules, and what requires or has a gradient."""
    modules = {name: len(m._forward_hooks) + len(m._forward_pre_hooks) for name, m in model.named_modules()}
    return callbacks_of(model), modules, [(p.requires_grad, p.grad is None) for p in model.parameters()]


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_nothing_is_left(family: str, rules: str) -> None:
    """No callback, no gradient, and parameters require gradients as they did."""
    model, tokens = model_of(family), tiny.tokens(family, N)
    model(tokens[None])  # TransformerLens adds callbacks of its own in a first run
    before = state_of(model)
    ffb.attribute(model, tokens, DIFFERENCE, rules=rules)
    assert state_of(model) == before


def _fail(*_: Any, **__: Any) -> None:
    raise StopError


def test_nothing_is_left_after_errors(model: Any) -> None:
    """A user's hook and a target that raise leave the model as it was, and the next call works."""
    before = callbacks_of(model)
    for options in ({"fwd_hooks": [("blocks.1.attn.hook_z", _fail)]}, {"target": _fail}):
        with pytest.raises(StopError):
            attributed(model, **options)
        assert callbacks_of(model) == before
    assert attributed(model).certificate.logits == 0


@every_call
def test_every_call_holds_the_local_forms(model: Any, call: Callable[..., Any]) -> None:
    """Each of the three refuses forms that miss the model's own tensors, whatever its rules sum up to; nothing is left."""
    call(model, rules="patching")
    before = callbacks_of(model)
    with pytest.raises(CompletenessError, match="linearised output of .* differs"):
        call(model, rules="patching", rtol=1e-30)
    assert callbacks_of(model) == before


@pytest.mark.parametrize("option", ["use_split_qkv_input", "use_attn_in"])
@every_call
def test_inputs_of_single_heads_are_refused(model: Any, call: Callable[..., Any], option: str) -> None:
    """By the option's name, with every rule; switched off again the model has its shares."""
    switch = getattr(model, f"set_{option}")
    switch(True)
    for rules in RULES:
        with pytest.raises(UnsupportedModelError, match=rf"has {option} on.*set_{option}\(False\)"):
            call(model, rules=rules)
    switch(False)
    call(model)


@pytest.mark.parametrize("rules", RULES)
def test_a_backward_hook_is_refused(model: Any, rules: str) -> None:
    """It would change derivatives in silence; without it everything is as before."""
    model.add_hook("blocks.1.hook_resid_pre", lambda gradient, hook: (2 * gradient,), dir="bwd")
    for call in ("attribute", "attribution_patching"):
        with pytest.raises(InputError, match=r"a backward hook is on blocks\.1"):
            CALLS[call](model, rules=rules)
    model.reset_hooks()
    torch.testing.assert_close(attributed(model, rules=rules).tokens, attributed(rules=rules).tokens, rtol=0, atol=0)


@pytest.mark.parametrize("frozen", [True, False])
def test_modes_without_derivatives(model: Any, frozen: bool) -> None:
    """Under no_grad and inference_mode, with parameters that require gradients or none, and with tokens made there."""
    expected = attributed().tokens
    model.requires_grad_(not frozen)
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            result = ffb.attribute(model, TOKENS.clone(), DIFFERENCE)
            measured = ffb.faithfulness(model, TOKENS.clone(), DIFFERENCE, result)
        torch.testing.assert_close(result.tokens, expected, rtol=0, atol=0)
        assert measured.methods[0] == "path"


def test_modes_that_change_derivatives_are_refused(model: Any) -> None:
    """A model made in inference mode, and autocast."""
    with torch.inference_mode():
        made = tiny.bridge("gpt2")
    with pytest.raises(InputError, match=r"was created in torch\.inference_mode"):
        attributed(made)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(InputError, match="autocast is on"):
        attributed(model)


@pytest.mark.parametrize("visit", [0, 1])
@pytest.mark.parametrize("factor", [1.01, float("nan")])
def test_a_norm_that_runs_twice_is_held_each_time(monkeypatch: pytest.MonkeyPatch, visit: int, factor: float) -> None:
    """NanoChat's final norm is that of its embeddings too: a form that misses one of the two is refused, NaN above all."""
    shipped, visits = GradientCache.compare, []

    def off(cache: GradientCache, site: str, y: Tensor, form: Tensor) -> None:
        visits.append(site)
        wrong = site == "ln_final" and visits.count(site) == visit + 1
        shipped(cache, site, y, factor * form if wrong else form)

    model, tokens = model_of("nanochat"), tiny.tokens("nanochat", N)
    ffb.attribute(model, tokens, DIFFERENCE)
    monkeypatch.setattr(GradientCache, "compare", off)
    with pytest.raises(CompletenessError, match=r"output of ln_final differs"):
        ffb.attribute(model, tokens, DIFFERENCE)
    assert visits.count("ln_final") == 2
