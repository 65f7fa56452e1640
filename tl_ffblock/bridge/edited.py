"""Edited forward passes: masked or replaced tokens, replaced heads, set neurons, patches, prompts resumed at the edited position.

Masking of tokens (`Removals`), in one batch:

mask   no other position attends to the token: its score is masked in every layer.
mean   the token is embedded as the mean of all tokens of the vocabulary, at its position.

Scores are masked before the softmax (`masking_hooks`). In bridges with Hugging Face's attention, HookPoints have scores after
their use: the layer's attention mask is changed instead. Every forward pass is checked: the pattern is 0 at masked keys.

Resumed prompts (`ResumedRuns`): in a causal model, an edit changes nothing before its position. If a bridge can resume from
Hugging Face's key-value cache, only later positions are run, ten times faster at the last position. This is checked for every
prompt with a pass without edits; otherwise whole prompts are run.

Skipped layers (`LateRuns`): a patch at a layer changes nothing before it. Earlier layers return their outputs of the unpatched
forward pass, and the model itself computes the others. For every prompt, logits without a patch are compared; otherwise whole
prompts are run.

Heads are replaced, and perturbed for derivatives, at z, the weighted values before the output matrix. Edits there have an effect
in every model; edits of other tensors, such as the pattern of a BERT bridge, may not.
"""

import copy
import inspect
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from tl_ffblock.bridge.callbacks import LastCallback, change_input
from tl_ffblock.bridge.hugging_face import probe_tokens
from tl_ffblock.bridge.inputs import Batch, drop_graph, forward
from tl_ffblock.bridge.layers import BoundLayer
from tl_ffblock.bridge.linearised import token_embedding_name
from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import IdentityError, InputError, UnsupportedModelError
from tl_ffblock.layer.positions import positions as numbers_of
from tl_ffblock.layer.scopes import INPUT, Add, feed_sum

RemovalName: TypeAlias = Literal["mask", "mean"]
RunHooks: TypeAlias = Sequence[tuple[str | Callable[[str], bool], Callable[..., Any]]]
RunHook: TypeAlias = tuple[str, Callable[..., Tensor | None]]
"""HookPoint name and function, as in `run_with_hooks`."""
Hidden: TypeAlias = Callable[[int], Bool[Tensor, "run head pos pos"]]
"""Function of the number of positions to the mask of pairs (query, key); a size of 1 is for all rows of a batch, or all heads."""
Refusal: TypeAlias = Callable[[], Exception]
Read: TypeAlias = Callable[[Float[Tensor, "batch pos d_vocab"]], Float[Tensor, "*batch"]]
"""Function of logits to one number per row."""
PatchKind: TypeAlias = Literal["residual", "residual_mid", "attention", "mlp", "head", "q", "k", "v", "pattern"]
"""Patched activations: the residual stream at a layer's input, and between attention and feed-forward; the terms that attention and
feed-forward add to it; z, queries, keys and values of heads before any rotation, and the attention pattern."""
PATCH_KINDS: tuple[PatchKind, ...] = get_args(PatchKind)
_OF_HEADS = {"head": "hook_z", "q": "hook_q", "k": "hook_k", "v": "hook_v", "pattern": "hook_pattern"}

TOLERANCE = 1e-4
"""Largest accepted difference of resumed logits from those of the whole prompt, relative to the largest logit."""
_REMOVAL = ('removal="mask"', 'Use removal="mean".')
_ONE_MASK = ("XGLMAttention",)
"""Attention of transformers 5 with one mask for all heads."""
RUN_BYTES = {"cpu": 2**28, "cuda": 2**32}
"""Largest size of the outputs of a batch, in bytes, by device; a single row may need more."""


