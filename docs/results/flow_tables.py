"""The blocks of flow.md, from the tables that flow_sample.py wrote beside it.

python docs/results/flow_tables.py     # draws flow_overlap.png of them
"""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import torch

from docs.markdown import claim, interval, number, percent, table
from tl_ffblock.results.intervals import mean_interval

HERE = Path(__file__).resolve().parent
RUN = HERE / "flow-smollm2"
THIRDS = ("layers 0-9", "layers 10-19", "layers 20-29")
DRAWN = ("largest head, attention", "head, attention", "smallest head, attention", "random vector, attention")
LAST_FIVE = 25
"""The first of the last five layers."""


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


def said_of_overlaps() -> str:
    """What the overlaps say, and what of the paper's findings they do not show."""
    means = stored("overlap").pivot_table(index="pair", columns="third", values="overlap")

    def told(pair: str) -> str:
        return ", ".join(number(value) for value in means.loc[pair])

    attention, block, final = (
        means.loc[f"largest head, {other}"] for other in ("attention", "layer output", "final output")
    )
    growing = means.loc["layer output, final output"]
    return "\n".join(
        [
            claim(
                f"- Heads with a large output say part of what attention writes ({told('largest head, attention')}), small heads next to "
                "nothing: as in the paper. It does not rise steadily with depth here.",
                attention.min() > 0.15,
                means.loc["smallest head, attention"].max() < 0.06,
                attention[1] < attention[0],
            ),
            claim(
                "- **The paper's other half is not seen here.** On GPT-2 heads come to share more with the layer's output and with the "
                "final output the deeper they are (3.1, 3.2). The largest head's overlap with the layer's output is "
                f"{told('largest head, layer output')} by thirds (random vectors {told('random vector, layer output')}), and does "
                f"not rise; with the final output it is {told('largest head, final output')} "
                f"({told('random vector, final output')}), so that the rise is of a few "
                "hundredths. What rises is the overlap of the layer's output itself with the final one: "
                f"{told('layer output, final output')}.",
                block.max() - block.min() < 0.02,
                block.max() < 0.1,
                final[0] < final[1] < final[2] < 0.05,
                growing[0] < growing[1] < growing[2],
            ),
            claim(
                "- Queries and keys have no more overlap than random vectors have: "
                f"{told('query, key attended most')} and {told('random vector, random vector')}. The paper reports almost none, with a "
                "program that projected queries with the transposed matrix on GPT-2; with `W_K q` the finding holds on this model.",
                (means.loc["query, key attended most"] < means.loc["random vector, random vector"] + 0.01).all(),
            ),
            claim(
                f"- Attention and feed-forward of a layer say different things ({told('attention, feed-forward')}); single neurons hardly "
                f"say what their feed-forward says ({told('memory, feed-forward')}).",
                means.loc["attention, feed-forward"].max() < 0.1,
                means.loc["memory, feed-forward"].max() < 0.11,
            ),
        ]
    )


SAMPLES = ("facts", "wrong answers", "random tokens")


def _of_pairs(column: str) -> pd.DataFrame:
    """Means of a column of `more` by pair, sample and third of the layers."""
    return stored("more").pivot_table(index="pair", columns=["sample", "third"], values=column, sort=False)


def more() -> str:
    """`I_50` of pairs on facts, on facts answered wrongly and on random tokens, by third of the layers."""
    means = _of_pairs("overlap")[list(SAMPLES)]
    rows = [
        [str(pair), *(number(value, 3) for value in of_pair)]
        for pair, of_pair in zip(means.index, means.to_numpy(), strict=True)
    ]
    return table(["pair", *(f"{sample}, {third}" for sample in SAMPLES for third in THIRDS)], rows)


def similar() -> str:
    """The same pairs on facts with similar tokens counted, beside `I_50`."""
    frame = stored("more")
    frame["similar"] = pd.to_numeric(frame["similar"])
    means = frame.query("sample == 'facts'").dropna(subset="similar")
    wide = means.pivot_table(index="pair", columns="third", values=["overlap", "similar"], sort=False)
    rows = [
        [str(pair), *(number(row[name, third]) for name in ("overlap", "similar") for third in range(3))]
        for pair, row in wide.iterrows()
    ]
    return table(["pair", *(f"{name}, {third}" for name in ("I_50", "similar tokens") for third in THIRDS)], rows)


