"""Modes of torch and of a model: every public call that runs a model is right in them, or refuses them by name."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune
from torch.utils.checkpoint import checkpoint

import tl_ffblock as ffb
from tests import tiny
from tests.cases import bridge_of, model_of, wrapped
from tests.integration.test_public_laws import ELSEWHERE, RUNS, assert_same, public_functions, takes_a_model
from tests.numbers import numbers
from tests.tolerances import BATCH_FLOAT32
from tl_ffblock.bridge.model import identify
from tl_ffblock.check import check_model
from tl_ffblock.errors import FFBlockError, InputError, ScopeKeyError, UnsupportedModelError

N = 7
X, Y = tiny.tokens("llama", N), tiny.tokens("llama", N, seed=1)
TARGET = ffb.logit(7, minus=9)
FRESH: dict[str, Callable[[Any, Tensor], Any]] = {
    "overview": lambda model, _: ffb.overview(model, X, target=7),
    "memory_estimate": lambda model, _: ffb.memory_estimate(model, n_tokens=8),
}
"""How the functions without a line in `RUNS` are called; `load_model` takes no model."""
RUNNING = sorted(name for name, function in public_functions() if takes_a_model(function) and name != "chat")
"""Every public function that takes a model, by its signature, and runs it: `chat` reads its tokenizer alone."""
every_function = pytest.mark.parametrize("name", RUNNING)


def call_of(name: str) -> tuple[str, Callable[[Any, Tensor], Any]]:
    """A family of a function, and the function of a model and tokens."""
    if name in FRESH:
        return "llama", FRESH[name]
    families = RUNS[name].families
    return "llama" if "llama" in families else families[0], RUNS[name].call


def checkpointing(model: Any) -> Any:
    """The model in training mode with Hugging Face's gradient checkpointing, without dropout."""
    hf = model.original_model
    getattr(hf, "activation_checkpointing_enable", hf.gradient_checkpointing_enable)()
    model.train()
    for module in hf.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


@functools.cache
def checkpointed(family: str) -> Any:
    """Such a model of a family, for calls that refuse it."""
    return checkpointing(tiny.bridge(family))


# Laws of every public function


def test_the_registry_is_complete() -> None:
    """A new public function of a model is in it by its signature, and knows how it is called."""
    assert {"attribute", "overview", "check.check_model"} <= set(RUNNING)
    assert set(RUNNING) <= set(RUNS) | set(FRESH)
    assert set(ELSEWHERE) - set(FRESH) == {"chat", "load_model"}
    assert next(iter(inspect.signature(ffb.Contributions).parameters)) == "model"


@every_function
def test_autocast_is_refused(name: str) -> None:
    """Also by a call that takes no gradients."""
    family, call = call_of(name)
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(InputError, match=r"autocast is on: .* Call outside of torch\.autocast"),
    ):
        call(model_of(family), tiny.tokens(family, N))


@every_function
def test_gradient_checkpointing_in_training_mode_is_refused(name: str) -> None:
    """By the name of the layer, with two remedies."""
    family, call = call_of(name)
    with pytest.raises(
        InputError, match=r"gradient checkpointing \(on .*model\.eval\(\), or .*checkpointing_disable\(\)"
    ):
        call(checkpointed(family), tiny.tokens(family, N))


def test_the_remedies_work() -> None:
    """Autocast that is off, evaluation mode, and layers without checkpoints."""
    model, expected = checkpointing(tiny.bridge("llama")), expected_of("attribute")
    hf = model.original_model
    getattr(hf, "activation_checkpointing_disable", hf.gradient_checkpointing_disable)()
    assert_same(RUNS["attribute"].call(model, X), expected, **BATCH_FLOAT32)
    assert_same(RUNS["attribute"].call(checkpointing(model).eval(), X), expected, **BATCH_FLOAT32)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.autocast("cpu", enabled=False):
        assert_same(RUNS["attribute"].call(model, X), expected, **BATCH_FLOAT32)


@contextlib.contextmanager
def switched(switch: Callable[[Any], Any], value: Any, before: Any) -> Iterator[None]:
    """A setting of torch inside."""
    switch(value)
    try:
        yield
    finally:
        switch(before)


