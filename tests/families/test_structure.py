"""Architectures outside the table: known forms are decomposed, and whatever else a block does is noticed.

Each attack changes one thing in a tiny Llama of Hugging Face as some architecture does (multipliers, value
norms, gates, ...) before TransformerLens wraps it. A map of it would be wrong without a sign.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tl_ffblock as ffb
from tests import tiny
from tests.cases import TL_3, bridge_of, model_of, wrapped
from tests.tolerances import ALGEBRA, COMPLETE_FLOAT32
from tl_ffblock.bridge import families
from tl_ffblock.bridge.model import identify
from tl_ffblock.errors import InputError


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_neox", "olmo2", "mixtral", "glm4", "phi3"])
def test_known_forms_need_no_entry_in_the_table(
    family: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The order is read off the norms, and the maps are the same as with the entry."""
    model, tokens = bridge_of(family), tiny.tokens(family, 7)
    listed = identify(model).family
    expected = ffb.contribution_maps(model, tokens)
    monkeypatch.setattr(families, "FAMILIES", ())
    if family == "olmo2" and not hasattr(model.blocks[0], "ln1_post"):
        pytest.skip("TransformerLens 3 names OLMo-2's norms as if they stood before (test_misread_norms)")
    found = identify(model).family
    assert (found.listed, found.order, found.causal) == (False, listed.order, listed.causal)
    for scope in (maps := ffb.contribution_maps(model, tokens)).scopes:
        assert torch.equal(maps[scope], expected[scope])


def test_misread_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Post-LN block has the norms of a Pre-LN block by name: the identities tell them apart."""
    model = bridge_of("bert")
    monkeypatch.setattr(families, "FAMILIES", ())
    with pytest.raises(NotImplementedError, match=r"layer 0: this does not hold .* = value"):
        ffb.contribution_maps(model, tiny.tokens("bert", 7))


def test_both_directions_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model taken for causal that looks ahead is refused, even if it was first seen on a single token."""
    model = bridge_of("llama")
    known = families.FAMILIES
    monkeypatch.setattr(families, "FAMILIES", ())
    ffb.contribution_maps(model, tiny.tokens("llama", 1))
    mask = torch.zeros(1, 1, 6, 6)
    for block in model.blocks:
        block.attn.register_forward_pre_hook(
            lambda module, args, kwargs: (args, {**kwargs, "attention_mask": mask}), with_kwargs=True
        )
    with pytest.raises(NotImplementedError, match="pattern is zero after the query"):
        ffb.contribution_maps(model, tiny.tokens("llama", 6))
    monkeypatch.setattr(families, "FAMILIES", known)


def test_a_later_run_is_checked_for_direction() -> None:
    """Layers that were causal in one run may not be in the next: no cell of it is left out in silence."""
    model, tokens = bridge_of("llama"), tiny.tokens("llama", 6)
    changed: dict[str, Tensor] = {}
    for block in model.blocks:
        block.attn.register_forward_pre_hook(
            lambda module, args, kwargs: (args, {**kwargs, **changed}), with_kwargs=True
        )
    ffb.contribution_maps(model, tokens)
    changed["attention_mask"] = torch.zeros(1, 1, 6, 6)
    with pytest.raises(ffb.FFBlockError, match=r"layer 0: .* pattern is zero after the query \(in this run"):
        ffb.contribution_maps(model, tokens)


def _wrap(module: nn.Module, change: Callable[[Tensor, Tensor], Tensor]) -> None:
    shipped = module.forward
    module.forward = lambda x, *args, **kwargs: change(shipped(x, *args, **kwargs), x)


