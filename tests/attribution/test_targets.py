"""What can be attributed, and a clear error for everything else."""

import dataclasses
import re
import warnings
from functools import cache
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor
from transformers import PreTrainedTokenizerFast

import tl_ffblock as ffb
from tests import tiny
from tests.attribution.conftest import Refused, assert_refused, double, prompts
from tests.cases import model_of
from tl_ffblock.errors import CompletenessError, FFBlockError, InputError, MissingSpaceWarning, ScopeKeyError
from tl_ffblock.views import page_of

N = 6


TOKENS = tiny.tokens("gpt2", N)


def attributed(target: Any, tokens: Tensor = TOKENS, **options: Any) -> Any:
    """Shares of a target, by GPT-2 in float64."""
    return ffb.attribute(double("gpt2"), tokens, target, **options)


@cache
def of_lengths() -> list[Any]:
    """Attributions of prompts of 5 and 7 tokens."""
    return [attributed(ffb.logit(7), tiny.tokens("gpt2", n, seed=n)) for n in (5, 7)]


def test_a_difference_is_the_difference() -> None:
    """Shares are linear in the target."""
    one, two, both = (attributed(t) for t in (ffb.logit(7), ffb.logit(11), ffb.logit(7, minus=11)))
    torch.testing.assert_close(both.tokens, (one - two).tokens, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(both.edges, one.edges - two.edges, rtol=1e-9, atol=1e-11)
    assert (one - two).certificate is None


def test_a_bare_logit_says_how_much_the_first_token_has() -> None:
    """Above 40 per cent, with what to do, also of a logit minus the mean logit; a difference does not."""
    result = attributed(ffb.logit(7), of=())
    first = float(result.token_attributions[0])
    half, quarter = (dataclasses.replace(result, value=share * first) for share in (2, 4))
    assert "has 50% of it" in str(half) and "compare the other tokens with one another" in str(half)
    assert "note" not in str(quarter) and "note" not in str(dataclasses.replace(half, quantity="logit difference"))
    centred = attributed(ffb.logit(7, minus="mean"), of=())
    assert "has 50% of it" in str(dataclasses.replace(centred, value=2 * float(centred.token_attributions[0])))
    rows = attributed(lambda logits: logits[:, -1].mean(dim=-1), of=())
    torch.testing.assert_close(centred.tokens, result.tokens - rows.tokens, rtol=1e-9, atol=1e-11)


def test_a_log_probability_is_shared_out_to_first_order() -> None:
    """`log p_t = (logit_t - sum_v p_v logit_v) - H(p)`: what is not linear is minus the entropy."""

    def log_probability(logits: Tensor) -> Tensor:
        return logits[:, -1].log_softmax(-1)[:, 7]

    result = attributed(log_probability)
    with torch.no_grad():
        logs = double("gpt2")(TOKENS[None])[0, -1].log_softmax(-1)
    assert result.nonlinear == pytest.approx(float((logs.exp() * logs).sum()))
    assert result.total() == pytest.approx(result.first_order)
    assert result.to_dataframe()["value"].sum() == pytest.approx(result.value)


def test_what_is_printed_says_how_much_is_shared_out() -> None:
    """Of a loss only the first-order form; of rules that are not complete that shares are not to be held against the target."""
    loss, logit = (attributed(target, of=()) for target in (ffb.loss(), ffb.logit(7)))
    part = loss.certificate.nonlinear
    assert part == pytest.approx(loss.nonlinear / loss.value)
    words = str(loss.certificate)
    assert f"{100 * (1 - part):.0f} % of the target attributed, {100 * part:.0f} % is not linear in the logits" in words
    assert "complete" not in words and loss.certificate.attributed == pytest.approx(loss.total() / loss.value)
    assert str(logit.certificate).endswith("· 100 % attributed")
    assert str(logit.certificate).startswith("Checks: logits unchanged · worst module error ")
    assert "worst layer sum" in words and "−" not in words, "a terminal prints plain minus signs"
    moved = dataclasses.replace(logit.certificate, logits=1.5e-6)
    assert str(moved).startswith("Checks: logits differ by 2e-6 ·")
    patching = str(attributed(ffb.logit(7), of=(), rules="patching").certificate)
    assert re.search(
        r"-?\d+(\.\d\d)? % attributed \(rules not complete: compare attributions with one another", patching
    )


def test_an_entropy_is_not_called_complete() -> None:
    """Most of it is not linear in the logits: what is printed says which fraction has shares, on the page too."""

    def entropy(logits: Tensor) -> Tensor:
        return torch.distributions.Categorical(logits=logits[:, -1]).entropy()

    result = attributed(entropy, of=())
    fraction = float(result.total()) / result.value
    assert abs(fraction - 1) > 0.5
    for words in (repr(result), result.to_html()):
        assert "complete)" not in words and "100 % attributed" not in words
    assert f"{100 * fraction:.{0 if abs(fraction) >= 0.1 else 2}f} % of the target attributed" in repr(result)


def test_a_tokens_share_is_what_enters_at_its_position() -> None:
    """With its position: the largest of the printed result, its sum, the page and its chips agree; the parts stand beside the sum."""
    result = attributed(ffb.logit(7, minus=11), of=())
    assert torch.equal(result.token_attributions, result.tokens + result.positions + result.token_types)
    assert result.positions.abs().max() > 1e-3
    sums, largest = (line.split() for line in repr(result).splitlines()[2:4])
    assert float(sums[2]) == pytest.approx(float(result.token_attributions.sum()), rel=5e-3)
    embeddings, positions = float(sums[4]), float(sums[7].rstrip(")"))
    assert [embeddings, positions] == pytest.approx(
        [float(result.tokens.sum()), float(result.positions.sum())], rel=5e-3
    )
    order = result.token_attributions.abs().argsort(descending=True)[:5]
    assert [float(share) for share in largest[2::2]] == pytest.approx(
        result.token_attributions[order].tolist(), rel=5e-3
    )
    block = page_of(result).runs[0].blocks["logit"].json
    assert block["entering"] == pytest.approx(result.token_attributions.tolist(), rel=1e-5)
    assert dict(block["sums"]) == pytest.approx(result.sums(), rel=1e-5) and sum(
        result.sums().values()
    ) == pytest.approx(result.value)
    assert result.sums()["tokens"] == pytest.approx(float(result.token_attributions.sum()))


def test_each_prompt_has_its_own_answer() -> None:
    """A list with one entry a prompt, whatever runs together."""
    both = prompts("gpt2")
    results = attributed(ffb.logit([7, 9], minus=[11, 12]), both)
    alone = [attributed(ffb.logit(7, minus=11), both[0]), attributed(ffb.logit(9, minus=12), both[1])]
    mean = ffb.Attribution.mean(results)
    averaged = ffb.average(results, positions={"END": -1})
    # Signed, and no difference of two results.
    assert "AverageMaps: attributions of the logit difference of " in repr(averaged)
    assert (averaged - averaged).kind == "difference of attributions of the logit difference"
    assert (mean.target, mean.quantity) == ("mean of 2 targets: logit difference", "logit difference")
    assert attributed(ffb.logit([[7, 8]]), both[0]).target == "logit (token 7, token 8)"
    for result, expected, words in zip(results, alone, ("7 - token 11", "9 - token 12"), strict=True):
        assert result.target == expected.target == f"logit difference token {words}"
        torch.testing.assert_close(result.tokens, expected.tokens, rtol=1e-9, atol=1e-11)


def test_a_difference_is_named_by_its_sign() -> None:
    """It is "a - b", in brackets where there is a minus already; an arrow is for a clean and a corrupted run alone."""
    targets = (ffb.logit(7), ffb.logit(11), ffb.logit(7, minus=11))
    a, b, both = (attributed(target, of=()) for target in targets)
    assert (a - b).target == "logit token 7 - logit token 11"
    assert (a - both).target == "logit token 7 - (logit difference token 7 - token 11)"
    assert (a - b).value == pytest.approx(both.value)
    changed = attributed(ffb.logit(7), (TOKENS + 1) % 13, of=())
    assert (a - changed).target == "difference of logit token 7"
    assert "→" not in repr(a - changed)
    assert (a - changed).labels[0] == f"{a.labels[0]}-{changed.labels[0]}"


def test_a_mean_says_of_how_many() -> None:
    """Targets, where they differ, else results of one target; a single result stays what it is."""
    a, b = attributed(ffb.logit([7, 9]), prompts("gpt2"), of=())
    mean = ffb.Attribution.mean
    assert mean([a, b, a]).target == "mean of 3 targets: logit"
    assert mean([a, a]).target == "mean of 2: logit token 7"
    assert mean([a]).target == "logit token 7"
    assert (a - b).target in repr(a - b).splitlines()[0] and "→" not in repr(a - b)
    assert page_of(mean([a, b])).runs[0].blocks["logit"].json["question"] == "What makes the mean of 2 targets: logit?"
    lower = min(a, b, a - b, b - a, key=lambda result: result.value)
    assert lower.value < 0 and " = -" in repr(lower)


def test_a_forgotten_space_is_named() -> None:
    """Where the word with a space is expected and the word as given is not; never of ids, and not where the word is expected."""
    model = tiny.bridge("gpt2")
    with torch.no_grad():
        order = model(TOKENS[None])[0, -1].argsort(descending=True).tolist()
    for given, spaced, warns in (
        (order[-1], order[0], True),
        (order[1], order[0], False),
        (order[-1], order[20], False),
    ):
        words = {f"t{token}": token for token in range(len(order)) if token not in (given, spaced)}
        vocabulary = words | {"Mary": given, " Mary": spaced}
        held = Tokenizer(WordLevel(vocabulary, unk_token=next(iter(words))))
        model.tokenizer = PreTrainedTokenizerFast(tokenizer_object=held, unk_token=next(iter(words)))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            ffb.attribute(model, TOKENS, ffb.logit("Mary"), of=())
            ffb.attribute(model, TOKENS, ffb.logit([" Mary"], minus=["Mary"]), of=())
            ffb.attribution_patching(model, TOKENS, TOKENS.flip(0), ffb.logit("Mary"))
            ffb.attribute_continuation(model, TOKENS, "Mary")
            ffb.attribute_continuation(model, TOKENS, " Mary")
            ffb.attribute(model, TOKENS, ffb.logit(given), of=())
            ffb.attribute(model, TOKENS, ffb.logit(" Mary"), of=())
        assert [warning.category for warning in said] == [MissingSpaceWarning] * (4 * warns)
        assert {warning.filename for warning in said} <= {__file__}, "the line that called the library"
        assert all(
            f"rank {len(order)})" in str(w.message) and "' Mary', it is probable (logit" in str(w.message) for w in said
        )


@pytest.mark.parametrize("layer", [0, 1, 3, -1])
def test_a_direction_is_read_at_a_layers_input(layer: int) -> None:
    """Nothing behind it has a share; at layer 0 only the token and the position that stand there have one."""
    vector = torch.randn(32, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    result = attributed(ffb.direction(vector, layer=layer, at=2))
    _, cache = double("gpt2").run_with_cache(TOKENS[None])
    name = f"blocks.{layer}.hook_resid_pre" if layer in (0, 1) else "blocks.2.hook_resid_post"
    assert result.value == pytest.approx(float(cache[name][0, 2] @ vector))
    assert result.total() == pytest.approx(result.value)
    number = layer % 4
    assert not result.residual[number + 1 :].any()
    assert not result.heads[number:].any()
    if layer == 0:
        assert result.tokens.nonzero().tolist() == [[2]]


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_maps_and_graphs_end_where_a_direction_is_read(layer: int) -> None:
    """Layers at and behind the target carry nothing; before it cells sum to what flows, and the graph ends in the target."""
    vector = torch.arange(32, dtype=torch.float64)
    result = attributed(ffb.direction(vector, layer=layer, at=2), of=("maps", "graph"))
    for scope in result.maps:
        assert not result.maps[scope][layer:].any()
    for before in range(layer):
        cells = result.maps["Atb", before].sum(dim=0)
        torch.testing.assert_close(cells, result.residual[before], rtol=1e-10, atol=1e-12)
    graph = result.graph(1.0)
    flow, kinds = graph.imbalance(), [node.kind for node in graph.nodes]
    assert flow[kinds.index("target")] == pytest.approx(result.value)
    assert max(node.layer for node in graph.nodes if node.layer is not None) == layer
    assert float(graph.intercepts[:, 0].sum()) == pytest.approx(sum(result.biases.values()))


def test_a_direction_in_a_padded_batch() -> None:
    """Positions are those of the sequence without padding."""
    vector = torch.ones(32, dtype=torch.float64)
    alone = attributed(ffb.direction(vector, layer=1), TOKENS[:4])
    mask = torch.tensor([[1] * 4 + [0] * 2, [1] * 6])
    batch = torch.stack([TOKENS, TOKENS])
    padded, _ = attributed(ffb.direction(vector, layer=1), batch, attention_mask=mask)
    assert padded.value == pytest.approx(alone.value)
    torch.testing.assert_close(padded.tokens, alone.tokens)


def test_words_are_looked_up(tmp_path: Any) -> None:
    """Text targets are tokens of the model; one that is several pieces, or unknown, says so."""
    model = ffb.load_model(str(tiny.save_local("gpt2", tmp_path, ["she likes him", "he likes her"])))
    result = ffb.attribute(model, "she likes", ffb.logit("him", minus="her"))
    logits = model("she likes").detach()[0, -1]
    him, her = (model.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in ("him", "her"))
    assert result.value == pytest.approx(float(logits[him] - logits[her]), rel=1e-5)
    assert result.labels[-1].strip() == "likes"
    assert result.target == "logit difference 'him' - 'her'"
    assert f"Attribution: {result.target} = " in repr(result)
    assert result.to_dict()["target"] == result.target
    assert result.token_maps().kind == "attributions of the logit difference"
    with pytest.raises(InputError, match="is 2 tokens: 'him', 'her'"):
        ffb.attribute(model, "she likes", ffb.logit("him her"))
    with pytest.raises(InputError, match="'zebra' is not a token of the vocabulary: the tokenizer reads it as "):
        ffb.attribute(model, "she likes", ffb.logit("zebra"))
    unknown = model.tokenizer.unk_token
    named = ffb.attribute(model, "she likes", ffb.logit(unknown, minus="her"))
    assert named.value == pytest.approx(float(logits[model.tokenizer.unk_token_id] - logits[her]), rel=1e-5)


# fmt: off
REFUSED: dict[str, Refused] = {
    "word without tokenizer": (lambda: attributed(ffb.logit("Mary")), InputError, "no tokenizer to read 'Mary'"),
    "more answers than prompts": (lambda: attributed(ffb.logit([7, 9])), InputError, r"answers for 2 prompts, \[7, 9\]; there is 1"),
    "a list to subtract": (lambda: attributed(ffb.logit(7, minus=[9, 11])), InputError, r"a list in the list: \[\[9, 11\]\]"),
    "divergence from itself": (lambda: attributed(ffb.kl_divergence()), InputError, "target KL divergence"),
    "position of a probability": (lambda: attributed(ffb.probability(7, at=40)), InputError, rf"^at=.*: expected one position, from -{N} to {N - 1} of .* {N} tokens.$"),
    "position of a divergence": (lambda: attributed(ffb.kl_divergence(torch.randn(1, N, 64), at=-40)), InputError, rf"^at=.*: expected one position, from -{N} to {N - 1} of .* {N} tokens.$"),
    "position of a direction": (lambda: attributed(ffb.direction(torch.ones(32), layer=1, at=N)), FFBlockError, "at=6"),
    "layer of a direction": (lambda: attributed(ffb.direction(torch.ones(32), layer=4)), FFBlockError, "no layer 4"),
    "direction of NaN": (lambda: ffb.direction(torch.tensor([float("nan")]), layer=0), InputError, "NaN"),
    "graph of its own": (lambda: attributed(lambda logits: 2 * torch.ones((), requires_grad=True)), InputError, "has no derivative"),
    "without gradients": (lambda: attributed(torch.no_grad()(lambda logits: logits[0, -1, 7])), InputError, "has no derivative"),
    "rank": (lambda: attributed(ffb.rank(7)), InputError, "has no derivative"),
    "detached": (lambda: attributed(lambda logits: logits.detach()[:, -1, 0]), InputError, "has no derivative"),
    "no dependence": (lambda: attributed(lambda logits: (logits * 0).sum()), InputError, "is zero or not finite"),
    "several numbers": (lambda: attributed(lambda logits: logits[0, -1]), InputError, "gave a tensor of shape"),
    "NaN": (lambda: attributed(lambda logits: logits[:, -1, 0] * float("nan")), InputError, "is nan: expected a finite number"),
    "maps of other rules": (lambda: attributed(ffb.logit(7), of="maps", rules="patching"), InputError, "of=.maps. with rules"),
    "a graph of other rules": (lambda: attributed(ffb.logit(7), of="graph", rules="patching").graph(), InputError, "expected rules='path'"),
    "a part that was not asked for": (lambda: attributed(ffb.logit(7), of="heads").edges, ScopeKeyError, r"of=\('edges', \.\.\.\)"),
    "neurons of experts": (lambda: ffb.attribute(model_of("mixtral"), TOKENS, 7).neurons(0), ScopeKeyError, "mixture of experts"),
    "other lengths": (lambda: attributed(7) - attributed(7, TOKENS[:3]), InputError, "of 6 and of 3 tokens: use texts of equally many\\.$"),
    "other rules": (lambda: attributed(7) - attributed(7, rules="gradient"), InputError, "different rules"),
    **{
        f"at={asked} of a {metric.__name__}": (lambda metric=metric, asked=asked: metric(7, at=asked), InputError, "^at=.*: expected a whole number")
        for metric in (ffb.logit, ffb.probability, ffb.rank) for asked in (None, [1, 2])
    },
}
# fmt: on


@pytest.mark.wrong_types
@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_target_is_refused(name: str) -> None:
    """In a sentence that says what was expected; further ones are in tests/integration/test_odd_calls.py."""
    assert_refused(*REFUSED[name])


def test_nan_and_training_mode_are_refused() -> None:
    """A model that computes NaN, and one that drops activations at random."""
    model = tiny.bridge("gpt2")
    ffb.attribute(model, TOKENS, ffb.logit(7))
    model.train()
    with pytest.raises(InputError, match="training mode"):
        ffb.attribute(model, TOKENS, ffb.logit(7))
    model.eval()
    model.blocks[1].mlp.original_component.c_fc.bias.data[3] = float("nan")
    with pytest.raises(InputError, match="NaN"):
        ffb.attribute(model, TOKENS, ffb.logit(7))


def test_bfloat16_says_its_error() -> None:
    """The certificate of a bfloat16 model is what bfloat16 can do, and a tolerance below it refuses."""
    model = model_of("gpt2", torch.bfloat16)
    result = ffb.attribute(model, TOKENS, ffb.logit(7))
    assert 1e-4 < result.certificate.forms < 5e-2
    assert result.certificate.logits == 0
    with pytest.raises(CompletenessError):
        ffb.attribute(model, TOKENS, ffb.logit(7), rtol=1e-4)


def test_a_mean_of_two_is_half_of_each() -> None:
    """The mean of two is half of each."""
    one, two = attributed(ffb.logit(7), prompts("gpt2", N))
    mean = ffb.Attribution.mean([one, two])
    torch.testing.assert_close(mean.tokens, (one.tokens + two.tokens) / 2)
    assert mean.value == pytest.approx((one.value + two.value) / 2)


def test_attributions_are_averaged_by_named_positions() -> None:
    """Prompts of two lengths: each cell is the mean of the prompts' shares at the position of that name, in one row."""
    several = of_lengths()
    places = {"subject": [1, 3], "END": -1}
    streams = ffb.average(several, places)
    assert (streams.queries, streams.keys, streams.layers) == (("flowing at",), ("subject", "END"), (0, 1, 2, 3))
    expected = (several[0].residual[:, 1] + several[1].residual[:, 3]) / 2
    torch.testing.assert_close(streams["residual"][:, 0, 0], expected)
    heads = ffb.average([result.token_maps("heads") for result in several], places)
    torch.testing.assert_close(heads["head 2", 1][0, 1], (several[0].heads[1, 2, 4] + several[1].heads[1, 2, 6]) / 2)
    edges = several[0].token_maps("edges")
    assert edges.causal
    torch.testing.assert_close(edges["head 3", 2], several[0].edges[2, 3])
    early = attributed(ffb.direction(torch.ones(32).double(), layer=1, at=2), tiny.tokens("gpt2", 5), of=())
    assert early.token_maps().queries == (2,)
    with pytest.raises(InputError, match="one result or more"):
        ffb.average([streams])


def test_heads_stand_where_they_write() -> None:
    """Not between tokens: no table has a query for them, the page names no token that takes, edges keep both ends."""
    several = of_lengths()
    maps = [result.token_maps("heads") for result in several]
    alone, mean = maps[0].to_dataframe(), ffb.average(maps, {"subject": [1, 3]})
    assert list(alone) == ["layer", "channel", "position", "token", "value"]
    row = alone[(alone.layer == 1) & (alone.channel == "head 2") & (alone.position == 4)]
    assert row["value"].item() == several[0].heads[1, 2, 4]
    table = mean.to_dataframe()
    assert list(table) == ["layer", "channel", "position", "token", "value", "low", "high", "n"]
    at_subject = (several[0].heads[1, 2, 1] + several[1].heads[1, 2, 3]) / 2
    assert table[(table.layer == 1) & (table.channel == "head 2")]["value"].item() == pytest.approx(float(at_subject))
    assert "written at  subject" in repr(mean)
    long = attributed(ffb.logit(7), tiny.tokens("gpt2", 14)).token_maps("heads")
    assert '"layer.head"' in long.to_html()
    for shown in (mean, mean.token_maps(), maps[0]):
        html = shown.to_html()
        assert "Written at" in html
        assert " takes " not in html.split('id="data"')[-1].split("</script>")[0]
        with pytest.raises(InputError, match="has all layers; leave it out"):
            shown.to_html(layer=1)
    assert list(several[0].token_maps("edges").to_dataframe())[2:4] == ["query", "key"]
    with pytest.raises(InputError, match="different column: 'written at' against 'key'"):
        ffb.average([maps[0], several[0].token_maps("edges")], {"END": -1})
    beside = ffb.contribution_maps(double("gpt2"), tiny.tokens("gpt2", 5, seed=5), queries=-1)
    with pytest.raises(InputError, match="numbers by position, written at each"):
        beside.to_html(beside=maps[0])