@dataclass(frozen=True)
class Removals:
    """Forward passes of one prompt with some tokens masked or replaced by the mean embedding."""

    model: Model
    tokens: Int[Tensor, " pos"]
    removal: RemovalName
    layer: int | None
    """Layer whose input is read; the number of layers means the last one's output, None the logits."""

    def outputs(self, removed: Bool[Tensor, "run pos"]) -> Iterator[Float[Tensor, "run pos d"]]:
        """Outputs of every forward pass, in batches.

        Args:
            removed: Tokens to mask or replace in each forward pass.

        Raises:
            UnsupportedModelError: if the model's tokens cannot be masked or replaced in this way.
        """
        cfg = self.model.hooked.cfg
        width = max(int(getattr(cfg, "d_vocab", 0) or 0), self.model.n_heads * len(self.tokens), int(cfg.d_model))
        for rows in torch.split(removed, self.model.at_once(RUN_BYTES, len(self.tokens) * width)):
            yield self._with_mean(rows) if self.removal == "mean" else self._with_mask(rows)

    def _with_mean(self, removed: Bool[Tensor, "run pos"]) -> Float[Tensor, "run pos d"]:
        mean = self.model.embedding_matrix.mean(dim=0)

        def put(x: Tensor, hook: object = None) -> Tensor:
            factor = _factor(self.model, self.tokens, x)
            return torch.where(removed.to(x.device)[:, :, None], (factor * mean).to(x), x)

        return self._run(len(removed), [(token_embedding_name(self.model), put)])

    def _with_mask(self, removed: Bool[Tensor, "run pos"]) -> Float[Tensor, "run pos d"]:
        # Masked queries attend as before: nothing attends to them, so their rows have no effect.
        hidden = (~removed[:, :, None] & removed[:, None, :])[:, None]
        everywhere = dict.fromkeys(range(self.model.n_layers), lambda _: hidden)
        return self._run(len(removed), masking_hooks(self.model, everywhere, *_REMOVAL))

    @torch.no_grad()
    def _run(self, n_runs: int, hooks: RunHooks) -> Float[Tensor, "run pos d"]:
        return outputs_under(self.model, self.tokens.expand(n_runs, -1), hooks, self.layer)


def outputs_under(
    model: Model, tokens: Int[Tensor, "batch pos"], hooks: RunHooks, layer: int | None
) -> Float[Tensor, "batch pos d"]:
    """Logits of whole prompts under hooks, or the residual stream at the input of a layer.

    Args:
        model: The model.
        tokens: The prompts, on any device.
        hooks: Hooks in addition to those on the model.
        layer: Layer whose input is read; the number of layers means the last one's output, None the logits.
    """
    stream: list[Tensor] = []
    name = model.output_name if layer in (None, model.n_layers) else model.layers[layer or 0].sites["resid_pre"]
    model.forget_lengths()
    with LastCallback(model.hook_points[name], stream.append), model.hooked.hooks(fwd_hooks=list(hooks)):
        logits: Tensor = model.hooked(tokens.to(model.device))
    return logits if layer is None else stream[-1]


def masking_hooks(model: Model, hidden: Mapping[int, Hidden], called: str, instead: str = "") -> list[RunHook]:
    """Hooks that mask attention scores before the softmax, by layer, and refuse a pattern that is not 0 at a masked key.

    Args:
        model: The model.
        hidden: Masked pairs by layer.
        called: Beginning of an error, such as the option.
        instead: End of an error: what to do if the model's attention cannot be masked.
    """
    hooks: list[RunHook] = []
    inside = attends_inside(model)
    for number, pairs in hidden.items():
        layer = model.layers[number]
        if layer.is_recurrent:
            hooks += _without_writes(model, layer, pairs)
            continue
        refusal = partial(_refusal, model, f"layer {number}", called, instead)
        if inside:
            hooks.append((layer.name("attn.hook_in"), partial(_mask_inside, model, number, pairs, refusal)))
        else:
            hooks.append((layer.name("attn.hook_attn_scores"), partial(_hide, pairs)))
        hooks.append((layer.sites["pattern"], partial(_refuse_weight, model, number, pairs, refusal)))
    return hooks


