"""The pages of the reference, generated from what the package exports: a new public name appears by itself.

Public are the names in `tl_ffblock.__all__` and, by way of their module, those in the `__all__` of every module that is an
attribute of the package. What each page shows of a name is its signature with shapes, and its docstring.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import tl_ffblock
from tl_ffblock.cli.main import COMMANDS, DESCRIPTION, PROGRAM, parser
from tl_ffblock.signatures import Annotation

PACKAGE = "tl_ffblock"
MODULES = {
    name: path
    for name, path in {**tl_ffblock._MODULES, **tl_ffblock._OTHER_MODULES}.items()
    if name not in ("flow", "propagation")
}
"""By the attribute of the package; without former names."""
PAGES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "models": ("Models", ("bridge",)),
    "maps": ("Maps", ("contributions", "attention", "aggregation", "result", "results", "layer")),
    "attribution": ("Attribution", ("attribution",)),
    "flow": ("Flow", ("graphs",)),
    "metrics": ("Metrics", ("metrics",)),
    "interventions": ("Interventions", ("interventions",)),
    "known_circuits": ("Known circuits", ("known_circuits",)),
    "errors": ("Errors", ("errors",)),
    "heads": ("Heads", ("heads",)),
    "memories": ("Memories", ("memories",)),
    "experiments": ("Studies of a corpus", ("experiments", "corpus")),
    "check": ("Check", ("check",)),
    "scopes": ("Scopes", ("scopes",)),
    "page": ("Pages", ("page", "views")),
}
"""Of every page its title and the owners whose names it shows."""
_PLACE = {name: page for page, (_, owners) in PAGES.items() for name in owners}
COMMAND_LINE = "command_line"
TYPES = "types"


def public_names() -> dict[str, list[str]]:
    """Of every page, in order, the full names it documents; a name that the package itself exports counts there only."""
    pages: dict[str, list[str]] = {page: [] for page in PAGES}
    for name in tl_ffblock.__all__:
        if not name.startswith("__"):
            pages[_place(name, tl_ffblock._HOMES[name].split(".")[0])].append(f"{PACKAGE}.{name}")
    for attribute, path in MODULES.items():
        module = import_module(f"{PACKAGE}.{path}")
        names = [name for name in getattr(module, "__all__", ()) if name not in tl_ffblock.__all__]
        if names:
            pages[_place(attribute, attribute)] += [f"{module.__name__}.{name}" for name in names]
    # Functions first: they are what a reader looks for, classes what they give.
    return {page: sorted(names, key=lambda name: name.rpartition(".")[2][0].isupper()) for page, names in pages.items()}


@cache
def type_names() -> tuple[str, ...]:
    """The full names of the type aliases that signatures of public functions, classes and methods print, and of those in them."""
    root = Path(tl_ffblock.__file__).parent
    defined: dict[str, list[str]] = {}
    for path in sorted(root.rglob("*.py")):
        module = ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
        for name in re.findall(r"^([A-Z]\w*): TypeAlias = ", path.read_text(encoding="utf-8"), re.MULTILINE):
            defined.setdefault(name, []).append(module)
    found: set[str] = set()
    for annotation in _annotations():
        for name in re.findall(r"\w+", repr(annotation)):
            value = getattr(import_module(annotation.owner.__module__), name, None)
            same = [home for home in defined.get(name, ()) if getattr(import_module(home), name) is value]
            found |= {f"{home}.{name}" for home in same[:1]}
    found -= {name for names in public_names().values() for name in names}
    return tuple(sorted(found, key=lambda name: name.rpartition(".")[2]))


def _annotations() -> Iterator[Any]:
    """What the signatures of public functions, classes and methods are annotated with."""
    for name in (name for names in public_names().values() for name in names):
        module, _, last = name.rpartition(".")
        value = getattr(import_module(module), last)
        members = (
            [m for word, m in vars(value).items() if word[0] != "_" or word == "__init__"]
            if inspect.isclass(value)
            else []
        )
        for called in (getattr(member, "__func__", member) for member in (value, *members)):
            signature = inspect.signature(called) if inspect.isfunction(called) else inspect.Signature()
            every = [signature.return_annotation, *(p.annotation for p in signature.parameters.values())]
            yield from (annotation for annotation in every if isinstance(annotation, Annotation))


def _place(name: str, owner: str) -> str:
    if owner not in _PLACE:
        raise ValueError(
            f"{name} belongs to {owner}: name the page of the reference that shows it in docs/site/reference.py."
        )
    return _PLACE[owner]


def pages() -> dict[str, str]:
    """All pages of the reference by their place, in Markdown."""
    names = public_names()
    written = {f"reference/{page}.md": _page(page, names[page]) for page in PAGES}
    about = (
        '# Types\n\nWhat the names of types in signatures mean. Shapes are in brackets: `Float[Tensor, "query key"]`.'
    )
    types = "\n\n".join([about, *(f"::: {name}" for name in type_names())]) + "\n"
    written[f"reference/{TYPES}.md"] = types
    return {"reference/index.md": _index(names), **written, f"reference/{COMMAND_LINE}.md": _command_line()}


def _page(page: str, names: Iterable[str]) -> str:
    title, owners = PAGES[page]
    texts = [inspect.getdoc(import_module(f"{PACKAGE}.{MODULES[owner]}")) for owner in owners if _speaks(owner)]
    about = "\n\n".join(_introduction(text or "") for text in texts)
    return "\n\n".join([f"# {title}", about, *(f"::: {defined_at(name)}" for name in names)]) + "\n"


def defined_at(name: str) -> str:
    """Where a public name is defined: a function may have the name of its file, `attribution.attribute`, which says two things."""
    module, _, last = name.rpartition(".")
    value = getattr(import_module(module), last)
    return f"{value.__module__}.{value.__qualname__}" if inspect.isclass(value) or inspect.isfunction(value) else name


def _speaks(owner: str) -> bool:
    """Whether a page begins with what the owner's docstring says: where the owner's own names are shown."""
    return owner in MODULES and hasattr(import_module(f"{PACKAGE}.{MODULES[owner]}"), "__all__")


def _introduction(text: str) -> str:
    """A module's docstring without its list of files; its examples stay."""
    kept = [part for part in text.split("\n\n") if not part.split(maxsplit=1)[0].endswith(".py")]
    return "\n\n".join(kept)


