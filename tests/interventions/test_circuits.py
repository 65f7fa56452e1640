"""Circuits and edges: compared with runs in which every receiver's split input is set to the sum of what it reads."""

import json
import re
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import TOYS, Case, model_of
from tl_ffblock.bridge import edge_ablation
from tl_ffblock.errors import CompletenessError, InputError, MapFileError, ScopeKeyError, UnsupportedModelError
from tl_ffblock.graphs import Circuit
from tl_ffblock.interventions import CircuitFaithfulness, path_patching

TARGET = ffb.logit(7, minus=11)
COVERED = ("gpt2", "llama", "gemma2", "gpt_neox")
OTHERS = [name for name in tiny.ALL_FAMILIES if name not in (*COVERED, "bert", "roberta", "openai_gpt")]
EXACT = dict(rtol=1e-9, atol=1e-10)
"""float64: the same sums in another order. Rotary tables are float32 in both."""


def pair(family: str, n: int = 6) -> tuple[Tensor, Tensor]:
    """Two prompts [pos]."""
    return tiny.tokens(family, n), tiny.tokens(family, n, seed=1)


def drawn(model: Any, share: float, seed: int = 0) -> Circuit:
    """A circuit of random edges."""
    full = Circuit.full(model)
    return full.choose(np.random.default_rng(seed).random(len(full)) < share)


