"""Pages that a reader can click, made at each build by running the code that stands on their page of the gallery."""

import re
import tempfile
from contextlib import chdir
from functools import cache
from pathlib import Path
from unittest.mock import patch

import tl_ffblock
from docs.site.repository import ROOT

GALLERY = ROOT / "docs" / "gallery"
_CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def pages() -> list[Path]:
    """The pages of the gallery that show code, by name."""
    return [page for page in sorted(GALLERY.glob("*.md")) if _CODE.search(page.read_text(encoding="utf-8"))]


def files() -> dict[str, str]:
    """What the code of all pages writes, by place: `NAME.html` is `gallery/live/NAME.html`. A model is loaded once for all."""
    written = {}
    loaded_once = patch.object(tl_ffblock, "load_model", cache(tl_ffblock.load_model))
    with tempfile.TemporaryDirectory() as folder, chdir(folder), loaded_once:
        for page in pages():
            for code in _CODE.findall(page.read_text(encoding="utf-8")):
                exec(compile(code, page.name, "exec"), {})
        for path in Path(folder).glob("*.html"):
            written[f"gallery/live/{path.name}"] = path.read_text(encoding="utf-8")
    return written
