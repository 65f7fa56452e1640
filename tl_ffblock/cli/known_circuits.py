"""`tl-ffblock known-circuits`: scores of edge, node or token estimates on compiled programs whose circuit is known."""

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tl_ffblock.cli.arguments import Command, arguments, console, say, table
from tl_ffblock.errors import InputError

if TYPE_CHECKING:
    from tl_ffblock.known_circuits import CircuitScores


def run(options: argparse.Namespace) -> None:
    """Score a method, or the package's methods, on the grid; print the table."""
    if options.pairs < 1:
        raise InputError(f"--pairs {options.pairs}: expected 1 or more.")
    method = None if options.method is None else _method(options.method)
    from tl_ffblock.known_circuits import MEASURES, PROGRAMS, grid, package_methods, score_grid

    if unknown := [name for name in options.programs or () if name not in PROGRAMS]:
        raise InputError(f"--programs {unknown[0]!r}: expected some of {', '.join(PROGRAMS)}.")
    cells = [cell for cell in grid(full=options.full) if cell[0] in (options.programs or PROGRAMS)]
    say(f"{len(cells)} cells: programs x norms x sharpness x noise x seeds")
    methods = package_methods(of=options.of) if method is None else {options.method: method}
    scores, refused = score_grid(methods, cells, of=options.of, pairs=options.pairs, store=options.csv)
    columns = {"method": False, **dict.fromkeys(MEASURES, True)}
    console().print(table("means with 95 % intervals over seeds", columns, _rows(scores)))
    say(f"{len(cells) - len(refused)} of {len(cells)} known circuits survive their settings")
    for reason in list(refused.values())[:3]:
        say(f"  {reason}")


def _rows(scores: "CircuitScores") -> Any:
    """One row per method: each measure with its interval."""
    means = scores.means()
    for method, of_method in means.groupby("method", sort=False):
        values = of_method.set_index("measure")[["value", "low", "high"]]
        cells = []
        for measure in scores.numbers:
            if measure not in values.index:
                cells.append("")
                continue
            value, low, high = values.loc[measure]
            cells.append(f"{value:.3f}" + (f" [{low:.3f}, {high:.3f}]" if low == low else ""))
        yield str(method), *cells


def _method(given: str) -> Any:
    """The function `module:function`, imported from the current folder or the environment.

    Raises:
        InputError: if there is no such module or function.
    """
    module, colon, name = given.partition(":")
    if not (module and colon and name):
        raise InputError(f"--method {given}: expected module:function.")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        found = getattr(import_module(module), name, None)
    except ImportError as error:
        raise InputError(f"--method {given}: {error}. Run in the module's folder, or install it.") from error
    if not callable(found):
        raise InputError(f"--method {given}: {module} has no function {name}.")
    return found


COMMAND = Command(
    run,
    help="score edge estimates on known circuits",
    description="Compile programs whose circuit is known by construction, verify each by exact patching of every edge, and "
    "score a method of yours, or the package's, and controls: AUROC, average precision, sign, error, false edges.",
    arguments=arguments(
        {
            "--method": {
                "metavar": "MODULE:FUNCTION",
                "help": "function(model, clean, corrupted, target) -> {(sender, receiver): number} (default: the package's methods)",
            },
            "--of": {
                "choices": ["edges", "nodes", "tokens"],
                "default": "edges",
                "help": "units with a score: edges, nodes (heads, feed-forwards) or positions of tokens (default: edges)",
            },
            "--programs": {"nargs": "+", "metavar": "NAME", "help": "some programs, such as induction (default: all)"},
            "--pairs": {
                "type": int,
                "default": 2,
                "metavar": "N",
                "help": "pairs of prompts per known circuit (default 2)",
            },
            "--full": {"action": "store_true", "help": "all kinds of pairs, LayerNorm, gated feed-forwards, 5 seeds"},
            "--csv": {"help": "append each known circuit's rows to this table; run again to continue"},
        }
    ),
)
