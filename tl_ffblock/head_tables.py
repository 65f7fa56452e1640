"""Norms by attention head as the tables of results: what `contribution_maps(..., heads=...)` adds to its maps."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.runs import Receiver, Run
from tl_ffblock.layer.fast.buffers import Buffers
from tl_ffblock.layer.heads import AskedHeads, channel_names, head_norms, head_numbers, refuse_captum
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.scope_table import HeadTable


def heads_of_run(run: Run, asked: AskedHeads) -> tuple[int, ...]:
    """The heads asked for, of a model and with settings that can give them.

    Raises:
        InputError: if there is no such head, or the run is one of captum's.
    """
    heads = head_numbers(asked, run.model.n_heads)
    if heads:
        refuse_captum(run.settings)
    return heads


class HeadTables:
    """Keeps the norms through every head asked for, the residual last, and hands the records on; without heads, that alone.

    The tables hold all layers from the first on: nothing is held twice.
    """

    def __init__(self, run: Run, scopes: Sequence[str], asked: AskedHeads, after: Receiver) -> None:
        self.run = run
        self.scopes = tuple(scopes)
        self.heads = heads_of_run(run, asked)
        self._after = after
        self._buffers = Buffers()
        self._tables: list[dict[str, Float[Tensor, "layer channel query key"]]] = [{} for _ in run.sequences]

    def __call__(self, records: Mapping[int, LayerRecord]) -> None:
        """One layer: its norms are kept, the records are not."""
        for number, record in records.items() if self.heads else ():
            norms = head_norms(record, self.run.settings, self.scopes, self.heads, buffers=self._buffers)
            row, order, tables = (
                self.run.layers.index(record.layer),
                self.run.sequences[number].order,
                self._tables[number],
            )
            for scope, table in norms.items():
                rows = table.cpu()[:, order]
                if scope not in tables:
                    tables[scope] = rows.new_empty(len(self.run.layers), *rows.shape)
                tables[scope][row] = rows
        self._after(records)

    def added_to(self, results: Sequence[ContributionMaps]) -> list[ContributionMaps]:
        """The run's results with their heads."""
        if not self.heads:
            return list(results)
        channels = channel_names(self.heads)
        return [
            replace(maps, heads=HeadTable(tables, maps.layers, channels))
            for maps, tables in zip(results, self._tables, strict=True)
        ]
