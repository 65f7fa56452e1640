"""Activation patching: every number is that of a plain hooked run, and a patch that is not what it says is refused."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import cases, tiny
from tests.cases import Case, model_of
from tests.tolerances import ALGEBRA, FLOAT32_ROUTER
from tl_ffblock import progress
from tl_ffblock.bridge import edited
from tl_ffblock.errors import (
    CallError,
    EqualPairWarning,
    IdentityError,
    InputError,
    ScopeKeyError,
    UnsupportedModelError,
)
from tl_ffblock.results.intervals import mean_interval

N = 6
TARGET = ffb.logit(7, minus=9)
CLOSE = dict(rtol=1e-9, atol=1e-9)
"""float64 runs side by side and alone, float32 rotary tables included."""
POINTS = {
    "residual": "hook_resid_pre",
    "attention": "hook_attn_out",
    "mlps": "hook_mlp_out",
    "heads": "attn.hook_z",
    "q": "attn.hook_q",
    "k": "attn.hook_k",
    "v": "attn.hook_v",
    "pattern": "attn.hook_pattern",
}


def double(family: str) -> Any:
    """The float64 bridge of a family."""
    return model_of(family, torch.float64)


def prompts(family: str = "gpt2", n: int = N) -> tuple[Tensor, Tensor]:
    """Two prompts."""
    return tiny.tokens(family, n), tiny.tokens(family, n, seed=1)


def swept(model: Any, *given: Any, **options: Any) -> Any:
    """A sweep of the two prompts at one target."""
    return ffb.activation_patching(model, *(given or prompts()), TARGET, **options)


def by_hand(model: Any, into: Tensor, cache: Any, name: str, cut: Callable[[Tensor], Any]) -> float:
    """The target of a whole run with one slice of a tensor replaced."""

    def put(x: Tensor, hook: Any) -> Tensor:
        changed = x.clone()
        changed[cut(x)] = cache[name].reshape(x.shape)[cut(x)]
        return changed

    with torch.no_grad():
        return float(TARGET(model.run_with_hooks(into[None], fwd_hooks=[(name, put)])))


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma2", "gpt_neox", "bert"])
def test_every_number_is_that_of_a_whole_run_with_a_plain_hook(family: str) -> None:
    """All kinds at one layer: clean activations into the corrupted run, one position, one head at a time; grouped keys, too."""
    model, (clean, corrupted) = double(family), prompts(family)
    kinds = [kind for kind in POINTS if (family, kind) != ("bert", "pattern")]  # shown after attention used it
    sweep = swept(model, clean, corrupted, of=kinds, layers=1, by_position=True)
    with torch.no_grad():
        _, cache = model.run_with_cache(clean)
    for kind in kinds:
        name = f"blocks.1.{'attn.o.hook_out' if (family, kind) == ('bert', 'attention') else POINTS[kind]}"
        found, heads = sweep.patched[kind][0], kind not in ("residual", "attention", "mlps")
        for head in range(len(found) if heads else 1):
            for position in range(N):
                place = (0, head, position) if kind == "pattern" else (0, position, head) if heads else (0, position)
                expected = by_hand(model, corrupted, cache, name, lambda x, place=place: place)
                mine = found[head, position] if heads else found[position]
                assert float(mine) == pytest.approx(expected, rel=1e-9, abs=1e-9), (kind, place)
        assert float((sweep.values[kind]).abs().max()) > 1e-2
    if family == "llama":
        assert sweep.patched["k"].shape == sweep.patched["v"].shape == (1, tiny.N_KV, N)


def test_the_numbers_are_those_of_transformer_lens() -> None:
    """Its functions of the same names, to 1e-5 of the largest effect."""
    from transformer_lens import patching

    model, (clean, corrupted) = model_of("gpt2"), prompts()
    by_position = swept(model, of=tuple(POINTS), by_position=True)
    whole = swept(model, of=("heads", "pattern", "q", "k", "v"), by_position=False)
    with torch.no_grad():
        _, cache = model.run_with_cache(clean)
        for kind, sweep, function in (
            ("residual", by_position, patching.get_act_patch_resid_pre),
            ("attention", by_position, patching.get_act_patch_attn_out),
            ("mlps", by_position, patching.get_act_patch_mlp_out),
            ("heads", whole, patching.get_act_patch_attn_head_out_all_pos),
            ("pattern", whole, patching.get_act_patch_attn_head_pattern_all_pos),
            ("v", whole, patching.get_act_patch_attn_head_v_all_pos),
        ):
            expected = function(model, corrupted[None], cache, TARGET.mean)
            found = sweep.patched[kind][: len(expected)].to(expected)
            assert float((found - expected).abs().max()) < 1e-5 * float(sweep.values[kind].abs().max()), kind


@pytest.mark.parametrize("case", cases.EVERY, ids=str)
def test_laws_hold_for_every_family(case: Case) -> None:
    """All positions of the stream give the other run; before the feed-forward it is as after it; noising is denoising the other way."""
    if case.name == "xglm":
        pytest.skip("Hugging Face's XGLM does not run in float64")
    model, (first, second) = case.model(torch.float64), (case.tokens(N, seed) for seed in (0, 1))
    order = cases.identify(model).family.order
    with_mid = order not in ("parallel", "attn_only")
    of = [
        "residual",
        "attention",
        *["mlps"] * (order != "attn_only"),
        "heads",
        "q",
        "k",
        "v",
        *["residual_mid"] * with_mid,
    ]
    if case.name == "gemma4":
        with pytest.raises(UnsupportedModelError, match="of='[kv]': .* makes values of keys in some layers"):
            swept(model, first, second, of=of)
        of = [kind for kind in of if kind not in ("k", "v")]
    there = swept(model, first, second, of=of)
    back = swept(model, second, first, of=of, direction="noising")
    error, algebra, close = 1e-10, ALGEBRA, CLOSE
    if case.name in cases.FLOAT32_ROUTERS:
        error, algebra, close = FLOAT32_ROUTER["rtol"], FLOAT32_ROUTER, FLOAT32_ROUTER
    assert there.error < error and there.complete
    for kind in of:
        torch.testing.assert_close(there.patched[kind], back.patched[kind], **algebra)
    if with_mid:  # the feed-forward reads its own position alone
        torch.testing.assert_close(there.patched["residual_mid"], there.patched["residual"][1:], **close)
    whole = swept(model, first, second, of=("residual", "mlps") if "mlps" in of else "residual", by_position=False)
    torch.testing.assert_close(whole.normalised["residual"], torch.ones(model.cfg.n_layers + 1).double(), **close)
    with pytest.warns(EqualPairWarning, match="the same"):
        same = swept(model, first, first, of=of)
    assert all(float(values.abs().max()) < close["atol"] for values in same.values.values())


def test_layers_before_the_patch_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first layer runs once per prompt; where late runs do not give the run's logits, whole prompts give the same numbers."""
    model, calls = double("gpt2"), []
    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_z", lambda z, hook: calls.append(len(z)))]):
        late = swept(model, of="mlps", layers=[1, 2])
    assert calls == [1, 1]
    spoilt = edited._repeated
    monkeypatch.setattr(edited, "_repeated", lambda output, n, *a, **k: 1.1 * spoilt(output, n))
    with model.hooks(fwd_hooks=[("blocks.0.attn.hook_z", lambda z, hook: calls.append(len(z)))]):
        whole = swept(model, of="mlps", layers=[1, 2])
    assert len(calls) > 4
    torch.testing.assert_close(whole.patched["mlp"], late.patched["mlp"], **CLOSE)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (lambda run, kind, layer, values, where: (kind, layer, 1.01 * values, where), "patched by its own"),
        (
            lambda run, kind, layer, values, where: (kind, layer, values, where & (torch.arange(N) > 1)),
            "the other run's",
        ),
        (lambda run, kind, layer, values, where: (kind, 0, values, where), "patched by its own"),
    ],
    ids=["other values", "fewer positions", "another layer"],
)
def test_a_patch_that_is_not_what_it_says_is_refused(
    broken: Callable[..., Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The identities that every layer is checked by."""
    right = edited.LateRuns.patched
    monkeypatch.setattr(edited.LateRuns, "patched", lambda run, *given: right(run, *broken(run, *given)))
    with pytest.raises(IdentityError, match=says):
        swept(double("gpt2"), of="residual", layers=1)


def test_what_is_put_in_is_another_prompts_or_nothing() -> None:
    """Zero and mean ablation of heads as `heads.ablation_effects` has them; the mean over prompts; the next prompt's."""
    model, (first, second) = double("gpt2"), prompts()
    for replacement in ("zero", "mean"):
        found = swept(model, first, None, of="heads", replacement=replacement).values["head"]
        expected = ffb.heads.ablation_effects(model, first, TARGET, replacement=replacement)
        torch.testing.assert_close(found.float(), expected, rtol=1e-5, atol=1e-5)
    both, kinds = torch.stack([first, second]), ("heads", "residual_mid", "mlps")
    resampled = swept(model, both, None, of=kinds, replacement="resample")
    expected = swept(model, both, both.flip(0), of=kinds, direction="noising")
    over_two = swept(model, both, None, of=kinds, replacement="mean_over_prompts")
    over_one = [swept(model, each[None], None, of=kinds, replacement="mean") for each in both]
    twice = swept(model, torch.stack([first, first]), None, of=kinds, replacement="mean_over_prompts")
    for kind in kinds:
        assert torch.equal(resampled[1].patched[kind], expected[1].patched[kind])
        torch.testing.assert_close(twice[0].patched[kind], over_one[0].patched[kind], **CLOSE)
        assert not torch.allclose(over_two[0].patched[kind], over_one[0].patched[kind])
    stream = swept(model, first, None, of="residual", replacement="zero")
    zeros = {"blocks.1.hook_resid_pre": torch.zeros(1, N, tiny.D_MODEL)}
    expected = by_hand(model, first, zeros, *zeros, lambda x: (0, 3))
    assert float(stream.patched["residual"][1, 3]) == pytest.approx(expected, rel=1e-9)
    assert "zero" in repr(stream) and "normalised" not in stream.to_dataframe()


def test_pairs_have_answers_positions_and_intervals_of_their_own() -> None:
    """Prompts of two lengths at named positions, several targets; the mean is that of the pairs, its interval the bootstrap's."""
    model = double("gpt2")
    clean, corrupted = ([tiny.tokens("gpt2", n, seed) for n in (5, 7, 6)] for seed in (0, 1))
    others: list[Any] = [ffb.kl_divergence(), ffb.loss()]
    places = {"subject": [1, 3, 2], "END": -1}
    options: dict[str, Any] = {"of": ("residual", "heads")}
    results = ffb.activation_patching(
        model, clean, corrupted, [ffb.logit([7, 8, 9], minus=11), *others], positions=places, **options
    )
    sweeps = [
        ffb.activation_patching(model, *pair, [ffb.logit(7 + n, minus=11), *others], positions=[at, -1], **options)
        for n, (pair, at) in enumerate(zip(zip(clean, corrupted, strict=True), places["subject"], strict=True))  # type: ignore[arg-type]
    ]
    mean, first = results.mean(), results[0]
    for alone, result in zip(sweeps, results, strict=True):
        for kind in ("residual", "heads"):
            torch.testing.assert_close(alone.patched[kind], result.patched[kind], **CLOSE)
    assert first.positions == ("subject", "END") and mean.n_pairs == 3 and len(mean.targets) == 3
    values = torch.stack([result.values["residual"] for result in results])
    torch.testing.assert_close(mean.values["residual"], values.mean(dim=0), **ALGEBRA)
    over = mean_interval(values)
    assert torch.equal(mean.low["residual"], over.low) and torch.equal(mean.high["residual"], over.high)
    table = mean.to_dataframe()
    assert set(table["position"]) == {"subject", "END", -1} and list(table.columns[-3:]) == ["low", "high", "n"]
    row = table[(table["kind"] == "residual") & (table["layer"] == 2) & (table["position"] == "END")].iloc[0]
    assert row["value"] == pytest.approx(float(mean.values["residual"][0, 2, 1]))
    assert row["normalised"] == pytest.approx(float(mean.normalised["residual"][0, 2, 1]))


def test_a_mean_with_nan_of_one_pair_is_nan_there() -> None:
    """A mean of patched targets over some pairs, less that of unpatched ones over all, is a number of no pairs."""
    first, second = prompts()
    pairs = torch.stack([first, second]), torch.stack([second, first])
    results = ffb.activation_patching(model_of("gpt2"), *pairs, TARGET, of="mlps")
    broken = {"mlp": results[1].measured["mlp"].clone()}
    broken["mlp"][0, 1, 2] = torch.nan
    mean = type(results)([results[0], results[0], replace(results[1], measured=broken)]).mean()
    expected = torch.stack(
        [results[0].values["mlp"], results[0].values["mlp"], replace(results[1], measured=broken).values["mlp"]]
    )
    torch.testing.assert_close(mean.values["mlp"], expected.mean(dim=0), equal_nan=True, **ALGEBRA)
    for end in (mean.low, mean.high):
        assert torch.equal(end["mlp"][0].isnan(), expected.isnan().any(dim=0))


def test_estimates_are_compared_with_what_is_measured() -> None:
    """Where the way to the logits is linear the estimate is the truth; sums over positions beside whole heads; other runs are refused."""
    model, (clean, corrupted) = Case("attn_only_no_norms").model(torch.float64), prompts()
    estimates = ffb.attribution_patching(model, clean, corrupted, TARGET, rules="gradient")
    sweep = swept(model, clean, corrupted, direction="noising", of=("residual", "heads"))
    compared = sweep.compare(estimates)
    table = compared.to_dataframe()
    linear = table[table["layer"] >= model.cfg.n_layers - (table["kind"] == "head")]
    torch.testing.assert_close(*(torch.tensor(linear[name].to_numpy()) for name in ("estimate", "value")), **CLOSE)
    assert len(linear) == N + model.cfg.n_heads
    nonlinear = table.drop(linear.index)
    assert float((nonlinear["estimate"] - nonlinear["value"]).abs().max()) > 1e-3
    residual = torch.stack([estimates.residual.flatten(), sweep.values["residual"].flatten()])
    assert compared.correlation.loc["residual", "pearson"] == pytest.approx(float(torch.corrcoef(residual)[0, 1]))
    ranks = residual.argsort(dim=1).argsort(dim=1).double()
    assert compared.correlation.loc["residual", "spearman"] == pytest.approx(
        float(torch.corrcoef(ranks)[0, 1]), abs=0.02
    )
    for other, said in (
        (swept(model, clean, corrupted, of="residual"), "direction='noising'"),
        (swept(model, corrupted, clean, of="residual", direction="noising"), "prompts differ"),
        (swept(model, clean, corrupted, of="q", direction="noising"), "a kind that both have"),
    ):
        with pytest.raises(InputError, match=said):
            other.compare(estimates)


def test_an_interrupted_sweep_keeps_what_it_has() -> None:
    """NaN where no patch was run."""
    calls: list[int] = []

    def read(logits: Tensor) -> Tensor:
        calls.append(len(logits))
        if len(calls) > 2 + 2 * N:
            raise KeyboardInterrupt
        return logits[:, -1, 7]

    both = torch.stack(prompts())
    result, other = ffb.activation_patching(model_of("gpt2"), both, both.flip(0), read, of=("residual", "mlps"))
    assert not other.complete and bool(other.clean.isnan())
    known = result.patched["residual"].isfinite()
    assert bool(known[0].all()) and not bool(known[-1].any()) and bool(result.patched["mlp"].isnan().all())
    assert not result.complete and "interrupted" in repr(result)


@pytest.mark.parametrize("named", [False, True])
def test_an_interruption_at_any_call_returns_results_of_all_pairs(named: bool) -> None:
    """NaN or the number of the whole sweep, and `complete` is False where one is missing."""
    model, clean = double("gpt2"), torch.stack([*prompts(), prompts()[0].roll(1)])
    positions = {"A": [1, 2, 3], "END": -1} if named else None
    calls: list[int] = []

    def patched(stop: int) -> Any:
        def read(logits: Tensor) -> Tensor:
            calls.append(len(logits))
            if len(calls) == stop:
                raise KeyboardInterrupt
            return logits[:, -1, 7]

        calls.clear()
        options: dict[str, Any] = {"of": ("mlps", "heads"), "positions": positions, "by_position": ("mlps",)}
        return ffb.activation_patching(model, clean, clean.flip(1), [read, ffb.logit([7, 8, 9])], **options)

    whole = patched(0)
    n_calls, interrupted = len(calls), 0
    for stop in range(1, n_calls + 1):
        try:
            results = patched(stop)
        except KeyboardInterrupt:
            interrupted += 1
            continue
        assert len(results) == len(whole) and not results[-1].complete, stop
        for result, expected in zip(results, whole, strict=True):
            assert (result.labels, result.positions, result.targets) == (
                expected.labels,
                expected.positions,
                expected.targets,
            )
            missing = [result.measured[kind].isnan() for kind in ("mlp", "head")]
            assert result.complete == (not any(bool(nan.any()) for nan in missing))
            for kind, nan in zip(("mlp", "head"), missing, strict=True):
                assert result.measured[kind][~nan].equal(expected.measured[kind][~nan])
            assert "interrupted" in repr(result) or result.complete
    assert (
        2 <= interrupted < n_calls / 4
    )  # before the first patch: unpatched passes of the first pair, and checks of the target


@pytest.mark.wrong_types
def test_kinds_are_named_in_the_plural_and_read_either_way() -> None:
    """`of="heads"` in every call; a row of a table is of one "head"; the singular in a call warns."""
    model, (clean, corrupted) = double("gpt2"), prompts()
    sweep = swept(model, of=("heads", "mlps"))
    with pytest.warns(DeprecationWarning, match='of="head" is of="heads" now'):
        assert swept(model, of="head").values["heads"].equal(sweep.values["head"])
    with pytest.warns(DeprecationWarning, match='by_position="head" is by_position="heads" now'):
        swept(model, of="heads", by_position=("head",))
    with pytest.warns(DeprecationWarning, match='of="mlp" is of="mlps" now'):
        estimates = ffb.attribution_patching(model, clean, corrupted, TARGET, of=("mlp", "v"))
    assert set(sweep.to_dataframe()["kind"]) == {"head", "mlp"} and sweep.patched["mlps"].equal(sweep.patched["mlp"])
    assert estimates["heads"].equal(estimates.heads) and estimates.values["mlps"].equal(estimates["mlp"])
    assert type(estimates).mean([estimates])["heads"].mean.equal(estimates.heads.sum(dim=-1).double())
    with pytest.raises(ScopeKeyError, match="no 'headz' here. There are head, mlp. Did you mean `head`"):
        sweep.values["headz"]


def test_batches_of_any_size_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many runs as are asked for, or as fit into memory."""
    model, of = double("gpt2"), ("residual", "heads", "pattern")
    whole = swept(model, of=of, by_position=True)
    few = swept(model, of=of, by_position=True, batch_size=5)
    monkeypatch.setattr(edited.LateRuns, "at_once", 1)
    alone = swept(model, of=of, by_position=True)
    for kind in of:
        for other in (few, alone):
            torch.testing.assert_close(other.patched[kind], whole.patched[kind], **CLOSE)


def test_the_cost_is_said_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs, and whole forward passes that they are worth: those behind the patched layer."""
    said: list[Any] = []

    class Told(progress.Progress):
        def __init__(self, *args: Any, **options: Any) -> None:
            said.append(args)
            super().__init__(*args, **options)

    monkeypatch.setattr(import_module(ffb.activation_patching.__module__), "Progress", Told)
    swept(model_of("gpt2"), of=("residual", "heads"), by_position=True)
    layers, heads = 3, 4
    runs = N * (layers + 1) + N * heads * layers
    worth = N * (3 + 2 + 1 + 1) / 3 + N * heads * (3 + 2 + 1) / 3
    assert said == [(f"activation patching ({runs} runs, worth {worth:.0f} forward passes)", runs, "runs")]


# fmt: off
REFUSED: dict[str, tuple[Callable[[Any, Any, Any], Any], type[Exception], str]] = {
    "pattern of BERT": (lambda m, a, b: swept(model_of("bert"), *prompts("bert"), of="pattern"), UnsupportedModelError, "has no effect.*Omit 'pattern' from"),
    "between, side by side": (lambda m, a, b: swept(model_of("gpt_neox"), *prompts("gpt_neox"), of="residual_mid"), UnsupportedModelError, "no residual stream between"),
    "feed-forward of attention alone": (lambda m, a, b: swept(Case("attn_only").model(), a, b, of="mlps"), UnsupportedModelError, "no feed-forward"),
    "unequal lengths": (lambda m, a, b: swept(m, a, b[:4]), InputError, "clean has 6 tokens, corrupted 4.*equally many"),
    "no corrupted prompt": (lambda m, a, b: swept(m, a, None), InputError, "needs a corrupted prompt"),
    "a corrupted prompt too many": (lambda m, a, b: swept(m, a, b, replacement="zero"), InputError, "corrupted=None"),
    "zeros into no corrupted run": (lambda m, a, b: swept(m, a, None, replacement="zero", direction="denoising"), InputError, "the clean prompt is patched"),
    "resampled from nobody": (lambda m, a, b: swept(m, a, None, replacement="resample"), InputError, "expected a list"),
    "mean of patterns": (lambda m, a, b: swept(m, a, None, of="pattern", replacement="mean"), InputError, "have no mean"),
    "another kind": (lambda m, a, b: swept(m, a, b, of=("residual", "headz")), InputError, "Did you mean.*heads"),
    "no kind": (lambda m, a, b: swept(m, a, b, of=()), InputError, "expected some of 'residual'"),
    "kinds by position": (lambda m, a, b: swept(m, a, b, by_position="z"), InputError, "by_position='z'"),
    "another direction": (lambda m, a, b: swept(m, a, b, direction="both"), InputError, "direction='both'.*noising"),
    "an option": (lambda m, a, b: swept(m, a, b, layer=3), CallError, "Did you mean `layers`"),
    "a position": (lambda m, a, b: swept(m, a, b, positions=[9]), InputError, "positions=.9.*from -6 to 5"),
    "no target": (lambda m, a, b: ffb.activation_patching(m, a, b, []), InputError, "target="),
    "a direction": (lambda m, a, b: ffb.activation_patching(m, a, b, ffb.direction(torch.ones(32), layer=1)), InputError, "reads logits"),
    "compared with an attribution": (lambda m, a, b: swept(m, a, b, of="mlps").compare(ffb.attribute(m, a, TARGET)), InputError, "estimates is of type Attribution, expected PatchingEstimates of ffb.attribution_patching. Compare an attribution"),
    "compared with a number": (lambda m, a, b: swept(m, a, b, of="mlps").compare(1), InputError, "ffb.attribution_patching"),
    "normalised ablation": (lambda m, a, b: swept(m, a, None, replacement="zero", of="mlps").normalised, InputError, "no corrupted prompt"),
    "a mean of unlike sweeps": (lambda m, a, b: type(swept(m, of="mlps")).mean([swept(m, of="mlps"), swept(m, of="heads")]), InputError, "different kinds"),
    "a mean of two layers": (lambda m, a, b: type(swept(m, of="mlps")).mean([swept(m, of="mlps", layers=0), swept(m, of="mlps", layers=1)]), InputError, "different kinds, layers"),
    "a mean with an interrupted sweep": (lambda m, a, b: type(swept(m, of="mlps")).mean([swept(m, of="mlps"), replace(swept(m, of="mlps"), complete=False)]), InputError, "was interrupted"),
    "estimates read elsewhere": (lambda m, a, b: ffb.activation_patching(m, a, b, ffb.logit(7, at=-2), direction="noising", of="mlps").compare(ffb.attribution_patching(m, a, b, ffb.logit(7))), InputError, "targets differ"),
    "no prompt": (lambda m, a, b: ffb.activation_patching(m, None, b, TARGET), InputError, "clean is None"),
    "a mean of two directions": (lambda m, a, b: type(swept(m, of="mlps")).mean([swept(m, of="mlps"), swept(m, of="mlps", direction="noising")]), InputError, "direction"),
}
# fmt: on


@pytest.mark.wrong_types
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_patched_is_refused(name: str) -> None:
    """By the class of the error, in words that say what would do."""
    call, error, said = REFUSED[name]
    with pytest.raises(error, match=f"(?s){said}"):
        call(model_of("gpt2"), *prompts())
