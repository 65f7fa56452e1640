"""Token mixers without a softmax as attention with signed weights: delta nets, state-space models, short convolutions.

A recurrence that is linear in its values is a sum over source positions. Per channel of a head, with all other tensors taken from the
forward pass:

    u_j = x_j W_V + b_V                     values
    v_j = silu(sum_t k_t s_j-t u_j-t + b)   causal convolution over t = 0, 1, ...; silu, s and the convolution may be absent
    y_i = sum_j C_ij v_j                    C is the effective attention, of any sign; skip connections D are on its diagonal
    z_i = g_i y_i                           gate, divided by the scale of a norm before W_O; the norm's gain is part of W_O
    out_i = z_i W_O + b_O

`C`, `s` and `g` are constants of the linearised layer, as a softmax pattern is. The silu is linearised by Integrated Gradients from
zero, which for `silu(a) = a sigmoid(a)` is the factor `sigmoid(a)`. So token s contributes

    z_i <- g_i sum_t C_i,s+t sigmoid(a_s+t) k_t s_s (u_s - constant)

and b, with its factors, goes to the bias part. Axis names: `batch pos head d_head`; `key` is the position j.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
from einops import einsum, rearrange, repeat
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own abbreviation

from tl_ffblock.layer.records import AttentionWeights

_CACHED_NUMBERS = 2**17
"""Coefficients of a scan by channel that are computed at a time; more would leave the processor's cache."""
MixerSite: TypeAlias = Literal["value", "convolved", "z"]
Change: TypeAlias = Callable[[MixerSite, Tensor], Tensor]
Rows: TypeAlias = Int[Tensor, "batch query"] | None


@dataclass(frozen=True)
class Projection:
    """`x W + b`, with one matrix for each head."""

    weight: Float[Tensor, "d_in head d_out"]
    bias: Float[Tensor, "head d_out"] | None = None

    def __call__(self, x: Float[Tensor, "batch pos d_in"]) -> Float[Tensor, "batch pos head d_out"]:
        y = einsum(x, self.weight, "batch pos d_in, d_in head d_out -> batch pos head d_out")
        return y if self.bias is None else y + self.bias