CONTEXTS: dict[str, Callable[[], Any]] = {
    "inference mode": torch.inference_mode,
    "no gradients": torch.no_grad,
    "default dtype bfloat16": lambda: switched(torch.set_default_dtype, torch.bfloat16, torch.float32),
    "deterministic algorithms": lambda: switched(torch.use_deterministic_algorithms, True, False),
}


@functools.cache
def expected_of(name: str) -> Any:
    """What a function gives of a model of its own."""
    family, call = call_of(name)
    return call(tiny.bridge(family), tiny.tokens(family, N))


@pytest.mark.parametrize("name", sorted(set(RUNS) - {"check.check_model"}))
def test_contexts_change_no_number(name: str) -> None:
    """Inference mode and another default dtype, in the first call of a model, which caches facts about it."""
    family, call = call_of(name)
    model, tokens, expected = tiny.bridge(family), tiny.tokens(family, N), expected_of(name)
    with torch.inference_mode(), switched(torch.set_default_dtype, torch.float64, torch.float32):
        assert_same(call(model, tokens), expected, **BATCH_FLOAT32)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", ["attribute", "contribution_maps", "heads.attention_gradients"])
def test_each_context_changes_no_number(name: str, context: str) -> None:
    """Alone, and for a second call of the model outside."""
    family, call = call_of(name)
    model, tokens, expected = tiny.bridge(family), tiny.tokens(family, N), expected_of(name)
    with CONTEXTS[context]():
        assert_same(call(model, tokens), expected, **BATCH_FLOAT32)
    assert_same(call(model, tokens), expected, **BATCH_FLOAT32)


@pytest.mark.parametrize("name", ["attribute", "heads.attention_gradients"])
def test_a_model_of_inference_mode_is_refused_where_it_has_no_derivatives(name: str) -> None:
    with torch.inference_mode():
        model = tiny.bridge("llama")
    with pytest.raises(InputError, match=r"was created in torch\.inference_mode"):
        call_of(name)[1](model, X)


@pytest.mark.parametrize("name", ["attribute", "contribution_maps", "attribution_patching", "flow_graph"])
def test_training_mode_without_dropout_changes_no_number(name: str) -> None:
    """Alone, and with layers of our own checkpoints."""
    model = tiny.bridge("llama").train()
    assert_same(RUNS[name].call(model, X), expected_of(name), **BATCH_FLOAT32)
    if "checkpoint" in inspect.signature(getattr(ffb, name)).parameters:
        assert_same(RUNS[name].call(model, X, checkpoint=True), expected_of(name), **BATCH_FLOAT32)


def test_a_model_identified_before_is_examined_again() -> None:
    """Objects that keep a model refuse modes that came later."""
    model = tiny.bridge("llama")
    runs = ffb.Contributions(model, X)
    with torch.autocast("cpu", dtype=torch.bfloat16), pytest.raises(InputError, match="autocast is on"):
        ffb.contribution_sweep(runs, ffb.logit(7), "AtbLnFf", layers=1, queries=-1)
    checkpointing(model)
    with pytest.raises(InputError, match="gradient checkpointing"):
        ffb.contribution_sweep(runs, ffb.logit(7), "AtbLnFf", layers=1, queries=-1)


def test_a_result_has_its_own_dtype_under_autocast() -> None:
    scores = ffb.attention_scores(tiny.bridge("llama"), X)
    expected = scores.score
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(scores.score, expected)


# Layers that run twice


@pytest.mark.parametrize("ours", [None, True])
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_a_checkpoint_of_the_user_is_refused(reentrant: bool, ours: bool | None) -> None:
    """A part of a layer that runs again without the callbacks, alone and inside our own checkpoints."""
    model = tiny.bridge("llama")
    part = model.blocks[1].mlp.original_component
    part.forward = functools.partial(checkpoint, part.forward, use_reentrant=reentrant)
    with pytest.raises(InputError, match=r"torch\.utils\.checkpoint.*Remove its checkpoint"):
        ffb.attribute(model, X, TARGET, checkpoint=ours)


