"""What comes before the first layer and behind the last: embeddings, their norm, an encoder's head, the unembedding.

| | bridge | HookedTransformer | HookedEncoder |
|---|---|---|---|
| tokens | `embed.hook_out` | `hook_embed`, with a norm behind them that norm's input | `embed.hook_embed` |
| norm of the embeddings | `embed_ln` | `embed.ln` | `embed.ln` |
| encoder's head: linear, activation, norm | `mlm_head`, -, `ln_final` | - | `mlm_head` |
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.linears import head_linear, unwrapped
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.sites import has_norm, norm_module
from tl_ffblock.bridge.tape import EMBEDDING, END, Fittings, Kind, Place, Tape
from tl_ffblock.bridge.weights import working_dtype
from tl_ffblock.errors import UnsupportedModelError
from tl_ffblock.layer.activations import KNOWN, Activation
from tl_ffblock.layer.local_forms import carried, secant, shared
from tl_ffblock.layer.scopes import PROGRAMS, Normalise

_EMBEDDING_NORMS = ("embed_ln", "embed.ln")
_HEAD_NORMS = ("ln_final", "mlm_head.ln")
_SUMMANDS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("position", ("pos_embed.hook_out", "hook_pos_embed", "embed.hook_pos_embed")),
    ("token type", ("token_type_embed.hook_out", "embed.hook_token_type_embed")),
)
"""What is added to the embeddings of tokens, and the HookPoints that may carry it; the first that there is does."""
_OUTSIDE_THE_STREAM = ("rotary", "alibi")
"""Position embeddings that are no summand: what TransformerLens 4.3 calls hook_pos_embed there is of a module that never runs."""


def norm_places(model: Model) -> Iterator[tuple[int, str]]:
    """Every norm on the way from embeddings to logits: the layer to which it belongs, and its module."""
    for names, layer in ((_EMBEDDING_NORMS, EMBEDDING), (_HEAD_NORMS, model.n_layers)):
        yield from ((layer, name) for name in names if has_norm(model, name))
    for layer in range(model.n_layers):
        steps = (step.operation for step in PROGRAMS[model.family.order])
        names_of_layer = {norm_module(model, layer, step.norm) for step in steps if isinstance(step, Normalise)}
        yield from (
            (layer, name) for name in sorted(filter(None, names_of_layer)) if name.startswith(f"blocks.{layer}.")
        )


def token_embedding_name(model: Model) -> str:
    """HookPoint of what tokens are embedded as; in HookedTransformer behind the norm of embeddings, where there is one."""
    names = {"TransformerBridge": "embed.hook_out", "HookedTransformer": "hook_embed"}
    return names.get(model.api, "embed.hook_embed")


def fit_embedding(model: Model, tape: Tape, fittings: Fittings) -> None:
    """Dials on what each position's token, number and segment bring."""
    tokens = tape.measured(Place("token", EMBEDDING, ""))
    if model.api == "HookedTransformer" and has_norm(model, "embed.ln"):
        fittings.input_of("embed.ln", tokens)
    else:
        fittings.before(token_embedding_name(model), tokens)
    fittings.after(token_embedding_name(model), partial(_keep_embedded, tape))
    positional = getattr(model.hooked.cfg, "positional_embedding_type", None)
    for kind, names in _SUMMANDS:
        if kind == "position" and positional in _OUTSIDE_THE_STREAM:
            continue
        name = next((name for name in names if name in model.hook_points), None)
        if name is not None:
            fittings.before(name, tape.measured(Place(kind, EMBEDDING, "")))
        elif kind == "position":
            tape.unseen_positions = positional == "standard"


def _keep_embedded(tape: Tape, x: Tensor) -> None:
    tape.embedded = x.detach()


def fit_head(model: Model, shares: bool, tape: Tape, fittings: Fittings) -> None:
    """Dials on the biases behind the last layer, and path shares for an encoder's head."""
    fittings.before("unembed.hook_out", tape.biased(unembedding_bias(model), bias_of_unembedding(model)))
    fittings.after("unembed.hook_in", partial(_keep_end, tape, "unembedded"))
    fittings.after("unembed.hook_out", partial(_keep_end, tape, "logits"))
    if "mlm_head.hook_out" in model.hook_points:
        dense: Any = unwrapped(model.hooked.get_submodule("mlm_head"))
        dense = head_linear(model.hooked, "mlm_head") or dense
        dial = tape.biased(Place("bias", model.n_layers, "mlm_head.b"), getattr(dense, "bias", None))
        fittings.before("mlm_head.hook_out", dial)
        read: dict[str, Tensor] = {}
        fittings.after("mlm_head.hook_out", partial(read.__setitem__, "pre"))
        if shares:
            fittings.before("ln_final.hook_in", lambda y: _share(model, tape, y, read["pre"]) if read else None)
    elif model.api == "HookedEncoder":
        head: Any = model.hooked.get_submodule("mlm_head")
        dial = tape.biased(Place("bias", model.n_layers, "mlm_head.b"), head.b)
        entered: dict[str, Tensor] = {}

        def enter(x: Tensor) -> Tensor:
            entered["pre"] = x if dial is None else dial(x)
            return entered["pre"]

        fittings.input_of("mlm_head.act_fn", enter)
        if shares:
            fittings.output_of("mlm_head.act_fn", lambda y: _share(model, tape, y, entered["pre"]))


def unembedding_bias(model: Model) -> Place:
    """Where the bias of the unembedding enters."""
    return Place("bias", model.n_layers, "unembed.b_U")


def bias_of_unembedding(model: Model) -> Float[Tensor, " d_vocab"] | None:
    """That bias; None where there is none."""
    linear, shown = head_linear(model.hooked, "unembed"), model.hooked.get_submodule("unembed")
    bias: Tensor | None = getattr(shown, "b_U", None) if linear is None else linear.bias
    return None if bias is None else bias.detach()


def _keep_end(tape: Tape, name: str, tensor: Tensor) -> Tensor:
    tape.kept[name, END] = tensor
    return tensor


def _share(model: Model, tape: Tape, y: Float[Tensor, "..."], pre: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """The activation's output in an encoder's head with the slope of its path shares."""
    wide = pre.to(working_dtype(model))
    activation = _activation_between(model, wide.detach(), y.detach().to(wide.dtype))
    coefficients = activation.coefficients(wide.detach(), None)
    return tape.carry("mlm_head", y, shared(coefficients, wide, None))


def _activation_between(model: Model, pre: Tensor, post: Tensor) -> Activation:
    """The known activation that makes one of the other."""
    rtol = 1e-5 if model.dtype in ("float32", "float64") else 1e-2
    for activation in KNOWN:
        if torch.allclose(activation(pre), post, rtol=rtol, atol=rtol * float(post.abs().max())):
            return activation
    names = ", ".join(activation.name for activation in KNOWN)
    raise UnsupportedModelError(
        f"{model.name} ({model.family.name}): the activation in its head for masked words is none of {names}, so logits "
        "cannot be shared out. Give a direction of the residual stream as target: ffb.direction(vector, layer=-1)."
    )


def with_secant(tape: Tape, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, "batch pos d_vocab"]:
    """Logits that a soft cap or a factor made of the unembedding's output, with the slope of that output's secant."""
    linear = tape.kept["logits", END].reshape(logits.shape)
    if torch.equal(linear.detach(), logits.detach()):
        return logits
    return carried(logits, secant(logits, linear))
