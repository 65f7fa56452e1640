"""Texts and tensors to batches of tokens, labels of tokens, and the forward pass.

Texts are never padded here. Sequences of a batch have equal lengths, or in causal models nearly equal lengths: tokens after the end
of a sequence do not change a causal model's activations before them.
"""

import ctypes
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import product, takewhile
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import EqualPairWarning, InputError, PaddingWarning, brief, warn
from tl_ffblock.layer.positions import several, whole_number
from tl_ffblock.signatures import whole

EXAMPLE = "When the meeting ended, the engineers who had written the report went home, and it was read by nobody else."
"""Text for tests of a model with a tokenizer."""
EXAMPLE_TOKENS = 24
"""Number of token ids for tests of a model without a tokenizer."""
BATCH_BYTES = {"cpu": 64 * 2**20, "cuda": 2**30}
"""Largest size of one layer of a batch of texts, by device; a single text may be larger."""
LONGEST_JOINED = 256
"""Longer texts are not lengthened: a batch saves little for them, and some position embeddings depend on the length."""
APPENDED = 8
"""Tokens that may be appended to save a batch, which costs as much as 9 more tokens on a model of GPT-2-small size, 33 on SmolLM2."""

Prompt: TypeAlias = str | Int[Tensor, " _"]
"""One prompt: a text, or token ids."""
_PROMPTS = "a text, a list of texts, token ids [pos] or [batch, pos], or a list of token ids"
"""Input of calls, for errors."""
SPACE_MARK = "▁"
"""White space in pieces of SentencePiece vocabularies."""
_BYTE = re.compile("<0x([0-9A-F]{2})>")
"""Pieces of single bytes in such vocabularies."""

MANY_TOKENS, SECONDS_BETWEEN_TRIMS = 1024, 0.05
"""Batches of at least this many tokens return freed memory to the system, at this interval."""


@dataclass(frozen=True)
class Batch:
    """Sequences that run together."""

    tokens: Int[Tensor, "batch pos"]
    mask: Bool[Tensor, "batch pos"] | None = None
    """True at real tokens; None without padding."""
    token_types: Int[Tensor, "batch pos"] | None = None
    """Segment of each token, for BERT; None means 0 everywhere."""
    numbers: tuple[int, ...] = ()
    """Indices of these sequences in the input."""
    lengths: tuple[int, ...] = ()
    """Number of own tokens of every sequence, if shorter ones were lengthened; else empty."""
    media: Mapping[str, Tensor] = field(default_factory=dict)
    """Further tensors of a processor's output by name, such as `pixel_values`, of the image or sound in the one sequence."""

    def real(self, index: int) -> Int[Tensor, " pos"] | None:
        """Positions of a sequence without padding; None means all."""
        if self.lengths and self.lengths[index] < self.tokens.shape[1]:
            return torch.arange(self.lengths[index])
        return None if self.mask is None else self.mask[index].nonzero()[:, 0]

    def own(self, index: int, tensor: Shaped[Tensor, "batch pos ..."]) -> Shaped[Tensor, "real ..."]:
        """A sequence's part of a batch tensor, without padding."""
        real = self.real(index)
        return tensor[index] if real is None else tensor[index][real.to(tensor.device)]

    def sequence(self, index: int) -> Int[Tensor, " pos"]:
        """Real tokens of a sequence."""
        return self.own(index, self.tokens)

    def pieces(self, at_once: int) -> "list[Batch]":
        """The batch split into batches of at most `at_once` sequences."""
        if at_once >= len(self.numbers):
            return [self]
        cuts = [slice(start, start + at_once) for start in range(0, len(self.numbers), at_once)]
        return [
            Batch(
                self.tokens[rows],
                None if self.mask is None else self.mask[rows],
                None if self.token_types is None else self.token_types[rows],
                self.numbers[rows],
                self.lengths[rows],
            )
            for rows in cuts
        ]


@dataclass(frozen=True)
class RunSequence:
    """One input sequence, without padding."""

    tokens: Int[Tensor, " pos"]
    labels: tuple[str, ...]
    """Tokens as text."""
    queries: tuple[int, ...]
    """Positions of the rows, in the given order and with repetitions."""
    given: str = ""
    """The text that was tokenised; empty if token ids were given."""

    @property
    def ascending(self) -> list[int]:
        """Each position once, ascending, as in records."""
        return sorted(set(self.queries))

    @property
    def order(self) -> Int[Tensor, " query"]:
        """Row of a record for each of `queries`."""
        rows = {position: row for row, position in enumerate(self.ascending)}
        return torch.tensor([rows[position] for position in self.queries])


@torch.inference_mode(False)  # tensors created in inference mode cannot be used with gradients
def prepare(
    model: Model,
    given: Any,
    attention_mask: Tensor | None,
    token_type_ids: Tensor | None = None,
    *,
    together: bool = True,
    unequal: bool = False,
) -> list[Batch]:
    """Batches of an input: a text or a tensor is one batch.

    Texts of a list with equally many tokens share batches, as many as fit `BATCH_BYTES`. Texts of different lengths are not padded
    under a mask, since the side and the positions of padding differ by model family.

    Args:
        model: What will run.
        given: Text, texts, or token ids, as `read_input` gives them.
        attention_mask: Where a token tensor is not padding.
        token_type_ids: Segments of a token tensor.
        together: Whether texts of a list may share a forward pass; else each is a batch, in order.
        unequal: Whether texts of nearly equal lengths may share one, in causal models.

    Raises:
        InputError: for empty, too long or malformed input.
    """
    given = read_prompts(given)
    masked = attention_mask is not None or token_type_ids is not None
    if masked and isinstance(given, list) and len({len(row) for row in given if isinstance(row, Tensor)}) == 1:
        given = given if any(isinstance(row, str) for row in given) else torch.stack(given)
    if isinstance(given, Tensor):
        batch = _from_tensor(model, given, attention_mask)
        return [batch if token_type_ids is None else _with_types(model, batch, token_type_ids)]
    for name, other in (("attention_mask", attention_mask), ("token_type_ids", token_type_ids)):
        if other is not None:
            raise InputError(
                f"{name} with texts, or with ids of unequal lengths: expected a token tensor [batch, pos]. Texts are never padded: "
                f"omit {name}."
            )
    prompts = [given] if isinstance(given, str) else given
    if len(prompts) > 1:
        _refuse_padding(model, prompts)
    sequences = [
        _from_text(model, prompt) if isinstance(prompt, str) else _from_tensor(model, prompt, None).tokens
        for prompt in prompts
    ]
    return in_batches(model, sequences, together=together, unequal=unequal and together and model.family.causal)


