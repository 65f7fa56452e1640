"""Attribution: one target of one sequence attributed to its tokens and biases, through heads, edges and neurons."""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, SupportsIndex, TypeAlias, overload

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.average_shares import Averages, Places, at_positions, averages, neurons_at, numbered
from tl_ffblock.attribution.certificate import VANISHED, Certificate, relative
from tl_ffblock.errors import InputError, ScopeKeyError, renamed
from tl_ffblock.graphs.attribution_graph import AttributionGraph, Flows, attribution_graph
from tl_ffblock.graphs.graph import GraphTarget
from tl_ffblock.layer.heads import head_names
from tl_ffblock.layer.positions import NamedPositions, layer_number
from tl_ffblock.layer.records import TOLERANCE
from tl_ffblock.metrics import CENTRED_LOGIT
from tl_ffblock.numerals import significant
from tl_ffblock.result import Result, long_form
from tl_ffblock.results.image_map import ImageMap, image_map_of
from tl_ffblock.results.intervals import N_DRAWS, identity_of
from tl_ffblock.results.ranks import largest
from tl_ffblock.results.tables import Arithmetic, ScopeTable, alike, combined, weighed
from tl_ffblock.results.token_maps import BETWEEN_TOKENS, TokenMaps
from tl_ffblock.results.tokens import shortened, told_apart
from tl_ffblock.signatures import strict

Table: TypeAlias = Literal["summands", "heads", "mlps", "neurons", "edges"]
"""Tables of an attribution."""
TermRow: TypeAlias = tuple[str, int, int, str, float]
"""Kind, layer, position, name and value of a term; the layer is -1 before the first, the position -1 for a sum over positions."""
MapsOf: TypeAlias = Literal["residual", "heads", "edges"]
"""What there are token maps of."""
_COLUMNS: dict[MapsOf, str] = {"residual": "flowing at", "heads": "written at", "edges": BETWEEN_TOKENS}
"""What the column of a token map stands for."""
_ARITHMETIC = Arithmetic(
    same=("rules", "n_layers", "part_names", "edit_layers"),
    joined=("labels", "quantity", "model", "fingerprint", "prompt"),
    numbers=("value", "first_order", "tokens", "positions", "token_types", "residual", "edits", "parts"),
    rows=("bias_names", "bias_layers", "bias_shares"),
)
"""How a difference or a mean combines the fields."""
_RTOL_OF_COMBINED = 1e-4
"""Largest relative error of the sums of a difference or a mean, which have no certificate."""