def _without_writes(model: Model, layer: BoundLayer, hidden: Hidden) -> list[RunHook]:
    """Hooks that remove what masked keys write to a mixer without a softmax; decays and other writes are as in the run."""
    read, armed = list[Tensor](), list[RemovableHandle]()

    def enter(_: Tensor, hook: object = None) -> None:
        armed.append(layer.on_mixer(read.append))

    def leave(y: Tensor, hook: object = None) -> Tensor:
        armed.pop().remove()
        mixer, x = layer.mixer(model.working_dtype), read.pop().to(model.working_dtype)
        every_head = x.new_empty(len(x), 1, x.shape[1], x.shape[1])
        return mixer.output(mixer.mix(x, hidden=_pairs_of(hidden, every_head))).to(y)

    return [(layer.sites["mixed"], enter), (layer.sites["whole.Attn"], leave)]


def attends_inside(model: Model) -> bool:
    """Whether attention is Hugging Face's module, so that HookPoints have scores and pattern after their use."""
    softmax = [layer for layer in model.layers if not layer.is_recurrent]
    if model.memory.attends_inside is None and not softmax:
        model.memory.attends_inside = False
    if model.memory.attends_inside is None:
        first, fired = softmax[0], list[str]()
        seen = [
            (name, lambda _, hook, name=name: fired.append(name))
            for name in (first.sites["pattern"], first.values_name)
        ]
        with torch.no_grad(), model.hooks_disabled(), model.hooked.hooks(fwd_hooks=seen):
            model.hooked(probe_tokens(model.hooked).to(model.device))
        model.memory.attends_inside = fired[0] == first.values_name
    return model.memory.attends_inside


def _hide(hidden: Hidden, scores: Tensor, hook: object = None) -> Tensor:
    return scores.masked_fill(_pairs_of(hidden, scores), torch.finfo(scores.dtype).min)


def _mask_inside(model: Model, layer: int, hidden: Hidden, refusal: Refusal, x: Tensor, hook: object = None) -> None:
    """Change the attention mask in the call of Hugging Face's attention with input x."""
    attention = model.layers[layer].block.attn.original_component

    def enter(_: nn.Module, args: Any, kwargs: Any) -> Any:
        armed.remove()
        if not any(given is x for given in (*args, *kwargs.values())):
            return None  # x is from a forward pass that was ended early
        call = inspect.signature(attention.forward).bind(*args, **kwargs)
        mask = call.arguments.get("attention_mask")
        if mask is None and model.family.causal:
            raise refusal()  # the module makes its own mask
        if mask is None:
            mask = x.new_zeros(1, 1, x.shape[1], x.shape[1])
        pairs = _pairs_of(hidden, mask)
        if pairs.shape[1] > 1 and type(attention).__name__ in _ONE_MASK:
            raise refusal()
        call.arguments["attention_mask"] = mask.masked_fill(pairs, torch.finfo(mask.dtype).min)
        return call.args, call.kwargs

    armed = attention.register_forward_pre_hook(enter, with_kwargs=True)


def _refuse_weight(
    model: Model, layer: int, hidden: Hidden, refusal: Refusal, pattern: Tensor, hook: object = None
) -> None:
    if not bool(pattern.isfinite().all()):
        raise InputError(f"{model.name}: the attention of layer {layer} has NaN or infinity. Check the weights.")
    if bool((pattern * _pairs_of(hidden, pattern)).any()):
        raise refusal()


def _pairs_of(hidden: Hidden, scores: Tensor) -> Bool[Tensor, "run head query key"]:
    """Masked pairs of a forward pass whose queries are the last of its keys, as in one that resumes from a cache."""
    n_queries, n_keys = scores.shape[-2:]
    return hidden(n_keys)[..., -n_queries:, -n_keys:].to(scores.device)


def _refusal(model: Model, layer: str, called: str, instead: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"{called}: {model.name} ({model.family.name}) attends, in {layer}, to tokens that were hidden. Hooks cannot mask its "
        f"attention (in some models, that of single heads), or all keys of a query are masked. {instead}".rstrip()
    )