class ByHand:
    """Runs of a bridge whose inputs of queries, keys, values and feed-forwards are split, and set to explicit sums."""

    def __init__(self, family: str) -> None:
        self.model = Case(family).fresh(torch.float64)
        self.model.set_use_split_qkv_input(True)
        self.model.set_use_hook_mlp_in(True)
        self.parallel = family == "gpt_neox"

    def norm(self, layer: int, branch: str, x: Tensor) -> Tensor:
        """The norm after a branch, where the model has one."""
        block, name = self.model.blocks[layer], {"attn": "ln1_post", "mlp": "ln2_post"}[branch]
        return getattr(block, name).original_component(x) if hasattr(block, name) else x

    @torch.no_grad()
    def run(
        self, tokens: Tensor, ablated: dict[str, Tensor], circuit: Circuit | None
    ) -> tuple[dict[str, Tensor], Tensor]:
        """What every sender writes, and the logits."""
        written: dict[str, Tensor] = {}
        present = set() if circuit is None else set(circuit)

        def read(receiver: str, layer: int, middle: bool) -> Tensor:
            def of(sender: str) -> Tensor:
                return written[sender] if (sender, receiver) in present else ablated[sender]

            total = of("L0.resid")
            for number in range(layer + middle):
                heads = [of(f"L{number}H{head}") for head in range(4)]
                attention = self.model.blocks[number].attn
                bias = getattr(attention, "b_O", None)
                total = total + self.norm(number, "attn", sum(heads) + (0 if bias is None else bias))
                if number < layer:
                    total = total + self.norm(number, "mlp", of(f"L{number}.mlp"))
            return total

        hooks: list[Any] = [("blocks.0.hook_resid_pre", lambda x, hook: written.update({"L0.resid": x.clone()}))]
        for layer in range(len(self.model.blocks)):
            w_o = self.model.blocks[layer].attn.W_O

            def z(x: Tensor, hook: Any, layer: int = layer, w_o: Tensor = w_o) -> None:
                written.update({f"L{layer}H{head}": x[:, :, head] @ w_o[head] for head in range(4)})

            def mlp(x: Tensor, hook: Any, layer: int = layer) -> None:
                written[f"L{layer}.mlp"] = x.clone()

            def split(x: Tensor, hook: Any, layer: int = layer) -> Tensor:
                short = hook.name.split("hook_")[-1][0]
                kind = "H" if x.shape[2] == 4 else "KV"
                return torch.stack([read(f"L{layer}{kind}{h}.{short}", layer, False) for h in range(x.shape[2])], dim=2)

            def mlp_in(x: Tensor, hook: Any, layer: int = layer) -> Tensor:
                return read(f"L{layer}.mlp", layer, not self.parallel)

            hooks += [(f"blocks.{layer}.attn.hook_z", z), (f"blocks.{layer}.mlp.hook_out", mlp)]
            if circuit is not None:
                hooks += [(f"blocks.{layer}.attn.hook_{short}_input", split) for short in "qkv"]
                hooks += [(f"blocks.{layer}.hook_mlp_in", mlp_in)]
        last = len(self.model.blocks) - 1
        if circuit is not None:
            hooks += [(f"blocks.{last}.hook_resid_post", lambda x, hook: read("target", last + 1, False))]
        return written, self.model.run_with_hooks(tokens[None], fwd_hooks=hooks)


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", COVERED)
def test_a_circuit_is_the_run_whose_split_inputs_are_the_sums_that_it_says(family: str) -> None:
    """Random circuits of several sizes, all three ablations; nothing of the library's arithmetic is in the other run."""
    by_hand, model, (clean, corrupted) = ByHand(family), Case(family).model(torch.float64), pair(family)
    outputs, _ = by_hand.run(corrupted, {}, None)
    of_ablation = {
        "corrupted": outputs,
        "zero": {name: torch.zeros_like(output) for name, output in outputs.items()},
        "mean": {name: output.mean(dim=1, keepdim=True).expand_as(output) for name, output in outputs.items()},
    }
    seen = []
    for (ablation, ablated), share in zip(of_ablation.items(), (0.7, 0.4, 0.9), strict=True):
        circuit = drawn(model, share)
        expected = TARGET(by_hand.run(clean, ablated, circuit)[1])
        found = ffb.run_circuit(model, clean, corrupted, circuit, TARGET, ablation=ablation)
        torch.testing.assert_close(found, expected, **EXACT)
        seen.append(float(found))
    assert len({round(value, 6) for value in seen}) == 3


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", COVERED)
def test_an_edge_effect_is_the_change_of_the_run_with_this_split_input(family: str) -> None:
    """Edges into queries, keys, values, a feed-forward and the target; none of a batch sees another's."""
    by_hand, model, (clean, corrupted) = ByHand(family), Case(family).model(torch.float64), pair(family)
    full, (outputs, _) = Circuit.full(model), by_hand.run(corrupted, {}, None)
    kv = "KV" if "L1KV0.k" in full.receivers else "H"
    edges = [
        ("L0H3", "L1H2.q"),
        ("L0.resid", f"L1{kv}1.k"),
        ("L0.mlp", f"L1{kv}0.v"),
        ("L0H1", "L1.mlp"),
        ("L1.mlp", "target"),
    ]
    effects = ffb.edge_patching(model, clean, corrupted, TARGET, edges)
    for edge in edges:
        alone = full - Circuit.of(model, [edge])
        expected = TARGET(by_hand.run(clean, outputs, alone)[1]) - TARGET(by_hand.model(clean[None]).detach())
        torch.testing.assert_close(effects[edge], expected[0], **EXACT)
        assert abs(float(expected)) > 1e-6
    assert len(effects.ends) == len(edges)


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_neox"])
def test_a_path_carries_what_its_components_write(family: str) -> None:
    """Edge by edge with split inputs; a path of one edge is an edge, and a path to the target is not the edge's whole effect."""
    by_hand, model, (clean, corrupted) = ByHand(family), Case(family).model(torch.float64), pair(family)
    full = Circuit.full(model)
    kv = "KV1" if "L1KV1.v" in full.receivers else "H2"
    first, second = ("L0.mlp", f"L1{kv}.v"), ("L1H2", "target")
    (own, clean_logits), (other, _) = (by_hand.run(tokens, {}, None) for tokens in (clean, corrupted))
    own = {name: output.clone() for name, output in own.items()}
    rerun, _ = by_hand.run(clean, own | {"L0.mlp": other["L0.mlp"]}, full - Circuit.of(model, [first]))
    patched = own | {"L1H2": rerun["L1H2"].clone()}
    expected = TARGET(by_hand.run(clean, patched, full - Circuit.of(model, [second]))[1]) - TARGET(clean_logits)
    paths = [[first, second], [first]]
    found = path_patching(model, [clean, clean], [corrupted, clean], TARGET, paths)
    torch.testing.assert_close(found[0, :1], expected, **EXACT)
    edge = ffb.edge_patching(model, clean, corrupted, TARGET, [first])[first]
    torch.testing.assert_close(found[1, 0], edge, **EXACT)
    assert abs(float(found[0, 0])) > 1e-6
    only_way = family == "gpt_neox"  # where no feed-forward of the last layer reads the head
    assert (abs(float(found[0, 0] - edge)) > 1e-6) is not only_way
    assert float(found[:, 1].abs().max()) <= 1e-9


