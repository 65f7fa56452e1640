"""`ffb.map_prompts`: the same as the calls one by one, also after an interruption, and by Ray workers."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from tests.corpora import loaded, model_folder
from tl_ffblock.errors import FFBlockError, InputError
from tl_ffblock.result import equal

__all__ = ["loaded", "model_folder"]

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ["the cat sat on the mat .", "a dog sat .", "the bird saw her", "the dog and the cat", "a bird ."]
PAIRS = [("the cat sat", "the dog sat"), ("a bird saw her", "a dog saw her"), ("the cat and", "the bird and")]

CASES: dict[str, tuple[Callable[..., Any], list[Any], dict[str, Any]]] = {
    "maps": (ffb.contribution_maps, TEXTS, {"scopes": ["AtbLnFfRes"], "queries": -1}),
    "attributions": (ffb.attribute, TEXTS, {"target": ffb.logit(7), "of": "heads"}),
    "a target each": (ffb.attribute, [(text, ffb.logit(5 + n)) for n, text in enumerate(TEXTS)], {}),
    "patching pairs": (ffb.attribution_patching, [(*pair, ffb.logit(9)) for pair in PAIRS], {"edges": True}),
    "tokens": (ffb.attribute, [torch.arange(6, 6 + n) for n in (3, 4, 5)], {"target": ffb.logit(7)}),
}


def one_by_one(model: Any, function: Callable[..., Any], prompts: list[Any], options: dict[str, Any]) -> list[Any]:
    calls = [prompt if isinstance(prompt, tuple) else (prompt,) for prompt in prompts]
    return [function(model, *arguments, **options) for arguments in calls]


@pytest.mark.parametrize("name", CASES)
def test_a_run_is_the_calls_one_by_one(name: str, tmp_path: Path, loaded: Callable[[str], Any]) -> None:
    """Every label and number, in the order of the prompts; a second call reads the folder and computes nothing."""
    function, prompts, options = CASES[name]
    model, out = loaded("gpt2"), str(tmp_path / "run")
    found = ffb.map_prompts(function, model, prompts, out=out, shard_size=2, **options)
    assert isinstance(found, ffb.Results)
    assert equal(list(found), one_by_one(model, function, prompts, options))
    again = ffb.map_prompts(function, model, prompts, out=out, shard_size=2, **options)
    assert equal(list(again), list(found))


CALLS: list[str] = []
MOST_CALLS = {"calls": 99}


def counted(model: Any, text: str) -> Any:
    """Notes each call, and ends as a killed process does at one of them."""
    if len(CALLS) == MOST_CALLS["calls"]:
        raise KeyboardInterrupt
    CALLS.append(text)
    return ffb.contribution_maps(model, text, scopes=["AtbLnFfRes"])


def test_an_interrupted_run_computes_what_is_missing_and_a_longer_one_what_is_new(
    tmp_path: Path, loaded: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The results are those of an uninterrupted run; full shards of fewer prompts are kept."""
    model, out = loaded("gpt2"), str(tmp_path / "run")
    CALLS.clear()
    monkeypatch.setitem(MOST_CALLS, "calls", 3)
    with pytest.raises(KeyboardInterrupt):
        ffb.map_prompts(counted, model, TEXTS[:4], out=out, shard_size=2)
    assert TEXTS[:3] == CALLS
    CALLS.clear()
    found = ffb.map_prompts(counted, model, TEXTS[:4], out=out, shard_size=2)
    assert TEXTS[2:4] == CALLS
    CALLS.clear()
    longer = ffb.map_prompts(counted, model, TEXTS, out=out, shard_size=2)
    assert TEXTS[4:] == CALLS
    expected = one_by_one(model, ffb.contribution_maps, TEXTS, {"scopes": ["AtbLnFfRes"]})
    assert equal(list(found), expected[:4]) and equal(list(longer), expected)


def rounded(model: Any, text: str) -> Any:
    """Maps whose numbers are of a type that NumPy does not know."""
    maps = ffb.attention_maps(model, text)
    return replace(maps, values=maps.values.bfloat16())


def test_results_in_bfloat16_are_kept_as_they_are(tmp_path: Path, loaded: Callable[[str], Any]) -> None:
    """In the first call, which makes them, and in the second, which reads them."""
    model, out = loaded("gpt2"), str(tmp_path / "run")
    expected = one_by_one(model, rounded, TEXTS, {})
    for _ in range(2):
        found = ffb.map_prompts(rounded, model, TEXTS, out=out)
        assert found[0].values.dtype == torch.bfloat16 and equal(list(found), expected)


