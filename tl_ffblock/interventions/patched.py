"""Maps of clean, corrupted and patched forward passes in one call, and differences of maps and vectors."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, Unpack, overload

import pandas as pd
from jaxtyping import Float, Int, Integer
from torch import Tensor

from tl_ffblock.attribution.patching import pairs_of
from tl_ffblock.bridge.capture import cache_of
from tl_ffblock.bridge.inputs import Prompt, one_sequence, refuse_unequal, warn_of_equal_pair
from tl_ffblock.bridge.labels import label
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.bridge.runs import DEFAULTS, ChunkOption, Hooks, Layers, SettingsOptions, Tokens
from tl_ffblock.contributions import contribution_maps
from tl_ffblock.errors import InputError, brief, renamed
from tl_ffblock.layer.linear import Decomposition
from tl_ffblock.layer.positions import Positions, spans
from tl_ffblock.layer.scopes import Order
from tl_ffblock.result import Result, Results
from tl_ffblock.results.maps import SIDES, ContributionMaps
from tl_ffblock.results.tokens import joined, shortened
from tl_ffblock.signatures import spelled_out, strict

PromptList: TypeAlias = Sequence[str] | Sequence[Integer[Tensor, " _pos"]]
"""Texts, or token ids of each prompt."""
Prompts: TypeAlias = str | Tokens | PromptList
"""A text, token ids [pos] or [batch, pos], or a list of texts or of token ids [pos] of any lengths."""
PatchHooks: TypeAlias = Hooks | Callable[[Any], Hooks]
"""Hooks of the patched forward pass, or a function from the clean ActivationCache to hooks."""


def equally_long(
    model: Model, pair: tuple[Prompt, Prompt | None], which: str
) -> tuple[Int[Tensor, " pos"], Int[Tensor, " pos"]]:
    """Token ids of a clean and a corrupted prompt; without a corrupted prompt, those of the clean one twice.

    Raises:
        InputError: if one cannot be used, or if they differ in length.

    Warns:
        EqualPairWarning: if they have the same tokens.
    """
    clean = one_sequence(model, pair[0], f"clean{which}")
    if pair[1] is None:
        return clean, clean
    corrupted = one_sequence(model, pair[1], f"corrupted{which}")
    refuse_unequal(model, (clean, corrupted), pair, which)
    warn_of_equal_pair(clean, corrupted, which)
    return clean, corrupted


def pair_labels(model: Model, runs: Sequence[Int[Tensor, " pos"]]) -> tuple[str, ...]:
    """Tokens of a clean and a corrupted prompt, "clean→corrupted" where they differ; of one prompt its own."""
    return tuple(joined(both, "→") for both in zip(*(label(model, tokens) for tokens in runs), strict=True))


def refuse_other_run(**measured_and_estimated: tuple[object, object]) -> None:
    """Refuse to compare measured numbers with estimates for other inputs. Unknown values, "", are not compared.

    Raises:
        InputError: with the name and both values.
    """
    for name, (mine, theirs) in measured_and_estimated.items():
        if mine != theirs and "" not in (mine, theirs):
            raise InputError(
                f"compare: {name} differ, {brief(mine)} and {brief(theirs)}: expected estimates for the same inputs."
            )


@strict
@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class PatchedMaps(Result):
    """Maps of a clean prompt, a corrupted prompt, and the corrupted prompt with patches."""

    clean: ContributionMaps
    corrupted: ContributionMaps
    patched: ContributionMaps

    @property
    def corruption(self) -> ContributionMaps:
        """`clean - corrupted`: the change by the corruption."""
        return self._difference("clean", "corrupted")

    @property
    def repair(self) -> ContributionMaps:
        """`patched - corrupted`: the change by the patches."""
        return self._difference("patched", "corrupted")

    @property
    def remaining(self) -> ContributionMaps:
        """`clean - patched`: the change that the patches do not restore."""
        return self._difference("clean", "patched")

    rest = renamed("rest", "remaining", lambda runs: runs.remaining)

    def to_dataframe(self) -> pd.DataFrame:
        """One table of all three maps; the first column, "run", is "clean", "corrupted" or "patched"."""
        frames = {name: maps.to_dataframe() for name, maps in self._runs.items()}
        return pd.concat(frames, names=["run", None]).reset_index("run").reset_index(drop=True)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """Tokens of the three maps."""
        return f"{self.clean.model}, layers {spans(self.clean.layers)}", {
            name: shortened(maps.tokens) for name, maps in self._runs.items()
        }

    @property
    def _runs(self) -> dict[str, ContributionMaps]:
        return {"clean": self.clean, "corrupted": self.corrupted, "patched": self.patched}

    def _difference(self, first: str, second: str) -> ContributionMaps:
        maps = difference(self._runs[first], self._runs[second])
        sides = dict(zip(SIDES, (f"the {first} run", f"the {second} run"), strict=True))
        return dataclasses.replace(maps, provenance={**maps.provenance, **sides})


class HowMade(SettingsOptions, ChunkOption, total=False):
    """Options of the three maps, as in `contribution_maps`."""


@overload
def patched_maps(
    model: Any,
    clean: str | Tokens,
    corrupted: str | Tokens,
    *,
    fwd_hooks: PatchHooks,
    layers: Layers = None,
    scopes: Sequence[str] | str | None = None,
    queries: Positions = None,
    **options: Unpack[HowMade],
) -> PatchedMaps: ...
@overload
def patched_maps(
    model: Any,
    clean: PromptList,
    corrupted: PromptList,
    *,
    fwd_hooks: PatchHooks | Sequence[Callable[[Any], Hooks]],
    layers: Layers = None,
    scopes: Sequence[str] | str | None = None,
    queries: Positions = None,
    **options: Unpack[HowMade],
) -> Results[PatchedMaps]: ...
@spelled_out(HowMade, DEFAULTS)
def patched_maps(
    model: Any,
    clean: str | Tokens | PromptList,
    corrupted: str | Tokens | PromptList,
    *,
    fwd_hooks: PatchHooks | Sequence[Callable[[Any], Hooks]],
    layers: Layers = None,
    scopes: Sequence[str] | str | None = None,
    queries: Positions = None,
    **options: Unpack[HowMade],
) -> PatchedMaps | Results[PatchedMaps]:
    """Maps of a clean prompt, of a corrupted prompt, and of the corrupted prompt with hooks; for one pair of prompts or many.

    `ffb.average([runs.repair for runs in patched_maps(...)], positions=...)` is the mean over pairs with its interval.

    Args:
        model: TransformerBridge or HookedTransformer, in eval mode.
        clean: A text or token ids [pos], or a list of these.
        corrupted: A prompt of equally many tokens, or a list with one per clean prompt.
        fwd_hooks: Hooks for the patched forward pass, or a function from the clean ActivationCache to hooks. For lists the same for
            every pair, or a list with one function per pair.
        layers: As in `contribution_maps`.
        scopes: As in `contribution_maps`.
        queries: As in `contribution_maps`.
        method: As in `contribution_maps`.
        n_steps: As in `contribution_maps`.
        value_bias: As in `contribution_maps`.
        rtol: As in `contribution_maps`.
        precision: As in `contribution_maps`.
        chunk_bytes: As in `contribution_maps`.

    Returns:
        One `PatchedMaps` for one pair; `Results`, a list of them, for lists.

    Raises:
        InputError: if the prompts of a pair have different numbers of tokens, if lists have different lengths, or for other
            input that cannot be used.
    """
    known = identify(model)
    single, pairs = pairs_of(known, clean, corrupted)
    hooks: Sequence[Any] = [fwd_hooks] * len(pairs)  # the same hooks or function for all
    if not callable(fwd_hooks) and fwd_hooks and all(callable(one) for one in fwd_hooks):
        hooks = fwd_hooks
    if len(hooks) != len(pairs):
        raise InputError(f"fwd_hooks: {len(hooks)} functions for {len(pairs)} pairs of prompts; expected one per pair.")

    def maps(tokens: Int[Tensor, " pos"], hooks: Hooks) -> ContributionMaps:
        return contribution_maps(
            known, tokens, layers=layers, scopes=scopes, queries=queries, fwd_hooks=hooks, **options
        )

    results = Results[PatchedMaps]()
    for number, (pair, own) in enumerate(zip(pairs, hooks, strict=True)):
        first, second = equally_long(known, pair, "" if single else f"[{number}]")
        made = own(cache_of(known, first)) if callable(own) else own
        results.append(PatchedMaps(maps(first, ()), maps(second, ()), maps(second, made)))
    return results[0] if single else results


@strict
@dataclasses.dataclass(frozen=True)
class VectorDifference:
    """Difference of one layer's contribution vectors between two prompts, by scope.

    As in each of the two, `parts.sum(1) + bias + remainder = whole`.
    """

    first: Decomposition
    second: Decomposition

    @property
    def scopes(self) -> tuple[str, ...]:
        """Scopes in sequence."""
        return self.first.scopes

    @property
    def layer(self) -> int:
        """The layer."""
        return self.first.layer

    @property
    def order(self) -> Order:
        """Order of norms and blocks in the layer."""
        return self.first.order

    def parts(self, scope: str) -> Float[Tensor, "query key d_model"]:
        """Difference of the contribution vectors `F_i(x_j)`."""
        return self.first.parts(scope) - self.second.parts(scope)

    def bias(self, scope: str) -> Float[Tensor, "query d_model"]:
        """Difference of the bias terms."""
        return self.first.bias(scope) - self.second.bias(scope)

    def remainder(self, scope: str) -> Float[Tensor, "query d_model"]:
        """Difference of the remainders."""
        return self.first.remainder(scope) - self.second.remainder(scope)

    def whole(self, scope: str) -> Float[Tensor, "query d_model"]:
        """Difference of the models' own tensors."""
        return self.first.whole(scope) - self.second.whole(scope)


