"""Images and sounds beside a text: tensors of a processor's output, their tokens, and which of these attend to later ones.

    inputs = processor(images=image, text="<image> What is this?", return_tensors="pt")
    maps = ffb.contribution_maps(model, inputs)[0]

A vision-language model replaces the embeddings of placeholder tokens by outputs of its encoder. From there on its layers are those of
a decoder, with image tokens as source tokens. The encoder's own layers are not decomposed.
"""

# Noun: multimodal inputs (TransformerLens, `prepare_multimodal_inputs`)
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.bridge.attention import shown
from tl_ffblock.bridge.callbacks import Change, LastCallback
from tl_ffblock.bridge.hugging_face import difference_from_hugging_face
from tl_ffblock.bridge.inputs import Batch, forward
from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import FFBlockError, InputError, UnsupportedModelError, brief

KINDS = ("image", "video", "audio")
_FEATURES = re.compile("pixel_values|input_features|input_values|audio_values")
"""Names of the tensors that hold images and sounds; others of a processor's output describe them."""
_TEXT = {"input_ids", "attention_mask", "position_ids", "inputs_embeds", "labels", "logits_to_keep", "past_key_values"}
"""Arguments of a model's forward function that are not of an image or sound."""


def split_media(model: Model, given: Any, *, read: bool) -> tuple[Any, dict[str, Tensor]]:
    """An input's text, and tensors of its image or sound, as the model's forward function takes them; none for text alone.

    Args:
        model: The model.
        given: A processor's output with an image or sound, or any other input, which is returned unchanged.
        read: Whether the call takes images and sounds.

    Raises:
        InputError: for a call or a model of text, tensors that the model does not take, and several or padded prompts.
    """
    if not isinstance(given, Mapping) or not any(_FEATURES.match(str(name)) for name in given):
        return given, {}
    shown = ", ".join(name for name in given if _FEATURES.match(name))
    wrapped = getattr(model.hooked, "original_model", None)
    taken = set(inspect.signature(wrapped.forward).parameters) - _TEXT if wrapped is not None else set()
    if not bool(getattr(model.hooked.cfg, "is_multimodal", False)) or not any(_FEATURES.match(name) for name in taken):
        raise InputError(
            f"input has {shown}, but {model.name} ({model.family.name}) reads text: expected texts or token ids."
        )
    if not read:
        raise InputError(
            f"input has {shown}: this call runs the prompt with other tokens or several times, and reads text alone. With an image or "
            "sound use ffb.contribution_maps, attention_maps, decompose, attribute or logit_lens."
        )
    if unknown := [name for name in given if _FEATURES.match(name) and name not in taken]:
        raise InputError(
            f"input has {', '.join(unknown)}, which {model.name} does not take: expected the output of its own processor."
        )
    ids, mask = given.get("input_ids"), given.get("attention_mask")
    if not isinstance(ids, Tensor) or ids.ndim != 2 or len(ids) != 1 or (mask is not None and not bool(mask.all())):
        raise InputError(
            f"input has {shown}, and input_ids are {brief(ids)}: expected one prompt without padding, input_ids [1, pos]. Call the "
            'processor with one prompt and return_tensors="pt", and this function once per prompt.'
        )
    return ids, {name: _as_tensor(model, name, values) for name, values in given.items() if name in taken}


def _as_tensor(model: Model, name: str, values: Any) -> Tensor:
    try:
        held = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f'{name} of the processor\'s output is {brief(values)}: expected a tensor, as with return_tensors="pt".'
        ) from None
    return held.to(model.parameter.dtype) if held.is_floating_point() else held


def with_media(model: Model, batches: list[Batch], media: Mapping[str, Tensor]) -> tuple[Model, list[Batch]]:
    """The model as it attends in this input, and its batch with its image or sound; both unchanged without one.

    Image tokens of some models attend to later ones of their image (Gemma-3); then the model is not causal.

    Raises:
        InputError: if the text has no placeholders, or the model does not run with this input.
        UnsupportedModelError: if the bridge's logits are not those of the Hugging Face model that it wraps.
    """
    if not media:
        return model, batches
    batch = replace(batches[0], media=media)
    if not bool(media_positions(model, batch).any()):
        known = ", ".join(f"{kind} token {id}" for kind, id in _placeholders(model).items()) or "none"
        raise InputError(
            f"input has {', '.join(media)}, but its text has no placeholder of it ({known}): write the placeholder in the text, as in "
            "the output of processor.apply_chat_template."
        )
    try:
        seen = _Seen.of(model, batch)
    except FFBlockError:
        raise
    except (ValueError, RuntimeError, IndexError) as error:
        raise InputError(
            f"{model.name} does not run with this image or sound: {str(error).rstrip('.')}. Expected the output of its own processor."
        ) from error
    if frozenset(media) not in model.memory.media:
        inputs = {name: tensor.to(model.device) for name, tensor in media.items()}
        difference_from_hugging_face(model.hooked, model.name, batch.tokens.to(model.device), inputs)
        model.memory.media.add(frozenset(media))
    family = replace(model.family, causal=model.family.causal and not seen.attends_to_later)
    return replace(model, family=family, added=seen.added), [batch]


