"""Which HookPoint carries which tensor of a block.

A site is our word for a tensor of the block; `whole.<scope>` is the model's own tensor at the end of
a scope. Some aliases mean other sums in a Post-LN bridge (there `hook_attn_out` is the output of the
first LayerNorm and `hook_resid_mid` the input of the second), so each order names its own.

A norm's output is `hook_out` on a bridge. HookedTransformer and HookedEncoder only have
`hook_normalized`, the same before gain and shift, and no HookPoint at all before a norm inside a
branch: that tensor is `hook_normalized * hook_scale` (site `scale.<scope>`).
"""

from importlib.metadata import version
from typing import Any

from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import UnsupportedModelError

BEFORE_GAIN = "hook_normalized"


def site_names(model: Model, layer: int) -> dict[str, str]:
    """HookPoint name of every site of a layer."""
    block = model.hooked.blocks[layer]
    sites = {"resid_pre": "hook_resid_pre", "pattern": "attn.hook_pattern", "value": "attn.hook_v"}
    sites |= _feed_forward(model, layer) | _whole(model, block)
    absolute = {site: f"blocks.{layer}.{name}" for site, name in sites.items()}
    if model.family.order in ("pre_ln", "sandwich", "parallel"):
        absolute["whole.AtbLnFfResLn"] = f"{next_norm(model, layer)}.{_norm_out(model)}"
    return absolute


def next_norm(model: Model, layer: int) -> str:
    """Name of the norm that reads the layer's output: the next layer's first or the final one."""
    return f"blocks.{layer + 1}.ln1" if layer + 1 < model.n_layers else "ln_final"


def has_experts(mlp: Any) -> bool:
    """Whether a layer's feed-forward is a mixture of experts."""
    if getattr(mlp, "bound_dense", False):
        return False
    return hasattr(getattr(mlp, "original_component", mlp), "experts")


def branch_norms(block: Any) -> tuple[str, str]:
    """Names of the norms after attention and feed-forward inside their branches."""
    return ("ln1_post", "ln2_post") if hasattr(block, "ln1_post") else ("ln1", "ln2")


def ff_norm(block: Any) -> str:
    """Name of the norm that the feed-forward reads; some parallel blocks share the first one."""
    return "ln2" if hasattr(block, "ln2") else "ln1"


def _norm_out(model: Model) -> str:
    return "hook_out" if model.api == "TransformerBridge" else BEFORE_GAIN


def _feed_forward(model: Model, layer: int) -> dict[str, str]:
    block = model.hooked.blocks[layer]
    if has_experts(block.mlp):
        routing = {"probabilities": "mlp.hook_expert_weights", "chosen": "mlp.hook_expert_indices"}
        if hasattr(block.mlp, "gate"):  # a bridge of TransformerLens 3.9 has the router's logits only
            routing = {"router_logits": "mlp.gate.hook_out"}
        missing = [name for name in routing.values() if f"blocks.{layer}.{name}" not in model.hook_points]
        if missing:
            raise UnsupportedModelError(
                f"{model.name} ({model.family.name}), layer {layer}: the router of its experts has no HookPoint "
                f"{', '.join(missing)} in TransformerLens {version('transformer-lens')}, so the experts' weights of a run are "
                f"not known.{' It needs TransformerLens 4.' if model.family.name == 'gpt_oss' else ''}"
            )
        shared = {"shared": "mlp.shared_expert_gate.hook_out"} if hasattr(block.mlp, "shared_expert_gate") else {}
        return routing | shared
    inside = {"pre": "mlp.hook_pre", "post": "mlp.hook_post"}
    gated = getattr(block.mlp, "W_gate", None) is not None
    return inside | ({"pre_linear": "mlp.hook_pre_linear"} if gated else {})


def _whole(model: Model, block: Any) -> dict[str, str]:
    out, on_bridge = _norm_out(model), model.api == "TransformerBridge"
    match model.family.order:
        case "post_ln" if on_bridge:
            # The block of GPT-1 returns a list, which its own output HookPoint lets pass unseen.
            output = f"ln2.{out}" if model.family.name == "GPT" else "hook_resid_post"
            return {
                "whole.Attn": "attn.o.hook_out",
                "whole.AttnRes": "ln1.hook_in",
                "whole.Atb": f"ln1.{out}",
                "whole.AtbFf": "hook_mlp_out",
                "whole.AtbFfRes": "ln2.hook_in",
                "whole.AtbFfResLn": output,
            }
        case "post_ln":
            return {
                "whole.Attn": "hook_attn_out",
                "whole.AttnRes": "hook_resid_mid",
                "whole.Atb": f"ln1.{out}",
                "whole.AtbFf": "hook_mlp_out",
                "whole.AtbFfRes": "hook_resid_post",
                "whole.AtbFfResLn": "hook_normalized_resid_post",
            }
        case "pre_ln":
            # Granite's scaled branches have HookPoints that stay silent; at a scale of 1 these carry the same.
            scaled = hasattr(block, "residual_contribution_scale")
            return {
                "whole.Attn": "attn.hook_out" if scaled else "hook_attn_out",
                "whole.Atb": "hook_resid_mid",
                "whole.AtbLn": f"ln2.{out}",
                "whole.AtbLnFf": "mlp.hook_out" if scaled else "hook_mlp_out",
                "whole.AtbLnFfRes": "hook_resid_post",
            }
        case "parallel":
            return {
                "whole.Attn": "hook_attn_out",
                "whole.AtbLn": f"{ff_norm(block)}.{out}",
                "whole.AtbLnFf": "hook_mlp_out",
                "whole.AtbLnFfRes": "hook_resid_post",
            }
        case "sandwich":
            return _before_branch_norms(model, block, "Attn", "AtbLnFf") | {
                "whole.AttnLn": "hook_attn_out",
                "whole.Atb": "hook_resid_mid",
                "whole.AtbLn": f"ln2.{out}",
                "whole.AtbLnFfLn": "hook_mlp_out",
                "whole.AtbLnFfRes": "hook_resid_post",
            }
        case "norm_after":
            return _before_branch_norms(model, block, "Attn", "AtbFf") | {
                "whole.AttnLn": "hook_attn_out",
                "whole.Atb": "hook_resid_mid",
                "whole.AtbFfLn": "hook_mlp_out",
                "whole.AtbFfRes": "hook_resid_post",
            }


def _before_branch_norms(model: Model, block: Any, attention: str, feed_forward: str) -> dict[str, str]:
    if model.api == "TransformerBridge":
        return {f"whole.{attention}": "attn.hook_out", f"whole.{feed_forward}": "mlp.hook_out"}
    sites: dict[str, str] = {}
    for scope, norm in zip((attention, feed_forward), branch_norms(block), strict=True):
        sites |= {f"whole.{scope}": f"{norm}.{BEFORE_GAIN}", f"scale.{scope}": f"{norm}.hook_scale"}
    return sites
