"""The table of docs/transformer_lens.md: which HookPoint carries which scope, read from models of every order."""

import warnings
from functools import cache

from tests import tiny

MODELS = {
    "pre_ln": ("gpt2", "GPT-2, Llama"),
    "post_ln": ("bert", "BERT"),
    "sandwich": ("gemma2", "Gemma-2"),
    "parallel": ("gpt_neox", "GPT-NeoX"),
    "norm_after": ("olmo2", "OLMo-2"),
}
"""Of every order of a bridge a tiny model, and what the table calls it."""
LAST_LAYER = ("norm_after",)
"""Orders that are shown in the last layer, where alone they have a norm behind the layer."""


@cache
def table() -> str:
    """A row for every scope: what it is, where its tensor is read, where it is changed alone, its layer written as {l}."""
    from tl_ffblock.bridge.model import identify
    from tl_ffblock.interventions import edit_point
    from tl_ffblock.layer.scopes import STEPS

    warnings.simplefilter("ignore")
    lines = ["| order | scope | is | read at | changed alone at |", "| --- | --- | --- | --- | --- |"]
    for order, (family, name) in MODELS.items():
        model = identify(tiny.bridge(family))
        assert model.family.order == order, (order, model.family.order)
        layer = model.n_layers - 1 if order in LAST_LAYER else 0
        sites = model.layers[layer].sites
        for step in STEPS[order]:
            read = sites.get(f"whole.{step.scope}")
            changed = edit_point(model, layer, step.scope).name
            shown = "not made by the model" if read is None else f"`{_layerless(read, layer)}`"
            same = "the same" if changed == read else f"`{_layerless(changed, layer)}`"
            lines.append(f"| {order} ({name}) | `{step.scope}` | {step.shows} | {shown} | {same} |")
    return "\n".join(lines)


def _layerless(name: str, layer: int) -> str:
    """`blocks.0.hook_x` of layer 0 as `blocks.{l}.hook_x`, the next layer as `blocks.{l+1}`."""
    return name.replace(f"blocks.{layer}.", "blocks.{l}.").replace(f"blocks.{layer + 1}.", "blocks.{l+1}.")


BLOCKS = {"hook-names": table}
