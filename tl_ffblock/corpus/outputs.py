# Noun: report of a study, with its tables and figures.
"""Tables, figures, example pages and the report of a study run, from its finished shards. The report is one self-contained HTML page.

A figure is a file. In the page it is an SVG with the page's colours and font, so that it follows the page's colour scheme:

1. Colours of figures become variables of the page's style sheet (`VARIABLES`); other colours stay as they are. Matplotlib omits
   black, so the page sets it for the whole drawing.
2. The font is the page's. Matplotlib laid the text out in a wider one, with anchors at the right places.
3. A name that the drawing refers to gets the figure's name as a prefix, since figures share one document; other names are
   removed.

All data in the page is escaped.
"""

import hashlib
import io
import json
import platform
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2
import matplotlib as mpl
import pandas as pd

from tl_ffblock._version import __version__
from tl_ffblock.corpus.settings import declared_fields
from tl_ffblock.corpus.shards import Shards
from tl_ffblock.corpus.store import Store, StoredShard
from tl_ffblock.corpus.study import PageWriter, Study, Tables
from tl_ffblock.corpus.worker import Worker
from tl_ffblock.errors import FFBlockError, MapFileError
from tl_ffblock.files import read_json, write_atomically, write_table
from tl_ffblock.layer.scopes import STEPS
from tl_ffblock.numerals import scientific
from tl_ffblock.results.figures import COLOURS, STYLE, sign

PACKAGES = ("transformer-lens", "torch", "numpy", "scipy", "pandas")
MANIFEST = "manifest.json"
"""List of a run's files with their digests."""
LONGEST_TABLE = 60
"""Largest number of a table's rows on the page; the files have all rows."""
DARK_COLOURS = ("#3f9be0", "#f0ad2e", "#21b589", "#dc8fba", "#8ed1f7", "#f0773a", "#a9b1ba", "#f2e96b")
"""Colours of figures in the dark scheme, in the order of `COLOURS`."""
VARIABLES = {
    "#000000": "--ink",
    "#17202a": "--ink",
    "#5b6672": "--grey",
    "#b0b0b0": "--line",
    "#cccccc": "--line",
    "#ffffff": "--paper",
    **{colour.lower(): f"--series-{number}" for number, colour in enumerate(COLOURS)},
}
"""Page variable of each colour of a figure: text, signature, grids and frames, background, series."""
PIXELS_OF_AN_INCH = 130
"""Pixels per inch of figures on the page: their smallest letters are ten pixels high."""
LEAST_SCALE = 0.75
"""Smallest scale of a figure; on a narrower page it scrolls."""
LAYER = re.compile(r"\b(layer )(\d+)\b(?!\.\d)")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


@dataclass(frozen=True)
class Outputs:
    """Tables, figures and report in a run's folder."""

    tables: Tables
    """Tables by `study_table`."""
    figures: tuple[Path, ...]
    report: Path
    summary: dict[str, Any]
    """Number of sequences and tokens, and of masked, cut, failed and unreadable ones; `completeness`, the worst error of all maps
    (None without maps)."""


