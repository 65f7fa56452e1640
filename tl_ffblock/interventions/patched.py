"""Clean, corrupted and patched in one call, and differences of runs: of maps and of vectors."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeAlias, overload

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from tl_ffblock.bridge.model import identify
from tl_ffblock.contributions import contribution_maps
from tl_ffblock.errors import InputError
from tl_ffblock.interventions.contribution_hooks import equally_long
from tl_ffblock.layer.scopes import Order
from tl_ffblock.layer.vectors import Decomposition
from tl_ffblock.results.files import write_atomically
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.tokens import visible

Hooks: TypeAlias = Sequence[tuple[str | Callable[[str], bool], Callable[..., Any]]]


@dataclasses.dataclass(frozen=True)
class PatchedMaps:
    """The maps of a clean run, a corrupted run, and the corrupted run with patches."""

    clean: ContributionMaps
    corrupted: ContributionMaps
    patched: ContributionMaps

    @property
    def corruption(self) -> ContributionMaps:
        """`clean - corrupted`: what the corruption took away."""
        return difference(self.clean, self.corrupted)

    @property
    def repair(self) -> ContributionMaps:
        """`patched - corrupted`: what the patches brought."""
        return difference(self.patched, self.corrupted)

    @property
    def rest(self) -> ContributionMaps:
        """`clean - patched`: what the patches left."""
        return difference(self.clean, self.patched)

    def to_html(
        self, path: str | os.PathLike[str] | None = None, *, layer: int | None = None, scope: str | None = None
    ) -> str:
        """One self-contained page: clean, corrupted, patched, and their differences as tabs.

        Args:
            path: File to write, if any.
            layer: Layer shown first; None means the last one, which every patch has reached.
            scope: Scope shown first.
        """
        layer = self.clean.layers[-1] if layer is None else layer
        shown = {
            "clean": self.clean,
            "corrupted": self.corrupted,
            "patched": self.patched,
            "patched − corrupted": self.repair,
            "clean − patched": self.rest,
        }
        pages = {name: maps.to_html(layer=layer, scope=scope) for name, maps in shown.items()}
        html = side_by_side(pages, title=f"{self.clean.model}: clean, corrupted, patched")
        if path is not None:
            write_atomically(Path(path), html.encode("utf-8"))
        return html

    def __repr__(self) -> str:
        return "\n".join(
            f"{name}: {' '.join(visible(token) for token in maps.tokens)}"
            for name, maps in (("clean", self.clean), ("corrupted", self.corrupted), ("patched", self.patched))
        )


def patched_maps(
    model: Any,
    clean: str | Integer[Tensor, " pos"],
    corrupted: str | Integer[Tensor, " pos"],
    *,
    fwd_hooks: Hooks | Callable[[Any], Hooks],
    **options: Any,
) -> PatchedMaps:
    """The maps of a clean run, of a corrupted run, and of the corrupted run under hooks.

    Args:
        model: TransformerBridge or HookedTransformer, in eval mode.
        clean: A text or token ids [pos].
        corrupted: Another of equally many tokens.
        fwd_hooks: Hooks for the patched run, or a function that makes them of the clean run's ActivationCache.
        **options: For `contribution_maps`: layers, scopes, queries, rtol and so on.

    Raises:
        InputError: if the prompts have different numbers of tokens, or cannot be used.
    """
    known = identify(model)
    pair = [equally_long(known, prompt) for prompt in (clean, corrupted)]
    lengths = [tokens.shape[1] for tokens in pair]
    if lengths[0] != lengths[1] or any(len(tokens) != 1 for tokens in pair):
        raise InputError(
            f"clean has {lengths[0]} tokens, corrupted {lengths[1]}: patching puts what is at one position of a run at the same "
            "position of the other. Use one prompt each, of equally many tokens."
        )
    if callable(fwd_hooks):
        with torch.no_grad():
            fwd_hooks = fwd_hooks(model.run_with_cache(pair[0])[1])

    def maps(tokens: Tensor, hooks: Hooks) -> ContributionMaps:
        found = contribution_maps(model, tokens[0], fwd_hooks=hooks, **options)
        assert isinstance(found, ContributionMaps)
        return found

    return PatchedMaps(maps(pair[0], ()), maps(pair[1], ()), maps(pair[1], fwd_hooks))


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
def difference(
    first: ContributionMaps | Decomposition, second: ContributionMaps | Decomposition
) -> ContributionMaps | VectorDifference:
    """One run minus another, position by position: of maps (signed norms) or of vectors.

    The prompts may differ: a token that is not the same in both is labelled with both.

    Raises:
        InputError: if the two do not describe the same cells, or are not of one kind.
    """
    if isinstance(first, ContributionMaps) and isinstance(second, ContributionMaps):
        if len(first.tokens) != len(second.tokens):
            raise InputError(
                f"cannot subtract maps of {len(first.tokens)} and of {len(second.tokens)} tokens: use prompts of equally many."
            )
        labels = tuple(a if a == b else f"{a}→{b}" for a, b in zip(first.tokens, second.tokens, strict=True))
        return dataclasses.replace(first, tokens=labels) - dataclasses.replace(second, tokens=labels)
    if isinstance(first, Decomposition) and isinstance(second, Decomposition):
        shapes = [tuple(part.parts(part.scopes[0]).shape) for part in (first, second)]
        same = [(part.layer, part.order, part.queries) for part in (first, second)]
        if same[0] != same[1] or shapes[0] != shapes[1]:
            raise InputError(
                f"cannot subtract {second!r} from {first!r}: expected the same layer, queries and number of tokens."
            )
        return VectorDifference(first, second)
    raise InputError(f"cannot subtract a {type(second).__name__} from a {type(first).__name__}.")


def side_by_side(pages: dict[str, str], *, title: str) -> str:
    """Several self-contained pages as tabs of one; the tabs are plain HTML, the pages keep their own content policy.

    Pages that are not chosen keep their size: a page without one cannot draw its maps.
    """
    names = list(pages)
    inputs = "".join(
        f'<input type="radio" name="tab" id="tab{number}"{" checked" if number == 0 else ""}>'
        for number in range(len(names))
    )
    labels = "".join(f'<label for="tab{number}">{escape(name)}</label>' for number, name in enumerate(names))
    frames = "".join(
        f'<iframe title="{escape(name)}" sandbox="allow-scripts allow-downloads" srcdoc="{escape(html)}"></iframe>'
        for name, html in pages.items()
    )
    rules = "".join(
        f"#tab{n}:checked~nav label:nth-of-type({n + 1}){{background:#fff;border-bottom-color:#fff}}"
        f"#tab{n}:checked~main iframe:nth-of-type({n + 1}){{visibility:visible}}"
        f"#tab{n}:focus-visible~nav label:nth-of-type({n + 1}){{outline:2px solid #1a5fb4}}"
        for n in range(len(names))
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title><style>'
        "body{margin:0;font:15px system-ui,sans-serif;background:#eef1f4}input{position:absolute;opacity:0}"
        "nav{padding:10px 10px 0}label{display:inline-block;padding:7px 14px;border:1px solid #c5ccd3;border-radius:6px 6px 0 0;"
        "margin-right:4px;cursor:pointer}main{position:relative;background:#fff;height:calc(100vh - 46px)}"
        "iframe{position:absolute;visibility:hidden;width:100%;height:100%;border:0}"
        f"{rules}</style></head><body>{inputs}<nav>{labels}</nav><main>{frames}</main></body></html>"
    )
