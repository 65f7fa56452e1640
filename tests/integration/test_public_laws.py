"""Laws of every public function that runs a model: a new one is under them as soon as it has its line in `RUNS`.

Twice is the same; the model stays as it was; hooks that do nothing change nothing; a list is its members alone; a choice of
layers or queries is a slice of everything; a cache of another text is refused.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import callbacks_of, model_of
from tests.numbers import numbers
from tests.tolerances import BATCH_FLOAT32, BATCH_FLOAT64
from tl_ffblock import memories, progress
from tl_ffblock.bridge.model import identify

N = 7
CLOSE = {"rtol": 2e-5, "atol": 2e-6}
"""float32 sums in another order, as batches of another shape make them."""
CAUSAL = ("gpt2", "llama")


@dataclasses.dataclass(frozen=True)
class Case:
    """How a public function is called in the least words."""

    call: Callable[..., Any]
    """`call(model, tokens, **options)`."""
    lists: bool = False
    """Whether a list of token tensors [pos], all of one length, gives a list of results."""
    families: tuple[str, ...] = ("gpt2", "llama", "bert")
    slices: Mapping[str, tuple[Any, Callable[[Any], Any]]] = dataclasses.field(default_factory=dict)
    """By option, a choice, and what this is a slice of: `slice(everything)` equals the numbers of the choice."""


def corpus(tokens: Tensor) -> list[Tensor]:
    """A few texts made of one."""
    return [tokens, tokens.flip(0), tokens[:5]]


def sweep(model: Any, tokens: Tensor, **options: Any) -> Any:
    """Of one layer of one run."""
    runs = ffb.Contributions(model, tokens, **options)
    scope = "AtbFf" if "AtbFf" in ffb.scopes.scope_names(runs.model.family.order) else "AtbLnFf"
    return ffb.contribution_sweep(runs, ffb.logit(7), scope, layers=1, queries=-1)


def captured(model: Any, tokens: Tensor) -> Any:
    """A layer's record of a forward pass."""
    with torch.no_grad(), ffb.capture(model, layers=1) as records:
        model(tokens[None])
    return [records[1].pattern, records[1].resid_pre]


def triggers(model: Any, tokens: Tensor) -> Any:
    """Two prefixes at which a neuron is largest."""
    return memories.find_triggers(model, corpus(tokens), memories="1:3", k=2)


def patched(model: Any, tokens: Tensor, **options: Any) -> Any:
    """Maps of a run with a hook."""
    hooks = [("blocks.0.hook_out", lambda tensor, hook: 1.1 * tensor), *options.pop("fwd_hooks", [])]
    return ffb.patched_maps(model, tokens, tokens.flip(0), fwd_hooks=hooks, **options)


PARTS: dict[str, dict[str, Any]] = {
    "attribute": {"of": ("heads", "edges", "neurons", "maps")},
    "direct_logit_attribution": {"of": "neurons"},
}
"""What they are asked for that they leave out otherwise."""
LAYER_1 = ([1], lambda maps: [maps[scope][1:2] for scope in maps.scopes])
ROWS = ([2, 4], lambda maps: [maps[scope][:, [2, 4]] for scope in maps.scopes])
PATTERNS = {"layers": ([1], lambda m: m.values[1:2]), "queries": ([2, 4], lambda m: m.values[:, :, [2, 4]])}
SCORES = {"layers": ([1], lambda scores: [scores.query[1:2], scores.key[1:2], scores.pattern[1:2]])}
VALUES = {"memories": (["1:3"], lambda v: v.top_ids[[str(one) for one in v.memories].index("1:3")][None])}
PATCHES = {
    "layers": ([1], lambda sweep: [sweep.measured[kind][:, 1:2] for kind in sweep.measured]),
    "positions": (
        [2, 4],
        lambda sweep: [sweep.measured[kind][..., [2, 4]] for kind in ("residual", "attention", "mlp")],
    ),
}

