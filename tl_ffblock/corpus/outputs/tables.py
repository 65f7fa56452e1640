"""Finished shards -> tables, figures, example pages and the report."""

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from tl_ffblock.corpus.outputs.report import Example, report_page
from tl_ffblock.corpus.running.shards import Shards
from tl_ffblock.corpus.running.store import Store, StoredShard
from tl_ffblock.corpus.running.worker import Worker
from tl_ffblock.corpus.study import PageWriter, Tables
from tl_ffblock.errors import FFBlockError
from tl_ffblock.files import write_atomically
from tl_ffblock.results.figures import STYLE, sign

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    stored = [store.read(number) for number in shards.numbers]
    measured = [shard for shard in stored if shard.meta["sequences"]]
    summary = _summary(shards, stored)
    tables: Tables = {"problems": _problems(shards, stored)}
    if worker.tokenise.mask_fraction:
        tables["masked"] = _masked(worker, stored)
    figures: dict[str, Figure] = {}
    for study in worker.studies if measured else ():
        own_tables = study.tables(measured)
        tables |= {f"{study.name}_{name}": table for name, table in own_tables.items()}
        for name, figure in study.figures(own_tables).items():
            sign(figure, signature(worker.facts.name, worker.config.data, summary))
            figures[f"{study.name}_{name}"] = figure
    writers = {kind: writer for study in worker.studies for kind, writer in study.pages.items()}
    with store.lock("tables"), _explained(store.folder):
        store.check_mine()
        for folder in ("tables", "figures", *writers):
            (store.folder / folder).mkdir(exist_ok=True)
        _clear_leftovers(store.folder, writers)
        for name, table in tables.items():
            _write_table(store.folder / "tables" / name, table)
        pictures = {name: _write_figure(store.folder / "figures" / name, figure) for name, figure in figures.items()}
        examples = _write_examples(worker, shards, store.folder, writers)
        report = store.folder / "report.html"
        fingerprint = json.loads((store.folder / "run.json").read_text("utf-8"))["fingerprint"]
        page = report_page(worker, fingerprint, summary, tables, pictures, examples)
        write_atomically(report, page.encode())
        write_atomically(store.folder / "summary.json", json.dumps(summary, indent=1).encode())
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


def _clear_leftovers(folder: Path, pages: Iterable[str]) -> None:
    """Remove the temporary files of a process that was killed here; nobody else is at them, the lock is held."""
    folders = (f"{name}/.*" for name in ("tables", "figures", *pages))
    for pattern in (*folders, ".report.html.*", ".summary.json.*"):
        for path in folder.glob(pattern):
            path.unlink()


def _problems(shards: Shards, stored: Sequence[StoredShard]) -> pd.DataFrame:
    read = [asdict(problem) for problem in shards.problems]
    measured = [problem for shard in stored for problem in shard.meta["problems"]]
    return pd.DataFrame([*read, *measured], columns=["stage", "where", "why"])


def _masked(worker: Worker, stored: Sequence[StoredShard]) -> pd.DataFrame:
    """What stood where the model read a mask token."""
    rows = [mask | {"token": worker.facts.label(mask["token"])} for shard in stored for mask in shard.meta["masked"]]
    return pd.DataFrame(rows, columns=["sequence", "where", "position", "token"])


def _summary(shards: Shards, stored: Sequence[StoredShard]) -> dict[str, Any]:
    def total(name: str) -> int:
        return sum(shard.meta[name] for shard in stored)

    errors = [shard.meta["completeness"] for shard in stored if shard.meta.get("completeness") is not None]
    return {
        "sequences": total("sequences"),
        "tokens": total("tokens"),
        "masked": sum(len(shard.meta["masked"]) for shard in stored),
        "cut": total("cut"),
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


def _write_table(path: Path, table: pd.DataFrame) -> None:
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    write_atomically(path.with_suffix(".parquet"), buffer.getvalue())
    write_atomically(path.with_suffix(".csv"), table.to_csv(index=False, lineterminator="\n").encode())


def _write_figure(path: Path, figure: "Figure") -> tuple[Path, Path]:
    import matplotlib as mpl

    files = path.with_suffix(".png"), path.with_suffix(".svg")
    with mpl.rc_context(STYLE):
        for file in files:
            buffer = io.BytesIO()
            metadata = {"Date": None} if file.suffix == ".svg" else {"Software": None}
            figure.savefig(buffer, format=file.suffix[1:], metadata=metadata)
            write_atomically(file, buffer.getvalue())
    return files


def _write_examples(
    worker: Worker, shards: Shards, folder: Path, writers: Mapping[str, PageWriter]
) -> dict[str, list[Example]]:
    """Write pages of the first sequences that are not there yet; returns those of each kind."""
    examples: dict[str, list[Example]] = {kind: [] for kind in writers}
    if not worker.config.examples:
        return examples
    texts = (text for _, shard in shards.texts(set(shards.numbers)) for text in shard)
    for number, text in enumerate(islice(texts, worker.config.examples), start=1):
        for kind, write in writers.items():
            file = folder / kind / f"example-{number}.html"
            try:
                tokenised = worker.tokenise(text)
                if not file.is_file():
                    write(worker.model, tokenised, file)
            except FFBlockError:
                continue  # the sequence is among the problems already
            examples[kind].append(Example(file.name, text.text, len(tokenised.masked)))
    return examples
