"""Clean, corrupted and patched in one call, and differences of runs: of maps and of vectors."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, Unpack, overload

from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.capture import cache_of
from tl_ffblock.bridge.model import identify
from tl_ffblock.bridge.runs import DEFAULTS, ChunkOption, Hooks, Layers, SettingsOptions, Tokens
from tl_ffblock.contributions import contribution_maps
from tl_ffblock.errors import InputError
from tl_ffblock.files import write_atomically
from tl_ffblock.interventions.pairs import PromptList, equally_long, refuse_unpaired
from tl_ffblock.layer.positions import Positions
from tl_ffblock.layer.scopes import Order
from tl_ffblock.layer.vectors import Decomposition
from tl_ffblock.page import page
from tl_ffblock.results.maps import SIDES, ContributionMaps
from tl_ffblock.results.page_data import page_data
from tl_ffblock.results.tokens import shortened
from tl_ffblock.signatures import spelled_out, strict


@strict
@dataclasses.dataclass(frozen=True)
class PatchedMaps:
    """The maps of a clean run, a corrupted run, and the corrupted run with patches."""

    clean: ContributionMaps
    corrupted: ContributionMaps
    patched: ContributionMaps

    @property
    def corruption(self) -> ContributionMaps:
        """`clean - corrupted`: what the corruption took away."""
        return _named(difference(self.clean, self.corrupted), "the clean run", "the corrupted run")

    @property
    def repair(self) -> ContributionMaps:
        """`patched - corrupted`: what the patches brought."""
        return _named(difference(self.patched, self.corrupted), "the patched run", "the corrupted run")

    @property
    def rest(self) -> ContributionMaps:
        """`clean - patched`: what the patches left."""
        return _named(difference(self.clean, self.patched), "the clean run", "the patched run")

    def to_html(
        self, path: str | os.PathLike[str] | None = None, *, layer: int | None = None, scope: str | None = None
    ) -> str:
        """One self-contained page of the three runs, any two of them beside each other on one scale.

        Args:
            path: File to write, if any.
            layer: Layer shown first; None means the last one, which every patch has reached.
            scope: Scope shown first.

        It opens at the patched run against the corrupted one.
        """
        runs = {"clean": self.clean, "corrupted": self.corrupted, "patched": self.patched}
        layer = self.clean.layers[-1] if layer is None else layer
        html = page(page_data(runs, layer=layer, scope=scope, compare=("patched", "corrupted")), circuitsvis=True)
        if path is not None:
            write_atomically(Path(path), html.encode("utf-8"))
        return html

    def __repr__(self) -> str:
        return "\n".join(
            f"{name}: {shortened(maps.tokens)}"
            for name, maps in (("clean", self.clean), ("corrupted", self.corrupted), ("patched", self.patched))
        )


def _named(maps: ContributionMaps, *sides: str) -> ContributionMaps:
    """A difference whose two sides have these names, whatever their texts."""
    return dataclasses.replace(maps, provenance={**maps.provenance, **dict(zip(SIDES, sides, strict=True))})


PatchHooks: TypeAlias = Hooks | Callable[[Any], Hooks]
"""Hooks of a patched run, or a function that makes them of the clean run's ActivationCache."""


