# Noun: the overview, a target or a text through all layers on one page.
"""`ffb.overview`: page of the attribution of a text's next token, with contribution maps of every layer."""

from typing import Any, SupportsIndex

from tl_ffblock.attribution import attribute
from tl_ffblock.attribution.attribute import Part
from tl_ffblock.attribution.targets import Target
from tl_ffblock.bridge.model import identify
from tl_ffblock.bridge.runs import Tokens
from tl_ffblock.contributions import contribution_maps
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.heads import AskedHeads
from tl_ffblock.metrics import logit
from tl_ffblock.page import PageView, iframe, page
from tl_ffblock.signatures import strict, whole
from tl_ffblock.views.figures import still_of
from tl_ffblock.views.maps import contribution_page

PARTS: tuple[Part, ...] = ("heads", "edges", "neurons", "maps")
"""Values of `of` in `ffb.attribute` that the overview shows."""


@strict
def overview(
    model: Any,
    input: str | Tokens,
    target: Target | None = None,
    *,
    minus: str | SupportsIndex | None = None,
    at: SupportsIndex = -1,
    heads: AskedHeads = False,
) -> PageView:
    """Page of one text: attribution of a target through all layers, heads and neurons, next to the contribution maps.

    Costs three forward passes, one backward pass, and the decompositions. For 15 tokens and 30 layers, the total is about 11 forward
    passes, and the page has 0.34 MB. `.save(path)` writes the page to a file.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        input: One text, or token ids.
        target: A token as text or id, whose logit is attributed, or any target of `ffb.attribute`. None shows maps only.
        minus: Token to subtract, if `target` is a token.
        at: Position where logits are read, if `target` is a token; negative from the end.
        heads: Heads with maps of their own on the page, with lines between tokens; True means all.

    Returns:
        A `PageView`, which a notebook displays.

    Raises:
        InputError: for several texts, or for `minus` or `at` if `target` is not a token.
        FFBlockError: all other errors of `ffb.contribution_maps` and `ffb.attribute`.
    """
    token = isinstance(target, str) or whole(target) is not None
    if not token and (minus is not None or whole(at) != -1):
        raise InputError(f"target={brief(target)}: with minus or at, expected a token such as ' Mary'.")
    known = identify(model)
    asked: Any = logit(target, minus=minus, at=at) if token else target  # type: ignore[arg-type]  # a token
    maps = contribution_maps(known, input, heads=heads)
    several = [*maps] if isinstance(maps, list) else [maps]
    if len(several) > 1:
        raise InputError(f"input={brief(input)}: {len(several)} prompts; expected one text, or the token ids of one.")
    made = [] if target is None else attribute(known, input, asked, of=PARTS)
    beside = made if isinstance(made, list) else [made]
    data = contribution_page(several[0], beside=beside)
    return iframe(page(data, circuitsvis=False), title=data.heading, still=still_of(data))