def read_prompts(given: Any, name: str = "input") -> str | Tensor | list[Prompt]:
    """One text, token ids [pos] or [batch, pos], or a list of texts and ids [pos], from any form in which prompts are given.

    Lists, arrays, columns of tables and iterators of texts or of ids are read. Whole numbers in a list are the ids of one prompt.

    Args:
        given: The prompts.
        name: The argument's name, for the error.

    Raises:
        InputError: for prompts without order or entries, and entries that are not one prompt.
    """
    if isinstance(given, str | Tensor):
        return given
    if isinstance(given, np.ndarray) and given.dtype.kind in "iu" and given.ndim:
        return torch.from_numpy(given.astype(np.int64))
    plain = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(plain, str):
        return plain
    table = len(getattr(plain, "shape", ())) > 1  # of pandas or polars, which iterates over names of columns
    if table or not isinstance(plain, Iterable) or isinstance(plain, Mapping | AbstractSet | bytes | bytearray):
        raise InputError(f"{name} is {_kind(given)}: expected {_PROMPTS}.")
    entries = list(plain)
    if hasattr(given, "spans") or any(isinstance(entry, Mapping) and "role" in entry for entry in entries):
        raise InputError(
            f"{name} is a conversation: expected its token ids, ffb.chat(model, messages).tokens, or tokens[0] for a single result."
        )
    if not entries:
        empty = "" if isinstance(given, list | tuple) else " without entries"
        raise InputError(f"{name} is {_kind(given)}{empty}: expected {_PROMPTS}.")
    if all(_is_id(entry) for entry in entries):
        return torch.tensor([whole_number(entry, name) for entry in entries])
    return [_one_prompt(entry, f"{name}[{number}]") for number, entry in enumerate(entries)]


def _is_id(entry: Any) -> bool:
    number = whole(entry) if getattr(entry, "ndim", 0) == 0 else None
    return number is not None and abs(number) < 2**63


def _one_prompt(entry: Any, name: str) -> Prompt:
    """A text, or ids [pos], of an entry of a list; ids [1, pos] are one prompt too.

    Raises:
        InputError: for several prompts in one entry.
    """
    held = read_prompts(entry, name)
    row = held[0] if isinstance(held, Tensor) and held.ndim == 2 and len(held) == 1 else held
    if isinstance(row, str) or (isinstance(row, Tensor) and row.ndim == 1):
        return row
    raise InputError(f"{name} is {_kind(entry)}: expected one text, or the token ids [pos] of one prompt.")


def prompts_of(model: Model, given: Any, name: str) -> tuple[bool, list[Prompt]]:
    """Whether there is a single prompt, and the prompts, each a text or ids [pos], for calls that run them one by one.

    Raises:
        InputError: for a pair of segments, padding, and input that cannot be read.
    """
    refuse_pair(given, name)
    held = read_prompts(given, name)
    if isinstance(held, Tensor) and (held.ndim not in (1, 2) or not held.numel()):
        raise InputError(f"{name} is {_kind(held)}: expected {_PROMPTS}.")
    rows: list[Any] = [*held] if isinstance(held, Tensor) and held.ndim == 2 else [held]
    prompts: list[Prompt] = held if isinstance(held, list) else rows
    if len(prompts) > 1:  # a single one is checked when it runs
        _refuse_padding(model, prompts, name)
    return is_single(held) or (isinstance(held, Tensor) and len(held) == 1), prompts


def _refuse_padding(model: Model, prompts: Sequence[Prompt], name: str = "input") -> None:
    """Refuse ids of several prompts that look padded, and warn of one prompt that does.

    Prompts of equal length look padded if they have different numbers of pad tokens at an end, or more than a mark there.

    Raises:
        InputError: with the prompt and the token.

    Warns:
        PaddingWarning: for a single prompt.
    """
    rows = [prompt.tolist() for prompt in prompts if isinstance(prompt, Tensor)]
    if len({len(row) for row in rows}) != 1:
        return
    for (token, pad), end in product(_pad_tokens(model).items(), ("beginning", "end")):
        runs = [sum(1 for _ in takewhile(token.__eq__, row if end == "beginning" else reversed(row))) for row in rows]
        most, least = max(runs), min(runs)
        if (most <= pad.allowed and (most == least or not pad.equally)) or (len(rows) == 1 and not pad.equally):
            continue
        found = f"{most} pad token{'s' * (most > 1)} {quoted(model, torch.tensor([token]))[0]} at its {end}"
        if len(rows) == 1:
            warn(f"{name} has {found}, which the model reads as text. Omit them, or pass the text.", PaddingWarning)
            continue
        raise InputError(
            f"{name}: prompt {runs.index(most)} has {found}, prompt {runs.index(least)} has {least}; padding without a mask is read as "
            "text. Pass a list of texts, or a list of ids without padding, or attention_mask= where a call takes it. If these tokens "
            "are text, pass the prompts one by one."
        )


