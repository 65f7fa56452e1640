# Noun: report of a study, with its tables and figures.
"""Finished shards -> tables, figures, example pages and the report: one self-contained HTML page per run.

A figure is a file, and inside the page an SVG with the page's inks and font, so that it follows the page's scheme:

1. Colours that figures are drawn with become variables of the page's style sheet (`VARIABLES`); others stay as they are.
   Matplotlib leaves out what is black, which the page therefore sets for all of a drawing.
2. The font is the page's. Matplotlib has laid texts out in a wider one, and anchors them where they belong.
3. A name that the drawing refers to gets the figure's in front, since figures share one document; other names go.

Everything from the data is escaped.
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
"""The list of a run's files with their digests."""
LONGEST_TABLE = 60
"""Rows of a table shown on the page; the files hold all."""
DARK_COLOURS = ("#3f9be0", "#f0ad2e", "#21b589", "#dc8fba", "#8ed1f7", "#f0773a", "#a9b1ba", "#f2e96b")
"""The colours of figures on dark paper, in the order of `COLOURS`."""
VARIABLES = {
    "#000000": "--ink",
    "#17202a": "--ink",
    "#5b6672": "--grey",
    "#b0b0b0": "--line",
    "#cccccc": "--line",
    "#ffffff": "--paper",
    **{colour.lower(): f"--series-{number}" for number, colour in enumerate(COLOURS)},
}
"""The page's variable for each colour of a figure: ink, signature, grids and frames, ground, series."""
PIXELS_OF_AN_INCH = 130
"""As large as figures are shown: their smallest letters are ten pixels high."""
LEAST_SCALE = 0.75
"""Of that size: where the page is narrower a figure is scrolled and not shrunk further."""
LAYER = re.compile(r"\b(layer )(\d+)\b(?!\.\d)")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


@dataclass(frozen=True)
class Outputs:
    """What a run left in its folder."""

    tables: Tables
    """By `study_table`."""
    figures: tuple[Path, ...]
    report: Path
    summary: dict[str, Any]
    """Sequences and tokens used, masked, cut and left out; `completeness`, the worst error of all maps, None without any."""


def write_outputs(worker: Worker, shards: Shards, store: Store) -> Outputs:
    """Merge all shards, in order, and write what people read. The same shards give the same bytes of every table.

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
    """Add to an error of the disk what it means for the run."""
    try:
        yield
    except OSError as error:
        raise OSError(
            error.errno,
            f"{error.strerror}: tables and report of {folder} could not be written; what was computed is kept, "
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
    """What a figure is of: model, file of the data, and how much of it the run's summary says was read."""
    alone = summary["sequences"] == 1
    texts = "1 sequence (of one text: no standard error)" if alone else f"{summary['sequences']} sequences"
    masked = f", {summary['masked']} masked" if summary["masked"] else ""
    return f"{model} · {Path(data).name} · {texts}, {summary['tokens']} tokens{masked}"


def _write_manifest(folder: Path, written: Sequence[Path]) -> None:
    """Write the list of the run's files with the digests of their bytes; every other file in its folders is someone else's."""
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
    """Write pages of the first sequences that are not there as they were written; returns those of each kind."""
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
                continue  # the sequence is among the problems already
            examples[kind].append({"file": file.name, "text": text.text, "masked": len(tokenised.masked)})
    return examples


def _known(folder: Path) -> dict[str, str]:
    """The manifest of an earlier writing; empty where there is none that can be read."""
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
    """The report, which asks nothing of any network; figures are PNG and SVG files by `study_figure`."""
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
        "title": study.title,
        "about": _about(study),
        "sentences": study.sentences(own) if own else (),
        "overview": [shown_table(*each) for each in (study.overview(own) if own else {}).items()],
        "figures": drawn,
        "tables": [shown_table(f"{prefix}{name}", table) for name, table in own.items()],
    }


def _command(worker: Worker) -> str | None:
    """The command line that makes this run; None where it cannot set the options of a study outside this package."""
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
    """Name, value and text of every setting, those of the studies after their names."""
    values = vars(worker.config) | {"data": worker.config.source, "mask_fraction": worker.tokenise.mask_fraction}
    settings = [(name, values[name], text) for name, text in _texts(worker.config).items()]
    for study, spec in zip(worker.studies, worker.specs, strict=True):
        texts = _texts(spec.options)
        settings += [(f"{study.name}: {name}", value, texts.get(name, "")) for name, value in spec.settings().items()]
    return settings


def _texts(options: object) -> dict[str, str]:
    return {field.name: field.text for field in declared_fields(type(options).__module__, type(options).__name__)}


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


def shown_table(name: str, table: pd.DataFrame) -> dict[str, Any]:
    """A table as the report shows it: columns and whether they are numbers, first rows, the number of all, whether all are zero."""
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
    """A sentence as HTML whose "layer 5" leads to a page of maps at that layer; the page's address from the report, empty without one."""
    text = escape(sentence)
    return LAYER.sub(rf'<a href="{escape(page)}#layer=\2">\1\2</a>', text) if page else text


def inline_figure(svg: Path, label: str) -> dict[str, Any]:
    """Make of an SVG file of Matplotlib an element of a page, and its width in pixels where there is room.

    Args:
        svg: The file.
        label: Its text for those who do not see it.
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
    """Turn an element and all in it into the page's: no namespaces, its variables, names of this figure alone."""
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