@pytest.mark.parametrize(
    "family", [*COVERED, "olmo2", "qwen2_moe", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]
)
def test_the_laws_hold_on_every_family(family: str) -> None:
    """The full circuit is the clean run, the empty one the ablated run, and receivers obey; edges are those of the estimates."""
    model, (clean, corrupted) = model_of(family), pair(family)
    full, empty = Circuit.full(model), Circuit.of(model, [])
    estimates = ffb.attribution_patching(model, clean, corrupted, TARGET, edges=True)
    assert torch.equal(full.present, estimates.edges.possible[:-1])
    for ablation in ("corrupted", "mean", "zero"):
        table = ffb.circuit_faithfulness(model, clean, corrupted, [empty, full], TARGET, ablation=ablation)
        assert all(error <= 1e-5 for error in table.certificate.errors.values())
        assert float(table.faithfulness[1]) == pytest.approx(1, abs=1e-3)
        assert float(table.values[1]) == pytest.approx(estimates.clean, abs=1e-4)
        if ablation == "corrupted":
            assert float(table.ablated) == pytest.approx(estimates.corrupted, abs=1e-4)


@pytest.mark.parametrize("case", [case for case in TOYS if case.api == "bridge"], ids=str)
def test_layers_without_norms_or_feed_forwards(case: Case) -> None:
    """Toy models: the same laws."""
    tokens = case.tokens(6)
    full = Circuit.full(case.model())
    table = ffb.circuit_faithfulness(case.model(), tokens, tokens.flip(0), full, TARGET)
    assert float(table.faithfulness) == pytest.approx(1, abs=1e-4)


def test_zero_ablation_needs_no_other_prompt() -> None:
    """And gives the same with one."""
    model, (clean, corrupted) = model_of("llama"), pair("llama")
    circuit = drawn(model, 0.5)
    alone, beside = (
        ffb.run_circuit(model, clean, other, circuit, TARGET, ablation="zero") for other in (None, corrupted)
    )
    assert torch.equal(alone, beside)


