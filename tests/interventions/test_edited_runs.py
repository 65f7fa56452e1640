"""Maps of runs that hooks edit: upstream it is part of the run, inside the block it is the remainder, whatever the form."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import APIS, COVERING, MIXERS, Case, callbacks_of, model_of, slow_beyond
from tests.tolerances import BATCH_FLOAT64
from tl_ffblock.errors import IdentityError

Edit = Callable[[Tensor], Tensor]
N = 5
AFTER_USE = ("opt", "gptj", "bert", "roberta", "phimoe", "afmoe", "laguna", "modernbert_decoder", "llama4", "gemma4")
"""Families whose bridge hands out the pattern after attention has used it."""
EDITED = [
    *slow_beyond([Case(name) for name in tiny.FAMILIES if name not in MIXERS], tuple(map(Case, COVERING))),
    *APIS,
    Case("attn_only"),
]
BOOKKEEPING = dict(rtol=0, atol=2e-5)
"""float64, tensors of size 1 to 30; gaps below rtol = 1e-6 of a row's norm count as completeness error."""


def shifted(tensor: Tensor) -> Tensor:
    """An edit that no norm undoes."""
    return tensor + 0.5 * tensor.roll(1, -1)


def hook_of(edit: Edit, *, in_place: bool) -> Callable[..., Tensor | None]:
    """The edit as a hook function that returns, or that writes into the tensor."""

    def returned(tensor: Tensor, hook: Any) -> Tensor:
        return edit(tensor)

    def written(tensor: Tensor, hook: Any) -> None:
        tensor.copy_(edit(tensor.clone()))

    return written if in_place else returned


def row_shifted(tensor: Tensor) -> Tensor:
    """The same at position 2 only."""
    changed = tensor.clone(memory_format=torch.contiguous_format)
    changed.view(N, -1)[2] = shifted(tensor).reshape(N, -1)[2]
    return changed


def places_inside(model: Any, case: Case) -> list[str]:
    """HookPoints between the layer's input and its output that fire in this model."""
    names = ["attn.hook_z", "attn.o.hook_out", "hook_attn_out", "hook_mlp_out", "hook_resid_post", "ln2.hook_out"]
    mlp = getattr(model.blocks[0], "mlp", None)
    names += [] if hasattr(getattr(mlp, "original_component", None), "experts") else ["mlp.hook_pre", "mlp.hook_post"]
    names += (
        ["ln1.hook_in" if str(case) == "bert" else "hook_resid_mid"] if case.name in ("gpt2", "llama", "bert") else []
    )
    return [f"blocks.0.{name}" for name in names if f"blocks.0.{name}" in model.hook_dict]


def check_bookkeeping(found: Any, maps: Any) -> None:
    """Parts + bias + remainder is the model's tensor at every scope; the optimised tables are the vectors' norms."""
    heads = bool(maps.heads.keys())
    for scope in found.scopes:
        total = found.parts(scope).sum(1) + found.bias(scope) + found.remainder(scope)
        torch.testing.assert_close(total, found.whole(scope), **BOOKKEEPING)
        if heads:
            torch.testing.assert_close(found.heads(scope).sum(0), found.parts(scope), **BOOKKEEPING)
        for table, vectors in (
            *([(maps.heads[scope, 0], found.heads(scope))] if heads else []),
            (maps[scope, 0], found.parts(scope)),
            (maps.bias[scope, 0], found.bias(scope)),
            (maps.remainder[scope, 0], found.remainder(scope)),
        ):
            torch.testing.assert_close(table, vectors.norm(dim=-1), **BATCH_FLOAT64)


