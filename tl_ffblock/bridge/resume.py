"""Many edited runs of prompts of one length, side by side, from the edited position on.

Rows of a batch are runs of their own, of one prompt or of several. In a causal model an edit changes nothing
before its position: where a bridge can go on from Hugging Face's cache of keys and values, only the rest of the
prompt is run, ten times faster at the last position. That it can is checked on every prompt with a run without
edits; otherwise whole prompts are run.
"""

import copy
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.inputs import at_model
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.taps import silence

RunHooks: TypeAlias = Sequence[tuple[str, Callable[..., Tensor]]]

TOLERANCE = 1e-4
"""How well a run that goes on from the cache must give the clean run's logits, relative to the largest."""


@torch.no_grad()
def logits_under(
    model: Model,
    tokens: Int[Tensor, "batch pos"],
    hooks: Sequence[tuple[str | Callable[[str], bool], Callable[..., Any]]],
    *,
    silent: bool = False,
) -> Float[Tensor, "batch pos d_vocab"]:
    """Logits of whole prompts under hooks.

    Args:
        model: The model.
        tokens: The prompts, on any device.
        hooks: Beside those that sit on the model.
        silent: Whether those that sit on the model are left out.
    """
    with silence(model.hook_points.values()) if silent else nullcontext():
        return model.hooked.run_with_hooks(at_model(model, tokens), fwd_hooks=list(hooks))


class ResumedRuns:
    """Runs of prompts under hooks, each from the position where its edit stands."""

    def __init__(
        self,
        model: Model,
        tokens: Int[Tensor, "prompt pos"],
        clean: Sequence[Float[Tensor, "pos d_vocab"]],
        *,
        starts: Sequence[Collection[int]],
        resume: bool = True,
    ) -> None:
        """Find out whether runs of these prompts can go on from a cache.

        Args:
            model: The model, on whose device the tokens lie.
            tokens: The prompts.
            clean: Logits of each one's run without edits, which a run from the cache must reproduce.
            starts: By prompt, the positions from which runs will be asked for; the check starts at the earliest of all.
            resume: False always runs whole prompts.
        """
        self._model = model
        self._tokens = tokens
        self._starts = starts
        self._prefix: tuple[int, dict[int, int], Any] | None = None
        """Length of the prefix that was run last, which row each prompt is there, and its keys and values."""
        possible = resume and any(starts) and model.family.causal and model.api == "TransformerBridge"
        self.resumes: bool = possible and self._reproduces(clean)
        """Whether a run begins at its edit; otherwise `start` below must be 0."""

    @torch.no_grad()
    def logits(self, start: int, prompts: Sequence[int], hooks: RunHooks) -> Float[Tensor, "run rest d_vocab"]:
        """Logits from position `start` on, of one run of each of these prompts; the hooks see these positions only."""
        tokens = self._tokens[list(prompts), start:]
        if start == 0:
            return self._model.hooked.run_with_hooks(tokens, fwd_hooks=list(hooks))
        row_of, kept = self._keys_and_values(start, prompts)
        cache = copy.deepcopy(kept)  # a run appends its own to what it is given
        cache.batch_select_indices(torch.tensor([row_of[prompt] for prompt in prompts], device=tokens.device))
        return self._model.hooked.run_with_hooks(tokens, fwd_hooks=list(hooks), past_key_values=cache, use_cache=True)

    def _keys_and_values(self, start: int, prompts: Sequence[int]) -> tuple[dict[int, int], Any]:
        """Those of all prompts that will be asked for from there."""
        if self._prefix is None or self._prefix[0] != start or not self._prefix[1].keys() >= set(prompts):
            wanted = {number for number, starts in enumerate(self._starts) if start in starts} | set(prompts)
            row_of = {number: row for row, number in enumerate(sorted(wanted))}
            prefix = self._tokens[list(row_of), :start]
            _, cache = self._model.hooked(prefix, return_type="logits_and_cache", use_cache=True)
            self._prefix = start, row_of, cache
        return self._prefix[1:]

    def _reproduces(self, clean: Sequence[Float[Tensor, "pos d_vocab"]]) -> bool:
        """Whether unedited runs from the earliest start give the clean runs' logits."""
        start = max(1, min(start for of_prompt in self._starts for start in of_prompt))
        if start >= self._tokens.shape[1]:
            return False
        try:
            rest = self.logits(start, range(len(clean)), [])
        except Exception:  # whatever this version or architecture cannot do, the whole prompt can
            return False
        return all(
            run.shape == expected[start:].shape
            and torch.allclose(
                run, expected[start:], rtol=TOLERANCE, atol=TOLERANCE * float(expected[start:].abs().max())
            )
            for run, expected in zip(rest, clean, strict=True)
        )