# A model's weights and modules


def linear_of(model: Any, name: str = "mlp.out", layer: int = 1) -> Any:
    """The module that a component of a bridge wraps."""
    part, role = name.split(".")
    return getattr(getattr(model.blocks[layer], part), role).original_component


def changed(change: Callable[[Any], Any]) -> Callable[[], Any]:
    """A function that makes a model and changes it."""

    def make() -> Any:
        model = tiny.bridge("llama")
        change(model)
        return model

    return make


def pruned(model: Any, *, for_good: bool) -> None:
    """A mask on a matrix; or its product with the matrix."""
    prune.l1_unstructured(linear_of(model), "weight", 0.5)
    if for_good:
        prune.remove(linear_of(model), "weight")


def spectral(model: Any, *, for_good: bool) -> None:
    """A matrix divided by its largest singular value, as estimated."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        linear = parametrizations.spectral_norm(linear_of(model)).eval()
    if for_good:
        nn.utils.parametrize.remove_parametrizations(linear, "weight")


def hook_that_stops_gradients(model: Any) -> None:
    """A torch hook that changes no number."""
    linear_of(model, "attn.o").register_forward_hook(lambda _, __, y: y.detach())


def compiled(model: Any) -> None:
    """A layer's feed-forward, with its HookPoints, compiled and run before."""
    model.blocks[1].mlp.compile(backend="eager")
    with torch.no_grad():
        model(X[None])


def set_config(name: str, value: object) -> Callable[[Any], None]:
    """A change of an entry of Hugging Face's configuration."""
    return lambda model: setattr(model.original_model.config, name, value)


