"""The blocks of flow.md, from the tables that flow_sample.py wrote beside it.

python docs/results/flow_tables.py     # draws flow_overlap.png of them
"""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from docs.markdown import number, percent, table

HERE = Path(__file__).resolve().parent
RUN = HERE / "flow-smollm2"
THIRDS = ("layers 0-9", "layers 10-19", "layers 20-29")
DRAWN = ("largest head, attention", "head, attention", "smallest head, attention", "random vector, attention")
FEW_NEURONS = 0.9


def stored(name: str) -> pd.DataFrame:
    """One table, with the third of the layers that a row is of."""
    frame = pd.read_csv(RUN / f"{name}.csv", keep_default_na=False)
    return frame.assign(third=frame["layer"] // 10)


def overlaps() -> str:
    """`I_50` of pairs by third of the layers."""
    frame = stored("overlap")
    means = frame.pivot_table(index="pair", columns="third", values="overlap", sort=False)
    rows = [
        [str(pair), *(number(value) for value in of_pair)]
        for pair, of_pair in zip(means.index, means.to_numpy(), strict=True)
    ]
    return table(["pair", *THIRDS], rows)


def alignment() -> str:
    """How often the value that says most of what its head says is the most attended one, or the largest."""
    rows = []
    for name, frame in (
        ("all heads", stored("alignment")),
        ("most attended token is not the first", stored("alignment").query("not to_first")),
    ):
        for third, part in frame.groupby("third"):
            cells = [percent(part[column].mean()) for column in ("most_attended", "largest")]
            rows.append([name, THIRDS[int(str(third))], str(len(part)), *cells, number(part["best_overlap"].mean())])
    return table(["heads", "", "n", "most attended", "largest `P v W_O`", "its I_50 with the head"], rows)


def norms() -> str:
    """Probability of function words in what a vector says, before and after a norm, and with its gain shuffled."""
    frame = stored("norms")
    rows = []
    for (norm, third), part in frame.groupby(["norm", "third"], sort=True):
        cells = [percent(part[column].mean()) for column in ("before", "after", "shuffled", "kept", "kept_shuffled")]
        rows.append([str(norm), THIRDS[int(third)], *cells])
    head = ["norm before", "", "before", "after", "shuffled gain", "top word stays", "with the gain shuffled"]
    return table(head, rows)


def always_on() -> str:
    """Layers with neurons that are among the hundred most active at more than nine tokens of ten."""
    frame = stored("always_on").query("above_90 > 0")
    rows = [
        [
            f"{row.layer}:{row.neuron}",
            percent(row.share),
            str(row.above_90),
            number(row.norm_ratio),
            number(row.entropy),
            number(row.entropy_of_others),
            " ".join(f"`{word}`" for word in str(row.says).replace("|", " ").replace("`", " ").split()[:4]),
        ]
        for row in frame.itertuples()
    ]
    head = [
        "neuron",
        "tokens",
        "neurons of the layer above 90 %",
        "norm over median",
        "entropy, nats",
        "of others",
        "says",
    ]
    return table(head, rows)


def ioi() -> str:
    """The heads with the largest mean shares of the logit difference, either sign."""
    frame = stored("ioi")
    rows = []
    for (layer, head), part in sorted(frame.groupby(["layer", "head"]), key=lambda item: -item[1]["share"].median()):
        cells = [
            percent(part[column].mean()) for column in ("says_right", "says_wrong", "against_right", "against_wrong")
        ]
        positive = percent((part["share"] > 0).mean())
        rows.append(
            [
                f"{layer}.{head}",
                number(part["share"].median(), sign="+"),
                positive,
                number(part["attention"].mean()),
                *cells,
            ]
        )
    head = [
        "head",
        "median share",
        "share > 0",
        "attention to the right name",
        "says right",
        "says wrong",
        "against right",
        "against wrong",
    ]
    return table(head, rows)


def sizes() -> str:
    """How many prompts and tokens there were."""
    facts, norm, words, names = stored("overlap"), stored("norms"), stored("always_on"), stored("ioi")
    return (
        f"{facts['prompts'].iloc[0]} facts for overlaps and alignment, {norm['prompt'].nunique()} for norms, "
        f"{words['positions'].iloc[0]} tokens of WikiText-2 for always-on neurons, {names['prompt'].nunique()} indirect-object prompts."
    )


BLOCKS: dict[str, Callable[[], str]] = {
    "sizes": sizes,
    "overlaps": overlaps,
    "alignment": alignment,
    "norms": norms,
    "always": always_on,
    "ioi": ioi,
}


def main() -> None:
    """Draw the figure."""
    import matplotlib.pyplot as plt

    frame = stored("overlap").pivot_table(index="layer", columns="pair", values="overlap", sort=False)
    figure, panel = plt.subplots(figsize=(7, 2.8), layout="constrained")
    for pair, ink in zip(DRAWN, ("#b35806", "#003f5c", "#6a5fc0", "0.6"), strict=True):
        panel.plot(frame.index, frame[pair], marker=".", color=ink, label=pair)
    panel.set(xlabel="layer", ylabel="I_50", ylim=(0, None))
    panel.legend(fontsize=8)
    figure.savefig(HERE / "flow_overlap.png", dpi=110)


if __name__ == "__main__":
    main()
