"""Runs of one prompt side by side, in each of which some of its tokens are taken away.

mask   no other position attends to the token: its score is the smallest number before every softmax. Bridges that compute
       attention before a HookPoint shows it are given an attention mask [run 1 query key] instead.
mean   the token is embedded as the mean of all tokens of the vocabulary, at its position.

What is held of every run with a mask: the pattern that attention used gives a removed token no weight elsewhere, and
what enters the first layer is what entered it before (a mask that numbers positions anew is refused so).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tl_ffblock.bridge.ends import token_embedding_name
from tl_ffblock.bridge.inputs import at_model
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.sites import output_name, values_name
from tl_ffblock.bridge.taps import Tap
from tl_ffblock.errors import InputError, UnsupportedModelError

RemovalName: TypeAlias = Literal["mask", "mean"]

_RUN_BYTES = {"cpu": 2**28, "cuda": 2**32}
"""What the outputs of runs side by side may occupy, by device; one may always have more."""
_ROUNDING = 1e-4
"""How far what enters the first layer may be from what entered it, relative to the largest."""
_INPUT, _PATTERN, _SCORES = "hook_resid_pre", "attn.hook_pattern", "attn.hook_attn_scores"


@dataclass(frozen=True)
class Removals:
    """One prompt's runs without some of its tokens."""

    model: Model
    tokens: Int[Tensor, " pos"]
    removal: RemovalName
    layer: int | None
    """The layer at whose input runs are read, the number of layers for the last one's output; None reads the logits."""

    def outputs(self, removed: Bool[Tensor, "run pos"]) -> Iterator[Float[Tensor, "run pos d"]]:
        """What is read of every run, some runs at a time.

        Args:
            removed: Which tokens each run does without.

        Raises:
            UnsupportedModelError: if they cannot be removed so from this model.
        """
        cfg, weights = self.model.hooked.cfg, next(self.model.hooked.parameters())
        width = max(int(getattr(cfg, "d_vocab", 0) or 0), self.model.n_heads * len(self.tokens), int(cfg.d_model))
        budget = _RUN_BYTES.get(weights.device.type, _RUN_BYTES["cpu"])
        for rows in torch.split(removed, max(1, budget // (len(self.tokens) * width * weights.element_size()))):
            yield self._with_mean(rows) if self.removal == "mean" else self._with_mask(rows)

    def _with_mean(self, removed: Bool[Tensor, "run pos"]) -> Float[Tensor, "run pos d"]:
        mean = self.model.hooked.W_E.detach().mean(dim=0)

        def put(x: Tensor, hook: object = None) -> Tensor:
            factor = _factor(self.model, self.tokens, x)
            return torch.where(removed.to(x.device)[:, :, None], (factor * mean).to(x), x)

        return self._run(len(removed), {token_embedding_name(self.model): put})

    def _with_mask(self, removed: Bool[Tensor, "run pos"]) -> Float[Tensor, "run pos d"]:
        model, seen, hidden = self.model, self._seen, _hidden(removed)
        callbacks: dict[str, Callable[..., Any]] = {f"blocks.0.{_INPUT}": partial(_hold_input, model, seen.input)}
        for layer in range(model.n_layers):
            callbacks[f"blocks.{layer}.{_PATTERN}"] = partial(_hold_pattern, model, layer, hidden)
            if not seen.used_before_shown:
                callbacks[f"blocks.{layer}.{_SCORES}"] = partial(_hide, hidden)
        if not seen.used_before_shown:
            return self._run(len(removed), callbacks)
        later = torch.ones_like(hidden).triu(1) if model.family.causal else torch.zeros_like(hidden)
        try:
            return self._run(len(removed), callbacks, hidden | later)
        except (IndexError, TypeError, ValueError) as error:
            raise _refusal(model, "takes no attention mask by query and key") from error

    @cached_property
    def _seen(self) -> "_Seen":
        """What the prompt's run as it is shows."""
        seen = _Seen()
        self._run(1, {f"blocks.0.{_INPUT}": seen.enter, f"blocks.0.{_PATTERN}": seen.show, values_name(0): seen.use})
        return seen

    @torch.no_grad()
    def _run(
        self,
        n_runs: int,
        callbacks: dict[str, Callable[..., Any]],
        hidden: Bool[Tensor, "run 1 query key"] | None = None,
    ) -> Float[Tensor, "run pos d"]:
        """Runs side by side; `hidden` goes into an attention mask."""
        model, options = self.model, {}
        if hidden is not None:
            numbers = next(model.hooked.parameters())
            options["attention_mask"] = numbers.new_zeros(hidden.shape).masked_fill(
                hidden.to(numbers.device), torch.finfo(numbers.dtype).min
            )
        read: list[Tensor] = []
        name = self._stream_name
        tap = None if name is None else Tap(model.hook_points[name], read.append)
        try:
            with model.hooked.hooks(fwd_hooks=list(callbacks.items())):
                logits: Tensor = model.hooked(at_model(model, self.tokens).expand(n_runs, -1), **options)
        finally:
            if tap is not None:
                tap.remove()
        return logits if tap is None else read[-1]

    @property
    def _stream_name(self) -> str | None:
        if self.layer is None:
            return None
        return output_name(self.model) if self.layer == self.model.n_layers else f"blocks.{self.layer}.{_INPUT}"


class _Seen:
    """What a run shows of a model: what enters it, and whether attention was used before its pattern was shown."""

    def __init__(self) -> None:
        self.input = torch.zeros(0)
        self.used_before_shown = False
        self._shown = False

    def enter(self, x: Tensor, hook: object = None) -> None:
        self.input = x

    def show(self, pattern: Tensor, hook: object = None) -> None:
        self._shown = True

    def use(self, z: Tensor, hook: object = None) -> None:
        self.used_before_shown = not self._shown


def _hidden(removed: Bool[Tensor, "run pos"]) -> Bool[Tensor, "run 1 query key"]:
    """Pairs of a position that stays and one that is removed: of what removed positions see, nothing is read."""
    return (~removed[:, :, None] & removed[:, None, :])[:, None]


def _hide(hidden: Bool[Tensor, "run 1 query key"], scores: Tensor, hook: object = None) -> Tensor:
    return scores.masked_fill(hidden.to(scores.device), torch.finfo(scores.dtype).min)


def _hold_input(model: Model, expected: Tensor, x: Tensor, hook: object = None) -> None:
    if not bool(x.isfinite().all()):
        raise InputError(f"{model.name}: what enters the first layer holds NaN or infinity. Check the weights.")
    if not float((x - expected).abs().max()) <= _ROUNDING * float(expected.abs().max()):  # NaN is refused too
        raise _refusal(model, "numbers positions anew where tokens are hidden")


def _hold_pattern(
    model: Model, layer: int, hidden: Bool[Tensor, "run 1 query key"], pattern: Tensor, hook: object = None
) -> None:
    if not bool(pattern.isfinite().all()):
        raise InputError(f"{model.name}: the attention of layer {layer} holds NaN or infinity. Check the weights.")
    if bool((pattern * hidden.to(pattern.device)).any()):
        raise _refusal(model, f"attends, in layer {layer}, to tokens that were hidden")


def _refusal(model: Model, what: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f'removal="mask": {model.name} ({model.family.name}) {what}: its attention is out of reach of hooks. Use removal="mean".'
    )


def _factor(model: Model, tokens: Int[Tensor, " pos"], embedded: Float[Tensor, "*run pos d_model"]) -> float:
    """By what a model multiplies its embeddings (Gemma by sqrt(d_model)); 1 as a rule.

    Raises:
        UnsupportedModelError: if it embeds them otherwise.
    """
    rows, x = model.hooked.W_E.detach()[at_model(model, tokens)], embedded[0]
    if rows.shape == x.shape:
        rows = rows.to(x)
        factor = float((rows * x).sum() / (rows * rows).sum())
        if torch.allclose(factor * rows, x, rtol=1e-2, atol=1e-3 * float(x.abs().max())):
            return factor
    raise UnsupportedModelError(
        f'removal="mean": {model.name} ({model.family.name}) embeds tokens otherwise than by rows of its embedding matrix, so no '
        'mean of them is known. Use removal="mask".'
    )
