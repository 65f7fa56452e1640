"""The blocks of README.md on attribution methods and cost, from the tables of minilm-methods."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd

from docs.markdown import table

FOLDER = Path(__file__).resolve().parent / "minilm-methods"


def methods() -> str:
    """Other ways to share out the activation, against Integrated Gradients in closed form; then against exact Shapley values."""
    agreement = pd.read_csv(FOLDER / "attribution-methods_agreement.csv")
    time = pd.read_csv(FOLDER / "attribution-methods_time.csv")
    titles = {
        "ig": "closed form",
        "captum": "captum",
        "shapley": "exact Shapley",
        "sampling": "sampling",
        "kernel": "kernel",
    }
    rows = []
    for method, title in titles.items():
        of_method, cells = agreement[agreement["method"] == method].set_index("reference"), []
        for reference in ("ig", "shapley"):
            rho, distance = of_method.loc[reference, "map_rho"], of_method.loc[reference, "largest_difference"]
            cells += [f"{rho.mean():.3f} ({rho.min():.3f})", f"{distance.mean():.1%} ({distance.max():.1%})"]
        change = of_method.loc["ig"].set_index("layer")["change"]
        seconds = time[time["method"] == method].set_index("layer")["seconds"]
        cells += [f"{change.mean():.3f}", f"{change[0]:.2f}", f"{seconds.mean():.2f} ({seconds[1:].mean():.2f})"]
        rows.append([title, *(cell.replace("%", " %") for cell in cells)])
    head = ["method", "rank correlation with closed form, mean (least)", "largest distance from it, mean (most)"]
    head += ["rank correlation with Shapley", "largest distance from it", "change by FF", "in layer 0"]
    return table([*head, "seconds a layer (without the first)"], rows)


def seconds() -> str:
    """Seconds for all scopes and layers by length."""
    rows = pd.read_csv(FOLDER / "cost_time.csv").to_dict("records")
    cells: Iterable[Sequence[str]] = (
        (
            f"{row['tokens']:.0f}",
            *(f"{row[name]:.1f}" if row[name] == row[name] else "" for name in ("maps", "forward", "captum")),
        )
        for row in rows
    )
    return table(["tokens", "maps, s", "model alone, s", "captum, s"], cells)


BLOCKS: dict[str, Callable[[], str]] = {"methods": methods, "seconds": seconds}
