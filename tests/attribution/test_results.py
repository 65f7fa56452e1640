"""Results of the package attribution: columns and rows of tables, lists, targets by a token, differences of checkpoints."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.attribution.conftest import double
from tests.cases import model_of
from tl_ffblock.errors import InputError
from tl_ffblock.result import Results

N = 6
TOKENS = tiny.tokens("gpt2", N)
TABLES = {
    "heads": ["layer", "head", "position", "token", "value"],
    "neurons": ["layer", "neuron", "position", "token", "value"],
    "edges": ["layer", "head", "query", "key", "query_token", "key_token", "value"],
}


@cache
def result() -> Any:
    """Of a float64 GPT-2, with all parts."""
    return ffb.attribute(double("gpt2"), TOKENS, 7, of=("heads", "neurons", "edges", "maps", "graph"))


@cache
def patched() -> Any:
    """Estimates of everything."""
    return ffb.attribution_patching(double("gpt2"), TOKENS, TOKENS.flip(0), 7, maps=True, edges=True)


def continued() -> Any:
    """A continuation of two tokens."""
    return ffb.attribute_continuation(model_of("gpt2"), TOKENS.tolist(), [7, 9], reading="log probability")


def masking() -> Any:
    """A masking test."""
    return ffb.faithfulness(model_of("gpt2"), TOKENS, 7, {"zeros": torch.zeros(N)})


COLUMNS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "attribution": (lambda: result().to_dataframe(), ["kind", "layer", "position", "name", "value"]),
    "difference": (lambda: (result() - result()).to_dataframe(), ["kind", "layer", "position", "name", "value"]),
    "continuation": (
        lambda: continued().to_dataframe(),
        ["kind", "query", "key", "query_token", "key_token", "value"],
    ),
    "estimates": (lambda: patched().to_dataframe(), ["kind", "layer", "head", "position", "token", "value"]),
    "masking test": (lambda: masking().to_dataframe(), ["method", "measure", "value", "low", "high", "n"]),
    "at heads": (
        lambda: result().token_maps("heads").to_dataframe(),
        ["layer", "channel", "position", "token", "value"],
    ),
    **{of: (lambda of=of: result().to_dataframe(of), columns) for of, columns in TABLES.items()},
}
"""A table and its columns."""


@pytest.mark.parametrize("made", COLUMNS)
def test_a_table_has_its_columns(made: str) -> None:
    """The same word for the same thing in every table."""
    make, columns = COLUMNS[made]
    assert list(make()) == columns


@pytest.mark.parametrize("of", TABLES)
def test_a_table_has_every_share_largest_first(of: str) -> None:
    """Of heads and neurons by position, of edges by query and key; what is 0 has no row; a few rows are the largest."""
    table, held = result().to_dataframe(of), result()
    shares = torch.stack([held.neurons(n) for n in range(3)]).mT if of == "neurons" else getattr(held, of)
    places = [column for column in TABLES[of] if column in ("layer", "head", "neuron", "position", "query", "key")]
    for row in table[:200].to_dict("records"):
        assert row["value"] == float(shares[tuple(row[place] for place in places)])
        for place in ("position", "query", "key"):
            label = row.get("token" if place == "position" else f"{place}_token")
            assert place not in row or label == held.labels[row[place]]
    assert len(table) == int(shares.count_nonzero())
    assert table["value"].abs().is_monotonic_decreasing
    assert table["value"].sum() == pytest.approx(float(shares.sum()))
    assert held.to_dataframe(of, 7).equals(table[:7])


def test_summands_are_in_the_texts_order() -> None:
    """They sum to the target, and are sorted for a few of them."""
    summands = result().to_dataframe()
    assert summands["value"].sum() == pytest.approx(result().value)
    assert result().to_dataframe(k=3)["value"].tolist() == sorted(summands["value"], key=abs, reverse=True)[:3]


def test_the_short_form_names_the_largest_heads() -> None:
    """Summed over positions, where heads were asked for; JSON has them by position, and maps say what they hold."""
    by_head = result().heads.sum(-1)
    layer, head = divmod(int(by_head.abs().argmax()), by_head.shape[1])
    (line,) = (line for line in repr(result()).split("\n") if line.startswith("  heads "))
    assert line.split()[1] == f"L{layer}H{head}"
    assert result().to_dict()["heads"] == result().heads.tolist()
    without = ffb.Attribution(**{**vars(result()), "parts": {}})
    assert "  heads " not in repr(without) and "heads" not in without.to_dict()
    shown = "ScopeTable: Attn, Atb, AtbLn, AtbLnFf, AtbLnFfRes · layers 0-2, each [3, 6, 6]"
    assert repr(result().maps) == shown


BOTH = torch.stack([TOKENS, TOKENS.flip(0)])


def test_a_continuation_for_each_prompt() -> None:
    """Each is what the call for one prompt gives; as many as there are prompts."""
    model = model_of("gpt2")
    results = ffb.attribute_continuation(model, BOTH.tolist(), [[7], [9, 8]])
    assert isinstance(results, Results)
    for result, prompt, continuation in zip(results, BOTH, ([7], [9, 8]), strict=True):
        alone = ffb.attribute_continuation(model, prompt.tolist(), continuation)
        assert result.labels == alone.labels
        torch.testing.assert_close(result.shares, alone.shares, rtol=1e-4, atol=1e-5, equal_nan=True)
    with pytest.raises(InputError, match="expected one per prompt"):
        ffb.attribute_continuation(model, BOTH.tolist(), [[7]])


def test_a_token_is_a_target(tmp_path: Path) -> None:
    """A text or an id is the logit of that token at the last position, wherever a target is taken."""
    model = ffb.load_model(str(tiny.save_local("gpt2", tmp_path, ["she likes him", "he likes her"])))
    assert ffb.attribute(model, "she likes", "him") == ffb.attribute(model, "she likes", ffb.logit("him"))
    model = model_of("gpt2")
    for call in (
        lambda target: ffb.attribute(model, TOKENS, target),
        lambda target: ffb.attribution_patching(model, TOKENS, TOKENS.flip(0), target),
        lambda target: ffb.faithfulness(model, TOKENS, target, {"zeros": torch.zeros(N)}),
    ):
        assert call(7) == call(torch.tensor(7)) == call(ffb.logit(7))


def test_checkpoints_one_of_which_has_no_biases() -> None:
    """A bias of zeros has no share in the first, and all of its share in the difference; either way round."""
    model = tiny.bridge("gpt2", dtype=torch.float64)
    after = ffb.attribute(model, TOKENS, 7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name and ".1." in name:
                parameter.zero_()
    before = ffb.attribute(model, TOKENS, 7)
    assert 0 < len(before.bias_names) < len(after.bias_names)
    for difference, sign in ((after - before, 1), (before - after, -1)):
        assert set(difference.bias_names) == set(after.bias_names)
        layers = dict(zip(after.bias_names, after.bias_layers, strict=True))
        assert dict(zip(difference.bias_names, difference.bias_layers, strict=True)) == layers
        for name, share in difference.biases.items():
            assert share == pytest.approx(sign * (after.biases[name] - before.biases.get(name, 0.0)))
        assert difference.total() == pytest.approx(difference.value)
    with pytest.raises(InputError, match="differ in weights"):
        ffb.Attribution.mean([before, after])


def test_former_names_of_an_attribution() -> None:
    """They warn, and are what they were: sums over the first-order form, errors at the inputs of layers."""
    of_loss = ffb.attribute(model_of("gpt2"), TOKENS, ffb.loss(), of=())
    certificate = of_loss.certificate
    with pytest.warns(DeprecationWarning, match="layer_inputs"):
        assert certificate.boundaries is certificate.layer_inputs
    with pytest.warns(DeprecationWarning, match="attributed"):
        assert certificate.handed_out == pytest.approx(of_loss.total() / of_loss.first_order)
    with pytest.warns(DeprecationWarning, match="token_attributions"):
        assert torch.equal(of_loss.entering, of_loss.token_attributions)