def _factor(model: Model, tokens: Int[Tensor, " pos"], embedded: Float[Tensor, "*run pos d_model"]) -> float:
    """Factor of a model's token embeddings: sqrt(d_model) in Gemma, 1 in most models.

    Raises:
        UnsupportedModelError: if embedded tokens are not multiples of rows of the embedding matrix.
    """
    rows, x = model.embedding_matrix[tokens.to(model.device)], embedded[0]
    if rows.shape == x.shape:
        rows = rows.to(x)
        factor = float((rows * x).sum() / (rows * rows).sum())
        if torch.allclose(factor * rows, x, rtol=1e-2, atol=1e-3 * float(x.abs().max())):
            return factor
    raise UnsupportedModelError(
        f'removal="mean": {model.name} ({model.family.name}) does not embed tokens by rows of its embedding matrix, so their mean '
        'is not known. Use removal="mask".'
    )


@torch.no_grad()
def logits_under(
    model: Model,
    tokens: Int[Tensor, "batch pos"],
    hooks: RunHooks,
    *,
    silent: bool = False,
) -> Float[Tensor, "batch pos d_vocab"]:
    """Logits of whole prompts under hooks.

    Args:
        model: The model.
        tokens: The prompts, on any device.
        hooks: Hooks in addition to those on the model.
        silent: Whether hooks on the model are disabled.
    """
    model.forget_lengths()
    with model.hooks_disabled() if silent else nullcontext():
        return model.hooked.run_with_hooks(tokens.to(model.device), fwd_hooks=list(hooks))


class ResumedRuns:
    """Forward passes of prompts under hooks, each from the position of its edit."""

    def __init__(
        self,
        model: Model,
        tokens: Int[Tensor, "prompt pos"],
        clean: Sequence[Float[Tensor, "pos d_vocab"]],
        *,
        starts: Sequence[Collection[int]],
        resume: bool = True,
    ) -> None:
        """Check whether forward passes of these prompts can resume from a key-value cache.

        Args:
            model: The model.
            tokens: The prompts, on the model's device.
            clean: Logits of each prompt without edits, which a resumed forward pass must reproduce.
            starts: By prompt, positions at which passes will start; the check starts at the earliest of all.
            resume: Whether passes may resume; False always runs whole prompts.
        """
        self._model = model
        self._tokens = tokens
        self._starts = starts
        self._prefix: tuple[int, dict[int, int], Any] | None = None
        """Length of the last prefix, row of each prompt in its batch, and its keys and values."""
        recurrent = any(layer.is_recurrent for layer in model.layers)  # whose edits need the whole prompt
        possible = resume and any(starts) and model.family.causal and model.api == "TransformerBridge" and not recurrent
        self.resumes: bool = possible and self._reproduces(clean)
        """Whether forward passes start at their edit; otherwise `start` of `logits` must be 0."""

    @torch.no_grad()
    def logits(self, start: int, prompts: Sequence[int], hooks: RunHooks) -> Float[Tensor, "run rest d_vocab"]:
        """Logits from position `start` on, one row per prompt; hooks get these positions only."""
        tokens = self._tokens[list(prompts), start:]
        if start == 0:
            return logits_under(self._model, tokens, hooks)
        row_of, kept = self._keys_and_values(start, prompts)
        cache = copy.deepcopy(kept)  # a forward pass appends to its cache
        cache.batch_select_indices(torch.tensor([row_of[prompt] for prompt in prompts], device=tokens.device))
        with warnings.catch_warnings():
            # transformers 5.24 has another name for this option, which TransformerLens 4.3 does not know
            warnings.filterwarnings("ignore", ".*past_key_values.* is deprecated", FutureWarning)
            return self._model.hooked.run_with_hooks(
                tokens, fwd_hooks=list(hooks), past_key_values=cache, use_cache=True
            )

    def _keys_and_values(self, start: int, prompts: Sequence[int]) -> tuple[dict[int, int], Any]:
        if self._prefix is None or self._prefix[0] != start or not self._prefix[1].keys() >= set(prompts):
            wanted = {number for number, starts in enumerate(self._starts) if start in starts} | set(prompts)
            row_of = {number: row for row, number in enumerate(sorted(wanted))}
            prefix = self._tokens[list(row_of), :start]
            _, cache = self._model.hooked(prefix, return_type="logits_and_cache", use_cache=True)
            self._prefix = start, row_of, cache
        return self._prefix[1:]

    def _reproduces(self, clean: Sequence[Float[Tensor, "pos d_vocab"]]) -> bool:
        start = max(1, min(start for of_prompt in self._starts for start in of_prompt))
        rest = [logits[start:] for logits in clean]
        return start < self._tokens.shape[1] and _gives(lambda: self.logits(start, range(len(clean)), []), rest)


