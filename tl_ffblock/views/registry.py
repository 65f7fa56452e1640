"""Page, figure and panel of a result by its type: single-dispatch functions, in which the modules of this package register.

Register a function for a class of your own:

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
        result: Any result; the page of a type that is not registered is its table.
        **options: Options of the page, such as where it opens, by the type of the result.

    Raises:
        InputError: if there is no page of such an object, or an option does not fit it.
    """
    raise InputError(f"there is no page of type {type(result).__name__}: expected a result.")


@singledispatch
def figure_of(result: Any, **options: Any) -> Any:
    """A Matplotlib figure of a result.

    Args:
        result: Any result; the figure of a type that is not registered is its page's opening view.
        **options: Options of the figure, by the type of the result.

    Raises:
        InputError: if there is no figure of such an object, or an option does not fit it.
        ModuleNotFoundError: if Matplotlib is not installed.
    """
    raise InputError(f"there is no figure of type {type(result).__name__}: expected a result.")


@singledispatch
def panel_of(
    further: Any, maps: Any, text: PageText, name: Callable[[str], str], first: Sequence[str]
) -> Mapping[str, PageBlock]:
    """Panel of a further result next to maps: blocks of their page, by name.

    Args:
        further: Any object whose type is registered.
        maps: `ContributionMaps` or `TokenMaps` of the page.
        text: Text of the page.
        name: Makes a name unique among the page's blocks.
        first: Scopes of the page's opening view.

    Raises:
        InputError: if the type is not registered, or the result is of another text or model, or of other layers.
    """
    raise InputError(
        f"beside is of type {type(further).__name__}: expected TokenMaps such as those of ffb.attention_maps or maps.token_maps(), an "
        "attribution, a result of patching or a sweep, a graph, or the card of a memory; one, or a list."
    )
