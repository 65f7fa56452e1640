"""Known circuits: programs verify themselves, methods are scored as they must be, and what does not fit is refused."""

from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from docs.results import known_circuits_trained as trained
from tests import tiny
from tl_ffblock import known_circuits as kc
from tl_ffblock.errors import InputError, MapFileError
from tl_ffblock.known_circuits import scores
from tl_ffblock.known_circuits.known import auroc, task_accuracy

SMALL = ("previous token", "exclusive or", "majority")


@pytest.mark.parametrize("program", list(kc.PROGRAMS))
def test_every_kind_of_every_program_has_its_circuit(program: str) -> None:
    """The model does its task and exact patching separates the stated edges, with noise: `build` refuses what fails."""
    settings = kc.Settings(norm="RMS" if program in SMALL else "none", noise=0.02)
    for known in kc.build(program, settings, pairs=2):
        size = np.abs(known.exact).mean(axis=0)
        assert size[known.is_true].min() > size[~known.is_true].max()
        assert known.true_edges <= set(known.edges) and known.noise_only is not None
        assert all(pair.tokens for pair in known.pairs)


@pytest.mark.parametrize("settings", [kc.Settings(norm="LN", gated=True), kc.Settings(rotated=False, sharpness=6.0)])
def test_settings_change_the_model_and_not_the_circuit(settings: kc.Settings) -> None:
    """LayerNorm, gated blocks, axes in place of a rotation."""
    plain, other = (kc.build("induction", chosen, pairs=2, kinds=["key"])[0] for chosen in (kc.Settings(), settings))
    assert plain.true_edges == other.true_edges and plain.heads == {"L0H0", "L1H0", "L1H1"}
    assert hasattr(other.model.blocks[0].mlp, "gate") == settings.gated


def test_a_wrong_edge_is_refused() -> None:
    """A stated edge that carries nothing fails exact patching; one that no space joins fails before."""
    (known,) = kc.build("previous token", pairs=2)
    wrong = kc.KnownCircuit("p", "k", known.model, known.pairs, known.true_edges | {("L1H1", "target")})
    with pytest.raises(InputError, match="L1H1 -> target is"):
        wrong.verify()
    program = kc.read_program("previous token")
    kind = kc.Kind("token", "previous -> previous.v", program.kinds[0].draw)
    with pytest.raises(InputError, match="reads nothing"):
        kc.build(kc.Program("p", "t", program.layout, (kind,)))


def test_a_task_that_does_not_survive_is_refused() -> None:
    """In one sentence with how often it is done; unknown names and settings are refused, too."""
    with pytest.raises(InputError, match=r"does its task in \d+% of 64 pairs"):
        kc.build("sort", kc.Settings(noise=2.0))
    with pytest.raises(InputError, match="Did you mean `induction`"):
        kc.build("inductoin")
    with pytest.raises(InputError, match="value, key, query"):
        kc.build("induction", kinds=["keys"])
    with pytest.raises(InputError, match="noise=-1"):
        kc.Settings(noise=-1)


def test_scores_are_those_of_estimates_by_hand() -> None:
    """An exact method, one with a flipped sign, one of zeros; relative error and false edges at full recall."""
    (known,) = kc.build("previous token", pairs=2)

    def by(values: Any) -> Any:
        return lambda model, clean, corrupted, target: dict(zip(known.edges, values(clean), strict=True))

    def exact(clean: Tensor) -> Any:
        return known.exact[[pair.clean == tuple(clean.tolist()) for pair in known.pairs].index(True)]

    table = kc.score(
        {"same": by(exact), "half": by(lambda clean: -exact(clean) / 2), "zero": by(lambda clean: 0 * exact(clean))},
        known,
    ).set_index("method")
    assert table.loc["same", ["AUROC", "average precision", "sign", "error", "false edges"]].tolist() == [1, 1, 1, 0, 0]
    assert table.loc["exact, wrong sign", ["AUROC", "sign", "error"]].tolist() == [1, 0, 2]
    assert table.loc["half", ["sign", "error"]].tolist() == [0, 1.5]
    n_false = int((~known.is_true).sum())
    assert table.loc["zero", ["AUROC", "sign", "error", "false edges"]].tolist() == [0.5, 0, 1, n_false]
    assert table.loc["shuffled", "AUROC"] < 0.95
    assert auroc(np.array([True, False, False]), np.array([1.0, 2.0, 1.0])) == 0.25


