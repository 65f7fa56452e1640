"""A continuation's rows are each token's own attribution, and what the model says itself is what it says."""

from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.attribution.conftest import double
from tests.cases import model_of

SINE = ("blocks.1.hook_resid_post", lambda tensor, hook: tensor + 2.0 * torch.sin(torch.arange(tensor.shape[-1])))
"""A hook that adds the same to every stream."""


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma2", "qwen2_moe", "opt", "granite"])
def test_rows_are_the_tokens_own_attributions(family: str) -> None:
    """All at once from one forward pass, as one by one from the prompt before each; nothing comes from behind."""
    model, tokens = double(family), tiny.tokens(family, 8)
    result = ffb.attribute_continuation(model, tokens[:5].tolist(), tokens[5:].tolist())
    assert result.shares.shape == (3, 8)
    for row in range(3):
        alone = ffb.attribute(model, tokens[: 5 + row], ffb.logit(int(tokens[5 + row])), of="heads")
        expected = alone.tokens + alone.positions
        assert (result.shares[row, : 5 + row] - expected).abs().max() < 1e-10 * expected.abs().max()
        assert result.shares[row, 5 + row :].isnan().all(), "no token is a source of itself or of earlier ones"
        assert float(result.biases[row]) == pytest.approx(sum(alone.biases.values()), abs=1e-12)
        assert float(result.values[row]) == pytest.approx(alone.value)
        assert result.residual is not None and result.heads is not None and result.constants is not None
        torch.testing.assert_close(result.residual[row, :, : 5 + row], alone.residual)
        assert not result.residual[row, :, 5 + row :].any()
        torch.testing.assert_close(result.heads[row], alone.heads.sum(dim=-1))
        for entry, of_layer in enumerate(result.constants[row].tolist(), -1):
            named = zip(alone.bias_layers, alone.biases.values(), strict=True)
            assert of_layer == pytest.approx(sum(share for layer, share in named if layer == entry), abs=1e-12)


@pytest.mark.usefixtures("float64_throughout")
def test_generated_tokens_are_the_most_probable() -> None:
    """And their log-probabilities are the model's; shares sum to logit minus mean logit.

    In float64: in float32 the errors are 0.7e-6 to 1.7e-6, by machine.
    """
    model, tokens = double("gpt2"), tiny.tokens("gpt2", 5)
    result = ffb.attribute_continuation(model, tokens.tolist(), generate=3, reading="log probability")
    said = torch.tensor([int(label) for label in result.labels])
    with torch.no_grad():
        logs = model(said[None])[0].log_softmax(-1)
    assert said[5:].tolist() == logs[4:7].argmax(-1).tolist()
    torch.testing.assert_close(result.values, logs[4:7].amax(-1))
    entropy = -(logs.exp() * logs).sum(-1)[4:7]
    torch.testing.assert_close(result.first_order, result.values + entropy, rtol=1e-9, atol=1e-9)
    assert float(result.errors.max()) < 1e-12


def test_a_users_hook_is_in_every_run() -> None:
    """What it brings is listed row by row, and what is generated is what the edited model says."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 5)
    result = ffb.attribute_continuation(model, tokens.tolist(), generate=2, fwd_hooks=[SINE])
    with torch.no_grad():
        logits = model.run_with_hooks(tokens[None], fwd_hooks=[SINE])
    assert int(result.labels[5]) == int(logits[0, -1].argmax())
    assert result.edits.abs().min() > 1e-4
    assert float(result.errors.max()) < 1e-6


@pytest.mark.parametrize("rules", ["path", "patching"])
@pytest.mark.parametrize("reading", ["logit", "log probability"])
def test_the_shares_of_a_row_sum_to_its_value(reading: str, rules: str) -> None:
    """In maps, the table and what is printed: biases, edits, what is nonlinear and what rules leave out are beside the tokens."""
    tokens = tiny.tokens("gpt2", 6).tolist()
    options: dict[str, Any] = {"reading": reading, "rules": rules, "fwd_hooks": [SINE]}
    result = ffb.attribute_continuation(model_of("gpt2"), tokens[:4], tokens[4:], **options)
    maps, frame = result.token_maps(), result.to_dataframe()
    assert maps.signed
    torch.testing.assert_close(maps["share", 0], result.shares, rtol=0, atol=0, equal_nan=True)
    assert maps["share", 0].isnan().sum() == 1 + 2 and not maps.to_dataframe()["value"].isna().any()
    of_tokens = frame[frame["kind"] == "token"]
    assert len(of_tokens) == 4 + 5
    assert of_tokens["value"].sum() == pytest.approx(float(result.shares.nansum()), rel=1e-5)
    kinds = {"token", "biases", "edits"} | ({"nonlinear"} if reading != "logit" else set())
    assert set(frame["kind"]) == kinds | ({"not attributed"} if rules != "path" else set())
    assert frame.groupby("query")["value"].sum().tolist() == pytest.approx(result.values.tolist(), abs=2e-5)
    for row, line in enumerate(repr(result).splitlines()[1:]):
        value, sums = line.split(" = ")
        assert float(value.split()[-1]) == pytest.approx(float(result.values[row]), rel=5e-3)
        named = dict(summand.rsplit(" ", 1) for summand in sums.split("   ")[0].split(" · "))
        assert set(named) == (set(frame["kind"]) - {"token"}) | {"tokens"}
        assert sum(map(float, named.values())) == pytest.approx(float(result.values[row]), abs=0.05)


def test_text_goes_on_where_the_prompt_ends(tmp_path: Any) -> None:
    """A continuation as text has no mark of a sequence's begin."""
    model = ffb.load_model(str(tiny.save_local("gpt2", tmp_path, ["she likes him"])))
    result = ffb.attribute_continuation(model, "she likes", " him")
    assert result.targets == ("him",)
    assert result.n_prompt == 3