class _Pad(NamedTuple):
    """A token that pads."""

    allowed: int
    """Number of these tokens that may be at an end of a prompt without being padding."""
    equally: bool
    """Whether all prompts of a batch have to have equally many there."""


def _pad_tokens(model: Model) -> dict[int, _Pad]:
    """The pad token, and end-of-text tokens, which may pad too.

    Without a tokenizer, the tokens are those of Hugging Face's config.
    """
    tokenizer = tokenizer_of(model.hooked)
    source = getattr(getattr(model.hooked, "original_model", None), "config", None) if tokenizer is None else tokenizer
    marks = {name: several(getattr(source, f"{name}_token_id", None)) for name in ("bos", "eos", "cls", "sep", "pad")}
    pads = [token for token in marks.pop("pad") if token is not None]
    ends = [token for token in marks["eos"] if token is not None]
    others = {token for of_mark in marks.values() for token in of_mark}
    by_end = {token: _Pad(allowed=1, equally=False) for token in ends}
    return by_end | {token: _Pad(allowed=int(token in others), equally=True) for token in pads}


def read_input(
    model: Model, given: Any, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
) -> tuple[Any, Tensor | None, Tensor | None]:
    """Input, attention mask and token types; a tokenizer's output and a pair of sentences become token ids.

    Args:
        model: Model whose tokenizer reads a pair.
        given: A tokenizer's output (`input_ids`, `attention_mask`, `token_type_ids`); for an encoder a tuple of two texts, which
            are the two segments of one input. Other input is read by `read_prompts`.
        attention_mask: The caller's attention mask.
        token_type_ids: The caller's token types.

    Raises:
        InputError: for a tuple of two texts in other models, ids of unequal lengths without padding, missing ids, or a mask or
            token types given twice.
    """
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(text, str) for text in given):
        if model.family.causal:
            refuse_pair(given, "input")
        given = required_tokenizer(model)(*given)
    if not isinstance(given, Mapping):
        return read_prompts(given), attention_mask, token_type_ids
    if "input_ids" not in given:
        raise InputError(
            f"input is {_kind(given)} of {', '.join(map(repr, given)) or 'nothing'}: expected a tokenizer's output, with input_ids."
        )
    asked = {"attention_mask": attention_mask, "token_type_ids": token_type_ids}
    for name, other in asked.items():
        if other is not None and name in given:
            raise InputError(f"{name} is given twice: in the tokenizer's output, and as an argument. Omit one.")
        asked[name] = _as_tensor(given[name], name) if name in given else other
    types = asked["token_type_ids"]
    # All models assume types of zeros, also those without token types.
    return (
        _as_tensor(given["input_ids"], "input_ids"),
        asked["attention_mask"],
        types if types is None or types.any() else None,
    )


def _as_tensor(values: Any, name: str) -> Tensor:
    """Numbers of a tokenizer's output as a tensor."""
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"{name} of the tokenizer's output is {_kind(values)}, which is not one tensor: texts of unequal lengths need "
            'padding=True, return_tensors="pt". Or pass the texts as a list.'
        ) from None


def refuse_pair(given: Any, name: str) -> None:
    """Refuse a tuple of two texts, which could be one pair or two prompts, and a tokenizer's output.

    Raises:
        InputError: for these.
    """
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(text, str) for text in given):
        raise InputError(
            f"{name} is a tuple of two texts, which is one pair of segments: only attention_maps, contribution_maps and attribute "
            "accept one, for encoders. For two prompts use a list, [first, second]."
        )
    if isinstance(given, Mapping):
        raise InputError(f"{name} is {_kind(given)}: expected texts or token ids, such as its input_ids.")


def warn_of_equal_pair(clean: Int[Tensor, " pos"], corrupted: Int[Tensor, " pos"], which: str = "") -> None:
    """Warn of a clean and a corrupted prompt with the same tokens; `which` is the number of the pair, "[3]".

    Warns:
        EqualPairWarning: with the pair.
    """
    if torch.equal(clean, corrupted):
        warn(
            f"clean{which} and corrupted{which} are the same {len(clean)} tokens: all effects of this pair are 0, in means too, and "
            "normalised ones are NaN. Omit the pair, or change one of its prompts.",
            EqualPairWarning,
        )


def in_batches(
    model: Model,
    sequences: Sequence[Int[Tensor, "1 _"]],
    *,
    together: bool,
    unequal: bool,
    fitting: Callable[[int], int] | None = None,
) -> list[Batch]:
    """Batches of sequences that fit the budget, in the order in which lengths occur first.

    Args:
        model: The model.
        sequences: Token ids.
        together: Whether sequences may share a batch.
        unequal: Whether sequences of nearly equal lengths may share one, the shortest first.
        fitting: Function of a number of tokens to the largest number of sequences per batch; None means by `BATCH_BYTES`.
    """
    by_length: dict[int, list[int]] = {}
    for number, tokens in enumerate(sequences):
        by_length.setdefault(tokens.shape[1] if together else -number, []).append(number)
    cfg, batches = model.hooked.cfg, []
    d_model, n_heads = int(cfg.d_model), int(cfg.n_heads)
    d_mlp = int(getattr(cfg, "d_mlp", None) or 4 * d_model)
    for alike in _neighbours(by_length) if unequal else by_length.values():
        longest = max(sequences[number].shape[1] for number in alike)
        # their cached layer and the model's own memory for it
        numbers_per_token = 4 * d_mlp + 16 * d_model + 2 * n_heads * longest
        fit = model.at_once(BATCH_BYTES, longest * numbers_per_token) if fitting is None else fitting(longest)
        at_once = fit if together else 1
        for start in range(0, len(alike), at_once):
            numbers = tuple(alike[start : start + at_once])
            batches.append(_lengthened(model, [sequences[number][0] for number in numbers], numbers))
    return batches


