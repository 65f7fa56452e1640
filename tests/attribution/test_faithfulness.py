"""Tokens are removed as it is said, and methods are held against what that does: closed forms, Hugging Face, a planted cause."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.attribution.conftest import DIFFERENCE, assert_refused, direction, double
from tests.cases import Case, model_of
from tl_ffblock.errors import InputError, UnsupportedModelError

pytestmark = pytest.mark.filterwarnings("ignore:Hooked.* is deprecated:DeprecationWarning")  # TransformerLens 3 says so

N, HIDDEN = 6, 2
PROMPTS = torch.stack([tiny.tokens("gpt2", 12, seed) for seed in range(3)])
TOKENS, ZEROS, PLACES = PROMPTS[0], torch.zeros(3, 12), torch.arange(12).expand(3, -1)


def measured(results: Any, prompts: Tensor = PROMPTS, target: Any = DIFFERENCE, **options: Any) -> Any:
    """Methods held against removals in GPT-2."""
    return ffb.faithfulness(double("gpt2"), prompts, target, results, **options)


@cache
def shares(target: Any = DIFFERENCE) -> Any:
    """Attributions of all prompts to a target, one that there is one of."""
    return ffb.attribute(double("gpt2"), PROMPTS, target, of=())


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
    "case", [*map(Case, ("gpt2", "llama", "bert", "gptj")), Case("gpt2", "hooked"), Case("bert", "hooked")], ids=str
)
def test_a_hidden_token_is_one_that_nobody_attends_to(case: Case) -> None:
    """The effect of leaving it out is what Hugging Face's model with such a mask says, whoever computes attention."""
    family, tokens = case.name, case.tokens(N)
    result = ffb.faithfulness(case.model(torch.float64), tokens, DIFFERENCE, {"zeros": torch.zeros(N)})
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


def test_where_the_model_is_linear_the_mean_takes_exactly_the_share() -> None:
    """`f - f(without j) = <x_j - 0, df/dx_j>`: effects are the shares of "path", curves their sums, and it ranks as the effects do."""
    model, tokens = linear_model(), torch.tensor([5, 9, 13, 17, 21, 25])
    share = ffb.attribute(model, tokens, DIFFERENCE, of=())
    result = ffb.faithfulness(model, tokens, DIFFERENCE, share, removal="mean")
    torch.testing.assert_close(result.effects[0][:-1], share.tokens[:-1].double(), rtol=1e-4, atol=1e-5)
    assert result.mean("correlation", "path")[0] == pytest.approx(1)
    ordered = share.tokens[:-1].sort(descending=True).values
    most = [float(ordered[:number].sum()) for number in (1, 2, 3)]
    least = [float(ordered[-number:].sum()) for number in (1, 2, 3)]
    torch.testing.assert_close(result.curves[0, :, 0], torch.tensor([most, least]).double(), rtol=1e-4, atol=1e-5)
    area = sum(most) / 3 - sum(least) / 3
    assert result.mean("area", "path")[0] == pytest.approx(area, rel=1e-4)
    assert result.mean("MoRF", "path")[0] - result.mean("LeRF", "path")[0] == pytest.approx(area, rel=1e-4)


def test_a_planted_cause_has_the_first_rank() -> None:
    """The token whose embedding writes the answer; scores that put it second give one half."""
    model, tokens = linear_model(), torch.tensor([5, 9, 13, 17, 21])
    share = ffb.attribute(model, tokens, DIFFERENCE, of=())
    planted = int(share.tokens[:-1].argmax())
    second = torch.zeros(5)
    second[planted], second[(planted + 1) % 4] = 1, 2
    result = ffb.faithfulness(
        model, tokens, DIFFERENCE, {"path": share, "second": second}, removal="mean", cause=planted
    )
    assert result.mean("cause", "path")[0] == result.mean("cause", "leave one out")[0] == 1
    assert result.mean("cause", "second")[0] == 0.5
    assert result.compare("cause", "path", "second")[0] == 0.5


