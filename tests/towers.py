"""Tiny random models that read images or sounds beside text, and inputs with an image for them, built offline.

Every model has d_model 32, 4 heads and 2 or 3 layers of text, and an encoder of two layers. `tests/tiny.py` has the models of text.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from tests import tiny

IMAGE, VIDEO, START, END, SOUND = 60, 61, 62, 63, 59
"""Token ids: of a patch, of a patch of a video, before and after an image, of a piece of sound."""
_TEXT: dict[str, Any] = {
    **tiny.ALL_FAMILIES["llama_nobias"].config,
    "num_hidden_layers": 3,
    "max_position_embeddings": 96,
}
_NO_IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_CLIP = dict(
    **dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, projection_dim=16),
    **dict(image_size=16, patch_size=4),
)
_SIGLIP = {**_CLIP, "model_type": "siglip_vision_model", "vision_use_head": False}
_SIGLIP.pop("projection_dim")
_QWEN = dict(
    **dict(hidden_size=16, intermediate_size=24, depth=2, num_heads=2, patch_size=4, spatial_merge_size=2),
    **dict(temporal_patch_size=2, out_hidden_size=32),
)
_QWEN_IDS = dict(image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=START, vision_end_token_id=END)
_SECTIONS = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}}
_EXPERTS = dict(num_experts=4, num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=24)
_HYBRID = dict(
    **dict(linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4),
    layer_types=["linear_attention", "full_attention"],
    num_hidden_layers=2,
)
_QWEN3_5 = {
    **_TEXT,
    **_HYBRID,
    "head_dim": 16,
    "rope_parameters": {**_SECTIONS["rope_parameters"], "partial_rotary_factor": 0.5},
}
_AUDIO = dict(
    num_mel_bins=8,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=2,
    max_source_positions=16,
)
_SANDWICH = {name: value for name, value in tiny.ALL_FAMILIES["gemma3"].config.items() if name != "layer_types"} | {
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]
}


@dataclass(frozen=True)
class Tower:
    """How to build the tiny model of one architecture."""

    architecture: str
    config: Mapping[str, Any]
    """Entries of the configuration, with `text_config` and `vision_config` or `audio_config`."""


def _vl(name: str, text: Any, vision: Any, **entries: Any) -> Tower:
    parts = {"text_config": text, "vision_config": vision}
    return Tower(f"{name}ForConditionalGeneration", MappingProxyType({**parts, **_NO_IDS, **entries}))


def _al(name: str, text: Any, audio: Any, **entries: Any) -> Tower:
    parts = {"text_config": text, "audio_config": audio}
    return Tower(f"{name}ForConditionalGeneration", MappingProxyType({**parts, **_NO_IDS, **entries}))


_PINPOINTS = [[16, 16], [16, 32], [32, 16]]
_LIST = (
    _vl("Llava", {"model_type": "llama", **_TEXT}, _CLIP, image_token_index=IMAGE, image_seq_length=16),
    _vl("LlavaNext", {"model_type": "llama", **_TEXT}, _CLIP, image_token_index=IMAGE, image_grid_pinpoints=_PINPOINTS),
    _vl(
        "LlavaOnevision",
        {"model_type": "qwen2", **_TEXT},
        _SIGLIP,
        image_token_index=IMAGE,
        video_token_index=VIDEO,
        image_grid_pinpoints=_PINPOINTS,
    ),
    _vl(
        "Mistral3",
        {"model_type": "mistral", **_TEXT, "head_dim": 8},
        {**_CLIP, "model_type": "pixtral", "head_dim": 8},
        image_token_index=IMAGE,
        spatial_merge_size=2,
    ),
    _vl(
        "Gemma3",
        _SANDWICH,
        _SIGLIP,
        mm_tokens_per_image=4,
        image_token_index=IMAGE,
        boi_token_index=START,
        eoi_token_index=END,
    ),
    _vl("Qwen2_5_VL", {**_TEXT, **_SECTIONS}, {**_QWEN, "window_size": 8, "fullatt_block_indexes": [1]}, **_QWEN_IDS),
    _vl(
        "Qwen3VL",
        {**_TEXT, **_SECTIONS, "head_dim": 8},
        {**_QWEN, "deepstack_visual_indexes": [0, 1], "num_position_embeddings": 16},
        **_QWEN_IDS,
    ),
    _vl(
        "Qwen3VLMoe",
        {**_TEXT, **_SECTIONS, **_EXPERTS, "head_dim": 8},
        {**_QWEN, "deepstack_visual_indexes": [0, 1], "num_position_embeddings": 16},
        **_QWEN_IDS,
    ),
    _vl("Qwen3_5", _QWEN3_5, {**_QWEN, "num_position_embeddings": 16}, **_QWEN_IDS),
    _vl(
        "Qwen3_5Moe",
        {**_QWEN3_5, **_EXPERTS, "shared_expert_intermediate_size": 40},
        {**_QWEN, "num_position_embeddings": 16},
        **_QWEN_IDS,
    ),
    _vl(
        "Glm4v",
        {**_TEXT, **_SECTIONS, "rope_parameters": {**_SECTIONS["rope_parameters"], "partial_rotary_factor": 1.0}},
        {**_QWEN, "image_size": 16},
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        image_start_token_id=START,
        image_end_token_id=END,
        video_start_token_id=57,
        video_end_token_id=58,
    ),
    _vl(
        "Idefics3",
        {"model_type": "llama", **_TEXT},
        {**{k: v for k, v in _CLIP.items() if k != "projection_dim"}},
        image_token_id=IMAGE,
        scale_factor=2,
    ),
    _vl(
        "Llama4",
        {
            **_TEXT,
            **dict(intermediate_size_mlp=48, num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2),
            **dict(attention_chunk_size=4, head_dim=8),
        },
        {**_CLIP, "vision_output_dim": 24, "projector_input_dim": 24, "projector_output_dim": 24},
        image_token_index=IMAGE,
        boi_token_index=START,
        eoi_token_index=END,
    ),
    _vl(
        "MuseGlimmer",
        {**_TEXT, "head_dim": 8, "sliding_window": 4},
        {
            **dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, patch_size=4),
            **dict(pos_emb_height=4, pos_emb_width=4, merge_size=2),
        },
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        out_hidden_size=64,
        projector_hidden_size=24,
    ),
    Tower(
        "Emu3ForConditionalGeneration",
        MappingProxyType(
            {
                "text_config": {**_TEXT},
                "vq_config": dict(
                    codebook_size=16,
                    embed_dim=4,
                    latent_channels=4,
                    base_channels=32,
                    channel_multiplier=[1, 1, 1],
                    num_res_blocks=1,
                    hidden_size=32,
                    attn_resolutions=[],
                ),
                "vocabulary_map": {
                    "<image>": IMAGE,
                    "<|extra_200|>": 56,
                    **{f"<|visual token {i:06}|>": 40 + i for i in range(16)},
                },
            }
        ),
    ),
    _al(
        "Qwen2Audio",
        {"model_type": "qwen2", **_TEXT},
        dict(
            num_mel_bins=8,
            encoder_layers=2,
            encoder_attention_heads=2,
            encoder_ffn_dim=24,
            d_model=16,
            max_source_positions=16,
        ),
        audio_token_index=SOUND,
    ),
    _al("AudioFlamingo3", {"model_type": "qwen2", **_TEXT}, _AUDIO, audio_token_id=SOUND),
    _al(
        "MusicFlamingo",
        {"model_type": "qwen2", **_TEXT},
        {**_AUDIO, "model_type": "musicflamingo_encoder"},
        audio_token_id=SOUND,
        audio_bos_token_id=57,
        audio_eos_token_id=58,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
    ),
    _al(
        "GlmAsr",
        {"model_type": "llama", **_TEXT},
        {**{k: v for k, v in _AUDIO.items() if k != "max_source_positions"}, "intermediate_size": 64},
        audio_token_id=SOUND,
    ),
    _vl("Gemma4", {**_SANDWICH}, None),
    _vl("Gemma4Unified", {**_SANDWICH}, None),
    _vl("Gemma3n", {**_SANDWICH}, {}),
)
TOWERS = {tower.architecture.removesuffix("ForConditionalGeneration"): tower for tower in _LIST}


def hf_model(name: str, dtype: torch.dtype = torch.float32, seed: int = 0, **changes: Any) -> nn.Module:
    """The Hugging Face model of a tower with every parameter perturbed, in eval mode, with eager attention."""
    tower = TOWERS[name]
    model_class = getattr(transformers, tower.architecture)
    config = model_class.config_class(**{k: v for k, v in {**tower.config, **changes}.items() if v is not None})
    config.architectures = [tower.architecture]
    if hasattr(config.text_config, "num_experts_per_tok"):
        config.num_experts_per_tok = config.text_config.num_experts_per_tok  # read by `tiny.built`
    return tiny.built(model_class, config, seed, dtype)


def without_processors() -> None:
    """Let TransformerLens bridge these models without torchvision, which only their processors need."""
    from transformer_lens.model_bridge.architecture_adapter import ArchitectureAdapter

    if hasattr(ArchitectureAdapter, "_check_required_libraries"):
        ArchitectureAdapter._check_required_libraries = lambda _: None


def bridge(name: str, dtype: torch.dtype = torch.float32, seed: int = 0, **changes: Any) -> Any:
    """A TransformerBridge over a fresh `hf_model`, without a processor."""
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    without_processors()
    model = hf_model(name, dtype, seed, **changes)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Hook alias .* did not resolve")  # of the encoder, in TransformerLens 3.9
        return build_bridge_from_module(model, TOWERS[name].architecture, hf_config=model.config).eval()


READS = (
    "Llava",
    "LlavaNext",
    "LlavaOnevision",
    "Mistral3",
    "Gemma3",
    "Qwen2_5_VL",
    "Qwen3VL",
    "Qwen3VLMoe",
    "Glm4v",
    "Idefics3",
    "Emu3",
    "Qwen2Audio",
    "AudioFlamingo3",
    "MusicFlamingo",
    "GlmAsr",
    "Llama4",
    "MuseGlimmer",
    "Qwen3_5",
    "Qwen3_5Moe",
)


def inputs(name: str, seed: int = 0) -> dict[str, Tensor]:
    """A processor's output for one prompt with one image or sound, made by hand."""
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    def prompt(*media: int) -> Tensor:
        return torch.tensor([[5, 6, 7, *media, 20, 21, 22, 23]])

    def typed(ids: Tensor, token: int) -> Tensor:
        return (ids == token).long()

    if name in ("Qwen2_5_VL", "Qwen3VL", "Qwen3VLMoe", "Qwen3_5", "Qwen3_5Moe", "Glm4v"):
        ids = prompt(START, *[IMAGE] * 6, END)
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "pixel_values": noise(24, 3 * 2 * 16),
            "image_grid_thw": torch.tensor([[1, 4, 6]]),
            "mm_token_type_ids": typed(ids, IMAGE),
        }
    if name in ("Qwen2Audio", "AudioFlamingo3", "MusicFlamingo", "GlmAsr"):
        ids = prompt(*[SOUND] * {"Qwen2Audio": 8, "AudioFlamingo3": 8, "MusicFlamingo": 8, "GlmAsr": 4}[name])
        mask = {"Qwen2Audio": "feature_attention_mask"}.get(name, "input_features_mask")
        return {"input_ids": ids, "input_features": noise(1, 8, 32), mask: torch.ones(1, 32, dtype=torch.long)}
    if name == "Mistral3":
        ids = prompt(IMAGE, IMAGE, 12, IMAGE, IMAGE, 13)
        return {"input_ids": ids, "pixel_values": noise(1, 3, 16, 16), "image_sizes": torch.tensor([[16, 16]])}
    if name in ("LlavaNext", "LlavaOnevision"):
        # The whole image, and both halves of it with a newline after each of 8 rows.
        ids = prompt(*[IMAGE] * (16 + 8 * 5))
        return {"input_ids": ids, "pixel_values": noise(1, 3, 3, 16, 16), "image_sizes": torch.tensor([[32, 16]])}
    if name == "Idefics3":
        ids = prompt(*[IMAGE] * 4)
        return {"input_ids": ids, "pixel_values": noise(1, 1, 3, 16, 16)}
    if name == "Gemma3":
        ids = prompt(START, *[IMAGE] * 4, END)
        return {"input_ids": ids, "pixel_values": noise(1, 3, 16, 16), "token_type_ids": typed(ids, IMAGE)}
    if name == "Emu3":
        ids = prompt(*[IMAGE] * 20)
        return {"input_ids": ids, "pixel_values": noise(1, 3, 16, 16), "image_sizes": torch.tensor([[16, 16]])}
    if name == "MuseGlimmer":
        ids = prompt(*[IMAGE] * 6)
        return {"input_ids": ids, "pixel_values": noise(24, 3 * 2 * 16), "image_grid_thw": torch.tensor([[1, 4, 6]])}
    ids = prompt(*[IMAGE] * (4 if name == "Llama4" else 16))
    return {"input_ids": ids, "pixel_values": noise(1, 3, 16, 16)}


REFUSED = ("Emu3", "Llama4", "MuseGlimmer")


def text(name: str) -> dict[str, Tensor]:
    """A processor's output for a prompt of text."""
    ids = torch.randint(5, 40, (1, 12), generator=torch.Generator().manual_seed(0))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def wide(given: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same with floating-point tensors in float64."""
    return {key: value.double() if value.is_floating_point() else value for key, value in given.items()}


def pixels(name: str, picture: Tensor) -> dict[str, Tensor]:
    """A picture [height width rgb], with numbers from 0 to 1, as the image processor of an architecture gives it."""
    if name not in ("Qwen2_5_VL", "Qwen3VL", "Glm4v"):
        held = picture.permute(2, 0, 1)[None]
        return {"pixel_values": held[None] if name == "Idefics3" else held}
    kind = getattr(transformers, "Qwen2VLImageProcessorPil", None) or transformers.Qwen2VLImageProcessor
    sizes = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2}
    processor = kind(**sizes, size={"shortest_edge": 16, "longest_edge": 1024})
    read = processor(images=(255 * picture).to(torch.uint8).numpy(), return_tensors="pt")
    return {"pixel_values": read["pixel_values"], "image_grid_thw": read["image_grid_thw"]}
