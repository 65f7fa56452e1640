"""Neurons of feed-forwards as key-value memories: triggers, promoted tokens, and their agreement (Geva et al. 2021).

    from tl_ffblock import memories

    triggers = memories.find_triggers(model, sentences, layers=12, k=25)
    triggers.of("12:305")                                   # top-activating examples: prefixes with the largest coefficients
    values = memories.value_tokens(model, layers=12)        # tokens that its value promotes and demotes
    memories.agreement(triggers, values)                    # is the token after a trigger the promoted one?
    memories.token_parts(model, sentence, "12:305").parts   # by source token; parts and bias sum to the coefficient
    memories.carried(ffb.attribute(model, sentence, target), "12:305")  # attribution of a logit to the neuron
    memories.remove_tokens(model, triggers)                        # the coefficient without a token of the trigger
    model.run_with_hooks(tokens, fwd_hooks=memories.ablate_neurons(model, "12:305"))

A memory is a neuron of a feed-forward: one row of W_out, its value, and one column of W_in (gated: two), its key. Its coefficient
is its activation, the factor of its value: `g(k x + b)`, gated `g(k x + b) (k' x + b')`; an expert's includes the router's weight.
"""

from tl_ffblock.errors import former_names
from tl_ffblock.memories.card import CardText, CardTrigger, CardValue, MemoryCard, memory_card
from tl_ffblock.memories.causes import (
    CarriedShares,
    CoefficientParts,
    ablate_neurons,
    carried,
    largest_carried,
    mean_coefficients,
    neuron_ablation_effects,
    remove_tokens,
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
    "CardText",
    "CardTrigger",
    "CardValue",
    "CarriedShares",
    "CoefficientParts",
    "MemoryCard",
    "MemoryName",
    "OUTCOMES",
    "Trigger",
    "Triggers",
    "ValueTokens",
    "ablate_neurons",
    "active",
    "agreement",
    "carried",
    "find_triggers",
    "largest_carried",
    "mean_coefficients",
    "memory_card",
    "neuron_ablation_effects",
    "outcomes",
    "remove_tokens",
    "token_parts",
    "value_tokens",
    "zero_agreement",
]


__getattr__ = former_names(
    __name__,
    {
        "ablate": "tl_ffblock.memories.remove_tokens",
        "knock_out": "tl_ffblock.memories.ablate_neurons",
        "knock_out_effects": "tl_ffblock.memories.neuron_ablation_effects",
        "read_annotations": "tl_ffblock.experiments.geva.annotation.read_annotations",
        "write_annotation_sheet": "tl_ffblock.experiments.geva.annotation.write_annotation_sheet",
    },
)
"""Annotation sheets are of the study of Geva et al."""
