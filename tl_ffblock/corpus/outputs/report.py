"""One self-contained HTML page a run: settings, versions, figures, tables. Everything from the data is escaped."""

import base64
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from tl_ffblock.corpus.fields import texts_of
from tl_ffblock.corpus.running.worker import Worker
from tl_ffblock.corpus.study import Study, Tables

LONGEST_TABLE = 60
"""Rows of a table shown on the page; the files hold all."""


def report_page(
    worker: Worker,
    fingerprint: Mapping[str, Any],
    summary: Mapping[str, Any],
    tables: Tables,
    figures: Mapping[str, tuple[Path, Path]],
    examples: Mapping[str, Sequence[tuple[str, str]]],
) -> str:
    """Write the page, which asks nothing of any network.

    Args:
        worker: Its model, config and studies.
        fingerprint: Of the run.
        summary: Numbers of the run by name.
        tables: By `study_table`.
        figures: PNG and SVG files by `study_figure`.
        examples: Files and texts of the first sequences' pages, by the folder they are in.
    """
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(
        files("tl_ffblock.corpus.outputs").joinpath("assets/report.html").read_text("utf-8")
    )
    packages = ("transformer-lens", "torch", "numpy", "scipy", "pandas")
    sections = []
    for study in worker.studies:
        prefix = f"{study.name}_"
        sections.append(
            {
                "name": study.name,
                "about": _about(study),
                "figures": [
                    {"name": name, "data": base64.b64encode(png.read_bytes()).decode(), "svg": f"figures/{svg.name}"}
                    for name, (png, svg) in figures.items()
                    if name.startswith(prefix)
                ],
                "tables": [_table(name, table) for name, table in tables.items() if name.startswith(prefix)],
            }
        )
    return template.render(
        model=worker.facts.name,
        facts=worker.facts,
        settings=_settings(worker),
        config=worker.config,
        fingerprint=fingerprint,
        summary=summary,
        versions={**{name: version(name) for name in packages}, "python": platform.python_version()},
        sections=sections,
        problems=_table("problems", tables["problems"]),
        examples=examples,
    )


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


def _settings(worker: Worker) -> list[tuple[str, object, str]]:
    """Name, value and text of every setting, those of the studies behind their names."""
    texts = texts_of(worker.config)
    settings = [(name, getattr(worker.config, name), text) for name, text in texts.items()]
    for study, spec in zip(worker.studies, worker.specs, strict=True):
        texts = texts_of(spec.options)
        settings += [(f"{study.name}: {name}", value, texts.get(name, "")) for name, value in spec.settings().items()]
    return settings


def _table(name: str, table: pd.DataFrame) -> dict[str, Any]:
    rows = [[_cell(value) for value in row] for row in table.head(LONGEST_TABLE).itertuples(index=False)]
    numeric = [pd.api.types.is_numeric_dtype(table[column]) for column in table.columns]
    return {"name": name, "columns": list(zip(table.columns, numeric, strict=True)), "rows": rows, "total": len(table)}


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
