"""Laws of every public function that runs a model: a new one is under them as soon as it has its line in `RUNS`.

Twice is the same; the model stays as it was; hooks that do nothing change nothing; a list is its members alone; a choice of
layers or queries is a slice of everything; a cache of another text is refused.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import callbacks_of, model_of
from tests.numbers import numbers
from tl_ffblock import progress
from tl_ffblock.bridge.model import identify

N = 7
CLOSE = {"rtol": 2e-5, "atol": 2e-6}
"""float32 sums in another order, as batches of another shape make them."""
CAUSAL = ("gpt2", "llama")


@dataclasses.dataclass(frozen=True)
class Case:
    """How a public function is called in the least words."""

    call: Callable[..., Any]
    """`call(ffb, model, tokens, **options)`."""
    lists: bool = False
    """Whether a list of token tensors [pos], all of one length, gives a list of results."""
    families: tuple[str, ...] = ("gpt2", "llama", "bert")
    slices: Mapping[str, tuple[Any, Callable[[Any], Any]]] = dataclasses.field(default_factory=dict)
    """By option, a choice, and what this is a slice of: `slice(everything)` equals the numbers of the choice."""


def corpus(tokens: Tensor) -> list[Tensor]:
    """A few texts made of one."""
    return [tokens, tokens.flip(0), tokens[:5]]


def kept(tokens: Tensor, ffb: ModuleType, model: Any, **options: Any) -> Any:
    """A sweep of one layer of one run."""
    runs = ffb.Contributions(model, tokens, **options)
    scope = "AtbFf" if "AtbFf" in ffb.scopes.scope_names(runs.model.family.order) else "AtbLnFf"
    return ffb.contribution_sweep(runs, ffb.logit(7), scope, layers=1, queries=-1)


LAYER_1 = ([1], lambda maps: [maps[scope][1:2] for scope in maps.scopes])
ROWS = ([2, 4], lambda maps: [maps[scope][:, [2, 4]] for scope in maps.scopes])

RUNS: dict[str, Case] = {
    "contribution_maps": Case(
        lambda ffb, model, tokens, **o: ffb.contribution_maps(model, tokens, **o),
        lists=True,
        slices={"layers": LAYER_1, "queries": ROWS},
    ),
    "decompose": Case(lambda ffb, model, tokens, **o: ffb.decompose(model, tokens, layer=1, **o)),
    "attention_maps": Case(
        lambda ffb, model, tokens, **o: ffb.attention_maps(model, tokens, **o),
        lists=True,
        slices={"layers": ([1], lambda m: m.values[1:2]), "queries": ([2, 4], lambda m: m.values[:, :, [2, 4]])},
    ),
    "attention_scores": Case(
        lambda ffb, model, tokens, **o: ffb.attention_scores(model, tokens, **o),
        slices={"layers": ([1], lambda scores: [scores.query[1:2], scores.key[1:2], scores.pattern[1:2]])},
    ),
    "neurons": Case(lambda ffb, model, tokens, **o: ffb.neurons(model, tokens, layer=1, query=-1, key=2, **o)),
    "attribute": Case(lambda ffb, model, tokens, **o: ffb.attribute(model, tokens, ffb.logit(7), **o), lists=True),
    "attribute_continuation": Case(
        lambda ffb, model, tokens, **o: ffb.attribute_continuation(model, tokens.tolist(), generate=2, **o),
        families=CAUSAL,
    ),
    "attribution_patching": Case(
        lambda ffb, model, tokens, **o: ffb.attribution_patching(model, tokens, tokens.flip(0), ffb.logit(7), **o)
    ),
    "faithfulness": Case(
        lambda ffb, model, tokens, **o: ffb.faithfulness(
            model, tokens, ffb.logit(7), {"own": torch.arange(float(N))}, **o
        ),
        families=CAUSAL,
    ),
    "flow_graph": Case(lambda ffb, model, tokens, **o: ffb.flow_graph(model, tokens, target=7, **o)),
    "patched_maps": Case(
        lambda ffb, model, tokens, **o: ffb.patched_maps(
            model,
            tokens,
            tokens.flip(0),
            fwd_hooks=[("blocks.0.hook_out", lambda tensor, hook: 1.1 * tensor), *o.pop("fwd_hooks", [])],
            **o,
        )
    ),
    "contribution_sweep": Case(lambda ffb, model, tokens, **o: kept(tokens, ffb, model, **o)),
    "causal_validation": Case(
        lambda ffb, model, tokens, **o: ffb.causal_validation(
            model, [tokens, tokens.flip(0)], ffb.logit([7, 8]), layers=1, **o
        )
    ),
    "capture": Case(lambda ffb, model, tokens, **o: captured(ffb, model, tokens)),
    "heads.ablation_effects": Case(
        lambda ffb, model, tokens, **o: ffb.heads.ablation_effects(model, tokens, ffb.logit(7), **o)
    ),
    "heads.attention_gradients": Case(
        lambda ffb, model, tokens, **o: ffb.heads.attention_gradients(model, tokens, ffb.logit(7), **o)
    ),
    "memories.value_tokens": Case(
        lambda ffb, model, tokens, **o: ffb.memories.value_tokens(model, k=3, **o),
        slices={
            "memories": (
                ["1:3"],
                lambda values: values.top_ids[[str(one) for one in values.memories].index("1:3")][None],
            )
        },
    ),
    "memories.token_parts": Case(lambda ffb, model, tokens, **o: ffb.memories.token_parts(model, tokens, "1:3", **o)),
    "memories.find_triggers": Case(
        lambda ffb, model, tokens, **o: ffb.memories.find_triggers(model, corpus(tokens), memories=["1:3"], k=2, **o)
    ),
    "memories.memory_card": Case(
        lambda ffb, model, tokens, **o: ffb.memories.memory_card(model, corpus(tokens), "1:3", k=2, **o)
    ),
    "memories.mean_coefficients": Case(
        lambda ffb, model, tokens, **o: ffb.memories.mean_coefficients(model, corpus(tokens), memories=["1:3"], **o)
    ),
    "memories.ablate": Case(
        lambda ffb, model, tokens, **o: ffb.memories.ablate(model, triggers(ffb, model, tokens), **o), families=CAUSAL
    ),
    "memories.knock_out": Case(
        lambda ffb, model, tokens, **o: model.run_with_hooks(
            tokens[None], fwd_hooks=ffb.memories.knock_out(model, "1:3")
        )
    ),
    "memories.knock_out_effects": Case(
        lambda ffb, model, tokens, **o: ffb.memories.knock_out_effects(
            model, triggers(ffb, model, tokens), ffb.memories.value_tokens(model, memories="1:3"), **o
        ),
        families=CAUSAL,
    ),
    "flow.top_tokens": Case(
        lambda ffb, model, tokens, **o: ffb.flow.top_tokens(model, torch.ones(2, tiny.D_MODEL), k=5, **o)
    ),
    "check.check_model": Case(lambda ffb, model, tokens, **o: ffb.check.check_model(model, **o)),
}
"""Every public function that takes a model."""

ELSEWHERE = {
    "load_model": "makes a model (tests/integration/test_loading.py)",
    "flow.flow_graph": "the same as flow_graph",
    "flow.routes": "takes an attribution, not a model",
}


def triggers(ffb: ModuleType, model: Any, tokens: Tensor) -> Any:
    """Two prefixes at which a neuron is largest."""
    return ffb.memories.find_triggers(model, corpus(tokens), memories="1:3", k=2)


def captured(ffb: ModuleType, model: Any, tokens: Tensor) -> Any:
    """A layer's record of a forward pass."""
    with torch.no_grad(), ffb.capture(model, layers=1) as records:
        model(tokens[None])
    return [records[1].pattern, records[1].resid_pre]