def _neighbours(by_length: Mapping[int, Sequence[int]]) -> Iterator[list[int]]:
    joined: list[int] = []
    longest = 0
    for length in sorted(by_length):
        if joined and (length > LONGEST_JOINED or len(joined) * (length - longest) > APPENDED):
            yield joined
            joined = []
        joined, longest = [*joined, *by_length[length]], length
    if joined:
        yield joined


def _lengthened(model: Model, sequences: Sequence[Int[Tensor, " _"]], numbers: tuple[int, ...]) -> Batch:
    """Sequences in one batch, each lengthened to the longest.

    In a causal model, earlier tokens do not attend to appended ones; in an encoder these are padding, under a mask.
    """
    lengths = tuple(len(tokens) for tokens in sequences)
    if len(set(lengths)) == 1:
        return Batch(torch.stack(list(sequences)), numbers=numbers)
    if model.family.causal:
        rows = [torch.cat([tokens, tokens[-1:].expand(max(lengths) - len(tokens))]) for tokens in sequences]
        return Batch(torch.stack(rows), numbers=numbers, lengths=lengths)
    return replace(padded(model, sequences), numbers=numbers, lengths=lengths)


def padded(model: Model, sequences: Sequence[Int[Tensor, " _"]]) -> Batch:
    """Sequences in one batch, in their order, with padding after shorter ones."""
    tokens = pad_sequence(list(sequences), batch_first=True, padding_value=padding_token(model))
    mask = pad_sequence([torch.ones_like(row, dtype=torch.bool) for row in sequences], batch_first=True)
    return Batch(tokens, None if bool(mask.all()) else mask, numbers=tuple(range(len(sequences))))


def one_sequence(model: Model, given: Any, name: str) -> Int[Tensor, " pos"]:
    """Token ids of one text or one tensor.

    Args:
        model: Model whose tokenizer reads a text.
        given: A text, or token ids: a list, or a tensor [pos] or [1, pos].
        name: The argument's name, for the error.

    Raises:
        InputError: for several texts, and for input that cannot be used.
    """
    refuse_pair(given, name)
    (batch,) = prepare(model, _one_prompt(given, name), None)
    return batch.tokens[0]


def refuse_unequal(model: Model, pair: Sequence[Int[Tensor, " _"]], given: Sequence[Any], which: str = "") -> None:
    """Refuse a clean and a corrupted prompt with different numbers of tokens, or a text with BOS beside ids without.

    Args:
        model: Model whose tokenizer names the tokens.
        pair: Token ids of both.
        given: The prompts as they were given.
        which: Number of the pair in a list, such as "[2]".

    Raises:
        InputError: with what differs, and what to pass.
    """
    tokenizer, names = tokenizer_of(model.hooked), (f"clean{which}", f"corrupted{which}")
    marks = () if tokenizer is None else (tokenizer.bos_token_id, tokenizer.cls_token_id)
    begins = [int(tokens[0]) in marks for tokens in pair]
    lengths = tuple(len(tokens) for tokens in pair)
    if len(set(begins)) > 1 and (len(set(lengths)) > 1 or sum(isinstance(one, str) for one in given) == 1):
        lacks, has = names if begins[1] else names[::-1]
        mark = label(model, pair[begins.index(True)][:1])[0]
        raise InputError(
            f"{lacks} has no BOS, and {has} begins with {mark!r}: expected both to begin alike, since positions are compared. Pass texts, "
            "or ids of model.to_tokens(text)."
        )
    if len(set(lengths)) > 1:
        raise InputError(
            f"{names[0]} has {lengths[0]} tokens, {names[1]} {lengths[1]}: expected equally many, since patching keeps positions. They "
            f"differ in {_alignment(*(label(model, tokens) for tokens in pair))}: use words of equally many tokens."
        )


def _alignment(clean: Sequence[str], corrupted: Sequence[str]) -> str:
    """Differences of two texts with different numbers of tokens, for an error: "[' Mary']@2 against [' Jon', 'athan']@2"."""
    spans = SequenceMatcher(None, clean, corrupted, autojunk=False).get_opcodes()
    apart = [f"{[*clean[a:b]]}@{a} against {[*corrupted[c:d]]}@{c}" for tag, a, b, c, d in spans if tag != "equal"]
    return brief(", ".join(apart), 400).strip('"')


def example_input(model: Model) -> str | Int[Tensor, " pos"]:
    """Input for tests of a model: a sentence, or random ids without a tokenizer."""
    if tokenizer_of(model.hooked) is not None:
        return EXAMPLE
    length = min(EXAMPLE_TOKENS, model.longest_input or EXAMPLE_TOKENS)
    vocabulary = int(getattr(model.hooked.cfg, "d_vocab", 0) or 0)
    low = 5 if vocabulary > 16 else 0  # the first ids are often special tokens
    return torch.randint(low, max(vocabulary, 16), (length,), generator=torch.Generator().manual_seed(0))


def is_single(given: object) -> bool:
    """Whether prompts of `read_prompts` are one, so that the call returns one result and not a list."""
    return isinstance(given, str) or (isinstance(given, Tensor) and given.ndim == 1)


