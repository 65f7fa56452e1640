"""Batches, metrics and pairs: a wrong number is not made of padding, of answers in another order, or of a pair without a change.

`CALLS` has every public call that takes prompts. A new one is found by its signature, and fails until it has its row.
"""

import inspect
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tests.integration.test_public_laws import assert_same, public_functions, takes_a_model
from tl_ffblock import memories
from tl_ffblock.errors import EqualPairWarning, InputError, PaddingWarning
from tl_ffblock.interventions.circuits import path_patching

N = 7
CLOSE = {"rtol": 2e-5, "atol": 2e-6}
"""float32 sums in another order, as batches of another shape make them."""
PAD, EOS = 0, 2
"""Of the config of every tiny model."""
TARGET = ffb.logit(7, minus=9)


@dataclass(frozen=True)
class Call:
    """How a public function is called with prompts, their corrupted prompts and a metric."""

    call: Callable[[Any, Any, Any, Any], Any]
    """`call(model, prompts, corrupted, metric)`."""
    several: bool = True
    """Whether it takes several prompts."""
    pairs: bool = False
    metric: bool = False
    corpus: bool = False
    """Whether prompts are a corpus, whose texts are read one by one, so that padding is warned of."""


def circuit(model: Any) -> ffb.Circuit:
    """A circuit of two components."""
    return ffb.Circuit.full(model).among(["L0H1", "L1.mlp"])


def sweep(model: Any, prompts: Any, corrupted: Any, metric: Any) -> Any:
    """Of one layer, at the last position."""
    runs, donor = (ffb.Contributions(model, each) for each in (prompts, corrupted))
    where = {} if len(set(runs.lengths)) == 1 else {"positions": {"END": -1, "FIRST": 0}}
    at = {"queries": "END", "keys": "FIRST"} if where else {"queries": -1}
    return ffb.contribution_sweep(runs, metric, "AtbLnFf", donor=donor, layers=1, **at, **where)


def masked(model: Any, prompts: Any, metric: Any) -> Any:
    """The masking test of attributions of its own."""
    prompts = list(prompts) if hasattr(prompts, "__next__") else prompts
    try:
        results = ffb.attribute(model, prompts, TARGET, of=())
    except InputError:  # of prompts that are refused, which the masking test is to say itself
        results = [torch.arange(float(N))] * 2
    if not isinstance(metric, ffb.Metric):
        results = (
            [one.token_attributions for one in results] if isinstance(results, list) else results.token_attributions
        )
    return ffb.faithfulness(model, prompts, metric, {"own": results})


