# Noun: the overview, a target or a text through all layers on one page.
"""`ffb.overview`: page of the attribution of a text's next token, with contribution maps of every layer."""

from typing import Any, SupportsIndex

from tl_ffblock.attribution import Attribution, attribute, flow_graph
from tl_ffblock.attribution.attribute import Part
from tl_ffblock.attribution.targets import Target
from tl_ffblock.bridge.model import identify
from tl_ffblock.bridge.runs import Tokens
from tl_ffblock.contributions import contribution_maps
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.heads import AskedHeads
from tl_ffblock.metrics import AnswerMetric, logit
from tl_ffblock.page import PageView, iframe, page
from tl_ffblock.results.maps import ContributionMaps
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
    """Page of one text: the attribution of a target in all layers, heads and neurons, and the contribution maps of all layers.

    The page of a logit also has the flow graph of the layer at which it opens. For 15 tokens of SmolLM2 (30 layers) the page has
    0.43 MB and costs the floating-point operations of 20 forward passes; with `heads=True` 1.07 MB and 41 forward passes. In a
    notebook the page is shown as the value of a cell; `.save(path)` writes it.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        input: One text, or token ids.
        target: Token, as text or id, whose logit is attributed, or any target of `ffb.attribute`; None means only the maps.
        minus: Token whose logit is subtracted, if the target is a token.
        at: Position where logits are read, negative ones from the end, if the target is a token.
        heads: Whether the page has maps by attention head; or head numbers.

    Returns:
        A `PageView`: shown in a notebook, with `html` and `save`.

    Raises:
        InputError: for several texts, or `minus` and `at` without a token.
        FFBlockError: all errors of `ffb.contribution_maps`, `ffb.attribute` and `ffb.flow_graph`.
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
    data = contribution_page(several[0], beside=[] if target is None else panels(known, input, asked, several[0]))
    return iframe(page(data, circuitsvis=False), title=data.heading, still=still_of(data))


def panels(model: Any, input: str | Tokens, target: Target, maps: ContributionMaps) -> list[Any]:
    """Results of a target for the page of its maps: the attribution, and of logits the flow graph of the opening layer."""
    made: Any = attribute(model, input, target, of=PARTS)
    attribution: Attribution = made[0] if isinstance(made, list) else made
    if not isinstance(target, AnswerMetric):
        return [attribution]
    layer = contribution_page(maps, beside=[attribution]).start.layer
    return [attribution, flow_graph(model, input, layers=layer, position=target.at, target=target)]