def said_of_more() -> str:
    """Heads without W_O, the controls, attention and its past, the answer along depth, and what values say of their tokens."""
    means = _of_pairs("overlap")

    def told(pair: str, sample: str = "facts") -> str:
        return ", ".join(number(value) for value in means.loc[pair, sample])

    bare, noise = (means.loc[f"{name}, attention", "facts"].max() for name in ("head without W_O", "random vector"))
    heads, outputs = "largest head, layer output", "layer output, final output"
    wrong = (means["wrong answers"] - means["facts"]).drop("layer output, without the final norm").abs()
    said = [percent(value) for value in means.loc["token that is read, active neuron", "facts"]]
    return "\n".join(
        [
            claim(
                "- Heads without W_O (each head's numbers at their own place, read as a vector of the stream) share "
                f"{told('head without W_O, attention')} with attention by thirds, random vectors {told('random vector, attention')}: "
                "chance, as in the paper.",
                bare < noise + 0.02,
            ),
            claim(
                "- **Facts answered wrongly** (the paper's control, Fig. 13) hardly differ: the largest difference of a pair's mean is "
                f"{number(wrong.to_numpy().max())}. Random tokens are another control: there the largest head shares "
                f"{told(heads, 'random tokens')} with the layer's output, on facts {told(heads)}; the layer's output shares "
                f"{told(outputs, 'random tokens')} with the final one, on facts {told(outputs)}.",
                wrong.to_numpy().max() < 0.15,
            ),
            said_of_depth(),
            "- Attention shares "
            f"{told('attention, layer input')} with the stream that it is added to, {told('attention, layer output')} with the layer's "
            f"output, and {told('attention, attention of the layer before')} with the attention of the layer before (Fig. 15, 16). The "
            "paper reports high similarity of the last two on GPT-2.",
            said_of_values(),
            f"- The ten most active neurons have the token that is read at the last position among their 50 in {', '.join(said)} by "
            f"thirds, and share {told('active neuron, what the feed-forward reads')} with what the feed-forward reads.",
            f"- Read without the final norm, a layer's output shares {told('layer output, without the final norm')} with its own reading.",
        ]
    )


def said_of_depth() -> str:
    """Probability of the model's answer at the layers' outputs, right against wrong."""
    means = stored("depth").pivot_table(index="sample", columns="third", values="probability")
    right, wrong = (", ".join(number(value, 3) for value in means.loc[sample]) for sample in SAMPLES[:2])
    return claim(
        f"- **Right answers come late, wrong ones early** (Fig. 14): the token that the model answers has a mean probability of {right} at "
        f"the layers' outputs by thirds where it is right, and {wrong} where it is wrong, mostly a function word.",
        (means.loc["wrong answers"] > means.loc["facts"]).all(),
    )


def said_of_values() -> str:
    """Attention's values against the tokens that they are of."""
    frame = stored("values")
    wide = frame.pivot_table(index="token", columns="third", values=["probability", "among_first"])

    def told(token: str) -> str:
        return ", ".join(number(value, 4) for value in wide.loc[token, "probability"])

    first, others = (
        ", ".join(percent(value) for value in wide.loc[token, "among_first"])
        for token in ("own", "another of the prompt")
    )
    own, other, random = (wide.loc[token, "probability"] for token in ("own", "another of the prompt", "random"))
    return claim(
        f"- Attention's memory values `v_j W_O` give their own token, the one at j, a mean probability of {told('own')} by thirds, another "
        f"token of the prompt {told('another of the prompt')}, a random one {told('random')} (Fig. 18; every third layer). It is among "
        f"their 50 first in {first} of the cases, another one in {others}: above a random token, as in the paper, and above the prompt's "
        "other tokens from the second third on.",
        (own > random).all(),
        (own > other)[1:].all(),
    )