class HowMade(SettingsOptions, ChunkOption, total=False):
    """How the three maps are made: `contribution_maps` says what each option does."""


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
) -> list[PatchedMaps]: ...
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
) -> PatchedMaps | list[PatchedMaps]:
    """The maps of a clean run, of a corrupted run, and of the corrupted run under hooks; of one pair of prompts or many.

    `ffb.average([runs.repair for runs in patched_maps(...)], positions=...)` is the mean over pairs with its interval.

    Args:
        model: TransformerBridge or HookedTransformer, in eval mode.
        clean: A text or token ids [pos], or a list of these.
        corrupted: Another of equally many tokens, or a list with one for each clean prompt.
        fwd_hooks: Hooks for the patched run, or a function that makes them of the clean run's ActivationCache; for lists the
            same for every pair, or a list with one function a pair.
        layers: As in `contribution_maps`.
        scopes: As in `contribution_maps`.
        queries: As in `contribution_maps`.
        **options: As in `contribution_maps`: method, n_steps, value_bias, rtol, precision, chunk_bytes.

    Raises:
        InputError: if the two of a pair have different numbers of tokens, there are not as many of each, or they cannot be used.
    """
    known = identify(model)
    lists = [isinstance(given, list | tuple) for given in (clean, corrupted)]
    if all(lists):
        refuse_unpaired(clean, corrupted)
    pairs = list(zip(clean, corrupted, strict=True)) if all(lists) else [(clean, corrupted)]
    makers = _hooks_by_pair(fwd_hooks, len(pairs))

    def maps(tokens: Int[Tensor, " pos"], hooks: Hooks) -> ContributionMaps:
        return contribution_maps(
            known, tokens, layers=layers, scopes=scopes, queries=queries, fwd_hooks=hooks, **options
        )

    results = []
    for number, (pair, hooks) in enumerate(zip(pairs, makers, strict=True)):
        first, second = equally_long(known, pair, f"[{number}]" if all(lists) else "")
        made = hooks(cache_of(known, first)) if callable(hooks) else hooks
        results.append(PatchedMaps(maps(first, ()), maps(second, ()), maps(second, made)))
    return results if all(lists) else results[0]


def _hooks_by_pair(fwd_hooks: PatchHooks | Sequence[Callable[[Any], Hooks]], n_pairs: int) -> Sequence[PatchHooks]:
    """What each pair's patched run is run with."""
    if callable(fwd_hooks) or not fwd_hooks or not all(callable(hooks) for hooks in fwd_hooks):
        return [fwd_hooks] * n_pairs  # type: ignore[list-item]  # no list of functions: hooks for all, or one function
    if len(fwd_hooks) != n_pairs:
        raise InputError(f"fwd_hooks: {len(fwd_hooks)} functions for {n_pairs} pairs of prompts; expected one a pair.")
    return fwd_hooks  # type: ignore[return-value]  # all are functions


@strict
@dataclasses.dataclass(frozen=True)
class VectorDifference:
    """One layer's vectors of one run minus those of another, by scope.

    As for each of the two, `parts.sum(1) + bias + remainder = whole`.
    """

    first: Decomposition
    second: Decomposition

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes in sequence."""
        return self.first.scopes

    @property
    def layer(self) -> int:
        """The layer of both."""
        return self.first.layer

    @property
    def order(self) -> Order:
        """Where the norms stand."""
        return self.first.order

    def parts(self, scope: str) -> Float[Tensor, "query key d_model"]:
        """Difference of the vectors `F_i(x_j)`."""
        return self.first.parts(scope) - self.second.parts(scope)

    def bias(self, scope: str) -> Float[Tensor, "query d_model"]:
        """Difference of the bias parts."""
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
    """One run minus another, position by position: of maps (signed norms) or of vectors.

    The prompts may differ: a token that is not the same in both is labelled with both, "first / second".

    Raises:
        InputError: if the two do not describe the same cells, or are not of one kind.
    """
    if isinstance(first, ContributionMaps) and isinstance(second, ContributionMaps):
        if len(first.tokens) != len(second.tokens):
            raise InputError(
                f"cannot subtract maps of {len(first.tokens)} and of {len(second.tokens)} tokens: use prompts of equally many."
            )
        return first - second
    if isinstance(first, Decomposition) and isinstance(second, Decomposition):
        shapes = [tuple(part.parts(part.scopes[0]).shape) for part in (first, second)]
        same = [(part.layer, part.order, part.queries) for part in (first, second)]
        if same[0] != same[1] or shapes[0] != shapes[1]:
            raise InputError(
                f"cannot subtract {second!r} from {first!r}: expected the same layer, queries and number of tokens."
            )
        return VectorDifference(first, second)
    raise InputError(f"cannot subtract a {type(second).__name__} from a {type(first).__name__}.")
