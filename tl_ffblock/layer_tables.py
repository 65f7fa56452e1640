"""Numbers that come layer by layer, of several sequences at a time -> tables of all layers, sequence by sequence."""

from collections.abc import Hashable, Mapping, Sequence

from torch import Tensor


class LayerTables:
    """Collects every table of every sequence with an axis of layers in front.

    Sequences that come together are kept together until the last layer has come: nothing is done a sequence and layer.
    """

    def __init__(self, layers: Sequence[int]) -> None:
        self._layers = tuple(layers)
        self._held: dict[tuple[int, ...], dict[Hashable, Tensor]] = {}
        """By the sequences that came together, tables [layer sequence ...]."""
        self._filled: dict[tuple[int, ...], list[int]] = {}
        """Rows of these tables that are there: a layer may come with other sequences together than the next."""

    def keep(self, layer: int, numbers: tuple[int, ...], tables: Mapping[Hashable, Tensor]) -> None:
        """One layer of some sequences, tables [sequence ...]."""
        row, held = self._layers.index(layer), self._held.setdefault(numbers, {})
        for key, table in tables.items():
            if key not in held:
                held[key] = table.new_empty(len(self._layers), *table.shape, device="cpu")
            held[key][row] = table
        self._filled.setdefault(numbers, []).append(row)

    def of_sequence(self, number: int) -> dict[Hashable, Tensor]:
        """The tables [layer ...] of one sequence, in memory of its own."""
        parts = [(numbers, numbers.index(number)) for numbers in self._held if number in numbers]
        (numbers, index), *others = parts
        if not others:
            alone = len(numbers) == 1
            return {
                key: table[:, index] if alone else table[:, index].clone() for key, table in self._held[numbers].items()
            }
        tables = {key: table[:, index].clone() for key, table in self._held[numbers].items()}
        for numbers, index in others:
            rows = self._filled[numbers]
            for key, table in self._held[numbers].items():
                tables[key][rows] = table[rows, index]
        return tables
