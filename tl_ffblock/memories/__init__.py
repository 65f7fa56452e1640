"""Feed-forward layers as memories: what turns a neuron on, what it writes, and whether the two agree (Geva et al. 2021).

    from tl_ffblock import memories

    triggers = memories.find_triggers(model, sentences, layers=12, k=25)
    triggers.of("12:305")                                   # the prefixes at which this neuron's coefficient is largest
    values = memories.value_tokens(model, layers=12)        # tokens that its value promotes and demotes
    memories.agreement(triggers, values)                    # is the token after a trigger the one that is promoted?
    memories.token_parts(model, sentence, "12:305").parts   # which token turned it on; parts and bias sum to the coefficient
    memories.carried(ffb.attribute(model, sentence, target), "12:305")  # its signed share of a logit
    memories.ablate(model, triggers)                        # the coefficient without a token of the trigger
    model.run_with_hooks(tokens, fwd_hooks=memories.knock_out(model, "12:305"))

A memory is a neuron of a feed-forward: one row of W_out, its value, and one column of W_in (gated: two), its key. Its
coefficient is what its value is multiplied by, `g(k x + b)`, gated `g(k x + b) (k' x + b')`; an expert's includes the
router's weight.
"""

import warnings
from importlib import import_module
from typing import Any

from tl_ffblock.memories.card import CardText, CardTrigger, CardValue, MemoryCard, memory_card
from tl_ffblock.memories.causes import (
    CarriedShares,
    CoefficientParts,
    ablate,
    carried,
    knock_out,
    knock_out_effects,
    largest_carried,
    mean_coefficients,
    token_parts,
)
from tl_ffblock.memories.names import MemoryName
from tl_ffblock.memories.triggers import Trigger, Triggers, find_triggers
from tl_ffblock.memories.values import (
    OUTCOMES,
    ValueTokens,
    active,
    agreement,
    outcomes,
    value_tokens,
    zero_agreement,
)

__all__ = [
    "OUTCOMES",
    "CardText",
    "CardTrigger",
    "CardValue",
    "CarriedShares",
    "CoefficientParts",
    "MemoryCard",
    "MemoryName",
    "Trigger",
    "Triggers",
    "ValueTokens",
    "ablate",
    "active",
    "agreement",
    "carried",
    "find_triggers",
    "knock_out",
    "knock_out_effects",
    "largest_carried",
    "mean_coefficients",
    "memory_card",
    "outcomes",
    "token_parts",
    "value_tokens",
    "zero_agreement",
]


def __getattr__(name: str) -> Any:
    """Annotation sheets are of the study of Geva et al. (`tl_ffblock.experiments.geva.annotation`)."""
    if name in ("read_annotations", "write_annotation_sheet"):
        home = "tl_ffblock.experiments.geva.annotation"
        warnings.warn(f"tl_ffblock.memories.{name} is {home}.{name} now", DeprecationWarning, stacklevel=2)
        return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
