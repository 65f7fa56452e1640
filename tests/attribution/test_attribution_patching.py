"""Estimates of patching: to first order, by one backward pass, and exact where the path between the runs is followed."""

from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from benchmarks.estimates import correlations, effects
from tests import tiny
from tests.attribution.conftest import DIFFERENCE, Refused, assert_refused, direction, double, pair
from tests.cases import EVERY, ORDERS, Case, model_of
from tl_ffblock.bridge.model import identify
from tl_ffblock.errors import InputError, ModelLoadError, ScopeKeyError, UnsupportedModelError

N = 6


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "gemma2", "opt"])
def test_gradient_is_attribution_patching_as_it_is_known(family: str) -> None:
    """`<corrupted - clean, df/d clean>` by autograd through the model."""
    model, (clean, corrupted) = double(family), pair(family)
    result = ffb.attribution_patching(model, clean, corrupted, DIFFERENCE, rules="gradient", of=("q", "k", "v"))
    values: list[Any] = []
    plain: list[dict[str, Any]] = []
    for tokens in (clean, corrupted):
        kept: dict[str, Any] = {}
        hooks = [(f"blocks.1.attn.hook_{x}", lambda t, hook, x=x, kept=kept: kept.setdefault(x, t)) for x in "qkv"]
        logits = model.run_with_hooks(tokens[None], fwd_hooks=hooks)
        derivatives = torch.autograd.grad(DIFFERENCE(logits).sum(), [kept[x] for x in "qkv"])
        plain += [kept, dict(zip("qkv", derivatives, strict=True))]
    for kind in "qkv":
        expected = ((plain[2][kind] - plain[0][kind]) * plain[1][kind]).sum(-1)[0].T.detach()
        torch.testing.assert_close(result[kind][1], expected, rtol=1e-9, atol=1e-12)
    for tokens in (clean, corrupted):
        with ffb.capture(model) as records:
            logits = model(tokens[None])
        values.append([records[layer] for layer in records])
        if tokens is clean:
            target = DIFFERENCE(logits).sum()
            sites = [t for record in values[0] for t in (record.resid_pre, record.post)]
            gradients = torch.autograd.grad(target, sites)
            assert result.clean == pytest.approx(float(target.detach()))
    for layer, (first, second) in enumerate(zip(*values, strict=True)):
        stream = ((second.resid_pre - first.resid_pre) * gradients[2 * layer]).sum(-1)[0].detach()
        torch.testing.assert_close(result.residual[layer], stream, rtol=1e-9, atol=1e-12)
        neurons = ((second.post - first.post) * gradients[2 * layer + 1]).reshape(N, -1).detach()
        torch.testing.assert_close(result.neurons(layer), neurons, rtol=1e-9, atol=1e-12)


KINDS: tuple[Any, ...] = ("residual_mid", "attention", "q", "k", "v")


def nudged(model: Any, clean: Any, name: str, add: torch.Tensor, target: Any = DIFFERENCE) -> float:
    """The target of a run with something added at a HookPoint."""
    with torch.no_grad():
        hook = (name, lambda x, hook: x + add.reshape(x.shape))
        return float(target(model.run_with_hooks(clean[None], fwd_hooks=[hook])).sum())


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", ORDERS)
def test_every_kind_is_the_slope_of_a_run_that_is_edited_there(family: str) -> None:
    """Finite differences with plain hooks: of queries, keys and values by head, of attention and of the residual stream after it."""
    model, prompts, layer, at = double(family), pair(family), 1, 3
    kinds = [kind for kind in KINDS if (family, kind) != ("gpt_neox", "residual_mid")]
    estimates = ffb.attribution_patching(model, *prompts, DIFFERENCE, rules="gradient", of=kinds)
    written = "attn.o.hook_out" if family == "bert" else "attn.hook_out"
    added = {"gemma2": "ln1_post.hook_out", "olmo2": "ln1_post.hook_out"}.get(family, written)
    names = {kind: f"attn.hook_{kind}" for kind in "qkv"} | {"attention": written, "residual_mid": added}
    caches = [model.run_with_cache(tokens[None])[1] for tokens in prompts]
    for kind in kinds:
        name = f"blocks.{layer}.{names[kind]}"
        change = caches[1][name] - caches[0][name]
        if kind == "residual_mid":
            change = change + caches[1]["resid_pre", layer] - caches[0]["resid_pre", layer]
        for place in [(at,)] if change.ndim == 3 else [(at, head) for head in range(change.shape[2])]:
            some = torch.zeros_like(change)
            some[(0, *place)] = change[(0, *place)]
            slope = (
                nudged(model, prompts[0], name, 1e-4 * some) - nudged(model, prompts[0], name, -1e-4 * some)
            ) / 2e-4
            assert float(estimates[kind][(layer, *place[1:], at)]) == pytest.approx(slope, rel=1e-5, abs=1e-9), kind
    assert {kind: float(estimates[kind].abs().max()) > 1e-4 for kind in kinds} == dict.fromkeys(kinds, True)


