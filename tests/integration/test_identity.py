"""Which model, tokens and hooks a result is of: results, caches, records and kept runs of others are refused."""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tl_ffblock.bridge.model import identify

N = 8
SCOPES = {"gpt2": "AtbLnFf", "llama": "AtbLnFf", "bert": "AtbFf", "gemma2": "AtbLnFf"}


@pytest.fixture(params=SCOPES)
def family(request: pytest.FixtureRequest) -> str:
    """A family per order of norms, gated and not."""
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


# --- the fingerprint ---------------------------------------------------------------------------------------------


def edits() -> Iterator[tuple[str, Callable[[Any], None]]]:
    """Ways to make another model of a model."""

    def one_number(model: Any) -> None:
        parameter_of(model).data[0, 0] += 1e-3

    def swapped(model: Any) -> None:
        data = parameter_of(model).data
        data[:, [0, 1]] = data[:, [1, 0]]

    def in_place(model: Any) -> None:
        with torch.no_grad():
            parameter_of(model).mul_(1.01)

    def other_storage(model: Any) -> None:
        parameter_of(model).data = parameter_of(model).data + 1

    def sign(model: Any) -> None:
        parameter_of(model).data.neg_()

    for edit in (one_number, swapped, in_place, other_storage, sign):
        yield edit.__name__, edit


@pytest.mark.parametrize("edit", [edit for _, edit in edits()], ids=[name for name, _ in edits()])
def test_every_change_of_weights_is_another_model(edit: Callable[[Any], None]) -> None:
    """Through `.data` or not, of one number or of all: the fingerprint is another, and the old one when it is undone."""
    model = tiny.bridge("gpt2")
    before = identify(model).fingerprint
    kept = parameter_of(model).detach().clone()
    assert identify(tiny.bridge("gpt2")).fingerprint == before
    edit(model)
    assert identify(model).fingerprint != before
    parameter_of(model).data.copy_(kept)
    assert identify(model).fingerprint == before


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


def test_what_was_checked_is_checked_again_of_other_weights() -> None:
    """A layer that stops being what its weights say is refused at the next call, though it was right at the first."""
    model, tokens = tiny.bridge("llama"), tiny.tokens("llama", N)
    ffb.contribution_maps(model, tokens)
    parameter_of(model).data.mul_(1.001)
    model.blocks[1].mlp.register_forward_hook(lambda module, args, output: 1.01 * output)
    with pytest.raises(ffb.errors.IdentityError, match="layer 1"):
        ffb.contribution_maps(model, tokens)


# --- caches and records ------------------------------------------------------------------------------------------


def test_a_cache_says_which_tokens_it_is_of(model: Any, texts: tuple[Tensor, Tensor]) -> None:
    """Records of `capture`, an ActivationCache, a plain dictionary with and without token ids: another text's are refused."""
    first, second = texts
    expected = ffb.contribution_maps(model, first)
    with ffb.capture(model) as own:
        model(first[None])
    with ffb.capture(model) as other:
        model(second[None])
    caches = [model.run_with_cache(text[None])[1] for text in texts]
    of_both = [[own, other], caches, [dict(cache.cache_dict) for cache in caches]]
    of_both.append([{k: v for k, v in cache.cache_dict.items() if k != "embed.hook_in"} for cache in caches])
    of_both.append(
        [{k: v for k, v in cache.cache_dict.items() if not k.startswith(("embed", "hook_embed"))} for cache in caches]
    )
    for mine, theirs in of_both:
        found = ffb.contribution_maps(model, first, cache=mine)
        torch.testing.assert_close(found["Atb"], expected["Atb"], rtol=0, atol=0)
        for call in (ffb.contribution_maps, ffb.attention_maps):
            with pytest.raises(ffb.errors.InputError, match=r"cache is of a run of other tokens.*leave cache out"):
                call(model, first, cache=theirs)


