# Noun: the overview, a target or a text through all layers on one page.
"""`ffb.overview`: one call from a text, and a question about its next token, to the whole page."""

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
"""What of a target's attribution the overview shows."""


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
    """The page of one text: what made a target, through all layers, heads and neurons, beside the maps of every layer.

    Two forward passes and one backward pass, beside the decomposition: for 15 tokens of a model of 30 layers about 11 forward
    passes, and a page of 0.34 MB. In a notebook the value of a cell is shown; `.save(path)` writes it.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        input: One text, or token ids.
        target: A token, as text or id, whose logit is explained, or any target of `ffb.attribute`; None shows the maps alone.
        minus: With a token: another, whose logit is subtracted.
        at: With a token: the position where logits are read, negative ones from the end.
        heads: Whether maps by attention head are on the page, too, with lines between tokens; or some numbers.

    Raises:
        InputError: for several texts, or `minus` and `at` without a token.
        FFBlockError: whatever else `ffb.contribution_maps` and `ffb.attribute` raise.
    """
    token = isinstance(target, str) or whole(target) is not None
    if not token and (minus is not None or whole(at) != -1):
        raise InputError(f"target={brief(target)}: minus and at go with a token, such as ' Mary'.")
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
