"""`ffb.map_prompts`: one call per prompt, in this process or on Ray workers, with a folder from which an interrupted run continues.

It is a study run whose shards contain results in place of statistics: the same store, scheduling and continuation.
"""

# Noun: parallel map (Ray, datasets.Dataset.map)
import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property, partial
from typing import Any, Literal

import torch
from torch import Tensor

from tl_ffblock.bridge.loading import load_model
from tl_ffblock.bridge.model import identify
from tl_ffblock.corpus.runs import run_local, run_ray
from tl_ffblock.corpus.settings import Config, require
from tl_ffblock.corpus.store import Store, versions
from tl_ffblock.corpus.study import Arrays
from tl_ffblock.corpus.worker import MACHINE_ERRORS, SEQUENCE_ERRORS, threads
from tl_ffblock.errors import InputError, brief, out_of_memory
from tl_ffblock.progress import Progress
from tl_ffblock.result import Result, Results, as_described, from_labels, labels_of
from tl_ffblock.signatures import refuse_options, strict

MOST_NAMED = 5
"""Largest number of failed prompts that an error lists."""


@strict
def map_prompts(
    function: Callable[..., Result],
    model: Any,
    prompts: Sequence[Any],
    *,
    out: str,
    engine: Literal["local", "ray"] = "local",
    workers: int = 2,
    threads: int = 1,
    gpus: float = 1.0,
    ray_address: str | None = None,
    device: str = "cpu",
    shard_size: int = 8,
    **options: Any,
) -> Results[Any]:
    """`Results` of `function(model, prompt, **options)`, one per prompt in their order.

    Finished shards are stored in `out`. The same call after an interruption computes only the missing ones. A call with more
    prompts after the same first ones computes only the new ones. The results equal those of single calls.

    Args:
        function: Function of model and prompt, such as `ffb.contribution_maps`, `ffb.attribute`, `ffb.attribution_patching`, or
            your own; it must return one result.
        model: A name for `ffb.load_model`, which the workers load; for the local engine also a loaded model.
        prompts: Arguments after the model: a text or tokens, or a tuple of several arguments, such as (clean, corrupted,
            target) for patching or (text, target) for an attribution.
        out: Folder of the run.
        engine: This process, or workers of a Ray cluster (extra `ray`).
        workers: Number of Ray workers; each has a copy of the model.
        threads: CPU threads per worker.
        gpus: GPUs per worker if the device is cuda; with 0.25 four workers share one.
        ray_address: Address of a running cluster; None starts one on this machine, unless RAY_ADDRESS is set.
        device: Device of the models.
        shard_size: Number of prompts that are computed and stored as a unit.
        **options: Options of the function, the same for all prompts.

    Returns:
        `Results`, a list with `to_dataframe`, `mean` and `save`.

    Raises:
        InputError: if an argument cannot be used, the folder has another run, shards could not be computed, or prompts failed.
        ModelLoadError: if the model does not exist.
        EngineError: if workers cannot be started, or die repeatedly.
    """
    by_ray, named = engine == "ray", model if isinstance(model, str) else ""
    require(["filelock", *(["ray"] if by_ray else [])])
    if by_ray and not named:
        raise InputError(
            f"model is a {type(model).__name__}: workers load a model by name. Pass its name, or use engine='local'."
        )
    settings = dict(workers=workers, threads=threads, gpus=gpus, ray_address=ray_address, shard_size=shard_size)
    config = Config(model=named, data="prompts", out=out, engine=engine, device=device, **settings)  # type: ignore[arg-type]
    config.check_out()
    refuse_options(f"map_prompts of {_name_of(function)}", function, options)
    shards = PromptShards(tuple(prompts), shard_size)
    mark = _fingerprint_of_call(function, options)
    hooked = load_model(model, device="cpu" if by_ray else device) if named else model
    worker = PromptWorker(config, function, options, hooked)
    mark |= {"config.threads": threads, "config.shard_size": shard_size, "model.weights": worker.weights, **versions()}
    mark |= {"data": shards.digest, "data.sequences": len(shards.prompts)}
    store = Store(config.folder, mark, shards.whole_shards_of, shards.digests)
    done = sum(shards.size(shard) for shard in store.verify())
    with Progress(_name_of(function), len(shards.prompts), "prompts", done=done, kind="lasting") as progress:
        failed = (run_ray if by_ray else run_local)(worker, shards, store, progress)
    if failed:
        raise InputError(
            f"out={out!r}: {len(failed)} shards could not be computed: {next(iter(failed.values()))}. Run it again."
        )
    return _collected(shards, store)


