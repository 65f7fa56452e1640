"""Tokens are removed as it is said, and methods are held against what that does: closed forms, Hugging Face, a planted cause."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny

pytestmark = pytest.mark.filterwarnings("ignore:Hooked.* is deprecated:DeprecationWarning")  # TransformerLens 3 says so

Models = Callable[..., Any]
N, HIDDEN = 6, 2


def hugging_face_without(family: str, tokens: Tensor, at: int) -> Tensor:
    """Logits [pos d_vocab] of Hugging Face's own model when no other position attends to one, by its mask [query key]."""
    model = tiny.hf_model(family, dtype=torch.float64)
    allowed = torch.ones(N, N, dtype=torch.bool)
    if family != "bert":
        allowed = allowed.tril()
    allowed[:, at] = False
    allowed[at, at] = True
    mask = torch.zeros(1, 1, N, N, dtype=torch.float64).masked_fill(~allowed, torch.finfo(torch.float64).min)
    with torch.no_grad():
        return model(input_ids=tokens[None], attention_mask=mask).logits[0]


@pytest.mark.parametrize(
    ("family", "api"),
    [
        ("gpt2", "bridge"),
        ("llama", "bridge"),
        ("bert", "bridge"),
        ("gptj", "bridge"),
        ("gpt2", "hooked"),
        ("bert", "hooked"),
    ],
)
def test_a_hidden_token_is_one_that_nobody_attends_to(
    ffb: ModuleType, model_of_any: Models, difference: Any, family: str, api: str
) -> None:
    """The effect of leaving it out is what Hugging Face's model with such a mask says, whoever computes attention."""
    model, tokens = model_of_any(family, api, dtype=torch.float64), tiny.tokens(family, N)
    result = ffb.faithfulness(model, tokens, difference, {"zeros": torch.zeros(N)})
    without = hugging_face_without(family, tokens, HIDDEN)[-1]
    expected = result.values[0] - (without[7] - without[11])
    assert float(result.effects[0][HIDDEN]) == pytest.approx(float(expected), abs=1e-9)
    assert result.effects[0].isnan().nonzero().tolist() == [[N - 1]]


def linear_model() -> Any:
    """Uniform attention alone, no norms, no positions, embeddings of mean zero: the logits are linear in the embeddings."""
    model = tiny.toy("attn_only_no_norms", "bridge")
    with torch.no_grad():
        for name, parameter in model.original_model.named_parameters():
            if ".q." in name or ".k." in name or "W_Q" in name or "W_K" in name or "pos" in name:
                parameter.zero_()
        model.W_E.data -= model.W_E.mean(dim=0)
    return model


def test_where_the_model_is_linear_the_mean_takes_exactly_the_share(ffb: ModuleType, difference: Any) -> None:
    """`f - f(without j) = <x_j - 0, df/dx_j>`: effects are the shares of "path", curves their sums, and it ranks as the effects do."""
    model, tokens = linear_model(), torch.tensor([5, 9, 13, 17, 21, 25])
    share = ffb.attribute(model, tokens, difference, of=())
    result = ffb.faithfulness(model, tokens, difference, share, removal="mean")
    torch.testing.assert_close(result.effects[0][:-1], share.tokens[:-1].double(), rtol=1e-4, atol=1e-5)
    assert result.mean("correlation", "path")[0] == pytest.approx(1)
    ordered = share.tokens[:-1].sort(descending=True).values
    most = [float(ordered[:number].sum()) for number in (1, 2, 3)]
    least = [float(ordered[-number:].sum()) for number in (1, 2, 3)]
    torch.testing.assert_close(result.curves[0, :, 0], torch.tensor([most, least]).double(), rtol=1e-4, atol=1e-5)
    area = sum(most) / 3 - sum(least) / 3
    assert result.mean("area", "path")[0] == pytest.approx(area, rel=1e-4)
    assert result.mean("MoRF", "path")[0] - result.mean("LeRF", "path")[0] == pytest.approx(area, rel=1e-4)


