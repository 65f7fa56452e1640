"""One forward pass of a batch with linearised modules, and vector-Jacobian products through it.

    for batch in run.batches:
        traced = trace(run, batch, RULES["path"], keeps)
        back = traced.backward(traced.logits, derivative_of_the_target)

The logits are those of the model without these callbacks, to the bit. This is checked once per model, on eight tokens.

Layers may run again in the backward pass (activation checkpointing, torch.utils.checkpoint), so that only their inputs are stored.
The rules have to be active both times. Therefore layers run twice only without other callbacks on the model.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointError, checkpoint, set_checkpoint_early_stop
from transformers import Cache

from tl_ffblock.bridge.attention import runs_by_rows, shown
from tl_ffblock.bridge.callbacks import change_input
from tl_ffblock.bridge.gradient_cache import END, GradientCache, Place
from tl_ffblock.bridge.hugging_face import probe_tokens
from tl_ffblock.bridge.inputs import Batch, drop_graph, forward
from tl_ffblock.bridge.linearised import Rules, linearised, unembedding_bias
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.readout import bias_of_unembedding, unembedding
from tl_ffblock.bridge.runs import Run
from tl_ffblock.bridge.selfcheck import probe
from tl_ffblock.errors import CaptureError, IdentityError, InputError, UnsupportedModelError
from tl_ffblock.layer.linear import carried, secant

KEPT_WHOLE = 1024
"""Largest number of tokens of a batch's sequences for which layers do not run twice by default."""
# Largest size of a batch's tensors for the backward pass, by device; a single sequence may need more.
_RUN_BYTES = {"cpu": 2**30, "cuda": 2**34}


