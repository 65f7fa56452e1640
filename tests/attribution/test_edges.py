"""Edges from senders to receivers: sums that must hold, and the change that a split input of TransformerLens makes."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.attribution.conftest import DIFFERENCE, direction, double, pair
from tests.cases import Case, model_of
from tests.tolerances import ALGEBRA, GRADIENT, ORACLE_FLOAT32_WITHIN
from tl_ffblock.bridge import edge_ablation
from tl_ffblock.errors import CompletenessError, InputError, ScopeKeyError, UnsupportedModelError

N = 6
HOOKED = tuple(Case(family, "hooked") for family in ("gpt2", "gemma2", "llama_nobias", "bert"))
ORDERS = ("gpt2", "llama", "gemma2", "gpt_neox", "falcon", "olmo2", "bert", "openai_gpt", "mixtral")
"""One of every order, of grouped queries and of experts."""
PLAIN = ("gpt2", "llama", "gpt_neox", "falcon", "mixtral")
"""Where the residual stream is the sum of what is written to it."""


def estimated(family: str, target: Any = DIFFERENCE, **options: Any) -> Any:
    """Estimates of the pair, with edges."""
    return ffb.attribution_patching(double(family), *pair(family), target, **({"edges": True} | options))


def edges_of(family: str, **options: Any) -> Any:
    """The same of a float32 model: its edges."""
    return ffb.attribution_patching(model_of(family), *pair(family), DIFFERENCE, **({"edges": True} | options)).edges


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize(
    ("case", "rules"),
    [(Case(family), rules) for family in ORDERS for rules in ("gradient", "patching", "path")]
    + [(case, "path") for case in HOOKED],
    ids=str,
)
def test_edges_out_of_a_sender_sum_to_its_own_estimate(case: Case, rules: str) -> None:
    """At every position, by derivatives that come from other HookPoints, whatever the order of norms.

    HookedTransformer shows feed-forwards behind the norms in their branches, key heads repeated.
    """
    model = case.model(torch.float64)
    estimates = ffb.attribution_patching(model, *pair(case.name), DIFFERENCE, rules=rules, edges="positions")
    edges, (n_layers, n_heads, _) = estimates.edges, estimates.heads.shape
    senders = [f"L{layer}H{head}" for layer in range(n_layers) for head in range(n_heads)]
    senders += [f"L{layer}.mlp" for layer in range(n_layers)]
    sums = torch.stack([edges.values[edges.senders.index(name)].sum(dim=0) for name in ("L0.resid", *senders)])
    themselves = torch.cat([estimates.residual[:1], estimates.heads.flatten(0, 1), estimates.mlps])
    torch.testing.assert_close(sums, themselves, rtol=1e-9, atol=1e-12)
    assert edges.certificate.derivatives <= 1e-12
    assert estimates.heads.abs().max() > 1e-3


@pytest.mark.parametrize("family", ["gemma2", "gemma3", "mixtral"])
def test_both_classes_estimate_alike(family: str) -> None:
    """A feed-forward's change is that of what it gives before the norm in its branch, which HookedTransformer does not show."""
    hooked, bridge = (
        ffb.attribution_patching(double(family, api), *pair(family), DIFFERENCE, edges="positions")
        for api in ("hooked", "bridge")
    )
    for mine, theirs in ((hooked.mlps, bridge.mlps), (hooked.edges.values, bridge.edges.values)):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=ORACLE_FLOAT32_WITHIN * float(theirs.abs().max()))


@pytest.mark.parametrize("family", PLAIN)
def test_senders_are_all_that_a_receiver_reads(family: str) -> None:
    """Edges into a receiver sum to `<change of its input, derivative there>`: nothing is left for the rest."""
    edges = estimated(family).edges
    assert edges.certificate.streams <= 1e-12
    assert edges.values[-1].abs().max() <= 1e-10 * edges.values.abs().max()


