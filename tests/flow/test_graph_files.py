"""A flow graph as JSON, table and networkx graph, and what is refused."""

import builtins
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests import tiny

Models = Callable[..., Any]
N = 5


@pytest.fixture
def graph(ffb: ModuleType, model_of: Models) -> Any:
    """A small graph with a target that is a token and one that is none."""
    direction = ffb.direction(torch.ones(tiny.D_MODEL), layer=-1)
    few = ffb.flow.Pruning(1, 1, (1, 1), (1, 1))
    return ffb.flow_graph(model_of("gpt2"), tiny.tokens("gpt2", N), target=[7, direction], pruning=few)


def test_what_is_saved_is_loaded(ffb: ModuleType, graph: Any, tmp_path: Path) -> None:
    """All but the vectors, NaN included, in a file that any JSON reader reads."""
    path = graph.save(tmp_path / "flow.json")
    again = ffb.flow.FlowGraph.load(path)
    assert again.vectors is None
    assert repr(again) == repr(graph)
    assert json.dumps(again.to_dict()) == json.dumps(graph.to_dict())
    assert again.edges == graph.edges
    assert [node.name for node in again.nodes] == [node.name for node in graph.nodes]


@pytest.mark.parametrize("text", ["", "[]", '{"format": "other"}', '{"format": "tl_ffblock.flow/1", "nodes": [{}]}'])
def test_other_files_are_refused(ffb: ModuleType, tmp_path: Path, text: str) -> None:
    """Whatever is wrong with them, in a sentence."""
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ffb.errors.MapFileError, match=r"other\.json: not a"):
        ffb.flow.FlowGraph.load(path)


def test_tables_and_networkx_have_every_edge(graph: Any) -> None:
    """A row and an edge each, from sources to what they enter."""
    frame, network = graph.to_dataframe(), graph.to_networkx()
    assert len(frame) == len(graph.edges) == network.number_of_edges()
    assert network.number_of_nodes() == len(graph.nodes)
    assert all(source < target for source, target in network.edges)
    assert frame["size"].tolist() == [edge.size for edge in graph.edges]
    heads = network.nodes[frame[frame.source_kind == "head"].source.iloc[0]]
    assert heads["norm"] > 0


def test_without_networkx_the_error_says_what_to_install(
    ffb: ModuleType, graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An optional package, named with its command."""
    shipped = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name == "networkx":
            raise ImportError(name)
        return shipped(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ffb.errors.InputError, match="pip install networkx"):
        graph.to_networkx()


def test_what_cannot_be_drawn_is_refused(ffb: ModuleType, model_of: Models) -> None:
    """Layers with a gap, several texts, positions and numbers that are none, targets of no text."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", N)
    with pytest.raises(ffb.errors.InputError, match="expected consecutive layers"):
        ffb.flow_graph(model, tokens, layers=[0, 2])
    with pytest.raises(ffb.errors.InputError, match="one text at a time"):
        ffb.flow_graph(model, torch.stack([tokens, tokens]))
    with pytest.raises(ffb.errors.InputError, match="position"):
        ffb.flow_graph(model, tokens, position=N)
    with pytest.raises(ffb.errors.InputError, match="position=None: expected a whole number"):
        ffb.flow_graph(model, tokens, position=None)
    with pytest.raises(ffb.errors.InputError, match=r"target=\[\]"):
        ffb.flow_graph(model, tokens, target=[])
    with pytest.raises(ffb.errors.InputError, match="heads=-1"):
        ffb.flow.Pruning(heads=-1)
    with pytest.raises(ffb.errors.InputError, match="expected two numbers"):
        ffb.flow.Pruning(rows=(3,))


def test_an_edit_inside_a_layer_draws_no_wrong_graph(ffb: ModuleType, model_of: Models) -> None:
    """What attention wrote after a hook is not what its heads sum to: refused, and named."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", N)

    def double(tensor: Any, hook: object = None) -> Any:
        return 2 * tensor

    with pytest.raises(ffb.errors.CompletenessError, match="attention of layer 2 misses it"):
        ffb.flow_graph(model, tokens, target=7, fwd_hooks=[("blocks.2.hook_attn_out", double)])
