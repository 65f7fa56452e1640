"""Which model, tokens and hooks a result is of: results, caches, records and kept runs of others are refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tl_ffblock.bridge.model import identify

N = 8
SCOPES = {"gpt2": "AtbLnFf", "bert": "AtbFf"}
WHERE: dict[str, Any] = {"layers": 1, "queries": -1, "keys": 2}


@pytest.fixture(params=SCOPES)
def family(request: pytest.FixtureRequest) -> str:
    """A family per order of norms that the records of a run depend on."""
    return request.param


@pytest.fixture
def model(family: str) -> Any:
    """A model of the test's own, whose weights it may change."""
    return tiny.bridge(family)


@pytest.fixture
def texts(family: str) -> tuple[Tensor, Tensor]:
    """Two texts of equally many tokens."""
    return tiny.tokens(family, N), tiny.tokens(family, N, seed=3)


def parameter_of(model: Any, layer: int = 1) -> Tensor:
    """A weight matrix of a layer."""
    return next(
        p
        for name, p in model.named_parameters()
        if p.ndim == 2 and f".{layer}." in name.replace("_original_component", "")
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_weights_on_an_accelerator_are_digested_again_when_a_norm_changes(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    """Where weights do not lie on the CPU their norms say whether they changed; the digest is that of the CPU."""
    from tl_ffblock.bridge import model as module

    model = tiny.bridge("gpt2", dtype=dtype)
    on_cpu = module.weights_fingerprint(model)
    digests: list[str] = []

    def counted(tensors: Any, begin: str = "", digest: Callable[..., str] = module._digest) -> str:
        digests.append(digest(tensors, begin))
        return digests[-1]

    monkeypatch.setattr(module, "_on_cpu", lambda tensors: False)
    monkeypatch.setattr(module, "_digest", counted)
    assert [module.weights_fingerprint(model) for _ in range(3)] == [on_cpu] * 3
    assert len(digests) == 1
    parameter_of(model).data.mul_(1.5)
    assert module.weights_fingerprint(model) != on_cpu
    assert len(digests) == 2


def test_a_call_reads_the_weights_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One fingerprint per call, whatever the number of texts."""
    from tl_ffblock.bridge import model as module

    model, texts, target = tiny.bridge("gpt2"), [tiny.tokens("gpt2", n) for n in (5, 6)], ffb.logit(7)
    taken: list[str] = []

    def counted(hooked: Any, fingerprint: Callable[[Any], str] = module.weights_fingerprint) -> str:
        taken.append(fingerprint(hooked))
        return taken[-1]

    monkeypatch.setattr(module, "weights_fingerprint", counted)
    calls: dict[str, Callable[[], object]] = {
        "maps": lambda: ffb.contribution_maps(model, torch.stack([texts[0], texts[0]])),
        "attribute": lambda: ffb.attribute(model, texts[0], target),
        "patching": lambda: ffb.attribution_patching(model, texts[0], texts[0].flip(0), target),
        "continuation": lambda: ffb.attribute_continuation(model, texts[0].tolist(), generate=2),
        "contributions": lambda: ffb.Contributions(model, texts),
        "flow": lambda: ffb.flow_graph(model, texts[0], target=7),
        "memories": lambda: ffb.memories.memory_card(model, texts, "1:3"),
    }
    for name, call in calls.items():
        taken.clear()
        call()
        assert len(taken) == 1, name


def test_a_cache_says_which_tokens_it_is_of(model: Any, texts: tuple[Tensor, Tensor]) -> None:
    """Dictionaries without token ids, too (whole caches: test_public_laws); one of later layers could be of any text."""
    expected = ffb.contribution_maps(model, texts[0])
    caches = [model.run_with_cache(text[None])[1].cache_dict for text in texts]
    for left_out in ("embed.hook_in", ("embed", "hook_embed")):
        mine, theirs = ({k: v for k, v in cache.items() if not k.startswith(left_out)} for cache in caches)
        found = ffb.contribution_maps(model, texts[0], cache=mine)
        torch.testing.assert_close(found["Atb"], expected["Atb"], rtol=0, atol=0)
        with pytest.raises(ffb.errors.InputError, match=r"cache is of other tokens.*omit cache"):
            ffb.contribution_maps(model, texts[0], cache=theirs)
    later = {k: v for k, v in caches[0].items() if not k.startswith(("embed", "hook_embed", "blocks.0"))}
    with pytest.raises(ffb.errors.InputError, match=r"names_filter=None"):
        ffb.contribution_maps(model, texts[0], cache=later, layers=1)


def test_records_of_embeddings_have_no_tokens() -> None:
    """A forward pass that was given embeddings is taken as the caller says."""
    model, tokens = tiny.bridge("llama"), tiny.tokens("llama", N)
    embeddings = model.embed(tokens[None]).detach()
    with ffb.capture(model) as records:
        model(tokens[None])
        model.original_model(inputs_embeds=embeddings)
    assert records.tokens is None
    torch.testing.assert_close(
        ffb.contribution_maps(model, tokens, cache=records)["Atb"], ffb.contribution_maps(model, tokens)["Atb"]
    )


def test_what_stands_beside_maps_is_of_their_model(tmp_path: Any) -> None:
    """A page of maps refuses attention and attributions of other weights."""
    model, text = tiny.bridge("gpt2"), tiny.tokens("gpt2", N)
    others = [ffb.attention_maps(model, text), ffb.attribute(model, text, ffb.logit(7), of=("heads", "maps"))]
    own = ffb.contribution_maps(model, text)
    for other in others:
        own.to_html(tmp_path / "page.html", beside=other)
    parameter_of(model).data[0, 0] += 0.1
    for other in others:
        with pytest.raises(ffb.errors.InputError, match=r"beside: .* weights.*same model"):
            ffb.contribution_maps(model, text).to_html(tmp_path / "page.html", beside=other)


def test_what_computes_with_the_weights_is_part_of_the_model() -> None:
    """Another activation, eps, scale or window makes another model of the same weights; running it does not."""
    assert identify(model_of("gpt2")).fingerprint != identify(model_of("gpt2_relu")).fingerprint
    for family, name in (("llama", "scaling"), ("llama", "variance_epsilon"), ("gemma2", "attn_logit_softcapping")):
        model = tiny.bridge(family)
        before = identify(model).fingerprint
        model(tiny.tokens(family, 40)[None])
        assert identify(model).fingerprint == before
        owner = next(m for m in model.original_model.modules() if isinstance(vars(m).get(name), int | float))
        setattr(owner, name, getattr(owner, name) * 2)
        assert identify(model).fingerprint != before, name
    model = tiny.bridge("gemma2")
    before = identify(model).fingerprint
    model.original_model.config.final_logit_softcapping = 7.0
    assert identify(model).fingerprint != before


def test_rotary_frequencies_that_follow_the_text_are_no_weights() -> None:
    """transformers' longrope has other frequencies after a long text: it is the same model."""
    rope = dict(
        rope_type="longrope", rope_theta=1e4, short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[2.0, 3.0, 4.0, 5.0]
    )
    rope["original_max_position_embeddings"] = 8
    model = tiny.bridge("phi3", rope_parameters=rope, original_max_position_embeddings=8)
    short, long = tiny.tokens("phi3", 6), tiny.tokens("phi3", 20)
    first, _, again = (ffb.contribution_maps(model, text) for text in (short, long, short))
    assert ffb.average([first, again]).mean.isfinite().any()


def test_metrics_read_a_batch_and_change_nothing() -> None:
    """Logits of one run alone are refused; a metric that writes into its logits does not change the kept run."""
    model, text = model_of("gpt2"), tiny.tokens("gpt2", N)
    for metric in (ffb.logit(7), ffb.probability(7), ffb.rank(7)):
        with pytest.raises(ffb.errors.InputError, match=r"\[batch pos d_vocab\].*logits\[None\]"):
            metric(model(text[None])[0])

    def centred(logits: Tensor) -> Tensor:
        logits -= logits.mean(-1, keepdim=True)
        return logits[:, -1, 7]

    run, where = ffb.Contributions(model, text), {"layers": 0, "queries": -1}
    before = ffb.contribution_sweep(run, ffb.logit(7), "AtbLnFf", **where).baselines
    ffb.contribution_sweep(run, centred, "AtbLnFf", **where)
    torch.testing.assert_close(
        ffb.contribution_sweep(run, ffb.logit(7), "AtbLnFf", **where).baselines, before, rtol=0, atol=0
    )


def test_an_average_of_maps_is_read_as_its_mean() -> None:
    """Measures of an average by position are those of the mean map; of one by name, which has holes, they are refused."""
    maps = [ffb.contribution_maps(model_of("gpt2"), tiny.tokens("gpt2", N, seed=seed)) for seed in (0, 3)]
    average, mean = ffb.average(maps), ffb.ContributionMaps.mean(maps)
    for measure in (ffb.amplification, ffb.contextualization_change):
        found, expected = (measure(each, "Atb", "AtbLnFf") for each in (average.token_maps(), mean))
        torch.testing.assert_close(found.double(), expected.double(), rtol=1e-5, atol=1e-6)
    with pytest.raises(ffb.errors.InputError, match="NaN.*average by position"):
        ffb.contextualization_change(ffb.average(maps, {"A": 1, "B": 3}).token_maps(), "Atb", "AtbLnFf")


EDITS: dict[str, Callable[[Tensor], Any]] = {
    "one number": lambda weight: weight.data[0, 0].add_(1e-3),
    "columns in another order": lambda weight: weight.data.copy_(weight.data.flip(1)),
    "in place": lambda weight: weight.data.mul_(1.01),
    "another storage": lambda weight: setattr(weight, "data", weight.data + 1),
    "sign": lambda weight: weight.data.neg_(),
}
"""Ways to make another model of a model."""


@pytest.mark.parametrize("edit", EDITS)
def test_every_change_of_weights_is_another_model(edit: str) -> None:
    """Through `.data` or not, of one number or of all: the fingerprint is another, and the old one when it is undone."""
    model = tiny.bridge("gpt2")
    before, weight = identify(model).fingerprint, parameter_of(model)
    kept = weight.detach().clone()
    assert identify(tiny.bridge("gpt2")).fingerprint == before
    EDITS[edit](weight)
    assert identify(model).fingerprint != before
    weight.data.copy_(kept)
    assert identify(model).fingerprint == before


@pytest.mark.parametrize("call", ["contribution_maps", "attribute"])
def test_what_was_checked_is_checked_again(call: str) -> None:
    """A layer that stops being what its weights say is refused at the next call, though it was right at the first."""
    model, tokens = tiny.bridge("llama"), tiny.tokens("llama", N)
    options = {"target": ffb.logit(7)} if call == "attribute" else {}
    getattr(ffb, call)(model, tokens, **options)
    if call == "contribution_maps":
        parameter_of(model).data.mul_(1.001)
    model.blocks[1].mlp.register_forward_hook(lambda module, args, output: 1.01 * output)
    with pytest.raises(ffb.errors.IdentityError, match="layer 1"):
        getattr(ffb, call)(model, tokens, **options)


def test_caches_from_before_the_weights_changed_are_refused(model: Any, texts: tuple[Tensor, Tensor]) -> None:
    """Three per cent more of every weight is another model."""
    cache = model.run_with_cache(texts[0][None])[1]
    with ffb.capture(model) as records:
        model(texts[0][None])
    for parameter in model.parameters():
        parameter.data.mul_(1.03)
    for given in (records, cache):
        with pytest.raises(ffb.FFBlockError, match=r"weights .*[Oo]mit cache"):
            ffb.contribution_maps(model, texts[0], cache=given)


def test_records_serve_a_twin_and_rows_in_order() -> None:
    """Two bridges of one checkpoint are one model; records hold rows by position, ascending."""
    text, first, second = tiny.tokens("gpt2", N), tiny.bridge("gpt2"), tiny.bridge("gpt2")
    with ffb.capture(first) as records:
        first(text[None])
    found = ffb.contribution_maps(second, text, cache=records)
    torch.testing.assert_close(found["Atb"], ffb.contribution_maps(first, text)["Atb"])
    for queries in ([[5, 2]], [[2, 2]], [[-1]]):
        with pytest.raises(ffb.errors.InputError, match="queries=.*ascending"):
            ffb.capture(first, queries=torch.tensor(queries)).__enter__()


def second_row_doubled(tensor: Tensor, hook: object) -> Tensor:
    """A hook that knows its batch, or acts on a batch of one."""
    changed = tensor.clone()
    changed[-1] *= 2
    return changed


@pytest.mark.parametrize("several", [False, True], ids=["one text", "a batch"])
def test_a_sweep_of_a_hooked_run_keeps_its_hooks(
    model: Any, family: str, texts: tuple[Tensor, Tensor], several: bool
) -> None:
    """The effect is that of the edit under the hooks, in the batch that they saw; a run's own contributions change nothing."""
    tokens = torch.stack(texts) if several else texts[0]
    batch, target = tokens.reshape(-1, N), ffb.logit([7, 7] if several else 7)
    hooks, scope = [("blocks.0.hook_out", second_row_doubled)], SCOPES[family]
    run = ffb.Contributions(model, tokens, fwd_hooks=hooks)
    edit = run.subtract(1, scope, query=-1, key=2)
    with torch.no_grad():
        clean, edited = (model.run_with_hooks(batch, fwd_hooks=under)[:, -1, 7] for under in (hooks, [*hooks, edit]))
    sweep = ffb.contribution_sweep(run, target, scope, **WHERE)
    assert float((edited - clean).abs().max()) > 1e-3
    torch.testing.assert_close(sweep.effect_by_prompt.flatten(), edited - clean, rtol=1e-4, atol=1e-5)
    assert several or not ffb.contribution_sweep(run, target, scope, donor=run, **WHERE).effect.any()


def doubles_second(model: Any) -> Callable[..., Tensor]:
    """A hook that acts on the second text wherever it stands."""
    second = model.run_with_cache(tiny.tokens("gpt2", N, seed=3)[None])[1]["blocks.1.hook_in"][:, :1]

    def of_second(tensor: Tensor, hook: object) -> Tensor:
        mine = (tensor[:, :1] - second).flatten(1).norm(dim=1) < 1e-4
        return torch.where(mine[:, None, None], 2 * tensor, tensor)

    return of_second


CHANGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a hook": (lambda m: m.add_hook("blocks.0.hook_out", second_row_doubled), "hooks were added"),
    "a hook on a later prompt": (lambda m: m.add_hook("blocks.1.hook_in", doubles_second(m)), "hooks were added"),
    "a callback of torch": (
        lambda m: m.blocks[1].mlp.register_forward_hook(lambda *a: 1.3 * a[-1]),
        "hooks were added",
    ),
    "a weight": (lambda m: parameter_of(m).data[0, 0].add_(1e-3), "weights of .* changed.*create them again"),
    "training mode": (lambda m: m.train(), "training mode"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_kept_runs_of_a_changed_model_are_refused(change: str) -> None:
    """What was added, removed or changed after the run: it is no longer the model of the run."""
    model, (make, said) = tiny.bridge("gpt2"), CHANGES[change]
    run = ffb.Contributions(model, torch.stack([tiny.tokens("gpt2", N), tiny.tokens("gpt2", N, seed=3)]))
    ffb.contribution_sweep(run, ffb.logit([7, 7]), "AtbLnFf", **WHERE)
    make(model)
    with pytest.raises(ffb.errors.InputError, match=said):
        ffb.contribution_sweep(run, ffb.logit([7, 7]), "AtbLnFf", **WHERE)
    if change == "a hook":
        under = ffb.Contributions(model, tiny.tokens("gpt2", N))
        ffb.contribution_sweep(under, ffb.logit(7), "AtbLnFf", **WHERE)
        model.reset_hooks()
        with pytest.raises(ffb.errors.InputError, match="or removed"):
            ffb.contribution_sweep(under, ffb.logit(7), "AtbLnFf", **WHERE)
        ffb.contribution_sweep(run, ffb.logit([7, 7]), "AtbLnFf", **WHERE)


def test_a_donor_is_of_the_same_model_kind_and_length() -> None:
    """Another `value_bias`, other weights or another length make contributions that are no replacement for these."""
    model, text = tiny.bridge("gpt2"), tiny.tokens("gpt2", N)
    run, others = ffb.Contributions(model, text), [ffb.Contributions(model, text, value_bias="token")]
    others.append(ffb.Contributions(model, text[:5]))
    parameter_of(model).data[0, 0] += 1e-3
    others.append(ffb.Contributions(model, text))
    for donor, said in zip(others, ("value_bias='token'.*value_bias='bias'", "donor", "donor.*weights"), strict=True):
        calls: list[Callable[..., Any]] = [lambda donor: run.patch_setter("AtbLnFf", donor)]
        if said != "donor":
            calls.append(lambda donor: run.replace(donor, 1, "AtbLnFf", query=-1, key=2))
            calls.append(lambda donor: ffb.contribution_sweep(run, ffb.logit(7), "AtbLnFf", donor=donor, **WHERE))
        for call in calls:
            with pytest.raises(ffb.errors.InputError, match=said):
                call(donor)


MAPPED = (ffb.average, ffb.ContributionMaps.mean)
SHARED = (ffb.average, ffb.Attribution.mean, ffb.average_shares)
UNLIKE: dict[str, tuple[Callable[[Any, Tensor], list[Any]], tuple[Callable[..., Any], ...], str]] = {
    "rules": (lambda m, x: [ffb.attribute(m, x, ffb.logit(7), rules=r) for r in ("path", "gradient")], SHARED, "rules"),
    "targets": (lambda m, x: [ffb.attribute(m, x, ffb.logit(7, minus=t)) for t in (None, 8)], SHARED, "quantity"),
    "places of the bias": (lambda m, x: [ffb.contribution_maps(m, x, value_bias=v) for v in ("bias", "token")], MAPPED, "value_bias"),
    "methods": (lambda m, x: [ffb.contribution_maps(m, x, method=v) for v in ("exact", "captum")], MAPPED, "method"),
    "precisions": (lambda m, x: [ffb.contribution_maps(m, x, precision=v) for v in (None, "float64")], MAPPED, "precision"),
    "maps and a difference": (lambda m, x: [maps := ffb.contribution_maps(m, x), maps - maps], MAPPED, "quantity"),
    "maps and attention": (lambda m, x: [ffb.contribution_maps(m, x), ffb.attention_maps(m, x)], MAPPED[:1], "quantity"),
    "a difference": (lambda m, x: [(a := ffb.attribute(m, x, ffb.logit(7))) - a, a], SHARED, "quantity"),
    "steps": (lambda m, x: [ffb.attribution_patching(m, x, x.flip(0), ffb.logit(7), steps=n) for n in (1, 3)], SHARED[-1:], "steps"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNLIKE)
def test_a_mean_is_of_one_quantity_and_one_kind(name: str) -> None:
    """Results that differ in one are refused by name in every mean."""
    make, means, said = UNLIKE[name]
    results = make(model_of("gpt2"), tiny.tokens("gpt2", 5))
    for mean in means:
        with pytest.raises(ffb.errors.InputError, match=rf"results 0 and 1.*{said}"):
            mean(results)


MEANS: dict[str, tuple[Callable[[Any, Tensor], Any], tuple[Callable[..., Any], ...]]] = {
    "maps": (lambda m, x: ffb.contribution_maps(m, x), MAPPED),
    "attention": (lambda m, x: ffb.attention_maps(m, x), MAPPED[:1]),
    "attribution": (lambda m, x: ffb.attribute(m, x, ffb.logit(7)), SHARED),
    "estimates": (lambda m, x: ffb.attribution_patching(m, x, x.flip(0), ffb.logit(7)), SHARED[-1:]),
}


@pytest.mark.parametrize("name", MEANS)
def test_a_mean_is_of_one_model(name: str, tmp_path: Path) -> None:
    """Two checkpoints of one name have no mean, each alone has one; their difference is one of two models. A file keeps the fingerprint."""
    (make, means), model, text = MEANS[name], tiny.bridge("gpt2"), tiny.tokens("gpt2", 5)
    first = make(model, text)
    parameter_of(model).data[0, 0] += 0.1
    second = make(model, text)
    for mean in means:
        mean([first, first])
        with pytest.raises(ffb.errors.InputError, match=r"results 0 and 1.*weights"):
            mean([first, second])
    assert name not in ("maps", "attribution") or (first - second).model
    if hasattr(first, "save"):
        assert len(first.identity["fingerprint"]) == 16
        assert type(first).load(first.save(tmp_path / "result")).identity == first.identity
    if name == "attribution":  # of an older file
        assert ffb.Attribution.mean([first, replace(first, fingerprint="")]).value == pytest.approx(first.value)


def test_triggers_know_their_model() -> None:
    """Triggers, values and cards of other weights are refused by everything that runs the model on them."""
    memories, model = ffb.memories, tiny.bridge("gpt2")
    corpus = [tiny.tokens("gpt2", n) for n in (6, 7, 8)]
    triggers, card = (
        memories.find_triggers(model, corpus, memories="1:3", k=2),
        memories.memory_card(model, corpus, "1:3"),
    )
    values = memories.value_tokens(model, memories="1:3")
    memories.remove_tokens(model, triggers)
    memories.neuron_ablation_effects(model, triggers, values)
    parameter_of(model).data[0, 0] += 0.1
    newer = memories.value_tokens(model, memories="1:3")
    calls: list[Callable[[], object]] = [
        lambda: memories.remove_tokens(model, triggers),
        lambda: memories.neuron_ablation_effects(model, triggers, values),
        lambda: card.on_text(model, corpus[0]),
        lambda: memories.agreement(triggers, newer),
    ]
    for call in calls:
        with pytest.raises(ffb.errors.InputError, match="fingerprint"):
            call()