def test_a_planted_cause_has_the_first_rank(ffb: ModuleType, difference: Any) -> None:
    """The token whose embedding writes the answer; scores that put it second give one half."""
    model, tokens = linear_model(), torch.tensor([5, 9, 13, 17, 21])
    share = ffb.attribute(model, tokens, difference, of=())
    planted = int(share.tokens[:-1].argmax())
    second = torch.zeros(5)
    second[planted], second[(planted + 1) % 4] = 1, 2
    result = ffb.faithfulness(
        model, tokens, difference, {"path": share, "second": second}, removal="mean", cause=planted
    )
    assert result.mean("cause", "path")[0] == result.mean("cause", "leave one out")[0] == 1
    assert result.mean("cause", "second")[0] == 0.5
    assert result.compare("cause", "path", "second")[0] == 0.5


@pytest.fixture(scope="module")
def model() -> Any:
    """A float64 GPT-2."""
    return tiny.bridge("gpt2", dtype=torch.float64)


@pytest.fixture(scope="module")
def prompts() -> Tensor:
    """Token ids [batch pos]."""
    return torch.stack([tiny.tokens("gpt2", 12, seed) for seed in range(3)])


def test_each_prompt_is_its_own_run_and_answer(ffb: ModuleType, model: Any, prompts: Tensor) -> None:
    """Prompts together are prompts alone; the effects know their own order; the same seed gives the same numbers."""
    target = ffb.logit([7, 9, 8], minus=11)
    results = ffb.attribute(model, prompts, target, of=())
    together = ffb.faithfulness(model, prompts, target, results)
    again = ffb.faithfulness(model, prompts, target, {"path": results})
    torch.testing.assert_close(together.curves, again.curves, rtol=0, atol=0)
    for number, answer in enumerate((7, 9, 8)):
        alone = ffb.faithfulness(model, prompts[number], ffb.logit(answer, minus=11), results[number])
        torch.testing.assert_close(together.effects[number], alone.effects[0], equal_nan=True)
        torch.testing.assert_close(together.by_prompt["area"][:2, number], alone.by_prompt["area"][:2, 0])
    assert together.mean("correlation", "leave one out") == (1, 1, 1)
    assert together.methods == ("path", "leave one out", "random", "recency")
    difference = together.compare("correlation", "path", "recency")[0]
    assert difference == pytest.approx(
        together.mean("correlation", "path")[0] - together.mean("correlation", "recency")[0]
    )


def test_random_scores_are_of_the_prompt_and_the_seed(
    ffb: ModuleType, model: Any, prompts: Tensor, difference: Any
) -> None:
    """A list and its prompts one by one have the same numbers; other prompts, and other seeds, have other ones."""
    scores = torch.zeros(3, 12)
    together = ffb.faithfulness(model, prompts, difference, {"zeros": scores})
    for number in (2, 0):
        alone = ffb.faithfulness(model, prompts[number], difference, {"zeros": scores[number]})
        for measure in ("correlation", "MoRF", "LeRF", "area"):
            torch.testing.assert_close(together.by_prompt[measure][:, [number]], alone.by_prompt[measure])
    other = ffb.faithfulness(model, prompts, difference, {"zeros": scores}, seed=1)
    assert not torch.equal(other.by_prompt["area"][-2], together.by_prompt["area"][-2])
    drawn = together.by_prompt["correlation"][together.methods.index("random")]
    assert drawn.tolist() == pytest.approx([-2 / 110, -35 / 110, 20 / 110], abs=1e-4), "those of any process"


