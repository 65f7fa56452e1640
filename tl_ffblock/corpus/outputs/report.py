"""One self-contained HTML page a run: settings, versions, figures, tables. Everything from the data is escaped."""

import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from tl_ffblock._version import __version__
from tl_ffblock.corpus.fields import texts_of
from tl_ffblock.corpus.outputs.inline_figure import DARK_COLOURS, inline_figure
from tl_ffblock.corpus.running.worker import Worker
from tl_ffblock.corpus.study import Study, Tables
from tl_ffblock.layer.scopes import STEPS
from tl_ffblock.numerals import scientific
from tl_ffblock.results.figures import COLOURS

PACKAGES = ("transformer-lens", "torch", "numpy", "scipy", "pandas")
LONGEST_TABLE = 60
"""Rows of a table shown on the page; the files hold all."""


@dataclass(frozen=True)
class Example:
    """A page about one sequence."""

    file: str
    text: str
    """As it stands in the data."""
    masked: int
    """Tokens in whose place the model read a mask."""


def report_page(
    worker: Worker,
    fingerprint: Mapping[str, Any],
    summary: Mapping[str, Any],
    tables: Tables,
    figures: Mapping[str, tuple[Path, Path]],
    examples: Mapping[str, Sequence[Example]],
) -> str:
    """Write the page, which asks nothing of any network.

    Args:
        worker: Its model, config and studies.
        fingerprint: Of the run.
        summary: Numbers of the run by name.
        tables: By `study_table`.
        figures: PNG and SVG files by `study_figure`.
        examples: Pages of the first sequences, by the folder they are in.
    """
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = files("tl_ffblock.corpus.outputs").joinpath("assets/report.html").read_text("utf-8")
    return environment.from_string(page).render(
        facts=worker.facts,
        config=worker.config,
        command=_command(worker),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        versions={
            "tl-ffblock": __version__,
            **{name: version(name) for name in PACKAGES},
            "python": platform.python_version(),
        },
        settings=_settings(worker),
        fingerprint=fingerprint,
        summary=summary,
        sections=[_section(study, tables, figures) for study in worker.studies],
        steps=STEPS[worker.facts.order],
        problems=_table("problems", tables["problems"]),
        masked=_table("masked", tables["masked"]) if "masked" in tables else None,
        mask_fraction=worker.tokenise.mask_fraction,
        mask_name=worker.tokenise.special.mask_text,
        examples=examples,
        scientific=scientific,
        series={"light": COLOURS, "dark": DARK_COLOURS},
    )


def _section(study: Study, tables: Tables, figures: Mapping[str, tuple[Path, Path]]) -> dict[str, Any]:
    """One study's part of the page."""
    prefix = f"{study.name}_"
    own_tables = {name.removeprefix(prefix): table for name, table in tables.items() if name.startswith(prefix)}
    shown = study.overview(own_tables) if own_tables else {}
    return {
        "name": study.name,
        "title": study.title,
        "about": _about(study),
        "sentences": study.sentences(own_tables) if own_tables else (),
        "overview": [_table(name, table) for name, table in shown.items()],
        "figures": [
            {
                "caption": study.captions.get(name.removeprefix(prefix), name),
                "drawing": inline_figure(svg, study.captions.get(name.removeprefix(prefix), name)),
                "svg": f"figures/{svg.name}",
            }
            for name, (_, svg) in figures.items()
            if name.startswith(prefix)
        ],
        "tables": [_table(name, table) for name, table in tables.items() if name.startswith(prefix)],
    }


def _command(worker: Worker) -> str | None:
    """The command line that makes this run; None for studies that it does not know."""
    if not all(spec.home.startswith("tl_ffblock.") for spec in worker.specs):
        return None
    words = ["tl-ffblock", "run", ",".join(study.name for study in worker.studies)]
    objects = [worker.config, *(spec.options for spec in worker.specs if is_dataclass(spec.options))]
    for options in objects:
        for field in fields(options):
            value = getattr(options, field.name)
            if value != field.default and value is not None:
                text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
                words += [f"--{field.name.replace('_', '-')}", text]
    return shlex.join(words)


def _settings(worker: Worker) -> list[tuple[str, object, str]]:
    """Name, value and text of every setting, those of the studies behind their names."""
    texts = texts_of(worker.config)
    values = vars(worker.config) | {"mask_fraction": worker.tokenise.mask_fraction}
    settings = [(name, values[name], text) for name, text in texts.items()]
    for study, spec in zip(worker.studies, worker.specs, strict=True):
        texts = texts_of(spec.options)
        settings += [(f"{study.name}: {name}", value, texts.get(name, "")) for name, value in spec.settings().items()]
    return settings


def _about(study: Study) -> list[str]:
    """The text at the head of the study's file, as paragraphs and items."""
    blocks: list[str] = []
    for line in (sys.modules[type(study).__module__].__doc__ or "").strip().splitlines():
        if not line.strip():
            blocks.append("")
        elif line.startswith("- ") or not blocks or not blocks[-1]:
            blocks.append(line.removeprefix("- "))
        else:
            blocks[-1] += f" {line.strip()}"
    return [block.replace("`", "") for block in blocks if block]


def _table(name: str, table: pd.DataFrame) -> dict[str, Any]:
    rows = [[_cell(value) for value in row] for row in table.head(LONGEST_TABLE).itertuples(index=False)]
    numeric = [pd.api.types.is_numeric_dtype(table[column]) for column in table.columns]
    return {"name": name, "columns": list(zip(table.columns, numeric, strict=True)), "rows": rows, "total": len(table)}


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