@dataclass(frozen=True)
class Convolution:
    """Causal convolution of every channel, with a silu after it or without one."""

    kernel: Float[Tensor, "head d_head tap"]
    """Factor of the token t positions before, by t."""
    bias: Float[Tensor, "head d_head"] | None = None
    activates: bool = True

    def __call__(self, u: Float[Tensor, "batch pos head d_head"]) -> Float[Tensor, "batch pos head d_head"]:
        """Pre-activation, with the bias."""
        taps = self.kernel.shape[-1]
        entering = F.pad(rearrange(u, "batch pos head e -> batch (head e) pos"), (taps - 1, 0))
        kernel = self.kernel.flip(-1).flatten(0, 1)[:, None]
        made = F.conv1d(entering, kernel, groups=len(kernel))
        made = rearrange(made, "batch (head e) pos -> batch pos head e", head=u.shape[2])
        return made if self.bias is None else made + self.bias

    def slope(self, pre: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Integrated Gradients of the silu from zero: its output divided by its input."""
        return pre.sigmoid() if self.activates else torch.ones_like(pre)

    def activated(self, x: Float[Tensor, "batch pos head d_head"]) -> Float[Tensor, "batch pos head d_head"]:
        """Output for an input."""
        pre = self(x)
        return F.silu(pre) if self.activates else pre


@dataclass(frozen=True)
class GatedNorm:
    """RMSNorm over groups of neighbouring channels between the mixing and W_O. Its gain is part of W_O."""

    eps: float
    width: int
    """Channels of a group."""
    after_gate: bool
    """Whether the gate multiplies before the norm (Mamba-2) or after it (delta nets)."""

    def scale(self, y: Float[Tensor, "batch pos head d_head"]) -> Float[Tensor, "batch pos head d_head"]:
        """Denominator of every channel."""
        groups = y.reshape(*y.shape[:2], -1, self.width)
        size = (groups.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        return size.expand_as(groups).reshape(y.shape)


@dataclass(frozen=True)
class Constant:
    """What has no gradient in a mixer: its coefficients and gates, the scale of its norm, the slope of its silu."""

    coefficients: bool = True
    scale: bool = True
    slope: bool = True


@dataclass(frozen=True)
class Mixed:
    """A mixer in one forward pass, as in the equations above."""

    pattern: Float[Tensor, "batch head query key"] | None
    """None if it was not asked for."""
    value: Float[Tensor, "batch key head d_head"]
    """u, before the convolution."""
    gate: Float[Tensor, "batch query head d_head"]
    taps: Float[Tensor, "batch key head d_head tap"] | None
    """Factor with which the value t positions before j enters at j; None without a convolution."""
    offset: Float[Tensor, "batch key head d_head"] | None
    """Part of v that no token contributes: that of the convolution's bias, and of padded positions, whose value is b_V."""
    z: Float[Tensor, "batch query head d_head"]

    @property
    def constant(self) -> Float[Tensor, "batch query head d_head"] | None:
        """Part of y that no token contributes."""
        return None if self.offset is None or self.pattern is None else _mixed(self.pattern, self.offset)


@dataclass(frozen=True)
class Mixer(ABC):
    """Weights of a token mixer. A subclass has its coefficients, gate and factor of sources as functions of the mixer's input."""

    attention: AttentionWeights
    """W_V and W_O by head, with the gain of the norm between them."""
    convolution: Convolution | None
    norm: GatedNorm | None
    masks_values: ClassVar[bool] = False
    """Whether convolved values of padded positions are zero, beside the input."""

    @abstractmethod
    def pattern(
        self, x: Float[Tensor, "batch pos d"], v: Float[Tensor, "batch pos head d_head"], rows: Rows
    ) -> Float[Tensor, "batch head query key"]:
        """Effective attention C of the mixer's input x and its values v after the convolution, at some queries."""

    def scanned(
        self,
        v: Float[Tensor, "batch pos head d_head"],
        made: Float[Tensor, "batch pos head d_head"],
    ) -> Float[Tensor, "batch pos head d_head"] | None:
        """Outputs y without C, token after token; None if C is as large as a softmax pattern. `made` is v for the coefficients."""
        return None

    def gate(self, x: Float[Tensor, "batch pos d"]) -> Tensor | None:
        """Gate [batch pos head d_head] without the norm; None without one."""
        return None

    def source(self, x: Float[Tensor, "batch pos d"]) -> Tensor | None:
        """Factor [batch pos head d_head] of values before the convolution; None without one."""
        return None

    def mix(
        self,
        x: Float[Tensor, "batch pos d"],
        constant: Constant = Constant(),
        change: Change = lambda _, tensor: tensor,
        hidden: Bool[Tensor, "#batch #head query key"] | None = None,
        rows: Rows = None,
        *,
        weighs: bool = True,
    ) -> Mixed:
        """All tensors of one forward pass.

        Args:
            x: Input of the mixer, zero at padding.
            rows: Positions of queries; None means all.
            weighs: Whether C is asked for. A mixer by channel computes its output without it, in less memory.
            constant: What is detached from autograd's graph.
            change: Function of the name and tensor of values, convolved values before their silu, and z; returns what to continue with.
            hidden: Pairs whose coefficient is set to zero.
        """
        coefficients = x.detach() if constant.coefficients else x
        u = change("value", self.attention.values(x.flatten(0, 1)).reshape(*x.shape[:2], *self.attention.b_v.shape))
        source, convolution = self.source(coefficients), self.convolution
        v = u if source is None else u * source
        taps = offset = None
        if convolution is not None:
            pre, real = convolution(v), _real(x)[..., None]
            slope = convolution.slope(pre.detach() if constant.slope else pre)
            slope = slope * real if self.masks_values else slope
            taps = self._taps(slope.detach(), None if source is None else source.detach(), real)
            if convolution.bias is not None or not real.all():  # the value of a padded position is b_V
                offset = (convolution(v * ~real) * slope).detach()
            v = change("convolved", pre) * slope
        elif source is not None:
            taps = source[..., None]
        made = v.detach() if constant.coefficients else v
        y = None if weighs else self.scanned(v, made)
        pattern = None
        if y is None:
            pattern = self.pattern(coefficients, made, rows)
            pattern = pattern if hidden is None else pattern.masked_fill(hidden, 0)
            y = _mixed(pattern, v)
        gate = self._factor(_of_rows(coefficients, rows), y, constant)
        return Mixed(pattern, u, gate, taps, offset, change("z", y * gate))

    def output(self, mixed: Mixed) -> Float[Tensor, "batch query d"]:
        """`z W_O + b_O`."""
        written = einsum(mixed.z, self.attention.w_o, "batch query head e, head e d -> batch query d")
        return written + self.attention.b_o

    def _factor(self, x: Tensor, y: Tensor, constant: Constant) -> Float[Tensor, "batch query head d_head"]:
        gate = self.gate(x)
        factor = torch.ones_like(y) if gate is None else gate
        if self.norm is None:
            return factor
        normalised = y * factor if self.norm.after_gate else y
        scale = self.norm.scale(normalised.detach() if constant.scale else normalised)
        return factor / scale

    def _taps(self, slope: Tensor, source: Tensor | None, real: Tensor) -> Float[Tensor, "batch key head d_head tap"]:
        assert self.convolution is not None
        made = []
        for tap, factor in enumerate(self.convolution.kernel.unbind(dim=-1)):
            weight = slope * factor
            weight = weight if source is None else weight * _delayed(source, tap)
            made.append(weight * _delayed(real, tap))  # zero before the first token
        return torch.stack(made, dim=-1)


def token_edges(
    pattern: Float[Tensor, "*batch head query key"],
    by_z: Float[Tensor, "*batch query head e"],
    value: Float[Tensor, "*batch key head e"],
    taps: Float[Tensor, "*batch key head e tap"] | None,
) -> Float[Tensor, "*batch head query key"]:
    """`C_ij <v_j, df/dz_i>` for every source token: of a convolution, each tap goes to the token that it reads."""
    if taps is None:
        return einsum(by_z, value, "... query head e, ... key head e -> ... head query key").mul_(pattern)
    edges, n_keys = torch.zeros_like(pattern), value.shape[-3]
    for tap, factor in enumerate(taps.unbind(dim=-1)[:n_keys]):
        read = value if tap == 0 else value.roll(tap, dims=-3)  # the factor is zero where this is a later token
        made = einsum(by_z, factor * read, "... query head e, ... key head e -> ... head query key").mul_(pattern)
        edges[..., : n_keys - tap] += made[..., tap:]
    return edges


def _of_rows(x: Float[Tensor, "batch pos *more"], rows: Rows) -> Float[Tensor, "batch row *more"]:
    return x if rows is None else torch.stack([own[at] for own, at in zip(x, rows.to(x.device), strict=True)])


def convolved(
    value: Float[Tensor, "batch key head e"],
    taps: Float[Tensor, "batch key head e tap"],
    offset: Float[Tensor, "batch key head e"] | None,
) -> Float[Tensor, "batch key head e"]:
    """Values v after the convolution, from u."""
    made = sum(factor * _delayed(value, tap) for tap, factor in enumerate(taps.unbind(dim=-1)))
    assert isinstance(made, Tensor)
    return made if offset is None else made + offset


def _real(x: Float[Tensor, "batch pos d"]) -> Bool[Tensor, "batch pos 1"]:
    """Whether a position of a mixer's input is a token; at padding it is zero."""
    return (x.detach() != 0).any(dim=-1, keepdim=True)


def _delayed(x: Shaped[Tensor, "batch pos *more"], steps: int) -> Shaped[Tensor, "batch pos *more"]:
    return x if steps == 0 else torch.cat([torch.zeros_like(x[:, :steps]), x[:, :-steps]], dim=1)[:, : x.shape[1]]


def _mixed(pattern: Float[Tensor, "batch head query key"], v: Float[Tensor, "batch key head d_head"]) -> Tensor:
    return einsum(pattern, v, "batch head query key, batch key head e -> batch query head e")


def _decays(log_decay: Float[Tensor, "batch pos head"]) -> Float[Tensor, "batch head query key"]:
    """`prod_{t=j+1..i} a_t` for j <= i, else zero, from `log a`."""
    gap = _sums_between(log_decay)
    return gap.masked_fill(_later(gap), -torch.inf).exp()


def _sums_between(x: Float[Tensor, "batch pos head"]) -> Float[Tensor, "batch head query key"]:
    """`sum_{t=j+1..i} x_t`, up to rounding of itself: differences of long sums would have the rounding of these.

    The sums are in float64, as a number of the dtype and its rounding.
    """
    total = rearrange(x.double().cumsum(dim=1), "batch pos head -> batch head pos")
    rounded = total.to(x.dtype)
    gaps = (part[..., :, None] - part[..., None, :] for part in (rounded, (total - rounded).to(x.dtype)))
    return next(gaps) + next(gaps)


def _later(table: Float[Tensor, "... query key"]) -> Bool[Tensor, "query key"]:
    """Keys after their query."""
    return torch.ones(table.shape[-2:], dtype=torch.bool, device=table.device).triu(1)


@dataclass(frozen=True)
class DeltaNet(Mixer):
    """Gated delta net (Yang, Kautz and Hatamizadeh 2024, arXiv 2412.06464, eq. 10).

        S_t = a_t S_t-1 (I - b_t k_t k_t^T) + b_t v_t k_t^T,   y_t = S_t q_t

    So `C_ij = b_j k_j^T [prod_{t=j+1..i} a_t (I - b_t k_t k_t^T)] q_i`. What a token erases belongs to the erased token's C.
    """

    w_q: Projection
    w_k: Projection
    q_convolution: Convolution
    k_convolution: Convolution
    w_beta: Projection
    w_decay: Projection
    w_gate: Projection
    log_a: Float[Tensor, " head"]
    dt_bias: Float[Tensor, " head"]
    largest_beta: float = 1.0
    """Factor of the sigmoid that writes."""
    eps: float = 1e-6
    """Epsilon of the length of queries and keys."""

    def pattern(self, x: Tensor, v: Tensor, rows: Rows) -> Float[Tensor, "batch head query key"]:
        n_heads = v.shape[2]
        q, k = (
            _of_value_heads(_unit(convolution.activated(made(x)), self.eps), n_heads)
            for made, convolution in ((self.w_q, self.q_convolution), (self.w_k, self.k_convolution))
        )
        q = q * q.shape[-1] ** -0.5
        beta = self.largest_beta * self.w_beta(x)[..., 0].sigmoid()
        log_decay = -self.log_a.exp() * F.softplus(self.w_decay(x)[..., 0] + self.dt_bias)
        decays = _decays(log_decay)
        reads = einsum(q, k, "batch query head e, batch key head e -> batch head query key") * decays
        # Values that are written: w = b (v - what k reads before), so (I + L) w = b v with L strictly lower triangular.
        writes = rearrange(beta, "batch pos head -> batch head pos")
        erased = einsum(k, k, "batch query head e, batch key head e -> batch head query key") * decays
        erased = (writes[..., None] * erased).tril(-1) + torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
        reads = _of_rows(reads.transpose(1, 2), rows).transpose(1, 2)
        made = torch.linalg.solve_triangular(erased, reads, upper=False, left=False, unitriangular=True)
        return made * writes[..., None, :]

    def gate(self, x: Tensor) -> Tensor:
        return F.silu(self.w_gate(x))


@dataclass(frozen=True)
class StateSpace(Mixer):
    """State-space model with one decay per head (Mamba-2; Dao and Gu 2024, arXiv 2405.21060, eq. 6).

    S_t = e^(dt_t A) S_t-1 + dt_t v_t B_t^T,   y_t = S_t C_t + D v_t,   dt = softplus(x W_dt + b_dt)
    """

    w_b: Projection
    w_c: Projection
    b_convolution: Convolution
    c_convolution: Convolution
    w_dt: Projection
    w_gate: Projection
    log_a: Float[Tensor, " head"]
    dt_bias: Float[Tensor, " head"]
    skip: Float[Tensor, " head"]
    """D."""
    dt_limit: tuple[float, float] = (0.0, float("inf"))
    masks_values = True

    def pattern(self, x: Tensor, v: Tensor, rows: Rows) -> Float[Tensor, "batch head query key"]:
        b, c = (
            _of_value_heads(convolution.activated(made(x)) * _real(x)[..., None], v.shape[2])
            for made, convolution in ((self.w_b, self.b_convolution), (self.w_c, self.c_convolution))
        )
        dt = F.softplus(self.w_dt(x)[..., 0] + self.dt_bias).clamp(*self.dt_limit)
        reads = einsum(c, b, "batch query head n, batch key head n -> batch head query key")
        pattern = reads * _decays(-self.log_a.exp() * dt) * rearrange(dt, "batch pos head -> batch head 1 pos")
        pattern = pattern + torch.diag_embed(repeat(self.skip, "head -> batch head pos", batch=len(x), pos=x.shape[1]))
        return _of_rows(pattern.transpose(1, 2), rows).transpose(1, 2)

    def gate(self, x: Tensor) -> Tensor:
        return F.silu(self.w_gate(x))


@dataclass(frozen=True)
class SelectiveScan(Mixer):
    """State-space model with a decay for each channel and state (Mamba; Gu and Dao 2023, arXiv 2312.00752, algorithm 2).

    B, C and dt are computed from the convolved values. Each channel is a head of width 1.
    """

    w_x: Projection
    """From convolved values to dt, B and C, as three heads padded to one width."""
    w_dt: Projection
    sizes: tuple[int, int]
    """Width of dt, and number of states."""
    norms: tuple[nn.Module, nn.Module, nn.Module] | None
    """Norms of dt, B and C (Jamba, Falcon-Mamba)."""
    log_a: Float[Tensor, "head state"]
    skip: Float[Tensor, " head"]
    w_gate: Projection
    masks_values = True

    def pattern(self, x: Tensor, v: Tensor, rows: Rows) -> Float[Tensor, "batch head query key"]:
        dt, b, c = self._selected(v)
        at_once = max(1, _CACHED_NUMBERS // (x.shape[1] * self.sizes[1]))
        chunks = zip(torch.split(dt, at_once, dim=-1), torch.split(-self.log_a.exp(), at_once), strict=True)
        every = torch.arange(x.shape[1], device=x.device).expand(len(x), -1) if rows is None else rows.to(x.device)
        pattern = torch.cat([self._of_channels(*chunk, b, c, every) for chunk in chunks], dim=1)
        own = F.one_hot(every, x.shape[1]).to(pattern)[:, None]  # D at each query's own token
        return pattern + self.skip[:, None, None] * own

    def _selected(self, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Dt [batch pos head], B and C [batch pos state]."""
        rank, states = self.sizes
        found = torch.split(self.w_x(v[..., 0])[:, :, 0], [rank, states, states], dim=-1)
        dt, b, c = found if self.norms is None else (norm(each) for norm, each in zip(self.norms, found, strict=True))
        return F.softplus(self.w_dt(dt)[..., 0]), b, c

    def scanned(self, v: Tensor, made: Tensor) -> Float[Tensor, "batch pos head d_head"]:
        dt, b, c = self._selected(made)
        decays, writes = (dt[..., None] * -self.log_a.exp()).exp(), dt[..., None] * b[:, :, None]
        held, read = torch.zeros_like(writes[:, 0]), []
        for t in range(v.shape[1]):
            held = held * decays[:, t] + writes[:, t] * v[:, t]
            read.append((held @ c[:, t, :, None])[..., 0])
        return torch.stack(read, dim=1)[..., None] + self.skip[:, None] * v

    @staticmethod
    def _of_channels(
        dt: Float[Tensor, "batch pos head"],
        a: Float[Tensor, "head state"],
        b: Float[Tensor, "batch pos state"],
        c: Float[Tensor, "batch pos state"],
        rows: Int[Tensor, "batch query"],
    ) -> Float[Tensor, "batch head query key"]:
        """What each state of a channel still has of every write, after each token, times what the token reads."""
        decays, writes, n = (dt[..., None] * a).exp(), dt[..., None] * b[:, :, None], dt.shape[1]
        held, read, asked = writes[:, 0, :, None][:, :, :0], dict[int, Tensor](), set(rows.flatten().tolist())
        for i in range(n):
            held = torch.cat([held * decays[:, i, :, None], writes[:, i, :, None]], dim=2)
            if i in asked:
                read[i] = F.pad(held @ c[:, i, None, :, None], (0, 0, 0, n - i - 1))[..., 0]
        of_rows = (torch.stack([read[i][number] for i in own], dim=1) for number, own in enumerate(rows.tolist()))
        return torch.stack([*of_rows])

    def gate(self, x: Tensor) -> Tensor:
        return F.silu(self.w_gate(x))


@dataclass(frozen=True)
class ShortConvolution(Mixer):
    """Gated short convolution of LFM2: `(g * conv(s * u)) W_O` with s and g linear in the input. Its C is the identity."""

    w_source: Projection
    w_gate: Projection

    def pattern(self, x: Tensor, v: Tensor, rows: Rows) -> Float[Tensor, "batch head query key"]:
        itself = torch.eye(x.shape[1], dtype=x.dtype, device=x.device).expand(len(x), -1, -1)
        return _of_rows(itself, rows)[:, None].expand(-1, v.shape[2], -1, -1)

    def gate(self, x: Tensor) -> Tensor:
        return self.w_gate(x)

    def source(self, x: Tensor) -> Tensor:
        return self.w_source(x)


def _unit(x: Float[Tensor, "*lead e"], eps: float) -> Float[Tensor, "*lead e"]:
    return x / (x.square().sum(dim=-1, keepdim=True) + eps).sqrt()


def _of_value_heads(x: Float[Tensor, "batch pos group e"], n_heads: int) -> Float[Tensor, "batch pos head e"]:
    """Queries and keys, or B and C, for the heads of values that share them."""
    return x if x.shape[2] == n_heads else x.repeat_interleave(n_heads // x.shape[2], dim=2)