@pytest.mark.parametrize("case", EVERY, ids=str)
def test_heads_estimates_sum_to_attentions(case: Case) -> None:
    """At every position; of every order of norms and every kind of attention, by HookPoints of their own."""
    tokens, target = case.tokens(N), ffb.logit(7, minus=11)
    model, corrupted = case.model(), torch.cat([tokens[:3], tokens.flip(0)[3:]])
    recurrent = any(layer.is_recurrent for layer in identify(model).layers)
    kind = "attention" if recurrent else "q" if case.name == "gemma4" else "v"
    if kind != "v":
        refused = "without a softmax .* of='v'" if recurrent else "of='v': .* makes values of keys in some layers"
        with pytest.raises(UnsupportedModelError, match=refused):
            ffb.attribution_patching(model, tokens, corrupted, target, of="v")
    result = ffb.attribution_patching(model, tokens, corrupted, target, of=tuple({"attention": 0, kind: 0}))
    torch.testing.assert_close(result.heads.sum(dim=1), result["attention"], rtol=1e-4, atol=1e-5)
    assert result[kind].abs().max() > 1e-6


@pytest.mark.parametrize(("name", "kind"), [("gpt_neox", "attention"), ("attn_only_no_norms", "v")])
def test_estimates_are_true_patching_where_the_model_is_linear(name: str, kind: Any) -> None:
    """The last layer's attention writes to the end of the stream, values to the next layer's input: both linear."""
    model = Case(name).model(torch.float64)
    clean, corrupted = Case(name).tokens(N), Case(name).tokens(N).flip(0)
    layer = len(model.blocks) - 1 if kind == "attention" else 0
    target = direction(layer + 1 if kind == "v" else -1)
    estimates = ffb.attribution_patching(model, clean, corrupted, target, of=kind)
    point = f"blocks.{layer}.attn.hook_{'out' if kind == 'attention' else 'v'}"
    read = f"blocks.{layer}.hook_resid_post"
    _, cache = model.run_with_cache(corrupted[None])
    ends = []
    for hooks in ([], [(point, lambda x, hook: cache[point])]):
        kept: dict[str, Any] = {}
        model.run_with_hooks(clean[None], fwd_hooks=[*hooks, (read, lambda x, hook, kept=kept: kept.update(x=x))])
        ends.append(float((kept["x"][0, -1] @ target.vector).detach()))
    assert float(estimates[kind][layer].sum()) == pytest.approx(ends[1] - ends[0])
    assert abs(ends[1] - ends[0]) > 1e-3


@pytest.mark.slow
def test_estimates_of_a_real_model_follow_true_patching() -> None:
    """Pearson's r of three layers of SmolLM2 with what plain hooks measure; the page on attribution has that of all layers."""
    try:
        model = ffb.load_model("smollm2")
    except ModelLoadError as error:
        pytest.skip(str(error))
    layers = [5, 15, 23]
    found = correlations(model, layers, effects(model, layers))
    least = {"head": 0.98, "q": 0.85, "v": 0.99, "attention": 0.99, "mlp": 0.98, "residual": 0.85, "residual_mid": 0.7}
    assert {kind: found[kind]["patching"] > r for kind, r in least.items()} == dict.fromkeys(least, True), found
    assert found["k"]["gradient"] > 0.95
    assert min(found["residual"]["patching, 5 steps"], found["residual_mid"]["patching, 5 steps"]) > 0.99


