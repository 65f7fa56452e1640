# Noun: benchmark of circuit discovery (Gupta et al. 2024, InterpBench; Mueller et al. 2025, MIB).
"""Scores of methods that estimate edges, nodes or tokens, against known circuits.

AUROC, average precision    of the mean absolute estimate over pairs, true edges against all others
sign                        fraction of true edges and pairs whose estimate has the sign of the exact effect
error                       sum |estimate - exact| / sum |exact| over true edges and pairs
false edges                 number of false edges that score at least as high as the lowest true one (at full recall)
noise                       fraction of the noise-only model's edges above the smallest exact effect of a true edge

Measures of nodes and tokens are the same.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tl_ffblock.attribution import attribution_patching
from tl_ffblock.errors import FFBlockError, InputError, MapFileError, brief
from tl_ffblock.files import regular_file, write_table
from tl_ffblock.known_circuits.compiler import Norm, Settings
from tl_ffblock.known_circuits.known import KnownCircuit, Of, auroc, build
from tl_ffblock.known_circuits.programs import PROGRAMS, Pair
from tl_ffblock.metrics import Metric
from tl_ffblock.progress import Progress
from tl_ffblock.result import Result
from tl_ffblock.results.intervals import N_DRAWS, PERCENTILES, bootstrap_weights
from tl_ffblock.signatures import strict

ScoreMethod: TypeAlias = Callable[[Any, Tensor, Tensor, Metric], Mapping[Any, float]]
"""`method(model, clean, corrupted, target)` with prompts [pos] returns a number by edge, such as ("L0H0", "L1H0.k"), by node, such as
"L0H0", or by position."""
MEASURES = ("AUROC", "average precision", "sign", "error", "false edges", "noise")
CONTROLS = ("exact", "exact, wrong sign", "shuffled")
"""Controls in every table: exact effects, exact effects with the opposite sign, and exact effects at shuffled edges."""
_CIRCUIT = ("program", "kind", "settings", "seed")
_LABELS = (*_CIRCUIT, "of", "pairs", "method")


@strict
@dataclass(frozen=True, repr=False, eq=False)
class CircuitScores(Result):
    """Scores of methods against known circuits, one row per method and known circuit."""

    labels: Mapping[str, tuple[str, ...]]
    """Labels of rows: "program", "kind", "settings", "seed", "of" (edges, nodes or tokens), "pairs" (their number), "method"."""
    numbers: Mapping[str, Float[Tensor, " row"]]
    """Numbers of rows by measure; NaN if not defined, as "sign" and "error" if the truth is not "clean run"."""

    @classmethod
    def of(cls, table: pd.DataFrame) -> "CircuitScores":
        """Scores from a table of `to_dataframe`.

        Args:
            table: Table with the columns of labels and measures.

        Raises:
            InputError: if the table has no rows, or lacks a column.
        """
        if missing := [name for name in (*_LABELS, *MEASURES) if name not in table]:
            raise InputError(f"a table without the column {missing[0]}: expected one of CircuitScores.")
        if table.empty:
            raise InputError("no known circuit was scored: expected one or more.")
        labels = {name: tuple(table[name].astype(str)) for name in _LABELS}
        return cls(labels, {name: torch.tensor(table[name].to_numpy(dtype=float)) for name in MEASURES})

    def to_dataframe(self) -> pd.DataFrame:
        """One row per method and known circuit."""
        return pd.DataFrame({**self.labels, **{name: column.numpy() for name, column in self.numbers.items()}})

    def means(self, by: Sequence[str] = ("method",)) -> pd.DataFrame:
        """Means of rows with 95 % bootstrap intervals over seeds: columns of `by`, measure, value, low, high, n (known circuits).

        Args:
            by: Labels by which rows are grouped.

        Raises:
            InputError: for an unknown label, or no label.
        """
        if not by or not {*by} <= {*_LABELS}:
            raise InputError(f"by={brief(by)}: expected some of {', '.join(_LABELS)}.")
        rows = []
        for key, of_group in self.to_dataframe().groupby(list(by), sort=False):
            for measure in MEASURES:
                known = of_group[["seed", measure]].dropna()
                if len(known):
                    low, high = _interval(known.groupby("seed")[measure])
                    rows.append((*key, measure, float(known[measure].mean()), low, high, len(known)))
        return pd.DataFrame(rows, columns=[*by, "measure", "value", "low", "high", "n"])

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """Means by method."""
        frame = self.means()
        lines: dict[str, object] = {}
        for method, of_method in frame.groupby("method", sort=False):
            values = of_method.set_index("measure")["value"]
            lines[str(method)] = " · ".join(f"{name} {values[name]:.3f}" for name in values.index)
        n = len(set(zip(*(self.labels[name] for name in _CIRCUIT), strict=True)))
        return f"{n} known circuits", lines


def _interval(by_seed: Any) -> tuple[float, float]:
    sums, counts = by_seed.sum().to_numpy(), by_seed.count().to_numpy()
    if len(sums) < 2:
        return float("nan"), float("nan")
    weights = bootstrap_weights(len(sums), N_DRAWS, 0)
    low, high = np.percentile(weights @ sums / (weights @ counts), PERCENTILES)
    return float(low), float(high)


@strict
def score(methods: Mapping[str, ScoreMethod], known: KnownCircuit, *, of: Of = "edges") -> pd.DataFrame:
    """Scores of methods and of controls against a known circuit, one row each.

    Args:
        methods: Methods by name. A method is called with model, clean prompt [pos], corrupted prompt [pos] and target. It returns a
            number for every edge, every node, or every position.
        known: Known circuit of `build`, or of a model of your own.
        of: Scored items: "edges"; "nodes", patched with all edges that they send; or "tokens", positions replaced by the corrupted
            prompt's token. True tokens are those that differ.

    Raises:
        InputError: if a method has a control's name, lacks an edge, has an unknown edge or a number that is not finite, or changes
            the model; for nodes or tokens of a kind whose truth is not "clean run".
    """
    if taken := [name for name in methods if name in CONTROLS]:
        raise InputError(f"methods: {brief(taken[0])} is the name of a control. Use another name.")
    true, exact = known.truth_of(of)
    shuffled = np.random.default_rng(known.seed).permutation(exact, axis=1)
    estimates = dict(zip(CONTROLS, (exact, -exact, shuffled), strict=True))
    for name, method in methods.items():
        answers = [_ask(name, method, known, pair, of) for pair in known.pairs]
        estimates[name] = np.concatenate(answers)[None] if of == "tokens" else np.stack(answers)
    signed = known.truth == "clean run"
    noise = {name: _noise_rate(name, method, known, of, true, exact) for name, method in methods.items()}
    labels = (known.program, known.kind, known.settings, str(known.seed), of, str(len(known.pairs)))
    rows = [
        (*labels, name, *_measured(true, exact, values, signed=signed), noise.get(name, float("nan")))
        for name, values in estimates.items()
    ]
    return pd.DataFrame(rows, columns=[*_LABELS, *MEASURES])


def _ask(
    name: str, method: ScoreMethod, known: KnownCircuit, pair: Pair, of: Of, model: Any = None
) -> Float[np.ndarray, " item"]:
    """A method's numbers, in the order of the model's edges or nodes, or of positions.

    Raises:
        InputError: for an answer that is not one finite number per item, or a changed model.
    """
    clean, corrupted = torch.tensor(pair.clean), torch.tensor(pair.corrupted)
    asked, tokens = known.model if model is None else model, clean[None].clone()
    before = _logits(asked, tokens)
    answer = method(asked, clean, corrupted, known.target(pair))
    if not torch.equal(before, _logits(asked, tokens)):
        raise InputError(
            f"method {name!r} leaves the model with other logits than before, so that methods after it would be scored on another "
            "model. Remove its hooks (model.reset_hooks()) and restore weights in the method."
        )
    items, one = known.items(of, pair), of.removesuffix("s")
    if not isinstance(answer, Mapping):
        raise InputError(
            f"method {name!r} returned {brief(answer)}: expected a number by {one}, {{{items[0]!r}: 0.3}}."
        )
    if missing := [item for item in items if item not in answer]:
        raise InputError(f"method {name!r} lacks {len(missing)} of {len(items)} {of}, such as {missing[0]}.")
    if unknown := set(answer) - set(items):
        raise InputError(f"method {name!r}: no {one} {brief(min(unknown, key=str))} in {known.name}.")
    for item in items:
        if not _is_finite(answer[item]):
            raise InputError(
                f"method {name!r} returned {brief(answer[item])} for {brief(item)} of {known.name}: expected finite numbers."
            )
    return np.array([float(answer[item]) for item in items])


def _is_finite(number: Any) -> bool:
    with suppress(TypeError, ValueError):
        return math.isfinite(float(number))
    return False


@torch.no_grad()
def _logits(model: Any, tokens: Int[Tensor, "1 pos"]) -> Float[Tensor, "1 pos d_vocab"]:
    logits: Tensor = model(tokens)
    return logits


def _measured(
    true: Bool[np.ndarray, " item"],
    exact: Float[np.ndarray, "pair item"],
    estimates: Float[np.ndarray, "pair item"],
    *,
    signed: bool,
) -> tuple[float, ...]:
    """All measures except that of the noise-only model; sign and error are NaN if exact effects are not signed."""
    size = np.abs(estimates).mean(axis=0)
    sign = error = float("nan")
    if signed:
        effects, estimated = exact[:, true], estimates[:, true]
        counted = np.abs(effects) > 1e-3 * np.abs(effects).max()
        sign = float((np.sign(effects) == np.sign(estimated))[counted].mean())
        error = float(np.abs(estimated - effects).sum() / np.abs(effects).sum())
    false = float((size[~true] >= size[true].min()).sum())
    return auroc(true, size), _average_precision(true, size), sign, error, false


def _average_precision(true: Bool[np.ndarray, " edge"], size: Float[np.ndarray, " edge"]) -> float:
    """Mean over true edges of the precision at each; in ties, false edges are first."""
    order = np.lexsort((true, -size))
    hits = true[order]
    return float((hits.cumsum() / np.arange(1, len(hits) + 1))[hits].mean())


def _noise_rate(
    name: str,
    method: ScoreMethod,
    known: KnownCircuit,
    of: Of,
    true: Bool[np.ndarray, " item"],
    exact: Float[np.ndarray, "pair item"],
) -> float:
    if known.noise_only is None:
        return float("nan")
    values = np.abs(_ask(name, method, known, known.pairs[0], of, known.noise_only))
    return float((values >= np.abs(exact).mean(axis=0)[true].min()).mean())


@strict
def package_method(
    model: Any, clean: Tensor, corrupted: Tensor, target: Metric, *, of: Of = "edges", **options: Any
) -> dict[Any, float]:
    """Estimates of `ffb.attribution_patching` for edges, nodes or tokens, as a `ScoreMethod`.

    Args:
        model: The model.
        clean: Clean prompt [pos].
        corrupted: Corrupted prompt [pos].
        target: The target.
        of: Scored items: "edges", "nodes" or "tokens".
        **options: Options of `ffb.attribution_patching`: rules, steps, receivers.

    Raises:
        FFBlockError: all errors of `ffb.attribution_patching`.
    """
    made = attribution_patching(model, clean, corrupted, target, edges=of == "edges", progress=False, **options)
    if of == "tokens":
        return dict(enumerate(made.residual[0].tolist()))
    if of == "nodes":
        heads, mlps = made.heads.sum(dim=-1).tolist(), made.mlps.sum(dim=-1).tolist()
        of_heads = {f"L{layer}H{head}": each for layer, row in enumerate(heads) for head, each in enumerate(row)}
        fed = {f"L{layer}.mlp": each for layer, each in enumerate(mlps) if made.neuron_layers}
        return {"L0.resid": float(made.residual[0].sum()), **of_heads, **fed}
    names = [node.name for node in made.edges.nodes]
    ends, weights = made.edges.ends.tolist(), made.edges.weights[:, 0].tolist()
    found = {(names[a], names[b]): weight for (a, b), weight in zip(ends, weights, strict=True)}
    return {edge: weight for edge, weight in found.items() if edge[0] != "remaining"}


def package_methods(steps: Sequence[int] = (1, 5), *, of: Of = "edges") -> dict[str, ScoreMethod]:
    """Methods of `ffb.attribution_patching` by name: rules with integration steps, and for edges exact receivers.

    Args:
        steps: Numbers of integration steps (EAP-IG).
        of: Scored items: "edges", "nodes" or "tokens".
    """
    made: dict[str, ScoreMethod] = {}
    for rules, n_steps in product(("gradient", "patching", "path"), steps):
        name = rules if n_steps == 1 else f"{rules}, {n_steps} steps"
        made[name] = partial(package_method, of=of, rules=rules, steps=n_steps)
    for rules in ("gradient", "patching") if of == "edges" else ():
        made[f"{rules}, exact receivers"] = partial(package_method, rules=rules, receivers="exact")
    return made


NOISE = 0.05
"""Noise of the grid's models with noise."""
_SOFT = 6.0
CELLS_AT_A_TIME = 20
"""Number of known circuits after which the whole file is written again."""


