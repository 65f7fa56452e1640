"""`neurons`: which neurons of a feed-forward carry the contribution of one token to another.

Opens a run, takes one layer's record, and asks the closed form (layer/neurons.py) row by row. A row is refused where its parts
do not sum to the model's tensor, or the neurons' shares not to what they share.
"""

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex, Unpack, overload

import torch
from jaxtyping import Int
from torch import Tensor

from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.runs import DEFAULTS, CallOptions, Ids, Texts, Tokens, open_run
from tl_ffblock.contributions import certify
from tl_ffblock.errors import CompletenessError
from tl_ffblock.layer.neurons import RowNeurons, neuron_name, neurons_of_row
from tl_ffblock.layer.positions import ChosenPositions, NamedPositions, chosen_positions, whole_number
from tl_ffblock.layer.records import LayerRecord, Settings
from tl_ffblock.layer.scopes import feed_step
from tl_ffblock.results.neuron_table import NeuronShares
from tl_ffblock.signatures import spelled_out


@overload
def neurons(
    model: Any,
    input: str | Ids,
    *,
    layer: SupportsIndex,
    query: ChosenPositions,
    key: ChosenPositions = ...,
    k: int = ...,
    positions: NamedPositions | None = ...,
    **options: Unpack[CallOptions],
) -> NeuronShares: ...
@overload
def neurons(
    model: Any,
    input: Texts,
    *,
    layer: SupportsIndex,
    query: ChosenPositions,
    key: ChosenPositions = ...,
    k: int = ...,
    positions: NamedPositions | None = ...,
    **options: Unpack[CallOptions],
) -> list[NeuronShares]: ...
@overload
def neurons(
    model: Any,
    input: Tokens,
    *,
    layer: SupportsIndex,
    query: ChosenPositions,
    key: ChosenPositions = ...,
    k: int = ...,
    positions: NamedPositions | None = ...,
    **options: Unpack[CallOptions],
) -> Any: ...
@spelled_out(CallOptions, DEFAULTS)
def neurons(
    model: Any,
    input: str | Texts | Ids | Tokens,
    *,
    layer: SupportsIndex,
    query: ChosenPositions,
    key: ChosenPositions = None,
    k: int = 20,
    positions: NamedPositions | None = None,
    **options: Unpack[CallOptions],
) -> NeuronShares | list[NeuronShares]:
    """Which neurons of a layer's feed-forward carry the contribution of token `key` to position `query`.

    `F_i(x_j) = sum_n m_n(j) v_n` at the feed-forward's output (eq. 12-14, by neuron): v_n is neuron n's value, its row of W_out,
    m_n(j) the token's share of its coefficient. Along the direction of `F_i(x_j)` each neuron has a signed share, and they sum to
    the norm that `contribution_maps` has in this cell.

    Args:
        model: As in `contribution_maps`.
        input: A text, a list of texts, or token ids.
        layer: One layer number, negative from the end.
        query: Positions that receive, or names of `positions`.
        key: Positions that give, likewise; None means all.
        k: How many neurons of a cell tables name; the result holds all.
        positions: Names that align prompts of a list, each one position for all or one a prompt: {"IO": [4, 2], "END": -1}.
        **options: As in `contribution_maps`: attention_mask, token_type_ids, fwd_hooks, cache, method, n_steps,
            value_bias, rtol, precision.

    Returns:
        One result for a text or [pos] tokens; a list for a list of texts or a [batch, pos] tensor. Coefficients and shares
        are of every neuron; of a mixture of experts of those experts that a query was sent to.

    Raises:
        InputError: for input, positions or options that cannot be used.
        UnsupportedModelError: if the model's layers have no feed-forward.
        CompletenessError: if parts do not sum to the model's tensor, or neurons' shares not to the norm and the coefficients.
    """
    whole_number(k, "k", at_least=1)
    run = open_run(model, input, layers=[operator.index(layer)], **options)
    run.settings.refuse_rounding("neurons")
    feed_step(run.model.family.order)
    lengths = [len(sequence.tokens) for sequence in run.sequences]
    rows, columns = (
        chosen_positions(asked, name, lengths, positions)[1] for asked, name in ((query, "query"), (key, "key"))
    )

    def measure(record: LayerRecord, number: int) -> NeuronShares:
        labels, at = run.sequences[number].labels, (rows[number], columns[number])
        return _of_sequence(run.model, record, run.settings, at, labels, k)

    return run.as_asked(result for layers in run.by_layer(measure) for result in layers.values())


def _of_sequence(
    model: Model,
    record: LayerRecord,
    settings: Settings,
    cells: tuple[Sequence[int], Sequence[int]],
    tokens: tuple[str, ...],
    k: int,
) -> NeuronShares:
    queries, keys = cells
    columns = torch.tensor(keys, device=record.resid_pre.device)
    rows = [record.rows(torch.tensor([query], device=columns.device)) for query in queries]
    scope = feed_step(record.block.order).scope
    found = [neurons_of_row(row, settings, columns) for row in rows]
    for row, of_row in zip(rows, found, strict=True):
        certify(model, row, {scope: of_row.feed.error(row.whole[scope])}, settings)
        _refuse_wrong_sums(model, row, of_row, settings)
    union = torch.unique(torch.cat([of_row.numbers for of_row in found]))

    def stacked(name: str) -> Tensor:
        return torch.stack([_in_columns(getattr(of_row, name), of_row, union) for of_row in found]).detach().cpu()

    return NeuronShares(
        shares=stacked("shares"),
        token_shares=stacked("token_shares"),
        coefficients=stacked("coefficients"),
        bias_shares=stacked("bias_shares"),
        norms=torch.stack([of_row.norms for of_row in found]).detach().cpu(),
        share_error=torch.stack([of_row.share_errors for of_row in found]).detach().cpu(),
        coefficient_error=torch.tensor([of_row.coefficient_error for of_row in found]),
        names=tuple(neuron_name(record.block, number) for number in union.tolist()),
        layer=record.layer,
        scope=scope,
        tokens=tokens,
        queries=tuple(queries),
        keys=tuple(keys),
        model=model.name,
        k=k,
    )


def _in_columns(values: Tensor, of_row: RowNeurons, union: Int[Tensor, " neuron"]) -> Tensor:
    columns = values.new_zeros(*values.shape[:-1], len(union))
    columns[..., torch.searchsorted(union, of_row.numbers)] = values
    return columns


def _refuse_wrong_sums(model: Model, record: LayerRecord, of_row: RowNeurons, settings: Settings) -> None:
    for what, error in (
        ("neurons' shares miss the contribution's norm", float(of_row.share_errors.max())),
        ("tokens' shares miss the neurons' coefficients", of_row.coefficient_error),
    ):
        if not error <= settings.rtol:
            raise CompletenessError(
                f"{model.name}, layer {record.layer}, query {int(record.queries[0])}: {what} by {error:.1e} (tolerance "
                f"{settings.rtol:.0e}). Half-precision or very large activations may need a higher rtol or a float32 model."
            )
