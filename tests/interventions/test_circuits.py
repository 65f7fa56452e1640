"""Circuits and edges: compared with runs in which every receiver's split input is set to the sum of what it reads."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import MIXERS, TOYS, Case, identify, model_of
from tests.tolerances import FLOAT32
from tl_ffblock.bridge import edge_ablation
from tl_ffblock.errors import (
    CompletenessError,
    EqualPairWarning,
    InputError,
    MapFileError,
    ScopeKeyError,
    UnsupportedModelError,
)
from tl_ffblock.graphs import Circuit
from tl_ffblock.interventions import CircuitFaithfulness, path_patching

TARGET = ffb.logit(7, minus=11)
COVERED = ("gpt2", "llama", "gemma2", "gpt_neox")
WITHOUT_EDGES = {
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "youtu"), "latent attention has no W_"),
    **dict.fromkeys(("afmoe", "laguna", "qwen3_next"), "the gate of its attention reads the residual stream"),
    "bitnet": "the norm before W_O reads all heads together",
    "gemma4": "values have a norm of their own",
}
"""Families whose attention does not read its input by W_Q, W_K and W_V alone, with the words of the refusal."""
OTHERS = [
    name
    for name in tiny.ALL_FAMILIES
    if name not in (*COVERED, *WITHOUT_EDGES, *MIXERS, "bert", "roberta", "openai_gpt")
]
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


POSITIONS: dict[str, Callable[[Any], Any]] = {
    "gpt2": lambda model: model.transformer.wpe.weight[:6],
    "gpt_neo": lambda model: model.transformer.wpe.weight[:6],
    "opt": lambda model: model.model.decoder.embed_positions.weight[2:8],
    "xglm": lambda model: model.model.embed_positions.weights[2:8],
    "llama": lambda model: torch.zeros(6, 32),
}
"""Position embeddings of six tokens, from the weights of the Hugging Face model."""


@pytest.mark.parametrize("family", POSITIONS)
def test_position_embeddings_are_the_weights(family: str) -> None:
    """Of every family that adds them; none where positions are rotations."""
    model = model_of(family)
    found = edge_ablation.EdgeAblation.of(identify(model)).position_embeddings(pair(family)[0])
    torch.testing.assert_close(found, POSITIONS[family](model.original_model).detach(), **FLOAT32)


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("ablation", ["zero", "mean"])
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_position_embeddings_may_be_kept(family: str, ablation: Any) -> None:
    """As in EAP-IG, where only token embeddings are ablated; a model that adds no position embeddings has one result."""
    by_hand, model, (clean, corrupted) = ByHand(family), Case(family).model(torch.float64), pair(family)
    positions = POSITIONS[family](model.original_model).detach().double()
    outputs, _ = by_hand.run(corrupted, {}, None)
    outputs["L0.resid"] = outputs["L0.resid"] - positions
    ablated = {name: output.mean(dim=1, keepdim=True).expand_as(output) for name, output in outputs.items()}
    if ablation == "zero":
        ablated = {name: torch.zeros_like(output) for name, output in outputs.items()}
    ablated["L0.resid"] = ablated["L0.resid"] + positions
    circuit = drawn(model, 0.5)
    expected = TARGET(by_hand.run(clean, ablated, circuit)[1])
    given: Any = dict(target=TARGET, ablation=ablation, position_embeddings="kept")
    found = ffb.run_circuit(model, clean, corrupted, circuit, **given)
    torch.testing.assert_close(found, expected, **EXACT)
    without = ffb.run_circuit(model, clean, corrupted, circuit, **{**given, "position_embeddings": "ablated"})
    assert (abs(float(found - without)) > 1e-6) is (family != "llama")
    table = ffb.circuit_faithfulness(model, clean, corrupted, [circuit], **given)
    torch.testing.assert_close(table.values[0], expected, **EXACT)
    assert table.ablation == f"{ablation}, position embeddings kept"


def test_corrupted_prompts_have_the_same_position_embeddings() -> None:
    """So that keeping them changes nothing."""
    model, (clean, corrupted) = model_of("gpt2"), pair("gpt2")
    given = (model, clean, corrupted, drawn(model, 0.5), TARGET)
    kept, ablated = (ffb.run_circuit(*given, position_embeddings=name) for name in ("kept", "ablated"))
    assert torch.equal(kept, ablated)
    assert ffb.circuit_faithfulness(*given, position_embeddings="kept").ablation == "corrupted"


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
    with pytest.warns(EqualPairWarning, match=r"clean\[1\] and corrupted\[1\] are the same"):
        found = path_patching(model, [clean, clean], [corrupted, clean], TARGET, paths)
    torch.testing.assert_close(found[0, :1], expected, **EXACT)
    edge = ffb.edge_patching(model, clean, corrupted, TARGET, [first])[first]
    torch.testing.assert_close(found[1, 0], edge, **EXACT)
    assert abs(float(found[0, 0])) > 1e-6
    only_way = family == "gpt_neox"  # where no feed-forward of the last layer reads the head
    assert (abs(float(found[0, 0] - edge)) > 1e-6) is not only_way
    assert float(found[:, 1].abs().max()) <= 1e-9


@pytest.mark.parametrize(
    "family",
    [*COVERED, "olmo2", "qwen2_moe", "granite", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)],
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


@pytest.mark.parametrize("family", WITHOUT_EDGES)
def test_edges_of_latent_and_gated_attention_are_refused(family: str) -> None:
    """Estimated, measured and as circuits: by name, with what can be asked instead."""
    model, (clean, corrupted) = model_of(family), pair(family)
    for call in (
        lambda: ffb.attribution_patching(model, clean, corrupted, TARGET, edges=True),
        lambda: ffb.edge_patching(model, clean, corrupted, TARGET),
        lambda: ffb.circuit_faithfulness(model, clean, corrupted, Circuit.full(model), TARGET),
    ):
        with pytest.raises(UnsupportedModelError, match=f"{WITHOUT_EDGES[family]}.*without edges"):
            call()


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
        spoil = weights.block.attention.w_o if broken == "W_O" else weights.block.ff_norm.gain
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


@pytest.mark.parametrize("neurons", [[True] * 32, [False] * 32])
def test_dimensions_of_a_mib_file_without_effect(neurons: list[bool], tmp_path: Path) -> None:
    """All dimensions of a sender, and none of one without edges in the circuit, are what a circuit of edges means."""
    model = model_of("gpt2")
    circuit = Circuit.of(model, [("L0H1", "target")] if all(neurons) else [("L0.mlp", "target")])
    path = circuit.to_mib_json(tmp_path / "circuit.json", model)
    held = json.loads(path.read_text())
    held["nodes"]["a0.h1"]["neurons"] = neurons
    path.write_text(json.dumps(held))
    assert list(Circuit.from_mib_json(path, model)) == list(circuit)


class Given:
    """What refused calls are made of."""

    clean, corrupted = pair("gpt2")
    three = ffb.logit(3)

    def __init__(self, folder: Path) -> None:
        self.model = model_of("gpt2")
        self.full, self.other = Circuit.full(self.model), Circuit.full(model_of("llama"))
        self.file = folder / "circuit.json"

    def estimated(self, target: Any = TARGET, *pair: Tensor) -> Any:
        """Edges of the pair of prompts, or of another."""
        return ffb.attribution_patching(self.model, *(pair or (self.clean, self.corrupted)), target, edges=True).edges

    def some(self) -> Any:
        """A few measured edges."""
        return self.called(ffb.edge_patching, TARGET, Circuit.topn(self.estimated(), 5))

    def two(self) -> Any:
        """Measured nodes of two targets."""
        return self.called(ffb.activation_patching, [TARGET, self.three], of=("heads", "mlps"))

    def called(self, call: Any, *arguments: Any, **options: Any) -> Any:
        """A call of the pair."""
        return call(self.model, self.clean, self.corrupted, *arguments, **options)

    def read(self, text: str) -> Any:
        """A circuit of a file."""
        self.file.write_text(text)
        return Circuit.from_mib_json(self.file, self.model)


FOREIGN = '{"cfg": {}, "nodes": {}, "edges": {"m9->logits": {"score": 1, "in_graph": true}}}'
# fmt: off
REFUSED: dict[str, tuple[Callable[[Given], Any], type[Exception], str]] = {
    "a path that is broken": (lambda g: g.called(path_patching, TARGET, [[("L0H1", "L1H0.q"), ("L1H2", "target")]]), InputError, "L1H2 does not read L1H0.q; expected L1H0"),
    "a path backwards": (lambda g: g.called(path_patching, TARGET, [[("L1H1", "L0.mlp")]]), ScopeKeyError, "no edge from"),
    "a path of nothing": (lambda g: g.called(path_patching, TARGET, [[]]), InputError, "without edges"),
    "no paths": (lambda g: g.called(path_patching, TARGET, []), InputError, "paths: none"),
    "an encoder": (lambda g: Circuit.full(model_of("bert")), UnsupportedModelError, "Post-LN"),
    "an edge backwards": (lambda g: Circuit.of(g.model, [("L1H0", "L0.mlp")]), InputError, "L0.mlp does not come after L1H0"),
    "a sender that is not there": (lambda g: Circuit.of(g.model, [("L9H0", "L0.mlp")]), ScopeKeyError, "no sender 'L9H0'"),
    "more edges than there are": (lambda g: Circuit.topn(g.full, 1000), InputError, "expected 0 to 262"),
    "circuits of two models": (lambda g: g.full & g.other, InputError, "other components"),
    "a circuit and a number": (lambda g: g.full & 3, InputError, "expected two circuits"),
    "no edges": (lambda g: g.called(ffb.edge_patching, TARGET, []), InputError, "expected one edge or more"),
    "no clean prompt": (lambda g: ffb.edge_patching(g.model, None, g.corrupted, TARGET), InputError, "clean is None"),
    "estimates of other prompts": (lambda g: g.some().correlation(g.estimated(TARGET, g.corrupted, g.clean)), InputError, "prompts differ"),
    "estimates of another target": (lambda g: g.some().correlation(g.estimated(g.three)), InputError, "targets differ"),
    "scores of two quantities": (lambda g: Circuit.topn([g.estimated(), g.estimated(ffb.probability(7))], 3), InputError, "differ in quantity: .*A mean is of one quantity"),
    "scores that are a number": (lambda g: Circuit.topn(3, 4), InputError, "scores=3: expected edges"),
    "sizes as a text": (lambda g: Circuit.by_size(g.estimated(), fractions="a"), InputError, "fractions='a'"),
    "nodes of two targets": (lambda g: g.full.top_nodes(g.two(), 3), InputError, "several targets"),
    "nodes of a number": (lambda g: g.full.top_nodes(3, 2), InputError, "without the columns"),
    "a component that is not there": (lambda g: g.full.among(["L7H1"]), InputError, "no component 'L7H1'"),
    "the largest edges without scores": (lambda g: g.full.prune(0.5), InputError, "without scores for a target"),
    "an area of some sizes": (lambda g: g.called(ffb.circuit_faithfulness, [Circuit.topn(g.estimated(), n) for n in (1, 4)], TARGET).cpr, InputError, "up to all 262 edges"),
    "an area of one size": (lambda g: g.called(ffb.circuit_faithfulness, g.full, TARGET).cmd, InputError, "several sizes"),
    "a circuit of another model": (lambda g: g.called(ffb.run_circuit, g.other, TARGET), InputError, "Build the circuit with this model"),
    "a shorter corrupted prompt": (lambda g: ffb.run_circuit(g.model, g.clean, g.corrupted[1:], g.full, TARGET), InputError, "6 tokens, corrupted 5"),
    "no corrupted prompt": (lambda g: ffb.run_circuit(g.model, g.clean, None, g.full, TARGET), InputError, "expected corrupted prompts"),
    "a list and a text": (lambda g: ffb.run_circuit(g.model, ["a", "b"], "ab", g.full, TARGET), InputError, "corrupted is one prompt"),
    "a direction": (lambda g: g.called(ffb.run_circuit, g.full, ffb.direction(torch.ones(32), layer=1)), InputError, "this call reads logits"),
    "a file of something else": (lambda g: g.read('{"edges": {}}'), MapFileError, "no cfg, nodes"),
    "a file of another model": (lambda g: g.read(FOREIGN), MapFileError, "has no edge m9->logits"),
    "a file of a larger model": (lambda g: g.read(FOREIGN.replace("{}", '{"n_layers": 12}', 1)), MapFileError, "is of a model with n_layers 12: expected 3"),
    "a file of a parallel model": (lambda g: g.read(FOREIGN.replace("{}", '{"parallel_attn_mlp": true}', 1)), MapFileError, "parallel_attn_mlp True: expected False"),
    "edges of some dimensions": (lambda g: g.read(FOREIGN.replace('"nodes": {}', '"nodes": {"m9": {"neurons": [true, false]}}')), MapFileError, "m9 has edges in the circuit with only some dimensions"),
    "membership as a text": (lambda g: g.read(FOREIGN.replace("true", '"false"')), MapFileError, "in_graph 'false'; expected a finite number, and true or false"),
    "a score of text": (lambda g: g.read(FOREIGN.replace("1,", '"1",')), MapFileError, "has score '1'"),
    "a score that is not a number": (lambda g: g.read(FOREIGN.replace("1,", "NaN,")), MapFileError, "has score nan"),
    "a score of 400 digits": (lambda g: g.read(FOREIGN.replace("1,", "1" * 400 + ",")), MapFileError, "has score 1111"),
    "an edge twice": (lambda g: g.read(FOREIGN.replace('"m9->logits": {', '"m9->logits": {}, "m9->logits": {')), MapFileError, "'m9->logits' occurs twice"),
    "no object": (lambda g: g.read("[1]"), MapFileError, "no cfg, nodes"),
    "a folder": (lambda g: Circuit.from_mib_json(g.file.parent, g.model), InputError, "it is a folder"),
}
# fmt: on


@pytest.mark.wrong_types
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_circuit_is_refused(name: str, tmp_path: Path) -> None:
    """In words: what was given, what is expected."""
    call, error, said = REFUSED[name]
    with pytest.raises(error, match=said):
        call(Given(tmp_path))


def test_a_circuit_of_some_measured_edges_is_a_part_of_the_model() -> None:
    """Its size is said of all edges; in 16 bits effects are tabulated and printed."""
    model, (clean, corrupted) = tiny.bridge("llama", dtype=torch.bfloat16), pair("llama")
    all_edges = Circuit.full(model)
    measured = ffb.edge_patching(model, clean, corrupted, TARGET, [("L0.mlp", "target"), ("L0H1", "L1.mlp")])
    circuit = Circuit.topn(measured, 1)
    assert (circuit.n_edges, circuit.n_possible) == (1, all_edges.n_possible)
    assert "L0" in repr(measured) and len(measured.to_dataframe()) == 2 and measured.weights.dtype == torch.float32


def test_an_edge_that_adds_has_one_effect_in_all_sets() -> None:
    """The embeddings' edge into the target of a model without norms; others differ by set, and a seed draws the same sets."""
    model, prompts = tiny.toy("no_norms", "bridge").to(torch.float64), pair("gpt2")
    edges = [("L0.resid", "target"), ("L0.resid", "L0H1.q"), ("L0H1", "L1.mlp")]
    alone = ffb.edge_patching(model, *prompts, TARGET, edges).weights[:, 0]
    first, second, third = (
        ffb.edge_patching(model, *prompts, TARGET, edges, draws=3, seed=seed).weights[:, 0] for seed in (0, 0, 1)
    )
    torch.testing.assert_close(first[1], alone[1].abs(), **EXACT)
    assert torch.equal(first, second) and not torch.equal(first, third)
    assert (first >= 0).all() and not torch.allclose(first, alone.abs())


