"""The methods of faithfulness.md: a model and an example become a score for every token.

Ours are calls of the package; "hidden keys" and "path + hidden keys" are made of what they give (faithfulness_rule.py). The
others are written from their definitions:

* gradient norm: `||df/dx_j||` by the token's embedding.
* Integrated Gradients (Sundararajan et al. 2017) on the embeddings by Captum, `STEPS` steps, summed over the embedding, from
  zero, from the embedding of the padding token at every position, and from the vocabulary's mean.
* attention: the weights that the row which is read gives, mean over heads of the last layer, or of all layers.
* attention rollout (Abnar and Zuidema 2020): the product over layers of `(A + 1) / 2`, A the mean over heads.
* rollout of maps: the product over layers of our maps of whole layers, rows scaled to 1. A warning, no method: see the page.
* ALTI (Ferrando et al. 2022): in each layer `c_ij = max(0, ||y_i||_1 - ||y_i - F_i(x_j)||_1)`, rows scaled to 1, y the output of the
  attention block with the residual; the product M over layers.
* ALTI-Logit (Ferrando et al. 2023): `sum_l sum_k <Attn_l(n <- k), w> M_{l-1}[k, j]` plus the token's own residual, w the logits'
  direction through the final norm at the run's scale. Written here for Llama; the authors' code knows GPT-2, OPT and BLOOM.
* AttnLRP (Achtibat et al. 2024) by its authors' package, SmolLM2 alone, where that is installed: `pip install --no-deps lxt==2.1`
  (faithfulness_lxt.py). No part of the package, since its authors grant no patent rights.
"""

from collections.abc import Callable
from typing import Any

import torch
from captum.attr import IntegratedGradients
from torch import Tensor

import tl_ffblock as ffb
from docs.results import faithfulness_lxt
from docs.results.faithfulness_rule import hidden_keys, path_and_hidden_keys
from docs.results.faithfulness_sets import Example
from tl_ffblock.attribution import Direction
from tl_ffblock.bridge.linearised import token_embedding_name
from tl_ffblock.bridge.model import identify

STEPS = 20


def rules(name: str) -> Callable[[Any, Example], Tensor]:
    """`ffb.attribute` by a rule."""

    def scores(model: Any, example: Example) -> Tensor:
        result = ffb.attribute(model, example.tokens, example.target, rules=name, of=())
        if name == "gradient":  # by the token's own embedding, as the method is known
            return result.tokens
        return result.tokens + result.positions + result.token_types

    return scores


class Embedded:
    """The target as a function of the token embeddings [batch pos d_model], by a HookPoint."""

    def __init__(self, model: Any, example: Example) -> None:
        self.model, self.example = model, example
        self.device = next(model.parameters()).device
        self.name = token_embedding_name(identify(model))
        with torch.no_grad():
            _, cache = model.run_with_cache(example.tokens[None].to(self.device), names_filter=self.name)
        self.embeddings = cache[self.name].detach().clone()

    def __call__(self, embeddings: Tensor) -> Tensor:
        tokens = self.example.tokens[None].expand(len(embeddings), -1).to(self.device)
        target, kept = self.example.target, {}
        hooks = [(self.name, lambda x, hook: embeddings)]
        if isinstance(target, Direction):
            hooks.append((f"blocks.{self.model.cfg.n_layers - 1}.hook_resid_post", lambda x, hook: kept.update(end=x)))
        logits = self.model.run_with_hooks(tokens, fwd_hooks=hooks)
        if isinstance(target, Direction):
            return kept["end"][:, target.at] @ target.vector.to(self.device)
        return target(logits)


def gradient_norm(model: Any, example: Example) -> Tensor:
    """The size of the gradient by each embedding."""
    function = Embedded(model, example)
    x = function.embeddings.requires_grad_()
    (gradient,) = torch.autograd.grad(function(x).sum(), x)
    return gradient[0].norm(dim=-1)


