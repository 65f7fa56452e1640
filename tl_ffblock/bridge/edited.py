"""Edited forward passes: tokens hidden or replaced, heads replaced, neurons set, prompts resumed at the edited position.

Tokens removed (`Removals`), side by side in one batch:

mask   no other position attends to the token: its score is masked in every layer.
mean   the token is embedded as the mean of all tokens of the vocabulary, at its position.

Scores are masked before the softmax (`masking_hooks`). Bridges that leave attention to Hugging Face show scores after they were
used: there the layer's own attention mask is changed. Checked in every run: the pattern gives a masked key no weight.

Prompts resumed (`ResumedRuns`): in a causal model an edit changes nothing before its position. Where a bridge can go on from
Hugging Face's cache of keys and values, only the rest of the prompt is run, ten times faster at the last position. That it can is
checked on every prompt with a run without edits; otherwise whole prompts are run.

Layers before a patch (`LateRuns`): a patch at a layer changes nothing before it. The forward passes of the layers before are
replaced by what they gave in the run as it is, so that the model itself does the rest, with its own masks, positions and
unembedding. That this gives the run's own logits is checked on every prompt; otherwise whole prompts are run.

Heads are replaced, and perturbed for their slopes, at z, the weighted values before the output matrix: every model goes on from
there, whichever of its tensors are only shown (the pattern of a BERT bridge is).
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

from tl_ffblock.bridge.callbacks import LastCallback, change_input
from tl_ffblock.bridge.hugging_face import probe_tokens
from tl_ffblock.bridge.inputs import Batch, drop_graph, forward
from tl_ffblock.bridge.linearised import token_embedding_name
from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import IdentityError, InputError, UnsupportedModelError
from tl_ffblock.layer.positions import positions as numbers_of
from tl_ffblock.layer.scopes import INPUT, Add, feed_sum

RemovalName: TypeAlias = Literal["mask", "mean"]
RunHooks: TypeAlias = Sequence[tuple[str | Callable[[str], bool], Callable[..., Any]]]
RunHook: TypeAlias = tuple[str, Callable[..., Tensor | None]]
"""HookPoint name and function, as `run_with_hooks` takes them."""
Hidden: TypeAlias = Callable[[int], Bool[Tensor, "run head pos pos"]]
"""A number of positions to the pairs of query and key whose scores are masked; one run, or one head, is for all."""
Refusal: TypeAlias = Callable[[], Exception]
Read: TypeAlias = Callable[[Float[Tensor, "batch pos d_vocab"]], Float[Tensor, "*batch"]]
"""Logits to a number."""
PatchKind: TypeAlias = Literal["residual", "residual_mid", "attention", "mlp", "head", "q", "k", "v", "pattern"]
"""What is patched: the residual stream at a layer's input, between attention and feed-forward; what attention and feed-forward
add to it; of heads z, queries, keys and values before any rotation, and the attention pattern."""
PATCH_KINDS: tuple[PatchKind, ...] = get_args(PatchKind)
_OF_HEADS = {"head": "hook_z", "q": "hook_q", "k": "hook_k", "v": "hook_v", "pattern": "hook_pattern"}

TOLERANCE = 1e-4
"""How well a run that goes on from the cache must give the clean run's logits, relative to the largest."""
_REMOVAL = ('removal="mask"', 'Use removal="mean".')
_ONE_MASK = ("XGLMAttention",)
"""Attention of transformers 5 that reads one mask for all heads."""
RUN_BYTES = {"cpu": 2**28, "cuda": 2**32}
"""What the outputs of runs side by side may occupy, by device; one may always have more."""