@dataclass
class _Seen:
    """What a forward pass with an image or sound shows, without callbacks of the user."""

    attends_to_later: bool = False
    """Whether a token attends to a later one in some layer."""
    added: dict[int, Float[Tensor, "batch pos d_model"]] = field(default_factory=dict)
    """What the model adds after a layer, before the next."""

    @classmethod
    @torch.no_grad()
    def of(cls, model: Model, batch: Batch) -> "_Seen":
        seen, left, embedded = cls(), dict[int, Tensor](), list[None]()

        def attend(pattern: Tensor) -> None:
            seen.attends_to_later |= bool(pattern.triu(1).any())

        def enter(number: int, x: Tensor) -> None:
            before = left.pop(number - 1, x)
            if not torch.equal(before, x):
                seen.added[number - 1] = x - before

        with model.hooks_disabled(), shown(model, pattern=True), ExitStack() as stack:
            stack.callback(model.hooked.embed.register_forward_pre_hook(lambda *_: embedded.append(None)).remove)
            for layer in model.layers:
                reads: list[tuple[str, Change]] = [
                    (layer.sites["resid_pre"], partial(enter, layer.number)),
                    (layer.output_name, partial(left.__setitem__, layer.number)),
                ]
                for name, read in [*reads, *([] if layer.is_recurrent else [(layer.sites["pattern"], attend)])]:
                    stack.callback(LastCallback(model.hook_point(name), read).remove)
            forward(model, batch)
        if len(embedded) > 1:
            raise UnsupportedModelError(
                f"{model.name} reads an image as tokens of its vocabulary, which it embeds in a second call, so their HookPoints fire "
                "twice. Replace the placeholders in input_ids by these tokens (Emu3: "
                "model.original_model.model.get_image_tokens(pixel_values, image_sizes)), and pass the ids alone."
            )
        return seen


def _config(model: Model) -> Any:
    """Configuration of the model that a bridge wraps."""
    return getattr(getattr(model.hooked, "original_model", None), "config", None)


def _placeholders(model: Model) -> dict[str, int]:
    """Ids of the tokens whose embeddings are replaced, by kind."""
    config = _config(model)
    ids = {kind: getattr(config, f"{kind}_token_id", getattr(config, f"{kind}_token_index", None)) for kind in KINDS}
    return {kind: int(id) for kind, id in ids.items() if id is not None}


def media_positions(model: Model, batch: Batch) -> Bool[Tensor, "batch pos"]:
    """Where the embeddings of tokens are replaced by those of an image or sound."""
    ids = list(_placeholders(model).values()) if batch.media else []
    return torch.isin(batch.tokens, torch.tensor(ids, dtype=batch.tokens.dtype))


def with_media_labels(model: Model, batch: Batch, labels: tuple[str, ...]) -> tuple[str, ...]:
    """Labels of a sequence with those of its image tokens: "image 3,5" is row 3 and column 5 of the image's tokens, from 0.

    Tokens without a known grid have their number, "image 17". The second of several images is "image 2: 3,5".
    """
    if not batch.media:
        return labels
    named = list(labels)
    for kind, id in _placeholders(model).items():
        where: list[int] = (batch.tokens[0] == id).nonzero()[:, 0].tolist()
        for position, text in zip(where, _names(model, batch, kind, where), strict=True):
            named[position] = text
    return tuple(named)


def _names(model: Model, batch: Batch, kind: str, where: Sequence[int]) -> Iterator[str]:
    grids = _grids(model, batch, kind, where)
    for number, (frames, rows, columns) in enumerate(grids, 1):
        of_image = f"{kind} {number}:" if len(grids) > 1 else kind
        for frame in range(frames):
            of_frame = f"{of_image} frame {frame}:" if frames > 1 else of_image
            for place in range(max(rows, 1) * columns):
                yield f"{of_frame} {f'{place // columns},' if rows else ''}{place % columns}"


def _grids(model: Model, batch: Batch, kind: str, where: Sequence[int]) -> list[tuple[int, int, int]]:
    """Frames, rows and columns of each image's tokens; no rows, and the number of tokens as columns, if they are not known."""
    config, known = _config(model), list[tuple[int, int, int]]()
    vision: Any = getattr(config, "vision_config", None)
    if f"{kind}_grid_thw" in batch.media:  # Qwen-VL, GLM-4V
        merged = getattr(vision, "spatial_merge_size", getattr(vision, "merge_size", 1))
        known = [(t, h // merged, w // merged) for t, h, w in batch.media[f"{kind}_grid_thw"].tolist()]
    elif kind == "image" and getattr(vision, "model_type", "") == "pixtral" and "image_sizes" in batch.media:
        step = vision.patch_size * getattr(config, "spatial_merge_size", 1)
        known = [(1, h // step, w // step) for h, w in batch.media["image_sizes"].tolist()]
    if known and sum(t * h * w for t, h, w in known) == len(where):
        return known
    starts = [0, *(i for i, (a, b) in enumerate(pairwise(where), 1) if b != a + 1), len(where)]
    lengths = [end - start for start, end in pairwise(starts)] if where else []
    # Llava, Gemma-3, Idefics-3 and Llama-4 have one square per run of image tokens; others insert rows or ends.
    square = kind == "image" and "image_sizes" not in batch.media and not known
    sides = [round(n**0.5) if square else 0 for n in lengths]
    return [(1, side, side) if side * side == n else (1, 0, n) for side, n in zip(sides, lengths, strict=True)]