def _kind(given: Any) -> str:
    if isinstance(given, list | tuple):
        kind = type(given).__name__
        return f"a {kind} of {type(given[0]).__name__}" if given else f"an empty {kind}"
    kind = "tensor" if isinstance(given, Tensor) else type(given).__name__
    shape = f" of shape {tuple(given.shape)}" if isinstance(given, Tensor | np.ndarray) else ""
    return "None" if given is None else f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}{shape}"


# Tokens and their texts


def tokenizer_of(hooked: Any) -> Any:
    """Tokenizer of a TransformerLens model; None if there is none, or only a stub with special tokens.

    Hugging Face creates such a stub for a folder without tokenizer files; it reads a text as `<bos> <unk>`, or as nothing.
    """
    tokenizer = getattr(hooked, "tokenizer", None)
    if tokenizer is None:
        return None
    special = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    return tokenizer if len(tokenizer) > len(special) else None


def label(model: Model, tokens: Int[Tensor, " pos"]) -> tuple[str, ...]:
    """Tokens as text. Without a tokenizer they are ids; ids outside the vocabulary are `token 57`."""
    texts = _texts(model, tokens)
    if not texts:
        return tuple(str(token) for token in tokens.tolist())
    return tuple(f"token {id}" if text is None else text for id, text in zip(tokens.tolist(), texts, strict=True))


def prompt_of(model: Model, sequence: RunSequence) -> str:
    """The prompt as it was before tokenisation; of token ids the text that all of them decode to together.

    A first [CLS] or start token is not in the text of ids, nor is an encoder's last [SEP]. Without a tokenizer, or with ids outside
    its vocabulary, the text is the labels, separated by spaces.
    """
    if sequence.given:
        return sequence.given
    texts, tokenizer = _texts(model, sequence.tokens), tokenizer_of(model.hooked)
    if not texts or None in texts:
        return " ".join(sequence.labels)
    ids = sequence.tokens.tolist()
    first = ids[0] in (tokenizer.bos_token_id, tokenizer.cls_token_id)
    last = not model.family.causal and ids[-1] in (tokenizer.sep_token_id, tokenizer.eos_token_id)
    return str(tokenizer.decode(ids[first : len(ids) - last], clean_up_tokenization_spaces=False))


def quoted(model: Model, tokens: Int[Tensor, " _"]) -> tuple[str, ...]:
    """Tokens in quotation marks, `' Mary'`; or `token 7` if the tokenizer does not know it."""
    texts = _texts(model, tokens) or [None] * len(tokens)
    return tuple(f"token {id}" if text is None else repr(text) for id, text in zip(tokens.tolist(), texts, strict=True))


def _texts(model: Any, tokens: Int[Tensor, " _"]) -> tuple[str | None, ...]:
    """Tokens as text, None for ids outside the vocabulary; empty if the tokenizer knows none, or without a tokenizer."""
    hooked = model.hooked if isinstance(model, Model) else model
    tokenizer = tokenizer_of(hooked)
    if tokenizer is None:
        return ()
    pieces = tokenizer.convert_ids_to_tokens(tokens.tolist())
    to_text = getattr(hooked, "to_str_tokens", None)  # not in HookedEncoder
    read = zip(pieces, pieces if to_text is None else to_text(tokens), strict=True)
    texts = tuple(None if piece is None else _spelled(piece, text) for piece, text in read)
    return texts if any(texts) else ()


def _spelled(piece: str, text: str) -> str:
    """A token's text from its piece of the vocabulary and its decoded text, from which decoders of Llama 2's kind strip a space."""
    if piece.startswith(SPACE_MARK) and SPACE_MARK not in text:
        return " " * (len(piece) - len(piece.lstrip(SPACE_MARK))) + text.lstrip(" ")
    byte = _BYTE.fullmatch(piece)
    if byte is None or text not in ("", piece):
        return text
    value = int(byte[1], 16)
    return chr(value) if value < 128 else "\N{REPLACEMENT CHARACTER}"


def _tokenised(model: Model, text: str) -> Int[Tensor, "1 pos"]:
    """Token ids of a text as the model's input, [1, pos]: its tokenizer's, between the special tokens of `_around`."""
    read, own, first, last = _read(model, text)
    return torch.tensor([[*first, *read["input_ids"][own], *last]], dtype=torch.long)


def _read(model: Model, text: str, **options: bool) -> tuple[Any, slice, list[int], list[int]]:
    """The one reading of a text: the tokenizer's output, where the text's own tokens are, special tokens before and after them.

    A text that begins with these special tokens, such as a rendered chat template, gets no second ones.

    Raises:
        InputError: if settings of TransformerLens do not describe the tokenizer.
    """
    tokenizer = required_tokenizer(model, text)
    read, (before, after) = tokenizer(text, **options), _added(tokenizer)
    own = slice(len(before), len(read["input_ids"]) - len(after))
    inner, (first, last) = list(read["input_ids"][own]), _around(model, before, after)
    first = [] if inner[: len(first)] == first else first
    return read, own, first, [] if inner[len(inner) - len(last) :] == last else last


def _added(tokenizer: Any) -> tuple[list[int], list[int]]:
    """Special tokens that a tokenizer adds before and after a text."""
    marked, bare = (list(tokenizer("a", add_special_tokens=added)["input_ids"]) for added in (True, False))
    before = next((at for at in range(len(marked)) if marked[at : at + len(bare)] == bare != []), len(marked))
    return marked[:before], marked[before + len(bare) :]


