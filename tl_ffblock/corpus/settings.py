"""What can be set of a corpus run and of its studies: frozen dataclasses. The text below a field is its help.

A command's help reads the fields from the source of their class, which takes as long as reading a file: the file of a
study imports torch and pandas. A field that a command line can take is `int`, `float`, `str`, one of them `| None`,
`Literal` of strings, or `tuple[int, ...]`.
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
"""Packages that every run needs beyond those of the library."""
REQUIRED = object()
"""The default of a field that has none."""
_KINDS: dict[str, type] = {"int": int, "float": float, "str": str}


def require(packages: Iterable[str] = EVERY_RUN) -> None:
    """Refuse a run for which packages are missing, before the work and not after it.

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
    """What `module:name` names.

    Raises:
        InputError: if it cannot be imported, naming the option.
    """
    module, _, name = given.partition(":")
    try:
        found = getattr(import_module(module), name)
    except Exception as error:  # whatever a user's module raises
        raise InputError(
            f"{option}={given!r}: expected module:{kind} of a module that can be imported ({type(error).__name__}: {error})."
        ) from error
    if not callable(found):
        raise InputError(f"{option}={given!r}: expected a {kind}, and it is {brief(found)}.")
    return found


@dataclass(frozen=True)
class DeclaredField:
    """One field of a dataclass of options, as its source declares it."""

    name: str
    kind: type
    """Of the value, or of each value where there are several."""
    default: Any
    text: str
    """Its help."""
    choices: tuple[str, ...] = ()
    several: bool = False


def class_body(module: str, class_name: str) -> list[ast.stmt]:
    """The body of a class in the source of its module, which is not imported; empty where no source can be read, as in a notebook."""
    try:
        loader: Any = getattr(find_spec(module), "loader", None)
        source = loader.get_source(module) or ""
    except (ValueError, AttributeError, ImportError):
        return []
    bodies = {node.name: node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    return bodies.get(class_name, [])


@cache
def declared_fields(module: str, class_name: str) -> tuple[DeclaredField, ...]:
    """The fields of a class that have a text below them, read from the source of its module."""
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
    """Base of the settings of a run and of the options of a study; refuses values that no run can mean.

    Raises:
        InputError: naming the field, its value and what was expected.
    """

    least: ClassVar[Mapping[str, int]] = {}
    """The smallest value of fields that are whole numbers, where one is given."""
    shares: ClassVar[tuple[str, ...]] = ()
    """Fields that are shares, from 0 to below 1."""

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
                raise InputError(f"{field.name}={value}: expected a share from 0 to below 1.")


@strict
@dataclass(frozen=True)
class Config(Options):
    """One run on one model and one corpus."""

    least: ClassVar[Mapping[str, int]] = {
        **dict.fromkeys(("batch_size", "shard_size", "threads", "workers", "limit"), 1),
        **dict.fromkeys(("min_words", "examples", "seed"), 0),
        "max_tokens": 2,
    }
    shares: ClassVar[tuple[str, ...]] = ("mask_fraction", "unreadable")

    model: str
    """A model as `tl-ffblock map` takes it: minilm, smollm2, a local folder, a TransformerLens name."""
    data: str | Any
    """A file (.txt, .jsonl, .csv, .tsv, .conllu, .conllulex, .cupt), a folder of a saved Hugging Face dataset, or its name on the hub;
    in Python also a `datasets.Dataset`."""
    out: str
    """Folder of the run; made if it is missing, continued if it holds an unfinished run of the same settings."""
    format: Literal["auto", "text", "jsonl", "csv", "tsv", "dataset", "conllu"] = "auto"
    """How the data is read; auto goes by the file's ending."""
    column: str = "text"
    """Column or key that holds the text (JSONL, CSV, TSV, datasets)."""
    document_column: str | None = None
    """Column or key that names the article a text belongs to; without it every text is an article of its own."""
    document_pattern: str | None = None
    """Regular expression of lines that begin a new article and are not text themselves (text files)."""
    split: str = "train"
    """Split of a Hugging Face dataset."""
    subset: str | None = None
    """Subset of a Hugging Face dataset on the hub, such as wikitext-2-raw-v1."""
    limit: int | None = None
    """Sequences at most."""
    sample: Literal["first", "random"] = "first"
    """Which sequences, where `limit` leaves some out: the first, or random ones by `seed`."""
    unreadable: float = 0.1
    """Share of the data's rows that may be unreadable; more, and ten at least, end the run before any computing."""
    min_words: int = 1
    """Texts of fewer words, counted by white space, are left out."""
    max_tokens: int | None = None
    """Tokens of a sequence at most, special ones included; never more than the model reads."""
    long: Literal["cut", "split"] = "cut"
    """A longer text is cut off, or split into consecutive pieces that become one sequence each (approximately by words)."""
    mask_fraction: float | None = None
    """Share of the tokens that becomes the mask token; by default, for masked language models, 0.12 in the studies of Kobayashi et al.
    as in the paper and 0 in heads, probes and memories; 0 for others."""
    tagger: str | None = None
    """Optional `module:function` that maps a text to (start, end) character spans of entities or multi-word expressions."""
    seed: int = 0
    """Of every random choice: sample, masks, permutations, controls."""
    batch_size: int | None = None
    """Sequences that run through the model together, padded in their order; by default those of a shard of equal or nearly equal length,
    as many as max_memory allows, and one by one for studies that rank positions (memories)."""
    max_memory: str | float = "2GB"
    """What sequences that run together may hold over the model, as a text such as 2GB or 500MB: tensors of all layers, and maps. A
    sequence that needs more runs alone, and so does every one of a mixture of experts, whose memory is not estimated."""
    shard_size: int = 8
    """Sequences of one shard: what is computed and kept at a time."""
    threads: int = 1
    """CPU threads a worker computes with; another number sums in another order and moves the last digits."""
    engine: Literal["local", "ray"] = "local"
    """Where shards are computed: in this process, or by workers of a Ray cluster (extra `ray`)."""
    workers: int = 2
    """Workers of the Ray engine; each holds a copy of the model."""
    gpus: float = 1.0
    """GPUs per worker of the Ray engine where the device is cuda; 0.25 lets four workers share one."""
    ray_address: str | None = None
    """Address of a running Ray cluster; by default that of RAY_ADDRESS, and without it one is started on this machine."""
    device: str = "cpu"
    """Where the model runs: cpu, or cuda (with Ray: `gpus` of them per worker)."""
    examples: int = 2
    """First sequences that become pages linked from the report."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("model", "data", "out"):  # `Path` is as good as its name
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
    def source(self) -> str:
        """The data's name in messages and reports; bytes outside UTF-8 as numbers."""
        if not isinstance(self.data, str):
            return f"{type(self.data).__name__} of {len(self.data)} rows"
        return os.fsencode(self.data).decode("utf-8", "backslashreplace")

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.out).expanduser()
