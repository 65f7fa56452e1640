"""Tries every architecture that TransformerLens names, for the table of docs/architectures.md.

1. `python -m docs.coverage` makes a tiny random model of every architecture of the installed TransformerLens, bridges it, decomposes
   it and attributes a logit, each in a process of its own with a time limit. It writes one file to docs/support/architectures, named
   by the versions of TransformerLens and transformers. `python -m docs.coverage NAME ...` prints the rows of some architectures.
2. `python -m docs.blocks` renders these files.

A row has one of five statuses, `STATUSES`. Decoders that read images or sounds beside text (`tests/towers.py`) are measured on text and
with one. Options of published checkpoints that have a form of their own have further rows.
"""

import json
import multiprocessing
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from docs.markdown import table
from tl_ffblock.numerals import scientific

Row: TypeAlias = dict[str, Any]
RESULTS = Path(__file__).parent / "support" / "architectures"
N_TOKENS = 16
SECONDS = 60
"""Time limit of one row."""
TOLERANCE = {"float32": 1e-4, "float64": 1e-5}
"""Largest difference of a bridge's logits from Hugging Face's, relative to their norm, as in `bridge.hugging_face`."""
STATUSES = {
    "exact": "maps of all scopes and the attribution of a logit are complete, in float32 and float64",
    "refused": "this package refuses the model, with a reason",
    "bridge wrong": "the bridge's logits are not Hugging Face's, or its forward pass fails",
    "cannot be built": "a tiny model of it cannot be made from the installed packages",
    "not text in one stack": "it is an encoder-decoder, or an encoder of images or sounds",
}

# Sizes of the tiny configurations, by the name of the entry. Entries that a configuration does not have, or sets to None, are left.
_SIZES: Mapping[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "attention_hidden_size"), 32),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 2),
    **dict.fromkeys(("head_dim", "qk_nope_head_dim", "v_head_dim", "linear_key_head_dim", "linear_value_head_dim"), 8),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "dense_intermediate_size"), 48),
    **dict.fromkeys(("moe_intermediate_size", "moe_shared_expert_intermediate_size"), 24),
    **dict.fromkeys(("shared_expert_intermediate_size", "shared_intermediate_size", "intermediate_size_mlp"), 40),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_k", "top_k_experts"), 2),
    **dict.fromkeys(("n_group", "topk_group", "n_shared_experts", "num_shared_experts", "moe_num_shared_experts"), 1),
    **dict.fromkeys(("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"), 1),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "context_length"), 48),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), 64),
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "q_lora_rank": 16,
    "kv_lora_rank": 12,
    "qk_rope_head_dim": 4,
    "sliding_window": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "mamba_d_state": 8,
    "mamba_d_ssm": 64,
    "state_size": 8,
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 8,
    "chunk_size": 8,
}
_DEPTHS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_KINDS = ("layer_types", "mlp_layer_types", "layers_block_type")
# Entries that the sizes above do not make valid, or without which a kind of layer would be missing, by architecture.
_HYBRID = {"layer_types": ["linear_attention", "full_attention"]}
_CONVOLUTION = {"layer_types": ["conv", "full_attention"]}
_LATENT = {"num_experts_per_tok": 2, "first_k_dense_replace": 1, "num_key_value_heads": 4}
_LATENT_ATTENTION = (
    *("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "Glm4MoeLiteForCausalLM", "GlmMoeDsaForCausalLM"),
    "YoutuForCausalLM",
)
_ENTRIES: Mapping[str, Mapping[str, Any]] = {
    "BambaForCausalLM": {"attn_layer_indices": [1]},
    **dict.fromkeys(_LATENT_ATTENTION, _LATENT),
    "GraniteMoeHybridForCausalLM": {**_HYBRID, "position_embedding_type": "rope"},
    "JambaForCausalLM": {"attn_layer_period": 2, "attn_layer_offset": 1, "mamba_dt_rank": 4},
    "Lfm2ForCausalLM": _CONVOLUTION,
    "Lfm2MoeForCausalLM": _CONVOLUTION,
    "Llama4ForCausalLM": {"attention_chunk_size": 4},
    "Mamba2ForCausalLM": {"num_heads": 4, "head_dim": 16, "n_groups": 1},
    "NemotronHForCausalLM": {"mamba_num_heads": 4, "mamba_head_dim": 16, "n_groups": 1, "ssm_state_size": 8},
    "RecurrentGemmaForCausalLM": {"num_hidden_layers": 3, "lru_width": 32, "attention_window_size": 4},
    "Zamba2ForCausalLM": {
        "attention_hidden_size": 64,
        "attention_head_dim": 16,
        "num_key_value_heads": 4,
        "n_mamba_heads": 4,
        "mamba_headdim": 16,
        "layers_block_type": ["linear_attention", "hybrid"],
        "hybrid_layer_ids": [1],
        "adapter_rank": 4,
        "kv_channels": 8,
    },
}
# Further rows of an architecture: options of published checkpoints with a form of their own.
OPTIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "Gemma4ForCausalLM": {
        "hidden_size_per_layer_input=8": {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 64},
        "enable_moe_block=True": {
            "enable_moe_block": True,
            "num_experts": 4,
            "top_k_experts": 2,
            "moe_intermediate_size": 24,
        },
    },
    "GraniteForCausalLM": {"residual_multiplier=0.22": {"residual_multiplier": 0.22}},
    "GraniteMoeForCausalLM": {"residual_multiplier=0.22": {"residual_multiplier": 0.22}},
    "GraniteMoeHybridForCausalLM": {"position_embedding_type=None": {"position_embedding_type": None}},
}
_NATIVE = "TransformerLensNative"
_TOWER = "ForConditionalGeneration"
# Other names of classes of transformers.
_CLASSES: Mapping[str, str] = {
    "Gemma1ForCausalLM": "GemmaForCausalLM",
    "JetMoEForCausalLM": "JetMoeForCausalLM",
    "MPTForCausalLM": "MptForCausalLM",
    "NeoForCausalLM": "GPTNeoForCausalLM",
    "NeoXForCausalLM": "GPTNeoXForCausalLM",
    "PhiMoEForCausalLM": "PhimoeForCausalLM",
    "T5WithLMHeadModel": "T5ForConditionalGeneration",
}


