"""The study of memories: its tables are those of the public functions, however the run was cut, killed or shared."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.corpora import stored_tables
from tests.tiny import VOCAB
from tl_ffblock import memories
from tl_ffblock.bridge.model import identify
from tl_ffblock.corpus.runs import CorpusRun
from tl_ffblock.corpus.study import Tables
from tl_ffblock.experiments import study
from tl_ffblock.experiments.geva.memories import TriggerShard, confident_table, ngram_table

Run = Callable[..., CorpusRun]
SPEC = (study("memories", keys=6, top_triggers=4),)


def test_triggers_and_agreement_are_those_of_the_public_functions(
    shared_run: Run, loaded: Callable[[str], Any], corpus: Path
) -> None:
    """The same positions as a search of the whole corpus, and the same share of values that agree."""
    model = loaded("llama")
    tables = shared_run(SPEC, family="llama").tables
    table = tables["memories_triggers"]
    names = [f"{row.layer}:{row.neuron}" for row in table.itertuples()]
    texts = corpus.read_text().splitlines()
    for sign in ("positive", "negative"):
        found = memories.find_triggers(model, texts, memories=set(names), k=4, sign=sign, skip_first=1)
        values = memories.value_tokens(model, memories=set(names), sign=sign)
        for name in set(names):
            layer, neuron = map(int, name.split(":"))
            rows = table[(table["layer"] == layer) & (table["neuron"] == neuron) & (table["sign"] == sign)]
            triggers = found.of(name)
            assert list(zip(rows["sequence"], rows["position"], strict=True)) == [
                (t.sequence, t.position) for t in triggers
            ]
            np.testing.assert_allclose(rows["coefficient"], [t.coefficient for t in triggers], rtol=1e-3)
            assert [text.split()[-1] for text in rows["prefix"]] == [t.prefix[-1] for t in triggers]
        agreeing = memories.agreement(found, values).groupby("layer")["agrees"].mean()
        assert_ranks(
            tables, sign, found, memories.value_tokens(model, memories=set(names), sign=sign, targets=range(VOCAB))
        )
        rows = tables["memories_agreement"].query("sign == @sign and reading == 'final_norm'").set_index("layer")
        np.testing.assert_allclose(rows["first"].dropna(), agreeing.dropna())


def assert_ranks(tables: Tables, sign: str, found: memories.Triggers, values: memories.ValueTokens) -> None:
    """The token after each first trigger, in the ranks of all tokens that the public function gives; first places agree."""
    rows = tables["memories_ranks"].query("sign == @sign and reading == 'final_norm'").set_index("layer")
    by_layer: dict[int, list[int]] = {layer: [] for layer in rows.index}
    for name in found.memories:
        first = next(iter(found.of(name)), None)
        following = None if first is None else found.next_ids[found.row_of(name), 0]
        if following is not None and following >= 0:
            by_layer[name.layer].append(int(values.target_ranks[values.row_of(name), following]))
    for layer, ranks in by_layer.items():
        row = rows.loc[layer]
        assert row["memories"] == len(ranks) > 0
        expected = [np.quantile(ranks, q) for q in (0.25, 0.5, 0.75)]
        assert row[["first_quartile", "median", "third_quartile"]].tolist() == pytest.approx(expected)
        assert row["up_to_10"] == pytest.approx(np.mean(np.array(ranks) <= 10))
    agreement = tables["memories_agreement"].query("sign == @sign and reading == 'final_norm'").set_index("layer")
    np.testing.assert_allclose(rows["up_to_1"], agreement["first"])


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_however_the_corpus_is_cut(family: str, run: Run, shared_run: Run) -> None:
    """One shard or eight: the same triggers, byte for byte, and the same means."""
    eight, one = shared_run(SPEC, family=family), run(SPEC, family=family, shard_size=30)
    for name in ("triggers", "ngrams", *(["agreement", "ranks"] * (family == "llama"))):
        name = f"memories_{name}.csv"
        assert stored_tables(eight.folder)[name] == stored_tables(one.folder)[name]
    compositions = (each.tables["memories_composition"][["active", "zero_agreement"]] for each in (eight, one))
    np.testing.assert_allclose(*compositions)


def test_an_encoder_without_its_head_has_triggers_alone(run: Run, loaded: Callable[[str], Any]) -> None:
    """Nothing is read as tokens, since its head would be random numbers."""
    config = identify(loaded("bert")).hooked.original_model.config
    config.untrained_head = True
    try:
        tables = run(SPEC, limit=4).tables
    finally:
        config.untrained_head = False
    assert {name for name in tables if name.startswith("memories")} == {"memories_triggers", "memories_ngrams"}
    assert len(tables["memories_triggers"])


def test_a_head_that_nobody_trained_is_not_digested(loaded: Callable[[str], Any]) -> None:
    """It is other random numbers at every loading, and a run could not be continued."""
    model = identify(loaded("bert"))
    config = model.hooked.original_model.config
    head = model.hooked.original_model.cls.predictions.transform.dense._original_component.weight
    digests, before = {True: [], False: []}, head.data.clone()
    try:
        for config.untrained_head in (True, False):
            for change in (0, 0.1):
                head.data = before + change
                digests[config.untrained_head].append(model.weights_digest(head=True))
    finally:
        config.untrained_head, head.data = False, before
    assert digests[True][0] == digests[True][1]
    assert digests[False][0] != digests[False][1]


@torch.no_grad()
def test_composition_and_refinement_follow_from_the_models_own_activations(
    run: Run, loaded: Callable[[str], Any], tmp_path: Path
) -> None:
    """A text of one word has one position behind the first token; every column is counted there from the cache."""
    model, texts = loaded("llama"), ["cat", "mat", "dog", "her", "sat"]
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    tables = run(SPEC, family="llama", data=str(tmp_path / "texts.txt")).tables
    caches = [model.run_with_cache(model.to_tokens(text)) for text in texts]
    finals = [int(logits[0, 1].argmax()) for logits, _ in caches]
    refinement = tables["memories_refinement"].set_index(["reading", "layer"])
    composition = tables["memories_composition"].set_index(["rule", "layer"])
    for layer in range(model.cfg.n_layers):
        names = [f"blocks.{layer}.{name}" for name in ("hook_mlp_out", "hook_resid_post", "mlp.hook_post")]
        added, output, coefficients = (torch.stack([cache[name][0, 1] for _, cache in caches]) for name in names)
        logits = model.unembed(model.ln_final(torch.stack([output - added, added, output])))
        residual, feed_forward, sums = logits.argmax(-1).numpy()
        row = refinement.loc[("final_norm", layer)]
        assert row["final"] == pytest.approx(np.mean(residual == finals))
        probability = logits[0].softmax(-1)[range(len(texts)), finals].mean()
        assert row["probability"] == pytest.approx(float(probability), rel=1e-4)
        assert row["residual"] == pytest.approx(np.mean((sums == residual) & (sums != feed_forward)))
        assert row["feed-forward"] == pytest.approx(np.mean((sums == feed_forward) & (sums != residual)))
        assert row["agreement"] == pytest.approx(np.mean((sums == residual) & (sums == feed_forward)))
        written = (coefficients[:, :, None] * model.blocks[layer].mlp.W_out) @ model.W_U
        fires = coefficients > 0
        row = composition.loc[("positive", layer)]
        assert row["active"] == pytest.approx(float(fires.double().mean()))
        for column, vectors in (("zero_agreement", added), ("zero_agreement_with_sum", output)):
            says = (written.argmax(-1) == (vectors @ model.W_U).argmax(-1)[:, None]) & fires
            assert row[column] == pytest.approx(float((~says.any(dim=1)).double().mean()))


def _by_hand(magnitudes: list[list[float]], endings: list[list[list[int]]], following: list[list[int]]) -> TriggerShard:
    """Triggers of some memories, a sequence each, with the last tokens of their prefixes."""
    size = np.array(magnitudes, dtype=np.float32)
    context = np.full((*size.shape, 12), -1)
    for row, of_memory in enumerate(endings):
        for rank, ending in enumerate(of_memory):
            context[row, rank, 12 - len(ending) :] = ending
    sequence = np.where(size > 0, np.arange(size.shape[1]), -1)
    return TriggerShard(size, sequence, sequence, context, np.array(following), np.full((*size.shape, 2), -1))


def test_endings_are_counted() -> None:
    """Three triggers of four end in 7, three of these in 5 7; a memory of two triggers is not asked."""
    alike = [[1, 5, 7], [2, 5, 7], [5, 7], [8, 9]]
    shard = _by_hand([[4, 3, 2, 1], [4, 3, 0, 0]], [alike, [[7], [7]]], [[0] * 4, [0, 0, -1, -1]])
    table = ngram_table(np.array([[0, -1, 0], [0, -1, 1]]), {"positive": shard, "negative": shard, "random": shard})
    rows = table.query("sign == 'positive'").set_index("n")
    assert rows["memories"].tolist() == [1, 1, 1]
    assert rows["shared"].tolist() == [1, 1, 0]
    assert rows["largest"].tolist() == [3 / 4, 3 / 4, 1 / 4]


def test_confident_values_are_the_hundred_of_largest_probability() -> None:
    """120 memories in three layers, the last 40 the most certain: 40 of the hundred are in the upper third, and one agrees."""
    names = np.array([[memory // 40, -1, memory] for memory in range(120)])
    probability, tops = np.arange(120) / 120, np.arange(120)
    following = np.full((120, 1), -1)
    following[119] = 119
    following[0] = 0
    shard = _by_hand([[1.0]] * 120, [[[3]]] * 120, following.tolist())
    values = (np.stack([tops, tops]), np.stack([probability, probability]))
    table = confident_table(names, {"positive": shard, "negative": shard}, {"positive": values, "negative": values})
    row = table.iloc[0]
    assert (row["values"], row["upper_third"], row["agreeing_trigger"]) == (100, 0.4, 0.01)
    assert row["agreeing_trigger_of_all"] == pytest.approx(2 / 120)
    assert row["least_probability"] == pytest.approx(20 / 120)