@strict
@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Attribution(Result):
    """Signed attributions of one target of one sequence, in the target's units (logits, nats).

    With complete rules `value = tokens + positions + token types + biases + edits + nonlinear`. The same holds at every layer:
    the attribution to the residual stream at its input, plus the biases and edits that are added at or after this layer.
    """

    labels: tuple[str, ...]
    """The tokens as the tokenizer shows them, or ids as text where there is no tokenizer."""
    target: str
    """The target in words, with the tokens that it reads: "logit difference ' Mary' - ' John'"."""
    rules: str
    """"path", "patching" or "gradient"."""
    value: float
    """Value of the target."""
    first_order: float
    """`<logits, df/d logits>`, the attributed number. It equals `value` if the target is linear in the logits."""
    tokens: Float[Tensor, " pos"]
    """Attribution to each token embedding."""
    positions: Float[Tensor, " pos"]
    """Attribution to each position embedding; 0 if the model has none (rotary, ALiBi)."""
    token_types: Float[Tensor, " pos"]
    """Attribution to each segment embedding; 0 if the model has none."""
    residual: Float[Tensor, "boundary pos"]
    """Attribution to the residual stream at each position: at each layer's input, and after the last layer."""
    bias_names: tuple[str, ...]
    bias_layers: tuple[int, ...]
    """The layer that adds each bias; -1 before the first, the number of layers after the last."""
    bias_shares: Float[Tensor, "bias pos"]
    """Attribution to each bias, at each position where it is added."""
    edits: Mapping[str, float]
    """By HookPoint: attribution to what your callbacks added there."""
    edit_layers: Mapping[str, int]
    parts: Mapping[str, Tensor]
    """The tables that `of=` asked for: "heads", "edges", "mlps", "masking", and "neurons.3" of layer 3."""
    model: str = "model"
    """Name of the model, for labels."""
    certificate: Certificate | None = None
    """Measured errors; None for a difference or a mean."""
    quantity: str = "target"
    """Kind of the target, without its tokens: "logit difference"."""
    fingerprint: str = ""
    """Fingerprint of the model's weights; empty if it is not known."""
    prompt: str = ""
    """The prompt before tokenisation; empty in files of earlier versions."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What results must have in common to be averaged: quantity, model and weights, rules."""
        return identity_of(self.quantity, self.model, {"fingerprint": self.fingerprint, "rules": self.rules})

    @property
    def token_attributions(self) -> Float[Tensor, " pos"]:
        """Attribution to each token [pos]: the sum of `tokens`, `positions` and `token_types`."""
        return self.tokens + self.positions + self.token_types

    entering = renamed("entering", "token_attributions", lambda attribution: attribution.token_attributions)

    @property
    def vanishes(self) -> bool:
        """Whether `token_attributions` is only rounding, because a norm of the embeddings comes before the first layer.

        A norm N gives `N(c x) = N(x)` up to its epsilon, so `<x, df/dx> = d f(N(c x)) / dc = 0` at c = 1, for every target.
        Without such a norm, `token_attributions` equals `residual[0]`. It vanishes if its largest absolute value is less than `rtol` times
        that of `residual[0]`.
        """
        before = any(layer < 0 for layer in self.edit_layers.values())
        if self.rules != "gradient" or before or not len(self.labels):
            return False
        rtol = _RTOL_OF_COMBINED if self.certificate is None else min(self.certificate.rtol, max(TOLERANCE.values()))
        return float(self.token_attributions.abs().max()) < rtol * float(self.residual[0].abs().max())

    @property
    def biases(self) -> dict[str, float]:
        """Attribution to each bias by the name of its parameter, summed over positions."""
        return dict(zip(self.bias_names, self.bias_shares.sum(dim=1).tolist(), strict=True))

    @property
    def nonlinear(self) -> float:
        """`value - first_order`: 0 for logits and their differences, minus the entropy for log probabilities."""
        return self.value - self.first_order

    @property
    def n_layers(self) -> int:
        """Number of layers of the model."""
        return len(self.residual) - 1

    @property
    def heads(self) -> Float[Tensor, "layer head pos"]:
        """Attribution to each head's output at each position.

        Raises:
            ScopeKeyError: if `of=` did not ask for it.
        """
        return self._part("heads", "heads")

    @property
    def mlps(self) -> Float[Tensor, "layer pos"]:
        """Attribution to the neurons of each feed-forward at each position; the output bias is one of `biases`.

        For a mixture of experts, attribution to the output of all experts, including their biases.

        Raises:
            ScopeKeyError: if `of=` did not ask for it.
        """
        return self._part("mlps", "mlps")

    @property
    def edges(self) -> Float[Tensor, "layer head query key"]:
        """Attribution to each attention edge, from a key to a query through a head. Over keys, edges sum to the head.

        If a hook of yours edits z of a layer, edges are those before the edit. Over keys they then sum to the head less what
        the edit adds, which is in `edits`.

        Raises:
            ScopeKeyError: if `of=` did not ask for it.
        """
        return self._part("edges", "edges")

    @property
    def masking(self) -> Float[Tensor, " pos"]:
        """Estimated fall of the target if no other position attends to a token. Each token is masked alone, so there is no sum.

            masking_j = sum over layers, heads and i != j of P_ij / (1 - P_ij) <g_i, v_j - z_i>

        With unchanged scores of the other keys, P_ij / (1 - P_ij) (v_j - z_i) is the fall of a head's output z_i = sum_j P_ij v_j
        without key j. g_i is the target's derivative by z_i, by the rules. In a layer without a softmax other weights stay, so this fall
        is `C_ij v_j`, with v_j after the convolution. The estimate is exact for one layer of attention with
        a linear map after it. To rank tokens, add `Attribution.token_attributions` of `rules="path"` to the masking of `rules="patching"`:
        this sum is a heuristic.

        Raises:
            ScopeKeyError: if `of=` did not ask for it.
        """
        return self._part("masking", "masking")

    def neurons(self, layer: int) -> Float[Tensor, "pos d_mlp"]:
        """Attribution to each neuron of a layer at each position; the output bias is one of `biases`.

        Raises:
            ScopeKeyError: if `of=` did not ask for it, or the layer is a mixture of experts.
            LayerError: if there is no such layer.
        """
        return self._part(f"neurons.{layer_number(layer, self.n_layers)}", "neurons")

    @property
    def part_names(self) -> tuple[str, ...]:
        """Names of the tables that are present: one per layer of neurons and one per scope of maps."""
        return tuple(sorted(self.parts))

    @property
    def neuron_layers(self) -> tuple[int, ...]:
        """Layers with attributions of neurons; a mixture of experts has none."""
        return tuple(layer for layer in range(self.n_layers) if f"neurons.{layer}" in self.parts)

    @property
    def maps(self) -> ScopeTable:
        """Attribution to each contribution of a layer map, signed: `maps["AtbLnFf", 9]` is `Float[query key]`.

        The cells of a scope sum to the attribution at that scope, without its bias term. Scopes end at the layer's output. In
        Pre-LN there is no `AtbLnFfResLn`: the norm after the output belongs to the next layer, and is in its maps.

        Raises:
            ScopeKeyError: if `of=` did not ask for them.
        """
        held = {name.removeprefix("maps."): cells for name, cells in self.parts.items() if name.startswith("maps.")}
        if not held:
            raise ScopeKeyError('this result has no maps: pass of=("maps", ...) to ffb.attribute.')
        return ScopeTable(held, tuple(range(self.n_layers)))

    def image_map(self, picture: Any = None, *, image: SupportsIndex = 1) -> ImageMap:
        """Image tokens' attributions by their rows and columns in the image, with a figure and a page over the picture.

        Features that the model adds at these tokens after later layers (DeepStack, Qwen3-VL) belong to them.

        Args:
            picture: The picture as the processor has cropped it, since it is drawn over the whole grid: a PIL image, numbers [height
                width rgb], or `pixel_values`. None means none.
            image: Number of the image in the prompt, from 1.

        Raises:
            InputError: if the prompt has no such image with rows and columns, or the picture cannot be read.
        """
        added = [number for number, name in enumerate(self.bias_names) if name.endswith(".deepstack")]
        numbers = self.token_attributions + self.bias_shares[added].sum(dim=0)
        said: dict[str, Any] = {"quantity": f"attribution of {self.target}", "signed": True, "model": self.model}
        return image_map_of(numbers, self.labels, picture, image, **said)

    def token_maps(self, of: MapsOf = "residual") -> TokenMaps:
        """Signed shares as `TokenMaps`, which `ffb.average(results, positions={"IO": [2, 4], "END": -1})` takes as they are.

        "residual" and "heads" have one row, with one column per position. The column is the position at which a head writes, or
        that of the residual stream; the source of a head's output is in its edges. "residual" has one layer more than the
        model: the first is the token attribution, the last is after the last layer.

        Args:
            of: "residual" [n_layers + 1, 1, 1, pos], "heads" [layer head 1 pos] or "edges" [layer head query key].

        Raises:
            InputError: for another name.
            ScopeKeyError: if `of=` of `ffb.attribute` did not ask for it.
        """
        values = self.residual[:, None, None] if of == "residual" else self._part(of, of)
        reaching = self.residual.any(dim=1).nonzero()
        # The last position with an attribution, at the last layer that has any.
        read_at = int(self.residual[int(reaching.max())].nonzero().max()) if len(reaching) else len(self.labels) - 1
        return TokenMaps(
            values=values[:, :, None] if of == "heads" else values,
            tokens=self.labels,
            layers=tuple(range(len(values))),
            channels=("residual",) if of == "residual" else head_names(range(values.shape[1])),
            queries=tuple(range(len(self.labels))) if of == "edges" else (read_at,),
            causal=of == "edges" and not bool(values.triu(1).any()),
            column=_COLUMNS[of],
            model=self.model,
            signed=True,
            kind=f"attributions of the {self.quantity}",
            provenance={"fingerprint": self.fingerprint, "rules": self.rules},
        )

    def graph(self, keep: float = 0.9) -> AttributionGraph:
        """Pruned attribution graph of tokens, heads, feed-forwards and the residual stream. Edges into a node sum to it.

        Nodes are tokens, heads ("L23H3"), feed-forwards ("L23.mlp"), the residual stream at layers' inputs ("L23.resid") and
        after attention ("L23.resid_mid", not in parallel layers), and the target. Each has a position. Their intercepts are
        compared with the named biases. Your hooks may scale any activation, and add to the residual stream at layers' inputs
        and outputs. Additions elsewhere have no node, and are refused.

        Args:
            keep: Fraction of the sum of absolute edge weights to keep, largest first. All other edges go through the node "pruned".

        Raises:
            ScopeKeyError: if `of=("graph", ...)` did not ask for it.
            InputError: for rules that are not complete, or a `keep` outside 0 to 1.
            CompletenessError: if intercepts differ from the named biases by more than the certificate's tolerance,
                for example if a hook of yours adds something inside a layer.
        """
        self._part("graph.edges", "graph")
        if self.rules != "path":
            raise InputError(
                f"graph: this attribution has rules={self.rules!r}; expected rules='path', which is complete."
            )
        biases: dict[int, float] = defaultdict(float)
        for layer, share in zip(self.bias_layers, self.bias_shares.double(), strict=True):
            biases[layer] += float(share.sum())
        edits: dict[int, tuple[str, ...]] = defaultdict(tuple)
        for name, of_edit in self.edits.items():
            biases[self.edit_layers[name]] += of_edit
            edits[self.edit_layers[name]] += (name,)
        asked = {name: part for name, part in self.parts.items() if name.startswith("graph.")}
        layers = {name.removeprefix("graph."): part.double() for name, part in asked.items()}
        flows = Flows(
            model=self.model,
            labels=self.labels,
            target=GraphTarget(self.target, self.value),
            first_order=self.first_order,
            entering=self.token_attributions.double(),
            stream=self.residual.double(),
            layers={**layers, "heads": self.parts["heads"][: len(layers["edges"])].double()},
            biases=biases,
            edits=edits,
            size=self.total_size(),
            rtol=self.certificate.rtol if self.certificate is not None else _RTOL_OF_COMBINED,
            certificate=repr(self.certificate or "no certificate: a difference or a mean"),
            prompt=self.prompt,
        )
        return attribution_graph(flows).prune(keep)

    def _part(self, name: str, asked: str) -> Tensor:
        if name not in self.parts:
            there = ", ".join(dict.fromkeys(key.split(".")[0] for key in self.parts)) or "none"
            experts = " Layers that are a mixture of experts have no neurons of their own." * (asked == "neurons")
            raise ScopeKeyError(f"this result has no {name}, but {there}: pass of=({asked!r}, ...).{experts}")
        return self.parts[name]

    def written(self) -> Float[Tensor, "layer term"]:
        """Further terms of the target, by the layer that adds them to the residual stream: none here, heads in subclasses."""
        return self.residual.new_zeros(self.n_layers, 0)

    def total(self) -> float:
        """Sum of all attributions to tokens, biases and edits."""
        shares = self.token_attributions.sum() + self.bias_shares.sum() + self.written().sum()
        return float(shares) + sum(self.edits.values())

    def total_size(self) -> float:
        """Sum of the absolute values of all attributions; errors are relative to it."""
        sizes = (
            self.token_attributions.abs().sum() + self.bias_shares.sum(dim=1).abs().sum() + self.written().abs().sum()
        )
        return float(sizes) + sum(map(abs, self.edits.values()))

    def boundary_errors(self, last: int) -> Float[Tensor, " boundary"]:
        """Error of the sum at the embeddings, at every layer's input and at the end, over the sum of absolute values.

        Args:
            last: The layer at whose input the target is read. Errors after it are 0.
        """
        layers = torch.tensor(self.bias_layers)
        biases = self.bias_shares.sum(dim=1)
        entering = torch.stack([self.token_attributions, *self.residual])
        errors = entering.new_zeros(len(entering))
        everything, written = self.total_size(), self.written().sum(dim=1)
        for row, flowing in enumerate(entering[: last + 2]):
            later = layers >= row - 1
            edits = sum(share for name, share in self.edits.items() if self.edit_layers[name] >= row - 1)
            later_terms = biases[later].sum() + written[max(row - 1, 0) :].sum()
            miss = (flowing.sum() + later_terms + edits - self.first_order).abs()
            errors[row] = relative(miss, flowing.abs().sum() + everything)
        return errors

    def __sub__(self, other: "Attribution") -> "Attribution":
        """Difference of two attributions, term by term: its target is "a - b", tokens that differ are "first-second".

        A bias that only one of the two has counts as 0 in the other.

        Raises:
            InputError: if the two results have different terms.
        """
        if not isinstance(other, Attribution):
            return NotImplemented
        difference = combined([self, other], weighed((1.0, -1.0)), "-", "subtract", _ARITHMETIC)
        names = [f"({name})" if " - " in name else name for name in (self.target, other.target)]
        target = f"difference of {self.target}" if self.target == other.target else " - ".join(names)
        quantity = f"difference of {difference.quantity}"
        return dataclasses.replace(difference, target=target, quantity=quantity, certificate=None)

    @overload
    @staticmethod
    def mean(results: "Iterable[Attribution]", positions: None = None) -> "Attribution": ...
    @overload
    @staticmethod
    def mean(results: "Iterable[Attribution]", positions: NamedPositions) -> Averages: ...
    @staticmethod
    def mean(results: "Iterable[Attribution]", positions: NamedPositions | None = None) -> "Attribution | Averages":
        """Mean of attributions of equally many tokens; tokens that differ are "she|he".

        Args:
            results: One per prompt.
            positions: Names of positions, as in `ffb.average_shares`, for prompts of any lengths. The result then has the mean
                attributions to the residual stream, heads and feed-forwards at these positions, with 95 % intervals.

        Raises:
            InputError: if there is no result, the results have different terms, or a position does not exist.
        """
        several = alike(results, Attribution, "ffb.attribute")
        if positions is not None:
            kinds = {"heads": "head", "mlps": "mlp"}
            asked = [kind for part, kind in kinds.items() if part in several[0].parts]
            return averages(several, ("residual", *asked), positions, N_DRAWS, 0)
        n, target = len(several), several[0].target
        mean = combined(several, weighed((1 / n,) * n), "|", "average", _ARITHMETIC)
        if n > 1:
            target = f"mean of {n}: {target}"
        if len({result.target for result in several}) > 1:
            target = f"mean of {n} targets: {mean.quantity}"
        return dataclasses.replace(mean, target=target, certificate=None)

    def by_component(self, of: str, at: Sequence[int] | None) -> tuple[Places, Float[Tensor, "*place"]]:
        """Axes and attributions of one kind, summed over positions or at some, for `ffb.average_shares`.

        Raises:
            InputError: if attributions have no such kind.
            ScopeKeyError: if `of=` of `ffb.attribute` did not ask for it.
        """
        if of == "biases":
            return {"bias": self.bias_names}, at_positions(self.bias_shares, at)
        if of == "neurons":
            return neurons_at(self, at)
        if of not in ("heads", "mlps", "residual"):
            raise InputError(
                f"of={of!r}: expected heads, neurons, biases, mlps or residual. For edges use "
                "ffb.average([result.token_maps('edges') for result in results], positions)."
            )
        values = self.residual if of == "residual" else self._part(of, of)
        return numbered(values, "layer", "head"), at_positions(values, at)

    def sums(self) -> dict[str, float]:
        """Terms of the target by kind. Kinds without an attribution are omitted, except tokens."""
        terms = {
            "tokens": float(self.token_attributions.sum()),
            "biases": float(self.bias_shares.sum()),
            "edits": sum(self.edits.values()),
            "nonlinear": self.nonlinear,
        }
        if self.rules != "path":
            terms["not attributed"] = self.value - sum(terms.values())
        return {name: share for name, share in terms.items() if share or name == "tokens"}

    def embedding_sums(self) -> dict[str, float]:
        """Terms of the tokens' attribution by kind of embedding; empty if there are only token embeddings."""
        others = {"positions": float(self.positions.sum()), "token types": float(self.token_types.sum())}
        shown = {name: share for name, share in others.items() if share}
        return {"embeddings": float(self.tokens.sum())} | shown if shown else {}

    def to_dataframe(self, of: Table = "summands", k: int | None = None) -> pd.DataFrame:
        """Table of the terms of the target, or of attributions to heads, feed-forwards, neurons or edges.

        `"summands"` (kind, layer, position, name, value) has one row per position's token, position and token type, each bias,
        each edit and the nonlinear part, in the text's order, and sums to the target where rules are complete. Its position is -1
        where a term is of no single one: a bias and an edit are summed over positions. Its layer is -1 before the first. The others are
        what of it flows through the model's components, which overlap and do not sum to it: "heads" (layer, head, position,
        token, value) is what each head writes at each position, "neurons" (layer, neuron, position, token, value) likewise, and
        "edges" (layer, head, query, key, query_token, key_token, value) what a head moves from key to query. "mlps" (layer,
        position, token, value) is what each feed-forward writes. Their shares of 0 have no row.

        Args:
            of: `"summands"`, "heads", "mlps", "neurons" or "edges".
            k: Number of rows, the largest absolute values first; None means all.

        Raises:
            InputError: for another table, or an invalid `k`.
            ScopeKeyError: if `of=` of `ffb.attribute` did not ask for it.
        """
        if of == "summands":
            rows = [*self._term_rows()]
            frame = pd.DataFrame(rows, columns=["kind", "layer", "position", "name", "value"])
            return frame if k is None else frame.iloc[largest(torch.tensor(frame["value"].to_numpy()), k).numpy()]
        layers, unit = (self.neuron_layers or [0], "neuron") if of == "neurons" else (range(self.n_layers), "head")
        shares = torch.stack([self.neurons(layer).T for layer in layers]) if of == "neurons" else self._part(of, of)
        ends = dict.fromkeys(("query", "key") if of == "edges" else ("position",), range(len(self.labels)))
        axes = {"layer": layers} | ({} if of == "mlps" else {unit: range(shares.shape[1])}) | ends
        frame = long_form(shares, axes, self.labels, largest(shares, k))
        return frame[frame["value"] != 0]

    def _term_rows(self) -> "Iterator[TermRow]":
        """Terms of the target."""
        of_positions = {"token": self.tokens, "position": self.positions, "token type": self.token_types}
        for kind, shares in of_positions.items():
            if kind == "token" or bool(shares.any()):
                by_position = enumerate(zip(self.labels, shares.tolist(), strict=True))
                yield from ((kind, -1, position, label, share) for position, (label, share) in by_position)
        biases = zip(self.bias_layers, self.biases.items(), strict=True)
        yield from (("bias", layer, -1, name, share) for layer, (name, share) in biases)
        yield from (("edit", self.edit_layers[name], -1, name, share) for name, share in self.edits.items())
        if self.nonlinear:
            yield "nonlinear", self.n_layers, -1, self.target, self.nonlinear

    def to_dict(self) -> dict[str, Any]:
        """Labels, target, terms, heads and certificate, as a dictionary for JSON.

        Neurons and edges are omitted because they may be large: use `to_dataframe` or `save`.
        """
        certificate = None if self.certificate is None else dataclasses.asdict(self.certificate)
        if certificate is not None:
            certificate["layer_inputs"] = certificate["layer_inputs"].tolist()
        plain = ("target", "rules", "model", "value", "first_order", "nonlinear", "biases")
        return {
            "labels": list(self.labels),
            **{name: getattr(self, name) for name in plain},
            **{name: getattr(self, name).tolist() for name in ("tokens", "positions", "token_types", "residual")},
            **{name: self.parts[name].tolist() for name in ("heads", "mlps") if name in self.parts},
            "edits": dict(self.edits),
            "certificate": certificate,
        }

    def summary(self) -> tuple[str, Mapping[str, object]]:
        labels, most = told_apart(self.labels), largest(self.token_attributions, 5).tolist()
        named = "  ".join(f"{labels[pos]!r} {significant(float(self.token_attributions[pos]))}" for pos in most)
        within = f" ({in_words(embeddings)})" if (embeddings := self.embedding_sums()) else ""
        tokens, *others = (in_words({name: share}) for name, share in self.sums().items())
        lines = {
            "text": shortened(self.labels),
            "sums": " · ".join([tokens + within, *others]),
            "largest": f"no token: {VANISHED}" if self.vanishes else named,
        }
        if "heads" in self.parts:
            by_head = self.heads.sum(dim=-1)
            places = [divmod(place, by_head.shape[1]) for place in largest(by_head, 5).tolist()]
            heads = (f"L{layer}H{head} {significant(float(by_head[layer, head]))}" for layer, head in places)
            lines["heads"] = f"{'  '.join(heads)}  (over all positions)"
        if "mlps" in self.parts:
            by_layer = self.mlps.sum(dim=-1)
            mlps = (f"L{layer}.mlp {significant(float(by_layer[layer]))}" for layer in largest(by_layer, 5).tolist())
            lines["feed-forwards"] = f"{'  '.join(mlps)}  (over all positions)"
        bare = self.quantity in ("logit", CENTRED_LOGIT)
        if bare and self.value and (first := float(self.token_attributions[0]) / self.value) > 0.4:
            lines["note"] = (
                f"{labels[0]!r} has {first:.0%} of it, as the first token often has of a logit, also minus the mean logit: compare "
                "the other tokens with one another"
            )
        lines["checks"] = str(self.certificate or "no certificate: a difference or a mean").removeprefix("Checks: ")
        value = significant(self.value, 4, "-")
        return f"{self.target} = {value} of {self.model}, rules={self.rules!r}", lines


def in_words(shares: Mapping[str, float]) -> str:
    """Names and attributions in one line: `tokens +5.29 · biases -0.3`."""
    return " · ".join(f"{name} {significant(share)}" for name, share in shares.items())