def _around(model: Model, before: list[int], after: list[int]) -> tuple[list[int], list[int]]:
    """Special tokens before and after a text in this model's input, from those that its tokenizer adds.

    An encoder has those of its tokenizer. A causal model has one BOS, also if its tokenizer adds none (GPT-2), unless
    `cfg.default_prepend_bos` is False: this is TransformerLens's documented switch for texts without BOS, and also overrules a
    tokenizer that adds one (Llama). It has no EOS that its tokenizer appends: nothing follows an end.

    Raises:
        InputError: if settings of TransformerLens do not describe the tokenizer.
    """
    tokenizer = model.hooked.tokenizer
    if not model.family.causal:
        if tokenizer.cls_token_id is None or tokenizer.cls_token_id in before:
            return before, after
        raise InputError(
            f"{model.name} is an encoder, and its tokenizer adds no {tokenizer.cls_token} before a text: expected the model's own "
            "tokenizer, model.tokenizer = transformers.AutoTokenizer.from_pretrained(...). Or pass token ids."
        )
    bos, wanted = tokenizer.bos_token_id, getattr(model.hooked.cfg, "default_prepend_bos", True)
    if bos not in before and (bos is None or len(tokens_of(model, tokenizer.bos_token)) != 1):
        bos = None  # such as "<|endoftext|>", which TransformerLens sets where there is none
    _refuse_other_settings(model, before, after, None if wanted and bos is None else "tokenizer_prepends_bos")
    missing = [bos] if wanted and bos is not None and bos not in before else []
    kept = [token for token in before if wanted or token != bos]
    return kept + missing, [token for token in after if token != tokenizer.eos_token_id]


def _refuse_other_settings(model: Model, before: list[int], after: list[int], begin: str | None) -> None:
    """Refuse settings of TransformerLens that differ from what the tokenizer adds, as after `model.tokenizer = ...`.

    With them TransformerLens loses the BOS or the first word.

    Raises:
        InputError: with the setting and its value.
    """
    tokenizer, cfg = model.hooked.tokenizer, model.hooked.cfg
    adds = {
        begin: before[:1] in ([tokenizer.bos_token_id], [tokenizer.cls_token_id]),
        "tokenizer_appends_eos": after[-1:] == [tokenizer.eos_token_id],
    }
    for name, truth in adds.items():
        if name is not None and bool(getattr(cfg, name, truth)) is not truth:
            raise InputError(
                f"{model.name}: model.cfg.{name} is {not truth}, but its tokenizer {'does' if truth else 'does not'}: TransformerLens "
                f"would read texts wrongly. Was the tokenizer set after the model was made? Set model.cfg.{name} = {truth}, or make the "
                "model with tokenizer=..., as build_bridge_from_module takes it."
            )


def first_tokens(read: Callable[[Any, str], list[int]], model: Model, *texts: str) -> tuple[int, ...] | None:
    """First token of each text, read by `tokens_of` or `continued_tokens`.

    None without a tokenizer, if two are equal, or if one has no text or is unknown.
    """
    tokenizer = tokenizer_of(model.hooked)
    first = [] if tokenizer is None else [read(model, text)[:1] for text in texts]
    if not first or not all(first) or len({token for (token,) in first}) < len(first):
        return None
    known = all(token != tokenizer.unk_token_id and tokenizer.decode([token]).strip() for (token,) in first)
    return tuple(token for (token,) in first) if known else None


def tokens_of(model: Any, text: str) -> list[int]:
    """Token ids of a word or text, without special tokens; for a `Model` or a TransformerLens model.

    Some tokenizers put a space before a text (Llama 2): there `"Mary"` and `" Mary"` are the same token.

    Raises:
        InputError: if there is no tokenizer.
    """
    tokenizer = required_tokenizer(model, text)
    given = text[1:] if text[:1] == " " and text[1:] and _puts_a_space(tokenizer) else text
    return list(tokenizer(given, add_special_tokens=False)["input_ids"])


def continued_tokens(model: Any, text: str) -> list[int]:
    """Token ids of a text that continues another, without the space that some tokenizers put before a text.

    Raises:
        InputError: if there is no tokenizer.
    """
    line = tokens_of(model, "\n")
    both = tokens_of(model, f"\n{text}")
    inside = _puts_a_space(required_tokenizer(model, text)) and both[: len(line)] == line
    return both[len(line) :] if inside else tokens_of(model, text)


def _puts_a_space(tokenizer: Any) -> bool:
    """Whether a tokenizer puts a space before a text, as those of Llama 2 and Mistral 7B do."""
    first = tokenizer.convert_ids_to_tokens(tokenizer("a", add_special_tokens=False)["input_ids"][:1])
    return bool(first) and str(first[0]).startswith((SPACE_MARK, "Ġ"))


def single_token(model: Any, word: str | int) -> int:
    """Id of a text that is one token, without special tokens; an id is returned unchanged.

    Raises:
        InputError: if there is no tokenizer, or the text is not one token.
    """
    if not isinstance(word, str):
        return whole_number(word, "token")
    ids, tokenizer = tokens_of(model, word), required_tokenizer(model, word)
    if len(ids) != 1:
        pieces = ", ".join(map(repr, _texts(model, torch.tensor(ids)))) if ids else "none"
        raise InputError(
            f"{word!r} is {len(ids)} tokens: {pieces}. Expected one token: use one of "
            "them, a word that is one (a leading space matters), or a token id."
        )
    if ids[0] == tokenizer.unk_token_id and word != tokenizer.unk_token:
        raise InputError(
            f"{word!r} is not a token of the vocabulary: the tokenizer reads it as {tokenizer.unk_token!r}, like all unknown "
            "words. Expected a word of the vocabulary (case and a leading space matter), or a token id."
        )
    return int(ids[0])