def _gives(
    run: Callable[[], Float[Tensor, "run pos d_vocab"]], expected: Sequence[Float[Tensor, "pos d_vocab"]]
) -> bool:
    """Whether shortened forward passes give the expected logits, up to `TOLERANCE` of the largest of each row."""
    try:
        found = run()
    except Exception:  # any failure of this version or architecture: whole prompts are run instead
        return False
    return all(
        logits.shape == whole.shape and float((logits - whole).abs().max()) <= TOLERANCE * float(whole.abs().max())
        for logits, whole in zip(found, expected, strict=True)
    )


def slopes_at_values(
    model: Model, tokens: Int[Tensor, "1 pos"], read: Read, layer: int | None = None
) -> Float[Tensor, "layer pos head d_head"]:
    """Derivative of a function of a model's output by every head's z; zero at heads on which it does not depend.

    Args:
        model: The model.
        tokens: The prompt.
        read: The function.
        layer: Output that is read, as in `outputs_under`.
    """
    perturbations: dict[int, Tensor] = {}

    def perturbed(layer: int) -> Callable[..., Tensor]:
        def add(z: Tensor, hook: object = None) -> Tensor:
            perturbations[layer] = torch.zeros_like(z, requires_grad=True)
            return z + perturbations[layer]

        return add

    layers = range(model.n_layers)
    with model.with_gradients():
        hooks = [(model.layers[number].values_name, perturbed(number)) for number in layers]
        output = outputs_under(model, tokens, hooks, layer)
        for block in model.hooked.blocks:
            drop_graph(block)
        slopes = torch.autograd.grad(
            read(output).sum(), [perturbations[number] for number in layers], materialize_grads=True
        )
    return torch.stack(list(slopes)).reshape(model.n_layers, tokens.shape[1], model.n_heads, -1).cpu()


@torch.no_grad()
def outputs_with_heads_replaced(
    model: Model, tokens: Int[Tensor, "1 pos"], layer: int, read_at: int | None, *, mean: bool
) -> Float[Tensor, "head pos d"]:
    """Outputs of one forward pass per head of a layer: in row h, z of head h is replaced at every position.

    Args:
        model: The model.
        tokens: The prompt.
        layer: Layer of the heads.
        read_at: Output that is read, as `layer` in `outputs_under`.
        mean: Whether z is replaced by its mean over the prompt's positions, after users' hooks; else by zero.

    Raises:
        UnsupportedModelError: if the layer has no HookPoint of z.
    """
    n_heads, name = model.layers[layer].n_heads, model.layers[layer].values_name
    if name not in model.hook_points:
        raise UnsupportedModelError(
            f"{model.layers[layer].where} has no HookPoint {name} of its heads' outputs, so they cannot be replaced. Use `mlps`, "
            "`attention` or `residual` of ffb.activation_patching."
        )

    def put(z: Tensor, hook: object = None) -> Tensor:
        changed = z.clone(memory_format=torch.contiguous_format)
        by_head = changed.view(n_heads, tokens.shape[1], n_heads, -1)
        for head in range(n_heads):
            of_head = by_head[head, :, head]
            wide = of_head.to(torch.promote_types(z.dtype, torch.float32))
            by_head[head, :, head] = wide.mean(dim=0).to(z) if mean else torch.zeros_like(of_head)
        return changed

    return outputs_under(model, tokens.expand(n_heads, -1), [(name, put)], read_at)