def _collected(shards: "PromptShards", store: Store) -> Results[Any]:
    found: list[Result] = []
    problems: list[tuple[int, str]] = []
    for held in store.read(shards.numbers):
        tensors = {name: torch.from_numpy(held[name]) for name in held.meta["tensors"]}
        tensors |= {name: tensors[name].view(torch.bfloat16) for name in held.meta.get("bfloat16", ())}
        problems += [(number, why) for number, why in held.meta["problems"]]
        found += as_described(partial(from_labels, held.meta["results"], tensors), tuple[Result, ...], store.folder)
    if problems:
        said = "; ".join(f"prompt {number}: {why}" for number, why in problems[:MOST_NAMED])
        raise InputError(
            f"{len(problems)} of {len(shards.prompts)} prompts failed. {said}. Correct or omit them, and use another folder. "
            "The other prompts are finished."
        )
    return Results(found)


@dataclass(frozen=True)
class PromptShards:
    """Prompts in shards of equal size."""

    prompts: tuple[Any, ...]
    shard_size: int

    def __post_init__(self) -> None:
        if not self.prompts:
            raise InputError("prompts=[]: expected one or more prompts.")

    @cached_property
    def _digests_of_prompts(self) -> tuple[bytes, ...]:
        return tuple(_digest(prompt, f"prompts[{number}]") for number, prompt in enumerate(self.prompts))

    @cached_property
    def digests(self) -> tuple[bytes, ...]:
        """Digest of each shard's prompts."""
        starts = range(0, len(self.prompts), self.shard_size)
        shards = (self._digests_of_prompts[start : start + self.shard_size] for start in starts)
        return tuple(hashlib.sha256(b"".join(shard)).digest() for shard in shards)

    @property
    def digest(self) -> str:
        """Digest of all prompts."""
        return self._digest_of_first(len(self.prompts))

    @property
    def numbers(self) -> range:
        """Numbers of the shards."""
        return range(len(self.digests))

    def size(self, shard: int) -> int:
        """Number of prompts in a shard."""
        return len(self.prompts[shard * self.shard_size :][: self.shard_size])

    def whole_shards_of(self, n: int, digest: str) -> int | None:
        """Number of shards shared with a run over this run's first prompts; None if its prompts are not these."""
        if n > len(self.prompts) or self._digest_of_first(n) != digest:
            return None
        return len(self.digests) if n == len(self.prompts) else n // self.shard_size

    def texts(self, wanted: set[int]) -> Iterator[tuple[int, list[tuple[int, Any]]]]:
        """Prompts of the wanted shards, with their numbers."""
        numbered = list(enumerate(self.prompts))
        for shard in sorted(wanted):
            yield shard, numbered[shard * self.shard_size :][: self.shard_size]

    def _digest_of_first(self, n: int) -> str:
        return hashlib.sha256(b"".join(self._digests_of_prompts[:n])).hexdigest()