# fmt: off
CALLS: dict[str, Call] = {
    "activation_patching": Call(lambda m, x, y, f: ffb.activation_patching(m, x, y, f, of="mlps", layers=1, positions=-1), pairs=True, metric=True),
    "aggregation.alti": Call(lambda m, x, y, f: ffb.aggregation.alti(m, x)),
    "attention_knockout": Call(lambda m, x, y, f: ffb.attention_knockout(m, x, f, keys=2), metric=True),
    "attention_maps": Call(lambda m, x, y, f: ffb.attention_maps(m, x)),
    "attention_scores": Call(lambda m, x, y, f: ffb.attention_scores(m, x)),
    "attribute": Call(lambda m, x, y, f: ffb.attribute(m, x, f), metric=True),
    "attribute_continuation": Call(lambda m, x, y, f: ffb.attribute_continuation(m, x, generate=1)),
    "attribution_patching": Call(lambda m, x, y, f: ffb.attribution_patching(m, x, y, f), pairs=True, metric=True),
    "causal_validation": Call(lambda m, x, y, f: ffb.causal_validation(m, x, f, corrupted=y, layers=1, plan=ffb.interventions.SamplePlan(n_cells=2)), pairs=True, metric=True),
    "circuit_faithfulness": Call(lambda m, x, y, f: ffb.circuit_faithfulness(m, x, y, circuit(m), f), pairs=True, metric=True),
    "contribution_maps": Call(lambda m, x, y, f: ffb.contribution_maps(m, x)),
    "contribution_sweep": Call(sweep),
    "decompose": Call(lambda m, x, y, f: ffb.decompose(m, x, layer=1)),
    "direct_logit_attribution": Call(lambda m, x, y, f: ffb.direct_logit_attribution(m, x, f), metric=True),
    "edge_patching": Call(lambda m, x, y, f: ffb.edge_patching(m, x, y, f, [("L0H1", "L1.mlp")]), pairs=True, metric=True),
    "faithfulness": Call(lambda m, x, y, f: masked(m, x, f), metric=True),
    "flow_graph": Call(lambda m, x, y, f: ffb.flow_graph(m, x, target=7), several=False),
    "heads.ablation_effects": Call(lambda m, x, y, f: ffb.heads.ablation_effects(m, x, f), several=False),
    "heads.attention_gradients": Call(lambda m, x, y, f: ffb.heads.attention_gradients(m, x, f), several=False),
    "heads.copy_scores": Call(lambda m, x, y, f: ffb.heads.copy_scores(m, x, 2, k=32)),
    "heads.distance_decay": Call(lambda m, x, y, f: ffb.heads.distance_decay(m, x)),
    "interventions.path_patching": Call(lambda m, x, y, f: path_patching(m, x, y, f, [[("L0H1", "L1.mlp")]]), pairs=True, metric=True),
    "logit_lens": Call(lambda m, x, y, f: ffb.logit_lens(m, x, f, k=3), metric=True),
    "memories.find_triggers": Call(lambda m, x, y, f: memories.find_triggers(m, x, memories=["1:3"], k=2), corpus=True),
    "memories.mean_coefficients": Call(lambda m, x, y, f: memories.mean_coefficients(m, x, memories=["1:3"]), corpus=True),
    "memories.memory_card": Call(lambda m, x, y, f: memories.memory_card(m, x, "1:3", k=2), corpus=True),
    "memories.token_parts": Call(lambda m, x, y, f: memories.token_parts(m, x, "1:3"), several=False),
    "neurons": Call(lambda m, x, y, f: ffb.neurons(m, x, layer=1, query=-1, key=2)),
    "run_circuit": Call(lambda m, x, y, f: ffb.run_circuit(m, x, y, circuit(m), f), pairs=True, metric=True),
    "overview": Call(lambda m, x, y, f: ffb.overview(m, x), several=False),
    "patched_maps": Call(lambda m, x, y, f: ffb.patched_maps(m, x, y, fwd_hooks=[]), pairs=True),
}
# fmt: on
ELSEWHERE = {
    "aggregation.globenc": "for encoders alone; its input is that of attention_maps",
    "capture": "the caller runs the model",
    "chat": "reads messages, not prompts",
    "check.check_model": "its numbers are errors of identities, which hold for padding too",
    "graphs.top_tokens": "takes no prompts",
    "heads.duplicate_token_scores": "makes its prompts",
    "heads.induction_scores": "makes its prompts",
    "heads.previous_token_scores": "makes its prompts",
    "heads.repeated_tokens": "makes its prompts",
    "load_model": "makes a model",
    "map_prompts": "calls a function of these for each prompt",
    "memories.ablate_neurons": "takes no prompts",
    "memories.neuron_ablation_effects": "takes triggers",
    "memories.remove_tokens": "takes triggers",
    "memories.value_tokens": "takes no prompts",
    "memory_estimate": "takes no prompts",
}
"""Public functions of a model that read no prompts of their own, each with the reason."""


def calls(wanted: Callable[[Call], object]) -> Any:
    """The calls of which something holds, as parameters."""
    return pytest.mark.parametrize("name", [name for name, call in CALLS.items() if wanted(call)])


def prompts(*lengths: int, seed: int = 0) -> list[Tensor]:
    """Token ids of prompts."""
    return [tiny.tokens("llama", n, seed=seed + number) for number, n in enumerate(lengths)]