@dataclass(frozen=True)
class Removals:
    """One prompt's runs without some of its tokens."""

    model: Model
    tokens: Int[Tensor, " pos"]
    removal: RemovalName
    layer: int | None
    """The layer at whose input runs are read, the number of layers for the last one's output; None reads the logits."""

    def outputs(self, removed: Bool[Tensor, "run pos"]) -> Iterator[Float[Tensor, "run pos d"]]:
        """What is read of every run, some runs at a time.

        Args:
            removed: Which tokens each run does without.

        Raises:
            UnsupportedModelError: if they cannot be removed so from this model.
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
        # Pairs of a position that stays and one that is removed: of what removed positions see, nothing is read.
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
        hooks: Beside those that sit on the model.
        layer: Whose input is read, the number of layers for the last one's output; None reads the logits.
    """
    stream: list[Tensor] = []
    name = model.output_name if layer in (None, model.n_layers) else model.layers[layer or 0].sites["resid_pre"]
    with LastCallback(model.hook_points[name], stream.append), model.hooked.hooks(fwd_hooks=list(hooks)):
        logits: Tensor = model.hooked(tokens.to(model.device))
    return logits if layer is None else stream[-1]


def masking_hooks(model: Model, hidden: Mapping[int, Hidden], called: str, instead: str = "") -> list[RunHook]:
    """Hooks that mask attention scores before the softmax, by layer, and refuse a pattern that gives a masked key weight.

    Args:
        model: The model.
        hidden: Which pairs are masked, by layer.
        called: What this is, at the head of an error.
        instead: What to do where the model's attention cannot be masked.
    """
    hooks: list[RunHook] = []
    inside = attends_inside(model)
    for number, pairs in hidden.items():
        layer = model.layers[number]
        refusal = partial(_refusal, model, f"layer {number}", called, instead)
        if inside:
            hooks.append((layer.name("attn.hook_in"), partial(_mask_inside, model, number, pairs, refusal)))
        else:
            hooks.append((layer.name("attn.hook_attn_scores"), partial(_hide, pairs)))
        hooks.append((layer.sites["pattern"], partial(_refuse_weight, model, number, pairs, refusal)))
    return hooks


def attends_inside(model: Model) -> bool:
    """Whether attention is Hugging Face's own, so that HookPoints show scores and pattern after they were used."""
    if model.memory.attends_inside is None:
        first, fired = model.layers[0], list[str]()
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
    """Change the attention mask of the forward pass of Hugging Face's attention that reads x."""
    attention = model.layers[layer].block.attn.original_component

    def enter(_: nn.Module, args: Any, kwargs: Any) -> Any:
        armed.remove()
        if not any(given is x for given in (*args, *kwargs.values())):
            return None  # x was of a forward pass that ended early
        call = inspect.signature(attention.forward).bind(*args, **kwargs)
        mask = call.arguments.get("attention_mask")
        if mask is None and model.family.causal:
            raise refusal()  # it makes a mask of its own
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
        raise InputError(f"{model.name}: the attention of layer {layer} holds NaN or infinity. Check the weights.")
    if bool((pattern * _pairs_of(hidden, pattern)).any()):
        raise refusal()


def _pairs_of(hidden: Hidden, scores: Tensor) -> Bool[Tensor, "run head query key"]:
    """The pairs of a forward pass whose queries are the last of its keys, as in one that goes on from a cache."""
    n_queries, n_keys = scores.shape[-2:]
    return hidden(n_keys)[..., -n_queries:, -n_keys:].to(scores.device)


def _refusal(model: Model, layer: str, called: str, instead: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"{called}: {model.name} ({model.family.name}) attends, in {layer}, to tokens that were hidden. Its attention is out of reach "
        f"of hooks (of some models in single heads), or a query has no other key within reach. {instead}".rstrip()
    )


