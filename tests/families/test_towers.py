"""Vision-language and audio-language models: decoders of text that read an image or sound as further tokens."""

import re
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import transformers
from PIL import Image
from torch import Tensor
from transformer_lens.model_bridge.sources import build_bridge_from_module

import tl_ffblock as ffb
from tests import cases, oracle, tiny, towers
from tests.tolerances import BATCH_FLOAT32, ORACLE_FLOAT32_WITHIN
from tl_ffblock.errors import FFBlockError, InputError
from tl_ffblock.results.image_map import read_picture

WRONG = ("Gemma3",) if cases.TL_3 else ()
"""Bridges whose logits are not Hugging Face's, and which are refused."""
EXACT = [name for name in towers.READS if name not in (*towers.REFUSED, *WRONG)]
WITHOUT_ORACLE = ("Glm4v",)
KINDS = ("Gemma3", "Qwen2_5_VL", "Qwen3VLMoe")
"""Attention among image tokens, positions of rows and columns, features in later layers; others are slow tests."""
TWINS = {"Llava": "Llama", "Mistral3": "Mistral", "Gemma3": "Gemma3", "Qwen2Audio": "Qwen2"}
"""The decoder of text alone with the same layers."""
CALLS: dict[str, Callable[[Any, Tensor], Any]] = {
    "maps": lambda model, x: ffb.contribution_maps(model, [x, x[:5]], heads=True)[1].to_dataframe(),
    "padded": lambda model, x: ffb.contribution_maps(
        model, torch.stack([x, x.roll(3)]), attention_mask=torch.stack([torch.ones(12), torch.arange(12) >= 3]).long()
    )[1].to_dataframe(),
    "attribute": lambda model, x: ffb.attribute(model, x, 11, of=("heads", "edges", "maps")).to_dataframe(),
    "activation patching": lambda model, x: ffb.activation_patching(model, x, x.flip(0), 11, of="heads").to_dataframe(),
    "attribution patching": lambda model, x: ffb.attribution_patching(
        model, x, x.flip(0), 11, edges=True
    ).edge_estimates.to_dataframe(),
    "knockout": lambda model, x: ffb.attention_knockout(model, x, ffb.logit(11), keys=2).to_dataframe(),
    "continuation": lambda model, x: ffb.attribute_continuation(model, x[:8], x[8:]).to_dataframe(),
    "contributions": lambda model, x: ffb.contribution_sweep(
        ffb.Contributions(model, x), ffb.logit(11), "Attn"
    ).to_dataframe(),
}


def each(names: Iterable[str]) -> list[Any]:
    """Parameters of a test."""
    return [pytest.param(name, marks=() if name in KINDS else pytest.mark.slow) for name in names if name not in WRONG]


@pytest.fixture(params=each(EXACT))
def reader(request: pytest.FixtureRequest) -> str:
    """Every architecture that is exact with an image or sound."""
    return str(request.param)


@pytest.mark.parametrize("name", each(name for name in EXACT if name not in WITHOUT_ORACLE))
def test_maps_are_those_of_a_slow_computation(name: str) -> None:
    """On Hugging Face's own modules: one vector per source token, image tokens included, with its patterns and norm scales."""
    model, bridge = towers.hf_model(name, torch.float64), towers.bridge(name, torch.float64)
    for inputs in (towers.inputs(name), *([] if name in TWINS else [towers.text(name)])):
        maps = ffb.contribution_maps(bridge, inputs)[0]
        media = {key: value for key, value in inputs.items() if key != "input_ids"}
        expected = oracle.oracle_maps(model, inputs["input_ids"], **media)
        for layer in maps.layers:
            for scope in maps.scopes:
                norms = expected[f"L{layer}.{scope}"][:, :-1]
                assert (maps[scope, layer] - norms).abs().max() < ORACLE_FLOAT32_WITHIN * norms.max(), (layer, scope)