def test_scores_that_say_nothing_count_as_nothing(
    ffb: ModuleType, model: Any, prompts: Tensor, difference: Any
) -> None:
    """Equal scores have correlation 0 and are not left out of the mean, and their order is not that of the text."""
    scores = {"zeros": torch.zeros(3, 12), "place": torch.arange(12).expand(3, -1)}
    result = ffb.faithfulness(model, prompts, difference, scores)
    assert result.by_prompt["correlation"][0].tolist() == [0, 0, 0]
    torch.testing.assert_close(result.by_prompt["area"][1], result.by_prompt["area"][-1])
    reversed_text = ffb.faithfulness(model, prompts, difference, {"place": -torch.arange(12).expand(3, -1)})
    assert not torch.equal(result.by_prompt["area"][0], result.by_prompt["area"][1])
    assert not torch.equal(result.by_prompt["area"][0], reversed_text.by_prompt["area"][0])


def test_a_direction_is_read_in_the_edited_runs(ffb: ModuleType, model_of_any: Models) -> None:
    """At its layer and position, which is no candidate, and neither is what comes behind it."""
    model, tokens = model_of_any("gpt2", dtype=torch.float64), tiny.tokens("gpt2", N)
    vector = torch.randn(32, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    target = ffb.direction(vector, layer=1, at=3)
    share = ffb.attribute(model, tokens, target, of=())
    result = ffb.faithfulness(model, tokens, target, {"path": share})
    assert result.effects[0].isnan().nonzero()[:, 0].tolist() == [3, 4, 5]
    assert float(result.values[0]) == pytest.approx(share.value)
    inputs = ffb.faithfulness(model, tokens, ffb.direction(vector, layer=0, at=3), {"path": share.tokens})
    assert inputs.effects[0][:3].tolist() == pytest.approx([0, 0, 0], abs=1e-12)  # sums of another batch shape
    assert bool(inputs.by_prompt["correlation"].isnan().all())


def test_tables_say_what_the_result_says(ffb: ModuleType, model: Any, prompts: Tensor, difference: Any) -> None:
    """One row a method and measure, a prompt, or a point of a curve."""
    result = ffb.faithfulness(model, prompts, difference, {"place": torch.arange(12).expand(3, -1)}, keys=[2, 3, 4, 5])
    table = result.to_dataframe()
    row = table[(table["method"] == "place") & (table["measure"] == "area")].iloc[0]
    assert tuple(row[["value", "low", "high"]]) == pytest.approx(result.mean("area", "place"))
    assert "cause" not in set(table["measure"])
    alone = result.to_dataframe(by_prompt=True)
    assert alone[(alone["method"] == "place") & (alone["measure"] == "area")]["value"].mean() == pytest.approx(
        row["value"]
    )
    curves = result.curves_dataframe()
    most = curves[(curves["method"] == "place") & (curves["order"] == "MoRF")]["value"].mean()
    assert most == pytest.approx(result.mean("MoRF", "place")[0])
    assert "place" in repr(result)
    assert result.effects[0].isfinite().nonzero()[:, 0].tolist() == [2, 3, 4, 5]


def test_nothing_stays_behind(ffb: ModuleType, model: Any, prompts: Tensor, difference: Any) -> None:
    """The model runs as before."""
    before = model(prompts)
    ffb.faithfulness(model, prompts, difference, {"zeros": torch.zeros(3, 12)})
    ffb.faithfulness(model, prompts, difference, {"zeros": torch.zeros(3, 12)}, removal="mean")
    assert torch.equal(model(prompts), before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(removal="token"), 'expected "mask"'),
        (dict(results={}), "no method"),
        (dict(results={"random": torch.zeros(3, 12)}), "other names"),
        (dict(results={"mine": torch.zeros(2, 12)}), "2 prompts, there are 3"),
        (dict(results={"mine": torch.zeros(3, 11)}), "score for each of 12"),
        (dict(results={"mine": torch.full((3, 12), float("nan"))}), "finite"),
        (dict(results=[1, 2, 3]), "results holds int .*: expected Attributions"),
        (dict(keys=[11]), "target is read"),
        (dict(keys=[3]), "two at least"),
        (dict(cause=11), "expected one of the candidates"),
        (dict(cause=[1, 2]), r"cause=\[1, 2\]: 2 positions of 3 prompts; expected one per prompt"),
        (dict(target=lambda logits: logits.sum() * 0), "derivative by the logits of a prompt is zero"),
        (dict(target=lambda logits: (logits[:, -1] > 0).sum().float()[None]), "no derivative"),
    ],
)
@pytest.mark.wrong_types
def test_clear_errors(
    ffb: ModuleType, model: Any, prompts: Tensor, difference: Any, change: dict[str, Any], message: str
) -> None:
    """What cannot be used is said."""
    given = dict(target=difference, results={"mine": torch.zeros(3, 12)}) | change
    with pytest.raises(ffb.errors.InputError, match=message):
        ffb.faithfulness(model, prompts, given.pop("target"), given.pop("results"), **given)