def test_a_cache_without_the_embedding_is_refused(model: Any, texts: tuple[Tensor, Tensor]) -> None:
    """A dictionary of later layers alone could be of any text."""
    cache = model.run_with_cache(texts[0][None])[1]
    later = {k: v for k, v in cache.cache_dict.items() if not k.startswith(("embed", "hook_embed", "blocks.0"))}
    with pytest.raises(ffb.errors.InputError, match=r"does not show which tokens.*names_filter=None"):
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


def test_caches_of_changed_weights_are_refused(model: Any, texts: tuple[Tensor, Tensor]) -> None:
    """Three per cent more of every weight: neither records nor an ActivationCache of before are taken."""
    with ffb.capture(model) as records:
        model(texts[0][None])
    _, cache = model.run_with_cache(texts[0][None])
    for parameter in model.parameters():
        parameter.data.mul_(1.03)
    with pytest.raises(ffb.errors.InputError, match=r"before the weights of .* changed.*leave cache out"):
        ffb.contribution_maps(model, texts[0], cache=records)
    with pytest.raises(ffb.errors.CaptureError, match=r"follows from the weights.*[Ll]eave cache out"):
        ffb.contribution_maps(model, texts[0], cache=cache)


# --- kept runs ---------------------------------------------------------------------------------------------------


def scaled(tensor: Tensor, hook: object) -> Tensor:
    """A hook that acts on the whole batch."""
    return 1.5 * tensor


def second_row_doubled(tensor: Tensor, hook: object) -> Tensor:
    """A hook that knows its batch."""
    changed = tensor.clone()
    changed[1] *= 2
    return changed


def test_a_sweep_of_a_hooked_run_keeps_its_hooks(model: Any, family: str, texts: tuple[Tensor, Tensor]) -> None:
    """The effect is that of the edit under the hooks, and exchanging a run's contributions for its own does nothing."""
    first, scope, hooks = texts[0], SCOPES[family], [("blocks.0.hook_out", scaled)]
    run, target, where = (
        ffb.Contributions(model, first, fwd_hooks=hooks),
        ffb.logit(7),
        {"layers": 1, "queries": -1, "keys": 2},
    )
    edit = run.subtract(1, scope, query=-1, key=2)
    with torch.no_grad():
        clean, edited = (
            model.run_with_hooks(first[None], fwd_hooks=under)[0, -1, 7] for under in (hooks, [*hooks, edit])
        )
    sweep = ffb.contribution_sweep(run, target, scope, **where)
    assert abs(edited - clean) > 1e-3
    torch.testing.assert_close(sweep.effect.flatten(), (edited - clean)[None], rtol=1e-4, atol=1e-5)
    assert not ffb.contribution_sweep(run, target, scope, donor=run, **where).effect.any()


def test_hooks_of_a_sweep_see_the_batch_that_they_saw_before(
    model: Any, family: str, texts: tuple[Tensor, Tensor]
) -> None:
    """A hook on the second row of a batch acts on the second prompt's edited runs alone."""
    both, scope, hooks = torch.stack(texts), SCOPES[family], [("blocks.0.hook_out", second_row_doubled)]
    run = ffb.Contributions(model, both, fwd_hooks=hooks)
    sweep = ffb.contribution_sweep(run, ffb.logit([7, 7]), scope, layers=1, queries=-1, keys=2)
    edit = run.subtract(1, scope, query=-1, key=2)
    with torch.no_grad():
        clean, edited = (model.run_with_hooks(both, fwd_hooks=under)[:, -1, 7] for under in (hooks, [*hooks, edit]))
    torch.testing.assert_close(sweep.effect_by_prompt.flatten(), edited - clean, rtol=1e-4, atol=1e-5)


