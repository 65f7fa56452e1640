"""A small clean run of a model: are its layers read rightly, whatever a user's hooks do to theirs?

An edited run cannot tell a wrong reading of the model from the effect of the edit, so the identities of
its layers are checked on eight tokens without any callback but ours, once a model.
"""

import torch

from tl_ffblock.bridge.assembly import CaptureSpec
from tl_ffblock.bridge.batching import Batch
from tl_ffblock.bridge.collector import collecting
from tl_ffblock.bridge.hugging_face import probe_tokens
from tl_ffblock.bridge.inputs import forward
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.selfcheck import check_once
from tl_ffblock.bridge.settings import tolerance_of
from tl_ffblock.bridge.taps import silence


def probe(model: Model, dtype: torch.dtype, layers: tuple[int, ...]) -> None:
    """Check the identities of layers on a small clean run, unless this model's were.

    Raises:
        IdentityError: naming layer and identity.
    """
    if model.memory.probed.issuperset(layers):
        return
    with silence(model.hook_points.values()), collecting(model, CaptureSpec(layers, dtype)) as records:
        forward(model, Batch(probe_tokens(model.hooked)))
    for layer in layers:
        check_once(model, records[layer].sequence(0), tolerance_of(model))
    model.memory.probed.update(layers)
