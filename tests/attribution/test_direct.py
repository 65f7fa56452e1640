"""Direct contributions sum to the target on every family and are plain products; the lens ends at the model's logits."""

from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.attribution.conftest import DIFFERENCE, assert_refused, direction, double, prompts
from tests.attribution.test_conservation import HOOKED, certified
from tests.attribution.test_frozen_autograd import N, assert_near, by, heads_of, rows
from tests.cases import EVERY, Case, bridge_of, model_of, processed, slow_beyond
from tests.frozen_autograd import PLACES, FrozenRun
from tests.tolerances import CONSERVED_FLOAT32, CONSERVED_FLOAT64, ORACLE
from tl_ffblock.bridge.linearised import DIRECT
from tl_ffblock.errors import CompletenessError, IdentityError, InputError, ScopeKeyError
from tl_ffblock.results.tokens import visible
from tl_ffblock.views import page_of

POST_LN = ("bert", "roberta", "openai_gpt")
TL_RTOL = 1e-4
"""float32 products of another order of sums, relative to the largest."""


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("case", [*EVERY, *HOOKED], ids=str)
def test_direct_contributions_sum_to_the_target(case: Case) -> None:
    """At every layer's input, in the table of terms and by kind; neurons sum to their feed-forward; the lens ends at the target."""
    single = case.name in tiny.MORE_FAMILIES
    tolerance = CONSERVED_FLOAT32 if single else CONSERVED_FLOAT64.get(case.name, CONSERVED_FLOAT64["every other"])
    model, tokens = (
        case.model(torch.float32 if single else torch.float64),
        torch.stack([case.tokens(7), case.tokens(7, 1)]),
    )
    results = ffb.direct_logit_attribution(model, tokens, DIFFERENCE, of="neurons")
    for result, lens in zip(results, ffb.logit_lens(model, tokens, DIFFERENCE), strict=True):
        certificate, size = result.certificate, 10 * tolerance * result.total_size()
        assert certificate.logits == 0 and certificate.forms <= tolerance
        assert float(certificate.layer_inputs.max()) <= tolerance
        assert abs(sum(result.sums().values()) - result.value) <= size
        assert abs(result.to_dataframe()["value"].sum() - result.value) <= size
        for layer in result.neuron_layers:
            assert torch.equal(result.neurons(layer).sum(dim=-1), result.mlps[layer])
        assert float(lens.values[-1]) == pytest.approx(result.value, rel=1e-5) and lens.error <= tolerance


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", PLACES)
def test_direct_contributions_are_autograds(family: str) -> None:
    """Against the Hugging Face model with z and the output of feed-forwards detached, norm scales constant; BERT with its head."""
    tokens = tiny.tokens(family, N)
    run = FrozenRun(tiny.hf_model(family, dtype=torch.float64), family, tokens, "direct")
    target = run.logits[0, -1, 7] - run.logits[0, -1, 11]
    result = ffb.direct_logit_attribution(double(family), tokens, DIFFERENCE)
    assert float(target.detach()) == pytest.approx(result.value)
    z, ff, x = run.of_layers("z"), run.of_layers("ff"), run.of_layers("x")
    assert_near(result.heads, rows(z, by(run, z), heads_of(family, result.heads)))
    b_out = {at: share for name, at, share in biases(result) if name.endswith("mlp.b_out")}
    mine = torch.stack([mlp + b_out.get(layer, 0) for layer, mlp in enumerate(result.mlps)])
    alone = "mamba" in family  # layers of a mixer alone have no feed-forward
    assert_near(mine, torch.zeros_like(mine) if alone else rows(ff, by(run, ff))[:, 0])
    assert_near(result.residual[:-1], rows(x, by(run, x))[:, 0])


def biases(result: Any) -> list[tuple[str, int, Tensor]]:
    """Name, layer and shares by position."""
    return list(zip(result.bias_names, result.bias_layers, result.bias_shares, strict=True))


