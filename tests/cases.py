"""The registry of models to test on, by the code path that each takes: a law is a function of a case.

A family stands for the others that take its path: `COVERING` are the families whose paths are all that there are, and
every law holds for them in the step `test`. For all families together one law does (`check_model`), and the product of
laws and families is what the slow tests sample. The same weights behind another class of TransformerLens, and models
without some of a layer's parts, are cases too.
"""

import functools
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests import oracle, tiny
from tl_ffblock.bridge.model import identify as identify  # of tests that ask which model a model is

TL_3 = version("transformer-lens").startswith("3.")
COVERING = {
    "gpt2": "norms before (LayerNorm), learned positions, one matrix of queries, keys and values, biases",
    "llama": "RMSNorm, rotary positions, grouped queries, gated, biases",
    "gemma2": "norms on both sides, gain 1 + w, windows, soft caps, heads of another width",
    "gpt_neox": "attention and feed-forward side by side",
    "olmo2": "norms after",
    "qwen2_moe": "experts, one of them shared",
    "gpt_oss": "experts with clamped gates and biases, attention sinks",
    "bert": "norms after the sums, both directions, segments",
}
"""Family -> what of the code it takes that others do not."""
ORDERS = ("gpt2", "llama", "gemma2", "gpt_neox", "olmo2", "bert")
"""Those of them that a law needs which knows nothing of experts."""
SINCE_4 = {
    "roberta": "it has no bridge for RoBERTa",
    "hunyuan": "its bridge normalises queries and keys in the wrong place",
    "cohere": "its bridge rotates queries and keys in the wrong order",
    "cohere2": "its bridge rotates queries and keys in the wrong order",
    "qwen3_next": "its bridge does not say that the gain of its norms is 1 + weight",
    "qwen3_5": "its bridge does not say that the gain of its norms is 1 + weight",
}
"""Families that TransformerLens 3.9 cannot run, or not as Hugging Face does: refused there (test_refusals)."""


FLOAT32_ROUTERS = (
    *("mixtral", "glm4_moe", "phimoe", "minimax_m2", "ernie4_5_moe", "granite_moe"),
    *("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "afmoe", "laguna"),
)
"""Families whose routers, and in Laguna gates, are of float32 in float64 models, too: batches of other sizes round otherwise."""


@dataclass(frozen=True)
class Case:
    """A model to test on."""

    name: str
    """A family of `tests.tiny`, or one of its toys."""
    api: str = "bridge"
    """"hooked": HookedTransformer or HookedEncoder, which TransformerLens 3 alone has."""

    def __str__(self) -> str:
        return self.name if self.api == "bridge" else f"{self.api}-{self.name}"

    @property
    def toy(self) -> bool:
        """Whether a layer lacks some of its parts."""
        return self.name in tiny.TOYS

    def model(self, dtype: torch.dtype = torch.float32) -> Any:
        """The model that all tests share; they leave it as it was."""
        return _shared(self, dtype, ())

    def tokens(self, n: int, seed: int = 0) -> Tensor:
        """Token ids [pos]."""
        return tiny.tokens("gpt2" if self.toy else self.name, n, seed)

    def masked(self, mask: Tensor) -> dict[str, Tensor]:
        """What a forward pass with padding is given."""
        return {"one_zero_attention_mask" if str(self) == "hooked-bert" else "attention_mask": mask}

    def fresh(self, dtype: torch.dtype = torch.float32, **overrides: Any) -> Any:
        """A model of a test's own."""
        if self.api == "bridge" and TL_3 and self.name in SINCE_4:
            pytest.skip(f"TransformerLens 3: {SINCE_4[self.name]}")
        if self.toy:
            return _of_3(tiny.toy, self.name, self.api, **overrides).to(dtype)
        make = tiny.bridge if self.api == "bridge" else functools.partial(_of_3, tiny.hooked)
        return make(self.name, dtype=dtype, **overrides)


def _of_3(make: Any, *arguments: Any, **options: Any) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return make(*arguments, **options)
    except RuntimeError as error:
        pytest.skip(f"no HookedTransformer here: {error}")


APIS = tuple(Case(name, "hooked") for name in ("gpt2", "llama_nobias", "bert"))
TOYS = tuple(Case(name, api) for name in tiny.TOYS for api in ("bridge", "hooked"))
CASES = (*map(Case, COVERING), *APIS, Case("no_norms_gated"), Case("attn_only"), Case("attn_only_no_norms", "hooked"))
"""A law that holds for these holds wherever the code has a branch."""


MIXERS = ("qwen3_5", "bamba", "mamba2", "mamba", "falcon_mamba", "jamba")
"""Families with layers without a softmax. Laws of queries and keys, of patterns and of one number of heads are not theirs: they have
their own in families/test_mixers.py, and rows in the tests that name families."""
EVERY = (
    *CASES,
    *(
        pytest.param(Case(name), marks=pytest.mark.slow)
        for name in tiny.ALL_FAMILIES
        if name not in (*COVERING, *MIXERS)
    ),
)
"""These, and as slow tests the families that they stand for."""


def slow_beyond(families: Iterable[str], quick: Iterable[str] = COVERING) -> list[Any]:
    """Families as parameters: those that take a path of their own, the others as slow tests; all families are those with a softmax."""
    asked = [name for name in families if not (isinstance(families, Mapping) and name in MIXERS)]
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in asked]


_made: list[tuple[Any, dict[str, int]]] = []


@functools.cache
def _shared(case: Case, dtype: torch.dtype, overrides: tuple[tuple[str, Any], ...]) -> Any:
    model = case.fresh(dtype, **dict(overrides))
    _made.append((model, callbacks_of(model)))
    return model


def shared_models_as_they_were() -> bool:
    """Whether the shared models carry the callbacks that they were made with."""
    return all(callbacks_of(model) == before for model, before in _made)


def model_of(family: str, dtype: torch.dtype = torch.float32, **overrides: Any) -> Any:
    """The bridge of a family that all tests share; they leave it as it was."""
    return _shared(Case(family), dtype, tuple(sorted(overrides.items())))


def bridge_of(family: str, **options: Any) -> Any:
    """`tiny.bridge`, or a skip where this TransformerLens cannot run the family."""
    dtype = options.pop("dtype", torch.float32)
    return Case(family).fresh(dtype, **options)


@functools.cache
def oracle_of(family: str, n: int, value_bias: str = "bias") -> dict[str, Tensor]:
    """The oracle's maps, of the very run that `model_of(family, float64)` makes."""
    return oracle.oracle_maps(tiny.hf_model(family), tiny.tokens(family, n), value_bias)


def callbacks_of(model: nn.Module) -> dict[str, int]:
    """How many callbacks of any kind a model's HookPoints carry, by name, where they carry any."""
    points = {name: m for name, m in model.named_modules() if type(m).__name__ == "HookPoint"}
    assert points
    found = {name: len(p._forward_hooks) + len(p._forward_pre_hooks) + len(p.fwd_hooks) for name, p in points.items()}
    return {name: number for name, number in found.items() if number}


def processed(model: Any, **options: Any) -> Any:
    """The model in compatibility mode, by default with its weights folded and centred."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.enable_compatibility_mode(**options)
    return model


def wrapped(hf: Any, architecture: str) -> Any:
    """A bridge over a Hugging Face model that a test has changed."""
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    return build_bridge_from_module(hf.eval(), architecture, hf_config=hf.config).eval()
