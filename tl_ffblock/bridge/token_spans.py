"""What a model's tokenizer makes of a text: ids as the model reads them, and the characters each stands for."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int

from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import InputError
from tl_ffblock.layer.positions import whole_number


@dataclass(frozen=True)
class SpecialTokens:
    """Tokens of a vocabulary that stand for no text."""

    mask: int | None
    """The mask token; None where the model has none."""
    mask_text: str
    marks: tuple[int, ...]
    """All of them but the unknown token, which stands for some."""


def single_token(model: Any, word: str | int) -> int:
    """The id of a text that is one token, without any marks of a sequence's begin; an id as it is.

    Raises:
        InputError: if there is no tokenizer to read a text, or the text is no token or several.
    """
    if not isinstance(word, str):
        return whole_number(word, "token")
    tokenizer = getattr(model.hooked if isinstance(model, Model) else model, "tokenizer", None)
    if tokenizer is None:
        raise InputError(f"the model has no tokenizer to read {word!r}: give token ids.")
    ids = tokenizer(word, add_special_tokens=False)["input_ids"]
    if len(ids) != 1:
        pieces = ", ".join(repr(tokenizer.decode([token])) for token in ids)
        raise InputError(
            f"{word!r} is {len(ids)} tokens: {pieces or 'none'}. Expected one token: give one of "
            "them, a word that is one (a leading space matters), or a token id."
        )
    if ids[0] == tokenizer.unk_token_id and word != tokenizer.unk_token:
        raise InputError(
            f"{word!r} is no token of the vocabulary: the tokenizer reads it as {tokenizer.unk_token!r}, as all that it does "
            "not know. Expected a word that it knows (upper and lower case, and a leading space, matter), or a token id."
        )
    return int(ids[0])


def special_tokens(model: Model) -> SpecialTokens:
    """Read the special tokens of a model's tokenizer.

    Raises:
        InputError: if it has no tokenizer.
    """
    tokenizer = _tokenizer(model)
    marks = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    return SpecialTokens(tokenizer.mask_token_id, str(tokenizer.mask_token), tuple(sorted(marks)))


def special_ids(model: Model) -> tuple[int, ...]:
    """Ids of tokens that stand for no text; none are known without a tokenizer."""
    return () if getattr(model.hooked, "tokenizer", None) is None else special_tokens(model).marks


def padding_token(model: Model) -> int:
    """The id that fills short sequences up; any will do, since the mask hides it."""
    return getattr(model.hooked.tokenizer, "pad_token_id", None) or 0


def token_spans(model: Model, text: str) -> tuple[Int[np.ndarray, " token"], list[tuple[int, int]]]:
    """Give the ids of a text as the model reads it, and the characters of each; (0, 0) for those put before it.

    Raises:
        InputError: if there is no tokenizer, or none that tells where its tokens stand.
    """
    tokenizer = _tokenizer(model)
    if model.api == "HookedEncoder":
        ids = tokenizer(text)["input_ids"]
    else:
        ids = model.hooked.to_tokens(text, truncate=False)[0].tolist()
    if not tokenizer.is_fast:
        raise InputError(f"{model.name}: its tokenizer tells no character offsets; a fast one is needed.")
    tokens = tokenizer(text, return_offsets_mapping=True)
    inner, offsets = list(tokens["input_ids"]), [tuple(pair) for pair in tokens["offset_mapping"]]
    before = len(ids) - len(inner)
    if before < 0 or ids[before:] != inner:
        raise InputError(f"{model.name}: TransformerLens and the tokenizer cut {text[:60]!r} differently.")
    return np.array(ids), [(0, 0)] * before + [_trim(text, *pair) for pair in offsets]


def _tokenizer(model: Model) -> Any:
    tokenizer = getattr(model.hooked, "tokenizer", None)
    if tokenizer is None:
        raise InputError(f"{model.name} has no tokenizer, which reading texts needs.")
    return tokenizer


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Without the white space that byte-level tokens carry."""
    piece = text[start:end]
    stripped = len(piece) - len(piece.lstrip())
    return (start + stripped, end - (len(piece) - len(piece.rstrip()))) if piece.strip() else (start, end)
