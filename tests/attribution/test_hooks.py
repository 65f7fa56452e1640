"""Among users' hooks: an edit is part of the run and has a share of its own; nothing is left behind."""

import copy
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests import tiny
from tests.tolerances import BATCH_FLOAT64, CONSERVED_FLOAT64

Models = Callable[..., Any]
N = 6
EXACT = CONSERVED_FLOAT64["every other"]


class StopError(Exception):
    """What a user's hook raises."""


@pytest.fixture
def model() -> Any:
    """A float64 GPT-2 of this test's own."""
    return tiny.bridge("gpt2", dtype=torch.float64)


@pytest.fixture
def tokens() -> Tensor:
    """Token ids [pos]."""
    return tiny.tokens("gpt2", N)


def scale_half(tensor: Tensor, hook: Any) -> Tensor:
    """A linear edit, which brings nothing of its own."""
    return tensor * 0.5


def drop_all(tensor: Tensor, hook: Any) -> Tensor:
    """Ablation by zero."""
    return tensor * 0.0


def add_one(tensor: Tensor, hook: Any) -> Tensor:
    """A constant edit."""
    return tensor + 1.0


def drop_in_place(tensor: Tensor, hook: Any) -> None:
    """An edit of the tensor itself."""
    tensor[..., 0] = 0.25


EDITS = [
    ("hook_resid_pre", add_one),
    ("attn.hook_v", scale_half),
    ("attn.hook_z", add_one),
    ("attn.hook_z", drop_in_place),
    ("attn.hook_pattern", scale_half),
    ("attn.hook_q", add_one),
    ("ln1.hook_in", add_one),
    ("ln2.hook_out", scale_half),
    ("mlp.hook_pre", add_one),
    ("mlp.hook_post", scale_half),
    ("hook_mlp_out", add_one),
    ("hook_resid_post", drop_in_place),
]


@pytest.mark.parametrize(("place", "edit"), EDITS)
def test_edits_are_part_of_the_run(
    ffb: ModuleType, model: Any, tokens: Tensor, difference: Any, place: str, edit: Callable[..., Any]
) -> None:
    """The target is the edited run's; its shares sum up, what the edit brought among them, given or added before."""
    hooks = [(f"blocks.1.{place}", edit)]
    expected = float(difference(model.run_with_hooks(tokens[None], fwd_hooks=hooks)).detach())
    given = ffb.attribute(model, tokens, difference, fwd_hooks=hooks)
    assert given.value == pytest.approx(expected, rel=1e-12)
    assert float(given.certificate.layer_inputs.max()) < EXACT
    assert abs(given.total() - expected) < 1e-9
    model.add_hook(*hooks[0])
    added = ffb.attribute(model, tokens, difference)
    torch.testing.assert_close(added.tokens, given.tokens, **BATCH_FLOAT64)
    assert added.edits == pytest.approx(given.edits)


def test_a_constant_brings_what_it_writes(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """A vector added behind the last layer has its own product with the direction as share, the tokens what they had."""
    vector = torch.randn(32, dtype=torch.float64)
    plain = ffb.attribute(model, tokens, ffb.direction(vector, layer=-1))
    hooks = [("blocks.2.hook_resid_post", add_one)]
    steered = ffb.attribute(model, tokens, ffb.direction(vector, layer=-1), fwd_hooks=hooks)
    (share,) = steered.edits.values()
    assert share == pytest.approx(float(vector.sum()))
    torch.testing.assert_close(steered.tokens, plain.tokens, **BATCH_FLOAT64)
    assert steered.value == pytest.approx(plain.value + share)


@pytest.mark.parametrize("name", ["hook_embed", "blocks.1.attn.hook_z", "blocks.1.hook_resid_pre", "hook_unembed"])
def test_an_edit_has_its_usual_name_and_its_share(
    ffb: ModuleType, model: Any, tokens: Tensor, difference: Any, name: str
) -> None:
    """Whichever of a HookPoint's names it was given by; what it adds to the logits is shared as anything before them."""

    def add(tensor: Tensor, hook: Any) -> Tensor:
        return tensor + torch.linspace(-1, 2, tensor.shape[-1], dtype=tensor.dtype)

    result = ffb.attribute(model, tokens, difference, fwd_hooks=[(name, add)])
    assert list(result.edits) == [name]
    assert abs(result.total() - result.value) < 1e-9
    assert float(result.certificate.layer_inputs.max()) < EXACT


def drop_a_head(tensor: Tensor, hook: Any) -> Tensor:
    """Zero-ablation of head 1."""
    return tensor * torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=tensor.dtype)[:, None]


