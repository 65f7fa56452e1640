"""Finished shards -> tables, figures, example pages and the report."""

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from tl_ffblock.contributions import contribution_maps
from tl_ffblock.corpus.outputs.report import report
from tl_ffblock.corpus.running.shards import Plan
from tl_ffblock.corpus.running.store import Shard, Store
from tl_ffblock.corpus.running.worker import Worker
from tl_ffblock.corpus.study import Tables
from tl_ffblock.errors import FFBlockError
from tl_ffblock.results.figures import STYLE
from tl_ffblock.results.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLE_TOKENS = 32
"""Tokens of an example at most: what the page draws fast and a reader takes in."""


@dataclass(frozen=True)
class Finished:
    """What a run left in its folder."""

    tables: Tables
    """By `experiment_table`."""
    figures: tuple[Path, ...]
    report: Path
    summary: dict[str, Any]
    """Sequences and tokens used, left out and cut."""


def finish(worker: Worker, plan: Plan, store: Store) -> Finished:
    """Merge all shards, in order. The same shards give the same bytes of every table.

    Raises:
        OSError: if the folder cannot be written.
    """
    shards = [store.read(number) for number in range(plan.n_shards)]
    measured = [shard for shard in shards if shard.meta["sequences"]]
    problems = _problems(plan, shards)
    summary = _summary(plan, shards)
    tables: Tables = {"problems": problems}
    figures: dict[str, Figure] = {}
    for experiment in worker.experiments if measured else ():
        own = experiment.tables(measured)
        tables |= {f"{experiment.name}_{name}": table for name, table in own.items()}
        figures |= {f"{experiment.name}_{name}": figure for name, figure in experiment.figures(own).items()}
    with store.lock("tables"), _told(store.folder):
        for folder in ("tables", "figures", "maps"):
            (store.folder / folder).mkdir(exist_ok=True)
        _clear_leftovers(store.folder)
        for name, table in tables.items():
            _write_table(store.folder / "tables" / name, table)
        pictures = {name: _write_figure(store.folder / "figures" / name, figure) for name, figure in figures.items()}
        pages = _examples(worker, plan, store.folder / "maps")
        page = store.folder / "report.html"
        fingerprint = json.loads((store.folder / "run.json").read_text("utf-8"))["fingerprint"]
        write_atomically(page, report(worker, fingerprint, summary, tables, pictures, pages).encode())
        write_atomically(store.folder / "summary.json", json.dumps(summary, indent=1).encode())
    return Finished(tables, tuple(path for pair in pictures.values() for path in pair), page, summary)


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Has errors of the disk say what is lost: nothing that was computed."""
    try:
        yield
    except OSError as error:
        raise OSError(
            error.errno,
            f"{error.strerror}: tables and report of {folder} could not be written; what was computed is kept, "
            "run the same command again",
        ) from error


def _clear_leftovers(folder: Path) -> None:
    """Remove the temporary files of a process that was killed here; nobody else is at them, the lock is held."""
    for pattern in ("tables/.*", "figures/.*", "maps/.*", ".report.html.*", ".summary.json.*"):
        for path in folder.glob(pattern):
            path.unlink()


def _problems(plan: Plan, shards: Sequence[Shard]) -> pd.DataFrame:
    read = [asdict(problem) for problem in plan.problems]
    found = [problem for shard in shards for problem in shard.meta["problems"]]
    return pd.DataFrame([*read, *found], columns=["stage", "where", "why"])


def _summary(plan: Plan, shards: Sequence[Shard]) -> dict[str, Any]:
    def total(name: str) -> int:
        return sum(shard.meta[name] for shard in shards)

    return {
        "sequences": total("sequences"),
        "tokens": total("tokens"),
        "cut": total("cut"),
        "failed": sum(len(shard.meta["problems"]) for shard in shards),
        "unreadable": plan.unreadable,
    }


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


def _examples(worker: Worker, plan: Plan, folder: Path) -> dict[str, str]:
    """Pages of the first sequences' maps: file name -> text."""
    pages: dict[str, str] = {}
    wanted = worker.config.examples
    if wanted == 0:
        return pages
    sequences = (sequence for _, shard in plan.shards(set(range(plan.n_shards))) for sequence in shard)
    for number, sequence in enumerate(islice(sequences, wanted), start=1):
        file = folder / f"example-{number}.html"
        if not file.is_file():
            try:
                ids = torch.as_tensor(worker.encode(sequence).ids[:EXAMPLE_TOKENS])
                maps: Any = contribution_maps(worker.model.hooked, ids)
                maps.to_html(file)
            except FFBlockError:
                continue  # the sequence is among the problems already
        pages[file.name] = sequence.text
    return pages
