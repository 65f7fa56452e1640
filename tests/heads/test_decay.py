"""Distance-decaying dimensions: planted ones are found, slopes are least squares, and an edit changes them as predicted."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tests.tolerances import FLOAT32
from tl_ffblock.errors import InputError
from tl_ffblock.heads import DistanceDecay, distance_decay
from tl_ffblock.heads.decay import turned_together

N, LAYER, HEAD = 10, 1, 1


def setting(name: str, dimension: int, values: Tensor, head: int = HEAD) -> tuple[str, Any]:
    """A hook that sets one dimension of one head's queries or keys, by position."""

    def put(tensor: Tensor, hook: object = None) -> Tensor:
        changed = tensor.clone()
        changed[:, :, head, dimension] = values.to(changed)
        return changed

    return f"blocks.{LAYER}.attn.hook_{name}", put


def row_of(decay: DistanceDecay, dimensions: str) -> Any:
    """The planted head's."""
    frame = decay.to_dataframe().set_index(["layer", "head", "dimensions"])
    return frame.loc[(LAYER, HEAD, dimensions)]


def test_a_planted_linear_decay_is_found_and_its_edit_moves_it_as_predicted() -> None:
    """q = 3 and k = j / 2 in one dimension: ln attention falls by 1.5 scale per token; without them the head has the rest."""
    model, texts = model_of("gpt2"), torch.stack([tiny.tokens("gpt2", N, seed) for seed in range(3)])
    planted = [setting("q", 2, torch.full((N,), 3.0)), setting("k", 2, torch.arange(N) / 2)]
    decay = distance_decay(model, texts, fwd_hooks=planted)
    steepest = decay.to_dataframe().nsmallest(1, "value").iloc[0]
    assert (steepest.layer, steepest["head"], steepest.dimensions) == (LAYER, HEAD, "2")
    (scale,) = ffb.attention_scores(model, texts[0], layers=LAYER).scale
    assert steepest.value == pytest.approx(-1.5 * scale, rel=1e-5) and steepest.correlation == pytest.approx(-1)
    edited = distance_decay(model, texts, fwd_hooks=[*planted, setting("q", 2, torch.zeros(N))])
    moved = (edited.whole - decay.whole)[:, LAYER, HEAD]
    torch.testing.assert_close(moved, -decay.by_text[:, LAYER, HEAD, 2], **FLOAT32)


def test_a_rotary_pair_is_one_and_its_edit_before_the_rotation_moves_it_as_predicted() -> None:
    """q = (4, 0), k = (1, 0) at every position: 4 scale cos(0.1 (i - j)), by least squares with a constant for each row."""
    model, text, n = model_of("llama"), tiny.tokens("llama", 16), 16
    ones = torch.ones(n)
    key_head = HEAD * tiny.N_KV // tiny.N_HEADS
    planted = [setting("q", 1, 4 * ones), setting("q", 5, 0 * ones)]
    planted += [setting("k", 1, ones, key_head), setting("k", 5, 0 * ones, key_head)]
    decay = distance_decay(model, text, fwd_hooks=planted)
    assert decay.dimensions == ((0, 4), (1, 5), (2, 6), (3, 7))
    distances = np.array([[i - j, i] for i in range(n) for j in range(i)])
    (scale,) = ffb.attention_scores(model, text, layers=LAYER).scale
    terms = 4 * scale * np.cos(0.1 * distances[:, 0])
    assert row_of(decay, "1+5").value == pytest.approx(least_squares(distances, terms), rel=1e-4)
    without = [*planted, setting("q", 1, 0 * ones)]
    moved = (distance_decay(model, text, fwd_hooks=without).whole - decay.whole)[0, LAYER, HEAD]
    assert float(moved) == pytest.approx(-row_of(decay, "1+5").value, rel=1e-4)


def test_a_figure_has_dimensions_in_the_tables_order() -> None:
    """Not in that of the alphabet, where "10" comes before "9", with the numbers of each in its column."""
    decay = distance_decay(model_of("llama"), tiny.tokens("llama", N), layers=[LAYER])
    decay = dataclasses.replace(decay, dimensions=((9,), (10,), (2,), (1,)))
    place = decay.figure(width=6.8).axes[0]
    assert [label.get_text() for label in place.get_xticklabels()] == ["9", "10", "2", "1"]
    np.testing.assert_allclose(np.asarray(place.images[0].get_array()), decay.values[0].numpy())


