"""The table of studies: each line is a study that can be run; a study of a user's own runs like them."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tl_ffblock as ffb
from tests.corpora import stored_tables
from tl_ffblock.cli.main import main
from tl_ffblock.corpus.runs import CorpusRun
from tl_ffblock.corpus.study import Study
from tl_ffblock.errors import InputError
from tl_ffblock.experiments import STUDIES, Config, option_fields, study

DOCS = Path(__file__).resolve().parents[2] / "docs" / "how_to" / "extend.md"
EXPERIMENTS = DOCS.parents[1] / "experiments.md"


@pytest.mark.parametrize("name", STUDIES)
def test_every_line_is_a_study(name: str) -> None:
    """Its class is called as its line is; what is set of its options is what it gets, and stands in the fingerprint."""
    spec = study(name)
    assert issubclass(spec.study_class, Study) and spec.study_class.name == name and spec.study_class.title
    assert spec.home == STUDIES[name]
    assert re.match(
        r"(sections?|appendix) [\dA-H]|(Fig|Tab)\. \d", spec.study_class.repeats
    )  # what of its paper it repeats
    row = next(
        line for line in EXPERIMENTS.read_text(encoding="utf-8").splitlines() if line.startswith(f"| `{name}` |")
    )
    assert f"({spec.study_class.repeats}" in row or f"; {spec.study_class.repeats}" in row
    for field in option_fields(name):
        chosen = study(name, **{field.name: field.default})
        assert getattr(chosen.options, field.name) == field.default == chosen.fingerprint()[f"{name}.{field.name}"]


@pytest.fixture
def of_the_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that docs/how_to/extend.md shows, in a folder outside the package where Python looks; the path of the first."""
    found = re.findall(r"<!-- study: (\S+) -->\n```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    file, *_ = [tmp_path / "own" / name for name, _ in found]
    file.parent.mkdir()
    for name, code in found:
        (file.parent / name).write_text(code, encoding="utf-8")
    (file.parent / "no_study.py").write_text("Residuals = dict\n")
    monkeypatch.chdir(file.parent)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for module in ("residuals", "own_cells", "no_study"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    return file


def test_a_study_of_ones_own_runs_like_the_others(
    of_the_docs: Path, config_of: Callable[..., Config], run: Callable[..., CorpusRun], loaded: Callable[[str], Any]
) -> None:
    """By the command line from its folder, and in Python beside another: its table holds what the cache says; a change is refused."""
    config = config_of(family="llama", limit=3)
    arguments = ["run", "residuals:Residuals", "--model", config.model, "--data", config.data, "--out", config.out]
    assert main([*arguments, "--limit", "3", "--shard-size", "4"]) == 0
    assert "residuals:Residuals" in (config.folder / "report.html").read_text(encoding="utf-8")
    model = loaded("llama")
    both = run(["residuals:Residuals", "bypass"], family="llama", limit=3, out="both")
    name = "residuals_norms.csv"
    assert stored_tables(both.folder)[name] == stored_tables(config.folder)[name]
    norms = []
    with torch.no_grad():
        for text in Path(config.data).read_text().splitlines()[:3]:
            cache = model.run_with_cache(model.to_tokens(text))[1]
            layers = range(model.cfg.n_layers)
            norms.append(torch.stack([cache[f"blocks.{layer}.hook_resid_pre"][0].norm(dim=-1) for layer in layers], 1))
    np.testing.assert_allclose(both.tables["residuals_norms"]["norm"], torch.cat(norms).mean(0), rtol=1e-5)
    of_the_docs.write_text(of_the_docs.read_text() + "\n# changed\n")
    with pytest.raises(InputError, match=r"study\.residuals\.source was"):
        run("residuals:Residuals", family="llama", limit=3)


@pytest.mark.parametrize("family", ["gpt2", "bert"])
@pytest.mark.usefixtures("of_the_docs")
def test_a_study_of_ones_own_reads_maps(
    family: str,
    config_of: Callable[..., Config],
    run: Callable[..., CorpusRun],
    loaded: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the scopes that it names: its shares are those of the maps of the same texts."""
    monkeypatch.syspath_prepend(".")
    table = run("own_cells:OwnCells", family=family, limit=3, mask_fraction=0).tables["own-cells_shares"]
    texts = Path(config_of(family=family).data).read_text().splitlines()[:3]
    for scope in table.columns:
        maps = [ffb.contribution_maps(loaded(family), text, scopes=scope)[scope] for text in texts]
        shares = torch.cat([rows.diagonal(dim1=1, dim2=2) / rows.sum(dim=2) for rows in maps], dim=1)
        np.testing.assert_allclose(table[scope], shares.mean(dim=1), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("nowhere:Residuals", {}, "study='nowhere:Residuals': expected module:Class"),
        ("residuals:Nothing", {}, "study='residuals:Nothing': expected module:Class"),
        ("no_study:Residuals", {}, "is not a study"),
        ("residuals:Residuals", {"window": 3}, "residuals has no option window; it has none"),
    ],
)
def test_what_is_not_a_study_is_refused(
    of_the_docs: Path, monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, Any], says: str
) -> None:
    """By what was given and what was expected."""
    monkeypatch.syspath_prepend(str(of_the_docs.parent))
    with pytest.raises(InputError, match=says):
        study(name, **options)
