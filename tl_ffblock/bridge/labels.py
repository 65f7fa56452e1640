"""Labels of tokens, with the bytes of characters that are several tokens."""

import re

from jaxtyping import Int
from torch import Tensor

from tl_ffblock.bridge import inputs
from tl_ffblock.bridge.model import Model
from tl_ffblock.numerals import bytes_as_text

_UNKNOWN = "\ufffd"
"""Character that tokenizers write for the bytes of an incomplete one."""
_PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
# Radford et al. 2019, encoder.py: byte-level BPE writes printed bytes as themselves, the n-th of the others as character 256 + n.
_BYTE_OF = {chr(byte): byte for byte in _PRINTED}
_BYTE_OF |= {chr(256 + n): byte for n, byte in enumerate(byte for byte in range(256) if byte not in _PRINTED)}


def label(model: Model, tokens: Int[Tensor, " pos"]) -> tuple[str, ...]:
    """Tokens as text, ids without a tokenizer. Bytes of incomplete characters are written as in SentencePiece, `<0xC3>`."""
    texts, tokenizer = inputs.label(model, tokens), inputs.tokenizer_of(model.hooked)
    if tokenizer is None or not any(_UNKNOWN in text for text in texts):
        return texts
    pieces = tokenizer.convert_ids_to_tokens(tokens.tolist())
    return tuple(_with_bytes(piece or "", text) for piece, text in zip(pieces, texts, strict=True))


def _with_bytes(piece: str, text: str) -> str:
    """A token's text with bytes instead of unknown characters, if its piece tells them."""
    if _UNKNOWN not in text:
        return text
    if re.fullmatch("<0x[0-9A-F]{2}>", piece):
        return piece
    return bytes_as_text(bytes(_BYTE_OF[char] for char in piece)) if piece and _BYTE_OF.keys() >= {*piece} else text
