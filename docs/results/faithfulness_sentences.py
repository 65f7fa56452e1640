"""What faithfulness.md says in words: sentences that are written only if the tables beside it bear them out."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from docs.markdown import claim, interval, number
from docs.results.faithfulness_tables import FOLDER, REFERENCES, SETS, stored

LRP, GIM, FIRST, SECOND = "AttnLRP", "GIM", "hidden keys", "path + hidden keys"
OF_SMOLLM2 = [name for name in SETS if name != "sst2"]
SHORT = ("sva", "ioi", "known", "wikitext")
Row = Mapping[str, Any]


def means(measure: str, removal: str = "mask") -> pd.DataFrame:
    """Means [method, set]."""
    rows = stored().query("measure == @measure and removal == @removal")
    return rows.pivot(index="method", columns="set", values="mean")


def minus(measure: str, removal: str = "mask") -> dict[tuple[str, str], Row]:
    """`path` minus a method, by set and method."""
    rows = stored("faithfulness_differences").query("measure == @measure and removal == @removal")
    return {(row["set"], row["method"]): row for row in rows.to_dict("records")}


def rules() -> dict[tuple[str, str, str], Row]:
    """Rules in pairs on the same prompts, by set, method and what is taken from it; a mean where that is empty."""
    return {(row["set"], row["method"], row["minus"]): row for row in stored("faithfulness_rule").to_dict("records")}


def in_short() -> str:
    """The findings of the page."""
    parts = (
        _predicts_masking,
        _path_is_first,
        _attnlrp,
        _exceptions,
        _cause,
        _components,
        _lengths,
        _own_rule,
        _exactness,
    )
    return "\n".join(f"- {part()}" for part in parts)


def said_of_rules() -> str:
    """What came of the two rules that were chosen on BLiMP."""
    return "\n".join(f"- {part()}" for part in (_first_choice, _second_choice, _other_measures))


def _predicts_masking() -> str:
    short = means("correlation").loc[[SECOND, GIM, LRP, "path"], list(SHORT)].mean(axis=1)
    return claim(
        f'**What masking a token of a short prompt does is predicted best by "{SECOND}"**, `token_attributions` of `rules="path"` plus '
        f'`attribute(..., rules="patching", of="masking").masking`: correlation {number(short[SECOND])} in the mean over four sets, '
        f"{GIM} {number(short[GIM])}, {LRP} {number(short[LRP])}, `path` {number(short['path'])}.",
        short[SECOND] > short[GIM] > short[LRP] > short["path"],
    )


def _path_is_first() -> str:
    tables = [means("correlation"), means("correlation", "mean"), means("area")]
    orders = [table.dropna().mean(axis=1).sort_values(ascending=False).index for table in tables]
    differences = [row for (_, method), row in minus("correlation").items() if method not in (LRP, GIM, FIRST, SECOND)]
    differences = [row for row in differences if row["method"] != "leave one out"]
    return claim(
        "**One backward pass of `path` says more of what is needed than the other methods that were run on every set, in the mean over "
        "sets**, by correlation under both removals and by the area between the curves; most of its differences to single methods on "
        "single sets have an interval above zero. Taking out tokens one by one, a run for each, still says more in the area.",
        *(order.drop(list(REFERENCES), errors="ignore")[0] == "path" for order in orders),
        orders[2][0] == "leave one out",
        sum(row["low"] > 0 for row in differences) > len(differences) / 2,
    )


def _attnlrp() -> str:
    both = [(table.loc[LRP, OF_SMOLLM2].mean(), table.loc["path", OF_SMOLLM2].mean()) for table in _three_measures()]
    over_all = rules()["all", LRP, "path"]
    told = [f"{number(lrp)} and {number(path)}" for lrp, path in both]
    return claim(
        f"**Where both ran, AttnLRP is ahead of `path`** by {_signed(over_all)} in correlation over all {over_all['n']} prompts together, "
        "at one backward pass as well; it was not run on MiniLM, so that the means above are without it. Their means over the six sets "
        f"of SmolLM2: correlation {told[0]}, by `mean` {told[1]}, area {told[2]}.",
        over_all["low"] > 0,
        *(lrp > path for lrp, path in both),
    )


def _three_measures() -> list[pd.DataFrame]:
    return [means("correlation"), means("correlation", "mean"), means("area")]


def _exceptions() -> str:
    correlation, area = minus("correlation"), minus("area")
    ahead = ("gradient norm", "ALTI", "patching")
    others = (LRP, GIM, FIRST, SECOND, "leave one out")
    behind = {key for key, row in correlation.items() if row["high"] < 0 and key[1] not in others}
    of_area = ", ".join(f"{name} {_signed(area['ioi', name])}" for name in ("patching", "gradient norm", "ALTI"))
    on_agreement = correlation["sva", "patching"]
    return claim(
        "**Not everywhere.** On indirect objects the norm of the gradient and ALTI, which have no sign, are ahead of `path` by "
        "correlation, and so is `patching`: what goes through queries and keys `path` leaves aside, since patterns are frozen. By area "
        f"the same prompts say the reverse, or nothing: `path` minus {of_area}. On agreement `patching` is as good by correlation, on "
        "facts and on WikiText's beginnings it is behind.",
        behind == {("ioi", name) for name in ahead},
        all(area["ioi", name]["low"] > 0 for name in ("patching", "gradient norm")),
        area["ioi", "ALTI"]["low"] < 0 < area["ioi", "ALTI"]["high"],
        on_agreement["low"] < 0 < on_agreement["high"],
        min(correlation[name, "patching"]["low"] for name in ("known", "wikitext")) > 0,
    )


def _cause() -> str:
    cause = means("cause")
    facts = cause["known"]
    return claim(
        "**The known cause is another question.** The last layer's attention finds the subject of an agreement more often than any "
        "attribution; at the end of a fact's subject ALTI-Logit is above chance, and `path` is at chance.",
        cause["sva"].idxmax() == "last layer's attention",
        facts.idxmax() == "ALTI-Logit",
        facts["ALTI-Logit"] > facts["random"] + 0.1,
        abs(facts["path"] - facts["random"]) < 0.02,
    )


def _components() -> str:
    rows = {(row["estimate"], row["measure"]): row for row in stored("faithfulness_components").to_dict("records")}
    plain, own, path = "attribution patching (gradient)", "patching rules", "path rules"
    steps, own_steps = "EAP-IG inputs (gradient 5 steps)", "patching rules (5 steps)"

    def told(estimate: str, measure: str) -> str:
        row = rows[estimate, measure]
        return interval((row["mean"], row["low"], row["high"]))

    def mean(estimate: str, measure: str) -> float:
        return float(rows[estimate, measure]["mean"])

    ranks = ("heads top 10 %", "heads rho of sizes")
    by_steps = [number(mean(name, measure)) for name in (steps, own_steps) for measure in ranks]
    return claim(
        f"**Of heads, feed-forwards and the residual stream no estimate is best at all.** The plain gradient ranks the sizes of heads best "
        f"(rho {told(plain, ranks[1])}) and says little of feed-forwards (r {told(plain, 'feed-forward r')}). Our rules are better there "
        f"(`path` {told(path, 'feed-forward r')}), and by Pearson's r `patching` is ahead of the gradient on heads too "
        f"({told(own, 'heads r')} and {told(plain, 'heads r')}). Five steps along the way from the clean to the corrupted run mend r of "
        f"feed-forwards and of the residual stream, at more than three times the cost, but not the ranks of heads: top tenth and rho are "
        f"{by_steps[0]} and {by_steps[1]} with the gradient, {by_steps[2]} and {by_steps[3]} with `patching`. All this is of "
        f"{rows[plain, 'heads r']['n']} pairs that are one sentence with other names.",
        all(mean(plain, rank) == max(mean(name, rank) for name, m in rows if m == rank) for rank in ranks),
        mean(plain, "feed-forward r") < 0.5 < 0.9 < mean(path, "feed-forward r"),
        rows[own, "heads r"]["low"] > rows[plain, "heads r"]["high"],
        min(mean(name, measure) for name in (steps, own_steps) for measure in ("feed-forward r", "residual r")) > 0.89,
        max(mean(name, rank) for name in (steps, own_steps) for rank in ranks) < 0.75,
        mean(steps, "seconds") > 3 * mean(plain, "seconds"),
    )


def _lengths() -> str:
    path, of_rules = means("correlation").loc["path"], rules()
    of_lengths = [path[name] for name in ("wikitext", "wikitext64", "wikitext128")]
    longer = [of_rules[name, rule, "path"] for name in ("wikitext64", "wikitext128") for rule in (LRP, FIRST, SECOND)]
    return claim(
        "**Longer texts tell less, and the best methods are level there.** Of 12, 64 and 128 tokens of WikiText `path` correlates at "
        f"{number(of_lengths[0])}, {number(of_lengths[1])} and {number(of_lengths[2])}; AttnLRP and the rules of our own are not ahead "
        f"of it at 64 or 128, of which there are few prompts ({longer[0]['n']} and {longer[-1]['n']}).",
        of_lengths == sorted(of_lengths, reverse=True),
        all(row["low"] < 0 < row["high"] for row in longer),
    )


def _own_rule() -> str:
    of_rules = rules()
    ahead = [of_rules["all", SECOND, "path"], of_rules["all", LRP, SECOND]]
    return claim(
        "**A rule of our own is ahead of `path` and of AttnLRP** at which token is needed in short prompts, by some hundredths of "
        "correlation over all prompts together; not on agreement, not in longer texts, not by area on indirect objects, and at more "
        "than twice the cost ([below](#a-rule-of-our-own)).",
        ahead[0]["low"] > 0 > ahead[1]["high"],
        of_rules["sva", SECOND, "path"]["low"] < 0 and of_rules["sva", LRP, SECOND]["high"] > 0,
        minus("area")["ioi", SECOND]["low"] > 0,
        2.25 < _cost_ratio().min() < _cost_ratio().max() < 3,
    )


def _exactness() -> str:
    table = means("correlation")
    return claim(
        "**Completeness does not imply faithfulness.** The rollout of our own exact maps is below chance on facts and on WikiText.",
        *(table.loc["rollout of maps", name] < table.loc["random", name] for name in ("known", "wikitext")),
    )


def _first_choice() -> str:
    of_rules = rules()
    over_all = of_rules["all", FIRST, "path"]
    rows = pd.read_csv(FOLDER / "faithfulness_dev.csv").query("removal == 'mask'")
    order = rows.groupby("candidate")["mean"].mean().sort_values(ascending=False).index
    promised = rows.query("candidate == 'hidden at once, path' and target == 'most probable'").iloc[0]
    return claim(
        f"**The first choice is not better than `path`**: {_signed(over_all)} over all prompts; ahead on WikiText, behind on indirect "
        f"objects. What BLiMP promised for the most probable token ({number(promised['difference'], 2, '+')}) has come to "
        f"{number(of_rules['wikitext', FIRST, 'path']['mean'], 2, '+')} on WikiText.",
        set(order[:2]) == {"hidden at once, path", "tokens of path + hidden at once of patching"},
        promised["difference low"] > 0,
        over_all["low"] < 0 < over_all["high"],
        of_rules["ioi", FIRST, "path"]["high"] < 0 < of_rules["wikitext", FIRST, "path"]["low"],
    )


def _second_choice() -> str:
    of_rules = rules()
    second, lrp, between = (of_rules["all", *pair] for pair in ((SECOND, "path"), (LRP, "path"), (LRP, SECOND)))
    longer = [_signed(of_rules[name, SECOND, "path"]) for name in ("wikitext64", "wikitext128")]
    ahead = {name for name in SHORT if of_rules[name, SECOND, "path"]["low"] > 0}
    ahead_of_lrp = {name for name in SHORT if of_rules[name, LRP, SECOND]["high"] < 0}
    return claim(
        f"**The second is**, by {_signed(second)} over all prompts, where AttnLRP is by {_signed(lrp)}; AttnLRP minus the second is "
        f"{_signed(between)}. On single sets its difference from `path` has an interval above zero on indirect objects, facts and "
        f"WikiText's beginnings, not on agreement and not at 64 or 128 tokens ({', '.join(longer)}); its difference from AttnLRP on "
        "indirect objects and facts.",
        min(second["low"], lrp["low"]) > 0 > between["high"],
        ahead == {"ioi", "known", "wikitext"},
        ahead_of_lrp == {"ioi", "known"},
    )


def _other_measures() -> str:
    by_mean, area, differences = means("correlation", "mean"), means("area"), minus("correlation", "mean")
    told = [
        f"{number(by_mean.loc[SECOND, name])}, `path` {number(by_mean.loc['path', name])}"
        for name in ("ioi", "wikitext")
    ]
    return claim(
        f"Removal by `mean` says the same of indirect objects ({told[0]}) and WikiText ({told[1]}), and nothing of agreement and facts. "
        f"By area the second is behind `path` on indirect objects ({number(area.loc[SECOND, 'ioi'])} and "
        f"{number(area.loc['path', 'ioi'])}): it predicts single tokens, and several at once less well there.",
        [name for name in SHORT if differences[name, SECOND]["high"] < 0] == ["ioi", "wikitext"],
        [name for name in SHORT if area.loc[SECOND, name] < area.loc["path", name]] == ["ioi"],
    )


def _cost_ratio() -> "pd.Series[float]":
    """What the second rule costs, in costs of `path`, by set."""
    rows = stored().query("measure == 'cost'").pivot(index="method", columns="set", values="mean")
    return (rows.loc[SECOND] / rows.loc["path"]).dropna()


def _signed(row: Row) -> str:
    return interval((row["mean"], row["low"], row["high"]), 2, "+")


BLOCKS = {"faithfulness-in-short": in_short, "faithfulness-rules-said": said_of_rules}
