"""What a vector of the residual stream says as logits: the way from the last layer's output to the vocabulary.

Two readings, by name:

* "final_norm": the model's own way: final norm, an encoder's head for masked words, unembedding, its bias, soft caps.
  `logit_readout` of TransformerLens where this version has it and reads the model; else the model does it itself, with
  the vectors put in the place of its last layer's output. Either is compared with the model's own logits, once.
* "direction": the product with the unembedding and nothing else, `v W_U` (Geva et al. 2021). What promotes a
  token in `v` demotes it in `-v`, and no scale changes an order.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Literal, TypeAlias, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.callbacks import LastCallback
from tl_ffblock.bridge.hugging_face import probe_tokens
from tl_ffblock.bridge.inputs import Batch, forward
from tl_ffblock.bridge.linears import head_linear
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.offloaded import weights_on_device
from tl_ffblock.errors import IdentityError, InputError, UnsupportedModelError

Reading: TypeAlias = Literal["final_norm", "direction"]

# Tokens of a run whose last layer's output is replaced, at most.
_CARRIER = 128


@dataclass(frozen=True)
class ReadOut:
    """A model's read-out of vectors, [n d_model] -> [n d_vocab]."""

    model: Model
    reading: Reading

    @torch.no_grad()
    def __call__(self, vectors: Float[Tensor, "n d_model"]) -> Float[Tensor, "n d_vocab"]:
        """The logits of vectors, in the model's dtype."""
        rows = vectors.to(self.model.parameter)
        if self.reading == "direction":
            return rows @ unembedding(self.model)
        with self.model.hooks_disabled():
            return _own_logits(self.model, rows)

    def in_chunks(self, vectors: Float[Tensor, "n d_model"], size: int = 256) -> Iterator[Float[Tensor, "m d_vocab"]]:
        """The same, so many rows at a time: logits of all neurons of a model would fill its memory."""
        for chunk in torch.split(vectors, size):
            yield self(chunk)


def read_out(model: Model, reading: Reading) -> ReadOut:
    """The read-out of a model, checked.

    Raises:
        InputError: for a reading of another name.
        UnsupportedModelError: for a model without unembedding.
        UntrainedHeadError: for an encoder whose head was never trained.
        IdentityError: if the read-out of the last layer's output is not the model's logits.
    """
    if reading not in get_args(Reading):
        raise InputError(f"reading={reading!r}: expected one of {', '.join(get_args(Reading))}.")
    model.refuse_untrained_head()
    if getattr(model.hooked, "unembed", None) is None:
        raise UnsupportedModelError(
            f"{model.name} ({model.family.name}) has no unembedding: its vectors say no tokens."
        )
    if reading == "final_norm" and not model.memory.reads_out:
        _check(model)
        model.memory.reads_out = True
    return ReadOut(model, reading)


def unembedding(model: Model) -> Float[Tensor, "d_model d_vocab"]:
    """W_U."""
    hooked: Any = model.hooked
    linear = head_linear(hooked, "unembed")
    if linear is not None:
        return linear.weight.to(model.parameter.dtype)
    with weights_on_device(hooked.unembed):
        weight: Tensor = hooked.unembed.W_U
    return weight.detach()


def bias_of_unembedding(model: Model) -> Float[Tensor, " d_vocab"] | None:
    """b_U; None where there is none."""
    linear, shown = head_linear(model.hooked, "unembed"), model.hooked.get_submodule("unembed")
    with weights_on_device(shown):
        bias: Tensor | None = getattr(shown, "b_U", None) if linear is None else linear.bias
    return None if bias is None else bias.detach()


def _own_logits(model: Model, rows: Float[Tensor, "n d_model"]) -> Float[Tensor, "n d_vocab"]:
    its_own = model.api == "TransformerBridge" and model.family.causal and head_linear(model.hooked, "unembed") is None
    if its_own:  # an adapter on the unembedding is not in `logit_readout`, which came with TransformerLens 4
        with suppress(ImportError, AttributeError, ValueError, NotImplementedError):  # it may be more than norm and W_U
            readout = import_module("transformer_lens.tools.analysis").logit_readout
            return readout(model.hooked, rows, chunk_size=max(1, len(rows))).values
    size = min(_CARRIER, model.longest_input or _CARRIER)
    return torch.cat([_carried(model, chunk) for chunk in torch.split(rows, size)])


def _carried(model: Model, rows: Float[Tensor, "pos d_model"]) -> Float[Tensor, "pos d_vocab"]:
    def replace(tensor: Tensor, hook: object = None) -> Tensor:
        return rows.reshape(tensor.shape).to(tensor)

    with model.hooked.hooks(fwd_hooks=[(model.output_name, replace)]):
        logits = forward(model, Batch(torch.zeros(1, len(rows), dtype=torch.long)))
    return logits[0]


@torch.no_grad()
def _check(model: Model) -> None:
    tokens = probe_tokens(model.hooked)
    kept: dict[str, Tensor] = {}
    with model.hooks_disabled():
        with LastCallback(model.hook_points[model.output_name], partial(kept.__setitem__, "output")):
            logits = forward(model, Batch(tokens))[0]
        own = _own_logits(model, kept["output"].reshape(tokens.shape[1], -1))
    error = float((own - logits).abs().max() / logits.abs().max())
    if not error < model.tolerance:
        raise IdentityError(
            f"{model.name} ({model.family.name}): its last layer's output, read through its final norm and unembedding, misses "
            f"its own logits by {error:.1e} of the largest. Memories cannot be read as tokens with reading='final_norm'; "
            "reading='direction' needs the unembedding alone."
        )