def test_steps_follow_the_path_to_the_other_run() -> None:
    """With the model's gradient the estimates and the edges of the embeddings sum to the change (the path integral of the gradient)."""
    model, (clean, corrupted) = double("gpt2"), pair("gpt2")
    result, plain = (
        ffb.attribution_patching(model, clean, corrupted, DIFFERENCE, rules="gradient", steps=steps, edges=True)
        for steps in (24, 1)
    )
    changed = result.corrupted - result.clean
    assert float(result.residual[0].sum()) == pytest.approx(changed, rel=1e-5)
    assert float(result.edges.values[0].sum()) == pytest.approx(changed, rel=1e-5)
    assert abs(float(plain.edges.values[0].sum()) - changed) > 1e-3 * abs(changed)
    assert float(result.residual[0, [0, 1, 4, 5]].abs().max()) < 1e-12
    for estimates in (result, plain):
        told = float(estimates.residual[0].sum())
        assert ("too coarse" in repr(estimates)) is (abs(told - changed) > abs(changed) / 2)


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_steps_converge(family: str) -> None:
    """With local rules, too."""
    few = [ffb.attribution_patching(double(family), *pair(family), DIFFERENCE, steps=steps) for steps in (12, 16)]
    torch.testing.assert_close(few[0].mlps, few[1].mlps, rtol=1e-2, atol=1e-3)


@pytest.mark.filterwarnings("ignore::tl_ffblock.errors.EqualPairWarning")
@pytest.mark.parametrize("rules", ["path", "patching", "gradient"])
def test_the_same_prompt_changes_nothing(rules: str) -> None:
    """Zero everywhere."""
    tokens = tiny.tokens("llama", N)
    result = ffb.attribution_patching(model_of("llama"), tokens, tokens, DIFFERENCE, rules=rules)
    assert not any(estimates.any() for estimates in (result.residual, result.heads, result.mlps))


@pytest.mark.parametrize("family", ["gpt2", "gemma2", "gpt_neox"])
def test_the_last_streams_estimate_is_linear(family: str) -> None:
    """A direction behind the last layer is linear in what heads and feed-forward write there, so estimates are exact."""
    result = ffb.attribution_patching(double(family), *pair(family), direction(-1))
    assert float(result.residual[-1].sum()) == pytest.approx(result.corrupted - result.clean)


@pytest.mark.parametrize("target", ["kl_divergence", "loss"])
def test_what_compares_with_a_run_compares_with_the_clean_one(target: str) -> None:
    """Of divergence and loss, too, the embeddings' estimates sum to the change: the corrupted run read by the clean run's terms."""
    model, (clean, corrupted) = double("gpt2"), pair("gpt2")
    with torch.no_grad():
        before, after = (model(tokens[None])[0].log_softmax(-1) for tokens in (clean, corrupted))
    expected = {
        "kl_divergence": (0.0, float((before[-1].exp() * (before[-1] - after[-1])).sum())),
        "loss": tuple(-float(logs[:-1].gather(1, clean[1:, None]).mean()) for logs in (before, after)),
    }[target]
    result = ffb.attribution_patching(model, clean, corrupted, getattr(ffb, target)(), rules="gradient", steps=32)
    assert (result.clean, result.corrupted) == pytest.approx(expected, abs=1e-9)
    assert float(result.residual[0].sum()) == pytest.approx(expected[1] - expected[0], rel=1e-3)


@pytest.mark.parametrize("family", ["gpt2", "bert", "llama"])
def test_a_contributions_estimate_is_exact_where_the_target_reads_it(family: str) -> None:
    """A direction at a layer's output is linear in its contributions: `<F_i(x_j) of the other run - F_i(x_j), v>`, by the vectors."""
    model, target = double(family), direction(2, at=4)
    result = ffb.attribution_patching(model, *pair(family), target, maps=True)
    first, second = (ffb.decompose(model, tokens, layer=1) for tokens in pair(family))
    output = "AtbFfResLn" if family == "bert" else "AtbLnFfRes"
    expected = torch.zeros(N, N, dtype=torch.float64)
    expected[4] = (second.parts(output) - first.parts(output))[4] @ target.vector
    torch.testing.assert_close(result.maps[output, 1], expected, rtol=1e-8, atol=1e-11)
    assert not result.maps[output, 2].any()


@pytest.mark.parametrize("rules", ["path", "patching"])
def test_estimates_of_contributions_sum_to_the_streams(rules: str) -> None:
    """Without biases all contributions to a layer's output are the residual stream behind it, with any number of steps."""
    given = double("llama_nobias"), *pair("llama_nobias"), DIFFERENCE
    result = ffb.attribution_patching(*given, rules=rules, steps=2, maps=True)
    summed = result.maps["AtbLnFfRes"].sum(-1)
    torch.testing.assert_close(summed, result.residual[1:], rtol=1e-5, atol=1e-6)  # Llama's norms compute in float32