def norm_tokens() -> str:
    """The tokens whose probability rises and falls most at the norms."""
    frame = stored("norm_tokens")
    rows = []
    for (norm, third), part in frame.groupby(["norm", "third"], sort=False):
        cells = []
        for _, of_side in part.groupby("side", sort=False):
            cells.append(
                ", ".join(f"`{_plain(row.token)}` {number(100 * row.change, 1, '+')}" for row in of_side.itertuples())
            )
        rows.append([str(norm), THIRDS[int(str(third))], *cells])
    return table(["norm before", "", "gain most, points", "lose most, points"], rows)


def _plain(token: object) -> str:
    return str(token).replace("|", "").replace("`", "").strip() or "(space)"


def rogue() -> str:
    """Whether always-on neurons write to the stream's largest dimensions."""
    frame = stored("rogue")
    rows = [
        [f"{row.layer}:{row.neuron}", str(row.dimensions), percent(row.share), percent(row.of_others)]
        for row in frame.itertuples()
    ]
    more = int((frame["share"] > 2 * frame["of_others"]).sum())
    said = (
        f"Of these {len(frame)} neurons {more} write more than twice as much as the median neuron to the three dimensions of the stream "
        "that are largest at their layer (rogue dimensions), by squared size of the value:"
    )
    return "\n".join(
        [said, "", table(["neuron", "largest dimensions", "of its value", "of the median neuron's"], rows)]
    )


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


def said_of_alignment() -> str:
    """Which value a head says."""
    frame = stored("alignment")
    attended, largest = (frame.groupby("third")[column].mean() for column in ("most_attended", "largest"))
    last = frame.query("third == 2")["to_first"].mean()
    return claim(
        f"The most attended value has it in {percent(attended.min())[:-2]} to {percent(attended.max())} of the heads by thirds, as in "
        "the paper; "
        f"the one with the largest norm after weighting has it in {percent(largest.min())[:-2]} to {percent(largest.max())}. In the last "
        "third "
        f"the most attended token is the first of the text in {percent(last)} of the cases. Its value is small, so the two differ.",
        attended.min() > 0.5,
        (largest > attended).all(),
        last > 0.5,
    )


def norms() -> str:
    """Probability of function words in what a vector says, before and after a norm, and with its gain shuffled."""
    rows = []
    for (norm, third), part in stored("norms").groupby(["norm", "third"], sort=True):
        cells = [percent(part[column].mean()) for column in ("before", "after", "shuffled", "kept", "kept_shuffled")]
        changes = [_change(str(norm), int(third), column) for column in ("after", "shuffled")]
        told = [interval(change[:3], 1, "+", 100) for change in changes]
        rows.append([str(norm), THIRDS[int(third)], *cells[:2], told[0], cells[2], told[1], *cells[3:]])
    head = ["norm before", "", "before", "after", "change, points", "shuffled gain", "its change, points"]
    return table([*head, "top word stays", "with the gain shuffled"], rows)


def _change(norm: str, third: int, column: str) -> tuple[float, float, float, int, int]:
    """Change of the probability over prompts: mean, interval, in how many prompts it falls, and of how many."""
    of_norm = stored("norms").query("norm == @norm and third == @third")
    change = (of_norm[column] - of_norm["before"]).groupby(of_norm["prompt"]).mean()
    mean = mean_interval(torch.from_numpy(change.to_numpy(copy=True)))
    return float(mean.mean), float(mean.low), float(mean.high), int((change < 0).sum()), len(change)


def said_of_norms() -> str:
    """Where function words fall."""
    after = [_change("attention", third, "after") for third in range(3)]
    shuffled = [_change("attention", third, "shuffled") for third in range(3)]
    fed = [_change("feed-forward", third, "after") for third in range(3)]
    points = [number(-100 * change[0], 0) for change in after]
    return claim(
        "Function words fall after the norm before attention, in the first and the last third of the layers by much "
        f"({points[0]} and {points[2]} points), in the middle third by {number(-100 * after[1][0], 1)} only, in {after[1][3]} of "
        f"{after[1][4]} prompts; with the gain shuffled they fall in the first third alone, and less: the paper's semantic filter, here in "
        "the gain. Before the feed-forward they fall in the first third alone.",
        min(-after[0][0], -after[2][0]) > 0.05 > -after[1][0],
        all(high < 0 for _, _, high, _, _ in after),
        after[0][0] < shuffled[0][0] and shuffled[0][2] < 0 < min(shuffled[1][2], shuffled[2][2]),
        fed[0][2] < 0 < min(fed[1][2], fed[2][2]),
    )


