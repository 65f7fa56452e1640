"""The study of docs/results/vig.md finds planted heads: one that follows a stereotype, and chooses and measures on other cases."""

import torch

from docs.results import vig_sample
from tests.heads.planted import labelled, pointing


def test_a_planted_head_of_a_stereotype_is_found() -> None:
    """A head whose row of *she* is on the nurse and whose row of *he* on the farmer has 1, one that points anywhere else 0."""
    tokens = ("the", "nurse", "asked", "the", "farmer", "pronoun")
    cases = []
    for her, him in ((1, 4), (4, 1)):
        parts = []
        for on in (her, him):
            rows = {"biased": pointing([on], 6), "even": torch.full((1, 6), 1 / 6).double(), "first": pointing([1], 6)}
            parts.append(vig_sample.preferred(labelled(rows, tokens=tokens, queries=[5]), [her], [him]))
        cases.append(parts[0] - parts[1])
    numbers = torch.stack([*cases, *cases])
    assert torch.equal(numbers[:, 0], torch.tensor([[1.0, 0.0, 0.0]] * 4).double())
    layer, channel, others = vig_sample.chosen_elsewhere(numbers)
    assert (layer, channel, others.tolist()) == (0, 0, [1.0, 1.0])


def test_a_choice_is_measured_on_cases_that_it_was_not_made_on() -> None:
    """A head that is large on even cases alone is chosen, and shown to be nothing on the odd ones."""
    numbers = torch.zeros(6, 2, 3).double()
    numbers[::2, 1, 2], numbers[:, 0, 1] = 1.0, 0.5
    layer, channel, others = vig_sample.chosen_elsewhere(numbers)
    assert (layer, channel, others.tolist()) == (1, 2, [0.0, 0.0, 0.0])