# fmt: off
RUNS: dict[str, Case] = {
    "contribution_maps": Case(lambda m, x, **o: ffb.contribution_maps(m, x, **o), lists=True, slices={"layers": LAYER_1, "queries": ROWS}),
    "decompose": Case(lambda m, x, **o: ffb.decompose(m, x, layer=1, **o), lists=True),
    "attention_maps": Case(lambda m, x, **o: ffb.attention_maps(m, x, **o), lists=True, slices=PATTERNS),
    "attention_scores": Case(lambda m, x, **o: ffb.attention_scores(m, x, **o), lists=True, slices=SCORES),
    "neurons": Case(lambda m, x, **o: ffb.neurons(m, x, layer=1, query=-1, key=2, **o)),
    "attribute": Case(lambda m, x, **o: ffb.attribute(m, x, ffb.logit(7), **o), lists=True),
    "direct_logit_attribution": Case(lambda m, x, **o: ffb.direct_logit_attribution(m, x, ffb.logit(7), **o), lists=True),
    "logit_lens": Case(lambda m, x, **o: ffb.logit_lens(m, x, ffb.logit(7), k=3, **o), lists=True),
    "attribute_continuation": Case(lambda m, x, **o: ffb.attribute_continuation(m, x, generate=2, **o), lists=True, families=CAUSAL),
    "attribution_patching": Case(lambda m, x, **o: ffb.attribution_patching(m, x, x.flip(0), ffb.logit(7), **o)),
    "activation_patching": Case(lambda m, x, **o: ffb.activation_patching(m, x, x.flip(0), ffb.logit(7), **o), slices=PATCHES),
    "faithfulness": Case(lambda m, x, **o: ffb.faithfulness(m, x, ffb.logit(7), {"own": torch.arange(float(len(x)))}, **o), families=CAUSAL),
    "flow_graph": Case(lambda m, x, **o: ffb.flow_graph(m, x, target=7, **o)),
    "patched_maps": Case(patched),
    "run_circuit": Case(lambda m, x, **o: ffb.run_circuit(m, x, x.flip(0), ffb.Circuit.full(m).among(["L0H1", "L1.mlp"]), ffb.logit(7)), families=CAUSAL),
    "circuit_faithfulness": Case(lambda m, x, **o: ffb.circuit_faithfulness(m, x, x.flip(0), ffb.Circuit.full(m).among(["L0H1", "L1.mlp"]), ffb.logit(7)), families=CAUSAL),
    "edge_patching": Case(lambda m, x, **o: ffb.edge_patching(m, x, x.flip(0), ffb.logit(7), [("L0H1", "L1.mlp"), ("L1.mlp", "target")]), families=CAUSAL),
    "contribution_sweep": Case(sweep),
    "attention_knockout": Case(lambda m, x, **o: ffb.attention_knockout(m, x, ffb.logit(7), keys={"first": 0, "both": [1, 2]}, **o)),
    "causal_validation": Case(lambda m, x, **o: ffb.causal_validation(m, [x, x.flip(0)], ffb.logit([7, 8]), layers=1, **o)),
    "capture": Case(lambda m, x, **o: captured(m, x)),
    "aggregation.alti": Case(lambda m, x, **o: ffb.aggregation.alti(m, x, **o), lists=True),
    "aggregation.globenc": Case(lambda m, x, **o: ffb.aggregation.globenc(m, x, **o), lists=True, families=("bert",)),
    "heads.ablation_effects": Case(lambda m, x, **o: ffb.heads.ablation_effects(m, x, ffb.logit(7), **o)),
    "heads.attention_gradients": Case(lambda m, x, **o: ffb.heads.attention_gradients(m, x, ffb.logit(7), **o)),
    "heads.induction_scores": Case(lambda m, x, **o: ffb.heads.induction_scores(m, length=6, n=2, **o)),
    "heads.previous_token_scores": Case(lambda m, x, **o: ffb.heads.previous_token_scores(m, length=6, **o)),
    "heads.duplicate_token_scores": Case(lambda m, x, **o: ffb.heads.duplicate_token_scores(m, length=6, **o)),
    "heads.distance_decay": Case(lambda m, x, **o: ffb.heads.distance_decay(m, x, **o), slices={"layers": ([1], lambda d: [d.by_text[:, 1:2], d.whole[:, 1:2]])}),
    "heads.copy_scores": Case(lambda m, x, **o: ffb.heads.copy_scores(m, x, 2, k=32, **o)),
    "heads.repeated_tokens": Case(lambda m, x, **o: ffb.heads.repeated_tokens(m, 6, **o)),
    "memories.value_tokens": Case(lambda m, x, **o: memories.value_tokens(m, k=3, **o), slices=VALUES),
    "memories.token_parts": Case(lambda m, x, **o: memories.token_parts(m, x, "1:3", **o)),
    "memories.find_triggers": Case(lambda m, x, **o: memories.find_triggers(m, corpus(x), memories=["1:3"], k=2, **o)),
    "memories.memory_card": Case(lambda m, x, **o: memories.memory_card(m, corpus(x), "1:3", k=2, **o)),
    "memories.mean_coefficients": Case(lambda m, x, **o: memories.mean_coefficients(m, corpus(x), memories=["1:3"], **o)),
    "memories.remove_tokens": Case(lambda m, x, **o: memories.remove_tokens(m, triggers(m, x), **o), families=CAUSAL),
    "memories.ablate_neurons": Case(lambda m, x, **o: m.run_with_hooks(x[None], fwd_hooks=memories.ablate_neurons(m, "1:3"))),
    "memories.neuron_ablation_effects": Case(lambda m, x, **o: memories.neuron_ablation_effects(m, triggers(m, x), memories.value_tokens(m, memories="1:3"), **o), families=CAUSAL),
    "graphs.top_tokens": Case(lambda m, x, **o: ffb.graphs.top_tokens(m, torch.ones(2, tiny.D_MODEL), k=5, **o)),
    "check.check_model": Case(lambda m, x, **o: ffb.check.check_model(m, **o)),
}
# fmt: on
"""Every public function that takes a model."""

