"""The same attention drawn by BertViz and by the page: the same numbers at the same tokens."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.page import node
from tl_ffblock.errors import InputError
from tl_ffblock.page.document import to_json
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.views.maps import token_maps_page

TOKENS = ["[CLS]", "the", "cat", "s", "##at"]
STORED = Path(__file__).with_name("bertviz.json")
"""What the page of `bertviz.head_view` of BertViz 1.4.1 holds for `attention(causal)`, by "causal" and "both"."""


def attention(causal: bool) -> list[torch.Tensor]:
    """Two layers of three heads, [1 head query key]."""
    scores = torch.randn(2, 1, 3, 5, 5, generator=torch.Generator().manual_seed(7))
    scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf) if causal else scores
    return list(scores.softmax(-1))


@node.needs_node
@pytest.mark.parametrize("causal", [True, False])
def test_the_page_holds_the_numbers_that_bertviz_draws(causal: bool) -> None:
    """Head by head and cell by cell within the page's rounding, which it states; what a causal model cannot reach is none."""
    theirs = json.loads(STORED.read_text())["causal" if causal else "both"]
    maps = TokenMaps.from_attention(attention(causal), TOKENS)
    np.testing.assert_array_equal(maps.values.numpy(), np.array(theirs["attn"], dtype=np.float32))
    assert maps.causal == causal
    page = json.loads(to_json(token_maps_page({"run": maps}).payload()))
    script = """const { data } = await open();
        return data.layers.map((layer) => [...data.channels.keys()].map((head) => plain(data.matrix(0, head, layer))));"""
    ours = np.array(node.run(script, payload=page), dtype=float).reshape(2, 3, 5, 5)
    np.testing.assert_allclose(np.nan_to_num(ours), theirs["attn"], rtol=page["precision"], atol=0)
    assert np.isnan(ours).sum() == (2 * 3 * 10 if causal else 0)
    assert page["runs"][0]["tokens"] == theirs["left_text"] == theirs["right_text"]


def test_attention_is_taken_in_either_form() -> None:
    """With the batch of one or without, tensors or arrays; a view of heads opens."""
    given = attention(True)
    maps = TokenMaps.from_attention(given, TOKENS)
    assert TokenMaps.from_attention([weights[0] for weights in given], TOKENS).values.equal(maps.values)
    assert maps["head 2", 1].equal(given[1][0, 2])
    assert '"view":"heads"' in maps.to_html(view="heads")
    assert not TokenMaps.from_attention(given, TOKENS, causal=False).causal


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("given", "options", "says"),
    [
        ([], {}, "0 layers of shapes none"),
        (attention(True), {"tokens": TOKENS[:4]}, "with 4 queries and keys"),
        ([torch.ones(2, 3, 5, 5)], {}, r"\(2, 3, 5, 5\)"),
        ([torch.ones(1, 3, 5, 5), torch.ones(1, 2, 5, 5)], {}, "the same in every layer"),
        ([-torch.ones(1, 3, 5, 5)], {}, "negative weights or NaN"),
        (attention(False), {"causal": True}, "some weights of later tokens"),
    ],
)
def test_attention_that_fits_no_tokens_is_refused(given: Any, options: dict[str, Any], says: str) -> None:
    """Rather than drawn under the wrong labels."""
    with pytest.raises(InputError, match=says):
        TokenMaps.from_attention(given, **{"tokens": TOKENS, **options})
