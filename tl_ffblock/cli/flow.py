"""`tl-ffblock flow TEXT`: a graph of one position in a few layers, or paths from all tokens to a target, as a page."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tl_ffblock.cli.arguments import (
    Command,
    arguments,
    check_needs,
    console,
    load,
    read_files,
    read_numbers,
    read_target,
    read_text,
    say,
    table,
    write_files,
)
from tl_ffblock.errors import InputError

if TYPE_CHECKING:
    from tl_ffblock.graphs import FlowGraph

KEEP = 0.8
"""Default fraction of edge weights on a page of paths."""
NEEDS = (("minus", ("target",)), ("routes", ("target",)), ("keep", ("routes",)), ("keep", ("html",)))
MOST = 12
"""Number of nodes in the table."""


def run(options: argparse.Namespace) -> None:
    """Read the arguments, build the graph, print its largest nodes and write the files."""
    check_needs(options, NEEDS)
    for name in ("json", "save", "layers", "all"):
        if options.routes and getattr(options, name):
            raise InputError(
                f"--{name} is for a flow graph. --routes only writes a page, of the whole model: use --html."
            )
    if options.keep is not None and not 0 < options.keep <= 1:
        raise InputError(f"--keep {options.keep:g}: expected a fraction above 0 and at most 1.")
    target = read_target(options, options.position)
    text, layers = read_text(options.text), read_numbers("--layers", options.layers, "layers such as 10,11,12")
    files = read_files(options, "html", "json", "save")
    model = load(options)
    if options.routes:
        from tl_ffblock.attribution import attribute

        assert target is not None, "--routes needs --target"
        result = attribute(model, text, target(), of="graph")
        say(str(result))
        keep = KEEP if options.keep is None else options.keep
        write_files(files, result, html=result.graph(keep).to_html)
        return
    from tl_ffblock.attribution import flow_graph
    from tl_ffblock.graphs import Pruning

    pruning = Pruning.off() if options.all else Pruning()
    metric = None if target is None else target()
    graph = flow_graph(model, text, layers=layers or [-1], position=options.position, target=metric, pruning=pruning)
    say(str(graph))
    columns = {"layer": True, "what": False, "says": False, "norm": True, "share": True}
    console().print(table("largest heads, neurons and rows", columns, _largest(graph)))
    write_files(files, graph)


COMMAND = Command(
    run,
    help="graph of the vectors at a position, or paths to a target",
    description="Run TEXT through a model and write the vectors at one position of some layers as a graph: edges into a node sum to it. "
    "Prints the nodes with the largest attribution of the target. Options write a page or JSON. --routes writes the paths through "
    "the whole model.",
    arguments=arguments(
        {
            "text": {"nargs": None},
            "--layers": {"metavar": "10,11,12", "help": "consecutive layers (default: the last one)"},
            "--position": {
                "type": int,
                "default": -1,
                "help": "position of the graph, -1 is the last (default)",
            },
            "--target": {
                "help": 'token to attribute, with its space: " Mary"; or an id, #7 (default: the most probable token)',
            },
            "--minus": {},
            "--all": {"action": "store_true", "help": "keep every head, row and neuron: for small models"},
            "--routes": {"action": "store_true", "help": "write the paths from all tokens to the target instead"},
            "--keep": {
                "type": float,
                "metavar": "X",
                "help": f"with --routes: fraction of the edge weights shown (default {KEEP})",
            },
            "--model": {},
            "--device": {},
            "--html": {},
            "--json": {"help": "write nodes and edges"},
            "--save": {"help": "write the graph, for ffb.load"},
        }
    ),
)


def _largest(graph: "FlowGraph") -> Iterator[tuple[str, ...]]:
    """Heads, neurons and rows with the largest attribution of the target, or the largest norm without a target."""
    from tl_ffblock.results.tokens import visible

    nodes = [node for node in graph.nodes if node.kind in ("head", "neuron", "row")]
    nodes.sort(key=lambda node: -abs(node.shares[0] if node.shares else node.norm))
    for node in nodes[:MOST]:
        says = " ".join(visible(token) for token in node.tokens[:3])
        yield str(node.layer), node.name, says, f"{node.norm:.3f}", f"{node.shares[0]:+.4f}" if node.shares else ""