ELSEWHERE = {
    "chat": "reads messages (tests/integration/test_texts.py)",
    "load_model": "makes a model (tests/integration/test_loading.py)",
    "overview": "makes a page (tests/page/test_logit_view.py)",
    "memory_estimate": "takes no text (tests/integration/test_memory.py)",
}


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions by name, those of modules as "heads.plane"."""
    for name in ffb.__all__:
        value = getattr(ffb, name)
        if inspect.isfunction(value):
            yield name, value
    for module in ("aggregation", "heads", "memories", "graphs", "check"):
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
    found = {name for name, function in public_functions() if takes_a_model(function)}
    assert found - set(RUNS) - set(ELSEWHERE) == set()


def made(name: str, family: str, **options: Any) -> Any:
    """What a function gives for the family's text."""
    return RUNS[name].call(model_of(family), tiny.tokens(family, N), **options)


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


SHOWING = (
    "contribution_maps",
    "attribute",
    "activation_patching",
    "attribution_patching",
    "faithfulness",
    "contribution_sweep",
    "causal_validation",
)
SHOWN: dict[str, Callable[..., Any]] = {
    "attribution_patching": lambda m, x, **o: ffb.attribution_patching(
        m, torch.stack([x, x]), torch.stack([x.flip(0), x.roll(1)]), ffb.logit(7), **o
    ),
    "contribution_sweep": lambda m, x, **o: ffb.contribution_sweep(
        ffb.Contributions(m, x), ffb.logit(7), "Attn", layers=0, queries=-1, **o
    ),
    "causal_validation": lambda m, x, **o: ffb.causal_validation(
        m, [x], scope="Attn", layers=0, plan=ffb.interventions.SamplePlan(n_cells=2), **o
    ),
}
"""How those are called that show the progress of what is longer than in `RUNS`."""


