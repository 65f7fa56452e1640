"""For mkdocstrings: shared keyword options (`**options: Unpack[...]`) are shown one by one, and constants as their values."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import griffe

_OPTIONS = re.compile(r"^( +)\*\*\w+: .*(?:\n\1 +.*)*", re.MULTILINE)


class SharedOptions(griffe.Extension):
    """Names and defaults are those of the signature that `signatures.spelled_out` shows, types those of the TypedDict."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Replace the last parameter of every function that shares its options."""
        for function in _functions(pkg):
            options = [part for part in function.parameters if part.kind is griffe.ParameterKind.var_keyword]
            if options and str(options[0].annotation).startswith("Unpack["):
                _spell_out(function, options[0])
            for part in function.parameters:
                if re.fullmatch(r"_?[A-Z][A-Z_]+", str(part.default)):  # a constant is shown as its value
                    part.default = repr(inspect.signature(_runtime(function)).parameters[part.name].default)


def _runtime(function: griffe.Function) -> Any:
    """The function itself."""
    owner = import_module(function.module.path)
    for name in function.path.removeprefix(f"{function.module.path}.").split("."):
        owner = getattr(owner, name)
    return owner


def _functions(owner: griffe.Object) -> Iterator[griffe.Function]:
    for member in owner.members.values():
        if isinstance(member, griffe.Function):
            yield member
        elif isinstance(member, (griffe.Module, griffe.Class)):
            yield from _functions(member)


def _spell_out(function: griffe.Function, options: griffe.Parameter) -> None:
    owner = _runtime(function)
    typed = function.modules_collection[options.annotation.slice.canonical_path]
    types = {name: member for name, member in typed.all_members.items() if member.is_attribute}
    shown = inspect.signature(owner).parameters
    types = {name: types[name] for name in sorted(types, key=[*shown, *types].index) if name not in function.parameters}
    function.parameters._params.remove(options)
    for name, member in types.items():
        default = repr(shown[name].default) if name in shown else "..."
        kind = griffe.ParameterKind.keyword_only
        function.parameters.add(griffe.Parameter(name, annotation=member.annotation, kind=kind, default=default))
    function.parameters._params.sort(key=lambda parameter: [*shown, parameter.name].index(parameter.name))
    if function.docstring:
        texts = {name: member.docstring.value for name, member in types.items() if member.docstring}
        function.docstring.value = _OPTIONS.sub(lambda match: _entries(match[1], texts), function.docstring.value)


def _entries(indent: str, texts: dict[str, str]) -> str:
    """An entry for each option, in the words of the TypedDict, where a docstring has one for all."""
    return "\n".join(f"{indent}{name}: {' '.join(text.split())}" for name, text in texts.items())
