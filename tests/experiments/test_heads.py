"""The study of heads: its tables are those of the public functions, however the run was cut, killed or shared."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tl_ffblock as ffb
from tests.corpora import OF_TREEBANK, TREEBANK
from tl_ffblock import heads
from tl_ffblock.corpus.runs import CorpusRun
from tl_ffblock.corpus.texts import CorpusText, read_conllu
from tl_ffblock.errors import InputError
from tl_ffblock.experiments import study

pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra heads)")
Run = Callable[..., CorpusRun]
BY_HEAD = (study("heads", contributions="head", least_arcs=1),)


def sentences() -> list[CorpusText]:
    """The treebank's."""
    return [text for text in read_conllu(TREEBANK) if isinstance(text, CorpusText)]


def arcs_of(text: CorpusText) -> heads.Arcs:
    """Every relation but the root's; each word is one token here."""
    return heads.Arcs.of((arc.dependent, arc.head, arc.name) for arc in text.relations if arc.head >= 0)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_tables_are_those_of_the_public_functions(family: str, shared_run: Run, loaded: Callable[[str], Any]) -> None:
    """Means over all queries of the corpus, and relations of maps of words: attention, whole layers and by head."""
    tables = shared_run(BY_HEAD, family=family, **OF_TREEBANK).tables
    model, n_special = loaded(family), 2 if family == "bert" else 1
    previous, hits, first_rows = [], [], []
    for text in sentences():
        attention = ffb.attention_maps(model, text.text)
        contributions = ffb.contribution_maps(model, text.text, heads=True)
        scope = contributions.scopes[-1] if family == "bert" else "AtbLnFfRes"
        special = [0] if n_special == 1 else [0, -1]
        shares = heads.target_shares(attention, heads.token_groups(attention.tokens, special=special))
        previous.append(shares["previous"])
        first_rows.append(heads.entropy(attention)[..., 0].reshape(-1))
        word = [-1, *range(len(text.words or ())), *([-1] * (n_special - 1))]
        by_head = contributions.token_maps(scope, heads=True)
        rows = dataclasses.replace(by_head, values=by_head.values / by_head.values.sum(dim=-1, keepdim=True))
        hits.append((heads.word_maps(rows, word), arcs_of(text)))
    expected = np.nanmean(np.concatenate(previous, axis=-1), axis=-1).reshape(-1)
    of_attention = tables["heads_statistics"].query("map == 'attention'")
    np.testing.assert_allclose(of_attention["previous"], expected, rtol=1e-5)
    of_first = tables["heads_no_op"].query("map == 'attention' and query == 'first special'")["entropy"]
    np.testing.assert_allclose(of_first, np.mean(first_rows, axis=0), rtol=1e-5, atol=1e-7)
    found = heads.relation_hits(hits)
    question = f"map == '{scope} by head' and relation == '{{}}' and read == 'from dependent'"
    for relation, arcs in found.relations.items():
        reach = arcs & found.reachable("from dependent")
        rows = tables["heads_relations"].query(question.format(relation))
        if reach.any():
            by_channel = found.hits[0][reach].mean(axis=0)[:, :-1]  # the residual's channel reaches no other word
            np.testing.assert_allclose(rows["accuracy"], by_channel.reshape(-1))
        else:
            assert rows.empty


def test_offsets_are_counted(shared_run: Run) -> None:
    """Six of the eight determiners stand just before their noun; a causal model is asked for heads behind from heads alone."""
    tables = shared_run(BY_HEAD, family="llama", **OF_TREEBANK).tables["heads_offsets"]
    det = tables.query("relation == 'det'").set_index(["read", "offset"])
    assert det.loc[("from head", 1), "accuracy"] == 1 and det.loc[("from head", 1), "arcs"] == 8
    assert "from dependent" not in det.index.get_level_values("read")
    nsubj = tables.query("relation == 'nsubj' and read == 'from head'").set_index("offset")
    assert nsubj.loc[[1, 2, 4], "accuracy"].tolist() == pytest.approx([4 / 7, 2 / 7, 1 / 7])


