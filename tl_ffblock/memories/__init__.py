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

names.py       memories by name: "12:305", of an expert "12:3:305"
best.py        the best positions of a stream
triggers.py    prefixes of a corpus with the largest coefficients
values.py      the tokens that a memory writes, and agreement with its triggers
composition.py which memories are active, and whose top token a layer's output has
parts.py       a coefficient as a sum over source tokens
annotation.py  a sheet on which a reader names patterns of triggers
ablation.py    coefficients of shortened triggers
carried.py     what memories carry to a target
card.py        all that is known of one memory, as plain data
knock_out.py   memories set to zero, their mean or a value, and what that does
"""

from tl_ffblock.memories.ablation import ablate
from tl_ffblock.memories.annotation import read_annotations, write_annotation_sheet
from tl_ffblock.memories.card import CardText, CardTrigger, CardValue, MemoryCard, memory_card
from tl_ffblock.memories.carried import CarriedShares, carried, largest_carried
from tl_ffblock.memories.composition import OUTCOMES, active, outcomes, zero_agreement
from tl_ffblock.memories.knock_out import knock_out, knock_out_effects, mean_coefficients
from tl_ffblock.memories.names import MemoryName
from tl_ffblock.memories.parts import CoefficientParts, token_parts
from tl_ffblock.memories.triggers import Trigger, Triggers, find_triggers
from tl_ffblock.memories.values import ValueTokens, agreement, value_tokens

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
    "read_annotations",
    "token_parts",
    "value_tokens",
    "write_annotation_sheet",
    "zero_agreement",
]
