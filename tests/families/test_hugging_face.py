"""A bridge is the Hugging Face model that it wraps, or it is refused; a model that is, is never refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.cases import bridge_of, model_of, processed
from tl_ffblock.bridge import hugging_face
from tl_ffblock.bridge.model import identify
from tl_ffblock.errors import UnsupportedModelError

IGNORED = [
    ("gpt2", {"scale_attn_weights": False}),
    ("gpt_bigcode", {"scale_attn_weights": False}),
    ("gemma3", {"attn_logit_softcapping": 5.0}),
    ("bloom", {"pretraining_tp": 2, "slow_but_exact": True}),
]
"""Options that the bridges of TransformerLens 3.9 and 4.3 do not know."""
WORKING = [
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True}),
    ("bloom", {"pretraining_tp": 2}),
    ("bloom", {"apply_residual_connection_post_layernorm": False}),
    ("mpt", {"attn_config": {"softmax_scale": 0.1}}),
    ("gemma2", {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 2.0}),
]
"""Their neighbours, which they do."""
PIECES = [("gpt2", "attn", "q"), ("bloom", "attn", "v"), ("phi3", "mlp", "gate"), ("gpt_neox", "attn", "k")]


@pytest.mark.parametrize(("family", "options"), IGNORED, ids=[f"{f} {o}" for f, o in IGNORED])
def test_an_ignored_option_is_refused_by_name(family: str, options: dict[str, Any]) -> None:
    """By the comparison of logits, which does not know its name, and by name where nothing can be compared."""
    with pytest.raises(NotImplementedError, match=r"is not the Hugging Face model"):
        hugging_face.difference_from_hugging_face(bridge_of(family, **options), family)
    name = next(iter(options))
    for model in (bridge_of(family, **options), processed(bridge_of(family, **options))):
        with pytest.raises(NotImplementedError, match=name):
            ffb.contribution_maps(model, tiny.tokens(family, 6))


@pytest.mark.parametrize(("family", "options"), WORKING, ids=[f"{f} {o}" for f, o in WORKING])
def test_options_that_are_known_are_not_refused(family: str, options: dict[str, Any]) -> None:
    """The same families with options that TransformerLens runs."""
    ffb.contribution_maps(bridge_of(family, **options), tiny.tokens(family, 6))


def test_no_false_alarm(every_family: str) -> None:
    """Every family stays well below the tolerance, here in float64 (the others: test_laws); what Hugging Face cannot run is refused."""
    model = model_of(every_family, torch.float64)
    if every_family == "xglm":  # Hugging Face's eager attention overflows, in the bridge too
        with pytest.raises(UnsupportedModelError, match="the model itself does not run.*overflow"):
            identify(model)
    else:
        difference = identify(model).memory.difference
        assert difference < hugging_face.TOLERANCE[torch.float64] / 5


def test_the_model_is_left_as_it_was() -> None:
    """Modules, parameters, hooks: each is the same object after the comparison, and users' callbacks did not fire."""
    model, fired = bridge_of("gpt2"), []
    model.add_hook("blocks.0.hook_resid_post", lambda tensor, hook: fired.append(hook.name))
    before = [(name, id(module)) for name, module in model.original_model.named_modules()]
    weights = [(name, id(weight)) for name, weight in model.original_model.named_parameters()]
    identify(model)
    assert [(name, id(module)) for name, module in model.original_model.named_modules()] == before
    assert [(name, id(weight)) for name, weight in model.original_model.named_parameters()] == weights
    assert not fired
    model(tiny.tokens("gpt2", 4)[None])
    assert fired == ["blocks.0.hook_out"]


def test_it_costs_two_runs_once() -> None:
    """Hugging Face's side runs once a model, whatever is asked afterwards."""
    model, tokens = bridge_of("llama"), tiny.tokens("llama", 6)
    runs: list[int] = []
    norm = model.original_model.model.norm.original_component
    norm.register_forward_hook(lambda module, args, output: runs.append(args[0].shape[1]))
    ffb.contribution_maps(model, tokens)
    first = len(runs)
    ffb.contribution_maps(model, tokens)
    assert runs[:first].count(8) <= 2
    assert runs[first:].count(8) == 0


@pytest.mark.parametrize(("family", "owner", "piece"), PIECES)
def test_a_trained_bridge_is_not_taken_for_another_model(family: str, owner: str, piece: str) -> None:
    """Where a bridge holds pieces of one matrix, training moves them and not Hugging Face's whole."""
    model = bridge_of(family)
    with torch.no_grad():
        component = getattr(getattr(model.blocks[1], owner), piece).original_component
        component.weight.add_(0.3 * torch.randn_like(component.weight))
    assert not identify(model).memory.difference > 1e-5  # equal where the pieces are views, else not compared
    ffb.contribution_maps(model, tiny.tokens(family, 6))


def test_it_can_run_before() -> None:
    """TransformerLens adds callbacks of its own in a bridge's first run: they are not taken for a user's."""
    model = bridge_of("llama")
    model(tiny.tokens("llama", 4)[None])
    assert identify(model).memory.difference < 1e-5


def test_callbacks_of_torch_put_it_off() -> None:
    """A callback on a module that is no HookPoint may be an edit: the comparison waits until it is gone."""
    model = bridge_of("gpt2")
    handle = model.blocks[1].ln2.register_forward_hook(lambda module, args, output: output + 0.5)
    assert identify(model).memory.difference is None
    handle.remove()
    assert identify(model).memory.difference < 1e-5


def test_load_model_compares(tmp_path: Path) -> None:
    """A model is refused when it is loaded, before anybody waits for a map; one that is right is not compared again."""
    folder = tiny.save_local("gpt2", tmp_path)
    assert identify(ffb.load_model(str(folder))).memory.difference < 1e-5
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"scale_attn_weights": False}))
    with pytest.raises(NotImplementedError, match="is not the Hugging Face model that it wraps"):
        ffb.load_model(str(folder))


def test_not_compared() -> None:
    """Processed weights and compatibility mode are edits on purpose."""
    difference = identify(processed(bridge_of("llama"))).memory.difference
    assert difference != difference
