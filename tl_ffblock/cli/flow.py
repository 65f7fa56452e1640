"""`tl-ffblock flow TEXT`: what flows through one position of a few layers, or from all tokens to a target, as a page."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tl_ffblock.cli.arguments import check_needs, check_writable, read_numbers, read_target, read_text
from tl_ffblock.cli.terminal import console, plain_table, working, written
from tl_ffblock.errors import InputError
from tl_ffblock.files import write_atomically

if TYPE_CHECKING:
    from rich.table import Table

    from tl_ffblock.graphs import FlowGraph

DESCRIPTION = (
    "Run TEXT through a model and draw what flows through one position of some layers as a graph in which what enters a node "
    "sums to it; print the nodes that carry most of the target, and write a page or JSON. --routes draws the whole model."
)
MODEL = "smollm2"
KEEP = 0.8
"""The part of the flow on a page of paths."""
NEEDS = (("minus", ("target",)), ("routes", ("target",)), ("keep", ("routes",)), ("keep", ("html",)))
MOST = 12
"""Nodes that the table names."""


def add_to(commands: Any) -> None:
    """Add the command to a parser's subcommands."""
    add = commands.add_parser("flow", help="what flows through a position, or to a target", description=DESCRIPTION)
    add.add_argument("text", metavar="TEXT", help="the prompt; - reads it from standard input")
    add.add_argument("--layers", metavar="10,11,12", help="consecutive layers (default: the last one)")
    add.add_argument("--position", type=int, default=-1, help="the position that is drawn, -1 is the last (default)")
    add.add_argument(
        "--target",
        metavar="TOKEN",
        help='a token, with its space: " Mary"; or an id, #7 (default: what the model expects)',
    )
    add.add_argument("--minus", metavar="TOKEN", help="a token whose logit is subtracted")
    add.add_argument("--all", action="store_true", help="show every head, row and neuron: for small models")
    add.add_argument("--routes", action="store_true", help="draw the paths from all tokens to the target instead")
    add.add_argument(
        "--keep", type=float, metavar="X", help=f"with --routes: the part of the flow shown (default {KEEP})"
    )
    add.add_argument(
        "--model", default=MODEL, metavar="NAME_OR_PATH", help=f"{MODEL} (default), minilm, a folder, a name"
    )
    add.add_argument("--device", default="cpu", metavar="DEVICE", help="cpu (default), cuda, cuda:1, mps")
    add.add_argument("--html", type=Path, metavar="FILE.html", help="write the page")
    add.add_argument("--json", type=Path, metavar="FILE.json", help="write nodes and edges")
    add.add_argument("--save", type=Path, metavar="FILE", help="write the graph, for FlowGraph.load")
    add.set_defaults(command=command)


def command(options: argparse.Namespace) -> None:
    """Read the arguments, draw the graph, print its largest nodes and write the files."""
    check_needs(options, NEEDS)
    for name in ("json", "save", "layers", "all"):
        if options.routes and getattr(options, name):
            raise InputError(
                f"--{name} belongs to a flow graph. --routes have a page alone, of the whole model: give --html."
            )
    if options.keep is not None and not 0 < options.keep <= 1:
        raise InputError(f"--keep {options.keep:g}: expected a part above 0, and 1 at most.")
    token, minus = read_target(options)
    text, layers = read_text(options.text), read_numbers("--layers", options.layers, "layers such as 10,11,12")
    check_writable([file for file in (options.html, options.json, options.save) if file is not None])
    with working(f"loading {options.model}"):
        from tl_ffblock.bridge.loading import load_model
        from tl_ffblock.metrics import logit

        model = load_model(options.model, device=options.device)
    target = None if token is None else logit(token, minus=minus, at=options.position)
    if options.routes:
        _routes(model, text, target, options)
        return
    from tl_ffblock.attribution import flow_graph
    from tl_ffblock.graphs import Pruning

    pruning = Pruning.off() if options.all else Pruning()
    graph = flow_graph(model, text, layers=layers or [-1], position=options.position, target=target, pruning=pruning)
    out = console()
    out.print(str(graph), markup=False, highlight=False, soft_wrap=True)
    out.print(_largest(graph))
    writers: dict[str, Any] = {"html": graph.to_html, "save": graph.save, "json": lambda file: _write_json(graph, file)}
    for kind, write in writers.items():
        if (file := getattr(options, kind)) is not None:
            write(file)
            written(out, kind, file)


def _write_json(graph: "FlowGraph", file: Path) -> None:
    write_atomically(file, json.dumps(graph.to_dict(), allow_nan=False).encode())


def _routes(model: Any, text: str, target: Any, options: argparse.Namespace) -> None:
    from tl_ffblock.attribution import attribute

    result = attribute(model, text, target, of="graph")
    out = console()
    out.print(str(result), markup=False, highlight=False, soft_wrap=True)
    if options.html is not None:
        result.graph(KEEP if options.keep is None else options.keep).to_html(options.html)
        written(out, "html", options.html)


def _largest(graph: "FlowGraph") -> "Table":
    """The heads, neurons and rows that carry most of the target, or that are largest where there is none."""
    from rich.table import Table
    from rich.text import Text

    from tl_ffblock.results.tokens import visible

    table = Table(title="largest heads, neurons and rows", **plain_table())
    for column in ("layer", "what", "says", "norm", "share"):
        table.add_column(column, justify="left" if column in ("what", "says") else "right")
    nodes = [node for node in graph.nodes if node.kind in ("head", "neuron", "row")]
    nodes.sort(key=lambda node: -abs(node.shares[0] if node.shares else node.norm))
    for node in nodes[:MOST]:
        says = Text(" ".join(visible(token) for token in node.tokens[:3]))
        share = f"{node.shares[0]:+.4f}" if node.shares else ""
        table.add_row(str(node.layer), node.name, says, f"{node.norm:.3f}", share)
    return table
