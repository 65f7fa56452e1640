"""What a corpus run is, whichever studies it makes: one frozen dataclass. The text below a field is its help."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tl_ffblock.corpus.fields import check_at_least, declared_fields
from tl_ffblock.errors import InputError
from tl_ffblock.signatures import strict


@strict
@dataclass(frozen=True)
class Config:
    """One run on one model and one corpus."""

    model: str
    """A model as `tl-ffblock map` takes it: minilm, smollm2, a local folder, a TransformerLens name."""
    data: str
    """A file (.txt, .jsonl, .csv, .tsv, .conllu, .conllulex, .cupt), a folder of a saved Hugging Face dataset, or its name on the hub."""
    out: str
    """Folder of the run; made if it is missing, continued if it holds an unfinished run of the same settings."""
    format: Literal["auto", "text", "jsonl", "csv", "tsv", "dataset", "conllu"] = "auto"
    """How the data is read; auto goes by the file's ending."""
    column: str = "text"
    """Column or key that holds the text (JSONL, CSV, TSV, datasets)."""
    document_column: str | None = None
    """Column or key that names the article a text belongs to; without it every text is an article of its own."""
    document_pattern: str | None = None
    """Regular expression of lines that begin a new article and are no text themselves (text files)."""
    split: str = "train"
    """Split of a Hugging Face dataset."""
    limit: int | None = None
    """Sequences at most."""
    sample: Literal["first", "random"] = "first"
    """Which sequences, where `limit` leaves some out: the first, or random ones by `seed`."""
    min_words: int = 1
    """Texts of fewer words, counted by white space, are left out."""
    max_tokens: int | None = None
    """Tokens of a sequence at most, special ones included; never more than the model reads."""
    long: Literal["cut", "split"] = "cut"
    """A longer text is cut off, or split into consecutive pieces that become one sequence each (approximately by words)."""
    mask_fraction: float | None = None
    """Share of the tokens that becomes the mask token; by default, for masked language models, 0.12 in the studies of Kobayashi et al. as in the paper and 0 in heads, probes and memories; 0 for others."""
    tagger: str | None = None
    """Optional `module:function` that maps a text to (start, end) character spans of entities or multi-word expressions."""
    seed: int = 0
    """Of every random choice: sample, masks, permutations, controls."""
    batch_size: int = 1
    """Sequences that run through the model together, padded."""
    shard_size: int = 8
    """Sequences of one shard: what is computed and kept at a time."""
    threads: int = 1
    """CPU threads a worker computes with; another number sums in another order and moves the last digits."""
    engine: Literal["local", "ray"] = "local"
    """Where shards are computed: in this process, or by workers of a Ray cluster (extra `ray`)."""
    workers: int = 2
    """Workers of the Ray engine; each holds a copy of the model."""
    ray_address: str | None = None
    """Address of a running Ray cluster; by default that of RAY_ADDRESS, and without it one is started on this machine."""
    device: str = "cpu"
    """Where the model runs: cpu, or cuda (with Ray: one GPU a worker)."""
    examples: int = 2
    """First sequences that become pages linked from the report."""

    def __post_init__(self) -> None:
        for field in declared_fields(__name__, "Config"):
            if field.choices and getattr(self, field.name) not in field.choices:
                raise InputError(
                    f"{field.name}={getattr(self, field.name)!r}: expected one of {', '.join(field.choices)}."
                )
        for name in ("batch_size", "shard_size", "threads", "workers"):
            check_at_least(self, name, 1)
        for name in ("min_words", "examples", "seed"):
            check_at_least(self, name, 0)
        if self.limit is not None:
            check_at_least(self, "limit", 1)
        if self.max_tokens is not None:
            check_at_least(self, "max_tokens", 2)
        if self.document_pattern is not None:
            try:
                re.compile(self.document_pattern)
            except re.error as error:
                raise InputError(
                    f"document_pattern={self.document_pattern!r}: expected a regular expression ({error})."
                ) from error
        if self.mask_fraction is not None and not 0 <= self.mask_fraction < 1:
            raise InputError(f"mask_fraction={self.mask_fraction}: expected a share from 0 to below 1.")

    def check_out(self) -> None:
        """See whether the run's folder can be made, before anything is loaded.

        Raises:
            InputError: if it is a file, or in a folder that is none or that may not be written to.
        """
        if not self.out:
            raise InputError("out='': give a folder.")
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"out={self.out!r} is a file; give a folder.")
        nearest = next(path for path in (self.folder.absolute(), *self.folder.absolute().parents) if path.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK):
            raise InputError(f"out={self.out!r}: nothing can be written to {nearest}; give another folder.")

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.out).expanduser()


NOT_IN_FINGERPRINT = ("out", "engine", "workers", "ray_address", "device", "data", "model", "examples")
"""Fields that may differ when a run is continued: where it is computed, and names of what has a digest of its own."""
