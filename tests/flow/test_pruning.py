"""What a flow graph shows of many: the largest, and both ends of signed numbers."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from tests import tiny
from tl_ffblock.flow import Pruning
from tl_ffblock.flow.pruning import ends, largest


def test_the_largest_come_first() -> None:
    """As many as are asked for or are there; of None all, in their order."""
    sizes = torch.tensor([0.5, 3.0, 0.1, 2.0])
    assert largest(sizes, 2).tolist() == [1, 3]
    assert largest(sizes, 9).tolist() == [1, 3, 0, 2]
    assert largest(sizes, None).tolist() == [0, 1, 2, 3]


def test_both_ends_and_none_twice() -> None:
    """The largest, then the most negative first; where they would overlap nothing is shown twice."""
    signed = torch.tensor([0.5, -3.0, 0.1, 2.0, -0.2])
    assert ends(signed, (2, 1)).tolist() == [3, 0, 1]
    assert ends(signed, (1, 2)).tolist() == [3, 1, 4]
    assert ends(signed, (4, 3)).tolist() == [3, 0, 2, 4, 1]
    assert ends(signed, (9, 9)).tolist() == [3, 0, 2, 4, 1]
    assert ends(signed, None).tolist() == [0, 1, 2, 3, 4]


def test_a_graph_shows_the_heads_that_write_most(ffb: ModuleType, model_of: Callable[..., Any]) -> None:
    """Of all heads of a layer those of the largest vectors have nodes, and no others."""
    model, ids = model_of("gpt2"), tiny.tokens("gpt2", 6)
    for layer in range(model.cfg.n_layers):
        whole = ffb.flow_graph(model, ids, layers=layer, target=7, pruning=Pruning(heads=None))
        pruned = ffb.flow_graph(model, ids, layers=layer, target=7, pruning=Pruning(heads=2))
        norms = {node.head: node.norm for node in whole.nodes if node.kind == "head"}
        shown = {node.head for node in pruned.nodes if node.kind == "head"}
        assert shown == set(sorted(norms, key=lambda head: -norms[head])[:2])