def assert_read_from_the_stream_alone(model: Any, tokens: Tensor, tolerance: float) -> None:
    """Of a direction behind the last layer, each layer's input has its own product, times the scales of later layers (Gemma-4).

    A path through a later head or feed-forward would add to it, and sums would not show that: an unfrozen norm's input has the
    derivative zero along itself.
    """
    depth = model.cfg.n_layers
    vector = torch.randn(model.cfg.d_model, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    result = ffb.direct_logit_attribution(model, tokens, ffb.direction(vector, layer=depth))
    _, cache = model.run_with_cache(tokens[None])
    for layer in range(depth):
        scale = 1.0
        for block in model.blocks[layer:]:
            scale *= float(getattr(getattr(block, "original_component", block), "layer_scalar", 1.0))
        expected = scale * float(cache[f"blocks.{layer}.hook_resid_pre"][0, -1].double() @ vector)
        assert float(result.residual[layer, -1]) == pytest.approx(
            expected, rel=tolerance, abs=tolerance * float(vector.norm())
        )
        assert not result.residual[layer, :-1].any()


@pytest.mark.parametrize("family", slow_beyond([name for name in tiny.ALL_FAMILIES if name not in POST_LN]))
def test_no_path_leads_through_a_later_branch(family: str) -> None:
    """In a Post-LN block the stream goes through norms."""
    assert_read_from_the_stream_alone(model_of(family), tiny.tokens(family, 5), TL_RTOL)


@pytest.mark.parametrize("family", ["gpt2", "llama", "gpt_neox"])
def test_a_derivative_inside_a_branch_is_refused(family: str) -> None:
    """A hook that computes a feed-forward's output from its norm's; detached, the output is a constant."""
    model, tokens, read = double(family), tiny.tokens(family, 5), list[Tensor]()

    def attempt(kept: Any) -> Any:
        norm, out = (f"blocks.1.{name}" for name in ("ln2.hook_out", "hook_mlp_out"))
        hooks = [(norm, lambda x, hook: read.append(kept(x))), (out, lambda y, hook: y + read.pop())]
        return ffb.direct_logit_attribution(model, tokens, DIFFERENCE, fwd_hooks=hooks)

    assert_refused(lambda: attempt(lambda x: x), CompletenessError, r"derivative at blocks\.1\.ln2.*Detach")
    edited = attempt(Tensor.detach)
    assert sum(edited.sums().values()) == pytest.approx(edited.value) and edited.sums()["edits"]


def test_transformer_lens_agrees_on_processed_weights_alone() -> None:
    """`logit_attrs` needs folded norms and centred weights: on the model as it is it runs and does not sum to the target."""
    tokens, raw = tiny.tokens("gpt2", 7), bridge_of("gpt2")
    ours = ffb.direct_logit_attribution(raw, tokens, DIFFERENCE)

    @torch.no_grad()
    def of_transformer_lens(model: Any) -> tuple[Tensor, float]:
        _, cache = model.run_with_cache(tokens[None])
        options = {"pos_slice": -1, "tokens": torch.tensor([7]), "incorrect_tokens": torch.tensor([11])}
        heads = cache.logit_attrs(cache.stack_head_results(layer=-1, pos_slice=-1), **options)
        components = cache.logit_attrs(cache.decompose_resid(pos_slice=-1), **options)
        return heads.reshape(ours.heads.shape[:2]), float(components.sum() + model.b_U[7] - model.b_U[11])

    heads, total = of_transformer_lens(raw)
    assert not torch.allclose(heads, ours.heads[..., -1], rtol=0.1) and abs(total - ours.value) > 0.1
    heads, total = of_transformer_lens(processed(bridge_of("gpt2"), fold_value_biases=False))
    torch.testing.assert_close(heads, ours.heads[..., -1], rtol=TL_RTOL, atol=TL_RTOL * float(heads.abs().max()))
    assert total == pytest.approx(ours.value, rel=TL_RTOL)


def test_the_lens_is_that_of_transformer_lens() -> None:
    """Logits of every row, between attention and feed-forward too; serial decoders are what it reads."""
    lens = getattr(pytest.importorskip("transformer_lens.tools.analysis"), "logit_lens", None)
    if lens is None:
        pytest.skip("this TransformerLens has none")
    for family in ("gpt2", "llama", "gemma2"):
        model, tokens = model_of(family), tiny.tokens(family, 6)
        theirs = lens(model, tokens[None], incl_mid=True, positions=None).values[:, 0]
        ours = ffb.logit_lens(model, tokens, DIFFERENCE, at=None, k=4)
        assert len(theirs) == len(ours.names) == 2 * model.cfg.n_layers + 1
        torch.testing.assert_close(ours.values, (theirs[:, -1, 7] - theirs[:, -1, 11]).detach())
        probabilities = theirs.detach().softmax(dim=-1)
        torch.testing.assert_close(ours.top_probabilities, probabilities.topk(4).values)
        torch.testing.assert_close(ours.entropy, torch.special.entr(probabilities).sum(dim=-1))


def test_an_encoders_lens_is_its_own_head() -> None:
    """BERT's streams after each norm through its head for masked words, by Hugging Face's modules."""
    tokens, hf = tiny.tokens("bert", 6), tiny.hf_model("bert", dtype=torch.float64)
    streams: dict[str, Tensor] = {}
    handles = []
    for number, layer in enumerate(hf.bert.encoder.layer):
        for name, module in ((f"L{number} after attention", layer.attention.output), (f"L{number + 1}", layer.output)):
            handles.append(module.register_forward_hook(lambda _, __, out, name=name: streams.__setitem__(name, out)))
    handles.append(hf.bert.embeddings.register_forward_hook(lambda _, __, out: streams.__setitem__("L0", out)))
    hf(input_ids=tokens[None])
    for handle in handles:
        handle.remove()
    streams["output"] = streams.pop(f"L{len(hf.bert.encoder.layer)}")
    lens = ffb.logit_lens(double("bert"), tokens, DIFFERENCE)
    assert set(lens.names) == set(streams)
    for name, value in zip(lens.names, lens.values, strict=True):
        logits = hf.cls(streams[name])[0, -1].detach()
        assert float(value) == pytest.approx(float(logits[7] - logits[11]), rel=ORACLE, abs=ORACLE)


def test_a_partial_sum_of_contributions_is_the_lens_with_the_last_scale() -> None:
    """Rows of the lens have each its own scale: without that they would differ by contributions."""
    model, tokens = double("llama_nobias"), tiny.tokens("llama_nobias", 6)
    result, lens = (make(model, tokens, DIFFERENCE) for make in (ffb.direct_logit_attribution, ffb.logit_lens))
    _, cache = model.run_with_cache(tokens[None])
    streams = [cache[f"blocks.{layer}.hook_resid_pre"][0, -1] for layer in range(model.cfg.n_layers)]
    streams.append(cache[f"blocks.{model.cfg.n_layers - 1}.hook_resid_post"][0, -1])
    scales = torch.stack([(x.pow(2).mean() + model.cfg.eps).sqrt() for x in streams]).detach()
    frozen = result.residual.sum(dim=1)
    own = lens.values[[row for row, kind in enumerate(lens.kinds) if kind == "residual"]]
    torch.testing.assert_close(frozen * scales[-1] / scales, own)
    assert not torch.allclose(frozen[:-1], own[:-1], rtol=1e-2)


def test_edits_are_in_the_sum() -> None:
    """An edit of z is part of its head, one of the residual stream a term of its own; a doubled head counts twice."""
    model, tokens = double("gpt2"), tiny.tokens("gpt2", 6)

    def doubled(z: Tensor, hook: object) -> Tensor:
        return torch.cat([z[:, :, :1] * 2, z[:, :, 1:]], dim=2)

    last = model.cfg.n_layers - 1
    hooks = [(f"blocks.{last}.attn.hook_z", doubled), ("blocks.1.hook_resid_pre", lambda x, hook: 1.1 * x)]
    for hook in hooks:
        edited = ffb.direct_logit_attribution(model, tokens, DIFFERENCE, fwd_hooks=[hook])
        assert sum(edited.sums().values()) == pytest.approx(edited.value)
        assert ("edits" in edited.sums()) == ("resid" in hook[0])
    with pytest.raises(IdentityError, match="after the last layer"):
        ffb.logit_lens(model, tokens, fwd_hooks=[("ln_final.hook_out", lambda x, hook: 2 * x)])


def test_feed_forwards_are_a_part_of_attributions_too() -> None:
    """`of="mlps"` is what all neurons write, of a mixture of experts what the graph says that it writes."""
    for family in ("gpt2", "qwen2_moe"):
        result = ffb.attribute(double(family), tiny.tokens(family, 6), DIFFERENCE, of=("mlps", "neurons", "graph"))
        certified(result, CONSERVED_FLOAT64.get(family, CONSERVED_FLOAT64["every other"]))
        neurons = [result.neurons(layer).sum(dim=-1) for layer in result.neuron_layers]
        torch.testing.assert_close(result.mlps, torch.stack(neurons) if neurons else result.parts["graph.mlps"])
        assert len(result.to_dataframe("mlps")) == result.mlps.count_nonzero()


def test_averages_take_direct_contributions() -> None:
    """Over prompts, of heads and of feed-forwards; with attributions they are not mixed."""
    model = double("gpt2")
    results = ffb.direct_logit_attribution(model, prompts("gpt2"), DIFFERENCE)
    for of in ("heads", "mlps"):
        mean = torch.stack([getattr(result, of).sum(dim=-1) for result in results]).mean(dim=0)
        torch.testing.assert_close(ffb.average_shares(results, of).mean, mean)
    assert results.mean().sums().keys() == results[0].sums().keys()
    with pytest.raises(InputError):
        ffb.average_shares([results[0], ffb.attribute(model, prompts("gpt2")[0], DIFFERENCE)])


def test_what_there_is_not_is_refused() -> None:
    """Edges of direct contributions, direct rules elsewhere, a lens without target or head."""
    model, tokens = double("gpt2"), tiny.tokens("gpt2", 6)
    result, lens = ffb.direct_logit_attribution(model, tokens, direction(2)), ffb.logit_lens(model, tokens)
    assert not result.heads[2:].any() and result.heads[:2].any() and lens.values is None
    assert_refused(lambda: result.edges, ScopeKeyError, "ffb.attribute")
    assert_refused(lambda: result.graph(), ScopeKeyError, "ffb.attribute")
    assert_refused(lambda: lens.to_dataframe("target"), ScopeKeyError, "no target")
    for call in (
        ffb.attribute,
        lambda *args, **options: ffb.attribution_patching(args[0], tokens, *args[1:], **options),
    ):
        refused = lambda call=call: call(model, tokens, DIFFERENCE, rules=DIRECT)  # noqa: E731
        assert_refused(refused, InputError, "ffb.direct_logit_attribution")


def test_pages_and_figures_show_the_numbers() -> None:
    """Heads and feed-forwards as heat maps, and the sum so far is the target; the lens as tokens in cells, and the target as a line."""
    model, tokens = double("gpt2"), tiny.tokens("gpt2", 6)
    result, lens = (make(model, tokens, DIFFERENCE) for make in (ffb.direct_logit_attribution, ffb.logit_lens))
    for kind, numbers in (("heads", result.heads.sum(dim=-1)), ("mlps", result.mlps)):
        torch.testing.assert_close(torch.tensor(result.figure(of=kind).axes[0].images[0].get_array().data), numbers)
    block = page_of(result).runs[0].blocks["logit"].json
    assert block["residual"][-1][-1] == pytest.approx(result.value, rel=1e-5) and "overlap" not in block["certificate"]
    rows = [row for row, name in enumerate(lens.names) if not name.endswith("after attention")]
    figure = lens.figure()
    (curve,) = [line for line in figure.axes[1].get_lines() if len(line.get_xdata()) == len(rows)]
    torch.testing.assert_close(
        torch.tensor(curve.get_xdata()), lens.values[rows], rtol=1e-5, atol=1e-6, check_dtype=False
    )
    cells = figure.axes[0].images[0].get_array()
    torch.testing.assert_close(
        torch.tensor(cells.data)[:, -1], lens.top_probabilities[rows, -1, 0], rtol=1e-5, atol=1e-6, check_dtype=False
    )
    shown = [text.get_text() for text in figure.axes[0].texts]
    assert shown[-1] == visible(lens.top_tokens[-1][-1][0]) and len(shown) == len(rows)
    two = ffb.logit_lens(model, tokens, at=[0, 3]).figure()
    assert len(two.axes[0].texts) == 2 * len(rows)