def _index(names: Mapping[str, list[str]]) -> str:
    lines = [
        "# Reference",
        "`import tl_ffblock as ffb` reaches everything here: the names of the first tables as `ffb.NAME`, the others through "
        "their module, `ffb.heads.NAME`. Shapes stand in the annotations, `[query, key]` and the like; norms are in units of the "
        "residual stream, shares of a target in the target's units (logits).",
        f"The commands and their options: [{PROGRAM}]({COMMAND_LINE}.md).",
    ]
    for page, (title, _) in PAGES.items():
        lines.append(f"## {title}")
        rows = [f"| [`{_written(name)}`][{defined_at(name)}] | {_sentence(name)} |" for name in names[page]]
        lines.append("\n".join(["| name | what it is |", "|---|---|", *rows]))
    return "\n\n".join(lines) + "\n"


def _written(name: str) -> str:
    """A name as a user writes it after `import tl_ffblock as ffb`."""
    return name.replace(f"{PACKAGE}.layer.scopes", "ffb.scopes").replace(PACKAGE, "ffb", 1)


def _sentence(name: str) -> str:
    """The first line of its docstring; of a type that is only written otherwise, how it is written."""
    module, _, last = name.rpartition(".")
    value = getattr(import_module(module), last)
    if inspect.isclass(value) or inspect.isfunction(value):
        return (inspect.getdoc(value) or "").splitlines()[0].replace("|", "\\|")
    written = str(value).replace("typing.", "").replace("|", "\\|")
    return f"`{written}`" if "Literal" in written else "a constant or a type"


def _command_line() -> str:
    """The help of every command, as it is printed."""
    lines = [f"# {PROGRAM}", DESCRIPTION]
    (commands,) = (action.choices for action in parser()._actions if action.choices and "map" in action.choices)
    for command in COMMANDS:
        lines += [f"## {PROGRAM} {command}", f"```text\n{commands[command].format_help().strip()}\n```"]
    return "\n\n".join(lines) + "\n"
