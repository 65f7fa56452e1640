# Noun: compiled transformer (Lindner et al. 2023, Tracr).
"""Compiler of a program of heads and neurons to the weights of a TransformerLens native model, without training.

The residual stream has named spaces, each a set of directions: a constant, tokens, positions, distractors, and spaces of the
program. A head's score is a sum of bilinear forms of spaces. Its values are linear in spaces. Neurons read and write spaces.

    score(i, j) = sharpness * sum over terms x_i[query space] M x_j[key space]

1. Directions are orthonormal and rotated at random. With `superposition` above 1 there are more directions than dimensions.
2. With norms, a large constant direction makes scales nearly equal at all positions, and the gain cancels the scale.
3. A neuron of a gated feed-forward has the constant as its linear factor.
4. Heads that the program does not need are distractors: they read spaces of the program, and write a space that leads nowhere.
5. `noise` is added to every matrix, in matrices that read the residual stream without its component along the constant.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.loading import native_model
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.signatures import real, strict

Norm: TypeAlias = Literal["none", "LN", "RMS"]
"""No norm, LayerNorm, RMSNorm."""
BASE = ("constant", "token", "position")
"""Spaces that the embedding writes."""
DISTRACTOR = "distractor"
"""Space that distractors write; no component on a path to the target reads it."""
_DISTRACTORS = 6
_CONSTANT: Mapping[Norm, float] = {"none": 1.0, "LN": 16.0, "RMS": 16.0}
"""Size of the constant direction, by norm."""
_DISTRACTOR_SIZE: Mapping[Norm, float] = {"none": 0.5, "LN": 0.25, "RMS": 0.25}
_STEEPNESS = 8.0
"""Slope of neurons: the pre-activation is plus or minus half of it if the input is 1/2 above or below the threshold."""
_SHARP = 12.0
_READERS = ("q", "k", "v", "fc_in", "gate", "in", "head")
"""Matrices that read the residual stream."""

Matrix: TypeAlias = Float[Tensor, "d_read d_write"]


@strict
@dataclass(frozen=True)
class Settings:
    """Settings of the model to which a program is compiled."""

    norm: Norm = "none"
    gated: bool = False
    """Whether the feed-forward is gated with SiLU; else it has GELU."""
    sharpness: float = _SHARP
    """Score of a match in attention; 12 is saturated, 5 soft."""
    noise: float = 0.0
    """Standard deviation of the noise of every matrix, times the square root of the width."""
    superposition: float = 1.0
    """Number of directions per dimension."""
    rotated: bool = True
    """Whether directions are rotated at random; else they are the coordinate axes."""
    seed: int = 0

    def __post_init__(self) -> None:
        numbers = {"sharpness": (self.sharpness, 0.0), "noise": (self.noise, 0.0)}
        numbers["superposition"] = (self.superposition, 1.0)
        for name, (value, least) in numbers.items():
            if real(value) is None or not least <= value < 100:
                raise InputError(f"{name}={brief(value)}: expected a number from {least:g} to 100.")
        whole_number(self.seed, "seed", at_least=0)
        if not self.rotated and (self.norm == "LN" or self.superposition > 1):
            raise InputError("rotated=False: expected norm 'none' or 'RMS' and superposition=1.")

    @property
    def name(self) -> str:
        """The settings in words: "RMSNorm, sharpness 12, noise 0.05"."""
        words = [{"none": "no norm", "LN": "LayerNorm", "RMS": "RMSNorm"}[self.norm]]
        words += ["gated"] if self.gated else []
        words += [f"sharpness {self.sharpness:g}", f"noise {self.noise:g}"]
        words += [f"superposition {self.superposition:g}"] if self.superposition > 1 else []
        return ", ".join(words)


@dataclass(frozen=True)
class Match:
    """A term of a head's score: `x_i[query] M x_j[key]`."""

    query: str
    key: str
    matrix: Matrix


