"""`tl-ffblock replicate` on folders in the hub's layout: tiny models as `save_pretrained` writes them, a saved dataset."""

import re
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
    assert ran.status == 0 and "2 of 2 pairs of model and corpus" in ran.out
    config = Config(
        hub["gpt2"], hub["sst2"], str(tmp_path / "alone"), split="validation", column="sentence", limit=4, examples=0
    )
    alone = run_studies(STUDIES, config)
    assert stored_tables(alone.folder) == stored_tables(out / "gpt2" / "sst2")
    table = pd.read_csv(out / "comparison.csv", keep_default_na=False)
    assert set(table["model"]) == {"bert-base-uncased", "gpt2"} and set(table["corpus"]) == {"sst2"}
    row = table.query("model == 'gpt2' and what == 'mean change by FF, whole maps'").iloc[0]
    changes = alone.tables["contextualization_changes"].query("cells == 'all' and component == 'FF'")["change"]
    assert tuple(row[["measured", "paper", "paper_of"]]) == (f"{changes.mean():.4f}", "0.15", "gpt2 on wikipedia")
    page = (out / "index.html").read_text()
    for shown in (
        "gpt2/sst2/report.html",
        "bert-base-uncased/sst2/figures/bypass_norms.png",
        "Fig. 3, 14-18",
        "3, 9, 10, 11",
        "bert-base-uncased on wikipedia",
    ):
        assert shown in page
    for linked in ("gpt2/sst2/report.html", "bert-base-uncased/sst2/figures/bypass_norms.png"):
        assert (out / linked).is_file()
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/sst2/shards/shard-*")}
    assert len(before) == 2
    assert command(*given, "--limit", "4", "--examples", "0").status == 0
    assert before == {path: path.stat().st_mtime_ns for path in out.glob("*/sst2/shards/shard-*")}
    assert (out / "index.html").read_text() == page


def test_models_are_those_of_packages_or_the_papers(
    monkeypatch: pytest.MonkeyPatch, command: Command, tmp_path: Path
) -> None:
    """Without --models what needs no hub; `paper` is its thirteen; names and folders as given."""
    asked: list[Any] = []

    def noted(out: str, *, models: Any, **_: Any) -> replication.Replication:
        asked.append(models)
        return replication.Replication(Path(out), pd.DataFrame(), {}, {})

    monkeypatch.setattr(replication, "replicate", noted)
    for given in ((), ("--models", "paper"), ("--models", "gpt2,minilm")):
        command("replicate", "--out", str(tmp_path), *given)
    assert asked == [("minilm", "smollm2"), MODELS, ("gpt2", "minilm")]


def test_a_model_that_is_not_there_does_not_end_the_others(
    hub: dict[str, str], tmp_path: Path, command: Command
) -> None:
    """It is named with the reason, on the page too, and the status says that the replication is not whole."""
    models = f"{tmp_path / 'nowhere'},{hub['gpt2']}"
    given = ("--corpora", f"sst2={hub['sst2']}", "--studies", "bypass", "--limit", "2", "--examples", "0")
    ran = command("replicate", "--out", "out", "--models", models, *given)
    assert ran.status == 1 and "1 of 2 pairs" in ran.out
    assert "nowhere left out: " in ran.err and "nowhere" in Path("out/index.html").read_text()
    assert Path("out/gpt2/sst2/report.html").is_file()


def test_what_the_paper_read() -> None:
    """Thirteen models, each with a folder of its own; claims and figures are of the paper's studies; fields are a run's."""
    assert len({replication._slug(model) for model in MODELS}) == 13
    seeds = [model for model in MODELS if "seed" in model]
    assert seeds == [f"google/multiberts-seed_{seed}" for seed in (0, 10, 20)]  # Fig. 15, 20, 25
    names = studies_of("kobayashi")
    for begins in (*replication.FIGURES, *(claim.table for claim in replication.CLAIMS)):
        assert any(begins.startswith(name) for name in names)
    for fields in CORPORA.values():
        assert Config(model="m", out="o", **fields)


PLACE = re.compile(r"(section|appendix|note) [\dA-H.]+|(Fig\.|Tab\.) \d+(-\d+)?(, \d+(-\d+)?)*")


def unplaced(numbers: pd.DataFrame) -> list[str]:
    """Values without a figure, table or section, of an unknown model or corpus, or of nothing that is read from a run."""
    known = {claim.what for claim in replication.CLAIMS}
    models, corpora = {"", *map(replication._slug, MODELS)}, {"", *CORPORA}
    return [
        row.value
        for row in numbers.itertuples()
        if PLACE.sub("", row.place).strip(", ") or not row.place or not row.value
        or row.what not in known or row.model not in models or row.corpus not in corpora
    ]  # fmt: skip


def test_every_number_of_the_paper_has_its_place() -> None:
    """And every claim has one; a number without a place, of another model or of nothing measured is refused."""
    numbers = replication.paper_numbers()
    assert not unplaced(numbers) and {claim.what for claim in replication.CLAIMS} == set(numbers["what"])
    for column, wrong in {"place": "", "what": "mean", "model": "gpt3", "corpus": "imdb"}.items():
        assert unplaced(numbers.assign(**{column: wrong})) == list(numbers["value"])
    assert len(unplaced(numbers.assign(place="somewhere"))) == len(numbers)