@pytest.mark.parametrize("family", ["gemma2", "bert"])
def test_what_norm_scales_do_on_the_way_is_the_rest(family: str) -> None:
    """With it the edges into the target sum to the estimate of the last stream."""
    estimates = estimated(family)
    into_target = estimates.edges.values[:, -1]
    assert float(into_target.sum()) == pytest.approx(float(estimates.residual[-1].sum()), rel=1e-9)
    assert abs(float(into_target[-1])) > 1e-6
    assert estimates.edges.certificate.streams > 1e-3


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", ["gpt2", "llama", "gpt_neox"])
def test_an_edge_is_what_a_change_of_the_split_input_does(family: str) -> None:
    """A sender's change, added in part to one head's query, key or value input or one feed-forward's, by finite differences."""
    clean, corrupted = pair(family)
    edges, split = estimated(family, rules="gradient").edges, Case(family).fresh(torch.float64)
    split.set_use_split_qkv_input(True)
    split.set_use_hook_mlp_in(True)
    changes = changes_of_senders(split, clean, corrupted)
    kv = "KV" if family == "llama" else "H"
    inputs = {"L1H2.q": ("q", 2), f"L1{kv}1.k": ("k", 1), f"L1{kv}0.v": ("v", 0), "L1.mlp": ("mlp", None)}
    for receiver, (read, head) in inputs.items():
        name = "blocks.1.hook_mlp_in" if head is None else f"blocks.1.attn.hook_{read}_input"
        for sender, change in changes.items():

            def nudged(by: float, name: str = name, head: int | None = head, change: Tensor = change) -> float:
                def add(x: Tensor, hook: Any) -> Tensor:
                    x = x.clone()
                    x[(..., slice(None)) if head is None else (..., head, slice(None))] += by * change
                    return x

                with torch.no_grad():
                    return float(DIFFERENCE(split.run_with_hooks(clean[None], fwd_hooks=[(name, add)])).sum())

            slope = (nudged(1e-4) - nudged(-1e-4)) / 2e-4
            assert float(edges[sender, receiver]) == pytest.approx(slope, rel=GRADIENT["rtol"], abs=GRADIENT["atol"])


@torch.no_grad()
def changes_of_senders(model: Any, clean: Tensor, corrupted: Tensor) -> dict[str, Tensor]:
    """What the embeddings, a head and a feed-forward of the first layer write, corrupted less clean [batch pos d]."""
    before, after = (model.run_with_cache(tokens[None])[1] for tokens in (clean, corrupted))
    change = {name: after[name] - before[name] for name in before if name.startswith("blocks.0.")}
    return {
        "L0.resid": change["blocks.0.hook_resid_pre"],
        "L0H3": change["blocks.0.attn.hook_z"][:, :, 3] @ model.blocks[0].attn.W_O[3],
        "L0.mlp": change["blocks.0.hook_mlp_out"],
    }


def test_parallel_blocks_do_not_feed_themselves() -> None:
    """A head reaches its own layer's feed-forward in a serial block alone, and no head its own layer's heads."""
    serial, parallel = edges_of("gpt2"), edges_of("gpt_neox")
    assert serial["L1H0", "L1.mlp"].ndim == 0
    with pytest.raises(ScopeKeyError, match="no edge from"):
        parallel["L1H0", "L1.mlp"]
    n_layers, n_heads = 3, 4
    before = [1 + layer * (n_heads + 1) for layer in range(n_layers)]  # senders before a layer: it has 3 inputs a head
    into_layers = sum(3 * n_heads * count + count + n_heads for count in before)
    assert int(serial.possible[:-1].sum()) == into_layers + 1 + n_layers * (n_heads + 1)


def test_path_has_nothing_for_queries_and_keys() -> None:
    """Its patterns are the run's own, and the edges into values are those of "patching" in the last layer."""
    path, patching = (edges_of("gpt2", rules=rules) for rules in ("path", "patching"))
    looking = [column for column, name in enumerate(path.receivers) if name.endswith((".q", ".k"))]
    assert not path.values[:, looking].any()
    assert patching.values[:, looking].any()
    torch.testing.assert_close(path["L0.mlp", "L2H1.v"], patching["L0.mlp", "L2H1.v"], **ALGEBRA)


def test_positions_sum_to_the_whole_and_pieces_of_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether numbers are kept by position, and however many positions are walked at a time."""
    summed, by_position = (edges_of("gemma2", edges=asked) for asked in (True, "positions"))
    torch.testing.assert_close(by_position.values.sum(dim=-1), summed.values, rtol=1e-5, atol=1e-6)
    assert (by_position.possible == summed.possible).all()
    monkeypatch.setattr(ffb.attribution.edge_attribution, "BUFFER_BYTES", 1)
    alone = edges_of("gemma2", edges="positions")
    torch.testing.assert_close(alone.values, by_position.values, rtol=1e-5, atol=1e-6)


def test_a_direction_is_a_target() -> None:
    """Read at a layer's input, nothing behind it matters: edges into the target are exact changes of what it reads."""
    estimates = estimated("gpt2", direction(1, at=4))
    assert float(estimates.edges.values[:, -1].sum()) == pytest.approx(estimates.corrupted - estimates.clean)
    assert not estimates.edges.possible[6:-1, -1].any()


def test_what_an_edit_adds_is_the_rest() -> None:
    """No sender sent it; an edit that changes slopes on the way is refused, since edges would be those of another model."""
    place = "blocks.1.hook_resid_pre"
    added = edges_of("gpt2", fwd_hooks=[(place, lambda x, hook: x + x.detach())])
    assert added.values[-1].abs().max() > 1e-3
    with pytest.raises(CompletenessError, match="hook of yours"):
        edges_of("gpt2", fwd_hooks=[(place, lambda x, hook: x * 1.5)])


