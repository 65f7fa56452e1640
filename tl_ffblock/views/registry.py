"""How the type of a result finds its page, its figure and its panel: functions that the modules of this package register.

A view of a class of one's own is one registration:

    from tl_ffblock.views import page_of

    @page_of.register
    def _(result: MyResult) -> PageData: ...
"""

from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch
from typing import Any

from tl_ffblock.errors import InputError
from tl_ffblock.page import PageBlock, PageData, PageText


@singledispatch
def page_of(result: Any, **options: Any) -> PageData:
    """The data of a result's page.

    Args:
        result: Any result; of one whose type is not registered the page is its table.
        **options: Where the page opens, by the type of the result.

    Raises:
        InputError: if there is no page of such an object, or an option does not fit it.
    """
    raise InputError(f"there is no page of a {type(result).__name__}.")


@singledispatch
def figure_of(result: Any, **options: Any) -> Any:
    """A Matplotlib figure of a result.

    Args:
        result: Any result; of one whose type is not registered it is what its page opens with.
        **options: What is drawn, by the type of the result.

    Raises:
        InputError: if there is no figure of such an object, or an option does not fit it.
        ModuleNotFoundError: if Matplotlib is not installed.
    """
    raise InputError(f"there is no figure of a {type(result).__name__}.")


@singledispatch
def panel_of(
    further: Any, maps: Any, text: PageText, name: Callable[[str], str], first: Sequence[str]
) -> Mapping[str, PageBlock]:
    """What is shown beside maps, as blocks of their page by name.

    Args:
        further: Any object whose type is registered.
        maps: `ContributionMaps` or `TokenMaps` that the page is of.
        text: The page's.
        name: Makes a name that no other block has of one.
        first: Scopes that the page opens with.

    Raises:
        InputError: if it is of another text, model, or other layers.
    """
    raise InputError(
        f"beside is a {type(further).__name__}: expected TokenMaps such as those of ffb.attention_maps or maps.token_maps(), an "
        "attribution, patching or a sweep, a graph, or the card of a memory; one, or a list."
    )