@dataclass(frozen=True)
class SpecialTokens:
    """Special tokens of a vocabulary."""

    mask: int | None
    """The mask token; None if there is none."""
    mask_text: str
    marks: tuple[int, ...]
    """All special tokens except the unknown token, which stands for text."""


def special_tokens(model: Model) -> SpecialTokens:
    """Special tokens of a model's tokenizer.

    Raises:
        InputError: if it has no tokenizer.
    """
    tokenizer = required_tokenizer(model)
    marks = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    return SpecialTokens(tokenizer.mask_token_id, str(tokenizer.mask_token), tuple(sorted(marks)))


def special_ids(model: Model) -> tuple[int, ...]:
    """Ids of special tokens; empty without a tokenizer."""
    return () if tokenizer_of(model.hooked) is None else special_tokens(model).marks


def ordinary_ids(model: Model) -> Int[Tensor, " token"]:
    """Ids of tokens that are not special; without a tokenizer those that do not pad."""
    tokenizer, size = tokenizer_of(model.hooked), int(model.hooked.cfg.d_vocab)
    ids = torch.arange(size if tokenizer is None else min(size, len(tokenizer)))
    special = tuple(_pad_tokens(model)) if tokenizer is None else tokenizer.all_special_ids
    return ids[~torch.isin(ids, torch.tensor(special, dtype=torch.long))]


def marks_around(model: Model) -> tuple[Int[Tensor, " first"], Int[Tensor, " last"]]:
    """Special tokens before and after a text in this model's input; empty without a tokenizer."""
    tokenizer = tokenizer_of(model.hooked)
    marks = ([], []) if tokenizer is None else _around(model, *_added(tokenizer))
    first, last = (torch.tensor(some, dtype=torch.long) for some in marks)
    return first, last


def padding_token(model: Model) -> int:
    """Id for padding; any id will do, since the mask hides it."""
    return getattr(tokenizer_of(model.hooked), "pad_token_id", None) or 0


def token_spans(model: Model, text: str) -> tuple[Int[np.ndarray, " token"], list[tuple[int, int]]]:
    """Token ids of a text, and the characters of each; (0, 0) for special tokens before it.

    Raises:
        InputError: if there is no tokenizer, or one without character offsets.
    """
    tokenizer = required_tokenizer(model, text)
    if not tokenizer.is_fast:
        raise InputError(f"{model.name}: its tokenizer has no character offsets. Use a fast tokenizer.")
    read, own, first, last = _read(model, text, return_offsets_mapping=True)
    spans = [(0, 0)] * len(first)
    for start, end in read["offset_mapping"][own]:  # without the white space that byte-level tokens include
        piece = text[start:end]
        if piece.strip():
            start, end = start + len(piece) - len(piece.lstrip()), end - (len(piece) - len(piece.rstrip()))
        spans.append((start, end))
    return np.array([*first, *read["input_ids"][own], *last]), spans + [(0, 0)] * len(last)


def required_tokenizer(model: Any, text: str = "") -> Any:
    """Tokenizer of a `Model` or a TransformerLens model, for reading a text."""
    name, hooked = (model.name, model.hooked) if isinstance(model, Model) else ("the model", model)
    tokenizer = tokenizer_of(hooked)
    if tokenizer is None:
        read = brief(text) if text else "texts"
        known = " but one of special tokens, as is made for a folder without a tokenizer's files"
        empty = "" if getattr(hooked, "tokenizer", None) is None else known
        raise InputError(
            f"{name} has no tokenizer to read {read}{empty}: pass token ids instead, or make the model with tokenizer=...."
        )
    return tokenizer


def _from_text(model: Model, text: str) -> Int[Tensor, "1 pos"]:
    if not text.strip():
        raise InputError("input is an empty text: expected at least one word.")
    required_tokenizer(model, text)
    tokens = _tokenised(model, text)
    if not tokens.numel():
        raise InputError(
            f"the tokenizer of {model.name} gives no tokens for {brief(text)}: use another text, or token ids."
        )
    return _checked(model, tokens)


# Tensors of token ids, masks and segments


def _from_tensor(model: Model, tokens: Tensor, attention_mask: Tensor | None) -> Batch:
    if tokens.ndim not in (1, 2) or tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise InputError(
            f"input is a tensor of shape {tuple(tokens.shape)} and dtype {tokens.dtype}; expected integer token ids, "
            "[pos] or [batch, pos]."
        )
    if tokens.numel() == 0:
        raise InputError(f"input has no tokens: expected at least one (its shape is {tuple(tokens.shape)}).")
    rows = tokens.detach().cpu().long().reshape(-1, tokens.shape[-1]).clone()
    mask = None
    if attention_mask is not None:
        mask = _values_below("attention_mask", attention_mask, rows, 2, tokens.shape).bool()
        _refuse_masks(model, mask)
    else:
        _refuse_padding(model, list(rows))
    return Batch(_checked(model, rows), None if mask is None or mask.all() else mask, numbers=tuple(range(len(rows))))


def _values_below(
    name: str, given: Any, tokens: Int[Tensor, "batch pos"], count: int, shape: Sequence[int]
) -> Int[Tensor, "batch pos"]:
    expected = "zeros and ones" if name == "attention_mask" else f"0 to {count - 1}"
    try:
        held = torch.as_tensor(given.tolist() if hasattr(given, "tolist") else given).cpu()
    except (TypeError, ValueError, RuntimeError):
        held = torch.zeros(())
    if held.ndim == 0 or held.numel() == 0:
        raise InputError(f"{name}={brief(given)}: expected a tensor of {expected}, one for each token.")
    values = (held.long() if held.dtype == torch.bool else held).reshape(-1, held.shape[-1])
    if values.shape != tokens.shape or not torch.isin(values, torch.arange(count).to(values.dtype)).all():
        raise InputError(
            f"{name} has shape {tuple(held.shape)} and values {sorted(set(values.flatten().tolist()))[:5]}; expected {expected} of "
            f"the input's shape {tuple(shape)}."
        )
    return values.long()


