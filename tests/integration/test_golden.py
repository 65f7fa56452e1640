"""Stored maps of random-weight models, made by an implementation that shares no code with this one.

The models, maps and the recipe that rebuilds the weights lie beside the repository in ../shared/golden.
"""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from tests.tolerances import GOLDEN_FLOAT32, GOLDEN_FLOAT64, GOLDEN_ROTARY

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "golden"
INDEX = json.loads((FOLDER / "index.json").read_text())["cases"] if FOLDER.is_dir() else []
CASES = [case for case in INDEX if case["model"].startswith("rand_")]

pytestmark = pytest.mark.skipif(not CASES, reason="no golden maps at ../shared/golden")


def _recipe() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_recipe", FOLDER / "recipe.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _bridge(name: str, dtype: torch.dtype) -> Any:
    """The recipe's base model under a head that TransformerLens knows; the maps do not reach the head."""
    import transformers
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    base = _recipe().build(name)
    head = "BertForMaskedLM" if "bert" in name else type(base).__name__.removesuffix("Model") + "LMHeadModel"
    head = head.replace("LlamaLMHeadModel", "LlamaForCausalLM")
    model = getattr(transformers, head)._from_config(base.config, attn_implementation="eager")
    model.base_model.load_state_dict(base.state_dict())
    model.config.architectures = [head]
    return build_bridge_from_module(model.to(dtype).eval(), head, hf_config=model.config).eval()


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_maps_are_the_golden_ones(ffb: ModuleType, case: dict[str, Any], dtype: torch.dtype) -> None:
    """Every cell and every bias of every scope and layer, relative; cells that are zero there are zero here."""
    if dtype == torch.float32:
        tolerance = GOLDEN_FLOAT32
    else:
        tolerance = GOLDEN_ROTARY if "llama" in case["model"] else GOLDEN_FLOAT64
    with np.load(FOLDER / case["file"]) as file:
        stored = dict(file)
    maps = ffb.contribution_maps(_bridge(case["model"], dtype), torch.tensor(case["input_ids"]))
    checked = 0
    for scope in case["scopes"]:
        for layer in range(case["layers"]):
            expected = torch.from_numpy(stored[f"L{layer}.{scope}"])
            found = torch.cat([maps[scope, layer], maps.bias[scope, layer][:, None]], dim=1).double()
            assert (found[expected == 0] == 0).all()
            filled = expected != 0
            error = ((found - expected).abs() / expected)[filled].max()
            assert error < tolerance, f"{scope}, layer {layer}: {error:.1e}"
            checked += 1
    assert checked == len([name for name in stored if name.startswith("L")])
