"""Settings of a study run and options of its studies: frozen dataclasses. The string below a field is its help text.

The command line reads the fields from the source of their class: importing a study's module would import torch and pandas. A
field that the command line accepts is an `int`, `float`, `str`, one of these `| None`, a `Literal` of strings, or `tuple[int,
...]`.
"""

import ast
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, get_origin

from tl_ffblock.errors import InputError, brief
from tl_ffblock.numerals import bytes_of
from tl_ffblock.signatures import strict

EVERY_RUN = ("filelock", "jinja2", "matplotlib", "pyarrow")
"""Packages that every study run needs, in addition to those of the library."""
REQUIRED = object()
"""Default of a field that has no default."""
_KINDS: dict[str, type] = {"int": int, "float": float, "str": str}


def require(packages: Iterable[str] = EVERY_RUN) -> None:
    """Raise an error if packages are missing, before the work starts.

    Raises:
        InputError: with the command that installs them.
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        extra = "experiments,ray" if "ray" in missing else "experiments"
        raise InputError(
            f"this run needs {', '.join(missing)}; in the folder of the repository run: "
            f'pip install -c constraints.txt ".[{extra}]"'
        )


def imported(option: str, given: str, kind: str) -> Any:
    """Object that `module:name` refers to.

    Args:
        option: The option's name, for the error.
        given: The option's value, `module:name`.
        kind: What it refers to, for the error: "function" or "Class".

    Raises:
        InputError: if it cannot be imported or called.
    """
    module, _, name = given.partition(":")
    try:
        found = getattr(import_module(module), name)
    except Exception as error:  # a user's module may raise anything
        raise InputError(
            f"{option}={given!r}: expected module:{kind} of an importable module ({type(error).__name__}: {error})."
        ) from error
    if not callable(found):
        raise InputError(f"{option}={given!r}: expected a {kind}, got {brief(found)}.")
    return found


@dataclass(frozen=True)
class DeclaredField:
    """One field of a dataclass of options, as declared in the source."""

    name: str
    kind: type
    """Type of the value, or of each value if there are several."""
    default: Any
    text: str
    """Help text."""
    choices: tuple[str, ...] = ()
    several: bool = False


def class_body(module: str, class_name: str) -> list[ast.stmt]:
    """Body of a class, from the source of its module, without importing it; empty if the source cannot be read (a notebook)."""
    try:
        loader: Any = getattr(find_spec(module), "loader", None)
        source = loader.get_source(module) or ""
    except (ValueError, AttributeError, ImportError):
        return []
    bodies = {node.name: node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    return bodies.get(class_name, [])


@cache
def declared_fields(module: str, class_name: str) -> tuple[DeclaredField, ...]:
    """Fields of a class that have a help text, read from the source of its module."""
    return tuple(_declared(class_body(module, class_name)))


def _declared(body: list[ast.stmt]) -> Iterator[DeclaredField]:
    for node, below in pairwise(body):
        if isinstance(node, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            name, text, kind = ast.unparse(node.target), " ".join(str(below.value.value).split()), node.annotation
            default = REQUIRED if node.value is None else ast.literal_eval(node.value)
            if isinstance(kind, ast.BinOp):  # `int | None`
                kind = kind.left
            written = ast.unparse(kind)
            if isinstance(kind, ast.Subscript) and written.startswith("Literal"):
                yield DeclaredField(name, str, default, text, choices=ast.literal_eval(kind.slice))
            elif written in _KINDS or written == "tuple[int, ...]":
                yield DeclaredField(name, _KINDS.get(written, int), default, text, several=written not in _KINDS)


@dataclass(frozen=True)
class Options:
    """Base class of the settings of a study run and of the options of a study.

    Raises:
        InputError: if a value is not valid, with the field, the value and what was expected.
    """

    least: ClassVar[Mapping[str, int]] = {}
    """Smallest allowed value of integer fields."""
    shares: ClassVar[tuple[str, ...]] = ()
    """Fields that are fractions, from 0 to below 1."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, choices = getattr(self, field.name), get_args(field.type)
            if get_origin(field.type) is Literal and value not in choices:
                raise InputError(f"{field.name}={value!r}: expected one of {', '.join(choices)}.")
            if value == field.default:
                continue
            least = self.least.get(field.name)
            if least is not None and not (isinstance(value, int) and value >= least):
                raise InputError(f"{field.name}={value!r}: expected a whole number of at least {least}.")
            if field.name in self.shares and not 0 <= value < 1:
                raise InputError(f"{field.name}={value}: expected a fraction, from 0 to below 1.")