def _refuse_masks(model: Model, mask: Bool[Tensor, "batch pos"]) -> None:
    """Refuse masks that are not padding, and padding that TransformerLens does not hide."""
    if not mask.any(dim=1).all():
        raise InputError(
            f"attention_mask hides every token of sequence {int((~mask.any(dim=1)).nonzero()[0])}: omit the sequence."
        )
    before = torch.nn.functional.pad(mask, (1, 0))[:, :-1]
    starts = (mask & ~before).sum(dim=1)
    if (starts > 1).any():
        index = int((starts > 1).nonzero()[0])
        holes = (~mask[index]).nonzero()[:, 0].tolist()
        raise InputError(
            f"attention_mask of sequence {index} hides tokens between others (zeros at positions {holes[:8]}); expected padding "
            "before or after one run of ones. TransformerLens would renumber the remaining positions, Hugging Face "
            "would not. Omit those tokens, or use ffb.attention_knockout."
        )
    if model.family.name == "GPT" and not mask.all():
        raise InputError(
            "attention_mask: with padding, TransformerLens's GPT-1 attends to later tokens, so that results differ from those of "
            "each sequence alone. Pass the sequences one by one, without padding."
        )
    original = getattr(model.hooked, "original_model", None)
    tuned = getattr(getattr(original, "config", None), "attn_temperature_tuning", False)
    if model.family.name == "Llama-4" and tuned and not mask[:, 0].all():
        raise InputError(
            "attention_mask: Llama-4's attention temperature counts padding before a sequence as tokens, so that results differ from "
            "those of the sequence alone. Put padding after the sequences, or pass a list of ids."
        )


def _with_types(model: Model, batch: Batch, token_type_ids: Tensor) -> Batch:
    config = getattr(getattr(model.hooked, "original_model", None), "config", None)
    count = 2 if model.api == "HookedEncoder" else getattr(config, "type_vocab_size", None)
    if model.family.order != "post_ln" or model.family.causal or count is None:
        raise InputError(f"token_type_ids: {model.name} ({model.family.name}) has no token types. Omit them.")
    if isinstance(token_type_ids, Tensor) and (
        token_type_ids.is_floating_point() or token_type_ids.dtype == torch.bool
    ):
        raise InputError(f"token_type_ids has dtype {token_type_ids.dtype}; expected integers of the input's shape.")
    return replace(
        batch, token_types=_values_below("token_type_ids", token_type_ids, batch.tokens, count, batch.tokens.shape)
    )


def _checked(model: Model, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
    n_ctx, d_vocab = model.longest_input, getattr(model.hooked.cfg, "d_vocab", None)
    if n_ctx and tokens.shape[1] > n_ctx:
        raise InputError(
            f"input has {tokens.shape[1]} tokens, {model.name} reads at most {n_ctx}: shorten or split it."
        )
    low, high = int(tokens.min()), int(tokens.max())
    if low < 0 or (d_vocab is not None and 0 < d_vocab <= high):
        raise InputError(
            f"input has token id {low if low < 0 else high}: expected ids 0 to {(d_vocab or 0) - 1} of {model.name}."
        )
    return tokens


def forward(model: Model, batch: Batch, *, gradients: bool = False) -> Any:
    """One forward pass; returns the model's output, usually logits."""
    name = "one_zero_attention_mask" if model.api == "HookedEncoder" else "attention_mask"
    options = {} if batch.mask is None else {name: batch.mask.to(model.device).long()}
    if batch.token_types is not None:
        options["token_type_ids"] = batch.token_types.to(model.device)
    options |= {name: tensor.to(model.device) for name, tensor in batch.media.items()}
    model.forget_lengths()
    with torch.set_grad_enabled(gradients), model.with_gradients() if gradients else nullcontext():
        try:
            return model.hooked(batch.tokens.to(model.device, non_blocking=True), **options)
        finally:
            for block in model.hooked.blocks:
                drop_graph(block)


@contextmanager
def memory_given_back(model: Model, batches: Iterable[Batch]) -> Iterator[None]:
    """Context that returns freed memory to the system many times per second, for long batches on a CPU.

    glibc keeps freed blocks below 32 MB, and cannot reuse the gap of an aligned block for one of the same size. Resident memory for a
    long text was twice the size of its tensors.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None  # only in glibc
    if (
        trim is None
        or model.device.type != "cpu"
        or max((batch.tokens.numel() for batch in batches), default=0) < MANY_TOKENS
    ):
        yield
        return
    done = threading.Event()

    def watch() -> None:
        while not done.wait(SECONDS_BETWEEN_TRIMS):
            trim(0)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def drop_graph(block: Any) -> None:
    """Delete a pattern, and tensors with gradients, that a layer's attention keeps after a forward pass.

    TransformerLens 4.3 keeps `_pattern` and `_captured_pre_ln_residual` until the next one: patterns of all layers would stay in
    memory, and `copy.deepcopy(model)` refuses tensors with a graph.
    """
    kept = vars(getattr(block, "attn", block))
    tensors = {name: value for name, value in kept.items() if isinstance(value, Tensor)}
    for name in [name for name, value in tensors.items() if name == "_pattern" or value.grad_fn is not None]:
        kept[name] = None