def write_outputs(worker: Worker, shards: Shards, store: Store) -> Outputs:
    """Merge all shards in order, and write tables, figures, example pages and report.

    The same shards give the same bytes of every table.

    Raises:
        OSError: if the folder cannot be written.
    """
    stored = store.read(shards.numbers)
    measured = [shard for shard in stored if shard.meta["sequences"]]
    summary = _summary(shards, stored)
    tables: Tables = {"problems": _problems(shards, stored)}
    if worker.tokenise.mask_fraction:
        tables["masked"] = _masked(worker, stored)
    figures = {}
    for study in worker.studies if measured else ():
        own_tables = study.tables(measured)
        tables |= {f"{study.name}_{name}": table for name, table in own_tables.items()}
        for name, figure in study.figures(own_tables).items():
            sign(figure, signature(worker.facts.name, worker.config.source, summary))
            figures[f"{study.name}_{name}"] = figure
    writers = {kind: writer for study in worker.studies for kind, writer in study.pages.items()}
    with store.lock("tables"), _explained(store.folder):
        store.check_mine()
        for folder in ("tables", "figures", *writers):
            (store.folder / folder).mkdir(exist_ok=True)
        written = [
            path for name, table in tables.items() for path in _write_table(store.folder / "tables" / name, table)
        ]
        pictures = {name: _write_figure(store.folder / "figures" / name, figure) for name, figure in figures.items()}
        examples = _write_examples(worker, shards, store.folder, writers)
        page = _page(worker, store, summary, tables, pictures, examples).encode("utf-8", "backslashreplace")
        report = write_atomically(store.folder / "report.html", page)
        written += [report, write_atomically(store.folder / "summary.json", json.dumps(summary, indent=1).encode())]
        written += [path for pair in pictures.values() for path in pair]
        written += [store.folder / kind / page["file"] for kind, pages in examples.items() for page in pages]
        _write_manifest(store.folder, written)
    return Outputs(tables, tuple(path for pair in pictures.values() for path in pair), report, summary)


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Context that adds the consequence for the run to an OSError."""
    try:
        yield
    except OSError as error:
        raise OSError(
            error.errno,
            f"{error.strerror}: tables and report of {folder} could not be written. Finished shards are kept: "
            "run the same command again",
        ) from error


def _problems(shards: Shards, stored: Sequence[StoredShard]) -> pd.DataFrame:
    measured = [problem for shard in stored for problem in shard.meta["problems"]]
    return pd.DataFrame([*map(asdict, shards.problems), *measured], columns=["stage", "where", "why"])


def _masked(worker: Worker, stored: Sequence[StoredShard]) -> pd.DataFrame:
    rows = [mask | {"token": worker.facts.label(mask["token"])} for shard in stored for mask in shard.meta["masked"]]
    return pd.DataFrame(rows, columns=["sequence", "where", "position", "token"])


def _summary(shards: Shards, stored: Sequence[StoredShard]) -> dict[str, Any]:
    errors = [shard.meta["completeness"] for shard in stored if shard.meta.get("completeness") is not None]
    return {
        "sequences": sum(shard.meta["sequences"] for shard in stored),
        "tokens": sum(shard.meta["tokens"] for shard in stored),
        "masked": sum(len(shard.meta["masked"]) for shard in stored),
        "cut": sum(shard.meta["cut"] for shard in stored),
        "failed": sum(len(shard.meta["problems"]) for shard in stored),
        "unreadable": shards.unreadable,
        "completeness": max(errors, default=None),
    }


def signature(model: str, data: str, summary: Mapping[str, Any]) -> str:
    """Signature of a figure: model, data file, and number of sequences and tokens from the run's summary."""
    alone = summary["sequences"] == 1
    texts = "1 sequence (of one text: no standard error)" if alone else f"{summary['sequences']} sequences"
    masked = f", {summary['masked']} masked" if summary["masked"] else ""
    return f"{model} · {Path(data).name} · {texts}, {summary['tokens']} tokens{masked}"


def _write_manifest(folder: Path, written: Sequence[Path]) -> None:
    """Write the list of the run's files with their digests; other files in its folders are not the run's."""
    digests = {path.relative_to(folder).as_posix(): _digest(path) for path in sorted(written)}
    write_atomically(folder / MANIFEST, json.dumps(digests, indent=1).encode())


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write_table(path: Path, table: pd.DataFrame) -> tuple[Path, Path]:
    parquet = write_atomically(path.with_suffix(".parquet"), table.to_parquet(index=False))
    return parquet, write_table(path.with_suffix(".csv"), table)


def _write_figure(path: Path, figure: Any) -> tuple[Path, Path]:
    written = path.with_suffix(".png"), path.with_suffix(".svg")
    with mpl.rc_context(STYLE):
        for file, changing in zip(written, ("Software", "Date"), strict=True):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=file.suffix[1:], metadata={changing: None})
            write_atomically(file, buffer.getvalue())
    return written