def _factor(model: Model, tokens: Int[Tensor, " pos"], embedded: Float[Tensor, "*run pos d_model"]) -> float:
    """By what a model multiplies its embeddings (Gemma by sqrt(d_model)); 1 as a rule.

    Raises:
        UnsupportedModelError: if it embeds them otherwise.
    """
    rows, x = model.embedding_matrix[tokens.to(model.device)], embedded[0]
    if rows.shape == x.shape:
        rows = rows.to(x)
        factor = float((rows * x).sum() / (rows * rows).sum())
        if torch.allclose(factor * rows, x, rtol=1e-2, atol=1e-3 * float(x.abs().max())):
            return factor
    raise UnsupportedModelError(
        f'removal="mean": {model.name} ({model.family.name}) embeds tokens otherwise than by rows of its embedding matrix, so no '
        'mean of them is known. Use removal="mask".'
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
        hooks: Beside those that sit on the model.
        silent: Whether those that sit on the model are left out.
    """
    with model.hooks_disabled() if silent else nullcontext():
        return model.hooked.run_with_hooks(tokens.to(model.device), fwd_hooks=list(hooks))


class ResumedRuns:
    """Runs of prompts under hooks, each from the position where its edit stands."""

    def __init__(
        self,
        model: Model,
        tokens: Int[Tensor, "prompt pos"],
        clean: Sequence[Float[Tensor, "pos d_vocab"]],
        *,
        starts: Sequence[Collection[int]],
        resume: bool = True,
    ) -> None:
        """Find out whether runs of these prompts can go on from a cache.

        Args:
            model: The model, on whose device the tokens lie.
            tokens: The prompts.
            clean: Logits of each one's run without edits, which a run from the cache must reproduce.
            starts: By prompt, the positions from which runs will be asked for; the check starts at the earliest of all.
            resume: False always runs whole prompts.
        """
        self._model = model
        self._tokens = tokens
        self._starts = starts
        self._prefix: tuple[int, dict[int, int], Any] | None = None
        """Length of the prefix that was run last, which row each prompt is there, and its keys and values."""
        possible = resume and any(starts) and model.family.causal and model.api == "TransformerBridge"
        self.resumes: bool = possible and self._reproduces(clean)
        """Whether a run begins at its edit; otherwise `start` below must be 0."""

    @torch.no_grad()
    def logits(self, start: int, prompts: Sequence[int], hooks: RunHooks) -> Float[Tensor, "run rest d_vocab"]:
        """Logits from position `start` on, of one run of each of these prompts; the hooks see these positions only."""
        tokens = self._tokens[list(prompts), start:]
        if start == 0:
            return logits_under(self._model, tokens, hooks)
        row_of, kept = self._keys_and_values(start, prompts)
        cache = copy.deepcopy(kept)  # a run appends its own to what it is given
        cache.batch_select_indices(torch.tensor([row_of[prompt] for prompt in prompts], device=tokens.device))
        return self._model.hooked.run_with_hooks(tokens, fwd_hooks=list(hooks), past_key_values=cache, use_cache=True)

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
    """Whether runs that leave something out give the logits of whole ones, each relative to its largest."""
    try:
        found = run()
    except Exception:  # whatever this version or architecture cannot do, the whole prompt can
        return False
    return all(
        logits.shape == whole.shape and float((logits - whole).abs().max()) <= TOLERANCE * float(whole.abs().max())
        for logits, whole in zip(found, expected, strict=True)
    )


def slopes_at_values(
    model: Model, tokens: Int[Tensor, "1 pos"], read: Read, layer: int | None = None
) -> Float[Tensor, "layer pos head d_head"]:
    """The derivative of what is read of a run by every head's z; zero where nothing of it is read.

    Args:
        model: The model.
        tokens: The prompt.
        read: What is read.
        layer: Of what it is read, as in `outputs_under`.
    """
    perturbations: dict[int, Tensor] = {}

    def perturbed(layer: int) -> Callable[..., Tensor]:
        def add(z: Tensor, hook: object = None) -> Tensor:
            perturbations[layer] = torch.zeros_like(z, requires_grad=True)
            return z + perturbations[layer]

        return add

    layers = range(model.n_layers)
    with torch.enable_grad():
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
    """What is read of as many runs as the layer has heads: in run h the z of head h is replaced at every position.

    Args:
        model: The model.
        tokens: The prompt.
        layer: The layer of the heads.
        read_at: Of what is read, as `layer` of `outputs_under`.
        mean: Whether by its mean over the run's positions, after users' hooks; else by zero.
    """
    n_heads = model.n_heads

    def put(z: Tensor, hook: object = None) -> Tensor:
        changed = z.clone(memory_format=torch.contiguous_format)
        by_head = changed.view(n_heads, tokens.shape[1], n_heads, -1)
        for head in range(n_heads):
            of_head = by_head[head, :, head]
            wide = of_head.to(torch.promote_types(z.dtype, torch.float32))
            by_head[head, :, head] = wide.mean(dim=0).to(z) if mean else torch.zeros_like(of_head)
        return changed

    return outputs_under(model, tokens.expand(n_heads, -1), [(model.layers[layer].values_name, put)], read_at)


def setting_neurons(
    model: Model, layer: int, values: Mapping[int, float], positions: tuple[int, ...] | None = None
) -> RunHook:
    """A hook that sets neurons' activations (after the activation function, gated: the product).

    Args:
        model: The model.
        layer: Number of a layer with a dense feed-forward.
        values: New activation by neuron.
        positions: Where; None means everywhere.

    Raises:
        UnsupportedModelError: for experts, whose activations no HookPoint carries.
    """
    if model.layers[layer].has_experts:
        raise UnsupportedModelError(
            f"{model.name}, layer {layer}: no HookPoint carries the activations of single experts, so their memories cannot be "
            "knocked out."
        )

    def set_neurons(tensor: Tensor, hook: object = None) -> Tensor:
        changed = tensor.clone()
        rows = slice(None) if positions is None else numbers_of(positions, tensor.shape[-2], "positions")
        for neuron, value in values.items():
            changed[..., rows, neuron] = value
        return changed

    return model.layers[layer].sites["post"], set_neurons


def patched_name(model: Model, kind: PatchKind, layer: int) -> str:
    """HookPoint at which a kind of activation is patched; `layer` is the number of layers for the last one's output.

    The stream between attention and feed-forward is changed at what attention adds to it: a bridge's HookPoint of the stream
    itself is what the next norm reads, and not what skips it.

    Raises:
        UnsupportedModelError: if the model has no such activation, or no HookPoint of it.
    """
    if kind == "residual" and layer == model.n_layers:
        return model.output_name
    bound, order = model.layers[layer], model.family.order
    if kind in _OF_HEADS:
        name = bound.name(f"attn.{_OF_HEADS[kind]}")
    elif kind == "residual":
        name = bound.sites["resid_pre"]
    elif (kind == "mlp" and order == "attn_only") or (kind == "residual_mid" and order in ("attn_only", "parallel")):
        lacks = "feed-forward" if order == "attn_only" else "residual stream between attention and feed-forward"
        raise UnsupportedModelError(
            f"of={kind!r}: {bound.where} has no {lacks} (order {order}). Leave {kind!r} out of `of`."
        )
    else:
        sums = (step.operation for step in bound.program if isinstance(step.operation, Add))
        added = feed_sum(order) if kind == "mlp" else next(each for each in sums if each.right == INPUT)
        name = bound.sites[f"whole.{added.left}"]
    if name not in model.hook_points:
        raise UnsupportedModelError(f"of={kind!r}: {bound.where} has no HookPoint {name}. Leave {kind!r} out of `of`.")
    return name


def heads_of(model: Model, kind: PatchKind) -> int:
    """How many heads a kind of activation has, those of keys and values where they are grouped; 0 for none."""
    if kind not in _OF_HEADS:
        return 0
    grouped = getattr(model.hooked.cfg, "n_key_value_heads", None) if kind in ("k", "v") else None
    return int(grouped or model.n_heads)


class LateRuns:
    """Runs of one prompt under patches of one layer, side by side; the layers before it give what they gave in the run as it is."""

    def __init__(
        self,
        model: Model,
        tokens: Int[Tensor, " pos"],
        patched: Collection[tuple[PatchKind, int]],
        read_from: int | None = None,
    ) -> None:
        """Run the prompt once, and find out whether its patched runs can begin late.

        Args:
            model: The model.
            tokens: The prompt.
            patched: Kinds and layers that will be patched.
            read_from: The first position whose logits are read, counted from the end; None reads all.

        Raises:
            UnsupportedModelError: if the model has no such activation, or no HookPoint of it.
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
        """Of the run as it is: [pos d_model], of heads [pos head d_head], of patterns [head query key]."""
        if kind == "residual_mid":
            return self._kept["residual", layer] + self._kept["attention", layer]
        return self._kept[kind, layer]

    @property
    def at_once(self) -> int:
        """How many runs side by side fit into memory."""
        n, sizes = len(self.logits), self._model.sizes
        numbers = max(self.read.numel(), n * n * sizes.heads, n * sizes.d_mlp, n * sizes.d_model)
        return self._model.at_once(RUN_BYTES, numbers)

    @property
    def read(self) -> Float[Tensor, "read d_vocab"]:
        """Logits of the run as it is, where they are read."""
        return self.logits[self._from :]

    def patched(
        self,
        kind: PatchKind,
        layer: int,
        values: Float[Tensor, "run ..."],
        where: Bool[Tensor, "run head pos"],
    ) -> Float[Tensor, "run read d_vocab"]:
        """Logits of runs with other values of an activation.

        Args:
            kind: What is patched.
            layer: Where.
            values: By run the activation, as `activation` gives it.
            where: The heads (one for kinds without) and positions that each run replaces by those; of patterns, queries.
        """
        rows = where.to(values.device)
        if kind != "pattern":
            rows = rows.transpose(1, 2) if kind in _OF_HEADS else rows[:, 0]
        if kind == "residual_mid":
            values = values - self._kept["residual", layer]

        def put(x: Tensor, hook: object = None) -> Tensor:
            return torch.where(rows[..., None], values.to(x), x.reshape(values.shape)).reshape(x.shape)

        return self._run(layer, len(values), [(patched_name(self._model, kind, layer), put)], self._from)

    def refuse_disobedience(self, kind: PatchKind, layer: int) -> None:
        """Refuse a kind of activation whose patches change nothing, since the model used it before its HookPoint showed it.

        Raises:
            UnsupportedModelError: if noise there leaves the logits as they are.
        """
        own = self._kept["attention" if kind == "residual_mid" else kind, layer]
        noise = torch.rand(own.shape, generator=torch.Generator().manual_seed(0)).to(own)
        change = noise * (own.abs().mean() + torch.finfo(own.dtype).eps)

        def add(x: Tensor, hook: object = None) -> Tensor:
            return torch.cat([x[:1], x[1:] + change.reshape(x.shape[1:])])

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # TransformerLens 4.3 warns of edits that it discards
            logits = self._run(layer, 2, [(patched_name(self._model, kind, layer), add)], read_from=None)
        if float((logits[1] - logits[0]).abs().max()) <= 10 * self._model.eps(logits.dtype) * float(logits.abs().max()):
            raise UnsupportedModelError(
                f"of={kind!r}: {self._model.layers[layer].where} computes its output before {patched_name(self._model, kind, layer)} "
                f"shows this tensor, so a patch there changes nothing. Leave {kind!r} out of `of`."
            )

    def error_of(self, logits: Float[Tensor, "read d_vocab"], expected: "LateRuns", what: str) -> float:
        """How far a patched run is from the one that it must be, relative to the largest logit.

        Raises:
            IdentityError: if rounding does not explain it.
        """
        error = float((logits - expected.read).abs().max() / expected.read.abs().max())
        if not error <= self._model.tolerance:  # NaN is refused too
            raise IdentityError(
                f"{self._model.name} ({self._model.family.name}): {what} misses the logits that it must give by {error:.1e} of the "
                f"largest (at most {self._model.tolerance:g}): its layers are not patched as they run."
            )
        return error

    def _keep(self, key: tuple[PatchKind, int], tensor: Tensor) -> None:
        kind, heads = key[0], heads_of(self._model, key[0])
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
    """The first layers give these outputs of one run, as many times as there are runs, in place of their forward passes."""
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