def least_squares(distances: np.ndarray, values: np.ndarray) -> float:
    """The slope beside a constant of every row, by numpy."""
    design = np.concatenate([distances[:, :1], np.eye(distances[:, 1].max() + 1)[distances[:, 1]]], axis=1)
    return float(np.linalg.lstsq(design, values, rcond=None)[0][0])


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "mistral"])
def test_slopes_are_least_squares_of_products_and_sum_to_that_of_attention(family: str) -> None:
    """Of every head, special positions left out, in a window too; correlation is that of residuals."""
    model, text = model_of(family), tiny.tokens(family, N)
    decay, scores = distance_decay(model, text, special=[0, -1]), ffb.attention_scores(model, text)
    for layer, head in [(0, 0), (1, 3)]:
        pattern = scores.pattern[layer, head].double()
        pairs = [(i, j) for i in range(1, N - 1) for j in range(1, N - 1) if i != j and pattern[i, j] > 0]
        distances = np.array([[abs(i - j), i] for i, j in pairs])
        logarithms = np.array([float(pattern[i, j].log()) for i, j in pairs])
        products = np.array([scores.products(layer, head, i, j).double().numpy() for i, j in pairs])
        expected = [least_squares(distances, products[:, list(group)].sum(axis=1)) for group in decay.dimensions]
        np.testing.assert_allclose(decay.by_text[0, layer, head], expected, rtol=1e-4, atol=1e-7)
        slope = least_squares(distances, logarithms)
        np.testing.assert_allclose(float(decay.whole[0, layer, head]), slope, rtol=1e-4, atol=1e-7)
        assert sum(expected) == pytest.approx(slope, rel=1e-4, abs=1e-7)
        rows = [distances[:, 1] == i for i in range(N)]
        term = products[:, list(decay.dimensions[0])].sum(axis=1)
        centred = [
            np.concatenate([v[row] - v[row].mean() for row in rows if row.any()]) for v in (distances[:, 0], term)
        ]
        assert float(decay.correlation[layer, head, 0]) == pytest.approx(np.corrcoef(*centred)[0, 1], rel=1e-3)


@pytest.mark.parametrize(("turned", "adjacent"), [(8, False), (4, False), (8, True), (4, True), (0, False)])
def test_pairs_are_told_by_what_a_rotation_keeps(turned: int, adjacent: bool) -> None:
    """Both arrangements, of all dimensions or some; learned positions change a length and are none."""
    every = np.arange(turned)
    pairs = every.reshape(-1, 2) if adjacent else every.reshape(2, -1).T
    query = np.tile(np.random.default_rng(0).normal(size=(3, 8)), (20, 1, 1))
    for (a, b), frequency in zip(pairs, 10.0 ** -np.arange(len(pairs)), strict=True):
        cosine, sine = (f(frequency * np.arange(20))[:, None] for f in (np.cos, np.sin))
        first, second = query[..., a].copy(), query[..., b].copy()
        query[..., a], query[..., b] = cosine * first - sine * second, sine * first + cosine * second
    expected = (*((int(a), int(b)) for a, b in pairs), *((d,) for d in range(turned, 8)))
    assert turned_together(torch.from_numpy(query)) == expected
    assert turned_together(torch.from_numpy(query * np.linspace(1, 2, 20)[:, None, None])) is None


def test_partial_rotations_are_seen() -> None:
    """Phi turns four of eight."""
    decay = distance_decay(model_of("phi"), tiny.tokens("phi", 6))
    assert decay.dimensions == ((0, 2), (1, 3), (4,), (5,), (6,), (7,))


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (None, {"special": [0, 1, 2, 3, 4]}, "6 tokens, 5 of them special"),
        (2, {}, "2 tokens, 0"),
    ],
)
def test_texts_without_distances_are_refused(given: Any, options: Any, said: str) -> None:
    """No query has two keys at different distances."""
    text = tiny.tokens("gpt2", given or 6)
    with pytest.raises(InputError, match=said):
        distance_decay(model_of("gpt2"), text, **options)