@dataclass(frozen=True)
class Head:
    """A head of a program."""

    name: str
    layer: int
    scores: tuple[Match, ...]
    values: Mapping[str, Matrix]
    """Matrices from the read spaces to the output space, by read space."""
    output: str
    """Space that the head writes."""


@dataclass(frozen=True)
class Neurons:
    """Neurons of a layer's feed-forward.

    A neuron's activation is 1 if its input is 1/2 above its threshold, and nearly 0 if it is 1/2 below.
    """

    name: str
    layer: int
    reads: Mapping[str, Float[Tensor, "neuron d_read"]]
    thresholds: Float[Tensor, " neuron"]
    writes: Mapping[str, Float[Tensor, "neuron d_write"]]

    def __len__(self) -> int:
        return len(self.thresholds)


@dataclass(frozen=True)
class Layout:
    """Sizes, spaces, heads and neurons of a program."""

    n_tokens: int
    n_positions: int
    spaces: Mapping[str, int]
    """Sizes of the program's own spaces."""
    heads: tuple[Head, ...]
    neurons: tuple[Neurons, ...]
    output: str
    """Space whose directions are the logits of tokens."""
    n_layers: int = 2

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of all spaces."""
        base = dict(zip(BASE, (1, self.n_tokens, self.n_positions), strict=True))
        return {**base, **self.spaces, DISTRACTOR: _DISTRACTORS}

    @property
    def n_heads(self) -> int:
        """Number of heads per layer: those of the program in the layer with the most, and two distractors."""
        return 2 + max(sum(head.layer == layer for head in self.heads) for layer in range(self.n_layers))

    def place(self, name: str) -> str:
        """Name in the model of a component of the program: "induction" is "L1H0".

        Raises:
            InputError: if there is no such component.
        """
        if name in ("tokens", "target"):
            return {"tokens": "L0.resid", "target": "target"}[name]
        if fed := [part.layer for part in self.neurons if part.name == name]:
            return f"L{fed[0]}.mlp"
        head = next((head for head in self.heads if head.name == name), None)
        if head is None:
            raise InputError(f"no head or neurons {brief(name)} in this program: expected {', '.join(self.names)}.")
        before = [other for other in self.heads if other.layer == head.layer]
        return f"L{head.layer}H{before.index(head)}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all components of the program."""
        inner = [*(head.name for head in self.heads), *(part.name for part in self.neurons)]
        return ("tokens", *inner, "target")

    def written(self, name: str) -> frozenset[str]:
        """Spaces that a component writes."""
        if name == "tokens":
            return frozenset(BASE)
        heads = {head.name: frozenset([head.output]) for head in self.heads}
        return heads.get(name) or next(frozenset(part.writes) for part in self.neurons if part.name == name)

    def read(self, receiver: str) -> frozenset[str]:
        """Spaces that a receiver reads, such as "induction.k", "lookup", "target"."""
        if receiver == "target":
            return frozenset([self.output])
        name, _, side = receiver.partition(".")
        for head in self.heads:
            if head.name == name:
                sides = {"q": [term.query for term in head.scores], "k": [term.key for term in head.scores]}
                return frozenset({**sides, "v": list(head.values)}[side])
        return frozenset(next(part.reads for part in self.neurons if part.name == name))


def compiled(layout: Layout, settings: Settings, *, without: frozenset[str] = frozenset(), empty: bool = False) -> Any:
    """Compiled model, in eval mode and float32.

    Args:
        layout: The program.
        settings: Norms, activation, sharpness, noise, superposition, seed.
        without: Heads or neurons whose output weights are zero, up to noise.
        empty: Whether to omit program and distractors, so that the model only has noise and the norms' gains.
    """
    return _Compiler(layout, settings, without, empty).model()


def _generator(seed: int, use: int) -> torch.Generator:
    return torch.Generator().manual_seed(1000 * seed + use)