@pytest.mark.parametrize("program", ["induction", "indirect object", "brackets", "exclusive or"])
def test_nodes_and_tokens_have_their_truth(program: str) -> None:
    """Senders of true edges and tokens that differ are those whose patching changes the target; estimates are scored against it."""
    for known in kc.build(program, kc.Settings(noise=0.02), pairs=2):
        if known.truth != "clean run":
            with pytest.raises(InputError, match="truth clean run, not random sets"):
                kc.score({}, known, of="nodes")
            continue
        for of in ("nodes", "tokens"):
            methods = {"mine": partial(kc.package_method, of=of, rules="patching", steps=5)}
            table = kc.score(methods, known, of=of).set_index("method")
            assert table.loc["exact", ["AUROC", "sign", "error", "false edges"]].tolist() == [1, 1, 0, 0]
            assert table.loc["mine", "AUROC"] > 0.9
        assert known.neurons is not None and set(known.neurons) == {int(n[1]) for n in known.nodes if "mlp" in n}
        pair, (_, effects) = known.pairs[0], known.truth_of("nodes")
        prompts = [*pair.clean], [*pair.corrupted]
        measured = ffb.activation_patching(
            known.model, *prompts, known.target(pair), of=("heads", "mlps"), direction="noising", by_position=False
        )
        for name, effect in zip(known.items("nodes", pair)[1:], effects[0, 1:], strict=True):
            layer, _, head = name[1:].partition("H")
            of_kind = measured.values["head"][int(layer), int(head)] if head else measured.values["mlp"][int(layer[0])]
            assert float(of_kind) == pytest.approx(effect, rel=1e-4, abs=1e-4)


def test_methods_that_answer_wrongly_are_refused() -> None:
    """No mapping, missing edges, unknown ones, NaN, a control's name."""
    (known,) = kc.build("previous token", pairs=1)
    zero = dict.fromkeys(known.edges, 0.0)
    for answer, said in (
        ([1], "a number by edge"),
        ({known.edges[0]: 1.0}, "lacks 74 of 75 edges"),
        (zero | {("a", "b"): 1.0}, "no edge"),
        (zero | {known.edges[0]: float("nan")}, "returned nan for"),
        (zero | {known.edges[0]: None}, "returned None for"),
        (zero | {known.edges[0]: 1j}, "returned 1j for"),
    ):
        with pytest.raises(InputError, match=said):
            kc.score({"mine": lambda *_, answer=answer: answer}, known)
    with pytest.raises(InputError, match="name of a control"):
        kc.score({"exact": lambda *_: zero}, known)


def test_a_method_that_changes_the_model_is_refused() -> None:
    """Methods after it would be scored on another model: a hook that stays, weights that are not put back."""
    (known,) = kc.build("previous token", pairs=1)
    zero = dict.fromkeys(known.edges, 0.0)

    def hooked(model: Any, *_: Any) -> dict[Any, float]:
        model.add_hook("blocks.0.hook_attn_out", lambda value, hook: value * 0.5)
        return zero

    @torch.no_grad()
    def changed(model: Any, *_: Any) -> dict[Any, float]:
        for parameter in model.parameters():
            parameter.mul_(0.9)
        return zero

    for method in (hooked, changed):
        with pytest.raises(InputError, match="'mine' leaves the model with other logits"):
            kc.score({"mine": method}, known)
        known.model.reset_hooks()


