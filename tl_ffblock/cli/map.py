"""`tl-ffblock map TEXT`: contribution maps of a text, as a table and a page."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tl_ffblock.bridge.loading import DEFAULT, Outline, outline
from tl_ffblock.cli.arguments import (
    MODEL_HELP,
    Command,
    arguments,
    check_needs,
    choices_of,
    console,
    load,
    read_files,
    read_numbers,
    read_prompt,
    read_target,
    say,
    table,
    write_files,
)
from tl_ffblock.errors import InputError, did_you_mean
from tl_ffblock.layer.scopes import STEPS, select_scopes
from tl_ffblock.numerals import scientific

if TYPE_CHECKING:
    from tl_ffblock.page import View
    from tl_ffblock.results.maps import ContributionMaps

RANGES = "numbers and ranges such as 0,3 or 0-5 (-1 is the last {})"
CALLED = {"out": "page", "save": "maps", "csv": "table"}
"""Names of the files in the output."""


def run(options: argparse.Namespace) -> None:
    """Read the arguments, compute the maps, print the table and write the files."""
    given, target = read_prompt(options), read_target(options, options.at)
    check_needs(options, (("minus", ("target",)), ("at", ("target",))))
    view: View | None = options.view
    layers = read_numbers("--layers", options.layers, RANGES.format("layer"))
    queries = read_numbers("--queries", options.queries, RANGES.format("position"))
    scopes = read_scopes(options.scopes)
    files = read_files(options, *CALLED)
    check_against(outline(options.model), layers, scopes)
    model = load(options)
    import torch

    from tl_ffblock.contributions import contribution_maps
    from tl_ffblock.views.overview import panels

    prompt: Any = given if isinstance(given, str) else torch.tensor(given)
    choices = {name: getattr(options, name) for name in ("precision", "method", "value_bias")}
    heads = view in ("heads", "all")
    maps: ContributionMaps = contribution_maps(
        model, prompt, layers=layers, scopes=scopes, queries=queries, heads=heads, **choices
    )
    beside = panels(model, prompt, target(), maps) if target else []
    _print(maps)
    write_files(files, maps, called=CALLED, out=lambda file: maps.to_html(file, view=view, beside=beside))


COMMAND = Command(
    run,
    help="contribution maps of a text: a page and a short table",
    description="Run TEXT through a model, print the contextualization change by each component in every layer, and "
    "write a page with the maps.",
    arguments=arguments(
        {
            "text": {"help": "the text; - reads it from standard input"},
            "--tokens": {},
            "--model": {"default": DEFAULT, "help": f"{MODEL_HELP}; see `tl-ffblock models`"},
            "--layers": {"metavar": "0,3 | 0-5", "help": "layer numbers, -1 is the last (default: all)"},
            "--scopes": {
                "metavar": "A,B",
                "help": "steps of the layer that are included, e.g. Atb,AtbFf (default: all of the model's scopes)",
            },
            "--queries": {"metavar": "0,3 | 0-5", "help": "positions to decompose, -1 is the last (default: all)"},
            "--value-bias": {
                "choices": choices_of("layer", "ValueBias"),
                "default": "bias",
                "help": "attribute the value bias to the bias term (default, the paper's eq. 7) or to its token",
            },
            "--method": {
                "choices": choices_of("layer", "Method"),
                "default": "exact",
                "help": "Integrated Gradients in closed form (default) or by Captum's quadrature (slow)",
            },
            "--precision": {
                "choices": choices_of("layer", "Precision"),
                "help": "arithmetic of the decomposition (default: float32, or float64 for a model in float64)",
            },
            "--device": {},
            "--out": {
                "type": Path,
                "default": Path("map.html"),
                "metavar": "FILE.html",
                "help": "page to write (default: map.html)",
            },
            "--save": {"help": "write the numbers, for ffb.load"},
            "--view": {
                "choices": ("maps", "heads", "all", "overview"),
                "help": "opening view of the page: overview of all layers (default), maps of one layer, heads (lines between "
                "tokens) or all (every layer and head as a small map); the last two compute maps by head",
            },
            "--target": {
                "help": 'attribute the logit of a next token on the page: " Mary" with its space; or an id, #7. '
                "Needs a model that predicts tokens, such as --model smollm2",
            },
            "--minus": {"help": "with --target: token whose logit is subtracted"},
            "--at": {
                "default": None,
                "help": "with --target: position whose logits are read, -1 is the last (default)",
            },
            "--csv": {"help": "write the numbers as a table, one row per cell"},
        }
    ),
)


def read_scopes(given: str | None) -> list[str] | None:
    """Scopes of the option, None for all.

    Raises:
        InputError: for an unknown scope.
    """
    if given is None:
        return None
    scopes = [scope.strip() for scope in given.split(",")]
    known = list(dict.fromkeys(step.scope for steps in STEPS.values() for step in steps))
    for scope in scopes:
        if scope not in known:
            raise InputError(
                f"--scopes {given}: unknown scope {scope!r}. {did_you_mean(scope, known)} There are {', '.join(known)}."
            )
    return scopes


def check_against(model: Outline, layers: Iterable[int] | None, scopes: list[str] | None) -> None:
    """Refuse layers and scopes that a model does not have, before it is loaded.

    Raises:
        InputError: for such a layer or scope.
    """
    n_layers = model.n_layers
    for layer in layers or ():
        if n_layers is not None and not -n_layers <= layer < n_layers:
            raise InputError(
                f"--layers: no layer {layer} in {model.name}; there are layers 0-{n_layers - 1} (-1 is the last)."
            )
    if model.order is not None:
        select_scopes(model.order, scopes)


def _print(maps: "ContributionMaps") -> None:
    """Print the numbers that the page opens with."""
    from rich.text import Text

    from tl_ffblock.results.measures import contextualization_change
    from tl_ffblock.results.tokens import visible
    from tl_ffblock.views.maps import steps_of, steps_since

    out = console()
    say(f"{maps.model} ({maps.order}), {len(maps.tokens)} tokens", style="bold")
    out.print(Text(" ".join(visible(token) for token in maps.tokens)), overflow="ellipsis", no_wrap=True)
    changes = {
        f"{step.component}\n{step.scope}": contextualization_change(maps, step.before, step.scope).tolist()
        for step in STEPS[maps.order]
        if step.before in maps.scopes and step.scope in maps.scopes
    }
    title = "contextualization change, 1 - Spearman" if changes else None
    later = steps_since(steps_of(maps), "Atb")
    if len(later) > 1:
        changes["since\nAtb"] = contextualization_change(maps, "Atb", later[-1]).tolist()
    rows = []
    for row, layer in enumerate(maps.layers):
        worst = max(float(maps.completeness[scope, layer].max()) for scope in maps.scopes)
        rows.append((str(layer), *(f"{change[row]:.3f}" for change in changes.values()), scientific(worst)))
    out.print(table(title, dict.fromkeys(("layer", *changes, "completeness\nerror"), True), rows))
    error, scope, layer, query = maps.worst_completeness()
    say(
        f"contributions sum to the model's own activations: worst relative error {scientific(error)} ({scope}, layer {layer}, "
        f"query {query} {visible(maps.tokens[query])!r})"
    )