@pytest.mark.parametrize("edit", [scale_half, drop_a_head, add_one, drop_in_place])
def test_edges_of_an_edited_layer_are_what_goes_into_the_edit(
    ffb: ModuleType, model: Any, tokens: Tensor, difference: Any, edit: Callable[..., Any]
) -> None:
    """Over keys they sum to the head's share but for what the edit brings; those of a head taken out are zero."""
    hooks = [("blocks.1.attn.hook_z", edit)]
    result = ffb.attribute(model, tokens, difference, fwd_hooks=hooks, of=("edges", "heads"))
    torch.testing.assert_close(result.edges[[0, 2]].sum(-1), result.heads[[0, 2]], **BATCH_FLOAT64)
    brought = (result.heads[1] - result.edges[1].sum(-1)).sum()
    assert float(brought) == pytest.approx(sum(result.edits.values()), abs=1e-9)
    if edit in (scale_half, drop_a_head):
        torch.testing.assert_close(result.edges[1].sum(-1), result.heads[1], **BATCH_FLOAT64)
    assert bool(result.edges[1, 1].any()) == (edit is not drop_a_head)


@pytest.mark.parametrize("place", ["0.hook_resid_pre", "1.hook_resid_pre", "1.hook_resid_post", "2.hook_resid_post"])
def test_a_graph_books_steering_where_it_enters(
    ffb: ModuleType, model: Any, tokens: Tensor, difference: Any, place: str
) -> None:
    """What a hook adds to the residual stream is the own share of the stream there, beside biases."""
    hooks = [(f"blocks.{place}", add_one)]
    result = ffb.attribute(model, tokens, difference, fwd_hooks=hooks, of="graph")
    graph = result.graph(1.0)
    into = {"0.hook_resid_pre": 0, "1.hook_resid_pre": 1, "1.hook_resid_post": 2, "2.hook_resid_post": 3}[place]
    own = sum(
        float(graph.intercepts[number, 0])
        for number, node in enumerate(graph.nodes)
        if (node.kind, node.layer) == ("resid", into)
    )
    (share,) = result.edits.values()
    assert own == pytest.approx(share)


@pytest.mark.parametrize(
    ("place", "edit"),
    [
        ("attn.hook_z", add_one),
        ("attn.hook_z", drop_in_place),
        ("mlp.hook_pre", add_one),
        ("hook_attn_out", drop_in_place),
    ],
)
def test_a_graph_of_an_edit_inside_a_layer_is_refused(
    ffb: ModuleType, model: Any, tokens: Tensor, difference: Any, place: str, edit: Callable[..., Any]
) -> None:
    """With the layer and the HookPoint; an ablation adds nothing, and is drawn."""
    hooks = [(f"blocks.1.{place}", edit)]
    result = ffb.attribute(model, tokens, difference, fwd_hooks=hooks, of="graph")
    with pytest.raises(ffb.errors.CompletenessError, match=r"graph, layer 1.* Your hooks edit blocks\.1\."):
        result.graph()
    ablated = ffb.attribute(model, tokens, difference, fwd_hooks=[(f"blocks.1.{place}", drop_all)], of="graph")
    assert ablated.graph().kept >= 0.9 - 1e-9


def test_watching_hooks_change_nothing(ffb: ModuleType, model: Any, tokens: Tensor, difference: Any) -> None:
    """Hooks that only read, a capture and a cache run give the same result, and no edit is named."""
    plain = ffb.attribute(model, tokens, difference)
    seen: list[Tensor] = []
    hooks = [("blocks.0.hook_resid_pre", lambda tensor, hook: seen.append(tensor))]
    watched = ffb.attribute(model, tokens, difference, fwd_hooks=hooks)
    assert seen
    assert watched.edits == {}
    torch.testing.assert_close(watched.tokens, plain.tokens, rtol=0, atol=0)
    with ffb.capture(model) as records:
        captured = ffb.attribute(model, tokens, difference)
    assert len(records) == model.cfg.n_layers
    torch.testing.assert_close(captured.edges, plain.edges, **BATCH_FLOAT64)


