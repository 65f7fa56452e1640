"""Conversations as token ids, by the chat template of a model's tokenizer, with the positions of every message."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from jinja2 import TemplateError
from torch import Tensor

from tl_ffblock.bridge.inputs import required_tokenizer
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.errors import InputError, brief
from tl_ffblock.signatures import strict

TEMPLATE = "template"
"""Name of the positions that are in no message."""
_PLACE = "\N{OBJECT REPLACEMENT CHARACTER}%d\N{OBJECT REPLACEMENT CHARACTER}"
"""Text in the place of a message's content."""
_PLACES = re.compile("\N{OBJECT REPLACEMENT CHARACTER}[0-9]+\N{OBJECT REPLACEMENT CHARACTER}")


class Chat(NamedTuple):
    """Token ids of a conversation, and positions of its messages by name: "system", "user 1", "assistant 1", ..., "template"."""

    tokens: Int[Tensor, "1 pos"]
    spans: dict[str, list[int]]
    """All positions of each message's content, for `group_tokens` and `attention_knockout`; "template" has all others."""
    ends: dict[str, int]
    """Last position of each message's content, and of the conversation ("template"), for calls with named positions."""


@strict
def chat(model: Any, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> Chat:
    """Token ids [1, pos] of a conversation, and the positions of its messages by name.

    The ids are those of the tokenizer's `apply_chat_template`: the template writes all special tokens, and no BOS is added.

    Args:
        model: A model whose tokenizer has a chat template.
        messages: `[{"role": "user", "content": "What is the capital of France?"}, ...]`, each content a text.
        add_generation_prompt: Whether the beginning of the assistant's answer follows the messages.

    Returns:
        A `Chat` with `tokens`, `spans` and `ends`.

    Raises:
        InputError: if there is no chat template, the template refuses the messages, or does not have each content once and
            unchanged (surrounding white space apart), or a token has characters of both the template and a content.
        ModuleNotFoundError: if Jinja2 is missing or too old.
    """
    known = identify(model)
    tokenizer = required_tokenizer(known)
    if not getattr(tokenizer, "chat_template", None):
        raise InputError(
            f"{known.name} has no chat template: use an instruction-tuned model, or set model.tokenizer.chat_template."
        )
    if not tokenizer.is_fast:
        raise InputError(f"{known.name}: its tokenizer has no character offsets. Use a fast tokenizer.")
    names = _names(messages)
    text = _rendered(known, tokenizer, messages, add_generation_prompt)
    frame = [{**message, "content": _PLACE % number} for number, message in enumerate(messages)]
    inside = _places(text, _rendered(known, tokenizer, frame, add_generation_prompt), names, messages)
    read = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    owners = [_owner(text, span, inside) for span in read["offset_mapping"]]
    spans = {name: [at for at, owner in enumerate(owners) if owner == number] for number, name in enumerate(names)}
    template = [at for at, owner in enumerate(owners) if owner is None]
    ends = {name: places[-1] for name, places in spans.items()} | {TEMPLATE: len(owners) - 1}
    return Chat(torch.tensor([read["input_ids"]]), spans | {TEMPLATE: template}, ends)


def _names(messages: Sequence[Mapping[str, str]]) -> list[str]:
    """Names of messages: their roles with numbers; a single system message has none."""
    for number, message in enumerate(messages):
        content = message.get("content") if isinstance(message, Mapping) else None
        if not isinstance(content, str) or not content.strip() or not isinstance(message.get("role"), str):
            raise InputError(
                f'messages[{number}]={brief(message)}: expected {{"role": "user", "content": "..."}}, with a text as content.'
            )
    if not messages:
        raise InputError("messages has no message: expected at least one.")
    roles, seen = Counter(message["role"] for message in messages), Counter[str]()
    names = []
    for message in messages:
        role = message["role"]
        seen[role] += 1
        names.append(role if role == "system" and roles[role] == 1 else f"{role} {seen[role]}")
    return names


def _rendered(model: Model, tokenizer: Any, messages: Sequence[Mapping[str, str]], generation: bool) -> str:
    """The conversation as text."""
    given = [dict(message) for message in messages]
    try:
        text = tokenizer.apply_chat_template(given, tokenize=False, add_generation_prompt=generation)
    except ImportError as error:
        raise ModuleNotFoundError("chat templates need Jinja2 3.1 or later: pip install -U jinja2") from error
    except TemplateError as error:
        raise InputError(f"messages: the chat template of {model.name} refuses them: {error}.") from error
    return str(text)


def _places(
    text: str, frame: str, names: Sequence[str], messages: Sequence[Mapping[str, str]]
) -> list[tuple[int, int]]:
    """First and last character + 1 of each content in the rendered text.

    The template is rendered with other contents, too, so that a content that is also in the template, or in another message, is
    not taken for it.
    """
    first, *literals = re.split("|".join(_PLACE % number for number in range(len(names))), frame)
    if _PLACES.findall(frame) != [_PLACE % number for number in range(len(names))] or not text.startswith(first):
        raise _unplaced(names[0], messages[0]["content"])
    found, begin = [], len(first)
    for name, message, literal in zip(names, messages, literals, strict=True):
        contents = (message["content"], message["content"].strip())
        content = next((one for one in contents if text.startswith(one + literal, begin)), None)
        if content is None:
            raise _unplaced(name, message["content"])
        found.append((begin, begin + len(content)))
        begin += len(content) + len(literal)
    if begin != len(text):
        raise _unplaced(names[-1], messages[-1]["content"])
    return found


def _unplaced(name: str, content: str) -> InputError:
    return InputError(
        f"{name}: the chat template does not have {brief(content)} once and unchanged, so that its positions are not known. "
        "For token ids alone, pass model.tokenizer.apply_chat_template(messages)."
    )


def _owner(text: str, span: tuple[int, int], inside: Sequence[tuple[int, int]]) -> int | None:
    """Number of the message that has a token's characters, white space apart; None for the template.

    Raises:
        InputError: if only some of them are a message's.
    """
    start, end = span
    characters = [at for at in range(start, end) if not text[at].isspace()] or list(range(start, end))
    blank = text[start:end].isspace()
    for number, (first, last) in enumerate(inside):
        held = [first <= at < last for at in characters]
        if held and all(held):
            return number
        if any(held) and not blank:
            raise InputError(
                f"the token {text[start:end]!r} is partly of a message and partly of the chat template: its positions are not known. "
                "Begin and end the content with white space or other characters."
            )
    return None