def test_an_attribution_sums_to_the_logit_and_the_gradient_rule_is_autograds(reader: str) -> None:
    """With an image. Tokens and features after layers have the derivatives of Hugging Face's own model, by autograd."""
    inputs, hf = towers.inputs(reader), towers.hf_model(reader, torch.float64)
    entered, left, answer = autograd(hf, towers.wide(inputs))
    target = int(answer[-1].argmax())
    answer[-1, target].backward()
    shares = [(x * x.grad).sum(dim=-1)[0] for x in entered]
    bridge = towers.bridge(reader, torch.float64)
    by_path, by_gradient = (
        ffb.attribute(bridge, inputs, target, rules=rules, of=(), progress=False)[0] for rules in ("path", "gradient")
    )
    assert by_path.value == pytest.approx(float(answer[-1, target].detach()), rel=ORACLE_FLOAT32_WITHIN)
    assert by_path.total() == pytest.approx(by_path.value, rel=ORACLE_FLOAT32_WITHIN)
    size = shares[0].abs().max()
    assert (by_gradient.token_attributions - shares[0]).abs().max() < ORACLE_FLOAT32_WITHIN * size
    assert (by_gradient.residual[:-1] - torch.stack(shares)).abs().max() < ORACLE_FLOAT32_WITHIN * size
    named = dict(zip(by_gradient.bias_names, by_gradient.bias_shares, strict=True))
    features = {
        f"blocks.{layer}.deepstack": ((after - before) * after.grad).sum(dim=-1)[0]
        for layer, (before, after) in enumerate(zip(left, entered[1:], strict=False))
        if not torch.equal(before, after)
    }
    assert {name for name in named if name.endswith("deepstack")} == features.keys()
    assert bool(features) == reader.startswith("Qwen3VL")
    for name, expected in features.items():
        assert (named[name] - expected).abs().max() < ORACLE_FLOAT32_WITHIN * size


def autograd(hf: Any, inputs: dict[str, Tensor]) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Inputs and outputs of the layers of text with gradients, and logits [pos d_vocab]."""
    entered: list[Tensor] = []
    left: list[Tensor] = []
    text = hf.base_model
    text = getattr(text, "language_model", getattr(text, "text_model", text))

    def enter(_: Any, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = args[0] if args[0].requires_grad else args[0].requires_grad_()
        x.retain_grad()
        entered.append(x)
        return (x, *args[1:])

    for layer in text.layers:
        layer.register_forward_pre_hook(enter)
        layer.register_forward_hook(lambda _, __, out: left.append(out if isinstance(out, Tensor) else out[0]))
    return entered, left, hf(**inputs).logits[0]


@pytest.mark.parametrize("name", each(["Llava", "Gemma3", "Idefics3", "Mistral3", "Qwen2_5_VL", "Qwen3VL", "Glm4v"]))
def test_labels_say_where_a_token_is_in_the_picture(name: str) -> None:
    """Without attention in its encoder, a model reads each part of a picture into the one token whose label is that part."""
    bridge = towers.bridge(name)
    for parameter_name, parameter in bridge.original_model.named_parameters():
        if re.search(r"(vision|visual).*(out_proj|o_proj|attn.*\.proj)\.", parameter_name):
            torch.nn.init.zeros_(parameter)
    width = 24 if name in ("Qwen2_5_VL", "Qwen3VL", "Glm4v") else 16
    picture = torch.rand(16, width, 3, generator=torch.Generator().manual_seed(0))
    before = embedded(bridge, towers.inputs(name) | towers.pixels(name, picture))
    labels = ffb.attention_maps(bridge, towers.inputs(name) | towers.pixels(name, picture), layers=0)[0].tokens
    parts = [match for match in map(re.compile(r"image (\d+),(\d+)").fullmatch, labels) if match]
    rows, columns = (max(int(match[side]) for match in parts) + 1 for side in (1, 2))
    assert len(parts) == rows * columns
    high, wide = 16 // rows, width // columns
    for row, column in product(range(rows), range(columns)):
        other = picture.clone()
        there = slice(row * high, (row + 1) * high), slice(column * wide, (column + 1) * wide)
        other[there] = 1 - picture[there]
        change = (embedded(bridge, towers.inputs(name) | towers.pixels(name, other)) - before).norm(dim=-1)
        assert [labels[position] for position in (change > 1e-4).nonzero()[:, 0]] == [f"image {row},{column}"]


def embedded(bridge: Any, inputs: dict[str, Tensor]) -> Tensor:
    """Input of the first layer, [pos d_model]."""
    found: list[Tensor] = []
    ids, others = inputs["input_ids"], {key: value for key, value in inputs.items() if key != "input_ids"}
    with torch.no_grad():
        hooks = [("blocks.0.hook_resid_pre", lambda x, hook: found.append(x[0].clone()))]
        bridge.run_with_hooks(ids, fwd_hooks=hooks, **others)
    return found[0]


@pytest.mark.parametrize("name", each(TWINS))
def test_on_text_a_tower_is_the_decoder_alone(name: str) -> None:
    """Every number is that of the decoder with the same weights, without an encoder beside it."""
    tower, tokens = towers.bridge(name), towers.text(name)["input_ids"][0]
    own = towers.hf_model(name)
    text = getattr(transformers, f"{TWINS[name]}ForCausalLM")._from_config(
        own.config.text_config, attn_implementation="eager"
    )
    text.model.load_state_dict(own.model.language_model.state_dict())
    text.lm_head.load_state_dict(own.lm_head.state_dict())
    twin = build_bridge_from_module(text.eval(), f"{TWINS[name]}ForCausalLM", hf_config=text.config).eval()
    for call, made in CALLS.items():
        pd.testing.assert_frame_equal(made(tower, tokens), made(twin, tokens), **BATCH_FLOAT32, obj=call)


def test_an_image_leaves_no_trace_in_the_next_text() -> None:
    """Qwen-VL keeps an image's offset of positions; numbers of a text are the same to the bit before and after."""
    bridge, tokens = towers.bridge("Qwen2_5_VL"), towers.text("Qwen2_5_VL")["input_ids"][0]
    before = CALLS["contributions"](bridge, tokens)
    ffb.contribution_maps(bridge, towers.inputs("Qwen2_5_VL"), layers=0)
    pd.testing.assert_frame_equal(CALLS["contributions"](bridge, tokens), before, check_exact=True)