def setting_neurons(
    model: Model, layer: int, values: Mapping[int, float], positions: tuple[int, ...] | None = None
) -> RunHook:
    """A hook that sets neurons' activations (after the activation function, gated: the product).

    Args:
        model: The model.
        layer: Number of a layer with a dense feed-forward.
        values: New activation by neuron.
        positions: Positions to change; None means all.

    Raises:
        UnsupportedModelError: for experts, whose activations have no HookPoint.
    """
    if model.layers[layer].has_experts:
        raise UnsupportedModelError(
            f"{model.name}, layer {layer}: no HookPoint has the activations of single experts, so their memories cannot be "
            "knocked out. Use a layer with a dense feed-forward."
        )

    def set_neurons(tensor: Tensor, hook: object = None) -> Tensor:
        changed = tensor.clone()
        rows = slice(None) if positions is None else numbers_of(positions, tensor.shape[-2], "positions")
        for neuron, value in values.items():
            changed[..., rows, neuron] = value
        return changed

    return model.layers[layer].sites["post"], set_neurons


def patched_name(model: Model, kind: PatchKind, layer: int) -> str:
    """Name of the HookPoint at which a kind of activation is patched; the number of layers means the last one's output.

    The residual stream between attention and feed-forward is patched at attention's term: a bridge's HookPoint of the stream
    itself is only the input of the next norm, without the skip connection.

    Raises:
        UnsupportedModelError: if the model has no such activation, or no HookPoint for it.
    """
    if kind == "residual" and layer == model.n_layers:
        return model.output_name
    bound, order = model.layers[layer], model.family.order
    if kind in _OF_HEADS:
        refuse_normed_values(model, kind)
    if kind == "head":
        name = bound.values_name
    elif kind in _OF_HEADS:
        name = bound.name(f"attn.{_OF_HEADS[kind]}")
    elif kind == "residual":
        name = bound.sites["resid_pre"]
    elif (kind == "mlp" and order == "attn_only") or (kind == "residual_mid" and order in ("attn_only", "parallel")):
        lacks = "feed-forward" if order == "attn_only" else "residual stream between attention and feed-forward"
        raise UnsupportedModelError(
            f"of={kind!r}: {bound.where} has no {lacks} (order {order}). Omit {kind!r} from `of`."
        )
    else:
        if kind == "mlp" and bound.beside is not None:
            raise UnsupportedModelError(
                f"of={kind!r}: {bound.where} adds the outputs of its experts and of a shared expert beside them, so no HookPoint has the "
                "feed-forward's. Omit 'mlp' from `of`."
            )
        sums = (step.operation for step in bound.program if isinstance(step.operation, Add))
        added = feed_sum(order) if kind == "mlp" else next(each for each in sums if each.right == INPUT)
        name = bound.sites[f"whole.{added.left}"]
    if name not in model.hook_points:
        raise UnsupportedModelError(f"of={kind!r}: {bound.where} has no HookPoint {name}. Omit {kind!r} from `of`.")
    return name


def refuse_normed_values(model: Model, *kinds: str) -> None:
    """Refuse queries, keys and values of a model with layers without a softmax, and keys and values if the latter have a norm.

    With such a norm keys may be values, and heads differ by layer.

    Raises:
        UnsupportedModelError: for "q", "k" and "v".
    """
    if of_softmax := [kind for kind in kinds if kind in ("q", "k", "v")]:
        model.refuse_recurrent(f"of={of_softmax[0]!r} needs a softmax in every layer. Omit {of_softmax[0]!r} from `of`")
    asked = next((kind for kind in kinds if kind in ("k", "v")), None)
    if asked is not None and model.layers[0].norms_values:
        raise UnsupportedModelError(
            f"of={asked!r}: {model.name} ({model.family.name}) makes values of keys in some layers, and has another number of heads there, "
            f"so that no table has them. Omit {asked!r} from `of`."
        )


def heads_of(model: Model, kind: PatchKind) -> int:
    """Number of heads of a kind of activation; for "k" and "v" of key-value heads, 0 for kinds without heads."""
    if kind not in _OF_HEADS:
        return 0
    latent = model.layers[0].is_latent
    grouped = getattr(model.hooked.cfg, "n_key_value_heads", None) if kind in ("k", "v") and not latent else None
    return int(grouped or model.n_heads)