@pytest.mark.parametrize(("edit", "in_place"), [(shifted, False), (row_shifted, True)], ids=["all", "one row"])
@pytest.mark.parametrize("case", EDITED, ids=str)
def test_an_edit_upstream_is_part_of_the_run_one_inside_is_the_remainder(
    case: Case, edit: Edit, in_place: bool
) -> None:
    """Every HookPoint of the block: exact bookkeeping, a remainder of the edited rows, attention's parts untouched; none of what it reads."""
    model, tokens = case.model(torch.float64), case.tokens(N)
    plain = ffb.decompose(model, tokens, layer=0), ffb.decompose(model, tokens, layer=1)
    for place in ("blocks.1.hook_resid_pre", "blocks.1.attn.hook_v", "blocks.0.hook_mlp_out"):
        if place in model.hook_dict:
            hooks = [(place, hook_of(edit, in_place=in_place))]
            maps = ffb.contribution_maps(model, tokens, layers=1, fwd_hooks=hooks)
            assert all((maps.remainder[scope] == 0).all() for scope in maps.scopes)
            assert not torch.allclose(maps["Attn", 1], plain[1].parts("Attn").norm(dim=-1), rtol=1e-3)
    for place in places_inside(model, case):
        hooks = [(place, hook_of(edit, in_place=in_place))]
        found = ffb.decompose(model, tokens, layer=0, heads=True, fwd_hooks=hooks)
        maps = ffb.contribution_maps(model, tokens, layers=[0, 1], heads=True, fwd_hooks=hooks)
        check_bookkeeping(found, maps)
        assert not any(maps.remainder[scope, 1].any() for scope in maps.scopes), "a later layer has none"
        for part in ("parts", "bias"):
            torch.testing.assert_close(getattr(found, part)("Attn"), getattr(plain[0], part)("Attn"), **BATCH_FLOAT64)
        sizes = torch.stack([found.remainder(scope).norm(dim=-1) for scope in found.scopes]).amax(dim=0)
        assert sizes.amax() > 1e-2 and ((sizes > 1e-3).sum() == 1) == (edit is row_shifted), place


@pytest.mark.parametrize("in_place", [False, True], ids=["returned", "in place"])
@pytest.mark.parametrize("case", [Case("gpt2"), Case("llama"), Case("bert"), *APIS, Case("attn_only")], ids=str)
def test_an_edited_attention_output_remains_itself(case: Case, in_place: bool) -> None:
    """What was added to the attention output is the remainder there, exactly, and the parts are the unedited ones."""
    model, tokens = case.model(torch.float64), case.tokens(N)
    place = "blocks.0.attn.o.hook_out" if str(case) == "bert" else "blocks.0.hook_attn_out"
    found = ffb.decompose(model, tokens, layer=0, fwd_hooks=[(place, hook_of(shifted, in_place=in_place))])
    plain = ffb.decompose(model, tokens, layer=0)
    added = shifted(plain.whole("Attn")) - plain.whole("Attn")
    for scope in found.scopes[:2]:
        torch.testing.assert_close(found.remainder(scope), added, **BOOKKEEPING)
        torch.testing.assert_close(found.parts(scope), plain.parts(scope), **BATCH_FLOAT64)
        torch.testing.assert_close(found.bias(scope), plain.bias(scope), **BATCH_FLOAT64)
    assert found.remainder(found.scopes[-1]).norm() > 0.1