def test_tables_two_and_three_hold_table_one() -> None:
    """Ten pairs in each of twelve layers of two models; those of Tab. 1 are among them, in the layers that name it."""
    pairs = replication.paper_numbers().query("what.str.startswith('most amplified')").set_index(["model", "what"])
    assert len(pairs) == 24 and all(len(re.findall(r"\(\S+, \S+\)", value)) == 10 for value in pairs["value"])
    first = {
        ("bert-base-uncased", 1): "(opera, soap) (##night, week)",
        ("bert-base-uncased", 3): "(toys, ##hop) (’, t)",
        ("bert-base-uncased", 6): "(with, charged) (fleming, colin)",
        ("bert-base-uncased", 9): "(but, difficulty) (she, teacher)",
        ("bert-base-uncased", 11): "(tiny, tiny) (highway, highway)",
        ("gpt2", 1): "(ies, stud) (ning, begin)",
        ("gpt2", 3): "(_than, _rather) (_others, _among)",
        ("gpt2", 6): "(_del, del) (_route, route)",
        ("gpt2", 8): "(_08, _2007) (_14, _density)",
        ("gpt2", 12): "(_operational, _not) (_daring, _has)",
    }
    for (model, layer), named in first.items():
        row = pairs.loc[(model, f"most amplified pairs, layer {layer}")]
        assert all(pair in row["value"] for pair in re.findall(r"\(.+?, .+?\)", named))
    assert pairs["place"].str.contains("Tab. 1,").sum() == len(first)


@pytest.mark.parametrize(
    ("steps", "ln"),
    [
        ([("RES", "Attn", "AttnRes"), ("LN", "AttnRes", "Atb"), ("LN", "AtbFfRes", "AtbFfResLn")], 2),
        ([("RES", "Attn", "Atb"), ("LN", "Atb", "AtbLn"), ("LN", "AtbLnFfRes", "AtbLnFfResLn")], 1),
        ([("LN", "Attn", "AttnLn"), ("LN", "AtbFf", "AtbFfLn"), ("LN", "AtbFfRes", "AtbFfResLn")], 1),
        ([("RES", "Attn", "Atb"), ("LN", "AtbLnFfRes", "AtbLnFfResLn")], None),
    ],
    ids=["post_ln", "pre_ln", "norm_after", "parallel"],
)
def test_the_norm_of_figure_3_is_that_of_the_block(steps: list[tuple[str, str, str]], ln: int | None) -> None:
    """After FF in Post-LN, before it in Pre-LN (Fig. 3d), never the next layer's, which is Fig. 6's."""
    changes = pd.DataFrame(
        [("all", layer, *step, 10 * number + layer) for number, step in enumerate(steps) for layer in (0, 1, 2)],
        columns=["cells", "layer", "component", "before", "after", "change"],
    )
    table = replication.compared({("m", "sst2"): {"contextualization_changes": changes.assign(sequences=1)}})
    read = table.set_index("what")["measured"].to_dict()
    expected = (
        {}
        if ln is None
        else {"mean change by LN, whole maps": f"{10 * ln + 1:.4f}", "layers that LN changes most": "2, 3"}
    )
    assert {what: value for what, value in read.items() if "LN" in what} == expected


@pytest.mark.parametrize(
    ("model", "corpus", "paper", "paper_of"),
    [
        ("google/bert_uncased_L-8_H-512_A-8", "wikipedia", "-0.32 to -0.47", ""),
        ("google/multiberts-seed_20", "wikipedia", "-0.50 to -0.68", ""),
        ("gpt2", "sst2", "-0.22 to -0.59 (layers 1-11)", "gpt2 on wikipedia"),
    ],
)
def test_numbers_of_the_paper_are_of_the_model_or_say_of_which(
    model: str, corpus: str, paper: str, paper_of: str
) -> None:
    """A number of the run's own model and corpus, else of this model, else of all others, by name."""
    what = "Pearson of FF's output and the next gain"
    assert replication._paper(what, replication._slug(model), corpus)[1:] == (paper, paper_of)
    of_others = replication._paper(what, "minilm", "wikipedia")
    assert len(of_others[1].split("; ")) == len(of_others[2].split("; ")) == 12
    assert replication._paper("sequences", "minilm", "sst2")[1:] == ("872", "its models on sst2")


def test_short_studies_read_ten_texts_of_the_papers_corpus() -> None:
    """Fig. 11 on SST-2 and Fig. 12 on Wikipedia, in a folder of their own; on the corpus that is there if it is another."""
    both, settings = ("sst2", "wikipedia"), {"limit": 992}
    long = "contextualization,amplification,bypass,outliers"
    for name, short in {"sst2": "attribution-methods", "wikipedia": "cost"}.items():
        parts = replication._parts(replication.STUDIES, settings, name, both)
        assert parts == [("", long, {}), ("-short", short, {"limit": 10})]
    assert replication._parts("cost,attribution-methods", {"limit": 4}, "sst2", ("sst2",)) == [
        ("-short", "cost,attribution-methods", {"limit": 4})
    ]
    assert replication._parts("bypass", {}, "sst2", both) == [("", "bypass", {})]


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
