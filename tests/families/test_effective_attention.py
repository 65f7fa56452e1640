"""Maps of layers without a softmax: their kind and sign, what pages and figures say of them, and what is refused."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from docs import coverage
from tests.cases import SINCE_4, TL_3
from tl_ffblock.errors import FFBlockError, InputError, UnsupportedModelError

TOKENS = torch.tensor([5, 9, 13, 6, 9, 7, 20, 31])
MIXED = ("Qwen3_5ForCausalLM", "BambaForCausalLM", "OlmoHybridForCausalLM")
"""Architectures whose tiny models have a layer without a softmax and one with it, of as many heads."""
ALONE = ("MambaForCausalLM", "Mamba2ForCausalLM", "FalconMambaForCausalLM")
UNLIKE = (("JambaForCausalLM", ()), ("Qwen3_5ForCausalLM", (("linear_num_value_heads", 8),)))
"""Architectures and options with layers of different numbers of heads."""


@cache
def model_of(architecture: str, changes: tuple[tuple[str, Any], ...] = ()) -> Any:
    """The tiny bridge of an architecture."""
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    if TL_3 and architecture.startswith("Qwen3_5"):
        pytest.skip(f"TransformerLens 3: {SINCE_4['qwen3_5']}")
    model = coverage.build(architecture, torch.float32, dict(changes))
    return build_bridge_from_module(model, architecture, hf_config=model.config).eval()


@pytest.mark.parametrize("architecture", [*MIXED, *ALONE])
def test_effective_attention_says_so_and_is_signed(architecture: str) -> None:
    """Also beside layers with a softmax, whose rows sum to 1; these alone have attention."""
    maps = ffb.attention_maps(model_of(architecture), TOKENS)
    assert (maps.kind, maps.signed) == ("effective attention", True)
    assert bool((maps.values[0] < 0).any())
    if architecture in MIXED:
        of_softmax = ffb.attention_maps(model_of(architecture), TOKENS, layers=[1])
        assert (of_softmax.kind, of_softmax.signed) == ("attention", False)
        torch.testing.assert_close(maps.values[1].sum(dim=-1), torch.ones(maps.values.shape[1], len(TOKENS)))
        assert of_softmax.values.equal(maps.values[1:])
    weighted = ffb.attention_maps(model_of(architecture), TOKENS, kind="value-weighted")
    assert (weighted.kind, weighted.signed) == ("value-weighted attention", False)


@pytest.mark.parametrize("architecture", MIXED)
def test_pages_and_figures_have_the_signed_scale(architecture: str) -> None:
    """Alone and beside contributions; the colours of a figure end at the same number on both sides."""
    maps = ffb.attention_maps(model_of(architecture), TOKENS)
    contributions = ffb.contribution_maps(model_of(architecture), TOKENS)
    for page in (maps.to_html(), contributions.to_html(beside=[maps])):
        labels = page[page.index('"title":"effective attention"') - 30 :]
        labels = json.loads(labels[labels.index("{") : labels.index(',"channels"')] + "}")
        assert labels["signed"] and labels["unit"] == "effective attention weight"
        assert labels["meaning"].startswith("the signed weight of the column's value")
        assert "from others" not in page[page.index('"title":"effective attention"') :]
    image = maps.figure().axes[0].images[0]
    low, high = image.get_clim()
    assert low == -high < 0


def test_statistics_of_distributions_name_a_call_that_works() -> None:
    """Signed weights are no distribution; value-weighted attention is one when it is divided by its sum."""
    model = model_of("Qwen3_5ForCausalLM")
    with pytest.raises(InputError, match='kind="value-weighted"'):
        ffb.heads.entropy(ffb.attention_maps(model, TOKENS))
    assert ffb.heads.entropy(ffb.attention_maps(model, TOKENS, kind="value-weighted")) is not None


HEADS: dict[str, Callable[..., Any]] = {
    "attention_maps": lambda model, layers: ffb.attention_maps(model, TOKENS, layers=layers),
    "contribution_maps": lambda model, layers: ffb.contribution_maps(model, TOKENS, layers=layers, heads=True),
    "attention_knockout": lambda model, layers: ffb.attention_knockout(
        model, TOKENS, 7, keys=2, layers=layers, heads=[1]
    ),
    "attention_knockout_hooks": lambda model, layers: ffb.interventions.attention_knockout_hooks(
        model, keys=2, layers=layers, heads=[1]
    ),
}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize(("architecture", "changes"), UNLIKE)
def test_layers_with_other_numbers_of_heads_are_refused(
    architecture: str, changes: tuple[tuple[str, Any], ...], name: str
) -> None:
    """And the error names layers with which the call works."""
    model, call = model_of(architecture, changes), HEADS[name]
    with pytest.raises(InputError, match=r"different numbers of heads .* such as layers=\[0\]\."):
        call(model, None)
    assert call(model, [0]) is not None and call(model, [1]) is not None


REFUSED: dict[str, tuple[Callable[[Any], Any], type[FFBlockError], str]] = {
    "attention_gradients": (
        lambda model: ffb.heads.attention_gradients(model, TOKENS, 7),
        UnsupportedModelError,
        r"attention weights.*ffb\.attribute",
    ),
    "knockout": (
        lambda model: ffb.interventions.knockout(ffb.Contributions(model, TOKENS), 0, 7, 2),
        UnsupportedModelError,
        r"Use ffb\.attention_knockout, which removes what a token writes",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("architecture", ["Mamba2ForCausalLM", "Qwen3_5ForCausalLM", "MambaForCausalLM"])
def test_what_assumes_a_softmax_is_refused(architecture: str, name: str) -> None:
    """A derivative by its weights, and weights that grow in proportion."""
    call, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        call(model_of(architecture))


def test_an_ablated_head_needs_a_hook_point() -> None:
    """A delta net has none before W_O; heads of layers that are not alike have no common axis."""
    with pytest.raises(UnsupportedModelError, match="has no HookPoint"):
        ffb.heads.ablation_effects(model_of("Qwen3_5ForCausalLM"), TOKENS, 7)
    for architecture, changes in UNLIKE:
        with pytest.raises(InputError, match='of="heads"'):
            ffb.heads.ablation_effects(model_of(architecture, changes), TOKENS, 7)
