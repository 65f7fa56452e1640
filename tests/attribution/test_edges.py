"""Edges from senders to receivers: sums that must hold, and the change that a split input of TransformerLens makes."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tests.tolerances import ALGEBRA, GRADIENT, ORACLE_FLOAT32_WITHIN

Models = Callable[..., Any]
N = 6
ORDERS = ("gpt2", "llama", "gemma2", "gpt_neox", "falcon", "olmo2", "bert", "openai_gpt", "mixtral")
"""One of every order, of grouped queries and of experts."""
PLAIN = ("gpt2", "llama", "gpt_neox", "falcon", "mixtral")
"""Where the residual stream is the sum of what is written to it."""


def pair(family: str) -> tuple[Tensor, Tensor]:
    """Two prompts that differ in two tokens."""
    clean = tiny.tokens(family, N)
    corrupted = clean.clone()
    corrupted[2:4] = torch.tensor([40, 33])
    return clean, corrupted


def out_of_nodes(edges: Any, estimates: Any) -> tuple[Tensor, Tensor]:
    """By position: sums of the edges out of heads and feed-forwards, and the estimates of these themselves."""
    n_layers, n_heads, _ = estimates.heads.shape
    names = [f"L{layer}H{head}" for layer in range(n_layers) for head in range(n_heads)]
    names += [f"L{layer}.mlp" for layer in range(n_layers)]
    sums = torch.stack([edges.values[edges.senders.index(name)].sum(dim=0) for name in names])
    return sums, torch.cat([estimates.heads.flatten(0, 1), estimates.mlps])


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", ORDERS)
@pytest.mark.parametrize("rules", ["gradient", "patching", "path"])
def test_edges_out_of_a_sender_sum_to_its_own_estimate(
    ffb: ModuleType, model_of_any: Models, difference: Any, family: str, rules: str
) -> None:
    """At every position, by derivatives that come from other HookPoints, whatever the order of norms."""
    model = model_of_any(family, dtype=torch.float64)
    estimates = ffb.attribution_patching(model, *pair(family), difference, rules=rules, edges="positions")
    edges = estimates.edges
    torch.testing.assert_close(*out_of_nodes(edges, estimates), rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(edges.values[0].sum(dim=0), estimates.residual[0], rtol=1e-9, atol=1e-12)
    assert edges.certificate.derivatives <= 1e-12
    assert estimates.heads.abs().max() > 1e-3


@pytest.mark.filterwarnings("ignore:HookedTransformer is deprecated", "ignore:HookedEncoder is deprecated")
@pytest.mark.parametrize("family", ["gpt2", "gemma2", "llama_nobias", "bert"])
def test_edges_of_hooked_models_obey_the_same_law(
    ffb: ModuleType, model_of_any: Models, difference: Any, family: str
) -> None:
    """HookedTransformer shows feed-forwards behind the norms in their branches, key heads repeated."""
    model = model_of_any(family, "hooked", torch.float64)
    estimates = ffb.attribution_patching(model, *pair(family), difference, edges="positions")
    torch.testing.assert_close(*out_of_nodes(estimates.edges, estimates), rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore:HookedTransformer is deprecated")
@pytest.mark.parametrize("family", ["gemma2", "gemma3", "mixtral"])
def test_both_classes_estimate_alike(ffb: ModuleType, model_of_any: Models, difference: Any, family: str) -> None:
    """A feed-forward's change is that of what it gives before the norm in its branch, which HookedTransformer does not show."""
    hooked, bridge = (
        ffb.attribution_patching(model_of_any(family, api, torch.float64), *pair(family), difference, edges="positions")
        for api in ("hooked", "bridge")
    )
    for mine, theirs in ((hooked.mlps, bridge.mlps), (hooked.edges.values, bridge.edges.values)):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=ORACLE_FLOAT32_WITHIN * float(theirs.abs().max()))


@pytest.mark.parametrize("family", PLAIN)
def test_senders_are_all_that_a_receiver_reads(
    ffb: ModuleType, model_of_any: Models, difference: Any, family: str
) -> None:
    """Edges into a receiver sum to `<change of its input, derivative there>`: nothing is left for the rest."""
    model = model_of_any(family, dtype=torch.float64)
    edges = ffb.attribution_patching(model, *pair(family), difference, edges=True).edges
    assert edges.certificate.streams <= 1e-12
    assert edges.values[-1].abs().max() <= 1e-10 * edges.values.abs().max()