def tiny_config(config_class: Any, changes: Mapping[str, Any]) -> Any:
    """A configuration of tiny sizes, with one layer of each kind at least."""
    default = vars(config_class())
    entries = {name: size for name, size in _SIZES.items() if default.get(name) is not None}
    entries |= {name: size for name, size in _SIZES.items() if name.endswith("_token_id") and name in default}
    if "qk_rope_head_dim" in entries:  # latent attention has no groups of heads
        entries |= {"num_key_value_heads": entries["num_attention_heads"], "head_dim": entries["qk_rope_head_dim"]}
    kinds = {name: list(dict.fromkeys(default[name])) for name in _KINDS if default.get(name)}
    depth = max(2, *(len(found) for found in kinds.values())) if kinds else 2
    entries |= {name: depth for name in _DEPTHS if name in default}
    entries |= {name: [found[i % len(found)] for i in range(depth)] for name, found in kinds.items()}
    return config_class(**{**entries, **changes})


class _NotExactError(Exception):
    """A row that is not exact: its status and reason."""


def build(architecture: str, dtype: Any, changes: Mapping[str, Any]) -> Any:
    """The tiny Hugging Face model of an architecture with perturbed weights, in eval mode."""
    import transformers

    from tests import tiny, towers

    known = _CLASSES.get(architecture, architecture)
    if (tower := known.removesuffix(_TOWER)) in towers.TOWERS:
        return towers.hf_model(tower, dtype, **changes)
    family = next((name for name, each in tiny.ALL_FAMILIES.items() if each.architecture == known), None)
    if family is not None:
        return tiny.hf_model(family, dtype=dtype, **changes)
    model_class = getattr(transformers, known)
    config = tiny_config(model_class.config_class, {**_ENTRIES.get(architecture, {}), **changes})
    config.architectures = [architecture]
    return tiny.built(model_class, config, 0, dtype)


