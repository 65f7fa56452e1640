"""The random-weight models of the golden maps, rebuilt from configuration and seed.

1. `randomise` fills the parameters of a Hugging Face model in the order of their names, with one generator.
2. `build` checks the digest of the float32 weights: other weights than those of the stored maps are an error.
3. `bridge` wraps the model. Where maps were made of a model without a head, a head is put on it that TransformerLens
   knows; the maps do not reach it.
"""

import copy
import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn
from transformer_lens.model_bridge.sources import build_bridge_from_module

FOLDER = Path(__file__).resolve().parent
INDEX: dict[str, Any] = json.loads((FOLDER / "index.json").read_text())
CASES: list[dict[str, Any]] = INDEX["random"]
ROTARY = ("llama", "glm4", "gptj", "olmo2")
"""Cases whose rotary tables Hugging Face makes in float32, whatever the weights are."""


class OtherWeights(Exception):
    """The recipe gives other weights here than those of the stored maps."""


def stored(name: str) -> dict[str, Tensor]:
    """The arrays of one case by name; README.md beside this file says what they are."""
    with np.load(FOLDER / f"{name}.npz") as file:
        return {key: torch.from_numpy(array) for key, array in file.items()}


def randomise(model: nn.Module, seed: int) -> None:
    """Overwrite every parameter, names sorted, z standard normal.

    Biases 0.1 z, gains of norms 1 + 0.25 z, embeddings 0.5 z, matrices 1.5 z / sqrt(number of inputs).
    """
    generator = torch.Generator().manual_seed(seed)
    kinds = {f"{name}.weight": type(module).__name__ for name, module in model.named_modules()}
    for name, parameter in sorted(model.named_parameters()):
        z = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
        if name.endswith("bias"):
            values = 0.1 * z
        elif parameter.dim() == 1:
            values = 1.0 + 0.25 * z
        elif kinds[name] == "Embedding":
            values = 0.5 * z
        else:
            n_inputs = parameter.shape[0 if kinds[name] == "Conv1D" else -1]
            values = z * 1.5 / math.sqrt(n_inputs)
        with torch.no_grad():
            parameter.copy_(values)


def digest(model: nn.Module) -> str:
    """SHA-256 of names and float32 values of all parameters, names sorted."""
    sha = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        sha.update(name.encode())
        sha.update(parameter.detach().contiguous().numpy().tobytes())
    return sha.hexdigest()


def build(case: Mapping[str, Any]) -> Any:
    """The Hugging Face model of a case in float32, with the very weights that the maps were made of."""
    config = getattr(transformers, case["config_class"])(**copy.deepcopy(case["config"]))
    model = getattr(transformers, case["model_class"])(config, **case.get("options", {}))
    randomise(model, case["seed"])
    if (made := digest(model)) != case["weights_sha256"]:
        raise OtherWeights(
            f"{case['name']}: the recipe's weights have digest {made[:12]}, those of the stored maps "
            f"{case['weights_sha256'][:12]} (made with torch {INDEX['torch']}, transformers {INDEX['transformers']}; here "
            f"{torch.__version__}, {transformers.__version__}). Maps of other weights say nothing: find what changed."
        )
    return model.eval()


def bridge(case: Mapping[str, Any], dtype: torch.dtype) -> Any:
    """A TransformerBridge of a case, which computes attention step by step ("eager")."""
    model, architecture = build(case), case.get("head_class", case["model_class"])
    if "head_class" in case:
        headed = getattr(transformers, architecture)(model.config)
        headed.base_model.load_state_dict(model.state_dict())
        model = headed
    model.set_attn_implementation("eager")
    model.config.architectures = [architecture]
    return build_bridge_from_module(model.to(dtype).eval(), architecture, hf_config=model.config).eval()
