"""`tl-ffblock replicate` on folders in the hub's layout: tiny models as `save_pretrained` writes them, a saved dataset."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.corpora import corpus, model_folder, stored_tables
from tl_ffblock.corpus import texts
from tl_ffblock.errors import InputError
from tl_ffblock.experiments import Config, run_studies, studies_of
from tl_ffblock.experiments.kobayashi import replication
from tl_ffblock.experiments.kobayashi.replication import CORPORA, MODELS, replicate

from .conftest import Command

__all__ = ["corpus", "model_folder"]
STUDIES = "contextualization,bypass"


@pytest.fixture
def hub(tmp_path: Path, model_folder: Callable[[str], str], corpus: Path) -> dict[str, str]:
    """Two models called as on the hub, and SST-2's form of a dataset with its splits."""
    import datasets

    folders = {"bert-base-uncased": "bert", "gpt2": "gpt2"}
    for name, family in folders.items():
        (tmp_path / name).symlink_to(model_folder(family))
    lines = corpus.read_text().splitlines()[:5]
    dataset = datasets.Dataset.from_dict({"sentence": lines, "label": [0] * 5})
    datasets.DatasetDict({"train": dataset.select([0]), "validation": dataset}).save_to_disk(str(tmp_path / "sst2"))
    return {name: str(tmp_path / name) for name in (*folders, "sst2")}


def test_models_and_corpora_side_by_side(hub: dict[str, str], tmp_path: Path, command: Command) -> None:
    """Tables are those of single runs, numbers stand beside the paper's where these are known, a second start changes nothing."""
    models, out = ",".join((hub["bert-base-uncased"], hub["gpt2"])), tmp_path / "out"
    given = (
        "replicate",
        "--out",
        str(out),
        "--models",
        models,
        "--corpora",
        f"sst2={hub['sst2']}",
        "--studies",
        STUDIES,
    )
    ran = command(*given, "--limit", "4", "--examples", "0")
    assert ran.status == 0 and "2 of 2 runs" in ran.out
    config = Config(
        hub["gpt2"], hub["sst2"], str(tmp_path / "alone"), split="validation", column="sentence", limit=4, examples=0
    )
    alone = run_studies(STUDIES, config)
    assert stored_tables(alone.folder) == stored_tables(out / "gpt2" / "sst2")
    table = pd.read_csv(out / "comparison.csv", keep_default_na=False)
    assert set(table["model"]) == {"bert-base-uncased", "gpt2"} and set(table["corpus"]) == {"sst2"}
    row = table.query("model == 'gpt2' and what == 'mean change by FF, whole maps'").iloc[0]
    changes = alone.tables["contextualization_changes"].query("cells == 'all' and component == 'FF'")["change"]
    assert (row["measured"], row["paper"]) == (f"{changes.mean():.4f}", "about 0.15")
    page = (out / "index.html").read_text()
    for shown in (
        "gpt2/sst2/report.html",
        "bert-base-uncased/sst2/figures/bypass_norms.png",
        "Fig. 3, 14-18",
        "3, 9-11",
    ):
        assert shown in page
    for linked in ("gpt2/sst2/report.html", "bert-base-uncased/sst2/figures/bypass_norms.png"):
        assert (out / linked).is_file()
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/sst2/shards/shard-*")}
    assert len(before) == 2
    assert command(*given, "--limit", "4", "--examples", "0").status == 0
    assert before == {path: path.stat().st_mtime_ns for path in out.glob("*/sst2/shards/shard-*")}
    assert (out / "index.html").read_text() == page


def test_a_model_that_is_not_there_does_not_end_the_others(
    hub: dict[str, str], tmp_path: Path, command: Command
) -> None:
    """It is named with the reason, on the page too, and the status says that the replication is not whole."""
    models = f"{tmp_path / 'nowhere'},{hub['gpt2']}"
    given = ("--corpora", f"sst2={hub['sst2']}", "--studies", "bypass", "--limit", "2", "--examples", "0")
    ran = command("replicate", "--out", "out", "--models", models, *given)
    assert ran.status == 1 and "1 of 2 runs" in ran.out
    assert "nowhere left out: " in ran.err and "nowhere" in Path("out/index.html").read_text()
    assert Path("out/gpt2/sst2/report.html").is_file()


def test_what_the_paper_read() -> None:
    """Thirteen models, each with a folder of its own; claims and figures are of the paper's studies; fields are a run's."""
    assert len({replication._slug(model) for model in MODELS}) == 13
    names = studies_of("kobayashi")
    for begins in (*replication.FIGURES, *(claim.table for claim in replication.CLAIMS)):
        assert any(begins.startswith(name) for name in names)
    said = {model for claim in replication.CLAIMS for model in claim.paper} - {""}
    assert said <= {replication._slug(model) for model in MODELS}
    for fields in CORPORA.values():
        assert Config(model="m", out="o", **fields)


def test_a_subset_of_the_hub_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, subset and split reach `load_dataset`."""
    import datasets

    asked: list[Any] = []

    def load(*names: Any, **options: Any) -> Any:
        asked.append((names, options))
        return datasets.Dataset.from_dict({"text": ["a b"]})

    monkeypatch.setattr(datasets, "load_dataset", load)
    config = Config(model="m", out="o", **{**CORPORA["wikipedia"], "min_words": 1})
    assert [text.text for text in texts.read_texts(config)] == ["a b"]
    assert asked == [(("Salesforce/wikitext", "wikitext-2-raw-v1"), {"split": "test"})]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"corpora": {"imdb": None}}, "'imdb' is not a corpus of the paper; expected sst2, wikipedia"),
        ({"models": ["a/gpt2", "b/gpt2"]}, "expected one or more of each, and different names of models"),
        ({"models": []}, "expected one or more of each"),
    ],
)
def test_what_is_no_replication_is_refused(given: dict[str, Any], says: str, tmp_path: Path) -> None:
    """Before anything is loaded."""
    with pytest.raises(InputError, match=says):
        replicate(tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()
