"""The methods of faithfulness.md: a model and an example become a score for every token.

Ours are calls of the package, "hidden keys" and "path + hidden keys" among them (faithfulness_rule.py). Attention rollout, the
rollout of maps and ALTI are those of `ffb.aggregation`. The others are written from their definitions:

* gradient norm: `||df/dx_j||` by the token's embedding.
* Integrated Gradients (Sundararajan et al. 2017) on the embeddings by Captum, `STEPS` steps, summed over the embedding, from
  zero, from the embedding of the padding token at every position, and from the vocabulary's mean.
* attention: the weights that the row which is read gives, mean over heads of the last layer, or of all layers.
* ALTI-Logit (Ferrando et al. 2023): `sum_l sum_k <Attn_l(n <- k), w> M_{l-1}[k, j]` plus the token's own residual, M ALTI, w the logits'
  direction through the final norm at the run's scale. Written here for Llama; the authors' code knows GPT-2, OPT and BLOOM.
* GIM (Edin et al. 2025) by hooks that change the backward pass alone (gradient_rules.py), from zero and not, as its authors'
  package, from the space token; SmolLM2 alone, since hooks do not reach the softmax of MiniLM.
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
from docs.results.gradient_rules import GIM
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


def gim(model: Any, example: Example) -> Tensor:
    """Embeddings times derivatives under the rules of GIM."""
    return ffb.attribute(
        model, example.tokens, example.target, rules=GIM.rules, of=(), fwd_hooks=GIM.hooks(model)
    ).token_attributions


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
    return ffb.aggregation.rollout(ffb.attention_maps(model, example.tokens))["rollout", -1][read_at(example)]


def map_rollout(model: Any, example: Example) -> Tensor:
    """Of the row that is read."""
    return ffb.aggregation.rollout(ffb.contribution_maps(model, example.tokens))["rollout", -1][read_at(example)]


def alti(model: Any, example: Example) -> Tensor:
    """Of the row that is read."""
    return ffb.aggregation.alti(model, example.tokens)["ALTI", -1][read_at(example)]


def alti_logit(model: Any, example: Example) -> Tensor:
    """Written for a Pre-LN model with an RMSNorm at its end."""
    device = next(model.parameters()).device
    with ffb.capture(model) as records, torch.no_grad():
        logits = model(example.tokens[None].to(device))
    leaf = logits.detach().requires_grad_()
    (by_logits,) = torch.autograd.grad(example.target(leaf).sum(), leaf)
    last = model.cfg.n_layers - 1
    end = records[last].whole["AtbLnFfRes"][0, -1]
    norm = model.ln_final.original_component
    scale = torch.rsqrt((end**2).mean() + norm.variance_epsilon)
    w = (scale * norm.weight.detach() * (model.W_U.detach() @ by_logits[0, -1])).cpu().double()
    before = [torch.eye(len(example.tokens), dtype=torch.float64)]
    before += ffb.aggregation.alti(model, example.tokens, cache=records)["ALTI"]
    scores = torch.zeros(len(example.tokens), dtype=torch.float64)
    for layer in range(last + 1):
        parts = ffb.decompose(model, example.tokens, layer=layer, cache=records).parts("Atb")[-1].cpu().double()
        written = parts @ w
        written[-1] -= records[layer].resid_pre[0, -1].cpu().double() @ w  # the residual is not attention
        scores += written @ before[layer]
    scores[-1] += records[0].resid_pre[0, -1].cpu().double() @ w
    return scores


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
    "GIM": gim,
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
NOT_OF_ENCODERS = ("ALTI-Logit", "AttnLRP", "GIM")