def test_each_prompt_is_its_own_run_and_answer() -> None:
    """Prompts together are prompts alone; the effects know their own order; the same seed gives the same numbers."""
    target = ffb.logit([7, 9, 8], minus=11)
    together, again = (measured(results, target=target) for results in (shares(target), {"path": shares(target)}))
    torch.testing.assert_close(together.curves, again.curves, rtol=0, atol=0)
    for number, answer in enumerate((7, 9, 8)):
        alone = measured(shares(target)[number], PROMPTS[number], ffb.logit(answer, minus=11))
        torch.testing.assert_close(together.effects[number], alone.effects[0], equal_nan=True)
        torch.testing.assert_close(together.by_prompt["area"][:2, number], alone.by_prompt["area"][:2, 0])
    assert together.mean("correlation", "leave one out") == (1, 1, 1)
    assert together.methods == ("path", "leave one out", "random", "recency")
    path, recency = (together.mean("correlation", method)[0] for method in ("path", "recency"))
    assert together.compare("correlation", "path", "recency")[0] == pytest.approx(path - recency)


def test_random_scores_are_of_the_prompt_and_the_seed() -> None:
    """A list and its prompts one by one have the same numbers; other prompts, and other seeds, have other ones."""
    together = measured({"zeros": ZEROS})
    for number in (2, 0):
        alone = measured({"zeros": ZEROS[number]}, PROMPTS[number])
        for measure in ("correlation", "MoRF", "LeRF", "area"):
            torch.testing.assert_close(together.by_prompt[measure][:, [number]], alone.by_prompt[measure])
    other = measured({"zeros": ZEROS}, seed=1)
    assert not torch.equal(other.by_prompt["area"][-2], together.by_prompt["area"][-2])
    drawn = together.by_prompt["correlation"][together.methods.index("random")]
    assert drawn.tolist() == pytest.approx([-2 / 110, -35 / 110, 20 / 110], abs=1e-4), "those of any process"


def test_scores_that_say_nothing_count_as_nothing() -> None:
    """Equal scores have correlation 0 and are not left out of the mean, and their order is not that of the text."""
    result = measured({"zeros": ZEROS, "place": PLACES})
    assert result.by_prompt["correlation"][0].tolist() == [0, 0, 0]
    torch.testing.assert_close(result.by_prompt["area"][1], result.by_prompt["area"][-1])
    reversed_text = measured({"place": -PLACES})
    assert not torch.equal(result.by_prompt["area"][0], result.by_prompt["area"][1])
    assert not torch.equal(result.by_prompt["area"][0], reversed_text.by_prompt["area"][0])


def test_a_direction_is_read_in_the_edited_runs() -> None:
    """At its layer and position, which is no candidate, and neither is what comes behind it."""
    target = direction(1, at=3, seed=1)
    share = ffb.attribute(double("gpt2"), TOKENS, target, of=())
    result = measured({"path": share}, TOKENS, target)
    assert result.effects[0].isnan().nonzero()[:, 0].tolist() == list(range(3, 12))
    assert float(result.values[0]) == pytest.approx(share.value)
    inputs = measured({"path": share.tokens}, TOKENS, direction(0, at=3, seed=1))
    assert inputs.effects[0][:3].tolist() == pytest.approx([0, 0, 0], abs=1e-12)  # sums of another batch shape
    assert bool(inputs.by_prompt["correlation"].isnan().all())


def test_tables_say_what_the_result_says() -> None:
    """One row a method and measure, a prompt, or a point of a curve."""
    result = measured({"place": PLACES}, keys=[2, 3, 4, 5])
    table, alone, curves = result.to_dataframe(), result.to_dataframe(by_prompt=True), result.curves_dataframe()
    row = table[(table["method"] == "place") & (table["measure"] == "area")].iloc[0]
    assert tuple(row[["value", "low", "high"]]) == pytest.approx(result.mean("area", "place"))
    assert "cause" not in set(table["measure"])
    areas = alone[(alone["method"] == "place") & (alone["measure"] == "area")]["value"]
    assert areas.mean() == pytest.approx(row["value"])
    most = curves[(curves["method"] == "place") & (curves["order"] == "MoRF")]["value"].mean()
    assert most == pytest.approx(result.mean("MoRF", "place")[0])
    assert "place" in repr(result)
    assert result.effects[0].isfinite().nonzero()[:, 0].tolist() == [2, 3, 4, 5]