def integrated_gradients(baseline: str) -> Callable[[Any, Example], Tensor]:
    """Captum's, from one of three baselines."""

    def scores(model: Any, example: Example) -> Tensor:
        function = Embedded(model, example)
        x = function.embeddings
        rows = {"zero": 0 * x, "mean": model.W_E.detach().mean(dim=0).expand_as(x)}
        if baseline == "pad":
            rows["pad"] = model.W_E.detach()[model.tokenizer.pad_token_id].expand_as(x)
        steps = IntegratedGradients(function).attribute(
            x, baselines=rows[baseline], n_steps=STEPS, internal_batch_size=max(1, 512 // x.shape[1])
        )
        return steps[0].sum(dim=-1).detach()

    return scores


def attention(last: bool) -> Callable[[Any, Example], Tensor]:
    """Of the row that is read."""

    def scores(model: Any, example: Example) -> Tensor:
        maps = ffb.attention_maps(model, example.tokens, queries=read_at(example), layers=-1 if last else None)
        return maps.values.mean(dim=(0, 1))[0].cpu()

    return scores


def attention_rollout(model: Any, example: Example) -> Tensor:
    """Of the row that is read."""
    patterns = ffb.attention_maps(model, example.tokens).values.cpu().double().mean(dim=1)
    return rolled(patterns / 2 + torch.eye(patterns.shape[-1], dtype=torch.float64) / 2)[read_at(example)]


def map_rollout(model: Any, example: Example) -> Tensor:
    """Of the row that is read."""
    maps = ffb.contribution_maps(model, example.tokens)
    layers = maps[whole_layer(maps.order)].cpu().double()
    return rolled(layers / layers.sum(dim=-1, keepdim=True))[read_at(example)]


def alti(model: Any, example: Example) -> Tensor:
    """Of the row that is read."""
    return AttentionVectors(model, example).mixing()[-1][read_at(example)]


def alti_logit(model: Any, example: Example) -> Tensor:
    """Written for a Pre-LN model with an RMSNorm at its end."""
    vectors = AttentionVectors(model, example)
    device = next(model.parameters()).device
    logits, cache = model.run_with_cache(
        example.tokens[None].to(device), names_filter=lambda name: "hook_resid_post" in name
    )
    leaf = logits.detach().requires_grad_()
    (by_logits,) = torch.autograd.grad(example.target(leaf).sum(), leaf)
    end = list(cache.values())[-1][0, -1].detach()
    norm = model.ln_final.original_component
    scale = torch.rsqrt((end**2).mean() + norm.variance_epsilon)
    w = (scale * norm.weight.detach() * (model.W_U.detach() @ by_logits[0, -1])).cpu().double()
    mixing = vectors.mixing()
    n = len(example.tokens)
    scores = torch.zeros(n, dtype=torch.float64)
    for layer, parts in enumerate(vectors.parts):
        written = parts[-1].double() @ w
        written[-1] -= vectors.inputs[layer][-1].double() @ w  # the residual is no attention
        scores += written @ (mixing[layer - 1] if layer else torch.eye(n, dtype=torch.float64))
    scores[-1] += vectors.inputs[0][-1].double() @ w
    return scores


class AttentionVectors:
    """By layer the vectors `F_i(x_j)` of attention and residual, [query key d_model], and what enters."""

    def __init__(self, model: Any, example: Example) -> None:
        self.parts, self.sums, self.inputs = [], [], []
        with ffb.capture(model) as records, torch.no_grad():
            model(example.tokens[None].to(next(model.parameters()).device))
        for layer in range(model.cfg.n_layers):
            vectors = ffb.decompose(model, example.tokens, layer=layer, cache=records)
            self.parts.append(vectors.parts("Atb").cpu())
            self.sums.append(vectors.whole("Atb").cpu())
            self.inputs.append(records[layer].resid_pre[0].cpu())

    def mixing(self) -> list[Tensor]:
        """After every layer: the product of ALTI's matrices up to it."""
        product, products = None, []
        for parts, whole in zip(self.parts, self.sums, strict=True):
            distance = (whole[:, None] - parts).abs().sum(dim=-1)
            shares = (whole.abs().sum(dim=-1)[:, None] - distance).clamp(min=0).double()
            if example_is_causal(parts):
                shares = shares.tril()
            matrix = shares / shares.sum(dim=-1, keepdim=True).clamp(min=1e-12)
            product = matrix if product is None else matrix @ product
            products.append(product)
        return products


def example_is_causal(parts: Tensor) -> bool:
    """Whether later tokens bring nothing."""
    return not bool(parts[0, 1:].any())


def rolled(layers: Tensor) -> Tensor:
    """The product of [layer query key], the first layer rightmost."""
    product = layers[0]
    for matrix in layers[1:]:
        product = matrix @ product
    return product


def whole_layer(order: str) -> str:
    """The scope of a whole layer."""
    return {"pre_ln": "AtbLnFfRes", "post_ln": "AtbFfResLn"}[order]


def read_at(example: Example) -> int:
    """The position that the target reads."""
    return (
        int(example.target.at) % len(example.tokens)
        if isinstance(example.target, Direction)
        else len(example.tokens) - 1
    )


METHODS: dict[str, Callable[[Any, Example], Tensor]] = {
    "path": rules("path"),
    "patching": rules("patching"),
    "hidden keys": hidden_keys,
    "path + hidden keys": path_and_hidden_keys,
    "gradient x input": rules("gradient"),
    "gradient norm": gradient_norm,
    "IG from zero": integrated_gradients("zero"),
    "IG from padding": integrated_gradients("pad"),
    "IG from the mean": integrated_gradients("mean"),
    "ALTI-Logit": alti_logit,
    "ALTI": alti,
    "last layer's attention": attention(last=True),
    "mean attention": attention(last=False),
    "attention rollout": attention_rollout,
    "rollout of maps": map_rollout,
}
"""By name."""
if faithfulness_lxt.there():
    METHODS["AttnLRP"] = faithfulness_lxt.attnlrp
NOT_OF_ENCODERS = ("ALTI-Logit", "AttnLRP")
