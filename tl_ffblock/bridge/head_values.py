"""Runs in which single heads write something else, and slopes of an output along what heads write.

All of it at z, the weighted values before the output matrix: every model goes on from there, whichever of its tensors
are only shown (the pattern of a BERT bridge is).
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.inputs import at_model, drop_graph
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.sites import values_name

Read = Callable[[Float[Tensor, "batch pos d_vocab"]], Float[Tensor, "*batch"]]
"""Logits to a number."""


def slopes_at_values(model: Model, tokens: Int[Tensor, "1 pos"], read: Read) -> Float[Tensor, "layer pos head d_head"]:
    """The derivative of what is read of a run by every head's z."""
    nudges: dict[int, Tensor] = {}

    def nudged(layer: int) -> Callable[..., Tensor]:
        def add(z: Tensor, hook: object = None) -> Tensor:
            nudges[layer] = torch.zeros_like(z, requires_grad=True)
            return z + nudges[layer]

        return add

    layers = range(model.n_layers)
    with torch.enable_grad():
        hooks = [(values_name(layer), nudged(layer)) for layer in layers]
        logits = model.hooked.run_with_hooks(at_model(model, tokens), fwd_hooks=hooks)
        for block in model.hooked.blocks:
            drop_graph(block)
        slopes = torch.autograd.grad(read(logits).sum(), [nudges[layer] for layer in layers])
    return torch.stack(list(slopes)).reshape(model.n_layers, tokens.shape[1], model.n_heads, -1).cpu()


@torch.no_grad()
def logits_with_heads_replaced(
    model: Model, tokens: Int[Tensor, "1 pos"], layer: int, *, mean: bool
) -> Float[Tensor, "head pos d_vocab"]:
    """Logits of as many runs as the layer has heads: in run h the z of head h is replaced at every position.

    Args:
        model: The model.
        tokens: The prompt.
        layer: The layer of the heads.
        mean: Whether by its mean over the run's positions, after users' hooks; else by zero.
    """
    n_heads = model.n_heads

    def put(z: Tensor, hook: object = None) -> Tensor:
        changed = z.clone(memory_format=torch.contiguous_format)
        by_head = changed.view(n_heads, tokens.shape[1], n_heads, -1)
        for head in range(n_heads):
            of_head = by_head[head, :, head]
            wide = of_head.to(torch.promote_types(z.dtype, torch.float32))
            by_head[head, :, head] = wide.mean(dim=0).to(z) if mean else torch.zeros_like(of_head)
        return changed

    several = at_model(model, tokens).expand(n_heads, -1)
    return model.hooked.run_with_hooks(several, fwd_hooks=[(values_name(layer), put)])