class PromptWorker:
    """A loaded model and a function of it."""

    def __init__(self, config: Config, function: Callable[..., Result], options: Mapping[str, Any], model: Any) -> None:
        self.config, self._function, self._options, self._model = config, function, options, model

    @classmethod
    def loaded(cls, config: Config, function: Callable[..., Result], options: Mapping[str, Any]) -> "PromptWorker":
        """Worker with the model of the config, loaded to its device."""
        return cls(config, function, options, load_model(config.model, device=config.device))

    @property
    def twin(self) -> Callable[[], "PromptWorker"]:
        """Factory of the same worker in another process."""
        return partial(type(self).loaded, self.config, self._function, self._options)

    @cached_property
    def weights(self) -> str:
        """Fingerprint of the model, which includes offloaded and quantised weights."""
        return identify(self._model).fingerprint

    def compute(
        self, prompts: Sequence[tuple[int, Any]], count: Callable[[], None] = lambda: None
    ) -> tuple[Arrays, dict[str, Any]]:
        """Results of a shard as arrays and labels; the labels list prompts that failed.

        Raises:
            MemoryError: if memory runs out.
        """
        results: list[Result] = []
        problems: list[tuple[int, str]] = []
        with threads(self.config.threads):
            for number, prompt in prompts:
                try:
                    results.append(self._result(prompt))
                except MACHINE_ERRORS:
                    raise
                except SEQUENCE_ERRORS as error:
                    if out_of_memory(error):
                        raise MemoryError(str(error)) from error
                    problems.append((number, f"{type(error).__name__}: {' '.join(str(error).split())}"))
                count()
        labels, tensors = labels_of(tuple(results))
        held = {name: tensor.detach().cpu() for name, tensor in tensors.items()}
        halves = sorted(
            name for name, tensor in held.items() if tensor.dtype == torch.bfloat16
        )  # NumPy has no bfloat16
        arrays = {name: (of.view(torch.int16) if name in halves else of).numpy() for name, of in held.items()}
        return arrays, {"results": labels, "tensors": sorted(arrays), "bfloat16": halves, "problems": problems}

    def _result(self, prompt: Any) -> Result:
        arguments = prompt if isinstance(prompt, tuple) else (prompt,)
        result = self._function(self._model, *arguments, **self._options)
        if not isinstance(result, Result):
            raise InputError(
                f"{_name_of(self._function)} returned a {type(result).__name__}: expected one result of this package per prompt."
            )
        return result


def _name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def _fingerprint_of_call(function: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs of a function's results: its name, its options, and its source if it is not in this package."""
    held = {name: _digest(value, name).hex() for name, value in options.items()}
    mark = {
        "function": f"{function.__module__}:{_name_of(function)}",
        **{f"option.{name}": d for name, d in held.items()},
    }
    if not function.__module__.startswith("tl_ffblock."):
        mark["function.source"] = _digest(function, "function").hex()
    return mark


def _digest(value: Any, where: str) -> bytes:
    """Digest of strings, numbers, tensors, functions, and lists, mappings and dataclasses of them; the same in every process.

    Raises:
        InputError: for any other value.
    """
    digest = hashlib.sha256(type(value).__qualname__.encode())
    if isinstance(value, Tensor):
        whole = value.detach().cpu().contiguous()
        digest.update(
            f"{whole.dtype} {tuple(whole.shape)}".encode() + whole.reshape(-1).view(torch.uint8).numpy().tobytes()
        )
    elif value is None or isinstance(value, str | int | float | bool):
        digest.update(json.dumps(value).encode())
    elif isinstance(value, Mapping):
        value = sorted((str(name), one) for name, one in value.items())
        digest.update(b"".join(name.encode() + _digest(one, f"{where}[{name!r}]") for name, one in value))
    elif isinstance(value, list | tuple | range):
        digest.update(b"".join(_digest(one, f"{where}[{number}]") for number, one in enumerate(value)))
    elif is_dataclass(value) and not isinstance(value, type):
        held = ((field.name, getattr(value, field.name)) for field in fields(value))
        digest.update(b"".join(name.encode() + _digest(one, f"{where}.{name}") for name, one in held))
    elif inspect.isfunction(value):
        digest.update(_source_of(value, where))
    else:
        raise InputError(
            f"{where} is {brief(value)}: expected strings, numbers, tensors, metrics or functions, or lists of them, which identify a "
            "run."
        )
    return digest.digest()


def _source_of(function: Any, where: str) -> bytes:
    """Source of a function, with its closure and default values."""
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = function.__code__.co_code.hex() + repr(function.__code__.co_names)
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    return source.encode() + _digest([*held, function.__defaults__, function.__kwdefaults__], where)
