"""AttnLRP (Achtibat et al. 2024) by its authors' package, where that is installed: `pip install --no-deps lxt==2.1`.

For comparison alone: the rules are not part of this package, and lxt's licence grants no patent rights. It patches classes of
transformers for a Llama that is loaded once more; the patches are taken back after each call, since the bridge runs the same
classes. Three things keep lxt 2.1 from running with transformers 5 as it is, and are gone round here:

1. its packages import every model, BERT by a helper that transformers no longer has and a vision model by torchvision: they
   stand in `sys.modules` as empty packages, so that its files for Llama are imported alone;
2. it puts a plain dictionary in the place of `ALL_ATTENTION_FUNCTIONS`, which has a method there: it is put back, and attention is
   the eager function, which lxt patches as well.
"""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from docs.results.faithfulness_sets import Example
from tl_ffblock.bridge.conversion import kept
from tl_ffblock.bridge.loading import SHIPPED


def there() -> bool:
    """Whether the package is installed."""
    return importlib.util.find_spec("lxt") is not None


def attnlrp(model: Any, example: Example) -> Tensor:
    """Relevance of each token's embedding: embedding times what lxt's backward pass gives."""
    own = of_transformers()
    with _patched():
        embedded = own.get_input_embeddings()(example.tokens[None]).detach().requires_grad_()
        logits = own(inputs_embeds=embedded, use_cache=False).logits
        (relevance,) = torch.autograd.grad(example.target(logits).sum(), embedded)
    with torch.no_grad():
        torch.testing.assert_close(logits.detach(), model(example.tokens[None]), rtol=1e-3, atol=1e-3)
    return (embedded.detach() * relevance)[0].sum(dim=-1)


@lru_cache(maxsize=1)
def of_transformers() -> Any:
    """SmolLM2 as transformers has it, from the folder to which `ffb.load_model` has converted it."""
    from transformers import LlamaForCausalLM

    shipped = SHIPPED["smollm2"]
    folder = kept(shipped.weights(), shipped.name)
    assert folder is not None, "load the model once with ffb.load_model"
    own = LlamaForCausalLM.from_pretrained(folder, attn_implementation="eager", use_safetensors=True)
    return own.eval().requires_grad_(False)


@contextmanager
def _patched() -> Iterator[None]:
    """AttnLRP's patches in transformers' Llama."""
    from torch.nn import Dropout
    from transformers.models.llama import modeling_llama

    spec = importlib.util.find_spec("lxt")
    assert spec is not None and spec.origin is not None
    for name in ("lxt.efficient", "lxt.efficient.models"):
        package = ModuleType(name)
        package.__path__ = [str(Path(spec.origin).parent.joinpath(*name.split(".")[1:]))]
        sys.modules.setdefault(name, package)
    from lxt.efficient.models.llama import attnLRP

    names = (modeling_llama, "eager_attention_forward"), (modeling_llama, "ALL_ATTENTION_FUNCTIONS")
    forwards = tuple((owner, "forward") for owner in (modeling_llama.LlamaMLP, modeling_llama.LlamaRMSNorm, Dropout))
    before = [(owner, name, getattr(owner, name)) for owner, name in names + forwards]
    try:
        for target, patch in attnLRP.items():
            assert patch(target), f"lxt could not patch {target}"
        modeling_llama.ALL_ATTENTION_FUNCTIONS = before[1][2]
        yield
    finally:
        for owner, name, was in before:
            setattr(owner, name, was)