def test_attributions_by_several_rules_in_one_list_are_refused(
    ffb: ModuleType, model: Any, prompts: Tensor, difference: Any
) -> None:
    """A list is one method's."""
    results = ffb.attribute(model, prompts, difference, of=())
    last = ffb.attribute(model, prompts[-1], difference, rules="patching", of=())
    with pytest.raises(
        ffb.errors.InputError, match="by rules 'patching', 'path': expected Attributions by the same rules"
    ):
        ffb.faithfulness(model, prompts, difference, [*results[:-1], last])


def test_a_model_of_nan_is_refused(ffb: ModuleType, prompts: Tensor, difference: Any) -> None:
    """By what is wrong with it, not as one that cannot hide tokens."""
    model = tiny.bridge("gpt2")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "wte" in name or "embed" in name:
                parameter.fill_(float("nan"))
    with pytest.raises(ffb.errors.InputError, match="holds NaN or infinity"):
        ffb.faithfulness(model, prompts, difference, {"mine": torch.zeros(3, 12)})


def test_results_of_another_text_are_refused(ffb: ModuleType, model: Any, prompts: Tensor, difference: Any) -> None:
    """Their labels are others."""
    results = ffb.attribute(model, prompts, difference, of=())
    with pytest.raises(ffb.errors.InputError, match="another text"):
        ffb.faithfulness(model, prompts, difference, {"mine": results[::-1]})


@pytest.mark.parametrize(
    ("made_for", "message"),
    [
        (lambda ffb: ffb.logit(7), r"logit token 7 = .* removed from is logit difference token 7 − token 11 = "),
        (lambda ffb: ffb.logit(7, minus=12), r"logit difference token 7 − token 12 = .*token 7 − token 11 = "),
        (lambda ffb: ffb.logit(7, minus=11, at=-2), r"logit difference token 7 − token 11 = .*token 7 − token 11 = "),
        (lambda ffb: lambda logits: 1.001 * (logits[:, -1, 7] - logits[:, -1, 11]), r"metric = .* of external"),
        (lambda ffb: ffb.direction(torch.ones(32), layer=1), r"direction at the input of layer 1 = "),
    ],
)
def test_attributions_of_another_target_are_refused(
    ffb: ModuleType, model: Any, prompts: Tensor, difference: Any, made_for: Callable[..., Any], message: str
) -> None:
    """The error names the first that is, both targets and their values; as numbers they are scores like others."""
    results = ffb.attribute(model, prompts, difference, of=())
    results[1] = ffb.attribute(model, prompts[1], made_for(ffb), of=())
    with pytest.raises(ffb.errors.InputError, match=rf"results\['mine'\]\[1\] attributes .*{message}"):
        ffb.faithfulness(model, prompts, difference, {"mine": results})
    numbers = ffb.faithfulness(model, prompts, difference, {"mine": [result.tokens for result in results]})
    assert numbers.methods[0] == "mine"