def test_lists_are_pairs() -> None:
    """Each clean prompt with its corrupted one, with its own answer and segments: what a call for the pair gives."""
    model, (clean, corrupted) = model_of("bert"), pair("bert")
    segments = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 1, 1]])
    left, right = torch.stack([clean, corrupted]), torch.stack([corrupted, clean.flip(0)])
    results = ffb.attribution_patching(model, left, right, ffb.logit([7, 8], minus=9, at=2), token_type_ids=segments)
    assert len(results) == 2
    for number, (result, answer) in enumerate(zip(results, (7, 8), strict=True)):
        given = left[number], right[number], ffb.logit(answer, minus=9, at=2)
        alone = ffb.attribution_patching(model, *given, token_type_ids=segments[number, None])
        assert (result.target, result.clean, result.corrupted) == (alone.target, alone.clean, alone.corrupted)
        for name in ("residual", "heads", "mlps"):
            torch.testing.assert_close(getattr(result, name), getattr(alone, name), rtol=0, atol=0)


def estimates(clean: Any = None, corrupted: Any = None, target: Any = DIFFERENCE, **options: Any) -> Any:
    """Of two prompts of GPT-2, or others."""
    pairs = [given if given is not None else own for given, own in zip((clean, corrupted), pair("gpt2"), strict=True)]
    return ffb.attribution_patching(model_of("gpt2"), *pairs, target, **options)


CLEAN = tiny.tokens("gpt2", N)
TWO, THREE = torch.stack([CLEAN] * 2), torch.stack([CLEAN] * 3)
REFUSED: dict[str, Refused] = {
    "one prompt for two": (lambda: estimates(TWO), InputError, "clean is a list of 2, corrupted is one prompt"),
    "three prompts for two": (lambda: estimates(TWO, THREE), InputError, "list of 2, corrupted is a list of 3"),
    "answers for three": (lambda: estimates(TWO, TWO, ffb.logit([7, 8, 9])), InputError, "answers for 3 prompts"),
    "padding": (
        lambda: estimates(attention_mask=torch.tensor([0, 0, 1, 1, 1, 1])),
        InputError,
        "hides tokens of clean",
    ),
    "minimum": (lambda: estimates(target=ffb.kl_divergence()), InputError, "KL divergence.*steps=2"),
    "patterns": (lambda: estimates(rules="gradient", maps=True), InputError, "maps=True with rules="),
    "no maps": (lambda: estimates().maps["Atb"], ScopeKeyError, "maps=True"),
    "no edges": (lambda: estimates().edges, ScopeKeyError, "edges=True"),
    "frozen queries": (lambda: estimates(of=["v", "q"], rules="path"), InputError, "patterns are frozen.*Use rules="),
    "no such kind": (lambda: estimates(of="query"), InputError, "residual_mid.*are always"),
    "no stream between": (
        lambda: ffb.attribution_patching(
            model_of("gpt_neox"), *pair("gpt_neox"), DIFFERENCE, of=("attention", "residual_mid")
        ),
        InputError,
        "parallel layers, without a residual stream between",
    ),
    "kind not asked for": (lambda: estimates(of="v")["k"], ScopeKeyError, "no 'k' here: pass of='k'"),
    "half an edge": (lambda: estimates(edges=True).edges[("input",)], ScopeKeyError, "a sender and a receiver"),
    "own loop": (lambda: estimates(edges=True).edges["L1H0", "L1H1.v"], ScopeKeyError, "no edge from"),
    "own loop by EAP's names": (lambda: estimates(edges=True).edges["m1", "a1.h1<v>"], ScopeKeyError, "no edge from"),
    "experts": (
        lambda: ffb.attribution_patching(model_of("mixtral"), *pair("mixtral"), DIFFERENCE).neurons(0),
        InputError,
        "mixture of experts",
    ),
}


@pytest.mark.filterwarnings("ignore::tl_ffblock.errors.EqualPairWarning")
@pytest.mark.wrong_types
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_estimated_is_refused(name: str) -> None:
    """Pairs that are none, divergences at their minimum, what was not asked for, edges that there are not."""
    assert_refused(*REFUSED[name])
