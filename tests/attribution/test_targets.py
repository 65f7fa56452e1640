"""What can be attributed, and a clear error for everything else."""

import dataclasses
import re
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from tests import tiny
from tests.attribution.conftest import prompts
from tl_ffblock.page import MapsBlock
from tl_ffblock.views import page_of
from tl_ffblock.views.maps import page_data

Models = Callable[..., Any]
N = 6


@pytest.fixture(scope="module")
def model() -> Any:
    """A float64 GPT-2."""
    return tiny.bridge("gpt2", dtype=torch.float64)


@pytest.fixture(scope="module")
def tokens() -> Tensor:
    """Token ids [pos]."""
    return tiny.tokens("gpt2", N)


def test_a_difference_is_the_difference(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """Shares are linear in the target."""
    one, two, both = (ffb.attribute(model, tokens, t) for t in (ffb.logit(7), ffb.logit(11), ffb.logit(7, minus=11)))
    torch.testing.assert_close(both.tokens, (one - two).tokens, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(both.edges, one.edges - two.edges, rtol=1e-9, atol=1e-11)
    assert (one - two).certificate is None


def test_a_log_probability_is_shared_out_to_first_order(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """`log p_t = (logit_t - sum_v p_v logit_v) - H(p)`: what is not linear is minus the entropy."""

    def log_probability(logits: Tensor) -> Tensor:
        return logits[:, -1].log_softmax(-1)[:, 7]

    result = ffb.attribute(model, tokens, log_probability)
    with torch.no_grad():
        logs = model(tokens[None])[0, -1].log_softmax(-1)
    assert result.nonlinear == pytest.approx(float((logs.exp() * logs).sum()))
    assert result.total() == pytest.approx(result.first_order)
    assert result.to_dataframe()["value"].sum() == pytest.approx(result.value)


def test_what_is_printed_says_how_much_is_shared_out(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """Of a loss only the first-order form; of rules that are not complete that shares are not to be held against the target."""
    loss, logit = (ffb.attribute(model, tokens, target, of=()) for target in (ffb.loss(), ffb.logit(7)))
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
    patching = str(ffb.attribute(model, tokens, ffb.logit(7), of=(), rules="patching").certificate)
    assert re.search(r"-?\d+(\.\d\d)? % attributed \(rules not complete: compare shares with one another", patching)


def test_an_entropy_is_not_called_complete(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """Most of it is not linear in the logits: what is printed says which fraction has shares, on the page too."""

    def entropy(logits: Tensor) -> Tensor:
        return torch.distributions.Categorical(logits=logits[:, -1]).entropy()

    result = ffb.attribute(model, tokens, entropy, of=())
    fraction = float(result.total()) / result.value
    assert abs(fraction - 1) > 0.5
    for words in (repr(result), result.to_html()):
        assert "complete)" not in words and "100 % attributed" not in words
    assert f"{100 * fraction:.{0 if abs(fraction) >= 0.1 else 2}f} % of the target attributed" in repr(result)


def test_a_tokens_share_is_what_enters_at_its_position(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """With its position: the largest of the printed result, its sum, the page and its chips agree; the parts stand beside the sum."""
    result = ffb.attribute(model, tokens, ffb.logit(7, minus=11), of=())
    assert torch.equal(result.entering, result.tokens + result.positions + result.token_types)
    assert result.positions.abs().max() > 1e-3
    sums, largest = (line.replace("−", "-").split() for line in repr(result).splitlines()[2:4])
    assert float(sums[2]) == pytest.approx(float(result.entering.sum()), rel=5e-3)
    embeddings, positions = float(sums[4]), float(sums[7].rstrip(")"))
    assert [embeddings, positions] == pytest.approx(
        [float(result.tokens.sum()), float(result.positions.sum())], rel=5e-3
    )
    order = result.entering.abs().argsort(descending=True)[:5]
    assert [float(share) for share in largest[2::2]] == pytest.approx(result.entering[order].tolist(), rel=5e-3)
    (row,) = page_of(result).rows
    assert torch.equal(row["shares"], result.entering)
    assert dict(row["sums"]) == result.sums() and sum(result.sums().values()) == pytest.approx(result.value)
    assert result.sums()["tokens"] == pytest.approx(float(result.entering.sum()))


def test_each_prompt_has_its_own_answer(ffb: ModuleType, model: Any) -> None:
    """A list with one entry a prompt, whatever runs together."""
    both = prompts("gpt2")
    results = ffb.attribute(model, both, ffb.logit([7, 9], minus=[11, 12]))
    alone = [ffb.attribute(model, row, ffb.logit(a, minus=b)) for row, a, b in zip(both, (7, 9), (11, 12), strict=True)]
    assert [result.target for result in results] == [
        "logit difference token 7 − token 11",
        "logit difference token 9 − token 12",
    ]
    mean = ffb.Attribution.mean(results)
    averaged = ffb.average(results, positions={"END": -1})
    assert "AverageMaps: shares of the logit difference of " in repr(
        averaged
    )  # signed, and no difference of two results
    assert (averaged - averaged).kind == "difference of shares of the logit difference"
    assert (mean.target, mean.quantity) == ("mean of 2 targets: logit difference", "logit difference")
    assert ffb.attribute(model, both[0], ffb.logit([[7, 8]])).target == "logit (token 7, token 8)"
    for result, expected in zip(results, alone, strict=True):
        assert result.target == expected.target
        torch.testing.assert_close(result.tokens, expected.tokens, rtol=1e-9, atol=1e-11)


def test_a_difference_is_named_by_its_sign(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """It is "a − b", in brackets where there is a minus already; an arrow is for a clean and a corrupted run alone."""
    targets = (ffb.logit(7), ffb.logit(11), ffb.logit(7, minus=11))
    a, b, both = (ffb.attribute(model, tokens, target, of=()) for target in targets)
    assert (a - b).target == "logit token 7 − logit token 11"
    assert (a - both).target == "logit token 7 − (logit difference token 7 − token 11)"
    assert (a - b).value == pytest.approx(both.value)
    changed = ffb.attribute(model, (tokens + 1) % 13, ffb.logit(7), of=())
    assert (a - changed).target == "difference of logit token 7"
    assert "→" not in repr(a - changed)
    assert (a - changed).labels[0] == f"{a.labels[0]}−{changed.labels[0]}"


def test_a_mean_says_of_how_many(ffb: ModuleType, model: Any) -> None:
    """Targets, where they differ, else results of one target; a single result stays what it is."""
    a, b = ffb.attribute(model, prompts("gpt2"), ffb.logit([7, 9]), of=())
    mean = ffb.Attribution.mean
    assert mean([a, b, a]).target == "mean of 3 targets: logit"
    assert mean([a, a]).target == "mean of 2: logit token 7"
    assert mean([a]).target == "logit token 7"
    assert repr(a - b).splitlines()[0].count("-") <= repr(a - b).splitlines()[0].count("of tiny-")
    assert page_of(mean([a, b])).heading.startswith("mean of 2 targets: logit = ")
    lower = min(a, b, a - b, b - a, key=lambda result: result.value)
    assert lower.value < 0 and " = −" in page_of(lower).heading and " = −" in repr(lower)


@pytest.mark.wrong_types
@pytest.mark.parametrize("asked", [None, [1, 2]])
def test_a_position_is_one_number(ffb: ModuleType, asked: Any) -> None:
    """Several, or none, are refused where the target is made."""
    for target in (ffb.logit, ffb.probability, ffb.rank):
        with pytest.raises(ffb.errors.InputError, match="^at=.*: expected a whole number"):
            target(7, at=asked)
    with pytest.raises(ffb.errors.InputError, match="^at=.*: expected a whole number"):
        ffb.kl_divergence(torch.randn(1, N, 64), at=asked)


@pytest.mark.parametrize("asked", [40, -40])
def test_one_position_is_read(ffb: ModuleType, model: Any, tokens: Tensor, asked: int) -> None:
    """What is no position of the text is refused with those that are."""
    for target in (
        ffb.logit(7, at=asked),
        ffb.probability(7, at=asked),
        ffb.kl_divergence(torch.randn(1, N, 64), at=asked),
    ):
        with pytest.raises(
            ffb.errors.InputError, match=rf"^at=.*: expected one position, from -{N} to {N - 1} of .* {N} tokens.$"
        ):
            ffb.attribute(model, tokens, target)


def test_a_forgotten_space_is_named(ffb: ModuleType, tokens: Tensor) -> None:
    """Where the word with a space is expected and the word as given is not; never of ids, and not where the word is expected."""
    model = tiny.bridge("gpt2")
    with torch.no_grad():
        order = model(tokens[None])[0, -1].argsort(descending=True).tolist()
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
            ffb.attribute(model, tokens, ffb.logit("Mary"), of=())
            ffb.attribute(model, tokens, ffb.logit([" Mary"], minus=["Mary"]), of=())
            ffb.attribution_patching(model, tokens, tokens.flip(0), ffb.logit("Mary"))
            ffb.attribute(model, tokens, ffb.logit(given), of=())
            ffb.attribute(model, tokens, ffb.logit(" Mary"), of=())
        assert [warning.category for warning in said] == [ffb.errors.MissingSpaceWarning] * (3 * warns)
        assert all(f"rank {len(order)}), but" in str(w.message) and "' Mary' (logit" in str(w.message) for w in said)


@pytest.mark.parametrize("layer", [0, 1, 3, -1])
def test_a_direction_is_read_at_a_layers_input(ffb: ModuleType, model: Any, tokens: Tensor, layer: int) -> None:
    """Nothing behind it has a share; at layer 0 only the token and the position that stand there have one."""
    vector = torch.randn(32, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    result = ffb.attribute(model, tokens, ffb.direction(vector, layer=layer, at=2))
    _, cache = model.run_with_cache(tokens[None])
    name = f"blocks.{layer}.hook_resid_pre" if layer in (0, 1) else "blocks.2.hook_resid_post"
    assert result.value == pytest.approx(float(cache[name][0, 2] @ vector))
    assert result.total() == pytest.approx(result.value)
    number = layer % 4
    assert not result.residual[number + 1 :].any()
    assert not result.heads[number:].any()
    if layer == 0:
        assert result.tokens.nonzero().tolist() == [[2]]


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_maps_and_graphs_end_where_a_direction_is_read(ffb: ModuleType, model: Any, tokens: Tensor, layer: int) -> None:
    """Layers at and behind the target carry nothing; before it cells sum to what flows, and the graph ends in the target."""
    vector = torch.arange(32, dtype=torch.float64)
    result = ffb.attribute(model, tokens, ffb.direction(vector, layer=layer, at=2), of=("maps", "graph"))
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


def test_a_direction_in_a_padded_batch(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """Positions are those of the sequence without padding."""
    vector = torch.ones(32, dtype=torch.float64)
    alone = ffb.attribute(model, tokens[:4], ffb.direction(vector, layer=1))
    mask = torch.tensor([[1] * 4 + [0] * 2, [1] * 6])
    batch = torch.stack([tokens, tokens])
    padded, _ = ffb.attribute(model, batch, ffb.direction(vector, layer=1), attention_mask=mask)
    assert padded.value == pytest.approx(alone.value)
    torch.testing.assert_close(padded.tokens, alone.tokens)


def test_words_are_looked_up(ffb: ModuleType, tmp_path: Any) -> None:
    """Text targets are tokens of the model; one that is several pieces, or unknown, says so."""
    from transformer_lens.model_bridge import TransformerBridge

    model = TransformerBridge.boot_transformers(
        str(tiny.save_local("gpt2", tmp_path, ["she likes him", "he likes her"]))
    )
    result = ffb.attribute(model, "she likes", ffb.logit("him", minus="her"))
    logits = model("she likes").detach()[0, -1]
    him, her = (model.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in ("him", "her"))
    assert result.value == pytest.approx(float(logits[him] - logits[her]), rel=1e-5)
    assert result.labels[-1].strip() == "likes"
    assert result.target == "logit difference 'him' − 'her'"
    assert f"Attribution: {result.target} = " in repr(result)
    assert result.to_dict()["target"] == result.target
    assert result.token_maps().kind == "shares of the logit difference"
    with pytest.raises(ffb.errors.InputError, match="is 2 tokens: 'him', 'her'"):
        ffb.attribute(model, "she likes", ffb.logit("him her"))
    with pytest.raises(
        ffb.errors.InputError, match="'zebra' is no token of the vocabulary: the tokenizer reads it as "
    ):
        ffb.attribute(model, "she likes", ffb.logit("zebra"))
    unknown = model.tokenizer.unk_token
    named = ffb.attribute(model, "she likes", ffb.logit(unknown, minus="her"))
    assert named.value == pytest.approx(float(logits[model.tokenizer.unk_token_id] - logits[her]), rel=1e-5)


BAD: dict[str, tuple[Callable[[ModuleType], Any], str]] = {
    "position": (lambda ffb: ffb.logit(7, at=N), "at=6: expected one position, from -6 to 5"),
    "token": (lambda ffb: ffb.logit(tiny.VOCAB), f"reads token {tiny.VOCAB}"),
    "word without tokenizer": (lambda ffb: ffb.logit("Mary"), "no tokenizer to read 'Mary'"),
    "more answers than prompts": (lambda ffb: ffb.logit([7, 9]), r"answers for 2 prompts, \[7, 9\]; there is 1"),
    "a list to subtract": (lambda ffb: ffb.logit(7, minus=[9, 11]), r"a list in the list: \[\[9, 11\]\]"),
    "no token": (lambda ffb: tiny.VOCAB, f"reads token {tiny.VOCAB}"),
    "divergence from itself": (lambda ffb: ffb.kl_divergence(), "a run is compared with itself"),
    "graph of its own": (lambda ffb: lambda logits: 2 * torch.ones((), requires_grad=True), "has no derivative"),
    "without gradients": (lambda ffb: torch.no_grad()(lambda logits: logits[0, -1, 7]), "has no derivative"),
    "half a layer": (lambda ffb: ffb.direction(torch.ones(32), layer=1.5), r"layer=1\.5: expected a whole number"),
    "no direction": (lambda ffb: ffb.direction(torch.zeros(32), layer=1), "vector is zero"),
    "rank": (lambda ffb: ffb.metrics.rank(7), "has no derivative"),
    "no dependence": (lambda ffb: lambda logits: (logits * 0).sum(), "is zero or not finite"),
    "detached": (lambda ffb: lambda logits: logits.detach()[:, -1, 0], "has no derivative"),
    "several numbers": (lambda ffb: lambda logits: logits[0, -1], "gave a tensor of shape"),
    "NaN": (lambda ffb: lambda logits: logits[:, -1, 0] * float("nan"), "is nan: expected a finite number"),
    "text without tokenizer": (lambda ffb: "Mary", "no tokenizer to read 'Mary'"),
    "no function": (lambda ffb: 7.5, "expected a function of logits"),
    "layer": (lambda ffb: ffb.direction(torch.ones(32), layer=4), "no layer 4"),
    "width": (lambda ffb: ffb.direction(torch.ones(31), layer=1), "31 numbers"),
    "position of a direction": (lambda ffb: ffb.direction(torch.ones(32), layer=1, at=N), "at=6"),
}


WRONG_TYPES = ("no function", "half a layer")


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.wrong_types) if case in WRONG_TYPES else case for case in BAD]
)
def test_a_bad_target_is_refused(ffb: ModuleType, model: Any, tokens: Tensor, case: str) -> None:
    """In a sentence that says what was expected."""
    make, message = BAD[case]
    with pytest.raises(ffb.FFBlockError, match=message):
        ffb.attribute(model, tokens, make(ffb))


@pytest.mark.wrong_types
def test_bad_arguments_are_refused(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """Rules, parts and directions by a wrong name."""
    with pytest.raises(ffb.errors.InputError, match='expected "path", "patching" or "gradient"'):
        ffb.attribute(model, tokens, ffb.logit(7), rules="attnlrp")
    with pytest.raises(ffb.errors.InputError, match="expected some of 'heads', 'edges', 'neurons'"):
        ffb.attribute(model, tokens, ffb.logit(7), of="mlps")
    with pytest.raises(ffb.errors.InputError, match="expected a tensor of floats"):
        ffb.direction([1.0], layer=0)
    with pytest.raises(ffb.errors.InputError, match="NaN"):
        ffb.direction(torch.tensor([float("nan")]), layer=0)


def test_what_was_not_asked_for_is_not_there(ffb: ModuleType, model_of: Models) -> None:
    """And says how to ask; experts have no neurons of their own."""
    model, tokens = model_of("mixtral"), tiny.tokens("mixtral", N)
    result = ffb.attribute(model, tokens, ffb.logit(7), of="heads")
    with pytest.raises(ffb.errors.ScopeKeyError, match="of=\\('edges', \\.\\.\\.\\)"):
        _ = result.edges
    everything = ffb.attribute(model, tokens, ffb.logit(7))
    with pytest.raises(ffb.errors.ScopeKeyError, match="mixture of experts"):
        everything.neurons(0)


def test_nan_and_training_mode_are_refused(ffb: ModuleType, tokens: Tensor) -> None:
    """A model that computes NaN, and one that drops activations at random."""
    model = tiny.bridge("gpt2")
    ffb.attribute(model, tokens, ffb.logit(7))
    model.train()
    with pytest.raises(ffb.errors.InputError, match="training mode"):
        ffb.attribute(model, tokens, ffb.logit(7))
    model.eval()
    model.blocks[1].mlp.original_component.c_fc.bias.data[3] = float("nan")
    with pytest.raises(ffb.errors.InputError, match="NaN"):
        ffb.attribute(model, tokens, ffb.logit(7))


def test_bfloat16_says_its_error(ffb: ModuleType) -> None:
    """The certificate of a bfloat16 model is what bfloat16 can do, and a tolerance below it refuses."""
    model, tokens = tiny.bridge("gpt2", dtype=torch.bfloat16), tiny.tokens("gpt2", N)
    result = ffb.attribute(model, tokens, ffb.logit(7))
    assert 1e-4 < result.certificate.forms < 5e-2
    assert result.certificate.logits == 0
    with pytest.raises(ffb.errors.CompletenessError):
        ffb.attribute(model, tokens, ffb.logit(7), rtol=1e-4)


def test_means_are_of_alike_results(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """The mean of two is half of each; others than alike are refused."""
    one, two = ffb.attribute(model, prompts("gpt2", N), ffb.logit(7))
    mean = ffb.Attribution.mean([one, two])
    torch.testing.assert_close(mean.tokens, (one.tokens + two.tokens) / 2)
    assert mean.value == pytest.approx((one.value + two.value) / 2)
    with pytest.raises(ffb.errors.InputError, match="of 6 and of 3 labels"):
        _ = one - ffb.attribute(model, tokens[:3], ffb.logit(7))
    with pytest.raises(ffb.errors.InputError, match="different rules"):
        _ = one - ffb.attribute(model, tokens, ffb.logit(7), rules="gradient")


def test_attributions_are_averaged_by_named_positions(ffb: ModuleType, model: Any) -> None:
    """Prompts of two lengths: each cell is the mean of the prompts' shares at the position of that name, in one row."""
    several = [ffb.attribute(model, tiny.tokens("gpt2", n, seed=n), ffb.logit(7)) for n in (5, 7)]
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
    early = ffb.attribute(model, tiny.tokens("gpt2", 5), ffb.direction(torch.ones(32).double(), layer=1, at=2), of=())
    assert early.token_maps().queries == (2,)
    with pytest.raises(ffb.errors.InputError, match="one result or more"):
        ffb.average([streams])


def test_heads_stand_where_they_write(ffb: ModuleType, model: Any) -> None:
    """Not between tokens: no table has a query for them, the page names no token that takes, edges keep both ends."""
    several = [ffb.attribute(model, tiny.tokens("gpt2", n, seed=n), ffb.logit(7)) for n in (5, 7)]
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
    long = ffb.attribute(model, tiny.tokens("gpt2", 14), ffb.logit(7)).token_maps("heads")
    assert '"layer.head"' in long.to_html()
    for shown in (mean, mean.token_maps(), maps[0]):
        html = shown.to_html()
        assert "Written at" in html
        assert " takes " not in html.split('id="data"')[-1].split("</script>")[0]
        with pytest.raises(ffb.errors.InputError, match="has all layers; leave it out"):
            shown.to_html(layer=1)
    assert list(several[0].token_maps("edges").to_dataframe())[2:4] == ["query", "key"]
    with pytest.raises(ffb.errors.InputError, match="different column: 'written at' against 'key'"):
        ffb.average([maps[0], several[0].token_maps("edges")], {"END": -1})
    beside = ffb.contribution_maps(model, tiny.tokens("gpt2", 5, seed=5), queries=-1)
    with pytest.raises(ffb.errors.InputError, match="numbers by position, written at each"):
        beside.to_html(beside=maps[0])


def test_edges_beside_maps_of_some_layers_are_of_these(ffb: ModuleType, model: Any) -> None:
    """Layers and queries that the page has are taken; ones that edges lack are refused by number."""
    tokens = tiny.tokens("gpt2", 5)
    result = ffb.attribute(model, tokens, ffb.logit(7))
    edges = result.token_maps("edges")
    maps = ffb.contribution_maps(model, tokens, layers=[0, 2], queries=[2, 4])
    block = page_data({"run": maps}, beside=(result, edges)).runs[0].blocks[edges.kind]
    assert isinstance(block, MapsBlock)
    torch.testing.assert_close(block.values["head 1"], edges["head 1"][[0, 2]][:, [2, 4]])
    few = dataclasses.replace(edges, values=edges.values[:2], layers=(0, 1))
    with pytest.raises(ffb.errors.InputError, match="lack layers 2 of these: they have 0, 1"):
        maps.to_html(beside=few)


@pytest.mark.wrong_types
def test_an_attribution_has_no_maps_of_another_name(ffb: ModuleType, model: Any, tokens: Tensor) -> None:
    """Those there are, are named."""
    with pytest.raises(ffb.errors.InputError, match='"residual", "heads" or "edges"'):
        ffb.attribute(model, tokens, ffb.logit(7), of=()).token_maps("neurons")