@pytest.mark.parametrize("family", ["gpt2", "falcon", "llama", "gpt_oss", "bert"])
def test_no_graph_is_left(ffb: ModuleType, model_of_any: Models, difference: Any, family: str) -> None:
    """TransformerLens keeps tensors of a run in its attention: after our runs with derivatives the model can be copied."""
    from tl_ffblock import heads

    model, tokens = model_of_any(family), tiny.tokens(family, N)
    calls: list[Callable[[], Any]] = [
        lambda: ffb.attribution_patching(model, tokens, tokens.flip(0), difference),
        lambda: ffb.attribute(model, tokens, difference, rules="gradient", checkpoint=True),
        lambda: heads.attention_gradients(model, tokens, difference),
    ]
    for call in calls:
        call()
        kept = {
            f"{layer}.{name}"
            for layer, block in enumerate(model.blocks)
            for name, value in vars(block.attn).items()
            if isinstance(value, Tensor) and value.grad_fn is not None
        }
        assert not kept
        copy.deepcopy(model)


@pytest.mark.parametrize("rules", ["path", "patching", "gradient"])
@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_nothing_is_left(
    ffb: ModuleType, model_of: Models, difference: Any, callbacks: Callable[[nn.Module], dict[str, int]],
    family: str, rules: str,
) -> None:  # fmt: skip
    """No callback, no gradient, and parameters require gradients as they did."""
    model = model_of(family)
    model(tiny.tokens(family, N)[None])  # TransformerLens adds callbacks of its own in a first run
    before, required = callbacks(model), [p.requires_grad for p in model.parameters()]
    modules = {name: len(m._forward_hooks) + len(m._forward_pre_hooks) for name, m in model.named_modules()}
    ffb.attribute(model, tiny.tokens(family, N), difference, rules=rules)
    assert callbacks(model) == before
    assert {name: len(m._forward_hooks) + len(m._forward_pre_hooks) for name, m in model.named_modules()} == modules
    assert [p.requires_grad for p in model.parameters()] == required
    assert all(p.grad is None for p in model.parameters())


def _fail(*_: Any, **__: Any) -> None:
    raise StopError


def test_nothing_is_left_after_errors(
    ffb: ModuleType, model: Any, tokens: Tensor, difference: Any, callbacks: Callable[[nn.Module], dict[str, int]]
) -> None:
    """A user's hook, a target and a certificate that raise leave the model as it was, and the next call works."""
    before = callbacks(model)
    with pytest.raises(StopError):
        ffb.attribute(model, tokens, difference, fwd_hooks=[("blocks.1.attn.hook_z", _fail)])
    with pytest.raises(StopError):
        ffb.attribute(model, tokens, _fail)
    with pytest.raises(ffb.errors.CompletenessError, match="misses the model's own tensor"):
        ffb.attribute(model, tokens, difference, rtol=1e-30)
    assert callbacks(model) == before
    assert ffb.attribute(model, tokens, difference).certificate.logits == 0


@pytest.mark.parametrize("door", ["attribute", "attribute_continuation", "attribution_patching"])
def test_every_door_holds_the_local_forms(ffb: ModuleType, model: Any, tokens: Tensor, door: str) -> None:
    """Each of the three refuses forms that miss the model's own tensors, whatever its rules sum up to."""
    given = {
        "attribute": (tokens, ffb.logit(7)),
        "attribute_continuation": (tokens, [7, 8]),
        "attribution_patching": (tokens, tokens.flip(0), ffb.logit(7)),
    }[door]
    call = getattr(ffb, door)
    call(model, *given, rules="patching")
    with pytest.raises(ffb.errors.CompletenessError, match="the local linear form of .* misses the model's own tensor"):
        call(model, *given, rules="patching", rtol=1e-30)


@pytest.mark.parametrize("frozen", [True, False])
def test_parameters_that_are_frozen_change_nothing(
    ffb: ModuleType, model: Any, tokens: Tensor, difference: Any, frozen: bool
) -> None:
    """Under no_grad and inference_mode, with parameters that require gradients or none."""
    expected = ffb.attribute(model, tokens, difference)
    model.requires_grad_(not frozen)
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            result = ffb.attribute(model, tokens, difference)
        torch.testing.assert_close(result.tokens, expected.tokens, rtol=0, atol=0)


