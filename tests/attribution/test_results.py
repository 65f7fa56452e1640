"""Results of the package attribution: columns of tables, lists, targets by a token, differences of checkpoints."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tl_ffblock.result import Results

N = 6
TOKENS = ["position", "token"]
MADE: dict[str, tuple[Callable[[ModuleType, Any, Tensor], Any], list[str]]] = {
    "attribution": (
        lambda ffb, model, ids: ffb.attribute(
            model, ids, ffb.logit(7), of=("heads", "edges", "neurons", "maps", "graph")
        ),
        ["kind", "layer", "position", "name", "value"],
    ),
    "difference": (
        lambda ffb, model, ids: ffb.attribute(model, ids, 7, of=()) - ffb.attribute(model, ids, 9, of=()),
        ["kind", "layer", "position", "name", "value"],
    ),
    "continuation": (
        lambda ffb, model, ids: ffb.attribute_continuation(model, ids.tolist(), [7, 9], reading="log probability"),
        ["kind", "query", "key", "query_token", "key_token", "value"],
    ),
    "estimates": (
        lambda ffb, model, ids: ffb.attribution_patching(model, ids, ids.flip(0), ffb.logit(7), maps=True, edges=True),
        ["kind", "layer", "head", *TOKENS, "value"],
    ),
    "average": (
        lambda ffb, model, ids: ffb.average_shares(ffb.attribute(model, torch.stack([ids, ids.flip(0)]), 7)),
        ["layer", "head", "value", "low", "high", "n"],
    ),
    "masking test": (
        lambda ffb, model, ids: ffb.faithfulness(model, ids, 7, {"zeros": torch.zeros(N)}),
        ["method", "measure", "value", "low", "high", "n"],
    ),
}
"""What makes a result, and the columns of its table."""


@pytest.mark.parametrize("made", MADE)
def test_a_table_has_its_columns(ffb: ModuleType, model_of: Callable[..., Any], made: str) -> None:
    """The same word for the same thing in every table."""
    make, columns = MADE[made]
    assert list(make(ffb, model_of("gpt2"), tiny.tokens("gpt2", N)).to_dataframe()) == columns


def test_lists_of_prompts_give_results(ffb: ModuleType, model_of: Callable[..., Any], tmp_path: Path) -> None:
    """One table, one file and a mean; each is what the call for one prompt gives."""
    model, ids = model_of("gpt2"), tiny.tokens("gpt2", N)
    both = torch.stack([ids, ids.flip(0)])
    lists = {
        "attribute": (ffb.attribute(model, both, 7), ffb.attribute(model, ids, 7)),
        "patching": (
            ffb.attribution_patching(model, both, both.flip(0), 7),
            ffb.attribution_patching(model, ids, ids.flip(0), 7),
        ),
        "continuation": (
            ffb.attribute_continuation(model, both.tolist(), [[7], [9, 8]]),
            ffb.attribute_continuation(model, ids.tolist(), [7]),
        ),
        "generated": (
            ffb.attribute_continuation(model, both, generate=2),
            ffb.attribute_continuation(model, ids, generate=2),
        ),
    }
    for name, (results, alone) in lists.items():
        assert isinstance(results, Results) and len(results) == 2, name
        assert list(results[0].labels) == list(alone.labels)
        torch.testing.assert_close(
            results[0].to_dataframe()["value"].sum(), alone.to_dataframe()["value"].sum(), rtol=1e-4, atol=1e-5
        )
        assert set(results.to_dataframe()["prompt"]) == {0, 1}
        assert Results.load(results.save(tmp_path / name)) == results
    mean = lists["attribute"][0].mean()
    assert mean == ffb.Attribution.mean(lists["attribute"][0]) and mean.certificate is None
    with pytest.raises(ffb.errors.InputError, match="expected one for each"):
        ffb.attribute_continuation(model, both.tolist(), [[7]])


def test_a_token_is_a_target(ffb: ModuleType, model_of: Callable[..., Any], tmp_path: Path) -> None:
    """A text or an id is the logit of that token at the last position, wherever a target is taken."""
    from transformer_lens.model_bridge import TransformerBridge

    model = TransformerBridge.boot_transformers(
        str(tiny.save_local("gpt2", tmp_path, ["she likes him", "he likes her"]))
    )
    assert ffb.attribute(model, "she likes", "him") == ffb.attribute(model, "she likes", ffb.logit("him"))
    model, ids = model_of("gpt2"), tiny.tokens("gpt2", N)
    for call in (
        lambda target: ffb.attribute(model, ids, target),
        lambda target: ffb.attribution_patching(model, ids, ids.flip(0), target),
        lambda target: ffb.faithfulness(model, ids, target, {"zeros": torch.zeros(N)}),
    ):
        assert call(7) == call(torch.tensor(7)) == call(ffb.logit(7))


def test_checkpoints_one_of_which_has_no_biases(ffb: ModuleType) -> None:
    """A bias of zeros has no share in the first, and all of its share in the difference; either way round."""
    model, ids = tiny.bridge("gpt2", dtype=torch.float64), tiny.tokens("gpt2", N)
    after = ffb.attribute(model, ids, 7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name and ".1." in name:
                parameter.zero_()
    before = ffb.attribute(model, ids, 7)
    assert 0 < len(before.bias_names) < len(after.bias_names)
    for difference, sign in ((after - before, 1), (before - after, -1)):
        assert set(difference.bias_names) == set(after.bias_names)
        layers = dict(zip(after.bias_names, after.bias_layers, strict=True))
        assert dict(zip(difference.bias_names, difference.bias_layers, strict=True)) == layers
        for name, share in difference.biases.items():
            assert share == pytest.approx(sign * (after.biases[name] - before.biases.get(name, 0.0)))
        assert difference.total() == pytest.approx(difference.value)
    with pytest.raises(ffb.errors.InputError, match="differ in weights"):
        ffb.Attribution.mean([before, after])


def test_former_names_of_a_certificate(ffb: ModuleType, model_of: Callable[..., Any]) -> None:
    """They warn, and are what they were: sums over the first-order form, errors at the inputs of layers."""
    result = ffb.attribute(model_of("gpt2"), tiny.tokens("gpt2", N), ffb.loss(), of=())
    certificate = result.certificate
    with pytest.warns(DeprecationWarning, match="layer_inputs"):
        assert certificate.boundaries is certificate.layer_inputs
    with pytest.warns(DeprecationWarning, match="attributed"):
        assert certificate.handed_out == pytest.approx(result.total() / result.first_order)