def public_functions(ffb: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions by name, those of modules as "heads.plane"."""
    for name in ffb.__all__:
        value = getattr(ffb, name)
        if inspect.isfunction(value):
            yield name, value
    for module in ("heads", "memories", "flow", "check"):
        home = getattr(ffb, module)
        names = getattr(home, "__all__", [n for n in vars(home) if not n.startswith("_")])
        for name in names:
            value = getattr(home, name)
            if inspect.isfunction(value) and value.__module__.startswith("tl_ffblock"):
                yield f"{module}.{name}", value


def takes_a_model(function: Callable[..., Any]) -> bool:
    """Whether its first parameter is a model."""
    return next(iter(inspect.signature(function).parameters), "") == "model"


def test_every_public_function_of_a_model_is_listed() -> None:
    """A function that takes a model has its line here, and so these laws."""
    found = {name for name, function in public_functions(ffb) if takes_a_model(function)}
    assert found - set(RUNS) - set(ELSEWHERE) == set()


def assert_same(first: Any, second: Any, **tolerance: float) -> None:
    """The same numbers in the same places, at least one of them not zero."""
    mine, theirs = ({path: table.double() for path, table in numbers(result)} for result in (first, second))
    assert mine.keys() == theirs.keys()
    assert any(bool(table.nan_to_num().any()) for table in mine.values())
    for name, table in mine.items():
        torch.testing.assert_close(
            table, theirs[name], equal_nan=True, msg=lambda text, name=name: f"{name}: {text}", **tolerance
        )


def cases(wanted: Callable[[Case], object] = lambda case: True) -> Any:
    """Every function of every family that it takes."""
    chosen = [(name, family) for name, case in RUNS.items() if wanted(case) for family in case.families]
    return pytest.mark.parametrize(("name", "family"), chosen)


@pytest.fixture
def made() -> Callable[..., Any]:
    """`made(name, family, **options)`: what a function gives for the family's text."""
    return lambda name, family, **options: RUNS[name].call(ffb, model_of(family), tiny.tokens(family, N), **options)


SHOWING = (
    "contribution_maps",
    "attribute",
    "attribution_patching",
    "faithfulness",
    "contribution_sweep",
    "causal_validation",
)
SHOWN: dict[str, Callable[..., Any]] = {
    "attribution_patching": lambda ffb, model, tokens, **o: ffb.attribution_patching(
        model, torch.stack([tokens, tokens]), torch.stack([tokens.flip(0), tokens]), ffb.logit(7), **o
    ),
    "contribution_sweep": lambda ffb, model, tokens, **o: ffb.contribution_sweep(
        ffb.Contributions(model, tokens), ffb.logit(7), "Attn", layers=0, queries=-1, **o
    ),
    "causal_validation": lambda ffb, model, tokens, **o: ffb.causal_validation(
        model, [tokens], scope="Attn", layers=0, plan=ffb.interventions.SamplePlan(n_cells=2), **o
    ),
}
"""How those are called that show the progress of what is longer than in `RUNS`."""


@cases()
def test_twice_is_the_same_and_the_model_stays_as_it_was(made: Any, name: str, family: str) -> None:
    """Same numbers, and afterwards the same weights, gradients, callbacks, mode and random numbers."""
    model = model_of(family)
    state = (identify(model).fingerprint, callbacks_of(model), model.training, torch.random.get_rng_state().tolist())
    wants = [parameter.requires_grad for parameter in model.parameters()]
    assert_same(made(name, family), made(name, family), rtol=0, atol=0)
    after = (identify(model).fingerprint, callbacks_of(model), model.training, torch.random.get_rng_state().tolist())
    assert after == state
    assert [parameter.requires_grad for parameter in model.parameters()] == wants
    assert all(parameter.grad is None for parameter in model.parameters())


def accepts(ffb: ModuleType, name: str, option: str) -> bool:
    """Whether a function has an option."""
    return option in inspect.signature(dict(public_functions(ffb))[name]).parameters


def functions_with(ffb: ModuleType, option: str, family: str) -> list[str]:
    """The functions that take an option, by their signatures, and a family."""
    public = dict(public_functions(ffb))
    named = [name for name, case in RUNS.items() if name in public and family in case.families]
    found = [name for name in named if option in inspect.signature(public[name]).parameters]
    assert len(found) > 5
    return found


@pytest.mark.parametrize("family", [*CAUSAL, "bert"])
def test_hooks_that_do_nothing_change_nothing(made: Any, family: str) -> None:
    """A hook that gives back what it gets, wherever hooks are taken."""
    places = [f"blocks.{layer}.{point}" for layer in (0, 1) for point in ("attn.hook_z", "hook_out")]
    for name in [*functions_with(ffb, "fwd_hooks", family), "contribution_sweep"]:
        hooks = [(place, lambda tensor, hook: tensor.clone()) for place in places]
        assert_same(made(name, family), made(name, family, fwd_hooks=hooks), **CLOSE)


@cases(lambda case: case.lists)
def test_a_list_is_its_members_alone(name: str, family: str) -> None:
    """A batch gives each sequence what it has alone."""
    texts = torch.stack([tiny.tokens(family, N, seed=seed) for seed in range(3)])
    model, call = model_of(family), RUNS[name].call
    assert_same(call(ffb, model, texts), [call(ffb, model, text) for text in texts], **CLOSE)


@cases(lambda case: case.slices)
def test_a_choice_is_a_slice_of_everything(made: Any, name: str, family: str) -> None:
    """Fewer layers, queries or neurons: the same numbers, and no others."""
    everything = made(name, family)
    for option, (choice, cut) in RUNS[name].slices.items():
        chosen = made(name, family, **{option: choice})
        expected = [
            torch.as_tensor(table).double()
            for table in ([*cut(everything)] if isinstance(cut(everything), list) else [cut(everything)])
        ]
        found = [table.double() for _, table in numbers(chosen)]
        for table in expected:
            assert any(
                table.shape == other.shape and torch.allclose(table, other, equal_nan=True, **CLOSE) for other in found
            )


@pytest.mark.parametrize("family", [*CAUSAL, "bert"])
def test_a_cache_of_another_text_is_refused(made: Any, family: str) -> None:
    """Wherever a cache is taken, one of another text of equally many tokens, or of another model, is not."""
    model, other = model_of(family), tiny.tokens(family, N, seed=3)
    stranger = tiny.bridge(family)
    for parameter in stranger.parameters():
        parameter.data.mul_(1.03)
    with torch.no_grad(), ffb.capture(model) as records:
        _, cache = model.run_with_cache(other[None])
    with torch.no_grad(), ffb.capture(stranger) as strange:
        _, strange_cache = stranger.run_with_cache(tiny.tokens(family, N)[None])
    for name in functions_with(ffb, "cache", family):
        for taken in (records, cache, dict(cache.cache_dict), strange, strange_cache):
            with pytest.raises(ffb.errors.FFBlockError, match="cache"):
                made(name, family, cache=taken)


@pytest.mark.wrong_types
@pytest.mark.parametrize("name", SHOWING)
def test_a_call_shows_no_progress_where_it_is_told_to(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar is told so by every such function; what is neither True nor False is refused."""
    told = []

    class Told(progress.Progress):
        def __init__(self, *args: Any, shown: bool = True, **kwargs: Any) -> None:
            told.append(shown)
            super().__init__(*args, shown=shown, **kwargs)

    monkeypatch.setattr(import_module(getattr(ffb, name).__module__), "Progress", Told)
    call = SHOWN.get(name, RUNS[name].call)
    for options in ({}, {"progress": False}):
        call(ffb, model_of("gpt2"), tiny.tokens("gpt2", N), **options)
    assert told == [True, False]
    with pytest.raises(ffb.errors.InputError, match="progress='no'.*True or False"):
        call(ffb, model_of("gpt2"), tiny.tokens("gpt2", N), progress="no")