@pytest.mark.parametrize("broken", ["W_O", "norm", "edit", "receivers"])
def test_laws_refuse(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """One per cent wrong in what senders write or in the norm of receivers, an edit of the stream, receivers that do not obey."""
    model, (clean, corrupted) = Case("gpt2").fresh(), pair("gpt2")
    own = edge_ablation.EdgeAblation._weights

    def spoiled(self: Any, layer: Any) -> Any:
        weights = own(self, layer)
        spoil = weights.attention.w_o if broken == "W_O" else weights.feed_forward_norm.gain
        spoil.data = spoil.data * 1.01
        return weights

    if broken == "edit":
        model.blocks[1].hook_resid_pre.add_hook(lambda x, hook: x * 1.01)
    elif broken == "receivers":
        monkeypatch.setattr(edge_ablation._Batch, "_attention", lambda self, *of, hook=None: of[-1])
    else:
        monkeypatch.setattr(edge_ablation.EdgeAblation, "_weights", spoiled)
    with pytest.raises(CompletenessError, match="full circuit") as raised:
        ffb.run_circuit(model, clean, corrupted, drawn(model, 0.5), TARGET)
    gaps = [float(gap) for gap in re.findall(r"by (\S+)( of|,| \()", str(raised.value)) for gap in gap[:1]]
    assert gaps[{"W_O": 0, "norm": 0, "edit": 0, "receivers": 2}[broken]] > 1e-4


def unread(circuit: Circuit) -> set[str]:
    """Senders of a circuit from which the target is not reached."""
    return {sender for sender, _ in circuit} - set(networkx.ancestors(circuit.to_networkx(), "target"))


def test_choosing_edges() -> None:
    """Top n and thresholds by score, sets, greedy circuits that reach the target, and the connected part that gives the same number."""
    model, (clean, corrupted) = model_of("llama"), pair("llama")
    estimates = ffb.attribution_patching(model, clean, corrupted, TARGET, edges=True)
    edges = estimates.edges
    scores = edges.values[:-1][edges.possible[:-1]]
    top, least = Circuit.topn(edges, 30), float(scores.abs().sort(descending=True).values[29])
    assert list(top) == list(Circuit.threshold(edges, least * (1 - 1e-6)))
    assert all(float(top[edge]) == float(edges[edge]) for edge in top)
    assert float(Circuit.topn(edges, 5, absolute=False).weights.min()) == float(scores.sort(descending=True).values[4])
    greedy = Circuit.greedy(edges, 30)
    assert len(greedy) == 30
    assert unread(greedy) == set()
    both, either, rest = top & greedy, top | greedy, top - greedy
    assert len(both) + len(rest) == len(top)
    assert len(either) == len(top) + len(greedy) - len(both)
    assert set(either) == set(top) | set(greedy) and list(rest | both) == list(top)
    sparse = drawn(model, 0.12)
    connected = sparse.connected()
    assert len(connected) < len(sparse) and unread(sparse) and not unread(connected)
    values = [ffb.run_circuit(model, clean, corrupted, circuit, TARGET) for circuit in (sparse, connected)]
    torch.testing.assert_close(*values, rtol=1e-4, atol=1e-5)
    nodes = Circuit.full(model).top_nodes(estimates, 3)
    by_size = (
        estimates.to_dataframe().query("kind != 'residual'").groupby(["kind", "layer", "head"])["value"].sum().abs()
    )
    names = {
        f"L{layer}H{head}" if kind == "head" else f"L{layer}.mlp" for kind, layer, head in by_size.nlargest(3).index
    }
    assert {name for name in nodes.senders if any(edge[0] == name for edge in nodes)} == {"L0.resid"} | names
    averaged = Circuit.topn([edges, edges], 30)
    assert list(averaged) == list(top)
    assert [len(circuit) for circuit in Circuit.by_size(edges, (0.0, 0.1, 1.0))] == [0, 19, 190]


def test_cmd_and_cpr_by_hand() -> None:
    """Two pairs, clean means 4, ablated means 0: faithfulness .25, 1.5 and 1 at sizes 0.1, 0.5 and 1."""
    certificate = ffb.circuit_faithfulness(
        model_of("gpt2"), *pair("gpt2"), Circuit.full(model_of("gpt2")), TARGET
    ).certificate
    table = CircuitFaithfulness(
        model="m",
        target="logit",
        ablation="zero",
        n_edges=torch.tensor([10, 50, 100]),
        n_possible=100,
        values=torch.tensor([[2.0, 0.0], [6.0, 6.0], [5.0, 3.0]]),
        clean=torch.tensor([5.0, 3.0]),
        ablated=torch.tensor([1.0, -1.0]),
        certificate=certificate,
    )
    assert table.faithfulness.tolist() == [0.25, 1.5, 1.0]
    assert table.cpr == pytest.approx(0.4 * (0.25 + 1.5) / 2 + 0.5 * (1.5 + 1) / 2)
    assert table.cmd == pytest.approx(0.4 * (0.75 + 0.5) / 2 + 0.5 * (0.5 + 0) / 2)
    assert "CMD" in repr(table).partition("CPR")[0]
    frame = table.to_dataframe()
    assert frame["value"].tolist() == [0.25, 1.5, 1.0]
    assert bool((frame["low"] <= frame["value"]).all() and (frame["value"] <= frame["high"]).all())


def test_estimates_are_compared_with_measured_effects() -> None:
    """Of all edges, of lists of pairs; at a target near the estimates' point they agree: edges into the target are exact."""
    model, (clean, corrupted) = model_of("gpt_neox"), pair("gpt_neox")
    edges = ffb.attribution_patching(model, clean, corrupted, TARGET, edges="positions", steps=5).edges
    effects = ffb.edge_patching(model, [clean, corrupted], [corrupted, clean], TARGET)
    assert len(effects) == 2 and len(effects[0].ends) == len(Circuit.full(model))
    table = effects[0].compare(edges)
    assert len(table) == len(effects[0].ends)
    assert effects[0].correlation(edges) == pytest.approx(np.corrcoef(table["effect"], table["estimate"])[0, 1])
    assert effects[0].correlation(effects[0]) == pytest.approx(1)
    figure = effects[0].figure(against=edges)
    (points,) = figure.axes[0].collections
    assert np.array_equal(points.get_offsets(), table[["effect", "estimate"]].to_numpy())
    assert f"r = {effects[0].correlation(edges):.3f}" in figure.get_suptitle()
    assert float(effects[0].values[:, -1].abs().max()) > 0
    assert len(Circuit.topn(effects[0], 10)) == 10


@pytest.mark.parametrize("family", ["gpt2", "llama", "gpt_neox"])
def test_mib_files(family: str, tmp_path: Path) -> None:
    """A round trip, the fields that EAP-IG's reader asks for, and one edge per query head where heads share keys and values."""
    model, (clean, corrupted) = model_of(family), pair(family)
    edges = ffb.attribution_patching(model, clean, corrupted, TARGET, edges=True).edges
    circuit = Circuit.topn(edges, 40)
    read = Circuit.from_mib_json(circuit.to_mib_json(tmp_path / "circuit.json", model), model)
    assert list(read) == list(circuit)
    assert torch.equal(read.weights, circuit.weights)
    held = json.loads((tmp_path / "circuit.json").read_text())
    n_layers, parallel = len(model.blocks), family == "gpt_neox"
    assert held["cfg"] == {"n_layers": n_layers, "n_heads": 4, "d_model": 32, "parallel_attn_mlp": parallel}
    before = [1 + 5 * layer for layer in range(n_layers)]
    expected = sum(12 * count + count + (0 if parallel else 4) for count in before) + 1 + 5 * n_layers
    assert len(held["edges"]) == expected
    assert set(held["nodes"]) == {
        "input",
        "logits",
        *(f"m{n}" for n in range(n_layers)),
        *(f"a{n}.h{h}" for n in range(n_layers) for h in range(4)),
    }
    assert {frozenset(edge) for edge in held["edges"].values()} == {frozenset({"score", "in_graph"})}
    assert {"input->a0.h3<k>", "a0.h1->a1.h0<q>", "m0->logits"} <= set(held["edges"])
    if family == "llama":
        kept = [name for name, edge in held["edges"].items() if edge["in_graph"]]
        name = next(name for name in kept if name.endswith(("<k>", "<v>")))
        held["edges"][name]["in_graph"] = False
        (tmp_path / "split.json").write_text(json.dumps(held))
        with pytest.raises(MapFileError, match="share one key or value input"):
            Circuit.from_mib_json(tmp_path / "split.json", model)


@pytest.mark.wrong_types
def test_refusals(tmp_path: Path) -> None:
    """In words: what was given, what is expected."""
    model, (clean, corrupted) = model_of("gpt2"), pair("gpt2")
    full, edges = Circuit.full(model), Circuit.full(model_of("llama"))

    def estimated(first: Tensor, second: Tensor, target: Any = TARGET) -> Any:
        return ffb.attribution_patching(model, first, second, target, edges=True).edges

    whole = estimated(clean, corrupted)
    some = ffb.edge_patching(model, clean, corrupted, TARGET, Circuit.topn(whole, 5))
    two = ffb.activation_patching(model, clean, corrupted, [TARGET, ffb.logit(3)], of=("head", "mlp"))
    (tmp_path / "other.json").write_text('{"edges": {}}')
    (tmp_path / "foreign.json").write_text(
        '{"cfg": {}, "nodes": {}, "edges": {"m9->logits": {"score": 1, "in_graph": true}}}'
    )
    calls = [
        (
            lambda: path_patching(model, clean, corrupted, TARGET, [[("L0H1", "L1H0.q"), ("L1H2", "target")]]),
            InputError,
            "L1H2 does not read L1H0.q; expected L1H0",
        ),
        (lambda: path_patching(model, clean, corrupted, TARGET, [[("L1H1", "L0.mlp")]]), ScopeKeyError, "no edge from"),
        (lambda: path_patching(model, clean, corrupted, TARGET, [[]]), InputError, "without edges"),
        (lambda: Circuit.full(model_of("bert")), UnsupportedModelError, "Post-LN"),
        (lambda: Circuit.of(model, [("L1H0", "L0.mlp")]), InputError, "L0.mlp does not come after L1H0"),
        (lambda: Circuit.of(model, [("L9H0", "L0.mlp")]), ScopeKeyError, "no sender 'L9H0'"),
        (lambda: Circuit.topn(full, 1000), InputError, "expected 0 to 262"),
        (lambda: full & edges, InputError, "other components"),
        (lambda: ffb.edge_patching(model, clean, corrupted, TARGET, []), InputError, "expected one edge or more"),
        (lambda: path_patching(model, clean, corrupted, TARGET, []), InputError, "paths: none"),
        (lambda: ffb.edge_patching(model, None, corrupted, TARGET), InputError, "clean is a NoneType"),
        (lambda: some.correlation(estimated(corrupted, clean)), InputError, "the prompts of the estimates"),
        (
            lambda: some.correlation(estimated(clean, corrupted, ffb.logit(3))),
            InputError,
            "the target of the estimates",
        ),
        (
            lambda: Circuit.topn([whole, estimated(clean, corrupted, ffb.probability(7))], 3),
            InputError,
            "expected one quantity",
        ),
        (lambda: Circuit.by_size(whole, fractions="a"), InputError, "fractions='a'"),
        (lambda: full.top_nodes(two, 3), InputError, "several targets"),
        (
            lambda: (
                ffb.circuit_faithfulness(model, clean, corrupted, [Circuit.topn(whole, n) for n in (1, 4)], TARGET).cpr
            ),
            InputError,
            "up to all 262 edges",
        ),
        (lambda: full & 3, InputError, "expected two circuits"),
        (lambda: full.to_html(), InputError, "without scores for a target"),
        (lambda: full.top_nodes(3, 2), InputError, "without the columns"),
        (lambda: Circuit.topn(3, 4), InputError, "scores=3: expected edges"),
        (lambda: full.among(["L7H1"]), InputError, "no component 'L7H1'"),
        (
            lambda: ffb.run_circuit(model, clean, corrupted, edges, TARGET),
            InputError,
            "Make the circuit with this model",
        ),
        (lambda: ffb.run_circuit(model, clean, corrupted[1:], full, TARGET), InputError, "6 tokens, corrupted 5"),
        (lambda: ffb.run_circuit(model, clean, None, full, TARGET), InputError, "expected corrupted prompts"),
        (lambda: ffb.run_circuit(model, ["a", "b"], "ab", full, TARGET), InputError, "corrupted one prompt"),
        (
            lambda: ffb.run_circuit(model, clean, corrupted, full, ffb.direction(torch.ones(32), layer=1)),
            InputError,
            "this call reads logits",
        ),
        (lambda: ffb.circuit_faithfulness(model, clean, corrupted, full, TARGET).cmd, InputError, "several sizes"),
        (lambda: ffb.circuit_faithfulness(model, clean, clean, full, TARGET), InputError, "the same"),
        (lambda: Circuit.from_mib_json(tmp_path / "other.json", model), MapFileError, "no cfg, nodes"),
        (lambda: Circuit.from_mib_json(tmp_path / "foreign.json", model), MapFileError, "has no edge m9->logits"),
    ]
    for call, error, said in calls:
        with pytest.raises(error, match=said):
            call()


def test_a_circuit_of_some_measured_edges_is_a_part_of_the_model() -> None:
    """Its size is said of all edges; in 16 bits effects are tabulated and printed."""
    model, (clean, corrupted) = tiny.bridge("llama", dtype=torch.bfloat16), pair("llama")
    all_edges = Circuit.full(model)
    measured = ffb.edge_patching(model, clean, corrupted, TARGET, [("L0.mlp", "target"), ("L0H1", "L1.mlp")])
    circuit = Circuit.topn(measured, 1)
    assert (circuit.n_edges, circuit.n_possible) == (1, all_edges.n_possible)
    assert "L0" in repr(measured) and len(measured.to_dataframe()) == 2 and measured.weights.dtype == torch.float32
