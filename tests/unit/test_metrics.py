"""A metric is a function of logits: what it reads is what softmax, sorting and subtraction by hand give."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tl_ffblock import errors
from tl_ffblock.metrics import (
    CleanRun,
    Metric,
    as_metric,
    kl_divergence,
    logit,
    logit_difference,
    loss,
    probability,
    rank,
)

N_RUNS, LENGTH, VOCABULARY = 3, 4, 11


@pytest.fixture
def logits() -> Tensor:
    """Runs of random logits."""
    return torch.randn(N_RUNS, LENGTH, VOCABULARY, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tiny model with a word-level tokenizer."""
    folder = tiny.save_local("gpt2", tmp_path_factory.mktemp("speaking"), ("the cat sat on the mat",))
    return ffb.load_model(str(folder))


def clean_run(number: int, logits: Tensor) -> CleanRun:
    """A prompt's clean run with given logits."""
    return CleanRun(number, torch.arange(logits.shape[0]), logits)


@pytest.mark.parametrize("at", [-1, 1])
def test_what_is_read_is_what_a_hand_reads(logits: Tensor, at: int) -> None:
    """Logit, difference, probability and rank of one token, at any position."""
    rows = logits[:, at]
    torch.testing.assert_close(logit(7, at=at)(logits), rows[:, 7])
    torch.testing.assert_close(logit(7, minus=9, at=at)(logits), rows[:, 7] - rows[:, 9])
    assert float(logit(7, at=at).mean(logits)) == float(rows[:, 7].mean())
    torch.testing.assert_close(probability(7, at=at)(logits).float(), rows.softmax(-1)[:, 7])
    order = rows.argsort(dim=-1, descending=True)
    torch.testing.assert_close(rank(7, at=at)(logits), 1.0 + (order == 7).nonzero()[:, 1])


def test_several_tokens_are_one_answer(logits: Tensor) -> None:
    """The mean of logits, the sum of probabilities, the best rank; a token named twice counts once in all of them."""
    answer = [[7, 2]] * N_RUNS
    rows = logits[:, -1]
    torch.testing.assert_close(logit(answer)(logits), rows[:, [7, 2]].mean(-1))
    torch.testing.assert_close(probability(answer)(logits).float(), rows.softmax(-1)[:, [7, 2]].sum(-1))
    assert probability([[7, 7]] * N_RUNS)(logits).equal(probability(7)(logits))
    assert logit([[7, 7, 2]] * N_RUNS)(logits).equal(logit(answer)(logits))
    assert rank(answer)(logits).equal(torch.minimum(rank(7)(logits), rank(2)(logits)))
    assert float(probability([list(range(VOCABULARY))] * N_RUNS)(logits).mean()) == pytest.approx(1)


@pytest.mark.parametrize("metric_of", [logit, probability, rank])
def test_a_list_has_an_entry_a_prompt(logits: Tensor, metric_of: Callable[..., Metric]) -> None:
    """Row i is read with prompt i's answer; the runs of one prompt are all read with its own."""
    answers = [7, 9, 2]
    metric = metric_of(torch.tensor(answers))
    values = metric(logits)
    for number, answer in enumerate(answers):
        assert float(values[number]) == float(metric_of(answer)(logits)[number])
        of_prompt = metric.of_prompt(clean_run(number, logits[number]))
        assert of_prompt(logits).equal(metric_of(answer)(logits))


def test_a_difference_is_linear_and_has_a_gradient(logits: Tensor) -> None:
    """Gradient times logits is the difference itself (Euler), so it can be attributed; a ratio of odds in log is the same."""
    logits = logits.double().requires_grad_()
    metric = logit([7, 2, [1, 3]], minus=[9, 9, 4])
    metric(logits).sum().backward()
    torch.testing.assert_close((logits.grad * logits).sum((1, 2)), metric(logits))
    odds = probability(7)(logits).log() - probability(9)(logits).log()
    torch.testing.assert_close(logit_difference(7, 9)(logits), odds)


def test_a_logit_over_the_mean_is_centred(logits: Tensor) -> None:
    """What all tokens share cancels; the token "mean" is passed as its id."""
    metric = logit(3, minus="mean")
    assert torch.equal(metric(logits), logits[:, -1, 3] - logits[:, -1].mean(dim=-1))
    torch.testing.assert_close(metric(logits + 5), metric(logits))
    assert metric.name != logit(3).name
    with pytest.raises(errors.InputError, match="expected token ids or a model's tokenizer"):
        logit(3, minus=["mean"])(logits)