def test_exact_receivers_see_keys_under_saturated_attention() -> None:
    """On seeds that nobody tuned on: AUROC above .995 and error at most .12; one-pass gradients lose more."""
    methods = {
        name: partial(kc.package_method, rules="patching", receivers=how)
        for name, how in (("derivative", "linear"), ("evaluated", "exact"))
    }
    tables = [
        kc.score(methods, known)
        for seed in (11, 12)
        for known in kc.build("induction", kc.Settings(noise=0.05, seed=seed), pairs=3)
    ]
    means = {
        how: np.mean([t.set_index("method").loc[how, ["AUROC", "error"]] for t in tables], axis=0) for how in methods
    }
    assert means["evaluated"][0] >= 0.995 and means["evaluated"][1] <= 0.12
    assert means["derivative"][1] > 2 * means["evaluated"][1]


def test_a_model_and_truth_from_outside_are_scored() -> None:
    """One head of a model of one's own that copies the token before."""
    model = tiny.toy("attn_only_no_norms", "bridge")
    pairs = tuple(kc.Pair((1, 2, 3 + n), (1, 2, 9 + n), 7, 8) for n in range(2))
    ends = frozenset(edge for edge in ffb.Circuit.full(model) if edge[0] == "L0.resid")
    outside = kc.KnownCircuit("mine", "last token", model, pairs, ends)
    table = kc.score({"gradient": kc.package_method}, outside).set_index("method")
    assert table.loc["exact", "error"] == 0 and 0 < table.loc["gradient", "AUROC"] <= 1
    with pytest.raises(InputError, match="exact patching separates"):
        kc.KnownCircuit("mine", "last token", model, pairs, frozenset({("L1H0", "target")})).verify()