class LateRuns:
    """Batches of one prompt under patches of one layer; earlier layers return their outputs of the unpatched forward pass."""

    def __init__(
        self,
        model: Model,
        tokens: Int[Tensor, " pos"],
        patched: Collection[tuple[PatchKind, int]],
        read_from: int | None = None,
    ) -> None:
        """Run the prompt once, and check whether patched forward passes can skip earlier layers.

        Args:
            model: The model.
            tokens: The prompt.
            patched: Kinds and layers that will be patched.
            read_from: First position whose logits are read, counted from the end; None means all.

        Raises:
            UnsupportedModelError: if the model has no such activation, or no HookPoint for it.
        """
        self._model, self._tokens, self._from = model, tokens, read_from
        self._outputs: list[Any] = []
        self._kept: dict[tuple[PatchKind, int], Tensor] = {}
        mid = [layer for kind, layer in patched if kind == "residual_mid"]
        wanted = {key for key in patched if key[0] != "residual_mid"}
        wanted |= {(kind, layer) for layer in mid for kind in ("residual", "attention")}
        with ExitStack() as stack:
            for block in model.hooked.blocks:
                stack.enter_context(block.register_forward_hook(lambda *event: self._outputs.append(event[2])))
            for kind, layer in [*wanted, *(key for key in patched if key[0] == "residual_mid")]:
                point = model.hook_point(patched_name(model, kind, layer))
                if (kind, layer) in wanted:
                    stack.enter_context(LastCallback(point, partial(self._keep, (kind, layer))))
            logits: Tensor = forward(model, Batch(tokens[None]))[0].detach()
        self.logits: Float[Tensor, "pos d_vocab"] = logits
        latest = max((layer for _, layer in patched), default=0)
        for self._begins_late, self._reads_late in ((True, True), (True, False), (False, False)):
            if _gives(lambda: self._run(latest, 2, [], self._from), [self.read] * 2):
                break

    def activation(self, kind: PatchKind, layer: int) -> Float[Tensor, "..."]:
        """Unpatched activation: [pos d_model], for heads [pos head d_head], for patterns [head query key]."""
        if kind == "residual_mid":
            return self._kept["residual", layer] + self._attention_factor(layer) * self._kept["attention", layer]
        return self._kept[kind, layer]

    @property
    def at_once(self) -> int:
        """Largest number of forward passes per batch."""
        n, sizes = len(self.logits), self._model.sizes
        numbers = max(self.read.numel(), n * n * sizes.heads, n * sizes.d_mlp, n * sizes.d_model)
        return self._model.at_once(RUN_BYTES, numbers)

    @property
    def read(self) -> Float[Tensor, "read d_vocab"]:
        """Logits of the unpatched forward pass at the positions that are read."""
        return self.logits[self._from :]

    def patched(
        self,
        kind: PatchKind,
        layer: int,
        values: Float[Tensor, "run ..."],
        where: Bool[Tensor, "run head pos"],
    ) -> Float[Tensor, "run read d_vocab"]:
        """Logits of forward passes with other values of an activation.

        Args:
            kind: Kind of the activation.
            layer: Layer of the activation.
            values: Activation of each forward pass, in the shape of `activation`.
            where: Heads (one for kinds without heads) and positions that are patched in each forward pass; for patterns, queries.
        """
        rows = where.to(values.device)
        if kind != "pattern":
            rows = rows.transpose(1, 2) if kind in _OF_HEADS else rows[:, 0]
        if kind == "residual_mid":
            values = (values - self._kept["residual", layer]) / self._attention_factor(layer)

        def put(x: Tensor, hook: object = None) -> Tensor:
            own = self._arranged((kind, layer), x)
            changed = torch.where(rows[..., None], values.to(x), own.reshape(values.shape)).reshape(own.shape)
            return changed if own is x else self._model.layers[layer].restored(kind, changed, x)

        return self._run(layer, len(values), [(patched_name(self._model, kind, layer), put)], self._from)

    def refuse_disobedience(self, kind: PatchKind, layer: int) -> None:
        """Refuse a kind of activation whose patches have no effect, since the model uses the tensor before its HookPoint.

        Raises:
            UnsupportedModelError: if noise at the HookPoint does not change the logits.
        """
        own = self._kept["attention" if kind == "residual_mid" else kind, layer]
        noise = torch.rand(own.shape, dtype=torch.float32, generator=torch.Generator().manual_seed(0)).to(own)
        change = noise * (own.abs().mean() + torch.finfo(own.dtype).eps)

        def add(x: Tensor, hook: object = None) -> Tensor:
            return torch.cat([x[:1], x[1:] + change.reshape(x.shape[1:])])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TransformerLens 4.3 warns of edits without an effect
            logits = self._run(layer, 2, [(patched_name(self._model, kind, layer), add)], read_from=None)
        if float((logits[1] - logits[0]).abs().max()) <= 10 * self._model.eps(logits.dtype) * float(logits.abs().max()):
            raise UnsupportedModelError(
                f"of={kind!r}: {self._model.layers[layer].where} computes its output before {patched_name(self._model, kind, layer)} "
                f"fires, so a patch there has no effect. Omit {kind!r} from `of`."
            )

    def error_of(self, logits: Float[Tensor, "read d_vocab"], expected: "LateRuns", what: str) -> float:
        """Largest difference of patched logits from those of another prompt, which they must equal, relative to the largest logit.

        Raises:
            IdentityError: if it is above the model's tolerance.
        """
        error = float((logits - expected.read).abs().max() / expected.read.abs().max())
        if not error <= self._model.tolerance:  # NaN is refused too
            raise IdentityError(
                f"{self._model.name} ({self._model.family.name}): logits of {what} differ from the expected ones by {error:.1e} of the "
                f"largest (tolerance {self._model.tolerance:g}). Patches of this model are not exact; please report this fault."
            )
        return error

    def _attention_factor(self, layer: int) -> float:
        return self._model.layers[layer].multipliers.get("attn", 1.0)

    def _arranged(self, key: tuple[PatchKind, int], tensor: Tensor) -> Tensor:
        kind, layer = key
        return self._model.layers[layer].arranged(kind, tensor) if kind in _OF_HEADS else tensor

    def _keep(self, key: tuple[PatchKind, int], tensor: Tensor) -> None:
        kind, heads = key[0], heads_of(self._model, key[0])
        tensor = self._arranged(key, tensor)
        flat = heads and kind != "pattern" and tensor.ndim == 3
        own = tensor.reshape(*tensor.shape[:2], heads, -1) if flat else tensor
        self._kept[key] = own[0].detach().clone()

    @torch.no_grad()
    def _run(
        self, layer: int, n_runs: int, hooks: RunHooks, read_from: int | None
    ) -> Float[Tensor, "run read d_vocab"]:
        start = min(layer, self._model.n_layers - 1) if self._begins_late else 0
        with ExitStack() as stack:
            stack.enter_context(_skipped(self._model.hooked.blocks, self._outputs[:start], n_runs))
            if self._reads_late and read_from is not None:
                stack.enter_context(
                    change_input(self._model.hooked.get_submodule("unembed"), lambda x: x[:, read_from:])
                )
            stack.enter_context(self._model.hooked.hooks(fwd_hooks=list(hooks)))
            logits: Tensor = forward(self._model, Batch(self._tokens.expand(n_runs, -1)))
        return logits[:, read_from:]


@contextmanager
def _skipped(blocks: Any, outputs: Sequence[Any], n_runs: int) -> Iterator[None]:
    """Context in which the first layers return these outputs, repeated for every row, instead of running."""
    skipped = [(vars(block), vars(block).get("forward")) for block in list(blocks)[: len(outputs)]]
    try:
        for (attributes, _), output in zip(skipped, outputs, strict=True):
            attributes["forward"] = partial(_repeated, output, n_runs)
        yield
    finally:
        for attributes, forward_before in skipped:
            attributes.pop("forward")
            if forward_before is not None:
                attributes["forward"] = forward_before


def _repeated(output: Any, n_runs: int, *_: object, **__: object) -> Any:
    if isinstance(output, tuple | list):
        return type(output)(_repeated(each, n_runs) for each in output)
    return output.expand(n_runs, *output.shape[1:]) if isinstance(output, Tensor) and len(output) == 1 else output
