"""Extensions in the documentation are written outside the package, in at most 20 lines each, and work as it says."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tl_ffblock as ffb
from tests import tiny
from tests.docs.test_code_blocks import blocks
from tl_ffblock.attribution import Rules
from tl_ffblock.bridge import families, mixers
from tl_ffblock.bridge.families import Family, register_family
from tl_ffblock.bridge.model import identify
from tl_ffblock.errors import IdentityError, InputError, UnsupportedModelError

METRIC, *STUDIES, RULES, VIEW, FAMILY, MIXER, LOOP, FORM = blocks("how_to/extend.md")
PROMPT = "When Mary and John went to the store, John gave a drink to"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What there is after the page's examples but studies and the family, each run as a file of the reader's own."""
    folder = tmp_path_factory.mktemp("extend")
    model = ffb.load_model(
        str(tiny.save_local("gpt2", folder / "model", (PROMPT.replace(" ", "  "),), num_hidden_layers=10))
    )
    names: dict[str, Any] = {"__name__": "extensions"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(ffb, "load_model", lambda _: model)
        for code in (METRIC, RULES, VIEW):
            exec(compile(code, "extend.md", "exec"), names)
    return names | {"folder": folder}


@pytest.mark.parametrize("code", [METRIC, *STUDIES, RULES, VIEW, FAMILY, MIXER, LOOP, FORM])
def test_an_example_is_short(code: str) -> None:
    """And needs nothing of the tests."""
    assert len([line for line in code.splitlines() if line]) <= 20 and "tests" not in code


def test_own_rules_freeze_what_they_say(names: dict[str, Any]) -> None:
    """Attention and norms as "path", activations as "gradient": in a layer without feed-forward path and own rules agree."""
    result, model = names["result"], names["model"]
    assert (result.rules, result.certificate.complete) == ("frozen attention", False)
    alike = Rules("all frozen", norms=True, feed_forward=True, attention=True)
    own, path = (ffb.attribute(model, PROMPT, " Mary", rules=rules) for rules in (alike, "path"))
    assert torch.equal(own.tokens, path.tokens) and own.certificate.complete
    assert not torch.allclose(result.tokens, path.tokens)
    assert "own" in result.to_html()
    with pytest.raises(InputError, match="'path' is the name of other rules"):
        ffb.attribute(model, PROMPT, " Mary", rules=Rules("path", norms=True, feed_forward=False, attention=True))


def test_an_own_result_is_saved_and_drawn(names: dict[str, Any]) -> None:
    """By the function that is registered for its type; an option that it lacks is refused."""
    scores = names["scores"]
    assert names["HeadScores"].load(names["folder"] / "scores.safetensors") == scores
    assert scores.figure(colours="viridis").axes[0].images[0].get_cmap().name == "viridis"
    assert "head" in (names["folder"] / "scores.html").read_text(encoding="utf-8")
    with pytest.raises(InputError, match="color"):
        scores.figure(color="viridis")


def test_an_own_family_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name; one of a known architecture is refused, and a model of another order than stated."""
    monkeypatch.setattr(families, "FAMILIES", list(families.FAMILIES))
    model = tiny.bridge("llama")
    model.cfg.architecture = "MyForCausalLM"
    assert not identify(model).family.listed
    exec(compile(FAMILY, "extend.md", "exec"), {})
    found = identify(model).family
    assert (found.name, found.order, found.listed) == ("Mine", "pre_ln", True)
    assert ffb.contribution_maps(model, tiny.tokens("llama", 5)).layers
    with pytest.raises(InputError, match="GPT2LMHeadModel is of the family GPT-2"):
        register_family(Family("Other", "post_ln", ("GPT2LMHeadModel",)))
    model = tiny.bridge("llama", seed=1)
    model.cfg.architecture = "WrongForCausalLM"
    register_family(Family("Wrong", "post_ln", ("WrongForCausalLM",)))
    with pytest.raises(IdentityError, match="Wrong"):
        ffb.contribution_maps(model, tiny.tokens("llama", 5))


class _OwnMixer(nn.Module):
    """A retention layer as a model would have it."""

    def __init__(self) -> None:
        super().__init__()
        self.num_heads, self.decay = 2, nn.Parameter(torch.tensor([0.5, 0.9]))
        for name, sizes in {"q_proj": (8, 6), "k_proj": (8, 6), "v_proj": (8, 4), "out_proj": (4, 8)}.items():
            setattr(self, name, nn.Linear(*sizes, bias=name == "v_proj"))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (getattr(self, f"{name}_proj")(x).unflatten(-1, (2, -1)) for name in "qkv")
        state, made = torch.zeros(len(x), 2, 2, 3), []
        for t in range(x.shape[1]):
            state = self.decay[:, None, None] * state + v[:, t, :, :, None] * k[:, t, :, None]
            made.append((state * q[:, t, :, None]).sum(dim=-1).flatten(1))
        return self.out_proj(torch.stack(made, dim=1))


def test_an_own_mixer_is_its_recurrence(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its effective attention; its weights are read from a module that its row recognises, and its vectors sum to the output."""
    names: dict[str, Any] = {"__name__": "extensions"}
    for code in (MIXER, LOOP):
        exec(compile(code, "extend.md", "exec"), names)
    assert float(names["error"]) < 1e-12
    with pytest.raises(UnsupportedModelError, match="its token mixer .* has no known form"):
        mixers.read_mixer(_OwnMixer(), torch.float32, "own")
    names |= {"_projection": mixers._projection, "_attention": mixers._attention}
    exec(compile(FORM, "extend.md", "exec"), names)
    monkeypatch.setattr(mixers, "_FORMS", (*mixers._FORMS, names["row"]))
    module, x = _OwnMixer(), torch.randn(2, 7, 8)
    read = mixers.read_mixer(module, torch.float32, "own")
    mixed, expected = read.mix(x), module(x)
    torch.testing.assert_close(read.output(mixed), expected, rtol=1e-4, atol=1e-5)
    by_token = torch.einsum("bhqk,bkhe,hed->bqkd", mixed.pattern, mixed.value, read.attention.w_o)
    torch.testing.assert_close(by_token.sum(dim=2), expected, rtol=1e-4, atol=1e-5)
    hidden = torch.zeros(1, 1, 7, 7, dtype=torch.bool)
    hidden[..., 5, 2] = True
    removed = read.output(mixed) - read.output(read.mix(x, hidden=hidden))
    torch.testing.assert_close(removed[:, 5], by_token[:, 5, 2], rtol=1e-4, atol=1e-5)
    assert not removed[:, :5].any() and not removed[:, 6].any()