def called(name: str, given: Any, corrupted: Any = None, metric: Any = TARGET, family: str = "llama") -> Any:
    """A call with prompts; corrupted prompts are the prompts backwards where none are given."""
    if corrupted is None:
        corrupted = [row.flip(0) for row in given] if isinstance(given, list) else given.flip(-1)
    return CALLS[name].call(model_of(family), given, corrupted, metric)


def test_every_public_call_with_prompts_has_its_row() -> None:
    """By walking the signatures, and so have pairs and metrics of prompts."""
    public = {name: function for name, function in public_functions() if takes_a_model(function)}
    assert set(public) - set(CALLS) - set(ELSEWHERE) == set(), "give the call a row of CALLS"
    for name, function in public.items():
        parameters = inspect.signature(function).parameters
        if name in CALLS and CALLS[name].several:
            assert CALLS[name].pairs == ("corrupted" in parameters), name
            assert CALLS[name].metric == bool({"target", "metric"} & set(parameters)), name


# --- padding ----------------------------------------------------------------------------------------------------

LONG, SHORT = prompts(N, N - 2)
PADDED = {
    "right": torch.stack([LONG, torch.nn.functional.pad(SHORT, (0, 2), value=PAD)]),
    "left": torch.stack([LONG, torch.nn.functional.pad(SHORT, (2, 0), value=PAD)]),
    "all, as to a largest length": torch.nn.functional.pad(torch.stack([LONG, LONG.flip(0)]), (0, 1), value=PAD),
    "end-of-text tokens": torch.stack([LONG, torch.nn.functional.pad(SHORT, (0, 2), value=EOS)]),
}


@calls(lambda call: call.several and not call.corpus)
def test_a_padded_batch_without_a_mask_is_refused(name: str) -> None:
    """On every side, in every form in which a batch of ids is given, with the remedy."""
    right = PADDED["right"]
    said = r"pad tokens? token [02] at its (end|beginning).*list of texts.*attention_mask="
    for form in (*PADDED.values(), right.numpy(), right.tolist(), [*right]):
        with pytest.raises(InputError, match=said):
            CALLS[name].call(model_of("llama"), form, right.flip(0), TARGET)


@calls(lambda call: call.pairs)
def test_padded_corrupted_prompts_are_refused(name: str) -> None:
    """As clean ones are."""
    with pytest.raises(InputError, match=r"corrupted: prompt 1 has 2 pad tokens"):
        called(name, torch.stack(prompts(N, N, seed=3)), PADDED["right"])


@calls(lambda call: call.corpus or not call.several)
def test_one_padded_prompt_is_warned_of(name: str) -> None:
    """It could be meant; one end-of-text token is not warned of."""
    row = PADDED["right"][1]
    with pytest.warns(PaddingWarning, match="2 pad tokens token 0 at its end"):
        called(name, [row] if CALLS[name].corpus else row)
    ended = torch.cat([SHORT, torch.tensor([EOS])])
    called(name, [ended] if CALLS[name].corpus else ended)


@calls(lambda call: call.several and not call.corpus)
def test_prompts_that_all_end_in_one_mark_are_read(name: str) -> None:
    """Equally many tokens, each with its end-of-text token; also one prompt alone."""
    ended = torch.stack([torch.cat([row, torch.tensor([EOS])]) for row in prompts(N, N)])
    called(name, ended, torch.cat([ended[:, :-1].flip(-1), ended[:, -1:]], dim=1))


@pytest.mark.slow
def test_real_models_padded_by_transformerlens() -> None:
    """Where the pad token is the end-of-text token, and on the left; with a mask it is as alone."""
    model = ffb.load_model("smollm2")
    texts = ["The capital of France is", "When Mary and John went to the store, John gave a drink to"]
    target = ffb.logit([" Paris", " Mary"])
    for side in ("right", "left"):
        tokens = model.to_tokens(texts, padding_side=side)
        with pytest.raises(InputError, match=r"prompt 0 has 9 pad tokens '<\|im_end\|>' at its (end|beginning)"):
            ffb.attribute(model, tokens, target, of=())
        mask = (tokens != model.tokenizer.pad_token_id).int().tolist()
        found = ffb.attribute(model, tokens, target, of=(), attention_mask=mask)
        alone = ffb.attribute(model, texts, target, of=())
        assert [one.value for one in found] == pytest.approx([one.value for one in alone], rel=1e-4)