@pytest.mark.parametrize("in_place", [False, True], ids=["returned", "in place"])
def test_an_edit_at_the_next_layers_input_shows_in_the_norm_after_this_one(family: str, in_place: bool) -> None:
    """The next layer's first norm reads the edited stream: a remainder there, none before."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, N)
    hooks = [("blocks.1.hook_resid_pre", hook_of(shifted, in_place=in_place))]
    found, plain = (ffb.decompose(model, tokens, layer=0, fwd_hooks=each) for each in (hooks, []))
    *before, last = found.scopes
    for scope in before:
        torch.testing.assert_close(found.whole(scope), plain.whole(scope), rtol=0, atol=0)
        assert not found.remainder(scope).any()
    assert (found.remainder(last).norm(dim=-1) > 0.1).all() == (family != "bert")
    total = found.parts(last).sum(1) + found.bias(last) + found.remainder(last)
    torch.testing.assert_close(total, found.whole(last), **BOOKKEEPING)


def test_an_edited_z_belongs_to_no_token(any_family: str) -> None:
    """What was added to the summed values is, through W_O, the remainder of `Attn`, exactly."""
    model, tokens = model_of(any_family, torch.float64), tiny.tokens(any_family, N)
    generator = torch.Generator().manual_seed(0)
    added: list[Tensor] = []

    def add(z: Tensor, hook: Any) -> Tensor:
        added.append(torch.randn(z.shape, generator=generator, dtype=z.dtype))
        return z + added[-1]

    found = ffb.decompose(model, tokens, layer=0, fwd_hooks=[("blocks.0.attn.hook_z", add)])
    w_o = model.blocks[0].attn.W_O
    expected = torch.einsum("qhe,hed->qd", added[0].reshape(N, *w_o.shape[:2]), w_o)
    torch.testing.assert_close(found.remainder("Attn"), expected, **BOOKKEEPING)


@pytest.mark.parametrize("in_place", [False, True], ids=["returned", "in place"])
def test_an_edited_pattern_is_decomposed_as_it_was_used(any_family: str, in_place: bool) -> None:
    """Used: the map is of the edited pattern, later tokens included. Too late: of the one used, with a warning; a cache is refused."""
    model, tokens = model_of(any_family, torch.float64), tiny.tokens(any_family, N)
    hooks = [("blocks.0.attn.hook_pattern", hook_of(lambda p: torch.full_like(p, 1 / N), in_place=in_place))]

    def both() -> tuple[Any, Any]:
        found = ffb.decompose(model, tokens, layer=0, fwd_hooks=hooks)
        return found, ffb.contribution_maps(model, tokens, layers=0, fwd_hooks=hooks)

    if any_family in AFTER_USE:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found, maps = both()
        said = [warning for warning in caught if "the edit has no effect" in str(warning.message)]
        assert len(said) == 2 and {warning.filename for warning in said} == {__file__}, (
            "not torch's line, which calls hooks"
        )
        plain = ffb.contribution_maps(model, tokens, layers=0)
        torch.testing.assert_close(maps["Attn"], plain["Attn"], **BATCH_FLOAT64)
        with warnings.catch_warnings(), model.hooks(fwd_hooks=hooks):
            warnings.simplefilter("ignore")
            _, cache = model.run_with_cache(tokens[None])
        with pytest.raises(ValueError, match=r"hook_pattern is not the pattern of .* pass the hooks as fwd_hooks"):
            ffb.contribution_maps(model, tokens, cache=cache)
    else:
        found, maps = both()
        rows = found.parts("Attn")
        if any_family != "qwen3_next":  # whose queries multiply equal values by gates of their own
            torch.testing.assert_close(rows, rows[:1].expand_as(rows), **BATCH_FLOAT64)
    check_bookkeeping(found, maps)
    assert all((maps.remainder[scope] == 0).all() for scope in maps.scopes)


PLACES = ("blocks.0.hook_resid_pre", "blocks.0.attn.hook_z", "blocks.0.hook_mlp_out")


@pytest.mark.parametrize("place", PLACES)
def test_every_way_to_hook_gives_the_same_map(any_family: str, place: str) -> None:
    """`with model.hooks`, permanent hooks, `capture` around or inside a run of the user's, a cache made under hooks: as `fwd_hooks`."""
    model, tokens = tiny.bridge(any_family, dtype=torch.float64), tiny.tokens(any_family, N)
    edit = (place, hook_of(shifted, in_place=False))
    expected = ffb.contribution_maps(model, tokens, fwd_hooks=[edit])
    found = {}
    with ffb.capture(model) as records:
        model.run_with_hooks(tokens[None], fwd_hooks=[edit])
    found["captured around"] = ffb.contribution_maps(model, tokens, cache=records)
    with model.hooks(fwd_hooks=[edit]):
        found["hooks"] = ffb.contribution_maps(model, tokens)
        _, cache = model.run_with_cache(tokens[None])
        with ffb.capture(model) as records:
            model(tokens[None])
    found["captured inside"] = ffb.contribution_maps(model, tokens, cache=records)
    if place.endswith("hook_z") and any_family in AFTER_USE:
        with pytest.raises(ValueError, match="is not the pattern of"):
            ffb.contribution_maps(model, tokens, cache=cache)
    else:
        found["cache"] = ffb.contribution_maps(model, tokens, cache=cache)
    model.add_hook(*edit, is_permanent=True)
    found["permanent"] = ffb.contribution_maps(model, tokens)
    for way, maps in found.items():
        for table, own in ((maps.values, expected.values), (maps.remainder, expected.remainder)):
            for scope in maps.scopes:
                torch.testing.assert_close(
                    table[scope], own[scope], **BATCH_FLOAT64, msg=lambda m, way=way: f"{way}: {m}"
                )


@pytest.mark.parametrize(("family", "way"), [("gpt2", "hooks"), ("gpt2", "cache"), ("llama", "hooks")])
def test_an_edit_cannot_hide_a_model_that_is_misread(family: str, way: str) -> None:
    """Unverified layers are checked on a small clean run: a wrong activation is no remainder, with hooks or a cache."""
    hooks = [("blocks.0.hook_mlp_out", hook_of(shifted, in_place=False))]
    model, tokens = tiny.bridge(family), tiny.tokens(family, N)
    mlp, name = model.blocks[0].mlp.original_component, "act" if family == "gpt2" else "act_fn"
    right = getattr(mlp, name)  # what is put there is recognised by its values between runs, and is wrong in a run
    wrong = torch.nn.Identity()
    wrong.forward = lambda x: right(x) * (1.1 if x.ndim == 3 else 1.0)  # type: ignore[method-assign]
    setattr(mlp, name, wrong)
    given: dict[str, Any] = {"fwd_hooks": hooks}
    if way == "cache":
        with model.hooks(fwd_hooks=hooks):
            given = {"cache": model.run_with_cache(tokens[None])[1]}
    with pytest.raises(IdentityError, match="= post"):
        ffb.contribution_maps(model, tokens, layers=0, **given)


