"""What removals say of methods: the labelled result of `ffb.faithfulness`, with intervals over prompts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError, brief, did_you_mean
from tl_ffblock.results.intervals import mean_interval
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    import pandas

Measure: TypeAlias = Literal["correlation", "MoRF", "LeRF", "area", "cause"]
"""correlation: Spearman's rho of a method's scores with the effects of leaving one token out, within a prompt. MoRF, LeRF: what
the target falls by, in the mean over shares, when the tokens with the most or the least (signed) score are removed together.
area: MoRF - LeRF. cause: 1 / rank of the token that is known to be the cause."""
MEASURES: tuple[Measure, ...] = get_args(Measure)
ORDERS = ("MoRF", "LeRF")


@strict
@dataclass(frozen=True, repr=False, eq=False)
class Faithfulness:
    """How well each method's scores say what happens when tokens are removed, prompt by prompt."""

    methods: tuple[str, ...]
    """Those that were given, then "leave one out", which knows the effects of single tokens, "random" and "recency"."""
    by_prompt: Mapping[Measure, Float[Tensor, "method prompt"]]
    """NaN in prompts where no method can have it: all effects equal, or no cause known; and where a method's scores vanish."""
    curves: Float[Tensor, "method order prompt share"]
    """What the target falls by without that share of the tokens: order 0 is MoRF, 1 is LeRF."""
    shares: tuple[float, ...]
    effects: tuple[Float[Tensor, " pos"], ...]
    """By prompt: what the target falls by without each token; NaN where none was removed."""
    labels: tuple[tuple[str, ...], ...]
    """By prompt its tokens."""
    values: Float[Tensor, " prompt"]
    """The target itself."""
    target: str
    removal: str
    model: str = "model"
    unranked: Mapping[str, str] = field(default_factory=dict)
    """By method whose scores have no order in a prompt: why."""

    def mean(self, measure: Measure, method: str) -> tuple[float, float, float]:
        """The mean over prompts and its 95 % interval (percentile bootstrap over prompts).

        Raises:
            InputError: for names that are not in this result.
        """
        return _summary(self._row(measure, method))

    def compare(self, measure: Measure, method: str, against: str) -> tuple[float, float, float]:
        """How much more one method has than another: the mean of the prompts' differences with its paired interval.

        Raises:
            InputError: for names that are not in this result.
        """
        return _summary(self._row(measure, method) - self._row(measure, against))

    def to_dataframe(self, *, by_prompt: bool = False) -> "pandas.DataFrame":
        """One row a method and measure: mean, low, high, n (prompts); measures that no prompt has are left out.

        Args:
            by_prompt: Whether each prompt has a row of its own: `prompt` and `value` in place of mean and interval.
        """
        import pandas as pd

        measures = [measure for measure in MEASURES if not bool(self.by_prompt[measure].isnan().all())]
        cells = [(method, measure, self._row(measure, method)) for method in self.methods for measure in measures]
        if by_prompt:
            rows = [(*names, number, value) for *names, row in cells for number, value in enumerate(row.tolist())]
            return pd.DataFrame(rows, columns=["method", "measure", "prompt", "value"]).dropna(ignore_index=True)
        summaries = [(*names, *_summary(row), int((~row.isnan()).sum())) for *names, row in cells]
        return pd.DataFrame(summaries, columns=["method", "measure", "mean", "low", "high", "n"])

    def curves_dataframe(self) -> "pandas.DataFrame":
        """One row a method, order ("MoRF", "LeRF") and share of removed tokens: mean, low, high."""
        import pandas as pd

        rows = [
            (method, order, share, *_summary(self.curves[number, at, :, column]))
            for number, method in enumerate(self.methods)
            for at, order in enumerate(ORDERS)
            for column, share in enumerate(self.shares)
        ]
        return pd.DataFrame(rows, columns=["method", "order", "share", "mean", "low", "high"])

    def __repr__(self) -> str:
        causes = not bool(self.by_prompt["cause"].isnan().all())
        shown: list[Measure] = ["correlation", "area", *(("cause",) if causes else ())]
        wide = max(map(len, self.methods))
        lines = [
            f"Faithfulness: {self.target} of {self.model} · {len(self.labels)} prompt{'s' * (len(self.labels) > 1)} · removal={self.removal!r}",
            f"  {'':{wide}}  " + "  ".join(f"{measure:>20}" for measure in shown),
        ]
        for method in self.methods:
            cells = ("{:6.2f} [{:5.2f}, {:5.2f}]".format(*self.mean(measure, method)) for measure in shown)
            lines.append(f"  {method:{wide}}  " + "  ".join(f"{cell:>20}" for cell in cells))
        for method, reason in self.unranked.items():
            without = int(self._row("area", method).isnan().sum())
            lines.append(f"  {method} is not ranked in {without} of {len(self.labels)} prompts: {reason}")
        return "\n".join(lines)

    def _row(self, measure: Measure, method: str) -> Float[Tensor, " prompt"]:
        if measure not in MEASURES:
            raise InputError(f"measure={brief(measure)}: expected one of {', '.join(map(repr, MEASURES))}.")
        if method not in self.methods:
            meant = did_you_mean(method, self.methods)
            raise InputError(
                f"method={brief(method)}: expected one of {', '.join(map(repr, self.methods))}. {meant}".rstrip()
            )
        return self.by_prompt[measure][self.methods.index(method)]


def _summary(values: Float[Tensor, " prompt"]) -> tuple[float, float, float]:
    interval = mean_interval(values[:, None])
    return float(interval.mean), float(interval.low), float(interval.high)