def test_sentences_padded_by_an_encoders_tokenizer() -> None:
    """`[SEP]` at the end is no padding, `[PAD]` after it is."""
    model, texts = ffb.load_model("minilm"), ["Tokyo is the capital of Japan", "It is Tokyo"]
    assert ffb.attention_maps(model, model.tokenizer(texts[0])["input_ids"]) == ffb.attention_maps(model, texts[0])
    with pytest.raises(InputError, match=r"prompt 1 has 3 pad tokens '\[PAD\]' at its end, prompt 0 has 0"):
        ffb.attention_maps(model, model.tokenizer(texts, padding=True)["input_ids"])


# --- forms of prompts -------------------------------------------------------------------------------------------

FORMS: dict[str, Callable[[list[Tensor]], Any]] = {
    "lists of ids": lambda rows: [row.tolist() for row in rows],
    "arrays": lambda rows: [row.numpy() for row in rows],
    "tensors of 32 bits": lambda rows: [row.int() for row in rows],
    "rows [1, pos]": lambda rows: [row[None] for row in rows],
    "a tuple": tuple,
    "a generator": lambda rows: (row for row in rows),
    "an array of arrays": lambda rows: np.array([row.numpy() for row in rows], dtype=object),
    "a column": lambda rows: pd.Series([row.tolist() for row in rows], index=[5, 3]),
    "bytes of ids": lambda rows: [row.to(torch.uint8) for row in rows],
}


@calls(lambda call: call.several)
def test_prompts_of_any_form_are_the_same(name: str) -> None:
    """Ids of unequal lengths, as tokenizers, numpy and pandas hold them; in lists of results, each is as alone."""
    rows = prompts(N, N - 2)
    others = [row.flip(0) for row in rows]
    model, call, expected = model_of("llama"), CALLS[name].call, called(name, rows)
    for form in FORMS if name in ("attention_maps", "attribute") else ("lists of ids", "a column"):
        made = FORMS[form]
        assert_same(call(model, made(rows), made(others), TARGET), expected, **CLOSE)
    if isinstance(expected, list):
        assert_same(expected, [called(name, row) for row in rows], **CLOSE)


@calls(lambda call: not call.several)
def test_calls_of_one_prompt_refuse_several(name: str) -> None:
    """And read a list of numbers or an array as one."""
    row = prompts(N)[0]
    assert_same(called(name, row.tolist(), row), called(name, row), rtol=0, atol=0)
    assert_same(called(name, row.numpy(), row), called(name, row), rtol=0, atol=0)
    with pytest.raises(InputError):
        called(name, prompts(N, N))


TEXTS: dict[str, Callable[[list[str]], Any]] = {
    "a tuple of three": tuple,
    "a generator": iter,
    "values of a dict": lambda texts: dict(enumerate(texts)).values(),
    "an array": np.array,
    "a column": lambda texts: pd.Series(texts, index=[7, 5, 6]),
    "some as ids": lambda texts: [
        texts[0],
        *(ffb.load_model("minilm").tokenizer(text)["input_ids"] for text in texts[1:]),
    ],
}


@pytest.mark.parametrize("form", TEXTS)
def test_texts_of_any_form_are_the_same(form: str) -> None:
    """In their order."""
    model, texts = ffb.load_model("minilm"), ["the cat sat", "a dog", "it is a dog"]
    assert_same(ffb.attention_maps(model, TEXTS[form](texts)), ffb.attention_maps(model, texts), **CLOSE)