def without(name: str) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    """Inputs without one of their tensors."""
    return lambda inputs: {key: value for key, value in inputs.items() if key != name}


def with_ids(change: Callable[[Tensor], Tensor]) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    """Inputs with other token ids, and no mask."""
    return lambda inputs: without("attention_mask")(inputs) | {"input_ids": change(inputs["input_ids"])}


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("Llava", with_ids(lambda ids: ids.clamp(max=50)), "no placeholder of it .image token 60."),
        ("Llava", with_ids(lambda ids: ids[:, :-8]), "does not run with this image or sound: .*do not match"),
        ("Llava", with_ids(lambda ids: ids.repeat(2, 1)), r"expected one prompt without padding, input_ids \[1, pos\]"),
        ("Llava", with_ids(lambda ids: ids[0]), r"expected one prompt without padding"),
        ("Llava", lambda inputs: inputs | {"pixel_values_videos": inputs["pixel_values"]}, "pixel_values_videos, which"),
        ("Llava", lambda inputs: inputs | {"pixel_values": [object()]}, "expected a tensor"),
        ("Qwen3VL", without("mm_token_type_ids"), "does not run with this image or sound: .*mm_token_type_ids"),
        ("Qwen3VL", lambda inputs: inputs | {"attention_mask": inputs["attention_mask"] * torch.tensor([0] + 14 * [1])}, "padding"),
        ("Emu3", lambda inputs: inputs, "embeds in a second call.*get_image_tokens"),
    ],
)  # fmt: skip
def test_what_is_not_one_prompt_with_its_image_is_refused(name: str, change: Any, said: str) -> None:
    """With what was given, and what is expected."""
    with pytest.raises(FFBlockError, match=said):
        ffb.contribution_maps(towers.bridge(name), change(towers.inputs(name)))


def test_calls_that_read_text_alone_refuse_images_by_name() -> None:
    """They run the prompt with other tokens; a model of text refuses pixels, which it would ignore."""
    bridge, inputs = towers.bridge("Llava"), towers.inputs("Llava")
    for call in (
        lambda: ffb.attention_knockout(bridge, inputs, ffb.logit(11), keys=2),
        lambda: ffb.flow_graph(bridge, inputs),
        lambda: ffb.Contributions(bridge, inputs),
    ):
        with pytest.raises(InputError, match="input has pixel_values: this call .* reads text alone"):
            call()
    with pytest.raises(InputError, match="clean is a dict: expected texts or token ids"):
        ffb.activation_patching(bridge, inputs, inputs, 11)
    with pytest.raises(InputError, match=r"input has pixel_values, but .* reads text"):
        ffb.attribute(tiny.bridge("llama"), inputs, 11)
    ids = ffb.contribution_maps(
        tiny.bridge("llama"), {"input_ids": inputs["input_ids"], "mm_token_type_ids": inputs["input_ids"]}
    )
    assert len(ids) == 1  # of a text alone, as some processors give it