def test_what_compares_with_the_clean_run_is_given_it(logits: Tensor) -> None:
    """Divergence from the clean run and loss on the prompt: the same whether given at once or by who runs the model."""
    clean, tokens = logits[:1], torch.arange(LENGTH)
    run = CleanRun(0, tokens, clean[0])
    torch.testing.assert_close(kl_divergence(clean)(logits), kl_divergence().of_prompt(run)(logits))
    torch.testing.assert_close(loss(tokens[None])(logits), loss().of_prompt(run)(logits))
    by_hand = torch.nn.functional.kl_div(
        logits[1, -1].double().log_softmax(-1), clean[0, -1].double().log_softmax(-1), reduction="sum", log_target=True
    )
    torch.testing.assert_close(kl_divergence(clean)(logits)[1], by_hand)
    entropy = torch.nn.functional.cross_entropy(logits[2, :-1].double(), tokens[1:])
    torch.testing.assert_close(loss(tokens[None])(logits)[2], entropy)


def test_words_are_looked_up_by_the_model(speaking: Any, logits: Tensor) -> None:
    """At once or later, as words or ids: the same numbers; a metric without words is the same everywhere."""
    cat, mat = (int(speaking.to_tokens(word, prepend_bos=False)[0, 0]) for word in ("cat", "mat"))
    logits = torch.randn(2, LENGTH, int(speaking.cfg.d_vocab))
    expected = logits[:, -1, cat] - logits[:, -1, mat]
    for metric in (
        logit("cat", minus="mat", model=speaking),
        logit(["cat", cat], minus=mat).bound_to(speaking),
        logit_difference(["cat"] * 2, ["mat"] * 2, model=speaking),
    ):
        torch.testing.assert_close(metric(logits), expected)
    assert kl_divergence().bound_to(speaking) == kl_divergence()


def test_a_word_of_several_tokens_is_shown_in_pieces(speaking: Any) -> None:
    """No first token is taken in silence."""
    with pytest.raises(ValueError, match=r"'cat mat' is 2 tokens: 'cat', 'mat'\. Expected one token"):
        logit("cat mat", model=speaking)
    with pytest.raises(ValueError, match="'' is 0 tokens: none"):
        rank("", model=speaking)


def test_any_function_of_logits_is_a_metric(logits: Tensor) -> None:
    """One number, or one a run; a metric of ours stays what it is."""

    def theirs(logits: Tensor) -> Tensor:
        return logits[:, -1, 7].mean()

    metric = as_metric(theirs)
    assert metric.name == "theirs"
    assert float(metric(logits)) == float(theirs(logits))
    assert as_metric(lambda logits: logits[:, -1, 7])(logits).equal(logits[:, -1, 7])
    assert as_metric(metric) is metric


@pytest.mark.wrong_types
def test_what_cannot_be_read_is_refused(logits: Tensor) -> None:
    """Errors say what was given and what to do."""
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: logit([1, 2], minus=[3]), "2 answers and 1 to subtract: expected one pair"),
        (lambda: logit([1, 2], minus=2), "prompt 1: the answer and the one to subtract are the same token"),
        (lambda: logit(" a")(logits), r"reads ' a'.*model=\.\.\."),
        (lambda: rank([1, 2])(logits), "answers for 2 prompts, the logits are of 3 rows"),
        (lambda: rank([1, 2]).of_prompt(clean_run(2, logits[0])), "answers for 2 prompts, there is a prompt number 2"),
        (lambda: probability(11)(logits), "reads token 11: expected tokens 0 to 10"),
        (lambda: logit(1, at=4)(logits), "at=4: expected one position, from -4 to 3"),
        (lambda: logit([]), "a word, a token id, or a list"),
        (lambda: logit([[]]), "is not an answer"),
        (lambda: kl_divergence()(logits), "compares with clean logits"),
        (lambda: kl_divergence(logits[:2])(logits), "2 clean logits for 3 rows"),
        (lambda: loss()(logits), "needs the tokens"),
        (lambda: loss(torch.zeros(1, 3, dtype=torch.long))(logits), r"tokens of shape \(1, 3\)"),
        (
            lambda: as_metric(lambda logits: logits[:, :, 0])(logits),
            r"gave a tensor of shape \(3, 4\).*one real number",
        ),
        (lambda: as_metric("logit"), "expected a function of logits"),
    ]
    for call, said in refused:
        with pytest.raises(ValueError, match=said):
            call()