@strict
def grid(*, full: bool = False) -> tuple[tuple[str, str, Settings], ...]:
    """Program, kind and settings of every known circuit of the default grid, or of the full one.

    The default grid has all programs x {no norm, RMSNorm} x {sharp, soft} x {no noise, noise} x 3 seeds, with one kind each in
    turn. The full grid has all kinds, also LayerNorm and gated feed-forwards, and 5 seeds. Seed 0 is not in the grids: programs
    were developed with it.

    Args:
        full: Whether to return the full grid.
    """
    norms: tuple[Norm, ...] = ("none", "RMS", "LN") if full else ("none", "RMS")
    cells: list[tuple[str, str, Settings]] = []
    settings = product(
        norms, (False, True) if full else (False,), (12.0, _SOFT), (0.0, NOISE), range(1, 6 if full else 4)
    )
    for number, (norm, gated, sharpness, noise, seed) in enumerate(settings):
        chosen = Settings(norm=norm, gated=gated, sharpness=sharpness, noise=noise, seed=seed)
        for program in PROGRAMS:
            kinds = [kind.name for kind in PROGRAMS[program]().kinds]
            cells += [(program, kind, chosen) for kind in (kinds if full else [kinds[number % len(kinds)]])]
    return tuple(cells)


@strict
def score_grid(
    methods: Mapping[str, ScoreMethod],
    cells: Sequence[tuple[str, str, Settings]],
    *,
    of: Of = "edges",
    pairs: int = 2,
    store: Path | None = None,
    progress: bool = True,
) -> tuple[CircuitScores, dict[str, str]]:
    """Scores of methods against known circuits, and the reasons why some could not be built, by name.

    Args:
        methods: Methods by name, as in `score`.
        cells: Program, kind and settings of each known circuit, as from `grid`.
        of: Scored items, as in `score`.
        pairs: Number of pairs of every known circuit.
        store: CSV file to which rows are added, some at a time, and all at the end or an interruption. Known circuits in the file
            are not computed again. Those of other cells stay in the file and are not returned.
        progress: Whether to show a progress bar, or lines in a log.

    Raises:
        FFBlockError: all errors of the methods.
        InputError: for a file of other methods, another `of` or another number of pairs, or if no known circuit could be built.
        MapFileError: for a file that is not a table of scores, or has rows of a known circuit twice or only some.
    """
    tables, done = _stored(store, methods, of, pairs)
    new, refused = list[pd.DataFrame](), dict[str, str]()

    def keep() -> None:
        tables[:] = [pd.concat([*tables, *new], ignore_index=True)] if tables or new else []
        if store is not None and new:
            write_table(store, tables[0])
        new.clear()

    with Progress("known circuits", len(cells), "cells", kind="lasting", shown=progress) as bar, ExitStack() as stack:
        stack.callback(keep)  # also after an interruption
        for program, kind, settings in cells:
            if (program, kind, settings.name, str(settings.seed)) not in done:
                try:
                    (known,) = build(program, settings, pairs=pairs, kinds=[kind])
                    known.refuse_unseen(of)
                except FFBlockError as error:
                    refused[f"{program} · {kind} · {settings.name} · seed {settings.seed}"] = str(error)
                else:
                    new.append(score(methods, known, of=of))
                    if len(new) == CELLS_AT_A_TIME:
                        keep()
            bar.step()
    asked = {(program, kind, settings.name, str(settings.seed)) for program, kind, settings in cells}
    found = pd.concat(tables) if tables else pd.DataFrame(columns=_CIRCUIT)
    found = found[[circuit in asked for circuit in found[list(_CIRCUIT)].itertuples(index=False, name=None)]]
    if found.empty:
        raise InputError(
            f"no known circuit could be built: {next(iter(refused.values()), 'expected one or more cells')}"
        )
    return CircuitScores.of(found.reset_index(drop=True)), refused