@cases()
def test_twice_is_the_same_and_the_model_stays_as_it_was(name: str, family: str) -> None:
    """Same numbers, and afterwards the same weights, gradients, callbacks, mode and random numbers."""
    model = model_of(family)
    state = (identify(model).fingerprint, callbacks_of(model), model.training, torch.random.get_rng_state().tolist())
    wants = [parameter.requires_grad for parameter in model.parameters()]
    assert_same(made(name, family), made(name, family), rtol=0, atol=0)
    after = (identify(model).fingerprint, callbacks_of(model), model.training, torch.random.get_rng_state().tolist())
    assert after == state
    assert [parameter.requires_grad for parameter in model.parameters()] == wants
    assert all(parameter.grad is None for parameter in model.parameters())


def functions_with(option: str, family: str) -> list[str]:
    """The functions that take an option, by their signatures, and a family."""
    public = dict(public_functions())
    named = [name for name, case in RUNS.items() if name in public and family in case.families]
    found = [name for name in named if option in inspect.signature(public[name]).parameters]
    assert len(found) > 5
    return found


@pytest.mark.parametrize("family", [*CAUSAL, "bert"])
def test_hooks_that_do_nothing_change_nothing(family: str) -> None:
    """A hook that gives back what it gets, wherever hooks are taken."""
    places = [f"blocks.{layer}.{point}" for layer in (0, 1) for point in ("attn.hook_z", "hook_out")]
    for name in [*functions_with("fwd_hooks", family), "contribution_sweep"]:
        hooks = [(place, lambda tensor, hook: tensor.clone()) for place in places]
        assert_same(made(name, family), made(name, family, fwd_hooks=hooks), **CLOSE)


@cases(lambda case: case.lists)
def test_a_list_is_its_members_alone(name: str, family: str) -> None:
    """A batch gives each sequence what it has alone."""
    texts = torch.stack([tiny.tokens(family, N, seed=seed) for seed in range(3)])
    model, call = model_of(family), RUNS[name].call
    assert_same(call(model, texts), [call(model, text) for text in texts], **CLOSE)


@pytest.mark.parametrize("side", ["left", "right"])
@cases(lambda case: case.lists and case is not RUNS["attribute_continuation"])
def test_a_padded_batch_is_its_sequences_one_by_one(name: str, family: str, side: str) -> None:
    """On either side, of every part; the last position is the last real one."""
    if (family, side) == ("bert", "left"):
        pytest.skip("BERT counts positions from the left, padding included: another run")
    model = model_of(family, torch.float32 if family == "llama" else torch.float64)  # Hugging Face's NaN: test_laws
    sequences = [tiny.tokens(family, n, seed=n) for n in (5, 8)]
    padding = (3, 0) if side == "left" else (0, 3)
    batch, mask = (
        torch.stack([torch.nn.functional.pad(short, padding), long])
        for short, long in (sequences, [torch.ones_like(tokens) for tokens in sequences])
    )
    call = functools.partial(RUNS[name].call, model, **PARTS.get(name, {}))
    found, alone = call(batch, attention_mask=mask), [call(sequence) for sequence in sequences]
    assert_same(found, alone, **(BATCH_FLOAT32 if family == "llama" else BATCH_FLOAT64))
    assert [getattr(one, "labels", None) for one in found] == [getattr(one, "labels", None) for one in alone]


@cases(lambda case: case.slices)
def test_a_choice_is_a_slice_of_everything(name: str, family: str) -> None:
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
def test_a_cache_of_another_text_is_refused(family: str) -> None:
    """Wherever a cache is taken, one of another text of equally many tokens, or of another model, is not."""
    model, other = model_of(family), tiny.tokens(family, N, seed=3)
    stranger = tiny.bridge(family)
    for parameter in stranger.parameters():
        parameter.data.mul_(1.03)
    with torch.no_grad(), ffb.capture(model) as records:
        _, cache = model.run_with_cache(other[None])
    with torch.no_grad(), ffb.capture(stranger) as strange:
        _, strange_cache = stranger.run_with_cache(tiny.tokens(family, N)[None])
    for name in functions_with("cache", family):
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
        call(model_of("gpt2"), tiny.tokens("gpt2", N), **options)
    assert told == [True, False]
    with pytest.raises(ffb.errors.InputError, match="progress='no'.*True or False"):
        call(model_of("gpt2"), tiny.tokens("gpt2", N), progress="no")