@pytest.mark.parametrize("family", ["gemma2", "bert"])
def test_what_norm_scales_do_on_the_way_is_the_rest(
    ffb: ModuleType, model_of_any: Models, difference: Any, family: str
) -> None:
    """With it the edges into the target sum to the estimate of the last stream."""
    model = model_of_any(family, dtype=torch.float64)
    estimates = ffb.attribution_patching(model, *pair(family), difference, edges=True)
    into_target = estimates.edges.values[:, -1]
    assert float(into_target.sum()) == pytest.approx(float(estimates.residual[-1].sum()), rel=1e-9)
    assert abs(float(into_target[-1])) > 1e-6
    assert estimates.edges.certificate.streams > 1e-3


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", ["gpt2", "llama", "gpt_neox"])
def test_an_edge_is_what_a_change_of_the_split_input_does(
    ffb: ModuleType, model_of_any: Models, difference: Any, family: str
) -> None:
    """A sender's change, added in part to one head's query, key or value input or one feed-forward's, by finite differences."""
    clean, corrupted = pair(family)
    edges = ffb.attribution_patching(
        model_of_any(family, dtype=torch.float64), clean, corrupted, difference, rules="gradient", edges=True
    ).edges
    split = model_of_any(family, dtype=torch.float64)
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
                    return float(difference(split.run_with_hooks(clean[None], fwd_hooks=[(name, add)])).sum())

            slope = (nudged(1e-4) - nudged(-1e-4)) / 2e-4
            assert float(edges[sender, receiver]) == pytest.approx(slope, rel=GRADIENT["rtol"], abs=GRADIENT["atol"])


@torch.no_grad()
def changes_of_senders(model: Any, clean: Tensor, corrupted: Tensor) -> dict[str, Tensor]:
    """What the embeddings, a head and a feed-forward of the first layer write, corrupted less clean [batch pos d]."""
    caches = [model.run_with_cache(tokens[None])[1] for tokens in (clean, corrupted)]
    w_o = model.blocks[0].attn.W_O
    heads = [cache["blocks.0.attn.hook_z"][:, :, 3] @ w_o[3] for cache in caches]
    return {
        "L0.resid": caches[1]["blocks.0.hook_resid_pre"] - caches[0]["blocks.0.hook_resid_pre"],
        "L0H3": heads[1] - heads[0],
        "L0.mlp": caches[1]["blocks.0.hook_mlp_out"] - caches[0]["blocks.0.hook_mlp_out"],
    }


def test_parallel_blocks_do_not_feed_themselves(ffb: ModuleType, model_of: Models, difference: Any) -> None:
    """A head reaches its own layer's feed-forward in a serial block alone, and no head its own layer's heads."""
    serial, parallel = (
        ffb.attribution_patching(model_of(family), *pair(family), difference, edges=True).edges
        for family in ("gpt2", "gpt_neox")
    )
    assert serial["L1H0", "L1.mlp"].ndim == 0
    for edges, ends in ((parallel, ("L1H0", "L1.mlp")), (serial, ("L1H0", "L1H1.v")), (serial, ("m1", "a1.h1<v>"))):
        with pytest.raises(ffb.errors.ScopeKeyError, match="no edge from"):
            edges[ends]
    n_layers, n_heads = 3, 4
    into_layers = [
        3 * n_heads * (1 + layer * (n_heads + 1)) + 1 + layer * (n_heads + 1) + n_heads for layer in range(n_layers)
    ]
    assert int(serial.possible[:-1].sum()) == sum(into_layers) + 1 + n_layers * (n_heads + 1)


def test_path_has_nothing_for_queries_and_keys(ffb: ModuleType, model_of: Models, difference: Any) -> None:
    """Its patterns are the run's own, and the edges into values are those of "patching" in the last layer."""
    path, patching = (
        ffb.attribution_patching(model_of("gpt2"), *pair("gpt2"), difference, rules=rules, edges=True).edges
        for rules in ("path", "patching")
    )
    looking = [column for column, name in enumerate(path.receivers) if name.endswith((".q", ".k"))]
    assert not path.values[:, looking].any()
    assert patching.values[:, looking].any()
    torch.testing.assert_close(path["L0.mlp", "L2H1.v"], patching["L0.mlp", "L2H1.v"], **ALGEBRA)