def attributed_otherwise(target: Any = DIFFERENCE, model: Any = None, **options: Any) -> Any:
    """An attribution of the first prompt."""
    return ffb.attribute(model or double("gpt2"), TOKENS, target, of=(), **options)


def second_of_another(target: Any) -> Any:
    """Attributions of all prompts of which the second is of another target."""
    second = ffb.attribute(double("gpt2"), PROMPTS[1], target, of=())
    return measured({"mine": [shares()[0], second, shares()[2]]})


def changed(dtype: torch.dtype, change: Callable[[Tensor], Any], which: Callable[[str, Tensor], bool]) -> Any:
    """A GPT-2 of other weights."""
    model = tiny.bridge("gpt2", dtype=dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if which(name, parameter):
                change(parameter)
    return model


def embeds(name: str, parameter: Tensor) -> bool:
    """Whether a matrix of embeddings."""
    return "wte" in name or "embed" in name


HOOK = ("blocks.1.hook_resid_pre", lambda x, hook: x + 0.01 * x.flip(-1))
OTHERS = r"of the same target, of the same model without hooks"
# fmt: off
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a method's reserved name": (lambda: measured({"random": ZEROS}), "other names"),
    "too few prompts": (lambda: measured({"mine": ZEROS[:2]}), "scores of 2 prompts: expected 3"),
    "a target's place": (lambda: measured({"mine": ZEROS}, keys=[11]), "target is read"),
    "one place": (lambda: measured({"mine": ZEROS}, keys=[3]), "at least two"),
    "a cause that is no candidate": (lambda: measured({"mine": ZEROS}, cause=11), "expected one of the candidates"),
    "two causes of three": (lambda: measured({"mine": ZEROS}, cause=[1, 2]), r"cause=\[1, 2\]: 2 positions of 3 prompts"),
    "a constant": (lambda: measured({"mine": ZEROS}, target=lambda logits: logits.sum() * 0), "derivative by the logits of a prompt is zero"),
    "a step": (lambda: measured({"mine": ZEROS}, target=lambda logits: (logits[:, -1] > 0).sum().float()[None]), "no derivative"),
    "several rules": (lambda: measured([*shares()[:-1], ffb.attribute(double("gpt2"), PROMPTS[-1], DIFFERENCE, rules="patching")]), "with rules 'patching', 'path'.* the same rules"),
    "another text": (lambda: measured({"mine": shares()[::-1]}), "another text"),
    "a logit": (lambda: second_of_another(ffb.logit(7)), r"results\['mine'\]\[1\] attributes .*logit token 7 = .* reads logit difference token 7 - token 11 = "),
    "another difference": (lambda: second_of_another(ffb.logit(7, minus=12)), r"token 7 - token 12 = .*token 7 - token 11 = "),
    "another position": (lambda: second_of_another(ffb.logit(7, minus=11, at=-2)), r"token 7 - token 11 at -2 = .*token 7 - token 11 = "),
    "another factor": (lambda: second_of_another(lambda logits: 1.001 * (logits[:, -1, 7] - logits[:, -1, 11])), r"metric = .* of GPT2LMHeadModel"),
    "a direction": (lambda: second_of_another(direction(1)), r"direction at the input of layer 1 = "),
    "hooks": (lambda: measured(attributed_otherwise(fwd_hooks=[HOOK]), TOKENS), OTHERS),
    "other weights": (lambda: measured(attributed_otherwise(model=changed(torch.float64, lambda w: w.mul_(1.01), embeds)), TOKENS), OTHERS),
    "NaN": (lambda: ffb.faithfulness(changed(torch.float32, lambda w: w.fill_(float("nan")), embeds), PROMPTS, DIFFERENCE, {"mine": ZEROS}), "has NaN or infinity"),
}
# fmt: on