def test_kept_runs_of_a_changed_model_are_refused(model: Any, texts: tuple[Tensor, Tensor], family: str) -> None:
    """A hook that was added after the run, or a weight that changed, is no longer the model of the run."""
    run, scope = ffb.Contributions(model, texts[0]), SCOPES[family]
    model.add_hook("blocks.0.hook_out", scaled)
    with pytest.raises(ffb.errors.InputError, match=r"hooks were added.*make them again"):
        ffb.contribution_sweep(run, ffb.logit(7), scope, layers=1, queries=-1, keys=2)
    under = ffb.Contributions(model, texts[0])
    ffb.contribution_sweep(under, ffb.logit(7), scope, layers=1, queries=-1, keys=2)
    model.reset_hooks()
    with pytest.raises(ffb.errors.InputError, match=r"hooks were added .* or removed"):
        ffb.contribution_sweep(under, ffb.logit(7), scope, layers=1, queries=-1, keys=2)
    ffb.contribution_sweep(run, ffb.logit(7), scope, layers=1, queries=-1, keys=2)
    parameter_of(model).data[0, 0] += 1e-3
    with pytest.raises(
        ffb.errors.InputError, match=r"weights of .* changed after these Contributions.*make them again"
    ):
        ffb.contribution_sweep(run, ffb.logit(7), scope, layers=1, queries=-1, keys=2)


def test_a_donor_is_of_the_same_model_and_kind(model: Any, texts: tuple[Tensor, Tensor], family: str) -> None:
    """Another `value_bias` or other weights make other contributions, which cannot stand in for these."""
    run, scope = ffb.Contributions(model, texts[0]), SCOPES[family]
    other_kind = ffb.Contributions(model, texts[1], value_bias="token")
    parameter_of(model).data[0, 0] += 1e-3
    other_model = ffb.Contributions(model, texts[1])
    for donor, says in (
        (other_kind, "value_bias='token'.*value_bias='bias'"),
        (other_model, "donor: made with other weights"),
    ):
        with pytest.raises(ffb.errors.InputError, match=says):
            run.replace(donor, 1, scope, query=-1, key=2)
        with pytest.raises(ffb.errors.InputError, match=says):
            ffb.contribution_sweep(run, ffb.logit(7), scope, donor=donor, layers=1, queries=-1, keys=2)


# --- results -----------------------------------------------------------------------------------------------------


