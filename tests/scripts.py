"""Texts of many scripts with their words, and tokenizers that split characters."""

from collections.abc import Callable
from typing import Any

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

# fmt: off
WORDS: dict[str, tuple[str, ...]] = {
    # Latin, Greek, Cyrillic
    "Die Übergröße der Straßenbahn": ("Die", "Übergröße", "der", "Straßenbahn"),
    "cafe\u0301 nai\u0308ve": ("cafe\u0301", "nai\u0308ve"),  # NFD
    "Người Việt nói tiếng Việt": ("Người", "Việt", "nói", "tiếng", "Việt"),
    "İstanbul ılık": ("İstanbul", "ılık"),
    "Zusammen\u00adarbeit": ("Zusammen\u00adarbeit",),  # soft hyphen
    "Ὀδυσσεύς σοφός": ("Ὀδυσσεύς", "σοφός"),
    "Её ёж": ("Её", "ёж"),
    # Right to left
    "كِتَابٌ جَدِيدٌ": ("كِتَابٌ", "جَدِيدٌ"),  # harakat
    "שָׁלוֹם עוֹלָם": ("שָׁלוֹם", "עוֹלָם"),  # niqqud
    'צה"ל': ('צה"ל',),
    "نمی\u200cخواهم بروم": ("نمی\u200cخواهم", "بروم"),  # zero-width non-joiner
    # Scripts of India
    "The word नमस्ते means hello": ("The", "word", "नमस्ते", "means", "hello"),
    "क्षत्रिय स्त्री।": ("क्षत्रिय", "स्त्री", "।"),
    "র\u200d্যাব বিশ্ববিদ্যালয়": ("র\u200d্যাব", "বিশ্ববিদ্যালয়"),
    "தமிழ் மொழி": ("தமிழ்", "மொழி"),
    "తెలుగు ಕನ್ನಡ മലയാളം": ("తెలుగు", "ಕನ್ನಡ", "മലയാളം"),
    "ශ්\u200dරී ලංකා": ("ශ්\u200dරී", "ලංකා"),
    # Without spaces between words
    "ผมรักแมว 2 ตัว": ("ผมรักแมว", "2", "ตัว"),
    "ใช้iPhoneครับ": ("ใช้", "iPhone", "ครับ"),
    "ສະບາຍດີ": ("ສະບາຍດີ",),
    "ខ្ញុំស្រលាញ់\u200bភាសាខ្មែរ": ("ខ្ញុំស្រលាញ់", "\u200b", "ភាសាខ្មែរ"),  # zero-width space
    "မြန်မာဘာသာ။": ("မြန်မာဘာသာ", "။"),
    "我爱猫。": ("我", "爱", "猫", "。"),
    "カタカナとひら漢字": ("カタカナ", "と", "ひ", "ら", "漢", "字"),
    # Other scripts
    "한국어 입니다": ("한국어", "입니다"),
    "\u1112\u1161\u11ab\u1100\u116e\u11a8 \u1106\u1161\u11af": ("\u1112\u1161\u11ab\u1100\u116e\u11a8", "\u1106\u1161\u11af"),  # jamo
    "ሰላም፡ዓለም": ("ሰላም", "፡", "ዓለም"),
    "བོད་ཡིག": ("བོད", "་", "ཡིག"),
    "ꦲꦏ꧀ꦱꦫꦗꦮ": ("ꦲꦏ꧀ꦱꦫꦗꦮ",),
    "Γράφω 𝒙 και 𐍈": ("Γράφω", "𝒙", "και", "𐍈"),
    # Emoji
    "Hi🦙there": ("Hi", "🦙", "there"),
    "👩\u200d👩\u200d👧👍🏽": ("👩\u200d👩\u200d👧", "👍🏽"),  # joiners, skin tone
    "🇩🇪🇫🇷 1\ufe0f\u20e3 ❤\ufe0f\u200d🔥": ("🇩🇪", "🇫🇷", "1\ufe0f\u20e3", "❤\ufe0f\u200d🔥"),  # flags, keycap
    # Signs
    "I don't, John’s l'été": ("I", "don't", ",", "John’s", "l'été"),
    "3.14 or 1,000 at 10:30": ("3.14", "or", "1,000", "at", "10", ":", "30"),
    "well-known -- “quoted”...": ("well", "-", "known", "-", "-", "“", "quoted", "”", ".", ".", "."),
    "snake_case camelCase C++ x²": ("snake_case", "camelCase", "C", "+", "+", "x", "²"),
    "see https://example.com/a_b?q=1": ("see", "https", ":", "/", "/", "example.com", "/", "a_b", "?", "q", "=", "1"),
    "U.S.\n\tfoo@bar.org": ("U.S", ".", "foo", "@", "bar.org"),
}
# fmt: on
"""Words of a text, white space apart, by hand from Unicode's rules (UAX 29)."""


def _fast(raw: Tokenizer, **special: str) -> transformers.PreTrainedTokenizerFast:
    named = {"bos_token": "<bos>", "eos_token": "<bos>", "pad_token": "<bos>", **special}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, name_or_path="tiny", add_bos_token=True, **named)


def byte_level() -> Any:
    """Byte-level BPE whose tokens are single bytes, or pairs of bytes that cut characters: `à¤` of Devanagari, `Ġà`."""
    pieces = ["<bos>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "à¤", "ðŁ", "Ġà¤", "Ġt", "à¸", "Ġthe", "ell"]
    merges = [("à", "¤"), ("ð", "Ł"), ("Ġ", "à¤"), ("Ġ", "t"), ("à", "¸")]
    raw = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)}, merges))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return _fast(raw)


def byte_fallback() -> Any:
    """A tokenizer as SentencePiece makes them: `▁` before words, and bytes of characters that the vocabulary lacks."""
    known = ["▁", *"abcdefghijklmnopqrstuvwxyz", *".,-'éक猫", "▁the", "▁t"]
    pieces = ["<bos>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *known]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    raw = Tokenizer(models.BPE(vocabulary, [("▁", "t")], unk_token="<unk>", byte_fallback=True))
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    raw.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return _fast(raw, unk_token="<unk>")


SPLITTING: dict[str, Callable[[], Any]] = {"byte level": byte_level, "byte fallback": byte_fallback}
"""Tokenizers without tokens that hold several words."""
