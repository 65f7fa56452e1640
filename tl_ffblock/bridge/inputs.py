"""Text and tensors -> batches of tokens, their labels, and the forward pass."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, SupportsIndex

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from tl_ffblock.bridge.batching import Batch, in_batches
from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import InputError, brief

EXAMPLE = "When the meeting ended, the engineers who had written the report went home, and it was read by nobody else."
"""What a model with a tokenizer is tried on."""
EXAMPLE_TOKENS = 24
"""How many token ids a model without a tokenizer is tried on."""


@torch.inference_mode(False)  # tokens made in inference mode cannot be used where gradients are recorded
def prepare(
    model: Model,
    given: Any,
    attention_mask: Tensor | None,
    token_type_ids: Tensor | None = None,
    *,
    together: bool = True,
    unequal: bool = False,
) -> list[Batch]:
    """What the user gave -> batches to run: a text alone, a tensor as it is.

    Texts of a list run together where they have equally many tokens, as many at a time as fit `batching.BATCH_BYTES`. Texts of
    other lengths are not padded to theirs under a mask: on which side a model may be padded, and with which positions,
    differs by family. But what no token of a causal model sees can stand behind it (batching.py).

    Args:
        model: What will run.
        given: Text, texts, or token ids.
        attention_mask: Where a token tensor is not padding.
        token_type_ids: Segments of a token tensor.
        together: Whether texts of a list may share a forward pass; else each is a batch of its own, in order.
        unequal: Whether they may where their lengths differ a little; of causal models only.

    Raises:
        InputError: for empty, too long or malformed input.
    """
    if _is_ids(given):
        given = torch.tensor([int(token) for token in given])
    if isinstance(given, Tensor):
        batch = _from_tensor(model, given, attention_mask)
        batch = replace(batch, numbers=tuple(range(len(batch.tokens))))
        return [batch if token_type_ids is None else _with_types(model, batch, token_type_ids)]
    if attention_mask is not None:
        raise InputError("attention_mask goes with a token tensor; texts are never padded here.")
    if token_type_ids is not None:
        raise InputError("token_type_ids goes with a token tensor, not with texts.")
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, Sequence) or not texts or not all(isinstance(text, str) for text in texts):
        raise InputError(
            f"input is {_kind(given)}; expected a text, a list of texts, token ids, or a token tensor [pos] or [batch, pos]."
        )
    sequences = [_from_text(model, text) for text in texts]
    return in_batches(model, sequences, together=together, unequal=unequal and together and model.family.causal)


def one_sequence(model: Model, given: Any, name: str) -> Int[Tensor, " pos"]:
    """The tokens of what must be one text or one tensor.

    Args:
        model: Its tokenizer reads a text.
        given: A text, or token ids [pos] or [1, pos].
        name: The argument's name, for the error.

    Raises:
        InputError: for a list or batch of several, and for what cannot be used.
    """
    several = not isinstance(given, str | Tensor) or (isinstance(given, Tensor) and given.ndim == 2 and len(given) != 1)
    if several:
        raise InputError(f"{name} is {_kind(given)}; expected one text, or one tensor of token ids [pos].")
    (batch,) = prepare(model, given, None)
    return batch.tokens[0]


def example_input(model: Model) -> str | Int[Tensor, " pos"]:
    """Something to try a model on: a sentence, or drawn ids where there is no tokenizer or an empty one."""
    if getattr(model.hooked, "tokenizer", None) is not None and _tokenised(model, EXAMPLE).numel():
        return EXAMPLE
    cfg = model.hooked.cfg
    length = min(EXAMPLE_TOKENS, getattr(cfg, "n_ctx", None) or EXAMPLE_TOKENS)
    vocabulary = int(getattr(cfg, "d_vocab", 0) or 0)
    generator = torch.Generator().manual_seed(0)
    low = 5 if vocabulary > 16 else 0  # the first ids are often padding and brackets
    return torch.randint(low, max(vocabulary, 16), (length,), generator=generator)


def is_single(given: Any) -> bool:
    """Whether the input is one sequence, so that the answer is one result and not a list."""
    return isinstance(given, str) or _is_ids(given) or (isinstance(given, Tensor) and given.ndim == 1)


def _is_ids(given: Any) -> bool:
    """Whether it is a list of integers: the token ids of one sequence."""
    return (
        isinstance(given, Sequence)
        and not isinstance(given, (str, bytes, bytearray))
        and bool(given)
        and all(isinstance(token, SupportsIndex) and not isinstance(token, (bool, Tensor)) for token in given)
    )


def label(model: Model, tokens: Int[Tensor, " pos"]) -> tuple[str, ...]:
    """The tokens as text; their ids without a tokenizer that knows them."""
    return _texts(model, tokens) or tuple(str(token) for token in tokens.tolist())


def quoted(model: Model, tokens: Int[Tensor, " _"]) -> tuple[str, ...]:
    """Tokens as a sentence names them: `' Mary'`, or `token 7` without a tokenizer that knows it."""
    texts = _texts(model, tokens)
    return tuple(map(repr, texts)) if texts else tuple(f"token {token}" for token in tokens.tolist())


def _texts(model: Model, tokens: Int[Tensor, " _"]) -> tuple[str, ...]:
    """The tokens as text, none without a tokenizer, or with the empty one that Hugging Face makes for a folder without files of one."""
    tokenizer = model.hooked.tokenizer
    if tokenizer is None:
        return ()
    to_text = getattr(model.hooked, "to_str_tokens", None)  # HookedEncoder has none
    texts = tuple(tokenizer.convert_ids_to_tokens(tokens.tolist()) if to_text is None else to_text(tokens))
    return texts if any(texts) else ()


def forward(model: Model, batch: Batch, *, gradients: bool = False) -> Any:
    """One forward pass; what the model returns, its logits as a rule."""
    name = "one_zero_attention_mask" if model.api == "HookedEncoder" else "attention_mask"
    options = {} if batch.mask is None else {name: at_model(model, batch.mask).long()}
    if batch.token_types is not None:
        options["token_type_ids"] = at_model(model, batch.token_types)
    with torch.set_grad_enabled(gradients):
        return model.hooked(at_model(model, batch.tokens), **options)


def at_model(model: Model, tensor: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
    """The tensor on the device where the model takes its input."""
    return tensor.to(next(model.hooked.parameters()).device)


def _from_text(model: Model, text: str) -> Int[Tensor, "1 pos"]:
    if not text.strip():
        raise InputError("input is an empty text; give at least one word.")
    if model.hooked.tokenizer is None:
        raise InputError(
            f"{model.name} has no tokenizer: give token ids as a tensor, [pos] or [batch, pos], instead of text."
        )
    tokens = _tokenised(model, text)
    if not tokens.numel():
        raise InputError(
            f"the tokenizer of {model.name} makes no tokens of {brief(text)}: it is empty, as the one that Hugging Face makes for "
            "a folder without files of one. Give token ids as a tensor, or set model.tokenizer."
        )
    return _checked(model, tokens)


def _tokenised(model: Model, text: str) -> Int[Tensor, "1 pos"]:
    if model.api == "HookedEncoder":
        tokens = model.hooked.tokenizer(text, return_tensors="pt")["input_ids"]
    else:
        tokens = model.hooked.to_tokens(text, truncate=False)
    return tokens.cpu()


def _from_tensor(model: Model, tokens: Tensor, attention_mask: Tensor | None) -> Batch:
    if tokens.ndim not in (1, 2) or tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise InputError(
            f"input is a tensor of shape {tuple(tokens.shape)} and dtype {tokens.dtype}; expected integer token ids, "
            "[pos] or [batch, pos]."
        )
    if tokens.numel() == 0:
        raise InputError(f"input has no tokens; give at least one (its shape is {tuple(tokens.shape)}).")
    batch = tokens.detach().cpu().long().reshape(-1, tokens.shape[-1]).clone()
    if attention_mask is None:
        return Batch(_checked(model, batch))
    if not isinstance(attention_mask, Tensor) or attention_mask.ndim == 0 or attention_mask.numel() == 0:
        raise InputError(
            f"attention_mask is {attention_mask!r}; expected a tensor of zeros and ones of the input's shape {tuple(tokens.shape)}."
        )
    mask = attention_mask.detach().cpu().reshape(-1, attention_mask.shape[-1])
    if mask.shape != batch.shape or not torch.isin(mask, torch.tensor([0, 1], dtype=mask.dtype)).all():
        raise InputError(
            f"attention_mask has shape {tuple(attention_mask.shape)} and values {sorted(set(mask.flatten().tolist()))[:5]}; expected zeros "
            f"and ones of the input's shape {tuple(tokens.shape)}."
        )
    mask = mask.bool()
    _refuse_masks(model, mask)
    return Batch(_checked(model, batch), None if mask.all() else mask)


def _refuse_masks(model: Model, mask: Bool[Tensor, "batch pos"]) -> None:
    """Refuse masks that are no padding, and padding that TransformerLens does not hide."""
    if not mask.any(dim=1).all():
        raise InputError(f"attention_mask hides every token of sequence {int((~mask.any(dim=1)).nonzero()[0])}.")
    before = torch.nn.functional.pad(mask, (1, 0))[:, :-1]
    starts = (mask & ~before).sum(dim=1)
    if (starts > 1).any():
        index = int((starts > 1).nonzero()[0])
        holes = (~mask[index]).nonzero()[:, 0].tolist()
        raise InputError(
            f"attention_mask of sequence {index} hides tokens between others (zeros at positions {holes[:8]}); expected padding "
            "before or after one run of ones. TransformerLens would number the positions of what is left anew, Hugging Face "
            "would not. Leave those tokens out, or cut their edges of attention with hooks."
        )
    if model.family.name == "GPT" and not mask.all():
        raise InputError(
            "attention_mask: a padded run of GPT-1 attends to later tokens in TransformerLens, so it is another run than that of "
            "each sequence alone. Give the sequences one by one, without padding."
        )


def _with_types(model: Model, batch: Batch, token_type_ids: Tensor) -> Batch:
    config = getattr(getattr(model.hooked, "original_model", None), "config", None)
    count = 2 if model.api == "HookedEncoder" else getattr(config, "type_vocab_size", None)
    if model.family.order != "post_ln" or model.family.causal or count is None:
        raise InputError(f"token_type_ids: {model.name} ({model.family.name}) has no token types; leave it out.")
    if not isinstance(token_type_ids, Tensor):
        raise InputError(f"token_type_ids={brief(token_type_ids)}: expected a tensor of integers of the input's shape.")
    types = token_type_ids.detach().cpu()
    if types.is_floating_point() or types.dtype == torch.bool or types.shape[-1:] != batch.tokens.shape[-1:]:
        raise InputError(
            f"token_type_ids has shape {tuple(types.shape)} and dtype {types.dtype}; expected integers of the input's shape."
        )
    types = types.long().reshape(-1, types.shape[-1])
    if types.shape != batch.tokens.shape or int(types.min()) < 0 or int(types.max()) >= count:
        raise InputError(
            f"token_type_ids has shape {tuple(token_type_ids.shape)} and values {sorted(set(types.flatten().tolist()))[:5]}; "
            f"expected 0 to {count - 1}, of the input's shape."
        )
    return replace(batch, token_types=types)


def _checked(model: Model, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
    cfg = model.hooked.cfg
    if tokens.numel() == 0:
        raise InputError("input has no tokens; give at least one.")
    n_ctx, d_vocab = getattr(cfg, "n_ctx", None), getattr(cfg, "d_vocab", None)
    if n_ctx and tokens.shape[1] > n_ctx:
        raise InputError(
            f"input has {tokens.shape[1]} tokens, {model.name} reads at most {n_ctx}: shorten or split it."
        )
    low, high = int(tokens.min()), int(tokens.max())
    if low < 0 or (d_vocab is not None and 0 < d_vocab <= high):
        raise InputError(
            f"input has token id {low if low < 0 else high}; {model.name} knows ids 0 to {(d_vocab or 0) - 1}."
        )
    return tokens


def _kind(given: Any) -> str:
    if isinstance(given, Sequence) and not isinstance(given, str):
        return (
            f"an empty {type(given).__name__}"
            if not given
            else f"a {type(given).__name__} of {type(given[0]).__name__}"
        )
    if isinstance(given, Tensor):
        return f"a tensor of shape {tuple(given.shape)}"
    return f"a {type(given).__name__}"