def test_an_image_map_is_the_tokens_of_the_image(tmp_path: Path) -> None:
    """Of an attribution with features of later layers; of maps a row. Cells and other tokens sum to all."""
    bridge, inputs = towers.bridge("Qwen3VL"), towers.inputs("Qwen3VL")
    attribution = ffb.attribute(bridge, inputs, 11, of=(), progress=False)[0]
    shown = attribution.image_map(torch.rand(30, 50, 3))
    features = [attribution.bias_names.index(f"blocks.{layer}.deepstack") for layer in (0, 1)]
    shares = attribution.token_attributions + attribution.bias_shares[features].sum(dim=0)
    torch.testing.assert_close(shown.values, shares[4:10].reshape(2, 3))
    assert float(shown.values.sum()) + shown.other == pytest.approx(float(shares.sum()), abs=1e-6)
    maps = ffb.contribution_maps(bridge, inputs)[0]
    row = maps.image_map(query=9, layer=1, scope="Atb")
    assert torch.equal(row.values, maps["Atb", 1][9, 4:10].reshape(2, 3))
    assert row.quantity == "contributions to 'image 1,2'@9 (Atb, layer 1)"
    heads = ffb.attention_maps(bridge, inputs)[0].image_map(layer=0, channel="head 1")
    assert not heads.signed
    assert float(heads.values.sum()) + heads.other == pytest.approx(1, abs=1e-6)
    assert ffb.load(shown.save(tmp_path / "shown")) == shown
    assert shown.to_dataframe().value.tolist() == shown.values.flatten().tolist()
    for one, pictures in ((shown, 1), (row, 0)):
        assert one.to_html().count("data:image/jpeg") == pictures
        place = one.figure().axes[0]
        assert len(place.images) == 1 + pictures
        assert torch.allclose(torch.tensor(place.images[-1].get_array().data), one.values.double())


@pytest.mark.parametrize(
    "picture",
    [
        lambda pixels: pixels,
        lambda pixels: pixels[0],
        lambda pixels: pixels[0].permute(1, 2, 0).numpy(),
        lambda pixels: (255 * pixels[0]).round().to(torch.uint8),
        lambda pixels: Image.fromarray((255 * pixels[0]).round().to(torch.uint8).permute(1, 2, 0).numpy()),
        lambda pixels: pixels - pixels.min() - 3,
    ],
)
def test_pictures_are_read_in_any_usual_form(picture: Any) -> None:
    """The numbers of a picture from 0 to 255, [height width rgb]."""
    pixels = torch.rand(1, 3, 7, 5, generator=torch.Generator().manual_seed(0))
    pixels.view(-1)[:2] = torch.tensor([0.0, 1.0])
    expected = (255 * pixels[0]).round().permute(1, 2, 0)
    assert (read_picture(picture(pixels)).double() - expected).abs().max() <= 1


def test_an_image_map_needs_an_image_with_rows_and_columns() -> None:
    """Joined scales of an image have no grid; texts have no image."""
    attribution = ffb.attribute(towers.bridge("LlavaNext"), towers.inputs("LlavaNext"), 11, of=(), progress=False)[0]
    with pytest.raises(InputError, match="none of its tokens does.*no single grid"):
        attribution.image_map()
    maps = ffb.contribution_maps(towers.bridge("Llava"), towers.inputs("Llava"), layers=0)[0]
    for options, said in (
        ({"image": 2}, "image=2: .* it has images 1"),
        ({"picture": "cat.png"}, "picture is str"),
        ({"picture": torch.full((3, 4, 3), torch.nan)}, "finite numbers"),
        ({"query": 99}, "query=99"),
        ({"scope": "Abt"}, "Atb"),
    ):
        with pytest.raises(FFBlockError, match=said):
            maps.image_map(**options)


def test_an_encoders_attention_keeps_its_implementation() -> None:
    """With sdpa everywhere, patterns of the text are shown, and the encoder, whose attention has another signature, runs as it is."""
    inputs, by_sdpa = towers.inputs("Qwen2_5_VL"), towers.bridge("Qwen2_5_VL")
    by_sdpa.original_model.set_attn_implementation("sdpa")
    found, expected = (ffb.attention_maps(model, inputs)[0].values for model in (by_sdpa, towers.bridge("Qwen2_5_VL")))
    torch.testing.assert_close(found, expected, **BATCH_FLOAT32)