def row_of(architecture: str, changes: Mapping[str, Any]) -> Row:
    """Status of an architecture with its errors by dtype, or with the reason why it is not exact."""
    import torch

    row: Row = {"status": "exact"}
    try:
        _refuse_other_kinds(architecture)
        for dtype in (torch.float32, torch.float64):
            name = str(dtype).removeprefix("torch.")
            try:
                row |= _measured(architecture, dtype, changes)
            except _NotExactError as found:
                if name == "float32" or found.args[0] != "cannot be built":
                    raise
                row[name] = found.args[1]  # Hugging Face's own model does not run in float64
    except _NotExactError as found:
        return dict(zip(("status", "reason"), found.args, strict=True))
    return row


def _refuse_other_kinds(architecture: str) -> None:
    import transformers

    from tests import towers

    if architecture.removesuffix(_TOWER) in towers.TOWERS and hasattr(transformers, architecture):
        return  # a decoder of text, with an encoder of images or sounds beside it
    model_class = getattr(transformers, _CLASSES.get(architecture, architecture), None)
    if model_class is None and architecture != _NATIVE:
        raise _NotExactError("cannot be built", "transformers has no such class; its code comes with a checkpoint")
    config = None if model_class is None else model_class.config_class()
    if getattr(config, "is_encoder_decoder", False):
        raise _NotExactError("not text in one stack", "an encoder-decoder")
    inputs = [name for name in ("vision", "audio", "vq") if hasattr(config, f"{name}_config")]
    if inputs or getattr(model_class, "main_input_name", "input_ids") != "input_ids":
        raise _NotExactError("not text in one stack", "an encoder of images or sounds")


def _measured(architecture: str, dtype: Any, changes: Mapping[str, Any]) -> Row:
    """Errors of maps and of an attribution in one dtype.

    Raises:
        _NotExactError: with status and reason if they cannot be measured.
    """
    import torch

    from tests import towers

    tower = architecture.removesuffix(_TOWER)
    tokens = torch.randint(
        5, 40 if tower in towers.TOWERS else 64, (N_TOKENS,), generator=torch.Generator().manual_seed(0)
    )
    bridge, expected = _bridge_and_logits(architecture, dtype, changes, {"input_ids": tokens[None]})
    order, errors = _errors_of(architecture, bridge, {"input_ids": tokens[None]}, expected)
    name = str(dtype).removeprefix("torch.")
    row: Row = {"order": order, name: errors}
    if tower in towers.READS:
        inputs = {
            key: held.to(dtype) if held.is_floating_point() else held for key, held in towers.inputs(tower).items()
        }
        bridge, expected = _bridge_and_logits(architecture, dtype, changes, inputs)
        try:
            row[f"media {name}"] = _errors_of(architecture, bridge, inputs, expected)[1]
        except _NotExactError as found:
            row["media"] = found.args[1]
    return row


def _errors_of(architecture: str, bridge: Any, inputs: Any, expected: Any) -> tuple[str, dict[str, float]]:
    """Order of the blocks, and errors of maps and of an attribution of one prompt."""
    import tl_ffblock as ffb

    try:
        (maps,) = ffb.contribution_maps(bridge, inputs)
        target = int(expected[-1].argmax())
        (attribution,) = ffb.attribute(bridge, inputs, target, of=(), progress=False)
    except ffb.FFBlockError as error:
        raise _NotExactError("refused", _sentence(error, architecture)) from error
    total = float(attribution.token_attributions.sum()) + sum(map(float, attribution.biases.values()))
    return maps.order, {
        "maps": max(float(maps.completeness[scope].max()) for scope in maps.scopes),
        "logit": abs(total - float(expected[-1, target])) / float(expected.abs().max()),
    }