# fmt: off
NO_PROMPTS: dict[str, tuple[Any, str]] = {
    "a set": ({"a b", "c d"}, "input is a set"),
    "a table": (pd.DataFrame({"text": ["a b"]}), "input is a DataFrame"),
    "an empty array": (np.array([]), "ndarray of shape .* without entries"),
    "an empty row": ([[5, 6], []], r"input\[1\] is an empty list"),
    "a missing text": (["a b", None], r"input\[1\] is None"),
    "NaN of a column": (pd.Series(["a b", float("nan")]), r"input\[1\] is a float"),
    "floats": (np.array([[5.0, 6.0]]), r"input\[0\]\[0\] is a float"),
    "bytes": ([b"a b"], r"input\[0\] is a bytes"),
    "three axes": ([[[5, 6]], [[7, 8], [9, 9]]], r"input\[0\] is a list of list"),
    "no sequence at all": (object(), "input is an object"),
    "an id that is no number of 64 bits": ([2**70, 5], r"input\[0\] is an int"),
}
# fmt: on


@pytest.mark.wrong_types
@pytest.mark.parametrize("given", NO_PROMPTS)
def test_what_is_no_prompt_is_refused_by_its_entry(given: str) -> None:
    """With what is expected."""
    value, said = NO_PROMPTS[given]
    with pytest.raises(InputError, match=rf"{said}.*(expected a text, a list of texts, token ids|one text)"):
        ffb.attention_maps(model_of("llama"), value)


@pytest.mark.parametrize("form", ["tolist", "numpy", "bool", "float"])
def test_masks_of_any_form_are_the_same(form: str) -> None:
    """Also with ids as lists."""
    model, batch = model_of("llama"), PADDED["right"]
    mask = (batch != PAD).long()
    expected = ffb.attention_maps(model, batch, attention_mask=mask)
    for ids in (batch, batch.tolist()):
        assert_same(ffb.attention_maps(model, ids, attention_mask=getattr(mask, form)()), expected, rtol=0, atol=0)
    with pytest.raises(InputError, match="attention_mask with texts, or with ids of unequal lengths"):
        ffb.attention_maps(model, [LONG, SHORT], attention_mask=mask)


# --- metrics ----------------------------------------------------------------------------------------------------

ANSWERS = torch.tensor([[11, 12], [30, 40], [5, 6]])
"""Right and wrong answer of each prompt."""


def mean_difference(logits: Tensor) -> Tensor:
    """The mean over a batch, with the answers of all: of one row it is read with the answers of all."""
    rows = torch.arange(len(logits))
    return (logits[rows, -1, ANSWERS[:, 0]] - logits[rows, -1, ANSWERS[:, 1]]).mean()


class OwnAnswers(ffb.Metric):
    """A metric with answers in the order of the batch."""

    def __call__(self, logits: Tensor) -> Tensor:
        return logits[torch.arange(len(logits)), -1, ANSWERS[: len(logits), 0]]


JOINT: dict[str, Any] = {
    "a mean with all answers": mean_difference,
    "gathered answers": lambda logits: logits[:, -1].gather(1, ANSWERS).mean(),
    "as many answers as rows": lambda logits: logits[torch.arange(len(logits)), -1, ANSWERS[: len(logits), 0]],
    "probabilities": lambda logits: logits[:, -1].softmax(-1)[torch.arange(len(logits)), ANSWERS[: len(logits), 0]],
    "the largest of the batch": lambda logits: logits[:, -1, 7].max(),
    "a standardised row": lambda logits: logits[:, -1, 7] / logits[:, -1, 7].norm(),
    "a class of one's own": OwnAnswers(),
}
BY_ROW: dict[str, Callable[[Tensor], Tensor]] = {
    "one number per row": lambda logits: logits[:, -1, 7] - logits[:, -1, 9],
    "their mean": lambda logits: (logits[:, -1, 7] - logits[:, -1, 9]).mean(),
    "their sum": lambda logits: (logits[:, -1, 7] - logits[:, -1, 9]).sum(),
    "the first row": lambda logits: logits[0, -1, 7] - logits[0, -1, 9],
    "the last row": lambda logits: logits[-1, -1, 7] - logits[-1, -1, 9],
    "the only row": lambda logits: logits.squeeze(0)[-1, 7] - logits.squeeze(0)[-1, 9],
    "one that writes": lambda logits: logits.index_fill_(2, torch.tensor([3]), -1e4)[:, -1, [7, 9]].diff()[:, 0].neg(),
}


