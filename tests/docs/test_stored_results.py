"""What docs/results keeps of a corpus run, of a run of three dimensions by hand."""

import io
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from PIL import Image

from docs.results import figures
from docs.results.stored import store
from tl_ffblock.results.figures import STYLE, sign


def test_a_run_is_rounded_cut_and_its_largest_dimensions_are_found(tmp_path: Path) -> None:
    """Five digits, ten pairs, largest outputs first with the rank of the gain's size, no list of what was masked."""
    tables = tmp_path / "run" / "tables"
    tables.mkdir(parents=True)
    (tmp_path / "run" / "summary.json").write_text('{"sequences": 1}')
    (tables / "masked.csv").write_text("text\nsecret\n")
    (tables / "bypass_norms.csv").write_text("layer,ff\n0,1.23456789\n")
    pd.DataFrame({"rank": range(1, 31), "query": "a"}).to_csv(tables / "amplification_top_pairs.csv", index=False)
    (tables / "outliers_dimensions.csv").write_text(
        "layer,dimension,gain,input,output\n0,0,-0.5,9,2\n0,1,0.1,9,8\n0,2,3,9,1\n0,3,2,9,4\n"
    )

    store(tmp_path / "run", tmp_path / "kept")

    kept = {path.name for path in (tmp_path / "kept").iterdir()}
    assert kept == {"summary.json", "bypass_norms.csv", "amplification_top_pairs.csv", "outliers_largest.csv"}
    assert (tmp_path / "kept" / "bypass_norms.csv").read_text() == "layer,ff\n0,1.2346\n"
    assert list(pd.read_csv(tmp_path / "kept" / "amplification_top_pairs.csv")["rank"]) == list(range(1, 11))
    largest = pd.read_csv(tmp_path / "kept" / "outliers_largest.csv")
    assert list(largest["dimension"]) == [1, 3, 0]
    assert list(largest["gain_rank"]) == [1, 3, 2]
    assert list(largest["over_median"]) == [2.6667, 1.3333, 0.66667]


def test_stored_pictures_are_what_studies_draw_now() -> None:
    """From the tables beside it, each kind of figure comes out as it is stored, but for a font's rendering."""
    drawn = set()
    for each in figures.redrawn():
        for name, figure in each.study.figures(each.tables).items():
            stored, kind = each.folder / f"{each.prefix}{name}.png", (each.prefix, name)
            if kind in drawn or not stored.is_file():
                continue
            drawn.add(kind)
            sign(figure, each.signature)
            picture = io.BytesIO()
            with mpl.rc_context(STYLE):
                figure.savefig(picture, format="png")
            now, then = (np.asarray(Image.open(file).convert("L"), dtype=float) for file in (picture, stored))
            assert now.shape == then.shape and (np.abs(now - then) > 64).mean() < 0.01, stored
    assert {prefix for prefix, _ in drawn} == {"", "amplification_", "bypass_", "attribution-methods_", "cost_"}
    assert len(drawn) == 11
