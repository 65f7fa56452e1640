"""What a run is: one frozen dataclass. The text below a field is its help on the command line."""

import ast
import inspect
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal, TypeAlias, get_args

from tl_ffblock.errors import InputError

Name: TypeAlias = Literal["contextualization", "amplification", "norms", "outliers", "attribution-methods", "cost"]
NAMES: tuple[str, ...] = get_args(Name)

Format: TypeAlias = Literal["auto", "text", "jsonl", "csv", "tsv", "dataset", "conllu"]


@dataclass(frozen=True)
class Config:
    """One run of one or several experiments on one model and one corpus."""

    experiment: str
    """Which experiment; several with commas between them share one pass over the data."""
    model: str
    """A model as `tl-ffblock map` takes it: minilm, smollm2, a local folder, a TransformerLens name."""
    data: str
    """A file (.txt, .jsonl, .csv, .tsv, .conllu, .conllulex, .cupt), a folder of a saved Hugging Face dataset, or its name on the hub."""
    out: str
    """Folder of the run; made if it is missing, continued if it holds an unfinished run of the same settings."""
    format: Format = "auto"
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
    """Share of the tokens that becomes the mask token; by default 0.12 for masked language models as in the paper, else 0."""
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
    window: int = 10
    """Tokens of a window, for pointwise mutual information."""
    top_pairs: int = 50
    """Most amplified pairs reported a layer."""
    tagger: str | None = None
    """Optional `module:function` that maps a text to (start, end) character spans of entities or multi-word expressions."""
    ignored_dimensions: float = 0.01
    """Share of the dimensions with the smallest gain that outliers leaves out when it measures the change by FF again; 0 skips this slow part."""
    short_tokens: int = 6
    """Tokens of a sequence in attribution-methods; exact Shapley values take 2 to the power of it."""
    shapley_samples: int = 128
    """Coalitions that sampling and kernel Shapley values may look at, for each position and layer."""
    lengths: tuple[int, ...] = (8, 16, 32, 64, 128)
    """Lengths measured by cost."""
    captum_length: int = 16
    """Longest input on which cost also runs captum; 0 skips it."""
    examples: int = 2
    """Sequences whose maps become pages linked from the report."""

    def __post_init__(self) -> None:
        unknown = [name for name in self.names if name not in NAMES]
        if unknown or not self.names:
            raise InputError(f"experiment={self.experiment!r}: expected one or several of {', '.join(NAMES)}.")
        if len(set(self.names)) != len(self.names):
            raise InputError(f"experiment={self.experiment!r} names one twice.")
        for name, options in _choices().items():
            if getattr(self, name) not in options:
                raise InputError(f"{name}={getattr(self, name)!r}: expected one of {', '.join(options)}.")
        for name in ("batch_size", "shard_size", "threads", "workers", "window", "top_pairs", "shapley_samples"):
            self._at_least(name, 1)
        for name in ("min_words", "captum_length", "examples", "seed"):
            self._at_least(name, 0)
        self._at_least("short_tokens", 2)
        if self.limit is not None:
            self._at_least("limit", 1)
        if self.max_tokens is not None:
            self._at_least("max_tokens", 2)
        if not self.lengths or min(self.lengths) < 1:
            raise InputError(f"lengths={self.lengths!r}: expected positive numbers of tokens.")
        if self.short_tokens > 12:
            raise InputError(f"short_tokens={self.short_tokens}: enumeration of coalitions is meant for at most 12.")
        if not 0 <= self.ignored_dimensions < 1:
            raise InputError(f"ignored_dimensions={self.ignored_dimensions}: expected a share from 0 to below 1.")
        if self.mask_fraction is not None and not 0 <= self.mask_fraction < 1:
            raise InputError(f"mask_fraction={self.mask_fraction}: expected a share from 0 to below 1.")

    @property
    def names(self) -> tuple[str, ...]:
        """The experiments, one by one."""
        return tuple(name.strip() for name in self.experiment.split(",") if name.strip())

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.out).expanduser()

    def _at_least(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or value < least:
            raise InputError(f"{name}={value!r}: expected a whole number of at least {least}.")


FREE = ("out", "engine", "workers", "ray_address", "device", "data", "model", "examples")
"""Fields that may differ when a run is continued: where it is computed, and names of what has a digest of its own."""


@cache
def field_help() -> dict[str, str]:
    """The text below each field, by its name."""
    body = ast.parse(dedent(inspect.getsource(Config))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = str(text.value.value)
    return found


@cache
def _choices() -> dict[str, tuple[Any, ...]]:
    return {
        field.name: get_args(field.type)
        for field in fields(Config)
        if getattr(field.type, "__origin__", None) is Literal
    }