def _wrap_tuple(module: nn.Module, change: Callable[[Tensor, Tensor], Tensor]) -> None:
    shipped = module.forward

    def forward(hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        output, *rest = shipped(hidden_states, *args, **kwargs)
        return (change(output, hidden_states), *rest)

    module.forward = forward


def _scalar(x: Tensor) -> Tensor:
    return torch.linspace(0.5, 1.0, x.shape[-1])


Change = Callable[[Tensor, Tensor], Tensor]
ATTACKS: dict[str, tuple[str, Change]] = {
    "attention multiplier": ("self_attn", lambda y, x: y * 0.7),
    "gated attention": ("self_attn", lambda y, x: y * x.sigmoid()),
    "feed-forward multiplier": ("mlp", lambda y, x: y * 0.7),
    "layer scalar": ("", lambda y, x: y * _scalar(y)),
    "added after the layer": ("", lambda y, x: y + 0.1 * x),
    "norm multiplier": ("post_attention_layernorm", lambda y, x: y * 1.1),
    "value norm": ("self_attn.v_proj", lambda y, x: y / y.square().mean(-1, keepdim=True).sqrt()),
    "mixed values": ("self_attn.v_proj", lambda y, x: (y + y.roll(1, dims=1)) / 2),
    "clipped values": ("self_attn.v_proj", lambda y, x: y.clamp(-0.5, 0.5)),
    "norm before the output": ("self_attn.o_proj", lambda y, x: y / (1 + y.norm(dim=-1, keepdim=True))),
    "gate of the output": ("mlp.down_proj", lambda y, x: y * y.sigmoid()),
    "soft cap of the gate": ("mlp.gate_proj", lambda y, x: 2 * torch.tanh(y / 2)),
}
"""Module of a layer -> what is made of its output and input; of a linear module, which has no weight then, known before any run."""


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(
    ("listed", "only_last"), [(True, False), (False, True)], ids=["listed", "unlisted, last layer"]
)
def test_no_silent_wrong_number(monkeypatch: pytest.MonkeyPatch, attack: str, only_last: bool, listed: bool) -> None:
    """A changed model is refused: for a sum that does not hold, or because the bridge does not run the change at all."""
    hf, tokens, (module, change) = tiny.hf_model("llama"), tiny.tokens("llama", 7), ATTACKS[attack]
    for layer in hf.model.layers[-1:] if only_last else hf.model.layers:
        (_wrap_tuple if module == "self_attn" else _wrap)(layer.get_submodule(module), change)
    with torch.no_grad():
        expected = hf(tokens[None]).logits
        model = wrapped(hf, "LlamaForCausalLM")
        runs_it = torch.allclose(model(tokens[None]), expected, rtol=1e-3, atol=1e-3)
    if not listed:
        monkeypatch.setattr(families, "FAMILIES", ())
    reason = r"layer \d: this does not hold" if runs_it else "is not the Hugging Face model that"
    if module.endswith("proj"):
        reason = r"blocks\.\d\.(mlp|attn)\.\w+: .*not a linear function"
    with pytest.raises(ffb.FFBlockError, match=reason) as refused:
        ffb.contribution_maps(model, tokens)
    assert (listed and runs_it) or isinstance(refused.value, NotImplementedError)


def test_a_bias_that_a_forward_function_adds_is_a_bias() -> None:
    """The module acts with it, whatever parameters it shows."""
    tokens, maps = tiny.tokens("llama", 7), []
    for by_hand in (True, False):
        hf = tiny.hf_model("llama", dtype=torch.float64)
        for layer in hf.model.layers:
            if by_hand:
                _wrap(layer.self_attn.v_proj, lambda y, x: y + 0.3)
            else:
                layer.self_attn.v_proj.bias.data += 0.3
        maps.append(ffb.contribution_maps(wrapped(hf, "LlamaForCausalLM"), tokens))
    for scope in maps[0].scopes:
        torch.testing.assert_close(maps[0][scope], maps[1][scope], rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(maps[0].bias[scope], maps[1].bias[scope], rtol=1e-9, atol=1e-10)


MIXED = [
    ("qwen3_moe", {"mlp_only_layers": [0]}),
    ("qwen2_moe", {"mlp_only_layers": [1]}),
    ("qwen2_moe", {"norm_topk_prob": True}),
    ("qwen3_moe", {"norm_topk_prob": True}),
    ("falcon", {"parallel_attn": False}),
    ("falcon", {"multi_query": False, "num_kv_heads": 4}),
    ("falcon", {"alibi": True}),
    ("stablelm", {"qk_layernorm": True}),
    ("gpt_neo", {"activation_function": "relu"}),
    ("granite", {"embedding_multiplier": 1.0, "logits_scaling": 1.0, "attention_multiplier": 1.0}),
    ("gemma2", {"final_logit_softcapping": None, "attn_logit_softcapping": 5.0}),
    ("gemma3", {"rope_parameters": None}),
]


@pytest.mark.parametrize(("family", "overrides"), MIXED, ids=[f"{f} {o}" for f, o in MIXED])
def test_layers_may_differ_and_multipliers_outside_blocks_do_not_matter(family: str, overrides: dict[str, Any]) -> None:
    """Dense layers among experts, router variants, the other order of the same family, logit and embedding scales."""
    model, tokens = bridge_of(family, **overrides), tiny.tokens(family, 7)
    with torch.no_grad():
        assert (model(tokens[None]) - tiny.hf_model(family, **overrides)(tokens[None]).logits).abs().max() < 1e-4
    assert ffb.contribution_maps(model, tokens).worst_completeness()[0] < COMPLETE_FLOAT32 / 10


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("scope", ["Attn", "Atb", "AtbLn", "AtbLnFf", "AtbLnFfRes"])
@pytest.mark.parametrize("family", ["granite", "granite_moe", "llama"])
def test_an_edit_changes_its_scope_by_what_was_asked_for(family: str, scope: str) -> None:
    """Branches are multiplied after their HookPoints in Granite: a change of their sum is the change there times the multiplier."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, 7)
    clean = ffb.decompose(model, tokens, layer=1)
    with ffb.capture(model, layers=1) as records:
        model(tokens[None])
    vector = torch.linspace(-1, 1, tiny.D_MODEL, dtype=torch.float64)
    point = ffb.interventions.edit_point(identify(model), 1, scope)
    onto = point.onto(vector, records[1].block)

    def add(x: Tensor, hook: Any) -> Tensor:
        changed = x.clone()
        changed.view(len(tokens), -1)[3] += onto
        return changed

    edited = ffb.decompose(model, tokens, layer=1, fwd_hooks=[(point.name, add)])
    expected = torch.zeros_like(clean.whole(scope))
    expected[3] = vector
    torch.testing.assert_close(edited.whole(scope) - clean.whole(scope), expected, **ALGEBRA)


EXPERTS = ("mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss", "olmoe", "ernie4_5_moe", "glm4_moe", "granite_moe", "llama4")


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", EXPERTS)
@pytest.mark.parametrize("edited", [False, True])
def test_experts_sum_to_the_contribution(family: str, edited: bool) -> None:
    """Vectors through each expert and through none sum to the contribution, at every scope; maps by expert are their norms.

    Before the feed-forward all goes through none, and so does nothing at its output.
    """
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, 11)
    hooks = [("blocks.1.hook_attn_out", lambda z, hook: 1.1 * z)] if edited else []
    maps = ffb.contribution_maps(model, tokens, experts=True, queries=[2, 9, 10], fwd_hooks=hooks)
    vectors = ffb.decompose(model, tokens, layer=1, experts=True, queries=[2, 9, 10], fwd_hooks=hooks)
    assert vectors.expert_channels == maps.experts.channels and maps.experts.channels[-1] == "no expert"
    for scope in vectors.scopes:
        found = vectors.experts(scope)
        torch.testing.assert_close(found.sum(dim=0), vectors.parts(scope), **ALGEBRA)
        torch.testing.assert_close(found.norm(dim=-1), maps.experts[scope, 1], **ALGEBRA)
        assert bool((found[:-1] == 0).all()) == (scope in ("Attn", "Atb", "AtbLn"))
    assert (vectors.experts("AtbLnFf")[-1] == 0).all()
    some = ffb.contribution_maps(model, tokens, experts=[-1, 0], queries=[2, 9, 10], fwd_hooks=hooks)
    assert some.experts.channels == ("expert 0", maps.experts.channels[-2], "no expert")
    for scope in some.scopes:
        torch.testing.assert_close(some.experts[scope], maps.experts[scope][:, [0, -2, -1]])
    assert some.token_maps("AtbLnFf", experts=True).channels == some.experts.channels


@pytest.mark.skipif(TL_3, reason="TransformerLens 3 has no HookPoint of router weights")
@pytest.mark.parametrize("family", ["mixtral", "qwen2_moe", "glm4_moe", "minimax_m2", "phimoe", "gpt_oss"])
@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("hook_expert_weights", lambda weights, hook: 0.5 * weights),
        ("hook_expert_weights", lambda weights, hook: weights.flip(-1)),
        ("hook_expert_indices", lambda chosen, hook: torch.zeros_like(chosen)),
    ],
    ids=["half", "other experts", "one expert twice"],
)
def test_edited_router_weights_are_those_of_the_run(family: str, name: str, edit: Any) -> None:
    """Contributions and bias have no remainder, and tokens and biases sum to the edited model's logit."""
    model, tokens = model_of(family), tiny.tokens(family, 7)
    hooks = [(f"blocks.1.mlp.{name}", edit)]
    with torch.no_grad():
        plain, edited = model(tokens[None])[0, -1, 7], model.run_with_hooks(tokens[None], fwd_hooks=hooks)[0, -1, 7]
    assert (plain - edited).abs() > 1e-2
    maps = ffb.contribution_maps(model, tokens, fwd_hooks=hooks)
    assert not any(maps.remainder[scope].any() for scope in maps.scopes)
    shares = ffb.attribute(model, tokens, 7, of=(), progress=False, fwd_hooks=hooks)
    total = shares.token_attributions.sum() + sum(shares.biases.values())
    torch.testing.assert_close(float(total), float(edited), rtol=COMPLETE_FLOAT32, atol=COMPLETE_FLOAT32)


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", ["mixtral", "qwen2_moe"])
def test_an_expert_contributes_what_a_slow_integral_gives(family: str) -> None:
    """Integrated Gradients of one expert's output from its weights alone, by its derivative at 60 nodes, times the router's weight."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, 7)
    vectors = ffb.decompose(model, tokens, layer=1, experts=True, value_bias="token")
    named = model.blocks[1].mlp.original_component.named_parameters()
    weights = {name.replace("_original_component.", "").removesuffix(".weight"): w.detach() for name, w in named}
    x, parts = vectors.whole("AtbLn"), vectors.parts("AtbLn")
    router, (top, chosen) = (p := (x @ weights["gate"].T).softmax(dim=-1)), p.topk(2, dim=-1)
    sizes = top / top.sum(dim=-1, keepdim=True) if family == "mixtral" else top
    router = torch.zeros_like(router).scatter(-1, chosen, sizes)
    experts = [
        (*up.chunk(2), down)
        for up, down in zip(weights["experts.gate_up_proj"], weights["experts.down_proj"], strict=True)
    ]
    if family == "qwen2_moe":
        router = torch.cat([router, (x @ weights["shared_expert_gate"].T).sigmoid()], dim=-1)
        experts.append(tuple(weights[f"shared_expert.{name}_proj"] for name in ("gate", "up", "down")))
    nodes, of_nodes = np.polynomial.legendre.leggauss(60)
    for number, (gate, up, down) in enumerate(experts):

        def output(x: Tensor, gate: Tensor = gate, up: Tensor = up, down: Tensor = down) -> Tensor:
            return (nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T

        found = torch.zeros_like(parts)
        for node, weight in zip((nodes + 1) / 2, of_nodes / 2, strict=True):
            at = (node * x)[:, None].expand_as(parts).contiguous()
            found += weight * torch.autograd.functional.jvp(output, at, parts)[1]
        expected = router[:, number, None, None] * found
        torch.testing.assert_close(vectors.experts("AtbLnFf")[number], expected, rtol=1e-6, atol=1e-9)


def test_dense_layers_go_through_no_expert_and_models_without_experts_have_none() -> None:
    """Beside layers of experts; with texts of a list, of other lengths."""
    model = bridge_of("qwen3_moe", mlp_only_layers=[0])
    texts = torch.stack([tiny.tokens("qwen3_moe", 7, seed=seed) for seed in range(2)])
    for maps in ffb.contribution_maps(model, texts, experts=True):
        for scope in maps.scopes:
            assert (maps.experts[scope, 0][:-1] == 0).all()
            assert torch.equal(maps.experts[scope, 0][-1], maps[scope, 0])
    with pytest.raises(InputError, match="experts=True: .* has no mixture of experts"):
        ffb.contribution_maps(bridge_of("llama"), tiny.tokens("llama", 5), experts=True)
    with pytest.raises(InputError, match=r"experts=\[9\]: expected True or experts from -4 to 3"):
        ffb.decompose(model, texts[0], layer=1, experts=[9])
    with pytest.raises(InputError, match="no experts"):
        ffb.decompose(model, texts[0], layer=1).experts("AtbLnFf")
    with pytest.raises(KeyError, match="no experts"):
        ffb.contribution_maps(model, texts[0]).experts["AtbLnFf"]