def _bridge_and_logits(architecture: str, dtype: Any, changes: Mapping[str, Any], inputs: Any) -> tuple[Any, Any]:
    import torch
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    from tests import tiny, towers

    if architecture == _NATIVE:
        model = tiny.toy("attn_only", "bridge", attn_only=False).to(dtype)
        with torch.no_grad():
            return model, model(inputs["input_ids"])[0]
    try:
        model, reference = (build(architecture, dtype, changes) for _ in range(2))
        with torch.no_grad():
            expected = reference(**inputs).logits[0]
    except Exception as error:
        raise _NotExactError("cannot be built", _sentence(error, architecture)) from error
    try:
        towers.without_processors()
        bridge = build_bridge_from_module(model, architecture, hf_config=model.config).eval()
        ids, others = inputs["input_ids"], {name: held for name, held in inputs.items() if name != "input_ids"}
        with torch.no_grad():
            logits = bridge(ids, **others)[0]
    except Exception as error:
        raise _NotExactError("bridge wrong", f"{type(error).__name__}: {_sentence(error, architecture)}") from error
    size = (expected - expected.mean(dim=-1, keepdim=True)).norm()
    if not float((logits - expected).norm() / size) <= TOLERANCE[str(dtype).removeprefix("torch.")]:
        raise _NotExactError(
            "bridge wrong", f"largest difference of logits {float((logits - expected).abs().max()):.1g}"
        )
    return bridge, expected


def _sentence(error: Exception, architecture: str) -> str:
    """The reason in an error's first sentence, without names of the model and errors of rounding."""
    text = " ".join(str(error).split()).split("; ")[0]
    text = re.sub(rf"^(external )?\(?{architecture}\)?[:,]? ", "", text)
    text = re.split(r"\.(?: |$)", re.sub(r" \(relative error [^)]*\)", "", text))[0]
    return re.sub("this does not hold on the cached tensors: (.*)", r"\1 does not hold", text)


def rows(names: Iterable[str]) -> Iterator[tuple[str, str, Row]]:
    """Architecture, option and row of each, from a process of its own."""
    for name in names:
        for option, changes in {"": {}, **OPTIONS.get(name, {})}.items():
            yield name, option, _in_process(name, changes)


def _in_process(name: str, changes: Mapping[str, Any]) -> Row:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, name, changes))
    process.start()
    sender.close()
    try:
        row: Row = (
            receiver.recv() if receiver.poll(SECONDS) else {"status": "fault", "reason": f"over {SECONDS} seconds"}
        )
    except EOFError:
        row = {"status": "fault", "reason": "its process ended"}
    process.kill()
    process.join()
    return row


def _send(sender: Any, name: str, changes: Mapping[str, Any]) -> None:
    warnings.simplefilter("ignore")
    try:
        row = row_of(name, changes)
    except Exception as error:  # a fault of this package: a test finds it in the stored file
        row = {"status": "fault", "reason": f"{type(error).__name__}: {error}"}
    sender.send(row)


def stored() -> list[Any]:
    """Stored files, the newest versions first."""
    files = [json.loads(file.read_text()) for file in RESULTS.glob("*.json")]
    return sorted(files, key=lambda file: [[int(n) for n in number.split(".")] for number in _pair(file)], reverse=True)


def _pair(file: Any) -> tuple[str, str]:
    return file["packages"]["transformer-lens"], file["packages"]["transformers"].split("+")[0]


def summary() -> str:
    """How many architectures have which status, by versions."""
    files = stored()
    heads = [f"TransformerLens {lens}, transformers {transformers}" for lens, transformers in map(_pair, files)]
    counts = [Counter(options[""]["status"] for options in file["architectures"].values()) for file in files]
    cells = [[f"**{status}**: {said}", *(str(count[status]) for count in counts)] for status, said in STATUSES.items()]
    total = ["architectures", *(str(len(file["architectures"])) for file in files)]
    return table(["status", *heads], [*cells, total])