def test_edges_are_a_table_and_a_graph() -> None:
    """The same numbers in every form; key-value heads lead on to the heads that share them."""
    edges = edges_of("llama", edges="positions")
    frame = edges.to_dataframe()
    assert list(frame.token[:N]) == list(edges.labels)
    summed = frame.groupby(["source", "target"])["weight"].sum()
    sender, receiver, estimate = edges.top(1)[0]
    assert summed[sender, receiver] == pytest.approx(estimate, rel=1e-5)
    assert summed.drop("remaining").abs().max() == pytest.approx(abs(estimate), rel=1e-5)
    graph = edges.to_networkx(k=60)
    largest = [(a, b, attributes) for a, b, attributes in graph.edges(data=True) if attributes["unit"] != "input"]
    assert len(largest) == 60
    assert all(attributes["weight"] == pytest.approx(float(edges[a, b].sum())) for a, b, attributes in largest)
    assert set(graph["L1KV1.k"]) == {"L1H2", "L1H3"}
    a, b, _ = largest[0]
    eap = {node.name: node.eap_name for node in edges.nodes}
    assert torch.equal(edges[eap[a], eap[b]], edges[a, b])
    assert edges.to_networkx(names="eap").has_edge(eap[a], eap[b])
    with pytest.raises(ScopeKeyError, match=r"no receiver 'L1H0\.k'"):
        edges["L0.resid", "L1H0.k"]


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("toy", ["no_norms", "no_norms_gated", "attn_only_no_norms"])
@pytest.mark.parametrize("rules", ["gradient", "patching", "path"])
def test_exact_receivers_are_measured_edges_where_what_follows_is_linear(toy: str, rules: str) -> None:
    """The last feed-forward or, without feed-forwards, the last layer's queries, keys and values; and the target, by any rules."""
    model, (clean, corrupted) = tiny.toy(toy, "bridge").to(torch.float64), pair("gpt2")
    measured = ffb.edge_patching(model, clean, corrupted, DIFFERENCE)
    edges = ffb.attribution_patching(
        model, clean, corrupted, DIFFERENCE, rules=rules, edges=True, receivers="exact"
    ).edges
    table = measured.compare(edges)
    last = ("L1H", "target") if toy == "attn_only_no_norms" else ("L1.mlp", "target")
    rows = table[table["target"].str.startswith(last)]
    assert len(rows) > 12 and rows["effect"].abs().max() > 1e-2
    np.testing.assert_allclose(rows["estimate"], rows["effect"], rtol=1e-8, atol=1e-10)
    assert edges.rules == f"{rules}, exact receivers" and edges.certificate.receivers < 1e-12


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", [*PLAIN, "gemma2"])
def test_exact_receivers_of_a_small_change_are_its_derivative(family: str) -> None:
    """Shared keys and values, norms in branches, experts: as the change goes to 0, evaluation becomes linearisation.

    The change is far above what norms in float32 round, which some of these models keep in float64.
    """
    model, (clean, corrupted) = Case(family).fresh(torch.float64), pair(family)
    with torch.no_grad():
        rows = model.embed.weight if hasattr(model.embed, "weight") else model.W_E
        for first, second in zip(clean[2:4], corrupted[2:4], strict=True):
            rows[second] = rows[first] + 1e-3 * (rows[second] - rows[first])
    linear, exact = (
        ffb.attribution_patching(model, clean, corrupted, DIFFERENCE, rules="gradient", edges=True, receivers=how).edges
        for how in ("linear", "exact")
    )
    expected, found = (linear.values[:-1], exact.values[:-1])
    assert expected.abs().max() > 1e-6
    torch.testing.assert_close(found, expected, rtol=0, atol=5e-3 * float(expected.abs().max()))


def test_exact_receivers_are_refused_where_they_are_not_defined() -> None:
    """By position, over integration steps, under hooks, after norms of sums, without edges."""
    model, prompts = model_of("gpt2"), pair("gpt2")
    for options, said in (
        ({"edges": "positions"}, "edges=True"),
        ({"edges": False}, "edges=True"),
        ({"steps": 2}, "steps=1"),
        ({"fwd_hooks": [("blocks.0.hook_out", lambda x, hook: x)]}, "without your hooks"),
    ):
        with pytest.raises(InputError, match=said):
            ffb.attribution_patching(model, *prompts, DIFFERENCE, **({"edges": True, "receivers": "exact"} | options))
    with pytest.raises(UnsupportedModelError, match="Post-LN"):
        ffb.attribution_patching(model_of("bert"), *pair("bert"), DIFFERENCE, edges=True, receivers="exact")


def test_receivers_that_do_not_obey_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What receivers write when they read a run's senders is that run's: else no estimate is made."""
    read = edge_ablation._Receivers._fed
    monkeypatch.setattr(
        edge_ablation._Receivers, "_fed", lambda self, sender, x, hook=None: read(self, sender, 1.01 * x)
    )
    with pytest.raises(CompletenessError, match="Receiver-exact edges are not available"):
        edges_of("gpt2", receivers="exact")
