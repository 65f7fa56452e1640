"""Heads as an axis of results: chosen, ordered, labelled, refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tests.cases import model_of
from tests.tolerances import BATCH_FLOAT64
from tl_ffblock import ContributionMaps, contribution_maps, decompose
from tl_ffblock.errors import InputError, ScopeKeyError

Models = Callable[..., Any]


def test_some_heads_are_those_of_all(family: str) -> None:
    """Heads from the end, in any order and repeated, come ascending; layers, scopes and rows as without heads."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, 6)
    full = contribution_maps(model, tokens, heads=True)
    scopes, queries = (full.scopes[4], full.scopes[0]), [4, -6, 4]
    some = contribution_maps(model, tokens, heads=[-1, 0, 0], layers=[-1], scopes=scopes, queries=queries)
    last = model.cfg.n_heads - 1
    assert some.heads.channels == ("head 0", f"head {last}", "residual")
    assert tuple(some.heads) == some.scopes
    for scope in some.scopes:
        assert some.heads[scope].shape == (1, 3, 3, 6)
        expected = full.heads[scope, -1][[0, last, -1]][:, [4, 0, 4]]
        torch.testing.assert_close(some.heads[scope, -1], expected, **BATCH_FLOAT64)
    part = decompose(model, tokens, layer=-1, heads=last, queries=queries)
    assert part.channels == (f"head {last}", "residual")
    for scope in some.scopes:
        torch.testing.assert_close(part.heads(scope).norm(dim=-1), some.heads[scope, -1][1:], **BATCH_FLOAT64)


@pytest.mark.parametrize("queries", [None, -1])
@pytest.mark.parametrize("second", [3, 5], ids=["padded", "equally long"])
@pytest.mark.parametrize("family", ["gpt2", "llama", "gpt_neox", "mixtral"])
def test_heads_of_a_batch_are_those_of_each_sequence_alone(family: str, second: int, queries: int | None) -> None:
    """A batch, padded or worked on together, gives every sequence its own heads and its own residual."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, 5)
    flipped = torch.cat([tokens[:second].flip(0), torch.zeros(5 - second, dtype=torch.long)])
    batch, mask = torch.stack([tokens, flipped]), torch.ones(2, 5, dtype=torch.long)
    mask[1, second:] = 0
    several = contribution_maps(model, batch, attention_mask=mask, heads=[1], queries=queries)
    for maps, alone in zip(several, (tokens, flipped[:second]), strict=True):
        expected = contribution_maps(model, alone, heads=[1], queries=queries)
        for scope in maps.scopes:
            torch.testing.assert_close(maps.heads[scope], expected.heads[scope], **BATCH_FLOAT64)


def test_heads_are_channels_of_token_maps(tmp_path: Path) -> None:
    """One scope's heads as maps that views and statistics read; saved, loaded and subtracted they stay themselves."""
    maps = contribution_maps(model_of("llama"), tiny.tokens("llama", 5), heads=True)
    by_head = maps.token_maps("AtbLnFf", heads=True)
    assert by_head.channels == maps.heads.channels
    for number, channel in enumerate(by_head.channels):
        assert by_head[channel, 1].equal(maps.heads["AtbLnFf", 1][number])
    assert repr(by_head).startswith("TokenMaps: AtbLnFf contributions by head of ")
    assert ContributionMaps.load(maps.save(tmp_path / "maps.safetensors")) == maps
    assert not (maps - maps).heads["AtbLnFf"].any()


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"heads": 4}, r"heads=4: expected True or heads from -4 to 3 of a layer of 4"),
        ({"heads": [0, -5]}, r"heads=\[0, -5\]: expected True or heads"),
        ({"heads": []}, r"heads=\[\]: expected True or heads"),
        ({"heads": [True, False]}, r"heads=\[True, False\]: expected True or heads"),
        ({"heads": ["0"]}, r"expected True or heads"),
        ({"heads": None}, r"heads=None: expected True or heads"),
        ({"heads": True, "method": "captum"}, r'heads with method="captum": .* Use method="exact"'),
    ],
)
def test_heads_that_cannot_be_given_are_refused(options: dict[str, Any], text: str) -> None:
    """Before the model runs, by both calls, with what there is."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 5)
    ran: list[Tensor] = []
    hooks = [("blocks.0.hook_in", lambda tensor, hook: ran.append(tensor))]
    for call in (
        lambda: contribution_maps(model, tokens, fwd_hooks=hooks, **options),
        lambda: decompose(model, tokens, layer=0, fwd_hooks=hooks, **options),
    ):
        with pytest.raises(InputError, match=text):
            call()
    assert not ran


def test_maps_without_heads_say_so() -> None:
    """Asked for heads that nobody kept, a result names the call that keeps them."""
    maps = contribution_maps(model_of("gpt2"), tiny.tokens("gpt2", 3), layers=0)
    for read in (
        lambda: maps.heads["Atb", 0],
        lambda: maps.token_maps("Atb", heads=True),
        lambda: maps.to_dataframe(heads=True),
    ):
        with pytest.raises(ScopeKeyError, match="made without.*heads=True"):
            read()
    with pytest.raises(InputError, match=r"decompose\(model, input, layer=..., heads=True\)"):
        decompose(model_of("gpt2"), tiny.tokens("gpt2", 3), layer=0).heads("Atb")