@pytest.mark.parametrize("rules", ["path", "patching", "gradient"])
def test_a_backward_hook_is_refused(ffb: ModuleType, model: Any, tokens: Tensor, difference: Any, rules: str) -> None:
    """It would change derivatives in silence; without it everything is as before."""
    expected = ffb.attribute(model, tokens, difference, rules=rules)
    model.add_hook("blocks.1.hook_resid_pre", lambda gradient, hook: (2 * gradient,), dir="bwd")
    try:
        with pytest.raises(ffb.errors.InputError, match=r"a backward hook is on blocks\.1"):
            ffb.attribute(model, tokens, difference, rules=rules)
        with pytest.raises(ffb.errors.InputError, match="a backward hook is on"):
            ffb.attribution_patching(model, tokens, tokens, difference, rules=rules)
    finally:
        model.reset_hooks()
    again = ffb.attribute(model, tokens, difference, rules=rules)
    torch.testing.assert_close(again.tokens, expected.tokens, rtol=0, atol=0)


def test_modes_without_derivatives(ffb: ModuleType, model: Any, tokens: Tensor, difference: Any) -> None:
    """Tokens made in inference mode are as good as others; a model made there, and autocast, are refused."""
    expected = ffb.attribute(model, tokens, difference)
    with torch.inference_mode():
        there, made = tokens.clone(), tiny.bridge("gpt2")
        result = ffb.attribute(model, there, difference)
        measured = ffb.faithfulness(model, there, difference, result)
    torch.testing.assert_close(result.tokens, expected.tokens, rtol=0, atol=0)
    assert measured.methods[0] == "path"
    with pytest.raises(ffb.errors.InputError, match=r"was made in torch\.inference_mode"):
        ffb.attribute(made, tokens, difference)
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(ffb.errors.InputError, match="autocast is on"),
    ):
        ffb.attribute(model, tokens, difference)


@pytest.mark.parametrize("option", ["use_split_qkv_input", "use_attn_in"])
@pytest.mark.parametrize("door", ["attribute", "attribute_continuation", "attribution_patching"])
def test_inputs_of_single_heads_are_refused(
    ffb: ModuleType, model: Any, tokens: Tensor, difference: Any, option: str, door: str
) -> None:
    """By the option's name, with every rule; switched off again the model has its shares."""
    given = {
        "attribute": (tokens, difference),
        "attribute_continuation": (tokens, [7, 8]),
        "attribution_patching": (tokens, tokens.flip(0), difference),
    }[door]
    switch = getattr(model, f"set_{option}")
    switch(True)
    for rules in ("path", "patching", "gradient"):
        with pytest.raises(ffb.errors.UnsupportedModelError, match=rf"has {option} on.*set_{option}\(False\)"):
            getattr(ffb, door)(model, *given, rules=rules)
    switch(False)
    getattr(ffb, door)(model, *given)


@pytest.mark.parametrize("visit", [0, 1])
@pytest.mark.parametrize("factor", [1.01, float("nan")])
def test_a_norm_that_runs_twice_is_held_each_time(
    ffb: ModuleType, model_of: Models, difference: Any, monkeypatch: pytest.MonkeyPatch, visit: int, factor: float
) -> None:
    """NanoChat's final norm is that of its embeddings too: a form that misses one of the two is refused, NaN above all."""
    from tl_ffblock.bridge.tape import Tape

    shipped, visits = Tape.compare, []

    def off(tape: Tape, site: str, y: Tensor, form: Tensor) -> None:
        visits.append(site)
        wrong = site == "ln_final" and visits.count(site) == visit + 1
        shipped(tape, site, y, factor * form if wrong else form)

    model, tokens = model_of("nanochat"), tiny.tokens("nanochat", N)
    ffb.attribute(model, tokens, difference)
    monkeypatch.setattr(Tape, "compare", off)
    with pytest.raises(ffb.errors.CompletenessError, match=r"local linear form of ln_final misses"):
        ffb.attribute(model, tokens, difference)
    assert visits.count("ln_final") == 2