def test_a_grid_that_is_stopped_keeps_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the known circuits before, some at a time and the last ones at the end."""
    cells = [("previous token", "token", kc.Settings(seed=seed)) for seed in (1, 2, 3, 4)]
    store, held = tmp_path / "s.csv", list[int]()

    def mine(model: Any, clean: Tensor, corrupted: Tensor, target: Any) -> dict[tuple[str, str], float]:
        held.append(len(set(pd.read_csv(store)["seed"])) if store.exists() else 0)
        if len(held) == 4:
            raise KeyboardInterrupt
        return kc.package_method(model, clean, corrupted, target)

    monkeypatch.setattr(scores, "CELLS_AT_A_TIME", 2)
    with pytest.raises(KeyboardInterrupt):
        kc.score_grid({"mine": mine}, cells, pairs=1, store=store, progress=False)
    assert held == [0, 0, 2, 2]
    assert list(dict.fromkeys(pd.read_csv(store)["seed"])) == [1, 2, 3]


def test_the_grid_is_resumed_from_its_file(tmp_path: Path) -> None:
    """Known circuits in the file are not made again; a file of other methods is refused; what did not survive is named."""
    cells = [
        ("previous token", "token", kc.Settings(seed=seed, noise=noise))
        for seed, noise in ((1, 0.0), (2, 0.0), (1, 9.0))
    ]
    asked: list[int] = []

    def mine(model: Any, clean: Tensor, corrupted: Tensor, target: Any) -> dict[tuple[str, str], float]:
        asked.append(1)
        return kc.package_method(model, clean, corrupted, target)

    first, refused = kc.score_grid({"mine": mine}, cells, store=tmp_path / "s.csv", progress=False)
    calls = len(asked)
    again, _ = kc.score_grid({"mine": mine}, cells, store=tmp_path / "s.csv", progress=False)
    assert len(asked) == calls == 4 and len(refused) == 1
    np.testing.assert_allclose(again.numbers["AUROC"], first.numbers["AUROC"])
    assert set(first.means()["n"]) == {2} and "2 known circuits" in str(first)
    one, _ = kc.score_grid({"mine": mine}, cells[:1], store=tmp_path / "s.csv", progress=False)
    assert set(one.labels["seed"]) == {"1"}, "the other cells of the file were not asked for"
    with pytest.raises(InputError, match=r"by=\(\): expected some of program"):
        first.means(by=())
    with pytest.raises(InputError, match="other methods"):
        kc.score_grid({"another": mine}, cells, store=tmp_path / "s.csv", progress=False)
    for other, asked_for in (({"of": "nodes"}, "nodes with 2"), ({"pairs": 3}, "edges with 3")):
        with pytest.raises(InputError, match=f"has scores of edges with 2 pairs, expected {asked_for}"):
            kc.score_grid({"mine": mine}, cells, store=tmp_path / "s.csv", progress=False, **other)
    for content in (b"", b"a,b\n1,2\n", b"\xff", b'"', (tmp_path / "s.csv").read_bytes().replace(b"0.", b"x.")):
        (tmp_path / "bad.csv").write_bytes(content)
        with pytest.raises(MapFileError, match=r"bad\.csv is not a table of scores"):
            kc.score_grid({"mine": mine}, cells, store=tmp_path / "bad.csv", progress=False)
    rows = (tmp_path / "s.csv").read_text().splitlines(keepends=True)
    for lines, number in ((rows + rows[1:], 8), (rows[:-1], 3), ([*rows[:-1], rows[-2]], 4)):
        (tmp_path / "bad.csv").write_text("".join(lines))
        with pytest.raises(
            MapFileError, match=rf"bad\.csv has {number} rows of previous token · .*expected one of each of 4"
        ):
            kc.score_grid({"mine": mine}, cells, store=tmp_path / "bad.csv", progress=False)
    names = {cell[0] for cell in kc.grid()}
    assert len(names) >= 12 and len(kc.grid()) == len(names) * 24 and not {cell[2].seed for cell in kc.grid()} & {0}


def test_pairs_differ_where_they_say_and_tasks_are_measured_on_both_sides() -> None:
    """A model that does one side alone has half its accuracy."""
    (known,) = kc.build("majority", pairs=1)
    (kind,) = kc.read_program("majority").kinds
    pairs = [kind.draw(Random(seed)) for seed in range(8)]
    assert task_accuracy(known.model, pairs) == 1
    swapped = [kc.Pair(p.clean, p.corrupted, p.answer, p.foil, p.answer) for p in pairs]
    assert task_accuracy(known.model, swapped) == 0.5
    assert torch.equal(
        known.target(pairs[0])(torch.eye(3)[None, 1:2]), torch.tensor([1.0 if pairs[0].answer == 1 else -1.0])
    )


def test_trained_models_have_their_circuit() -> None:
    """The stored weights are verified when they are read; the function that was trained is the model, and its edges are patched."""
    (known,) = (trained.trained(*each) for each in [("majority", "one vote")])
    pair, size = known.pairs[0], np.abs(known.exact).mean(axis=0)
    assert auroc(known.is_true, size) >= trained.LEAST and known.settings == "trained"
    function = trained.Edges(trained.weights_of(known.model), kc.read_program("majority").layout.n_heads)
    clean, other = (torch.tensor([prompt]) for prompt in (pair.clean, pair.corrupted))
    torch.testing.assert_close(function(clean)[0], known.model(clean)[:, -1], rtol=1e-4, atol=1e-4)
    patched = torch.zeros(1, *function.sizes(), dtype=torch.bool)
    patched[0, 0, 2 * function.n_heads] = True  # the first head's values read the other run's embeddings
    with torch.no_grad():
        logits = function(clean, function(other)[1], patched)[0] - function(clean)[0]
    expected = dict(zip(known.edges, known.exact[0], strict=True))["L0.resid", "L0H0.v"]
    assert float(logits[0, pair.answer] - logits[0, pair.foil]) == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert trained.WEIGHTS.stat().st_size < 2e6
    wrong = kc.KnownCircuit(
        "wrong", "kind", known.model, known.pairs, frozenset({("L1H1", "target"), ("L0H1", "L1H0.q")})
    )
    with pytest.raises(InputError, match="expected 0.99"):
        wrong.verify(trained.LEAST)