def _write_examples(
    worker: Worker, shards: Shards, folder: Path, writers: Mapping[str, PageWriter]
) -> dict[str, list[dict[str, Any]]]:
    """Write pages of the first sequences, unless they are unchanged; returns the pages of each kind."""
    known = _known(folder)
    examples: dict[str, list[dict[str, Any]]] = {kind: [] for kind in writers}
    texts = (text for _, shard in shards.texts(set(shards.numbers)) for text in shard)
    for number, text in enumerate(islice(texts, worker.config.examples), start=1):
        for kind, write in writers.items():
            file = folder / kind / f"example-{number}.html"
            try:
                tokenised = worker.tokenise(text)
                if not file.is_file() or known.get(f"{kind}/{file.name}") != _digest(file):
                    write(worker.model, tokenised, file)
            except FFBlockError:
                continue  # the table of problems has the sequence
            examples[kind].append({"file": file.name, "text": text.text, "masked": len(tokenised.masked)})
    return examples


def _known(folder: Path) -> dict[str, str]:
    """Manifest of an earlier run in this folder; empty if there is no readable one."""
    try:
        return dict(read_json(folder / MANIFEST))
    except (FileNotFoundError, MapFileError, TypeError, ValueError):
        return {}


def _page(
    worker: Worker,
    store: Store,
    summary: Mapping[str, Any],
    tables: Tables,
    figures: Mapping[str, tuple[Path, Path]],
    examples: Mapping[str, Sequence[Mapping[str, Any]]],
) -> str:
    """The report as HTML, without any network access; `figures` are PNG and SVG files by `study_figure`."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page = files("tl_ffblock.corpus").joinpath("assets/report.html").read_text("utf-8")
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
        fingerprint=read_json(store.folder / "run.json")["fingerprint"],
        summary=summary,
        sections=[_section(study, tables, figures) for study in worker.studies],
        linked=linked,
        first_page=next((f"maps/{example['file']}" for example in examples.get("maps", ())), ""),
        steps=STEPS[worker.facts.order],
        problems=shown_table("problems", tables["problems"]),
        masked=shown_table("masked", tables["masked"]) if "masked" in tables else None,
        mask_fraction=worker.tokenise.mask_fraction,
        mask_name=worker.tokenise.special.mask_text,
        examples=examples,
        scientific=scientific,
        series={"light": COLOURS, "dark": DARK_COLOURS},
    )


def _section(study: Study, tables: Tables, figures: Mapping[str, tuple[Path, Path]]) -> dict[str, Any]:
    prefix = f"{study.name}_"
    own = {name.removeprefix(prefix): table for name, table in tables.items() if name.startswith(prefix)}
    drawn = []
    for name, (_, svg) in figures.items():
        if name.startswith(prefix):
            caption = study.captions.get(name.removeprefix(prefix), name)
            drawn.append({"caption": caption, "drawing": inline_figure(svg, caption), "svg": f"figures/{svg.name}"})
    return {
        "name": study.name,
        "title": f"{study.title} ({study.repeats})" if study.repeats else study.title,
        "about": _about(study),
        "sentences": study.sentences(own) if own else (),
        "overview": [shown_table(*each) for each in (study.overview(own) if own else {}).items()],
        "figures": drawn,
        "tables": [shown_table(f"{prefix}{name}", table) for name, table in own.items()],
    }


def _command(worker: Worker) -> str | None:
    """Command line of this run; None if it cannot set the options of a study outside this package, or the data is not a string."""
    own = [spec for spec in worker.specs if not spec.home.startswith("tl_ffblock.")]
    if any(spec.options is not None for spec in own) or not isinstance(worker.config.data, str):
        return None
    studies = (spec.home if spec in own else spec.study_class.name for spec in worker.specs)
    words = ["tl-ffblock", "run", ",".join(studies)]
    for options in (worker.config, *(spec.options for spec in worker.specs if spec.options is not None)):
        for field in fields(options):
            value = getattr(options, field.name)
            if value != field.default and value is not None:
                text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
                words += [f"--{field.name.replace('_', '-')}", text]
    return shlex.join(words)


def _settings(worker: Worker) -> list[tuple[str, object, str]]:
    """Name, value and help text of every setting; those of studies have the study's name as a prefix."""
    values = vars(worker.config) | {"data": worker.config.source, "mask_fraction": worker.tokenise.mask_fraction}
    settings = [(name, values[name], text) for name, text in _texts(worker.config).items()]
    for study, spec in zip(worker.studies, worker.specs, strict=True):
        texts = _texts(spec.options)
        settings += [(f"{study.name}: {name}", value, texts.get(name, "")) for name, value in spec.settings().items()]
    return settings