def test_other_tokens_of_the_same_value_are_another_target(ffb: ModuleType, model_of_any: Models) -> None:
    """Where two tokens have the same logit, words tell their targets apart; a function of one's own is known by its value alone."""
    model, tokens = model_of_any("gpt2"), tiny.tokens("gpt2", N)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.shape[0] == model.cfg.d_vocab and ("wte" in name or "embed" in name or "lm_head" in name):
                parameter[12] = parameter[11]
    shared = {minus: ffb.attribute(model, tokens, ffb.logit(7, minus=minus), of=()) for minus in (11, 12)}
    assert shared[11].value == shared[12].value
    with pytest.raises(
        ffb.errors.InputError, match=r"token 7 − token 12 = .* removed from is logit difference token 7 − token 11 = "
    ):
        ffb.faithfulness(model, tokens, ffb.logit(7, minus=11), shared[12])
    own = lambda logits: logits[:, -1, 7] - logits[:, -1, 11]  # noqa: E731
    assert ffb.faithfulness(model, tokens, own, shared[11]).target == "metric"


def test_attributions_of_another_model_are_refused(
    ffb: ModuleType, model: Any, prompts: Tensor, difference: Any
) -> None:
    """One whose weights, or a hook of whose run, give the target another value; the same weights in float32 are the same model."""
    tokens = prompts[0]
    single = ffb.attribute(tiny.bridge("gpt2"), tokens, difference, of=())
    assert single.value != ffb.attribute(model, tokens, difference, of=()).value
    ffb.faithfulness(tiny.bridge("gpt2"), tokens, difference, ffb.attribute(model, tokens, difference, of=()))
    hook = ("blocks.1.hook_resid_pre", lambda x, hook: x + 0.01 * x.flip(-1))
    under_hooks = ffb.attribute(model, tokens, difference, fwd_hooks=[hook], of=())
    other = tiny.bridge("gpt2", dtype=torch.float64)
    with torch.no_grad():
        next(iter(other.parameters())).mul_(1.01)
    for wrong in (under_hooks, ffb.attribute(other, tokens, difference, of=())):
        with pytest.raises(ffb.errors.InputError, match=r"of the same target, of the same model without hooks"):
            ffb.faithfulness(model, tokens, difference, wrong)


def test_a_model_that_cannot_hide_tokens_is_refused(ffb: ModuleType, model_of_any: Models, difference: Any) -> None:
    """OPT's bridge computes attention before its HookPoints fire, and takes no mask by query and key; the mean works."""
    model, tokens = model_of_any("opt"), tiny.tokens("opt", N)
    scores = {"zeros": torch.zeros(N)}
    with pytest.raises(ffb.errors.UnsupportedModelError, match='removal="mean"'):
        ffb.faithfulness(model, tokens, difference, scores)
    assert bool(ffb.faithfulness(model, tokens, difference, scores, removal="mean").effects[0][:-1].isfinite().all())


def test_rounding_is_not_ranked(ffb: ModuleType, model_of: Models, difference: Any) -> None:
    """Gradient x input before a norm of the embeddings is zero by scale invariance: no order, no measures, and it is said."""
    model, tokens = model_of("bert"), torch.stack([tiny.tokens("bert", N, seed) for seed in (0, 1)])
    methods = {rules: ffb.attribute(model, tokens, difference, rules=rules) for rules in ("path", "gradient")}
    result = ffb.faithfulness(model, tokens, difference, methods, removal="mean", cause=2)
    for measure, by_method in result.by_prompt.items():
        assert by_method[result.methods.index("gradient")].isnan().all(), measure
    assert result.curves[1].isnan().all() and not result.curves[[0, 2, 3, 4]].isnan().any()
    assert "gradient in 2 of 2 prompts: gradient x input before a norm of the embeddings" in repr(result)
    alone = ffb.faithfulness(model, tokens, difference, {"path": methods["path"]}, removal="mean", cause=2)
    torch.testing.assert_close(alone.curves[0], result.curves[0])
    assert "not ranked" not in repr(alone)
    assert "gradient" not in set(result.to_dataframe(by_prompt=True)["method"])