@strict
@dataclass(frozen=True)
class Config(Options):
    """Settings of one study run, on one model and one corpus."""

    least: ClassVar[Mapping[str, int]] = {
        **dict.fromkeys(("batch_size", "shard_size", "threads", "workers", "limit"), 1),
        **dict.fromkeys(("min_words", "examples", "seed"), 0),
        "max_tokens": 2,
    }
    shares: ClassVar[tuple[str, ...]] = ("mask_fraction", "unreadable")

    model: str
    """Model, as in `tl-ffblock map`: minilm, smollm2, a local folder, or a TransformerLens name."""
    data: str | Any
    """A file (.txt, .jsonl, .csv, .tsv, .conllu, .conllulex, .cupt), a folder of a saved Hugging Face dataset, or a dataset's name
    on the hub; in Python also a `datasets.Dataset`."""
    out: str
    """Folder of the run; created if it is missing. An unfinished run of the same settings is continued."""
    format: Literal["auto", "text", "jsonl", "csv", "tsv", "dataset", "conllu"] = "auto"
    """Format of the data; auto uses the file's ending."""
    column: str = "text"
    """Column or key of the text (JSONL, CSV, TSV, datasets)."""
    document_column: str | None = None
    """Column or key of the article that a text belongs to; by default every text is an article of its own."""
    document_pattern: str | None = None
    """Regular expression of lines that begin a new article and are not text themselves (text files)."""
    split: str = "train"
    """Split of a Hugging Face dataset."""
    subset: str | None = None
    """Subset of a Hugging Face dataset on the hub, such as wikitext-2-raw-v1."""
    limit: int | None = None
    """Largest number of sequences; by default all."""
    sample: Literal["first", "random"] = "first"
    """Sequences to use if `limit` is below their number: the first ones, or a random sample by `seed`."""
    unreadable: float = 0.1
    """Largest fraction of unreadable rows in the data. Above it, with at least ten such rows, the run stops before any computation."""
    min_words: int = 1
    """Smallest number of words, separated by white space; shorter texts are skipped."""
    max_tokens: int | None = None
    """Largest number of tokens per sequence, special tokens included; the model's context length also applies."""
    long: Literal["cut", "split"] = "cut"
    """Whether a longer text is cut, or split into consecutive pieces of approximately this length in words, each a sequence."""
    mask_fraction: float | None = None
    """Fraction of the tokens that is replaced by the mask token. By default, for masked language models, 0.12 in the studies of
    Kobayashi et al. as in the paper, and 0 in heads, probes and memories; 0 for other models."""
    tagger: str | None = None
    """A `module:function` that maps a text to (start, end) character spans of entities or multi-word expressions."""
    seed: int = 0
    """Seed of every random choice: sample, masks, permutations, controls."""
    batch_size: int | None = None
    """Number of sequences per forward pass, in their order and padded. By default sequences of one shard with equal or nearly
    equal length, as many as max_memory allows; one by one for studies that rank positions (memories)."""
    max_memory: str | float = "2GB"
    """Largest memory of a batch in addition to the model, as a text such as 2GB or 500MB: tensors of all layers, and maps. A
    sequence that needs more is a batch of its own. So is every sequence of a mixture of experts, whose memory is not estimated."""
    shard_size: int = 8
    """Number of sequences per shard, which is computed and saved as a unit."""
    threads: int = 1
    """CPU threads per worker. Another number changes the order of sums, and so the last digits."""
    engine: Literal["local", "ray"] = "local"
    """Where shards are computed: in this process, or by workers of a Ray cluster (extra `ray`)."""
    workers: int = 2
    """Number of Ray workers; each has a copy of the model."""
    gpus: float = 1.0
    """GPUs per Ray worker if the device is cuda; with 0.25 four workers share one."""
    ray_address: str | None = None
    """Address of a running Ray cluster; by default that of RAY_ADDRESS, and without it a cluster is started on this machine."""
    device: str = "cpu"
    """Device of the model: cpu, or cuda (with Ray: `gpus` of them per worker)."""
    examples: int = 2
    """Number of first sequences that get a page linked from the report."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("model", "data", "out"):  # a `Path` is replaced by its string
            if isinstance(getattr(self, name), os.PathLike):
                object.__setattr__(self, name, os.fspath(getattr(self, name)))
        bytes_of(self.max_memory)
        if not self.gpus > 0:
            raise InputError(f"gpus={self.gpus!r}: expected a positive number, such as 1 or 0.25.")
        try:
            re.compile(self.document_pattern or "")
        except re.error as error:
            raise InputError(
                f"document_pattern={self.document_pattern!r}: expected a regular expression ({error})."
            ) from error

    def check_out(self) -> None:
        """Check that the run's folder can be created, before anything is loaded.

        Raises:
            InputError: if it is empty or a file, or its nearest existing parent is not a writable folder.
        """
        if not self.out:
            raise InputError("out='': expected a folder.")
        if self.folder.exists() and not self.folder.is_dir():
            raise InputError(f"out={self.out!r} is a file; expected a folder.")
        nearest = next(path for path in (self.folder.absolute(), *self.folder.absolute().parents) if path.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK):
            raise InputError(f"out={self.out!r}: {nearest} is not a writable folder. Use another folder.")

    @property
    def source(self) -> str:
        """Name of the data in messages and reports; bytes that are not UTF-8 are escaped."""
        if not isinstance(self.data, str):
            return f"{type(self.data).__name__} of {len(self.data)} rows"
        return os.fsencode(self.data).decode("utf-8", "backslashreplace")

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return Path(self.out).expanduser()
