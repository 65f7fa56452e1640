"""Writes the generated blocks of the documents: no figure of a stored run stands there by hand.

    python -m docs.blocks          # from the root of the repository; writes all blocks of all pages

A block lies between `<!-- block: NAME -->` and `<!-- end of block -->`. What it says is rendered from tables and JSON
files that runs have written and that lie beside the page. The text around it may be reworded freely; a figure that is
no longer that of the stored run makes a test fail, and a sentence whose condition no longer holds is refused (`claim`).
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from docs import architecture, cost, coverage, hook_names, papers, result_classes, sizes, trust
from docs.results import (
    causal_tables,
    faithfulness_sentences,
    faithfulness_tables,
    findings,
    flow_tables,
    heads_tables,
    known_circuits_tables,
    memories_tables,
    vig_tables,
)

ROOT = Path(__file__).resolve().parent.parent
PAGES: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "README.md": cost.HEADS_BLOCKS,
    "CONTRIBUTING.md": sizes.BLOCKS,
    "docs/speed.md": {**cost.BLOCKS, **cost.PROMPT_BLOCKS},
    "docs/attribution.md": cost.ATTRIBUTION_BLOCKS,
    "docs/how_to/attribution_patching.md": cost.ESTIMATE_BLOCKS,
    "tl_ffblock/README.md": architecture.BLOCKS,
    "docs/transformer_lens.md": hook_names.BLOCKS,
    "docs/architectures.md": coverage.BLOCKS,
    "docs/trust.md": trust.BLOCKS,
    "docs/experiments.md": papers.BLOCKS,
    "docs/how_to/activation_patching.md": cost.PATCHING_BLOCKS,
    "docs/how_to/ioi.md": cost.IOI_BLOCKS,
    "docs/how_to/notebooks.md": cost.NOTEBOOK_BLOCKS,
    "docs/other_tools.md": {**cost.OTHER_TOOLS_BLOCKS, "gim": known_circuits_tables.said_of_gim},
    "docs/how_to/results.md": result_classes.BLOCKS,
    "docs/results/README.md": findings.BLOCKS,
    "docs/results/causal_validation.md": causal_tables.BLOCKS,
    "docs/results/faithfulness.md": {**faithfulness_tables.BLOCKS, **faithfulness_sentences.BLOCKS},
    "docs/results/flow.md": flow_tables.BLOCKS,
    "docs/results/heads.md": heads_tables.BLOCKS,
    "docs/results/known_circuits.md": known_circuits_tables.BLOCKS,
    "docs/results/memories.md": memories_tables.BLOCKS,
    "docs/results/vig.md": vig_tables.BLOCKS,
}
_BLOCK = re.compile(r"(<!-- block: (\S+) -->\n)(?:(?!<!-- block: ).)*?(\n<!-- end of block -->)", re.DOTALL)


def names(text: str) -> list[str]:
    """Names of the blocks of a page, in order."""
    return [name for _, name, _ in _BLOCK.findall(text)]


def rendered(text: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    """The page with all its blocks as they have to be now."""
    return _BLOCK.sub(lambda match: f"{match[1]}\n{blocks[match[2]]()}\n{match[3]}", text)


def main() -> None:
    """Write every page."""
    for name, blocks in PAGES.items():
        page = ROOT / name
        page.write_text(rendered(page.read_text(encoding="utf-8"), blocks), encoding="utf-8")
        print(page)


if __name__ == "__main__":
    main()
