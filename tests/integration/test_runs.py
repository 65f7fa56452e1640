"""What a forward pass delivers, keeps and refuses."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tl_ffblock.bridge.capture import capture
from tl_ffblock.bridge.runs import kept_records, open_run


def test_every_layer_comes_once_with_all_sequences() -> None:
    """A receiver gets each layer's records once, by number of the sequence, equal to what `capture` holds."""
    model = model_of("gpt2", torch.float64)
    tokens = torch.stack([tiny.tokens("gpt2", 5), tiny.tokens("gpt2", 5).flip(0)])
    delivered: list[tuple[int, list[int]]] = []

    def receive(records: Mapping[int, Any]) -> None:
        delivered.append((records[0].layer, sorted(records)))
        for number, record in records.items():
            assert torch.equal(record.pattern, captured[record.layer].pattern[number])
            assert torch.equal(record.whole["Atb"], captured[record.layer].whole["Atb"][number])

    with capture(model) as captured:
        model(tokens)
    open_run(model, tokens).deliver(receive)
    assert delivered == [(layer, [0, 1]) for layer in range(len(captured.layers))]


def test_rows_ascend_and_order_gives_them_back_as_asked() -> None:
    """Records hold each asked position once, ascending; `order` finds the row of every position asked for."""
    run = open_run(model_of("gpt2"), tiny.tokens("gpt2", 6), layers=1, queries=[-1, 2, 2])
    (records,) = kept_records(run)
    assert records[1].queries.tolist() == [2, 5]
    assert records[1].queries[run.sequences[0].order].tolist() == [5, 2, 2]


@pytest.mark.parametrize("family", ["gpt2", "opt", "llama", "qwen3", "bert", "phi"])
def test_query_times_key_is_the_pattern(family: str) -> None:
    """Soft-max over the keys of `q k / sqrt(d_head)` is the pattern that the same run shows, for all rows and for some."""
    model = model_of(family, torch.float32)
    for queries in (None, [1, 3]):
        run = open_run(model, tiny.tokens(family, 5), layers=1, extra=("query", "key"), queries=queries)
        record = kept_records(run)[0][1]
        key = record.key.repeat_interleave(record.query.shape[1] // record.key.shape[1], dim=1)
        scores = torch.einsum("qhe,khe->hqk", record.query, key) / record.query.shape[-1] ** 0.5
        if record.block.causal:
            scores = scores.masked_fill(torch.arange(5) > record.queries[:, None], -torch.inf)
        torch.testing.assert_close(scores.softmax(dim=-1), record.pattern, rtol=1e-4, atol=1e-6)


def test_query_and_key_of_a_padded_batch_are_those_of_each_sequence_alone() -> None:
    """Rows and keys of the padding are gone from both, as from the pattern, for all rows and for the last of each."""
    model, tokens = model_of("llama"), tiny.tokens("llama", 6)
    batch, mask = torch.stack([tokens, tokens.flip(0)]), torch.tensor([[1] * 6, [1, 1, 1, 1, 0, 0]])
    for queries in (None, -1):
        options: dict[str, Any] = dict(layers=1, queries=queries, extra=("query", "key"))
        together = kept_records(open_run(model, batch, attention_mask=mask, **options))
        for records, length, sequence in zip(together, (6, 4), batch, strict=True):
            (alone,) = kept_records(open_run(model, sequence[:length], **options))
            for name in ("queries", "query", "key", "pattern"):
                torch.testing.assert_close(getattr(records[1], name), getattr(alone[1], name), rtol=1e-4, atol=1e-5)


def test_rotated_vectors_that_no_hook_point_shows_are_refused() -> None:
    """Query vectors before a rotation would give another pattern: where only these are shown, there are none."""
    with pytest.raises(ffb.FFBlockError, match="has no rotated query vectors"):
        kept_records(open_run(model_of("gpt_neox"), tiny.tokens("gpt_neox", 5), extra=("query",)))


def test_logits_are_those_of_the_model() -> None:
    """With `keeps_logits` the run goes to its end, under the hooks given, and keeps what came out."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 5)[None]
    hooks = [("blocks.0.hook_mlp_out", lambda tensor, hook: 2 * tensor)]
    run = open_run(model, tokens, layers=0, keeps_logits=True, fwd_hooks=hooks)
    run.deliver(lambda records: None)
    assert torch.equal(run.logits[0], model.run_with_hooks(tokens, fwd_hooks=hooks))
    with capture(model) as records:
        model(tokens)
    with pytest.raises(ffb.FFBlockError, match="a cache has no logits"):
        open_run(model, tokens, cache=records, keeps_logits=True)