def pairs_of_results(ffb: ModuleType, model: Any, text: Tensor) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Results of a model, and the same of it as another model of the same name."""

    def made() -> list[list[Any]]:
        return [
            [ffb.contribution_maps(model, text)],
            [ffb.attention_maps(model, text)],
            [ffb.attribute(model, text, ffb.logit(7))],
            [ffb.attribution_patching(model, text, text.flip(0), ffb.logit(7))],
        ]

    before = made()
    parameter_of(model).data[0, 0] += 0.1
    names = ("maps", "attention", "attribution", "estimates")
    yield from zip(names, before, made(), strict=True)


def test_a_mean_is_of_one_model() -> None:
    """Two checkpoints of one name differ in their weights: no mean takes both, and each alone has one."""
    model, text = tiny.bridge("gpt2"), tiny.tokens("gpt2", N)
    for name, first, second in pairs_of_results(ffb, model, text):
        means: list[Callable[[Any], Any]] = []
        if name != "estimates":
            means.append(ffb.average)
        if name == "maps":
            means.append(ffb.ContributionMaps.mean)
        if name in ("attribution", "estimates"):
            means.append(ffb.average_shares)
        if name == "attribution":
            means.append(ffb.Attribution.mean)
        for mean in means:
            mean(first + first)
            with pytest.raises(ffb.errors.InputError, match=r"results 0 and 1.*weights.*one model"):
                mean(first + second)
        if name in ("maps", "attribution"):
            assert (first[0] - second[0]).model  # a fine-tuned model and its base are two models whose results subtract


def test_a_mean_is_of_one_quantity_and_one_kind_of_rules() -> None:
    """Rules, targets, value biases, methods: results that differ in one are refused by name in every mean."""
    model, text = model_of("gpt2"), tiny.tokens("gpt2", N)

    def attributed(target: Any, rules: str = "path") -> Any:
        return ffb.attribute(model, text, target, rules=rules)

    def mapped(**options: Any) -> Any:
        return ffb.contribution_maps(model, text, **options)

    single, difference = ffb.logit(7), ffb.logit(7, minus=8)
    cases = [
        (
            "rules",
            [attributed(single), attributed(single, "gradient")],
            (ffb.average, ffb.Attribution.mean, ffb.average_shares),
        ),
        (
            "quantity",
            [attributed(single), attributed(difference)],
            (ffb.average, ffb.Attribution.mean, ffb.average_shares),
        ),
        ("value_bias", [mapped(), mapped(value_bias="token")], (ffb.average, ffb.ContributionMaps.mean)),
        ("method", [mapped(), mapped(method="captum", n_steps=20)], (ffb.average, ffb.ContributionMaps.mean)),
        ("precision", [mapped(), mapped(precision="float64")], (ffb.average, ffb.ContributionMaps.mean)),
        ("quantity", [mapped(), mapped() - mapped()], (ffb.average, ffb.ContributionMaps.mean)),
        ("quantity", [mapped(), ffb.attention_maps(model, text)], (ffb.average,)),
    ]
    for name, results, means in cases:
        for mean in means:
            with pytest.raises(ffb.errors.InputError, match=rf"results 0 and 1, which differ in {name}.*subtract"):
                mean(results)


def test_the_fingerprint_is_saved(tmp_path: Any) -> None:
    """A saved result still knows its model; one of an older file that does not is compared by name."""
    import dataclasses

    model, text = model_of("gpt2"), tiny.tokens("gpt2", N)
    results = [
        ffb.contribution_maps(model, text),
        ffb.attribute(model, text, ffb.logit(7)),
        ffb.attribution_patching(model, text, text.flip(0), ffb.logit(7)),
    ]
    for result in results:
        loaded = type(result).load(result.save(tmp_path / type(result).__name__))
        assert len(result.identity["fingerprint"]) == 16
        assert loaded.identity == result.identity
    older = dataclasses.replace(results[1], fingerprint="")
    assert ffb.Attribution.mean([results[1], older]).value == pytest.approx(results[1].value)


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


def test_triggers_know_their_model() -> None:
    """Triggers, values and cards of other weights are refused by everything that runs the model on them."""
    memories, model = ffb.memories, tiny.bridge("gpt2")
    corpus = [tiny.tokens("gpt2", n) for n in (6, 7, 8)]
    triggers, values = (
        memories.find_triggers(model, corpus, memories="1:3", k=2),
        memories.value_tokens(model, memories="1:3"),
    )
    card = memories.memory_card(model, corpus, "1:3")
    memories.ablate(model, triggers)
    memories.knock_out_effects(model, triggers, values)
    parameter_of(model).data[0, 0] += 0.1
    newer = memories.value_tokens(model, memories="1:3")
    calls: list[Callable[[], object]] = [
        lambda: memories.ablate(model, triggers),
        lambda: memories.knock_out_effects(model, triggers, values),
        lambda: card.on_text(model, corpus[0]),
        lambda: memories.agreement(triggers, newer),
    ]
    for call in calls:
        with pytest.raises(ffb.errors.InputError, match="fingerprint"):
            call()


# --- what an attack found ----------------------------------------------------------------------------------------


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


def test_kept_runs_notice_more_than_weights_and_hook_points() -> None:
    """Training mode, a hook that acts on a later prompt alone, a callback of torch on a module."""
    texts = torch.stack([tiny.tokens("gpt2", N, seed=seed) for seed in (0, 3)])
    target, where = ffb.logit([7, 7]), {"layers": 1, "queries": -1, "keys": 2}

    def made() -> tuple[Any, Any]:
        model = tiny.bridge("gpt2")
        return model, ffb.Contributions(model, texts)

    def of_second(tensor: Tensor, hook: object) -> Tensor:
        mine = (tensor[:, :1] - second).flatten(1).norm(dim=1) < 1e-4
        return torch.where(mine[:, None, None], 2 * tensor, tensor)

    model, run = made()
    model.train()
    with pytest.raises(ffb.errors.InputError, match="training mode"):
        ffb.contribution_sweep(run, target, "AtbLnFf", **where)
    model, run = made()
    second = model.run_with_cache(texts)[1]["blocks.1.hook_in"][1:, :1]
    model.add_hook("blocks.1.hook_in", of_second)
    with pytest.raises(ffb.errors.InputError, match="hooks were added"):
        ffb.contribution_sweep(run, target, "AtbLnFf", **where)
    model, run = made()
    model.blocks[1].mlp.register_forward_hook(lambda module, args, output: 1.3 * output)
    with pytest.raises(ffb.errors.InputError, match="hooks were added"):
        ffb.contribution_sweep(run, target, "AtbLnFf", **where)


def test_layers_are_checked_again_under_callbacks_of_modules() -> None:
    """A callback of torch that changes what a layer computes is found, whether a call was made before or not."""
    model, text = tiny.bridge("gpt2"), tiny.tokens("gpt2", N)
    ffb.attribute(model, text, ffb.logit(7))
    model.blocks[1].mlp.register_forward_hook(lambda module, args, output: 1.3 * output)
    with pytest.raises(ffb.errors.IdentityError, match="layer 1"):
        ffb.attribute(model, text, ffb.logit(7))


def test_donors_of_a_patch_setter_are_those_of_replace() -> None:
    """Another model, another `value_bias`, another length."""
    model, text = tiny.bridge("gpt2"), tiny.tokens("gpt2", N)
    run = ffb.Contributions(model, text)
    donors = [ffb.Contributions(model, text, value_bias="token"), ffb.Contributions(model, text[:5])]
    parameter_of(model).data[0, 0] += 1e-3
    for donor in (*donors, ffb.Contributions(model, text)):
        with pytest.raises(ffb.errors.InputError, match="donor"):
            run.patch_setter("AtbLnFf", donor)


def test_a_difference_is_another_quantity() -> None:
    """A difference of attributions has no mean with attributions, nor estimates of one step with those of five."""
    model, texts = model_of("gpt2"), [tiny.tokens("gpt2", N, seed=seed) for seed in (0, 3)]
    one, two = (ffb.attribute(model, text, ffb.logit(7)) for text in texts)
    for mean in (ffb.Attribution.mean, ffb.average, ffb.average_shares):
        with pytest.raises(ffb.errors.InputError, match="differ in quantity"):
            mean([one - two, one])
    estimates = [ffb.attribution_patching(model, *texts, ffb.logit(7), steps=steps) for steps in (1, 3)]
    with pytest.raises(ffb.errors.InputError, match="differ in steps"):
        ffb.average_shares(estimates)


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


def test_captured_queries_ascend() -> None:
    """Records hold rows by position: others would stand under the wrong labels."""
    for queries in ([[5, 2]], [[2, 2]], [[-1]]):
        with (
            pytest.raises(ffb.errors.InputError, match="queries=.*ascending"),
            ffb.capture(model_of("bert"), queries=torch.tensor(queries)),
        ):
            pass


def test_an_average_of_maps_is_read_as_its_mean() -> None:
    """Measures of an average by position are those of the mean map; of one by name, which has holes, they are refused."""
    maps = [ffb.contribution_maps(model_of("gpt2"), tiny.tokens("gpt2", N, seed=seed)) for seed in (0, 3)]
    average, mean = ffb.average(maps), ffb.ContributionMaps.mean(maps)
    for measure in (ffb.amplification, ffb.contextualization_change):
        found, expected = (measure(each, "Atb", "AtbLnFf") for each in (average.token_maps(), mean))
        torch.testing.assert_close(found.double(), expected.double(), rtol=1e-5, atol=1e-6)
    with pytest.raises(ffb.errors.InputError, match="NaN.*average by position"):
        ffb.contextualization_change(ffb.average(maps, {"A": 1, "B": 3}).token_maps(), "Atb", "AtbLnFf")


def test_records_serve_a_twin() -> None:
    """Two bridges of one checkpoint are one model."""
    text = tiny.tokens("gpt2", N)
    first, second = tiny.bridge("gpt2"), tiny.bridge("gpt2")
    with ffb.capture(first) as records:
        first(text[None])
    torch.testing.assert_close(
        ffb.contribution_maps(second, text, cache=records)["Atb"], ffb.contribution_maps(first, text)["Atb"]
    )
