"""A record -> all vectors of one layer, scope by scope: the slow road, obvious and exact.

The steps of a layer are walked in the model's order, each a linear map of the parts (parts.py) except
the activation, whose output is shared by Integrated Gradients (activations.py, or captum as in the
paper). After every step the sum of the parts can be held against the model's own tensor.

`norms.py` gives the norms of the same vectors without making them; this file is what tests it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.activations import integrated_gradients
from tl_ffblock.errors import InputError, ScopeKeyError
from tl_ffblock.parts import Parts, attend, normalise, project, reconcile, relative_error, residual, weigh
from tl_ffblock.records import FeedForward, LayerRecord, Norm
from tl_ffblock.scopes import Order

Method: TypeAlias = Literal["exact", "captum"]
ValueBias: TypeAlias = Literal["bias", "token"]

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Relative completeness error above which a result is refused, by the model's dtype."""


@dataclass(frozen=True)
class Settings:
    """How a decomposition is made."""

    method: Method = "exact"
    """"exact": closed form of Integrated Gradients; "captum": Gauss-Legendre, as in the paper."""
    n_steps: int = 50
    """Quadrature steps of "captum"."""
    value_bias: ValueBias = "bias"
    """Where b_V goes: "bias" as in eq. 7 and 21, "token" as in the 2020/2021 code."""
    rtol: float = TOLERANCE[torch.float32]
    """Relative completeness error above which a result is refused."""

    def __post_init__(self) -> None:
        if self.method not in ("exact", "captum"):
            raise InputError(f'method={self.method!r}: expected "exact" or "captum".')
        if self.value_bias not in ("bias", "token"):
            raise InputError(f'value_bias={self.value_bias!r}: expected "bias" or "token".')
        if self.n_steps < 1:
            raise InputError(f"n_steps={self.n_steps}: expected at least 1.")
        if not self.rtol > 0:
            raise InputError(f"rtol={self.rtol}: expected a positive number.")


class Decomposition:
    """One layer's vectors of one sequence: parts, bias, remainder and the model's own tensor, by scope.

    For every scope and query: `parts.sum(1) + bias + remainder = whole`, up to `completeness`.
    """

    def __init__(self, record: LayerRecord, parts: dict[str, Parts]) -> None:
        self.layer = record.layer
        self.order: Order = record.block.order
        self.queries = tuple(record.queries.tolist())
        self._parts = parts
        self._whole = record.whole

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes in sequence."""
        return tuple(self._parts)

    def parts(self, scope: str) -> Float[Tensor, "query key d_model"]:
        """The vectors `F_i(x_j)`."""
        return self._at(scope).tokens

    def bias(self, scope: str) -> Float[Tensor, "query d_model"]:
        """The bias part."""
        return self._at(scope).bias

    def remainder(self, scope: str) -> Float[Tensor, "query d_model"]:
        """The effect of edits that other hooks made inside the block, else zero."""
        part = self._at(scope)
        return torch.zeros_like(part.bias) if part.remainder is None else part.remainder

    def whole(self, scope: str) -> Float[Tensor, "query d_model"]:
        """The model's own tensor at this point."""
        self._at(scope)
        return self._whole[scope]

    def completeness(self, scope: str) -> Float[Tensor, " query"]:
        """Relative completeness error `||sum of parts + bias + remainder - whole|| / ||whole||`."""
        whole = self.whole(scope)
        return relative_error(self._at(scope).total() - whole, whole)

    def _at(self, scope: str) -> Parts:
        if scope not in self._parts:
            raise ScopeKeyError(f"no scope {scope!r} here; there are {', '.join(self._parts)}")
        return self._parts[scope]

    def __repr__(self) -> str:
        first = next(iter(self._parts.values())).tokens
        return (
            f"Decomposition of layer {self.layer} ({self.order}): {first.shape[0]} queries x {first.shape[1]} keys "
            f"x {first.shape[2]} d_model, scopes {', '.join(self.scopes)}"
        )


def decompose_record(record: LayerRecord, settings: Settings) -> Decomposition:
    """All scopes of one sequence's record (without batch axis)."""
    return Decomposition(record, dict(walk(LayerRun(record, settings))))


