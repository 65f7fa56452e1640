"""Scores of heads by their names: plain TransformerLens code on the same tokens, its head detector, and heads whose score is known."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from transformer_lens import head_detector

import tl_ffblock as ffb
from tests import tiny
from tests.cases import Case, processed
from tl_ffblock.errors import InputError
from tl_ffblock.heads import AttentionHeadScores, copy_scores, repeated_tokens

LENGTH, SEQUENCES = 8, 2
SCORES: dict[str, tuple[Callable[..., AttentionHeadScores], int, int]] = {
    "induction": (ffb.heads.induction_scores, LENGTH - 1, LENGTH),
    "previous_token": (ffb.heads.previous_token_scores, 1, 1),
    "duplicate_token": (ffb.heads.duplicate_token_scores, LENGTH, LENGTH),
}
"""By name the function, how far back a head attends, and the first query."""


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("case", [Case("gpt2"), Case("llama"), Case("bert"), Case("gptj")], ids=str)
def test_scores_are_those_of_plain_code(case: Case, name: str) -> None:
    """Means of diagonals of TransformerLens's patterns over the second half; `detect_head` is what its detector computes."""
    model = case.model()
    call, back, first = SCORES[name]
    result = call(model, length=LENGTH, n=SEQUENCES, seed=3)
    tokens = repeated_tokens(model, LENGTH, SEQUENCES, seed=3)
    assert tokens.shape == (SEQUENCES, 2 * LENGTH) and torch.equal(tokens[:, :LENGTH], tokens[:, LENGTH:])
    _, cache = model.run_with_cache(tokens)
    expected = getattr(head_detector, f"get_{name}_head_detection_pattern")
    measure: dict[str, Any] = {"exclude_bos": False, "exclude_current_token": False, "error_measure": "mul"}
    for layer in range(model.cfg.n_layers):
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"]
        diagonal = pattern.diagonal(-back, -2, -1)[..., first - back :]  # [sequence head query]
        torch.testing.assert_close(result.by_prompt[:, layer], diagonal.mean(dim=-1))
        for number, own in enumerate(tokens):
            for head in range(model.cfg.n_heads):
                score = head_detector.compute_head_attention_similarity_score(
                    pattern[number, head], expected(own).to(pattern), **measure
                )
                assert float(result.detect_head[number, layer, head]) == pytest.approx(score, abs=1e-6)
    frame = result.to_dataframe()
    assert list(frame.columns) == ["kind", "layer", "head", "value", "low", "high", "n", "detect_head"]
    assert frame.value.to_numpy() == pytest.approx(result.values.flatten().numpy())


def test_tokens_are_as_the_model_reads_them(tmp_path: Any) -> None:
    """BOS first, no special token among those drawn, each once in a half; the same seed gives the same; too many are refused."""
    words = " ".join(f"w{number}" for number in range(30))
    model = ffb.load_model(str(tiny.save_local("llama", tmp_path / "model", [words])))
    tokens = repeated_tokens(model, 10, 3)
    bos = model.to_tokens("w1")[0, 0]
    assert tokens.shape == (3, 21) and bool((tokens[:, 0] == bos).all())
    assert torch.equal(tokens[:, 1:11], tokens[:, 11:]) and all(len(set(row.tolist())) == 10 for row in tokens[:, 1:11])
    assert not set(tokens[:, 1:].flatten().tolist()) & set(model.tokenizer.all_special_ids)
    assert torch.equal(tokens, repeated_tokens(model, 10, 3)) and not torch.equal(
        tokens, repeated_tokens(model, 10, 3, seed=1)
    )
    result = ffb.heads.induction_scores(model, length=10, n=3)
    _, cache = model.run_with_cache(tokens)
    queries = torch.arange(11, 21)
    torch.testing.assert_close(result.by_prompt[:, 1], cache["pattern", 1][..., queries, queries - 9].mean(dim=-1))
    with pytest.raises(InputError, match="length=40"):
        repeated_tokens(model, 40)


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma2"])
def test_copy_scores_are_those_of_the_paper(family: str, negative: bool) -> None:
    """The published code on folded weights: first layer's output, norm, W_V, W_O, final norm, unembedding; the name among the top k."""
    case = Case(family)
    prompts, at, k = torch.stack([case.tokens(6, seed) for seed in range(8)]), [1, 2, 3, 4, 5, 1, 2, 3], 12
    result = copy_scores(case.model(), prompts, at, k=k, negative=negative)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folded = processed(
            case.fresh(), fold_ln=True, center_writing_weights=False, center_unembed=False, fold_value_biases=False
        )
    sign = -1 if negative else 1
    _, cache = folded.run_with_cache(prompts)
    names = cache["blocks.0.hook_resid_post"][range(8), at]
    for layer, block in enumerate(folded.blocks):
        for head in range(folded.cfg.n_heads):
            found = sign * written(block, names, head)
            logits = folded.unembed(folded.ln_final(found[None]))[0]
            best = logits.topk(k).indices
            hits = (best == prompts[range(8), at][:, None]).any(dim=-1)
            assert result.by_prompt[:, layer, head].tolist() == hits.float().tolist()
    assert 0 < float(result.values.mean()) < 1
    assert result.detect_head is None and "detect_head" not in result.to_dataframe()


def written(block: Any, x: Tensor, head: int) -> Tensor:
    """What a head writes where it attends to x alone."""
    attention = block.attn
    shared = attention.W_O.shape[0] // attention.W_V.shape[0]
    bias = 0 if attention.b_V is None else attention.b_V.reshape(attention.W_V.shape[0], -1)[head // shared]
    out = (block.ln1(x[None])[0] @ attention.W_V[head // shared] + bias) @ attention.W_O[head]
    return block.ln1_post(out[None])[0] if hasattr(block, "ln1_post") else out