def _texts(options: object) -> dict[str, str]:
    return {field.name: field.text for field in declared_fields(type(options).__module__, type(options).__name__)}


def _about(study: Study) -> list[str]:
    """Docstring of the study's module, as paragraphs and list items."""
    blocks: list[str] = []
    for line in (sys.modules[type(study).__module__].__doc__ or "").strip().splitlines():
        if not line.strip():
            blocks.append("")
        elif line.startswith("- ") or not blocks or not blocks[-1]:
            blocks.append(line.removeprefix("- "))
        else:
            blocks[-1] += f" {line.strip()}"
    return [block.replace("`", "") for block in blocks if block]


def shown_table(name: str, table: pd.DataFrame) -> dict[str, Any]:
    """A table for the report: columns and whether they are numeric, first rows, number of rows, whether all values are zero."""
    rows = [
        [f"{value:.4g}" if isinstance(value, float) else str(value) for value in row]
        for row in table.head(LONGEST_TABLE).itertuples(index=False)
    ]
    numeric = [pd.api.types.is_numeric_dtype(table[column]) for column in table.columns]
    measured = table.select_dtypes("float").to_numpy()
    zeros = measured.size > 0 and not (abs(measured) > 0).any()
    columns = list(zip(table.columns, numeric, strict=True))
    return {"name": name, "columns": columns, "rows": rows, "total": len(table), "zeros": zeros}


def linked(sentence: str, page: str) -> str:
    """A sentence as HTML in which "layer 5" links to a page of maps at that layer.

    Args:
        sentence: The sentence.
        page: Path of that page from the report; empty adds no links.
    """
    text = escape(sentence)
    return LAYER.sub(rf'<a href="{escape(page)}#layer=\2">\1\2</a>', text) if page else text


def inline_figure(svg: Path, label: str) -> dict[str, Any]:
    """Inline SVG element of a figure for a page, and its width in pixels.

    Args:
        svg: SVG file of Matplotlib.
        label: Text for screen readers.
    """
    root = ElementTree.fromstring(svg.read_bytes())
    values = [(key, value) for element in root.iter() for key, value in element.attrib.items()]
    names = {value[1:] for key, value in values if key.endswith("href")}
    names |= {name for _, value in values for name in _REFERENCE.findall(value)}
    _clear(root, names, svg.stem)
    width = round(float(root.attrib["width"].removesuffix("pt")) / 72 * PIXELS_OF_AN_INCH)
    style = f"min-width: {round(LEAST_SCALE * width)}px"
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": label, "style": style}
    return {"svg": ElementTree.tostring(root, encoding="unicode"), "width": width}


def _clear(element: ElementTree.Element, names: set[str], prefix: str) -> None:
    """Adapt an element and its children to the page, in place: no namespaces, page variables, names of this figure only."""
    element.tag = _local(element.tag)
    if element.tag != "text" and not (element.text or "").strip():
        element.text = None
    attributes = {_local(key): value for key, value in element.attrib.items()}
    if attributes.get("id") in names:
        attributes["id"] = f"{prefix}-{attributes['id']}"
    else:
        attributes.pop("id", None)
    if "href" in attributes:
        attributes["href"] = f"#{prefix}-{attributes['href'][1:]}"
    for key, value in attributes.items():
        value = _REFERENCE.sub(rf"url(#{prefix}-\1)", value)
        attributes[key] = _in_page_style(value) if key == "style" else value
    element.attrib = attributes
    for child in list(element):
        if _local(child.tag) in ("metadata", "style"):
            element.remove(child)
        else:
            child.tail = child.tail if (child.tail or "").strip() else None
            _clear(child, names, prefix)


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _in_page_style(style: str) -> str:
    coloured = re.sub(
        r"#[0-9a-f]{6}\b", lambda found: f"var({VARIABLES[found[0]]})" if found[0] in VARIABLES else found[0], style
    )
    return re.sub(r"(font: [^;']*?[\d.]+px)[^;]*", r"\1 var(--font)", coloured)
