"""Which HookPoint carries which tensor of a block.

A site is our word for a tensor of the block; `whole.<scope>` is the model's own tensor at the end of
a scope. Some aliases mean other sums in a Post-LN bridge (there `hook_attn_out` is the output of the
first LayerNorm and `hook_resid_mid` the input of the second), so each order names its own. A norm's
output is `hook_out` on a bridge; HookedTransformer and HookedEncoder only have `hook_normalized`, the
same before gain and shift.
"""

from tl_ffblock.bridge.families import Model

BEFORE_GAIN = "hook_normalized"


def site_names(model: Model, layer: int) -> dict[str, str]:
    """HookPoint name of every site of a layer."""
    block = model.lens.blocks[layer]
    norm_out = "hook_out" if model.api == "TransformerBridge" else BEFORE_GAIN
    sites = {
        "resid_pre": "hook_resid_pre",
        "pattern": "attn.hook_pattern",
        "value": "attn.hook_v",
        "pre": "mlp.hook_pre",
        "post": "mlp.hook_post",
    }
    if getattr(block.mlp, "W_gate", None) is not None:
        sites["pre_linear"] = "mlp.hook_pre_linear"
    if model.family.order == "post_ln":
        whole = _post_ln_hooked_encoder(norm_out) if model.api == "HookedEncoder" else _post_ln_bridge(norm_out)
        return _absolute(sites | whole, layer)
    return _absolute(sites | _pre_ln(norm_out), layer) | {"whole.AtbLnFfResLn": f"{next_norm(model, layer)}.{norm_out}"}


def next_norm(model: Model, layer: int) -> str:
    """Name of the norm that reads the layer's output: the next layer's first or the final one."""
    return f"blocks.{layer + 1}.ln1" if layer + 1 < model.n_layers else "ln_final"


def _pre_ln(norm_out: str) -> dict[str, str]:
    return {
        "whole.Attn": "hook_attn_out",
        "whole.Atb": "hook_resid_mid",
        "whole.AtbLn": f"ln2.{norm_out}",
        "whole.AtbLnFf": "hook_mlp_out",
        "whole.AtbLnFfRes": "hook_resid_post",
    }


def _post_ln_bridge(norm_out: str) -> dict[str, str]:
    return {
        "whole.Attn": "attn.o.hook_out",
        "whole.AttnRes": "ln1.hook_in",
        "whole.Atb": f"ln1.{norm_out}",
        "whole.AtbFf": "hook_mlp_out",
        "whole.AtbFfRes": "ln2.hook_in",
        "whole.AtbFfResLn": "hook_resid_post",
    }


def _post_ln_hooked_encoder(norm_out: str) -> dict[str, str]:
    return {
        "whole.Attn": "hook_attn_out",
        "whole.AttnRes": "hook_resid_mid",
        "whole.Atb": f"ln1.{norm_out}",
        "whole.AtbFf": "hook_mlp_out",
        "whole.AtbFfRes": "hook_resid_post",
        "whole.AtbFfResLn": "hook_normalized_resid_post",
    }


def _absolute(sites: dict[str, str], layer: int) -> dict[str, str]:
    return {site: f"blocks.{layer}.{name}" for site, name in sites.items()}