def rows_by_status() -> str:
    """A table for each status of the newest versions."""
    files = stored()
    found: dict[str, list[tuple[str, str, Row]]] = {}
    for name, options in sorted(files[0]["architectures"].items(), key=lambda item: item[0].lower()):
        for option, row in options.items():
            found.setdefault(row["status"], []).append((name, option, row))
    others = [f"{lens}, {transformers}" for lens, transformers in map(_pair, files[1:])]
    parts = [f"The newest versions are TransformerLens {_pair(files[0])[0]} with transformers {_pair(files[0])[1]}. Further columns say "
             "what differs with other versions."]  # fmt: skip
    for status in STATUSES:
        exact = status == "exact"
        head = ["architecture", *(["order", *_ERRORS] if exact else ["reason"]), *others]
        cells = [
            [f"`{name}`{option and f' with `{option}`'}", *(_errors(row) if exact else [_code(row["reason"])]),
             *(_elsewhere(row, file, name, option) for file in files[1:])]
            for name, option, row in found.get(status, [])
        ]  # fmt: skip
        parts.append(f"### {status[0].upper()}{status[1:]}\n\n{table(head, cells)}")
        if exact:
            parts.append(_with_media([(name, row) for name, _, row in found.get(status, [])]))
    return "\n\n".join(parts)


def _with_media(exact: Iterable[tuple[str, Row]]) -> str:
    """Table of the exact architectures that read an image or sound beside a text: errors with one, or the reason of a refusal."""
    cells = []
    for name, row in exact:
        if "media" in row:
            cells.append([f"`{name}`", f"refused: {_code(row['media'])}", *[""] * 3])
        elif "media float32" in row:
            held = {dtype: row.get(f"media {dtype}", "") for dtype in TOLERANCE}
            cells.append([f"`{name}`", *_errors({**held, "order": ""})[1:]])
    return f"### Exact, with an image or sound\n\n{table(['architecture', *_ERRORS], cells)}"


_ERRORS = ("maps, float32", "maps, float64", "logit, float32", "logit, float64")


def _errors(row: Row) -> list[str]:
    found = [row[dtype] for dtype in TOLERANCE]
    held = [
        [scientific(each[what], 1) if isinstance(each, dict) else "–" for each in found] for what in ("maps", "logit")
    ]
    return [f"`{row['order']}`", *held[0], *held[1]]


def _code(reason: str) -> str:
    return reason.replace("|", "\\|").replace("<", "&lt;")


def _elsewhere(row: Row, file: Any, name: str, option: str) -> str:
    other = file["architectures"].get(name, {}).get(option)
    if other is None:
        return "no bridge"
    if other["status"] == row["status"]:
        return ""
    return other["status"] + (f": {_code(other['reason'])}" if "reason" in other else "")


BLOCKS: Mapping[str, Callable[[], str]] = {"statuses": summary, "architectures": rows_by_status}


def main(*names: str) -> None:
    """Measure and store all architectures, or print some."""
    import torch
    from transformer_lens.factories.architecture_adapter_factory import SUPPORTED_ARCHITECTURES

    import tl_ffblock as ffb  # before the processes are forked
    from tests import tiny

    torch.set_num_threads(1)
    ffb.attribute(tiny.bridge("llama"), [5, 6], 7, of=(), progress=False)
    found: dict[str, dict[str, Row]] = {}
    for name, option, row in rows(names or SUPPORTED_ARCHITECTURES):
        found.setdefault(name, {})[option] = row
        print(name, option, json.dumps(row), flush=True)
    if not names:
        packages = {name: version(name) for name in ("transformer-lens", "transformers", "torch")}
        RESULTS.mkdir(exist_ok=True, parents=True)
        file = RESULTS / f"{packages['transformer-lens']}-{packages['transformers']}.json"
        file.write_text(json.dumps({"packages": packages, "tokens": N_TOKENS, "architectures": found}, indent=1) + "\n")
        print(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
