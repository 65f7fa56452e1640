"""The page's scripts are joined in one scope: each is on a page, all parse together, and no name is defined twice."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.page.node import NODE, needs_node
from tl_ffblock.page import document

PAGES = {"maps": document.SCRIPTS, "graph": document.GRAPH_SCRIPTS}
DEFINED = re.compile(r"^(?:async )?(?:function\*?|const|let|class) (\w+)", re.MULTILINE)


def test_every_script_is_on_a_page() -> None:
    """The folder holds the listed scripts and no other."""
    held = {path.stem for path in (Path(document.__file__).parent / "assets").glob("*.js")}
    assert held == {name for scripts in PAGES.values() for name in scripts}


@needs_node
@pytest.mark.parametrize("page", PAGES)
def test_scripts_of_a_page_go_together(page: str) -> None:
    """In the order in which they are on the page, in strict mode."""
    script = document.script_of(PAGES[page])
    source = "\n".join(document.asset(f"{name}.js") for name in PAGES[page])
    twice = [name for name, times in Counter(DEFINED.findall(source)).items() if times > 1]
    assert len(Counter(DEFINED.findall(source))) > 20 and "/**" not in script
    assert twice == []
    done = subprocess.run([str(NODE), "--check", "-"], input=script, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