def said_of_always_on() -> str:
    """Which layers have such neurons, and what they are like."""
    frame = stored("always_on").query("above_90 > 0")
    late, early = frame[frame["layer"] >= LAST_FIVE], frame[frame["layer"] < LAST_FIVE]
    longer = frame[frame["norm_ratio"] >= 1]
    uncertain = late[late["entropy"] > late["entropy_of_others"]]
    counts = {2: "two", 3: "three", 4: "four", 5: "five"}
    return claim(
        f"The last {counts[len(late)]} layers have some, as in the paper, up to {counts[late['above_90'].max()]} in a layer; "
        f"{counts[len(early)]} earlier layers ({', '.join(map(str, early['layer']))}) have one each, where the cut at 90 % decides which. "
        "Against the paper their values are shorter than the median neuron's, but for "
        f"{', '.join(f'{row.layer}:{row.neuron} ({number(row.norm_ratio)})' for row in longer.itertuples())}, and of the "
        f"{counts[len(late)]} late ones listed only {counts[len(uncertain)]} have a reading of higher entropy. What most of them say is "
        "punctuation or rare pieces.",
        list(late["layer"]) == [25, 26, 27, 28, 29],
        (early["above_90"] == 1).all(),
        len(longer) == 1,
    )


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
                f"L{layer}H{head}",
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


def said_of_ioi() -> str:
    """Which heads are name movers, and what the head with the largest share is."""
    frame = stored("ioi")
    means = frame.groupby(["layer", "head"]).mean(numeric_only=True)
    means["share"] = frame.groupby(["layer", "head"])["share"].median()
    mover, passing, negative, quiet, first = (means.loc[at] for at in ((23, 0), (29, 1), (24, 4), (29, 0), (23, 3)))
    return "\n".join(
        [
            claim(
                f"- `L23H0` is a name mover as described for GPT-2: its attention to the right name is {number(mover['attention'])}, and "
                "it "
                f"says this name in {percent(mover['says_right'])} of the prompts. `L29H1` says the right name "
                f"({percent(passing['says_right'])}) without attention to it: it writes what was moved to the last position before.",
                mover["attention"] > 0.5 and mover["says_right"] > 0.5,
                passing["attention"] < 0.01 and passing["says_right"] > 0.9,
            ),
            claim(
                f"- `L24H4` and `L29H0` are negative name movers: `L24H4` attends to the right name ({number(negative['attention'])}), and "
                f"both write against it ({percent(negative['against_right'])} and {percent(quiet['against_right'])}).",
                negative["attention"] > 0.5 and min(negative["against_right"], quiet["against_right"]) > 0.5,
                max(negative["share"], quiet["share"]) < 0,
            ),
            claim(
                f"- **The largest share, {number(first['share'], sign='+')}, is of a head that is neither.** `L23H3` says no name. It "
                "hardly "
                f"attends to the right name ({number(first['attention'])}), and in {percent(first['against_wrong'])} of the prompts it "
                "writes *against the wrong one*. A picture of what a vector promotes does not show this.",
                means["share"].idxmax() == (23, 3),
                first["says_right"] == first["says_wrong"] == 0,
                first["attention"] < 0.1 and first["against_wrong"] > 0.9,
            ),
        ]
    )


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
    "overlaps-said": said_of_overlaps,
    "more": more,
    "more-said": said_of_more,
    "similar": similar,
    "norm-tokens": norm_tokens,
    "rogue": rogue,
    "alignment-said": said_of_alignment,
    "alignment": alignment,
    "norms": norms,
    "norms-said": said_of_norms,
    "always": always_on,
    "always-said": said_of_always_on,
    "ioi": ioi,
    "ioi-said": said_of_ioi,
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