SAME: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "weight norm": (lambda model: parametrizations.weight_norm(linear_of(model)), lambda model: None),
    "spectral norm": (lambda m: spectral(m, for_good=False), lambda m: spectral(m, for_good=True)),
    "pruned": (lambda m: pruned(m, for_good=False), lambda m: pruned(m, for_good=True)),
    "frozen": (lambda model: model.requires_grad_(False), lambda model: None),
    "gradients stopped by a hook": (hook_that_stops_gradients, lambda model: None),
    "compiled feed-forward": (compiled, lambda model: None),
    "attentions in the output": (set_config("output_attentions", True), lambda model: None),
    "no cache": (set_config("use_cache", False), lambda model: None),
    "another attention set later": (set_config("_attn_implementation", "sdpa"), lambda model: None),
}
"""A change of a model, and the change of its weights that gives the same model."""
CALLS: dict[str, Callable[[Any], Any]] = {
    "maps": lambda model: ffb.contribution_maps(model, X),
    "path": lambda model: ffb.attribute(model, X, TARGET, of=("heads", "neurons")),
    "gradient": lambda model: ffb.attribute(model, X, TARGET, rules="gradient"),
    "patching": lambda model: ffb.activation_patching(model, X, Y, TARGET, of="heads"),
    "edges": lambda model: ffb.attribution_patching(model, X, Y, TARGET, edges=True).edges.weights,
    "knockout": lambda model: ffb.attention_knockout(model, X, TARGET, keys={"first": 0}),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", SAME)
def test_changes_that_keep_the_model(name: str, call: str) -> None:
    change, weights = (changed(each) for each in SAME[name])
    found, expected = CALLS[call](change()), CALLS[call](weights())
    if call == "edges":
        torch.testing.assert_close(found, expected, **BATCH_FLOAT32)
    else:
        assert_same(found, expected, **BATCH_FLOAT32)


DOES_NOT_RUN: dict[str, Callable[[Any], Any]] = {
    "a matrix in half precision": lambda model: linear_of(model).half(),
    "embeddings in double precision": lambda model: model.embed.double(),
    "tuples as output": set_config("return_dict", False),
}


@pytest.mark.parametrize("name", DOES_NOT_RUN)
def test_a_model_that_does_not_run_is_refused(name: str) -> None:
    """By everything, also by `check_model`, which raises nothing."""
    model = changed(DOES_NOT_RUN[name])()
    for call in CALLS.values():
        with pytest.raises(UnsupportedModelError, match="the model itself does not run on 8"):
            call(model)
    assert "the model itself does not run" in check_model(model, X).verdict()


@pytest.mark.parametrize("kind", [nn.DataParallel, lambda model: model.original_model])
def test_what_is_no_bridge_is_refused(kind: Callable[[Any], Any]) -> None:
    for call in CALLS.values():
        with pytest.raises(InputError, match=r"expected a TransformerLens model"):
            call(kind(tiny.bridge("llama")))


# Reasons


class Tuned(nn.Module):
    """A wrapper of a norm with a gain of its own, which shows the norm's weight (peft's LNTuning)."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base_layer = base
        self.gain = nn.Parameter(torch.full_like(base.get_parameter("weight"), 1.5))

    def forward(self, x: Tensor) -> Tensor:
        """The norm's output times the gain."""
        y: Tensor = self.base_layer(x)
        return y * self.gain


def tuned(hf: Any) -> None:
    """The wrapper around a norm of a layer."""
    hf.model.layers[1].input_layernorm = Tuned(hf.model.layers[1].input_layernorm)


def tuned_end(hf: Any) -> None:
    """The wrapper around the last norm."""
    hf.model.norm = Tuned(hf.model.norm)


def replaced(hf: Any) -> None:
    """A norm with a forward function of its own."""
    norm = hf.model.layers[1].post_attention_layernorm
    run = norm.forward
    norm.forward = lambda x: 1.5 * run(x)


def hooked_norm(hf: Any) -> None:
    """A norm with a torch hook."""
    hf.model.layers[1].post_attention_layernorm.register_forward_hook(lambda _, __, y: 1.5 * y)


CHANGED: dict[str, tuple[Callable[[Any], None], str]] = {
    "wrapped norm": (tuned, r"blocks\.1\.ln1 is a Tuned .*merge_and_unload\(\)"),
    "wrapped last norm": (tuned_end, r"ln_final is a Tuned .*merge_and_unload\(\)"),
    "replaced forward function": (replaced, r"blocks\.1\.ln2 .*another forward function.*Reload"),
    "torch hook": (hooked_norm, r"torch hook is on blocks\.1\.ln2 .*Remove it"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_the_changed_module_is_named(name: str) -> None:
    """And never a hook that is not there; `check_model` says the same as the calls."""
    change, reason = CHANGED[name]
    hf: Any = tiny.hf_model("llama")
    change(hf)
    model = wrapped(hf, "LlamaForCausalLM")
    for call in ("maps", "path"):
        with pytest.raises(FFBlockError, match=reason) as refused:
            CALLS[call](model)
        assert "hook of yours" not in str(refused.value)
    found = check_model(model, X)
    assert not found.ok
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(found.verdict())


def test_a_norm_without_a_form_is_named() -> None:
    """Gemma-4 without per-layer inputs and shared layers, with a norm of another class."""
    if not hasattr(transformers, "Gemma4TextConfig"):
        pytest.skip("this transformers has no Gemma-4")
    sizes = {**tiny._GQA, "head_dim": 8, "global_head_dim": 8, "num_global_key_value_heads": 2}
    config = transformers.Gemma4TextConfig(
        **sizes,
        hidden_size_per_layer_input=0,
        num_kv_shared_layers=0,
        vocab_size_per_layer_input=tiny.VOCAB,
        layer_types=["sliding_attention", "full_attention"],
        attn_implementation="eager",
    )
    config.architectures = ["Gemma4ForCausalLM"]
    inside = transformers.Gemma4ForCausalLM(config)
    norm = inside.model.layers[0].input_layernorm
    norm.__class__ = type("Scaled", (type(norm),), {})
    model = wrapped(inside, "Gemma4ForCausalLM")
    with pytest.raises(UnsupportedModelError) as refused:
        CALLS["path"](model)
    for said in (check_model(model, X).verdict(), str(refused.value)):
        assert "blocks.0.ln1 (Scaled) is not a LayerNorm or RMSNorm" in said
        assert "attribute" not in said


# Routers


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_router_whose_hook_points_have_another_meaning(n: int) -> None:
    """GraniteMoE: indices in place of logits. Its router weights are those with which the experts are called, also from a cache."""
    sizes = {**tiny._GQA, "num_local_experts": 4, "num_experts_per_tok": n}
    config = transformers.GraniteMoeConfig(**sizes)
    config.architectures = ["GraniteMoeForCausalLM"]
    hf = transformers.GraniteMoeForCausalLM._from_config(config, attn_implementation="eager")
    model = wrapped(hf, "GraniteMoeForCausalLM")
    for call in ("maps", "path", "gradient"):
        CALLS[call](model)
    assert check_model(model, X).ok
    _, cache = model.run_with_cache(X[None])
    maps, cached = ffb.contribution_maps(model, X), ffb.contribution_maps(model, X, cache=cache)
    for scope in maps.scopes:
        torch.testing.assert_close(cached[scope], maps[scope], **BATCH_FLOAT32)


WRONG_ROUTING: dict[str, Mapping[str, Tensor]] = {
    "integers as logits": {"router_logits": torch.ones(1, N, 4, dtype=torch.long)},
    "too few logits": {"router_logits": torch.ones(1, N, 3)},
    "logits as choices": {"probabilities": torch.ones(1, N, 4), "chosen": torch.ones(1, N, 2)},
    "choices beyond the experts": {"probabilities": torch.ones(1, N, 4), "chosen": torch.full((1, N, 2), 4)},
    "negative choices": {"probabilities": torch.ones(1, N, 4), "chosen": torch.full((1, N, 2), -1)},
    "more choices than experts": {"probabilities": torch.ones(1, N, 4), "chosen": torch.zeros(1, N, 5).long()},
    "probabilities of the chosen": {"probabilities": torch.ones(1, N, 2), "chosen": torch.zeros(1, N, 2).long()},
    "several gates of a shared expert": {"router_logits": torch.ones(1, N, 4), "shared": torch.ones(1, N, 2)},
}


@pytest.mark.parametrize("name", WRONG_ROUTING)
def test_tensors_of_a_router_are_checked_before_use(name: str) -> None:
    layer = identify(bridge_of("mixtral")).layers[0]
    object.__setattr__(layer, "routing_names", {site: f"blocks.0.mlp.{site}" for site in WRONG_ROUTING[name]})
    with pytest.raises(UnsupportedModelError, match=r"of the router has torch\..*expected"):
        layer.routing_weights(WRONG_ROUTING[name])
    chosen = torch.tensor([[[0, 3], [1, 2]]])
    right = {"probabilities": torch.full((1, 2, 4), 0.25), "chosen": chosen}
    found = layer.routing_weights(right)
    assert found is not None
    assert found.argsort(descending=True, stable=True)[..., :2].sort().values.equal(chosen.sort().values)


# Wrappers with a forward function of their own


class SoftPrompt(nn.Module):
    """Embeddings before the text's, which only the wrapper's forward function adds (peft's prompt tuning)."""

    def __init__(self, hf: Any, length: int) -> None:
        super().__init__()
        self.base_model = hf
        self.prompt = nn.Parameter(torch.randn(length, tiny.D_MODEL, generator=torch.Generator().manual_seed(0)))

    def forward(self, input_ids: Tensor) -> Any:
        """Logits of the prompt and the text."""
        embedded = self.base_model.get_input_embeddings()(input_ids)
        prompt = self.prompt.expand(len(input_ids), -1, -1)
        return self.base_model(inputs_embeds=torch.cat([prompt, embedded], dim=1))


class Scaled(nn.Module):
    """A wrapper that changes logits."""

    def __init__(self, hf: Any, factor: float) -> None:
        super().__init__()
        self.base_model, self.factor = hf, factor

    def forward(self, input_ids: Tensor) -> Any:
        """Logits times the factor."""
        return SimpleNamespace(logits=self.factor * self.base_model(input_ids).logits)


@pytest.mark.parametrize(
    ("wrap", "same"),
    [
        (functools.partial(SoftPrompt, length=0), True),
        (functools.partial(SoftPrompt, length=3), False),
        (functools.partial(Scaled, factor=1.0), True),
        (functools.partial(Scaled, factor=1.001), False),
        (functools.partial(Scaled, factor=float("nan")), False),
    ],
)
def test_what_a_wrapper_adds_in_its_own_forward_function(wrap: Callable[..., nn.Module], same: bool) -> None:
    """`check_model` compares it with the model inside, if it is given."""
    hf = tiny.hf_model("llama")
    wrapper = wrap(hf)
    model = wrapped(hf, "LlamaForCausalLM")
    assert check_model(model, X).ok
    found = check_model(model, X, wrapper=wrapper)
    assert found.ok is same
    assert same or "logits of the wrapper differ" in found.verdict()
    with pytest.raises(InputError, match=r"wrapper=.*takes input_ids and returns logits"):
        check_model(model, X, wrapper=lambda **_: None)


# Positions


SCALINGS: dict[str, tuple[dict[str, Any], int | None]] = {
    "default": ({}, 48),
    "linear": ({"factor": 2.0}, 96),
    "dynamic": ({"factor": 2.0}, None),
    "yarn": ({"factor": 4.0, "original_max_position_embeddings": 24}, 96),
    "llama3": (
        {"factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 24},
        48,
    ),
}


def rotated(kind: str) -> tuple[Any, Any]:
    """A bridge with scaled rotary positions, and the Hugging Face model."""
    given = {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **SCALINGS[kind][0]}}
    return tiny.bridge("llama_nobias", **given), tiny.hf_model("llama_nobias", **given)


@pytest.mark.parametrize("kind", SCALINGS)
def test_scaled_positions_reach_further(kind: str) -> None:
    """As far as the scaling is meant for; there the target is the model's own logit."""
    model, hf = rotated(kind)
    longest = SCALINGS[kind][1]
    tokens = torch.randint(5, 60, ((longest or 200) + 1,), generator=torch.Generator().manual_seed(0))
    if longest is not None:
        with pytest.raises(InputError, match=rf"LlamaForCausalLM reads at most {longest}"):
            ffb.attribute(model, tokens, ffb.logit(7))
        tokens = tokens[:longest]
    with torch.no_grad():
        expected = float(hf(tokens[None]).logits[0, -1, 7])
    assert ffb.attribute(model, tokens, ffb.logit(7)).value == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("n", [40, 48, 60])
def test_no_text_depends_on_a_longer_one_before(n: int) -> None:
    """Hugging Face's dynamic scaling keeps the frequencies of the longest text so far."""
    tokens = torch.randint(5, 60, (90,), generator=torch.Generator().manual_seed(1))
    model, hf = rotated("dynamic")
    with torch.no_grad():
        expected = float(hf(tokens[None, :n]).logits[0, -1, 7])
        model(tokens[None])
    for call in (
        lambda: ffb.attribute(model, tokens[:n], ffb.logit(7)).value,
        lambda: ffb.activation_patching(model, tokens[:n], tokens[:n].flip(0), ffb.logit(7), of="heads").clean,
        lambda: ffb.attention_knockout(model, tokens[:n], ffb.logit(7), keys=2).baseline,
    ):
        assert float(call()) == pytest.approx(expected, rel=1e-4)
        with torch.no_grad():
            model(tokens[None])


def test_a_shared_key_input_is_named() -> None:
    """The refusal of a head's own key input names the one that it shares; other unknown names have no such hint."""
    edges = ffb.attribution_patching(tiny.bridge("llama"), X, Y, TARGET, edges=True).edges
    for asked, shared in (("L1H3.k", "L1KV1.k"), ("L1H0.v", "L1KV0.v"), ("L2H2.k", "L2KV1.k")):
        with pytest.raises(ScopeKeyError, match=rf"{asked} is {shared} here"):
            edges["L0H0", asked]
    for asked in ("L1H9.k", "L1H3.x"):
        with pytest.raises(ScopeKeyError) as refused:
            edges["L0H0", asked]
        assert "here, shared" not in str(refused.value)


def test_numbers_of_the_laws_are_numbers() -> None:
    """The comparisons above compare something."""
    assert all([*numbers(expected_of(name))] for name in ("attribute", "contribution_maps"))