@pytest.mark.wrong_types
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_compared_is_refused(name: str) -> None:
    """Scores and places that are none; attributions of another text, target, model or run, with both targets and their values."""
    call, said = REFUSED[name]
    assert_refused(call, InputError, said)


def test_numbers_are_scores_of_any_target() -> None:
    """Also an attribution's; and the same weights in float32 are the same model."""
    others = [ffb.attribute(double("gpt2"), prompt, ffb.logit(7), of=()).tokens for prompt in PROMPTS]
    assert measured({"mine": others}).methods[0] == "mine"
    assert attributed_otherwise(model=model_of("gpt2")).value != attributed_otherwise().value
    ffb.faithfulness(model_of("gpt2"), TOKENS, DIFFERENCE, attributed_otherwise())


def test_other_tokens_of_the_same_value_are_another_target() -> None:
    """Where two tokens have the same logit, words tell their targets apart; a function of one's own is known by its value alone."""

    def twin(matrix: Tensor) -> None:
        matrix[12] = matrix[11]

    def of_words(name: str, parameter: Tensor) -> bool:
        return parameter.shape[0] == tiny.VOCAB and (embeds(name, parameter) or "lm_head" in name)

    model = changed(torch.float64, twin, of_words)
    shared = {minus: attributed_otherwise(ffb.logit(7, minus=minus), model) for minus in (11, 12)}
    assert shared[11].value == shared[12].value
    said = r"token 7 - token 12 = .* reads logit difference token 7 - token 11 = "
    assert_refused(lambda: ffb.faithfulness(model, TOKENS, DIFFERENCE, shared[12]), InputError, said)
    own = lambda logits: logits[:, -1, 7] - logits[:, -1, 11]  # noqa: E731
    assert ffb.faithfulness(model, TOKENS, own, shared[11]).target == "metric"


def test_a_model_that_does_not_hide_tokens_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Hugging Face computes attention its mask hides them; a mask that is not read is refused, and the mean works."""
    given = model_of("opt"), tiny.tokens("opt", N), DIFFERENCE, {"zeros": torch.zeros(N)}
    for removal in ("mask", "mean"):
        assert bool(ffb.faithfulness(*given, removal=removal).effects[0][:-1].isfinite().all())
    monkeypatch.setattr("tl_ffblock.bridge.edited._mask_inside", lambda *_, **__: None)
    assert_refused(lambda: ffb.faithfulness(*given), UnsupportedModelError, 'removal="mean"')


def test_rounding_is_not_ranked() -> None:
    """Gradient x input before a norm of the embeddings is zero by scale invariance: no order, no measures, and it is said."""
    model, tokens = model_of("bert"), torch.stack([tiny.tokens("bert", N, seed) for seed in (0, 1)])
    methods = {rules: ffb.attribute(model, tokens, DIFFERENCE, rules=rules) for rules in ("path", "gradient")}
    result = ffb.faithfulness(model, tokens, DIFFERENCE, methods, removal="mean", cause=2)
    for measure, by_method in result.by_prompt.items():
        assert by_method[result.methods.index("gradient")].isnan().all(), measure
    assert result.curves[1].isnan().all() and not result.curves[[0, 2, 3, 4]].isnan().any()
    assert "gradient in 2 of 2 prompts: gradient x input before a norm of the embeddings" in repr(result)
    alone = ffb.faithfulness(model, tokens, DIFFERENCE, {"path": methods["path"]}, removal="mean", cause=2)
    torch.testing.assert_close(alone.curves[0], result.curves[0])
    assert "not ranked" not in repr(alone)
    assert "gradient" not in set(result.to_dataframe(by_prompt=True)["method"])