def test_a_possessor_is_asked_at_its_marker_on_request(run: Run, tmp_path: Path) -> None:
    """`a dog 's bird sat`: two words before its head as a noun, one before it as the paper's program reads it."""
    rows = ("a/2/det", "dog/4/nmod:poss", "'s/2/case", "bird/5/nsubj", "sat/0/root")
    lines = (row.split("/") for row in rows)
    words = [f"{n}\t{word}\t_\t_\t_\t_\t{head}\t{name}\t_\t_" for n, (word, head, name) in enumerate(lines, 1)]
    data = tmp_path / "possessor.conllu"
    data.write_text("# text = a dog 's bird sat\n" + "\n".join(words) + "\n\n", encoding="utf-8")
    for possessives, k in (("noun", 2), ("marker", 1)):
        asked = [study("heads", least_arcs=1, possessives=possessives)]
        table = run(asked, data=str(data), mask_fraction=0.0, out=possessives).tables["heads_offsets"]
        found = table.query("relation == 'nmod:poss' and accuracy == 1")
        assert found["offset"].tolist() == [k, k]


def test_best_maps_are_compared_on_other_documents(run: Run) -> None:
    """Every kind of map has a row a question, between its interval's ends; attention minus itself is zero."""
    finished = run([study("heads", least_arcs=3)], **OF_TREEBANK)
    best = finished.tables["heads_best"]
    assert set(best["map"]) == {"attention", "value-weighted", "Atb", "AtbFf", "AtbFfResLn", "offset"}
    assert (best["accuracy_low"] <= best["accuracy"]).all() and (best["accuracy"] <= best["accuracy_high"]).all()
    assert (best.query("map == 'attention'")[["minus_attention_low", "minus_attention_high"]] == 0).all().all()
    differences = finished.tables["heads_differences"].set_index(["map", "minus"])
    for (kind, other), row in differences.iterrows():
        of_kind = best[best["map"] == kind]
        assert row["questions"] == len(of_kind) and row["mean"] == pytest.approx(of_kind[f"minus_{other}"].mean())
        assert row["better"] == (of_kind[f"minus_{other}_low"] > 0).sum() and row["mean_low"] <= row["mean_high"]
    assert {other for kind, other in differences.index if kind == "AtbFf"} == {"attention", "offset", "atb"}
    maps = best[best["map"] != "offset"]
    assert (maps["top_accuracy"] >= maps["accuracy"]).all()
    accuracy = maps.query("map == 'attention' and relation == 'all' and read == 'from head'")["accuracy"].item()
    report = (finished.folder / "report.html").read_text(encoding="utf-8")
    assert "read from head, best map chosen on other documents" in report and f"attention {accuracy:.0%}" in report


@pytest.mark.parametrize(("name", "masked"), [("heads", False), ("memories", False), ("contextualization", True)])
def test_every_study_has_its_own_share_of_masks(name: str, masked: bool, run: Run) -> None:
    """Kobayashi et al. masked 12 % of the tokens, Clark et al. and Geva et al. none; plain text has no table of relations."""
    finished = run(name, limit=8)
    assert finished.status == 0
    assert ("masked" in finished.tables) == masked == (finished.outputs.summary["masked"] > 0)
    if name == "heads":
        names = {name.removeprefix("heads_") for name in finished.tables if name.startswith("heads_")}
        assert names == {"statistics", "no_op", "divergences", "plane"}
        assert finished.tables["heads_divergences"]["divergence"].between(0, np.log(2)).all()


def test_a_run_of_studies_with_unlike_masks_asks(run: Run) -> None:
    """Of a masked language model alone, and not where the run says a share."""
    with pytest.raises(InputError, match=r"mask_fraction is not set.*heads 0, bypass 0\.12.*--mask-fraction 0"):
        run("heads,bypass", limit=2, out="asks")
    assert run("heads,bypass", limit=2, mask_fraction=0.0).status == 0
    assert run("heads,bypass", family="llama", limit=2, out="b").status == 0
