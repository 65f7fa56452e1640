"""Many edited runs of one prompt, side by side, from the edited position on.

Rows of a batch are runs of their own. In a causal model an edit changes nothing before its position:
where a bridge can go on from Hugging Face's cache of keys and values, only the rest of the prompt is
run, ten times faster at the last position. That it can is checked on every prompt with a run without
edits; otherwise whole prompts are run.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.model import Model

RunHooks: TypeAlias = Sequence[tuple[str, Callable[..., Tensor]]]

TOLERANCE = 1e-4
"""How well a run that goes on from the cache must give the clean run's logits, relative to the largest."""


class ResumedRuns:
    """Runs of one prompt under hooks, each from the position where its edit stands."""

    def __init__(
        self,
        model: Model,
        tokens: Int[Tensor, "1 pos"],
        clean: Float[Tensor, "1 pos d_vocab"],
        *,
        first: int,
        resume: bool = True,
    ) -> None:
        """Find out whether runs of this prompt can go on from a cache.

        Args:
            model: The model, on whose device the tokens lie.
            tokens: The prompt.
            clean: Logits of its run without edits, which a run from the cache must reproduce.
            first: The earliest position from which a run will be asked for; the check starts there.
            resume: False always runs whole prompts.
        """
        self._model = model
        self._tokens = tokens
        self._prefix: tuple[int, Any] | None = None
        """Length of the prefix that was run last, and its keys and values."""
        possible = resume and model.family.causal and model.api == "TransformerBridge"
        self.resumes: bool = possible and self._reproduces(clean, max(first, 1))
        """Whether a run begins at its edit; otherwise `start` below must be 0."""

    @torch.no_grad()
    def logits(self, start: int, n_runs: int, hooks: RunHooks) -> Float[Tensor, "run rest d_vocab"]:
        """Logits from position `start` on, of as many runs side by side; the hooks see these positions only."""
        tokens = self._tokens[:, start:].expand(n_runs, -1)
        if start == 0:
            return self._model.hooked.run_with_hooks(tokens, fwd_hooks=list(hooks))
        cache = copy.deepcopy(self._keys_and_values(start))  # a run appends its own to what it is given
        cache.batch_repeat_interleave(n_runs)
        return self._model.hooked.run_with_hooks(tokens, fwd_hooks=list(hooks), past_key_values=cache, use_cache=True)

    def _keys_and_values(self, start: int) -> Any:
        if self._prefix is None or self._prefix[0] != start:
            prefix = self._tokens[:, :start]
            _, cache = self._model.hooked(prefix, return_type="logits_and_cache", use_cache=True)
            self._prefix = start, cache
        return self._prefix[1]

    def _reproduces(self, clean: Float[Tensor, "1 pos d_vocab"], start: int) -> bool:
        """Whether an unedited run from there gives the clean run's logits."""
        expected = clean[:, start:]
        if expected.shape[1] == 0:
            return False
        try:
            rest = self.logits(start, 1, [])
        except Exception:  # whatever this version or architecture cannot do, the whole prompt can
            return False
        return rest.shape == expected.shape and torch.allclose(
            rest, expected, rtol=TOLERANCE, atol=TOLERANCE * float(expected.abs().max())
        )