def _stored(
    store: Path | None, methods: Mapping[str, ScoreMethod], of: Of, pairs: int
) -> tuple[list[pd.DataFrame], set[tuple[str, ...]]]:
    """Rows of a file, and its known circuits.

    Raises:
        InputError: for scores of other methods, items or numbers of pairs.
        MapFileError: if the file is not a table of scores, or incomplete.
    """
    if store is None or not store.exists():
        return [], set()
    try:
        table = pd.read_csv(regular_file(store), dtype=dict.fromkeys(_LABELS, str))
        CircuitScores.of(table)
    except ValueError as error:
        raise MapFileError(f"{store} is not a table of scores: {error} Use another file.") from error
    if other := set(table.get("method", [])) ^ {*CONTROLS, *methods}:
        raise InputError(f"{store} has scores of other methods: {brief(min(other))}. Use another file.")
    for held, number in {*zip(table["of"], table["pairs"], strict=True)} - {(of, str(pairs))}:
        raise InputError(
            f"{store} has scores of {held} with {number} pairs, expected {of} with {pairs}. Use another file."
        )
    for circuit, of_circuit in table.groupby(list(_CIRCUIT), sort=False, dropna=False)["method"]:
        if sorted(of_circuit) != sorted({*CONTROLS, *methods}):
            raise MapFileError(
                f"{store} has {len(of_circuit)} rows of {' · '.join(map(str, circuit))}, expected one of each of "
                f"{len({*CONTROLS, *methods})} methods. The file was edited or joined. Remove the rows of this known circuit."
            )
    return [table], set(table[list(_CIRCUIT)].itertuples(index=False, name=None))