@calls(lambda call: call.metric and call.several)
def test_a_function_of_a_batch_is_refused_where_prompts_are_read_alone(name: str) -> None:
    """With the metric that has an answer per prompt; a sweep of contributions reads the whole batch."""
    for metric in (
        JOINT if name == "attribute" else ("a mean with all answers", "gathered answers", "a class of one's own")
    ):
        with pytest.raises(InputError, match=r"(?s)the metric .*prompt.*ffb\.logit\(\[\.\.\.\], minus=\[\.\.\.\]\)"):
            called(name, torch.stack(prompts(N, N, N)), metric=JOINT[metric])


@calls(lambda call: call.metric and call.several)
def test_a_function_of_each_row_is_read(name: str) -> None:
    """Its numbers are those of the metric that it spells out, for prompts of any lengths."""
    rows = prompts(N, N - 1, N)
    expected = called(name, rows)
    for metric in BY_ROW if name == "attribute" else ("their mean", "the only row"):
        found = called(name, rows, metric=BY_ROW[metric])
        if name == "causal_validation":  # which draws cells by the position that a metric reads
            np.testing.assert_allclose(found.clean, expected.clean, **CLOSE)
        else:
            assert_same(found, expected, **CLOSE)


@calls(lambda call: call.metric and call.several)
def test_a_function_of_one_prompt_is_not_checked(name: str) -> None:
    """It gets exactly one row, and an error of its own is raised as it is."""

    def failing(logits: Tensor) -> Tensor:
        assert len(logits) == 1
        raise ZeroDivisionError("of mine")

    with pytest.raises(ZeroDivisionError, match="of mine"):
        called(name, prompts(N)[0], metric=failing)


def test_the_check_costs_no_forward_pass() -> None:
    """It reads the clean logits that are computed anyway."""
    model, batch, seen = model_of("llama"), torch.stack(prompts(N, N)), []
    hook = ("blocks.0.attn.hook_z", lambda z, hook: seen.append(len(z)))
    for metric in (TARGET, BY_ROW["their mean"]):
        ffb.attribute(model, batch, metric, of=(), fwd_hooks=[hook])
    assert len(seen) == 2


def test_a_sweep_of_contributions_reads_the_whole_batch() -> None:
    """What others refuse is its documented way: the baseline is the function of all clean logits."""
    model, batch = model_of("llama"), torch.stack(prompts(N, N, N))
    runs = ffb.Contributions(model, batch)
    found = ffb.contribution_sweep(runs, mean_difference, "Attn", layers=1, queries=-1)
    with torch.no_grad():
        torch.testing.assert_close(found.baselines, mean_difference(model(batch))[None], **CLOSE)


@pytest.mark.parametrize("made", [ffb.kl_divergence, lambda logits: ffb.loss(logits.argmax(-1))])
@pytest.mark.parametrize("name", ["attribute", "activation_patching", "attention_knockout"])
def test_clean_logits_and_tokens_have_a_row_per_prompt(name: str, made: Callable[[Tensor], Any]) -> None:
    """Each prompt is compared with its own row; another number of rows is refused."""
    batch, model = torch.stack(prompts(N, N)), model_of("llama")
    with torch.no_grad():
        other = model(torch.stack(prompts(N, N, seed=5)))
    found = called(name, batch, metric=made(other))
    if isinstance(found, list):
        alone = [called(name, row, metric=made(own[None])) for row, own in zip(batch, other, strict=True)]
        assert_same(found, alone, **CLOSE)
    with pytest.raises(InputError, match=r"3 rows for 2 prompts: expected one, or one per prompt"):
        called(name, batch, metric=made(other[[0, 1, 0]]))