@dataclass
class _Compiler:
    layout: Layout
    settings: Settings
    without: frozenset[str]
    empty: bool
    basis: dict[str, Float[Tensor, "d_space d_model"]] = field(init=False)
    weights: dict[str, Tensor] = field(init=False)
    width: int = 0
    d_head: int = 0
    d_mlp: int = 0

    @torch.no_grad()
    def model(self) -> Any:
        layout, settings = self.layout, self.settings
        self.basis = self._directions()
        distractors = _distractors(layout, _DISTRACTOR_SIZE[settings.norm])
        self.d_head = max(
            *(sum(len(term.matrix.T) for term in head.scores) for head in (*layout.heads, *distractors)),
            *layout.sizes.values(),
        )
        self.d_mlp = 8 + max(sum(len(n) for n in layout.neurons if n.layer == at) for at in range(layout.n_layers))
        model, self.weights = native_model(
            n_layers=layout.n_layers,
            d_model=self.width,
            n_heads=layout.n_heads,
            d_head=self.d_head,
            d_mlp=self.d_mlp,
            n_ctx=layout.n_positions,
            d_vocab=layout.n_tokens,
            act_fn="silu" if settings.gated else "gelu",
            gated_mlp=settings.gated,
            normalization_type=None if settings.norm == "none" else settings.norm,
        )
        for weight in self.weights.values():
            weight.zero_()
        if not self.empty:
            self._write(distractors)
        self._add_noise()
        self._set_gains()
        return model

    @property
    def constant(self) -> float:
        return _CONSTANT[self.settings.norm]

    def _directions(self) -> dict[str, Float[Tensor, "d_space d_model"]]:
        """Directions of the coordinates of each space: orthonormal, in superposition nearly orthogonal."""
        sizes, settings = self.layout.sizes, self.settings
        number = sum(sizes.values())
        centred = settings.norm == "LN"
        within = 1 + round((number - 1) / settings.superposition)
        self.width = within + centred
        draw = torch.randn(self.width, self.width, generator=_generator(settings.seed, 1))
        if centred:
            draw[:, 0] = 1.0  # directions have mean 0, since LayerNorm subtracts the mean
        axes = torch.linalg.qr(draw).Q.T[int(centred) :] if settings.rotated else torch.eye(self.width)
        frame = torch.eye(number - 1)
        if within < number:  # rows of a random tight frame, normalised
            turned = torch.randn(number - 1, number - 1, generator=_generator(settings.seed, 2))
            frame = torch.nn.functional.normalize(torch.linalg.qr(turned).Q[:, : within - 1], dim=1)
        rows = torch.cat([axes[:1], frame @ axes[1:]])
        return dict(zip(sizes, torch.split(rows, list(sizes.values())), strict=True))

    def _write(self, distractors: list[Head]) -> None:
        layout = self.layout
        constant = self.constant * self.basis["constant"]
        self.weights["tok_embed.weight"][:] = self.basis["token"] + constant
        self.weights["pos.weight"][:] = self.basis["position"]
        self.weights["head.weight"][:] = 3.0 * self.basis[layout.output]
        spare = iter(distractors)
        for layer in range(layout.n_layers):
            own = [head for head in layout.heads if head.layer == layer]
            own += islice(spare, layout.n_heads - len(own))
            for number, head in enumerate(own):
                self._write_head(layer, number, head)
            neurons = [part for part in layout.neurons if part.layer == layer]
            self._write_neurons(layer, [*neurons, self._distracting(layer)])

    def _reads(self, space: str) -> Float[Tensor, "d_space d_model"]:
        """Vectors whose products with the residual stream are the coordinates of a space."""
        return self.basis[space] / (self.constant if space == "constant" else 1.0)

    def _write_head(self, layer: int, number: int, head: Head) -> None:
        sizes = self.layout.sizes
        rows = slice(number * self.d_head, (number + 1) * self.d_head)
        at = f"layers.{layer}.attn"
        query, key, value, output = (torch.zeros(self.d_head, self.width) for _ in range(4))
        first = 0
        for term in head.scores:
            last = first + sizes[term.key]
            query[first:last] = term.matrix.T @ self._reads(term.query)
            key[first:last] = self._reads(term.key)
            first = last
        for space, matrix in head.values.items():
            value[: sizes[head.output]] += matrix.T @ self._reads(space)
        if head.name not in self.without:
            output[: sizes[head.output]] = self.basis[head.output]
        self.weights[f"{at}.q.weight"][rows] = self.settings.sharpness * self.d_head**0.5 * query
        self.weights[f"{at}.k.weight"][rows] = key
        self.weights[f"{at}.v.weight"][rows] = value
        self.weights[f"{at}.o.weight"][:, rows] = output.T

    def _distracting(self, layer: int) -> Neurons:
        """Neurons that read and write the space of distractors."""
        draw = torch.randn(2, 8, _DISTRACTORS, generator=_generator(self.settings.seed, 10 + layer))
        size = _DISTRACTOR_SIZE[self.settings.norm]
        reads = 0.1 * draw[0] / size  # pre-activations in the curved part of the activation
        return Neurons(DISTRACTOR, layer, {DISTRACTOR: reads}, torch.zeros(8), {DISTRACTOR: 0.2 * size * draw[1]})

    def _write_neurons(self, layer: int, parts: list[Neurons]) -> None:
        at, first = f"layers.{layer}.mlp", 0
        names = ("gate", "out") if self.settings.gated else ("fc_in", "fc_out")
        into, out = (self.weights[f"{at}.{name}.weight"] for name in names)
        act = torch.nn.functional.silu if self.settings.gated else torch.nn.functional.gelu
        on = float(act(torch.tensor(_STEEPNESS / 2)))
        for part in parts:
            rows = slice(first, first + len(part))
            first = rows.stop
            for space, matrix in part.reads.items():
                into[rows] += _STEEPNESS * matrix @ self._reads(space)
            into[rows] -= _STEEPNESS * part.thresholds[:, None] * self._reads("constant")
            if part.name not in self.without:
                for space, matrix in part.writes.items():
                    out[:, rows] += (matrix @ self.basis[space]).T / on
        if self.settings.gated:
            self.weights[f"{at}.in.weight"][:first] = self._reads("constant")

    def _add_noise(self) -> None:
        if not self.settings.noise:
            return
        generator, unit = _generator(self.settings.seed, 3), self.basis["constant"]
        for name, weight in self.weights.items():
            if weight.ndim == 2:
                drawn = torch.randn(weight.shape, generator=generator)
                noise = self.settings.noise * drawn / self.width**0.5
                if name.split(".")[-2] in _READERS:
                    noise = noise - (noise @ unit.T) @ unit
                weight += noise

    def _set_gains(self) -> None:
        """Set gains of norms to the typical scale of their input, so that spaces keep their sizes."""
        usual = (self.constant**2 + 3.0) ** 0.5 / self.width**0.5
        for name, weight in self.weights.items():
            if weight.ndim == 1 and name.endswith("weight"):
                weight.fill_(usual)


def _distractors(layout: Layout, size: float) -> list[Head]:
    """Heads that attend to the previous token, the first, the same or all, and copy the program's spaces to distractors."""
    sizes, n = layout.sizes, layout.n_positions
    first = torch.zeros(n, n)
    first[:, 0] = 1.0
    patterns = (torch.eye(n).roll(-1, dims=1), first, torch.eye(n), torch.zeros(n, n))
    number = layout.n_layers * layout.n_heads - len(layout.heads)
    sources = ["token", *layout.spaces]
    made = []
    for each, pattern in enumerate(islice(cycle(patterns), number)):
        source = sources[each % len(sources)]
        matrix = torch.randn(sizes[source], _DISTRACTORS, generator=_generator(each, 4)) / _DISTRACTORS**0.5
        made.append(
            Head(
                f"{DISTRACTOR} {each}",
                0,
                (Match("position", "position", pattern),),
                {source: size * matrix},
                DISTRACTOR,
            )
        )
    return made