def test_a_circuit_is_of_one_checkpoint(tmp_path: Path) -> None:
    """Of the same components with other weights it is refused, saved ones too; its edges can be made a circuit of the other."""
    model, other, (clean, corrupted) = model_of("gpt2"), tiny.bridge("gpt2", seed=1), pair("gpt2")
    edges = ffb.attribution_patching(model, clean, corrupted, TARGET, edges=True).edges
    circuit = Circuit.load(Circuit.topn(edges, 20).save(tmp_path / "circuit.safetensors"))
    calls = [
        lambda: ffb.run_circuit(other, clean, corrupted, circuit, TARGET),
        lambda: ffb.circuit_faithfulness(other, clean, corrupted, circuit, TARGET),
        lambda: ffb.edge_patching(other, clean, corrupted, TARGET, circuit),
        lambda: circuit.to_mib_json(tmp_path / "circuit.json", other),
    ]
    for call in calls:
        with pytest.raises(InputError, match="the circuit: made with other weights than those of"):
            call()
    of_other = ffb.attribution_patching(other, clean, corrupted, TARGET, edges=True).edges
    with pytest.raises(InputError, match="results 0 and 1, which differ in weights"):
        Circuit.topn([edges, of_other], 3)
    with pytest.raises(InputError, match="weights differ"):
        ffb.edge_patching(model, clean, corrupted, TARGET, circuit).compare(of_other)
    again = Circuit.of(other, circuit)
    assert list(again) == list(circuit)
    assert ffb.run_circuit(other, clean, corrupted, again, TARGET).shape == (1,)


def test_lists_of_ids_of_unlike_lengths_are_prompts() -> None:
    """As lists they give what they give as tensors, pair by pair."""
    model, edges = model_of("gpt2"), [("L0.mlp", "target"), ("L0H1", "L1H0.q")]
    clean, corrupted = [[5, 6, 7], [8, 9]], [[5, 3, 7], [4, 9]]
    listed = ffb.edge_patching(model, clean, corrupted, TARGET, edges)
    for effects, *both in zip(listed, clean, corrupted, strict=True):
        expected = ffb.edge_patching(model, *map(torch.tensor, both), TARGET, edges)
        assert effects == expected
