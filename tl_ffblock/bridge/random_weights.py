"""A model like another with weights that learned nothing: the baseline of probes."""

import copy

import torch

from tl_ffblock.bridge.model import Model, identify


def with_random_weights(model: Model, seed: int = 0) -> Model:
    """A copy whose parameters are drawn anew, each tensor from a normal distribution of its own mean and deviation.

    The model itself stays as it is.
    """
    hooked = copy.deepcopy(model.hooked)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in hooked.parameters():
            if parameter.numel() > 1:
                noise = torch.randn(parameter.shape, generator=generator).to(parameter)
                parameter.copy_(noise * parameter.std() + parameter.mean())
    return identify(hooked)
