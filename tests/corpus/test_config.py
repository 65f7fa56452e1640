"""Options document themselves and refuse what no run can mean."""

from dataclasses import fields
from typing import Any

import pytest

from tl_ffblock.cli.main import parser
from tl_ffblock.cli.run import config_and_options
from tl_ffblock.corpus.settings import REQUIRED, declared_fields
from tl_ffblock.corpus.study import StudySpec
from tl_ffblock.errors import InputError
from tl_ffblock.experiments import PAPERS, STUDIES, Config, option_fields, studies_of, study, study_title


def test_what_is_declared_is_what_is_there() -> None:
    """Names, defaults and texts read from the source are those of the imported classes."""
    declarations = [(fields(Config), declared_fields("tl_ffblock.corpus.settings", "Config"))]
    declarations += [(fields(study(name).options), option_fields(name)) for name in STUDIES if option_fields(name)]
    assert len(declarations) == 8
    for there, declared in declarations:
        assert [field.name for field in declared] == [field.name for field in there]
        for field, expected in zip(declared, there, strict=True):
            assert field.default is REQUIRED or field.default == expected.default
            assert len(field.text) > 10


def test_help_shows_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    """All options of the run and of every study, each once."""
    with pytest.raises(SystemExit):
        parser().parse_args(["run", "--help"])
    shown = capsys.readouterr().out
    names = [field.name for name in STUDIES for field in option_fields(name)] + [f.name for f in fields(Config)]
    assert len(set(names)) == len(names), "two options have one name"
    assert all(f"--{name.replace('_', '-')}" in shown for name in names)
    assert all(f"options of {name}" in shown for name in STUDIES if option_fields(name))


def test_help_of_a_study_shows_its_own_options(capsys: pytest.CaptureFixture[str]) -> None:
    """With a study named, its paper and its options beside those of the run; other studies' options are still read."""
    given = ["run", "cost,heads", "--help"]
    with pytest.raises(SystemExit):
        parser(given).parse_args(given)
    shown = capsys.readouterr().out
    assert "--lengths" in shown and "--limit" in shown and "options of heads" in shown
    assert all(f"studies of {PAPERS[paper]}" in shown for paper in ("kobayashi", "clark"))
    assert not any(
        text in shown for text in ("--ignored-dimensions", "options of memories", f"studies of {PAPERS['geva']}")
    )
    given = ["run", "cost", "--data", "d", "--out", "o", "--keys", "3"]
    assert parser(given).parse_args(given).keys == 3


def test_every_study_is_of_a_paper(capsys: pytest.CaptureFixture[str]) -> None:
    """The help names each under its paper, with its title."""
    assert sorted(name for paper in PAPERS for name in studies_of(paper)) == sorted(STUDIES)
    with pytest.raises(SystemExit):
        parser().parse_args(["run", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for name in STUDIES:
        title = StudySpec(STUDIES[name]).study_class.title
        assert f"{name}: {title}" in shown and study_title(name) == title
    headings = [shown.index(f"studies of {title}") for title in PAPERS.values()]
    assert headings == sorted(headings) and shown.index("options of cost") < headings[1] < shown.index(
        "options of heads"
    )


def test_arguments_become_config_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers, lists, choices and absent values arrive as the fields' types, what is none is refused; options go to their studies."""
    given = "run bypass,cost --data d --out o --lengths 4,8 --limit 3 --mask-fraction 0.5"
    config, options = config_and_options(parser().parse_args(given.split()))
    assert (config.model, config.limit, config.mask_fraction, config.seed) == ("minilm", 3, 0.5, 0)
    assert options == [("bypass", {}), ("cost", {"lengths": (4, 8)})]
    with pytest.raises(SystemExit):
        parser().parse_args(["run", "cost", "--data", "d", "--out", "o", "--lengths", "8,x"])
    assert "argument --lengths: expected whole numbers with commas between them, not '8,x'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "wrong", "says"),
    [
        (None, {"engine": "dask"}, "local, ray"),
        (None, {"limit": 0}, "limit=0"),
        (None, {"batch_size": 0}, "batch_size=0"),
        (None, {"max_memory": "2 apples"}, "max_memory='2 apples': expected bytes above 0"),
        (None, {"mask_fraction": 1.0}, "mask_fraction"),
        (None, {"seed": -1}, "seed=-1"),
        (None, {"document_pattern": "("}, r"document_pattern='\('.*expected a regular expression"),
        ("norms", {}, "there is no study 'norms'; expected one or more of contextualization, "),
        ("", {}, "no study is given"),
        ("outliers", {"ignored_dimensions": -0.1}, "ignored_dimensions=-0.1"),
        ("attribution-methods", {"short_tokens": 30}, "short_tokens=30"),
        ("attribution-methods", {"shapley_samples": 0}, "shapley_samples=0"),
        ("cost", {"lengths": ()}, "lengths"),
        ("amplification", {"top_pairs": 0}, "top_pairs=0"),
        (
            "amplification",
            {"lengths": (4,)},
            "amplification has no option lengths; it has window, top_pairs, pmi_masked",
        ),
    ],
)
def test_wrong_settings_and_options_are_refused_by_name(name: str | None, wrong: dict[str, Any], says: str) -> None:
    """Of the run, or of a study: the message names the field, its value and what was expected."""
    with pytest.raises(InputError, match=says):
        Config("m", "d.txt", "o", **wrong) if name is None else study(name, **wrong)