def walk(run: "LayerRun") -> Iterator[tuple[str, Parts]]:
    """Every scope of a layer with its parts, in the model's order."""
    return _WALKS[run.block.order](run)


class LayerRun:
    """The steps of one layer's run, each held against the model's own tensor when edits are possible."""

    def __init__(self, record: LayerRecord, settings: Settings) -> None:
        self.record = record
        self.block = record.block
        self.settings = settings
        self.resid = record.resid_pre[record.queries]

    def settle(self, scope: str, parts: Parts) -> Parts:
        """With edits inside the block: what the edit added becomes the remainder."""
        return reconcile(parts, self.record.whole[scope], self.settings.rtol) if self.record.edited else parts

    def attend(self, scope: str) -> Parts:
        return self.settle(scope, attend(self.record, value_bias=self.settings.value_bias))

    def residual(self, scope: str, parts: Parts) -> Parts:
        return self.settle(scope, residual(parts, self.resid, self.record.queries))

    def add(self, scope: str, parts: Parts, other: Parts) -> Parts:
        return self.settle(scope, parts + other)

    def normalise(self, scope: str, parts: Parts, norm: Norm | None, before: str) -> Parts:
        assert norm is not None, scope
        return self.settle(scope, normalise(parts, norm, norm.scale(self.record.whole[before])))

    def feed_forward(self, scope: str, parts: Parts) -> Parts:
        return self.settle(scope, self._dense(parts, self.block.feed_forward))

    def _dense(self, parts: Parts, ff: FeedForward) -> Parts:
        """Feed-forward with Integrated Gradients through its activation (eq. 12-14, 44)."""
        pre, pre_linear = self.record.pre, self.record.pre_linear
        assert pre is not None
        if ff.w_gate is None:
            players = self._pre_activation(parts, ff.w_in, ff.b_in, pre)
            linear = None
        else:
            assert ff.b_gate is not None and pre_linear is not None
            players = self._pre_activation(parts, ff.w_gate, ff.b_gate, pre)
            linear = self._pre_activation(parts, ff.w_in, ff.b_in, pre_linear)
        if self.settings.method == "captum":
            from tl_ffblock.quadrature import captum_shares

            shared = captum_shares(ff.activation, players, linear, self.settings.n_steps)
        else:
            shares = integrated_gradients(ff.activation, pre, pre_linear)
            shared = weigh(players, shares.on_pre)
            if linear is not None:
                assert shares.on_linear is not None
                shared = shared + weigh(linear, shares.on_linear)
            shared = replace(shared, bias=shared.bias + shares.baseline)
        return project(shared, ff.w_out, ff.b_out)

    def _pre_activation(self, parts: Parts, weight: Tensor, bias: Tensor, real: Tensor) -> Parts:
        players = project(parts, weight, bias)
        return reconcile(players, real, self.settings.rtol) if self.record.edited else players


def _post_ln(run: LayerRun) -> Iterator[tuple[str, Parts]]:
    yield "Attn", (attn := run.attend("Attn"))
    yield "AttnRes", (attn_res := run.residual("AttnRes", attn))
    yield "Atb", (atb := run.normalise("Atb", attn_res, run.block.mid_norm, "AttnRes"))
    yield "AtbFf", (ff := run.feed_forward("AtbFf", atb))
    yield "AtbFfRes", (res := run.add("AtbFfRes", ff, atb))
    yield "AtbFfResLn", run.normalise("AtbFfResLn", res, run.block.out_norm, "AtbFfRes")


def _pre_ln(run: LayerRun) -> Iterator[tuple[str, Parts]]:
    yield "Attn", (attn := run.attend("Attn"))
    yield "Atb", (atb := run.residual("Atb", attn))
    yield "AtbLn", (atb_ln := run.normalise("AtbLn", atb, run.block.ff_norm, "Atb"))
    yield "AtbLnFf", (ff := run.feed_forward("AtbLnFf", atb_ln))
    yield "AtbLnFfRes", (res := run.add("AtbLnFfRes", ff, atb))
    yield "AtbLnFfResLn", run.normalise("AtbLnFfResLn", res, run.block.out_norm, "AtbLnFfRes")


_WALKS: dict[Order, Callable[[LayerRun], Iterator[tuple[str, Parts]]]] = {"post_ln": _post_ln, "pre_ln": _pre_ln}
