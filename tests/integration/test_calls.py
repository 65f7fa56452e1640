"""Every public function, method and class refuses arguments that it does not have, in words."""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tl_ffblock.errors import CallError, FFBlockError
from tl_ffblock.result import Result
from tl_ffblock.signatures import ADVANCED

ROOMS = ("check", "experiments", "graphs", "heads", "interventions", "memories", "metrics", "attribution")
"""Modules whose names are public."""


def results_of(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Every function and class of ours that a module names in public, errors and warnings left out."""
    for name in module.__all__:
        member = getattr(module, name)
        ours = str(getattr(member, "__module__", "")).startswith("tl_ffblock")
        error = isinstance(member, type) and issubclass(member, BaseException)
        if ours and not error and (inspect.isfunction(member) or isinstance(member, type)):
            yield name, member


def public_calls() -> dict[str, Callable[..., Any]]:
    """Every public function, every public class, and every public method of these classes, by name.

    Options of pages and figures are those of the view of the result's type: test_results.py calls them of results.
    """
    found: dict[str, Callable[..., Any]] = {}
    for module in (ffb, *(getattr(ffb, room) for room in ROOMS)):
        for name, member in results_of(module):
            if not inspect.isabstract(member):  # `Metric`, which is there to be subclassed
                found[name] = member
            for method, function in inspect.getmembers(member, inspect.isroutine) if isinstance(member, type) else ():
                drawn = getattr(Result, method, None) is function and method in ("to_html", "show", "figure")
                if (
                    not method.startswith("_")
                    and not drawn
                    and str(getattr(function, "__module__", "")).startswith("tl_ffblock")
                ):
                    found[f"{name}.{method}"] = function
    return found


CALLS = public_calls()


def test_the_registry_holds_what_users_call() -> None:
    """Functions, classes, methods, inherited ones too."""
    assert {"attribute", "attribution_patching", "Contributions.subtract", "ContributionMaps.to_html"} <= set(CALLS)
    assert {"value_tokens", "top_tokens", "check_model", "knockout", "Pruning", "Attribution.mean"} <= set(CALLS)
    assert len(CALLS) > 150


def in_words(name: str) -> bool:
    """Whether a call refuses a keyword that it does not have by an error that is ours and Python's, and names both."""
    call = CALLS[name]
    parameters = inspect.signature(call).parameters.values()
    needed: list[Any] = [object() for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty]
    if name == "study":  # its options are those of the study that its first argument names
        needed = ["contextualization"]
    try:
        call(*needed, nonsense=1)
    except CallError as error:
        named = "nonsense" in str(error) and (name.rpartition(".")[2] in str(error) or name == "study")
        return named and isinstance(error, TypeError) and isinstance(error, ValueError)
    except Exception:
        return False
    return False


def test_an_unknown_keyword_is_refused_in_words() -> None:
    """No option is swallowed."""
    assert [name for name in CALLS if not in_words(name)] == []


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ffb.contribution_maps(None, [7, 8], layer=9), "contribution_maps has no argument `layer`. Did you mean `layers`?"),
        (lambda: ffb.attribution_patching(None, [7], [8], ffb.logit(7), step=5), "Did you mean `steps`?"),
        (lambda: ffb.attribute_continuation(None, [7], [8], nonsense=1), "Its arguments are model, prompt, continuation, generate"),
        (lambda: ffb.neurons(None, [7, 8], 1, -1, 2), "neurons takes 2 arguments by position, model, input; 5 were given. Pass by name: layer="),
        (lambda: ffb.attribute(None, [7, 8]), "attribute needs `target`"),
        (lambda: ffb.contribution_maps(input=[7]), "contribution_maps needs `model`"),
        (lambda: ffb.Contributions(None, [7, 8], layer=1), "Contributions has no argument `layer`. Did you mean `layers`?"),
        (lambda: ffb.heads.Training(penalties=3), "Training has no argument `penalties`. Did you mean `penalty`?"),
        (lambda: ffb.ContributionMaps.load(), "load needs `path`"),
        (lambda: ffb.logit(7, minu=8), "Did you mean `minus`?"),
        (lambda: ffb.loss([7], tokens=[7]), "multiple values for argument 'tokens'"),
    ],
)  # fmt: skip
def test_a_wrong_call_says_what_was_meant(call: Callable[[], Any], said: str) -> None:
    """A misspelt option, what has to be named, what is missing, what is given twice."""
    with pytest.raises(CallError) as error:
        call()
    assert said in str(error.value)


def test_a_method_is_named_by_the_class_of_the_result() -> None:
    """Not by the class that it is inherited from, and without `self` among the arguments."""
    maps = ffb.contribution_maps(model_of("gpt2"), tiny.tokens("gpt2", 4))
    with pytest.raises(CallError, match="^ContributionMaps.to_circuitsvis needs `scope`, `layer`") as error:
        maps.to_circuitsvis()
    assert "self" not in str(error.value)
    contributions = ffb.Contributions(model_of("gpt2"), tiny.tokens("gpt2", 4))
    with pytest.raises(
        CallError, match="subtract takes 2 arguments by position, layer, scope; 4 were given.*query=, key="
    ):
        contributions.subtract(1, "AtbLnFf", -1, 2)


def test_options_of_other_calls_are_no_arguments_where_they_do_nothing() -> None:
    """Patching estimates have none of these but kinds, continuations none, and no padding and no segments."""
    names = [
        "layers",
        "queries",
        "of",
        "checkpoint",
        "method",
        "value_bias",
        "precision",
        "cache",
        "chunk_bytes",
        "extra",
    ]
    patching, continuation = (
        inspect.signature(getattr(ffb, name)).parameters for name in ("attribution_patching", "attribute_continuation")
    )
    assert set(names) & set(patching) == {"of"} and {"steps", "fwd_hooks", "rtol"} <= set(patching)
    assert not {*names, "attention_mask", "token_type_ids"} & set(continuation)
    assert "cache" in inspect.signature(ffb.memories.token_parts).parameters


def test_a_misspelt_name_of_the_package_is_corrected_by_python() -> None:
    """The error carries name and object, of which the traceback makes a suggestion."""
    assert issubclass(CallError, FFBlockError)
    with pytest.raises(AttributeError) as error:
        ffb.contribution_map  # noqa: B018
    assert error.value.name == "contribution_map"
    assert error.value.obj is ffb
    command = [sys.executable, "-c", "import tl_ffblock as ffb; ffb.contribution_map"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert "Did you mean: 'contribution_maps'?" in shown


def test_signatures_are_readable() -> None:
    """Annotations print by the names of type aliases, so none is long; advanced options are the last; so is it in the docstring."""
    faults = []
    for name, call in CALLS.items():
        signature = inspect.signature(call)
        parameters = [p for p in signature.parameters.values() if p.name != "self"]
        faults += [f"{name}: {p}" for p in parameters if len(inspect.formatannotation(p.annotation)) > 70]
        named = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not p.empty]
        advanced = [option in ADVANCED for option in named]
        faults += [f"{name}: {named}"] if advanced != sorted(advanced) else []
        said = (inspect.getdoc(call) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
        told = [word for word in re.findall(r"^    (\w+): ", said, re.MULTILINE) if word in signature.parameters]
        faults += [f"{name}: {told}"] if told != [p.name for p in parameters if p.name in told] else []
    assert faults == []
    assert str(inspect.signature(ffb.attribute).parameters["target"]) == "target: Target"