@pytest.mark.usefixtures("float64_throughout")
def test_steps_follow_the_path_to_the_other_run(ffb: ModuleType, model_of_any: Models, difference: Any) -> None:
    """EAP-IG: the edges out of the embeddings sum to the change of the target, and steps are means."""
    model = model_of_any("gpt2", dtype=torch.float64)
    estimates = ffb.attribution_patching(model, *pair("gpt2"), difference, rules="gradient", steps=24, edges=True)
    changed = estimates.corrupted - estimates.clean
    assert float(estimates.edges.values[0].sum()) == pytest.approx(changed, rel=1e-5)
    plain = ffb.attribution_patching(model, *pair("gpt2"), difference, rules="gradient", edges=True)
    assert abs(float(plain.edges.values[0].sum()) - changed) > 1e-3 * abs(changed)


def test_positions_sum_to_the_whole_and_pieces_of_them_too(
    ffb: ModuleType, model_of: Models, difference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether numbers are kept by position, and however many positions are walked at a time."""
    model = model_of("gemma2")
    summed, by_position = (
        ffb.attribution_patching(model, *pair("gemma2"), difference, edges=asked).edges for asked in (True, "positions")
    )
    torch.testing.assert_close(by_position.values.sum(dim=-1), summed.values, rtol=1e-5, atol=1e-6)
    assert (by_position.possible == summed.possible).all()
    monkeypatch.setattr(ffb.attribution.edges, "BUFFER_BYTES", 1)
    alone = ffb.attribution_patching(model, *pair("gemma2"), difference, edges="positions").edges
    torch.testing.assert_close(alone.values, by_position.values, rtol=1e-5, atol=1e-6)


def test_a_direction_is_a_target(ffb: ModuleType, model_of_any: Models) -> None:
    """Read at a layer's input, nothing behind it matters: edges into the target are exact changes of what it reads."""
    model = model_of_any("gpt2", dtype=torch.float64)
    vector = torch.randn(32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    target = ffb.direction(vector, layer=1, at=4)
    estimates = ffb.attribution_patching(model, *pair("gpt2"), target, edges=True)
    into_target = estimates.edges.values[:, -1]
    assert float(into_target.sum()) == pytest.approx(estimates.corrupted - estimates.clean)
    assert not estimates.edges.possible[6:-1, -1].any()


def test_what_an_edit_adds_is_the_rest(ffb: ModuleType, model_of: Models, difference: Any) -> None:
    """No sender sent it; an edit that changes slopes on the way is refused, since edges would be those of another model."""
    adds, scales = (
        [("blocks.1.hook_resid_pre", edit)] for edit in (lambda x, hook: x + x.detach(), lambda x, hook: x * 1.5)
    )
    estimates = ffb.attribution_patching(model_of("gpt2"), *pair("gpt2"), difference, edges=True, fwd_hooks=adds)
    assert estimates.edges.values[-1].abs().max() > 1e-3
    with pytest.raises(ffb.errors.CompletenessError, match="edit of your hooks"):
        ffb.attribution_patching(model_of("gpt2"), *pair("gpt2"), difference, edges=True, fwd_hooks=scales)


def test_edges_are_a_table_and_a_graph(ffb: ModuleType, model_of: Models, difference: Any) -> None:
    """The same numbers in every form; key-value heads lead on to the heads that share them."""
    edges = ffb.attribution_patching(model_of("llama"), *pair("llama"), difference, edges="positions").edges
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
    with pytest.raises(ffb.errors.ScopeKeyError, match=r"no receiver 'L1H0\.k'"):
        edges["L0.resid", "L1H0.k"]
    with pytest.raises(ffb.errors.InputError, match="k=0"):
        edges.top(0)


@pytest.mark.wrong_types
def test_edges_have_to_be_asked_for(ffb: ModuleType, model_of: Models, difference: Any) -> None:
    """With True, or by position."""
    estimates = ffb.attribution_patching(model_of("gpt2"), *pair("gpt2"), difference)
    with pytest.raises(ffb.errors.ScopeKeyError, match="edges=True"):
        _ = estimates.edges
    with pytest.raises(ffb.errors.InputError, match="edges='heads'"):
        ffb.attribution_patching(model_of("gpt2"), *pair("gpt2"), difference, edges="heads")
