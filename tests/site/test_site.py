"""The documentation site as a reader has it: a folder on a disk, without a network."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs.site import reference

pytestmark = pytest.mark.site
MOST_MEGABYTES_OF_A_PAGE = 3
PAGES = {
    "induction": "induction_heads",
    "ablate head": "ablation",
    "IOI": "ioi",
    "name mover": "ioi",
    "DLA": "direct_logit_attribution",
    "logit lens": "direct_logit_attribution",
    "path patching": "path_patching",
    "activation patching": "activation_patching",
    "circuit": "circuits",
    "save figure": "figure",
    "EAP": "attribution_patching",
    "BertViz": "coming_from",
    "Captum": "coming_from",
    "OV circuit": "heads",
    "QK circuit": "heads",
    "CircuitsVis": "heads",
    "zero small edges": "attention_knockout",
    "map as intervention": "patching",
    "prune attention edges": "attention_knockout",
    "edit attention pattern": "patching",
}
"""What is typed into the search, and the page that it finds first."""


def test_every_public_name_is_in_the_reference_and_no_other(site: Path) -> None:
    """Each public name has one heading; every other heading of a name is a member of a public class."""
    pages = [page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html")]
    headings = [name for page in pages for name in re.findall(r'<h[2-6] id="(tl_ffblock\.[\w.]+)"', page)]
    public = [reference.defined_at(name) for names in reference.public_names().values() for name in names]
    public += reference.type_names()
    assert {name: headings.count(name) for name in public} == dict.fromkeys(public, 1)
    assert {"tl_ffblock.attribution.targets.Target", "tl_ffblock.layer.records.Method"} <= set(reference.type_names())
    shown = (site / "reference" / "attribution.html").read_text(encoding="utf-8")
    assert 'href="types.html#tl_ffblock.attribution.targets.Target"' in shown
    classes = {name for name in public if name.rpartition(".")[2].lstrip("_")[0].isupper()}
    assert {name for name in headings if name.rpartition(".")[0] not in classes} == set(public)


def test_source_files_are_not_searched(site: Path) -> None:
    """They are pages of the site, but the search does not find them."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"].partition("/")[0] for entry in index["docs"]}
    assert (site / "source").is_dir() and "how_to" in places and "source" not in places


def test_pages_are_small(site: Path) -> None:
    """Nobody waits for a page."""
    large = {page.name for page in site.rglob("*.html") if page.stat().st_size > MOST_MEGABYTES_OF_A_PAGE * 1e6}
    assert large == set()


@pytest.mark.browser
def test_the_folder_is_opened_from_disk_and_searched(site: Path, chromium: Any) -> None:
    """With the network off a page asks for nothing but files, no script fails, and the search finds a function's page."""
    window = chromium.new_context(offline=True)
    tab = window.new_page()
    problems: list[str] = []
    requests: list[str] = []
    tab.on("console", lambda message: problems.append(message.text))
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto((site / "index.html").as_uri())
    tab.keyboard.press("/")
    tab.keyboard.type("contribution_sweep")
    found = tab.locator(".md-search-result__item a").first
    found.wait_for()
    assert "contribution_sweep" in tab.locator(".md-search-result__item").first.inner_text()
    found.click()
    tab.wait_for_url("**/reference/interventions.html*")
    window.close()
    assert problems == []
    assert {address.partition(":")[0] for address in requests} <= {"file", "data", "about", "blob"}


@pytest.mark.browser
def test_words_of_the_field_find_their_page_first(site: Path, chromium: Any) -> None:
    """What a reader looks for is the first page of the search, and its how-to."""
    window = chromium.new_context(offline=True)
    found = {}
    for words in PAGES:
        tab = window.new_page()
        tab.goto((site / "index.html").as_uri())
        tab.locator("input.md-search__input").focus()
        tab.keyboard.type(words)
        first = tab.locator(f".md-search-result__item a[href*='h={words.split()[0].lower()}']").first
        first.wait_for(state="attached")  # it may be a folded section of a page
        tab.wait_for_timeout(1000)  # results of the last letter
        first = tab.locator(".md-search-result__item a").first
        found[words] = str(first.get_attribute("href")).rpartition("/")[2].partition(".html")[0]
        tab.close()
    window.close()
    assert found == PAGES