@overload
def difference(first: ContributionMaps, second: ContributionMaps) -> ContributionMaps: ...
@overload
def difference(first: Decomposition, second: Decomposition) -> VectorDifference: ...
@strict
def difference(
    first: ContributionMaps | Decomposition, second: ContributionMaps | Decomposition
) -> ContributionMaps | VectorDifference:
    """Difference of two results, position by position: of maps (signed differences of norms) or of contribution vectors.

    The prompts may differ: the label of a token that differs is "first / second".

    Args:
        first: `ContributionMaps` or a `Decomposition`.
        second: A result of the same kind, with as many tokens, the same layers, scopes and queries; it is subtracted.

    Returns:
        Signed `ContributionMaps` of norms, or a `VectorDifference`.

    Raises:
        InputError: if the results have different cells, or are of different kinds.
    """
    if isinstance(first, ContributionMaps) and isinstance(second, ContributionMaps):
        if len(first.tokens) != len(second.tokens):
            raise InputError(
                f"cannot subtract maps of {len(first.tokens)} and of {len(second.tokens)} tokens: expected prompts of equally many tokens."
            )
        return first - second
    if isinstance(first, Decomposition) and isinstance(second, Decomposition):
        kinds = [(part.layer, part.order, part.queries, part.parts(part.scopes[0]).shape) for part in (first, second)]
        if kinds[0] != kinds[1]:
            raise InputError(
                f"cannot subtract {second!r} from {first!r}: expected the same layer, queries and number of tokens."
            )
        return VectorDifference(first, second)
    raise InputError(
        f"cannot subtract a {type(second).__name__} from a {type(first).__name__}: expected two of the same kind."
    )