def test_a_folder_of_another_call_is_refused(tmp_path: Path, loaded: Callable[[str], Any]) -> None:
    """Other options, another function, other prompts or other weights are another run."""
    model, out = loaded("gpt2"), str(tmp_path / "run")
    ffb.map_prompts(ffb.attribute, model, TEXTS[:2], out=out, target=ffb.logit(7))
    others: list[tuple[Any, ...]] = [
        (ffb.attribute, model, TEXTS[:2], {"target": ffb.logit(8)}),
        (ffb.attribute, model, TEXTS[:2], {"target": ffb.logit(7), "rules": "gradient"}),
        (ffb.direct_logit_attribution, model, TEXTS[:2], {"target": ffb.logit(7)}),
        (ffb.attribute, model, TEXTS[1:3], {"target": ffb.logit(7)}),
        (ffb.attribute, loaded("llama"), TEXTS[:2], {"target": ffb.logit(7)}),
    ]
    for function, other, prompts, options in others:
        with pytest.raises(InputError, match="has a run of other settings"):
            ffb.map_prompts(function, other, prompts, out=out, **options)


def own(token: int) -> Callable[..., Any]:
    """Functions of the same source that hold another number."""
    return lambda model, text: ffb.attribute(model, text, ffb.logit(token))


def test_a_function_of_ones_own_is_known_by_its_source_and_what_it_holds(
    tmp_path: Path, loaded: Callable[[str], Any]
) -> None:
    model, out = loaded("gpt2"), str(tmp_path / "run")
    ffb.map_prompts(own(7), model, TEXTS[:2], out=out)
    ffb.map_prompts(own(7), model, TEXTS[:2], out=out)
    with pytest.raises(InputError, match=r"function\.source"):
        ffb.map_prompts(own(8), model, TEXTS[:2], out=out)


def test_prompts_that_fail_are_named_and_the_others_are_done(tmp_path: Path, loaded: Callable[[str], Any]) -> None:
    model, out = loaded("gpt2"), tmp_path / "run"
    for _ in "12":
        with pytest.raises(
            InputError, match=r"1 of 3 prompts failed. prompt 1: InputError.*The other prompts are finished"
        ):
            ffb.map_prompts(ffb.contribution_maps, model, [TEXTS[0], "", TEXTS[1]], out=str(out), shard_size=1)
    assert len(list((out / "shards").iterdir())) == 3


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no prompts": ({"prompts": []}, "expected one or more"),
    "an option that the function lacks": ({"scope": "Atb"}, "map_prompts of contribution_maps has no argument `scope`"),
    "a model that workers cannot load": ({"engine": "ray"}, "workers load a model by name"),
    "no part of a GPU": ({"gpus": 0.0}, "gpus=0.0: expected a positive number"),
    "a prompt without a form": ({"prompts": [object()]}, r"prompts\[0\] is .*expected strings, numbers"),
    "several results": ({"prompts": [["a dog", "a cat"]]}, "returned a Results: expected one result"),
    "a file": ({"out": __file__}, "is a file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_run_is_refused(name: str, tmp_path: Path, loaded: Callable[[str], Any]) -> None:
    given, said = REFUSED[name]
    options = {"prompts": TEXTS, "out": str(tmp_path / "run"), **given}
    with pytest.raises(FFBlockError, match=said):
        ffb.map_prompts(ffb.contribution_maps, loaded("gpt2"), **options)


@pytest.fixture
def _workers_import_the_source(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.xdist_group("ray")
@pytest.mark.usefixtures("_workers_import_the_source")
def test_two_ray_workers_give_the_same(tmp_path: Path, model_folder: Callable[[str], str]) -> None:
    """Of pairs with a target each, shards over two workers; then a prompt more in this process, on the same folder."""
    assert os.environ["PYTHONPATH"]
    folder, out = model_folder("gpt2"), str(tmp_path / "run")
    items = [(*pair, ffb.logit(9)) for pair in PAIRS] + [("the dog saw", "the cat saw", ffb.logit(8))]
    given = dict(out=out, shard_size=1, edges=True)
    found = ffb.map_prompts(ffb.attribution_patching, folder, items[:3], engine="ray", workers=2, **given)
    expected = one_by_one(ffb.load_model(folder), ffb.attribution_patching, items, {"edges": True})
    assert equal(list(found), expected[:3])
    assert equal(list(ffb.map_prompts(ffb.attribution_patching, folder, items, **given)), expected)