def test_the_clean_run_does_not_disturb() -> None:
    """The check of an unverified model runs without the user's hooks and captures, and puts all of them back."""
    model, tokens = tiny.bridge("opt"), tiny.tokens("opt", N)
    calls: list[int] = []
    model.add_hook("blocks.0.hook_mlp_out", lambda tensor, hook: calls.append(tensor.shape[1]) or 2 * tensor)
    before = callbacks_of(model)
    with ffb.capture(model) as outer:
        ffb.contribution_maps(model, tokens)
        assert outer[0].resid_pre.shape[1] == N
    assert len(calls) == 1
    assert callbacks_of(model) == before


def test_torch_hooks_on_a_hook_point_are_noticed() -> None:
    """An edit by a plain `register_forward_hook` is an edit like any other."""
    model, tokens = model_of("gpt2", torch.float64), tiny.tokens("gpt2", N)
    handle = model.hook_dict["blocks.0.hook_mlp_out"].register_forward_hook(lambda module, args, out: 2 * out)
    try:
        found = ffb.decompose(model, tokens, layer=0)
    finally:
        handle.remove()
    torch.testing.assert_close(found.remainder("AtbLnFf"), found.whole("AtbLnFf") / 2, **BOOKKEEPING)


QUOTIENT = dict(rtol=1e-3, atol=1e-5)
"""A derivative against a central difference of step 1e-4 in float64."""


@pytest.fixture
def routers_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hugging Face's routers cast their logits to float32, whose rounding a difference quotient would show."""
    as_float, as_type = torch.Tensor.float, torch.Tensor.type

    def kept_type(x: Tensor, dtype: Any = None) -> Any:
        return x if (x.dtype, dtype) == (torch.float64, torch.float32) else as_type(x, dtype)

    monkeypatch.setattr(torch.Tensor, "float", lambda x: x if x.dtype == torch.float64 else as_float(x))
    monkeypatch.setattr(torch.Tensor, "type", kept_type)


OFF_THE_WAY = {"pattern": AFTER_USE, "Atb": ("gpt_neox", "phi", "gptj", "falcon")}
"""Captured tensors that no gradient of the output reaches: TransformerLens hands them over too late, or not at all."""


@pytest.mark.usefixtures("float64_throughout", "routers_in_float64")
def test_gradients_reach_captured_tensors(any_family: str) -> None:
    """The output's derivative by every captured tensor is not None, and by the FF output it is the difference quotient."""
    model, tokens = tiny.bridge(any_family, dtype=torch.float64), tiny.tokens(any_family, N)[None]
    plain = model(tokens)
    with ffb.capture(model, layers=0) as records:
        logits = model(tokens)
    torch.testing.assert_close(logits, plain, rtol=0, atol=0)
    record = records[0]
    sites = ("resid_pre", "pattern", "value", "pre", "pre_linear", "post")
    captured = {name: getattr(record, name) for name in sites if getattr(record, name) is not None} | record.whole
    out = logits[0, -1, 7]
    for name, tensor in captured.items():
        (gradient,) = torch.autograd.grad(out, tensor, retain_graph=True, allow_unused=True)
        assert (gradient is None) == (any_family in OFF_THE_WAY.get(name, ())), name
    scope = next(scope for scope in record.whole if scope.endswith("Ff"))
    name = f"blocks.0.{'mlp.hook_out' if model.cfg.architecture.startswith(('Gemma', 'Olmo2', 'Afmoe', 'Granite')) else 'hook_mlp_out'}"
    (gradient,) = torch.autograd.grad(out, record.whole[scope], retain_graph=True)

    def nudged(step: float) -> float:
        def nudge(tensor: Tensor, hook: Any) -> Tensor:
            changed = tensor.clone()
            changed.view(N, -1)[2, 3] += step
            return changed

        with torch.no_grad():
            return float(model.run_with_hooks(tokens, fwd_hooks=[(name, nudge)])[0, -1, 7])

    quotient = (nudged(1e-4) - nudged(-1e-4)) / 2e-4
    torch.testing.assert_close(float(gradient.reshape(N, -1)[2, 3]), quotient, **QUOTIENT)