@contextmanager
def with_gradients() -> Iterator[None]:
    """Context in which gradients are recorded, even if the caller disabled them."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


@dataclass(frozen=True)
class Backward:
    """Results of one backward pass; zero if a target does not depend on a tensor."""

    gates: dict[Place, Float[Tensor, "*target batch pos"]]
    """Attributions by term; with several targets [target batch pos]."""
    kept: dict[tuple[str, int], Tensor]
    """Derivatives by tensors inside layers, by name and layer."""


@dataclass(frozen=True)
class Traced:
    """A forward pass of a batch with linearised modules."""

    model: Model
    rules: Rules
    batch: Batch
    cache: GradientCache
    logits: Float[Tensor, "batch pos d_vocab"]
    twice: bool = False
    """Whether layers store only their inputs, and run again in the backward pass."""
    by_rows: bool = False
    """Whether attention was computed by rows."""

    def sum_of_logits(self) -> Float[Tensor, ""]:
        """NaN or infinite if a logit is; a single number to transfer, which half precision would overflow."""
        logits = self.logits.detach()
        return logits.sum(dtype=torch.promote_types(logits.dtype, torch.float32))

    def refuse_nan(self, sum_of_logits: float) -> None:
        """Refuse logits whose sum is NaN or infinite.

        Raises:
            InputError: if it is.
        """
        if not math.isfinite(sum_of_logits):
            raise InputError(
                f"{self.model.name}: the model's logits have NaN or infinity. Check the weights and the edits of your hooks, or use a "
                "wider dtype."
            )

    def backward(
        self, tensor: Tensor, gradient: Tensor, *, again: bool = False, read: Bool[Tensor, "batch pos"] | None = None
    ) -> Backward:
        """One backward pass.

        Args:
            tensor: Its start: the logits, or the residual stream at a layer.
            gradient: The target's derivative by it; with one more axis, those of several targets, whose passes run at once.
            again: Whether another backward pass follows, so that the graph is kept.
            read: Positions with non-zero derivatives by logits, if known on the CPU.
        """
        short = self._from_unembedding(gradient, read) if tensor is self.logits else None
        if short is not None:
            tensor, gradient, bias = short
        asked = self.cache.keeps - {"value", "pattern", "norms"}
        wanted = {key: held for key, held in self.cache.kept.items() if key[0] in asked}
        leaves = [*self.cache.gates.values(), *wanted.values()]
        with ExitStack() as stack:
            if self.twice:  # layers run again; their gates are known from the first time
                stack.enter_context(constant_weights(self.model))
                stack.enter_context(self.model.with_gradients())
                cache = GradientCache(self.cache.size, biases=self.cache.biases)
                stack.enter_context(linearised(self.model, self.rules, cache))
                stack.enter_context(shown(self.model, pattern="pattern" in self.cache.keeps, by_rows=self.by_rows))
            found = _derivatives(
                self.model,
                tensor,
                leaves,
                grad_outputs=gradient.to(tensor),
                retain_graph=again,
                is_grads_batched=gradient.ndim > tensor.ndim,
                materialize_grads=True,
            )
        number = len(self.cache.gates)
        gates = dict(zip(self.cache.gates, found[:number], strict=True))
        place = unembedding_bias(self.model)
        if short is not None and place in gates:
            gates[place] = bias
        return Backward(gates, dict(zip(wanted, found[number:], strict=True)))

    def _from_unembedding(
        self, gradient: Tensor, read: Bool[Tensor, "batch pos"] | None
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """The input of the unembedding, the derivative by it, and the attribution to the unembedding's bias.

        It is computed only at the positions that a target reads; autograd would multiply with W_U at all positions. None if the model
        computes more than this product.
        """
        linear, x = self.cache.kept["logits", END].detach(), self.cache.kept["unembedded", END]
        edited = any(place.kind == "edit" and "unembed" in place.name for place in self.cache.gates)
        if edited or x.shape[:2] != self.cache.size or linear.shape != self.logits.shape:
            return None
        if not self.rules.feed_forward and not torch.equal(linear, self.logits.detach()):
            return None
        weight, place = unembedding(self.model), unembedding_bias(self.model)
        # Where a derivative is not zero: at all tokens of a few positions, or at few tokens.
        if read is None:
            read = torch.linalg.vector_norm(gradient, ord=1, dim=-1).reshape(-1, *x.shape[:2]).any(dim=0)
        batch, pos = read.nonzero().T.to(x.device, non_blocking=True)
        rows = gradient[..., batch, pos, :].to(x)
        tokens = rows.reshape(-1, rows.shape[-1]).any(dim=0).nonzero()[:, 0]
        if len(tokens) < rows.shape[-1]:
            rows, weight = rows[..., tokens], weight.T[tokens.to(weight.device)].T
        weight, linear = weight.to(x), linear[batch, pos]
        known = bias_of_unembedding(self.model) if place in self.cache.gates else None
        bias = x.new_zeros(len(tokens)) if known is None else known.to(x)[tokens]
        largest, linear = linear.abs().max(), linear[:, tokens]
        gap = (x.detach()[batch, pos] @ weight + bias - linear).abs()
        if not bool((gap <= 1e-2 * linear.abs() + 1e-3 * largest).all()):
            return None
        slope = self.logits.detach()[batch, pos][:, tokens] / torch.where(linear == 0, 1, linear)
        rows = rows * torch.where(linear == 0, 1, slope)
        by_x = rows.new_zeros(*gradient.shape[:-1], x.shape[-1])
        by_x[..., batch, pos, :] = rows @ weight.T
        share = rows.new_zeros(gradient.shape[:-1])
        share[..., batch, pos] = rows @ bias
        return x, by_x, share


def trace(
    run: Run,
    batch: Batch,
    rules: Rules,
    keeps: frozenset[str],
    *,
    twice: bool = False,
    last: int | None = None,
    check: bool = True,
) -> Traced:
    """Run a batch with its hooks and linearised modules.

    Args:
        run: The model, its hooks and settings.
        batch: Some of its sequences.
        rules: How modules are linearised.
        keeps: Tensors inside layers to cache: see `GradientCache.keeps`.
        twice: Whether layers store only their inputs, and run again in the backward pass.
        last: Number of positions, from the end, for which logits are computed; None means all.
        check: Whether NaN and infinity are refused here, and not by the caller (`Traced.refuse_nan`).

    Raises:
        InputError: if the logits have NaN or infinity.
        UnsupportedModelError: if the model has no logits.
    """
    by_rows = not (run.is_hooked or keeps & {"q", "k"}) and runs_by_rows(run.model, batch)
    with with_gradients(), run.hooks(), constant_weights(run.model):
        traced = _traced(run.model, batch, rules, keeps, twice=twice, by_rows=by_rows, last=last)
    if check:
        traced.refuse_nan(float(traced.sum_of_logits()))
    return traced


@contextmanager
def constant_weights(model: Model) -> Iterator[None]:
    """Context in which no parameter needs a gradient, so that no tensors are stored for theirs."""
    learned = [parameter for parameter in model.hooked.parameters() if parameter.requires_grad]
    for parameter in learned:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learned:
            parameter.requires_grad_(True)


def batches_to_trace(run: Run) -> Iterator[Batch]:
    """The batches, split so that tensors of all layers fit the memory; whole if user hooks see them."""
    model, cfg = run.model, run.model.hooked.cfg
    d_mlp = int(getattr(cfg, "d_mlp", None) or 4 * cfg.d_model)
    for batch in run.batches:
        length = batch.tokens.shape[1]
        per_token = model.n_layers * (8 * d_mlp + 24 * int(cfg.d_model) + 4 * model.n_heads * length)
        per_token += 4 * int(getattr(cfg, "d_vocab", 0) or 0)
        at_once = model.at_once(_RUN_BYTES, length * per_token)
        yield from [batch] if run.is_hooked else batch.pieces(at_once)


def difference_of_logits(model: Model, rules: Rules) -> float:
    """Largest difference of logits with linearised modules from the model's own, without user hooks; computed once per model.

    Raises:
        InputError: if the clean logits have NaN or infinity, or if gradients are changed or not available.
        CaptureError: if logits do not depend on a gate.
        IdentityError: if the difference is not zero, or if the model does not fulfil its equations.
        UnsupportedModelError: if each head has its own input (`use_split_qkv_input`, `use_attn_in`).
    """
    for option in ("use_split_qkv_input", "use_attn_in"):
        if getattr(model.hooked.cfg, option, False):
            raise UnsupportedModelError(
                f"{model.name} has {option} on: its norms before attention run once per head, which cannot be linearised. Call "
                f"model.set_{option}(False) before; attribution_patching(..., edges=True) needs no option."
            )
    model.refuse_other_gradients()
    probe(model, model.working_dtype, tuple(range(model.n_layers)))
    known = model.memory.logit_differences
    if rules not in known:
        with with_gradients(), model.hooks_disabled():
            batch, of_text = Batch(probe_tokens(model.hooked)), replace(model, added={})
            traced = _traced(of_text, batch, rules, frozenset())
            _refuse_unused_dials(traced)
            logits, plain = traced.logits, forward(model, batch, gradients=True)
        if not bool(plain.isfinite().all()):
            raise InputError(f"{model.name}: its clean logits have NaN or infinity. Check the weights.")
        known[rules] = float((logits.detach() - plain.detach()).abs().max())
    if not known[rules] == 0:
        raise IdentityError(
            f"{model.name} ({model.family.name}): its logits differ by {known[rules]:.1e} with linearised modules, so "
            "the attribution would be of another model. Please report this fault, with the model's name."
        )
    return known[rules]


def _derivatives(model: Model, tensor: Tensor, leaves: Sequence[Tensor], **options: Any) -> Any:
    """Derivatives of a tensor by leaves; None or zero for those that it does not depend on.

    Raises:
        InputError: if the user's own checkpoints run parts of the model again.
    """
    try:
        return torch.autograd.grad(tensor, leaves, allow_unused=True, **options)
    except RuntimeError as error:
        if not (isinstance(error, CheckpointError) or "torch.utils.checkpoint" in str(error)):
            raise
        raise InputError(
            f"{model.name}: a module of it runs again in the backward pass (torch.utils.checkpoint), without the callbacks of this "
            "call. Remove its checkpoint for this call; checkpoint=True saves the same memory."
        ) from error


def _refuse_unused_dials(traced: Traced) -> None:
    """Refuse a model whose logits do not depend on a gate: it ignores the output of a HookPoint.

    Raises:
        CaptureError: with the terms of these gates.
    """
    places, gates = list(traced.cache.gates), list(traced.cache.gates.values())
    slopes = _derivatives(traced.model, traced.logits.sum(), gates)
    unused = [place for place, slope in zip(places, slopes, strict=True) if slope is None]
    if unused:
        names = ", ".join(f"{place.kind} {place.name or place.layer}" for place in unused)
        raise CaptureError(
            f"{traced.model.name}: its logits do not depend on the outputs of HookPoints for {names}, so their attributions would "
            "wrongly be zero. This version of TransformerLens ignores these outputs. Use another version."
        )


def _traced(
    model: Model,
    batch: Batch,
    rules: Rules,
    keeps: frozenset[str],
    *,
    twice: bool = False,
    by_rows: bool = False,
    last: int | None = None,
) -> Traced:
    cache = GradientCache((batch.tokens.shape[0], batch.tokens.shape[1]), keeps, biases=model.memory.biases)
    with ExitStack() as stack:
        fittings = stack.enter_context(linearised(model, rules, cache))
        stack.enter_context(shown(model, pattern="pattern" in keeps, by_rows=by_rows))
        if twice:
            stack.enter_context(_checkpointed(model))
        if last is not None:
            unembedding = model.hooked.get_submodule("unembed")
            stack.callback(change_input(unembedding, lambda x: x[:, -last:]).remove)
        logits = forward(model, batch, gradients=True)
    if not isinstance(logits, Tensor) or ("logits", END) not in cache.kept:
        raise UnsupportedModelError(f"{model.name} ({model.family.name}) has no logits of tokens.")
    fittings.refuse_unfired()
    if rules.feed_forward:  # a soft cap, or a factor, after the unembedding: the slope of its secant
        linear = cache.kept["logits", END].reshape(logits.shape)
        same = cache.kept["logits", END] is logits or torch.equal(linear.detach(), logits.detach())
        logits = logits if same else carried(logits, secant(logits, linear))
    return Traced(model, rules, batch, cache, logits, twice, by_rows)


def layers_run_twice(run: Run, batch: Batch, asked: bool | None) -> bool:
    """Whether layers of a batch run twice; None decides by its length.

    Raises:
        InputError: if the caller asks for it with hooks of their own.
    """
    if asked and run.is_hooked:
        raise InputError(
            "checkpoint=True with hooks of your own: layers would run twice, and your hooks would see every tensor twice. Use "
            "checkpoint=False, or remove the hooks."
        )
    return batch.tokens.shape[1] > KEPT_WHOLE and not run.is_hooked if asked is None else asked


@contextmanager
def _checkpointed(model: Model) -> Iterator[None]:
    forward_pass = [model]
    with set_checkpoint_early_stop(False), ExitStack() as stack:  # callbacks see a layer to its end
        stack.callback(forward_pass.clear)
        for block in model.hooked.blocks:
            # On its own dictionary: `TransformerBridge.__setattr__` forwards to the model that it wraps.
            own, run = vars(block), block.forward
            stack.callback(partial(own.update, forward=run) if "forward" in own else partial(own.pop, "forward"))
            own["forward"] = partial(_run_layer, block, run, forward_pass)
        yield


def _run_layer(block: nn.Module, run: Any, forward_pass: list[Model], *args: Any, **named: Any) -> Any:
    """A layer as a checkpoint, without a cache of keys and values, which would grow at every run."""
    runs: list[None] = []

    def once(*args: Any, **named: Any) -> Any:
        if runs and forward_pass:
            raise UnsupportedModelError(
                f"{forward_pass[0].name} ({forward_pass[0].family.name}) takes derivatives in its forward pass, so its layers cannot "
                "run twice. Use checkpoint=False."
            )
        runs.append(None)
        output = run(*args, **named)
        drop_graph(block)
        return output

    given = [None if isinstance(value, Cache) else value for value in args]
    named = {name: None if isinstance(value, Cache) else value for name, value in named.items()}
    return checkpoint(once, *given, use_reentrant=False, preserve_rng_state=False, **named)