# fmt: off
NO_NUMBER: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "a float": (lambda logits: float(logits[0, -1, 7].detach()), "gave a float"),
    "an array": (lambda logits: logits[:, -1, 7].detach().numpy(), "gave a ndarray"),
    "a column": (lambda logits: logits[:, -1, 7:8], r"gave a tensor of shape \([1-9], 1\)"),
    "a tuple": (lambda logits: (logits[:, -1, 7],), "gave a tuple"),
    "nothing": (lambda logits: None, "gave a NoneType"),
    "complex numbers": (lambda logits: logits[:, -1, 7] * 1j, "dtype torch.complex"),
}
# fmt: on


@pytest.mark.wrong_types
@calls(lambda call: call.metric)
def test_what_is_no_number_per_row_is_refused(name: str) -> None:
    """With what it gave, of functions and of metrics of one's own."""
    for function, said in NO_NUMBER.values():
        own = type("Own", (ffb.Metric,), {"__call__": lambda self, logits, function=function: function(logits)})()
        for metric in (function, own):
            with pytest.raises(InputError, match=rf"{said}.*one real number"):
                called(name, prompts(N)[0], metric=metric)


# --- pairs ------------------------------------------------------------------------------------------------------


@calls(lambda call: call.pairs)
def test_an_equal_pair_is_warned_of_by_its_number(name: str) -> None:
    """Alone and among others, as texts of a corpus of pairs have it."""
    first, second = prompts(N, N)
    with pytest.warns(EqualPairWarning, match=r"clean\[1\] and corrupted\[1\] are the same 7 tokens: all effects"):
        called(name, [first, second], [second, second])
    undefined = pytest.raises(InputError, match="faithfulness is not defined")
    with pytest.warns(EqualPairWarning, match="clean and corrupted are the same 7 tokens"):  # noqa: SIM117
        with undefined if name == "circuit_faithfulness" else nullcontext():
            called(name, first, first)


@calls(lambda call: call.pairs)
def test_other_pairs_are_not_warned_of(name: str) -> None:
    """Nor are clean prompts that occur twice."""
    first, second = prompts(N, N)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        called(name, [first, first], [second, second])


def test_ablations_without_corrupted_prompts_are_not_warned_of() -> None:
    """There is no pair; the next prompt of a list can be the same."""
    model, rows = model_of("llama"), prompts(N, N)
    ffb.activation_patching(model, rows, None, TARGET, of="mlps", replacement="zero")
    ffb.run_circuit(model, rows, None, circuit(model), TARGET, ablation="zero")
    with pytest.warns(EqualPairWarning):
        ffb.activation_patching(model, [rows[0], rows[0]], None, TARGET, of="mlps", replacement="resample")


def test_equal_targets_have_no_normalised_effects() -> None:
    """Different prompts with one target: NaN instead of effects divided by rounding, and a warning that says so."""
    model, (first, second) = model_of("llama"), prompts(N, N)
    found = ffb.activation_patching(model, first, second, lambda logits: logits[:, 0, 7] * 0 + 3.0, of="mlps")
    with pytest.warns(
        EqualPairWarning, match="normalised is NaN: the targets of the clean and the corrupted prompt are equal, 3"
    ):
        assert bool(found.normalised["mlps"].isnan().all())
    assert "are equal" in repr(found) and found.to_dataframe()["normalised"].isna().all()
    rounded = type(found)(**{**vars(found), "clean": found.clean * (1 + 1e-7)})
    with pytest.warns(EqualPairWarning):
        assert bool(rounded.normalised["mlps"].isnan().all())


def test_means_over_pairs_with_an_equal_one_are_normalised_by_the_others() -> None:
    """Means are normalised, not each pair, so that a pair without a change does not make them NaN."""
    model, (first, second) = model_of("llama"), prompts(N, N)
    with pytest.warns(EqualPairWarning, match=r"clean\[1\]"):
        several = ffb.activation_patching(model, [first, first], [second, first], TARGET, of="mlps")
    torch.testing.assert_close(several.mean().normalised["mlps"], several[0].normalised["mlps"], **CLOSE)
